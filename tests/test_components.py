"""Component models: against CACTI, published values and laws."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.energy.components import (
    INTERPOLATION_ERROR,
    QUANTITIES,
    axes,
    buffer,
    cacti_grid,
    interpolated,
    sram,
)
from accelsim.energy.estimate import (
    NoEstimateError,
    adder,
    all_published,
    area_factor,
    dram,
    dram_kinds,
    energy_factor,
    mac,
    network,
    register,
    register_file,
    supply_v,
    wire_pj_per_bit,
)
from validation.area import area_study
from validation.sram import leave_one_out, off_grid, sram_study

NODES = st.floats(22, 90)


def read_pj(*what):
    return sram(*what).pj["read"].value


def test_grid__is_what_cacti_gave_the_reference_grid(shared):
    """22 to 65 nm and 32 bits on; its 90 nm and 16 bits are other rows scaled (docs/energy.md)."""
    import csv

    with (shared / "data" / "energy" / "cacti_sram_grid.csv").open() as file:
        rows = list(csv.DictReader(file))
    compared = 0
    for row in rows:
        place = (float(row["tech_nm"]), float(row["size_KiB"]), float(row["width_bits"]))
        if place[0] < 90 and place[2] >= 32:
            names = ("read_pJ", "write_pJ", "leak_mW", "area_mm2", "access_ns", "cycle_ns")
            assert [cacti_grid()[place][name] for name in names] == pytest.approx([float(row[n]) for n in names], 1e-5)
            compared += 1
    assert compared == 196


def test_interpolated__equals_the_grid_at_its_points():
    for place, values in list(cacti_grid().items())[::17]:
        nearby = (place[0], place[1] * (1 + 1e-12), place[2])
        assert all(interpolated(name, place) == values[name] for name in QUANTITIES)
        if place[1] < 4096:
            assert interpolated("read_pJ", nearby) == pytest.approx(values["read_pJ"], rel=1e-6)


@given(NODES, st.floats(0.5, 4096), st.floats(32, 512))
def test_interpolated__lies_between_the_extremes_of_the_grid(node, size, width):
    if size * 8192 / width < 64:
        with pytest.raises(NoEstimateError, match="less than 64 rows"):
            interpolated("area_mm2", (node, size, width))
        return
    every = [values["area_mm2"] for values in cacti_grid().values()]
    assert min(every) * 0.9 <= interpolated("area_mm2", (node, size, width)) <= max(every) * 1.1


@pytest.mark.parametrize("place", [(14, 64, 64), (180, 64, 64), (45, 0.25, 32), (45, 8192, 64), (45, 64, 16)])
def test_interpolated__refuses_what_is_outside(place):
    with pytest.raises(NoEstimateError, match="outside the CACTI grid"):
        interpolated("read_pJ", place)


def test_off_grid__is_as_close_to_cacti_as_the_page_says():
    """Median and worst error of each quantity; validation/reports/energy.md has the table."""
    errors: dict[tuple[str, str], list[float]] = {}
    for figure in off_grid():
        errors.setdefault((figure.variant, figure.quantity), []).append(abs(figure.error))
    worst = {key: (round(statistics.median(e), 3), round(max(e), 3)) for key, e in errors.items()}
    assert worst["off the grid", "read energy"] == (0.05, 0.221)
    assert worst["off the grid", "write energy"] == (0.032, 0.216)
    assert worst["off the grid", "area"] == (0.026, 0.166)
    assert worst["other nodes", "read energy"] == (0.013, 0.163)
    assert worst["other nodes", "leakage"] == (0.163, 0.408)


def test_interpolation_error__is_what_the_study_finds():
    names = {"read energy": "reads", "write energy": "writes", "leakage": "leakage", "area": "area"}
    said = []
    for figures in (off_grid(), leave_one_out()):
        errors: dict[str, list[float]] = {}
        for figure in figures:
            errors.setdefault(figure.quantity, []).append(100 * abs(figure.error))
        each = (
            f"{word} {statistics.median(errors[key]):.1f} / {max(errors[key]):.0f} %" for key, word in names.items()
        )
        said.append(", ".join(each))
    assert all(text in INTERPOLATION_ERROR for text in said)
    assert INTERPOLATION_ERROR.index(said[0]) < INTERPOLATION_ERROR.index(said[1])


def test_leave_one_out__uses_neighbours_only():
    """A size in the middle, by hand: the square root of the product of its two neighbours."""
    grid = cacti_grid()
    (found,) = (
        figure
        for figure in leave_one_out()
        if figure.case == "64 KiB, 64 bit, 45 nm"
        and (figure.quantity, figure.variant) == ("read energy", "left out: size")
    )
    assert found.published == grid[45, 64, 64]["read_pJ"]
    assert found.ours == pytest.approx((grid[45, 32, 64]["read_pJ"] * grid[45, 128, 64]["read_pJ"]) ** 0.5)


def test_studies__need_no_records_and_print_no_impossible_figure():
    for study in (sram_study(), area_study()):
        assert study.figures
        for figure in study.figures:
            assert figure.published > 0
            assert figure.ours > 0 or "not modelled" in figure.why
    assert all(f.ours < f.published for f in area_study().figures if f.quantity == "area"), "areas are lower bounds"


def test_sram__wide_accesses_open_banks_side_by_side():
    """1024 bits are two banks of 512, each of half the size."""
    assert read_pj(45, 128, 1024) == pytest.approx(2 * cacti_grid()[45, 64, 512]["read_pJ"])
    assert sram(45, 128, 1024).area_um2.value == pytest.approx(2e6 * cacti_grid()[45, 64, 512]["area_mm2"])


def test_buffer__has_as_many_banks_as_each_of_its_slices_needs():
    """16 MiB of 2048 bit are four slices of 512 bit, of the largest bank each; 32 MiB need two in each."""
    built = [buffer(mib * 1024, 2048) for mib in (16, 32)]
    assert [(each.banks, each.slices, each.bank_kib, each.bank_bit) for each in built] == [
        (1, 4, 4096, 512),
        (2, 4, 4096, 512),
    ]


def test_sram__of_banks_is_a_bank_and_wires():
    """4 x 64 KiB with 64 bits at 45 nm; 15 address bits; wires of 0.75 sqrt(4 x 0.209046 mm2) at 0.121 pJ/bit/mm."""
    bank = cacti_grid()[45, 64, 64]
    wires = (64 + 15) * 0.121 * 0.75 * (4 * bank["area_mm2"]) ** 0.5
    found = sram(45, 256, 64, banks=4)
    assert found.pj["read"].value == pytest.approx(bank["read_pJ"] + wires)
    assert found.leak_mw.value == pytest.approx(4 * bank["leak_mW"])
    assert "4 banks of 64 KiB" in found.pj["read"].formula


def test_sram__larger_than_the_grid_gets_banks():
    assert "6 banks of 4096 KiB" in sram(45, 24 * 1024, 64).pj["read"].formula
    with pytest.raises(NoEstimateError, match="`banks: 6` or more"):
        sram(45, 24 * 1024, 64, banks=5)


def test_sram__below_22_nm_follows_the_stated_rule():
    bank = cacti_grid()[22, 64, 64]
    found = sram(16, 64, 64)
    assert found.pj["read"].value == pytest.approx(bank["read_pJ"] * (16 / 22) ** 0.5)
    assert found.area_um2.value == pytest.approx(bank["area_mm2"] * 1e6 * 16 / 22)
    assert found.leak_mw.value == pytest.approx(bank["leak_mW"] * (16 / 22) ** 0.5 * 0.79)
    assert "IRDS" in found.pj["read"].source
    assert "IRDS" not in sram(22, 64, 64).pj["read"].source


def test_scaling__agrees_with_the_table_of_area_factors():
    """Entries of the paper's table (as in nodeScale and hwcomponents), which has two digits."""
    for start, end, factor in (
        (130, 45, 0.16),
        (90, 32, 0.16),
        (65, 7, 0.039),
        (45, 16, 0.19),
        (32, 20, 0.46),
        (14, 10, 0.59),
    ):
        assert area_factor(start, end) == pytest.approx(factor, rel=0.06)


