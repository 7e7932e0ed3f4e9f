"""The report on one mapping: headline, loop nest, data movement, energy, cycles, zeros, and what differs in others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.mapping import LevelMapping, last_passes
from accelsim.inputs.nodes import level_nodes
from accelsim.inputs.units import format_bits, listed, ratio
from accelsim.inputs.workload import OPERATIONS, Einsum
from accelsim.model.result import LevelResult, Result
from accelsim.search.result import SearchResult
from accelsim.show.report import OTHER_COLOUR, count, energy, gap_text, percent, share, tensor_colours, times
from accelsim.show.report.headline import alternative, headline, hint_of
from accelsim.show.table import Column, Piece, Row, Table, bold, dim, heading, invalid

if TYPE_CHECKING:
    from accelsim.model.sparsity.result import SparseResult
    from accelsim.search.zeros import BestWithZeros

_ENERGY_UNITS = ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))
_INDENT = 2
_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class NestLevel:
    """One level of a loop nest, in words: instances in use and how full each is, and the tiles that it keeps.

    `lines` are its loops above 1, outermost first, each `for …` or `par_for …`; before those of a storage node stands
    what it keeps.
    """

    name: str
    used: str
    keeps: str
    lines: tuple[str, ...]


def energy_scale(total_pj: float) -> tuple[float, str]:
    """Choose the unit of a column of energies [pJ]: its size in pJ and its name; the total has one to three digits.

    >>> energy_scale(12278333440.0)
    (1000000000.0, 'mJ')
    """
    return next((unit for unit in _ENERGY_UNITS if total_pj >= unit[0]), _ENERGY_UNITS[-1])


def in_scale(energy_pj: float, scale: float) -> str:
    """Energy [pJ] in a column's unit, to three decimals.

    >>> in_scale(471859200.0, 1e9), in_scale(100.0, 1e9), in_scale(0.0, 1e9)
    ('0.472', '<0.001', '')
    """
    if energy_pj == 0:
        return ""
    return f"{energy_pj / scale:.3f}" if energy_pj / scale >= 0.0005 else "<0.001"


def letters(names: Sequence[str]) -> dict[str, str]:
    """One letter for each name: the first of its own that is free, else a digit.

    >>> letters(["Weights", "Inputs", "Outputs", "Other"])
    {'Weights': 'W', 'Inputs': 'I', 'Outputs': 'O', 'Other': 'T'}
    """
    found: dict[str, str] = {}
    for index, name in enumerate(names):
        own = (letter for letter in name.upper() if letter.isalnum() and letter not in found.values())
        found[name] = next(own, str(index % 10))
    return found


def split_bar(parts: Sequence[float], cells: int) -> list[int]:
    """Cells of a bar for each part of it, by largest remainder, so that they sum to `cells`.

    >>> split_bar([1.0, 1.0, 1.0], 10)
    [4, 3, 3]
    """
    total = sum(parts)
    if total <= 0 or cells <= 0:
        return [0] * len(parts)
    exact = [part / total * cells for part in parts]
    whole = [int(cell) for cell in exact]
    order = sorted(range(len(parts)), key=lambda i: whole[i] - exact[i])
    for i in order[: cells - sum(whole)]:
        whole[i] += 1
    return whole


def nest_levels(result: Result) -> list[NestLevel]:
    """Each level, outermost first; loops of bound 1 are left out."""
    last = iter(last_passes(result.mapping, result.bounds))
    found = []
    for level, (_, nodes) in zip(result.levels, level_nodes(result.mapping), strict=True):
        lines: list[str] = []
        for node in nodes:
            if len(nodes) > 1:
                kept = [t.tensor for t in result.tensors if t.level == level.level and t.tensor in node.keep]
                lines.append(f"[{level.level}: {', '.join(kept) or 'nothing'}]")
            lines += loop_lines(node, next(last))
        used = f"{_instances(level.used_instances, level.instances)}, {_room(level)}"
        tiles = {t.tensor: f"{t.tensor} {count(t.tile_words)}" for t in result.tensors if t.level == level.level}
        passed = [n.tensor for n in result.networks if n.level == level.level and n.tensor not in tiles]
        keeps = f"stores {', '.join(tiles.values())} words" if tiles else "stores nothing"
        keeps += f"; {', '.join(passed)} bypassed" if passed else ""
        found.append(NestLevel(level.level, used.removeprefix(", ").strip(), keeps, tuple(lines)))
    return found


def compute_used(result: Result) -> str:
    """Compute units in use, such as `x144 of 168`; empty if there is only one."""
    return _instances(result.compute_used, result.compute_instances).strip()


def nest_parts(result: Result) -> Iterator[Text]:
    """Each level with what it keeps, and below it its loops; loops of bound 1 are left out."""
    depth = 0
    for level in nest_levels(result):
        gap = " " if level.used.startswith("x") else ", "
        yield Text("\n").append(level.name, style="bold").append(gap + level.used)
        yield Text(level.keeps)
        yield Text("-" * 72, style="dim", no_wrap=True, overflow="crop")
        for line in level.lines:
            text = Text("| " + " " * min(depth * _INDENT, _DEEPEST), no_wrap=True, overflow="ellipsis")
            if line.startswith(("for ", "par_for ")):
                yield text.append(line, style="cyan" if line.startswith("par_for") else "")
                depth += 1
            else:
                yield text.append(line, style="dim")
    units = compute_used(result)
    yield Text("\n").append(result.compute, style="bold").append(f" {units}" if units else "")


def loop_range(bound: int, last: int) -> str:
    """Range of a loop, with the iterations of its last pass where these are fewer.

    >>> loop_range(4, 4), loop_range(4, 3)
    ('[0:4)', '[0:4,3)')
    """
    return f"[0:{bound})" if last == bound else f"[0:{bound},{last})"


def loop_lines(mapped: LevelMapping, passes: tuple[tuple[int, ...], ...]) -> list[str]:
    """Loops of one level, outermost first: in time, then over x and y."""
    blocks = (("for", "", mapped.temporal), ("par_for", " on x", mapped.x), ("par_for", " on y", mapped.y))
    return [
        f"{word} {loop.dim} in {loop_range(loop.bound, last)}{axis}"
        for (word, axis, loops), block in zip(blocks, passes, strict=True)
        for loop, last in zip(loops, block, strict=True)
        if loop.bound > 1
    ]


def _instances(used: int, instances: int) -> str:
    if instances == 1:
        return ""
    return f" x{used:,}" if used == instances else f" x{used:,} of {instances:,}"


def _room(level: LevelResult) -> str:
    """How full one instance is."""
    used = format_bits(level.used_words * level.word_bits)
    if level.capacity_words is None:
        return f"{used} used"
    share = percent(level.used_words / max(1, level.capacity_words))
    return f"{used} of {format_bits(level.capacity_words * level.word_bits)} used ({share})"


def nest_line(result: Result) -> str:
    """Loop nest on one line: levels outermost first, each with the tensors that it keeps and its loops above 1.

    The loops of a level stand in order, outermost first; x(...) and y(...) hold those over its fanout. `K=4,3` makes 3
    iterations in its last pass.
    """
    letter = letters(list(dict.fromkeys(network.tensor for network in result.networks)))
    levels = zip(result.mapping.levels, last_passes(result.mapping, result.bounds), strict=True)
    return " | ".join(_level_line(mapped, passes, letter) for mapped, passes in levels)


def _level_line(mapped: LevelMapping, passes: tuple[tuple[int, ...], ...], letter: dict[str, str]) -> str:
    kept = "".join(short for name, short in letter.items() if name in mapped.keep)
    time, *space = (
        [
            f"{loop}" if last == loop.bound else f"{loop},{last}"
            for loop, last in zip(loops, block, strict=True)
            if loop.bound > 1
        ]
        for loops, block in zip((mapped.temporal, mapped.x, mapped.y), passes, strict=True)
    )
    spread = [f"{axis}({' '.join(loops)})" for axis, loops in zip("xy", space, strict=True) if loops]
    return " ".join([f"{mapped.level}[{kept}]", *time, *spread])


_OTHER = "#"


def result_report(
    result: Result,
    architecture: Architecture,
    einsum: Einsum,
    search: SearchResult | None = None,
    other: SearchResult | None = None,
    *,
    verbose: bool = False,
) -> Iterator[Piece]:
    """Everything about one mapping; `architecture` and `einsum` are those that it was evaluated on.

    `search` is the one that found it, if one did; `other`, one for cycles instead of energy, or the other way round.
    `verbose`: also what is in no total.
    """
    yield from headline(result, architecture, einsum, search)
    trade = alternative(result, other)
    if trade:
        yield f"{'alternative':<12} {trade}"
    hint = hint_of(result, einsum, search, trade=bool(trade))
    if hint:
        yield f"{'hint':<12} {hint}"
    yield from _energy(result, einsum)
    yield from _cycles(result)
    yield from _fills(result, shown=verbose or not result.all_overlaps)
    yield from layout_report(result, architecture, einsum)
    yield heading("Loop nest", "for: in time, par_for: in space; sizes of one instance")
    yield from nest_parts(result)
    yield from _movement(result, architecture, einsum)
    windowed = [t.name for t in einsum.tensors if any(len(rank) > 1 for rank in t.ranks)]
    if einsum.slices:
        many = math.prod(einsum.dims[dim] for dim in einsum.slices)
        each = energy(result.pj_per_mac * many)
        yield f"\nA MAC is a product of two slices: {many} make one of whole words, which takes {each}."
    if einsum.operation != OPERATIONS[0]:
        yield f"\nEach point of this layer ({einsum.operation}) counts as a MAC."
    if windowed and verbose:
        yield f"\nPadded points of {', '.join(windowed)} count as ordinary points: they are stored and moved."


def movement_rows(result: Result, architecture: Architecture, einsum: Einsum) -> list[Row]:
    """Counts by level and tensor, after a row for each level; a tensor that passes a level by has no tile there.

    `share_of_space` is that of the capacity, or of the tensor's own partition where there is one.
    """
    rows: list[Row] = []
    counts = {(row["level"], row["tensor"]): row for row in result.count_rows()}
    tiles = {(t.level, t.tensor): t for t in result.tensors}
    shared = {(n.level, n.tensor): n for n in result.networks}
    for level, spec in zip(result.levels, architecture.levels, strict=True):
        used = None if level.capacity_words is None else level.used_words / max(1, level.capacity_words)
        several = {"instances": level.instances, "used_instances": level.used_instances}
        rows.append({"level": level.level, "tensor": None, **several, "share_of_space": used})
        for tensor in einsum.tensors:
            key = level.level, tensor.name
            network, room = shared[key], None
            if key in tiles:
                tile, capacity = tiles[key], level.capacity_words
                if spec.partition_words is not None:
                    capacity = spec.rooms.get(tensor.role, 0)
                stored = float(tile.storage_words(tile.tile_words, level.word_bits))
                room = stored / capacity if capacity else None
            elif network.multicast <= 1 and network.spatial_reduction <= 1:
                continue
            below: Row = {"multicast": None, "spatial_reduction": None}
            if network.children > 1:
                summed = network.spatial_reduction if network.distinct_up else None
                below = {"multicast": network.multicast, "spatial_reduction": summed}
            named = {"level": level.level, "tensor": tensor.name, "tile_words": None}
            rows.append({**named, "share_of_space": room, **counts.get(key, {}), **below})
    return rows


def _tile(row: Row) -> str:
    """Tile of a tensor."""
    if row["tensor"] is None:
        return ""
    return "bypassed" if row["tile_words"] is None else count(row["tile_words"])


def _movement(result: Result, architecture: Architecture, einsum: Einsum) -> Iterator[Piece]:
    """Counts by level and tensor; a bypassed tensor has a row where its words are shared below."""
    scale, unit = energy_scale(result.energy_pj)
    spent = dict.fromkeys((level.level for level in result.levels), 0.0)
    for tensor in result.tensors:
        spent[tensor.level] += tensor.energy_pj
    columns = (
        Column("\nlevel", lambda row: f"  {row['tensor']}" if row["tensor"] else bold(row["level"]), lambda name: name),
        Column("\ntile", _tile), *(Column(f"\n{name}", name, count) for name in ("reads", "fills", "updates")),
        Column("multi-\ncast", "multicast", times), Column("reduc-\ntion", "spatial_reduction", times),
        Column(f"energy\n[{unit}]", "energy_pj", lambda energy_pj: in_scale(energy_pj, scale)),
        Column(
            "% of\nlevel", lambda row: row["energy_pj"] / spent[row["level"]] if row.get("energy_pj") else None, share
        ),
    )  # fmt: skip
    note = f"words of {'the busiest' if result.imperfect else 'one'} instance; energy of all instances"
    yield Table("movement", columns, movement_rows(result, architecture, einsum), "Data movement", note)
    yield dim("multicast: children served by one read; reduction: sums added before one update")
    passed = [f"{n.link_transfers:,} of {n.tensor} below {n.level}" for n in result.networks if n.link_transfers]
    if passed:
        yield dim(f"Words that children take from their neighbours: {', '.join(passed)}. These read them for that.")
    stored = [f"{t.level} {percent(float(t.compression))} of {t.tensor}" for t in result.tensors if t.compression != 1]
    if stored:
        yield dim(f"Bits stored and moved after compression: {', '.join(stored)}. Words are counted uncompressed.")


def _energy(result: Result, einsum: Einsum) -> Iterator[Piece]:
    """Energy by component and tensor with a stacked bar of letters."""
    scale, unit = energy_scale(result.energy_pj)
    tensors = [tensor.name for tensor in einsum.tensors]
    others = result.compute + (", leakage" if any(level.leak_pj for level in result.levels) else "")
    letter = {**letters(tensors), "": _OTHER}
    colour = {**tensor_colours(tensors, einsum.output.name), "": OTHER_COLOUR}
    rows = result.energy_by_tensor_rows()
    if not rows:  # nothing costs anything
        return
    spent: dict[str, dict[str, float]] = {row["component"]: dict.fromkeys(letter, 0.0) for row in rows}
    for row in rows:
        spent[row["component"]][row["tensor"]] = row["energy_pj"]
    sums: list[Row] = [{"component": name, "parts": parts, "sum": sum(parts.values())} for name, parts in spent.items()]
    totals = {name: sum(parts[name] for parts in spent.values()) for name in letter}

    def bar(row: Row, room: int) -> Text:
        found = Text()
        cells = round(max(0, min(40, room)) / (max(each["sum"] for each in sums) or 1.0) * row["sum"])
        for name, width in zip(letter, split_bar(list(row["parts"].values()), cells), strict=True):
            found.append(letter[name] * width, style=colour[name])
        return found

    def part(name: str) -> Column:
        return Column(name or others, lambda row: in_scale(row["parts"][name], scale))

    columns = (
        Column("component", "component"), *map(part, letter), Column("sum", lambda row: in_scale(row["sum"], scale)),
        Column("% of total", lambda row: share(row["sum"] / (result.energy_pj or 1.0))),
    )  # fmt: skip
    total = ["sum", *(in_scale(part, scale) for part in totals.values()), in_scale(result.energy_pj, scale), "100 %"]
    last = ["% of total", *(share(part / result.energy_pj) if part else "" for part in totals.values()), "", ""]
    yield Table(
        "energy", columns, rows, f"Energy [{unit}]", "by component and tensor",
        shown=sums, below=(total, last), bar=bar,
    )  # fmt: skip
    yield dim("Bars: " + ", ".join(f"{short} {name or others}" for name, short in letter.items()))


def _cycles(result: Result) -> Iterator[Piece]:
    """The cycles that each component needs, with a mark at the one that sets the total, and ramps one by one."""

    def bar(row: Row, room: int) -> Text:
        return _bar(row, room - 14).append(" <- bottleneck" if row["bottleneck"] else "", style="bold")

    columns = (
        Column("component", "component"), Column("cycles", "cycles", "{:,}".format),
        Column("% of total", "share", share),
    )  # fmt: skip
    note = "that each component needs; all overlap, so the largest is the total"
    if not result.all_overlaps:
        note = "that each component needs; these overlap, but not all fills and drains"
    rows = result.cycle_rows()
    yield Table("cycles", columns, rows, "Cycles", note, shown=[row for row in rows if row["cycles"]], bar=bar)
    if result.pipeline_fill:
        yield f"{result.compute} with its pipeline fill:"
        wide = len(f"{result.busy_cycles:,}")
        yield f"  {result.compute_cycles:>{wide},} in which compute units act"
        for ramp in result.pipeline_fill:
            repeated = f", {ramp.times:,} times" if ramp.times > 1 else ""
            yield f"  {ramp.cycles:>{wide},} {ramp.what}{repeated}"
    if not result.all_overlaps:
        rows, note = result.time_rows(), "one part after the other"
        below = (["sum", "", f"{result.cycles:,}", ""],)
        yield Table("time", _TIME, rows, "Where the time goes", note, below=below, bar=_bar)


_TIME = (
    Column("component", "component"), Column("what", "what", left=True), Column("cycles", "cycles", "{:,}".format),
    Column("share", "share", share),
)  # fmt: skip


def _bar(row: Row, room: int) -> Text:
    """A bar as long as the share of the cycles."""
    return Text("#" * round(min(24, max(0, room)) * row["share"]))


_ENDS = {"first fill": "first_fill", "all fills": "fills", "last drain": "last_drain", "all drains": "drains"}
_FILLS = (
    *(Column("level", "level"), Column("tensor", "tensor", left=True)),
    *(Column(head, key, lambda cycles: f"{cycles:,}" if cycles else "") for head, key in _ENDS.items()),
    Column("overlap", "overlap", left=True),
)


def _fills(result: Result, *, shown: bool) -> Iterator[Piece]:
    """What fills and drains of each level take alone, and what of it overlaps; in tables only where not `shown`."""
    every = [each for each in result.fills if each.fills or each.drains]
    if not every:
        return
    note = "cycles if not overlapped; overlapped ones are not in the totals above"
    rows, moved = ([asdict(each) for each in some] for some in (result.fills, every if shown else ()))
    yield Table("fills", _FILLS, rows, "Fill and drain latency", note, shown=moved)
    ends = sum(each.first_fill + each.last_drain for each in every if not each.waiting)
    if ends and shown:
        yield f"First fills and last drains that overlap: at most {share(ends / result.cycles)} more cycles."


_LAYOUTS = (
    Column("tensor", "tensor"), Column("data layout", "kind"), Column("order, lines", "layout", left=True, fold=True),
    Column("moved", "bits", format_bits), Column("in bursts", "burst_bits", format_bits),
    Column("factor", lambda row: times(row["burst_bits"] / row["bits"])),
)  # fmt: skip
_CONFLICTS = Column("bank conflicts", lambda row: times(row["port_bits"] / row["burst_bits"]))


def layout_report(result: Result, architecture: Architecture, einsum: Einsum) -> Iterator[Piece]:
    """What the outermost level moves in whole bursts, and what that costs, in some data layouts."""
    outermost = architecture.levels[0]
    if outermost.burst_bits is None:
        return
    from accelsim.model.layouts import KINDS, in_bursts

    banks = f" in {outermost.banks} banks" if outermost.banks > 1 else ""
    title = f"Data layout: bursts of {format_bits(outermost.burst_bits)}{banks} at {outermost.name}"
    note = "not included above; ranks outermost first"
    columns = (*_LAYOUTS, _CONFLICTS) if banks else _LAYOUTS
    yield Table("layouts", columns, [asdict(each) for each in result.layouts], title, note)
    for kind in KINDS if result.layouts else ():
        pj, cycles = in_bursts(result, outermost, kind)
        ratios = times(pj / result.energy_pj), times(cycles / result.cycles)
        yield f"{kind:<6} {energy(pj)} ({ratios[0]}), {cycles:,} cycles ({ratios[1]})"
    told = {each.tensor for each in result.layouts}
    untold = [tensor.name for tensor in einsum.tensors if tensor.name not in told]
    if untold:
        why = "loops leave remainders" if result.imperfect else "compressed, or words of its tiles come back one by one"
        yield f"Not counted: {listed(untold)} ({why})."


def differences_report(names: Sequence[str], rows: Sequence[Row]) -> Iterator[Piece]:
    """Two mappings beside each other: what differs, and how many figures are equal."""
    yield bold(f"a: {names[0]}")
    yield bold(f"b: {names[1]}")
    for kind, title in _DIFFERENCES.items():
        mine = [row for row in rows if row["kind"] == kind and (row["differs"] or kind == "total")]

        text = kind == "loops"
        sides = [Column(side, partial(_figure, side=side), left=text, fold=text) for side in "ab"]
        over = [] if text else [Column("b / a", "ratio", lambda ratio: "" if ratio == 1 else times(ratio, 4))]
        columns = (Column(kind, "what", lambda what: _TOTALS.get(what, what), unbroken=True), *sides, *over)
        yield Table(kind, columns, [row for row in rows if row["kind"] == kind], title, shown=mine)
    yield f"\n{sum(not row['differs'] for row in rows)} of {len(rows)} figures are equal."


_DIFFERENCES = {
    "total": "Totals",
    "energy": "Energy, largest difference first",
    "cycles": "Cycles",
    "words": "Words of all instances, and of a tile",
    "loops": "Loop nest",
}

_TOTALS = {"energy_pj": "energy", "edp": "EDP [pJ*cycle]", "offchip_words": "off-chip words"}


def _figure(row: Row, side: str) -> str | None:
    figure = row[side]
    if figure is None or isinstance(figure, str):
        return figure
    if row["what"] == "utilization":
        return percent(figure)
    if row["kind"] == "energy" or row["what"] == "energy_pj":
        return energy(figure, 5)
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:,.6g}"


def layers_report(names: Sequence[str], rows: Sequence[Row]) -> Iterator[Piece]:
    """Layers of two results beside each other, those whose energies differ most first."""

    def over(key: str) -> Column:
        return Column("b / a", lambda row: times(ratio(row[f"{key}_b"], row[f"{key}_a"]), 4))

    costs = [Column(f"energy {side}", f"energy_pj_{side}", lambda pj: energy(pj, 5)) for side in "ab"]
    cycles = [Column(f"cycles {side}", f"cycles_{side}", count) for side in "ab"]
    columns = (Column("layer", "layer", unbroken=True), *costs, over("energy_pj"), *cycles, over("cycles"))
    yield bold(f"a: {names[0]}")
    yield bold(f"b: {names[1]}")
    yield Table("layers", columns, rows)


def sparse_report(found: SparseResult | None) -> Iterator[Piece]:
    """Dense, effective and ineffectual work of a mapping side by side; nothing without a result."""
    if found is None:
        return
    dense, compute = found.dense, found.compute
    yield heading("Sparsity", "expected values; words of all instances")
    yield from map(invalid, found.violations)
    rows = [
        ("energy", energy(dense.energy_pj, 6), energy(found.energy_pj, 6), ratio(found.energy_pj, dense.energy_pj)),
        ("cycles", f"{dense.cycles:,}", f"{found.cycles:,}", found.cycles / dense.cycles),
        ("MACs", f"{compute.dense:,}", f"{compute.actual:,.0f}", compute.actual / compute.dense),
    ]
    totals = [{"what": what, "dense": was, "now": now, "share": of} for what, was, now, of in rows]
    named = (Column("", "what"), Column("dense", "dense"), Column("sparse", "now"))
    yield Table("sparse_totals", (*named, Column("share", "share", percent)), totals)
    yield f"Gated MACs: {compute.gated:,.0f}; skipped: {compute.skipped:,.0f}. Bottleneck: {found.bottleneck}.\n"
    if compute.slowest > 1:
        yield f"Imbalance: the slowest instances take {compute.slowest:.3g}x the mean time, and the others wait.\n"
    number = "{:,.0f}".format
    columns = (
        Column("level", "level", once=True), Column("tensor", "tensor"), Column("format", "format"),
        Column("tile", "held_words", number),
        *(Column(kind, f"{kind}_words", number) for kind in ("dense", "actual", "gated", "skipped")),
        Column("metadata [bit]", "metadata_bits", number),
        Column("energy", lambda row: row["energy_pj"] / row["dense_pj"] if row["dense_pj"] else None, percent),
    )  # fmt: skip
    yield Table("sparse", columns, found.rows())
    yield "Energy is relative to the dense words; words in no column are not stored, or skipped at an outer level."


def best_report(best: BestWithZeros | None) -> Iterator[Piece]:
    """The best mapping with zeros left out, and whether that is proved; nothing without one."""
    if best is None:
        return
    yield heading("Best mapping with sparsity")
    what = "optimal (proved) among even mappings whose tiles fit uncompressed"
    if not best.proved:
        known = f"at most {gap_text(best.gap)} above the optimum" if best.bound else "not proved"
        what = f"{known}, because {best.why}"
    yield f"{energy(best.found.energy_pj, 6)}, {best.found.cycles:,} cycles: {what}\n"
    yield nest_line(best.found.dense)
