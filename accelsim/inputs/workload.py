"""Workloads: Einsums over named dimensions, and networks of layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING

from accelsim.importers import MODELS
from accelsim.inputs import fields, forms, library
from accelsim.inputs.edges import Edge, Feed, Sources, check_edges, read_from
from accelsim.inputs.einsum import Operand, einsum_forms, read_conv, read_einsum, read_gemm
from accelsim.inputs.fields import Fields, Key, Keys, keys_form, node_of
from accelsim.inputs.forms import Form
from accelsim.inputs.source import BadNode, ListNode, MapNode, Node, Problems, describe
from accelsim.inputs.units import LARGEST, listed, near_miss, quoted

if TYPE_CHECKING:
    from accelsim.importers.onnx import Imported, Note

ROLES = ("Weights", "Inputs", "Outputs")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One operand or the result of an Einsum.

    Each rank is a sum of `(dimension, coefficient)` terms with positive coefficients: `h = 2*P + R` is
    `(("P", 2), ("R", 1))`. A dimension appears in at most one rank.
    """

    name: str
    ranks: tuple[tuple[tuple[str, int], ...], ...]
    role: str = "Inputs"
    bits: int = 16
    psum_bits: int = 16
    output: bool = False

    def __post_init__(self) -> None:
        dims = [dim for rank in self.ranks for dim, _ in rank]
        if len(dims) != len(set(dims)):
            raise ValueError(f"tensor {self.name}: a dimension may appear in one rank only, got {dims}")
        if any(coefficient < 1 for rank in self.ranks for _, coefficient in rank):
            raise ValueError(f"tensor {self.name}: coefficients must be >= 1")
        if self.role not in ROLES:
            raise ValueError(f"tensor {self.name}: role must be one of {', '.join(ROLES)}, got {self.role}")

    @property
    def dims(self) -> frozenset[str]:
        """Dimensions that move the tensor: its relevant ones."""
        return frozenset(dim for rank in self.ranks for dim, _ in rank)

    def box(self, tile: Mapping[str, int]) -> tuple[int, ...]:
        """Extents [words] along each rank of the box that a tile of the given dimension sizes touches."""
        return tuple(1 + sum(coefficient * (tile[dim] - 1) for dim, coefficient in rank) for rank in self.ranks)

    def words(self, tile: Mapping[str, int]) -> int:
        """Words in the box that a tile of the given dimension sizes touches."""
        return math.prod(self.box(tile))


@dataclass(frozen=True, slots=True)
class Einsum:
    """One tensor operation: a product of the input tensors, summed into the output.

    `repeat` says how often a network holds this layer; `unpadded` holds the bounds before `pad` rounded some up;
    `whole` are dimensions along which all words must be there at once, as in a soft-max: fused loops leave them alone.
    """

    name: str
    dims: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    repeat: int = 1
    unpadded: Mapping[str, int] | None = None
    whole: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if sum(tensor.output for tensor in self.tensors) != 1:
            raise ValueError(f"einsum {self.name}: exactly one tensor must be the output")
        used = frozenset[str]().union(*(tensor.dims for tensor in self.tensors))
        if used != frozenset(self.dims):
            odd = sorted(used ^ frozenset(self.dims))
            raise ValueError(f"einsum {self.name}: dimensions {odd} are not used or not defined")
        if any(bound < 1 for bound in self.dims.values()):
            raise ValueError(f"einsum {self.name}: bounds must be >= 1")

    @property
    def macs(self) -> int:
        """Multiply-accumulates: the product of all bounds, padding included."""
        return math.prod(self.dims.values())

    @property
    def real_macs(self) -> int:
        """Multiply-accumulates without padding."""
        return math.prod((self.unpadded or self.dims).values())

    @property
    def output(self) -> Tensor:
        """The tensor that is written."""
        return next(tensor for tensor in self.tensors if tensor.output)


def pad(einsum: Einsum, bounds: Mapping[str, int]) -> Einsum:
    """Round bounds up; if any is given, the others are the Einsum's own, without padding.

    Raises
    ------
    ValueError
        If a dimension is unknown, or its bound would shrink.

    Examples
    --------
    >>> gemm = Einsum("gemm", {"M": 7, "K": 5}, (Tensor("A", ((("M", 1),), (("K", 1),))),
    ...                                          Tensor("Z", ((("M", 1),),), output=True)))
    >>> padded = pad(gemm, {"M": 8})
    >>> padded.macs, padded.real_macs
    (40, 35)
    """
    real = einsum.unpadded or einsum.dims
    for dim, bound in bounds.items():
        if bound < real.get(dim, bound + 1):
            raise ValueError(f"{einsum.name}: {dim} cannot be padded to {bound}")
    if not bounds:
        return einsum
    return replace(einsum, dims={**real, **bounds}, unpadded=real)


