"""Fused tilings: closed formulas against execution with sets of points."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accelsim import load_workload
from accelsim.fusion.graph import Graph, make_graph
from accelsim.fusion.group import Group, make_group
from accelsim.fusion.tiling import (
    Border,
    FusedLoop,
    FusedTiling,
    Run,
    free_border,
    make_tiling,
    options_of,
    orders_of,
    rooms,
    runs,
    shared_room,
    shares,
    storage_words,
)
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.energies import EnergyEntry, EnergyTable
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


def add(name: str, dims: dict[str, int]) -> Einsum:
    """A sum of two tensors, word by word."""
    ranks = tuple(((dim, 1),) for dim in dims)
    tensors = Tensor("Inputs", ranks), Tensor("Residual", ranks), Tensor("Outputs", ranks, "Outputs", output=True)
    return Einsum(name, dims, tensors)


def chain_of(layers: list[Einsum], more: tuple[tuple[int | Einsum, int, str], ...] = ()) -> Graph:
    """Layers of which each reads what the one before writes, with `more` that some read."""
    return make_graph(layers, [*((at, at + 1, "Inputs") for at in range(len(layers) - 1)), *more])


@st.composite
def conv_graphs(draw: st.DrawFn) -> Graph:
    """Two or three convolutions, built from the last one back: kernels, strides, padding, depthwise or not.

    What the first ones write may be needed elsewhere, too.
    """
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
    reads = [(at, at + 1, "Inputs") for at in range(many - 1)]
    try:
        return make_graph(layers[::-1], reads, draw(st.sets(st.integers(0, many - 2), max_size=1)))
    except AccelsimError:
        return chain_of(list(ROWS.layers))


@st.composite
def gemm_graphs(draw: st.DrawFn) -> Graph:
    """Products of matrices, with a soft-max between them or not, and keys or values from the graph or not."""
    batch, m, n, k, last, before = (draw(st.integers(1, 4)) for _ in range(6))
    layers, reads = list[Einsum](), list[tuple[int | Einsum, int, str]]()

    def put(layer: Einsum, **sources: int | None) -> int:
        reads.extend((source, len(layers), name) for name, source in sources.items() if source is not None)
        layers.append(layer)
        return len(layers) - 1

    query = put(gemm("query", m, k, before, batch=batch)) if draw(st.booleans()) else None
    keys = put(gemm("keys", k, n, before, batch=batch)) if draw(st.booleans()) else None
    at = put(gemm("scores", m, n, k, batch=batch), Inputs=query, Weights=keys)
    if draw(st.booleans()):
        at = put(soft_max("soft_max", m, n, batch=batch), Inputs=at)
    values = put(gemm("values", n, last, before, batch=batch)) if draw(st.booleans()) else None
    at = put(gemm("context", m, last, n, batch=batch), Inputs=at, Weights=values)
    if draw(st.booleans()):
        put(gemm("out", m, draw(st.integers(1, 3)), last, batch=batch), Inputs=at)
    return make_graph(layers, reads)


@st.composite
def residual_graphs(draw: st.DrawFn) -> Graph:
    """Convolutions between what a first one of 1 x 1 reads and the sum that reads it again; layers around them.

    What is read again comes from the graph or from outside, and through a projection or not.
    """
    p, q, channels, inside = (draw(st.integers(1, most)) for most in (6, 4, 2, 2))
    rows, columns = draw(st.integers(1, 3 if p > 1 else 1)), draw(st.sampled_from([1, 3 if q > 1 else 1]))
    before = conv("before", {"C": inside, "K": channels, "P": p, "Q": q, "R": 1, "S": 1})
    middle = {"C": inside, "P": p, "Q": q, "R": rows, "S": columns}
    layers, reads = list[Einsum](), list[tuple[int | Einsum, int, str]]()
    source: int | Einsum = before
    if draw(st.booleans()):
        layers.append(before)
        source = 0
    first = len(layers)
    layers += [
        conv("reduce", {"C": channels, "K": inside, "P": p, "Q": q, "R": 1, "S": 1}),
        conv("middle", middle, depthwise=True),
        conv("expand", {"C": inside, "K": channels, "P": p, "Q": q, "R": 1, "S": 1}),
    ]
    reads += [(source, first, "Inputs"), (first, first + 1, "Inputs"), (first + 1, first + 2, "Inputs")]
    again = source
    if draw(st.booleans()):
        layers.append(conv("project", {"C": channels, "K": channels, "P": p, "Q": q, "R": 1, "S": 1}))
        reads.append((source, first + 3, "Inputs"))
        again = first + 3
    reads += [(first + 2, len(layers), "Inputs"), (again, len(layers), "Residual")]
    layers.append(add("sum", {"K": channels, "P": p, "Q": q}))
    if draw(st.booleans()):
        last = draw(st.sampled_from([1, 3 if p > 1 else 1]))
        reads.append((len(layers) - 1, len(layers), "Inputs"))
        layers.append(conv("last", {"C": channels, "K": 1, "P": p, "Q": q, "R": last, "S": 1}))
    out = draw(st.sets(st.integers(0, len(layers) - 1), max_size=1))
    return make_graph(layers, reads, out)


def whole_group(graph: Graph) -> Group:
    """All layers of a graph as a group, in their order."""
    return make_group(graph, range(len(graph.layers)))


def borders(group: Group) -> list[Border]:
    """All passes through the outermost level, or outputs that several read stay, each as a whole."""
    inner = {link.producer for link in group.inside if not link.goes_out}
    out = frozenset(at for at in range(len(group.layers)) if at not in inner)
    inside = {link.producer for link in group.inside}
    words = sum(storage_words(group.layers[at].output, BUFFER) * group.layers[at].macs for at in out)
    return [
        Border(leaving=out),
        Border(staying=out, taken=words),
        Border(staying=out & inside, leaving=out, taken=words),
    ]


def tilings(group: Group, border: Border, level: Level, loops: tuple[FusedLoop, ...]) -> Iterator[FusedTiling]:
    """Every fused tiling of a group with some loops, whether it fits or not, that which keeps most first."""
    options = options_of(group, border, level, loops)
    for many in range(len(options), -1, -1):
        for kept in itertools.combinations(options, many):
            tiling = make_tiling(group, border, level.name, loops, kept)
            if all(shares(group, tiling, group.shared[at]) for at in tiling.shared):
                yield tiling


@st.composite
def fused_of(draw: st.DrawFn, graphs: st.SearchStrategy[Graph]) -> tuple[Group, Border, FusedTiling]:
    """A group, its border, and one of its fused tilings."""
    group = whole_group(draw(graphs))
    loops = []
    for dim in group.dims:
        steps = draw(st.sampled_from([n for n in range(1, dim.most + 1) if dim.most % n == 0]))
        loops += [FusedLoop(dim.name, steps, dim.bounds[-1] // steps)] if steps > 1 else []
    border = draw(st.sampled_from(borders(group)))
    order = draw(st.sampled_from([*orders_of(group, loops)] or [()]))
    options = options_of(group, border, BUFFER, order)
    kept = draw(st.sets(st.sampled_from(options))) if options else set()
    tiling = make_tiling(group, border, "BUF", order, kept)
    wrong = {at for at in tiling.shared if not shares(group, tiling, group.shared[at])}
    return group, border, replace(tiling, shared=tiling.shared - wrong)


def fused() -> st.SearchStrategy[tuple[Group, Border, FusedTiling]]:
    """A group of any kind, its border, and one of its fused tilings."""
    return fused_of(st.one_of(conv_graphs(), gemm_graphs(), residual_graphs()))


@dataclass(frozen=True)
class Counted:
    """What the parts of a fused tiling add up to."""

    macs: list[int]
    written: list[int]
    fetched: list[Counter[str]]
    shapes: Counter[tuple[int, tuple[int, ...]]]


def counted(group: Group, tiling: FusedTiling, several: list[Run]) -> Counted:
    """Add up the parts; those of several steps as that many of one."""
    found = Counted([0] * len(group.layers), [0] * len(group.inside), [Counter() for _ in group.layers], Counter())
    watched = [set(names) for names in tiling.resident]
    for at in tiling.shared:
        watched[group.shared[at].readers[0].layer].add(group.shared[at].readers[0].tensor)
    for run in several:
        at, einsum, tile = run.part.layer, run.part.einsum(group), run.part.tile(group)
        steps = math.prod(many for _, many in run.part.sums)
        found.macs[at] += run.count * einsum.macs
        found.shapes[at, tuple(tile.values())] += run.count * steps
        link = group.written(at)
        if link is not None:
            found.written[link] += run.count * steps * einsum.output.words(tile)
        for tensor in einsum.tensors:
            if tensor.name in run.part.arriving and tensor.name in watched[at]:
                moved = math.prod(many for dim, many in run.part.sums if dim in tensor.dims)
                found.fetched[at][tensor.name] += run.count * moved * tensor.words(tile)
    return found


ROWS = whole_group(
    chain_of(
        [
            conv("expand", {"C": 2, "K": 2, "P": 8, "Q": 4, "R": 1, "S": 1}),
            conv("depthwise", {"C": 2, "P": 8, "Q": 4, "R": 3, "S": 3}, depthwise=True),
        ]
    )
)


STRIDED = whole_group(
    chain_of(
        [
            conv("first", {"C": 1, "K": 1, "P": 7, "Q": 1, "R": 1, "S": 1}),
            conv("second", {"C": 1, "K": 1, "P": 3, "Q": 1, "R": 3, "S": 1}, stride=2),
        ]
    )
)
"""Rows of which two tiles share one."""


def tiled(
    group: Group,
    *loops: FusedLoop,
    retain: tuple[str, ...] = (),
    resident: Mapping[int, str] | None = None,
    shared: Iterable[int] = (),
) -> FusedTiling:
    """A fused tiling: dimensions along which each link inside retains its halo, one resident tensor of some layers."""
    kept = tuple(frozenset(dims) for dims in retain or ("",) * len(group.inside))
    stay = tuple(frozenset({(resident or {})[at]} if at in (resident or {}) else ()) for at in range(len(group.layers)))
    return FusedTiling("BUF", loops, kept, stay, frozenset(shared))


def is_exact(group: Group, tiling: FusedTiling) -> bool:
    """Whether parts are all that is needed: with several loops, a box that several ask for may hold more."""
    return len(tiling.loops) < 2 or all(len(link.readers) + link.goes_out == 1 for link in group.inside)


def check_parts(group: Group, border: Border, tiling: FusedTiling) -> None:
    """Compare the parts of a fused tiling with its execution."""
    walked = execute_fused(group, tiling, border)
    found = counted(group, tiling, runs(group, tiling, border, BUFFER))
    assert walked.missing == 0
    assert not any(walked.results)
    assert all(counted >= run for counted, run in zip(found.macs, walked.macs, strict=True))
    assert all(counted >= run for counted, run in zip(found.written, walked.written, strict=True))
    if is_exact(group, tiling):
        assert found.macs == walked.macs
        assert found.written == walked.written
        assert found.shapes == walked.runs
    assert [+fetched for fetched in found.fetched] == [+fetched for fetched in walked.fetched]
    several = [*rooms(group, tiling, border), *(shared_room(group, tiling, at) for at in range(len(group.shared)))]
    for room, live, between in zip(several, walked.live, walked.between, strict=True):
        assert live <= room.live
        assert between <= room.between


@settings(max_examples=300)
@given(fused())
@example(
    (
        ROWS,
        free_border(ROWS),
        tiled(ROWS, FusedLoop("P", 4, 2), FusedLoop("Q", 2, 2), retain=("PQ",)),
    )
)
def test_fused_tiling__parts_are_what_execution_runs(each: tuple[Group, Border, FusedTiling]) -> None:
    check_parts(*each)


@settings(max_examples=150)
@given(fused_of(residual_graphs()))
def test_fused_tiling__parts_are_what_execution_runs_where_several_layers_read_a_link(
    each: tuple[Group, Border, FusedTiling],
) -> None:
    check_parts(*each)


@settings(max_examples=150)
@given(fused_of(gemm_graphs()))
def test_fused_tiling__parts_are_what_execution_runs_where_loops_run_over_sums(
    each: tuple[Group, Border, FusedTiling],
) -> None:
    check_parts(*each)


@settings(max_examples=80)
@given(fused())
@example((STRIDED, free_border(STRIDED), tiled(STRIDED, FusedLoop("P", 3, 1))))
def test_tilings__one_that_retains_all_it_may_computes_nothing_twice(each: tuple[Group, Border, FusedTiling]) -> None:
    """The one that keeps every option: no layer computes more than the ends of the group ask for."""
    group, border, tiling = each
    most = make_tiling(group, border, "BUF", tiling.loops, options_of(group, border, BUFFER, tiling.loops))
    needed = [math.prod(bounds.values()) for bounds in group.needed]
    done = execute_fused(group, replace(most, shared=frozenset()), border).macs
    assert all(ran <= asked for ran, asked in zip(done, needed, strict=True))


def test_rooms__are_needed_to_the_word() -> None:
    """Two channels; tiles of 4 x 4 with halos of 2: 2 rows of all 6 columns and 2 more rows of a tile, per channel.

    Live: 2 x 6 + (4 - 2) x 4 = 20 words a channel; between steps the 4 columns of the tile are its halo's 2:
    2 x 6 + (4 - 2) x 2 = 16.
    """
    tiling = tiled(ROWS, FusedLoop("P", 4, 2), FusedLoop("Q", 2, 2), retain=("PQ",))
    (room,) = rooms(ROWS, tiling, free_border(ROWS))
    walked = execute_fused(ROWS, tiling, free_border(ROWS))
    assert (room.live, room.between) == (40, 32)
    assert walked.live == [40]
    assert walked.macs == [2 * 2 * 8 * 4, 2 * 8 * 4 * 9]


def test_runs__of_a_recomputed_halo() -> None:
    """Eight rows in tiles of four ask for six each, of which the outer one is padding: five are computed, two again."""
    tiling = tiled(ROWS, FusedLoop("P", 2, 4), resident={0: "Weights"})
    first = [run for run in runs(ROWS, tiling, free_border(ROWS), BUFFER) if run.part.layer == 0]
    assert [(run.part.einsum(ROWS).dims["P"], run.count) for run in first] == [(5, 1), (5, 1)]
    assert [sorted(run.part.arriving) for run in first] == [["Weights"], []]


def test_make_graph__says_why_layers_do_not_follow() -> None:
    layers = {layer.name: layer for layer in load_workload("mobilenet_v2").layers}
    with pytest.raises(AccelsimError, match=r"conv1 and b2_expand cannot be fused: the ranks .* do not line up"):
        chain_of([layers["conv1"], layers["b2_expand"]])


def test_make_group__says_which_layers_nothing_joins() -> None:
    """Not even an input that both read, if one of them reads it through a window."""
    before = conv("before", {"C": 1, "K": 2, "P": 4, "Q": 1, "R": 1, "S": 1})
    one = conv("one", {"C": 2, "K": 1, "P": 4, "Q": 1, "R": 1, "S": 1})
    wide = conv("wide", {"C": 2, "K": 1, "P": 4, "Q": 1, "R": 3, "S": 1})
    with pytest.raises(AccelsimError, match="nothing joins one, wide"):
        whole_group(make_graph([one, wide], [(before, 0, "Inputs"), (before, 1, "Inputs")]))
    both = whole_group(make_graph([one, replace(one, name="two")], [(before, 0, "Inputs"), (before, 1, "Inputs")]))
    assert [dim.name for dim in both.dims] == ["C", "P"]


ATTENTION = whole_group(
    chain_of([gemm("scores", 8, 6, 4, batch=2), soft_max("soft_max", 8, 6, batch=2), gemm("context", 8, 4, 6, batch=2)])
)


def test_fused_dims__move_every_link() -> None:
    """Rows and the batch of attention do, and the columns of the scores, over which the last product sums.

    The columns of the last product do not, nor what the first one sums.
    """
    assert [dim.name for dim in ATTENTION.dims] == ["B", "M", "K"]
    assert [dim.dims for dim in ATTENTION.dims] == [("B",) * 3, ("M",) * 3, ("N", "N", "K")]
    assert [sorted(dim.summed) for dim in ATTENTION.dims] == [[], [], [2]]


def test_fused_dims__leave_whole_rows_alone() -> None:
    """A soft-max could be cut along its columns if it did not need its rows whole."""
    scores, last = gemm("scores", 8, 6, 4), soft_max("soft_max", 8, 6)
    assert [dim.name for dim in whole_group(chain_of([scores, last])).dims] == ["M", "N"]
    rows = replace(last, whole=frozenset("N"))
    assert [dim.name for dim in whole_group(chain_of([scores, rows])).dims] == ["M"]
    attention = whole_group(chain_of([scores, rows, gemm("context", 8, 4, 6)]))
    assert [dim.name for dim in attention.dims] == ["M"]


def test_orders__have_loops_over_sums_innermost() -> None:
    batch, rows, sums = FusedLoop("B", 2, 1), FusedLoop("M", 4, 2), FusedLoop("K", 3, 2)
    assert list(orders_of(ATTENTION, (batch, rows, sums))) == [(batch, rows, sums), (rows, batch, sums)]
    assert list(orders_of(ATTENTION, (sums,))) == [(sums,)]


def test_runs__of_a_loop_over_a_sum_are_one_part_of_the_layer_that_sums() -> None:
    """Rows in 4 steps of 2; in each, the 6 columns of the scores in 3 steps of 2.

    The soft-max runs 2 x 4 x 3 tiles of 2 x 2 words. The last product runs a part for each batch and 2 rows, with all
    6 columns in three steps. Its output, 2 x 4 words, passes through in each of these three, or stays until it is
    done.
    """
    loops = FusedLoop("B", 2, 1), FusedLoop("M", 4, 2), FusedLoop("K", 3, 2)
    border = free_border(ATTENTION)
    for resident in ({}, {2: "Outputs"}):
        tiling = tiled(ATTENTION, *loops, resident=resident)
        scores, rows, context = runs(ATTENTION, tiling, border, BUFFER)
        assert (rows.part.einsum(ATTENTION).dims, rows.count) == ({"B": 1, "M": 2, "N": 2}, 24)
        assert (scores.part.bounds, scores.count) == ((1, 2, 2, 4), 24)
        assert (context.part.bounds, context.count) == ((1, 2, 4, 6), 8)
        assert context.part.sums == (("K", 3),)
        assert context.part.tile(ATTENTION) == {"B": 1, "M": 2, "N": 4, "K": 2}
        assert context.part.streamed == (frozenset() if resident else {"Outputs"})
        assert context.part.arriving == frozenset(resident.values())
    check_parts(ATTENTION, border, tiling)
    assert execute_fused(ATTENTION, tiling, border).runs[2, (1, 2, 4, 2)] == 24


def test_runs__a_tensor_that_loops_over_sums_leave_in_place_comes_once_or_in_each_step() -> None:
    """The 4 x 6 columns of keys of a batch are cut by the loop over them; the queries, 2 x 4 words, are not.

    As they stay, they come once for each batch and 2 rows: 8 times 8 words. Values never stay: each step takes others.
    """
    loops = FusedLoop("B", 2, 1), FusedLoop("M", 4, 2), FusedLoop("K", 3, 2)
    tiling, border = tiled(ATTENTION, *loops, resident={0: "Inputs"}), free_border(ATTENTION)
    scores = [run for run in runs(ATTENTION, tiling, border, BUFFER) if run.part.layer == 0]
    assert [(sorted(run.part.arriving), sorted(run.part.present), run.count) for run in scores] == [
        (["Inputs"], ["Outputs"], 8),
        ([], ["Inputs", "Outputs"], 16),
    ]
    assert execute_fused(ATTENTION, tiling, border).fetched[0]["Inputs"] == 8 * 2 * 4
    options = options_of(ATTENTION, border, BUFFER, loops)
    assert ("resident", 0, "Inputs") in options
    assert ("resident", 2, "Outputs") in options
    assert not {("resident", 0, "Weights"), ("resident", 2, "Weights")}.intersection(options)


BEFORE = conv("before", {"C": 1, "K": 2, "P": 8, "Q": 4, "R": 1, "S": 1})
RESIDUAL_LAYERS = [
    conv("reduce", {"C": 2, "K": 1, "P": 8, "Q": 4, "R": 1, "S": 1}),
    conv("middle", {"C": 1, "P": 8, "Q": 4, "R": 3, "S": 3}, depthwise=True),
    conv("expand", {"C": 1, "K": 2, "P": 8, "Q": 4, "R": 1, "S": 1}),
    add("sum", {"K": 2, "P": 8, "Q": 4}),
]
BLOCK = whole_group(chain_of(RESIDUAL_LAYERS, ((BEFORE, 0, "Inputs"), (BEFORE, 3, "Residual"))))
"""What the first layer and the sum read comes from before the group."""
WITH_BEFORE = whole_group(chain_of([BEFORE, *RESIDUAL_LAYERS], ((0, 4, "Residual"),)))
"""It is a link inside that two layers read."""


def test_shared__is_fetched_once_where_the_halo_is_retained() -> None:
    """Two channels of 8 x 4 words, in steps of 2 rows with all columns and a halo of 2 rows: each word comes once.

    The 3 x 3 layer asks for one row more than the sum in each direction: until the sum has run there are its 2 rows and
    the next one, 2 x 3 x 4 words, and from step to step the next one alone.
    """
    border, rows = free_border(BLOCK), FusedLoop("P", 4, 2)
    retained = tiled(BLOCK, rows, retain=("P", "", ""), shared=[0])
    assert shares(BLOCK, retained, BLOCK.shared[0])
    walked = execute_fused(BLOCK, retained, border)
    assert (walked.fetched[0]["Inputs"], walked.missing) == (2 * 8 * 4, 0)
    assert (walked.live[-1], walked.between[-1]) == (2 * 3 * 4, 2 * 4)
    room = shared_room(BLOCK, retained, 0)
    assert (room.live, room.between) == (2 * 3 * 4, 2 * 4)
    again = replace(retained, retain=(frozenset(),) * 3)
    assert execute_fused(BLOCK, again, border).fetched[0]["Inputs"] == 2 * (3 + 4 + 4 + 3) * 4


def test_shared__parts_find_it_and_leave_its_words_alone() -> None:
    """All at once: 64 words of it beside each part but those of the layers that read it."""
    tiling, border = tiled(BLOCK, shared=[0]), free_border(BLOCK)
    with_it = runs(BLOCK, tiling, border, BUFFER)
    without = runs(BLOCK, replace(tiling, shared=frozenset()), border, BUFFER)
    assert ["Inputs" in run.part.arriving for run in with_it] == [True, False, False, False]
    assert ["Residual" in run.part.present for run in with_it] == [False, False, False, True]
    assert not any({"Inputs", "Residual"} & run.part.arriving for run in without)
    assert "Residual" not in without[3].part.present
    assert [a.reserved - b.reserved for a, b in zip(with_it, without, strict=True)] == [0, 64, 64, 0]


def test_shared__is_not_kept_where_what_is_read_again_lies_elsewhere() -> None:
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
    before = conv("before", {"C": 1, "K": 2, **square, "R": 1, "S": 1})
    group = whole_group(chain_of([first, turned], ((before, 0, "Inputs"), (before, 1, "Residual"))))
    border, loops = free_border(group), (FusedLoop("P", 2, 2),)
    assert not any(tiling.shared for tiling in tilings(group, border, BUFFER, loops))
    assert any(tiling.shared for tiling in tilings(group, border, BUFFER, ()))


def test_rooms__a_link_stays_until_the_last_layer_has_read_it() -> None:
    """The first layer's output, 2 x 8 x 4 words, lies there beside each part until the sum has run.

    So do the links after it while their producer and their reader run: 10 x 6 words, of which 8 x 4 are written and
    the others are padding, then 8 x 4 and 2 x 8 x 4. Of these, a part does not need what it does not hold itself.
    """
    border = free_border(WITH_BEFORE)
    all_at_once = runs(WITH_BEFORE, tiled(WITH_BEFORE), border, BUFFER)
    held = [
        sum(run.part.einsum(WITH_BEFORE).tensor(name).words(run.part.tile(WITH_BEFORE)) for name in run.part.present)
        for run in all_at_once
    ]
    assert [run.part.layer for run in all_at_once] == [0, 1, 2, 3, 4]
    assert held == [64, 64 + 32, 60 + 32, 32 + 64, 64 + 64]
    assert [run.reserved for run in all_at_once] == [0, 60 - 32, 64, 64, 0]


def test_rooms__of_a_link_hold_what_all_its_readers_ask_for() -> None:
    """In steps of 2 rows the sum asks for these, the 3 x 3 layer for one more on each side, all through one layer.

    Where that layer's own halo of 2 rows stays, it asks for the 2 rows after those it has had, and the sum for one of
    them and the one before: 3 rows, of which the first is there. Without a halo of the link, the first layer computes
    a row again in each of three steps.
    """
    border, rows = free_border(WITH_BEFORE), FusedLoop("P", 4, 2)
    kept = tiled(WITH_BEFORE, rows, retain=("P", "P", "", ""))
    again = tiled(WITH_BEFORE, rows, retain=("", "P", "", ""))
    for tiling, ran, between in ((kept, 8, 1), (again, 8 + 3, 0)):
        room, walked = rooms(WITH_BEFORE, tiling, border)[0], execute_fused(WITH_BEFORE, tiling, border)
        assert walked.live[0] == room.live == 2 * 3 * 4
        assert room.between == 2 * between * 4
        assert walked.macs[0] == 2 * ran * 4
        check_parts(WITH_BEFORE, border, tiling)
    halos = {option for option in options_of(WITH_BEFORE, border, BUFFER, (rows,)) if option[0] == "halo"}
    assert halos == {("halo", 0, "P"), ("halo", 1, "P")}


def test_border__a_whole_output_is_computed_once_and_moves_no_word() -> None:
    """Both layers' outputs stay, 64 words each: no halo is computed again and the outputs arrive nowhere.

    They are taken from the level for all parts; what a part holds of them is not reserved once more.
    """
    graph = make_graph(ROWS.layers, [(0, 1, "Inputs")], results=[0])
    group = whole_group(graph)
    assert free_border(group).leaving == {0, 1}
    staying = Border(staying=frozenset({0, 1}), taken=2 * 64)
    rows = FusedLoop("P", 4, 2)
    assert {kind for kind, _, _ in options_of(group, staying, BUFFER, (rows,))} == {"resident"}
    assert ("halo", 0, "P") in options_of(group, free_border(group), BUFFER, (rows,))
    tiling = make_tiling(group, staying, "BUF", (rows,), ())
    assert tiling.retain == (frozenset("P"),)
    several = runs(group, tiling, staying, BUFFER)
    assert sum(run.count * run.part.einsum(group).dims["P"] for run in several if run.part.layer == 0) == 8
    assert not any("Outputs" in run.part.arriving for run in several)
    assert all("Outputs" in run.part.present for run in several)
    assert rooms(group, tiling, staying)[0].live == 0
    for run in several:
        held = sum(run.part.einsum(group).tensor(n).words(run.part.tile(group)) for n in run.part.present)
        assert run.reserved == 128 - held
    leaving = replace(staying, leaving=frozenset({0}))
    arriving = [(run.part.layer, sorted(run.part.arriving)) for run in runs(group, tiling, leaving, BUFFER)]
    assert {names == ["Outputs"] for layer, names in arriving if layer == 0} == {True}
    assert {names == [] for layer, names in arriving if layer == 1} == {True}


def test_border__an_input_that_is_there_comes_from_nowhere() -> None:
    """What the block reads lies there as a whole, 64 words: no part fetches it, keeps it, or shares it with another."""
    border = replace(free_border(BLOCK), present=frozenset({(0, "Inputs"), (3, "Residual")}), taken=64)
    rows = FusedLoop("P", 4, 2)
    options = options_of(BLOCK, border, BUFFER, (rows,))
    assert not {("resident", 0, "Inputs"), ("resident", 3, "Residual"), ("shared", 0, "")}.intersection(options)
    assert ("shared", 0, "") in options_of(BLOCK, free_border(BLOCK), BUFFER, (rows,))
    several = runs(BLOCK, tiled(BLOCK, rows), border, BUFFER)
    assert {"Inputs" in run.part.present for run in several if run.part.layer == 0} == {True}
    assert {"Residual" in run.part.present for run in several if run.part.layer == 3} == {True}
    free = {run.part.layer: run.reserved for run in runs(BLOCK, tiled(BLOCK, rows), free_border(BLOCK), BUFFER)}
    (middle,) = {run.reserved for run in several if run.part.layer == 1}
    assert middle == free[1] + 64
