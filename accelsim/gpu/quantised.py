"""Products in narrow formats with the pass that quantises their inputs, and mixtures of experts.

Sizes (float[P] each): `precision`, an index into `precisions()`. Of products `m`, `n`, `k`, and `product_us`, what the
model of tilings says of the product alone. Of experts `tokens` of all ranks, `hidden` and `inter` (of this rank), all
`experts`, of which each token takes `top`; `ranks` of expert parallelism; `skew`, the power by which tokens crowd on
few experts, 0 for equal shares; `gated`, products before the activation: two, or one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from accelsim.gpu.catalogue import Gpu, no_format, table_of, wide_format
from accelsim.gpu.constants import SM_BYTES, Floats, common_constants, compute_class
from accelsim.gpu.fitted import CLOCK, Constants, Names, OperatorKind, Parts, Shapes, gone, shapes_of
from accelsim.gpu.gemms import Gemms, time_gemms
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed, near_miss


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes of a word of the weights, with their scales, and of the inputs; the format that is multiplied in."""

    name: str
    weights: float
    inputs: float
    multiplied: str
    meaning: str


@cache
def precisions() -> tuple[Precision, ...]:
    """All precisions, in the order of their indices."""
    return tuple(Precision(name, *row) for name, row in table_of("precisions").items())


_STEP = 128.0
"""Columns of a tile of a grouped product."""
_TILES = (16.0, 128.0)
"""Fewest and most rows of one."""
RESULT_BYTES = 2.0
"""Bytes of a word of the result, and of inputs before they are quantised."""


@cache
def precision_of(name: str) -> int:
    """Index of a precision by its name; raises AccelsimError if there is none of that name."""
    names, plain = list(table_of("precisions")), plain_precision(name)
    if plain not in names:
        raise AccelsimError(f"'{name}' is no number format; {near_miss(plain, names) or f'formats: {listed(names)}'}")
    return names.index(plain)


def plain_precision(name: str) -> str:
    """Name of a precision, of the several that tables have for it."""
    other: str = table_of("other_precisions").get(name.lower(), name.lower())
    return other


def multiplied_in(gpu: Gpu, precision: Precision) -> str:
    """Format in which a GPU multiplies: of the precision; in place of BF16, FP16 before Ampere.

    Raises AccelsimError if the GPU does not compute in it, and names the precisions that only store weights in fewer
    bits.

    >>> from accelsim.gpu.catalogue import load_gpu
    >>> [multiplied_in(load_gpu(name), precisions()[precision_of("int8_wo")]) for name in ("b200", "v100")]
    ['bf16', 'fp16']
    """
    found = wide_format(gpu) if precision.multiplied == "bf16" else precision.multiplied
    if found not in gpu.operations_per_sm_cycle:
        stored = [one.name for one in precisions() if one.multiplied == "bf16" and one.weights < one.inputs]
        raise AccelsimError(f"{no_format(gpu, found)}; {listed(stored)} only store weights in fewer bits")
    return found


def _by_precision(gpu: Gpu, shapes: Shapes) -> tuple[Floats, Floats, Floats]:
    """Bytes of a word of weights and of inputs, and the peak [FLOP/us], of each row."""
    which = shapes["precision"].astype(np.int64)
    table = np.zeros((3, len(precisions())))
    for index in np.unique(which):
        one = precisions()[index]
        table[:, index] = one.weights, one.inputs, gpu.flops(multiplied_in(gpu, one)) * 1e-6
    weights, inputs, peak = table[:, which]
    return weights, inputs, peak


def _variant(shapes: Shapes) -> Names:
    return np.array(list(table_of("precisions")))[shapes["precision"].astype(np.int64)]


def _product_parts(gpu: Gpu, shapes: Shapes, constants: Constants) -> Parts:
    """A launch, the product with its own tiling, and before it the inputs read in 16 bit and written in fewer."""
    _, inputs, peak = _by_precision(gpu, shapes)
    least = 2 * shapes["m"] * shapes["n"] * shapes["k"] / peak
    product = np.maximum(constants["product"] * shapes["product_us"], least)
    moved = np.where(inputs < RESULT_BYTES, shapes["m"] * shapes["k"] * (RESULT_BYTES + inputs), 0.0)
    quantise = constants["quantise"] * moved / (gpu.dram_bytes_per_s * 1e-6)
    launch = constants["launch_us"] * CLOCK / gpu.boost_hz
    waited = np.maximum(constants["floor_us"] - launch - product - quantise, 0)
    return {"launch": launch + waited, "product": product, "quantise": quantise}


