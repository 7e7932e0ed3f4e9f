"""Systems of cores: which core runs each layer, beside all assignments and schedules; files; the command."""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_architecture, load_constraints, load_workload
from accelsim.designs.assign import CoreCosts, least_energy, least_latency, most_throughput
from accelsim.designs.soc import Core, System, _costs, load_system, map_on_system
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.gemms import Gemms
from accelsim.gpu.kernel import best_kernels
from accelsim.inputs.errors import AccelsimError, InputError, NoValidMappingError
from accelsim.results.cache import MapOptions
from accelsim.search.mapper import map_einsum

EVEN = MapOptions(uneven=False, imperfect=())
EVEN_ONLY = "--mapspace", "even", "--factors", "perfect"
TWO = """
system:
  name: two
  cores:
    - {name: array, arch: two_level, operations: {multiply_add: 1}}
    - {name: lanes, arch: two_level, operations: {multiply_add: 3, max: 2}}
"""
NETWORK = """
workload:
  name: net
  layers:
    - {name: first, gemm: {M: 4, N: 4, K: 4}}
    - name: pool
      from: first
      operation: max
      einsum: {dims: {M: 16, K: 1}, tensors: {Inputs: [M, K], Outputs: [M]}, output: Outputs}
    - {name: last, from: pool, repeat: 2, gemm: {M: 4, N: 4, K: 4}}
"""


@st.composite
def costs(draw, layers: int, cores: int, repeats: int = 1) -> CoreCosts:
    shape = (layers, cores)
    number = st.integers(1, 20)
    energy, seconds, memory = (
        np.array(draw(st.lists(number, min_size=layers * cores, max_size=layers * cores)), float).reshape(shape)
        for _ in range(3)
    )
    for layer in range(layers):
        for core in draw(st.sets(st.integers(0, cores - 1), max_size=cores - 1)):
            energy[layer, core] = seconds[layer, core] = memory[layer, core] = math.inf
    runs = np.array(draw(st.lists(st.integers(1, repeats), min_size=layers, max_size=layers)))
    pairs = [(a, b) for b in range(layers) for a in range(b)]
    edges = tuple((a, b, float(draw(st.integers(1, 9)))) for a, b in pairs if draw(st.booleans()))
    return CoreCosts(
        energy * runs[:, None],
        seconds * runs[:, None],
        memory * runs[:, None] / 4,
        runs,
        edges,
        draw(st.integers(0, 4)),
        draw(st.integers(0, 2)) / 2,
    )


def choices(each: CoreCosts):
    layers, cores = each.energy.shape
    for chosen in itertools.product(range(cores), repeat=layers):
        if all(math.isfinite(each.energy[layer, core]) for layer, core in enumerate(chosen)):
            yield chosen


@settings(max_examples=150, deadline=None)
@given(costs(layers=5, cores=3))
def test_least_energy__is_that_of_all_assignments(each):
    best = min(
        sum(each.energy[layer, core] for layer, core in enumerate(chosen))
        + each.transfer_bits(chosen) * each.transfer_pj
        for chosen in choices(each)
    )
    found = least_energy(each)
    cores = [int(row.argmax()) for row in found.runs]
    assert found.value == best == found.bound
    assert sum(each.energy[range(5), cores]) + each.transfer_bits(cores) * each.transfer_pj == best


def end_of(each: CoreCosts, order, chosen) -> float:
    """When a run ends in which layers take their cores in an order, each as soon as its inputs are there."""
    free, ends = [0.0] * each.energy.shape[1], {}
    for layer in order:
        ready = [0.0]
        for a, b, bits in each.edges:
            if b == layer:
                if a not in ends:
                    return math.inf
                ready.append(ends[a] + (bits * each.transfer_s if chosen[a] != chosen[layer] else 0.0))
        free[chosen[layer]] = ends[layer] = max(*ready, free[chosen[layer]]) + each.seconds[layer, chosen[layer]]
    return max(ends.values())


