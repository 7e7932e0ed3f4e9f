"""Groups of layers that are fused: the dimensions that fused loops may run over, and what each step asks of each layer.

Formulas: docs/papers/fusion.md, sections 1 and 2; `tests/fusion_oracle.py` executes the same with sets of points.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from accelsim.fusion.graph import Graph, Link, Reader, TiedRank
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Einsum


@dataclass(frozen=True, slots=True)
class Move:
    """How a fused dimension moves what a layer reads of a link.

    `step`: words that the layer's box moves on when its dimension does. `window`: words by which the box is longer than
    that: the halo of a box is `window - step + 1` words. `before`: words of padding before the first that is written.
    """

    layer: int
    step: int
    window: int
    before: int


@dataclass(frozen=True, slots=True)
class FusedDim:
    """A dimension that fused loops of a group may run over.

    Attributes
    ----------
    name : str
        The dimension of the last layer, with a mark where another one has that, too.
    dims : tuple of str
        The dimension of each layer that it moves.
    most : int
        Its loops have a divisor of this number of steps.
    bounds : tuple of int
        Of the dimension of each layer, what the group runs of it.
    ends : tuple of int
        Places of layers of which each step writes an equal share: their outputs leave the group.
    moves : tuple of tuple of Move
        How each link inside moves for its readers.
    extents, producers : tuple of int
        Words that are written along it, of each link inside, and the place of the layer that writes them.
    summed : frozenset of int
        Places of layers that sum over it.
    """

    name: str
    dims: tuple[str, ...]
    most: int
    bounds: tuple[int, ...]
    ends: tuple[int, ...]
    moves: tuple[tuple[Move, ...], ...]
    extents: tuple[int, ...]
    producers: tuple[int, ...]
    summed: frozenset[int]


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that are fused, in the order in which they run.

    Attributes
    ----------
    places : tuple of int
        Where each layer stands in its graph.
    inside : tuple of Link
        What one of them writes and others read; places are those of the group. `goes_out`: it is needed after the
        group, too.
    shared : tuple of Link
        What comes from before the group and several layers read word by word.
    needed : tuple of mapping
        Bounds of each layer without what nothing asks for: rows behind the last step of a stride.
    """

    layers: tuple[Einsum, ...]
    places: tuple[int, ...]
    inside: tuple[Link, ...]
    shared: tuple[Link, ...]
    dims: tuple[FusedDim, ...]
    needed: tuple[Mapping[str, int], ...]
    rules: tuple[Constraints, ...]

    @property
    def name(self) -> str:
        """Names of the layers in order."""
        return " + ".join(layer.name for layer in self.layers)

    def written(self, layer: int) -> int | None:
        """The link inside that a layer writes."""
        return next((at for at, link in enumerate(self.inside) if link.producer == layer), None)

    def read(self, layer: int) -> list[tuple[int, str]]:
        """Links inside that a layer reads, and its names of these tensors."""
        return [(at, r.tensor) for at, link in enumerate(self.inside) for r in link.readers if r.layer == layer]

    def before(self, links: Iterable[int]) -> frozenset[int]:
        """Layers that run so that some links inside are written."""
        found = {self.inside[at].producer for at in links}
        for layer in range(len(self.layers) - 1, -1, -1):
            at = self.written(layer)
            if at is not None and any(reader.layer in found for reader in self.inside[at].readers):
                found.add(layer)
        return frozenset(at for at in found if at is not None)

    def internal(self, layer: int) -> frozenset[str]:
        """Tensors of a layer that are links inside."""
        names = {name for _, name in self.read(layer)}
        return frozenset(names | ({self.layers[layer].output.name} if self.written(layer) is not None else set()))


