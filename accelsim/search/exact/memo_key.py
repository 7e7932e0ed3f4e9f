"""The hash of a partial mapping, to which each feature adds what the rest of the mapping depends on; compiled."""

from __future__ import annotations

import numpy as np

from accelsim.model.jit import inline
from accelsim.model.records import Uints1


@inline
def mix_key(key: Uints1, value: int) -> None:
    """Add a number to a hash of two halves."""
    word = np.uint64(value)
    first, second = key[0], key[1]
    first = (first ^ word) * np.uint64(0x9E3779B97F4A7C15)
    second = (second + word) * np.uint64(0xC2B2AE3D27D4EB4F)
    key[0] = first ^ (first >> np.uint64(29))
    key[1] = second ^ (second >> np.uint64(31)) ^ np.uint64(0x165667B19E3779F9)
