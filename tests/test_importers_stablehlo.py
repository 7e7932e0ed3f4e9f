"""StableHLO modules become workloads: their texts are those of JAX 0.10.2, without attributes that change nothing.

Layers are compared with the operation by its definition, executed on small tensors, with loops run in Python, and with
the operations that XLA counts (`jax.jit(f).lower(...).cost_analysis()["flops"]`, two for each multiply-accumulate).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from accelsim.importers import stablehlo
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.workload_reader import load_workload

MLP = """
module @jit_mlp attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32x784xbf16>, %arg1: tensor<784x512xbf16>, %arg2: tensor<512xf32>, \
%arg3: tensor<512x10xbf16>) -> (tensor<32x10xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] \
: (tensor<32x784xbf16>, tensor<784x512xbf16>) -> tensor<32x512xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<512xf32>) -> tensor<1x512xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x512xf32>) -> tensor<32x512xf32>
    %3 = stablehlo.add %0, %2 : tensor<32x512xf32>
    %4 = call @relu(%3) : (tensor<32x512xf32>) -> tensor<32x512xf32>
    %5 = stablehlo.convert %4 : (tensor<32x512xf32>) -> tensor<32x512xbf16>
    %6 = stablehlo.dot_general %5, %arg3, contracting_dims = [1] x [0] \
: (tensor<32x512xbf16>, tensor<512x10xbf16>) -> tensor<32x10xbf16>
    return %6 : tensor<32x10xbf16>
  }
  func.func private @relu(%arg0: tensor<32x512xf32>) -> tensor<32x512xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<32x512xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<32x512xf32>
    return %1 : tensor<32x512xf32>
  }
}
"""
GENERIC_MLP = """
"builtin.module"() <{sym_name = "jit_mlp"}> ({
  "func.func"() <{function_type = (tensor<32x784xbf16>, tensor<784x512xbf16>, tensor<512xf32>, tensor<512x10xbf16>) \
-> tensor<32x10xbf16>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%a: tensor<32x784xbf16>, %b: tensor<784x512xbf16>, %c: tensor<512xf32>, %d: tensor<512x10xbf16>):
    %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], \
rhs_contracting_dimensions = [0]>}> : (tensor<32x784xbf16>, tensor<784x512xbf16>) -> tensor<32x512xf32> loc(#loc2)
    %2 = "stablehlo.broadcast_in_dim"(%c) <{broadcast_dimensions = array<i64: 1>}> : (tensor<512xf32>) \
-> tensor<32x512xf32>
    %3 = "stablehlo.add"(%0, %2) : (tensor<32x512xf32>, tensor<32x512xf32>) -> tensor<32x512xf32>
    %4 = "func.call"(%3) <{callee = @relu}> : (tensor<32x512xf32>) -> tensor<32x512xf32>
    %5 = "stablehlo.convert"(%4) : (tensor<32x512xf32>) -> tensor<32x512xbf16>
    %6 = "stablehlo.dot_general"(%5, %d) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], \
