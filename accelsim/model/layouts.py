"""Data layout at the outermost level: the lines that a tensor is stored in, and the bursts and banks that they take.

docs/papers/cost-model.md, Data layout. A transfer is what all tiles take in one step, or send back: a product of pieces
along the ranks, so its lines are counted rank by rank.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as StringMap
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accelsim.inputs.architecture import Level
from accelsim.inputs.divisors import divisors
from accelsim.inputs.layouts import DataLayout, layout_text
from accelsim.inputs.mapping import Mapping
from accelsim.model import detail
from accelsim.model.detail import Detail
from accelsim.model.encode import Encoded
from accelsim.model.result import Result, TensorAtLevel, TensorLayout, TensorOnNetwork

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
KINDS = ("given", "best", "worst")
"""Layouts that are told of each tensor."""


Places = tuple[tuple[int, int], ...]
"""Places along a rank, and how often each is taken."""


class _TileTransfers(NamedTuple):
    """Transfers of one shape: `times` one for each combination of starts along the ranks.

    `starts` are where the first tile begins along each rank, and `apart` where the tiles of all instances begin, from
    there; `box` is the extent of a tile along each rank.
    """

    times: int
    starts: tuple[Places, ...]
    apart: tuple[tuple[int, ...], ...]
    box: tuple[int, ...]

    @property
    def many(self) -> int:
        """How many there are."""
        return self.times * math.prod(sum(times for _, times in along) for along in self.starts)


def tensor_layouts(
    encoded: Encoded,
    mapping: Mapping,
    s: Detail,
    at_level: Sequence[TensorAtLevel],
    on_network: Sequence[TensorOnNetwork],
    given: StringMap[str, DataLayout],
) -> tuple[TensorLayout, ...]:
    """Bursts and bank conflicts of each tensor at the outermost level, in the layout given, the best and the worst.

    What all tiles take in a step is one transfer, unless they have words in common that the networks do not share. The
    outermost level has `burst_bits`, and no loop leaves a remainder. Left out are tensors that are compressed, an
    output with several looped dimensions in a rank, whose words may come back one by one, and windows that some
    children share and others do not.
    """
    outermost, found = encoded.architecture.levels[0], list[TensorLayout]()
    for t, tensor in enumerate(encoded.tensors):
        (at,) = (at for at in at_level if (at.level, at.tensor) == (outermost.name, tensor.name))
        if at.compression != 1 or (tensor.output and encoded.constants.windowed[t]):
            continue
        moved = _transfers(encoded, mapping, s, t, at, on_network)
        if moved is not None:
            element = int(at.storage_words(1, outermost.word_bits) * outermost.word_bits)
            full, burst = tensor.box(encoded.einsum.dims), outermost.burst_bits or 0
            bits, store = (at.reads + at.updates) * element, _StoredTensor(full, element, burst, outermost.banks, moved)
            for kind, (layout, plain, *moves) in zip(KINDS, _compare(store, given.get(tensor.name)), strict=True):
                text = layout_text(tensor, layout, full, plain=plain)
                found.append(TensorLayout(tensor.name, kind, text, bits, *moves))
    return tuple(found)


def _transfers(
    encoded: Encoded, mapping: Mapping, s: Detail, t: int, at: TensorAtLevel, on_network: Sequence[TensorOnNetwork]
) -> tuple[_TileTransfers, ...] | None:
    """What moves between the outermost level and the next one that stores a tensor; None: it is not known."""
    tensor, levels = encoded.tensors[t], len(mapping.levels)
    child = next((i for i, n in enumerate(mapping.levels) if i and tensor.name in n.keep), levels)
    inside = dict(zip(encoded.dims, s.place[child, :, detail.INSIDE].tolist(), strict=True))
    box = tensor.box(dict.fromkeys(tensor.dims, 1) | inside)
    below = {node.level for node in mapping.levels[child : child + 1]}  # its network lies inside its tiles
    names = {node.level for node in mapping.levels[:child]} - below
    crossed = [n for n in on_network if n.tensor == tensor.name and n.level in names]
    groups = math.prod(n.distinct_up if tensor.output else n.distinct for n in crossed)
    spread = tuple(_spread(encoded, s, t, child))
    apart = tuple(np.unique(along) for along in spread)
    one = (np.zeros(1, np.int64),) * len(box)
    first, each = one, 1
    if groups == math.prod(map(len, apart)):
        if any((np.diff(along) < extent).any() for along, extent in zip(apart, box, strict=True)):
            first, apart = apart, one  # tiles have words in common
    elif groups % math.prod(map(len, spread)) == 0:
        first, each, apart = spread, groups // math.prod(map(len, spread)), one
    else:
        return None
    offsets = tuple(tuple(along.tolist()) for along in apart)
    found = tuple(
        _TileTransfers(each * times, tuple(map(_places, starts, first)), offsets, part)
        for times, starts, part in _events(encoded, mapping, s, t, child, box)
    )
    if not tensor.output:
        return found
    # a tile that is not done comes back: from all places as often as it leaves there
    back = at.reads // (math.prod(box) * math.prod(map(len, apart)))
    along = zip(*(moves.starts for moves in found), strict=True)
    every = [sorted({at for at, _ in itertools.chain(*places)}) for places in along]
    times, left = divmod(sum(moves.many for moves in found) + back, math.prod(map(len, every)))
    assert not left
    return (_TileTransfers(times, tuple(tuple((at, 1) for at in along) for along in every), offsets, box),)


def _places(starts: Ints, first: Ints) -> Places:
    """Places of all sums of two offsets."""
    places, times = np.unique(np.add.outer(starts, first), return_counts=True)
    return tuple((int(at), int(many)) for at, many in zip(places, times, strict=True))


def _spread(encoded: Encoded, s: Detail, t: int, child: int) -> list[Ints]:
    """Where the tiles of all instances begin along each rank, each as often as there are such instances."""
    c, found = encoded.constants, [np.zeros(1, np.int64) for _ in encoded.tensors[t].ranks]
    for level in range(child):
        for d in c.term[t, : c.terms[t]].tolist():
            step = int(c.factor[t, d] * s.place[level + 1, d, detail.INSIDE])
            along = step * np.arange(int(s.place[level, d, detail.SPREAD]))
            found[c.rank[t, d]] = np.add.outer(found[c.rank[t, d]], along).ravel()
    return found


def _events(
    encoded: Encoded, mapping: Mapping, s: Detail, t: int, child: int, box: tuple[int, ...]
) -> Iterator[tuple[int, tuple[Ints, ...], tuple[int, ...]]]:
    """Steps that move a tile: how many for each start, starts along each rank, and the extent of what enters.

    The first step, and those in which a loop goes on while all loops inside it begin anew. As `windows.window_moves`,
    a window keeps its halo if it moves as the innermost loop that moves it does.
    """
    c, dims, loops = encoded.constants, encoded.dims, []
    for level, node in enumerate(mapping.levels[:child]):
        for loop in node.temporal:
            if loop.bound > 1:
                d = dims.index(loop.dim)
                step = int(c.factor[t, d] * s.place[level + 1, d, detail.INSIDE] * s.place[level, d, detail.SPREAD])
                loops.append((int(c.rank[t, d]) if c.relevant[t, d] else -1, loop.bound, step))
    held = child < len(mapping.levels)  # compute units take their words in every step
    while held and loops and loops[-1][0] < 0:
        loops.pop()  # these leave the tile in place
    kinds, windowed, back, chained = list[str](), held and bool(c.windowed[t]), 0, True
    for rank, bound, step in reversed(loops):
        innermost, last = not kinds, loops[-1]
        chained &= rank in (-1, last[0])
        stays, slides = not innermost and step == back, innermost or step - back == last[2]
        joined = windowed and chained and rank >= 0
        kinds.append("none" if joined and stays else "part" if joined and slides else "whole")
        back += (bound - 1) * step if rank >= 0 else 0
    starts, times = [np.zeros(1, np.int64)] * len(box), 1
    yield 1, tuple(starts), box
    for (rank, bound, step), kind in zip(loops, reversed(kinds), strict=True):
        if rank < 0:
            yield times * (bound - 1), tuple(starts), box
            times *= bound
            continue
        moved, part = list(starts), list(box)
        moved[rank] = np.add.outer(starts[rank], step * np.arange(1, bound)).ravel()
        starts[rank] = np.add.outer(starts[rank], step * np.arange(bound)).ravel()
        if kind == "part":
            part[rank] = min(box[rank], loops[-1][2])
            moved[rank] = moved[rank] + box[rank] - part[rank]
        if kind != "none":
            yield times, tuple(moved), tuple(part)


@dataclass(frozen=True, eq=True)
class _StoredTensor:
    """A tensor at the outermost level: its extents, bits of an element and of a burst, banks, and its transfers."""

    full: tuple[int, ...]
    element: int
    burst: int
    banks: int
    transfers: tuple[_TileTransfers, ...]
    known: dict[tuple[int, int, int], Counter[tuple[int, ...]]] = field(default_factory=dict, compare=False)

    def in_order(self, order: tuple[int, ...]) -> DataLayout:
        """DataLayout with whole ranks one after the other, each line as full as a burst allows."""
        room, line = max(1, self.burst // self.element), [1] * len(self.full)
        for rank in reversed(order):
            line[rank] = min(room, self.full[rank])
            room //= line[rank]
            if line[rank] < self.full[rank]:
                break
        return DataLayout(order, tuple(line))

    def lines(self) -> Iterator[tuple[int, ...]]:
        """Blocks of words that fit a burst: along each rank a power of two or a divisor of its extent."""
        room = max(1, self.burst // self.element)
        each = [
            sorted({n for n in (*divisors(full), *(1 << k for k in range(room.bit_length()))) if n <= min(room, full)})
            for full in self.full
        ]

        def extend(line: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
            if len(line) == len(each):
                yield line
                return
            for n in each[len(line)]:
                if n <= left:
                    yield from extend((*line, n), left // n)

        return extend((), room)

    def bursts_a_line(self, line: Sequence[int]) -> int:
        """Bursts that a line takes."""
        return -(-math.prod(line) * self.element // self.burst)

    def burst_bits(self, line: tuple[int, ...]) -> int:
        """Bits of all bursts that have a word of a transfer."""
        lines = sum(
            each.times
            * math.prod(
                sum(times * len(blocks) for blocks, times in self.blocks(i, rank, block).items())
                for rank, block in enumerate(line)
            )
            for i, each in enumerate(self.transfers)
        )
        return lines * self.bursts_a_line(line) * self.burst

    def port_bits(self, layout: DataLayout) -> int:
        """Bits that all banks move while one of them, the busiest of each transfer, moves its bursts.

        Burst k of a tensor lies in bank k modulo the number of banks. Along each rank the blocks of a transfer are
        counted by bank; the banks of their sums are the circular convolution of these counts.
        """
        if self.banks == 1:
            return self.burst_bits(layout.line)
        stride = self.bursts_a_line(layout.line)
        within = np.bincount(np.arange(stride) % self.banks, minlength=self.banks)
        strides = [0] * len(self.full)
        for rank in reversed(layout.order):
            strides[rank] = stride
            stride *= -(-self.full[rank] // layout.line[rank])
        apart = np.subtract.outer(np.arange(self.banks), np.arange(self.banks)) % self.banks
        busiest = 0
        for i, each in enumerate(self.transfers):
            along = [self.blocks(i, rank, block) for rank, block in enumerate(layout.line)]
            for pieces in itertools.product(*along):
                count = within
                for rank, blocks in enumerate(pieces):
                    banks = np.bincount(np.array(blocks) * strides[rank] % self.banks, minlength=self.banks)
                    count = banks[apart] @ count
                times = math.prod(of[blocks] for of, blocks in zip(along, pieces, strict=True))
                busiest += each.times * times * int(count.max())
        return busiest * self.banks * self.burst

    def blocks(self, i: int, rank: int, block: int) -> Counter[tuple[int, ...]]:
        """Blocks along a rank that have a word of a transfer, from the one of its start on; how many starts have so."""
        key = (i, rank, block)
        if key not in self.known:
            found, starts, each = Counter[tuple[int, ...]](), Counter[int](), self.transfers[i]
            for at, times in each.starts[rank]:
                starts[at % block] += times
            for start, times in starts.items():
                tiles = [(start + offset, start + offset + each.box[rank] - 1) for offset in each.apart[rank]]
                inside = {n for first, last in tiles for n in range(first // block, last // block + 1)}
                found[tuple(sorted(inside))] += times
            self.known[key] = found
        return self.known[key]


@lru_cache(maxsize=4096)
def _compare(store: _StoredTensor, given: DataLayout | None) -> list[tuple[DataLayout, bool, int, int]]:
    """The layout given, or with the ranks as the Einsum names them, the best and the worst.

    With each is whether whole ranks lie one after the other in it, and its bits of bursts and at the ports.
    """
    ranks = [rank for rank, extent in enumerate(store.full) if extent > 1]
    rest = [rank for rank, extent in enumerate(store.full) if extent == 1]
    plain = [store.in_order((*rest, *order)) for order in itertools.permutations(ranks)]
    bits = {line: store.burst_bits(line) for line in {*store.lines(), *(layout.line for layout in plain)}}
    worst = max(plain, key=lambda layout: (bits[layout.line], store.port_bits(layout)))
    fewest = min(bits.values())
    usual = [layout for layout in plain if bits[layout.line] == fewest]  # of equal ones, that with whole ranks
    orders = list(itertools.permutations(ranks)) if store.banks > 1 else [tuple(ranks)]
    lines = sorted(line for line, moved in bits.items() if moved == fewest)
    blocked = (DataLayout((*rest, *order), line) for line in lines for order in orders)
    best = min(itertools.chain(usual, blocked), key=store.port_bits)
    told = given or DataLayout((*rest, *ranks))
    told = told if told.line else store.in_order(told.order)
    return [
        (layout, layout in plain, store.burst_bits(layout.line), store.port_bits(layout))
        for layout in (told, best, worst)
    ]


def in_bursts(result: Result, outermost: Level, kind: str) -> tuple[float, int]:
    """Energy [pJ] and cycles of a mapping if the outermost level moves whole bursts in a layout of `KINDS`.

    Each burst costs what its words cost; the ports of the outermost level take the time of the busiest bank. Tensors
    whose bursts are not counted move their words alone.
    """
    laid = {each.tensor: each for each in result.layouts if each.kind == kind}
    energy, read, written = result.energy_pj, Fraction(0), Fraction(0)
    for at in result.tensors:
        if at.level != outermost.name:
            continue
        each = laid.get(at.tensor)
        moves, busy = (Fraction(each.burst_bits, each.bits), Fraction(each.port_bits, each.bits)) if each else (1, 1)
        energy += at.energy_pj * float(moves - 1)
        read += busy * at.storage_words(at.reads, outermost.word_bits)
        written += busy * at.storage_words(at.updates, outermost.word_bits)
    return energy, max([result.cycles, *(math.ceil(words / rate) for rate, words in outermost.ports(read, written))])
