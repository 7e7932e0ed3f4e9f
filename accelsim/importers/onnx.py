"""Import of ONNX models: nodes become layers, tensors between them edges, and all else is named with the reason.

Convolutions and matrix products become what `conv` and `gemm` describe; pooling, normalisation and element-wise
operators that read several tensors become Einsums without weights. Operators on one tensor (activations, biases) are
folded into the layer before them, whose output they change on its way out. A ConvTranspose adds each input point, times
the kernel, into its output, which is one Einsum whose output has ranks `stride*P + dilation*R`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.importers.onnx_shapes import GATES, KEEPING, PSUM_BITS, OnnxShapes, parameters, read_model
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import Imported, NodeNote
from accelsim.inputs.units import printable, quoted

__all__ = ["import_model", "parameters"]

_FOLDED = (
    *("Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Swish", "Mish", "Elu", "Selu"),
    *("Celu", "Softplus", "Softsign", "Tanh", "Erf", "Gelu", "Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Sin"),
    *("Cos", "Floor", "Ceil", "Round", "Sign", "ThresholdedRelu", "Not", "IsNaN"),
)
_ELEMENTWISE = {
    **dict.fromkeys(("Add", "Sub", "Sum", "Mean"), "add"),
    **dict.fromkeys(("Div", "Mod"), "divide"),
    **dict.fromkeys(("Max", "Min"), "max"),
    **dict.fromkeys(("Pow", "Where", "And", "Or", "Xor", "Equal", "Less", "Greater", "BitShift"), "activate"),
    **{"Mul": "multiply", "LessOrEqual": "activate", "GreaterOrEqual": "activate"},
}
_LAYER_NORMS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
_NORMS = (*_LAYER_NORMS, "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LpNormalization", "LRN")
_ONE_PASS = {
    **dict.fromkeys((*_NORMS, "MeanVarianceNormalization"), "normalize"),
    **{
        "DynamicQuantizeLinear": "normalize",
        "Softmax": "softmax",
        "LogSoftmax": "softmax",
        "RotaryEmbedding": "multiply",
        "CumSum": "add",
    },
}
_POOLS = {"MaxPool": "max", "AveragePool": "add", "LpPool": "multiply"}
_WINDOWS = ("Conv", "ConvTranspose", *_POOLS)
_SCALED = ("Conv", "ConvTranspose", "Gemm")
"""Nodes whose weights take on the scale of a normalisation behind them."""
_REDUCTIONS = {
    **dict.fromkeys(("GlobalMaxPool", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin"), "max"),
    **dict.fromkeys(("GlobalAveragePool", "ReduceMean", "ReduceSum", "ReduceL1"), "add"),
    **dict.fromkeys(("GlobalLpPool", "ReduceL2", "ReduceProd"), "multiply"),
    **{"ReduceLogSumExp": "softmax", "ReduceSumSquare": "activate"},
}
_PRODUCTS = dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "Attention", *GATES), "multiply_add")
_OPERATIONS = {**_PRODUCTS, **_ELEMENTWISE, **_ONE_PASS, **_POOLS, **_REDUCTIONS}
"""What a node does at each point."""
_PARTS = ("Split", "Slice", "Gather", "GatherElements", "GatherND", "Expand", "Tile", "Pad", "Resize", "Upsample")
_CARRYING = (*KEEPING, *_PARTS, "Concat", "MaxPool")
"""Nodes whose output has words as wide as their first input's."""
_INNER = ("_scores", "_input", "_state")
"""Parts of a node whose output is none of its own."""


def operation_of(operator: str) -> str:
    """What an operator does at each point; one that is not known works on single words, as an activation does."""
    return _OPERATIONS.get(operator, "activate")


