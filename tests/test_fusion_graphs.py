"""Graphs of layers that pass tensors on to each other in a network, which fusion looks at."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_workload
from accelsim.fusion.graph import Graph, find_graphs, named_graph, put_together, tie_ranks
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Edge, Workload
from tests.test_fusion import ATTENTION, BLOCK, fuse, residual, whole
from tests.test_fusion_tiling import add, conv, gemm, machine

Links = list[tuple[int | None, list[tuple[int, str]], bool]]


def names_of(graph: Graph) -> tuple[str, ...]:
    """Names of the layers of a graph."""
    return tuple(layer.name for layer in graph.layers)


def links_of(graph: Graph) -> Links:
    """Links of a graph by places and tensors, and whether each goes out."""
    return [(link.producer, [(r.layer, r.tensor) for r in link.readers], link.goes_out) for link in graph.links]


def test_find_graphs__a_sum_reads_again_what_the_first_layer_reads() -> None:
    """In each of three runs; not where the layer before the block runs once for all of them.

    Where the first layer reads it through a window, the sum still reads it word by word.
    """
    (graph,) = find_graphs(residual(repeat=3)).graphs
    chain: Links = [(1, [(2, "Inputs")], False), (2, [(3, "Inputs")], False)]
    assert links_of(graph) == [(0, [(1, "Inputs"), (3, "Residual")], False), *chain]
    assert graph.repeat == 3
    network = residual(repeat=3)
    once = replace(network, layers=(replace(network.layers[0], repeat=1), *network.layers[1:]))
    before, block = find_graphs(once).graphs
    assert (names_of(before), names_of(block)) == (("before",), ("first", "depthwise", "sum"))
    assert links_of(block) == [(0, [(1, "Inputs")], False), (1, [(2, "Inputs")], False)]
    assert {(each.consumer, each.why) for each in find_graphs(once).apart} == {
        ("first", "6 runs read what 1 run writes"),
        ("sum", "6 runs read what 1 run writes"),
    }
    wide = conv("first", {"C": 2, "K": 2, "P": 4, "Q": 1, "R": 3, "S": 1})
    (windowed,) = find_graphs(replace(residual(), layers=(residual().layers[0], wide, *BLOCK[1:]))).graphs
    assert links_of(windowed) == links_of(graph)
    first, again = windowed.links[0].readers
    assert ([rank.box for rank in first.ranks], [rank.before for rank in first.ranks]) == ([2, 6], [0, 1])
    assert [rank.box for rank in again.ranks] == [2, 4]


def test_find_graphs__runs_that_are_read_one_after_the_other_are_not_read_twice() -> None:
    """Six runs before a block of three, and the sum: each of the six is read once, so none of them is read again.

    The first three go to the first layer, the others to the sum.
    """
    network = residual(repeat=3)
    shared = replace(network, layers=(replace(network.layers[0], repeat=6), *network.layers[1:]))
    (graph,) = find_graphs(shared).graphs
    assert (names_of(graph), graph.repeat) == (("before", "before", "first", "depthwise", "sum"), 3)
    assert links_of(graph) == [
        (0, [(2, "Inputs")], False),
        (1, [(4, "Residual")], False),
        (2, [(3, "Inputs")], False),
        (3, [(4, "Inputs")], False),
    ]


def test_fuse__equal_graphs_are_looked_at_once() -> None:
    """Two attentions that differ in names, one of which runs three times: four times what one takes."""
    tiny, first = machine(30), ATTENTION.layers
    second = tuple(replace(layer, name=f"{layer.name}_2", repeat=3) for layer in first)
    edges = (*whole(first).edges, *whole(second).edges)
    found = fuse(tiny, Workload("two", (*first, *second), edges), workers=1)
    one = fuse(tiny, whole(first), workers=1)
    assert found.totals.energy_pj == pytest.approx(4 * one.totals.energy_pj, rel=1e-12)
    assert found.totals.cycles == 4 * one.totals.cycles
    assert (found.groups, found.solved) == (one.groups, one.solved)
    for segment in found.segments:
        assert (segment.repeat, segment.alike) == (4, ((tuple(f"{e.name}_2" for e in segment.layers), 3),))


def test_put_together__only_what_differs_in_names_alone() -> None:
    """Not graphs whose layers are the same and joined otherwise, nor such as go out elsewhere."""
    a, b = gemm("a", 2, 2, 2), gemm("b", 2, 2, 2)
    one = named_graph(Workload("net", (a, b), (Edge("a", "b", "Inputs"),)), ["a", "b"])
    renamed = replace(one, layers=tuple(replace(layer, name=f"{layer.name}_2") for layer in one.layers), repeat=4)
    other = named_graph(Workload("net", (a, b), (Edge("a", "b", "Weights"),)), ["a", "b"])
    out = replace(one, links=tuple(replace(link, goes_out=True) for link in one.links))
    found = put_together([one, other, renamed, out])
    assert [(graph.repeat, graph.alike) for graph in found] == [(5, ((("a_2", "b_2"), 4),)), (1, ()), (1, ())]
    assert [links_of(graph) for graph in found] == [links_of(graph) for graph in (one, other, out)]


def test_find_graphs__of_runs_that_several_layers_share() -> None:
    """Three runs of an expansion feed two depthwise layers of one kind and one of another: blocks of three layers.

    The 53 layers of MobileNetV2 that run are each in one graph, with as many runs as they have.
    """
    network = load_workload("mobilenet_v2")
    graphs = find_graphs(network).graphs
    runs = Counter[str]()
    for graph in graphs:
        for layer in graph.layers:
            runs[layer.name] += graph.repeat
    assert runs == {layer.name: layer.repeat for layer in network.layers}
    pairs = Counter[tuple[str, str]]()
    for graph in graphs:
        for link in graph.links:
            for reader in link.readers:
                if link.producer is not None:
                    pairs[graph.layers[link.producer].name, graph.layers[reader.layer].name] += graph.repeat
    assert pairs["b5_expand", "b5_depthwise"] == 2
    assert pairs["b5_expand", "b7_depthwise"] == 1
    assert sum(runs.values()) == 53


@st.composite
def networks(draw: st.DrawFn) -> Workload:
    """Products and sums of one shape, each run some times and fed by layers before it, or by none."""
    layers, edges = [], []
    for number in range(draw(st.integers(1, 6))):
        inputs = draw(st.sampled_from([["Inputs"], ["Inputs", "Residual"]]))
        einsum = gemm(f"l{number}", 2, 2, 2) if len(inputs) == 1 else add(f"l{number}", {"M": 2, "N": 2})
        layers.append(replace(einsum, repeat=draw(st.integers(1, 4))))
        before = draw(st.permutations([f"l{at}" for at in range(number)]))
        edges += [Edge(name, f"l{number}", draw(st.sampled_from(inputs))) for name in before[: draw(st.integers(0, 3))]]
    return Workload("net", tuple(layers), tuple(edges))


Run = tuple[str, int]
Seen = tuple[tuple[str, ...], frozenset[tuple[int, int, str]], frozenset[int]]
"""Names of a graph's layers, what reads which by places, and places of what is read elsewhere as well."""


