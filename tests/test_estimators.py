"""Estimators that an architecture names: component models, an Accelergy ERT and ART, hwcomponents."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from accelsim.energy.components import sram
from accelsim.energy.estimators import Hwcomponents, read_accelergy
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.energies import Component, ComponentFigures, EnergyEntry
from accelsim.inputs.errors import InputError
from accelsim.inputs.machine_tables import area_rows, energy_rows, peak_rows
from accelsim.inputs.source import Problems
from tests.conftest import REPOSITORY

MACHINE = """architecture:
  name: m
  technology: 45 nm
  clock: 500 MHz
  energy_table: {table}
  levels:
    - {{name: DRAM, class: DRAM, {dram}word: 16 bit}}
    - {{name: GLB, class: SRAM, size: 64 KiB, word: 16 bit, block_size: 4, {glb}}}
  compute: {{class: intmac{mac}}}
"""
ERT = """ERT:
  version: 0.4
  tables:
  - name: system.chip.GLB[1..1]
    actions:
    - {name: read, arguments: {address_delta: 0, data_delta: 1}, energy: 3.374}
    - {name: read, arguments: {address_delta: 1, data_delta: 1}, energy: 4.82}
    - {name: write, arguments: {}, energy: 4.494}
    - {name: leak, arguments: {global_cycle_seconds: 1.0e-09}, energy: 0.000271}
  - name: system.DRAM[1..1]
    actions: [{name: read, energy: 512.0}, {name: write, energy: 512}]
  - name: system.chip.PE[1..4].mac
    actions: [{name: mac_random, energy: 1.2}, {name: idle, energy: 0.1}]
  - name: system.chip.noc
    actions: [{name: transfer, energy: 0.4}]
