"""Compare cycles of two fused matrix products with those of an RTL simulation; validation/reports/fusion.md says how.

`python -m validation.tileflow [CYCLES ...] [--every] [--json] [--csv FILE] [-o DIR]`.
"""

from __future__ import annotations

import argparse
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

from accelsim.fusion.graph import make_graph
from accelsim.fusion.group import make_group
from accelsim.fusion.parts import Held, encode_part, held_by, intermediates, part_space
from accelsim.fusion.tiling import FusedLoop, FusedTiling, free_border, runs
from accelsim.gpu.calibration import Errors, errors_of
from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import ROLES, Einsum
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.result import Result
from accelsim.results.cache import rules_broken
from accelsim.show.report.gpu import short_percent
from accelsim.show.table import Column, Piece, Table, heading, legend
from validation import rtl
from validation.rtl import CYCLES
from validation.scalesim import gemm, systolic_array
from validation.study import read_table, reference_paths

USUAL = "golden/tileflow/fused_gemm_cycles.csv"
"""Where the rows are in the folder of reference data."""
CLAIMED = 0.054
"""Mean error of TileFlow itself, as its authors claim (MICRO 2023, Fig. 7c)."""
PES = 16
"""Rows and columns of the array; this and the figures of `_machine` are TileFlow's (AE/validation/accelerator/arch)."""
_NUMBERS = (*(f"{micro}{dim}{part}" for part in "12" for micro in ("", "micro_") for dim in "MNK"), "rtl_cycles")


@dataclass(frozen=True, slots=True)
class FusedGemms:
    """Two matrix products (A B) D that ran fused: C = A B is M x L, never leaves, and is made in tiles of rows."""

    where: str
    bounds: Dict[str, int]  # of M, K, L and N
    rows: int  # of a tile of C
    measured: int  # cycles of the RTL


@dataclass(frozen=True, slots=True)
class FusedCycles:
    """Cycles of a row, ours: of each product for all tiles of C."""

    row: FusedGemms
    parts: tuple[int, int]

    @property
    def cycles(self) -> int:
        """Of both, one after the other."""
        return sum(self.parts)


def read_pairs(path: Path) -> list[FusedGemms]:
    """Read a table of fused pairs and their cycles (CSV).

    Raises AccelsimError if it cannot be read, with every mistake and its line.
    """
    return read_table(path, _NUMBERS, _pair)


def _pair(where: str, row: Dict[str, str], wrong: list[str]) -> FusedGemms | None:
    bad = [key for key in _NUMBERS if not re.fullmatch("[1-9][0-9]{0,8}", row[key])]
    wrong += [f"{where}: {key}: expected a whole number from 1, got '{row[key]}'" for key in bad]
    if bad:
        return None
    n = {key: int(row[key]) for key in _NUMBERS}
    for one, other in (("M2", "M1"), ("K2", "N1"), ("micro_M2", "micro_M1")):
        if n[one] != n[other]:
            wrong.append(f"{where}: {one}: must be {other}, {n[other]}, for the products to be fused, got {n[one]}")
    for key in ("micro_M1", "K1", "K2"):
        if n[key] % PES:
            wrong.append(f"{where}: {key}: must be a multiple of {PES}, the size of the array, got {n[key]}")
    if n["M1"] % n["micro_M1"]:
        wrong.append(f"{where}: micro_M1: must divide M1, {n['M1']}, got {n['micro_M1']}")
    bounds = {"M": n["M1"], "K": n["K1"], "L": n["N1"], "N": n["N2"]}
    return FusedGemms(where, bounds, n["micro_M1"], n["rtl_cycles"])


@lru_cache(maxsize=1)
def _machine() -> Architecture:
    """Memory of 4 words a cycle each way, a buffer of 32, and PEs with one register for each operand."""
    array = systolic_array(PES, PES, "Inputs")
    cache, pe = array.levels
    cache = replace(cache, size_words=8 * 16384, read_bandwidth=Fraction(32), write_bandwidth=Fraction(32))
    memory = Level("Memory", "DRAM", keep=frozenset(ROLES), read_bandwidth=Fraction(4), write_bandwidth=Fraction(4))
    none = EnergyEntry(0.0, "energy is not compared")
    free = {("Memory", "*", action): none for action in ("read", "write")}
    return replace(array, levels=(memory, cache, pe), energy=EnergyTable({**array.energy.entries, **free}))


def evaluate_part(architecture: Architecture, einsum: Einsum, held: Held, capacity: int, mapping: Mapping) -> Result:
    """Evaluate a mapping of a part, with held tensors where they have to be.

    Raises ValueError if the mapping is none of the part, or no valid one.
    """
    levels = tuple(
        replace(
            nest, keep=nest.keep | (held.present if at == 0 else held.present - intermediates(held, level.keep, einsum))
        )
        if at < held.level
        else nest
        for at, (nest, level) in enumerate(zip(mapping.levels, architecture.levels, strict=False))
    )
    encoded = encode_part(architecture, einsum, held, capacity)
    result = evaluate_encoded(encoded, replace(mapping, levels=(*levels, *mapping.levels[len(levels) :])))
    if broken := rules_broken(result, part_space(encoded, held).constraints, encoded.einsum):
        raise ValueError("; ".join(broken))
    return result


