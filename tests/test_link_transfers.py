"""Link transfers: words that a child takes from its neighbour, against the oracle that executes the nest."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_architecture, load_workload
from accelsim.inputs.architecture import Architecture, Axis
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.energies import EnergyTable
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.model.oracle import execute
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from tests.brute import product, truth
from tests.effort import many
from tests.problems import MOST
from tests.strategies import cases, energy_table
from tests.test_compression import two_levels
from tests.test_systolic import check_problems

CASES = many("LINK_CASES", 200)
PROBLEMS = many("LINK_PROBLEMS", 45)


def with_links(machine: Architecture) -> Architecture:
    """The machine with link transfers on all its networks."""
    return replace(machine, levels=tuple(replace(level, link_transfers=True) for level in machine.levels))


def sliding_case(rng: random.Random):
    """A convolution whose outputs are spread over an axis, on levels that mostly keep everything."""
    stride, dilation = rng.choice([1, 1, 1, 2]), rng.choice([1, 1, 1, 2])
    levels, macs = rng.randint(2, 4), 200
    network = rng.randrange(levels - 1)
    axis, first = rng.choice("xxy"), rng.choice([2, 2, 3, 4])
    loops: list[tuple[str, int, str, int]] = [("Q", network, axis, first)]
    sliding = [("S", network, "time", rng.choice([2, 3, 4])), ("Q", rng.randrange(network + 1), "time", 2)]
    macs //= first * sliding[0][3] * 2
    for _ in range(rng.randint(0, 6)):
        dim, level = rng.choice("QQSSRPC"), rng.randrange(levels)
        where, bound = rng.choice(["time", "time", "x", "y"]), rng.choice([2, 2, 3, 3, 4])
        taken = [each[:3] for each in loops + sliding]
        if bound <= macs and (dim, level, where) not in taken and (level, where) != (network, axis):
            loops.append((dim, level, where, bound))
            macs //= bound
    rng.shuffle(loops)
    loops += rng.sample(sliding, rng.choice([1, 2]))
    bounds = dict.fromkeys("QSRPC", 1)
    for dim, _, _, bound in loops:
        bounds[dim] *= bound
    inputs = Tensor("I", (((("C", 1),)), (("Q", stride), ("S", dilation)), (("P", 1), ("R", 1))), role="Inputs")
    weights = Tensor("W", ((("S", 1),), (("R", 1),), (("C", 1),)), role="Weights")
    outputs = Tensor("O", ((("Q", 1),), (("P", 1),)), role="Outputs", output=True)
    einsum = Einsum("conv", bounds, (inputs, weights, outputs))
    machine, mapped = [], []
    for index in range(levels):
        x, y = (Axis(64, multicast=rng.random() < 0.7, spatial_reduction=rng.random() < 0.7) for _ in "xy")
        level = replace(two_levels().levels[min(index, 1)], name=f"L{index}", x=x, y=y, block_size=rng.choice([1, 2]))
        machine.append(replace(level, link_transfers=True, multiple_buffering=1))
        blocks = [
            tuple(Loop(dim, bound) for dim, at, where, bound in loops if (at, where) == (index, kind))
            for kind in ("time", "x", "y")
        ]
        kept = frozenset(name for name in "IWO" if index == 0 or rng.random() < 0.8)
        mapped.append(LevelMapping(f"L{index}", *blocks, kept))
    table = energy_table([level.name for level in machine], lambda: round(rng.uniform(0.01, 100), 3))
    return replace(two_levels(), levels=tuple(machine), energy=table), einsum, Mapping(tuple(mapped))


def check(machine, einsum, mapping) -> None:
    """Counts beside those of the executed nest."""
    result, walked = evaluate(machine, einsum, mapping), execute(machine, einsum, mapping)
    for lv, counts in enumerate(walked.levels):
        name = mapping.levels[lv].level
        for tensor, count in counts.items():
            mine = next(t for t in result.tensors if (t.level, t.tensor) == (name, tensor))
            assert (mine.reads, mine.fills, mine.updates) == (count.reads, count.fills, count.updates), (name, tensor)
            totals = (count.total_reads, count.total_fills, count.total_updates)
            assert (mine.total_reads, mine.total_fills, mine.total_updates) == totals, (name, tensor)
            network = next(n for n in result.networks if (n.level, n.tensor) == (name, tensor))
            assert network.total_transfers == walked.transfers[lv][tensor]
            assert network.passing == max(walked.passing[lv][tensor].values())


@settings(max_examples=CASES)
@given(cases())
def test_links__equal_the_executed_nest(case):
    check(with_links(case[0]), *case[1:])


@settings(max_examples=CASES)
@given(st.randoms(use_true_random=True))
def test_links__of_sliding_windows_equal_the_executed_nest(rng):
    check(*sliding_case(rng))


def link_problem(seed):
    """A random problem with sliding windows: reads further out cost more, and few words fit further in."""
    rng = random.Random(seed)
    machine, einsum, _ = sliding_case(rng)
    bounds = {dim: rng.choice(sizes) for dim, sizes in (("Q", (2, 3, 4)), ("S", (2, 3)), ("P", (1, 2)), ("C", (1, 2)))}
    levels, ports = [], ("bandwidth", "read_bandwidth", "write_bandwidth")
    for level in machine.levels[:3]:
        axes = {axis: Axis(rng.choice([1, 2, 3, 4]), multicast=rng.random() < 0.5) for axis in "xy"}
        rates = dict.fromkeys(ports[1:], Fraction(rng.randint(1, 3)) if rng.random() < 0.5 else None)
        size, network = rng.randint(3, 20) if levels else None, rng.choice([None, None, Fraction(1)])
        levels.append(replace(level, **axes, size_words=size, network_bandwidth=network, bandwidth=None, **rates))
    entries = {
        key: replace(entry, energy_pj=entry.energy_pj / 8 ** int(key[0][1:]))
        if key[0] in ("L0", "L1", "L2")
        else replace(entry, energy_pj=0.1)
        for key, entry in machine.energy.entries.items()
    }
    machine = replace(machine, levels=tuple(levels), energy=EnergyTable(entries))
    return machine, replace(einsum, dims={**einsum.dims, **bounds, "R": 1}), Constraints()


@pytest.mark.parametrize("group", range(3))
def test_exact__equals_brute_force_with_links(group):
    check_problems(link_problem, range(group, PROBLEMS, 3))


@pytest.mark.parametrize("seed", [78, 510])
def test_exact__looks_at_orders_that_are_best_with_links_alone(seed):
    case = link_problem(seed)
    known = truth(*case, MOST)
    assert known is not None
    found = Solver(MapSpace(encode(case[0], case[1]), case[2])).search(objective=product(1.0, 0.0))
    assert float(found.found.value[0]) == pytest.approx(known.best(1.0, 0.0), rel=1e-9)


MACHINE = """architecture:
  name: links
  levels:
    - name: GLB
      class: SRAM
      word: 16 bit
      energy: {read: 60 pJ, write: 60 pJ, source: test}
      fanout: {x: 8, link_transfers: true}
    - {name: PE, class: regfile, size: 128 bit, word: 16 bit, energy: {read: 1 pJ, write: 1 pJ, source: test}}
  compute: {class: intmac, energy: {compute: 1 pJ, source: test}}
