"""Certificate of a fused network: what others need to find the same least sum, with a program of their own.

`docs/papers/check_fusion.py` is such a program. The document holds the problem (machine, graphs, constraints), the
cost of each layer by itself, the parts that were solved with their values, and proved energies of the fusing level and
all further in. It does not say which fused tiling is best.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from accelsim.fusion.graph import Graph, Link
from accelsim.fusion.network import NetworkSearch
from accelsim.fusion.parts import NO_RULES, Held, PartLimits, PartResult
from accelsim.fusion.result import FusedNetwork, Price
from accelsim.fusion.tiling import unfit
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.encode import encode
from accelsim.results.output import certificate_json

FORM = "accelsim fusion certificate 1"

_Kind = tuple[tuple[str, ...], tuple[Tensor, ...], Constraints]
"""Layers whose parts of equal bounds are one mapping problem: dimensions, tensors, and what constraints ask."""


def fusion_certificate(found: FusedNetwork) -> dict[str, Any] | None:
    """Document that proves the answer; None where the objective is a product of energy and cycles.

    Energies are in pJ, capacities in storage words. `parts` are those that were solved: the kind of their layers, the
    fusing level, bounds, tensors that lie there (`arriving` come or go once, `present` move no word outside it), fused
    loops over sums, what these stream, and what is asked of the outermost loops; `found` has for a capacity the best
    value and the words that it uses, or a bound; `impossible` is the largest capacity in which nothing fits, or -1.
    """
    search = found.search
    if not isinstance(search, NetworkSearch) or found.objective not in ("energy", "cycles"):
        return None
    machine = search.architecture
    kinds: dict[_Kind, int] = {}
    first: list[Einsum] = []
    for graph in found.graphs:
        for layer, rules in zip(graph.layers, graph.rules, strict=True):
            kind = _kind(machine, tuple(layer.dims), layer.tensors, rules)
            if kinds.setdefault(kind, len(first)) == len(first):
                first.append(layer)
    document = {
        "format": FORM,
        "architecture": found.architecture,
        "network": found.workload,
        "objective": found.objective,
        "claim": certificate_json(found.certificate),
        "longest": found.longest,
        "levels": [
            {"name": level.name, "words": level.rooms.get("", 0)}
            for index, level in enumerate(machine.levels)
            if index and not unfit(machine, index)
        ],
        "kinds": [_kind_json(machine, layer, rules) for layer, (_, _, rules) in zip(first, kinds, strict=True)],
        "graphs": [_graph_json(search, graph, kinds) for graph in found.graphs],
        "parts": sorted(_parts(search, kinds), key=json.dumps),
        "inner": sorted(_inner(search, kinds), key=json.dumps),
    }
    text = json.dumps(document, sort_keys=True)
    return {**document, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _kind(machine: Architecture, dims: tuple[str, ...], tensors: tuple[Tensor, ...], rules: Constraints) -> _Kind:
    """The kind of a layer or a part: of the outermost temporal block only what fused loops do not change."""
    outer = machine.levels[0].name
    asked = rules.of(outer)
    at_outer = replace(asked, temporal=Block(only=asked.temporal.only), sizes=(), words=())
    others = tuple(each for each in rules.levels if each.level != outer)
    return dims, tensors, replace(rules, levels=(at_outer, *others))


def _kind_json(machine: Architecture, layer: Einsum, rules: Constraints) -> dict[str, Any]:
    """Tensors of a kind of layers, what may lie in a fusing level, and constants of its limits."""
    at = [index for index in range(1, len(machine.levels)) if not unfit(machine, index)]
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
        "at": {machine.levels[index].name: _at_level(machine, layer, rules, index) for index in at},
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
        block = rules.of(machine.levels[0].name).temporal
        layers.append(
            {
                "name": layer.name,
                "kind": kinds[_kind(machine, tuple(layer.dims), layer.tensors, rules)],
                "bounds": list(layer.dims.values()),
                "whole": sorted(layer.whole),
                "asked": None if block == Block() else _block(block, tuple(layer.dims)),
                "alone": {"value": cost.value[0], "bound": cost.bound},
            }
        )
    return {"repeat": graph.repeat, "layers": layers, "links": [_link(link) for link in graph.links]}


def _link(link: Link) -> dict[str, Any]:
    return {
        "producer": link.producer,
        "goes_out": link.goes_out,
        "readers": [
            {
                "layer": reader.layer,
                "tensor": reader.tensor,
                "ranks": [
                    {
                        "producer": rank.producer,
                        "extent": rank.extent,
                        "terms": [list(term) for term in rank.terms],
                        "box": rank.box,
                        "before": rank.before,
                    }
                    for rank in reader.ranks
                ],
            }
            for reader in link.readers
        ],
    }


def _block(block: Block, dims: Sequence[str]) -> dict[str, Any]:
    """What is asked of the loops of the outermost level: bounds, which come first and last, products."""
    bounds = {dim: list(block.bounds(dim)) for dim in dims}
    return {
        "loops": {dim: its for dim, its in bounds.items() if its != [1, None]},
        "first": list(block.outer),
        "last": list(block.inner),
        "products": [[list(each.names), each.low, each.high] for each in block.products],
    }


def _parts(search: NetworkSearch, kinds: dict[_Kind, int]) -> Iterator[dict[str, Any]]:
    """Parts that were looked at, each with what is known of it."""
    machine, solutions = search.architecture, search.solutions
    for part in {**solutions.found, **dict.fromkeys(solutions.impossible)}:
        dims = tuple(dim for dim, _ in part.bounds)
        kind = kinds.get(_kind(machine, dims, part.tensors, part.rules))
        if kind is None:
            continue
        held, block = part.held, part.rules.of(machine.levels[0].name).temporal
        yield {
            "kind": kind,
            "level": machine.levels[held.level].name,
            "bounds": [bound for _, bound in part.bounds],
            "arriving": sorted(held.arriving),
            "present": sorted(held.present),
            "sums": [[dim, block.bounds(dim)[0]] for dim in block.outer[: len(held.sums)]],
            "streamed": [list(product.names) for product in held.streamed],
            "asked": _block(block, dims),
            "found": [_found(each, solutions.price) for each in solutions.found.get(part, ())],
            "impossible": solutions.impossible.get(part, -1),
        }


def _found(each: PartResult, price: Price) -> dict[str, Any]:
    """Answer of a search for a part within a capacity; words, value and bound."""
    result, used = each.best(price) if each.results else (None, None)
    value = None if result is None else price.of(result)[0]
    bound = value if each.proved and value is not None else price.value(*each.least)[0]
    return {"capacity": each.capacity, "used": used, "value": value, "bound": bound}


def _inner(search: NetworkSearch, kinds: dict[_Kind, int]) -> Iterator[dict[str, Any]]:
    """Proved energies of the fusing level and all further in, for each kind of layers that they are valid for."""
    machine = search.architecture
    for key, energy in search.solutions.inner.items():
        bounds, tensors, level, names, rules = cast(Any, key)
        outer = [each.name for each in machine.levels[:level]]
        for (dims, its, asked), kind in kinds.items():
            same = replace(asked, levels=tuple(each for each in asked.levels if each.level not in outer))
            if its == tensors and dims == tuple(dim for dim, _ in bounds) and rules in (same, NO_RULES):
                yield {
                    "kind": kind,
                    "level": machine.levels[level].name,
                    "bounds": [bound for _, bound in bounds],
                    "kept": sorted(names),
                    "pj_per_mac": energy,
                }
