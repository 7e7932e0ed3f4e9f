"""Ways through a graph: which layers run as a group one after the other, and what stays on the chip between them.

A state is what has run, and which outputs lie in the fusing level as a whole. A step runs a group. The cheapest way is
a shortest path from nothing to everything, over all orders in which the layers may run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from accelsim.fusion.graph import Graph
from accelsim.fusion.group import joined_by
from accelsim.fusion.result import NOTHING, Value
from accelsim.fusion.tiling import Border, storage_words, unfit
from accelsim.inputs.architecture import Architecture


@dataclass(frozen=True, slots=True)
class State:
    """What has run, by place, and links that lie in the fusing level as a whole: all, and those also outside."""

    done: frozenset[int]
    whole: frozenset[int]
    copied: frozenset[int]


@dataclass(frozen=True, slots=True)
class GroupStep:
    """A group that runs, by places in an order in which it may run, and where its tensors are.

    Attributes
    ----------
    present : frozenset of (int, str)
        Inputs that lie in the fusing level as a whole.
    staying, leaving : frozenset of int
        Layers whose outputs stay there as a whole, and those whose outputs go to the outermost level.
    taken : int
        Storage words of the fusing level that whole tensors take.
    """

    places: tuple[int, ...]
    present: frozenset[tuple[int, str]]
    staying: frozenset[int]
    leaving: frozenset[int]
    taken: int

    @property
    def plain(self) -> bool:
        """Whether it is one layer, and nothing lies in the fusing level but its tiles."""
        return len(self.places) == 1 and not self.taken

    def orders(self, graph: Graph) -> Iterator[tuple[tuple[int, ...], Border]]:
        """Its layers in each order in which they may run, and the border by places in that order."""
        for order in _orders(graph, self.places):
            at = {place: number for number, place in enumerate(order)}
            border = Border(
                frozenset((at[place], name) for place, name in self.present),
                frozenset(at[place] for place in self.staying),
                frozenset(at[place] for place in self.leaving),
                self.taken,
            )
            yield order, border


def _orders(graph: Graph, places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All orders of some layers in which each runs after those that it reads."""
    if not places:
        yield ()
        return
    waiting = {r.layer for link in graph.links if link.producer in places for r in link.readers if r.layer in places}
    for first in places:
        if first not in waiting:
            rest = tuple(place for place in places if place != first)
            yield from ((first, *order) for order in _orders(graph, rest))


