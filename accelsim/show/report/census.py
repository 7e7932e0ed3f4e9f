"""The report on a census: how many mappings there are, how what they cost is spread, and what they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from accelsim.show.report.certificate import STOPS
from accelsim.show.report.text import count, energy, large, percent, print_table, table, times, title
from accelsim.show.table import Column, Table, print_parts

if TYPE_CHECKING:
    from accelsim.census.result import Census, Interval, Near, NearPeak, Range
    from accelsim.census.sampling import UniformSample
    from accelsim.census.tails import StratifiedSample

_COLUMNS = {"energy": "energy", "cycles": "cycles", "outer_words": "outer words"}
_KEEPS = 8
"""Choices of what is kept that are listed."""


def census_sentence(census: Census) -> str:
    """The census in a sentence or two: mappings, spread, those near the best, those with the fewest outer words."""
    found = census.range_of("energy")
    about = "" if census.exact else "about "
    whose = " that use all compute units" if census.only_fully_used else ""
    most = ""
    if found.lowest_bound > 0 and found.highest_bound > found.highest * 1.0005:
        most = f" (at most {times(found.highest_bound / found.lowest_bound)})"
    parts = [f"{about}{large(census.mappings)} valid mappings{whose}", f"energy spread {times(found.ratio)}{most}"]
    parts += [_near(near) for near in census.near]
    text = "; ".join(parts) + "."
    if census.fewest is not None:
        least = "" if census.fewest.complete else "at least "
        vary = times(census.fewest.highest_pj / census.fewest.lowest_pj)
        if census.fewest.complete and census.fewest.highest_bound > census.fewest.highest_pj * 1.0005:
            vary += f" (at most {times(census.fewest.highest_bound / census.fewest.lowest_pj)})"
        few = (
            f"{least}{large(census.fewest.mappings)} move the fewest words at the outermost level "
            f"({count(census.fewest.words)}) and vary {vary} in energy."
        )
        text += f" {few[0].upper()}{few[1:]}"
    return text[0].upper() + text[1:]


def _near(near: Near) -> str:
    least = "" if near.complete else "at least "
    where = f"within {100 * near.share:.3g} %" if near.share else "optimal"
    return f"{least}{large(near.mappings)} {where}"


def sample_words(sample: UniformSample) -> str:
    """How many mappings were evaluated or drawn, and how many were asked for where these are not the same."""
    if sample.complete:
        return f"all {len(sample):,} valid mappings"
    less = f" of {sample.asked:,} asked for" if sample.drawn < sample.asked else ""
    if len(sample) < sample.drawn:
        return f"{len(sample):,} valid mappings of {sample.drawn:,} drawn uniformly{less}"
    return f"{sample.drawn:,} mappings{less} drawn uniformly"


def left_out(census: Census) -> list[str]:
    """Sentences on what is not counted, as the value that it refers to is not proved."""
    if census.only_fully_used:
        return []
    lines = []
    if not census.range_of("energy").lowest_proved:
        lines.append("Mappings close to the lowest energy are not counted, as it is not proved.")
    if census.fewest is None:
        lines.append("Mappings with the fewest outer words are not counted, as it is not proved that none has fewer.")
    return lines


def print_census(console: Console, census: Census) -> None:
    """Print what a census tells; all is the same for equal input and seed, unless time ran out."""
    console.print(Text(f"{census.workload} on {census.architecture}", style="bold"))
    console.print(Text(census_sentence(census)))
    if census.stop == "interrupted":
        console.print(Text("Interrupted: what was not reached is left out, or is that of the mappings drawn."))
    elif census.stop != "exhausted" and "at least" in census_sentence(census).lower():
        why = STOPS.get(census.stop, census.stop)
        console.print(Text(f"Numbers with `at least` are incomplete: {why}."))
    for line in left_out(census):
        console.print(Text(line))
    _print_ranges(console, census)
    _print_tail(console, census)
    _print_words(console, census)
    _print_units(console, census)
    _print_keeps(console, census)


def _print_ranges(console: Console, census: Census) -> None:
    print_parts(console, [ranges_table([census])])
    lines = [
        *_notes(census.ranges),
        _mean_line(census),
        f"Outer words: words that the outermost level, {census.best.levels[0].level}, reads and writes.",
    ]
    for line in lines:
        console.print(Text(line))


def ranges_table(censuses: Sequence[Census]) -> Table:
    """Smallest and largest values of each column, and between them quantiles and the mean."""
    rows = [
        {
            "workload": census.workload,
            "architecture": census.architecture,
            "mappings": census.mappings,
            "column": found.column,
            "lowest": found.lowest,
            "lowest_proved": found.lowest_proved,
            **{name: census.sample.quantile(found.column, at).value for name, at in (("p01", 0.01), ("median", 0.5))},
            "mean": census.mean(found.column),
            "p99": census.sample.quantile(found.column, 0.99).value,
            "highest": found.highest,
            "highest_proved": found.highest_proved,
            "spread": found.ratio,
        }
        for census in censuses
        for found in census.ranges
    ]
    columns = (
        Column("", "column", _COLUMNS.__getitem__),
        _figure("smallest", "lowest"),
        _figure("1 %", "p01"),
        _figure("median", "median"),
        _figure("mean", "mean"),
        _figure("99 %", "p99"),
        _figure("largest", "highest"),
        Column("spread", "spread", times),
    )
    sample = censuses[0].sample
    how = f"quantiles estimated from {sample_words(sample)}, seed {sample.seed}"
    note = f"exact: {sample_words(sample)} were evaluated" if sample.complete else how
    return Table("spread", columns, rows, "Spread", note)


def _figure(head: str, key: str) -> Column:
    return Column(head, lambda row: _value(row["column"], row[key]))


def _print_tail(console: Console, census: Census) -> None:
    """Quantiles of the lowest energies, and shares of mappings close to the lowest, from a stratified sample."""
    if census.tail is None:
        return
    from accelsim.census.tails import TAILS, WITHIN

    tail, lowest = census.tail, census.range_of("energy").lowest
    title(console, "Low energies", f"estimated from {tail_words(tail)}, with 95 % intervals")
    made = table("share of mappings", "energy at most", "of the lowest", "95 %", left=(0,))
    for share in TAILS:
        found = tail.quantile(share)
        ends = (times(end / lowest) for end in (max(found.low, lowest), found.high))
        made.add_row(_rare(share), energy(found.value), times(found.value / lowest), " to ".join(ends))
    print_table(console, made)
    console.print()
    made = table("energy within", "share of mappings", "95 %", "counted", left=(0,))
    counted = {near.share: near for near in census.near}
    for share in WITHIN:
        found = tail.share((1 + share) * lowest)
        cells = [_rare(found.value), f"{_rare(found.low)} to {_rare(found.high)}"]
        near = counted.get(share)
        exact = "" if near is None else f"{'' if near.complete else '>'}{_rare(near.mappings / census.mappings)}"
        made.add_row(percent(share), *cells, exact)
    print_table(console, made)


def tail_words(tail: StratifiedSample) -> str:
    """How many mappings were drawn from strata, and how many of these the estimates use."""
    return f"{len(tail):,} of {tail.asked:,} mappings drawn from {len(tail.many)} strata, whose numbers the others plan"


def _rare(share: float) -> str:
    """A share that may be very small.

    Examples
    --------
    >>> _rare(0.01), _rare(1.234e-7), _rare(0.0)
    ('0.01', '1.2e-7', '0')
    """
    return f"{share:.2g}".replace("e-0", "e-")


def _mean_line(census: Census) -> str:
    """Which means are exact, the deviation, and the 95 % intervals of what is estimated."""
    if census.sample.complete:
        deviation = energy(float(census.sample.energy_pj.std()))
        return f"Means and quantiles are exact; the standard deviation of the energy is {deviation}."
    median = f"95 % interval of the median energy: {_interval(census.sample.quantile('energy', 0.5))}"
    if census.means is None:
        return f"{median}; of its mean, {_interval(census.sample.mean('energy'))}."
    slack = census.means.energy_slack_pj / census.means.energy_pj
    exact = "exact" if slack == 0 else f"exact to {percent(slack)}"
    exact += " (without leakage)" if census.means.leaks else ""
    deviation = (
        "" if census.deviation is None else f", and its standard deviation, {energy(census.deviation.energy_pj)}"
    )
    return f"The mean energy is {exact}{deviation}. {median}."


def _interval(found: Interval) -> str:
    return f"{energy(found.low)} to {energy(found.high)}"


def _notes(ranges: Sequence[Range]) -> list[str]:
    """What is proved of the smallest and largest values."""
    lines = []
    unproved = [_COLUMNS[found.column] for found in ranges if not found.lowest_proved]
    if len(unproved) < len(ranges):
        lines.append("Smallest values are proved" + (f", but for {', '.join(unproved)}." if unproved else "."))
    beyond = [
        f"{_COLUMNS[found.column]} {percent(found.highest_bound / found.highest - 1)}"
        for found in ranges
        if not found.highest_proved
    ]
    if beyond:
        lines.append(f"Largest values are of mappings found; none can be larger by more than: {', '.join(beyond)}.")
    else:
        lines.append("Largest values are proved.")
    return lines


def _print_words(console: Console, census: Census) -> None:
    """Words that each level moves of each tensor: exact means over all valid mappings, and those of the best."""
    if census.means is None:
        return
    still = (
        "" if all(any((t.reads, t.fills, t.updates)) for t in census.means.tensors) else "; without what never moves"
    )
    title(console, "Words moved", f"exact means over all valid mappings, and those of the lowest energy{still}")
    made = table("level", "tensor", "mean reads", "fills", "updates", "best reads", "fills", "updates", left=(0, 1))
    best = {(t.level, t.tensor): (t.total_reads, t.total_fills, t.total_updates) for t in census.best.tensors}
    level = ""
    for mean in census.means.tensors:
        moved = (mean.reads, mean.fills, mean.updates)
        if any(moved):
            kept = best.get((mean.level, mean.tensor), ())
            cells = [count(round(words)) if words else "" for words in (*moved, *kept)]
            made.add_row(mean.level if mean.level != level else "", mean.tensor, *cells)
            level = mean.level
    print_table(console, made)


def _print_units(console: Console, census: Census) -> None:
    title(console, "Utilization")
    units = census.sample.sampler.nest.space.encoded.architecture.macs
    every = f"all {units:,} compute units" if units > 1 else "the compute unit"
    share = census.fully_used / census.mappings if census.mappings else 0.0
    about = "" if census.exact else "About "
    console.print(Text(f"{about}{large(census.fully_used)} mappings use {every} ({percent(share)} of the valid ones)."))
    if census.near_peak is None:
        return
    for line in near_peak_lines(census.near_peak, census.mappings):
        console.print(Text(line))


def near_peak_lines(found: NearPeak, mappings: int) -> list[str]:
    """How many of all mappings come close to peak throughput, and what those drawn need."""
    if found.complete:
        many = f"{_mappings(found.mappings)} ({percent(found.mappings / mappings)} of the valid ones)"
    else:
        low = f"{large(round(found.low))} to" if found.low >= 1 else "at most"
        counted = f"; {large(found.mappings)} counted" if found.mappings else ""
        many = f"{low} {_mappings(round(found.high))} (95 %{counted})"
    lines = [f"Within {percent(1 - found.utilization)} of peak throughput: {many}."]
    if found.lowest_pj is not None and found.highest_pj is not None and found.drawn != 1 and found.mappings != 1:
        ends = f"{energy(found.lowest_pj)} to {energy(found.highest_pj)}: {times(found.highest_pj / found.lowest_pj)}"
        these = f"The {found.drawn:,} of these among {found.drawn_from:,} drawn" if found.drawn else "They"
        lines.append(f"{these} need {ends}.")
    return lines


def _mappings(number: int) -> str:
    return "1 mapping" if number == 1 else f"{large(number)} mappings"


def _print_keeps(console: Console, census: Census) -> None:
    if len(census.by_keep) < 2:
        return
    how = "" if census.exact else f"; shares of {sample_words(census.sample)}"
    title(console, "What levels keep", f"{len(census.by_keep)} choices; below the outermost level{how}")
    levels = [level.level for level in census.best.levels][1:]
    made = table(*levels, "mappings", "share", left=range(len(levels)))
    for keeps, mappings in census.by_keep[:_KEEPS]:
        names = [", ".join(sorted(kept)) or "-" for kept in keeps[1:]]
        made.add_row(*names, large(mappings), percent(mappings / max(1, census.mappings)))
    print_table(console, made)
    if len(census.by_keep) > _KEEPS:
        console.print(Text(f"and {more_keeps(census, _KEEPS)}"))


def more_keeps(census: Census, listed: int) -> str:
    """What the choices of what levels keep that a table does not list come to."""
    rest = [mappings for _, mappings in census.by_keep[listed:]]
    choices = f"{len(rest)} more choice{'s' if len(rest) > 1 else ''}"
    return f"{choices}, together {large(sum(rest))} mappings ({percent(sum(rest) / max(1, census.mappings))})"


def _value(column: str, value: float) -> str:
    return energy(value) if column == "energy" else count(round(value))


def print_censuses(console: Console, censuses: Sequence[Census]) -> None:
    """Print a line for each census."""
    machines, layers = ({getattr(census, of) for census in censuses} for of in ("architecture", "workload"))
    names = [("layer", "workload")] if len(layers) > 1 else []
    names += [("machine", "architecture")] if len(machines) > 1 else []
    shared = [f"on {machine}" for machine in machines if len(machines) == 1] or [f"{layer}" for layer in layers]
    console.print(Text(shared[0] if len(names) == 1 else "", style="bold"))
    numbers = ("mappings", "spread", "optimal", "1 %", "10 %", "fewest words", "vary")
    made = table(*(name for name, _ in names), *numbers)
    for census in censuses:
        near = {found.share: found for found in census.near}
        cells = [getattr(census, of) for _, of in names]
        cells += [large(census.mappings), times(census.range_of("energy").ratio)]
        proved = census.range_of("energy").lowest_proved
        cells += [_cell(near.get(share)) if proved else "?" for share in (0.0, 0.01, 0.1)]
        fewest = census.fewest
        if fewest is not None:
            cells += [_least(fewest.mappings, fewest.complete), times(fewest.highest_pj / fewest.lowest_pj)]
        elif not census.only_fully_used:
            cells += ["?", "?"]
        made.add_row(*cells)
    print_table(console, made)
    console.print(
        Text(
            "Spread: largest energy found over the smallest. Mappings at the optimum, within 1 % and 10 % of it, and "
            "with the fewest words at the outermost level, which vary so much in energy; > at least so many; ? not "
            "counted, as the lowest energy, or the fewest words, are not proved in this time."
        )
    )


def _cell(near: Near | None) -> str:
    return "" if near is None else _least(near.mappings, near.complete)


def _least(mappings: int, complete: bool) -> str:
    return large(mappings) if complete else f">{large(mappings)}"
