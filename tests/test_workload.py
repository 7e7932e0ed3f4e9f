"""Workloads: what each form of an Einsum means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.inputs.errors import InputError
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.inputs.workload_reader import load_workload

SIZES = st.integers(1, 300)


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Load a workload from the text below its top-level key."""
    path = tmp_path_factory.mktemp("workload") / "w.yaml"

    def load(body: str, params: str = "{}", overrides: dict[str, str] | None = None):
        path.write_text(f"params: {params}\nworkload: {{name: w, {body}}}\n")
        return load_workload(path, overrides)

    return load


def ranks(einsum: Einsum) -> dict[str, str]:
    """Ranks of each tensor as text, `N C 2*P+R`."""

    def rank(terms) -> str:
        return "+".join(dim if factor == 1 else f"{factor}*{dim}" for dim, factor in terms)

    return {tensor.name: " ".join(map(rank, tensor.ranks)) for tensor in einsum.tensors}


def bits(einsum: Einsum) -> dict[str, int]:
    return {tensor.name: tensor.bits for tensor in einsum.tensors}


def test_conv__has_the_tensors_of_the_specification(load):
    (layer,) = load("conv: {N: 2, K: 8, C: 4, P: 5, Q: 6, R: 3, S: 2, stride: 2, dilation: [3, 1]}").layers
    assert layer.dims == {"N": 2, "K": 8, "C": 4, "P": 5, "Q": 6, "R": 3, "S": 2}
    assert ranks(layer) == {"Weights": "K C R S", "Inputs": "N C 2*P+3*R 2*Q+S", "Outputs": "N K P Q"}
    assert [(t.role, t.output) for t in layer.tensors] == [("Weights", False), ("Inputs", False), ("Outputs", True)]
    assert (layer.name, layer.repeat) == ("w", 1)


def test_conv__with_groups_has_a_dimension_for_them(load):
    """Depthwise: 32 channels in 32 groups leave one input and one output channel in each."""
    (layer,) = load("conv: {K: 32, C: 32, H: 8, W: 8, R: 3, S: 3, padding: 1, groups: 32}").layers
    assert layer.dims == {"N": 1, "G": 32, "K": 1, "C": 1, "P": 8, "Q": 8, "R": 3, "S": 3}
    assert ranks(layer) == {"Weights": "G K C R S", "Inputs": "N G C P+R Q+S", "Outputs": "N G K P Q"}


@given(h=SIZES, r=st.integers(1, 11), stride=st.integers(1, 4), dilation=st.integers(1, 3), padding=st.integers(0, 5))
def test_conv__counts_the_positions_of_the_kernel_in_the_padded_input(load, h, r, stride, dilation, padding):
    positions = [p for p in range(-padding, h + padding, stride) if p + dilation * (r - 1) < h + padding]
    keys = f"stride: {stride}, dilation: {dilation}, padding: {padding}"
    body = f"conv: {{K: 1, C: 1, H: {h}, W: 30, R: {r}, S: 1, {keys}}}"
    if positions:
        assert load(body).layers[0].dims["P"] == len(positions)
        return
    with pytest.raises(InputError, match="the output would be empty"):
        load(body)


def test_gemm__has_the_three_passes_of_a_linear_layer(load):
    forward, inputs, weights = (
        load(f"gemm: {{M: 2, N: 3, K: 4, pass: {name}}}").layers[0]
        for name in ("forward", "input_gradient", "weight_gradient")
    )
    assert forward.dims == inputs.dims == weights.dims == {"M": 2, "N": 3, "K": 4}
    assert ranks(forward) == {"Inputs": "M K", "Weights": "K N", "Outputs": "M N"}
    assert ranks(inputs) == {"OutputGradients": "M N", "Weights": "K N", "InputGradients": "M K"}
    assert ranks(weights) == {"Inputs": "M K", "OutputGradients": "M N", "WeightGradients": "K N"}
    assert [tensor.role for tensor in inputs.tensors] == ["Inputs", "Weights", "Outputs"]
    assert [tensor.role for tensor in weights.tensors] == ["Inputs", "Weights", "Outputs"]
    assert (inputs.output.name, weights.output.name) == ("InputGradients", "WeightGradients")


def test_gemm__has_batch_dimensions_only_where_given(load):
    (layer,) = load("gemm: {H: 12, B: 8, M: 2, N: 3, K: 4}").layers
    assert layer.dims == {"B": 8, "H": 12, "M": 2, "N": 3, "K": 4}
    assert ranks(layer) == {"Inputs": "B H M K", "Weights": "B H K N", "Outputs": "B H M N"}


