"""Mappings of ZigZag that are given in full, and ours as files of ZigZag."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from strategies import random_case

from accelsim import load_architecture, load_mapping, load_workload
from accelsim.importers.foreign import read_foreign
from accelsim.importers.zigzag_export import export_zigzag
from accelsim.inputs.energies import EnergyTable
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from tests.conftest import ask_peer

HARDWARE = """
name: small
memories:
  register:
    {size: 16, r_cost: 1, w_cost: 2, operands: [I2], served_dimensions: [],
     ports: [{type: read, bandwidth_min: 8, bandwidth_max: 8, allocation: ["I2, tl"]},
             {type: write, bandwidth_min: 8, bandwidth_max: 8, allocation: ["I2, fh"]}]}
  buffer:
    {size: 512, r_cost: 4, w_cost: 4, operands: [I1, O], served_dimensions: [D1],
     ports: [{type: read_write, bandwidth_min: 8, bandwidth_max: 64,
              allocation: ["I1, fh", "I1, tl", "O, fh", "O, tl", "O, fl", "O, th"]}]}
  dram:
    {size: 8000000, r_cost: 64, w_cost: 64, operands: [I1, I2, O], served_dimensions: [D1],
     ports: [{type: read_write, bandwidth_min: 8, bandwidth_max: 64,
              allocation: ["I1, fh", "I1, tl", "I2, fh", "I2, tl", "O, fh", "O, tl", "O, fl", "O, th"]}]}
operational_array: {unit_energy: 0.5, dimensions: [D1], sizes: [4]}
"""
LAYER = """
- id: 0
  operator_type: Gemm
  equation: O[b][k]+=I[b][c]*W[k][c]
  dimension_relations: []
  loop_dims: [B, K, C]
  loop_sizes: [4, 8, 6]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 8}
