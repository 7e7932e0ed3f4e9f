"""Graphs of Einsums: what the layers of a network pass on to each other, and which of them can be fused.

A layer here is an Einsum. A *link* is an output with those that read it. A graph holds the layers that links join, of
which each runs once; a network may have it several times.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, UnknownNameError
from accelsim.inputs.units import listed, near_miss, near_misses
from accelsim.inputs.workload import Edge, Einsum, Tensor, Workload


@dataclass(frozen=True, slots=True)
class TiedRank:
    """One rank of an output: a dimension of its producer, and a sum of dimensions of one that reads it."""

    producer: str  # dimension that the producer writes along
    extent: int  # its bound: words that are written
    terms: tuple[tuple[str, int], ...]  # dimensions of the reader with coefficients, those of bound 1 left out
    box: int  # words of the reader's box along the rank, padding included
    before: int  # words of padding before the first word that is written: the larger half, as symmetric padding gives


@dataclass(frozen=True, slots=True)
class Reader:
    """Input `tensor` of the layer at a place, and its ranks beside those of the output; ranks of one word left out."""

    layer: int
    tensor: str
    ranks: tuple[TiedRank, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """The output of a layer, and those that read it.

    `producer` is None for one that lies outside the graph. `goes_out`: it has to go to the outermost level, as it is
    read elsewhere or is a result.
    """

    producer: int | None
    readers: tuple[Reader, ...]
    goes_out: bool = False

    def places(self) -> list[int]:
        """Places of all layers that it joins."""
        first = [] if self.producer is None else [self.producer]
        return sorted({*first, *(each.layer for each in self.readers)})


@dataclass(frozen=True, slots=True)
class Graph:
    """Layers in an order in which they may run, and what they pass on.

    Attributes
    ----------
    links : tuple of Link
        Of each output that a layer of the graph reads, those without a producer last.
    rules : tuple of Constraints
        Of each layer's mapping, in numbers.
    repeat : int
        How many such graphs the network has, those in `alike` included.
    alike : tuple
        Names of the layers of equal graphs, and how many of these there are.
    """

    layers: tuple[Einsum, ...]
    links: tuple[Link, ...]
    rules: tuple[Constraints, ...]
    repeat: int = 1
    alike: tuple[tuple[tuple[str, ...], int], ...] = ()


@dataclass(frozen=True, slots=True)
class Apart:
    """Two layers that follow each other and cannot be fused, and why."""

    producer: str
    consumer: str
    why: str


@dataclass(frozen=True, slots=True)
class Graphs:
    """All runs of a network in graphs.

    `inferred`: the workload names no edge, and neighbours whose shapes line up were taken to follow each other.
    """

    graphs: tuple[Graph, ...]
    apart: tuple[Apart, ...]
    inferred: bool


def tie_ranks(producer: Einsum, consumer: Einsum, tensor: str) -> tuple[TiedRank, ...] | str:
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
    return tuple(ranks)


def output_extent(einsum: Einsum, rank: tuple[tuple[str, int], ...]) -> int:
    """Words along one rank of an output."""
    return 1 + sum(factor * (einsum.dims[dim] - 1) for dim, factor in rank)


def make_graph(
    layers: Sequence[Einsum],
    reads: Iterable[tuple[int | Einsum, int, str]],
    results: Iterable[int] = (),
    rules: Sequence[Constraints] = (),
) -> Graph:
    """Join layers to a graph, in an order in which they may run.

    `reads`: which output is which input, as the place of its producer (or a layer outside the graph), the place of the
    reader, and the reader's tensor. `results`: places of layers whose outputs have to go to the outermost level, beside
    those that nothing reads. `rules`: see `Graph`; none if empty. Raises AccelsimError if ranks do not line up.

    >>> from accelsim import load_workload
    >>> block = {layer.name: layer for layer in load_workload("mobilenet_v2").layers}
    >>> graph = make_graph([block["b7_depthwise"], block["b7_project"]], [(0, 1, "Inputs")])
    >>> [(link.producer, [reader.layer for reader in link.readers]) for link in graph.links]
    [(0, [1])]
    """
    readers: dict[int | str, list[Reader]] = {}
    for producer, place, tensor in reads:
        source = producer if isinstance(producer, Einsum) else layers[producer]
        ranks = tie_ranks(source, layers[place], tensor)
        if isinstance(ranks, str):
            raise AccelsimError(f"{source.name} and {layers[place].name} cannot be fused: {ranks}")
        key = source.name if isinstance(producer, Einsum) else producer
        readers.setdefault(key, []).append(Reader(place, tensor, ranks))
    out = set(results)
    inside = [Link(at, tuple(readers[at]), at in out) for at in range(len(layers)) if at in readers]
    outside = [Link(None, tuple(its)) for key, its in readers.items() if isinstance(key, str) and len(its) > 1]
    return Graph(tuple(layers), (*inside, *outside), tuple(rules) or (Constraints(),) * len(layers))


def find_graphs(workload: Workload) -> Graphs:
    """Put each run of each layer into a graph.

    Where all layers that read an output run as often as it is written, each run of theirs reads the run of its number.
    Where they run as often together, each run is read once, in their order. Otherwise the output has to go to the
    outermost level, as has one that is a part of what its consumer reads.

    >>> from accelsim import load_workload
    >>> found = find_graphs(load_workload("llama"))
    >>> [graph.repeat for graph in found.graphs if "attention_context" in [layer.name for layer in graph.layers]]
    [32]
    """
    edges = workload.edges or _neighbours(workload.layers)
    layers = {layer.name: layer for layer in workload.layers}
    joins, apart = _joins(edges, layers)
    graph = {name: name for name in layers}
    fit = _put_together(edges, graph, [(join.edge.producer, join.edge.consumer) for join in joins])
    why = "layers that are apart from both run between them"
    apart += [Apart(j.edge.producer, j.edge.consumer, why) for at, j in enumerate(joins) if at not in fit]
    joins = [join for at, join in enumerate(joins) if at in fit]
    pieces = _pieces(workload, joins)
    shared = []
    for source, readers in _shared_inputs(workload, pieces):
        first, *others = readers
        fit = _put_together(edges, graph, [(first[0][0], each[0][0]) for each in others])
        if fit:
            shared.append((source, (first, *(each for at, each in enumerate(others) if at in fit))))
    groups = _connected(pieces, joins, shared)
    graphs = [_graph_of(workload, runs, joins, shared) for runs in groups]
    return Graphs(tuple(graphs), tuple(apart), not workload.edges and bool(edges))


def _put_together(edges: Sequence[Edge], graph: dict[str, str], pairs: Sequence[tuple[str, str]]) -> set[int]:
    """Put the graphs of two layers together, pair by pair, unless others have to run between; of which it was done."""
    done, before = set[int](), -1
    while len(done) > before:  # what runs between may be put there, too
        before = len(done)
        for number in sorted({*range(len(pairs))} - done):
            ends = {graph[name] for name in pairs[number]}
            if not ends & _after({(graph[edge.producer], graph[edge.consumer]) for edge in edges}, ends):
                graph |= {name: min(ends) for name, its in graph.items() if its in ends}
                done.add(number)
    return done


def _after(pairs: Set[tuple[str, str]], some: Set[str]) -> set[str]:
    """What runs after some layers, and which of these run after others."""
    found, todo = set[str](), {after for one, after in pairs if one in some and after not in some}
    while todo:
        found |= todo
        todo = {after for one, after in pairs if one in todo} - found
    return found


@dataclass(frozen=True, slots=True)
class _Join:
    """An edge over which layers can be fused, and the run of the producer that the consumer's first run reads."""

    edge: Edge
    first: int


