"""All mappings of small problems in which dimensions leave remainders, by the definition alone."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, shared_rank
from accelsim.model.encode import encode
from tests.brute import ragged_cost
from tests.problems import problem

MOST = 2500


def chains(bound: int, limits: list[int], tight: bool) -> Iterator[tuple[int, ...]]:
    """All loops that cover a bound, outermost first; none is longer than it ever runs.

    `tight`: nor longer than its number of passes needs, the space that the search counts.
    """
    if not limits:
        if bound == 1:
            yield ()
        return
    for factor in range(1, min(limits[-1], bound) + 1):
        passes = -(-bound // factor)
        if not tight or factor == -(-bound // passes):
            for outer in chains(passes, limits[:-1], tight):
                yield (*outer, factor)


def mappings(architecture, einsum, imperfect, tight=True, most=MOST):
    """Every mapping in which some dimensions may leave remainders; None if there are more than `most`."""
    levels = architecture.levels
    places = [(i, axis, size) for i, level in enumerate(levels)
              for axis, size in (("", 10**9), ("x", level.x.size), ("y", level.y.size))]  # fmt: skip
    rows = []
    for dim, bound in einsum.dims.items():
        found = chains(bound, [size for *_, size in places], tight)
        rows.append([row for row in found if dim in imperfect or math.prod(row) == bound])
    keeps = []
    for i, level in enumerate(levels):
        must = {t.name for t in einsum.tensors if i == 0 or t.role in level.keep}
        may = sorted({t.name for t in einsum.tensors if t.role not in level.bypass} - must)
        more = itertools.chain(*(itertools.combinations(may, k) for k in range(len(may) + 1)))
        keeps.append([frozenset(must | {*chosen}) for chosen in more])
    if math.prod(map(len, [*rows, *keeps])) > most:
        return None
    found = []
    for row in itertools.product(*rows):
        at = {place[:2]: [] for place in places}
        for dim, factors in zip(einsum.dims, row, strict=True):
            for place, factor in zip(places, factors, strict=True):
                at[place[:2]] += [Loop(dim, factor)] if factor > 1 else []
        for orders in itertools.product(*(itertools.permutations(at[i, ""]) for i in range(len(levels)))):
            for keep in itertools.product(*keeps):
                found.append(
                    Mapping(
                        tuple(
                            LevelMapping(level.name, orders[i], tuple(at[i, "x"]), tuple(at[i, "y"]), keep[i])
                            for i, level in enumerate(levels)
                        ),
                        frozenset(imperfect),
                    )
                )
                if len(found) > most:
                    return None
    return found


def awkward(seed):
    """A random problem with prime and other bounds, and the dimensions of it that may leave remainders."""
    architecture, einsum, _ = problem(seed)
    rng = random.Random(seed)
    dims = {dim: rng.choice([1, 2, 3, 5, 7, 4, 6]) if bound > 1 else 1 for dim, bound in einsum.dims.items()}
    einsum = replace(einsum, dims=dims)
    return architecture, einsum, [dim for dim in dims if dims[dim] > 2 and not shared_rank(einsum, dim)]


@dataclass
class Walked:
    """A problem with few mappings, all of them, and what those cost that a test asked for."""

    seed: int
    architecture: Architecture
    einsum: Einsum
    imperfect: list[str]
    known: list[Mapping]
    costs: dict[int, tuple[bool, float, int]] = field(default_factory=dict)

    def valid(self, constraints: Constraints | None = None) -> list[tuple[float, int]]:
        """Energy and cycles of each valid mapping that breaks no constraint; each mapping is evaluated once."""
        encoded, found = encode(self.architecture, self.einsum), []
        for number, mapping in enumerate(self.known):
            if constraints is None or not constraints.broken_by(mapping, self.einsum):
                if number not in self.costs:
                    self.costs[number] = ragged_cost(encoded, mapping)
                fits, *cost = self.costs[number]
                found += [tuple(cost)] if fits else []
        return found


def walks(seeds: Iterable[int], most: int = MOST) -> Iterator[Walked]:
    """The problems among these that have few mappings with remainders."""
    for seed in seeds:
        architecture, einsum, imperfect = awkward(seed)
        known = mappings(architecture, einsum, imperfect, most=most) if imperfect else None
        if known is not None:
            yield Walked(seed, architecture, einsum, imperfect, known)
