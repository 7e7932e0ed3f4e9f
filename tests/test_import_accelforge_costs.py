"""Energies, rates and the clock of AccelForge's components."""

from __future__ import annotations

import json

import pytest

from accelsim.cli.main import main
from accelsim.inputs.errors import InputError
from tests.conftest import said
from tests.test_import_accelforge import GEMM, MACHINE, machine_of


def test_components__without_energies_are_modelled_and_named(imported):
    text = MACHINE.replace("component_class: Dummy", "component_class: SmartBufferSRAM").replace(
        "leak_power: 0.002", ""
    )
    foreign = imported(text, GEMM)
    assert foreign.energies == "accelsim's component models for Register; the actions of all other components."
    assert machine_of(foreign).energy.find("Register", "Weights", "read").energy_pj > 0
    assert "throughput: the rate of Register is that of a component model; it is unlimited here" in said(foreign)
    assert "tech_node: no technology node is given; 45 nm is taken" in said(foreign)


@pytest.mark.parametrize(
    ("formula", "rates"),
    [
        ("max(read_latency, write_latency)", (None, 16, 32)),
        ("max(read_actions / 1e9, write_actions / 2e9)", (None, 16, 32)),
        ("read_actions / 1e9 + write_actions / 1e9", (16, None, None)),
        ("(read_actions + write_actions) / 5e8", (8, None, None)),
        ("read_latency + write_latency", (16, None, None)),  # the slower of both
        ("0", (None, None, None)),
        ("busy * 2", (16, None, None)),
    ],
)
def test_total_latency__is_any_formula_of_calls_and_times(imported, formula, rates):
    """As in AccelForge's course: 64 bit of an action are 8 words, and a cycle takes 2 ns."""
    text = MACHINE.replace("max(a.n_calls / a.throughput for a in actions)", formula)
    foreign = imported(text, GEMM)
    buffer = machine_of(foreign).levels[1]
    assert (buffer.bandwidth, buffer.read_bandwidth, buffer.write_bandwidth) == rates
    wrong = "total_latency: 'busy' in 'busy * 2' has no value; the sum of its actions' times is taken"
    assert (wrong in said(foreign)) == formula.startswith("busy")


def test_formulas__say_all_names_without_value_at_once(imported):
    text = MACHINE.replace("1024 * 8", "deep * broad").replace("4 * 16", "4 * half").replace("4, reuse", "many, reuse")
    with pytest.raises(InputError) as error:
        imported(text, GEMM)
    assert all(problem.hint == "give it one under `variables`" for problem in error.value.problems)
    named = [problem.what.split("'")[1] for problem in error.value.problems]
    assert named == ["half", "broad", "deep", "many"]
    with pytest.raises(InputError, match=r"'kk' has no value\n.*'mm' in '2 \* mm' has no value"):
        imported(GEMM.replace("{K: 16}", "{K: kk, m: 2 * mm}"))


def test_clock__is_the_rate_that_a_formula_of_the_compute_unit_gives(imported):
    text = MACHINE.replace("name: MAC\n", "name: MAC\n    total_latency: compute_actions / 2.5e8\n")
    assert machine_of(imported(text, GEMM)).clock_hz == 2.5e8


def test_leakage_and_areas__are_those_of_an_instance_with_their_scales(imported):
    """Of 2 mW three times, of 1 mW six times as much, in 2 ns, are 12 pJ each; areas are in square metres."""
    toll = "component_class: Dummy, leak_power: 0.001, leak_power_scale: 3, direction: down, tensors: {keep: weight}"
    toll += ", n_parallel_instances: 2, area: 1e-12, area_scale: 5"
    text = MACHINE.replace("leak_power: 0.002", "leak_power: 0.002\n    leak_power_scale: 3\n    area: 3e-9")
    text = text.replace("  - !Compute\n", f"  - !Toll {{name: Driver, {toll}}}\n  - !Compute\n    area: 5e-12\n")
    foreign = imported(text, GEMM)
    machine = machine_of(foreign)
    assert [machine.energy.find(name, "*", "leak").energy_pj for name in ("Main", "Driver")] == [12, 12]
    assert [machine.areas[name].area_um2 for name in ("Main", "Driver", "MAC")] == [3000, 10, 5]


