"""Fused attention: soft-max(Q K^T) V in one kernel, of a prompt (prefill) or of one new token (decode).

Sizes (float[P] each): `batch`; `tokens`, new ones of each sequence, after `cached` ones; query `heads` and `kv_heads`
of `head_size` words in Q and K and `value_size` in V; `window`, the keys that a token sees, 0 for all; bytes of a word
of Q (`query_bytes`) and of the key-value cache (`cache_bytes`); `cache_words` that the cache has for each token and
key-value head: both of them, or with latent attention the latent vector alone; `causal`: 1, or 0 where a token sees
those after it too.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from accelsim.gpu.catalogue import BYTES, Gpu, no_format, number_format, wide_format
from accelsim.gpu.constants import SM_BYTES, Floats
from accelsim.gpu.fitted import (
    CLOCK,
    Constants,
    KernelTimes,
    Names,
    OperatorKind,
    Parts,
    Shapes,
    gone,
    operand_path,
    shapes_of,
    time_kernels,
)
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed

KEYS = 128.0
"""Keys of a step of a tile (FlashAttention-2 and -3: 64 to 176)."""
QUERIES, PAIRED_QUERIES = 128.0, 256.0
"""Queries of a block's tile: FlashAttention-2 and -3; on tcgen05 a block alternates between two such tiles."""
_ALL = 2.0**60
_EXPONENTIALS, _ULTRA = 16.0, (10, 3)
"""Exponentials of an SM and cycle (CUDA programming guide, throughput of special functions), and the compute capability
that has twice as many (NVIDIA, "Making Softmax More Efficient with NVIDIA Blackwell Ultra", 2026)."""
_SHARED_BYTES = 128.0
"""Bytes that the shared memory of an SM gives in a cycle (CUDA programming guide)."""
_ROWS = 16.0
"""Rows of the narrowest tile of a tensor core, which the query heads of a key-value head share."""
_LATENT_ROWS = 64.0
"""Rows of a block of latent attention where operands come from registers: an A100 and an L40S take as long for 64 heads
as for one, and twice as long for 128 (measured rows)."""
_TOGETHER = 4.0
"""Norm of the times of multiply-adds and shared memory, as in the model of products."""
_WIDE = 32.0
"""Query heads of a key-value head above which some stacks take another kernel (TensorRT-LLM, XQA)."""
_MOVED = 2.0
"""Bytes of a word of the result and of operands in registers; also of Q before it is quantised."""


def queries_of(gpu: Gpu, shapes: Shapes) -> Floats:
    """Count the queries of a block's tile.

    Where operands come from registers, the largest of which two blocks fit an SM, each with its queries and 64 keys and
    values in shared memory, else the largest of which one fits (FlashAttention-2, its launch template: 128 for heads of
    128 words on an A100, 64 on compute capability 8.6 and 8.9). Else 128, as FlashAttention-3 has, and on tcgen05 two
    of these by turns.

    >>> from accelsim.gpu.catalogue import load_gpu
    >>> heads = {"head_size": np.array([64.0, 128.0, 256.0]), "value_size": np.array([64.0, 128.0, 256.0])}
    >>> [queries_of(load_gpu(name), heads).tolist() for name in ("a100", "l40s", "h100")]
    [[128.0, 128.0, 128.0], [128.0, 64.0, 64.0], [128.0, 128.0, 128.0]]
    """
    size, few = shapes["head_size"], QUERIES / 2
    if operand_path(gpu) == "async":
        return np.full_like(size, PAIRED_QUERIES if gpu.compute_capability[0] == 10 else QUERIES)
    large, small = (2.0 * (count * size + few * (size + shapes["value_size"])) for count in (QUERIES, few))
    alone = (large <= gpu.smem_per_block_bytes) & (2 * small > gpu.smem_bytes)
    return np.where((2 * large <= gpu.smem_bytes) | alone, QUERIES, few)


def tiles_of(gpu: Gpu, shapes: Shapes) -> tuple[Floats, Floats, Floats]:
    """Count the tiles of queries of a head, the keys that these go through in whole steps, and those of the last tile.

    Causal, a tile goes through all keys up to its last query; with a window, through those that its queries see, which
    begin anywhere in a step: L keys touch (L - 1) / 128 + 1 steps on average. Tiles of 64 queries have steps of 64.
    """
    wide = queries_of(gpu, shapes)
    step = np.minimum(wide, KEYS)
    tokens, cached, window = shapes["tokens"], shapes["cached"], shapes["window"]
    count = np.ceil(tokens / wide)
    cap = np.where(window > 0, window + np.minimum(wide, tokens) - 2 + step, _ALL)
    start = np.ceil(cached / step) * step
    last = np.minimum(np.ceil((cached + tokens) / step) * step, cap)
    below = np.where(shapes["causal"] > 0, np.clip(np.floor((cap - start) / wide), 0, count - 1), 0)
    keys = below * start + wide * below * (below + 1) / 2 + (count - 1 - below) * np.minimum(cap, last) + last
    return count, keys, last