_Piece = tuple[str, int, int]
"""A layer by name, and its runs from one to before another."""


def _joins(edges: Sequence[Edge], layers: Mapping[str, Einsum]) -> tuple[list[_Join], list[Apart]]:
    """Edges over which layers can be fused, and why not over others."""
    readers: dict[str, list[int]] = {}
    for edge in edges:
        readers.setdefault(edge.producer, []).append(layers[edge.consumer].repeat)
    sources = Counter((edge.consumer, edge.tensor) for edge in edges)
    used: Counter[str] = Counter()
    joins, apart = [], []
    for edge in edges:
        producer, consumer = layers[edge.producer], layers[edge.consumer]
        runs, reads = producer.repeat, readers[edge.producer]
        same, first = all(each == runs for each in reads), used[edge.producer]
        used[edge.producer] += 0 if same else consumer.repeat
        why = tie_ranks(producer, consumer, edge.tensor)
        if not same and sum(reads) > runs:
            why = f"{sum(reads)} runs read what {runs} run{'s write' if runs > 1 else ' writes'}"
        elif sources[edge.consumer, edge.tensor] > 1:
            why = f"{edge.tensor} of {edge.consumer} is put together from several outputs"
        if isinstance(why, str):
            apart.append(Apart(edge.producer, edge.consumer, why))
        else:
            joins.append(_Join(edge, first))
    return joins, apart


