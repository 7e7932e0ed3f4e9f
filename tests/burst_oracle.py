"""Oracle of bursts: walks what the outermost level moves, word by word, and counts the bursts of each run of words."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.nodes import arrange_for
from accelsim.inputs.workload import Einsum, Tensor, pad
from accelsim.model.oracle import (
    Box,
    Coordinate,
    Point,
    Sharing,
    execute,
    holds_partial_sums,
    in_time,
    tiles_of,
    walk_tile,
)


def walk_bursts(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> dict[str, int]:
    """Bits of all bursts that the outermost level moves, by tensor.

    Words of a transfer are put in the order of their addresses; each run in a row takes bursts of its own.
    """
    counts = execute(architecture, einsum, mapping)
    architecture, einsum = arrange_for(architecture, mapping), pad(einsum, mapping.padding)
    outermost = architecture.levels[0]
    assert outermost.burst_bits is not None
    found: dict[str, int] = {}
    for tensor in einsum.tensors:
        partial = holds_partial_sums(mapping, tensor, outermost.name, counts.levels[0][tensor.name])
        element = int(outermost.element_words(tensor, partial=partial)) * outermost.word_bits
        child = next((i for i, n in enumerate(mapping.levels) if i and tensor.name in n.keep), len(mapping.levels))
        found[tensor.name] = sum(
            -(-run * element // outermost.burst_bits) * outermost.burst_bits
            for moved in _transfers(architecture, einsum, mapping, tensor, child)
            for run in _runs(einsum, tensor, moved)
        )
    return found


def _transfers(
    architecture: Architecture, einsum: Einsum, mapping: Mapping, tensor: Tensor, child: int
) -> Iterable[set[Point]]:
    """Words that all tiles take from the outermost level, or send there, in each step.

    Where tiles that do not share have words in common, each group of tiles that share has transfers of its own.
    """
    sharing = Sharing(architecture, tiles_of(einsum, mapping, tensor), 0, child)
    kind = "spatial_reduction" if tensor.output else "multicast"
    held: dict[Coordinate, Hashable] = {}
    boxes: dict[Hashable, Box] = {}
    times = in_time(walk_tile(sharing.tiles[child]))
    for step in times[0]:
        boxes[sharing.keys(step.indices, step.instance, kind)[0]] = step.box
    inside = [point for box in boxes.values() for point in itertools.product(*(range(a, b + 1) for a, b in box))]
    apart = len(inside) > len(set(inside))
    seen: set[Point] = set()
    for steps in times:
        groups: defaultdict[Hashable, set[Point]] = defaultdict(set)
        for step in steps:
            key = sharing.keys(step.indices, step.instance, kind)[0] if step.entering else None
            if not tensor.output and step.entering:
                groups[key if apart else None] |= step.entering
            if tensor.output and step.leaving:
                groups[held[step.instance] if apart else None] |= step.leaving
            if step.entering:
                held[step.instance] = key
        for moved in groups.values():
            yield moved
            if tensor.output:
                yield moved & seen
                seen |= moved


def _runs(einsum: Einsum, tensor: Tensor, moved: set[Point]) -> Iterable[int]:
    """Lengths of the runs of words side by side in a row; rows of the last rank that are whole join to longer ones."""
    inner, points = 1, moved
    for rank in reversed(tensor.ranks):
        extent = 1 + sum(factor * (einsum.dims[dim] - 1) for dim, factor in rank)
        rows: defaultdict[Point, list[int]] = defaultdict(list)
        for *row, at in sorted(points):
            rows[tuple(row)].append(at)
        if any(len(along) < extent for along in rows.values()):
            for along in rows.values():
                yield from (inner * words for words in _side_by_side(along))
            return
        inner, points = inner * extent, set(rows)
    yield from [inner] * len(points)


def _side_by_side(along: list[int]) -> Iterable[int]:
    run = 0
    for number, at in enumerate(along, 1):
        run += 1
        if number == len(along) or along[number] != at + 1:
            yield run
            run = 0
