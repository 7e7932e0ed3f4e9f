"""Timeloop's files: what machines, problems, mappings and energies become here."""

import math

import pytest

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.model.sparsity.evaluate import evaluate_sparse
from tests.timeloop_files import ERT, MAPPING, PROBLEM, V03, V04, loaded


def test_v04__tags_merges_formulas_and_containers_become_levels(imported):
    """Two containers in a row are two networks: the first is the buffer's fanout, the second a level of its own."""
    foreign = imported(V04, PROBLEM)
    architecture, einsum, _, asked = loaded(foreign)
    names = {level.name: level for level in architecture.levels}
    assert list(names) == ["Main", "Buffer", "Row", "Spad", "Sums"]
    assert (names["Buffer"].size_words, names["Buffer"].block_size) == (512 * 8, 8)
    assert (names["Buffer"].x.size, names["Row"].y.size, architecture.instances(5)) == (2, 3, 6)
    assert (names["Spad"].keep, names["Spad"].bypass) == ({"Weights"}, {"Outputs"})
    assert (names["Sums"].word_bits, names["Sums"].block_size, names["Sums"].bypass) == (16, 2, {"Weights"})
    assert dict(einsum.dims) == {"K": 4, "R": 3, "P": 8}
    assert foreign.workload["einsum"]["tensors"]["Inputs"] == ["R + 2*P"]
    assert asked.of("Buffer").temporal.inner == ("K", "P")
    assert [str(factor) for factor in asked.of("Buffer").temporal.factors] == ["R=1", "K<=2"]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("{factors: [R<3, K>1]}", ["R<=2", "K>=2"]),
        ("{no_iteration_over_dataspaces: [Weights]}", ["K=1", "R=1"]),
        ("{must_iterate_over_dataspaces: [Weights]}", ["P=1"]),
        ("{no_iteration_over_dataspaces: ['*']}", ["K=1", "R=1", "P=1"]),
        ("{maximize_dims: [[K, P]]}", ["K*P=2"]),
        ("{maximize_dims: [R, P], factors: [K=1]}", ["K=1", "R*P=2"]),
        ("{maximize_dims: [[R], [K]]}", ["R=1", "K=2"]),
    ],
)
def test_v04__short_forms_of_constraints_become_factors(imported, given, asked):
    foreign = imported(V04.replace("{factors: [R=1, P=1], permutation: [K, R, P], split: 3}", given), PROBLEM)
    block = loaded(foreign)[3].of("Buffer").x
    assert [str(each) for each in (*block.factors, *block.products)] == asked


@pytest.mark.parametrize("beside", [True, False])
def test_parallel__branches_bypass_what_others_keep_wherever_it_is_asked_for(imported, beside):
    """Two storages of one branch stand in a row, and either may keep what the branch keeps."""
    storage = "!Component {name: %s, class: regfile, attributes: {depth: 16, datawidth: 8}%s}"
    asked = {"Spad": "Weights", "Sums": "Outputs"}
    held = {name: f", constraints: {{dataspace: {{keep: [{role}]}}}}" for name, role in asked.items()}
    of = {name: storage % (name, held.get(name, "") if beside else "") for name in ("Spad", "Late", "Sums")}
    machine = f"""
architecture:
  nodes:
  - !Component {{name: Main, class: DRAM}}
  - !Parallel
    nodes: [{of["Spad"]}, !Hierarchical {{nodes: [{of["Late"]}, {of["Sums"]}]}}]
  - !Component {{name: MAC, class: intmac}}
"""
    targets = [f"{{target: {name}, type: dataspace, keep: [{role}]}}" for name, role in asked.items()]
    files = [] if beside else [f"constraints: {{targets: [{', '.join(targets)}]}}\n"]
    foreign = imported(machine, PROBLEM, *files)
    bypassed = {level.name: level.bypass for level in loaded(foreign)[0].levels}
    assert bypassed == {"Main": set(), "Spad": {"Outputs"}, "Late": {"Weights"}, "Sums": {"Weights"}}


