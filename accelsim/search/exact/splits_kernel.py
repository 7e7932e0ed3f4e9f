"""Splits over the two axes of a network; compiled. Axis letters: D = dimensions."""

from __future__ import annotations

import numpy as np

from accelsim.model.jit import jit
from accelsim.model.records import Ints1, Ints2, Ints3


@jit
def pick_splits(
    place: Ints3,
    spread_stride: Ints1,
    x: Ints2,
    y: Ints2,
    x_key: Ints2,
    y_key: Ints2,
    pair: Ints2,
    spreads: int,
    every: bool,
    alike: bool,
) -> int:
    """Pair the bounds on two axes; of pairs with one spread only those that share most, unless `every`.

    Parameters
    ----------
    place : int64[D, *, *]
        Index of the bound that a bound on x and one on y have together, -1 if it is none; by their numbers.
    spread_stride : int64[D]
        As `Shapes` has it.
    x, y : int64[*, D]
        Numbers of the bounds on the axes.
    x_key, y_key : int64[*, keys]
        The last must be equal for two pairs to be compared, the others multiply and should be large.
    spreads : int
        Spread numbers that there are.
    pair : int64[*, 2]
        Written: rows of x and y, -1 for pairs given up again.

    Returns
    -------
    int
        Rows of `pair` that are in use.
    """
    found, head, after = 0, np.full(spreads, -1), np.empty(pair.shape[0], np.int64)
    dims, keys = x.shape[1], x_key.shape[1]
    for a in range(x.shape[0]):
        for b in range(y.shape[0]):
            spread = 0
            for d in range(dims):
                index = place[d, x[a, d], y[b, d]]
                if index < 0:
                    spread = -1
                    break
                spread += index * spread_stride[d]
            if spread < 0:
                continue
            if not every:
                at, last, worse = head[spread], -1, False
                while at >= 0 and not worse:
                    i, j, beaten = pair[at, 0], pair[at, 1], False
                    if x_key[i, keys - 1] == x_key[a, keys - 1] and y_key[j, keys - 1] == y_key[b, keys - 1]:
                        more, less = False, False
                        for k in range(keys - 1):
                            mine, other = x_key[a, k] * y_key[b, k], x_key[i, k] * y_key[j, k]
                            more |= mine > other
                            less |= mine < other
                        worse = not more
                        beaten = more and not less
                    if beaten:
                        pair[at, 0] = -1
                        if last < 0:
                            head[spread] = after[at]
                        else:
                            after[last] = after[at]
                    else:
                        last = at
                    worse |= alike
                    at = after[at]
                if worse:
                    continue
                after[found] = head[spread]
                head[spread] = found
            pair[found, 0], pair[found, 1] = a, b
            found += 1
    return found
