"""Read a workload: its layers, and which layer's output feeds which input, where the shapes agree."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from accelsim.inputs import fields, forms
from accelsim.inputs.density_reader import DENSITIES, Read, density_of
from accelsim.inputs.einsum import EINSUM_KEYS, read_conv, read_einsum, read_gemm
from accelsim.inputs.errors import InputError, Mark
from accelsim.inputs.fields import Fields, Formed, Key, Keys, Source, keys_form
from accelsim.inputs.forms import Form
from accelsim.inputs.library import Imported, importer
from accelsim.inputs.params import unknown_overrides
from accelsim.inputs.source import BadNode, ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import LARGEST, listed, near_miss, quoted
from accelsim.inputs.workload import OPERATIONS, ROLES, Edge, Einsum, Tensor, Workload

Sources = dict[str | None, list[ScalarNode]]
"""Names of the layers that feed each input tensor; None stands for the one input of a layer."""
Feed = tuple[str, Node, Sources]
"""A layer that says what feeds it, the place where, and what it says."""
_SOURCES: Form = forms.either(fields.name.form, forms.sequence(fields.name.form, least=1))
FROM_FORM: Form = forms.either(_SOURCES, forms.named(_SOURCES))
"""What may stand under `from`: a layer, several that are concatenated, or these by tensor."""


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


def check_edges(
    feeds: Sequence[Feed], layers: Sequence[Einsum], problems: Problems, inputs: Collection[str] = ()
) -> tuple[Edge, ...]:
    """Turn what stands under `from` into edges, and report those that lead nowhere or whose shapes do not agree.

    `layers` are all in the order of the file, which is the order in which they run; `inputs` those of the network.
    """
    place = {layer.name: number for number, layer in enumerate(layers)}
    edges = []
    for title, node, sources in feeds:
        consumer = layers[place[title]]
        for name, producers in sources.items():
            tensor = _input(consumer, name, node, problems)
            if tensor is not None and len(producers) == 1 and producers[0].text in inputs:
                edges.append(Edge(producers[0].text, consumer.name, tensor.name))
                continue
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
    hint = near_miss(name, inputs, "inputs")
    mark = node.key_marks[name] if isinstance(node, MapNode) else node.mark
    problems.add(BadNode(mark, f"{node.path}.{name}"), f"is no input of {consumer.name}", hint)
    return None


def _known(producer: ScalarNode, consumer: Einsum, place: Mapping[str, int], problems: Problems) -> bool:
    """Whether a layer of that name stands before its consumer."""
    name = producer.text
    if name not in place:
        before = [other for other, number in place.items() if number < place[consumer.name]]
        problems.add(producer, f"no layer is named '{name}'", near_miss(name, before, "layers"))
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
    required = tensor.box(consumer.dims)
    rest = math.prod(extent for at, extent in enumerate(reversed(required)) if at not in limits)
    given = " + ".join(" x ".join(map(str, box)) for box in boxes)
    shape = " x ".join(map(str, required))
    said = f"{listed([p.name for p in producers])} gives {given}, but {tensor.name} of {consumer.name} is {shape}"
    if any(len(box) <= len(limits) for box in boxes) and limits:
        least, most = (rest * math.prod(limit[i] for limit in limits.values()) for i in (0, 1))
        if not least <= sum(map(math.prod, boxes)) <= most:
            problems.add(where, said, "the words must be as many, but for padding")
        return
    for box in boxes:
        for at, (least, most) in limits.items():
            if not least <= box[-1 - at] <= most:
                allowed = f"{least}" if least == most else f"{least} to {most}"
                problems.add(where, said, f"rank {len(required) - at} must be {allowed}, padding included or not")
                return
    each = [math.prod(extent for at, extent in enumerate(reversed(box)) if at not in limits) for box in boxes]
    found, of_runs = sum(each), sum(words * one.repeat for words, one in zip(each, producers, strict=True))
    if found != rest and (limits or of_runs != rest * consumer.repeat):
        problems.add(where, said, f"{rest:,} words{' a position' if limits else ''} are needed, {found:,} come")


def _windows(consumer: Einsum, tensor: Tensor) -> dict[int, tuple[int, int]]:
    """Ranks with a window, counted from the last, with the smallest and largest extent that an input may have there.

    An input is smaller than the box by its padding, which is less than a window on each side; it is larger by the rows
    that the last step of a stride does not reach.
    """
    found, moved = {}, consumer.output.dims
    for at, rank in enumerate(reversed(tensor.ranks)):
        steps = [coefficient for dim, coefficient in rank if dim in moved]
        window = sum(coefficient * (consumer.dims[dim] - 1) for dim, coefficient in rank if dim not in moved)
        if len(rank) > 1 and steps:
            extent = tensor.box(consumer.dims)[-1 - at]
            found[at] = (max(1, extent - 2 * window), extent + min(steps) - 1)
    return found


_BITS = fields.mapping_of(fields.positive_int)


@fields.formed(forms.either(fields.form_of(fields.positive_int), fields.form_of(_BITS)))
def _bits(node: Node, problems: Problems) -> dict[str, int] | None:
    """Read one width of all tensors, or widths by role or tensor."""
    if isinstance(node, MapNode):
        return _BITS(node, problems)
    width = fields.positive_int(node, problems)
    return None if width is None else dict.fromkeys(ROLES, width)


_READERS = {"conv": read_conv, "gemm": read_gemm, "einsum": read_einsum}
_MORE: Keys = {
    "repeat": Key(fields.positive_int, "count of this layer in the network", "1"),
    "bits": Key(_bits, "bits of a word: of all, or by role, tensor and `psums` (partial sums)", "16", "bit"),
    "whole": Key(
        fields.set_of(fields.identifier),
        "dimensions of which all words are needed at once, such as keys of a softmax",
        "none",
    ),
    "operation": Key(
        fields.one_of(OPERATIONS, "an operation"),
        "operation at each point",
        "multiply_add",
    ),
    "densities": DENSITIES,
}
_LAYER: Keys = {
    "name": Key(fields.name, "its name, different from all others"),
    "from": Key(read_from, "layers whose outputs are its inputs: one, or one by tensor", "none"),
    **EINSUM_KEYS,
    **_MORE,
}
_ONE_FORM = [{"required": [name]} for name in EINSUM_KEYS]
_layers_of = fields.items_of({**keys_form(_LAYER), "oneOf": _ONE_FORM}, "layers", least=1)
_TOP: Keys = {
    "name": Key(fields.name, "its name"),
    **EINSUM_KEYS,
    "layers": Key(_layers_of, "layers in execution order", "none"),
    "inputs": Key(fields.set_of(fields.name), "names of inputs of the network, for `from`", "none"),
    **_MORE,
    "yields": Key(fields.mapping_of(fields.positive_int), "what one run produces, such as `{frames: $batch}`", "none"),
}
WORKLOAD_FORM: Form = {**keys_form(_TOP), "oneOf": [*_ONE_FORM, {"required": ["layers"]}]}
"""What may stand under `workload`, as JSON Schema."""
_DEFAULT_BITS = 16


def load_workload(source: Source, overrides: Mapping[str, str] | None = None) -> Workload:
    """Read a workload.

    Parameters
    ----------
    source : str, path or dict
        YAML file with a top-level key `workload`, the name of one that ships, an ONNX model (`*.onnx`), a
        program that `torch.export.save` wrote (`*.pt2`), or a StableHLO module (`*.mlir`); or what a YAML file holds,
        as text of several lines or as a dict.
    overrides : mapping of str to str, optional
        Values of parameters that replace those in the file.

    Returns
    -------
    Workload
        Layers in the order of the file.

    Raises
    ------
    InputError
        With every mistake in the file and its place.
    """
    model = None if isinstance(source, Mapping) else importer(source)
    if model is not None and not isinstance(source, Mapping):
        if unknown := unknown_overrides(overrides or {}, [source]):
            raise InputError([replace(each, mark=Mark(str(source), 1, 1)) for each in unknown])
        sizes = {name: str(size) for name, size in (overrides or {}).items()}
        return read_imported(model.import_model(source, sizes), source, sizes)
    problems = Problems()
    document = fields.open_source(source, "workload", overrides, problems)
    return problems.result(read_workload(document.body, problems) if document else None)


def read_imported(imported: Imported, path: str | PathLike[str], overrides: Mapping[str, str]) -> Workload:
    """Read an imported model as `load_workload` reads a file."""
    problems = Problems()
    document = fields.open_document(path, "workload", overrides, problems, imported.text)
    found = problems.result(read_workload(document.body, problems) if document else None)
    return replace(found, notes=tuple(imported.notes))


def read_workload(body: Node, problems: Problems) -> Workload | None:
    """Read what stands under `workload`, or return None with every mistake reported."""
    before = len(problems)
    top = Fields(body, problems, _TOP)
    title = top.value("name", "")
    bits: dict[str, int] = top.value("bits", {})
    yields: dict[str, int] = top.value("yields", {})
    if len(yields) > 1:  # a rate is of one thing
        problems.add(top.entries["yields"], f"a run yields one thing, got {listed(yields)}", "keep one of them")
    densities: dict[str, Read] = top.value("densities", {})
    layers, feeds = _layers(top, bits, densities) if "layers" in top else ([_layer(top, title, bits, {}, {})], [])
    _check_bits(top, layers)
    found = tuple(filter(None, layers))
    inputs: frozenset[str] = top.value("inputs", frozenset())
    if both := sorted(inputs.intersection(layer.name for layer in found)):
        problems.add(top.entries["inputs"], f"a layer is named {both[0]}, too", "give one of them another name")
    edges = check_edges(feeds, found, problems, inputs) if len(problems) == before else ()
    of_inputs = tuple(edge for edge in edges if edge.producer in inputs)
    edges = tuple(edge for edge in edges if edge.producer not in inputs)
    return Workload(title, found, edges, of_inputs, yields) if len(problems) == before and top.readable else None


def _layers(
    top: Fields, bits: Mapping[str, int], densities: Mapping[str, Read]
) -> tuple[list[Einsum | None], list[Feed]]:
    problems = top.problems
    for key in (*EINSUM_KEYS, "repeat", "whole", "operation"):
        if key in top:
            problems.add(top.entries[key], "stands beside 'layers'", f"put `{key}` into a layer")
    node: ListNode | None = top.value("layers", None)
    layers: list[Einsum | None] = []
    feeds: list[Feed] = []
    lines: dict[str, int] = {}
    for item in node.items if node else ():
        layer = Fields(item, problems, _LAYER)
        title = layer.once(lines, "layers")
        own_bits: dict[str, int] = layer.value("bits", {})
        layers.append(_layer(layer, title, own_bits, bits, densities))
        _check_bits(layer, layers[-1:])
        sources: Sources = layer.value("from", {})
        if sources:
            feeds.append((title, layer.entries["from"], sources))
    return layers, feeds


def _layer(
    layer: Fields,
    title: str,
    bits: Mapping[str, int],
    outer_bits: Mapping[str, int],
    outer_densities: Mapping[str, Read],
) -> Einsum | None:
    """Read one Einsum in whichever form it is written; its own bits and densities go before those of the workload."""
    problems = layer.problems
    before = len(problems)
    repeat = layer.value("repeat", 1)
    whole: frozenset[str] = layer.value("whole", frozenset())
    given = [key for key in EINSUM_KEYS if key in layer]
    if layer.readable and len(given) != 1:
        problems.add(layer.node, f"expected one of {listed(EINSUM_KEYS)}; got {' and '.join(given) or 'none'}")
    if len(given) != 1:
        return None
    node = layer.entries[given[0]]
    shape = _READERS[given[0]](node, problems)
    if shape is None or len(problems) > before:
        return None
    dims, operands = shape
    for dim in sorted(whole - dims.keys()):
        hint = near_miss(dim, dims, "dimensions")
        problems.add(layer.entries["whole"], f"{quoted(dim)} is no dimension of {title}", hint)
    own: dict[str, Read] = layer.value("densities", {})
    tensors = tuple(_with_widths(operand, bits, outer_bits) for operand in operands)
    densities = [_nearest(tensor, own, outer_densities) for tensor in tensors]
    tensors = tuple(
        tensor if read is None else replace(tensor, density=density_of(tensor, dims, read, problems))
        for tensor, read in zip(tensors, densities, strict=True)
    )
    for tensor in tensors:
        if tensor.psum_bits < tensor.bits:
            what = f"partial sums of {tensor.psum_bits} bit are narrower than {tensor.name} of {tensor.bits} bit"
            problems.add(layer.entries.get("bits", layer.node), what, f"write psums: {tensor.bits} or more in `bits`")
    operation = layer.value("operation", OPERATIONS[0])
    found = Einsum(title, dims, tensors, repeat, whole=whole, operation=operation)
    words = {f"words of {tensor.name}": tensor.words(dims) for tensor in tensors}
    what, many = max({"multiply-accumulates": found.macs, **words}.items(), key=lambda each: each[1])
    if many >= LARGEST:
        problems.add(node, f"2**{many.bit_length() - 1} {what} are too many to count: 2**62 are", "split the layer")
    return found


def _nearest(tensor: Tensor, *tables: Mapping[str, Any]) -> Any:
    """What tables say of a tensor, or None: by name before role, the layer's before the workload's."""
    return next((table[key] for table in tables for key in (tensor.name, tensor.role) if key in table), None)


def _with_widths(operand: Tensor, bits: Mapping[str, int], outer_bits: Mapping[str, int]) -> Tensor:
    """Operand with its widths, those of partial sums too."""
    width, output = _nearest(operand, bits, outer_bits) or _DEFAULT_BITS, operand.role == "Outputs"
    psum_bits = bits.get("psums", outer_bits.get("psums", width)) if output else width
    return replace(operand, bits=width, psum_bits=psum_bits, output=output)


def _check_bits(owner: Fields, layers: list[Einsum | None]) -> None:
    """Report keys of `bits` and `densities` that are no role and no tensor; only where every layer could be read."""
    tensors = [tensor.name for layer in layers if layer for tensor in layer.tensors]
    if all(layers):
        _check_names(owner, "densities", [*ROLES, *tensors])
        _check_names(owner, "bits", [*ROLES, *tensors, "psums"])


def _check_names(owner: Fields, of: str, names: Sequence[str]) -> None:
    node, known = owner.get(of), list(dict.fromkeys(names))
    if isinstance(node, MapNode):
        for key, mark in node.key_marks.items():
            if key not in known:
                hint = near_miss(key, known, "keys")
                owner.problems.add(BadNode(mark, node.path), f"{quoted(key)} is neither a tensor nor a role", hint)
