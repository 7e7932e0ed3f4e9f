"""Progress of a search on a terminal: how far it is, how fast, and the best so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from accelsim.report.text import count, energy

if TYPE_CHECKING:
    from accelsim.search import Progress as SearchProgress


@contextmanager
def search_progress(console: Console, what: str) -> Iterator[Callable[[SearchProgress], None] | None]:
    """Show the progress of one search while it runs, and remove it then; None where the console is no terminal."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(20), TimeRemainingColumn(), TextColumn("{task.fields[now]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=1.0, now="")
        yield lambda state: bar.update(task, completed=done(state), now=_now(state))


def done(state: SearchProgress) -> float:
    """Share (0..1) of a search that is done: of its mappings or its time, whichever ends it first."""
    shares = [0.0]
    if state.total:
        shares.append(state.seen / state.total)
    if state.seconds_limit:
        shares.append(state.seconds / state.seconds_limit)
    return min(1.0, max(shares))


def _now(state: SearchProgress) -> str:
    if not state.seen:
        return "getting ready (the first run compiles the model, once: half a minute)"
    rate = f"{count(round(state.seen / state.seconds))} mappings/s, " if state.seconds > 0 else ""
    best = "none yet" if state.best_energy_pj is None else energy(state.best_energy_pj)
    return f"{rate}{count(state.valid)} valid, best {best}"
