"""Fused tilings: closed formulas against execution with sets of points."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accelsim import load_workload
from accelsim.architecture import Level
from accelsim.errors import AccelsimError
from accelsim.fusion.chain import Chain, make_chain
from accelsim.fusion.oracle import execute_fused
from accelsim.fusion.tiling import FusedLoop, FusedTiling, Run, rooms, runs, tilings_of
from accelsim.workload import Einsum, Tensor

BUFFER = Level("BUF", "SRAM", size_words=10**6)


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


@st.composite
def fused(draw: st.DrawFn) -> tuple[Chain, FusedTiling]:
    """A chain and one of its fused tilings."""
    chain = draw(st.one_of(conv_chains(), gemm_chains()))
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