@settings(max_examples=60, deadline=None)
@given(costs(layers=4, cores=2))
def test_least_latency__is_that_of_all_schedules(each):
    best = min(end_of(each, order, chosen) for order in itertools.permutations(range(4)) for chosen in choices(each))
    found = least_latency(each)
    assert found.value == pytest.approx(best)
    assert found.bound == pytest.approx(best)
    cores = [int(row.argmax()) for row in found.runs]
    order = sorted(range(4), key=lambda layer: (found.starts[layer], layer))
    assert end_of(each, order, cores) <= best * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(costs(layers=3, cores=3, repeats=2))
def test_most_throughput__is_that_of_all_splits_of_runs(each):
    options = []
    for layer, runs in enumerate(each.runs):
        can = [core for core in range(3) if math.isfinite(each.seconds[layer, core])]
        options.append(list(itertools.combinations_with_replacement(can, runs)))
    best = math.inf
    for chosen in itertools.product(*options):
        busy = [0.0] * 4
        for layer, cores in enumerate(chosen):
            for core in cores:
                busy[core] += each.seconds[layer, core] / each.runs[layer]
                busy[3] += each.memory[layer, core] / each.runs[layer]
        best = min(best, max(busy))
    found = most_throughput(each)
    assert found.value == pytest.approx(best)
    assert found.bound == pytest.approx(best, rel=1e-5)
    assert found.runs.sum(axis=1).tolist() == each.runs.tolist()


def test_a_search_that_is_stopped__knows_what_nothing_falls_below():
    many = 8
    seconds = np.array([[float(3 + (5 * layer) % 7), float(4 + (3 * layer) % 5)] for layer in range(many)])
    each = CoreCosts(seconds, seconds, seconds * 0, np.ones(many, np.int64), ())
    stopped, whole = least_latency(each, nodes=many), least_latency(each)
    assert stopped.bound <= whole.bound == whole.value <= stopped.value
    assert stopped.value > stopped.bound


@pytest.fixture
def files(tmp_path):
    (tmp_path / "two.yaml").write_text(TWO)
    (tmp_path / "net.yaml").write_text(NETWORK)
    return tmp_path / "two.yaml", tmp_path / "net.yaml"


def test_layers__cost_what_mapping_them_costs(files):
    system, network = load_system(files[0]), load_workload(files[1])
    found = map_on_system(system, network)
    machine = load_architecture("two_level")
    first = map_einsum(machine, network.layers[0], imperfect="auto").best
    assert found.costs[0][0].energy_pj == first.energy_pj
    assert found.costs[0][0].seconds == first.cycles / machine.clock_hz
    mac = machine.energy.energy_pj("MAC", "*", "compute") * network.layers[0].macs
    assert found.costs[0][1].energy_pj == pytest.approx(first.energy_pj + 2 * mac)
    assert found.costs[1][0] is None
    assert found.why_not["pool", "array"] == "it does multiply_add"
    assert found.assignment.runs.tolist() == [[1, 0], [0, 1], [2, 0]]
    assert found.energy_pj == pytest.approx(3 * first.energy_pj + found.costs[1][1].energy_pj)
    assert found.proved
    assert found.transfer_bits == 16 * 16 + 2 * 16 * 16


@pytest.mark.parametrize("objective", ["energy", "latency", "throughput"])
def test_layers__of_prime_bounds_have_remainders_and_the_verdict_names_them(tmp_path, run, objective):
    """13 and 7 fill 16 columns badly: the default finds a better mapping, and says what is proved of it."""
    (tmp_path / "one.yaml").write_text("system: {name: one, cores: [{name: a, arch: eyeriss}]}")
    (tmp_path / "net.yaml").write_text("workload: {name: w, gemm: {M: 113, N: 31, K: 37}}")
    network, system = load_workload(tmp_path / "net.yaml"), load_system(tmp_path / "one.yaml")
    wide, even = (map_on_system(system, network, objective, options=each) for each in (None, EVEN))
    assert wide.assignment.value < 0.9 * even.assignment.value
    assert (even.even_gap, even.gap) == (0.0, 0.0)
    assert wide.even_gap == 0.0
    files = tmp_path / "one.yaml", tmp_path / "net.yaml"
    said = "optimal (proved) among even mappings with perfect factors"
    _, out, _ = run("map", *files, "--objective", objective)
    above = f"{said}; at most {100 * wide.gap:.3g} % above the optimum with remainders"
    proved = "optimal (proved) among mappings with remainders, even and uneven"
    assert (above if wide.gap else proved) in " ".join(out.split())
    _, out, _ = run("map", *files, "--objective", objective, *EVEN_ONLY)
    assert f"{said} " in " ".join(out.split())


