"""Fused groups: parts against execution, searches against brute force, and the laws of networks."""

from __future__ import annotations

import functools
import itertools
import math
import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim import load_architecture, load_workload
from accelsim.fusion import fuse as fuse_all
from accelsim.fusion.graph import Graph, make_graph
from accelsim.fusion.network import NetworkSearch, _UnfusedLayer
from accelsim.fusion.parts import (
    PartLimits,
    PartResult,
    Solutions,
    encode_part,
    held_by,
    map_part,
    without_held,
)
from accelsim.fusion.paths import Ways
from accelsim.fusion.result import CYCLES, ENERGY, Optimum, Price, least_product
from accelsim.fusion.search import fuse_group
from accelsim.fusion.tiling import (
    Border,
    FusedLoop,
    free_border,
    fusing_levels,
    rules_inside,
    runs,
)
from accelsim.inputs.architecture import OVERLAPS, Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Edge, Einsum, Workload
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.limits import layer_limits
from accelsim.model.oracle import execute
from accelsim.model.result import Result
from accelsim.results.cache import MapOptions, map_with_cache
from accelsim.search.exact.front import map_front
from accelsim.search.mapper import map_einsum
from accelsim.search.result import SearchResult
from accelsim.search.stopping import Budget
from tests.brute import has_few
from tests.fusion_brute import Fusion, Mappings, Piece, Ran, alone, both, front_of_ways, least_of_ways
from tests.test_fusion_tiling import (
    add,
    borders,
    chain_of,
    conv,
    conv_graphs,
    fused,
    gemm,
    gemm_graphs,
    machine,
    residual_graphs,
    soft_max,
    tilings,
    whole_group,
)

EVEN = MapOptions(uneven=False, imperfect=())
fuse = functools.partial(fuse_all, options=EVEN)
"""Of even mappings with perfect factors, which brute force looks at."""

ROWS = chain_of(
    [
        conv("expand", {"C": 2, "K": 2, "P": 4, "Q": 1, "R": 1, "S": 1}),
        conv("depthwise", {"C": 2, "P": 4, "Q": 1, "R": 3, "S": 1}, depthwise=True),
    ]
)
ATTENTION = chain_of([gemm("scores", 4, 3, 2), soft_max("soft_max", 4, 3), gemm("context", 4, 2, 3)])
BEFORE = conv("before", {"C": 3, "K": 2, "P": 4, "Q": 1, "R": 1, "S": 1})
BLOCK = [
    conv("first", {"C": 2, "K": 2, "P": 4, "Q": 1, "R": 1, "S": 1}),
    conv("depthwise", {"C": 2, "P": 4, "Q": 1, "R": 3, "S": 1}, depthwise=True),
    add("sum", {"C": 2, "P": 4}),
]
RESIDUAL = chain_of(BLOCK, ((BEFORE, 0, "Inputs"), (BEFORE, 2, "Residual")))
"""The sum reads again what the first layer reads, which comes from before the graph."""
WITH_BEFORE = chain_of([BEFORE, *BLOCK], ((0, 3, "Residual"),))
"""The sum reads again what the first layer writes."""
HEADS = make_graph(
    [gemm("query", 2, 3, 2), gemm("keys", 3, 2, 2), gemm("scores", 2, 2, 3), gemm("context", 2, 2, 2)],
    [(0, 2, "Inputs"), (1, 2, "Weights"), (2, 3, "Inputs")],
    results=[0],
)
"""Two layers that may run in either order; the output of one of them is a result, too."""


def walked_cost(
    tiny: Architecture, einsum: Einsum, result: Result, free: frozenset[str], level: int
) -> dict[str, object]:
    """Words, energy and cycles of a part by execution, without what free tensors move outside F and into it."""
    names = [each.name for each in tiny.levels]
    counts = execute(tiny, einsum, result.mapping)
    words, energy = {}, einsum.macs * tiny.energy.energy_pj("MAC", "*", "compute")
    cycles = counts.steps
    for index, at in enumerate(tiny.levels):
        read = written = 0
        for tensor in einsum.tensors:
            found = counts.levels[index].get(tensor.name)
            if found is None or (tensor.name in free and index < level):
                continue
            fills = 0 if tensor.name in free and index == level else found.fills
            total_fills = 0 if fills == 0 else found.total_fills
            words[names[index], tensor.name] = found.total_reads, total_fills, found.total_updates
            read, written = read + found.reads, written + fills + found.updates
            for action, many in zip(("read", "write", "update"), words[names[index], tensor.name], strict=True):
                energy += many * tiny.energy.energy_pj(names[index], tensor.role, action)
        for rate, many in ((at.bandwidth, read + written), (at.read_bandwidth, read), (at.write_bandwidth, written)):
            cycles = max(cycles, math.ceil(many / rate) if rate else 0)
    leak = tiny.energy.energy_pj("BUF", "*", "leak") * cycles
    return {"words": words, "energy": energy + leak, "cycles": cycles}


