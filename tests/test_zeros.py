"""The best mapping with zeros left out, and the relaxed machines that it is proved with."""

from __future__ import annotations

import json

import numpy as np
import pytest

from accelsim.cli.main import main
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload_reader import load_workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.model.sparsity.evaluate import evaluate_sparse
from accelsim.model.sparsity.relax import relax
from accelsim.population.result import zeros_rows
from accelsim.population.spread import spread
from accelsim.search import zeros
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
def test_each_mapping__has_the_energy_of_the_relaxed_machine(architecture, weights):
    """Shares are constant here."""
    einsum = gemm(weights=weights)
    (relaxed,) = relax(architecture, einsum)
    space = MapSpace(encode(architecture, einsum))
    for index in range(0, space.size, max(1, space.size // 200)):
        mapping = space.mapping_at(index)
        found = evaluate_sparse(architecture, einsum, evaluate(architecture, einsum, mapping))
        assert evaluate(relaxed.machine, einsum, mapping).energy_pj == pytest.approx(found.energy_pj, rel=1e-9)


SLOW = {"bandwidth": "1 B/cycle"}
TILED = [
    MACHINES[2],
    MACHINES[6],
    machine(dram={**RUNS, **SLOW}, register={**SKIP, **KEPT}, compute={"skipping": True}),
    machine(buffer={**RUNS, "formats": {"Weights": ["UOP", "CP"]}}, register={**SKIP, "fanout": {"x": 2}}),
    machine(dram=RUNS, buffer={**RUNS, **SKIP, **SLOW}, register={"energy": {**ENERGY, "leak": "1 pJ"}}),
    machine(buffer=GATE, register={**KEPT, "fanout": {"x": 2}}, compute={"gating": True}),
    machine(buffer={**RUNS, "position_skipping": ["Weights"], "fanout": {"x": 2}}),
]


@pytest.mark.parametrize("architecture", TILED)
def test_best_with_zeros__is_that_of_brute_force(architecture):
    """Proved ones are the least of all mappings that are valid dense and with zeros; else the bound is below it."""
    body = {"name": "gemm", "gemm": {"M": 2, "N": 1, "K": 2}, "densities": {"Inputs": 0.25, "Weights": 0.5}}
    einsum = load_workload({"workload": body}).layers[0]
    space, costs = MapSpace(encode(architecture, einsum)), []
    for index in range(space.size):
        dense = evaluate(architecture, einsum, space.mapping_at(index))
        found = evaluate_sparse(architecture, einsum, dense)
        costs += [(found.energy_pj, found.cycles)] if dense.valid and found.valid else []
    for objective in ("energy", "cycles", "edp"):
        best = best_with_zeros(
            architecture, einsum, map_einsum(architecture, einsum, objective=objective, uneven=False)
        )
        least = min(Objective.parse(objective).value(*each) for each in costs)
        leak_pj = sum(level.leak_pj for level in best.found.dense.levels) / best.found.dense.cycles
        one_cycle = {"energy": leak_pj, "cycles": 1.0, "edp": best.found.energy_pj}[objective]
        assert best.bound - one_cycle <= least * (1 + 1e-9) <= best.value * (1 + 2e-9)
        assert best.found.valid
        if best.proved:
            assert best.value <= least * (1 + 1e-9) + one_cycle


@pytest.mark.parametrize(("density", "pj"), [(0.24, (175_456, 175_444)), (0.26, (177_456, 177_474))])
def test_bitmasks__need_less_energy_than_coordinates_of_four_bits_above_a_quarter(density, pj):
    """docs/cost-model.md, Sparsity: weights in DRAM, whose reads from the scratchpad are skipped for zero inputs."""
    body = {"name": "gemm", "gemm": dict.fromkeys("MNK", 16)}
    layer = load_workload({"workload": {**body, "densities": {"Weights": density}}}).layers[0]
    energy = {"read": "100 pJ", "write": "100 pJ", "metadata_read": "6 pJ", "metadata_write": "6 pJ"}
    spad = {"name": "SPAD", "size": "64 B", "word": "16 bit", "energy": {"read": "1 pJ", "write": "1 pJ"}}
    search, found = None, []
    for rank in ("B", "CP"):
        packed = {"formats": {"Weights": [rank]}, "metadata": {"width": "16 bit", "word": "4 bit"}, "energy": energy}
        levels = [{"name": "DRAM", "word": "16 bit", **packed}, {**spad, "keep": ["Weights"], **SKIP}]
        compute = {"name": "MAC", "energy": {"compute": "1 pJ"}}
        pe = load_architecture({"architecture": {"name": "pe", "levels": levels, "compute": compute}})
        search = search or map_einsum(pe, layer)
        found.append(evaluate_sparse(pe, layer, evaluate(pe, layer, search.best.mapping)).energy_pj)
    assert found == pytest.approx(pj, abs=0.5)


def test_bitmasks__of_tiles_that_may_be_empty_are_bounded():
    """Where the level outside knows empty tiles, no bits of them are held."""
    masks = {"metadata": {"width": "8 bit"}, "formats": {"Weights": ["B"]}, **KEPT}
    architecture, einsum = machine(dram=RUNS, buffer=masks, register={"bypass": ["Weights"]}), gemm(weights=0.125)
    (relaxed,) = relax(architecture, einsum)
    space = MapSpace(encode(architecture, einsum))
    for index in range(0, space.size, max(1, space.size // 300)):
        mapping = space.mapping_at(index)
        found = evaluate_sparse(architecture, einsum, evaluate(architecture, einsum, mapping))
        assert evaluate(relaxed.machine, einsum, mapping).energy_pj <= found.energy_pj * (1 + 1e-9)


def test_best_with_zeros__has_room_for_its_metadata():
    """The dense best keeps both operands in the register, whose metadata has room for that of one."""
    coded = {"metadata": {"width": "8 bit", "depth": 1}, "formats": {"Weights": ["RLE"], "Inputs": ["RLE"]}}
    architecture = machine(buffer={"bypass": ["Weights", "Inputs", "Outputs"]}, register={**coded, **NEAR})
    search = map_einsum(architecture, gemm(), uneven=False)
    assert not evaluate_sparse(architecture, gemm(), search.best).valid
    best = best_with_zeros(architecture, gemm(), search)
    assert best.found.valid


def test_best_with_zeros__is_proved_where_enough_mappings_are_listed(monkeypatch):
    """Offsets cost nothing on the relaxed machine: two mappings leave a gap, 1,500 find a better one and close it."""
    body = {"name": "gemm", "gemm": {"M": 2, "N": 2, "K": 2}, "densities": {"Inputs": 0.5, "Weights": 0.5}}
    einsum = load_workload({"workload": body}).layers[0]
    search = map_einsum(TILED[3], einsum, uneven=False)
    monkeypatch.setattr(zeros, "LISTED", 2)
    few = best_with_zeros(TILED[3], einsum, search)
    assert (few.value, few.bound, few.why) == (195.975, 152.725, "what zeros save depends on its tiles")
    monkeypatch.setattr(zeros, "LISTED", 1500)
    many = best_with_zeros(TILED[3], einsum, search)
    assert (many.value, many.proved) == (pytest.approx(188.2), True)


def test_best_with_zeros__is_another_mapping_than_the_dense_one():
    """Weights are cheap to fetch again where one in ten is not zero."""
    architecture = machine(dram=RUNS, buffer={**NEAR, "size": "24 B"}, register={**NEAR, "size": "2 B"})
    body = {"name": "gemm", "gemm": {"M": 4, "N": 8, "K": 8}, "densities": {"Weights": 0.1}}
    einsum = load_workload({"workload": body}).layers[0]
    search = map_einsum(architecture, einsum, uneven=False)
    best = best_with_zeros(architecture, einsum, search)
    assert best.proved
    assert evaluate_sparse(architecture, einsum, search.best).energy_pj > best.found.energy_pj == 2583.0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"objective": "energy + cycles"}, "the objective is energy + cycles"),
        ({"method": "random", "budget": Budget(mappings=50)}, "the search proves nothing"),
        ({"imperfect": ["M"]}, "mappings that are uneven, imperfect or padded are searched"),
        ({"constraints": Constraints(limits=("cycles <= 1000",))}, "limits on costs count dense"),
    ],
)
def test_best_with_zeros__tells_what_is_not_proved(options, why):
    einsum = gemm()
    search = map_einsum(MACHINES[-1], einsum, **options, uneven=False)
    best = best_with_zeros(MACHINES[-1], einsum, search, options.get("constraints"))
    assert (best.proved, best.why) == (False, why)


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