def _pieces(workload: Workload, joins: Sequence[_Join]) -> list[_Piece]:
    """Runs of each layer, cut wherever a layer that it is joined to begins, ends or is cut."""
    repeat = {layer.name: layer.repeat for layer in workload.layers}
    cuts = {name: {0, runs} for name, runs in repeat.items()}
    changed = True
    while changed:
        before = sum(map(len, cuts.values()))
        for join in joins:
            up, down, many = join.edge.producer, join.edge.consumer, repeat[join.edge.consumer]
            cuts[up] |= {join.first + cut for cut in cuts[down]}
            cuts[down] |= {cut - join.first for cut in cuts[up] if 0 < cut - join.first < many}
        changed = sum(map(len, cuts.values())) > before
    return [
        (layer.name, first, end)
        for layer in workload.layers
        for first, end in itertools.pairwise(sorted(cuts[layer.name]))
    ]


_Shared = tuple[Einsum, tuple[tuple[_Piece, str], ...]]
"""An input of the network as what a layer would write, and the pieces that read it with their tensors."""


def _shared_inputs(workload: Workload, pieces: Sequence[_Piece]) -> list[_Shared]:
    """Inputs of the network that several layers read alike, run by run."""
    layers = {layer.name: layer for layer in workload.layers}
    found: dict[tuple[str, int, int], _Shared] = {}
    for edge in workload.inputs:
        layer = layers[edge.consumer]
        for piece in (piece for piece in pieces if piece[0] == edge.consumer):
            tensor = layer.tensor(edge.tensor)
            box = {f"rank{at}": extent for at, extent in enumerate(tensor.box(layer.dims))}
            written = Tensor("Outputs", tuple(((dim, 1),) for dim in box), "Outputs", tensor.bits, output=True)
            key = edge.producer, *piece[1:]
            source, readers = found.get(key, (Einsum(edge.producer, box, (written,)), ()))
            if not isinstance(tie_ranks(source, layer, edge.tensor), str):
                found[key] = source, (*readers, (piece, edge.tensor))
    return [each for each in found.values() if len(each[1]) > 1]


def _connected(pieces: Sequence[_Piece], joins: Sequence[_Join], shared: Sequence[_Shared]) -> list[list[_Piece]]:
    """Pieces that joins and shared inputs connect, in the order of the first of them."""
    group = {(name, first): [(name, first, end)] for name, first, end in pieces}
    pairs = [
        ((name, first), (join.edge.producer, join.first + first))
        for name, first, _ in pieces
        for join in joins
        if join.edge.consumer == name
    ]
    pairs += [(piece[:2], readers[0][0][:2]) for _, readers in shared for piece, _ in readers[1:]]
    for one_at, other_at in pairs:
        one, other = group[one_at], group[other_at]
        if one is not other:
            other.extend(one)
            for its, at, _ in one:
                group[its, at] = other
    place = {piece: number for number, piece in enumerate(pieces)}
    found = {id(its): sorted(its, key=place.__getitem__) for its in group.values()}
    return sorted(found.values(), key=lambda its: place[its[0]])


def _graph_of(workload: Workload, pieces: Sequence[_Piece], joins: Sequence[_Join], shared: Sequence[_Shared]) -> Graph:
    """Graph of pieces that run equally often."""
    layers = {layer.name: layer for layer in workload.layers}
    place = {(name, first): number for number, (name, first, _) in enumerate(pieces)}
    reads: list[tuple[int | Einsum, int, str]] = [
        (place[join.edge.producer, join.first + first], place[name, first], join.edge.tensor)
        for name, first, _ in pieces
        for join in joins
        if join.edge.consumer == name
    ]
    for source, readers in shared:
        reads += [(source, place[piece[:2]], tensor) for piece, tensor in readers if piece in pieces]
    inside = {(join.edge.producer, join.edge.consumer, join.edge.tensor) for join in joins}
    beyond = {e.producer for e in workload.edges if (e.producer, e.consumer, e.tensor) not in inside}
    results = [number for number, (name, _, _) in enumerate(pieces) if name in beyond]
    graph = make_graph([layers[name] for name, _, _ in pieces], reads, results)
    return replace(graph, repeat=pieces[0][2] - pieces[0][1])


