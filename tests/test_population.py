"""The spread against brute force: exact numbers, uniform draws, and what is estimated from them.

`ACCELSIM_CENSUS_PROBLEMS`: how many random map spaces are looked at (default 600).
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from accelsim import load_architecture, load_workload
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.objective import QUANTITIES
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.population.counting import (
    Keeping,
    Nest,
    as_integer,
    carry,
    count_by_keep,
    count_mappings,
    count_quickly,
)
from accelsim.population.sampling import Sampler
from accelsim.population.spread import Clock, SeenMappings, _walk, spread
from accelsim.search.exact.cost_tables import least_offchip_words, needed_words
from accelsim.search.result import column_value
from accelsim.show.report.search import spread_sentence
from tests.brute import identity, truth
from tests.effort import many
from tests.problems import MOST, plain, problem

PROBLEMS = many("CENSUS_PROBLEMS", 600, least=600)
SMALL = 250
"""Mappings of most of them at most, so that many can be looked at."""
LARGE, CENSUSES = PROBLEMS // 3, PROBLEMS // 12
"""Map spaces of up to `MOST` mappings that are counted, and whose spread is taken."""
GROUPS, LARGE_GROUPS = 6, 5
DRAWN = 24
"""Problems of each group that are also sampled."""


def space_of(seed, most=MOST):
    """A random small map space and the truth about it; None where what fits depends on the order of loops."""
    machine, einsum, constraints = problem(seed, most)
    constraints = replace(constraints, min_utilization=0.0)
    encoded = encode(machine, einsum)
    if encoded.constants.two_widths[0]:
        return None
    found = truth(machine, einsum, constraints, most)
    try:
        return MapSpace(encoded, constraints), found
    except NoValidMappingError:
        assert found.valid == 0
        return None


@pytest.mark.parametrize("group", range(LARGE_GROUPS))
def test_counts__equal_brute_force(group):
    counts = some = 0
    for seed in range(group, LARGE, LARGE_GROUPS):
        known = space_of(seed)
        if known is not None:
            check_counts(*known)
            counts += 1
            some += known[1].valid > 1
    assert counts > 0.5 * LARGE / LARGE_GROUPS
    assert some > 0.5 * counts


@pytest.mark.parametrize("group", range(GROUPS))
def test_small_spaces__counts_equal_brute_force_and_walks_end_at_mappings(group):
    extremes = 0
    for seed in range(group, PROBLEMS, GROUPS):
        machine, einsum, constraints = plain(seed, SMALL)
        found = truth(machine, einsum, constraints, SMALL)
        try:
            space = MapSpace(found.encoded, constraints)
        except NoValidMappingError:
            assert found.valid == 0
            continue
        try:
            check_counts(space, found)
            if not found.valid:
                continue
            check_walks(space, found, walk=extremes % 4 == 0)
            extremes += 1
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
    assert extremes >= 0.8 * PROBLEMS / GROUPS


def check_counts(space, found):
    """Compare the numbers of mappings: all, with all compute units, and by what is kept."""
    nest = Nest(space)
    units = np.asarray((found.batch.x * found.batch.y).prod(axis=(1, 2)))

    assert count_mappings(nest) == found.valid
    assert count_mappings(Nest(space, fully_used=True)) == (units == space.encoded.architecture.macs).sum()
    assert dict(by_keep(nest)) == Counter(keep.tobytes() for keep in found.batch.keep)


def check_walks(space, found, *, walk):
    """No off-chip words are below the compulsory ones; the largest values that walks find are those of mappings."""
    assert sum(least_offchip_words(space, needed_words(space))) <= found.offchip_words.min()
    known = walked(space) if walk else None
    for column, values in zip(QUANTITIES, (found.energy_pj, found.cycles, found.offchip_words), strict=True):
        if known is not None:
            worst = known.most[column]
            assert values[found.number(worst.mapping)] == pytest.approx(column_value(worst, column))


def walked(space):
    """What walks find; nothing is proved of it."""
    known = SeenMappings(space.size)
    _walk(space, known, 1)
    return known


def by_keep(nest):
    """Mappings by the bytes of what they keep."""
    levels = {step.level: step.keeps for step in nest.steps if isinstance(step, Keeping)}
    for chosen, mappings in count_by_keep(nest):
        yield np.array([levels[level][k] for level, k in enumerate(chosen)]).tobytes(), mappings


@pytest.mark.parametrize("group", range(GROUPS))
def test_draws__are_uniform(group):
    """Chi-square over all valid mappings; one group in a thousand may pass 3.3 standard deviations by chance."""
    deviations = []
    for seed in range(group, GROUPS * DRAWN, GROUPS):
        known = space_of(seed, SMALL)
        if known is None or known[1].valid < 2:
            continue
        space, found = known
        draws = 20 * found.valid
        sampler = Sampler(Nest(space))
        sample = sampler.sample(draws, seed=seed)
        numbers = [found.number(sampler.mapping(seed, number)) for number in range(draws)]
        assert None not in numbers

        times = np.bincount(numbers, minlength=found.valid)
        np.testing.assert_allclose(sample.energy_pj, found.energy_pj[numbers], rtol=1e-9)
        np.testing.assert_array_equal(sample.cycles, found.cycles[numbers])
        np.testing.assert_array_equal(sample.offchip_words, found.offchip_words[numbers])
        chi = float(((times - 20) ** 2 / 20).sum())
        free = found.valid - 1
        deviations.append((chi - free) / math.sqrt(2 * free))
    if deviations:
        assert abs(sum(deviations)) / math.sqrt(len(deviations)) < 4.5


def test_big_numbers__carry():
    big = 123456789012345678901234567890
    words = np.array([[big & 0xFFFFFFFF], [big >> 32 & 0xFFFFFFFF], [big >> 64]], np.int64)

    carried = words * 1000
    carry(carried)

    assert as_integer(carried[:, 0]) == 1000 * big
    assert carried[:2].max() < 2**32


def test_workers__change_nothing():
    gemm = load_workload("gemm").layers[0]
    sampler = Sampler(Nest(MapSpace(encode(load_architecture("eyeriss"), gemm))))

    one, two = (sampler.sample(40_000, seed=3, workers=workers) for workers in (1, 2))

    np.testing.assert_array_equal(one.energy_pj, two.energy_pj)
    assert len(one) == 40_000
    assert identity(sampler.mapping(3, 17)) == identity(one.result(17).mapping)
    assert one.result(17).energy_pj == pytest.approx(one.energy_pj[17], rel=1e-12)


def test_intervals__cover_as_often_as_they_say():
    """A space that can be enumerated: 95 % intervals of mean, deviation, median and share in most of 200 draws."""
    seed = next(seed for seed in range(200) if (known := space_of(seed)) and 300 < known[1].valid < 3000)
    space, found = space_of(seed)
    sampler = Sampler(Nest(space))
    energy_pj = found.energy_pj
    median = np.sort(energy_pj)[(found.valid - 1) // 2]
    truths = (energy_pj.mean(), energy_pj.std(), median, float((energy_pj <= median).mean()))
    covered = np.zeros(4)
    for draw in range(200):
        sample = sampler.sample(400, seed=draw)
        intervals = (
            sample.mean("energy"),
            sample.deviation("energy"),
            sample.quantile("energy", 0.5),
            sample.share(sample.energy_pj <= median),
        )
        covered += [i.low * (1 - 1e-9) <= v <= i.high * (1 + 1e-9) for i, v in zip(intervals, truths, strict=True)]
    assert (covered >= 180).all()


@pytest.mark.parametrize("group", range(LARGE_GROUPS))
def test_spread__equals_brute_force(group):
    """What is counted one by one, and the ranges: the smallest values are exact, the largest those of mappings."""
    looked = same = 0
    for seed in range(group, CENSUSES, LARGE_GROUPS):
        known = space_of(seed)
        if known is None or not known[1].valid:
            continue
        space, found = known
        taken = spread(
            space.encoded.architecture,
            space.encoded.einsum,
            constraints=space.constraints,
            samples=200,
            seconds=None,
            workers=1,
        )
        columns = {"energy": found.energy_pj, "cycles": found.cycles, "offchip_words": found.offchip_words}

        assert taken.stop == "exhausted"
        assert taken.mappings == found.valid
        for column, values in columns.items():
            ends = taken.range_of(column)
            assert ends.lowest == pytest.approx(values.min(), rel=1e-9) or column == "offchip_words", (seed, column)
            assert ends.lowest_bound <= values.min() * (1 + 1e-9), (seed, column)
            assert ends.lowest_proved or column == "offchip_words", (seed, column)
            assert ends.highest <= values.max() * (1 + 1e-9), (seed, column)
            looked += 1
            same += ends.highest >= values.max() * (1 - 1e-9)
        for near in taken.near:
            assert near.complete
            assert near.mappings == found.within(near.share), (seed, near.share)
    assert looked > CENSUSES / LARGE_GROUPS
    assert same > 0.8 * looked


def test_shares_of_what_levels_keep__are_those_of_mappings_drawn_where_sums_are_wide():
    """Nothing is counted for them: that takes long where levels are free to keep any tensor."""
    bits = {"Weights": 8, "Inputs": 8, "Outputs": 8, "psums": 32}
    layer = load_workload({"workload": {"name": "wide", "gemm": {"M": 8, "N": 8, "K": 4}, "bits": bits}}).layers[0]
    found = spread(load_architecture("gpu_sm"), layer, samples=500, seconds=0.1)
    drawn = Counter(tuple(level.keep for level in found.sample.mapping(k).levels) for k in range(len(found.sample)))
    assert not found.exact
    assert {keeps for keeps, _ in found.by_keep} == {*drawn}
    for keeps, mappings in found.by_keep:
        assert mappings == round(found.mappings * drawn[keeps] / len(found.sample))


def test_time__that_parts_leave_is_for_the_front_and_then_for_those_near_the_best():
    """Of 100 s the search for the lowest energy leaves nearly all of its 30 s."""
    clock = Clock(100.0, None)
    clock.attempt("energy", lambda: clock.deadline("energy"))
    given = {
        part: clock.attempt(part, lambda part=part: clock.deadline(part) - time.monotonic())
        for part in ("cycles", "front", "near")
    }
    assert given == pytest.approx({"cycles": 15, "front": 65, "near": 90}, abs=2)


READY = """
import sys
from accelsim import load_architecture, load_workload
from accelsim.population.spread import spread
from accelsim.model.jit import CompiledKernel
from accelsim.search.exact import mapper