def pairs_of(shapes: Shapes) -> Floats:
    """Pairs of a query and a key that it sees, of one head.

    >>> sizes = {"tokens": np.array([4.0]), "cached": np.array([2.0]), "window": np.array([5.0])}
    >>> pairs_of({**sizes, "causal": np.ones(1)}), pairs_of({**sizes, "window": np.zeros(1), "causal": np.zeros(1)})
    (array([17.]), array([24.]))
    """
    tokens, cached = shapes["tokens"], shapes["cached"]
    window = np.where(shapes["window"] > 0, shapes["window"], _ALL)
    whole = np.clip(window - cached, 0, tokens)
    causal = whole * cached + whole * (whole + 1) / 2 + np.where(whole < tokens, (tokens - whole) * window, 0)
    return np.where(shapes["causal"] > 0, causal, tokens * np.minimum(cached + tokens, window))


def _bytes(shapes: Shapes) -> tuple[Floats, Floats]:
    """Bytes of Q and the result; of the keys and values that are seen."""
    tokens, window = shapes["tokens"], shapes["window"]
    both = shapes["head_size"] + shapes["value_size"]
    moved = shapes["batch"] * tokens * shapes["heads"] * both * _MOVED
    seen = shapes["cached"] + tokens
    seen = np.where(window > 0, np.minimum(seen, window + tokens - 1), seen)
    return moved, shapes["batch"] * seen * shapes["kv_heads"] * shapes["cache_words"] * shapes["cache_bytes"]


def _peak(gpu: Gpu, bytes_of_word: Floats) -> Floats:
    """Peak [FLOP/us]."""
    wide = gpu.flops(wide_format(gpu))
    narrow = gpu.flops("fp8") if "fp8" in gpu.operations_per_sm_cycle else wide
    peak: Floats = np.where(bytes_of_word < 2, narrow, wide) * 1e-6
    return peak


def _least(gpu: Gpu, shapes: Shapes) -> tuple[Floats, Floats]:
    both = shapes["head_size"] + shapes["value_size"]
    operations = 2 * pairs_of(shapes) * both * shapes["batch"] * shapes["heads"]
    own, cache = _bytes(shapes)
    return operations / _peak(gpu, shapes["query_bytes"]), (own + cache) / (gpu.dram_bytes_per_s * 1e-6)


def _names(*choices: tuple[str, ...]) -> Names:
    """Names of kernels that stacks have apart, the last choice first."""
    return np.array([" ".join(filter(None, each)) for each in itertools.product(*choices)])


def _prefill_parts(gpu: Gpu, shapes: Shapes, constants: Constants) -> Parts:
    """Tiles over SMs, the longest last; then the passes over Q, K, V and the result."""
    tokens, cycles = shapes["tokens"], gpu.boost_hz * 1e-6
    fixed = CLOCK / gpu.boost_hz
    count, keys, last = tiles_of(gpu, shapes)
    rows = np.minimum(queries_of(gpu, shapes), np.ceil(tokens / _ROWS) * _ROWS)
    of_queries, of_cache = ("fp8_math", "fp8_cache") if operand_path(gpu) == "async" else ("fp8_mma", "fp8_mma")
    slower = np.where(shapes["cache_bytes"] < 2, constants[of_cache], 1.0)
    slower = np.where(shapes["query_bytes"] < 2, constants[of_queries], slower)
    rate = gpu.flops(wide_format(gpu)) / gpu.sms * 1e-6 * constants["math"]
    products = 2 * rows * (shapes["head_size"] + shapes["value_size"]) / rate * slower
    special = _EXPONENTIALS * (2 if gpu.compute_capability == _ULTRA else 1)
    exponentials = rows * (constants["exponential"] / (special * cycles))
    key = np.maximum(products, exponentials) + constants["shown"] * np.minimum(products, exponentials)
    key = key + fixed * constants["step_us"] / KEYS
    blocks = count * shapes["batch"] * shapes["heads"]
    usual, longest = key * keys / count + fixed * constants["tile_us"], key * last + fixed * constants["tile_us"]
    rounds = blocks / gpu.sms
    shared = rounds * usual + constants["imbalance"] * usual * np.maximum(1 - 1 / rounds, 0)
    own, cache = _bytes(shapes)
    moved = own + constants["cache_passes"] * cache
    cold = gone(gpu, moved, constants["residency"]) / (gpu.dram_bytes_per_s * 1e-6 * constants["memory"])
    return {
        "launch": np.full_like(tokens, fixed * constants["launch_us"]),
        "tiles": np.where(rounds <= 1, longest, np.maximum(longest, shared)),
        "memory": moved * (cold + 1 / (gpu.sms * cycles * constants["sm_bytes"])),
    }