@settings(max_examples=25)
@given(fused(), st.sampled_from([ENERGY, CYCLES]))
def test_parts__cost_what_execution_counts(both: tuple[Any, ...], price: Price) -> None:
    """Links inside move no word at DRAM, and enter the buffer only as what their producer writes.

    A part has no mapping only where a tensor has to be cut outside the buffer, and each dimension that cuts it moves
    one that lies there as a whole.
    """
    group, border, tiling = both
    tiny = machine(1000)
    several = runs(group, tiling, border, tiny.levels[1])
    rules = rules_inside(tiny, group, tiling.loops)
    assert rules is not None
    for run in several:
        einsum, held = run.part.einsum(group), held_by(group, run.part, 1)
        if not all(each.names for each in held.changing(einsum)):
            continue
        found = map_part(tiny, einsum, held, 1000 - run.reserved, price, rules[run.part.layer])
        whole_dims = frozenset[str]().union(*(einsum.tensor(name).dims for name in held.names))
        cuts = all(
            math.prod(einsum.dims[dim] for dim in {*each.names} - whole_dims) > 1 for each in held.changing(einsum)
        )
        assert (found is not None) == cuts
        if found is None:
            continue
        raw = evaluate_encoded(encode_part(tiny, einsum, held, 1000 - run.reserved), found.results[0].mapping)
        assert raw.valid
        assert (raw.energy_pj, raw.cycles) == (found.results[0].energy_pj, found.results[0].cycles)
        clean = without_held(found.results[0], held, ["DRAM", "BUF", "REG"], 1000 - run.reserved)
        walked = walked_cost(tiny, einsum, found.results[0], held.present, 1)
        counts = {(t.level, t.tensor): (t.total_reads, t.total_fills, t.total_updates) for t in clean.tensors}
        assert counts == walked["words"]
        assert clean.energy_pj == pytest.approx(walked["energy"], rel=1e-12)
        assert clean.cycles == walked["cycles"]
        assert not {t.tensor for t in clean.tensors if t.level == "DRAM"} & held.present
        assert math.isclose(sum(row["energy_pj"] for row in clean.energy_rows()), clean.energy_pj, rel_tol=1e-9)
        for name in held.names:
            tile = next(t.tile_words for t in clean.tensors if (t.level, t.tensor) == ("BUF", name))
            assert tile == next(t for t in einsum.tensors if t.name == name).words(run.part.tile(group))


@pytest.mark.parametrize(("price", "overlap"), [(ENERGY, "all"), *((CYCLES, overlap) for overlap in OVERLAPS)])
@pytest.mark.parametrize(
    ("graph", "loop"),
    [(ROWS, FusedLoop("P", 2, 2)), (ATTENTION, FusedLoop("M", 2, 2)), (ATTENTION, FusedLoop("K", 3, 1))],
    ids=["rows", "attention", "sums"],
)
def test_map_part__is_the_best_of_all_mappings(graph: Graph, loop: FusedLoop, price: Price, overlap: str) -> None:
    """Where fills wait, those of tensors that stay in the buffer take no time."""
    tiny, group = machine(40), whole_group(graph)
    inner = (replace(level, overlap=overlap) for level in tiny.levels[1:])
    tiny, border = replace(tiny, levels=(tiny.levels[0], *inner)), free_border(group)
    tiling = next(tilings(group, border, tiny.levels[1], (loop,)))
    rules = rules_inside(tiny, group, (loop,))
    assert rules is not None
    for run in runs(group, tiling, border, tiny.levels[1]):
        einsum, held, asked = run.part.einsum(group), held_by(group, run.part, 1), rules[run.part.layer]
        found = map_part(tiny, einsum, held, 40 - run.reserved, price, asked)
        part = run.part
        piece = Piece(
            part.bounds, einsum.tensors, tuple(einsum.dims), *(part.arriving, part.present), part.sums, part.streamed
        )
        least = min(price.value(*each)[0] for each in Mappings(tiny).points(piece, 40 - run.reserved))
        assert found is not None
        assert price.of(found.results[0])[0] == pytest.approx(least, rel=1e-12)
        for each in found.results[0].fills:
            assert each.level != "BUF" or each.tensor not in held.present or each.fills + each.drains == 0
        energy_pj, busy = PartLimits.make(tiny, group.layers[run.part.layer], held).of(run.part.bounds)
        assert energy_pj <= found.results[0].energy_pj
        assert max(busy) <= found.results[0].cycles