def test_v04__tensors_that_a_network_does_not_share_are_neither_multicast_nor_reduced(imported):
    text = V04.replace("{factors: [R=1, P=1], permutation: [K, R, P], split: 3}", "{no_reuse: [Inputs, Outputs]}")
    foreign = imported(text.replace("temporal: {", "temporal: {no_reuse: [Inputs], "), PROBLEM)
    network = load_architecture({"architecture": foreign.architecture}).levels[1].x
    assert (network.multicast, network.spatial_reduction) == ({"Weights"}, False)
    said = "no_reuse = ['Inputs']: a tile would be brought anew in each step of the loops outside"
    assert any(said in str(note) for note in foreign.notes)


def test_notes__say_the_line_of_what_does_not_carry_over(imported):
    foreign = imported(V04, PROBLEM)
    notes = [str(note).rpartition("/")[2] for note in foreign.notes]
    assert "0.yaml:14:64: Buffer.update_fifo_depth = 2: has no counterpart; it changes no count" in notes
    assert foreign.workload["densities"] == {"Inputs": {"distribution": "fixed_structured", "density": "0.5"}}
    assert any(note.startswith("0.yaml:23:5: Row: a network of its own") for note in notes)


def test_v03__ranges_and_meshes_become_fanouts(imported):
    foreign = imported(V03, PROBLEM, MAPPING, ERT)
    architecture, _, mapping, _ = loaded(foreign)
    assert [(level.name, level.x.size, level.y.size) for level in architecture.levels] == [
        ("Main", 1, 1), ("Buffer", 2, 3), ("Spad", 1, 1)
    ]  # fmt: skip
    buffer, spad = mapping.levels[1:]
    assert [str(loop) for loop in mapping.levels[0].temporal] == ["K=2", "P=4"]
    assert ([loop.dim for loop in buffer.x], [loop.dim for loop in buffer.y]) == (["K"], ["R"])
    assert (buffer.keep, spad.keep) == ({"Inputs", "Outputs"}, {"Weights", "Inputs", "Outputs"})


def test_mapping__that_passes_by_the_first_level_is_charged_there_and_noted(imported):
    passing = MAPPING + "- {target: Main, type: dataspace, keep: [Weights, Inputs], bypass: [Outputs]}\n"
    foreign = imported(V03, PROBLEM, passing)
    assert loaded(foreign)[2] == loaded(imported(V03, PROBLEM, MAPPING))[2]
    why = "0.yaml:8:7: Main: is the first level, which keeps everything here; it charges Outputs too"
    assert any(str(note).endswith(why) for note in foreign.notes)


def test_remainders__are_kept_and_noted(imported):
    foreign = imported(V03, PROBLEM.replace("K: 4", "K: 3"), MAPPING.replace("K=2 R=3", "'K=2,1 R=3'"))
    assert foreign.mapping["imperfect"] == ["K"]
    assert "K=2,1: the last pass is shorter" in "".join(map(str, foreign.notes))
    assert loaded(foreign)[2].imperfect == {"K"}


def test_energies__are_those_of_the_ert_to_the_last_digit(imported):
    """Of several rows of an action the largest counts, and updates have their own energy."""
    foreign = imported(V03, PROBLEM, ERT)
    levels = {level["name"]: level["energy"] for level in foreign.architecture["levels"]}
    assert (levels["Main"]["write"], levels["Spad"]["read"]) == ("500.5 pJ", "0.25 pJ")
    assert (levels["Buffer"]["update"], levels["Buffer"]["leak"]) == ("6 pJ", "0.000007972 pJ")
    assert foreign.architecture["compute"]["energy"]["compute"] == "0.75 pJ"
    assert foreign.energies == "the ERT 2.yaml"
    assert imported(V03, PROBLEM).energies == "accelsim's own models, by class and attributes"


def test_v03__and_the_same_machine_in_v04_give_equal_figures(imported):
    v04 = """
architecture:
  nodes:
  - !Container {name: system, attributes: {technology: 45nm}}
  - !Component {name: Main, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 512, width: 64, datawidth: 8}}
  - !Container {name: PE, spatial: {meshX: 2, meshY: 3}}
  - !Component {name: Spad, class: regfile, attributes: {depth: 16, width: 8, datawidth: 8}}
  - !Component {name: MAC, class: intmac, attributes: {multiplier_width: 8}}
"""
    mapping = MAPPING.replace("target: Buffer, type: spatial", "target: PE, type: spatial")
    results = [
        evaluate(*loaded(imported(machine, PROBLEM, ERT, loops))[:3])
        for machine, loops in ((V03, MAPPING), (v04, mapping))
    ]
    assert results[0].energy_pj == results[1].energy_pj
    assert results[0].cycles == results[1].cycles