def loaded():
    modules = [module for name, module in sys.modules.items() if name.startswith("accelsim.search.")]
    kernels = [value for module in modules for value in vars(module).values() if isinstance(value, CompiledKernel)]
    return {kernel.name for kernel in kernels if "compiled" in vars(kernel) and ".search." in kernel.name}

machine, layer = load_architecture("systolic"), load_workload("depthwise").layers[0]
mapper.get_ready()
known = loaded()
assert len(known) > 4
spread(machine, layer, samples=10, seconds=1)
assert loaded() == known, loaded() - known
"""


def test_getting_ready__leaves_nothing_to_compile_while_the_clock_runs():
    subprocess.run([sys.executable, "-c", READY], check=True, timeout=600)


PARTS = ("get_ready", "map_with_cache", "map_front", "Descent", "Solver")
"""What a spread calls, each of which Ctrl-C may end."""


@pytest.mark.parametrize("part", PARTS)
def test_spread__an_interrupt_keeps_what_there_is_and_skips_the_rest(part, monkeypatch):
    machine, layer = load_architecture("two_level"), load_workload("gemm").layers[0]
    calls: list[str] = []

    def interrupted(*_: object, **__: object) -> None:
        calls.append(part)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"accelsim.population.spread.{part}", interrupted)
    found = spread(machine, layer, samples=1000)
    assert found.stop == "interrupted"
    assert len(calls) == 1, "after Ctrl-C nothing more is begun"
    assert found.mappings == 35_632
    assert len(found.sample) == 1000
    for column in ("energy", "cycles", "offchip_words"):
        ends = found.range_of(column)
        assert ends.lowest_bound <= ends.lowest <= found.sample.values(column).min()
        assert found.sample.values(column).max() <= ends.highest
    assert found.front.points
    assert spread_sentence(found).startswith("35,632 valid even mappings")


def test_spread__nothing_drawn_that_has_room_for_wide_sums_is_said(monkeypatch):
    machine, layer = load_architecture("two_level"), load_workload("gemm").layers[0]
    drawn = Sampler(Nest(MapSpace(encode(machine, layer)))).sample(10)
    columns = dict.fromkeys(("number", "energy_pj", "cycles", "offchip_words"), np.zeros(0))
    monkeypatch.setattr(Sampler, "sample", lambda *_, **__: replace(drawn, **columns))
    with pytest.raises(AccelsimError, match="none of 10 mappings drawn has room"):
        spread(machine, layer, samples=10)


@pytest.mark.parametrize("machine", ["eyeriss", "systolic", "nvdla_1024", "gpu_sm"])
def test_walks__find_worse_mappings_of_a_strided_layer_than_draws(machine):
    """Its windows overlap, and boxes hold pixels that no MAC uses."""
    space = MapSpace(encode(load_architecture(machine), load_workload("strided").layers[0]))
    sample, known = Sampler(Nest(space)).sample(2000, 0, workers=1), walked(space)
    for column in ("energy", "offchip_words"):
        assert sample.values(column).max() < column_value(known.most[column], column)


def test_count_quickly__says_nothing_of_a_space_that_takes_long():
    gemm, eyeriss = load_workload("gemm").layers[0], load_architecture("eyeriss")
    assert count_quickly(eyeriss, gemm) == count_mappings(Nest(MapSpace(encode(eyeriss, gemm))))
    many = replace(gemm, dims=dict.fromkeys(gemm.dims, 2**5 * 3**3 * 5**2 * 7))
    assert count_quickly(eyeriss, many) is None