KNOWN: dict[bytes, PartResult | None] = {}


def known_part(*given: Any) -> PartResult | None:
    """Map a part once for all tests that ask for it without a deadline."""
    assert given[6:] in ((), (None,))
    key = pickle.dumps(given[:6])
    if key not in KNOWN:
        KNOWN[key] = map_part(*given[:6])
    return KNOWN[key]


@pytest.fixture
def _parts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelsim.fusion.parts.map_part", known_part)


def brute(tiny: Architecture, graph: Graph, border: Border, price: Price) -> float:
    """Least value of all fused tilings of all layers of a graph, and all mappings of their parts."""
    ran = Ran(tuple(range(len(graph.layers))), border)
    return Fusion(tiny, graph, ran, Mappings(tiny)).least(lambda *cost: price.value(*cost)[0])


def fuse_whole(tiny: Architecture, graph: Graph, solutions: Solutions, **options: Any) -> tuple[Any, float]:
    """The best fused tiling of all layers of a graph, with nothing whole in the buffer."""
    group = whole_group(graph)
    return fuse_group(tiny, group, free_border(group), solutions, level=1, **options)


@pytest.mark.usefixtures("_parts_once")
@pytest.mark.parametrize(
    ("graph", "size", "bypass", "price"),
    [
        (ROWS, 22, "", ENERGY),
        (ROWS, 17, "Weights", CYCLES),
        (ATTENTION, 30, "", ENERGY),
        (ATTENTION, 14, "", CYCLES),
        (RESIDUAL, 22, "", ENERGY),
        (WITH_BEFORE, 30, "", ENERGY),
        (HEADS, 20, "", ENERGY),
    ],
)
def test_fuse_group__is_the_best_of_all_fused_tilings(graph: Graph, size: int, bypass: str, price: Price) -> None:
    tiny, group = machine(size, bypass=bypass), whole_group(graph)
    solutions = Solutions(tiny, price)
    found, bound = fuse_whole(tiny, graph, solutions)
    least = brute(tiny, graph, free_border(group), price)
    assert found is not None
    assert found.certificate.proved
    assert found.certificate.value == pytest.approx(least, rel=1e-12)
    assert bound == pytest.approx(least, rel=1e-12)
    assert fuse_whole(tiny, graph, solutions, below=least) == (None, pytest.approx(least))


@settings(max_examples=10)
@given(st.one_of(conv_graphs(), gemm_graphs(), residual_graphs()), st.sampled_from([12, 16, 20, 30, 45]), st.data())
def test_fuse_group__is_the_best_of_all_fused_tilings_of_any_group(
    graph: Graph, size: int, data: st.DataObject
) -> None:
    """With outputs that stay in the buffer as a whole, or leave it, too."""
    tiny, group = machine(size), whole_group(graph)
    assume(len(graph.layers) <= 4 and all(has_few(tiny, layer, 300_000) for layer in graph.layers))
    border = data.draw(st.sampled_from([each for each in borders(group) if each.taken <= size]))
    least = brute(tiny, graph, border, ENERGY)
    found, bound = fuse_group(tiny, group, border, Solutions(tiny, ENERGY), level=1)
    assert (found is None) == (least == math.inf)
    assert bound == pytest.approx(least, rel=1e-9)
    assert found is None or found.certificate.value == pytest.approx(least, rel=1e-9)


def residual(*, repeat: int = 1) -> Workload:
    """A layer, and a block whose sum reads its output once more."""
    layers = BEFORE, *BLOCK
    edges = [Edge(a.name, b.name, "Inputs") for a, b in itertools.pairwise(layers)]
    several = tuple(replace(each, repeat=repeat) for each in layers)
    return Workload("block", several, (*edges, Edge("before", "sum", "Residual")))


