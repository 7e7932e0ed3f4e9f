"""Networks as graphs: which layer feeds which input, and whether their shapes agree."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.cli.inspecting import check_files
from accelsim.inputs.errors import InputError
from accelsim.inputs.workload import Edge
from accelsim.inputs.workload_reader import load_workload

CONV = "conv: {K: 8, C: 4, P: 14, Q: 14, R: 3, S: 3, padding: 1}"


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Load a network from its layers."""
    path = tmp_path_factory.mktemp("network") / "w.yaml"

    def load(*layers: str, top: str = ""):
        path.write_text(f"workload:\n  name: w\n{top}  layers:\n" + "".join(f"    - {{{layer}}}\n" for layer in layers))
        return load_workload(path)

    return load


def mistakes(load, *layers: str, top: str = "") -> str:
    with pytest.raises(InputError) as error:
        load(*layers, top=top)
    return str(error.value)


def test_edges__name_a_layer_several_or_one_for_each_tensor(load):
    network = load(
        f"name: a, {CONV}",
        f"name: b, {CONV}",
        "name: join, from: [a, b], conv: {K: 4, C: 16, P: 14, Q: 14, R: 1, S: 1}",
        "name: flat, from: join, gemm: {M: 1, N: 10, K: 784}",
        "name: square, from: {Inputs: flat, Weights: flat}, gemm: {M: 10, K: 1, N: 10}",
    )
    assert network.edges == (
        Edge("a", "join", "Inputs"),
        Edge("b", "join", "Inputs"),
        Edge("join", "flat", "Inputs"),
        Edge("flat", "square", "Inputs"),
        Edge("flat", "square", "Weights"),
    )
    assert [layer.name for layer in network.layers] == ["a", "b", "join", "flat", "square"]


def test_edges__lead_from_one_run_to_all_runs_of_a_layer_and_back(load):
    """A product of 8 rows, 4 steps of 2 rows each, and a product of all 8 rows; it cannot have others."""
    step = "einsum: {dims: {M: 2, N: 3}, tensors: {Inputs: [M, N], Outputs: [M, N]}, output: Outputs}"
    layers = "name: a, gemm: {M: 8, N: 3, K: 1}", f"name: step, from: a, repeat: 4, {step}"
    network = load(*layers, "name: c, from: step, gemm: {M: 8, N: 1, K: 3}")
    assert [(edge.producer, edge.consumer) for edge in network.edges] == [("a", "step"), ("step", "c")]
    for rows in (7, 9):
        said = mistakes(load, *layers, f"name: c, from: step, gemm: {{M: {rows}, N: 1, K: 3}}")
        assert f"step gives 2 x 3, but Inputs of c is {rows} x 3; {3 * rows} words are needed, 6 come" in said


