"""Sweeps for people: progress while one runs, what came of it, and its designs as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from accelsim.inputs.units import format_energy, format_si
from accelsim.show.table import Column, Part, Row, Table, whole

if TYPE_CHECKING:
    from accelsim.explore.store import Explored, State
    from accelsim.explore.sweep import Sweep

_MOST = 40
"""Designs that a table shows at most."""
_TOLD = 20
"""Of fewer designs what one costs beside the mapper says nothing: the first one loads modules."""
_SAID = {
    "mapped": "mapped", "pruned": "pruned (proved to be beaten)", "over_area": "over the area budget",
    "over_power": "over the power budget", "no_valid_mapping": "without a valid mapping",
    "refused": "refused by the model", "invalid": "invalid",
}  # fmt: skip


NAMES = {
    "energy_pj": "energy", "cycles": "cycles", "time_s": "time", "edp_pj_cycles": "EDP", "power_w": "power",
    "area_um2": "area",
}  # fmt: skip
"""What columns of costs are called."""


def said(name: str, value: float | None) -> str:
    """Value of an objective or a column in words.

    >>> said("energy_pj", 1.5e9), said("cycles", 12000.0), said("area_um2", 2.5e6), said("power_w", None)
    ('1.5 mJ', '12,000', '2.5 mm2', '')
    """
    if value is None or not math.isfinite(value):
        return ""
    if name == "energy_pj":
        return format_energy(value)
    if name == "cycles":
        return f"{value:,.10g}"
    if name == "area_um2":
        return f"{value / 1e6:.4g} mm2"
    if name in ("time_s", "power_w"):
        return format_si(value, name[-1].upper() if name == "power_w" else "s")
    return f"{value:.4g}"


@contextmanager
def sweep_progress(console: Console, sweep: Sweep) -> Iterator[Callable[[State], None] | None]:
    """Show how far a sweep is, how long it still takes and the best so far; None where the console is no terminal."""
    from accelsim.explore.sweep import COLUMNS

    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TextColumn("designs, left"))
    with Progress(
        *columns, TimeRemainingColumn(), TextColumn("{task.fields[now]}"), console=console, transient=True
    ) as bar:
        task = bar.add_task(sweep.name, total=None, now="")

        def tell(state: State) -> None:
            pruned = f", {state.pruned} pruned" if state.pruned else ""
            now = f"{pruned}front {state.front}"
            if state.best is not None:
                least = zip(sweep.objectives, state.best, strict=True)
                now += ": " + ", ".join(f"least {name} {said(COLUMNS[name], value)}" for name, value in least)
            bar.update(task, completed=state.done, total=state.total, now=now.lstrip(", "))

        yield tell


def sweep_lines(about: Mapping[str, Any], rows: Sequence[Row], run: Explored | None) -> Iterator[Part]:
    """What was explored and what became of the designs."""
    files = about["inputs"]
    networks = ", ".join(
        name if weight == 1.0 else f"{weight:g} x {name}" for name, weight in about["networks"].items()
    )
    per = f", totals per {about['per'].removesuffix('s')}" if about["per"] else ""
    yield f"{about['name']}: {files['architecture']['file']}, {networks}{per}"
    counts = Counter(row["status"] for row in rows)
    told = ", ".join(f"{counts[status]:,} {text}" for status, text in _SAID.items() if counts[status])
    yield f"designs      {len(rows):,}: {told}" if rows else "designs      none finished"
    best = [row for row in rows if row["front"]]
    yield f"front        {len(best):,} in {', '.join(about['objectives'])}"
    if run is not None:
        known = f", {run.known_before:,} known from before" if run.known_before else ""
        yield f"work         {run.done_now:,} layers mapped, bounded or evaluated now{known}"
        each = 1000 * run.overhead_seconds / max(1, len(rows))
        beside = f", of it {each:.2g} ms a design beside the mapper (CPU)" if len(rows) >= _TOLD else ""
        yield f"time         {run.seconds:.3g} s{beside}"
        if run.stop == "interrupted":
            yield "Interrupted; start the same command again to go on."
    for status in ("invalid", "refused", "no_valid_mapping"):
        first = next((row for row in rows if row["status"] == status), None)
        if first is not None:
            why, more = str(first["reason"]).splitlines()[0], counts[status] - 1
            others = f" and {more} other{'s' if more > 1 else ''}" if more else ""
            yield whole(f"{_SAID[status]}: design {first['design']}{others}: {why}")
    for status, column, what in (("over_area", "area_um2", "smallest"), ("over_power", "power_w", "least")):
        if counts[status] and counts[status] == len(rows):
            least = said(column, min(row[column] for row in rows))
            yield f"no design is within the budget: the {what} {column.partition('_')[0]} is {least}"


def designs_table(about: Mapping[str, Any], rows: Sequence[Row], costs: Sequence[str]) -> Table:
    """Designs with what varies and some costs, best in the first objective first."""
    columns = (
        Column("design", "design", left=False),
        *(Column(name, name, left=False) for name, values in about["parameters"].items() if len(values) > 1),
        *(Column(_head(name), name, partial(said, name)) for name in costs),
        Column("", _state, left=True),
    )
    first = about["columns"][0]
    ordered = sorted(rows, key=lambda row: (row[first] is None, row[first] or 0.0, row["design"]))
    return Table("designs", columns, ordered, most=_MOST)


def _head(name: str) -> str:
    return NAMES[name] + (" [pJ x cycle]" if name == "edp_pj_cycles" else "")


def _state(row: Row) -> str:
    return "front" if row["front"] else "" if row["status"] == "mapped" else str(row["status"])


def designs_report(about: Mapping[str, Any], rows: Sequence[Row], *, chosen: bool) -> Iterator[Part]:
    """Designs that were chosen, or else the front."""
    shown = list(rows) if chosen else [row for row in rows if row["front"]]
    if not shown:
        yield "\nNo design is left." if chosen else "\nNo design is mapped."
        return
    yield ""
    also = ["energy_pj"] if "time_s" in about["columns"] else ["energy_pj", "cycles"]
    yield designs_table(about, shown, list(dict.fromkeys([*about["columns"], *also])))
    if len(shown) > _MOST:
        yield f"{len(shown) - _MOST:,} more; --json and --csv show all"
