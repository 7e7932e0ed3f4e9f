"""Figures of mappings: energy by component and tensor, reuse, cycles; layers of a network, and fused groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from accelsim.inputs.units import ratio
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.result import Result
from accelsim.show import plots as style
from accelsim.show.plots import DARK, PALE, drawing, frame_only, letters_beside, put_title, short_ticks, tick, width_in
from accelsim.show.report import OTHER_COLOUR, energy, percent, tensor_colours, times
from accelsim.show.report.mapping import energy_scale

if TYPE_CHECKING:
    from accelsim.fusion.result import FusedNetwork, Segment

_LEGEND = (
    ("obtained", "in time", "in time"),
    ("obtained", "multicast", "multicast, spatial reduction"),
    ("repeated", "", "not obtained"),
)
_OTHER = "other (compute, leakage)"
_PERCENT = 8
"""Letters of the share beside a bar, at most."""


def energy_table(result: Result) -> list[dict[str, Any]]:
    """Rows of `plot_energy`: energy [pJ] and [pJ/MAC] by component, outermost first, and tensor (none: all else)."""
    return [dict(row) for row in result.energy_by_tensor_rows()]


def plot_energy(result: Result, ax: Axes | None = None) -> Axes:
    """Draw the energy of one mapping [pJ/MAC] as a bar for each component, outermost first, stacked by tensor."""
    with style.drawing(ax) as ax:
        rows = energy_table(result)
        components = list(dict.fromkeys(row["component"] for row in rows))
        for label, colour, begin, length in _stacks(rows, components, result_colours(result)):
            if any(length):
                ax.bar(range(len(components)), length, 0.7, begin, color=colour, label=label)
        shares = _shares(rows, components)
        for index, (top, share) in enumerate(shares):
            ax.annotate(share, (index, top), (0, 2), textcoords="offset points", ha="center", fontsize="small")
        names = [component.replace(" network", "\nnetwork") for component in components]
        crowded = max(map(len, "\n".join(names).split("\n"))) * len(names) > 14 * style.width_in(ax)
        ax.set_xticks(range(len(names)), names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
        ax.grid(axis="x", visible=False)
        ax.set_ylim(0, 1.08 * max((top for top, _ in shares), default=1.0))
        ax.set_xlabel(style.wrapped(ax, "component, outermost first; above each bar its share of the energy"))
        ax.set_ylabel("energy [pJ/MAC]")
        style.put_title(ax, f"{result.workload} on {result.architecture}: {result.pj_per_mac:.4g} pJ/MAC", legend=True)
    return ax


def result_colours(result: Result) -> dict[str, str]:
    """Colour of each tensor of a result."""
    tensors = list(dict.fromkeys(network.tensor for network in result.networks))
    output = next((network.tensor for network in result.networks if network.distinct_up), "")
    return tensor_colours(tensors, output)


def _stacks(
    rows: Sequence[Mapping[str, Any]], components: Sequence[str], colours: Mapping[str, str]
) -> Iterator[tuple[str, str, list[float], list[float]]]:
    """Bars by tensor, each on top of those of the tensors before it; last what belongs to none.

    Label and colour, and for each component where its bar begins and how long it is [pJ/MAC].
    """
    values = {(row["component"], row["tensor"]): row["pj_per_mac"] for row in rows}
    begin = [0.0] * len(components)
    for tensor, colour in {**colours, "": OTHER_COLOUR}.items():
        length = [values.get((component, tensor), 0.0) for component in components]
        yield tensor or _OTHER, colour, begin, length
        begin = [a + b for a, b in zip(begin, length, strict=True)]


def _shares(rows: Sequence[Mapping[str, Any]], components: Sequence[str]) -> list[tuple[float, str]]:
    """For each component its energy [pJ/MAC], and its share in words."""
    found = []
    for component in components:
        own = [row for row in rows if row["component"] == component]
        found.append((sum(row["pj_per_mac"] for row in own), percent(sum(row["share"] for row in own)) if own else ""))
    return found


def stacks_table(results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """Rows of `plot_stacks`: those of `energy_table` for each mapping, under its name."""
    return [{"mapping": name, **row} for name, result in results.items() for row in energy_table(result)]


def plot_stacks(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Draw the energy of several mappings [pJ/MAC] beside each other, by component and tensor, each on its own scale.

    They have names, such as `best`, `median` and `worst`, and are on machines with the same levels. Factors are against
    the first. The axes have one inset axes for each mapping (`ax.child_axes`).
    """
    with style.drawing(ax, 2.8) as ax:
        rows, first = stacks_table(results), next(iter(results.values()))
        drawn = {row["component"] for row in rows}
        order = [name for level in first.levels for name in (level.level, f"{level.level} network")] + [first.compute]
        components = [name for name in order if name in drawn]
        colours = result_colours(first)
        style.frame_only(ax)
        gap = 0.06
        wide = (1 - gap * (len(results) - 1)) / len(results)
        letters = wide * style.letters_over(ax, 0.83 * style.points("font.size"))
        for number, (name, result) in enumerate(results.items()):
            inset = ax.inset_axes((number * (wide + gap), 0, wide, 1))
            own = [row for row in rows if row["mapping"] == name]
            for _, colour, begin, length in _stacks(own, components, colours):
                inset.barh(range(len(components)), length, 0.7, begin, color=colour)
            shares = _shares(own, components)
            for index, (top, share) in enumerate(shares):
                inset.annotate(share, (top, index), (2, 0), textcoords="offset points", va="center", fontsize="small")
            most = max((top for top, _ in shares), default=1.0)
            inset.set_xlim(0, most / (1 - min(0.6, _PERCENT / letters)))
            style.even_ticks(inset.xaxis, 3)
            style.rows_down(inset, components if number == 0 else [""] * len(components))
            factor = "" if result is first else f" ({times(result.pj_per_mac / first.pj_per_mac)})"
            inset.tick_params(labelsize="small")
            inset.set_title(f"{name}\n{result.pj_per_mac:.4g}{factor}", fontsize="medium")
        for label, colour, _, _ in _stacks(rows, components, colours):
            ax.bar([0], [0], color=colour, label=label)
        ax.set_xlabel(style.wrapped(ax, "energy [pJ/MAC], each mapping on its own scale"), labelpad=20)
        style.put_title(ax, f"{first.workload} on {first.architecture}", legend=True, above=26)
    return ax


