"""The largest energy, cycles and outer words that a valid mapping can have: found, and proved.

What is charged for words adds up, so `accelsim.population.worst` bounds it, and comes to mappings that take as much.
Cycles are those of the slowest part: each limited port, and the compute units. Axis letters: L = levels (outermost
first), T = tensors.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.inputs.mapping import Mapping
from accelsim.model.encode import decode_mapping
from accelsim.model.evaluate import evaluate_encoded
from accelsim.population.charges import Row, cycle_rows, energy_rows, word_rows
from accelsim.population.columns_kernel import CYCLES, ENERGY, WORDS
from accelsim.population.steps import Nest
from accelsim.population.worst import Worst, WorstSearch

MOST_LABELS, FEW_LABELS = 20_000, 300
"""Labels that a search for the largest value holds at a time: where it may take seconds, and a part of one."""
STEP, STEPS = 0.9, 100
"""A search lowers its floor so, and so often, until some mapping lies above, or the floor is the value known."""


class Extreme(NamedTuple):
    """The largest value of a column that was found, a mapping that has it if it was found here, and a bound on all."""

    value: float
    mapping: Mapping | None
    bound: float


def largest_value(
    nest: Nest, column: int, known: float = 0.0, *, most_labels: int = MOST_LABELS, deadline: float | None = None
) -> Extreme:
    """Look for the largest value of a column, and bound it.

    Parameters
    ----------
    nest : Nest
    column : {ENERGY, CYCLES, WORDS}
        Energy in pJ; words in storage words at the outermost level.
    known : float
        A value that some valid mapping has; 0 if none is known.
    most_labels : int
        Labels that are held at a time; 0: no search, only the bound that it begins with.
    deadline : float, optional
        When to end with the bound reached, by `time.monotonic`.

    Returns
    -------
    Extreme
        `value` is `known` if no mapping with more was found; `bound` is the same where it is proved.
    """
    rows = {ENERGY: energy_rows, CYCLES: cycle_rows, WORDS: word_rows}[column](nest)
    found, bound = Extreme(known, None, known), known
    for row in rows:
        search = WorstSearch(nest, row.charges, deadline)
        top = row.value(search.bound)
        if top > found.value and most_labels:
            found, top = _search(search, row, column, found, most_labels)
        bound = max(bound, top)
    return Extreme(found.value, found.mapping, max(found.value, bound))


def _search(search: WorstSearch, row: Row, column: int, found: Extreme, most_labels: int) -> tuple[Extreme, float]:
    """The largest value found, and the bound of a row."""
    top, known = search.bound, found.value
    for _ in range(STEPS):
        floor = max(STEP * top, row.total(known))
        tried = search.above(floor, most_labels)
        top = min(top, tried.bound)
        if tried.bound > floor or floor <= row.total(known) or search.late:
            break
    found = _better(search, row, column, tried, found)
    while found.value > known and not search.late:
        known = found.value
        tried = search.above(row.total(known), most_labels)
        top, found = min(top, tried.bound), _better(search, row, column, tried, found)
    return found, row.value(top)


def _better(search: WorstSearch, row: Row, column: int, tried: Worst, found: Extreme) -> Extreme:
    """The largest value of the mappings that a search came to, if it is larger than one known."""
    space = search.nest.space
    for at, total in enumerate(tried.sums.tolist()):
        if row.value(total) <= found.value:
            break
        mapping = decode_mapping(space.encoded, tried.mappings, at)
        result = evaluate_encoded(space.encoded, mapping)
        value = {ENERGY: result.energy_pj, CYCLES: result.cycles, WORDS: result.outer_words}[column]
        if result.valid and value > found.value and not space.constraints.broken_by(mapping):
            found = Extreme(float(value), mapping, found.bound)
    return found