def shared_rank(einsum: Einsum, dim: str) -> str | None:
    """Tensor and rank in which a dimension is added to another one of bound > 1, so that it can leave no remainder.

    Examples
    --------
    >>> pool = (Tensor("Inputs", ((("C", 1),), (("P", 2), ("R", 1)))), Tensor("Outputs", ((("C", 1),),), output=True))
    >>> einsum = Einsum("pool", {"C": 7, "P": 5, "R": 3}, pool)
    >>> shared_rank(einsum, "P"), shared_rank(einsum, "C")
    ('2*P + R of Inputs', None)
    """
    for tensor in einsum.tensors:
        for rank in tensor.ranks:
            terms = [(d, factor) for d, factor in rank if einsum.dims[d] > 1]
            if len(terms) > 1 and dim in dict(terms):
                text = " + ".join(d if factor == 1 else f"{factor}*{d}" for d, factor in terms)
                return f"{text} of {tensor.name}"
    return None


@dataclass(frozen=True, slots=True)
class Workload:
    """Named layers, each an Einsum.

    Attributes
    ----------
    edges : tuple of Edge
        Which layer's output feeds which input, where the file says so; producers stand before their consumers.
    yields : mapping of str to int
        What one run of all layers gives, such as `{"frames": 8}`.
    notes : tuple of Note
        Nodes of an imported model that are not counted as they are, and why.
    """

    name: str
    layers: tuple[Einsum, ...] = field(default_factory=tuple)
    edges: tuple[Edge, ...] = ()
    yields: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


_FORMS: Keys = {name: Key(node_of(form)) for name, form in einsum_forms(ROLES).items()}
_NAME = Key(fields.name, required=True)
_MORE: Keys = {
    "repeat": Key(fields.positive_int),
    "bits": Key(fields.mapping_of(fields.positive_int)),
    "whole": Key(fields.set_of(fields.identifier)),
}
_LAYER: Keys = {"name": _NAME, "from": Key(read_from), **_FORMS, **_MORE}
_YIELDS: Keys = {"yields": Key(fields.mapping_of(fields.positive_int))}
_ONE_FORM = [{"required": [name]} for name in _FORMS]
_LAYERS = forms.sequence({**keys_form(_LAYER), "oneOf": _ONE_FORM}, least=1)
_TOP: Keys = {"name": _NAME, **_FORMS, "layers": Key(node_of(_LAYERS)), **_MORE, **_YIELDS}
WORKLOAD_FORM: Form = {**keys_form(_TOP), "oneOf": [*_ONE_FORM, {"required": ["layers"]}]}
"""What may stand under `workload`, as JSON Schema."""
_DEFAULT_BITS = 16


def load_workload(path: str | PathLike[str], overrides: Mapping[str, str] | None = None) -> Workload:
    """Read a workload file.

    Parameters
    ----------
    path : str or path
        YAML file with a top-level key `workload`, the name of one that ships, an ONNX model (`*.onnx`), or a
        program that `torch.export.save` wrote (`*.pt2`).
    overrides : mapping of str to str, optional
        Values of parameters that replace those in the file.

    Returns
    -------
    Workload
        Layers in the order of the file.

    Raises
    ------
    SpecError
        With every mistake in the file and its place.
    """
    problems = Problems()
    path = library.find(path, "workloads") or path
    if str(path).endswith(MODELS):
        return _load_onnx(path, overrides or {})
    document = fields.open_document(path, "workload", overrides, problems)
    return problems.result(read_workload(document.body, problems) if document else None)


def _load_onnx(path: str | PathLike[str], overrides: Mapping[str, str]) -> Workload:
    """Import an ONNX model; what it leaves open and `bits` can be overridden."""
    from accelsim.importers.onnx import import_onnx

    return read_imported(import_onnx(path, overrides), path, overrides)


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
    _check_yields(top, yields)
    layers, feeds = _layers(top, bits) if "layers" in top else ([_layer(top, title, bits, {})], [])
    _check_bits(top, layers)
    found = tuple(filter(None, layers))
    edges = check_edges(feeds, found, problems) if len(problems) == before else ()
    return Workload(title, found, edges, yields) if len(problems) == before and top.readable else None


def _check_yields(top: Fields, yields: Mapping[str, int]) -> None:
    """Report more than one thing that a run gives: a rate is of one."""
    if len(yields) > 1:
        top.problems.add(top.entries["yields"], f"a run yields one thing, got {listed(yields)}", "keep one of them")


