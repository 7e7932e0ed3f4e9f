"""Numbers, bars and colours as a report writes them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from accelsim.inputs.units import format_si

_ENERGY_UNITS = ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))
OKABE_ITO = {"Weights": "#0072B2", "Inputs": "#E69F00", "Outputs": "#009E73"}
SPARE_COLOURS = ("#56B4E9", "#CC79A7", "#D55E00", "#F0E442")
OTHER_COLOUR = "#999999"


def count(number: int) -> str:
    """Count for people: exact below 100 000, else to four digits.

    Examples
    --------
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


def large(number: int) -> str:
    """Size of a map space: exact below a million, else like 1.2e15.

    Examples
    --------
    >>> large(41472), large(196 * 10**400)
    ('41,472', '2.0e402')
    """
    return f"{number:,}" if number < 1_000_000 else f"{Decimal(number):.1e}".replace("+", "")


def percent(share: float) -> str:
    """Share (0..1) in percent to three digits; only the whole says 100 %.

    Examples
    --------
    >>> percent(0.9746), percent(0.99999), percent(1.0), percent(1e-7)
    ('97.5 %', '>99.9 %', '100 %', '<0.001 %')
    """
    if 0.9995 <= share < 1:
        return ">99.9 %"
    if 0 < share < 1e-5:
        return "<0.001 %"
    return f"{100 * share:.3g} %"


def share(part: float) -> str:
    """Share (0..1) in percent to one decimal, for a column.

    Examples
    --------
    >>> share(0.9746), share(1.0), share(0.9999), share(0.0001), share(0.0)
    ('97.5 %', '100 %', '>99.9 %', '<0.1 %', '0 %')
    """
    if part in (0, 1):
        return f"{part:.0%}".replace("%", " %")
    if 0.9995 <= part < 1:
        return ">99.9 %"
    return "<0.1 %" if part < 0.0005 else f"{100 * part:.1f} %"


def times(factor: float) -> str:
    """Factor for people.

    Examples
    --------
    >>> times(14.0), times(10.5)
    ('14x', '10.5x')
    """
    return f"{factor:.3g}x" if factor < 1000 else f"{factor:,.0f}x"


def energy(energy_pj: float, digits: int = 4) -> str:
    """Energy [pJ] for people, to so many digits.

    Examples
    --------
    >>> energy(12278333440.0), energy(0.0)
    ('12.28 mJ', '0 J')
    """
    return format_si(energy_pj * 1e-12, "J", digits)


def energy_scale(total_pj: float) -> tuple[float, str]:
    """Choose the unit of a column of energies [pJ]: its size in pJ and its name; the total has one to three digits.

    Examples
    --------
    >>> energy_scale(12278333440.0)
    (1000000000.0, 'mJ')
    """
    return next((unit for unit in _ENERGY_UNITS if total_pj >= unit[0]), _ENERGY_UNITS[-1])


def in_scale(energy_pj: float, scale: float) -> str:
    """Energy [pJ] in a column's unit, to three decimals.

    Examples
    --------
    >>> in_scale(471859200.0, 1e9), in_scale(100.0, 1e9), in_scale(0.0, 1e9)
    ('0.472', '<0.001', '')
    """
    if energy_pj == 0:
        return ""
    return f"{energy_pj / scale:.3f}" if energy_pj / scale >= 0.0005 else "<0.001"


def letters(names: Sequence[str]) -> dict[str, str]:
    """One letter for each name: the first of its own that is free, else a digit.

    Examples
    --------
    >>> letters(["Weights", "Inputs", "Outputs", "Other"])
    {'Weights': 'W', 'Inputs': 'I', 'Outputs': 'O', 'Other': 'T'}
    """
    found: dict[str, str] = {}
    for index, name in enumerate(names):
        own = (letter for letter in name.upper() if letter.isalnum() and letter not in found.values())
        found[name] = next(own, str(index % 10))
    return found


def split_bar(parts: Sequence[float], cells: int) -> list[int]:
    """Cells of a bar for each part of it, by largest remainder, so that they sum to `cells`.

    Examples
    --------
    >>> split_bar([1.0, 1.0, 1.0], 10)
    [4, 3, 3]
    """
    total = sum(parts)
    if total <= 0 or cells <= 0:
        return [0] * len(parts)
    exact = [part / total * cells for part in parts]
    whole = [int(cell) for cell in exact]
    order = sorted(range(len(parts)), key=lambda i: whole[i] - exact[i])
    for i in order[: cells - sum(whole)]:
        whole[i] += 1
    return whole


def tensor_colours(names: Sequence[str], output: str) -> dict[str, str]:
    """Colour of each tensor: blue weights, orange inputs, green output, others as long as there are any.

    Examples
    --------
    >>> tensor_colours(["Weights", "Inputs", "Outputs"], "Outputs") == OKABE_ITO
    True
    """
    found: dict[str, str] = {}
    spare = iter(SPARE_COLOURS)
    roles = [name for name in names if name in OKABE_ITO]
    for name in names:
        if name == output:
            found[name] = OKABE_ITO["Outputs"]
        elif name in OKABE_ITO:
            found[name] = OKABE_ITO[name]
        elif "Inputs" not in roles:
            found[name] = OKABE_ITO["Inputs"]
            roles.append("Inputs")
        elif "Weights" not in roles:
            found[name] = OKABE_ITO["Weights"]
            roles.append("Weights")
        else:
            found[name] = next(spare, OTHER_COLOUR)
    return found
