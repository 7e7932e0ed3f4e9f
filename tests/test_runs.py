"""Several runs of `map` at once are rows of one table; two results stand beside each other."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import pytest

from accelsim import load_architecture, load_workload
from accelsim.api.networks import map_network
from accelsim.results.worth import parts_of
from accelsim.search.mapper import map_einsum
from accelsim.show.report import energy, times

EVEN = "--mapspace", "even", "--factors", "perfect"
"""The space of which all optima are proved at once."""


def rows(run, *arguments):
    code, out, _ = run("map", *EVEN, *arguments, "--json", "--quiet")
    assert code == 0
    return json.loads(out)["runs"]


def test_values__are_rows_with_the_optimum_of_each(run):
    found = rows(run, "two_level", "conv1d", "--set", "buffer=14B,24B,64B")
    layer = load_workload("conv1d").layers[0]
    alone = [
        map_einsum(load_architecture("two_level", {"buffer": b}), layer, uneven=False).best
        for b in ("14B", "24B", "64B")
    ]

    assert [row["buffer"] for row in found] == ["14B", "24B", "64B"]
    assert [(row["energy_pj"], row["cycles"]) for row in found] == [(best.energy_pj, best.cycles) for best in alone]
    assert all(row["proved"] for row in found)


def test_machines_and_objectives__are_rows_of_every_combination(run):
    found = rows(run, "two_level,systolic", "gemm", "--objective", "energy,cycles")

    assert [(row["arch"], row["objective"]) for row in found] == [
        (machine, goal) for machine in ("two_level", "systolic") for goal in ("energy", "cycles")
    ]
    assert found[2]["energy_pj"] <= found[3]["energy_pj"]
    assert found[2]["cycles"] >= found[3]["cycles"] == found[3]["value"]


def test_constraints__may_be_none(run):
    found = rows(run, "eyeriss", "conv", "--constraints", "eyeriss_weight_stationary,none", "--time-limit", "60")
    assert found[0]["energy_pj"] > found[1]["energy_pj"]
    code, out, _ = run("map", *EVEN, "eyeriss", "conv", "--constraints", "none", "--json", "--quiet")
    assert (code, json.loads(out)["result"]["energy_pj"]) == (0, found[1]["energy_pj"])


def test_networks__are_rows_with_the_sum_of_their_layers(run, tmp_path):
    path = tmp_path / "two.yaml"
    layers = "[{name: a, gemm: {M: 4, N: 4, K: 4}}, {name: b, gemm: {M: 8, N: 2, K: 4}, repeat: 3}]"
    path.write_text(f"workload: {{name: two, layers: {layers}}}")
    found = rows(run, "two_level", path, "--set", "buffer=16B,64B")
    code, out, _ = run("map", *EVEN, "two_level", path, "--set", "buffer=64B", "--json", "--quiet")

    assert code == 0
    assert found[1]["energy_pj"] == json.loads(out)["total"]["energy_pj"]
    assert found[1]["value"] == pytest.approx(found[1]["energy_pj"])


def test_map_network__has_the_rows_of_the_command(run, tmp_path):
    assert run("map", *EVEN, "eyeriss", "alexnet", "--csv", tmp_path, "--quiet")[0] == 0
    machine, network = load_architecture("eyeriss"), load_workload("alexnet")
    found = map_network(machine, network, cache=False, mapspace="even", factors="perfect")
    written = list(csv.DictReader((tmp_path / "layers.csv").read_text().splitlines()))

    assert [(row["layer"], row["energy_pj"], row["cycles"]) for row in found.rows] == [
        (row["layer"], float(row["energy_pj"]), int(row["cycles"])) for row in written
    ]
    assert all(row["proved"] for row in found.rows)
    assert list(found.to_pandas().columns) == list(written[0])
    assert map_network(machine, network, mapspace="even", factors="perfect").rows == found.rows


def test_map_network__says_where_no_mapping_is_valid():
    tiny = load_architecture("eyeriss", {"glb": "2 B"})
    (row,) = map_network(tiny, load_workload("conv"), cache=False, mapspace="even", factors="perfect").rows
    assert (row["layer"], row["energy_pj"], row["proved"]) == ("vgg16_conv3_2", None, None)


def test_sizes__of_a_workload_are_rows(run):
    found = rows(run, "eyeriss", "alexnet", "--layer", "conv3", "--batch", "1,4")
    alone = json.loads(
        run("map", *EVEN, "eyeriss", "alexnet", "--layer", "conv3", "--batch", "4", "--json", "--quiet")[1]
    )
    assert [row["batch"] for row in found] == [1, 4]
    assert found[1]["energy_pj"] == alone["result"]["energy_pj"]
    assert found[1]["pj_per_mac"] <= found[0]["pj_per_mac"]


def test_rows__without_a_valid_mapping_are_told_and_the_others_are_there(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    folder, picture = tmp_path / "tables", tmp_path / "runs.png"
    asked = ("--set", "glb=2B,64KiB", "--csv", folder, "--plot", picture, "--quiet")
    code, out, err = run("map", *EVEN, "eyeriss", "conv", *asked)
    found = list(csv.DictReader((folder / "runs.csv").read_text().splitlines()))

    assert code == 1
    assert [bool(row["no_valid_mapping"]) for row in found] == [True, False]
    assert "no valid mapping" in out
    assert err.startswith("2B: none of the")
    assert picture.read_bytes().startswith(b"\x89PNG")


MIXED = """
workload:
  name: mixed
  bits: 8
  layers:
    - {name: conv, conv: {N: 1, K: 4, C: 2, P: 8, Q: 8, R: 3, S: 3}}
    - name: pool
      operation: max
      einsum:
        dims: {C: 4, P: 4, Q: 4, R: 2, S: 2}
        tensors: {Inputs: [C, 2*P + R, 2*Q + S], Outputs: [C, P, Q]}
        output: Outputs
      from: {Inputs: conv}
    - {name: fc, gemm: {M: 1, N: 10, K: 64}, repeat: 2}
    - name: shortcut
      repeat: 3
      operation: add
      einsum:
        dims: {C: 4, P: 7}
        tensors: {Inputs1: [C, P], Inputs2: [C, P], Outputs: [C, P]}
        output: Outputs
