"""Let rival mappers play the arena, in the even space, and draw how good their mappings are after how much CPU time.

`python arena/rivals.py` (the second part of `make arena`) writes `submissions/TOOL.json`, `curves.json` and
`docs/img/arena.png`; it needs `pip install 'accelsim[arena]'`. All three rivals evaluate with the compiled cost model,
on one core: what differs is the next mapping that they look at.

- random: uniform draws from the even space.
- annealing: 64 chains of simulated annealing, cooled over the time that there is.
- genetic: the genetic algorithm of pymoo, populations of 500.

`--draw` draws the picture from `curves.json` alone.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from make import nest, one_line_each
from verify import EQUAL, Arena

from accelsim.mapspace.kernel import draw_many
from accelsim.mapspace.space import MapSpace
from accelsim.model.detail import make_detail
from accelsim.model.encode import Batch, Floats, Ints, decode_mapping, empty_batch, encode
from accelsim.model.kernel import CAPACITY, RULES, VALID, evaluate_many
from accelsim.show.plots import BEST_COLOUR, drawing, figure_bytes, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
SECONDS = 5.0
"""CPU time of a rival for a problem."""
TIMES = np.geomspace(0.01, SECONDS, 28)
"""When the best mapping so far is noted [CPU s]."""
COLOURS = {"random": "#999999", "annealing": "#56B4E9", "genetic": "#CC79A7"}
CHAINS, POPULATION, DRAWS = 64, 500, 4096
HOT, COLD = 2.0, 1e-3
"""First and last temperature of annealing, in units of the logarithm of the objective."""
WORST = 1e4


class Game:
    """One problem as genes: the slot of each prime factor, the rank of each loop in its block, what is kept."""

    def __init__(self, arena: Arena, problem: str) -> None:
        self.encoded = encode(arena.machine(problem), arena.layer(problem))
        self.space = MapSpace(self.encoded)
        self.objective = arena.problems[problem].objective
        self.levels, self.dims = len(self.encoded.architecture.levels), len(self.encoded.dims)
        bounds = self.encoded.einsum.dims
        self.primes = [(d, p) for d, dim in enumerate(self.encoded.dims) for p in primes(bounds[dim])]
        ranks = self.levels * self.dims
        self.sizes = np.array(
            [len(self.space.slots)] * len(self.primes) + [1000] * ranks + [2] * len(self.space.free_keeps)
        )
        self.detail = make_detail(self.encoded)
        self.best, self.value = empty_batch(self.encoded, 1), math.inf
        self.curve: list[tuple[float, float]] = []
        self.seen, self.started = 0, time.process_time()

    @property
    def taken(self) -> float:
        """CPU time so far [s]."""
        return time.process_time() - self.started

    def decode(self, genes: Ints) -> Batch:
        """Mappings of genes, int64[B, G]."""
        batch = empty_batch(self.encoded, len(genes))
        row, bounds = np.arange(len(genes)), np.ones((len(genes), len(self.space.slots), self.dims), np.int64)
        for gene, (d, prime) in enumerate(self.primes):
            bounds[row, genes[:, gene], d] *= prime
        for slot, place in enumerate(self.space.slots):
            {"": batch.temporal, "x": batch.x, "y": batch.y}[place.axis][:, place.level] = bounds[:, slot]
        at = len(self.primes)
        ranks = genes[:, at : at + self.levels * self.dims].reshape(-1, self.levels, self.dims)
        batch.order[:] = np.argsort(ranks + 1000 * (batch.temporal == 1), axis=2, kind="stable")
        batch.keep[:] = self.space.keep
        for bit, (level, t) in enumerate(self.space.free_keeps):
            batch.keep[:, level, t] = genes[:, at + self.levels * self.dims + bit] == 1
        return batch

    def costs(self, batch: Batch) -> Floats:
        """Logarithm of the objective, float64[B]; of invalid mappings more, the earlier the rule that they break."""
        many = len(batch.keep)
        status, energy, cycles = np.empty(many, np.int64), np.empty(many), np.empty(many, np.int64)
        evaluate_many(self.encoded.constants, batch, self.detail, False, status, energy, cycles)
        self.seen += many
        valid = status == VALID
        energy[~valid] = cycles[~valid] = 1
        costs = {"energy": energy, "cycles": cycles, "edp": energy * cycles}[self.objective]
        value = np.where(valid, costs, np.inf)
        first = int(np.argmin(value))
        if value[first] < self.value:
            self.value = float(value[first])
            self.curve.append((self.taken, self.value))
            for mine, other in zip(self.best, batch, strict=True):
                mine[0] = other[first]
        rule, level = status % RULES, status // RULES
        left = np.where(rule < CAPACITY, 3 * self.levels - 2 * level - rule, level)
        return np.where(valid, np.log(costs), WORST + 100.0 * left)


def primes(number: int) -> list[int]:
    """Prime factors of a number, each as often as it divides it."""
    found, prime = [], 2
    while number > 1:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return found


def play_random(game: Game, seed: int) -> None:
    """Draw uniformly from the even space."""
    batch, first = empty_batch(game.encoded, DRAWS), 0
    while game.taken < SECONDS:
        draw_many(game.space.arrays, np.uint64(seed), first, batch)
        game.costs(batch)
        first += DRAWS


def play_annealing(game: Game, seed: int) -> None:
    """Change one gene of each chain at a time; a worse mapping is taken the less often the colder it is."""
    rng = np.random.default_rng(seed)
    genes = rng.integers(0, game.sizes, (CHAINS, len(game.sizes)))
    costs = game.costs(game.decode(genes))
    while game.taken < SECONDS:
        heat = HOT * (COLD / HOT) ** (game.taken / SECONDS)
        which = rng.integers(0, len(game.sizes), CHAINS)
        tried = genes.copy()
        tried[np.arange(CHAINS), which] = rng.integers(0, game.sizes[which])
        found = game.costs(game.decode(tried))
        taken = rng.random(CHAINS) < np.exp(np.minimum(0.0, (costs - found) / heat))
        genes[taken], costs[taken] = tried[taken], found[taken]


def play_genetic(game: Game, seed: int) -> None:
    """Let pymoo's genetic algorithm breed populations: uniform crossover, polynomial mutation of whole numbers."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.problem import Problem
    from pymoo.operators.crossover.ux import UX
    from pymoo.operators.mutation.pm import PM
    from pymoo.operators.repair.rounding import RoundingRepair
    from pymoo.operators.sampling.rnd import IntegerRandomSampling

    class Breeding(Problem):  # type: ignore[misc]  # pymoo has no types
        def _evaluate(self, x: Floats, out: dict[str, Any], *_: Any, **__: Any) -> None:
            out["F"] = game.costs(game.decode(x.astype(np.int64)))

    task = Breeding(n_var=len(game.sizes), n_obj=1, xl=0, xu=game.sizes - 1, vtype=int)
    algorithm = GA(
        pop_size=POPULATION,
        sampling=IntegerRandomSampling(),
        crossover=UX(),
        mutation=PM(vtype=float, repair=RoundingRepair()),
    )
    algorithm.setup(task, seed=seed, termination=("n_gen", 10**9))
    while game.taken < SECONDS:
        algorithm.next()


