"""What becomes of a complete mapping; compiled."""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import PARTIAL, READS, TILE, USED, Detail
from accelsim.model.encode import Batch, Bools, Constants
from accelsim.model.jit import jit
from accelsim.model.kernel import VALID, evaluate_many, fit
from accelsim.search.exact.incumbents_kernel import SURE, Goal, Incumbents, enter
from accelsim.search.exact.node import CostTables, SearchNode
from accelsim.search.exact.remainders_kernel import cost_remainders
from accelsim.search.exact.shapes import Shapes
from accelsim.search.value_kernel import CAPACITY, CYCLES, ENERGY, WORDS, outer_words, within_limits

NOT_ANYWAY: np.bool_ = np.bool_(False)


@jit
def settle(
    c: Constants,
    shapes: Shapes,
    g: CostTables,
    goal: Goal,
    found: Incumbents,
    node: SearchNode,
    s: Detail,
    full: Detail,
    ragged: Bools | None,
) -> None:
    """Evaluate a complete mapping and enter it if it is wanted."""
    m, levels = node.mapping, c.fanout.shape[0]
    found.tally[1] += 1
    if ragged is not None:
        left_over = _leaves_remainders(c, m)
        if left_over:
            _settle_remainders(c, shapes, g, goal, found, node, s, full)
            return
    evaluate_many(c, m, full, NOT_ANYWAY, node.status, node.pj, node.cycles)
    energy, cycles = node.pj[0], node.cycles[0]
    if node.status[0] != VALID:
        return
    without_leak = energy
    for lv in range(levels):
        without_leak -= c.leak[lv] * float(cycles) * float(full.level[lv, USED])
    parts = node.energy[levels] - g.start[0] + g.macs[0] * c.mac[0]
    if abs(without_leak - parts) > 1e-9 * abs(energy) and ragged is None:
        found.tally[3] += 1
    words, held = 0, 0
    for t in range(c.whole.shape[0]):
        words += (full.at[0, t, READS] + full.at[0, t, READS + 1] + full.at[0, t, READS + 2]) * c.word_parts[
            0, t, full.at[0, t, PARTIAL]
        ]
        for lv in range(c.nodes[goal.level[0], 0], c.nodes[goal.level[0], 1]):
            if m.keep[0, lv, t]:
                held += full.at[lv, t, TILE] * c.word_parts[lv, t, full.at[lv, t, PARTIAL]]
    node.column[ENERGY], node.column[CYCLES] = energy, float(cycles)
    node.column[WORDS], node.column[CAPACITY] = outer_words(c, words), float(held)
    if within_limits(g.most, energy, node.column[CYCLES], node.column[WORDS]):
        enter(goal, found, m, node.column)


@jit
def _settle_remainders(
    c: Constants,
    shapes: Shapes,
    g: CostTables,
    goal: Goal,
    found: Incumbents,
    node: SearchNode,
    s: Detail,
    full: Detail,
) -> None:
    """Enter a complete mapping that leaves remainders, by what it costs at least, if its tiles fit."""
    m = node.mapping
    if fit(c, m.temporal[0], m.x[0], m.y[0], m.keep[0], full, False) != VALID:
        return
    energy, cycles = cost_remainders(c, shapes, node, s)
    last = c.fanout.shape[0]
    node.column[ENERGY], node.column[CYCLES] = energy, float(cycles)
    node.column[WORDS], node.column[CAPACITY] = outer_words(c, node.read[last, 0] + node.written[last, 0]), 0.0
    if within_limits(g.most, energy * (1.0 - SURE), node.column[CYCLES], node.column[WORDS]):
        enter(goal, found, m, node.column)


@jit
def _leaves_remainders(c: Constants, m: Batch) -> bool:
    for d in range(c.bounds.shape[0]):
        product = 1
        for lv in range(c.fanout.shape[0]):
            product *= m.temporal[0, lv, d] * m.x[0, lv, d] * m.y[0, lv, d]
        if product != c.bounds[d]:
            return True
    return False
