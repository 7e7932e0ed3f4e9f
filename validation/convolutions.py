"""Measured convolutions beside implicit GEMMs, by GPU, number format, algorithm and pass of training.

`python -m validation.convolutions MEASURED.csv [--gpu NAME] [--calibration FILE] [--json] [--csv FILE]`.

Some convolutions were computed by Winograd's minimal filtering: fewer multiplications, and tensors that are transformed
(Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, sections 3 to 5). F(m x m, r x r) makes
m x m outputs of a channel with (m + r - 1)^2 multiplications, where sliding the window takes m^2 r^2. Each of the
(m + r - 1)^2 places of a tile is a matrix product of its own, of tiles x channels by channels x output channels.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelsim.cli import BAD_INPUT, DONE, answer
from accelsim.gpu import PASS_LAYOUTS, PASSES
from accelsim.gpu.calibration import Errors, Mode, errors_of, mode_of
from accelsim.gpu.catalogue import BYTES, Gpu, find_gpu, format_of, load_gpu, no_format
from accelsim.gpu.constants import Floats, KernelConstants, compute_class
from accelsim.gpu.gemms import Gemms, Setup, time_gemms
from accelsim.gpu.kernel import time_operators
from accelsim.gpu.measured import find_table
from accelsim.inputs.errors import AccelsimError, Mark
from accelsim.inputs.source import Problems, read_text
from accelsim.inputs.units import listed, quoted
from accelsim.show.report.gpu import plain, short_percent
from accelsim.show.table import Column, Piece, Row, Table
from validation.command import add_forms

TIMES = dict(zip(PASSES, ("time_us_fwd", "time_us_bwd_in", "time_us_bwd_w"), strict=True))
"""Column of the time of each pass."""
_ALGORITHMS = {"gemm": "implicit GEMM", "winograd_nonfused": "Winograd", "winograd": "fused Winograd", "fft": "other"}
"""What a part of the name of an algorithm says, as cuDNN has them; the first that is there."""


SIZES = ("N", "C", "H", "W", "K", "R", "S", "P", "Q")
"""Of a convolution: images, channels, rows and columns of the input, channels of the output, rows and columns of the
window and of the output."""
WINDOW = 3
"""Rows and columns of the windows that libraries have these kernels for."""
OUTPUTS = 4
"""Rows and columns of the outputs of a tile: cuDNN's WINOGRAD_NONFUSED, F(4 x 4, 3 x 3). Transformed tensors pass DRAM
between three kernels for the operands and the products. Its fused F(2 x 2, 3 x 3) is not modelled."""
_PLACES = (OUTPUTS + WINDOW - 1) ** 2
"""Places of a transformed tile, each a product of its own."""


def winograd_gemms(sizes: Mapping[str, Floats], training_pass: str) -> Gemms:
    """Products of the transformed tensors, a batch of (m + r - 1)^2.

    Examples
    --------
    A layer of 56 x 56 outputs in tiles of 4 x 4: 14 x 14 tiles, 36 products; 4.0 times fewer multiply-adds.

    >>> sizes = {name: np.array([value]) for name, value in zip("NCHWKRSPQ", (1, 64, 58, 58, 128, 3, 3, 56, 56))}
    >>> found = winograd_gemms(sizes, "forward")
    >>> [int(size[0]) for size in (found.m, found.n, found.k, found.batch)]
    [196, 128, 64, 36]
    >>> 2 * 56 * 56 * 128 * 64 * 9 / float(found.flops[0])
    4.0
    """
    tiles, c, k = _tiles(sizes, training_pass), sizes["C"], sizes["K"]
    if training_pass == "weight_gradient":
        return Gemms.of(k, c, tiles, _PLACES)
    if training_pass == "input_gradient":
        return Gemms.of(tiles, c, k, _PLACES)
    return Gemms.of(tiles, k, c, _PLACES)


def transforms(
    gpu: Gpu, sizes: Mapping[str, Floats], training_pass: str, number_format: str, constants: KernelConstants
) -> tuple[Floats, Floats]:
    """Bytes that the kernels before and after the products move, and their time [us]."""
    n, c, h, w, k, p, q = (sizes[name] for name in "NCHWKPQ")
    plain = n * c * h * w + n * k * p * q + k * c * WINDOW**2
    transformed = (_tiles(sizes, training_pass) * (c + k) + k * c) * _PLACES
    moved = (plain + transformed) * BYTES[number_format]
    rate = gpu.dram_bytes_per_s * 1e-6 * constants.dram_efficiency
    return moved, moved / rate + 3 * (constants.launch_us + constants.latency_us)


def _tiles(sizes: Mapping[str, Floats], training_pass: str) -> Floats:
    """Tiles of all images; of the inputs where these are what is computed."""
    rows, columns = ("H", "W") if training_pass == PASSES[1] else ("P", "Q")
    found: Floats = sizes["N"] * np.ceil(sizes[rows] / OUTPUTS) * np.ceil(sizes[columns] / OUTPUTS)
    return found


@dataclass(frozen=True, slots=True)
class ConvolutionErrors:
    """Errors of a group of measured convolutions.

    Attributes
    ----------
    gpu, number_format, training_pass : str
    algorithm : str
        `implicit GEMM`, `Winograd`, `fused Winograd`, `other` (FFT), or `any` where the table does not say which, as
        for gradients.
    nhwc : Errors
        Of the implicit GEMM alone.
    nchw : Errors
        With input and output turned between NCHW and NHWC, a kernel each.
    winograd : Errors
        Of that algorithm, unless fused, in those of the rows that it can compute; where the table does not say which
        and tensor cores are not used, of the faster of the implicit GEMM and Winograd; of no rows elsewhere.
    """

    gpu: str
    number_format: str
    algorithm: str
    training_pass: str
    nhwc: Errors
    nchw: Errors
    winograd: Errors


@dataclass(frozen=True, slots=True)
class _MeasuredLayer:
    algorithm: str
    values: Mapping[str, float]


def convolution_gemms(sizes: Mapping[str, Floats], training_pass: str) -> Gemms:
    """Implicit GEMMs of convolutions, as `product_of` makes them of a layer.

    Examples
    --------
    >>> sizes = dict(zip(SIZES, map(np.array, (1, 256, 58, 58, 256, 3, 3, 56, 56))))
    >>> for name in PASSES:
    ...     gemms = convolution_gemms(sizes, name)
    ...     print(int(gemms.m[0]), int(gemms.n[0]), int(gemms.k[0]))
    3136 256 2304
    3136 256 2304
    256 2304 3136
    """
    n, c, h, w, k, r, s, p, q = (sizes[name] for name in SIZES)
    outputs, window, points = n * p * q, r * s, n * h * w
    if training_pass == "weight_gradient":
        return Gemms.of(k, c * window, outputs)
    if training_pass == "input_gradient":
        high, wide = (_unpadded(*axis) for axis in ((h, r, p), (w, s, q)))
        reached, taps = n * high * wide, p * q * window / (high * wide)
        loads = np.where((k % 8 == 0) & (taps % 1 > 0), 8, 1)
        reduced = loads * np.ceil(k * taps / loads - 1e-9)
        return Gemms.of(reached, c, reduced, 1, np.minimum(1, outputs * k / (reached * reduced)))
    return Gemms.of(outputs, k, c * window, 1, np.minimum(1, points * c / (outputs * c * window)))


def _unpadded(high: Floats, window: Floats, places: Floats) -> Floats:
    """Points of an axis that are no padding: as many as the places and strides cover, or all of a small one."""
    stride = np.maximum(1, (high - window) // np.maximum(places - 1, 1))
    covered = np.where(places > 1, stride, 1) * places
    return np.where(covered >= window, covered, high)


def applies(sizes: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Whether Winograd can compute these convolutions: windows of 3 x 3 that move by 1.

    A window that moves by more has fewer places than the input holds, even without padding.
    """
    dense = (sizes["P"] > sizes["H"] - WINDOW) & (sizes["Q"] > sizes["W"] - WINDOW)
    found: NDArray[np.bool_] = (sizes["R"] == WINDOW) & (sizes["S"] == WINDOW) & dense
    return found


