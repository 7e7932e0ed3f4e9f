"""Check a result.json: evaluate its mappings again, walk them where they are small, and derive the bound anew.

What a file says is made anew from its inputs, its mappings and a search, and compared value by value. A field that
nothing tells but the file itself is copied from it, and is named: nothing else goes unchecked. A search that is run
again has the code of the one that wrote the file, but nothing that it found: tables, bound and optimum are made anew,
and every mapping is costed by the model and, where small enough, by executing its loop nest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from accelsim import __version__
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.machine_tables import machine_json
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum, Workload, without_other_operations
from accelsim.model.evaluate import evaluate
from accelsim.model.limits import layer_limits
from accelsim.model.result import Result
from accelsim.model.sparsity import sparse_result
from accelsim.results import Provenance, network, output, provenance_json
from accelsim.results.cache import rules_broken
from accelsim.results.explain import LARGEST_WALK, same_as_walked
from accelsim.results.output_schema import ABSENT, misfits
from accelsim.search.result import Certificate, FrontResult, SearchResult, column_value
from accelsim.search.stopping import Budget, OnProgress
from accelsim.search.zeros import best_with_zeros

TOLERANCE = 1e-10
"""Relative difference that the order of a sum may make; counts must be equal."""
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


def compare(what: str, recorded: Any, found: Any, note: str = "") -> Check:
    """Compare plain values with those that were made anew, one by one."""
    different = list(islice(_differences(recorded, found), _SHOWN + 1))
    counts = f"{_count_values(found):,} numbers and names"
    reported = "; ".join(different[:_SHOWN]) + ("; and more" if len(different) > _SHOWN else "")
    return Check(what, counts, reported or counts, not different, note)


def _count_values(value: Any) -> int:
    """How many values there are that are neither lists nor mappings."""
    inside = value.values() if isinstance(value, dict) else value
    return sum(map(_count_values, inside)) if isinstance(value, dict | list) else 1


def _differences(recorded: Any, found: Any, at: str = "") -> Iterator[str]:
    """Places where two values of JSON differ, with both values; numbers that are not whole up to rounding."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        for key in {**found, **recorded}:
            below = f"{at}.{key}".lstrip(".")
            if key not in recorded or key not in found:
                yield f"{below} is {'missing' if key in found else 'unknown'}"
            else:
                yield from _differences(recorded[key], found[key], below)
        return
    if isinstance(found, list) and isinstance(recorded, list):
        if len(recorded) != len(found):
            yield f"{at} has {len(recorded)} entries, not {len(found)}"
            return
        for number, (a, b) in enumerate(zip(recorded, found, strict=True)):
            yield from _differences(a, b, f"{at}[{number}]")
        return
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (recorded, found))
    alike = type(recorded) is type(found) and recorded == found
    if not (close(recorded, found) if numbers and isinstance(found, float) else alike):
        yield f"{at} is {recorded!r}, not {found!r}"


def close(a: float, b: float) -> bool:
    """Whether two numbers are the same up to rounding."""
    return math.isclose(a, b, rel_tol=TOLERANCE)


def check_value(what: str, recorded: float, found: float) -> Check:
    """Compare two numbers up to rounding."""
    return Check(what, recorded, found, close(recorded, found))


def check_certificate(certificate: Mapping[str, Any], derived: Certificate) -> Iterator[Check]:
    """Compare a recorded certificate with one that was derived anew."""
    value, bound = certificate["value"], certificate["bound"]
    if not derived.proved:
        holds, early = bound <= derived.bound * (1 + TOLERANCE), f"the bound is {derived.bound:.6g} so far"
        note = "derived anew" if holds else f"stopped early: {early}; give it more --time-limit"
        yield Check("lower bound", bound, derived.bound, holds, note)
        return
    if certificate["proved"]:
        yield check_value("optimum, searched anew", value, derived.value)
        yield check_value("lower bound, derived anew", bound, derived.bound)
        return
    low = bound <= derived.value * (1 + TOLERANCE)
    yield Check("lower bound", bound, derived.value, low, "the optimum, searched anew, must not lie below the bound")
    high = value >= derived.bound * (1 - TOLERANCE)
    yield Check("best found", value, derived.value, high, "must not lie below the optimum, searched anew")
    gap = value / derived.value - 1 if derived.value else 0.0
    recorded = certificate["gap"]
    yield Check("gap", recorded, gap, recorded is None or gap <= recorded + TOLERANCE, "as promised, and as it is")


def not_checked(names: Sequence[str]) -> Check:
    """Name the fields that were taken from the file."""
    note = f"{', '.join(names)}: what was asked, by which version, and how it ended, which the file alone tells"
    return Check("other fields", many(len(names), "name"), None, None, note)


