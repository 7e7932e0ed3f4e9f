"""What to fuse in a network, kept on disk by content; another kind of entry of `accelsim.results.cache`.

The key holds all that the answer depends on: code, machine, layers with their names, which follow which, objective and
longest chain. An entry holds tilings and mappings; costs are evaluated anew.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelsim.fusion.lines import Line
from accelsim.fusion.output import SAME, chain_json, differs, read_chain
from accelsim.fusion.result import ChainResult, Segment, sum_totals
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.results.cache import ResultCache, content_hash, einsum_content, hash_of_code, machine_content
from accelsim.results.output import certificate_json, mapping_json, read_certificate, read_mapping_json
from accelsim.search.result import Certificate

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
    segments = tuple(_segment(architecture, lines, each) for each in body["segments"])
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


def _segment(architecture: Architecture, lines: Sequence[Line], body: Mapping[str, Any]) -> Segment:
    number, first, end = body["place"]
    line = lines[number]
    layers = line.layers[first:end]
    alike = tuple((tuple(names), int(repeat)) for names, repeat in body["alike"])
    alone = tuple(_read(architecture, layer, each) for layer, each in zip(layers, body["alone"], strict=True))
    if body["fused"] is None:
        mapping = _read(architecture, layers[0], body["mapping"])
        return Segment(layers, int(body["repeat"]), alone, mapping, None, alike)
    fused = read_chain(architecture, line.chain(first, end), body["fused"])
    wrong = differs(fused, body["fused"])
    if wrong:
        raise ValueError(wrong)
    return Segment(layers, int(body["repeat"]), alone, None, fused, alike)


def _read(architecture: Architecture, einsum: Einsum, body: Mapping[str, Any]) -> Result:
    result = evaluate(architecture, einsum, read_mapping_json(body))
    same = result.cycles == body["cycles"] and math.isclose(result.energy_pj, body["energy_pj"], rel_tol=SAME)
    if not result.valid or not same:
        raise ValueError(f"a mapping of {einsum.name} costs something else, or is not valid")
    return result
