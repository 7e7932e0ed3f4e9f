"""Sweep files and the expressions in them: what is read, and what is said of mistakes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.cli.inspecting import check_files
from accelsim.designs.checking import read_values
from accelsim.designs.sweep import load_sweep, suited_objective
from accelsim.inputs.errors import InputError
from accelsim.inputs.expression import ExpressionError, condition, parse, quantity
from accelsim.inputs.source import Problems, compose_text

KINDS = {"a": "number", "b": "number", "glb": "size", "name": "text", "front": "condition"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("7 // 2", 3), ("7 % 4", 3), ("-a + 1", -3), ("2 - 3 - 4", -5),
        ("a / b", Fraction(4, 3)), ("glb / 1 KiB", 2), ("1 <= a < 5", True), ("1 <= a < 4", False),
        ("not a == 4 or b == 3 and front", True), ("name == 'x' and name != \"y\"", True), ("$a * 2", 8),
        ("glb * 2 == 4 KiB", True), ("0.5 * glb == 1 KiB", True), ("glb / 8 bit * 1 um2 > 0 mm2", True),
    ],
)  # fmt: skip
def test_parse__works_out_what_is_written(text, value):
    values = {"a": Fraction(4), "b": Fraction(3), "glb": Fraction(2 * 8192), "name": "x", "front": True}
    assert parse(text, KINDS).value(values) == value


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("a +", 3, "a value is missing"), ("a b", 2, "'b' is not expected there"), ("(a", 2, "a ) is missing"),
        ("c > 1", 0, "'c' is unknown"), ("a > 1 KiB", 4, "compares a number with a size"),
        ("glb + 1", 6, "adds a size"),
        ("a and b > 1", 10, "'and' joins conditions"), ("name < 'x'", 7, "texts have no order"),
        ("a > __import__('os')", 4, "'__import__' is unknown"), ("a > 1; b", 5, "cannot read '; b'"),
        ("a + 1", 0, "is a number, not a condition"), ("(" * 60 + "a" + ")" * 60, 41, "too many parentheses"),
    ],
)  # fmt: skip
def test_condition__says_what_is_wrong_and_where(text, at, what):
    with pytest.raises(ExpressionError) as error:
        condition(text, KINDS)
    assert what in error.value.what
    assert error.value.at == at


@given(st.text(max_size=30))
def test_parse__never_fails_otherwise(text):
    try:
        parse(text, KINDS)
    except ExpressionError:
        return


def sums(part):
    return st.tuples(part, st.sampled_from("+-*"), part).map(lambda found: f"({' '.join(found)})")


@given(st.recursive(st.integers(0, 99).map(str), sums, max_leaves=8))
def test_parse__is_python_on_integers(text):
    assert parse(text, {}).value({}) == eval(text)


def test_quantity__reads_the_units_of_parameters():
    assert quantity("4 GB/s") == (32 * 10**9, "rate per s")
    assert quantity("128 words/cycle") == (128, "rate in words")
    assert quantity("1.5 GHz") == (1_500_000_000, "frequency")
    assert [quantity(f"2 {unit}") for unit in ("uW", "mW", "W")] == [
        (Fraction(2, 10**6), "power"),
        (Fraction(2, 1000), "power"),
        (2, "power"),
    ]


def written(tmp_path, text):
    file = tmp_path / "s.yaml"
    file.write_text("sweep:\n  architecture: eyeriss\n  workloads: [conv]\n" + text)
    return file


@pytest.mark.parametrize(
    ("objectives", "suited"),
    [("edp", "edp"), ("edp area", "edp"), ("energy cycles", "edp"), ("energy time", "edp"), ("time area", "cycles"),
     ("energy power", "energy"), ("area", "energy")],
)  # fmt: skip
def test_suited_objective__counts_what_the_objectives_count(objectives, suited):
    assert suited_objective(objectives.split()) == suited


def test_ranges__are_written_out(tmp_path):
    sweep = load_sweep(written(tmp_path, """  parameters:
    pe.x: {from: 2, to: 8, step: 3}
    glb: {from: 32 KiB, to: 100 KiB, factor: 2}
    bandwidth: {from: 0.5 GB/s, to: 1.5 GB/s, step: 500 MB/s}
    clock: [100 MHz, 0.2 GHz]
"""))  # fmt: skip
    assert [p.values for p in sweep.parameters] == [
        ("2", "5", "8"), ("32 KiB", "64 KiB"), ("0.5 GB/s", "1 GB/s", "1.5 GB/s"), ("100 MHz", "0.2 GHz"),
    ]  # fmt: skip
    assert sweep.mapper.options.objective == "edp"
    assert sweep.grid == 3 * 2 * 3 * 2


def test_ranges__may_begin_with_0_of_a_unit():
    problems = Problems()
    node = compose_text("{from: 0 KiB, to: 2 KiB, step: 512 B}", "s.yaml", problems)
    assert read_values(node, problems) == ["0 KiB", "0.5 KiB", "1 KiB", "1.5 KiB", "2 KiB"]
    assert not len(problems)


def test_check__reports_every_mistake_of_a_sweep(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("""sweep:
  architecture: eyeris
  workloads: [resnet5, {workload: resnet50, layers: [conv9]}]
  parameters:
    pe.x: {from: 4, to: 16}
    glb: {from: 32 KiB, to: 3, factor: 2}
    pe.y: {from: 1, to: 9, factor: 1}
  budgets: {area: 5 mm, power: 3}
  objectives: [energi]
  strategy: random
  prnue: true
