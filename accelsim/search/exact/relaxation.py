"""The relaxation that bounds a search: the cost-to-go tables of a map space, coarser ones where memory is short.

Axis letters as in node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from accelsim.inputs.errors import TablesTooLarge
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import KIND, NONE_OVERLAPS, OVERLAPS, Floats, Ints
from accelsim.search.exact import bounds
from accelsim.search.exact.bounds import make_bounds
from accelsim.search.exact.branch_kernel import root_bounds
from accelsim.search.exact.cost_tables import certain_energy, least_cycles, make_cost_tables, needed_words
from accelsim.search.exact.incumbents import BEST, Goal, Incumbents
from accelsim.search.exact.node import CostTables, make_node, search_problem
from accelsim.search.exact.ports import (
    LimitedPort,
    count_words,
    least_share,
    limited_ports,
)
from accelsim.search.exact.shapes import Grid, make_grid, quick_enough
from accelsim.search.exact.symmetries import symmetries
from accelsim.search.exact.tables import Bounds, Laid
from accelsim.search.exact.worth import SLACK, Known, States, Worth, narrow_energies
from accelsim.search.value_kernel import CYCLES, ENERGY, WORDS

SPREADS, MORE_SPREADS, FEW_SHAPES = 3, 5, 8192
"""Classes of spatial spread that the tables tell apart where cycles count; more if there are at most so many shapes."""


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
    """How fine tables are.

    Attributes
    ----------
    grid : Grid
        Tile shapes and ways to spread.
    spreads : int
        Classes of spatial spread that are told apart.
    ports : tuple of LimitedPort
        Ports that have tables of cycles.
    corners : bool or None
        Whether each entry bounds tiles from both sides; None: where that is quickly made.
    copies : bool
        Whether copies of the output are told apart.
    """

    grid: Grid
    spreads: int
    ports: tuple[LimitedPort, ...]
    corners: bool | None
    copies: bool


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
    """The cost-to-go tables of a map space: the finest that there is memory for.

    Parameters
    ----------
    space : MapSpace
    cycles : bool
        Whether cycles count; then the tables tell some classes of spatial spread apart.
    every : bool
        Look at all orders and splits, not only at those that can be best.
    words : bool
        Whether words at the outermost level count; then there are tables of them.
    known : Known, optional
        What is looked for; the tables hold nothing else. Default: all mappings.
    deadline : float, optional
        When to give up making the tables, by `time.monotonic`.
    memory : int, optional
        Bytes that all tables together may take; default: `bounds.MOST_BYTES`.

    Attributes
    ----------
    filled : Filled
    most_cycles : float
        Cycles of mappings that are looked for, at most.

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
        known: Known | None = None,
        deadline: float | None = None,
        memory: int | None = None,
    ) -> None:
        c = space.encoded.constants
        every = every or _tiles_slide(space) or _order_of_tiles_counts(space)
        every = every or bool(c.links.any() or c.hop.any())
        memory = bounds.MOST_BYTES if memory is None else memory
        grid = make_grid(space, memory)
        grid = grid if grid.every == every else replace(grid, every=every)
        self.space, self.known, self.every, self.words, self.memory = space, known, every, words, memory
        self.most_cycles = math.inf
        if cycles and known is not None:
            self.most_cycles = known.most_cycles(certain_energy(space, grid.options, needed_words(space)))
            grid = quick_enough(grid, self.most_cycles)
        few = grid.shapes.total <= FEW_SHAPES
        stage = Stage(
            grid=grid,
            spreads=1 if not cycles else MORE_SPREADS if few else SPREADS,
            ports=tuple(self._busy_ports(grid)) if cycles else (),
            corners=True,
            copies=True,
        )
        too_large = None
        for each, states in self._stages(stage, deadline):
            try:
                self.filled = self.fill(each, deadline, states)
                return
            except TablesTooLarge as error:
                too_large = error
        assert too_large is not None
        raise too_large

    def _busy_ports(self, grid: Grid) -> list[LimitedPort]:
        """The ports that have tables: the outermost one, and those that take the mapping known the most cycles.

        Where something waits, or instances differ by remainders, the outermost one alone.
        """
        encoded, found, known = self.space.encoded, limited_ports(grid), self.known
        first = [port for port in found if port.level == 0][:1]
        if known is not None and not (grid.shapes.ragged.any() or encoded.constants.overlap.any()):
            names = [level.name for level in encoded.architecture.levels]
            first += [port for port in found if names[port.level] == known.busiest and port not in first]
        return first

    def _stages(self, stage: Stage, deadline: float | None) -> Iterator[tuple[Stage, States]]:
        """Stages from the finest one to coarse ones, which are for large spaces, and states that are worth filling.

        After the first one they leave out what smaller tables find not worth it. At last there is a table of the
        outermost port alone, or of no port, and then of the lower corner alone if need be.
        """
        states = States()
        yield stage, states
        ragged = bool(stage.grid.shapes.ragged.any())
        counts = self.known is not None and self.known.objective.counts("energy")
        if (stage.spreads > 1 or stage.ports) and counts and not self.every and not ragged:
            states = self.states_worth(stage, deadline)
            yield stage, states
            yield replace(stage, copies=False), states
        outermost = tuple(port for port in stage.ports[:1] if port.level == 0)
        stage = replace(stage, spreads=1, ports=outermost, copies=False)
        if outermost:
            yield stage, states
        corners = True if self.every or ragged else None
        yield replace(stage, ports=(), corners=corners), states

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
        alone = len(total.value) == 1 or self.space.imperfect  # else all mappings are listed
        for order in symmetries(self.grid) if goal.kind[0] == BEST and alone else ():
            digits = begin[rows][:, None] // shapes.stride % shapes.sizes
            rows = rows[digits[:, order] @ shapes.stride >= begin[rows]]
        return begin[rows], values[rows]

    def fill(self, stage: Stage, deadline: float | None, states: States) -> Filled:
        """Make the tables of a stage: of energy, of its ports, and of words at the outermost level if these count.

        `states`: those that are worth filling.

        Raises
        ------
        TimeoutError, TablesTooLarge
        """
        grid, left = stage.grid, self.memory
        c = self.space.encoded.constants
        others = len(stage.ports) + self.words
        many = 1 + others + (others > 0)  # one of the others is made, and then laid out
        costs = narrow_energies(c)
        worth = self._worth_energy(stage, states)
        timed_alone = self._is_timed_alone()
        if timed_alone and stage.ports:
            costs, worth = self._port_costs(stage, 0), self._worth(lambda _: self.most_cycles, states)
        energy = make_bounds(
            grid, stage.spreads, costs, deadline, fine=stage.copies, corners=stage.corners, worth=worth,
            most_bytes=left, many=many,
        )  # fmt: skip
        left -= energy.nbytes + others * energy.values.nbytes
        laid = Laid(energy, others)
        if self.words:
            laid.put(make_bounds(
                grid, 1, count_words(grid), deadline, fine=stage.copies, corners=energy.corners,
                worth=self._worth(lambda _: math.inf, energy.states), most_bytes=left,
            ))  # fmt: skip
        for at in range(len(stage.ports)):
            found = energy
            if at > 0 or not timed_alone:
                found = make_bounds(
                    grid, 1, self._port_costs(stage, at), deadline, fine=stage.copies, corners=True,
                    most_bytes=left, worth=self._worth(lambda _: self.most_cycles, energy.states),
                )  # fmt: skip  # where cycles count there are both corners
            laid.put(found)
            if not found.leads:
                break  # no other one counts
        stage = replace(stage, ports=stage.ports[: len(laid.tables) - self.words])
        tables = make_cost_tables(energy, laid, stage.ports, every=self.every)
        return Filled(stage, energy, tables, energy.nbytes + len(laid.tables) * energy.values.nbytes)

    def _is_timed_alone(self) -> bool:
        """Whether energy neither counts nor is limited: the tables of the outermost port stand for those of energy."""
        known = self.known
        return known is not None and known.objective.alone == "cycles" and not np.isfinite(known.most[ENERGY])

    def _port_costs(self, stage: Stage, at: int) -> Floats:
        """What an element's action takes at one of the ports."""
        return np.asarray(least_share(stage.grid, stage.ports[at]) * stage.ports[at].cycles)

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