@given(
    h=st.integers(1, 40), r=st.integers(1, 5), stride=st.integers(1, 3), dilation=st.integers(1, 2),
    padding=st.integers(0, 2), other=st.integers(1, 60),
)  # fmt: skip
def test_windows__take_the_input_that_the_convolution_is_made_for(load, h, r, stride, dilation, padding, other):
    """Every input size that gives the output passes; one that differs by a window and a step or more is refused."""
    span = dilation * (r - 1)
    if h + 2 * padding <= span or padding > span:
        return
    conv = f"K: 1, C: 3, R: {r}, S: 1, stride: [{stride}, 1], dilation: [{dilation}, 1], padding: [{padding}, 0]"
    consumer = f"name: b, from: a, conv: {{{conv}, H: {h}, W: 5}}"
    network = load(f"name: a, conv: {{K: 3, C: 1, P: {h}, Q: 5, R: 1, S: 1}}", consumer)
    assert len(network.edges) == 1
    if abs(other - h) > 2 * span + stride:
        said = mistakes(load, f"name: a, conv: {{K: 3, C: 1, P: {other}, Q: 5, R: 1, S: 1}}", consumer)
        assert f"but Inputs of b is 1 x 3 x {stride * (network.layers[1].dims['P'] - 1) + span + 1} x 5" in said


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ((f"name: a, {CONV}", f"name: b, from: c, {CONV}"), "5:23: layers[1].from: no layer is named 'c'; layers: a"),
        ((f"name: first, {CONV}", f"name: b, from: frist, {CONV}"), "did you mean 'first'?"),
        ((f"name: a, from: b, {CONV}", f"name: b, {CONV}"), "a is fed by 'b', which stands after it; write the layers"),
        ((f"name: a, from: a, {CONV}",), "4:23: layers[0].from: a is fed by the layer itself"),
        ((f"name: a, from: {{Input: b}}, {CONV}",), "Input: is no input of a; did you mean 'Inputs'?"),
        ((f"name: a, from: {{Outputs: b}}, {CONV}",), "Outputs: is no input of a; did you mean 'Inputs'?"),
        ((f"name: a, from: [], {CONV}",), "from: expected the name of a layer, got an empty list"),
        ((f"name: a, from: [[b]], {CONV}",), "from[0]: expected the name of a layer, got a list"),
        (
            (f"name: a, {CONV}", "name: b, from: a, conv: {K: 1, C: 9, P: 14, Q: 14, R: 1, S: 1}"),
            "a gives 1 x 8 x 14 x 14, but Inputs of b is 1 x 9 x 14 x 14; 9 words a position are needed, 8 come",
        ),
        (
            (f"name: a, {CONV}", "name: b, from: a, conv: {K: 1, C: 8, P: 7, Q: 7, R: 3, S: 3, padding: 1}"),
            "but Inputs of b is 1 x 8 x 9 x 9; rank 4 must be 5 to 9, padding included or not",
        ),
        (
            (f"name: a, {CONV}", "name: b, from: a, gemm: {M: 1, N: 1, K: 1569}"),
            "a gives 1 x 8 x 14 x 14, but Inputs of b is 1 x 1569; 1,569 words are needed, 1,568 come",
        ),
        (
            ("name: a, gemm: {M: 9, N: 9, K: 1}", "name: b, from: a, conv: {K: 1, C: 1, P: 3, Q: 3, R: 3, S: 3}"),
            "the words must be as many, but for padding",
        ),
        (
            (
                f"name: a, {CONV}",
                "name: b, from: a, einsum: {dims: {M: 1568}, tensors: {A: [M], B: [M], Z: [M]}, output: Z}",
            ),
            "b has the inputs A, B; say which one: from: {TENSOR: LAYER}",
        ),
    ],
)
def test_edges__mistakes_have_a_place_and_a_hint(load, layers, said):
    assert said in mistakes(load, *layers)


def test_yields__is_one_thing(load):
    assert load(f"name: a, {CONV}", top="  yields: {frames: 2}\n").yields == {"frames": 2}
    said = mistakes(load, f"name: a, {CONV}", top="  yields: {frames: 2, tokens: 3}\n")
    assert "w.yaml:3:11: yields: a run yields one thing, got frames, tokens; keep one of them" in said


def test_check__finds_every_mistake_of_a_graph_at_once(tmp_path):
    path = tmp_path / "w.yaml"
    layers = [f"name: a, {CONV}", f"name: b, from: x, {CONV}", f"name: c, from: {{I: a}}, {CONV}"]
    path.write_text("workload:\n  name: w\n  layers:\n" + "".join(f"    - {{{layer}}}\n" for layer in layers))
    assert [problem.mark.line for problem in check_files([path])] == [5, 6]


def test_attention__passes_every_word_on():
    """In the networks that ship the words of an edge are those of the input that it feeds."""
    network = load_workload("llama", {"seq": "8"})
    layers = {layer.name: layer for layer in network.layers}
    for edge in network.edges:
        tensor = next(t for t in layers[edge.consumer].tensors if t.name == edge.tensor)
        producer = layers[edge.producer]
        assert math.prod(tensor.box(layers[edge.consumer].dims)) == producer.output.words(producer.dims)
    assert len(network.edges) == 20


def test_bits__one_number_is_that_of_all_tensors(tmp_path):
    short, long = (tmp_path / name for name in ("short.yaml", "long.yaml"))
    short.write_text("workload: {name: w, gemm: {M: 4, N: 4, K: 4}, bits: 8}")
    long.write_text("workload: {name: w, gemm: {M: 4, N: 4, K: 4}, bits: {Inputs: 8, Weights: 8, Outputs: 8}}")
    assert load_workload(short).layers == load_workload(long).layers
    assert [tensor.bits for tensor in load_workload(short).layers[0].tensors] == [8, 8, 8]


def test_bits__of_a_layer_go_before_the_number_of_the_workload(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(
        "workload: {name: w, bits: 8, layers: [{name: a, gemm: {M: 4, N: 4, K: 4}, bits: {Weights: 4, psums: 32}}]}"
    )
    bits = {tensor.role: (tensor.bits, tensor.psum_bits) for tensor in load_workload(path).layers[0].tensors}
    assert bits == {"Inputs": (8, 8), "Weights": (4, 4), "Outputs": (8, 32)}
