"""The kernel against the oracle where random nests rarely lead: sums of three or more loops in one rank."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.detail import FILLS, READS, TILE, TRANSFERS, UPDATES, USED, make_detail
from accelsim.model.encode import encode, encode_mappings
from accelsim.model.kernel import VALID, evaluate_one
from accelsim.model.oracle import execute
from accelsim.search.exact.blocks import grain_of, reach_of, way_on
from accelsim.search.exact.orders import FETCH, FURTHER
from tests.strategies import energy_table

Place = tuple[int, str, str, int]
"""Level, dimension, where (time, x or y), bound."""


def build(coefficients: dict[str, int], places: list[Place], windowed: str, networks: list[bool], keeps: list[bool]):
    """A machine, an Einsum with all dimensions in one rank of one tensor, and a mapping of these loops.

    `windowed` is "Inputs" or "Outputs"; the other tensor moves with the first dimension alone.
    """
    levels = 1 + max(level for level, *_ in places)
    bounds = dict.fromkeys(coefficients, 1)
    for _, dim, _, bound in places:
        bounds[dim] *= bound
    window, plain = (tuple(coefficients.items()),), ((next(iter(coefficients.items())),),)
    tensors = (
        Tensor("I", window if windowed == "Inputs" else plain, "Inputs"),
        Tensor("O", window if windowed == "Outputs" else plain, "Outputs", output=True),
    )
    shares, kept = iter(networks * 4 * levels), iter(keeps * 2 * levels)
    machine_levels, mapped = [], []
    for index in range(levels):
        axes = [Axis(64, next(shares), next(shares)) for _ in "xy"]
        machine_levels.append(Level(f"L{index}", "SRAM", x=axes[0], y=axes[1]))
        blocks = [
            tuple(Loop(dim, bound) for level, dim, where, bound in places if level == index and where == block)
            for block in ("time", "x", "y")
        ]
        names = frozenset(name for name in "IO" if next(kept) or index == 0)
        mapped.append(LevelMapping(f"L{index}", *blocks, keep=names))
    table = energy_table([level.name for level in machine_levels], lambda: 1.0)
    machine = Architecture("windows", tuple(machine_levels), Compute(), table)
    return machine, Einsum("windows", bounds, tensors), Mapping(tuple(mapped))


def agree(machine: Architecture, einsum: Einsum, mapping: Mapping) -> None:
    """Assert that kernel and oracle count the same."""
    encoded = encode(machine, einsum)
    detail = make_detail(encoded)
    status, _, _ = evaluate_one(encoded.constants, encode_mappings(encoded, [mapping]), 0, detail, True)
    walked = execute(machine, einsum, mapping)

    assert (status == VALID) == (not walked.fails)
    for index, level in enumerate(walked.levels):
        for t, tensor in enumerate(einsum.tensors):
            crossed = detail.at[index, t, TRANSFERS] * detail.level[index + 1, USED]
            assert crossed == walked.transfers[index][tensor.name]
            if tensor.name in level:
                count = level[tensor.name]
                counted = detail.at[index, t, [TILE, READS, FILLS, UPDATES]].tolist()
                assert counted == [count.tile, count.reads, count.fills, count.updates], (index, tensor)


@st.composite
def spatial_sums(draw):
    """Three or four dimensions in one rank, all of them spread over one fanout, with loops in time around it.

    Some of them lie on both axes.
    """
    dims = "ABCD"[: draw(st.integers(3, 4))]
    coefficients = {dim: draw(st.integers(1, 5)) for dim in dims}
    levels = draw(st.integers(1, 3))
    fanout = draw(st.integers(0, levels - 1))
    places = [(fanout, dim, draw(st.sampled_from("xy")), draw(st.sampled_from([2, 2, 3]))) for dim in dims]
    for dim in draw(st.lists(st.sampled_from(dims), max_size=2, unique=True)):
        where = draw(st.sampled_from(["time", "time", "x", "y"]))
        level = draw(st.integers(0, levels - 1))
        if (level, dim, where) not in [place[:3] for place in places]:
            places.append((level, dim, where, 2))
    if max(level for level, *_ in places) < levels - 1:
        places.append((levels - 1, dims[0], "time", 1))
    windowed = draw(st.sampled_from(["Inputs", "Inputs", "Outputs"]))
    flags = [draw(st.lists(st.booleans(), min_size=5, max_size=5)) for _ in range(2)]
    return build(coefficients, places, windowed, *flags)


@st.composite
def windowed_outputs(draw):
    """An output with two or three dimensions in one rank, looped over in time and space: a transposed convolution."""
    dims = "ABC"[: draw(st.integers(2, 3))]
    coefficients = {dim: draw(st.integers(1, 4)) for dim in dims}
    levels = draw(st.integers(1, 4))
    slots = [(level, dim, where) for level in range(levels) for dim in dims for where in ("time", "x", "y")]
    chosen = draw(st.lists(st.sampled_from(slots), min_size=2, max_size=6, unique=True))
    places, budget = [], 96
    for slot in chosen:
        bound = draw(st.sampled_from([2, 2, 3, 4]))
        if bound <= budget:
            places.append((*slot, bound))
            budget //= bound
    if max(level for level, *_ in places) < levels - 1:
        places.append((levels - 1, dims[0], "time", 1))
    flags = [draw(st.lists(st.booleans(), min_size=5, max_size=5)) for _ in range(2)]
    return build(coefficients, places, "Outputs", *flags)


def axes_of(case) -> int:
    return max(len(level.x) + len(level.y) for level in case[2].levels)


@st.composite
def carried_on(draw):
    """Temporal loops of which each one further out mostly takes the step of those inside, or leaves the box in place.

    The innermost one moves a box that is wider than its step by what dimension `T` adds inside.
    """
    step, bounds = draw(st.integers(1, 3)), draw(st.lists(st.sampled_from([2, 2, 3]), min_size=2, max_size=3))
    coefficients, back = {}, 0
    for dim, bound in zip("ABCD", bounds, strict=False):
        coefficients[dim] = draw(st.sampled_from([step, back + step, back + step, back or step, back + step + 1]))
        step = coefficients[dim] if dim == "A" else step
        back += (bound - 1) * coefficients[dim]
    looped = [(0, dim, "time", bound) for dim, bound in zip(coefficients, bounds, strict=True)][::-1]
    tile = [(1, "T", draw(st.sampled_from(["time", "x"])), draw(st.integers(2, 4)))]
    flags = [draw(st.lists(st.booleans(), min_size=5, max_size=5)), YES]
    windowed = draw(st.sampled_from(["Inputs", "Inputs", "Outputs"]))
    return build({**coefficients, "T": 1}, looped + tile, windowed, *flags)


YES = [True]


@settings(max_examples=250)
@given(spatial_sums())
@example(build({"A": 1, "B": 1, "C": 1}, [(0, "A", "x", 2), (0, "B", "x", 2), (0, "C", "x", 2)], "Inputs", YES, YES))
@example(build({"A": 3, "B": 2, "C": 1}, [(0, "A", "x", 3), (0, "B", "y", 2), (0, "C", "y", 2)], "Outputs", YES, YES))
@example(
    build({"A": 1, "B": 2}, [(0, "A", "x", 2), (0, "B", "x", 2), (0, "A", "y", 2)], "Inputs", [True, True, False], YES)
)
def test_kernel__counts_sums_of_three_spatial_loops(case):
    event(f"{axes_of(case)} loops over one fanout")
    assert axes_of(case) >= 3
    agree(*case)


@pytest.mark.parametrize(("step", "other"), [(1, 2), (3, 2), (2, 4)])
def test_kernel__counts_sums_of_two_spatial_loops_that_collide(step, other):
    """4 x 4 sums of multiples of 1 and 2, of 3 and 2, or of 2 and 4: 10, 14 and 10 are different."""
    agree(*build({"A": step, "B": other}, [(0, "A", "x", 4), (0, "B", "y", 4)], "Inputs", YES, YES))


@pytest.mark.parametrize(("words", "fits"), [(12, True), (11, False)])
def test_kernel__fills_a_level_to_its_last_word(words, fits):
    """A tile of 6 words of each tensor takes 12 words."""
    machine, einsum, mapping = build({"A": 1}, [(0, "A", "time", 2), (1, "A", "time", 6)], "Inputs", YES, YES)
    outer, inner = machine.levels
    machine = replace(machine, levels=(outer, replace(inner, size_words=words)))
    agree(machine, einsum, mapping)
    assert (not execute(machine, einsum, mapping).fails) == fits


@settings(max_examples=500)
@given(windowed_outputs())
@example(build({"A": 2, "B": 1}, [(0, "A", "time", 3), (0, "B", "x", 3), (1, "A", "time", 1)], "Outputs", YES, YES))
def test_kernel__counts_windowed_outputs_in_time_and_space(case):
    agree(*case)


@settings(max_examples=100)
@given(carried_on())
@example(
    build({"B": 3, "A": 1, "T": 1}, [(0, "B", "time", 3), (0, "A", "time", 3), (1, "T", "x", 2)], "Inputs", YES, YES)
)
def test_kernel__counts_windows_that_carry_on(case):
    agree(*case)


def test_gaps__that_loops_inside_a_tile_close_are_within_reach():
    """All nests of loops in time and in space inside a tile, for all pairs of steps and small sizes."""
    open_gaps = 0
    for a, b, n, m in itertools.product(range(1, 5), range(1, 5), range(1, 9), range(1, 9)):
        closed = {back + end for back, step in _ways_back(a, n, b, m) for end in (0, step)}
        reach, grain = reach_of(a, n, b, m), grain_of(a, n, b, m)
        for gap in range(1, a * n + b * m + 3):
            way = way_on(gap, -1, reach, grain)
            assert way == FURTHER or gap not in closed, (a, n, b, m, gap)
            open_gaps += way == FETCH and gap <= reach
    assert open_gaps > 1000


@cache
def _ways_back(a: int, n: int, b: int, m: int) -> frozenset[tuple[int, int]]:
    """How far nests inside a tile of n x m move it by steps of a and b, and the step of the innermost loop in time."""
    found = {(0, 0)}
    sides = [(a, n, k, (k, m)) for k in range(1, n) if n % k == 0]
    sides += [(b, m, k, (n, k)) for k in range(1, m) if m % k == 0]
    for step, size, inner, (x, y) in sides:
        rest = _ways_back(a, x, b, y)
        found |= rest  # the loop is in space
        found |= {(back + (size - inner) * step, last or inner * step) for back, last in rest}
    return frozenset(found)


def test_sums_of_two_progressions__are_as_many_as_lemma_2_says():
    """docs/papers/cost-model.md, section 4."""
    for a, b, n, m in itertools.product(range(1, 7), range(1, 7), range(1, 6), range(1, 6)):
        g = math.gcd(a, b)
        sums = {a * i + b * j for i in range(n) for j in range(m)}
        assert len(sums) == n * m - max(0, n - b // g) * max(0, m - a // g)
