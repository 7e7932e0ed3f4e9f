"""Energy of the links that words pass on a mesh, against the oracle that executes the nest; optima by brute force."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_architecture, load_mapping, load_workload
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.workload import ROLES
from accelsim.model.evaluate import evaluate
from accelsim.model.oracle import execute
from accelsim.search.mapper import map_einsum
from tests.effort import many
from tests.problems import MOST, plain
from tests.strategies import cases, ragged_case
from tests.test_nodes import POWERS, check_best
from tests.test_systolic import check_problems

CASES = many("HOP_CASES", 200)
PROBLEMS = many("HOP_PROBLEMS", 70)


def with_hops(machine, rng):
    """The machine with meshes, whose links cost mostly something, by role."""
    hops = {
        (f"{level.name} network", role, "hop"): EnergyEntry(rng.choice([0.0, 0.5, 3.0, 40.0]), "test")
        for level in machine.levels
        for role in ROLES
    }
    return replace(machine, energy=EnergyTable({**machine.energy.entries, **hops}))


def check_hops(plain_machine, einsum, mapping, rng):
    """Compare what each network costs, and all, with the links that the executed nest passes."""
    machine = with_hops(plain_machine, rng)
    result, walked = evaluate(machine, einsum, mapping), execute(machine, einsum, mapping)
    without = {(n.level, n.tensor): n.energy_pj for n in evaluate(plain_machine, einsum, mapping).networks}
    roles = {tensor.name: tensor.role for tensor in einsum.tensors}
    names = [level.level for level in mapping.levels]
    hops, total = 0.0, evaluate(plain_machine, einsum, mapping).energy_pj
    for network in result.networks:
        hop = machine.energy.energy_pj(f"{network.level} network", roles[network.tensor], "hop")
        last = len(names) - 1 - names[::-1].index(network.level)
        passed = walked.hops[last][network.tensor] * hop
        assert network.energy_pj == pytest.approx(without[network.level, network.tensor] + passed, rel=1e-12)
        hops += passed
    assert result.energy_pj == pytest.approx(total + hops, rel=1e-12)


@settings(max_examples=CASES)
@given(cases(), st.randoms(use_true_random=True))
def test_hops__cost_what_the_executed_nest_passes(case, rng):
    check_hops(*case, rng)


@settings(max_examples=CASES)
@given(st.randoms(use_true_random=True))
def test_hops__of_uneven_mappings_cost_what_the_executed_nest_passes(rng):
    """The mappings of `ragged_case`, of bounds that leave no remainder."""
    machine, einsum, mapping = ragged_case(rng)
    bounds = dict.fromkeys(einsum.dims, 1)
    for loop in (loop for level in mapping.levels for loop in (*level.temporal, *level.x, *level.y)):
        bounds[loop.dim] *= loop.bound
    einsum, mapping = replace(einsum, dims=bounds), replace(mapping, imperfect=frozenset())
    check_hops(machine, einsum, mapping, rng)


def hop_problem(seed):
    """A random problem on meshes."""
    machine, einsum, constraints = plain(seed, MOST // 4)
    return with_hops(machine, random.Random(seed)), einsum, constraints


@pytest.mark.parametrize("group", range(4))
def test_exact__equals_brute_force_with_hops(group):
    check_problems(hop_problem, range(group, PROBLEMS, 4))


def test_best_uneven_mapping__is_that_of_brute_force_with_hops():
    objectives = [[list(POWERS)[seed % 3]] for seed in range(PROBLEMS // 4)]
    found = (
        check_best(*each, slower=lambda machine, _, rng: with_hops(machine, rng)) for each in enumerate(objectives)
    )
    assert sum(found) > 0


MACHINE = """architecture:
  name: mesh
  levels:
    - name: GLB
      class: SRAM
      word: 8 bit
      energy: {read: 0 pJ, write: 0 pJ, source: test}
      fanout: {x: 4, y: 4, energy: {hop: 0.125 pJ/bit, source: test}}
    - {name: PE, class: regfile, size: 64 B, word: 8 bit, energy: {read: 0 pJ, write: 0 pJ, source: test}}
  compute: {class: intmac, energy: {compute: 0 pJ, source: test}}
