"""Architectures: what a file means, and which machines are refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelsim.inputs.architecture import Axis, Level, load_architecture
from accelsim.inputs.errors import AccelsimError, InputError

ALL = {"Weights", "Inputs", "Outputs"}
ENERGY = "energy: {read: 1 pJ, write: 1 pJ}"
MACHINE = f"""
params: {{glb: 1 KiB}}
architecture:
  name: a
  levels:
    - {{name: DRAM, class: DRAM, word: 16 bit, {ENERGY}}}
    - {{name: GLB, class: SRAM, word: 16 bit, size: $glb, {ENERGY}}}
  compute: {{class: mac, energy: {{compute: 1 pJ}}}}
"""


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Load a machine with DRAM and one inner level, given the text of their keys."""
    path = tmp_path_factory.mktemp("architecture") / "a.yaml"

    def load(
        glb: str = "size: 1 KiB", dram: str = "", top: str = "", compute: str = "class: mac, energy: {compute: 1 pJ}"
    ):
        path.write_text(
            f"""params: {{x: 4}}
architecture:
  name: a
  {top}
  levels:
    - {{name: DRAM, class: DRAM, word: 16 bit, {ENERGY}, {dram}}}
    - {{name: GLB, class: SRAM, word: 16 bit, {ENERGY}, {glb}}}
  compute: {{{compute}}}
"""
        )
        return load_architecture(path, {"x": "6"})

    return load


def test_efficiency__lowers_both_bandwidths_exactly(load):
    glb = load("size: 1 KiB, read_bandwidth: 2 words/cycle, write_bandwidth: 3 B/cycle, efficiency: 0.7").levels[1]
    assert (glb.read_bandwidth, glb.write_bandwidth) == (Fraction(7, 5), Fraction(21, 20))


def test_energies__of_another_size_are_not_kept_unless_asked_for(load):
    """Those of the SRAM follow its size; those of the file hold for any."""
    estimated = load_architecture("eyeriss")
    glb = replace(estimated.levels[1], size_words=1000)
    levels = (estimated.levels[0], glb, *estimated.levels[2:])
    with pytest.raises(AccelsimError, match="the energies of level GLB are those of another size, word or block_size"):
        replace(estimated, levels=levels)
    assert replace(estimated, levels=levels, sized={}).levels[1].size_words == 1000
    given = load()
    assert not given.sized
    assert replace(given, levels=(given.levels[0], replace(given.levels[1], size_words=9))).levels[1].size_words == 9
    per_bit = load_architecture(MACHINE.replace("1 pJ, write", "1 pJ/bit, write"))
    assert per_bit.sized.keys() == {"DRAM", "GLB"}


def test_documents__are_read_from_text_and_from_dicts_as_from_files(tmp_path):
    as_dict = yaml.safe_load(MACHINE)
    path = tmp_path / "m.yaml"
    path.write_text(MACHINE)
    first, *others = map(load_architecture, (MACHINE, as_dict, path))
    assert all(other.levels == first.levels for other in others)
    assert all(other.energy.find("GLB", "*", "read").energy_pj == 1 for other in (first, *others))
    assert load_architecture(as_dict, {"glb": "2 KiB"}).levels[1].size_words == 1024
    as_dict["architecture"]["levels"][1]["bandwith"] = 3
    with pytest.raises(
        InputError, match=r"<architecture>:\d+:\d+: levels\[1\].bandwith: unknown key; did you mean 'bandwidth'"
    ):
        load_architecture(as_dict)
    with pytest.raises(
        AccelsimError, match="the dict of the architecture holds what no file can: cannot represent an object"
    ):
        load_architecture({"architecture": object()})


def test_first_level__may_have_a_size(load):
    machine = load(dram="size: 4 kB")
    assert (machine.levels[0].size_words, machine.levels[0].keep) == (2000, frozenset(ALL))


@pytest.mark.parametrize("share", ["0", "1.1", "-0.5", "80%", "1e-1"])
def test_efficiency__is_a_share(load, share):
    with pytest.raises(InputError, match="efficiency: expected a share above 0, at most 1, got"):
        load(f"size: 1 KiB, bandwidth: 2 words/cycle, efficiency: {share}")


def test_efficiency__needs_a_bandwidth(load):
    with pytest.raises(InputError, match="efficiency: stands without a bandwidth; add `bandwidth: …`"):
        load("size: 1 KiB, efficiency: 0.5")