def _product_least(gpu: Gpu, shapes: Shapes) -> tuple[Floats, Floats]:
    weights, inputs, peak = _by_precision(gpu, shapes)
    m, n, k = shapes["m"], shapes["n"], shapes["k"]
    moved = n * k * weights + m * k * inputs + m * n * RESULT_BYTES
    return 2 * m * n * k / peak, moved / (gpu.dram_bytes_per_s * 1e-6)


QUANTILES = 32
"""Loads by which the experts of a rank are described."""
_MOST_CROWDED = 0.8
"""Share of the tokens that the fullest expert may have, in the power law by which aiconfigurator crowds them."""


def loads_of(shapes: Shapes) -> tuple[Floats, Floats, Floats]:
    """Tokens of the experts by quantiles, float[P, 32], and those of the fullest and of the average one.

    With a skew a, loads are in proportion to x between 1 and 0.8 of the tokens, of density x^-a.
    """
    tokens, experts, skew = shapes["tokens"], shapes["experts"], shapes["skew"]
    mean = tokens * shapes["top"] / experts
    power = 1 - np.where(skew > 0, skew, 2.0)
    power = np.where(power == 0, 1e-9, power)
    most = np.maximum(_MOST_CROWDED * tokens, 1.0)

    def drawn(share: Floats) -> Floats:
        loads: Floats = ((most**power - 1)[:, None] * share + 1) ** (1 / power)[:, None]
        return loads

    even = (np.arange(256) + 0.5)[None, :] / 256
    average = drawn(even).mean(axis=1)
    crowded = skew > 0
    some = drawn((np.arange(QUANTILES) + 0.5)[None, :] / QUANTILES) * (mean / average)[:, None]
    fullest = drawn((1 - 0.5 / experts)[:, None])[:, 0] * (mean / average)
    loads = np.where(crowded[:, None], np.minimum(some, tokens[:, None]), mean[:, None])
    return loads, np.where(crowded, np.minimum(fullest, tokens), mean), mean


def _experts_parts(gpu: Gpu, shapes: Shapes, constants: Constants) -> Parts:
    """Tiles of both products of each expert over SMs, beside the weights of the experts that have tokens.

    Tiles have as many rows as the average expert has tokens, 16 to 128; an expert with few has one tile. An expert is
    without tokens with the chance of Poisson, unless each has the same share.
    """
    weights, inputs, peak = _by_precision(gpu, shapes)
    hidden, inter, gated, ranks = (shapes[name] for name in ("hidden", "inter", "gated", "ranks"))
    own = np.maximum(shapes["experts"] / ranks, 1)
    loads, fullest, mean = loads_of(shapes)
    crowd = np.where(shapes["crowded"] > 0, ranks ** constants["crowding"], 1.0)
    loads = loads * crowd[:, None]
    skewed = shapes["skew"] > 0
    extra = np.where(skewed & (ranks > 1), constants["fullest"] * np.maximum(fullest - mean, 0), 0)
    most = shapes["tokens"] * np.minimum(shapes["top"], own)
    rows = np.minimum(loads.mean(axis=1) * own + extra * crowd, most)
    drawn = skewed | (shapes["drawn"] > 0)
    some = np.where(drawn[:, None], 1 - np.exp(-loads), np.minimum(loads, 1))
    least = np.minimum(rows, 1)
    active = np.maximum(some.mean(axis=1) * own, least)
    high = np.clip(2 ** np.ceil(np.log2(np.maximum(rows / active, 1))), *_TILES)
    tiles = (some * np.ceil(np.maximum(loads, 1) / high[:, None])).mean(axis=1) * own + extra / high
    tiles = np.maximum(tiles, least)
    rate, cycles = peak / gpu.sms * constants["math"], gpu.boost_hz * 1e-6
    pair = 0.5 if gpu.compute_capability[0] == 10 else 0.0  # a pair of SMs shares the larger operand (tcgen05)
    products = np.zeros_like(rows)
    for deep, wide in ((hidden, inter * gated), (inter, hidden)):
        blocks = tiles * np.ceil(wide / _STEP)
        loaded = high * inputs + _STEP * weights - pair * np.maximum(high * inputs, _STEP * weights)
        loaded = loaded * deep * (constants["loads"] / (SM_BYTES * cycles))
        one = np.maximum(2 * high * _STEP * deep / rate, loaded) + constants["tile_us"]
        products += one * (np.maximum(1, blocks / gpu.sms) + np.where(blocks > gpu.sms, 0.5, 0))
    read = active * hidden * inter * (gated + 1) * weights
    dram = gpu.dram_bytes_per_s * 1e-6
    memory = read * gone(gpu, read, constants["residency"]) / (dram * constants["memory"])
    moved = rows * (2 * hidden + inter * (gated + 1)) * RESULT_BYTES + shapes["tokens"] * hidden * 2 * RESULT_BYTES
    return {
        "launch": (constants["launch_us"] + constants["expert_us"] * own) * CLOCK / gpu.boost_hz,
        "products": np.hypot(products, memory),
        "activations": moved * constants["moves"] / dram,
    }


