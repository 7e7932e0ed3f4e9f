"""`accelsim.gpu`: kernels of layers, GEMMs, attention, experts, collectives, serving of language models."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from accelsim.api.asked import whole
from accelsim.api.problem import LOG, find_layer, params_of
from accelsim.api.shown import Drawings, Shown
from accelsim.gpu import ATTENTION, LAYOUTS, PASS_LAYOUTS, PASSES
from accelsim.gpu.advice import advise, sweep
from accelsim.gpu.attention_times import attention_shapes, latent_shapes, time_attention, word_bytes
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import BYTES, Gpu, format_of, load_gpu, wide_format
from accelsim.gpu.collectives import collective_shapes, time_collective
from accelsim.gpu.decoder import load_decoder
from accelsim.gpu.fitted import KernelTimes, time_kernels
from accelsim.gpu.gemms import LARGEST, Setup
from accelsim.gpu.kernel import operator, time_operators
from accelsim.gpu.network import format_of_operands, network_kernels, products_of, too_large, turned
from accelsim.gpu.quantised import EXPERTS, PRODUCT, experts_shapes, precision_of, precisions, product_shapes
from accelsim.gpu.serving import Request, front, refusal
from accelsim.gpu.serving import serve as serve_splits
from accelsim.gpu.steps import Split, misfit
from accelsim.gpu.work import serving_mode
from accelsim.inputs import library
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.params import check_overrides
from accelsim.inputs.units import SIZE_UNITS, parse_size_bits, quantity_pattern
from accelsim.inputs.workload import Einsum, Workload
from accelsim.inputs.workload_reader import load_workload
from accelsim.results import to_json
from accelsim.show.report import gpu as reports
from accelsim.show.report import serving
from accelsim.show.table import Piece

_SWEPT = 1200
_ALIGNED = 8
"""A coarser sweep takes multiples of this, so that it is no sample of the odd sizes alone."""
_MOST_LINES = 5
"""Layers that are named as left out."""


class GpuResult(Shown):
    """Times of kernels on a GPU.

    Attributes
    ----------
    values : dict
        Figures by name, with the unit in the name: what `--json` prints.
    """

    def __init__(
        self,
        title: str,
        values: Mapping[str, Any],
        report: Callable[[], Iterable[Piece]],
        drawings: Drawings | None = None,
        page: Callable[[], str] | None = None,
        time_us: float | None = None,
    ) -> None:
        self.title, self.values, self._report, self._drawings, self._page = title, values, report, drawings, page
        self._time_us = values.get("time_us", values.get("kernel", {}).get("time_us", time_us))

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def us(self) -> float:
        """Time [us]."""
        if self._time_us is None:
            raise AttributeError("a sweep has many times: to_pandas() has a row for each point")
        return float(self._time_us)

    @property
    def headline(self) -> str:
        """The result in a line."""
        return self.title if self._time_us is None else f"{self.title}: {self._time_us:.4g} us"

    def parts(self) -> Iterable[Piece]:
        """What the report is made of."""
        return self._report()

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints."""
        return dict(self.values)

    def to_pandas(self, table: str = "") -> Any:
        """Give the points of a sweep, or a table of the report, as a pandas DataFrame."""
        from pandas import DataFrame

        rows = self.values.get("points")
        return DataFrame([_flat(row) for row in rows]) if rows and not table else super().to_pandas(table)

    def page(self) -> str:
        """One page of HTML to explore a sweep in a browser."""
        return super().page() if self._page is None else self._page()

    def drawings(self) -> Drawings:
        """What can be drawn."""
        return self._drawings or {}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A point of a sweep as one row: how it is split, memory by its use, and figures; not what it is made of."""
    memory = {f"{name}_bytes": value for name, value in row["memory"].items()}
    figures = {name: value for name, value in row.items() if not isinstance(value, Mapping | list | tuple)}
    return {**row["split"], **figures, **memory}


class KernelsResult(GpuResult):
    """The fastest kernel of each layer on a GPU."""

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name."""
        return {"kernels.json": to_json(self.to_dict()).encode()}


