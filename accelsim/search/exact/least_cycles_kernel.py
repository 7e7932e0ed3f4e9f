"""Cycles of ports and of a systolic array that no completion of a node falls below; compiled.

Axis letters: L = levels (outermost first), D = dimensions, T = tensors, B = spreads, S = shapes.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import STEPS, USED, Detail
from accelsim.model.encode import FITTING, NETWORK, PE, STREAM, STREAMED
from accelsim.model.jit import inline, jit
from accelsim.model.ports import network_cycles, port_cycles
from accelsim.model.systolic import array_cycles, instruction_cycles
from accelsim.model.windows import tiles_into
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


@jit
def least_array_cycles(
    problem: SearchProblem,
    node: SearchNode,
    level: int,
    inside: int,
    spread: float,
    steps: float,
) -> float:
    """Compute cycles with the ramps of a systolic array that any completion of a node has at least.

    A tile changes with each step of the known loops, down to the innermost that moves it; and all words that the loops
    further in ask for must pass through the PEs inside, of which each holds `most_held` at a time.

    Parameters
    ----------
    spread : float
        Instances inside at most.
    steps : float
        Compute cycles without ramps at least.
    """
    c, shapes = problem.c, problem.shapes
    total, held = 0, 0
    for t in range(c.whole.shape[0]):
        if c.stationary[t]:
            held += 1
            total += _least_tiles(problem, node, level, inside, spread, t)
    if c.array[STREAM] >= 0:
        rows, d = c.array[FITTING], c.array[STREAM]
        if d < c.bounds.shape[0] and shapes.ragged[d]:
            rows = min(c.bounds[d], c.array[STREAMED])
        steps = max(steps, np.floor(steps / float(rows)) * float(instruction_cycles(c, rows, rows)))
    return float(array_cycles(c, int(steps), max(total, 1), total, held))


@jit
def _least_tiles(
    problem: SearchProblem,
    node: SearchNode,
    level: int,
    inside: int,
    spread: float,
    t: int,
) -> int:
    """How often what the PEs hold of a tensor changes at least."""
    c, shapes, g, s = problem.c, problem.shapes, problem.g, node.s
    m, share = node.mapping, 0.5 if c.windowed[t] else 1.0
    words = g.in_turn[level, t] / float(s.level[level, USED])
    if shapes.resting.shape[1] > 0:  # there may be remainders
        words = max(words, node.held_in_turn[level, t] / (spread if level < c.array[PE] else 1.0))
    least = max(1, int(np.ceil(words / float(c.most_held[t]) * (1.0 - SURE))))
    if shapes.resting.shape[1] > 0:
        return least
    tiles = tiles_into(c, m, 0, s, min(level, c.array[PE]), t)
    if level >= c.array[PE]:
        return int(tiles)
    tiles = max(tiles, least)
    around, moving, words, below = float(s.level[level, STEPS]), 1.0, 1.0, 1.0
    all_around = around
    for d in range(c.relevant.shape[1]):
        if not inside:
            all_around *= float(m.temporal[0, level, d])
        if c.relevant[t, d]:
            moving *= 1.0 if inside else float(m.temporal[0, level, d])
            words *= float(shapes.size[d, node.tile[level, d] if inside else node.mid[level, d]])
    if moving > 1.0:
        tiles = max(tiles, int(np.ceil(share * around * moving)))
    for lv in range(level, c.array[PE]):
        below *= float(c.fanout[lv, 0] * c.fanout[lv, 1])
    room = min(spread, below) * float(c.most_held[t])
    if c.windowed[t] and c.most_held[t] != 1:
        room = 0.0
    if room > 0.0 and words > room:
        tiles = max(tiles, int(np.ceil(share * all_around * np.ceil(words / room * (1.0 - SURE)))))
    return int(tiles)
