"""Loops of a Timeloop mapping that do not come to the bounds of the problem, and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from accelsim.importers.documents import Map
from accelsim.importers.timeloop_problem import ProblemShape, dims_of_rank
from accelsim.inputs.errors import InputError, Mark, Problem
from accelsim.inputs.units import listed

Loops = tuple[Map, Mapping[str, tuple[str, int]], Mapping[str, int]]
"""Of a block of loops: the directive, sign and bound by dimension, and iterations of the last pass where written."""


def refuse_misfit(shape: ProblemShape, nest: Sequence[Loops], left: Mapping[str, int], where: Mark) -> None:
    """Raise InputError where loops do not come to their dimension, also with the last passes that are written.

    `nest`: outermost block first. `left`: bounds that are written as 0. `where`: the mapping.
    """
    problems = []
    for dim, size in shape.dims.items():
        loops = [(table, factors[dim][1] or left[dim], last) for table, factors, last in nest if _loops(factors, dim)]
        written = [(bound, last.get(dim, bound)) for _, bound, last in loops] or [(1, 1)]
        wanted = _covering([bound for bound, _ in written], size)
        if written == wanted:
            continue
        what = (
            f"the loops over {dim} multiply to {math.prod(b for b, _ in written)}, but {dim} is {size} in {shape.name}"
        )
        if any(dim in last for _, _, last in loops):
            what = f"the last passes over {dim} do not come to {size}, its bound in {shape.name}"
        changed = [index for index, pair in enumerate(written) if pair != wanted[index]]
        hint = f"write {listed(_change(dim, written[index], wanted[index]) for index in changed)}"
        rank = next((rank for ranks in shape.tensors.values() for rank in ranks if _shares(shape, rank, dim)), None)
        if rank is not None and any(last < bound for bound, last in wanted):
            hint = f"it shares the rank {rank}, which allows no remainder; write loops that multiply to {size}"
        problems.append(Problem(loops[changed[0]][0].where("factors") if loops else where, what, hint))
    if problems:
        raise InputError(problems)


def _loops(factors: Mapping[str, tuple[str, int]], dim: str) -> bool:
    return factors.get(dim, ("=", 1))[1] != 1


def _shares(shape: ProblemShape, rank: str, dim: str) -> bool:
    """Whether a rank adds up this dimension and another one with more than one iteration."""
    names = [name for name in dims_of_rank(rank) if shape.dims.get(name, 2) > 1]
    return dim in names and len(names) > 1


def _covering(bounds: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Loops over a dimension, changed so that they cover it: bound and iterations of the last pass, outermost first.

    >>> _covering([2, 6], 8), _covering([2, 3], 8), _covering([2, 12], 8)
    ([(2, 2), (6, 2)], [(3, 3), (3, 2)], [(1, 1), (8, 8)])
    """
    found: list[tuple[int, int]] = []
    span = 1
    for index, bound in reversed(list(enumerate(bounds))):
        most = -(-size // span)
        bound = min(bound, most) if index else most
        found.append((bound, (size - 1) // span % bound + 1))
        span *= bound
    return found[::-1]


def _change(dim: str, old: tuple[int, int], new: tuple[int, int]) -> str:
    """What to write instead of a factor.

    >>> _change("N", (6, 6), (6, 2)), _change("N", (1, 1), (8, 8)), _change("N", (2, 2), (1, 1))
    ('N=6,2 for N=6', 'N=8', 'N=1 for N=2')
    """
    before, after = (f"{dim}={bound}{f',{last}' if last != bound else ''}" for bound, last in (old, new))
    return after if old == (1, 1) else f"{after} for {before}"
