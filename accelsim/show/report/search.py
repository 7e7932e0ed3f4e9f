"""Reports on searches, Pareto fronts and the spread: what is proved, how it went, the best, what was seen or drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import starmap
from typing import TYPE_CHECKING, Any

from accelsim import __version__
from accelsim.inputs.mapping import dump_mapping
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import format_bits, printable, ratio
from accelsim.model.result import Result
from accelsim.results import Provenance, to_json
from accelsim.search.result import MOST_TIES, FrontResult, Sample, SearchedSpace, SearchResult
from accelsim.show.report import change, count, energy, gap_text, goal_name, large, objective_value, percent, times
from accelsim.show.report.headline import left_out_line
from accelsim.show.report.mapping import nest_line
from accelsim.show.report.verdicts import STOPS, certificate_report, common_space, lowest, mappings_of, proved, verdict
from accelsim.show.table import Column, Piece, Row, Table, bold, dim, heading, to_csv

if TYPE_CHECKING:
    from accelsim.inputs.workload import Einsum
    from accelsim.population.result import Spread
    from accelsim.population.sampling import UniformSample

_SHOWN = 20
"""Of the mappings within a share of the best, so many are printed unless a number is asked for."""
_POINTS = 40
_ALWAYS = ("point", "energy_pj", "cycles", "edp_pj_cycles", "pj_per_mac", "utilization", "loop_nest")
NAMES = {"energy": "energy", "cycles": "cycles", "offchip_words": "off-chip words"}


def search_report(
    search: SearchResult, population: int | None = None, provenance: Provenance | None = None
) -> Iterator[Piece]:
    """What a search proved and what it saw; times are of this run, all else is the same for equal input and seed.

    `population` is how many even mappings are valid.
    """
    yield from certificate_report(search, population, provenance)
    if search.sample is not None:
        sample = search.sample
        seen = f"{sample.seen:,} mappings sampled of {large(search.space_size)}, seed {search.seed}"
        yield f"\n{seen}: {sample.valid:,} valid ({percent(sample.valid / sample.seen)})"
        yield from _rejections(sample)


def ranked_report(search: SearchResult, most: int | None = None) -> Iterator[Piece]:
    """The best mappings in order, a row for each value of the objective, at most so many, with a loop nest of each."""
    if len(search.ranked) < 2 and search.within is None:
        return
    goal, ties = Objective.parse(search.objective), search.ties
    shown = min(most or _SHOWN, len(ties))
    note = (
        f"the {shown:,} of the {lowest(search.objective)}" if shown > 1 else f"those of the {lowest(search.objective)}"
    )
    if search.within is not None:
        partial = "" if search.stop in ("exhausted", "effort", "remainders") else "at least "
        within = f"{100 * search.within[0]:.3g} %"
        note = f"{partial}{search.within[1]:,} are within {within} of the optimum"
    if search.parts:
        note += f"; {mappings_of(replace(search.parts[0].space, size=None))}, after the best of all"
    least = goal.of(search.best)
    rows = [
        {
            "rank": rank, "value": goal.of(each), "over_best": ratio(goal.of(each), least) - 1,
            **{name: getattr(each, name) for name in ("energy_pj", "cycles", "utilization")},
            "loop_nest": nest_line(each),
        }
        for rank, equal in enumerate(ties, 1)
        for each in equal
    ]  # fmt: skip
    firsts = {row["rank"]: row for row in reversed(rows)}
    folded = [{**firsts[rank], "mappings": len(equal)} for rank, equal in enumerate(ties[:shown], 1)]
    tied = [Column("mappings", "mappings", count)] if len(ties) < len(search.ranked) else []
    clock, named = search.best.clock_hz, search.objective
    product = Column(goal_name(named), "value", lambda value: objective_value(named, value, 5, clock))
    columns = (
        Column("rank", "rank", left=False), *tied, *([product] if search.objective not in ("energy", "cycles") else []),
        Column("over best", "over_best", lambda over: "" if over < 1e-12 else f"+{gap_text(over)}"), *COSTS, NEST,
    )  # fmt: skip
    yield Table("mappings", columns, rows, "Best mappings", note, shown=folded)
    yield NEST_KEY
    if tied:
        yield "Mappings of equal value are one row, with the loop nest of the first; --csv and -o write each."
    if len(search.ranked) >= MOST_TIES:
        yield f"Only the {len(search.ranked):,} best were listed; others may tie with the last."
    if shown < len(ties):
        yield f"{len(ties) - shown:,} more values: -o DIR or --json"


def worth_report(search: SearchResult, rows: Sequence[Row]) -> Iterator[Piece]:
    """How the optimum changes with half, 1.1 and two times each part of the architecture."""
    value = Objective.parse(search.objective).of(search.best)

    def changed(head: str, key: str, before: float) -> Column:
        return Column(head, lambda row: "no mapping" if row[key] is None else change(ratio(row[key], before) - 1))

    columns = [Column("resource", "part", unbroken=True), Column("now", "present")]
    columns += [changed(f"x{by}", f"x{by}_value", value) for by in (0.5, 1.1, 2)]
    for name, before in (("energy_pj", search.best.energy_pj), ("cycles", search.best.cycles)):
        if search.objective not in (name, name.removesuffix("_pj")):
            columns.append(changed(f"{name.removesuffix('_pj')}, x2", f"x2_{name}", before))
    note = f"change of the {lowest(search.objective)} when one resource is scaled"
    yield Table("worth", columns, rows, "Sensitivity", note)
    if rows and all(row[key] for row in rows for key in row if key.endswith("proved") and row[key] is not None):
        known = proved(common_space([search.space]))
        yield f"Each: {known}. Empty: no change. Energy per access is held at its present value."


def sizing_line(about: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The least cost over the sizes of a level, in a line."""
    best = objective_value(about["objective"], rows[-1][about["objective"]])
    at = format_bits(8 * rows[-1]["size_bytes"])
    return f"{about['layer']} on {about['architecture']}: {about['level']}, {len(rows)} sizes, {best} at {at}"


