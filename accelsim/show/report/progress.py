"""How far a search is: a bar on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from accelsim.search.stopping import OnProgress, Progress, hold
from accelsim.show.report import count, energy, gap_text, objective_value

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn

    from accelsim.designs.store import OnSweepProgress, SweepProgress
    from accelsim.designs.sweep import Sweep

PLAIN_SECONDS = 10.0
"""Time between two lines where there is no terminal [s]."""


@contextmanager
def search_progress(console: Console, mode: str = "auto") -> Iterator[OnProgress]:
    """Show on stderr how far searches are, and what is done next.

    `mode` is `auto` (a bar on a terminal, which goes at the end; elsewhere a line every ten seconds), `plain` (such
    lines) or `none`. The best mapping so far is what is said if the process has to end at once.
    """
    if console.is_terminal and mode == "auto":
        with _bar(console, "", "getting ready") as update:

            def tell(state: Progress) -> None:
                _keep(state)
                end = 1.0 if state.total or state.seconds_limit else None
                update(description=state.layer or "working", completed=done(state), total=end, now=_now(state))

            yield tell
    else:
        yield _lines(console, mode, lambda state: f"{state.layer or 'working'}: {_now(state)}")


@contextmanager
def sweep_progress(console: Console, sweep: Sweep, mode: str = "auto") -> Iterator[OnSweepProgress]:
    """Show on stderr how far a sweep is, how long it still takes, and the best so far; as `search_progress`."""
    from rich.progress import MofNCompleteColumn, TextColumn

    from accelsim.designs.sweep import COLUMNS
    from accelsim.show.report.tables import said

    def now(state: SweepProgress) -> str:
        text = f"{state.pruned} pruned, " * bool(state.pruned) + f"Pareto front {state.front}"
        least = zip(sweep.objectives, state.least or (), strict=False)
        return ", ".join([text, *(f"lowest {name} {said(COLUMNS[name], value)}" for name, value in least)])

    if not console.is_terminal or mode != "auto":
        yield _lines(console, mode, lambda state: f"{sweep.name}: {state.done} of {state.total} designs, {now(state)}")
        return
    with _bar(console, sweep.name, "", MofNCompleteColumn(), TextColumn("designs, left")) as update:
        yield lambda state: update(completed=state.done, total=state.total, now=now(state))


def _lines(console: Console, mode: str, text: Callable[[Any], str]) -> Callable[[Any], None]:
    """Print a line every ten seconds."""
    started = last = time.monotonic()

    def tell(state: Progress) -> None:
        nonlocal last
        _keep(state)
        now = time.monotonic()
        if mode != "none" and now - last >= PLAIN_SECONDS:
            last = now
            console.print(f"{text(state)} ({now - started:.0f} s)", soft_wrap=True)

    return tell


def _keep(state: Progress) -> None:
    if state.objective and state.best is not None:
        hold(f"{state.layer}: {_best(state)}")


@contextmanager
def _bar(console: Console, name: str, now: str, *more: ProgressColumn) -> Iterator[Callable[..., None]]:
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(20), *more)
    with Bar(*columns, TimeRemainingColumn(), TextColumn("{task.fields[now]}"), console=console, transient=True) as bar:
        yield partial(bar.update, bar.add_task(name, total=None, now=now))


def done(state: Progress) -> float:
    """Share (0..1) of a search that is done: of its mappings or its time, whichever ends it first."""
    pairs = (state.done, state.total), (state.seconds, state.seconds_limit)
    return min(1.0, max((part / whole for part, whole in pairs if whole), default=0.0))


def _now(state: Progress) -> str:
    objective = state.objective
    if not state.done:
        return state.what or "getting ready"
    each = "mappings" if objective and state.bound is None else "nodes"
    rate = f"{count(round(state.done / state.seconds))} {each}/s, " if state.seconds > 0 else ""
    if not objective:
        return f"{rate}{count(state.valid)} mappings evaluated"
    if state.bound is None:
        best = "none yet" if state.best_energy_pj is None else energy(state.best_energy_pj)
        return f"{rate}{count(state.valid)} valid, best {best}"
    if state.best is None:
        return f"{rate}none found yet, bound {objective_value(objective, state.bound)}"
    return rate + _best(state)


def _best(state: Progress) -> str:
    """The best mapping so far, and what is proved of it."""
    objective, value = state.objective, math.inf if state.best is None else state.best
    best = f"best {objective_value(objective, value)}"
    if state.bound is None:
        return best
    return f"{best}, bound {objective_value(objective, state.bound)}, gap {gap_text(state.gap)}"
