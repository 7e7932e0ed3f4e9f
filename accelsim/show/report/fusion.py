"""The report on fusion: which layers to fuse, what it gains, and each fused loop nest as designers draw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.text import Text

from accelsim.fusion.chain import Shortcut
from accelsim.fusion.result import ChainResult, FusedPart, FusionResult, Segment
from accelsim.fusion.tiling import Room
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import format_bits, listed
from accelsim.show.report.certificate import gap_text, objective_value
from accelsim.show.report.mapping import nest_line
from accelsim.show.report.text import count, energy, percent, times
from accelsim.show.table import Column, Part, Row, Table, bold, dim, heading

_MOST_APART = 6


def fusion_report(found: FusionResult) -> Iterator[Part]:
    """Which chains to fuse and what they gain, and below it each fused loop nest."""
    yield from brief(found)
    yield from map(dim, _notes(found))
    for segment in found.fused:
        yield from _chain(segment)


def brief(found: FusionResult) -> Iterator[Part]:
    """Which chains to fuse, what they gain, and what is proved."""
    head = f", consecutive layers fused for the lowest {found.objective}"
    yield bold(f"{found.workload} on {found.architecture}").append(head + "\n", style="not bold")
    yield from _gains(found)
    yield bold(_verdict(found))


def _gain(of: str) -> Column:
    return Column("gain", lambda row: times(row["unfused"][of] / row["fused"][of]) if "unfused" in row else "")


_COLUMNS = (
    Column("layers", lambda row: row["layers"] + (f" (+{row['alike']})" if row["alike"] else ""), fold=True),
    Column("rep.", "repeat"),
    Column("energy", lambda row: energy(row["fused"]["energy_pj"])),
    _gain("energy_pj"),
    Column("cycles", lambda row: count(row["fused"]["cycles"])),
    _gain("cycles"),
    Column("outer words", lambda row: count(row["fused"]["outer_words"])),
    _gain("outer_words"),
    Column("MACs", lambda row: percent(row["fused"]["macs"] / row["unfused"]["macs"]) if "unfused" in row else ""),
)


def _gains(found: FusionResult) -> Iterator[Part]:
    """A row for each fused chain, and below it all other layers and the total, each against unfused."""
    rows: list[Row] = [
        {
            "layers": " + ".join(layer.name for layer in segment.layers),
            "alike": len(segment.alike),
            "repeat": segment.repeat,
            "fused": asdict(segment.totals),
            "unfused": asdict(segment.unfused),
        }
        for segment in found.fused
    ]
    shown = list(rows)
    others = [segment for segment in found.segments if segment.fused is None]
    if others:
        sums = {
            name: sum(segment.repeat * getattr(segment.totals, name) for segment in others)
            for name in ("energy_pj", "cycles", "outer_words")
        }
        runs = sum(segment.repeat for segment in others)
        shown.append({"layers": "not fused", "alike": 0, "repeat": runs, "fused": sums})
    total = {"layers": "total", "alike": 0, "fused": asdict(found.totals), "unfused": asdict(found.unfused)}
    yield Table("chains", _COLUMNS, rows, shown=shown, below=[total])
    yield dim("A row is one run of a chain; 'not fused' and 'total' count every run.")
    if any(segment.alike for segment in found.fused):
        yield dim("(+n): and n more chains that are alike; 'rep.' counts them all.")
    yield dim("gain: unfused / fused; MACs: executed ones against those of the layers by themselves.")


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
    if goal.alone:
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


def _chain(segment: Segment) -> Iterator[Part]:
    """The fused loop nest of a chain, and below it the mappings of its parts."""
    found = segment.fused
    if found is None:
        return
    more = f" (+{len(segment.alike)})" if segment.alike else ""
    yield heading(found.chain.name + more, _headline(segment, found))
    for line in nest_lines(found):
        yield Text(line, no_wrap=True, overflow="ellipsis")
    yield ""
    yield dim("Mappings of the parts, outermost level first; Level[tensors it keeps] and its loops:")
    for number, part in enumerate(found.parts, 1):
        yield f"{number:2}  {part.result.workload}: {nest_line(part.result)}"


def _headline(segment: Segment, found: ChainResult) -> str:
    before, after = segment.unfused, found.totals
    gain = before.energy_pj / after.energy_pj, before.cycles / after.cycles
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
