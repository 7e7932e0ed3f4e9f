"""How a kernel's work is shared out over SMs: whole tiles (data-parallel), parts of K (split-K), or Stream-K.

Stream-K: Osama, Merrill, Cecka, Garland, Owens, "Stream-K: Work-Centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", PPoPP 2023, sections 4 and 5; `ThreadblockSwizzleStreamK` in CUTLASS. The iterations of the
last whole wave of tiles and of what remains are handed out evenly, one work unit to each SM, so that a unit has from
one to two tiles of work; the waves before are whole tiles. Fewer tiles than SMs are all handed out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.arrays import Floats

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
"""Parts into which K may be split."""
STREAM_K = 0
"""Stands after `SPLITS` for Stream-K."""
SCHEDULES = (*SPLITS, STREAM_K)
LEAST_ITERATIONS = 2
"""Fewest iterations of a work unit (CUTLASS, `kMinItersPerSkBlock`)."""


@dataclass(frozen=True, slots=True)
class StreamK:
    """What each SM has to do; arrays of any one shape.

    Attributes
    ----------
    whole_tiles : float
        Tiles that each SM computes as a whole, before its unit.
    units : float
        Work units.
    iterations : float
        Of a unit; the last one may have fewer.
    fixups : float
        Units that begin inside a tile: each leaves partial sums, which the tile's first unit adds to its own.
    peers : float
        Units that share a tile, at most.
    """

    whole_tiles: Floats
    units: Floats
    iterations: Floats
    fixups: Floats
    peers: Floats


def stream_k(tiles: Any, tile_iterations: Any, sms: int) -> StreamK:
    """Count the work of a Stream-K kernel.

    Parameters
    ----------
    tiles : float or array
        Output tiles.
    tile_iterations : float or array
        Iterations of the main loop for one tile.
    sms : int

    Examples
    --------
    Nine tiles of 32 iterations on four SMs: 72 iterations for each SM, where whole tiles are 96 for the busiest.

    >>> work = stream_k(9, 32, 4)
    >>> float(work.whole_tiles * 32 + work.iterations), float(work.fixups), float(work.peers)
    (72.0, 3.0, 2.0)
    """
    tiles, each = np.broadcast_arrays(np.asarray(tiles, np.float64), np.asarray(tile_iterations, np.float64))
    whole = np.maximum(np.floor(tiles / sms) - 1, 0)
    shared = (tiles - whole * sms) * each
    iterations = np.maximum(np.ceil(shared / sms), np.minimum(LEAST_ITERATIONS, shared))
    units = np.ceil(shared / iterations)
    common = np.gcd(iterations.astype(np.int64), each.astype(np.int64)).astype(np.float64)
    fixups = units - 1 - np.floor((units - 1) * (common / each))
    peers = 1 + np.ceil((each - common) / iterations)
    return StreamK(whole, units, iterations, fixups, peers)


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the busiest SM, of products [P] with tiles [T] and schedules [S].

    Attributes
    ----------
    steps : float[P, T, S]
        Steps of the main loop.
    rounds : float[P, T, S]
        Tiles one after the other.
    at_once : float[P, T, S]
        Blocks that share the SM.
    possible : bool[P, T, S]
        False where K has fewer steps than parts, and for Stream-K where whole tiles fill every wave.
    fixups, peers : float[P, T, 1]
        As of `StreamK`; 0 and 1 where it is not asked for.
    """

    steps: Floats
    rounds: Floats
    at_once: Floats
    possible: NDArray[np.bool_]
    fixups: Floats
    peers: Floats


def work_of(blocks: Floats, steps: Floats, schedules: Floats, sms: int, occupancy: Floats) -> Work:
    """Share out the tiles of products.

    Parameters
    ----------
    blocks : float[P, T, 1]
        Output tiles.
    steps : float[P, 1, 1]
        Steps of the main loop for a tile.
    schedules : float[S]
        Out of `SCHEDULES`; `STREAM_K` is the last, if there.
    sms : int
    occupancy : float[1, T, 1]
        Blocks that fit one SM.
    """
    splits = schedules[schedules != STREAM_K]
    rounds = np.ceil(blocks * splits * (1 / sms))
    found = Work(
        steps=np.ceil(steps / splits) * rounds,
        rounds=rounds,
        at_once=np.minimum(rounds, occupancy),
        possible=np.broadcast_to(splits <= steps, rounds.shape),
        fixups=np.zeros((1, 1, 1)),
        peers=np.ones((1, 1, 1)),
    )
    if len(splits) == len(schedules):
        return found
    work = stream_k(blocks, steps, sms)
    of_sm = work.whole_tiles * steps + work.iterations
    return Work(
        steps=_beside(found.steps, of_sm),
        rounds=_beside(rounds, np.maximum(of_sm / steps, 1.0)),
        at_once=_beside(found.at_once, np.ones_like(of_sm)),
        possible=_beside(found.possible, np.fmod(blocks, sms) > 0),
        fixups=work.fixups,
        peers=work.peers,
    )


def _beside(values: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([values, last], axis=2)
