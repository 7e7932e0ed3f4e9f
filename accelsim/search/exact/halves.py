"""Tables of outer halves of mappings, and how those that parts of a count noted are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from accelsim.model.detail import Detail
from accelsim.model.encode import Batch
from accelsim.search.exact.halves_kernel import HALVES, MOST, STATES, Halves, Notes
from accelsim.search.exact.node import Path

STATE_ROOM = 1 << 17
"""States that one part may note."""
HALF_ROOM = 1 << 23
"""Outer halves that one part may note; memory is taken as it is filled, 24 bytes each."""
GRID = 2.0**-44
"""Halves of a state are one if their energies differ by no more than this share of the limit: by rounding."""


class Live(NamedTuple):
    """A path and its detail whose arrays lie one after the other, so that they can be kept and put back at once."""

    path: Path
    detail: Detail
    ints: Any
    floats: Any
    bools: Any


def make_live(path: Path, detail: Detail) -> Live:
    """Lay the arrays of a path and of its detail one after the other."""
    kept = {"at": detail.at, "place": detail.place, "level": detail.level}
    arrays = [*path.mapping, *(each for each in path if isinstance(each, np.ndarray)), *kept.values()]
    flat = {
        kind: np.concatenate([each.ravel() for each in arrays if each.dtype == kind])
        for kind in (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.bool_))
    }
    used = dict.fromkeys(flat, 0)

    def laid(array: Any) -> Any:
        start = used[array.dtype]
        used[array.dtype] += array.size
        return flat[array.dtype][start : start + array.size].reshape(array.shape)

    mapping = Batch(*(laid(each) for each in path.mapping))
    others = {name: laid(each) for name, each in path._asdict().items() if isinstance(each, np.ndarray)}
    live_detail = detail._replace(**{name: laid(each) for name, each in kept.items()})
    return Live(path._replace(mapping=mapping, **others), live_detail, *flat.values())


def make_notes(level: int, live: Live | None) -> Notes:
    """Room for what a part of a count comes to at the tiles of a level."""
    states, halves = (STATE_ROOM, HALF_ROOM) if live is not None else (0, 0)
    ints, floats = np.zeros(0, np.int64), np.zeros(0)
    bools = np.zeros(0, np.bool_)
    if live is not None:
        ints, floats, bools = live.ints, live.floats, live.bools
    return Notes(
        level=np.array([level], np.int64),
        at=np.zeros(1, np.int64),
        shift=np.zeros(1),
        hash=np.zeros(2, np.int64),
        slot=np.zeros(2 * states, np.int64),
        many=np.zeros(2, np.int64),
        state=np.zeros((states, 2), np.int64),
        own=np.zeros(states),
        ints=np.zeros((states, len(ints)), np.int64),
        floats=np.zeros((states, len(floats))),
        bools=np.zeros((states, len(bools)), np.bool_),
        of=np.zeros(halves, np.int64),
        energy=np.zeros(halves),
        ways=np.zeros(halves, np.int64),
        live_ints=ints,
        live_floats=floats,
        live_bools=bools,
        mappings=np.zeros(1, np.int64),
        about=np.zeros(1),
    )


def outermost(energy: float) -> Halves:
    """The one outer half of the outermost tile, which costs so much [pJ]."""
    return Halves(
        first=np.array([0, 1], np.int64),
        energy=np.array([energy]),
        ways=np.ones(1, np.int64),
        sums=np.array([0, 1], np.int64),
        own=np.array([energy]),
        ints=np.zeros((1, 0), np.int64),
        floats=np.zeros((1, 0)),
        bools=np.zeros((1, 0), np.bool_),
    )


def put_together(parts: Sequence[Notes], limit: float) -> Halves:
    """The outer halves that parts of a count noted, each state once.

    Parameters
    ----------
    limit : float
        What mappings have at most [pJ]; see `GRID`.

    Raises
    ------
    OverflowError
        If these stand for too many mappings to add up in 64 bits.
    """
    noted = [part for part in parts if part.many[HALVES]]
    states = [int(part.many[STATES]) for part in noted]
    rows = [int(part.many[HALVES]) for part in noted]
    hashes = np.concatenate([part.state[:many] for part, many in zip(noted, states, strict=True)])
    _, kept, number = np.unique(hashes, axis=0, return_index=True, return_inverse=True)
    starts = np.cumsum([0, *states])
    of = np.concatenate(
        [number.reshape(-1)[start + part.of[:many]] for start, part, many in zip(starts, noted, rows, strict=False)]
    )
    energy = np.concatenate([part.energy[:many] for part, many in zip(noted, rows, strict=True)])
    ways = np.concatenate([part.ways[:many] for part, many in zip(noted, rows, strict=True)])
    if ways.sum(dtype=np.float64) > MOST:
        raise OverflowError("outer halves stand for too many mappings")
    energy = np.rint(energy / (limit * GRID)) * (limit * GRID)
    order = np.lexsort((energy, of))
    of, energy, ways = of[order], energy[order], ways[order]
    new = np.ones(len(of), np.bool_)
    new[1:] = (of[1:] != of[:-1]) | (energy[1:] != energy[:-1])
    at = np.flatnonzero(new)
    of, energy, ways = of[at], energy[at], np.add.reduceat(ways, at)

    owner = np.searchsorted(starts, kept, side="right") - 1

    def kept_of(name: str) -> Any:
        first = getattr(noted[0], name)
        found = np.empty((len(kept), *first.shape[1:]), first.dtype)
        for k, part in enumerate(noted):
            found[owner == k] = getattr(part, name)[kept[owner == k] - starts[k]]
        return found

    return Halves(
        first=np.searchsorted(of, np.arange(len(kept) + 1)),
        energy=energy,
        ways=ways,
        sums=np.concatenate([np.zeros(1, np.int64), np.cumsum(ways)]),
        own=kept_of("own"),
        ints=kept_of("ints"),
        floats=kept_of("floats"),
        bools=kept_of("bools"),
    )


NO_HALVES, NO_NOTES = outermost(0.0), make_notes(0, None)
"""For searches that do not count by halves."""
