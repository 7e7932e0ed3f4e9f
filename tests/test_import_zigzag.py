"""ZigZag's files as documents of our kinds."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from accelsim import load_architecture, load_constraints, load_workload
from accelsim.importers.foreign import read_foreign
from accelsim.inputs.architecture import Axis
from accelsim.inputs.errors import InputError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from tests.conftest import said

REPOSITORY = Path(__file__).resolve().parents[1]
PORT = "{{type: {}, bandwidth_min: {}, bandwidth_max: {}, allocation: [{}]}}"
READ_WRITE = PORT.format("read_write", 16, 64, "'O, fh', 'O, tl', 'O, fl', 'O, th'")
DRAM = f"""  dram:
    {{size: 8000000, r_cost: 64, w_cost: 128, area: 0, latency: 1, operands: [I1, I2, O], served_dimensions: [D1, D2],
     ports: [{READ_WRITE}]}}
"""


def register(operand: str, served: str = "[]", **keys: str) -> str:
    """Memory of one operand, with a read port of 8 bit and a write port of 16 bit."""
    ports = [PORT.format("read", 8, 8, f"'{operand}, tl'"), PORT.format("write", 8, 16, f"'{operand}, fh'")]
    more = "".join(f", {key}: {value}" for key, value in keys.items())
    return f"""  reg_{operand}:
    {{size: 64, r_cost: 1, w_cost: 2, operands: [{operand}], served_dimensions: {served},
     ports: [{", ".join(ports)}]{more}}}
"""


def hardware(*memories: str, array: str = "unit_energy: 0.5, dimensions: [D1, D2], sizes: [4, 2]") -> str:
    return f"name: tiny\nmemories:\n{''.join(memories)}\noperational_array: {{{array}}}\n"


def in_memory(keys: str, precisions: str = "[8, 8]") -> str:
    """Array that computes in memory, of 4 columns and 2 rows."""
    return hardware(
        register("O", "[D1]"),
        DRAM,
        array=f"is_imc: True, input_precision: {precisions}, dimensions: [D1, D2], sizes: [4, 2], {keys}",
    )


GEMM = """
- id: 0
  operator_type: Gemm
  equation: O[b][k]+=I[b][c]*W[k][c]
  dimension_relations: []
  loop_dims: [B, K, C]
  loop_sizes: [4, 6, 8]
  operand_precision: {W: 8, I: 4, O: 16, O_final: 8}
  operand_source: {I: 0, W: 0}
