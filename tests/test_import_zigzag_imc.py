"""ZigZag's arrays that compute in memory, beside what ZigZag says that they cost."""

from __future__ import annotations

import pytest

from accelsim import load_workload
from accelsim.importers.foreign import read_foreign
from accelsim.search.mapper import map_einsum
from tests.test_import_zigzag import GEMM, hardware, machine_of, register


@pytest.mark.parametrize(
    ("kind", "pj"), [("analog, adc_resolution: 3", 0.3008757150000001), ("digital", 0.2705298749999999)]
)
def test_array_alone__takes_for_a_mac_in_full_use_what_zigzag_says(imported, kind, pj):
    """Energy of a MAC: the peak energy of a cycle of 32 x 32 cells in ZigZag 3.9.1, over its MACs."""
    array = "is_imc: True, input_precision: [8, 8], bit_serial_precision: 2, dimensions: [D1, D2], sizes: [32, 32]"
    foreign = imported(hardware(register("I2"), array=f"{array}, imc_type: {kind}"), GEMM)
    outside, _ = foreign.architecture["levels"]
    assert outside["name"] == "Outside"
    energies = outside["energy"]
    each = [
        energies["read"]["Inputs"],
        energies["update"]["Outputs"],
        foreign.architecture["compute"]["energy"]["compute"],
    ]
    driven, summed, mac = (float(text.split()[0]) for text in each)
    words = (1, 2)  # accesses of 8 bit for an input of 8 bit and a sum of 16
    assert driven * words[0] / 32 + summed * words[1] / 32 + mac == pytest.approx(pj, rel=1e-9)
    machine, (layer,) = machine_of(foreign), load_workload({"workload": foreign.workload}).layers
    assert map_einsum(machine, layer, uneven=False).certificate.proved


def test_analog_array__that_takes_a_bit_at_a_time_has_no_dac(imported):
    """Each of 8 bits drives 32 columns of 8 multipliers, half a NAND of 0.7 fF at 0.9 V each."""
    array = "is_imc: True, imc_type: analog, input_precision: [8, 8], dimensions: [D1, D2], sizes: [32, 32]"
    driven = []
    for bits in (1, 2):
        keys = f"{array}, adc_resolution: 3, bit_serial_precision: {bits}"
        energies = imported(hardware(register("I2"), array=keys), GEMM).architecture["levels"][0]["energy"]
        driven.append(float(energies["read"]["Inputs"].split()[0]))
    multipliers_pj = 0.5 * 0.7e-3 * 0.9**2 * 8 * 32
    assert driven == [pytest.approx(8 * multipliers_pj), pytest.approx(4 * (multipliers_pj + 2 * 50e-3 * 0.9**2))]


ZIGZAG_UJ = {
    "aimc": {
        "dacs": 0.585252864,
        "mults": 2.097512433,
        "adcs": 40.5246,
        "line": 2.0975,
        "placed": 1.8681,
        "sums": 0.8849,
    },
    "dimc": {"mults": 8.3902, "adders": 27.9236, "sums": 1.6961},
}
"""Cost of an array of 128 x 128 in ZigZag 3.9.1, for layer 2 of its `resnet18.yaml` on 64 of its rows and columns."""


def test_analog_array__costs_what_it_costs_in_zigzag(shared):
    path = shared / "foreign/zigzag/hardware/aimc.yaml"
    ours = read_foreign([path]).architecture
    registers = {level["name"]: level for level in ours["levels"]}
    runs, rows, columns = 64 * 64 * 56 * 56 * 9 // 64**2, 64, 64
    driven = float(registers["rf_1B"]["energy"]["read"].split()[0]) - 0.021
    summed = float(registers["rf_2B"]["energy"]["update"]["Outputs"].split()[0]) - 0.021
    theirs = ZIGZAG_UJ["aimc"]
    assert runs * rows * driven / 1e6 == pytest.approx(theirs["dacs"] + theirs["mults"], rel=1e-4)
    assert runs * columns * summed / 1e6 == pytest.approx(
        theirs["adcs"] + theirs["line"] + theirs["placed"] + theirs["sums"], rel=1e-4
    )
    assert ours["compute"]["cycles_per_mac"] == 4


def test_digital_array__costs_what_it_costs_in_zigzag_but_for_idle_columns(shared):
    ours = read_foreign([shared / "foreign/zigzag/hardware/dimc.yaml"]).architecture
    registers = {level["name"]: level for level in ours["levels"]}
    runs, rows, columns = 64 * 64 * 56 * 56 * 9 // 64**2, 64, 64
    summed = float(registers["rf_2B"]["energy"]["update"]["Outputs"].split()[0]) - 0.021
    of_mac = float(ours["compute"]["energy"]["compute"].split()[0])
    theirs = ZIGZAG_UJ["dimc"]
    found = runs * columns * (summed + rows * of_mac) / 1e6
    idle = 0.5 * theirs["mults"]  # the 64 columns out of use, whose multipliers ZigZag charges
    assert found == pytest.approx(theirs["mults"] - idle + theirs["adders"] + theirs["sums"], rel=1e-4)
    assert registers["rf_1B"]["energy"]["read"] == "0.021 pJ"
    assert ours["compute"]["cycles_per_mac"] == 8
