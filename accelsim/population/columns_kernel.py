"""What mappings cost, as columns of a census, compiled. B = mappings, L = levels, D = dimensions, T = tensors."""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import PARTIAL, READS, USED, Detail
from accelsim.model.encode import Batch, Constants, Floats
from accelsim.model.jit import jit
from accelsim.model.kernel import VALID, cost, fit

ENERGY, CYCLES, WORDS, UNITS = range(4)


@jit
def evaluate_columns(c: Constants, batch: Batch, s: Detail, column: Floats) -> None:
    """Evaluate a batch.

    Parameters
    ----------
    column : float64[4, B]
        Written: energy [pJ], cycles, words read and written at the outermost level, compute units in use; infinite for
        what does not fit.
    """
    for b in range(batch.temporal.shape[0]):
        temporal, order, x, y, keep = batch.temporal[b], batch.order[b], batch.x[b], batch.y[b], batch.keep[b]
        column[:, b] = np.inf
        if fit(c, temporal, x, y, keep, s, False) != VALID:
            continue
        status, energy, cycles = cost(c, temporal, order, x, y, keep, s, False)
        if status != VALID:
            continue
        words = 0
        for t in range(keep.shape[1]):
            for action in range(3):
                words += s.at[0, t, READS + action] * c.word_parts[0, t, s.at[0, t, PARTIAL]]
        column[ENERGY, b], column[CYCLES, b] = energy, float(cycles)
        column[WORDS, b], column[UNITS, b] = float(words), float(s.level[temporal.shape[0], USED])
