"""Certificate of a fused network: what others need to find the same least sum, with a program of their own.

`docs/papers/check_fusion.py` is such a program. The document holds the problem (machine, graphs, constraints), the
cost of each layer by itself, the parts that were solved with their values, and proved energies of the fusing level and
all further in. It does not say which fused tiling is best.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from accelsim.fusion.graph import Graph
from accelsim.fusion.network import NetworkSearch
from accelsim.fusion.parts import Held, PartKind, PartLimits, PartProblem, PartResult
from accelsim.fusion.result import FusedNetwork, Price
from accelsim.fusion.tiling import unfit
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.encode import encode
from accelsim.results.output import certificate_json

FORM = "accelsim fusion certificate 2"

_Kind = tuple[tuple[str, ...], tuple[Tensor, ...], str, Constraints]
"""Layers whose parts of equal bounds are one mapping problem: dimensions, tensors, operation, what constraints ask."""


def fusion_certificate(found: FusedNetwork) -> dict[str, Any] | None:
    """Document that proves the answer; None for products, and for cycles of layers that overlap.

    Energies are in pJ, capacities in storage words; a value of None is infinite. `parts` are those that were solved:
    the kind of their layers, the fusing level, bounds, tensors that lie there (`arriving` come or go once, `present`
    move no word outside it), fused loops over sums, and what these stream; if that is None, these loops may also be
    otherwise. `found` has a capacity, the words that the best mapping uses, its value, and a bound.
    """
    search = found.search
    proves = ("energy",) if found.overlap else ("energy", "cycles")
    if not isinstance(search, NetworkSearch) or found.objective not in proves:
        return None
    machine, solutions = search.architecture, search.solutions
    first: dict[_Kind, Einsum] = {}
    for graph in found.graphs:
        for layer, rules in zip(graph.layers, graph.rules, strict=True):
            first.setdefault(_kind(machine, solutions.kind(layer, rules)), layer)
    kinds = {kind: number for number, kind in enumerate(first)}
    document = {
        "format": FORM,
        "architecture": found.architecture,
        "network": found.workload,
        "objective": found.objective,
        "claim": certificate_json(found.certificate),
        "longest": found.longest,
        "levels": [{"name": machine.levels[at].name, "words": machine.levels[at].rooms[""]} for at in _fit(machine)],
        "kinds": [_kind_json(solutions.machine(layer.operation), layer, kind[-1]) for kind, layer in first.items()],
        "graphs": [_graph_json(search, graph, kinds) for graph in found.graphs],
        "parts": sorted(_parts(search, kinds), key=json.dumps),
        "inner": sorted(_inner(search, kinds), key=json.dumps),
    }
    text = json.dumps(document, sort_keys=True)
    return {**document, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _kind(machine: Architecture, kind: PartKind) -> _Kind:
    """The kind of a layer or a part: of the outermost temporal block only what fused loops do not change."""
    outer = machine.levels[0].name
    asked = kind.rules.of(outer)
    at_outer = replace(asked, temporal=Block(only=asked.temporal.only), sizes=(), words=())
    others = tuple(each for each in kind.rules.levels if each.level != outer)
    return kind.dims, kind.tensors, kind.operation, replace(kind.rules, levels=(at_outer, *others))


def _fit(machine: Architecture) -> list[int]:
    """Levels in which tensors can stay between layers."""
    return [index for index in range(1, len(machine.levels)) if not unfit(machine, index)]


def _kind_json(machine: Architecture, layer: Einsum, rules: Constraints) -> dict[str, Any]:
    """Tensors of a kind of layers, what may lie in a fusing level, and constants of its limits."""
    found, names = encode(machine, layer).constants, [tensor.name for tensor in layer.tensors]
    return {
        "dims": list(layer.dims),
        "tensors": {t.name: [[list(term) for term in rank] for rank in t.ranks] for t in layer.tensors},
        "output": layer.output.name,
        "mac_pj": float(found.mac[0]),
        "leak_pj": float(found.leak.sum()),
        "cycles_per_mac": int(found.mac_cycles[0]) / machine.macs,
        "ports": [[int(units), int(cycles)] for units, cycles in found.bandwidth[0]],
        "offchip_units": dict(zip(names, found.word_parts[0].min(axis=1).tolist(), strict=True)),
        "at": {machine.levels[index].name: _at_level(machine, layer, rules, index) for index in _fit(machine)},
    }


def _at_level(machine: Architecture, layer: Einsum, rules: Constraints, index: int) -> dict[str, Any]:
    """What a fusing level may hold of a layer's tensors as a whole, and the least energies of their words."""
    level, outer = machine.levels[index], machine.levels[:index]
    refused = {name for name in rules.of(level.name).bypass if any(t.name == name for t in layer.tensors)}
    outside = {t.name for t in layer.tensors if any(t.role in each.keep for each in outer[1:])}
    outside |= {name for each in outer for name in rules.of(each.name).keep}
    stored = [t.name for t in layer.tensors if t.role not in level.bypass]
    pj: dict[str, dict[str, list[float]]] = {}
    for t, tensor in enumerate(layer.tensors):
        alone = frozenset({tensor.name})
        held = {"out": Held(index)}
        if tensor.name in stored:
            held |= {"arriving": Held(index, alone), "present": Held(index, present=alone)}
        limits = {state: PartLimits.make(machine, layer, each) for state, each in held.items()}
        pj[tensor.name] = {state: [its.asks[t], *its.words[t]] for state, its in limits.items()}
    return {
        "element_words": {t.name: int(level.element_words(t)) for t in layer.tensors},
        "must_keep": [t.name for t in layer.tensors if t.role in level.keep],
        "may_hold": [name for name in stored if name not in refused | outside],
        "may_stay": stored,
        "refused": sorted(refused),
        "pj": pj,
    }