def many(number: int, what: str) -> str:
    """So many things in words."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


_VERSION = "accelsim"
_OF_SEARCH = ("objective", "seed", "budget", "stop", "uneven", "imperfect", "padded", "within.share")
_SEARCH = tuple(f"search.{name}" for name in _OF_SEARCH)
_FRONT = ("front.columns", "front.budget", "front.stop")
"""Fields that say what was asked, by which version, and how the search ended: copied from the file."""
_WORK = ("nodes", "evaluated", "table_bytes")
_OF_PART = ("padded", "space_size", *_WORK)
"""What the same search tells again, of all mappings or a part of them; another version may take another way."""


@dataclass(frozen=True, slots=True)
class Task:
    """What documents of a layer are of, and how much a search that derives a bound may take.

    `same_version`: this version wrote the file.
    """

    architecture: Architecture
    einsum: Einsum
    constraints: Constraints | None
    budget: Budget
    workers: int | None
    on_progress: OnProgress | None
    same_version: bool

    @property
    def limits(self) -> tuple[str, ...]:
        """What is asked of costs."""
        return () if self.constraints is None else self.constraints.on_costs

    @property
    def asked(self) -> dict[str, Any]:
        """What each search is given besides what the file says."""
        return {"constraints": self.constraints, "workers": self.workers, "on_progress": self.on_progress}

    def cost(self, recorded: Mapping[str, Any]) -> Result:
        """Evaluate the mapping of a result or a point, as result.json holds it."""
        return evaluate(self.architecture, self.einsum, output.read_mapping_json(recorded))

    def valid_cost(self, recorded: Mapping[str, Any]) -> Result:
        """Evaluate a listed mapping; raises ValueError if it breaks a rule."""
        result = self.cost(recorded)
        if broken := rules_broken(result, self.constraints, self.einsum):
            raise ValueError(f"a listed mapping is not valid: {'; '.join(broken)}")
        return result

    def search(self, recorded: Mapping[str, Any], **options: Any) -> SearchResult:
        """Search for what a file says was asked."""
        from accelsim.search.mapper import map_einsum

        return map_einsum(self.architecture, self.einsum, objective=recorded["objective"], **self.asked, **options)

    def same_way(self, recorded: Mapping[str, Any], stop: str) -> bool:
        """Whether a search run anew tells the same nodes: of this version, with nothing that stopped either of them."""
        return self.same_version and recorded["stop"] == stop == "exhausted" and recorded["budget"]["seconds"] is None


def refuse_other_forms(document: Any) -> None:
    """Raise AccelsimError if a document has not the form of a result.json."""
    if wrong := misfits(output.RESULT_FORM, document):
        hint = "; if an older version wrote it, map again" if any(one.endswith(ABSENT) for one in wrong) else ""
        raise AccelsimError(f"not what `accelsim map` writes: {'; '.join(wrong)}{hint}")


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
    """Check what a result.json, as `accelsim map` or `eval` writes it, says about one layer.

    The result holds if no check disagrees; what the last one names is not checked. A search that derives a bound is
    stopped after so many seconds; the bound is then not derived, which is no agreement. Raises AccelsimError if the
    document has not the form of a result.json.
    """
    if constraints is not None:
        constraints.check(architecture, einsum)
    refuse_other_forms(document)
    same, budget = document["accelsim"] == __version__, Budget(seconds=seconds)
    return verify_layer(document, Task(architecture, einsum, constraints, budget, workers, on_progress, same))[0]


def verify_layer(document: Mapping[str, Any], task: Task) -> tuple[list[Check], SearchResult | None]:
    """Check one layer as `verify` does, of a document that has the right form; also the search, made anew.

    `document` may be one of the `layers` of a network.
    """
    if "no_valid_mapping" in document:
        return [_check_none_valid(task, document["no_valid_mapping"])], None
    try:
        if "front" in document:
            return [*_check_front(task, document["front"])], None
        result = task.cost(document["result"])
        checks = [*_check_result(task, document["result"], result)]
        sparse = sparse_result(task.architecture, task.einsum, result)
        if sparse is not None or "sparse" in document:
            checks.append(compare("what zeros save", document.get("sparse"), output.zeros_json(sparse).get("sparse")))
        if "search" not in document:
            return [*checks, not_checked([_VERSION])], None
        more, search = _check_search(task, document["search"], result)
        return [*checks, *more, *_check_best_with_zeros(task, document, search)], search
    except (ValueError, LookupError, OverflowError, TypeError) as error:  # the mapping is none of this layer
        return [Check("mapping", "of this layer and machine", str(error), False)], None


def verify_rest(
    document: Mapping[str, Any],
    provenance: Provenance,
    architecture: Architecture,
    workload: Workload,
    found: Sequence[SearchResult | None],
) -> Check:
    """Compare all of a result.json but its results, searches and front, which `verify_layer` compares.

    `provenance` has the hashes of the files as they are now; `found`, of a network, the search of each layer, made
    anew; None where nothing was found.
    """
    made = {**document, **provenance_json(provenance), **machine_json(architecture), "accelsim": document["accelsim"]}
    if "layers" in document:
        outcomes = []
        if "left_out" in document:
            workload, others = without_other_operations(workload)
            made |= network.left_out_json(others) or {"left_out": []}
        for layer, search, entry in zip(workload.layers, found, document["layers"], strict=False):
            why_not, limits = entry.get("no_valid_mapping", ""), layer_limits(architecture, layer)
            zeros = {key: entry[key] for key in ("sparse", "sparse_best") if key in entry}  # `verify_layer` compares it
            outcomes.append(network.LayerOutcome(layer, search, why_not, limits, zeros))
        pairs = zip(document["layers"], network.network_rows(outcomes), strict=True)
        made |= {"workload": workload.name, "architecture": architecture.name}
        made |= {"total": network.network_totals(outcomes, workload.yields)}
        made |= {"layers": [{**old, **row} for old, row in pairs]}
    return compare("origin, sums, energy table and area", dict(document), made)


def _check_best_with_zeros(task: Task, document: Mapping[str, Any], search: SearchResult) -> Iterator[Check]:
    """Search anew for the best mapping with zeros left out, and count what the recorded one takes."""
    recorded, what = document.get("sparse_best"), "best mapping with zeros"
    if recorded is None:
        if "sparse" in document:
            yield Check(what, "none", "missing", False)
        return
    mapping = output.read_mapping_json({"imperfect": [], "padded": {}, **recorded})
    cost = sparse_result(task.architecture, task.einsum, evaluate(task.architecture, task.einsum, mapping))
    if cost is not None:
        yield check_value(f"{what} [pJ]", recorded["energy_pj"], cost.energy_pj)
    found = best_with_zeros(task.architecture, task.einsum, search, **task.asked)
    left, again = (
        {key: value for key, value in said.items() if key not in ("mapping", "cycles")}
        for said in (recorded, output.zeros_json(None, found).get("sparse_best", {}))
    )
    yield compare(what, left, again, "searched anew")


def _check_result(task: Task, recorded: Mapping[str, Any], result: Result) -> Iterator[Check]:
    """Compare every number of a mapping with the model's, and walk its nest."""
    found = output.result_json(result)
    broken = rules_broken(result, task.constraints, task.einsum)
    expected = "valid" if recorded["valid"] else "invalid"
    yield Check("mapping", expected, "; ".join(broken) or "valid", recorded["valid"] == (not broken))
    for what, key in (("energy [pJ]", "energy_pj"), ("cycles", "cycles"), ("EDP [pJ x cycle]", "edp_pj_cycles")):
        yield check_value(what, recorded[key], found[key])
    yield compare("all counts and energies", dict(recorded), found, "evaluated by the cost model")
    walked, what = same_as_walked(task.architecture, task.einsum, result), "loop nest executed"
    if walked is None:
        size = f"{task.einsum.macs:,} MACs on {result.compute_used:,} compute units"
        note = f"too large to execute: {size}, the limit is {LARGEST_WALK:,} MACs x units"
        yield Check(what, None, None, None, note)
    else:
        note = "each step of the nest, no formula"
        yield Check(what, "counts as recorded", "the same" if walked else "different", walked, note)