def winograd_us(
    gpu: Gpu, sizes: Mapping[str, Floats], training_pass: str, number_format: str, constants: KernelConstants
) -> Floats:
    """Time [us] of convolutions whose windows move by 1.

    `sizes` (mapping of str to float[P]): by the names of `SIZES`. `training_pass`: one of `PASSES`.

    Notes
    -----
    Each transform is a kernel that reads one form and writes the other at DRAM bandwidth, and the products read and
    write transformed tensors.
    """
    products = time_gemms(gpu, winograd_gemms(sizes, training_pass), number_format, constants)
    return products.time_us + transforms(gpu, sizes, training_pass, number_format, constants)[1]


def validate_convolutions(
    paths: Sequence[str | PathLike[str]], *, gpu: str | None = None, calibration: str | PathLike[str] | None = None
) -> tuple[list[ConvolutionErrors], list[str]]:
    """Hold implicit GEMMs against tables of measured convolutions.

    Parameters
    ----------
    paths : sequence of path
        CSV files with the columns of `SIZES`, a time of `TIMES` at least, and device, dtype and algo.
    gpu : str, optional
        The GPU that was measured; by default what the column `device` says.
    calibration : str or path, optional
        As in `mode_of`.

    Returns
    -------
    list of ConvolutionErrors
    list of str
        What was not compared, and why.

    Raises
    ------
    AccelsimError
        If nothing can be compared.
    InputError
        With every mistake in a file and its place.
    """
    groups: dict[tuple[str, str], list[_MeasuredLayer]] = {}
    skipped = []
    for path in paths:
        problems = Problems()
        text = read_text(path, problems)
        partial = 0 if text is None else _read(text, str(path), groups, problems)
        problems.result(groups if not len(problems) else None)
        if partial:
            skipped.append(f"{Path(path).name}: {partial} rows lack one of the columns {', '.join(SIZES)}")
    found = []
    for (device, number_format), rows in groups.items():
        machine = load_gpu(gpu) if gpu else find_gpu(device)
        if machine is None or number_format not in machine.operations_per_sm_cycle:
            unknown = f"{quoted(device) if device else 'no device'}: no such GPU ships; say --gpu NAME"
            skipped.append(f"{len(rows)} rows of {no_format(machine, number_format, '') if machine else unknown}")
            continue
        mode = mode_of(machine, number_format, calibration)
        for name, column in TIMES.items():
            by_algorithm: dict[str, list[_MeasuredLayer]] = {}
            for row in rows:
                if column in row.values:
                    by_algorithm.setdefault(row.algorithm if name == PASSES[0] else "any", []).append(row)
            for algorithm, timed in sorted(by_algorithm.items()):
                found.append(_errors(machine, number_format, algorithm, name, timed, mode))
    if not found:
        raise AccelsimError("nothing to compare: " + "; ".join(skipped or ["no rows"]))
    return found, skipped


