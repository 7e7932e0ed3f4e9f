"""Results as JSON, with where they came from: of a layer, of a front, and of the layers of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import LevelMapping, Loop
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import OPERATIONS
from accelsim.model.result import Fills, LevelResult, Moves, Ramp, Result, TensorAtLevel, TensorLayout, TensorOnNetwork
from accelsim.results import Provenance, provenance_json
from accelsim.results.output_schema import (
    COUNT,
    NUMBER,
    SAID,
    SHARE,
    SOME,
    TEXT,
    TRUTH,
    Form,
    JsonKind,
    at,
    fields_of,
    named,
    or_null,
    part,
    record,
    row,
    rows,
    word,
)
from accelsim.search.result import Certificate, FrontResult, Rejection, SearchedSpace, SearchResult

if TYPE_CHECKING:
    from accelsim.model.sparsity.result import SparseResult
    from accelsim.search.zeros import BestWithZeros

STOPS = ("exhausted", "budget", "timeout", "memory", "remainders", "effort", "interrupted")


def mapping_json(mapping: LoopNest) -> list[dict[str, Any]]:
    """Loops and kept tensors of each level, as plain values."""
    return [_LEVEL.write(level) for level in mapping.levels]


_LOOP = JsonKind(row(TEXT, SOME).form, lambda loop: [loop.dim, loop.bound])
_LEVEL = record(level=TEXT, keep=JsonKind(rows(TEXT).form, sorted), temporal=rows(_LOOP), x=rows(_LOOP), y=rows(_LOOP))
_NEST = {
    "imperfect": at(lambda result: result.mapping.imperfect, JsonKind(rows(TEXT).form, sorted)),
    "padded": at(
        lambda result: result.mapping.padding,
        JsonKind({"type": "object", "additionalProperties": {"type": "integer", "minimum": 2}}),
    ),
    "mapping": at(lambda result: result.mapping.levels, rows(_LEVEL)),
}
"""A mapping: what of it may leave remainders, what is padded, and the loops and kept tensors of each level."""
_UTILIZATION = record(
    overall=at("utilization", NUMBER),
    spatial=at("spatial_utilization", NUMBER),
    temporal=at("temporal_utilization", SHARE),
)
_COMPUTE = record(
    name=at("compute", TEXT),
    instances=at("compute_instances", SOME),
    used_instances=at("compute_used", SOME),
    cycles=at("compute_cycles", SOME),
    cycles_per_mac=SOME,
    energy_pj=at("compute_pj", NUMBER),
)
RESULT = record(
    architecture=TEXT,
    layer=at("workload", TEXT),
    bounds=named(SOME),
    valid=TRUTH,
    violations=rows(SAID),
    macs=SOME,
    padded_macs=SOME,
    energy_pj=NUMBER,
    pj_per_mac=NUMBER,
    cycles=SOME,
    edp_pj_cycles=at("edp", NUMBER),
    clock_hz=or_null(NUMBER),
    run_time_s=at("seconds", or_null(NUMBER)),
    power_w=or_null(NUMBER),
    utilization=part(_UTILIZATION),
    bottleneck=TEXT,
    compute=part(_COMPUTE),
    pipeline_fill=rows(fields_of(Ramp, times=SOME, cycles=SOME)),
    fills=rows(fields_of(Fills)),
    layouts=rows(fields_of(TensorLayout)),
    moves=rows(fields_of(Moves, tiles=SOME)),
    time=at(Result.time_rows, rows(record(component=TEXT, what=TEXT, cycles=SOME, share=SHARE))),
    levels=rows(fields_of(LevelResult, instances=SOME, used_instances=SOME, word_bits=SOME)),
    tensors=rows(fields_of(TensorAtLevel, tile_words=SOME, word_bits=SOME, compression=SHARE, energy_pj=NUMBER)),
    networks=rows(fields_of(TensorOnNetwork, children=SOME, distinct=SOME)),
    energy=at(Result.energy_rows, rows(record(component=TEXT, tensor=TEXT, action=TEXT, energy_pj=NUMBER))),
    cycles_by_component=at(
        Result.cycle_rows, rows(record(component=TEXT, cycles=COUNT, share=SHARE, bottleneck=TRUTH))
    ),
    **_NEST,
)
"""One mapping. Counts are words of one instance, the busiest one; totals and energies [pJ] are of all instances."""
_POINT = {
    "energy_pj": NUMBER,
    "cycles": SOME,
    "edp_pj_cycles": at("edp", NUMBER),
    "utilization": NUMBER,
    **_NEST,
}
POINT = record(**_POINT)
"""One mapping among several: what it costs, and its loops."""
_NEAR = record(share=NUMBER, mappings=COUNT)
_BUDGET = record(mappings=or_null(SOME), seconds=or_null(NUMBER))
_ASKED = {
    "budget": at(lambda _: {}, _BUDGET),
    "stop": word(*STOPS),
    "uneven": TRUTH,
    **dict.fromkeys(("imperfect", "padded", "limits"), rows(TEXT)),
    "space_size": or_null(SOME),
}
"""What a search was asked, why it ended, and how many mappings there are."""
_WORK = dict.fromkeys(("nodes", "evaluated", "table_bytes"), COUNT)


def _finite(found: Any) -> float | None:
    """Gap of what was found; None while the bound is 0, so that none is known."""
    return found.gap if math.isfinite(found.gap) else None


CERTIFICATE = record(
    value=NUMBER,
    bound=NUMBER,
    gap=at(_finite, or_null(NUMBER)),
    proved=TRUTH,
    **_WORK,
)
"""What a search proves; the gap is null while the bound is 0, so that none is known."""


_PART = {
    "uneven": at(lambda part: part.space.uneven, TRUTH),
    "imperfect": at(lambda part: part.space.imperfect, rows(TEXT)),
    "padded": at(lambda part: part.space.padded, rows(TEXT)),
    "space_size": at(lambda part: part.space.size, or_null(SOME)),
    "value": at(lambda part: part.value if math.isfinite(part.value) else None, or_null(NUMBER)),
    "bound": at(lambda part: part.bound if math.isfinite(part.bound) else None, or_null(NUMBER)),
    "gap": at(_finite, or_null(NUMBER)),
    "proved": TRUTH,
    **_WORK,
}
PART = record(**_PART)
"""What a search proves of a part of the space."""


def _of_proof(kind: JsonKind, key: str) -> JsonKind:
    """A value of what a search proves, in a record of the search."""
    of = kind.of
    return at(lambda search: of(search.proof) if callable(of) else getattr(search.proof, key), kind)


_SAMPLE = record(seen=SOME, valid=SOME, rejections=rows(fields_of(Rejection)))
"""What an exhaustive or random search saw."""
SEARCH = record(
    objective=TEXT,
    method=word("exact", "exhaustive", "random"),
    seed=at(lambda search: search.seed if search.method == "random" else None, or_null(COUNT)),
    **_ASKED,
    certificate=or_null(CERTIFICATE),
    parts=rows(PART),
    within=or_null(JsonKind(_NEAR.form, lambda within: {"share": within[0], "mappings": within[1]})),
    ranked=at(lambda search: _ranked(search), rows(record(value=NUMBER, **_POINT))),
    sample=or_null(_SAMPLE),
)
"""How a search went and what it proved or saw; `search_json` adds the budget that was asked for."""
FRONT = record(
    architecture=at(lambda front: front.points[0].architecture, TEXT),
    layer=at(lambda front: front.points[0].workload, TEXT),
    columns=rows(TEXT),
    **_ASKED,
    **_WORK,
    ends=rows(record(objective=TEXT, **{key: _of_proof(kind, key) for key, kind in _PART.items()})),
    points=at(
        lambda front: [
            {"values": list(values), **POINT.write(result)}
            for values, result in zip(front.values, front.points, strict=True)
        ],
        rows(record(values=rows(NUMBER), **_POINT)),
    ),
)
"""A Pareto front: each point with its values, in the order of the columns, and its mapping."""
_TOTAL_PROOF = record(value=NUMBER, bound=NUMBER, gap=or_null(NUMBER), proved=TRUTH)
TOTAL = record(
    layers=COUNT,
    distinct_layers=COUNT,
    unmapped=rows(TEXT),
    macs=COUNT,
    energy_pj=NUMBER,
    pj_per_mac=or_null(NUMBER),
    cycles=COUNT,
    run_time_s=or_null(NUMBER),
    utilization=or_null(NUMBER),
    outermost=or_null(TEXT),
    offchip_words=COUNT,
    offchip_bytes=COUNT,
    yields=or_null(TEXT),
    yields_per_run=or_null(SOME),
    yields_per_s=or_null(NUMBER),
    energy_pj_per_yield=or_null(NUMBER),
    certificate=or_null(_TOTAL_PROOF),
)
IN_NETWORK = record(
    energy_share=SHARE,
    cycles_share=SHARE,
    energy_limit_pj=or_null(NUMBER),
    cycles_limit=or_null(COUNT),
    energy_above_limit=or_null(SHARE),
    cycles_above_limit=or_null(SHARE),
)
_SOURCE = {"formula": or_null(TEXT), "source": or_null(TEXT)}
_ENERGIES = {name: or_null(NUMBER) for name in ("energy_pj", "pj_per_word", "pj_per_bit")}
_DEFINED = {
    "result": RESULT,
    "search": SEARCH,
    "energy_table": rows(record(component=TEXT, role=TEXT, action=TEXT, **_ENERGIES, **_SOURCE)),
    "area": rows(
        record(component=TEXT, instances=SOME, area_um2=or_null(NUMBER), total_um2=or_null(NUMBER), **_SOURCE)
    ),
}
_TO = {name: JsonKind({"$ref": f"#/$defs/{name}"}) for name in _DEFINED}
_INPUT = record(file=TEXT, sha256=JsonKind({"type": "string", "pattern": "^[0-9a-f]{64}$"}))
_PROVENANCE = {
    "accelsim": TEXT,
    "command": word("map", "eval"),
    "inputs": named(_INPUT),
    "overrides": named(TEXT),
    "limits": rows(TEXT),
}
_MACHINE = {"energy_table": _TO["energy_table"], "area": _TO["area"], "area_um2": or_null(NUMBER)}
SPARSE = record(
    energy_pj=NUMBER,
    cycles=COUNT,
    bottleneck=TEXT,
    valid=TRUTH,
    violations=rows(TEXT),
    compute=record(
        dense_macs=at("dense", SOME),
        **{f"{kind}_macs": at(kind, NUMBER) for kind in ("actual", "gated", "skipped")},
        instances=NUMBER,
        cycles=COUNT,
        energy_pj=NUMBER,
        slowest=NUMBER,
    ),
    tensors=at(
        lambda found: found.rows(),
        rows(
            record(
                **dict.fromkeys(("level", "tensor", "density", "format"), TEXT),
                instances=NUMBER,
                tile_words=NUMBER,
                held_words=COUNT,
                held_metadata_bits=NUMBER,
                dense_words=COUNT,
                **dict.fromkeys(("actual_words", "gated_words", "skipped_words", "metadata_bits"), NUMBER),
                dense_pj=NUMBER,
                energy_pj=NUMBER,
            )
        ),
    ),
    components=at(
        lambda found: [{"component": name, "energy_pj": pj} for name, pj in found.components.items()],
        rows(record(component=TEXT, energy_pj=NUMBER)),
    ),
)
"""What zeros save of the mapping, where the machine does something about them."""
BEST_WITH_ZEROS = record(
    objective=TEXT,
    value=NUMBER,
    energy_pj=at(lambda best: best.found.energy_pj, NUMBER),
    cycles=at(lambda best: best.found.cycles, COUNT),
    valid=at(lambda best: best.found.valid, TRUTH),
    proved=TRUTH,
    gap=at(_finite, or_null(NUMBER)),
    why_not=at("why", TEXT),
    mapping=at(lambda best: best.found.dense.mapping.levels, rows(_LEVEL)),
)
"""The best mapping with zeros left out, and whether that is proved of those that fit uncompressed."""


def _with(form: Form, **may: Form) -> Form:
    """The form of a record that may have more keys."""
    return {**form, "properties": {**form["properties"], **may}}


_ZEROS = {"sparse": SPARSE.form, "sparse_best": BEST_WITH_ZEROS.form}
_LAYER = {"layer": TEXT, "repeat": SOME}
_MAPPED = record(**_LAYER, in_network=IN_NETWORK, result=_TO["result"], search=_TO["search"])
_LAYERS = rows(JsonKind({"oneOf": [_with(_MAPPED.form, **_ZEROS), record(**_LAYER, no_valid_mapping=TEXT).form]}))
_LEFT_OUT = rows(record(**_LAYER, operation=word(*OPERATIONS)))
_OF_ZEROS = record(sparse_energy_pj=NUMBER, sparse_cycles=COUNT, effective_macs=NUMBER, sparse_proved=TRUTH)
_TOTAL = JsonKind(_with(TOTAL.form, **_OF_ZEROS.form["properties"]))
_DOCUMENTS = {
    "an evaluated mapping": {"result": _TO["result"]},
    "a mapped layer": {"result": _TO["result"], "search": _TO["search"]},
    "a mapped network": {"workload": TEXT, "architecture": TEXT, "total": _TOTAL, "layers": _LAYERS},
    "a Pareto front of one layer": {"front": FRONT},
}


def _document_form(kinds: dict[str, JsonKind]) -> Form:
    """Form of a document; `sparse` may be there beside the result of one layer, and `sparse_best` beside a search.

    `left_out` may be there beside a total: layers that do not count in it.
    """
    of = {"sparse": "result", "sparse_best": "search"}
    may = {name: form for name, form in _ZEROS.items() if of[name] in kinds}
    may |= {"left_out": _LEFT_OUT.form} if "total" in kinds else {}
    return _with(record(**_PROVENANCE, **kinds, **_MACHINE).form, **may)


RESULT_FORM: Form = {
    "oneOf": [{"title": title, **_document_form(kinds)} for title, kinds in _DOCUMENTS.items()],
    "$defs": {name: kind.form for name, kind in _DEFINED.items()},
}
"""JSON Schema of a result.json."""
result_json, point_json, certificate_json = RESULT.write, POINT.write, CERTIFICATE.write


def search_json(search: SearchResult, provenance: Provenance) -> dict[str, Any]:
    """How a search went and what it proved or saw, as plain values; the best mapping itself is not in it.

    What a search has not got is null, or an empty list. `ranked` is there if more than one mapping is listed.
    """
    return {**SEARCH.write(search), "budget": _BUDGET.write(provenance)}


def _ranked(search: SearchResult) -> list[dict[str, Any]]:
    """Mappings that a search lists, where there are several, each with its value."""
    goal, listed = Objective.parse(search.objective), search.ranked if len(search.ranked) > 1 else ()
    return [{"value": goal.of(result), **POINT.write(result)} for result in listed]


def read_mapping_json(recorded: Mapping[str, Any]) -> LoopNest:
    """Mapping of a result or a point: its levels, the dimensions that may leave remainders, and those padded.

    Raises AccelsimError if it is none.
    """
    try:
        padded = tuple(Loop(dim, bound) for dim, bound in dict(recorded["padded"]).items())
        return LoopNest(tuple(map(_read_level, recorded["mapping"])), frozenset(recorded["imperfect"]), padded)
    except (KeyError, TypeError, ValueError) as error:
        raise AccelsimError(f"the mapping in the file cannot be read: {error}") from None


def _read_level(level: Mapping[str, Any]) -> LevelMapping:
    temporal, x, y = (tuple(Loop(dim, bound) for dim, bound in level[block]) for block in ("temporal", "x", "y"))
    return LevelMapping(level["level"], temporal, x=x, y=y, keep=frozenset(level["keep"]))


def read_certificate(recorded: Mapping[str, Any]) -> Certificate:
    """Certificate that `certificate_json` wrote; the gap follows from value and bound."""
    return Certificate(**{each.name: recorded[each.name] for each in fields(Certificate) if each.name in recorded})


def _read_part(recorded: Mapping[str, Any]) -> Certificate:
    """Certificate of a part of a space."""
    padded, imperfect = tuple(recorded["padded"]), tuple(recorded["imperfect"])
    space = SearchedSpace(recorded["uneven"], imperfect, padded, size=recorded["space_size"])
    known = {name: math.inf if recorded[name] is None else recorded[name] for name in ("value", "bound")}
    return replace(read_certificate({**recorded, **known}), space=space)


def read_search(recorded: Mapping[str, Any], ranked: Sequence[Result]) -> SearchResult:
    """Search that `search_json` wrote, with its mappings, evaluated; the best one is the first. It has no sample."""
    proof, within = recorded["certificate"], recorded["within"]
    names = ("objective", "method", "stop", "space_size", "uneven")
    plain: dict[str, Any] = {name: recorded[name] for name in names}
    plain |= {name: tuple(recorded[name]) for name in ("imperfect", "padded", "limits")}
    return SearchResult(
        best=ranked[0],
        seed=recorded["seed"] or 0,
        seconds=0.0,
        certificate=None if proof is None else read_certificate(proof),
        parts=tuple(map(_read_part, recorded["parts"])),
        ranked=tuple(ranked),
        within=None if within is None else (within["share"], within["mappings"]),
        **plain,
    )


def front_json(front: FrontResult, provenance: Provenance, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Document of a Pareto front."""
    found = {**FRONT.write(front), "budget": _BUDGET.write(provenance)}
    return {**provenance_json(provenance), "front": found, **machine}


def evaluation_json(
    result: Result, provenance: Provenance, machine: Mapping[str, Any], zeros: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Document of one evaluated mapping; `machine` is the `machine_json` of the machine, `zeros` are `zeros_json`."""
    return {**provenance_json(provenance), "result": result_json(result), **zeros, **machine}


def map_json(
    search: SearchResult,
    provenance: Provenance,
    machine: Mapping[str, Any],
    zeros: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Document of one mapped layer: as `evaluation_json`, with how it was found."""
    return {**provenance_json(provenance), **searched_json(search, provenance), **zeros, **machine}


def zeros_json(sparse: SparseResult | None, best: BestWithZeros | None = None) -> dict[str, Any]:
    """What zeros save of the best dense mapping, and the best one with zeros left out; nothing without any."""
    found = {"sparse": or_null(SPARSE).write(sparse), "sparse_best": or_null(BEST_WITH_ZEROS).write(best)}
    return {key: value for key, value in found.items() if value is not None}


def searched_json(search: SearchResult, provenance: Provenance) -> dict[str, Any]:
    """The best mapping of a layer, how it was found and what is proved about it."""
    return {"result": result_json(search.best), "search": search_json(search, provenance)}