rhs_contracting_dimensions = [0]>} : (tensor<32x512xbf16>, tensor<512x10xbf16>) -> tensor<32x10xbf16>
    "func.return"(%6) : (tensor<32x10xbf16>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<32x512xf32>) -> tensor<32x512xf32>, sym_name = "relu"}> ({
  ^bb0(%a: tensor<32x512xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<32x512xf32>
    %2 = "stablehlo.maximum"(%a, %1) : (tensor<32x512xf32>, tensor<32x512xf32>) -> tensor<32x512xf32>
    "func.return"(%2) : (tensor<32x512xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32} : () -> ()
#loc2 = loc("dot"(callsite("f"("x.py":1:2) at "g"("y.py":3:4))))
"""
BLOCK = """
module {
  func.func @main(%x: tensor<4x56x56x64xf32>, %w1: tensor<3x3x64x128xf32>, %w2: tensor<3x3x128x128xf32>, \
%ws: tensor<1x1x64x128xf32>) -> tensor<4x28x28x128xf32> {
    %0 = stablehlo.convolution(%x, %w1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], \
window = {stride = [2, 2], pad = [[0, 1], [0, 1]]} {feature_group_count = 1 : i64} : \
(tensor<4x56x56x64xf32>, tensor<3x3x64x128xf32>) -> tensor<4x28x28x128xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [0, 1, 2] \
: (tensor<4x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [3] : (tensor<128xf32>) -> tensor<4x28x28x128xf32>
    %3 = stablehlo.subtract %0, %2 : tensor<4x28x28x128xf32>
    %4 = stablehlo.logistic %3 : tensor<4x28x28x128xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<4x28x28x128xf32>
    %6 = stablehlo.convolution(%5, %w2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], \
window = {pad = [[1, 1], [1, 1]]} : (tensor<4x28x28x128xf32>, tensor<3x3x128x128xf32>) -> tensor<4x28x28x128xf32>
    %7 = stablehlo.convolution(%x, %ws) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], \
window = {stride = [2, 2]} : (tensor<4x56x56x64xf32>, tensor<1x1x64x128xf32>) -> tensor<4x28x28x128xf32>
    %8 = stablehlo.add %6, %7 : tensor<4x28x28x128xf32>
    %9 = "stablehlo.reduce_window"(%8, %cst) <{padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>, \
window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %11 = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %11 : tensor<f32>
    }) : (tensor<4x28x28x128xf32>, tensor<f32>) -> tensor<4x14x14x128xf32>
    return %9 : tensor<4x14x14x128xf32>
  }
}
"""
ATTENTION = """
module {
  func.func @main(%q: tensor<2x64x8x32xf32>, %k: tensor<2x64x2x32xf32>) -> tensor<2x8x64x64xf32> {
    %0 = stablehlo.broadcast_in_dim %k, dims = [0, 1, 2, 4] : (tensor<2x64x2x32xf32>) -> tensor<2x64x2x4x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x64x2x4x32xf32>) -> tensor<2x64x8x32xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] \
: (tensor<2x64x8x32xf32>, tensor<2x64x8x32xf32>) -> tensor<2x8x64x64xf32>
    return %2 : tensor<2x8x64x64xf32>
  }
}
"""
SCAN = """
module {
  func.func public @main(%arg0: tensor<12x128x128xf32>, %arg1: tensor<32x128xf32>) -> tensor<32x128xf32> {
    %c = stablehlo.constant dense<START> : tensor<i32>
    %0:3 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %c, %iterArg_1 = %arg1) \
: tensor<12x128x128xf32>, tensor<i32>, tensor<32x128xf32>
    cond {
      %c_2 = stablehlo.constant dense<END> : tensor<i32>
      %1 = stablehlo.compare TEST, %iterArg_0, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_0) \
: (tensor<12x128x128xf32>, tensor<i32>) -> tensor<128x128xf32>
      %2 = stablehlo.dot_general %iterArg_1, %1, contracting_dims = [1] x [0] \
: (tensor<32x128xf32>, tensor<128x128xf32>) -> tensor<32x128xf32>
      %c_2 = stablehlo.constant dense<STEP> : tensor<i32>
      %3 = stablehlo.add %iterArg_0, %c_2 : tensor<i32>
      stablehlo.return %iterArg, %3, %2 : tensor<12x128x128xf32>, tensor<i32>, tensor<32x128xf32>
    }
    %4 = stablehlo.dot_general %0#2, %0#2, contracting_dims = [1] x [1] \
: (tensor<32x128xf32>, tensor<32x128xf32>) -> tensor<32x32xf32>
    return %4 : tensor<32x32xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<12x128x128xf32>, %arg1: tensor<i32>) -> tensor<128x128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c, sizes = [1, 128, 128] \
