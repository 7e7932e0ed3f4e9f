"""A study: figures that were published or measured, beside ours, and where they are found."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from accelsim.inputs.errors import AccelsimError
from accelsim.model.result import Result


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


def difference_rows(a: Result, b: Result) -> list[dict[str, Any]]:
    """Figures of two mappings beside each other, those that differ first; None where a machine has no such part.

    `kind` is `total`, `energy` (pJ by component and tensor; largest difference first), `cycles`, `words` (in the order
    of the machine) or `loops`, whose values are text. `ratio` is b over a.
    """
    sides = [dict(_figures(result)) for result in (a, b)]
    rows = []
    for key in dict.fromkeys(key for side in sides for key in side):
        mine, other = (side.get(key) for side in sides)
        ratio = other / mine if isinstance(mine, int | float) and isinstance(other, int | float) and mine else None
        row = {"kind": key[0], "what": key[1], "a": mine, "b": other}
        rows.append({**row, "ratio": ratio, "differs": mine != other})

    def order(row: dict[str, Any]) -> tuple[bool, int, float]:
        far = abs((row["b"] or 0) - (row["a"] or 0)) if row["kind"] == "energy" else 0.0
        return not row["differs"], _KINDS.index(row["kind"]), -far

    return sorted(rows, key=order)


_KINDS = ("total", "energy", "cycles", "words", "loops")


def _figures(result: Result) -> Iterator[tuple[tuple[str, str], float | str]]:
    """What a mapping comes to, by kind and name."""
    totals = ("energy_pj", "cycles", "edp", "utilization", "outer_words")
    yield from ((("total", name), getattr(result, name)) for name in totals)
    for row in result.energy_by_tensor_rows():
        yield ("energy", f"{row['component']} {row['tensor']}".rstrip()), row["energy_pj"]
    yield from ((("cycles", row["component"]), row["cycles"]) for row in result.cycle_rows())
    for t in result.tensors:
        counts = {"tile": t.tile_words, "reads": t.total_reads, "fills": t.total_fills, "updates": t.total_updates}
        yield from ((("words", f"{t.level} {t.tensor} {name}"), words) for name, words in counts.items())
    for name, nodes in groupby(result.mapping.levels, key=lambda node: node.level):
        for number, node in enumerate(nodes):
            axes = (f"{axis}({' '.join(map(str, loops))})" for axis, loops in (("x", node.x), ("y", node.y)) if loops)
            kept = f"[{' '.join(sorted(node.keep))}]"
            yield (
                ("loops", f"{name} {number + 1}" if number else name),
                " ".join([kept, *map(str, node.temporal), *axes]),
            )


class NoReferenceError(AccelsimError):
    """Reference data that a study needs is absent."""


def reference_paths(given: Sequence[str | Path], usual: str) -> list[Path]:
    """Paths that were given, or the usual one in the folder of reference data.

    The folder is `ACCELSIM_SHARED`, or `../shared` beside the working directory.

    Raises
    ------
    NoReferenceError
        If none was given and the usual one is absent.
    """
    if given:
        return [Path(path) for path in given]
    path = Path(os.environ.get("ACCELSIM_SHARED") or "../shared") / usual
    if not path.exists():
        raise NoReferenceError(f"{path}: is absent; say where the records are: accelsim validate WHAT PATH")
    return [path]
