"""Fusion of random graphs against brute force: every way through a graph, every fused tiling, every mapping."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import pytest

from accelsim.fusion.graph import Graph, make_graph
from accelsim.fusion.group import make_group
from accelsim.fusion.limits import loop_limits
from accelsim.fusion.network import NetworkSearch, _best_segments
from accelsim.fusion.parts import Solutions
from accelsim.fusion.result import CYCLES, ENERGY, Segment
from accelsim.fusion.tiling import free_border
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.level_features import VectorUnit
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.results.cache import MapOptions
from tests.brute import has_few
from tests.effort import many
from tests.fusion_brute import Mappings, front_of_ways, least_of_ways
from tests.test_fusion_tiling import add, check_parts, conv, gemm, machine, soft_max

EVEN = MapOptions(uneven=False, imperfect=())
WINDOWS = ["rows", "rows", "depthwise", "image"]
"""Layers with windows."""
OUTSIDE = -1
"""The place of what lies outside a graph."""


@dataclass
class Draft:
    """Layers that are drawn one by one, and what each reads."""

    rng: random.Random
    windowed: bool  # whether windows slide over most inputs
    layers: list[Einsum]
    reads: list[tuple[int, int, str]]
    shapes: dict[int, tuple[int, int]]

    def size(self, most: int = 4) -> int:
        """A bound."""
        return self.rng.choice([n for n in (1, 2, 2, 2, 3, 4, 4) if n <= most])

    def source(self) -> int:
        """An output that is there, the last one more often than others, or what lies outside the graph."""
        return self.rng.choice([*self.shapes, max(self.shapes), max(self.shapes)])

    def put(self, layer: Einsum, shape: tuple[int, int], **sources: int) -> None:
        """Add a layer."""
        self.reads += [(source, len(self.layers), name) for name, source in sources.items()]
        self.shapes[len(self.layers)] = shape
        self.layers.append(layer)

    def windows(self, rows: int) -> list[tuple[int, int, int]]:
        """Rows, rows of the kernel and strides of windows over some rows, with padding or not, or rows left over."""
        found = []
        for p in range(1, 5):
            for r in range(1, 4):
                for stride in (1, 2):
                    box = stride * (p - 1) + r
                    found += [(p, r, stride)] * (box - 2 * (r - 1) <= rows < box + stride)
        return found

    def layer(self) -> None:
        """Add a layer of any kind that reads something that is there."""
        rng, name, source = self.rng, f"e{len(self.layers)}", self.source()
        a, b = self.shapes[source]
        kind = rng.choice(WINDOWS if self.windowed else ["gemm", "gemm", "weights", "add", "pass", *WINDOWS])
        if kind == "gemm":
            others = [place for place, shape in self.shapes.items() if shape[0] == b and place != source]
            if others and rng.random() < 0.5:
                other = rng.choice(others)
                n = self.shapes[other][1]
                self.put(gemm(name, a, n, b), (a, n), Inputs=source, Weights=other)
            else:
                n = self.size()
                self.put(gemm(name, a, n, b), (a, n), Inputs=source)
        elif kind == "weights":
            m = self.size()
            self.put(gemm(name, m, b, a), (m, b), Weights=source)
        elif kind == "add":
            others = [place for place, shape in self.shapes.items() if shape == (a, b) and place != source]
            more = {"Residual": rng.choice(others)} if others else {}
            layer = replace(add(name, {"M": a, "N": b}), operation="add")
            self.put(layer, (a, b), Inputs=source, **more)
        elif kind == "pass":
            whole = frozenset(rng.choice(["", "", "N", "M"]))
            self.put(replace(soft_max(name, a, b), whole=whole, operation="softmax"), (a, b), Inputs=source)
        elif kind == "image":
            p, r, _ = rng.choice([each for each in self.windows(a) if each[2] == 1])
            q, s, _ = rng.choice([each for each in self.windows(b) if each[2] == 1])
            self.put(conv(name, {"C": 1, "K": 1, "P": p, "Q": q, "R": r, "S": s}), (p, q), Inputs=source)
        else:
            p, r, stride = rng.choice(self.windows(b))
            dims = {"C": a, "P": p, "Q": 1, "R": r, "S": 1}
            k = a if kind == "depthwise" else self.size()
            dims |= {} if kind == "depthwise" else {"K": k}
            self.put(conv(name, dims, stride, depthwise=kind == "depthwise"), (k, p), Inputs=source)


def is_joined(graph: Graph) -> bool:
    """Whether links join all layers."""
    found = {0}
    for _ in graph.layers:
        for link in graph.links:
            found |= set(link.places()) if found & set(link.places()) else set()
    return len(found) == len(graph.layers)


def random_graph(rng: random.Random, tiny: Architecture, *, most: int = 4) -> Graph:
    """Two to `most` layers, and which outputs are read elsewhere, too; mappings of each layer are few."""
    while True:
        draft = Draft(rng, rng.random() < 0.4, [], [], {})
        outside = gemm("outside", draft.size(), 4 if draft.windowed else draft.size(), 1)
        draft.shapes[OUTSIDE] = outside.dims["M"], outside.dims["N"]
        for _ in range(rng.choice([2, 3, 3, 4, 4][: 2 * most - 3])):
            draft.layer()
        results = [place for place in sorted({source for source, _, _ in draft.reads}) if rng.random() < 0.2]
        reads = [(outside if source == OUTSIDE else source, reader, name) for source, reader, name in draft.reads]
        try:
            graph = make_graph(draft.layers, reads, results)
        except AccelsimError:  # a window, or ranks of one word
            continue
        small = all(layer.macs <= 48 and has_few(tiny, layer, 100_000) for layer in graph.layers)
        if is_joined(graph) and small and any(link.producer is not None for link in graph.links):
            return graph


def random_machine(rng: random.Random) -> Architecture:
    """A memory, a buffer that takes all tensors or not those of a role, registers or none, a vector unit or none."""
    tiny = machine(rng.choice([6, 8, 10, 12, 14, 16, 20, 26]), bypass=rng.choice(["", "", "", "Weights", "Inputs"]))
    memory, buffer, register = tiny.levels
    buffer = replace(buffer, keep=frozenset() if rng.random() < 0.3 else buffer.keep)
    tiny = replace(tiny, levels=(memory, buffer) if rng.random() < 0.3 else (memory, buffer, register))
    tiny = with_multipliers(tiny, rng.choice([None, None, 2000.0]))
    if rng.random() < 0.5:
        return tiny
    unit = VectorUnit("lanes", rng.choice(tiny.levels[1:]).name, 2, {"add": 1, "softmax": 3})
    cost = EnergyTable({**tiny.energy.entries, ("lanes", "*", "compute"): EnergyEntry(0.75, "a test")})
    return replace(tiny, vector_units=(unit,), energy=cost)


def with_multipliers(tiny: Architecture, pj: float | None) -> Architecture:
    """A machine whose multiply-accumulates take so much energy, so that none may be run in vain."""
    dear = {key: replace(each, energy_pj=pj) for key, each in tiny.energy.entries.items() if key[2] == "compute"}
    return tiny if pj is None else replace(tiny, energy=EnergyTable({**tiny.energy.entries, **dear}))


def check(graph: Graph, tiny: Architecture, objective: str) -> tuple[Segment, ...]:
    """Compare the search of a network that is one graph with brute force, and what it finds with its execution."""
    goal, mappings = (
        Objective.parse(objective),
        KNOWN.setdefault(repr((tiny.levels, tiny.vector_units, tiny.energy)), Mappings(tiny)),
    )
    solutions = Solutions(tiny, CYCLES if goal.alone == "cycles" else ENERGY, not goal.alone)
    search = NetworkSearch(tiny, solutions, None, None, None, 1, None, {}, EVEN)
    segments, proof = _best_segments(search, goal, (graph,))
    assert proof.proved
    if goal.alone:
        price = solutions.price
        least, _ = least_of_ways(graph, mappings, lambda *cost: price.value(*cost)[0])
        assert 0 < search._floor(graph, 1) <= least
    else:
        least = min((goal.value(*each) for each in front_of_ways(graph, mappings)), default=math.inf)
    assert proof.value == pytest.approx(least, rel=1e-9)
    for each in segments:
        if each.fused is not None:
            check_parts(each.fused.group, each.fused.border, each.fused.tiling)
    return segments


KNOWN: dict[str, Mappings] = {}
"""Mappings on each machine that were looked at."""
CASES, TOGETHER = many("FUSION_GRAPHS", 120, least=24), 4


@pytest.mark.parametrize("first", range(0, CASES, TOGETHER))
def test_fuse__of_a_random_graph_is_the_best_of_all_ways_and_tilings(first: int) -> None:
    """`ACCELSIM_FUSION_GRAPHS` says how many graphs there are."""
    for seed in range(first, min(first + TOGETHER, CASES)):
        rng = random.Random(seed)
        tiny = random_machine(rng)
        check(random_graph(rng, tiny), tiny, "cycles" if seed % 5 == 4 else "energy")


@pytest.mark.parametrize("first", range(0, CASES // 4, TOGETHER))
def test_fuse__of_a_random_graph_has_the_least_product(first: int) -> None:
    """Of graphs of up to three layers, with any mapping for each run of each part."""
    for seed in range(first, min(first + TOGETHER, CASES // 4)):
        rng = random.Random(seed)
        tiny = random_machine(rng)
        check(random_graph(rng, tiny, most=3), tiny, "energy^2*cycles" if seed % 3 == 2 else "edp")


def image(name: str, rows: int = 1) -> Einsum:
    """Four words that are read through a window of some rows."""
    return conv(name, {"C": 1, "K": 1, "P": 4, "Q": 1, "R": rows, "S": 1})


def turned(name: str, n: int) -> Einsum:
    """A sum of a square of words and of another one whose rows are its columns."""
    einsum = add(name, {"M": n, "N": n})
    first, second, output = einsum.tensors
    return replace(einsum, tensors=(first, replace(second, ranks=second.ranks[::-1]), output))


SQUARES = gemm("one_square", 4, 4, 1), gemm("other_square", 4, 4, 1)
OUTSIDE_LAYER = gemm("outside", 2, 2, 1)


@pytest.mark.parametrize(
    ("layers", "reads", "results", "size", "bypass"),
    [
        (
            [image("first"), image("one", 3), image("two", 3), add("sum", {"K": 1, "P": 4})],
            [(0, 1, "Inputs"), (0, 2, "Inputs"), (1, 3, "Inputs"), (2, 3, "Residual")],
            [],
            20,
            "",
        ),
        (
            [gemm("one", 2, 2, 2), gemm("two", 2, 2, 2)],
            [(OUTSIDE_LAYER, 0, "Inputs"), (OUTSIDE_LAYER, 1, "Inputs"), (0, 1, "Weights")],
            [],
            16,
            "Inputs",
        ),
        (
            [soft_max(name, 2, 4) for name in ("one", "two", "three", "four")],
            [(gemm("outside", 2, 4, 1), at, "Inputs") for at in (0, 1)] + [(0, 2, "Inputs"), (1, 3, "Inputs")],
            [],
            6,
            "",
        ),
        (
            [soft_max("one", 1, 4), conv("two", {"C": 1, "K": 2, "P": 2, "Q": 1, "R": 1, "S": 1}, 2)],
            [(0, 1, "Inputs")],
            [0],
            5,
            "",
        ),
        (
            [soft_max("one", 2, 4), soft_max("two", 4, 2), gemm("three", 4, 4, 2), gemm("four", 2, 2, 4)],
            [(0, 2, "Weights"), (1, 2, "Inputs"), (0, 3, "Inputs"), (1, 3, "Weights")],
            [],
            12,
            "",
        ),
        (
            [add("one", {"M": 4, "N": 4}), turned("two", 4)],
            [(square, at, name) for square, name in zip(SQUARES, ("Inputs", "Residual"), strict=True) for at in (0, 1)],
            [],
            8,
            "",
        ),
        (
            [
                soft_max("cut", 1, 8),
                soft_max("all", 1, 8),
                conv("strided", {"C": 1, "K": 1, "P": 4, "Q": 1, "R": 1, "S": 1}, 2),
            ],
            [(gemm("outside", 1, 8, 1), 0, "Inputs"), (gemm("outside", 1, 8, 1), 1, "Inputs"), (0, 2, "Inputs")],
            [],
            40,
            "",
        ),
        (
            [gemm("one", 3, 4, 4), gemm("narrow", 3, 1, 4), gemm("wide", 3, 4, 4)],
            [(0, 1, "Inputs"), (0, 2, "Inputs")],
            [],
            12,
            "",
        ),
    ],
    ids=[
        "two windows over one output",
        "a shared input that the buffer may not store",
        "two lines that only a shared input joins",
        "words that leave and no reader asks for",
        "two loops over one dimension of a layer",
        "two shared inputs that line up otherwise",
        "a shared input of which the first reader needs less",
        "two groups that differ in a bound of the last layer",
    ],
)
def test_fuse__of_graphs_that_were_searched_wrongly(
    layers: list[Einsum], reads: list[tuple[int | Einsum, int, str]], results: list[int], size: int, bypass: str
) -> None:
    """Each found a mistake."""
    check(make_graph(layers, reads, results), machine(size, bypass=bypass), "energy")


def test_fuse__leaves_out_rows_that_nothing_reads() -> None:
    """Of 15 rows the second layer reads every other one: in tiles of one row the first layer runs eight.

    A limit that counts all of them is above the best tiling of the three layers.
    """
    layers = [
        conv("one", {"C": 1, "K": 2, "P": 15, "Q": 1, "R": 1, "S": 1}),
        conv("two", {"C": 2, "K": 2, "P": 8, "Q": 1, "R": 1, "S": 1}, 2),
        conv("three", {"C": 2, "K": 1, "P": 8, "Q": 1, "R": 1, "S": 1}),
    ]
    graph = make_graph(layers, [(0, 1, "Inputs"), (1, 2, "Inputs")])
    (segment,) = check(graph, with_multipliers(machine(12), 2000.0), "energy")
    assert segment.totals.macs == 8 * (2 + 4 + 2) < sum(layer.macs for layer in layers)


def test_sets_of_loops__have_one_over_each_dimension_of_a_layer() -> None:
    """Of two sums over the same squares, one of which reads the second square with rows for columns."""
    pairs = zip(SQUARES, ("Inputs", "Residual"), strict=True)
    reads = [(square, at, name) for square, name in pairs for at in (0, 1)]
    group = make_group(make_graph([add("one", {"M": 4, "N": 4}), turned("two", 4)], reads), (0, 1))
    limits = loop_limits(Solutions(machine(8), ENERGY), group, free_border(group), 1)
    sets = [limits.loops(at) for at in range(len(limits.steps))]
    dims = {dim.name: dim.dims for dim in group.dims}
    assert len(dims) == 4
    assert max(map(len, sets)) == 2
    for names in (each for loops in sets for each in zip(*(dims[loop.dim] for loop in loops), strict=True)):
        assert len(set(names)) == len(names)