def test_layers__take_each_operation_of_a_unit_that_takes_cycles_itself():
    """Two cycles for each of three operations of a point; words of 16 bit leave and enter the shared memory."""
    machine = load_architecture("two_level")
    slow, slower = (replace(machine, compute=replace(machine.compute, cycles_per_mac=cycles)) for cycles in (2, 6))
    network = load_workload({"workload": {"name": "w", "gemm": {"M": 16, "N": 16, "K": 16}}})
    core = Core("slow", slow, "", {"multiply_add": 3})
    ((cost,),) = map_on_system(System("one", (core,)), network, "latency", options=EVEN).costs
    best = map_einsum(slower, network.layers[0], objective="cycles", uneven=False).best
    assert cost.seconds * machine.clock_hz == best.cycles >= 6 * 16**3 / machine.macs
    assert cost.memory_bytes == best.offchip_words * 2


def test_gpu__takes_its_power_for_the_time_of_its_kernel():
    gpu = load_gpu("a100")
    network = load_workload({"workload": {"name": "w", "gemm": {"M": 512, "N": 512, "K": 512}}})
    ((cost,),) = map_on_system(System("one", (Core("GPU", gpu, "fp16"),)), network).costs
    (kernel,) = best_kernels(gpu, ["w"], Gemms.of(512, 512, 512), "fp16", mode_of(gpu, "fp16"))
    assert cost.seconds == pytest.approx(kernel.time_us * 1e-6)
    assert cost.energy_pj * 1e-12 / cost.seconds == pytest.approx(kernel.power_w)


