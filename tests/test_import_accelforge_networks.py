"""Networks and arrays of AccelForge's files."""

from __future__ import annotations

import re
import shutil
from fractions import Fraction

import pytest

from accelsim import load_constraints, load_mapping
from accelsim.importers.foreign import read_foreign
from accelsim.inputs.errors import InputError
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from tests.conftest import said
from tests.test_import_accelforge import GEMM, MACHINE, layers_of, machine_of

NETWORK = "  - !Network {name: NoC, bits_per_action: 4, actions: [{name: hop, energy: 1e-12, throughput: 3e9}]}\n"


def test_network__has_energies_of_links_and_a_rate(imported):
    """A hop of 4 bits takes 1 pJ, so one of 8 bits 2 pJ, and one of an output of 16 bits 4 pJ; of 12 bits/ns."""
    foreign = imported(MACHINE.replace("  - !Container", NETWORK + "  - !Container"), GEMM)
    fanout = foreign.architecture["levels"][1]["fanout"]
    assert fanout["energy"]["hop"] == {"Weights": "2 pJ", "Inputs": "2 pJ", "Outputs": "4 pJ"}
    assert machine_of(foreign).levels[1].network_bandwidth == Fraction(12, 8) / Fraction(1, 2)
    rate = "is that of all words below an instance together; AccelForge's is that of the busiest link"
    assert f"throughput of NoC: {rate}" in said(foreign)


def test_network__below_a_fanout_is_a_level_of_its_own(imported):
    text = MACHINE.replace("  - !Memory\n    name: Register", NETWORK + "  - !Memory\n    name: Register")
    levels = machine_of(imported(text.replace("component_class: Dummy", "spatial: [{name: z, fanout: 3}]"))).levels
    assert [(level.name, level.fanout) for level in levels] == [("Main", 1), ("Buffer", 8), ("NoC", 3), ("Register", 1)]


MESH = """
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 0, throughput: .inf}, {name: write, energy: 0, throughput: .inf}]
  - !Network
    name: NoC
    bits_per_action: 4
    actions: [{name: hop, energy: 1, throughput: 1e9, latency: 0}]
  - !Memory
    name: Reg
    size: inf
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 0, throughput: .inf}, {name: write, energy: 0, throughput: .inf}]
    spatial: [{name: X, fanout: 8}, {name: Y, fanout: 4}]
  - !Compute
    name: MAC
    actions: [{name: compute, energy: 0, throughput: 1e9}]
workload:
  iteration_space_shape: {m: 0 <= m < 8, n: 0 <= n < 32, k: 0 <= k < 16}
  bits_per_value: {All: 8}
  einsums:
  - name: Out
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: B, projection: [k, n]}
    - {name: Out, projection: [m, n], output: True}
    renames: {weight: B, input: A, output: Out}
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, B, Out]}
  - !Spatial {rank_variable: m, tile_shape: 1, component: Reg, name: X}
  - !Spatial {rank_variable: k, tile_shape: 4, component: Reg, name: Y}
  - !Storage {component: Reg, tensors: [A, B, Out]}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: Out, component: MAC}
"""
TWO_ON_Y = """
  - !Spatial {rank_variable: n, tile_shape: 4, component: Reg, name: X}
  - !Spatial {rank_variable: m, tile_shape: 4, component: Reg, name: Y}
  - !Spatial {rank_variable: k, tile_shape: 8, component: Reg, name: Y}
  - !Storage {component: Reg, tensors: [A, B, Out]}
  - !Temporal {rank_variable: m, tile_shape: 1}
"""


def test_network__costs_what_accelforge_counts(imported):
    """AccelForge 1.0.467 (`evaluate_mapping`) has the first energies [J].

    With two loops on Y, it counts 6656 for B where the loop of m, whose children share B, is the outer one, and 5632
    where it is the inner one; for Out it is the other way round, 2816 and 3328.
    """
    a, b = MESH.index("\n  - !Spatial"), MESH.index("  - !Temporal {rank_variable: n")
    two = MESH[:a] + TWO_ON_Y + MESH[b:]
    for text, energies in ((MESH, (1280, 19456, 3328)), (two, (4864, 5632, 2816))):
        foreign = imported(text)
        machine = machine_of(foreign)
        layer = layers_of(foreign)[0]
        result = evaluate(machine, layer, load_mapping({"mapping": foreign.mapping}, machine, layer))
        found = {n.tensor: n.energy_pj for n in result.networks if n.level == "Main"}
        assert found == dict(zip(("A", "B", "Out"), (joule * 1e12 for joule in energies), strict=True))


def test_network__has_the_optimum_of_accelforge(imported):
    """AccelForge 1.0.467 (`map_workload_to_arch` for energy): 221440 J, of which 3328 J on the mesh."""
    text = MESH[: MESH.index("mapping:")].replace("name: read, energy: 0", "name: read, energy: 3")
    text = text.replace("name: write, energy: 0", "name: write, energy: 3").replace("0 <= n < 32", "0 <= n < 16")
    foreign = imported(text.replace("name: Reg\n    size: inf", "name: Reg\n    size: 256"))
    found = map_einsum(machine_of(foreign), layers_of(foreign)[0], uneven=True)
    assert found.certificate.proved
    assert found.best.energy_pj == pytest.approx(221440e12, rel=1e-12)
    assert sum(n.energy_pj for n in found.best.networks) == pytest.approx(3328e12, rel=1e-12)


