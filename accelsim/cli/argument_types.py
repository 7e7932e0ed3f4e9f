"""Types of command line arguments: what a text must look like, and options that many commands have."""

from __future__ import annotations

import argparse
import math


def positive_int(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got '{text}'")
    return int(text)


def whole(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got '{text}'")
    return int(text)


def seconds(text: str) -> float:
    """A time above 0 [s]."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got '{text}'")
    return found


def inches(text: str) -> float:
    """The width of a picture."""
    try:
        width = float(text)
    except ValueError:
        width = math.nan
    if not 2 <= width <= 40:
        raise argparse.ArgumentTypeError(f"expected a width of 2 to 40 inches, got '{text}'")
    return width


def dimensions(text: str) -> str | tuple[str, ...]:
    """Dimensions such as M,K, or all."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"expected dimensions such as M,K, got '{text}'")
    from accelsim.inputs.library import find

    if len(names) == 1 and any(find(text, kind) for kind in ("workloads", "arch")):
        raise argparse.ArgumentTypeError(
            f"'{text}' is a file, not a dimension; put the option behind ARCH and WORKLOAD, or write `all` before them"
        )
    return "all" if names == ("all",) else names


def share(text: str) -> float:
    """A share such as 1% or 0.01."""
    hundredths = text.strip().endswith("%")
    try:
        found = float(text.strip().removesuffix("%")) / (100 if hundredths else 1)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"expected a share of at least 0, such as 1% or 0.01, got '{text}'")
    if found >= 1 and not hundredths:
        raise argparse.ArgumentTypeError(f"{text} is {100 * found:g} %; write {text}% or 0.01, or {100 * found:g}%")
    return found


def limit(text: str) -> str:
    """A limit on costs, such as `cycles <= 1.2e6`, as it is written."""
    from accelsim.inputs.errors import AccelsimError
    from accelsim.inputs.objective import Limit

    try:
        Limit.parse(text)
    except AccelsimError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def columns(text: str) -> tuple[str, ...]:
    """Two or three columns of a front."""
    found = tuple(column.strip() for column in text.split(","))
    known = ("energy", "cycles", "outer_words", "capacity:LEVEL")
    for column in found:
        if column not in known[:3] and not column.startswith("capacity:"):
            from accelsim.inputs.units import near_miss

            hint = near_miss(column.partition(":")[0], [*known[:3], "capacity"])
            raise argparse.ArgumentTypeError(
                f"'{column}' is no column of a front; {hint + ' ' if hint else ''}columns: {', '.join(known)}"
            )
    if not 2 <= len(found) <= 3 or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"expected two or three different columns, got '{text}'")
    return found


def override(text: str) -> tuple[str, str]:
    """A parameter and its value."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got '{text}'")
    return name.strip(), value


def number_format(text: str) -> str:
    """A number format by any of its names, such as bf16 or torch.bfloat16."""
    from accelsim.gpu import machine as formats
    from accelsim.inputs.errors import AccelsimError

    try:
        return formats.number_format(text)
    except AccelsimError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_forms(made: argparse.ArgumentParser) -> None:
    """Add the other forms of a report: JSON, and its tables as CSV."""
    made.add_argument("--json", action="store_true", help="print JSON instead of the report")
    made.add_argument(
        "--csv", metavar="FILE", help="write the tables of the report as CSV: the first to FILE, others to FILE_NAME"
    )
