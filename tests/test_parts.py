"""The default space, searched in parts: the best of all of them, and what is proved of each."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace

import pytest

from accelsim import load_architecture, load_workload
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.nodes import with_nodes
from accelsim.inputs.workload import shared_rank
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.search.exact import parts
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from accelsim.show.report.verdicts import verdict
from tests.brute import ragged_cost, truth
from tests.brute_ragged import awkward, mappings
from tests.effort import many
from tests.problems import MOST
from tests.strategies import with_engines
from tests.switches import switched
from tests.test_exact import same

PROBLEMS = many("PARTS_PROBLEMS", 60)
GROUPS = 6
OBJECTIVES = {"energy": (1, 0), "edp": (1, 1), "cycles": (0, 1)}
LEAST_ENERGY = 4_298_113_000.0
"""Of even mappings of `gemm` on `eyeriss` with remainders, proved in six seconds [pJ], rounded up."""
FEW = 20_000
"""Mappings of a problem that are evaluated one by one, at most."""


@pytest.mark.parametrize("group", range(GROUPS))
def test_default_space__is_bounded_from_both_sides_by_brute_force(group):
    """No part has a mapping below its bound, and none is better than the answer where it is proved."""
    looked = 0
    for seed in range(group, PROBLEMS, GROUPS):
        machine, einsum, _ = awkward(seed)
        every = [dim for dim, bound in einsum.dims.items() if bound > 1 and not shared_rank(einsum, dim)]
        objective = list(OBJECTIVES)[seed % 3]
        a, b = OBJECTIVES[objective]
        least = {}
        known = mappings(machine, einsum, every, most=FEW) if every else None
        if known is not None:
            costs = [ragged_cost(encode(machine, einsum), each) for each in known]
            least[False, True] = min((e**a * c**b for fits, e, c in costs if fits), default=math.inf)
        for uneven, each in ((False, machine), (True, with_nodes(machine, einsum, Constraints()))):
            walked = truth(each, einsum, Constraints(), MOST)
            if walked is not None:
                least[uneven, False] = walked.best(a, b) if walked.valid else math.inf
        if min(least.values(), default=math.inf) == math.inf:
            continue
        with switched(seed):
            found = map_einsum(machine, einsum, objective=objective, imperfect="auto", workers=1)
        proof = found.proof
        assert proof is not None
        assert evaluate(machine, einsum, found.best.mapping) == found.best
        assert proof.bound <= min(least.values()) * (1 + 1e-9), seed
        if not found.padded and proof.proved:
            assert proof.value <= min(least.values()) * (1 + 1e-9), seed
        for part in (*found.parts, proof):
            for (uneven, ragged), value in least.items():
                inside = uneven <= part.space.uneven and ragged <= bool(part.space.imperfect)
                assert not inside or part.bound <= value * (1 + 1e-9), (seed, part.space)
                assert not inside or part.space.padded or not part.proved or part.value <= value * (1 + 1e-9), seed
        looked += 1
    assert looked


def test_parts__each_is_bounded_by_itself(monkeypatch):
    """Remainders that were hardly looked at are not proved by what was proved of perfect factors."""
    machine, gemm = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    monkeypatch.setattr(parts, "REMAINDERS_SHAPES", 1)
    found = map_einsum(machine, gemm, imperfect="auto", workers=1)
    assert [part.proved for part in found.parts] == [True, True, False]
    assert found.certificate.bound <= found.parts[2].bound <= LEAST_ENERGY
    assert found.certificate.bound < found.best.energy_pj < LEAST_ENERGY < found.parts[2].value
    assert found.stop == "effort"


def test_prime_bounds__are_mapped_with_remainders():
    """Without them an array of 12 x 14 has one row or column in use for a prime bound."""
    machine, gemm = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    gemm = replace(gemm, dims={"M": 127, "N": 131, "K": 769})
    found = map_einsum(machine, gemm, objective="cycles", imperfect="auto", workers=1)
    assert found.parts[0].proved
    assert found.best.cycles < 0.3 * found.parts[0].value
    assert found.imperfect == ("K", "M", "N")


def test_windows__are_rounded_up_where_that_pays():
    """Outputs of 7 x 7 on 8 x 8 units: the bounds of a window leave no remainder, so that they are rounded up."""
    machine = load_architecture(
        {
            "architecture": {
                "name": "grid",
                "levels": [
                    {"name": "DRAM", "class": "DRAM", "word": "8 bit", "fanout": {"x": 8, "y": 8},
                     "energy": {"read": "60 pJ", "write": "60 pJ", "source": "made up"}},
                    {"name": "REG", "class": "regfile", "word": "8 bit", "size": "16 B",
                     "energy": {"read": "0.1 pJ", "write": "0.1 pJ", "source": "made up"}},
                ],
                "compute": {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "made up"}},
            }
        }
    )  # fmt: skip
    conv = load_workload("conv").layers[0]
    conv = replace(conv, dims={**conv.dims, "K": 3, "C": 5, "P": 11, "Q": 11, "R": 3, "S": 3})
    found = map_einsum(machine, conv, objective="cycles", imperfect="auto", workers=1)
    assert found.padded
    assert found.best.cycles < found.parts[0].value
    assert same(found.best.cycles, found.certificate.value)


def test_engines__have_no_uneven_mappings_with_remainders():
    """What is proved of the whole space is what is proved of the two parts that there are."""
    machine, gemm = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    machine = with_engines(machine, gemm, random.Random(1))
    gemm = replace(gemm, dims={"M": 7, "N": 31, "K": 61})
    found = map_einsum(machine, gemm, imperfect="auto", budget=Budget(seconds=20), workers=1)
    assert found.uneven
    assert found.certificate.bound == min(part.bound for part in found.parts[-2:])


def test_verdict__names_a_part_that_has_the_mapping():
    """The best mapping is uneven: that no even one with remainders is better makes it no optimum of these."""
    found = map_einsum(load_architecture("two_level"), load_workload("gemm").layers[0], imperfect="auto", workers=1)
    assert [part.proved for part in found.parts] == [True, True, True]
    assert len(found.best.mapping.levels) > 2
    assert re.match(
        r"optimal \(proved\) among [\d.e]+ mappings with perfect factors, even and uneven; ", verdict(found)
    )


def test_map__says_of_which_mappings_its_proof_is(run, monkeypatch):
    def said(*arguments):
        code, out, _ = run("map", *arguments, "--no-cache")
        assert code == 0
        return " ".join(out.split())

    monkeypatch.setattr("accelsim.search.exact.parts.REMAINDERS_SHAPES", 1)
    uneven, even = "mappings with perfect factors, even and uneven", "even mappings with perfect factors"
    found = said("eyeriss", "gemm")
    early = r"\(stopped as more mappings take long\)"
    assert re.search(rf"lowest energy: at most [\d.]+ % above the optimum {early} energy", found)
    assert "optimal (proved)" not in found
    assert "verdict not proved: stopped as more mappings take long best" in found
    assert "with remainders in K, M, N, every bypass choice; even and uneven not in it padded bounds (--f" in found
    part = r"[\d.]+ mJ \(\+[\d.]+ %\), proved"
    parts = rf"parts even, perfect factors: {part}; even and uneven, perfect factors: {part}; even, remainders: "
    assert re.search(rf"{parts}[\d.]+ mJ( \(\+[\d.]+ %\))?, at most [\d.]+ % above the optimum others", found)
    assert re.search(r"next --time-limit \d+, or narrow the space with --constraints search", found)
    known = (
        rf"lowest energy: optimal \(proved\) among [\d.e]+ {uneven}; at most [\d.]+ % above the optimum with remainders"
    )
    assert re.search(rf"{known} energy", said("eyeriss", "depthwise"))
    proved = said("eyeriss", "gemm", "--factors", "perfect")
    assert re.search(rf"lowest energy: optimal \(proved\) among [\d.e]+ {uneven} energy", proved)
    assert re.search(rf"verdict optimal \(proved\) among [\d.e]+ {uneven}: no mapping in the space below", proved)
    assert "every bypass choice; even and uneven not in it mappings with remainders (--factors auto), padded" in proved
    assert re.search(r"parts even, perfect factors: [\d.]+ mJ \(\+2\.05 %\), proved others", proved)
    narrow = said("eyeriss", "gemm", "--mapspace", "even", "--factors", "perfect")
    assert re.search(rf"lowest energy: optimal \(proved\) among [\d.e]+ {even} energy", narrow)
    assert "every bypass choice; even not in it uneven mappings (--mapspace auto), mappings with rem" in narrow
    assert " parts " not in narrow
    monkeypatch.setattr("accelsim.search.exact.parts.FURTHER_BYTES", 1)
    found = said("nvdla", "gemm", "--factors", "perfect")
    known = (
        rf"optimal \(proved\) among [\d.e]+ {even}; at most [\d.]+ % above the optimum of even and uneven ones energy"
    )
    assert re.search(f"lowest energy: {known}", found)
    assert "verdict not proved: stopped as more mappings take long best" in found
    assert run("map", "eyeriss", "gemm", "--mapspace", "uneven", "--sample", "9")[0] == 2
