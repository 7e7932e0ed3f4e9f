"""DMA engines in the search: cycles at least where loops leave remainders, and their part of the memo key; compiled."""

from __future__ import annotations

from accelsim.model.detail import INSIDE, MOVED_BACK, MOVED_IN, PARTS_APART, SPREAD, STEPS, TIMES, USED, VISITS, Detail
from accelsim.model.detail import LAST as COVERED
from accelsim.model.dma import WHOLE_TILES, first_tiles, note_moves, tile_cycles
from accelsim.model.encode import ALONG, ISSUE, KIND, LINE, NO_ENGINE, ROW, SAFE, UNITS, Constants
from accelsim.model.jit import inline, jit
from accelsim.model.records import Bools2, Uints1
from accelsim.search.exact.incumbents import SURE
from accelsim.search.exact.memo_key import mix_key
from accelsim.search.exact.node import SearchNode, SearchProblem
from accelsim.search.exact.remainders_kernel import boxes


@jit
def mix_engines(c: Constants, s: Detail, keep: Bools2, key: Uints1, level: int) -> None:
    """Add what DMA engines move at known levels, and the loops outside that make those further in move more.

    The innermost node of a level that keeps anything, if only a tensor that moves at no cost, has the tiles that count.
    """
    for lv in range(1, level + 1):
        engine = c.dma[lv, c.whole.shape[0], KIND] != NO_ENGINE
        if engine or lv == level:
            mix_key(key, s.level[lv, STEPS])
            mix_key(key, s.level[lv, VISITS])
        if engine:
            mix_key(key, int(keep[lv].any()))
            for k in range(MOVED_IN, MOVED_BACK + 1):
                mix_key(key, s.level[lv, k])


@jit
def moves_at_least(problem: SearchProblem, node: SearchNode, lv: int) -> None:
    """As `count_ragged_moves`, at least: how many tiles there are along a dimension is known, but not how large."""
    c, shapes, s = problem.c, problem.shapes, node.s
    m, dims, engine, issue = node.mapping, c.bounds.shape[0], c.dma.shape[0], c.dma[lv, c.whole.shape[0], ISSUE]
    turns, whole = 1, True
    for d in range(dims):
        passes, spread, size = shapes.passes[d, node.tile[lv, d]], 1, s.place[lv, d, INSIDE]
        for outer in range(lv):
            spread *= s.place[outer, d, SPREAD]
        times, _ = first_tiles(m.temporal[0], m.x[0], m.y[0], passes, 1, lv, d)
        most = max(-(-c.bounds[d] // spread), (times - 1) * size + 1) if shapes.ragged[d] else times * size
        s.place[engine, d, TIMES], s.place[engine, d, COVERED] = times, most
        turns *= times
        whole &= times == 1 or not shapes.ragged[d]
    moved, first, out, back = 0.0, 0, 0.0, 0.0
    for t in range(c.whole.shape[0]):
        if node.mapping.keep[0, lv, t]:
            all_tiles = _moved_at_least(problem, s, lv, t) * (1.0 - SURE)
            if t == c.output[0]:
                out, back = all_tiles, _returning_at_least(c, node, lv, t)
                continue
            for d in range(dims):
                all_tiles *= 1.0 if c.relevant[t, d] else float(s.place[engine, d, TIMES])
            moved += all_tiles
            first += tile_cycles(c, s, lv, t, WHOLE_TILES, False)
    note_moves(s, lv, max(int(moved), turns * issue), first, int(out), int(back), turns, turns if whole else SAFE)


@inline
def _returning_at_least(c: Constants, node: SearchNode, lv: int, t: int) -> float:
    """Cycles of an engine for partial sums that leave and come back, at least: those of full rows and lines."""
    s = node.s
    e, units = c.dma[lv, t], 0.0
    for piece in (ROW, LINE):
        if e[piece + 2] > 0:
            units += float(e[piece + 1]) / float(e[piece + 2])
    words = float(node.fills[lv, t]) / float(s.level[lv, USED])
    return float(2.0 * words * units / float(c.dma[lv, c.whole.shape[0], UNITS]) * (1.0 - SURE))


@jit
def _moved_at_least(problem: SearchProblem, s: Detail, lv: int, t: int) -> float:
    """Cycles of an engine for all different tiles of a tensor in the first instance, at least."""
    c, shapes = problem.c, problem.shapes
    e, engine = c.dma[lv, t], c.dma.shape[0]
    runs, units, first = 1.0, float(e[ROW + 1] + e[LINE + 1]), 0
    psums = t == c.output[0] and s.level[lv, PARTS_APART] > 1
    for k in range(c.terms[t]):
        if k + 1 < c.terms[t] and not c.term_opens[t, k + 1]:
            continue
        extent, times = 1, 1
        for j in range(first, k + 1):
            extent += c.term_factor[t, j] * (s.place[lv, c.term[t, j], INSIDE] - 1)
            times *= s.place[engine, c.term[t, j], TIMES]
        first, d, words = k + 1, c.term[t, k], times * extent
        if shapes.ragged[d]:
            words = boxes(c.term_factor[t, k], times, s.place[engine, d, COVERED])
        if c.rank[t, d] != e[ALONG]:
            runs *= float(words)
            continue
        units = 0.0
        for piece in (ROW, LINE):
            room = e[piece + 2] if psums else e[piece]
            if room > 0:
                each = -(-extent // room)
                least = max(-(-words // room), (times - 1) * each + 1) if shapes.ragged[d] else times * each
                units += float(least * e[piece + 1])
    return float(runs * units / float(c.dma[lv, c.whole.shape[0], UNITS]))
