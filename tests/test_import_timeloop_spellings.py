"""Timeloop's files as their users spell them: keys, types, targets and sizes; files that ask for things together."""

import pytest

from accelsim.inputs.errors import InputError
from tests.timeloop_files import MAPPING, PROBLEM, V03, V04, loaded


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("depth: 16, width: 8, word_bits: 8", "Depth: 16, WIDTH: 8, Data-Width: 8"),
        ("word_bits: 8, meshX: 2", "wordbits: 8, mesh-X: 2"),
        ("memory_depth: 512, memory_width: 64", "size-KB: 4, width: 64"),
        ("word_bits: 8, meshX: 2", "word_bits: 8, datawidth: 16, meshX: 2"),
        ("memory_depth: 512, memory_width: 64", "depth: 512, memory_depth: 9, width: 64, memory_width: 9"),
        ("technology: 45nm", "technology: 0.045um"),
        ("technology: 45nm", "technology: 45e-9"),
        ("class: regfile", "class: RegFile"),
        ("architecture:", "arch:"),
    ],
)
def test_attributes__differ_in_case_and_dashes(imported, old, new):
    assert V03.count(old)
    assert imported(V03.replace(old, new), PROBLEM) == imported(V03, PROBLEM)


def test_attributes__of_two_spellings_are_two(imported):
    """CiMLoop has capital names beside small ones; formulas name attributes as they are written."""
    both = V04.replace("depth: 16, width: 8,", "WORDS: 2 * Rows, Rows: 8, width: 8, Width: 99, Depth: WORDS,")
    assert imported(both, PROBLEM).architecture == imported(V04, PROBLEM).architecture


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("spatial: {meshY: 3}", "spatial: {mesh-y: 3}", None),
        ("spatial: {meshY: 3}", "spatial: [meshY: 3]", None),
        ("spatial: {meshY: 3}", "spatial: {rows: 3}", "spatial: rows: unknown key; keys: meshX, meshY"),
        (
            "spatial: {meshY: 3}",
            "attributes: {instances: 3}",
            "instances: none are given in v0.4; write spatial: {meshX",
        ),
        ("dataspace: {keep: [Weights]}", "keep: [Weights]", "constraints: keep: expected a map, such as dataspace"),
        ("keep: [Inputs, Outputs]", 'keep: "Inputs, Outputs"', None),
        ("bypass: [Weights]", "bypass: [Weights, Inputs]", "Buffer: Inputs is kept, and bypassed too"),
        ("split: 3", "split: 3.0", None),
        ("split: 3", "split: len(spec.problem.instance)", None),
        ("split: 3", "split: many", "'many' has no value"),
        ("permutation: [P, K]", "permutation: [P, K, P]", "permutation: P stands there twice"),
        ("[R=1, K<=2]", "[R: 1, 'K<=2']", None),
        ("[R=1, K<=2]", "[R=1, K<=2, R=3]", "factors: R stands there twice"),
        ("temporal: {", "Temporal: {", None),
        ("temporal: {", "temporals: {", "type: 'temporals' is none; did you mean 'temporal'?"),
        ("permutation: [P, K]", "permute: [P, K]", "Buffer: permute: unknown key; did you mean 'permutation'?"),
    ],
)
def test_constraints__are_read_or_refused_at_their_place(imported, old, new, said):
    assert V04.count(old)
    if said is None:
        assert imported(V04.replace(old, new), PROBLEM) == imported(V04, PROBLEM)
        return
    with pytest.raises(InputError) as error:
        imported(V04.replace(old, new), PROBLEM)
    line = next(number for number, text in enumerate(V04.splitlines(), 1) if old in text)
    assert f"0.yaml:{line}:" in str(error.value)
    assert said in str(error.value)


ASKED = """
arch_constraints:
  targets:
  - {target: Spad, type: temporal, factors: R=1 K<=2}
  - {target: Buffer, type: spatial, factors: R=3, permutation: KRP, split: 1}
"""


