"""Quantities with units: text to exact numbers, and numbers to text for people.

Sizes are in bits, rates in bits or words a second or cycle, frequencies in Hz, energies in pJ.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from accelsim.inputs.errors import HintedError

_POWERS = {"": 0, "K": 1, "k": 1, "M": 2, "G": 3, "T": 4}
SIZE_UNITS = {
    **{f"{prefix}bit": 1000**power for prefix, power in _POWERS.items() if prefix != "T"},
    **{f"{prefix}B": 8 * 1000**power for prefix, power in _POWERS.items()},
    **{f"{prefix}iB": 8 * 1024**power for prefix, power in _POWERS.items() if prefix not in ("", "k")},
}
RATE_UNITS = (*(f"{unit}/{time}" for time in ("s", "cycle") for unit in SIZE_UNITS), "word/cycle", "words/cycle")
FREQUENCY_UNITS = {"Hz": 1, "kHz": 1000, "MHz": 1000**2, "GHz": 1000**3}
ENERGY_UNITS = {"fJ": Fraction(1, 1000), "pJ": Fraction(1), "nJ": Fraction(1000), "uJ": Fraction(10**6)}
ENERGY_RATE_UNITS = tuple(unit + per for per in ("", "/bit") for unit in ENERGY_UNITS)
TIME_UNITS = {"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6)}
AREA_UNITS = {"um2": Fraction(1), "mm2": Fraction(10**6)}
LENGTH_UNITS = {"um": Fraction(1, 1000), "mm": Fraction(1)}
TECHNOLOGY_UNITS = ("nm",)
SIZES, RATES = "bit, B, KiB, MB, …", "GB/s, bit/cycle, B/cycle, words/cycle, …"
ENERGIES, AREAS, DELAYS = "pJ, fJ, nJ, pJ/bit, …", "um2, mm2", "cycles, ns, us"
"""Units as the reference of keys names them."""
LARGEST = 2**62
NUMBER_PATTERN = r"(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?"
_QUANTITY = re.compile(rf"(?P<number>[+-]?{NUMBER_PATTERN})\s*(?P<unit>[^\s0-9.].*)?")
_COUNTED = ("B", "FLOP", "OP")
_PREFIXES = tuple((10.0**power, prefix) for power, prefix in zip(range(12, -18, -3), "TGMk munpf", strict=True))


class QuantityError(HintedError):
    """A quantity that cannot be read."""


def decimal(number: float | Fraction) -> Fraction:
    """A number exactly as it is written in decimals, not the binary fraction that is nearest to it.

    >>> decimal(0.8), Fraction(0.8) == decimal(0.8)
    (Fraction(4, 5), False)
    """
    return Fraction(str(number)) if isinstance(number, float) else Fraction(number)


def parse_decimal(text: str) -> Fraction | None:
    """A number without a unit, exactly; None where the text is none.

    >>> parse_decimal("0.8"), parse_decimal("1/2")
    (Fraction(4, 5), None)
    """
    return Fraction(text) if re.fullmatch(rf"[+-]?{NUMBER_PATTERN}", text) else None


_SMALL, _MANY = 10**6, 10**7
"""Denominator of a rate [words/cycle] at most, where that is exact enough, and up to which it stays as it is."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A bandwidth as written: `amount` of `unit` (`bit` or `word`) for each `time` (`s` or `cycle`)."""

    amount: Fraction
    unit: str
    time: str

    def words_per_cycle(self, word_bits: int, clock_hz: Fraction | None) -> Fraction | None:
        """Words of `word_bits` in a cycle; None where the rate is per second and no clock is known.

        Exact, but for numbers with many digits, such as other tools work out: of these the nearest fraction of small
        numbers, where it differs by 1e-9 at most, so that counts of cycles stay in 64 bits.
        """
        if self.time == "s" and clock_hz is None:
            return None
        per_cycle = self.amount / clock_hz if self.time == "s" and clock_hz is not None else self.amount
        words = per_cycle if self.unit == "word" else per_cycle / word_bits
        many = words.denominator > _MANY and (self.time == "s" or self.amount.denominator > 10**9)
        near = words.limit_denominator(_SMALL) if many else words
        return near if abs(near - words) * 10**9 <= words else words


@dataclass(frozen=True, slots=True)
class Energy:
    """An energy as written: `pj` [pJ] for one action, or for each bit that the action moves."""

    pj: Fraction
    per_bit: bool = False

    def of_action_pj(self, bits: int) -> float:
        """Energy [pJ] of one action that moves `bits`."""
        return float(self.pj * bits if self.per_bit else self.pj)


