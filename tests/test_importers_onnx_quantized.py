"""Quantized ONNX models have the layers of the floats, with the widths that they give; recurrent layers their steps."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx_models import Graph, resnet50

from accelsim.fusion.graph import find_graphs
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload_reader import load_workload
from tests.conftest import REPOSITORY
from tests.test_importers_onnx import shapes

SAMPLES = REPOSITORY.parent / "shared" / "cases" / "turn3" / "onnx_quantised"
INT4, INT8, UINT8, INT16, INT32 = (getattr(TensorProto, n) for n in ("INT4", "INT8", "UINT8", "INT16", "INT32"))


class Quantized(Graph):
    """A graph whose nodes may be of onnxruntime, and whose constants have types."""

    def constant(self, kind: int, *shape: int) -> str:
        name = self.weight(*shape)
        self.weights[-1].data_type = kind
        return name

    def scale(self, kind: int = UINT8) -> tuple[str, str]:
        """Scale and zero point."""
        return self.constant(TensorProto.FLOAT), self.constant(kind)

    def qdq(self, x: str, kind: int = UINT8) -> str:
        """A pair that rounds a tensor of floats to integers."""
        both = self.scale(kind)
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *both), *both)

    def dequantized(self, kind: int, *shape: int) -> str:
        return self.add("DequantizeLinear", self.constant(kind, *shape), *self.scale(kind))

    def model(self, output: str, opset: int = 21) -> onnx.ModelProto:
        for node in self.nodes:
            known = onnx.defs.has(node.op_type, opset)
            node.domain = "" if known else "com.microsoft"
        made = super().model(output, opset)
        made.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        return made


def widths(layer) -> tuple[int, ...]:
    """Bits of the inputs in their order, of the output and of its partial sums."""
    return *(t.bits for t in layer.tensors if not t.output), layer.output.bits, layer.output.psum_bits


def test_qlinear_conv__is_the_convolution_of_its_integers(load_onnx):
    g = Quantized()
    x = g.input("x", 1, 16, 28, 28, kind=UINT8)
    y = g.add(
        "QLinearConv", x, *g.scale(), g.constant(INT8, 32, 8, 3, 3), *g.scale(INT8), *g.scale(), name="c", group=2
    )
    network = load_onnx(g.model(y))
    (layer,) = network.layers
    assert layer.dims == {"N": 1, "G": 2, "K": 16, "C": 8, "P": 26, "Q": 26, "R": 3, "S": 3}
    assert {t.role: t.bits for t in layer.tensors} == {"Weights": 8, "Inputs": 8, "Outputs": 8}
    assert layer.output.psum_bits == 32
    (note,) = map(str, network.notes)
    assert note.startswith("c (QLinearConv): approximated: scales and zero points are not counted; words have the bits")


@pytest.mark.parametrize(
    ("kind", "sums"), [("QLinearMatMul", (8, 8, 16, 32)), ("MatMulInteger", (8, 8, 32, 32)), ("QGemm", (8, 8, 16, 32))]
)
def test_products__of_integers_have_the_bits_of_what_they_read_and_write(load_onnx, kind, sums):
    g = Quantized()
    x, w = g.input("x", 4, 7, kind=UINT8), g.constant(INT8, 7, 5)
    made = {
        "QLinearMatMul": (x, *g.scale(), w, *g.scale(INT8), *g.scale(INT16)),
        "MatMulInteger": (x, w, g.scale()[1], g.scale(INT8)[1]),
        "QGemm": (x, *g.scale(), w, *g.scale(INT8), g.constant(INT32, 5), *g.scale(INT16)),
    }
    (layer,) = load_onnx(g.model(g.add(kind, *made[kind], name="one"))).layers
    assert layer.dims == {"M": 4, "N": 5, "K": 7}
    assert widths(layer) == sums


def in_pairs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Let each convolution read what a pair has rounded, and weights of integers through half of one."""
    nodes, done, made = list(model.graph.node), set(), onnx.helper.make_node
    del model.graph.node[:]
    model.graph.initializer.add(name="scale", data_type=TensorProto.FLOAT)
    for tensor in model.graph.initializer:
        tensor.data_type = INT8 if len(tensor.dims) in (2, 4) else tensor.data_type
    for node in nodes:
        if node.op_type in ("Conv", "Gemm"):
            x, w = node.input[:2]
            if x not in done:
                pair = (
                    made("QuantizeLinear", [x, "scale"], [f"{x}_q"]),
                    made("DequantizeLinear", [f"{x}_q", "scale"], [f"{x}_d"]),
                )
                model.graph.node.extend(pair)
            model.graph.node.append(made("DequantizeLinear", [w, "scale"], [f"{w}_d"]))
            node.input[0], node.input[1], done = f"{x}_d", f"{w}_d", {*done, x}
        model.graph.node.append(node)
    return model


