"""Reports for people: what a mapping costs, what a search saw, and the tables of the other commands.

Every function gives the parts of a report, which `accelsim.show.table` prints; colour only repeats what the text says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from accelsim.inputs.units import format_si

OKABE_ITO = {"Weights": "#0072B2", "Inputs": "#E69F00", "Outputs": "#009E73"}
SPARE_COLOURS = ("#56B4E9", "#CC79A7", "#D55E00", "#F0E442")
OTHER_COLOUR = "#999999"


def count(number: int) -> str:
    """Count for people: exact below 100 000, else to four digits.

    >>> count(99999), count(11010048), count(0)
    ('99,999', '11.01M', '0')
    """
    if abs(number) < 100_000:
        return f"{number:,}"
    text = f"{float(number):.3e}"
    digits, exponent = float(text.partition("e")[0]), int(text.partition("e")[2])
    if exponent >= 15:
        return f"{Decimal(number):.1e}".replace("+", "")
    suffix = " kMGT"[exponent // 3]
    return f"{digits * 10 ** (exponent % 3):.{3 - exponent % 3}f}{suffix}"


def large(number: int | None) -> str:
    """Size of a map space: exact below a million, else like 1.2e15; None: it was not counted.

    >>> large(41472), large(196 * 10**400), large(None)
    ('41,472', '2.0e402', 'uncounted mappings')
    """
    if number is None:
        return "uncounted mappings"
    return f"{number:,}" if number < 1_000_000 else f"{Decimal(number):.1e}".replace("+", "")


def percent(share: float) -> str:
    """Share (0..1) in percent to three digits; only the whole says 100 %.

    >>> percent(0.9746), percent(0.99999), percent(1.0), percent(1e-7), percent(24.912)
    ('97.5 %', '>99.9 %', '100 %', '<0.001 %', '2,491 %')
    """
    if 0.9995 <= share < 1:
        return ">99.9 %"
    if 0 < share < 1e-5:
        return "<0.001 %"
    return f"{100 * share:.3g} %" if share < 9.995 else f"{100 * share:,.0f} %"


def share(part: float) -> str:
    """Share (0..1) in percent to one decimal, for a column.

    >>> share(0.9746), share(1.0), share(0.9999), share(0.0001), share(0.0)
    ('97.5 %', '100 %', '>99.9 %', '<0.1 %', '0 %')
    """
    if part in (0, 1):
        return f"{part:.0%}".replace("%", " %")
    if 0.9995 <= part < 1:
        return ">99.9 %"
    return "<0.1 %" if part < 0.0005 else f"{100 * part:.1f} %"


def times(factor: float, digits: int = 3) -> str:
    """Factor for people, to so many digits; none is that over nothing.

    >>> times(14.0), times(10.5), times(1.23456, 4), times(math.inf)
    ('14x', '10.5x', '1.235x', '-')
    """
    if factor == math.inf:
        return "-"
    return f"{factor:.{digits}g}x" if factor < 1000 else f"{factor:,.0f}x"


def change(share: float) -> str:
    """Relative change for people; empty where there is none.

    >>> change(0.0), change(-0.123), change(1.5)
    ('', '-12 %', '2.5x')
    """
    return "" if abs(share) < 5e-5 else times(1 + share) if share >= 1 else f"{100 * share:+.2g} %"


def energy(energy_pj: float, digits: int = 4) -> str:
    """Energy [pJ] for people, to so many digits.

    >>> energy(12278333440.0), energy(0.0)
    ('12.28 mJ', '0 J')
    """
    return format_si(energy_pj * 1e-12, "J", digits)


def tensor_colours(names: Sequence[str], output: str) -> dict[str, str]:
    """Colour of each tensor: blue weights, orange inputs, green output, others as long as there are any.

    >>> tensor_colours(["Weights", "Inputs", "Outputs"], "Outputs") == OKABE_ITO
    True
    """
    known = {**OKABE_ITO, output: OKABE_ITO["Outputs"]}
    free = iter((*(OKABE_ITO[role] for role in ("Inputs", "Weights") if role not in names), *SPARE_COLOURS))
    return {name: known[name] if name in known else next(free, OTHER_COLOUR) for name in names}


def objective_value(objective: str, value: float, digits: int = 4, clock_hz: float | None = None) -> str:
    """Value of an objective with its unit; an EDP is in seconds where there is a clock.

    >>> objective_value("energy", 4.612e9), objective_value("cycles", 123456.0), objective_value("edp", 1.5e17)
    ('4.612 mJ', '123,456 cycles', '1.5e+17 pJ*cycle')
    >>> objective_value("edp", 1.5e17, clock_hz=2e8)
    '750 uJ*s'
    """
    if objective == "energy":
        return energy(value, digits)
    if objective == "cycles":
        return f"{math.ceil(value):,} cycles"
    if objective == "edp" and clock_hz:
        return format_si(value * 1e-12 / clock_hz, "J*s", digits)
    return f"{value:.{digits}g}" + (" pJ*cycle" if objective == "edp" else "")


def gap_text(gap: float | None) -> str:
    """Gap in percent to three digits, rounded up so that it never promises too much.

    >>> gap_text(0.0312), gap_text(0.03121), gap_text(1e-7), gap_text(2.5), gap_text(float("inf"))
    ('3.12 %', '3.13 %', '<0.001 %', '250 %', 'unknown')
    """
    if gap is None or not math.isfinite(gap):
        return "unknown"
    if gap < 1e-5:
        return "<0.001 %"
    unit = 10.0 ** (math.floor(math.log10(gap)) - 2)
    return percent(math.ceil(round(gap / unit, 6)) * unit)


def goal_name(objective: str) -> str:
    """Objective as people write it."""
    return "EDP" if objective == "edp" else objective