RIVALS: dict[str, Callable[[Game, int], None]] = {
    "random": play_random,
    "annealing": play_annealing,
    "genetic": play_genetic,
}


def play(arena: Arena, rival: str, problem: str) -> tuple[Game, list[float | None]]:
    """Let a rival play one problem; its best value after each of `TIMES`."""
    game = Game(arena, problem)
    RIVALS[rival](game, 1)
    noted = [min((v for t, v in game.curve if t <= time_s), default=None) for time_s in TIMES]
    return game, noted


def ratios(arena: Arena, rows: list[dict[str, Any]], rival: str) -> Floats:
    """Best value over the optimum, float64[problems, times]; infinite before the first mapping."""
    mine = [row for row in rows if row["tool"] == rival]
    return np.array(
        [[(v or math.inf) / arena.known[row["problem"], "even"].value for v in row["values"]] for row in mine]
    )


def picture(arena: Arena, rows: list[dict[str, Any]], exact_s: Floats) -> Axes:
    """Two panels over CPU time: problems solved to the optimum, and the distance that one of ten exceeds."""
    with drawing(new_axes(9.0, 3.6)) as ax:
        figure = ax.figure
        figure.clear()
        left, right = figure.subplots(1, 2)
        steps = np.sort(exact_s)
        left.step(steps, np.arange(1, len(steps) + 1) / len(steps), where="post", color=BEST_COLOUR, lw=2)
        left.text(0.15, 0.9, "accelsim, proved", color=BEST_COLOUR, ha="right")
        for rival, colour in COLOURS.items():
            found = ratios(arena, rows, rival)
            solved = np.mean(found <= 1 + EQUAL, axis=0)
            far = 100 * (np.quantile(found, 0.9, axis=0, method="higher") - 1)
            for panel, values in ((left, solved), (right, far)):
                shown = np.isfinite(values)
                panel.plot(TIMES[shown], values[shown], color=colour, lw=2)
                panel.text(TIMES[-1] * 1.12, values[-1], rival, color=colour, va="center")
        for panel in (left, right):
            panel.set(xscale="log", xlabel="CPU time [s]", xlim=(0.01, 20))
            panel.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
            panel.minorticks_off()
        right.set_yscale("symlog", linthresh=0.1)
        right.set_ylim(0, 2e4)
        ticks = [0, 0.1, 1, 10, 100, 1000, 10000]
        right.set_yticks(ticks, [f"{tick:,} %" for tick in ticks])
        left.set(ylim=(0, 1.02), title=f"Share of {len(steps)} problems at the optimum")
        right.set_title("Above the optimum: nine problems of ten are nearer")
        left.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
        found_axes: Axes = left
    return found_axes