def bound_report(about: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Piece]:
    """The least cost over the sizes of a level: the smallest, the knees, the present one, and the largest of use."""
    goal = str(about["objective"])
    form = {"energy": lambda pj: energy(pj, 5), "cycles": count, "offchip_words": count}[goal]
    fits = next((row for row in reversed(rows) if row["size_bytes"] <= about["present_bytes"]), None)
    now = None if fits is None else {**fits, "size_bytes": about["present_bytes"], "knee": False, "now": True}
    columns = (
        Column("size", lambda row: format_bits(8 * row["size_bytes"])), Column(NAMES[goal], goal, form),
        Column("half the size", "halving", change), Column("twice", "doubling", change),
        Column("", lambda row: "present size" if "now" in row else "knee" if row["knee"] else "", left=True),
        Column("fully resident", lambda row: ", ".join(row["whole"]), left=True),
    )  # fmt: skip
    yield bold("{layer} on {architecture}, over all sizes of {level}".format(**about))
    known = f"each optimal (proved) among {about['mappings']}" if about["proved"] else "incomplete: stopped early"
    yield f"{NAMES[goal]} changes at {len(rows)} sizes, {known}"
    ends = [row for row in rows if row["knee"] or row in (rows[0], rows[-1])]
    shown = sorted([*ends, *([now] if now else [])], key=lambda row: float(row["size_bytes"]))
    yield Table("bound", columns, rows, "Breakpoints", shown=shown)
    present = format_bits(8 * about["present_bytes"])
    if about["best"] is not None:
        yield f"Best of all mappings at the present size: {form(about['best'])}, {about['best_is']}."
    yield f"All sizes: --csv or --json. Energy per access is held at its value of {present}; only capacity changes."


