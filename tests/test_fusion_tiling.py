"""Fused tilings: closed formulas against execution with sets of points."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accelsim import load_workload
from accelsim.fusion.chain import Chain, Shortcut, make_chain
from accelsim.fusion.tiling import (
    FusedLoop,
    FusedTiling,
    Run,
    keeps_shortcut,
    loop_sets,
    rooms,
    runs,
    shortcut_room,
    tilings_of,
)
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.energy import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Einsum, Tensor
from tests.fusion_oracle import execute_fused

BUFFER = Level("BUF", "SRAM", size_words=10**6)


def machine(size: int = 60, *, bypass: str = "", units: int = 2) -> Architecture:
    """A memory, a buffer with ports of its own, and registers in front of each of a few multipliers."""
    pj = {("MAC", "*", "compute"): 1.0}
    for level, energy in (("DRAM", 50.0), ("BUF", 4.0), ("REG", 0.5)):
        pj |= {(level, "*", action): energy for action in ("read", "update")}
        pj[level, "*", "write"] = energy + 0.25
    pj["BUF", "*", "leak"] = 0.125
    buffer = Level(
        "BUF",
        "SRAM",
        size_words=size,
        read_bandwidth=Fraction(3),
        write_bandwidth=Fraction(1),
        bypass=frozenset({bypass} - {""}),
        keep=frozenset({"Outputs"}),
        x=Axis(units),
    )
    register = Level("REG", "register", size_words=3)
    table = EnergyTable({key: EnergyEntry(energy, "a test") for key, energy in pj.items()})
    return Architecture("tiny", (Level("DRAM", "DRAM", bandwidth=Fraction(1, 2)), buffer, register), Compute(), table)


def conv(name: str, dims: dict[str, int], stride: int = 1, *, depthwise: bool = False) -> Einsum:
    """A convolution over rows and columns; `C` channels, each its own where depthwise."""
    out = "C" if depthwise else "K"
    rows, columns = (("P", stride), ("R", 1)), (("Q", stride), ("S", 1))
    weights = tuple(((dim, 1),) for dim in ("C", "K", "R", "S") if dim in dims)
    return Einsum(
        name,
        dims,
        (
            Tensor("Weights", weights, "Weights"),
            Tensor("Inputs", ((("C", 1),), rows, columns)),
            Tensor("Outputs", (((out, 1),), (("P", 1),), (("Q", 1),)), "Outputs", output=True),
        ),
    )


def gemm(name: str, m: int, n: int, k: int, *, batch: int = 1) -> Einsum:
    """A batched product of matrices."""
    ranks = {"Inputs": "BMK", "Weights": "BKN", "Outputs": "BMN"}
    tensors = tuple(
        Tensor(role, tuple(((dim, 1),) for dim in dims), role, output=role == "Outputs") for role, dims in ranks.items()
    )
    return Einsum(name, {"B": batch, "M": m, "N": n, "K": k}, tensors)


def soft_max(name: str, m: int, n: int, *, batch: int = 1) -> Einsum:
    """One pass over a matrix of scores."""
    ranks = tuple(((dim, 1),) for dim in "BMN")
    tensors = (Tensor("Inputs", ranks), Tensor("Outputs", ranks, "Outputs", output=True))
    return Einsum(name, {"B": batch, "M": m, "N": n}, tensors)


@st.composite
def conv_chains(draw: st.DrawFn) -> Chain:
    """Two or three convolutions, built from the last one back: kernels, strides, padding, depthwise or not."""
    many = draw(st.integers(2, 3))
    p, q = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    channels = draw(st.integers(1, 2))
    layers: list[Einsum] = []
    for at in range(many):
        r, s, stride = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 3])), draw(st.integers(1, 2))
        depthwise = draw(st.booleans())
        given_channels = channels if depthwise else draw(st.integers(1, 2))
        dims = {"C": given_channels, "P": p, "Q": q, "R": r, "S": s}
        if not depthwise:
            dims["K"] = channels
        layers.append(conv(f"layer{many - at}", dims, stride, depthwise=depthwise))
        least = [max(1, stride * (n - 1) + 1 - (w - 1)) for n, w in ((p, r), (q, s))]
        most = [stride * (n - 1) + w + stride - 1 for n, w in ((p, r), (q, s))]
        p, q = (draw(st.integers(low, high)) for low, high in zip(least, most, strict=True))
        channels = given_channels
    try:
        return make_chain(layers[::-1], ["Inputs"] * (many - 1))
    except AccelsimError:
        return ROWS


@st.composite
def gemm_chains(draw: st.DrawFn) -> Chain:
    """Products of matrices, with a soft-max between them or not."""
    batch, m, n, k, last = (draw(st.integers(1, 4)) for _ in range(5))
    layers = [gemm("scores", m, n, k, batch=batch)]
    if draw(st.booleans()):
        layers.append(soft_max("soft_max", m, n, batch=batch))
    layers.append(gemm("context", m, last, n, batch=batch))
    return make_chain(layers, ["Inputs"] * (len(layers) - 1))


def add(name: str, dims: dict[str, int]) -> Einsum:
    """A sum of two tensors, word by word."""
    ranks = tuple(((dim, 1),) for dim in dims)
    tensors = Tensor("Inputs", ranks), Tensor("Residual", ranks), Tensor("Outputs", ranks, "Outputs", output=True)
    return Einsum(name, dims, tensors)


@st.composite
def residual_chains(draw: st.DrawFn) -> Chain:
    """Convolutions between what the first one, of 1 x 1, reads and the sum that reads it again; a layer after."""
    p, q, channels, inside = (draw(st.integers(1, most)) for most in (6, 4, 2, 2))
    rows, columns = draw(st.integers(1, 3 if p > 1 else 1)), draw(st.sampled_from([1, 3 if q > 1 else 1]))
    middle = {"C": inside, "P": p, "Q": q, "R": rows, "S": columns}
    layers = [
        conv("reduce", {"C": channels, "K": inside, "P": p, "Q": q, "R": 1, "S": 1}),
        conv("middle", middle, depthwise=True),
        conv("expand", {"C": inside, "K": channels, "P": p, "Q": q, "R": 1, "S": 1}),
        add("sum", {"K": channels, "P": p, "Q": q}),
    ]
    if draw(st.booleans()):
        last = draw(st.sampled_from([1, 3 if p > 1 else 1]))
        layers.append(conv("last", {"C": channels, "K": 1, "P": p, "Q": q, "R": last, "S": 1}))
    return make_chain(layers, ["Inputs"] * (len(layers) - 1), Shortcut("Inputs", 3, "Residual"))


def tilings(architecture: Architecture, chain: Chain, level: str) -> Iterator[FusedTiling]:
    """Every fused tiling of a chain at a level, whether it fits or not, and whatever constraints ask."""
    at = next(each for each in architecture.levels if each.name == level)
    for loops in loop_sets(chain):
        for order in itertools.permutations(loops):
            yield from tilings_of(chain, at, order)


@st.composite
def fused(draw: st.DrawFn) -> tuple[Chain, FusedTiling]:
    """A chain and one of its fused tilings."""
    chain = draw(st.one_of(conv_chains(), gemm_chains(), residual_chains()))
    loops = []
    for dim in chain.dims:
        tile = draw(st.sampled_from([n for n in range(1, dim.bound + 1) if dim.bound % n == 0]))
        loops += [FusedLoop(dim.name, dim.bound // tile, tile)] if tile < dim.bound else []
    order = tuple(draw(st.permutations(loops)))
    return chain, draw(st.sampled_from(list(tilings_of(chain, BUFFER, order))))


@dataclass(frozen=True)
class Counted:
    """What the parts of a fused tiling add up to."""

    macs: list[int]
    written: list[int]
    fetched: list[Counter[str]]
    shapes: Counter[tuple[int, tuple[int, ...]]]


def counted(chain: Chain, several: list[Run]) -> Counted:
    """Add up the parts."""
    found = Counted([0] * len(chain.layers), [0] * len(chain.links), [Counter() for _ in chain.layers], Counter())
    for run in several:
        at, einsum = run.part.layer, run.part.einsum(chain)
        found.macs[at] += run.count * einsum.macs
        found.shapes[at, run.part.bounds] += run.count
        if at < len(chain.links):
            found.written[at] += run.count * einsum.output.words(einsum.dims)
        for tensor in einsum.tensors:
            if tensor.name in run.part.arriving:
                found.fetched[at][tensor.name] += run.count * tensor.words(einsum.dims)
    return found


ROWS = make_chain(
    [
        conv("expand", {"C": 2, "K": 2, "P": 8, "Q": 4, "R": 1, "S": 1}),
        conv("depthwise", {"C": 2, "P": 8, "Q": 4, "R": 3, "S": 3}, depthwise=True),
    ],
    ["Inputs"],
)


STRIDED = make_chain(
    [
        conv("first", {"C": 1, "K": 1, "P": 7, "Q": 1, "R": 1, "S": 1}),
        conv("second", {"C": 1, "K": 1, "P": 3, "Q": 1, "R": 3, "S": 1}, stride=2),
    ],
    ["Inputs"],
)
"""Rows of which two tiles share one."""


@settings(max_examples=120)
@given(fused())
@example(
    (ROWS, FusedTiling("BUF", (FusedLoop("P", 4, 2), FusedLoop("Q", 2, 2)), (frozenset("PQ"),), (frozenset(),) * 2))
)
def test_fused_tiling__parts_are_what_execution_runs(both: tuple[Chain, FusedTiling]) -> None:
    chain, tiling = both
    walked, found = execute_fused(chain, tiling), counted(chain, runs(chain, tiling, BUFFER))
    assert walked.missing == 0
    assert found.macs == walked.macs
    assert found.written == walked.written
    assert found.shapes == walked.runs
    assert [+fetched for fetched in found.fetched] == [+fetched for fetched in walked.fetched]
    for room, live, between in zip(rooms(chain, tiling), walked.live, walked.between, strict=True):
        assert live <= room.live
        assert between <= room.between
    kept, room = walked.shortcut, shortcut_room(chain, tiling)
    assert kept.missing == 0
    assert kept.live <= room.live
    assert kept.between <= room.between


@settings(max_examples=50)
@given(fused())
@example((STRIDED, FusedTiling("BUF", (FusedLoop("P", 3, 1),), (frozenset(),), (frozenset(),) * 2)))
def test_tilings__one_that_retains_all_it_may_computes_nothing_twice(both: tuple[Chain, FusedTiling]) -> None:
    """The first one: no layer computes more than the end of the chain asks for."""
    chain, tiling = both
    most = next(tilings_of(chain, BUFFER, tiling.loops))
    needed = [math.prod(bounds.values()) for bounds in chain.needed]
    assert all(done <= asked for done, asked in zip(execute_fused(chain, most).macs, needed, strict=True))


def test_rooms__are_needed_to_the_word() -> None:
    """Two channels; tiles of 4 x 4 with halos of 2: 2 rows of all 6 columns and 2 more rows of a tile, per channel.

    Live: 2 x 6 + (4 - 2) x 4 = 20 words a channel; between steps the 4 columns of the tile are its halo's 2:
    2 x 6 + (4 - 2) x 2 = 16.
    """
    tiling = FusedTiling("BUF", (FusedLoop("P", 4, 2), FusedLoop("Q", 2, 2)), (frozenset("PQ"),), (frozenset(),) * 2)
    (room,) = rooms(ROWS, tiling)
    walked = execute_fused(ROWS, tiling)
    assert (room.live, room.between) == (40, 32)
    assert walked.live == [40]
    assert walked.macs == [2 * 2 * 8 * 4, 2 * 8 * 4 * 9]


def test_runs__of_a_recomputed_halo() -> None:
    """Eight rows in tiles of four ask for six each, of which the outer one is padding: five are computed, two again."""
    tiling = FusedTiling("BUF", (FusedLoop("P", 2, 4),), (frozenset(),), (frozenset({"Weights"}), frozenset()))
    first = [run for run in runs(ROWS, tiling, BUFFER) if run.part.layer == 0]
    assert [(run.part.einsum(ROWS).dims["P"], run.count) for run in first] == [(5, 1), (5, 1)]
    assert [sorted(run.part.arriving) for run in first] == [["Weights"], []]


def test_make_chain__says_why_layers_do_not_follow() -> None:
    layers = {layer.name: layer for layer in load_workload("mobilenet_v2").layers}
    with pytest.raises(AccelsimError, match=r"conv1 and b2_expand cannot be fused: the ranks .* do not line up"):
        make_chain([layers["conv1"], layers["b2_expand"]], ["Inputs"])


def test_fused_dims__move_every_intermediate() -> None:
    """Rows, heads and the batch of attention do; the columns of the last product do not."""
    chain = make_chain(
        [gemm("scores", 8, 6, 4, batch=2), soft_max("soft_max", 8, 6, batch=2), gemm("context", 8, 4, 6, batch=2)],
        ["Inputs", "Inputs"],
    )
    assert [dim.name for dim in chain.dims] == ["B", "M"]


def test_fused_dims__leave_whole_rows_alone() -> None:
    """A soft-max at the end could be cut along its columns if it did not need its rows whole."""
    scores, last = gemm("scores", 8, 6, 4), soft_max("soft_max", 8, 6)
    assert [dim.name for dim in make_chain([scores, last], ["Inputs"]).dims] == ["M", "N"]
    whole = replace(last, whole=frozenset("N"))
    assert [dim.name for dim in make_chain([scores, whole], ["Inputs"]).dims] == ["M"]


BLOCK = make_chain(
    [
        conv("reduce", {"C": 2, "K": 1, "P": 8, "Q": 4, "R": 1, "S": 1}),
        conv("middle", {"C": 1, "P": 8, "Q": 4, "R": 3, "S": 3}, depthwise=True),
        conv("expand", {"C": 1, "K": 2, "P": 8, "Q": 4, "R": 1, "S": 1}),
        add("sum", {"K": 2, "P": 8, "Q": 4}),
    ],
    ["Inputs"] * 3,
    Shortcut("Inputs", 3, "Residual"),
)


def test_shortcut__is_fetched_once_where_the_halo_is_retained() -> None:
    """Two channels of 8 x 4 words, in steps of 2 rows with all columns and a halo of 2 rows: each word comes once.

    The 3 x 3 layer asks for one row more than the sum in each direction: until the sum has run there are its 2 rows and
    the next one, 2 x 3 x 4 words, and from step to step the next one alone.
    """
    rows = (FusedLoop("P", 4, 2),)
    retained = FusedTiling("BUF", rows, (frozenset("P"), frozenset(), frozenset()), (frozenset(),) * 4, shortcut=True)
    assert keeps_shortcut(BLOCK, retained, BUFFER)
    walked = execute_fused(BLOCK, retained).shortcut
    assert (walked.fetched, walked.missing) == (2 * 8 * 4, 0)
    assert (walked.live, walked.between) == (2 * 3 * 4, 2 * 4)
    room = shortcut_room(BLOCK, retained)
    assert (room.live, room.between) == (2 * 3 * 4, 2 * 4)
    again = replace(retained, retain=(frozenset(),) * 3)
    assert execute_fused(BLOCK, again).shortcut.fetched == 2 * (3 + 4 + 4 + 3) * 4


def test_shortcut__parts_find_it_and_leave_its_words_alone() -> None:
    """All at once: 64 words of it beside each part but those of the layers that read it."""
    tiling = FusedTiling("BUF", (), (frozenset(),) * 3, (frozenset(),) * 4, shortcut=True)
    with_it = runs(BLOCK, tiling, BUFFER)
    without = runs(BLOCK, replace(tiling, shortcut=False), BUFFER)
    assert [sorted(run.part.arriving) for run in with_it] == [["Inputs"], [], [], []]
    assert [sorted(run.part.present) for run in with_it] == [[], [], [], ["Residual"]]
    assert [a.reserved - b.reserved for a, b in zip(with_it, without, strict=True)] == [0, 64, 64, 0]


def test_shortcut__is_not_kept_where_what_is_read_again_lies_elsewhere() -> None:
    """A sum of the transposed input: a row of it is no row of what the first layer reads."""
    square = {"P": 4, "Q": 4}
    turned = Einsum(
        "sum",
        {"K": 2, **square},
        (
            Tensor("Inputs", tuple(((dim, 1),) for dim in "KPQ")),
            Tensor("Residual", tuple(((dim, 1),) for dim in "KQP")),
            Tensor("Outputs", tuple(((dim, 1),) for dim in "KPQ"), "Outputs", output=True),
        ),
    )
    first = conv("first", {"C": 2, "K": 2, **square, "R": 1, "S": 1})
    chain = make_chain([first, turned], ["Inputs"], Shortcut("Inputs", 1, "Residual"))
    loops = (FusedLoop("P", 2, 2),)
    assert not any(tiling.shortcut for tiling in tilings_of(chain, BUFFER, loops))
    assert any(tiling.shortcut for tiling in tilings_of(chain, BUFFER, ()))
