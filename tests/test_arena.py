"""The arena: the answers hold, others are judged by them, and mistakes in a submission are told with their place."""

from __future__ import annotations

import json
import re
from importlib import import_module

import pytest

from accelsim import load_mapping
from accelsim.inputs.objective import Objective
from accelsim.model.evaluate import evaluate
from arena import verify
from arena.verify import EQUAL, SPACES, Arena, Submitted, judge
from tests.conftest import REPOSITORY

ARENA = Arena()
OPTIMA = json.loads((REPOSITORY / "arena" / "optima.json").read_text())["mappings"]
BY_KEY = {(row["problem"], row["space"]): row for row in OPTIMA}
WHOLE = {"level": "BUF", "keep": ["Weights", "Inputs", "Outputs"], "temporal": ["M=64", "N=64", "K=64"]}
SMALL = "two_level/gemm_small/energy"
FORGED = {
    "simba_like/gemm_prime/edp": (
        2.4411142551805654e-10,
        """[W,O,I in DRAM__]; [I,O in GlobalBuffer__]; [I in PEInputBuffer__]; T-n in [0..61) shape=1;
        [W in PEWeightBuffer__]; [O in PEAccuBuffer__]; T-k in [0..61) shape=1; [W in PEWeightRegs__];
        T-m in [0..31) shape=1; MAC computes Layer""",
    ),
    "two_level/gemm_small/energy": (
        4.161684773862362e-05,
        """[W,O,I in DRAM__]; T-m in [0..32) shape=2; T-n in [0..16) shape=4; [O in BUF__]; T-k in [0..64) shape=1;
        [I in BUF__]; T-n in [0..4) shape=1; [W in BUF__]; T-m in [0..2) shape=1; MAC computes Layer""",
    ),
    "eyeriss/gemm_large/energy": (
        0.0046913293190300465,
        """[W,O,I in DRAM__]; T-m in [0..2) shape=256; T-n in [0..8) shape=128; [O in GLB__];
        T-k in [0..16) shape=64; [I in GLB__]; S-GLB__y-k in [0..8) shape=8; S-GLB__x-n in [0..8) shape=16;
        [I,O,W in GLB__network]; [W in SPAD__Weights]; T-m in [0..256) shape=1; [I in SPAD__Inputs];
        T-n in [0..16) shape=1; [O in SPAD__Outputs]; T-k in [0..8) shape=1; MAC computes Layer""",
    ),
}
"""What AccelForge 1.0.467 answers to some problems [J, J*s]: value and mapping."""
ZIGZAG = {
    SMALL: (67771352.35071999, "M4 | K4 K16 N16 N4 M16", "{D1: {K: 1}}"),
    "gpu_sm/gemm_batched/energy": (
        41717805.8752,
        "N8 B2 M8 K2 K2 | | | N16",
        "{D1: {B: 4}, D2: {K: 16}, D3: {M: 16}}",
    ),
    "cpu_simd/gemm_prime/energy": (6888540.0, "M2 M2 M2 | N61 K2 K2 | | |", "{D1: {M: 4}, D2: {K: 16}}"),
}
"""What ZigZag 3.9.1 answers [pJ]: value, loops of each memory, innermost first (of all tensors), and of the array."""


@pytest.fixture
def run(capsys):
    """Judge a submission in this process: the exit code and what it printed."""

    def call(*arguments):
        return verify.main(arguments), *capsys.readouterr()

    return call


def submission(path, *entries, tool="mine 1.0"):
    path.write_text(json.dumps({"tool": tool, "mappings": entries}, indent=1))
    return str(path)


def entry(**changes):
    return {"problem": SMALL, "space": "even", "mapping": BY_KEY[SMALL, "even"]["mapping"], **changes}


def test_problems__are_sixty_in_three_spaces_and_proved_where_they_say():
    assert len(ARENA.problems) == 60
    assert set(BY_KEY) == {(name, space) for name in ARENA.problems for space in SPACES}
    assert all(row["proved"] for row in OPTIMA if row["space"] != "imperfect")
    assert all(row["bound"] == pytest.approx(row["value"], rel=1e-10) for row in OPTIMA if row["proved"])