def reuse_table(result: Result, einsum: Einsum) -> list[dict[str, Any]]:
    """Rows of `plot_reuse`: factors of reuse of each tensor.

    With MACs those that the mapping does (padding included):

    `offered`
        What the layer offers: MACs / words of the tensor. Each dimension that the tensor does not have gives its bound,
        and a rank that several dimensions slide over gives the product of their bounds / extent of the rank.
    `obtained`
        What the mapping gets, from the compute units outwards. At a level that keeps the tensor, `in time`: words read
        for the level below / words filled; for the output updates / words that leave towards the level above. On a
        network, `multicast`: words that all children take / words read for them; for the output `spatial reduction`:
        partial sums of all children / those that arrive.
    `repeated`
        How often a word of the tensor is read at the outermost level, for the output updated there, on average: what
        the mapping leaves of the reuse on offer. Below 1 where strides leave words out.

    So for each tensor the product of `obtained` is MACs / words read (updated) at the outermost level, and that of
    `obtained` and `repeated` is the product of `offered`: MACs / words of the tensor.

    Columns: `tensor`, `part` (offered, obtained, repeated), `where` (dimensions or component), `kind`, `factor`.
    """
    rows = []
    for tensor in einsum.tensors:
        factors = [("offered", where, "", factor) for where, factor in _offered(tensor, result.bounds)]
        factors += [("obtained", *found) for found in _obtained(result, tensor)]
        outermost = next(t for t in result.tensors if t.tensor == tensor.name)
        moved = outermost.total_updates if tensor.output else outermost.total_reads
        factors.append(("repeated", result.levels[0].level, "", moved / tensor.words(result.bounds)))
        rows += [
            {"tensor": tensor.name, "part": part, "where": where, "kind": kind, "factor": factor}
            for part, where, kind, factor in factors
        ]
    return rows