def test_resnet50__of_pairs_around_floats_has_its_layers_with_8_bits(load_onnx):
    """Before a convolution stands a pair; sums and the pooling read floats."""
    network = load_onnx(in_pairs(resnet50(batch=1)))
    layers = {layer.name: layer for layer in network.layers}
    assert shapes(network.layers) == shapes(load_workload("resnet50", {"batch": "1"}).layers)
    products = [layer for layer in network.layers if layer.operation == "multiply_add"]
    assert len(products) == 54
    assert {(*widths(layer)[:2], layer.output.psum_bits) for layer in products} == {(8, 8, 32)}
    readers = {e.producer: layers[e.consumer].operation for e in network.edges}
    assert all(layer.output.bits == (8 if readers.get(layer.name) == "multiply_add" else 16) for layer in products)


def test_outputs__have_the_bits_of_the_only_pair_that_reads_them(load_onnx):
    """After `Relu` of the first, and of the second a reader of floats too; `bits` are those of floats."""
    g = Quantized()
    x = g.qdq(g.input("x", 1, 4, 6, 6))
    first = g.add("Conv", x, g.dequantized(INT4, 4, 4, 1, 1), name="first")
    second = g.add("Conv", g.qdq(g.add("Relu", first)), g.dequantized(INT8, 4, 4, 1, 1), name="second")
    third = g.add("Conv", g.qdq(second, INT16), g.dequantized(INT8, 4, 4, 1, 1), name="third")
    network = load_onnx(g.model(g.add("Add", third, second, name="sum")), bits=12)
    found = {layer.name: widths(layer) for layer in network.layers}
    assert found == {
        "first": (4, 8, 8, 32),
        "second": (8, 8, 12, 32),
        "third": (8, 16, 12, 32),
        "sum": (12, 12, 12, 12),
    }
    assert [(e.producer, e.consumer) for e in network.edges][:2] == [("first", "second"), ("second", "third")]
    wide = {layer.name: layer.output.psum_bits for layer in load_onnx(g.model("sum_out"), bits=48).layers}
    assert wide == {"first": 32, "second": 48, "third": 48, "sum": 48}


def test_weights__of_4_bits_multiply_floats(load_onnx):
    """`MatMulNBits` packs two weights in a byte; a half pair of INT4 is the same to a product."""
    g = Quantized()
    packed = g.constant(UINT8, 5, 1, 16)
    y = g.add("MatMulNBits", g.input("x", 3, 32), packed, g.constant(TensorProto.FLOAT, 5), name="a", K=32, N=5, bits=4)
    made = g.model(g.add("MatMul", y, g.dequantized(INT4, 5, 6), name="b"))
    layers = load_onnx(made).layers
    assert [layer.dims for layer in layers] == [{"M": 3, "N": 5, "K": 32}, {"M": 3, "N": 6, "K": 5}]
    assert [widths(layer) for layer in layers] == [(16, 4, 16, 16)] * 2


def test_ranges__found_as_the_model_runs_are_a_pass_over_all_words(load_onnx):
    """As `quantize_dynamic` writes: the product is an int32, and a product of scales makes it a float."""
    g = Quantized()
    x = g.add("DynamicQuantizeLinear", g.input("x", 4, 7), name="range", outputs=3)
    y = g.add("MatMulInteger", x, g.constant(INT8, 7, 5), "range_out2", g.scale(INT8)[1], name="one")
    scale = g.add("Mul", "range_out1", g.scale()[0], name="scales")
    network = load_onnx(g.model(g.add("Mul", g.add("Cast", y, to=TensorProto.FLOAT), scale, name="back")))
    first, second = network.layers
    assert (first.name, first.operation, first.whole, widths(first)) == ("range", "normalize", {"M", "N"}, (16, 8, 8))
    assert (second.name, second.dims, widths(second)) == ("one", {"M": 4, "N": 5, "K": 7}, (8, 8, 16, 32))
    assert [(e.producer, e.consumer) for e in network.edges] == [("range", "one")]
    assert "scales" not in {note.node for note in network.notes}


