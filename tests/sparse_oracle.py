"""What zeros save, by execution: draw masks, walk the loops of a mapping, and look at each word. Slow on purpose.

No formula and no helper of `accelsim.model.sparsity` stands here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from accelsim.inputs.mapping import LevelMapping
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.sparsity import RankFormat
from accelsim.inputs.workload import Einsum, Tensor

Mask = NDArray[np.bool_]
Place = dict[str, int]


def draw(einsum: Einsum, random: np.random.Generator) -> dict[str, Mask]:
    """A mask of each tensor: so many places of a uniform density, or all."""
    masks = {}
    for tensor in einsum.tensors:
        shape = tensor.box(einsum.dims)
        words = math.prod(shape)
        share = getattr(tensor.density, "density", 1)
        chosen = random.choice(words, math.ceil(share * words), replace=False)
        masks[tensor.name] = np.isin(np.arange(words), chosen).reshape(shape)
    return masks


def _loops(mapping: LoopNest) -> list[tuple[str, int, int, bool]]:
    """Loops, outermost first: dimension, bound, level, in space."""
    found = []
    for index, level in enumerate(mapping.levels):
        found += [(loop.dim, loop.bound, index, False) for loop in level.temporal]
        found += [(loop.dim, loop.bound, index, True) for loop in (*level.y, *level.x)]
    return found


def _points(loops: Sequence[tuple[str, int, int, bool]]) -> Iterator[tuple[tuple[int, ...], Place]]:
    """Indices of all loops, in order, with the place of each dimension."""
    for indices in itertools.product(*(range(bound) for _, bound, _, _ in loops)):
        place: Place = {}
        for (dim, bound, _, _), index in zip(loops, indices, strict=True):
            place[dim] = place.get(dim, 0) * bound + index
        yield indices, place


def _at(tensor: Tensor, place: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sum(factor * place[dim] for dim, factor in rank) for rank in tensor.ranks)


def _keeper(levels: Sequence[LevelMapping], tensor: Tensor, start: int, step: int) -> int:
    index = start
    while 0 <= index < len(levels) and tensor.name not in levels[index].keep:
        index += step
    return index


def saved_shares(
    einsum: Einsum,
    mapping: LoopNest,
    drawn: Sequence[Mapping[str, Mask]],
    level: int,
    target: str,
    leaders: Sequence[str],
) -> list[float]:
    """Share of the words read of a target at a level that no word of a leader needs, for each draw of masks.

    Words come to the next level tile by tile. A tile stays until a loop in time moves it, and instances whose tiles are
    equal share it; it is needed if, for each leader, a point of the nest in this stay has a word that is not zero.
    """
    tensors = {tensor.name: tensor for tensor in einsum.tensors}
    follower, loops = tensors[target], _loops(mapping)
    child = _keeper(mapping.levels, follower, level + 1, 1)
    stays: dict[tuple[object, ...], list[list[tuple[int, ...]]]] = {}
    for indices, place in _points(loops):
        outer = [i for i, loop in enumerate(loops) if loop[2] < child]
        moving = [i for i in outer if loops[i][0] in follower.dims]
        tile = tuple(indices[i] for i in moving)  # the same tile, in whichever instance
        who = tuple(indices[i] for i in outer if loops[i][3] and (loops[i][0] in follower.dims or loops[i][2] < level))
        time = tuple(indices[i] for i in outer if not loops[i][3] and loops[i][2] < child)
        if child == len(mapping.levels):  # nothing stays in a compute unit
            key: tuple[object, ...] = (tile, who, time)
        else:
            key = (tile, who, _stay(loops, indices, outer, moving, level))
        stays.setdefault(key, []).append([_at(tensors[name], place) for name in leaders])
    found = []
    for masks in drawn:
        needed = sum(
            all(any(masks[name][words[at]] for words in points) for at, name in enumerate(leaders))
            for points in stays.values()
        )
        found.append(1.0 - needed / len(stays))
    return found


def _stay(
    loops: Sequence[tuple[str, int, int, bool]],
    indices: Sequence[int],
    outer: Sequence[int],
    moving: Sequence[int],
    level: int,
) -> tuple[int, ...]:
    """Which stay of a tile this is: indices of all loops in time outside the innermost that moves it."""
    in_time = [i for i in moving if not loops[i][3] and loops[i][2] >= level]
    end = max(in_time) if in_time else -1
    return tuple(indices[i] for i in outer if not loops[i][3] and (i <= end or loops[i][2] < level))


def encoded_units(mask: Mask, ranks: Sequence[RankFormat]) -> list[tuple[int, int]]:
    """Metadata units and payloads of a tile whose axes are its ranks, the lowest rank first, by writing it out."""
    found = []
    fibers: list[Mask] = [mask]
    for depth, rank in enumerate(ranks):
        lowest, units, payloads, below = depth == len(ranks) - 1, 0, 0, []
        for fiber in fibers:
            children = [fiber[i] for i in range(fiber.shape[0])]
            filled = [child for child in children if np.any(child)]
            if rank.format == "UOP":
                payloads += len(children) + 1
            elif rank.format in ("B", "UB"):
                units += len(children)
                payloads += len(filled) if rank.format == "B" else len(children)
            elif rank.format in ("CP", "RLE"):
                units += len(filled)
                payloads += len(filled)
            below += filled if rank.format in ("B", "CP", "RLE") else children
        found.append((units, 0 if lowest else payloads))
        fibers = below
    return found[::-1]


def computes(einsum: Einsum, masks: Mapping[str, Mask]) -> dict[int, int]:
    """Multiply-accumulates by the number of operands that are zero."""
    operands = [tensor for tensor in einsum.tensors if not tensor.output]
    found: dict[int, int] = {}
    for indices in itertools.product(*map(range, einsum.dims.values())):
        place = dict(zip(einsum.dims, indices, strict=True))
        zero = sum(not masks[tensor.name][_at(tensor, place)] for tensor in operands)
        found[zero] = found.get(zero, 0) + 1
    return found
