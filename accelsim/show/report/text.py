"""Numbers and tables as a report writes them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from rich.box import Box
from rich.console import Console
from rich.table import Table

from accelsim.inputs.units import format_si

_RULED = Box("    \n    \n -- \n    \n -- \n -- \n    \n    \n", ascii=True)
_ENERGY_UNITS = ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))
_FOLDED = 12
"""Letters that a column keeps that breaks its text."""
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


def table(*columns: str, left: Sequence[int] = (0,), fold: Sequence[int] = ()) -> Table:
    """Make a table with a rule below its head; numbers to the right, the columns in `left` to the left.

    A column in `fold` breaks its text where the width does not suffice, and so does the first; no other one does.
    """
    made = Table(box=_RULED, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        made.add_column(
            name,
            justify="left" if index in left or index in fold else "right",
            no_wrap=index not in (0, *fold),
            overflow="fold",
            vertical="top",
        )
    return made


def print_table(console: Console, made: Table) -> None:
    """Print a table, with its columns closer together where the width asks for it; no number is ever cut off."""
    foldable = any(not column.no_wrap for column in made.columns[1:])
    wide = console.options.update(max_width=10_000)
    if console.measure(made, options=wide).maximum > console.width and not foldable:
        made.padding = (0, 0, 0, 0)
    widths = [
        max(1, *(console.measure(cell, options=wide).maximum for cell in (column.header, *column.cells)))
        for column in made.columns
    ]
    rule_and_gap = 1 + sum(made.padding[1::2])
    least = rule_and_gap * (len(widths) - 1) + sum(
        width if column.no_wrap else min(width, _FOLDED) for column, width in zip(made.columns, widths, strict=True)
    )
    screen = console.width
    console.width = max(screen, least)
    console.print(made)
    console.width = screen


def room_beside(console: Console, rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Gap between columns, and cells that are left beside these rows (their head among them) for a bar."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for gap in (2, 1):
        left = console.width - sum(widths) - gap * len(widths)
        if left >= 12:
            break
    return gap, left
