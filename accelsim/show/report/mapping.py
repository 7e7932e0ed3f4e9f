"""The report on one mapping: headline, loop nest, data movement, energy and cycles."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.units import format_bits, format_si, listed
from accelsim.inputs.workload import Einsum
from accelsim.model.result import LevelResult, Result, TensorAtLevel
from accelsim.search.result import SearchResult
from accelsim.show.report.certificate import verdict
from accelsim.show.report.nest import print_nest
from accelsim.show.report.text import (
    OTHER_COLOUR,
    count,
    energy,
    energy_scale,
    in_scale,
    letters,
    percent,
    print_table,
    room_beside,
    share,
    split_bar,
    table,
    tensor_colours,
    times,
    title,
)

_OTHER = "#"


def print_result(
    console: Console, result: Result, architecture: Architecture, einsum: Einsum, search: SearchResult | None = None
) -> None:
    """Print everything about one mapping; `architecture` and `einsum` are those that it was evaluated on.

    `search` is the one that found it, if one did.
    """
    print_headline(console, result, search)
    _print_area(console, architecture)
    title(console, "Loop nest", "for: in time, par_for: in space; sizes of one instance")
    print_nest(console, result)
    _print_movement(console, result, architecture, einsum)
    _print_energy(console, result, einsum)
    _print_cycles(console, result)
    _print_fills(console, result)
    _print_bursts(console, result, architecture, einsum)
    windowed = [t.name for t in einsum.tensors if any(len(rank) > 1 for rank in t.ranks)]
    if windowed:
        console.print(f"\nPadded points of {', '.join(windowed)} count as ordinary points: they are stored and moved.")


def print_headline(console: Console, result: Result, search: SearchResult | None = None) -> None:
    """Print what the mapping costs in a few lines, every rule that it breaks, and what its search proves about it."""
    console.print(Text(f"{result.workload} on {result.architecture}", style="bold"))
    for violation in result.violations:
        console.print(Text(f"INVALID: {violation}", style="bold red"))
    if result.violations:
        console.print("The numbers below are those of a machine on which it would fit.")
    time = ""
    if result.seconds is not None and result.clock_hz is not None:
        time = f"{format_si(result.seconds, 's', 4)} at {format_si(result.clock_hz, 'Hz')}"
    lines = [
        ("energy", f"{energy(result.energy_pj, 6)}", f"{result.pj_per_mac:.5g} pJ/MAC, {_macs(result)}"),
        ("cycles", f"{result.cycles:,}", time),
        ("EDP", f"{result.edp:.5g}", "pJ x cycle"),
    ]
    if result.power_w is not None:
        lines.append(("power", format_si(result.power_w, "W", 4), "on average: energy / run time"))
    wide = max(len(value) for _, value, _ in lines)
    for name, value, note in lines:
        console.print(Text(f"{name:<12} {value:<{wide}}  {note}".rstrip()))
    shares = (
        ("overall", result.utilization),
        ("spatial", result.spatial_utilization),
        ("temporal", result.temporal_utilization),
    )
    console.print(Text(f"{'utilization':<12} " + ", ".join(f"{name} {percent(share)}" for name, share in shares)))
    what = "compute" if result.bottleneck == result.compute else "bandwidth"
    console.print(Text(f"{'bottleneck':<12} ").append(result.bottleneck, style="bold").append(f" ({what})"))
    if search is not None:
        objective = "EDP" if search.objective == "edp" else search.objective
        console.print(Text(f"{'certificate':<12} {objective} is {verdict(search)}"))


def _print_area(console: Console, architecture: Architecture) -> None:
    """Print the area of the machine, if a source says that of any part."""
    names = [*(level.name for level in architecture.levels), architecture.compute.name]
    without = [name for name in names if name not in architecture.areas]
    if len(without) == len(names):
        return
    known = sum(
        architecture.areas[name].area_um2 * architecture.instances(index)
        for index, name in enumerate(names)
        if name not in without
    )
    what = f"without {', '.join(without)}, of which none is known" if without else "of all levels and compute units"
    console.print(Text(f"{'area':<12} {known / 1e6:.4g} mm2  {what}"))


def _macs(result: Result) -> str:
    """Multiply-accumulates of the layer, and those that padding adds."""
    if result.padded_macs == result.macs:
        return f"{result.macs:,} MACs"
    bounds = ", ".join(map(str, result.mapping.padded))
    return f"{result.macs:,} MACs ({result.padded_macs:,} with padding to {bounds})"


def _print_movement(console: Console, result: Result, architecture: Architecture, einsum: Einsum) -> None:
    """Print counts by level and tensor; a tensor that passes a level by has a row where its words are shared below."""
    one = "the busiest" if result.ragged else "one"
    title(console, "Data movement", f"words of {one} instance; energy of all xN in use")
    scale, unit = energy_scale(result.energy_pj)
    heads = ("\ntile", "share of\nspace", "\nreads", "\nfills", "\nupdates", "multi-\ncast", "reduc-\ntion")
    made = table("\nlevel", *heads, f"energy\n[{unit}]")
    kept = {(t.level, t.tensor): t for t in result.tensors}
    shared = {(n.level, n.tensor): n for n in result.networks}
    for level, spec in zip(result.levels, architecture.levels, strict=True):
        used = "" if level.capacity_words is None else share(level.used_words / max(1, level.capacity_words))
        instances = f"x{level.used_instances:,}" if level.instances > 1 else ""
        made.add_row(Text(level.level, style="bold"), instances, used, *[""] * 6)
        for tensor in einsum.tensors:
            at, network = kept.get((level.level, tensor.name)), shared[level.level, tensor.name]
            several = network.children > 1
            multicast = times(network.multicast) if several else ""
            reduction = times(network.spatial_reduction) if several and network.distinct_up else ""
            if at is not None:
                counts = (count(at.reads), count(at.fills), count(at.updates), multicast, reduction)
                room = _share(at, level, spec, tensor.role)
                made.add_row(f"  {tensor.name}", count(at.tile_words), room, *counts, in_scale(at.energy_pj, scale))
            elif network.multicast > 1 or network.spatial_reduction > 1:
                made.add_row(f"  {tensor.name}", "passes", *[""] * 4, multicast, reduction, "")
    print_table(console, made)
    console.print(Text("Multicast, (spatial) reduction: children below that share one read, one update.", style="dim"))
    stored = [f"{t.level} {percent(float(t.compression))} of {t.tensor}" for t in result.tensors if t.compression != 1]
    if stored:
        what = f"Bits stored and moved after compression: {', '.join(stored)}. Words are counted as they are without."
        console.print(Text(what, style="dim"))


def _share(at: TensorAtLevel, level: LevelResult, spec: Level, role: str) -> str:
    """Share of the capacity that a tile takes: of the tensor's own partition where there is one."""
    room = level.capacity_words
    if spec.partition_words is not None:
        room = spec.partition_words.get(role, 0) // spec.multiple_buffering
    return share(float(at.storage_words(at.tile_words, level.word_bits)) / room) if room else ""