@dataclass(slots=True)
class _Import:
    """A model on its way to a workload: layers so far, and which of them compute each tensor of the model.

    A layer has the keys of a workload file, in their order; what is empty is not written. `tensors`: of each layer,
    what the model calls its tensors. `passed`: tensors folded into others. `runs`: of layers that run several times.
    """

    shapes: OnnxShapes
    layers: list[dict[str, Any]] = field(default_factory=list)
    notes: list[NodeNote] = field(default_factory=list)
    made: dict[str, list[str]] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    outputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, dict[str, str]] = field(default_factory=dict)
    passed: dict[str, str] = field(default_factory=dict)

    def note(self, node: Any, done: str, why: str) -> None:
        """Say what was done with a node."""
        name, operator = self.shapes.quantized.get(node.output[0], (node.name or node.output[0], node.op_type))
        self.notes.append(NodeNote(printable(name), operator, done, why))

    def add(
        self, node: Any, form: str, keys: dict[str, Any], inputs: Mapping[str, str], part: str = "", weights: str = ""
    ) -> str:
        """Add a layer; `inputs` says which tensor of the model each input of the layer is, `weights` which its own.

        Returns its name.
        """
        raw = re.sub(r"[^A-Za-z0-9_.+-]+", "_", (node.name or node.output[0]).strip("/")).strip("_.+-") or node.op_type
        name, number = raw + part, 2
        while name in self.outputs:
            name, number = f"{raw}{part}_{number}", number + 1
        fed = {tensor: source for tensor, source in inputs.items() if self._feeds(source, node)}
        sources = {tensor: self.made[source] for tensor, source in fed.items()}
        share = self.shapes.density(weights) or 0
        densities = {"Weights": f"{share:.6g}"} if 0 < share < 1 else {}
        operation = operation_of(node.op_type).replace("multiply_add", "")
        layer: dict[str, Any] = {"name": name, "from": sources, "whole": [], "operation": operation}
        self.layers.append({**layer, form: keys, "densities": densities})
        self.made[node.output[0]] = [name]
        self.outputs[name] = self.shapes.of.get(node.output[0]) or ()
        made = {} if part.endswith(_INNER) else {"Outputs": node.output[0]}
        self.tensors[name] = {**inputs, **({"Weights": weights} if weights else {}), **made}
        return name

    def _feeds(self, tensor: str, node: Any) -> bool:
        """Whether some layers make a tensor, all of it and nothing else; for a window, also in this shape."""
        made = [self.outputs[name] for name in self.made.get(tensor, ())]
        words = [math.prod(self.outputs[name]) * self.runs.get(name, 1) for name in self.made.get(tensor, ())]
        if self.shapes.words(tensor) not in (sum(words), sum(map(math.prod, made))) or not made:
            return False
        if node.op_type not in _WINDOWS:
            return True
        return self._near_padded(node) and all(shape[2:] == self.shapes.of[tensor][2:] for shape in made)

    def _near_padded(self, node: Any) -> bool:
        """Whether the padding of a window is no wider than the window, which each edge asks for."""
        attributes = self.shapes.attributes(node)
        kernel = attributes.get("kernel_shape") or self.shapes.of[node.input[1]][2:]
        steps = attributes.get("dilations") or [1] * len(kernel)
        reach = [step * (size - 1) for size, step in zip(kernel, steps, strict=True)]
        pads = attributes.get("pads", ()) if node.op_type != "ConvTranspose" else ()
        return all(pad <= reach[axis % len(reach)] for axis, pad in enumerate(pads))

    def pass_on(self, node: Any, source: str) -> None:
        """Let what computes a tensor also stand for what a node makes of it."""
        self.passed |= dict.fromkeys(node.output, source)
        if source in self.made:
            for output in node.output:
                self.made[output] = self.made[source]

    def bits(self, tensor: str) -> int | None:
        """Bits of the words of a tensor as the model says; None if they are those of floats."""
        while tensor not in self.shapes.widths:
            maker = self.shapes.makers.get(tensor)
            if maker is None or not (tensor in self.passed or maker.op_type in _CARRYING):
                return None
            tensor = self.passed.get(tensor, maker.input[0])
        return self.shapes.widths[tensor]

    def written_bits(self, tensor: str, readers: Mapping[str, Sequence[str]]) -> int | None:
        """Bits of the words that a layer writes, after the nodes that are folded into it."""
        ends, found = [tensor], set[int | None]()
        for each in ends:
            further = [name for name in readers.get(each, ()) if self.passed.get(name) == each]
            found |= {self.bits(each)} if len(further) < len(readers.get(each, [""])) else set()
            ends += further
        return None if None in found else max(filter(None, found))

    def set_widths(self, floats: int) -> None:
        """Give layers the widths of their tensors, and partial sums of integers theirs; `floats`: bits of floats."""
        readers: dict[str, list[str]] = {}
        for node in self.shapes.nodes:
            for name in dict.fromkeys(node.input):
                readers.setdefault(name, []).append(node.output[0])
        for layer in self.layers:
            own = {key: self.bits(name) for key, name in self.tensors[layer["name"]].items() if key != "Outputs"}
            integers = own.get("Inputs") and own.get("Weights", 1) and layer["operation"] in ("", "add")
            if made := self.tensors[layer["name"]].get("Outputs"):
                own["Outputs"] = self.written_bits(made, readers)
            sums = {"psums": max(PSUM_BITS, own.get("Outputs") or floats)} if integers else {}
            layer["bits"] = {key: bits for key, bits in own.items() if bits} | sums


