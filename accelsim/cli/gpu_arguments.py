"""Arguments of the commands about GPUs, and those of other commands where the machine is a GPU."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from accelsim import cli
from accelsim.cli import Made, add, add_forms, add_overrides, add_sizes, make_command
from accelsim.gpu import ATTENTION, L2_STATES, LAYOUTS, LIBRARIES, PASSES

AddCommand = Callable[[str, str, str], argparse.ArgumentParser]
L2_OF_TABLE = "what L2 held where the column l2 does not say it (default: rotating)"
_L2 = (
    "what L2 holds when a kernel starts: what fits of the activations and of six layers' weights in turn "
    "(default), nothing, or what fits of the kernel's own operands and results"
)
_MIG = ("--mig PROFILE", "a MIG slice of the GPU, such as 1g.10gb")
_CALIBRATION = (
    "--calibration FILE",
    "constants that `accelsim calibrate` fitted, or `shipped` for those that come with accelsim (default: "
    "uncalibrated)",
)
_DECODER = ("MODEL", "a decoder: a file, a name that `accelsim list decoders` shows, or Hugging Face's config.json")
_PRECISION, _SKEW = "--precision NAME", "power by which tokens crowd on few experts"
_LETTERS = "tn, nn, nt, tt, as in names of kernels: weights t (K is contiguous) or n (N is), then inputs n (K) or t (M)"


def add_map_options(made: argparse.ArgumentParser) -> None:
    """Add the options of `map` on a GPU."""
    group = made.add_argument_group("on a GPU", "ARCH is a GPU: the fastest kernel tiling of each layer")
    add_prediction(group, "number format (default: fp16 for operands of 16 bit, and so on)")
    about = "the pass of training (default: forward)"
    add(group, "--pass", about, dest="training_pass", choices=PASSES, default=PASSES[0])
    about = (
        "attention as one kernel in which tokens see all keys (default) or those before them, as decoders do, or as "
        "two products"
    )
    add(group, "--attention", about, choices=ATTENTION, default=ATTENTION[0])
    about = "order in memory: nhwc (default), nchw, whose convolutions are turned, or of all products "
    _add_layout(group, about + _LETTERS, ("nhwc", "nchw", *LAYOUTS))


def refuse_gpu_options(arguments: argparse.Namespace) -> None:
    """Raise AccelsimError where an option is given that means nothing on a machine that is no GPU."""
    why = f"{arguments.arch} is no GPU; `accelsim gpus` shows those that ship"
    names = ("mig", "calibration", "dtype", "l2", "training_pass", "attention", "layout", "library")
    cli.refuse(arguments, why, *names)


def add_prediction(made: Made, dtype: str = "number format (default: fp16)", l2: str = _L2) -> None:
    """Add what a prediction of kernels is of."""
    add(made, *_MIG)
    add(made, *_CALIBRATION)
    _add_dtype(made, dtype, l2)


def _add_dtype(made: Made, dtype: str, l2: str) -> None:
    add(made, "--dtype FORMAT", dtype, cli.number_format)
    add(made, "--l2", l2, choices=L2_STATES, default=L2_STATES[0])


def _add_layout(made: Made, about: str, choices: Sequence[str]) -> None:
    add(made, "--layout", about, choices=choices, default=choices[0])
    about = "cuBLAS from 11 on (default), or before it: tensor cores in FP16 for multiples of 8 alone (Volta, Turing)"
    add(made, "--library", about, choices=LIBRARIES, default=LIBRARIES[0])


def add_commands(command: AddCommand) -> None:
    """Add the commands about GPUs."""
    made = command("gpus", "gpus", "list the GPUs that come with accelsim, or show one with the source of each figure")
    add(made, "GPU", "show this one: a name, a device name, or a file", nargs="?")
    add(made, *_MIG)
    add_forms(made)

    about = "fit the eight constants of a GPU's kernel model to measured matrix products"
    made = command("calibrate", "gpus", about)
    add(made, "MEASURED", "CSV with the columns M, N, K, dtype, time_us_median")
    add(made, "--gpu GPU", "the GPU that was measured", required=True)
    _add_dtype(made, "fit the rows of this number format, such as bf16", L2_OF_TABLE)
    add(made, "--source TEXT", "where the measurements come from, to be kept in the file")
    add(made, "-o FILE", "write the calibration there")
    add_forms(made)

    about = "advise on the sizes of a matrix product, or compare a profile with predictions"
    tasks = command("gpu", "gpus", about).add_subparsers(metavar="TASK", required=True, parser_class=cli.Parser)
    about = "show what tiles and waves cost a matrix product, and what rounding its sizes up would bring"
    made = _task(tasks, "advise", about, "M", "N", "K")
    add(made, "--gpu GPU", required=True)
    add_prediction(made)
    _add_layout(made, "order in memory: " + _LETTERS, LAYOUTS)
    add(made, "--tile ROWSxCOLUMNS", "try this tile alone, such as 256x128, with K in one part", default="")
    add(made, "--sweep", "the dimension that the chart varies (default: n)", choices=("m", "n", "k"))
    add(made, "-o FILE", "draw throughput over one dimension: FILE.png or FILE.svg", cli.picture)
    add_forms(made)

    _add_operators(tasks)
    _add_serve(tasks)
    _add_train(tasks)
    made = _task(tasks, "compare", "hold a profile of kernels against what is predicted for them")
    add(made, "PROFILE", "CSV of Nsight Systems or Compute, or with M, N, K, time; or trace.json of PyTorch's profiler")
    add(made, "--gpu GPU", required=True)
    add(made, "--workload WORKLOAD", "layers that NVTX ranges name, or that have the sizes of PyTorch's products")
    add_overrides(made, "override a parameter of the workload; may be repeated")
    add_sizes(made)
    about = (
        "what L2 holds when a kernel starts (default: what the profile says; nothing in Nsight Compute, else rotating)"
    )
    add_prediction(made, "number format (default: what the profile says, else fp16)", about)
    made.set_defaults(l2=None)
    add_forms(made)


def _task(tasks: Any, name: str, about: str, *places: str) -> argparse.ArgumentParser:
    """Add a task of `gpu` with arguments by their place; M, N and K are sizes."""
    made = make_command(tasks, name, f"gpu_{name}", "gpus", about)
    for place in places:
        add(made, place, None, cli.positive_int if len(place) == 1 else None)
    return made


def _add_operators(tasks: Any) -> None:
    """Add the operators that `gpu` times."""
    about = "time an operator that memory limits, such as relu or layer_norm, from cold memory"
    made = _task(tasks, "operator", about, "OPERATOR", "GPU")
    add(made, "--elements N", "of the input (default: 1048576)", cli.positive_int, default=2**20)
    add(made, "--dtype FORMAT", "number format (default: fp16)", cli.number_format)
    add(made, *_CALIBRATION)
    add(made, *_MIG)
    add_forms(made)

    about = "time fused attention: of one new token (decode) or of more (prefill), after cached ones"
    made = _task(tasks, "attention", about, "GPU")
    add(made, "--batch N", "sequences (default: 1)", cli.positive_int, default=1)
    add(made, "--tokens N", "new tokens of each (default: 1)", cli.positive_int, default=1)
    add(made, "--cached N", "tokens before them (default: 0)", cli.whole_number, default=0)
    add(made, "--heads N", "query heads", cli.positive_int, required=True)
    add(made, "--kv-heads N", "key-value heads (default: as many)", cli.positive_int)
    add(made, "--head-size N", "words of a head (default: 128)", cli.positive_int, default=128)
    add(made, "--window N", "keys that a token sees (default: all)", cli.positive_int, default=0)
    add(made, "--latent", "latent attention, as in DeepSeek: a head of 128 words, a latent vector of 512")
    add(made, "--dtype FORMAT", "of queries: bf16 (default), fp16 or fp8", default="bf16")
    add(made, "--cache-dtype FORMAT", "of keys and values (default: as the queries)")
    _add_stack(made)

    about = "time both products of a mixture of experts on one GPU, with what lies between"
    made = _task(tasks, "moe", about, "GPU")
    for name, about in {
        "--tokens N": "of all GPUs together",
        "--hidden N": "width of a token",
        "--inter N": "width between the products, on this GPU",
        "--experts N": "of all GPUs together",
        "--top N": "experts of a token",
    }.items():
        add(made, name, about, cli.positive_int, required=True)
    add(made, "--ep N", "GPUs that share the experts (default: 1)", cli.positive_int, default=1)
    add(made, "--skew X", _SKEW + ", such as 1.2 (default: 0, equal shares)", float, default=0.0)
    add(made, "--plain", "one product before the activation instead of two (gated)")
    precisions = "bf16, fp8, fp8_block, int8, int8_wo, int4_wo, nvfp4 or another (default: fp8)"
    add(made, _PRECISION, precisions, default="fp8")
    _add_stack(made)

    about = "time a product in a narrow format, with the pass that quantises its inputs"
    made = _task(tasks, "product", about, "GPU", "M", "N", "K")
    add(made, _PRECISION, precisions, default="fp8")
    _add_stack(made)

    about = "time an all-reduce, all-gather, reduce-scatter or all-to-all of the GPUs of a node"
    made = _task(tasks, "collective", about, "GPU")
    add(made, "OPERATION", "all_reduce, all_gather, reduce_scatter or all_to_all")
    add(made, "--gpus N", "how many (default: 8)", cli.positive_int, default=8)
    add(made, "--size SIZE", "the whole message, such as 16 MiB", cli.memory, required=True)
    add(made, "--one-shot", "an all-reduce of the stack's own kernels, such as those of vLLM, instead of NCCL")
    _add_stack(made)


def _add_counts(made: argparse.ArgumentParser, what: str, **abouts: str) -> None:
    """Add options of which each takes several values, of which each makes `what`."""
    several = f"; several, such as 1,2,4, make {what} (default: 1)"
    for name, about in abouts.items():
        add(made, f"--{name} LIST", about + several, cli.counts, default=(1,))


_TP, _PP = "GPUs that share each layer (tensor parallel)", "stages that share the layers (pipeline parallel)"


def _add_train(tasks: Any) -> None:
    about = "time, throughput, memory of states and energy of a training step of a decoder on many GPUs"
    made = _task(tasks, "train", about)
    add(made, *_DECODER)
    add(made, "GPU", None)
    _add_counts(
        made,
        "a row for each",
        batch="sequences of a step, of all copies",
        micro="sequences that go through at once",
        dp="copies of the model (data parallel)",
        tp=_TP,
        pp=_PP,
        ep="GPUs that share the experts",
    )
    add(made, "--sequence N", "tokens of a sequence (default: 4096)", cli.positive_int, default=4096)
    about = "what copies share out: none (default), optimizer states, gradients too, weights too (ZeRO 1 to 3)"
    add(made, "--shard WHAT", about, choices=("none", "optimizer", "gradients", "weights"), default="none")
    add(made, "--recompute", "keep the inputs of layers alone, and compute the rest again in the backward pass")
    add(made, "--no-overlap", "sum up gradients after the backward pass instead of meanwhile")
    about = "GB/s that each GPU sends to other nodes (default: 50, an InfiniBand NDR link for each)"
    add(made, "--network GB", about, cli.positive_int, default=50)
    add(made, _PRECISION, "of products: bf16 (default), fp8 or another of `gpu product`", default="bf16")
    add(made, "--skew X", _SKEW + " (default: 0)", float, default=0.0)
    add(made, *_CALIBRATION)
    _add_stack(made)


def _add_serve(tasks: Any) -> None:
    about = "time to first token, time per output token, throughput, memory and energy of a decoder on several GPUs"
    made = _task(tasks, "serve", about)
    add(made, *_DECODER)
    add(made, "GPU", None)
    about = "GPUs that share the experts; where they are more than --tp, each --tp of them have sequences of their own"
    _add_counts(made, "a sweep", batch="sequences at once", tp=_TP, pp=_PP, ep=about)
    add(made, "--prompt N", "tokens of a prompt (default: 2048)", cli.positive_int, default=2048)
    about = "tokens with which all prompts begin, and which the cache holds already (default: 0)"
    add(made, "--prefix N", about, cli.whole_number, default=0)
    about = "tokens of an answer (default: 512)"
    add(made, "--output N", about, cli.positive_int, default=512, dest="output_tokens")
    about = "prompt tokens that go through at once, at most; a prompt is never split (default: 8192)"
    add(made, "--step-tokens N", about, cli.positive_int, default=8192)
    about = "of weights and products: bf16 (default), fp8, nvfp4 or another of `gpu product`"
    add(made, _PRECISION, about, default="bf16")
    add(made, "--cache-dtype FORMAT", "of the key-value cache: bf16 (default) or fp8", default="bf16")
    add(made, "--skew X", _SKEW + " (default: 0)", float, default=0.0)
    about = "constants of products that `accelsim calibrate` fitted (default: those that ship, if they do)"
    add(made, "--calibration FILE", about)
    about = "draw the throughput of a sweep over the time per token: FILE.png or FILE.svg"
    made.add_argument("-o", "--plot", metavar="FILE", dest="output", help=about, type=cli.picture)
    add(made, "--html FILE", "write one page to open in a browser and explore, of a sweep")
    _add_stack(made)


def _add_stack(made: argparse.ArgumentParser) -> None:
    about = (
        "software whose kernels are meant, such as vllm, or as the answer names it (default: all that were measured)"
    )
    add(made, "--stack NAME", about, default="")
    add(made, *_MIG)
    add_forms(made)
