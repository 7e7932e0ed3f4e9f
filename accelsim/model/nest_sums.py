"""Sums over the nest of a mapping with imperfect factors, in closed form; docs/papers/cost-model.md, section 10.

Words that enter a tile are a sum of products with one factor for each dimension, and so are sums over instances: these
differ in how the remainders hit them. Dimensions that share a rank leave no remainder; model/windows.py has their part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.workload import Tensor
from accelsim.model.detail import SPREAD, Detail
from accelsim.model.encode import Encoded, Ints
from accelsim.model.kernel import box_words
from accelsim.model.windows import distinct, seen_windows

ALL, FIRST = -1, 0
"""Which indices of a spatial loop are counted: all, or one by its number."""
Choice = tuple[int, ...]
"""For each spatial loop outside a tile, outermost first, which indices are counted."""
Instances = int | Mapping[str, Choice]
"""Instances of a level: `ALL`, the `FIRST`, or one of each class, by dimension."""
DOWN, UP, HELD = range(3)
"""What instances share: words read (multicast), words updated (spatial reduction), or all that they hold alike."""
_VISITS, _STEPS_OF, _RESTING = range(3)
"""What is summed for a dimension; see `DimSums.sum`."""
_ALL_STEPS = 10**9


class DimLoop(NamedTuple):
    """A loop of bound > 1 over one dimension."""

    place: int  # number among all loops of the nest, outermost first
    dim: str  # the dimension
    bound: int  # bound of the loop
    level: int  # level that owns the loop
    axis: int  # 0 in time, 1 along x, 2 along y
    step: int  # positions that one iteration covers


class _Outside(NamedTuple):
    """Loops over one dimension outside the tiles of a level."""

    loops: tuple[DimLoop, ...]  # all loops, outermost first
    space: tuple[DimLoop, ...]  # spatial loops alone, outermost first
    span: int  # positions that a whole tile covers


class DimSums:
    """The loops of bound > 1 over one dimension, and sums over what lies outside a tile; each is worked out once.

    `loops`: place, dimension, bound, level and axis of each, outermost first.
    """

    def __init__(self, bound: int, loops: Sequence[tuple[int, str, int, int, int]]) -> None:
        self.bound = bound
        found, span = list[DimLoop](), 1
        for loop in reversed(loops):
            found.append(DimLoop(*loop, span))
            span *= loop[2]
        self.loops = tuple(reversed(found))
        self.imperfect = span > bound
        self._tiles_of: dict[int, _Outside] = {}
        self._known: dict[tuple[int, int, int, int, Choice], int] = {}

    def outside(self, level: int) -> _Outside:
        """The loops outside the tiles of a level, and the extents of these."""
        if level not in self._tiles_of:
            loops = tuple(loop for loop in self.loops if loop.level < level)
            span = math.prod(loop.bound for loop in self.loops[len(loops) :])
            self._tiles_of[level] = _Outside(loops, tuple(loop for loop in loops if loop.axis), span)
        return self._tiles_of[level]

    def sum(self, kind: int, level: int, place: int, factor: int, choice: Choice) -> int:
        """Sum over the steps of the temporal loops up to a place of the nest, all inside at their first iteration.

        `kind`: of all steps; of those beyond the first iterations of the loop at this place; or of those in which the
        loops inside make one iteration. `level`: of the tiles. `factor`: 0 counts steps; else the sum is of the tile's
        extent [words] along its rank, with this coefficient. `choice`: instances over which the sum goes.
        """
        key = (kind, level, place, factor, choice)
        if key not in self._known:
            tiles, covered = self._tiles(level, place, choice, self.bound)
            inside = [loop.step for loop in self.outside(level).loops if not loop.axis and loop.place > place]
            if kind == _STEPS_OF:
                tiles -= self._tiles(level, place - 1, choice, self.bound)[0]
            elif kind == _RESTING and inside:  # not those that have another step of the innermost loop
                more, _ = self._tiles(level, place, choice, self.bound - inside[-1])
                tiles, covered = tiles - more, covered - more * self.outside(level).span
            self._known[key] = factor * covered - (factor - 1) * tiles if factor else tiles
        return self._known[key]

    def _tiles(self, level: int, place: int, choice: Choice, bound: int) -> tuple[int, int]:
        """Tiles that begin before a bound, and positions before it that they cover.

        Followed from the outermost loop inwards, iterations before the last one that begins there are whole; so all
        loops inside are free in these, and only the last one has to be followed further.
        """
        if bound <= 0:
            return 0, 0
        loops, _, span = self.outside(level)
        which = iter(choice)
        indices = [next(which) if loop.axis else ALL if loop.place <= place else 0 for loop in loops]
        many = math.prod(loop.bound for loop, index in zip(loops, indices, strict=True) if index == ALL)
        tiles, rest = 0, bound
        for loop, index in zip(loops, indices, strict=True):
            if index == ALL:
                many //= loop.bound
                whole = (rest - 1) // loop.step
                tiles, rest = tiles + whole * many, rest - whole * loop.step
                continue
            rest = min(rest - index * loop.step, loop.step)
            if rest <= 0:
                return tiles, tiles * span
        return tiles + 1, tiles * span + rest

    def classes(self, level: int) -> list[tuple[Choice, int]]:
        """Instances of a level by how the loops treat them: an instance of each class, and how many there are.

        What counts is the first spatial loop whose index is not that of the last position.
        """
        space = self.outside(level).space
        if not self.imperfect:
            return [((FIRST,) * len(space), math.prod(loop.bound for loop in space))]
        last = [(self.bound - 1) // loop.step % loop.bound for loop in space]
        found = [(tuple(last), 1)]
        for i, loop in enumerate(space):
            rest, after = math.prod(inner.bound for inner in space[i + 1 :]), (FIRST,) * (len(space) - i - 1)
            found.append(((*last[:i], FIRST, *after), last[i] * rest))
            found.append(((*last[:i], loop.bound - 1, *after), (loop.bound - 1 - last[i]) * rest))
        return [(choice, size) for choice, size in found if size]


_dim_sums = lru_cache(maxsize=4096)(DimSums)
"""Most mappings of a layer have loops over a dimension that others have, too."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor by its dimensions of bound > 1: alone in a rank (with coefficient), in none, and ranks of several."""

    index: int
    tensor: Tensor
    alone: dict[str, int]
    other: tuple[str, ...]
    windows: tuple[tuple[tuple[str, int], ...], ...]
    window_dims: frozenset[str]