def test_operators__of_onnxruntime_are_those_of_floats(load_onnx):
    g = Quantized()
    x, z = g.input("x", 1, 4, 6, 6, kind=UINT8), g.input("z", 1, 4, 6, 6, kind=UINT8)
    s = g.scale()
    y = g.add("QLinearAdd", x, *s, z, *s, *s, name="add")
    y = g.add("QLinearMul", y, *s, g.add("QLinearSigmoid", y, *s, *s, name="gate"), *s, *s, name="mul")
    y = g.add("QLinearConcat", *s, y, *s, x, *s, name="beside", axis=1)
    y = g.add("QLinearAveragePool", y, *s, *s, name="mean", kernel_shape=[2, 2], strides=[2, 2])
    y = g.add("QLinearLeakyRelu", y, *s, *s, name="leak")
    g.add("QLinearGlobalAveragePool", y, *s, *s, name="late", channels_last=1)
    y = g.add("QLinearGlobalAveragePool", y, *s, *s, name="all")
    network = load_onnx(g.model(g.add("QLinearSoftmax", g.add("Flatten", y), *s, *s, name="shares", axis=1)))
    found = {layer.name: (layer.operation, *widths(layer)) for layer in network.layers}
    assert found == {
        **{"add": ("add", 8, 8, 8, 8), "mul": ("multiply", 8, 8, 8, 8), "mean": ("add", 8, 8, 32)},
        **{"all": ("add", 8, 8, 32), "shares": ("softmax", 8, 8, 8)},
    }
    edges = {(e.producer, e.consumer) for e in network.edges}
    assert edges == {("add", "mul"), ("mean", "all"), ("all", "shares")}  # a part of what `mean` reads is given
    said = {note.node: str(note) for note in network.notes}
    assert said["gate"].startswith("gate (QLinearSigmoid): folded")
    assert said["late"].startswith("late (QLinearGlobalAveragePool): skipped: its channels are the last axis")


def recurrent(kind: str, x: tuple[int, ...], hidden: int, ways: int, turned: bool = False, **keys) -> Quantized:
    """One recurrent layer of `gates` products; onnxruntime has its weights turned."""
    g, gates = Quantized(), {"LSTM": 4, "GRU": 3, "RNN": 1}[kind.removeprefix("DynamicQuantize")]
    w, r = (ways, gates * hidden, x[2]), (ways, gates * hidden, hidden)
    w, r = ((w[0], w[2], w[1]), (r[0], r[2], r[1])) if turned else (w, r)
    g.add(
        kind, g.input("x", *x), g.constant(INT8 if turned else 1, *w), g.constant(1, *r), name="cell", outputs=2, **keys
    )
    return g


@pytest.mark.parametrize("ways", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent__layers_have_the_products_of_each_step(load_onnx, kind, gates, layout, ways):
    """Each of 5 steps multiplies, in each direction, for each of 2 sequences, gates x 6 rows of 3 + 6 words."""
    many, x = (2 if ways == "bidirectional" else 1), (2, 5, 3) if layout else (5, 2, 3)
    g = recurrent(kind, x, 6, many, hidden_size=6, layout=layout, direction=ways)
    rows = g.add("Reshape", "cell_out", g.numbers(10, 6 * many))
    network = load_onnx(g.model(g.add("MatMul", rows, g.weight(6 * many, 4), name="after")))
    walked = 0
    for _step in range(5):
        for _way in range(many):
            walked += 2 * gates * 6 * (3 + 6)
    products = [layer for layer in network.layers if layer.operation == "multiply_add" and layer.name != "after"]
    assert sum(layer.macs * layer.repeat for layer in products) == walked
    assert sorted((layer.dims["M"], layer.repeat) for layer in products) == sorted([(10, 1), (2, 5)] * many)
    parts = ["_forward", "_backward"] if many == 2 else [""]
    assert {(e.producer, e.consumer, e.tensor) for e in network.edges} == {
        *((f"cell{part}_input", f"cell{part}_gates", "Inputs1") for part in parts),
        *((f"cell{part}_state", f"cell{part}_gates", "Inputs2") for part in parts),
        *((f"cell{part}_gates", "after", "Inputs") for part in parts),
    }
    assert sum(graph.repeat * len(graph.layers) for graph in find_graphs(network).graphs) == many * (1 + 5 + 5) + 1


def test_recurrent__layers_may_give_their_last_state_and_begin_with_one(load_onnx):
    """The hidden size is that of the weights; what makes the first state feeds the product of states."""
    g = Quantized()
    start = g.add("MatMul", g.input("s", 1, 2, 4), g.weight(4, 6), name="start")
    x = g.input("x", 5, 2, 3)
    g.add("GRU", x, g.weight(1, 18, 3), g.weight(1, 18, 6), "", g.numbers(5, 3), start, name="cell", outputs=2)
    g.nodes[-1].output[0] = ""
    last = g.add("MatMul", g.add("Squeeze", "cell_out1", g.numbers(0)), g.weight(6, 4), name="last")
    network = load_onnx(g.model(last))
    edges = {(e.producer, e.consumer) for e in network.edges}
    assert edges == {
        ("start", "cell_state"),
        ("cell_input", "cell_gates"),
        ("cell_state", "cell_gates"),
        ("cell_gates", "last"),
    }
    assert [str(note) for note in network.notes if note.operator == "GRU"] == [
        "cell (GRU): counted: a product of all inputs, then 5 steps one after the other, each with its state",
        "cell (GRU): approximated: sequences of all lengths are counted in full",
    ]


def test_recurrent__weights_of_onnxruntime_are_turned(load_onnx):
    """Weights of 8 bit multiply floats."""
    network = load_onnx(recurrent("DynamicQuantizeLSTM", (5, 2, 3), 6, 1, turned=True, hidden_size=6).model("cell_out"))
    taken, state, gates = network.layers
    assert (taken.dims, state.dims) == ({"M": 10, "N": 24, "K": 3}, {"M": 2, "N": 24, "K": 6})
    assert (widths(taken), widths(state), gates.repeat) == ((16, 8, 16, 16), (16, 16, 16, 16), 5)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"{SAMPLES} is absent")
