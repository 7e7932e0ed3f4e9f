"""Take the census of a map space: exact numbers, ranges, and a uniform sample."""

from __future__ import annotations

import os
import time

import numpy as np

from accelsim.architecture import Architecture
from accelsim.constraints import Constraints
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.population.counting import count_mappings
from accelsim.population.result import Census, Range
from accelsim.population.sampling import Sampler
from accelsim.population.steps import Nest
from accelsim.search.exact.mapper import map_front
from accelsim.workload import Einsum


def census(
    architecture: Architecture,
    einsum: Einsum,
    *,
    constraints: Constraints | None = None,
    samples: int = 100_000,
    seed: int = 0,
    workers: int | None = None,
) -> Census:
    """Count all valid mappings of an Einsum on a machine, and tell how what they cost is spread.

    Parameters
    ----------
    architecture : Architecture
    einsum : Einsum
    constraints : Constraints, optional
    samples : int
        Mappings that are drawn uniformly and evaluated.
    seed : int
    workers : int, optional
        Threads; default: all cores. The result does not depend on it.

    Returns
    -------
    Census

    Raises
    ------
    NoValidMapping
        If no mapping is valid.
    """
    started = time.monotonic()
    cores = workers or os.cpu_count() or 1
    space = MapSpace(encode(architecture, einsum), constraints)
    nest = Nest(space)
    mappings = count_mappings(nest)
    sample = Sampler(nest).sample(samples, seed, workers=cores)
    front = map_front(architecture, einsum, constraints=constraints, workers=cores)
    ranges = []
    for column, at in (("energy", 0), ("cycles", 1), ("outer_words", None)):
        values = sample.values(column)
        if at is None:
            lowest, low_mapping = float(values.min()), sample.result(int(np.argmin(values)))
        else:
            point = min(range(len(front.points)), key=lambda i: front.values[i][at])
            lowest, low_mapping = front.values[point][at], front.points[point]
        worst = int(np.argmax(values))
        ranges.append(
            Range(column, lowest, lowest, float(values[worst]), float("inf"), low_mapping, sample.result(worst))
        )
    return Census(
        architecture=architecture.name,
        workload=einsum.name,
        macs=einsum.real_macs,
        space_size=space.size,
        mappings=mappings,
        fully_used=count_mappings(nest, least_units=architecture.macs),
        by_keep=(),
        ranges=tuple(ranges),
        near=(),
        fewest=None,
        front=front,
        sample=sample,
        seconds=time.monotonic() - started,
    )
