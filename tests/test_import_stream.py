"""Stream's hardware files: systems of ZigZag cores, whose links lead to the off-chip memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accelsim import load_architecture, load_workload
from accelsim.designs.soc import load_system, map_on_system
from accelsim.importers.foreign import read_foreign
from accelsim.inputs.errors import AccelsimError
from accelsim.search.mapper import map_einsum

PORTS = "ports: [{name: rw, type: read_write, bandwidth_min: 8, bandwidth_max: %d}]"
MEMORY = "  %s: {size: %d, r_cost: %g, w_cost: %g, operands: [I1, I2, O], served_dimensions: [D1], " + PORTS + "}\n"
ARRAY = "operational_array: {unit_energy: 0.5, dimensions: [D1], sizes: [%d]}\n"
BUFFER = MEMORY % ("buffer", 4096, 2, 4, 32)
CORES = {
    "array": "name: array\nmemories:\n" + BUFFER + ARRAY % 4 + "operator_types: [Conv, Gemm, Einsum]\n",
    "lanes": "name: lanes\nmemories:\n" + BUFFER + ARRAY % 2 + "operator_types: [MaxPool, Relu, Gemm]\n",
    "offchip": "name: offchip\ntype: zigzag.offchip\nmemories:\n" + MEMORY % ("dram", 8000000, 64, 128, 64) + ARRAY % 0,
}
CHIP = """
name: chip
cores: {0: array.yaml, 1: ./lanes.yaml, 2: offchip.yaml}
offchip_core_id: 2
unit_energy_cost: 32
core_connectivity:
- {type: link, cores: [0, 1], bandwidth: 16}
- {type: link, cores: [1, 2], bandwidth: 32, unit_energy_cost: 8}
"""


@pytest.fixture
def chip(tmp_path) -> Path:
    (tmp_path / "cores").mkdir()
    for name, text in CORES.items():
        (tmp_path / ("" if name == "lanes" else "cores") / f"{name}.yaml").write_text(text)
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP)
    return path


def test_engine__is_a_core_with_the_off_chip_memory_behind_the_links_on_the_way(chip):
    """Over 16 and 32 bit a cycle, of 32 and 8 pJ; so 2.25 pJ a bit come to the 1 (2) pJ of a bit of the memory."""
    system = load_system({"system": read_foreign([chip]).system})
    array, lanes = system.cores
    assert [core.name for core in system.cores] == ["core0_array", "core1_lanes"]
    assert (array.machine.macs, lanes.machine.macs, system.bytes_per_s) == (4, 2, 8e9)
    assert (array.operations, lanes.operations) == ({"multiply_add": 1}, {"max": 1, "activate": 1, "multiply_add": 1})
    for core, bandwidth, read, write in ((array, 16, 3.25, 4.25), (lanes, 32, 1.25, 2.25)):
        outermost, energies = core.machine.levels[0], core.machine.energy.entries
        assert (outermost.name, outermost.bandwidth * outermost.word_bits) == ("dram", bandwidth)
        for action, pj_per_bit in (("read", read), ("write", write)):
            (entry,) = {e.energy_pj for (part, _, act), e in energies.items() if (part, act) == ("dram", action)}
            assert entry == pytest.approx(pj_per_bit * outermost.word_bits * outermost.block_size, rel=1e-12)


@pytest.mark.parametrize("folder", ["stream/inputs/hardware/cores/", "/home/someone/cores/", "../elsewhere/"])
def test_core__with_the_path_of_a_repository_is_found_by_its_last_part(chip, folder):
    plain = read_foreign([chip]).system
    chip.write_text(CHIP.replace("0: array", f"0: {folder}array"))
    assert read_foreign([chip]).system == plain


def test_layer__costs_on_an_engine_what_it_costs_on_the_core_with_that_memory(chip, tmp_path):
    layer = load_workload("workload: {name: g, gemm: {M: 4, N: 8, K: 4}}\n")
    found = map_on_system(load_system({"system": read_foreign([chip]).system}), layer)
    core = CORES["lanes"].replace(BUFFER, BUFFER + MEMORY % ("dram", 8000000, 1.25 * 32, 2.25 * 32, 32))
    (tmp_path / "alone.yaml").write_text(core)
    machine = load_architecture({"architecture": read_foreign([tmp_path / "alone.yaml"]).architecture})
    alone = map_einsum(machine, layer.layers[0], uneven=False).best
    cost = found.costs[0][1]
    assert cost is not None
    assert (cost.energy_pj, cost.seconds) == pytest.approx((alone.energy_pj, alone.cycles * 1e-9), rel=1e-12)
    assert found.energy_pj == min(each.energy_pj for each in found.costs[0] if each is not None)


def test_core__whose_memories_are_for_parts_of_its_array_takes_constraints_of_the_layers(
    chip, run, tmp_path, monkeypatch
):
    """Sums have registers along D2, weights along D1; so those of sums are one, and D2 has loops of sums alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one = "  %s: {size: 64, r_cost: 1, w_cost: 1, operands: [%s], served_dimensions: [%s], " + PORTS % 8 + "}\n"
    memories = one % ("weights", "I2", "D2") + one % ("sums", "O", "D1") + BUFFER.replace("[D1]", "[D1, D2]")
    array = "operational_array: {unit_energy: 0.5, dimensions: [D1, D2], sizes: [4, 2]}\n"
    (tmp_path / "cores" / "array.yaml").write_text(f"name: array\nmemories:\n{memories}{array}")
    with pytest.raises(AccelsimError, match="constraints of core 0 depend on the layers; name an ONNX model or"):
        read_foreign([chip])
    gemm = tmp_path / "gemm.yaml"
    gemm.write_text("""
- {id: 0, operator_type: Gemm, equation: "O[b][k]+=I[b][c]*W[k][c]", dimension_relations: [], loop_dims: [B, K, C],
   loop_sizes: [4, 8, 4], operand_precision: {W: 8, I: 8, O: 16, O_final: 8}, operand_source: {I: 0, W: 0}}
""")
    found = read_foreign([chip, gemm])
    (asked,) = found.system["cores"][0]["constraints"]["levels"]
    assert asked == {"level": "weights", "spatial": {"x": {"only": ["B", "K"]}}}
    code, out, err = run("map", chip, gemm, "--json", "--no-cache")
    assert code == 0, err
    assert json.loads(out)["even_gap"] == 0.0


