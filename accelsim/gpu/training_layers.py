"""Layers of a model as a training step runs them: kernels of the forward pass, and of the gradients.

Operators of a decoder are those of a step of prompts in `serving`; convolutions are normalized and activated. Sizes are
in words; `training.yaml` has the constants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from accelsim.gpu import PASS_LAYOUTS, PASSES
from accelsim.gpu.catalogue import read_tables
from accelsim.gpu.decoder import Decoder
from accelsim.gpu.network import MatrixProduct, product_of, products_of, reads_data
from accelsim.gpu.steps import LOGIT, Operator, Split, StepLoad, misfit, places, steps_of
from accelsim.gpu.work import WIDE, Work
from accelsim.inputs.workload import Workload

_FACTS = read_tables("training")


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How a step runs: samples of all copies, those of a copy at once, tokens of a sample, and the split over GPUs.

    `zero`: stage of ZeRO: 1 shares the optimizer out among copies, 2 gradients too, 3 weights too, which are gathered
    for each pass (Rajbhandari et al., SC 2020). `layout`: that of convolutions, which tensor cores need as `nhwc`: of
    `nchw`, inputs and outputs are turned (NVIDIA's guide to convolutional layers). `network_bytes_per_s`: of each GPU
    to other nodes.
    """

    batch: int
    micro: int
    tokens: int = 1
    dp: int = 1
    tp: int = 1
    pp: int = 1
    zero: int = 0
    recompute: bool = False
    optimizer: str = "adam"
    attention: str = "causal"
    layout: str = "nhwc"
    network_bytes_per_s: float = 50e9

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.dp * self.tp * self.pp

    @property
    def runs(self) -> int:
        """Micro-batches of a copy."""
        return self.batch // (self.micro * self.dp)


@dataclass(frozen=True, slots=True)
class TrainingKernel:
    """What one GPU runs so many times: a GEMM with its layout, work as `Pricing` has it, or a pass over words."""

    group: str
    gemm: MatrixProduct | None = None
    layout: str = "tn"
    work: Work | None = None
    words: float = 0.0
    times: float = 1.0


_Passes = tuple[list[TrainingKernel], list[TrainingKernel]]
"""Kernels of the forward and of the backward pass."""


@dataclass(frozen=True, slots=True)
class TrainingLayer:
    """A layer that runs so many times: words that its backward pass reads, words of its input, operations forward.

    `end`: `first` or `last`, of that stage alone; `send`, of each stage; nothing of layers that stages share out.
    """

    times: float
    end: str
    passes: _Passes
    kept: float
    inputs: float
    flops: float


def misfit_of(model: Decoder | Workload, plan: TrainingPlan) -> str:
    """Why a model cannot be trained so; nothing if it can."""
    if plan.batch % (each := plan.micro * plan.dp):
        return f"--batch {plan.batch} is not a multiple of {each}, the micro-batches of {plan.dp} copies"
    if isinstance(model, Decoder):
        return misfit(model, Split(plan.micro, plan.tp, plan.pp))
    return "a network of convolutions is trained on one GPU or on copies: --dp alone" if plan.tp * plan.pp > 1 else ""


def layers_of(model: Decoder | Workload, plan: TrainingPlan, *, turned: bool = False) -> list[TrainingLayer]:
    """Layers of a model for a micro-batch; `turned`: tensors of convolutions are turned for tensor cores."""
    return list(_of_decoder(model, plan) if isinstance(model, Decoder) else _of_network(model, turned=turned))


def _of_decoder(decoder: Decoder, plan: TrainingPlan) -> Iterator[TrainingLayer]:
    """Layers as in a step of prompts, with the logits and the loss of every token."""
    tokens, own = plan.micro * plan.tokens, math.ceil(decoder.vocabulary / plan.tp)
    logits = Operator("output layer", "GEMM", Work("product", (tokens, own, decoder.hidden, 1)))
    loss = Operator("loss", "element-wise", Work("move", (2 * LOGIT / WIDE * tokens * own,)))
    split, width = Split(plan.micro, plan.tp, plan.pp), decoder.heads // plan.tp * decoder.head_size
    step = {**steps_of(decoder, "bf16", split, StepLoad(plan.micro, plan.tokens)), "last": [logits, loss]}
    (times_of,) = places(decoder, replace(split, pp=1))
    for place, times in {**times_of, "send": float(plan.pp > 1)}.items():
        pairs = [pair for each in step[place] for pair in _of_operator(each, plan, decoder.head_size)]
        passes = [each for pair in pairs for each in pair[0]], [each for pair in pairs for each in pair[1]]
        gemms = [(kernel.times, kernel.gemm) for kernel in passes[0] if kernel.gemm]
        flops = sum(many * _flops(gemm) for many, gemm in gemms)
        if place in ("full", "sliding") and plan.attention != "apart":
            flops += (4 if plan.attention == "full" else 2) * tokens * plan.tokens * width
        if place == "sparse" and (experts := decoder.experts):
            flops += 2 * tokens * experts.top * (2 + decoder.gated) * decoder.hidden * experts.inter / plan.tp
        kept = sum(many * (gemm.m * gemm.k + gemm.m * gemm.n) * gemm.batch for many, gemm in gemms)
        if times:
            end, inputs = (place if place in ("first", "last", "send") else ""), tokens * decoder.hidden
            yield TrainingLayer(times, end, passes, kept, inputs if place not in ("dense", "sparse") else 0, flops)