_PREFILL_NAMES = _names(("", "FP8 cache", "FP8"), ("", "window"))


def _prefill_variant(shapes: Shapes) -> Names:
    """Kernels that stacks have apart: for queries, or the cache alone, in FP8; and for windows."""
    narrow = np.where(shapes["query_bytes"] < 2, 2, (shapes["cache_bytes"] < 2) * 1)
    names: Names = _PREFILL_NAMES[2 * narrow + (shapes["window"] > 0)]
    return names


def _decode_parts(gpu: Gpu, shapes: Shapes, constants: Constants) -> Parts:
    """Keys split over SMs where heads are few: an SM's loads and products, beside what DRAM and L2 take for all."""
    batch, cycles = shapes["batch"], gpu.boost_hz * 1e-6
    slower = CLOCK / gpu.boost_hz
    seen = shapes["cached"] + shapes["tokens"]
    window = shapes["window"]
    seen = np.where(window > 0, np.minimum(seen, window), seen)
    group = shapes["heads"] / shapes["kv_heads"]
    again = 1 + (group - 1) * np.where((window > 0) | (group > _WIDE), constants["own_reads"], 0)
    rows, both, fill = np.maximum(group, _ROWS), shapes["head_size"] + shapes["value_size"], np.zeros_like(group)
    if operand_path(gpu) == "mma":  # each 16 rows read keys and values from shared memory for themselves
        latent = shapes["cache_words"] < both
        again, rows = np.where(latent, np.ceil(group / _LATENT_ROWS), again), np.where(latent, _LATENT_ROWS, rows)
        fill = constants["smem"] * rows / _ROWS * both * _MOVED / (_SHARED_BYTES * cycles)
    row = shapes["cache_words"] * shapes["cache_bytes"]
    cache = batch * shapes["kv_heads"] * seen * row
    own, _ = _bytes(shapes)
    once = cache + own
    cold = once * gone(gpu, once, constants["residency"]) * (1 + (again - 1) * constants["dram_reads"])
    memory = cold / (gpu.dram_bytes_per_s * 1e-6 * constants["memory"])
    memory = memory + (once * again - cold) / (gpu.l2_bytes_per_s * 1e-6 * constants["l2"])
    rate = gpu.flops(wide_format(gpu)) / gpu.sms * 1e-6 * constants["math"]
    products = ((2 * rows * both / rate) ** _TOGETHER + fill**_TOGETHER) ** (1 / _TOGETHER)
    key = np.maximum(row / (SM_BYTES * cycles), products)
    blocks = batch * shapes["kv_heads"] * again
    parts = np.maximum(1.0, np.minimum(gpu.sms / blocks, seen / constants["part_keys"]))
    used = blocks * parts / gpu.sms
    rounds = np.where(used > 1, used + constants["imbalance"] * (np.ceil(used) - used), 1.0)
    busy = rounds * seen / parts * key
    return {
        "launch": slower * (constants["launch_us"] + np.where(shapes["cache_bytes"] < 2, constants["fp8_us"], 0.0)),
        "split": slower * (1 - 1 / parts) * constants["split_us"],
        "blocks": slower * np.maximum(used, 1.0) * constants["block_us"],
        "heads": slower * batch * shapes["heads"] / gpu.sms * constants["head_us"],
        "keys and values": np.hypot(busy, memory),
    }


_DECODE_NAMES = _names(("", "FP8 cache"), ("", "one head", "many heads"), ("", "window"))


def _decode_variant(shapes: Shapes) -> Names:
    """Kernels that stacks have apart: for a cache in FP8; for one query head of a key-value head, or many; windows."""
    group = shapes["heads"] / shapes["kv_heads"]
    heads = (group == 1) * 1 + (group > _WIDE) * 2
    names: Names = _DECODE_NAMES[6 * (shapes["cache_bytes"] < 2) + 2 * heads + (shapes["window"] > 0)]
    return names


