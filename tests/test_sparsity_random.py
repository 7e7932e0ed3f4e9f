"""Random machines that do something about zeros: parts are of the dense counts, and relaxed machines bound them."""

from __future__ import annotations

import math
import random

import pytest

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.workload_reader import load_workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.model.sparsity.evaluate import evaluate_sparse
from accelsim.model.sparsity.relax import relax

ROLES = ("Inputs", "Weights", "Outputs")
ENERGY = {"read": "1 pJ", "write": "2 pJ", "metadata_read": "0.5 pJ", "metadata_write": "0.25 pJ"}
ENERGY |= {"gated_read": "0.1 pJ", "decompression": "0.3 pJ"}


def density(draw, dims, constant):
    kind = draw.choice(["uniform", "uniform", "fixed", "n_of_m"] + ["banded"] * (not constant))
    if kind == "uniform":
        return draw.choice([0.05, 0.25, 0.5, 0.9, 1.0])
    if kind == "banded":
        return {"distribution": "banded", "band_width": draw.randint(0, 3)}
    if kind == "fixed":
        return {"distribution": "fixed_structured", "density": draw.choice([0.25, 0.5])}
    return {"distribution": "n_of_m", "n": draw.randint(1, 4), "m": 4, "along": draw.choice(dims)}


def level(draw, name, constant):
    """A level; `constant`: what zeros save there is often a constant share."""
    outer = name == "DRAM"
    found = {"name": name, "class": "SRAM", "word": "16 bit", "energy": ENERGY}
    found |= {} if outer else {"size": draw.choice(["64 B", "256 B", "4 KiB"])}
    found |= {"block_size": 4} if draw.random() < (0.05 if constant else 0.3) else {}
    found |= {"keep": list(ROLES)} if draw.random() < 0.7 else {}
    found |= {"fanout": {"x": 4}} if draw.random() < 0.2 else {}
    if draw.random() < 0.6:
        known = ["CP", "RLE", *(["B"] if outer else [])] if constant else ["U", "UB", "B", "CP", "RLE", "UOP"]
        ranks = 1 if constant else draw.randint(1, 3)
        found["formats"] = {role: draw.choices(known, k=ranks) for role in ROLES if draw.random() < 0.5}
        found["metadata"] = {"width": "8 bit", "word": draw.choice(["2 bit", "8 bit"])}
    rates = ["1 B/cycle", "2 B/cycle", "3 B/cycle"]
    if draw.random() < 0.4:
        ports = draw.choice([["bandwidth"], ["read_bandwidth", "write_bandwidth"]])
        found |= {port: draw.choice(rates) for port in ports}
    found |= {"energy": {**ENERGY, "leak": "3 pJ"}} if draw.random() < 0.1 else {}
    found |= {"position_skipping": [draw.choice(ROLES[:2])]} if "fanout" in found and draw.random() < 0.3 else {}
    if "fanout" in found and draw.random() < 0.3:
        found["fanout"] = {"x": 4, "energy": {"transfer": "0.7 pJ"}}
    for kind in ("gating", "skipping", "spatial_skipping"):
        if draw.random() < (0.1 if constant else 0.3) - 0.1 * (kind == "spatial_skipping"):
            target, leader = draw.sample(ROLES[:2], 2)
            found[kind] = [{"target": draw.choice([target, "Outputs"]), "condition_on": [leader]}]
    return found


def drawn(seed, constant):
    """A machine, a layer and some mappings."""
    draw = random.Random(seed)
    names = ["DRAM", "Buffer", "Reg"][: draw.randint(2, 3)]
    levels = [level(draw, name, constant) for name in names]
    alone = draw.random() < 0.2
    if alone:  # one tensor decides about the instances of all others
        levels = [
            {k: v for k, v in one.items() if k not in ("gating", "skipping", "spatial_skipping")} for one in levels
        ]
        leader, place = draw.choice(ROLES[:2]), draw.randrange(len(levels))
        others = [{"target": role, "condition_on": [leader]} for role in ROLES if role != leader]
        levels[place] |= {"fanout": {"x": 4}, "spatial_skipping": others, "keep": list(ROLES)}
        levels[place] |= {"formats": {leader: ["CP"]}, "metadata": {"width": "8 bit", "word": "2 bit"}}
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "gated_compute": "0.1 pJ"}}
    compute |= (
        {}
        if alone and draw.random() < 0.7
        else draw.choice([{}, {"gating": True}, {"skipping": True}, {"skipping": True, "intersection": 1}])
    )
    levels[-1] |= {"imbalance": True} if draw.random() < 0.2 else {}
    architecture = load_architecture({"architecture": {"name": "drawn", "levels": levels, "compute": compute}})
    bounds = {"M": draw.choice([2, 4, 6]), "N": draw.choice([2, 4]), "K": draw.choice([4, 6, 8])}
    along = zip(ROLES, ("MK", "KN", "MN"), strict=True)
    densities = {role: density(draw, list(dims), constant) for role, dims in along if draw.random() < 0.8}
    body = {"name": "layer", "gemm": bounds, "densities": densities}
    einsum = load_workload({"workload": body}).layers[0]
    space = MapSpace(encode(architecture, einsum))
    return architecture, einsum, [space.mapping_at(draw.randrange(space.size)) for _ in range(4)]


@pytest.mark.parametrize("seed", range(80))
def test_counts__are_parts_of_the_dense_ones(seed):
    architecture, einsum, mappings = drawn(seed, constant=False)
    for mapping in mappings:
        dense = evaluate(architecture, einsum, mapping)
        found = evaluate_sparse(architecture, einsum, dense)
        compute = found.compute
        assert min(compute.actual, compute.gated, compute.skipped) >= -1e-9
        assert compute.actual + compute.gated + compute.skipped <= dense.padded_macs * (1 + 1e-9)
        used = {each.level: each.used_instances for each in dense.levels}
        for one in found.tensors:
            assert all(min(unit.metadata, unit.payload) >= -1e-9 for units in one.metadata.values() for unit in units)
            for action, words in one.dense.items():
                parts = [one.words.get((kind, action), 0.0) for kind in ("actual", "gated", "skipped")]
                assert min(parts) >= -1e-9
                assert one.instances * sum(parts) <= words * used[one.level] * (1 + 1e-9)
        assert sum(found.components.values()) == pytest.approx(found.energy_pj)


def test_relaxed_machines__take_no_more():
    """Neither energy nor, but for one that rounding may take, cycles; both are equal where all shares are constant."""
    equal = 0
    for seed in range(120):
        for constant in (True, False):
            architecture, einsum, mappings = drawn(seed, constant=constant)
            machines = relax(architecture, einsum)
            for mapping in mappings:
                found = evaluate_sparse(architecture, einsum, evaluate(architecture, einsum, mapping))
                for relaxed in machines:
                    other = evaluate(relaxed.machine, einsum, mapping)
                    leak_pj = sum(each.leak_pj for each in other.levels) / other.cycles
                    assert other.energy_pj - leak_pj <= found.energy_pj * (1 + 1e-9)
                    assert relaxed.cycle * (other.cycles - 1) < found.cycles
                    equal += math.isclose(other.energy_pj, found.energy_pj, rel_tol=1e-9)
    assert equal >= 240, equal
