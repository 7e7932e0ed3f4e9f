"""Machines whose zeros save constant shares: each mapping takes the energy that it takes on the folded machine."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from accelsim.cli.main import main
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.density import Banded
from accelsim.inputs.workload_reader import load_workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.model.sparsity.evaluate import evaluate_sparse
from accelsim.model.sparsity.fold import NotConstantError, fold_zeros
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from accelsim.search.zeros import best_with_zeros

ENERGY = {"read": "1 pJ", "write": "2 pJ", "metadata_read": "0.5 pJ", "metadata_write": "0.25 pJ"}
ENERGY |= {"gated_read": "0.1 pJ", "gated_write": "0.2 pJ", "skipped_read": "0.05 pJ", "decompression": "0.3 pJ"}
SKIP = {"skipping": [{"target": "Weights", "condition_on": ["Inputs"]}]}
GATE = {"gating": [{"target": "Outputs", "condition_on": ["Inputs", "Weights"]}]}
COORDINATES = {"metadata": {"width": "8 bit", "word": "4 bit"}, "formats": {"Weights": ["CP"], "Inputs": ["B"]}}
RUNS = {"metadata": {"width": "8 bit", "word": "4 bit"}, "formats": {"Weights": ["RLE"]}}
NEAR = {"energy": {**ENERGY, "metadata_read": "0 pJ", "metadata_write": "0 pJ", "decompression": "0 pJ"}}
FILES = (
    """architecture:
  name: pe
  levels:
    - name: DRAM
      class: DRAM
      word: 16 bit
      formats: {Weights: [B]}
      metadata: {width: 16 bit}
      energy: {read: 100 pJ, write: 100 pJ, metadata_read: 6 pJ, metadata_write: 6 pJ}
    - {name: SPAD, class: SRAM, size: 64 B, word: 16 bit, energy: {read: 1 pJ, write: 1 pJ}}
  compute: {name: MAC, class: intmac, energy: {compute: 1 pJ}}