def test_einsum__is_as_written(load):
    (layer,) = load(
        "einsum: {dims: {P: 4, R: 3, C: 2, M: 5}, output: Z, roles: {F: Weights},"
        " tensors: {F: [M, C, R], I: [C, 2 * P+3*R], Z: [M, P], B: [], Weights: [M]}}"
    ).layers
    assert ranks(layer) == {"F": "M C R", "I": "C 2*P+3*R", "Z": "M P", "B": "", "Weights": "M"}
    roles = {tensor.name: tensor.role for tensor in layer.tensors}
    assert roles == {"F": "Weights", "I": "Inputs", "Z": "Outputs", "B": "Inputs", "Weights": "Weights"}
    assert layer.output.name == "Z"


def test_bits__prefer_the_layer_then_the_name_of_the_tensor(load):
    workload = load(
        "bits: {Weights: 4, Inputs: 8, A: 6, psums: 32}, layers: ["
        "{name: one, gemm: {M: 1, N: 1, K: 1}},"
        "{name: two, bits: {Inputs: 5, Outputs: 7, psums: 24}, einsum: "
        "{dims: {M: 1}, tensors: {A: [M], B: [M], Z: [M]}, output: Z}}]"
    )
    one, two = workload.layers
    assert bits(one) == {"Inputs": 8, "Weights": 4, "Outputs": 16}
    assert bits(two) == {"A": 5, "B": 5, "Z": 7}
    assert (one.output.psum_bits, two.output.psum_bits) == (32, 24)


def test_densities__prefer_the_layer(load):
    workload = load(
        "densities: {Weights: 0.5, Inputs: 0.75}, layers: ["
        "{name: one, gemm: {M: 1, N: 1, K: 1}}, {name: two, densities: {Weights: 0.25}, gemm: {M: 1, N: 1, K: 1}}]"
    )
    found = [{each.role: str(each.density) for each in layer.tensors if each.density} for layer in workload.layers]
    assert found == [{"Weights": f"uniform, {weights}", "Inputs": "uniform, 0.75"} for weights in (0.5, 0.25)]


def test_bits__are_16_and_psums_those_of_the_output(load):
    assert set(bits(load("gemm: {M: 1, N: 1, K: 1}").layers[0]).values()) == {16}
    assert load("bits: {Outputs: 8}, gemm: {M: 1, N: 1, K: 1}").layers[0].output.psum_bits == 8


def test_layers__keep_their_order_and_repeats(load):
    workload = load(
        "layers: [{name: b, repeat: 3, gemm: {M: 1, N: 1, K: $k}}, {name: a/1, gemm: {M: 1, N: 1, K: 2}}]", "{k: 4}"
    )
    assert [(layer.name, layer.repeat, layer.macs) for layer in workload.layers] == [("b", 3, 4), ("a/1", 1, 2)]


def test_overrides__replace_parameters(load):
    gemm = "gemm: {M: $m, N: 1, K: 1}"
    assert load(gemm, "{m: 4}", {"m": "6"}).layers[0].macs == load(gemm, "{m: 4}", {"m": 6}).layers[0].macs == 6