def test_fuse__a_residual_sum_finds_what_the_block_has_read() -> None:
    """In a buffer that holds all, the block moves its input, its weights (4 and 6 words) and its output once.

    Were the sum's other operand read from the memory, 8 words more would come from there. With the layer before the
    block, that one's input (12 words) and weights (6) move in place of what it writes.
    """
    tiny, network = machine(200), residual()
    (segment,) = fuse(tiny, network, chain=[layer.name for layer in BLOCK], workers=1).fused
    assert [layer.name for layer in segment.layers] == ["first", "depthwise", "sum"]
    assert segment.fused is not None
    assert segment.fused.tiling.shared == {0}
    assert segment.fused.totals.offchip_words == 8 + 4 + 6 + 8
    assert segment.fused.shared(0).live >= 2
    alone, _ = fuse_whole(tiny, chain_of(BLOCK), Solutions(tiny, ENERGY))
    assert alone.totals.offchip_words == 8 + 4 + 6 + 8 + 8
    assert alone.totals.energy_pj > segment.fused.totals.energy_pj
    assert fuse(tiny, network, workers=1).totals.offchip_words == 12 + 6 + 4 + 6 + 8


def whole(chain: Sequence[Einsum]) -> Workload:
    """A network of layers in a line."""
    edges = tuple(Edge(a.name, b.name, "Inputs") for a, b in itertools.pairwise(chain))
    return Workload("line", tuple(chain), edges)


OTHER = gemm("other", 5, 1, 1)
"""A layer that reads an output in other shapes."""


def network_of(graph: Graph) -> Workload:
    """A network that is one graph; what goes out of it is read by one more layer, which nothing can be fused with."""
    names = [layer.name for layer in graph.layers]
    made = [link for link in graph.links if link.producer is not None]
    edges = [Edge(names[link.producer or 0], names[r.layer], r.tensor) for link in made for r in link.readers]
    out = [Edge(names[link.producer or 0], OTHER.name, "Inputs") for link in made if link.goes_out]
    return Workload("net", (*graph.layers, *([OTHER] if out else [])), (*edges, *out))


@pytest.mark.parametrize("objective", ["energy", "cycles"])
@pytest.mark.parametrize(
    ("graph", "sizes"),
    [
        (chain_of([*ATTENTION.layers, gemm("output", 4, 2, 2)]), (12, 30)),
        (WITH_BEFORE, (16, 30)),
        (HEADS, (16,)),
    ],
    ids=["line", "residual", "heads"],
)
def test_fuse__is_the_best_of_all_ways_to_cut_a_graph(graph: Graph, sizes: tuple[int, ...], objective: str) -> None:
    """All orders of the layers, all groups, and all choices of outputs that stay whole, for how long.

    The residual sum saves energy by an output that stays whole in one of the buffers: else these would go untested.
    """
    price, network, helps = ENERGY if objective == "energy" else CYCLES, network_of(graph), list[bool]()
    for size in sizes:
        mappings, others = Mappings(machine(size)), network.layers[len(graph.layers) :]
        found = fuse(mappings.tiny, network, objective=objective, workers=1)
        best, bare = least_of_ways(graph, mappings, lambda *cost: price.value(*cost)[0])
        rest = (map_einsum(mappings.tiny, each, objective=objective, workers=1, uneven=False) for each in others)
        assert found.certificate.proved
        assert found.certificate.value == pytest.approx(best + sum(price.of(e.best)[0] for e in rest), rel=1e-12)
        helps.append(best < bare * (1 - 1e-9))
        assert not helps[-1] or any(each.fused and each.fused.border.taken for each in found.segments)
    assert any(helps) or (graph, objective) != (WITH_BEFORE, "energy")


