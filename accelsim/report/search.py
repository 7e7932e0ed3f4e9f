"""The report on a search: how it went, how energies spread, and why mappings were rejected."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from accelsim.report.text import count, large, percent, print_table, table, times, title
from accelsim.result import SearchResult

_STOPS = {
    "exhausted": "every mapping of the map space was seen",
    "budget": "budget of mappings used up",
    "timeout": "time used up",
    "interrupted": "interrupted",
}
_QUANTILES = (("1 %", 0.01), ("25 %", 0.25), ("median", 0.5), ("75 %", 0.75), ("99 %", 0.99))
_WITHIN = (("1 %", 1.01), ("10 %", 1.1), ("2x", 2.0))


def print_search(console: Console, search: SearchResult) -> None:
    """Print what the search saw; times are of this run, all else is the same for equal input, seed and mappings."""
    title(console, "Search", f"for the lowest {search.objective}")
    seed = f", seed {search.seed}" if search.method == "random" else ""
    lines = [
        f"{search.method} search{seed}: {search.seen:,} of {large(search.space_size)} mappings seen, "
        f"{search.valid:,} valid ({percent(search.valid / search.seen)})",
        f"stopped after {search.seconds:.3g} s: {_STOPS.get(search.stop, search.stop)}",
    ]
    if search.stop == "exhausted":
        lines.append(f"No mapping of this map space has a lower {search.objective} than the one above.")
    else:
        lines.append("The mapping above is the best that was seen, not a proved optimum.")
    for line in lines:
        console.print(Text(line))
    _print_spread(console, search)
    _print_rejections(console, search)


def _print_spread(console: Console, search: SearchResult) -> None:
    spread, macs = search.spread, search.best.macs
    title(console, "Energy spread [pJ/MAC]", f"of the {spread.valid:,} valid mappings seen")
    values = [spread.min_pj, *(spread.quantile_pj(share) for _, share in _QUANTILES), spread.max_pj]
    made = table("min", *(name for name, _ in _QUANTILES), "max", "max/min", left=())
    made.add_row(*(f"{value / macs:.4g}" for value in values), times(spread.ratio))
    print_table(console, made)
    for name, factor in _WITHIN:
        within = spread.within(factor)
        console.print(Text(f"within {name:<4} of the min: {within:,} mappings ({percent(within / spread.valid)})"))
    if spread.valid > 1:
        console.print(Text(f"Quantiles and shares are to {percent(spread.resolution)} in energy.", style="dim"))


def _print_rejections(console: Console, search: SearchResult) -> None:
    rejected = search.seen - search.valid
    if not rejected:
        return
    title(console, "Rejected mappings", f"{rejected:,}, by the first rule that each broke")
    made = table("rule", "level", "mappings", "share of seen", left=(0, 1))
    for rejection in search.rejections:
        if rejection.count:
            made.add_row(
                rejection.rule, rejection.level, count(rejection.count), percent(rejection.count / search.seen)
            )
    print_table(console, made)
