"""Loading or compiling the kernels of the exact search before its clock starts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from accelsim.inputs.errors import NoValidMapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Encoded, encode
from accelsim.search.descent import Descent
from accelsim.search.exact.count import Counter
from accelsim.search.exact.solve import Solver

PLAIN, REMAINDERS, COUNTS = "plain", "remainders", "counts"
_DONE: set[str] = set()
"""Of which kinds of search this process has the kernels."""


def get_ready(encoded: Encoded, imperfect: frozenset[str] = frozenset(), *, counts: bool = False) -> None:
    """Solve tiny problems on the machine, once a process: no search then pays for compiling or loading its kernels.

    Parameters
    ----------
    encoded
        The machine and the layer of the search; the tiny problems have its dimensions, one of them of bound 2.
    imperfect
        Dimensions that may leave remainders; the kernels of these are others.
    counts
        Whether mappings are to be counted too.
    """
    einsum = encoded.einsum
    longest = max(einsum.dims, key=einsum.dims.__getitem__)
    tiny = {dim: min(bound, 2) if dim == longest else 1 for dim, bound in einsum.dims.items()}
    wanted = {PLAIN} | ({REMAINDERS} if imperfect else set()) | ({COUNTS} if counts else set())
    for kind in sorted(wanted - _DONE):
        loose = imperfect if kind == REMAINDERS else frozenset()
        space = MapSpace(encode(encoded.architecture, replace(einsum, dims=tiny, unpadded=None)), imperfect=loose)
        with suppress(NoValidMapping):
            if kind == COUNTS:
                counter = Counter(space)
                _refuse_interrupted(counter.count_settled(0, None)[2])
                if not counter.by_state:
                    continue  # the next machine may be one that is
                _refuse_interrupted(counter.count_within(1e30).stop)
            else:
                if kind == PLAIN:
                    Descent(space, (1.0, 0.0)).go(1)
                _refuse_interrupted(Solver(space, cycles=True).search().stop)
            _DONE.add(kind)


def _refuse_interrupted(stop: str) -> None:
    if stop == "interrupted":  # a search keeps Ctrl-C to itself, to end with what it has
        raise KeyboardInterrupt
