"""The certificate of a fused network, and the checker of docs/papers, which shares no code with the package."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accelsim import load_workload
from accelsim.cli.main import main
from accelsim.fusion import fuse
from accelsim.fusion import network as network_module
from accelsim.fusion.certificate import fusion_certificate
from accelsim.fusion.graph import Graphs
from accelsim.fusion.parts import Held, PartLimits, PartProblem, Solutions, map_part
from accelsim.fusion.result import ENERGY
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint, Product
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.level_features import VectorUnit
from accelsim.inputs.workload import Edge, Einsum, Tensor, Workload
from accelsim.results.cache import MapOptions
from tests.test_fusion_brute import random_graph, random_machine
from tests.test_fusion_tiling import add, conv, gemm, machine, soft_max

PATH = Path(__file__).parents[1] / "docs" / "papers" / "check_fusion.py"
EVEN = MapOptions(uneven=False, imperfect=())


def checker() -> Any:
    """The checker as a module."""
    spec = importlib.util.spec_from_file_location("check_fusion", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = checker()


def certificate(tiny: Architecture, network: Workload, **options: Any) -> dict[str, Any]:
    """What `fuse` writes, as it is read again."""
    found = fuse(tiny, network, options=EVEN, workers=1, **options)
    document: dict[str, Any] = json.loads(json.dumps(fusion_certificate(found)))
    return document


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    """Of two layers with a halo, in a buffer that holds a few rows: fused, with loops."""
    document = certificate(machine(32), NETWORK)
    assert document["claim"]["proved"]
    return document


NETWORK = Workload(
    "rows",
    (
        Einsum(
            "expand",
            {"C": 2, "K": 4, "P": 8},
            (
                Tensor("Weights", ((("C", 1),), (("K", 1),)), "Weights"),
                Tensor("Inputs", ((("C", 1),), (("P", 1),))),
                Tensor("Outputs", ((("K", 1),), (("P", 1),)), "Outputs", output=True),
            ),
        ),
        Einsum(
            "depthwise",
            {"C": 4, "P": 8, "R": 3},
            (
                Tensor("Weights", ((("C", 1),), (("R", 1),)), "Weights"),
                Tensor("Inputs", ((("C", 1),), (("P", 1), ("R", 1)))),
                Tensor("Outputs", ((("C", 1),), (("P", 1),)), "Outputs", output=True),
            ),
        ),
    ),
    (Edge("expand", "depthwise", "Inputs"),),
)


PRODUCTS = """
workload:
  name: products
  layers:
    - {name: first, gemm: {M: 8, N: 8, K: 4}}
    - {name: second, from: first, gemm: {M: 8, N: 4, K: 8}}