def test_constraints__under_their_targets_or_a_chosen_name_are_those_of_a_list(imported):
    """As in `configs/mapper` of Timeloop, chen-asplos2014.yaml and eyeriss-256.yaml."""
    asked = "{target: Spad, type: temporal, factors: K<=2, permutation: PK}"
    listed = imported(V03, PROBLEM, f"mapspace:\n- {asked}\n")
    named = f"mapspace: {{constraints: mine, constraints_mine: [{asked}]}}"
    nested = """
mapspace:
  targets:
  - name: Spad
    constraints: [{type: temporal, attributes: {factors: K<=2, permutation: PK}}]
"""
    assert listed.constraints is not None
    assert imported(V03, PROBLEM, named).constraints == imported(V03, PROBLEM, nested).constraints == listed.constraints
    keeping = nested.replace(
        "temporal, attributes: {factors: K<=2, permutation: PK}", "bypassing, attributes: {keep: [Inputs]}"
    )
    assert imported(V03, PROBLEM, keeping).constraints == {"levels": [{"level": "Spad", "keep": ["Inputs"]}]}
    with pytest.raises(AccelsimError, match="expected a list of directives, each a map with a target"):
        imported(V03, PROBLEM, named.replace("constraints: mine", "constraints: other"))


def test_compute_unit__may_stand_before_the_storages_of_its_list(imported):
    """As in `configs/mapper/sample-accelergy.yaml` of Timeloop."""
    lines = V03.splitlines(keepends=True)
    spad, mac = (next(line for line in lines if f"name: {name}" in line) for name in ("Spad", "MAC"))
    swapped = V03.replace(spad + mac, mac + spad)
    assert swapped != V03
    assert imported(swapped).architecture == imported(V03).architecture


def test_networks__have_no_level_and_are_said(imported):
    """Classes that Timeloop's topology.hpp takes as networks, as Accelergy's exercises have them."""
    lines = V03.splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if "name: Spad" in line)
    noc = lines[at].split("- ")[0] + "- {name: NoC%d, class: %s, attributes: {datawidth: 64}}\n"
    lines[at:at] = [noc % (0, "XY_NoC"), noc % (1, "SimpleMulticast")]
    made = imported("".join(lines), PROBLEM)
    assert made.architecture == imported(V03, PROBLEM).architecture
    assert [str(note).partition(": ")[2] for note in made.notes if "NoC" in note.key] == [
        f"NoC{number}: stores nothing; the energy of its wires is left out" for number in (0, 1)
    ]
    v04 = "  - !Component {name: DAC, class: SimpleMulticast, attributes: {depth_of_dac: 1}}\n"
    lines = V04.splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if "name: Buffer" in line) - 1
    added = imported("".join([*lines[:at], v04, *lines[at:]]), PROBLEM)
    assert added.architecture == imported(V04, PROBLEM).architecture


def test_problem__may_have_sizes_of_variables(imported):
    """As the workloads of CiMLoop have them."""
    problem = PROBLEM.replace("K: 4", "K: BITS // 2")
    assert problem != PROBLEM
    variables = "variables: {BATCH: 8, BITS: BATCH}\n"
    assert imported(problem, variables).workload["einsum"]["dims"] == imported(PROBLEM).workload["einsum"]["dims"]
    with pytest.raises(
        InputError, match=r"K: 'BITS' in 'BITS // 2' has no value; name the file of its `variables` too"
    ):
        imported(problem)