def make_group(graph: Graph, places: Sequence[int]) -> Group:
    """Take layers of a graph as a group, in an order in which they may run.

    Raises AccelsimError if nothing joins them all.

    >>> from accelsim import load_workload
    >>> from accelsim.fusion.graph import make_graph
    >>> block = {layer.name: layer for layer in load_workload("mobilenet_v2").layers}
    >>> graph = make_graph([block["b7_depthwise"], block["b7_project"]], [(0, 1, "Inputs")])
    >>> [(dim.name, dim.most) for dim in make_group(graph, [0, 1]).dims]
    [('C', 192), ('P', 14), ('Q', 14)]
    """
    at = {place: number for number, place in enumerate(places)}
    layers = tuple(graph.layers[place] for place in places)
    inside, shared = [], []
    for link in graph.links:
        readers = tuple(replace(r, layer=at[r.layer]) for r in link.readers if r.layer in at)
        beyond = link.goes_out or len(readers) < len(link.readers)
        if link.producer in at and readers:
            inside.append(Link(at[link.producer], readers, beyond))
        elif len(readers) > 1 and all(_word_by_word(layers[r.layer], r) for r in readers):
            shared.append(Link(None, tuple(sorted(readers, key=lambda r: r.layer)), True))
    if len(_reached(len(layers), [*inside, *shared])) < len(layers):
        raise AccelsimError(f"nothing joins {', '.join(layer.name for layer in layers)}")
    needed, inside = _needed(layers, inside)
    known = {link.producer for link in graph.links}
    ends = tuple(
        number
        for number, place in enumerate(places)
        if place not in known or all(link.producer != number or link.goes_out for link in inside)
    )
    found: dict[tuple[str, ...], FusedDim] = {}
    several = _traces(layers, needed, inside, shared) if len(layers) > 1 else ()  # the mapper has loops of a single one
    for dims in dict.fromkeys(several):
        dim = _fused_dim(layers, needed, inside, ends, dims)
        if dim is not None:
            same = sum(dims[-1] == other[-1] for other in found)
            found[dims] = replace(dim, name=dim.name + "'" * same)
    rules = tuple(graph.rules[place] for place in places)
    return Group(layers, tuple(places), tuple(inside), tuple(shared), tuple(found.values()), tuple(needed), rules)


def joined_by(graph: Graph, link: Link, some: frozenset[int]) -> frozenset[int]:
    """Layers, of some, that a link joins in a group of these: none where they read through a window what is before."""
    readers = [r for r in link.readers if r.layer in some]
    if link.producer in some or all(_word_by_word(graph.layers[r.layer], r) for r in readers):
        return some.intersection(link.places())
    return frozenset()


def _word_by_word(einsum: Einsum, reader: Reader) -> bool:
    """Whether a layer reads a link without window, stride and padding."""
    return all(len(rank.terms) == 1 and rank.terms[0][1] == 1 and rank.box == rank.extent for rank in reader.ranks)


def _reached(many: int, links: Sequence[Link]) -> set[int]:
    """Layers that links join to the first one."""
    left = [link.places() for link in links]
    found, before = {0} if many else set[int](), -1
    while len(found) > before:
        before = len(found)
        for places in left:
            if not found.isdisjoint(places):
                found.update(places)
    return found


def _needed(layers: Sequence[Einsum], inside: Sequence[Link]) -> tuple[list[dict[str, int]], list[Link]]:
    """Bounds of each layer that the ends of the group ask for, and the links with the boxes that follow from them."""
    bounds = [dict(layer.dims) for layer in layers]
    found: list[Link] = []
    for link in sorted(inside, key=lambda link: -(link.producer or 0)):
        readers = []
        for reader in link.readers:
            boxes = [1 + sum(f * (bounds[reader.layer][dim] - 1) for dim, f in rank.terms) for rank in reader.ranks]
            ranks = tuple(replace(rank, box=box) for rank, box in zip(reader.ranks, boxes, strict=True))
            readers.append(replace(reader, ranks=ranks))
        if not link.goes_out and link.producer is not None:
            for several in zip(*(reader.ranks for reader in readers), strict=True):
                most = max(min(rank.extent, rank.box - rank.before) for rank in several)
                bounds[link.producer][several[0].producer] = most
        found.insert(0, replace(link, readers=tuple(readers)))
    return bounds, found


def _traces(
    layers: Sequence[Einsum], needed: Sequence[Mapping[str, int]], inside: Sequence[Link], shared: Sequence[Link]
) -> Iterator[tuple[str, ...]]:
    """Follow each dimension of each layer through all links of a group, to one of each layer.

    Nothing if it does not move each link inside, or a layer must have all words along it at once. Layers that nothing
    else joins are joined by what they read in common, by each such link in turn: each reader fetches one that lines up
    otherwise.
    """
    links: list[list[Link]] = [[] for _ in layers]
    for link in inside:
        for layer in link.places():
            links[layer].append(link)
    outputs = [layer.output.dims for layer in layers]
    seen = set[tuple[int, str]]()
    for start in ((layer, name) for layer, einsum in enumerate(layers) for name in einsum.dims):
        several: list[tuple[dict[int, str], list[tuple[int, str]]]] = [({}, [start])] if start not in seen else []
        while several:
            dims, todo = several.pop()
            follows = _follow(layers, needed, links, outputs, dims, todo)
            if not shared:  # all that a dimension moves with leads to the same
                seen.update(dims.items())
            if follows and len(dims) == len(layers):
                yield tuple(dims[at] for at in range(len(layers)))
            elif follows:
                for link in shared:
                    pairs = [
                        p for r in link.readers if r.layer in dims for p in _in_common(link, r.layer, dims[r.layer])
                    ]
                    if any(at not in dims for at, _ in pairs):
                        several.append((dict(dims), pairs))


