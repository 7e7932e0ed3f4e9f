"""Energy tables: which entry a component gets, and from where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim import load_workload
from accelsim.designs.soc import _doing
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.energies import EnergyEntry, EnergyTable, spelt
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.machine_tables import energy_rows
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from accelsim.show.report.headline import wider_operands
from tests.conftest import load_energy_table

TABLE = """
energy_table:
  name: t
  entries:
    - {class: DRAM, attributes: {type: LPDDR4}, energy: {read: 8 pJ/bit, write: 4 pJ/bit}, source: LP}
    - {class: DRAM, energy: {read: 100 pJ, write: 100 pJ}, source: any}
    - {class: SRAM, energy: {read: 9 pJ, write: 9 pJ}, source: any}
    - {class: SRAM, technology: 65 nm, energy: {read: 6 pJ, write: 6 pJ, update: 7 pJ, leak: 1 fJ}, source: node}
    - class: SRAM
      technology: 65 nm
      attributes: {size: 2 KiB}
      energy: {read: {Weights: 1 pJ, Inputs: 2 pJ, Outputs: 3 pJ}, write: 4 pJ}
      source: sized
    - class: SRAM
      technology: 65 nm
      attributes: {size: 2 KiB, word: 8 bit, block_size: 4}
      energy: {read: 5 pJ, write: 5 pJ}
      source: all
    - {class: mac, attributes: {bits: 16}, energy: {compute: 1 pJ}, source: MAC}
"""


@pytest.fixture
def energies(tmp_path):
    """Energy table of a machine with one SRAM, given the text of its keys."""
    (tmp_path / "t.yaml").write_text(TABLE)

    def energies(
        sram: str = "size: 1 KiB, word: 16 bit", top: str = "technology: 65 nm", dram: str = ""
    ) -> EnergyTable:
        (tmp_path / "a.yaml").write_text(
            f"""architecture:
  name: a
  {top}
  energy_table: t.yaml
  levels:
    - {{name: DRAM, class: DRAM, word: 16 bit, {dram}}}
    - {{name: GLB, class: SRAM, {sram}}}
  compute: {{class: mac, attributes: {{bits: 16}}}}
