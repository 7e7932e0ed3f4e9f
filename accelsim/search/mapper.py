"""Search the map space of one Einsum on one machine: exactly, exhaustively, or by uniform random sampling."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.divisors import divisors
from accelsim.inputs.errors import AccelsimError, NoValidMappingError, TooManyChoices
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import unknown
from accelsim.inputs.workload import Einsum, padded_einsums, read_padding, shared_rank
from accelsim.mapspace.factors import passes
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Batch, Encoded, Ints, decode_mapping, empty_batch, encode
from accelsim.model.evaluate import evaluate_encoded, refuse_uneven_remainders
from accelsim.search.result import Certificate, Rejection, Sample, SearchResult
from accelsim.search.spaces import Spaces, diagnose
from accelsim.search.stopping import Budget, OnProgress, Progress, asked, heeding
from accelsim.search.value_kernel import terms_of

if TYPE_CHECKING:
    from accelsim.model.detail import Detail
    from accelsim.search.kernel import PieceTally

Found = TypeVar("Found")

LARGEST = 20_000_000_000
"""An exhaustive search of more mappings than this is refused."""
LARGEST_RAGGED = 250_000
"""Largest bound of a dimension that leaves remainders by default: tiles along it have a thousand sizes."""
MOST_LISTED = 100_000
"""Mappings that are listed, at most; each takes about a kilobyte."""
SPEED = 1_500_000
"""Mappings a second that a core evaluates, roughly (`make bench`); for estimates of time only."""
DRAWS = 16_384
"""Mappings that are drawn in one piece."""
_POLL_SECONDS = 0.05

RULE_NAMES = (
    "valid",
    "fanout x",
    "fanout y",
    "capacity",
    "capacity",
    "utilization or limit",
    "products of constraints",
)

_Piece = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Work:
    """What one piece of work needs for itself: books to fill, and scratch space."""

    books: PieceTally
    mapping: Batch
    detail: Detail

    def clear(self) -> _Work:
        """Empty the books."""
        self.books.value[:] = np.inf
        self.books.tally[:] = 0
        return self


@dataclass(slots=True)
class _SearchTally:
    """The books of all pieces of a search, added up in the order of the pieces."""

    books: PieceTally
    seen: int = 0

    def add(self, books: PieceTally, seen: int) -> None:
        """Add the books of the next piece."""
        mine = self.books
        if books.value[0] < mine.value[0]:
            mine.value[0] = books.value[0]
            for array, other in zip(mine.best, books.best, strict=True):
                array[:] = other
        mine.value[1] = min(mine.value[1], books.value[1])
        mine.tally[:] += books.tally
        self.seen += seen

    @property
    def valid(self) -> int:
        """Valid mappings seen."""
        return int(self.books.tally[0])


def map_einsum(
    architecture: Architecture,
    einsum: Einsum,
    *,
    constraints: Constraints | None = None,
    objective: str = "energy",
    method: str = "auto",
    top: int = 1,
    within: float | None = None,
    uneven: bool | None = None,
    imperfect: str | Sequence[str] = (),
    pad: str | Sequence[str] = (),
    walks: bool = False,
    budget: Budget | None = None,
    seed: int = 0,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> SearchResult:
    """Find the best mapping of an Einsum on a machine, and prove that it is; Ctrl-C ends with what was found.

    As `accelsim.map_layer`, with `budget`, `workers` and `method` (`auto`, `exact`, `exhaustive`, `random`; `auto` is
    exact unless the budget counts mappings). `imperfect`: dimensions whose loops may leave remainders, `all` of them,
    or `auto`: after the mappings with perfect factors those with remainders, for some seconds or as long as the
    budget's. `uneven`: None is even mappings, then uneven ones in the same way, where neither some remainders nor
    padding are asked for. `walks`: walks alone look for both, some tenths of a second. Where mappings are listed, these
    are even ones with perfect factors, after the best one; so are all on machines that do something about zeros.
    `within` lists up to `top` mappings, or 1000. A random search has 5 seconds where nothing is said.

    Raises NoValidMappingError if no mapping is valid (or none was seen), which says which rule removed how many, and
    AccelsimError if the objective or method is unknown, or an exhaustive search would be too long.
    """
    goal = Objective.parse(objective)
    encoded = encode(architecture, einsum)
    auto = imperfect == "auto"
    imperfect = () if auto else imperfect
    ragged = imperfect_dims(einsum, imperfect)
    if ragged and uneven:
        refuse_uneven_remainders(architecture.levels)
    space = MapSpace(encoded, constraints, ragged)
    if method not in ("auto", "exact", "exhaustive", "random"):
        raise AccelsimError(f"search '{method}' is unknown; write auto, exact, exhaustive or random")
    if top < 1:
        raise AccelsimError(f"the best {top} mappings are none; ask for at least 1")
    if top > MOST_LISTED:
        raise AccelsimError(f"the best {top:,} mappings are too many to list; ask for at most {MOST_LISTED:,}")
    if within is not None and not 0 <= within < math.inf:
        raise AccelsimError(f"within {within} of the best is no share; give a number of at least 0, such as 0.01")
    counted = budget is not None and budget.mappings is not None
    cores = workers or os.cpu_count() or 1
    if method == "exact" or (method == "auto" and not counted):
        if counted:
            raise AccelsimError("an exact search has no budget of mappings; give it one of seconds")
        from accelsim.search.exact.mapper import get_ready, map_exactly
        from accelsim.search.exact.parts import Wider

        listed = top > 1 or within is not None
        if (uneven or imperfect or pad) and listed:
            raise AccelsimError(
                "only even mappings without remainders and padding are listed; ask for the best other one alone"
            )
        bounds = read_padding(einsum, pad)
        get_ready()
        started = time.monotonic()
        find = partial(
            map_exactly, goal=goal, top=top, within=within, budget=budget, workers=cores, on_progress=on_progress,
            started=started,
        )  # fmt: skip
        if (auto or (uneven is None and not listed)) and not (imperfect or pad or architecture.saves_zeros):
            dims = widened(architecture, einsum) if auto else frozenset[str]()
            return find(Spaces.of(space), wider=Wider(uneven, dims, walks))
        padded = [*padded_einsums(einsum, bounds)]
        return with_remainders(
            einsum,
            imperfect,
            lambda dims, fewer: find(
                Spaces(architecture, padded, constraints, dims, uneven=bool(uneven), first=space),
                padded=tried_bounds(bounds),
                fewer=fewer,
            ),
        )
    if uneven or imperfect or pad:
        raise AccelsimError("only an exact search finds uneven mappings, or some with remainders or padding")
    if top > 1 or within is not None:
        raise AccelsimError("only an exact search lists the best mappings or those within a share of the best")
    exhaustive = method == "exhaustive"
    if exhaustive and space.size > LARGEST:
        hours = space.size / SPEED / 3600
        raise AccelsimError(
            f"the map space holds {space.size:.3g} mappings, about {hours:.3g} core hours; use the exact search, a "
            "random search with a budget, or a smaller workload or machine"
        )
    if budget is None or budget == Budget(memory_bytes=budget.memory_bytes):
        budget = Budget() if exhaustive else Budget(seconds=5.0)
    return _Run(space.encoded, space, goal, exhaustive, budget, seed, cores, on_progress).result()


def widened(architecture: Architecture, einsum: Einsum) -> frozenset[str]:
    """Dimensions whose loops may leave remainders by default: none on machines that count only tiles of one size.

    Bounds above `LARGEST_RAGGED` have so many sizes that counting mappings would take minutes: they have divisors.
    """
    counted_whole = any(level.link_transfers or architecture.has_hops(level) for level in architecture.levels)
    found = frozenset[str]() if counted_whole else imperfect_dims(einsum, "all")
    return frozenset(dim for dim in found if einsum.dims[dim] <= LARGEST_RAGGED)


def tried_bounds(bounds: dict[str, list[int]]) -> tuple[str, ...]:
    """Bounds that are tried instead of those of the Einsum, such as `P=56`."""
    return tuple(f"{dim}={bound}" for dim, tried in bounds.items() for bound in tried[1:])


def with_remainders(
    einsum: Einsum, asked: str | Sequence[str], search: Callable[[frozenset[str], bool], Found]
) -> Found:
    """Search where some dimensions may leave remainders: of all, as many as can be looked at.

    `search` takes these dimensions, and whether fewer of them follow where these are too many.
    """
    ragged, bounds = imperfect_dims(einsum, asked), einsum.dims
    while True:
        fewer = asked == "all" and len(ragged) > 1
        try:
            return search(ragged, fewer)
        except TooManyChoices:
            if not fewer:
                raise
        # the dimension that has most divisors for the numbers of passes that remainders allow
        ragged -= {max(sorted(ragged), key=lambda dim: len(divisors(bounds[dim])) / len(passes(bounds[dim])))}


def imperfect_dims(einsum: Einsum, asked: str | Sequence[str]) -> frozenset[str]:
    """Dimensions whose loops may leave remainders.

    Raises
    ------
    AccelsimError
        If a dimension is unknown, or is added to another one in a rank of some tensor.

    Examples
    --------
    >>> from accelsim import load_workload
    >>> sorted(imperfect_dims(load_workload("conv").layers[0], "all"))
    ['C', 'K']
    """
    if asked == "all":
        return frozenset(dim for dim, bound in einsum.dims.items() if bound > 1 and not shared_rank(einsum, dim))
    names = [asked] if isinstance(asked, str) else list(asked)
    for dim in names:
        if dim not in einsum.dims:
            raise AccelsimError("; ".join(unknown("dimension", dim, einsum.dims, einsum.name)))
        rank = shared_rank(einsum, dim)
        if rank:
            raise AccelsimError(f"{dim} cannot leave remainders: it stands in the rank {rank}; pad its bound instead")
    return frozenset(names)


class _Run:
    """One search: pieces of work handed to threads, and their books added up in order."""

    def __init__(
        self,
        encoded: Encoded,
        space: MapSpace,
        goal: Objective,
        exhaustive: bool,
        budget: Budget,
        seed: int,
        workers: int,
        on_progress: OnProgress | None,
    ) -> None:
        from accelsim.model.detail import make_detail
        from accelsim.search import kernel

        self.kernel, self.make_detail = kernel, make_detail
        self.encoded, self.space, self.goal, self.exhaustive = encoded, space, goal, exhaustive
        self.budget, self.seed, self.workers, self.on_progress = budget, seed, workers, on_progress
        self.terms = terms_of(goal)
        self.stop: Ints = np.zeros(1, np.int64)
        self.ledger = _SearchTally(kernel.make_tally(encoded))
        self.key = np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
        self.started = time.monotonic()

    @property
    def total(self) -> int | None:
        """Mappings that the search will see if nothing stops it."""
        limits = [self.space.size] if self.exhaustive else []
        return min([*limits, *([self.budget.mappings] if self.budget.mappings else [])], default=None)

    def pieces(self) -> Iterator[_Piece]:
        """First number and one past the last of each piece: tilings if exhaustive, draws if random."""
        if self.exhaustive:
            tilings = self.space.keep_choices * math.prod(len(rows) for rows in self.space.rows)
            size = max(1, min(4096, tilings // 16))
            yield from ((first, min(first + size, tilings)) for first in range(0, tilings, size))
            return
        first = 0
        while self.budget.mappings is None or first < self.budget.mappings:
            last = first + DRAWS if self.budget.mappings is None else min(first + DRAWS, self.budget.mappings)
            yield first, last
            first = last

    def _work(self, piece: _Piece, work: _Work) -> int:
        c, arrays = self.encoded.constants, self.space.arrays
        first, last = piece
        if self.exhaustive:
            return int(
                self.kernel.search_all(
                    c,
                    arrays,
                    first,
                    last,
                    self.terms,
                    work.books,
                    work.mapping,
                    work.detail,
                    self.stop,
                )
            )
        count = last - first
        return int(
            self.kernel.search_draws(
                c, arrays, self.key, first, count, self.terms, work.books, work.mapping, work.detail, self.stop
            )
        )

    def search(self) -> str:
        """Work through the pieces; returns why it ended."""
        reason = "exhausted" if self.exhaustive else "budget"
        jobs: deque[tuple[Future[int], _Work]] = deque()
        pieces = self.pieces()
        free = [self._make_work() for _ in range(self.workers + 1)]
        self._tell()
        self._work((0, 0), free[0])  # compiles, if this is the first time
        self.started = time.monotonic()
        with heeding(self.stop), ThreadPoolExecutor(self.workers) as pool:
            try:
                while True:
                    if asked():
                        raise KeyboardInterrupt
                    while free and not self.stop[0]:
                        piece = next(pieces, None)
                        if piece is None:
                            break
                        work = free.pop()
                        jobs.append((pool.submit(self._work, piece, work), work))
                    if not jobs:
                        return reason
                    seen = self._await(jobs[0][0])
                    if seen is None:
                        if self._over():
                            reason = "timeout"
                            self.stop[0] = 1
                        continue
                    work = jobs.popleft()[1]
                    self.ledger.add(work.books, seen)
                    free.append(work.clear())
                    if self._over() and not self.stop[0]:
                        reason = "timeout"
                        self.stop[0] = 1
                    elif self.exhaustive and self.budget.mappings and self.ledger.seen >= self.budget.mappings:
                        reason = "budget"
                        self.stop[0] = 1
                    self._tell()
            except KeyboardInterrupt:
                self.stop[0] = 1
                for job, work in jobs:
                    if not job.cancel():
                        self.ledger.add(work.books, job.result())
                return "interrupted"

    def _make_work(self) -> _Work:
        mapping = empty_batch(self.encoded, 1)
        return _Work(self.kernel.make_tally(self.encoded), mapping, self.make_detail(self.encoded))

    def _await(self, job: Future[int]) -> int | None:
        try:
            return job.result(timeout=_POLL_SECONDS)
        except NotYet:
            self._tell()
            return None

    def _over(self) -> bool:
        return self.budget.seconds is not None and time.monotonic() - self.started > self.budget.seconds

    def _tell(self) -> None:
        if self.on_progress is None:
            return
        ledger = self.ledger
        best = float(ledger.books.value[0])
        self.on_progress(
            Progress(
                done=ledger.seen,
                valid=ledger.valid,
                best=best if math.isfinite(best) else None,
                best_energy_pj=float(ledger.books.value[1]) if ledger.valid else None,
                total=self.total,
                seconds=time.monotonic() - self.started,
                seconds_limit=self.budget.seconds,
            )
        )

    def result(self) -> SearchResult:
        """Search, and evaluate the best mapping in full."""
        stop = self.search()
        seconds = time.monotonic() - self.started
        ledger = self.ledger
        if not ledger.valid:
            raise NoValidMappingError(
                "\n".join([self._none_valid(stop), *diagnose(self.space, self.key, proved=stop == "exhausted")]),
                proved=stop == "exhausted",
                rules={f"{each.level} {each.rule}": each.count for each in self._rejections()},
            )
        best = evaluate_encoded(self.encoded, decode_mapping(self.encoded, ledger.books.best, 0))
        value = self.goal.of(best)
        broken = [*map(str, best.violations), *self.space.constraints.broken_by(best.mapping, self.encoded.einsum)]
        if broken or not math.isclose(value, float(ledger.books.value[0]), rel_tol=1e-12):
            raise RuntimeError(f"search found {ledger.books.value[0]!r}, evaluation gives {value!r}: {broken}")
        proof = Certificate(value, value, 0, ledger.seen, 0) if stop == "exhausted" else None
        return SearchResult(
            best=best,
            objective=self.goal.name,
            method="exhaustive" if self.exhaustive else "random",
            stop=stop,
            seed=self.seed,
            space_size=self.space.size,
            seconds=seconds,
            certificate=proof,
            ranked=(best,),
            sample=Sample(ledger.seen, ledger.valid, self._rejections()),
            limits=self.space.constraints.on_costs,
        )

    def _rejections(self) -> tuple[Rejection, ...]:
        from accelsim.model.kernel import RULES

        counts: dict[tuple[int, str], int] = {}
        for status, count in enumerate(self.ledger.books.tally.tolist()):
            if count and status:
                key = (status // RULES, RULE_NAMES[status % RULES])
                counts[key] = counts.get(key, 0) + count
        levels = self.encoded.architecture.levels
        return tuple(Rejection(rule, levels[level].name, count) for (level, rule), count in sorted(counts.items()))

    def _none_valid(self, stop: str) -> str:
        rejected = ", ".join(f"{r.count} break {r.rule} of {r.level}" for r in self._rejections())
        space = "all of the map space" if stop == "exhausted" else f"of {self.space.size:.3g} in the map space"
        return f"0 of {self.ledger.seen} mappings seen ({space}) are valid: {rejected or 'none was seen'}"