"""
ART = "ART: {version: 0.4, tables: [{name: 'system.chip.GLB[1..1]', area: 4100.5}]}\n"


@pytest.fixture
def machine(tmp_path):
    """Machine of two levels, given what stands in its file."""

    def machine(table="components", dram="attributes: {type: LPDDR4}, ", glb="", mac=""):
        (tmp_path / "ERT.yaml").write_text(ERT)
        (tmp_path / "ART.yaml").write_text(ART)
        (tmp_path / "m.yaml").write_text(MACHINE.format(table=table, dram=dram, glb=glb, mac=mac))
        return load_architecture(tmp_path / "m.yaml")

    return machine


def refused(machine, **keys):
    with pytest.raises(InputError) as error:
        machine(**keys)
    return str(error.value)


def test_components__give_every_action_of_every_part(machine):
    """64 KiB with 64 bits is a point of the grid: 25.8695 pJ; 0.00167027 mW over 500 MHz is 0.00334054 pJ."""
    found = machine()
    assert found.energy.energy_pj("GLB", "Inputs", "read") == 25.8695
    assert found.energy.energy_pj("GLB", "*", "leak") == pytest.approx(0.00334054)
    assert found.energy.energy_pj("DRAM", "Weights", "write") == 128
    assert found.energy.energy_pj("MAC", "*", "compute") == pytest.approx(0.2 * 15.5**0.5 + 0.1)
    assert all(row["energy_pj"] is not None for row in energy_rows(found) if row["action"] != "transfer")
    assert all(row["formula"] and row["source"] for row in energy_rows(found) if row["energy_pj"] is not None)


def test_components__charge_a_wider_row_by_its_share(machine):
    found = machine(glb="attributes: {width: 128 bit}")
    assert found.energy.energy_pj("GLB", "Inputs", "read") == sram(45, 64, 128).pj["read"].value / 2


def test_components__partitions_are_memories_of_their_own(machine, tmp_path):
    machine()
    text = (tmp_path / "m.yaml").read_text().replace("size: 64 KiB", "size: {Weights: 4 KiB, Inputs: 2 KiB}")
    (tmp_path / "m.yaml").write_text(text)
    found = load_architecture(tmp_path / "m.yaml")
    weights, inputs = sram(45, 4, 64), sram(45, 2, 64)
    assert found.energy.energy_pj("GLB", "Weights", "read") == weights.pj["read"].value
    assert found.energy.energy_pj("GLB", "Inputs", "write") == inputs.pj["write"].value
    assert found.areas["GLB"].area_um2 == weights.area_um2.value + inputs.area_um2.value
    both = weights.leak_mw.value + inputs.leak_mw.value
    assert found.energy.energy_pj("GLB", "*", "leak") == pytest.approx(both * 1e9 / 500e6)


def test_components__area_is_that_of_all_instances(machine):
    found = machine(glb="fanout: {x: 3, class: wire, attributes: {length: 500 um}}")
    rows = {row["component"]: row for row in area_rows(found)}
    assert rows["MAC"]["total_um2"] == 3 * rows["MAC"]["area_um2"]
    assert found.area_um2 == sum(row["total_um2"] for row in rows.values())
    assert found.energy.energy_pj("GLB network", "*", "transfer") == pytest.approx(16 * 0.121 * 0.5)


def test_area__given_at_a_component_goes_before(machine):
    assert machine(glb="area: 2 mm2").areas["GLB"].area_um2 == 2e6
    assert machine(glb="area: 2 mm2").areas["GLB"].source == "m.yaml:8"
    assert machine(mac=", attributes: {format: bf16}".replace("bf16", "int8")).area_um2 is not None
    assert "unknown unit 'm2'" in refused(machine, glb="area: 2 m2")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"dram": ""}, "m.yaml:7:27: levels[0].class: 'type' of the DRAM is missing"),
        ({"dram": "attributes: {type: LPDDR5}, "}, "no published energy for the DRAM type 'LPDDR5'"),
        (
            {"glb": "attributes: {bank: 2}"},
            "attribute 'bank': the model of SRAM knows none such; did you mean 'banks'?",
        ),
        ({"glb": "attributes: {banks: 1.5}"}, "banks: expected a whole number from 1 on, got '1.5'"),
        ({"glb": "technology: 130 nm"}, "node 130 nm is outside the CACTI grid, 22 to 90 nm"),
        ({"glb": "fanout: {x: 2}"}, "no energy for 'transfer' here"),
        ({"glb": "fanout: {x: 2, class: wire}"}, "levels[1].fanout.class: 'length' is missing"),
        ({"glb": "fanout: {x: 2, class: SRAM}"}, "the class 'SRAM' is none of a fanout; classes here: wire, network"),
        ({"mac": ", attributes: {format: fp8}"}, "'fp8' is no format of the class 'intmac'; formats: int4 to int32"),
        ({"mac": ", attributes: {bits: 64}"}, "no published energy for the number format 'int64'"),
    ],
)
def test_components__refuse(machine, keys, message):
    assert message in refused(machine, **keys)


def test_components__need_a_clock_for_leakage_unless_it_is_given(machine, tmp_path):
    machine(glb="energy: {leak: 0 pJ, source: assumed}")
    text = (tmp_path / "m.yaml").read_text().replace("  clock: 500 MHz\n", "")
    (tmp_path / "m.yaml").write_text(text)
    assert load_architecture(tmp_path / "m.yaml").energy.energy_pj("GLB", "*", "leak") == 0
    (tmp_path / "m.yaml").write_text(text.replace("energy: {leak: 0 pJ, source: assumed}", ""))
    with pytest.raises(InputError, match="leakage in a cycle needs the machine's clock"):
        load_architecture(tmp_path / "m.yaml")


@pytest.mark.parametrize(("key", "wrong"), [("technology", "45 um"), ("clock", "0 MHz")])
def test_components__what_cannot_be_read_is_not_missing_too(machine, tmp_path, key, wrong):
    machine()
    text = (tmp_path / "m.yaml").read_text()
    given = next(line for line in text.splitlines() if key in line)
    (tmp_path / "m.yaml").write_text(text.replace(given, f"  {key}: {wrong}"))
    with pytest.raises(InputError) as error:
        load_architecture(tmp_path / "m.yaml")
    assert [str(problem).split(": ")[1] for problem in error.value.problems] == [key]


def test_accelergy__a_table_that_is_absent_is_told_where_it_is_named(machine, tmp_path):
    assert refused(machine, table="{ert: none.yaml, art: nor.yaml}").splitlines() == [
        f"{tmp_path}/m.yaml:5:23: energy_table.ert: none.yaml: no such file",
        f"{tmp_path}/m.yaml:5:39: energy_table.art: nor.yaml: no such file",
    ]


def test_accelergy__takes_energies_and_areas_by_name(machine):
    """Of the rows of an action the largest; `leak` is a cycle's; `rename` for the MAC."""
    found = machine(table="{ert: ERT.yaml, art: ART.yaml, rename: {MAC: mac}}", glb="fanout: {x: 4, class: noc}")
    energy = {
        (component, action): found.energy.find(component, "*", action).energy_pj
        for component, action in (
            ("GLB", "read"),
            ("GLB", "write"),
            ("GLB", "leak"),
            ("DRAM", "read"),
            ("MAC", "compute"),
        )
    }
    assert list(energy.values()) == [4.82, 4.494, 0.000271, 512, 1.2]
    assert found.energy.energy_pj("GLB network", "*", "transfer") == 0.4
    assert found.energy.find("GLB", "*", "read").source == "ERT.yaml:4"
    assert "largest of 2" in found.energy.find("GLB", "*", "read").formula
    assert found.areas["GLB"].area_um2 == 4100.5
    assert found.energy_notes == ()


