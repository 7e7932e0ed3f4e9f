"""Hold the cost model's systolic arrays against SCALE-Sim's cycles and SRAM accesses, case by case."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.energy import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.level_features import Systolic
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import ROLES, Einsum, Tensor
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from validation.study import Figure, Study, read_table, reference_paths

USUAL = "golden/scalesim/cases.csv"
"""Where the cases are in the folder of reference data."""
DATAFLOWS = {"os": ("M", "N", "K"), "ws": ("K", "N", "M"), "is": ("K", "M", "N")}
"""Dimension down the rows and along the columns of the array, and the one that streams through it."""
HELD = {"os": "Outputs", "ws": "Weights", "is": "Inputs"}
_SIZES = ("array_rows", "array_cols", "M", "N", "K")
_COUNTS = ("total_cycles", "stall_cycles", "sram_ifmap_reads", "sram_filter_reads", "sram_ofmap_writes")


@dataclass(frozen=True, slots=True)
class ScaleSimCase:
    """One row of SCALE-Sim's results: a GEMM M x N x K on an array of rows x columns; counts by SCALE-Sim's names.

    `where` is its file and line.
    """

    where: str
    name: str
    rows: int
    columns: int
    dataflow: str
    bounds: Dict[str, int]
    counts: Dict[str, int]


def read_cases(path: Path) -> list[ScaleSimCase]:
    """Read a table of cases (CSV); raises AccelsimError if it cannot be read, with every mistake and its line.

    Its columns are `array_rows`, `array_cols`, `dataflow` (os, ws or is), `M`, `N`, `K`, `total_cycles`,
    `stall_cycles`, `sram_ifmap_reads`, `sram_filter_reads` and `sram_ofmap_writes`; others are for names.
    """
    return read_table(path, ("dataflow", *_SIZES, *_COUNTS), _case, "cases")


def _case(where: str, row: Dict[str, str], wrong: list[str]) -> ScaleSimCase | None:
    numbers = {}
    for key in (*_SIZES, *_COUNTS):
        value = _whole(row[key])
        if value is None or (value < 1 and key in _SIZES):
            wrong.append(f"{where}: {key}: expected a whole number{' from 1' * (key in _SIZES)}, got '{row[key]}'")
        else:
            numbers[key] = value
    if row["dataflow"] not in DATAFLOWS:
        wrong.append(f"{where}: dataflow: expected one of {', '.join(DATAFLOWS)}, got '{row['dataflow']}'")
    elif len(numbers) == len(_SIZES) + len(_COUNTS):
        name = "/".join(row[key] for key in ("set", "layer") if row.get(key)) or f"line {where.rpartition(':')[2]}"
        size, dataflow = (numbers["array_rows"], numbers["array_cols"]), row["dataflow"]
        name = f"{name} on {size[0]}x{size[1]} {dataflow}"
        bounds, counts = {dim: numbers[dim] for dim in "MNK"}, {key: numbers[key] for key in _COUNTS}
        return ScaleSimCase(where, name, *size, dataflow, bounds, counts)
    return None


def _whole(text: str) -> int | None:
    """Read a whole number, which may be written as 12.0."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() and 0 <= value < 1 << 62 else None


