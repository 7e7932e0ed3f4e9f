"""ONNX models with all shapes: open dimensions set, shapes inferred, quantized nodes as those of floats.

The operators of integers in ONNX and those that onnxruntime adds (docs/ContribOperators.md of onnxruntime) name a scale
and a zero point beside each tensor. Both leave here; the type of the integers stays.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from accelsim.importers.pytorch import ENDING, NO_TORCH, read_program
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import MOST_MODEL_BYTES, open_file, read_file
from accelsim.inputs.units import listed, printable

NO_ONNX = "onnx is not installed, and reading ONNX models needs it; `pip install 'accelsim[onnx]'`"
USUAL = {
    "batch": ("batch", "batch_size", "batchsize", "bs", "n", "b"),
    "seq": ("seq", "sequence", "seq_len", "seqlen", "seq_length", "sequence_length", "max_seq_len", "tokens", "s", "t"),
    "kv": ("kv", "past", "past_seq", "past_len", "past_sequence_length", "total_sequence_length", "cache_len"),
}
"""Names that models give to the dimensions that `--batch` and `--seq-len` set, in small letters."""
QUANTISING = ("QuantizeLinear", "DequantizeLinear")
KEEPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast", "Dropout", "Transpose", *QUANTISING)
"""Nodes whose output has the words of their input."""
_COUNTS = ("group", "strides", "dilations", "kernel_shape")
"""Attributes that are whole numbers from 1."""
_LARGEST = 2**31 - 1
"""Largest size of a dimension."""
_MOST_NUMBERS = 1024
"""A tensor of more numbers is a weight: no shape follows from what it holds."""
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


@dataclass(frozen=True, slots=True)
class OnnxShapes:
    """A model's nodes in the order in which they run, the shapes of tensors as far as they are known, and their makers.

    No node makes inputs and constants. `widths`: bits of a word of tensors whose type is known, None of floats.
    `quantized`: by their outputs, names and operators of the nodes with scales.
    """

    path: str
    nodes: tuple[Any, ...]
    inputs: tuple[str, ...]
    of: Mapping[str, tuple[int, ...]]
    makers: Mapping[str, Any]
    yields: Mapping[str, int]
    nonzero: Mapping[str, float]
    widths: Mapping[str, int | None]
    quantized: Mapping[str, tuple[str, str]]

    def words(self, name: str) -> int:
        """Words of a tensor; 0 if they are not known."""
        return math.prod(self.of[name]) if name in self.of else 0

    def density(self, name: str) -> float | None:
        """Share of the words of a constant that are not zero, through nodes that keep them; None if it is not known."""
        while name not in self.nonzero and (maker := self.makers.get(name)) is not None and maker.op_type in KEEPING:
            name = maker.input[0]
        return self.nonzero.get(name)

    def attributes(self, node: Any) -> dict[str, Any]:
        """Attributes of a node as plain values."""
        import onnx

        return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}

    def misfit(self, node: Any) -> AccelsimError:
        """Say that what a node reads is not what its operator takes."""
        given = [f"{printable(name)} {list(self.of[name]) if name in self.of else '?'}" for name in node.input if name]
        return _wrong(self.path, node, f"its inputs ({', '.join(given)}) or attributes are not what ONNX has there")


def read_model(path: str | PathLike[str], sizes: Mapping[str, str]) -> OnnxShapes:
    """Read a model and infer its shapes.

    Raises AccelsimError if onnx is missing, the file is no model, or open dimensions have no size.
    """
    model, onnx = _load(path)
    graph = model.graph
    _refuse_odd_nodes(path, model, onnx)
    if sizes.get("densities", "false") not in ("true", "false"):
        raise AccelsimError(f"{path}: densities={sizes['densities']}: expected true or false")
    nonzero = _nonzero(path, graph, onnx) if sizes.get("densities") == "true" else {}
    widths, quantized = take_floats(graph, onnx)
    constants = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    _set_sizes(path, inputs, sizes)
    for tensor in graph.initializer:  # shapes follow from few numbers; weights would be copied to and fro
        if math.prod(tensor.dims) > _MOST_NUMBERS:
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
    del graph.output[:]  # what a model says of its outputs may still name what is open
    del graph.value_info[:]
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True, strict_mode=True).graph
    except Exception as error:  # the library has no one base of what it raises
        what = re.sub(r"\[\w+\] |Inference error\(s\): ", "", " ".join(str(error).split()))
        raise AccelsimError(f"{path}: the shapes do not agree: {what[:300]}") from None
    found = {name: shape for name, shape in constants.items() if all(size > 0 for size in shape)}
    for value in (*graph.input, *graph.value_info):
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.HasField("shape") and all(size > 0 for size in dims):
            found[value.name] = tuple(dims)
    for name, shape in found.items():
        if max(shape, default=0) > _LARGEST:
            what = f"the tensor {printable(name)} has the shape {shape}; {_LARGEST} is the largest size"
            raise AccelsimError(f"{path}: {what}")
    makers = {output: node for node in graph.node for output in node.output if output}
    names = tuple(value.name for value in inputs)
    shape = found.get(names[0], ()) if names else ()  # of images, or of words or their vectors
    rate = {2: "tokens", 3: "tokens", 4: "frames"}.get(len(shape))
    rates = {rate: math.prod(shape[: 1 if rate == "frames" else 2])} if rate else {}
    return OnnxShapes(str(path), tuple(graph.node), names, found, makers, rates, nonzero, widths, quantized)


def _nonzero(path: str | PathLike[str], graph: Any, onnx: Any) -> dict[str, float]:
    """Share of the words of each constant that are not zero, or not what stands for it: the same for all its words."""
    import numpy as np

    held, zeros, found = {tensor.name: tensor for tensor in graph.initializer}, dict[str, str](), dict[str, float]()
    for node in graph.node:
        weights, point = _ZERO_POINTS.get(node.op_type, (0, len(node.input)))
        if point < len(node.input):
            zeros[node.input[weights]] = node.input[point]
    for tensor in graph.initializer:
        beside = {each.key: each.value for each in tensor.external_data}
        try:
            if beside and int(beside.get("length", MOST_MODEL_BYTES + 1)) > MOST_MODEL_BYTES:  # or all of the file
                open_file(Path(path).parent / beside["location"], MOST_MODEL_BYTES).close()
            stands = held.get(zeros.get(tensor.name, ""))
            zero = [0] if stands is None else np.unique(onnx.numpy_helper.to_array(stands, str(Path(path).parent)))
            words = onnx.numpy_helper.to_array(tensor, str(Path(path).parent))
        except Exception as error:  # the library has no one base of what it raises
            why = f"densities=true: the words of {printable(tensor.name)} cannot be read"
            raise AccelsimError(f"{path}: {why}: {' '.join(str(error).split())[:200]}") from None
        if words.size and len(zero) == 1:
            found[tensor.name] = float(np.count_nonzero(words != zero[0])) / words.size
    return found


def _refuse_odd_nodes(path: str | PathLike[str], model: Any, onnx: Any) -> None:
    """Refuse nodes that ONNX does not allow: without all inputs and outputs, or with attributes of another kind."""
    version = next((each.version for each in model.opset_import if not each.domain), 1)
    version = min(max(version, 1), onnx.defs.onnx_opset_version())
    graph = model.graph
    sparse = (one.values for one in graph.sparse_initializer)
    known = {each.name for each in (*graph.input, *graph.initializer, *sparse)}
    for node in graph.node:
        own = _TWINS.get(node.op_type, ("", ()))[1]
        least, types = (_LEAST.get(node.op_type, min(3, max(own, default=-1) + 1)), 1), {}
        if node.domain in ("", "ai.onnx") and onnx.defs.has(node.op_type, version):
            schema = onnx.defs.get_schema(node.op_type, version)
            least = schema.min_input, max(1, schema.min_output)
            types = {name: attribute.type.value for name, attribute in schema.attributes.items()}
        odd = [each.name for each in node.attribute if each.type != types.get(each.name, each.type)]
        odd += [each.name for each in node.attribute if each.name in _COUNTS and min(each.ints or [each.i]) < 1]
        again = [name for name in node.output if name and name in known]
        unmade = [name for name in node.input if name and name not in known]
        if len(node.input) < least[0] or len(node.output) < least[1] or not any(node.output):
            raise _wrong(path, node, "it lacks an input or an output")
        if odd:
            raise _wrong(path, node, f"its attribute {printable(odd[0])} is not what ONNX has there")
        if unmade:
            what = f"its input {printable(unmade[0])} comes from nowhere: no initializer, no node before it"
            raise _wrong(path, node, what)
        if again:
            raise _wrong(path, node, f"its output {printable(again[0])} is given already")
        known |= {*node.output}
        node.output[0] = node.output[0] or f"{next(filter(None, node.output))} before"


def _wrong(path: str | PathLike[str], node: Any, what: str) -> AccelsimError:
    return AccelsimError(f"{path}: node {printable(node.name) or '?'} ({printable(node.op_type)}): {what}")


def parameters(path: str | PathLike[str]) -> frozenset[str]:
    """Parameters of a model: the dimensions that it leaves open, also by the usual names, `bits` and `densities`."""
    model, _ = _load(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    names = {name for value in model.graph.input if value.name not in constants for name, _ in _open(value)}
    usual = {key for key, several in USUAL.items() if any(name.lower() in several for name in names)}
    return frozenset(names | usual | {"bits", "densities"})


def _load(path: str | PathLike[str]) -> tuple[Any, Any]:
    """Read an ONNX model without the weights that stand beside it, or one that torch exported."""
    try:
        import onnx
        import onnx.shape_inference
    except ImportError:
        raise AccelsimError(NO_TORCH if str(path).endswith(ENDING) else NO_ONNX) from None
    if str(path).endswith(ENDING):
        return read_program(path), onnx
    content = read_file(path, MOST_MODEL_BYTES)
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's errors differ from version to version
        raise AccelsimError(f"{path}: not an ONNX model: {' '.join(str(error).split())[:200]}") from None
    if not model.graph.node:
        raise AccelsimError(f"{path}: not an ONNX model: it has no nodes")
    wrong = _wrong_text(model)
    if wrong is not None:
        raise AccelsimError(f"{path}: not an ONNX model: the text {wrong!r} in it is not UTF-8")
    return model, onnx


def _wrong_text(message: Any) -> bytes | None:
    """A text of a model that is not UTF-8: protobuf leaves it as bytes."""
    for field, value in message.ListFields():
        each = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
        if field.type == field.TYPE_STRING:
            wrong = next((text for text in each if isinstance(text, bytes)), None)
        elif field.type == field.TYPE_MESSAGE:
            wrong = next(filter(None, map(_wrong_text, each)), None)
        else:
            continue
        if wrong is not None:
            return wrong
    return None


def _open(value: Any) -> list[tuple[str, Any]]:
    """Open dimensions of an input, each with its name: the model's, or the input's with the number of the axis."""
    dims = enumerate(value.type.tensor_type.shape.dim)
    return [(dim.dim_param or f"{value.name}_{axis}", dim) for axis, dim in dims if dim.dim_value < 1]


def _set_sizes(path: str | PathLike[str], inputs: list[Any], sizes: Mapping[str, str]) -> None:
    """Give each open dimension the size that is asked for, or say which ones have none."""
    missing = []
    for value in inputs:
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            what = f"the model gives no shape of its input {printable(value.name)}; export it with one"
            raise AccelsimError(f"{path}: {what}")
        for name, dim in _open(value):
            usual = (sizes[key] for key, names in USUAL.items() if key in sizes and name.lower() in names)
            size = sizes.get(name) or next(usual, "")
            if not size:
                missing.append(name)
            elif not size.isdecimal() or not 0 < int(size) <= _LARGEST:
                raise AccelsimError(f"{path}: {name}={size}: expected a whole number from 1 to {_LARGEST}")
            else:
                dim.dim_value = int(size)
    if missing:
        names = list(dict.fromkeys(missing))
        what = f"the model leaves open how large {listed(names)} {'is' if len(names) == 1 else 'are'}"
        hint = f"write {' '.join(f'--set {name}=N' for name in names)} (or --batch N, --seq-len N)"
        raise AccelsimError(f"{path}: {what}; {hint}")


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