"""
        )
        return load_architecture(tmp_path / "a.yaml").energy

    return energies


def test_load_energy_table__keeps_what_the_file_says(tmp_path):
    (tmp_path / "t.yaml").write_text(TABLE)
    table = load_energy_table(tmp_path / "t.yaml")
    assert (table.name, len(table.entries)) == ("t", 7)
    sized = table.entries[4]
    assert (sized.component, sized.technology, sized.attributes) == ("SRAM", "65 nm", {"size": "16384 bit"})
    assert sorted(sized.energies) == [("*", "write"), ("Inputs", "read"), ("Outputs", "read"), ("Weights", "read")]


def test_matching__takes_the_entry_with_the_most_attributes(energies):
    assert energies().find("GLB", "Inputs", "read") == EnergyEntry(6.0, "node")
    assert energies(top="technology: 45 nm").find("GLB", "Inputs", "read") == EnergyEntry(9.0, "any")
    assert energies("technology: 45 nm, size: 1 KiB, word: 16 bit").find("GLB", "Inputs", "read") == EnergyEntry(
        9.0, "any"
    )
    assert energies("size: 2048 B, word: 16 bit").find("GLB", "Inputs", "read") == EnergyEntry(2.0, "sized")
    assert energies("size: 2 KiB, word: 1 B, block_size: 4").find("GLB", "Inputs", "read") == EnergyEntry(5.0, "all")


def test_matching__lets_attributes_stand_in_for_the_size(energies):
    sram = "size: 64 KiB, word: 16 bit, attributes: {size: 2 KiB}"
    assert energies(sram).find("GLB", "Outputs", "read") == EnergyEntry(3.0, "sized")


def test_matching__adds_up_partitions(energies):
    sram = "size: {Weights: 1 KiB, Inputs: 512 B, Outputs: 512 B}, word: 16 bit"
    assert energies(sram).find("GLB", "Weights", "read") == EnergyEntry(1.0, "sized")


def test_energy__per_bit_is_that_of_one_access(energies):
    """8 pJ/bit x 16 bit x 4 words an access = 512 pJ."""
    table = energies(dram="attributes: {type: LPDDR4}, block_size: 4")
    assert table.energy_pj("DRAM", "Weights", "read") == 512.0
    assert table.energy_pj("DRAM", "Weights", "update") == 256.0


def test_energy__given_at_the_level_goes_before_the_table(energies):
    table = energies(
        "size: 1 KiB, word: 16 bit, energy: {write: {Weights: 1 pJ, Inputs: 2 pJ, Outputs: 3 pJ}, source: me}"
    )
    assert table.find("GLB", "Inputs", "read") == EnergyEntry(6.0, "node")
    assert table.find("GLB", "Inputs", "write") == EnergyEntry(2.0, "me")
    assert table.find("GLB", "Outputs", "update") == EnergyEntry(3.0, "me")
    assert table.find("GLB", "*", "leak") == EnergyEntry(0.001, "node")


def test_energy__names_file_and_line_where_no_source_is_given(energies):
    table = energies("size: 1 KiB, word: 16 bit, energy: {read: 1 pJ}")
    assert table.find("GLB", "Inputs", "read") == EnergyEntry(1.0, "a.yaml:7")


def test_energy__of_a_value_for_all_roles_replaces_the_values_by_role(energies):
    table = energies("size: 2 KiB, word: 16 bit, energy: {read: 7 pJ}")
    assert {table.energy_pj("GLB", role, "read") for role in ("Weights", "Inputs", "Outputs")} == {7.0}


def test_energy__of_a_network_is_that_of_a_word(energies):
    """0.1 pJ/bit x 16 bit = 1.6 pJ a word, whatever the block size."""
    table = energies(
        "size: 1 KiB, word: 16 bit, block_size: 4, fanout: {x: 4, energy: {transfer: 0.1 pJ/bit, source: wire}}"
    )
    assert table.find("GLB network", "Weights", "transfer") == EnergyEntry(1.6, "wire")
    assert table.find("DRAM network", "Weights", "transfer") is None


def test_transfer__may_differ_by_role_and_a_level_without_storage_has_no_size(tmp_path):
    """A converter between two levels takes its energy of each word that passes, of its roles alone."""
    text = """
architecture:
  name: analog
  levels:
    - {name: DRAM, class: x, word: 8 bit, energy: {read: 10 pJ, write: 10 pJ}}
    - {name: DAC, class: dac, word: 8 bit, bypass: [Weights, Inputs, Outputs],
       fanout: {x: 4, energy: {transfer: {Inputs: 2 pJ, Outputs: 0.5 pJ/bit}}}}
    - {name: Cell, class: x, size: 64 B, word: 8 bit, energy: {read: 0 pJ, write: 0 pJ}}
  compute: {class: x, energy: {compute: 0 pJ}}
