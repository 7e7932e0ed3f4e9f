"""Progress of a search on a terminal: how far it is, how fast, the best so far, and the bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from accelsim.search.stopping import hold
from accelsim.show.report.certificate import gap_text, objective_value
from accelsim.show.report.text import count, energy

if TYPE_CHECKING:
    from accelsim.search.strategy import Progress as SearchProgress


@contextmanager
def search_progress(console: Console, what: str, objective: str = "") -> Iterator[Callable[[SearchProgress], None]]:
    """Show the progress of one search on a terminal while it runs, and remove it then.

    `objective` gives values their unit; empty: there is no single objective. The best so far is what is said if the
    process has to end at once.
    """

    def keep(state: SearchProgress) -> None:
        if objective and state.best is not None:
            hold(f"{what}: {_best(state, objective)}")

    if not console.is_terminal:
        yield keep
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(20), TimeRemainingColumn(), TextColumn("{task.fields[now]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None, now="")

        def tell(state: SearchProgress) -> None:
            keep(state)
            end = 1.0 if state.total or state.seconds_limit else None
            bar.update(task, completed=done(state), total=end, now=_now(state, objective))

        yield tell


def done(state: SearchProgress) -> float:
    """Share (0..1) of a search that is done: of its mappings or its time, whichever ends it first."""
    shares = [0.0]
    if state.total:
        shares.append(state.seen / state.total)
    if state.seconds_limit:
        shares.append(state.seconds / state.seconds_limit)
    return min(1.0, max(shares))


def _now(state: SearchProgress, objective: str) -> str:
    if not state.seen:
        return "getting ready (the first run compiles the model, once: up to a minute)"
    each = "mappings" if objective and state.bound is None else "nodes"
    rate = f"{count(round(state.seen / state.seconds))} {each}/s, " if state.seconds > 0 else ""
    if not objective:
        return f"{rate}{count(state.valid)} mappings evaluated"
    if state.bound is None:
        best = "none yet" if state.best_energy_pj is None else energy(state.best_energy_pj)
        return f"{rate}{count(state.valid)} valid, best {best}"
    if state.best is None:
        return f"{rate}none found yet, bound {objective_value(objective, state.bound)}"
    return rate + _best(state, objective)


def _best(state: SearchProgress, objective: str) -> str:
    """The best mapping so far, and what is proved of it."""
    best = f"best {objective_value(objective, state.best or math.inf)}"
    if state.bound is None:
        return best
    gap = max(0.0, (state.best or math.inf) / state.bound - 1) if state.bound > 0 else math.inf
    return f"{best}, bound {objective_value(objective, state.bound)}, gap {gap_text(gap)}"
