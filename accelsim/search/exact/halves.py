"""Tables of outer halves of mappings, and how those that workers noted are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from accelsim.model.detail import Detail
from accelsim.model.encode import Batch, Ints
from accelsim.search.exact.halves_kernel import HALVES, MOST, STATES, Halves, Notes
from accelsim.search.exact.node import Path

STATE_ROOM = 1 << 18
"""States of a level, at most; memory is taken as it is filled, some 2 kB each for every worker that meets it."""
HALF_ROOM = 1 << 25
"""Outer halves of a level that are noted, at most; memory is taken as it is filled, 24 bytes each."""
GRID = 2.0**-44
"""Halves of a state are one if their energies differ by no more than this share of the limit: by rounding."""


PASSING = {
    "cursor", "lower", "mix", "mix_weight", "within", "within_weight", "within_sets", "piece", "piece_end", "pieces",
    "status", "cycles", "pj", "column", "failed", "many_failed", "least", "free", "span",
}  # fmt: skip
"""What is written for each node of a path before it is read, or is for remainders."""


class Live(NamedTuple):
    """A path and its detail whose arrays lie one after the other, so that they can be kept and put back at once.

    int_at, float_at, bool_at : int64[L, *], where the last two levels of the tiles of a level lie in them.
    """

    path: Path
    detail: Detail
    ints: Any
    floats: Any
    bools: Any
    int_at: Ints
    float_at: Ints
    bool_at: Ints


def make_live(path: Path, detail: Detail) -> Live:
    """Lay those arrays of a path and of its detail that outlast a node one after the other."""
    kept = {"at": detail.at, "place": detail.place, "level": detail.level}
    lasting = {
        name: each for name, each in path._asdict().items() if isinstance(each, np.ndarray) and name not in PASSING
    }
    arrays = [*(each[0] for each in path.mapping), *lasting.values(), *kept.values()]
    kinds = tuple(np.dtype(kind) for kind in (np.int64, np.float64, np.bool_))
    flat = {kind: np.concatenate([each.ravel() for each in arrays if each.dtype == kind]) for kind in kinds}
    rows: dict[Any, list[list[Ints]]] = {kind: [[] for _ in range(path.mapping.keep.shape[1])] for kind in kinds}
    used = dict.fromkeys(kinds, 0)

    def laid(array: Any) -> Any:
        start, kind = used[array.dtype], array.dtype
        used[kind] += array.size
        of_level = np.arange(start, used[kind]).reshape(len(array), -1)
        for level, at in enumerate(rows[kind]):
            at.append(of_level[max(level, 1) - 1 : max(level, 1) + 1].ravel())
        return flat[kind][start : used[kind]].reshape(array.shape)

    mapping = Batch(*(laid(each[0])[None] for each in path.mapping))
    others = {name: laid(each) for name, each in lasting.items()}
    live_detail = detail._replace(**{name: laid(each) for name, each in kept.items()})
    at = [np.array([np.concatenate(row) for row in rows[kind]]) for kind in kinds]
    return Live(path._replace(mapping=mapping, **others), live_detail, *flat.values(), *at)


def make_notes(live: Live | None) -> Notes:
    """Room for what a worker comes to at the tiles of a level."""
    states, halves = (STATE_ROOM, HALF_ROOM) if live is not None else (0, 0)
    ints, floats, bools = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_)
    at = [np.zeros((0, 0), np.int64)] * 3
    if live is not None:
        ints, floats, bools, at = live.ints, live.floats, live.bools, [live.int_at, live.float_at, live.bool_at]
    return Notes(
        level=np.zeros(1, np.int64),
        at=np.zeros(1, np.int64),
        shift=np.zeros(1),
        hash=np.zeros(2, np.int64),
        slot=np.zeros(2 * states, np.int64),
        many=np.zeros(2, np.int64),
        state=np.zeros((states, 2), np.int64),
        own=np.zeros(states),
        ints=np.zeros((states, at[0].shape[1]), np.int64),
        floats=np.zeros((states, at[1].shape[1])),
        bools=np.zeros((states, at[2].shape[1]), np.bool_),
        up=np.zeros(states, np.int64),
        of=np.zeros(halves, np.int64),
        energy=np.zeros(halves),
        ways=np.zeros(halves, np.int64),
        live_ints=ints,
        live_floats=floats,
        live_bools=bools,
        int_at=at[0],
        float_at=at[1],
        bool_at=at[2],
        mappings=np.zeros(1, np.int64),
        about=np.zeros(1),
    )


def begin_notes(notes: Notes, level: int) -> None:
    """Forget what was noted, and go on with the tiles of a level."""
    notes.level[0], notes.at[0], notes.shift[0] = level, 0, 0.0
    notes.slot[: len(notes.slot) if notes.many[STATES] else 0] = 0
    notes.many[:], notes.mappings[0], notes.about[0] = 0, 0, 0.0


def outermost(energy: float) -> Halves:
    """The one outer half of the outermost tile, which costs so much [pJ]."""
    return Halves(
        first=np.array([0, 1], np.int64),
        energy=np.array([energy]),
        ways=np.ones(1, np.int64),
        sums=np.array([0, 1], np.int64),
        own=np.array([energy]),
        ints=np.zeros((0, 0), np.int64),
        floats=np.zeros((0, 0)),
        bools=np.zeros((0, 0), np.bool_),
        up=np.zeros(0, np.int64),
        base=np.zeros(1, np.int64),
    )


def put_together(parts: Sequence[Notes], limit: float, outside: Halves) -> Halves:
    """The outer halves that workers noted, each state once.

    Parameters
    ----------
    outside : Halves
        Those of the level before, that these go on from.
    limit : float
        What mappings have at most [pJ]; see `GRID`.

    Raises
    ------
    OverflowError
        If there is no room for so many, or they stand for too many mappings to add up in 64 bits.
    """
    if sum(int(part.many[HALVES]) for part in parts) > HALF_ROOM:
        raise OverflowError("too many outer halves")
    noted = [part for part in parts if part.many[HALVES]]
    states = [int(part.many[STATES]) for part in noted]
    rows = [int(part.many[HALVES]) for part in noted]
    hashes = np.concatenate([part.state[:many] for part, many in zip(noted, states, strict=True)])
    _, kept, number = np.unique(hashes, axis=0, return_index=True, return_inverse=True)
    if len(kept) > STATE_ROOM:
        raise OverflowError("too many states")
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

    def after(known: Any, new: Any) -> Any:
        return np.concatenate([known.reshape(-1, *new.shape[1:]), new])

    return Halves(
        first=np.searchsorted(of, np.arange(len(kept) + 1)),
        energy=energy,
        ways=ways,
        sums=np.concatenate([np.zeros(1, np.int64), np.cumsum(ways)]),
        own=kept_of("own"),
        ints=after(outside.ints, kept_of("ints")),
        floats=after(outside.floats, kept_of("floats")),
        bools=after(outside.bools, kept_of("bools")),
        up=after(outside.up, kept_of("up") + outside.base[0]),
        base=np.array([len(outside.up)], np.int64),
    )


NO_HALVES, NO_NOTES = outermost(0.0), make_notes(None)
"""For searches that do not count by halves."""