def runs_report(
    what: str,
    varied: Sequence[str],
    rows: Sequence[Row],
    objective: str,
    space: SearchedSpace,
    left_out: Sequence[Einsum] = (),
) -> Iterator[Piece]:
    """Runs of the same layer or network beside each other, a row for each; `varied` is what differs between them.

    `objective` is empty where each run has its own. `space`: the mappings that were searched. `left_out` are layers
    that do not count.
    """
    values = [row["value"] for row in rows if row["value"] is not None]
    least = min(values, default=None) if objective and not {"batch", "seq_len"} & set(varied) else None

    def over(row: Row) -> str:
        if row["value"] is None or not least:
            return ""
        return "best" if row["value"] <= least * (1 + 1e-12) else f"+{gap_text(ratio(row['value'], least) - 1)}"

    def said(row: Row) -> str:
        return "no valid mapping" if row["no_valid_mapping"] else "" if row["proved"] else "not proved"

    def trade(row: Row) -> str:
        if row.get("other_cycles") is None:
            return ""
        more, faster = ratio(row["other_energy_pj"], row["energy_pj"]) - 1, row["cycles"] / row["other_cycles"]
        return (
            "" if abs(more) < 5e-4 and abs(faster - 1) < 5e-4 else f"{times(faster)} faster, energy {100 * more:+.3g} %"
        )

    product = Column(objective, "value", lambda value: objective_value("", value, 5))
    units = Column("units used", lambda row: f"{row['compute_used']:,} of {row['compute_instances']:,}")
    trades = [Column("alternative", trade, fold=True)] if any(map(trade, rows)) else []
    columns = (
        *(Column("architecture" if name == "arch" else name, name, left=True, unbroken=True) for name in varied),
        *([product] if objective not in ("", "energy", "cycles") else []),
        *([Column("over best", over)] if least else []), *COSTS,
        *([units] if all(row.get("compute_used") for row in rows) else []),
        Column("pJ/MAC", "pj_per_mac", "{:.4g}".format), Column("off-chip words", "offchip_words", count), *trades,
        *(_SPARSE_COSTS if any("sparse_energy_pj" in row for row in rows) else ()), Column("", said, fold=True),
    )  # fmt: skip
    yield bold(what)
    yield Table("runs", columns, rows)
    yield from [left_out_line(left_out)] if left_out else []
    if all(row["proved"] for row in rows):
        yield f"Each: {proved(space)}."
    if trades:
        yield f"alternative: the best even mapping for {'energy' if objective == 'cycles' else 'cycles'}"


COSTS = (
    Column("energy", "energy_pj", lambda energy_pj: energy(energy_pj, 5)), Column("cycles", "cycles", count),
    Column("util.", "utilization", percent),
)  # fmt: skip
_SPARSE_COSTS = (
    Column("sparse", "sparse_energy_pj", lambda pj: energy(pj, 5)), Column("cycles", "sparse_cycles", count),
    Column("", lambda row: "proved" if row.get("sparse_proved") else ""),
)  # fmt: skip
"""Costs of the best mappings with sparsity."""
NEST = Column("loop nest", "loop_nest", fold=True)
NEST_KEY = dim("loop nest: level[stored tensors] loops, outermost first; x(...), y(...): spatial")


def _rejections(sample: Sample) -> Iterator[Piece]:
    rejected = sample.seen - sample.valid
    if not rejected:
        return
    columns = (
        Column("rule", "rule"), Column("level", "level", left=True), Column("mappings", "count", count),
        Column("% of sampled", lambda row: percent(row["count"] / sample.seen)),
    )  # fmt: skip
    rows = [asdict(rejection) for rejection in sample.rejections if rejection.count]
    note = f"{rejected:,}, by the first rule that each breaks"
    yield Table("rejections", columns, rows, "Rejected mappings", note)


