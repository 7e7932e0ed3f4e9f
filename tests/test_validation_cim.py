"""Chips that compute in memory: conditions of published figures, and the study."""

from __future__ import annotations

import pytest

from validation.cim import OURS, THEIRS, cim_study
from validation.cim_conditions import published
from validation.study import errors_by_quantity

CHIPS = """# a source
chip,condition,unit,published,file
neurram_nature_2022,"output 3 bit, input 1 bit, one-phase",TOPS,2.1,x
neurram_nature_2022,"output 3 bit, input 1 bit, one-phase",TOPS/W,43,x
wang_vlsi_2022,voltage point 2 of 5,TOPS/W,18,x
sinangil_jssc_2021,configuration 4 of 6,TOPS/W,321,x
some_chip,"1.2 V, weights 2 bit",TOPS/W,1,x
some_chip,,TOPS/W,2,x
some_chip,in a hurry,TOPS/W,2,x
"""


def test_conditions__are_widths_voltages_phases_and_points(tmp_path):
    (tmp_path / "chips.csv").write_text(CHIPS)
    (neurram, units), *others = published(tmp_path / "chips.csv")
    assert units == {"TOPS": 2.1, "TOPS/W": 43}
    assert (neurram.variables, neurram.bits, neurram.copies) == ({"one_phase": True}, {"output": 3, "input": 1}, 48)
    wang, sinangil, volts, usual, unknown = (condition for condition, _ in others)
    assert (wang.name, wang.variables) == ("0.9 V", {"voltage": 0.9})
    assert sinangil.variables["voltage"] == 1.0
    assert sinangil.variables["average_input_value"] ** 2 == pytest.approx(6 / 16)
    assert (volts.variables, volts.bits, volts.known) == ({"voltage": 1.2}, {"weight": 2}, True)
    assert (usual.variables, usual.bits, usual.known) == ({}, {}, True)
    assert not unknown.known


def test_study__has_accelforges_energy_time_and_area(shared, monkeypatch):
    """And so its errors; the means are those of docs/validation.md."""
    monkeypatch.setenv("ACCELSIM_SHARED", str(shared))
    study = cim_study()
    assert study.wrong == ()
    assert sum(figure.agrees is True for figure in study.figures) == 3 * 28
    errors = {(each.quantity, each.variant): each.mean for each in errors_by_quantity(study.figures)}
    assert errors["published efficiency", OURS] == pytest.approx(0.055, abs=5e-4)
    assert errors["published throughput", OURS] == pytest.approx(0.028, abs=5e-4)
    for quantity in ("efficiency", "throughput", "energy"):
        both = [errors[f"published {quantity}", variant] for variant in (OURS, THEIRS)]
        assert both[0] == pytest.approx(both[1], rel=1e-5)
    assert any("wang_vlsi_2022: no machine (5 conditions)" in note for note in study.notes)
