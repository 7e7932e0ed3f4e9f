"""Vector units: how they are read, what a layer costs on them, and layers of several units that are fused."""

from __future__ import annotations

import pytest

import accelsim
from accelsim.cli.main import main
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import InputError
from accelsim.inputs.workload_reader import load_workload

MACHINE = """
architecture:
  name: two
  clock: 1 GHz
  levels:
    - {name: DRAM, word: 8 bit, bandwidth: 4 words/cycle, energy: {read: 50 pJ, write: 50 pJ}}
    - {name: BUF, word: 8 bit, size: 256 B, energy: {read: 2 pJ, write: 3 pJ}, fanout: {x: 2}}
    - {name: REG, word: 8 bit, size: 4 B, energy: {read: 0.5 pJ, write: 0.5 pJ}, fanout: {x: 4}}
  compute: {name: MAC, energy: {compute: 1 pJ}}
  vector_units:
    - {name: lanes, below: BUF, lanes: 8, operations: {softmax: 5, add: 1}, energy: 0.25 pJ}
"""
SCORES = """
workload:
  name: attention
  bits: 8
  inputs: [tokens]
  layers:
    - {name: scores, from: {Inputs: tokens}, gemm: {M: 8, N: 16, K: 4}}
    - name: softmax
      operation: softmax
      whole: [N]
      from: scores
      einsum: {dims: {M: 8, N: 16}, tensors: {Inputs: [M, N], Outputs: [M, N]}, output: Outputs}
    - {name: context, from: softmax, gemm: {M: 8, N: 4, K: 16}}
    - name: residual
      operation: add
      from: {Inputs: context, Residual: tokens}
      einsum:
        dims: {M: 8, N: 4}
        tensors: {Inputs: [M, N], Residual: [M, N], Outputs: [M, N]}
        output: Outputs
"""
EVEN = {"mapspace": "even", "factors": "perfect"}


def test_vector_unit__reads_and_writes_each_word_and_takes_its_operations_for_each_point():
    machine = load_architecture(MACHINE)
    layer = load_workload(SCORES).layers[1]
    alone = accelsim.map(machine.for_operation("softmax"), layer, params={}, **EVEN)
    words = 8 * 16
    assert alone.energy_pj == pytest.approx(words * (50 + 50) + 5 * 0.25 * words)  # it need not pass through the buffer
    fused = accelsim.fuse(MACHINE, SCORES, chain=["scores", "softmax"], **EVEN)
    parts = [part for segment in fused.segments for part in segment.fused.parts]
    (part,) = (part for part in parts if part.result.workload == "softmax")
    assert part.count * part.result.energy_pj == pytest.approx(words * (2 + 50) + 5 * 0.25 * words)
    assert part.result.mapping.levels[-1].level == "BUF"
    best = accelsim.map(machine.for_operation("softmax"), layer, objective="cycles", **EVEN)
    assert best.cycles == max(5 * words // 8, 2 * words // 4)


def test_fuse__keeps_what_passes_between_units_and_fetches_an_input_once():
    fused = accelsim.fuse(MACHINE, SCORES, **EVEN)
    assert fused.certificate.proved
    least = 8 * 4 + 4 * 16 + 16 * 4 + 8 * 4  # tokens, weights and the result, once each
    assert fused.found.totals.offchip_words == least
    assert "counts as a MAC" not in fused.report()
    apart = (
        SCORES.replace(", from: {Inputs: tokens}", "").replace(", Residual: tokens", "").replace("inputs: [tokens]", "")
    )
    twice = accelsim.fuse(MACHINE, apart, **EVEN)
    assert twice.found.totals.offchip_words == least + 8 * 4


def test_fuse__has_no_level_where_a_unit_lies_outside_it():
    outside = MACHINE.replace("below: BUF", "below: DRAM")
    found = accelsim.fuse(outside, SCORES, chain=["scores", "softmax"], **EVEN).found
    assert found.why_not == "no level of two can store an intermediate: BUF lies beside lanes; REG lies beside lanes"
    assert found.fused == ()


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("below: BUF", "below: BUFF", "11:28: vector_units[0].below: no level is named 'BUFF'; did you mean 'BUF'?"),
        ("softmax: 5", "soft_max: 5", "no unit knows 'soft_max'"),
        ("softmax: 5", "multiply_add: 5", "the compute units do 'multiply_add'"),
        ("name: lanes", "name: MAC", "another part is named 'MAC'"),
        ("lanes: 8", "lanes: 0", "lanes: must be at least 1, got 0"),
        ("0.25 pJ", "0.25 pJ/bit", "an operation has no energy per bit; write it in pJ"),
    ],
)
def test_vector_unit__with_a_mistake_says_where_and_what(old, new, what):
    with pytest.raises(InputError) as raised:
        load_architecture(MACHINE.replace(old, new))
    assert what in str(raised.value)


def test_vector_units__that_do_the_same_are_refused():
    other = MACHINE + "    - {name: more, below: BUF, operations: {add: 1}, energy: 1 pJ}\n"
    with pytest.raises(InputError, match="lanes does 'add' already; leave it out of one of them"):
        load_architecture(other)


def test_inputs__of_a_network_have_names_of_their_own(tmp_path, capsys):
    path = tmp_path / "net.yaml"
    path.write_text(SCORES.replace("[tokens]", "[tokens, scores]"))
    machine = tmp_path / "machine.yaml"
    machine.write_text(MACHINE)
    assert main(["fuse", str(machine), str(path)]) == 2
    assert "a layer is named scores, too; give one of them another name" in capsys.readouterr().err
    path.write_text(SCORES.replace("[tokens]", "[token]"))
    assert main(["fuse", str(machine), str(path)]) == 2
    assert "no layer is named 'tokens'" in capsys.readouterr().err


def test_fuse__of_equal_energies_takes_the_fastest():
    """All lanes are in use, in parts of a group and in a layer by itself, where any number takes the same energy."""
    fused = accelsim.fuse(MACHINE, SCORES, chain=["scores", "softmax"], **EVEN)
    segments = fused.found.segments
    parts = [p.result for each in segments if each.fused for p in each.fused.parts if p.result.workload == "softmax"]
    alone = [result for each in segments for result in each.alone if result.workload == "softmax"]
    assert parts
    assert alone
    for each in (*parts, *alone):
        assert each.compute_used == 8
        assert each.cycles == max(5 * each.macs // 8, -(-each.offchip_words // 4))