def column_name(column: str) -> str:
    """Name of a column of a front, for people.

    >>> column_name("offchip_words"), column_name("capacity:GLB")
    ('off-chip words', 'words in GLB')
    """
    return NAMES.get(column) or f"words in {column.partition(':')[2]}"


def front_line(front: FrontResult) -> str:
    """A front in a line."""
    first, many = front.points[0], len(front.points)
    names = ", ".join(column_name(column) for column in front.columns)
    complete = "complete (proved)" if front.stop == "exhausted" else "incomplete"
    return f"{first.workload} on {first.architecture}: {many:,} Pareto-optimal in {names}; {complete}"


def front_report(front: FrontResult) -> Iterator[Piece]:
    """What is proved, and one row for each point."""
    first, columns = front.points[0], [column_name(column) for column in front.columns]
    head = f", Pareto front of {', '.join(columns[:-1])} and {columns[-1]}"
    yield bold(f"{first.workload} on {first.architecture}").append(head, style="not bold")
    many = f"{len(front.points):,} point{'s' if len(front.points) > 1 else ''}"
    space = f"{large(front.space_size)} {front.space}"
    early = "" if front.stop == "exhausted" else f", stopped {STOPS.get(front.stop, front.stop)}"
    yield f"{many}, complete (proved) among {space}" if not early else f"{many}, incomplete{early}; of {space}"
    yield from (f"{lowest(end.objective)}: {verdict(end)}" for end in front.ends)
    work = f"{front.evaluated:,} mapping{'' if front.evaluated == 1 else 's'} evaluated"
    tables = format_bits(8 * front.table_bytes)
    yield f"exact, {front.seconds:.3g} s, {front.nodes:,} nodes, {work}, {tables} of tables\n"
    rows = [{**row, "loop_nest": nest_line(point)} for row, point in zip(front.rows(), front.points, strict=True)]
    more = [key for key in rows[0] if key not in _ALWAYS]
    heads = [column_name(column) for column in front.columns if column not in NAMES or column == "offchip_words"]
    others = [Column(head, key, count) for head, key in zip(heads, more, strict=True)]
    yield Table("front", (Column("point", "point", left=False), *COSTS, *others, NEST), rows, most=_POINTS)
    yield NEST_KEY
    if len(front.points) > _POINTS:
        yield f"{len(front.points) - _POINTS:,} more points: -o DIR or --json"


def mapping_text(result: Result, provenance: Provenance) -> str:
    """Write a mapping file with a header that says what it maps onto what."""
    files = {file.kind: file.name for file in provenance.inputs}
    overrides = "".join(f" --set {name}={value}" for name, value in sorted(provenance.overrides.items()))
    overrides += "".join(f" --require '{limit}'" for limit in provenance.limits)
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
"""How far above the lowest energy mappings are counted of which several spreads tell."""


def spread_sentence(spread: Spread) -> str:
    """A distribution in a sentence: how many mappings, best and worst energy."""
    found = spread.range_of("energy")
    about = "" if spread.exact else "about "
    best, worst = energy(found.lowest), energy(found.highest)
    return f"{about}{large(spread.mappings)} valid even mappings, best {best}, worst {worst} ({times(found.ratio)})"


def _near_line(spread: Spread) -> str:
    """How many mappings come close to the optimum."""
    parts = []
    for near in spread.near:
        where = f"within {100 * near.share:.3g} %" if near.share else "at the optimum"
        if near.complete and not near.share and near.mappings:
            where += f" (1 in {large(max(1, round(spread.mappings / near.mappings)))})"
        least = "" if near.complete else "at least "
        known = near.complete or near.mappings
        parts.append(f"{least}{large(near.mappings)} {where}" if known else f"{where} not counted (time limit)")
    return ", ".join(parts)


def sample_words(sample: UniformSample) -> str:
    """How many mappings were drawn, and how many were asked for where these are not the same."""
    less = f" of {sample.asked:,} asked for" if sample.drawn < sample.asked else ""
    if len(sample) < sample.drawn:
        return f"{len(sample):,} valid mappings of {sample.drawn:,} drawn uniformly{less}"
    return f"{sample.drawn:,} mappings{less} drawn uniformly"


