"""Good mappings with remainders from mappings of a padded layer, whose loops are cut down to the bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.padding import padded_einsums, rounded_bounds
from accelsim.mapspace.factors import least_factor
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode

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
