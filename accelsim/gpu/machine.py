"""One GPU: what its data sheet says, and slices of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed, near_miss

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
