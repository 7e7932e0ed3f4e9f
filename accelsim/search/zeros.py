"""The best mapping of a layer on a machine that does something about zeros, and how far that is proved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.model.sparsity import sparse_result
from accelsim.model.sparsity.relax import Relaxed, relax
from accelsim.model.sparsity.result import SparseResult
from accelsim.search.mapper import map_einsum
from accelsim.search.result import SearchResult
from accelsim.search.stopping import OnProgress

LISTED = 256
"""Mappings with the lowest bounds that are looked at, at most."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class BestWithZeros:
    """The best mapping with zeros left out that was found.

    Attributes
    ----------
    found : SparseResult
        What it costs.
    objective : str
    value, bound : float
        Objective of it, and a value that no mapping falls below whose tiles fit before they are compressed, but for the
        one cycle that rounding may take; 0 where none is known.
    why : str
        Why that is not the same.
    """

    found: SparseResult
    objective: str
    value: float
    bound: float
    why: str = ""

    @property
    def proved(self) -> bool:
        """Whether no such mapping is better."""
        return not self.why

    @property
    def gap(self) -> float:
        """By how much of the bound the best one may be lower."""
        return 0.0 if self.proved else self.value / self.bound - 1.0 if self.bound else math.inf


def best_with_zeros(
    architecture: Architecture,
    einsum: Einsum,
    search: SearchResult,
    constraints: Constraints | None = None,
    *,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> BestWithZeros | None:
    """Search for the best mapping with zeros left out; None on a machine that does nothing about them.

    The exact search lists the mappings with the lowest bounds, on a machine on which none costs more
    (`accelsim.model.sparsity.relax`), and each is counted. The best of them is proved where the next bound is no lower.

    Raises
    ------
    AccelsimError
        See `accelsim.model.sparsity.evaluate.evaluate_sparse`.
    """
    goal = Objective.parse(search.objective)
    listed = [sparse_result(architecture, einsum, each) for each in (search.best, *search.ranked)]
    known = [each for each in listed if each is not None]
    if not known:
        return None

    def rank(each: SparseResult) -> tuple[bool, float]:
        return not each.valid, goal.value(each.energy_pj, each.cycles)

    best = min(known, key=rank)
    why, bound, proved, machines = next(_refused(search, constraints), ""), math.inf, math.inf, list[Relaxed]()
    if not why:
        try:
            machines = relax(architecture, einsum)
        except AccelsimError as error:
            why = str(error)
    powers = (0.0, 0.0) if why else goal.powers
    for relaxed in machines:
        for many in (1, LISTED):
            again = map_einsum(
                relaxed.machine, einsum, constraints=constraints, objective=goal.name, method="exact", uneven=False,
                top=many, workers=workers, on_progress=on_progress,
            )  # fmt: skip
            if again.certificate is None or not again.certificate.proved:
                return BestWithZeros(best, goal.name, rank(best)[1], 0.0, f"the search ended early: {again.stop}")
            ranked = again.ranked or (again.best,)
            best = min([best, *_counted(architecture, einsum, ranked)], key=rank)
            last = ranked[-1]
            least = goal.of(last) * relaxed.cycle ** powers[1] if len(ranked) == many else math.inf
            leaks = sum(level.leak_pj for level in last.levels) / (last.energy_pj or 1.0)
            one_cycle = (powers[0] * leaks + powers[1]) / (last.cycles * relaxed.cycle)
            if rank(best) <= (False, least * (1.0 + one_cycle + _ROUNDING)):
                break
        bound, proved = min(bound, least), min(proved, least * (1.0 + one_cycle + _ROUNDING))
    if not why and rank(best) > (False, proved):
        why = "what zeros save depends on its tiles"
    value = rank(best)[1]
    return BestWithZeros(best, goal.name, value, min(bound, value) if machines else 0.0, why)


def _counted(architecture: Architecture, einsum: Einsum, results: Iterable[Result]) -> Iterator[SparseResult]:
    """What mappings cost with zeros left out, of those whose loops the formats have ranks for."""
    for each in results:
        try:
            found = sparse_result(architecture, einsum, evaluate(architecture, einsum, each.mapping))
        except AccelsimError:
            continue
        if found is not None:
            yield found


def _refused(search: SearchResult, constraints: Constraints | None) -> Iterator[str]:
    """Why a proof with zeros is not tried."""
    if search.certificate is None or not search.certificate.proved:
        yield "the search proves nothing"
    goal = Objective.parse(search.objective)
    if len(goal.terms) > 1 or goal.counts("offchip_words"):
        yield f"the objective is {search.objective}"
    if search.uneven or search.imperfect or search.padded:
        yield "mappings that are uneven, imperfect or padded are searched"
    if constraints is not None and constraints.on_costs:
        yield "limits on costs count dense"