def test_v04__has_older_names_and_storages_without_room(imported):
    """As `arch_spec_examples` of its front end: `!Element`, and a dummy of depth 0 that joins two networks."""
    older = V04.replace("!Component", "!Element")
    assert older != V04
    assert imported(older, PROBLEM).architecture == imported(V04, PROBLEM).architecture
    dummy = "  - !Component {name: dummy, class: dummy_storage, attributes: {depth: 0, width: 16, datawidth: 16}}\n"
    lines = V04.splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if "!Container" in line and index > 5)
    added = imported("".join([*lines[:at], dummy, *lines[at:]]), PROBLEM)
    assert [level["name"] for level in added.architecture["levels"] if "dummy" in level["name"]] == []
    with pytest.raises(InputError, match="expected a map of keys, of one Einsum; name several in files of their own"):
        imported("problem: [{shape: {name: one}}]\n")


def test_shape__may_stand_in_a_file_of_its_own(imported):
    """As in Timeloop's folder `problem-shapes`."""
    shape = "shape:\n  name: gemm\n  dimensions: [M, N, K]\n  data-spaces:\n"
    shape += "".join(
        f"  - {{name: {name}, projection: {ranks}{', read-write: true' if name == 'Z' else ''}}}\n"
        for name, ranks in (("A", "[[[M]], [[K]]]"), ("B", "[[[N]], [[K]]]"), ("Z", "[[[M]], [[N]]]"))
    )
    problem = "problem: {shape: gemm, M: 4, N: 6, K: 8}\n"
    einsum = imported(shape, problem).workload["einsum"]
    assert (einsum["dims"], einsum["output"]) == ({"M": 4, "N": 6, "K": 8}, "Z")
    with pytest.raises(InputError, match="'gemm' is not known; name its file too"):
        imported(problem)
    with pytest.raises(InputError, match="no dimensions"):
        imported(shape.replace("[M, N, K]", "[]"), problem)
    assert [str(note).rpartition("/")[2] for note in imported(V03, shape).notes[-1:]] == [
        "1.yaml:2:3: shape: no problem asks for it; name the file that gives its sizes too"
    ]
    with pytest.raises(InputError, match=r"0.yaml:5:35: problem.shape: 'L' is no dimension; there are M, N, K"):
        imported(shape.replace("[[[M]], [[K]]]", "[[[M]], [[L]]]"), problem)


def test_attributes__that_change_cycles_are_said_to(imported):
    scale = "update_fifo_depth: 2, per_dataspace_bandwidth_consumption_scale: {Weights: 2}, network_fill_latency: 3"
    notes = [note.why for note in imported(V04.replace("update_fifo_depth: 2", scale), PROBLEM).notes]
    assert "a word of each tensor takes the same bandwidth" in notes
    assert "delays of networks are not added to the cycles" in notes


def test_words__have_the_older_names_too(imported):
    """`word_width` and `n_words`, as in Timeloop's buffer.cpp."""
    old = V03.replace("word-bits", "word_width").replace("block-size", "n_words")
    assert old != V03
    assert imported(old, PROBLEM).architecture == imported(V03, PROBLEM).architecture
    formula = V03.replace(
        "width: 64, block-size: 8, word-bits: 8", "word_width: 8, n_words: 8, width: word_width*n_words"
    )
    assert imported(formula, PROBLEM).architecture == imported(V03, PROBLEM).architecture


def test_subtree__of_accelergys_version_2_may_be_a_map(imported):
    lines = V03.replace("  - name: system\n", "    name: system\n").replace("    - name: chip\n", "      name: chip\n")
    assert imported(lines, PROBLEM).architecture == imported(V03, PROBLEM).architecture


def test_formats__of_tensors_that_pass_a_level_by_are_left_out(imported):
    ranks = "ranks: [{format: B, metadata-word-bits: 1}]"
    zeros = f"""
sparse_optimizations:
  targets:
  - name: Buffer
    representation-format: {{data-spaces: [{{name: Weights, {ranks}}}, {{name: Inputs, {ranks}}}]}}
    action-optimization: [{{type: position-skipping, target: Weights, condition-on: []}}]
"""
    passing = (
        "architecture_constraints: {targets: [{target: Buffer, type: bypass, keep: [Inputs], bypass: [Weights]}]}\n"
    )
    whole, found = imported(V03, PROBLEM, zeros), imported(V03, PROBLEM, zeros, passing)
    kept = [made.architecture["levels"][1] for made in (whole, found)]
    assert [list(level["formats"]) for level in kept] == [["Weights", "Inputs"], ["Inputs"]]
    assert ["position_skipping" in level for level in kept] == [True, False]
    assert [note.why for note in found.notes] == ["formats of Weights, which pass by, are left out"]
    assert kept[1]["energy"]["metadata_read"] == "0 pJ"  # the file gives no storage for it
    load_architecture({"architecture": found.architecture})