def evaluate_fold(case: ScaleSimCase) -> Result:
    """Evaluate a case with the cost model, mapped as SCALE-Sim maps it.

    The dimensions of what the PEs hold are spread over the whole array, with remainders where they do not divide; the
    folds follow each other, and in each the third dimension streams through the array.
    """
    down, along, stream = DATAFLOWS[case.dataflow]
    bounds = case.bounds
    rows, columns = min(case.rows, bounds[down]), min(case.columns, bounds[along])
    folds = (Loop(down, -(-bounds[down] // rows)), Loop(along, -(-bounds[along] // columns)))
    x, y, whole = (Loop(along, columns),), (Loop(down, rows),), frozenset(ROLES)
    sram = LevelMapping("SRAM", (*folds, Loop(stream, bounds[stream])), x, y, whole)
    pe = LevelMapping("PE", keep=frozenset({HELD[case.dataflow]}))
    imperfect = [down] * (folds[0].bound * rows > bounds[down]) + [along] * (folds[1].bound * columns > bounds[along])
    mapping = Mapping((sram, pe), imperfect=frozenset(imperfect))
    return evaluate(systolic_array(case.rows, case.columns, HELD[case.dataflow]), gemm(bounds), mapping)


def gemm(bounds: Dict[str, int], bits: int = 8, psum_bits: int = 32) -> Einsum:
    """A matrix product O[m, n] = sum over k of I[m, k] * W[k, n]; the tensors are named by their roles."""
    ranks = {"Inputs": "MK", "Weights": "KN", "Outputs": "MN"}
    tensors = [Tensor(role, tuple(((dim, 1),) for dim in dims), role, bits, bits) for role, dims in ranks.items()]
    tensors[-1] = replace(tensors[-1], psum_bits=psum_bits, output=True)
    return Einsum("gemm", bounds, tuple(tensors))


def systolic_array(rows: int, columns: int, held: str) -> Architecture:
    """An array whose PEs hold one word of one tensor, below an SRAM without limits; energies are not looked at."""
    array = Systolic(held)
    x, y = (Axis(size, *array.shares(axis)) for axis, size in (("x", columns), ("y", rows)))
    pj = EnergyEntry(0.0, "energy is not compared")
    entries = {(name, role, action): pj for name in ("SRAM", "PE") for role in ROLES for action in ("read", "write")}
    return Architecture(
        f"{rows}x{columns}",
        (
            Level("SRAM", "SRAM", keep=frozenset(ROLES), x=x, y=y, systolic=array),
            Level("PE", "register", size_words=1, keep=frozenset({held}), bypass=frozenset(ROLES) - {held}),
        ),
        Compute(),
        EnergyTable({**entries, ("MAC", "*", "compute"): pj}),
    )


def scalesim_study(paths: Sequence[str | Path] = ()) -> Study:
    """Compare cycles and SRAM accesses of every case; all must be equal.

    Raises NoReferenceError if no path is given and the usual cases are absent; AccelsimError if a table cannot be read,
    or a case is too large to count.
    """
    cases = [case for path in reference_paths(paths, USUAL) for case in read_cases(path)]
    figures: list[Figure] = []
    read_back = 0
    for case in cases:
        try:
            result = evaluate_fold(case)
        except AccelsimError as error:
            raise AccelsimError(f"{case.where}: {error}") from None
        figures += _figures(case, result)
        read_back += next(t.total_reads for t in result.tensors if (t.level, t.tensor) == ("SRAM", "Outputs"))
    return Study(
        name="scalesim",
        about="cycles and SRAM accesses of systolic arrays beside SCALE-Sim's",
        source="SCALE-Sim 3.0.0 (PyPI), without stalls",
        figures=tuple(figures),
        notes=(
            f"GEMMs, and convolutions as GEMMs: {len(cases):,}; sizes of array: "
            f"{len({(case.rows, case.columns) for case in cases})}; each mapping is evaluated by the cost model, folds "
            "with remainders",
            "cycles: SCALE-Sim tells the index of the last cycle, here plus 1, without stalls",
            "writes of an output-stationary array: SCALE-Sim adds folds x (rows + columns), here taken off again",
            f"SCALE-Sim does not count the partial sums that are read back between folds; accelsim does: {read_back:,} "
            "words in all",
        ),
    )


def _figures(case: ScaleSimCase, result: Result) -> list[Figure]:
    sram = {t.tensor: t for t in result.tensors if t.level == "SRAM"}
    writes = case.counts["sram_ofmap_writes"]
    if case.dataflow == "os":
        down, along, _ = DATAFLOWS["os"]
        folds = -(-case.bounds[down] // case.rows) * -(-case.bounds[along] // case.columns)
        writes -= folds * (case.rows + case.columns)
    found = (
        ("cycles", "", case.counts["total_cycles"] + 1 - case.counts["stall_cycles"], result.cycles),
        ("SRAM reads of Inputs", "words", case.counts["sram_ifmap_reads"], sram["Inputs"].total_reads),
        ("SRAM reads of Weights", "words", case.counts["sram_filter_reads"], sram["Weights"].total_reads),
        ("SRAM writes of Outputs", "words", writes, sram["Outputs"].total_updates),
    )
    return [
        Figure(case.name, quantity, unit, published, ours, 0.0, variant=case.dataflow)
        for quantity, unit, published, ours in found
    ]