def test_make__writes_the_problems_that_are_there(monkeypatch):
    """Also of machines whose units have an energy for each operand width: the arena has one for all."""
    monkeypatch.syspath_prepend(REPOSITORY / "arena")
    written = json.loads((REPOSITORY / "arena" / "problems.json").read_text())
    assert import_module("make").problems_json() == written


def test_optima__of_larger_spaces_are_no_worse():
    for problem in ARENA.problems:
        even, uneven = (BY_KEY[problem, space]["value"] for space in ("even", "uneven"))
        assert uneven <= even * (1 + EQUAL)
        if BY_KEY[problem, "imperfect"]["proved"]:
            assert BY_KEY[problem, "imperfect"]["value"] <= even * (1 + EQUAL)


def test_optima__are_a_submission_without_a_fault(run):
    code, out, _ = run(str(REPOSITORY / "arena" / "optima.json"), "--json")
    document = json.loads(out)

    assert code == 0
    assert [row["at_best"] for row in document["spaces"]] == [60, 60, 60]
    assert {row["verdict"] for row in document["mappings"]} == {"optimum", "best known"}
    assert not any(row["why"] for row in document["mappings"])


@pytest.mark.parametrize("tool", ["random", "annealing", "genetic", "accelforge", "zigzag"])
def test_rivals__beat_no_proof(tool, run):
    code, out, _ = run(str(REPOSITORY / "arena" / "submissions" / f"{tool}.json"), "--json")
    assert code == 0
    assert {row["verdict"] for row in json.loads(out)["mappings"]} <= {"optimum", "above"}


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(REPOSITORY / "arena")
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks" / "peers")
    return import_module("peers")


@pytest.mark.parametrize("problem", FORGED)
def test_accelforge__means_the_mapping_that_it_is_read_as(problem, peers):
    """What it counts is what we count with drains: in energy and EDP, with partitions, networks and idle fanouts."""
    machine, layer, objective = ARENA.machine(problem), ARENA.layer(problem), ARENA.problems[problem].objective
    value, lines = FORGED[problem]
    mapping = peers.read_lines(re.split(r";\s*", lines), machine, layer)
    result = evaluate(peers.with_drains(machine), layer, mapping)
    verdict = judge(ARENA, Submitted(problem, "uneven", mapping))

    assert value * peers.unit(objective, machine) == pytest.approx(Objective.parse(objective).of(result), rel=1e-6)
    assert verdict.verdict in ("optimum", "above")
    assert verdict.value <= Objective.parse(objective).of(result)


def test_accelforge__that_names_no_loop_or_a_remainder_is_refused(peers):
    machine, layer = ARENA.machine(SMALL), ARENA.layer(SMALL)
    lines = re.split(r";\s*", FORGED[SMALL][1])
    with pytest.raises(ValueError, match="no loop ends K"):
        peers.read_lines([line for line in lines if not line.startswith("T-k")], machine, layer)
    with pytest.raises(ValueError, match="leaves a remainder"):
        peers.read_lines([line.replace("shape=4", "shape=5") for line in lines], machine, layer)


def test_accelforge__takes_what_its_form_holds(peers):
    whys = {name: peers.refusal(ARENA.machine(name), ARENA.layer(name), "energy") for name in ARENA.problems}
    assert sum(not why for why in whys.values()) == 28
    assert "windows" in whys["nvdla/conv_3x3/edp"]
    assert "one width" in whys["maeri/gemm_large/edp"]
    assert whys["nvdla/conv_1x1/energy"] == ""