@pytest.mark.usefixtures("_parts_once")
@pytest.mark.parametrize("price", [ENERGY, CYCLES], ids=["energy", "cycles"])
@pytest.mark.parametrize("graph", [ATTENTION, WITH_BEFORE, HEADS], ids=["attention", "residual", "heads"])
def test_limits__of_a_step_are_below_each_fused_tiling(graph: Graph, price: Price) -> None:
    """Of each step with each border and order."""
    tiny = machine(30)
    solutions = Solutions(tiny, price)
    search = NetworkSearch(tiny, solutions, None, None, None, 1, None, {}, EVEN)
    ways, seen = Ways(tiny, graph, 1, len(graph.layers)), 0
    for step in ways.every:
        cost = search._cost(graph, ways, step)
        rough = cost.value[0]
        if cost.rough:
            search._refine(graph, ways, step, cost)
        least = cost.value[0]
        assert 0 < rough <= least
        for group, border in search.groups(graph, step):
            value = fuse_group(tiny, group, border, solutions, level=1)[1]
            assert least <= value
            seen += value < math.inf
    assert seen > len(graph.layers)


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_fuse__stopped_at_once_is_unfused_with_a_bound(objective: str) -> None:
    tiny, network = machine(30), whole(ATTENTION.layers)
    found = fuse(tiny, network, objective=objective, seconds=1e-9, workers=1)
    sure = fuse(tiny, network, objective=objective, workers=1)
    assert found.stop == "timeout"
    assert found.totals == found.unfused
    assert found.certificate.bound <= sure.certificate.value < found.certificate.value


def test_fuse__shares_its_time_among_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 s proofs take 30: a quarter for each of three layers and for fusing, and more where one needs less."""
    given_s = []

    def note(*asked: Any, budget: Budget, **options: Any) -> SearchResult:
        given_s.append(budget.seconds)
        return map_with_cache(*asked, budget=budget, **options)

    monkeypatch.setattr("accelsim.fusion.network.map_with_cache", note)
    fuse(machine(30), whole(ATTENTION.layers), seconds=40.0, workers=1)
    assert [each <= 30 / share for each, share in zip(given_s, (4, 3, 2), strict=True)] == [True] * 3
    assert given_s[0] > 30 / 8


@pytest.mark.parametrize("key", ["", "accelsim.fusion.network.content_key"], ids=["key", "one_key"])
def test_unfused_layers__of_other_names_cost_what_they_cost_alone(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data of `gemmini` is adjacent along C and K; it takes other times where they are other dimensions."""
    if key:
        monkeypatch.setattr(key, lambda *_: "the same")
    gemmini, one = load_architecture("gemmini"), gemm("one", 24, 64, 40)
    names = dict(zip("BMNK", "BPKC", strict=True))
    tensors = tuple(replace(t, ranks=tuple(((names[dim], 1),) for ((dim, _),) in t.ranks)) for t in one.tensors)
    other = replace(one, name="other", dims={names[dim]: n for dim, n in one.dims.items()}, tensors=tensors)
    search = NetworkSearch(gemmini, Solutions(gemmini, CYCLES), None, None, None, 1, None, {}, EVEN)
    for layer in (one, other):
        best = map_einsum(gemmini, layer, objective="cycles", workers=1, uneven=False).best
        assert [result.cycles for result in search.alone(layer).results] == [best.cycles]
    assert len({search.alone(layer).results[0].cycles for layer in (one, other)}) == 2


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_fuse__searches_again_where_time_is_left(monkeypatch: pytest.MonkeyPatch, objective: str) -> None:
    """The first search of each layer is stopped at once; the second one proves it."""
    tiny, network = machine(30), whole((*ATTENTION.layers, replace(ATTENTION.layers[0], name="again")))
    sure, budget, asked_s = fuse(tiny, network, objective=objective, workers=1), NetworkSearch.budget, []

    def short(self: NetworkSearch) -> Budget | None:
        asked_s.append(budget(self))
        return Budget(seconds=1e-9) if len(asked_s) <= 4 else asked_s[-1]  # one that is only looked at, three searches

    monkeypatch.setattr(NetworkSearch, "budget", short)
    found = fuse(tiny, network, objective=objective, seconds=1000.0, workers=1)
    assert found.certificate.proved
    assert found.certificate.value == pytest.approx(sure.certificate.value, rel=1e-12)
    assert [len(each.layers) for each in found.segments] == [len(each.layers) for each in sure.segments]