def _layers(top: Fields, bits: Mapping[str, int]) -> tuple[list[Einsum | None], list[Feed]]:
    """Read the layers of a workload, and what feeds those that say so."""
    problems = top.problems
    for key in (*_FORMS, "repeat", "whole"):
        if key in top:
            problems.add(top.entries[key], "stands beside 'layers'", f"put `{key}` into a layer")
    node = top.entries["layers"]
    if problems.unreadable(node):
        return [], []
    if not isinstance(node, ListNode) or not node.items:
        problems.add(node, f"expected a list of layers, got {describe(node)}")
        return [], []
    layers: list[Einsum | None] = []
    feeds: list[Feed] = []
    lines: dict[str, int] = {}
    for item in node.items:
        layer = Fields(item, problems, _LAYER)
        title = layer.value("name", "")
        if title in lines:
            problems.add(layer.entries["name"], f"two layers are named '{title}', first at line {lines[title]}")
        elif title:
            lines[title] = layer.entries["name"].mark.line
        own_bits: dict[str, int] = layer.value("bits", {})
        layers.append(_layer(layer, title, own_bits, bits))
        _check_bits(layer, layers[-1:])
        sources: Sources = layer.value("from", {})
        if sources:
            feeds.append((title, layer.entries["from"], sources))
    return layers, feeds


def _layer(layer: Fields, title: str, bits: Mapping[str, int], outer_bits: Mapping[str, int]) -> Einsum | None:
    """Read one Einsum in whichever form it is written; its own bits go before those of the workload."""
    problems = layer.problems
    before = len(problems)
    repeat = layer.value("repeat", 1)
    whole: frozenset[str] = layer.value("whole", frozenset())
    given = [key for key in _FORMS if key in layer]
    if layer.readable and len(given) != 1:
        problems.add(layer.node, f"expected one of {listed(_FORMS)}; got {' and '.join(given) or 'none'}")
    if len(given) != 1:
        return None
    node = layer.entries[given[0]]
    if given[0] == "einsum":
        shape = read_einsum(node, problems, ROLES)
    else:
        shape = read_conv(node, problems) if given[0] == "conv" else read_gemm(node, problems)
    if shape is None or len(problems) > before:
        return None
    for dim in sorted(whole - shape.dims.keys()):
        hint = near_miss(dim, shape.dims) or f"dimensions: {listed(shape.dims)}"
        problems.add(layer.entries["whole"], f"{quoted(dim)} is no dimension of {title}", hint)
    tensors = tuple(_tensor(operand, bits, outer_bits) for operand in shape.operands)
    for tensor in tensors:
        if tensor.psum_bits < tensor.bits:
            what = f"partial sums of {tensor.psum_bits} bit are narrower than {tensor.name} of {tensor.bits} bit"
            problems.add(layer.entries.get("bits", layer.node), what, f"write psums: {tensor.bits} or more in `bits`")
    found = Einsum(title, shape.dims, tensors, repeat, whole=whole)
    words = {f"words of {tensor.name}": tensor.words(shape.dims) for tensor in tensors}
    what, many = max({"multiply-accumulates": found.macs, **words}.items(), key=lambda each: each[1])
    if many >= LARGEST:
        problems.add(node, f"2**{many.bit_length() - 1} {what} are too many to count: 2**62 are", "split the layer")
    return found


def _tensor(operand: Operand, bits: Mapping[str, int], outer_bits: Mapping[str, int]) -> Tensor:
    """Tensor of an operand with its width: by name before role, the layer's before the workload's."""
    name, ranks, role = operand
    widths = (table[key] for table in (bits, outer_bits) for key in (name, role) if key in table)
    width = next(widths, _DEFAULT_BITS)
    output = role == "Outputs"
    psum_bits = bits.get("psums", outer_bits.get("psums", width)) if output else width
    return Tensor(name, ranks, role, width, psum_bits, output)


def _check_bits(owner: Fields, layers: list[Einsum | None]) -> None:
    """Report keys of `bits` that are neither a role nor a tensor; only where every layer could be read."""
    node = owner.get("bits")
    if not isinstance(node, MapNode) or not all(layers):
        return
    tensors = [tensor.name for layer in layers if layer for tensor in layer.tensors]
    known = list(dict.fromkeys([*ROLES, *tensors, "psums"]))
    for key, mark in node.key_marks.items():
        if key not in known:
            hint = near_miss(key, known) or f"keys: {listed(known)}"
            owner.problems.add(BadNode(mark, node.path), f"{quoted(key)} is neither a tensor nor a role", hint)
