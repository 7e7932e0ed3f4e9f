"""The three ways to write an Einsum, `conv`, `gemm` and `einsum`, as dimensions and operands.

A rank of an operand is a sum of `(dimension, coefficient)` terms; the operand with the role `Outputs` is the output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from accelsim.inputs import fields, forms
from accelsim.inputs.errors import HintedError
from accelsim.inputs.fields import Fields, Formed, Key, Keys, formed, keys_form, node_of
from accelsim.inputs.source import BadNode, ListNode, MapNode, Node, Problems, describe
from accelsim.inputs.units import listed, near_miss, quoted
from accelsim.inputs.workload import ROLES, Tensor

RankTerms = tuple[tuple[str, int], ...]
_PASSES = ("forward", "input_gradient", "weight_gradient")
_SIZES = (("P", "Q"), ("H", "W"))
_TERM = re.compile(r"\s*(?:([0-9]{1,9})\s*\*\s*)?([A-Za-z_][A-Za-z0-9_]*)\s*")
_SUM = rf"{_TERM.pattern}(?:\+{_TERM.pattern})*"
_PSUMS = "psums"


Shape = tuple[dict[str, int], tuple[Tensor, ...]]
"""Bounds of the dimensions, and the operands, whose widths the layer says."""


def _plain(name: str, dims: Iterable[str], role: str) -> Tensor:
    return Tensor(name, tuple(((dim, 1),) for dim in dims), role)


def _pair(least: int) -> Formed[tuple[int, int]]:
    """Reader of one integer for both axes, or of `[h, w]`."""
    one = fields.at_least(least)

    @formed(forms.either(one.form, forms.sequence(one.form, least=2, most=2)))
    def read(node: Node, problems: Problems) -> tuple[int, int] | None:
        if not isinstance(node, ListNode):
            both = one(node, problems)
            return None if both is None else (both, both)
        if len(node.items) != 2:
            problems.add(node, f"expected one whole number or [h, w], got a list of {len(node.items)}")
            return None
        values = fields.list_of(one)(node, problems) or []
        return (values[0], values[1]) if len(values) == 2 else None

    return read


_EITHER = "one integer, or `[h, w]`"
_CONV: Keys = {
    "N": Key(fields.positive_int, "batch", "1"),
    "K": Key(fields.positive_int, "output channels of all groups"),
    "C": Key(fields.positive_int, "input channels of all groups"),
    "P": Key(fields.positive_int, "output rows", "from `H`"),
    "Q": Key(fields.positive_int, "output columns", "from `W`"),
    "H": Key(fields.positive_int, "input rows without padding", "from `P`"),
    "W": Key(fields.positive_int, "input columns without padding", "from `Q`"),
    "R": Key(fields.positive_int, "rows of the kernel"),
    "S": Key(fields.positive_int, "columns of the kernel"),
    "stride": Key(_pair(1), _EITHER, "1"),
    "dilation": Key(_pair(1), _EITHER, "1"),
    "padding": Key(_pair(0), f"on each side: {_EITHER}", "0"),
    "groups": Key(fields.positive_int, "groups; equal to the channels in depthwise convolutions", "1"),
}
_GEMM: Keys = {
    "B": Key(fields.positive_int, "batch dimension", "none"),
    "H": Key(fields.positive_int, "second batch dimension, such as heads", "none"),
    "M": Key(fields.positive_int, "rows of the outputs"),
    "N": Key(fields.positive_int, "columns of the outputs"),
    "K": Key(fields.positive_int, "the reduction"),
    "pass": Key(fields.one_of(_PASSES), "pass of training a linear layer", "forward"),
}


def _named(read: Formed[dict[str, fields.T]]) -> Formed[dict[str, fields.T]]:
    """Reader of a mapping whose keys name dimensions or tensors."""
    names = {"pattern": forms.whole(fields.IDENTIFIER.pattern), "not": {"enum": [_PSUMS]}}

    @formed({**read.form, "propertyNames": names})
    def read_named(node: Node, problems: Problems) -> dict[str, fields.T] | None:
        for key, mark in node.key_marks.items() if isinstance(node, MapNode) else ():
            if not fields.IDENTIFIER.fullmatch(key):
                problems.add(BadNode(mark, node.path), f"{quoted(key)} cannot be a name", "use letters, digits and _")
            elif key == _PSUMS:
                problems.add(BadNode(mark, node.path), "'psums' stands for partial sums", "choose another name")
        return read(node, problems)

    return read_named


def _terms(text: str) -> RankTerms:
    """Terms of a sum of dimensions with positive integer factors."""
    terms = [_TERM.fullmatch(part) for part in text.split("+")]
    read = [(match[2], int(match[1] or 1)) for match in terms if match]
    if len(read) < len(terms) or any(factor < 1 for _, factor in read):
        hint = "write a sum like 2*P + R, with whole factors from 1"
        raise HintedError(f"cannot read the rank {quoted(text) if text else 'nothing'}", hint)
    return tuple(read)


_rank_form = forms.scalar({"type": "string", "pattern": forms.whole(_SUM)})
_rank = fields.scalar(_rank_form, _terms, "a rank like P or 2*P+R")
_ranks_form = forms.sequence(_rank_form)
_EINSUM: Keys = {
    "dims": Key(_named(fields.mapping_of(fields.positive_int)), "bound of each dimension"),
    "tensors": Key(_named(fields.mapping_of(node_of(_ranks_form))), "ranks of each tensor, such as `[C, 2*P + R]`"),
    "output": Key(fields.identifier, "output tensor"),
    "roles": Key(
        fields.mapping_of(fields.one_of(ROLES, "a role")),
        "role of each input tensor not named after its role",
        "Inputs",
    ),
}
_ONE = "none"
_EITHER_SIZES = [{"required": list(pair)} for pair in _SIZES]
EINSUM_KEYS: Keys = {
    "conv": Key(node_of({**keys_form(_CONV), "oneOf": _EITHER_SIZES}), "a convolution", _ONE),
    "gemm": Key(node_of(keys_form(_GEMM)), "`Outputs[M,N] = Inputs[M,K] x Weights[K,N]`", _ONE),
    "einsum": Key(node_of(keys_form(_EINSUM)), "any Einsum", _ONE),
}
"""Key of each way to write an Einsum."""


def read_conv(node: Node, problems: Problems) -> Shape | None:
    """Read a convolution, or return None with every mistake reported."""
    before = len(problems)
    conv = Fields(node, problems, _CONV)
    size = {dim: conv.value(dim, int(dim == "N")) for dim in "NKCRS"}
    stride = conv.value("stride", (1, 1))
    dilation = conv.value("dilation", (1, 1))
    padding = conv.value("padding", (0, 0))
    groups = conv.value("groups", 1)
    for dim in "KC":
        if size[dim] % groups:
            conv.wrong("groups", f"{groups} groups do not divide {dim} = {size[dim]}")
    given = [key for key in "PQHW" if key in conv]
    extents = [conv.value(key, 1) for key in given]
    if conv.readable and tuple(given) not in _SIZES:
        forms = "either P and Q (output size) or H and W (input size without padding)"
        problems.add(node, f"expected {forms}, got {listed(given) or 'none'}")
    if len(problems) > before or len(extents) != 2:
        return None
    spans = [1 + reach * (size[dim] - 1) for reach, dim in zip(dilation, "RS", strict=True)]
    for pad, span, steps in zip(padding, spans, ("rows", "columns"), strict=True):
        if pad >= span:
            what = f"some outputs of a kernel over {span} {steps} see nothing but the padding of {pad}"
            problems.warn(conv.entries["padding"], what, f"with {span - 1} at most, each sees the input")
    if given == ["H", "W"]:
        for axis, (key, span) in enumerate(zip("HW", spans, strict=True)):
            padded = extents[axis] + 2 * padding[axis]
            if span > padded:
                what = f"the output would be empty: the kernel spans {span} points and the padded input has {padded}"
                conv.wrong(key, what)
            extents[axis] = (padded - span) // stride[axis] + 1
    if len(problems) > before:
        return None
    group = {"G": groups} if groups > 1 else {}
    channels = {"K": size["K"] // groups, "C": size["C"] // groups}
    dims = {"N": size["N"], **group, **channels, "P": extents[0], "Q": extents[1], "R": size["R"], "S": size["S"]}
    outer = tuple(((dim, 1),) for dim in ("N", *group, "C"))
    rows = (("P", stride[0]), ("R", dilation[0]))
    columns = (("Q", stride[1]), ("S", dilation[1]))
    weights = _plain("Weights", (*group, "K", "C", "R", "S"), "Weights")
    inputs = Tensor("Inputs", (*outer, rows, columns), "Inputs")
    return dims, (weights, inputs, _plain("Outputs", ("N", *group, "K", "P", "Q"), "Outputs"))


def read_gemm(node: Node, problems: Problems) -> Shape | None:
    """Read a matrix product, or one of the two backward passes of a linear layer."""
    before = len(problems)
    gemm = Fields(node, problems, _GEMM)
    batch = [dim for dim in "BH" if dim in gemm]
    dims = {dim: gemm.value(dim, 1) for dim in (*batch, *"MNK")}
    training_pass = gemm.value("pass", "forward")
    if len(problems) > before or not gemm.readable:
        return None
    mk, kn, mn = ((*batch, *dims_of) for dims_of in ("MK", "KN", "MN"))
    operands = {
        "forward": (("Inputs", mk), ("Weights", kn), ("Outputs", mn)),
        "input_gradient": (("OutputGradients", mn), ("Weights", kn), ("InputGradients", mk)),
        "weight_gradient": (("Inputs", mk), ("OutputGradients", mn), ("WeightGradients", kn)),
    }[training_pass]
    roles = ("Inputs", "Weights", "Outputs")
    return dims, tuple(_plain(*operand, role) for operand, role in zip(operands, roles, strict=True))


def read_einsum(node: Node, problems: Problems) -> Shape | None:
    """Read an Einsum that is written out, or return None with every mistake reported."""
    before = len(problems)
    einsum = Fields(node, problems, _EINSUM)
    dims: dict[str, int] = einsum.value("dims", {})
    ranks: dict[str, Node] = einsum.value("tensors", {})
    output = einsum.value("output", "")
    given: dict[str, str] = einsum.value("roles", {})
    tensors = einsum.get("tensors")
    written = tensors.entries if isinstance(tensors, MapNode) else ranks
    if output and written and output not in written:
        hint = near_miss(output, written, "tensors")
        einsum.wrong("output", f"{quoted(output)} is not one of the tensors", hint)
    if len(problems) > before or not einsum.readable:
        bounds = einsum.get("dims")
        named = dict.fromkeys(bounds.entries, 1) if isinstance(bounds, MapNode) else {}
        for rank_node in ranks.values() if named else ():
            _ranks(rank_node, named, problems)
        return None
    if len(ranks) == 1:
        einsum.wrong("tensors", "expected the output and at least one input")
    _check_roles(einsum, output, ranks, given)
    read = {tensor: _ranks(rank_node, dims, problems) for tensor, rank_node in ranks.items()}
    if len(problems) > before:
        return None
    used = {dim for tensor in read.values() for rank in tensor for dim, _ in rank}
    for dim in dims:
        if dim not in used:
            problems.add(_key(einsum.entries["dims"], dim), "no tensor uses this dimension", "leave it out")
    if len(problems) > before:
        return None
    role = {tensor: given.get(tensor, tensor if tensor in ROLES else "Inputs") for tensor in read} | {output: "Outputs"}
    return dims, tuple(Tensor(tensor, its_ranks, role[tensor]) for tensor, its_ranks in read.items())


def _key(node: Node, key: str) -> BadNode:
    mark = node.key_marks[key] if isinstance(node, MapNode) else node.mark
    return BadNode(mark, f"{node.path}.{key}")


def _check_roles(einsum: Fields, output: str, ranks: Mapping[str, Node], given: Mapping[str, str]) -> None:
    """Report roles of tensors that do not exist, and the role Outputs anywhere but at the output."""
    for tensor, role in given.items():
        where = _key(einsum.entries["roles"], tensor)
        if tensor not in ranks:
            einsum.problems.add(where, "is not one of the tensors", near_miss(tensor, ranks, "tensors"))
        elif tensor == output and role != "Outputs":
            einsum.problems.add(where, f"is the output, which has the role Outputs, not {role}", "leave it out")
        elif tensor != output and role == "Outputs":
            einsum.problems.add(where, f"is not the output, which is {quoted(output)}", "give it Weights or Inputs")
    if "Outputs" in ranks and output != "Outputs" and "Outputs" not in given:
        where, what = _key(einsum.entries["tensors"], "Outputs"), f"is not the output, which is {quoted(output)}"
        einsum.problems.add(where, what, "name it otherwise or give its role")


def _ranks(node: Node, dims: Mapping[str, int], problems: Problems) -> tuple[RankTerms, ...]:
    """Read the ranks of a tensor: a list of sums such as `2*P + R`."""
    if not isinstance(node, ListNode):
        problems.add(node, f"expected a list of ranks like [C, 2*P+R], got {describe(node)}")
        return ()
    seen: set[str] = set()
    ranks = []
    for item in node.items:
        rank = () if problems.unreadable(item) else _rank(item, problems) or ()
        ranks.append(rank)
        for dim, _ in rank:
            if dim not in dims:
                problems.add(item, f"dimension {quoted(dim)} is not defined", near_miss(dim, dims, "dimensions"))
            elif dim in seen:
                what = f"dimension {quoted(dim)} stands twice in this tensor"
                problems.add(item, what, "it may stand in one rank only")
            seen.add(dim)
    return tuple(ranks)
