"""Words that children of a network pass to each other, and links of a mesh; docs/papers/cost-model.md, section 4."""

from __future__ import annotations

from accelsim.model.detail import BEFORE, GIVERS, INSIDE, LINKED, LOOPS, SPREAD, TILE, USED, Detail
from accelsim.model.encode import BY_READ, Batch, Constants
from accelsim.model.jit import inline, jit
from accelsim.model.windows import distinct


@jit
def link_transfers(c: Constants, m: Batch, i: int, s: Detail, lv: int, t: int) -> int:
    """Count the words of a tile of an input that come from a neighbour; returns the groups that read all others.

    They pass along x, or else along y, where one dimension alone is spread over the axis.
    """
    x, y = m.x[i], m.y[i]
    network = c.nodes[lv, 0] - 1
    s.at[lv, t, LINKED], s.at[lv, t, GIVERS] = 0, 0
    if not c.windowed[t]:
        return 0
    for axis in range(2):
        d, size = -1, 1
        for e in range(c.relevant.shape[1]):
            bound = y[network, e] if axis else x[network, e]
            if bound > 1:
                d, size = e if size == 1 else -1, size * bound
        if d < 0 or not c.relevant[t, d]:
            continue
        apart = c.factor[t, d] * s.place[network + 1, d, INSIDE] * (1 if axis else y[network, d])
        s.at[lv, t, LINKED] = link_words(c, m, i, s, lv, t, c.rank[t, d], apart)
        if s.at[lv, t, LINKED] > 0:
            s.at[lv, t, GIVERS] = s.level[lv, USED] // size * (size - 1)
            shares_x, shares_y = c.multicast[network, 0, t] and axis == 1, c.multicast[network, 1, t] and axis == 0
            return int(distinct(c, s, x, y, network, t, shares_x, shares_y) // size)
    return 0


@jit
def spare_links(c: Constants, s: Detail, lv: int, t: int, reads: int, every: bool) -> float:
    """Energy [pJ] that `_account` charges too much where some instances alone pass words on to their neighbours."""
    part, block = c.word_parts[lv, t, 0], c.block[lv]
    more = -(-reads * part // block) + -(reads - s.at[lv, t, LINKED]) * part // block
    spared = float(more) * float(s.level[lv, USED] - s.at[lv, t, GIVERS]) * c.energy[lv, t, BY_READ]
    if every:
        s.energy[lv, t, BY_READ] -= spared
    return spared


@inline
def _along(many: int, apart: int) -> int:
    """Links along a line from its first child to the last one of each group of neighbours that share words."""
    each = many // apart
    return each * (apart * (apart - 1) // 2) + apart * (each - 1)


@jit
def mesh_links(c: Constants, m: Batch, i: int, lv: int, t: int, shares_x: bool, shares_y: bool) -> int:
    """Links of the mesh below an instance, in all, that a word of each child passes, along x and then along y.

    Those that share words, at equal indices of all loops that move the tensor, stand side by side.
    """
    x, y = m.x[i], m.y[i]
    many_x, many_y, apart_x, apart_y = 1, 1, 1, 1
    for d in range(c.relevant.shape[1]):
        many_x *= x[lv, d]
        many_y *= y[lv, d]
        apart_x *= x[lv, d] if c.relevant[t, d] or not shares_x else 1
        apart_y *= y[lv, d] if c.relevant[t, d] or not shares_y else 1
    return apart_y * _along(many_x, apart_x) + many_x * _along(many_y, apart_y)


@jit
def mesh_energy(c: Constants, s: Detail, m: Batch, i: int, lv: int, t: int, words: int, back: int) -> float:
    """Energy [pJ] of the links below a level, for the words of each child (`back`: partial sums that return)."""
    if c.hop[lv, t] == 0.0:
        return 0.0
    down = mesh_links(c, m, i, lv, t, c.multicast[lv, 0, t], c.multicast[lv, 1, t])
    up = mesh_links(c, m, i, lv, t, c.reduction[lv, 0], c.reduction[lv, 1]) if t == c.output[0] else down
    return (float(words) * float(up) + float(back) * float(down)) * float(s.level[lv, USED]) * float(c.hop[lv, t])


@jit
def link_words(c: Constants, m: Batch, i: int, s: Detail, level: int, t: int, rank: int, apart: int) -> int:
    """Words into a tile that its neighbour, whose tile lies `apart` along a rank, took in in the step before.

    The last step before each one is that of the innermost loop, unless it begins anew. So this loop must move the tile
    along the rank. Its steps are alike; the first of each run follows one of a loop further out: a whole box, a step as
    its own, or none.
    """
    temporal, order = m.temporal[i], m.order[i]
    found, begun, step, steps, back, new, extent = 0, 0, 0, 0, 0, 0, 1
    for lv in range(level - 1, -1, -1):
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d, bound, before = order[lv, j], temporal[lv, order[lv, j]], s.place[lv, j, BEFORE]
            if not c.relevant[t, d] and step > 0:
                continue
            if not c.relevant[t, d] or c.rank[t, d] != rank:
                return int(s.at[level, t, TILE] // extent * new * (found + begun))
            far = c.factor[t, d] * s.place[lv + 1, d, INSIDE] * s.place[lv, d, SPREAD]
            if step == 0:
                for k in range(c.terms[t]):
                    if c.rank[t, c.term[t, k]] == rank:
                        extent += c.factor[t, c.term[t, k]] * (s.place[level, c.term[t, k], INSIDE] - 1)
                step, new = far, min(extent, far)
                if step == apart:
                    found, begun = before * (bound - 2), before if new == extent else 0
            else:
                steps = (bound - 1) * before
                if step == apart and far - back == step:
                    found += steps + (0 if new == extent else steps)
                elif step == apart and far == back:
                    begun -= steps if new == extent else 0
                elif step != apart and far - back == apart and new == extent:
                    found += steps
            back += far * (bound - 1)
    return int(s.at[level, t, TILE] // extent * new * (found + begun))
