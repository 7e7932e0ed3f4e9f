"""Slices of words: machines that take operands apart, as in compute in memory; and constraints by what is reused."""

from __future__ import annotations

import json

import pytest

from accelsim import load_architecture, load_constraints, load_workload
from accelsim.inputs.errors import InputError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import sliced
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum

MACHINE = """
architecture:
  name: bitwise
  slices: {Inputs: 1 bit, Weights: 3 bit}
  levels:
    - {name: DRAM, class: x, word: 1 bit, energy: {read: 1 pJ, write: 1 pJ}, fanout: {x: 4}}
    - {name: Cell, class: x, size: 64 bit, word: 1 bit, energy: {read: 0 pJ, write: 0 pJ}}
  compute: {class: x, energy: {compute: 2 pJ}}
"""
LAYER = {"workload": {"name": "gemm", "gemm": {"M": 2, "N": 3, "K": 4}, "bits": {"Inputs": 4, "Weights": 8}}}


def test_slices__are_dimensions_of_their_operands_alone():
    einsum = load_workload(LAYER).layers[0]
    found = sliced(einsum, {"Inputs": 1, "Weights": 3})
    assert dict(found.dims) == {"M": 2, "N": 3, "K": 4, "Inputs_slices": 4, "Weights_slices": 3}
    words = {tensor.role: (tensor.words(found.dims), tensor.bits) for tensor in found.tensors}
    assert words == {"Inputs": (8 * 4, 1), "Weights": (12 * 3, 3), "Outputs": (6, 16)}
    assert found.macs == einsum.macs * 12
    assert found.slices == {"Inputs_slices", "Weights_slices"}
    assert sliced(einsum, {"Inputs": 4, "Weights": 16}) is einsum


def test_command__maps_the_slices_that_the_machine_asks_for(tmp_path, run):
    (tmp_path / "machine.yaml").write_text(MACHINE)
    (tmp_path / "layer.yaml").write_text(json.dumps(LAYER))
    code, out, _ = run("map", tmp_path / "machine.yaml", tmp_path / "layer.yaml", "-o", tmp_path / "out")
    assert code == 0
    assert "A MAC is a product of two slices: 12 make one of whole words" in out
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    machine, einsum = load_architecture(tmp_path / "machine.yaml"), load_workload(LAYER).layers[0]
    best = map_einsum(machine, sliced(einsum, machine.slices), uneven=False).best
    assert document["result"]["energy_pj"] == best.energy_pj
    code, out, _ = run("verify", tmp_path / "out" / "result.json")
    assert code == 0, out


def test_bits_of_a_cycle__are_what_the_machine_moves():
    """Bit by bit, an input crosses in as many steps as it has bits: whole words of it are no more than that."""
    machine = load_architecture(MACHINE)
    einsum = sliced(load_workload(LAYER).layers[0], machine.slices)
    time = tuple(Loop(dim, bound) for dim, bound in einsum.dims.items() if dim != "K")
    every = frozenset({"Inputs", "Weights", "Outputs"})
    levels = (LevelMapping("DRAM", time, x=(Loop("K", 4),), keep=every), LevelMapping("Cell"))
    result = evaluate(machine, einsum, Mapping(levels))
    moved = {at.tensor: at.total_reads for at in result.tensors if at.level == "DRAM"}
    assert moved["Inputs"] == einsum.macs
    assert result.cycles == einsum.macs // 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Outputs: 1 bit", "4:12: slices.Outputs: unknown key; did you mean 'Inputs'?"),
        ("Inputs: 0 bit", "4:20: slices.Inputs: '0 bit' is zero"),
        ("", "4:11: slices: expected a mapping with the keys Inputs, Weights, got '3 bit'"),
        ("Inputs: one", "4:20: slices.Inputs: 'one' is not a number with a unit"),
    ],
)
def test_slices__that_are_none_are_reported(text, message):
    slices = f"slices: {{{text}, Weights: 3 bit}}" if text else "slices: 3 bit"
    with pytest.raises(InputError, match="slices") as error:
        load_architecture(MACHINE.replace("slices: {Inputs: 1 bit, Weights: 3 bit}", slices))
    assert message in str(error.value)


def asked(text: str):
    machine = load_architecture("eyeriss")
    layer = load_workload("conv").layers[0]
    levels = f"levels: [{{level: GLB, spatial: {{x: {{{text}}}}}}}]"
    return load_constraints(f"constraints:\n  {levels}\n", machine, layer), layer


def test_reuse__allows_loops_that_move_none_of_the_tensors():
    found, layer = asked("reuse: [Outputs]")
    assert found.of("GLB").x.only == set(layer.dims) - layer.output.dims
    found, _ = asked("reuse: [Inputs, Outputs]")
    assert found.of("GLB").x.only == frozenset()
    found, _ = asked("reuse: [Inputs], only: [K, P]")
    assert found.of("GLB").x.only == {"K"}
    with pytest.raises(InputError, match=r"'Output' is no tensor of .*; did you mean 'Outputs'"):
        asked("reuse: [Output]")
