"""Figures of a network: energy and cycles of each layer, and of fused chains against their layers by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from accelsim.model.result import Result
from accelsim.show.plots import drawing, frame_only, letters_beside, put_title, short_ticks, tick, width_in
from accelsim.show.report import energy, energy_scale, times

if TYPE_CHECKING:
    from accelsim.fusion.result import FusionResult, Segment

_COLOURS = ("#56B4E9", "#CC79A7", "#F0E442", "#D55E00", "#000000", "#777777")
"""Of storage levels and their networks, outermost first: Okabe-Ito without the colours of tensors."""
_COMPUTE = "#BBBBBB"
_MOST = 8
"""Chains that are drawn, those that save most."""
_WIDTH, _PAIRED = 0.8, 0.38
_SIDES = {False: -0.5 * (_PAIRED + 0.04), True: 0.5 * (_PAIRED + 0.04)}
"""Where the bar of a chain stands: unfused to the left, fused to the right."""


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
                "layer": result.workload,
                "component": component,
                "energy_pj": repeat * spent.get(component, 0.0),
                "cycles": repeat * cycles[component]["cycles"] if component in cycles else 0,
                "bottleneck": component in cycles and cycles[component]["bottleneck"],
            }
            for component in dict.fromkeys([*spent, *cycles])
        ]
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
        _draw_cycles(below, rows, layers, colours)
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
    scale, unit = energy_scale(max(sum(bar.values()) for bars in spent.values() for bar in bars))
    for shift, bars in spent.items():
        begin = [0.0] * len(bars)
        for component, colour in colours.items():
            heights = [bar.get(component, 0.0) / scale for bar in bars]
            ax.bar([at + shift for at in range(len(bars))], heights, width, begin, color=colour)
            begin = [a + b for a, b in zip(begin, heights, strict=True)]
    ax.set_ylabel(f"energy [{unit}]")
    _frame_bars(ax, [""] * len(bars))


def _draw_cycles(
    ax: Axes, rows: Sequence[Mapping[str, Any]], layers: Sequence[str], colours: Mapping[str, str]
) -> None:
    slowest = {row["layer"]: row for row in rows if row["bottleneck"]}
    heights = [slowest[layer]["cycles"] for layer in layers]
    ax.bar(range(len(layers)), heights, _WIDTH, color=[colours[slowest[layer]["component"]] for layer in layers])
    ax.set_ylabel("cycles")
    short_ticks(ax.yaxis)
    step = max(1, round(len(layers) * 2.4 / letters_beside(ax, "xtick.labelsize") + 0.49))
    longest = 22 if width_in(ax) > 4 else 14
    names = [name if len(name) <= longest else name[: longest - 1] + "…" for name in layers]
    _frame_bars(ax, names, step, rotation=90)


def _frame_bars(ax: Axes, names: Sequence[str], step: int = 1, most: int = 5, rotation: float = 0) -> None:
    """Give bars at 0, 1, 2 … room at both ends, every so many a name, and no lines between them."""
    ax.yaxis.set_major_locator(MaxNLocator(most))
    ax.set_xticks(range(0, len(names), step), names[::step], rotation=rotation)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.grid(axis="x", visible=False)


def fusion_table(found: FusionResult) -> list[dict[str, Any]]:
    """Rows of `plot_fusion`: energy [pJ] of each chain by component, fused and not, and its outer words, all runs."""
    return [
        {
            "chain": " …\n".join(dict.fromkeys((segment.layers[0].name, segment.layers[-1].name))),
            "fused": fused,
            "component": component,
            "energy_pj": segment.repeat * energy_pj,
            "outer_words": segment.repeat * (segment.totals if fused else segment.unfused).outer_words,
        }
        for segment in _drawn(found)
        for fused in (False, True)
        for component, energy_pj in _spent(_results(segment, fused=fused)).items()
    ]


def _drawn(found: FusionResult) -> list[Segment]:
    """The fused chains that save most energy or cycles; where none is fused, all segments."""
    if not found.fused:
        return list(found.segments)[:_MOST]
    most = sorted(found.fused, key=lambda s: s.repeat * (s.totals.energy_pj - s.unfused.energy_pj))[:_MOST]
    return [segment for segment in found.fused if segment in most]


def _results(segment: Segment, *, fused: bool) -> list[tuple[int, Result]]:
    if fused and segment.fused is not None:
        return [(part.count, part.result) for part in segment.fused.parts]
    return [(1, result) for result in segment.alone]


def plot_fusion(found: FusionResult, ax: Axes | None = None) -> Axes:
    """Draw each fused chain beside its layers by themselves: energy stacked by level, and words at the outermost level.

    The axes have one inset axes for the energy and one for the words (`ax.child_axes`).
    """
    with drawing(ax, 4.8) as ax:
        rows = fusion_table(found)
        chains = list(dict.fromkeys(row["chain"] for row in rows))
        drawn = {row["component"] for row in rows if row["energy_pj"]}
        above, below, colours = _panels(ax, 0.53, 0.4, found.segments[0].alone[0], drawn)
        spent = {shift: [_of_chain(rows, chain, fused) for chain in chains] for fused, shift in _SIDES.items()}
        _draw_energy(above, spent, _PAIRED, colours)
        words = {(row["chain"], row["fused"]): row["outer_words"] for row in rows}
        for fused, shift in _SIDES.items():
            heights = [words[chain, fused] for chain in chains]
            places = [at + shift for at in range(len(chains))]
            below.bar(places, heights, _PAIRED, color="#777777" if fused else "#CCCCCC")
        below.set_ylabel("outer words")
        short_ticks(below.yaxis)
        _frame_bars(below, chains, most=4, rotation=0 if len(chains) <= 4 else 90)
        gain = found.unfused.energy_pj / found.totals.energy_pj
        what = f"left unfused, right fused; gain in energy {times(gain)} in all"
        left_out = len(found.fused) - len(_drawn(found)) if found.fused else 0
        chosen = [f"{len(chains)} of {len(found.fused)} chains drawn: those that save most"] if left_out else []
        put_title(ax, f"{found.workload} on {found.architecture}", what, *chosen, legend=True)
    return ax


def _of_chain(rows: Sequence[Mapping[str, Any]], chain: str, fused: bool) -> dict[str, float]:
    return {r["component"]: r["energy_pj"] for r in rows if r["chain"] == chain and r["fused"] == fused}