def _of_operator(each: Operator, plan: TrainingPlan, head_size: int) -> Iterator[_Passes]:
    """Kernels of an operator of serving, and those of its backward pass."""
    kind, sizes = each.work.kind, each.work.sizes
    if kind == "product":
        m, n, k, many = map(int, sizes)
        yield _of_gemm(m, n, k, many, times=each.count)
    elif kind == "move":
        yield _over(sizes[0], 1.0, _FACTS["moved_backward"], each.count)
    elif kind == "attention" and plan.attention == "apart":
        tokens, many = int(sizes[1]), int(sizes[0] * sizes[3])
        yield _of_gemm(tokens, tokens, head_size, many, times=each.count)
        there, behind = _FACTS["scores"]
        yield _over(many * tokens**2, there, behind, each.count)
        yield _of_gemm(tokens, head_size, tokens, many, times=each.count)
    else:
        whole = kind == "attention" and plan.attention == "full"  # all pairs, not those below the diagonal alone
        back = {"attention": _FACTS["attention_backward"], "experts": 2.0}.get(kind, 1.0)
        times = each.count * (2 - 2 / (sizes[1] + 1) if whole else 1.0)
        forward = TrainingKernel(each.group, work=each.work, times=times)
        yield [forward], [replace(forward, times=times * back)]


def _of_gemm(m: int, n: int, k: int, many: int, *, times: float) -> _Passes:
    """A GEMM, and those of the gradients of its inputs and weights."""
    products = [MatrixProduct(*sizes, many, 1.0, 16) for sizes in ((m, n, k), (m, k, n), (n, k, m))]
    there, *back = (
        TrainingKernel("GEMM", product, PASS_LAYOUTS[name], times=times)
        for name, product in zip(PASSES, products, strict=True)
    )
    return [there], back


def _over(outputs: float, forward: float, backward: float, times: float = 1.0) -> _Passes:
    """Passes that move so many words for each output."""
    there = TrainingKernel("element-wise", words=forward * outputs, times=times)
    return [there], [replace(there, words=backward * outputs)]


def _of_network(network: Workload, *, turned: bool) -> Iterator[TrainingLayer]:
    """Layers of a network; each convolution is normalized and activated.

    The last one of a chain of layers is summed with what the chain read; one beside chains, a shortcut, is normalized
    alone.
    """
    fed, feeding = ({getattr(edge, end) for edge in network.edges} for end in ("consumer", "producer"))
    for layer, product in zip(*products_of(network)[:2], strict=True):
        data, few = reads_data(network, layer), product.batch == 1 and layer.dims.get("C", 8) < 8
        forward, *backward = (
            TrainingKernel("GEMM", product_of(layer, name), PASS_LAYOUTS[name], times=_FACTS["few_channels"] ** few)
            for name in PASSES if not (data and name == "input_gradient")
        )  # fmt: skip
        inputs, outputs = product.m * product.k * product.batch * product.unique, float(layer.output.words(layer.dims))
        passes = [([forward], backward)]
        if "R" in layer.dims:
            names = [
                "norm",
                *["activation"] * (data or layer.name in fed | feeding),
                *["sum"] * (layer.name in fed - feeding),
            ]
            passes += [_over(outputs, *_FACTS[name]) for name in names]
            passes += [_over(inputs + outputs, 2, 2 * len(backward))] * turned
        both = [each for pair in passes for each in pair[0]], [each for pair in passes for each in pair[1]]
        yield TrainingLayer(layer.repeat, "", both, inputs + outputs, inputs, _flops(product))


def _flops(product: MatrixProduct) -> float:
    return 2.0 * product.m * product.n * product.k * product.batch
