"""Studies: figures beside published ones, their errors, and the commands that print them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

import validation.__main__ as validation
from tests.conftest import REPOSITORY
from validation.plot_study import study_table
from validation.study import Figure, Study, errors_by_quantity
from validation.timeloop import CaseComparison, timeloop_study


def figure(case: str, published: float, ours: float, tolerance: float | None = None) -> Figure:
    return Figure(case, "time", "ms", published, ours, tolerance)


@pytest.mark.parametrize(
    ("published", "ours", "error"), [(10, 11, 0.1), (10, 9, -0.1), (0, 0, 0), (0, 1, float("inf")), (-4, -4, 0)]
)
def test_error__is_relative_to_the_published_figure(published, ours, error):
    assert figure("a", published, ours).error == pytest.approx(error)


def test_agrees__within_the_tolerance_only_and_unjudged_without_one():
    assert figure("a", 10, 11, 0.11).agrees
    assert figure("a", 10, 11, 0.09).agrees is False
    assert figure("a", 10, 11).agrees is None
    assert figure("a", 10, 10, 0.0).agrees


def test_errors_by_quantity__group_by_quantity_and_name_the_worst_case():
    figures = [figure("a", 10, 10, 0.1), figure("b", 10, 12, 0.1), figure("c", 10, 9.5, 0.1)]
    figures.append(Figure("a", "power", "W", 1, 2))
    time, power = errors_by_quantity(figures)
    assert (time.count, time.equal, time.within, time.worst_case) == (3, 1, 2, "b")
    assert (time.median, time.mean, time.worst) == pytest.approx((0.05, 0.25 / 3, 0.2))
    assert (power.count, power.within, power.worst) == (1, None, 1.0)


STUDY = Study("timeloop", "a study", "a table", (figure("a", 10, 10, 0.0), figure("b", 10, 12)), ("a note",))


@pytest.fixture
def study(capsys, monkeypatch):
    """A function that runs `python -m validation` with one study, which returns figures given; code, stdout, stderr."""

    def call(found, *arguments):
        monkeypatch.setattr(validation, "STUDIES", {"timeloop": found if callable(found) else lambda: found})
        code = validation.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


def test_main__prints_figures_errors_and_notes(study):
    code, out, _ = study(STUDY)
    assert code == 0
    for word in ("a table", "time [ms]", "+20.00 %", "- a note", "1 of 2"):
        assert word in out
    assert json.loads(study(STUDY, "timeloop", "--json")[1])["studies"][0]["figures"][1]["ours"] == 12


def test_main__ends_with_1_if_a_figure_is_too_far_off(study):
    wrong = Study("timeloop", "a study", "a table", (figure("b", 10, 12, 0.1),))
    assert study(wrong)[0] == 1
    remark = replace(wrong.figures[0], why="the paper's table has a slip")
    for explained in (False, True):
        code, out, _ = study(replace(wrong, figures=(replace(remark, explained=explained),)))
        assert code == (0 if explained else 1)
        assert "the paper's table has a slip" in out


def test_main__absent_records_are_named_not_fatal_unless_asked_for(study, monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELSIM_SHARED", str(tmp_path))
    code, _, err = study(timeloop_study)
    assert code == 0
    assert "timeloop: not run:" in err
    assert str(tmp_path) in err
    code, _, err = study(timeloop_study, "timeloop")
    assert code == 2
    assert "is absent" in err


def test_main__writes_a_page_with_every_figure_and_plots(study, tmp_path):
    assert study(STUDY, "-o", tmp_path / "out")[0] == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "validation.md", "validation.json", "timeloop.svg", "timeloop.png",
    }  # fmt: skip
    page = (tmp_path / "out" / "validation.md").read_text()
    assert "![a study](timeloop.svg)" in page
    assert "+20.00 %" in page


def test_main__names_a_study_that_it_does_not_know(capsys):
    with pytest.raises(SystemExit):
        validation.main(["nosuch"])
    assert "no study nosuch; studies: timeloop, sram" in capsys.readouterr().err


def test_main__takes_records_behind_the_name_of_a_study(validate):
    records = str(REPOSITORY / "tests" / "golden" / "scalesim.csv")
    code, out, _ = validate("scalesim", records)
    assert (code, "cycles, is" in out) == (0, True)
    figures = json.loads(validate("scalesim", "--json", records)[1])["studies"][0]["figures"]
    assert all(figure["agrees"] for figure in figures)
    code, _, err = validate("timeloop", "/nonexistent", "scalesim", records)
    assert (code, "/nonexistent: no such file" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("timelop x", "no study timelop, x; did you mean 'timeloop'? studies: timeloop, sram"),
        ("nvdla gemm x.csv", "gemm stands first, and alone: python -m validation gemm MEASURED"),
        ("gemm", "required: MEASURED"),
        ("gemm x.csv --every", "unrecognized arguments: --every"),
    ],
)
def test_main__says_what_it_does_not_take(validate, capsys, words, said):
    with pytest.raises(SystemExit):
        validate(*words.split())
    assert said in capsys.readouterr().err


def test_timeloop__equal_records_end_with_0(validate, monkeypatch):
    skipped = CaseComparison("b", compared=False, reason="imperfect factors", equal=True)
    found = [CaseComparison("a", True, "", 12, equal=True, counts="whole execution"), skipped]
    monkeypatch.setattr("validation.timeloop.validate_timeloop", lambda paths: found)
    code, out, _ = validate("timeloop", "x")
    assert code == 0
    assert re.search(r"^a +equal quantities +whole execution +12 +12 +\+0.00 %$", out, re.MULTILINE)
    assert "- 12 quantities of 1 of 2 records compared\n- not compared: b: imperfect factors\n" in out
    found.append(CaseComparison("c", True, "", 12, 1, "cycles: ours 1, Timeloop's 2"))
    code, out, _ = validate("timeloop", "x")
    assert (code, "c, equal quantities: cycles: ours 1, Timeloop's 2" in out) == (1, True)
    found[2] = CaseComparison("d", compared=False, reason="cannot be read: no energies")
    code, out, _ = validate("timeloop", "x")
    assert (code, "d, records that can be read: cannot be read: no energies" in out) == (1, True)
    found[:] = [skipped]
    assert validate("timeloop", "x")[0] == 1


def test_study_table__has_ratios_of_what_is_above_0():
    rows = study_table(replace(STUDY, figures=(*STUDY.figures, figure("c", 0, 1))))
    assert [(row["case"], row["ratio"]) for row in rows] == [("a", 1.0), ("b", 1.2)]