""",
    "workload: {name: layer, gemm: {M: 8, N: 8, K: 8}, densities: {Weights: 0.1}}",
)
KEPT = {"keep": ["Inputs", "Weights", "Outputs"]}


def machine(dram=None, buffer=None, register=None, compute=None, energies=None):
    levels = [
        {"name": "DRAM", "class": "DRAM", "word": "16 bit", "energy": {**ENERGY, "read": "20 pJ"}, **(dram or {})},
        {"name": "Buffer", "class": "SRAM", "size": "64 B", "word": "16 bit", "energy": ENERGY, **(buffer or {})},
        {"name": "Reg", "class": "reg", "size": "16 B", "word": "16 bit", "energy": ENERGY, **(register or {})},
    ]
    energy = {"compute": "1 pJ", "gated_compute": "0.1 pJ", "skipped_compute": "0.02 pJ", **(energies or {})}
    mac = {"name": "MAC", "class": "intmac", "energy": energy, **(compute or {})}
    return load_architecture({"architecture": {"name": "small", "levels": levels, "compute": mac}})


def gemm(inputs=0.25, weights=0.5):
    weights = {"distribution": "n_of_m", "n": 2, "m": 4, "along": "K"} if weights == "2:4" else weights
    densities = {"Inputs": inputs, "Weights": weights}
    body = {"name": "gemm", "gemm": {"M": 4, "N": 2, "K": 4}, "bits": {"psums": 32}, "densities": densities}
    return load_workload({"workload": body}).layers[0]


MACHINES = [
    machine(register={**SKIP, **KEPT}),
    machine(register={**SKIP, **GATE, **KEPT}),
    machine(register={**GATE, **KEPT}, compute={"gating": True}),
    machine(dram=RUNS, buffer=KEPT),
    machine(dram=COORDINATES, compute={"gating": True}, buffer={"keep": ["Inputs", "Weights"]}),
    machine(dram=RUNS, buffer={**RUNS, "bypass": ["Outputs"]}, register={**RUNS, "keep": ["Weights"]}),
    machine(dram=RUNS, buffer=RUNS, register={**RUNS, **KEPT, **SKIP}, compute={"skipping": True}),
    machine(compute={"gating": True}),
]


@pytest.mark.parametrize("architecture", MACHINES)
@pytest.mark.parametrize("weights", [0.5, "2:4"])
def test_each_mapping__has_the_energy_of_the_folded_machine(architecture, weights):
    """Brute force: the energies of all mappings, and so the least of them."""
    einsum = gemm(weights=weights)
    folded = fold_zeros(architecture, einsum)
    space = MapSpace(encode(architecture, einsum))
    least = float("inf")
    for index in range(0, space.size, max(1, space.size // 400)):
        mapping = space.mapping_at(index)
        dense = evaluate(architecture, einsum, mapping)
        found = evaluate_sparse(architecture, einsum, dense)
        assert evaluate(folded, einsum, mapping).energy_pj == pytest.approx(found.energy_pj, rel=1e-9)
        least = min(least, found.energy_pj) if dense.valid else least
    best = map_einsum(folded, einsum, method="exact")
    assert best.certificate.proved
    assert best.best.energy_pj <= least * (1 + 1e-12)
    dense = evaluate(architecture, einsum, best.best.mapping)
    assert evaluate_sparse(architecture, einsum, dense).energy_pj == pytest.approx(best.best.energy_pj)


@pytest.mark.parametrize(
    ("architecture", "why"),
    [
        (machine(dram={**RUNS, "formats": {"Weights": ["UOP", "CP"]}}), "DRAM: Weights has several ranks"),
        (machine(buffer={**RUNS, "formats": {"Weights": ["B"]}}), "Buffer: Weights has a bitmask, whose tiles may"),
        (machine(buffer=SKIP), "Buffer: Weights may be kept elsewhere"),
        (machine(register=SKIP), "Reg: Weights may be kept elsewhere"),
        (machine(register={**SKIP, **KEPT, "fanout": {"x": 2}}), "Reg: Weights is read for several instances"),
        (machine(dram={**RUNS, "block_size": 4}, buffer=KEPT), "DRAM moves 4 words at a time"),
        (machine(register={**KEPT, "energy": {**ENERGY, "leak": "1 pJ"}}), "Reg leaks"),
        (machine(register=RUNS, compute={"skipping": True}), "Weights may come from levels with and without metadata"),
        (machine(buffer={"position_skipping": ["Weights"]}), "Buffer skips instances"),
    ],
)
def test_shares_that_depend_on_tiles__are_told(architecture, why):
    with pytest.raises(NotConstantError, match=why):
        fold_zeros(architecture, gemm())


def test_densities_that_depend_on_tiles__are_told():
    einsum = gemm()
    tensors = tuple(replace(one, density=Banded(1)) if one.name == "Inputs" else one for one in einsum.tensors)
    with pytest.raises(NotConstantError, match="the density of Inputs depends on the tile"):
        fold_zeros(MACHINES[0], replace(einsum, tensors=tensors))


def test_best_with_zeros__is_another_mapping_than_the_dense_one():
    """Weights are cheap to fetch again where one in ten is not zero."""
    architecture = machine(dram=RUNS, buffer={**NEAR, "size": "24 B"}, register={**NEAR, "size": "2 B"})
    body = {"name": "gemm", "gemm": {"M": 4, "N": 8, "K": 8}, "densities": {"Weights": 0.1}}
    einsum = load_workload({"workload": body}).layers[0]
    search = map_einsum(architecture, einsum)
    best = best_with_zeros(architecture, einsum, search)
    assert best.proved
    assert evaluate_sparse(architecture, einsum, search.best).energy_pj == 4653.75
    assert best.found.energy_pj == 2583.0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"objective": "edp"}, "cycles depend on zeros, and the objective is edp"),
        ({"method": "random", "budget": Budget(mappings=50)}, "the search proves nothing"),
        ({"imperfect": ["M"]}, "mappings that are uneven, imperfect or padded are searched"),
        ({"constraints": Constraints(limits=("cycles <= 1000",))}, "limits on costs count dense"),
    ],
)
def test_best_with_zeros__tells_what_is_not_proved(options, why):
    einsum = gemm()
    search = map_einsum(MACHINES[-1], einsum, **options)
    best = best_with_zeros(MACHINES[-1], einsum, search, options.get("constraints"))
    assert (best.proved, best.why) == (False, why)


def test_best_with_zeros__tells_metadata_that_does_not_fit():
    metadata = {"width": "8 bit", "word": "4 bit", "depth": 1}
    architecture = machine(dram={**RUNS, "metadata": metadata}, buffer=NEAR, register=NEAR)
    best = best_with_zeros(architecture, gemm(), map_einsum(architecture, gemm()))
    assert (best.proved, best.why) == (
        False,
        "that of least energy is not valid: DRAM needs 16 bit for metadata, has 8",
    )


def test_map_and_verify__know_the_best_mapping_with_zeros(tmp_path):
    files = {"arch.yaml": FILES[0], "layer.yaml": FILES[1]}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    path = tmp_path / "out" / "result.json"
    inputs = [str(tmp_path / name) for name in files]
    assert main(["map", *inputs, "-o", str(path.parent)]) == 0
    document = json.loads(path.read_text())
    assert document["sparse_best"]["proved"]
    assert document["sparse_best"]["energy_pj"] <= document["sparse"]["energy_pj"]
    assert main(["verify", str(path)]) == 0
    document["sparse_best"]["energy_pj"] *= 1.01
    path.write_text(json.dumps(document))
    assert main(["verify", str(path)]) == 1
    del document["sparse_best"]
    path.write_text(json.dumps(document))
    assert main(["verify", str(path)]) == 1


def test_networks__say_that_zeros_are_counted(tmp_path, capsys):
    (tmp_path / "arch.yaml").write_text(FILES[0])
    (tmp_path / "net.yaml").write_text("workload: {name: net, layers: [{name: one, gemm: {M: 2, N: 2, K: 2}}]}")
    assert main(["map", str(tmp_path / "arch.yaml"), str(tmp_path / "net.yaml"), "--pareto", "energy,cycles"]) == 0
    assert "here all words are counted" in capsys.readouterr().err
