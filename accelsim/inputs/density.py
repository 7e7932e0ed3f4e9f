"""Densities of tensors: how many words of a tile are not zero, as a distribution over all tiles of a size.

`box` and `full` are extents [words] along the ranks of a tensor: of a tile, and of the whole tensor.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WIDEST, _SIGMAS = 64, 40
"""Of a uniform density that much around the mean is kept: at least so many words, or standard deviations."""
_MOST_TILES = 2**24
"""Tiles of a band or a mask that are looked at one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Occupancy:
    """Words of a tile that are not zero: each number that is possible, ascending, and its probability."""

    words: NDArray[np.int64]
    probability: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Expected number of words that are not zero."""
        return float(self.words @ self.probability)

    @property
    def empty(self) -> float:
        """Probability that all words are zero."""
        return float(self.probability[0]) if self.words[0] == 0 else 0.0

    def quantile(self, share: float) -> int:
        """Words that suffice for a share of all tiles (1: for every tile)."""
        enough = np.cumsum(self.probability) >= share - 1e-12
        return int(self.words[np.argmax(enough)]) if share < 1 and enough.any() else int(self.words[-1])

    def blocks(self, size: int) -> float:
        """Expected number of blocks of so many words that hold them."""
        return float(-(-self.words // size) @ self.probability)


def _certain(words: int) -> Occupancy:
    return Occupancy(np.array([words], np.int64), np.ones(1))


@dataclass(frozen=True, slots=True)
class Dense:
    """No word is zero, or nothing is known of it."""

    def occupancy(self, box: Sequence[int], full: Sequence[int]) -> Occupancy:
        """Words of a tile that are not zero."""
        return _certain(math.prod(box))

    def __str__(self) -> str:
        return "dense"


@dataclass(frozen=True, slots=True)
class Uniform:
    """So many words of the whole tensor are not zero, at places drawn without return (hypergeometric in a tile)."""

    density: Fraction

    def occupancy(self, box: Sequence[int], full: Sequence[int]) -> Occupancy:
        """Words of a tile that are not zero."""
        return hypergeometric(math.prod(full), math.ceil(self.density * math.prod(full)), math.prod(box))

    def __str__(self) -> str:
        return f"uniform, {float(self.density):.4g}"


@dataclass(frozen=True, slots=True)
class FixedStructured:
    """Each tile of whatever size holds its share, rounded down or up as often as the mean asks for (Sparseloop)."""

    density: Fraction

    def occupancy(self, box: Sequence[int], full: Sequence[int]) -> Occupancy:
        """Words of a tile that are not zero."""
        mean = self.density * math.prod(box)
        least = math.floor(mean)
        if mean == least:
            return _certain(least)
        chances = [float(least + 1 - mean), float(mean - least)]
        return Occupancy(np.array([least, least + 1], np.int64), np.array(chances))

    def __str__(self) -> str:
        return f"fixed structured, {float(self.density):.4g}"


@dataclass(frozen=True, slots=True)
class NOfM:
    """Of m words side by side along a rank n are not zero, at any of their places; blocks begin at multiples of m."""

    n: int
    m: int
    rank: int

    def occupancy(self, box: Sequence[int], full: Sequence[int]) -> Occupancy:
        """Words of a tile that are not zero, over all tiles of a grid; one may begin and end inside a block."""
        wide, rows = box[self.rank], math.prod(box) // box[self.rank]
        tiles = max(1, full[self.rank] // wide)
        found = np.zeros(math.prod(box) + 1)
        for start, many in Counter(at * wide % self.m for at in range(tiles)).items():
            head = min(wide, -start % self.m)
            whole, tail = divmod(wide - head, self.m)
            parts = [hypergeometric(self.m, self.n, part) for part in (head, tail) if part]
            least = rows * (whole * self.n + sum(int(part.words[0]) for part in parts))
            row = np.ones(1)
            for part in parts:
                row = np.convolve(row, part.probability)
            sums = _repeated(row, rows)
            found[least : least + len(sums)] += many / tiles * sums
        words = np.flatnonzero(found)
        return Occupancy(words.astype(np.int64), found[words])

    def __str__(self) -> str:
        return f"{self.n} of {self.m}"


@dataclass(frozen=True, slots=True)
class Banded:
    """A matrix whose words are zero but on the diagonal and so many diagonals on each side of it."""

    band_width: int

    def occupancy(self, box: Sequence[int], full: Sequence[int]) -> Occupancy:
        """Words of a tile that are not zero, over all tiles of a grid."""
        rows, columns = (np.arange(0, max(1, end // step)) * step for end, step in zip(full, box, strict=True))
        if len(rows) * len(columns) > _MOST_TILES:
            raise ValueError(f"a band of {full[0]} x {full[1]} words has too many tiles of {box[0]} x {box[1]}")
        offsets, many = np.unique(columns[None, :] - rows[:, None], return_counts=True)
        inside = _below(box, self.band_width - offsets) - _below(box, -self.band_width - 1 - offsets)
        return _histogram(np.repeat(inside, many))

    def __str__(self) -> str:
        return f"banded, {self.band_width} on each side"


@dataclass(frozen=True, slots=True)
class Measured:
    """A mask of the tensor: its shape, and the places that are not zero as bits in the order of its ranks."""

    shape: tuple[int, ...]
    bits: bytes
    name: str = ""

    @property
    def mask(self) -> NDArray[np.bool_]:
        """True where a word is not zero."""
        flat = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=math.prod(self.shape))
        return flat.reshape(self.shape).astype(np.bool_)

    def occupancy(self, box: Sequence[int], full: Sequence[int]) -> Occupancy:
        """Words of a tile that are not zero, over all whole tiles of a grid."""
        return _of_mask(self, tuple(box))

    def __str__(self) -> str:
        return f"measured, {int.from_bytes(self.bits).bit_count() / math.prod(self.shape):.4g}"


Density = Dense | Uniform | FixedStructured | NOfM | Banded | Measured
"""What is known of the zeros of a tensor."""


@lru_cache(maxsize=1024)
def _of_mask(density: Measured, box: tuple[int, ...]) -> Occupancy:
    """Words of tiles of a mask; each mapping that is counted asks for many of the same tiles."""
    counts: NDArray[Any] = density.mask
    for axis, (step, end) in enumerate(zip(box, density.shape, strict=True)):
        whole = max(1, end // step)
        kept = np.take(counts, np.arange(min(end, whole * step)), axis)
        counts = np.add.reduceat(kept, np.arange(whole) * step, axis, np.int64)
    return _histogram(counts.ravel())


def measured(mask: NDArray[np.generic], name: str = "") -> Measured:
    """Density of a tensor whose words are given: those that are not zero count."""
    return Measured(mask.shape, np.packbits(np.asarray(mask) != 0).tobytes(), name)


def hypergeometric(total: int, nonzero: int, drawn: int) -> Occupancy:
    """Words that are not zero among some drawn from a total without return.

    >>> two_of_four = hypergeometric(4, 2, 2)
    >>> two_of_four.words.tolist(), [round(6 * p) for p in two_of_four.probability]
    ([0, 1, 2], [1, 4, 1])
    """
    drawn = min(drawn, total)
    least, most = max(0, drawn + nonzero - total), min(drawn, nonzero)
    mean = drawn * nonzero / total
    spread = _SIGMAS * math.sqrt(mean * (1 - nonzero / total) * (total - drawn) / max(1, total - 1)) + _WIDEST
    first, last = max(least, math.floor(mean - spread)), min(most, math.ceil(mean + spread))
    k = np.arange(first, last, dtype=np.float64)
    ratios = (nonzero - k) * (drawn - k) / ((k + 1) * (total - nonzero - drawn + k + 1))
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    found = np.exp(logs - logs.max())
    return Occupancy(np.arange(first, last + 1), found / found.sum())


def _repeated(probability: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """Distribution of a sum of independent draws."""
    found, power = np.ones(1), probability
    while times:
        if times & 1:
            found = np.convolve(found, power)
        times >>= 1
        power = np.convolve(power, power) if times else power
    return found


def _below(box: Sequence[int], most: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places (i, j) of a tile with j - i <= most."""
    rows, columns = box
    row = np.arange(rows)
    inside: NDArray[np.int64] = np.clip(most[:, None] + row[None, :] + 1, 0, columns).sum(axis=1)
    return inside


def _histogram(counts: NDArray[np.int64]) -> Occupancy:
    words, many = np.unique(counts, return_counts=True)
    return Occupancy(words.astype(np.int64), many / many.sum())
