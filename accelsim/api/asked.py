"""What is asked of a search: objective, map space, limits on time and memory."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import Objective, canonical
from accelsim.inputs.units import SIZE_UNITS, near_miss, parse_size_bits, quantity_pattern, read_share
from accelsim.inputs.workload import read_factors
from accelsim.results.cache import MAPSPACES, MapOptions, ResultCache, default_folder
from accelsim.search.result import MOST_TIES
from accelsim.search.stopping import Budget, OnProgress, Progress

_SAID: set[str] = set()
"""Troubles with the cache, each logged once."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a search; see `accelsim.map`."""

    objective: str = "energy"
    mapspace: str = "auto"
    factors: str | Sequence[str] = "auto"
    top: int | float | str = 1
    sample: int | None = None
    seed: int = 0
    time_limit: float | None = None
    memory_limit: int | str | None = None
    jobs: int | None = None
    cache: bool = True
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        known = ", ".join(MAPSPACES)
        if not isinstance(self.mapspace, str):
            raise TypeError(f"mapspace: expected one of {known}, got {self.mapspace!r}")
        if self.mapspace not in MAPSPACES:
            hint = near_miss(self.mapspace, MAPSPACES)
            raise AccelsimError(f"mapspace: '{self.mapspace}' is none of {known}{'; ' + hint if hint else ''}")
        if not isinstance(self.factors, str | Sequence) or not all(isinstance(each, str) for each in self.factors):
            raise TypeError(f"factors: expected text such as 'perfect' or 'imperfect:M,K', got {self.factors!r}")
        limit = self.time_limit
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, Real)):
            raise TypeError(f"time_limit: expected a number of seconds, got {limit!r}")
        if limit is not None and not 0 < float(limit) < math.inf:
            raise AccelsimError(f"time_limit: expected a number of seconds above 0, got {limit!r}")
        for name in ("sample", "jobs"):
            whole(name, getattr(self, name))
        whole("seed", self.seed, least=0)
        if not isinstance(self.objective, str):
            raise TypeError(f"objective: expected text such as 'energy' or 'energy^2*cycles', got {self.objective!r}")
        object.__setattr__(self, "objective", canonical(self.objective))
        if self.on_progress is not None and not callable(self.on_progress):
            raise TypeError(f"on_progress: expected a function of one argument, got {self.on_progress!r}")
        other = self.mapspace == "uneven" or self._dims not in (("auto", ()), ((), ()))
        if self.sample is not None and (self.listed or other):
            raise AccelsimError("sample: not with top, uneven or factors: it draws even mappings with perfect factors")
        if self.listed and other:
            raise AccelsimError("top: only even mappings with perfect factors are listed")

    @property
    def _dims(self) -> tuple[str | tuple[str, ...], str | tuple[str, ...]]:
        """Dimensions with imperfect factors, and with padded bounds."""
        given = self.factors if isinstance(self.factors, str) else "+".join(self.factors)
        try:
            return read_factors(given)
        except AccelsimError as error:
            raise AccelsimError(f"factors: {error}") from None

    @property
    def imperfect(self) -> str | tuple[str, ...]:
        """Dimensions whose loops may leave remainders; `auto`: as `map_einsum` has it."""
        return self._dims[0]

    @property
    def padded(self) -> str | tuple[str, ...]:
        """Dimensions whose bounds may be rounded up, or some such bounds."""
        return self._dims[1]

    @property
    def within(self) -> float | None:
        """Share (0..1) of the optimum within which mappings are listed; None where a number of them is asked for."""
        if isinstance(self.top, int) or str(self.top).strip().isdigit():
            return None
        if (share := read_share(str(self.top))) is None:
            what = "expected a number of mappings such as 20, or a share such as 1% or 0.01"
            raise AccelsimError(f"top: {what}, got {self.top!r}")
        return share

    @property
    def most(self) -> int:
        """Values of the objective whose mappings are listed."""
        if self.within is not None:
            return 1
        whole("top", int(self.top))
        return int(self.top)

    @property
    def listed(self) -> bool:
        """Whether several mappings are asked for."""
        return self.within is not None or self.most > 1

    @property
    def options(self) -> MapOptions:
        """Options that change the answer."""
        Objective.parse(self.objective)
        return MapOptions(
            objective=self.objective, method="random" if self.sample else "exact",
            top=max(self.most, MOST_TIES) if self.most > 1 else 1,  # for so many different values
            within=self.within, uneven=MAPSPACES[self.mapspace], imperfect=self.imperfect, pad=self.padded,
            seed=self.seed,
        )  # fmt: skip

    @property
    def budget(self) -> Budget | None:
        """What the search may take; None: there is no limit."""
        limits = Budget(self.sample, self.time_limit, size_bytes(self.memory_limit))
        return None if limits == Budget() else limits

    @property
    def store(self) -> ResultCache | None:
        """Where answers are kept and looked up."""
        return ResultCache(default_folder(), say_once) if self.cache else None

    def telling(self, layer: str) -> OnProgress | None:
        """Tell progress of a layer."""
        tell = self.on_progress
        return None if tell is None else lambda state: tell(replace(state, layer=layer, objective=self.objective))

    def say(self, what: str) -> None:
        """Tell what is done next."""
        if self.on_progress is not None:
            self.on_progress(Progress(what=what))


def size_bytes(size: int | str | None) -> int | None:
    """A memory limit [B].

    >>> size_bytes("1 KiB"), size_bytes(4096), size_bytes(None)
    (1024, 4096, None)
    """
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size > 0):
        return size
    found = parse_size_bits(size) // 8 if isinstance(size, str) and re.search(quantity_pattern(SIZE_UNITS), size) else 0
    if found < 1:
        raise AccelsimError(f"memory_limit: expected a size such as '500 MiB', or bytes, got {size!r}")
    return found


def say_once(line: str) -> None:
    """Log a line once in a process."""
    if line not in _SAID:
        logging.getLogger("accelsim").warning("accelsim: %s", line)
    _SAID.add(line)


def words(name: str, value: Any) -> tuple[str, ...]:
    """An argument that is a list of words, not one of them."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise TypeError(f"{name}: expected a list of words, got {value!r}")
    return tuple(value)


def whole(name: str, value: Any, least: int = 1) -> None:
    """Refuse an argument that is no whole number of at least so much, and not None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}: expected a whole number, got {value!r}")
    if value < least:
        raise AccelsimError(f"{name}: expected a whole number of at least {least}, got {value}")
