"""The commands about GPUs."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.cli import answer, refuse, taken
from accelsim.cli.inputs import find_layer, read_workload
from accelsim.gpu import ATTENTION, LAYOUTS, PASS_LAYOUTS, PASSES
from accelsim.gpu.advice import advise, points, ridges, sweep
from accelsim.gpu.attention import attention_shapes, latent_shapes, time_attention, word_bytes
from accelsim.gpu.calibration import calibrate, mode_of
from accelsim.gpu.catalogue import BYTES, Gpu, catalogue, load_gpu, may_be, packed, wide_format
from accelsim.gpu.collectives import collective_shapes, time_collective
from accelsim.gpu.decoder import load_decoder
from accelsim.gpu.fitted import KernelTimes, time_kernels
from accelsim.gpu.gemm import LARGEST, Setup
from accelsim.gpu.kernel import best_kernels, operator, time_operators
from accelsim.gpu.measured import read_measured
from accelsim.gpu.network import gemms_of, network_kernels, product_of, too_large, turned
from accelsim.gpu.profile import compare_profile, kernels_of, read_profile
from accelsim.gpu.quantised import EXPERTS, PRODUCT, experts_shapes, precision_of, precisions, product_shapes
from accelsim.gpu.serve import Request, Split, front, misfit, refusal, serve
from accelsim.gpu.work import serving_mode
from accelsim.inputs.errors import AccelsimError, NoValidMapping, SpecError
from accelsim.inputs.library import hash_file
from accelsim.results import to_json, write_page
from accelsim.show.report import gpu as reports
from accelsim.show.report import serving

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from accelsim.show.table import Piece

_SWEPT = 1200
_ALIGNED = 8
"""A coarser sweep takes multiples of this, so that it is no sample of the odd sizes alone."""
_MOST_LINES = 5
"""Layers that are named as left out."""
_FOREIGN = (
    *("constraints", "limit", "objective", "top", "within", "uneven", "even"),
    *("imperfect", "pad", "pareto", "mappings", "seed", "html", "all_layers"),
)
"""Options of `map` that a GPU has no use for."""


def gpus_command(arguments: argparse.Namespace) -> int:
    """List the GPUs that ship, or show one."""
    if arguments.gpu is None:
        if arguments.mig:
            raise AccelsimError("--mig needs a GPU, such as `accelsim gpus a100 --mig 1g.10gb`")
        rows = [reports.gpu_row(gpu) for gpu in catalogue()]
        return answer(arguments, {"gpus": rows}, lambda: reports.gpus_report(rows))
    slices = arguments.mig.split(",") if arguments.mig else []
    if len(slices) > 1:
        whole = load_gpu(arguments.gpu)
        placed = packed(whole, slices)
        return answer(arguments, {"gpu": whole.name, "slices": placed}, lambda: reports.packed_report(whole, placed))
    gpu = load_gpu(arguments.gpu, arguments.mig)
    return answer(arguments, reports.gpu_row(gpu), lambda: reports.gpu_report(gpu))


def map_on_gpu(arguments: argparse.Namespace) -> int:
    """Choose the fastest kernel tiling of each layer on a GPU."""
    refuse(arguments, "not for a GPU, whose kernel tilings are few; all are compared, by time", *_FOREIGN)
    gpu = load_gpu(arguments.arch, arguments.mig)
    workload = read_workload(arguments, arguments.workload)
    layer = find_layer(workload, arguments.layer, arguments.workload)
    layers = [layer] if layer else list(workload.layers)
    products, left_out = [], []
    for einsum in list(layers):
        try:
            products.append(product_of(einsum, arguments.training_pass))
        except AccelsimError as error:
            left_out.append(str(error))
            layers.remove(einsum)
    if not products:
        raise AccelsimError(left_out[0])
    if left_out and not arguments.quiet:
        sys.stderr.write("".join(f"left out of the total: {line}\n" for line in left_out[:_MOST_LINES]))
        more = len(left_out) - _MOST_LINES
        sys.stderr.write(f"and {more} more layers\n" if more > 0 else "")
    bits = {product.bits for product in products}
    number_format = arguments.dtype or {64: "fp64", 32: "fp32", 16: "fp16", 8: "int8", 4: "int4"}.get(max(bits))
    if number_format is None or (len(bits) > 1 and not arguments.dtype):
        raise AccelsimError(f"operands of {', '.join(map(str, sorted(bits)))} bit: say which number format: --dtype")
    mode = mode_of(gpu, number_format, arguments.calibration)
    refused = too_large(gpu, layers, number_format)
    if refused:
        raise NoValidMapping(f"{workload.name}: {refused}")
    fused = ATTENTION[-1] if layer or arguments.training_pass != PASSES[0] else arguments.attention
    layout = arguments.layout if arguments.layout in LAYOUTS else PASS_LAYOUTS[arguments.training_pass]
    setup = Setup(arguments.l2, layout, arguments.library)
    pairs = network_kernels(gpu, layers, products, workload.edges, number_format, mode, setup, fused)
    if arguments.layout == "nchw":
        by_name = {einsum.name: einsum for einsum in layers}
        pairs = [
            (turned(gpu, kernel, by_name[kernel.name], mode) if kernel.name in by_name else kernel, repeat)
            for kernel, repeat in pairs
        ]
    rows = [reports.kernel_row(kernel, repeat) for kernel, repeat in pairs]
    document: dict[str, Any] = {"gpu": gpu.name, "workload": workload.name, "mode": mode.text, "kernels": rows}
    if left_out:
        document["left_out"] = left_out
    if len(pairs) > 1:
        document["total"] = reports.totals(pairs)

    def report() -> Iterator[Piece]:
        if len(pairs) == 1:
            return reports.kernel_report(pairs[0][0], quiet=arguments.quiet)
        return reports.kernels_report(workload.name, pairs, quiet=arguments.quiet)

    return answer(arguments, document, report, files=lambda: {"kernels.json": to_json(document).encode()})


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


def gpu_advise_command(arguments: argparse.Namespace) -> int:
    """Advise on the sizes of a matrix product."""
    if arguments.sweep and not arguments.output:
        raise AccelsimError("--sweep draws a chart; say where to, such as -o sweep.png")
    gpu = load_gpu(arguments.gpu, arguments.mig)
    dtype, sizes = arguments.dtype or "fp16", (arguments.m, arguments.n, arguments.k)
    setup = Setup(arguments.l2, arguments.layout, arguments.library, arguments.tile)
    advice = advise(gpu, *sizes, dtype, arguments.calibration, setup)

    def figure() -> Axes:
        from accelsim.show.plots.diagram import plot_sweep

        name = arguments.sweep or "n"
        size = sizes["mnk".index(name)]
        first, last = max(1, size // 2), min(2 * size, LARGEST)
        step = -(-(last - first) // _SWEPT)
        step = step if step < _ALIGNED else -(-step // _ALIGNED) * _ALIGNED
        values = list(range(-(-first // step) * step, last + 1, step))
        mode = mode_of(gpu, dtype, arguments.calibration)
        tflops = sweep(gpu, name, values, *sizes, dtype, mode, setup)
        others = ", ".join(f"{key.upper()} = {value}" for key, value in zip("mnk", sizes, strict=True) if key != name)
        head = f"{gpu.name}, {dtype}, {others}{', tile ' if arguments.tile else ''}{arguments.tile}"
        return plot_sweep(name.upper(), values, tflops, (size, advice.kernel.tflops), head)

    return answer(arguments, reports.advice_json(advice), lambda: reports.advice_report(advice), figure=figure)


def gpu_compare_command(arguments: argparse.Namespace) -> int:
    """Hold a profile of kernels against what is predicted for them."""
    gpu = load_gpu(arguments.gpu, arguments.mig)
    profile, left_out = kernels_of(gpu, read_profile(arguments.profile), arguments.dtype)
    if not profile:
        raise SpecError(left_out)
    if not arguments.workload and (arguments.overrides or arguments.batch or arguments.sequence):
        raise AccelsimError("--set, --batch and --sequence set parameters of a workload, and none is given")
    layers = read_workload(arguments, arguments.workload).layers if arguments.workload else ()
    found, unmatched = compare_profile(gpu, profile, layers, arguments.calibration, l2=arguments.l2)
    modes = {case.predicted.number_format: case.predicted.mode for case in found}
    texts = dict.fromkeys(modes.values()) or [mode_of(gpu, arguments.dtype or "fp16").text]
    mode = "; ".join(f"{name} {text}" for name, text in modes.items()) if len(texts) > 1 else next(iter(texts))
    rows = [reports.compared_row(case) for case in found]
    names, reasons = [kernel.name for kernel in unmatched], [str(problem) for problem in left_out]
    document = {"gpu": gpu.name, "mode": mode, "doubt": reports.doubt_of(found), "layers": rows}
    document |= {"unmatched": names, "not_compared": reasons}
    return answer(arguments, document, lambda: reports.compared_report(gpu.name, mode, found, unmatched, left_out))


def gpu_operator_command(arguments: argparse.Namespace) -> int:
    """Time an operator that memory limits."""
    gpu, dtype = load_gpu(arguments.gpu, arguments.mig), arguments.dtype or "fp16"
    words, operations = operator(arguments.operator)
    mode = mode_of(gpu, dtype, arguments.calibration)
    time_us = float(
        time_operators(gpu, arguments.operator, np.array([float(arguments.elements)]), BYTES[dtype], mode.constants)[0]
    )
    moved = words * BYTES[dtype] * arguments.elements
    document = {
        **{"gpu": gpu.name, "operator": arguments.operator, "dtype": dtype, "mode": mode.text},
        **{"elements": arguments.elements, "time_us": time_us, "dram_bytes": moved},
        "intensity": operations / (words * BYTES[dtype]),
        "bytes_per_s": moved / time_us * 1e6,
    }
    return answer(arguments, document, lambda: reports.memory_bound_report(document))


def gpu_attention_command(arguments: argparse.Namespace) -> int:
    """Time fused attention."""
    gpu = load_gpu(arguments.gpu, arguments.mig)
    query, cache = word_bytes(arguments.dtype), word_bytes(arguments.cache_dtype or arguments.dtype)
    decode, sizes = arguments.tokens == 1, taken(arguments, "batch", "tokens", "heads", "cached")
    if arguments.latent:
        refuse(arguments, "not for latent attention; leave it out", "kv_heads", "window", "head_size")
        shapes = latent_shapes(**sizes, absorbed=decode, cache_bytes=cache)
    else:
        sizes |= {"kv_heads": arguments.kv_heads or arguments.heads, "window": arguments.window or 0}
        sizes |= taken(arguments, "head_size")
        shapes = attention_shapes(**sizes, query_bytes=query, cache_bytes=cache)
    times = time_attention(gpu, shapes, latent=arguments.latent, stack=arguments.stack)
    what = f"{'latent ' if arguments.latent else ''}attention, {'decode' if decode else 'prefill'}"
    return _operator_answer(arguments, gpu, what, times)


def gpu_moe_command(arguments: argparse.Namespace) -> int:
    """Time a mixture of experts."""
    gpu = load_gpu(arguments.gpu, arguments.mig)
    sizes = taken(arguments, "tokens", "hidden", "inter", "experts", "top", "skew")
    shapes = experts_shapes(arguments.precision, **sizes, ranks=arguments.ep, gated=1 if arguments.plain else 2)
    times = time_kernels(EXPERTS, gpu, shapes, arguments.stack)
    return _operator_answer(arguments, gpu, f"experts in {arguments.precision}", times)


def gpu_product_command(arguments: argparse.Namespace) -> int:
    """Time a product in a narrow format."""
    gpu = load_gpu(arguments.gpu, arguments.mig)
    shapes = product_shapes(gpu, arguments.precision, arguments.m, arguments.n, arguments.k)
    times = time_kernels(PRODUCT, gpu, shapes, arguments.stack)
    return _operator_answer(arguments, gpu, f"product in {arguments.precision}", times)


def gpu_collective_command(arguments: argparse.Namespace) -> int:
    """Time a collective of several GPUs."""
    gpu = load_gpu(arguments.gpu, arguments.mig)
    shapes = collective_shapes(arguments.operation, arguments.gpus, arguments.size)
    times = time_collective(gpu, shapes, one_shot=arguments.one_shot, stack=arguments.stack)
    return _operator_answer(arguments, gpu, f"{arguments.operation} of {arguments.gpus} GPUs", times)


def gpu_serve_command(arguments: argparse.Namespace) -> int:
    """Say what a decoder serves on several GPUs, or what many splits of it do."""
    gpu = load_gpu(arguments.gpu, arguments.mig)
    decoder, wide = load_decoder(arguments.model), wide_format(gpu)
    narrower = [] if wide == "bf16" else [f"{gpu.name} does not compute in bf16: {wide} instead"]
    sys.stderr.write("".join(f"{line}\n" for line in (*decoder.left, *narrower)))
    request = Request(
        **taken(arguments, "prompt", "skew", "step_tokens", "prefix"),
        output=arguments.output_tokens,
        precision=precisions()[precision_of(arguments.precision)].name,
        cache_bytes=word_bytes(arguments.cache_dtype),
    )
    if request.fresh < 1:
        raise AccelsimError(
            f"--prefix {request.prefix}: a prompt of {request.prompt} tokens must have more; raise --prompt"
        )
    lists = map(dict.fromkeys, taken(arguments, "tp", "pp", "ep", "batch").values())
    every = [Split(batch, tp, pp, ep) for tp, pp, ep, batch in itertools.product(*lists)]
    if arguments.output and len(every) == 1:
        raise AccelsimError("-o draws a sweep; give several --batch or --tp, such as --batch 1,4,16,64")
    if arguments.html and len(every) == 1:
        raise AccelsimError("--html shows a sweep; give several --batch or --tp, such as --batch 1,4,16,64")
    misfits = {split: why for split in every if (why := misfit(decoder, split))}
    splits = [split for split in every if split not in misfits]
    if not splits:
        raise AccelsimError(f"{decoder.name}: {misfits[every[0]]}")
    sys.stderr.write("".join(f"left out: {why}\n" for why in dict.fromkeys(misfits.values())))
    mode = serving_mode(gpu, arguments.calibration)
    points = serve(gpu, decoder, request, splits, mode, arguments.stack)
    fitting = [point for point in points if point.memory.fits]
    if not fitting:
        raise NoValidMapping(refusal(gpu, decoder, request, min(points, key=lambda point: point.memory.total).split))
    best = front(fitting)
    head = {"model": decoder.name, "gpu": gpu.name, "mode": mode.text, "request": asdict(request)}
    rows = [{**serving.serving_row(point), "front": point in best} for point in points]
    told = (decoder.name, gpu.name, request)

    def figure() -> Axes:
        from accelsim.show.plots.diagram import plot_serving

        return plot_serving(f"{decoder.name} on {gpu.name}, {request.prompt} + {request.output} tokens", fitting, best)

    def report() -> Iterator[Piece]:
        if len(every) == 1:
            return serving.serving_report(*told, points[0], mode.text)
        return serving.sweep_report(*told, points, mode.text)

    page = partial(serving.serving_page, *told, points, mode.text)
    return answer(arguments, {**head, "points": rows}, report, figure=figure, page=page)


def _operator_answer(arguments: argparse.Namespace, gpu: Gpu, what: str, times: KernelTimes) -> int:
    """Print the time of one operator, what it is made of, and what its constants were fitted to."""
    parts = {name: float(values[0]) for name, values in times.parts_us.items()}
    document: dict[str, Any] = {"gpu": gpu.name, "operator": what, "mode": times.label}
    document |= {"time_us": float(times.time_us[0]), "parts_us": parts}
    return answer(arguments, document, lambda: reports.operator_report(document))


def calibrate_command(arguments: argparse.Namespace) -> int:
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
        hint = f"say which with {which}" if own else f"say another --gpu than {gpu.name}, or another --dtype"
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