def _offered(tensor: Tensor, bounds: Mapping[str, int]) -> list[tuple[str, float]]:
    """Reuse by the dimensions that give it; those of bound 1 give none."""
    found = [(dim, float(bound)) for dim, bound in bounds.items() if dim not in tensor.dims]
    for rank, extent in zip(tensor.ranks, tensor.box(bounds), strict=True):
        found.append(("+".join(dim for dim, _ in rank), math.prod(bounds[dim] for dim, _ in rank) / extent))
    return [(where, factor) for where, factor in found if factor != 1]


def _obtained(result: Result, tensor: Tensor) -> list[tuple[str, str, float]]:
    """Component, kind and factor of the reuse that a mapping gets, from the compute units outwards."""
    kept = {t.level: t for t in result.tensors if t.tensor == tensor.name}
    networks = {n.level: n for n in result.networks if n.tensor == tensor.name}
    names = [level.level for level in result.levels]
    found = []
    for above, name in zip([None, *names], names, strict=False):
        if above is not None and name in kept:
            passed = networks[above].total_transfers
            t = kept[name]  # words in and out of all instances: of an output its fills, and the words that leave it
            in_time = t.total_updates / (passed - t.total_fills) if tensor.output else t.total_reads / t.total_fills
            found.append((name, "in time", in_time))
        network = networks[name]
        factor, kind = network.multicast, "multicast"
        if tensor.output:
            factor, kind = network.spatial_reduction, "spatial reduction"
        if network.children > 1:
            found.append((f"{name} network", kind, factor))
    return found[::-1]


def plot_reuse(result: Result, einsum: Einsum, ax: Axes | None = None) -> Axes:
    """Draw for each tensor the reuse that a layer offers, and what a mapping gets of it at each level.

    Factors multiply, so they stand one after the other on a logarithmic axis: in the upper bar the dimensions that
    offer reuse, in the lower one the levels and networks that get it (`reuse_table` says how), and dotted what is not
    obtained: how often the outermost level moves each word.
    """
    with style.drawing(ax, 1.2 + 0.8 * len(einsum.tensors)) as ax:
        rows, colours = reuse_table(result, einsum), result_colours(result)
        bars = [
            (place + shift, tensor.name, [row for row in rows if row["tensor"] == tensor.name and row["part"] in parts])
            for place, tensor in enumerate(einsum.tensors)
            for shift, parts in ((-0.2, ("offered",)), (0.2, ("obtained", "repeated")))
        ]
        most = max(
            10.0, *(max(itertools.accumulate((row["factor"] for row in own), mul), default=1) for *_, own in bars)
        )
        ax.set_xscale("log")
        for at, tensor_name, own in bars:
            _draw_factors(
                own, at, colours[tensor_name], style.letters_beside(ax, "legend.fontsize") / math.log(most), ax
            )
        ax.set_xlim(1, most * 1.02)
        ax.set_ylim(len(einsum.tensors) - 0.5, -0.5)
        words = [f"{name} offered" if number % 2 == 0 else "obtained" for number, (_, name, _) in enumerate(bars)]
        ax.set_yticks([at for at, *_ in bars], words)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        style.plain_log_ticks(ax.xaxis, 1, most)
        ax.set_xlabel("reuse [MACs/word], innermost level first")
        for part, kind, label in _LEGEND:
            ax.barh([-9], [0], label=label, **_look(part, kind, OTHER_COLOUR))
        style.put_title(ax, f"{result.workload} on {result.architecture}: {result.pj_per_mac:.4g} pJ/MAC", legend=True)
    return ax


def _look(part: str, kind: str, colour: str) -> dict[str, Any]:
    """How a factor is drawn: strong in time and where it is offered, pale across space, empty where it is not had."""
    if part == "repeated":
        return {"facecolor": "white", "edgecolor": DARK, "linestyle": ":", "linewidth": 0.8}
    strength = 0.3 if kind in ("multicast", "spatial reduction") else 0.7
    return {"facecolor": to_rgba(colour, strength), "edgecolor": "white", "linewidth": 0.8}


