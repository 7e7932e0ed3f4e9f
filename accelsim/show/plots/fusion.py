"""Figure of fused chains: energy and outer words of each against its layers by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from accelsim.show.plots.network import component_colours, frame_bars, panels
from accelsim.show.plots.style import put_title, styled, tick
from accelsim.show.report.text import energy_scale, times

if TYPE_CHECKING:
    from accelsim.fusion.result import FusionResult, Segment
    from accelsim.model.result import Result

_MOST = 8
"""Chains that are drawn, those that save most."""
_WIDTH = 0.38


def fusion_table(found: FusionResult) -> list[dict[str, Any]]:
    """Rows of `plot_fusion`: energy [pJ] of each chain by component, fused and not, and its outer words, all runs."""
    rows = []
    for segment in _drawn(found):
        for fused in (False, True):
            spent: dict[str, float] = {}
            for count, result in _results(segment, fused=fused):
                for row in result.energy_rows():
                    spent[row["component"]] = spent.get(row["component"], 0.0) + count * row["energy_pj"]
            totals = segment.totals if fused else segment.unfused
            rows += [
                {
                    "chain": _name(segment),
                    "fused": fused,
                    "component": component,
                    "energy_pj": segment.repeat * energy_pj,
                    "outer_words": segment.repeat * totals.outer_words,
                }
                for component, energy_pj in spent.items()
            ]
    return rows


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


def _name(segment: Segment) -> str:
    """First and last layer."""
    names = [layer.name for layer in segment.layers]
    return names[0] if len(names) == 1 else f"{names[0]} …\n{names[-1]}"


def plot_fusion(found: FusionResult, ax: Axes | None = None) -> Axes:
    """Draw each fused chain beside its layers by themselves: energy stacked by level, and words at the outermost level.

    Returns
    -------
    Axes
        With one inset axes for the energy and one for the words (`ax.child_axes`).
    """
    return styled(lambda axes: _draw(found, axes), ax, 4.8)


def _draw(found: FusionResult, ax: Axes) -> None:
    rows = fusion_table(found)
    chains = list(dict.fromkeys(row["chain"] for row in rows))
    result = found.segments[0].alone[0]
    colours = component_colours(result, {row["component"] for row in rows if row["energy_pj"]})
    above, below = panels(ax, 0.53, 0.4)
    _draw_energy(above, rows, chains, colours)
    _draw_words(below, rows, chains)
    for component, colour in colours.items():
        ax.bar([0], [0], color=colour, label=f"{component} (compute)" if component == result.compute else component)
    gain = found.unfused.energy_pj / found.totals.energy_pj
    what = f"left unfused, right fused; gain in energy {times(gain)} in all"
    left_out = len(found.fused) - len(_drawn(found)) if found.fused else 0
    chosen = [f"{len(chains)} of {len(found.fused)} chains drawn: those that save most"] if left_out else []
    put_title(ax, f"{found.workload} on {found.architecture}", what, *chosen, legend=True)


def _sums(rows: Sequence[Mapping[str, Any]], chain: str, fused: bool) -> dict[str, float]:
    return {r["component"]: r["energy_pj"] for r in rows if r["chain"] == chain and r["fused"] == fused}


def _draw_energy(
    ax: Axes, rows: Sequence[Mapping[str, Any]], chains: Sequence[str], colours: Mapping[str, str]
) -> None:
    scale, unit = energy_scale(
        max(sum(_sums(rows, chain, fused).values()) for chain in chains for fused in (False, True))
    )
    for fused in (False, True):
        places = [at + (0.5 if fused else -0.5) * (_WIDTH + 0.04) for at in range(len(chains))]
        begin = [0.0] * len(chains)
        for component, colour in colours.items():
            heights = [_sums(rows, chain, fused).get(component, 0.0) / scale for chain in chains]
            ax.bar(places, heights, _WIDTH, begin, color=colour)
            begin = [a + b for a, b in zip(begin, heights, strict=True)]
    ax.set_ylabel(f"energy [{unit}]")
    ax.set_xticks(range(len(chains)), [""] * len(chains))
    ax.yaxis.set_major_locator(MaxNLocator(5))
    frame_bars(ax, len(chains))


def _draw_words(ax: Axes, rows: Sequence[Mapping[str, Any]], chains: Sequence[str]) -> None:
    words = {(row["chain"], row["fused"]): row["outer_words"] for row in rows}
    for fused in (False, True):
        places = [at + (0.5 if fused else -0.5) * (_WIDTH + 0.04) for at in range(len(chains))]
        ax.bar(places, [words[chain, fused] for chain in chains], _WIDTH, color="#777777" if fused else "#CCCCCC")
    ax.set_ylabel("outer words")
    ax.yaxis.set_major_locator(MaxNLocator(4))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    ax.set_xticks(range(len(chains)), chains, rotation=0 if len(chains) <= 4 else 90)
    frame_bars(ax, len(chains))
