"""Errors that say where, what, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike


class AccelsimError(Exception):
    """Base of everything accelsim raises on purpose; its text is written for the user."""


class HintedError(AccelsimError):
    """What is wrong, and what to write instead."""

    def __init__(self, what: str, hint: str = "") -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}; {hint}" if hint else what)


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in an input file; `line` and `column` count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in an input file: where, what is wrong, what to write instead."""

    mark: Mark
    what: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.mark}: {self.what}" + (f"; {self.hint}" if self.hint else "")


class InputError(AccelsimError):
    """All mistakes found in the input files, each with its place."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(set(problems), key=lambda p: (p.mark, p.what)))
        super().__init__("\n".join(map(str, self.problems)))


class UnknownParameterError(InputError):
    """Parameters that are set and that no file defines; `name` is the first, `suggestions` are the closest ones."""

    def __init__(self, problems: Sequence[Problem], name: str, suggestions: Sequence[str]) -> None:
        self.name, self.suggestions = name, tuple(suggestions)
        super().__init__(problems)
        self.args = ("\n".join(f"{each.what}; {each.hint}" for each in self.problems),)  # they have no place in a file


class UnknownNameError(AccelsimError):
    """A name of no file and nothing that ships; `suggestions` are the closest ones."""

    def __init__(self, text: str, name: str, suggestions: Sequence[str]) -> None:
        self.name, self.suggestions = name, tuple(suggestions)
        super().__init__(text)


class MissingExtraError(AccelsimError):
    """A package that an optional part needs is not installed; the text has the command that installs it."""


class TooManyChoices(AccelsimError):
    """An exact search would have to look at more than fits memory; fewer dimensions that leave remainders would do."""


class TablesTooLarge(TooManyChoices):
    """The tables of an exact search would not fit the memory that it may use."""


class NoValidMappingError(AccelsimError):
    """No mapping satisfies architecture, workload and constraints; the text says which rule removed how many.

    `proved` is False where a search was stopped before it found one. `rules`: of a random search, how many
    candidates each rule removed.
    """

    def __init__(self, text: str, *, proved: bool = True, rules: Mapping[str, int] | None = None) -> None:
        self.proved, self.rules = proved, dict(rules or {})
        super().__init__(text)


class Unreadable(AccelsimError):
    """A file that cannot be read; `why` says it without its name."""

    def __init__(self, path: str | PathLike[str], why: str) -> None:
        self.why = why
        super().__init__(f"{path}: {why}")


def require(module: str, why: str, extra: str) -> None:
    """Raise MissingExtraError if a package is not installed, and say which extra of accelsim brings it.

    >>> require("json", "all need it", "none")
    >>> require("no_such.part", "nobody needs it", "x")
    Traceback (most recent call last):
    accelsim.inputs.errors.MissingExtraError: no_such is not installed, and nobody needs it; `pip install 'accelsim[x]'`
    """
    with suppress(ImportError):  # of a part of a package that is not installed
        if find_spec(module) is not None:
            return
    raise MissingExtraError(
        f"{module.partition('.')[0]} is not installed, and {why}; `pip install 'accelsim[{extra}]'`"
    )
