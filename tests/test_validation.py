"""Studies: figures beside published ones, their errors, and the command that prints them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from accelsim.cli import validating
from accelsim.show.plots import study_table
from accelsim.validation import STUDIES, Figure, Study, errors_by_quantity


@pytest.fixture(autouse=True)
def only_timeloop(monkeypatch):
    """Without a name, run the one study that these tests replace."""
    monkeypatch.setattr(validating, "STUDIES", ("timeloop",))


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


@pytest.fixture(autouse=True)
def _one_study(monkeypatch):
    """Let `accelsim validate` run Timeloop's study alone, which the tests here replace."""
    monkeypatch.setattr(validating, "STUDIES", ("timeloop",))


STUDY = Study("timeloop", "a study", "a table", (figure("a", 10, 10, 0.0), figure("b", 10, 12)), ("a note",))


def test_validate__prints_figures_errors_and_notes(run, monkeypatch):
    monkeypatch.setitem(STUDIES, "timeloop", lambda paths: STUDY)
    monkeypatch.setattr(validating, "STUDIES", ("timeloop",))
    code, out, _ = run("validate")
    assert code == 0
    for word in ("a table", "time [ms]", "+20.00 %", "- a note", "1 of 2"):
        assert word in out
    assert json.loads(run("validate", "timeloop", "--json")[1])["studies"][0]["figures"][1]["ours"] == 12


def test_validate__ends_with_1_if_a_figure_is_too_far_off(run, monkeypatch):
    wrong = Study("timeloop", "a study", "a table", (figure("b", 10, 12, 0.1),))
    monkeypatch.setitem(STUDIES, "timeloop", lambda paths: wrong)
    monkeypatch.setattr(validating, "STUDIES", ("timeloop",))
    assert run("validate")[0] == 1
    remark = replace(wrong.figures[0], why="the paper's table has a slip")
    for explained in (False, True):
        known = replace(wrong, figures=(replace(remark, explained=explained),))
        monkeypatch.setitem(STUDIES, "timeloop", lambda paths, known=known: known)
        code, out, _ = run("validate")
        assert code == (0 if explained else 1)
        assert "the paper's table has a slip" in out


def test_validate__absent_records_are_named_not_fatal_unless_asked_for(run, monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELSIM_SHARED", str(tmp_path))
    monkeypatch.setitem(STUDIES, "timeloop", STUDIES["timeloop"])
    code, _, err = run("validate")
    assert code == 0
    assert "timeloop: not run:" in err
    assert str(tmp_path) in err
    code, _, err = run("validate", "timeloop")
    assert code == 2
    assert "is absent" in err


def test_validate__writes_a_page_with_every_figure_and_plots(run, monkeypatch, tmp_path):
    monkeypatch.setitem(STUDIES, "timeloop", lambda paths: STUDY)
    assert run("validate", "timeloop", "-o", tmp_path / "out")[0] == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "validation.md", "validation.json", "timeloop.svg", "timeloop.png",
    }  # fmt: skip
    page = (tmp_path / "out" / "validation.md").read_text()
    assert "![a study](timeloop.svg)" in page
    assert "+20.00 %" in page


def test_study_table__has_ratios_of_what_is_above_0():
    rows = study_table(replace(STUDY, figures=(*STUDY.figures, figure("c", 0, 1))))
    assert [(row["case"], row["ratio"]) for row in rows] == [("a", 1.0), ("b", 1.2)]
