"""Check a result.json: evaluate its mappings again, walk them where they are small, and derive the bound anew.

A search that is run again has the code of the one that wrote the file, but nothing that it found: tables, bound and
optimum are made anew, and every mapping is costed by the model and, where small enough, by executing its loop nest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from accelsim.architecture import Architecture
from accelsim.constraints import Constraints
from accelsim.errors import NoValidMapping
from accelsim.explain import LARGEST_WALK, same_as_walked
from accelsim.mapping import Mapping as LoopNest
from accelsim.model.evaluate import evaluate
from accelsim.output import read_mapping_json, result_json
from accelsim.result import Result
from accelsim.search.result import Certificate, FrontResult, SearchResult
from accelsim.search.strategy import Budget, Objective, OnProgress
from accelsim.workload import Einsum

TOLERANCE = 1e-10
"""Relative difference that the order of a sum may make; counts must be equal."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a result.json says, as recorded and as it is; `note` says what could not be compared, or how.

    `agrees` is None where nothing was compared.
    """

    what: str
    recorded: Any
    found: Any
    agrees: bool | None
    note: str = ""


def verify(
    document: Mapping[str, Any],
    architecture: Architecture,
    einsum: Einsum,
    constraints: Constraints | None = None,
    *,
    seconds: float | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> list[Check]:
    """Check what a result.json says about one layer.

    Parameters
    ----------
    document : mapping
        With `result` and `search`, or with `front`, as `accelsim map` writes it for a layer.
    architecture, einsum, constraints
        What the mapping is of.
    seconds : float, optional
        Stop a search that derives a bound after so long; the bound is then not derived, which is no agreement.
    workers, on_progress
        As for `map_einsum`.

    Returns
    -------
    list of Check
        The result holds if none of them disagrees.
    """
    if constraints is not None:
        constraints.check(architecture, einsum)
    task = _Task(architecture, einsum, constraints, Budget(seconds=seconds), workers, on_progress)
    if "front" in document:
        return [*_check_front(task, document["front"])]
    checks = [*_check_result(task, document["result"])]
    return [*checks, *_check_search(task, document["search"], document["result"])] if "search" in document else checks


@dataclass(frozen=True, slots=True)
class _Task:
    architecture: Architecture
    einsum: Einsum
    constraints: Constraints | None
    budget: Budget
    workers: int | None
    on_progress: OnProgress | None

    def cost(self, recorded: Any) -> Result:
        """Evaluate the mapping of a result or a point, as result.json holds it."""
        return evaluate(self.architecture, self.einsum, _mapping(recorded))

    def breaks(self, result: Result) -> list[str]:
        """Rules that a mapping breaks, those of the constraints included."""
        broken = [str(violation) for violation in result.violations]
        if self.constraints is None:
            return broken
        slow = self.constraints.broken_by_time(result.cycles, result.ideal_cycles)
        return broken + self.constraints.broken_by(result.mapping) + slow


def _mapping(recorded: Any) -> LoopNest:
    """The mapping of a result or a point."""
    return read_mapping_json(recorded["mapping"], recorded["imperfect"], recorded["padded"])


def _check_result(task: _Task, recorded: Mapping[str, Any]) -> Iterator[Check]:
    """Evaluate the best mapping, compare every number, and walk its nest."""
    try:
        result = task.cost(recorded)
    except ValueError as error:
        yield Check("mapping", "valid" if recorded["valid"] else "invalid", str(error), False)
        return
    found = result_json(result)
    broken = task.breaks(result)
    wanted = "valid" if recorded["valid"] else "invalid"
    yield Check("mapping", wanted, "; ".join(broken) or "valid", recorded["valid"] == (not broken))
    for what, key in (("energy [pJ]", "energy_pj"), ("cycles", "cycles"), ("EDP [pJ x cycle]", "edp_pj_cycles")):
        yield Check(what, recorded[key], found[key], _close(recorded[key], found[key]))
    different = sorted(key for key in found if not alike(recorded.get(key), found[key]))
    counts = f"{count_values(found):,} numbers and names"
    yield Check("all counts and energies", counts, f"different: {', '.join(different)}" if different else counts,
                not different, "evaluated by the cost model")  # fmt: skip
    walked = same_as_walked(task.architecture, task.einsum, result)
    if walked is None:
        size = f"{task.einsum.macs:,} MACs on {result.compute_used:,} compute units"
        note = f"too large to execute: {size}, the limit is {LARGEST_WALK:,} MACs x units"
        yield Check("loop nest executed", None, None, None, note)
    else:
        yield Check("loop nest executed", "counts as recorded", "the same" if walked else "different", walked,
                    "each step of the nest, no formula")  # fmt: skip


def _check_search(task: _Task, recorded: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Check]:
    """Evaluate every mapping that is listed, and derive the certificate anew."""
    goal = Objective.parse(recorded["objective"])
    certificate, ranked = recorded["certificate"], recorded["ranked"]
    if ranked:
        yield _check_points(task, ranked, lambda cost: {"value": goal.value(cost.energy_pj, cost.cycles)})
    if certificate is None:
        yield Check("certificate", "none", None, None, "a search by sampling proves nothing")
        return
    value = goal.value(result["energy_pj"], result["cycles"])
    yield Check("value of the best mapping", certificate["value"], value, _close(certificate["value"], value))
    within = recorded["within"]
    try:
        again = _search_again(task, recorded, len(ranked), None if within is None else within["share"])
    except NoValidMapping as error:
        yield Check("optimum", certificate["value"], str(error).splitlines()[0], False)
        return
    derived = again.certificate
    if derived is not None:
        yield from check_certificate(certificate, derived)
    if again.stop != "exhausted":
        return
    if within is not None:
        yield Check(f"mappings within {100 * within['share']:.3g} %", *_same(within["mappings"], _count(again)))
    if ranked:
        values = [goal.value(cost.energy_pj, cost.cycles) for cost in again.ranked]
        alike = len(values) == len(ranked) and all(
            _close(row["value"], value) for row, value in zip(ranked, values, strict=True)
        )
        yield Check("values of the best mappings", _many(len(ranked), "value"),
                    "the same" if alike else "different: " + _many(len(values), "value"), alike)  # fmt: skip


def check_certificate(certificate: Mapping[str, Any], derived: Certificate) -> Iterator[Check]:
    """Hold a recorded certificate against one that was derived anew."""
    value, bound = certificate["value"], certificate["bound"]
    if not derived.proved:
        note = f"stopped early: the bound is {derived.bound:.6g} so far; give it more --seconds"
        yield Check("lower bound", bound, derived.bound, False, note)
        return
    if certificate["proved"]:
        yield Check("optimum, searched anew", value, derived.value, _close(value, derived.value))
        yield Check("lower bound, derived anew", bound, derived.bound, _close(bound, derived.bound))
        return
    low = bound <= derived.value * (1 + TOLERANCE)
    yield Check("lower bound", bound, derived.value, low, "the optimum, searched anew, must not lie below the bound")
    high = value >= derived.bound * (1 - TOLERANCE)
    yield Check("best found", value, derived.value, high, "must not lie below the optimum, searched anew")
    gap = value / derived.value - 1 if derived.value else 0.0
    recorded = certificate["gap"]
    yield Check("gap", recorded, gap, recorded is None or gap <= recorded + TOLERANCE, "as promised, and as it is")


def _check_points(task: _Task, rows: list[Mapping[str, Any]], more: Any) -> Check:
    """Evaluate every mapping of a list."""
    wrong = []
    for number, row in enumerate(rows, 1):
        try:
            cost = task.cost(row)
        except ValueError:
            wrong.append(str(number))
            continue
        expected = {"energy_pj": cost.energy_pj, "cycles": cost.cycles, **more(cost)}
        if task.breaks(cost) or not all(_close(row[key], value) for key, value in expected.items()):
            wrong.append(str(number))
    found = f"different: number {', '.join(wrong)}" if wrong else "the same"
    return Check("listed mappings, evaluated", _many(len(rows), "mapping"), found, not wrong)


def _check_front(task: _Task, recorded: Mapping[str, Any]) -> Iterator[Check]:
    """Evaluate every point of a front, and search the front anew."""
    from accelsim.search.exact.mapper import map_front

    points, columns = recorded["points"], tuple(recorded["columns"])
    yield _check_points(task, points, lambda _: {})
    wrong = [
        str(number)
        for number, point in enumerate(points, 1)
        for column, value in zip(columns, point["values"], strict=True)
        if column in ("energy", "cycles") and not _close(value, point["energy_pj" if column == "energy" else column])
    ]
    yield Check("columns of the points", _many(len(points), "point"), f"different: {', '.join(wrong)}" if wrong else
                "the same", not wrong)  # fmt: skip
    again = map_front(
        task.architecture, task.einsum, columns, constraints=task.constraints, budget=task.budget,
        workers=task.workers, on_progress=task.on_progress,
    )  # fmt: skip
    if again.stop != "exhausted":
        yield Check("front", _many(len(points), "point"), None, False, "stopped early; give it more --seconds")
        return
    yield _compare_fronts(recorded, again)


def _compare_fronts(recorded: Mapping[str, Any], again: FrontResult) -> Check:
    """Hold a recorded front against one that was searched anew."""
    points = [tuple(point["values"]) for point in recorded["points"]]
    if recorded["stop"] == "exhausted":
        alike = len(points) == len(again.values) and all(
            all(map(_close, a, b)) for a, b in zip(points, again.values, strict=True)
        )
        found = _many(len(again.values), "point") + ("" if alike else ", different ones")
        return Check("front, searched anew", _many(len(points), "point"), found, alike)
    reached = all(
        any(all(b <= a * (1 + TOLERANCE) for a, b in zip(point, best, strict=True)) for best in again.values)
        for point in points
    )
    said = _many(len(points), "point") + ", not complete"
    note = "no recorded point may beat the complete front"
    return Check("front, searched anew", said, _many(len(again.values), "point"), reached, note)


def _search_again(task: _Task, recorded: Mapping[str, Any], ranked: int, within: float | None) -> SearchResult:
    from accelsim.search.mapper import map_einsum

    return map_einsum(
        task.architecture, task.einsum, constraints=task.constraints, objective=recorded["objective"], method="exact",
        top=max(1, ranked), within=within, uneven=recorded["uneven"],
        imperfect=recorded["imperfect"], pad=recorded["padded"], budget=task.budget, workers=task.workers,
        on_progress=task.on_progress,
    )  # fmt: skip


def _count(search: SearchResult) -> int:
    return 0 if search.within is None else search.within[1]


def _same(recorded: Any, found: Any) -> tuple[Any, Any, bool]:
    return recorded, found, bool(recorded == found)


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=TOLERANCE)


def alike(recorded: Any, found: Any) -> bool:
    """Whether two values of JSON are the same; numbers that are not whole up to rounding."""
    if isinstance(found, dict):
        return (
            isinstance(recorded, dict)
            and set(recorded) == set(found)
            and all(alike(recorded[key], value) for key, value in found.items())
        )
    if isinstance(found, list):
        return isinstance(recorded, list) and len(recorded) == len(found) and all(map(alike, recorded, found))
    if isinstance(found, float) and isinstance(recorded, int | float):
        return _close(recorded, found)
    return bool(recorded == found)


def count_values(value: Any) -> int:
    """How many values there are that are neither lists nor mappings."""
    if isinstance(value, dict | list):
        return sum(map(count_values, value.values() if isinstance(value, dict) else value))
    return 1