def test_networks__count_the_zeros_of_each_layer(tmp_path, capsys):
    """Two layers of one shape and other densities; `verify` compares both and their sum."""
    (tmp_path / "arch.yaml").write_text(FILES[0])
    layers = [
        {"name": f"l{share}", "gemm": {"M": 4, "N": 4, "K": 4}, "densities": {"Weights": share}} for share in (0.1, 0.5)
    ]
    layers[0]["repeat"] = 3
    (tmp_path / "net.yaml").write_text(json.dumps({"workload": {"name": "net", "layers": layers}}))
    inputs = [str(tmp_path / "arch.yaml"), str(tmp_path / "net.yaml")]
    assert main(["map", *inputs, "--no-cache", "-o", str(tmp_path / "out")]) == 0
    assert "2 of 2 layers optimal (proved) among even mappings" in capsys.readouterr().out
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    costs = [layer["sparse_best"]["energy_pj"] for layer in document["layers"]]
    architecture = load_architecture(inputs[0])
    for einsum, cost in zip(load_workload(inputs[1]).layers, costs, strict=True):
        assert best_with_zeros(
            architecture, einsum, map_einsum(architecture, einsum, uneven=False)
        ).value == pytest.approx(cost)
    assert costs[0] < costs[1]
    cycles = [layer["sparse_best"]["cycles"] for layer in document["layers"]]
    assert document["total"]["sparse_energy_pj"] == pytest.approx(3 * costs[0] + costs[1])
    assert document["total"]["sparse_cycles"] == 3 * cycles[0] + cycles[1]
    assert main(["verify", str(tmp_path / "out" / "result.json")]) == 0


