"""Quantized ONNX nodes as the nodes of floats that do the same work, and the bits of the words of tensors.

The operators of integers in ONNX and those that onnxruntime adds (docs/ContribOperators.md of onnxruntime) name a scale
and a zero point beside each tensor. Both leave here; the type of the integers stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

PSUM_BITS = 32
"""Bits of a sum of products of integers: that of `ConvInteger` and `MatMulInteger` is an int32."""
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""Products of a hidden state and of an input in a step of a recurrent layer."""
_TWINS: Mapping[str, tuple[str, tuple[int, ...], int | str]] = {
    "QLinearConv": ("Conv", (0, 3, 8), 7),
    "QLinearMatMul": ("MatMul", (0, 3), 7),
    "QGemm": ("Gemm", (0, 3, 6), 8),
    "ConvInteger": ("Conv", (0, 1), "INT32"),
    **dict.fromkeys(("MatMulInteger", "MatMulInteger16"), ("MatMul", (0, 1), "INT32")),
    **dict.fromkeys(("MatMulIntegerToFloat", "DynamicQuantizeMatMul"), ("MatMul", (0, 1), "FLOAT")),
    "MatMulNBits": ("MatMul", (0, 1), "FLOAT"),
    "DynamicQuantizeLSTM": ("LSTM", (*range(8),), "FLOAT"),
    "QLinearAdd": ("Add", (0, 3), 7),
    "QLinearMul": ("Mul", (0, 3), 7),
    "QLinearWhere": ("Where", (0, 1, 4), 8),
    "QLinearConcat": ("Concat", (), 1),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,), 4),
    "QLinearAveragePool": ("AveragePool", (0,), 4),
    "QLinearSoftmax": ("Softmax", (0,), 4),
    "QLinearLeakyRelu": ("LeakyRelu", (0,), 4),
    "QLinearSigmoid": ("Sigmoid", (0,), 4),
}
"""The node of floats, which inputs are its own, and the type of its output or the input with the zero point of that."""
_LEAST = {"QGemm": 6, "QLinearAdd": 7, "QLinearMul": 7, "QLinearWhere": 9, "QLinearConcat": 5, "MatMulNBits": 3}
"""Inputs that a node of onnxruntime must have, where the last of its own is not the last of all."""
_ZERO_POINTS = {"DequantizeLinear": (0, 2), **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QGemm"), (3, 5))}
_ZERO_POINTS |= {"ConvInteger": (1, 3), "MatMulInteger": (1, 3), "MatMulIntegerToFloat": (1, 5)}
"""Inputs of weights, and of their zero points."""


def least_inputs(operator: str) -> int:
    """How many inputs a quantized node has at least; 0 if the operator is none of those that are turned."""
    own = _TWINS.get(operator, ("", ()))[1]
    return _LEAST.get(operator, min(3, max(own, default=-1) + 1))


def zero_points(nodes: Iterable[Any]) -> dict[str, str]:
    """Names of the zero points of tensors of weights."""
    found = {}
    for node in nodes:
        weights, zero = _ZERO_POINTS.get(node.op_type, (0, len(node.input)))
        if zero < len(node.input):
            found[node.input[weights]] = node.input[zero]
    return found


def take_floats(graph: Any, onnx: Any) -> tuple[dict[str, int | None], dict[str, tuple[str, str]]]:
    """Turn quantized nodes of a graph into those of floats.

    Returns the bits of words of tensors whose type is known, None for floats, and by their outputs the names and
    operators of all nodes with scales.
    """
    known = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input} | known
    sizes = {tensor.name: tensor.dims for tensor in graph.initializer}
    kinds, quantized = {name: _kind(onnx, number) for name, number in types.items()}, {}
    for node in graph.node:
        name, operator, given = node.name or node.output[0], node.op_type, [*node.input, "", "", ""]
        held = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        made = None
        if operator in ("QuantizeLinear", "DynamicQuantizeLinear"):
            made = kinds.get(given[2], _kind(onnx, held.get("output_dtype") or onnx.TensorProto.UINT8))
        elif operator in _TWINS and not held.get("channels_last"):
            made = _turn(graph, node, held, kinds)
        states = sizes.get(given[2], ())
        if node.op_type in GATES and "hidden_size" not in held and len(states) == 3:
            node.attribute.append(onnx.helper.make_attribute("hidden_size", min(states[1:])))
        elif operator == "Cast":
            made = _kind(onnx, held.get("to", 1))
        elif operator == "Constant" and "value" in held:
            made = _kind(onnx, held["value"].data_type)
        if made is not None:
            kinds[node.output[0]] = made
        if operator in _TWINS or operator.lower().endswith("quantizelinear"):
            quantized[node.output[0]] = name, operator
    return {name: _bits(kind) for name, kind in kinds.items()}, quantized


def _turn(graph: Any, node: Any, held: Mapping[str, Any], kinds: dict[str, str]) -> str:
    """Turn a node; returns the type of its output."""
    given, (operator, own, made) = list(node.input), _TWINS[node.op_type]
    if node.op_type == "QLinearConcat":
        own = (*range(2, len(given), 3),)
    if node.op_type == "MatMulNBits":  # its weights are packed
        given[1] = f"{node.output[0]} weights"
        graph.initializer.add(name=given[1], data_type=1, dims=(held.get("K", 0), held.get("N", 0)))
        kinds[given[1]] = f"INT{held.get('bits', 4)}"
    if not isinstance(made, str):
        zero = given[made] if made < len(given) else ""
        made = kinds.get(zero, "FLOAT" if node.op_type == "QGemm" else kinds.get(given[own[0]], "UINT8"))
    kept = [given[at] for at in own if at < len(given)]
    node.op_type, node.domain = operator, ""
    del node.input[:]
    node.input.extend(kept)
    return made


def _kind(onnx: Any, number: int) -> str:
    kinds = onnx.TensorProto.DataType
    return str(kinds.Name(number)) if number in kinds.values() else "UNDEFINED"


def _bits(kind: str) -> int | None:
    """Bits of a type of integers of at most 32 bits or of floats of at most 8; None of all others."""
    found = re.fullmatch(r"U?INT(2|4|8|16|32)|FLOAT([48])E\w+", kind)
    return int(found[1] or found[2]) if found else None