@pytest.mark.parametrize("seed", range(12))
def test_fuse__is_the_least_product_of_the_mappings_known_however_loose_their_limits(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """On a machine whose buffer keeps no input, so that no output can stay there between two layers."""
    tiny, network, rng, fronts = machine(30, bypass="Inputs"), whole(ATTENTION.layers), random.Random(seed), []

    def stopped(self: NetworkSearch, einsum: Einsum) -> _UnfusedLayer:
        (one,) = map_front(tiny, einsum, workers=1).points
        points = [(rng.uniform(1e3, 1e5), rng.randint(100, 9999)) for _ in range(6)]
        fronts.append(points)
        return _UnfusedLayer(tuple(replace(one, energy_pj=e, cycles=c) for e, c in points), (1.0, 1.0))

    monkeypatch.setattr(NetworkSearch, "_front", stopped)
    found = fuse(tiny, network, objective="edp", longest=1, workers=1)
    least = min(sum(e for e, _ in each) * sum(c for _, c in each) for each in itertools.product(*fronts))
    assert found.certificate.value == pytest.approx(least, rel=1e-12)
    assert not found.certificate.proved


def test_fuse__is_stopped_in_the_middle_of_a_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers by themselves have no complete front by then, so their limits are the bound; no part gets one either."""
    eyeriss, network = load_architecture("eyeriss"), load_workload("mobilenet_v2")
    monkeypatch.setattr("accelsim.fusion.network.LEAST_SECONDS", 1e-6)
    monkeypatch.setattr("accelsim.fusion.parts.LEAST_SECONDS", 1e-6)
    found = fuse(eyeriss, network, objective="edp", chain=["b5_expand", "b5_depthwise"], seconds=1e-6, workers=1)
    assert (found.stop, found.groups, found.solved) == ("timeout", 0, 0)
    assert found.totals == found.unfused
    limits = [layer_limits(eyeriss, layer) for segment in found.segments for layer in segment.layers]
    energy_pj, cycles = sum(each.energy_pj for each in limits), sum(each.cycles for each in limits)
    assert 0 < found.certificate.bound <= energy_pj * cycles < found.certificate.value
    group = whole_group(ROWS)
    tiling = next(tilings(group, free_border(group), machine().levels[1], ()))
    part = runs(group, tiling, free_border(group), machine().levels[1])[0].part
    asked = machine(), part.einsum(group), held_by(group, part, 1), 60
    for price in (None, ENERGY):
        stopped, sure = map_part(*asked, price, deadline=monotonic()), map_part(*asked, price)
        assert stopped is not None
        assert sure is not None
        assert (stopped.stop, sure.stop) == ("timeout", "exhausted")
        energy_pj = min(each.energy_pj for each in sure.results)
        assert stopped.least[0] <= energy_pj <= min(each.energy_pj for each in stopped.results)


@pytest.mark.parametrize("price", [ENERGY, CYCLES, Price(1.0, 3.0)], ids=["energy", "cycles", "both"])
def test_fuse_group__without_tables_has_an_answer_and_a_bound(monkeypatch: pytest.MonkeyPatch, price: Price) -> None:
    tiny = machine(30)
    _, least = fuse_whole(tiny, ATTENTION, Solutions(tiny, price, price.mixed))
    monkeypatch.setattr("accelsim.search.exact.bounds.MOST_BYTES", 0)
    for module in ("optimum", "front"):
        monkeypatch.setattr(f"accelsim.search.exact.{module}.FIRST_WALKS", 1)
        monkeypatch.setattr(f"accelsim.search.exact.{module}.LAST_WALKS", 1)
    found, bound = fuse_whole(tiny, ATTENTION, Solutions(tiny, price, price.mixed))
    assert found is not None
    proof = found.certificate
    assert 0 < bound <= least * (1 + 1e-12)
    assert proof.value >= least * (1 - 1e-12)
    assert (found.stop, proof.proved) == ("memory", False)
    assert all(part.result.valid for part in found.parts)


@pytest.mark.usefixtures("_parts_once")
@pytest.mark.parametrize("fails", range(0, 16, 5))
@pytest.mark.parametrize("price", [ENERGY, CYCLES], ids=["energy", "cycles"])
def test_fuse_group__with_one_part_unproved_is_between_its_bound_and_the_best(
    monkeypatch: pytest.MonkeyPatch, price: Price, fails: int
) -> None:
    """The search of one part ends with another mapping than the best, and with the limits as its bound."""
    tiny, calls = machine(30), itertools.count()
    _, least = fuse_whole(tiny, ATTENTION, Solutions(tiny, price))

    def one_stopped(*given: Any) -> PartResult | None:
        answer = known_part(*given)
        if next(calls) != fails or answer is None:
            return answer
        both = (known_part(*given[:4], each, *given[5:]) for each in (ENERGY, CYCLES))
        worst = max((result for found in both for result in found.results), key=price.of)
        used = next(level.used_words for level in worst.levels if level.level == "BUF")
        return replace(answer, results=(worst,), used=(used,), stop="timeout", least=(0.0, 0.0))

    monkeypatch.setattr("accelsim.fusion.parts.map_part", one_stopped)
    found, bound = fuse_whole(tiny, ATTENTION, Solutions(tiny, price))
    assert found is not None
    assert bound <= least * (1 + 1e-12)
    assert found.certificate.value >= least * (1 - 1e-12)
    assert found.certificate.proved == (bound >= found.certificate.value * (1 - 1e-11))
    assert found.stop == ("exhausted" if found.certificate.proved else "timeout")


@pytest.mark.usefixtures("_parts_once")
@pytest.mark.parametrize("after", [3, 20, 45, 55, 160])
def test_fuse_group__stopped_on_the_way_is_between_its_bound_and_the_best(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """After some looks at the clock, of which there is one for each candidate."""
    tiny, looks = machine(30), itertools.count()
    _, least = fuse_whole(tiny, ATTENTION, Solutions(tiny, ENERGY))
    monkeypatch.setattr("accelsim.fusion.search._is_late", lambda _: next(looks) >= after)
    found, bound = fuse_whole(tiny, ATTENTION, Solutions(tiny, ENERGY))
    assert 0 < bound <= least * (1 + 1e-12)
    if found is None:
        assert bound < least
        return
    assert found.certificate.value >= least * (1 - 1e-12)
    assert found.certificate.proved == (bound >= found.certificate.value * (1 - 1e-11))
    assert (found.stop == "timeout") == (next(looks) > after)


def test_fuse__interrupted_is_unfused_with_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny, network = machine(30), whole(ATTENTION.layers)
    sure = fuse(tiny, network, workers=1)
    monkeypatch.setattr("accelsim.fusion.network.asked", lambda: True)
    found = fuse(tiny, network, workers=1)
    assert found.stop == "interrupted"
    assert found.totals == found.unfused
    assert 0 < found.certificate.bound <= sure.certificate.value < found.certificate.value


def test_fuse__without_tables_says_so_and_how_far_it_may_be_off(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny, network = machine(30), whole(ATTENTION.layers)
    sure = fuse(tiny, network, workers=1)
    monkeypatch.setattr("accelsim.search.exact.bounds.MOST_BYTES", 0)
    monkeypatch.setattr("accelsim.search.exact.optimum.LAST_WALKS", 1)
    found = fuse(tiny, network, workers=1)
    assert (sure.stop, sure.certificate.proved) == ("exhausted", True)
    assert (found.stop, found.certificate.proved) == ("memory", False)
    assert found.fused
    assert found.certificate.bound < sure.certificate.value <= found.certificate.value * (1 + 1e-12)


def test_fuse_group__a_part_without_a_mapping_in_time_is_not_said_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables do not fit and no walk finds anything: no fused tiling is found, and the bound is that of the limits."""
    tiny = machine(30)
    _, least = fuse_whole(tiny, ATTENTION, Solutions(tiny, ENERGY))
    monkeypatch.setattr("accelsim.search.exact.optimum.Descent.go", lambda *_: None)
    monkeypatch.setattr("accelsim.search.exact.solve.Solver.search", late)
    solutions = Solutions(tiny, ENERGY, prove_until=monotonic())
    found, bound = fuse_whole(tiny, ATTENTION, solutions)
    assert found is None
    search = NetworkSearch(tiny, solutions, None, None, None, 1, None, {}, EVEN)
    ways = Ways(tiny, ATTENTION, 1, 3)
    (step,) = {ways.every[at] for at, _ in ways.edges[0] if len(ways.every[at].places) == 3}
    cost = search._cost(ATTENTION, ways, step)
    search._refine(ATTENTION, ways, step, cost)
    assert 0 < cost.value[0] <= bound <= least
    assert not solutions.impossible


def late(*_: object, **__: object) -> None:
    """A search whose time is up at once."""
    raise TimeoutError


def test_fuse__of_a_machine_without_a_buffer_for_outputs() -> None:
    nvdla, network = load_architecture("nvdla"), load_workload("mobilenet_v2")
    found = fuse(nvdla, network, chain=["b17_project", "conv_last"], workers=1)
    assert found.why_not.startswith("no level of nvdla can store an intermediate: CBUF does not store Outputs")
    assert found.totals == found.unfused


def test_fuse__of_a_machine_without_a_single_buffer() -> None:
    found = fuse(load_architecture("cpu_desktop"), whole(ATTENTION.layers), workers=1)
    assert found.why_not.startswith("no level of cpu_desktop can store an intermediate: L3 has 2 instances")
    assert found.certificate.value == found.certificate.bound == found.unfused.energy_pj
    fast = fuse(load_architecture("cpu_desktop"), whole(ATTENTION.layers), objective="cycles", overlap=True, workers=1)
    assert fast.certificate.value == fast.certificate.bound == fast.unfused.cycles


@pytest.mark.parametrize(("size", "objective"), [(14, "edp"), (30, "energy^2*cycles")])
def test_fuse__products_are_least_over_all_choices_for_all_runs(size: int, objective: str) -> None:
    """Two runs of a graph may take different mappings: neither is better than one price for all."""
    tiny, layers = machine(size), ATTENTION.layers
    network = replace(whole(layers), layers=tuple(replace(layer, repeat=2) for layer in layers))
    found, goal = fuse(tiny, network, objective=objective, workers=1), Objective.parse(objective)
    mappings = Mappings(tiny)
    graph = front_of_ways(ATTENTION, mappings)
    least = min(goal.value(*point) for point in both(graph, graph))
    assert found.certificate.proved
    assert found.certificate.value == pytest.approx(least, rel=1e-9)
    assert goal.value(found.totals.energy_pj, found.totals.cycles) == pytest.approx(least, rel=1e-9)
    bare = functools.reduce(both, (alone(ATTENTION, mappings, at) for at in range(len(layers))))
    unfused = min(goal.value(*point) for point in both(bare, bare))
    assert goal.value(found.unfused.energy_pj, found.unfused.cycles) == pytest.approx(unfused, rel=1e-9)


@given(
    st.sets(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=12),
    st.sampled_from(["edp", "energy^2*cycles", "energy*cycles^3"]),
)
def test_least_product__is_the_least_of_any_points(points: set[tuple[int, int]], objective: str) -> None:
    goal, asked = Objective.parse(objective), list[Price]()

    def cheapest(price: Price) -> Optimum[None]:
        asked.append(price)
        energy_pj, cycles = min(points, key=lambda point: price.value(*point))
        return Optimum(price, energy_pj, cycles, price.value(energy_pj, cycles)[0], None)

    found, bound = least_product(goal, cheapest, lambda: False)
    least = min(goal.value(*point) for point in points)
    assert goal.value(found.energy_pj, found.cycles) == pytest.approx(least, rel=1e-9)
    assert bound == pytest.approx(least, rel=1e-9)
    assert len(asked) <= 2 * len(points) + 2
    early, low = least_product(goal, cheapest, lambda: True)
    assert low <= least * (1 + 1e-9) <= goal.value(early.energy_pj, early.cycles) * (1 + 2e-9)


def test_fuse__an_objective_that_is_none() -> None:
    with pytest.raises(AccelsimError, match="objective 'power' is unknown"):
        fuse(machine(), whole(ATTENTION.layers), objective="power")


def test_fuse__attention_of_bert_on_eyeriss() -> None:
    """Scores of 12 x 128 x 128 words, and their soft-max, do not leave: 393,216 of 1,179,648 off-chip words are left.

    What is left is Q, K, V and the output, 12 x 128 x 64 words each, each moved once.
    """
    eyeriss, network = load_architecture("eyeriss"), load_workload("bert_base")
    found = fuse(eyeriss, network, chain=["attention_scores", "attention_softmax", "attention_context"], workers=1)
    (segment,) = found.segments
    assert found.certificate.proved
    assert segment.fused is not None
    assert (found.totals.offchip_words, found.unfused.offchip_words) == (4 * 12 * 128 * 64, 1_179_648)
    assert found.totals.macs == found.unfused.macs
    for part in segment.fused.parts:
        used = next(each.used_words for each in part.result.levels if each.level == "GLB")
        assert used + part.reserved <= (eyeriss.levels[1].size_words or 0)


def test_fusing_levels__say_why_not() -> None:
    group = whole_group(ROWS)
    assert fusing_levels(machine(), group) == {"BUF": 1}
    text = fusing_levels(machine(bypass="Inputs"), group)
    assert text == "no level of tiny can store an intermediate: BUF does not store Inputs; REG has 2 instances"
