"""What a report says first: sentences, key figures and tables, in words."""

from __future__ import annotations

import math

from accelsim.population.result import Census, Interval, Near
from accelsim.search.result import SearchResult
from accelsim.show.html.page import figures, table
from accelsim.show.report.census import left_out, more_keeps, sample_words
from accelsim.show.report.certificate import STOPS, long_verdict, verdict
from accelsim.show.report.text import energy, large, letters, percent, times
from accelsim.show.table import Column, Table

_SHARES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
_MOST_KEEPS = 100
_LONGEST = 10**15
_EXACT = "Counted over all valid mappings or proved, unless it says otherwise."
_WIDE_SUMS = (
    "Proved, unless it says otherwise; but partial sums are wider than finished words on this machine, so that the "
    "share of the counted mappings that have room for them is estimated from those drawn."
)


def census_lead(census: Census) -> str:
    """The main finding in two sentences."""
    found = census.range_of("energy")
    half = census.sample.quantile("energy", 0.5)
    best = "The best takes" if found.lowest_proved else "The best that is known takes"
    worst = "the worst takes" if found.highest_proved else "the worst that is known takes"
    about = "" if census.exact else "About "
    only = " and use all compute units" if census.only_fully_used else ""
    early = (
        "" if census.stop == "exhausted" else f" Some numbers are incomplete: {STOPS.get(census.stop, census.stop)}."
    )
    return (
        f"{about}{whole(census.mappings)} mappings of {census.workload} onto {census.architecture} are valid{only}. "
        f"{best} {energy(found.lowest)}; {worst} {times(found.ratio)} as much energy, "
        f"and half of all take more than about {times(half.value / found.lowest)}.{early}"
        + "".join(f" {line}" for line in left_out(census))
    )


def whole(number: int) -> str:
    """A number of mappings: exact as long as it can be read."""
    return f"{number:,}" if number < _LONGEST else large(number)


def exact_figures(census: Census) -> str:
    """What was counted or proved."""
    found, cycles = census.range_of("energy"), census.range_of("cycles")
    bottom = "proved" if found.lowest_proved else "the lowest known, not proved"
    few = "proved" if cycles.lowest_proved else "the fewest known, not proved"
    rows = [
        _valid(census),
        ("lowest energy", energy(found.lowest, 5), f"{found.lowest / census.macs:.4g} pJ/MAC, {bottom}"),
        ("highest energy", energy(found.highest, 5), f"{times(found.ratio)} the lowest, {_highest(census)}"),
        ("fewest cycles", f"{round(cycles.lowest):,}", few),
    ]
    for near in census.near:
        name = (
            f"mappings within {percent(near.share)} of the lowest energy" if near.share else "mappings of lowest energy"
        )
        rows.append((name, _at_least(near.mappings, near.complete), _near_part(near, census.mappings)))
    if not census.only_fully_used:
        units = f"mappings that use all {census.best.compute_instances:,} {census.best.compute}"
        about = "" if census.exact else "about "
        rows.append((units, about + whole(census.fully_used), _part(census.fully_used, census.mappings)))
    return figures("Exact", _EXACT if census.exact else _WIDE_SUMS, rows)


def _valid(census: Census) -> tuple[str, str, str]:
    """The number of valid mappings; a very large one in words, with its digits below."""
    of = f"of {whole(census.space_size)} that the constraints allow"
    if census.mappings < 10**12:
        return "valid mappings", whole(census.mappings), of
    return "valid mappings", _in_words(census.mappings), f"{whole(census.mappings)} {of}"


def _highest(census: Census) -> str:
    found = census.range_of("energy")
    if found.highest_proved:
        return "proved"
    if not math.isfinite(found.highest_bound):
        return "of those known"
    return f"of those known; none is more than {percent(found.highest_bound / found.highest - 1)} above"


def _at_least(mappings: int, complete: bool) -> str:
    return whole(mappings) if complete else f"at least {whole(mappings)}"


def _near_part(near: Near, total: int) -> str:
    return _part(near.mappings, total) if near.complete else "not all were counted"


def _part(mappings: int, total: int) -> str:
    """Share of all mappings, also where it is very small."""
    if not mappings:
        return "no valid mapping does"
    part = mappings / total
    return f"{percent(part)} of all" if part >= 1e-5 else f"1 in {_in_words(total / mappings)}"


def _in_words(number: float) -> str:
    """A large number to three digits.

    Examples
    --------
    >>> _in_words(339_096_482_941.0), _in_words(123_456.0), _in_words(2.5e17)
    ('339 billion', '123 thousand', '2.5e17')
    """
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if size <= number < 1000 * size:
            return f"{number / size:.3g} {name}"
    return large(round(number))


