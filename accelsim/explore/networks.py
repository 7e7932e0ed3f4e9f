"""The networks of each design: where parameters of workloads are swept, their layers differ from design to design."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from accelsim.explore.checking import Network, chosen_layers
from accelsim.explore.machines import Design, layer_mark
from accelsim.explore.sweep import Sweep
from accelsim.inputs.errors import AccelsimError, SpecError
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload

MOST = 10_000
"""Combinations of parameters of one workload at most: the layers of all of them go to each worker."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a design has to run.

    Attributes
    ----------
    networks : tuple of Network
    different : tuple of int
        Its different layers, by their numbers among those of the whole sweep.
    layer_of : tuple of int
        For each layer, network after network, which of `different` it is.
    weights : tuple of float
        How often each layer counts: its repeats times the weight of the network, over what a run yields if totals are
        per frame or the like.
    """

    networks: tuple[Network, ...]
    different: tuple[int, ...]
    layer_of: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def layers(self) -> list[tuple[Network, Einsum]]:
        """All layers, network after network."""
        return [(network, layer) for network in self.networks for layer in network.layers]


class Loads:
    """Makes the load of each design; each workload is read once for each combination of its parameters.

    Parameters
    ----------
    sweep : Sweep

    Attributes
    ----------
    einsums : list of Einsum
        All different layers of all designs.
    marks : list of str
        Their hashes.

    Raises
    ------
    AccelsimError
        If a workload has too many combinations.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.einsums: list[Einsum] = []
        self.marks: list[str] = []
        self._numbers: dict[str, int] = {}
        self._places = [
            [at for at, parameter in enumerate(sweep.parameters) if parameter.name in network.parameters]
            for network in sweep.networks
        ]
        self._read = [
            self._variants(network, places) for network, places in zip(sweep.networks, self._places, strict=True)
        ]
        self._loads: dict[tuple[tuple[str, ...], ...], Load] = {}

    def _variants(self, network: Network, places: list[int]) -> dict[tuple[str, ...], Network | SpecError]:
        """Network for each combination of its parameters, or why there is none; numbers its layers."""
        swept = [self.sweep.parameters[at] for at in places]
        many = math.prod(len(parameter.values) for parameter in swept)
        if many > MOST:
            names = ", ".join(parameter.name for parameter in swept)
            raise AccelsimError(f"{network.name}: {many:,} combinations of {names}; at most {MOST:,} can be swept")
        found: dict[tuple[str, ...], Network | SpecError] = {}
        for values in itertools.product(*(parameter.values for parameter in swept)):
            found[values] = made = _variant(network, dict(zip((p.name for p in swept), values, strict=True)))
            for layer in made.layers if isinstance(made, Network) else ():
                mark = layer_mark(layer)
                if mark not in self._numbers:
                    self._numbers[mark] = len(self.einsums)
                    self.einsums.append(layer)
                    self.marks.append(mark)
        return found

    def of(self, design: Design) -> Load:
        """Load of a design.

        Raises
        ------
        SpecError
            If a workload cannot be read with its values.
        """
        key = tuple(tuple(design.values[at] for at in places) for places in self._places)
        if key not in self._loads:
            self._loads[key] = self._make(key)
        return self._loads[key]

    def _make(self, key: tuple[tuple[str, ...], ...]) -> Load:
        networks, per = [], self.sweep.per
        for read, values in zip(self._read, key, strict=True):
            made = read[values]
            if isinstance(made, SpecError):
                raise made
            networks.append(made)
        weights = [
            network.weight * layer.repeat / (network.yields[per] if per else 1)
            for network in networks
            for layer in network.layers
        ]
        numbers = [self._numbers[layer_mark(layer)] for network in networks for layer in network.layers]
        different = list(dict.fromkeys(numbers))
        return Load(tuple(networks), tuple(different), tuple(map(different.index, numbers)), tuple(weights))


def _variant(network: Network, values: dict[str, str]) -> Network | SpecError:
    if not values:
        return network
    try:
        workload = load_workload(network.file.path, {**network.overrides, **values})
    except SpecError as error:
        return error
    return replace(network, layers=chosen_layers(workload, network.wanted), yields=workload.yields)