def test_accelforge__machine_has_a_memory_for_each_partition_and_a_toll_for_the_network(peers):
    parts = {part["name"]: part for part in peers.write_machine(ARENA.machine("eyeriss/gemm_large/energy"))}
    memories = ["DRAM__", "GLB__", "GLB__array", "GLB__network", "SPAD__Weights", "SPAD__Inputs", "SPAD__Outputs"]
    assert list(parts) == [*memories, "MAC"]
    assert parts["DRAM__"]["must_keep"] == parts["DRAM__"]["may_keep"] == ["input", "output", "weight"]
    assert (parts["GLB__"]["must_keep"], parts["GLB__"]["may_keep"]) == (["input", "output"], ["input", "output"])
    assert [axis["may_reuse"] for axis in parts["GLB__array"]["spatial"]] == [
        ["input", "weight"],
        ["input", "weight", "output"],
    ]
    assert parts["SPAD__Inputs"]["size_bits_per_instance"] == 24 * 8


def zigzag_answer(problem):
    value, blocks, spatial = ZIGZAG[problem]
    memories = [[[loop[0], float(loop[1:])] for loop in block.split()] for block in blocks.split("|")]
    return {"value": value, "temporal": dict.fromkeys("IWO", memories), "spatial": spatial}


@pytest.mark.parametrize("problem", list(ZIGZAG)[:2])
def test_zigzag__means_the_mapping_that_it_is_read_as(problem, peers):
    """The machine that it is given counts the same, with free operand registers and first reads of partial sums."""
    zigzag, nests, form = (import_module(name) for name in ("zigzag_golden", "nest", "zigzag_form"))
    machine, layer, answer = ARENA.machine(problem), ARENA.layer(problem), zigzag_answer(problem)
    record = form.write_record(machine, layer)
    mapping = peers.read_lines(form.read_answer(answer, machine, layer), machine, layer)
    theirs, _ = zigzag.load_machine(record["accelerator_spec"], record["workload"]["operand_precision"])
    nest = []
    for level in mapping.levels:
        nest += [nests.Node(level.level, form.ROLES[role]) for role in sorted(level.keep)]
        for axis, loops in (("", level.temporal), ("x", level.x), ("y", level.y)):
            nest += [nests.Step(loop.dim, loop.bound, axis) for loop in loops]
    nest += [nests.Node(zigzag.REGISTER, short) for short in "IW"]
    replayed = nests.replay(theirs, zigzag.load_einsum(record["workload"]), nest, first_reads=True)

    assert replayed.fits
    assert replayed.energy_pj == pytest.approx(answer["value"], rel=1e-9)
    assert judge(ARENA, Submitted(problem, "even", mapping)).verdict in ("optimum", "above")


def test_zigzag__that_leaves_a_remainder_or_tiles_apart_is_refused(peers):
    form, problem = import_module("zigzag_form"), "cpu_simd/gemm_prime/energy"
    with pytest.raises(ValueError, match="L3: a loop of M leaves a remainder"):
        form.read_answer(zigzag_answer(problem), ARENA.machine(problem), ARENA.layer(problem))
    answer = zigzag_answer(SMALL)
    answer["temporal"]["W"] = [[], [["M", 4.0], *answer["temporal"]["W"][1]]]
    with pytest.raises(ValueError, match="DRAM: its tensors have tiles at different loops"):
        form.read_answer(answer, ARENA.machine(SMALL), ARENA.layer(SMALL))
    with pytest.raises(ValueError, match=r"15\.5 iterations are no whole number"):
        form.read_answer(
            {**answer, "spatial": "{D1: {K: 15.5}}"}, *(ARENA.machine("gpu_sm/gemm_small/edp"), ARENA.layer(SMALL))
        )


def test_zigzag__takes_what_its_form_holds(peers):
    form = import_module("zigzag_form")
    asked = {name: (ARENA.machine(name), ARENA.layer(name), each.objective) for name, each in ARENA.problems.items()}
    whys = {name: form.refusal(*each) for name, each in asked.items()}
    assert sum(not why for why in whys.values()) == 7
    assert "windows" in whys["two_level/depthwise/energy"]
    assert "cycles" in whys["gpu_sm/gemm_small/edp"]
    assert "multicast" in whys["eyeriss/gemm_large/energy"]
    assert "different memories" in whys["gemmini_ports/gemm_small/energy"]


