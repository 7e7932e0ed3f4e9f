"""ONNX models become workloads: the layers that papers count, and every other node named."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import onnx
import pytest
from onnx_models import Graph, bert_block, gpt2_decode_block, grouped_query_attention, mobilenet_v2, resnet50

import accelsim.importers.onnx_shapes
from accelsim.fusion.graph import find_graphs
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.library import MOST_MODEL_BYTES
from accelsim.inputs.workload import without_other_operations
from accelsim.inputs.workload_reader import load_workload

EVEN = "--mapspace", "even", "--factors", "perfect"


def shapes(layers) -> dict[str, int]:
    """How often each product of matrices or convolution occurs, by bounds above 1."""
    found: dict[str, int] = {}
    for layer in layers:
        if any(tensor.role == "Weights" for tensor in layer.tensors):
            key = " ".join(f"{dim}{bound}" for dim, bound in layer.dims.items() if bound > 1)
            found[key] = found.get(key, 0) + layer.repeat
    return found


def weighted_macs(network) -> int:
    return sum(layer.macs for layer in network.layers if any(t.role == "Weights" for t in layer.tensors))


@pytest.mark.parametrize(("name", "make", "adds"), [("resnet50", resnet50, 16), ("mobilenet_v2", mobilenet_v2, 10)])
def test_networks__have_the_layers_of_those_that_ship(load_onnx, name, make, adds):
    network = load_onnx(make(batch=2))
    shipped = load_workload(name, {"batch": "2"}).layers
    assert shapes(network.layers) == shapes(shipped)
    assert weighted_macs(network) == sum(layer.repeat * layer.macs for layer in shipped)
    assert sum("Inputs2" in {t.name for t in layer.tensors} for layer in network.layers) == adds
    assert network.yields == {"frames": 2}
    fed = {edge.consumer for edge in network.edges}
    assert [layer.name for layer in network.layers if layer.name not in fed] == ["conv_0"]
    assert {(note.operator, note.done) for note in network.notes} == {
        ("BatchNormalization", "folded"),
        ("Relu", "folded"),
    }


def test_weights__inside_the_model_change_nothing(load_onnx):
    model = bert_block()
    beside = load_onnx(model, batch=1, seq=8)
    for tensor in model.graph.initializer:
        if tensor.external_data:
            del tensor.external_data[:]
            tensor.data_location = 0
            tensor.raw_data = bytes(4 * math.prod(tensor.dims))
    inside = load_onnx(model, batch=1, seq=8)
    assert (inside.layers, inside.edges) == (beside.layers, beside.edges)


def test_bert__is_a_layer_of_the_one_that_ships(load_onnx):
    network = load_onnx(bert_block(), batch=3, seq=20)
    shipped = without_other_operations(load_workload("bert_base", {"batch": "3", "seq": "20"}))[0].layers
    assert weighted_macs(network) * 12 == sum(layer.repeat * layer.macs for layer in shipped)
    edges = {(edge.producer, edge.consumer, edge.tensor) for edge in network.edges}
    assert {
        ("matmul_0", "scores", "Inputs"),
        ("matmul_2", "scores", "Weights"),
        ("softmax_12", "context", "Inputs"),
    } <= edges
    assert network.yields == {"tokens": 60}
    assert {layer.name: sorted(layer.whole) for layer in network.layers if layer.whole}["softmax_12"] == ["Q"]


def test_gpt2_decode__attends_to_the_cache_and_the_new_token(load_onnx):
    network = load_onnx(gpt2_decode_block(), batch=2, past=99)
    products, _ = without_other_operations(load_workload("gpt2_decode", {"batch": "2", "kv": "100"}))
    shipped = [layer for layer in products.layers if layer.repeat == 12]
    assert weighted_macs(network) == sum(layer.macs for layer in shipped)
    assert [edge.tensor for edge in network.edges if edge.consumer == "scores"] == []
    split = next(note for note in network.notes if note.operator == "Split")
    assert str(split).startswith("split (Split): skipped: it selects, repeats or pads words")


@pytest.mark.parametrize("operator", [False, True], ids=["expand", "attention"])
def test_grouped_query_attention__reads_keys_once_for_a_group(load_onnx, operator):
    """Four query heads share a head of keys: 8 x (4 seq) x seq x 128, and 8 x seq x 128 words of keys, not 32."""
    network = load_onnx(grouped_query_attention(operator), batch=2, seq=16)
    by_name = {layer.name.removeprefix("attention_"): layer for layer in network.layers}
    for name, dims in (("scores", {"N": 16, "K": 128}), ("context", {"N": 128, "K": 16})):
        assert by_name[name].dims == {"B": 2, "H": 8, "M": 64, **dims}
        keys = next(tensor for tensor in by_name[name].tensors if tensor.role == "Weights")
        assert keys.words(by_name[name].dims) == 2 * 8 * 16 * 128
    consumers = {(edge.producer, edge.consumer.removeprefix("attention_"), edge.tensor) for edge in network.edges}
    assert {("q", "scores", "Inputs"), ("k", "scores", "Weights"), ("v", "context", "Weights")} <= consumers


@pytest.mark.parametrize("constant", [True, False])
def test_left_of_a_batch__a_constant_is_weights_of_all_its_rows_and_an_input_is_none(load_onnx, constant):
    """4 x 6 times each of 3 matrices of 6 x 5."""
    g = Graph()
    left, batch = g.weight(4, 6) if constant else g.input("x", 4, 6), g.input("y", 3, 6, 5)
    network = load_onnx(g.model(g.add("MatMul", left, batch, name="both")))
    (layer,) = network.layers
    assert layer.dims == ({"M": 3 * 5, "N": 4, "K": 6} if constant else {"H": 3, "M": 4, "N": 5, "K": 6})
    assert [note.done for note in network.notes] == ([] if constant else ["approximated"])


def test_attention__with_a_past_has_its_keys_and_those_of_the_step(load_onnx):
    """Four query heads of 8 words share two heads of keys, and of values of 16: 3 new tokens see 5 older ones too."""
    g = Graph()
    words = [g.input(name, 1, 3, size) for name, size in (("q", 4 * 8), ("k", 2 * 8), ("v", 2 * 16))]
    past = [g.input(f"past_{name}", 1, 2, 5, size) for name, size in (("k", 8), ("v", 16))]
    y = g.add("Attention", *words, "", *past, name="attention", q_num_heads=4, kv_num_heads=2)
    scores, context = load_onnx(g.model(y, 23)).layers
    assert scores.dims == {"B": 1, "H": 2, "M": 2 * 3, "N": 3 + 5, "K": 8}
    assert context.dims == {"B": 1, "H": 2, "M": 2 * 3, "N": 16, "K": 3 + 5}


def test_transposed_convolution__in_groups_has_the_channels_of_each(load_onnx):
    """12 channels of inputs and 10 of outputs in two groups: each of 6 and 5, as the weights have them."""
    g = Graph()
    x = g.add("ConvTranspose", g.input("x", 1, 12, 6, 6), g.weight(12, 5, 3, 3), name="up", group=2)
    (layer,) = load_onnx(g.model(x)).layers
    assert layer.dims == {"N": 1, "G": 2, "K": 5, "C": 6, "P": 6, "Q": 6, "R": 3, "S": 3}
    assert layer.output.words(layer.dims) == 10 * 8 * 8


def test_norms__of_an_instance_need_all_but_the_batch_at_once(load_onnx):
    g = Graph()
    x = g.add("InstanceNormalization", g.input("x", 2, 4, 6, 6), g.weight(4), g.weight(4), name="norm")
    (layer,) = load_onnx(g.model(x)).layers
    assert layer.whole == {"C", "P", "Q"}


def test_convolutions__of_every_kind(load_onnx):
    """Grouped, dilated with uneven padding, transposed, over one axis; pooling that leaves rows over."""
    g = Graph()
    x = g.input("x", 1, 8, 20, 20)
    x = g.add("Conv", x, g.weight(12, 4, 3, 3), name="grouped", group=2, dilations=[2, 2], pads=[1, 2, 3, 4])
    x = g.add("AveragePool", x, name="pool", kernel_shape=[3, 3], strides=[2, 2])
    x = g.add("ConvTranspose", x, g.weight(12, 5, 4, 4), name="up", strides=[2, 2])
    x = g.add("Conv", x, g.weight(3, 5, 1, 1), name="last")
    x = g.add("Reshape", x, g.numbers(1, 3, -1))
    network = load_onnx(g.model(g.add("Conv", x, g.weight(2, 3, 5), name="row", pads=[2, 2])))
    dims = {layer.name: layer.dims for layer in network.layers}
    assert dims["grouped"] == {"N": 1, "G": 2, "K": 6, "C": 4, "P": 20, "Q": 22, "R": 3, "S": 3}
    assert dims["pool"] == {"N": 1, "C": 12, "P": 9, "Q": 10, "R": 3, "S": 3}
    assert dims["up"] == {"N": 1, "G": 1, "K": 5, "C": 12, "P": 9, "Q": 10, "R": 4, "S": 4}
    up = next(layer for layer in network.layers if layer.name == "up")
    assert up.output.box(up.dims) == (1, 1, 5, 2 * 8 + 4, 2 * 9 + 4)
    assert dims["last"] == {"N": 1, "K": 3, "C": 5, "P": 20, "Q": 22, "R": 1, "S": 1}
    assert dims["row"] == {"N": 1, "K": 2, "C": 3, "P": 1, "Q": 440, "R": 1, "S": 5}
    assert [(e.producer, e.consumer) for e in network.edges] == [
        *(("grouped", "pool"), ("pool", "up"), ("up", "last"))
    ]  # the last one reads an image as one row, which is another shape for a window


def test_transposed_convolution__that_is_cropped_says_so_and_feeds_nobody(load_onnx):
    g = Graph()
    x = g.add("ConvTranspose", g.input("x", 1, 4, 6, 6), g.weight(4, 4, 4, 4), name="up", strides=[2, 2], pads=[1] * 4)
    network = load_onnx(g.model(g.add("Conv", x, g.weight(2, 4, 1, 1), name="last")))
    assert (len(network.layers), network.edges) == (2, ())
    assert str(network.notes[0]).startswith("up (ConvTranspose): approximated: its output is counted before padding")


def test_nodes__that_are_not_counted_are_named(load_onnx):
    g = Graph()
    x = g.input("x", 1, 4, 6, 6, 6, 6)
    y = g.add("Conv", x, g.weight(4, 4, 3, 3, 3, 3), name="volume")
    z = g.add("NonZero", x, name="odd")
    w = g.add("MatMul", g.add("Flatten", x), g.weight(4 * 1296, 3), name="linear")
    network = load_onnx(g.model(g.add("Tile", g.add("Tanh", w, name="act"), g.numbers(2, 2), name="tile")))
    assert [layer.name for layer in network.layers] == ["linear"]
    assert [(note.node, note.done) for note in network.notes] == [
        *(("volume", "skipped"), ("odd", "skipped"), ("act", "folded"), ("tile", "skipped"))
    ]
    assert y != z


def test_sizes__are_asked_for_by_the_names_of_the_model(run, tmp_path):
    path = tmp_path / "bert.onnx"
    path.write_bytes(bert_block().SerializeToString())
    code, out, err = run("map", "eyeriss", path)
    assert (code, out) == (2, "")
    assert "bert.onnx: the model leaves open how large batch, seq are; write --set batch=N --set seq=N" in err
    assert "did you mean 'seq'?" in run("map", "eyeriss", path, "--set", "sec=4")[2]
    assert "expected a whole number from 1" in run("map", "eyeriss", path, "--set", "seq=x", "--batch", 1)[2]
    code, out, err = run("import", path, "--batch", 2, "--seq-len", 8, "--set", "bits=8", "-o", tmp_path / "net.yaml")
    assert (code, out) == (0, f"Written to {tmp_path / 'net.yaml'}\n")
    assert "layernormalization_21 (LayerNormalization): approximated: counted as one pass" in err
    assert load_workload(tmp_path / "net.yaml").layers[0].tensors[0].bits == 8
    again = load_workload(path, {"batch": 2, "seq": 8, "bits": 8})
    with pytest.raises(InputError, match="btach: no file defines this parameter; did you mean 'batch'"):
        load_workload(path, {"btach": 2, "seq": 8})
    assert load_workload(tmp_path / "net.yaml").layers == again.layers
    norm = next(layer for layer in again.layers if layer.name == "layernormalization_21")
    assert (norm.dims, norm.whole) == ({"M": 16, "N": 768}, {"N"})  # tokens by tokens, each as a whole
    graph = next(graph for graph in find_graphs(again).graphs if graph.layers[-1].name == "layernormalization_28")
    names = [layer.name for layer in graph.layers]
    assert names == ["matmul_18", "add_20", norm.name, "matmul_22", "matmul_25", "add_27", "layernormalization_28"]
    link = next(link for link in graph.links if link.producer == names.index(norm.name))
    assert [(names[each.layer], each.tensor) for each in link.readers] == [
        ("matmul_22", "Inputs"),
        ("add_27", "Inputs1"),
    ]
    assert run("check", tmp_path / "net.yaml")[0] == 0


def test_map__takes_a_model_and_names_what_is_not_counted(run, tmp_path):
    g = Graph()
    x = g.add("MatMul", g.input("x", "batch", 4), g.weight(4, 6), name="one")
    x = g.add("MatMul", g.add("Relu", x, name="act"), g.weight(6, 4), name="two")
    path = tmp_path / "small.onnx"
    path.write_bytes(g.model(x).SerializeToString())
    asked = "map", "eyeriss", path, "--batch", 2, *EVEN
    code, out, err = run(*asked)
    assert (code, err) == (0, "Relu folded: it changes words on their way out of the layer before: act\n")
    proved = "2 of 2 layers optimal (proved) among even\nmappings with perfect factors\n"
    assert out.startswith(f"small on eyeriss, lowest energy: {proved}")
    _, short, err = run(*asked, "--quiet")
    assert (short.splitlines()[0], err) == (out.splitlines()[0], "")


def test_map__leaves_poolings_and_sums_out_of_the_total(run, tmp_path):
    g = Graph()
    x = g.add("Conv", g.input("x", 1, 4, 8, 8), g.weight(4, 4, 3, 3), name="conv", pads=[1, 1, 1, 1])
    y = g.add("MaxPool", x, name="pool", kernel_shape=[2, 2], strides=[2, 2])
    z = g.add("Add", y, g.add("AveragePool", x, name="mean", kernel_shape=[2, 2], strides=[2, 2]), name="sum")
    path = tmp_path / "pools.onnx"
    path.write_bytes(g.model(z).SerializeToString())
    said = "not in the total: 3 layers that do not multiply and add (1 max, 2 add): pool, mean, sum; --all-layers"
    assert said in " ".join(run("map", *EVEN, "eyeriss", path)[1].split())
    out = run("map", *EVEN, "eyeriss", path, "--json")[1]
    assert json.loads(out)["total"]["macs"] == 4 * 4 * 8 * 8 * 3 * 3


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "it has no nodes"), (b"workload: {}\n" * 9, "not an ONNX model"), (None, "no such file")],
)
def test_files__that_are_no_model(run, tmp_path, content, said):
    path = tmp_path / "m.onnx"
    if content is not None:
        path.write_bytes(content)
    for command in (("map", "eyeriss", path), ("import", path)):
        code, out, err = run(*command)
        assert (code, out) == (2, "")
        assert said in err


def test_onnx__missing_is_said_with_what_to_install(monkeypatch, load_onnx):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnx.shape_inference", None)
    with pytest.raises(AccelsimError, match=r"pip install 'accelsim\[onnx\]'"):
        accelsim.importers.onnx_shapes.read_model("x.onnx", {})


def test_import__takes_models_only(run, tmp_path):
    (tmp_path / "x.yaml").write_text("a: 1\n")
    assert "not a file of timeloop, zigzag, stream, accelforge" in run("import", tmp_path / "x.yaml")[2]
    (tmp_path / "m.onnx").write_bytes(mobilenet_v2().SerializeToString())
    assert "this is a folder; name a file" in run("import", tmp_path / "m.onnx", "-o", tmp_path)[2]
    code, out, _ = run("import", tmp_path / "m.onnx")
    assert (code, out.splitlines()[0].startswith("# Imported from m.onnx.")) == (0, True)


@pytest.mark.parametrize("kind", ["Conv", "AveragePool"])
@pytest.mark.parametrize(
    ("pads", "dilation", "fed"),
    [
        ([2, 4, 2, 4], 1, True),
        ([0, 0, 3, 0], 1, False),
        ([0, 0, 0, 5], 1, False),
        ([3, 0, 0, 0], 1, False),
        ([4, 8, 4, 8], 2, True),
        ([5, 0, 0, 0], 2, False),
    ],
)
def test_windows__padded_further_than_they_reach_have_no_edge(load_onnx, kind, pads, dilation, fed):
    """A kernel of 3 x 5 reaches 2 rows and 4 columns beyond the image, or twice as far."""
    g = Graph()
    x = g.add("Conv", g.input("x", 1, 4, 20, 20), g.weight(4, 4, 1, 1), name="before")
    operands = [g.weight(2, 4, 3, 5)] if kind == "Conv" else []
    keys = {"kernel_shape": [3, 5], "pads": pads, "dilations": [dilation] * 2}
    x = g.add(kind, x, *operands, name="window", **keys)
    network = load_onnx(g.model(x, opset=19))
    assert [(e.producer, e.consumer) for e in network.edges] == ([("before", "window")] if fed else [])


def test_strides_and_dilations__are_those_of_their_axis(load_onnx):
    """Rows move by 1 and 2, columns by 3 and 4."""
    g = Graph()
    keys = {"strides": [1, 3], "dilations": [2, 4]}
    g.add("Conv", g.input("x", 1, 4, 40, 60), g.weight(2, 4, 2, 3), name="conv", **keys)
    made = g.add("MaxPool", "x", name="pool", kernel_shape=[2, 3], **keys)
    for layer in load_onnx(g.model(made)).layers:
        inputs = next(tensor for tensor in layer.tensors if tensor.name == "Inputs")
        assert [dict(rank) for rank in inputs.ranks[-2:]] == [{"P": 1, "R": 2}, {"Q": 3, "S": 4}]
        assert (layer.dims["P"], layer.dims["Q"]) == (38, 18)


@pytest.mark.parametrize("turned", [{}, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1}], ids=str)
def test_gemm__operands_may_be_transposed(load_onnx, turned):
    g = Graph()
    a, b = (7, 4) if turned.get("transA") else (4, 7), (5, 7) if turned.get("transB") else (7, 5)
    (layer,) = load_onnx(g.model(g.add("Gemm", g.input("x", *a), g.weight(*b), name="one", **turned))).layers
    assert layer.dims == {"M": 4, "N": 5, "K": 7}


def _convolution(**changed):
    g = Graph()
    keys = {"kernel_shape": [3, 3], "pads": [1] * 4, **changed}
    return g.model(g.add("Conv", g.input("image", 1, 3, 8, 8), g.weight(4, 3, 3, 3), name="c", **keys))


@pytest.mark.parametrize(
    ("changed", "attribute"),
    [({"pads": 1}, "pads"), ({"group": "x"}, "group"), ({"group": 0}, "group"), ({"strides": [0, 1]}, "strides")],
)
def test_nodes__that_onnx_does_not_allow_are_refused(load_onnx, changed, attribute):
    with pytest.raises(AccelsimError, match=rf"node c \(Conv\): its attribute {attribute} is not what ONNX has there"):
        load_onnx(_convolution(**changed))


@pytest.mark.parametrize("ends", ["input", "output"])
def test_nodes__that_lack_an_end_are_refused(load_onnx, ends):
    model = _convolution()
    model.graph.node[0].ClearField(ends)
    with pytest.raises(AccelsimError, match=r"node c \(Conv\): it lacks an input or an output"):
        load_onnx(model)


@pytest.mark.parametrize("where", [b"a_name", b"Conv", b"image", b"OPEN"])
def test_import__a_text_that_is_not_utf8_is_refused(run, tmp_path, where):
    graph = Graph()
    image = graph.input("image", "OPEN", 3, 8, 8)
    made = graph.add("Conv", image, graph.weight(4, 3, 3, 3), name="a_name", kernel_shape=[3, 3])
    content = graph.model(made).SerializeToString().replace(where, b"\xff" * len(where), 1)
    (tmp_path / "model.onnx").write_bytes(content)
    for command in ("import", "map eyeriss"):
        code, _, said = run(*command.split(), str(tmp_path / "model.onnx"))
        assert code == 2
        assert "model.onnx: not an ONNX model: the text b'\\xff\\xff" in said


@pytest.mark.parametrize(
    ("equation", "left", "right", "constant", "tensors"),
    [
        ("bhqd, bhkd -> bhqk", (2, 4, 8, 16), (2, 4, 6, 16), "", ["bhqd", "bhkd", "bhqk"]),
        ("mk,kn", (3, 5), (5, 7), "right", ["mk", "kn", "mn"]),
        ("kn,mk->mn", (5, 7), (3, 5), "left", ["mk", "kn", "mn"]),
        ("bmk,bkn->bmn", (1, 3, 5), (2, 5, 7), "", ["mk", "bkn", "bmn"]),
    ],
)
def test_einsum__is_one_with_the_letters_of_its_equation(load_onnx, equation, left, right, constant, tensors):
    """Weights are constant; what is there once for all of a dimension is read once."""
    graph, sizes = Graph(), {"left": left, "right": right}
    made = [graph.weight(*sizes[name]) if name == constant else graph.input(name, *sizes[name]) for name in sizes]
    (layer,) = load_onnx(graph.model(graph.add("Einsum", *made, equation=equation))).layers
    by_role = {tensor.role: tensor for tensor in layer.tensors}
    assert ["".join(dim for dim in layer.dims if dim in by_role[role].dims) for role in by_role] == [
        "".join(dim for dim in layer.dims if dim in text) for text in tensors
    ]
    first, second = equation.replace(" ", "").partition("->")[0].split(",")
    bounds = {
        dim: size for term, shape in ((first, left), (second, right)) for dim, size in zip(term, shape, strict=True)
    }
    assert {dim: layer.dims[dim] for dim in "mknq" if dim in bounds} == {d: bounds[d] for d in "mknq" if d in bounds}


def test_einsum__that_is_no_product_of_two_is_left_out_with_its_reason(load_onnx):
    graph = Graph()
    made = graph.add("Einsum", graph.input("x", 4, 4), graph.input("y", 4, 4), equation="ii,ij->j")
    with pytest.raises(AccelsimError, match=r"can be counted; .*'ii,ij->j' is no product of two operands"):
        load_onnx(graph.model(made))


def test_convolution__over_three_axes_is_an_einsum(load_onnx):
    """4 groups of 2 filters of 2 channels x 2 x 3 x 3 taps, on 3 x 4 x 4 points: steps of 1, 2 and 2."""
    graph = Graph()
    keys = {"kernel_shape": [2, 3, 3], "strides": [1, 2, 2], "pads": [0, 1, 1] * 2, "group": 4}
    made = graph.add("Conv", graph.input("x", 1, 8, 4, 8, 8), graph.weight(8, 2, 2, 3, 3), **keys)
    (layer,) = load_onnx(graph.model(made)).layers
    assert layer.macs == 4 * 2 * 2 * (2 * 3 * 3) * (3 * 4 * 4)
    words = {tensor.role: math.prod(layer.dims[dim] for dim in tensor.dims) for tensor in layer.tensors}
    assert (words["Weights"], words["Outputs"]) == (8 * 2 * 2 * 3 * 3, 8 * 3 * 4 * 4)


@pytest.mark.parametrize(
    ("image", "weight", "said"),
    [
        ((2**60, 64), (64, 8), "has the shape (1152921504606846976, 64); 2147483647 is the largest size"),
        ((2, 2**40), (2**40, 8), "has the shape (1099511627776, 8)"),
        (
            (2**30, 2**30),
            (2**30, 2**30),
            "2**90 multiply-accumulates are too many to count: 2**62 are; split the layer",
        ),
    ],
)
def test_import__sizes_that_no_count_could_hold_are_refused(run, tmp_path, image, weight, said):
    graph = Graph()
    made = graph.add("MatMul", graph.input("rows", *image), graph.weight(*weight))
    (tmp_path / "model.onnx").write_bytes(graph.model(made).SerializeToString())
    code, _, line = run("import", str(tmp_path / "model.onnx"))
    assert code == 2
    assert said in line


def test_nodes__of_a_version_that_onnx_has_not_yet_are_those_of_its_newest(load_onnx):
    model = _convolution()
    model.opset_import[0].version = 2**60
    with pytest.raises(AccelsimError, match="no node of the model is a layer that can be counted"):
        load_onnx(model)


def test_densities__are_those_of_the_weights(tmp_path):
    """A quarter of the first weights and 3 of 32 of the transposed second ones are not zero."""
    first, second = np.zeros((4, 2, 3, 3), np.float32), np.zeros((8, 4), np.float32)
    first[0], second[0, :3] = 1.0, 2.0
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w0"], ["y"], "conv", kernel_shape=[3, 3], pads=[1] * 4),
        onnx.helper.make_node("GlobalAveragePool", ["y"], ["p"], "pool"),
        onnx.helper.make_node("Flatten", ["p"], ["f"]),
        onnx.helper.make_node("Transpose", ["w1"], ["t"], perm=[1, 0]),
        onnx.helper.make_node("MatMul", ["f", "t"], ["z"], "fc"),
    ]
    value, weights = onnx.helper.make_tensor_value_info, (("w0", first), ("w1", second))
    inputs = [value("x", onnx.TensorProto.FLOAT, [1, 2, 6, 6])]
    outputs = [value("z", onnx.TensorProto.FLOAT, [1, 8])]
    made = [onnx.numpy_helper.from_array(words, name) for name, words in weights]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", inputs, outputs, made))
    path = tmp_path / "pruned.onnx"
    onnx.save(model, path)
    layers = {layer.name: layer for layer in load_workload(path, {"densities": "true"}).layers}
    shares = {name: {t.role: str(t.density) for t in layer.tensors if t.density} for name, layer in layers.items()}
    assert shares == {"conv": {"Weights": "uniform, 0.25"}, "pool": {}, "fc": {"Weights": "uniform, 0.09375"}}
    assert all(t.density is None for layer in load_workload(path).layers for t in layer.tensors)
    with pytest.raises(AccelsimError, match="densities=yes: expected true or false"):
        load_workload(path, {"densities": "yes"})
    made[0].data_location = onnx.TensorProto.EXTERNAL
    made[0].external_data.add(key="location", value="weights.bin")
    made[0].ClearField("raw_data")
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", inputs, outputs, made))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(AccelsimError, match="densities=true: the words of w0 cannot be read"):
        load_workload(path, {"densities": "true"})
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(MOST_MODEL_BYTES + 1)
    with pytest.raises(AccelsimError, match="is larger than 4096 MiB; at most so much is read"):
        load_workload(path, {"densities": "true"})
