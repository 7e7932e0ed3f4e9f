"""Figures of where the cycles of one mapping go: by level, and tile by tile for the first tiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from matplotlib.axes import Axes

from accelsim.inputs.mapping import Loop
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Fills, Moves, Result
from accelsim.show import plots as style
from accelsim.show.plots import DARK, PALE
from accelsim.show.report import percent

FIRST_TILES = 6
"""Tiles whose events are drawn."""
_COLOURS = {
    "computing": DARK,
    "ports": "#F0E442",
    "first fill": "#0072B2",
    "fills": "#56B4E9",
    "issue": "#E69F00",
    "drains": "#009E73",
    "last drain": "#66C2A5",
}
_Pause = tuple[Fraction, Fraction, str, str, int]
"""When something stops all else, for how long, the level, what it does, and for which tile."""
_RAMPS, _WAITS = "#999999", "waits"


def timeline_table(result: Result, einsum: Einsum, tiles: int | None = FIRST_TILES) -> list[dict[str, Any]]:
    """Events of the first tiles (None: all) of a mapping: what each engine and the compute units do, from and to.

    The engine that holds up the compute units most is the one that overlaps. It has room for two tiles: it begins one
    when it is done with the last, and when the compute units are done with the one before; these use all tiles for as
    long. While an engine that does not overlap moves a tile, or a tile fills or drains that all else waits for,
    everything else stops. Where storage nodes of a level stand at different loops, a tile takes the mean; and so it
    does where a tile further in changes several times, and where loops leave remainders.

    Returns
    -------
    list of dict
        `component`, `what`, `tile` (from 0; of the engine that does it), `begin` and `end` [cycles]; an event that
        others stop has several rows.
    """
    computing = result.overlapped_cycles
    engine = result.slowest_engine
    others = [m for m in result.moves if not m.overlap]
    count = engine.tiles if engine else max([1, *(m.tiles for m in others)])
    if not result.moves:
        count = math.prod(loop.bound for loop in _outside(result, _most_waited_for(result)))
    shown = min(count, tiles or count)
    each, use = Fraction(engine.cycles if engine else 0, count), Fraction(computing, count)
    loaded, used = [Fraction()], [Fraction(), Fraction()]
    events: list[tuple[str, str, int, Fraction, Fraction]] = []
    for tile in range(shown):
        begin = max(loaded[-1], used[-2])
        loaded.append(begin + each)
        start = max(used[-1], loaded[-1])
        if engine is not None:
            what = "issue" if engine.issue > engine.fills else "fills"
            events.append((engine.level, what, tile, begin, loaded[-1]))
        events.append((result.compute, _WAITS, tile, used[-1], start))
        events.append((result.compute, "computing", tile, start, start + use))
        used.append(start + use)
    starts = [at - use for at in used[2:]]

    def instant(done: Fraction) -> Fraction | None:
        """When this share of all tiles is used, None if that is not shown; a tile ends before the wait for the next."""
        tile = max(0, math.ceil(done * count) - 1)
        return starts[tile] + (done * count - tile) * use if tile < len(starts) else None

    pauses = [pause for other in others for pause in _pauses(other, result, einsum, instant)]
    pauses += [pause for each in result.fills for pause in _waits(each, result, einsum, count, instant)]
    return _stopped(events, sorted(pauses, key=lambda pause: (pause[0], "drain" not in pause[3])))


def _pauses(
    other: Moves, result: Result, einsum: Einsum, instant: Callable[[Fraction], Fraction | None]
) -> list[_Pause]:
    """When an engine that does not overlap stops all else; until a tile is not shown."""
    output = next(t for t in einsum.tensors if t.output)
    moving = {dim for rank in output.ranks for dim, _ in rank}
    names = [nest.level for nest in result.mapping.levels]
    last = max(at for at, name in enumerate(names) if name == other.level)
    loops = [loop for nest in result.mapping.levels[:last] for loop in nest.temporal]
    visits = math.prod(loop.bound for loop in loops if loop.dim in moving)
    coming, found = Fraction(other.cycles - other.drains, other.tiles), []
    for tile, at in enumerate(itertools.product(*(range(loop.bound) for loop in loops))):
        begin, end = instant(Fraction(tile, other.tiles)), instant(Fraction(tile + 1, other.tiles))
        if begin is None or end is None:
            break
        if coming:
            found.append((begin, coming, other.level, "issue" if other.issue > other.fills else "fills", tile))
        finished = all(i == loop.bound - 1 for i, loop in zip(at, loops, strict=True) if loop.dim not in moving)
        if other.drains and finished:
            found.append((end, Fraction(other.drains, visits), other.level, "drains", tile))
    return found


def _most_waited_for(result: Result) -> Fills:
    """The fills and drains that all else waits for longest."""
    return max(result.fills, key=lambda each: sum(cycles for _, cycles in each.waiting))


def _outside(result: Result, tile: Fills) -> list[Loop]:
    """Loops outside a tile."""
    nests = result.mapping.levels
    at = next(i for i, nest in enumerate(nests) if nest.level == tile.level and tile.tensor in nest.keep)
    return [loop for nest in nests[:at] for loop in nest.temporal]


def _waits(
    tile: Fills, result: Result, einsum: Einsum, count: int, instant: Callable[[Fraction], Fraction | None]
) -> list[_Pause]:
    """When fills and drains of a tile stop all else, as `_pauses`; in a tile that is shown once at most."""
    if tile.overlap == "steady":
        ends = ((instant(Fraction(at)), *each) for at, each in enumerate(tile.waiting))
        return [(at, Fraction(cycles), tile.level, what, 0) for at, what, cycles in ends if at is not None and cycles]
    tensor = einsum.tensor(tile.tensor)
    loops = _outside(result, tile)
    while loops and (loops[-1].bound == 1 or loops[-1].dim not in tensor.dims):
        loops.pop()
    changes, found = min(count, math.prod(loop.bound for loop in loops)), []
    first = Fraction(0 if tensor.output else tile.fills, changes)
    if changes == 1:
        first = Fraction(tile.fills)  # all of them, also of words that come back
    elif changes == math.prod(loop.bound for loop in loops):
        first = Fraction(tile.first_fill)
    for k in range(changes if tile.waiting else 0):
        begin, end = instant(Fraction(k, changes)), instant(Fraction(k + 1, changes))
        if begin is None or end is None:
            break
        fill = first if k == 0 else Fraction(tile.fills - first, changes - 1)
        found += [(begin, fill, tile.level, "fills", k)] if fill else []
        found += [(end, Fraction(tile.drains, changes), tile.level, "drains", k)] if tile.drains else []
    return found


def _stopped(
    events: Sequence[tuple[str, str, int, Fraction, Fraction]], pauses: Sequence[_Pause]
) -> list[dict[str, Any]]:
    """Events with the pauses between them, in which nothing else goes on."""
    rows, lost = [], Fraction()
    cuts: list[tuple[Fraction, Fraction]] = []  # an instant without pauses, and what has been lost up to it
    for at, length, component, what, tile in pauses:
        rows.append((component, what, tile, at + lost, at + lost + length))
        cuts.append((at, lost))
        lost += length
    cuts.append((max([Fraction(), *(event[4] for event in events)]) + 1, lost))
    for component, what, tile, begin, end in events:
        for at, before in cuts:
            if begin < at and begin < end:
                rows.append((component, what, tile, begin + before, min(end, at) + before))
                begin = min(end, at)
    keys = ("component", "what", "tile", "begin", "end")
    found = [dict(zip(keys, (*row[:3], float(row[3]), float(row[4])), strict=True)) for row in rows]
    return sorted(found, key=lambda row: (row["begin"], row["end"]))


def time_table(result: Result, einsum: Einsum) -> list[dict[str, Any]]:
    """Rows of `plot_time`: cycles by component and what for, then the events of the first tiles."""
    where = [
        {"component": row["component"], "what": row["what"], "cycles": row["cycles"]} for row in result.time_rows()
    ]
    return [*where, *([] if result.all_overlaps else timeline_table(result, einsum))]


def plot_time(result: Result, einsum: Einsum, ax: Axes | None = None) -> Axes:
    """Draw where the cycles of a mapping go, one part after the other, and what waits for what in the first tiles.

    The axes have an inset with a bar for each component, and, where not all overlaps, one with the events.
    """
    events = [] if result.all_overlaps else timeline_table(result, einsum)
    with style.drawing(ax, 4.6 if events else 2.6) as ax:
        style.frame_only(ax)
        whole = ax.inset_axes((0, 0.6 if events else 0.1, 1, 0.4 if events else 0.9))
        ends = itertools.accumulate(row["cycles"] for row in result.time_rows())
        rows = [
            {**row, "begin": end - row["cycles"], "end": end} for row, end in zip(result.time_rows(), ends, strict=True)
        ]
        shares = [percent(row["share"]) if row["share"] > 0.06 else "" for row in rows]
        _draw(whole, rows, shares, "cycles, one part after the other, and shares")
        if events:
            lanes = ax.inset_axes((0, 0.08, 1, 0.3))
            paced = events[0]["component"] if result.moves else _most_waited_for(result).level
            numbered = {result.compute, *(moves.level for moves in result.moves if moves.overlap)}
            last = max(row["end"] for row in events)

            def number(row: Mapping[str, Any]) -> str:
                named = row["what"] != _WAITS and row["component"] in numbered
                return str(row["tile"] + 1) if named and (row["end"] - row["begin"]) / last > 0.03 else ""

            _draw(lanes, events, list(map(number, events)), f"cycles of the first tiles; numbers: tiles of {paced}")
        known = {*_COLOURS, _WAITS}
        for what in dict.fromkeys(row["what"] if row["what"] in known else "ramps" for row in (*rows, *events)):
            hatch = "////" if what == _WAITS else ""
            ax.bar([0], [math.nan], color=_colour(what), label=what, hatch=hatch, edgecolor=DARK, linewidth=0.3)
        title = f"{result.workload} on {result.architecture}: {result.cycles:,} cycles"
        style.put_title(ax, title, legend=True)
    return ax


def _draw(ax: Axes, rows: Sequence[Mapping[str, Any]], words: Sequence[str], label: str) -> None:
    """Draw rows as bars in time with words in them, a lane for each component."""
    lanes = list(dict.fromkeys(row["component"] for row in rows))
    for row, text in zip(rows, words, strict=True):
        lane, colour = lanes.index(row["component"]), _colour(row["what"])
        ax.barh(
            lane,
            row["end"] - row["begin"],
            0.7,
            row["begin"],
            color=colour,
            edgecolor=DARK if row["what"] == _WAITS else "white",
            linewidth=0.5,
            hatch="////" if row["what"] == _WAITS else "",
        )
        if text:
            at, ink = ((row["begin"] + row["end"]) / 2, lane), PALE if colour == DARK else "black"
            ax.annotate(text, at, ha="center", va="center", fontsize="small", color=ink)
    style.rows_down(ax, lanes)
    ax.set_xlim(0, max(row["end"] for row in rows))
    style.even_ticks(ax.xaxis)
    style.short_ticks(ax.xaxis)
    ax.set_xlabel(style.wrapped(ax, label))


def _colour(what: str) -> str:
    return "white" if what == _WAITS else _COLOURS.get(what, _RAMPS)
