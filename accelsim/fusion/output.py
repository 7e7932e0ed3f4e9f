"""What was found about fusion as JSON; and a chain read back, made anew from its tiling and its mappings alone.

What to fuse in a network is kept on disk by content, as another kind of entry of `accelsim.results.cache`. The key
holds all that the answer depends on: code, machine, layers with their names, which follow which, objective and longest
chain. An entry holds tilings and mappings; costs are evaluated anew.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accelsim.fusion.chain import Chain, Line
from accelsim.fusion.part import evaluate_part, held_by, without_held
from accelsim.fusion.result import ChainResult, FusedPart, FusionResult, Price, Segment, Totals, sum_totals
from accelsim.fusion.tiling import FusedLoop, FusedTiling, Run, fusing_levels, keeps_shortcut, runs
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.results import Provenance, provenance_json
from accelsim.results.cache import ResultCache, content_hash, einsum_content, hash_of_code, machine_content
from accelsim.results.output import certificate_json, mapping_json, read_certificate, read_mapping_json, result_json
from accelsim.search.result import Certificate


def fusion_json(found: FusionResult, provenance: Provenance, energies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Document of what to fuse: totals, each segment, and each part of a fused one with all its counts."""
    return {
        **provenance_json(provenance),
        "fusion": {
            "architecture": found.architecture,
            "network": found.workload,
            "objective": found.objective,
            "chain": list(found.chain) or None,
            "longest": found.longest,
            "budget": {"mappings": provenance.mappings, "seconds": provenance.seconds},
            "stop": found.stop,
            "certificate": certificate_json(found.certificate),
            "chains": found.chains,
            "parts_mapped": found.solved,
            "edges_inferred": found.inferred,
            "why_not": found.why_not or None,
            "apart": [asdict(each) for each in found.apart],
            "totals": totals_json(found.totals),
            "unfused": totals_json(found.unfused),
            "segments": [_segment(segment) for segment in found.segments],
        },
        "energy_table": [dict(row) for row in energies],
    }


def totals_json(totals: Totals) -> dict[str, Any]:
    """Totals as plain values."""
    return {**asdict(totals), "edp_pj_cycles": totals.energy_pj * totals.cycles}


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "layers": [layer.name for layer in segment.layers],
        "repeat": segment.repeat,
        "alike": [{"layers": list(names), "repeat": repeat} for names, repeat in segment.alike],
        "totals": totals_json(segment.totals),
        "unfused": totals_json(segment.unfused),
        "fused": None if segment.fused is None else chain_json(segment.fused),
        "mapping": None if segment.mapping is None else result_json(segment.mapping),
    }


def chain_json(found: ChainResult) -> dict[str, Any]:
    """A fused chain as plain values."""
    tiling = found.tiling
    return {
        "level": tiling.level,
        "loops": [{"dim": loop.dim, "steps": loop.steps, "tile": loop.tile} for loop in tiling.loops],
        "intermediates": [
            {
                "producer": producer.name,
                "consumer": consumer.name,
                "tensor": link.tensor,
                "retained": sorted(kept),
                "words": room.live,
                "halo_words": room.between,
            }
            for producer, consumer, link, kept, room in zip(
                found.chain.layers, found.chain.layers[1:], found.chain.links, tiling.retain, found.rooms, strict=False
            )
        ],
        "resident": [
            {"layer": layer.name, "tensors": sorted(names)}
            for layer, names in zip(found.chain.layers, tiling.resident, strict=True)
            if names
        ],
        "shortcut": _shortcut(found),
        **asdict(found.totals),
        "price": asdict(found.price),
        "certificate": certificate_json(found.certificate),
        "stop": found.stop,
        "tilings": found.tilings,
        "parts": [
            {
                "layer": found.chain.layers[part.part.layer].name,
                "count": part.count,
                "fetches": sorted(part.part.arriving),
                "finds": sorted(part.part.present),
                "reserved_words": part.reserved,
                "result": result_json(part.result),
            }
            for part in found.parts
        ],
    }


def _shortcut(found: ChainResult) -> dict[str, Any] | None:
    """What the first layer reads and keeps for a later one."""
    shortcut = found.chain.shortcut
    if shortcut is None or not found.tiling.shortcut:
        return None
    return {
        "tensor": shortcut.tensor,
        "layer": found.chain.layers[shortcut.layer].name,
        "again": shortcut.again,
        "words": found.shortcut.live,
        "halo_words": found.shortcut.between,
    }


SAME = 1e-12
"""Relative difference that a value read back may have from one that is evaluated anew."""


