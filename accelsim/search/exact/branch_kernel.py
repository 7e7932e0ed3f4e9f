"""Branch and bound over mappings from the outside in, guided by the cost-to-go tables; compiled.

A node's cost of everything outside is exact, and the tables bound the rest from below. Axis letters as in node.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import DOWN, PARTIAL, PARTS_APART, READS, TILE, UP, USED, Detail
from accelsim.model.encode import PE, UNLIMITED, Batch, Bools, Constants, Floats, Ints
from accelsim.model.jit import inline, internal, jit
from accelsim.model.kernel import VALID, evaluate_many, fit
from accelsim.search.exact.found_kernel import (
    ANY,
    BEST,
    CAPACITY,
    COUNT,
    CYCLES,
    ENERGY,
    FRONT,
    HALF,
    SURE,
    WORDS,
    Found,
    Goal,
    all_dominated,
    dominated,
    enter,
    value_of,
)
from accelsim.search.exact.halves_kernel import Halves, Notes, count_whole, note_halves, take_up, ways_within
from accelsim.search.exact.node import Guide, Path
from accelsim.search.exact.node_kernel import (
    BEGUN,
    CHOICE,
    GROUP,
    OPTION,
    OPTION_END,
    ORDER,
    ORDER_END,
    ROOT,
    ROUTE,
    begin_root,
    flow,
    known_port_cycles,
    lay_block,
    lay_bounds,
    least_array_cycles,
    least_port_cycles,
    mix_statuses,
    most_instances,
    next_mid,
    place,
    shape_of,
    spread_over,
)
from accelsim.search.exact.remainders_kernel import cost_remainders
from accelsim.search.exact.shapes import Shapes

TIME, SPACE = 0, 1
AROUND, WITHIN_TILE, ONE, OF_ENERGY = np.int64(0), np.int64(1), np.int64(1), np.int64(0)
"""The two kinds of table, one set of statuses, of energy; functions would compile anew for each plain integer."""
NOT_ANYWAY: np.bool_ = np.bool_(False)
FIRST: np.bool_ = np.bool_(True)
FURTHER: np.bool_ = np.bool_(False)
LAST = 1 << 30


@internal
def _bound(
    c: Constants,
    shapes: Shapes,
    g: Guide,
    goal: Goal,
    found: Found,
    path: Path,
    s: Detail,
    level: int,
    inside: int,
    shape: int,
    pieces: int,
) -> float:
    """Least value that any completion of the node can have; infinite if none can be of use.

    The table is that of `level`, outside its network or (`inside`) at its tile.
    """
    base = g.inside[level] if inside else g.around[level]
    spreads, total = g.spreads[level], shapes.box.shape[1]
    least_cycles = 0 if goal.energy_only[0] else least_port_cycles(c, g, path, s, level)
    best, most = np.inf, float(g.most_cycles[0])
    if least_words(c, g, path, level) > g.most_words[0]:
        return best
    steps = g.macs[0] * float(c.mac_cycles[0]) / float(s.level[level, USED])
    settled = path.energy[level] - _counted_off(c, g, path, s, level, OF_ENERGY)
    front, enough = goal.kind[0] == FRONT, np.inf
    if not front:
        enough = goal.limit[0] * (1.0 + SURE)
        if goal.kind[0] == BEST and found.many[0] == found.value.shape[0]:
            enough = min(enough, found.value[found.many[0] - 1])
    for b in range(spreads):
        cycles = np.ceil(steps / g.edges[level, b] * (1.0 - SURE))
        if c.array[PE] >= 0 and not goal.energy_only[0]:
            cycles = least_array_cycles(c, shapes, path, s, level, inside, g.edges[level, b], cycles)
        cycles = max(float(least_cycles), cycles)
        if cycles > most:
            continue
        first = base + b * total + shape
        energy = settled + _mixed(g, path, g.values, level, inside, first, pieces)
        if not energy < np.inf:
            continue
        energy = max(energy, path.energy[level])
        if front:
            energy, cycles = max(energy, goal.floor[0]), max(cycles, goal.floor[1])
            path.column[WORDS] = float(path.read[level, 0] + path.written[level, 0])
            path.column[CAPACITY] = float(path.held[goal.level[0]]) if goal.level[0] <= level else 0.0
        value = _value_or_beaten(goal, found, path, energy, cycles)
        k, tables = 0, 0 if goal.energy_only[0] else g.mixed.shape[0]
        while k < tables and value < best and value <= enough:  # else what ports need makes no difference
            least = _mixed(g, path, g.mixed[k], level, inside, first, pieces) - _counted_off(
                c, g, path, s, level, k + 1
            )
            price = 0.0
            for p in range(g.ports.shape[0]):
                if g.price[k, p] > 0.0:
                    least += g.price[k, p] * known_port_cycles(c, g, path, s, level, p)
                    price += g.price[k, p] * most_instances(g, s, level, g.ports[p, 0])
            if g.with_energy[k]:
                least += path.energy[level]
                value = max(value, _value_at_price(goal, found, path, energy, cycles, least, price, most))
            else:
                cycles = max(cycles, np.ceil(least / price * (1.0 - SURE)))
                value = _value_or_beaten(goal, found, path, energy, cycles) if cycles <= most else np.inf
            k += 1
        best = min(best, value)
    return float(best)


@inline
def _value_or_beaten(goal: Goal, found: Found, path: Path, energy: float, cycles: float) -> float:
    """Value of energy and cycles; in a front infinite, if a mapping found is as good."""
    if goal.kind[0] != FRONT:
        return float(value_of(goal, energy, cycles))
    path.column[ENERGY], path.column[CYCLES] = energy, cycles
    return float(np.inf) if dominated(goal, found, path.column) else energy * cycles


@internal
def _value_at_price(
    goal: Goal, found: Found, path: Path, energy: float, cycles: float, total: float, price: float, most: float
) -> float:
    """Least value of completions whose energy is at least `energy` and `total - price * cycles`; docs/exact.md.

    Parameters
    ----------
    energy, cycles : float
        What all completions have at least.
    most : float
        Cycles that are allowed.
    """
    total *= 1.0 - SURE
    above = total - price * cycles
    if above <= energy:
        return 0.0
    if goal.kind[0] == FRONT:
        return float(np.inf) if all_dominated(goal, found, energy, cycles, total, price) else 0.0
    end = min((total - energy) / price, most)
    return float(min(value_of(goal, above, cycles), value_of(goal, max(energy, total - price * end), end)))


@inline
def _counted_off(c: Constants, g: Guide, path: Path, s: Detail, level: int, cost: int) -> float:
    """What is counted too much for reads of an output without an older value: of energy (0), or as `Guide.mixed`."""
    parent = path.parent[level, c.output[0]]
    found = float(s.level[parent, PARTS_APART]) * g.elided[cost, parent]
    return float(found + float(s.level[level, PARTS_APART] - 1) * g.copy_costs[cost, level])


@inline
def _mixed(g: Guide, path: Path, values: Floats, level: int, inside: int, first: int, pieces: int) -> float:
    """Cost to go of a node, mixed from entries of a table; `first`: where its class of spread and its shape are."""
    total = 0.0
    step = g.spreads[level] * g.fits.shape[1]
    for way in range(path.context.shape[1]):
        weight = path.weight[level, way]
        if weight > 0.0:
            at = first + path.context[level, way] * g.statuses[inside, level] * step
            for k in range(pieces):
                total += weight * path.mix_weight[k] * values[at + path.mix[k] * step]
    return total


@inline
def least_words(c: Constants, g: Guide, path: Path, level: int) -> int:
    """Storage words at the outermost level that any completion of the node has at least."""
    words = path.read[level, 0] + path.written[level, 0]
    for t in range(c.whole.shape[0]):
        if path.parent[level, t] == 0:
            words += g.needed[t] * min(c.word_parts[0, t, 0], c.word_parts[0, t, 1])
    return int(words)


@inline
def _passes(goal: Goal, found: Found, bound: float) -> bool:
    """Whether a node is looked at; one that is left for a later round lowers `open`."""
    if goal.kind[0] == FRONT or bound == np.inf:
        return bool(bound < np.inf)
    room = found.value.shape[0]
    if goal.kind[0] == BEST and found.many[0] == room and bound >= found.value[room - 1] * (1.0 - SURE):
        return False
    if bound > goal.limit[0] * (1.0 + SURE):
        found.open[0] = min(found.open[0], bound)
        return False
    return True


@internal
def next_block(
    c: Constants, shapes: Shapes, g: Guide, goal: Goal, found: Found, path: Path, s: Detail, level: int
) -> bool:
    """Go to the next temporal block of a level that may lead to something better."""
    all_orders = g.every_orders.shape[0] > 0
    while True:
        row = path.cursor[level, ORDER]
        if row < 0:
            if level == 0:
                if path.cursor[0, BEGUN]:
                    return False
                path.cursor[0, BEGUN] = 1
            else:
                if not next_mid(shapes, g, path, level, path.cursor[level, BEGUN] == 0):
                    return False
                path.cursor[level, BEGUN] = 1
            path.mix[0], path.mix_weight[0] = g.still[level], 1.0
            if level > 0 and not _next_affordable(c, shapes, g, goal, found, path, s, level):
                return False
            mask = lay_bounds(shapes, path, level)
            found.tally[0] += 1
            least = _bound(c, shapes, g, goal, found, path, s, level, AROUND, shape_of(shapes, path.mid[level]), ONE)
            if not _passes(goal, found, least):
                continue
            path.cursor[level, ORDER] = g.order_first[level, mask]
            path.cursor[level, ORDER_END] = g.order_first[level, mask + 1]
            if all_orders:  # look at all if one that can be best passes
                passes = False
                for one in range(g.order_first[level, mask], g.order_first[level, mask + 1]):
                    passes |= _passes(
                        goal, found, _block_bound(c, shapes, g, goal, found, path, s, level, one, g.orders)
                    )
                    if passes:
                        break
                if not passes:
                    path.cursor[level, ORDER] = -1
                    continue
                path.cursor[level, ORDER] = g.every_first[level, mask]
                path.cursor[level, ORDER_END] = g.every_first[level, mask + 1]
            continue
        if row >= path.cursor[level, ORDER_END]:
            path.cursor[level, ORDER] = -1
            continue
        path.cursor[level, ORDER] = row + 1
        orders = g.every_orders if all_orders else g.orders
        if _passes(goal, found, _block_bound(c, shapes, g, goal, found, path, s, level, row, orders)):
            return True


@internal
def _next_affordable(
    c: Constants, shapes: Shapes, g: Guide, goal: Goal, found: Found, path: Path, s: Detail, level: int
) -> bool:
    """From the shape around the network of a level go to the first that the table alone does not rule out, if any.

    Only where energy is all that matters; elsewhere the shape stays.
    """
    if not goal.energy_only[0] or g.spreads[level] > 1:
        return True
    settled = path.energy[level] - _counted_off(c, g, path, s, level, OF_ENERGY)
    while True:
        first = g.around[level] + shape_of(shapes, path.mid[level])
        energy = settled + _mixed(g, path, g.values, level, AROUND, first, ONE)
        if _passes(goal, found, value_of(goal, energy, 0.0) if energy < np.inf else energy):
            return True
        found.tally[0] += 1
        if not next_mid(shapes, g, path, level, False):
            return False


@internal
def _block_bound(
    c: Constants,
    shapes: Shapes,
    g: Guide,
    goal: Goal,
    found: Found,
    path: Path,
    s: Detail,
    level: int,
    row: int,
    orders: Ints,
) -> float:
    """Put the loops of a block in order and bound what may follow; infinite if nothing can be of use."""
    if not lay_block(c, shapes, g, path, s, level, row, orders):
        return np.inf
    found.tally[0] += 1
    pieces = mix_statuses(c, shapes, g, path, s, level, AROUND)
    shape = shape_of(shapes, path.mid[level])
    return float(_bound(c, shapes, g, goal, found, path, s, level, AROUND, shape, pieces))


@inline
def _next_group(shapes: Shapes, g: Guide, path: Path, level: int, ragged: Bools | None) -> bool:
    """Go to the next options that spread alike: one after the other, or those that lead to the next tile."""
    cursor = path.cursor[level]
    cursor[ROUTE] += 1
    if ragged is None or cursor[GROUP] < 0 or not _find_route(shapes, g, path, level):
        cursor[GROUP] += 1
        cursor[ROUTE] = 0
        group = g.group_first[level] + cursor[GROUP]
        if group >= g.group_first[level + 1]:
            return False
        if not g.by_tile[level]:
            cursor[OPTION] = g.option_first[level] + cursor[GROUP]
            cursor[OPTION_END] = cursor[OPTION] + 1
            return True
        if not _find_route(shapes, g, path, level):
            cursor[OPTION], cursor[OPTION_END] = 0, 0
    return True


@inline
def _find_route(shapes: Shapes, g: Guide, path: Path, level: int) -> bool:
    """Find the options that lead to a tile by one of the ways there are, number ROUTE; False if there is none."""
    cursor = path.cursor[level]
    rest, number, spread = g.tiles[g.group_first[level] + cursor[GROUP]], cursor[ROUTE], 0
    for d in range(shapes.sizes.shape[0]):
        ways = shapes.route[d, path.mid[level, d], rest // shapes.stride[d]]
        rest %= shapes.stride[d]
        many = 0
        while many < ways.shape[0] and ways[many] >= 0:
            many += 1
        if many == 0:
            return False
        spread += ways[number % many] * shapes.spread_stride[d]
        number //= many
    if number > 0:
        return False
    cursor[OPTION], cursor[OPTION_END] = g.option_of[level, spread], g.option_of[level, spread + 1]
    return True


@internal
def next_spread(
    c: Constants,
    shapes: Shapes,
    g: Guide,
    goal: Goal,
    found: Found,
    path: Path,
    s: Detail,
    level: int,
    ragged: Bools | None,
) -> bool:
    """Go to the next way to spread and to keep that may lead to something better."""
    levels, tensors = c.fanout.shape[0], c.whole.shape[0]
    innermost = level == levels - 1
    keep, cursor = path.mapping.keep[0], path.cursor[level]
    choices = 1 if innermost else g.keep_first[level + 2] - g.keep_first[level + 1]
    while True:
        cursor[CHOICE] += 1
        choice = cursor[CHOICE]
        if choice >= choices:
            choice, cursor[CHOICE] = 0, 0
            cursor[OPTION] += 1
            while cursor[OPTION] >= cursor[OPTION_END]:
                if not _next_group(shapes, g, path, level, ragged):
                    return False
            if not spread_over(c, shapes, g, path, s, level, cursor[OPTION]):
                cursor[CHOICE] = choices
                continue
        shape = shape_of(shapes, path.tile[level + 1])
        if not innermost:
            k = g.keep_first[level + 1] + choice
            if not g.fits[k, shape]:
                continue
            path.held[level + 1] = path.held[level] if c.nodes[level + 1, 0] <= level else 0
            for t in range(tensors):
                keep[level + 1, t] = g.keeps[k, t]
                path.parent[level + 1, t] = level + 1 if g.keeps[k, t] else path.parent[level, t]
                path.share[level + 1, t] = 1.0
                if not g.keeps[k, t]:
                    groups = s.at[level, t, UP if t == c.output[0] else DOWN]
                    share = float(groups * s.level[level, USED]) / float(s.level[level + 1, USED])
                    path.share[level + 1, t] = path.share[level, t] * share
                else:
                    s.at[level + 1, t, TILE] = shapes.box[t, shape]
                    path.held[level + 1] += shapes.box[t, shape] * c.word_parts[level + 1, t, 0]
            if path.held[level + 1] > c.capacity[level + 1] and c.capacity[level + 1] != UNLIMITED:
                continue
        found.tally[0] += 1
        if not flow(c, shapes, path, s, level + 1, ragged):
            continue
        if innermost:
            return True
        place(c, g, path, level + 1)
        pieces = mix_statuses(c, shapes, g, path, s, level, WITHIN_TILE)
        path.least[0] = _bound(c, shapes, g, goal, found, path, s, level + 1, WITHIN_TILE, shape, pieces)
        if _passes(goal, found, path.least[0]):
            return True


@internal
def _settle(
    c: Constants,
    shapes: Shapes,
    g: Guide,
    goal: Goal,
    found: Found,
    path: Path,
    s: Detail,
    full: Detail,
    halves: Halves,
    notes: Notes,
    ragged: Bools | None,
) -> None:
    """Evaluate a complete mapping and enter it if it is wanted."""
    m, levels = path.mapping, c.fanout.shape[0]
    found.tally[1] += 1
    if ragged is not None:
        left_over = _leaves_remainders(c, m)
        if left_over:
            _settle_remainders(c, shapes, g, goal, found, path, s, full)
            return
    evaluate_many(c, m, full, NOT_ANYWAY, path.status, path.pj, path.cycles)
    energy, cycles = path.pj[0], path.cycles[0]
    if path.status[0] != VALID or cycles > g.most_cycles[0]:
        return
    without_leak = energy
    for lv in range(levels):
        without_leak -= c.leak[lv] * float(cycles) * float(full.level[lv, USED])
    parts = path.energy[levels] + notes.shift[0] - g.start[0] + g.macs[0] * c.mac[0]
    if abs(without_leak - parts) > 1e-9 * abs(energy) and ragged is None:
        found.tally[3] += 1
    if goal.kind[0] == HALF:
        count_whole(path, halves, notes, energy, path.ways[levels])
        return
    words, held = 0, 0
    for t in range(c.whole.shape[0]):
        words += (full.at[0, t, READS] + full.at[0, t, READS + 1] + full.at[0, t, READS + 2]) * c.word_parts[
            0, t, full.at[0, t, PARTIAL]
        ]
        for lv in range(c.nodes[goal.level[0], 0], c.nodes[goal.level[0], 1]):
            if m.keep[0, lv, t]:
                held += full.at[lv, t, TILE] * c.word_parts[lv, t, full.at[lv, t, PARTIAL]]
    if words > g.most_words[0]:
        return
    if goal.kind[0] == COUNT:
        found.tally[2] += path.ways[levels]
        return
    path.column[ENERGY], path.column[CYCLES] = energy, float(cycles)
    path.column[WORDS], path.column[CAPACITY] = float(words), float(held)
    enter(goal, found, m, path.column, path.ways[levels])


@internal
def _settled(c: Constants, path: Path, level: int) -> bool:
    """Whether the words at the outermost level are settled by the tiles of a level and all around."""
    settled = True
    for t in range(c.whole.shape[0]):
        settled &= path.parent[level, t] > 0
    return bool(settled)


@internal
def _goes_in(
    c: Constants,
    shapes: Shapes,
    goal: Goal,
    found: Found,
    path: Path,
    s: Detail,
    halves: Halves,
    notes: Notes,
    level: int,
) -> bool:
    """Whether to look through what lies inside a tile of a level."""
    if goal.kind[0] == COUNT:
        if not _settled(c, path, level):
            return True
        found.reached[level, shape_of(shapes, path.tile[level])] += path.ways[level]
        return False
    if notes.level[0] != level:
        return True
    limit = goal.limit[0] * (1.0 + SURE)
    if found.reached.shape[0] > 1 and _settled(c, path, level):
        ways = path.ways[level] * ways_within(halves, notes, path.energy[level] - path.energy[level - 1], limit)
        found.reached[level, shape_of(shapes, path.tile[level])] += ways
        return False
    if not note_halves(c, shapes, path, s, halves, notes, path.least[0], limit):
        found.tally[4] = 1
    return False


@internal
def _settle_remainders(
    c: Constants, shapes: Shapes, g: Guide, goal: Goal, found: Found, path: Path, s: Detail, full: Detail
) -> None:
    """Enter a complete mapping that leaves remainders, by what it costs at least, if its tiles fit."""
    m = path.mapping
    if fit(c, m.temporal[0], m.x[0], m.y[0], m.keep[0], full, False) != VALID:
        return
    energy, cycles = cost_remainders(c, shapes, path, s)
    if cycles > g.most_cycles[0]:
        return
    path.column[ENERGY], path.column[CYCLES] = energy, float(cycles)
    path.column[WORDS], path.column[CAPACITY] = 0.0, 0.0
    enter(goal, found, m, path.column, path.ways[c.fanout.shape[0]])


@internal
def _leaves_remainders(c: Constants, m: Batch) -> bool:
    for d in range(c.bounds.shape[0]):
        product = 1
        for lv in range(c.fanout.shape[0]):
            product *= m.temporal[0, lv, d] * m.x[0, lv, d] * m.y[0, lv, d]
        if product != c.bounds[d]:
            return True
    return False


@jit
def root_bounds(
    c: Constants, shapes: Shapes, g: Guide, goal: Goal, found: Found, path: Path, s: Detail, begin: Ints, bounds: Floats
) -> int:
    """Bound each tile shape around the outermost network; returns how many can lead to anything."""
    begin_root(c, g, path, s)
    count, first = 0, FIRST
    while next_mid(shapes, g, path, ROOT, first):
        first = FURTHER
        shape = shape_of(shapes, path.mid[0])
        path.mix[0], path.mix_weight[0] = g.still[0], 1.0
        found.tally[0] += 1
        bound, mask = np.inf, lay_bounds(shapes, path, ROOT)
        if _bound(c, shapes, g, goal, found, path, s, ROOT, AROUND, shape, ONE) == np.inf:
            continue
        for row in range(g.order_first[0, mask], g.order_first[0, mask + 1]):
            bound = min(bound, _block_bound(c, shapes, g, goal, found, path, s, ROOT, row, g.orders))
        if bound < np.inf:
            begin[count], bounds[count] = shape, bound
            count += 1
    return count


@inline
def _ends(goal: Goal, found: Found, stop: Ints) -> bool:
    """Whether a search ends before it has looked through everything."""
    found_any = goal.kind[0] == ANY and found.many[0] > 0
    return bool(stop[0] != 0 or found.tally[0] > stop[1] or found.tally[4] != 0 or found_any)


@internal
def _look_inside(
    c: Constants,
    shapes: Shapes,
    g: Guide,
    goal: Goal,
    found: Found,
    path: Path,
    s: Detail,
    full: Detail,
    stop: Ints,
    halves: Halves,
    notes: Notes,
    top: int,
    ragged: Bools | None,
) -> bool:
    """Look through everything inside a tile of level `top`; False if that ended early."""
    levels, level, phase = c.fanout.shape[0], top, TIME
    while level >= top and not _ends(goal, found, stop):
        if phase == TIME:
            if next_block(c, shapes, g, goal, found, path, s, level):
                phase = SPACE
                path.cursor[level, GROUP], path.cursor[level, CHOICE] = -1, LAST
                path.cursor[level, OPTION], path.cursor[level, OPTION_END] = 0, 0
            else:
                level -= 1
                phase = SPACE
        elif not next_spread(c, shapes, g, goal, found, path, s, level, ragged):
            phase = TIME
        elif level == levels - 1:
            _settle(c, shapes, g, goal, found, path, s, full, halves, notes, ragged)
        elif _goes_in(c, shapes, goal, found, path, s, halves, notes, level + 1):
            level += 1
            phase = TIME
            path.cursor[level, ORDER], path.cursor[level, BEGUN] = -1, 0
    return bool(level < top)


@jit
def explore(
    c: Constants,
    shapes: Shapes,
    g: Guide,
    goal: Goal,
    found: Found,
    path: Path,
    s: Detail,
    full: Detail,
    begin: Ints,
    bounds: Floats,
    stop: Ints,
    halves: Halves,
    notes: Notes,
    ragged: Bools | None,
) -> None:
    """Look through everything inside some shapes around the outermost network.

    Parameters
    ----------
    begin : int64[*]
        The shapes.
    bounds : float64[*]
        Their bounds.
    stop : int64[2]
        The first ends it when not 0, the second after so many nodes.
    halves : Halves
        What HALF begins with: the outermost tile.
    notes : Notes
        What it comes to, or that it is not what is looked for.
    ragged : bool[D], or None
        Dimensions that may leave remainders; None: no dimension, and then what is only for these is not compiled.
    """
    dims = shapes.sizes.shape[0]
    begin_root(c, g, path, s)
    for root in range(begin.shape[0]):
        if _ends(goal, found, stop):
            found.open[0] = min(found.open[0], bounds[root])
            continue
        if not _passes(goal, found, bounds[root]):
            continue
        rest = begin[root]
        for d in range(dims):
            path.mid[0, d] = rest // shapes.stride[d]
            rest -= path.mid[0, d] * shapes.stride[d]
        path.cursor[0, ORDER], path.cursor[0, BEGUN] = -1, 0
        if not _look_inside(c, shapes, g, goal, found, path, s, full, stop, halves, notes, ROOT, ragged):
            found.open[0] = min(found.open[0], bounds[root])


@jit
def go_on(
    c: Constants,
    shapes: Shapes,
    g: Guide,
    goal: Goal,
    found: Found,
    path: Path,
    s: Detail,
    full: Detail,
    begin: Ints,
    stop: Ints,
    halves: Halves,
    notes: Notes,
) -> None:
    """Go on with some states of outer halves to the tiles of the next level, or to whole mappings.

    Parameters
    ----------
    begin : int64[*]
        The states.
    """
    for state in begin:
        if _ends(goal, found, stop):
            break
        take_up(path, halves, notes, state)
        level = notes.level[0] - 1
        path.cursor[level, ORDER], path.cursor[level, BEGUN] = -1, 0
        _look_inside(c, shapes, g, goal, found, path, s, full, stop, halves, notes, level, None)
