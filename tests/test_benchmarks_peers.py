"""Machines of AccelForge with several fanouts, as `benchmarks/peers` reads and writes them."""

from importlib import import_module
from pathlib import Path

import pytest

from accelsim.inputs.constraints import Block
from accelsim.search.mapper import map_einsum

REPOSITORY = Path(__file__).resolve().parents[1]
GEMM = """
workload:
  iteration_space_shape: {m: 0 <= m < 64, k: 0 <= k < 64, n: 0 <= n < 64}
  bits_per_value: {All: 8}
  einsums:
  - name: Gemm
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: B, projection: [k, n]}
    - {name: Out, projection: [m, n], output: True}
    renames: {weight: B, input: A, output: Out}
"""
ALL = ["input", "output", "weight"]
FOUND = """
[Out,B,A in MainMemory]
[A,Out in GlobalBuffer]
S-PE_all-n in [0..4) shape=16
S-PE_all-k in [0..4) shape=16
[A in InputBuffer]
T-n in [0..4) shape=4
[B in WeightBuffer]
[Out in AccumulationBuffer]
S-MAC_all-n in [0..4) shape=1
S-MAC_all-k in [0..2) shape=8
S-MAC_output-k in [0..8) shape=1
[B in Register]
T-m in [0..64) shape=1
""".strip().splitlines()
FOUND_PJ = 974520.39
"""AccelForge 1.0.467's optimum for `simba` and its energy, by its own model; its mapping is `FOUND`."""


def memory(name, keep, pj, size="inf", bits=8):
    read, write = ({"energy_pj": each, "throughput_actions_per_s": "inf", "bits_per_action": 1} for each in pj)
    sets = {"must_keep": keep, "may_keep": [], "size_bits_per_instance": size, "bits_per_value": bits}
    part = {"name": name, "kind": "Memory", "spatial": [], "total_latency_expr_s": "sum"}
    return part | sets | {"actions": {"read": read, "write": write}}


def fanout(name, size, must=(), may=ALL):
    sets = {"must_reuse": list(must), "may_reuse": list(may)}
    return {"name": name, "fanout": size, "min_usage": 1, "loop_bounds": [], **sets}


def container(name, *fanouts):
    return {"name": name, "kind": "Container", "spatial": list(fanouts)}


def compute(name, pj, *fanouts):
    action = {"energy_pj": pj, "throughput_actions_per_s": 1e9, "bits_per_action": 1}
    part = {"name": name, "kind": "Compute", "spatial": list(fanouts), "total_latency_expr_s": "sum"}
    return part | {"actions": {"compute": action}}


def simba():
    """Two containers, one of them with one fanout; accumulators hold values of 24 bits."""
    return [
        memory("MainMemory", ALL, (8, 8)),
        memory("GlobalBuffer", ["input", "output"], (0.3, 0.35), 524288),
        container("PE", fanout("PE_all", 16)),
        memory("InputBuffer", ["input"], (0.1, 0.1), 65536),
        memory("WeightBuffer", ["weight"], (0.15, 0.17), 262144),
        memory("AccumulationBuffer", ["output"], (0.05, 0.06), 24576, 24),
        container("VectorMAC", fanout("MAC_output", 8, ["output"], ["output"]), fanout("MAC_all", 8)),
        memory("Register", ["weight"], (0, 0), 8),
        compute("MAC", 0.1),
    ]


@pytest.fixture
def peer(monkeypatch):
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks" / "peers")
    return import_module("accelforge_golden")


@pytest.fixture
def gemm(peer, tmp_path):
    (tmp_path / "gemm.yaml").write_text(GEMM)
    return peer.load_einsum(tmp_path / "gemm.yaml")


def test_several_containers__count_as_accelforge_counts_them(peer, gemm):
    nest = peer.read_nest(FOUND, simba(), gemm)
    replayed = import_module("nest").replay(peer.load_machine("simba", simba()), gemm, nest)
    assert replayed.energy_pj == pytest.approx(FOUND_PJ, rel=1e-6)
    assert replayed.fits


def test_several_containers__have_the_optimum_that_accelforge_found(peer, gemm):
    machine, asked = peer.load_machine("simba", simba()), peer.read_constraints(simba(), gemm)
    found = map_einsum(machine, gemm, constraints=asked, uneven=True, workers=1)
    assert found.best.energy_pj == pytest.approx(FOUND_PJ, rel=1e-6)


def test_several_containers__ask_for_the_most_instances_that_divisors_can_use(peer, gemm):
    outer, inner = peer.read_constraints(simba(), gemm).levels
    every = frozenset("mnk")
    assert (outer.level, outer.x, outer.y) == ("GlobalBuffer", Block(only=every, least=16), Block())
    assert (inner.x, inner.y) == (Block(only=frozenset("k"), least=8), Block(only=every, least=8))


def test_fanouts__are_written_with_their_own_names(peer, gemm):
    rows = peer.write_nest(peer.read_nest(FOUND, simba(), gemm), simba(), gemm)
    spatial = [row[:1] + row[2:] for row in rows if len(row) == 4 and row[2]]
    of_macs = [["n", "MAC_all"], ["k", "MAC_all"], ["k", "MAC_output"]]
    assert spatial == [["n", "PE_all", "PE"], ["k", "PE_all", "PE"], *([*row, "VectorMAC"] for row in of_macs)]


def test_third_fanout__takes_a_level_that_keeps_nothing(peer, gemm):
    parts = [*simba()[:2], container("PE", *(fanout(name, 2) for name in "abc"), fanout("d", 2, may=[])), simba()[-1]]
    machine = peer.load_machine("four", parts)
    assert [level.name for level in machine.levels] == ["MainMemory", "GlobalBuffer", "PE c"]
    assert [level.x.size * level.y.size for level in machine.levels] == [1, 4, 4]
    assert (machine.levels[2].y.multicast, machine.levels[2].y.spatial_reduction) == (frozenset(), False)
    asked = peer.read_constraints(parts, gemm)
    assert map_einsum(machine, gemm, constraints=asked, uneven=False, workers=1).best.compute_cycles == 64**3 // 16


def test_fanouts__of_memories_and_compute_units_are_those_of_the_level_above(peer):
    parts = [*simba()[:2], {**simba()[3], "spatial": [fanout("a", 4)]}, compute("MAC", 0.1, fanout("b", 8))]
    machine = peer.load_machine("two", parts)
    assert [level.x.size for level in machine.levels] == [1, 4, 8]


def test_fanouts__that_are_not_read_are_refused(peer):
    outer, *rest = simba()
    with pytest.raises(ValueError, match="PE has several instances, and no memory stands above it"):
        peer.load_machine("simba", [container("PE", fanout("a", 4)), outer, *rest])
    bounded = container("PE", fanout("a", 4) | {"loop_bounds": ["m == 1"]})
    with pytest.raises(ValueError, match="PE bounds the loops of a, which is not read"):
        peer.load_machine("simba", [outer, bounded, *rest])
    with pytest.raises(ValueError, match="Link is a Toll, which is not read"):
        peer.load_machine("simba", [outer, container("Link") | {"kind": "Toll"}, *rest])
