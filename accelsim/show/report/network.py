"""The report on a network: a row for each layer, totals, and the layers that have most to gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from accelsim.designs.soc import Assigned, layer_rows
from accelsim.fusion.result import FusedNetwork, Segment, sum_totals
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import format_bits, format_si, listed, ratio
from accelsim.inputs.workload import OPERATIONS, Einsum
from accelsim.results.network import LayerOutcome, alike_layers, network_totals, rows_of_layers
from accelsim.results.network import layer_rows as shares_of_layers
from accelsim.search.result import SearchedSpace
from accelsim.show.report import count, energy, gap_text, objective_value, percent, share, times, verdicts
from accelsim.show.report.headline import left_out_line, other_operations, wider_operands, widths_line
from accelsim.show.report.loop_tree import loop_tree_table, tree_lines
from accelsim.show.report.mapping import nest_line
from accelsim.show.report.verdicts import above, common_space, known, mappings_of, proved, question, widest_proved
from accelsim.show.table import Column, Piece, Row, Table, Tree, bold, dim, heading

_FIRST, _LEAST = 5, 0.0005
"""Layers that are named as the first to look at, each with at least so much of the total above its limit."""


def _gap(row: Row) -> str:
    """Cell of the column `gap`; the total has none."""
    if "proved" not in row or row["energy_pj"] is None:
        return ""
    return "-" if row["proved"] is None else "proved" if row["proved"] else gap_text(row["gap"])


_COLUMNS = (
    Column("\nlayer", "layer", fold=True), Column("\ncount", "repeat"), Column("\nMACs", "macs", count, wide=True),
    Column("\nenergy", lambda row: "none valid" if row["energy_pj"] is None else energy(row["energy_pj"])),
    Column("\n%", "energy_share", share), Column("\npJ/MAC", "pj_per_mac", "{:.4g}".format),
    Column("\ncycles", "cycles", count), Column("\n%", "cycles_share", share),
    Column("\nutil.", "utilization", percent), Column("bottle-\nneck", "bottleneck", left=True), Column("\ngap", _gap),
)  # fmt: skip


def network_line(network: str, machine: Architecture, outcomes: Sequence[LayerOutcome]) -> str:
    """A mapped network in a line."""
    totals = network_totals(outcomes)
    seconds = totals["run_time_s"]
    time = f"{totals['cycles']:,} cycles" if seconds is None else format_si(seconds, "s", 4)
    verdict = _total_verdict(outcomes, totals["certificate"])
    return f"{network} on {machine.name}: {energy(totals['energy_pj'])}, {time}, {verdict}"


def network_headline(network: str, machine: Architecture, outcomes: Sequence[LayerOutcome]) -> Iterator[Piece]:
    """What is proved of a mapped network, and its totals."""
    searches = [o.search for o in outcomes if o.search is not None]
    totals = network_totals(outcomes)
    asked = f", {question(searches[0].objective, searches[0].space)}" if searches else ""
    yield bold(f"{network} on {machine.name}{asked}: {_total_verdict(outcomes, totals['certificate'])}")
    if totals["macs"]:
        yield f"total: {energy(totals['energy_pj'])}, {totals['cycles']:,} cycles"


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
    searches = [o.search for o in outcomes if o.search is not None]
    yield next(network_headline(network, machine, outcomes))
    yield ""
    total = {**totals, "layer": "total", "repeat": totals["layers"], "energy_share": 1, "cycles_share": 1}
    yield Table("layers", _COLUMNS, rows, below=[total] if totals["macs"] else [])
    yield from _total_lines(totals)
    layers = [outcome.einsum for outcome in outcomes]
    yield from [widths_line(layers)] if layers else []
    yield from wider_operands(machine, layers)
    yield from [left_out_line(left_out)] if left_out else []
    yield from _other_operations(outcomes, totals)
    more = "; +n: n more layers that are alike" if len(rows) < len(outcomes) else ""
    yield dim(f"Rows are per run of a layer; % and total include the count{more}.")
    if searches:
        yield dim(f"gap: above the lower bound of {common_space([search.space for search in searches])}; -: unknown")
    for outcome in outcomes:
        if outcome.search is None:
            yield bold(f"{outcome.einsum.name}: not mapped, and not in the total")
    yield from _zeros(rows, totals)
    cycles = bool(searches) and searches[0].objective == "cycles"
    yield from _first(alike_layers(outcomes), "cycles" if cycles else "energy")


def _other_operations(outcomes: Sequence[LayerOutcome], totals: Mapping[str, Any]) -> Iterator[str]:
    """What layers of other operations than multiply-accumulates have of the total."""
    found = [(o.einsum, o.search.best) for o in outcomes if o.search and o.einsum.operation != OPERATIONS[0]]
    if not found:
        return
    sums = {name: sum(e.repeat * getattr(best, name) for e, best in found) for name in ("cycles", "energy_pj")}
    cycles, pj = (share(ratio(value, totals[name])) for name, value in sums.items())
    of_all = f"{cycles} of the cycles and {pj} of the energy"
    yield f"{other_operations([einsum for einsum, _ in found])}: {of_all}; each point counts as a MAC"


def _zeros(rows: Sequence[Row], totals: Mapping[str, Any]) -> Iterator[Piece]:
    """Each layer dense and with zeros left out side by side, on a machine that does something about them."""
    if "sparse_energy_pj" not in totals:
        return
    shown = [row for row in rows if "sparse_energy_pj" in row]
    total = {**totals, "layer": "total", "repeat": totals["layers"]}
    total["effective"] = totals["effective_macs"] / totals["macs"]

    def both(what: str, key: str, form: Callable[[Any], str]) -> Iterator[Column]:
        yield Column(f"dense\n{what}", key, form)
        yield Column(f"sparse\n{what}", f"sparse_{key}", form)
        yield Column("\nshare", lambda row: share(row[f"sparse_{key}"] / row[key]))

    def gap(row: Row) -> str:
        return "proved" if row["sparse_proved"] else gap_text(row["sparse_gap"]) if row.get("sparse_gap") else "-"

    columns = (
        *(Column("\nlayer", "layer", fold=True), Column("\ncount", "repeat")),
        *both("energy", "energy_pj", energy),
        *both("cycles", "cycles", count),
        *(Column("effective\nMACs", "effective", share), Column("\ngap", gap)),
    )
    yield heading("Sparsity", "the best mapping of each layer with and without it")
    yield Table("zeros", columns, shown, below=[total])
    proved = sum(row["sparse_proved"] for row in shown)
    yield bold(f"{proved} of {len(shown)} rows optimal (proved) among even mappings whose tiles fit uncompressed")


def _total_lines(totals: Mapping[str, Any]) -> list[str]:
    """Totals beside those of the table: words at the outermost level, time and rate."""
    if not totals["macs"]:
        return []
    moved = f"{format_si(totals['offchip_bytes'], 'B', 4)} ({count(totals['offchip_words'])} words)"
    lines = [f"{count(totals['macs'])} MACs; off-chip {moved}"]
    if totals["run_time_s"] is not None:
        lines.append(f"{format_si(totals['run_time_s'], 's', 4)} a run")
    if totals["yields_per_s"] is not None:
        rate = f"{totals['yields_per_s']:{',.0f' if totals['yields_per_s'] >= 1000 else '.4g'}}"
        lines.append(f"{rate} {totals['yields']} a second")
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
        yield f"\nAll layers are near the lower bound of the architecture: headroom {share(rest)} of the {what}"
        return

    def factor(row: Row) -> str:
        return times(ratio(row[f"{what}_share"], max(0.0, row[f"{what}_share"] - row[key])))

    columns = (
        Column("layer", "layer", fold=True), Column(f"% of {what}", f"{what}_share", share),
        Column("x lower bound", factor), Column("headroom [% of total]", key, share),
    )  # fmt: skip
    yield Table("first", columns, first, "Where a better architecture helps most", f"{what} above the lower bound")
    yield dim(f"headroom of all layers: {share(rest)} of the {what}")


def _total_verdict(outcomes: Sequence[LayerOutcome], total: Mapping[str, Any] | None) -> str:
    """What is proved of all mapped layers together."""
    searches = [o.search for o in outcomes if o.search is not None]
    if not searches:
        return "no layer is mapped"
    optimal = sum(search.proof is not None and search.proof.proved for search in searches)
    many = f"{optimal} of {len(searches)} layers"
    if optimal == len(searches):
        return f"{many} {proved(common_space([search.space for search in searches]))}"
    gap = above(None if total is None else total["gap"])
    sure = [part.space for part in map(widest_proved, searches) if part is not None]
    more = f", {len(sure)} among {mappings_of(common_space(sure))}" if len(sure) > optimal else ""
    return f"{many} optimal (proved){more}; {'total ' if 'above' in gap else ''}{gap}"


_MOST_APART = 6


def fusion_report(found: FusedNetwork) -> Iterator[Piece]:
    """Which layers to fuse and what that gains, and below it each fused loop nest."""
    yield from brief(found)
    yield from map(dim, _notes(found))
    for segment in found.fused:
        yield from _group(segment)


def fusion_line(found: FusedNetwork) -> str:
    """Fused layers and their gain, in a line."""
    gain = times(ratio(found.unfused.energy_pj, found.totals.energy_pj))
    names = [", ".join(layer.name for layer in segment.layers) for segment in found.fused if len(segment.layers) > 1]
    fused = [f"fusing {names[0]}" if len(names) == 1 else f"{len(names)} fused groups"] if names else []
    if several := len(found.fused) - len(names):
        fused.append(f"whole tensors on chip at {several} layer{'s' * (several > 1)}")
    said = f"{', '.join(fused)}, {gain} less energy" if fused else "nothing fused"
    return f"{found.workload} on {found.architecture}: {said}"


def brief(found: FusedNetwork) -> Iterator[Piece]:
    """Which layers to fuse, what that gains, and what is proved."""
    yield bold(fusion_line(found))
    yield from _gains(found)
    yield bold(_verdict(found))


def _sides(head: str, key: str, form: Callable[[Any], str]) -> Column:
    """Column of a cost as it is now, of the layers alone below it, and of what the one is of the other."""

    def cell(row: Row) -> str:
        now, alone = form(row["fused"][key]), row.get("unfused")
        return f"{now}\n{form(alone[key])}\n{times(ratio(alone[key], row['fused'][key]))}" if alone else now

    return Column(head, cell)


_FUSION_COLUMNS = (
    Column("layers", lambda row: row["layers"] + (f" (+{row['alike']})" if row.get("alike") else ""), fold=True),
    Column("count", "repeat"),
    Column("", lambda row: f"{row['how']}\nalone\ngain" if "unfused" in row else "", left=True),
    _sides("energy", "energy_pj", energy), _sides("cycles", "cycles", count),
    _sides("off-chip words", "offchip_words", count),
    Column("recomputed MACs", lambda row: _recomputed(row) if "unfused" in row else ""),
)  # fmt: skip


def _gains(found: FusedNetwork) -> Iterator[Piece]:
    """Three lines for each fused group, each layer with whole tensors on chip and the total; one for other layers."""
    rows: list[Row] = [
        {
            "layers": " + ".join(layer.name for layer in segment.layers), "alike": len(segment.alike),
            "repeat": segment.repeat, "fused": asdict(segment.totals), "unfused": asdict(segment.unfused),
        }
        for segment in found.fused
    ]  # fmt: skip
    total = {"layers": "total", "fused": asdict(found.totals)} | ({"unfused": asdict(found.unfused)} if rows else {})
    yield Table("totals", (), [{**total, "unfused": asdict(found.unfused)}], shown=[])
    how = ["fused" if len(segment.layers) > 1 else "on chip" for segment in found.fused]
    shown = [{**row, "how": its} for row, its in zip(rows, how, strict=True)]
    others = [segment for segment in found.segments if segment.fused is None]
    if others and rows:
        sums = sum_totals([(segment.repeat, segment.totals) for segment in others])
        runs = sum(segment.repeat for segment in others)
        shown.append({"layers": "other layers", "repeat": runs, "fused": asdict(sums)})
    best = {"how": "fused" if "fused" in how else "on chip"}
    yield Table("groups", _FUSION_COLUMNS, rows, shown=shown, below=[total | best])
    if rows:
        kept = "; on chip: whole tensors stay between layers" if "on chip" in how else ""
        yield dim(f"Rows are per run; totals include the count{kept}.")
    if any(segment.alike for segment in found.fused):
        yield dim("(+n): n more that are alike; the count includes them.")


def _recomputed(row: Row) -> str:
    again = row["fused"]["macs"] - row["unfused"]["macs"]
    return f"{count(again)}\n\n{percent(again / row['unfused']['macs'])}" if again else "none"


def _verdict(found: FusedNetwork) -> str:
    """Say what is proved about the total."""
    if found.why_not:
        return f"nothing is fused: {found.why_not}"
    groups = f"{found.groups} group{'' if found.groups == 1 else 's'}, {found.solved} layer tiles"
    proof, goal, product = found.certificate, Objective.parse(found.objective), ""
    if not goal.alone:  # it is no column of the table
        gain = ratio(goal.value(found.unfused.energy_pj, found.unfused.cycles), proof.value)
        product = f"{found.objective} {objective_value(found.objective, proof.value)}, {times(gain)} less; "
    space, even = common_space(found.spaces or [SearchedSpace()]), SearchedSpace()
    alone = f"; unfused layers: best found of {mappings_of(space)}" if space.uneven or space.imperfect else ""
    return f"{product}{known(proof.gap, even)}: {groups}{alone}"


def _notes(found: FusedNetwork) -> list[str]:
    """What a reader must know of what was looked at."""
    lines = []
    if found.inferred:
        lines.append(
            "The workload does not say what its layers read (`from`): neighbours whose shapes match are joined."
        )
    done = dict.fromkeys(layer.operation for segment in found.segments for layer in segment.layers)
    lines += [f"Layers of {operation} run on {unit}." for operation, unit in found.units.items() if operation in done]
    if others := [each for each in done if each not in {OPERATIONS[0], *found.units}]:
        lines.append(f"Each point of layers that do not multiply and add ({listed(others)}) counts as a MAC.")
    if found.longest:
        lines.append(f"Groups of at most {found.longest} layer{'' if found.longest == 1 else 's'} were searched.")
    lines += [f"{each.producer} and {each.consumer} are apart: {each.why}" for each in found.apart[:_MOST_APART]]
    if len(found.apart) > _MOST_APART:
        lines.append(f"… and {len(found.apart) - _MOST_APART} more pairs")
    return lines


def _group(segment: Segment) -> Iterator[Piece]:
    """The fused loop nest of a group, and below it the mappings of its parts."""
    if (found := segment.fused) is None:
        return
    name = found.group.name + (f" (+{len(segment.alike)})" if segment.alike else "")
    steps = f"{found.tiling.steps:,} step{'' if found.tiling.steps == 1 else 's'} at {found.tiling.level}"
    steps += f", as a pipeline: {found.pipeline.busiest} is busiest" if found.pipeline else ""
    yield heading(name, steps if len(segment.layers) > 1 else f"whole tensors in {found.tiling.level}")
    yield Tree("\n".join(tree_lines(found)))
    yield Table("loop_tree", (), loop_tree_table(found), shown=[])
    rows = [
        {
            "step": number, "layer": part.result.workload, "tiles": part.count, "energy_pj": part.result.energy_pj,
            "cycles": part.result.cycles, "bottleneck": part.result.bottleneck, "loop_nest": nest_line(part.result),
        }
        for number, part in enumerate(found.parts, 1)
    ]  # fmt: skip
    yield Table("parts", _PARTS, rows, "Layer tiles", "loop nest: level[stored tensors] and its loops, outermost first")


_PARTS = (
    Column("step", "step", left=False), Column("layer", "layer", left=True), Column("tiles", "tiles"),
    Column("energy", "energy_pj", energy), Column("cycles", "cycles", count),
    Column("bound by", "bottleneck", left=True), Column("loop nest", "loop_nest", fold=True),
)  # fmt: skip


def system_line(found: Assigned) -> str:
    """A network on a system, in a line."""
    return f"{found.workload.name} on {found.system.name}: {energy(found.energy_pj)}, {_of_assignment(found)}"


def _of_assignment(found: Assigned) -> str:
    space = common_space(found.spaces or [SearchedSpace()])
    wide = found.even_gap == 0.0 < found.gap
    return verdicts.partly(SearchedSpace(), space, found.gap) if wide else known(found.gap, space)


def system_report(found: Assigned) -> Iterator[Piece]:
    """Who runs each layer of a network, what each operation and core has of the total, and what is proved."""
    yield from system_verdict(found)
    yield ""
    rows, names = layer_rows(found), [core.name for core in found.system.cores]
    columns = [
        Column("layer", "layer", fold=True), Column("operation", "operation", left=True),
        Column(
            "core", lambda row: ", ".join(n if len(row["runs"]) == 1 else f"{n} x{k}" for n, k in row["runs"].items())
        ),
        Column("energy", "energy_pj", energy), Column("time", "seconds", lambda seconds: format_si(seconds, "s", 4)),
    ]  # fmt: skip
    columns += [Column(f"on {name}", partial(_elsewhere, name, found.objective), wide=True) for name in names]
    yield Table("layers", columns, rows, below=[["total", "", "", energy(found.energy_pj), ""]])
    yield from _shares(rows, "operation")
    yield from _shares(rows, "core")
    busy = ", ".join(f"{name} {format_si(seconds, 's', 4)}" for name, seconds in found.busy_s().items())
    yield f"\nBusy in a run: {busy}"
    yield dim("on: cost of one run of the layer on that core")


def system_verdict(found: Assigned) -> Iterator[Piece]:
    """What is proved, what a run costs, and what is transferred."""
    goal = {"energy": "lowest energy", "latency": "lowest latency", "throughput": "highest throughput"}[found.objective]
    yield bold(f"{found.workload.name} on {found.system.name}, {goal}: {_of_assignment(found)}")
    value = found.assignment.value
    time = {"latency": f"; a run takes {format_si(value, 's', 4)}"}.get(found.objective, "")
    if found.objective == "throughput":
        time = f"; {1 / value:,.4g} runs a second, {format_si(value, 's', 4)} between two"
    transfer = f"; inter-core transfer {format_bits(int(found.transfer_bits))}" if found.transfer_bits else ""
    yield f"{energy(found.energy_pj)} a run{time}{transfer}"


def _elsewhere(core: str, objective: str, row: Row) -> str:
    cost = row["of_one_run"][core]
    if cost is None:
        return "-"
    return energy(cost["energy_pj"]) if objective == "energy" else format_si(cost["seconds"], "s", 4)


def _shares(rows: Sequence[Row], of: str) -> Iterator[Piece]:
    """Energy and busy time by operation or core."""
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        for core, runs in row["runs"].items():
            name, cost = row["operation"] if of == "operation" else core, row["of_one_run"][core]
            one = sums.setdefault(name, {of: name, "energy_pj": 0.0, "seconds": 0.0})
            one["energy_pj"] += runs * cost["energy_pj"]
            one["seconds"] += runs * cost["seconds"]
    pj, seconds = (sum(one[key] for one in sums.values()) for key in ("energy_pj", "seconds"))
    columns = (
        Column(of, of), Column("energy", "energy_pj", energy),
        Column("share", lambda row: row["energy_pj"] / pj if pj else None, share),
        Column("time", "seconds", lambda value: format_si(value, "s", 4)),
        Column("share", lambda row: row["seconds"] / seconds if seconds else None, share),
    )  # fmt: skip
    yield Table(f"by_{of}", columns, list(sums.values()), f"By {of}")