def test_accelergy__says_what_did_not_match(machine):
    found = machine(table="{ert: ERT.yaml, rename: {MAC: system.chip.PE.mac, PE: GLB}}")
    assert found.energy_notes == (
        "ERT.yaml: not matched with any part of the machine: system.chip.noc",
        "`rename`: no part of the machine is called PE",
    )
    assert "ERT.yaml has no component 'MAC'; did you mean 'mac'?" in refused(machine, table="{ert: ERT.yaml}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ERT_summary: {version: 0.4}", "e.yaml:1:1: not an Accelergy ERT; this is a summary; give ERT.yaml"),
        ("a: 1", "not an Accelergy ERT; expected `ERT: {version: …, tables: […]}`"),
        ("ERT: {tables: {}}", "e.yaml:1:6: expected a list of tables, got an empty mapping"),
        ("ERT: {tables: [{actions: []}]}", "expected a table with a `name`"),
        ("ERT: {tables: [{name: a}]}", "expected a list of `actions`"),
        ("ERT: {tables: [{name: a, actions: [read]}]}", "expected an action with a `name` and an `energy`"),
        ("ERT: {tables: [{name: a, actions: [{name: read, energy: -1}]}]}", "expected a number from 0 on, got '-1'"),
    ],
)
def test_accelergy__refuses(tmp_path, text, message):
    (tmp_path / "e.yaml").write_text(text)
    problems = Problems()
    assert read_accelergy(tmp_path / "e.yaml", None, {}, problems) is None
    assert message in str(problems.found[0])


def test_accelergy__is_ambiguous_where_two_places_end_alike(tmp_path):
    text = "ERT: {tables: [{name: a.GLB, actions: []}, {name: b.GLB, actions: []}]}"
    (tmp_path / "e.yaml").write_text(text)
    tables = read_accelergy(tmp_path / "e.yaml", None, {}, Problems())
    part = Component("GLB", "SRAM", "", {}, ("read",), {"read": 16})
    assert "several components 'GLB': a.GLB, b.GLB" in tables.find(part).problems[0][0]


def test_accelergy__reads_the_reference_tables(tmp_path, shared):
    """Each reference component, written as an ERT again, gives its largest read energy."""
    with (shared / "data" / "energy" / "ert_from_refs.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["read_pJ"]][:40]
    for row in rows:
        actions = [entry.rpartition("=") for entry in row["actions"].split(";")]
        lines = "".join(f"    - {{name: {name.partition('[')[0]}, energy: {pj}}}\n" for name, _, pj in actions)
        (tmp_path / "e.yaml").write_text(f"ERT:\n  tables:\n  - name: s.{row['component']}\n    actions:\n{lines}")
        found = read_accelergy(tmp_path / "e.yaml", None, {}, Problems())
        part = Component(row["component"], "SRAM", "", {}, ("read",), {"read": 16})
        reads = [float(pj) for name, _, pj in actions if name.partition("[")[0] == "read"]
        assert found.find(part).energies["*", "read"].energy_pj == max(reads)


class FakeModel:
    """As a model of hwcomponents looks from outside: energies in J, area in m2, leakage in W."""

    area, leak_power = 2e-9, 1e-6

    def get_action_names(self):
        return ["read", "write", "multiply"]

    def read(self):
        return SimpleNamespace(energy=3e-12)

    write = multiply = read


def test_hwcomponents__are_asked_in_their_units():
    asked = {}

    def get_model(component, attributes):
        asked[component] = attributes
        return FakeModel()

    models = Hwcomponents(get_model, "1.0")
    part = Component("GLB", "SRAM", "45 nm", {"size": "524288 bit", "word": "16 bit", "n_banks": "2"},
                ("read", "update", "leak"), {"read": 64, "update": 64}, {}, 1e9)  # fmt: skip
    found = models.find(part)
    assert asked["SRAM"] == {"size": 524288, "n_banks": 2, "tech_node": 45e-9, "width": 64}
    assert {key[1]: entry.energy_pj for key, entry in found.energies.items()} == pytest.approx(
        {"read": 3, "update": 3, "leak": 1e-3}
    )
    assert found.area.area_um2 == pytest.approx(2000)
    compute = models.find(Component("MAC", "m", "45 nm", {}, ("compute",), {}))
    assert compute.energies["*", "compute"].formula == "action multiply"
    wrong = models.find(Component("MAC", "m", "45 nm", {"action": "add"}, ("compute",), {}))
    assert "no action 'add', only read, write, multiply" in wrong.problems[0][0]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("Can not find a model\nLogs:\n| SRAM:\n|  | Calling it\n|  | Exception: CACTI failed\n|  | Exception: again",
         "'sram': Exception: CACTI failed"),
        ("Component sram is not initialized.\n\tSRAM\n\tArgument for ['sram'] is missing: width.",
         "'sram': Argument for ['sram'] is missing: width"),
        ("\nComponent sram is unknown. Supported components: adc, adder", "'sram': Component sram is unknown"),
        ("", "'sram': RuntimeError"),
    ],
)  # fmt: skip
def test_hwcomponents__their_reason_is_passed_on(raised, told):
    def get_model(component, attributes):
        raise RuntimeError(raised)

    ((what, _),) = Hwcomponents(get_model, "1.0").find(Component("GLB", "sram", "", {}, ("read",), {})).problems
    assert what == f"hwcomponents has no figure for the class {told}"


