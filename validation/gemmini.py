"""Compare cycles with those of Gemmini's RTL, mapping by mapping.

validation/reports/systolic.md describes how a row is read.

`python -m validation.gemmini [CYCLES ...] [--best SECONDS] [--every] [--json] [--csv FILE] [-o DIR]`.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.gpu.calibration import Errors, errors_of
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.constraints import Block, Constraints, LevelConstraint
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.search.mapper import map_einsum
from accelsim.search.result import SearchResult
from accelsim.search.stopping import Budget
from accelsim.show.table import Column, Piece, Table, heading, legend
from accelsim.show.table import dim as pale
from validation import rtl
from validation.rtl import CYCLES
from validation.study import read_table, reference_paths

USUAL = "golden/gemmini/cycles.csv"
"""Where the rows are in the folder of reference data."""
GEMM_ISSUE = 127
"""Cycles to issue a tile of a matrix product, fitted; its loop has fewer instructions than that of a convolution."""
DIVIDED = 16
"""By what DOSA's scripts divide a tile of a matrix product to count it in arrays."""
PORTS = {"DRAM": Fraction(8), "Scratchpad": Fraction(32), "Accumulator": Fraction(2)}
"""Words a cycle of shared ports in DOSA's machine file (dataset/hw/gemmini/arch/arch.yaml); the last of a column."""
_DIMS = "NKCPQRS"
_LAYER = (*_DIMS, "Wstride", "Hstride", "Wdilation")
_NUMBERS = (
    *("mesh", "accumulator_entries", "accumulator_instances", "scratchpad_entries"),
    *(*_LAYER, "Hdilation", "rtl_cycles"),
)
_OPTIONAL = ("rtl_auto_tiling_cycles", "timeloop_cycles")
_OUTSIDE = "NPQKRSC"
"""Order of the loops over tiles, whatever the row says: `tiled_conv` of ucb-bar/gemmini-rocc-tests (include/gemmini.h,
commit 928aba8) goes through all tiles that add to one tile of outputs in turn, and stores it after the last one."""
_INSIDE = "KCRSNQP"
"""Order of the loops inside a tile, whatever the row says: the controller keeps weights in place for all pixels."""


@dataclass(frozen=True, slots=True)
class GemminiRow:
    """One mapping that ran on the RTL: loops (dimension, bound, spatial) by level, outermost first."""

    where: str
    name: str
    numbers: Dict[str, int]
    loops: Dict[str, tuple[tuple[str, int, bool], ...]]

    @property
    def kind(self) -> str:
        """`random` or `tuned`: the letters of its name."""
        return self.name.rstrip("0123456789")

    @property
    def gemm(self) -> bool:
        """Whether it is a matrix product, which another loop of the RTL runs."""
        return all(self.numbers[dim] == 1 for dim in "QRS")


@dataclass(frozen=True, slots=True)
class GemminiCycles:
    """Cycles of a row: ours, those of the RTL, and ours if everything overlaps; Timeloop's where they are known."""

    row: GemminiRow
    result: Result
    overlapped: int

    @property
    def measured(self) -> int:
        """Cycles of the RTL."""
        return self.row.numbers["rtl_cycles"]

    @property
    def bound(self) -> str:
        """What most of the time goes into: computing, or what an engine does."""
        most = max(self.result.time_rows(), key=lambda row: row["cycles"])
        return str(most["what"])


def read_rows(path: Path) -> list[GemminiRow]:
    """Read a table of mappings and their cycles (CSV).

    Raises AccelsimError if it cannot be read, with every mistake and its line.
    """
    return read_table(path, ("name", "mapping", *_NUMBERS), _row)


def _row(where: str, row: Dict[str, str], wrong: list[str]) -> GemminiRow | None:
    given = [*_NUMBERS, *(key for key in _OPTIONAL if row.get(key))]
    bad = [key for key in given if not re.fullmatch("[1-9][0-9]{0,17}", row[key])]
    wrong += [f"{where}: {key}: expected a whole number from 1, got '{row[key]}'" for key in bad]
    loops = _loops(row["mapping"])
    if loops is None:
        wrong.append(f"{where}: mapping: expected levels L3 to L0, such as `L3[WIO] K8 - L2[WI] K4X - …`")
    if loops is None or bad:
        return None
    numbers = {key: int(row[key]) for key in given}
    products = {d: math.prod(b for level in loops.values() for dim, b, _ in level if dim == d) for d in _DIMS}
    off = [d for d in _DIMS if products[d] != numbers[d]]
    wrong += [f"{where}: mapping: loops over {d} multiply to {products[d]}, not to {numbers[d]}" for d in off]
    return GemminiRow(where, row["name"], numbers, loops)


