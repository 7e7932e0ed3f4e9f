"""Time and energy of the operators of a decoder on one GPU: all work of a kind is timed at once.

Sizes of each kind: products `(m, n, k, batch)`; attention `(batch, tokens, cached, heads, kv_heads, window)`; experts
`(tokens of all ranks, inter, ranks)`; passes over words `(words,)`; collectives `(operation, gpus, bytes)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike

import numpy as np

from accelsim.gpu.attention_times import (
    DECODE,
    MLA_DECODE,
    MLA_PREFILL,
    PREFILL,
    attention_shapes,
    latent_shapes,
    refuse_vector,
)
from accelsim.gpu.calibration import AUTO, Mode, mode_of
from accelsim.gpu.catalogue import Gpu, wide_format
from accelsim.gpu.collectives import NCCL, ONE_SHOT, OPERATIONS, collective_shapes, refuse_slice
from accelsim.gpu.constants import Floats, board_power_w
from accelsim.gpu.decoder import Decoder
from accelsim.gpu.fitted import OperatorKind, Shapes, fastest_kernels
from accelsim.gpu.gemms import Gemms, Setup, time_gemms
from accelsim.gpu.kernel import time_operators
from accelsim.gpu.quantised import (
    EXPERTS,
    PRODUCT,
    experts_shapes,
    multiplied_in,
    precision_of,
    precisions,
    product_shapes,
)

WIDE = 2.0
"""Bytes of a word of activations, and of what is not quantised: embedding, output layer, routing."""
_Cost = tuple[Floats, Floats, Floats]
"""Time [us], time of the operations at the peak [us], and DRAM bytes."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one GPU does in one operator."""

    kind: str
    sizes: tuple[float, ...]


Prices = Mapping[Work, tuple[float, float]]
"""Time [us] and energy [J] of work on one GPU."""


def serving_mode(gpu: Gpu, calibration: str | PathLike[str] | None = AUTO) -> Mode:
    """Constants of GEMMs in 16 bit, as `mode_of` has them."""
    return mode_of(gpu, wide_format(gpu), calibration)


@dataclass(frozen=True, slots=True)
class Pricing:
    """How work is timed: on which GPU, of which decoder, in which formats, with whose kernels where they are measured.

    `time_operators` with `relu` stands for every pass over words: it reads one and writes one for each element.
    `kernels`: by kind, what the constants of those that were timed were fitted to.
    """

    gpu: Gpu
    decoder: Decoder
    mode: Mode
    precision: str
    cache_bytes: float
    skew: float
    roofline: bool = False  # the longer of the operations at the peak and the bytes at the bandwidth of the data sheet
    kernels: dict[str, str] = field(default_factory=dict)

    def costs(self, every: Iterable[Work]) -> dict[Work, tuple[float, float]]:
        """Time [us] and energy [J] of each; raises AccelsimError if a size is too large."""
        kinds: dict[str, list[Work]] = {}
        for work in every:
            kinds.setdefault(work.kind, []).append(work)
        return {work: cost for kind, works in kinds.items() for work, cost in self._of_kind(kind, works)}

    def _of_kind(self, kind: str, works: list[Work]) -> Iterable[tuple[Work, tuple[float, float]]]:
        prices: dict[str, Callable[..., _Cost]] = {
            "product": self._product,
            "narrow product": self._narrow,
            "attention": self._attention,
            "decode": self._attention,
            "experts": self._experts,
            "move": self._move,
            "collective": self._collective,
        }
        found = prices[kind](*np.array([work.sizes for work in works], dtype=np.float64).T)
        precision = precisions()[precision_of(self.precision)]
        narrow = kind in ("narrow product", "experts")
        number_format = multiplied_in(self.gpu, precision) if narrow else wide_format(self.gpu)
        for work, time_us, operations_us, moved in zip(works, *(each.tolist() for each in found), strict=True):
            if self.roofline:
                time_us = max(operations_us, moved / self.gpu.dram_bytes_per_s * 1e6)
            flops = operations_us * 1e-6 * self.gpu.flops(number_format)
            power_w = board_power_w(self.gpu, number_format, self.mode.constants, flops, moved, time_us)
            yield work, (time_us, power_w * time_us * 1e-6)

    def _cost(self, kind: OperatorKind, shapes: Shapes) -> _Cost:
        """Measured loops find some weights and caches in L2; between two uses in a decoder all other layers pass."""
        operations_us, moving_us = kind.least(self.gpu, shapes)
        time_us = np.maximum(self._fastest(kind, shapes), moving_us)
        return time_us, operations_us, moving_us * self.gpu.dram_bytes_per_s * 1e-6

    def _fastest(self, kind: OperatorKind, shapes: Shapes) -> Floats:
        times = fastest_kernels(kind, self.gpu, shapes)
        self.kernels[kind.name] = times.label
        return times.time_us

    def _product(self, m: Floats, n: Floats, k: Floats, batch: Floats) -> _Cost:
        gemms, wide = Gemms.of(m, n, k, batch), wide_format(self.gpu)
        times = time_gemms(self.gpu, gemms, wide, self.mode.constants, Setup("cold"))
        return times.time_us, gemms.flops / self.gpu.flops(wide) * 1e6, times.dram_bytes

    def _narrow(self, m: Floats, n: Floats, k: Floats, _: Floats) -> _Cost:
        return self._cost(PRODUCT, product_shapes(self.gpu, self.precision, m, n, k))

    def _attention(
        self, batch: Floats, tokens: Floats, cached: Floats, heads: Floats, kv_heads: Floats, window: Floats
    ) -> _Cost:
        refuse_vector(self.gpu)
        one, latent = bool(tokens[0] == 1), self.decoder.latent
        kind = (MLA_PREFILL, MLA_DECODE)[one] if latent else (PREFILL, DECODE)[one]
        sizes = {"batch": batch, "tokens": tokens, "heads": heads, "cached": cached, "cache_bytes": self.cache_bytes}
        if latent:
            shapes = latent_shapes(**sizes, absorbed=one)
        else:
            shapes = attention_shapes(**sizes, kv_heads=kv_heads, head_size=self.decoder.head_size, window=window)
        return self._cost(kind, shapes)

    def _experts(self, tokens: Floats, inter: Floats, ranks: Floats) -> _Cost:
        experts = self.decoder.experts
        assert experts is not None
        shapes = experts_shapes(
            self.precision,
            tokens=tokens,
            hidden=self.decoder.hidden,
            inter=inter,
            experts=experts.count,
            top=experts.top,
            ranks=ranks,
            skew=self.skew,
            gated=1 + self.decoder.gated,
            drawn=1,
        )
        return self._cost(EXPERTS, shapes)

    def _move(self, words: Floats) -> _Cost:
        time_us = time_operators(self.gpu, "relu", words / 2, WIDE, self.mode.constants)
        return time_us, np.zeros_like(words), WIDE * words

    def _collective(self, operation: Floats, gpus: Floats, size: Floats) -> _Cost:
        """NCCL's, or, in an all-reduce, a stack's own kernels where these are faster; bytes pass DRAM twice."""
        refuse_slice(self.gpu)
        shapes = collective_shapes([OPERATIONS[int(index)] for index in operation], gpus, size)
        time_us, summed = self._fastest(NCCL, shapes), operation == 0
        if summed.any():
            own = self._fastest(ONE_SHOT, {name: sizes[summed] for name, sizes in shapes.items()})
            time_us[summed] = np.minimum(time_us[summed], own)
        return time_us, np.zeros_like(size), 2 * size
