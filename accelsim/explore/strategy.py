"""Which designs are looked at, and in what order: a grid, a random choice of it, or multi-objective search by optuna.

A strategy gives waves of designs. It may wait for the results of earlier waves, never for those of single designs; so
what is looked at does not depend on the number of workers or on who is faster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from accelsim.explore.machines import Design, design_at
from accelsim.explore.sweep import Sweep
from accelsim.inputs.errors import AccelsimError

NO_OPTUNA = "optuna is not installed, and `strategy: optuna` needs it; `pip install 'accelsim[optuna]'`"
_LISTED = 1_000_000
"""A random choice from a grid no larger than this goes through a permutation of it."""
_ASKS = 200
"""Proposals for each design that is allowed: some were looked at before, others break a condition."""
_FRUITLESS = 10
"""After so many in a row that are of no use, designs are drawn at random until one is new."""
Values = tuple[float, ...] | None


class Listed:
    """Designs that are known from the start.

    As all strategies do, it gives waves of at most `total` designs. A wave is asked for when all waves but the last
    `lag` - 1 are told; None: at any time.

    Parameters
    ----------
    lag : int or None
        2 where designs are pruned by those of earlier waves.
    """

    def __init__(self, designs: Sequence[Design], wave: int, lag: int | None) -> None:
        self.lag, self.total = lag, len(designs)
        self._waves = iter([list(designs[at : at + wave]) for at in range(0, len(designs), wave)])

    def ask(self) -> list[Design]:
        """Next wave."""
        return next(self._waves, [])

    def tell(self, wave: Sequence[Design], values: Sequence[Values]) -> None:
        """Nothing is learnt."""


def grid_designs(sweep: Sweep, allowed: Callable[[Design], bool]) -> list[Design]:
    """All designs that meet the conditions."""
    return [design for number in range(sweep.grid) if allowed(design := design_at(sweep, number))]


def random_designs(sweep: Sweep, allowed: Callable[[Design], bool]) -> list[Design]:
    """Different designs, drawn so that all that meet the conditions are equally likely, in the order drawn."""
    rng = np.random.default_rng(sweep.seed)
    asked = sweep.designs or 0
    if sweep.grid <= _LISTED:
        order: Iterator[int] = (int(number) for number in rng.permutation(sweep.grid))
        return list(itertools.islice(filter(allowed, (design_at(sweep, number) for number in order)), asked))
    found: dict[int, Design] = {}
    for _ in range(1000 * asked):
        digits = [int(rng.integers(len(parameter.values))) for parameter in sweep.parameters]
        number = 0
        for digit, parameter in zip(digits, sweep.parameters, strict=True):
            number = number * len(parameter.values) + digit
        if number not in found and allowed(design := design_at(sweep, number)):
            found[number] = design
            if len(found) == asked:
                break
    return list(found.values())


class Optuna:
    """Multi-objective search by optuna's TPE sampler: a wave is asked, mapped, and told before the next one.

    Parameters
    ----------
    allowed : callable
        Whether a design meets the conditions.
    """

    def __init__(self, sweep: Sweep, allowed: Callable[[Design], bool]) -> None:
        if find_spec("optuna") is None:
            raise AccelsimError(NO_OPTUNA)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.sweep, self.allowed = sweep, allowed
        self.lag, self.total = 1, min(sweep.designs or 0, sweep.grid)
        self._failed = optuna.trial.TrialState.FAIL
        sampler = optuna.samplers.TPESampler(seed=sweep.seed, n_startup_trials=sweep.wave)
        self.study = optuna.create_study(directions=["minimize"] * len(sweep.objectives), sampler=sampler)
        self._space: dict[str, Any] = {}
        for parameter in sweep.parameters:
            many = len(parameter.values)
            ordered = parameter.kind != "text"
            self._space[parameter.name] = (
                optuna.distributions.IntDistribution(0, many - 1)
                if ordered
                else optuna.distributions.CategoricalDistribution(list(range(many)))
            )
        self._rng = np.random.default_rng(sweep.seed)
        self._known: dict[int, Values] = {}
        self._trials: dict[int, list[Any]] = {}
        self._asks = _ASKS * self.total

    def ask(self) -> list[Design]:
        """Next wave: designs not looked at before; what optuna learns of others it is told at once."""
        wave: list[Design] = []
        size = min(self.sweep.wave, self.total - len(self._known))
        fruitless = 0
        while len(wave) < size and self._asks > 0:
            self._asks -= 1
            fruitless += 1
            if fruitless > _FRUITLESS:
                self.study.enqueue_trial(
                    {p.name: int(self._rng.integers(len(p.values))) for p in self.sweep.parameters}
                )
            trial = self.study.ask(self._space)
            number = 0
            for parameter in self.sweep.parameters:
                number = number * len(parameter.values) + int(trial.params[parameter.name])
            design = design_at(self.sweep, number)
            if number in self._known:
                self._tell(trial, self._known[number])
            elif number in self._trials:
                self._trials[number].append(trial)
            elif not self.allowed(design):
                self._tell(trial, None)
            else:
                self._trials[number] = [trial]
                wave.append(design)
                fruitless = 0
        return wave

    def tell(self, wave: Sequence[Design], values: Sequence[Values]) -> None:
        """Results of the wave."""
        for design, found in zip(wave, values, strict=True):
            self._known[design.number] = found
            for trial in self._trials.pop(design.number):
                self._tell(trial, found)

    def _tell(self, trial: Any, values: Values) -> None:
        if values is None:
            self.study.tell(trial, state=self._failed)
        else:
            self.study.tell(trial, list(values))
