"""What a search proves, in words, and its progress on a terminal: how far it is, how fast, best so far and bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from accelsim.search.result import Certificate, SearchResult
from accelsim.search.stopping import hold
from accelsim.show.report.text import count, energy, large

if TYPE_CHECKING:
    from rich.console import Console

    from accelsim.search.strategy import Progress as SearchProgress

STOPS = {
    "exhausted": "every mapping of the map space was seen",
    "budget": "budget of mappings used up",
    "timeout": "time used up",
    "memory": "its tables would not fit the memory",
    "remainders": "of the mappings with remainders only those with the lowest bounds were evaluated",
    "interrupted": "interrupted",
}


def objective_value(objective: str, value: float, digits: int = 4) -> str:
    """Value of an objective with its unit.

    Examples
    --------
    >>> objective_value("energy", 4.612e9), objective_value("cycles", 123456.0), objective_value("edp", 1.5e17)
    ('4.612 mJ', '123,456 cycles', '1.5e+17 pJ x cycle')
    """
    if objective == "energy":
        return energy(value, digits)
    if objective == "cycles":
        return f"{math.ceil(value):,} cycles"
    return f"{value:.{digits}g}" + (" pJ x cycle" if objective == "edp" else "")


def gap_text(gap: float | None) -> str:
    """Gap in percent to three digits, rounded up so that it never promises too much.

    Examples
    --------
    >>> gap_text(0.0312), gap_text(0.03121), gap_text(1e-7), gap_text(2.5), gap_text(float("inf"))
    ('3.12 %', '3.13 %', '<0.001 %', '250 %', 'unknown')
    """
    if gap is None or not math.isfinite(gap):
        return "unknown"
    if gap < 1e-5:
        return "<0.001 %"
    unit = 10.0 ** (math.floor(math.log10(gap)) - 2)
    return f"{100 * math.ceil(round(gap / unit, 6)) * unit:.3g} %"


def verdict(search: SearchResult) -> str:
    """Say what is known about the best mapping, in a few words."""
    certificate = search.certificate
    if certificate is None:
        seen = f" of {search.sample.seen:,} seen" if search.sample else ""
        return f"the best{seen}, not a proved optimum"
    return short_verdict(certificate) + within_limits(search.limits)


def short_verdict(certificate: Certificate) -> str:
    """`optimal (proved)`, or how near the optimum is at worst."""
    if certificate.proved:
        return "optimal (proved)"
    if not math.isfinite(certificate.gap):
        return "not proved: no lower bound yet"
    return f"within {gap_text(certificate.gap)} of optimal"


def long_verdict(search: SearchResult, certificate: Certificate) -> str:
    """What is proved, with the size of the map space or the two values that leave the gap."""
    if certificate.proved:
        which = [
            "even or uneven" if search.uneven else "",
            f"remainders in {', '.join(search.imperfect)}" if search.imperfect else "",
            f"padding to {', '.join(search.padded)}" if search.padded else "",
        ]
        also = f" ({'; '.join(filter(None, which))})" if any(which) else ""
        space = f"{large(search.space_size)} in the map space{also}{within_limits(search.limits)}"
        return f"optimal (proved): no mapping of the {space} has {_lower(search)}"
    digits = 6 if certificate.gap < 0.01 else 4
    best = objective_value(search.objective, certificate.value, digits)
    bound = objective_value(search.objective, certificate.bound, digits)
    return f"{short_verdict(certificate)} (best {best}, lower bound {bound})"


def within_limits(limits: Sequence[str]) -> str:
    """Which mappings a proof is of, where costs are limited."""
    return f" with {' and '.join(limits)}" if limits else ""


def _lower(search: SearchResult) -> str:
    if search.objective == "cycles":
        return "fewer cycles"
    return f"a lower {'EDP' if search.objective == 'edp' else search.objective}"


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
