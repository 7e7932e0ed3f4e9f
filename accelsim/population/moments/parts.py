"""What the nest has at each level, from the inside out, and steps outside a tile.

Axis letters: S = tile shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.mapspace.tiles import along
from accelsim.model.encode import Floats
from accelsim.population.moments.crossing import Network
from accelsim.population.moments.orders import Block, Powers, blocks_of
from accelsim.population.steps import Keeping, Nest, Step


@dataclass(frozen=True, slots=True)
class Part:
    """What the nest has at a level, from the inside out: its network, its loops in time, its tiles."""

    level: int
    network: Network
    blocks: tuple[Block, ...]
    keeping: Keeping


def parts_of(nest: Nest) -> list[Part]:
    """The levels of a nest, innermost first."""
    found: list[Part] = []
    axes: list[Step] = []
    blocks: tuple[Block, ...] = ()
    for step in nest.steps:
        if isinstance(step, Keeping):
            found.append(Part(step.level, Network(nest, tuple(axes)), tuple(blocks), step))
            axes = []
        elif step.slot.axis:
            axes.append(step)
        else:
            blocks = tuple(blocks_of(nest, step))
    return found


def steps_outside(nest: Nest) -> Floats:
    """Steps and instances outside each tile shape, together: float64[*S]."""
    found: Floats = np.ones(nest.shape)
    for d, sizes in enumerate(nest.sizes):
        found = found * along(sizes[-1] // sizes, d, len(nest.sizes))
    return found


def everything_in(nest: Nest) -> Powers:
    """All dimensions, with loops that weigh nothing."""
    return dict.fromkeys(range(len(nest.sizes)), 0.0)


def axes_of(nest: Nest) -> dict[int, int]:
    """Axis of each dimension in arrays over tile shapes."""
    return {d: d for d in range(len(nest.sizes))}