def test_actions__that_are_not_read_are_told(imported):
    text = MACHINE.replace(
        "{name: compute, energy: 1e-12, throughput: 5e8}", "{name: add, energy: 1}, {name: max, energy: 1}"
    )
    foreign = imported(text, GEMM)
    assert {f"{name}: is not read: actions of a !Compute are compute" for name in ("add", "max")} <= {*said(foreign)}


@pytest.mark.parametrize(
    ("old", "new", "energy"),
    [
        ("bits_per_action: wide}", "bits_per_action: wide, energy_scale: 3}", "24 pJ"),
        ("size: 1024 * 8", "size: 1024 * 8\n    energy_scale: 3", "24 pJ"),
        (", bits_per_action: wide", "", "512 pJ"),
        ("size: 1024 * 8", "size: 1024 * 8\n    bits_per_action: 32", "8 pJ"),
        (", bits_per_action: wide}", "}", "512 pJ"),
        ("bits_per_action: wide}", "values_per_action: {A: 4}}", "16 pJ"),
        ("size: 1024 * 8", "size: 1024 * 8\n    bits_per_value: {All: 4}", "4 pJ"),
    ],
)
def test_actions__have_what_the_node_says_of_all_and_their_scales(imported, old, new, energy):
    """Of an input of 8 bits; without any, 64 pJ of 64 bits are 8 pJ of a word."""
    read = imported(MACHINE.replace(old, new, 1), GEMM).architecture["levels"][1]["energy"]["read"]
    assert (read["Inputs"] if isinstance(read, dict) else read) == energy


def test_compute__has_its_scales_and_keys_of_actions_that_nobody_reads_are_told(imported):
    text = MACHINE.replace("name: MAC\n", "name: MAC\n    energy_scale: 3\n    throughput_scale: 2\n")
    foreign = imported(text.replace("throughput: 5e8}", "throughput: 5e8, area: 3}"), GEMM)
    assert foreign.architecture["compute"]["energy"]["compute"] == "3 pJ"
    assert machine_of(foreign).clock_hz == 1e9
    assert "area: is not read" in said(foreign)


def test_memory__whose_words_are_wider_has_room_for_fewer_and_says_what_its_energies_are(imported):
    plain = MACHINE.replace("component_class: Dummy", "component_class: SmartBufferSRAM")
    plain = plain.replace("size: weight.bits_per_value if weight else 1", "size: 64")
    wide = plain.replace("tensors: {keep: weight}", "tensors: {keep: weight}\n    bits_per_value: {weight: 16}")
    sizes = [imported(text, GEMM).architecture["levels"][2]["size"] for text in (plain, wide)]
    assert sizes == ["64 bit", "32 bit"]
    assert "bits_per_value: energies are those of component models, for words as wide as elsewhere" in said(
        imported(wide, GEMM)
    )


def test_memory__of_which_one_tensor_is_wider_has_the_room_that_it_needs(imported):
    """Inputs of 8 bit in 16, and outputs of 16 in 16: of words as wide as elsewhere, half fit surely."""
    text = MACHINE.replace("size: 1024 * 8", "size: 1024 * 8\n    bits_per_value: {input: 16, output: 16}")
    assert imported(text, GEMM).architecture["levels"][1]["size"] == "4096 bit"


@pytest.mark.parametrize(("machine", "leaking"), [("arch", 4), ("arch2", 1)])
def test_idle_instances__leak_unless_their_fanout_is_power_gateable(shared, capsys, machine, leaking):
    """No loop over 5 fits a fanout of 4, so one of 4 instances is in use, which leak 1 pJ a cycle each."""
    files = shared / "cases" / "turn3" / "leak" / f"{machine}.yaml", shared / "foreign" / "accelforge" / "workloads"
    asked = [str(files[0]), str(files[1] / "basic" / "matmuls.yaml"), "--set", "KN=5", "--set", "M=5"]
    asked += ["--set", "N_EINSUMS=1", "--mapspace", "even", "--factors", "perfect"]
    assert main(["map", *asked, "--no-cache", "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["result"]
    leak_pj = {level["level"]: level["leak_pj"] for level in best["levels"]}
    assert {level["level"]: level["used_instances"] for level in best["levels"]}["Reg"] == 1
    assert leak_pj == {"MainMemory": 0, "Reg": pytest.approx(leaking * best["cycles"])}
    assert sum(row["energy_pj"] for row in best["energy"]) == pytest.approx(best["energy_pj"])