def test_load_architecture__reads_every_key(load):
    machine = load(
        "size: 64 KiB, block_size: 4, multiple_buffering: 2, read_bandwidth: 2 words/cycle, write_bandwidth: 3 B/cycle,"
        "keep: [Inputs], bypass: [Weights], drain_reads: true,"
        "fanout: {x: {size: $x, multicast: false}, y: 3, spatial_reduction: false}",
        top="technology: 65nm\n  clock: 200 MHz",
        compute="name: ALU, class: mac, cycles_per_mac: 2, energy: {compute: 1 pJ}",
    )
    glb = machine.levels[1]
    assert (machine.technology, machine.clock_hz) == ("65 nm", 200e6)
    assert (glb.name, glb.component, glb.word_bits, glb.size_words) == ("GLB", "SRAM", 16, 32768)
    assert (glb.block_size, glb.multiple_buffering, glb.drain_reads) == (4, 2, True)
    assert (glb.bandwidth, glb.read_bandwidth, glb.write_bandwidth) == (None, 2, Fraction(3, 2))
    assert (glb.keep, glb.bypass) == ({"Inputs"}, {"Weights"})
    assert (glb.x, glb.y) == (Axis(6, False, False), Axis(3, True, False))
    assert (machine.compute.name, machine.compute.component, machine.compute.cycles_per_mac) == ("ALU", "mac", 2)
    assert (machine.instances(1), machine.instances(2), machine.macs) == (1, 18, 18)


def test_first_level__is_unlimited_and_keeps_everything(load):
    dram = load().levels[0]
    assert (dram.size_words, dram.partition_words, dram.bandwidth) == (None, None, None)
    assert (dram.keep, dram.bypass) == (ALL, frozenset())
    assert (dram.x, dram.y, dram.drain_reads) == (Axis(), Axis(), False)


def test_partitions__bypass_the_roles_without_one(load):
    glb = load("size: {Weights: 448 B, Inputs: 24 B}").levels[1]
    assert glb.size_words is None
    assert glb.partition_words == {"Weights": 224, "Inputs": 12}
    assert (glb.keep, glb.bypass) == (frozenset(), {"Outputs"})


def test_size__is_whole_words(load):
    """100 bits hold six words of 16."""
    assert load("size: 100 bit").levels[1].size_words == 6


def test_energy__is_not_needed_for_what_a_level_never_keeps(load):
    inner = "size: 1 KiB, bypass: [Weights, Outputs]"
    machine = load(f"{inner}, fanout: {{x: 1}}, technology: 7 nm, attributes: {{energy: x}}")
    assert machine.energy.find("GLB", "Inputs", "read") is not None


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from([8, 16, 24]))
def test_bandwidth__is_exact(load, rate, clock, word):
    machine = load(f"size: 1 KiB, bandwidth: {rate} KB/s", f"bandwidth: {word} bit/cycle", f"clock: {clock} kHz")
    assert machine.levels[1].bandwidth == Fraction(rate * 8000, clock * 1000 * 16)
    assert machine.levels[0].bandwidth == Fraction(word, 16)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"glb": "bypass: [Weights]"}, "levels[1]: 'size' is missing; only the first level may be unlimited"),
        ({"glb": "size: 0 KiB"}, "levels[1].size: '0 KiB' is zero"),
        ({"glb": "size: -1 KiB"}, "'-1 KiB' is negative"),
        ({"glb": "size: 15 bit"}, "'15 bit' is less than one word of 16 bit"),
        ({"glb": "size: {}"}, "expected a size, or one for each role, got an empty mapping"),
        ({"glb": "size: {Weight: 1 KiB}"}, "size.Weight: unknown key; did you mean 'Weights'?"),
        ({"glb": "size: [1 KiB]"}, "expected a number with a unit, got a list"),
        ({"glb": "size: 1 KiB, keep: Weights"}, "keep: expected a list, got 'Weights'"),
        (
            {"glb": "size: 1 KiB, keep: [weights]"},
            "expected a role (Weights, Inputs, Outputs), got 'weights'; did you mean",
        ),
        ({"glb": "size: 1 KiB, bandwidth: 0 words/cycle"}, "leave it out for an unlimited bandwidth"),
        ({"glb": "size: 1 KiB, read_bandwidth: 1 word/cycle"}, "'write_bandwidth' is missing beside it"),
        ({"glb": "size: 1 KiB, bandwidth: 1 GB/s"}, "'1 GB/s' is per second, but the architecture has no clock"),
        ({"glb": "size: 1 KiB, fanout: 4"}, "fanout: expected a mapping with the keys x, y"),
        ({"glb": "size: 1 KiB, fanout: {z: 4}"}, "fanout.z: unknown key; keys: x, y"),
        ({"glb": "size: 1 KiB, fanout: {x: 0}"}, "fanout.x: must be at least 1, got 0"),
        ({"glb": "size: 1 KiB, fanout: {multicast: yes}"}, "fanout.multicast: expected true or false, got 'yes'"),
        (
            {"glb": "size: 1 KiB, fanout: {energy: {read: 1 pJ}}"},
            "fanout.energy.read: unknown key; keys: transfer, return, hop, source",
        ),
        ({"dram": "size: {Inputs: 1 GiB}"}, "levels[0].size: Outputs is kept but has no partition"),
        ({"dram": "bypass: [Inputs]"}, "levels[0].bypass: the first level keeps everything"),
        (
            {"compute": "class: mac"},
            "no energy table; add `energy: {compute: … pJ}`, or `energy_table: components` to the architecture",
        ),
        ({"compute": "class: mac, energy: {leak: 1 pJ}"}, "compute.energy.leak: unknown key"),
        ({"compute": "name: GLB, class: mac, energy: {compute: 1 pJ}"}, "compute.name: a level is named 'GLB' too"),
        ({"compute": "cycles_per_mac: 0"}, "compute.cycles_per_mac: must be at least 1, got 0"),
        ({"top": "clock: 200"}, "clock: '200' has no unit; write it like '700 MHz'; units: Hz, kHz, MHz, GHz"),
        ({"top": "energy_table: absent"}, "energy_table: absent: no such file, and none of that name is shipped"),
        ({"top": "energy_table: [a]"}, "energy_table: expected text, got a list"),
    ],
)
def test_load_architecture__refuses(load, keys, message):
    with pytest.raises(InputError) as error:
        load(**keys)
    assert message in str(error.value)