@dataclass(slots=True)
class Ways:
    """All steps of a graph from state to state, with a fusing level, for groups of a limited number of layers.

    `level` is None where no tensor can stay anywhere: then each layer runs by itself. `stop` is asked while they are
    listed; TimeoutError is raised if it says so.
    """

    architecture: Architecture
    graph: Graph
    level: int | None
    longest: int
    stop: Callable[[], bool] = bool
    every: list[GroupStep] = field(default_factory=list)  # different steps
    # from each state, so that each step leads to a later one: which step, to which state
    edges: list[list[tuple[int, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        start = State(frozenset(), frozenset(), frozenset())
        by_size: list[dict[State, None]] = [{start: None}, *({} for _ in self.graph.layers)]
        groups: dict[frozenset[int], list[tuple[int, ...]]] = {}  # that may run after some layers
        steps: dict[GroupStep, int] = {}
        found: dict[State, list[tuple[int, State]]] = {}
        for several in by_size:
            for state in several:
                if self.stop():
                    raise TimeoutError
                found[state] = []
                if state.done not in groups:
                    groups[state.done] = list(self._groups(state.done))
                for places in groups[state.done]:
                    for step, after in self._with_borders(state, places):
                        by_size[len(after.done)][after] = None
                        found[state].append((steps.setdefault(step, len(steps)), after))
        states = {state: number for number, state in enumerate(found)}
        self.edges = [[(step, states[after]) for step, after in pairs] for pairs in found.values()]
        self.every = list(steps)

    def shortest(self, costs: Sequence[Value]) -> tuple[list[int], Value]:
        """The cheapest way through the graph, given the cost of each step, and its value; none if none has a value."""
        best: list[Value] = [NOTHING] * len(self.edges)
        came: list[tuple[int, int]] = [(0, 0)] * len(self.edges)
        best[0] = 0.0, 0.0
        for state, pairs in enumerate(self.edges):
            first, second = best[state]
            for step, after in pairs if first < math.inf else ():
                cost = costs[step]
                value = first + cost[0]
                if value < best[after][0] or (value == best[after][0] and second + cost[1] < best[after][1]):
                    best[after], came[after] = (value, second + cost[1]), (state, step)
        at, steps = len(best) - 1, list[int]()
        while at and best[-1] < NOTHING:
            at, step = came[at]
            steps.insert(0, step)
        return steps, best[-1]

    def below(self, costs: Sequence[Value], value: float) -> set[int]:
        """Steps of all ways that cost less than a value."""
        before, after = [math.inf] * len(self.edges), [math.inf] * len(self.edges)
        before[0] = after[-1] = 0.0
        for state, pairs in enumerate(self.edges):
            for step, to in pairs:
                before[to] = min(before[to], before[state] + costs[step][0])
        for state in range(len(self.edges) - 1, -1, -1):
            for step, to in self.edges[state]:
                after[state] = min(after[state], costs[step][0] + after[to])
        return {
            step
            for state, pairs in enumerate(self.edges)
            for step, to in pairs
            if before[state] + costs[step][0] + after[to] < value
        }

    def words(self, link: int) -> int:
        """Storage words of the fusing level that a whole link takes, padding of its readers included."""
        its = self.graph.links[link]
        assert self.level is not None
        level = self.architecture.levels[self.level]
        sizes = [math.prod(max(rank.extent, rank.box) for rank in reader.ranks) for reader in its.readers]
        tensors = [self.graph.layers[r.layer].tensor(r.tensor) for r in its.readers]
        return max(n * storage_words(tensor, level) for n, tensor in zip(sizes, tensors, strict=True))

    def may_hold(self, link: int) -> bool:
        """Whether the fusing level can hold a link as a whole."""
        its = self.graph.links[link]
        if self.level is None or its.producer is None or unfit(self.architecture, self.level):
            return False
        level, outer = self.architecture.levels[self.level], self.architecture.levels[: self.level]
        ends = [
            (its.producer, self.graph.layers[its.producer].output.name),
            *((r.layer, r.tensor) for r in its.readers),
        ]
        for place, name in ends:
            role, rules = self.graph.layers[place].tensor(name).role, self.graph.rules[place]
            if role in level.bypass or name in rules.of(level.name).bypass:
                return False
            if any(role in each.keep for each in outer[1:]) or any(name in rules.of(each.name).keep for each in outer):
                return False
        return self.words(link) <= level.rooms.get("", 0)

    def _groups(self, done: frozenset[int]) -> Iterator[tuple[int, ...]]:
        """Sets of layers that may run next as a group: all that they read is written, and links join them."""
        needs = {
            place: {link.producer for link in self.graph.links if any(r.layer == place for r in link.readers)} - {None}
            for place in range(len(self.graph.layers))
            if place not in done
        }
        known: set[frozenset[int]] = set()
        todo: list[frozenset[int]] = [frozenset()]
        while todo:
            some = todo.pop()
            for place, reads in needs.items():
                more = some | {place}
                if len(some) < len(more) <= self.longest and reads <= done | some and more not in known:
                    known.add(more)
                    todo.append(more)
        for some in sorted(known, key=lambda each: (len(each), sorted(each))):
            if self._joined(some):
                yield tuple(sorted(some))

    def _joined(self, some: frozenset[int]) -> bool:
        """Whether links join some layers to a group."""
        left, reached = set(some), {min(some)}
        joins = [joined_by(self.graph, link, some) for link in self.graph.links]
        while reached:
            left -= reached
            reached = {at for places in joins if places.difference(left) for at in places} & left
        return not left

    def _with_borders(self, state: State, places: tuple[int, ...]) -> Iterator[tuple[GroupStep, State]]:
        """A group with each choice of what stays of its outputs."""
        links, inside = self.graph.links, frozenset(places)
        done = state.done | inside
        present = frozenset(
            (r.layer, r.tensor) for link in state.whole for r in links[link].readers if r.layer in inside
        )
        wanted = {
            at: sum(r.layer not in done for r in link.readers)
            for at, link in enumerate(links)
            if link.producer in inside
        }
        results = inside - {links[at].producer for at in wanted}
        choices: list[list[tuple[int, bool, bool]]] = []  # link, whether it stays, whether it leaves
        for at, later in wanted.items():
            link = links[at]
            if later == 0 and not link.goes_out:
                choices.append([(at, False, False)])
                continue
            several = [(at, False, True)]
            if later and self.may_hold(at):
                several += [(at, True, True)] if link.goes_out or later > 1 else []
                several += [] if link.goes_out else [(at, True, False)]
            choices.append(several)
        kept = frozenset(at for at in state.whole if any(r.layer not in done for r in links[at].readers))
        before = sum(self.words(at) for at in state.whole)
        capacity = 0 if self.level is None else self.architecture.levels[self.level].rooms.get("", 0)
        for chosen in itertools.product(*choices):
            staying = [at for at, stays, _ in chosen if stays]
            taken = before + sum(map(self.words, staying))
            if taken > capacity and taken:
                continue
            step = GroupStep(
                places,
                present,
                frozenset(p for at in staying if (p := links[at].producer) is not None),
                frozenset(results)
                | {p for at, _, leaves in chosen if leaves and (p := links[at].producer) is not None},
                taken,
            )
            copied = (state.copied & kept) | {at for at, stays, leaves in chosen if stays and leaves}
            held = kept | frozenset(staying)
            for dropped in _subsets(sorted(copied)):
                gone = frozenset(dropped)
                yield step, State(done, held - gone, copied - gone)


def _subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for many in range(len(items) + 1):
        yield from itertools.combinations(items, many)