"""
SPATIAL = 'spatial_mapping: {D1: ["K, 4"]}'
MAPPING = f"- {{name: default, {SPATIAL}, temporal_ordering: [[C, 2], [B, 4], [C, 3], [K, 2]]}}\n"
PYTHON = """# before 2024
mapping = {
    "default": {
        "core_allocation": 1,
        "spatial_mapping": {'D1': ('K', 4)},
        "temporal_ordering": [('C', 2), ('B', 4), ('C', 3), ('K', 2)],
        "memory_operand_links": {'O': 'O', 'W': 'I2', 'I': 'I1'},
    }
}
"""


def written(*, older: bool = False) -> str:
    """What ZigZag writes of the layer and its mapping; in 2023 and before its loops are lists one level further in."""
    loops = {"O": [[["C", 2], ["B", 4], ["C", 3]], [["K", 2]]], "I": [[["C", 2], ["B", 4], ["C", 3], ["K", 2]], []]}
    loops["W"] = [[["C", 2]], [["B", 4], ["C", 3], ["K", 2]]]
    texts = {op: [[f"('{dim}', {n})" for dim, n in block] for block in each] for op, each in loops.items()}
    layer = {"name": "/g/Gemm", "type": "Gemm", "equation": "O[b][k] += I[b][c] * W[k][c]", "equation_relations": []}
    layer |= {
        "loop_dimensions": {"B": 4, "K": 8, "C": 6},
        "user_spatial_mapping": {"D1": ["K", 4] if older else {"K": 4}},
    }
    layer |= {"operand_precision": {"W": 8, "I": 8, "O": 16, "O_final": 8}}
    layer["memory_operand_links"] = {"O": "O", "W": "I2", "I": "I1"}
    return json.dumps({"inputs": {"layer": layer, "temporal_mapping": {"temporal_mapping": loops} if older else texts}})


def figures(foreign):
    result = evaluate(*foreign.loaded())
    assert result.valid
    return result


@pytest.mark.parametrize("form", ["yaml", "tuples", "lists", "python", "written", "older"])
def test_mapping__has_the_forms_of_2022_to_2026(tmp_path, form):
    """Energies by hand, of which a word of 8 bit costs an eighth of a port of 64 bit.

    The register of 16 bit has the two weights of C = 2, and they stay for all of B: 6 x 2 x 4 fills. The buffer has
    room for all inputs beside the 4 x 4 partial sums of 16 bit, as K moves these alone: 24 x 8 + 16 x 16 of 512 bit.
    """
    texts = {"yaml": MAPPING, "python": PYTHON, "written": written(), "older": written(older=True)}
    texts["lists"] = MAPPING.replace('["K, 4"]', "[K, 4]")
    texts["tuples"] = MAPPING.replace("[C, 2]", '"(C, 2)"')
    files = {"hardware.yaml": HARDWARE, f"mapping.{'py' if form == 'python' else 'yaml'}": texts[form]}
    files |= {"layer.yaml": LAYER} if form not in ("written", "older") else {}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    foreign = read_foreign([tmp_path / name for name in files])
    assert foreign.mapping == {
        "levels": [
            {"level": "dram", "keep": ["O", "I", "W"]},
            {"level": "buffer", "keep": ["I"], "temporal": ["K=2"]},
            {"level": "buffer", "keep": ["O"], "temporal": ["C=3"], "spatial": {"x": ["K=4"]}},
            {"level": "register", "keep": ["W"], "temporal": ["B=4", "C=2"]},
        ]
    }
    result = evaluate(*foreign.loaded())
    registers, inputs, sums, dram = 192 * 1 + 48 * 2, 48 * 0.5 + 24 * 0.5, (192 + 160 + 32) * 1, (48 + 24 + 32) * 8
    assert (result.valid, result.compute_cycles) == (True, 48)
    assert result.energy_pj == pytest.approx(192 * 0.5 + registers + inputs + sums + dram)
    assert not foreign.notes or all("left to the search" not in note.why for note in foreign.notes)


@pytest.mark.parametrize(
    ("ordering", "why"),
    [
        ("[[C, 2], [B, 4], [K, 2]]", "its loops over C make 2 steps, where 6 are left beside those on the array"),
        ("[[C, 6], [B, 4], [K, 8]]", "its loops over K make 8 steps, where 2 are left beside those on the array"),
        ("[[C, 6], [B, 4], [K, 2], [OX, 3]]", "its loops over OX make 3 steps, where 1 are left"),
    ],
)
def test_sizes__that_are_not_those_of_the_layer_leave_an_order(imported, ordering, why):
    foreign = imported(HARDWARE, LAYER, re.sub(r"\[\[.*\]\]", ordering, MAPPING))
    assert foreign.mapping is None
    assert any(note.key == "temporal_ordering" and note.why.startswith(why) for note in foreign.notes)


def test_a_wildcard__leaves_an_order_without_a_word(imported):
    foreign = imported(HARDWARE, LAYER, MAPPING.replace("[K, 2]", "[K, '*']"))
    assert foreign.mapping is None
    assert not any("steps" in note.why for note in foreign.notes)
    assert any(note.why.startswith("splits a dimension") for note in foreign.notes)


def test_tile__that_is_larger_than_its_memory_is_refused_at_its_size(imported):
    with pytest.raises(InputError, match=r"0.yaml:5:6: register: the tiles of I2 .* are larger than its 4 bits"):
        imported(HARDWARE.replace("size: 16,", "size: 4, "), LAYER, MAPPING)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (PYTHON.replace("('K', 4)", "('K', many)"), r"mapping.py:5:41: 'many' is not run; write what it stands for"),
        (PYTHON.replace("}\n}", "}\n"), r"mapping.py:2:1: not valid Python"),
        ("import zigzag\n", r"mapping.py:1:1: Python is not run; name a model"),
        ("mapping = {'default': 3}\n", r"mapping.py:1:12: expected a dict, got '3'"),
    ],
)
def test_python__is_read_and_not_run(tmp_path, text, what):
    (tmp_path / "mapping.py").write_text(text)
    with pytest.raises(InputError, match=what):
        read_foreign([tmp_path / "mapping.py"])


def test_workload_in_python__has_its_mapping_with_it(tmp_path):
    text = """workload = {
    -1: {'equation': 'input', 'loop_dim_size': {'B': 4, 'K': 6}, 'precision': 8},
    0: {'operator_type': 'Gemm', 'equation': 'O[b][k]+=I[b][c]*W[k][c]', 'loop_dim_size': {'B': 4, 'K': 8, 'C': 6},
        'operand_precision': {'O': 16, 'O_final': 8, 'W': 8, 'I': 8}, 'operand_source': {'W': [], 'I': [-1]},
        'spatial_mapping': {'D1': ('K', 4)}, 'temporal_ordering': [('C', 2), ('B', 4), ('C', 3), ('K', 2)]},
}
"""
    (tmp_path / "workload.py").write_text(text)
    (tmp_path / "hardware.yaml").write_text(HARDWARE)
    (tmp_path / "layer.yaml").write_text(LAYER)
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    one = read_foreign([tmp_path / "hardware.yaml", tmp_path / "workload.py"])
    other = read_foreign([tmp_path / f"{name}.yaml" for name in ("hardware", "layer", "mapping")])
    assert one.mapping == other.mapping
    assert one.workload["layers"] == other.workload["layers"]


def test_eval__takes_the_mapping_of_the_layer_that_is_asked_for(run, tmp_path):
    """The buffer moves 192 or 96 sums to the MACs and back but for the first 32, twice 8 bit each, and drains 32."""
    second = LAYER.replace("id: 0", "id: 1").replace("[4, 8, 6]", "[4, 8, 3]").lstrip()
    entry = MAPPING.replace("default", "'1'").replace("[C, 2], [B, 4], [C, 3]", "[C, 3], [B, 4]")
    for name, text in (("hardware", HARDWARE), ("layers", LAYER + second), ("mapping", MAPPING + entry)):
        (tmp_path / f"{name}.yaml").write_text(text)
    files = [tmp_path / f"{name}.yaml" for name in ("hardware", "layers", "mapping")]
    found = [run("eval", *files, "--layer", f"Gemm_{number}", "--json") for number in (0, 1)]
    cycles = [json.loads(out)["result"]["cycles"] for _, out, _ in found]
    assert [code for code, _, _ in found] == [0, 0]
    assert cycles == [math.ceil((384 * 2 + 72) / 8), math.ceil((192 * 2 + 36) / 8)]  # of the buffer's port


def test_remainders__are_shared_by_the_steps_and_windows_are_padded(imported):
    """`K, 4` of 6 takes 2 steps of 3 places, `K, 4` of 7 takes 4 and 3; `OX, 4` of 7 in a window has 8 points."""
    layer = LAYER.replace("[4, 8, 6]", "[4, 6, 6]")
    even = imported(HARDWARE, layer, MAPPING).mapping
    assert (even["levels"][2]["spatial"], "imperfect" in even) == ({"x": ["K=3"]}, False)
    ragged = imported(HARDWARE, layer.replace("6, 6]", "7, 6]"), MAPPING).mapping
    assert (ragged["levels"][2]["spatial"], ragged["imperfect"]) == ({"x": ["K=4"]}, ["K"])
    conv = LAYER.replace("I[b][c]", "I[b][iy]").replace("W[k][c]", "W[k][c]").replace("O[b][k]", "O[b][k]")
    conv = conv.replace("[]", "[iy=1*b+1*c]").replace("I[b][iy]", "I[iy]").replace("[4, 8, 6]", "[7, 8, 6]")
    spatial = MAPPING.replace("K, 4", "B, 4").replace("[B, 4]", "[B, 2]").replace("[K, 2]", "[K, 8]")
    padded = imported(HARDWARE, conv, spatial)
    assert padded.mapping["padded"] == ["B=8"]


def golden(shared, imported):
    """Records of ZigZag without fractions of places: what it found, and its files with this mapping imported here."""
    for path in sorted((shared / "golden/zigzag").glob("*.json")):
        record = json.loads(path.read_text())
        best = record["best_energy"]
        spread = re.findall(r"(\w+): \{(.*?)\}", best["spatial_mapping_after_clipping"][1:-1])
        loops = {dim: [text.replace(":", ",") for text in each.split(", ")] for dim, each in spread}
        if all("." not in text for each in loops.values() for text in each):
            order = [
                loop for memory in best["temporal_mapping_per_operand_inner_to_outer"]["O"] for loop in memory["loops"]
            ]
            links = record["mapping_spec"][0]["memory_operand_links"]
            entry = {"name": "default", "spatial_mapping": loops, "memory_operand_links": links}
            entry["temporal_ordering"] = [[dim, int(bound)] for dim, bound in order]
            texts = (record["accelerator_spec"], [record["workload"]], [entry])
            yield path.stem, best, links, imported(*(yaml.safe_dump(each, sort_keys=False) for each in texts))


def test_memories__are_those_that_zigzag_recorded(shared, imported):
    """The order of the loops is given, ZigZag's own search says how many of them each memory has inside its tiles.

    Of choices that fetch equally many bits it takes one by the last digits of its floats.
    """
    from accelsim.importers.foreign import read_documents
    from accelsim.importers.zigzag import _sizes, array_of, read_layers
    from accelsim.importers.zigzag_mapping import read_nest, tile_bits

    counted = 0
    for stem, best, links, foreign in golden(shared, imported):
        if foreign.mapping is None:  # weights stay in the PEs while sums of a buffer outside these are changed
            assert stem == "eyeriss_like__mbv2_dw3x3"
            assert "its tiles have no form here" in str(foreign.notes)
            continue
        folder = Path(foreign.notes[0].mark.file).parent
        notes: list = []
        hardware, *others = read_documents([str(folder / f"{number}.yaml") for number in range(3)], {})
        _, layers, entries = read_layers(others, notes)
        nest = read_nest(
            entries[0], layers[0].einsum, {}, hardware.body["memories"], _sizes(array_of(hardware.body)), notes
        )
        for operand, memories in best["temporal_mapping_per_operand_inner_to_outer"].items():
            inside = start = 0
            for memory in memories:
                inside += len(memory["loops"])
                name, letter = memory["memory"], links[operand]
                low, most = nest.range_of(name, letter)
                if not low <= inside <= most:
                    below = set(hardware.body["memories"][name]["served_dimensions"])
                    bits = [
                        tile_bits(nest, letter, below, start, many) * math.prod(n for _, n in nest.temporal[many:])
                        for many in (inside, nest.inside[name, letter])
                    ]
                    assert bits[0] == bits[1], (stem, operand, name)
                start = inside
                counted += 1
    assert counted > 60


def test_energy__is_that_of_zigzag_where_both_count_a_layer_alike(shared, imported):
    """Products have no window; ZigZag also reads each partial sum for the first time."""
    ratios = {}
    for stem, best, _, foreign in golden(shared, imported):
        if "gemm" in stem or "1x1" in stem:
            ratios[stem] = evaluate(*foreign.loaded()).energy_pj / best["energy_pJ"]
    assert len(ratios) >= 5
    assert all(ratio <= 1.0001 for ratio in ratios.values()), ratios
    assert all(ratio > 0.98 or stem.startswith("eyeriss") for stem, ratio in ratios.items()), ratios


def exported(case, folder):
    made = export_zigzag(*case)
    for name, text in made.files.items():
        (folder / name).write_text(text)
    return made, read_foreign([folder / name for name in made.files])


def plain(architecture):
    """The machine as ZigZag's form has it: drains are reads, writes cost one energy, wires nothing."""
    levels = tuple(replace(level, drain_reads=bool(index)) for index, level in enumerate(architecture.levels))
    compute = replace(architecture.compute, holds=frozenset({"Weights", "Inputs"}))
    wires = ("transfer", "hop", "leak", "return")
    entries = {key: entry for key, entry in architecture.energy.entries.items() if key[2] not in wires}
    return replace(architecture, levels=levels, compute=compute, energy=EnergyTable(entries), sized={})


