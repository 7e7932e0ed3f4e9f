"""A study: figures that were published or measured, beside ours, and where they are found."""

from __future__ import annotations

import csv
import math
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from accelsim.inputs.errors import AccelsimError, Unreadable
from accelsim.inputs.library import read_utf8

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure that was published or measured, and ours: of a case, such as a layer on a machine.

    `tolerance` says how far apart they may be, relative to the published one (None: shown beside each other only);
    `variant`, which of several answers of ours it is; `why`, where the two differ: why, or what else to know of ours;
    `explained`, whether this accounts for an error beyond the tolerance.
    """

    case: str
    quantity: str
    unit: str
    published: float
    ours: float
    tolerance: float | None = None
    variant: str = ""
    why: str = ""
    explained: bool = False

    @property
    def error(self) -> float:
        """How far ours is above the published one, relative to it."""
        if self.ours == self.published:
            return 0.0
        return self.ours / self.published - 1.0 if self.published else math.inf

    @property
    def agrees(self) -> bool | None:
        """Whether ours is within the tolerance; None without one."""
        return None if self.tolerance is None else abs(self.error) <= self.tolerance


@dataclass(frozen=True, slots=True)
class Study:
    """Figures of one machine or one tool: what is compared with what, in a sentence, and the source with its version.

    `name` is as the command that runs it takes it; `notes` say what a reader must know besides: assumptions, what is
    left out, and why.
    """

    name: str
    about: str
    source: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    @property
    def wrong(self) -> tuple[Figure, ...]:
        """Figures that are further off than their tolerance."""
        return tuple(figure for figure in self.figures if figure.agrees is False)

    @property
    def unexplained(self) -> tuple[Figure, ...]:
        """Those of them for which no reason is known."""
        return tuple(figure for figure in self.wrong if not figure.explained)


@dataclass(frozen=True, slots=True)
class FigureErrors:
    """Absolute relative errors of the figures of one quantity; how many are equal, or within a tolerance, if any."""

    quantity: str
    variant: str
    count: int
    equal: int
    median: float
    mean: float
    worst: float
    worst_case: str
    within: int | None


def errors_by_quantity(figures: Sequence[Figure]) -> list[FigureErrors]:
    """Errors by quantity and variant, in the order in which they first occur."""
    groups: dict[tuple[str, str], list[Figure]] = {}
    for figure in figures:
        groups.setdefault((figure.quantity, figure.variant), []).append(figure)
    return [_errors_of(*key, members) for key, members in groups.items()]


def _errors_of(quantity: str, variant: str, members: Sequence[Figure]) -> FigureErrors:
    errors = [abs(figure.error) for figure in members]
    judged = [figure.agrees for figure in members if figure.agrees is not None]
    worst = max(members, key=lambda figure: abs(figure.error))
    return FigureErrors(
        quantity=quantity,
        variant=variant,
        count=len(members),
        equal=sum(error == 0 for error in errors),
        median=statistics.median(errors),
        mean=statistics.fmean(errors),
        worst=abs(worst.error),
        worst_case=worst.case,
        within=sum(judged) if judged else None,
    )


def study_json(study: Study) -> dict[str, Any]:
    """A study as JSON."""
    document = asdict(study)
    for entry, figure in zip(document["figures"], study.figures, strict=True):
        entry.update(error=figure.error if math.isfinite(figure.error) else None, agrees=figure.agrees)
    return document


class NoReferenceError(AccelsimError):
    """Reference data that a study needs is absent."""


def reference_paths(given: Sequence[str | Path], usual: str) -> list[Path]:
    """Paths that were given, or the usual one in the folder of reference data.

    The folder is `ACCELSIM_SHARED`, or `../shared` beside the working directory. Raises NoReferenceError if none was
    given and the usual one is absent.
    """
    if given:
        return [Path(path) for path in given]
    path = Path(os.environ.get("ACCELSIM_SHARED") or "../shared") / usual
    if not path.exists():
        raise NoReferenceError(
            f"{path}: is absent; name files, or say with ACCELSIM_SHARED where the reference data are"
        )
    return [path]


def read_table(
    path: str | PathLike[str],
    needed: Iterable[str],
    read: Callable[[str, dict[str, str], list[str]], T | None],
    what: str = "rows",
) -> list[T]:
    """Read the rows of a CSV file; `read` gets the place of one, its cells by the names of their columns, and mistakes.

    Raises Unreadable as `read_utf8`, or if it is not CSV; AccelsimError if it lacks a column, with all mistakes, to
    which `read` adds its own, or if nothing was read.
    """
    lines = csv.reader(read_utf8(path).splitlines(), skipinitialspace=True)
    rows, wrong = [], list[str]()
    try:
        head = [name.strip() for name in next(lines, [])]
        missing = [name for name in needed if name not in head]
        for cells in filter(None, lines):
            where = f"{os.fspath(path)}:{lines.line_num}"
            if len(cells) == len(head):
                rows.append((where, dict(zip(head, cells, strict=True))))
            else:
                wrong.append(f"{where}: expected {len(head)} cells, as in line 1, got {len(cells)}")
    except csv.Error as error:
        raise Unreadable(path, f"cannot be read: {error}") from None
    if missing:
        raise AccelsimError(f"{os.fspath(path)}:1: no column {', '.join(missing)}")
    found = [each for where, row in rows if (each := read(where, row, wrong)) is not None]
    if wrong:
        raise AccelsimError("\n".join(wrong))
    if not found:
        raise AccelsimError(f"{os.fspath(path)}: holds no {what}")
    return found