@given(st.lists(SIZES, min_size=7, max_size=7), st.integers(1, 3), st.integers(1, 3))
def test_conv__touches_the_inputs_that_its_windows_span(load, sizes, stride, dilation):
    dims = dict(zip("NKCPQRS", sizes, strict=True))
    pairs = ", ".join(f"{dim}: {bound}" for dim, bound in dims.items())
    (layer,) = load(f"conv: {{{pairs}, stride: {stride}, dilation: {dilation}}}").layers
    inputs = next(tensor for tensor in layer.tensors if tensor.name == "Inputs")
    rows, columns = (stride * (dims[a] - 1) + dilation * (dims[b] - 1) + 1 for a, b in ("PR", "QS"))
    assert inputs.box(layer.dims) == (dims["N"], dims["C"], rows, columns)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("conv: {K: 1, C: 1, R: 1, S: 1, P: 1, Q: 1, H: 1, W: 1}", "got P, Q, H, W"),
        ("conv: {K: 1, C: 1, R: 1, S: 1}", "without padding), got none"),
        ("conv: 3", "conv: expected a mapping with the keys N, K, C"),
        ("gemm: {M: 1, N: 1, K: 99999999999999999999999}", "is too large"),
        ("gemm: {M: 1, N: 1, K: 1}, layers: []", "layers: expected a list of layers, got an empty list"),
        ("gemm: {M: 1, N: 1, K: 1}, layers: []", "gemm: stands beside 'layers'; put `gemm` into a layer"),
        ("gemm: {M: 1, N: 1, K: 1}, pass: forward", "pass: unknown key"),
        ("einsum: {dims: {M: 1}, tensors: {Z: [M]}, output: Z}", "expected the output and at least one input"),
        ("einsum: {dims: {M-1: 1}, tensors: {A: [M], Z: [M]}, output: Z}", "'M-1' cannot be a name"),
        ("einsum: {dims: {M: 1}, tensors: {psums: [M], Z: [M]}, output: Z}", "'psums' stands for partial sums"),
        ("gemm: {M: 4, N: 4, K: 4}, bits: {Outputs: 16, psums: 8}", "partial sums of 8 bit are narrower than Outputs"),
        (
            "einsum: {dims: {M: 1}, tensors: {Outputs: [M], Z: [M]}, output: Z}",
            "Outputs: is not the output, which is 'Z'",
        ),
        ("einsum: {dims: {M: 1}, tensors: {A: [M], Z: [M]}, output: Z, roles: {Z: Inputs}}", "has the role Outputs"),
        (
            "einsum: {dims: {M: 1}, tensors: {A: [M], Z: [M]}, output: Z, roles: {A: Outputs}}",
            "give it Weights or Inputs",
        ),
        (
            "einsum: {dims: {M: 1}, tensors: {A: [M], Z: [M]}, output: Z, roles: {B: Inputs}}",
            "roles.B: is not one of the",
        ),
        ("einsum: {dims: {M: 1}, tensors: {A: [M+M], Z: [M]}, output: Z}", "'M' stands twice in this tensor"),
        (
            "einsum: {dims: {M: 1}, tensors: {A: [[M]], Z: [M]}, output: Z}",
            "expected a rank like P or 2*P+R, got a list",
        ),
        ("einsum: {dims: {M: 1}, tensors: {A: [M-1], Z: [M]}, output: Z}", "cannot read the rank 'M-1'"),
        ("einsum: {dims: {M: 0}, tensors: {A: [M], Z: [M]}, output: Z}", "dims.M: must be at least 1, got 0"),
    ],
)
def test_load_workload__refuses(load, body, message):
    with pytest.raises(InputError) as error:
        load(body)
    assert message in str(error.value)


def test_tensor__checks_itself():
    with pytest.raises(ValueError, match="one rank only"):
        Tensor("A", ((("M", 1),), (("M", 1),)))
    with pytest.raises(ValueError, match="coefficients"):
        Tensor("A", ((("M", 0),),))
    with pytest.raises(ValueError, match="role must be one of"):
        Tensor("A", (), role="Bias")


def test_einsum__reports_mistakes_in_dims_tensors_and_output_together(load):
    text = "einsum: {dims: {P: 8, R: -3}, tensors: {W: [R], I: [P + Q], O: [P]}, output: Out}"
    with pytest.raises(InputError) as error:
        load(text)
    whats = [problem.what for problem in error.value.problems]
    assert len(whats) == 3
    for what in ("must be at least 1", "dimension 'Q' is not defined", "'Out' is not one of the tensors"):
        assert any(what in each for each in whats)


def test_einsum__checks_itself():
    inputs, output = Tensor("A", ((("M", 1),),)), Tensor("Z", (), role="Outputs", output=True)
    with pytest.raises(ValueError, match="exactly one tensor must be the output"):
        Einsum("e", {"M": 1}, (inputs,))
    with pytest.raises(ValueError, match=r"dimensions \['K'\] are not used"):
        Einsum("e", {"M": 1, "K": 1}, (inputs, output))
    with pytest.raises(ValueError, match="bounds must be >= 1"):
        Einsum("e", {"M": 0}, (inputs, output))


def test_layer__with_more_work_than_can_be_counted_is_refused(tmp_path):
    path = tmp_path / "w.yaml"
    form = "workload:\n  name: w\n  gemm: {{M: {0}, N: {0}, K: {1}}}\n"
    path.write_text(form.format(2**20, 2**21))
    assert load_workload(path).layers[0].macs == 2**61
    path.write_text(form.format(2**20, 2**22))
    with pytest.raises(InputError, match=r"w.yaml:3:9: gemm: 2\*\*62 multiply-accumulates are too many to count"):
        load_workload(path)