def main() -> int:
    """Play all problems, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw the picture only")
    parser.add_argument("--only", default="", help="problems whose name contains this; nothing is written")
    arguments = parser.parse_args()
    show = partial(print, flush=True)
    arena, kept = Arena(HERE), HERE / "curves.json"
    rows: list[dict[str, Any]] = json.loads(kept.read_text())["runs"]
    rows = [row for row in rows if arguments.draw or row["tool"] not in RIVALS]  # others are of peers.py
    for rival in () if arguments.draw else RIVALS:
        mappings = []
        play(arena, rival, next(iter(arena.problems)))  # compiles
        for problem in (name for name in arena.problems if arguments.only in name):
            game, values = play(arena, rival, problem)
            rows.append({"tool": rival, "problem": problem, "seen": game.seen, "values": values})
            ratio = game.value / arena.known[problem, "even"].value
            show(f"{rival:10} {problem:36} {game.seen:12,} mappings {ratio:10.4f}")
            if math.isfinite(game.value):
                entry = {"problem": problem, "space": "even", "value": game.value, "cpu_s": SECONDS}
                mappings.append({**entry, "mapping": nest(decode_mapping(game.encoded, game.best, 0))})
        if not arguments.only:
            text = one_line_each({"tool": rival, "mappings": mappings}, ("mappings",))
            (HERE / "submissions").mkdir(exist_ok=True)
            (HERE / "submissions" / f"{rival}.json").write_text(text, encoding="utf-8")
    if arguments.only:
        return 0
    if not arguments.draw:
        times = [round(time_s, 4) for time_s in TIMES.tolist()]
        kept.write_text(one_line_each({"times": times, "runs": rows}, ("runs",)), encoding="utf-8")
    optima = json.loads((HERE / "optima.json").read_text())["mappings"]
    exact_s = np.array([row["cpu_s"] for row in optima if row["space"] == "even"])
    image = HERE.parent / "docs" / "img" / "arena.png"
    image.write_bytes(figure_bytes(picture(arena, rows, exact_s), ["png"])["png"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