"""


def machine_of(foreign):
    """The machine without the registers of its MACs, which each imported one has."""
    machine = load_architecture({"architecture": foreign.architecture})
    assert machine.compute.holds == {"Weights", "Inputs"}
    return replace(machine, compute=replace(machine.compute, holds=frozenset()))


def test_memory__is_a_level_whose_access_is_the_least_that_a_port_moves(imported):
    """64 bit cost 64 pJ to read, so the 16 bit of an access cost 16 pJ; at the register 8 of 16 bit cost 2 / 2 pJ."""
    machine = machine_of(imported(hardware(register("I2"), DRAM)))
    dram, inner = machine.levels
    assert (dram.name, dram.word_bits, dram.block_size, dram.size_words) == ("dram", 8, 2, 1_000_000)
    assert (inner.word_bits, inner.block_size, inner.size_words) == (8, 1, 8)
    assert (dram.bandwidth, inner.read_bandwidth, inner.write_bandwidth) == (8, 1, 2)
    assert (inner.keep, inner.bypass) == ({"Weights"}, {"Inputs", "Outputs"})
    energy = machine.energy
    assert [energy.find("dram", "Inputs", action).energy_pj for action in ("read", "write", "update")] == [16, 32, 32]
    assert [energy.find("reg_I2", "Weights", action).energy_pj for action in ("read", "write")] == [1, 1]
    assert energy.find("MAC", "*", "compute").energy_pj == 0.5


@pytest.mark.parametrize(
    ("given", "buffers"), [({}, 1), ({"force_double_buffering": "0"}, 1), ({"force_double_buffering": "1"}, 2)]
)
def test_memory__that_must_be_double_buffered_is(imported, given, buffers):
    assert machine_of(imported(hardware(register("I2", **given), DRAM))).levels[1].multiple_buffering == buffers


def test_served_dimensions__are_the_fanouts_between_memories(imported):
    """A register that serves D2 stands once for each place along D1, and all of D2 lies below it."""
    machine = machine_of(imported(hardware(register("O"), register("I2", "[D2]"), DRAM)))
    assert [(level.name, level.x, level.y) for level in machine.levels] == [
        ("dram", Axis(4), Axis()),
        ("reg_I2", Axis(2), Axis()),
        ("reg_O", Axis(), Axis()),
    ]
    assert [level.drain_reads for level in machine.levels] == [False, False, True]


def test_memories__are_sorted_by_what_they_serve_where_operands_differ(imported):
    """Weights of one operand and sums of another have no order of their own in the file."""
    one = imported(hardware(register("I2", "[D2]"), register("O"), DRAM))
    other = imported(hardware(register("O"), register("I2", "[D2]"), DRAM))
    assert machine_of(one) == machine_of(other)


def test_outermost_memory__that_does_not_serve_all_is_one_for_all(imported):
    foreign = imported(hardware(register("O"), DRAM.replace("[D1, D2]", "[D1]")))
    assert machine_of(foreign) == machine_of(imported(hardware(register("O"), DRAM)))
    assert "served_dimensions: one dram stands for those along D2" in said(foreign)


def test_outermost_memory__of_one_operand_stands_inside_what_costs_nothing(imported):
    """As the memories of a core do whose chip has one for all cores."""
    foreign = imported(hardware(register("I2", "[D1, D2]")))
    outside, register_of_weights = machine_of(foreign).levels
    assert (outside.name, outside.bypass, register_of_weights.bypass) == ("Outside", set(), {"Inputs", "Outputs"})
    assert {
        entry.energy_pj for (level, *_), entry in machine_of(foreign).energy.entries.items() if level == "Outside"
    } == {0}


def test_three_dimensions_below_a_memory__are_axes_of_two_levels_the_second_of_which_stores_nothing(imported):
    dram = DRAM.replace("[D1, D2]", "[D1, D2, D3]")
    foreign = imported(
        hardware(register("O"), dram, array="unit_energy: 1, dimensions: [D1, D2, D3], sizes: [4, 2, 3]")
    )
    levels = machine_of(foreign).levels
    assert [(level.name, level.x.size, level.y.size) for level in levels] == [
        ("dram", 4, 2),
        ("dram-D3", 3, 1),
        ("reg_O", 1, 1),
    ]
    assert len(levels[1].bypass) == 3
    assert foreign.constraints == {"levels": [{"level": "dram-D3", "temporal": {"only": []}}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            hardware(register("O", "[D1]"), register("O", "[D2]").replace("reg_O", "other"), DRAM),
            "other is shared along D2 and reg_O along D1, and both hold O",
        ),
        (in_memory("imc_type: analog, bit_serial_precision: 2, adc_resolution: 80"), "expected at most 16 bit, got 80"),
        (in_memory("imc_type: optical"), "optical is neither analog nor digital"),
        (in_memory("imc_type: analog, bit_serial_precision: 3"), "3 does not divide the inputs' 8 bit"),
        (
            in_memory("imc_type: digital", "[8]"),
            "expected two precisions, of inputs and of weights, and columns and rows",
        ),
        (hardware(DRAM.replace("[D1, D2]", "[D3]")), "'D3' is no dimension of the array: D1, D2"),
        (hardware(DRAM.replace("size: 8000000, ", "")), "a number is missing"),
        (hardware(DRAM.replace("[I1, I2, O]", "[]")), "expected some of the operands I1, I2, O"),
        (hardware(DRAM.replace("read_write", "duplex")), "'duplex' is none of read, write, read_write"),
        ("memories: {}\noperational_array: {dimensions: [], sizes: []}\n", "there is no memory"),
        ("memories: {}\n", "'operational_array' is missing"),
        (GEMM.replace("O[b][k]", "O"), "is no equation such as O[b][k]+=I[b][c]*W[c][k]"),
        (GEMM.replace("[]", "[b=2*(c)]"), "'b=2*(c)' is no sum of dimensions, such as ix=2*ox+1*fx"),
        (GEMM.replace("[4, 6, 8]", "[4, 6, 0]"), "expected a whole number from 1 on, got '0'"),
        (GEMM.replace("I[b][c]", "I[b][d]"), "D"),
    ],
)
def test_files__that_have_no_form_of_ours_are_refused_with_one_reason(imported, text, message):
    with pytest.raises(InputError) as error:
        imported(text)
    (problem,) = error.value.problems
    assert message in problem.what
    assert problem.mark.file.endswith("0.yaml")


def test_operands__of_all_memories_are_refused_at_once(imported):
    with pytest.raises(InputError) as error:
        imported(hardware(register("Z_I", "[D1]"), register("Z_O", "[D2]"), DRAM))
    assert [problem.what.partition(" is")[0] for problem in error.value.problems] == ["'Z_I'", "'Z_O'"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[b][k]+=I[b][c]", "[B][K]+=I[B][C]"),
        ("[B, K, C]", "[b, k, c]"),
        ("[B, K, C]\n  loop_sizes: [4, 6, 8]", "[B, K, C, OX]\n  loop_sizes: [4, 6, 8, 1]"),
    ],
)
def test_dimensions__may_be_small_and_of_no_tensor_if_they_are_1(imported, old, new):
    assert GEMM.count(old)
    assert imported(GEMM.replace(old, new)).workload == imported(GEMM).workload


def test_links__are_to_operands_of_the_memories(imported):
    mapping = "- {name: default, memory_operand_links: {O: O, W: I3, I: I1}}\n"
    with pytest.raises(InputError, match=r"1.yaml:1:48: 'I3' is none of the operands I1, I2, O"):
        imported(GEMM, mapping)


def test_layer__is_an_einsum_with_its_widths(imported):
    foreign = imported(GEMM, hardware(register("I2"), DRAM))
    (layer,) = load_workload({"workload": foreign.workload}).layers
    assert (layer.name, layer.dims) == ("Gemm_0", {"B": 4, "K": 6, "C": 8})
    widths = {tensor.name: (tensor.role, tensor.bits, tensor.psum_bits) for tensor in layer.tensors}
    assert widths == {"O": ("Outputs", 8, 16), "I": ("Inputs", 4, 4), "W": ("Weights", 8, 8)}
    assert machine_of(foreign).levels[0].word_bits == 4  # so that two inputs of 4 bit fit into 8


def test_layers__have_strides_sources_and_operands_of_the_mapping(imported):
    conv = """
