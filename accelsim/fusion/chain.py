"""Chains of layers: how the tensor between two of them lines up, and what a tile of the last layer demands of it.

And which runs of the layers of a network follow each other in a line, and why others cannot be fused.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, UnknownNameError
from accelsim.inputs.units import listed, near_miss, near_misses
from accelsim.inputs.workload import Edge, Einsum, Workload


@dataclass(frozen=True, slots=True)
class TiedRank:
    """One rank of an intermediate: a dimension of its producer, and a sum of dimensions of its consumer."""

    producer: str  # dimension that the producer writes along
    extent: int  # its bound: words that are written
    terms: tuple[tuple[str, int], ...]  # dimensions of the consumer with coefficients, those of bound 1 left out
    # words of the consumer's box along the rank, padding included, as far as the end of the chain asks for them
    box: int
    before: int  # words of padding before the first word that is written: the larger half, as symmetric padding gives


@dataclass(frozen=True, slots=True)
class Link:
    """An intermediate: output of one layer and input `tensor` of the next; ranks of one word are left out."""

    tensor: str
    ranks: tuple[TiedRank, ...]


@dataclass(frozen=True, slots=True)
class FusedDim:
    """A dimension of the last layer's output that fused loops may run over."""

    name: str
    bound: int
    dims: tuple[str, ...]  # the dimension of each layer that it moves; that of the last layer is `name`
    ranks: tuple[TiedRank, ...]  # the rank of each intermediate that it moves
    # for each intermediate the words that the consumer's box moves on when its dimension does, and the words by which
    # it is longer than that: the halo of a box is `window - step + 1` words
    steps: tuple[int, ...]
    windows: tuple[int, ...]

    def overlaps(self, link: int) -> bool:
        """Whether neighbouring tiles of an intermediate have words in common along it."""
        return self.windows[link] + 1 > self.steps[link]