def import_model(path: str | PathLike[str], sizes: Mapping[str, str]) -> Imported:
    """Read an ONNX model as a workload with a parameter `bits`, the width of floats; integers have their own.

    Its weights need not be there. `sizes` are those of dimensions that it leaves open, by name; `batch` and `seq` also
    stand for the usual names. `densities`: `true` counts the zeros of the weights, which must then be there. Raises
    AccelsimError if onnx is missing, the file is no model, a size is missing, or nothing in it can be counted.
    """
    shapes = read_model(path, sizes)
    work = _Import(shapes)
    work.active.update(shapes.inputs)
    for node in shapes.nodes:
        inputs = [name for name in node.input if name]
        if node.op_type in ("Shape", "Size", "Constant") or not any(name in work.active for name in inputs):
            continue  # constants and arithmetic on shapes
        scale = node.op_type == "DynamicQuantizeLinear"  # is its second output, its zero point the third
        work.active.update(filter(None, node.output[:1] if scale else node.output))
        try:
            _import_node(work, node)
        except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
            raise shapes.misfit(node) from None
    if shapes.quantized:
        names, operators = zip(*shapes.quantized.values(), strict=True)
        name, kinds = printable(names[0]), printable(", ".join(sorted({*operators})))
        why = f"scales and zero points are not counted; words have the bits of the model, sums of integers {PSUM_BITS}"
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        work.notes.append(NodeNote(name + more, kinds, "approximated", why))
    if not work.layers:
        why = "".join(f"; {note}" for note in work.notes[:3])
        raise AccelsimError(f"{path}: no node of the model is a layer that can be counted{why}")
    floats = sizes.get("bits", "16")
    work.set_widths(int(floats) if floats.isdecimal() else 0)
    about = "Words of floats have $bits bits, whatever the model stores; those of integers their own."
    return Imported(_write(Path(path), work, 16, about), tuple(work.notes))


def _import_node(work: _Import, node: Any) -> None:
    """Turn one node into a layer, or say why not."""
    kind = node.op_type
    data = next(name for name in node.input if name in work.active)
    known = [name for name in (*node.input, node.output[0]) if name]
    if work.shapes.attributes(node).get("channels_last"):
        work.note(node, "skipped", "its channels are the last axis; save the model before onnxruntime optimizes it")
    elif kind in KEEPING:
        work.pass_on(node, data)
        if kind == "Transpose":
            work.note(node, "skipped", "another order of the same words, which moves none here")
    elif kind == "Concat":
        several = [work.made.get(name, []) for name in node.input]
        if all(several):
            work.made[node.output[0]] = [name for each in several for name in each]
        work.note(node, "skipped", "its inputs stand side by side, which moves no words here")
    elif kind in _PARTS:
        why = "it selects, repeats or pads words, which moves none here; what reads it has no edge"
        work.note(node, "skipped", why)
    elif any(work.shapes.of.get(name) is None for name in known if kind in _MAKERS):
        work.note(node, "skipped", "its shapes are not known, even after shape inference")
    elif kind in _FOLDED or (kind in _ELEMENTWISE and _operands(work, node) == [data]):
        work.pass_on(node, data)
        if work.made.get(data):
            work.note(node, "folded", "it changes words on their way out of the layer before")
        else:
            work.note(node, "skipped", "no layer makes its input")
    elif kind == "BatchNormalization" and getattr(work.shapes.makers.get(data), "op_type", "") in _SCALED:
        work.pass_on(node, data)
        work.note(node, "folded", "scale and shift become part of the weights before it")
    elif kind in _MAKERS:
        _MAKERS[kind](work, node)
    else:
        work.note(node, "skipped", "this operator is not known")


