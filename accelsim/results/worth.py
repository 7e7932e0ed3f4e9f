"""What two mappings differ in, what the parts of a machine are worth, and what the size of a level is worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import Any

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import format_bits, ratio
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result
from accelsim.search.result import FrontResult, SearchResult


def difference_rows(a: Result, b: Result) -> list[dict[str, Any]]:
    """Figures of two mappings beside each other, those that differ first; None where a machine has no such part.

    `kind` is `total`, `energy` (pJ by component and tensor; largest difference first), `cycles`, `words` (in the order
    of the machine) or `loops`, whose values are text. `ratio` is b over a.
    """
    sides = [dict(_figures(result)) for result in (a, b)]
    rows = []
    for key in dict.fromkeys(key for side in sides for key in side):
        mine, other = (side.get(key) for side in sides)
        ratio = other / mine if isinstance(mine, int | float) and isinstance(other, int | float) and mine else None
        row = {"kind": key[0], "what": key[1], "a": mine, "b": other}
        rows.append({**row, "ratio": ratio, "differs": mine != other})

    def order(row: dict[str, Any]) -> tuple[bool, int, float]:
        far = abs((row["b"] or 0) - (row["a"] or 0)) if row["kind"] == "energy" else 0.0
        return not row["differs"], _KINDS.index(row["kind"]), -far

    return sorted(rows, key=order)


_KINDS = ("total", "energy", "cycles", "words", "loops")


def _figures(result: Result) -> Iterator[tuple[tuple[str, str], float | str]]:
    """What a mapping comes to, by kind and name."""
    totals = ("energy_pj", "cycles", "edp", "utilization", "offchip_words")
    yield from ((("total", name), getattr(result, name)) for name in totals)
    for row in result.energy_by_tensor_rows():
        yield ("energy", f"{row['component']} {row['tensor']}".rstrip()), row["energy_pj"]
    yield from ((("cycles", row["component"]), row["cycles"]) for row in result.cycle_rows())
    for t in result.tensors:
        counts = {"tile": t.tile_words, "reads": t.total_reads, "fills": t.total_fills, "updates": t.total_updates}
        yield from ((("words", f"{t.level} {t.tensor} {name}"), words) for name, words in counts.items())
    for name, nodes in groupby(result.mapping.levels, key=lambda node: node.level):
        for number, node in enumerate(nodes):
            axes = (f"{axis}({' '.join(map(str, loops))})" for axis, loops in (("x", node.x), ("y", node.y)) if loops)
            kept = f"[{' '.join(sorted(node.keep))}]"
            yield (
                ("loops", f"{name} {number + 1}" if number else name),
                " ".join([kept, *map(str, node.temporal), *axes]),
            )


def with_room(architecture: Architecture, level: str, einsum: Einsum) -> Architecture:
    """The machine with a level that has room for the whole layer; the energies of its accesses stay as they are.

    Raises AccelsimError if there is no such level, or it is unlimited, or has a size for each tensor.
    """
    sized = [each.name for each in architecture.levels[1:] if each.size_words is not None]
    asked = next((each for each in architecture.levels if each.name == level), None)
    if asked is None or level not in sized:
        what = "is no level" if asked is None else "has not one size for all tensors"
        raise AccelsimError(f"{level} {what} in {architecture.name}; levels with one: {', '.join(sized) or 'none'}")
    words = sum(t.words(einsum.dims) * -(-max(t.bits, t.psum_bits) // asked.word_bits) for t in einsum.tensors)
    large = replace(asked, size_words=words * asked.multiple_buffering)
    levels = tuple(large if each is asked else each for each in architecture.levels)
    return replace(architecture, levels=levels, sized={})


SHARES = (0.5, 1.1, 2.0)
"""How much of a part a machine has instead, to see what it is worth."""


def parts_of(architecture: Architecture) -> Iterator[tuple[str, str, dict[float, Architecture]]]:
    """Parts of a machine that may be smaller or larger: name, present size, and the machine with each of `SHARES`.

    Buffers, by tensor where each has its own; bandwidths; columns and rows. Energies of an access stay as they are.
    """

    def at(index: int, **changed: Any) -> Architecture:
        levels = list(architecture.levels)
        levels[index] = replace(levels[index], **changed)
        return replace(architecture, levels=tuple(levels), sized={})

    def part(size: int, share: float) -> int:
        return max(1, math.ceil(size * share) if share > 1 else math.floor(size * share))

    for i, level in enumerate(architecture.levels):
        if i and level.size_words is not None:
            larger = {share: at(i, size_words=part(level.size_words, share)) for share in SHARES}
            yield f"{level.name} size", format_bits(level.size_words * level.word_bits), larger
        sizes = level.partition_words or {}
        for role, words in sizes.items():
            larger = {share: at(i, partition_words={**sizes, role: part(words, share)}) for share in SHARES}
            yield f"{level.name} size, {role}", format_bits(words * level.word_bits), larger
        for key in ("bandwidth", "read_bandwidth", "write_bandwidth", "network_bandwidth"):
            rate = getattr(level, key)
            if rate is not None:
                faster = {share: at(i, **{key: rate * Fraction(str(share))}) for share in SHARES}
                yield f"{level.name} {key.replace('_', ' ')}", f"{float(rate):.4g} words/cycle", faster
        for key, what in (("x", "columns"), ("y", "rows")):
            axis = getattr(level, key)
            if axis.size > 1:
                wider = {share: at(i, **{key: replace(axis, size=part(axis.size, share))}) for share in SHARES}
                yield f"{what} of {level.name}", str(axis.size), wider


def worth_rows(
    architecture: Architecture, objective: str, solve: Callable[[Architecture, str], SearchResult]
) -> list[dict[str, Any]]:
    """Optimum with each of `SHARES` of each part of a machine, None where there is none; `solve` finds one."""
    goal, rows = Objective.parse(objective), list[dict[str, Any]]()
    for part, present, machines in parts_of(architecture):
        row: dict[str, Any] = {"part": part, "present": present}
        for share, machine in machines.items():
            found: dict[str, Any] = dict.fromkeys(("value", "energy_pj", "cycles", "proved"))
            with suppress(NoValidMappingError):
                search = solve(machine, f"{part} x{share:g}")
                if search.stop == "interrupted":
                    return rows
                best, proved = search.best, search.stop == "exhausted"
                found = {"value": goal.of(best), "energy_pj": best.energy_pj, "cycles": best.cycles, "proved": proved}
            row |= {f"x{share:g}_{key}": value for key, value in found.items()}
        rows.append(row)
    return rows


def bound_rows(front: FrontResult, architecture: Architecture, einsum: Einsum) -> list[dict[str, Any]]:
    """Least value of the first column of a front for each size of the level in the second, the smallest size first.

    `halving` and `doubling` say how the least value changes with half and with twice the size, relative to it; of half,
    None where that is too small for any mapping. `whole` are tensors of which the level holds all. A `knee` is a corner
    of the convex hull of both logarithms, one of few after which it falls much more slowly.
    """
    name = front.columns[1].partition(":")[2]
    level = next(each for each in architecture.levels if each.name == name)
    points = sorted(zip(front.values, front.points, strict=True), key=lambda point: point[0][1])
    words, values = [point[0][1] for point in points], [point[0][0] for point in points]

    def least(room: float) -> float | None:
        fitting = [value for held, value in zip(words, values, strict=True) if held <= room]
        return min(fitting, default=None)

    sizes = {tensor.name: tensor.words(einsum.dims) for tensor in einsum.tensors}
    rows: list[dict[str, Any]] = []
    for (value, held), result in points:
        half, twice = least(held / 2), least(held * 2)
        whole = [t.tensor for t in result.tensors if t.level == name and t.tile_words == sizes[t.tensor]]
        rows.append(
            {
                "words": int(held),
                "size_bytes": -(-int(held) * level.word_bits * level.multiple_buffering // 8),
                front.columns[0]: value,
                "halving": None if half is None else ratio(half, value) - 1,
                "doubling": ratio(value if twice is None else twice, value) - 1,
                "whole": whole,
                "knee": False,
            }
        )
    drawn = [at for at, (value, held) in enumerate(zip(values, words, strict=True)) if value and held]
    for at in knees([(math.log(words[at]), math.log(values[at])) for at in drawn]):
        rows[drawn[at]]["knee"] = True
    return rows


_KNEES, _APART = 3, math.log(4)
"""How many knees are named, and how far from each other they are at least."""


def knees(points: Sequence[tuple[float, float]]) -> list[int]:
    """Corners of the lower convex hull of a falling curve after which it falls much more slowly, from left to right.

    >>> knees([(0, 9), (2, 4), (3, 3.9), (4, 3.8), (6, 2), (8, 1.9)])
    [1, 4]
    """
    hull: list[int] = []

    def slope(a: int, b: int) -> float:
        return (points[b][1] - points[a][1]) / (points[b][0] - points[a][0])

    for at in range(len(points)):
        while len(hull) > 1 and slope(hull[-2], hull[-1]) >= slope(hull[-1], at):
            hull.pop()
        hull.append(at)
    turns = {b: slope(a, b) / slope(b, c) for a, b, c in zip(hull, hull[1:], hull[2:], strict=False)}
    found: list[int] = []
    for at in sorted(turns, key=lambda at: -turns[at]):
        if len(found) < _KNEES and all(abs(points[at][0] - points[other][0]) >= _APART for other in found):
            found.append(at)
    return sorted(found)