def _errors(
    gpu: Gpu, number_format: str, algorithm: str, name: str, rows: Sequence[_MeasuredLayer], mode: Mode
) -> ConvolutionErrors:
    sizes = {key: np.array([row.values[key] for row in rows]) for key in SIZES}
    measured = np.array([row.values[TIMES[name]] for row in rows])
    gemms = convolution_gemms(sizes, name)
    nhwc = time_gemms(gpu, gemms, number_format, mode.constants, Setup(layout=PASS_LAYOUTS[name])).time_us
    images = sizes["N"]
    inputs = images * sizes["C"] * sizes["H"] * sizes["W"]
    outputs = images * sizes["K"] * sizes["P"] * sizes["Q"]
    turned = sum(
        time_operators(gpu, "relu", words, BYTES[number_format], mode.constants) for words in (inputs, outputs)
    )
    flops = gemms.flops
    which, fast = _winograd(gpu, number_format, algorithm, name, sizes, mode, nhwc)
    return ConvolutionErrors(
        gpu.name,
        number_format,
        algorithm,
        name,
        errors_of(nhwc, measured, flops),
        errors_of(nhwc + turned, measured, flops),
        errors_of(fast[which], measured[which], flops[which]),
    )


def _winograd(
    gpu: Gpu, number_format: str, algorithm: str, name: str, sizes: Mapping[str, Floats], mode: Mode, nhwc: Floats
) -> tuple[NDArray[np.bool_], Floats]:
    """Rows that Winograd is compared in, and times of the algorithm that is meant there."""
    can = applies(sizes)
    fast = winograd_us(gpu, sizes, name, number_format, mode.constants)
    if algorithm == "Winograd":
        return can, fast
    if algorithm != "any" or compute_class(gpu, number_format) != "vector":
        return np.zeros_like(can), nhwc
    return np.ones_like(can), np.where(can, np.minimum(nhwc, fast), nhwc)


