"""The relaxation that bounds a search: tables of a map space, and when and how finer ones are made.

Axis letters as in node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from accelsim.inputs.errors import TablesTooLarge
from accelsim.inputs.units import ratio
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import KIND, NONE_OVERLAPS, OVERLAPS, Floats, Ints
from accelsim.search.exact import bounds
from accelsim.search.exact.bounds import make_bounds
from accelsim.search.exact.branch_kernel import root_bounds
from accelsim.search.exact.cost_tables import certain_energy, least_cycles, make_cost_tables, needed_words
from accelsim.search.exact.incumbents import BEST, Goal, Incumbents
from accelsim.search.exact.layout import layout_of
from accelsim.search.exact.node import CostTables, make_node, search_problem
from accelsim.search.exact.output_costs import OutputCosts, copies_apart
from accelsim.search.exact.ports import (
    LimitedPort,
    PortBounds,
    Waits,
    count_waits,
    count_words,
    least_share,
    limited_ports,
    waits_for_first,
)
from accelsim.search.exact.shapes import Grid, make_grid, quick_enough
from accelsim.search.exact.symmetries import symmetries
from accelsim.search.exact.tables import Bounds, Laid
from accelsim.search.exact.worth import SLACK, Known, States, Worth, first_energies, narrow_energies
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


def _tiles_slide(space: MapSpace) -> bool:
    """Whether a window can slide in a PE of a systolic array, or a tile whose fills each take a latency.

    Fewer words need not be fewer ramps, or fewer fills, then.
    """
    c = space.encoded.constants
    each = bool(c.latency.any() and (c.overlap == NONE_OVERLAPS).any())
    return bool((c.windowed & (each | c.stationary & (c.most_held != 1))).any())


def _order_of_tiles_counts(space: MapSpace) -> bool:
    """Whether engines move tiles of several sizes while others are used: then it counts which are neighbours."""
    dma = space.encoded.constants.dma
    return bool(space.imperfect and dma.size and (dma[:, -1, KIND] == OVERLAPS).any())


@dataclass(frozen=True, eq=False, slots=True)
class Stage:
    """How fine tables are; a finer stage has the same problem.

    Attributes
    ----------
    grid : Grid
        Tile shapes and ways to spread, and whether tables tell apart how many words storage nodes hold.
    spreads : int
        Classes of spatial spread that are told apart.
    ports : tuple of LimitedPort
        Ports that have tables of cycles.
    corners : bool or None
        Whether each entry bounds tiles from both sides; None: where that is quickly made.
    copies : bool
        Whether copies of the output are told apart.
    stays : bool
        Whether no word of the output comes back, as if partial sums stayed in place.
    """

    grid: Grid
    spreads: int
    ports: tuple[LimitedPort, ...]
    corners: bool | None
    copies: bool = False
    stays: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class TableProblem:
    """What tables are made for.

    Attributes
    ----------
    space : MapSpace
    known : Known or None
        What is looked for; tables hold nothing else. None: all mappings.
    every : bool
        Look at all orders and splits, not only at those that can be best.
    words : bool
        Whether words at the outermost level count; then there is a table of them.
    waits : Waits or None
        What all else waits for, where cycles count and something does not overlap.
    most_cycles : float
        Cycles of mappings that are looked for, at most.
    memory : int
        Bytes that all tables together may take.
    """

    space: MapSpace
    known: Known | None
    every: bool
    words: bool
    waits: Waits | None
    most_cycles: float
    memory: int

    def fill(self, stage: Stage, deadline: float | None, states: States, taken: int = 0) -> Filled:
        """Make the tables of a stage: of energy, of its ports, and of words at the outermost level if these count.

        `states`: those that are worth filling; `taken`: bytes that other tables take meanwhile.

        Raises
        ------
        TimeoutError, TablesTooLarge
        """
        grid, left = stage.grid, self.memory - taken
        c = self.space.encoded.constants
        others = len(stage.ports) + self.words + (self.waits is not None)
        many = 1 + others + (others > 0)  # one of the others is made, and then laid out
        waiting = None
        if self.waits is not None:
            waiting = make_bounds(
                grid, stage.spreads, self.waits.each, deadline, fine=stage.copies, corners=True,
                worth=self._worth(lambda least: self.most_cycles - least, states), most_bytes=left,
                many=many, waited_once=self.waits.waited_once,
            )  # fmt: skip
            states = waiting.states
        costs, once = first_energies(c) if stage.stays else narrow_energies(c), None
        worth = self._worth_energy(stage, states)
        known = self.known  # energy neither counts nor is limited: tables of the outermost port stand for its own
        timed_alone = known is not None and known.objective.alone == "cycles" and not np.isfinite(known.most[ENERGY])
        if timed_alone and stage.ports:
            (costs, once), worth = self._port_costs(stage, 0), self._worth(lambda _: self.most_cycles, states)
        energy = make_bounds(
            grid, stage.spreads, costs, deadline, fine=stage.copies, corners=stage.corners, worth=worth,
            most_bytes=left, many=many, waited_once=once,
        )  # fmt: skip
        left -= energy.nbytes + others * energy.values.nbytes
        laid = Laid(energy, others)
        laid_waiting = None if waiting is None else laid.put(waiting)
        del waiting  # makes room
        cycles = list[Bounds]()
        for at in range(len(stage.ports)):
            if at == 0 and timed_alone:
                found = energy
            else:
                costs, once = self._port_costs(stage, at)
                found = make_bounds(
                    grid, 1 if once is None else stage.spreads, costs, deadline, fine=stage.copies, corners=True,
                    waited_once=once, most_bytes=left, worth=self._worth(lambda _: self.most_cycles, energy.states),
                )  # fmt: skip  # where cycles count there are both corners
            cycles.append(laid.put(found))
            if not found.leads:
                break  # no other one counts
        stage = replace(stage, ports=stage.ports[: len(cycles)])
        words = None
        if self.words:
            words = make_bounds(
                grid, 1, count_words(grid), deadline, fine=stage.copies, corners=energy.corners,
                worth=self._worth(lambda _: math.inf, energy.states), most_bytes=left,
            )  # fmt: skip
            words = laid.put(words)
        ports = [
            PortBounds(port, each, least_share(grid, port)) for port, each in zip(stage.ports, cycles, strict=True)
        ]
        firsts = None if self.waits is None else waits_for_first(grid, self.waits)
        tables = make_cost_tables(energy, laid, ports, words, laid_waiting, firsts, every=self.every)
        return Filled(stage, energy, tables, energy.nbytes + laid.used * energy.values.nbytes)

    def _port_costs(self, stage: Stage, at: int) -> tuple[Floats, Floats | None]:
        """What an element's action takes at one of the ports, and once, with what all else waits for."""
        costs = least_share(stage.grid, stage.ports[at]) * stage.ports[at].cycles
        if self.waits is None:
            return costs, None
        waits = self.waits.inside_outermost()
        return costs + waits.each, waits.waited_once

    def _worth_energy(self, stage: Stage, states: States) -> Worth | None:
        """What mappings that are looked for take in energy besides what all take [pJ]."""
        known = self.known
        if known is None:
            return None
        needed = needed_words(self.space)
        least = least_cycles(self.space, needed) * (1.0 - SLACK)
        certain = certain_energy(self.space, stage.grid.options, needed)
        return Worth(lambda cycles: known.most_energy(max(cycles, least)), certain, needed, states)

    def _worth(self, most: Callable[[float], float], states: States) -> Worth | None:
        """What mappings that are looked for may cost in a table, by their least cycles."""
        return None if self.known is None else Worth(most, 0.0, needed_words(self.space), states)

    def states_worth(self, stage: Stage, deadline: float | None) -> States:
        """States that are worth filling by tables of the lower corner alone, which tell no spreads apart."""
        return make_bounds(
            stage.grid, 1, narrow_energies(self.space.encoded.constants), deadline, corners=False,
            worth=self._worth_energy(stage, {}), most_bytes=self.memory,
        ).states  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Filled:
    """The tables of a stage.

    Attributes
    ----------
    stage : Stage
    energy : Bounds
        Those of energy.
    tables : CostTables
        These and all others, as the search reads them.
    nbytes : int
        What they take.
    """

    stage: Stage
    energy: Bounds
    tables: CostTables
    nbytes: int


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
    problem : TableProblem
    filled : Filled
        The finest tables so far.
    may_be_finer, may_tell_rooms : bool
        Whether finer ones are not made yet: that have both corners or tell copies of the output apart; and that tell
        apart what storage nodes hold.

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
        every = every or _tiles_slide(space) or _order_of_tiles_counts(space)
        every = every or bool(c.links.any() or c.hop.any())
        memory = bounds.MOST_BYTES if memory is None else memory
        grid = grid or make_grid(space, memory)
        grid = grid if grid.every == every else replace(grid, every=every)
        most_cycles = math.inf
        if cycles and known is not None:
            most_cycles = known.most_cycles(certain_energy(space, grid.options, needed_words(space)))
            grid = quick_enough(grid, most_cycles)
        ragged = bool(grid.shapes.ragged.any())
        waits = count_waits(grid) if cycles and not ragged and c.overlap.any() else None
        self.problem = TableProblem(space, known, every, words, waits, most_cycles, memory)
        counted_off = self._counted_off(grid)
        self._tells_copies = counted_off > MUCH
        few = grid.shapes.total <= FEW_SHAPES
        stage = Stage(
            grid=grid,
            spreads=1 if not cycles else MORE_SPREADS if few else SPREADS,
            ports=tuple(self._busy_ports(grid)) if cycles else (),
            corners=True if ragged or every or cycles else None,
            copies=counted_off <= FAR_MORE and self._tells_copies and grid.shapes.total > SMALL_TABLES,
            stays=counted_off > FAR_MORE,
        )
        try:
            self.filled = self.problem.fill(stage, deadline, {})
        except TablesTooLarge:
            if stage.spreads == 1 and not stage.copies:
                raise
            self.filled = self._fill_fewer(stage, deadline)
        stage = self.filled.stage
        self._has_copies = any(len(each) > 1 for each in copies_apart(grid, self.filled.energy.deepest))
        self.may_be_finer = not stage.copies and (self._has_copies or stage.stays or not self.filled.energy.corners)
        self.may_tell_rooms = any(len(layout_of(grid).rooms_of(level)) for level in range(len(c.nodes)))

    def _busy_ports(self, grid: Grid) -> list[LimitedPort]:
        """The ports that have tables: the outermost one, and those that take the mapping known the most cycles.

        Where all else waits for words, or instances differ by remainders, the outermost one alone.
        """
        levels, found, known = self.problem.space.encoded.architecture.levels, limited_ports(grid), self.problem.known
        first = [port for port in found if port.level == 0][:1]
        if known is not None and self.problem.waits is None and not grid.shapes.ragged.any():
            first += [port for port in found if levels[port.level].name == known.busiest and port not in first]
        return first

    def _counted_off(self, grid: Grid) -> float:
        """Of the energy of the best mapping known, what copies of the output may save at most in tables of one copy."""
        known, space = self.problem.known, self.problem.space
        if known is None:
            return 0.0
        most = known.most_energy(least_cycles(space, needed_words(space)))
        costs = OutputCosts(grid, narrow_energies(space.encoded.constants))
        return ratio(float(costs.copy_costs[0]), most)

    def _fill_fewer(self, stage: Stage, deadline: float | None) -> Filled:
        """Make tables that are not too large.

        They leave out what is not worth it by smaller ones. At last there is a table of the outermost port alone, or of
        no port, and then of the lower corner alone if need be.
        """
        problem, states = self.problem, States()
        ragged = bool(stage.grid.shapes.ragged.any())
        counts = problem.known is not None and problem.known.objective.counts("energy")
        if (stage.spreads > 1 or stage.ports) and counts and not problem.every and not ragged:
            states = problem.states_worth(stage, deadline)
            for copies in sorted({stage.copies, False}, reverse=True):
                with suppress(TablesTooLarge):
                    return problem.fill(replace(stage, copies=copies), deadline, states)
        outermost = tuple(port for port in stage.ports[:1] if port.level == 0)
        stage = replace(stage, spreads=1, ports=outermost, copies=False)
        if outermost:
            with suppress(TablesTooLarge):
                return problem.fill(stage, deadline, states)
        corners = None if problem.waits is None and not (problem.every or ragged) else stage.corners
        return problem.fill(replace(stage, ports=(), corners=corners), deadline, states)

    @property
    def grid(self) -> Grid:
        """Tile shapes and ways to spread that are looked at."""
        return self.filled.stage.grid

    def limit(self, most: Floats) -> None:
        """Look from now on only at mappings with at most so much energy [pJ], cycles and off-chip words: float64[3]."""
        self.filled = replace(self.filled, tables=self.filled.tables._replace(most=most))

    @property
    def timed(self) -> bool:
        """Whether cycles or off-chip words are limited."""
        return bool(np.isfinite(self.filled.tables.most[[CYCLES, WORDS]]).any())

    def roots(self, goal: Goal, total: Incumbents) -> tuple[Ints, Floats]:
        """Shapes around the outermost network that can lead to anything, and their bounds, least first."""
        goal.limit[0] = math.inf
        shapes, tables = self.grid.shapes, self.filled.tables
        begin, values = np.zeros(shapes.total, np.int64), np.zeros(shapes.total)
        many = root_bounds(search_problem(self.grid, tables), goal, total, make_node(self.grid, tables), begin, values)
        rows = np.argsort(values[:many], kind="stable")
        alone = len(total.value) == 1 or self.problem.space.imperfect  # else all mappings are listed
        for order in symmetries(self.grid) if goal.kind[0] == BEST and alone else ():
            digits = begin[rows][:, None] // shapes.stride % shapes.sizes
            rows = rows[digits[:, order] @ shapes.stride >= begin[rows]]
        return begin[rows], values[rows]

    def due(self, *, alike: bool) -> int | None:
        """Nodes after which finer tables may pay, since the last ones; None if there are none: each are made once.

        `alike`: whether the first tables bound all root shapes alike.
        """
        energy, stage = self.filled.energy, self.filled.stage
        if self.may_be_finer:
            if stage.stays:
                return 0 if alike else int(min(ONCE_AN_ENTRY * energy.dense, MOST_ONCE))
            return int(NODES_AN_ENTRY * 2 * (1.0 if energy.corners else SOONER) * (energy.work + ENTRIES_A_TABLE))
        if self.may_tell_rooms:
            later = 2 if energy.structure.window < 0 else SLIDING
            return int(NODES_AN_ENTRY * later * (energy.work + ENTRIES_A_TABLE))
        return None

    def refine(self, deadline: float | None) -> None:
        """Make the finest tables of the next stages that fit."""
        before = self.filled
        stages = self._next_stages()
        self.may_be_finer = False
        for stage in stages:
            with suppress(TablesTooLarge):
                self.filled = self.problem.fill(stage, deadline, before.energy.states, before.nbytes)
                self.may_be_finer = self._has_copies and not stage.copies
                break
        self.limit(before.tables.most)

    def _next_stages(self) -> list[Stage]:
        """Stages that may come next, finest first: of both corners; that tell copies and rooms apart."""
        energy, stage = self.filled.energy, self.filled.stage
        rooms = [replace(stage.grid, rooms=True)] * self.may_tell_rooms
        self.may_tell_rooms = False
        if not self.may_be_finer:
            return [replace(stage, grid=grid, corners=energy.corners) for grid in rooms]
        fine = stage.stays or energy.corners or energy.dense <= bounds.MOST_COARSE
        return [
            replace(stage, grid=grid, corners=True, copies=copies, stays=False)
            for copies in dict.fromkeys((fine or self._tells_copies, fine))
            for grid in (*rooms, stage.grid)
        ]
