"""Chains of layers: how the tensor between two of them lines up, and what a tile of the last layer demands of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Einsum


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of an intermediate: a dimension of its producer, and a sum of dimensions of its consumer.

    Attributes
    ----------
    producer : str
        Dimension that the producer writes along.
    extent : int
        Its bound: words that are written.
    terms : tuple of (str, int)
        Dimensions of the consumer with coefficients, those of bound 1 left out.
    box : int
        Words of the consumer's box along the rank, padding included, as far as the end of the chain asks for them.
    before : int
        Words of padding before the first word that is written: the larger half, as symmetric padding gives.
    """

    producer: str
    extent: int
    terms: tuple[tuple[str, int], ...]
    box: int
    before: int


@dataclass(frozen=True, slots=True)
class Link:
    """An intermediate: output of one layer and input `tensor` of the next; ranks of one word are left out."""

    tensor: str
    ranks: tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class FusedDim:
    """A dimension of the last layer's output that fused loops may run over.

    Attributes
    ----------
    name : str
    bound : int
    dims : tuple of str
        The dimension of each layer that it moves; that of the last layer is `name`.
    ranks : tuple of Rank
        The rank of each intermediate that it moves.
    steps, windows : tuple of int
        For each intermediate the words that the consumer's box moves on when its dimension does, and the words by which
        it is longer than that: the halo of a box is `window - step + 1` words.
    """

    name: str
    bound: int
    dims: tuple[str, ...]
    ranks: tuple[Rank, ...]
    steps: tuple[int, ...]
    windows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shortcut:
    """What the first layer of a chain reads and a later one reads again: the other operand of a residual sum.

    Attributes
    ----------
    tensor : str
        Input of the first layer.
    layer : int
        Place of the later layer in the chain.
    again : str
        Its input that is the same tensor.
    """

    tensor: str
    layer: int
    again: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers of which each reads what the one before writes, made by `make_chain`.

    `needed` are the bounds of each layer without what nothing asks for: rows behind the last step of a stride.
    """

    layers: tuple[Einsum, ...]
    links: tuple[Link, ...]
    dims: tuple[FusedDim, ...]
    needed: tuple[Mapping[str, int], ...]
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
    output, read = producer.output, next(t for t in consumer.tensors if t.name == tensor)
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
        ranks.append(Rank(name, extent, terms, box, max(0, -(-(box - extent) // 2))))
    return Link(tensor, tuple(ranks))


def output_extent(einsum: Einsum, rank: tuple[tuple[str, int], ...]) -> int:
    """Words along one rank of an output."""
    return 1 + sum(factor * (einsum.dims[dim] - 1) for dim, factor in rank)


def make_chain(layers: Sequence[Einsum], tensors: Sequence[str], shortcut: Shortcut | None = None) -> Chain:
    """Join layers to a chain.

    Parameters
    ----------
    layers : sequence of Einsum
        In the order in which they run.
    tensors : sequence of str
        Of each layer but the first, the input that the layer before it writes.
    shortcut : Shortcut, optional
        An input of the first layer that a later one reads again, both word by word (see `word_by_word`).

    Raises
    ------
    AccelsimError
        If an output does not line up with the input that reads it.

    Examples
    --------
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
    return Chain(tuple(layers), tuple(links), fused, tuple(needed), shortcut)


def word_by_word(einsum: Einsum, tensor: str) -> tuple[tuple[str, int], ...] | None:
    """Dimension and bound of each rank of a tensor, ranks of one word left out; None if a window or a stride moves it.

    Examples
    --------
    >>> from accelsim import load_workload
    >>> block = {layer.name: layer for layer in load_workload("resnet50").layers}
    >>> word_by_word(block["conv3_reduce"], "Inputs"), word_by_word(block["conv3_3x3"], "Inputs")
    ((('C', 512), ('P', 28), ('Q', 28)), None)
    """
    found = []
    for rank in next(t for t in einsum.tensors if t.name == tensor).ranks:
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
        asked = {rank.producer: min(rank.extent, rank.box - rank.before) for rank in ranks}
        bounds.insert(0, dict(producer.dims) | asked)
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
    """What a loop over a fused dimension asks for along it, step by step.

    Attributes
    ----------
    runs : tuple of tuple of int
        For each step the length of what each layer runs; 0 where it has nothing to do.
    tiles : tuple of int
        Of each intermediate the words of its longest tile along the dimension, padding included.
    halos : tuple of int
        Of each intermediate the words that two tiles share at most.
    asked : tuple of tuple of (int, int)
        For each step what is demanded of each layer, from one point to before another, whether it is there or not;
        what it runs are the last of these.
    """

    runs: tuple[tuple[int, ...], ...]
    tiles: tuple[int, ...]
    halos: tuple[int, ...]
    asked: tuple[tuple[tuple[int, int], ...], ...]


@functools.lru_cache(maxsize=4096)
def demand(dim: FusedDim, tile: int, retained: tuple[bool, ...]) -> Demand:
    """Follow the tiles of the last layer back through the chain.

    A tile of `n` points asks for `step * (n - 1) + window + 1` words of the intermediate before it, of which those in
    the padding are not computed. A retained halo is not computed again.

    Parameters
    ----------
    dim : FusedDim
    tile : int
        Points of the last layer's output in a step; divides the bound.
    retained : tuple of bool
        For each intermediate, whether the words that two tiles share stay; else they are computed again.

    Examples
    --------
    >>> rows = Rank("P", 8, (("P", 1), ("R", 1)), 10, 1)
    >>> dim = FusedDim("P", 8, ("P", "P"), (rows,), (1,), (2,))
    >>> demand(dim, 4, (False,)).runs, demand(dim, 4, (True,)).runs
    (((5, 4), (5, 4)), ((5, 4), (3, 4)))
    """
    links = len(dim.ranks)
    done, before = [0] * links, [-math.inf] * links
    tiles, halos = [0] * links, [0] * links
    runs, asked = [], []
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
        asked.append(tuple(reversed(spans)))
    return Demand(tuple(runs), tuple(tiles), tuple(halos), tuple(asked))