@pytest.mark.parametrize(("kept", "code", "said"), [("[]", 2, "DRAM keeps all tensors, and"), ("[Inputs]", 0, "")])
def test_export__of_loops_apart_that_one_memory_keeps_is_refused(kept, code, said, tmp_path, run):
    """A buffer that keeps nothing is no memory there, and the outermost one has its loops in one place."""
    path, layer = tmp_path / "mapping.yaml", tmp_path / "layer.yaml"
    inner = f"{{level: BUF, keep: [], temporal: [P=8, K=4]}}, {{level: BUF, keep: {kept}, temporal: [R=3]}}"
    path.write_text(f"mapping: {{levels: [{{level: DRAM, temporal: [K=4]}}, {inner}]}}")
    layer.write_text("workload: {name: a, layers: [{name: a, conv: {K: 16, C: 1, P: 8, Q: 1, R: 3, S: 1}}]}")
    found, _, err = run("export", "zigzag", "two_level", layer, path, "-o", tmp_path / "out")
    assert (found, said in err) == (code, True), err


def test_export__comes_back_to_equal_figures(tmp_path, run):
    """The optimum of a shipped machine and layer, whose network costs nothing here."""
    assert run("map", "two_level", "gemm", "--mapspace", "even", "--factors", "perfect", "-o", tmp_path / "run")[0] == 0
    code, out, _ = run("export", "zigzag", tmp_path / "run")
    assert code == 0
    names = [tmp_path / "run/zigzag" / f"{name}.yaml" for name in ("hardware", "workload", "mapping")]
    assert all(str(name) in out for name in names)
    assert "ZigZag has no form for drains of BUF without a read, another read of an operand that stays the same" in out
    machine, layer = plain(load_architecture("two_level")), load_workload("gemm").layers[0]
    nest = load_mapping(tmp_path / "run/mapping.yaml", machine, layer)
    made, back = exported((machine, layer, nest), tmp_path)
    assert not [note for note in made.notes if "instead of" in note]
    assert evaluate(*back.loaded()).energy_pj == pytest.approx(evaluate(machine, layer, nest).energy_pj, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "cause"), [("two_level", ""), ("eyeriss", ""), ("simba_like", "PEAccuBuffer"), ("nvdla_small", "CACC")]
)
def test_export__of_shipped_machines_comes_back_to_equal_energy(tmp_path, name, cause):
    """Without the energy of their wires; where words of sums are wider than the outputs ZigZag moves fewer of them."""
    machine = plain(load_architecture(name))
    layer = load_workload({"workload": {"name": "g", "gemm": {"M": 16, "N": 32, "K": 64}}}).layers[0]
    nest = map_einsum(machine, layer, uneven=False).best.mapping
    made, back = exported((machine, layer, nest), tmp_path)
    ours, theirs = evaluate(machine, layer, nest), evaluate(*back.loaded())
    assert (theirs.energy_pj == pytest.approx(ours.energy_pj, rel=1e-6)) == (not cause), made.notes
    assert not cause or any(f"words of {cause} that elements do not fill" in note for note in made.notes), made.notes
    assert theirs.compute_cycles == ours.compute_cycles


