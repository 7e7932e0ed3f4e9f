"""Windows that slide in the search: what of a tile is new at least, and their part of the memo key; compiled."""

from __future__ import annotations

from accelsim.model.detail import INSIDE, LOOPS, SPREAD
from accelsim.model.encode import Constants
from accelsim.model.jit import inline, jit
from accelsim.model.records import Ints1, Uints1
from accelsim.search.exact.memo_key import mix_key
from accelsim.search.exact.node import SearchNode
from accelsim.search.exact.shapes import Shapes


@jit
def mix_slides(c: Constants, node: SearchNode, key: Uints1, level: int, t: int) -> None:
    """Add the loops outside a tile that decide how a window may slide on."""
    s = node.s
    temporal, order = node.mapping.temporal[0], node.mapping.order[0]
    rank, idle = -1, 1
    for lv in range(level - 1, -1, -1):
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = order[lv, j]
            if not c.relevant[t, d]:
                idle *= temporal[lv, d]
                continue
            if rank >= 0 and c.rank[t, d] != rank:
                mix_key(key, -1)
                return
            rank = c.rank[t, d]
            mix_key(key, idle)
            mix_key(key, d)
            mix_key(key, temporal[lv, d])
            mix_key(key, s.place[lv + 1, d, INSIDE] * s.place[lv, d, SPREAD])


@inline
def new_share(c: Constants, shapes: Shapes, t: int, tile: Ints1, mid: Ints1, d: int) -> float:
    """Share of a windowed tile that is new after a step of the loop over d around the network."""
    extent = 1
    for e in range(tile.shape[0]):
        if c.relevant[t, e] and c.rank[t, e] == c.rank[t, d]:
            extent += c.factor[t, e] * (shapes.size[e, tile[e]] - 1)
    return min(1.0, float(c.factor[t, d] * shapes.size[d, mid[d]]) / float(extent))


@jit
def least_new_share(c: Constants, shapes: Shapes, t: int, tile: Ints1, mid: Ints1) -> float:
    """Half the smallest share that any step could leave: below what any sequence of loops costs."""
    least = 1.0
    for d in range(tile.shape[0]):
        if c.relevant[t, d]:
            least = min(least, new_share(c, shapes, t, tile, mid, d))
    return 0.5 * least


@inline
def passes_window(partner: Ints1, sizes: Ints1, tile: Ints1, d: int) -> bool:
    """Whether a window may need a loop over a dimension both outside a tile and inside.

    See docs/papers/exact-mapper.md, Lemma 27.
    `tile`: int64[D], numbers of its sizes; `sizes`: how many there are.

    >>> sizes, partner, tiles = np.array([3, 2]), np.array([1, 0]), np.array([[0, 1], [1, 0], [1, 1], [2, 1]])
    >>> [passes_window(partner, sizes, tile, 0) for tile in tiles]
    [False, False, True, False]
    """
    return bool(0 < tile[d] < sizes[d] - 1 and tile[partner[d]] > 0)