def _follow(
    layers: Sequence[Einsum],
    needed: Sequence[Mapping[str, int]],
    links: Sequence[Sequence[Link]],
    outputs: Sequence[frozenset[str]],
    dims: dict[int, str],
    todo: list[tuple[int, str]],
) -> bool:
    """Add dimensions of layers, and all that the links of each layer join to them; whether that is possible."""
    while todo:
        layer, name = todo.pop()
        if dims.get(layer, name) != name or needed[layer][name] == 1 or name in layers[layer].whole:
            return False
        if layer in dims:
            continue
        dims[layer] = name
        for link in links[layer]:
            found = _through(outputs, link, layer, name)
            if found is None:
                return False
            todo += found
    return True


def _fused_dim(
    layers: Sequence[Einsum],
    needed: Sequence[Mapping[str, int]],
    inside: Sequence[Link],
    ends: tuple[int, ...],
    dims: tuple[str, ...],
) -> FusedDim | None:
    """What fused loops over a dimension of each layer move; None if a window slides over what leaves the group."""
    moves, extents, producers = [], [], []
    for link in inside:
        assert link.producer is not None
        rank = next(k for k, r in enumerate(link.readers[0].ranks) if r.producer == dims[link.producer])
        moves.append(tuple(_move(needed, r, r.ranks[rank], dims[r.layer]) for r in link.readers))
        extents.append(link.readers[0].ranks[rank].extent)
        producers.append(link.producer)
    summed = frozenset(at for at, layer in enumerate(layers) if dims[at] not in layer.output.dims)
    for at in ends:
        ranks = [rank for rank in layers[at].output.ranks if any(d == dims[at] for d, _ in rank)]
        if any(rank != ((dims[at], 1),) for rank in ranks):
            return None
    bounds = tuple(needed[at][dims[at]] for at in range(len(layers)))
    most = math.gcd(*(bounds[at] for at in ends))
    return FusedDim(dims[-1], dims, most, bounds, ends, tuple(moves), tuple(extents), tuple(producers), summed)


def _through(outputs: Sequence[frozenset[str]], link: Link, layer: int, name: str) -> list[tuple[int, str]] | None:
    """Dimensions of the others that a link joins to a layer, which move with one of its own; None if it stays.

    `outputs`: dimensions of each layer's output.
    """
    found: list[tuple[int, str]] = []
    kind = None
    if link.producer == layer:
        kind = next((k for k, rank in enumerate(link.readers[0].ranks) if rank.producer == name), None)
        if kind is None:
            return None
    for reader in link.readers:
        if reader.layer != layer:
            continue
        mine = next((k for k, rank in enumerate(reader.ranks) if any(name == dim for dim, _ in rank.terms)), None)
        if mine is None or kind not in (None, mine) or _mover(outputs[layer], reader.ranks[mine]) != name:
            return None
        kind = mine
    if kind is None:
        return found
    if link.producer is not None:
        found.append((link.producer, link.readers[0].ranks[kind].producer))
    for reader in link.readers:
        mover = _mover(outputs[reader.layer], reader.ranks[kind])
        if mover is None:
            return None
        found.append((reader.layer, mover))
    return found


def _mover(output: frozenset[str], rank: TiedRank) -> str | None:
    """The one dimension of a reader that moves it along a rank: the others are a window. One that it sums has none."""
    outer = [dim for dim, _ in rank.terms if dim in output]
    if not outer and len(rank.terms) == 1:
        (dim, factor), exact = rank.terms[0], rank.box == rank.extent and not rank.before
        return dim if factor == 1 and exact else None
    return outer[0] if len(outer) == 1 else None


def _in_common(link: Link, layer: int, name: str) -> list[tuple[int, str]]:
    """Dimensions of layers that read the same, word by word, which move with that of one of them."""
    mine = next(reader for reader in link.readers if reader.layer == layer)
    kind = next((k for k, rank in enumerate(mine.ranks) if rank.terms[0][0] == name), None)
    return [] if kind is None else [(reader.layer, reader.ranks[kind].terms[0][0]) for reader in link.readers]


def _move(needed: Sequence[Mapping[str, int]], reader: Reader, rank: TiedRank, name: str) -> Move:
    window = sum(f * (needed[reader.layer][dim] - 1) for dim, f in rank.terms if dim != name)
    return Move(reader.layer, dict(rank.terms)[name], window, rank.before)