def test_export__of_random_machines_and_layers_says_what_it_has_no_form_for(tmp_path):
    refused = 0
    for seed in range(60):
        case = random_case(random.Random(seed), 24, 3)
        if not evaluate(*case).valid:
            continue
        try:
            made, back = exported(case, tmp_path)
        except AccelsimError as error:
            refused += 1
            if "ZigZag" not in str(error):
                raise
            continue
        same = math.isclose(evaluate(*case).energy_pj, evaluate(*back.loaded()).energy_pj, rel_tol=1e-6)
        assert same != any("pJ instead of" in note and "ZigZag has no form for" in note for note in made.notes)
    assert refused > 10


def test_export__is_run_by_zigzag_with_equal_energy(tmp_path):
    """ZigZag adds the first read of each partial sum, of which each output word has one."""
    machine, layer = (
        plain(load_architecture("two_level")),
        load_workload({"workload": {"name": "g", "gemm": {"M": 4, "N": 8, "K": 16}}}).layers[0],
    )
    text = (
        "mapping: {levels: [{level: DRAM, temporal: [N=8, M=4, K=16]}, {level: BUF, keep: [Inputs, Weights, Outputs], "
    )
    text += "temporal: []}]}"
    nest = load_mapping(f"{text}\n", machine, layer)
    exported((machine, layer, nest), tmp_path)
    files = {"accelerator": "hardware", "mapping": "mapping", "workload": "workload"}
    request = {key: str(tmp_path / f"{name}.yaml") for key, name in files.items()} | {"dump_folder": str(tmp_path)}
    if (answer := ask_peer("zigzag", request)) is None:
        pytest.skip("zigzag-dse is not installed: benchmarks/peers/setup.sh")
    first_reads = 4 * 8 * machine.energy.energy_pj("BUF", "Outputs", "read")
    assert answer["value"] == pytest.approx(evaluate(machine, layer, nest).energy_pj + first_reads, rel=1e-6)
