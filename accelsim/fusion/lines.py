"""Which runs of the layers of a network follow each other in a line, and why others cannot be fused."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from accelsim.fusion.chain import Chain, Shortcut, make_chain, make_link, word_by_word
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed, near_miss
from accelsim.inputs.workload import Edge, Einsum, Workload

_Follows = dict[str, tuple[Edge, int]]
"""By layer, the edge over which it follows another one, and which run of that its first run follows."""


@dataclass(frozen=True, slots=True)
class Line:
    """Layers that follow each other, each reading what the one before writes and nothing else reads.

    Attributes
    ----------
    layers : tuple of Einsum
    tensors : tuple of str
        Of each layer but the first, the input that the one before writes.
    repeat : int
        How many such lines the network has, those in `alike` included.
    alike : tuple
        Names of the layers of equal lines, and how many of these there are.
    shortcut : Shortcut or None
        What the first layer reads and a later one reads again.
    """

    layers: tuple[Einsum, ...]
    tensors: tuple[str, ...]
    repeat: int
    alike: tuple[tuple[tuple[str, ...], int], ...] = ()
    shortcut: Shortcut | None = None

    def chain(self, first: int = 0, end: int | None = None) -> Chain:
        """Layers from one to before another as a chain."""
        last = len(self.layers) if end is None else end
        inside = first == 0 and self.shortcut is not None and self.shortcut.layer < last
        return make_chain(self.layers[first:end], self.tensors[first : last - 1], self.shortcut if inside else None)


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

    Examples
    --------
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

    Examples
    --------
    >>> from accelsim import load_workload
    >>> lines = put_together(find_lines(load_workload("resnet50")).lines)
    >>> [(line.repeat, line.alike) for line in lines if line.layers[0].name == "conv2_shortcut"]
    [(1, ())]
    """
    found: dict[object, Line] = {}
    for line in lines:
        shapes = tuple((tuple(e.dims.items()), e.tensors, e.whole) for e in line.layers)
        first = found.setdefault((shapes, line.tensors, line.shortcut), line)
        if first is not line:
            names = tuple(layer.name for layer in line.layers)
            more = replace(first, repeat=first.repeat + line.repeat, alike=(*first.alike, (names, line.repeat)))
            found[shapes, line.tensors, line.shortcut] = more
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

    Examples
    --------
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

    Raises
    ------
    AccelsimError
        If a name is unknown, or a layer cannot read what the one before it writes.
    """
    layers = {layer.name: layer for layer in workload.layers}
    for name in names:
        if name not in layers:
            hint = near_miss(name, layers) or f"layers: {listed(layers)}"
            raise AccelsimError(f"{workload.name} has no layer '{name}'; {hint}")
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
