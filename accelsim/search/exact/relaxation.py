"""The relaxation that bounds a search: tables of a map space, and when and how finer ones are made.

Axis letters as in node.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from accelsim.inputs.errors import TablesTooLarge
from accelsim.inputs.units import ratio
from accelsim.mapspace.space import MapSpace
from accelsim.model.detail import make_detail
from accelsim.model.encode import KIND, OVERLAPS, Floats, Ints
from accelsim.search.exact import bounds
from accelsim.search.exact.bounds import make_bounds
from accelsim.search.exact.branch_kernel import root_bounds
from accelsim.search.exact.cost_tables import (
    certain_energy,
    least_cycles,
    make_cost_tables,
    needed_words,
)
from accelsim.search.exact.incumbents import BEST, Goal, Incumbents
from accelsim.search.exact.layout import layout_of
from accelsim.search.exact.node import CostTables, make_node
from accelsim.search.exact.output_costs import OutputCosts, copies_apart
from accelsim.search.exact.ports import (
    LimitedPort,
    PortBounds,
    count_waits,
    count_words,
    least_share,
    limited_ports,
    waits_for_first,
)
from accelsim.search.exact.shapes import Grid, make_grid, quick_enough
from accelsim.search.exact.symmetries import symmetries
from accelsim.search.exact.tables import Bounds, Laid
from accelsim.search.exact.worth import (
    SLACK,
    Known,
    States,
    Worth,
    first_energies,
    narrow_energies,
)
from accelsim.search.value_kernel import CYCLES, ENERGY, WORDS

SPREADS, MORE_SPREADS, FEW_SHAPES = 3, 5, 8192
"""Classes of spatial spread that the tables tell apart where cycles count; more if there are at most so many shapes."""
SMALL_TABLES, MUCH = 2048, 0.02
"""Tables of more tile shapes tell copies of the output apart at once, if those of one copy would count off more than
this share of the energy of the best mapping known."""
FAR_MORE, ONCE_AN_ENTRY, MOST_ONCE = 10.0, 2.0, 8_000_000
"""If they would count off more than so many times that energy, in the first tables no word of the output comes back;
after so many nodes for each of their entries, or so many nodes, the others are made, at once if all roots are alike."""
NODES_AN_ENTRY, SOONER, SLIDING = 0.05, 0.2, 10.0
"""After so many nodes for each entry of the finer tables, and for each way to spread a tile in a context that they
look at, these are made: the search has taken about as long as they take then. They have both corners, which large ones
have sooner, for the lower one says little of networks that are bypassed; then they tell copies of the output apart.
Tables that tell apart what storage nodes hold are made later where windows slide: nodes are quick there."""
ENTRIES_A_TABLE = 200_000
"""To make a table takes as long as so many of its entries besides."""


FILLED = ("grid", "bounds", "laid", "words", "waiting", "port_tables", "tables", "spreads", "ports")
"""What finer tables replace, and is as before if they are not kept."""


def _may_slide_in_array(space: MapSpace) -> bool:
    """Whether a PE of a systolic array can hold a window that slides: fewer words need not be fewer ramps then."""
    c = space.encoded.constants
    return bool((c.stationary & c.windowed & (c.most_held != 1)).any())


def _order_of_tiles_counts(space: MapSpace) -> bool:
    """Whether engines move tiles of several sizes while others are used: then it counts which are neighbours."""
    dma = space.encoded.constants.dma
    return bool(space.imperfect and dma.size and (dma[:, -1, KIND] == OVERLAPS).any())


class Relaxation:
    """The cost-to-go tables of a map space: coarse ones at first, finer ones when the search asks for them.

    Parameters
    ----------
    space : MapSpace
    cycles : bool
        Whether cycles count; then the tables tell some classes of spatial spread apart.
    every : bool
        Look at all orders and splits, not only at those that can be best.
    words : bool
        Whether words at the outermost level count; then there are tables of them.
    grid : Grid, optional
        Tile shapes and ways to spread that are looked at; default: all of the space.
    known : Known, optional
        What is looked for; the tables hold nothing else. Default: all mappings.
    deadline : float, optional
        When to give up making the tables, by `time.monotonic`.
    memory : int, optional
        Bytes that all tables together may take; default: `bounds.MOST_BYTES`.

    Attributes
    ----------
    bounds : Bounds
        The tables of energy.
    tables : CostTables
        These and all others, as the search reads them.

    Raises
    ------
    TimeoutError
        If the tables are not ready by then.
    TablesTooLarge
        If they would take more memory.
    """

    def __init__(
        self,
        space: MapSpace,
        *,
        cycles: bool = False,
        words: bool = False,
        every: bool = False,
        grid: Grid | None = None,
        known: Known | None = None,
        deadline: float | None = None,
        memory: int | None = None,
    ) -> None:
        c = space.encoded.constants
        every = every or _may_slide_in_array(space) or _order_of_tiles_counts(space)
        every = every or bool(c.links.any() or c.hop.any())
        self.space, self.known = space, known
        self.memory = bounds.MOST_BYTES if memory is None else memory
        grid = grid or make_grid(space, self.memory)
        self.grid = grid if grid.every == every else replace(grid, every=every)
        self.most_cycles = math.inf
        if cycles and known is not None:
            self.most_cycles = known.most_cycles(certain_energy(space, self.grid.options, needed_words(space)))
            self.grid = quick_enough(self.grid, self.most_cycles)
        few = self.grid.shapes.total <= FEW_SHAPES
        self.counts_words, self.every = words, every
        ragged = bool(self.grid.shapes.ragged.any())
        waits = cycles and not ragged and c.overlap.any()
        self.waits = count_waits(self.grid) if waits else None
        self.spreads = 1 if not cycles else MORE_SPREADS if few else SPREADS
        self.ports = self._busy_ports() if cycles else []
        self.corners = True if ragged or every or cycles else None
        counted_off = self._counted_off()
        self.once, self.counts_copies = counted_off > FAR_MORE, counted_off > MUCH
        fine = not self.once and self.counts_copies and self.grid.shapes.total > SMALL_TABLES
        try:
            self._fill_tables(deadline, fine=fine)
        except TablesTooLarge:
            if self.spreads == 1 and not fine:
                raise
            fine = self._fill_fewer(deadline, fine=fine)
        self.apart = any(len(each) > 1 for each in copies_apart(self.grid, self.bounds.deepest))
        self.coarse = not fine and (self.apart or self.once or not self.bounds.corners)
        self.fine = fine
        self.lacks_rooms = any(len(layout_of(self.grid).rooms_of(level)) for level in range(len(c.nodes)))

    def _busy_ports(self) -> list[LimitedPort]:
        """The ports that have tables: the outermost one, and those that take the mapping known the most cycles.

        Where all else waits for words, or instances differ by remainders, the outermost one alone.
        """
        levels, found = self.space.encoded.architecture.levels, limited_ports(self.grid)
        first = [port for port in found if port.level == 0][:1]
        if self.known is not None and self.waits is None and not self.grid.shapes.ragged.any():
            busiest = self.known.busiest
            first += [port for port in found if levels[port.level].name == busiest and port not in first]
        return first

    def _counted_off(self) -> float:
        """Of the energy of the best mapping known, what copies of the output may save at most in tables of one copy."""
        if self.known is None:
            return 0.0
        most = self.known.most_energy(least_cycles(self.space, needed_words(self.space)))
        costs = OutputCosts(self.grid, narrow_energies(self.space.encoded.constants))
        return ratio(float(costs.copy_costs[0]), most)

    def _fill_fewer(self, deadline: float | None, *, fine: bool) -> bool:
        """Make tables that are not too large; returns whether they tell copies apart.

        They leave out what is not worth it by tables of the lower corner alone, which tell no spreads apart. At last
        there is a table of the outermost port alone, or of no port, and then of the lower corner alone if need be.
        """
        states: States = {}
        counts = self.known is not None and self.known.objective.counts("energy")
        if (self.spreads > 1 or self.ports) and counts and not self.every and not self.grid.shapes.ragged.any():
            states = make_bounds(
                self.grid, 1, narrow_energies(self.space.encoded.constants), deadline, corners=False,
                worth=self._worth_energy({}), most_bytes=self.memory,
            ).states  # fmt: skip
            for some in sorted({fine, False}, reverse=True):
                with suppress(TablesTooLarge):
                    self._fill_tables(deadline, fine=some, states=states)
                    return some
        self.spreads, self.ports = 1, [port for port in self.ports[:1] if port.level == 0]
        if self.ports:
            with suppress(TablesTooLarge):
                self._fill_tables(deadline, fine=False, states=states)
                return False
        self.ports = []
        if self.waits is None and not (self.every or self.grid.shapes.ragged.any()):
            self.corners = None
        self._fill_tables(deadline, fine=False, states=states)
        return False

    def _fill_tables(
        self, deadline: float | None, *, fine: bool, again: bool = False, states: States | None = None
    ) -> None:
        """Make the tables of energy, of the first ports, and of words at the outermost level if these count.

        `states`: those that are worth filling; where they are made again, those of the tables so far.
        """
        left = self.memory - (self.table_bytes if again else 0)
        c = self.space.encoded.constants
        energies = first_energies(c) if self.once else narrow_energies(c)
        others = len(self.ports) + self.counts_words + (self.waits is not None)
        many = 1 + others + (others > 0)  # one of the others is made, and then laid out
        states = self.bounds.states if again else states or {}
        self.waiting = self.words = waiting = None
        if self.waits is not None:
            waiting = make_bounds(
                self.grid, self.spreads, self.waits.each, deadline, fine=fine, corners=True,
                worth=self._worth(lambda least: self.most_cycles - least, states), most_bytes=left,
                many=many, once=self.waits.once,
            )  # fmt: skip
            states = waiting.states
        costs, once, worth = energies, None, self._worth_energy(states)
        if self._is_timed_alone() and self.ports:
            (costs, once), worth = self._port_costs(0), self._worth(lambda _: self.most_cycles, states)
        self.bounds: Bounds = make_bounds(
            self.grid, self.spreads, costs, deadline, fine=fine, corners=self.corners, worth=worth, most_bytes=left,
            many=many, once=once,
        )  # fmt: skip
        left -= self.bounds.nbytes + others * self.bounds.values.nbytes
        self.laid = Laid(self.bounds, others)
        if waiting is not None:
            self.waiting = self.laid.put(waiting)
        del waiting  # makes room
        laid = list[Bounds]()
        for at in range(len(self.ports)):
            found = self._count_port(at, deadline, fine, left)
            laid.append(self.laid.put(found))
            if not found.leads:
                break  # no other one counts
        self.ports = self.ports[: len(laid)]
        self.port_tables = [
            PortBounds(port, each, least_share(self.grid, port)) for port, each in zip(self.ports, laid, strict=True)
        ]
        if self.counts_words:
            words = make_bounds(
                self.grid, 1, count_words(self.grid), deadline, fine=fine, corners=self.bounds.corners,
                worth=self._worth_anything(), most_bytes=left,
            )  # fmt: skip
            self.words = self.laid.put(words)
        self._lay_out()

    def _lay_out(self) -> None:
        """Lay the tables out as the search reads them."""
        firsts = None if self.waits is None else waits_for_first(self.grid, self.waits)
        self.tables: CostTables = make_cost_tables(
            self.bounds, self.laid, self.port_tables, self.words, self.waiting, firsts, every=self.every
        )

    @property
    def table_bytes(self) -> int:
        """What the tables take."""
        return self.bounds.nbytes + self.laid.used * self.bounds.values.nbytes

    def _count_port(self, at: int, deadline: float | None, fine: bool, left: int) -> Bounds:
        """A table of one of the first ports; of the outermost one, and of what all else waits for further in."""
        if at == 0 and self._is_timed_alone():
            return self.bounds
        costs, once = self._port_costs(at)
        return make_bounds(
            self.grid, 1 if once is None else self.spreads, costs, deadline, fine=fine, corners=True, once=once,
            most_bytes=left, worth=self._worth(lambda _: self.most_cycles, self.bounds.states),
        )  # fmt: skip  # where cycles count there are both corners

    def _is_timed_alone(self) -> bool:
        """Whether energy neither counts nor is limited: the tables of the outermost port stand for those of energy."""
        known = self.known
        return known is not None and known.objective.alone == "cycles" and not np.isfinite(known.most[ENERGY])

    def _port_costs(self, at: int) -> tuple[Floats, Floats | None]:
        """What an element's action takes at one of the first ports, and once, with what all else waits for."""
        costs = least_share(self.grid, self.ports[at]) * self.ports[at].cycles
        if self.waits is None:
            return costs, None
        waits = self.waits.inside_outermost()
        return costs + waits.each, waits.once

    def _worth_energy(self, states: States) -> Worth | None:
        """What mappings that are looked for take in energy besides what all take [pJ]."""
        known = self.known
        if known is None:
            return None
        needed = needed_words(self.space)
        least = least_cycles(self.space, needed) * (1.0 - SLACK)
        certain = certain_energy(self.space, self.grid.options, needed)
        return Worth(lambda cycles: known.most_energy(max(cycles, least)), certain, needed, states)

    def _worth(self, most: Callable[[float], float], states: States) -> Worth | None:
        """What mappings that are looked for may cost in a table, by their least cycles."""
        return None if self.known is None else Worth(most, 0.0, needed_words(self.space), states)

    def _worth_anything(self) -> Worth | None:
        """The states that are worth filling in the tables of energy, whatever else they cost."""
        return self._worth(lambda _: math.inf, self.bounds.states)

    def limit(self, most: Floats) -> None:
        """Look from now on only at mappings with at most so much energy [pJ], cycles and outer words: float64[3]."""
        self.tables = self.tables._replace(most=most)

    @property
    def timed(self) -> bool:
        """Whether cycles or outer words are limited."""
        return bool(np.isfinite(self.tables.most[[CYCLES, WORDS]]).any())

    def roots(self, goal: Goal, total: Incumbents) -> tuple[Ints, Floats]:
        """Shapes around the outermost network that can lead to anything, and their bounds, least first."""
        goal.limit[0] = math.inf
        encoded, shapes = self.space.encoded, self.grid.shapes
        node, detail = make_node(self.grid, self.tables), make_detail(encoded)
        begin, values = np.zeros(shapes.total, np.int64), np.zeros(shapes.total)
        many = root_bounds(encoded.constants, shapes, self.tables, goal, total, node, detail, begin, values)
        rows = np.argsort(values[:many], kind="stable")
        alone = len(total.value) == 1 or self.space.imperfect  # else all mappings are listed
        for order in symmetries(self.grid) if goal.kind[0] == BEST and alone else ():
            digits = begin[rows][:, None] // shapes.stride % shapes.sizes
            rows = rows[digits[:, order] @ shapes.stride >= begin[rows]]
        return begin[rows], values[rows]

    def due(self, *, alike: bool) -> int | None:
        """Nodes after which finer tables may pay, since the last ones; None if there are none: each are made once.

        `alike`: whether the first tables bound all root shapes alike.
        """
        entries, work = self.bounds.dense, self.bounds.work
        if self.coarse:
            if self.once:
                return 0 if alike else int(min(ONCE_AN_ENTRY * entries, MOST_ONCE))
            return int(NODES_AN_ENTRY * 2 * (1.0 if self.bounds.corners else SOONER) * (work + ENTRIES_A_TABLE))
        if self.lacks_rooms:
            later = 2 if self.bounds.structure.window < 0 else SLIDING
            return int(NODES_AN_ENTRY * later * (work + ENTRIES_A_TABLE))
        return None

    def refine(self, deadline: float | None) -> None:
        """Make finer tables that fit, in turn: of both corners; that tell copies and rooms apart."""
        most = self.tables.most
        before = {name: getattr(self, name) for name in FILLED}
        try:
            if self.coarse:
                fine = self.once or self.bounds.corners or self.bounds.dense <= bounds.MOST_COARSE
                self.once, self.corners = False, True
                grids = [replace(self.grid, rooms=True)] * self.lacks_rooms + [self.grid]
                ways = list(itertools.product(dict.fromkeys((fine or self.counts_copies, fine)), grids))
                self.lacks_rooms = False
                for fine, self.grid in ways:
                    try:
                        self._fill_tables(deadline, fine=fine, again=True)
                        break
                    except TablesTooLarge:
                        if (fine, self.grid) == ways[-1]:
                            raise
                self.coarse, self.fine = self.apart and not fine, fine
            elif self.lacks_rooms:
                self.lacks_rooms, self.corners = False, self.bounds.corners
                self.grid = replace(self.grid, rooms=True)
                self._fill_tables(deadline, fine=self.fine, again=True)
        except TablesTooLarge:
            self.coarse = False  # all further ones are larger
            for name, tables in before.items():
                setattr(self, name, tables)
        self.limit(most)
