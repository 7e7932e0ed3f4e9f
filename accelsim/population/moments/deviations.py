"""Exact standard deviations, over all valid mappings, of energy and of words moved (docs/census_moments.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accelsim.inputs.errors import AccelsimError
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Floats
from accelsim.population.moments.means import Means, idle_pj, prices_per_word, ways_outside
from accelsim.population.moments.squares import Squares
from accelsim.population.steps import Nest


@dataclass(frozen=True, slots=True)
class EnergyDeviation:
    """Exact standard deviation of energy over all valid mappings of a map space, each counting once.

    Attributes
    ----------
    energy_pj : float
        Of the energy that `Means.energy_pj` is the mean of. Rounding is at most about 1e-7 of that mean.
    slack_pj : float
        The standard deviation of the energy without leakage is closer to it than this; 0 where an access is a word.
    """

    energy_pj: float
    slack_pj: float


@dataclass(frozen=True, slots=True)
class TensorDeviations:
    """Exact standard deviations of a tensor's words at a level, of which `TensorMeans` has the means."""

    level: str
    tensor: str
    reads: float
    fills: float
    updates: float
    transfers: float


def energy_deviation(space: MapSpace, found: Means) -> EnergyDeviation:
    """Standard deviation of energy over all valid mappings, without sampling.

    Parameters
    ----------
    space : MapSpace
    found : Means
        Of `means`.

    Raises
    ------
    AccelsimError
        If two tensors are windowed.

    Examples
    --------
    >>> from accelsim import load_architecture, load_workload
    >>> from accelsim.population.moments.means import means
    >>> from accelsim.model.encode import encode
    >>> space = MapSpace(encode(load_architecture("two_level"), load_workload("conv1d").layers[0]))
    >>> energy_deviation(space, means(space)).energy_pj > 0
    True
    """
    encoded = space.encoded
    if int(encoded.constants.windowed.sum()) > 1:
        raise AccelsimError(
            f"{encoded.einsum.name}: two tensors are windowed; the deviation of energy is known for one"
        )
    levels = encoded.architecture.levels
    instances = np.array([encoded.architecture.instances(lv) for lv in range(len(levels))])
    compute = encoded.einsum.macs * float(encoded.constants.mac[0])
    return EnergyDeviation(
        energy_pj=_deviation(_squares(space), prices_per_word(encoded), found.energy_pj, found.mappings, compute),
        slack_pj=float((instances[:, None] * idle_pj(encoded)).sum()) / 2,
    )


def word_deviations(space: MapSpace, found: Means) -> tuple[TensorDeviations, ...]:
    """Standard deviations of words moved over all valid mappings, without sampling; in the order of `found.tensors`.

    Parameters
    ----------
    space : MapSpace
    found : Means
        Of `means`.
    """
    shape = (len(space.encoded.architecture.levels), len(space.encoded.tensors), 4)
    squares, tensors = _squares(space), []
    for at, mean in enumerate(found.tensors):
        values = []
        for kind, words in enumerate((mean.reads, mean.fills, mean.updates, mean.transfers)):
            prices = np.zeros(shape)
            prices[(*divmod(at, shape[1]), kind)] = 1.0
            values.append(_deviation(squares, prices, words, found.mappings) if words else 0.0)
        tensors.append(TensorDeviations(mean.level, mean.tensor, *values))
    return tuple(tensors)


def _squares(space: MapSpace) -> Squares:
    nest = Nest(space)
    return Squares(nest, ways_outside(nest))


def _deviation(squares: Squares, prices: Floats, mean: float, mappings: int, base: float = 0.0) -> float:
    return math.sqrt(max(0.0, squares.second_moment(prices, base - mean) / float(mappings)))