_kind = partial(OperatorKind, least=_least, path=operand_path, compulsory=True)
PREFILL = _kind("attention prefill", _prefill_parts, variant=_prefill_variant)
DECODE = _kind("attention decode", _decode_parts, variant=_decode_variant)
MLA_PREFILL = _kind("latent attention prefill", _prefill_parts, variant=_prefill_variant)
MLA_DECODE = _kind("latent attention decode", _decode_parts, variant=_decode_variant)
LATENT, ROTARY, HEAD = 512, 64, 128
"""Words of DeepSeek's latent vector, of the part of a key with its position, and of a head without it (DeepSeek-V2)."""
_LEAST = {
    **{"batch": 1, "tokens": 1, "heads": 1, "kv_heads": 1, "head_size": 1, "value_size": 1, "cache_words": 1},
    **{"cached": 0, "window": 0, "causal": 0},
}


def attention_shapes(
    *,
    batch: Any,
    tokens: Any,
    heads: Any,
    kv_heads: Any,
    head_size: Any,
    cached: Any = 0,
    window: Any = 0,
    query_bytes: Any = 2.0,
    cache_bytes: Any = 2.0,
    causal: Any = 1,
) -> dict[str, Floats]:
    """Sizes of attention with keys and values of their own in each key-value head.

    Raises AccelsimError if one is not a whole number, or `kv_heads` does not divide `heads`.
    """
    shapes = shapes_of(
        _LEAST,
        **{"batch": batch, "tokens": tokens, "heads": heads, "kv_heads": kv_heads, "head_size": head_size},
        **{"value_size": head_size, "cached": cached, "window": window, "cache_words": 2 * np.asarray(head_size)},
        **{"query_bytes": query_bytes, "cache_bytes": cache_bytes, "causal": causal},
    )
    if np.fmod(shapes["heads"], shapes["kv_heads"]).any():
        raise AccelsimError("kv_heads must divide heads: each key-value head serves equally many query heads")
    return shapes


def latent_shapes(
    *, batch: Any, tokens: Any, heads: Any, cached: Any = 0, absorbed: bool, cache_bytes: Any = 2.0
) -> dict[str, Floats]:
    """Sizes of latent attention (MLA).

    `absorbed`: whether queries are turned into the latent space, so that one key-value head, the latent vector and the
    rotary part, serves all heads, as in decode; else keys and values are made of it, as in prefill.
    """
    query, value = (LATENT + ROTARY, LATENT) if absorbed else (HEAD + ROTARY, HEAD)
    return shapes_of(
        _LEAST,
        **{"batch": batch, "tokens": tokens, "heads": heads, "kv_heads": 1 if absorbed else heads},
        **{"head_size": query, "value_size": value, "cached": cached, "window": 0},
        **{"cache_words": LATENT + ROTARY if absorbed else query + value},
        **{"query_bytes": 2.0, "cache_bytes": cache_bytes, "causal": 1},
    )


def refuse_vector(gpu: Gpu) -> None:
    """Raise AccelsimError if a GPU has no tensor cores, on which fused attention is measured."""
    if not can_fuse(gpu, "fp16"):
        raise AccelsimError(f"{gpu.name}: fused attention is measured on tensor cores, which it has none of")


def time_attention(gpu: Gpu, shapes: Shapes, *, latent: bool = False, stack: str = "") -> KernelTimes:
    """Time of fused attention [us]: decode where each sequence has one new token, else prefill.

    Raises AccelsimError if some of the shapes are decode and others prefill, the GPU does not multiply in their format
    on tensor cores, or no such stack was measured.
    """
    refuse_vector(gpu)
    if (shapes["query_bytes"] < BYTES["fp16"]).any() and "fp8" not in gpu.operations_per_sm_cycle:
        raise AccelsimError(f"{no_format(gpu, 'fp8')}; only the cache may be in it")
    one = shapes["tokens"] == 1
    if one.any() and not one.all():
        raise AccelsimError("tokens: some sequences have one new token and others more; time them apart")
    kinds = (MLA_PREFILL, MLA_DECODE) if latent else (PREFILL, DECODE)
    return time_kernels(kinds[int(one.all())], gpu, shapes, stack)


_FORMATS = ("bf16", "fp16", "fp8")


def can_fuse(gpu: Gpu, number_format: str) -> bool:
    """Whether a GPU computes attention in a format in which fused kernels are measured."""
    return number_format in _FORMATS and bool({"bf16", "fp16"} & set(gpu.mma))


def word_bytes(text: str) -> float:
    """Bytes of a word of a number format that attention computes in: bf16, fp16 or fp8.

    Raises AccelsimError if it is another.
    """
    name = number_format(text)
    if name not in _FORMATS:
        raise AccelsimError(f"{name}: fused attention is measured in {listed(_FORMATS)}; write one of these")
    return BYTES[name]
