"""What words of the output cost that cost-to-go tables count for each copy of it, and for one of each width.

Axis letters as in `bounds`.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.encode import BY_READ, BY_RETURN, BY_TRANSFER, BY_UPDATE, BY_WRITE, Floats
from accelsim.search.exact.layout import layout_of
from accelsim.search.exact.shapes import Grid


def copies_apart(grid: Grid, deepest: list[int]) -> list[Floats]:
    """Copies of the output at the tiles of each level, and of the compute units: one, and as many as there can be.

    One alone where the others make no difference further in. `deepest`: innermost level that may keep each tensor.
    """
    c = grid.space.encoded.constants
    levels, output = len(c.fanout), int(c.output[0])
    found, most = [], 1.0
    for level in range(levels + 1):
        some = level < levels and (deepest[output] > level or c.transfers.any())
        several = most > 1.0 and some and not c.windowed[output]
        found.append(np.array([1.0, most] if several else [1.0]))
        most *= float(np.max(grid.options[level].apart, initial=1.0)) if level < levels else 1.0
    return found


class OutputCosts:
    """What words of the output cost that tables count for each copy of it, and for one of each width.

    Parameters
    ----------
    grid : Grid
    pj : float64[L, T, 4]
        As for `make_bounds`.

    Attributes
    ----------
    pj : float64[L, T, 4]
        The same for the widest words of the output; wider : float64[L], how much wider these are.
    elided, narrow, copy_costs
        As `Bounds` has them.
    """

    def __init__(self, grid: Grid, pj: Floats) -> None:
        self.grid, self.shapes, self.c, self.layout = grid, grid.shapes, grid.space.encoded.constants, layout_of(grid)
        self.levels, self.tensors = self.c.word_parts.shape[:2]
        self.wider = self._widths()
        self.pj = pj.copy()
        self.pj[:, self.c.output[0], :BY_TRANSFER] *= self.wider[:, None]
        self._count_off()

    def _widths(self) -> Floats:
        """How much wider partial sums are than the narrowest words of the output: float64[L].

        1 if it has windows, where the words into tiles are known too roughly.
        """
        t = int(self.c.output[0])
        parts = np.maximum(self.c.word_parts[:, t], 1)
        return np.ones(self.levels) if self.c.windowed[t] else parts[:, 1] / parts.min(axis=1)

    def _count_off(self) -> None:
        """Note what tables count too much for one copy of the output; docs/papers/exact-mapper.md, Lemmas 12 and 13."""
        t = int(self.c.output[0])
        whole = 0.0 if self.c.windowed[t] else float(self.c.whole[t])
        pj = self.pj[:, t] * whole
        narrow = 1.0 - 1.0 / self.wider
        self.elided, self.narrow = pj[:, BY_READ].copy(), pj[:, BY_UPDATE] * narrow
        self.entering = pj[:, BY_RETURN].copy()
        self.entering[:-1] += pj[1:, BY_WRITE] + self.elided[1:]
        self.finished = np.zeros(self.levels)
        self.finished[:-1] = self.narrow[1:] + np.where(self.c.drain[1:], pj[1:, BY_READ] * narrow[1:], 0.0)
        costs = np.zeros(self.levels + 1)
        for level in range(self.levels - 1, -1, -1):
            innermost = level == self.levels - 1
            end = level + 2 if innermost else int(self.c.nodes[level + 1, 1])  # of the nodes of a level one keeps it
            keeps = innermost or self.layout.may_keep[level + 1 : end, t].any()
            apart = self.layout.apart[level]
            entering = self.entering[level] + whole * self._coming_back(level, 0)
            costs[level] = apart * (costs[end - 1] + (entering if keeps else 0.0))
        self.copy_costs = costs

    def _coming_back(self, level: int, parent: int) -> float:
        """Cost of a word of the output that comes back over these networks, if that of the level has one child."""
        output = int(self.c.output[0])
        if self.c.windowed[output] or parent >= level or self.layout.widest[level] > 1:
            return 0.0
        return float(self.pj[self.layout.nearest(parent, level) : level, output, BY_RETURN].sum())
