"""A GPU as the model sees it, and number formats by the names that frameworks, libraries and tables give them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed, near_miss, quoted

FORMATS = (
    *("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "fp16_acc16", "fp16_vector", "bf16"),
    *("fp8", "fp8_acc16", "int8", "int4", "fp4"),
)
"""Number formats; `_acc16` adds up in 16 bit, `_vector` and plain fp64 and fp32 run beside the tensor cores."""
BYTES = {
    **{"fp64": 8.0, "fp64_tensor": 8.0, "fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "fp16_acc16": 2.0, "fp16_vector": 2.0},
    **{"bf16": 2.0, "fp8": 1.0, "fp8_acc16": 1.0, "int8": 1.0, "int4": 0.5, "fp4": 0.5},
}
"""Bytes of one operand word."""
MEMORY_TYPES = ("HBM", "GDDR", "LPDDR")
"""How the type of a memory begins."""
VECTOR_FORMATS = ("fp64", "fp32", "fp16_vector")


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A slice of a GPU: its SMs, and eighths of memory, memory bandwidth and L2."""

    name: str
    sms: int
    memory_eighths: int


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """A GPU as its data sheet has it.

    Sizes are in bytes, rates in bytes a second, clocks in Hz. `operations_per_sm_cycle` and `peak_tflops` are dense
    and by number format, two operations a multiply-add; `mma` holds m, n and k of one tensor-core instruction.
    `sources` says where figures come from, `unsure` which of them no data sheet confirms, and why.
    """

    name: str
    chip: str
    generation: str
    compute_capability: tuple[int, int]
    sms: int
    boost_hz: float
    tensor_hz: float
    operations_per_sm_cycle: Mapping[str, float]
    peak_tflops: Mapping[str, float]
    peak_tflops_sparse: Mapping[str, float]
    mma: Mapping[str, tuple[int, int, int]]
    memory_bytes: int
    memory_type: str
    dram_bytes_per_s: float
    l2_bytes: int
    l2_bytes_per_s: float
    smem_bytes: int
    smem_per_block_bytes: int
    registers: int
    warps: int
    blocks: int
    nvlink_bytes_per_s: float
    tdp_w: float
    mig: Mapping[str, MigProfile] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    unsure: Mapping[str, str] = field(default_factory=dict)

    def clock_hz(self, number_format: str) -> float:
        """Clock [Hz] at which the data sheet's peak of a number format holds."""
        vector = number_format in VECTOR_FORMATS or number_format == "fp64_tensor" or number_format not in self.mma
        return self.boost_hz if vector else self.tensor_hz

    def flops(self, number_format: str) -> float:
        """Dense peak [FLOP/s]: SMs x clock x operations an SM and cycle.

        Raises
        ------
        AccelsimError
            If the GPU does not compute in this format.
        """
        return self.sms * self.clock_hz(number_format) * self.operations(number_format)

    def operations(self, number_format: str) -> float:
        """Operations an SM and cycle in a number format, dense."""
        if number_format not in self.operations_per_sm_cycle:
            known = f"formats: {listed(self.operations_per_sm_cycle)}"
            hint = "" if number_format in FORMATS else near_miss(number_format, self.operations_per_sm_cycle)
            raise AccelsimError(f"{self.name} does not compute in '{number_format}'; {hint or known}")
        return self.operations_per_sm_cycle[number_format]

    def slice(self, profile: str) -> Gpu:
        """GPU instance of a MIG profile, as a GPU of its own.

        SMs come from the profile; memory, its bandwidth, L2 and L2 bandwidth are the profile's eighths of the whole,
        power its share of the SMs; NVLink is not available.

        Raises
        ------
        AccelsimError
            If the GPU has no such profile.
        """
        if profile not in self.mig:
            hint = near_miss(profile, self.mig) or (f"profiles: {listed(self.mig)}" if self.mig else "it has no MIG")
            raise AccelsimError(f"{self.name} has no MIG profile '{profile}'; {hint}")
        found = self.mig[profile]
        share, compute = found.memory_eighths / 8, found.sms / self.sms
        return replace(
            self,
            name=f"{self.name}:{profile}",
            sms=found.sms,
            peak_tflops={key: value * compute for key, value in self.peak_tflops.items()},
            peak_tflops_sparse={key: value * compute for key, value in self.peak_tflops_sparse.items()},
            memory_bytes=int(self.memory_bytes * share),
            dram_bytes_per_s=self.dram_bytes_per_s * share,
            l2_bytes=int(self.l2_bytes * share),
            l2_bytes_per_s=self.l2_bytes_per_s * share,
            nvlink_bytes_per_s=0.0,
            tdp_w=self.tdp_w * compute,
            mig={},
            unsure={**self.unsure, "tdp": "a slice has no power limit of its own; its share of the SMs"},
        )


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