def spread_report(spread: Spread, *, verbose: bool = False) -> Iterator[Piece]:
    """What a spread shows; all is the same for equal input and seed, unless time ran out."""
    sample, found = spread.sample, spread.range_of("energy")
    about = "" if spread.exact else "about "
    yield bold(f"{spread.workload} on {spread.architecture}: {about}{large(spread.mappings)} valid even mappings")
    yield ""
    median = sample.quantile("energy", 0.5).value
    over = [f"{energy(value)} ({times(ratio(value, found.lowest))})" for value in (median, found.highest)]
    yield f"{'energy':<14} best {energy(found.lowest)}, median {over[0]}, worst {over[1]}"
    if spread.whole is not None:
        best = spread.whole.best.energy_pj
        less = f" ({100 * (ratio(best, found.lowest) - 1):+.3g} %)" if best < found.lowest * (1 - 1e-9) else ""
        yield f"{'all mappings':<14} best {energy(best)}{less}, {verdict(spread.whole)}"
    near = _near_line(spread) if found.lowest_proved else "not counted: the lowest energy is not proved"
    yield f"{'near the best':<14} {near}"
    if spread.stop == "interrupted":
        yield "Interrupted: what was not reached is missing, or is that of the mappings drawn."
    note = f"quantiles estimated from {sample_words(sample)}, seed {sample.seed}"
    yield Table("spread", _RANGES, _range_rows(spread), "Distribution", note)
    unproved = [NAMES[each.column] for each in spread.ranges if not each.lowest_proved]
    beyond = f", except {', '.join(unproved)}" if unproved else ""
    sure = f"Smallest values are proved among even mappings{beyond}. " if len(unproved) < len(spread.ranges) else ""
    yield f"{sure}Largest values are those found."
    if verbose:
        intervals = {"median": sample.quantile("energy", 0.5), "mean": sample.mean("energy")}
        intervals["standard deviation"] = sample.deviation("energy")
        said = []
        for name, interval in intervals.items():
            low, high = (energy(end) if math.isfinite(end) else "unknown" for end in (interval.low, interval.high))
            said.append(f"{name} {low} to {high}")
        yield f"95 % intervals of the energy: {', '.join(said)}."
    yield f"off-chip words: words that {spread.best.levels[0].level} reads and writes"
    yield from _with_zeros(spread)
    yield heading("Utilization")
    units = sample.sampler.nest.space.encoded.architecture.macs
    every = f"all {units:,} compute units" if units > 1 else "the compute unit"
    share = spread.fully_used / spread.mappings if spread.mappings else 0.0
    about = about.capitalize()
    if spread.fully_used:
        yield f"{about}{large(spread.fully_used)} mappings use {every} ({percent(share)} of the valid ones)."
    else:
        yield f"No mapping uses {every}."
    yield from _keeps(spread)


def _with_zeros(spread: Spread) -> Iterator[Piece]:
    """Costs of some mappings drawn with zeros left out, on a machine that does something about them."""
    from accelsim.population.result import zeros_rows

    rows = zeros_rows(spread)
    if not rows:
        return
    heads = ("smallest", "lowest"), ("25 %", "p25"), *_MIDDLE, ("75 %", "p75"), ("largest", "highest")
    columns = (Column("", "column", lambda name: name.removesuffix("_pj")), *starmap(_figure, heads))
    note = f"of {rows[0]['mappings']:,} of the mappings drawn; all other numbers are dense"
    yield Table("with_zeros", columns, rows, "Sparse", note)


