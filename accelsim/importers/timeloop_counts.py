"""Counts of windowed inputs as Timeloop finds them where they are not those of the whole execution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from accelsim.inputs.mapping import Mapping, products
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.result import Result

TWO_ITERATIONS = "two iterations of each loop"
"""Counts as Timeloop's default finds them, which does not execute a whole loop."""
_Vector = tuple[int, ...]
"""How far a step moves a tile along each rank."""


def default_counts(
    einsum: Einsum, mapping: Mapping, result: Result, words: Callable[[Mapping, Tensor, int], int] | None = None
) -> dict[tuple[str, str], list[int]]:
    """Counts of windowed inputs as Timeloop's default finds them, which visits only iterations 0 and 1 of each loop.

    Where an outer loop steps on, the loops inside it are then seen to wrap from iteration 1, not from their last one;
    so the step vector there differs from the real one where two loops move the same rank (its README, rule 6).
    Another count of the words into a tile, such as `whole_tiles`, may stand in for that.
    """
    words = words or _default_words
    found = {}
    exact = {(t.level, t.tensor): t for t in result.tensors}
    distinct = {(n.level, n.tensor): n.distinct for n in result.networks}
    names = [level.level for level in result.levels]
    for tensor in einsum.tensors:
        if tensor.output or all(len(rank) == 1 for rank in tensor.ranks):
            continue
        kept = [index for index, name in enumerate(names) if (name, tensor.name) in exact]
        into = {index: words(mapping, tensor, index) for index in kept[1:]}
        for index, child in zip(kept, [*kept[1:], None], strict=True):
            counts = exact[names[index], tensor.name]
            reads = counts.reads
            if child is not None:
                reads = into[child] * math.prod(distinct[names[k], tensor.name] for k in range(index, child))
            found[names[index], tensor.name] = [
                counts.tile_words, reads, into.get(index, 0), 0, result.levels[index].used_instances,
            ]  # fmt: skip
    return found


def whole_tiles(mapping: Mapping, tensor: Tensor, level: int) -> int:
    """Words into a tile if each tile is fetched as a whole, though the loop that moves it leaves a halo in place."""
    inside = products(loop for mapped in mapping.levels[level:] for loop in mapped.loops)
    loops = [loop for mapped in mapping.levels[:level] for loop in mapped.temporal if loop.bound > 1]
    while loops and loops[-1].dim not in tensor.dims:
        loops.pop()
    box = tensor.box({dim: inside.get(dim, 1) for dim in tensor.dims})
    return math.prod(box) * math.prod(loop.bound for loop in loops)


def _default_words(mapping: Mapping, tensor: Tensor, level: int) -> int:
    """Words into a tile if of each loop only the iterations 0 and 1 are visited, and 1 stands for all later ones."""
    inside: dict[str, int] = {}
    outside: list[tuple[str, int, int]] = []  # innermost first: dimension, bound, step
    for index in range(len(mapping.levels) - 1, -1, -1):
        mapped = mapping.levels[index]
        for loop in (*mapped.y, *mapped.x):
            inside[loop.dim] = inside.get(loop.dim, 1) * loop.bound
        for loop in reversed(mapped.temporal):
            if index < level and loop.bound > 1:
                outside.append((loop.dim, loop.bound, inside.get(loop.dim, 1)))
            inside[loop.dim] = inside.get(loop.dim, 1) * loop.bound
        if index == level:
            box = tensor.box({dim: inside.get(dim, 1) for dim in tensor.dims})
    rank_of = {dim: (r, factor) for r, rank in enumerate(tensor.ranks) for dim, factor in rank}
    vectors, wrap = [], (0,) * len(box)
    for dim, _, step in outside:
        forward = [0] * len(box)
        if dim in rank_of:
            forward[rank_of[dim][0]] = rank_of[dim][1] * step
        vectors.append(tuple(f - w for f, w in zip(forward, wrap, strict=True)))
        wrap = tuple(f + w for f, w in zip(forward, wrap, strict=True))

    @cache
    def visit(loops: int, remembered: _Vector | None) -> tuple[int, _Vector | None]:
        """Words that the steps of the innermost loops bring, and the vector that is remembered after them."""
        if not loops:
            return 0, remembered
        first, remembered = visit(loops - 1, remembered)
        step, remembered = _words_of_step(box, vectors[loops - 1], remembered)
        second, remembered = visit(loops - 1, remembered)
        return first + (outside[loops - 1][1] - 1) * (step + second), remembered

    return math.prod(box) + visit(len(outside), None)[0]


def _words_of_step(box: Sequence[int], vector: _Vector, remembered: _Vector | None) -> tuple[int, _Vector | None]:
    """Words that a step of a tile brings, and the vector that is remembered after it (its README, rule 5)."""
    moved = [r for r, far in enumerate(vector) if far]
    if not moved:
        return 0, remembered
    whole = math.prod(box)
    if remembered not in (None, vector):
        return whole, None
    r = moved[0]
    return (whole // box[r] * min(box[r], abs(vector[r])) if len(moved) == 1 else whole), vector
