"""The map spaces that one search goes through: paddings of a layer, and a machine with several storage nodes a level.

Good mappings with remainders from mappings of a padded layer, whose loops are cut down to the bounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.nodes import with_nodes
from accelsim.inputs.workload import Einsum, padded_einsums, rounded_bounds
from accelsim.mapspace.factors import least_factor
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode


class Spaces:
    """Map spaces of some paddings of an Einsum, each of even mappings first, and then of uneven ones if asked for.

    Parameters
    ----------
    architecture : Architecture
    einsums : sequence of Einsum
        The one that was given, then padded ones; of these such that the constraints leave no factors are left out.
    constraints : Constraints or None
    imperfect : frozenset of str
    uneven : bool
        Levels may keep each tensor at a storage node of its own (`inputs.nodes.with_nodes`).

    Raises
    ------
    NoValidMapping
        If the constraints leave the Einsum as given no factors.
    """

    def __init__(
        self,
        architecture: Architecture,
        einsums: Sequence[Einsum],
        constraints: Constraints | None = None,
        imperfect: frozenset[str] = frozenset(),
        *,
        uneven: bool = False,
    ) -> None:
        rules = constraints or Constraints()
        self.uneven = uneven
        self._spaces: list[MapSpace] = []
        for einsum in einsums:
            with suppress(NoValidMapping) if self._spaces else nullcontext():
                even = MapSpace(encode(architecture, einsum), rules, imperfect)
                self._spaces.append(even)
                machine = with_nodes(architecture, einsum, even.constraints) if uneven else architecture
                if machine is not architecture:
                    self._spaces.append(MapSpace(encode(machine, einsum), rules, imperfect))

    @classmethod
    def of(cls, space: MapSpace) -> Spaces:
        """One map space alone."""
        found = cls.__new__(cls)
        found.uneven, found._spaces = False, [space]
        return found

    @property
    def first(self) -> MapSpace:
        """The even space of the Einsum as it was given."""
        return self._spaces[0]

    def __len__(self) -> int:
        return len(self._spaces)

    def __iter__(self) -> Iterator[MapSpace]:
        return iter(self._spaces)

    def __getitem__(self, rows: slice) -> list[MapSpace]:
        return self._spaces[rows]

    @property
    def size(self) -> int:
        """Mappings in all of them together; even ones are among the uneven ones."""
        found = {id(space.encoded.einsum): space.size for space in self._spaces}
        return sum(found.values())


MOST_ROUNDINGS = 12
"""Roundings of the bounds that are tried, those with the fewest multiply-accumulates first."""


def rounded_spaces(space: MapSpace) -> Iterator[MapSpace]:
    """Map spaces without remainders in which some dimensions that may leave some are rounded up."""
    einsum = space.encoded.einsum
    if einsum.unpadded is not None:
        return
    bounds = {dim: rounded_bounds(einsum.dims[dim]) for dim in sorted(space.imperfect)}
    for padded in itertools.islice(padded_einsums(einsum, bounds), 1, MOST_ROUNDINGS + 1):
        with suppress(AccelsimError):  # the constraints leave no factors, or counts would be too large
            yield MapSpace(encode(space.encoded.architecture, padded), space.constraints)


def trim(mapping: Mapping, bounds: dict[str, int]) -> Mapping:
    """Cut the loops of a mapping of larger bounds down to the shortest ones for their numbers of passes.

    Examples
    --------
    >>> inner = LevelMapping("Buffer", (Loop("M", 4),), (Loop("M", 4),))
    >>> trimmed = trim(Mapping((LevelMapping("DRAM", (Loop("M", 4),)), inner)), {"M": 33})
    >>> [str(loop) for level in trimmed.levels for loop in (*level.temporal, *level.x)], sorted(trimmed.imperfect)
    (['M=3', 'M=3', 'M=4'], ['M'])
    """
    left, covered = dict(bounds), dict.fromkeys(bounds, 1)

    def cut(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        found = []
        for loop in reversed(loops):
            passes = -(-left[loop.dim] // loop.bound)
            factor = least_factor(left[loop.dim], passes)
            left[loop.dim], covered[loop.dim] = passes, covered[loop.dim] * factor
            found.append(Loop(loop.dim, factor))
        return tuple(loop for loop in reversed(found) if loop.bound > 1)

    levels: list[LevelMapping] = []
    for level in reversed(mapping.levels):
        y, x, temporal = cut(level.y), cut(level.x), cut(level.temporal)
        levels.insert(0, replace(level, temporal=temporal, x=x, y=y))
    more = frozenset(dim for dim, bound in bounds.items() if covered[dim] > bound)
    return Mapping(tuple(levels), imperfect=more)
