"""Words that the outermost level moves in whole bursts; docs/model.md, section 8."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from accelsim.inputs.mapping import Mapping
from accelsim.model.detail import INSIDE, SPREAD, STEPS, Detail
from accelsim.model.encode import Encoded, encode_mappings
from accelsim.model.result import TensorAtLevel, TensorBursts, TensorOnNetwork
from accelsim.model.windows import tile_moves


def outer_bursts(
    encoded: Encoded,
    mapping: Mapping,
    s: Detail,
    at_level: Sequence[TensorAtLevel],
    on_network: Sequence[TensorOnNetwork],
) -> tuple[TensorBursts, ...]:
    """Bits that the outermost level moves for each tensor if each run of words side by side takes whole bursts.

    Tensors are stored dense, the last rank innermost, and each run begins with a burst. What all tiles take in a step
    is one transfer, unless they have words in common that the networks do not share.

    Parameters
    ----------
    encoded : Encoded
        Its outermost level has a `burst_bits`.
    mapping : Mapping
        Its loops leave no remainder.
    s, at_level, on_network
        Its counts.

    Returns
    -------
    tuple of TensorBursts
        Without tensors that are compressed, and without an output with several looped dimensions in a rank: words of
        its tiles may come back one by one.
    """
    c, outermost, levels = encoded.constants, encoded.architecture.levels[0], len(mapping.levels)
    burst = outermost.burst_bits
    assert burst is not None
    found = []
    (temporal,), (order,), *_ = encode_mappings(encoded, [mapping])
    for t, tensor in enumerate(encoded.tensors):
        (at,) = (at for at in at_level if (at.level, at.tensor) == (outermost.name, tensor.name))
        if at.compression != 1 or (tensor.output and c.windowed[t]):
            continue
        element = int(at.storage_words(1, outermost.word_bits) * outermost.word_bits)
        child = next((i for i, n in enumerate(mapping.levels) if i and tensor.name in n.keep), levels)
        box, full = (_extents(encoded, s, t, level) for level in (child, 0))
        part, whole, parts = list(box), int(s.level[levels, STEPS]), 0
        if child < levels:
            whole, parts, rank, _, new = map(int, tile_moves.plain()(c, temporal, order, s, child, t))
            if parts:
                part[rank] = new
        below = {node.level for node in mapping.levels[child : child + 1]}  # its network lies inside its tiles
        names = {node.level for node in mapping.levels[:child]} - below
        crossed = [n for n in on_network if n.tensor == tensor.name and n.level in names]
        groups = math.prod(n.distinct_up if tensor.output else n.distinct for n in crossed)
        offsets, each = _offsets(encoded, s, t, child), 1
        if groups != math.prod(map(len, offsets)) or any(map(_meet, offsets, box)):
            offsets, each = [[0]] * len(full), groups
        run, bits = _runs(offsets, box, full, element, burst)
        _, part_bits = _runs(offsets, part, full, element, burst)
        moved = each * (whole * bits + parts * part_bits)
        if tensor.output:
            moved += at.reads * each // (math.prod(box) * groups) * bits
        found.append(TensorBursts(tensor.name, run, (at.reads + at.updates) * element, moved))
    return tuple(found)


def _extents(encoded: Encoded, s: Detail, t: int, level: int) -> list[int]:
    """Extent of a tile along each rank."""
    inside = dict(zip(encoded.dims, s.place[level, :, INSIDE].tolist(), strict=True))
    ranks = encoded.tensors[t].ranks
    return [1 + sum(factor * (inside[dim] - 1) for dim, factor in rank if dim in inside) for rank in ranks]


def _offsets(encoded: Encoded, s: Detail, t: int, child: int) -> list[list[int]]:
    """Where the tiles of all instances begin along each rank."""
    c, offsets = encoded.constants, [{0} for _ in encoded.tensors[t].ranks]
    for level in range(child):
        for d in c.term[t, : c.terms[t]].tolist():
            step, spread = int(c.factor[t, d] * s.place[level + 1, d, INSIDE]), int(s.place[level, d, SPREAD])
            rank = c.rank[t, d]
            offsets[rank] = {at + step * k for at in offsets[rank] for k in range(spread)}
    return [sorted(along) for along in offsets]


def _meet(offsets: Sequence[int], extent: int) -> bool:
    """Whether tiles at some of these offsets along a rank have words in common."""
    return any(after - at < extent for at, after in itertools.pairwise(offsets))


def _runs(
    offsets: Sequence[Sequence[int]], box: Sequence[int], full: Sequence[int], element_bits: int, burst_bits: int
) -> tuple[int, int]:
    """Most words that lie side by side in boxes at some offsets along each rank, and bits of all bursts of them."""
    inner = 1
    for rank in range(len(box) - 1, -1, -1):
        pieces = _pieces(offsets[rank], box[rank])
        if pieces == [full[rank]] and rank:
            inner *= full[rank]
            continue
        rows = math.prod(len(offsets[outer]) * box[outer] for outer in range(rank))
        bursts = sum(-(-piece * inner * element_bits // burst_bits) for piece in pieces)
        return max(pieces) * inner, rows * bursts * burst_bits
    return 1, -(-element_bits // burst_bits) * burst_bits


def _pieces(offsets: Sequence[int], extent: int) -> list[int]:
    """Words of each run without a gap along a rank."""
    pieces, end = [], None
    for at in offsets:
        if at == end:
            pieces[-1] += extent
        else:
            pieces.append(extent)
        end = at + extent
    return pieces
