"""Densities: closed forms of the words in a tile beside masks that are drawn and counted."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from accelsim.inputs.density import Banded, Density, FixedStructured, NOfM, Uniform, hypergeometric, measured

DRAWS = 600


def counted(mask: NDArray[np.bool_], box: tuple[int, ...]) -> list[int]:
    """Words that are not zero in each tile of a grid, one word after the other."""
    starts = itertools.product(*(range(0, end, step) for end, step in zip(mask.shape, box, strict=True)))
    places = list(itertools.product(*map(range, box)))
    return [sum(bool(mask[tuple(map(sum, zip(at, place, strict=True)))]) for place in places) for at in starts]


def drawn(density: Density, full: tuple[int, int], random: np.random.Generator) -> NDArray[np.bool_]:
    """A mask with the density's law."""
    words = math.prod(full)
    if isinstance(density, Uniform):
        chosen = random.choice(words, math.ceil(density.density * words), replace=False)
        return np.isin(np.arange(words), chosen).reshape(full)
    assert isinstance(density, NOfM)
    mask = np.zeros(full, np.bool_)
    rows = mask if density.rank == 1 else mask.T
    for row, start in itertools.product(range(rows.shape[0]), range(0, rows.shape[1], density.m)):
        rows[row, start + random.choice(density.m, density.n, replace=False)] = True
    return mask


@pytest.mark.parametrize(
    ("density", "full", "box"),
    [
        (Uniform(Fraction(1, 4)), (8, 8), (2, 4)),
        (Uniform(Fraction(9, 10)), (4, 6), (4, 3)),
        (Uniform(Fraction(1, 2)), (4, 4), (1, 1)),
        (NOfM(2, 4, 1), (4, 8), (2, 2)),
        (NOfM(2, 4, 1), (4, 8), (4, 4)),
        (NOfM(1, 4, 0), (8, 4), (2, 2)),
        (NOfM(3, 6, 1), (2, 12), (1, 4)),
        (NOfM(1, 3, 1), (2, 12), (2, 4)),
    ],
)
def test_occupancy__is_that_of_masks_that_are_drawn(density, full, box):
    random = np.random.default_rng(29)
    counts = np.array([counted(drawn(density, full, random), box) for _ in range(DRAWS)])
    found = density.occupancy(box, full)
    assert found.probability.sum() == pytest.approx(1)
    assert found.words[0] <= counts.min() <= counts.max() <= found.words[-1]
    for words, probability in zip(found.words, found.probability, strict=True):
        margin = 5 * math.sqrt(probability * (1 - probability) / DRAWS)
        assert abs((counts == words).mean() - probability) <= margin + 1e-9
    assert found.mean == pytest.approx(counts.mean(), abs=5 * counts.std() / math.sqrt(DRAWS) + 1e-9)


@given(st.integers(1, 40), st.data())
@example(1, None)
def test_hypergeometric__counts_choices(total, data):
    nonzero = 1 if data is None else data.draw(st.integers(0, total))
    tile = 1 if data is None else data.draw(st.integers(1, total))
    found = hypergeometric(total, nonzero, tile)
    choices = [math.comb(nonzero, int(k)) * math.comb(total - nonzero, tile - int(k)) for k in found.words]
    assert sum(choices) == math.comb(total, tile)
    assert found.probability.tolist() == pytest.approx([each / math.comb(total, tile) for each in choices])


def test_hypergeometric__is_safe_for_large_tensors():
    found = hypergeometric(10**8, 5 * 10**7, 10**6)
    assert found.mean == pytest.approx(5 * 10**5)
    assert found.empty == 0
    assert abs(found.quantile(0.99) - (5e5 + 2.326 * math.sqrt(10**6 / 4 * 0.99))) < 3


@given(st.fractions(0, 1), st.integers(1, 60))
def test_fixed_structured__holds_its_share_in_each_tile(density, words):
    found = FixedStructured(density).occupancy((words,), (words,))
    assert found.mean == pytest.approx(float(density * words))
    assert found.words.tolist() == sorted({math.floor(density * words), math.ceil(density * words)})


@given(st.integers(0, 9), st.sampled_from([(1, 1), (2, 2), (2, 3), (4, 1), (6, 12), (12, 12)]))
def test_banded__is_the_mask_counted(width, box):
    mask = np.abs(np.subtract.outer(np.arange(12), np.arange(12))) <= width
    found = Banded(width).occupancy(box, mask.shape)
    words, many = np.unique(counted(mask, box), return_counts=True)
    assert found.words.tolist() == words.tolist()
    assert found.probability.tolist() == pytest.approx((many / many.sum()).tolist())


def test_measured__leaves_out_what_fills_no_tile():
    """Words 1 1 0 0 1 in tiles of two: one has both, one none, and the last word stands in no whole tile."""
    found = measured(np.array([1, 1, 0, 0, 1])).occupancy((2,), (5,))
    assert (found.words.tolist(), found.probability.tolist()) == ([0, 2], [0.5, 0.5])


@given(st.integers(0, 2**24 - 1), st.sampled_from([(1, 1), (2, 2), (4, 3), (1, 6), (4, 6)]))
def test_measured__is_the_mask_counted(bits, box):
    mask = np.array([bits >> at & 1 for at in range(24)]).reshape(4, 6)
    found = measured(mask).occupancy(box, mask.shape)
    words, many = np.unique(counted(mask != 0, box), return_counts=True)
    assert found.words.tolist() == words.tolist()
    assert found.probability.tolist() == pytest.approx((many / many.sum()).tolist())


def test_quantile__is_the_least_that_suffices():
    """Of 2 of 4 words, two drawn hold 0, 1 or 2 with 1, 4 and 1 of 6: 1 suffices for five sixths."""
    found = hypergeometric(4, 2, 2)
    assert [found.quantile(share) for share in (0.1, 1 / 6, 0.5, 5 / 6, 0.9, 1)] == [0, 0, 1, 1, 2, 2]
    assert found.blocks(2) == pytest.approx(5 / 6)


def test_measured__counts_the_tiles_of_a_size_once():
    """Each mapping that is counted asks for them, and a mask may have 16 million words."""
    mask = measured(np.eye(4), "eye.npy")
    assert mask.occupancy((2, 2), (4, 4)) is measured(np.eye(4), "eye.npy").occupancy([2, 2], (4, 4))
    assert str(mask) == "measured, 0.25"