@dataclass(frozen=True, eq=False)
class Demand:
    """What a loop over a fused dimension asks for along it, step by step."""

    runs: tuple[tuple[int, ...], ...]  # for each step the length of what each layer runs; 0 where it has nothing to do
    tiles: tuple[int, ...]  # of each link the words of its longest tile along the dimension, padding included
    halos: tuple[int, ...]  # of each link the words that two tiles share at most
    # for each step what is demanded of each layer, from one point to before another, whether it is there or not; what
    # it runs are the last of these
    requested: tuple[tuple[tuple[int, int], ...], ...]

    @functools.lru_cache(maxsize=4096)  # noqa: B019  # one of few that are made
    def lengths(self, apart: bool) -> tuple[Counter[tuple[int, bool]], ...]:
        """For each layer how often it runs so many points, in the first step and, if `apart`, in later ones."""
        several = zip(*self.runs, strict=True)
        return tuple(Counter((n, not apart or step == 0) for step, n in enumerate(its)) for its in several)

    @functools.lru_cache(maxsize=4096)  # noqa: B019
    def covers(self, first: int, other: int) -> bool:
        """Whether the tile that one layer has holds all that another one asks for, in each step."""
        for spans, lengths in zip(self.requested, self.runs, strict=True):
            (low, high), end = spans[first], spans[other][1]
            if lengths[other] and not low <= end - lengths[other] < end <= high:
                return False
        return True

    @functools.lru_cache(maxsize=4096)  # noqa: B019
    def kept_tile(self, first: int, others: tuple[int, ...]) -> tuple[int, int]:
        """Words that lie there at most from where a layer fetches them until the last has read them, and after that."""
        end = max(spans[first][1] for spans in self.requested)
        lowest, lows = end, []  # the first word that a step or a later one reads again
        for spans, lengths in zip(reversed(self.requested), reversed(self.runs), strict=True):
            lowest = min([lowest, *(spans[at][1] - lengths[at] for at in others if lengths[at])])
            lows.append(lowest)
        tile = halo = fetched = 0
        for low, spans, lengths in zip(reversed(lows), self.requested, self.runs, strict=True):
            halo = max(halo, fetched - low)
            if lengths[first]:
                low, fetched = min(low, spans[first][1] - lengths[first]), max(fetched, spans[first][1])
            tile = max(tile, fetched - low)
        return tile, halo


@functools.lru_cache(maxsize=4096)
def demand(dim: FusedDim, steps: int, retained: tuple[bool, ...]) -> Demand:
    """Follow the tiles of the layers whose outputs leave the group back through it.

    A tile of `n` points asks for `step * (n - 1) + window + 1` words of what it reads, of which those in the padding
    are not computed. Several readers ask for all from the first word of any to the last. A retained halo is not
    computed again, and none is longer where others are retained.

    `steps`: divides `dim.most`. `retained`: for each link inside, whether the words that two tiles share stay; else
    they are computed again.

    >>> rows = FusedDim("P", ("P", "P"), 8, (8, 8), (1,), ((Move(1, 1, 2, 1),),), (8,), (0,), frozenset())
    >>> demand(rows, 2, (False,)).runs, demand(rows, 2, (True,)).runs
    (((5, 4), (5, 4)), ((5, 4), (3, 4)))
    """
    links, layers = len(dim.moves), len(dim.bounds)
    written = {producer: link for link, producer in enumerate(dim.producers)}
    done, before = [0] * links, [-math.inf] * links
    tiles, halos = [0] * links, [0] * links
    runs: list[tuple[int, ...]] = []
    requested: list[tuple[tuple[int, int], ...]] = []
    for step in range(steps):
        spans, fresh = [(0, 0)] * layers, [(0, 0)] * layers
        for at in range(layers - 1, -1, -1):
            asked = []
            if at in dim.ends:
                share = dim.bounds[at] // steps
                asked.append((step * share, (step + 1) * share))
            link = written.get(at)
            if link is not None:
                for move in dim.moves[link]:
                    low, high = fresh[move.layer]  # what is there already asks for nothing
                    if high > low:
                        first = move.step * low - move.before
                        asked.append((first, first + move.step * (high - 1 - low) + move.window + 1))
            if not asked:
                spans[at] = fresh[at] = (requested[-1][at][1],) * 2 if requested else (0, 0)
                continue
            low, high = min(low for low, _ in asked), max(high for _, high in asked)
            if link is None:
                spans[at] = fresh[at] = low, high
                continue
            tiles[link] = max(tiles[link], high - low)
            halos[link] = max(halos[link], int(max(0, before[link] - low)))
            before[link] = high
            low, high = max(0, low), min(dim.extents[link], high)
            spans[at] = (low, max(low, high))
            if retained[link]:
                low, done[link] = max(low, done[link]), max(done[link], high)
            fresh[at] = low, max(low, high)
        runs.append(tuple(high - low for low, high in fresh))
        requested.append(tuple(spans))
    return Demand(tuple(runs), tuple(tiles), tuple(halos), tuple(requested))
