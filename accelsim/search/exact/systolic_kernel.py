"""Systolic arrays in the search: cycles at least; compiled."""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import STEPS, USED
from accelsim.model.encode import FITTING, PE, STREAM, STREAMED
from accelsim.model.jit import jit
from accelsim.model.systolic import array_cycles, instruction_cycles
from accelsim.model.windows import tiles_into
from accelsim.search.exact.incumbents import SURE
from accelsim.search.exact.node import SearchNode, SearchProblem


@jit
def least_array_cycles(
    problem: SearchProblem, node: SearchNode, level: int, inside: int, spread: float, steps: float
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
def _least_tiles(problem: SearchProblem, node: SearchNode, level: int, inside: int, spread: float, t: int) -> int:
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
