"""Closed limits of a group: what no fused tiling falls below, for every set of its fused loops at once.

A layer executes and touches at least what is demanded of it where tiles are smallest and all halos stay. A tensor that
a fused loop leaves in place comes once more in each of its steps, or its tile takes room of the fusing level: which of
them get room is a fractional knapsack. So a limit holds for any order of the loops, and whatever is kept inside them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accelsim.fusion.graph import Graph, Link
from accelsim.fusion.group import FusedDim, Group, demand, make_group
from accelsim.fusion.parts import NO_RULES, Held, PartLimits, Solutions, exchanged
from accelsim.fusion.result import ROUNDING, Value
from accelsim.fusion.tiling import Border, FusedLoop, may_stay, storage_words, whole_rank
from accelsim.inputs.divisors import divisors
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.limits import touched_words

_STATES = "out", "arriving", "present"
"""A tensor passes the fusing level, comes there or leaves it as a whole, or is there before and after."""

_Counts = npt.NDArray[np.float64]
"""Numbers for each set of fused loops."""


@dataclass(slots=True)
class LoopLimits:
    """Limits of a group with one border, but for the words that whole tensors take.

    `steps` has a row for each set of fused loops, a column for each dimension. `energy` [pJ], `cycles` and `words` at
    the outermost level are limits where all that can stay does. What does not costs `more_energy` and `more_words`,
    what does takes `rooms`, each with a row for each tensor that may stay; `room` are storage words that links inside
    take. `busy` are cycles of the busiest unit, `leak` is energy [pJ] a cycle, `port` cycles a word of the outermost
    level.
    """

    group: Group
    steps: npt.NDArray[np.int64]
    energy: _Counts
    cycles: _Counts
    busy: float
    words: _Counts
    room: _Counts
    more_energy: _Counts
    more_words: _Counts
    rooms: _Counts
    leak: float
    port: float

    def values(self, solutions: Solutions, capacity: int) -> list[Value]:
        """What a fused tiling costs at least, for each set of loops; infinite where so much room does not do.

        `capacity`: storage words of the fusing level that whole tensors leave.
        """
        price, left = solutions.price, capacity - self.room
        words = self.words + _left_out(self.more_words, self.rooms, left)
        cycles = np.maximum(self.cycles, words * self.port)
        if solutions.overlap:
            fill = 1 + (len(self.group.layers) - 1) / self.steps.prod(axis=1)
            cycles = np.minimum(cycles, np.maximum(self.busy, words * self.port) * fill)
        energy = self.energy + _left_out(self.more_energy, self.rooms, left) + self.leak * cycles
        pairs = zip(energy * (1 - ROUNDING), cycles * (1 - ROUNDING), left >= 0, strict=True)
        return [price.value(float(e), float(c)) if fits else (math.inf, math.inf) for e, c, fits in pairs]

    def loops(self, at: int) -> tuple[FusedLoop, ...]:
        """A set of fused loops."""
        pairs = zip(self.group.dims, self.steps[at].tolist(), strict=True)
        return tuple(FusedLoop(dim.name, n, dim.bounds[-1] // n) for dim, n in pairs if n > 1)


def _left_out(costs: _Counts, rooms: _Counts, capacity: _Counts) -> _Counts:
    """Least cost of what finds no room, where parts of tensors may stay."""
    if not len(costs):
        return np.zeros_like(capacity)
    order = np.argsort(-costs / rooms, axis=0, kind="stable")
    costs, rooms = np.take_along_axis(costs, order, axis=0), np.take_along_axis(rooms, order, axis=0)
    before = np.cumsum(rooms, axis=0) - rooms
    left: _Counts = (costs * (1 - np.clip((capacity - before) / rooms, 0.0, 1.0))).sum(axis=0)
    return left


def _loop_sets(group: Group) -> npt.NDArray[np.int64]:
    """Every set of fused loops as steps along each dimension: any divisor, and one loop over each of a layer's."""
    sides = [divisors(dim.most) for dim in group.dims]
    steps = np.array(list(itertools.product(*sides)), np.int64).reshape(math.prod(map(len, sides)), len(sides))
    for (a, one), (b, other) in itertools.combinations(enumerate(group.dims), 2):
        if any(x == y for x, y in zip(one.dims, other.dims, strict=True)):
            steps = steps[(steps[:, a] == 1) | (steps[:, b] == 1)]
        elif _is_same(group, one, other):
            steps = steps[steps[:, a] <= steps[:, b]]
    return steps


