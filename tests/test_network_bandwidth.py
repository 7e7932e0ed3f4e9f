"""Bandwidth of the network below a level: words against the oracle, cycles run tile by tile, optima by brute force."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_architecture
from accelsim.inputs.architecture import Architecture, Axis
from accelsim.inputs.errors import InputError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.nodes import arrange_for, first_nodes
from accelsim.model.evaluate import evaluate
from accelsim.model.oracle import execute
from accelsim.model.time_oracle import walk_fills
from accelsim.search.exact import relaxation
from tests.effort import many
from tests.problems import problem
from tests.strategies import cases, ragged_cases, with_overlaps
from tests.test_compression import EVERY, GEMM, compressed, two_levels
from tests.test_exact_tables import check_fastest
from tests.test_systolic import check_problems, check_remainders

CASES = many("NETWORK_CASES", 200)
PROBLEMS = many("NETWORK_PROBLEMS", 70)
RATES = (None, Fraction(1, 3), Fraction(1), Fraction(2), Fraction(7, 2), Fraction(6))


def with_networks(machine: Architecture, rng: random.Random, *, fast: bool = False) -> Architecture:
    """The machine with limits of some networks; `fast`: without limits of ports."""
    ports = dict.fromkeys(("bandwidth", "read_bandwidth", "write_bandwidth")) if fast else {}
    levels = (replace(level, network_bandwidth=rng.choice(RATES), **ports) for level in machine.levels)
    return replace(machine, levels=tuple(levels))


def check_walked(machine, einsum, mapping):
    """Words of each network beside those of the executed nest, and their cycles."""
    result, walked = evaluate(machine, einsum, mapping), execute(machine, einsum, mapping)
    nodes, levels = arrange_for(machine, mapping).levels, {level.level: level for level in result.levels}
    last = {nodes[end - 1].name: end - 1 for end in first_nodes(nodes)[1:]}
    tensors = {tensor.name: tensor for tensor in einsum.tensors}
    partial = {(t.level, t.tensor): t.partial for t in result.tensors}
    for name, node in last.items():
        needed = 0
        for n in (n for n in result.networks if n.level == name):
            words = walked.passing[node][n.tensor]
            assert n.passing == words[(0,) * len(next(iter(words)))] == max(words.values()), (name, n.tensor)
            home = next(nodes[k].name for k in range(node, -1, -1) if n.tensor in mapping.levels[k].keep)
            needed += n.passing * nodes[node].element_words(tensors[n.tensor], partial=partial[home, n.tensor])
        rate = nodes[node].network_bandwidth
        assert levels[name].network_cycles == (0 if rate is None else -(-needed // rate)), name
    return result


@settings(max_examples=CASES)
@given(cases(), st.randoms(use_true_random=True))
def test_networks__pass_the_words_of_the_executed_nest(case, rng):
    machine, einsum, mapping = with_networks(case[0], rng), *case[1:]
    machine = compressed(machine, rng) if rng.random() < 0.3 else machine
    result = check_walked(machine, einsum, mapping)
    assert result.cycles == walk_fills(machine, einsum, mapping)[0]
    assert result.cycles == max(result.busy_cycles, *(row["cycles"] for row in result.cycle_rows()))
    bottleneck = next(row["component"] for row in result.cycle_rows() if row["bottleneck"])
    assert bottleneck == result.bottleneck


@settings(max_examples=CASES)
@given(ragged_cases(), st.randoms(use_true_random=True))
def test_networks__pass_the_words_of_the_first_instance_where_loops_leave_remainders(case, rng):
    result = check_walked(with_networks(case[0], rng), *case[1:])
    assert result.cycles == max(result.busy_cycles, *(row["cycles"] for row in result.cycle_rows()))


@settings(max_examples=CASES)
@given(cases(), st.randoms(use_true_random=True))
def test_networks__hold_up_fills_that_all_else_waits_for(case, rng):
    machine, einsum, mapping = case
    machine = with_overlaps(with_networks(machine, rng, fast=rng.random() < 0.5), einsum, rng)
    result = evaluate(machine, einsum, mapping)
    assert (result.cycles, result.fills) == walk_fills(machine, einsum, mapping)


def bus(bandwidth: int, **changed) -> Architecture:
    """DRAM, and three buffers on a bus of so many words a cycle; one port of a buffer moves what it likes."""
    machine = two_levels()
    outer = replace(machine.levels[0], x=Axis(3, **changed), network_bandwidth=Fraction(bandwidth))
    return replace(machine, levels=(outer, machine.levels[1]))


BUFFERS = Mapping(
    (
        LevelMapping("DRAM", x=(Loop("N", 3),), keep=EVERY),
        LevelMapping("GLB", (Loop("M", 4), Loop("K", 5)), keep=EVERY),
    )
)


def test_network__is_busy_with_each_word_once():
    """20 inputs go to all three buffers at once, 5 weights to each, and 4 outputs come from each: 20 + 15 + 12 words.

    Without multicast the inputs take 60. The compute units need 20 cycles.
    """
    result = evaluate(bus(1), GEMM, BUFFERS)
    assert (result.cycles, result.bottleneck) == (20 + 15 + 12, "DRAM network")
    assert {n.tensor: n.passing for n in result.networks if n.level == "DRAM"} == {
        "Inputs": 20,
        "Weights": 15,
        "Outputs": 12,
    }
    assert evaluate(bus(1, multicast=False), GEMM, BUFFERS).cycles == 60 + 15 + 12
    assert evaluate(bus(2), GEMM, BUFFERS).cycles == 24
    assert (evaluate(bus(3), GEMM, BUFFERS).cycles, evaluate(bus(3), GEMM, BUFFERS).bottleneck) == (20, "MAC")


def network_problem(seed):
    """A random problem with limits of networks, at times of these alone."""
    machine, einsum, constraints = problem(seed)
    rng = random.Random(seed)
    return with_networks(machine, rng, fast=rng.random() < 0.5), einsum, constraints


def waiting_problem(seed):
    """The same with levels whose fills do not all overlap."""
    machine, einsum, constraints = network_problem(seed)
    return with_overlaps(machine, einsum, random.Random(seed)), einsum, constraints


@pytest.mark.parametrize("group", range(4))
def test_exact__equals_brute_force_with_networks(group):
    check_problems(network_problem, range(group, PROBLEMS, 4))


@pytest.mark.parametrize("group", range(2))
def test_exact__equals_brute_force_with_networks_and_fills_that_wait(group):
    check_problems(waiting_problem, range(group, PROBLEMS // 2, 2))


def test_exact__equals_brute_force_with_networks_and_remainders():
    check_remainders(network_problem)


@pytest.mark.parametrize("group", range(2))
def test_tables__bound_the_cycles_of_networks_from_below(group, monkeypatch):
    """No bound at the root exceeds the fastest mapping, nor the fastest order of any mapping's factors."""
    monkeypatch.setattr(relaxation, "NODES_AN_ENTRY", -1.0)
    for seed in range(group, PROBLEMS, 2):
        check_fastest(network_problem(seed), seed)