def _print_energy(console: Console, result: Result, einsum: Einsum) -> None:
    """Print energy by component and tensor with a stacked bar of letters."""
    scale, unit = energy_scale(result.energy_pj)
    tensors = [tensor.name for tensor in einsum.tensors]
    letter = {**letters(tensors), "": _OTHER}
    colour = {**tensor_colours(tensors, einsum.output.name), "": OTHER_COLOUR}
    rows = result.energy_by_tensor_rows()
    names = [*tensors, ""]
    title(console, f"Energy [{unit}]", "by component and tensor; other: compute and leakage")
    heads = ["component", *(name or "other" for name in names), "sum", "share"]
    components = list(dict.fromkeys(row["component"] for row in rows))
    parts = {(row["component"], row["tensor"]): row["energy_pj"] for row in rows}
    sums = {name: sum(parts.get((name, tensor), 0.0) for tensor in names) for name in components}
    cells = [
        [
            name,
            *(in_scale(parts.get((name, tensor), 0.0), scale) for tensor in names),
            in_scale(sums[name], scale),
            share(sums[name] / result.energy_pj),
        ]
        for name in components
    ]
    totals = [sum(parts.get((name, tensor), 0.0) for name in components) for tensor in names]
    total = ["sum", *(in_scale(part, scale) for part in totals), in_scale(result.energy_pj, scale), "100 %"]
    last = ["share", *(share(part / result.energy_pj) if part else "" for part in totals), "", ""]
    gap, room = room_beside(console, [heads, *cells, total, last])
    made = table(*heads, "", left=(0, len(heads)))
    made.padding = (0, gap - 1, 0, 0)
    longest = max(0, min(40, room)) / max(sums.values(), default=1.0)
    for row, name in zip(cells, components, strict=True):
        pieces = [parts.get((name, tensor), 0.0) for tensor in names]
        bar = Text()
        for tensor, width in zip(names, split_bar(pieces, round(longest * sums[name])), strict=True):
            bar.append(letter[tensor] * width, style=colour[tensor])
        made.add_row(*row, bar)
    made.add_section()
    made.add_row(*total, "")
    made.add_row(*last, "")
    print_table(console, made)
    console.print(Text("Bars: " + ", ".join(f"{letter[name]} {name or 'other'}" for name in names), style="dim"))