: (tensor<12x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
    return %1 : tensor<128x128xf32>
  }
}
"""


@pytest.fixture
def load(tmp_path):
    """Write a module and load it as a workload."""

    def load(text: str, **sizes: str):
        path = tmp_path / "model.mlir"
        path.write_text(text)
        return load_workload(path, sizes)

    return load


def one(params: str, op: str) -> str:
    """A module of one operation on `%a`, `%b`, …"""
    return f"module {{\n  func.func @main({params}) {{\n    %0 = {op}\n    return %0 : tensor<f32>\n  }}\n}}\n"


def edges(workload) -> set[tuple[str, str, str]]:
    return {(edge.producer, edge.consumer, edge.tensor) for edge in workload.edges}


def widths(layer) -> dict[str, int]:
    return {tensor.name: tensor.bits for tensor in layer.tensors} | {"psums": layer.output.psum_bits}


@pytest.mark.parametrize("text", [MLP, GENERIC_MLP, MLP.replace("stablehlo.", "mhlo.")], ids=["jax", "generic", "mhlo"])
def test_products__have_the_widths_of_their_types_and_of_their_sums(load, text):
    """The first product adds up in f32, which a bias, an activation and a conversion to bf16 follow."""
    first, second = (found := load(text)).layers
    assert (first.dims, second.dims) == ({"M": 32, "N": 512, "K": 784}, {"M": 32, "N": 10, "K": 512})
    assert widths(first) == {"Inputs": 16, "Weights": 16, "Outputs": 16, "psums": 32}
    assert widths(second) == {"Inputs": 16, "Weights": 16, "Outputs": 16, "psums": 16}
    assert edges(found) == {(first.name, second.name, "Inputs")}
    assert [(note.operator, note.done) for note in found.notes] == [("add", "folded"), ("maximum", "folded")]
    assert found.notes[1].node == f"relu.maximum_{2 if text == GENERIC_MLP else 1}"
    assert widths(load(text, bits="8").layers[1]) == {"Inputs": 8, "Weights": 8, "Outputs": 8, "psums": 8}


@pytest.mark.parametrize(
    ("element", "bits"),
    [
        *(("f8E4M3FN", 8), ("f4E2M1FN", 4), ("i4", 4), ("ui8", 8), ("i1", 8), ("complex<f32>", 64), ("tf32", 32)),
        *(("!quant.uniform<i8:f32, 3.4e-02:-16>", 8), ("f64", 64)),
    ],
)
def test_words__are_as_wide_as_their_type_is_stored(load, element, bits):
    kind = f"tensor<4x4x{element}>"
    text = one(f"%a: {kind}, %b: {kind}", f"stablehlo.dot %a, %b : ({kind}, {kind}) -> tensor<4x4xf32>")
    assert widths(load(text).layers[0]) == {"Inputs": bits, "Weights": bits, "Outputs": 32, "psums": 32}


def test_block__keeps_its_edges_with_channels_last(load):
    """A convolution, its norm and its gate, a second one, and a shortcut, whose sum is pooled."""
    found = load(BLOCK)
    names = [layer.name for layer in found.layers]
    first, mean, second, shortcut, total, pool = names
    assert edges(found) == {
        *((first, mean, "Inputs"), (first, second, "Inputs"), (second, total, "Inputs1")),
        *((shortcut, total, "Inputs2"), (total, pool, "Inputs")),
    }
    assert [layer.operation for layer in found.layers] == [
        *("multiply_add", "add", "multiply_add", "multiply_add", "add", "max"),
    ]
    assert found.layers[2].dims == {"N": 4, "K": 128, "C": 128, "P": 28, "Q": 28, "R": 3, "S": 3}
    assert [note.operator for note in found.notes] == ["subtract", "logistic", "multiply"]


def test_keys__repeated_for_query_heads_are_read_once(load):
    """Two heads of keys for eight of queries: each four are rows of one product. XLA counts 4194304 operations."""
    (layer,) = load(ATTENTION).layers
    assert layer.dims == {"B": 2, "H": 2, "M": 4 * 64, "N": 64, "K": 32}
    assert {tensor.name: tensor.words(layer.dims) for tensor in layer.tensors} == {
        **{"Inputs": 2 * 64 * 8 * 32, "Weights": 2 * 64 * 2 * 32, "Outputs": 2 * 8 * 64 * 64}
    }
    assert 2 * layer.macs == 4194304


@pytest.mark.parametrize(
    ("start", "end", "step", "test"),
    [(0, 12, 1, "LT"), (3, 12, 4, "LE"), (-3, 12, 1, "LT"), (20, 1, -3, "GT"), (7, 0, -1, "GE"), (5, 5, 1, "LT")],
)
def test_loop__repeats_its_layers_as_often_as_it_runs(load, start, end, step, test):
    compare = {"LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__}[test]
    steps, at = 0, start
    while compare(at, end):
        steps, at = steps + 1, at + step
    found = load(
        SCAN.replace("START", f"{start}").replace("END", f"{end}").replace("STEP", f"{step}").replace("TEST", test)
    )
    inside = [layer for layer in found.layers if layer.dims["K"] == 128 and layer.dims["N"] == 128]
    assert [(layer.repeat, layer.dims) for layer in inside] == [(steps, {"M": 32, "N": 128, "K": 128})][: steps and 1]
    assert len(edges(found)) == (2 if steps else 0)  # what follows reads what the last step made


def test_loop__until_data_say_so_is_refused(load):
    text = SCAN.replace("START", "0").replace("STEP", "1").replace("TEST", "LT").replace("dense<END>", "dense<1.5>")
    with pytest.raises(
        InputError, match=r"model\.mlir:5:5: how often this `while` runs does not follow from constants"
    ):
        load(text)


@pytest.mark.parametrize("seed", range(40))
def test_convolution__is_the_einsum_that_it_becomes(load, seed):
    """Both are executed: the convolution by its definition (StableHLO specification), the Einsum by its ranks."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    up = [int(value) for value in rng.integers(1, 3, n)] if rng.random() < 0.4 else [1] * n
    stride = [1] * n if max(up) > 1 else [int(value) for value in rng.integers(1, 3, n)]
    most = 4 if n < 3 else 3
    dilation, taps = ([int(value) for value in rng.integers(1, each, n)] for each in (3, most))
    sizes = [int(value) for value in rng.integers(2 * most - 3, 2 * most - 1, n)]  # as wide as the kernel at least
    groups, parts = ((2, 1), (1, 2), (1, 1))[rng.integers(3)]
    pads = [(0, 0) if max(up) == 1 else (far * (tap - 1),) * 2 for far, tap in zip(dilation, taps, strict=True)]
    if max(up) == 1:
        pads = [tuple(int(value) for value in rng.integers(0, 2, 2)) for _ in range(n)]
    outs = [
        ((size - 1) * u + 1 + sum(pad) - far * (tap - 1) - 1) // step + 1
        for size, u, pad, far, tap, step in zip(sizes, up, pads, dilation, taps, stride, strict=True)
    ]
    batch, ins, made = 2 * parts, 2 * groups, 2 * groups * parts
    x, w = rng.integers(-4, 5, (batch, ins, *sizes)), rng.integers(-4, 5, (ins // groups, made, *taps))
    expected = np.zeros((batch // parts, made, *outs), np.int64)
    for b, o, *rest in itertools.product(*map(range, (*expected.shape, *taps, ins // groups))):
        at, tap, i = rest[:n], rest[n:-1], rest[-1]
        point = [p * s + k * d - pad[0] for p, s, k, d, pad in zip(at, stride, tap, dilation, pads, strict=True)]
        inside = all(q % u == 0 and 0 <= q // u < size for q, u, size in zip(point, up, sizes, strict=True))
        source = b + o // (made // parts) * (batch // parts) if parts > 1 else b
        channel = i + o // (made // groups) * (ins // groups)
        if inside:
            expected[(b, o, *at)] += (
                x[(source, channel, *(q // u for q, u in zip(point, up, strict=True)))] * w[(i, o, *tap)]
            )
    (layer,) = (
        workload := load(_convolution(rng, n, x, w, expected, stride, pads, up, dilation, groups, parts))
    ).layers
    if max(up) == 1:
        x = np.pad(x, [(0, 0), (0, 0), *pads])
    else:
        w = np.flip(w, tuple(range(2, 2 + n)))  # an input point meets the kernel from its other end
    boxes = {tensor.name: tensor.box(layer.dims) for tensor in layer.tensors}
    count = groups * parts
    x = x.reshape(parts, batch // parts, ins, *x.shape[2:]) if parts > 1 else x.reshape(batch, groups, -1, *x.shape[2:])
    x = np.moveaxis(x, 0, 1) if parts > 1 else x
    w = w.reshape(ins // groups, count, -1, *taps).transpose(1, 2, 0, *range(3, 3 + n))
    found = np.zeros(boxes["Outputs"], np.int64)
    found = found if count > 1 else found[:, None]
    for point in itertools.product(*map(range, layer.dims.values())):
        values = dict(zip(layer.dims, point, strict=True))
        at = {t.name: [sum(c * values[d] for d, c in rank) for rank in t.ranks] for t in layer.tensors}
        if count == 1:
            at = {"Weights": [0, *at["Weights"]], **{k: [at[k][0], 0, *at[k][1:]] for k in ("Inputs", "Outputs")}}
        found[tuple(at["Outputs"])] += x[tuple(at["Inputs"])] * w[tuple(at["Weights"])]
    found = found.reshape(batch // parts, made, *found.shape[3:])
    assert np.array_equal(found, expected)
    positions = math.prod(sizes if max(up) > 1 else outs)
    assert layer.macs == batch // parts * made * (ins // groups) * math.prod(taps) * positions
    assert not workload.notes


def _convolution(rng, n, x, w, y, stride, pads, up, dilation, groups, parts) -> str:
    """A module of one convolution, in the pretty or the generic form and with its axes in any order."""
    letters = [["b", "f"], ["i", "o"], ["b", "f"]]
    orders = [rng.permutation(n + 2) for _ in letters]
    names = [[[*two, *map(str, range(n))][axis] for axis in order] for two, order in zip(letters, orders, strict=True)]
    shapes = ["x".join(str(t.shape[axis]) for axis in order) for t, order in zip((x, w, y), orders, strict=True)]
    kinds = [f"tensor<{shape}xf32>" for shape in shapes]
    layout = "[{}]x[{}]->[{}]".format(*(", ".join(each) for each in names))
    if rng.random() < 0.5:
        window = f"stride = {stride}, pad = {[list(pad) for pad in pads]}, lhs_dilate = {up}, rhs_dilate = {dilation}"
        counts = f"batch_group_count = {parts} : i64, feature_group_count = {groups} : i64"
        op = f"stablehlo.convolution(%a, %b) dim_numbers = {layout}, window = {{{window}}} {{{counts}}}"
    else:
        of = [f"array<i64: {', '.join(map(str, values))}>" for values in (stride, up, dilation)]
        padding = f"dense<{[list(pad) for pad in pads]}> : tensor<{n}x2xi64>"
        op = f'"stablehlo.convolution"(%a, %b) <{{batch_group_count = {parts} : i64, '
        op += f"dimension_numbers = #stablehlo.conv<{layout}>, feature_group_count = {groups} : i64, "
        op += f"lhs_dilation = {of[1]}, padding = {padding}, "
        op += f"rhs_dilation = {of[2]}, window_strides = {of[0]}}}>"
    return one(f"%a: {kinds[0]}, %b: {kinds[1]}", f"{op} : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}")


@pytest.mark.parametrize("seed", range(20))
def test_dot_general__has_a_point_for_each_product(load, seed):
    """Each of its axes is a letter; the points are the product of the sizes of all letters."""
    rng = np.random.default_rng(seed)
    sizes = {letter: int(rng.integers(2, 6)) for letter in "abcdefgh"}
    left, right = ([*rng.permutation([*"ab", *"cd", *own])] for own in ("ef", "gh"))
    batch, sums, free = ["a", "b"], ["c", "d"], [each for side in (left, right) for each in side if each in "efgh"]
    kinds = ["tensor<" + "".join(f"{sizes[each]}x" for each in side) + "f32>" for side in (left, right, batch + free)]
    pairs = [" x ".join(str([side.index(each) for each in which]) for side in (left, right)) for which in (batch, sums)]
    op = f"stablehlo.dot_general %a, %b, batching_dims = {pairs[0]}, contracting_dims = {pairs[1]}"
    (layer,) = load(one(f"%a: {kinds[0]}, %b: {kinds[1]}", f"{op} : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}")).layers
    assert layer.macs == math.prod(sizes.values())
    words = {tensor.name: tensor.words(layer.dims) for tensor in layer.tensors}
    wanted = [math.prod(sizes[each] for each in side) for side in (left, right, batch + free)]
    assert words == dict(zip(("Inputs", "Weights", "Outputs"), wanted, strict=True))


@pytest.mark.parametrize(
    ("flops", "params", "op"),
    [
        (
            7225344,
            "%a: tensor<1x14x14x64xf32>, %b: tensor<3x3x64x32xf32>",
            "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = "
            "[[2, 2], [2, 2]], lhs_dilate = [2, 2]} : (tensor<1x14x14x64xf32>, tensor<3x3x64x32xf32>) "
            "-> tensor<1x29x29x32xf32>",
        ),
        (
            25690112,
            "%a: tensor<32x784xi8>, %b: tensor<784x512xi8>",
            "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<32x784xi8>, tensor<784x512xi8>) "
            "-> tensor<32x512xi32>",
        ),
        (
            115605504,
            "%a: tensor<2x224x224x3xf32>, %b: tensor<16x16x3x192xf32>",
            "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = "
            "[16, 16]} : (tensor<2x224x224x3xf32>, tensor<16x16x3x192xf32>) -> tensor<2x14x14x192xf32>",
        ),
    ],
    ids=["transposed", "int8", "patches"],
)
def test_macs__are_half_of_the_operations_that_xla_counts(load, flops, params, op):
    assert [2 * layer.macs for layer in load(one(params, op)).layers] == [flops]


def test_branches__count_the_one_with_the_most_operations(load):
    kind = "tensor<8x8xf32>"
    dot = f"stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}"
    regions = [[f"%1 = {dot}"], [f"%1 = {dot}", f"%2 = {dot}"], [f"%1 = stablehlo.negate %a : {kind}"]]
    text = ", ".join(
        "{\n" + "\n".join([*lines, f"stablehlo.return %{len(lines)} : {kind}"]) + "\n}" for lines in regions
    )
    found = load(one(f"%a: {kind}, %i: tensor<i32>", f'"stablehlo.case"(%i) ({text}) : (tensor<i32>) -> {kind}'))
    assert [layer.macs for layer in found.layers] == [512, 512]
    assert str(found.notes[-1]).startswith("case_0 (case): approximated: of its 3 branches")


def test_operations__that_are_not_known_are_named(load):
    kind = "tensor<8x8xf32>"
    body = f"""%0 = stablehlo.dot %a, %a : ({kind}, {kind}) -> {kind}
    %1 = stablehlo.custom_call @my_kernel(%0) {{backend_config = "x = %y"}} : ({kind}) -> {kind}
    %2 = stablehlo.cholesky %1, lower = true : {kind}
    %3 = stablehlo.slice %2 [0:4, 0:8] : ({kind}) -> tensor<4x8xf32>
    %4 = stablehlo.custom_call @Sharding(%0) {{mhlo.sharding = "{{replicated}}"}} : ({kind}) -> {kind}
    %5 = stablehlo.dot %4, %1 : ({kind}, {kind}) -> {kind}"""
    found = load(f"module {{ func.func @main(%a: {kind}) {{\n    {body}\n    return %5 : {kind}\n  }}\n}}")
    assert [str(note).partition(": skipped: ")[::2] for note in found.notes] == [
        ("custom_call_1 (custom_call)", "what its target 'my_kernel' does is not known"),
        ("cholesky_2 (cholesky)", "this operation is not known"),
        ("slice_3 (slice)", "it selects, repeats or pads words, which moves none here; what reads it has no edge"),
    ]
    assert edges(found) == {("dot_0", "dot_5", "Inputs")}


BROKEN = {
    "no text": ("HloModule jit_f\n", ":1:1: this is the text of HLO, not of StableHLO; print the module of JAX"),
    "bytecode": ("ML\udcefR", ":1:1: this is MLIR in bytecode; only its text is read; print"),
    "no module": ("layers: [a]\n", ":1:1: not the text of an MLIR module: no `func.func` stands in it"),
    "cut off": (MLP[:900], ":3:188: this `{` is not closed; the file may be cut off"),
    "value": (MLP.replace("%0, %2", "%0, %22"), ":7:5: %22 is not defined here; did you mean '%2'?"),
    "function": (MLP.replace("call @relu", "call @relv"), ":8:5: no function is named 'relv'; did you mean 'relu'?"),
    "itself": (
        MLP.replace("stablehlo.maximum %arg0, %0 :", "call @relu(%arg0) :"),
        ":16:5: 'relu' calls itself; write",
    ),
    "sizes": (
        MLP.replace("[1] x [0], precision", "[1] x [1], precision"),
        ":4:5: of the operands 32x784 and 784x512, the sizes differ: [] and [] along the batching, [784] and",
    ),
    "type": (MLP.replace("%0, %2 : tensor<32x512xf32>", "%0, %2"), ":7:5: 'add' says no type of its result; write it"),
    "open": (
        MLP.replace("32x", "?x"),
        ":4:5: 'dot_general' has sizes that the module leaves open; lower it for arrays",
    ),
    "layout": (BLOCK.replace("[b, 0, 1, f]x", "[b, 0, f]x", 1), ":4:5: its dim_numbers do not name each axis"),
    "window": (BLOCK.replace("stride = [2, 2], pad", "stride = [2, 3], pad"), ":4:5: operands of [4, 64, 56, 56] and"),
    "pads": (BLOCK.replace("[0, 1], [0, 1]]} {", "[0, 1]]} {"), ":4:5: pad=[[0,1]] has not 4 numbers; write one for"),
    "pool": (
        BLOCK.replace("1, 3, 3, 1", "1, 5, 3, 1"),
        ":14:5: its windows give [4, 13, 14, 128], not [4, 14, 14, 128]",
    ),
    "reshape": (ATTENTION.replace("64x8x32xf32>\n    %2", "64x9x32xf32>\n    %2"), ":5:5: its operand has 32768 words"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_mistake__is_told_with_its_place_and_what_to_write(tmp_path, run, name):
    text, said = BROKEN[name]
    path = tmp_path / "model.mlir"
    path.write_bytes(text.encode(errors="surrogateescape"))
    code, _, err = run("check", "eyeriss", path)
    assert code == 2
    assert err.startswith(f"{path}{said}")


def test_mistakes__are_all_told_at_once(load):
    text = MLP.replace("%0, %2", "%0, %22").replace("%5, %arg3", "%arg0, %arg3")
    with pytest.raises(InputError) as error:
        load(text)
    assert [problem.mark.line for problem in error.value.problems] == [7, 10]


def test_calls__nested_too_deeply_and_too_many_are_refused(load, monkeypatch):
    """Each function calls the next twice, 2^40 operations in all; or once, 2000 calls deep."""
    kind = "tensor<4xf32>"
    call = f" %{{0}} = call @f{{1}}(%a) : ({kind}) -> {kind}\n"
    last = (
        f"func.func @f{{0}}(%a: {kind}) -> {kind} {{{{\n %0 = stablehlo.negate %a : {kind}\n return %0 : {kind}\n}}}}\n"
    )

    def chain(depth: int, calls: int) -> str:
        bodies = ["".join(call.format(i, at + 1) for i in range(calls)) for at in range(depth)]
        functions = [
            f"func.func @f{at}(%a: {kind}) {{\n{body} return %0 : {kind}\n}}\n" for at, body in enumerate(bodies)
        ]
        return "module {\n" + "".join(functions) + last.format(depth) + "}"

    monkeypatch.setattr(stablehlo, "_MOST_VALUES", 5000)
    with pytest.raises(InputError, match=r"calls lead to more than 5,000 values; split the module"):
        load(chain(40, 2))
    with pytest.raises(AccelsimError, match="nested too deeply"):
        load(chain(2000, 1))


def test_import__writes_a_workload_that_reads_the_same(tmp_path, run, load):
    found = load(BLOCK)
    written = tmp_path / "net.yaml"
    assert run("import", tmp_path / "model.mlir", "-o", written)[0] == 0
    again = load_workload(written)
    assert (again.layers, again.edges) == (found.layers, found.edges)
    assert "params: {bits: 32}" in stablehlo.import_model(tmp_path / "model.mlir", {}).text