"""
    machine = load_architecture(text)
    layer = load_workload({"workload": {"name": "w", "gemm": {"M": 4, "N": 3, "K": 5}}}).layers[0]
    levels = (
        LevelMapping("DRAM", (Loop("N", 3),), keep=frozenset({"Inputs", "Weights", "Outputs"})),
        LevelMapping("DAC", x=(Loop("M", 4),)),
        LevelMapping("Cell", (Loop("K", 5),), keep=frozenset({"Inputs", "Weights", "Outputs"})),
    )
    result = evaluate(machine, layer, Mapping(levels))
    of = {row["tensor"]: row["energy_pj"] for row in result.energy_rows() if row["component"] == "DAC network"}
    assert of == {"Inputs": 2 * 20, "Outputs": 4 * 12}
    text = text.replace("bypass: [Weights, Inputs, Outputs]", "bypass: [Weights, Inputs]")
    with pytest.raises(InputError, match="'size' is missing"):
        load_architecture(text)


def test_find__falls_back_from_update_to_write():
    table = EnergyTable({("L", "*", "write"): EnergyEntry(1, "s"), ("L", "Outputs", "update"): EnergyEntry(2, "s")})
    assert table.energy_pj("L", "Inputs", "update") == 1
    assert table.energy_pj("L", "Outputs", "update") == 2
    with pytest.raises(AccelsimError, match="no energy for action 'read' of component L"):
        table.energy_pj("L", "Inputs", "read")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{class: SRAM, energy: {read: 1 pJ}}", "entries[0]: 'source' is missing"),
        ("{class: SRAM, source: s}", "entries[0]: 'energy' is missing"),
        ("{class: SRAM, source: s, energy: {leak: 1 pJ/bit}}", "'leak' has no energy per bit"),
        ("{class: SRAM, source: s, energy: {leak: {Inputs: 1 pJ}}}", "expected an energy like '0.8 pJ', got a mapping"),
        ("{class: SRAM, source: s, energy: {read: 1}}", "'1' has no unit; write it like '0.8 pJ'; units: fJ, pJ"),
        ("{class: SRAM, source: s, energy: {read: {Weight: 1 pJ}}}", "did you mean 'Weights'?"),
        ("{class: SRAM, source: s, energy: {read: 1 pJ}, technology: old}", "'old' is not a number with a unit"),
        ("{class: SRAM, source: s, energy: {read: 1 pJ}, attributes: {size: [1]}}", "expected text, got a list"),
        ("{class: SRAM, source: '', energy: {read: 1 pJ}}", "expected text, got nothing"),
    ],
)
def test_load_energy_table__refuses(tmp_path, entry, message):
    (tmp_path / "t.yaml").write_text(f"energy_table: {{name: t, entries: [{entry}]}}\n")
    with pytest.raises(InputError) as error:
        load_energy_table(tmp_path / "t.yaml")
    assert message in str(error.value)


def test_load_architecture__reports_the_mistakes_of_its_table(tmp_path, energies):
    energies()
    (tmp_path / "t.yaml").write_text("energy_table: {name: t, entries: [{class: SRAM}]}\n")
    with pytest.raises(InputError) as error:
        load_architecture(tmp_path / "a.yaml")
    assert {problem.mark.file for problem in error.value.problems} == {str(tmp_path / "t.yaml")}


@given(st.integers(1, 2**40))
def test_spelt__makes_equal_sizes_equal(size):
    assert spelt(f"{size} KiB") == spelt(f"{size * 1024} B") == f"{size * 8192} bit"
    assert spelt(str(size)) == str(size)


FORMATS = """architecture:
  name: a
  levels:
    - {name: DRAM, word: 4 bit, energy: {read: 1 pJ, write: 1 pJ}}
    - {name: BUF, size: 64 B, word: 4 bit, energy: {read: 1 pJ, write: 1 pJ}}
  compute: {energy: {compute: {8 bit: 0.25 pJ, 4 bit: 0.125 pJ, 16 bit: 1 pJ}, source: test}}
"""
LAYERS = """workload:
  name: mixed
  layers:
    - {name: four, bits: 4, gemm: {M: 4, N: 2, K: 4}}
    - {name: eight, bits: {Weights: 4, Inputs: 8, Outputs: 16}, gemm: {M: 4, N: 2, K: 4}}
    - {name: twelve, bits: {Weights: 12, Inputs: 4, Outputs: 4}, gemm: {M: 4, N: 2, K: 4}}
    - {name: wide, bits: 17, gemm: {M: 4, N: 2, K: 4}}
"""


def test_compute__takes_the_energy_of_the_narrowest_format_that_holds_the_widest_input(tmp_path):
    (tmp_path / "a.yaml").write_text(FORMATS)
    (tmp_path / "w.yaml").write_text(LAYERS)
    machine, layers = load_architecture(tmp_path / "a.yaml"), load_workload(tmp_path / "w.yaml").layers
    costs = [map_einsum(machine, layer, uneven=False).best.compute_pj for layer in layers[:3]]
    assert costs == [32 * 0.125, 32 * 0.25, 32 * 1.0]
    assert [row["role"] for row in energy_rows(machine) if row["action"] == "compute"] == ["4 bit", "8 bit", "16 bit"]
    assert _doing(machine, 3).mac_pj(layers[1]) == 0.75
    with pytest.raises(
        AccelsimError, match="wide: MAC has no energy of a multiply-accumulate of operands of 17 bit, only"
    ):
        map_einsum(machine, layers[3], uneven=False)


MULTIPLIERS = """architecture:
  name: a
  energy_table: t.yaml
  levels:
    - {name: DRAM, word: 4 bit, energy: {read: 1 pJ, write: 1 pJ}}
    - {name: BUF, size: 64 B, word: 4 bit, energy: {read: 1 pJ, write: 1 pJ}}
  compute: {class: intmac, attributes: {format: int8}}
