"""What is proved, in words: one sentence for each result, and the section `Certificate` of a report."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Sequence

from accelsim.inputs.objective import Objective
from accelsim.inputs.units import format_bits, ratio
from accelsim.results import Provenance
from accelsim.search.result import Certificate, SearchedSpace, SearchResult
from accelsim.show.report import gap_text, goal_name, large, objective_value
from accelsim.show.table import Piece, heading, whole

STOPS = {
    "budget": "the sample is complete",
    "timeout": "by --time-limit",
    "memory": "by --memory-limit",
    "remainders": "with the lowest bounds of mappings with remainders evaluated",
    "effort": "as more mappings take long",
    "interrupted": "by an interrupt",
}
"""Why a search ended before it was complete."""
_WIDE, _INDENT = 80, 14


def lowest(objective: str) -> str:
    """What is minimized.

    >>> lowest("energy"), lowest("cycles"), lowest("edp")
    ('lowest energy', 'fewest cycles', 'lowest EDP')
    """
    return "fewest cycles" if objective == "cycles" else f"lowest {goal_name(objective)}"


def above(gap: float | None) -> str:
    """How far a result is from the optimum at most.

    >>> above(0.0215), above(None)
    ('at most 2.15 % above the optimum', 'no lower bound yet')
    """
    known = gap is not None and math.isfinite(gap)
    return f"at most {gap_text(gap)} above the optimum" if known else "no lower bound yet"


def proved(space: SearchedSpace) -> str:
    """That a result is optimal in a space.

    >>> print(proved(SearchedSpace(uneven=True, imperfect=("M", "K"), size=31 * 10**21)))
    optimal (proved) among 3.1e22 mappings with remainders, even and uneven
    >>> print(proved(SearchedSpace()))
    optimal (proved) among even mappings with perfect factors
    """
    return f"optimal (proved) among {mappings_of(space)}"


def mappings_of(space: SearchedSpace) -> str:
    """The mappings of a space, in a few words."""
    many = "" if space.size is None else f"{large(space.size)} "
    padded = f" and bounds padded to {', '.join(space.padded)}" if space.padded else ""
    factors = f"{'remainders' if space.imperfect else 'perfect factors'}{padded}"
    if space.uneven:
        return f"{many}mappings with {factors}, even and uneven"
    return f"{many}even mappings with {factors}"


def known(gap: float | None, space: SearchedSpace) -> str:
    """What is proved of a result, given its gap."""
    return proved(space) if gap is not None and gap < 1e-10 else above(gap)


def verdict(search: SearchResult) -> str:
    """What is proved of the best mapping that a search found."""
    proof = search.proof
    if proof is None:
        seen = f"{search.sample.seen:,} " if search.sample else ""
        return f"best of {seen}random mappings, no bound"
    if proof.proved:
        return proved(proof.space)
    part = widest_proved(search)
    if part is None:
        near = min(_parts_with_best(search), key=lambda part: part.gap, default=proof)
        if near.gap > _MUCH_LESS * proof.gap:
            return f"{above(proof.gap)} ({_unfinished(search)})"
        return f"{above(near.gap)} of {mappings_of(near.space)}; of all {above(proof.gap)} ({_unfinished(search)})"
    return partly(part.space, proof.space, proof.gap)


def partly(part: SearchedSpace, space: SearchedSpace, gap: float | None) -> str:
    """That a result is optimal in a part of a space, and how far it is at most from the optimum of the whole."""
    beyond = "with remainders" if space.imperfect and not part.imperfect else "of even and uneven ones"
    return f"{proved(part)}; {above(gap)} {beyond}"


_MUCH_LESS = 0.5
"""Of the gap of the whole space, that of a part that is worth telling."""


def widest_proved(search: SearchResult) -> Certificate | None:
    """The widest part of the space, or all of it, of which the best mapping is proved optimal."""
    proof = search.proof
    if proof is None or proof.proved:
        return proof
    return next((part for part in reversed(_parts_with_best(search)) if part.proved), None)


def _parts_with_best(search: SearchResult) -> list[Certificate]:
    """The parts of the space that have the best mapping."""
    mapping, best = search.best.mapping, math.inf if search.certificate is None else search.certificate.value
    uneven = any(one.level == other.level for one, other in itertools.pairwise(mapping.levels))
    return [
        part
        for part in search.parts
        if part.value <= best
        and (part.space.uneven or not uneven)
        and (part.space.imperfect or not mapping.imperfect)
        and (part.space.padded or not mapping.padded)
    ]


def common_space(spaces: Sequence[SearchedSpace]) -> SearchedSpace:
    """The mappings that all of some spaces have, uncounted.

    >>> print(common_space([SearchedSpace(uneven=True, imperfect=("K", "M")), SearchedSpace(imperfect=("C", "K"))]))
    even mappings with remainders in K
    """

    def shared(name: str) -> tuple[str, ...]:
        return tuple(each for each in getattr(spaces[0], name) if all(each in getattr(space, name) for space in spaces))

    uneven = all(space.uneven for space in spaces)
    return SearchedSpace(uneven, shared("imperfect"), shared("padded"), spaces[0].limits)


def _unfinished(search: SearchResult) -> str:
    """Why a search did not prove its best mapping optimal."""
    return f"stopped {STOPS.get(search.stop, search.stop)}"


def question(objective: str, space: SearchedSpace) -> str:
    """What was asked: the objective, and limits on costs."""
    return lowest(objective) + (f" with {' and '.join(space.limits)}" if space.limits else "")


def certificate_report(search: SearchResult, population: int | None, provenance: Provenance | None) -> Iterator[Piece]:
    """What is proved, of which mappings, and how to go on."""
    yield heading("Certificate")
    lines: dict[str, str] = {"verdict": verdict(search)}
    proof, seconds = search.proof, f"{search.seconds:.3g} s"
    if proof is not None:
        lines |= _of_proof(search, proof)
    space = search.space
    many = "uncounted mappings" if space.size is None else f"{large(space.size)} mappings"
    which = f"every loop order, tiling and spatial split with {space.factors}, every bypass choice; {space.kind}"
    lines["space"] = f"{many}: {which}" + (f", with {' and '.join(space.limits)}" if space.limits else "")
    lines |= _beside(search, population, provenance)
    how = f"cached on {search.kept}; {search.method}, {seconds}" if search.kept else f"{search.method}, {seconds}"
    if proof is not None and search.sample is None:
        how += f", {proof.nodes:,} nodes, {format_bits(8 * proof.table_bytes)} of tables"
    lines["search"] = how
    for name, text in lines.items():  # what does not fit goes on below its text
        first, *more = textwrap.wrap(text, _WIDE - _INDENT, break_long_words=False, break_on_hyphens=False) or [""]
        yield whole(f"  {name:<{_INDENT - 2}}{first}")
        yield from (whole(" " * _INDENT + line) for line in more)


def _of_proof(search: SearchResult, proof: Certificate) -> dict[str, str]:
    goal = Objective.parse(search.objective)
    less = "has fewer cycles" if search.objective == "cycles" else "uses less energy"
    if goal.alone not in ("energy", "cycles"):
        less = f"has a lower {goal_name(search.objective)}"
    if proof.proved:
        return {"verdict": f"{proved(proof.space)}: no mapping in the space below {less}"}
    digits = 6 if proof.gap < 0.01 else 4
    clock = search.best.clock_hz
    best, bound = (objective_value(search.objective, each, digits, clock) for each in (proof.value, proof.bound))
    can = {"has": "can have", "uses": "can use"}[less.split()[0]]
    lines = {"verdict": f"not proved: {_unfinished(search)}", "best": best}
    lines["bound"] = f"{bound}: no mapping in the space below {can} less" if proof.bound > 0 else "none yet"
    lines["gap"] = above(proof.gap)
    return lines


def _beside(search: SearchResult, population: int | None, provenance: Provenance | None) -> dict[str, str]:
    """What the space does not have, what is known of others, and how to go on."""
    space, lines = search.space, {}
    missing = [] if space.uneven else ["uneven mappings (--mapspace auto)"]
    missing += [] if space.imperfect else ["mappings with remainders (--factors auto)"]
    missing += [] if space.padded else ["padded bounds (--factors padded)"]
    lines["not in it"] = ", ".join([*missing, "fusion with neighbouring layers (accelsim fuse)"])
    if search.parts:
        lines["parts"] = "; ".join(_of_part(search, part) for part in search.parts)
    if population is not None and search.stop != "interrupted":
        files = {file.kind: file.name for file in provenance.inputs} if provenance is not None else {}
        names = f"{files.get('architecture', 'ARCH')} {files.get('workload', 'WORKLOAD')}"
        lines["others"] = f"{large(population)} even mappings are valid (accelsim spread {names})"
    if (further := next_step(search)) is not None:
        lines["next"] = further
    return lines


def _of_part(search: SearchResult, part: Certificate) -> str:
    """What is proved of a part of the space."""
    assert search.certificate is not None
    which = f"{part.space.kind}, {'remainders' if part.space.imperfect else 'perfect factors'}"
    if part.value == math.inf:
        return f"{which}: {'none is valid, proved' if part.proved else 'no valid one found'}"
    more = ratio(part.value, search.certificate.value) - 1
    value = objective_value(search.objective, part.value, 5, search.best.clock_hz)
    value += f" (+{gap_text(more)})" if more > 1e-10 else ""
    return f"{which}: {value}, {'proved' if part.proved else above(part.gap)}"


def next_step(search: SearchResult) -> str | None:
    """What closes the gap of a search that proved less than was asked."""
    proof = search.proof
    if proof is None:
        return "leave --sample out: the exact search proves the optimum"
    if proof.proved or search.stop == "interrupted":
        return None
    if search.stop == "memory":
        return "a larger --memory-limit, or narrow the space with --constraints"
    return f"--time-limit {max(10, math.ceil(10 * search.seconds))}, or narrow the space with --constraints"