def test_constraints__of_several_files_go_together(imported):
    more = "mapspace_constraints:\n- {target: 0, type: temporal, factors: P=2 R=1, permutation: PK}\n"
    asked = loaded(imported(V03, PROBLEM, ASKED, more))[3]
    spad, buffer = asked.of("Spad"), asked.of("Buffer")
    assert [str(factor) for factor in spad.temporal.factors] == ["R=1", "K<=2", "P=2"]
    assert spad.temporal.inner == ("K", "P")
    assert [str(factor) for factor in buffer.y.factors] == ["R=3"]
    beside = V03.replace(
        "  version: 0.3", "  version: 0.3\n  constraints:" + ASKED.partition(":")[2].replace("\n", "\n  ")
    )
    assert imported(beside, PROBLEM, more).constraints == imported(V03, PROBLEM, ASKED, more).constraints


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("{target: Spad, type: temporal, factors: R=3}", "Spad: R=3 after R=1, K<=2"),
        ("{target: Main, type: temporal, permutation: PK}", "Main: ..., K, P after ..., P, K"),
        ("{target: Main, type: temporal}, {target: 3, type: temporal}", "no storage is named '3'"),
        ("{target: Main, type: spatial, factors: K=2}", "Main: loops over K in space, and there is one instance below"),
        ("{target: Spad, factors: R=1}", "'type' is missing; types: temporal, spatial, bypass"),
    ],
)
def test_constraints__that_contradict_others_are_refused(imported, more, said):
    first = ASKED + "  - {target: Main, type: temporal, permutation: KP}\n"
    with pytest.raises(InputError) as error:
        imported(V03, PROBLEM, first, f"mapspace_constraints: [{more}]\n")
    assert "3.yaml:1:" in str(error.value)
    assert said in str(error.value)


def test_factors__of_0_or_above_the_bound_are_the_whole_dimension(imported):
    """Timeloop's constraints.cpp: 0 means the full dimension, and what exceeds the dimension is set to it."""
    given = "constraints: [{target: Spad, type: temporal, factors: R=0 K=64}]\n"
    made = imported(V03, PROBLEM, given)
    assert made.constraints["levels"][0]["temporal"]["factors"] == ["R=3", "K=4"]
    assert ["K=64: is 4 here, the whole dimension" in str(note) for note in made.notes].count(True) == 1
    assert "R=0: is the size of a problem, which is not there" in str(imported(V03, given).notes[0])


@pytest.mark.parametrize(
    ("shared", "limits", "noted"),
    [(8, (8, None, None), False), (12, (12, None, None), True), (24, (None, 8, 16), False)],
)
def test_bandwidths__of_all_accesses_and_of_each_kind(imported, shared, limits, noted):
    """What limits less than the other is left out: 8 words of both never exceed 8 reads and 16 writes."""
    rates = f"shared_bandwidth: {shared}, read_bandwidth: 8, write_bandwidth: 16, memory_depth"
    made = imported(V03.replace("memory_depth", rates), PROBLEM)
    buffer = loaded(made)[0].levels[1]
    assert (buffer.bandwidth, buffer.read_bandwidth, buffer.write_bandwidth) == limits
    assert any("limits of reads and of writes alone are left out" in str(note) for note in made.notes) == noted


def test_outermost_level__keeps_what_constraints_let_it_bypass(imported):
    asked = "constraints: [{target: Main, type: bypass, keep: [Inputs], bypass: [Weights, Outputs]}]\n"
    made = imported(V03, PROBLEM, asked)
    assert made.constraints is None
    assert "which keeps everything here; it charges Weights, Outputs too" in str(made.notes)


def test_networks__without_multicast_may_have_a_type_of_their_own(imported):
    asked = "constraints:\n- {target: Buffer, type: no_multicast, datatypes: [Inputs]}\n"
    fanout = loaded(imported(V03, PROBLEM, asked))[0].levels[1]
    beside = "constraints:\n- {target: Buffer, type: spatial, no_multicast: [Inputs]}\n"
    assert fanout == loaded(imported(V03, PROBLEM, beside))[0].levels[1]
    assert fanout != loaded(imported(V03, PROBLEM))[0].levels[1]


