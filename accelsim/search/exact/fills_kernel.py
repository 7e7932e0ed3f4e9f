"""Fills and drains in the search: cycles at least, and their part of the memo key; compiled."""

from __future__ import annotations

from accelsim.model.detail import DOWN, FILLS, LEAVING, PARTIAL, READS, TILE, TRIPS, UP, UPDATES, USED
from accelsim.model.encode import ALL_OVERLAP, Constants
from accelsim.model.jit import jit
from accelsim.model.ports import port_cycles
from accelsim.model.records import Uints1
from accelsim.search.exact.incumbents import SURE
from accelsim.search.exact.memo_key import mix_key
from accelsim.search.exact.node import SearchNode, SearchProblem


@jit
def mix_waits(c: Constants, node: SearchNode, key: Uints1, level: int) -> None:
    """Add the words of known transfers that all else waits for, and what decides how long those further in take."""
    s = node.s
    keep, output = node.mapping.keep[0], c.output[0]
    for t in range(c.whole.shape[0]):
        parent, groups = node.parent[level, t], 1
        for lv in range(parent, level):
            groups *= s.at[lv, t, UP if t == output else DOWN]
        mix_key(key, groups)
        mix_key(key, s.level[parent, USED])
        waits = False
        for lv in range(level, -1, -1):
            if keep[lv, t]:
                for k in (READS, UPDATES, PARTIAL):
                    mix_key(key, s.at[lv, t, k] if waits else 0)
                waits = c.overlap[lv] != ALL_OVERLAP
                for each in (s.at[lv, t, TILE], s.at[lv, t, FILLS], s.at[lv, t, TRIPS], s.level[lv, LEAVING]):
                    mix_key(key, each if waits else 0)


@jit
def waits_or_moves(
    problem: SearchProblem, node: SearchNode, level: int, inside: int, shape: int, computing: float
) -> float:
    """Cycles at least, because a tensor's words pass its parent's port at once or again and again.

    docs/papers/exact-mapper.md, Lemma 22, has the proof.
    If no loop further in moves a tensor, all else waits for the whole of its part of the tile. If some does, each step
    of the loops outside reads that part again, or writes it.
    """
    c, shapes, g, s = problem.c, problem.shapes, problem.g, node.s
    found, used = 0.0, float(s.level[level, USED])
    for t in range(c.whole.shape[0]):
        parent = node.parent[level, t]
        if not g.firsts[parent, level, t] or c.windowed[t]:
            continue
        steps, several, lv = g.macs[0] / used, 1, c.nodes[parent, 0]
        for d in range(c.bounds.shape[0]):
            size = shapes.size[d, node.tile[level, d] if inside else node.mid[level, d]]
            steps /= float(size)
            several *= size if c.relevant[t, d] else 1
        if several != shapes.box[t, shape]:  # tiles that skip words have fewer in parts
            continue
        words = several * node.share[level, t] * used / float(s.level[parent, USED]) * (1.0 + SURE)
        part = min(c.word_parts[parent, t, 0], c.word_parts[parent, t, 1])
        once, again = int(words) * part, int(words * steps) * part
        read, written = node.read[level, lv], node.written[level, lv]
        if t == c.output[0]:
            stays, moves = port_cycles(c, lv, 0, once, 0, True), port_cycles(c, lv, read, written + again, 0, True)
        else:
            stays, moves = port_cycles(c, lv, once, 0, 0, True), port_cycles(c, lv, read + again, written, 0, True)
        found = max(found, min(computing + float(node.waits[level] + stays), float(moves)))
    return found
