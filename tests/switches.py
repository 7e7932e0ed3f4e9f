"""Devices of the exact search that small problems hardly reach, set at random.

Walks mostly find the optimum before the search begins, and so hide bounds that are too high. Finer tables and waves of
root shapes come after more work than a small problem takes. Whatever their settings, the search finds and proves the
same optimum. Kernels hold none of these constants: nothing is compiled anew.
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

SWITCHES: tuple[tuple[Any, dict[str, tuple[Any, ...]]], ...] = (
    (relaxation, {"NODES_AN_ENTRY": (-1.0, 0.01), "ENTRIES_A_TABLE": (0,)}),
    (relaxation, {"FAR_MORE": (-1.0,), "MOST_ONCE": (-1, 5)}),
    (relaxation, {"MUCH": (-1.0,), "SMALL_TABLES": (0,)}),
    (relaxation, {"FEW_SHAPES": (0,), "SPREADS": (1, 2)}),
    (bounds, {"MOST_COARSE": (0,)}),
    (solve, {"SMALL": (0,), "FIRST_WAVE": (1, 3), "PIECES": (2, 8)}),
    (solve, {"MEMO": (8, 64)}),
    (optimum, {"MOST_NODES": (0,), "ROOMS": ((1, 4, 4096),)}),
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


@contextmanager
def switched(seed: int, *, low: bool = False) -> Iterator[dict[str, Any]]:
    """Set the devices as a seed says."""
    with pytest.MonkeyPatch.context() as patch:
        drawn = draw(seed, low=low)
        for name, value in drawn.items():
            if name != "walks":
                patch.setattr(name, value)
        if drawn["walks"] == "off":
            patch.setattr(Descent, "go", lambda *_: None)
        elif drawn["walks"] == "poor":
            go = Descent.go
            patch.setattr(descent, "SHORT", 1)
            patch.setattr(Descent, "go", lambda walks, _, deadline=None: go(walks, 1, deadline))
        yield drawn