- id: 3
  name: first
  operator_type: Conv
  equation: O[b][k][ox]+=W[k][c][fx]*I[b][c][ix]
  dimension_relations: [ix=2*ox+1*fx]
  loop_dims: [B, K, C, OX, FX]
  loop_sizes: [1, 8, 3, 5, 3]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 8}
  operand_source: {I: 3, W: 3}
  padding: [[1, 1]]
- id: 5
  operator_type: Add
  equation: O[b][k][ox]=W[b][k][ox]+I[b][k][ox]
  loop_dims: [B, K, OX]
  loop_sizes: [1, 8, 5]
  operand_precision: {W: 0, I: 8, O: 8}
  operand_source: {I: 3, W: 5}
"""
    foreign = imported(conv, "- {name: Add, memory_operand_links: {I: I2, O: O}}\n- {name: default}\n")
    workload = load_workload({"workload": foreign.workload})
    first, second = workload.layers
    ranks = {tensor.name: tensor.ranks for tensor in first.tensors}
    assert ranks["I"] == ((("B", 1),), (("C", 1),), (("OX", 2), ("FX", 1)))
    assert [(tensor.name, tensor.role) for tensor in second.tensors] == [("O", "Outputs"), ("I", "Weights")]
    assert [(edge.producer, edge.consumer, edge.tensor) for edge in workload.edges] == [("first", "Add_5", "I")]
    assert "W: has a width of 0 and is left out" in said(foreign)
    assert "padding: padded points count as ordinary points of the input" in said(foreign)
    unfed = imported(conv.replace("[1, 8, 5]", "[1, 8, 7]"))
    assert not load_workload({"workload": unfed.workload}).edges
    assert any("what feeds a layer is left out" in note for note in said(unfed))


@pytest.mark.parametrize(
    ("entry", "x", "y"),
    [
        ("spatial_mapping: {D1: ['K, 2'], D2: ['C, 2']}", (["K=2"], {"K"}), (["C=2"], {"C"})),
        ("spatial_mapping: {D1: ['K, 4'], D2: ['C, 1']}", (["K<=4"], {"K"}), ([], set())),
        ("spatial_mapping: {D1: ['C, 32']}", (["C=4"], {"C"}), None),
        ("spatial_mapping_hint: {D2: [B, K]}", None, ([], {"B", "K"})),
        ("spatial_mapping: {D1: ['OX, 4'], D2: ['B, 2']}", None, (["B=2"], {"B"})),
    ],
)
def test_mapping__constrains_the_axes_of_the_array(imported, entry, x, y):
    foreign = imported(hardware(register("I2"), DRAM), GEMM, f"- name: default\n  {entry}\n")
    (layer,) = load_workload({"workload": foreign.workload}).layers
    asked = load_constraints({"constraints": foreign.constraints}, machine_of(foreign), layer).of("dram")
    for block, expected in ((asked.x, x), (asked.y, y)):
        factors, only = expected or ([], None)
        assert (list(map(str, block.factors)), block.only) == (factors, only)
    best = map_einsum(
        machine_of(foreign),
        layer,
        constraints=load_constraints({"constraints": foreign.constraints}, machine_of(foreign), layer),
        uneven=False,
    ).best
    assert asked.x.only is None or {loop.dim for loop in best.mapping.levels[0].x} <= asked.x.only


def test_mapping__beside_hardware_alone_says_what_it_needs(imported):
    foreign = imported(hardware(register("I2"), DRAM), "- {name: default, spatial_mapping: {D1: [B, 4]}}\n")
    assert foreign.constraints is None
    (why,) = (note.why for note in foreign.notes if note.key == "D1")
    assert why.startswith("is not asked for: name a workload of ZigZag")


@pytest.mark.parametrize(
    "written", ["['K, 2']", "[[K, 2]]", "[K, 2]", "{K: 2}", "'K, 2'", "['(K, 2)']", "[K: 2]", "['k, 2']"]
)
def test_spatial_mapping__has_several_spellings(imported, written):
    mapping = f"- {{name: default, spatial_mapping: {{D1: {written}}}}}"
    found = imported(hardware(register("I2"), DRAM), mapping, GEMM).constraints
    assert found["levels"][0]["spatial"]["x"] == {"only": ["K"], "factors": ["K=2"]}


def test_older_layers__have_their_sizes_by_dimension(imported):
    older = GEMM.replace("  loop_dims: [B, K, C]\n  loop_sizes: [4, 6, 8]\n", "  loop_dim_size: {B: 4, K: 6, C: 8}\n")
    assert imported(older).workload == imported(GEMM).workload


def test_costs_below_0__are_refused_at_their_place(imported):
    with pytest.raises(InputError, match="r_cost: expected a number from 0 on, got -1"):
        imported(hardware(register("I2").replace("r_cost: 1", "r_cost: -1"), DRAM))


def test_temporal_ordering__is_the_order_of_each_level(imported):
    ordering = "- name: default\n  temporal_ordering:\n    - [C, '*']\n    - [B, 4]\n    - [K, '*']\n"
    foreign = imported(hardware(register("I2"), DRAM), GEMM, ordering)
    assert [level["temporal"]["order"] for level in foreign.constraints["levels"]] == [["K", "B", "C"]] * 2
    assert any(note.startswith("temporal_ordering: holds within each level") for note in said(foreign))
    in_a_row = ordering.replace("- [C, '*']", "- [C, 2]\n    - [C, '*']")
    assert imported(hardware(register("I2"), DRAM), GEMM, in_a_row).constraints == foreign.constraints
    apart = imported(hardware(register("I2"), DRAM), GEMM, f"{ordering}    - [C, '*']\n")
    assert any(note.startswith("temporal_ordering: splits a dimension") for note in said(apart))


def test_mapping__of_some_layers_constrains_these_alone(imported):
    other = GEMM.replace("id: 0", "id: 1").replace("Gemm", "Add").strip()
    entries = "- {name: default, spatial_mapping: {D1: [B, 4]}}\n- {name: Add, spatial_mapping: {D1: [K, 2]}}\n"
    foreign = imported(hardware(register("I2"), DRAM), f"{GEMM}{other}\n", entries)
    network = load_workload({"workload": foreign.workload})
    found = [
        load_constraints({"constraints": foreign.constraints}, machine_of(foreign), layer).of("dram").x
        for layer in network.layers
    ]
    assert [sorted(block.only) for block in found] == [["B"], ["K"]]
    assert [list(map(str, block.factors)) for block in found] == [["B=4"], ["K=2"]]


def test_memories_that_are_no_ladder__count_what_their_registers_do(imported):
    """W stands once in each column and O once in each row of an array of 4 x 2; each step is executed."""
    foreign = imported(hardware(register("O", "[D1]"), register("I2", "[D2]"), DRAM), GEMM)
    machine, layer = machine_of(foreign), load_workload({"workload": foreign.workload}).layers[0]
    asked = load_constraints({"constraints": foreign.constraints}, machine, layer)
    time = (Loop("K", 6), Loop("C", 2), Loop("B", 2))
    mapping = Mapping(
        (
            LevelMapping("dram", time, keep=frozenset("IWO")),
            LevelMapping("reg_I2", x=(Loop("B", 2),), keep=frozenset("W")),
            LevelMapping("reg_O", x=(Loop("C", 4),), keep=frozenset("O")),
        )
    )
    assert asked.broken_by(mapping, layer) == []
    copies = replace(mapping, levels=(*mapping.levels[:2], replace(mapping.levels[2], x=(Loop("B", 4),))))
    assert asked.broken_by(copies, layer)
    registers = machine.levels[1]  # four, with a read port of 8 bit and a write port of 16 bit each
    rates = registers.size_words, registers.read_bandwidth, registers.write_bandwidth
    assert [each * registers.word_bits for each in rates] == [4 * 64, 4 * 8, 4 * 16]
    result = evaluate(machine, layer, mapping)
    held, fills = dict[tuple[str, int], tuple[int, ...]](), {"W": 0, "O": 0}
    for k, c, b in itertools.product(range(6), range(2), range(2)):
        for at in range(4):  # columns: each has its own c
            word = (k, 4 * c + at)
            fills["W"] += held.get(("W", at)) != word
            held["W", at] = word
        for at in range(2):  # rows: each has its own b
            word = (k, 2 * b + at)
            fills["O"] += held.get(("O", at)) != word
            held["O", at] = word
    moved = {(at.level, at.tensor): at for at in result.tensors}
    assert moved["reg_I2", "W"].total_fills == fills["W"] == moved["dram", "W"].total_reads
    assert moved["dram", "O"].total_updates == fills["O"]


def test_keys__that_mean_nothing_here_are_noted(imported):
    text = hardware(register("I2", latency="3", auto_cost_extraction="True", colour="red", area="2"), DRAM)
    notes = said(imported(text))
    assert "latency: an access of reg_I2 takes no time of its own" in notes
    assert "colour: is not read" in notes
    assert "area: areas have no unit in ZigZag and are left out" in notes
    assert any(note.startswith("auto_cost_extraction: ZigZag lets CACTI find the costs of reg_I2") for note in notes)


def test_eyeriss_like__is_the_machine_converted_by_hand(shared):
    ours = load_architecture(
        {"architecture": read_foreign([shared / "foreign/zigzag/hardware/eyeriss_like.yaml"]).architecture}
    )
    by_hand = load_architecture(shared / "cases/zigzag_eyeriss_like.yaml")
    names = {"rf_A": "rf_64B_A", "rf_W": "rf_64B_W", "rf_O": "rf_16B"}
    levels = {level.name: level for level in ours.levels}
    for level in by_hand.levels:
        name = names.get(level.name, level.name)
        size = None if name == "dram" else level.size_words
        assert replace(levels[name], component="", size_words=size) == replace(level, name=name, component="")
        for role in sorted({"Weights", "Inputs", "Outputs"} - level.bypass):
            for action in ("read", "write", "update"):
                entries = [ours.energy.find(name, role, action), by_hand.energy.find(level.name, role, action)]
                assert entries[0].energy_pj == entries[1].energy_pj
    assert levels["dram"].size_words == Fraction(10**10, 8)


MACHINES = {
    "eyeriss_like": 7,
    "tpu_like": 4,
    "tesla_npu_like": 7,
    "gemm_l1": 2,
    "gemm_l1_l3": 3,
    "generic_array_cacti": 5,
    "meta_prototype": 7,
    "aimc": 5,
    "dimc": 5,
}


def test_machines__have_a_level_for_each_memory(shared):
    files = sorted((shared / "foreign/zigzag/hardware").glob("*.yaml"))
    assert {path.stem for path in files} == MACHINES.keys()
    for path in files:
        assert len(machine_of(read_foreign([path])).levels) == MACHINES[path.stem]


def test_products_of_models__have_the_dimensions_of_zigzag(shared):
    folder = shared / "foreign/zigzag"
    foreign = read_foreign(
        [folder / each for each in ("hardware/tpu_like.yaml", "mapping/tpu_like.yaml", "workload/alexnet.onnx")]
    )
    layers = {layer.name: layer for layer in load_workload({"workload": foreign.workload}).layers}
    machine = machine_of(foreign)
    product = next(layer for layer in layers.values() if layer.dims.keys() == {"M", "N", "K"})
    asked = load_constraints({"constraints": foreign.constraints}, machine, product)
    blocks = [block for level in machine.levels for block in (asked.of(level.name).x, asked.of(level.name).y)]
    assert [block.only for block in blocks if block.only] == [{"N"}, {"K"}]


@pytest.mark.parametrize("workload", ["resnet18.yaml", "resnet18.onnx", "mobilenetv2.onnx", "alexnet.onnx"])
def test_networks__are_imported_with_machine_and_mapping(shared, workload):
    folder = shared / "foreign/zigzag"
    foreign = read_foreign(
        [folder / "hardware/tpu_like.yaml", folder / "mapping/tpu_like.yaml", folder / "workload" / workload]
    )
    network = load_workload({"workload": foreign.workload})
    assert len(network.edges) >= len(network.layers) - 1
    conv = network.layers[0]
    assert {tensor.role: (tensor.bits, tensor.psum_bits) for tensor in conv.tensors} == {
        "Weights": (8, 8),
        "Inputs": (8, 8),
        "Outputs": (8, 16),
    }


def test_older_hardware__has_ports_by_name_and_multipliers(imported):
    """A port that two operands share is one port; of 64 bit at least 16 are moved at a time."""
    old = """