def _print_cycles(console: Console, result: Result) -> None:
    """Print the cycles that each component needs, and mark the one that sets the total."""
    title(console, "Cycles", "that each component needs; all overlap, so the largest is the total")
    heads = ["component", "cycles", "share"]
    cells = [
        [row["component"], *((f"{row['cycles']:,}", share(row["share"])) if row["cycles"] else ("no limit", ""))]
        for row in result.cycle_rows()
    ]
    gap, room = room_beside(console, [heads, *cells])
    made = table(*heads, "", left=(0, 3))
    made.padding = (0, gap - 1, 0, 0)
    for row, component in zip(cells, result.cycle_rows(), strict=True):
        bar = Text("#" * round(min(24, max(0, room - 14)) * component["share"]))
        bar.append(" <- bottleneck" if component["bottleneck"] else "", style="bold")
        made.add_row(*row, bar)
    print_table(console, made)
    if result.ramps:
        console.print(Text(f"{result.compute} with its ramps, one by one:"))
        wide = len(f"{result.busy_cycles:,}")
        console.print(Text(f"  {result.compute_cycles:>{wide},} in which compute units act"))
        for ramp in result.ramps:
            times = f", {ramp.times:,} times" if ramp.times > 1 else ""
            console.print(Text(f"  {ramp.cycles:>{wide},} {ramp.what}{times}"))


def _print_fills(console: Console, result: Result) -> None:
    """Print what fills and drains of each level take if nothing overlaps with them, and what that comes to."""
    shown = [each for each in result.fills if each.fills or each.drains]
    if not shown:
        return
    title(console, "Fills and drains", "cycles of each level's tiles; all of them overlap above")
    made = table("level", "first fill", "all fills", "last drain", "all drains", "double-buffered", left=(0, 5))
    for each in shown:
        numbers = (each.first_fill, each.fills, each.last_drain, each.drains)
        made.add_row(
            each.level,
            *(f"{cycles:,}" if cycles else "" for cycles in numbers),
            "yes" if each.double_buffered else "no",
        )
    print_table(console, made)
    ends = sum(each.first_fill + each.last_drain for each in shown)
    console.print(f"First fills and last drains alone: at most {share(ends / result.cycles)} more cycles.")
    waiting = [each.level for each in shown if not each.double_buffered]
    if waiting:
        whole = result.cycles_without_overlap
        console.print(
            f"If computing ({result.computing_cycles:,}) and fills and drains of levels that are not double-buffered "
            f"({listed(waiting)}) wait for each other: {whole:,} cycles, {times(whole / result.cycles)} those above."
        )


def _print_bursts(console: Console, result: Result, architecture: Architecture, einsum: Einsum) -> None:
    """Print what the outermost level moves in whole bursts, beside what the mapping asks of it."""
    burst = architecture.levels[0].burst_bits
    if burst is None:
        return
    outermost = architecture.levels[0].name
    title(
        console, f"Bursts of {format_bits(burst)} at {outermost}", "in no figure above; last rank innermost in memory"
    )
    made = table("tensor", "words side by side", "moved", "in bursts", "factor")
    for each in result.bursts:
        moved, whole = (format_bits(bits) for bits in (each.bits, each.burst_bits))
        made.add_row(each.tensor, f"{each.run_words:,}", moved, whole, times(each.burst_bits / each.bits))
    print_table(console, made)
    told = [each.tensor for each in result.bursts]
    untold = [tensor.name for tensor in einsum.tensors if tensor.name not in told]
    if untold:
        why = "loops leave remainders" if result.ragged else "compressed, or words of its tiles come back one by one"
        console.print(f"Not counted: {listed(untold)} ({why}).")