def map_kernels(
    gpu: str,
    workload: Any,
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    mig: str | None = None,
    calibration: str | PathLike[str] | None = "auto",
    dtype: str | None = None,
    l2: str = "rotating",
    training_pass: str = "forward",
    attention: str = "full",
    layout: str = "nhwc",
    library_version: str = "cublas11",
    brief: bool = False,
) -> KernelsResult:
    """Find the fastest kernel of each layer of a workload on a GPU.

    Parameters
    ----------
    gpu : str
        A name of `accelsim list gpus`, a device name, or a file.
    workload, layer, params
        As for `accelsim.map`.
    mig : str, optional
        A MIG slice, such as `1g.10gb`.
    calibration : str or path, optional
        `auto`: fitted constants that ship, if any do; `none`; or a file.
    dtype : str, optional
        Number format, such as `bf16`; default: that of the operands' width, of 16 bit `bf16` (before Ampere `fp16`).
    l2 : {"rotating", "cold", "warm"}
        L2 at kernel start.
    training_pass, attention, layout, library_version : str
        As `--pass`, `--attention`, `--layout`, `--library` of `accelsim gpu map`.
    brief : bool
        Report the totals only.

    Examples
    --------
    >>> import accelsim
    >>> round(accelsim.gpu.map("h100_sxm", "gemm", dtype="bf16").us)
    5
    """
    device, network = load_gpu(gpu, mig), read_network(workload, params)
    one = find_layer(network, layer, str(workload))
    layers, products, left_out = products_of(network, one, training_pass)
    for line in left_out[:_MOST_LINES]:
        LOG.info("left out of the total: %s", line)
    if len(left_out) > _MOST_LINES:
        LOG.info("and %s more layers", len(left_out) - _MOST_LINES)
    number_format = dtype or format_of_operands(device, products)
    mode = mode_of(device, number_format, calibration)
    refused = too_large(device, layers, number_format)
    if refused:
        raise NoValidMappingError(f"{network.name}: {refused}")
    fused = ATTENTION[-1] if one or training_pass != PASSES[0] else attention
    setup = Setup(l2, layout if layout in LAYOUTS else PASS_LAYOUTS[training_pass], library_version)
    pairs = network_kernels(device, layers, products, network.edges, number_format, mode, setup, fused)
    if layout == "nchw":
        by_name = {einsum.name: einsum for einsum in layers}
        pairs = [
            (turned(device, kernel, by_name[kernel.name], mode) if kernel.name in by_name else kernel, repeat)
            for kernel, repeat in pairs
        ]
    rows = [reports.kernel_row(kernel, repeat) for kernel, repeat in pairs]
    document: dict[str, Any] = {"gpu": device.name, "workload": network.name, "mode": mode.text, "kernels": rows}
    document |= {"left_out": left_out} if left_out else {}
    total = reports.totals(pairs)
    document |= {"total": total} if len(pairs) > 1 else {}

    def report() -> Iterable[Piece]:
        if len(layers) == 1:
            return reports.kernel_report(pairs[0][0], quiet=brief)
        return reports.kernels_report(network.name, pairs, quiet=brief)

    return KernelsResult(
        f"{network.name} on {device.name}, {number_format}", document, report, time_us=total["time_us"]
    )


def read_network(workload: Any, params: Mapping[str, Any] | None) -> Workload:
    """Read the workload of a file, of a name, or as it is given."""
    if isinstance(workload, Workload):
        return workload
    if isinstance(workload, Einsum):
        return Workload(workload.name, (workload,))
    overrides = params_of(params)
    if isinstance(workload, Mapping) or (isinstance(workload, str) and "\n" in workload):
        return load_workload(workload, overrides)
    path = library.resolve(workload, "workloads")
    check_overrides(overrides, [path])
    return load_workload(path, overrides)


