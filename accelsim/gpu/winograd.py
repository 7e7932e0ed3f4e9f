"""Time of convolutions by Winograd's minimal filtering: fewer multiplications, and tensors that are transformed.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, sections 3 to 5. F(m x m, r x r) makes
m x m outputs of a channel with (m + r - 1)^2 multiplications, where sliding the window takes m^2 r^2. Each of the
(m + r - 1)^2 places of a tile is a matrix product of its own, of tiles x channels by channels x output channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.constants import Constants
from accelsim.gpu.fit import Floats
from accelsim.gpu.gemm import Gemms, clock_under_power_limit, time_gemms
from accelsim.gpu.layers import PASSES
from accelsim.gpu.machine import BYTES, Gpu

WINDOW = 3
"""Rows and columns of the windows that libraries have these kernels for."""
_INPUT_ADDITIONS, _OUTPUT_ADDITIONS = 32, 24
"""Operations that transform a 4 x 4 tile of a channel, and its products back, in F(2 x 2, 3 x 3) (section 4.1)."""
_BLOCK = 64
"""Output channels of a block of the fused kernel, each of which transforms its tiles anew."""


@dataclass(frozen=True, slots=True)
class Winograd:
    """One way to compute a convolution.

    Attributes
    ----------
    outputs : int
        Rows and columns of the outputs of a tile.
    fused : bool
        One kernel transforms, multiplies and transforms back, and transformed tensors never leave the SM; else they
        pass DRAM between three kernels for the operands and the products.
    """

    outputs: int
    fused: bool

    @property
    def inputs(self) -> int:
        """Rows and columns of a transformed tile."""
        return self.outputs + WINDOW - 1

    @property
    def savings(self) -> float:
        """Multiplications of a sliding window, of those of this one.

        Examples
        --------
        >>> [way.savings for way in WAYS]
        [2.25, 4.0]
        """
        return (self.outputs * WINDOW) ** 2 / self.inputs**2


WAYS = (Winograd(2, fused=True), Winograd(4, fused=False))
"""cuDNN's WINOGRAD, F(2 x 2, 3 x 3), and WINOGRAD_NONFUSED, F(4 x 4, 3 x 3)."""


def applies(sizes: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Whether Winograd can compute these convolutions: windows of 3 x 3 that move by 1.

    A window that moves by more has fewer places than the input holds, even without padding.
    """
    dense = (sizes["P"] > sizes["H"] - WINDOW) & (sizes["Q"] > sizes["W"] - WINDOW)
    found: NDArray[np.bool_] = (sizes["R"] == WINDOW) & (sizes["S"] == WINDOW) & dense
    return found


def winograd_gemms(sizes: Mapping[str, Floats], training_pass: str, way: Winograd) -> Gemms:
    """Products of the transformed tensors, a batch of (m + r - 1)^2.

    Examples
    --------
    A layer of 56 x 56 outputs in tiles of 4 x 4: 14 x 14 tiles, 36 products; 4.0 times fewer multiply-adds.

    >>> sizes = {name: np.array([value]) for name, value in zip("NCHWKRSPQ", (1, 64, 58, 58, 128, 3, 3, 56, 56))}
    >>> found = winograd_gemms(sizes, "forward", WAYS[1])
    >>> [int(size[0]) for size in (found.m, found.n, found.k, found.batch)]
    [196, 128, 64, 36]
    >>> 2 * 56 * 56 * 128 * 64 * 9 / float(found.flops[0])
    4.0
    """
    tiles, (c, k) = _tiles(sizes, training_pass, way), (sizes["C"], sizes["K"])
    places = way.inputs**2
    if training_pass == "weight_gradient":
        return Gemms.of(k, c, tiles, places)
    if training_pass == "input_gradient":
        return Gemms.of(tiles, c, k, places)
    return Gemms.of(tiles, k, c, places)


def winograd_us(
    gpu: Gpu, sizes: Mapping[str, Floats], training_pass: str, number_format: str, constants: Constants, way: Winograd
) -> Floats:
    """Time [us] of convolutions whose windows move by 1.

    Parameters
    ----------
    gpu : Gpu
    sizes : mapping of str to float[P]
        By the names of `accelsim.gpu.convolutions.SIZES`.
    training_pass : str
        One of `PASSES`.
    number_format : str
    constants : Constants
    way : Winograd

    Notes
    -----
    Without fusion each transform is a kernel that reads one form and writes the other at DRAM bandwidth, and the
    products read and write transformed tensors. A fused kernel takes the multiply-adds of its products, under the same
    limit of power, the additions of its transforms on the FP32 units beside them, and the DRAM traffic of the tensors
    as they are: the least that it may take.
    """
    width = BYTES[number_format]
    n, c, h, w, k, p, q = (sizes[name] for name in "NCHWKPQ")
    tiles, places = _tiles(sizes, training_pass, way), way.inputs**2
    products = time_gemms(gpu, winograd_gemms(sizes, training_pass, way), number_format, constants)
    rate = gpu.dram_bytes_per_s * 1e-6 * constants.dram_efficiency
    plain = n * c * h * w + n * k * p * q + k * c * WINDOW**2
    if not way.fused:
        changed = tiles * (c + k) * places + k * c * places
        return products.time_us + (plain + changed) * width / rate + 3 * (constants.launch_us + constants.latency_us)
    into, out = (k, c) if training_pass == PASSES[1] else (c, k)
    additions = tiles * (into * np.ceil(out / _BLOCK) * _INPUT_ADDITIONS + out * _OUTPUT_ADDITIONS)
    busy = products.parts["tensor"] + additions / (gpu.flops("fp32") * 0.5e-6)
    slow = 1 / clock_under_power_limit(gpu, number_format, constants) - 1
    busy = busy * (1 + slow * busy / (busy + constants.throttle_us))
    fixed = products.parts["launch"] + products.parts["latency"] + products.parts["rounds"]
    return fixed + np.maximum(busy, plain * width / rate)


def _tiles(sizes: Mapping[str, Floats], training_pass: str, way: Winograd) -> Floats:
    """Tiles of all images; of the inputs where these are what is computed."""
    rows, columns = ("H", "W") if training_pass == PASSES[1] else ("P", "Q")
    found: Floats = sizes["N"] * np.ceil(sizes[rows] / way.outputs) * np.ceil(sizes[columns] / way.outputs)
    return found
