"""Oracle of data layouts: walks what the outermost level moves, word by word, and counts its bursts by bank."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from collections.abc import Mapping as StringMap

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.layouts import DataLayout
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


def walk_layouts(
    architecture: Architecture, einsum: Einsum, mapping: Mapping, layouts: StringMap[str, DataLayout]
) -> dict[str, tuple[int, int]]:
    """Bits of all bursts that the outermost level moves, and of those that its banks could move meanwhile, by tensor.

    Each word has a line and each line a place in the order of the ranks; so many bursts of each line as its words take.
    """
    counts = execute(architecture, einsum, mapping)
    architecture, einsum = arrange_for(architecture, mapping), pad(einsum, mapping.padding)
    outermost = architecture.levels[0]
    burst = outermost.burst_bits
    assert burst is not None
    found: dict[str, tuple[int, int]] = {}
    for tensor in einsum.tensors:
        layout = layouts[tensor.name]
        partial = holds_partial_sums(mapping, tensor, outermost.name, counts.levels[0][tensor.name])
        element = int(outermost.element_words(tensor, partial=partial)) * outermost.word_bits
        child = next((i for i, n in enumerate(mapping.levels) if i and tensor.name in n.keep), len(mapping.levels))
        bursts = busiest = 0
        for moved in _transfers(architecture, einsum, mapping, tensor, child):
            banks: Counter[int] = Counter()
            for line in {_line(einsum, tensor, layout, word) for word in moved}:
                a_line = -(-math.prod(layout.line) * element // burst)
                banks.update((line * a_line + k) % outermost.banks for k in range(a_line))
            bursts += banks.total()
            busiest += max(banks.values(), default=0)
        found[tensor.name] = bursts * burst, busiest * burst * outermost.banks
    return found


def _line(einsum: Einsum, tensor: Tensor, layout: DataLayout, word: Point) -> int:
    """Number of the line that a word lies in."""
    number = 0
    for rank in layout.order:
        lines = -(
            -(1 + sum(factor * (einsum.dims[dim] - 1) for dim, factor in tensor.ranks[rank])) // layout.line[rank]
        )
        number = number * lines + word[rank] // layout.line[rank]
    return number


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