@dataclass(frozen=True, slots=True)
class Shortcut:
    """What the first layer of a chain reads and a later one reads again: the other operand of a residual sum."""

    tensor: str  # input of the first layer
    layer: int  # place of the later layer in the chain
    again: str  # its input that is the same tensor


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers of which each reads what the one before writes, made by `make_chain`.

    `needed` are the bounds of each layer without what nothing asks for: rows behind the last step of a stride. `rules`
    are the constraints of each layer's mapping, in numbers.
    """

    layers: tuple[Einsum, ...]
    links: tuple[Link, ...]
    dims: tuple[FusedDim, ...]
    needed: tuple[Mapping[str, int], ...]
    rules: tuple[Constraints, ...]
    shortcut: Shortcut | None = None

    @property
    def name(self) -> str:
        """Names of the layers in order."""
        return " + ".join(layer.name for layer in self.layers)

    def intermediates(self, layer: int) -> tuple[str | None, str | None]:
        """Names of the tensors that a layer takes from the one before it, and gives to the one after it."""
        taken = self.links[layer - 1].tensor if layer > 0 else None
        given = self.layers[layer].output.name if layer < len(self.links) else None
        return taken, given


def make_link(producer: Einsum, consumer: Einsum, tensor: str) -> Link | str:
    """Line up the ranks of an output with those of the input that reads it; says why if they do not line up.

    Ranks of one word count for nothing. All others must be as many and of equal extent, but for the padding of a rank
    over which a window slides.
    """
    output, read = producer.output, consumer.tensor(tensor)
    if output.bits != read.bits:
        return f"{producer.name} writes words of {output.bits} bit, {consumer.name} reads words of {read.bits} bit"
    written = [rank for rank in output.ranks if output_extent(producer, rank) > 1]
    taken = [(rank, extent) for rank, extent in zip(read.ranks, read.box(consumer.dims), strict=True) if extent > 1]
    if any(sum(producer.dims[d] > 1 for d, _ in rank) > 1 or max(f for _, f in rank) > 1 for rank in written):
        return f"a window slides over the output of {producer.name}"
    sides = [[output_extent(producer, rank) for rank in written], [extent for _, extent in taken]]
    text = " against ".join(" x ".join(map(str, side)) or "1" for side in sides)
    if len(written) != len(taken):
        return f"the ranks of {consumer.name}'s {tensor} do not line up with {producer.name}'s output ({text})"
    ranks = []
    for rank, (its, box) in zip(written, taken, strict=True):
        name = next(d for d, _ in rank if producer.dims[d] > 1)
        terms = tuple((d, f) for d, f in its if consumer.dims[d] > 1)
        extent = producer.dims[name]
        window = sum(f * (consumer.dims[d] - 1) for d, f in terms if d not in consumer.output.dims)
        stride = min((f for d, f in its if d in consumer.output.dims), default=1)
        if not box - 2 * window <= extent < box + stride:
            return f"the ranks of {consumer.name}'s {tensor} do not line up with {producer.name}'s output ({text})"
        ranks.append(TiedRank(name, extent, terms, box, max(0, -(-(box - extent) // 2))))
    return Link(tensor, tuple(ranks))


def output_extent(einsum: Einsum, rank: tuple[tuple[str, int], ...]) -> int:
    """Words along one rank of an output."""
    return 1 + sum(factor * (einsum.dims[dim] - 1) for dim, factor in rank)


def make_chain(
    layers: Sequence[Einsum],
    tensors: Sequence[str],
    shortcut: Shortcut | None = None,
    rules: Sequence[Constraints] = (),
) -> Chain:
    """Join layers to a chain, in the order in which they run.

    `tensors`: of each layer but the first, the input that the layer before it writes. `shortcut`: an input of the first
    layer that a later one reads again, both word by word (see `word_by_word`). `rules`: see `Chain`; none if empty.
    Raises AccelsimError if an output does not line up with the input that reads it.

    >>> from accelsim import load_workload
    >>> block = {layer.name: layer for layer in load_workload("mobilenet_v2").layers}
    >>> chain = make_chain([block["b7_depthwise"], block["b7_project"]], ["Inputs"])
    >>> [(dim.name, dim.bound) for dim in chain.dims]
    [('P', 14), ('Q', 14)]
    """
    links = []
    for producer, consumer, tensor in zip(layers, layers[1:], tensors, strict=False):
        link = make_link(producer, consumer, tensor)
        if isinstance(link, str):
            raise AccelsimError(f"{producer.name} and {consumer.name} cannot be fused: {link}")
        links.append(link)
    links, needed = _needed(layers, links)
    last = layers[-1]
    dims = [_trace(layers, links, rank[0]) for rank in last.output.ranks if len(rank) == 1]
    fused = tuple(dim for dim in dims if dim is not None)
    asked = tuple(rules) or (Constraints(),) * len(layers)
    return Chain(tuple(layers), tuple(links), fused, tuple(needed), asked, shortcut)


def word_by_word(einsum: Einsum, tensor: str) -> tuple[tuple[str, int], ...] | None:
    """Dimension and bound of each rank of a tensor, ranks of one word left out; None if a window or a stride moves it.

    >>> from accelsim import load_workload
    >>> block = {layer.name: layer for layer in load_workload("resnet50").layers}
    >>> word_by_word(block["conv3_reduce"], "Inputs"), word_by_word(block["conv3_3x3"], "Inputs")
    ((('C', 512), ('P', 28), ('Q', 28)), None)
    """
    found = []
    for rank in einsum.tensor(tensor).ranks:
        terms = [(dim, factor) for dim, factor in rank if einsum.dims[dim] > 1]
        if len(terms) > 1 or any(factor > 1 for _, factor in terms):
            return None
        found += [(dim, einsum.dims[dim]) for dim, _ in terms]
    return tuple(found)


def _needed(layers: Sequence[Einsum], links: Sequence[Link]) -> tuple[list[Link], list[dict[str, int]]]:
    """Bounds of each layer that the end of the chain asks for, and the links with the boxes that follow from them."""
    bounds = [dict(layers[-1].dims)]
    shorter: list[Link] = []
    for producer, link in zip(reversed(layers[:-1]), reversed(links), strict=True):
        boxes = [1 + sum(factor * (bounds[0][dim] - 1) for dim, factor in rank.terms) for rank in link.ranks]
        ranks = tuple(replace(rank, box=box) for rank, box in zip(link.ranks, boxes, strict=True))
        requested = {rank.producer: min(rank.extent, rank.box - rank.before) for rank in ranks}
        bounds.insert(0, dict(producer.dims) | requested)
        shorter.insert(0, Link(link.tensor, ranks))
    return shorter, bounds


def _trace(layers: Sequence[Einsum], links: Sequence[Link], last: tuple[str, int]) -> FusedDim | None:
    """Follow a dimension of the last output back through all intermediates.

    None if it does not move each of them, or a layer must have all words along it at once.
    """
    name, factor = last
    bound = layers[-1].dims[name]
    if bound == 1 or factor != 1:
        return None
    dims, ranks, steps, windows, at = [name], [], [], [], name
    for layer, link in zip(reversed(layers), reversed(links), strict=False):
        rank = next((rank for rank in link.ranks if at in dict(rank.terms)), None)
        if rank is None or any(d != at and d in layer.output.dims for d, _ in rank.terms):
            return None
        ranks.append(rank)
        steps.append(dict(rank.terms)[at])
        windows.append(sum(f * (layer.dims[d] - 1) for d, f in rank.terms if d != at))
        at = rank.producer
        dims.append(at)
    if any(dim in layer.whole for dim, layer in zip(reversed(dims), layers, strict=True)):
        return None
    return FusedDim(name, bound, tuple(dims[::-1]), tuple(ranks[::-1]), tuple(steps[::-1]), tuple(windows[::-1]))


@dataclass(frozen=True, slots=True)
class Demand:
    """What a loop over a fused dimension asks for along it, step by step."""

    runs: tuple[tuple[int, ...], ...]  # for each step the length of what each layer runs; 0 where it has nothing to do
    tiles: tuple[int, ...]  # of each intermediate the words of its longest tile along the dimension, padding included
    halos: tuple[int, ...]  # of each intermediate the words that two tiles share at most
    # for each step what is demanded of each layer, from one point to before another, whether it is there or not; what
    # it runs are the last of these
    requested: tuple[tuple[tuple[int, int], ...], ...]


@functools.lru_cache(maxsize=4096)
def demand(dim: FusedDim, tile: int, retained: tuple[bool, ...]) -> Demand:
    """Follow the tiles of the last layer back through the chain.

    A tile of `n` points asks for `step * (n - 1) + window + 1` words of the intermediate before it, of which those in
    the padding are not computed. A retained halo is not computed again.

    `tile`: points of the last layer's output in a step; divides the bound. `retained`: for each intermediate, whether
    the words that two tiles share stay; else they are computed again.

    >>> rows = TiedRank("P", 8, (("P", 1), ("R", 1)), 10, 1)
    >>> dim = FusedDim("P", 8, ("P", "P"), (rows,), (1,), (2,))
    >>> demand(dim, 4, (False,)).runs, demand(dim, 4, (True,)).runs
    (((5, 4), (5, 4)), ((5, 4), (3, 4)))
    """
    links = len(dim.ranks)
    done, before = [0] * links, [-math.inf] * links
    tiles, halos = [0] * links, [0] * links
    runs, requested = [], []
    for first in range(0, dim.bound, tile):
        low, high = first, first + tile
        lengths, spans = [tile], [(low, high)]
        for at in range(links - 1, -1, -1):
            if high <= low:
                lengths.append(0)
                spans.append((low, low))
                continue
            rank = dim.ranks[at]
            low, high = dim.steps[at] * low, dim.steps[at] * (high - 1) + dim.windows[at] + 1
            tiles[at] = max(tiles[at], high - low)
            halos[at] = max(halos[at], int(max(0, before[at] - low)))
            before[at] = high
            low, high = max(0, low - rank.before), min(rank.extent, high - rank.before)
            spans.append((low, high))
            if retained[at]:
                low, done[at] = max(low, done[at]), max(done[at], high)
            lengths.append(max(0, high - low))
        runs.append(tuple(reversed(lengths)))
        requested.append(tuple(reversed(spans)))
    return Demand(tuple(runs), tuple(tiles), tuple(halos), tuple(requested))


_Follows = dict[str, tuple[Edge, int]]
"""By layer, the edge over which it follows another one, and which run of that its first run follows."""


@dataclass(frozen=True, slots=True)
class Line:
    """Layers that follow each other, each reading what the one before writes and nothing else reads."""

    layers: tuple[Einsum, ...]
    tensors: tuple[str, ...]  # of each layer but the first, the input that the one before writes
    repeat: int  # how many such lines the network has, those in `alike` included
    # names of the layers of equal lines, and how many of these there are
    alike: tuple[tuple[tuple[str, ...], int], ...] = ()
    shortcut: Shortcut | None = None  # what the first layer reads and a later one reads again
    rules: tuple[Constraints, ...] = ()  # constraints of each layer's mapping, in numbers; none if empty

    @property
    def key(self) -> object:
        """What tells the line from others of a network."""
        return tuple(layer.name for layer in self.layers), self.shortcut

    def chain(self, first: int = 0, end: int | None = None) -> Chain:
        """Layers from one to before another as a chain."""
        last = len(self.layers) if end is None else end
        inside = first == 0 and self.shortcut is not None and self.shortcut.layer < last
        shortcut = self.shortcut if inside else None
        return make_chain(self.layers[first:end], self.tensors[first : last - 1], shortcut, self.rules[first:end])


@dataclass(frozen=True, slots=True)
class Apart:
    """Two layers that follow each other and cannot be fused, and why."""

    producer: str
    consumer: str
    why: str


@dataclass(frozen=True, slots=True)
class Lines:
    """All runs of a network in lines.

    `inferred`: the workload names no edge, and neighbours whose shapes line up were taken to follow each other.
    """

    lines: tuple[Line, ...]
    apart: tuple[Apart, ...]
    inferred: bool


def find_lines(workload: Workload) -> Lines:
    """Put each run of each layer into a line.

    An output that more runs read than write it is read twice, and has to go to the outermost level; so has one that is
    a part of what its consumer reads. A layer that reads several outputs follows the first one that it can.

    >>> from accelsim import load_workload
    >>> found = find_lines(load_workload("llama"))
    >>> [line.repeat for line in found.lines if [layer.name for layer in line.layers][-1] == "attention_context"]
    [32]
    """
    edges = workload.edges or _neighbours(workload.layers)
    layers = {layer.name: layer for layer in workload.layers}
    usable, apart = _usable(edges, layers)
    follows: _Follows = {}
    used: Counter[str] = Counter()
    for edge in edges:
        if edge in usable:
            follows.setdefault(edge.consumer, (edge, used[edge.producer]))
        used[edge.producer] += layers[edge.consumer].repeat
    lines = _join(workload, follows)
    return Lines(lines, tuple(apart), not workload.edges and bool(edges))


def put_together(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Lines that differ in the names of their layers alone as one, in the order of the first of them.

    >>> from accelsim import load_workload
    >>> lines = put_together(find_lines(load_workload("resnet50")).lines)
    >>> [(line.repeat, line.alike) for line in lines if line.layers[0].name == "conv2_shortcut"]
    [(1, ())]
    """
    found: dict[object, Line] = {}
    for line in lines:
        shapes = tuple((tuple(e.dims.items()), e.tensors, e.whole) for e in line.layers)
        key = shapes, line.tensors, line.shortcut, line.rules
        first = found.setdefault(key, line)
        if first is not line:
            names = tuple(layer.name for layer in line.layers)
            more = replace(first, repeat=first.repeat + line.repeat, alike=(*first.alike, (names, line.repeat)))
            found[key] = more
    return tuple(found.values())


