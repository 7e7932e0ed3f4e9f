"""Sums over the nest of a mapping whose loops leave remainders, by formula; docs/model.md, section 10, derives them.

Words that enter a tile are a sum of products with one factor for each dimension, and so are sums over instances: these
differ in how the remainders hit them. Dimensions that share a rank leave no remainder; model/windows.py has their part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.workload import Tensor
from accelsim.model.encode import Encoded
from accelsim.model.remainders import ALL, ALL_STEPS, FIRST, Choice, DimSums

DOWN, UP, HELD = range(3)
"""What instances share: words read (multicast), words updated (spatial reduction), or all that they hold alike."""
Instances = int | Mapping[str, Choice]
"""Instances of a level: `ALL`, the `FIRST`, or one of each class, by dimension."""


class _Time(NamedTuple):
    """A temporal loop of bound > 1; `step` counts iterations of all loops over its dimension inside it."""

    place: int
    dim: str
    bound: int
    level: int
    step: int


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor by its dimensions of bound > 1: alone in a rank (with coefficient), in none, and ranks of several."""

    index: int
    tensor: Tensor
    alone: dict[str, int]
    other: tuple[str, ...]
    windows: tuple[tuple[tuple[str, int], ...], ...]
    window_dims: frozenset[str]


def operand_of(encoded: Encoded, index: int) -> Operand:
    """Sort the dimensions of a tensor."""
    tensor = encoded.tensors[index]
    ranks = [tuple((dim, factor) for dim, factor in rank if dim in encoded.dims) for rank in tensor.ranks]
    return Operand(
        index,
        tensor,
        dict(rank[0] for rank in ranks if len(rank) == 1),
        tuple(dim for dim in encoded.dims if dim not in tensor.dims),
        tuple(rank for rank in ranks if len(rank) > 1),
        frozenset(dim for rank in ranks if len(rank) > 1 for dim, _ in rank),
    )


class _Term(NamedTuple):
    """A product: a number, times a sum over each dimension (method, dimension, place, coefficient)."""

    number: int
    factors: list[tuple[int, str, int, int]]


_VISITS, _STEPS_OF, _RESTING = range(3)