def test_scaling__of_energy_by_hand():
    """65 nm at 1.1 V: 3.755 x 1.21 - 4.398 x 1.1 + 1.975 = 1.68075; 32 nm at 0.9 V: 0.457138."""
    assert energy_factor(65, 32) == pytest.approx(0.457138 / 1.68075, rel=1e-4)
    assert energy_factor(28, 28) == 1
    assert energy_factor(45, 28) * energy_factor(28, 45) == pytest.approx(1)
    with pytest.raises(NoEstimateError, match="180 to 7 nm"):
        supply_v(5)


def test_mac__of_tf32_multiplies_as_fp16_and_adds_as_fp32():
    """Horowitz, 45 nm: 1.1 and 0.9 pJ; between 32-bit words a product takes 3.7 pJ."""
    assert mac(45, "tf32", "fp32").pj["compute"].value == pytest.approx(1.1 + 0.9)
    assert mac(45, "fp32", "fp32").pj["compute"].value == pytest.approx(3.7 + 0.9)


def test_mac__of_another_node_has_the_area_of_logic_there():
    """Areas were published at 45 nm: 282 um2 of an 8-bit multiplier and 137 of a 32-bit adder."""
    assert mac(45, "int8", "int32").area_um2.value == 282 + 137
    assert mac(32, "int8", "int32").area_um2.value == pytest.approx((282 + 137) * area_factor(45, 32))
    assert register(32, 64, 16).area_um2.value == pytest.approx(64 * 5.98 * area_factor(40, 32))


