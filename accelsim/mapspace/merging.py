"""Smaller map spaces that hold a best mapping: dimensions that are one, or run outside all others.

docs/papers/exact-mapper.md, Lemmas 7 and 8, has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import replace

from accelsim.inputs.constraints import LevelConstraint
from accelsim.inputs.divisors import divisors
from accelsim.inputs.mapping import Loop, Mapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import PE, encode


def merged(space: MapSpace) -> MapSpace:
    """The space in which dimensions that move the same tensors, each in a rank of its own, are one dimension.

    It has the name of the first of them. `split` leads back. Dimensions that move all tensors have temporal loops at
    the outermost level alone. The space itself where there are none of both, or where loops over each of them can
    differ: with constraints on loops, remainders, padding, zeros, links between neighbours, or engines and instructions
    that move tiles row by row.
    """
    groups = _alike(space)
    found = _as_one(space, groups) if groups else space
    outermost = _outermost(found)
    if outermost:
        found = MapSpace(found.encoded, space.constraints, outermost=outermost)
    if found is not space:
        found.origin, found.merged = space, groups
    return found


def _as_one(space: MapSpace, groups: dict[str, tuple[str, ...]]) -> MapSpace:
    """The space in which each of some groups of dimensions is one dimension."""
    einsum = space.encoded.einsum
    dims = {dim: math.prod(einsum.dims[each] for each in groups.get(dim, (dim,))) for dim in einsum.dims}
    gone = {dim for group in groups.values() for dim in group[1:]}
    tensors = []
    for tensor in einsum.tensors:
        left = (tuple(term for term in rank if term[0] not in gone) for rank in tensor.ranks)
        tensors.append(replace(tensor, ranks=tuple(rank for rank in left if rank)))
    dims = {dim: bound for dim, bound in dims.items() if dim not in gone}
    encoded = encode(space.encoded.architecture, replace(einsum, dims=dims, tensors=tuple(tensors)))
    return MapSpace(encoded, space.constraints)


def _outermost(space: MapSpace) -> frozenset[str]:
    """Dimensions whose temporal loops may as well be the outermost ones of all: docs/papers/exact-mapper.md, Lemma 8.

    They move all tensors, each along a rank of its own. Nothing is asked of tiles, products of loops, or places at the
    outermost level, and time depends on words alone.
    """
    c, rules = space.encoded.constants, space.constraints
    if _is_counted_by_tile(space) or c.array[PE] >= 0 or c.overlap.any() or space.fixed_places(0)[0]:
        return frozenset()
    if any(level.has_products for level in rules.levels):
        return frozenset()
    found = set()
    for d, dim in enumerate(space.encoded.dims):
        alone = ((c.rank == c.rank[:, d : d + 1]) & c.relevant).sum(axis=1) == 1
        every = frozenset(divisors(space.encoded.einsum.dims[dim]))
        first, *others = (slot for slot in space.slots if not slot.axis)
        free = space.allowed(first, dim) == every and all(space.allowed(slot, dim) in (every, {1}) for slot in others)
        free &= all(space.is_free(slot.level, dim) for slot in (first, *others))
        if alone.all() and (c.factor[:, d] == 1).all() and free:
            found.add(dim)
    return frozenset(found)


def _is_counted_by_tile(space: MapSpace) -> bool:
    """Whether costs depend on more of tiles than the words that move into them without remainders."""
    einsum, c = space.encoded.einsum, space.encoded.constants
    machine = space.encoded.architecture
    by_tile = bool(space.imperfect or einsum.unpadded or c.links.any() or c.hop.any() or c.dma.size)
    by_tile |= bool((c.windowed & (c.stationary | c.latency.any())).any())
    by_tile |= any(level.systolic is not None and level.systolic.instruction is not None for level in machine.levels)
    return by_tile or any(tensor.density for tensor in einsum.tensors)


def _alike(space: MapSpace) -> dict[str, tuple[str, ...]]:
    """Groups of dimensions that can be one, by their first."""
    einsum = space.encoded.einsum
    asked = (replace(each, keep=frozenset(), bypass=frozenset()) for each in space.constraints.levels)
    tied = any(each != LevelConstraint(each.level, layers=each.layers) for each in asked)
    if tied or _is_counted_by_tile(space):
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
