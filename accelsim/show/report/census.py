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
    from accelsim.population.result import Census, Interval, Near, Range
    from accelsim.population.sampling import UniformSample
    from accelsim.population.tails import StratifiedSample

_COLUMNS = {"energy": "energy", "cycles": "cycles", "outer_words": "outer words"}
_KEEPS = 8
"""Choices of what is kept that are listed."""


def census_sentence(census: Census) -> str:
    """The census in a sentence: mappings, spread, and those near the best."""
    found = census.range_of("energy")
    about = "" if census.exact else "about "
    whose = " that use all compute units" if census.only_fully_used else ""
    most = ""
    if found.lowest_bound > 0 and found.highest_bound > found.highest * 1.0005:
        most = f" (at most {times(found.highest_bound / found.lowest_bound)})"
    parts = [f"{about}{large(census.mappings)} valid mappings{whose}", f"energy spread {times(found.ratio)}{most}"]
    parts += [_near(near) for near in census.near]
    text = "; ".join(parts) + "."
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
    if census.only_fully_used or census.range_of("energy").lowest_proved:
        return []
    return ["Mappings close to the lowest energy are not counted, as it is not proved."]


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
    _print_units(console, census)
    _print_keeps(console, census)


def _print_ranges(console: Console, census: Census) -> None:
    print_parts(console, [ranges_table([census])])
    lines = [
        *_notes(census.ranges),
        _mean_line(census.sample),
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
            "mean": census.sample.mean(found.column).value,
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
    from accelsim.population.tails import TAILS, WITHIN

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


def _mean_line(sample: UniformSample) -> str:
    """Median, mean and standard deviation of the energy: exact, or with their 95 % intervals."""
    mean, deviation, median = sample.mean("energy"), sample.deviation("energy"), sample.quantile("energy", 0.5)
    if sample.complete:
        return f"Means and quantiles are exact; the standard deviation of the energy is {energy(deviation.value)}."
    return (
        f"95 % intervals of the energy: median {_interval(median)}, mean {_interval(mean)}, standard deviation "
        f"{_interval(deviation)}."
    )


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


def _print_units(console: Console, census: Census) -> None:
    title(console, "Utilization")
    units = census.sample.sampler.nest.space.encoded.architecture.macs
    every = f"all {units:,} compute units" if units > 1 else "the compute unit"
    share = census.fully_used / census.mappings if census.mappings else 0.0
    about = "" if census.exact else "About "
    console.print(Text(f"{about}{large(census.fully_used)} mappings use {every} ({percent(share)} of the valid ones)."))


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
    numbers = ("mappings", "spread", "optimal", "1 %", "5 %")
    made = table(*(name for name, _ in names), *numbers)
    for census in censuses:
        near = {found.share: found for found in census.near}
        cells = [getattr(census, of) for _, of in names]
        cells += [large(census.mappings), times(census.range_of("energy").ratio)]
        proved = census.range_of("energy").lowest_proved
        cells += [_cell(near.get(share)) if proved else "?" for share in (0.0, 0.01, 0.05)]
        made.add_row(*cells)
    print_table(console, made)
    console.print(
        Text(
            "Spread: largest energy found over the smallest. Mappings at the optimum, within 1 % and 5 % of it; > at "
            "least so many; ? not counted, as the lowest energy is not proved in this time."
        )
    )


def _cell(near: Near | None) -> str:
    if near is None:
        return ""
    return large(near.mappings) if near.complete else f">{large(near.mappings)}"
