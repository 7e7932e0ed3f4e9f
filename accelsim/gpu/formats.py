"""Number formats by the names that frameworks, libraries and tables give them."""

from __future__ import annotations

import re
from functools import cache

from accelsim.gpu.machine import FORMATS, Gpu
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed, near_miss, quoted

_NAMES = {
    "fp64": ("float64", "double", "f64", "r_64f", "dgemm"),
    "fp32": ("float32", "float", "single", "f32", "r_32f", "sgemm"),
    "tf32": ("tensorfloat32", "float32_fast_tf32"),
    "fp16": ("float16", "half", "f16", "r_16f", "hgemm", "__half"),
    "bf16": ("bfloat16", "bfloat", "r_16bf", "__nv_bfloat16"),
    "fp8": (
        *("float8", "f8", "e4m3", "e5m2", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fn", "float8_e4m3", "float8_e5m2"),
        *("float8_e4m3fn", "r_8f_e4m3", "r_8f_e5m2"),
    ),
    "int8": ("i8", "s8", "qint8", "r_8i"),
    "int4": ("i4", "s4", "r_4i"),
    "fp4": ("float4", "e2m1", "nvfp4", "float4_e2m1fn", "r_4f_e2m1"),
}
"""Names that mean a number format: of PyTorch, NumPy, CUTLASS, and of cuBLAS without `CUDA_`."""
_FORMATS = {**{name: name for name in FORMATS}, **{other: name for name in _NAMES for other in _NAMES[name]}}


@cache
def format_of(text: str) -> str | None:
    """Number format of a name as frameworks write it, or the first one among several words; else None.

    Examples
    --------
    >>> format_of("torch.bfloat16"), format_of("Results - FP16 ip, Mixed math"), format_of("CUDA_R_16F")
    ('bf16', 'fp16', 'fp16')
    >>> format_of("Mixed Precision"), format_of("fp8_block")
    (None, None)
    """
    words = re.split(r"[^a-z0-9_]+", text.lower())
    return next((_FORMATS[plain] for word in words if (plain := word.removeprefix("cuda_")) in _FORMATS), None)


def number_format(text: str) -> str:
    """Number format that a user asks for.

    Raises
    ------
    AccelsimError
        If it is none.
    """
    found = format_of(text)
    if found is None:
        raise AccelsimError(f"{quoted(text)} is no number format; {format_hint(text)}")
    return found


def format_hint(text: str) -> str:
    """What to write instead of a name of no number format."""
    return near_miss(text, FORMATS) or f"formats: {listed(FORMATS)}"


def no_format(gpu: Gpu, text: str, otherwise: str = "say --dtype, or ") -> str:
    """Say why rows of a GPU whose number format is written so are not predicted, and what else to do."""
    if text in FORMATS:
        return f"{gpu.name}: it does not compute in {text}; its formats: {listed(gpu.operations_per_sm_cycle)}"
    if not text:
        return f"{gpu.name}: the number format is empty; {otherwise}write it"
    return f"{gpu.name}: {quoted(text)} is no number format; {otherwise}write another: {format_hint(text)}"