"""


def test_checker__shares_no_code_with_the_package() -> None:
    text = PATH.read_text()
    assert "import accelsim" not in text
    assert "from accelsim" not in text


def test_checker__finds_the_same_least_sum(rows: dict[str, Any]) -> None:
    total, wrong = CHECK.check(rows)
    assert wrong == []
    assert total == pytest.approx(rows["claim"]["value"], rel=1e-9)
    assert rows["claim"]["value"] < sum(layer["alone"]["value"] for layer in rows["graphs"][0]["layers"])


def seal(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the digest of what it says now."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    return {**rest, "sha256": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def needed_parts(document: dict[str, Any]) -> Iterator[int]:
    """Parts without which the least sum is not that of the claim."""
    for at in range(len(document["parts"])):
        other = copy.deepcopy(document)
        del other["parts"][at]
        if CHECK.check(seal(other))[1]:
            yield at


def best_part(document: dict[str, Any]) -> dict[str, Any]:
    """A part of the best tiling: where it costs more, the least sum does."""
    for at in needed_parts(document):
        part: dict[str, Any] = document["parts"][at]
        other = copy.deepcopy(document)
        change_values(other["parts"][at], 1.001)
        if part["found"] and CHECK.check(other)[0] > document["claim"]["value"] * (1 + 1e-7):
            return part
    raise AssertionError("no part is needed")


def change_values(part: dict[str, Any], factor: float) -> None:
    part["found"] = [[capacity, used, bound * factor, bound * factor] for capacity, used, _, bound in part["found"]]


def change_part(factor: float) -> Callable[[dict[str, Any]], None]:
    return lambda document: change_values(best_part(document), factor)


def change_claim(factor: float) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for name in ("value", "bound"):
            document["claim"][name] *= factor

    return change


def delete_part(document: dict[str, Any]) -> None:
    document["parts"].remove(best_part(document))


def raise_limit(document: dict[str, Any]) -> None:
    for kind in document["kinds"]:
        kind["mac_pj"] *= 3
        for rates in kind["at"]["BUF"]["pj"].values():
            rates.update({state: [3 * rate for rate in its] for state, its in rates.items()})


def raise_inner(document: dict[str, Any]) -> None:
    for each in document["inner"]:
        each["pj_per_mac"] *= 2


def impossible_part(document: dict[str, Any]) -> None:
    best_part(document)["found"].append([10**9, 0, None, None])


def lower_layer(document: dict[str, Any]) -> None:
    alone = document["graphs"][0]["layers"][0]["alone"]
    alone["value"] = alone["bound"] = alone["bound"] * 0.1


def less_halo(document: dict[str, Any]) -> None:
    """Of three rows that a step reads two are left out."""
    for link in document["graphs"][0]["links"]:
        for reader in link["readers"]:
            for rank in reader["ranks"]:
                rank["terms"] = [term for term in rank["terms"] if term[0] != "R"]
                rank["box"], rank["before"] = rank["extent"], 0


@pytest.mark.parametrize(
    "forge",
    [
        change_claim(1.01),
        change_claim(0.99),
        change_part(1.05),
        change_part(0.95),
        delete_part,
        raise_limit,
        raise_inner,
        impossible_part,
        lower_layer,
        less_halo,
    ],
    ids=["claim+", "claim-", "part+", "part-", "deleted", "limit+", "inner+", "impossible", "layer-", "halo"],
)
def test_checker__refuses_forged_certificates(rows: dict[str, Any], forge: Callable[[dict[str, Any]], None]) -> None:
    """Also if the digest is that of what is written now."""
    document = copy.deepcopy(rows)
    forge(document)
    assert "the file was changed after it was written" in CHECK.check(document)[1]
    assert CHECK.check(seal(document))[1]


def test_checker__refuses_any_change_without_a_new_digest(rows: dict[str, Any]) -> None:
    """Also small changes of limits, and of values on which the least sum does not depend."""
    document = copy.deepcopy(rows)
    document["kinds"][0]["mac_pj"] *= 1.0001
    assert CHECK.check(document)[1] == ["the file was changed after it was written"]
    assert CHECK.check(seal(document))[1] == []


@pytest.mark.parametrize(("seed", "longest"), [*((seed, None) for seed in (1, 3, 4, 5, 7)), (125, None), (129, 2)])
def test_checker__finds_the_least_sum_of_any_graph(
    seed: int, longest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 125 a group runs fewer rows than its layers have in between, in 129 a link of one word stays as a whole."""
    rng = random.Random(seed)
    tiny = random_machine(rng)
    graph = random_graph(rng, tiny)
    monkeypatch.setattr(network_module, "find_graphs", lambda _: Graphs((graph,), (), inferred=False))
    objective = "cycles" if seed % 5 == 4 else "energy"
    document = certificate(tiny, Workload("net", graph.layers), objective=objective, longest=longest)
    assert CHECK.check(document)[1] == []


def with_lanes(tiny: Architecture) -> Architecture:
    """The machine with a vector unit below its buffer."""
    cost = EnergyTable({**tiny.energy.entries, ("lanes", "*", "compute"): EnergyEntry(0.75, "a test")})
    return replace(tiny, vector_units=(VectorUnit("lanes", "BUF", 2, {"add": 1, "softmax": 3}),), energy=cost)


def test_checker__finds_the_least_sum_with_a_vector_unit() -> None:
    """A soft-max between two products: its parts stop at the buffer."""
    layers = (
        gemm("scores", 4, 4, 2),
        replace(soft_max("weights", 4, 4), whole=frozenset({"N"}), operation="softmax"),
        gemm("context", 4, 2, 4),
    )
    edges = Edge("scores", "weights", "Inputs"), Edge("weights", "context", "Inputs")
    document = certificate(with_lanes(machine(60)), Workload("attention", layers, edges))
    assert CHECK.check(document)[1] == []
    assert document["claim"]["value"] < sum(layer["alone"]["value"] for layer in document["graphs"][0]["layers"])
    document["kinds"][1]["mac_pj"] *= 3
    assert CHECK.check(seal(document))[1]