def _draw_factors(rows: Sequence[Mapping[str, Any]], at: float, colour: str, letters: float, ax: Axes) -> None:
    """Draw factors one after the other, and name those that have room: so many letters for a factor of e."""
    begin = 1.0
    for row in rows:
        end = begin * row["factor"]
        ax.barh(at, end - begin, 0.38, begin, **_look(row["part"], row["kind"], colour))
        factor = times(row["factor"])
        names = (f"{row['where'].removesuffix(' network')} {factor}", factor)
        room = letters * math.log(max(row["factor"], 1))
        name = next((name for name in names if len(name) < room), "")
        ax.text(math.sqrt(begin * end), at, name, ha="center", va="center", fontsize="small")
        begin = end


_PARTS = {
    "computing": DARK,
    "ports": "#F0E442",
    "first fill": "#0072B2",
    "fills": "#56B4E9",
    "issue": "#E69F00",
    "drains": "#009E73",
    "partial sums": "#CC79A7",
    "last drain": "#66C2A5",
}
_PIPELINE_COLOUR = "#999999"


def time_table(result: Result) -> list[dict[str, Any]]:
    """Rows of `plot_time`: cycles by component and what for."""
    return [{name: row[name] for name in ("component", "what", "cycles")} for row in result.time_rows()]


def plot_time(result: Result, ax: Axes | None = None) -> Axes:
    """Draw where the cycles of a mapping go, one part after the other: a lane of bars for each component."""
    with style.drawing(ax, 2.6) as ax:
        rows = result.time_rows()
        lanes = list(dict.fromkeys(row["component"] for row in rows))
        ends = itertools.accumulate(row["cycles"] for row in rows)
        for row, end in zip(rows, ends, strict=True):
            lane, colour = lanes.index(row["component"]), _PARTS.get(row["what"], _PIPELINE_COLOUR)
            ax.barh(lane, row["cycles"], 0.7, end - row["cycles"], color=colour, edgecolor="white", linewidth=0.5)
            if row["share"] > 0.06:
                at, ink = (end - row["cycles"] / 2, lane), PALE if colour == DARK else "black"
                ax.annotate(percent(row["share"]), at, ha="center", va="center", fontsize="small", color=ink)
        style.rows_down(ax, lanes)
        ax.set_xlim(0, sum(row["cycles"] for row in rows))
        style.even_ticks(ax.xaxis)
        style.short_ticks(ax.xaxis)
        ax.set_xlabel(style.wrapped(ax, "cycles, one part after the other, and shares"))
        for what in dict.fromkeys(row["what"] if row["what"] in _PARTS else "pipeline fill" for row in rows):
            ax.bar([0], [math.nan], color=_PARTS.get(what, _PIPELINE_COLOUR), label=what, edgecolor=DARK, linewidth=0.3)
        title = f"{result.workload} on {result.architecture}: {result.cycles:,} cycles"
        style.put_title(ax, title, legend=True)
    return ax


_COLOURS = ("#56B4E9", "#CC79A7", "#F0E442", "#D55E00", "#000000", "#777777")
"""Of storage levels and their networks, outermost first: Okabe-Ito without the colours of tensors."""
_COMPUTE = "#BBBBBB"
_MOST = 8
"""Groups that are drawn, those that save most."""
_WIDTH, _PAIRED = 0.8, 0.38
_SIDES = {False: -0.5 * (_PAIRED + 0.04), True: 0.5 * (_PAIRED + 0.04)}
"""Where the bar of a group stands: unfused to the left, fused to the right."""