def test_core__with_a_memory_of_the_off_chip_cores_name_keeps_it(chip, tmp_path):
    path = tmp_path / "cores" / "array.yaml"
    path.write_text(path.read_text().replace("buffer:", "dram:"))
    levels = load_system({"system": read_foreign([chip]).system}).cores[0].machine.levels
    assert [level.name for level in levels] == ["offchip_dram", "dram", "MAC_operands"]


def test_graph__of_an_older_file_links_each_core_with_the_off_chip_core(chip, run):
    """A link is as wide as the memory, 64 bit a cycle, for 32 pJ; the core of operators on words multiplies nothing."""
    graph = "graph: {type: 2d_mesh, nb_rows: 1, nb_cols: 1, bandwidth: 8, unit_energy_cost: 32, %s}\n"
    special = "pooling_core_id: null, simd_core_id: 1, offchip_core_id: 2"
    chip.write_text("name: chip\ncores: [array.yaml, lanes.yaml, offchip.yaml]\n" + graph % special)
    lanes = chip.parent / "lanes.yaml"
    lanes.write_text(lanes.read_text().replace("operator_types: [MaxPool, Relu, Gemm]\n", ""))
    offchip = chip.parent / "cores" / "offchip.yaml"
    offchip.write_text(offchip.read_text().replace("operational_array: {unit_", "multipliers: {multiplier_"))
    array, words = load_system({"system": read_foreign([chip]).system}).cores
    assert "multiply_add" in array.operations
    assert {"add", "max", "activate"} < set(words.operations)
    assert "multiply_add" not in words.operations
    outermost, energy = array.machine.levels[0], array.machine.energy
    assert (outermost.name, outermost.bandwidth * outermost.word_bits) == ("dram", 64)
    pj = energy.find("dram", "Inputs", "read").energy_pj
    assert pj == pytest.approx((1 + 32 / 64) * outermost.word_bits * outermost.block_size, rel=1e-12)
    (chip.parent / "gemm.yaml").write_text("workload: {name: g, gemm: {M: 4, N: 8, K: 4}}\n")
    code, out, err = run("map", chip, chip.parent / "gemm.yaml", "--no-cache")
    assert code == 0, err
    assert "core0_array" in out
    chip.write_text(chip.read_text().replace("offchip_core_id: 2", "offchip_core_id: 7"))
    with pytest.raises(AccelsimError, match=r"chip.yaml:3:.*: there is no core 7; cores: 0, 1, 2"):
        read_foreign([chip])