def _check_search(task: Task, recorded: Mapping[str, Any], best: Result) -> tuple[list[Check], SearchResult]:
    """Search anew for what was asked, and compare every field of the search."""
    goal = Objective.parse(recorded["objective"])
    certificate, within, sample = recorded["certificate"], recorded["within"], recorded["sample"]
    checks: list[Check] = []
    again = None
    if certificate is None:
        checks.append(Check("certificate", "none", None, None, "a search by sampling proves nothing"))
    else:
        value = goal.of(best)
        checks.append(check_value("value of the best mapping", certificate["value"], value))
        in_parts, effort = bool(recorded["parts"]), recorded["stop"] == "effort"  # whatever the time
        wider = recorded["imperfect"] or recorded["ranked"]  # where mappings are listed, parts are of that space alone
        try:
            again = task.search(
                recorded, method="exact", top=max(1, len(recorded["ranked"])),
                within=None if within is None else within["share"],
                uneven=None if in_parts and recorded["uneven"] else recorded["uneven"],
                imperfect="auto" if in_parts and wider else recorded["imperfect"],
                pad=() if in_parts else recorded["padded"], budget=None if effort else task.budget,
            )  # fmt: skip
        except NoValidMappingError as error:
            checks.append(Check("optimum", certificate["value"], str(error).splitlines()[0], False))
    if again is not None and again.certificate is not None:
        checks += check_certificate(certificate, again.certificate)
        checks += _check_parts(recorded, certificate["value"], again)
        if again.stop in ("exhausted", "effort", "remainders") and recorded["ranked"]:
            listed = [row["value"] for row in recorded["ranked"]]
            values = [goal.of(each) for each in again.ranked[: len(listed)]]
            alike = len(values) == len(listed) and all(map(close, listed, values))
            checks.append(Check("values of the best mappings", len(listed), len(values), alike))
    same_way = again is not None and sample is None and task.same_way(recorded, again.stop)
    ended = again if again is not None and recorded["stop"] == again.stop == "exhausted" else None
    remade = _search_anew(task, recorded, best, ended, same_way=same_way)
    if again is not None and len(again.parts) == len(remade.parts):
        pairs = zip(remade.parts, again.parts, strict=True)
        remade = replace(remade, parts=tuple(_part_anew(*pair, same_way=same_way) for pair in pairs))
    requested = Provenance("map", (), {}, recorded["budget"]["mappings"], recorded["budget"]["seconds"])
    found = output.search_json(remade, requested)
    found["sample"] = sample
    checks.append(compare("all fields of the search", dict(recorded), found))
    left = [_VERSION, *_SEARCH]
    left += ["search.space_size"] if ended is None else []
    left += [f"search.certificate.{name}" for name in _WORK] if certificate and not same_way else []
    left += [f"search.parts.{name}" for name in _OF_PART] if recorded["parts"] and not same_way else []
    left += ["search.sample"] if sample is not None else []
    left += ["search.within.mappings"] if within is not None and ended is None else []
    return [*checks, not_checked(left)], remade


