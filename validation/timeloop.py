"""Hold our numbers against Timeloop's, record by record and quantity by quantity.

A record is an `input.yaml` beside its `result.json`, or one line of both in a `cases.jsonl`.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from accelsim.importers.documents import parse
from accelsim.importers.foreign import Foreign
from accelsim.importers.timeloop_inputs import convert
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import read_json, read_utf8
from accelsim.inputs.mapping import Mapping, products
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from validation.study import Figure, Study, reference_paths
from validation.timeloop_replay import TWO_ITERATIONS, default_counts

USUAL = "golden/timeloop"
"""Where the records are in the folder of reference data."""
ENERGY_TOLERANCE = 1e-9
"""Relative; Timeloop adds the same products up in another order."""

SIMULATED = "default_equals_exact_simulation"
COUNTS = ("utilized_capacity", "reads", "fills", "updates", "utilized_instances")
_IMPERFECT = "imperfect factors: Timeloop's own counts are wrong there"
_MALFORMED = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError),
    *(ArithmeticError, RecursionError, OSError, AccelsimError),
)
"""What a record of the wrong shape makes its readers raise."""

Json = dict[str, Any]
Quantity = tuple[str, float, float]
"""What, ours, theirs."""


@dataclass(frozen=True, slots=True)
class TimeloopCase:
    """One record: Timeloop's inputs in our terms, and what Timeloop said of them."""

    architecture: Architecture
    einsum: Einsum
    mapping: Mapping
    record: Json


class _NotComparedError(Exception):
    """Why a record is not compared; `equal`: its flags exclude it, which is no fault of ours."""

    def __init__(self, reason: str, *, equal: bool = True) -> None:
        super().__init__(reason)
        self.equal = equal


@dataclass(frozen=True, slots=True)
class CaseComparison:
    """One record: whether it was compared (else why not), how many quantities, those that differ, and the worst.

    `equal` is false for a difference, and for a record that could not be read though its flags do not exclude it.
    `counts` says with which of our counts the printed ones are compared: those of the whole execution, or those that
    Timeloop's default finds in `TWO_ITERATIONS`.
    """

    name: str
    compared: bool
    reason: str
    quantities: int = 0
    different: int = 0
    worst_what: str = ""
    equal: bool = False
    counts: str = ""


def _records(path: Path) -> Iterator[tuple[str, Callable[[], TimeloopCase]]]:
    """Name and reader of each record at a path, in the order of the files; raises AccelsimError if there are none.

    The path is a `cases.jsonl`, an `input.yaml` with its `result.json` beside it, or a folder that holds any of these
    at any depth.
    """
    if not path.exists():
        raise AccelsimError(f"{path}: no such file or folder")
    lines = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path] if path.suffix == ".jsonl" else []
    inputs = sorted(path.rglob("input.yaml")) if path.is_dir() else [path] if path.suffix in (".yaml", ".yml") else []
    if not lines and not inputs:
        hint = "`python -m validation.timeloop_files` takes Timeloop's stats.txt and inputs"
        raise AccelsimError(f"{path}: holds no cases.jsonl and no input.yaml with a result.json beside it; {hint}")
    for file in lines:
        yield from _lines_of(file)
    for file in inputs:
        yield f"{file.parent.name}/{file.name}", partial(_read_folder, file)