@pytest.mark.parametrize(("word", "bits"), [("", 0), (", metadata_datawidth: 4", 4), (", metadata_word_bits: 4", 4)])
def test_formats__of_which_a_rank_names_no_bits_have_words_of_the_metadata(imported, word, bits):
    """Of 0 bit where the storage says nothing of its width either: Timeloop, buffer.cpp, `default_md_word_bits`."""
    storage = f"word_bits: 8, metadata_storage_width: 64, metadata_storage_depth: 32{word}"
    machine = V03.replace("memory_width: 64, word_bits: 8", f"memory_width: 64, {storage}")
    assert machine != V03

    def held(*ranks):
        zeros = f"""
sparse_optimizations:
  targets:
  - {{name: Buffer, representation-format: {{data-spaces: [{{name: Inputs, ranks: [{", ".join(ranks)}]}}]}}}}
"""
        architecture, einsum, mapping, _ = loaded(imported(machine, PROBLEM, zeros, MAPPING))
        return evaluate_sparse(architecture, einsum, evaluate(architecture, einsum, mapping)).tensors

    named = f"metadata-word-bits: {bits}, payload-word-bits: {bits}"
    assert held("{format: UOP}", "{format: B}") == held(f"{{format: UOP, {named}}}", f"{{format: B, {named}}}")


def test_bandwidth__of_older_files_is_half_for_reads_and_half_for_writes(imported):
    made = imported(V03.replace("word-bits: 8}", "word-bits: 8, bandwidth: 20.0, read_bandwidth: 4}"), PROBLEM)
    main = load_architecture({"architecture": made.architecture}).levels[0]
    assert (main.read_bandwidth, main.write_bandwidth) == (4, 10)  # words a cycle, as in Timeloop's buffer.cpp


NATIVE = """
arch:
  arithmetic: {name: MAC, instances: 6, meshX: 2, word-bits: 8}
  storage:
  - {name: Spad, entries: 16, instances: 6, meshX: 2, word-bits: 8}
  - {name: Buffer, sizeKB: 4, instances: 1, word-bits: 8, block-size: 8}
  - {name: Main, technology: DRAM, instances: 1, word-bits: 8, block-size: 8}
"""


@pytest.mark.parametrize(
    "text",
    [
        V03,
        NATIVE,
        V03.replace("PE[0..5]", "PE").replace("meshX: 2}", "meshX: 2, instances: 6}"),
        V03.replace("depth: 16, width: 8, word_bits: 8", "size: 16 B, width: 8, word-bits: 8"),
        V03.replace("depth: 16, width: 8, word_bits: 8, meshX: 2", "depth: 16, width: 8, word_width: 8"),
        V04.replace('name: Column\n    spatial: {meshX: "max(2, BITS // 4)"}', "name: Column[0..1]"),
        V04.replace('spatial: {meshX: "max(2, BITS // 4)"}', "attributes: {meshX: 2}"),
        V04.replace("- !Nothing", "- !Component {name: Idle, enabled: 1 > 2, class: SRAM}"),
    ],
)
def test_spellings__of_a_machine_come_to_the_same_fanout(imported, text):
    architecture = load_architecture({"architecture": imported(text, PROBLEM, BITS=8).architecture})
    assert (architecture.macs, architecture.levels[1].x.size) == (6, 2)


@pytest.mark.parametrize(
    ("ranks", "read_as"),
    [
        ("[[[R], [P, Stride]]]", ["R + 2*P"]),
        ("'[R + Stride*P]'", ["R + 2*P"]),
        ("[R + P*2]", ["R + 2*P"]),
    ],
)
def test_projections__are_lists_or_texts(imported, ranks, read_as):
    problem = PROBLEM.replace("[[[R], [P, Stride]]]", ranks)
    assert imported(problem).workload["einsum"]["tensors"]["Inputs"] == read_as


