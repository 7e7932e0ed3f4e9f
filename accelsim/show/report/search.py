"""The report on a search: what it proved, how it went, the best mappings, how energies spread, what was rejected."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from accelsim.inputs.units import format_bits
from accelsim.model.result import Result
from accelsim.search.result import Sample, SearchResult
from accelsim.show.report.certificate import STOPS, gap_text, long_verdict, objective_value
from accelsim.show.report.nest import nest_line
from accelsim.show.report.text import count, energy, large, percent, print_table, table, times, title

_QUANTILES = (("1 %", 0.01), ("25 %", 0.25), ("median", 0.5), ("75 %", 0.75), ("99 %", 0.99))
_WITHIN = (("1 %", 1.01), ("10 %", 1.1), ("2x", 2.0))
_SHOWN = 20
"""Of the mappings within a share of the best, so many are printed unless a number is asked for."""


def print_search(console: Console, search: SearchResult) -> None:
    """Print what a search proved or saw; times are of this run, all else is the same for equal input and seed."""
    title(console, "Search", f"for the {_lowest(search)}")
    if search.certificate is not None:
        console.print(Text(long_verdict(search, search.certificate), style="bold"))
    lines = [] if search.sample is None else _sample_lines(search, search.sample)
    for line in lines or _exact_lines(search):
        console.print(Text(line))
    if search.sample is None:
        return
    _print_spread(console, search.sample, search.best)
    _print_rejections(console, search.sample)


def _lowest(search: SearchResult) -> str:
    if search.objective == "cycles":
        return "fewest cycles"
    return "lowest " + ("EDP" if search.objective == "edp" else search.objective)


def work_line(nodes: int, evaluated: int, table_bytes: int) -> str:
    """What an exact search did, and the memory of its tables."""
    tables = format_bits(8 * table_bytes)
    return f"{nodes:,} nodes visited, {evaluated:,} mappings evaluated, {tables} of cost-to-go tables"


def _exact_lines(search: SearchResult) -> list[str]:
    """How an exact search went."""
    certificate = search.certificate
    early = "" if search.stop == "exhausted" else f": {STOPS.get(search.stop, search.stop)}"
    ended = "stopped" if early else "ended"
    done = [] if certificate is None else [work_line(certificate.nodes, certificate.evaluated, certificate.table_bytes)]
    if search.kept:
        return [f"kept from {search.kept}, found by {search.method} search in {search.seconds:.3g} s", *done]
    return [f"{search.method} search, {ended} after {search.seconds:.3g} s{early}", *done]


def _sample_lines(search: SearchResult, sample: Sample) -> list[str]:
    """How a search that looked at mappings one by one went."""
    seed = f", seed {search.seed}" if search.method == "random" else ""
    lines = [
        f"{search.method} search{seed}: {sample.seen:,} of {large(search.space_size)} mappings seen, "
        f"{sample.valid:,} valid ({percent(sample.valid / sample.seen)})",
        f"stopped after {search.seconds:.3g} s: {STOPS.get(search.stop, search.stop)}",
    ]
    if search.certificate is None:
        lines.append("The mapping above is the best that was seen, not a proved optimum.")
    return lines


def print_population(console: Console, search: SearchResult, population: tuple[int, float | None] | None) -> None:
    """Say how many valid mappings there are, and how much the worst may need (`accelsim spread` tells more)."""
    if population is None:
        return
    mappings, most_pj = population
    text = f"{large(mappings)} mappings are valid"
    if most_pj is not None:
        text += f"; none needs more than {times(most_pj / search.best.energy_pj)} the energy of this one"
    console.print(Text(text))


def print_ranked(console: Console, search: SearchResult, most: int | None = None) -> None:
    """Print the best mappings in order, at most so many of them, each with its loop nest on one line."""
    if len(search.ranked) < 2 and search.within is None:
        return
    from accelsim.search.strategy import Objective

    goal, shown = Objective.parse(search.objective), search.ranked[: most or _SHOWN]
    note = f"the {len(shown):,} of {_lowest(search)}"
    if search.within is not None:
        partial = "" if search.stop == "exhausted" else "at least "
        note = f"{partial}{search.within[1]:,} are within {_share(search.within[0])} of the best {search.objective}"
    title(console, "Best mappings", note)
    product = search.objective not in ("energy", "cycles")
    heads = ["rank", *([search.objective] if product else []), "over best", "energy", "cycles", "util.", "loop nest"]
    made = table(*heads, left=(len(heads) - 1,), fold=(len(heads) - 1,))
    made.columns[0].justify = "right"
    best = goal.value(search.ranked[0].energy_pj, search.ranked[0].cycles)
    for rank, result in enumerate(shown, 1):
        value = goal.value(result.energy_pj, result.cycles)
        over = value / best - 1
        cells = [objective_value("", value, 5)] if product else []
        cells += ["" if over < 1e-12 else f"+{gap_text(over)}", *cost_cells(result)]
        made.add_row(str(rank), *cells, nest_line(result))
    print_table(console, made)
    print_nest_key(console)
    if len(shown) < len(search.ranked):
        console.print(Text(f"{len(search.ranked) - len(shown):,} more are in result.json (-o DIR, --json)."))


def cost_cells(result: Result) -> list[str]:
    """Energy, cycles and utilization of one mapping among several."""
    return [energy(result.energy_pj, 5), count(result.cycles), percent(result.utilization)]


def print_nest_key(console: Console) -> None:
    """Say how to read loop nests of one line."""
    text = "Loop nest: level[tensors kept] loops in time, outermost first, x(...) and y(...) over the fanout below."
    console.print(Text(text, style="dim"))


def _share(share: float) -> str:
    return f"{100 * share:.3g} %"


def _print_spread(console: Console, sample: Sample, best: Result) -> None:
    spread, macs = sample.spread, best.macs
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


def _print_rejections(console: Console, sample: Sample) -> None:
    rejected = sample.seen - sample.valid
    if not rejected:
        return
    title(console, "Rejected mappings", f"{rejected:,}, by the first rule that each broke")
    made = table("rule", "level", "mappings", "share of seen", left=(0, 1))
    for rejection in sample.rejections:
        if rejection.count:
            made.add_row(
                rejection.rule, rejection.level, count(rejection.count), percent(rejection.count / sample.seen)
            )
    print_table(console, made)