def test_network__may_have_the_fanout_itself(imported):
    text = MACHINE.replace(
        "!Container\n    name: PE", "!Network\n    name: PE\n    actions: [{name: hop, energy: 1e-12}]"
    )
    fanout = imported(text, GEMM).architecture["levels"][1]["fanout"]
    assert (fanout["x"]["size"], fanout["y"]["size"]) == (4, 2)
    assert fanout["energy"]["hop"]["Outputs"] == "16 pJ"


def test_network__of_parts_side_by_side_is_refused(imported):
    text = MACHINE.replace("!Container\n    name: PE", "!Network\n    name: PE\n    nodes: []")
    with pytest.raises(InputError, match=r"parts side by side on a network; write them .* are the engines of a system"):
        imported(text, GEMM)


def test_network__that_is_a_switch_charges_each_child_once(imported):
    text = MACHINE.replace("  - !Container", NETWORK.replace("bits_", "topology: all_to_all, bits_") + "  - !Container")
    foreign = imported(text, GEMM)
    assert foreign.architecture["levels"][1]["fanout"]["energy"]["transfer"]["Inputs"] == "2 pJ"
    where = "each child is one hop away; to AccelForge, one of them is where the words come from"
    assert f"topology: {where}" in said(foreign)


ARRAYS = {
    "basic_analog": (262.53290587174625, 1.0000000116860974e-07, 1e-9),
    "sinangil_jssc_2021": (4.3712253376375716, 5.500000010982831e-09, 1e-6),
    "jia_jssc_2020": (239598.88538601973, 8.64000030560419e-05, 2e-2),  # cells may be gated: 4.2 of 239.6 nJ
    "colonnade_jssc_2021": (2373.0159903256813, 5.760000121313169e-08, 1e-6),
    "neurram_nature_2022": (10137.163452222774, 1.0140000085812062e-05, 1e-6),
    "isaac_isca_2016": (46790.57815976459 - 169.9936, 1.7066666941900621e-06, 1e-6),  # inputs there, results stay
    "albireo_isca_2021": (4658.838296255956 + 374.4, 2.000000026702864e-10, 1e-3),  # 72 inputs of windows more, 5.2 pJ
}
"""Energy [pJ] and time [s] of AccelForge's best mapping (1.0.467, for energy), and how near ours has to come.

It has no value for `throughput_scale` in its own ISAAC; 1 was written there.
"""


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_compute_in_memory__cost_what_they_cost_in_accelforge(shared, name):
    """Without a number typed in: the parts have the energies of their component models."""
    energy_pj, seconds, near = ARRAYS[name]
    foreign = read_foreign([shared / f"foreign/accelforge/arches/compute_in_memory/{name}.yaml"])
    machine, (layer,) = machine_of(foreign), layers_of(foreign)
    constraints = load_constraints({"constraints": foreign.constraints}, machine, layer)
    found = map_einsum(machine, layer, constraints=constraints, uneven=False)
    assert found.certificate.proved
    assert found.best.energy_pj == pytest.approx(energy_pj, rel=near)
    assert found.best.cycles / float(machine.clock_hz) == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize(("name", "energy_pj"), [("isaac_isca_2016", 2.2016e6), ("albireo_isca_2021", None)])
def test_arrays__of_many_axes_are_filled_by_the_layer_that_is_sized_for_them(shared, tmp_path, name, energy_pj):
    """Each action of a part costs 1 pJ; the layer of the file has work for every multiplier in one go.

    AccelForge 1.0.467 finds the same energy for its ISAAC, part by part: its input buffer is full beforehand, results
    stay in its output buffer, and a dummy memory is written and read once for each word that passes.
    """
    shutil.copytree(shared / "foreign/accelforge/arches/compute_in_memory", tmp_path / "arches")
    path = tmp_path / "arches" / f"{name}.yaml"
    text = re.sub(r"\n    (energy|leak_power)_scale: [^\n]*", "", path.read_text())
    own = r"\1    actions: [{name: read, energy: 1e-12}, {name: write, energy: 1e-12}]\n"
    path.write_text(re.sub(r"(- !(?:Toll|Memory)[^\n]*\n    name: \w+[^\n]*\n)", own, text))
    foreign = read_foreign([path])
    machine, (layer,) = machine_of(foreign), layers_of(foreign)
    constraints = load_constraints({"constraints": foreign.constraints}, machine, layer)
    found = map_einsum(machine, layer, constraints=constraints, uneven=False)
    assert found.certificate.proved
    assert energy_pj is None or found.best.energy_pj == pytest.approx(energy_pj, rel=1e-9)
    assert found.best.compute_used == machine.macs
