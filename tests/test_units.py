"""Quantities: exact parsing, helpful refusals, and text for people that says the same number."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.inputs import units
from accelsim.inputs.units import Energy, QuantityError, Rate


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("16 bit", 16),
        ("1 B", 8),
        ("24B", 192),
        ("128 KiB", 128 * 1024 * 8),
        ("128 kB", 128 * 1000 * 8),
        ("1.5 KiB", 1536 * 8),
        ("2 KB", 16000),
        ("1 MiB", 8 * 2**20),
        ("1e3 B", 8000),
        (" .5 GiB ", 4 * 2**30),
        (f"{2**62 - 1} bit", 2**62 - 1),
    ],
)
def test_parse_size_bits__is_exact(text, bits):
    assert units.parse_size_bits(text) == bits


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("34 GB/s", Rate(Fraction(34 * 8 * 10**9), "bit", "s")),
        ("0.1 GB / s", Rate(Fraction(8 * 10**8), "bit", "s")),
        ("3 B/cycle", Rate(Fraction(24), "bit", "cycle")),
        ("1 bit/cycle", Rate(Fraction(1), "bit", "cycle")),
        ("1 word/cycle", Rate(Fraction(1), "word", "cycle")),
        ("0.5 words/cycle", Rate(Fraction(1, 2), "word", "cycle")),
    ],
)
def test_parse_rate__is_exact(text, rate):
    assert units.parse_rate(text) == rate


def test_words_per_cycle__needs_a_clock_for_a_rate_per_second():
    """1 GB/s at 200 MHz is 8e9 / 2e8 = 40 bits a cycle, 40 / 16 = 2.5 words."""
    assert units.parse_rate("1 GB/s").words_per_cycle(16, Fraction(200 * 10**6)) == Fraction(5, 2)
    assert units.parse_rate("1 GB/s").words_per_cycle(16, None) is None
    assert units.parse_rate("6 B/cycle").words_per_cycle(16, None) == 3
    assert units.parse_rate("6 words/cycle").words_per_cycle(16, None) == 6


def test_parse_energy__is_for_an_action_or_for_a_bit():
    assert units.parse_energy("0.8 pJ") == Energy(Fraction(4, 5))
    assert units.parse_energy("3 fJ/bit") == Energy(Fraction(3, 1000), per_bit=True)
    assert units.parse_energy("8 pJ/bit").of_action_pj(64) == 512.0
    assert units.parse_energy("2 nJ").of_action_pj(64) == 2000.0


def test_parse_frequency_and_technology__spell_one_way():
    assert units.parse_frequency_hz("0.7 GHz") == units.parse_frequency_hz("700 MHz") == 7 * 10**8
    assert units.parse_technology("65nm") == units.parse_technology("65.0 nm") == "65 nm"


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.parse_size_bits, "128 kib", "unknown unit 'kib'; did you mean 'KiB'? units: bit, Kbit, "),
        (units.parse_size_bits, "128", "'128' has no unit; write it like '128 KiB' or '16 bit'; units: bit, "),
        (units.parse_size_bits, "KiB", "'KiB' is not a number with a unit"),
        (units.parse_size_bits, "1,5 KiB", "unknown unit"),
        (units.parse_size_bits, "-1 KiB", "'-1 KiB' is negative"),
        (units.parse_size_bits, "0.1 bit", "'0.1 bit' is not a whole number of bits"),
        (units.parse_size_bits, "1e30 GiB", "'1e30 GiB' is too large"),
        (units.parse_size_bits, f"{2**62} bit", "is too large"),
        (units.parse_size_bits, "1e999999 B", "unknown unit"),
        (units.parse_size_bits, "9" * 5000 + " B", "is not a number with a unit"),
        (
            units.parse_rate,
            "34 GBps",
            "unknown unit 'GBps'; did you mean 'GB/s'? units: words/cycle, or per s or cycle",
        ),
        (units.parse_rate, "0 GB/s", "'0 GB/s' is zero"),
        (units.parse_frequency_hz, "700 mhz", "did you mean 'MHz'? units: Hz, kHz, MHz, GHz"),
        (units.parse_frequency_hz, "0 Hz", "is zero"),
        (units.parse_energy, "1 PJ", "did you mean 'pJ'? units: fJ, pJ, nJ, uJ, fJ/bit"),
        (units.parse_technology, "65 um", "unknown unit 'um'"),
        (units.parse_technology, "0 nm", "is zero"),
    ],
)
def test_parse__refuses_and_says_what_to_write(parse, text, message):
    with pytest.raises(QuantityError) as error:
        parse(text)
    assert message in str(error.value)


@given(st.integers(1, 2**50))
def test_format_bits__reads_back_to_four_digits(bits):
    text = units.format_bits(bits)
    number, unit = text.split()
    read = Fraction(number) * units.SIZE_UNITS[unit]
    assert abs(read - bits) <= Fraction(bits, 1000)
    assert len(number.replace(".", "")) <= 5


@given(st.integers(1, 1023), st.sampled_from(["B", "KiB", "MiB", "GiB"]))
def test_format_bits__is_exact_for_sizes_that_people_write(number, unit):
    assert units.format_bits(number * units.SIZE_UNITS[unit]) == f"{number} {unit}"


@given(st.floats(1e-3, 1e24))
def test_format_si__reads_back_to_three_digits(energy_pj):
    number, unit = units.format_si(energy_pj * 1e-12, "J").split()
    scale = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "J": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    assert float(number) * scale[unit[0]] == pytest.approx(energy_pj * 1e-12, rel=6e-3)
    assert 1 <= float(number) < 1000


@pytest.mark.parametrize(
    ("energy_pj", "text"),
    [
        (0.0, "0 J"),
        (0.8, "800 fJ"),
        (1.0, "1 pJ"),
        (999.9, "1 nJ"),
        (999.4, "999 pJ"),
        (1.234e6, "1.23 uJ"),
        (5e12, "5 J"),
    ],
)
def test_format_si__chooses_the_prefix_after_rounding(energy_pj, text):
    assert units.format_si(energy_pj * 1e-12, "J") == text


def test_near_miss__ignores_case_and_stays_silent_on_strangers():
    assert units.near_miss("dram", ["GLB", "DRAM"]) == "did you mean 'DRAM'?"
    assert units.near_miss("banana", ["GLB", "DRAM"]) == ""


@given(st.text())
def test_quoted__is_one_short_printable_line(text):
    assert units.quoted(text).isprintable()
    assert len(units.quoted(text)) <= 62


def test_rates__of_other_tools_are_fractions_of_small_numbers():
    """9846153846.153845 words of 64 bits a second are 640/13 a cycle at 200 MHz; what is written short stays exact."""
    clock = Fraction(200_000_000)
    assert units.parse_rate("630153846154 bit/s").words_per_cycle(64, clock) == Fraction(640, 13)
    assert units.parse_rate("34 GB/s").words_per_cycle(8, Fraction(933_000_000)) == Fraction(34_000, 933)
    assert units.parse_rate("1 bit/s").words_per_cycle(8, Fraction(10**10)) == Fraction(1, 8 * 10**10)
    assert units.parse_rate("5.333333333333333 words/cycle").words_per_cycle(8, None) == Fraction(16, 3)
    assert units.parse_rate("0.123456789 words/cycle").words_per_cycle(8, None) == Fraction(123456789, 10**9)
