"""Ports and networks in the search: cycles at least; compiled."""

from __future__ import annotations

from accelsim.model.detail import USED, Detail
from accelsim.model.encode import NETWORK
from accelsim.model.jit import inline, jit
from accelsim.model.ports import network_cycles, port_cycles
from accelsim.search.exact.incumbents import SURE
from accelsim.search.exact.node import CostTables, SearchNode, SearchProblem

BY_READS, BY_WRITTEN = 1, 2
"""Ports of reads alone, and of fills and updates alone."""


@jit
def least_port_cycles(problem: SearchProblem, node: SearchNode, level: int) -> int:
    """Cycles that the ports of the levels outside a boundary need at least.

    Traffic into levels inside is not known yet; of a tensor that none of these keeps, the compute units ask for a word
    each cycle, and of others each word is asked for once.
    """
    c, g, s = problem.c, problem.g, node.s
    levels, cycles = c.fanout.shape[0], 0
    for lv in range(min(level + 1, levels)):
        if not c.limited[lv]:
            continue
        read, written, passing = node.read[level, lv], node.written[level, lv], node.passing[level, lv]
        for t in range(c.whole.shape[0]):
            parent = node.parent[level, t]
            if level == levels or c.nodes[parent, 0] != c.nodes[lv, 0]:
                continue
            words = g.needed[t] if lv == 0 else 0
            if g.deepest[t] <= level:
                share = node.share[level, t] * g.least_inside[level, t]
                asked = g.macs[0] / float(s.level[lv, USED]) * share
                words = max(words, int(asked * (1.0 - SURE)))
            words *= min(c.word_parts[lv, t, 0], c.word_parts[lv, t, 1])
            passing += words
            if t == c.output[0]:
                written += words
            else:
                read += words
        waits, off = node.waits[level], node.waited[level, lv]
        cycles = max(cycles, waits + port_cycles(c, lv, read - off[0], written - off[1], cycles - waits, False))
        if waits == 0:
            cycles = max(cycles, network_cycles(c, lv, passing))
    return cycles


@inline
def most_instances(g: CostTables, s: Detail, level: int, lv: int) -> float:
    """Instances of level `lv` that are in use, at most if it lies inside the boundary at `level`."""
    used = float(s.level[min(level, lv), USED])
    for between in range(level, lv):
        used *= g.widest[between]
    return used


@inline
def known_port_cycles(problem: SearchProblem, node: SearchNode, level: int, p: int) -> float:
    """Cycles of a port for the traffic known so far, of all instances together."""
    g, s = problem.g, node.s
    lv = g.ports[p, 0]
    if g.ports[p, 1] == NETWORK:
        return float(_all_port_cycles(problem, s, level, p, node.passing[level, lv], 0))
    return float(_all_port_cycles(problem, s, level, p, node.read[level, lv], node.written[level, lv]))


@inline
def waited_port_cycles(problem: SearchProblem, node: SearchNode, level: int, p: int) -> float:
    """As `known_port_cycles`, of that traffic which all else waits for, at most."""
    g, s = problem.g, node.s
    off = node.waited[level, g.ports[p, 0]]
    return float(_all_port_cycles(problem, s, level, p, off[0], off[1]))


@inline
def _all_port_cycles(problem: SearchProblem, s: Detail, level: int, p: int, read: int, written: int) -> float:
    """Cycles of a port for words of each instance, of all instances together."""
    c, g = problem.c, problem.g
    lv, port = g.ports[p, 0], g.ports[p, 1]
    words = (read if port != BY_WRITTEN else 0) + (written if port != BY_READS else 0)
    rate = float(c.bandwidth[lv, port, 1]) / float(c.bandwidth[lv, port, 0])
    return float(words) * rate * float(s.level[min(level, lv), USED])