def _loops(text: str) -> dict[str, tuple[tuple[str, int, bool], ...]] | None:
    """Loops of a mapping as Timeloop's file names print them, or None."""
    levels: dict[str, tuple[tuple[str, int, bool], ...]] = {}
    for part in text.split(" - "):
        head, *loops = part.split() or [""]
        found = [re.fullmatch(f"([{_DIMS}])([1-9][0-9]{{0,8}})(X?)", loop) for loop in loops]
        if not re.fullmatch(r"L[0-3]\[[WIO]+\]", head) or None in found:
            return None
        levels[head[:2]] = tuple((m[1], int(m[2]), bool(m[3])) for m in found if m and m[2] != "1")
    return levels if list(levels) == ["L3", "L2", "L1", "L0"] else None


def evaluate_row(row: GemminiRow) -> GemminiCycles:
    """Evaluate the mapping of a row on its machine, with the engines of the shipped `gemmini`, and without them."""
    (machine, overlapping), (einsum, mapping) = _machines(row), _nest(row)
    overlapped = evaluate(overlapping, einsum, mapping).cycles
    return GemminiCycles(row, evaluate(machine, einsum, mapping), overlapped)


def _size_of_array(row: GemminiRow) -> int:
    """Rows and columns of the array: of `random` rows the power of two from the longer spatial loop on."""
    if row.kind != "random":
        return row.numbers["mesh"]
    longest = max([1, *(bound for level in row.loops.values() for _, bound, spatial in level if spatial)])
    return 1 << (longest - 1).bit_length()


def _machines(row: GemminiRow) -> tuple[Architecture, Architecture]:
    """The shipped machine with the sizes of a row, and that with DOSA's ports, in which everything overlaps."""
    size, numbers = _size_of_array(row), row.numbers
    words = numbers["accumulator_entries"] * numbers["accumulator_instances"]
    return _built(size, numbers["scratchpad_entries"], 4 * words, row.gemm)


@lru_cache(maxsize=256)
def _built(size: int, scratchpad: int, accumulator: int, gemm: bool) -> tuple[Architecture, Architecture]:
    sizes = {
        **{"pe.x": f"{size}", "pe.y": f"{size}", "least": f"{max(4, size // 2)}"},
        **{"scratchpad": f"{scratchpad} B", "accumulator": f"{accumulator} B"},
    }
    machine = load_architecture("gemmini", {**sizes, **({"issue": str(GEMM_ISSUE)} if gemm else {})})
    levels = []
    for level in machine.levels:
        rate = PORTS.get(level.name)
        rate = rate * level.x.size if rate is not None and level.name == "Accumulator" else rate
        levels.append(replace(level, dma=None, systolic=None, bandwidth=rate))
    return machine, replace(machine, levels=tuple(levels))


def _nest(row: GemminiRow) -> tuple[Einsum, Mapping]:
    """The layer and its mapping as the RTL runs it."""
    bounds = {dim: row.numbers[dim] for dim in _DIMS}
    blocks = {
        level: [(dim, bound) for dim, bound, spatial in loops if not spatial] for level, loops in row.loops.items()
    }
    spread = {dim: bound for loops in row.loops.values() for dim, bound, spatial in loops if spatial}
    if bounds["P"] == 10 * bounds["Q"]:  # images of these layers are square: the table has lost the last digit of Q
        bounds["Q"] *= 10
        blocks["L3"].append(("Q", 10))
    outer, inner = dict.fromkeys(_DIMS, 1), dict.fromkeys(_DIMS, 1)
    for level, loops in blocks.items():
        for dim, bound in loops:
            side = outer if level == "L3" else inner
            side[dim] *= bound
    if row.gemm:
        _fill_the_array(_size_of_array(row), bounds, spread, outer, inner)
    padded = {dim: outer[dim] * inner[dim] * spread.get(dim, 1) for dim in _DIMS}
    x, y = (tuple(Loop(dim, spread[dim]) for dim in over if spread.get(dim, 1) > 1) for over in "KC")
    levels = (
        LevelMapping("DRAM", _some(_OUTSIDE, outer), keep=frozenset({"Weights", "Inputs", "Outputs"})),
        LevelMapping("Scratchpad", keep=frozenset({"Weights", "Inputs"})),
        LevelMapping("Accumulator", _some(_INSIDE, inner), x, y, frozenset({"Outputs"})),
        LevelMapping("PE", keep=frozenset({"Weights"})),
    )
    larger = tuple(Loop(dim, padded[dim]) for dim in _DIMS if padded[dim] > bounds[dim])
    einsum = layer(bounds, (row.numbers["Wstride"], row.numbers["Hstride"]), row.numbers["Wdilation"])
    return einsum, Mapping(levels, padded=larger)


