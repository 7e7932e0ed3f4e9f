"""The machine and the networks of each design, and what tells equal work from other.

Work is told apart by content: everything that the model and the mapper look at, no more. A clock changes no mapping
where bandwidths are per cycle, and no bandwidth changes the mapping of least energy where nothing leaks. Where
parameters of workloads are swept, layers differ from design to design.

Which designs are looked at, and in what order: a grid, a random choice of it, or multi-objective search by optuna. A
strategy gives waves of designs. It may wait for the results of earlier waves, never for those of single designs; so
what is looked at does not depend on the number of workers or on who is faster.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from accelsim import __version__
from accelsim.designs.checking import Network, chosen_layers
from accelsim.designs.sweep import Mapper, Sweep
from accelsim.inputs import expression
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import AccelsimError, InputError, Problem, require
from accelsim.inputs.expression import ExpressionError, Value
from accelsim.inputs.objective import Objective
from accelsim.inputs.params import parameter_names
from accelsim.inputs.workload import Einsum
from accelsim.results.cache import content_hash, einsum_content, hash_of_code, machine_content, plain


@dataclass(frozen=True, slots=True)
class Design:
    """One combination of values: its number in the grid (the last parameter counts fastest), and the values."""

    number: int
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """What a design is: an architecture, its area [um2] where it is known, and the names of the work on it."""

    architecture: Architecture
    area_um2: float | None
    hash: str
    """Hash of what evaluation looks at."""
    search_hash: str
    """Hash of what the mapper looks at; equal to `hash` where it looks at everything."""


def design_at(sweep: Sweep, number: int) -> Design:
    """Design of a number in the grid."""
    values, rest = [], number
    for parameter in reversed(sweep.parameters):
        rest, at = divmod(rest, len(parameter.values))
        values.append(parameter.values[at])
    return Design(number, tuple(reversed(values)))


def design_of(sweep: Sweep, places: Iterable[int]) -> Design:
    """Design of the places of its values, one for each parameter."""
    number = 0
    for parameter, place in zip(sweep.parameters, places, strict=True):
        number = number * len(parameter.values) + place
    return design_at(sweep, number)


class Machines:
    """Makes the machines of a sweep; the architecture file is read once."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.names = tuple(parameter.name for parameter in sweep.parameters)
        own = parameter_names(sweep.architecture.path)
        self.own = [at for at, name in enumerate(self.names) if name in own]
        self.constants = {name: expression.quantity(text)[0] for name, text in sweep.constants.items()}
        self.numbers = {p.name: dict(zip(p.values, p.numbers, strict=True)) for p in sweep.parameters}

    def values(self, design: Design) -> dict[str, Value]:
        """Parameters of a design as numbers in base units, or texts."""
        own = {name: self.numbers[name][text] for name, text in zip(self.names, design.values, strict=True)}
        return {**self.constants, **own}

    def meets_conditions(self, design: Design) -> bool:
        """Whether a design meets the conditions."""
        values = self.values(design)
        for at, each in enumerate(self.sweep.conditions):
            try:
                if not each.holds(values):
                    return False
            except ExpressionError as error:
                place = f"conditions[{at}]"
                what = f"{place}: {error} for {self.said(design)}"
                raise InputError([Problem(self.sweep.places[place], what)]) from None
        return True

    def said(self, design: Design) -> str:
        """Parameters of a design in words."""
        return ", ".join(f"{name} = {text}" for name, text in zip(self.names, design.values, strict=True))

    def make(self, design: Design) -> Machine:
        """Read the machine of a design; raises AccelsimError where values do not suit each other."""
        overrides = {**self.sweep.fixed, **{self.names[at]: design.values[at] for at in self.own}}
        read = load_architecture(self.sweep.architecture.path, overrides)
        searched = unlimited(read) if energy_alone(read, self.sweep.mapper) else read
        hashes = (content_hash(machine_content(each)) for each in (read, searched))
        return Machine(read, self._area(read, design), *hashes)

    def _area(self, architecture: Architecture, design: Design) -> float | None:
        if self.sweep.area is None:
            return architecture.area_um2
        try:
            value = self.sweep.area.value(self.values(design))
        except ExpressionError as error:
            raise AccelsimError(f"area: {error}") from None
        if not isinstance(value, Fraction) or value <= 0:
            raise AccelsimError("area: it is not above 0")
        return float(value)


