"""Sums over the iterations of one dimension whose loops may cover more than its bound.

An iteration happens if its position, whose digits are the indices of the loops, is at most the last one, `bound - 1`.
Followed from the outermost loop inwards, an index below the last position's digit sets all loops inside free, an equal
one keeps to the edge, and one above it is outside. So two numbers count all iterations: the free ones, and those at the
edge. docs/model.md, section 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

ALL, FIRST, BELOW, AT, ABOVE = range(5)
"""Which indices of a spatial loop are counted: all, 0, or one below, at or above the digit of the last position."""
Choice = tuple[int, ...]
"""For each spatial loop outside a tile, outermost first, which indices are counted."""
ALL_STEPS = 10**9


class DimLoop(NamedTuple):
    """A loop of bound > 1 over one dimension.

    `place` numbers all loops of the nest, outermost first; `digit` is that of the last position; `axis` is 0 in time,
    1 for x, 2 for y.
    """

    place: int
    bound: int
    digit: int
    level: int
    axis: int


class DimSums:
    """The loops over one dimension, and sums over what lies outside a tile; each is worked out once.

    Parameters
    ----------
    bound : int
        Bound of the dimension.
    loops : sequence of (place, bound, level, axis)
        Its loops of bound > 1, outermost first.
    """

    def __init__(self, bound: int, loops: Sequence[tuple[int, int, int, int]]) -> None:
        self.bound = bound
        found, span = [], 1
        for place, count, level, axis in reversed(loops):
            found.append(DimLoop(place, count, (bound - 1) // span % count, level, axis))
            span *= count
        self.loops = tuple(reversed(found))
        self.imperfect = span > bound
        self._tiles: dict[int, _Outside] = {}
        self._known: dict[tuple[int, int, int, int, Choice], int] = {}

    def outside(self, level: int) -> _Outside:
        """The loops outside the tiles of a level, and the extents of these."""
        if level not in self._tiles:
            loops = tuple(loop for loop in self.loops if loop.level < level)
            span = 1
            for loop in self.loops[len(loops) :]:
                span *= loop.bound
            space = tuple(loop for loop in loops if loop.axis)
            self._tiles[level] = _Outside(loops, space, span, (self.bound - 1) % span + 1)
        return self._tiles[level]

    def visits(self, level: int, place: int, factor: int, choice: Choice) -> int:
        """Sum over the steps of the temporal loops up to a place of the nest, all inside at their first iteration.

        Parameters
        ----------
        level : int
            The tiles are those of this level.
        place : int
            Innermost place that steps.
        factor : int
            0 counts steps; else the sum is of the tile's extent [words] along its rank, with this coefficient.
        choice
            Instances over which the sum goes.
        """
        key = (0, level, place, factor, choice)
        if key not in self._known:
            free, edge = self._walk(level, choice, place, -1)
            self._known[key] = self._total(level, factor, free, edge)
        return self._known[key]

    def steps_of(self, level: int, place: int, choice: Choice) -> int:
        """Count the steps that the loop at a place makes beyond its first iterations, all inside at their first."""
        key = (1, level, place, 0, choice)
        if key not in self._known:
            self._known[key] = sum(self._walk(level, choice, place, place))
        return self._known[key]

    def resting(self, level: int, place: int, factor: int, choice: Choice) -> int:
        """Sum of the extents over the steps up to a place, of those in which the loops inside make one iteration."""
        key = (2, level, place, factor, choice)
        if key not in self._known:
            self._known[key] = self._total(level, factor, *self._walk_resting(level, choice, place))
        return self._known[key]

    def _total(self, level: int, factor: int, free: int, edge: int) -> int:
        if not factor:
            return free + edge
        tile = self.outside(level)
        return free * (factor * (tile.span - 1) + 1) + edge * (factor * (tile.last - 1) + 1)

    def _walk(self, level: int, choice: Choice, place: int, stepped: int) -> tuple[int, int]:
        """Count iterations, free and at the edge; the loop at place `stepped` leaves out its first one."""
        free, edge = 0, 1
        which = iter(choice)
        for loop in self.outside(level).loops:
            if loop.axis:
                free, edge = _spread(free, edge, loop, next(which))
            elif loop.place > place:
                free, edge = _spread(free, edge, loop, FIRST)
            elif loop.place == stepped:
                free = free * (loop.bound - 1) + edge * max(0, loop.digit - 1)
                edge = edge if loop.digit else 0
            else:
                free = free * loop.bound + edge * loop.digit
        return free, edge

    def _walk_resting(self, level: int, choice: Choice, place: int) -> tuple[int, int]:
        """Count iterations that the loops inside a place do not repeat, free and at the edge.

        Inside the place, `both` counts those that go on freely and at the edge as well: two iterations, unless the edge
        turns out to be outside.
        """
        free, edge, both = 0, 1, 0
        which = iter(choice)
        for loop in self.outside(level).loops:
            if loop.axis:
                index = next(which)
                _, goes_on = _spread(0, both, loop, index)
                gone = both * (loop.bound - 1 - loop.digit if index == ALL else int(index == ABOVE))
                free, edge = _spread(free, edge, loop, index)
                free, both = free + gone, goes_on
            elif loop.place <= place:
                free = free * loop.bound + edge * loop.digit
            else:
                free, edge, both = 0, edge * (loop.digit == 0), edge * (loop.digit == 1)
        return free, edge


@dataclass(frozen=True, slots=True)
class _Outside:
    """Loops outside the tiles of a level, all and spatial ones; positions in a whole tile, and in the last one."""

    loops: tuple[DimLoop, ...]
    space: tuple[DimLoop, ...]
    span: int
    last: int


def _spread(free: int, edge: int, loop: DimLoop, index: int) -> tuple[int, int]:
    """Count on over a spatial loop, or over the first iteration of a temporal one."""
    if index == ALL:
        return free * loop.bound + edge * loop.digit, edge
    if index == FIRST:
        return (free, edge) if loop.digit == 0 else (free + edge, 0)
    if index == BELOW:
        return free + edge, 0
    return free, edge if index == AT else 0


def instance_classes(sums: DimSums, level: int) -> list[tuple[Choice, int]]:
    """Instances of a level by how the loops over one dimension treat them: a choice for each class, and its size.

    What counts is the first spatial loop whose index is not the digit of the last position.
    """
    space = sums.outside(level).space
    if not sums.imperfect:
        return [((AT,) * len(space), _product(loop.bound for loop in space))]
    classes = [((AT,) * len(space), 1)]
    for i, loop in enumerate(space):
        rest = _product(inner.bound for inner in space[i + 1 :])
        before, after = (AT,) * i, (AT,) * (len(space) - i - 1)
        classes.append(((*before, BELOW, *after), loop.digit * rest))
        classes.append(((*before, ABOVE, *after), (loop.bound - 1 - loop.digit) * rest))
    return [(choice, size) for choice, size in classes if size]


def _product(numbers: Iterable[int]) -> int:
    product = 1
    for number in numbers:
        product *= number
    return product