def _graph_json(search: NetworkSearch, graph: Graph, kinds: dict[_Kind, int]) -> dict[str, Any]:
    machine, price = search.architecture, search.solutions.price
    layers = []
    for layer, rules in zip(graph.layers, graph.rules, strict=True):
        cost = search.alone(layer).cost(layer, price)
        layers.append(
            {
                "name": layer.name,
                "kind": kinds[_kind(machine, search.solutions.kind(layer, rules))],
                "bounds": list(layer.dims.values()),
                "whole": sorted(layer.whole),
                "outermost_loops_asked": rules.of(machine.levels[0].name).temporal != Block(),
                "alone": {"value": cost.value[0], "bound": cost.bound},
            }
        )
    return {"repeat": graph.repeat, "layers": layers, "links": [asdict(link) for link in graph.links]}


def _parts(search: NetworkSearch, kinds: dict[_Kind, int]) -> Iterator[dict[str, Any]]:
    """Parts that were looked at, each with what is known of it."""
    machine, solutions = search.architecture, search.solutions
    for solved in {**solutions.found, **dict.fromkeys(solutions.impossible)}:
        kind, room = kinds.get(_kind(machine, solved.kind)), solutions.impossible.get(solved)
        none = [] if room is None else [(room, 0, None, None)]
        for part in dict.fromkeys((solved, solved.turned) if kind is not None else ()):
            yield {
                "kind": kind,
                "level": machine.levels[part.held.level].name,
                "bounds": list(part.bounds),
                "arriving": sorted(part.held.arriving),
                "present": sorted(part.held.present),
                "sums": part.held.sums if _are_asked(machine, part) else sorted(part.held.sums),
                "streamed": sorted(part.held.streamed) if _are_asked(machine, part) else None,
                "found": [_found(each, solutions.price) for each in solutions.found.get(solved, ())] + none,
            }


def _are_asked(machine: Architecture, part: PartProblem) -> bool:
    """Whether the loops over sums of a part have to be outermost: not where the order of the fused loops was open."""
    block, sums = part.kind.rules.of(machine.levels[0].name).temporal, part.held.sums
    return block.outer[: len(sums)] == tuple(dim for dim, _ in sums)


def _found(each: PartResult, price: Price) -> tuple[int, int | None, float | None, float | None]:
    """Answer of a search for a part within a capacity: words that it uses, value and bound."""
    result, used = each.best(price) if each.results else (None, None)
    value = None if result is None else price.of(result)[0]
    bound = value if each.proved and value is not None else price.value(*each.least)[0]
    return each.capacity, used, value, bound


def _inner(search: NetworkSearch, kinds: dict[_Kind, int]) -> Iterator[dict[str, Any]]:
    """Proved energies of the fusing level and all further in, for each kind of layers that they are valid for."""
    for (proved, bounds, level, names), energy in search.solutions.inner.items():
        for (*same, rules), kind in kinds.items():
            weaker = replace(proved.rules, levels=rules.levels) == rules and {*proved.rules.levels} <= {*rules.levels}
            exchanged = tuple(bounds[n] for n in proved.exchange)
            if same == [proved.dims, proved.tensors, proved.operation] and weaker:
                for its in dict.fromkeys((bounds, exchanged)):
                    yield {
                        "kind": kind,
                        "level": search.architecture.levels[level].name,
                        "bounds": list(its),
                        "kept": sorted(names),
                        "pj_per_mac": None if energy == math.inf else energy,
                    }
