"""Lines of layers that follow each other in a network, which fusion looks at."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_workload
from accelsim.fusion.chain import Shortcut, find_lines, find_shortcut, named_line
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Edge, Workload
from tests.test_fusion import ATTENTION, RESIDUAL, fuse, residual, whole
from tests.test_fusion_tiling import add, conv, gemm, machine


def test_find_lines__a_sum_reads_again_what_the_first_layer_reads() -> None:
    """In each of three runs; not where the layer before the block runs once for all of them, nor through a window."""
    (before, block) = find_lines(residual(repeat=3)).lines
    assert (before.shortcut, block.shortcut, block.repeat) == (None, Shortcut("Inputs", 2, "Residual"), 3)
    assert block.chain(0, 2).shortcut is None
    assert block.chain(1).shortcut is None
    network = residual(repeat=3)
    shared = replace(network, layers=(replace(network.layers[0], repeat=6), *network.layers[1:]))
    assert all(line.shortcut is None for line in find_lines(shared).lines)
    wide = conv("first", {"C": 2, "K": 2, "P": 4, "Q": 1, "R": 3, "S": 1})
    windowed = replace(residual(), layers=(residual().layers[0], wide, *RESIDUAL.layers[1:]))
    assert all(line.shortcut is None for line in find_lines(windowed).lines)


def test_fuse__equal_lines_are_looked_at_once() -> None:
    """Two attentions that differ in names, one of which runs three times: four times what one takes."""
    tiny, first = machine(30), ATTENTION.layers
    second = tuple(replace(layer, name=f"{layer.name}_2", repeat=3) for layer in first)
    edges = (*whole(first).edges, *whole(second).edges)
    found = fuse(tiny, Workload("two", (*first, *second), edges), workers=1)
    one = fuse(tiny, whole(first), workers=1)
    assert found.totals.energy_pj == pytest.approx(4 * one.totals.energy_pj, rel=1e-12)
    assert found.totals.cycles == 4 * one.totals.cycles
    assert (found.chains, found.solved) == (one.chains, one.solved)
    for segment in found.segments:
        assert (segment.repeat, segment.alike) == (4, ((tuple(f"{e.name}_2" for e in segment.layers), 3),))


def test_find_lines__of_runs_that_several_layers_share() -> None:
    """Three runs of an expansion feed two depthwise layers of one kind and one of another: three lines of three."""
    lines = {
        tuple(e.name for e in line.layers): line.repeat for line in find_lines(load_workload("mobilenet_v2")).lines
    }
    assert lines["b5_expand", "b5_depthwise", "b5_project"] == 2
    assert lines["b5_expand", "b7_depthwise", "b7_project"] == 1
    assert sum(n * len(names) for names, n in lines.items()) == 53


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


def walked_lines(network: Workload) -> dict[tuple[tuple[str, ...], bool], int]:
    """Follow each run of each layer to the run that reads it; count lines by their layers and by a shortcut in them."""
    layers = {layer.name: layer for layer in network.layers}
    apart = {(each.producer, each.consumer) for each in find_lines(network).apart}
    follows, used = dict[tuple[str, int], tuple[str, int]](), Counter[str]()
    for edge in network.edges:
        for run in range(layers[edge.consumer].repeat):
            number = used[edge.producer]
            used[edge.producer] += 1
            if (edge.producer, edge.consumer) not in apart and (edge.consumer, run) not in follows.values():
                follows[edge.producer, number] = edge.consumer, run
    found = Counter[tuple[tuple[str, ...], bool]]()
    for layer in network.layers:
        for run in range(layer.repeat):
            row = [(layer.name, run)]
            if row[0] in follows.values():
                continue
            while row[-1] in follows:
                row.append(follows[row[-1]])
            names = tuple(name for name, _ in row)
            shortcut = find_shortcut(network, names)
            found[names, shortcut is not None and row[shortcut.layer][1] == run] += 1
    return found


@given(networks().filter(lambda network: bool(network.edges)))
@settings(max_examples=200)
def test_find_lines__are_those_that_every_run_is_followed_along(network: Workload) -> None:
    lines = find_lines(network).lines
    found = {(tuple(each.name for each in line.layers), line.shortcut is not None): line.repeat for line in lines}
    assert len(found) == len(lines)
    assert found == walked_lines(network)


def test_find_lines__take_no_time_for_runs() -> None:
    """A line of 12 runs of two layers, and all other runs of the first."""
    layers = replace(gemm("a", 2, 2, 2), repeat=10**15), replace(gemm("b", 2, 2, 2), repeat=12)
    found = find_lines(Workload("net", layers, (Edge("a", "b", "Inputs"),)))
    assert [(len(line.layers), line.repeat) for line in found.lines] == [(2, 12), (1, 10**15 - 12)]


def test_find_lines__an_output_that_is_read_twice_stays_apart() -> None:
    layers = (gemm("a", 2, 2, 2), gemm("b", 2, 2, 2), gemm("c", 2, 2, 2))
    found = find_lines(Workload("fork", layers, (Edge("a", "b", "Inputs"), Edge("a", "c", "Inputs"))))
    assert [len(line.layers) for line in found.lines] == [1, 1, 1]
    assert {each.why for each in found.apart} == {"2 runs read what 1 run writes"}


def test_find_lines__neighbours_that_line_up_where_no_edge_is_given() -> None:
    found = find_lines(Workload("net", (gemm("a", 2, 3, 4), gemm("b", 2, 5, 3), gemm("c", 2, 2, 4))))
    assert found.inferred
    assert [[e.name for e in line.layers] for line in found.lines] == [["a", "b"], ["c"]]


def test_named_line__says_what_is_wrong() -> None:
    network = load_workload("mobilenet_v2")
    with pytest.raises(AccelsimError, match="has no layer 'b5_expnd'; did you mean 'b5_expand'"):
        named_line(network, ["b5_expnd", "b5_depthwise"])
    with pytest.raises(AccelsimError, match="two layers at least"):
        named_line(network, ["b5_expand"])
    with pytest.raises(AccelsimError, match="b5_project does not read b5_expand; it reads b5_depthwise"):
        named_line(network, ["b5_expand", "b5_project"])
    with pytest.raises(AccelsimError, match="conv1 and conv2 cannot be fused: the ranks"):
        named_line(load_workload("alexnet"), ["conv1", "conv2"])
