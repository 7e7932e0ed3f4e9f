"""Loading or compiling the kernels of the exact search before its clock starts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from accelsim.errors import NoValidMapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Encoded, encode
from accelsim.search.exact.count import Counter
from accelsim.search.exact.solve import Solver

_DONE: set[bool] = set()
"""For which kinds of map space, without and with remainders, this process has its kernels."""


def get_ready(encoded: Encoded, imperfect: frozenset[str] = frozenset()) -> None:
    """Solve tiny problems on the machine, once a process: no search then pays for compiling or loading its kernels.

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
    for dims in {frozenset[str](), imperfect}:
        if bool(dims) in _DONE:
            continue
        space = MapSpace(encode(encoded.architecture, replace(einsum, dims=tiny, unpadded=None)), imperfect=dims)
        with suppress(NoValidMapping):
            Solver(space, cycles=True).search()
            if not dims:
                counter = Counter(space)
                if counter.by_state:
                    counter.count_within([1e30])
                counter.count_settled(0, None)
        _DONE.add(bool(dims))