def test_mapping__names_storages_by_number(imported):
    numbered = MAPPING
    for number, name in enumerate(("Spad", "Buffer", "Main")):
        numbered = numbered.replace(f"target: {name},", f"target: {number},")
    assert imported(V03, PROBLEM, numbered).mapping == imported(V03, PROBLEM, MAPPING).mapping


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("data_spaces", "dataSpaces", None),
        ("data_spaces", "data-spaces", None),
        ("read_write: true", "read-write: 'True'", None),
        ("[[[K]], [[R]]]}", "[[[K]], [[R]]], read_write: 'False'}", None),
        ("[[[K]], [[R]]]}", "[[[K]], [[R]]], read_write: true}", "Weights and Outputs have `read_write: true`; one"),
        ("densities: {Inputs: 0.5}", "commonDensity: 2", "density: expected a share above 0, at most 1, got '2'"),
        ("{Inputs: 0.5}", "{Input: 0.5}", "densities: 'Input' is no tensor; there are Weights, Inputs, Outputs"),
        ("{Inputs: 0.5}", "{Inputs: 1.5}", "density: expected a share above 0, at most 1, got '1.5'"),
        ("{Inputs: 0.5}", "{Inputs: half}", "'half' has no value"),
    ],
)
def test_problems__are_read_or_refused_at_their_place(imported, old, new, said):
    if said is None:
        assert imported(PROBLEM.replace(old, new)) == imported(PROBLEM)
        return
    with pytest.raises(InputError) as error:
        imported(PROBLEM.replace(old, new))
    assert said in str(error.value)


def test_common_density__is_that_of_each_tensor(imported):
    common = imported(PROBLEM.replace("densities: {Inputs: 0.5}", "commonDensity: 0.5")).workload
    each = "densities: {Weights: 0.5, Inputs: 0.5, Outputs: 0.5}"
    assert common == imported(PROBLEM.replace("densities: {Inputs: 0.5}", each)).workload


SPARSE = """
sparse_optimizations:
  targets:
  - name: Buffer
    representation_format: {data_spaces: [{name: Inputs, ranks: [{format: CP, metadata_word_bits: 4}]}]}
    action_optimization: [{type: gating, target: Weights, condition_on: [Inputs]}]
  - name: MAC
    compute_optimization: [{type: skipping}]
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  targets:\n", "", None),
        ("representation_format", "Representation-Format", None),
        ("metadata_word_bits", "metadata_wordbits", None),
        ("type: gating", "type: Gating", None),
        ("condition_on", "conditionOn", None),
        ("type: skipping", "type: skiping", "MAC: 'skiping' is no optimization of computing"),
        ("action_optimization", "action_optimisation", "unknown key; did you mean 'action_optimization'?"),
        ("metadata_word_bits", "metadata_words_bits", "unknown key; did you mean 'metadata_word_bits'?"),
    ],
)
def test_sparse_optimizations__are_read_or_refused_at_their_place(imported, old, new, said):
    assert SPARSE.count(old)
    if said is None:
        assert imported(V03, PROBLEM, SPARSE.replace(old, new)) == imported(V03, PROBLEM, SPARSE)
        return
    with pytest.raises(InputError) as error:
        imported(V03, PROBLEM, SPARSE.replace(old, new))
    line = next(number for number, text in enumerate(SPARSE.splitlines(), 1) if old in text)
    assert f"2.yaml:{line}:" in str(error.value)
    assert said in str(error.value)


def test_notes__name_what_else_a_file_says(imported):
    spelt = PROBLEM.replace("  instance:", "  densities: {Inputs: 0.5}\n  instance:")
    said = [str(note) for note in imported(spelt, "arch_constraint: [1]\n").notes]
    assert said[0].endswith(
        "no key that says something of a machine, problem or mapping; did you mean 'arch_constraints'?"
    )
    assert said[1].endswith(":11:3: densities: is not read")
    slow = V03.replace("technology: 45nm", "technology: new, global_cycle_seconds: 1ns")
    said = " ".join(str(note) for note in imported(slow).notes)
    assert "no node but 'new' is given; 45 nm is assumed" in said
    assert "global_cycle_seconds = 1ns: expected seconds, such as 1e-9; not read" in said


def test_targets__that_are_no_level_say_why(imported):
    with pytest.raises(
        InputError, match=r"no storage is named 'Spad'; .*; Spad, class vault, is of no class that stores"
    ):
        imported(V03.replace("class: regfile", "class: vault"), PROBLEM, MAPPING)