@lru_cache(maxsize=1024)
def operand_of(index: int, tensor: Tensor, dims: tuple[str, ...]) -> Operand:
    """Sort the dimensions of a tensor, given those of bound > 1."""
    ranks = [tuple((dim, factor) for dim, factor in rank if dim in dims) for rank in tensor.ranks]
    return Operand(
        index,
        tensor,
        dict(rank[0] for rank in ranks if len(rank) == 1),
        tuple(dim for dim in dims if dim not in tensor.dims),
        tuple(rank for rank in ranks if len(rank) > 1),
        frozenset(dim for rank in ranks if len(rank) > 1 for dim, _ in rank),
    )


class _Term(NamedTuple):
    """A product: a number, times a sum over each dimension."""

    number: int
    """The number."""
    factors: list[tuple[int, str, int, int]]
    """Kind, dimension, place and coefficient of each sum, as `DimSums.sum` takes them."""


class NestSums:
    """Sums over the nest of one mapping.

    `bounds_of`: int64[L, D] of its loops in time, along x and along y. `s`: with the places of its tiles.
    """

    def __init__(self, encoded: Encoded, mapping: LoopNest, bounds_of: tuple[Ints, Ints, Ints], s: Detail) -> None:
        self.encoded, self.levels, self.bounds, self.s = encoded, len(mapping.levels), bounds_of, s
        found: dict[str, list[tuple[int, str, int, int, int]]] = {dim: [] for dim in encoded.dims}
        places = itertools.count()
        for index, level in enumerate(mapping.levels):
            for axis, loops in enumerate((level.temporal, level.x, level.y)):
                for loop in loops:
                    if loop.bound > 1:
                        found[loop.dim].append((next(places), loop.dim, loop.bound, index, axis))
        self.sums = {dim: _dim_sums(encoded.einsum.dims[dim], tuple(of_dim)) for dim, of_dim in found.items()}
        self.time = sorted(loop for sums in self.sums.values() for loop in sums.loops if not loop.axis)
        self.terms: dict[tuple[int, int, bool], list[_Term]] = {}
        self.choices: dict[tuple[int, str, bool, int, int, int, int | Choice], Choice] = {}
        self.entered: dict[tuple[int, int, int, int, int, bool], int] = {}
        self.grouped: dict[tuple[int, int, int], int] = {}
        self.windows: dict[int, tuple[Ints, Ints, Ints, Detail]] = {}

    @property
    def steps(self) -> int:
        """Steps of all temporal loops in which a compute unit acts: those of the first one."""
        count = 1
        for dim, sums in self.sums.items():
            choice = self._choice(-1, dim, True, self.levels, self.levels, 0, FIRST)
            count *= sums.sum(_VISITS, self.levels, _ALL_STEPS, 0, choice)
        return count

    def entering(
        self, operand: Operand, child: int, near: int, kind: int, instances: Instances, *, one_word: bool = False
    ) -> int:
        """Words that enter the tiles of level `child` through chosen instances of level `near`, shared ones once.

        With `one_word` each tile counts as one word: these are the steps that move it, the first one included.
        """
        if not isinstance(instances, int):
            return self._entering(operand, child, near, kind, instances, one_word=one_word)
        key = (operand.index, child, near, kind, instances, one_word)
        if key not in self.entered:
            self.entered[key] = self._entering(operand, child, near, kind, instances, one_word=one_word)
        return self.entered[key]

    def _entering(
        self, operand: Operand, child: int, near: int, kind: int, instances: Instances, *, one_word: bool
    ) -> int:
        key = (operand.index, child, one_word)
        if key not in self.terms:
            terms = self._entering_terms(operand, child, one_word=one_word)
            self.terms[key] = [self._of_spread_dims(term, child) for term in terms]
        words = 0
        for number, factors in self.terms[key]:
            product = number
            for method, dim, place, factor in factors:
                choice = self._choice(operand.index, dim, factor > 0, child, near, kind, instances)
                product *= self.sums[dim].sum(method, child, place, factor, choice)
                if not product:
                    break
            words += product
        return words * self._window_groups(operand, child, near, kind, instances)

    def _of_spread_dims(self, term: _Term, child: int) -> _Term:
        """The same over dimensions with spatial loops outside a level: the others count alike everywhere."""
        number, left = term.number, []
        for method, dim, place, factor in term.factors:
            if self.sums[dim].outside(child).space:
                left.append((method, dim, place, factor))
            else:
                number *= self.sums[dim].sum(method, child, place, factor, ())
        return _Term(number, left if number else [])

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
            choice = self._choice(operand.index, dim, True, child, near, kind, instances)
            words *= self.sums[dim].sum(_VISITS, child, _ALL_STEPS, factor, choice)
        for dim in operand.other:
            choice = self._choice(operand.index, dim, False, child, near, kind, instances)
            words *= self.sums[dim].sum(_VISITS, child, -1, 0, choice)
        return words

    def _choice(
        self, t: int, dim: str, relevant: bool, child: int, near: int, kind: int, instances: Instances
    ) -> Choice:
        """Indices to count on each spatial loop of a dimension: one where those inside `near` share."""
        space = self.sums[dim].outside(child).space
        if not space:
            return ()
        outer = instances if isinstance(instances, int) else instances[dim]
        key = (t, dim, relevant, child, near, kind, outer)
        if key not in self.choices:
            self.choices[key] = tuple(
                (outer if isinstance(outer, int) else outer[i])
                if loop.level < near
                else FIRST
                if not relevant and self._shares(kind, loop.level, t)[loop.axis - 1]
                else ALL
                for i, loop in enumerate(space)
            )
        return self.choices[key]

    def _shares(self, kind: int, network: int, t: int) -> tuple[bool, bool]:
        """Whether the children of a network share words of a tensor, along x and along y."""
        c = self.encoded.constants
        x, y = (True, True) if kind == HELD else c.reduction[network] if kind == UP else c.multicast[network, :, t]
        return bool(x), bool(y)

    def _entering_terms(self, operand: Operand, child: int, *, one_word: bool) -> list[_Term]:
        """Words that enter a tile: a box for each step of the loops down to the innermost that moves it, less savings.

        Nothing enters where that loop and the others that move the tile make one iteration below a loop that does not;
        less does where a window keeps its halo.
        """
        if one_word:
            operand = replace(operand, alone=dict.fromkeys(operand.alone, 0))
        outside = [loop for loop in self.time if loop.level < child]
        windowed = math.prod(loop.bound for loop in outside if loop.dim in operand.window_dims)
        if child == self.levels:
            dims = [*operand.alone.items(), *((dim, 0) for dim in operand.other)]
            return [_Term(windowed, [(_VISITS, dim, _ALL_STEPS, factor) for dim, factor in dims])]
        moving = [loop.place for loop in outside if loop.dim not in operand.other]
        innermost = moving[-1] if moving else -1
        box = 1 if one_word else self._window_box(operand, child)
        whole = [(_VISITS, dim, _ALL_STEPS, factor) for dim, factor in operand.alone.items()]
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
        self, operand: Operand, child: int, outside: list[DimLoop], *, one_word: bool
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

    def _only_windows(self, operand: Operand) -> tuple[Ints, Ints, Ints, Detail]:
        """Loops in time, along x and along y, and tiles, as if only the dimensions of windows had any."""
        if operand.index not in self.windows:
            windowed = np.array([dim in operand.window_dims for dim in self.encoded.dims])
            temporal, x, y = (np.where(windowed, bounds, 1) for bounds in self.bounds)
            place = np.where(windowed[:, None], self.s.place, 1)
            self.windows[operand.index] = temporal, x, y, self.s._replace(place=place)
        return self.windows[operand.index]

    def _window_box(self, operand: Operand, level: int) -> int:
        """Words of a tile along the ranks of several dimensions."""
        if not operand.windows:
            return 1
        *_, s = self._only_windows(operand)
        return int(box_words.lazily(self.encoded.constants, s, level, operand.index))

    def _windowed_instances(self, operand: Operand, near: int, instances: Instances) -> int:
        """Chosen instances of a level, as far as the dimensions of windows tell them apart."""
        if instances != ALL or not operand.windows:
            return 1
        *_, s = self._only_windows(operand)
        return int(s.place[:near, :, SPREAD].prod())

    def _window_groups(self, operand: Operand, child: int, near: int, kind: int, instances: Instances) -> int:
        """Tiles of level `child` below the chosen instances that the dimensions of windows make distinct."""
        if not operand.windows:
            return 1
        count = self._windowed_instances(operand, near, instances)
        for network in range(near, child):
            count *= self._window_groups_at(operand, network, kind)
        return count

    def _window_groups_at(self, operand: Operand, network: int, kind: int) -> int:
        key = (operand.index, network, kind)
        if key not in self.grouped:
            _, x, y, s = self._only_windows(operand)
            shares = self._shares(kind, network, operand.index)
            self.grouped[key] = int(distinct.lazily(self.encoded.constants, s, x, y, network, operand.index, *shares))
        return self.grouped[key]

    def _seen_windows(self, operand: Operand, child: int, near: int) -> int:
        """Different words along the ranks of several dimensions that tiles ever hold, below one instance of `near`."""
        if not operand.windows:
            return 1
        temporal, _, _, s = self._only_windows(operand)
        return int(seen_windows(self.encoded.constants, temporal, s, child, near, operand.index))