def walked_graphs(network: Workload) -> Counter[Seen]:
    """Join each run of each layer to the runs that read it, one by one, and count the pieces."""
    order = [layer.name for layer in network.layers]
    many = {layer.name: layer.repeat for layer in network.layers}
    apart = {(each.producer, each.consumer) for each in find_graphs(network).apart}
    reads, out, used = set[tuple[Run, Run, str]](), set[Run](), Counter[str]()
    for edge in network.edges:
        readers = [many[each.consumer] for each in network.edges if each.producer == edge.producer]
        for run in range(many[edge.consumer]):
            source = edge.producer, run if set(readers) == {many[edge.producer]} else used[edge.producer]
            used[edge.producer] += 1
            if (edge.producer, edge.consumer) in apart:
                continue
            reads.add((source, (edge.consumer, run), edge.tensor))
    for producer in {a for a, _ in apart}:
        out |= {(producer, run) for run in range(many[producer])}
    piece = {(name, run): {(name, run)} for name in order for run in range(many[name])}
    for one, other, _ in reads:
        union = piece[one] | piece[other]
        for run in union:
            piece[run] = union
    found = Counter[Seen]()
    for its in {frozenset(its) for its in piece.values()}:
        row = sorted(its, key=lambda run: (order.index(run[0]), run[1]))
        place = {run: number for number, run in enumerate(row)}
        inner = frozenset((place[a], place[b], tensor) for a, b, tensor in reads if a in its)
        gone = frozenset(place[run] for run in its & out) & {a for a, _, _ in inner}
        found[tuple(name for name, _ in row), inner, gone] += 1
    return found


