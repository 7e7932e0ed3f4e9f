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
from accelsim.fusion.graph import Graph, make_graph
from accelsim.fusion.group import Group, make_group
from accelsim.fusion.tiling import (
    Border,
    FusedLoop,
    FusedTiling,
    Run,
    loop_sets,
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
        return chain_of(layers[::-1])
    except AccelsimError:
        return ROWS


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
    return [Border(leaving=out), Border(staying=out, taken=words), Border(staying=out & inside, leaving=out, taken=words)]


def tilings(group: Group, border: Border, level: Level, loops: tuple[FusedLoop, ...]) -> Iterator[FusedTiling]:
    """Every fused tiling of a group with some loops, whether it fits or not, that which keeps most first."""
    options = options_of(group, border, level, loops)
    for many in range(len(options), -1, -1):
        for kept in itertools.combinations(options, many):
            tiling = make_tiling(group, border, level.name, loops, kept)
            if all(shares(group, tiling, group.shared[at]) for at in tiling.shared):
                yield tiling


@st.composite
def fused(draw: st.DrawFn) -> tuple[Group, Border, FusedTiling]:
    """A group, its border, and one of its fused tilings."""
    group = whole_group(draw(st.one_of(conv_graphs(), gemm_graphs(), residual_graphs())))
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


ROWS = chain_of(
    [
        conv("expand", {"C": 2, "K": 2, "P": 8, "Q": 4, "R": 1, "S": 1}),
        conv("depthwise", {"C": 2, "P": 8, "Q": 4, "R": 3, "S": 3}, depthwise=True),
    ]
)


@settings(max_examples=300)
@given(fused())
def test_fused_tiling__parts_are_what_execution_runs(each: tuple[Group, Border, FusedTiling]) -> None:
    group, border, tiling = each
    walked = execute_fused(group, tiling, border)
    found = counted(group, tiling, runs(group, tiling, border, BUFFER))
    assert walked.missing == 0
    assert not any(walked.results)
    assert found.macs == walked.macs
    assert found.written == walked.written
    assert found.shapes == walked.runs
    assert [+fetched for fetched in found.fetched] == [+fetched for fetched in walked.fetched]
    several = [*rooms(group, tiling, border), *(shared_room(group, tiling, at) for at in range(len(group.shared)))]
    for room, live, between in zip(several, walked.live, walked.between, strict=True):
        assert live <= room.live
        assert between <= room.between
