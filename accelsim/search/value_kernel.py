"""What a mapping is worth to a search: the value of an objective, and limits on costs; compiled.

Axis letters: K = products of an objective.
"""

from __future__ import annotations

import numpy as np

from accelsim.inputs.objective import FASTEST, LEAST_EDP, LEAST_ENERGY, Objective
from accelsim.model.detail import FILLS, PARTIAL, READS, UPDATES, Detail
from accelsim.model.encode import Constants, Floats
from accelsim.model.jit import inline
from accelsim.model.records import Floats1, Floats2

ENERGY, CYCLES, WORDS, CAPACITY = range(4)
"""Columns of what a mapping costs: [pJ], [cycles], [words at the outermost level], [words held at a level]."""

PLAIN = 5
"""Column of terms that says 1: energy, 2: energy times cycles, 3: cycles, which are quicker to tell."""
_PLAIN = {LEAST_ENERGY.terms: 1.0, LEAST_EDP.terms: 2.0, FASTEST.terms: 3.0}


def terms_of(objective: Objective) -> Floats:
    """An objective as `value_of` reads it: float64[K, 6], weights, powers of the columns, and 0.

    In place of the last 0 the first row of energy, EDP and cycles alone has the numbers of `PLAIN`.
    """
    terms = np.array([[*term, 0.0, 0.0] for term in objective.terms])
    terms[0, PLAIN] = _PLAIN.get(objective.terms, 0.0)
    return terms


@inline
def offchip_words(c: Constants, units: int) -> float:
    """Storage words of so many units of the outermost level; the last one counts whole."""
    return float(max(0, -(-units // c.outer_units[0])))


@inline
def moved_units(c: Constants, s: Detail) -> int:
    """Units that a mapping moves at the outermost level, with those that all else waits for."""
    units = 0
    for t in range(c.whole.shape[0]):
        part = c.word_parts[0, t, s.at[0, t, PARTIAL]]
        units += (s.at[0, t, READS] + s.at[0, t, FILLS] + s.at[0, t, UPDATES]) * part
    return units


@inline
def term_of(terms: Floats2, k: int, energy: float, cycles: float, words: float, held: float) -> float:
    """Value of one product of an objective."""
    found = terms[k, 0]
    for column in range(4):
        power = terms[k, 1 + column]
        if power != 0.0:
            cost = energy if column == ENERGY else cycles if column == CYCLES else words if column == WORDS else held
            found *= cost if power == 1.0 else cost**power
    return float(found)


@inline
def value_of(terms: Floats2, energy: float, cycles: float, words: float, held: float) -> float:
    """Value of an objective; terms : float64[K, 6]."""
    plain = terms[0, PLAIN]
    if plain > 0.0:
        return energy if plain == 1.0 else energy * cycles if plain == 2.0 else cycles
    found = term_of(terms, 0, energy, cycles, words, held)
    for k in range(1, terms.shape[0]):
        found += term_of(terms, k, energy, cycles, words, held)
    return float(found)


@inline
def within_limits(most: Floats1, energy: float, cycles: float, words: float) -> bool:
    """Whether costs, or what they are at least, keep their limits; most : float64[3]."""
    return bool(energy <= most[ENERGY] and cycles <= most[CYCLES] and words <= most[WORDS])