def test_samples__have_the_products_that_their_page_says():
    lstm, conv = (load_workload(SAMPLES / f"{name}.onnx").layers for name in ("lstm", "qconv"))
    assert sum(layer.macs * layer.repeat for layer in lstm if layer.operation == "multiply_add") == 1_966_080
    assert conv[0].dims == {"N": 1, "K": 32, "C": 16, "P": 28, "Q": 28, "R": 3, "S": 3}
    assert widths(conv[0]) == (8, 8, 8, 32)


def broken(kind: str) -> onnx.ModelProto:
    g = Quantized()
    x = g.input("x", 1, 4, 6, 6, kind=UINT8)
    if kind == "channels":
        g.add("Conv", x, g.weight(2, 3, 3, 3), name="c")
    elif kind == "missing":
        g.add("Conv", x, "gone", name="c", kernel_shape=[3, 3])
    elif kind == "rank":
        g.add("Conv", x, g.weight(2, 4, 3), name="c")
    elif kind == "short":
        g.add("QLinearAdd", x, *g.scale(), x, name="c")
    elif kind == "gates":
        g.add("LSTM", g.input("s", 5, 2, 3), g.weight(1, 20, 3), g.weight(1, 24, 6), name="c", hidden_size=6)
    elif kind == "again":
        g.add("Relu", x, name="c")
        g.nodes[-1].output[0] = "x"
    else:
        g.inputs[0].type.tensor_type.ClearField("shape")
        g.add("Relu", x, name="c")
    return g.model("c_out")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "channels",
            r"node c \(Conv\): its inputs \(x \[1, 4, 6, 6\], w0 \[2, 3, 3, 3\]\) or attributes are not what ONNX",
        ),
        ("missing", r"node c \(Conv\): its input gone comes from nowhere: no initializer, no node before it"),
        ("rank", r"the shapes do not agree: \(op_type:Conv, node name: c\): Number of spatial dimensions"),
        ("short", r"node c \(QLinearAdd\): it lacks an input or an output"),
        (
            "gates",
            r"node c \(LSTM\): its inputs \(s \[5, 2, 3\], w0 \[1, 20, 3\], w1 \[1, 24, 6\]\) or attributes are not",
        ),
        ("again", r"node c \(Relu\): its output x is given already"),
        ("shape", r"the model gives no shape of its input x; export it with one"),
    ],
)
def test_models__that_are_broken_are_refused_at_the_node(load_onnx, kind, said):
    with pytest.raises(AccelsimError, match=said):
        load_onnx(broken(kind))


@pytest.mark.parametrize(("zero", "density"), [([3], "uniform, 0.75"), ([0], None), ([3, 0], None)])
def test_densities__of_integers_count_what_stands_for_zero(tmp_path, zero, density):
    """Five of 20 weights are 3, and none is 0; zero points that differ along an axis leave the density open."""
    g = Quantized()
    g.weights.append(onnx.numpy_helper.from_array(np.array([3] * 5 + [*range(4, 19)], np.uint8).reshape(5, 4), "w"))
    g.weights.append(onnx.numpy_helper.from_array(np.array(zero, np.uint8), "zero"))
    g.weights.append(onnx.numpy_helper.from_array(np.ones(len(zero), np.float32), "scale"))
    made = g.add("DequantizeLinear", "w", "scale", "zero")
    path = tmp_path / "model.onnx"
    path.write_bytes(g.model(g.add("MatMul", g.input("x", 2, 5), made)).SerializeToString())
    (layer,) = load_workload(path, {"densities": "true"}).layers
    found = layer.tensor("Weights").density
    assert (found and str(found)) == density
    assert math.prod(layer.dims.values()) == 2 * 5 * 4