JOINED = """
workload:
  name: joined
  layers:
    - {name: left, gemm: {M: 4, N: 4, K: 4}}
    - {name: right, from: left, repeat: 3, gemm: {M: 4, N: 8, K: 4}}
    - name: join
      from: [left, right]
      operation: max
      einsum: {dims: {M: 48, K: 1}, tensors: {Inputs: [M, K], Outputs: [M]}, output: Outputs}
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", 16 + 32),  # of each what it makes
        ("      from: [left, right]\n", "", 3 * 32),  # a layer follows the one before, each run of which hands on
    ],
)
def test_what_crosses__is_what_each_producer_makes(files, old, new, words):
    files[1].write_text(JOINED.replace(old, new))
    text = TWO.replace("multiply_add: 3, max: 2", "max: 2")
    files[0].write_text(text)
    assert map_on_system(load_system(files[0]), load_workload(files[1])).transfer_bits == 16 * words


@pytest.mark.parametrize("key", ["", "accelsim.designs.soc.content_key"], ids=["key", "one_key"])
def test_layers__of_other_names_cost_what_they_cost_alone(key, monkeypatch):
    """Data of `gemmini` is adjacent along C and K. The second core runs at half the clock."""
    if key:
        monkeypatch.setattr(key, lambda *_: "the same")
    machine, other = load_architecture("gemmini"), {"M": "P", "N": "K", "K": "C"}
    ranks = {"Inputs": "MK", "Weights": "KN", "Outputs": "MN"}
    layers = [
        {
            "name": name,
            "einsum": {
                "dims": {names[dim]: bound for dim, bound in (("M", 24), ("N", 64), ("K", 40))},
                "tensors": {tensor: [names[dim] for dim in dims] for tensor, dims in ranks.items()},
                "output": "Outputs",
            },
        }
        for name, names in (("one", dict(zip("MNK", "MNK", strict=True))), ("other", other))
    ]
    network = load_workload({"workload": {"name": "twice", "bits": 8, "layers": layers}})
    cores = Core("fast", machine), Core("slow", replace(machine, clock_hz=machine.clock_hz / 2))
    found = map_on_system(System("two", cores), network, "latency", options=EVEN)
    cycles = [map_einsum(machine, layer, objective="cycles", uneven=False).best.cycles for layer in network.layers]
    assert cycles[0] != cycles[1]
    for row, alone in zip(found.costs, cycles, strict=True):
        assert [cost.seconds * machine.clock_hz for cost in row] == pytest.approx([alone, 2 * alone])


def test_what_crosses__can_keep_layers_together(files):
    text = TWO.replace("name: two\n", "name: two\n  transfer: {energy: 1 nJ/bit}\n")
    files[0].write_text(text)
    found = map_on_system(load_system(files[0]), load_workload(files[1]))
    assert found.assignment.runs.tolist() == [[0, 1], [0, 1], [0, 2]]
    assert found.transfer_bits == 0


def test_constraints_of_an_engine__hold_for_its_layers_alone(files):
    asked = files[0].parent / "asked.yaml"
    asked.write_text("constraints: {levels: [{level: DRAM, temporal: {factors: [N=1]}}]}")
    text = TWO.replace(
        "operations: {multiply_add: 1}}", "operations: {multiply_add: 1, max: 1}, constraints: asked.yaml}"
    )
    files[0].write_text(text)
    found = map_on_system(load_system(files[0]), load_workload(files[1]), options=EVEN)
    assert found.why_not["pool", "array"].startswith(
        "its constraints do not suit the layer: levels[0].temporal: 'N' is no dimension of pool"
    )
    machine, layer = load_architecture("two_level"), load_workload(files[1]).layers[0]
    best = map_einsum(machine, layer, constraints=load_constraints(asked, machine, layer), uneven=False).best
    assert found.costs[0][0].energy_pj == best.energy_pj > map_einsum(machine, layer, uneven=False).best.energy_pj


@pytest.mark.parametrize("objective", ["energy", "latency", "throughput"])
def test_command__reports_who_runs_what(files, run, objective, tmp_path):
    given_files = (*files, "--objective", objective, "--no-cache")
    code, out, _ = run("map", *given_files, "-o", tmp_path / "out")
    assert code == 0
    assert "optimal (proved)" in out
    code, text, _ = run("map", *given_files, "--json")
    document = json.loads(text)
    assert document == json.loads((tmp_path / "out" / "system.json").read_text())
    assert [row["operation"] for row in document["layers"]] == ["multiply_add", "max", "multiply_add"]
    assert sum(document["layers"][2]["runs"].values()) == 2
    if objective == "latency":
        assert document["seconds"] == pytest.approx(sum(document["busy_s"].values()))
    if objective == "throughput":
        assert document["seconds"] == pytest.approx(max(document["busy_s"].values()))
    code, brief, _ = run("map", *given_files, "--quiet")
    assert brief == out.partition("\n\n")[0] + "\n"


def test_orin__runs_all_of_a_network(run):
    code, out, _ = run(
        "map", "orin_soc", "vgg_conv3_2", "--set", "bits=8", "--objective", "latency", "--json", *EVEN_ONLY
    )
    document = json.loads(out)
    (layer,) = document["layers"]
    each = {name: cost["seconds"] for name, cost in layer["of_one_run"].items()}
    assert (code, list(each)) == (0, ["GPU", "DLA0", "DLA1"])
    assert document["seconds"] == min(each.values())


def test_throughput__is_not_proved_where_slower_mappings_move_less(tmp_path):
    """The fastest mapping of each layer need not move the fewest words; the bound counts each word once."""
    (tmp_path / "one.yaml").write_text("""
system:
  name: one
  bandwidth: 1 GB/s
  cores: [{name: array, arch: two_level}]
