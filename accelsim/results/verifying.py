"""Check a result.json: evaluate its mappings again, walk them where they are small, and derive the bound anew.

A search that is run again has the code of the one that wrote the file, but nothing that it found: tables, bound and
optimum are made anew, and every mapping is costed by the model and, where small enough, by executing its loop nest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.workload import Einsum, Workload
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.results.explain import LARGEST_WALK, same_as_walked
from accelsim.results.output import Provenance, read_mapping_json, result_json
from accelsim.results.output_schema import RESULT_FORM, misfits
from accelsim.results.remade import (
    COPIED,
    OF_THE_SEARCH,
    TOLERANCE,
    close,
    differences,
    front_document,
    remake_rest,
    remake_search,
    same_version,
    search_document,
)
from accelsim.search.result import Certificate, FrontResult, SearchResult
from accelsim.search.strategy import Budget, Objective, OnProgress

_SHOWN = 5
"""Differences that are told."""


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


def refuse_other_forms(document: Any) -> None:
    """Raise AccelsimError if a document has not the form of a result.json."""
    wrong = misfits(RESULT_FORM, document)
    if wrong:
        raise AccelsimError("not what `accelsim map` writes: " + "; ".join(wrong))


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
        As `accelsim map` or `eval` writes it for a layer.
    architecture, einsum, constraints
        What the mapping is of.
    seconds : float, optional
        Stop a search that derives a bound after so long; the bound is then not derived, which is no agreement.
    workers, on_progress
        As for `map_einsum`.

    Returns
    -------
    list of Check
        The result holds if none of them disagrees. What the last one names is not checked.

    Raises
    ------
    AccelsimError
        If the document has not the form of a result.json.
    """
    if constraints is not None:
        constraints.check(architecture, einsum)
    refuse_other_forms(document)
    same = same_version(document)
    return verify_layer(document, architecture, einsum, constraints, seconds, workers, on_progress, same)[0]


def verify_layer(
    document: Mapping[str, Any],
    architecture: Architecture,
    einsum: Einsum,
    constraints: Constraints | None,
    seconds: float | None,
    workers: int | None,
    on_progress: OnProgress | None,
    same: bool,
) -> tuple[list[Check], SearchResult | None]:
    """Check one layer as `verify` does, of a document that has the right form; also the search, made anew.

    `document` may be one of the `layers` of a network; `same`: this version wrote the file.
    """
    task = _Task(architecture, einsum, constraints, Budget(seconds=seconds), workers, on_progress, same)
    if "no_valid_mapping" in document:
        return [_check_none_valid(task, document["no_valid_mapping"])], None
    try:
        if "front" in document:
            return [*_check_front(task, document["front"])], None
        result = task.cost(document["result"])
        checks = [*_check_result(task, document["result"], result)]
        if "search" not in document:
            return [*checks, not_checked([COPIED[0]])], None
        more, search = _check_search(task, document["search"], document["result"], result)
        return [*checks, *more], search
    except (ValueError, LookupError, OverflowError, TypeError) as error:  # the mapping is none of this layer
        return [Check("mapping", "of this layer and machine", str(error), False)], None


def verify_rest(
    document: Mapping[str, Any],
    provenance: Provenance,
    architecture: Architecture,
    workload: Workload,
    found: list[SearchResult | None],
) -> Check:
    """Compare all of a result.json but its results, searches and front, which `verify_layer` compares."""
    return compare(
        "origin, sums, energy table and area",
        dict(document),
        remake_rest(document, provenance, architecture, workload, found),
    )


@dataclass(frozen=True, slots=True)
class _Task:
    architecture: Architecture
    einsum: Einsum
    constraints: Constraints | None
    budget: Budget
    workers: int | None
    on_progress: OnProgress | None
    same_version: bool

    def cost(self, recorded: Mapping[str, Any]) -> Result:
        """Evaluate the mapping of a result or a point, as result.json holds it."""
        return evaluate(self.architecture, self.einsum, _mapping(recorded))

    def breaks(self, result: Result) -> list[str]:
        """Rules that a mapping breaks, those of the constraints included."""
        broken = [str(violation) for violation in result.violations]
        if self.constraints is None:
            return broken
        slow = self.constraints.broken_by_time(result.cycles, result.ideal_cycles)
        return broken + self.constraints.broken_by(result.mapping) + slow

    def search(self, recorded: Mapping[str, Any], **options: Any) -> SearchResult:
        """Search for what a file says was asked."""
        from accelsim.search.mapper import map_einsum

        return map_einsum(
            self.architecture, self.einsum, constraints=self.constraints, objective=recorded["objective"],
            workers=self.workers, on_progress=self.on_progress, **options,
        )  # fmt: skip

    def same_way(self, recorded: Mapping[str, Any], stop: str) -> bool:
        """Whether a search run anew tells the same nodes: of this version, with nothing that stopped either of them."""
        return self.same_version and recorded["stop"] == stop == "exhausted" and recorded["budget"]["seconds"] is None