def near_miss(word: str, words: Iterable[str], what: str = "", *, least: float = 0.6) -> str:
    """Hint that names the known word closest to a misspelt one, or all as `what`; dashes in front do not count.

    `least` is how alike the two are at least, of 1.

    >>> near_miss("bandwith", ["bandwidth", "size"]), near_miss("q", ["bandwidth", "size"], "keys")
    ("did you mean 'bandwidth'?", 'keys: bandwidth, size')
    """
    known = list(words)
    folded = {name.casefold().lstrip("-"): name for name in reversed(known)}
    close = difflib.get_close_matches(word.casefold().lstrip("-")[:100], folded, n=1, cutoff=least)
    return f"did you mean '{folded[close[0]]}'?" if close else f"{what}: {listed(known)}" if what else ""


def near_misses(word: str, words: Iterable[str]) -> list[str]:
    """Known words that are close to a misspelt one, the closest first.

    >>> near_misses("gbl", ["glb", "pe.x"])
    ['glb']
    """
    return difflib.get_close_matches(word[:100], list(words), n=3, cutoff=0.6)


def unknown(what: str, name: str, known: Iterable[str], owner: str) -> tuple[str, str]:
    """What is wrong with a name that its owner has not, and a hint.

    >>> unknown("dimension", "Kk", ["K", "C"], "conv")
    ("'Kk' is no dimension of conv", "did you mean 'K'?")
    """
    return f"'{name}' is no {what} of {owner}", near_miss(name, known, f"{what}s")


def repeated(words: Sequence[str]) -> list[str]:
    """Words that stand there more than once."""
    return list(dict.fromkeys(word for at, word in enumerate(words) if word in words[:at]))


def listed(words: Iterable[str], most: int | None = None) -> str:
    """Words in a row, for a message; those beyond so many are counted.

    >>> listed("abc"), listed("abc", 2)
    ('a, b, c', 'a, b and 1 more')
    """
    several = [*words]
    shown = several[:most]
    more = f" and {len(several) - len(shown)} more" if len(shown) < len(several) else ""
    return f"{', '.join(shown)}{more}"


def quoted(text: str) -> str:
    """Text in quotes for a message, shortened and without control characters."""
    return f"'{printable(text[:57])}...'" if len(text) > 60 else f"'{printable(text)}'"


