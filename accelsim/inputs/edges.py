"""Edges of a network: which layer's output feeds which input, and whether the shapes agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accelsim.inputs import fields, forms
from accelsim.inputs.fields import Formed
from accelsim.inputs.forms import Form
from accelsim.inputs.source import BadNode, ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import listed, near_miss

if TYPE_CHECKING:
    from accelsim.inputs.workload import Einsum, Tensor, Workload

Sources = dict[str | None, list[ScalarNode]]
"""Names of the layers that feed each input tensor; None stands for the one input of a layer."""
Feed = tuple[str, Node, Sources]
"""A layer that says what feeds it, the place where, and what it says."""
_SOURCES: Form = forms.either(fields.name.form, forms.sequence(fields.name.form, least=1))
FROM_FORM: Form = forms.either(_SOURCES, forms.named(_SOURCES))
"""What may stand under `from`: a layer, several that are concatenated, or these by tensor."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An input tensor of a layer that is the output of another layer, or a part of it where several are concatenated.

    Edges join single runs of layers: where `repeat` counts several runs, each run of the consumer reads a run of the
    producer.
    """

    producer: str
    consumer: str
    tensor: str


def to_networkx(workload: Workload) -> Any:
    """Graph of a workload: a node for each layer with its `einsum`, an edge for each tensor that goes between two.

    Returns
    -------
    networkx.MultiDiGraph
        Nodes in the order of the layers; edges have the name of the consumer's `tensor` and its `words`.

    Examples
    --------
    >>> from accelsim import load_workload
    >>> graph = to_networkx(load_workload("llama"))
    >>> [(a, data["tensor"]) for a, _, data in graph.in_edges("attention_scores", data=True)]
    [('query', 'Inputs'), ('key', 'Weights')]
    """
    import networkx

    graph = networkx.MultiDiGraph(name=workload.name)
    layers = {layer.name: layer for layer in workload.layers}
    for layer in workload.layers:
        graph.add_node(layer.name, einsum=layer)
    for edge in workload.edges:
        output = layers[edge.producer].output
        graph.add_edge(edge.producer, edge.consumer, tensor=edge.tensor, words=output.words(layers[edge.producer].dims))
    return graph


def read_sources(node: Node, problems: Problems) -> Sources | None:
    """Read what stands under `from`."""
    if problems.unreadable(node):
        return None
    if not isinstance(node, MapNode):
        names = _names(node, problems)
        return {None: names} if names else None
    found: Sources = {}
    for tensor, value in node.entries.items():
        names = _names(value, problems)
        if names:
            found[tensor] = names
    return found


read_from = Formed(read_sources, FROM_FORM)


def _names(node: Node, problems: Problems) -> list[ScalarNode]:
    """Names of one layer, or of several, with their places."""
    items = node.items if isinstance(node, ListNode) else (node,)
    if not items:
        problems.add(node, "expected the name of a layer, got an empty list")
    found = []
    for item in items:
        if isinstance(item, ScalarNode) and fields.name(item, problems) is not None:
            found.append(item)
        elif not isinstance(item, ScalarNode | BadNode):
            problems.add(item, f"expected the name of a layer, got {describe(item)}")
    return found


def check_edges(feeds: Sequence[Feed], layers: Sequence[Einsum], problems: Problems) -> tuple[Edge, ...]:
    """Turn what stands under `from` into edges, and report those that lead nowhere or whose shapes do not agree.

    Parameters
    ----------
    feeds : sequence of Feed
    layers : sequence of Einsum
        All layers in the order of the file, which is the order in which they run.
    """
    place = {layer.name: number for number, layer in enumerate(layers)}
    edges = []
    for title, node, sources in feeds:
        consumer = layers[place[title]]
        for name, producers in sources.items():
            tensor = _input(consumer, name, node, problems)
            known = [producer for producer in producers if _known(producer, consumer, place, problems)]
            if tensor is None or len(known) < len(producers):
                continue
            outputs = [layers[place[producer.text]] for producer in producers]
            _check_shapes(consumer, tensor, outputs, producers[0], problems)
            edges += [Edge(producer.text, consumer.name, tensor.name) for producer in producers]
    return tuple(edges)


def _input(consumer: Einsum, name: str | None, node: Node, problems: Problems) -> Tensor | None:
    """Input tensor of that name, or the only one with the role Inputs."""
    inputs = {tensor.name: tensor for tensor in consumer.tensors if not tensor.output}
    if name in inputs:
        return inputs[name]
    if name is None:
        only = [tensor for tensor in inputs.values() if tensor.role == "Inputs"]
        if len(only) == 1:
            return only[0]
        problems.add(node, f"{consumer.name} has the inputs {listed(inputs)}", "say which one: from: {TENSOR: LAYER}")
        return None
    hint = near_miss(name, inputs) or f"inputs: {listed(inputs)}"
    mark = node.key_marks[name] if isinstance(node, MapNode) else node.mark
    problems.add(BadNode(mark, f"{node.path}.{name}"), f"is no input of {consumer.name}", hint)
    return None


def _known(producer: ScalarNode, consumer: Einsum, place: Mapping[str, int], problems: Problems) -> bool:
    """Whether a layer of that name stands before its consumer."""
    name = producer.text
    if name not in place:
        before = [other for other, number in place.items() if number < place[consumer.name]]
        problems.add(producer, f"no layer is named '{name}'", near_miss(name, before) or f"layers: {listed(before)}")
        return False
    if place[name] >= place[consumer.name]:
        which = "the layer itself" if name == consumer.name else f"'{name}', which stands after it"
        problems.add(producer, f"{consumer.name} is fed by {which}", "write the layers in the order in which they run")
        return False
    return True


def _check_shapes(
    consumer: Einsum, tensor: Tensor, producers: Sequence[Einsum], where: ScalarNode, problems: Problems
) -> None:
    """Report outputs that are not what the input tensor asks for.

    Ranks over which a window slides (`2*P + R`) must agree one by one, counted from the last, as far as padding allows;
    of all others the product must, since a tensor may be reshaped between two layers. An output that has no rank beside
    those (a matrix of tokens that becomes an image) must have as many words.
    """
    boxes = [producer.output.box(producer.dims) for producer in producers]
    limits = _windows(consumer, tensor)
    wanted = tensor.box(consumer.dims)
    rest = math.prod(extent for at, extent in enumerate(reversed(wanted)) if at not in limits)
    given = " + ".join(" x ".join(map(str, box)) for box in boxes)
    asked = " x ".join(map(str, wanted))
    said = f"{listed([p.name for p in producers])} gives {given}, but {tensor.name} of {consumer.name} is {asked}"
    if any(len(box) <= len(limits) for box in boxes) and limits:
        least, most = (rest * math.prod(limit[i] for limit in limits.values()) for i in (0, 1))
        if not least <= sum(map(math.prod, boxes)) <= most:
            problems.add(where, said, "the words must be as many, but for padding")
        return
    for box in boxes:
        for at, (least, most) in limits.items():
            if not least <= box[-1 - at] <= most:
                allowed = f"{least}" if least == most else f"{least} to {most}"
                problems.add(where, said, f"rank {len(wanted) - at} must be {allowed}, padding included or not")
                return
    found = sum(math.prod(extent for at, extent in enumerate(reversed(box)) if at not in limits) for box in boxes)
    if found != rest:
        problems.add(where, said, f"{rest:,} words{' a position' if limits else ''} are needed, {found:,} come")


def _windows(consumer: Einsum, tensor: Tensor) -> dict[int, tuple[int, int]]:
    """Ranks with a window, counted from the last, with the smallest and largest extent that an input may have there.

    An input is smaller than the box by its padding, which is less than a window on each side; it is larger by the rows
    that the last step of a stride does not reach.
    """
    found = {}
    moved = consumer.output.dims
    for at, rank in enumerate(reversed(tensor.ranks)):
        steps = [coefficient for dim, coefficient in rank if dim in moved]
        window = sum(coefficient * (consumer.dims[dim] - 1) for dim, coefficient in rank if dim not in moved)
        if len(rank) > 1 and steps:
            extent = tensor.box(consumer.dims)[-1 - at]
            found[at] = (max(1, extent - 2 * window), extent + min(steps) - 1)
    return found