def _mapping(recorded: Mapping[str, Any]) -> LoopNest:
    """The mapping of a result or a point."""
    return read_mapping_json(recorded)


def _check_result(task: _Task, recorded: Mapping[str, Any], result: Result) -> Iterator[Check]:
    """Compare every number of a mapping with the model's, and walk its nest."""
    found = result_json(result)
    broken = task.breaks(result)
    wanted = "valid" if recorded["valid"] else "invalid"
    yield Check("mapping", wanted, "; ".join(broken) or "valid", recorded["valid"] == (not broken))
    for what, key in (("energy [pJ]", "energy_pj"), ("cycles", "cycles"), ("EDP [pJ x cycle]", "edp_pj_cycles")):
        yield Check(what, recorded[key], found[key], close(recorded[key], found[key]))
    yield compare("all counts and energies", dict(recorded), found, "evaluated by the cost model")
    walked = same_as_walked(task.architecture, task.einsum, result)
    if walked is None:
        size = f"{task.einsum.macs:,} MACs on {result.compute_used:,} compute units"
        note = f"too large to execute: {size}, the limit is {LARGEST_WALK:,} MACs x units"
        yield Check("loop nest executed", None, None, None, note)
    else:
        yield Check("loop nest executed", "counts as recorded", "the same" if walked else "different", walked,
                    "each step of the nest, no formula")  # fmt: skip


def _check_search(
    task: _Task, recorded: Mapping[str, Any], body: Mapping[str, Any], best: Result
) -> tuple[list[Check], SearchResult]:
    """Search anew for what was asked, and compare every field of the search."""
    goal = Objective.parse(recorded["objective"])
    certificate, within, sample = recorded["certificate"], recorded["within"], recorded["sample"]
    checks: list[Check] = []
    again = sampled = None
    if certificate is None:
        checks.append(Check("certificate", "none", None, None, "a search by sampling proves nothing"))
    else:
        value = goal.value(body["energy_pj"], body["cycles"])
        checks.append(
            Check("value of the best mapping", certificate["value"], value, close(certificate["value"], value))
        )
        try:
            again = task.search(
                recorded, method="exact", top=max(1, len(recorded["ranked"])),
                within=None if within is None else within["share"], uneven=recorded["uneven"],
                imperfect=recorded["imperfect"], pad=recorded["padded"], budget=task.budget,
            )  # fmt: skip
        except NoValidMapping as error:
            checks.append(Check("optimum", certificate["value"], str(error).splitlines()[0], False))
    if again is not None and again.certificate is not None and certificate is not None:
        checks += check_certificate(certificate, again.certificate)
        if again.stop == "exhausted" and recorded["ranked"]:
            rows, values = recorded["ranked"], [goal.value(each.energy_pj, each.cycles) for each in again.ranked]
            alike = len(values) == len(rows) and all(
                close(row["value"], each) for row, each in zip(rows, values, strict=True)
            )
            checks.append(Check("values of the best mappings", len(rows), len(values), alike))
    if sample is not None and recorded["stop"] in ("exhausted", "budget"):
        sampled = _sample_again(task, recorded)
    ended = again if again is not None and recorded["stop"] == again.stop == "exhausted" else None
    same_way = again is not None and task.same_way(recorded, again.stop)
    remade = remake_search(recorded, best, partial(_valid_cost, task), ended, sampled, same_way=same_way)
    checks.append(compare("all fields of the search", dict(recorded), search_document(remade, recorded)))
    left = [*COPIED[:-3]]
    left += ["search.space_size"] if ended is None and sampled is None else []
    left += [f"search.certificate.{name}" for name in OF_THE_SEARCH[1:]] if certificate and not same_way else []
    left += ["search.sample"] if sample is not None and sampled is None else []
    left += ["search.within.mappings"] if within is not None and ended is None else []
    return [*checks, not_checked(left)], remade


def _valid_cost(task: _Task, row: Mapping[str, Any]) -> Result:
    """Cost of a listed mapping.

    Raises
    ------
    ValueError
        If it breaks a rule.
    """
    result = task.cost(row)
    broken = task.breaks(result)
    if broken:
        raise ValueError(f"a listed mapping is not valid: {'; '.join(broken)}")
    return result