def _check_parts(recorded: Mapping[str, Any], value: float, again: SearchResult) -> Iterator[Check]:
    """Compare what a file tells of parts of the space with what is proved anew; `value` is that of the best mapping."""
    said, found = len(recorded["parts"]), len(again.parts)
    if said != found:
        yield Check("parts of the space", said, found, False)
    for part, derived in zip(recorded["parts"], again.parts, strict=False):
        what = f"{derived.space.kind} mappings with {derived.space.factors}"
        if part["value"] is None or part["bound"] is None:  # none of them is valid
            yield Check(f"{what}: valid", "none", "none" if derived.value == math.inf else "some", derived.proved)
            continue
        if part["value"] < value * (1 - TOLERANCE):
            yield Check(f"{what}: best found", part["value"], value, False, "must not be better than the best mapping")
        for check in check_certificate(part, derived):
            yield replace(check, what=f"{what}: {check.what}")


def _part_anew(said: Certificate, derived: Certificate, *, same_way: bool) -> Certificate:
    """What a file says of a part of the space, with what a search tells anew."""
    if same_way:
        return replace(derived, value=said.value, bound=said.bound)
    space = derived.space
    return replace(said, space=replace(said.space, uneven=space.uneven, imperfect=space.imperfect))


def _search_anew(
    task: Task, recorded: Mapping[str, Any], best: Result, again: SearchResult | None, *, same_way: bool
) -> SearchResult:
    """A search as recorded, with what is evaluated and searched anew in the place of what the file says.

    `best` is its mapping, evaluated; `again` is the exact search run anew, where both it and the one that is recorded
    ended by themselves; `same_way`: it visits the same nodes.
    """
    found = output.read_search(recorded, [task.valid_cost(row) for row in recorded["ranked"]] or [best])
    proof = found.certificate
    if proof is not None:
        value = Objective.parse(recorded["objective"]).of(best)
        work = again.certificate if same_way and again is not None and again.certificate is not None else proof
        proof = replace(work, value=proof.value if close(proof.value, value) else value, bound=proof.bound)
    found = replace(
        found,
        best=best,
        limits=task.limits,
        method="exact" if recorded["sample"] is None else "exhaustive" if recorded["seed"] is None else "random",
        certificate=proof,
    )
    if again is None:
        return found
    return replace(
        found, space_size=again.space_size, within=again.within, imperfect=again.imperfect, padded=again.padded
    )