def _operands(work: _Import, node: Any) -> list[str]:
    """Inputs of an element-wise node that are as large as its output; smaller ones are biases, scales and masks."""
    words = work.shapes.words(node.output[0])
    given = [name for name in dict.fromkeys(node.input) if name in work.active]
    return [name for name in given if work.shapes.words(name) == words] or given[:1]


def _conv(work: _Import, node: Any) -> None:
    attributes, names = work.shapes.attributes(node), (*node.input[:2], node.output[0])
    shapes = _images(work, node, names, "only convolutions over one to three axes are counted", 3)
    if not shapes:
        return
    x, w, y = shapes
    groups, inputs = attributes.get("group", 1), {"Inputs": node.input[0]}
    if x[1] != w[1] * groups:
        raise work.shapes.misfit(node)
    stride, dilation = _steps(attributes, len(x) - 2)
    if len(x) == 4:
        keys: dict[str, Any] = {"N": y[0], "K": y[1], "C": x[1], "P": y[2], "Q": y[3], "R": w[2], "S": w[3]}
        keys |= {key: pair for key, pair in (("stride", stride), ("dilation", dilation)) if pair != [1, 1]}
        work.add(node, "conv", keys | ({"groups": groups} if groups > 1 else {}), inputs, weights=node.input[1])
        return
    dims = {"N": y[0], "G": groups, "K": y[1] // groups, "C": w[1], **dict(zip("OPQTRS", y[2:] + w[2:], strict=True))}
    weights, moved = ["G", "K", "C", "T", "R", "S"], ["N", "G", "C", *_slid("OPQ", "TRS", stride, dilation)]
    tensors = {"Weights": weights, "Inputs": moved, "Outputs": ["N", "G", "K", "O", "P", "Q"]}
    work.add(node, "einsum", _einsum(dims, tensors), inputs, weights=node.input[1])


def _two_by_equation(work: _Import, node: Any) -> None:
    """The operator Einsum of two operands; an operand that is there once for all of a dimension has it not."""
    equation = re.sub(r"\s", "", work.shapes.attributes(node)["equation"].decode(errors="replace"))
    left, arrow, out = equation.partition("->")
    terms, names = left.split(","), list(node.input)
    out = out if arrow else "".join(sorted(one for one in {*left} - {","} if left.count(one) == 1))
    if len(terms) != 2 or "." in left or any(len({*term}) < len(term) for term in (*terms, out)):
        work.note(node, "skipped", f"{quoted(equation)} is no product of two operands, each letter once in each")
        return
    if names[0] not in work.active:
        terms, names = terms[::-1], names[::-1]
    shapes = [dict(zip(term, work.shapes.of[name], strict=True)) for term, name in zip(terms, names, strict=True)]
    dims = {letter: max(shape.get(letter, 1) for shape in shapes) for letter in dict.fromkeys("".join(terms))}
    held = [[letter for letter in shape if shape[letter] == dims[letter]] for shape in shapes]
    inputs = dict(zip(("Inputs", "Weights"), names, strict=True))
    tensors = {**dict(zip(inputs, held, strict=True)), "Outputs": list(out)}
    work.add(node, "einsum", _einsum(dims, tensors), inputs, weights=names[1])


def _conv_transpose(work: _Import, node: Any) -> None:
    attributes, names = work.shapes.attributes(node), (*node.input[:2], node.output[0])
    shapes = _images(work, node, names, "only convolutions over one or two axes are counted")
    if not shapes:
        return
    x, w, y = shapes
    groups, (stride, dilation) = attributes.get("group", 1), _steps(attributes)
    dims = {"N": x[0], "G": groups, "K": w[1], "C": x[1] // groups, "P": x[2], "Q": x[3], "R": w[2], "S": w[3]}
    tensors = {"Weights": ["G", "C", "K", "R", "S"], "Inputs": ["N", "G", "C", "P", "Q"]}
    tensors |= {"Outputs": ["N", "G", "K", *_slid("PQ", "RS", stride, dilation)]}
    work.add(node, "einsum", _einsum(dims, tensors), {"Inputs": node.input[0]}, weights=node.input[1])
    each = zip(x[2:], w[2:], stride, dilation, strict=True)
    if [step * (size - 1) + wide * (taps - 1) + 1 for size, taps, step, wide in each] != y[2:]:
        work.made.pop(node.output[0])
        work.note(node, "approximated", "its output is counted before padding is cut off; what reads it has no edge")


def _gemm(work: _Import, node: Any) -> None:
    attributes, a, b = work.shapes.attributes(node), *(work.shapes.of[name] for name in node.input[:2])
    m, k = a[::-1] if attributes.get("transA") else a
    n = b[0] if attributes.get("transB") else b[1]
    _product(work, node, node.input[:2], {"M": m, "N": n, "K": k})


def _matmul(work: _Import, node: Any) -> None:
    a, b = (list(work.shapes.of[name]) for name in node.input[:2])
    a, b = a if len(a) > 1 else [1, *a], b if len(b) > 1 else [*b, 1]
    m, k, n = a[-2], a[-1], b[-1]
    left, right = a[:-2], b[:-2]
    names = list(node.input[:2])
    if math.prod(right) == 1:
        _product(work, node, names, {"M": math.prod(left) * m, "N": n, "K": k})
    elif math.prod(left) == 1 and names[0] not in work.active:  # constant weights on the left of a batch
        _product(work, node, names[::-1], {"M": math.prod(right) * n, "N": m, "K": k})
    else:
        batch = np.broadcast_shapes(tuple(left), tuple(right))
        group, source = _shared_heads(work.shapes, names[1], batch)
        outer = {"B": math.prod(batch[:-1])} if len(batch) > 1 else {}
        keys = outer | {"H": batch[-1] // group, "M": group * m, "N": n, "K": k}
        work.add(node, "gemm", keys, {"Inputs": names[0], "Weights": source})
        if group > 1:
            why = f"the {group} query heads that share keys or values are rows of one product, which reads those once"
            work.note(node, "counted", why)
        elif math.prod(left) < math.prod(batch) or math.prod(right) < math.prod(batch):
            work.note(node, "approximated", "an operand that all of the batch share is counted once for each of it")


def _product(work: _Import, node: Any, names: Sequence[str], dims: dict[str, int]) -> None:
    work.add(node, "gemm", dims, dict(zip(("Inputs", "Weights"), names, strict=True)), weights=names[1])


def _shared_heads(shapes: OnnxShapes, name: str, batch: Sequence[int]) -> tuple[int, str]:
    """How many heads share each head of an operand that was repeated for them, and the operand before that.

    The pattern is [b, h, s, d] to [b, h, 1, s, d], expanded to [b, h, r, s, d], reshaped to [b, h*r, s, d].
    """
    node = shapes.makers.get(name)
    while node is not None and node.op_type in ("Reshape", "Transpose", "Cast", "Identity"):
        node = shapes.makers.get(node.input[0])
    if node is None or node.op_type != "Expand":
        return 1, name
    before, after = shapes.of.get(node.input[0]), shapes.of.get(node.output[0])
    if before is None or after is None or len(before) != 5 or len(after) != 5:
        return 1, name
    same = all(x == y for axis, (x, y) in enumerate(zip(before, after, strict=True)) if axis != 2)
    if not same or before[2] != 1 or after[1] * after[2] != batch[-1]:
        return 1, name
    return after[2], node.input[0]


def _attention(work: _Import, node: Any) -> None:
    """The two products of the operator Attention; the soft-max between them is left out."""
    attributes, (q, k, v) = work.shapes.attributes(node), (work.shapes.of[name] for name in node.input[:3])
    past = work.shapes.of.get(node.input[4]) if len(node.input) > 4 and node.input[4] else None
    if len(q) == 3:
        heads, shared = attributes["q_num_heads"], attributes["kv_num_heads"]
        tokens, width, wide, keys = q[1], q[2] // heads, v[2] // shared, k[1]
    else:
        heads, shared, tokens, width, wide, keys = q[1], k[1], q[2], q[3], v[3], k[2]
    keys += past[2] if past else 0
    rows = heads // shared * tokens
    outer = {"B": q[0], "H": shared, "M": rows}
    from_cache = {} if past else {"Weights": node.input[1]}
    work.add(node, "gemm", outer | {"N": keys, "K": width}, {"Inputs": node.input[0], **from_cache}, "_scores")
    from_cache = {} if past else {"Weights": node.input[2]}
    work.add(node, "gemm", outer | {"N": wide, "K": keys}, from_cache, "_context")
    work.layers[-1]["from"]["Inputs"] = [work.layers[-2]["name"]]
    work.note(node, "approximated", "two products, in full; soft-max, mask and scaling between them are left out")


def _recurrent(work: _Import, node: Any) -> None:
    """An LSTM, a GRU or an RNN: the product of all inputs, and of each step that of the state, and what its gates do.

    onnx.ai/onnx/operators: `W[dirs, gates*hidden, inputs]`, `R[dirs, gates*hidden, hidden]`, which onnxruntime turns.
    """
    shapes, attributes, gates = work.shapes, work.shapes.attributes(node), GATES[node.op_type]
    x, w, r = (shapes.of[name] for name in node.input[:3])
    batch, steps = x[:2] if attributes.get("layout") else x[1::-1]
    ways = 2 if attributes.get("direction") == b"bidirectional" else 1
    hidden, size = attributes.get("hidden_size", min(r[1:])), x[2]
    wide, cells = gates * hidden, []
    if (w[0], r[0], *map(sorted, (w[1:], r[1:]))) != (ways, ways, sorted((wide, size)), sorted((wide, hidden))):
        raise shapes.misfit(node)
    first = {"Inputs": node.input[5]} if ways == 1 and len(node.input) > 5 and node.input[5] else {}
    for way in ("_forward", "_backward") if ways == 2 else ("",):
        rows, given = {"M": steps * batch, "N": wide, "K": size}, {"Inputs": node.input[0]}
        taken = work.add(node, "gemm", rows, given, f"{way}_input", node.input[1])
        rows = {"M": batch, "N": wide, "K": hidden}
        state = work.add(node, "gemm", rows, first, f"{way}_state", node.input[2])
        tensors = {"Inputs1": ["M", "G", "N"], "Inputs2": ["M", "G", "N"], "Outputs": ["M", "N"]}
        dims = {"M": batch, "G": gates, "N": hidden}
        cells.append(work.add(node, "einsum", _einsum(dims, tensors), {}, f"{way}_gates"))
        work.layers[-1] |= {"from": {"Inputs1": [taken], "Inputs2": [state]}, "operation": "activate"}
        work.outputs[cells[-1]] = (batch, hidden)
        for at, name in ((-2, state), (-1, cells[-1])):
            work.layers[at]["repeat"] = work.runs[name] = steps
    work.made |= dict.fromkeys(filter(None, node.output[:2]), cells)
    work.note(node, "counted", f"a product of all inputs, then {steps} steps one after the other, each with its state")
    if len(node.input) > 4 and node.input[4]:
        work.note(node, "approximated", "sequences of all lengths are counted in full")


def _pool(work: _Import, node: Any) -> None:
    attributes = work.shapes.attributes(node)
    shapes = _images(work, node, node.output[:1], "only pooling over one or two axes is counted")
    if not shapes:
        return
    (n, c, p, q), (r, s) = shapes[0], _of_axes(attributes.get("kernel_shape"))
    dims = {"N": n, "C": c, "P": p, "Q": q, "R": r, "S": s}
    tensors = {"Inputs": ["N", "C", *_slid("PQ", "RS", *_steps(attributes))], "Outputs": ["N", "C", "P", "Q"]}
    work.add(node, "einsum", _einsum(dims, tensors), {"Inputs": node.input[0]})


def _reduce(work: _Import, node: Any) -> None:
    outputs, inputs = work.shapes.words(node.output[0]), work.shapes.words(node.input[0])
    dims = {"M": outputs, "K": inputs // outputs}
    work.add(node, "einsum", _einsum(dims, {"Inputs": ["M", "K"], "Outputs": ["M"]}), {"Inputs": node.input[0]})


def _one_pass(work: _Import, node: Any) -> None:
    _each_word(work, node, [node.input[0]], _together(work, node))
    work.note(node, "approximated", "counted as one pass over its input: each word is read once and written once")


def _together(work: _Import, node: Any) -> frozenset[int]:
    """Axes along which a node needs all words at once.

    Of a soft-max its own, of the norm of a layer those from its own to the last, of most others all but the first.
    """
    axes = len(work.shapes.of[node.output[0]])
    if node.op_type in ("BatchNormalization", "DynamicQuantizeLinear"):  # of all, and of no axes
        return frozenset(range(axes) if node.op_type == "DynamicQuantizeLinear" else ())
    own = work.shapes.attributes(node).get("axis", -1) % axes
    if node.op_type in ("Softmax", "LogSoftmax"):
        return frozenset({own})
    return frozenset(range(own if node.op_type in _LAYER_NORMS else 1, axes))


def _each_word(work: _Import, node: Any, operands: Sequence[str], together: frozenset[int] = frozenset()) -> None:
    """Add a layer that reads a word of each operand for each word of its output; `together`: axes needed at once."""
    shape = work.shapes.of[node.output[0]]
    dims = dict(zip("NCPQ", shape, strict=True)) if len(shape) == 4 else {"M": math.prod(shape)}
    last = len(shape) - 1
    if last in (1, 2):  # rows, such as tokens, and their words, as products of matrices have them
        dims = {"M": math.prod(shape[:-1]), "N": shape[-1]}
        together = frozenset(int(axis == last) for axis in together)
    names = ["Inputs"] if len(operands) == 1 else [f"Inputs{i}" for i in range(1, len(operands) + 1)]
    tensors = {name: list(dims) for name in [*names, "Outputs"]}
    whole = [dim for axis, dim in enumerate(dims) if axis in together] if len(dims) > 1 else list(dims)
    work.add(node, "einsum", _einsum(dims, tensors), dict(zip(names, operands, strict=True)))
    if together:
        work.layers[-1]["whole"] = whole


def _einsum(dims: Mapping[str, int], tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {"dims": dict(dims), "tensors": dict(tensors), "output": "Outputs"}


def _images(work: _Import, node: Any, names: Sequence[str], only: str, most: int = 2) -> list[list[int]]:
    """Shapes with two axes beside batch and channels, or three; none, which is noted, of those with more axes.

    One axis is the columns of one row.
    """
    shapes = [work.shapes.of[name] for name in names]
    if any(not 3 <= len(shape) <= 2 + most for shape in shapes):
        work.note(node, "skipped", only)
        return []
    return [[*shape[:2], *[1] * (len(shape) == 3), *shape[2:]] for shape in shapes]


def _of_axes(values: Sequence[int] | None, axes: int = 2) -> list[int]:
    """Values of rows and columns; 1 where none is given, and for the rows where there is one axis."""
    given = list(values or [1] * axes)
    return [1, *given] if len(given) == 1 else given


def _steps(attributes: Mapping[str, Any], axes: int = 2) -> list[list[int]]:
    """Stride and dilation along each axis."""
    return [_of_axes(attributes.get(key), axes) for key in ("strides", "dilations")]


def _slid(outs: Sequence[str], taps: Sequence[str], stride: Sequence[int], dilation: Sequence[int]) -> list[str]:
    """Ranks of a tensor over which windows slide."""
    steps = zip(stride, outs, dilation, taps, strict=True)
    return [f"{step}*{out} + {wide}*{tap}" for step, out, wide, tap in steps]


_MAKERS: dict[str, Callable[[_Import, Any], None]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": _two_by_equation,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Attention": _attention,
    **dict.fromkeys(GATES, _recurrent),
    **dict.fromkeys(_POOLS, _pool),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(_ONE_PASS, _one_pass),
    **dict.fromkeys(_ELEMENTWISE, lambda work, node: _each_word(work, node, _operands(work, node))),
}


def _write(path: Path, work: _Import, bits: int, about: str) -> str:
    """Workload file with all layers, and a comment for each node that is not counted as it is."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", path.stem).strip("_") or "model"
    lines = [f"# Imported from {printable(path.name)}. {about}"]
    lines += [f"# {printable(str(note))}" for note in work.notes]
    lines += [f"params: {{bits: {bits}}}", "workload:", f"  name: {name}"]
    lines += ["  bits: {Weights: $bits, Inputs: $bits, Outputs: $bits}"]
    lines += [f"  yields: {{{what}: {many}}}" for what, many in work.shapes.yields.items()]
    lines.append("  layers:")
    for layer in work.layers:
        fed = {tensor: names[0] if len(names) == 1 else names for tensor, names in layer["from"].items()}
        lines.append(f"    - {_flow({key: held for key, held in {**layer, 'from': fed}.items() if held})}")
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value)