@given(networks().filter(lambda network: bool(network.edges)))
@settings(max_examples=200)
def test_find_graphs__are_those_that_single_runs_are_joined_to(network: Workload) -> None:
    """Each run of each layer stands in one graph, and a graph with as many repeats as there are such pieces."""
    found = Counter[Seen]()
    for graph in find_graphs(network).graphs:
        reads = frozenset((p, r, name) for p, several, _ in links_of(graph) for r, name in several if p is not None)
        found[names_of(graph), reads, frozenset(p for p, _, out in links_of(graph) if out and p is not None)] += (
            graph.repeat
        )
    assert found == walked_graphs(network)


def may_run(edges: list[tuple[str, str]], joined: networkx.utils.UnionFind) -> bool:
    """Whether sets of layers that are joined may run one after the other."""
    pairs = {(joined[one], joined[other]) for one, other in edges}
    return networkx.is_directed_acyclic_graph(networkx.DiGraph((a, b) for a, b in pairs if a != b))


@given(networks().filter(lambda network: bool(network.edges)))
@settings(max_examples=100)
def test_find_graphs__leave_apart_what_has_no_single_source(network: Workload) -> None:
    """An edge is apart if its runs are too many, other outputs are in the same tensor, or others must run between."""
    many = {layer.name: layer.repeat for layer in network.layers}
    wanted = set()
    for edge in network.edges:
        readers = [many[each.consumer] for each in network.edges if each.producer == edge.producer]
        several = sum((each.consumer, each.tensor) == (edge.consumer, edge.tensor) for each in network.edges)
        if several > 1 or (set(readers) != {many[edge.producer]} and sum(readers) > many[edge.producer]):
            wanted.add((edge.producer, edge.consumer))
    apart = {(each.producer, each.consumer): each.why for each in find_graphs(network).apart}
    between = {pair for pair, why in apart.items() if "run between" in why}
    assert apart.keys() - between == wanted
    edges = [(edge.producer, edge.consumer) for edge in network.edges]
    joined = networkx.utils.UnionFind(layer.name for layer in network.layers)
    for pair in {*edges} - apart.keys():
        joined.union(*pair)
    assert may_run(edges, joined)
    for pair in between:
        more = networkx.utils.UnionFind(joined)
        for one in joined:
            more.union(one, joined[one])
        more.union(*pair)
        assert not may_run(edges, more)


def test_find_graphs__have_nothing_that_runs_in_the_middle_of_one() -> None:
    """A sum of what is read as heads and of what was before: in one group it would run before the heads are there."""
    layers = [
        {"name": "a", "gemm": {"M": 8, "N": 8, "K": 8}},
        {"name": "b", "from": "a", "gemm": {"H": 2, "M": 8, "N": 4, "K": 4}},
        {
            **{"name": "c", "operation": "add", "from": {"Inputs1": "b", "Inputs2": "a"}},
            "einsum": {
                "dims": {"M": 8, "N": 8},
                "tensors": {"Inputs1": ["M", "N"], "Inputs2": ["M", "N"], "Outputs": ["M", "N"]},
                "output": "Outputs",
            },
        },
    ]
    network = load_workload({"workload": {"name": "net", "layers": layers}})
    with pytest.raises(AccelsimError, match="b would have to run between these layers"):
        named_graph(network, ["a", "c"])
    found = find_graphs(network)
    assert [[layer.name for layer in graph.layers] for graph in found.graphs] == [["a"], ["b"], ["c"]]
    assert {each.why for each in found.apart if each.producer == "a" and each.consumer == "c"} == {
        "layers that are apart from both run between them"
    }


def test_find_graphs__take_no_time_for_runs() -> None:
    """A graph of 12 runs of two layers, and all other runs of the first."""
    layers = replace(gemm("a", 2, 2, 2), repeat=10**15), replace(gemm("b", 2, 2, 2), repeat=12)
    found = find_graphs(Workload("net", layers, (Edge("a", "b", "Inputs"),)))
    assert [(len(graph.layers), graph.repeat) for graph in found.graphs] == [(2, 12), (1, 10**15 - 12)]