def network_table(results: Sequence[tuple[int, Result]]) -> list[dict[str, Any]]:
    """Rows of `plot_network`: for each layer and component energy [pJ] and cycles, all runs of the layer together.

    `bottleneck` marks the component whose cycles are those of the layer; a network between levels takes none.
    """
    rows = []
    for repeat, result in results:
        cycles = {row["component"]: row for row in result.cycle_rows()}
        spent = _spent([(1, result)])
        rows += [
            {
                "layer": result.workload, "component": component, "energy_pj": repeat * spent.get(component, 0.0),
                "cycles": repeat * cycles[component]["cycles"] if component in cycles else 0,
                "bottleneck": component in cycles and cycles[component]["bottleneck"],
            }
            for component in dict.fromkeys([*spent, *cycles])
        ]  # fmt: skip
    return rows


def _spent(results: Iterable[tuple[int, Result]]) -> dict[str, float]:
    """Energy [pJ] of each component in results, each as often as it is run."""
    found: dict[str, float] = {}
    for count, result in results:
        for row in result.energy_rows():
            found[row["component"]] = found.get(row["component"], 0.0) + count * row["energy_pj"]
    return found


def plot_network(network: str, machine: str, results: Sequence[tuple[int, Result]], ax: Axes | None = None) -> Axes:
    """Draw energy and cycles of each layer of a network, as often as it occurs: of `results`, with this number.

    The energy is stacked by level, outermost first; a bar of cycles has the colour of the component that needs them.
    The axes have one inset axes for the energy and one for the cycles (`ax.child_axes`).
    """
    with drawing(ax, 4.8) as ax:
        rows = network_table(results)
        layers = [result.workload for _, result in results]
        drawn = {row["component"] for row in rows if row["energy_pj"] or row["bottleneck"]}
        above, below, colours = _panels(ax, 0.47, 0.47, results[0][1], drawn)
        spent = [{row["component"]: row["energy_pj"] for row in rows if row["layer"] == layer} for layer in layers]
        _draw_energy(above, {0.0: spent}, _WIDTH, colours)
        slowest = {row["layer"]: row for row in rows if row["bottleneck"]}
        heights = [slowest[layer]["cycles"] for layer in layers]
        limiting = [colours[slowest[layer]["component"]] for layer in layers]
        below.bar(range(len(layers)), heights, _WIDTH, color=limiting)
        below.set_ylabel("cycles")
        short_ticks(below.yaxis)
        step = max(1, round(len(layers) * 2.4 / letters_beside(below, "xtick.labelsize") + 0.49))
        longest = 22 if width_in(below) > 4 else 14
        short = [name if len(name) <= longest else name[: longest - 1] + "…" for name in layers]
        _frame_bars(below, short, step, rotation=90)
        total_pj = sum(row["energy_pj"] for row in rows)
        cycles = sum(row["cycles"] for row in rows if row["bottleneck"])
        put_title(ax, f"{network} on {machine}", energy(total_pj), f"{tick(cycles)} cycles", legend=True)
    return ax


def _panels(ax: Axes, above: float, below: float, result: Result, drawn: set[str]) -> tuple[Axes, Axes, dict[str, str]]:
    """Two axes, one above the other, with these shares of the height, and the colour of each component drawn.

    `ax` itself shows title and legend only.
    """
    frame_only(ax)
    order = [name for level in result.levels for name in (level.level, f"{level.level} network")]
    names = [name for name in order if name in drawn]
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    for component, colour in colours.items():
        ax.bar([0], [0], color=colour, label=component)
    ax.bar([0], [0], color=_COMPUTE, label=f"{result.compute} (compute)")
    panels = ax.inset_axes((0, 1 - above, 1, above)), ax.inset_axes((0, 0, 1, below))
    return *panels, {**colours, result.compute: _COMPUTE}


def _draw_energy(
    ax: Axes, spent: Mapping[float, Sequence[Mapping[str, float]]], width: float, colours: Mapping[str, str]
) -> None:
    """Draw stacked bars of energy [pJ by component]: by how far they stand beside 0, 1, 2 …, those of each place."""
    scale, unit = energy_scale(max((sum(bar.values()) for bars in spent.values() for bar in bars), default=0.0))
    for shift, bars in spent.items():
        begin = [0.0] * len(bars)
        for component, colour in colours.items():
            heights = [bar.get(component, 0.0) / scale for bar in bars]
            ax.bar([at + shift for at in range(len(bars))], heights, width, begin, color=colour)
            begin = [a + b for a, b in zip(begin, heights, strict=True)]
    ax.set_ylabel(f"energy [{unit}]")
    _frame_bars(ax, [""] * len(bars))


