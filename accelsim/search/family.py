"""One mapping for a family of shapes: the least that it loses to the own optimum of each shape, with proof.

A mapping of the largest shape runs a smaller one cut down: each loop has as few passes as that shape needs, outermost
loops first; so tiles, spatial splits, orders and what levels keep stay, the last tile may be a smaller one, and a tile
larger than the shape is cut to it (`search.spaces.trim`). The regret of a mapping is the largest share by which its
value exceeds the best one of a shape. All even mappings with perfect factors of the largest shape within some share of
their optimum are listed; every other one has a larger regret than that share. The best of all its mappings is tried,
too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import ratio
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.search.mapper import map_einsum
from accelsim.search.result import SearchResult
from accelsim.search.spaces import trim
from accelsim.search.stopping import Budget, OnProgress

SHARES = (1e-9, 1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0, 10.0)
"""Within these of the optimum of the largest shape mappings are listed, one after the other until one is proved."""
UNFINISHED = "effort", "remainders"
"""How a search ends that proved what it can of even mappings with perfect factors, and some of others."""
LISTED = 20_000
"""Mappings that are listed at most: about a millisecond each."""


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """The mapping that was found for a family of shapes, and what is proved about it.

    Attributes
    ----------
    shapes : tuple of Einsum
    largest : Result
        On the largest shape: the mapping as it is.
    costs : tuple of Result
        On each shape in the order given, the mapping cut down.
    optima : tuple of SearchResult
        Of each shape by itself.
    regret, bound : float
        Its regret as a share, and what none of an even mapping with perfect factors falls below.
    listed : int
        Mappings of the family that were looked at.
    stop : str
        `exhausted`, `timeout`, `interrupted`, or `room` if more mappings would have to be listed.
    """

    shapes: tuple[Einsum, ...]
    largest: Result
    costs: tuple[Result, ...]
    optima: tuple[SearchResult, ...]
    objective: str
    regret: float
    bound: float
    listed: int
    stop: str
    seconds: float

    @property
    def proved(self) -> bool:
        """Whether no even mapping of the largest shape with perfect factors has less regret."""
        return self.bound >= self.regret * (1 - 1e-9) - 1e-12

    def ratios(self) -> tuple[float, ...]:
        """Value of the mapping over the own optimum of each shape."""
        goal = Objective.parse(self.objective)
        return tuple(goal.of(cost) / goal.of(own.best) for cost, own in zip(self.costs, self.optima, strict=True))


def largest_of(einsums: Sequence[Einsum]) -> int:
    """Number of the shape in which all others fit.

    Raises AccelsimError if there is none, or if more differs than the bounds of dimensions.
    """
    bare = {repr(replace(each, dims=dict.fromkeys(each.dims, 1), unpadded=None)) for each in einsums}
    if len(bare) > 1:
        raise AccelsimError("one mapping is for shapes that differ in the bounds of their dimensions alone")
    for number, each in enumerate(einsums):
        if all(other.dims[dim] <= bound for other in einsums for dim, bound in each.dims.items()):
            return number
    raise AccelsimError("one mapping is for shapes that fit into one of them, and each of these is larger in something")


def map_family(
    architecture: Architecture,
    einsums: Sequence[Einsum],
    objective: str = "energy",
    *,
    constraints: Constraints | None = None,
    uneven: bool | None = None,
    imperfect: str | Sequence[str] = "auto",
    pad: str | Sequence[str] = (),
    room: int = LISTED,
    budget: Budget | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> FamilyResult:
    """Find the mapping with the least regret over a family of shapes.

    Parameters
    ----------
    architecture : Architecture
    einsums : sequence of Einsum
        Shapes of the same layer; one of them is the largest in every dimension.
    objective : str
        What regret counts, as for `accelsim.map_einsum`.
    constraints : Constraints, optional
        Of the own optima, and of the mapping on the largest shape.
    uneven, imperfect, pad
        Among which mappings the best one of each shape is looked for, as for `accelsim.map_einsum`.
    room : int
        Mappings that are listed at most.
    budget, workers, on_progress
        As for `accelsim.map_einsum`.

    Returns
    -------
    FamilyResult

    Raises
    ------
    NoValidMappingError
        If a shape has no valid mapping.
    AccelsimError
        If the shapes are no family.

    Examples
    --------
    >>> from accelsim import load_architecture, load_workload
    >>> gemms = [{"name": "gemm", "gemm": {"M": m, "N": 64, "K": 64}} for m in (128, 512)]
    >>> shapes = [load_workload({"workload": each}).layers[0] for each in gemms]
    >>> found = map_family(load_architecture("eyeriss"), shapes, workers=1)
    >>> found.proved, f"{100 * found.regret:.2f} %"
    (True, '0.00 %')
    """
    started, goal, top = time.monotonic(), Objective.parse(objective), largest_of(einsums)

    def search(einsum: Einsum, share: float | None = None) -> SearchResult:
        left = budget and replace(
            budget, seconds=budget.seconds and max(1e-3, budget.seconds - (time.monotonic() - started))
        )
        space = {"uneven": uneven, "imperfect": imperfect, "pad": pad} if share is None else {"uneven": False}
        return map_einsum(
            architecture, einsum, constraints=constraints, objective=objective, method="exact", within=share,
            top=1 if share is None else room, budget=left, workers=workers, on_progress=on_progress, **space,
        )  # fmt: skip

    optima = tuple(search(each) for each in einsums)
    least = [goal.of(each.best) for each in optima]
    sure = all(part is not None and part.proved for each in optima for part in (*each.parts, each.certificate)[:1])
    stop = next((each.stop for each in optima if each.stop not in ("exhausted", *UNFINISHED)), "exhausted")
    best: tuple[float, Result, tuple[Result, ...]] | None = None
    tried: set[str] = set()
    bound = 0.0
    ranked: Sequence[Result] = [optima[top].best]
    for share in (0.0, *SHARES):
        if share:
            found = search(einsums[top], share)
            ranked, stop = found.ranked, found.stop
        for result in ranked:
            own = ratio(goal.of(result), least[top]) - 1.0
            if best is not None and own >= best[0]:
                break
            if str(result.mapping) not in tried:
                tried.add(str(result.mapping))
                best = _better(architecture, einsums, top, result, least, goal, best)
        if share and stop == "exhausted":
            complete = found.within is not None and found.within[1] <= len(ranked)
            last = (1.0 + share) * goal.of(ranked[0]) if complete else goal.of(ranked[-1])
            reached = ratio(last, least[top]) - 1.0
            bound = max(bound, min(reached, best[0] if best else reached))
            stop = "exhausted" if complete else "room"
        if stop != "exhausted" or (best is not None and share and best[0] <= bound + 1e-12):
            break
    if best is None:
        raise AccelsimError("no mapping of the largest shape that was listed can be cut down to all others")
    regret, largest, costs = best
    return FamilyResult(
        tuple(einsums), largest, costs, optima, goal.name, regret, min(bound, regret) if sure else 0.0, len(tried),
        stop, time.monotonic() - started,
    )  # fmt: skip


def _better(
    architecture: Architecture,
    einsums: Sequence[Einsum],
    top: int,
    result: Result,
    least: Sequence[float],
    goal: Objective,
    best: tuple[float, Result, tuple[Result, ...]] | None,
) -> tuple[float, Result, tuple[Result, ...]] | None:
    """The better one of the best mapping so far and another one, cut down to each shape."""
    regret, costs = 0.0, list[Result]()
    for number, einsum in enumerate(einsums):
        cost = result if number == top else cut_to(architecture, einsum, result)
        if cost is None:
            return best
        costs.append(cost)
        regret = max(regret, ratio(goal.of(cost), least[number]) - 1.0)
        if best is not None and regret >= best[0]:
            return best
    return regret, result, tuple(costs)


def cut_to(architecture: Architecture, einsum: Einsum, result: Result) -> Result | None:
    """A mapping of a larger shape on a smaller one; None where it leaves remainders that the model does not take."""
    try:
        cost = evaluate(architecture, einsum, trim(result.mapping, dict(einsum.dims)))
    except AccelsimError:
        return None
    return cost if cost.valid else None
