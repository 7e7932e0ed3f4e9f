"""One mapping for a family of shapes: its regret is the least of all mappings, by looking at each."""

from __future__ import annotations

import json
import math
import re
from functools import partial

import pytest
from brute import every_mapping, ragged_cost
from hypothesis import given
from hypothesis import strategies as st

from accelsim import load_architecture, load_workload
from accelsim.inputs.errors import AccelsimError
from accelsim.model.encode import encode
from accelsim.search.family import cut_to, largest_of, map_family
from accelsim.search.mapper import map_einsum
from accelsim.search.spaces import trim

EVEN = "--mapspace", "even", "--factors", "perfect"
map_even = partial(map_family, uneven=False, imperfect=())
MACHINE = """
architecture:
  name: little
  levels:
    - {name: DRAM, class: DRAM, word: 16 bit, energy: {read: 20 pJ, write: 20 pJ}}
    - {name: GLB, class: SRAM, size: SIZE, word: 16 bit, energy: {read: 6 pJ, write: 6 pJ}, fanout: {x: 2}}
  compute: {name: MAC, class: intmac, energy: {compute: 1 pJ}}
"""
LAYER = "workload: {name: g, gemm: {M: %s, N: %s, K: %s}}\n"


def machine(size="16 B"):
    return load_architecture(MACHINE.replace("SIZE", size))


def gemm(m, n, k):
    return load_workload(LAYER % (m, n, k)).layers[0]


def brute_regret(architecture, shapes, objective):
    """Least regret of all mappings of the largest shape, each cut down to all others by hand."""
    a, b = {"energy": (1, 0), "cycles": (0, 1), "edp": (1, 1)}[objective]
    own = [map_einsum(architecture, shape, objective=objective, workers=1, uneven=False).best for shape in shapes]
    encoded = [encode(architecture, shape) for shape in shapes]
    top, least = shapes[largest_of(shapes)], math.inf
    for mapping in every_mapping(architecture, top):
        worst = 0.0
        for shape, known, best in zip(shapes, encoded, own, strict=True):
            fits, energy, cycles = ragged_cost(known, mapping if shape is top else trim(mapping, dict(shape.dims)))
            cost = energy**a * cycles**b / (best.energy_pj**a * best.cycles**b)
            worst = max(worst, cost - 1.0 if fits else math.inf)
            if worst >= least:
                break
        least = min(least, worst)
    return least


@pytest.mark.parametrize(("size", "shapes", "objective"), [
    ("12 B", [(1, 2, 4), (4, 2, 4)], "energy"),
    ("16 B", [(1, 2, 4), (2, 2, 4), (4, 2, 4)], "energy"),
    ("16 B", [(3, 2, 2), (4, 2, 2)], "energy"),  # the last tile is a smaller one
    ("12 B", [(4, 1, 2), (4, 3, 2), (4, 4, 2)], "edp"),
    ("12 B", [(2, 3, 2), (4, 3, 2)], "cycles"),
    ("20 B", [(2, 1, 3), (4, 2, 3)], "energy"),  # two dimensions grow
])  # fmt: skip
def test_map_family__has_the_least_regret_of_all_mappings(size, shapes, objective):
    einsums = [gemm(*each) for each in shapes]
    found = map_even(machine(size), einsums, objective, workers=1)
    assert found.proved
    assert found.regret == pytest.approx(brute_regret(machine(size), einsums, objective), abs=1e-9)
    assert found.regret == pytest.approx(max(0.0, *(ratio - 1 for ratio in found.ratios())), abs=1e-12)


def test_map_family__of_prime_bounds_tries_the_best_of_all_mappings(run, tmp_path):
    """113 rows of even mappings with perfect factors leave instances idle: the mapping with remainders suits both."""
    shapes, eyeriss = [gemm(m, 31, 37) for m in (57, 113)], load_architecture("eyeriss")
    wide, even = (each(eyeriss, shapes, workers=1) for each in (map_family, map_even))
    assert even.proved
    assert not even.largest.mapping.imperfect
    assert wide.proved
    assert wide.largest.mapping.imperfect
    for mine, other, own in zip(wide.costs, even.costs, wide.optima, strict=True):
        assert own.space.imperfect
        assert mine.energy_pj < 0.9 * other.energy_pj
    (tmp_path / "g.yaml").write_text("params: {M: 4}\nworkload: {name: g, gemm: {M: $M, N: 31, K: 37}}\n")
    _, out, _ = run("map", "eyeriss", tmp_path / "g.yaml", "--set", "M=57,113", "--shared-mapping")
    assert "optimal (proved) among even mappings with perfect factors" in " ".join(out.split())
    assert "own optima best found of mappings with remainders, even and uneven" in " ".join(out.split())


