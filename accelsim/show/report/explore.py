"""Sweeps for people: progress while one runs, what came of it, and its designs as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from accelsim.inputs.units import format_energy, format_si
from accelsim.show.report.text import print_table, table

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


def said(name: str, value: float | None) -> str:
    """Value of an objective or a column in words.

    Examples
    --------
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


def print_sweep(
    console: Console, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], run: Explored | None
) -> None:
    """Say what was explored and what became of the designs."""
    files = about["inputs"]
    networks = ", ".join(
        name if weight == 1.0 else f"{weight:g} x {name}" for name, weight in about["networks"].items()
    )
    per = f", totals per {about['per'].removesuffix('s')}" if about["per"] else ""
    console.print(f"{about['name']}: {files['architecture']['file']}, {networks}{per}")
    counts = Counter(row["status"] for row in rows)
    told = ", ".join(f"{counts[status]:,} {text}" for status, text in _SAID.items() if counts[status])
    console.print(f"designs      {len(rows):,}: {told}" if rows else "designs      none finished")
    best = [row for row in rows if row["front"]]
    console.print(f"front        {len(best):,} in {', '.join(about['objectives'])}")
    if run is not None:
        known = f", {run.known_before:,} known from before" if run.known_before else ""
        console.print(f"work         {run.done_now:,} layers mapped, bounded or evaluated now{known}")
        each = 1000 * run.overhead_seconds / max(1, len(rows))
        beside = f", of it {each:.2g} ms a design beside the mapper (CPU)" if len(rows) >= _TOLD else ""
        console.print(f"time         {run.seconds:.3g} s{beside}")
        if run.stop == "interrupted":
            console.print("Interrupted; start the same command again to go on.")
    for status in ("invalid", "refused", "no_valid_mapping"):
        first = next((row for row in rows if row["status"] == status), None)
        if first is not None:
            why, more = str(first["reason"]).splitlines()[0], counts[status] - 1
            others = f" and {more} other{'s' if more > 1 else ''}" if more else ""
            console.print(f"{_SAID[status]}: design {first['design']}{others}: {why}", soft_wrap=True)
    for status, column, what in (("over_area", "area_um2", "smallest"), ("over_power", "power_w", "least")):
        if counts[status] and counts[status] == len(rows):
            least = said(column, min(row[column] for row in rows))
            console.print(f"no design is within the budget: the {what} {column.partition('_')[0]} is {least}")


def print_designs(
    console: Console, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, chosen: bool
) -> None:
    """Print designs as a table: those that were chosen, or else the front, best in the first objective first."""
    shown = list(rows) if chosen else [row for row in rows if row["front"]]
    if not shown:
        console.print("\nNo design is left." if chosen else "\nNo design is mapped.")
        return
    also = ["energy_pj"] if "time_s" in about["columns"] else ["energy_pj", "cycles"]
    columns = list(dict.fromkeys([*about["columns"], *also]))
    key = columns[0]
    shown.sort(key=lambda row: (row[key] is None, row[key] or 0.0, row["design"]))
    many = [name for name, values in about["parameters"].items() if len(values) > 1]
    made = table("design", *many, *(_HEADS[name] for name in columns), "", left=(len(many) + len(columns) + 1,))
    for row in shown[:_MOST]:
        state = "front" if row["front"] else "" if row["status"] == "mapped" else row["status"]
        made.add_row(
            str(row["design"]), *(str(row[name]) for name in many), *(said(name, row[name]) for name in columns), state
        )
    console.print()
    print_table(console, made)
    if len(shown) > _MOST:
        console.print(f"{len(shown) - _MOST:,} more; --json shows all")


_HEADS = {
    "energy_pj": "energy", "cycles": "cycles", "time_s": "time", "edp_pj_cycles": "EDP [pJ x cycle]",
    "power_w": "power", "area_um2": "area",
}  # fmt: skip
