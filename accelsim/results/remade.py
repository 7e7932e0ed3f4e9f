"""What a result.json says, made anew from its inputs, its mappings and a search, to be compared field by field.

A field that nothing tells but the file itself is copied from it, and is named in `COPIED`: nothing else goes unchecked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from accelsim import __version__
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.machine_tables import machine_json
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Workload
from accelsim.model.result import Result
from accelsim.results.output import Provenance, front_json, network_json, provenance_json, search_json
from accelsim.search.result import Certificate, FrontResult, SearchResult

TOLERANCE = 1e-10
"""Relative difference that the order of a sum may make; counts must be equal."""
COPIED = (
    "accelsim", "search.objective", "search.seed", "search.budget", "search.stop", "search.uneven", "search.imperfect",
    "search.padded", "search.within.share", "front.columns", "front.budget", "front.stop",
)  # fmt: skip
"""Fields that say what was asked and how the search ended: taken from the file."""
OF_THE_SEARCH = ("space_size", "nodes", "evaluated", "table_bytes")
"""What the same search tells again; another version may take another way."""
_Cost = Callable[[Mapping[str, Any]], Result]


def remake_search(
    recorded: Mapping[str, Any],
    best: Result,
    cost: _Cost,
    again: SearchResult | None,
    sampled: SearchResult | None,
    *,
    same_way: bool,
) -> SearchResult:
    """A search as recorded, with what is evaluated and searched anew in the place of what the file says.

    Parameters
    ----------
    recorded : mapping
        The `search` of a result.json.
    best : Result
        Its mapping, evaluated.
    cost : callable
        Evaluates the mapping of a row.
    again : SearchResult or None
        The exact search run anew, where both it and the one that is recorded ended by themselves.
    sampled : SearchResult or None
        The same for an exhaustive or a random search.
    same_way : bool
        The search run anew visits the same nodes.
    """
    ranked = tuple(cost(row) for row in recorded["ranked"])
    proof, within, made = recorded["certificate"], recorded["within"], again or sampled
    exact = recorded["sample"] is None
    if proof is not None:
        told = again.certificate if exact and same_way and again is not None else None
        work = {name: proof[name] if told is None else getattr(told, name) for name in OF_THE_SEARCH[1:]}
        if not exact and sampled is not None:
            work = {"nodes": 0, "evaluated": 0 if sampled.sample is None else sampled.sample.seen, "table_bytes": 0}
        value = Objective.parse(recorded["objective"]).of(best)
        value = proof["value"] if close(proof["value"], value) else value
        proof = Certificate(value, proof["bound"], **work)
    return SearchResult(
        best=best,
        objective=recorded["objective"],
        method="exact" if exact else "exhaustive" if recorded["seed"] is None else "random",
        stop=recorded["stop"],
        seed=recorded["seed"],
        space_size=recorded["space_size"] if made is None else made.space_size,
        seconds=0.0,
        certificate=proof,
        ranked=ranked or (best,),
        within=None if within is None else (within["share"], within["mappings"] if again is None else _within(again)),
        sample=None if sampled is None else sampled.sample,
        uneven=recorded["uneven"],
        imperfect=tuple(recorded["imperfect"]) if again is None else again.imperfect,
        padded=tuple(recorded["padded"]) if again is None else again.padded,
    )


def _within(search: SearchResult) -> int:
    return 0 if search.within is None else search.within[1]


def search_document(search: SearchResult, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The `search` of a result.json; a sample that was not drawn again is as recorded."""
    found = search_json(search, _asked(recorded))
    return found if search.sample is not None else {**found, "sample": recorded["sample"]}


def front_document(recorded: Mapping[str, Any], points: Sequence[Result], again: FrontResult | None) -> dict[str, Any]:
    """The `front` of a result.json, made of its points, evaluated, and of the front searched anew."""
    rows = [(row, _values(recorded["columns"], point)) for row, point in zip(recorded["points"], points, strict=True)]
    told = {name: recorded[name] if again is None else getattr(again, name) for name in OF_THE_SEARCH}
    front = FrontResult(
        columns=tuple(recorded["columns"]),
        points=tuple(points),
        values=tuple(tuple(map(_as_recorded, [*row["values"], *values], values)) for row, values in rows),
        stop=recorded["stop"],
        seconds=0.0,
        **told,
    )
    return dict(front_json(front, _asked(recorded), {})["front"])