name: tiny
memories:
  reg_I2:
    {size: 64, r_bw: 8, w_bw: 16, r_cost: 1, w_cost: 2, area: 0, r_port: 1, w_port: 1, rw_port: 0, operands: [I2],
     min_w_granularity: 8, ports: [{fh: w_port_1, tl: r_port_1}], served_dimensions: []}
  dram:
    {size: 8000000, r_bw: 64, w_bw: 64, r_cost: 64, w_cost: 128, r_port: 0, w_port: 0, rw_port: 1, latency: 1,
     min_r_granularity: 16, min_w_granularity: 16, operands: [I1, I2, O], served_dimensions: [D1, D2],
     ports: [{fh: rw_port_1, tl: rw_port_1}, {fh: rw_port_1, tl: rw_port_1},
             {fh: rw_port_1, tl: rw_port_1, fl: rw_port_1, th: rw_port_1}]}
multipliers: {input_precision: [8, 8], multiplier_energy: 0.5, multiplier_area: 1, dimensions: [D1, D2], sizes: [4, 2]}
"""
    assert imported(old).architecture == imported(hardware(register("I2"), DRAM)).architecture


def test_memory__whose_costs_cacti_finds_takes_the_component_models(imported):
    costs = "r_cost: 1, w_cost: 2, "
    small, large = (register(f"I{at}", auto_cost_extraction="True").replace(costs, "") for at in (1, 2))
    foreign = imported(hardware(small, large.replace("size: 64", "size: 8192"), DRAM))
    assert "accelsim's component models at 45 nm for reg_I2, reg_I1;" in foreign.energies
    assert any(why.endswith("the costs of reg_I1; component models are taken") for why in said(foreign))
    energy = machine_of(foreign).energy
    cells = [energy.find(level, tensor, "read") for level, tensor in (("reg_I1", "Inputs"), ("reg_I2", "Weights"))]
    assert 0 < cells[0].energy_pj < cells[1].energy_pj
    assert energy.find("dram", "Inputs", "read").energy_pj == 16
    assert energy.find("MAC", "*", "compute").energy_pj == 0.5


def test_dataflows__of_a_core_constrain_layers_that_have_no_mapping(imported):
    core = hardware(register("I2"), DRAM) + "dataflows: {D1: [K, 2], D2: [C, 2]}\nutilization: 0.8\n"
    mapping = "- {name: default, spatial_mapping: {D1: [%s, 2], D2: [C, 2]}}\n"
    found = imported(core, GEMM)
    assert found.constraints == imported(hardware(register("I2"), DRAM), GEMM, mapping % "K").constraints
    assert imported(core, GEMM, mapping % "B").constraints["levels"][0]["spatial"]["x"]["only"] == ["B"]
    assert "utilization: the array is as busy as the loops have it" in said(found)


def test_a_file_of_nobody_beside_hardware__is_named(imported):
    with pytest.raises(InputError, match=r"1.yaml:1:1: neither hardware nor mapping nor workload of ZigZag"):
        imported(hardware(register("I2"), DRAM), "something: {else: 1}\n")


def test_models__of_integers_have_the_widths_of_zigzag_too(shared):
    """8 bit and partial sums of 16, whatever the model says."""
    given = shared / "foreign/zigzag/hardware/tpu_like.yaml", shared / "cases/turn3/onnx_quantised/qconv.onnx"
    if not given[1].is_file():
        pytest.skip(f"{given[1]} is absent")
    (layer,) = load_workload({"workload": read_foreign(given).workload}).layers
    assert (layer.output.bits, layer.output.psum_bits) == (8, 16)


def test_models__beside_hardware_have_its_widths_directly_too(shared, run, tmp_path):
    """`map hardware.yaml net.onnx` counts what `map` of the imported files counts: 8 bit, as ZigZag does."""
    given = [shared / "foreign/zigzag" / name for name in ("hardware/tpu_like.yaml", "workload/resnet18.onnx")]
    assert run("import", *given, "-o", tmp_path)[0] == 0
    more = ("--layer", "conv1_Conv", "--quiet", "--no-cache", "--factors", "perfect")
    direct = run("map", *given, *more)
    assert direct[:2] == run("map", tmp_path / "architecture.yaml", tmp_path / "workload.yaml", *more)[:2]
    assert direct[0] == 0


def recorded(shared, path, monkeypatch):
    """What ZigZag recorded of its fastest mapping of a layer on tpu_like, and that mapping evaluated here.

    A memory without room for two tiles lets nothing overlap with its fills, others all but the first and the last.
    """
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks" / "peers")
    from zigzag_golden import load_einsum

    run = json.loads(path.read_text())
    best, layer = run["best_latency"], run["workload"]
    order = best["temporal_mapping_per_operand_inner_to_outer"]
    machine = machine_of(read_foreign([shared / "foreign/zigzag/hardware/tpu_like.yaml"]))
    register = "steady" if best["double_buffered"]["W"][1] else "none"
    dram, sram, sums, weights = machine.levels  # side by side, so that either may stand outside
    machine = replace(machine, levels=(dram, sram, weights, sums))
    levels = (dram, replace(sram, overlap="steady"), replace(weights, overlap=register), sums)
    einsum = load_einsum(layer)
    around = list(itertools.chain(*(memory["loops"] for memory in order["I"])))
    inner, outer = (len(order[operand][0]["loops"]) for operand in "OW")
    spread = dict(re.findall(r"(D\d): \{(.*?)\}", best["spatial_mapping_after_clipping"]))
    x, y = ([Loop(dim, int(n)) for dim, n in re.findall(r"(\w+): (\d+)", spread[d])] for d in ("D1", "D2"))

    def block(loops):
        return tuple(
            Loop(dim, math.prod(int(n) for _, n in group))
            for dim, group in itertools.groupby(reversed(loops), lambda loop: loop[0])
        )

    nest = Mapping(
        (
            LevelMapping(dram.name, keep=frozenset("WIO")),
            LevelMapping(sram.name, block(around[outer:]), tuple(x), tuple(y), frozenset("IO")),
            LevelMapping(weights.name, block(around[inner:outer]), keep=frozenset("W")),
            LevelMapping(sums.name, block(around[:inner]), keep=frozenset("O")),
        )
    )
    return best, evaluate(machine, einsum, nest), evaluate(replace(machine, levels=levels), einsum, nest)


def test_cycles__are_those_of_zigzag_but_for_first_fills_that_share_a_port(shared, monkeypatch):
    """ZigZag lets inputs and weights come at first as if each had the 8 bytes a cycle of DRAM for itself.

    Its 125,503 cycles of resnet50_1x1 are fewer than the 127,488 that the words it counts take at this port. Finished
    outputs leave while others are computed. All else is the same within a hundredth, the skew of the array apart.
    """
    found = sorted((shared / "golden/zigzag").glob("tpu_like__*.json"))
    assert len(found) == 7
    for path in found:
        best, plain, result = recorded(shared, path, monkeypatch)
        first = {each.tensor: each.first_fill for each in result.fills if each.first_fill}
        last = sum(each.last_drain for each in result.fills if each.waiting)
        assert result.valid
        assert result.compute_cycles == best["compute_cycles"]
        assert max(first.values()) == best["onload_cycles"]
        ours = max(plain.cycles, result.cycles - last) - min(first["I"], first["W"])
        assert ours == pytest.approx(best["latency_cycles"] - best["systolic_drain_cycles"], rel=0.01), path.stem
        if path.stem == "tpu_like__resnet50_1x1":
            assert plain.cycles == 127_488