def _check_none_valid(task: Task, recorded: str) -> Check:
    """Search anew where no mapping is said to be valid, or no even one."""
    found = []
    for asked in ({"imperfect": "auto"}, {}, {"uneven": False}):
        try:
            best = task.search({"objective": "energy"}, budget=task.budget, **asked).best
            found.append(f"one of {best.energy_pj:.6g} pJ")
        except NoValidMappingError as error:
            found.append(str(error))
        if found[-1] == recorded:
            break
    alike = recorded in found
    said = recorded if alike else found[0]
    return Check("no valid mapping", recorded.partition("\n")[0], said.partition("\n")[0], alike)


def _check_front(task: Task, recorded: Mapping[str, Any]) -> Iterator[Check]:
    """Evaluate every point of a front, search the front anew, and compare every field."""
    from accelsim.search.exact.front import map_front

    points, ends = [task.valid_cost(point) for point in recorded["points"]], recorded["ends"]
    said = many(len(points), "point")
    try:
        again = map_front(
            task.architecture, task.einsum, tuple(recorded["columns"]),
            uneven=None if any(end["uneven"] for end in ends) else recorded["uneven"],
            imperfect="auto" if ends else recorded["imperfect"], pad=recorded["padded"],
            budget=None if ends and recorded["budget"]["seconds"] is None else task.budget, **task.asked,
        )  # fmt: skip
    except NoValidMappingError as error:
        yield Check("front", said, str(error).splitlines()[0], False)
        return
    same_way, work = task.same_way(recorded, again.stop), ("space_size", *_WORK)
    same_ends, made = same_way and all(end.stop == "exhausted" for end in again.ends), output.FRONT.write(again)
    pairs = zip(ends, made["ends"], strict=False)
    found = {
        **recorded,
        **({name: made[name] for name in ("uneven", "imperfect", "padded")} if ends else {}),
        **({name: getattr(again, name) for name in work} if same_way else {}),
        "ends": [*(_end_anew(*pair, same_way=same_ends) for pair in pairs), *made["ends"][len(ends) :]],
        "limits": list(task.limits),
        "architecture": task.architecture.name,
        "layer": task.einsum.name,
        "points": [
            {"values": [column_value(point, column) for column in recorded["columns"]], **output.point_json(point)}
            for point in points
        ],
    }
    yield compare("all fields of the front", dict(recorded), found)
    for end, derived in zip(ends, again.ends, strict=False):
        if derived.certificate is not None:
            for check in check_certificate(end, derived.certificate):
                yield replace(check, what=f"least {end['objective']}: {check.what}")
            best = min((column_value(point, derived.objective) for point in points), default=0.0)
            what, holds = f"least {derived.objective}: a point of the front", end["value"] >= best * (1 - TOLERANCE)
            yield Check(what, end["value"], best, holds, "a point must be as good")
    if again.stop == "exhausted":
        yield _compare_fronts(recorded, again)
    else:
        yield Check("front", said, None, False, "stopped early; give it more --time-limit")
    left = [_VERSION, *_FRONT, *([] if same_way else [f"front.{name}" for name in work])]
    left += [f"front.ends.{name}" for name in _OF_PART] if ends and not same_ends else []
    yield not_checked(left)


def _end_anew(said: Mapping[str, Any], made: Mapping[str, Any], *, same_way: bool) -> dict[str, Any]:
    """What a file says of the best mapping in one column, with what a search tells anew."""
    proof = Certificate(said["value"], said["bound"], 0, 0, 0)
    gap = proof.gap if math.isfinite(proof.gap) else None
    names = [name for name in made if name not in ("value", "bound") and (same_way or name not in _OF_PART)]
    return {**said, **{name: made[name] for name in names}, "gap": gap, "proved": proof.proved}


def _compare_fronts(recorded: Mapping[str, Any], again: FrontResult) -> Check:
    """Compare a recorded front with one that was searched anew."""
    points = [tuple(point["values"]) for point in recorded["points"]]
    said, found = many(len(points), "point"), many(len(again.values), "point")
    if recorded["stop"] == "exhausted":
        pairs = zip(points, again.values, strict=False)
        alike = len(points) == len(again.values) and all(all(map(close, a, b)) for a, b in pairs)
        return Check("front, searched anew", said, found + ("" if alike else ", different ones"), alike)
    reached = all(
        any(all(b <= a * (1 + TOLERANCE) for a, b in zip(point, best, strict=True)) for best in again.values)
        for point in points
    )
    note = "no recorded point may beat the complete front"
    return Check("front, searched anew", f"{said}, not complete", found, reached, note)
