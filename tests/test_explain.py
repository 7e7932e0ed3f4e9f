"""Explanations: the golden walk of a 1-D convolution, reasons that fit the words moved, totals that fit the formula."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from rich.console import Console

from accelsim.cli import main as cli
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level, load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.results import to_json
from accelsim.results.explain import LARGEST_WALK, explain, explanation_json, rank_names, refuse_large
from accelsim.show.report.explain import explanation_report
from accelsim.show.table import print_parts
from tests.strategies import cases, energy_table

GOLDEN = Path(__file__).parent / "golden" / "explain.txt"
ALL = frozenset({"Weights", "Inputs", "Outputs"})


def conv1d(*levels: tuple[Loop, ...]):
    """The 1-D convolution on the machine with two levels, with these temporal loops."""
    machine, (layer,) = load_architecture("two_level"), load_workload("conv1d").layers
    names = ("DRAM", "BUF")
    return (
        machine,
        layer,
        Mapping(tuple(LevelMapping(n, loops, keep=ALL) for n, loops in zip(names, levels, strict=True))),
    )


def reasons(case, tensor: str) -> list[str]:
    (walk,) = explain(*case, tensor=tensor, level="BUF").walks
    return [step.why for step in walk.steps]


def printed(explanation, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False, emoji=False)
    print_parts(console, explanation_report(explanation, "a file"))
    return "".join(line.rstrip() + "\n" for line in console.file.getvalue().splitlines())


def test_report__is_the_golden_text(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["eval", "--trace", "two_level", "conv1d"]) == 0
    assert capsys.readouterr().out == GOLDEN.read_text(encoding="utf-8")


def test_steps__a_window_keeps_its_halo():
    """P outside: the window of 3 + 1 = 4 inputs moves by 2; 4 + 3 x 2 = 10 words, each input once."""
    case = conv1d((Loop("P", 4),), (Loop("P", 2), Loop("R", 3)))
    (walk,) = explain(*case, tensor="Inputs", level="BUF").walks
    by = "new part only: moved along h by 2"
    same = f"{by}, same step as before"
    assert [step.why for step in walk.steps] == ["whole box: the first one", by, same, same, "end: the tile is emptied"]
    assert [step.entering for step in walk.steps] == [4, 2, 2, 2, 0]
    assert (walk.fills, walk.parent_reads) == (10, 10)
    assert (walk.steps[1].before, walk.steps[1].after) == ({"h": (0, 4)}, {"h": (2, 6)})


def test_steps__another_step_drops_the_halo_and_outputs_come_back():
    """R outside P: inputs move by 4, back by 3, by 4 ..; outputs leave and return for each of the 3 taps."""
    case = conv1d((Loop("R", 3), Loop("P", 2)), (Loop("P", 4),))
    assert reasons(case, "Inputs") == [
        "whole box: the first one",
        "whole box: moved along h by 4, no overlap",
        "whole box: another step than the one before",
        "whole box: moved along h by 4, no overlap",
        "whole box: another step than the one before",
        "whole box: moved along h by 4, no overlap",
        "end: the tile is emptied",
    ]
    (walk,) = explain(*case, tensor="Outputs", level="BUF").walks
    assert [step.first for step in walk.steps] == [4, 4, 0, 0, 0, 0, 0]
    assert (walk.fills, walk.updates, walk.parent_updates, walk.parent_reads) == (16, 24, 24, 16)
    assert reasons(conv1d((Loop("P", 8),), (Loop("R", 3),)), "Weights")[1:-1] == ["stays"] * 7


def test_steps__two_ranks_at_once_take_the_whole_box():
    tensors = (
        Tensor("T", ((("A", 1), ("B", 1)), (("C", 1),))),
        Tensor("Z", ((("A", 1),),), "Outputs", output=True),
    )
    einsum = Einsum("e", {"A": 2, "B": 2, "C": 2}, tensors)
    keep = frozenset({"T", "Z"})
    inner = LevelMapping("L1", (Loop("B", 2),), keep=keep)
    mapping = Mapping((LevelMapping("L0", (Loop("A", 2), Loop("C", 2)), keep=keep), inner))
    levels = tuple(Level(name, "SRAM", size_words=size) for name, size in (("L0", None), ("L1", 50)))
    energies = energy_table(["L0", "L1"], lambda: 1.0)
    machine = Architecture("m", levels, Compute(), energies)
    (walk,) = explain(machine, einsum, mapping, tensor="T").walks
    assert [step.why for step in walk.steps][1:4] == [
        "whole box: moved along c by 1, no overlap",
        "whole box: another step than the one before",
        "whole box: moved along c by 1, no overlap",
    ]
    mapping = Mapping((LevelMapping("L0", (Loop("C", 2),), x=(Loop("A", 2),), keep=keep), inner))
    spread = (Level("L0", "SRAM", x=Axis(2)), levels[1])
    (walk,) = explain(Architecture("m", spread, Compute(), energies), einsum, mapping, tensor="T").walks
    assert (walk.instances, walk.below, walk.parents, walk.fills, walk.parent_reads) == (2, 2, 1, 4, 8)


@given(cases())
def test_totals__equal_the_closed_formula(case):
    explanation = explain(*case)
    assert explanation.same
    result = evaluate(*case)
    counted = {(row["level"], row["tensor"]): row["counted"] for row in explanation.totals}
    assert counted == {
        (t.level, t.tensor): {
            "tile": t.tile_words,
            "reads": t.reads,
            "fills": t.fills,
            "updates": t.updates,
            "total_reads": t.total_reads,
            "total_fills": t.total_fills,
            "total_updates": t.total_updates,
        }
        for t in result.tensors
    }


@given(cases(macs=48))
def test_steps__words_fit_the_reason_and_add_up(case):
    machine, einsum, _ = case
    explanation = explain(*case, steps=10_000)
    totals = {(row["level"], row["tensor"]): row["counted"] for row in explanation.totals}
    outputs = {tensor.name for tensor in einsum.tensors if tensor.output}
    assert Counter((walk.level, walk.tensor) for walk in explanation.walks) == Counter(
        key for key in totals if key[0] != machine.levels[0].name
    )
    for walk in explanation.walks:
        assert walk.count == len(walk.steps)
        assert walk.fills == walk.steps[-1].fills == totals[walk.level, walk.tensor]["fills"]
        assert walk.output == (walk.tensor in outputs)
        for step in walk.steps[:-1]:
            box = {"stays": 0}.get(step.why, walk.tile_words)
            if step.why.startswith("new part only"):
                assert 0 < step.entering < walk.tile_words
            else:
                assert step.entering == box
        assert sum(step.entering for step in walk.steps) == sum(step.leaving for step in walk.steps)
        assert sum(step.entering - step.first for step in walk.steps) == walk.fills
        assert walk.updates == (sum(step.leaving for step in walk.steps) if walk.output else 0)


@given(cases(macs=24))
@example(conv1d((Loop("P", 8),), (Loop("R", 3),)))
def test_report__fits_into_its_width_and_the_json_is_plain(case):
    for level in case[0].levels:  # a level of no whole word for the working tile has no share to print
        assume(level.size_words is None or level.size_words >= level.multiple_buffering)
    explanation = explain(*case, steps=7)
    text = printed(explanation)
    assert max(map(len, text.splitlines())) <= 80
    assert "closed formula: the same" in text
    document = explanation_json(explanation)
    assert json.loads(to_json(document)) == json.loads(json.dumps(document))


def test_report__says_how_many_steps_it_leaves_out():
    text = printed(explain(*conv1d((Loop("P", 8),), (Loop("R", 3),)), tensor="Inputs", steps=4))
    assert "… 5 more steps" in text
    assert "Weights[" not in text


def test_report__says_where_the_formula_differs(monkeypatch):
    case = conv1d((Loop("P", 8),), (Loop("R", 3),))
    explanation = explain(*case)
    row = explanation.totals[0]
    row["formula"]["reads"] += 1
    assert "reads 4" in printed(explanation)


def test_rank_names__are_short_and_differ():
    windows = ((("P", 2), ("R", 1)), (("Q", 1), ("S", 1)))
    assert rank_names(Tensor("I", ((("N", 1),), *windows))) == ("n", "h", "w")
    assert rank_names(Tensor("I", ((("X", 1), ("Y", 3)), (("Z", 1),)))) == ("x+y", "z")
    assert rank_names(Tensor("I", ((("a", 1),), (("A", 1),)))) == ("a", "A")
    assert rank_names(Tensor("I", ())) == ()


def test_large_nests__are_refused_with_the_limit():
    (layer,) = load_workload("conv").layers
    with pytest.raises(AccelsimError, match=r"1,849,688,064 MACs; .* stops at 100,000 .* such as conv1d"):
        refuse_large(layer)
    (small,) = load_workload("conv1d").layers
    refuse_large(small, LARGEST_WALK // 24)
    with pytest.raises(AccelsimError, match="24 MACs on 4,167 compute units"):
        refuse_large(small, LARGEST_WALK // 24 + 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["two_level", "conv"], "try a small workload such as conv1d"),
        (["two_level", "alexnet"], "say which with layer (--layer): conv1, conv2"),
        (["two_level", "conv1d", "--tensor", "Input"], "no tensor 'Input'; did you mean 'Inputs'?"),
        (["two_level", "conv1d", "--level", "GLB"], "no level 'GLB'; levels: DRAM, BUF"),
        (["two_level", "conv1d", "--steps", "-1"], "expected a whole number of at least 0"),
    ],
)
def test_command__says_what_is_wrong(arguments, said, capsys):
    assert cli.main(["eval", "--trace", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_command__an_invalid_mapping_is_explained_but_ends_with_1(tmp_path, capsys):
    path = tmp_path / "m.yaml"
    keep = "keep: [Weights, Inputs, Outputs]"
    path.write_text(f"mapping:\n  levels:\n    - level: DRAM\n    - {{level: BUF, {keep}, temporal: [P=8, R=3]}}\n")
    assert cli.main(["eval", "--trace", "two_level", "conv1d", str(path)]) == 1
    out = capsys.readouterr().out
    assert "INVALID: BUF needs 42 B, has 24 B" in out
    assert "closed formula: the same" in out


def test_command__json_has_the_same_steps(capsys, tmp_path):
    assert cli.main(["eval", "--trace", "two_level", "conv1d", "--json", "--steps", "2", "--tensor", "Inputs"]) == 0
    document = json.loads(capsys.readouterr().out)
    (tile,) = document["tiles"]
    assert [step["after"] for step in tile["steps"]] == [{"h": [0, 3]}, {"h": [1, 4]}]
    assert document["closed_formula_is_the_same"] is True
    path = tmp_path / "m.yaml"
    path.write_text("mapping:\n  levels:\n    - level: DRAM\n    - {level: BUF, keep: [], temporal: [P=8, R=3]}\n")
    assert cli.main(["eval", "--trace", "two_level", "conv1d", str(path)]) == 0
    assert "How to read" not in capsys.readouterr().out  # nothing is kept below DRAM, so there are no steps to read
