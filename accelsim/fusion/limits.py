"""Closed limits of a group: what no fused tiling falls below, for every set of its fused loops at once.

A layer executes and touches at least what is demanded of it where tiles are smallest and all halos stay. A tensor that
a fused loop leaves in place comes once more in each of its steps, or its tile takes room of the fusing level: which of
them get room is a fractional knapsack. So a limit holds for any order of the loops, and whatever is kept inside them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accelsim.fusion.group import FusedDim, Group, demand
from accelsim.fusion.parts import NO_RULES, Held, PartLimits, Solutions, exchanged
from accelsim.fusion.result import Value
from accelsim.fusion.tiling import Border, FusedLoop, may_stay, storage_words, whole_rank
from accelsim.inputs.divisors import divisors
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.limits import touched_words

_ROUNDED = 1 - 1e-11
"""What a sum of energies may lose by rounding."""

_Counts = npt.NDArray[np.float64]
"""Numbers for each set of fused loops."""


@dataclass(slots=True)
class LoopLimits:
    """Limits of a group with one border, but for the words that whole tensors take.

    `steps` has a row for each set of fused loops, a column for each dimension. `energy` [pJ], `cycles` and `words` at
    the outermost level are limits where all that can stay does. What does not costs `more_energy` and `more_words`,
    what does takes `rooms`, each with a row for each tensor that may stay; `room` are storage words that links inside
    take. `leak` is energy [pJ] a cycle, `port` cycles a word of the outermost level.
    """

    group: Group
    steps: npt.NDArray[np.int64]
    energy: _Counts
    cycles: _Counts
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
        energy = self.energy + _left_out(self.more_energy, self.rooms, left) + self.leak * cycles
        pairs = zip(energy * _ROUNDED, cycles * _ROUNDED, left >= 0, strict=True)
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
    return (costs * (1 - np.clip((capacity - before) / rooms, 0.0, 1.0))).sum(axis=0)


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


@dataclass(slots=True)
class _Demands:
    """Of each fused dimension, for each set of loops: runs of each layer, its longest one, tiles of each link.

    `least`: points that each layer runs along its dimensions, all steps together, however they are cut.
    """

    runs: list[list[_Counts]]
    longest: list[list[_Counts]]
    tiles: list[list[_Counts]]
    least: list[dict[str, int]]


def _demands(group: Group, steps: npt.NDArray[np.int64]) -> _Demands:
    found = _Demands([], [], [], [dict(needed) for needed in group.needed])
    for d, dim in enumerate(group.dims):
        sides = divisors(dim.most)
        at = np.searchsorted(sides, steps[:, d])
        several = [demand(dim, n, (True,) * len(dim.moves)) for n in sides]
        layers, links = range(len(dim.dims)), range(len(dim.moves))
        found.runs.append([_chosen([sum(run[k] > 0 for run in each.runs) for each in several], at) for k in layers])
        found.longest.append([_chosen([max(run[k] for run in each.runs) for each in several], at) for k in layers])
        found.tiles.append([_chosen([each.tiles[k] for each in several], at) for k in links])
        for k, name in enumerate(dim.dims):
            found.least[k][name] = min(found.least[k][name], sum(run[k] for run in several[-1].runs))
    return found


def _chosen(values: Sequence[int], at: npt.NDArray[np.int64]) -> _Counts:
    return np.array(values, np.float64)[at]


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
    return solutions.constants[key]


def loop_limits(solutions: Solutions, group: Group, border: Border, level: int) -> LoopLimits:
    """Limits of a group at a level with a border, whatever room whole tensors take there."""
    key = id(group), border.present, border.staying, border.leaving, level
    if key not in solutions.loops:
        solutions.loops[key] = _loop_limits(solutions, group, border, level)
    return solutions.loops[key]


def _loop_limits(solutions: Solutions, group: Group, border: Border, level: int) -> LoopLimits:
    at, steps = solutions.architecture.levels[level], _loop_sets(group)
    needs, none = _demands(group, steps), np.zeros(len(steps))
    rooms = [none] * len(group.layers)
    for number, link in enumerate(group.inside):
        if link.producer not in border.staying:
            tile = _link_tile(group, number, needs) * storage_words(group.layers[link.producer or 0].output, at)
            for layer in link.places():
                rooms[layer] = rooms[layer] + tile
    energy, cycles, words, leak, port = none, none, none, math.inf, math.inf
    more: list[tuple[_Counts, ...]] = []
    for layer, einsum in enumerate(group.layers):
        least = replace(einsum, dims=needs.least[layer], unpadded=None)
        its, held = _constants(solutions, einsum, level), _held(group, border, layer)
        moved = [none, none]  # read, written
        energy = energy + least.macs * its.mac
        for tensor in einsum.tensors:
            known, stays = its.tensors[tensor.name], may_stay(group, border, layer, tensor, at)
            states = [each for each in held.get(tensor.name, ("out", "arriving")) if each in known]
            touched = float(touched_words(least, tensor))
            again = none if tensor.name in held else touched * (_times(group, layer, tensor, needs, none) - 1)
            back, out = known["present" if stays else "out"], known["out"]
            asks = min(known[each][0] for each in (*states, *(("present",) if stays else ())))
            pj, units = (min(known[each][kind] for each in states) for kind in (1, 2))
            energy = energy + least.macs * asks + touched * pj + again * back[1]
            moved[tensor.output] = moved[tensor.output] + touched * units + again * back[2]
            if stays and again.any():
                tile = _tile(group, layer, tensor, needs) * storage_words(tensor, at)
                more.append((again * max(0.0, out[1] - back[1]), again * max(0.0, out[2] - back[2]), none + tile))
        both, read, written = its.ports
        its_cycles = [least.macs * its.cycles + none, sum(moved) * both, moved[0] * read, moved[1] * written]
        cycles, words = cycles + np.max(its_cycles, axis=0), words + sum(moved)
        leak, port = min(leak, its.leak), min(port, both)
    several = [np.array([each[kind] for each in more]).reshape(len(more), len(steps)) for kind in range(3)]
    return LoopLimits(group, steps, energy, cycles, words, np.max(rooms, axis=0), *several, leak, port)


def _held(group: Group, border: Border, layer: int) -> dict[str, tuple[str, ...]]:
    """States of those tensors of a layer that do not pass the fusing level by themselves."""
    output = group.layers[layer].output.name
    any_of = "out", "arriving", "present"
    found: dict[str, tuple[str, ...]] = {
        r.tensor: any_of for link in group.shared for r in link.readers if r.layer == layer
    }
    found |= {name: ("present",) for _, name in group.read(layer)}
    found |= {name: ("present",) for at, name in border.present if at == layer}
    if group.written(layer) is not None or layer in border.staying:
        found[output] = ("arriving",) if layer in border.leaving else ("present",)
    return found


def _times(group: Group, layer: int, tensor: Tensor, needs: _Demands, none: _Counts) -> _Counts:
    """How often the tile of a tensor is asked for again, over the fused loops that leave it in place."""
    found = none + 1
    for dim, runs in zip(group.dims, needs.runs, strict=True):
        if layer not in dim.summed and dim.dims[layer] not in tensor.dims:
            found = found * runs[layer]
    return found


def _tile(group: Group, layer: int, tensor: Tensor, needs: _Demands) -> _Counts | float:
    """Words of the largest tile of a tensor, in its box."""
    sizes: dict[str, Any] = dict(group.needed[layer])
    for dim, longest in zip(group.dims, needs.longest, strict=True):
        sizes[dim.dims[layer]] = np.minimum(sizes[dim.dims[layer]], longest[layer])
    return math.prod((1 + sum(f * (sizes[name] - 1.0) for name, f in rank) for rank in tensor.ranks), start=1.0)


def _link_tile(group: Group, number: int, needs: _Demands) -> _Counts | float:
    """Words of a link's largest tile: whole ranks where no fused loop moves it."""
    link = group.inside[number]
    sizes: dict[str, Any] = {rank.producer: float(whole_rank(link, rank.producer)) for rank in link.readers[0].ranks}
    for dim, tiles in zip(group.dims, needs.tiles, strict=True):
        name = dim.dims[link.producer or 0]
        sizes[name] = np.minimum(sizes[name], tiles[number])
    return math.prod(sizes.values(), start=1.0)
