"""GPUs: their catalogue, the time of a kernel by its tiling, and what measurements say about it.

`catalogue` reads `arch/gpu/*.yaml` into a `Gpu` and finds those that ship. `constants` has what data sheets do not say
and the tiles of a GPU, `gemms` times all of them and takes the fastest; `kernel` describes what was taken, and has
operators that memory limits; `network` makes products of layers; `advice` has rooflines too. `fitted` has kernels by
few constants for each software stack, such as `attention_times` and `collectives`. `measured` reads products,
`calibration` fits a GPU's constants.
"""

from importlib import import_module
from typing import Any

ROTATING, COLD = "rotating", "cold"
L2_STATES = (ROTATING, COLD, "warm")
"""What L2 holds when a kernel starts: `rotating`, what fits of the activations and of several copies of the weights,
used in turn as in the layers of a network; `cold`, nothing; `warm`, what fits of the same product."""
LAYOUTS = ("tn", "nn", "nt", "tt")
"""How operands lie in memory, weights first, as cuBLAS and names of kernels have it (column-major). Weights: `t`, K is
contiguous, as in PyTorch's linear layers and NHWC convolutions; `n`, N is. Inputs: `n`, K is contiguous; `t`, M is."""
LIBRARIES = ("cublas11", "cublas10")
"""Generations of libraries: cuBLAS from 11.0 on, and before it, where tensor cores computed FP16 only of sizes that are
multiples of 16 B (NVIDIA's guide to matrix multiplication, tensor core requirements)."""
PASS_LAYOUTS = {"forward": "tn", "input_gradient": "nn", "weight_gradient": "nt"}
"""That of each pass of training, if no tensor is turned between them."""
PASSES = tuple(PASS_LAYOUTS)
ATTENTION = ("full", "causal", "apart")
"""How attention is computed: fused, every token seeing all keys, or those before it; or as two products."""


def __getattr__(name: str) -> Any:
    """Give the functions of `accelsim.api.gpus`, such as `accelsim.gpu.gemm`, when they are first used."""
    if name not in _FUNCTIONS:
        raise AttributeError(f"module 'accelsim.gpu' has no attribute {name!r}; there are {', '.join(_FUNCTIONS)}")
    return getattr(import_module(f"accelsim.api.{'training' if name == 'train' else 'gpus'}"), _FUNCTIONS[name])


_FUNCTIONS = {
    "map": "map_kernels",
    **{name: name for name in ("gemm", "op", "attention", "moe", "collective", "serve", "train")},
}
