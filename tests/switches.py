"""Devices of the exact search that small problems hardly reach, set at random.

Walks mostly find the optimum before the search begins, and so hide bounds that are too high. Coarser tables are for
large spaces, and waves of root shapes come after more work than a small problem takes. Whatever their settings, the
search finds and proves the same optimum. Kernels hold none of these constants: nothing is compiled anew.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from accelsim.search import descent
from accelsim.search.descent import Descent
from accelsim.search.exact import bounds, optimum, relaxation, solve
from accelsim.search.exact.relaxation import Relaxation

SWITCHES: tuple[tuple[Any, dict[str, tuple[Any, ...]]], ...] = (
    (relaxation, {"FEW_SHAPES": (0,), "SPREADS": (1, 2)}),
    (bounds, {"MOST_COARSE": (0,)}),
    (solve, {"SMALL": (0,), "FIRST_WAVE": (1, 3), "PIECES": (2, 8)}),
    (optimum, {"ROOMS": ((1, 4, 4096),)}),
)
"""Constants, and values that bring their devices into small problems; those of a row mostly come together."""


def draw(seed: int, *, low: bool = False) -> dict[str, Any]:
    """Which walks there are, and what the constants are set to; `low`: walks off or poor, and most constants set."""
    rng = random.Random(seed)
    share = rng.choice([0.5, 0.8, 1.0] if low else [0.0, 0.3, 0.6, 1.0])
    drawn: dict[str, Any] = {"walks": rng.choice(["off", "poor"] if low else ["off", "poor", "as they are"])}
    for module, names in SWITCHES:
        if rng.random() < share:
            found = {f"{module.__name__}.{name}": rng.choice(values) for name, values in names.items()}
            drawn |= {name: value for name, value in found.items() if rng.random() < 0.9}
    return drawn


def coarsen(patch: pytest.MonkeyPatch) -> None:
    """Let searches have the coarsest tables, as if all others were too large: of the lower corner alone."""
    stages = Relaxation._stages
    patch.setattr(Relaxation, "_stages", lambda *arguments: [*stages(*arguments)][-1:])
    patch.setattr(bounds, "MOST_COARSE", 0)


@contextmanager
def switched(seed: int, *, low: bool = False) -> Iterator[dict[str, Any]]:
    """Set the devices as a seed says."""
    with pytest.MonkeyPatch.context() as patch:
        drawn = draw(seed, low=low)
        for name, value in drawn.items():
            if name != "walks":
                patch.setattr(name, value)
        if "accelsim.search.exact.bounds.MOST_COARSE" in drawn:
            coarsen(patch)
        if drawn["walks"] == "off":
            patch.setattr(Descent, "go", lambda *_: None)
        elif drawn["walks"] == "poor":
            go = Descent.go
            patch.setattr(descent, "SHORT", 1)
            patch.setattr(Descent, "go", lambda walks, _, deadline=None: go(walks, 1, deadline))
        yield drawn
