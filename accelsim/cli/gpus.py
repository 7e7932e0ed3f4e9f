"""The commands about GPUs."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.api import gpus
from accelsim.cli import answer, refuse, show, taken
from accelsim.cli.inputs import read_params, read_workload
from accelsim.gpu.advice import points, ridges
from accelsim.gpu.calibration import calibrate, mode_of
from accelsim.gpu.catalogue import load_gpu, may_be
from accelsim.gpu.gemms import Setup
from accelsim.gpu.kernel import best_kernels
from accelsim.gpu.measured import read_measured
from accelsim.gpu.network import gemms_of, product_of
from accelsim.gpu.profiles import compare_profile, kernels_of, read_profile
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.library import hash_file
from accelsim.results import write_page
from accelsim.show.report import gpu as reports

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FOREIGN = (
    *("constraints", "require", "objective", "top", "mapspace", "factors", "pareto", "sample", "seed", "html"),
    *("all_layers", "sensitivity", "time_limit", "memory_limit"),
)
"""Options of `map` that a GPU has no use for."""


def map_on_gpu(arguments: argparse.Namespace) -> int:
    """Choose the fastest kernel of each layer on a GPU, as `map` does where ARCH is one."""
    refuse(arguments, "not for a GPU: `accelsim gpu map` has the options for GPUs", *_FOREIGN)
    given: dict[str, Any] = {"layer": arguments.layer, "params": read_params(arguments), "brief": arguments.quiet}
    return show(arguments, gpus.map_kernels(arguments.arch, arguments.workload, **given))


def gpu_map_command(arguments: argparse.Namespace) -> int:
    """Choose the fastest kernel of each layer on a GPU."""
    given = taken(arguments, "layer", "mig", "calibration", "dtype", "l2", "training_pass", "attention", "layout")
    given |= {"library_version": arguments.library, "params": read_params(arguments), "brief": arguments.quiet}
    return show(arguments, gpus.map_kernels(arguments.arch, arguments.workload, **given))


def gpu_roofline(arguments: argparse.Namespace) -> int:
    """Show where the layers of workloads stand under the roofline of a GPU."""
    dtype = arguments.dtype or "fp16"
    gpu = load_gpu(arguments.arch, arguments.mig)
    workloads = [read_workload(arguments, name) for name in arguments.workloads]
    layers = [einsum for workload in workloads for einsum in workload.layers]
    mode = mode_of(gpu, dtype, arguments.calibration)
    gemms = gemms_of([product_of(einsum) for einsum in layers])
    kernels = best_kernels(gpu, [einsum.name for einsum in layers], gemms, dtype, mode, Setup(arguments.l2))
    levels, found = ridges(gpu, dtype), points(gpu, kernels)

    def figure() -> Axes:
        from accelsim.show.plots.diagram import plot_roofline

        return plot_roofline(gpu, dtype, levels, found)

    document = {"gpu": gpu.name, "mode": mode.text, "layers": [reports.point_row(point) for point in found]}
    return answer(
        arguments, document, lambda: reports.roofline_report(gpu, dtype, levels, found, mode.text), figure=figure
    )


def gpu_gemm_command(arguments: argparse.Namespace) -> int:
    """Time a GEMM, and advise on its sizes."""
    given = taken(arguments, "dtype", "mig", "calibration", "l2", "layout", "tile", "stack", "over")
    sizes = arguments.m, arguments.n, arguments.k
    return show(arguments, gpus.gemm(arguments.gpu, *sizes, **given, library_version=arguments.library))


def gpu_profile_command(arguments: argparse.Namespace) -> int:
    """Compare a profile of kernels with predictions."""
    gpu = load_gpu(arguments.gpu, arguments.mig)
    profile, left_out = kernels_of(gpu, read_profile(arguments.profile), arguments.dtype)
    if not profile:
        raise InputError(left_out)
    if not arguments.workload and (arguments.params or arguments.batch or arguments.seq_len):
        raise AccelsimError("--set, --batch and --seq-len set parameters of a workload, and none is given")
    layers = read_workload(arguments, arguments.workload).layers if arguments.workload else ()
    found, unmatched = compare_profile(gpu, profile, layers, arguments.calibration, l2=arguments.l2)
    modes = {case.predicted.number_format: case.predicted.mode for case in found}
    texts = dict.fromkeys(modes.values()) or [mode_of(gpu, arguments.dtype or "fp16", arguments.calibration).text]
    mode = "; ".join(f"{name} {text}" for name, text in modes.items()) if len(texts) > 1 else next(iter(texts))
    rows = [reports.compared_row(case) for case in found]
    names, reasons = [kernel.name for kernel in unmatched], [str(problem) for problem in left_out]
    document = {"gpu": gpu.name, "mode": mode, "doubt": reports.doubt_of(found), "layers": rows}
    document |= {"unmatched": names, "not_compared": reasons}
    return answer(arguments, document, lambda: reports.compared_report(gpu.name, mode, found, unmatched, left_out))


def gpu_op_command(arguments: argparse.Namespace) -> int:
    """Time a memory-bound operator."""
    given = taken(arguments, "elements", "mig", "calibration")
    return show(arguments, gpus.op(arguments.gpu, arguments.operator, **given, dtype=arguments.dtype or "fp16"))


def gpu_attention_command(arguments: argparse.Namespace) -> int:
    """Time fused attention."""
    names = ("heads", "batch", "tokens", "cached", "kv_heads", "head_size", "window", "latent", "dtype", "cache_dtype")
    return show(arguments, gpus.attention(arguments.gpu, **taken(arguments, *names, "stack", "mig")))


def gpu_moe_command(arguments: argparse.Namespace) -> int:
    """Time the experts of a mixture of experts."""
    names = ("tokens", "hidden", "inter", "experts", "top", "ep", "skew", "dtype", "stack", "mig")
    return show(arguments, gpus.moe(arguments.gpu, **taken(arguments, *names), gated=not arguments.plain))


def gpu_collective_command(arguments: argparse.Namespace) -> int:
    """Time a collective of several GPUs."""
    names = ("gpus", "size", "one_shot", "stack", "mig")
    return show(arguments, gpus.collective(arguments.gpu, arguments.operation, **taken(arguments, *names)))


def gpu_serve_command(arguments: argparse.Namespace) -> int:
    """Time the serving of a language model on several GPUs, or many splits of it."""
    names = ("batch", "tp", "pp", "ep", "prompt", "prefix", "step_tokens", "together", "dtype", "cache_dtype", "skew")
    given = taken(arguments, *names, "calibration", "stack", "mig")
    return show(arguments, gpus.serve(arguments.gpu, arguments.model, **given, output=arguments.output_tokens))


def gpu_calibrate_command(arguments: argparse.Namespace) -> int:
    """Fit the constants of a GPU to measured kernels."""
    if arguments.output and not Path(os.path.abspath(arguments.output)).parent.is_dir():
        raise AccelsimError(f"-o {arguments.output}: no such folder; make it first")
    gpu = load_gpu(arguments.gpu)
    tables = read_measured(arguments.measured, number_format=arguments.dtype, unknown_too=False, l2=arguments.l2)
    own = [table for table in tables if may_be(gpu, table.device)]
    own = [table for table in own if table.number_format in gpu.operations_per_sm_cycle]
    own = [table for table in own if arguments.dtype in (None, table.number_format)]
    if len(own) != 1:
        kinds = {(table.device or "no device", table.number_format, table.l2) for table in own or tables}
        names = [f"{device} ({number_format}, L2 {l2})" for device, number_format, l2 in sorted(kinds)]
        several = len({table.number_format for table in own}) > 1
        which = "--dtype" if several else "a table of one device and one state of L2"
        hint = f"say which with {which}" if own else f"say another GPU than {gpu.name}, or another --dtype"
        raise AccelsimError(
            f"{arguments.measured}: expected kernels of {gpu.name} in one number format and one state of L2, "
            f"found {', '.join(names)}; {hint}"
        )
    source = {"file": Path(arguments.measured).name, "sha256": hash_file(arguments.measured), "device": own[0].device}
    found = calibrate(gpu, own[0], {**source, "about": arguments.source or ""})
    written = [str(write_page(arguments.output, found.to_json()))] if arguments.output else []
    notes = [f"\n{own[0].note}"] if own[0].note else []
    return answer(
        arguments, json.loads(found.to_json()), lambda: [*reports.calibration_report(found), *notes], *written
    )
