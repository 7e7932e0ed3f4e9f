"""Explain a mapping: walk its loop nest with the oracle, and tell for each tile what each step moves, and why.

The walk executes the nest; its totals are compared with those of the closed formula (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.mapping import last_passes
from accelsim.inputs.units import near_miss
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.evaluate import evaluate
from accelsim.model.oracle import Box, OracleCounts, OracleStep, Tile, execute, walk_tile
from accelsim.model.result import Fills, Result
from accelsim.model.time_oracle import walk_array, walk_fills
from accelsim.results.output import result_json

LARGEST_WALK = 100_000
"""A nest of more MACs x compute units in use than this is not walked."""
MOST_STEPS = 40
_COUNTED = ("tile", "reads", "fills", "updates", "total_reads", "total_fills", "total_updates")
_NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six")
_WINDOWS = {frozenset("PR"): "h", frozenset("QS"): "w"}

Vector = tuple[int, ...]
Ranges = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class TileStep:
    """One step of the loops outside a tile, for the first instance of the level.

    `number` counts from 1; 0 is the end, when what is left leaves the tile, without `indices` (of the loops outside,
    outermost first). `before` and `after` are boxes: along each rank the first coordinate, and one past the last; None:
    no tile. Words are `entering`, `leaving` and, of an output, `first`: they come in for the first time, so that there
    is nothing to read. `why` says what decides which words move; `fills` and `updates` are the words filled from the
    level above, and sent up to it, in all steps until now.
    """

    number: int
    indices: tuple[int, ...]
    before: Ranges | None
    after: Ranges | None
    entering: int
    leaving: int
    first: int
    why: str
    fills: int
    updates: int


@dataclass(frozen=True, slots=True)
class TileWalk:
    """All steps of one tensor's tile at one level.

    `parent` is the next level outwards that keeps the tensor: `parents` of its instances are in use, with so many of
    this level `below` each, and each of them has `parent_reads` and `parent_updates` [words] for all of these. The
    steps are those of the first one of the `instances` in use; the others move as many words, or fewer where loops
    leave remainders. `loops` are those in time outside the tile, outermost first, with the iterations of the
    `last_pass`. `steps` are the first ones of `count`, with the end; `fills`, `first` and `updates` [words] are of all.
    """

    level: str
    tensor: str
    parent: str
    ranks: tuple[str, ...]
    output: bool
    tile_words: int
    loops: tuple[dict[str, Any], ...]
    instances: int
    parents: int
    below: int
    steps: tuple[TileStep, ...]
    count: int
    fills: int
    first: int
    updates: int
    parent_reads: int
    parent_updates: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """A mapping walked step by step, and evaluated.

    `ranks` holds what each rank of each tensor is, such as `h` and `P + R`; `compute` what the compute units ask of
    each tensor: a word in each step, of the innermost level that keeps it; `totals` has a row for each level and tensor
    with `counted` and `formula`: tile, reads, fills and updates in words of one instance, the busiest one, and the last
    three of all instances together. `cycles` and `fills` are those of the run, transfer by transfer; the
    result's are by formula, and of the busiest instance alone where loops leave remainders.
    """

    result: Result
    ranks: Mapping[str, Mapping[str, str]]
    walks: tuple[TileWalk, ...]
    compute: tuple[dict[str, Any], ...]
    compute_steps: int
    totals: tuple[dict[str, Any], ...]
    cycles: int
    fills: tuple[Fills, ...]
    same: bool


def explain(
    architecture: Architecture,
    einsum: Einsum,
    mapping: LoopNest,
    *,
    tensor: str | None = None,
    level: str | None = None,
    steps: int = MOST_STEPS,
) -> Explanation:
    """Walk a small loop nest and tell what each step moves: at most so many steps of each tile.

    Of one `tensor` or `level` only, where it is named; the totals are of all. Raises AccelsimError if the nest is too
    large to walk, or there is no such tensor or level.
    """
    names = [t.name for t in einsum.tensors]
    levels = [each.name for each in architecture.levels]
    wrong = [
        f"no {what} '{name}'; {near_miss(name, known, f'{what}s')}"
        for what, name, known in (("tensor", tensor, names), ("level", level, levels))
        if name is not None and name not in known
    ]
    if wrong:
        raise AccelsimError("\n".join(wrong))
    result = evaluate(architecture, einsum, mapping)
    refuse_large(einsum, result.compute_used)
    counts = execute(architecture, einsum, mapping)
    chosen = [t for t in einsum.tensors if tensor in (None, t.name)]
    tiles = [
        (index, t)
        for index, node in enumerate(mapping.levels)
        for t in chosen
        if index > 0 and t.name in node.keep and level in (None, node.level)
    ]
    totals = _totals(result, counts)
    cycles, fills = walk_fills(architecture, einsum, mapping, counts)
    innermost = len(mapping.levels)
    asking = tuple({**_requested(mapping, t, innermost, counts), "steps": counts.steps} for t in chosen)
    return Explanation(
        result=result,
        ranks={t.name: dict(zip(rank_names(t), map(_rank_text, t.ranks), strict=True)) for t in chosen},
        walks=tuple(_walk(einsum, mapping, t, index, counts, steps) for index, t in tiles),
        compute=asking if level in (None, levels[-1]) else (),
        compute_steps=counts.steps,
        totals=tuple(totals),
        cycles=cycles,
        fills=fills,
        same=_same(architecture, einsum, result, counts, totals)
        and (result.imperfect or any(level.dma for level in architecture.levels) or cycles == result.cycles)
        and (result.imperfect or fills == result.fills),
    )


def same_as_walked(architecture: Architecture, einsum: Einsum, result: Result) -> bool | None:
    """Whether every count of a result is that of the walked nest; None if the nest is too large to walk."""
    if einsum.macs * result.compute_used > LARGEST_WALK:
        return None
    counts = execute(architecture, einsum, result.mapping)
    return _same(architecture, einsum, result, counts, _totals(result, counts))


def _same(
    architecture: Architecture,
    einsum: Einsum,
    result: Result,
    counts: OracleCounts,
    totals: Sequence[Mapping[str, Any]],
) -> bool:
    array = walk_array(architecture, einsum, result.mapping)
    return (
        all(row["counted"] == row["formula"] for row in totals)
        and counts.steps * result.cycles_per_mac == result.compute_cycles
        and (array is None or array.cycles == result.busy_cycles)
    )


def refuse_large(einsum: Einsum, compute_units: int = 1) -> None:
    """Raise AccelsimError if walking the nest would take too long."""
    if einsum.macs * compute_units <= LARGEST_WALK:
        return
    on = f" on {compute_units:,} compute units" if compute_units > 1 else ""
    raise AccelsimError(
        f"{einsum.name} has {einsum.macs:,} MACs{on}; explain visits every step and stops at {LARGEST_WALK:,} "
        "MACs x compute units; try a small workload such as conv1d"
    )


def rank_names(tensor: Tensor) -> tuple[str, ...]:
    """Short names of a tensor's ranks: the dimension in small letters, `h` and `w` for the windows of a convolution.

    >>> rank_names(Tensor("Inputs", ((("C", 1),), (("P", 2), ("R", 1)))))
    ('c', 'h')
    """
    dims = [[dim for dim, _ in rank] for rank in tensor.ranks]
    names = tuple(_WINDOWS.get(frozenset(each), "+".join(each).lower()) for each in dims)
    return names if len(set(names)) == len(names) else tuple(map(_rank_text, tensor.ranks))


def _rank_text(rank: Sequence[tuple[str, int]]) -> str:
    return " + ".join(dim if factor == 1 else f"{factor}*{dim}" for dim, factor in rank)


def _walk(einsum: Einsum, mapping: LoopNest, tensor: Tensor, index: int, counts: OracleCounts, most: int) -> TileWalk:
    """Walk the tile of one tensor at one level."""
    names = [level.level for level in mapping.levels]
    reported: list[TileStep] = []
    count = first = 0
    for last in _steps(einsum, mapping, tensor, index):
        count += 1
        first += last.first
        if len(reported) < most:
            reported.append(last)
    passes = last_passes(mapping, einsum.dims)
    return TileWalk(
        level=names[index],
        ranks=rank_names(tensor),
        tile_words=counts.levels[index][tensor.name].tile,
        loops=tuple(
            {"dim": loop.dim, "bound": loop.bound, "last_pass": last_pass, "level": names[above]}
            for above in range(index)
            for loop, last_pass in zip(mapping.levels[above].temporal, passes[above][0], strict=True)
        ),
        instances=counts.used[index],
        steps=tuple(reported),
        count=count,
        fills=last.fills,
        first=first,
        updates=last.updates,
        **_requested(mapping, tensor, index, counts),
    )


def _requested(mapping: LoopNest, tensor: Tensor, index: int, counts: OracleCounts) -> dict[str, Any]:
    """What the instances at a place ask of the next level outwards that keeps the tensor."""
    parent = max(i for i in range(index) if tensor.name in mapping.levels[i].keep)
    above, used = counts.levels[parent][tensor.name], counts.used
    return {
        "tensor": tensor.name,
        "output": tensor.output,
        "parent": mapping.levels[parent].level,
        "parents": used[parent],
        "below": used[index] // used[parent],
        "parent_reads": above.reads,
        "parent_updates": above.updates,
    }


def _steps(einsum: Einsum, mapping: LoopNest, tensor: Tensor, index: int) -> Iterator[TileStep]:
    """Steps of the first instance of a level, each with its reason."""
    ranks = rank_names(tensor)
    remembered: Vector | None = None
    before: Box | None = None
    seen: set[Vector] = set()
    fills = updates = 0
    instance = None
    for number, step in enumerate(walk_tile(Tile(einsum, tensor, mapping, index)), 1):
        instance = step.instance if instance is None else instance
        if step.instance != instance:
            return
        vector = tuple(now - was for (now, _), (was, _) in zip(step.box, before or step.box, strict=True))
        why = _why(step, before, vector, remembered, ranks)
        if any(vector):
            remembered = vector if remembered in (None, vector) else None
        first = len(step.entering - seen) if tensor.output else 0
        if tensor.output:
            seen |= step.entering
            updates += len(step.leaving)
        fills += len(step.entering) - first
        end = not step.indices and before is not None
        yield TileStep(
            number=0 if end else number,
            indices=step.indices,
            before=_ranges(ranks, before),
            after=None if end else _ranges(ranks, step.box),
            entering=len(step.entering),
            leaving=len(step.leaving),
            first=first,
            why=why,
            fills=fills,
            updates=updates,
        )
        before = step.box


def _ranges(ranks: Sequence[str], box: Box | None) -> Ranges | None:
    """First coordinate, and one past the last, along each rank."""
    return None if box is None else {rank: (low, high + 1) for rank, (low, high) in zip(ranks, box, strict=True)}


def _why(step: OracleStep, before: Box | None, vector: Vector, remembered: Vector | None, ranks: Sequence[str]) -> str:
    """Say which rule of the model decided what a step moves."""
    if before is None:
        return "whole box: the first one"
    if not step.indices:
        return "end: the tile is emptied"
    if not any(vector):
        return "stays"
    moved = [rank for rank, by in enumerate(vector) if by]
    if remembered not in (None, vector):
        return "whole box: another step than the one before"
    if len(moved) > 1:
        return f"whole box: moved along {_NUMBER_WORDS[len(moved)] if len(moved) < 7 else len(moved)} ranks"
    by = f"moved along {ranks[moved[0]]} by {vector[moved[0]]}"
    if abs(vector[moved[0]]) > before[moved[0]][1] - before[moved[0]][0]:
        return f"whole box: {by}, no overlap"
    return f"new part only: {by}" + ("" if remembered is None else ", same step as before")


def _totals(result: Result, counts: OracleCounts) -> list[dict[str, Any]]:
    """Counts of the walk beside those of the closed formula, for each level and tensor [words]."""
    at = {(node.level, name): index for index, node in enumerate(result.mapping.levels) for name in node.keep}
    walked = [counts.levels[at[t.level, t.tensor]][t.tensor] for t in result.tensors]
    return [
        {
            "level": t.level,
            "tensor": t.tensor,
            "counted": {name: getattr(own, name) for name in _COUNTED},
            "formula": {"tile": t.tile_words, **{name: getattr(t, name) for name in _COUNTED[1:]}},
        }
        for t, own in zip(result.tensors, walked, strict=True)
    ]


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Everything in an explanation as plain values."""
    result = result_json(explanation.result)
    return {
        **{key: result[key] for key in ("architecture", "layer", "valid", "violations")},
        **{key: result[key] for key in ("imperfect", "padded", "mapping")},
        "ranks": explanation.ranks,
        "tiles": [asdict(walk) for walk in explanation.walks],
        "compute_steps": explanation.compute_steps,
        "compute": explanation.compute,
        "totals": explanation.totals,
        "fills": [asdict(each) for each in explanation.fills],
        "cycles": explanation.cycles,
        "closed_formula_is_the_same": explanation.same,
    }
