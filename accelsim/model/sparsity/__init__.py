"""What zeros save: accesses, computes, cycles and energy of a mapping that is counted dense already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result

if TYPE_CHECKING:
    from accelsim.model.sparsity.result import SparseResult


def sparse_result(architecture: Architecture, einsum: Einsum, dense: Result) -> SparseResult | None:
    """What zeros save of a mapping, as `evaluate_sparse` finds it; None on a machine that does nothing about them."""
    if not architecture.saves_zeros:
        return None
    from accelsim.model.sparsity.evaluate import evaluate_sparse

    return evaluate_sparse(architecture, einsum, dense)