def test_factors__may_be_a_map(imported):
    given = imported(V03, PROBLEM, MAPPING.replace("factors: K=2 P=0", "factors: {K: 2, P: 0}"))
    assert given.mapping == imported(V03, PROBLEM, MAPPING).mapping


def test_instances__of_no_shape_are_named_with_what_is_meant(imported):
    notes = [note.why for note in imported(PROBLEM.replace("P: 8,", "P: 8, stride: 3, H: 9, padding: 1,")).notes]
    assert notes[:3] == [
        "is no coefficient of the shape, which has its default; did you mean 'Stride'?",
        "is no dimension and no coefficient of the shape",
        "padded points count as ordinary points",
    ]


def test_summaries__of_energies_and_areas_are_read_as_their_tables(imported):
    """What has arguments is there with its largest energy, which counts in a table too."""
    areas = "ART: {tables: [{name: system.chip.Buffer, area: 20.5}]}\n"
    summary = """
ERT_summary:
  version: 0.3
  table_summary:
  - {name: "system.Main[1..1]", actions: [{name: read, energy: 512.0}, {name: write, energy: 500.5}]}
  - {name: system.chip.Buffer, actions: [{name: read, average_energy: 2.0, max_energy: 4.0, min_energy: 0.0},
      {name: write, energy: 5.0}, {name: update, energy: 6.0}, {name: leak, energy: 7.972e-06}]}
  - {name: "system.chip.PE[0..5].Spad", actions: [{name: read, energy: 0.25}, {name: write, energy: 0.5}]}
  - {name: "system.chip.PE[0..5].MAC", actions: [{name: mac_random, max_energy: 0.75}]}
"""
    given = loaded(imported(V03, PROBLEM, ERT.replace("ERT:\n", "ERT:\n  version: 0.3\n"), areas))[0]
    art = "ART_summary: {table_summary: [{name: system.chip.Buffer, area: 20.5, primitive_estimations: Cacti}]}\n"
    assert loaded(imported(V03, PROBLEM, summary, art.replace(", primitive_estimations: Cacti", "")))[0] == given
    assert loaded(imported(V03, PROBLEM, summary, art))[0] == given


def test_classes__that_neither_store_nor_compute_are_passed_over_as_timeloop_does(imported):
    more = "        - {name: Fifo, class: FIFO, attributes: {depth: 5}}\n        - {name: Adder, class: intadder}\n"
    plain = imported(V03, PROBLEM, MAPPING, ERT)
    with_more = imported(V03.replace("        - {name: Spad", f"{more}        - {{name: Spad"), PROBLEM, MAPPING, ERT)
    assert loaded(with_more) == loaded(plain)
    said = [str(note).rpartition("/")[2] for note in with_more.notes if "no class that" in str(note)]
    why = "is of no class that stores or computes; Timeloop makes no level of it either"
    assert said == [f"0.yaml:16:11: Fifo: {why}", f"0.yaml:17:11: Adder: {why}"]


def test_tables__of_version_0_2_stand_under_their_names(imported):
    older = """
ERT:
  version: 0.2
  tables:
    system.chip.PE[0..5].Spad:
      read: [{arguments: {data_delta: 0}, energy: 0.1}, {arguments: {data_delta: 1}, energy: 0.25}]
      write: {energy: 0.5}
"""
    assert imported(V03, PROBLEM, older).architecture["levels"][-1]["energy"] == {
        **{"read": "0.25 pJ", "write": "0.5 pJ", "leak": "0 pJ"},
        "source": "the ERT 2.yaml",
    }
    with pytest.raises(InputError, match=r"2.yaml:6:43: energy: expected a number from 0 on, got -1"):
        imported(V03, PROBLEM, older.replace("energy: 0.1", "energy: -1"))