def test_class__is_needed_only_to_find_energies_by(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        "architecture:\n"
        "  name: a\n"
        "  levels: [{name: DRAM, word: 8 bit, energy: {read: 1 pJ, write: 2 pJ}}]\n"
        "  compute: {energy: {compute: 3 pJ}}\n"
    )
    machine = load_architecture(path)
    assert machine.energy.energy_pj("DRAM", "Inputs", "update") == 2.0
    assert machine.energy.energy_pj("MAC", "*", "compute") == 3.0
    path.write_text(
        "architecture:\n  name: a\n  energy_table: eyeriss_isca2016\n"
        "  levels: [{name: DRAM, word: 8 bit, energy: {read: 1 pJ}}]\n  compute: {}\n"
    )
    with pytest.raises(InputError) as error:
        load_architecture(path)
    why = "here, and no `class` to find it by in the energy table 'eyeriss_isca2016'; add `class: …`, or `energy: "
    assert f"a.yaml:4:12: levels[0]: no energy for 'write' {why}{{write: … pJ}}`" in str(error.value)
    assert f"a.yaml:5:12: compute: no energy for 'compute' {why}{{compute: … pJ}}`" in str(error.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{}", "a.yaml:1:15: 'levels' is missing"),
        ("{}", "a.yaml:1:15: 'compute' is missing"),
        ("[]", "expected a mapping with the keys name, technology, clock"),
        ("{name: a, levels: [], compute: {}}", "levels: expected a list of levels, outermost first, got an empty list"),
        ("{name: a, levels: [DRAM], compute: {}}", "levels[0]: expected a mapping with the keys name, class"),
        (
            "{name: a b, levels: [{}], compute: {}}",
            "name: expected a name, got 'a b'; use letters, digits and _ . / + -",
        ),
    ],
)
def test_load_architecture__refuses_what_is_none(tmp_path, body, message):
    (tmp_path / "a.yaml").write_text(f"architecture: {body}\n")
    with pytest.raises(InputError) as error:
        load_architecture(tmp_path / "a.yaml")
    assert message in str(error.value)


def test_level__takes_floats_as_the_decimals_that_they_print_as():
    level = Level("L", "SRAM", bandwidth=0.8, compression={"Weights": 0.6})
    assert (level.bandwidth, level.compression) == (Fraction(4, 5), {"Weights": Fraction(3, 5)})
    read = Level("L", "SRAM", read_bandwidth=0.1, write_bandwidth=2)
    assert (read.read_bandwidth, read.write_bandwidth) == (Fraction(1, 10), 2)


def test_area__is_the_sum_of_the_decimals(load):
    """Three instances of 0.1 um2 are 0.3 um2, which doubles add up to more than that."""
    machine = load(
        glb="size: 1 KiB, fanout: {x: 3}, area: 0 um2",
        dram="area: 0 um2",
        compute="class: mac, energy: {compute: 1 pJ}, area: 0.1 um2",
    )
    assert machine.area_um2 == 0.3


def test_load_architecture__finds_a_table_beside_the_file_or_shipped(load, tmp_path):
    table = "energy_table: {name: mine, entries: [{class: mac, energy: {compute: 3 pJ}, source: s}]}\n"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mine.yaml").write_text(table)
    (tmp_path / "a.yaml").write_text(
        "architecture:\n  name: a\n  energy_table: sub/mine.yaml\n"
        f"  levels: [{{name: DRAM, class: DRAM, word: 1 B, {ENERGY}}}]\n  compute: {{class: mac}}\n"
    )
    assert load_architecture(tmp_path / "a.yaml").energy.energy_pj("MAC", "*", "compute") == 3.0
    assert load(top="energy_table: cmos_45nm").name == "a"
