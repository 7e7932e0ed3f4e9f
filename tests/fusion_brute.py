"""Brute force over fused graphs: every way through a graph, and every fused tiling of each group; slowly on purpose.

It follows docs/papers/fusion.md to the letter and judges the search of `accelsim.fusion`, so of that it uses nothing
but the descriptions of graphs and borders, and `encode_part`: what a mapping of a part costs, which
`tests/test_fusion.py` compares with execution. What each step asks of each layer follows from sets of points along one
dimension; the best mapping of a part from all its mappings, each looked at (`tests/brute.py`).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from accelsim.fusion.graph import Graph, Link, Reader, TiedRank
from accelsim.fusion.parts import Held, encode_part
from accelsim.fusion.tiling import Border
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint
from accelsim.inputs.mapping import Loop
from accelsim.inputs.mapping import Mapping as LayerMapping
from accelsim.inputs.workload import OPERATIONS, Einsum, Tensor
from accelsim.model.encode import Bools
from tests.brute import FREE, Truth, truth

T = TypeVar("T")
F = 1
"""The fusing level: the one inside the outermost."""
Points = list[tuple[float, int]]
"""Energies [pJ] and cycles that no other one beats."""


def undominated(points: Iterable[tuple[float, int]]) -> Points:
    """Points that no other one beats, by energy."""
    kept: Points = []
    for energy_pj, cycles in sorted(points):
        if not kept or cycles < kept[-1][1]:
            kept.append((energy_pj, cycles))
    return kept


def both(one: Points, other: Points) -> Points:
    """One after the other, whichever is chosen of each."""
    return undominated((a + c, b + d) for a, b in one for c, d in other)


@dataclass(frozen=True)
class Ran:
    """A group that runs in some order, with its border; `alone`: one layer with nothing whole in the buffer."""

    order: tuple[int, ...]
    border: Border

    @property
    def alone(self) -> bool:
        """Whether it is a layer by itself."""
        return len(self.order) == 1 and not self.border.taken


def partitions(graph: Graph) -> Iterator[list[tuple[int, ...]]]:
    """All layers in groups that run one after the other, each group in each order of its layers."""
    many = range(len(graph.layers))
    before = {
        at: {link.producer for link in graph.links if at in [r.layer for r in link.readers]} - {None} for at in many
    }
    for order in itertools.permutations(many):
        if any(not before[at] <= set(order[:number]) for number, at in enumerate(order)):
            continue
        for cuts in itertools.product((False, True), repeat=len(order) - 1):
            ends = [0, *(at for at, cut in enumerate(cuts, 1) if cut), len(order)]
            yield [order[first:end] for first, end in itertools.pairwise(ends)]


def may_store(tiny: Architecture, layers: Sequence[Einsum], link: Link) -> bool:
    """Whether F may store a link as an output and as an input of each reader."""
    roles = {layers[r.layer].tensor(r.tensor).role for r in link.readers} | {"Outputs"}
    return not roles & tiny.levels[F].bypass


def all_ways(tiny: Architecture, graph: Graph) -> Iterator[list[Ran]]:
    """Every way of cutting a graph, and every choice of what stays whole in the buffer between groups, and how long.

    What is dropped before its last reader, or is a result, goes out when it is written.
    """
    level = tiny.levels[F]
    for groups in partitions(graph):
        place = {at: number for number, its in enumerate(groups) for at in its}
        choices = []
        for link in graph.links:
            readers = [place[r.layer] for r in link.readers]
            made = max(readers) if link.producer is None else place[link.producer]
            # the group until which the whole link stays, None if it does not
            several = (
                range(made, max(readers) + 1) if max(readers) > made and may_store(tiny, graph.layers, link) else ()
            )
            choices.append([None, *several])
        for until in itertools.product(*choices):
            steps = []
            for number, order in enumerate(groups):
                at = {layer: n for n, layer in enumerate(order)}
                read = {link.producer for link in graph.links}
                present, staying, taken = set(), set(), 0
                leaving = {n for layer, n in at.items() if layer not in read}
                for link, end in zip(graph.links, until, strict=True):
                    if link.producer is None:
                        continue
                    last = max(place[r.layer] for r in link.readers)
                    if link.producer in at and (link.goes_out or (last > number and (end is None or end < last))):
                        leaving.add(at[link.producer])
                    if end is None or not place[link.producer] <= number <= end:
                        continue
                    maker = graph.layers[link.producer]
                    sizes = [maker.output.words(maker.dims)]
                    for r in link.readers:
                        sizes.append(graph.layers[r.layer].tensor(r.tensor).words(graph.layers[r.layer].dims))
                    taken += max(sizes)
                    if link.producer in at:
                        staying.add(at[link.producer])
                    else:
                        present |= {(at[r.layer], r.tensor) for r in link.readers if r.layer in at}
                steps.append(Ran(order, Border(frozenset(present), frozenset(staying), frozenset(leaving), taken)))
            if all(step.border.taken <= (level.size_words or 0) for step in steps):
                yield steps


@dataclass(frozen=True)
class Asked:
    """What is asked of the mapping of a layer, of which fused loops stand outside the part."""

    rules: Constraints
    loops: tuple[Loop, ...]
    layer: tuple[tuple[str, int], ...]

    def broken_by(self, piece: Piece, mapping: LayerMapping) -> bool:
        """Whether a mapping of a part, inside the fused loops, breaks it."""
        memory, *others = mapping.levels
        nest = replace(mapping, levels=(replace(memory, temporal=(*self.loops, *memory.temporal)), *others))
        return bool(self.rules.broken_by(nest, Einsum("layer", dict(self.layer), piece.tensors)))


@dataclass(frozen=True)
class Piece:
    """What a layer runs in some steps: bounds over all steps of the loops `sums`, which stand outermost in it.

    `arriving` and `present` lie in F as tiles; `streamed` ones pass through F in each step of `sums`.
    """

    bounds: tuple[int, ...]
    tensors: tuple[Tensor, ...]
    dims: tuple[str, ...]
    arriving: frozenset[str]
    present: frozenset[str]
    sums: tuple[tuple[str, int], ...] = ()
    streamed: frozenset[str] = frozenset()
    asked: Asked | None = None
    operation: str = OPERATIONS[0]

    @property
    def einsum(self) -> Einsum:
        """The piece as an Einsum of its own."""
        return Einsum("piece", dict(zip(self.dims, self.bounds, strict=True)), self.tensors)

    def words(self, name: str) -> int:
        """Words of the tile that one step has of a tensor."""
        steps = dict(self.sums)
        tile = {dim: bound // steps.get(dim, 1) for dim, bound in zip(self.dims, self.bounds, strict=True)}
        return self.einsum.tensor(name).words(tile)


MOST = 3_000_000
"""Mappings of a piece that are looked at: problems are made so that it has no more."""


@dataclass
class Mappings:
    """Every mapping of each piece on a machine: words of F that it needs, energy [pJ] and cycles."""

    tiny: Architecture
    known: dict[Piece, list[tuple[int, float, int]]] = field(default_factory=dict)
    looked: int = 0  # mappings that were looked at

    def every(self, piece: Piece) -> list[tuple[int, float, int]]:
        """Those mappings that none beats in words, energy and cycles alike."""
        if piece not in self.known:
            self.known[piece] = self._every(piece)
        return self.known[piece]

    def _every(self, piece: Piece) -> list[tuple[int, float, int]]:
        held, sums = piece.arriving | piece.present, dict(piece.sums)
        moving = frozenset[str]().union(*(t.dims for t in piece.tensors if t.name in held))
        free = frozenset(piece.dims) - moving - frozenset(sums)
        factors = tuple(Factor(dim, steps, steps) for dim, steps in piece.sums)
        outer = Block(outer=tuple(sums), factors=factors, only=free | frozenset(sums))
        rules, names = FREE, [level.name for level in self.tiny.levels]
        if held or sums or piece.asked:
            its = {each.level: each for each in (piece.asked.rules.levels if piece.asked else ())}
            kept = its.get(names[F], LevelConstraint(names[F]))
            its |= {names[F]: replace(kept, keep=kept.keep | held)}
            its |= {names[0]: LevelConstraint(names[0], temporal=outer)}
            rules = Constraints(tuple(its.values()))
        size = self.tiny.levels[F].size_words or 0
        units = self.tiny.for_operation(piece.operation)
        encoded = encode_part(units, piece.einsum, Held(F, piece.arriving, piece.present), size)
        found = truth(units, piece.einsum, rules, MOST, encoded)
        assert found is not None
        self.looked += found.size
        passing = self._passing(piece, found)
        columns = (found.used_words[passing, F], found.energy_pj[passing], found.cycles[passing])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        kept: list[tuple[int, float, int]] = []
        for row in sorted(set(rows)):
            if not any(each[1] <= row[1] and each[2] <= row[2] for each in kept):
                kept.append(row)
        return kept

    @staticmethod
    def _passing(piece: Piece, found: Truth) -> Bools:
        """Mappings that break no rule, with a loop outside F inside those over sums that moves each streamed tensor."""
        dims, sums = found.encoded.dims, dict(piece.sums)
        passing = np.ones(found.valid, np.bool_)
        for tensor in piece.tensors:
            if tensor.name in piece.streamed:
                moving = [d for d, dim in enumerate(dims) if dim in tensor.dims and dim not in sums]
                passing &= found.batch.temporal[:, 0, moving].prod(axis=1) > 1
        for number in np.flatnonzero(passing) if piece.asked else ():
            passing[number] = not piece.asked.broken_by(piece, found.mapping(number))
        return passing

    def points(self, piece: Piece, room: int) -> Points:
        """Energies and cycles of the mappings that need no more words of F."""
        return undominated((energy_pj, cycles) for used, energy_pj, cycles in self.every(piece) if used <= room)


def mover(layer: Einsum, rank: TiedRank) -> str | None:
    """The one dimension of a reader whose tiles cut a rank of what it reads: the others are a window."""
    outer = [dim for dim, _ in rank.terms if dim in layer.output.dims]
    if outer:
        return outer[0] if len(outer) == 1 else None
    exact = len(rank.terms) == 1 and rank.terms[0][1] == 1 and rank.box == rank.extent and rank.before == 0
    return rank.terms[0][0] if exact else None


def word_by_word(reader: Reader) -> bool:
    """Whether a layer reads a link without window, stride and padding."""
    return all(len(r.terms) == 1 and r.terms[0][1] == 1 and r.box == r.extent for r in reader.ranks)


def span(points: Iterable[int]) -> set[int]:
    """All points from the first to the last."""
    several = set(points)
    return set(range(min(several), max(several) + 1)) if several else set()


@dataclass(frozen=True)
class Line:
    """What the steps of one fused loop ask for along it, as sets of points.

    For each step: `runs`, what each layer runs; `wanted`, what is asked of each layer, there or not; `tiles`, what is
    asked of each link inside, padding included.
    """

    runs: list[list[set[int]]]
    wanted: list[list[set[int]]]
    tiles: list[list[set[int]]]


@dataclass
class Fusion:
    """Layers of a graph as a group, in an order, with a border."""

    tiny: Architecture
    graph: Graph
    ran: Ran
    mappings: Mappings
    constrained: bool = False  # whether the mappings of layers have to keep the graph's rules
    tilings: int = 0  # that were looked at
    lines: dict[object, Line] = field(default_factory=dict)
    pieces: dict[object, Counter[Piece]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at = {place: number for number, place in enumerate(self.ran.order)}
        self.layers = [self.graph.layers[place] for place in self.ran.order]
        self.inside: list[Link] = []
        self.shared: list[Link] = []
        for link in self.graph.links:
            readers = tuple(replace(r, layer=at[r.layer]) for r in link.readers if r.layer in at)
            beyond = link.goes_out or len(readers) < len(link.readers)
            if link.producer in at and readers:
                assert link.producer is not None
                self.inside.append(Link(at[link.producer], readers, beyond))
            elif len(readers) > 1 and all(map(word_by_word, readers)):
                self.shared.append(Link(None, tuple(sorted(readers, key=lambda r: r.layer))))
        self.written = {link.producer: number for number, link in enumerate(self.inside)}
        self.ends = [
            n for n in range(len(self.layers)) if n not in self.written or self.inside[self.written[n]].goes_out
        ]
        self.needed = self._needed()

    def _needed(self) -> list[dict[str, int]]:
        """Bounds of each layer, without what nothing asks for."""
        bounds = [dict(layer.dims) for layer in self.layers]
        for layer in reversed(range(len(self.layers))):
            if layer in self.ends:
                continue
            link = self.inside[self.written[layer]]
            for k, rank in enumerate(link.readers[0].ranks):
                asked = set[int]()
                for r in link.readers:
                    asked |= self._box(r.ranks[k], {d: range(bounds[r.layer][d]) for d, _ in r.ranks[k].terms})
                bounds[layer][rank.producer] = len(span(asked) & set(range(rank.extent)))
        return bounds

    @staticmethod
    def _box(rank: TiedRank, points: Mapping[str, Iterable[int]]) -> set[int]:
        """Words along a rank from the first that some iterations touch to the last."""
        touched = {0}
        for dim, factor in rank.terms:
            touched = {word + factor * point for word in touched for point in points[dim]}
        return span(word - rank.before for word in touched)

    def joined(self, links: Sequence[Link]) -> list[set[int]]:
        """Layers that links join to each other."""
        found = [{layer} for layer in range(len(self.layers))]
        for link in links:
            one = set[int]().union(*(each for each in found if each.intersection(link.places())))
            found = [*(each for each in found if not each & one), one]
        return found

    @cached_property
    def dims(self) -> list[tuple[str, ...]]:
        """Dimensions of all layers that fused loops may run over: such as move every link inside."""
        found = []
        for chosen in itertools.product(*self.needed):
            several = zip(self.layers, self.needed, chosen, strict=True)
            if any(needed[dim] == 1 or dim in layer.whole for layer, needed, dim in several):
                continue
            if not all(self.along(link, chosen) is not None for link in self.inside):
                continue
            moved = [link for link in self.shared if self.along(link, chosen) is not None]
            if len(self.joined([*self.inside, *moved])) > 1:
                continue
            ends = ((self.layers[at].output, chosen[at]) for at in self.ends)
            if all(rank == ((dim, 1),) for out, dim in ends for rank in out.ranks if dim in dict(rank)):
                found.append(chosen)
        return found if len(self.layers) > 1 else []

    def along(self, link: Link, chosen: tuple[str, ...]) -> int | None:
        """The rank of a link along which dimensions of all layers move it."""
        for k, rank in enumerate(link.readers[0].ranks):
            movers = {r.layer: mover(self.layers[r.layer], r.ranks[k]) for r in link.readers}
            made = link.producer is None or rank.producer == chosen[link.producer]
            if made and all(chosen[layer] == name for layer, name in movers.items()):
                return k
        return None

    def loops(self) -> Iterator[tuple[tuple[int, int], ...]]:
        """All fused loops in all orders: dimension, and steps."""
        most = [math.gcd(*(self.needed[at][dim[at]] for at in self.ends)) for dim in self.dims]
        several = [[n for n in range(1, many + 1) if many % n == 0] for many in most]
        for steps in itertools.product(*several):
            cut = [names for names, n in zip(self.dims, steps, strict=True) if n > 1]
            if any(len(set(names)) < len(names) for names in zip(*cut, strict=True)):
                continue  # two loops over one dimension of a layer
            for order in itertools.permutations((dim, n) for dim, n in enumerate(steps) if n > 1):
                if all(self._sums_inside(order, layer) for layer in range(len(self.layers))):
                    yield order

    def sums(self, dim: int, layer: int) -> bool:
        """Whether a layer sums over a fused dimension."""
        return self.dims[dim][layer] not in self.layers[layer].output.dims

    def _sums_inside(self, loops: tuple[tuple[int, int], ...], layer: int) -> bool:
        flags = [self.sums(dim, layer) for dim, _ in loops]
        return not any(a and not b for a, b in itertools.pairwise(flags))

    def line(self, dim: int, steps: int, kept: tuple[bool, ...]) -> Line:
        """Go from the last layer to the first in each step; `kept`: links inside whose halo is retained."""
        if (dim, steps, kept) not in self.lines:
            self.lines[dim, steps, kept] = self._line(self.dims[dim], steps, kept)
        return self.lines[dim, steps, kept]

    def _line(self, dims: tuple[str, ...], steps: int, kept: tuple[bool, ...]) -> Line:
        runs, wanted, tiles = list[list[set[int]]](), list[list[set[int]]](), list[list[set[int]]]()
        for step in range(steps):
            todo = [set[int]() for _ in self.layers]
            want = [set[int]() for _ in self.layers]
            tile = [set[int]() for _ in self.inside]
            for layer in reversed(range(len(self.layers))):
                share = set[int]()
                if layer in self.ends:
                    length = self.needed[layer][dims[layer]] // steps
                    share = set(range(step * length, (step + 1) * length))
                if layer not in self.written:
                    todo[layer] = want[layer] = share
                    continue
                number = self.written[layer]
                link, asked = self.inside[number], share
                k = self.along(link, dims)
                assert k is not None
                for r in link.readers:
                    points = {d: range(self.needed[r.layer][d]) for d, _ in r.ranks[k].terms}
                    asked = asked | self._box(r.ranks[k], points | {dims[r.layer]: todo[r.layer]})
                tile[number] = span(asked)
                had = set[int]().union(*(before[number] for before in tiles)) if kept[number] else set[int]()
                want[layer] = tile[number] & set(range(link.readers[0].ranks[k].extent))
                todo[layer] = want[layer] - had
                assert todo[layer] == span(todo[layer])
            runs.append(todo)
            wanted.append(want)
            tiles.append(tile)
        return Line(runs, wanted, tiles)

    def whole(self, number: int, k: int) -> int:
        """Words along a rank of a link inside, from the first that anyone asks for to the last, padding included."""
        link, asked = self.inside[number], set[int]()
        for r in link.readers:
            asked |= self._box(r.ranks[k], {d: range(self.needed[r.layer][d]) for d, _ in r.ranks[k].terms})
        if link.producer in self.ends:
            asked |= set(range(link.readers[0].ranks[k].extent))
        return len(span(asked))

    def halos(self, loops: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
        """Links inside, and loops along which tiles of them overlap."""
        found = []
        for number, link in enumerate(self.inside):
            for dim, steps in loops:
                tiles = [tile[number] for tile in self.line(dim, steps, (False,) * len(self.inside)).tiles]
                if link.producer not in self.ran.border.staying and any(a & b for a, b in itertools.pairwise(tiles)):
                    found.append((number, dim))
        return found

    def residents(self, loops: tuple[tuple[int, int], ...]) -> list[tuple[int, str]]:
        """Tensors that the innermost loop leaves in place, and that are not in F anyway."""
        found = []
        for layer, einsum in enumerate(self.layers):
            inner = {r.tensor for link in self.inside for r in link.readers if r.layer == layer}
            inner |= {name for at, name in self.ran.border.present if at == layer}
            if layer in self.written or layer in self.ran.border.staying:
                inner.add(einsum.output.name)
            for t in einsum.tensors:
                in_place = bool(loops) and self.dims[loops[-1][0]][layer] not in t.dims
                if in_place and t.name not in inner and t.role not in self.tiny.levels[F].bypass:
                    found.append((layer, t.name))
        return found

    def may_share(self, number: int, lines: Sequence[tuple[tuple[int, int], Line]]) -> bool:
        """Whether the first reader of a shared input fetches all that the others ask for in the same step."""
        first, *others = self.shared[number].readers
        for r in self.shared[number].readers:
            role = self.layers[r.layer].tensor(r.tensor).role
            if role in self.tiny.levels[F].bypass or (r.layer, r.tensor) in self.ran.border.present:
                return False
            sides = zip(first.ranks, r.ranks, strict=True)
            if any(self.needed[r.layer][b.terms[0][0]] > self.needed[first.layer][a.terms[0][0]] for a, b in sides):
                return False  # rows that only others need
        for (dim, _), line in lines:
            if self.along(self.shared[number], self.dims[dim]) is None:
                return False
            for wanted, runs in zip(line.wanted, line.runs, strict=True):
                if any(not runs[r.layer] <= wanted[first.layer] for r in others):
                    return False
        return True

    def tilings_of(self) -> Iterator[list[tuple[Counter[Piece], int]]]:
        """Of each fused tiling the pieces of each layer, and words of F that are not theirs; only such as may fit."""
        many = len(self.inside)
        if len(self.joined([*self.inside, *self.shared])) > 1:
            return
        if not all(may_store(self.tiny, self.layers, link) for link in self.inside):
            return
        for loops in self.loops():
            for halos in _subsets(self.halos(loops)):
                kept = {
                    dim: tuple(
                        (n, dim) in halos or self.inside[n].producer in self.ran.border.staying for n in range(many)
                    )
                    for dim, _ in loops
                }
                lines = [(loop, self.line(*loop, kept[loop[0]])) for loop in loops]
                may = [n for n in range(len(self.shared)) if self.may_share(n, lines)]
                links = [self.room(n, lines, kept) for n in range(many)]
                for shared in _subsets(may):
                    fetched = [self.shared_room(n, lines, kept) for n in shared]
                    for resident in _subsets(self.residents(loops)):
                        self.tilings += 1
                        yield self._pieces_and_rooms(lines, kept, shared, resident, links, fetched)

    def room(
        self, number: int, lines: Sequence[tuple[tuple[int, int], Line]], kept: Mapping[int, tuple[bool, ...]]
    ) -> tuple[int, int]:
        """Words of a link inside in F, from its producer to its last reader, and at other times."""
        link = self.inside[number]
        if link.producer in self.ran.border.staying:
            return 0, 0  # as a whole tensor
        sides, moved = [], set()
        for (dim, _), line in lines:
            k = self.along(link, self.dims[dim])
            assert k is not None
            moved.add(k)
            tiles = [tile[number] for tile in line.tiles]
            before, halo = set[int](), 0
            for tile in tiles:
                halo = max(halo, len(tile & before))
                before |= tile
            sides.append((max(map(len, tiles)), halo if kept[dim][number] else 0, self.whole(number, k)))
        others = [k for k in range(len(link.readers[0].ranks)) if k not in moved]
        return _nested(math.prod(self.whole(number, k) for k in others), sides)

    def shared_room(
        self, number: int, lines: Sequence[tuple[tuple[int, int], Line]], kept: Mapping[int, tuple[bool, ...]]
    ) -> tuple[int, int]:
        """The same of a shared input that its first reader fetches for all."""
        first, *others = self.shared[number].readers
        sides, moved = [], set()
        for (dim, _), line in lines:
            moved.add(self.dims[dim][first.layer])
            tile = halo = end = 0  # words before `end` have been fetched
            for step, runs in enumerate(line.runs):
                later = set[int]().union(*(then[r.layer] for then in line.runs[step:] for r in others))
                halo = max(halo, end - min(later, default=end))
                new = runs[first.layer]
                end = max([end, *(word + 1 for word in new)])
                tile = max(tile, end - min(later | new, default=end))
            written = self.written.get(first.layer)
            stays = written is not None and kept[dim][written]
            sides.append((tile, halo if stays else 0, self.needed[first.layer][self.dims[dim][first.layer]]))
        ranks = [rank.terms[0][0] for rank in first.ranks]
        return _nested(math.prod(self.needed[first.layer][d] for d in ranks if d not in moved), sides)

    def pieces_of(
        self,
        layer: int,
        lines: Sequence[tuple[tuple[int, int], Line]],
        kept: Mapping[int, tuple[bool, ...]],
        resident: frozenset[str],
        arriving: frozenset[str],
        present: frozenset[str],
    ) -> Counter[Piece]:
        """What a layer runs, step by step; `arriving`, `present`: tensors in F that are not resident."""
        key = layer, tuple(loop for loop, _ in lines), tuple(sorted(kept.items())), resident, arriving, present
        if key in self.pieces:
            return self.pieces[key]
        einsum, found = self.layers[layer], Counter[Piece]()
        outer = [(dim, line) for (dim, _), line in lines if not self.sums(dim, layer)]
        inner = [(dim, steps) for (dim, steps), _ in lines if self.sums(dim, layer)]
        sums = tuple((self.dims[dim][layer], steps) for dim, steps in inner)
        streamed = frozenset(
            t.name
            for t in einsum.tensors
            if sums and sums[-1][0] not in t.dims and t.name not in resident | arriving | present
        )
        asked = None
        if self.constrained:
            loops = tuple(Loop(self.dims[dim][layer], steps) for (dim, steps), _ in lines if not self.sums(dim, layer))
            asked = Asked(self.graph.rules[self.ran.order[layer]], loops, tuple(einsum.dims.items()))
        last: dict[str, object] = {}
        for step in itertools.product(*(range(len(line.runs)) for _, line in outer)):
            runs = {self.dims[dim][layer]: line.runs[n][layer] for (dim, line), n in zip(outer, step, strict=True)}
            if not all(runs.values()):
                continue
            bounds = self.needed[layer] | {name: len(points) for name, points in runs.items()}
            comes, there = set(arriving), set(present)
            for name in resident:
                tensor = einsum.tensor(name)
                tile = [sorted(points) for dim, points in runs.items() if dim in tensor.dims]
                cut = any(dim in tensor.dims for dim, _ in sums)
                same = last.get(name) == tile and not cut and not tensor.output
                (there if same else comes).add(name)
                last[name] = tile
            held = frozenset(comes), frozenset(there)
            shape = tuple(bounds.values()), einsum.tensors, tuple(einsum.dims)
            found[Piece(*shape, *held, sums, streamed, asked, einsum.operation)] += 1
        self.pieces[key] = found
        return found

    def _pieces_and_rooms(
        self,
        lines: Sequence[tuple[tuple[int, int], Line]],
        kept: Mapping[int, tuple[bool, ...]],
        shared: Sequence[int],
        resident: Sequence[tuple[int, str]],
        links: Sequence[tuple[int, int]],
        fetched: Sequence[tuple[int, int]],
    ) -> list[tuple[Counter[Piece], int]]:
        pieces, always = [], self.ran.border.taken
        for layer, einsum in enumerate(self.layers):
            arriving, present = set[str](), {name for at, name in self.ran.border.present if at == layer}
            present |= {r.tensor for link in self.inside for r in link.readers if r.layer == layer}
            if layer in self.written or layer in self.ran.border.staying:
                (arriving if layer in self.ran.border.leaving else present).add(einsum.output.name)
            for number in shared:
                for n, r in enumerate(self.shared[number].readers):
                    if r.layer == layer:
                        (present if n else arriving).add(r.tensor)
            stay = frozenset(name for at, name in resident if at == layer)
            its = self.pieces_of(layer, lines, kept, stay, frozenset(arriving), frozenset(present))
            pieces.append(its)
            always += sum(max(piece.words(name) for piece in its) for name in stay if its)
        several = [*zip(self.inside, links, strict=True)]
        several += [(self.shared[n], room) for n, room in zip(shared, fetched, strict=True)]
        found = []
        for layer, its in enumerate(pieces):
            taken = always
            for link, (live, between) in several:
                places = link.places()
                taken += live if places[0] <= layer <= places[-1] else between
            found.append((its, taken))
        return found

    def least(self, worth: Callable[[float, int], float]) -> float:
        """Least sum over all fused tilings of what energy and cycles are worth."""
        size, best = self.tiny.levels[F].size_words or 0, math.inf
        known: dict[tuple[int, int], float] = {}
        for several in self.tilings_of():
            total = 0.0
            for its, taken in several:
                key = id(its), taken
                if key not in known:
                    known[key] = 0.0
                    for piece, count in its.items():
                        room = size - taken + sum(map(piece.words, piece.arriving | piece.present))
                        points = self.mappings.points(piece, room)
                        known[key] += count * min((worth(*point) for point in points), default=math.inf)
                total += known[key]
                if total >= best:
                    break
            best = min(best, total)
        return best

    def front(self) -> Points:
        """Energies and cycles of all fused tilings, with any choice of a mapping for each run of each piece."""
        size, found = self.tiny.levels[F].size_words or 0, Points()
        known: dict[tuple[int, int], Points] = {}
        for several in self.tilings_of():
            total: Points = [(0.0, 0)]
            for its, taken in several:
                key = id(its), taken
                if key not in known:
                    known[key] = [(0.0, 0)]
                    for piece, count in its.items():
                        room = size - taken + sum(map(piece.words, piece.arriving | piece.present))
                        points = self.mappings.points(piece, room)
                        for _ in range(count):
                            known[key] = both(known[key], points)
                total = both(total, known[key])
            found = undominated([*found, *total])
        return found


def _nested(fixed: int, sides: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """Words of a tensor, its tile and all halos, and halos alone; from tile, halo and whole extent along each loop."""
    if not sides:
        return fixed, 0
    (tile, halo, _), *inner = sides
    live, between = _nested(1, inner)
    lines = halo * math.prod(whole for _, _, whole in inner)
    return fixed * (lines + (tile - halo) * live), fixed * (lines + (tile - halo) * between)


def _subsets(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    for many in range(len(items) + 1):
        yield from itertools.combinations(items, many)


def alone(graph: Graph, mappings: Mappings, place: int) -> Points:
    """A layer by itself."""
    layer, nothing = graph.layers[place], frozenset[str]()
    shape = tuple(layer.dims.values()), layer.tensors, tuple(layer.dims)
    piece = Piece(*shape, nothing, nothing, operation=layer.operation)
    return mappings.points(piece, mappings.tiny.levels[F].size_words or 0)


def least_of_ways(graph: Graph, mappings: Mappings, worth: Callable[[float, int], float]) -> tuple[float, float]:
    """The least sum over all ways of what energy and cycles are worth, and over those that keep nothing whole."""
    known, least, bare = dict[Ran, float](), math.inf, math.inf
    for steps in all_ways(mappings.tiny, graph):
        for step in steps:
            if step not in known and step.alone:
                points = alone(graph, mappings, step.order[0])
                known[step] = min((worth(*point) for point in points), default=math.inf)
            elif step not in known:
                known[step] = Fusion(mappings.tiny, graph, step, mappings).least(worth)
        total = sum(known[step] for step in steps)
        least = min(least, total)
        bare = bare if any(step.border.taken for step in steps) else min(bare, total)
    return least, bare


def front_of_ways(graph: Graph, mappings: Mappings) -> Points:
    """Energies and cycles of all ways, with any choice of a mapping for each run of each piece."""
    known, found = dict[Ran, Points](), Points()
    for steps in all_ways(mappings.tiny, graph):
        total: Points = [(0.0, 0)]
        for step in steps:
            if step not in known:
                points = alone(graph, mappings, step.order[0]) if step.alone else None
                known[step] = points or Fusion(mappings.tiny, graph, step, mappings).front()
            total = both(total, known[step])
        found = undominated([*found, *total])
    return found