def printable(text: str) -> str:
    """Text with `?` for each character that a terminal cannot show."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _split(text: str, units: Iterable[str], example: str, accepted: str = "") -> tuple[Fraction, str]:
    """Take a quantity apart; the unit is one of `units`, which a message may sum up as `accepted`."""
    units = list(units)
    accepted = accepted or listed(units)
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise QuantityError(f"{quoted(text)} is not a number with a unit", f"write it like '{example}'")
    number, unit = Fraction(match["number"]), " ".join((match["unit"] or "").split())
    if not unit:
        raise QuantityError(f"{quoted(text)} has no unit", f"write it like '{example}'; units: {accepted}")
    unit = re.sub(r"\s*/\s*", "/", unit)
    if unit not in units:
        hint = " ".join(filter(None, [near_miss(unit, units), f"units: {accepted}"]))
        raise QuantityError(f"unknown unit {quoted(unit)}", hint)
    if number < 0:
        raise QuantityError(f"{quoted(text)} is negative")
    return number, unit


def quantity_pattern(units: Iterable[str]) -> str:
    """Regular expression (ECMA 262 and Python) of a quantity in one of the units.

    >>> bool(re.search(quantity_pattern(SIZE_UNITS), "128 KiB")), bool(re.search(quantity_pattern(SIZE_UNITS), "128"))
    (True, False)
    """
    alternatives = "|".join(unit.replace("/", r"\s*/\s*") for unit in units)
    return rf"^\s*\+?{NUMBER_PATTERN}\s*(?:{alternatives})\s*$"


def parse_size_bits(text: str) -> int:
    """Size [bit] of a quantity.

    >>> parse_size_bits("128 KiB")
    1048576
    """
    number, unit = _split(text, SIZE_UNITS, "128 KiB' or '16 bit")
    bits = number * SIZE_UNITS[unit]
    if bits.denominator != 1:
        raise QuantityError(f"{quoted(text)} is not a whole number of bits")
    if bits >= LARGEST:
        raise QuantityError(f"{quoted(text)} is too large")
    return int(bits)


def parse_positive_size_bits(text: str) -> int:
    """Size [bit] of a quantity that is not zero."""
    bits = parse_size_bits(text)
    if bits == 0:
        raise QuantityError(f"'{text}' is zero")
    return bits


def parse_rate(text: str) -> Rate:
    """Bandwidth of a quantity, exactly.

    >>> parse_rate("34 GB/s")
    Rate(amount=Fraction(272000000000, 1), unit='bit', time='s')
    >>> parse_rate("2 words/cycle")
    Rate(amount=Fraction(2, 1), unit='word', time='cycle')
    """
    accepted = f"words/cycle, or per s or cycle one of {listed(SIZE_UNITS)}"
    number, unit = _split(text, RATE_UNITS, "34 GB/s", accepted)
    if number == 0:
        raise QuantityError(f"{quoted(text)} is zero", "leave it out for an unlimited bandwidth")
    size, time = unit.split("/")
    if size in ("word", "words"):
        return Rate(number, "word", time)
    return Rate(number * SIZE_UNITS[size], "bit", time)


def parse_frequency_hz(text: str) -> Fraction:
    """Frequency [Hz] of a quantity, exactly."""
    number, unit = _split(text, FREQUENCY_UNITS, "700 MHz")
    if number == 0:
        raise QuantityError(f"{quoted(text)} is zero")
    return number * FREQUENCY_UNITS[unit]


def parse_time_s(text: str) -> Fraction:
    """Time [s] of a quantity, exactly."""
    number, unit = _split(text, TIME_UNITS, "50 ns", f"{listed(TIME_UNITS)}, or whole cycles without one")
    return number * TIME_UNITS[unit]


def parse_energy(text: str) -> Energy:
    """Energy [pJ] of a quantity, for an action or for each bit.

    >>> parse_energy("8 pJ/bit")
    Energy(pj=Fraction(8, 1), per_bit=True)
    """
    number, unit = _split(text, ENERGY_RATE_UNITS, "0.8 pJ")
    base, _, per = unit.partition("/")
    return Energy(number * ENERGY_UNITS[base], per_bit=bool(per))


def parse_area_um2(text: str) -> float:
    """Area [um2] of a quantity."""
    number, unit = _split(text, AREA_UNITS, "0.5 mm2")
    return float(number * AREA_UNITS[unit])


def parse_length_mm(text: str) -> float:
    """Length [mm] of a quantity."""
    number, unit = _split(text, LENGTH_UNITS, "0.5 mm")
    return float(number * LENGTH_UNITS[unit])


def parse_technology(text: str) -> str:
    """Technology node, spelt in one way."""
    number, unit = _split(text, TECHNOLOGY_UNITS, "65 nm")
    if number == 0:
        raise QuantityError(f"{quoted(text)} is zero")
    return f"{float(number):g} {unit}"


def format_bits(bits: int) -> str:
    """Size for people, to four digits.

    >>> format_bits(1048576), format_bits(12), format_bits(8 * 1536)
    ('128 KiB', '12 bit', '1.5 KiB')
    """
    if bits % 8 and bits < 8 * 1024:
        return f"{bits} bit"
    value = bits / 8
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{_digits(value, 4)} {unit}"
        value /= 1024
    return f"{_digits(value, 4)} TiB"


def ratio(value: float, of: float) -> float:
    """How many times a value is another one, both from 0 on: 1 if both are 0, infinite if only the other one is.

    >>> ratio(3.0, 2.0), ratio(0.0, 0.0), ratio(1.0, 0.0)
    (1.5, 1.0, inf)
    """
    if of == 0:
        return math.inf if value > 0 else 1.0
    return value / of


def read_share(text: str) -> float | None:
    """A share such as `1%` or `0.01`; None where it is none. From 1 on it must be in percent.

    >>> read_share("1%"), read_share("0.5"), read_share("200 %"), read_share("5"), read_share("half")
    (0.01, 0.5, 2.0, None, None)
    """
    number, sign, rest = text.strip().partition("%")
    try:
        found = float(number) / (100 if sign else 1)
    except ValueError:
        return None
    return None if rest or not 0 <= found < (math.inf if sign else 1) else found


def format_si(value: float, unit: str, digits: int = 3) -> str:
    """Value with an SI prefix, for people; what is counted, such as bytes, is whole.

    >>> format_si(7e8, "Hz"), format_si(0.0, "J"), format_si(0.314, "B"), format_si(0.314, "B/s")
    ('700 MHz', '0 J', '0 B', '0.314 B/s')
    """
    rounded = float(f"{round(value) if unit in _COUNTED else value:.{digits}g}")
    if rounded == 0:
        return f"0 {unit}"
    scale, name = si_scale(rounded, unit)
    return f"{_digits(rounded / scale, digits)} {name}"


def si_scale(largest: float, unit: str) -> tuple[float, str]:
    """Choose the prefix of a unit for values up to the largest one: its size, and its name with the unit.

    What is counted has no parts: its prefixes, and those of its rates, begin at 1.

    >>> si_scale(0.042, "J"), si_scale(1.6, "s"), si_scale(0.042, "B/s")
    ((0.001, 'mJ'), (1.0, 's'), (1.0, 'B/s'))
    """
    counted = unit.partition("/")[0] in _COUNTED
    prefixes = [p for p in _PREFIXES if p[0] >= 1 or not counted]
    scale, prefix = next((p for p in prefixes if abs(largest) >= p[0] * (1 - 1e-9)), prefixes[-1])
    return scale, f"{prefix.strip()}{unit}"


def _digits(value: float, digits: int) -> str:
    """Write a number with so many significant digits and no exponent."""
    rounded = float(f"{value:.{digits}g}")
    whole = len(str(int(abs(rounded))))
    text = f"{rounded:.{max(0, digits - whole)}f}" if abs(rounded) >= 1 else f"{rounded:.{digits + 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