""")
    network = load_workload({"workload": {"name": "w", "gemm": {"M": 64, "N": 64, "K": 64}}})
    found = map_on_system(load_system(tmp_path / "one.yaml"), network, "throughput", options=EVEN)
    (cost,) = found.costs[0]
    assert cost.memory_bytes > cost.least_bytes == 3 * 64 * 64 * 2
    assert found.assignment.value == pytest.approx(cost.memory_bytes / 1e9)
    bound = max(cost.seconds, cost.least_bytes / 1e9)
    assert found.gap == pytest.approx(cost.memory_bytes / 1e9 / bound - 1, rel=1e-5)
    assert not found.proved


def test_without_an_engine_for_a_layer__all_reasons_are_said(files):
    files[1].write_text(NETWORK.replace("operation: max", "operation: softmax"))
    with pytest.raises(NoValidMappingError, match=r"no core of two runs pool \(softmax\). array: it does multiply_add"):
        map_on_system(load_system(files[0]), load_workload(files[1]))


def test_throughput_without_scipy__says_how_to_install_it(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(AccelsimError, match=r"pip install 'accelsim\[systems\]'"):
        map_on_system(load_system(files[0]), load_workload(files[1]), "throughput")


def test_mistakes__are_all_reported_with_their_place(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("""
system:
  name: bad
  bandwidth: 3 words/cycle
  transfer: {energy: 3 pJ}
  cores:
    - {name: a, arch: nowhere}
    - {name: b, gpu: a100, set: {x: 1}}
    - {name: c, arch: two_level, dtype: int8}
    - {name: d, arch: two_level, operations: {add: 1, maxx: 2}}
    - {name: e}
    - {name: f, gpu: a1000}
    - {name: g, arch: {name: inline, clock: 1 GHz, levels: [], compute: {name: MAC}}, set: {x: 1}}
""")
    with pytest.raises(InputError) as error:
        load_system(path)
    said = str(error.value).replace(f"{path}:", "").splitlines()
    assert [line.split(": ", 1)[0].split(":")[0] for line in said] == [
        "4",
        "5",
        "7",
        "8",
        "9",
        "10",
        "11",
        "12",
        "13",
        "13",
        "13",
    ]
    assert "must be in bytes or bits a second; write it like '204.8 GB/s'" in said[0]
    assert "expected an energy of a bit, got '3 pJ'; such as '0.5 pJ/bit'" in said[1]
    assert "'maxx' is no operation; operations: multiply_add" in said[5]
    assert "a core is one of a machine and a GPU; write `arch: FILE` or `gpu: NAME`" in said[6]
    assert "is for a machine of a file; write the values where they stand" in said[10]


@pytest.mark.parametrize(
    "option",
    [
        ("--constraints", "x.yaml"),
        ("--top", "3"),
        ("--pareto", "energy,cycles"),
    ],
)
def test_options__that_mean_nothing_here_are_refused(files, run, option):
    code, _, err = run("map", *files, *option)
    assert (code, "not for a system of cores" in err) == (2, True), err


def test_operation__is_one_of_a_few(tmp_path):
    (tmp_path / "net.yaml").write_text(NETWORK.replace("max", "maximum"))
    with pytest.raises(InputError, match="expected an operation"):
        load_workload(tmp_path / "net.yaml")


def test_edges__of_steps_move_the_words_of_all_their_runs():
    """Two layers of 4 steps give 2 x 3 words each; a product reads the 48 words of all eight runs once."""
    step = "einsum: {dims: {M: 2, N: 3}, tensors: {Inputs: [M, N], Outputs: [M, N]}, output: Outputs}"
    layers = [f"{{name: {name}, repeat: 4, {step}}}" for name in ("a", "b")]
    layers.append("{name: c, from: [a, b], gemm: {M: 8, N: 1, K: 6}}")
    network = load_workload("workload:\n  name: w\n  layers:\n" + "".join(f"  - {layer}\n" for layer in layers))
    links = SimpleNamespace(bytes_per_s=0, transfer_pj_per_bit=0, transfer_bits_per_s=0)
    edges = _costs(links, network, [[None]] * 3).edges
    assert [bits for _, reader, bits in edges if reader == 2] == [4 * 6 * 16] * 2