def estimated_figures(census: Census) -> str:
    """What the sample tells: each with its 95 % confidence interval, unless all mappings were evaluated."""
    sample, lowest = census.sample, census.best.energy_pj
    rows = [
        ("median energy", *_energy(sample.quantile("energy", 0.5), lowest)),
        ("mean energy", *_energy(sample.mean("energy"), lowest)),
        ("standard deviation of the energy", *_energy(sample.deviation("energy"), lowest)),
    ]
    for factor in (2.0, 10.0):
        part = sample.share(sample.energy_pj <= factor * lowest)
        name = f"take at most {times(factor)} the lowest energy"
        rows.append((name, percent(part.value), "; ".join(["of all", *_shares(part)])))
    used = sample.mean("utilization")
    rows.append(("mean utilization", percent(used.value), "; ".join(_shares(used))))
    if sample.complete:
        return figures("Distribution", f"Exact: all {len(sample):,} valid mappings were evaluated.", rows)
    note = (
        f"From {sample_words(sample)} from all valid ones, with the range that holds the true value with 95 % "
        "confidence."
    )
    return figures("Estimated", note, rows)


def _energy(value: Interval, lowest: float) -> tuple[str, str]:
    told = [f"{times(value.value / lowest)} the lowest"]
    if value.low < value.high:
        told.append(f"95 %: {_ends(value)}")
    return energy(value.value), "; ".join(told)


def _shares(part: Interval) -> list[str]:
    """The confidence interval of a share, if it has one."""
    return [f"95 %: {percent(part.low)} to {percent(part.high)}"] if part.low < part.high else []


def _ends(value: Interval) -> str:
    low = energy(value.low, 5) if math.isfinite(value.low) else "the lowest"
    high = energy(value.high, 5) if math.isfinite(value.high) else "the highest"
    return f"{low} to {high}"


def quantile_table(census: Census) -> str:
    """Energies that shares of all mappings do not exceed."""
    lowest = census.best.energy_pj
    shares = [share for share in _SHARES if share * len(census.sample) >= 1]
    values = {share: census.sample.quantile("energy", share) for share in shares}
    columns = [
        Column("share of mappings", "share", lambda share: f"{100 * share:g} %"),
        Column("energy at most", "energy_pj", energy),
        Column("of the lowest", "factor", times),
    ]
    how = "exact"
    if not census.sample.complete:
        columns.append(Column("95 % confidence", lambda row: _ends(values[row["share"]])))
        how = "estimated from the sample"
    rows = [
        {"share": share, "energy_pj": found.value, "factor": found.value / lowest} for share, found in values.items()
    ]
    return table(f"Quantiles of the energy, {how}", Table("quantiles", columns, rows))


def keep_table(census: Census) -> str:
    """How many mappings there are for each choice of the tensors that the levels keep; empty without a choice."""
    if len(census.by_keep) < 2:
        return ""
    names = list(dict.fromkeys(network.tensor for network in census.best.networks))
    letter = letters(names)
    levels = [level.level for level in census.best.levels]
    rows = []
    for keeps, mappings in census.by_keep[:_MOST_KEEPS]:
        told = [
            f"{level} {''.join(letter[name] for name in names if name in kept) or '-'}"
            for level, kept in zip(levels, keeps, strict=False)
        ]
        rows.append({"keeps": "; ".join(told), "mappings": mappings, "share": mappings / census.mappings})
    columns = (
        Column("levels keep", "keeps"),
        Column("mappings", "mappings", whole),
        Column("share of all", "share", percent),
    )
    key = ", ".join(f"{short} {name}" for name, short in letter.items())
    exact = "Exact numbers" if census.exact else f"Numbers, estimated from {sample_words(census.sample)},"
    caption = f"{exact} of mappings by what each level keeps ({key})"
    if len(census.by_keep) > _MOST_KEEPS:
        caption += f"; and {more_keeps(census, _MOST_KEEPS)}"
    return table(caption, Table("keeps", columns, rows))


def search_lead(search: SearchResult) -> str:
    """What was found, and what is known about it."""
    best = search.best
    said = "EDP" if search.objective == "edp" else search.objective
    return (
        f"The best mapping of {best.workload} onto {best.architecture} that was found takes {energy(best.energy_pj)} "
        f"and {best.cycles:,} cycles; its {said} is {verdict(search)}."
    )


def search_figures(search: SearchResult) -> str:
    """What the best mapping costs, and what the search tells of it."""
    best, certificate = search.best, search.certificate
    rows = [
        ("energy", energy(best.energy_pj, 5), f"{best.pj_per_mac:.4g} pJ/MAC"),
        ("cycles", f"{best.cycles:,}", f"limited by {best.bottleneck}"),
        ("utilization", percent(best.utilization), f"{best.compute_used:,} of {best.compute_instances:,} in use"),
        ("EDP", f"{best.edp:.4g}", "pJ x cycle"),
    ]
    if search.within is not None:
        share, mappings = search.within
        name = f"within {percent(share)} of the best {search.objective}"
        rows.append((name, _at_least(mappings, search.stop == "exhausted"), "mappings"))
    if search.sample is not None:
        seen = f"of {search.sample.seen:,} seen; {whole(search.space_size)} in the map space"
        rows.append(("valid mappings seen", f"{search.sample.valid:,}", seen))
    note = "" if certificate is None else f"Its {search.objective} is {long_verdict(search, certificate)}."
    return figures("Best mapping", note or f"By {search.method} search, seed {search.seed}.", rows)
