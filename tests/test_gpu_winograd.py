"""Convolutions by Winograd's minimal filtering."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.gpu import PASSES
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.gemms import time_gemms
from validation.convolutions import OUTPUTS, SIZES, applies, convolution_gemms, winograd_gemms, winograd_us

INTO = np.array(
    [
        *([4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0]),
        *([0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]),
    ],
    float,
)
FILTERING = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6] * 3,
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
OUT = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]], float)
"""B^T, G and A^T of F(4 x 4, 3 x 3) (Lavin and Gray 2016, section 4)."""


def layer(*values: float) -> dict[str, np.ndarray]:
    return {name: np.array([float(value)]) for name, value in zip(SIZES, values, strict=True)}


def convolved(image: np.ndarray, filters: np.ndarray) -> tuple[np.ndarray, int]:
    """Convolve [C, H, W] with [K, C, 3, 3] tile by tile; also count the multiplications of transformed words."""
    outputs = OUTPUTS
    rows, columns = image.shape[1] - 2, image.shape[2] - 2
    down, across = -(-rows // outputs), -(-columns // outputs)
    padded = np.pad(image, ((0, 0), (0, down * outputs - rows), (0, across * outputs - columns)))
    result, multiplications = np.zeros((len(filters), down * outputs, across * outputs)), 0
    for y in range(0, down * outputs, outputs):
        for x in range(0, across * outputs, outputs):
            tile = padded[:, y : y + outputs + 2, x : x + outputs + 2]
            for k, each in enumerate(filters):
                for channel, weights in zip(tile, each, strict=True):
                    products = (FILTERING @ weights @ FILTERING.T) * (INTO @ channel @ INTO.T)
                    multiplications += products.size
                    result[k, y : y + outputs, x : x + outputs] += OUT @ products @ OUT.T
    return result[:, :rows, :columns], multiplications


def test_winograd_gemms__have_the_multiplications_of_the_algorithm():
    random = np.random.default_rng(7)
    image, filters = random.normal(size=(3, 9, 12)), random.normal(size=(2, 3, 3, 3))
    found, multiplications = convolved(image, filters)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
    assert found == pytest.approx(np.einsum("cyxrs,kcrs->kyx", windows, filters), abs=1e-12)
    for name in PASSES[::2]:
        products = winograd_gemms(layer(1, 3, 9, 12, 2, 3, 3, 7, 10), name)
        assert products.flops == 2 * multiplications


def test_applies__to_windows_of_three_that_move_by_one():
    kept, valid = layer(1, 8, 14, 14, 8, 3, 3, 14, 14), layer(1, 8, 14, 14, 8, 3, 3, 12, 12)
    strided, other = layer(1, 8, 14, 14, 8, 3, 3, 7, 7), layer(1, 8, 14, 14, 8, 5, 5, 14, 14)
    assert [bool(applies(sizes)[0]) for sizes in (kept, valid, strided, other)] == [True, True, False, False]


def test_winograd_us__beats_the_peak_of_the_sliding_window_where_it_did_on_a_v100():
    """16 x 256 x 28 x 28 to 512 channels took 801 us (DeepBench): 36.9 TFLOPS of the sliding window, peak 14."""
    gpu, sizes = load_gpu("v100_pcie"), layer(16, 256, 28, 28, 512, 3, 3, 28, 28)
    constants = mode_of(gpu, "fp32").constants
    gemm = convolution_gemms(sizes, "forward")
    found = float(winograd_us(gpu, sizes, "forward", "fp32", constants)[0])
    assert found == pytest.approx(801, rel=0.1)
    assert gemm.flops[0] / found * 1e-6 > 2 * gpu.peak_tflops["fp32"]
    assert time_gemms(gpu, gemm, "fp32", constants).time_us[0] > 2 * found


def test_winograd_us__pays_for_transformed_tensors():
    """Few channels: the transforms move more than the products save."""
    gpu, sizes = load_gpu("v100_pcie"), layer(16, 8, 112, 112, 8, 3, 3, 112, 112)
    constants = mode_of(gpu, "fp32").constants
    found = winograd_us(gpu, sizes, "forward", "fp32", constants)[0]
    moved = 16 * 8 * (2 * 112**2 + 2 * 36 * 28**2) * 4 / (gpu.dram_bytes_per_s * 1e-6 * constants.dram_efficiency)
    assert found > moved
