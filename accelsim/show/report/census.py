"""The report on a census: how many mappings there are, how what they cost is spread, and what they keep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from accelsim.show.report import STOPS, count, energy, large, percent, times
from accelsim.show.table import Column, Part, Row, Table, bold, heading

if TYPE_CHECKING:
    from accelsim.population.result import Census, Interval, Range
    from accelsim.population.sampling import UniformSample

_COLUMNS = {"energy": "energy", "cycles": "cycles", "outer_words": "outer words"}
_KEEPS = 8
"""Choices of what is kept that are listed."""
_CLOSE = {"optimal": 0.0, "1 %": 0.01, "5 %": 0.05}
"""How far above the lowest energy mappings are counted of which several censuses tell."""


def census_sentence(census: Census) -> str:
    """The census in a sentence: mappings, spread, and those near the best."""
    found = census.range_of("energy")
    about = "" if census.exact else "about "
    most = ""
    if found.lowest_bound > 0 and found.highest_bound > found.highest * 1.0005:
        most = f" (at most {times(found.highest_bound / found.lowest_bound)})"
    parts = [f"{about}{large(census.mappings)} valid mappings", f"energy spread {times(found.ratio)}{most}"]
    for near in census.near:
        where = f"within {100 * near.share:.3g} %" if near.share else "optimal"
        parts.append(f"{'' if near.complete else 'at least '}{large(near.mappings)} {where}")
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]


def sample_words(sample: UniformSample) -> str:
    """How many mappings were drawn, and how many were asked for where these are not the same."""
    less = f" of {sample.asked:,} asked for" if sample.drawn < sample.asked else ""
    if len(sample) < sample.drawn:
        return f"{len(sample):,} valid mappings of {sample.drawn:,} drawn uniformly{less}"
    return f"{sample.drawn:,} mappings{less} drawn uniformly"


def census_report(census: Census) -> Iterator[Part]:
    """What a census tells; all is the same for equal input and seed, unless time ran out."""
    yield bold(f"{census.workload} on {census.architecture}")
    yield census_sentence(census)
    if census.stop == "interrupted":
        yield "Interrupted: what was not reached is left out, or is that of the mappings drawn."
    elif census.stop != "exhausted" and "at least" in census_sentence(census).lower():
        yield f"Numbers with `at least` are incomplete: {STOPS.get(census.stop, census.stop)}."
    if not census.range_of("energy").lowest_proved:
        yield "Mappings close to the lowest energy are not counted, as it is not proved."
    sample = census.sample
    note = f"quantiles estimated from {sample_words(sample)}, seed {sample.seed}"
    yield Table("spread", _RANGES, _range_rows(census), "Spread", note)
    yield from _notes(census.ranges)
    intervals = {"median": sample.quantile("energy", 0.5), "mean": sample.mean("energy")}
    intervals["standard deviation"] = sample.deviation("energy")
    said = ", ".join(f"{name} {_interval(found)}" for name, found in intervals.items())
    yield f"95 % intervals of the energy: {said}."
    yield f"Outer words: words that the outermost level, {census.best.levels[0].level}, reads and writes."
    yield heading("Utilization")
    units = sample.sampler.nest.space.encoded.architecture.macs
    every = f"all {units:,} compute units" if units > 1 else "the compute unit"
    share = census.fully_used / census.mappings if census.mappings else 0.0
    about = "" if census.exact else "About "
    yield f"{about}{large(census.fully_used)} mappings use {every} ({percent(share)} of the valid ones)."
    yield from _keeps(census)


def _range_rows(census: Census) -> list[dict[str, Any]]:
    """Smallest and largest values of each column, and between them quantiles and the mean."""
    sample = census.sample
    return [
        {
            "workload": census.workload,
            "architecture": census.architecture,
            "mappings": census.mappings,
            "column": found.column,
            "lowest": found.lowest,
            "lowest_proved": found.lowest_proved,
            "p01": sample.quantile(found.column, 0.01).value,
            "median": sample.quantile(found.column, 0.5).value,
            "mean": sample.mean(found.column).value,
            "p99": sample.quantile(found.column, 0.99).value,
            "highest": found.highest,
            "highest_proved": found.highest_proved,
            "spread": found.ratio,
        }
        for found in census.ranges
    ]


def _figure(head: str, key: str) -> Column:
    def cell(row: Row) -> str:
        return energy(row[key]) if row["column"] == "energy" else count(round(row[key]))

    return Column(head, cell)


_RANGES = (
    Column("", "column", _COLUMNS.__getitem__),
    _figure("smallest", "lowest"),
    _figure("1 %", "p01"),
    _figure("median", "median"),
    _figure("mean", "mean"),
    _figure("99 %", "p99"),
    _figure("largest", "highest"),
    Column("spread", "spread", times),
)


def _interval(found: Interval) -> str:
    low, high = (energy(end) if math.isfinite(end) else "unknown" for end in (found.low, found.high))
    return f"{low} to {high}"


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


def _keeps(census: Census) -> Iterator[Part]:
    if len(census.by_keep) < 2:
        return
    levels = [level.level for level in census.best.levels][1:]
    rows = [
        {
            **{f"keep_{level}": sorted(kept) for level, kept in zip(levels, keeps[1:], strict=True)},
            "mappings": mappings,
            "share": mappings / max(1, census.mappings),
        }
        for keeps, mappings in census.by_keep
    ]
    kept = [Column(level, f"keep_{level}", lambda names: ", ".join(names) or "-", left=True) for level in levels]
    columns = (*kept, Column("mappings", "mappings", large), Column("share", "share", percent))
    how = "" if census.exact else f"; shares of {sample_words(census.sample)}"
    note = f"{len(rows)} choices; below the outermost level{how}"
    yield Table("keep", columns, rows, "What levels keep", note, most=_KEEPS)
    rest = [mappings for _, mappings in census.by_keep[_KEEPS:]]
    if rest:
        choices, share = f"{len(rest)} more choice{'s' if len(rest) > 1 else ''}", sum(rest) / max(1, census.mappings)
        yield f"and {choices}, together {large(sum(rest))} mappings ({percent(share)})"


def censuses_report(censuses: Sequence[Census]) -> Iterator[Part]:
    """A line for each census; CSV has the ranges of each."""
    machines, layers = ({getattr(census, of) for census in censuses} for of in ("architecture", "workload"))
    names = [Column("layer", "workload")] if len(layers) > 1 else []
    names += [Column("machine", "architecture")] if len(machines) > 1 else []
    shared = [f"on {machine}" for machine in machines if len(machines) == 1] or [f"{layer}" for layer in layers]
    yield bold(shared[0] if len(names) == 1 else "")
    numbers = (
        Column("mappings", "mappings", large),
        Column("spread", "spread", times),
        *(Column(head, head) for head in _CLOSE),
    )
    shown = []
    for census in censuses:
        found = census.range_of("energy")
        near = {each.share: ("" if each.complete else ">") + large(each.mappings) for each in census.near}
        cells = {head: near.get(share, "") if found.lowest_proved else "?" for head, share in _CLOSE.items()}
        about = {"workload": census.workload, "architecture": census.architecture, "mappings": census.mappings}
        shown.append({**about, "spread": found.ratio, **cells})
    rows = [row for census in censuses for row in _range_rows(census)]
    yield Table("spread", (*names, *numbers), rows, shown=shown)
    yield (
        "Spread: largest energy found over the smallest. Mappings at the optimum, within 1 % and 5 % of it; > at "
        "least so many; ? not counted, as the lowest energy is not proved in this time."
    )