"""
GEMM = "workload: {name: gemm, bits: {Weights: 8, Inputs: 8, Outputs: 8}, gemm: {M: 4, N: 1, K: 4}}"
MAPPING = """mapping:
  levels:
    - {level: GLB, temporal: [], spatial: {x: [M=4], y: [K=4]}}
    - {level: PE, keep: [Weights, Inputs, Outputs]}
"""


def files(tmp_path, *changes):
    text = MACHINE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    paths = [tmp_path / name for name in ("mesh.yaml", "gemm.yaml", "mapping.yaml")]
    for path, content in zip(paths, (text, GEMM, MAPPING), strict=True):
        path.write_text(content)
    return paths


def test_eval__counts_each_link_once_for_all_that_share_a_word(run, tmp_path):
    """Outputs M along x, sums K along y, one pJ a link.

    Weights[K]: four words pass 3 links of the row, then 0 + 1 + 2 + 3 in each of 4 columns: 4 * 3 + 4 * 6 = 36.
    Inputs[M, K]: columns 0 to 3 get 4 words each, over 0 + 1 + 2 + 3 links: 24; then as the weights: 24 + 24 = 48.
    Outputs[M]: sums meet in each column, over 3 links: 12; then one sum of each column goes 0 + 1 + 2 + 3 links: 18.
    """
    arch, layer, mapping = files(tmp_path)
    machine, einsum = load_architecture(arch), load_workload(layer).layers[0]
    result = evaluate(machine, einsum, load_mapping(mapping, machine, einsum))
    found = {n.tensor: n.energy_pj for n in result.networks if n.level == "GLB"}
    assert found == {"Weights": 36.0, "Inputs": 48.0, "Outputs": 18.0}
    assert run("map", arch, layer, "-o", tmp_path / "out")[0] == 0
    code, out, _ = run("eval", arch, layer, mapping)
    assert code == 0
    assert "102 pJ" in out


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("0.125 pJ/bit", "2 mm", "mesh.yaml:8:42: levels[0].fanout.energy.hop: "),
        ("y: 4,", "y: 4, link_transfers: true,", "mesh.yaml:8:15: levels[0].fanout: `link_transfers` beside"),
        (
            "y: 4,",
            "y: 4, systolic: {stationary: Weights},",
            "mesh.yaml:8:75: levels[0].fanout.energy.hop: in a systolic",
        ),
        ("0.125 pJ/bit", "-1 pJ", "mesh.yaml:8:42: levels[0].fanout.energy.hop: '-1 pJ' is negative"),
        ("hop:", "hops:", "mesh.yaml:8:37: levels[0].fanout.energy.hops: unknown key; did you mean 'hop'?"),
    ],
)
def test_key__mistakes_are_told_with_their_places(tmp_path, old, new, wanted):
    with pytest.raises(InputError) as raised:
        load_architecture(files(tmp_path, (old, new))[0])
    assert wanted in str(raised.value)


def test_fanout__with_hops_needs_no_transfer(tmp_path):
    models = ("architecture:", "architecture:\n  clock: 1 GHz\n  energy_table: components\n  technology: 45 nm")
    sized = ("class: SRAM", "class: SRAM\n      size: 1 KiB")
    energies = load_architecture(files(tmp_path, models, sized)[0]).energy
    assert energies.find("GLB network", "Inputs", "transfer") is None
    assert energies.energy_pj("GLB network", "Inputs", "hop") == 1.0
    with pytest.raises(InputError, match="no energy for 'transfer' of Weights, Outputs here"):
        load_architecture(files(tmp_path, models, sized, ("0.125 pJ/bit", "{Inputs: 1 pJ}"))[0])


def test_remainders__are_refused(tmp_path):
    arch, layer, _ = files(tmp_path)
    with pytest.raises(AccelsimError, match="hops below level GLB are counted where no loop leaves a remainder"):
        map_einsum(load_architecture(arch), load_workload(layer).layers[0], imperfect="all")