""")
    absent = "no such file, and none of that name is shipped with accelsim"
    found = [str(problem).removeprefix(f"{file}:") for problem in check_files([file])]
    assert found == [
        f"2:17: architecture: eyeris: {absent}; did you mean 'eyeriss'?",
        f"3:15: workloads[0]: resnet5: {absent}; did you mean 'resnet50'?",
        "3:24: workloads[1]: resnet50 has no layer 'conv9'; did you mean 'conv1'?",
        "5:11: parameters.pe.x: a range has a 'step' or a 'factor'; such as {from: 1, to: 8, factor: 2}",
        "6:29: parameters.glb.to: is a number, and 'from' is a size",
        "7:36: parameters.pe.y.factor: is no number above 1",
        "8:19: budgets.area: expected an area above 0, got '5 mm'; write it like '5 mm2'",
        "8:32: budgets.power: expected a power above 0, got '3'; write it like '300 mW'",
        "9:16: objectives[0]: expected an objective (energy, cycles, time, edp, power, area), got 'energi'; "
        "did you mean 'energy'?",
        "10:13: strategy: 'designs' is missing beside 'strategy: random'; say how many",
        "11:3: prnue: unknown key; did you mean 'prune'?",
    ]  # fmt: skip


def test_check__reports_what_is_empty_of_another_kind_or_not_told(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "params: {pe: 2}\narchitecture: {name: a, levels: [{name: DRAM, class: DRAM, word: 16 bit, "
        "energy: {read: 1 pJ, write: 1 pJ}, fanout: {x: $pe}}], "
        "compute: {name: MAC, class: intmac, energy: {compute: 1 pJ}}}\n"
    )
    file = tmp_path / "s.yaml"

    def told(text):
        file.write_text(text)
        return [str(problem).replace(f"{tmp_path}/", "") for problem in check_files([file])]

    start = "sweep:\n  architecture: a.yaml\n  parameters: {pe: [2, 4]}\n"
    assert told(start + "  workloads: [{workload: conv1d, layers: [conv1d], all_layers: true}]\n") == [
        "s.yaml:4:42: workloads[0].layers: `all_layers` counts all, and here some are named; leave one of the two out"
    ]
    assert told(start + "  workloads: [{workload: conv1d, layers: [], set: {z: 1, W: [1]}}]\n") == [
        "s.yaml:4:42: workloads[0].layers: expected names of layers, got an empty list; leave `layers` out",
        "s.yaml:4:55: workloads[0].set.z: no parameter of conv1d is named so; the files have no `params`",
        "s.yaml:4:61: workloads[0].set.W: expected one value, got a list",
        "s.yaml:4:61: workloads[0].set.W: no parameter of conv1d is named so; the files have no `params`",
    ]
    rest = "  workloads: [conv1d]\n"
    assert told(start + rest + "  objectives: [time, area]\n  budgets: {power: 1 W}\n") == [
        "s.yaml:5:15: objectives: the architecture tells no area; write `area: …`, a formula of the parameters",
        "s.yaml:5:15: objectives: the architecture tells no clock, and time needs one; write its `clock` there",
        "s.yaml:6:20: budgets.power: the architecture tells no clock, and power needs one; write its `clock` there",
    ]
    assert told(start.replace("a.yaml", "s.yaml") + rest) == [
        "s.yaml:1:1: this file holds: sweep; expected: architecture"
    ]
    assert told(start.replace("[2, 4]", "[2, [3]]") + rest) == [
        "s.yaml:3:24: parameters.pe[1]: does not suit a.yaml:2:121: levels[0].fanout.x: expected a whole number, "
        "got a list"
    ]


def test_check__reports_names_values_and_conditions_at_their_places(tmp_path):
    file = written(tmp_path, "  parameters:\n    pe.x: [4]\n    pex.y: [1]\n")
    assert [str(p)[len(str(file)) :] for p in check_files([file])] == [
        ":6:5: parameters: 'pex.y' is no parameter of eyeriss or of a workload; did you mean 'pe.y'?"
    ]
    file = written(tmp_path, "  parameters:\n    pe.x: [4]\n    glb: [1 KiB]\n  conditions: [glb <= 128, pe.z > 3]\n")
    assert [str(p)[len(str(file)) :] for p in check_files([file])] == [
        ":7:23: conditions[0]: 'glb <= 128' compares a size with a number; write a number with its unit",
        ":7:28: conditions[1]: 'pe.z' is unknown; did you mean 'pe.y'?",
    ]
    file = written(tmp_path, "  parameters:\n    glb: [1 KiB, 3 KX]\n    clock: [1 GHz]\n")
    with pytest.raises(InputError) as error:
        load_sweep(file)
    assert [problem.mark.line for problem in error.value.problems] == [5]
    assert "unknown unit 'KX'" in str(error.value)
    file = written(tmp_path, "  parameters:\n    glb: [1 KiB, 3 KX]\n  conditions: [glb > 3]\n")
    with pytest.raises(InputError) as error:
        load_sweep(file)
    assert [problem.mark.line for problem in error.value.problems] == [5, 6]  # the value, and what it makes of glb