def _frame_bars(ax: Axes, names: Sequence[str], step: int = 1, most: int = 5, rotation: float = 0) -> None:
    """Give bars at 0, 1, 2 … room at both ends, every so many a name, and no lines between them."""
    style.even_ticks(ax.yaxis, most)
    ax.set_xticks(range(0, len(names), step), names[::step], rotation=rotation)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.grid(axis="x", visible=False)


def fusion_table(found: FusedNetwork) -> list[dict[str, Any]]:
    """Rows of `plot_fusion`: energy [pJ] of each group by component, fused and not, off-chip words; all runs."""
    return [
        {
            "group": " …\n".join(dict.fromkeys((segment.layers[0].name, segment.layers[-1].name))), "fused": fused,
            "component": component, "energy_pj": segment.repeat * energy_pj,
            "offchip_words": segment.repeat * (segment.totals if fused else segment.unfused).offchip_words,
        }
        for segment in drawn_segments(found)
        for fused in (False, True)
        for component, energy_pj in _spent(_results(segment, fused=fused)).items()
    ]  # fmt: skip


def drawn_segments(found: FusedNetwork) -> list[Segment]:
    """The fused groups that save most energy or cycles; where none is fused, all segments."""
    if not found.fused:
        return list(found.segments)[:_MOST]
    most = sorted(found.fused, key=lambda s: s.repeat * (s.totals.energy_pj - s.unfused.energy_pj))[:_MOST]
    return [segment for segment in found.fused if segment in most]


def _results(segment: Segment, *, fused: bool) -> list[tuple[int, Result]]:
    if fused and segment.fused is not None:
        return [(part.count, part.result) for part in segment.fused.parts]
    return [(1, result) for result in segment.alone]


def plot_fusion(found: FusedNetwork, ax: Axes | None = None) -> Axes:
    """Draw each fused group beside its layers by themselves: energy stacked by level, and words at the outermost level.

    The axes have one inset axes for the energy and one for the words (`ax.child_axes`).
    """
    with drawing(ax, 4.8) as ax:
        rows = fusion_table(found)
        groups = list(dict.fromkeys(row["group"] for row in rows))
        drawn = {row["component"] for row in rows if row["energy_pj"]}
        above, below, colours = _panels(ax, 0.53, 0.4, found.segments[0].alone[0], drawn)
        spent: dict[float, list[dict[str, float]]] = {shift: [{} for _ in groups] for shift in _SIDES.values()}
        for row in rows:
            spent[_SIDES[row["fused"]]][groups.index(row["group"])][row["component"]] = row["energy_pj"]
        _draw_energy(above, spent, _PAIRED, colours)
        words = {(row["group"], row["fused"]): row["offchip_words"] for row in rows}
        for fused, shift in _SIDES.items():
            heights = [words.get((group, fused), 0) for group in groups]  # a group that takes no energy has no rows
            places = [at + shift for at in range(len(groups))]
            below.bar(places, heights, _PAIRED, color="#777777" if fused else "#CCCCCC")
        below.set_ylabel("off-chip words")
        short_ticks(below.yaxis)
        _frame_bars(below, groups, most=4, rotation=0 if len(groups) <= 4 else 90)
        gain = ratio(found.unfused.energy_pj, found.totals.energy_pj)
        what = f"left unfused, right fused; gain in energy {times(gain)} in all"
        left_out = len(found.fused) - len(drawn_segments(found)) if found.fused else 0
        chosen = [f"{len(groups)} of {len(found.fused)} groups drawn: those that save most"] if left_out else []
        put_title(ax, f"{found.workload} on {found.architecture}", what, *chosen, legend=True)
    return ax