def _experts_least(gpu: Gpu, shapes: Shapes) -> tuple[Floats, Floats]:
    weights, _, peak = _by_precision(gpu, shapes)
    own = np.maximum(shapes["experts"] / shapes["ranks"], 1)
    rows = shapes["tokens"] * shapes["top"] / shapes["ranks"]
    words = shapes["hidden"] * shapes["inter"] * (shapes["gated"] + 1)
    moved = np.minimum(own, rows) * words * weights + rows * shapes["hidden"] * 2 * RESULT_BYTES
    return 2 * rows * words / peak, moved / (gpu.dram_bytes_per_s * 1e-6)


PRODUCT = OperatorKind("low-precision GEMM", _product_parts, _product_least, _variant)
EXPERTS = OperatorKind("experts", _experts_parts, _experts_least, _variant)


def _indices(names: str | Sequence[str]) -> list[int]:
    return [precision_of(name) for name in ([names] if isinstance(names, str) else names)]


def product_shapes(gpu: Gpu, precision: str | Sequence[str], m: Any, n: Any, k: Any) -> dict[str, Floats]:
    """Sizes of products on a GPU in precisions, with what the model of tilings says of them, uncalibrated.

    Raises AccelsimError if a size is no whole number, or there is no such precision.
    """
    found = shapes_of({"m": 1, "n": 1, "k": 1}, m=m, n=n, k=k, precision=_indices(precision))
    product_us = np.zeros(len(found["m"]))
    for index in np.unique(found["precision"]).astype(int).tolist():
        here = found["precision"] == index
        name = multiplied_in(gpu, precisions()[index])
        constants = common_constants(compute_class(gpu, name))
        gemms = Gemms.of(found["m"][here], found["n"][here], found["k"][here])
        product_us[here] = time_gemms(gpu, gemms, name, constants).time_us - constants.launch_us
    return {**found, "product_us": product_us}


def experts_shapes(
    precision: str | Sequence[str],
    *,
    tokens: Any,
    hidden: Any,
    inter: Any,
    experts: Any,
    top: Any,
    ranks: Any = 1,
    skew: Any = 0.0,
    gated: Any = 2,
    crowded: Any = 0,
    drawn: Any = 0,
) -> dict[str, Floats]:
    """Sizes of a mixture of experts on one rank.

    `crowded`: 1 of measured tables, some of which give a rank more than its share of tokens. `drawn`: 1 where tokens
    choose experts by chance, so that some stay without, though shares are equal on average.

    Raises AccelsimError if one is no whole number, a token takes more experts than there are, or there are more ranks.
    """
    least = dict.fromkeys(("tokens", "hidden", "inter", "experts", "top", "ranks", "gated"), 1.0)
    sizes = {"tokens": tokens, "hidden": hidden, "inter": inter, "experts": experts, "top": top, "ranks": ranks}
    chances = {"skew": skew, "crowded": crowded, "drawn": drawn}
    found = shapes_of(least, **sizes, **chances, gated=gated, precision=_indices(precision))
    for name in ("top", "ranks"):
        if (found[name] > found["experts"]).any():
            raise AccelsimError(f"{name} must be at most the number of experts")
    if not ((found["skew"] >= 0) & (found["skew"] <= 10)).all():
        raise AccelsimError("skew must be a number from 0 (equal shares) to 10")
    return found