"""
LEFT_OUT = "not in the total: 4 layers that do not multiply and add (1 max, 3 add): pool, shortcut; --all-layers counts"


@pytest.fixture
def mixed(tmp_path):
    """A network with a pooling and sums."""
    path = tmp_path / "mixed.yaml"
    path.write_text(MIXED)
    return path


def test_layers_that_do_not_multiply_and_add__are_not_in_the_total(run, mixed):
    """The total is that of the network without them; with --all-layers it is the sum of all layers by themselves."""
    totals = {}
    for option in ("", "--all-layers"):
        document = json.loads(run("map", *EVEN, "eyeriss", mixed, "--json", *option.split())[1])
        totals[option] = {name: document["total"][name] for name in ("layers", "macs", "energy_pj", "cycles")}
        left = [(each["layer"], each["repeat"], each["operation"]) for each in document.get("left_out", ())]
        assert left == ([] if option else [("pool", 1, "max"), ("shortcut", 3, "add")])
    alone = {}
    for layer in load_workload(mixed).layers:
        best = json.loads(run("map", *EVEN, "eyeriss", mixed, "--layer", layer.name, "--json")[1])["result"]
        costs = {"layers": 1, "macs": layer.macs, "energy_pj": best["energy_pj"], "cycles": best["cycles"]}
        alone[layer.name] = {name: layer.repeat * cost for name, cost in costs.items()}

    for option, names in (("", ("conv", "fc")), ("--all-layers", tuple(alone))):
        assert totals[option] == pytest.approx({key: sum(alone[name][key] for name in names) for key in totals[""]})


def test_layers_that_do_not_multiply_and_add__are_said_in_the_report(run, mixed):
    def words(*arguments):
        return " ".join(run("map", *EVEN, "eyeriss", mixed, *arguments)[1].split())

    document = json.loads(run("map", *EVEN, "eyeriss", mixed, "--all-layers", "--json")[1])
    shares = [
        100 * sum(layer["in_network"][key] for layer in document["layers"] if layer["layer"] in ("pool", "shortcut"))
        for key in ("cycles_share", "energy_share")
    ]
    assert LEFT_OUT in words()
    assert LEFT_OUT in words("--set", "glb=54KiB,108KiB")
    said = re.search(
        r"4 layers that .* \(1 max, 3 add\): (\S+) % of the cycles and (\S+) % of the e", words("--all-layers")
    )
    assert list(map(float, said.groups())) == pytest.approx(shares, abs=0.05)
    assert "Each point of this layer (max) counts as a MAC." in words("--layer", "pool")
    assert "counts as a MAC" not in words("--layer", "fc")
    assert LEFT_OUT in run("roofline", "eyeriss", mixed)[2]
    assert run("roofline", "eyeriss", mixed, "--all-layers")[2] == ""
    assert "layers that do not multiply and add (max, add) counts" in run("fuse", "eyeriss", mixed)[1]


def test_layers_that_do_not_multiply_and_add__in_python(mixed):
    machine, network = load_architecture("eyeriss"), load_workload(mixed)
    asked = {"mapspace": "even", "factors": "perfect", "cache": False}
    counted = map_network(machine, network, **asked).rows
    every = map_network(machine, network, all_layers=True, **asked).rows
    assert [row["layer"] for row in counted] == ["conv", "fc"]
    assert [row["layer"] for row in every] == ["conv", "pool", "fc", "shortcut"]
    only = replace(network, layers=network.layers[1:2], edges=())
    assert [row["layer"] for row in map_network(machine, only, **asked).rows] == ["pool"]  # it has nothing else


def test_layers_that_do_not_multiply_and_add__are_verified_and_may_have_constraints(run, mixed, tmp_path):
    asked = tmp_path / "asked.yaml"
    asked.write_text("constraints: {levels: [{level: GLB, layers: [shortcut], keep: [Outputs]}]}\n")
    assert run("map", *EVEN, "eyeriss", mixed, "-c", asked, "-o", tmp_path / "out")[0] == 0
    path = tmp_path / "out" / "result.json"
    assert run("verify", path)[0] == 0
    document = json.loads(path.read_text())
    for change in ({"repeat": 2}, {"operation": "add"}):
        forged = [{**document["left_out"][0], **change}, *document["left_out"][1:]]
        path.write_text(json.dumps({**document, "left_out": forged}))
        assert run("verify", path)[0] != 0


def test_layers_that_do_not_multiply_and_add__are_in_no_sweep_unless_asked_for(run, mixed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for network, option in (("mixed.yaml", ""), ("{workload: mixed.yaml, all_layers: true}", "--all-layers")):
        keys = f"architecture: eyeriss, workloads: [{network}], map: {{objective: energy}}"
        (tmp_path / "s.yaml").write_text(f"sweep: {{{keys}, parameters: {{glb: [108 KiB]}}}}\n")
        code, out, err = run("sweep", "s.yaml", "--json", "--jobs", 1, "-o", f"out{option}")
        alone = json.loads(run("map", *EVEN, "eyeriss", mixed, "--json", *option.split())[1])["total"]
        assert code == 0
        assert (LEFT_OUT.replace("--all-layers", "all_layers: true") in err) == (not option)
        (design,) = json.loads(out)["designs"]
        assert (design["energy_pj"], design["cycles"]) == pytest.approx((alone["energy_pj"], alone["cycles"]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("two_level", "conv1d", "--set", "buffer=16B,24B", "--top", "2"), "--top: not for several architectures"),
        (("two_level,h100_sxm", "gemm"), "GPUs and systems are mapped one at a time"),
        (("two_level", "conv1d", "--plot", "x.png"), "--plot: draws several values"),
        (("two_level", "conv1d", "--set", "buffer=16B,,24B"), "buffer"),
    ],
)
def test_runs__that_cannot_be_are_refused(arguments, said, run):
    code, out, err = run("map", *EVEN, *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_why__solves_the_machine_with_less_and_more_of_each_part(run):
    """60 words: half are 30, a tenth more are 66; a size is cut down, and rounded up where it grows."""
    code, out, _ = run(
        "map",
        *EVEN,
        "two_level",
        "depthwise",
        "--set",
        "buffer=120 B",
        "--sensitivity",
        "--json",
        "--quiet",
    )
    (row,) = json.loads(out)["worth"]
    layer = load_workload("depthwise").layers[0]

    assert code == 0
    assert (row["part"], row["present"]) == ("BUF size", "120 B")
    for share, words in (("x0.5", 30), ("x1.1", 66), ("x2", 120)):
        best = map_einsum(load_architecture("two_level", {"buffer": f"{2 * words} B"}), layer, uneven=False).best
        assert (row[f"{share}_value"], row[f"{share}_cycles"]) == (best.energy_pj, best.cycles)
        assert row[f"{share}_proved"]


def test_why__looks_at_each_part_that_may_change():
    machine = load_architecture("eyeriss")
    found = {part: machines for part, _, machines in parts_of(machine)}
    sizes = [f"SPAD size, {role}" for role in ("Weights", "Inputs", "Outputs")]

    assert set(found) == {"DRAM bandwidth", "GLB size", "columns of GLB", "rows of GLB", *sizes}
    assert found["columns of GLB"][1.1].levels[1].x.size == 16
    assert found["rows of GLB"][0.5].levels[1].y.size == 6
    assert found["DRAM bandwidth"][2.0].levels[0].bandwidth == 2 * machine.levels[0].bandwidth
    assert found["SPAD size, Inputs"][0.5].levels[2].partition_words == {"Weights": 224, "Inputs": 6, "Outputs": 24}
    for machines in found.values():
        assert all(each.energy == machine.energy for each in machines.values())


def test_sensitivity__has_no_mapping_where_a_part_is_too_small(run):
    code, out, _ = run("map", *EVEN, "eyeriss", "conv", "--set", "glb=4 B", "--sensitivity")
    assert code == 0
    assert re.search(r"^GLB size +4 B +no mapping", out, re.MULTILINE)
    assert "Sensitivity  change of the lowest energy when one resource is scaled" in out


def test_sensitivity__is_of_one_layer(run):
    assert "--sensitivity: of one layer" in run("map", *EVEN, "eyeriss", "alexnet", "--sensitivity")[2]


@pytest.mark.parametrize(("objective", "other"), [("energy", "cycles"), ("cycles", "energy")])
def test_map__says_what_the_other_optimum_costs(objective, other, run):
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    one, two = (map_einsum(machine, layer, objective=goal, uneven=False).best for goal in (objective, other))
    more, cycles = two.energy_pj / one.energy_pj - 1, two.cycles / one.cycles
    speed = f"{1 / cycles:.3g}x faster" if cycles < 1 else f"{cycles:.3g}x slower"
    costs = f"{1e3 * two.seconds:.4g} ms ({speed}) for {energy(two.energy_pj, 5)} ({100 * more:+.3g} %)"
    out = " ".join(run("map", *EVEN, "eyeriss", "conv", "--objective", objective)[1].split())
    assert f"alternative {costs}: --objective {other}" in out


def test_rows__have_the_alternative_and_the_units_of_each_run(run, tmp_path):
    """What a run by itself reports; no row is on 2 of 168 units without a word."""
    dataflows = ("eyeriss_weight_stationary", "none")
    out = run("map", *EVEN, "eyeriss", "conv", "-c", ",".join(dataflows), "--quiet", "--csv", tmp_path)[1]
    for dataflow, row in zip(dataflows, csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()), strict=True):
        asked = ("map", *EVEN, "eyeriss", "conv", "-c", dataflow, "--objective")
        best, fastest = (json.loads(run(*asked, goal, "--json")[1])["result"] for goal in ("energy", "cycles"))
        faster = times(best["cycles"] / fastest["cycles"])
        said = f"{faster} faster, energy {100 * (fastest['energy_pj'] / best['energy_pj'] - 1):+.3g} %"
        assert re.search(rf"\nalternative .*\({faster} faster\) for .*: --objective cycles", run(*asked, "energy")[1])
        used = round(best["utilization"]["spatial"] * 168)
        line = " ".join(out[out.index(f"\n{dataflow} ") :].split())  # a cell that breaks stands alone in its lines

        assert (int(row["compute_used"]), int(row["compute_instances"])) == (used, 168)
        assert (float(row["other_energy_pj"]), int(row["other_cycles"])) == (fastest["energy_pj"], fastest["cycles"])
        assert re.match(rf"{dataflow} .* {used} of 168 \S+ \S+ {re.escape(said)}", line)
    assert "alternative: the best even mapping for cycles" in out


def test_map__reports_no_alternative_that_there_is_not(run):
    assert "alternative" not in run("map", *EVEN, "two_level", "conv1d")[1]


def folder_of(run, path, *arguments):
    assert run("map", *EVEN, *arguments, "-o", path, "--quiet")[0] == 0
    return str(path)


def test_compare__shows_each_difference_first_and_counts_what_is_equal(run, tmp_path):
    a, b = (folder_of(run, tmp_path / goal, "eyeriss", "conv", "--objective", goal) for goal in ("energy", "cycles"))
    code, out, _ = run("diff", a, b, "--json")
    figures = json.loads(out)["figures"]
    both = [json.loads((tmp_path / goal / "result.json").read_text())["result"] for goal in ("energy", "cycles")]
    differs = [row["differs"] for row in figures]
    energies = [abs(row["b"] - row["a"]) for row in figures if row["kind"] == "energy" and row["differs"]]

    assert code == 0
    assert figures[0] == {
        **{"kind": "total", "what": "energy_pj", "a": both[0]["energy_pj"], "b": both[1]["energy_pj"]},
        **{"ratio": both[1]["energy_pj"] / both[0]["energy_pj"], "differs": True},
    }
    assert differs == sorted(differs, reverse=True)
    assert energies == sorted(energies, reverse=True)
    text = run("diff", a, b)[1]
    assert f"{differs.count(False)} of {len(differs)} figures are equal." in text
    assert re.search(r"\nenergy +11\.982 mJ +12\.062 mJ.*\nutilization +28\.6 % +100 %", text, re.DOTALL)


def test_compare__of_a_mapping_with_itself_has_no_difference(run):
    names = ("eyeriss", "conv", "eyeriss_row_stationary", "eyeriss_row_stationary")
    code, out, _ = run("diff", *names, "--json")
    assert code == 0
    assert not any(row["differs"] for row in json.loads(out)["figures"])


def test_compare__of_machines_leaves_open_what_one_of_them_has_not(run, tmp_path):
    a, b = (folder_of(run, tmp_path / name, name, "gemm") for name in ("two_level", "systolic"))
    figures = json.loads(run("diff", a, b, "--json")[1])["figures"]
    assert {row["what"]: row["b"] for row in figures if row["kind"] == "loops"}["BUF"] is None


def test_compare__of_networks_has_a_row_for_each_layer(run, tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(
        "workload: {name: two, layers: [{name: a, gemm: {M: 4, N: 4, K: 4}}, {name: b, gemm: {M: 8, N: 2, K: 4}}]}"
    )
    a, b = (folder_of(run, tmp_path / size, "two_level", path, "--set", f"buffer={size}") for size in ("16B", "64B"))
    layers = json.loads(run("diff", a, b, "--json")[1])["layers"]

    assert {row["layer"] for row in layers} == {"a", "b"}
    assert all(row["energy_pj_b"] <= row["energy_pj_a"] for row in layers)
    assert run("diff", a, b)[0] == 0


@pytest.mark.parametrize(
    ("names", "said"), [(["a"], "expected two results"), (["no_such", "no_such"], "no_such: no such file or folder")]
)
def test_compare__refuses_what_is_no_result(names, said, run):
    code, _, err = run("diff", *names)
    assert code == 2
    assert said in err