def test_mac__equals_the_published_values_at_their_nodes():
    assert mac(45, "int8", "int32").pj["compute"].value == pytest.approx(0.2 + 0.1)
    assert mac(45, "fp16", "fp32").pj["compute"].value == pytest.approx(1.1 + 0.9)
    assert mac(7, "bf16", "fp32").pj["compute"].value == pytest.approx(0.21 + 0.38)
    assert mac(45, "int8", "int16").area_um2.value == pytest.approx(282 + 67)
    assert adder(45, "int16").pj["compute"].value == pytest.approx(0.05)


def test_mac__between_widths_lies_on_the_line():
    """int16 from int8 and int32 at 45 nm: 0.2 x (3.1 / 0.2)^(1/2)."""
    assert mac(45, "int16", "int32").pj["compute"].value == pytest.approx(0.2 * 15.5**0.5 + 0.1)
    assert "from other widths" in mac(45, "int4", "int32").pj["compute"].formula


@pytest.mark.parametrize("operand", ["int4", "int8", "int16", "int32", "fp16", "bf16", "tf32", "fp32"])
def test_mac__costs_more_at_an_older_node(operand):
    psum = "int32" if operand.startswith("int") else "fp32"
    energies = [mac(node, operand, psum).pj["compute"].value for node in (7, 10, 16, 28, 45, 65, 90, 130, 180)]
    assert energies == sorted(energies)


@pytest.mark.parametrize("operand", ["fp8", "int2", "int64", "x"])
def test_mac__refuses_formats_without_a_source(operand):
    with pytest.raises(NoEstimateError, match="no published energy for the number format"):
        mac(28, operand, "int32")


def test_dram__is_for_a_bit_and_refuses_unknown_kinds():
    assert {kind: dram(kind, 64).pj["read"].value for kind in ("LPDDR4", "DDR3")} == {"LPDDR4": 512, "DDR3": 4480}
    assert len(dram_kinds()) == 10
    with pytest.raises(NoEstimateError, match=r"no published energy for the DRAM type 'HBM2e'; types: .*HBM2, "):
        dram("HBM2e", 64)


def test_register_file__is_never_cheaper_than_registers():
    assert register_file(65, 512 * 8, 16).pj["read"].value == pytest.approx(0.96, rel=1e-3)
    assert register_file(65, 16 * 8, 16).pj["read"].value == register(65, 16 * 8, 16).pj["read"].value
    with pytest.raises(NoEstimateError, match="use the class SRAM"):
        register_file(65, 513 * 8, 16)


def test_wire__is_the_published_one_at_its_node():
    """310 pJ for 256 bits over 10 mm."""
    assert 256 * wire_pj_per_bit(40, 10) == pytest.approx(310, rel=2e-3)
    assert wire_pj_per_bit(10, 1) == pytest.approx(0.121 * (0.75 / 0.9) ** 2)


def test_network__of_its_node_by_hand():
    """At 40 nm a hop of a bit: a crossbar, a register that is written and read, and half a millimetre of wire."""
    found = network(40, 3, 0.5, 16).pj["transfer"].value
    assert found == pytest.approx(16 * 3 * (0.02126 + 2 * 0.009 + 0.121 * 0.5))


def test_network__adds_up_hops():
    one, three = network(28, 1, 0.5, 16), network(28, 3, 0.5, 16)
    assert three.pj["transfer"].value == pytest.approx(3 * one.pj["transfer"].value)


def test_published__every_value_has_a_source_and_a_mark():
    for entry in all_published():
        assert entry.source
        assert entry.value > 0
        assert entry.mark in ("file", "secondary", "unverified", "unsure")
        assert entry.mark == "file" or f"[{entry.mark}]" in entry.cited


def test_axes__of_the_grid():
    nodes, sizes, widths = axes(cacti_grid())
    assert nodes == [22, 32, 45, 65, 90]
    assert (sizes[0], sizes[-1], widths) == (0.5, 4096, [32, 64, 128, 256, 512])