def test_solutions__keep_inner_energies_of_different_units_apart() -> None:
    """Layers that only differ in their operation have other limits where a vector unit runs one of them."""
    tiny, layer = with_lanes(machine(60)), add("sum", {"M": 4, "N": 4})
    layers = layer, replace(layer, operation="add")

    def limit(solutions: Solutions, einsum: Einsum) -> float:
        kind = solutions.kind(einsum, Constraints())
        return solutions.limit(PartProblem(kind, (4, 4), Held(1), whole=(4, 4)))[0]

    for order in (layers, layers[::-1]):
        solutions = Solutions(tiny, ENERGY)
        assert [limit(solutions, each) for each in order] == [limit(Solutions(tiny, ENERGY), each) for each in order]


def test_certificate__parts_can_be_proved_anew(rows: dict[str, Any]) -> None:
    """Each entry is a mapping problem of its own."""
    tiny = machine(32)
    for part in rows["parts"]:
        layer = NETWORK.layers[part["kind"]]
        einsum = Einsum("part", dict(zip(layer.dims, part["bounds"], strict=True)), layer.tensors)
        assert not part["sums"]
        held = Held(1, frozenset(part["arriving"]), frozenset(part["present"]))
        for capacity, used, value, _ in part["found"]:
            found = map_part(tiny, einsum, held, capacity, ENERGY)
            answer = found and (found.results[0].energy_pj, found.used[0])
            assert (answer or (None, 0)) == (value, used)


def test_certificate__limits_add_up_over_tensors(rows: dict[str, Any]) -> None:
    """With any tensors held, the constants are those of each tensor by itself."""
    states = ("out", "arriving", "present")
    for layer, kind in zip(NETWORK.layers, rows["kinds"], strict=True):
        names = [tensor.name for tensor in layer.tensors]
        for chosen in itertools.product(states, repeat=len(names)):
            held = [frozenset(n for n, s in zip(names, chosen, strict=True) if s == state) for state in states]
            limits = PartLimits.make(machine(32), layer, Held(1, held[1], held[2]))
            rates = [kind["at"]["BUF"]["pj"][name][state] for name, state in zip(names, chosen, strict=True)]
            assert limits.each == pytest.approx(kind["mac_pj"] + sum(rate[0] for rate in rates))
            assert limits.words == tuple((outside, inside) for _, outside, inside in rates)
            table = CHECK.Table(rows)
            bounds = tuple(layer.dims.values())
            part = CHECK.Part(rows["kinds"].index(kind), "BUF", bounds, held[1], held[2], (), ())
            assert table.limit(part, False) == pytest.approx(limits.of(bounds)[0], rel=1e-12)


def test_checker__limits_a_part_by_layers_that_sum_as_much(rows: dict[str, Any]) -> None:
    """Half of the sums of a larger layer are no part of it: it reads partial sums again, which they do not."""
    bounds, document = [2, 4, 8], {**rows, "inner": []}
    part = CHECK.Part(0, "BUF", tuple(bounds), (), (), (), ())
    assert NETWORK.layers[0].dims == dict(zip("CKP", bounds, strict=True))
    least = CHECK.Table(document).limit(part)
    for whole, raised in (([4, 4, 8], False), ([2, 4, 8], True), ([2, 8, 16], True), ([2, 4, 12], False)):
        document["inner"] = [{"kind": 0, "level": "BUF", "bounds": whole, "kept": [], "pj_per_mac": 1e6}]
        assert (CHECK.Table(document).limit(part) > least) == raised


def test_checker__accepts_a_gap_and_finds_at_least_its_bound(rows: dict[str, Any]) -> None:
    """A layer that is not proved by itself has a bound below its value."""
    document = copy.deepcopy(rows)
    best = best_part(document)
    for each in best["found"]:
        each[3] *= 0.999
    document["claim"]["bound"] *= 0.99
    assert CHECK.check(seal(document))[1] == []
    document["claim"]["bound"] *= 1.01
    assert CHECK.check(seal(document))[1]


