"""Trees whose branches differ: engines of a system where they compute, levels in a row where they only store.

The oracle is the tree with one branch alone: its machine is what the engine of that branch must be.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import accelsim
from accelsim import load_workload
from accelsim.cli.main import main
from accelsim.designs.soc import load_system, map_on_system
from accelsim.importers.foreign import read_foreign
from accelsim.inputs.errors import InputError
from accelsim.search.mapper import map_einsum
from tests.test_import_accelforge import GEMM, MACHINE
from tests.test_import_accelforge_paths import forked

SHARED = Path(__file__).parent.parent.parent / "shared" / "cases" / "turn3" / "hetero" / "arch.yaml"
CONV = """
problem:
  shape:
    name: conv1d
    dimensions: [K, R, P]
    data_spaces:
    - {name: Weights, projection: [[[K]], [[R]]]}
    - {name: Inputs, projection: [[[R], [P]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read_write: true}
  instance: {K: 4, R: 3, P: 8}
"""
DRAM = "{name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8, shared_bandwidth: 4}}"


def sram(name: str, depth: int = 64) -> str:
    return f"{{name: {name}, class: SRAM, attributes: {{depth: {depth}, width: 8, datawidth: 8}}}}"


def unit(name: str = "MAC", kind: str = "intmac") -> str:
    return f"{{name: {name}, class: {kind}, attributes: {{datawidth: 8}}}}"


def v03(local: str, *subtree: str) -> str:
    """A tree of v0.3: what is local at the chip, and what lies below it."""
    head = "architecture:\n  version: 0.3\n  subtree:\n  - name: chip\n"
    return f"{head}    attributes: {{technology: 45nm}}\n    local: [{local}]\n    subtree: [{', '.join(subtree)}]\n"


def v04(*nodes: str) -> str:
    """A tree of v0.4 below a container and DRAM."""
    head = "architecture:\n  version: 0.4\n  nodes:\n  - !Container {name: chip, attributes: {technology: 45nm}}\n"
    return head + "".join(f"  - {node}\n" for node in (f"!Component {DRAM}", *nodes))


def node(name: str, local: str = "", *subtree: str) -> str:
    return f"{{name: '{name}', local: [{local}]{f', subtree: [{chr(44).join(subtree)}]' if subtree else ''}}}"


def c(text: str) -> str:
    """A component of v0.4."""
    return f"!Component {text}"


def parallel(*branches: str) -> str:
    return f"!Parallel {{nodes: [{', '.join(branches)}]}}"


def row(*nodes: str) -> str:
    return f"!Hierarchical {{nodes: [{', '.join(nodes)}]}}"


BIG = node("big", sram("BigBuf", 512), node("pe[0..7]", f"{sram('Reg', 16)}, {unit()}"))
LITTLE = node("little", sram("SmallBuf"), node("pe[0..3]", unit()))
PLAIN = node("plain", f"{unit()}, {sram('PlainBuf')}")
X, Y = node("x", f"{sram('X')}, {unit('XMac')}"), node("y", f"{sram('Y', 16)}, {unit('YMac')}")
SPREAD, WIDE = "!Container {name: pe, spatial: {meshX: 4}}", "!Container {name: lanes, spatial: {meshX: 2, meshY: 2}}"
LANES = (c(sram("VBuf")), WIDE, c(unit("Lane", "alu")))
GLB, REG = sram("GLB", 1024), sram("Reg", 16)

ENGINES = {
    "two buffers with PEs of their own": (v03(DRAM, BIG, LITTLE), {"big": v03(DRAM, BIG), "little": v03(DRAM, LITTLE)}),
    "three branches, a unit before its memory": (
        v03(DRAM, BIG, LITTLE, PLAIN),
        {"big": v03(DRAM, BIG), "little": v03(DRAM, LITTLE), "plain": v03(DRAM, PLAIN)},
    ),
    "nested forks": (
        v03(DRAM, node("left", GLB, X, Y), LITTLE),
        {
            "left.x": v03(DRAM, node("left", GLB, X)),
            "left.y": v03(DRAM, node("left", GLB, Y)),
            "little": v03(DRAM, LITTLE),
        },
    ),
    "a fork below an array": (
        v03(DRAM, node("pe[0..15]", REG, X, node("lane[0..3]", unit("Lane", "alu")))),
        {"x": v03(DRAM, node("pe[0..15]", REG, X)), "lane": v03(DRAM, node("pe[0..15]", REG, "{name: 'lane[0..3]', "
         "local: [" + unit("Lane", "alu") + "]}"))},
    ),
    "a vector unit at a buffer of v0.3, an array below": (
        v03(DRAM, node("core", f"{GLB}, {unit('Lane', 'alu')}", node("pe[0..3]", f"{REG}, {unit()}"))),
        {
            "Lane": v03(DRAM, node("core", f"{GLB}, {unit('Lane', 'alu')}")),
            "MAC": v03(DRAM, node("core", GLB, node("pe[0..3]", f"{REG}, {unit()}"))),
        },
    ),
    "a vector unit of a class that Timeloop does not know": (
        v03(DRAM, BIG, node("simd", f"{unit('Lane', 'vector_unit')}, {sram('VBuf')}")),
        {"big": v03(DRAM, BIG), "simd": v03(DRAM, node("simd", f"{sram('VBuf')}, {unit('Lane', 'compute')}"))},
    ),
    "a memory on a branch beside all": (
        v03("", node("chip", GLB, BIG, LITTLE), node("memory", DRAM)),
        {"chip.big": v03(DRAM, node("chip", GLB, BIG)), "chip.little": v03(DRAM, node("chip", GLB, LITTLE))},
    ),
    "two arrays of v0.4": (
        v04(parallel(row(c(GLB), SPREAD, c(unit())), row(*LANES))),
        {"GLB": v04(c(GLB), SPREAD, c(unit())), "VBuf": v04(*LANES)},
    ),
    "a vector unit beside an array of v0.4": (
        v04(c(GLB), parallel(row(*LANES), "!Nothing {}"), SPREAD, c(REG), c(unit())),
        {"VBuf": v04(c(GLB), *LANES), "MAC": v04(c(GLB), SPREAD, c(REG), c(unit()))},
    ),
    "a unit on the way to an array of v0.4": (
        v04(c(GLB), c(unit("Lane", "alu"))[:-1] + ", spatial: {meshX: 16}}", SPREAD, c(REG), c(unit())),
        {"Lane": v04(c(GLB), c(unit("Lane", "alu"))[:-1] + ", spatial: {meshX: 16}}"),
         "MAC": v04(c(GLB), SPREAD, c(REG), c(unit()))},
    ),
    "a fork of v0.4 below an array": (
        v04(c(GLB), SPREAD, parallel(row(c(REG), c(unit())), c(unit("Lane", "alu")))),
        {"Reg": v04(c(GLB), SPREAD, c(REG), c(unit())), "Lane": v04(c(GLB), SPREAD, c(unit("Lane", "alu")))},
    ),
    "forks of v0.4 in forks": (
        v04(parallel(row(c(GLB), parallel(row(c(sram("X")), c(unit("A"))), row(c(sram("Y")), c(unit("B"))))),
                     row(*LANES))),
        {"GLB.X": v04(c(GLB), c(sram("X")), c(unit("A"))), "GLB.Y": v04(c(GLB), c(sram("Y")), c(unit("B"))),
         "VBuf": v04(*LANES)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
def test_engine__is_the_machine_of_the_tree_with_its_branch_alone(imported, name):
    tree, branches = ENGINES[name]
    foreign = imported(tree, CONV)
    alone = {key: imported(one, CONV) for key, one in branches.items()}
    assert foreign.architecture is None
    cores = foreign.system["cores"]
    assert [core["name"] for core in cores] == [
        key if key == one.architecture["compute"]["name"] else f"{key}.{one.architecture['compute']['name']}"
        for key, one in alone.items()
    ]
    assert [core["arch"] for core in cores] == [one.architecture for one in alone.values()]
    assert [core.get("constraints") for core in cores] == [one.constraints for one in alone.values()]
    assert foreign.workload == next(iter(alone.values())).workload
    assert load_system({"system": foreign.system}).bytes_per_s == 4e9


def notes(foreign) -> list[str]:
    return [str(note).rpartition("yaml:")[2] for note in foreign.notes]


def test_notes__say_what_engines_share_and_what_they_do(imported):
    said = notes(imported(ENGINES["nested forks"][0]))
    assert "2:3: left.x.XMac, left.y.YMac, little.MAC: compute on branches of the tree" in said[-3]
    assert "2:3: DRAM: shared by engines, of which each is mapped with all of their room and bandwidth" in said[-2]
    assert "operations: each engine does any operation" in said[-1]


def test_multipliers__beside_other_units_do_products_and_sums_alone(imported):
    lane, mac = imported(ENGINES["a vector unit at a buffer of v0.3, an array below"][0]).system["cores"]
    assert "operations" not in lane
    assert mac["operations"] == {"multiply_add": 1, "multiply": 1, "add": 1}


def test_tables__give_energies_to_the_branch_on_whose_way_a_component_lies(imported):
    """Both branches have a MAC; and figures of one branch alone leave the other to the component models."""
    row = "{{name: 'chip.{0}.MAC[1..4]', actions: [{{name: mac, energy: {1}}}]}}"
    every = [row.format("big.pe[0..7]", 0.25), row.format("little.pe[0..3]", 0.5)]
    reads = {"DRAM": 100, "big.BigBuf": 4, "big.pe.Reg": 0.5, "little.SmallBuf": 3}
    store = "{{name: chip.{0}, actions: [{{name: read, energy: {1}}}, {{name: write, energy: 2}}]}}"
    every += [store.format(name, pj) for name, pj in reads.items()]
    foreign = imported(v03(DRAM, BIG, LITTLE), f"ERT: {{tables: [{', '.join(every)}]}}")
    big, little = (core["arch"] for core in foreign.system["cores"])
    assert (big["compute"]["energy"]["compute"], little["compute"]["energy"]["compute"]) == ("0.25 pJ", "0.5 pJ")
    assert [level["energy"]["read"] for level in big["levels"]] == ["100 pJ", "4 pJ", "0.5 pJ"]
    assert [core["clock"] for core in (big, little)] == ["1 GHz"] * 2
    assert any("clock: the file has none" in note for note in notes(foreign))
    (alone,) = (core["arch"] for core in imported(v03(DRAM, BIG, LITTLE), f"ERT: {{tables: [{every[0]}]}}").system[
        "cores"][1:])  # fmt: skip
    assert "energy" not in alone["compute"]


def test_constraints__are_those_of_the_engine_whose_parts_they_name(imported):
    targets = ["{target: BigBuf, type: temporal, factors: [K=2], permutation: [K]}",
               "{target: SmallBuf, type: dataspace, bypass: [Weights], keep: [Inputs, Outputs]}",
               "{target: DRAM, type: temporal, factors: [R=1]}"]  # fmt: skip
    given = f"mapspace: {{targets: [{', '.join(targets)}]}}\n"
    big, little = imported(v03(DRAM, BIG, LITTLE), CONV, given).system["cores"]
    assert [one["level"] for one in big["constraints"]["levels"]] == ["DRAM", "BigBuf"]
    assert [one["level"] for one in little["constraints"]["levels"]] == ["SmallBuf", "DRAM"]
    with pytest.raises(InputError, match="no storage is named 'Other'"):
        imported(v03(DRAM, BIG, LITTLE), CONV, given.replace("BigBuf", "Other"))


def test_what_parts_do_about_zeros__is_that_of_the_engine_which_has_them(imported):
    asked = (
        "{name: XMac, compute_optimization: [{type: gating}]}, {name: YMac, compute_optimization: [{type: skipping}]}"
    )
    foreign = imported(ENGINES["nested forks"][0], CONV, f"sparse_optimizations: {{targets: [{asked}]}}\n")
    units = [core["arch"]["compute"] for core in foreign.system["cores"]]
    assert [(unit.get("gating"), unit.get("skipping")) for unit in units] == [(True, None), (None, True), (None, None)]


def test_a_mapping__of_one_machine_is_left_out_and_said(imported):
    foreign = imported(
        v03(DRAM, BIG, LITTLE), CONV, "mapping:\n- {target: BigBuf, type: temporal, factors: K4 R3 P8}\n"
    )
    assert foreign.mapping is None
    assert "2:1: mapping: a mapping is of one machine, and is left out" in notes(foreign)


def kept(architecture) -> list[tuple[str, int, list[str]]]:
    """Of each level the name, its instances below one of the level above, and what it bypasses."""
    levels = architecture["levels"]
    spread = [1, *(level.get("fanout", {}).get("x", 1) for level in levels)]
    return [(level["name"], many, level.get("bypass", [])) for level, many in zip(levels, spread, strict=False)]


KEEPS = """
architecture_constraints:
  targets:
  - {target: WBuf, type: dataspace, keep: [Weights], bypass: [Inputs, Outputs]}
  - {target: IBuf, type: dataspace, keep: [Inputs, Outputs]}
"""
ABOVE = node("one", sram("IBuf"), node("pe[0..7]", unit()))
BANK, INPUTS = node("bank", sram("WBuf")), node("pe[0..7]", f"{sram('IBuf')}, {unit()}")


@pytest.mark.parametrize(
    ("branches", "levels"),
    [
        ((BANK, INPUTS), [("WBuf", 1), ("IBuf", 8)]),
        ((INPUTS, BANK), [("WBuf", 1), ("IBuf", 8)]),
        ((node("bank[0..1]", sram("WBuf")), INPUTS), [("WBuf", 2), ("IBuf", 4)]),
        ((node("bank[0..7]", sram("WBuf")), ABOVE), [("IBuf", 1), ("WBuf", 8)]),
    ],
)
def test_branches__that_only_store_are_levels_beside_each_other(imported, branches, levels):
    """Weights of the memory on one branch, inputs and outputs of that on the other; more instances stand further in."""
    bypassed = {"WBuf": ["Inputs", "Outputs"], "IBuf": ["Weights"]}
    foreign = imported(v03(f"{DRAM}", node("core", GLB, *branches)), CONV, KEEPS)
    assert kept(foreign.architecture)[2:] == [(name, many, bypassed[name]) for name, many in levels]
    assert not any("nothing says" in note for note in notes(foreign))
    unsaid = imported(v03(f"{DRAM}", node("core", GLB, *branches)), CONV)
    assert [name for name, _, _ in kept(unsaid.architecture)[2:]] == [name for name, _ in levels]
    assert any("WBuf: nothing says what it or IBuf beside it keeps; any may" in note for note in notes(unsaid))


def test_a_dram__on_a_branch_beside_the_chip_is_outermost(imported):
    chip = node("core", GLB, node("pe[0..7]", f"{REG}, {unit()}"))
    foreign = imported(v03("", chip, node("memory", DRAM)), CONV)
    assert foreign.architecture == imported(v03(DRAM, chip), CONV).architecture


def test_parts__of_no_known_class_make_no_engine_of_a_memory(imported):
    """An adder or a counter beside a memory is no unit of a branch."""
    bank = BANK.replace("]}", ", {name: Adder, class: intadder}]}")
    foreign = imported(v03(DRAM, bank, INPUTS), CONV, KEEPS)
    assert foreign.architecture == imported(v03(DRAM, BANK, INPUTS), CONV, KEEPS).architecture
    assert any("Adder: is of no class that stores or computes" in note for note in notes(foreign))


def test_a_memory__beside_two_that_compute_is_of_both(imported):
    big, little = imported(v03(DRAM, BIG, LITTLE, BANK)).system["cores"]
    assert [level["name"] for level in big["arch"]["levels"]] == ["DRAM", "BigBuf", "WBuf", "Reg"]
    assert [level["name"] for level in little["arch"]["levels"]] == ["DRAM", "SmallBuf", "WBuf"]


def test_memories__of_a_branch_that_does_not_lead_to_a_unit_are_not_on_its_way(imported):
    keep = "!Component {{name: {0}, class: SRAM, attributes: {{depth: 64, width: 8, datawidth: 8}}, "
    keep += "constraints: {{dataspace: {{keep: [{1}]}}}}}}"
    stores = keep.format("WBuf", "Weights"), keep.format("IBuf", "Inputs")
    lane, mac = imported(v04(c(GLB), parallel(row(*LANES), *stores), SPREAD, c(unit())), CONV).system["cores"]
    assert [level["name"] for level in lane["arch"]["levels"]] == ["DRAM", "GLB", "VBuf"]
    assert kept(mac["arch"])[2:] == [("WBuf", 1, ["Inputs"]), ("IBuf", 1, ["Weights"])]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (v03("", node("a", f"{DRAM}, {unit('A')}"), node("b", f"{DRAM.replace('DRAM,', 'Own,', 1)}, {unit('B')}")),
         "2:3: the branches share no memory, and the engines of a system do; put a memory above the branches"),
        (v03(DRAM, node("pe", f"{REG}, {unit('A')}, {unit('B', 'alu')}")),
         "A and B compute at one place, as parts of a unit or as two units; leave one of them out, or give each"),
        (v03(DRAM, node("bank[0..2]", sram("WBuf")), INPUTS),
         "IBuf has 8x1 instances, no multiple of the 3x1 of WBuf; memories on branches beside each other are levels"),
        (v03(DRAM, node("a", f"{sram('A')}, {unit()}"), node("b", f"{{name: Odd, class: SRAM}}, {unit()}")),
         "Odd has no depth, and only the outermost level may be unlimited"),
        (v03(DRAM, node("a", GLB), node("b", GLB, node("pe", unit()))), "two components are named GLB"),
        (v03(DRAM, node("a", GLB), node("b", REG)), "Reg, the innermost component, is a storage"),
    ],
)  # fmt: skip
def test_trees__that_are_neither_are_refused_with_reason_and_place(imported, tree, said):
    with pytest.raises(InputError) as error:
        imported(tree, CONV)
    assert said in str(error.value)


def test_units_of_accelforge__that_serve_the_same_layers_are_engines(imported):
    machine = forked("Fork", "").replace("len(Extra) > 0", "len(All) == 3")
    foreign = imported(machine, GEMM)
    mac, other = foreign.system["cores"]
    alone = imported(MACHINE, GEMM)
    assert (mac["name"], mac["arch"], mac["constraints"]) == ("MAC", alone.architecture, alone.constraints)
    small = imported(machine.replace("name: MAC", "name: MAC\n        enabled: false"), GEMM)
    assert (other["name"], other["arch"]) == ("Other", small.architecture)
    assert foreign.workload == alone.workload
    assert any("Main: shared by engines" in note for note in notes(foreign))
    assert not any("lies on another branch" in note for note in notes(foreign))
    assert load_system({"system": foreign.system}).bytes_per_s == 1e9


def test_units_of_accelforge__on_the_way_to_another_are_engines(imported):
    """A vector unit at the buffer, and the array below it."""
    vector = "  - !Compute {name: Vector, leak_power: 0, actions: [{name: compute, energy: 2e-12, latency: 1e-9}]}\n"
    foreign = imported(MACHINE.replace("  - !Container", vector + "  - !Container"), GEMM)
    cores = {core["name"]: core for core in foreign.system["cores"]}
    assert [level["name"] for level in cores["Vector"]["arch"]["levels"]] == ["Main", "Buffer"]
    assert cores["MAC"]["arch"] == imported(MACHINE, GEMM).architecture


def test_units_of_accelforge__on_branches_of_a_branch_are_engines(imported):
    """A unit on the branch, and another one that branches off behind it."""
    free = "component_class: Dummy, leak_power: 0"
    inner = f"[!Memory {{name: In, size: 64, {free}, actions: []}}, !Compute {{name: Inner, {free}, "
    machine = forked("Fork", "")
    at = machine.index("  - !Memory {name: Small")
    inner = f"      - !Fork {{nodes: {inner}actions: [{{name: compute, latency: 1e-9}}]}}]}}\n"
    machine = machine[:at].rstrip() + "\n" + inner + machine[at:]
    names = [[level["name"] for level in core["arch"]["levels"]] for core in imported(machine, GEMM).system["cores"]]
    assert names == [["Main", "Buffer", "Register"], ["Main", "Buffer", "Register", "In"]]


@pytest.mark.skipif(not SHARED.exists(), reason="../shared is absent")
def test_the_chip_of_two_engines__is_imported_and_mapped(tmp_path, capsys):
    """Each layer costs on an engine what it costs on the machine of the branch alone, and runs on the cheaper one."""
    layer = load_workload("workload: {name: g, gemm: {M: 4, N: 4, K: 8}}\n")
    system = load_system({"system": read_foreign([SHARED]).system})
    found = map_on_system(system, layer)
    alone = [map_einsum(core.machine, layer.layers[0], uneven=False).best for core in system.cores]
    assert [cost.energy_pj for cost in found.costs[0] if cost] == [one.energy_pj for one in alone]
    assert found.energy_pj == min(one.energy_pj for one in alone)
    workload = tmp_path / "layer.yaml"
    workload.write_text("workload: {name: g, gemm: {M: 4, N: 4, K: 8}}\n")
    assert main(["map", str(SHARED), str(workload), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["energy_pj"] == found.energy_pj


def test_commands__take_a_tree_of_engines_with_the_files_beside_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("arch", v03(DRAM, BIG, LITTLE)), ("prob", CONV), ("more", "mapspace: {targets: []}\n")):
        Path(f"{name}.yaml").write_text(text)
    assert main(["import", "arch.yaml", "prob.yaml", "-o", "ours"]) == 0
    assert "system chip: 2 cores" in capsys.readouterr().out
    assert main(["check", "ours/system.yaml", "ours/workload.yaml"]) == 0
    assert main(["check", "arch.yaml", "prob.yaml"]) == 0
    assert main(["eval", "arch.yaml", "prob.yaml", "ours/workload.yaml"]) == 2
    assert "holds no architecture, only" in (said := capsys.readouterr().err)
    assert "`accelsim map` and `import` take systems" in said
    assert main(["map", "arch.yaml", "prob.yaml", "nothing.yaml"]) == 2
    assert "nothing.yaml: a system takes one workload" in capsys.readouterr().err
    totals = []
    for files in (["arch.yaml", "prob.yaml", "more.yaml"], ["ours/system.yaml", "ours/workload.yaml"]):
        assert main(["map", *files, "--quiet", "--json"]) == 0
        totals.append(json.loads(capsys.readouterr().out)["energy_pj"])
    assert totals[0] == totals[1] > 0
    found = accelsim.map(["arch.yaml", "more.yaml"], "prob.yaml")
    assert found.energy_pj == totals[0]
    Path("folder").mkdir()
    for name in ("arch", "prob", "more"):
        Path(f"{name}.yaml").rename(f"folder/{name}.yaml")
    assert main(["map", "folder", "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["energy_pj"] == totals[0]