def _neighbours(layers: Sequence[Einsum]) -> tuple[Edge, ...]:
    """Edges between layers that stand next to each other, run as often, and whose shapes line up."""
    found = []
    for producer, consumer in itertools.pairwise(layers):
        inputs = [tensor.name for tensor in consumer.tensors if tensor.role == "Inputs"]
        if len(inputs) != 1 or producer.repeat != consumer.repeat:
            continue
        if not isinstance(make_link(producer, consumer, inputs[0]), str):
            found.append(Edge(producer.name, consumer.name, inputs[0]))
    return tuple(found)


def _usable(edges: Sequence[Edge], layers: dict[str, Einsum]) -> tuple[set[Edge], list[Apart]]:
    """Edges over which layers can be fused, and why not over others."""
    readers: Counter[str] = Counter()
    for edge in edges:
        readers[edge.producer] += layers[edge.consumer].repeat
    sources = Counter((edge.consumer, edge.tensor) for edge in edges)
    usable, apart = set(), []
    for edge in edges:
        producer, consumer = layers[edge.producer], layers[edge.consumer]
        why = make_link(producer, consumer, edge.tensor)
        if readers[edge.producer] > producer.repeat:
            runs, reads = producer.repeat, readers[edge.producer]
            why = f"{reads} runs read what {runs} run{'s write' if runs > 1 else ' writes'}"
        elif sources[edge.consumer, edge.tensor] > 1:
            why = f"{edge.tensor} of {edge.consumer} is put together from several outputs"
        if isinstance(why, str):
            apart.append(Apart(edge.producer, edge.consumer, why))
        else:
            usable.add(edge)
    return usable, apart