def test_hwcomponents__are_missed_with_a_hint(machine):
    try:
        import hwcomponents  # noqa: F401
    except (ImportError, SyntaxError):
        assert "pip install 'accelsim[hwcomponents]'" in refused(machine, table="hwcomponents")
    else:
        pytest.skip("hwcomponents is installed")


def test_page__shows_a_machine_that_is_read(tmp_path):
    """The complete example of docs/energy.md."""
    page = (REPOSITORY / "docs" / "energy.md").read_text(encoding="utf-8")
    text = page.partition("```yaml\narchitecture:")[2].partition("```")[0]
    (tmp_path / "m.yaml").write_text(f"architecture:{text}")
    found = load_architecture(tmp_path / "m.yaml")
    assert found.area_um2 is not None
    assert all(found.energy.find(part, "*", "transfer") for part in ("Buffer network",))


def test_energy_command__shows_formulas_sources_and_area(machine, tmp_path, run):
    machine()
    code, out, _ = run("show", str(tmp_path / "m.yaml"))
    assert code == 0
    assert "GLB read: 25.869 pJ: one bank of 64 KiB with 64 bits at 45 nm" in out
    assert "Area" in out
    assert "sum" in out
    assert "Peak power" in out
    assert "Error of the interpolation" in out
    assert "with each point of the grid left out" in " ".join(out.split())


def test_map__shows_the_area_that_is_known(machine, tmp_path, run):
    found = machine(glb="area: 2 mm2")
    (tmp_path / "g.yaml").write_text("workload: {name: g, layers: [{name: a, gemm: {M: 4, N: 4, K: 4}}]}")
    arguments = ("map", str(tmp_path / "m.yaml"), str(tmp_path / "g.yaml"))
    code, out, _ = run(*arguments)
    assert code == 0
    assert re.search(rf"(?m)^area +{found.area_um2 / 1e6:.4g} mm2 +all levels and compute units$", out)
    code, out, _ = run(*arguments, "--json")
    assert {row["component"]: row["area_um2"] for row in json.loads(out)["area"]}["GLB"] == 2e6
    assert json.loads(out)["area_um2"] == found.area_um2


def test_area__of_a_part_without_a_source_is_said_to_be_unknown(tmp_path, run):
    own = "class: a, word: 16 bit, energy: {read: 1 pJ, write: 1 pJ}"
    mac = "{class: mac, energy: {compute: 1 pJ}, area: 1 mm2}"
    levels = f"[{{name: DRAM, {own}}}, {{name: GLB, {own}, size: 64 B, area: 2 mm2}}]"
    (tmp_path / "m.yaml").write_text(f"architecture: {{name: m, levels: {levels}, compute: {mac}}}")
    (tmp_path / "g.yaml").write_text("workload: {name: g, layers: [{name: a, gemm: {M: 4, N: 4, K: 4}}]}")
    arguments = ("map", str(tmp_path / "m.yaml"), str(tmp_path / "g.yaml"))
    assert re.search(r"(?m)^area +3 mm2 +without DRAM, whose area is unknown$", run(*arguments)[1])
    document = json.loads(run(*arguments, "--json")[1])
    assert [row["area_um2"] for row in document["area"]] == [None, 2e6, 1e6]
    assert document["area_um2"] is None