def _is_same(group: Group, one: FusedDim, other: FusedDim) -> bool:
    """Whether fused loops over two dimensions may change places: rows for columns of an image."""
    if group.shared or replace(one, name="", dims=()) != replace(other, name="", dims=()):
        return False
    for at, (layer, needed, rules) in enumerate(zip(group.layers, group.needed, group.rules, strict=True)):
        names = exchanged(layer.tensors, rules, one.dims[at], other.dims[at])
        others = {dim.dims[at] for dim in group.dims if dim not in (one, other)} | layer.whole
        if not names or others.intersection(names) or any(needed[a] != needed[b] for a, b in names.items()):
            return False
    return True


class _Demands:
    """What the layers of a group run, touch and hold at least, for each set of its fused loops.

    Attributes
    ----------
    steps : array
        A row for each set of fused loops, a column for each dimension.
    least : list of dict
        Points that each layer runs along its dimensions, all steps together, however they are cut.
    """

    def __init__(self, group: Group) -> None:
        self.group, self.steps = group, _loop_sets(group)
        self.least = [dict(needed) for needed in group.needed]
        self._runs: list[list[_Counts]] = []  # of each dimension for each layer, with its longest one
        self._longest: list[list[_Counts]] = []
        self._tiles: list[list[_Counts]] = []  # of each dimension for each link
        self._tensors: dict[tuple[int, str], tuple[float, _Counts, _Counts | float]] = {}
        for d, dim in enumerate(group.dims):
            sides = divisors(dim.most)
            at = np.searchsorted(sides, self.steps[:, d])
            nameless = replace(dim, name="", dims=())  # rows as columns
            several = [demand(nameless, n, (True,) * len(dim.moves)) for n in sides]
            runs = [np.array(each.runs) for each in several]  # steps x layers
            self._runs.append(list(np.array([(each > 0).sum(axis=0) for each in runs], np.float64)[at].T))
            self._longest.append(list(np.array([each.max(axis=0) for each in runs], np.float64)[at].T))
            tiles = np.array([each.tiles for each in several], np.float64).reshape(len(sides), len(dim.moves))
            self._tiles.append(list(tiles[at].T))
            for least, name, points in zip(self.least, dim.dims, runs[-1].sum(axis=0).tolist(), strict=True):
                least[name] = min(least[name], points)

    def of(self, layer: int, tensor: Tensor) -> tuple[float, _Counts, _Counts | float]:
        """Of a tensor different words, how often they come again where it does not stay, and words of its tile."""
        key = layer, tensor.name
        if key not in self._tensors:
            einsum = replace(self.group.layers[layer], dims=self.least[layer], unpadded=None)
            touched = float(touched_words(einsum, tensor))
            self._tensors[key] = touched, self._times(layer, tensor) - 1, self._tile(layer, tensor)
        return self._tensors[key]

    def _times(self, layer: int, tensor: Tensor) -> _Counts:
        """How often the tile of a tensor is asked for, over the fused loops that leave it in place."""
        found = np.ones(len(self.steps))
        for dim, runs in zip(self.group.dims, self._runs, strict=True):
            if layer not in dim.summed and dim.dims[layer] not in tensor.dims:
                found = found * runs[layer]
        return found

    def _tile(self, layer: int, tensor: Tensor) -> _Counts | float:
        """Words of the largest tile of a tensor, in its box."""
        sizes: dict[str, Any] = dict(self.group.needed[layer])
        for dim, longest in zip(self.group.dims, self._longest, strict=True):
            sizes[dim.dims[layer]] = np.minimum(sizes[dim.dims[layer]], longest[layer])
        return math.prod((1 + sum(f * (sizes[name] - 1.0) for name, f in rank) for rank in tensor.ranks), start=1.0)

    def link(self, number: int) -> _Counts | float:
        """Words of a link's largest tile: whole ranks where no fused loop moves it."""
        link = self.group.inside[number]
        sizes: dict[str, Any] = {
            rank.producer: float(whole_rank(link, rank.producer)) for rank in link.readers[0].ranks
        }
        for dim, tiles in zip(self.group.dims, self._tiles, strict=True):
            name = dim.dims[link.producer or 0]
            sizes[name] = np.minimum(sizes[name], tiles[number])
        return math.prod(sizes.values(), start=1.0)