def _lines_of(file: Path) -> Iterator[tuple[str, Callable[[], TimeloopCase]]]:
    catalogues: dict[str, dict[str, Json]] = {}
    for number, line in enumerate(read_utf8(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            name = str(record["name"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise AccelsimError(f"{file}:{number}:1: not a record: {error}; expected one JSON object a line") from None
        yield name, partial(_read_line, record, file.parent, catalogues)


def _named(record: Json, key: str, catalogue: str, folder: Path, known: dict[str, dict[str, Json]]) -> Json:
    """What a record holds under a key, or names there as an entry of a catalogue beside it (or in a folder above)."""
    value = record[key]
    if isinstance(value, dict):
        return value
    if catalogue not in known:
        found = next((up / catalogue for up in (folder, *folder.parents) if (up / catalogue).is_file()), None)
        if found is None:
            raise AccelsimError(f"{catalogue} is missing beside the records")
        known[catalogue] = read_json(found)
    return known[catalogue][value]


def _read_folder(file: Path) -> TimeloopCase:
    beside = file.with_name("result.json")
    if not beside.exists():
        raise _NotComparedError(f"{beside.name} is missing beside it", equal=False)
    record = read_json(beside)
    return _loaded(convert([parse(read_utf8(file), str(file))]), record)


def _loaded(foreign: Foreign, record: Json) -> TimeloopCase:
    if foreign.mapping and "imperfect" in foreign.mapping:
        raise _NotComparedError(_IMPERFECT)
    return TimeloopCase(*foreign.loaded(), record)


def _read_line(record: Json, folder: Path, catalogues: dict[str, dict[str, Json]]) -> TimeloopCase:
    """Read a record as the v0.3 files that it stands for."""
    machine = _named(record, "arch", "architectures.json", folder, catalogues)
    shape = _named(record, "shape", "shapes.json", folder, catalogues)
    directives = record["mapping"]
    if any(isinstance(bound, list) for directive in directives for bound in directive.get("factors", {}).values()):
        raise _NotComparedError(_IMPERFECT)
    parts = [*machine["levels"], {"name": "MAC", "cls": "intmac", **machine["mac"]}]
    energies = {part["name"]: part["ert"].items() for part in parts}
    actions = {name: [{"name": key, "energy": float(pj)} for key, pj in of] for name, of in energies.items()}
    files = {
        "architecture": {"subtree": [], "local": [_component(part) for part in parts]},
        "problem": {"shape": shape, "instance": record["instance"]},
        "mapping": [_directive(directive) for directive in directives],
        "ERT": {"tables": [{"name": name, "actions": of} for name, of in actions.items()]},
    }
    return _loaded(convert([parse(json.dumps(files), "record")]), record)


def _component(part: Json) -> Json:
    across, down = part["mesh"]
    attributes = {"meshX": across, **part.get("attrs", {})}
    return {"name": f"{part['name']}[0..{across * down - 1}]", "class": part["cls"], "attributes": attributes}


def _directive(directive: Json) -> Json:
    """A directive of a mapping: permutations innermost first, the dimensions on Y last."""
    found: Json = {key: directive[key] for key in ("target", "type", "keep", "bypass") if key in directive}
    factors = directive.get("factors", {})
    found["factors"] = [f"{dim}={bound}" for dim, bound in factors.items()]
    if directive["type"] == "spatial":
        on_y = set(directive.get("y", []))
        found["permutation"] = sorted(factors, key=lambda dim: dim in on_y)
        found["split"] = len(factors.keys() - on_y)
    elif directive["type"] == "temporal":
        order = directive["order"]
        found["permutation"] = [*order, *(dim for dim in factors if dim not in order)][::-1]
    return found


def validate_timeloop(paths: Sequence[str | Path]) -> list[CaseComparison]:
    """Evaluate Timeloop's records with our model and compare all counts; raises AccelsimError if a path holds none.

    Integers must be equal, energies to 1e-9 relative. All networks have link transfers, as Timeloop's do. A record
    whose flags say that it rests on imperfect factors or on a changed environment switch is not compared. Where
    Timeloop's default, which visits two iterations of each loop only, is not what a full simulation gives, the record's
    simulated variant is compared, and the printed counts with those of two iterations; so they are where the record was
    too large to be simulated and does not print the counts of the whole execution.
    """
    return [_compare(*record) for path in paths for record in _records(Path(path))]


def timeloop_study(paths: Sequence[str | Path] = ()) -> Study:
    """Compare Timeloop's records; of each, how many quantities are equal, and whether it can be read.

    Raises NoReferenceError if no path is given and the usual records are absent.
    """
    cases = validate_timeloop(reference_paths(paths, USUAL))
    figures, excluded = [], dict[str, list[str]]()
    for case in cases:
        if case.compared:
            many, equal = case.quantities, case.quantities - case.different
            figures.append(Figure(case.name, "equal quantities", "", many, equal, 0.0, case.counts, case.worst_what))
        elif case.equal:
            excluded.setdefault(case.reason, []).append(case.name)
        else:
            figures.append(Figure(case.name, "records that can be read", "", 1, 0, 0.0, why=case.reason))
    compared = sum(case.compared for case in cases)
    left = (f"not compared: {listed(names)}: {reason}" for reason, names in sorted(excluded.items()))
    return Study(
        name="timeloop",
        about="counts, energy and cycles of the cost model beside Timeloop's, record by record",
        source="NVlabs/timeloop, commit 4cf6d4c, classic analysis",
        figures=tuple(figures),
        notes=(
            f"{sum(case.quantities for case in cases):,} quantities of {compared} of {len(cases)} records compared",
            *left,
        ),
    )


def _compare(name: str, read: Callable[[], TimeloopCase]) -> CaseComparison:
    try:
        return _compare_read(name, read())
    except _NotComparedError as error:
        return CaseComparison(name, False, str(error), equal=error.equal)
    except _MALFORMED as error:
        why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        return CaseComparison(name, False, f"cannot be read: {why}")


def _compare_read(name: str, case: TimeloopCase) -> CaseComparison:
    reason, flags = _excluded(case.record), case.record.get("flags", {})
    linked = (replace(level, link_transfers=True) for level in case.architecture.levels)
    result = evaluate(replace(case.architecture, levels=tuple(linked)), case.einsum, case.mapping)
    if "error" in case.record:
        quantities: list[Quantity] = [("mapping is refused", float(not result.valid), 1.0)]
    else:
        quantities = list(_quantities(case, result, {}))
    wrong = [quantity for quantity in quantities if not _same(quantity)]
    counts = "whole execution"
    if wrong and "error" not in case.record and flags.get(SIMULATED) is not True:
        counts, default = TWO_ITERATIONS, default_counts(case.einsum, case.mapping, result)
        quantities = list(_quantities(case, result, default))
        wrong = [quantity for quantity in quantities if not _same(quantity)]
    worst = max(wrong, key=_difference, default=("", 0.0, 0.0))
    if not reason and wrong and flags.get("refmodel_agrees") is False:
        reason = f"marked as Timeloop's own rounding: {worst[0]} is {worst[1]:.15g}, truncated to {worst[2]:.15g}"
    if reason:
        raise _NotComparedError(reason)
    what = f"{worst[0]}: ours {worst[1]:.15g}, Timeloop's {worst[2]:.15g}" if wrong else ""
    return CaseComparison(name, True, "", len(quantities), len(wrong), what, not wrong, counts)


def _excluded(record: dict[str, Any]) -> str:
    flags, networks = record.get("flags", {}), record.get("result", {}).get("networks", [])
    passed = any(counts.get("link_transfers") for network in networks for counts in network["tensors"].values())
    if flags.get("link_transfers_matter") and not passed:
        return "link transfers into a level that keeps nothing: Timeloop drops them, but reads less all the same"
    if flags.get("imperfect_factors"):
        return _IMPERFECT
    return "a changed environment switch: other counting rules" if flags.get("env_switch") else ""


def _difference(quantity: Quantity) -> float:
    _, ours, theirs = quantity
    return abs(ours - theirs) / max(abs(ours), abs(theirs)) if ours != theirs else 0.0


def _same(quantity: Quantity) -> bool:
    what, ours, theirs = quantity
    return math.isclose(ours, theirs, rel_tol=ENERGY_TOLERANCE) if "energy" in what else ours == theirs


def _quantities(case: TimeloopCase, result: Result, default: dict[tuple[str, str], list[int]]) -> Iterator[Quantity]:
    """Every number that both have; `default` replaces our counts where Timeloop's default is known to differ."""
    theirs = case.record["result"]
    changed = _simulated(case.record)
    cycles = theirs["cycles"] if theirs["cycles"] in _rounded_cycles(case, result) else result.cycles
    yield "valid", float(result.valid), 1.0
    yield "cycles", cycles, theirs["cycles"]
    yield "computes", result.macs, theirs["computes"]
    yield "utilization", float(result.ideal_cycles / cycles), theirs["utilization_exact"]
    energy_shift = 0.0
    ours = {(t.level, t.tensor): t for t in result.tensors}
    used = {level.level: level.used_instances for level in result.levels}
    for level in theirs["levels"]:
        if level["name"] == result.compute:
            yield "MAC instances used", result.compute_used, level["utilized_instances"]
            yield "MAC energy", result.compute_pj, level["energy_total_pj"]
            continue
        for tensor, counts in level["tensors"].items():
            name = f"{level['name']} {tensor}"
            mine = ours.pop((level["name"], tensor), None)
            yield f"{name} kept", float(mine is not None), 1.0
            if mine is None:
                continue
            key = (level["name"], tensor)
            printed = [counts[what] for what in COUNTS]
            of = used[level["name"]]  # not all pass words on to a neighbour; Timeloop rounds the average (tiling.cpp)
            reads = math.floor(Fraction(mine.total_reads, of) + Fraction(1, 2))
            exact = [mine.tile_words, reads, mine.fills, mine.updates, of]
            visited = default.get(key, exact)
            if visited != exact:
                energy_shift += mine.energy_pj - counts["energy_total_pj"]
            else:
                rounding = mine.read_pj * (reads * of / mine.total_reads - 1) if mine.total_reads else 0.0
                yield f"{name} energy", mine.energy_pj + rounding, counts["energy_total_pj"]
                energy_shift -= rounding
            for what, our, their in zip(COUNTS, visited, printed, strict=True):
                yield f"{name} {what}", our, their
            if changed:
                for what, our, their in zip(COUNTS, exact, changed.get(key, printed), strict=True):
                    yield f"{name} {what} simulated", our, their
    for level_name, tensor in ours:
        yield f"{level_name} {tensor} kept", 1.0, 0.0
    leak = {level.level: level.leak_pj for level in result.levels}
    printed_leak = {level["name"]: level.get("leakage_energy_total_pj_2dp", 0.0) for level in theirs["levels"]}
    for level_name, leak_pj in leak.items():
        in_time = leak_pj / result.cycles * cycles
        yield f"{level_name} leakage, as printed", float(f"{in_time:.2f}"), printed_leak[level_name]
    dynamic = result.energy_pj - energy_shift - sum(leak.values())
    yield "total energy", dynamic, theirs["total_energy_pj"] - sum(printed_leak.values())
    yield from _networks(case, result)


def _simulated(record: dict[str, Any]) -> dict[tuple[str, str], list[int]]:
    """Counts by level and tensor that a full simulation changes (the record's variant without extrapolation)."""
    if record.get("flags", {}).get(SIMULATED) is not False:
        return {}
    variant = record.get("variants", {}).get("no_extrapolation", {})
    differences = variant.get("diff_(capacity,reads,fills,updates,instances)", {})
    found = {}
    for name, counts in differences.items():
        level, _, tensor = name.partition(".")
        found[level, tensor] = counts["variant"]
    return found


def _rounded_cycles(case: TimeloopCase, result: Result) -> set[int]:
    """Cycles that Timeloop prints, `ceil(T / slowdown)` in doubles (buffer.cpp), if at most one off ours.

    Ours are the exact `ceil(words / bandwidth)`. Where that quotient is an integer, the doubles may round to just above
    it.
    """
    steps = result.compute_cycles
    printed = {steps}
    for level in case.architecture.levels:
        counts = [t for t in result.tensors if t.level == level.name]
        read, write = sum(t.reads / steps for t in counts), sum((t.fills + t.updates) / steps for t in counts)
        slowdown = min([1.0, *(float(rate) / demand for rate, demand in level.ports(read, write) if demand > 0)])
        printed.add(math.ceil(steps / slowdown))
    return {max(printed)} if abs(max(printed) - result.cycles) <= 1 else set()


def _networks(case: TimeloopCase, result: Result) -> Iterator[Quantity]:
    """Fanout, and multicast factors with how many groups of children have each."""
    names = [level.level for level in result.levels] + [result.compute]
    ours = {(network.level, network.tensor): network for network in result.networks}
    for network in case.record["result"].get("networks", []):
        above, _, below = network["name"].partition(" <==> ")
        if above not in names or names[names.index(above) + 1] != below:
            continue
        for tensor in case.einsum.tensors:
            counts = network["tensors"].get(tensor.name)
            if not counts or not counts["ingresses"]:
                continue
            name = f"{network['name']} {tensor.name}"
            groups = multicast_groups(case.mapping, tensor, names.index(above))
            yield f"{name} fanout", ours[above, tensor.name].children, counts["fanout"]
            passed = counts.get("link_transfers", 0)
            yield f"{name} link transfers", ours[above, tensor.name].link_transfers, passed
            if passed:  # the groups are not the same in all steps
                continue
            yield f"{name} multicast factor", max(groups), counts["multicast_factor"]
            yield f"{name} distinct", sum(groups.values()), ours[above, tensor.name].distinct
            for theirs in counts["ingress_histogram"]:
                yield f"{name} groups of {theirs['multicast']}", groups.pop(theirs["multicast"], 0), theirs["scatter"]
            yield f"{name} other groups", sum(groups.values()), 0


def multicast_groups(mapping: Mapping, tensor: Tensor, network: int) -> Counter[int]:
    """How many groups of children that need equal tiles there are, by their number of children.

    Counted child by child, on the network below level `network`.
    """
    inside = products(loop for level in mapping.levels[network + 1 :] for loop in level.loops)
    spread = products((*mapping.levels[network].x, *mapping.levels[network].y))
    offsets = Counter[tuple[int, ...]]()
    for child in itertools.product(*map(range, spread.values())):
        place = {dim: at * inside.get(dim, 1) for dim, at in zip(spread, child, strict=True)}
        offsets[tuple(sum(factor * place.get(dim, 0) for dim, factor in rank) for rank in tensor.ranks)] += 1
    return Counter(offsets.values())