def _sample_again(task: _Task, recorded: Mapping[str, Any]) -> SearchResult | None:
    """Look at the same mappings one by one, or None where the time is too short."""
    exhaustive, sample = recorded["seed"] is None, recorded["sample"]
    try:
        found = task.search(
            recorded,
            method="exhaustive" if exhaustive else "random",
            seed=recorded["seed"] or 0,
            budget=Budget(None if exhaustive else sample["seen"], task.budget.seconds),
        )
    except NoValidMapping:
        return None
    return found if found.stop == recorded["stop"] else None


def check_certificate(certificate: Mapping[str, Any], derived: Certificate) -> Iterator[Check]:
    """Compare a recorded certificate with one that was derived anew."""
    value, bound = certificate["value"], certificate["bound"]
    if not derived.proved:
        note = f"stopped early: the bound is {derived.bound:.6g} so far; give it more --seconds"
        yield Check("lower bound", bound, derived.bound, False, note)
        return
    if certificate["proved"]:
        yield Check("optimum, searched anew", value, derived.value, close(value, derived.value))
        yield Check("lower bound, derived anew", bound, derived.bound, close(bound, derived.bound))
        return
    low = bound <= derived.value * (1 + TOLERANCE)
    yield Check("lower bound", bound, derived.value, low, "the optimum, searched anew, must not lie below the bound")
    high = value >= derived.bound * (1 - TOLERANCE)
    yield Check("best found", value, derived.value, high, "must not lie below the optimum, searched anew")
    gap = value / derived.value - 1 if derived.value else 0.0
    recorded = certificate["gap"]
    yield Check("gap", recorded, gap, recorded is None or gap <= recorded + TOLERANCE, "as promised, and as it is")


def _check_none_valid(task: _Task, recorded: str) -> Check:
    """Search anew where no mapping is said to be valid."""
    said = recorded.partition("\n")[0]
    try:
        found = task.search({"objective": "energy"}, budget=task.budget)
    except NoValidMapping as error:
        return Check("no valid mapping", said, str(error).partition("\n")[0], str(error) == recorded)
    return Check("no valid mapping", said, f"one of {found.best.energy_pj:.6g} pJ", False)


def _check_front(task: _Task, recorded: Mapping[str, Any]) -> Iterator[Check]:
    """Evaluate every point of a front, search the front anew, and compare every field."""
    from accelsim.search.exact.front import map_front

    points = [_valid_cost(task, point) for point in recorded["points"]]
    try:
        again = map_front(
            task.architecture, task.einsum, tuple(recorded["columns"]), constraints=task.constraints,
            budget=task.budget, workers=task.workers, on_progress=task.on_progress,
        )  # fmt: skip
    except NoValidMapping as error:
        yield Check("front", _many(len(points), "point"), str(error).splitlines()[0], False)
        return
    made = again if task.same_way(recorded, again.stop) else None
    yield compare("all fields of the front", dict(recorded), front_document(recorded, points, made))
    if again.stop == "exhausted":
        yield _compare_fronts(recorded, again)
    else:
        yield Check("front", _many(len(points), "point"), None, False, "stopped early; give it more --seconds")
    left = [COPIED[0], *COPIED[-3:], *([] if made else [f"front.{name}" for name in OF_THE_SEARCH])]
    yield not_checked(left)


def _compare_fronts(recorded: Mapping[str, Any], again: FrontResult) -> Check:
    """Compare a recorded front with one that was searched anew."""
    points = [tuple(point["values"]) for point in recorded["points"]]
    if recorded["stop"] == "exhausted":
        alike = len(points) == len(again.values) and all(
            all(map(close, a, b)) for a, b in zip(points, again.values, strict=True)
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


def compare(what: str, recorded: Any, found: Any, note: str = "") -> Check:
    """Compare plain values with those that were made anew, one by one."""
    different = list(islice(differences(recorded, found), _SHOWN + 1))
    counts = f"{count_values(found):,} numbers and names"
    told = "; ".join(different[:_SHOWN]) + ("; and more" if len(different) > _SHOWN else "")
    return Check(what, counts, told or counts, not different, note)


def not_checked(names: list[str]) -> Check:
    """Name the fields that were taken from the file."""
    note = f"{', '.join(names)}: what was asked, by which version, and how it ended, which the file alone tells"
    return Check("other fields", _many(len(names), "name"), None, None, note)


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def count_values(value: Any) -> int:
    """How many values there are that are neither lists nor mappings."""
    if isinstance(value, dict | list):
        return sum(map(count_values, value.values() if isinstance(value, dict) else value))
    return 1