def test_find_graphs__an_output_that_is_read_twice_is_one_link() -> None:
    """It stays apart only where its readers run more often than it is written."""
    layers = (gemm("a", 2, 2, 2), gemm("b", 2, 2, 2), gemm("c", 2, 2, 2))
    edges = Edge("a", "b", "Inputs"), Edge("a", "c", "Inputs")
    (graph,) = find_graphs(Workload("fork", layers, edges)).graphs
    assert links_of(graph) == [(0, [(1, "Inputs"), (2, "Inputs")], False)]
    twice = (*layers[:2], replace(layers[2], repeat=2))
    found = find_graphs(Workload("fork", twice, edges))
    assert [len(graph.layers) for graph in found.graphs] == [1, 1, 1]
    assert {each.why for each in found.apart} == {"3 runs read what 1 run writes"}


def test_find_graphs__an_output_that_is_read_in_another_shape_too_goes_out() -> None:
    layers = (gemm("a", 2, 2, 2), gemm("b", 2, 2, 2), gemm("c", 3, 2, 2))
    found = find_graphs(Workload("fork", layers, (Edge("a", "b", "Inputs"), Edge("a", "c", "Inputs"))))
    assert [links_of(graph) for graph in found.graphs] == [[(0, [(1, "Inputs")], True)], []]
    assert [(each.consumer, each.why) for each in found.apart] == [
        ("c", "the ranks of c's Inputs do not line up with a's output (2 x 2 against 3 x 2)")
    ]


def test_tie_ranks__padding_before_the_first_word_is_the_larger_half() -> None:
    """A box of 7 rows over 4 that are written: 3 rows of padding, of which 2 come before."""
    first = conv("first", {"C": 1, "K": 2, "P": 4, "Q": 1, "R": 1, "S": 1})
    wide = conv("wide", {"C": 2, "K": 1, "P": 4, "Q": 1, "R": 4, "S": 1})
    ranks = tie_ranks(first, wide, "Inputs")
    assert not isinstance(ranks, str)
    assert [(rank.producer, rank.extent, rank.box, rank.before) for rank in ranks] == [("K", 2, 2, 0), ("P", 4, 7, 2)]
    assert [rank.terms for rank in ranks] == [(("C", 1),), (("P", 1), ("R", 1))]


def test_find_graphs__neighbours_that_line_up_where_no_edge_is_given() -> None:
    found = find_graphs(Workload("net", (gemm("a", 2, 3, 4), gemm("b", 2, 5, 3), gemm("c", 2, 2, 4))))
    assert found.inferred
    assert [list(names_of(graph)) for graph in found.graphs] == [["a", "b"], ["c"]]


def test_named_graph__has_what_its_layers_read_together() -> None:
    """Of the block alone, what the first layer and the sum read comes from before; with that layer, it is a link.

    Where only the first two of the block are named, the layer before it is read elsewhere, too.
    """
    network = residual(repeat=3)
    block = named_graph(network, ["first", "depthwise", "sum"])
    chain: Links = [(0, [(1, "Inputs")], False), (1, [(2, "Inputs")], False)]
    assert links_of(block) == [*chain, (None, [(0, "Inputs"), (2, "Residual")], False)]
    assert (block.repeat, [layer.repeat for layer in block.layers]) == (1, [1, 1, 1])
    part = named_graph(network, ["before", "first", "depthwise"])
    assert links_of(part) == [(0, [(1, "Inputs")], True), (1, [(2, "Inputs")], False)]
    every = named_graph(network, ["before", "first", "depthwise", "sum"])
    assert links_of(every)[0] == (0, [(1, "Inputs"), (3, "Residual")], False)


def test_named_graph__says_what_is_wrong() -> None:
    network = load_workload("mobilenet_v2")
    with pytest.raises(AccelsimError, match="has no layer 'b5_expnd'; did you mean 'b5_expand'"):
        named_graph(network, ["b5_expnd", "b5_depthwise"])
    with pytest.raises(AccelsimError, match="two layers at least"):
        named_graph(network, ["b5_expand"])
    with pytest.raises(AccelsimError, match="b5_project does not read b5_expand; it reads b5_depthwise"):
        named_graph(network, ["b5_expand", "b5_project"])
    with pytest.raises(AccelsimError, match="conv1 and conv2 cannot be fused: the ranks"):
        named_graph(load_workload("alexnet"), ["conv1", "conv2"])
