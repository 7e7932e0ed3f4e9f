"""Reports on searches, Pareto fronts and the census: what is proved, how it went, the best, what was seen or drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from accelsim import __version__
from accelsim.inputs.mapping import dump_mapping
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import format_bits, printable, ratio
from accelsim.model.result import Result
from accelsim.results import Provenance, to_json
from accelsim.search.result import EVEN, MOST_TIES, FrontResult, Sample, SearchResult, kind_of_mappings
from accelsim.show.report import (
    STOPS,
    change,
    count,
    energy,
    gap_text,
    goal_name,
    large,
    left_out_line,
    long_verdict,
    objective_value,
    percent,
    times,
    within_limits,
)
from accelsim.show.report.mapping import nest_line, trade_text
from accelsim.show.table import Column, Piece, Row, Table, bold, dim, heading, to_csv

if TYPE_CHECKING:
    from accelsim.inputs.workload import Einsum
    from accelsim.population.result import Census, Range
    from accelsim.population.sampling import Interval, UniformSample
    from accelsim.search.family import FamilyResult

_SHOWN = 20
"""Of the mappings within a share of the best, so many are printed unless a number is asked for."""
_POINTS = 40
_ALWAYS = ("point", "energy_pj", "cycles", "edp_pj_cycles", "pj_per_mac", "utilization", "loop_nest")
NAMES = {"energy": "energy", "cycles": "cycles", "outer_words": "outer words"}


def search_report(search: SearchResult) -> Iterator[Piece]:
    """What a search proved or saw; times are of this run, all else is the same for equal input and seed."""
    yield heading("Search", f"for the {_lowest(search)}")
    if search.certificate is not None:
        yield bold(long_verdict(search, search.certificate))
        yield from _uneven_lines(search)
    if search.sample is None:
        early = "" if search.stop == "exhausted" else f": {STOPS.get(search.stop, search.stop)}"
        how, after = f"{search.method} search", f"{search.seconds:.3g} s"
        if search.kept:
            yield f"kept from {search.kept}, found by {how} in {after}"
        else:
            yield f"{how}, {'stopped' if early else 'ended'} after {after}{early}"
        if (proof := search.certificate) is not None:
            yield work_line(proof.nodes, proof.evaluated, proof.table_bytes)
        return
    sample, seed = search.sample, f", seed {search.seed}" if search.method == "random" else ""
    seen = f"{sample.seen:,} of {large(search.space_size)} mappings seen"
    valid = f"{sample.valid:,} valid ({percent(sample.valid / sample.seen)})"
    yield f"{search.method} search{seed}: {seen}, {valid}"
    yield f"stopped after {search.seconds:.3g} s: {STOPS.get(search.stop, search.stop)}"
    if search.certificate is None:
        yield "The mapping above is the best that was seen, not a proved optimum."
    yield from _rejections(search.sample)


def _lowest(search: SearchResult) -> str:
    return "fewest cycles" if search.objective == "cycles" else f"lowest {goal_name(search.objective)}"


def work_line(nodes: int, evaluated: int, table_bytes: int) -> str:
    """What an exact search did, and the memory of its tables."""
    tables = format_bits(8 * table_bytes)
    return f"{nodes:,} nodes visited, {evaluated:,} mappings evaluated, {tables} of cost-to-go tables"


def _uneven_lines(search: SearchResult) -> Iterator[str]:
    """By how much the best even mapping is worse, if it is; or how much better an uneven one may be at most."""
    goal = goal_name(search.objective)
    less, proof = "fewer" if goal in ("cycles", "outer_words") else "less", search.certificate
    if proof is not None and search.even is not None and search.even.value > proof.value:
        yield f"the best even mapping (proved) has {gap_text(search.even.value / proof.value - 1)} more {goal}"
    if proof is not None and proof.proved and search.uneven_bound is not None:
        left = gap_text(1 - search.uneven_bound / proof.value)
        yield f"no uneven mapping with {less} {goal} was found; at most {left} {less} is possible: --uneven goes on"


def ranked_report(search: SearchResult, most: int | None = None) -> Iterator[Piece]:
    """The best mappings in order, a row for each value of the objective, at most so many, with a loop nest of each."""
    if len(search.ranked) < 2 and search.within is None:
        return
    goal, ties = Objective.parse(search.objective), search.ties
    shown = min(most or _SHOWN, len(ties))
    note = f"the {shown:,} of {_lowest(search)}" if shown > 1 else f"those of {_lowest(search)}"
    if search.within is not None:
        partial = "" if search.stop == "exhausted" else "at least "
        within = f"{100 * search.within[0]:.3g} %"
        note = f"{partial}{search.within[1]:,} are within {within} of the best {search.objective}"
    least = goal.of(search.best)
    rows = [
        {
            "rank": rank,
            "value": goal.of(each),
            "over_best": ratio(goal.of(each), least) - 1,
            **{name: getattr(each, name) for name in ("energy_pj", "cycles", "utilization")},
            "loop_nest": nest_line(each),
        }
        for rank, equal in enumerate(ties, 1)
        for each in equal
    ]
    firsts = {row["rank"]: row for row in reversed(rows)}
    folded = [{**firsts[rank], "mappings": len(equal)} for rank, equal in enumerate(ties[:shown], 1)]
    tied = [Column("mappings", "mappings", count)] if len(ties) < len(search.ranked) else []
    product = Column(search.objective, "value", lambda value: objective_value("", value, 5))
    columns = (
        Column("rank", "rank", left=False),
        *tied,
        *([product] if search.objective not in ("energy", "cycles") else []),
        Column("over best", "over_best", lambda over: "" if over < 1e-12 else f"+{gap_text(over)}"),
        *COSTS,
        NEST,
    )
    yield Table("mappings", columns, rows, "Best mappings", note, shown=folded)
    yield NEST_KEY
    if tied:
        yield "Mappings of equal value stand in one row, with the loop nest of the first; --csv and -o write each."
    if len(search.ranked) >= MOST_TIES:
        yield f"Only the {len(search.ranked):,} best were listed; others may tie with the last."
    if shown < len(ties):
        yield f"{len(ties) - shown:,} more values are in result.json (-o DIR, --json)."


def worth_report(search: SearchResult, rows: Sequence[Row]) -> Iterator[Piece]:
    """How the optimum changes with half, a tenth more and twice of each part of the machine."""
    value = Objective.parse(search.objective).of(search.best)

    def changed(head: str, key: str, before: float) -> Column:
        return Column(head, lambda row: "no mapping" if row[key] is None else change(ratio(row[key], before) - 1))

    columns = [Column("part", "part", unbroken=True), Column("now", "present")]
    columns += [changed(head, f"x{by}_value", value) for head, by in (("half", 0.5), ("+10 %", 1.1), ("twice", 2))]
    for name, before in (("energy_pj", search.best.energy_pj), ("cycles", search.best.cycles)):
        if search.objective not in (name, name.removesuffix("_pj")):
            columns.append(changed(f"{name.removesuffix('_pj')}, twice", f"x2_{name}", before))
    yield Table("worth", columns, rows, "What it depends on", f"the {_lowest(search)} with less or more of a part")
    if rows and all(row[key] for row in rows for key in row if key.endswith("proved") and row[key] is not None):
        yield f"Each is solved anew and proved{search.among}. Empty: nothing changes. An access costs what it does now."


def bound_report(about: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Piece]:
    """The least cost over the sizes of a level: the smallest, the knees, and the one from which more is of no use."""
    goal = str(about["objective"])
    form = {"energy": lambda pj: energy(pj, 5), "cycles": count, "outer_words": count}[goal]
    present = next((row for row in reversed(rows) if row["size_bytes"] <= about["present_bytes"]), None)
    columns = (
        Column("size", lambda row: format_bits(8 * row["size_bytes"])),
        Column(NAMES[goal], goal, form),
        Column("half the size", "halving", change),
        Column("twice", "doubling", change),
        Column("", lambda row: ", ".join(["knee"] * row["knee"] + ["present size"] * (row is present)), left=True),
        Column("held whole", lambda row: ", ".join(row["whole"]), left=True),
    )
    yield bold("{layer} on {architecture}, over all sizes of {level}".format(**about))
    kind = kind_of_mappings(uneven=bool(about["uneven"]))
    proved = (
        f"each proved: no {kind} mapping costs less with so much room"
        if about["proved"]
        else "not all found: stopped early"
    )
    yield f"{len(rows)} sizes at which the least {NAMES[goal]} changes, {proved}"
    shown = [row for row in rows if row["knee"] or row in (rows[0], rows[-1], present)]
    yield Table("bound", columns, rows, "Knees and ends", shown=shown)
    yield f"All sizes: --csv or --json. An access costs what it does at {format_bits(8 * about['present_bytes'])}."


def runs_report(
    what: str,
    varied: Sequence[str],
    rows: Sequence[Row],
    objective: str,
    *,
    uneven: bool = True,
    left_out: Sequence[Einsum] = (),
) -> Iterator[Piece]:
    """Runs of the same layer or network beside each other, a row for each; `varied` is what differs between them.

    `objective` is empty where each run has its own. `uneven`: uneven mappings were looked at, too. `left_out` are
    layers that do not count.
    """
    values = [row["value"] for row in rows if row["value"] is not None]
    least = min(values, default=None) if objective and not {"batch", "sequence"} & set(varied) else None

    def over(row: Row) -> str:
        if row["value"] is None or not least:
            return ""
        return "best" if row["value"] <= least * (1 + 1e-12) else f"+{gap_text(ratio(row['value'], least) - 1)}"

    def said(row: Row) -> str:
        return "no valid mapping" if row["no_valid_mapping"] else "" if row["proved"] else "not proved"

    def trade(row: Row) -> str:
        if row.get("other_cycles") is None:
            return ""
        return trade_text(row["energy_pj"], row["cycles"], row["other_energy_pj"], row["other_cycles"])

    product = Column(objective, "value", lambda value: objective_value("", value, 5))
    units = Column("units used", lambda row: f"{row['compute_used']:,} of {row['compute_instances']:,}")
    trades = [Column("trade", trade, fold=True)] if any(map(trade, rows)) else []
    columns = (
        *(Column("machine" if name == "arch" else name, name, left=True, unbroken=True) for name in varied),
        *([product] if objective not in ("", "energy", "cycles") else []),
        *([Column("over best", over)] if least else []),
        *COSTS,
        *([units] if all(row.get("compute_used") for row in rows) else []),
        Column("pJ/MAC", "pj_per_mac", "{:.4g}".format),
        Column("outer words", "outer_words", count),
        *trades,
        *(_SPARSE_COSTS if any("sparse_energy_pj" in row for row in rows) else ()),
        Column("", said, fold=True),
    )
    yield bold(what)
    yield Table("runs", columns, rows)
    yield from [left_out_line(left_out)] if left_out else []
    if all(row["proved"] for row in rows):
        yield f"Each is proved: no {kind_of_mappings(uneven=uneven)} mapping is better."
    if trades:
        yield f"Trade: what the best even mapping for {'energy' if objective == 'cycles' else 'cycles'} costs instead."


def families_report(
    machine: str, sizes: Sequence[Mapping[str, Any]], found: Sequence[tuple[str, FamilyResult]]
) -> Iterator[Piece]:
    """One mapping for several sizes: for each layer its regret, the sizes with their own optima, and the mapping."""
    for name, family in found:
        yield bold(f"{name} on {machine}: one mapping for {len(sizes)} sizes")
        ratios = family.ratios()
        rows = [
            {**size, "energy_pj": cost.energy_pj, "cycles": cost.cycles, "own": own.certificate, "more": ratio - 1.0}
            for size, cost, own, ratio in zip(sizes, family.costs, family.optima, ratios, strict=True)
        ]
        columns = (
            *(Column(key, key, left=True) for key in sizes[0]),
            *COSTS[:2],
            Column("over its own optimum", "more", lambda more: "" if abs(more) < 5e-9 else f"{100 * more:+.3g} %"),
        )
        yield Table("sizes", columns, rows)
        worst = ", ".join(f"{key}={value}" for key, value in sizes[ratios.index(max(ratios))].items())
        proof = "proved: no mapping of the family has less"
        if not family.proved:
            proof = f"not proved: none has less than {100 * family.bound:.3g} %"
        at = f" at {worst}" if family.regret > 0 else ""
        yield f"regret       {100 * family.regret:.3g} % of {family.objective}{at} ({proof})"
        yield f"mapping      {nest_line(family.largest)}"


COSTS = (
    Column("energy", "energy_pj", lambda energy_pj: energy(energy_pj, 5)),
    Column("cycles", "cycles", count),
    Column("util.", "utilization", percent),
)
_SPARSE_COSTS = (
    Column("zeros left out", "sparse_energy_pj", lambda pj: energy(pj, 5)),
    Column("cycles", "sparse_cycles", count),
    Column("", lambda row: "proved" if row.get("sparse_proved") else ""),
)
"""Costs of the best mappings with zeros left out."""
NEST = Column("loop nest", "loop_nest", fold=True)
NEST_KEY = dim(
    "Loop nest: level[tensors kept] loops in time, outermost first, x(...) and y(...) over the fanout below."
)


def _rejections(sample: Sample) -> Iterator[Piece]:
    rejected = sample.seen - sample.valid
    if not rejected:
        return
    columns = (
        Column("rule", "rule"),
        Column("level", "level", left=True),
        Column("mappings", "count", count),
        Column("share of seen", lambda row: percent(row["count"] / sample.seen)),
    )
    rows = [asdict(rejection) for rejection in sample.rejections if rejection.count]
    note = f"{rejected:,}, by the first rule that each broke"
    yield Table("rejections", columns, rows, "Rejected mappings", note)


def column_name(column: str) -> str:
    """Name of a column of a front, for people.

    >>> column_name("outer_words"), column_name("capacity:GLB")
    ('outer words', 'words in GLB')
    """
    return NAMES.get(column) or f"words in {column.partition(':')[2]}"


def front_report(front: FrontResult) -> Iterator[Piece]:
    """What is proved, and one row for each point."""
    first, columns = front.points[0], [column_name(column) for column in front.columns]
    head = f", Pareto front of {', '.join(columns[:-1])} and {columns[-1]}"
    yield bold(f"{first.workload} on {first.architecture}").append(head, style="not bold")
    space = f"{large(front.space_size)} in the map space{within_limits(front.limits)}"
    kind = kind_of_mappings(uneven=front.uneven)
    verdict, early = f"complete (proved): no {kind} mapping of the {space} beats one of these", ""
    if front.stop != "exhausted":
        verdict = "not complete: points may be missing, and some of these may be beaten by mappings that were not seen"
        early = f": {STOPS.get(front.stop, front.stop)}"
    yield f"{len(front.points):,} point{'s' if len(front.points) > 1 else ''}, {verdict}"
    yield f"{'stopped' if early else 'ended'} after {front.seconds:.3g} s{early}"
    yield work_line(front.nodes, front.evaluated, front.table_bytes) + "\n"
    rows = [{**row, "loop_nest": nest_line(point)} for row, point in zip(front.rows(), front.points, strict=True)]
    more = [key for key in rows[0] if key not in _ALWAYS]
    heads = [column_name(column) for column in front.columns if column not in NAMES or column == "outer_words"]
    others = [Column(head, key, count) for head, key in zip(heads, more, strict=True)]
    yield Table("front", (Column("point", "point", left=False), *COSTS, *others, NEST), rows, most=_POINTS)
    yield NEST_KEY
    if len(front.points) > _POINTS:
        yield f"{len(front.points) - _POINTS:,} more points are in front.csv and result.json (-o DIR)."


def mapping_text(result: Result, provenance: Provenance) -> str:
    """Write a mapping file with a header that says what it maps onto what."""
    files = {file.kind: file.name for file in provenance.inputs}
    overrides = "".join(f" --set {name}={value}" for name, value in sorted(provenance.overrides.items()))
    overrides += "".join(f" --limit '{limit}'" for limit in provenance.limits)
    lines = [
        f"{result.workload} on {result.architecture}",
        f"Architecture {files.get('architecture', '?')}, workload {files.get('workload', '?')}{overrides}; "
        f"written by accelsim {__version__}.",
    ]
    return "".join(f"# {printable(line)}\n" for line in lines) + dump_mapping(result.mapping)


def layer_files(
    result: Result, search: SearchResult | None, provenance: Provenance, document: Mapping[str, Any]
) -> dict[str, bytes]:
    """Contents of a result folder by name: mapping, JSON document, and a figure of the energy.

    Where a search lists several mappings, `mappings/` holds one of each value, by rank.
    """
    from accelsim.show.plots import figure_files
    from accelsim.show.plots.result import plot_energy

    files = {"mapping.yaml": mapping_text(result, provenance).encode(), "result.json": to_json(document).encode()}
    files |= figure_files("energy", plot_energy(result))
    if search is not None and len(search.ranked) > 1:
        files |= _mapping_files([equal[0] for equal in search.ties], provenance)
    return files


def front_files(front: FrontResult, provenance: Provenance, document: Mapping[str, Any]) -> dict[str, bytes]:
    """Contents of the folder of a Pareto front by name: table, JSON document, figure, and the mapping of each point."""
    from accelsim.show.plots import figure_files
    from accelsim.show.plots.search import plot_front

    mappings = _mapping_files(front.points, provenance)
    rows = [{**row, "mapping": name} for row, name in zip(front.rows(), mappings, strict=True)]
    files = {"front.csv": to_csv(rows).encode(), "result.json": to_json(document).encode()}
    return files | figure_files("front", plot_front(front)) | mappings


def _mapping_files(results: Sequence[Result], provenance: Provenance) -> dict[str, bytes]:
    """Mapping files numbered from 1, with as many digits as the last one needs."""
    digits = max(2, len(str(len(results))))
    return {
        f"mappings/{number:0{digits}}.yaml": mapping_text(result, provenance).encode()
        for number, result in enumerate(results, 1)
    }


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
        most = f" (at most {times(ratio(found.highest_bound, found.lowest_bound))})"
    parts = [f"{about}{large(census.mappings)} valid {EVEN} mappings", f"energy spread {times(found.ratio)}{most}"]
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


def census_report(census: Census) -> Iterator[Piece]:
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
    yield from _with_zeros(census)
    yield heading("Utilization")
    units = sample.sampler.nest.space.encoded.architecture.macs
    every = f"all {units:,} compute units" if units > 1 else "the compute unit"
    share = census.fully_used / census.mappings if census.mappings else 0.0
    about = "" if census.exact else "About "
    yield f"{about}{large(census.fully_used)} mappings use {every} ({percent(share)} of the valid ones)."
    yield from _keeps(census)


def _with_zeros(census: Census) -> Iterator[Piece]:
    """Costs of some mappings drawn with zeros left out, on a machine that does something about them."""
    from accelsim.population.result import zeros_rows

    rows = zeros_rows(census)
    if not rows:
        return
    columns = (
        Column("", "column", lambda name: name.removesuffix("_pj")),
        _figure("smallest", "lowest"),
        _figure("25 %", "p25"),
        _figure("median", "median"),
        _figure("mean", "mean"),
        _figure("75 %", "p75"),
        _figure("largest", "highest"),
    )
    note = f"of {rows[0]['mappings']:,} of the mappings drawn; all other numbers count every word"
    yield Table("with_zeros", columns, rows, "With zeros left out", note)


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
        return energy(row[key]) if row["column"] in ("energy", "energy_pj") else count(round(row[key]))

    return Column(head, cell)


_RANGES = (
    Column("", "column", NAMES.__getitem__),
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
    unproved = [NAMES[found.column] for found in ranges if not found.lowest_proved]
    if len(unproved) < len(ranges):
        lines.append(
            f"Smallest values are proved among {EVEN} mappings"
            + (f", but for {', '.join(unproved)}." if unproved else ".")
        )
    beyond = [
        f"{NAMES[found.column]} {percent(found.highest_bound / found.highest - 1)}"
        for found in ranges
        if not found.highest_proved
    ]
    if beyond:
        lines.append(f"Largest values are of mappings found; none can be larger by more than: {', '.join(beyond)}.")
    else:
        lines.append(f"Largest values are proved among {EVEN} mappings.")
    return lines


def _keeps(census: Census) -> Iterator[Piece]:
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
    note = f"{len(rows)} choices{'' if census.exact else ' drawn'}; below the outermost level{how}"
    yield Table("keep", columns, rows, "What levels keep", note, most=_KEEPS)
    rest = [mappings for _, mappings in census.by_keep[_KEEPS:]]
    if rest:
        choices, share = f"{len(rest)} more choice{'s' if len(rest) > 1 else ''}", sum(rest) / max(1, census.mappings)
        yield f"and {choices}, together {large(sum(rest))} mappings ({percent(share)})"


def censuses_report(censuses: Sequence[Census]) -> Iterator[Piece]:
    """A line for each census; CSV has the ranges of each."""
    machines, layers = ({getattr(census, of) for census in censuses} for of in ("architecture", "workload"))
    names = [Column("layer", "workload")] if len(layers) > 1 else []
    names += [Column("machine", "architecture")] if len(machines) > 1 else []
    shared = [f" on {machine}" for machine in machines if len(machines) == 1] or [f" of {layer}" for layer in layers]
    yield bold(f"All mappings{shared[0] if len(names) == 1 else ''}")
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
