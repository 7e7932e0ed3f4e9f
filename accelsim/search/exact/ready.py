"""Compiling the kernels of the exact search before its clock starts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from accelsim.inputs.errors import NoValidMapping
from accelsim.inputs.objective import LEAST_ENERGY
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Encoded, encode
from accelsim.model.machine_code import is_kept
from accelsim.search.descent import Descent
from accelsim.search.descent_kernel import walk
from accelsim.search.exact.branch_kernel import explore, root_bounds
from accelsim.search.exact.solve import Solver
from accelsim.search.value_kernel import terms_of

_DONE: set[bool] = set()
"""Whether this process has the kernels of searches without remainders, and of those with remainders."""


def get_ready(encoded: Encoded, imperfect: frozenset[str] = frozenset()) -> None:
    """Solve tiny problems on the machine, once a process: no search then pays for compiling its kernels.

    Where the machine code of searches without remainders is kept, loading it takes less than a tiny problem.

    Parameters
    ----------
    encoded
        The machine and the layer of the search; the tiny problems have its dimensions, one of them of bound 2.
    imperfect
        Dimensions that may leave remainders; the kernels of these are others.
    """
    einsum = encoded.einsum
    longest = max(einsum.dims, key=einsum.dims.__getitem__)
    tiny = {dim: min(bound, 2) if dim == longest else 1 for dim, bound in einsum.dims.items()}
    if all(is_kept(kernel) for kernel in (walk, root_bounds, explore)):
        _DONE.add(False)
    for remainders in sorted({False, bool(imperfect)} - _DONE):
        loose = imperfect if remainders else frozenset()
        space = MapSpace(encode(encoded.architecture, replace(einsum, dims=tiny, unpadded=None)), imperfect=loose)
        with suppress(NoValidMapping):
            if not remainders:
                Descent(space, terms_of(LEAST_ENERGY)).go(1)
            if Solver(space, cycles=True).search().stop == "interrupted":
                raise KeyboardInterrupt  # a search keeps Ctrl-C to itself, to end with what it has
            _DONE.add(remainders)