def test_peers__that_are_not_there_do_not_play(peers, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(peers, "VENVS", tmp_path)
    monkeypatch.setattr("sys.argv", ["peers.py"])
    assert peers.main() == 0
    out = capsys.readouterr().out
    for release in ("AccelForge 1.0.467", "ZigZag 3.9.1"):
        assert f"{release} is not in {tmp_path}: it does not play" in out


def test_worse_mapping__is_told_with_its_distance(tmp_path, run):
    levels = [{"level": "DRAM", "temporal": ["M=64", "N=64", "K=64"]}, {"level": "BUF", "keep": []}]
    code, out, _ = run(submission(tmp_path / "s.json", entry(mapping={"levels": levels})), "--json")
    (row,) = json.loads(out)["mappings"]
    machine, layer = ARENA.machine(SMALL), ARENA.layer(SMALL)
    value = evaluate(machine, layer, load_mapping({"mapping": {"levels": levels}}, machine, layer)).energy_pj

    assert code == 0
    assert (row["verdict"], row["value"]) == ("above", value)
    assert row["above"] == pytest.approx(value / BY_KEY[SMALL, "even"]["value"] - 1)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"mapping": BY_KEY[SMALL, "uneven"]["mapping"]}, "a level stands twice, which is not even"),
        ({"mapping": BY_KEY[SMALL, "imperfect"]["mapping"]}, "a loop leaves a remainder, which is not even"),
        ({"space": "uneven", "mapping": BY_KEY[SMALL, "imperfect"]["mapping"]}, "which is not uneven"),
        ({"mapping": {"levels": [{"level": "DRAM"}, WHOLE]}}, "BUF"),
    ],
)
def test_mapping__that_is_none_of_its_space_is_invalid(changes, why, tmp_path, run):
    code, out, _ = run(submission(tmp_path / "s.json", entry(**changes)), "--json")
    (row,) = json.loads(out)["mappings"]

    assert code == 1
    assert row["verdict"] == "INVALID"
    assert why in row["why"]


def test_proof__that_is_beaten_is_cried_out(tmp_path, run, monkeypatch):
    """With optima that say 1 % more than is so."""
    for name in ("problems.json", "optima.json"):
        document = json.loads((REPOSITORY / "arena" / name).read_text())
        for row in document["mappings"] if name == "optima.json" else ():
            row["value"] *= 1.01
            row["bound"] = row.get("bound", 0) * 1.01
        (tmp_path / name).write_text(json.dumps(document))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(verify, "Arena", lambda: Arena(tmp_path))
    code, out, _ = run(submission(tmp_path / "s.json", entry()))

    assert code == 1
    assert "BEATS THE PROOF" in out
    assert "NOT ACCEPTED: 1 of 1" in out


def test_value__that_a_tool_counts_otherwise_is_told(tmp_path, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = run(submission(tmp_path / "s.json", entry(value=5e7)))
    assert code == 0
    assert "its tool counts 5e+07" in out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"problem": "two_level/gemm_smal/energy"}, "5:15: [0].problem: 'two_level/gemm_smal/energy' is no problem"),
        ({"space": "odd"}, "6:13: [0].space: expected one of even, uneven, imperfect, got 'odd'"),
        ({"value": "x"}, "expected a number, got 'x'"),
        ({"mapping": {"levels": [{"level": "DRAM", "temporal": ["Z=2"]}]}}, "'Z' is no dimension of gemm_small"),
        ({"speed": 1}, "[0].speed: unknown key"),
    ],
)
def test_mistakes__are_told_with_their_place(changes, said, tmp_path, run):
    path = submission(tmp_path / "s.json", entry(**changes))
    code, out, err = run(path)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith(f"{path}:")


def test_mapping__stands_once_for_a_problem_and_space(tmp_path, run):
    code, _, err = run(submission(tmp_path / "s.json", entry(), entry()))
    assert code == 2
    assert "two_level/gemm_small/energy even has a mapping at line" in err
