"""Features together: random machines with several of them at once, every search beside brute force.

A rule may hold for each feature alone and break where two meet. `ACCELSIM_COMBINED_PROBLEMS`: how many problems are
solved, `ACCELSIM_COMBINED_FIRST`: the first seed (default: others on each day, which a failure names).

`python -m tests.test_combined 5000 [FIRST]` solves so many problems for least energy, cycles and EDP in turn, without
good walks and with finer tables soon (`tests.switches`), and says which differ from brute force.
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.nodes import with_nodes
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.population.counting import Nest, count_mappings
from accelsim.search.mapper import map_einsum
from tests.brute import Truth, ragged_cost, truth
from tests.brute_ragged import awkward, mappings
from tests.effort import many
from tests.problems import MOST, problem, with_least_use, with_products
from tests.strategies import with_engines, with_overlaps
from tests.switches import switched
from tests.test_compression import compressed
from tests.test_exact import (
    Problem,
    check_best,
    check_front,
    check_objective,
    check_smallest,
    check_within,
    same,
)
from tests.test_exact_tables import check_fastest
from tests.test_hops import with_hops
from tests.test_link_transfers import with_links
from tests.test_network_bandwidth import with_networks
from tests.test_systolic import FEW, arrayed

PROBLEMS = many("COMBINED_PROBLEMS", 36)
FIRST = int(os.environ.get("ACCELSIM_COMBINED_FIRST", 10_000 * datetime.datetime.now(datetime.UTC).date().toordinal()))
GROUPS = 6
OBJECTIVES = [("energy", (1.0, 0.0)), ("cycles", (0.0, 1.0)), ("edp", (1.0, 1.0))]
Change = Callable[[Architecture, Einsum, random.Random], Architecture]
FEATURES: dict[str, Change] = {
    "networks": lambda machine, einsum, rng: with_networks(machine, rng),
    "hops": lambda machine, einsum, rng: with_hops(machine, rng),
    "links": lambda machine, einsum, rng: with_links(machine),
    "overlap": with_overlaps,
    "dma": with_engines,
    "compression": lambda machine, einsum, rng: compressed(machine, rng),
    "systolic": lambda machine, einsum, rng: arrayed(machine, einsum, rng, rng.random() < 0.5) or machine,
    "holds": lambda machine, einsum, rng: replace(
        machine, compute=replace(machine.compute, holds=frozenset({rng.choice(einsum.tensors).role}))
    ),
}
APART = [{"links", "systolic"}, {"links", "overlap"}, {"links", "dma"}, {"links", "hops"}]
"""What a machine may not have at once."""
RAGGED = ["networks", "overlap", "dma", "compression", "systolic", "holds"]
"""What is counted with remainders, too."""


def combined(seed: int, kinds: list[str]) -> tuple[list[str], Architecture, Einsum]:
    """A problem's machine with two to four features."""
    machine, einsum, _ = problem(seed)
    rng = random.Random(seed)
    while True:
        names = rng.sample(kinds, rng.randint(2, 4))
        if not any(pair <= {*names} for pair in APART):
            break
    for name in sorted(names, key=list(FEATURES).index):
        machine = FEATURES[name](machine, einsum, rng)
    return names, machine, einsum


def case_of(seed: int) -> tuple[list[str], Problem]:
    """A problem with features, some with products or least use of axes among its constraints."""
    names, machine, einsum = combined(seed, list(FEATURES))
    constraints = problem(seed)[2]
    if seed % 4 == 0:
        constraints = with_products(seed, machine, einsum, constraints)
    elif seed % 4 == 1:
        constraints = with_least_use(seed, machine, constraints)
    return names, (machine, einsum, constraints)


def check_uneven(case: Problem, objective: str, powers: tuple[float, float]) -> None:
    """The best uneven mapping, where there are few."""
    machine, einsum, constraints = case
    nodes = with_nodes(machine, einsum, constraints)
    known = None if nodes is machine else truth(nodes, einsum, constraints, MOST)
    if known is not None and known.valid:
        found = map_einsum(machine, einsum, constraints=constraints, objective=objective, uneven=True, workers=1)
        assert found.certificate is not None
        assert found.certificate.proved
        assert same(found.certificate.value, known.best(*powers)), ("uneven", objective)


def check_others(case: Problem, known: Truth) -> None:
    """Searches that walk over all mappings count them, and find the same least; no value exceeds the largest."""
    machine, einsum, constraints = case
    for objective, powers in (("energy", (1.0, 0.0)), ("cycles", (0.0, 1.0))):
        every = map_einsum(machine, einsum, constraints=constraints, objective=objective, method="exhaustive")
        assert every.sample is not None
        assert every.sample.valid == known.valid
        best = every.best.energy_pj if objective == "energy" else every.best.cycles
        assert same(best, known.best(*powers)), ("exhaustive", objective)
    encoded = encode(machine, einsum)
    if not constraints.on_costs and not encoded.constants.two_widths[0]:
        assert count_mappings(Nest(MapSpace(encoded, constraints))) == known.valid