def put_together(graphs: Iterable[Graph]) -> tuple[Graph, ...]:
    """Graphs that differ in the names of their layers alone as one, in the order of the first of them.

    >>> from accelsim import load_workload
    >>> graphs = put_together(find_graphs(load_workload("resnet50")).graphs)
    >>> [(graph.repeat, graph.alike) for graph in graphs if graph.layers[0].name == "conv2_shortcut"]
    [(1, ())]
    """
    found: dict[object, Graph] = {}
    for graph in graphs:
        shapes = tuple((tuple(e.dims.items()), e.tensors, e.whole, e.operation) for e in graph.layers)
        key = shapes, graph.links, graph.rules
        first = found.setdefault(key, graph)
        if first is not graph:
            names = tuple(layer.name for layer in graph.layers)
            more = replace(first, repeat=first.repeat + graph.repeat, alike=(*first.alike, (names, graph.repeat)))
            found[key] = more
    return tuple(found.values())


def _neighbours(layers: Sequence[Einsum]) -> tuple[Edge, ...]:
    """Edges between layers that stand next to each other, run as often, and whose shapes line up."""
    found = []
    for producer, consumer in itertools.pairwise(layers):
        inputs = [tensor.name for tensor in consumer.tensors if tensor.role == "Inputs"]
        if len(inputs) != 1 or producer.repeat != consumer.repeat:
            continue
        if not isinstance(tie_ranks(producer, consumer, inputs[0]), str):
            found.append(Edge(producer.name, consumer.name, inputs[0]))
    return tuple(found)


def named_graph(workload: Workload, names: Sequence[str]) -> Graph:
    """Graph of layers that the user names, each run once.

    Raises AccelsimError if a name is unknown, or a layer after the first reads none of those before it.
    """
    layers = {layer.name: layer for layer in workload.layers}
    for name in names:
        if name not in layers:
            hint = near_miss(name, layers, "layers")
            what = f"{workload.name} has no layer '{name}'; {hint}"
            raise UnknownNameError(what, name, near_misses(name, layers))
    if len(names) < 2:
        raise AccelsimError("fusing takes two layers at least; write them with commas, in the order in which they run")
    reads: list[tuple[int | Einsum, int, str]] = []
    place = {name: number for number, name in enumerate(names)}
    sources = Counter((edge.consumer, edge.tensor) for edge in workload.edges)
    for number, name in enumerate(names):
        edges = [edge for edge in workload.edges if edge.consumer == name]
        known = [edge for edge in edges if place.get(edge.producer, number) < number]
        for edge in edges:
            source, once = layers[edge.producer], sources[edge.consumer, edge.tensor] == 1
            if edge in known:
                reads.append((place[edge.producer], number, edge.tensor))
            elif once and not isinstance(tie_ranks(source, layers[name], edge.tensor), str):
                reads.append((source, number, edge.tensor))
        if number and not known:
            reads.append((number - 1, number, _follows(layers[names[number - 1]], layers[name], edges)))
    pairs, named = {(edge.producer, edge.consumer) for edge in workload.edges}, place.keys()
    if between := sorted(name for name in _after(pairs, named) - named if _after(pairs, {name}) & named):
        raise AccelsimError(f"{listed(between)} would have to run between these layers; name such layers, too")
    chosen = [replace(layers[name], repeat=1) for name in names]
    return make_graph(chosen, reads, _read_elsewhere(workload, place))


def _follows(first: Einsum, second: Einsum, edges: Sequence[Edge]) -> str:
    """Input of a layer that reads the one named before it, where no edge says so."""
    if edges:
        others = listed(dict.fromkeys(edge.producer for edge in edges))
        raise AccelsimError(f"{second.name} does not read {first.name}; it reads {others}")
    inputs = [tensor.name for tensor in second.tensors if tensor.role == "Inputs"]
    if len(inputs) != 1:
        raise AccelsimError(
            f"{second.name} has {len(inputs)} inputs with the role Inputs; say with `from` which is which"
        )
    return inputs[0]


def _read_elsewhere(workload: Workload, place: Mapping[str, int]) -> list[int]:
    """Places of layers of which each run is read by a named layer and by another one."""
    repeat = {layer.name: layer.repeat for layer in workload.layers}
    readers: dict[str, list[str]] = {}
    for edge in workload.edges:
        readers.setdefault(edge.producer, []).append(edge.consumer)
    return sorted(
        place[name]
        for name, several in readers.items()
        if name in place
        and sum(repeat[each] for each in several) > repeat[name]
        and 0 < sum(each in place for each in several) < len(several)
    )