def test_checker__says_where_constraints_are_not_checked() -> None:
    asked = Constraints(
        (LevelConstraint("DRAM", temporal=Block((Factor("P", 1, 4),), products=(Product(("C",), 1),))),)
    )
    document = certificate(machine(32), NETWORK, constraints={"expand": asked})
    assert "expand" in CHECK.check(document)[1][0]


def test_certificate__of_other_constraints_is_checked() -> None:
    """What inner levels are asked for changes the values of parts, and nothing else."""
    asked = Constraints((LevelConstraint("REG", bypass=frozenset({"Weights"})),))
    document = certificate(machine(32), NETWORK, constraints=asked)
    assert CHECK.check(document)[1] == []


def test_fuse__writes_the_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the checker is a command."""
    network = tmp_path / "products.yaml"
    network.write_text(PRODUCTS)
    command = ["fuse", "two_level", str(network), "--set", "buffer=128 B", "--mapspace", "even", "--factors", "perfect"]
    assert main([*command, "--no-cache", "-o", str(tmp_path / "out")]) == 0
    path = tmp_path / "out" / "fusion_certificate.json"
    done = subprocess.run([sys.executable, str(PATH), str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    value = json.loads(path.read_text())["claim"]["value"]
    assert done.stdout == f"least sum {value:.12g} equals the claim\n"
    document = json.loads(path.read_text())
    change_claim(0.5)(document)
    path.write_text(json.dumps(document))
    done = subprocess.run([sys.executable, str(PATH), str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the claim is" in done.stdout
    capsys.readouterr()


def test_fuse__unequal_parts_may_use_more_units_than_the_whole_layer() -> None:
    """Ten rows keep 2 of 3 units busy, parts of six and four rows 3 and 2: four steps in place of five.

    A limit of the group from the inner energy of ten rows was above that, so the group was never looked at.
    """
    tiny = machine(16, units=3)
    entries = dict(tiny.energy.entries)
    for key, entry in entries.items():
        entries[key] = replace(
            entry, energy_pj={"DRAM": 0.5, "BUF": 4.0}.get(key[0], 1.0) if key[2] != "leak" else 100.0
        )
    levels = tuple(
        replace(level, bandwidth=None, read_bandwidth=None, write_bandwidth=None) for level in tiny.levels[:2]
    )
    tiny = replace(tiny, levels=levels, energy=replace(tiny.energy, entries=entries))
    layers = (
        conv("first", {"C": 1, "K": 1, "P": 10, "Q": 1, "R": 1, "S": 1}),
        conv("second", {"C": 1, "P": 8, "Q": 1, "R": 3, "S": 1}, depthwise=True),
    )
    document = certificate(tiny, Workload("rows", layers, (Edge("first", "second", "Inputs"),)))
    assert CHECK.check(document)[1] == []
    assert document["claim"]["value"] < sum(layer["alone"]["value"] for layer in document["graphs"][0]["layers"])


def test_certificate__there_is_none_of_products() -> None:
    found = fuse(machine(32), Workload("one", NETWORK.layers[:1]), options=EVEN, workers=1)
    assert fusion_certificate(found) is not None
    assert fusion_certificate(replace(found, objective="edp")) is None


def test_certificate__repeats_count(rows: dict[str, Any]) -> None:
    several = replace(NETWORK, layers=tuple(replace(layer, repeat=3) for layer in NETWORK.layers))
    document = certificate(machine(32), several)
    assert document["claim"]["value"] == pytest.approx(3 * rows["claim"]["value"])
    assert CHECK.check(document)[1] == []


def test_certificate__is_of_a_network_with_chains_of_one_layer() -> None:
    assert CHECK.check(certificate(machine(200), load_workload("conv1d")))[1] == []


@pytest.mark.parametrize("text", [None, "{", "[]", '{"fusion": {}}'])
def test_checker__says_what_is_no_certificate(tmp_path, text):
    path = tmp_path / "fusion.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=re.escape(f"{path}: ")):
        CHECK.read([str(path)])
    with pytest.raises(SystemExit, match="usage: "):
        CHECK.read([])
