"""Eyeriss beside what was published: passes as mappings, loading, compression, and which figures are too far off."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.model.evaluate import evaluate
from validation import eyeriss, eyeriss_isca
from validation.eyeriss_passes import LONGEST_RUN, Passes, compression, ramp
from validation.study import errors_by_quantity


def mapped(layer: str, passes: Passes | None = None):
    """A layer of AlexNet in its published passes, or in others."""
    machine, einsum = eyeriss.machine(), eyeriss.einsums("alexnet")[layer]
    return evaluate(machine, einsum, (passes or eyeriss.published_passes()[layer]).mapping(machine, einsum))


@pytest.mark.parametrize(
    ("layer", "pes", "passes"),
    [("conv1", 154, 288), ("conv2", 140, 1536), ("conv3", 156, 384), ("conv4", 156, 384), ("conv5", 156, 256)],
)
def test_published_passes__are_valid_mappings_that_take_as_many_passes_as_their_parameters_say(layer, pes, passes):
    """CONV1: 96 / (16 x 2) filters, 3 channels, 56 / 7 strips, 4 images: 3 x 3 x 8 x 4 = 288. CONV2: 16 x 24 x 4."""
    result = mapped(layer)
    assert result.valid
    assert result.compute_used == pes
    assert ramp(result).passes == passes


@pytest.mark.parametrize(
    ("layer", "ifmap_kib", "psum_kib"),
    [("conv1", 15.5, 72.2), ("conv3", 7.0, 84.5), ("conv4", 10.5, 84.5), ("conv5", 10.5, 84.5)],
)
def test_published_passes__fill_the_buffer_as_table_iii_says(layer, ifmap_kib, psum_kib):
    """CONV1: 35 rows of 227 inputs are 15.5 KiB. CONV2 is left out: P is padded to 28 there."""
    tiles = {t.tensor: t.tile_words * 2 / 1024 for t in mapped(layer).tensors if t.level == "GLB"}
    assert tiles["Inputs"] == pytest.approx(ifmap_kib, abs=0.05)
    assert tiles["Outputs"] == pytest.approx(psum_kib, abs=0.05)


def test_passes__channels_that_do_not_divide_end_in_a_shorter_pass():
    """CONV3 with q r = 6: 256 channels in 43 passes; sums are written 43 times and read as often."""
    result = mapped("conv3", eyeriss.published_passes()["conv4"])
    (sums,) = (t for t in result.tensors if (t.level, t.tensor) == ("GLB", "Outputs"))
    assert sums.total_updates == 43 * 4 * 384 * 13 * 13
    assert sums.total_reads == sums.total_updates


def test_ramp__counts_filters_and_first_windows_of_each_pass_by_hand():
    """CONV1: 288 passes; 32 filters x 121 words at 4 a cycle, and 35 rows x 11 words at 1 a cycle."""
    waits = ramp(mapped("conv1"))
    assert waits.filters == Fraction(288 * 32 * 121, 4)
    assert waits.inputs == 288 * 35 * 11
    assert waits.cycles == waits.filters + waits.inputs


@pytest.mark.parametrize("zeros", [0.0, 0.3, 0.725, 0.95])
def test_compression__is_that_of_an_encoder(zeros):
    draw = random.Random(1)
    values = [draw.random() >= zeros for _ in range(120_000)]
    pairs, run = 0, 0
    for other in values:
        if other or run == LONGEST_RUN:
            pairs, run = pairs + 1, 0
        else:
            run += 1
    assert compression(zeros) == pytest.approx(pairs / 3 * 64 / (len(values) * 16), rel=0.02)


def test_published__tables_add_up_to_their_totals():
    """Totals of Tables V and VI; 0.0029 and 0.0035 words of DRAM a MAC (abstract) make MB 10^6 bytes."""
    for network, power, time, total_mb, dram, a_mac in (
        ("alexnet", 278, 103.5, 208.5, 15.4, 0.0029),
        ("vgg16", 236, 3755.2, 11035.8, 321.1, 0.0035),
    ):
        rows, shapes = eyeriss.layers(network), eyeriss.einsums(network)
        macs = sum(shapes[row.layer].macs for row in rows)
        assert sum(row.processing for row in rows) == pytest.approx(time, abs=0.5)
        assert sum(row.buffer for row in rows) == pytest.approx(total_mb, rel=1e-3)
        assert sum(row.dram for row in rows) == pytest.approx(dram, abs=0.05 * len(rows))
        assert sum(row.power * row.total for row in rows) / sum(row.total for row in rows) == pytest.approx(
            power, abs=1
        )
        assert round(dram * 1e6 / 2 / macs, 4) == a_mac


def test_study__published_mappings_are_within_tolerance_but_for_the_buffer_of_conv3(monkeypatch):
    monkeypatch.setattr(eyeriss, "best", lambda machine, einsum, *, row_stationary: best_of(einsum))
    study = eyeriss.eyeriss_study()
    assert [(f.case, f.quantity, f.variant) for f in study.wrong] == [
        ("AlexNet CONV3", "buffer traffic", eyeriss.PUBLISHED)
    ]
    assert not study.unexplained
    as_conv4 = {f.quantity: f for f in study.figures if f.case == eyeriss.CONV3_AS_CONV4}
    assert abs(as_conv4["buffer traffic"].error) < 1e-3
    judged = [figure for figure in study.figures if figure.agrees is not None]
    worst = {
        errors.quantity: errors.worst for errors in errors_by_quantity(judged) if errors.variant == eyeriss.PUBLISHED
    }
    assert worst["processing time"] < 0.10
    assert worst["DRAM traffic"] < 0.15
    (words,) = (f for f in judged if f.quantity == "DRAM words a MAC")
    assert (words.case, words.published, round(words.ours, 5), words.why) == (
        "AlexNet",
        0.0029,
        0.00307,
        "0.0044 uncompressed",
    )


def best_of(einsum):
    """A mapping without a search, in the place of the best one: all rows one after the other."""
    machine = eyeriss.machine()
    one = Passes(m=1, n=1, e=1, p=1, q=1, r=1, t=1)
    return evaluate(machine, einsum, one.mapping(machine, einsum))


def test_best__row_stationary_mapping_of_conv1_is_the_published_one():
    machine, einsum = eyeriss.machine(), eyeriss.einsums("alexnet")["conv1"]
    found, known = eyeriss.best(machine, einsum, row_stationary=True), mapped("conv1")
    assert found.energy_pj == pytest.approx(known.energy_pj, rel=1e-12)
    assert found.cycles == known.cycles


def test_isca__dram_of_conv3_to_conv5_is_the_published_one():
    found = {entry.layer: entry for entry in eyeriss_isca.breakdowns()}
    for layer in ("conv3", "conv4", "conv5", "fc7", "fc8"):
        entry = found[layer]
        ours = entry.ours[eyeriss.ROWS if layer.startswith("conv") else eyeriss.FREE]
        assert ours["DRAM"] == pytest.approx(entry.published["DRAM"], abs=0.006)
        assert ours["MAC"] == pytest.approx(entry.published["MAC"], abs=0.006)
    assert not eyeriss_isca.eyeriss_isca_study().unexplained


def test_on_chip__needs_a_clock():
    with pytest.raises(AccelsimError, match="eyeriss_jssc: the study needs a clock"):
        eyeriss.on_chip(replace(mapped("conv5"), clock_hz=None))


def test_machine__compresses_as_the_study_does_where_parameters_ask_for_it():
    """CONV3: 72.5 % of zeros in, 79.3 % out. Words stay; DRAM's energy and traffic are those of the coded maps."""
    einsum, passes = eyeriss.einsums("alexnet")["conv3"], eyeriss.published_passes()["conv3"]
    asked = load_architecture("eyeriss_jssc", {"compression.inputs": "0.3667", "compression.outputs": "0.2762"})
    coded = eyeriss.compressed(eyeriss.machine(), eyeriss.layers("alexnet"), 2)
    assert asked.levels == coded.levels
    result = evaluate(asked, einsum, passes.mapping(asked, einsum))
    moved = {t.tensor: t.total_words for t in result.tensors if t.level == "DRAM"}
    assert moved == {t.tensor: t.total_words for t in mapped("conv3").tensors if t.level == "DRAM"}
    coded_words = moved["Weights"] + 0.3667 * moved["Inputs"] + 0.2762 * moved["Outputs"]
    assert eyeriss.on_chip(result).dram_mb == pytest.approx(2e-6 * coded_words)
    assert sum(t.energy_pj for t in result.tensors if t.level == "DRAM") == pytest.approx(
        460 * coded_words, abs=3 * 460
    )