MACHINE = """architecture:
  name: bus
  clock: 1 GHz
  levels:
    - name: DRAM
      class: DRAM
      word: 16 bit
      energy: {read: 200 pJ, write: 200 pJ, source: test}
      fanout: {x: 16, bandwidth: 1 bit/cycle}
    - {name: BUF, class: SRAM, size: 8 KiB, word: 16 bit, energy: {read: 6 pJ, write: 6 pJ, source: test}}
  compute: {class: intmac, energy: {compute: 1 pJ, source: test}}
"""


def test_report__shows_the_network_among_what_bounds_the_time(run, tmp_path):
    path = tmp_path / "bus.yaml"
    path.write_text(MACHINE)
    assert load_architecture(path).levels[0].network_bandwidth == Fraction(1, 16)
    code, out, _ = run(
        "map", "--mapspace", "even", "--factors", "perfect", path, "gemm", "-O", "cycles", "-o", tmp_path / "out"
    )
    assert code == 0
    assert re.search(r"bottleneck +bandwidth +DRAM network 100 % busy", out)
    document = json.loads((tmp_path / "out" / "result.json").read_text())["result"]
    row = next(row for row in document["cycles_by_component"] if row["component"] == "DRAM network")
    assert row["bottleneck"]
    assert row["cycles"] == document["cycles"] == document["levels"][0]["network_cycles"]
    assert document["cycles"] == 16 * sum(n["passing"] for n in document["networks"] if n["level"] == "DRAM")
    path.write_text(MACHINE.replace("1 bit/cycle", "2 GB/s"))
    assert load_architecture(path).levels[0].network_bandwidth == 1


@pytest.mark.parametrize(
    ("rate", "wanted"),
    [
        ("2 GB", "bad.yaml:8:34: levels[0].fanout.bandwidth: unknown unit"),
        ("0 words/cycle", "bad.yaml:8:34: levels[0].fanout.bandwidth: '0 words/cycle' is zero; leave it out"),
        (
            "2 GB/s",
            "bad.yaml:8:34: levels[0].fanout.bandwidth: '2 GB/s' is per second, but the architecture has no clock",
        ),
    ],
)
def test_key__mistakes_are_told_once_with_their_places(tmp_path, rate, wanted):
    path = tmp_path / "bad.yaml"
    path.write_text(MACHINE.replace("1 bit/cycle", rate).replace("  clock: 1 GHz\n", ""))
    with pytest.raises(InputError) as raised:
        load_architecture(path)
    assert wanted in str(raised.value)
    assert str(raised.value).count("fanout.bandwidth") == 1
