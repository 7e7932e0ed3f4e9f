"""Types of command line arguments, and the parser that reads them: what a text must look like, else what is wrong."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from accelsim.cli import BAD_INPUT
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import SIZE_UNITS, parse_size_bits, quantity_pattern


def whole(text: str, least: int = 0) -> int:
    """A whole number of at least 0."""
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got '{text}'")
    return int(text)


def positive_int(text: str) -> int:
    """A whole number of at least 1."""
    return whole(text, 1)


def _number(text: str) -> float:
    """A number, or NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def seconds(text: str) -> float:
    """A time above 0 [s]."""
    if not 0 < _number(text) < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got '{text}'")
    return _number(text)


def memory(text: str) -> int:
    """A size above 0 [B]."""
    size = parse_size_bits(text) // 8 if re.search(quantity_pattern(SIZE_UNITS), text) else 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"expected a size such as 500 MiB, got '{text}'")
    return size


def inches(text: str) -> float:
    """The width of a picture."""
    if not 2 <= _number(text) <= 40:
        raise argparse.ArgumentTypeError(f"expected a width of 2 to 40 inches, got '{text}'")
    return _number(text)


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
    found = _number(text.strip().removesuffix("%")) / (100 if hundredths else 1)
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"expected a share of at least 0, such as 1% or 0.01, got '{text}'")
    if found >= 1 and not hundredths:
        raise argparse.ArgumentTypeError(f"{text} is {100 * found:g} %; write {text}% or 0.01, or {100 * found:g}%")
    return found


def limit(text: str) -> str:
    """A limit on costs, such as `cycles <= 1.2e6`, as it is written."""
    from accelsim.inputs.objective import Limit

    try:
        Limit.parse(text)
    except AccelsimError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def number_format(text: str) -> str:
    """A number format by any of its names, such as bf16 or torch.bfloat16."""
    from accelsim.gpu import catalogue

    try:
        return catalogue.number_format(text)
    except AccelsimError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


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


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and names the closest command or option beside a misspelt one."""

    def error(self, message: str) -> NoReturn:
        """End with one line on what is wrong."""
        words = message.replace(",", " ").split()
        known = [option for action in self._actions for option in action.option_strings]
        known += [name for action in self._actions for name in action.choices or ()]
        from accelsim.inputs.units import near_miss

        choice = "invalid choice" in message
        unknown = [
            word.strip("'\"()")
            for word in words
            if "unrecognized" in message or (choice and word.startswith(("'", '"')))
        ]
        found = (near_miss(word.partition("=")[0], known) for word in unknown if word not in known)
        hint = next(filter(None, found), "")
        if not hint and ("unrecognized" in message or "required" in message):
            hint = f"`{self.prog} --help` lists them"
        self.exit(BAD_INPUT, f"{self.prog}: {message}{'; ' if hint else ''}{hint}\n")


def add(
    made: argparse._ActionsContainer,
    name: str,
    about: str | None = None,
    kind: Callable[[str], Any] | None = None,
    **more: Any,
) -> None:
    """Add an argument: `ARCH` is one by its place, `--top N` takes a value, `--quiet` none, and `-o` is `--output`."""
    flag, _, metavar = name.partition(" ")
    names = ["-o", "--output"] if flag == "-o" else [flag if flag.startswith("-") else flag.lower()]
    if flag.isupper():
        metavar = flag
    if kind is not None:
        more["type"] = kind
    if metavar:
        more["metavar"] = metavar
    elif flag.startswith("-") and "choices" not in more:
        more["action"] = "store_true"
    made.add_argument(*names, help=about, **more)
    if name == "-o DIR":
        made.set_defaults(writes_folder=True)