"""
WIDTHS = """energy_table:
  name: t
  entries:
    - {class: intmac, attributes: {format: int8}, energy: {compute: 0.25 pJ}, source: test}
    - {class: intmac, attributes: {format: int16}, energy: {compute: 1 pJ}, source: test}
    - {class: intmac, attributes: {bits: 8}, energy: {compute: 0.5 pJ}, source: test}
    - {class: intmac, attributes: {bits: 16}, energy: {compute: 2 pJ}, source: test}
    - {class: fpmac, energy: {compute: 3 pJ}, source: test}
"""


CHARGED = "MAC is 8 bit wide: wider operands are charged as an operation of 16 bit, at the same rate"


@pytest.mark.parametrize(
    ("unit", "pj", "report"),
    [
        ("class: intmac, attributes: {format: int8}", [0.25, 0.25, 1.0, None], CHARGED),
        ("class: intmac, attributes: {bits: 8}", [0.5, 0.5, 2.0, None], CHARGED),
        ("class: fpmac, attributes: {format: fp16}", [3.0, 3.0, 3.0, None], ""),  # what a table has for all is of these
        ("class: intmac, attributes: {format: int8}, energy: {compute: 5 pJ}", [5.0, 5.0, 5.0, 5.0], ""),
        ("energy: {compute: 5 pJ}", [5.0, 5.0, 5.0, 5.0], ""),  # they say no width
    ],
)
def test_multipliers__charge_wider_operands_as_units_of_their_width_do(tmp_path, unit, pj, report):
    """And narrower ones, 4 bit, as the units themselves."""
    (tmp_path / "t.yaml").write_text(WIDTHS)
    (tmp_path / "w.yaml").write_text(LAYERS)
    (tmp_path / "a.yaml").write_text(MULTIPLIERS.replace("class: intmac, attributes: {format: int8}", unit))
    machine, layers = load_architecture(tmp_path / "a.yaml"), load_workload(tmp_path / "w.yaml").layers
    for layer, each in zip(layers, pj, strict=True):
        if each is None:
            with pytest.raises(
                AccelsimError, match=f"only of .* bit; add `{layer.operand_bits} bit: … pJ`, or write fewer"
            ):
                machine.mac_pj(layer)
        else:
            assert machine.mac_pj(layer) == each
    assert wider_operands(machine, layers[2:3]) == ([report] if report else [])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("8 bit:", "8:", "a.yaml:6:32: compute.energy.compute: '8' has no unit; write it like '128 KiB' or '16 bit'"),
        ("8 bit:", "2 B:", "a.yaml:6:63: compute.energy.compute: a second energy for 16 bit"),
        ("0.25 pJ", "-1 pJ", "a.yaml:6:39: compute.energy.compute.8 bit: '-1 pJ' is negative"),
        ("0.25 pJ", "1 pJ/bit", "a.yaml:6:39: compute.energy.compute.8 bit: 'compute' has no energy per bit"),
        ("{8 bit: 0.25 pJ, 4 bit: 0.125 pJ, 16 bit: 1 pJ}", "{}", "a.yaml:6:31: compute.energy.compute: expected an"),
    ],
)
def test_compute__refuses_formats(tmp_path, old, new, message):
    (tmp_path / "a.yaml").write_text(FORMATS.replace(old, new))
    with pytest.raises(InputError) as error:
        load_architecture(tmp_path / "a.yaml")
    assert message in str(error.value)
