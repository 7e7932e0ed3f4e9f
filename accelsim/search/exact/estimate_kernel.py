"""What a node of the search costs: at least, from what is known and the cost-to-go tables, or once it is complete.

Compiled. Axis letters as in node.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import PARTIAL, PARTS_APART, TILE, USED, Detail
from accelsim.model.dma import with_engines
from accelsim.model.encode import PE, Batch, Constants
from accelsim.model.jit import inline, jit
from accelsim.model.kernel import VALID, evaluate_many, fit
from accelsim.model.records import Floats1
from accelsim.search.exact.fills_kernel import waits_or_moves
from accelsim.search.exact.incumbents import BEST, FRONT, NEARLY, SURE, Goal, Incumbents, dominated, enter
from accelsim.search.exact.node import CostTables, SearchNode, SearchProblem
from accelsim.search.exact.node_kernel import OPTION
from accelsim.search.exact.ports_kernel import known_port_cycles, least_port_cycles, most_instances, waited_port_cycles
from accelsim.search.exact.remainders_kernel import cost_remainders
from accelsim.search.exact.systolic_kernel import least_array_cycles
from accelsim.search.value_kernel import (
    CAPACITY,
    CYCLES,
    ENERGY,
    WORDS,
    moved_units,
    offchip_words,
    value_of,
    within_limits,
)

NOT_ANYWAY: np.bool_ = np.bool_(False)
AROUND, WITHIN_TILE, ONE, OF_ENERGY = np.int64(0), np.int64(1), np.int64(1), np.int64(0)
"""The two kinds of table, one set of statuses, of energy; functions would compile anew for each plain integer."""


@jit
def bound_of(
    problem: SearchProblem,
    goal: Goal,
    found: Incumbents,
    node: SearchNode,
    level: int,
    inside: int,
    shape: int,
    pieces: int,
) -> float:
    """Least value that any completion of the node can have; infinite if none can be of use.

    The table is that of `level`, outside its network or (`inside`) at its tile.
    """
    c, shapes, g, s = problem.c, problem.shapes, problem.g, node.s
    spreads = g.spreads[level]
    leaks, outside = g.start[0] - g.macs[0] * c.mac[0], leak_in_a_cycle(c, s, level)
    timed = leaks > 0.0 or not goal.energy_only[0]
    least_cycles = least_port_cycles(problem, node, level) if timed else 0
    best, most, ports = np.inf, g.most[CYCLES], 0 if goal.energy_only[0] else g.ports.shape[0]
    used = float(s.level[level, USED])
    steps = max(g.macs[0] / used, node.steps[level]) * float(c.mac_cycles[0])
    last = c.whole.shape[0]
    least_steps = g.in_turn[level, last] / used * float(c.mac_cycles[0])
    points = np.inf  # inside the shape: no more instances of it can be in use
    if shapes.resting.shape[1] == 0:
        points = float(shapes.box[0, shape]) * shapes.macs[0] / shapes.words[0, shape]
    settled = settled_energy(problem, node, level)
    enough, units = np.inf, node.read[level, 0] + node.written[level, 0]
    node.column[WORDS] = 0.0  # where they count there is a table
    node.column[CAPACITY] = float(node.held[goal.level[0]]) if goal.level[0] <= level else 0.0
    if goal.kind[0] != FRONT:
        enough = goal.limit[0] * (1.0 + SURE)
        if goal.kind[0] == BEST and found.many[0] == found.value.shape[0]:
            enough = min(enough, found.value[found.many[0] - 1])
    for b in range(spreads):
        node.by_spread[b] = np.inf
        if inside and not node.spreads[level - 1, AROUND] >> g.option_spreads[node.cursor[level - 1, OPTION], b] & 1:
            continue
        if not inside and not node.spreads[level, WITHIN_TILE] >> b & 1:
            continue
        cycles = np.ceil(max(steps / min(g.edges[level, b], points), least_steps) * (1.0 - SURE))
        if c.array[PE] >= 0 and not goal.energy_only[0]:
            cycles = least_array_cycles(problem, node, level, inside, g.edges[level, b], cycles)
        computing = cycles
        cycles += float(node.waits[level])
        if g.waits[0] and not goal.energy_only[0]:
            k = g.row.shape[0] - 1
            more = mixed(g, node, g.others[g.row[k]], level, inside, b, shape, pieces)
            if not more < np.inf:
                continue
            cycles = np.ceil(cycles + (more - counted_off(problem, node, level, k + 1)) * (1.0 - SURE) - SURE)
            cycles = max(cycles, waits_or_moves(problem, node, level, inside, shape, computing))
        cycles = max(float(least_cycles), cycles)
        if c.dma.shape[0] > 0 and not goal.energy_only[0]:
            cycles = float(with_engines(c, s, node.mapping.keep[0], level + 1, int(cycles)))
        if cycles > most:
            continue
        energy = settled + mixed(g, node, g.values, level, inside, b, shape, pieces)
        if not energy < np.inf:
            continue
        rate = (outside + used * g.leaks[level, b]) * (1.0 - NEARLY)
        access, cycles = max(energy, node.energy[level]) - leaks, max(cycles, goal.floor[1])
        energy = max(access + max(leaks, rate * cycles), goal.floor[0])
        if g.words[0]:
            more = mixed(g, node, g.others[g.row[0]], level, inside, b, shape, pieces)
            more -= counted_off(problem, node, level, ONE)
            if not more < np.inf:
                continue
            node.column[WORDS] = offchip_words(c, units + int(np.ceil(more * (1.0 - SURE) - SURE)))
        if not within_limits(g.most, energy * (1.0 - SURE), cycles, node.column[WORDS]):
            continue
        value = _value_or_beaten(goal, found, node, energy, cycles)
        p = 0
        while p < ports and value < best and value <= enough:  # else what ports need makes no difference
            k = g.words[0] + p
            least = mixed(g, node, g.others[g.row[k]], level, inside, b, shape, pieces)
            least += g.shares[p] * known_port_cycles(problem, node, level, p) - counted_off(problem, node, level, k + 1)
            if node.waits[level] > 0:
                least -= g.shares[p] * waited_port_cycles(problem, node, level, p)
            least /= g.shares[p] * most_instances(g, s, level, g.ports[p, 0])
            cycles = max(cycles, float(node.waits[level]) + np.ceil(least * (1.0 - SURE) - SURE))
            energy = max(energy, access + rate * cycles)
            value = _value_or_beaten(goal, found, node, energy, cycles) if cycles <= most else np.inf
            p += 1
        best = min(best, value)
        node.by_spread[b] = value
    return float(best)


@inline
def leak_in_a_cycle(c: Constants, s: Detail, level: int) -> float:
    """Energy that leaks in a cycle from the instances in use down to a boundary [pJ]."""
    rate = 0.0
    for lv in range(level + 1):
        rate += c.leak[lv] * float(s.level[lv, USED])
    return rate


@inline
def _value_or_beaten(goal: Goal, found: Incumbents, node: SearchNode, energy: float, cycles: float) -> float:
    """Value of energy and cycles; in a front infinite, if a mapping found is as good."""
    if goal.kind[0] != FRONT:
        return float(value_of(goal.terms, energy, cycles, node.column[WORDS], node.column[CAPACITY]))
    node.column[ENERGY], node.column[CYCLES] = energy, cycles
    return float(np.inf) if dominated(goal, found, node.column) else energy * cycles


@inline
def settled_energy(problem: SearchProblem, node: SearchNode, level: int) -> float:
    """Energy of all that a node settles, less what the table of energy counts too much inside it [pJ]."""
    return float(node.energy[level] - counted_off(problem, node, level, OF_ENERGY))


@inline
def list_entries(g: CostTables, node: SearchNode, level: int) -> int:
    """List the entries around a network, of any shape, that `mixed` takes while all tensors are still; how many."""
    s = node.s
    found, copies, more = 0, 1, 0.0
    if g.copies[level, 0] > 1.0:
        copies, more = 2, float(s.level[level, PARTS_APART] - 1) / (g.copies[level, 1] - 1.0)
    for way in range(node.context.shape[1]):
        for high in range(copies if node.weight[level, way] > 0.0 else 0):
            weight = node.weight[level, way] * (more if high else 1.0 - more)
            if weight > 0.0:
                row = g.rows[0, level] + node.context[level, way]
                lane = (g.still[level] * copies + high) * g.spreads[level]
                node.entry[found], node.entry_weight[found] = g.first[row] + lane * g.many[row], weight
                node.entry_row[found] = row
                found += 1
    return found


@inline
def weighed(g: CostTables, node: SearchNode, shape: int, further: int, entries: int) -> float:
    """Cost to go by the entries that are listed, or those so many `further` on; infinite if a shape is not worth it."""
    total = 0.0
    for k in range(entries):
        row = node.entry_row[k]
        stands = g.place[row, shape]
        if stands < 0:
            return float(np.inf)
        total += node.entry_weight[k] * g.values[node.entry[k] + further * g.many[row] + stands]
    return total


@inline
def counted_off(problem: SearchProblem, node: SearchNode, level: int, cost: int) -> float:
    """What is counted too much for reads of an output without an older value: energy (0), or others."""
    c, g, s = problem.c, problem.g, node.s
    parent = node.parent[level, c.output[0]]
    copies = s.level[parent, PARTS_APART]
    found = float(copies) * g.elided[cost, parent] + (g.narrow[cost, parent] if copies == 1 else 0.0)
    if g.copies[level, 0] == 1.0:
        found += float(s.level[level, PARTS_APART] - 1) * g.copy_costs[cost, level]
    return float(found)


@inline
def mixed(
    g: CostTables, node: SearchNode, values: Floats1, level: int, inside: int, b: int, shape: int, pieces: int
) -> float:
    """Cost to go of a node in a class of spread, mixed from entries of a table; infinite if it is not worth it."""
    s = node.s
    total, copies, more = 0.0, 1, 0.0
    if g.copies[level, 0] > 1.0:
        copies, more = 2, float(s.level[level, PARTS_APART] - 1) / (g.copies[level, 1] - 1.0)
    spreads, statuses = g.spreads[level], g.statuses[inside, level]
    for way in range(node.context.shape[1]):
        weight = node.weight[level, way]
        if weight > 0.0:
            row = g.rows[inside, level] + node.context[level, way]
            stands, many = g.place[row, shape], g.many[row]
            if stands < 0:
                return float(np.inf)
            at, step, each = g.first[row] + b * many + stands, copies * spreads * many, spreads * many
            if inside:
                at, step, each = g.first[row] + (stands * copies * spreads + b) * statuses, 1, spreads * statuses
            for k in range(pieces):
                place = at + node.mix[k] * step
                found = values[place]
                if more > 0.0 and found < np.inf:
                    found += more * (values[place + each] - found)
                total += weight * node.mix_weight[k] * found
    return float(total)


@jit
def mixed_by_innermost(
    problem: SearchProblem, node: SearchNode, level: int, mask: int, shape: int, entries: int
) -> float:
    """Cost to go of a node at least, whatever the order of the loops of its block: the least over the innermost one.

    `SearchNode.by_innermost` has what each loop leads to, infinite for dimensions without a loop.

    Words of the tensors that this loop does not move are still until loops that do must follow in the block; a window
    that it moves slides until its loop ends, and is taken to be still from then on.

    Parameters
    ----------
    mask : int
        Dimensions that have a loop in the block, as bits; at least one.
    shape, entries : int
        As for `weighed`.
    """
    c, g = problem.c, problem.g
    bounds, best, window = node.mapping.temporal[0, level], np.inf, g.window[0]
    each = (2 if g.copies[level, 0] > 1.0 else 1) * g.spreads[level]
    for t in range(c.relevant.shape[0]):
        steps, ends = 1.0, False
        for e in range(bounds.shape[0]):
            if mask >> e & 1:
                ends |= c.relevant[t, e]
                steps *= 1.0 if c.relevant[t, e] else float(bounds[e])
        node.lower[t] = 1.0 / steps if ends else 0.0
    for d in range(bounds.shape[0]):
        node.by_innermost[level, d] = np.inf
        if not mask >> d & 1:
            continue
        moved, new = 1.0, 0.0  # least shares of steps that move what d does not, and that do not slide the window
        for t in range(c.relevant.shape[0]):
            if t != window and not c.relevant[t, d]:
                moved = min(moved, node.lower[t])
        if window >= 0 and c.relevant[window, d] and g.partner[d] >= 0:
            new = 1.0 / float(bounds[d])
        found, both = 0.0, min(moved, new)
        for k in range(4):
            weight = both if k == 3 else moved - both if k == 2 else new - both if k == 1 else 1.0 - max(moved, new)
            if weight > 0.0:
                q = g.innermost[level, d, k]
                found += weight * weighed(g, node, shape, (q - g.still[level]) * each, entries)
        node.by_innermost[level, d] = found
        best = min(best, found)
    return float(best)


@inline
def passes(goal: Goal, found: Incumbents, bound: float) -> bool:
    """Whether a node is looked at; one above the limit lowers `open`."""
    if goal.kind[0] == FRONT or bound == np.inf:
        return bool(bound < np.inf)
    room = found.value.shape[0]
    if goal.kind[0] == BEST and found.many[0] == room and bound >= found.value[room - 1] * (1.0 - SURE):
        return False
    if bound > goal.limit[0] * (1.0 + SURE):
        found.open[0] = min(found.open[0], bound)
        return False
    return True


@inline
def passing_spreads(goal: Goal, found: Incumbents, g: CostTables, node: SearchNode, level: int) -> int:
    """Which classes of spread inside a node are looked at, as bits, after `bound_of`."""
    bits = 0
    for b in range(g.spreads[level]):
        if passes(goal, found, node.by_spread[b]):
            bits |= 1 << b
    return bits


@jit
def settle(problem: SearchProblem, goal: Goal, found: Incumbents, node: SearchNode) -> None:
    """Evaluate a complete mapping and enter it if it is wanted."""
    c, shapes, g, full = problem.c, problem.shapes, problem.g, node.full
    m, levels = node.mapping, c.fanout.shape[0]
    found.tally[1] += 1
    if shapes.leaves_any[0] and _leaves_remainders(c, m):
        _settle_remainders(problem, goal, found, node)
        return
    evaluate_many(c, m, full, NOT_ANYWAY, node.status, node.pj, node.cycles)
    energy, cycles = node.pj[0], node.cycles[0]
    if node.status[0] != VALID:
        return
    without_leak = energy
    for lv in range(levels):
        without_leak -= c.leak[lv] * float(cycles) * float(full.level[lv, USED])
    parts = node.energy[levels] - g.start[0] + g.macs[0] * c.mac[0]
    if abs(without_leak - parts) > 1e-9 * abs(energy) and not shapes.leaves_any[0]:
        found.tally[3] += 1
    held = 0
    for t in range(c.whole.shape[0]):
        for lv in range(c.nodes[goal.level[0], 0], c.nodes[goal.level[0], 1]):
            if m.keep[0, lv, t]:
                held += full.at[lv, t, TILE] * c.word_parts[lv, t, full.at[lv, t, PARTIAL]]
    node.column[ENERGY], node.column[CYCLES] = energy, float(cycles)
    node.column[WORDS], node.column[CAPACITY] = offchip_words(c, moved_units(c, full)), float(held)
    if within_limits(g.most, energy, node.column[CYCLES], node.column[WORDS]):
        enter(goal, found, m, node.column)


@jit
def _settle_remainders(problem: SearchProblem, goal: Goal, found: Incumbents, node: SearchNode) -> None:
    """Enter a complete mapping that leaves remainders, by what it costs at least, if its tiles fit."""
    c, g, full = problem.c, problem.g, node.full
    m = node.mapping
    if fit(c, m, 0, full, False) != VALID:
        return
    energy, cycles = cost_remainders(problem, node)
    last = c.fanout.shape[0]
    node.column[ENERGY], node.column[CYCLES] = energy, float(cycles)
    node.column[WORDS], node.column[CAPACITY] = offchip_words(c, node.read[last, 0] + node.written[last, 0]), 0.0
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