def read_tiling(chain: Chain, recorded: Mapping[str, Any]) -> FusedTiling:
    """Fused tiling that `chain_json` wrote.

    Raises ValueError if it is none of the chain.
    """
    dims = {dim.name: dim for dim in chain.dims}
    loops = tuple(FusedLoop(str(each["dim"]), int(each["steps"]), int(each["tile"])) for each in recorded["loops"])
    for loop in loops:
        if loop.dim not in dims or loop.steps < 2 or loop.steps * loop.tile != dims[loop.dim].bound:
            raise ValueError(f"{loop} with {loop.tile} a step is no fused loop of {chain.name}")
    if len({loop.dim for loop in loops}) < len(loops):
        raise ValueError(f"two fused loops of {chain.name} run over one dimension")
    retain = tuple(frozenset(each["retained"]) for each in recorded["intermediates"])
    held = {str(each["layer"]): frozenset(each["tensors"]) for each in recorded["resident"]}
    names = {layer.name: {tensor.name for tensor in layer.tensors} for layer in chain.layers}
    if any(not tensors <= names.get(layer, set()) for layer, tensors in held.items()):
        raise ValueError(f"what stays resident is no tensor of {chain.name}")
    resident = tuple(held.get(layer.name, frozenset[str]()) for layer in chain.layers)
    if len(retain) != len(chain.links) or not frozenset[str]().union(*retain) <= {loop.dim for loop in loops}:
        raise ValueError(f"halos of {chain.name} are retained along what is no fused loop")
    return FusedTiling(str(recorded["level"]), loops, retain, resident, recorded["shortcut"] is not None)


def read_chain(architecture: Architecture, chain: Chain, recorded: Mapping[str, Any]) -> ChainResult:
    """Fused chain that `chain_json` wrote: parts from the tiling, costs from the mappings, sums from the parts.

    Raises ValueError, LookupError, AccelsimError if the tiling or a mapping is none of the chain, or the parts are not
    those of the tiling.
    """
    tiling = read_tiling(chain, recorded)
    levels = fusing_levels(architecture, chain)
    if isinstance(levels, str) or tiling.level not in levels:
        raise ValueError(f"{tiling.level} cannot keep the intermediates of {chain.name}")
    names = [level.name for level in architecture.levels]
    at = levels[tiling.level]
    level = architecture.levels[at]
    if tiling.shortcut and not keeps_shortcut(chain, tiling, level):
        raise ValueError(
            f"{tiling.level} cannot keep what the first layer of {chain.name} reads until it is read again"
        )
    capacity = level.rooms.get("", 0)
    wanted = {_run_key(chain, run): run for run in runs(chain, tiling, level)}
    if len(recorded["parts"]) != len(wanted):
        raise ValueError(f"{chain.name} has {len(wanted)} parts, not {len(recorded['parts'])}")
    parts = []
    for each in recorded["parts"]:
        body = each["result"]
        key = each["layer"], tuple(body["bounds"].values()), tuple(each["fetches"]), tuple(each["finds"])
        run = wanted.pop(key, None)
        if run is None:
            raise ValueError(f"{each['layer']} with the bounds {dict(body['bounds'])} is no part of the tiling")
        held, einsum, room = held_by(chain, run.part, at), run.part.einsum(chain), capacity - run.reserved
        mapping = read_mapping_json(body)
        result = without_held(evaluate_part(architecture, einsum, held, room, mapping), held, names, room)
        parts.append(FusedPart(run.part, run.count, run.reserved, result))
    return ChainResult(
        chain=chain,
        tiling=tiling,
        parts=tuple(parts),
        price=Price(float(recorded["price"]["energy"]), float(recorded["price"]["cycles"])),
        certificate=read_certificate(recorded["certificate"]),
        stop=str(recorded["stop"]),
        tilings=int(recorded["tilings"]),
    )


def _run_key(chain: Chain, run: Run) -> tuple[str, tuple[int, ...], tuple[str, ...], tuple[str, ...]]:
    part = run.part
    return chain.layers[part.layer].name, part.bounds, tuple(sorted(part.arriving)), tuple(sorted(part.present))


_CODE = ("fusion",)
"""Parts of the package on which an answer depends, beside those of each mapping."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found for the lines of a network; `chains` were looked at, and `solved` parts mapped for them.

    `kept`: when the answer was kept on disk, if it comes from there.
    """

    segments: tuple[Segment, ...]
    certificate: Certificate
    chains: int
    solved: int
    kept: str = ""


def answer_key(architecture: Architecture, lines: Sequence[Line], goal: Objective, longest: int | None) -> str:
    """Hash of all that the answer depends on."""
    return content_hash(
        {
            "kind": "fusion",
            "code": hash_of_code(_CODE),
            "machine": machine_content(architecture),
            "lines": [
                [[*map(_layer, line.layers)], line.tensors, line.repeat, line.alike, repr(line.shortcut)]
                for line in lines
            ],
            "objective": [goal.name, *goal.powers],
            "longest": longest,
        }
    )


def _layer(einsum: Einsum) -> list[Any]:
    names = [einsum.name, list(einsum.dims), [tensor.name for tensor in einsum.tensors], sorted(einsum.whole)]
    return [*names, einsum_content(einsum)]


