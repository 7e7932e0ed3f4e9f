"""Timelines: they end with the cycles of a mapping, lose nothing, and show what waits for what."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.inputs.level_features import Dma
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.model.evaluate import evaluate
from accelsim.show.plots.time import plot_time, time_table, timeline_table
from tests.engine_oracle import walk_engines
from tests.strategies import cases, random_case, with_engines, with_overlaps
from tests.test_compression import EVERY, GEMM, two_levels


@settings(max_examples=300)
@given(cases(), st.randoms(use_true_random=True))
def test_timeline__ends_when_the_tiles_run_event_by_event_do(case, rng):
    plain, einsum, mapping = case
    if len(plain.levels) == 1 or len({node.level for node in mapping.levels}) < len(mapping.levels):
        return
    machine = with_engines(plain, einsum, rng)
    found = evaluate(machine, einsum, mapping)
    if not found.moves:
        return
    events = timeline_table(found, einsum, None)
    walked = float(walk_engines(machine, einsum, mapping, found.overlapped_cycles))
    assert math.isclose(events[-1]["end"], walked, abs_tol=1)
    busy = [row for row in events if row["what"] == "computing"]
    assert math.isclose(sum(row["end"] - row["begin"] for row in busy), found.overlapped_cycles)
    stopped = sum(moves.cycles for moves in found.moves if not moves.overlap)
    lanes = {moves.level for moves in found.moves if not moves.overlap}
    assert math.isclose(sum(r["end"] - r["begin"] for r in events if r["component"] in lanes), stopped, abs_tol=1e-6)
    few = timeline_table(found, einsum, 2)
    assert {row["tile"] for row in few if row["what"] == "computing"} <= {0, 1}


@settings(max_examples=300)
@given(cases(), st.randoms(use_true_random=True))
def test_timeline__ends_with_the_cycles_where_fills_wait(case, rng):
    check_waits(case, rng)


@pytest.mark.parametrize("seed", [576, 833, 1241, 1244, 1365])
def test_timeline__has_sums_that_come_back_to_a_tile_that_is_shown_once(seed):
    check_waits(random_case(random.Random(seed), 200, 5), random.Random(seed + 7))


def check_waits(case, rng):
    plain, einsum, mapping = case
    found = evaluate(with_overlaps(plain, einsum, rng), einsum, mapping)
    if found.all_overlaps:
        return
    events = timeline_table(found, einsum, None)
    assert math.isclose(events[-1]["end"], found.cycles)
    waited = sum(cycles for each in found.fills for _, cycles in each.waiting)
    busy = sum(row["end"] - row["begin"] for row in events if row["what"] == "computing")
    assert math.isclose(busy, found.overlapped_cycles)
    assert math.isclose(sum(row["end"] - row["begin"] for row in events), found.overlapped_cycles + waited)


def test_events__of_fills_and_drains_that_all_else_waits_for():
    """Two tiles of M, 2 rows of inputs and outputs each, at a word a cycle; the weights, 5 x 3, come once."""
    outer, inner = two_levels(bandwidth=Fraction(1)).levels
    machine = replace(two_levels(), levels=(outer, replace(inner, overlap="none")))
    rest = (Loop("M", 2), Loop("N", 3), Loop("K", 5))
    nest = Mapping((LevelMapping("DRAM", (Loop("M", 2),), keep=EVERY), LevelMapping("GLB", rest, keep=EVERY)))
    events = rows(timeline_table(evaluate(machine, GEMM, nest), GEMM, None))
    assert sorted(events) == [
        ("GLB", "drains", 0, 55, 61),
        ("GLB", "drains", 1, 101, 107),
        ("GLB", "fills", 0, 0, 10),
        ("GLB", "fills", 0, 10, 25),
        ("GLB", "fills", 1, 61, 71),
        ("MAC", "computing", 0, 25, 55),
        ("MAC", "computing", 1, 71, 101),
    ]


def timed(loop: str, bound: int, dma: Dma):
    """A GEMM of 4 x 3 x 5 with one loop outside the inner level, which has an engine."""
    outer, inner = two_levels().levels
    machine = replace(two_levels(), levels=(outer, replace(inner, dma=dma)))
    rest = tuple(Loop(dim, size // (bound if dim == loop else 1)) for dim, size in GEMM.dims.items())
    nest = Mapping((LevelMapping("DRAM", (Loop(loop, bound),), keep=EVERY), LevelMapping("GLB", rest, keep=EVERY)))
    return evaluate(machine, GEMM, nest)


def rows(events):
    return [(row["component"], row["what"], row["tile"], row["begin"], row["end"]) for row in events]


def test_events__of_an_engine_that_overlaps():
    """Four tiles of 15 MACs, issued every 20 cycles: the compute units wait 5 cycles for each but the first, 20."""
    events = rows(timeline_table(timed("M", 4, Dma(20)), GEMM, 2))
    assert events == [
        ("GLB", "issue", 0, 0, 20),
        ("MAC", "waits", 0, 0, 20),
        ("MAC", "computing", 0, 20, 35),
        ("GLB", "issue", 1, 20, 40),
        ("MAC", "waits", 1, 35, 40),
        ("MAC", "computing", 1, 40, 55),
    ]


def test_events__of_an_engine_that_stops_all_else():
    """K is outside: five tiles, of which only the last one leaves; 12 words, a row of one cycle each."""
    dma = Dma(7, GEMM.tensors[0].bits, {"Outputs": Fraction(1)}, overlap=False)
    result = timed("K", 5, dma)
    events = rows(timeline_table(result, GEMM, None))
    assert events[:2] == [("GLB", "issue", 0, 0, 7), ("MAC", "computing", 0, 7, 19)]
    assert events[-1] == ("GLB", "drains", 4, 95, 107)
    assert result.cycles == 107
    assert not [row for row in events if row[1] == "waits"]


@pytest.mark.parametrize("dma", [Dma(20), Dma(7, overlap=False)])
def test_plot__has_a_bar_and_a_timeline(dma):
    result = timed("M", 4, dma)
    assert sum(row.get("cycles", 0) for row in time_table(result, GEMM)) == result.cycles
    axes = plot_time(result, GEMM)
    assert len(axes.child_axes) == 2
    assert all(math.isnan(bar.get_height()) for bar in axes.patches)  # they stand in the legend alone
    plain = evaluate(two_levels(), GEMM, result.mapping)
    assert len(plot_time(plain, GEMM).child_axes) == 1