def test_tables__may_have_the_dram_alone(imported):
    """The models of the other components leave it its energies."""
    table = "ERT: {tables: [{name: Main, actions: [{name: read, energy: 512.0}]}]}\n"
    foreign = imported(V03, PROBLEM, table)
    assert loaded(foreign)[0].energy.energy_pj("Main", "Weights", "write") == 512.0
    assert foreign.energies == "the ERT 2.yaml; of Buffer, Spad, MAC accelsim's own models"


def test_figures__of_attributes_count_where_no_table_has_them(imported):
    """As Timeloop's `buffer.cpp` and `arithmetic.cpp` have it: overrides of its own models, which an ERT replaces."""
    text = V03.replace("class: regfile, attributes: {", "class: regfile, attributes: {vector-access-energy: 0.3, ")
    row = "width: 16, block-size: 1, energy: 2, area: 9.5, "  # it has no clusters, and neither has Main
    text = text.replace("class: intmac, attributes: {", f"class: intmac, attributes: {{{row}")
    text = text.replace("width: 64, block-size: 8", "width: 64, block-size: 4, vector-access-energy: 100")
    table = "ERT: {tables: [{name: Buffer, actions: [{name: read, energy: 4.0}]}]}\n"
    foreign = imported(text.replace("memory_depth", "vector-access-energy: 3, memory_depth"), PROBLEM, table)
    (main, buffer, spad), compute = foreign.architecture["levels"], foreign.architecture["compute"]
    assert main["energy"]["read"] == "100 pJ"
    assert (spad["energy"]["read"], spad["energy"]["write"], buffer["energy"]["read"]) == ("0.3 pJ", "0.3 pJ", "4 pJ")
    assert (compute["energy"]["compute"], compute["area"]) == ("2 pJ", "9.5 um2")
    assert foreign.energies == "the ERT 2.yaml and attributes in 0.yaml"
    assert not any(word in str(note) for note in foreign.notes for word in ("energy", "area", "cluster"))


def test_figures__of_attributes_are_those_of_an_instance_also_where_several_share_a_row(imported):
    """A row of 32 bit has four blocks of one word: each reads and writes for what the attribute says."""
    row = "attributes: {vector-access-energy: 0.3, block-size: 1, depth: 16, width: 32, "
    text = V03.replace("attributes: {depth: 16, width: 8, ", row)
    spad = imported(text, PROBLEM, ERT.replace("Spad", "Other")).architecture["levels"][-1]
    assert (spad["block_size"], spad["energy"]["read"], spad["energy"]["write"]) == (1, "0.3 pJ", "0.3 pJ")


def test_elements__have_the_bits_of_the_smallest_word(imported):
    """As Timeloop counts, an element is one word at each level: of 8 bit at the spad, and of 16 at the buffer."""
    foreign = imported(V03.replace("memory_width: 64, word_bits: 8", "memory_width: 64, word_bits: 16"), PROBLEM)
    machine, layer = loaded(foreign)[:2]
    assert [level.word_bits for level in machine.levels] == [8, 16, 8]
    assert {tensor.bits for tensor in layer.tensors} == {8}
    assert {level.element_words(tensor) for level in machine.levels for tensor in layer.tensors} == {1}


def test_bitwidths__of_a_fork_let_elements_share_words(imported):
    """Timeloop with quantization: a row of 64 bit of Main has 32 weights of 2 bit, 16 inputs of 4 or 8 outputs of 8."""
    widths = "bitwidths: {Weights: 2, Inputs: 4, Outputs: 8}"
    texts = PROBLEM, PROBLEM.replace("densities: {Inputs: 0.5}", widths)
    _, (machine, narrow, _, _) = each = [loaded(imported(V03, text, MAPPING, ERT)) for text in texts]
    assert [(level.word_bits, level.block_size) for level in machine.levels] == [(2, 32), (2, 32), (2, 4)]
    assert {tensor.name: (tensor.bits, tensor.psum_bits) for tensor in narrow.tensors} == {
        "Weights": (2, 2),
        "Inputs": (4, 4),
        "Outputs": (8, 8),
    }
    plain, packed = (evaluate(*one[:3]) for one in each)
    assert packed.cycles == plain.cycles
    before, after = (
        {(row["component"], row["tensor"]): row["energy_pj"] for row in result.energy_by_tensor_rows()}
        for result in (plain, packed)
    )
    for name, words, wide in (("Weights", 12, 2), ("Inputs", 2 * 17, 4), ("Outputs", 32, 8)):  # read or written at Main
        for found, bits in ((before, 8), (after, wide)):
            each_pj = 500.5 if name == "Outputs" else 512
            assert found["Main", name] == pytest.approx(math.ceil(words * bits / 64) * each_pj)
    assert after["Buffer", "Inputs"] < before["Buffer", "Inputs"]
    assert after["Spad", "Weights"] < before["Spad", "Weights"]