@pytest.mark.parametrize("group", range(GROUPS))
def test_searches__equal_brute_force(group):
    """With any walks, and finer tables at any time."""
    looked = 0
    for seed in range(FIRST + group, FIRST + PROBLEMS, GROUPS):
        names, case = case_of(seed)
        known = truth(*case, MOST)
        if known is None or not known.valid:
            continue
        kind, objective = seed // GROUPS % 9, OBJECTIVES[seed % 3]
        try:
            with switched(seed):
                if kind < 2:
                    check_best(case, known, *objective)
                elif kind == 2:
                    check_fastest(case, seed)
                elif kind == 3:
                    check_front(case, known, ("energy", "cycles"))
                elif kind == 4:
                    check_smallest(case, known)
                    check_within(case, known)
                elif kind == 5:
                    check_uneven(case, *objective)
                elif kind == 6:
                    check_others(case, known)
                else:
                    check_objective(case, known, np.random.default_rng(seed))
        except (AssertionError, AccelsimError) as error:
            raise AssertionError(f"problem {seed} with {', '.join(names)}: {error}") from error
        looked += 1
    assert looked


@pytest.mark.parametrize("seed", [20721, 21528])
def test_spread__limits_networks_to_compute_units_that_keep_little(seed):
    """All words cross a network with a limit for good, and loops that spread inside it take none of them away."""
    _, case = case_of(seed)
    known = truth(*case, MOST)
    assert known is not None
    check_others(case, known)


def check_remainders(seed: int) -> bool:
    """Whether a problem has few mappings with remainders and a valid one; then the best ones are those of all."""
    names, machine, _ = combined(seed, RAGGED)
    _, einsum, imperfect = awkward(seed)
    known = mappings(machine, einsum, imperfect, most=FEW) if imperfect else None
    encoded = encode(machine, einsum)
    loops_in_units = [at for at, level in enumerate(machine.levels) if level.name == machine.compute.operands]
    walked = [
        ragged_cost(encoded, each) for each in known or () if not any(each.levels[at].temporal for at in loops_in_units)
    ]
    costs = [(energy, cycles) for fits, energy, cycles in walked if fits]
    for number, (objective, powers) in enumerate(OBJECTIVES):
        if not costs:
            break
        with switched(3 * seed + number):
            found = map_einsum(machine, einsum, imperfect=imperfect, objective=objective, workers=1)
        least = min(energy ** powers[0] * cycles ** powers[1] for energy, cycles in costs)
        assert found.certificate is not None
        assert found.certificate.proved, (seed, names)
        assert same(found.certificate.value, least), (seed, names, objective)
    return bool(costs)


def test_remainders__equal_brute_force():
    assert sum(check_remainders(seed) for seed in range(FIRST, FIRST + PROBLEMS))


def test_remainders__of_engines_depend_on_which_tiles_are_neighbours():
    """Two orders move the same words, but a small tile is used while a large one is moved in one of them alone."""
    assert check_remainders(7399470090)


def check_proofs(seed: int) -> str:
    """What is proved best of a problem is best, without good walks and whatever tables the search makes."""
    names, case = case_of(seed)
    known = truth(*case, MOST)
    if known is None or not known.valid:
        return "no valid mapping"
    with switched(seed, low=True) as drawn:
        try:
            check_best(case, known, *OBJECTIVES[seed % 3])
            if seed % 5 == 0:
                check_uneven(case, *OBJECTIVES[seed % 3])
        except (AssertionError, AccelsimError, RuntimeError) as error:
            raise AssertionError(f"problem {seed} with {', '.join(names)}, {OBJECTIVES[seed % 3]}, {drawn}") from error
    return "equal"


def main(count: int, first: int = 0) -> int:
    """Solve so many problems, and some of them with remainders; 1 if any answer is wrong."""
    seen, started = Counter[str](), time.monotonic()
    for seed in range(first, first + count):
        for check in (check_proofs, check_remainders) if seed % 4 == 0 else (check_proofs,):
            try:
                seen[f"{check.__name__}: {check(seed)}"] += 1
            except Exception:
                seen["WRONG"] += 1
                sys.stdout.write(f"seed {seed}: {traceback.format_exc()}\n")
        if (seed - first) % 100 == 99:
            sys.stdout.write(f"{seed - first + 1} problems, {time.monotonic() - started:.0f} s: {dict(seen)}\n")
            sys.stdout.flush()
    return int(seen["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