@dataclass(frozen=True, slots=True)
class _Constants:
    """What a layer costs at least: energy [pJ] and cycles a multiply-accumulate, leakage [pJ] a cycle, and its words.

    `ports`: cycles a word of the outermost level that is moved, read, written. `tensors`: for each state of a tensor
    energy [pJ] a multiply-accumulate, energy [pJ] a word, and storage words at the outermost level for each word.
    """

    mac: float
    cycles: float
    leak: float
    ports: tuple[float, float, float]
    tensors: dict[str, dict[str, tuple[float, float, float]]]


def _constants(solutions: Solutions, einsum: Einsum, level: int) -> _Constants:
    """Constants of a layer, for a tensor that passes the fusing level, that lies there as a whole, or is there."""
    key = solutions.kind(einsum, NO_RULES), level
    if key not in solutions.constants:
        machine, tensors = solutions.machine(einsum.operation), {}
        plain = PartLimits.make(machine, einsum, Held(level))
        for t, tensor in enumerate(einsum.tensors):
            one = frozenset({tensor.name})
            several = {"out": plain}
            if tensor.role not in solutions.architecture.levels[level].bypass:
                several["arriving"] = PartLimits.make(machine, einsum, Held(level, one))
                several["present"] = PartLimits.make(machine, einsum, Held(level, present=one))
            tensors[tensor.name] = {
                state: (its.asks[t], sum(its.words[t]), float(its.outer[t])) for state, its in several.items()
            }
        both, read, written, one_port = (per / rate if rate else 0.0 for rate, per in plain.port)
        ports = max(both, one_port), read, written
        solutions.constants[key] = _Constants(plain.each - sum(plain.asks), plain.cycles, plain.leak, ports, tensors)
    known: _Constants = solutions.constants[key]
    return known


def loop_limits(
    solutions: Solutions, group: Group, border: Border, level: int, loose: frozenset[tuple[int, str]] = frozenset()
) -> LoopLimits:
    """Limits of a group at a level with a border, whatever room whole tensors take there.

    `loose`: tensors, by layer and name, that may lie there as a whole or not.
    """
    key = id(group), border.present, border.staying, border.leaving, level, loose
    if key not in solutions.loops:
        solutions.loops[key] = _loop_limits(solutions, group, border, level, loose)
    known: LoopLimits = solutions.loops[key]
    return known


