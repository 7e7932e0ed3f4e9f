"""The best mapping of a layer on a machine that does something about zeros, as far as one is proved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.model.sparsity import sparse_result
from accelsim.model.sparsity.fold import NotConstantError, fold_zeros
from accelsim.model.sparsity.result import SparseResult
from accelsim.search.result import SearchResult
from accelsim.search.stopping import OnProgress


@dataclass(frozen=True, slots=True)
class BestWithZeros:
    """The mapping that takes the least energy with zeros left out.

    Attributes
    ----------
    found : SparseResult
        What it costs.
    proved : bool
        No mapping whose tiles fit before they are compressed takes less.
    why : str
        Why that is not proved; the mapping is then the best one that was looked at.
    """

    found: SparseResult
    proved: bool
    why: str = ""

    def json(self) -> dict[str, Any]:
        """As plain values, without the mapping."""
        return {
            "energy_pj": self.found.energy_pj,
            "cycles": self.found.cycles,
            "valid": self.found.valid,
            "proved": self.proved,
            "why_not": self.why,
        }


def best_with_zeros(
    architecture: Architecture,
    einsum: Einsum,
    search: SearchResult,
    constraints: Constraints | None = None,
    *,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> BestWithZeros | None:
    """Search for the mapping of least energy with zeros left out; None on a machine that does nothing about them.

    Where zeros save constant shares, the exact search finds it on a machine whose energies hold these shares. Elsewhere
    it is the best mapping of `search`, the dense search.

    Raises
    ------
    AccelsimError
        See `accelsim.model.sparsity.evaluate.evaluate_sparse`.
    """
    listed = [sparse_result(architecture, einsum, each) for each in (search.best, *search.ranked)]
    known = [each for each in listed if each is not None]
    if not known:
        return None
    least = min(known, key=lambda each: (not each.valid, each.energy_pj))
    try:
        why = next(_refused(search, constraints), "")
        folded = None if why else fold_zeros(architecture, einsum)
    except NotConstantError as error:
        folded, why = None, str(error)
    if folded is None:
        return BestWithZeros(least, proved=False, why=why)
    from accelsim.search.mapper import map_einsum

    again = map_einsum(
        folded, einsum, constraints=constraints, method="exact", workers=workers, on_progress=on_progress
    )
    found = sparse_result(architecture, einsum, evaluate(architecture, einsum, again.best.mapping))
    if found is None or not math.isclose(found.energy_pj, again.best.energy_pj, rel_tol=1e-9):
        raise AssertionError("a mapping takes other energy than on the machine that stands for it")
    if not found.valid:
        return BestWithZeros(least, proved=False, why=f"that of least energy is not valid: {found.violations[0]}")
    proved = again.certificate is not None and again.certificate.proved
    return BestWithZeros(found, proved, "" if proved else f"the search ended early: {again.stop}")


def _refused(search: SearchResult, constraints: Constraints | None) -> Iterator[str]:
    """Why a proof with zeros is not tried."""
    if search.certificate is None or not search.certificate.proved:
        yield "the search proves nothing"
    if search.objective != "energy":
        yield f"cycles depend on zeros, and the objective is {search.objective}"
    if search.uneven or search.imperfect or search.padded:
        yield "mappings that are uneven, imperfect or padded are searched"
    if constraints is not None and constraints.limits:
        yield "limits on costs count dense"