def test_bitwidths__of_other_names_or_no_numbers_are_refused_all_at_once(imported):
    text = PROBLEM.replace("densities: {Inputs: 0.5}", "bitwidths: {Weight: 2, Inputs: x, Outputs: 0}")
    with pytest.raises(InputError) as error:
        imported(V03, text)
    assert [problem.what for problem in error.value.problems] == [
        "problem.bitwidths: 'Weight' is no data space; there are Weights, Inputs, Outputs",
        "'x' has no value",
        "expected a whole number from 1 on, got '0'",
    ]


def test_cnn_layer__has_a_stride_and_a_dilation_of_each_axis(imported):
    """W goes with R and P, H with S and Q (problem-shapes/cnn-layer.yaml of Timeloop)."""
    sizes = "R: 3, S: 2, P: 5, Q: 7, C: 1, K: 1, N: 1, Wstride: 2, Hstride: 3, Wdilation: 4, Hdilation: 5"
    foreign = imported(f"problem: {{shape: cnn-layer, instance: {{{sizes}}}}}\n")
    (layer,) = load_workload({"workload": foreign.workload}).layers
    ranks = {frozenset(rank) for rank in layer.tensor("Inputs").ranks if len(rank) > 1}
    assert ranks == {frozenset({("R", 4), ("P", 2)}), frozenset({("S", 5), ("Q", 3)})}


def test_meshes__may_have_their_y_axis_alone(imported):
    text = V03.replace("meshX: 2", "meshY: 2")
    assert [(level.x.size, level.y.size) for level in loaded(imported(text, PROBLEM))[0].levels][1] == (3, 2)
    with pytest.raises(InputError, match=r"0.yaml:16:11: Spad: 2 x 2 of meshX and meshY are not its 6 instances"):
        imported(V03.replace("meshX: 2", "meshX: 2, meshY: 2"), PROBLEM)


SPREAD = """
architecture:
  version: 0.4
  nodes:
  - !Component {name: Main, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 8192, width: 64, datawidth: 8}}
  - !Container
    name: PE
    spatial: {meshX: 8, meshY: 4}
    constraints: {spatial: {factors: [K=4, P<=2, R=1]}}
  - !Component {name: mac, class: intmac, attributes: {width: 8}}
"""


@pytest.mark.parametrize(
    ("factors", "x", "y"),
    [
        ("[K=4, P<=2, R=1]", ["K=4", "P<=2", "R=1"], ["P<=2", "R=1", "K=1"]),
        ("[K=4, P=4]", ["K=4", "P=1"], ["P=4", "K=1"]),
        ("[K=0, P=8], permutation: [K, P]", ["P=8", "K=1"], ["K=4", "P=1"]),
        ("[K>=2, P=8]", ["P=8"], ["P=1"]),
    ],
)
def test_factors__on_two_axes_without_a_split_lie_where_they_have_room(imported, factors, x, y):
    """Timeloop tries each split; a factor is of both axes together. They were noted, and asked for nowhere."""
    foreign = imported(SPREAD.replace("[K=4, P<=2, R=1]", factors), PROBLEM)
    (level,) = foreign.constraints["levels"]
    assert level["spatial"] == {"x": {"factors": x}, "y": {"factors": y}}
    assert any("without `split` Timeloop tries both" in note.why for note in foreign.notes)


def test_factors__that_no_two_axes_have_room_for_are_refused(imported):
    with pytest.raises(InputError, match=r"PE: K=4, P=8, R=3 do not fit 8 x 4 instances"):
        imported(SPREAD.replace("[K=4, P<=2, R=1]", "[K=4, P=8, R=3]"), PROBLEM)