def find_shortcut(workload: Workload, names: Sequence[str]) -> Shortcut | None:
    """What the first of some layers reads and another of them reads again, word by word: the first one that does.

    Each run of both reads the run of the producer that has its number, so all three run equally often.

    >>> from accelsim import load_workload
    >>> find_shortcut(load_workload("llama"), ["attention_scores", "attention_context"]) is None
    True
    """
    layers = {layer.name: layer for layer in workload.layers}
    sources = Counter((edge.consumer, edge.tensor) for edge in workload.edges)
    whole = [edge for edge in workload.edges if sources[edge.consumer, edge.tensor] == 1]
    for first in (edge for edge in whole if edge.consumer == names[0]):
        again = {edge.consumer: edge for edge in whole if edge.producer == first.producer}
        for at, name in enumerate(names[1:], 1):
            both = [first, again[name]] if name in again else []
            runs = {layers[each].repeat for each in (first.producer, names[0], name)}
            if both and len(runs) == 1 and all(_reads_words(layers, edge) for edge in both):
                return Shortcut(first.tensor, at, both[1].tensor)
    return None


def _reads_words(layers: dict[str, Einsum], edge: Edge) -> bool:
    """Whether a layer reads what another one writes as it is, without a window."""
    producer, consumer = layers[edge.producer], layers[edge.consumer]
    joined = not isinstance(make_link(producer, consumer, edge.tensor), str)
    return joined and word_by_word(consumer, edge.tensor) is not None