class NestSums:
    """Sums over the nest of one mapping."""

    def __init__(self, encoded: Encoded, mapping: LoopNest) -> None:
        self.architecture, self.levels = encoded.architecture, len(mapping.levels)
        bounds = encoded.einsum.dims
        found: dict[str, list[tuple[int, int, int, int]]] = {dim: [] for dim in encoded.dims}
        nest: list[tuple[str, int, int, int]] = []
        for index, level in enumerate(mapping.levels):
            for axis, loops in enumerate((level.temporal, level.x, level.y)):
                for loop in loops:
                    if loop.bound > 1:
                        found[loop.dim].append((len(nest), loop.bound, index, axis))
                        nest.append((loop.dim, loop.bound, index, axis))
        self.sums = {dim: DimSums(bounds[dim], loops) for dim, loops in found.items()}
        self.imperfect = [dim for dim, sums in self.sums.items() if sums.imperfect]
        inside = dict.fromkeys(found, 1)
        time: list[_Time] = []
        self.space: list[list[tuple[str, int, int]]] = [[] for _ in range(self.levels)]
        for place in range(len(nest) - 1, -1, -1):
            dim, bound, index, axis = nest[place]
            if axis:
                self.space[index].append((dim, bound, axis))
            else:
                time.append(_Time(place, dim, bound, index, inside[dim]))
            inside[dim] *= bound
        self.time = time[::-1]
        self.used = [1]
        for spread in self.space:
            self.used.append(self.used[-1] * math.prod(bound for _, bound, _ in spread))
        self.shares = (
            [(False, level.x.multicast, level.y.multicast) for level in self.architecture.levels],
            [(False, level.x.spatial_reduction, level.y.spatial_reduction) for level in self.architecture.levels],
            [(False, True, True)] * self.levels,
        )
        self.terms: dict[tuple[int, int], list[_Term]] = {}
        self.choices: dict[tuple[str, bool, int, int, int, int | Choice], Choice] = {}
        self.grouped: dict[tuple[int, int, int], int] = {}

    @property
    def steps(self) -> int:
        """Steps of all temporal loops in which a compute unit acts: those of the first one."""
        count = 1
        for dim, sums in self.sums.items():
            count *= sums.visits(self.levels, ALL_STEPS, 0, self._choice(dim, True, self.levels, self.levels, 0, FIRST))
        return count

    def tile(self, operand: Operand, level: int) -> int:
        """Words of the largest tile."""
        words = self._window_box(operand, level)
        for dim, factor in operand.alone.items():
            sums = self.sums[dim]
            words *= factor * (min(sums.outside(level).span, sums.bound) - 1) + 1
        return words

    def entering(self, operand: Operand, child: int, near: int, kind: int, instances: Instances) -> int:
        """Words that enter the tiles of level `child` through chosen instances of level `near`, shared ones once."""
        key = (operand.index, child)
        if key not in self.terms:
            self.terms[key] = self._entering_terms(operand, child)
        words = 0
        for number, factors in self.terms[key]:
            product = number
            for method, dim, place, factor in factors:
                choice = self._choice(dim, factor > 0, child, near, kind, instances)
                if method == _VISITS:
                    product *= self.sums[dim].visits(child, place, factor, choice)
                elif method == _RESTING:
                    product *= self.sums[dim].resting(child, place, factor, choice)
                else:
                    product *= self.sums[dim].steps_of(child, place, choice)
                if not product:
                    break
            words += product
        return words * self._window_groups(operand, child, near, kind, instances)

    def moves(self, operand: Operand, child: int) -> int:
        """Steps that move the tile of the first instance of a level, the first one included: boxes of one word."""
        points = replace(operand, alone=dict.fromkeys(operand.alone, 0))
        tiles = 0
        for number, factors in self._entering_terms(points, child, one_word=True):
            for method, dim, place, factor in factors:
                sums, choice = self.sums[dim], self._choice(dim, True, child, child, DOWN, FIRST)
                if method == _VISITS:
                    number *= sums.visits(child, place, factor, choice)
                elif method == _RESTING:
                    number *= sums.resting(child, place, factor, choice)
                else:
                    number *= sums.steps_of(child, place, choice)
            tiles += number
        return tiles

    def seen(self, operand: Operand, child: int, near: int, instances: Instances) -> int:
        """Different words that pass through each chosen instance of level `near` in tiles of level `child`."""
        words = self._seen_windows(operand, child, near) * self._windowed_instances(operand, near, instances)
        return words * self._seen_alone(operand, child, near, HELD, instances)

    def seen_below(self, operand: Operand, child: int, near: int, kind: int, instances: Instances) -> int:
        """Different words in each tile of level `child` below chosen instances of level `near`, shared ones once."""
        words = self._seen_windows(operand, child, child) * self._window_groups(operand, child, near, kind, instances)
        return words * self._seen_alone(operand, child, near, kind, instances)

    def _seen_alone(self, operand: Operand, child: int, near: int, kind: int, instances: Instances) -> int:
        words = 1
        for dim, factor in operand.alone.items():
            choice = self._choice(dim, True, child, near, kind, instances)
            words *= self.sums[dim].visits(child, ALL_STEPS, factor, choice)
        for dim in operand.other:
            choice = self._choice(dim, False, child, near, kind, instances)
            words *= self.sums[dim].visits(child, -1, 0, choice)
        return words

    def groups(self, operand: Operand, level: int, kind: int) -> int:
        """Children below one instance whose words are distinct, where all act."""
        shares = self.shares[kind][level]
        count = self._window_groups_at(operand, level, kind)
        for dim, bound, axis in self.space[level]:
            if dim in operand.alone or (dim in operand.other and not shares[axis]):
                count *= bound
        return count

    def _choice(self, dim: str, relevant: bool, child: int, near: int, kind: int, instances: Instances) -> Choice:
        """Indices to count on each spatial loop of a dimension: one where those inside `near` share."""
        outer = instances if isinstance(instances, int) else instances[dim]
        key = (dim, relevant, child, near, kind, outer)
        if key not in self.choices:
            shares = self.shares[kind]
            self.choices[key] = tuple(
                (outer if isinstance(outer, int) else outer[i])
                if loop.level < near
                else FIRST
                if not relevant and shares[loop.level][loop.axis]
                else ALL
                for i, loop in enumerate(self.sums[dim].outside(child).space)
            )
        return self.choices[key]

    def _entering_terms(self, operand: Operand, child: int, *, one_word: bool = False) -> list[_Term]:
        """Words that enter a tile: a box for each step of the loops down to the innermost that moves it, less savings.

        Nothing enters where that loop and the others that move the tile make one iteration below a loop that does not;
        less does where a window keeps its halo. With `one_word` boxes along windows are of one word.
        """
        outside = [loop for loop in self.time if loop.level < child]
        windowed = math.prod(loop.bound for loop in outside if loop.dim in operand.window_dims)
        if child == self.levels:
            dims = [*operand.alone.items(), *((dim, 0) for dim in operand.other)]
            return [_Term(windowed, [(_VISITS, dim, ALL_STEPS, factor) for dim, factor in dims])]
        moving = [loop.place for loop in outside if loop.dim not in operand.other]
        innermost = moving[-1] if moving else -1
        box = 1 if one_word else self._window_box(operand, child)
        whole = [(_VISITS, dim, ALL_STEPS, factor) for dim, factor in operand.alone.items()]
        terms = [_Term(windowed * box, whole + [(_VISITS, dim, innermost, 0) for dim in operand.other])]
        saved = dict(self._window_savings(operand, child, outside, one_word=one_word))
        for loop in reversed(outside):
            if loop.place > innermost:
                continue
            if loop.dim in operand.alone:
                if not self.sums[loop.dim].imperfect:
                    break
                continue
            resting = [(_RESTING, dim, loop.place, factor) for dim, factor in operand.alone.items()]
            if loop.dim in operand.window_dims:
                if saved[loop.place]:
                    others = [(_VISITS, dim, loop.place, 0) for dim in operand.other]
                    terms.append(_Term(-saved[loop.place], resting + others))
            elif not any(inner.place > loop.place and inner.dim in operand.window_dims for inner in outside):
                others = [(_STEPS_OF if dim == loop.dim else _VISITS, dim, loop.place, 0) for dim in operand.other]
                terms.append(_Term(-windowed * box, resting + others))
        return terms

    def _window_savings(
        self, operand: Operand, child: int, outside: list[_Time], *, one_word: bool
    ) -> Iterator[tuple[int, int]]:
        """Words saved in all steps of each loop over a dimension of a window, by its place; see model/windows.py."""
        box, back, first, new, same = 1 if one_word else self._window_box(operand, child), 0, 0, 0, True
        rank: tuple[tuple[str, int], ...] = ()
        loops = [loop for loop in outside if loop.dim in operand.window_dims]
        for i in range(len(loops) - 1, -1, -1):
            loop = loops[i]
            own = next(r for r in operand.windows if loop.dim in dict(r))
            step = dict(own)[loop.dim] * loop.step
            steps = (loop.bound - 1) * math.prod(outer.bound for outer in loops[:i])
            if not rank:
                rank, first = own, step
                spans = ((factor, self.sums[dim].outside(child).span) for dim, factor in rank)
                extent = 1 if one_word else 1 + sum(factor * (span - 1) for factor, span in spans)
                new = box // extent * min(extent, step)
            same = same and own == rank
            if not same:
                yield loop.place, 0
            elif i == len(loops) - 1 or step == back + first:
                yield loop.place, steps * (box - new)
            else:
                yield loop.place, steps * box if step == back else 0
            back += (loop.bound - 1) * step

    def _window_box(self, operand: Operand, level: int) -> int:
        """Words of a tile along the ranks of several dimensions."""
        words = 1
        for rank in operand.windows:
            words *= 1 + sum(factor * (self.sums[dim].outside(level).span - 1) for dim, factor in rank)
        return words

    def _windowed_instances(self, operand: Operand, near: int, instances: Instances) -> int:
        """Chosen instances of a level, as far as the dimensions of windows tell them apart."""
        if instances != ALL or not operand.windows:
            return 1
        spread = itertools.chain.from_iterable(self.space[:near])
        return math.prod(bound for dim, bound, _ in spread if dim in operand.window_dims)

    def _window_groups(self, operand: Operand, child: int, near: int, kind: int, instances: Instances) -> int:
        """Tiles of level `child` below the chosen instances that the dimensions of windows make distinct."""
        count = self._windowed_instances(operand, near, instances)
        for network in range(near, child):
            count *= self._window_groups_at(operand, network, kind)
        return count

    def _window_groups_at(self, operand: Operand, network: int, kind: int) -> int:
        if not operand.windows or not self.space[network]:
            return 1
        key = (operand.index, network, kind)
        if key not in self.grouped:
            shares, count = self.shares[kind][network], 1
            for rank in operand.windows:
                reached = 1
                for dim, factor in rank:
                    step = factor * self.sums[dim].outside(network + 1).span
                    for _, bound, axis in (spread for spread in self.space[network] if spread[0] == dim):
                        if shares[axis]:
                            reached = _reach(reached, step, bound)
                        else:
                            count *= bound
                        step *= bound
                count *= reached.bit_count()
            self.grouped[key] = count
        return self.grouped[key]

    def _seen_windows(self, operand: Operand, child: int, near: int) -> int:
        """Different words along the ranks of several dimensions that tiles ever hold, below one instance of `near`."""
        words = 1
        for rank in operand.windows:
            tiles = {dim: self.sums[dim].outside(child) for dim, _ in rank}
            reached = (1 << 1 + sum(factor * (tiles[dim].span - 1) for dim, factor in rank)) - 1
            for dim, factor in rank:
                step = factor * tiles[dim].span
                for loop in reversed(tiles[dim].loops):
                    if not loop.axis or loop.level >= near:
                        reached = _reach(reached, step, loop.bound)
                    step *= loop.bound
            words *= reached.bit_count()
        return words


def _reach(reached: int, step: int, count: int) -> int:
    """Positions, as bits, that 0 to count-1 steps lead to from some of those reached."""
    found = 0
    for k in range(count):
        found |= reached << k * step
    return found
