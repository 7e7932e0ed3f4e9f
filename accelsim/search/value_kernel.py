"""What a mapping is worth to a search: the value of an objective, and limits on costs; compiled.

Axis letters: K = products of an objective.
"""

from __future__ import annotations

import numpy as np

from accelsim.inputs.objective import Objective
from accelsim.model.encode import Constants, Floats
from accelsim.model.jit import inline

ENERGY, CYCLES, WORDS, CAPACITY = range(4)
"""Columns of what a mapping costs: [pJ], [cycles], [words at the outermost level], [words held at a level]."""


def terms_of(objective: Objective) -> Floats:
    """An objective as `value_of` reads it: float64[K, 5], weights and powers of the columns."""
    return np.array([[*term, 0.0] for term in objective.terms])


@inline
def outer_words(c: Constants, units: int) -> float:
    """Storage words of so many units of the outermost level; the last one counts whole."""
    return float(max(0, -(-units // c.outer_units[0])))


@inline
def term_of(terms: Floats, k: int, energy: float, cycles: float, words: float, held: float) -> float:
    """Value of one product of an objective."""
    found = terms[k, 0]
    for column in range(4):
        power = terms[k, 1 + column]
        if power != 0.0:
            cost = energy if column == ENERGY else cycles if column == CYCLES else words if column == WORDS else held
            found *= cost if power == 1.0 else cost**power
    return float(found)


@inline
def value_of(terms: Floats, energy: float, cycles: float, words: float, held: float) -> float:
    """Value of an objective; terms : float64[K, 5]."""
    found = term_of(terms, 0, energy, cycles, words, held)
    for k in range(1, terms.shape[0]):
        found += term_of(terms, k, energy, cycles, words, held)
    return float(found)


@inline
def within_limits(most: Floats, energy: float, cycles: float, words: float) -> bool:
    """Whether costs, or what they are at least, keep their limits; most : float64[3]."""
    return bool(energy <= most[ENERGY] and cycles <= most[CYCLES] and words <= most[WORDS])