def _fill_the_array(
    size: int, bounds: Dict[str, int], spread: dict[str, int], outer: dict[str, int], inner: dict[str, int]
) -> None:
    """Set the tiles of a matrix product that its loop ran: whole arrays, one for every 16 words of the row's tile.

    DOSA's scripts divide tiles by 16 whatever the array (`calibration.py`), and the loop counts in arrays.
    """
    for dim in "KCP":
        if dim == "P" and bounds["P"] < size:
            continue
        arrays = max(1, inner[dim] * spread.get(dim, 1) // DIVIDED)
        outer[dim] = -(-bounds[dim] // (arrays * size))
        arrays = -(-bounds[dim] // (outer[dim] * size))
        if dim == "P":
            inner["P"] = arrays * size
        else:
            spread[dim], inner[dim] = size, arrays


def _some(dims: Sequence[str] | Dict[str, None], bounds: Dict[str, int]) -> tuple[Loop, ...]:
    """Loops in an order, without those of bound 1."""
    return tuple(Loop(dim, bounds[dim]) for dim in dims if bounds[dim] > 1)


def layer(bounds: Dict[str, int], strides: tuple[int, int] = (1, 1), dilation: int = 1) -> Einsum:
    """A convolution as Gemmini stores it: channels innermost. P and R go with the first stride."""
    w, h = strides
    width, height = (("P", w), ("R", dilation)), (("Q", h), ("S", dilation))
    inputs = ((("N", 1),), height, width, (("C", 1),))
    weights, outputs = (tuple(((dim, 1),) for dim in dims) for dims in ("SRCK", "NQPK"))
    operands = Tensor("Weights", weights, "Weights", 8, 8), Tensor("Inputs", inputs, "Inputs", 8, 8)
    return Einsum("layer", bounds, (*operands, Tensor("Outputs", outputs, "Outputs", 8, 32, output=True)))


def validate_gemmini(paths: Sequence[str | Path] = ()) -> list[GemminiCycles]:
    """Evaluate every row.

    Raises NoReferenceError if no path is given and the usual table is absent; AccelsimError if a table cannot be read.
    """
    return [evaluate_row(row) for path in reference_paths(paths, USUAL) for row in read_rows(path)]


@dataclass(frozen=True, slots=True)
class BestOfLayer:
    """The fastest `tuned` mapping of a layer as measured, and the fastest of all on its machine as predicted."""

    tuned: GemminiCycles
    search: SearchResult


def best_of_layers(found: Sequence[GemminiCycles], seconds: float) -> list[BestOfLayer]:
    """Search the fastest mapping of each layer of the `tuned` rows, so many seconds each.

    The machine has the sizes of the row that took the fewest cycles. K goes along the columns of the array and C down
    its rows, as in Gemmini.
    """
    fastest: dict[tuple[int, ...], GemminiCycles] = {}
    for each in sorted(found, key=lambda each: each.measured):
        if each.row.kind == "tuned":
            fastest.setdefault(tuple(each.row.numbers[key] for key in _LAYER), each)
    only = LevelConstraint("Accumulator", x=Block(only=frozenset("K")), y=Block(only=frozenset("C")))
    asked, budget = Constraints((only,)), Budget(seconds=seconds)
    best = []
    for (*bounds, w, h, dilation), each in fastest.items():
        einsum = layer(dict(zip(_DIMS, bounds, strict=True)), (w, h), dilation)
        machine = _machines(each.row)[0]
        found_best = map_einsum(machine, einsum, constraints=asked, objective="cycles", uneven=False, budget=budget)
        best.append(BestOfLayer(each, found_best))
    return best


@dataclass(frozen=True, slots=True)
class CycleErrors:
    """Errors of the cycles of some rows, and the share of rows within 10 %."""

    rows: str
    errors: Errors
    near: float


def gemmini_errors(found: Sequence[GemminiCycles]) -> list[CycleErrors]:
    """Errors of each set of rows: by kind, loop and what bounds them.

    Beside ours are the cycles with everything overlapped, and Timeloop's.
    """
    sets: dict[str, list[tuple[float, int]]] = {}
    for each in found:
        kind, cycles = each.row.kind, each.result.cycles
        bound = each.bound.removesuffix(" of Weights")
        names = [kind, f"{kind}, {'GEMM' if each.row.gemm else 'convolution'}", f"{kind}, in {bound}"]
        for name in names:
            sets.setdefault(name, []).append((cycles, each.measured))
        sets.setdefault(f"{kind}, if all overlapped", []).append((each.overlapped, each.measured))
        if "timeloop_cycles" in each.row.numbers:
            sets.setdefault(f"{kind}, Timeloop", []).append((each.row.numbers["timeloop_cycles"], each.measured))
    errors = []
    for name, pairs in sorted(sets.items()):
        ours, measured = np.array(pairs, np.float64).T
        near = float(np.mean(np.abs(ours / measured - 1) <= 0.1))
        errors.append(CycleErrors(name, errors_of(ours, measured, np.zeros(len(pairs))), near))
    return errors


def gemmini_json(found: Sequence[GemminiCycles], best: Sequence[BestOfLayer] = ()) -> dict[str, Any]:
    """Errors of each set of rows, every row with where its time goes, and the best mappings that were looked for."""
    document: dict[str, Any] = {
        "errors": [{"of": each.rows, **each.errors.as_row(), "near": each.near} for each in gemmini_errors(found)],
        "rows": [
            {
                "name": each.row.name,
                "measured": each.measured,
                "cycles": each.result.cycles,
                "overlapped": each.overlapped,
                "bound": each.bound,
                "time": [dict(row) for row in each.result.time_rows()],
            }
            for each in found
        ],
    }
    if best:
        document["best"] = [
            {
                "layer": " ".join(f"{dim}{bound}" for dim, bound in each.tuned.row.numbers.items() if dim in "KCPQRS"),
                "row": each.tuned.row.name,
                "gemmini": each.tuned.row.numbers.get("rtl_auto_tiling_cycles"),
                "tuned": each.tuned.measured,
                "tuned_predicted": each.tuned.result.cycles,
                "best": each.search.best.cycles,
                "proved": each.search.certificate is not None and each.search.certificate.proved,
            }
            for each in best
        ]
    return document


def gemmini_report(document: Dict[str, Any], *, every: bool = False) -> Iterator[Piece]:
    """Errors of each set of rows, best mappings, and all rows if these are asked for; CSV has them."""
    yield heading("Gemmini", "cycles of mappings beside those of its RTL")
    yield "Source: ucb-bar/dosa, commit a7a3239 (Hong et al., MICRO 2023), FireSim"
    yield Table("errors", CYCLES, document["errors"])
    yield legend(CYCLES)
    yield pale("rows by kind, and of each kind: all of a loop, and those that spend most of their time in something")
    if "best" in document:
        columns = (
            Column("layer", "layer"),
            *(Column(name, key, "{:,}".format) for name, key in _BEST.items()),
            Column("proved", lambda row: "yes" if row["proved"] else "no"),
        )
        note = "Gemmini's own tiling and the fastest tuned mapping as measured; its cycles and the fewest as predicted"
        yield Table("best", columns, document["best"], note=note)
    columns = (
        Column("name", "name"),
        *(Column(name, name, "{:,}".format) for name in ("measured", "cycles", "overlapped")),
        Column("most time in", "bound", left=True),
    )
    yield Table("rows", columns, document["rows"], shown=document["rows"] if every else [])


_BEST = {"Gemmini": "gemmini", "tuned": "tuned", "tuned, predicted": "tuned_predicted", "best, predicted": "best"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the tables named."""

    def document(parsed: argparse.Namespace) -> dict[str, Any]:
        found = validate_gemmini(parsed.paths)
        return gemmini_json(found, best_of_layers(found, parsed.best) if parsed.best else ())

    return rtl.run("Gemmini", __doc__, document, gemmini_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