def _values(columns: Sequence[str], point: Result) -> list[float]:
    """Columns of a point."""
    plain = {"energy": point.energy_pj, "cycles": point.cycles, "outer_words": point.outer_words}
    held = {f"capacity:{level.level}": level.used_words for level in point.levels}
    return [(plain | held)[column] for column in columns]


def _as_recorded(recorded: float, found: float) -> float:
    """What is recorded where that is the same, or words of which compression leaves a part of one."""
    return recorded if close(recorded, found) or math.ceil(recorded) == found else found


def _asked(recorded: Mapping[str, Any]) -> Provenance:
    """The budget that was asked for."""
    return Provenance("map", (), {}, recorded["budget"]["mappings"], recorded["budget"]["seconds"])


def remake_rest(
    document: Mapping[str, Any],
    provenance: Provenance,
    architecture: Architecture,
    workload: Workload,
    found: Sequence[SearchResult | None],
) -> dict[str, Any]:
    """A result.json with all but its results, searches and front made anew: origin, sums, shares, energies and areas.

    Parameters
    ----------
    provenance : Provenance
        With the hashes of the files as they are now.
    found : sequence of SearchResult or None
        Of a network: what `remake_search` made of each layer; None where nothing was found.
    """
    from accelsim.model.limits import layer_limits
    from accelsim.results.network import LayerOutcome, layer_rows, network_totals

    machine = machine_json(architecture)
    head = {**provenance_json(provenance), "accelsim": document["accelsim"]}
    if "layers" not in document:
        own = {key: document[key] for key in ("result", "search", "front") if key in document}
        return {**head, **own, **machine}
    entries, layers = document["layers"], workload.layers[: len(document["layers"])]
    outcomes = [
        LayerOutcome(layer, search, entry.get("no_valid_mapping", ""), layer_limits(architecture, layer))
        for layer, search, entry in zip(layers, found, entries, strict=True)
    ]
    totals = network_totals(outcomes, workload.yields)
    rows = [{key: value for key, value in row.items() if key != "layer"} for row in layer_rows(outcomes)]
    shares = iter(rows)
    made = [
        {**entry, "layer": layer.name, "repeat": layer.repeat, **({"in_network": next(shares)} if search else {})}
        for layer, search, entry in zip(layers, found, entries, strict=True)
    ]
    names = workload.name, architecture.name
    empty = network_json(names, [], totals, [], provenance, machine)
    return {**empty, **head, "layers": made}


def same_version(document: Mapping[str, Any]) -> bool:
    """Whether this version wrote a document."""
    return bool(document["accelsim"] == __version__)


def differences(recorded: Any, found: Any, at: str = "") -> Iterator[str]:
    """Places where two values of JSON differ, with both values; numbers that are not whole up to rounding."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        for key in {**found, **recorded}:
            below = f"{at}.{key}".lstrip(".")
            if key not in recorded or key not in found:
                yield f"{below} is {'missing' if key in found else 'unknown'}"
            else:
                yield from differences(recorded[key], found[key], below)
    elif isinstance(found, list) and isinstance(recorded, list):
        if len(recorded) != len(found):
            yield f"{at} has {len(recorded)} entries, not {len(found)}"
        else:
            for number, (a, b) in enumerate(zip(recorded, found, strict=True)):
                yield from differences(a, b, f"{at}[{number}]")
    elif not _equal(recorded, found):
        yield f"{at} is {recorded!r}, not {found!r}"


def _equal(recorded: Any, found: Any) -> bool:
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (recorded, found))
    if numbers and isinstance(found, float):
        return close(recorded, found)
    return type(recorded) is type(found) and bool(recorded == found)


def close(a: float, b: float) -> bool:
    """Whether two numbers are the same up to rounding."""
    return math.isclose(a, b, rel_tol=TOLERANCE)