def write_answer(cache: ResultCache, key: str, about: str, lines: Sequence[Line], answer: Answer) -> None:
    """Keep an answer."""
    places = {
        tuple(layer.name for layer in line.layers[first:end]): (number, first, end)
        for number, line in reversed(list(enumerate(lines)))
        for first in range(len(line.layers))
        for end in range(first + 1, len(line.layers) + 1)
    }
    body = {
        "about": f"fusion: {about}",
        "certificate": certificate_json(answer.certificate),
        "chains": answer.chains,
        "solved": answer.solved,
        "segments": [
            {
                "place": list(places[tuple(layer.name for layer in each.layers)]),
                "repeat": each.repeat,
                "alike": [[list(names), repeat] for names, repeat in each.alike],
                "alone": [_mapping(result) for result in each.alone],
                "mapping": None if each.mapping is None else _mapping(each.mapping),
                "fused": None if each.fused is None else _chain(each.fused),
            }
            for each in answer.segments
        ],
    }
    cache.write(key, body)


def _mapping(result: Result) -> dict[str, Any]:
    return {
        "bounds": dict(result.bounds),
        "mapping": mapping_json(result.mapping),
        "imperfect": sorted(result.mapping.imperfect),
        "padded": result.mapping.padding,
        "energy_pj": result.energy_pj,
        "cycles": result.cycles,
    }


def _chain(found: ChainResult) -> dict[str, Any]:
    whole = chain_json(found)
    parts = [{**part, "result": _mapping(each.result)} for part, each in zip(whole["parts"], found.parts, strict=True)]
    return {**whole, "parts": parts}


def read_answer(
    cache: ResultCache, key: str, architecture: Architecture, lines: Sequence[Line], goal: Objective
) -> Answer | None:
    """Answer of an entry with every mapping evaluated anew, or None."""
    body = cache.read(key)
    if body is None:
        return None
    try:
        return _answer(architecture, lines, goal, body)
    except (LookupError, TypeError, ValueError, AttributeError, AccelsimError) as error:
        cache.damaged(key, f"{type(error).__name__}: {error}")
        return None


def _answer(architecture: Architecture, lines: Sequence[Line], goal: Objective, body: Mapping[str, Any]) -> Answer:
    proof = read_certificate(body["certificate"])
    if not proof.proved:
        raise ValueError("it proves nothing")
    segments = tuple(_read_segment(architecture, lines, each) for each in body["segments"])
    totals = sum_totals([(segment.repeat, segment.totals) for segment in segments])
    value = goal.value(totals.energy_pj, totals.cycles)
    if not math.isclose(proof.value, value, rel_tol=1e-9):
        raise ValueError(f"its segments have the value {value:.6g}, and its proof is of {proof.value:.6g}")
    if _runs(segments) != _runs(lines):
        raise ValueError("its segments are not those of the network")
    return Answer(segments, proof, int(body["chains"]), int(body["solved"]), str(body["kept"]))


def _runs(rows: Sequence[Segment] | Sequence[Line]) -> Counter[str]:
    """How often each layer runs."""
    found = Counter[str]()
    for row in rows:
        own = row.repeat - sum(repeat for _, repeat in row.alike)
        for names, repeat in ((tuple(layer.name for layer in row.layers), own), *row.alike):
            for name in names:
                found[name] += repeat
    return found


def _read_segment(architecture: Architecture, lines: Sequence[Line], body: Mapping[str, Any]) -> Segment:
    number, first, end = body["place"]
    line = lines[number]
    layers = line.layers[first:end]
    alike = tuple((tuple(names), int(repeat)) for names, repeat in body["alike"])
    alone = tuple(_read(architecture, layer, each) for layer, each in zip(layers, body["alone"], strict=True))
    if body["fused"] is None:
        mapping = _read(architecture, layers[0], body["mapping"])
        return Segment(layers, int(body["repeat"]), alone, mapping, None, alike)
    fused = read_chain(architecture, line.chain(first, end), body["fused"])
    if not _same(fused.totals, body["fused"]):
        now = f"{fused.totals.energy_pj:.6g} pJ and {fused.totals.cycles} cycles"
        was = f"{body['fused']['energy_pj']:.6g} pJ and {body['fused']['cycles']} cycles"
        raise ValueError(f"{fused.chain.name} costs {now}, not {was}")
    return Segment(layers, int(body["repeat"]), alone, None, fused, alike)


def _read(architecture: Architecture, einsum: Einsum, body: Mapping[str, Any]) -> Result:
    result = evaluate(architecture, einsum, read_mapping_json(body))
    if not result.valid or not _same(result, body):
        raise ValueError(f"a mapping of {einsum.name} costs something else, or is not valid")
    return result


def _same(found: Totals | Result, recorded: Mapping[str, Any]) -> bool:
    """Whether energy and cycles are those recorded."""
    close = math.isclose(found.energy_pj, recorded["energy_pj"], rel_tol=SAME)
    return found.cycles == recorded["cycles"] and close