def gemm(
    gpu: str,
    M: int,  # noqa: N803
    N: int,  # noqa: N803
    K: int,  # noqa: N803
    *,
    dtype: str | None = None,
    mig: str | None = None,
    calibration: str | PathLike[str] | None = "auto",
    l2: str = "rotating",
    layout: str = "tn",
    library_version: str = "cublas11",
    tile: str = "",
    stack: str = "",
    over: str = "n",
) -> GpuResult:
    """Time a GEMM on a GPU: its fastest tile, its waves, and what rounding a size up gains.

    Parameters
    ----------
    M, N, K : int
        Outputs[M, N] = Inputs[M, K] x Weights[K, N].
    dtype : str, optional
        `fp16`, `bf16`, ...; or low precision, with the pass that quantizes the inputs: `fp8`, `int8_wo`, `nvfp4`, ...
        Default: `bf16` (before Ampere `fp16`).
    tile : str, optional
        Use this tile only, such as `256x128`.
    stack : str, optional
        Serving framework whose kernels to use; of low precision.
    over : {"m", "n", "k"}
        The dimension that `plot` varies.
    gpu, mig, calibration, l2, layout, library_version
        As for `accelsim.gpu.map`.

    Examples
    --------
    >>> import accelsim
    >>> found = accelsim.gpu.gemm("h100_sxm", 4096, 4096, 4096, dtype="bf16")
    >>> f"{found.us:.0f} us"
    '173 us'
    """
    _check(M=M, N=N, K=K)
    device, sizes = load_gpu(gpu, mig), (int(M), int(N), int(K))
    dtype = dtype or wide_format(device)
    if stack or (dtype not in device.operations_per_sm_cycle and _low_precision(dtype)):
        if tile or (l2, layout, library_version) != ("rotating", "tn", "cublas11"):
            raise AccelsimError(f"tile, l2, layout and library are of the tile model, which does not know {dtype}")
        _say_wide(device, dtype)
        times = time_kernels(PRODUCT, device, product_shapes(device, dtype, *sizes), stack)
        return _timed(device, f"GEMM in {dtype}", times)
    setup = Setup(l2, layout, library_version, tile)
    constants = None if calibration is None else str(calibration)
    advice = advise(device, *sizes, dtype, constants, setup)

    def drawn(ax: Any = None) -> Any:
        from accelsim.show.plots.diagram import plot_sweep

        size = sizes["mnk".index(over)]
        first, last = max(1, size // 2), min(2 * size, LARGEST)
        step = -(-(last - first) // _SWEPT)
        step = step if step < _ALIGNED else -(-step // _ALIGNED) * _ALIGNED
        values = list(range(-(-first // step) * step, last + 1, step))
        tflops = sweep(device, over, values, *sizes, dtype, mode_of(device, dtype, constants), setup)
        others = ", ".join(f"{key.upper()} = {value}" for key, value in zip("mnk", sizes, strict=True) if key != over)
        head = f"{device.name}, {dtype}, {others}{', tile ' if tile else ''}{tile}"
        return plot_sweep(over.upper(), values, tflops, (size, advice.kernel.tflops), head, ax)

    title = f"{M} x {N} x {K} on {device.name}, {dtype}"
    values = reports.advice_json(advice)
    return GpuResult(title, values, lambda: reports.advice_report(advice), {"throughput": drawn})


def _say_wide(device: Gpu, dtype: str) -> None:
    """Warn where a GPU multiplies in another format of 16 bit than is asked for."""
    wide = wide_format(device)
    if wide != "bf16" and (format_of(dtype) or precisions()[precision_of(dtype)].multiplied) == "bf16":
        LOG.warning("%s does not compute in bf16: %s instead", device.name, wide)


def _low_precision(dtype: str) -> bool:
    try:
        return precision_of(dtype) != precision_of("bf16")
    except AccelsimError:
        return False


def op(
    gpu: str,
    name: str,
    *,
    elements: int = 1_048_576,
    dtype: str | None = None,
    mig: str | None = None,
    calibration: str | PathLike[str] | None = "auto",
) -> GpuResult:
    """Time a memory-bound operator, such as `relu` or `layer_norm`, from cold memory.

    Parameters
    ----------
    elements : int
        Of the input.
    gpu, dtype, mig, calibration
        As for `accelsim.gpu.map`.
    """
    _check(elements=elements)
    device = load_gpu(gpu, mig)
    dtype = dtype or wide_format(device)
    words, operations = operator(name)
    mode = mode_of(device, dtype, calibration)
    time_us = float(time_operators(device, name, np.array([float(elements)]), BYTES[dtype], mode.constants)[0])
    moved = words * BYTES[dtype] * elements
    document = {
        **{"gpu": device.name, "operator": name, "dtype": dtype, "mode": mode.text},
        **{"elements": elements, "time_us": time_us, "dram_bytes": moved},
        "intensity": operations / (words * BYTES[dtype]),
        "bytes_per_s": moved / time_us * 1e6,
    }
    return GpuResult(f"{name} on {device.name}", document, lambda: reports.memory_bound_report(document))


def attention(
    gpu: str,
    *,
    heads: int,
    batch: int = 1,
    tokens: int = 1,
    cached: int = 0,
    kv_heads: int | None = None,
    head_size: int = 128,
    window: int | None = None,
    latent: bool = False,
    dtype: str = "bf16",
    cache_dtype: str | None = None,
    stack: str = "",
    mig: str | None = None,
) -> GpuResult:
    """Time fused attention: decode where each sequence has one new token, else prefill.

    Parameters
    ----------
    heads, kv_heads, head_size : int
        Query heads, key-value heads (default: as many), words of a head.
    batch, tokens, cached, window : int
        Sequences, new tokens of each, tokens before them, keys that a token attends to (default: all).
    latent : bool
        Latent attention (MLA).
    dtype, cache_dtype, stack, mig : str
        As for `accelsim gpu attention`.

    Examples
    --------
    >>> import accelsim
    >>> found = accelsim.gpu.attention("h100_sxm", batch=4, tokens=1, cached=4096, heads=32, kv_heads=8)
    >>> 10 < found.us < 100
    True
    """
    _check(heads=heads, batch=batch, tokens=tokens, kv_heads=kv_heads, head_size=head_size, window=window)
    whole("cached", cached, least=0)
    device = load_gpu(gpu, mig)
    _say_wide(device, dtype)
    query, cache = word_bytes(dtype), word_bytes(cache_dtype or dtype)
    decode, sizes = tokens == 1, {"batch": batch, "tokens": tokens, "heads": heads, "cached": cached}
    if latent:
        if kv_heads is not None or window is not None or head_size != 128:
            raise AccelsimError("latent attention has no kv_heads, window and head_size; leave them out")
        shapes = latent_shapes(**sizes, absorbed=decode, cache_bytes=cache)
    else:
        more = {"kv_heads": kv_heads or heads, "window": window or 0, "head_size": head_size}
        shapes = attention_shapes(**sizes, **more, query_bytes=query, cache_bytes=cache)
    times = time_attention(device, shapes, latent=latent, stack=stack)
    return _timed(device, f"{'latent ' if latent else ''}attention, {'decode' if decode else 'prefill'}", times)


def moe(
    gpu: str,
    *,
    tokens: int,
    hidden: int,
    inter: int,
    experts: int,
    top: int,
    ep: int = 1,
    skew: float = 0.0,
    gated: bool = True,
    dtype: str = "bf16",
    stack: str = "",
    mig: str | None = None,
) -> GpuResult:
    """Time the experts of a mixture of experts on one GPU: both GEMMs, and what is between them.

    The parameters are those of `accelsim gpu moe`.
    """
    _check(tokens=tokens, hidden=hidden, inter=inter, experts=experts, top=top, ep=ep)
    device = load_gpu(gpu, mig)
    sizes = {"tokens": tokens, "hidden": hidden, "inter": inter, "experts": experts, "top": top, "skew": skew}
    _say_wide(device, dtype)
    shapes = experts_shapes(dtype, **sizes, ranks=ep, gated=2 if gated else 1)
    return _timed(device, f"experts in {dtype}", time_kernels(EXPERTS, device, shapes, stack))


def collective(
    gpu: str, operation: str, *, size: int | str, gpus: int = 8, one_shot: bool = False, stack: str = "",
    mig: str | None = None,
) -> GpuResult:  # fmt: skip
    """Time an all-reduce, all-gather, reduce-scatter or all-to-all of the GPUs of a node.

    Parameters
    ----------
    operation : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
    size : int or str
        The whole message [B], or such as `"16 MiB"`.
    gpus : int
        How many.
    one_shot : bool
        All-reduce by the framework's own kernels instead of NCCL.
    """
    import re

    if isinstance(size, str):
        if not re.search(quantity_pattern(SIZE_UNITS), size):
            raise AccelsimError(f"size: expected a size such as '16 MiB', got '{size}'")
        size = parse_size_bits(size) // 8
    _check(size=size, gpus=gpus)
    device = load_gpu(gpu, mig)
    times = time_collective(device, collective_shapes(operation, gpus, size), one_shot=one_shot, stack=stack)
    return _timed(device, f"{operation} of {gpus} GPUs", times)


def _check(**sizes: int | None) -> None:
    """Refuse sizes that are no whole numbers above 0."""
    for name, size in sizes.items():
        whole(name, size)


def _several(name: str, given: int | Sequence[int]) -> list[int]:
    """Different values of an argument that may be one or a list of them."""
    every = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    for each in every:
        whole(name, each)
    if not every:
        raise AccelsimError(f"{name}: expected a whole number or a list of them, got {given!r}")
    return list(dict.fromkeys(map(int, every)))


def _timed(device: Gpu, what: str, times: KernelTimes) -> GpuResult:
    """The time of one operator, what it is made of, and what its constants were fitted to."""
    parts = {name: float(values[0]) for name, values in times.parts_us.items()}
    document: dict[str, Any] = {"gpu": device.name, "operator": what, "mode": times.label}
    document |= {"time_us": float(times.time_us[0]), "parts_us": parts}
    return GpuResult(f"{what} on {device.name}", document, lambda: reports.operator_report(document))


def serve(
    gpu: str,
    model: str | PathLike[str],
    *,
    batch: int | Sequence[int] = 1,
    tp: int | Sequence[int] = 1,
    pp: int | Sequence[int] = 1,
    ep: int | Sequence[int] = 1,
    prompt: int = 2048,
    prefix: int = 0,
    output: int = 512,
    step_tokens: int = 8192,
    together: bool = False,
    dtype: str = "bf16",
    cache_dtype: str = "bf16",
    skew: float = 0.0,
    calibration: str | PathLike[str] | None = "auto",
    stack: str = "",
    mig: str | None = None,
) -> GpuResult:
    """Time the serving of a language model on several GPUs: TTFT, TPOT, throughput, memory, energy.

    Parameters
    ----------
    model : str or path
        A decoder: a name of `accelsim list decoders`, a file, or Hugging Face's `config.json`.
    batch, tp, pp, ep : int or list of int
        Sequences at once; tensor, pipeline and expert parallelism. Lists make a sweep.
    prompt, prefix, output, step_tokens, together, dtype, cache_dtype, skew, calibration, stack, mig
        As for `accelsim gpu serve`.

    Examples
    --------
    >>> import accelsim
    >>> len(accelsim.gpu.serve("h100_sxm", "llama_70b", tp=[4, 8], batch=[1, 16], dtype="fp8").to_pandas())
    4
    """
    device = load_gpu(gpu, mig)
    decoder = load_decoder(model)
    for line in decoder.left:
        LOG.warning("%s", line)
    _say_wide(device, "bf16")
    request = Request(
        prompt=prompt, skew=skew, step_tokens=step_tokens, prefix=prefix, output=output, in_flight=not together,
        precision=precisions()[precision_of(dtype)].name, cache_bytes=word_bytes(cache_dtype),
    )  # fmt: skip
    if request.fresh < 1:
        raise AccelsimError(f"prefix {prefix}: a prompt of {prompt} tokens must have more; raise prompt")
    lists = [_several(name, each) for name, each in {"tp": tp, "pp": pp, "ep": ep, "batch": batch}.items()]
    every = [Split(many, *split) for *split, many in itertools.product(*lists)]
    misfits = {split: why for split in every if (why := misfit(decoder, split))}
    splits = [split for split in every if split not in misfits]
    if not splits:
        raise AccelsimError(f"{decoder.name}: {misfits[every[0]]}")
    for why in dict.fromkeys(misfits.values()):
        LOG.warning("left out: %s", why)
    mode = serving_mode(device, calibration)
    points = serve_splits(device, decoder, request, splits, mode, stack)
    fitting = [point for point in points if point.memory.fits]
    if not fitting:
        raise NoValidMappingError(
            refusal(device, decoder, request, min(points, key=lambda point: point.memory.total).split)
        )
    best = front(fitting)
    asked = {"dtype" if name == "precision" else name: value for name, value in asdict(request).items()}
    head = {"model": decoder.name, "gpu": device.name, "mode": mode.text, "request": asked}
    rows = [{**serving.serving_row(point), "front": point in best} for point in points]
    told = (decoder.name, device.name, request)
    title = f"{decoder.name} on {device.name}"

    def drawn(ax: Any = None) -> Any:
        from accelsim.show.plots.diagram import plot_serving

        if len(every) == 1:
            raise AccelsimError("a picture is of a sweep; give several batch or tp, such as 1,4,16,64")
        return plot_serving(f"{title}, {request.prompt} + {request.output} tokens", fitting, best, ax)

    def page() -> str:
        if len(every) == 1:
            raise AccelsimError("a page is of a sweep; give several batch or tp, such as 1,4,16,64")
        return serving.serving_page(*told, points, mode.text)

    report = partial(serving.serving_report, *told, points[0], mode.text)
    if len(every) > 1:
        report = partial(serving.sweep_report, *told, points, mode.text)
    return GpuResult(title, {**head, "points": rows}, report, {"throughput": drawn}, page)