def energy_alone(architecture: Architecture, mapper: Mapper) -> bool:
    """Whether the best mapping follows from the energies alone, so that no bandwidth changes it."""
    limited = mapper.constraints is not None and bool(mapper.constraints.on_costs)
    leaks = any(action == "leak" for _, _, action in architecture.energy.entries)
    return Objective.parse(mapper.options.objective).alone == "energy" and not (mapper.seconds or leaks or limited)


def unlimited(architecture: Architecture) -> Architecture:
    """The machine without limits of bandwidth."""
    free = (
        replace(level, bandwidth=None, read_bandwidth=None, write_bandwidth=None, network_bandwidth=None)
        for level in architecture.levels
    )
    return replace(architecture, levels=tuple(free))


def layer_hash(einsum: Einsum) -> str:
    """Hash of a layer without its name and its repeats; dimensions and tensors count with theirs."""
    return content_hash([einsum_content(einsum), list(einsum.dims), [tensor.name for tensor in einsum.tensors]])


def mapper_hash(mapper: Mapper) -> str:
    """Hash of what is asked of the mapper, and of the version and the code that answer."""
    requested = (mapper.options, mapper.seconds, mapper.constraints)
    return content_hash([__version__, hash_of_code(), plain(requested)])


def work_key(what: str, digest: str, layer: str, mapper: str) -> str:
    """Name of a piece of work: equal names have equal results."""
    return hashlib.sha256(f"{what} {digest} {layer} {mapper}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Bound:
    """Energy [pJ] and cycles that no mapping of a layer falls below."""

    energy_pj: float = 0.0
    cycles: float = 0.0


MOST = 10_000
"""Combinations of parameters of one workload at most: the layers of all of them go to each worker."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a design has to run."""

    networks: tuple[Network, ...]
    different: tuple[int, ...]  # its different layers, by their numbers among those of the whole sweep
    layer_of: tuple[int, ...]  # for each layer, network after network, which of `different` it is
    # how often each layer counts: its repeats times the weight of the network, over what a run yields if totals are per
    # frame or the like
    weights: tuple[float, ...]

    @property
    def layers(self) -> list[tuple[Network, Einsum]]:
        """All layers, network after network."""
        return [(network, layer) for network in self.networks for layer in network.layers]


class Loads:
    """Makes the load of each design; each workload is read once for each combination of its parameters.

    `einsums`: all different layers of all designs. `hashes`: their hashes. Raises AccelsimError if a workload has too
    many combinations.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.einsums: list[Einsum] = []
        self.hashes: list[str] = []
        self._numbers: dict[str, int] = {}
        self._places = [
            [at for at, parameter in enumerate(sweep.parameters) if parameter.name in network.parameters]
            for network in sweep.networks
        ]
        self._read = [
            self._variants(network, places) for network, places in zip(sweep.networks, self._places, strict=True)
        ]
        self._loads: dict[tuple[tuple[str, ...], ...], Load] = {}

    def _variants(self, network: Network, places: list[int]) -> dict[tuple[str, ...], Network | InputError]:
        """Network for each combination of its parameters, or why there is none; numbers its layers."""
        swept = [self.sweep.parameters[at] for at in places]
        many = math.prod(len(parameter.values) for parameter in swept)
        if many > MOST:
            names = ", ".join(parameter.name for parameter in swept)
            raise AccelsimError(f"{network.name}: {many:,} combinations of {names}; at most {MOST:,} can be swept")
        found: dict[tuple[str, ...], Network | InputError] = {}
        for values in itertools.product(*(parameter.values for parameter in swept)):
            found[values] = made = _variant(network, dict(zip((p.name for p in swept), values, strict=True)))
            for layer in made.layers if isinstance(made, Network) else ():
                digest = layer_hash(layer)
                if digest not in self._numbers:
                    self._numbers[digest] = len(self.einsums)
                    self.einsums.append(layer)
                    self.hashes.append(digest)
        return found

    def of(self, design: Design) -> Load:
        """Load of a design; raises InputError if a workload cannot be read with its values."""
        key = tuple(tuple(design.values[at] for at in places) for places in self._places)
        if key not in self._loads:
            self._loads[key] = self._make(key)
        return self._loads[key]

    def _make(self, key: tuple[tuple[str, ...], ...]) -> Load:
        networks, per = [], self.sweep.per
        for read, values in zip(self._read, key, strict=True):
            made = read[values]
            if isinstance(made, InputError):
                raise made
            networks.append(made)
        weights = [
            network.weight * layer.repeat / (network.yields[per] if per else 1)
            for network in networks
            for layer in network.layers
        ]
        numbers = [self._numbers[layer_hash(layer)] for network in networks for layer in network.layers]
        different = list(dict.fromkeys(numbers))
        return Load(tuple(networks), tuple(different), tuple(map(different.index, numbers)), tuple(weights))


def _variant(network: Network, values: dict[str, str]) -> Network | InputError:
    if not values:
        return network
    try:
        workload = network.read(values)
    except InputError as error:
        return error
    return replace(network, layers=chosen_layers(workload, network.requested), yields=workload.yields)


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

    `lag`: 2 where designs are pruned by those of earlier waves.
    """

    def __init__(self, designs: Sequence[Design], wave: int, lag: int | None) -> None:
        self.lag, self.total = lag, len(designs)
        self._waves = iter([list(designs[at : at + wave]) for at in range(0, len(designs), wave)])

    def ask(self) -> list[Design]:
        """Next wave."""
        return next(self._waves, [])

    def tell(self, wave: Sequence[Design], values: Sequence[Values]) -> None:
        """Nothing is learnt."""


def random_designs(sweep: Sweep, allowed: Callable[[Design], bool]) -> list[Design]:
    """Different designs, drawn so that all that meet the conditions are equally likely, in the order drawn."""
    rng = np.random.default_rng(sweep.seed)
    requested = sweep.designs or 0
    if sweep.grid <= _LISTED:
        order: Iterator[int] = (int(number) for number in rng.permutation(sweep.grid))
        return list(itertools.islice(filter(allowed, (design_at(sweep, number) for number in order)), requested))
    found: dict[int, Design] = {}
    for _ in range(1000 * requested):
        design = design_of(sweep, [int(rng.integers(len(parameter.values))) for parameter in sweep.parameters])
        if design.number not in found and allowed(design):
            found[design.number] = design
            if len(found) == requested:
                break
    return list(found.values())


class Optuna:
    """Multi-objective search by optuna's TPE sampler: a wave is asked, mapped, and told before the next one.

    `allowed`: whether a design meets the conditions.
    """

    def __init__(self, sweep: Sweep, allowed: Callable[[Design], bool]) -> None:
        require("optuna", "`strategy: optuna` needs it", "optuna")
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.sweep, self.allowed = sweep, allowed
        self.lag, self.total = 1, min(sweep.designs or 0, sweep.grid)
        self._failed = optuna.trial.TrialState.FAIL
        sampler = optuna.samplers.TPESampler(seed=sweep.seed, n_startup_trials=sweep.wave)
        self.study = optuna.create_study(directions=["minimize"] * len(sweep.objectives), sampler=sampler)
        self._space: dict[str, Any] = {}
        for parameter in sweep.parameters:
            places, kinds = range(len(parameter.values)), optuna.distributions
            of_texts = parameter.kind == "text"
            self._space[parameter.name] = (
                kinds.CategoricalDistribution(list(places)) if of_texts else kinds.IntDistribution(0, places[-1])
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
            design = design_of(self.sweep, [int(trial.params[p.name]) for p in self.sweep.parameters])
            if design.number in self._known:
                self._tell(trial, self._known[design.number])
            elif design.number in self._trials:
                self._trials[design.number].append(trial)
            elif not self.allowed(design):
                self._tell(trial, None)
            else:
                self._trials[design.number] = [trial]
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