def test_map_family__some_families_lose_something():
    """Else nothing above were looked for."""
    found = [map_even(machine("12 B"), [gemm(*a), gemm(*b)], workers=1).regret
             for a, b in (((1, 2, 4), (4, 2, 4)), ((1, 4, 4), (8, 4, 4)), ((2, 8, 2), (8, 8, 2)))]  # fmt: skip
    assert max(found) > 1e-3


def test_map_family__that_may_not_list_enough_proves_what_it_can():
    """The bound is never above the least regret, and the mapping keeps what it promises."""
    machine_, shapes = load_architecture("eyeriss"), [gemm(m, 1024, 1024) for m in (1, 16, 2048)]
    whole = map_even(machine_, shapes, workers=1)
    assert whole.proved
    assert whole.regret > 0.01
    for room in (8, 100):
        few = map_even(machine_, shapes, workers=1, room=room)
        assert few.stop == "room"
        assert not few.proved
        assert few.bound <= whole.regret <= few.regret


@given(st.lists(st.tuples(*[st.integers(1, 12)] * 3), min_size=1, max_size=4))
def test_largest_of__has_room_for_all_or_is_refused(dims):
    shapes = [gemm(*each) for each in dims]
    most = tuple(max(column) for column in zip(*dims, strict=True))
    if most in dims:
        assert dims[largest_of(shapes)] == most
    else:
        with pytest.raises(AccelsimError, match="fit into one of them"):
            largest_of(shapes)


def test_largest_of__refuses_other_layers():
    conv = load_workload("conv").layers[0]
    with pytest.raises(AccelsimError, match="bounds of their dimensions alone"):
        largest_of([gemm(2, 2, 2), conv])


def test_cut_to__keeps_tiles_orders_and_splits():
    """At 3 of 8 rows, 4 a tile: one pass of 3; what no other dimension does changes."""
    result = map_einsum(machine("64 B"), gemm(8, 4, 4), workers=1, uneven=False).best
    cut = cut_to(machine("64 B"), gemm(3, 4, 4), result)
    assert cut is not None
    for mine, whole in zip(cut.mapping.levels, result.mapping.levels, strict=True):
        assert mine.keep == whole.keep
        for name in ("temporal", "x", "y"):
            others = [loop for loop in getattr(whole, name) if loop.dim != "M"]
            assert [loop for loop in getattr(mine, name) if loop.dim != "M"] == others


def test_map_command__one_mapping(run, tmp_path):
    (tmp_path / "g.yaml").write_text("params: {M: 4}\nworkload: {name: g, gemm: {M: $M, N: 64, K: 64}}\n")
    path = str(tmp_path / "g.yaml")
    code, out, _ = run("map", "eyeriss", path, "--set", "M=1,4,64", "--shared-mapping", "--jobs", "1", *EVEN)
    assert code == 0
    assert "g on eyeriss: one mapping for all 3 sizes" in out
    assert re.search(
        r"(?m)^worst loss +[0-9.]+ % of energy at M=\d+, optimal \(proved\) among even mappings\nwith perfect factors$",
        out,
    )
    code, out, _ = run("map", "eyeriss", path, "--set", "M=1,4,64", "--shared-mapping", "--jobs", "1", "--json", *EVEN)
    (layer,) = json.loads(out)["layers"]
    assert layer["proved"]
    assert [row["dims"]["M"] for row in layer["sizes"]] == [1, 4, 64]
    assert max(row["ratio"] for row in layer["sizes"]) == pytest.approx(1 + layer["regret"])
    several = ("--shared-mapping", "--set", "M=1,2")
    wrong = {"several sizes": several[:1], "not with": (*several, "--top", "3")}
    wrong["may not"] = (*several, "--objective", "energy,cycles")
    for said, arguments in wrong.items():
        code, _, err = run("map", "eyeriss", path, *arguments)
        assert code == 2
        assert said in err