"""


def machine_file(tmp_path, *changes):
    path, text = tmp_path / "links.yaml", MACHINE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def test_map__counts_and_reports_them(run, tmp_path):
    """Of 8 outputs on 8 PEs, and 3 weights in turn, the PEs need inputs q + s: 8 in the first step, 1 in each other.

    All but the last PE take the word that its neighbour had, so 7 are passed on in each of two steps.
    """
    path = machine_file(tmp_path)
    code, out, _ = run("map", path, "conv1d", "-o", tmp_path / "out")
    assert code == 0
    assert "Words that children take from their neighbours: 14 of Inputs below GLB." in out
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    (row,) = (n for n in document["result"]["networks"] if (n["level"], n["tensor"]) == ("GLB", "Inputs"))
    assert (row["link_transfers"], row["passing"]) == (14, 10)
    assert document["search"]["certificate"]["proved"]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("true}", "yes}", "links.yaml:8:38: levels[0].fanout.link_transfers: expected true or false"),
        ("size: 128", "overlap: none, size: 128", "links.yaml:8:15: levels[0].fanout: `link_transfers` beside the `ov"),
        ("true}", "true, systolic: {stationary: Weights}}", "a systolic array passes all operands on already"),
    ],
)
def test_key__mistakes_are_told_with_their_places(tmp_path, old, new, wanted):
    with pytest.raises(InputError) as raised:
        load_architecture(machine_file(tmp_path, (old, new)))
    assert wanted in str(raised.value)


def test_remainders__are_refused(tmp_path):
    machine, layer = load_architecture(machine_file(tmp_path)), load_workload("conv").layers[0]
    with pytest.raises(
        AccelsimError, match="link transfers below level GLB are counted where no loop leaves a remainder"
    ):
        map_einsum(machine, layer, imperfect="all")
