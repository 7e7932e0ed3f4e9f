"""Dimensions that move the same tensors searched as one: docs/exact.md, section 4."""

from __future__ import annotations

import math
from dataclasses import replace

from accelsim.inputs.constraints import LevelConstraint
from accelsim.inputs.mapping import Loop, Mapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode


def merged(space: MapSpace) -> MapSpace:
    """The space in which dimensions that move the same tensors, each in a rank of its own, are one dimension.

    It has the name of the first of them. `split` leads back. The space itself where there are none, or where loops over
    each of them can differ: with constraints on loops, remainders, padding, zeros, links between neighbours, or engines
    and instructions that move tiles row by row.
    """
    einsum, groups = space.encoded.einsum, _alike(space)
    if not groups:
        return space
    dims = {dim: math.prod(einsum.dims[each] for each in groups.get(dim, (dim,))) for dim in einsum.dims}
    gone = {dim for group in groups.values() for dim in group[1:]}
    tensors = []
    for tensor in einsum.tensors:
        left = (tuple(term for term in rank if term[0] not in gone) for rank in tensor.ranks)
        tensors.append(replace(tensor, ranks=tuple(rank for rank in left if rank)))
    dims = {dim: bound for dim, bound in dims.items() if dim not in gone}
    found = MapSpace(
        encode(space.encoded.architecture, replace(einsum, dims=dims, tensors=tuple(tensors))), space.constraints
    )
    found.origin, found.merged = space, groups
    return found


def _alike(space: MapSpace) -> dict[str, tuple[str, ...]]:
    """Groups of dimensions that can be one, by their first."""
    einsum, machine, c = space.encoded.einsum, space.encoded.architecture, space.encoded.constants
    asked = (replace(each, keep=frozenset(), bypass=frozenset()) for each in space.constraints.levels)
    tied = any(each != LevelConstraint(each.level, layers=each.layers) for each in asked)
    tied |= bool(space.imperfect or einsum.unpadded or c.links.any() or c.hop.any())
    tied |= bool((c.stationary & c.windowed).any() or c.dma.size)
    tied |= any(level.systolic is not None and level.systolic.instruction is not None for level in machine.levels)
    if tied or any(tensor.density for tensor in einsum.tensors):
        return {}
    alike: dict[object, list[str]] = {}
    for dim in space.dims:
        ranks = [rank for tensor in einsum.tensors for rank in tensor.ranks if (dim, 1) in rank]
        alone = all(einsum.dims[other] == 1 for rank in ranks for other, _ in rank if other != dim)
        moved = tuple(tensor.name for tensor in einsum.tensors if dim in tensor.dims)
        if alone and len(ranks) == len(moved):
            alike.setdefault(moved, []).append(dim)
    return {dims[0]: tuple(dims) for dims in alike.values() if len(dims) > 1}


def split(space: MapSpace, mapping: Mapping) -> Mapping:
    """A mapping of a space with merged dimensions as one of the space that this was made of, at the same costs."""
    left = dict(space.origin.encoded.einsum.dims)
    names = list(left)

    def apart(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        found = []
        for loop in loops:
            bound = loop.bound
            for dim in space.merged.get(loop.dim, (loop.dim,)):
                factor = math.gcd(bound, left[dim])
                bound, left[dim] = bound // factor, left[dim] // factor
                found.append(Loop(dim, factor))
        return tuple(loop for loop in found if loop.bound > 1)

    def on_axis(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        return tuple(sorted(apart(loops), key=lambda loop: names.index(loop.dim)))

    levels = (
        replace(level, temporal=apart(level.temporal), x=on_axis(level.x), y=on_axis(level.y))
        for level in mapping.levels
    )
    return replace(mapping, levels=tuple(levels)) if space.merged else mapping
