"""The report on a network: a row for each layer, totals, and the layers that have most to gain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from rich.text import Text

from accelsim.designs.soc import SystemResult, layer_rows
from accelsim.fusion.chain import Shortcut
from accelsim.fusion.result import ChainResult, FusedPart, FusionResult, Segment
from accelsim.fusion.tiling import Room
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import format_bits, format_si, listed, ratio
from accelsim.inputs.workload import OPERATIONS, Einsum
from accelsim.results.network import LayerOutcome, alike_layers, network_totals, rows_of_layers
from accelsim.results.network import layer_rows as shares_of_layers
from accelsim.search.result import kind_of_mappings
from accelsim.show.report import (
    count,
    energy,
    gap_text,
    left_out_line,
    objective_value,
    other_operations,
    percent,
    precision_lines,
    share,
    short_verdict,
    times,
)
from accelsim.show.report.mapping import nest_line
from accelsim.show.table import Column, Piece, Row, Table, bold, dim, heading

_FIRST, _LEAST = 5, 0.0005
"""Layers that are named as the first to look at, each with at least so much of the total above its limit."""


def _gap(row: Row) -> str:
    """Cell of the column `gap`; the total has none."""
    if "proved" not in row or row["energy_pj"] is None:
        return ""
    return "-" if row["proved"] is None else "proved" if row["proved"] else gap_text(row["gap"])


_COLUMNS = (
    Column("\nlayer", "layer", fold=True),
    Column("\nrep.", "repeat"),
    Column("\nMACs", "macs", count, wide=True),
    Column("\nenergy", lambda row: "none valid" if row["energy_pj"] is None else energy(row["energy_pj"])),
    Column("\nshare", "energy_share", share),
    Column("\npJ/MAC", "pj_per_mac", "{:.4g}".format),
    Column("\ncycles", "cycles", count),
    Column("\nshare", "cycles_share", share),
    Column("\nutil.", "utilization", percent),
    Column("bottle-\nneck", "bottleneck", left=True),
    Column("\ngap", _gap),
)


def network_report(
    network: str,
    machine: Architecture,
    outcomes: Sequence[LayerOutcome],
    yields: Mapping[str, int] | None = None,
    left_out: Sequence[Einsum] = (),
) -> Iterator[Piece]:
    """One row for each different layer, the totals of the network, and which layers have most to gain.

    `left_out` are layers that do not count.
    """
    totals, rows = network_totals(outcomes, yields), rows_of_layers(outcomes)
    objectives = ", ".join(dict.fromkeys(o.search.objective for o in outcomes if o.search is not None))
    head = f", each layer mapped for the lowest {objectives}\n" if objectives else "\n"
    yield bold(f"{network} on {machine.name}").append(head, style="not bold")
    total = {**totals, "layer": "total", "repeat": totals["layers"], "energy_share": 1, "cycles_share": 1}
    yield Table("layers", _COLUMNS, rows, below=[total] if totals["macs"] else [])
    yield from _total_lines(totals)
    yield from precision_lines(machine, [outcome.einsum for outcome in outcomes])
    yield from [left_out_line(left_out)] if left_out else []
    yield from _other_operations(outcomes, totals)
    yield bold(_total_verdict(outcomes, totals["certificate"]))
    more = "; +n: and n more that are alike" if len(rows) < len(outcomes) else ""
    yield dim(f"Rows are one run of a layer; shares and total count it 'rep.' times{more}.")
    further = any(o.search is not None and (o.search.uneven or o.search.uneven_bound is not None) for o in outcomes)
    yield dim(f"gap: how much lower the best {kind_of_mappings(uneven=further)} mapping may be; -: unknown.")
    for outcome in outcomes:
        if outcome.search is None:
            yield bold(f"{outcome.einsum.name}: not mapped; the total is without it")
    yield from _zeros(rows, totals)
    yield from _first(alike_layers(outcomes), "cycles" if objectives == "cycles" else "energy")


def _other_operations(outcomes: Sequence[LayerOutcome], totals: Mapping[str, Any]) -> Iterator[str]:
    """What layers of other operations than multiply-accumulates have of the total."""
    found = [
        (o.einsum, o.search.best) for o in outcomes if o.search is not None and o.einsum.operation != OPERATIONS[0]
    ]
    if not found:
        return
    cycles, pj = (sum(e.repeat * getattr(best, name) for e, best in found) for name in ("cycles", "energy_pj"))
    shares = (
        f"{share(cycles / totals['cycles'])} of the cycles and {share(ratio(pj, totals['energy_pj']))} of the energy"
    )
    yield f"{other_operations([einsum for einsum, _ in found])}: {shares}; each point counts as a MAC"


def _zeros(rows: Sequence[Row], totals: Mapping[str, Any]) -> Iterator[Piece]:
    """Each layer dense and with zeros left out side by side, on a machine that does something about them."""
    if "sparse_energy_pj" not in totals:
        return
    shown = [row for row in rows if "sparse_energy_pj" in row]
    total = {
        **totals,
        "layer": "total",
        "repeat": totals["layers"],
        "effective": totals["effective_macs"] / totals["macs"],
    }
    columns = (
        Column("\nlayer", "layer", fold=True),
        Column("\nrep.", "repeat"),
        Column("dense\nenergy", "energy_pj", energy),
        Column("with zeros\nleft out", "sparse_energy_pj", energy),
        Column("\nshare", lambda row: share(row["sparse_energy_pj"] / row["energy_pj"])),
        Column("dense\ncycles", "cycles", count),
        Column("with zeros\nleft out", "sparse_cycles", count),
        Column("\nshare", lambda row: share(row["sparse_cycles"] / row["cycles"])),
        Column("effective\nMACs", "effective", share),
        Column(
            "\ngap",
            lambda row: (
                "proved" if row["sparse_proved"] else gap_text(row["sparse_gap"]) if row.get("sparse_gap") else "-"
            ),
        ),
    )
    yield heading("Best mappings with zeros left out", "each layer by itself, beside the dense best")
    yield Table("zeros", columns, shown, below=[total])
    proved = sum(row["sparse_proved"] for row in shown)
    yield bold(f"{proved} of {len(shown)} rows are optimal (proved) among the mappings whose tiles fit uncompressed\n")


def _total_lines(totals: Mapping[str, Any]) -> list[str]:
    """Totals beside those of the table: words at the outermost level, time and rate."""
    if not totals["macs"]:
        return []
    moved = f"{count(totals['outer_words'])} words ({format_si(totals['outer_bytes'], 'B', 4)})"
    lines = [f"{count(totals['macs'])} MACs; {moved} at {totals['outermost']}"]
    if totals["run_time_s"] is not None:
        lines.append(f"{format_si(totals['run_time_s'], 's', 4)} a run")
    if totals["yields_per_s"] is not None:
        rate = totals["yields_per_s"]
        lines.append(f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}")
        lines[-1] += f" {totals['yields']} a second"
    if totals["energy_pj_per_yield"] is not None:
        lines.append(f"{energy(totals['energy_pj_per_yield'])} a {totals['yields'].removesuffix('s')}")
    return [lines[0], *filter(None, ["; ".join(lines[1:])])]


def _first(groups: Sequence[LayerOutcome], what: str) -> Iterator[Piece]:
    """The layers that have most to gain, in energy or cycles."""
    key = f"{what}_above_limit"
    rows = [row for row in shares_of_layers(groups) if row[key] is not None]
    first = [row for row in sorted(rows, key=lambda row: -row[key]) if row[key] >= _LEAST][:_FIRST]
    if not rows or len(groups) < 2:
        return
    rest = sum(row[key] for row in rows)
    if not first:
        yield f"\nNo layer is far above what no mapping falls below: all together {share(rest)} of the {what}"
        return

    def factor(row: Row) -> str:
        part, above = row[f"{what}_share"], row[key]
        return times(part / (part - above) if part > above else math.inf)

    columns = (
        Column("layer", "layer", fold=True),
        Column(f"share of {what}", f"{what}_share", share),
        Column("x the limit", factor),
        Column("above it, of the total", key, share),
    )
    yield Table("first", columns, first, "Layers to look at first", f"{what} above a limit that no mapping falls below")
    yield dim(f"All layers together: {share(rest)} of the {what} is above the limits.")


def _total_verdict(outcomes: Sequence[LayerOutcome], total: Mapping[str, Any] | None) -> str:
    """Say what is proved about all mapped layers together."""
    searches = [o.search for o in outcomes if o.search is not None]
    if not searches:
        return "no layer is mapped"
    proved, even = (
        sum(proof is not None and proof.proved for proof in proofs)
        for proofs in ([search.proof for search in searches], [search.certificate for search in searches])
    )
    among = f" and {even - proved} more among even mappings" if even > proved else ""
    if proved == len(searches):
        return f"all {proved} mapped layers are optimal (proved), and so is the total"
    objective = searches[0].objective
    summed = "energy" if objective == "energy" else "cycles" if objective == "cycles" else f"sum of {objective}"
    known = "has no lower bound"
    if total is not None and total["gap"] is not None:
        known = f"is within {gap_text(total['gap'])} of optimal"
    return f"{proved} of {len(searches)} mapped layers are optimal (proved){among}; the total {summed} {known}"


_MOST_APART = 6


def fusion_report(found: FusionResult) -> Iterator[Piece]:
    """Which chains to fuse and what they gain, and below it each fused loop nest."""
    yield from brief(found)
    yield from map(dim, _notes(found))
    for segment in found.fused:
        yield from _chain(segment)


def brief(found: FusionResult) -> Iterator[Piece]:
    """Which chains to fuse, what they gain, and what is proved."""
    head = f", consecutive layers fused for the lowest {found.objective}"
    yield bold(f"{found.workload} on {found.architecture}").append(head + "\n", style="not bold")
    yield from _gains(found)
    yield bold(_verdict(found))


def _gain(of: str) -> Column:
    return Column("gain", lambda row: times(ratio(row["unfused"][of], row["fused"][of])) if "unfused" in row else "")


_FUSION_COLUMNS = (
    Column("layers", lambda row: row["layers"] + (f" (+{row['alike']})" if row["alike"] else ""), fold=True),
    Column("rep.", "repeat"),
    Column("energy", ("fused", "energy_pj"), energy),
    _gain("energy_pj"),
    Column("cycles", ("fused", "cycles"), count),
    _gain("cycles"),
    Column("outer words", ("fused", "outer_words"), count),
    _gain("outer_words"),
    Column("MACs", lambda row: percent(row["fused"]["macs"] / row["unfused"]["macs"]) if "unfused" in row else ""),
)


def _gains(found: FusionResult) -> Iterator[Piece]:
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
    yield Table("chains", _FUSION_COLUMNS, rows, shown=shown, below=[total])
    yield dim("A row is one run of a chain; 'not fused' and 'total' count every run.")
    if any(segment.alike for segment in found.fused):
        yield dim("(+n): and n more chains that are alike; 'rep.' counts them all.")
    yield dim("gain: unfused / fused; MACs: executed ones against those of the layers by themselves.")


def _verdict(found: FusionResult) -> str:
    """Say what is proved about the total."""
    if found.why_not:
        return f"nothing is fused: {found.why_not}"
    chains = f"{found.chains} chain{'' if found.chains == 1 else 's'} looked at, {found.solved} parts mapped"
    proof, goal, product = found.certificate, Objective.parse(found.objective), ""
    if not goal.alone:  # it is no column of the table
        gain = ratio(goal.value(found.unfused.energy_pj, found.unfused.cycles), proof.value)
        product = f"{objective_value(found.objective, proof.value)}, gain {times(gain)}, "
    return f"total {found.objective}: {product}{short_verdict(proof)}; {chains}"


def _notes(found: FusionResult) -> list[str]:
    """What a reader must know of what was looked at."""
    lines = []
    if found.inferred:
        lines.append(
            "The workload says of no layer what it reads (`from`); neighbours whose shapes line up are taken to."
        )
    others = dict.fromkeys(layer.operation for segment in found.segments for layer in segment.layers)
    others.pop(OPERATIONS[0], None)
    if others:
        lines.append(f"Each point of layers that do not multiply and add ({listed(others)}) counts as a MAC.")
    if found.longest:
        lines.append(f"Chains of at most {found.longest} layers were looked at.")
    lines += [f"{each.producer} and {each.consumer} are apart: {each.why}" for each in found.apart[:_MOST_APART]]
    if len(found.apart) > _MOST_APART:
        lines.append(f"… and {len(found.apart) - _MOST_APART} more pairs")
    return lines


def _chain(segment: Segment) -> Iterator[Piece]:
    """The fused loop nest of a chain, and below it the mappings of its parts."""
    found = segment.fused
    if found is None:
        return
    more = f" (+{len(segment.alike)})" if segment.alike else ""
    before, after = segment.unfused, found.totals
    steps = f"{found.tiling.steps} step{'' if found.tiling.steps == 1 else 's'} at {found.tiling.level}"
    gains = times(ratio(before.energy_pj, after.energy_pj)), times(before.cycles / after.cycles)
    yield heading(found.chain.name + more, f"{steps}; gain {gains[0]} in energy, {gains[1]} in cycles")
    for line in nest_lines(found):
        yield Text(line, no_wrap=True, overflow="ellipsis")
    yield ""
    yield dim("Mappings of the parts, outermost level first; Level[tensors it keeps] and its loops:")
    for number, part in enumerate(found.parts, 1):
        yield f"{number:2}  {part.result.workload}: {nest_line(part.result)}"


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
        done = sum(part.count * part.result.macs for part in mine)
        again = "" if done == einsum.macs else f" ({percent(done / einsum.macs)} of its MACs)"
        lines.append(f"{indent}{einsum.name}{again}")
        for part in mine:
            number += 1
            lines.append(f"{indent}  {number:2}  {_part_line(part, moved)}")
        below = []
        if at == 0 and tiling.shortcut and chain.shortcut is not None:
            below.append(_shortcut(found, chain.shortcut, level.word_bits))
        if at < len(chain.links):
            words = -(-einsum.output.bits // level.word_bits)
            below += _intermediate(found, at, found.rooms[at], words * level.word_bits)
        lines += [f"{indent}> {line}" for line in below]
    return lines


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
    tensor = chain.layers[0].tensor(shortcut.tensor)
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
        if dim.name == loop.dim and dim.overlaps(at) and loop.dim not in tiling.retain[at]
    ]
    kept = f"retained along {listed(sorted(tiling.retain[at]))} ({format_bits(room.between * word_bits)} stay)"
    halos = [kept] if tiling.retain[at] else []
    halos += [f"recomputed along {listed(sorted(again))}"] if again else []
    return [text, *([f"halo {', '.join(halos)}"] if halos else [])]


def system_report(found: SystemResult) -> Iterator[Piece]:
    """Who runs each layer of a network, what each operation and engine has of the total, and what is proved."""
    what = {"energy": "the lowest energy", "latency": "the first end of a run", "throughput": "most runs a second"}
    yield bold(f"{found.workload.name} on {found.system.name}").append(
        f", assigned for {what[found.objective]}\n", style="not bold"
    )
    rows, names = layer_rows(found), [engine.name for engine in found.system.engines]
    columns = [
        Column("layer", "layer", fold=True),
        Column("operation", "operation", left=True),
        Column(
            "engine", lambda row: ", ".join(n if len(row["runs"]) == 1 else f"{n} x{k}" for n, k in row["runs"].items())
        ),
        Column("energy", "energy_pj", energy),
        Column("time", "seconds", lambda seconds: format_si(seconds, "s", 4)),
    ]
    columns += [Column(f"on {name}", partial(_elsewhere, name, found.objective), wide=True) for name in names]
    yield Table("layers", columns, rows, below=[["total", "", "", energy(found.energy_pj), ""]])
    yield from _shares(rows, "operation")
    yield from _shares(rows, "engine")
    busy = ", ".join(f"{name} {format_si(seconds, 's', 4)}" for name, seconds in found.busy_s().items())
    yield f"\nBusy in a run: {busy}"
    yield from system_verdict(found)
    yield dim("'on' columns: one run of the layer on that engine.")


def system_verdict(found: SystemResult) -> Iterator[Piece]:
    """What a run costs, what crosses, and what is proved."""
    value = found.assignment.value
    time = {"latency": f"; a run takes {format_si(value, 's', 4)}"}.get(found.objective, "")
    if found.objective == "throughput":
        time = f"; {1 / value:,.4g} runs a second, {format_si(value, 's', 4)} between two"
    crossing = f"; {format_bits(int(found.crossing_bits))} between engines" if found.crossing_bits else ""
    yield f"{energy(found.energy_pj)} a run{time}{crossing}"
    if found.proved:
        yield bold("optimal (proved): no other assignment, with any even mappings, is better")
    else:
        yield bold(f"within {gap_text(found.gap)} of the best assignment with any even mappings")


def _elsewhere(engine: str, objective: str, row: Row) -> str:
    cost = row["of_one_run"][engine]
    if cost is None:
        return "-"
    return energy(cost["energy_pj"]) if objective == "energy" else format_si(cost["seconds"], "s", 4)


def _shares(rows: Sequence[Row], of: str) -> Iterator[Piece]:
    """Energy and busy time by operation or engine."""
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        for engine, runs in row["runs"].items():
            name, cost = row["operation"] if of == "operation" else engine, row["of_one_run"][engine]
            one = sums.setdefault(name, {of: name, "energy_pj": 0.0, "seconds": 0.0})
            one["energy_pj"] += runs * cost["energy_pj"]
            one["seconds"] += runs * cost["seconds"]
    pj, seconds = (sum(one[key] for one in sums.values()) for key in ("energy_pj", "seconds"))
    columns = (
        Column(of, of),
        Column("energy", "energy_pj", energy),
        Column("share", lambda row: row["energy_pj"] / pj if pj else None, share),
        Column("time", "seconds", lambda value: format_si(value, "s", 4)),
        Column("share", lambda row: row["seconds"] / seconds if seconds else None, share),
    )
    yield Table(f"by_{of}", columns, list(sums.values()), f"By {of}")