def _loop_limits(
    solutions: Solutions, group: Group, border: Border, level: int, loose: frozenset[tuple[int, str]]
) -> LoopLimits:
    if id(group) not in solutions.loops:
        solutions.loops[id(group)] = _Demands(group)
    at, needs = solutions.architecture.levels[level], solutions.loops[id(group)]
    none = np.zeros(len(needs.steps))
    rooms = [none] * len(group.layers)
    for number, link in enumerate(group.inside):
        if link.producer not in border.staying:
            tile = needs.link(number) * storage_words(group.layers[link.producer or 0].output, at)
            for layer in link.places():
                rooms[layer] = rooms[layer] + tile
    energy, cycles, words, leak, port, busy = none, none, none, math.inf, math.inf, Counter[str]()
    more: list[tuple[_Counts, ...]] = []
    for layer, einsum in enumerate(group.layers):
        macs = math.prod(needs.least[layer].values())
        its, held = _constants(solutions, einsum, level), _held(group, border, layer, loose)
        moved, pj = [0.0, 0.0], macs * its.mac  # words read, written; energy
        moved_again, pj_again = none, none
        for tensor in einsum.tensors:
            known, stays = its.tensors[tensor.name], may_stay(group, border, layer, tensor, at)
            states = [each for each in held.get(tensor.name, ("out", "arriving")) if each in known] or ["out"]
            touched, again, tile = needs.of(layer, tensor)
            back, out = known["present" if stays else "out"], known["out"]
            pj += macs * min(known[each][0] for each in (*states, *(("present",) if stays else ())))
            pj += touched * min(known[each][1] for each in states)
            moved[tensor.output] += touched * min(known[each][2] for each in states)
            if tensor.name in held or not again.any():
                continue
            pj_again, moved_again = pj_again + again * (touched * back[1]), moved_again + again * (touched * back[2])
            if stays:
                dearer = [touched * max(0.0, out[kind] - back[kind]) for kind in (1, 2)]
                more.append((again * dearer[0], again * dearer[1], none + tile * storage_words(tensor, at)))
        busy[solutions.machine(einsum.operation).compute.name] += macs * its.cycles
        both, read, written = its.ports
        least = max(macs * its.cycles, moved[0] * read, moved[1] * written)
        cycles = cycles + np.maximum(least, (sum(moved) + moved_again) * both)
        energy, words = energy + (pj + pj_again), words + (sum(moved) + moved_again)
        leak, port = min(leak, its.leak), min(port, both)
    shape = len(more), len(none)
    more_energy, more_words, taken = (np.array([each[kind] for each in more]).reshape(shape) for kind in range(3))
    room: _Counts = np.max(rooms, axis=0)
    return LoopLimits(
        group, needs.steps, energy, cycles, max(busy.values()), words, room, more_energy, more_words, taken, leak, port
    )


def _held(group: Group, border: Border, layer: int, loose: frozenset[tuple[int, str]]) -> dict[str, tuple[str, ...]]:
    """States of those tensors of a layer that do not pass the fusing level by themselves."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys(
        (r.tensor for link in group.shared for r in link.readers if r.layer == layer), _STATES
    )
    found |= {name: ("present",) for _, name in group.read(layer)}
    found |= {name: ("present",) for at, name in border.present if at == layer}
    if group.written(layer) is not None or layer in border.staying:
        found[group.layers[layer].output.name] = ("arriving",) if layer in border.leaving else ("present",)
    return found | {name: _STATES for at, name in loose if at == layer}


def layer_floors(solutions: Solutions, graph: Graph, level: int) -> list[float]:
    """Value that no step of a group at a level falls below for a layer in it, whatever the group."""
    least: list[dict[str, int]] = [dict(layer.dims) for layer in graph.layers]
    for link in sorted(graph.links, key=lambda link: -1 if link.producer is None else -link.producer):
        if link.producer is not None and not link.goes_out:
            least[link.producer] |= _asked(graph.layers, link, least)
    found = []
    for place, layer in enumerate(graph.layers):
        value = math.inf  # where its unit lies beside the level
        if level < len(solutions.machine(layer.operation).levels):
            group = replace(make_group(graph, [place]), needed=(least[place],))
            names = {r.tensor for link in graph.links for r in link.readers if r.layer == place}
            names |= {layer.output.name for link in graph.links if link.producer == place}
            border = Border(leaving=frozenset({0}))
            limits = _loop_limits(solutions, group, border, level, frozenset((0, name) for name in names))
            value = limits.values(solutions, 0)[0][0]
        found.append(value)
    return found


def _asked(layers: Sequence[Einsum], link: Link, least: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Points of each dimension of the layer that writes a link which readers that run so much ask for at least.

    Of a reader that does not run all, these may be any: sums of sets with n and m numbers are n + m - 1 at least.
    """
    found: dict[str, int] = {}
    for reader in link.readers:
        whole = layers[reader.layer].dims
        for rank in reader.ranks:
            bounds = {dim: least[reader.layer][dim] for dim, _ in rank.terms}
            words = 1 + sum(bound - 1 for bound in bounds.values())
            if all(whole[dim] == bound for dim, bound in bounds.items()):
                tensor = Tensor("rank", (rank.terms,), output=True)
                words = touched_words(Einsum("rank", bounds, (tensor,)), tensor)
            words -= rank.before + max(0, rank.box - rank.before - rank.extent)
            found[rank.producer] = max(found.get(rank.producer, 1), words)
    return found