def test_networks__say_what_zeros_save_in_the_names_of_each_layer(tmp_path):
    (tmp_path / "arch.yaml").write_text(FILES[0])
    ranks = {"Inputs": "MK", "Weights": "KN", "Outputs": "MN"}
    tensors = {tensor: [dim.lower() for dim in dims] for tensor, dims in ranks.items()}
    einsum = {"dims": {"m": 4, "n": 4, "k": 4}, "tensors": tensors, "output": "Outputs"}
    layers = [{"name": "one", "gemm": {"M": 4, "N": 4, "K": 4}}, {"name": "other", "einsum": einsum}]
    layers = [{**layer, "densities": {"Weights": 0.5}} for layer in layers]
    (tmp_path / "net.yaml").write_text(json.dumps({"workload": {"name": "net", "layers": layers}}))
    inputs = [str(tmp_path / "arch.yaml"), str(tmp_path / "net.yaml")]
    assert main(["map", *inputs, "--no-cache", "-o", str(tmp_path / "out")]) == 0
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    loops = [{dim for level in layer["sparse_best"]["mapping"] for dim, _ in level["temporal"]}
             for layer in document["layers"]]  # fmt: skip
    assert loops[1] == {dim.lower() for dim in loops[0]}
    assert main(["verify", str(tmp_path / "out" / "result.json")]) == 0


def test_fronts__say_that_zeros_are_counted(tmp_path, capsys):
    (tmp_path / "arch.yaml").write_text(FILES[0])
    (tmp_path / "net.yaml").write_text("workload: {name: net, layers: [{name: one, gemm: {M: 2, N: 2, K: 2}}]}")
    assert main(["map", str(tmp_path / "arch.yaml"), str(tmp_path / "net.yaml"), "--pareto", "energy,cycles"]) == 0
    assert "here all words are counted" in capsys.readouterr().err


def test_spread__counts_zeros_of_mappings_drawn():
    """None takes less than the best that is proved, and each is what `evaluate_sparse` says."""
    architecture, einsum = machine(dram=RUNS, buffer=KEPT), gemm()
    rows = {row["column"]: row for row in zeros_rows(spread(architecture, einsum, samples=200))}
    best = best_with_zeros(architecture, einsum, map_einsum(architecture, einsum, uneven=False))
    assert best.value * (1 - 1e-9) <= rows["energy_pj"]["lowest"] <= rows["energy_pj"]["median"]
    sample = spread(architecture, einsum, samples=200).sample
    drawn = [evaluate_sparse(architecture, einsum, sample.result(i)).energy_pj for i in range(len(sample))]
    assert rows["energy_pj"]["mean"] == pytest.approx(sum(drawn) / len(drawn))
    assert zeros_rows(spread(machine(), einsum, samples=20)) == []


def test_runs__have_the_cost_with_sparsity_beside_the_dense_one(tmp_path, capsys):
    text = "params: {dram: 100 pJ}\n" + FILES[0].replace("{read: 100 pJ, write", "{read: $dram, write")
    (tmp_path / "arch.yaml").write_text(text)
    (tmp_path / "layer.yaml").write_text(FILES[1])
    inputs = [str(tmp_path / "arch.yaml"), str(tmp_path / "layer.yaml")]
    assert main(["map", *inputs, "--set", "dram=100pJ,200pJ", "--no-cache"]) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()[1:5]
    assert "sparse" in head
    assert all("nJ" in row and row.endswith("proved") for row in rows)
    assert main(["map", *inputs, "--no-cache", "--html", str(tmp_path / "page.html"), "--quiet"]) == 0
    assert "Best mapping with sparsity" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("machine", ["sparse_tensor_core", "scnn", "eyeriss_v2"])
def test_masks__of_zeros_alone_leave_nothing_to_compute(run, tmp_path, machine):
    np.save(tmp_path / "mask.npy", np.zeros((4, 3)))
    density = "{Weights: {distribution: measured, file: mask.npy}}"
    (tmp_path / "w.yaml").write_text(f"workload: {{name: w, gemm: {{M: 6, N: 3, K: 4}}, densities: {density}}}")
    code, out, _ = run("map", machine, tmp_path / "w.yaml", "--json")
    found = json.loads(out)
    assert (code, found["sparse"]["compute"]["actual_macs"]) == (0, 0)
    assert found["sparse_best"]["why_not"] == "a tensor has no word that is not zero"
