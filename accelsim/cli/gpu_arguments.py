"""Arguments of the commands about GPUs."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from accelsim.cli import argument_types
from accelsim.gpu import L2_STATES, ROTATING
from accelsim.inputs.errors import AccelsimError

L2_HELP = (
    "what L2 holds when a kernel starts: what fits of the activations and of six layers' weights in turn (default), "
    "nothing, or what fits of the kernel's own operands and results"
)
L2_OF_TABLE = "what L2 held where the column l2 does not say it (default: rotating)"
AddCommand = Callable[[str, str], argparse.ArgumentParser]


def add_commands(command: AddCommand) -> None:
    """Add the commands about GPUs to the command line."""
    made = command("gpus", "list the GPUs that come with accelsim, or show one with the source of each figure")
    made.add_argument("gpu", nargs="?", metavar="GPU", help="show this one: a name, a device name, or a file")
    _add_mig(made)
    argument_types.add_forms(made)

    made = command("calibrate", "fit the eight constants of a GPU's kernel model to measured matrix products")
    made.add_argument("measured", metavar="MEASURED", help="CSV with the columns M, N, K, dtype, time_us_median")
    made.add_argument("--gpu", required=True, metavar="GPU", help="the GPU that was measured")
    _add_dtype(made, "fit the rows of this number format, such as bf16")
    _add_l2(made, L2_OF_TABLE)
    made.add_argument("--source", metavar="TEXT", help="where the measurements come from, to be kept in the file")
    made.add_argument("-o", "--output", metavar="FILE", help="write the calibration there")
    argument_types.add_forms(made)

    made = command("gpu", "advise on the sizes of a matrix product, or compare a profile with predictions")
    tasks = made.add_subparsers(metavar="TASK", required=True, parser_class=type(made))
    advise = "show what tiles and waves cost a matrix product, and what rounding its sizes up would bring"
    compare = "hold a profile of kernels against what is predicted for them"
    for name, about, add in (("advise", advise, add_advise), ("compare", compare, add_compare)):
        task = tasks.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".", allow_abbrev=False)
        task.set_defaults(command=f"gpu_{name}_command", parser=task)
        add(task)


def add_roofline(made: argparse.ArgumentParser) -> None:
    """Add the options of `roofline` on a GPU."""
    group = made.add_argument_group("on a GPU", "ARCH is a GPU: its memories, and the fastest kernel of each layer")
    _add_mig(group)
    add_calibration(group)
    _add_dtype(group, "number format (default: fp16)")
    _add_l2(group)


def add_advise(made: argparse.ArgumentParser) -> None:
    """Add the arguments of `gpu advise`."""
    for name in ("M", "N", "K"):
        made.add_argument(name.lower(), metavar=name, type=argument_types.positive_int)
    made.add_argument("--gpu", required=True, metavar="GPU")
    _add_prediction(made)
    made.add_argument("--sweep", choices=("m", "n", "k"), help="the dimension that the chart varies (default: n)")
    made.add_argument("-o", "--output", metavar="FILE", help="draw throughput over one dimension: FILE.png or FILE.svg")
    argument_types.add_forms(made)


def add_compare(made: argparse.ArgumentParser) -> None:
    """Add the arguments of `gpu compare`."""
    made.add_argument("profile", metavar="PROFILE", help="CSV of Nsight Systems or Compute, or with M, N, K, time")
    made.add_argument("--gpu", required=True, metavar="GPU")
    made.add_argument("--workload", metavar="WORKLOAD", help="layers that NVTX ranges name")
    _add_prediction(made, "number format (default: what a table with M, N, K and time says, else fp16)")
    argument_types.add_forms(made)


def _add_prediction(made: argparse.ArgumentParser, dtype: str = "number format (default: fp16)") -> None:
    _add_mig(made)
    add_calibration(made)
    _add_dtype(made, dtype)
    _add_l2(made)


def add_map(made: argparse.ArgumentParser) -> None:
    """Add the options of `map` on a GPU."""
    group = made.add_argument_group("on a GPU", "ARCH is a GPU: the fastest kernel tiling of each layer")
    _add_mig(group)
    add_calibration(group)
    group.add_argument(
        "--winograd", action="store_true", help="compare Winograd's algorithm too for convolutions of 3 x 3"
    )
    _add_dtype(group, "number format (default: fp16 for operands of 16 bit, and so on)")
    _add_l2(group)
    group.add_argument(
        "--pass", dest="training_pass", choices=("forward", "input_gradient", "weight_gradient"), default="forward",
        help="the pass of training (default: forward)",
    )  # fmt: skip


def add_validation(made: argparse.ArgumentParser) -> None:
    """Add the options of `validate gemm`."""
    group = made.add_argument_group("gemm", "measured against predicted times of matrix products on a GPU")
    group.add_argument("--gpu", metavar="GPU", help="the GPU that was measured (default: what the table says)")
    _add_mig(group)
    add_calibration(group)
    _add_dtype(group, "number format of the rows of which the table does not say it by a name that is known")
    _add_l2(group, L2_OF_TABLE)


def add_calibration(made: argparse._ActionsContainer) -> None:
    """Add the choice between the two modes of the kernel model."""
    made.add_argument(
        "--calibration", metavar="FILE",
        help="constants that `accelsim calibrate` fitted, or `shipped` for those that come with accelsim "
        "(default: uncalibrated)",
    )  # fmt: skip


def _add_dtype(made: argparse._ActionsContainer, about: str) -> None:
    made.add_argument("--dtype", metavar="FORMAT", type=argument_types.number_format, help=about)


def _add_l2(made: argparse._ActionsContainer, about: str = L2_HELP) -> None:
    made.add_argument("--l2", choices=L2_STATES, default=ROTATING, help=about)


def _add_mig(made: argparse._ActionsContainer) -> None:
    made.add_argument("--mig", metavar="PROFILE", help="a MIG slice of the GPU, such as 1g.10gb")


_OF_GPUS = {
    **{"mig": None, "calibration": None, "dtype": None},
    **{"l2": ROTATING, "training_pass": "forward", "winograd": False},
}


def refuse_gpu_options(arguments: argparse.Namespace) -> None:
    """Refuse options that mean nothing on a machine that is no GPU.

    Raises
    ------
    AccelsimError
        If there is one.
    """
    for name, usual in _OF_GPUS.items():
        if getattr(arguments, name) != usual:
            option = "pass" if name == "training_pass" else name
            raise AccelsimError(f"--{option}: {arguments.arch} is no GPU; `accelsim gpus` shows those that ship")