def _read(text: str, file: str, groups: dict[tuple[str, str], list[_MeasuredLayer]], problems: Problems) -> int:
    """Read rows into groups by device and format; return how many lack a size."""
    table = find_table(text, file)
    head = table.head.cells if table else ()
    at = {name: head.index(name) for name in (*SIZES, *TIMES.values(), "dtype", "device", "algo") if name in head}
    if table is None or not {*SIZES, "dtype"} <= at.keys() or not set(TIMES.values()) & at.keys():
        need = f"{', '.join((*SIZES, 'dtype'))} and one of {', '.join(TIMES.values())}"
        problems.add(Mark(file, 1, 1), f"no table of convolutions: columns {listed(head) if head else 'none'}", need)
        return 0
    partial, before = 0, len(problems)
    for row in table.rows(problems):
        if table.ends(row, len(problems) - before, problems):
            break
        cells = {name: row.cells[column] for name, column in at.items()}
        if not all(cells[name] for name in SIZES):
            partial += 1
            continue
        values = {name: table.size(row, at[name], name, problems) for name in SIZES}
        timed = [name for name in TIMES.values() if cells.get(name)]
        values |= {name: table.time_us(row, at[name], name, problems) for name in timed}
        number_format = format_of(cells["dtype"]) or cells["dtype"]
        name = cells.get("algo", "").casefold()
        known = (meant for part, meant in _ALGORITHMS.items() if part in name)
        algorithm = next(known, "other" if name else "any")
        groups.setdefault((cells.get("device", ""), number_format), []).append(_MeasuredLayer(algorithm, values))
    return partial


def convolution_row(case: ConvolutionErrors) -> Row:
    """Errors of one GPU, algorithm and pass as a plain row."""
    names = {name: getattr(case, name) for name in ("gpu", "number_format", "algorithm", "training_pass")}
    return {**names, **{name: getattr(case, name).as_row() for name in ("nhwc", "nchw", "winograd")}}


def _errors_of(name: str, head: str) -> tuple[Column, Column]:
    ratio = Column("ratio", lambda row: row[name]["ratio"], plain)
    return Column(head, lambda row: row[name]["median"], short_percent), ratio


_CONVOLUTIONS = (
    Column("pass", "training_pass", lambda text: text.replace("_", " ")),
    Column("algorithm", "algorithm", left=True),
    Column("rows", lambda row: row["nhwc"]["rows"]),
    *_errors_of("nhwc", "NHWC"),
    *_errors_of("nchw", "NCHW"),
    *_errors_of("winograd", "Winograd"),
)


def convolutions_report(found: Sequence[ConvolutionErrors], skipped: Sequence[str]) -> Iterator[Piece]:
    """The errors of convolutions, in NHWC and with what NCHW costs."""
    groups: dict[str, list[Row]] = {}
    for case in found:
        groups.setdefault(f"{case.gpu}, {case.number_format}", []).append(convolution_row(case))
    for name, rows in groups.items():
        yield Table("conv", _CONVOLUTIONS, rows, name, "median error, and median of predicted over measured")
    yield (
        "\nNHWC: the implicit GEMM alone; NCHW: input and output are turned to NHWC and back, by a kernel each; "
        "Winograd: where the table names it, or, for any algorithm, the faster of it and of the implicit GEMM"
    )
    yield from (f"not compared: {line}" for line in skipped)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the tables named."""
    parser = argparse.ArgumentParser(prog="python -m validation.convolutions", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="MEASURED", help="CSV of measured convolutions")
    parser.add_argument("--gpu", metavar="GPU", help="the GPU that was measured (default: what the table says)")
    parser.add_argument("--calibration", metavar="FILE", help="as for `python -m validation gemm`")
    add_forms(parser)
    parsed = parser.parse_args(arguments)
    try:
        found, skipped = validate_convolutions(parsed.paths, gpu=parsed.gpu, calibration=parsed.calibration)
    except AccelsimError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    document = {"conv": [convolution_row(case) for case in found], "not_compared": skipped}
    answer(parsed, document, lambda: convolutions_report(found, skipped))
    return DONE


if __name__ == "__main__":
    sys.exit(main())