def test_off_chip_core__that_is_a_file_is_linked_with_each_core(chip, run):
    older = "name: chip\ncores: {0: array.yaml, 1: lanes.yaml}\noffchip_core: offchip.yaml\n"
    chip.write_text(older + "core_connectivity:\n- 0, 1\nbandwidth: 32\nunit_energy_cost: 32\n")
    cores = load_system({"system": read_foreign([chip]).system}).cores
    assert [core.name for core in cores] == ["core0_array", "core1_lanes"]
    for core in cores:
        outermost, energy = core.machine.levels[0], core.machine.energy
        pj = energy.find("dram", "Inputs", "read").energy_pj
        assert pj == pytest.approx((1 + 32 / 64) * outermost.word_bits * outermost.block_size, rel=1e-12)
    (chip.parent / "gemm.yaml").write_text("workload: {name: g, gemm: {M: 4, N: 8, K: 4}}\n")
    code, _, err = run("map", chip, chip.parent / "gemm.yaml", "--no-cache")
    assert code == 0, err
    chip.write_text(chip.read_text().replace("offchip_core: off", "offchip_core: gone"))
    with pytest.raises(AccelsimError, match=r"chip.yaml:3:1: there is no file 'gonechip.yaml' beside this one"):
        read_foreign([chip])


def test_off_chip_core__of_older_versions_has_its_ports_by_name(chip):
    new, path = read_foreign([chip]).system, chip.parent / "cores" / "offchip.yaml"
    ports = "[" + ", ".join(["{fh: rw_port_1, tl: rw_port_1, fl: rw_port_1, th: rw_port_1}"] * 3) + "]"
    older = f"r_bw: 64, w_bw: 64, r_port: 0, w_port: 0, rw_port: 1, min_r_granularity: 8, ports: {ports}"
    path.write_text(path.read_text().replace(PORTS % 64, older + ", min_w_granularity: 8"))
    assert read_foreign([chip]).system == new


def test_dataflows__of_a_core_are_constraints_of_its_core(chip):
    path, gemm = chip.parent / "cores" / "array.yaml", chip.parent / "gemm.yaml"
    path.write_text(path.read_text() + "dataflows: {D1: [K, 4]}\n")
    gemm.write_text("""
- {id: 0, operator_type: Gemm, equation: "O[b][k]+=I[b][c]*W[k][c]", dimension_relations: [], loop_dims: [B, K, C],
   loop_sizes: [4, 8, 4], operand_precision: {W: 8, I: 8, O: 16, O_final: 8}, operand_source: {I: 0, W: 0}}
""")
    array, lanes = read_foreign([chip, gemm]).system["cores"]
    (level,) = array["constraints"]["levels"]
    assert level["spatial"]["x"] == {"only": ["K"], "factors": ["K=4"]}
    assert "constraints" not in lanes


def test_import__without_a_hardware_file_says_what_one_has(run, tmp_path):
    (tmp_path / "layers.yaml").write_text("- {id: 0}\n")
    code, _, err = run("import", "--from", "stream", tmp_path / "layers.yaml")
    assert code == 2
    assert "layers.yaml: no hardware file of Stream, with `cores` and `offchip_core_id`" in err


def test_map__takes_the_file_as_it_is(chip, run, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, out, err = run("map", chip, "conv1d", "--objective", "latency", "--json", "--no-cache")
    assert code == 0, err
    assert json.loads(out)["proved"]
    assert "clock: Stream counts cycles; a clock of 1 GHz is taken" in err
    assert run("check", chip)[0] == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "array.yaml",
            "none.yaml",
            "chip.yaml:3:9: there is no file 'none.yaml' beside this one, nor in",
        ),
        ("offchip_core_id: 2", "offchip_core_id: 7", "there is no core 7; cores: 0, 1, 2"),
        ("cores: [0, 1], bandwidth", "cores: [1, 2], bandwidth", "no link leads from core 0 to the off-chip core 2"),
        ("cores: [0, 1], bandwidth: 16", "cores: [0, 1]", "'bandwidth' is missing"),
    ],
)
def test_broken__files_are_refused_at_their_place(chip, old, new, said):
    chip.write_text(CHIP.replace(old, new))
    with pytest.raises(AccelsimError) as error:
        read_foreign([chip])
    assert said in str(error.value)
