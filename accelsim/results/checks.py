"""Checks of a document: two documents of JSON compared value by value, and certificates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from accelsim import __version__
from accelsim.search.result import Certificate

TOLERANCE = 1e-10
"""Relative difference that the order of a sum may make; counts must be equal."""
_SHOWN = 5
"""Differences that are told."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a result.json says, as recorded and as it is; `note` says what could not be compared, or how.

    `agrees` is None where nothing was compared.
    """

    what: str
    recorded: Any
    found: Any
    agrees: bool | None
    note: str = ""


def compare(what: str, recorded: Any, found: Any, note: str = "") -> Check:
    """Compare plain values with those that were made anew, one by one."""
    different = list(islice(_differences(recorded, found), _SHOWN + 1))
    counts = f"{_count_values(found):,} numbers and names"
    told = "; ".join(different[:_SHOWN]) + ("; and more" if len(different) > _SHOWN else "")
    return Check(what, counts, told or counts, not different, note)


def _count_values(value: Any) -> int:
    """How many values there are that are neither lists nor mappings."""
    if isinstance(value, dict | list):
        return sum(map(_count_values, value.values() if isinstance(value, dict) else value))
    return 1


def _differences(recorded: Any, found: Any, at: str = "") -> Iterator[str]:
    """Places where two values of JSON differ, with both values; numbers that are not whole up to rounding."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        for key in {**found, **recorded}:
            below = f"{at}.{key}".lstrip(".")
            if key not in recorded or key not in found:
                yield f"{below} is {'missing' if key in found else 'unknown'}"
            else:
                yield from _differences(recorded[key], found[key], below)
    elif isinstance(found, list) and isinstance(recorded, list):
        if len(recorded) != len(found):
            yield f"{at} has {len(recorded)} entries, not {len(found)}"
        else:
            for number, (a, b) in enumerate(zip(recorded, found, strict=True)):
                yield from _differences(a, b, f"{at}[{number}]")
    elif not _equal(recorded, found):
        yield f"{at} is {recorded!r}, not {found!r}"


def _equal(recorded: Any, found: Any) -> bool:
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (recorded, found))
    if numbers and isinstance(found, float):
        return close(recorded, found)
    return type(recorded) is type(found) and bool(recorded == found)


def close(a: float, b: float) -> bool:
    """Whether two numbers are the same up to rounding."""
    return math.isclose(a, b, rel_tol=TOLERANCE)


def check_value(what: str, recorded: float, found: float) -> Check:
    """Compare two numbers up to rounding."""
    return Check(what, recorded, found, close(recorded, found))


def check_certificate(certificate: Mapping[str, Any], derived: Certificate) -> Iterator[Check]:
    """Compare a recorded certificate with one that was derived anew."""
    value, bound = certificate["value"], certificate["bound"]
    if not derived.proved:
        note = f"stopped early: the bound is {derived.bound:.6g} so far; give it more --seconds"
        yield Check("lower bound", bound, derived.bound, False, note)
        return
    if certificate["proved"]:
        yield check_value("optimum, searched anew", value, derived.value)
        yield check_value("lower bound, derived anew", bound, derived.bound)
        return
    low = bound <= derived.value * (1 + TOLERANCE)
    yield Check("lower bound", bound, derived.value, low, "the optimum, searched anew, must not lie below the bound")
    high = value >= derived.bound * (1 - TOLERANCE)
    yield Check("best found", value, derived.value, high, "must not lie below the optimum, searched anew")
    gap = value / derived.value - 1 if derived.value else 0.0
    recorded = certificate["gap"]
    yield Check("gap", recorded, gap, recorded is None or gap <= recorded + TOLERANCE, "as promised, and as it is")


def not_checked(names: Sequence[str]) -> Check:
    """Name the fields that were taken from the file."""
    note = f"{', '.join(names)}: what was asked, by which version, and how it ended, which the file alone tells"
    return Check("other fields", many(len(names), "name"), None, None, note)


def many(number: int, what: str) -> str:
    """So many things in words."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def same_version(document: Mapping[str, Any]) -> bool:
    """Whether this version wrote a document."""
    return bool(document["accelsim"] == __version__)