def test_peak__of_a_machine_by_hand():
    """Peak of Eyeriss at 200 MHz: 5 reads and 4 writes of 15 pJ; 168 x (3 reads + 1 update) of 1 pJ; 168 x 2 pJ."""
    rows = {row["component"]: row for row in peak_rows(load_architecture("eyeriss_jssc"))}
    powers = {name: row["power_w"] for name, row in rows.items()}
    assert powers == pytest.approx({"DRAM": 1.2 * 460 * 2e-4, "GLB": 0.027, "SPAD": 0.1344, "MAC": 0.0672})


def test_peak__of_ports_moves_their_words_in_accesses_of_blocks():
    """An access of DRAM moves 4 words, of each of two GLBs 2: 8 / 4 x 30 pJ, and (6 x 3 + 2 x 5) / 2 pJ twice."""
    dram = {"name": "DRAM", "word": "16 bit", "block_size": 4, "bandwidth": "8 words/cycle", "fanout": {"x": 2}}
    glb = {"name": "GLB", "word": "16 bit", "block_size": 2, "size": "1 KiB"}
    glb |= {"read_bandwidth": "6 words/cycle", "write_bandwidth": "2 words/cycle"}
    energies = ({"read": "10 pJ", "write": "30 pJ"}, {"read": "3 pJ", "write": "5 pJ", "leak": "7 pJ"})
    levels = [level | {"energy": energy} for level, energy in zip((dram, glb), energies, strict=True)]
    compute = {"name": "MAC", "energy": {"compute": "1 pJ"}}
    machine = load_architecture({"architecture": {"name": "m", "levels": levels, "compute": compute}})
    peaks = {(row["component"], row["how"] == "leakage"): row["pj_per_cycle"] for row in peak_rows(machine)}
    assert peaks == {("DRAM", False): 60, ("GLB", False): 28, ("GLB", True): 14, ("MAC", False): 2}
    rows = {(row["component"], row["action"]): row for row in energy_rows(machine)}
    reads = [rows[name, "read"] for name in ("DRAM", "GLB")]
    assert [(row["pj_per_word"], row["pj_per_bit"]) for row in reads] == [(10 / 4, 10 / 64), (3 / 2, 3 / 32)]


def test_peak__networks_share_and_levels_that_are_not_asked_have_none():
    """NVDLA's accumulators: 32 of them, one sum a cycle for 64 MACs that a tree adds. Ports of Simba are unlimited."""
    rows = {row["component"]: row for row in peak_rows(load_architecture("nvdla_large"))}
    found = [row for row in energy_rows(load_architecture("nvdla_large")) if row["component"] == "CACC"]
    energy = {row["action"]: row["energy_pj"] for row in found}
    assert rows["CACC"]["pj_per_cycle"] == pytest.approx(32 * (energy["read"] + energy["update"]))
    simba = {row["component"]: row["pj_per_cycle"] for row in peak_rows(load_architecture("simba_like"))}
    assert (simba["GlobalBuffer"], simba["PEWeightBuffer"]) == (None, None)


def test_peak__has_leakage_of_all_instances_and_no_power_without_a_clock(machine):
    found = machine()
    (leak,) = (row for row in peak_rows(found) if (row["component"], row["how"]) == ("GLB", "leakage"))
    assert leak["pj_per_cycle"] == found.energy.energy_pj("GLB", "*", "leak") * found.instances(1)
    assert all(row["power_w"] is None for row in peak_rows(replace(found, clock_hz=None)))


def test_an_estimator_of_ones_own__takes_the_place_of_the_table():
    """Energies in the file come first; what it does not answer is missing, as with a table."""

    class Mine:
        name, complete = "mine", False

        def find(self, part):
            entries = {("*", action): EnergyEntry(len(part.name), self.name) for action in part.actions}
            return ComponentFigures({key: entry for key, entry in entries.items() if key[1] in self.known})

        def notes(self):
            return ("by the length of the name",)

    estimator = Mine()
    estimator.known = ("read", "write", "compute")
    text = MACHINE.format(
        table="reference_45nm", dram="energy: {read: 7 pJ, source: test}, ", glb="bandwidth: 1 word/cycle", mac=""
    )
    machine = load_architecture(text, estimator=estimator)
    found = [
        machine.energy.energy_pj(*key) for key in (("DRAM", "*", "read"), ("DRAM", "*", "write"), ("GLB", "*", "read"))
    ]
    assert (found, machine.energy_notes) == ([7, 4, 3], ("by the length of the name",))
    estimator.known = ("read", "write")
    with pytest.raises(InputError, match="no energy for 'compute' here, and the energy table 'mine' has none either"):
        load_architecture(text, estimator=estimator)
