"""The report on fusion: which layers to fuse, what it gains, and each fused loop nest as designers draw it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from accelsim.fusion.chain import Shortcut
from accelsim.fusion.network import FusionResult
from accelsim.fusion.search import ChainResult, FusedPart
from accelsim.fusion.tiling import Room
from accelsim.fusion.walk import Segment, Totals
from accelsim.inputs.units import format_bits, listed
from accelsim.search.strategy import Objective
from accelsim.show.report.certificate import gap_text, objective_value
from accelsim.show.report.nest import nest_line
from accelsim.show.report.text import count, energy, percent, print_table, table, times, title

_MOST_APART = 6


def print_fusion(console: Console, found: FusionResult, *, quiet: bool = False) -> None:
    """Print which chains to fuse and what they gain, and below it each fused loop nest."""
    console.print(
        Text(f"{found.workload} on {found.architecture}", style="bold").append(
            f", consecutive layers fused for the lowest {found.objective}", style="not bold"
        )
    )
    console.print()
    _print_gains(console, found)
    console.print(Text(_verdict(found), style="bold"))
    if quiet:
        return
    for line in _notes(found):
        console.print(Text(line, style="dim"))
    for segment in found.fused:
        _print_chain(console, segment)


def _print_gains(console: Console, found: FusionResult) -> None:
    """Print a row for each fused chain, one for all other layers, and the total, each against unfused."""
    made = table("layers", "rep.", "energy", "gain", "cycles", "gain", "outer words", "gain", "MACs", fold=(0,))
    for segment in found.fused:
        name = " + ".join(layer.name for layer in segment.layers) + _more(segment)
        made.add_row(name, str(segment.repeat), *_cells(segment.totals, segment.unfused))
    others = [segment for segment in found.segments if segment.fused is None]
    if others:
        runs = sum(segment.repeat for segment in others)
        energy_pj = sum(segment.repeat * segment.totals.energy_pj for segment in others)
        cycles = sum(segment.repeat * segment.totals.cycles for segment in others)
        words = sum(segment.repeat * segment.totals.outer_words for segment in others)
        made.add_row("not fused", str(runs), energy(energy_pj), "", count(cycles), "", count(words), "", "")
    made.add_section()
    made.add_row("total", "", *_cells(found.totals, found.unfused))
    print_table(console, made)
    console.print(Text("A row is one run of a chain; 'not fused' and 'total' count every run.", style="dim"))
    if any(segment.alike for segment in found.fused):
        console.print(Text("(+n): and n more chains that are alike; 'rep.' counts them all.", style="dim"))
    console.print(
        Text("gain: unfused / fused; MACs: executed ones against those of the layers by themselves.", style="dim")
    )


def _more(segment: Segment) -> str:
    """How many rows of other layers are alike."""
    return f" (+{len(segment.alike)})" if segment.alike else ""


def _cells(fused: Totals, unfused: Totals) -> tuple[str, ...]:
    return (
        energy(fused.energy_pj),
        times(unfused.energy_pj / fused.energy_pj),
        count(fused.cycles),
        times(unfused.cycles / fused.cycles),
        count(fused.outer_words),
        times(unfused.outer_words / fused.outer_words),
        percent(fused.macs / unfused.macs),
    )


def _verdict(found: FusionResult) -> str:
    """Say what is proved about the total."""
    if found.why_not:
        return f"nothing is fused: {found.why_not}"
    chains = f"{found.chains} chain{'' if found.chains == 1 else 's'} looked at, {found.solved} parts mapped"
    chains += f"; kept from {found.kept}" if found.kept else ""
    if found.certificate.proved:
        return f"total {found.objective}: {_product(found)}optimal (proved); {chains}"
    return f"total {found.objective}: {_product(found)}within {gap_text(found.certificate.gap)} of optimal; {chains}"


def _product(found: FusionResult) -> str:
    """Value and gain of an objective that is no column of the table."""
    goal = Objective.parse(found.objective)
    if goal.energy == 0 or goal.cycles == 0:
        return ""
    gain = goal.value(found.unfused.energy_pj, found.unfused.cycles) / found.certificate.value
    return f"{objective_value(found.objective, found.certificate.value)}, gain {times(gain)}, "


def _notes(found: FusionResult) -> list[str]:
    """What a reader must know of what was looked at."""
    lines = []
    if found.inferred:
        lines.append(
            "The workload says of no layer what it reads (`from`); neighbours whose shapes line up are taken to."
        )
    if found.longest:
        lines.append(f"Chains of at most {found.longest} layers were looked at.")
    lines += [f"{each.producer} and {each.consumer} are apart: {each.why}" for each in found.apart[:_MOST_APART]]
    if len(found.apart) > _MOST_APART:
        lines.append(f"… and {len(found.apart) - _MOST_APART} more pairs")
    return lines


def _print_chain(console: Console, segment: Segment) -> None:
    """Print the fused loop nest of a chain, and below it the mappings of its parts."""
    found = segment.fused
    if found is None:
        return
    title(console, found.chain.name + _more(segment), _headline(segment, found))
    for line in nest_lines(found):
        console.print(Text(line), no_wrap=True, overflow="ellipsis")
    console.print()
    console.print(
        Text("Mappings of the parts, outermost level first; Level[tensors it keeps] and its loops:", style="dim")
    )
    for number, part in enumerate(found.parts, 1):
        console.print(Text(f"{number:2}  {part.result.workload}: {nest_line(part.result)}"))


def _headline(segment: Segment, found: ChainResult) -> str:
    gain = segment.unfused.energy_pj / found.energy_pj, segment.unfused.cycles / found.cycles
    steps = f"{found.tiling.steps} step{'' if found.tiling.steps == 1 else 's'}"
    return f"{steps} at {found.tiling.level}; gain {times(gain[0])} in energy, {times(gain[1])} in cycles"


def nest_lines(found: ChainResult) -> list[str]:
    """Fused loop nest of a chain: its loops, and inside them each layer with what it runs and what stays."""
    chain, tiling = found.chain, found.tiling
    level = next(level for level in found.parts[0].result.levels if level.level == tiling.level)
    lines, indent = [], ""
    for at, names in enumerate(tiling.resident):
        for name in sorted(names):
            lines.append(f"{name} of {chain.layers[at].name} stays in {tiling.level} while its tile is the same")
    for loop in tiling.loops:
        last = chain.layers[-1]
        lines.append(f"{indent}{loop}: {loop.tile} of {last.dims[loop.dim]} {loop.dim} of {last.output.name}")
        indent += "  "
    number = 0
    for at, einsum in enumerate(chain.layers):
        mine = [part for part in found.parts if part.part.layer == at]
        moved = [dim.dims[at] for dim in chain.dims if dim.name in {loop.dim for loop in tiling.loops}]
        lines.append(f"{indent}{einsum.name}{_again(mine, einsum.macs)}")
        for part in mine:
            number += 1
            lines.append(f"{indent}  {number:2}  {_part_line(part, moved)}")
        if at == 0 and tiling.shortcut and chain.shortcut is not None:
            lines.append(f"{indent}> {_shortcut(found, chain.shortcut, level.word_bits)}")
        if at < len(chain.links):
            words = -(-einsum.output.bits // level.word_bits)
            lines += [
                f"{indent}> {line}" for line in _intermediate(found, at, found.rooms[at], words * level.word_bits)
            ]
    return lines


def _again(parts: Sequence[FusedPart], macs: int) -> str:
    """How much of a layer is computed again, or not at all."""
    done = sum(part.count * part.result.macs for part in parts)
    return "" if done == macs else f" ({percent(done / macs)} of its MACs)"


def _part_line(part: FusedPart, moved: Sequence[str]) -> str:
    """A part in words: how often, what of the dimensions that the fused loops move, and what it costs."""
    result = part.result
    tile = ", ".join(f"{dim} {result.bounds[dim]}" for dim in moved)
    fetched = f", fetches {listed(sorted(part.part.arriving))}" if part.part.arriving else ""
    cost = f"{energy(result.energy_pj)}, {count(result.cycles)} cycles ({result.bottleneck})"
    return f"{part.count} x {tile or 'whole'}{fetched}: {cost}"


def _shortcut(found: ChainResult, shortcut: Shortcut, word_bits: int) -> str:
    """What the first layer reads and leaves there for a later one."""
    chain = found.chain
    tensor = next(t for t in chain.layers[0].tensors if t.name == shortcut.tensor)
    bits = found.shortcut.live * -(-tensor.bits // word_bits) * word_bits
    names = f"{shortcut.tensor} of {chain.layers[0].name}", f"{shortcut.again} of {chain.layers[shortcut.layer].name}"
    return f"{names[0]} stays in {found.tiling.level} as {names[1]}: {format_bits(bits)}"


def _intermediate(found: ChainResult, at: int, room: Room, word_bits: int) -> list[str]:
    """What an intermediate takes in the fusing level, and how its halo is had again."""
    chain, tiling = found.chain, found.tiling
    name = f"{chain.layers[at].output.name} of {chain.layers[at].name}"
    text = f"{name} in {tiling.level}: {format_bits(room.live * word_bits)}"
    again = [
        loop.dim
        for loop in tiling.loops
        for dim in chain.dims
        if dim.name == loop.dim and dim.windows[at] + 1 > dim.steps[at] and loop.dim not in tiling.retain[at]
    ]
    kept = f"retained along {listed(sorted(tiling.retain[at]))} ({format_bits(room.between * word_bits)} stay)"
    ways = [kept] if tiling.retain[at] else []
    ways += [f"recomputed along {listed(sorted(again))}"] if again else []
    return [text, *([f"halo {', '.join(ways)}"] if ways else [])]