def evaluate_pair(row: FusedGemms) -> FusedCycles:
    """Time the parts of a fused group: each product of each tile of C, on a machine with ramps and ports."""
    machine, b = _machine(), row.bounds
    shapes = {"AB": {"M": b["M"], "N": b["L"], "K": b["K"]}, "CD": {"M": b["M"], "N": b["N"], "K": b["L"]}}
    first, second = (replace(gemm(bounds, 16, 16), name=name) for name, bounds in shapes.items())
    group = make_group(make_graph((first, second), [(0, 1, "Inputs")]), (0, 1))
    steps = b["M"] // row.rows
    loops = (FusedLoop("M", steps, row.rows),) if steps > 1 else ()
    tiling = FusedTiling("SRAM", loops, (frozenset(),), (frozenset(), frozenset()))
    cycles = [0, 0]
    for run in runs(group, tiling, free_border(group), machine.levels[1]):
        einsum = run.part.einsum(group)
        room = machine.levels[1].rooms[""] - run.reserved
        try:
            result = evaluate_part(machine, einsum, held_by(group, run.part, 1), room, _mapping(einsum))
        except ValueError as error:
            raise AccelsimError(f"{row.where}: {einsum.name}: {error}") from None
        cycles[run.part.layer] += run.count * result.cycles
    return FusedCycles(row, (cycles[0], cycles[1]))


def _mapping(einsum: Einsum) -> Mapping:
    """Hold 16 x 16 words of the first operand at a time, and let the columns of the second stream past them."""
    d = einsum.dims
    nest = (Loop("M", d["M"] // PES), Loop("K", d["K"] // PES), Loop("N", d["N"]))
    every = frozenset(ROLES)
    cache = LevelMapping("SRAM", nest, (Loop("M", PES),), (Loop("K", PES),), every)
    return Mapping((LevelMapping("Memory", keep=every), cache, LevelMapping("PE", keep=frozenset({"Inputs"}))))


def validate_tileflow(paths: Sequence[str | Path] = ()) -> list[FusedCycles]:
    """Evaluate every row.

    Raises NoReferenceError if no path is given and the usual table is absent; AccelsimError if a table cannot be read,
    or a row does not fit.
    """
    return [evaluate_pair(row) for path in reference_paths(paths, USUAL) for row in read_pairs(path)]


def tileflow_errors(found: Sequence[FusedCycles]) -> Dict[str, Errors]:
    """Errors of all rows, and of those with as many rows of C in a tile."""
    sets: dict[str, list[FusedCycles]] = {"all": list(found)}
    for each in found:
        sets.setdefault(f"tiles of {each.row.rows:>3} rows", []).append(each)
    errors = {}
    for name, rows in sorted(sets.items()):
        ours, real = np.array([(each.cycles, each.row.measured) for each in rows], np.float64).T
        errors[name] = errors_of(ours, real, np.zeros(len(ours)))
    return errors


def tileflow_json(found: Sequence[FusedCycles]) -> dict[str, Any]:
    """Errors of all rows and by the rows of a tile, and every row."""
    return {
        "claimed": CLAIMED,
        "errors": [{"of": name, **errors.as_row()} for name, errors in tileflow_errors(found).items()],
        "rows": [
            {**each.row.bounds, "rows": each.row.rows, "measured": each.row.measured, "cycles": each.cycles}
            | dict(zip(("first", "second"), each.parts, strict=True))
            for each in found
        ],
    }


def tileflow_report(document: Dict[str, Any], *, every: bool = False) -> Iterator[Piece]:
    """Errors beside those that TileFlow's authors claim, and all rows if these are asked for; CSV has them."""
    yield heading("TileFlow", "cycles of two fused matrix products beside those of RTL")
    yield "Source: pku-liang/TileFlow, commit d72d278 (MICRO 2023, Fig. 7c)"
    yield Table("errors", CYCLES[:-1], document["errors"])
    yield legend(CYCLES[:-1])
    mean = next(row["mean"] for row in document["errors"] if row["of"] == "all")
    claimed = short_percent(document["claimed"])
    yield f"mean error {short_percent(mean)}; that of TileFlow, as its authors claim: {claimed}"
    columns = tuple(Column(name, name) for name in document["rows"][0])
    yield Table("rows", columns, document["rows"], shown=document["rows"] if every else [])


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the tables named."""

    def document(parsed: argparse.Namespace) -> dict[str, Any]:
        return tileflow_json(validate_tileflow(parsed.paths))

    return rtl.run("TileFlow", __doc__, document, tileflow_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