def _range_rows(spread: Spread) -> list[dict[str, Any]]:
    """Smallest and largest values of each column, and between them quantiles and the mean."""
    sample = spread.sample
    return [
        {
            **{name: getattr(spread, name) for name in ("workload", "architecture", "mappings")},
            **{name: getattr(found, name) for name in ("column", "lowest", "lowest_proved")},
            "p01": sample.quantile(found.column, 0.01).value, "median": sample.quantile(found.column, 0.5).value,
            "mean": sample.mean(found.column).value, "p99": sample.quantile(found.column, 0.99).value,
            "highest": found.highest, "spread": found.ratio,
        }
        for found in spread.ranges
    ]  # fmt: skip


def _figure(head: str, key: str) -> Column:
    def cell(row: Row) -> str:
        return energy(row[key]) if row["column"] in ("energy", "energy_pj") else count(round(row[key]))

    return Column(head, cell)


_MIDDLE = ("median", "median"), ("mean", "mean")
_HEADS = ("smallest", "lowest"), ("1 %", "p01"), *_MIDDLE, ("99 %", "p99"), ("largest", "highest")
_FIGURES = starmap(_figure, _HEADS)
_RANGES = (Column("", "column", NAMES.__getitem__), *_FIGURES, Column("worst/best", "spread", times))


def _keeps(spread: Spread) -> Iterator[Piece]:
    if len(spread.by_keep) < 2:
        return
    levels = [level.level for level in spread.best.levels][1:]
    rows = [
        {
            **{f"keep_{level}": sorted(kept) for level, kept in zip(levels, keeps[1:], strict=True)},
            "mappings": mappings, "share": mappings / max(1, spread.mappings),
        }
        for keeps, mappings in spread.by_keep
    ]  # fmt: skip
    kept = [Column(level, f"keep_{level}", lambda names: ", ".join(names) or "-", left=True) for level in levels]
    columns = (*kept, Column("mappings", "mappings", large), Column("share", "share", percent))
    how = "" if spread.exact else f"; shares of {sample_words(spread.sample)}"
    note = f"{len(rows)} bypass choices{'' if spread.exact else ' drawn'}; below the outermost level{how}"
    yield Table("keep", columns, rows, "Stored tensors", note, most=_KEEPS)
    rest = [mappings for _, mappings in spread.by_keep[_KEEPS:]]
    if rest:
        choices, share = f"{len(rest)} more choice{'s' if len(rest) > 1 else ''}", sum(rest) / max(1, spread.mappings)
        yield f"and {choices}, together {large(sum(rest))} mappings ({percent(share)})"


def spreads_report(spreads: Sequence[Spread]) -> Iterator[Piece]:
    """A line for each spread; CSV has the ranges of each."""
    machines, layers = ({getattr(spread, of) for spread in spreads} for of in ("architecture", "workload"))
    names = [Column("layer", "workload")] if len(layers) > 1 else []
    names += [Column("architecture", "architecture")] if len(machines) > 1 else []
    shared = [f" on {machine}" for machine in machines if len(machines) == 1] or [f" of {layer}" for layer in layers]
    yield bold(f"All mappings{shared[0] if len(names) == 1 else ''}")
    numbers = (
        Column("mappings", "mappings", large), Column("worst/best", "spread", times),
        *(Column(head, head) for head in _CLOSE),
    )  # fmt: skip
    shown = []
    for spread in spreads:
        found = spread.range_of("energy")
        near = {each.share: ("" if each.complete else ">") + large(each.mappings) for each in spread.near}
        cells = {head: near.get(share, "") if found.lowest_proved else "?" for head, share in _CLOSE.items()}
        about = {"workload": spread.workload, "architecture": spread.architecture, "mappings": spread.mappings}
        shown.append({**about, "spread": found.ratio, **cells})
    rows = [row for spread in spreads for row in _range_rows(spread)]
    yield Table("spread", (*names, *numbers), rows, shown=shown)
    yield (
        "worst/best: largest energy found over the smallest. Mappings at the optimum, within 1 % and 5 % of it; >: at "
        "least; ?: not counted, as the lowest energy is not proved within the time limit."
    )
