"""What a matrix product loses to tiles and waves on a GPU, and what other sizes or formats would bring.

The roofline of a GPU, and where layers stand under it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.gpu.calibration import Mode, mode_of
from accelsim.gpu.catalogue import BYTES, Gpu
from accelsim.gpu.constants import Floats, compute_class
from accelsim.gpu.gemms import USUAL, Gemms, Setup, time_gemms
from accelsim.gpu.kernel import Kernel, best_kernels, machines_of


@dataclass(frozen=True, slots=True)
class Ridge:
    """A level of memory: its bandwidth and the operations a byte from which it limits no more."""

    level: str
    bytes_per_s: float
    intensity: float


@dataclass(frozen=True, slots=True)
class Point:
    """A layer under the roofline."""

    kernel: Kernel
    intensity: float  # operations for each byte, were each tensor moved once [FLOP/B]
    # of the peak of the data sheet, and of the DRAM bandwidth, as predicted
    compute_share: float
    memory_share: float


def ridges(gpu: Gpu, number_format: str) -> list[Ridge]:
    """Levels of memory of a GPU, outermost first.

    >>> from accelsim.gpu.catalogue import load_gpu
    >>> [(ridge.level, round(ridge.intensity)) for ridge in ridges(load_gpu("a100"), "fp16")]
    [('DRAM', 153), ('L2', 58), ('shared memory', 16)]
    """
    peak = gpu.flops(number_format)
    rates = {"DRAM": gpu.dram_bytes_per_s, "L2": gpu.l2_bytes_per_s, "shared memory": gpu.sms * gpu.boost_hz * 128.0}
    return [Ridge(level, rate, peak / rate) for level, rate in rates.items()]


def points(gpu: Gpu, kernels: Sequence[Kernel]) -> list[Point]:
    """Where kernels stand under the roofline of a GPU."""
    found = []
    for kernel in kernels:
        intensity = kernel.flops / kernel.least_bytes
        peak = gpu.flops(kernel.number_format)
        compute_share = kernel.tflops * 1e12 / peak
        memory_share = kernel.dram_bytes / (kernel.time_us * 1e-6) / gpu.dram_bytes_per_s
        found.append(Point(kernel, intensity, compute_share, memory_share))
    return found


MULTIPLES = (8, 16, 64, 128, 256)
_FASTER = 0.99


@dataclass(frozen=True, slots=True)
class Change:
    """Another size or format and the time of it."""

    what: str
    m: int
    n: int
    k: int
    number_format: str
    time_us: float
    tflops: float
    speedup: float


@dataclass(frozen=True, slots=True)
class Advice:
    """A product, what rounding its sizes up would bring, and what other formats would."""

    kernel: Kernel
    roundings: tuple[Change, ...]
    formats: tuple[Change, ...]
    notes: tuple[str, ...]


def advise(
    gpu: Gpu, m: int, n: int, k: int, number_format: str, calibration: str | None = None, setup: Setup = USUAL
) -> Advice:
    """Find what a product loses and what would help: rounding one size up, or several to the same multiple.

    Roundings are those that are faster, or as fast, for each operation that is wanted, best first. `calibration` is as
    in `mode_of`.
    """
    mode = mode_of(gpu, number_format, calibration)
    (kernel,) = best_kernels(gpu, ["gemm"], Gemms.of(m, n, k), number_format, mode, setup)
    sizes: dict[tuple[int, int, int], str] = {}
    asked = {"M": m, "N": n, "K": k}
    for names, multiple in itertools.product(("M", "N", "K", "NK", "MN", "MK", "MNK"), MULTIPLES):
        rounded = {name: -(-asked[name] // multiple) * multiple for name in names}
        if all(asked[name] < size <= 1.25 * asked[name] for name, size in rounded.items()):
            changed = asked | rounded
            what = ", ".join(f"{name} = {size}" for name, size in rounded.items())
            several = "s" if len(names) > 1 else ""
            sizes.setdefault((changed["M"], changed["N"], changed["K"]), f"{what} (multiple{several} of {multiple})")
    better = []
    for shape, what in sizes.items():
        time_us = float(_times(gpu, Gemms.of(*shape), number_format, mode, setup)[0])
        if time_us < kernel.time_us * _FASTER:
            better.append(_change(kernel, what, shape, number_format, time_us))
    better.sort(key=lambda change: change.time_us)
    formats = _formats(gpu, kernel, calibration, Setup(setup.l2, setup.layout))
    return Advice(kernel, tuple(better), tuple(formats), tuple(_notes(gpu, kernel, setup.layout)))


def sweep(
    gpu: Gpu,
    dimension: str,
    values: Sequence[int],
    m: int,
    n: int,
    k: int,
    number_format: str,
    mode: Mode,
    setup: Setup = USUAL,
) -> Floats:
    """Throughput [TFLOPS] of products that differ in one dimension, `m`, `n` or `k`; float[len(values)]."""
    sizes = {"m": m, "n": n, "k": k, dimension: np.asarray(values, dtype=np.float64)}
    gemms = Gemms.of(sizes["m"], sizes["n"], sizes["k"])
    return gemms.flops / _times(gpu, gemms, number_format, mode, setup) * 1e-6


def _times(gpu: Gpu, gemms: Gemms, number_format: str, mode: Mode, setup: Setup, *, sparse: bool = False) -> Floats:
    time_us = np.empty(len(gemms))
    for at, machine, own in machines_of(gpu, gemms, number_format, mode, setup.library):
        times = time_gemms(machine, gemms.rows(at), number_format, own.constants, setup, sparse=sparse)
        time_us[at] = times.time_us
    return time_us


def _change(kernel: Kernel, what: str, size: tuple[int, int, int], number_format: str, time_us: float) -> Change:
    """What another size or format brings; TFLOPS are of the operations that are wanted."""
    tflops = 2.0 * kernel.m * kernel.n * kernel.k / time_us * 1e-6
    return Change(what, *size, number_format, time_us, tflops, kernel.time_us / time_us)


def _formats(gpu: Gpu, kernel: Kernel, calibration: str | None, setup: Setup) -> list[Change]:
    """The product in the other formats, and in each with 2:4 sparse weights.

    Where a calibration is of another kind of kernels, without it.
    """
    found = []
    own = compute_class(gpu, kernel.number_format)
    size = (kernel.m, kernel.n, kernel.k)
    for name in gpu.operations_per_sm_cycle:
        if name == "fp16_vector":
            continue
        mode = mode_of(gpu, name, calibration if compute_class(gpu, name) == own else None)
        for sparse in (False, True):
            if (name == kernel.number_format and not sparse) or (sparse and name not in gpu.peak_tflops_sparse):
                continue
            time_us = float(_times(gpu, Gemms.of(*size), name, mode, setup, sparse=sparse)[0])
            what = f"{name}, 2:4 sparse weights" if sparse else name
            found.append(_change(kernel, what, size, name, time_us))
    return sorted(found, key=lambda change: change.time_us)


def _notes(gpu: Gpu, kernel: Kernel, layout: str) -> list[str]:
    """What a reader should know of the sizes."""
    intensity, ridge = kernel.flops / kernel.least_bytes, ridges(gpu, kernel.number_format)[0].intensity
    limit = "above the ridge of DRAM" if intensity >= ridge else "below the ridge of DRAM, whose bandwidth limits it"
    notes = [f"{intensity:.4g} FLOP/B is {limit}: {ridge:.4g} FLOP/B"]
    multiple = max(1, int(16 / BYTES[kernel.number_format]))
    moved: dict[str, dict[str, None]] = {"M": {}, "K": {}, "N": {}}
    rows = ("K" if layout[0] == "t" else "N", "M" if layout[1] == "t" else "K", "N")
    for name, what in zip(rows, ("loads", "loads", "stores"), strict=True):
        moved[name][what] = None
    for name, size in (("M", kernel.m), ("K", kernel.k), ("N", kernel.n)):
        if moved[name] and size % multiple:
            notes.append(
                f"{name} = {size} is no multiple of {multiple}: rows of {kernel.number_format} do not begin at "
                f"multiples of 16 B, so {' and '.join(moved[name])} are narrower"
            )
    if not kernel.tensor_cores and kernel.number_format in gpu.mma:
        notes.append(f"cuBLAS before 11 has no tensor cores for sizes that are no multiples of {multiple}")
    if kernel.blocks and kernel.blocks < gpu.sms:
        notes.append(f"{kernel.blocks} blocks leave {gpu.sms - kernel.blocks} of {gpu.sms} SMs without work")
    if gpu.peak_tflops_sparse:
        notes.append("2:4 sparse weights: TFLOPS count the zeros too; the weights must be pruned to two of each four")
    return notes