def _join(workload: Workload, follows: _Follows) -> tuple[Line, ...]:
    """Lines in the order of the runs of their first layers.

    All runs of a layer follow runs of one layer, one by one: a line ends in the runs of a layer that none follows.
    """
    layers = {layer.name: layer for layer in workload.layers}
    place = {layer.name: number for number, layer in enumerate(workload.layers)}
    readers: dict[str, list[tuple[int, int]]] = {}
    for consumer, (edge, first) in follows.items():
        readers.setdefault(edge.producer, []).append((first, layers[consumer].repeat))
    found = []
    for layer in workload.layers:
        rest, run = layer.repeat, 0
        for first, many in sorted(readers.get(layer.name, ())):
            rest -= many
            run += many if run == first else 0
        if not rest:
            continue
        names, tensors, runs = [layer.name], list[str](), [run]
        while names[0] in follows:
            edge, first = follows[names[0]]
            names.insert(0, edge.producer)
            tensors.insert(0, edge.tensor)
            runs.insert(0, first + runs[0])
        shortcut = find_shortcut(workload, names)
        same = shortcut is not None and runs[shortcut.layer] == runs[0]
        line = Line(tuple(layers[name] for name in names), tuple(tensors), rest, shortcut=shortcut if same else None)
        found.append((place[names[0]], runs[0], line))
    return tuple(line for _, _, line in sorted(found, key=lambda each: each[:2]))


def named_line(workload: Workload, names: Sequence[str]) -> Line:
    """Line of layers that the user names, each run once.

    Raises AccelsimError if a name is unknown, or a layer cannot read what the one before it writes.
    """
    layers = {layer.name: layer for layer in workload.layers}
    for name in names:
        if name not in layers:
            hint = near_miss(name, layers, "layers")
            what = f"{workload.name} has no layer '{name}'; {hint}"
            raise UnknownNameError(what, name, near_misses(name, layers))
    if len(names) < 2:
        raise AccelsimError("a chain has two layers at least; write them with commas, in the order in which they run")
    tensors = []
    for first, second in itertools.pairwise(names):
        edge = next((e for e in workload.edges if (e.producer, e.consumer) == (first, second)), None)
        inputs = [tensor.name for tensor in layers[second].tensors if tensor.role == "Inputs"]
        tensor = edge.tensor if edge else next(iter(inputs), "")
        others = [e.producer for e in workload.edges if e.consumer == second]
        if edge is None and others:
            raise AccelsimError(f"{second} does not read {first}; it reads {listed(dict.fromkeys(others))}")
        if edge is None and len(inputs) != 1:
            raise AccelsimError(
                f"{second} has {len(inputs)} inputs with the role Inputs; say with `from` which is which"
            )
        link = make_link(layers[first], layers[second], tensor)
        if isinstance(link, str):
            raise AccelsimError(f"{first} and {second} cannot be fused: {link}")
        tensors.append(tensor)
    shortcut = find_shortcut(workload, names)
    return Line(tuple(layers[name] for name in names), tuple(tensors), 1, shortcut=shortcut)
