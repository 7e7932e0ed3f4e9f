"""Partial mappings that were looked through already, so that none is looked through that one of them beats; compiled.

docs/papers/exact-mapper.md, Lemma 24, says what makes two nodes comparable. Axis letters as in node; M = nodes
remembered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.model.detail import DOWN, LOOPS, PARTS_APART, TILE, UP, USED
from accelsim.model.encode import BY_WRITE, PE, STREAM, UNLIMITED, Constants
from accelsim.model.jit import inline, jit
from accelsim.model.links import mesh_links
from accelsim.model.records import Bools1, Floats2, Ints1, Ints2, Uints1, Uints2, record
from accelsim.model.windows import tiles_into, words_into
from accelsim.search.exact.dma_kernel import mix_engines
from accelsim.search.exact.fills_kernel import mix_waits
from accelsim.search.exact.memo_key import mix_key
from accelsim.search.exact.node import SearchNode, SearchProblem
from accelsim.search.exact.node_kernel import has_no_loops, outermost_dims
from accelsim.search.exact.windows_kernel import mix_slides

PLACES = 4
"""Places that a node may take in the memo."""
FREE = 1 << 30
EQUAL = 1e-13
"""Relative rounding of two sums of the same energies."""


@record
class Memo(NamedTuple):
    """Nodes that were looked through, by what their completions depend on.

    V = counts of which fewer are better.
    """

    key: Uints2
    """uint64[M, 2]: hash of 128 bits of all that must be equal."""
    worth: Floats2
    """float64[M, 2] [pJ]: energy so far, if the output's words at its parent are as narrow as finished ones, and if
    they are as wide as partial sums."""
    counts: Ints2
    """int64[M, V]: counts of which fewer are better, as `_count` writes them."""
    level: Ints1
    """int64[M]: level at whose tile the node stands, 0 if the place is free."""
    timed: Bools1
    """bool[1]: whether cycles or off-chip words make a difference."""
    ports: Ints1
    """int64[*]: levels whose words through ports and network count, if cycles or off-chip words matter."""
    rounds_up: Bools1
    """bool[L]: whether accesses of the level may be rounded up to whole blocks."""
    rounds_further_in: Bools1
    """bool[L + 1]: whether accesses of the level or of any further in may be rounded up to whole blocks."""
    hash: Uints1
    """uint64[2]: scratch: key of the node that is looked at."""
    counted: Ints1
    """int64[V]: scratch: counts of the node that is looked at."""


def make_memo(c: Constants, places: int, *, timed: bool = False, words: bool = False) -> Memo:
    """Room for so many nodes; none remembers nothing.

    Parameters
    ----------
    timed, words : bool
        Whether cycles make a difference, and off-chip words.
    """
    rounds_up = (c.word_parts % c.block[:, None, None] != 0).any(axis=(1, 2))
    ports = np.flatnonzero(c.limited | ((np.arange(len(c.block)) == 0) & words))
    counts = len(c.whole) + 1 + timed * (1 + 3 * len(ports))
    return Memo(
        key=np.zeros((places, 2), np.uint64),
        worth=np.zeros((places, 2)),
        counts=np.zeros((places, counts), np.int64),
        level=np.zeros(places, np.int64),
        timed=np.array([timed]),
        ports=ports,
        rounds_up=rounds_up,
        rounds_further_in=np.append(np.logical_or.accumulate(rounds_up[::-1])[::-1], False),
        hash=np.zeros(2, np.uint64),
        counted=np.zeros(counts, np.int64),
    )


@jit
def _share_of_reads(c: Constants, node: SearchNode, key: Uints1, parent: int, level: int, t: int, side: int) -> None:
    """Add which share of the words of a tensor its parent reads for a level further in, and those of networks."""
    s = node.s
    groups, children = 1, 1
    for lv in range(parent, level):
        groups *= s.at[lv, t, side]
        children *= s.level[lv + 1, USED] // s.level[lv, USED]
        if c.transfers.any():
            for each in (s.at[lv, t, DOWN], s.at[lv, t, UP], s.level[lv + 1, USED]):
                mix_key(key, each)
        if c.hop[lv, t] > 0.0:
            m, used = node.mapping, s.level[lv, USED]
            mix_key(key, used * mesh_links(c, m, 0, lv, t, c.multicast[lv, 0, t], c.multicast[lv, 1, t]))
            mix_key(key, used * mesh_links(c, m, 0, lv, t, c.reduction[lv, 0], c.reduction[lv, 1]))
    a, b = groups, children
    while b:
        a, b = b, a % b
    mix_key(key, groups // a)
    mix_key(key, children // a)


@inline
def _still(c: Constants, node: SearchNode, level: int, t: int) -> int:
    """Product of the loops outside a tile down to the innermost that moves it."""
    s = node.s
    temporal, order = node.mapping.temporal[0], node.mapping.order[0]
    product = 1
    for lv in range(level - 1, -1, -1):
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = order[lv, j]
            if c.relevant[t, d]:
                return product
            product *= temporal[lv, d]
    return product


@inline
def _count(problem: SearchProblem, memo: Memo, node: SearchNode, level: int) -> None:
    """Write what is better the smaller it is.

    These are, for each tensor, the loops outside its tile that leave it in place (negative); and the words held at the
    last level, if the next one shares its room. Where cycles make a difference, these are also the fills of the
    output's parent, and the words of ports and networks, as far as they are known.
    """
    c, g = problem.c, problem.g
    tensors, levels = c.whole.shape[0], c.fanout.shape[0]
    for t in range(tensors):
        memo.counted[t] = 0
        if g.deepest[t] > level and not c.windowed[t]:
            memo.counted[t] = -_still(c, node, level, t)
    shares = level + 1 < levels and c.nodes[level + 1, 0] <= level and c.capacity[level] != UNLIMITED
    memo.counted[tensors] = node.held[level] if shares else 0
    if memo.timed[0]:
        parent, at = node.parent[level, c.output[0]], tensors + 1
        memo.counted[at] = node.fills[parent, c.output[0]] if parent > 0 else 0
        for k in range(memo.ports.shape[0]):
            memo.counted[at + 1 + 3 * k] = node.read[level, memo.ports[k]]
            memo.counted[at + 2 + 3 * k] = node.written[level, memo.ports[k]]
            memo.counted[at + 3 + 3 * k] = node.passing[level, memo.ports[k]]


@jit
def beaten_before(problem: SearchProblem, memo: Memo, node: SearchNode, level: int, shape: int) -> bool:
    """Whether a node was looked through that is as good as this one in all that its completions depend on.

    Else this one is remembered.

    Parameters
    ----------
    level, shape : int
        Its boundary, and the tile there.
    """
    c, g, s = problem.c, problem.g, node.s
    key, output, tensors, timed = memo.hash, c.output[0], c.whole.shape[0], memo.timed[0]
    key[0], key[1] = np.uint64(level), np.uint64(shape)
    mix_key(key, s.level[level, PARTS_APART])
    mix_key(key, int(has_no_loops(problem, node, level)))
    mix_key(key, outermost_dims(problem, node, level))
    if timed or memo.rounds_further_in[level]:
        mix_key(key, s.level[level, USED])
    for lv in range(level):
        if c.leak[lv] > 0.0:
            mix_key(key, s.level[lv, USED])
    for t in range(tensors):
        parent = node.parent[level, t]
        mix_key(key, c.nodes[parent, 0])
        limited = c.limited[c.nodes[parent, 0]] or c.limited[c.nodes[parent, 1] - 1]
        if memo.rounds_up[parent] or (timed and limited):
            mix_key(key, s.level[parent, USED])
        if parent > 0 and c.links[c.nodes[parent, 0] - 1]:
            mix_key(key, node.linked[parent, t])
            mix_key(key, node.givers[parent, t])
        if c.nodes[parent, 1] <= level:
            _share_of_reads(c, node, key, c.nodes[parent, 1] - 1, level, t, UP if t == output else DOWN)
        if g.deepest[t] > level and c.windowed[t]:
            mix_slides(c, node, key, level, t)
        if timed and c.array[PE] >= 0 and c.stationary[t]:
            m = node.mapping
            for lv in range(c.array[PE], min(level + 1, c.nodes[c.array[PE], 1])):
                if m.keep[0, lv, t]:
                    mix_key(key, tiles_into(c, m, 0, s, lv, t))
                    mix_key(key, words_into(c, m, 0, s, lv, t))
                    mix_key(key, s.at[lv, t, TILE])
    if timed and c.array[STREAM] >= 0:
        rows = 1
        for lv in range(c.nodes[c.array[PE] - 1, 0], level):
            rows *= node.mapping.temporal[0, lv, c.array[STREAM]] if c.array[STREAM] < c.bounds.shape[0] else 1
        mix_key(key, rows)
    if timed and c.dma.shape[0] > 0:
        mix_engines(c, s, node.mapping.keep[0], key, level)
    if timed and c.overlap.any():
        mix_waits(c, node, key, level)
    parent = node.parent[level, output]
    mix_key(key, s.level[parent, PARTS_APART])
    narrow = wide = node.energy[level]
    if parent > 0 and c.drain[parent]:
        mix_key(key, node.fills[parent, output])
        mix_key(key, node.moved[parent, output])
        mix_key(key, s.level[parent, USED])
    elif parent > 0 and c.two_widths[0]:
        settled = node.energy[level] - node.charged[parent, output]
        pj = float(s.level[parent, USED]) * c.energy[parent, output, BY_WRITE]
        words, block = node.fills[parent, output], c.block[parent]
        narrow = settled + float(-(-words * c.word_parts[parent, output, 0] // block)) * pj
        wide = settled + float(-(-words * c.word_parts[parent, output, 1] // block)) * pj
    last = c.nodes[parent, 1] - 1
    if c.two_widths[0] and c.capacity[parent] != UNLIMITED:
        parts = c.word_parts[parent, output, 1] - c.word_parts[parent, output, 0]
        more = s.at[parent, output, TILE] * parts
        mix_key(key, int(node.held[last] + more > c.capacity[parent]) if last <= level else more)
    _count(problem, memo, node, level)
    return bool(_enter(memo, narrow, wide, level))


@inline
def _enter(memo: Memo, narrow: float, wide: float, level: int) -> bool:
    """Whether an entry of the memo is as good; else the node takes the place of one that it beats, or of a deep one."""
    key = memo.hash
    first = int(key[0] % np.uint64(memo.level.shape[0] // PLACES)) * PLACES
    place, deepest = first, -1
    for at in range(first, first + PLACES):
        depth = memo.level[at]
        if depth == 0:
            depth = FREE
        elif memo.key[at, 0] == key[0] and memo.key[at, 1] == key[1]:
            as_good = memo.worth[at, 0] <= narrow * (1.0 + EQUAL) and memo.worth[at, 1] <= wide * (1.0 + EQUAL)
            worse = memo.worth[at, 0] >= narrow and memo.worth[at, 1] >= wide
            for k in range(memo.counted.shape[0]):
                as_good &= memo.counts[at, k] <= memo.counted[k]
                worse &= memo.counts[at, k] >= memo.counted[k]
            if as_good:
                return True
            if worse:
                depth = FREE
        if depth > deepest:
            place, deepest = at, depth
    memo.key[place, 0], memo.key[place, 1] = key[0], key[1]
    memo.worth[place, 0], memo.worth[place, 1], memo.level[place] = narrow, wide, level
    for k in range(memo.counted.shape[0]):
        memo.counts[place, k] = memo.counted[k]
    return False
