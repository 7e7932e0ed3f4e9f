"""The commands `gpu advise` and `gpu compare`, and `roofline` on a GPU."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.cli.printing import DONE, answer
from accelsim.inputs.errors import AccelsimError, SpecError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SWEPT = 1200
_ALIGNED = 8
"""A coarser sweep takes multiples of this, so that it is no sample of the odd sizes alone."""


def gpu_roofline(arguments: argparse.Namespace) -> int:
    """Show where the layers of workloads stand under the roofline of a GPU."""
    from accelsim.cli.inputs import read_workload
    from accelsim.gpu.advice import points, ridges
    from accelsim.gpu.calibration import mode_of
    from accelsim.gpu.catalogue import load_gpu
    from accelsim.gpu.kernel import best_kernels
    from accelsim.gpu.layers import gemms_of, product_of
    from accelsim.show.report.gpu import point_row, roofline_report

    dtype = arguments.dtype or "fp16"
    gpu = load_gpu(arguments.arch, arguments.mig)
    workloads = [read_workload(arguments, name) for name in arguments.workloads]
    layers = [einsum for workload in workloads for einsum in workload.layers]
    mode = mode_of(gpu, dtype, arguments.calibration)
    gemms = gemms_of([product_of(einsum) for einsum in layers])
    kernels = best_kernels(gpu, [einsum.name for einsum in layers], gemms, dtype, mode, l2=arguments.l2)
    levels, found = ridges(gpu, dtype), points(gpu, kernels)
    if arguments.output:
        from accelsim.show.plots.throughput import plot_roofline

        write_figure(arguments.output, plot_roofline(gpu, dtype, levels, found))
    document = {"gpu": gpu.name, "mode": mode.text, "layers": [point_row(point) for point in found]}
    answer(arguments, document, lambda: roofline_report(gpu, dtype, levels, found, mode.text), arguments.output)
    return DONE


def gpu_advise_command(arguments: argparse.Namespace) -> int:
    """Advise on the sizes of a matrix product."""
    from accelsim.gpu.advice import advise, sweep
    from accelsim.gpu.calibration import mode_of
    from accelsim.gpu.catalogue import load_gpu
    from accelsim.gpu.gemm import LARGEST
    from accelsim.show.report.gpu import advice_json, advice_report

    if arguments.sweep and not arguments.output:
        raise AccelsimError("--sweep draws a chart; say where to, such as -o sweep.png")
    gpu = load_gpu(arguments.gpu, arguments.mig)
    dtype, sizes = arguments.dtype or "fp16", (arguments.m, arguments.n, arguments.k)
    advice = advise(gpu, *sizes, dtype, arguments.calibration, arguments.l2, stream_k=arguments.stream_k)
    if arguments.output:
        from accelsim.show.plots.throughput import plot_sweep

        name = arguments.sweep or "n"
        size = sizes["mnk".index(name)]
        first, last = max(1, size // 2), min(2 * size, LARGEST)
        step = -(-(last - first) // _SWEPT)
        step = step if step < _ALIGNED else -(-step // _ALIGNED) * _ALIGNED
        values = list(range(-(-first // step) * step, last + 1, step))
        mode = mode_of(gpu, dtype, arguments.calibration)
        l2, stream_k = arguments.l2, arguments.stream_k
        tflops = sweep(gpu, name, values, *sizes, dtype, mode, l2=l2, stream_k=stream_k)
        others = ", ".join(f"{key.upper()} = {value}" for key, value in zip("mnk", sizes, strict=True) if key != name)
        head = f"{gpu.name}, {dtype}, {others}"
        write_figure(arguments.output, plot_sweep(name.upper(), values, tflops, (size, advice.kernel.tflops), head))
    answer(arguments, advice_json(advice), lambda: advice_report(advice), arguments.output)
    return DONE


def write_figure(path: str, ax: Axes) -> None:
    """Write a figure as PNG or SVG, by the ending of its name."""
    from accelsim.results.folder import write_directory
    from accelsim.show.plots.style import figure_bytes

    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise AccelsimError(f"-o {path}: name a file that ends in .png or .svg")
    write_directory(Path(path).parent, {Path(path).name: figure_bytes(ax, [kind])[kind]})


def gpu_compare_command(arguments: argparse.Namespace) -> int:
    """Hold a profile of kernels against what is predicted for them."""
    from accelsim.gpu.calibration import mode_of
    from accelsim.gpu.catalogue import load_gpu
    from accelsim.gpu.compare import compare_profile, kernels_of
    from accelsim.gpu.profile import read_profile
    from accelsim.inputs import library
    from accelsim.inputs.workload_reader import load_workload
    from accelsim.show.report.gpu import compared_report, compared_row, doubt_of

    gpu = load_gpu(arguments.gpu, arguments.mig)
    profile, left_out = kernels_of(gpu, read_profile(arguments.profile), arguments.dtype)
    if not profile:
        raise SpecError(left_out)
    workload = arguments.workload and load_workload(library.resolve(arguments.workload, "workloads"))
    layers = workload.layers if workload else ()
    found, unmatched = compare_profile(gpu, profile, layers, arguments.calibration, l2=arguments.l2)
    modes = [case.predicted.mode for case in found] or [mode_of(gpu, arguments.dtype or "fp16").text]
    mode = "; ".join(dict.fromkeys(modes))
    rows = [compared_row(case) for case in found]
    names, reasons = [kernel.name for kernel in unmatched], [str(problem) for problem in left_out]
    document = {"gpu": gpu.name, "mode": mode, "doubt": doubt_of(found), "layers": rows}
    document |= {"unmatched": names, "not_compared": reasons}
    answer(arguments, document, lambda: compared_report(gpu.name, mode, found, unmatched, left_out))
    return DONE
