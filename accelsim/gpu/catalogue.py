"""GPUs as the model sees them, number formats by their many names, and the GPUs that come with accelsim.

A GPU is found by file, name, alias or the name that the driver prints.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import yaml

from accelsim.inputs import fields, forms, library
from accelsim.inputs.errors import AccelsimError, UnknownNameError
from accelsim.inputs.fields import Fields, Formed, Key, Keys, keys_form
from accelsim.inputs.forms import Form
from accelsim.inputs.source import BadNode, MapNode, Node, Problems
from accelsim.inputs.units import SIZES, Rate, listed, near_miss, near_misses, quoted

BYTES = {
    **{"fp64": 8.0, "fp64_tensor": 8.0, "fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "fp16_acc16": 2.0, "fp16_vector": 2.0},
    **{"bf16": 2.0, "fp8": 1.0, "fp8_acc16": 1.0, "int8": 1.0, "int4": 0.5, "fp4": 0.5},
}
"""Bytes of one operand word."""
FORMATS = tuple(BYTES)
"""Number formats; `_acc16` adds up in 16 bit, `_vector` and plain fp64 and fp32 run beside the tensor cores."""
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

        Raises AccelsimError if the GPU does not compute in this format.
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

        Raises AccelsimError if the GPU has no such profile.
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


@cache
def read_tables(name: str) -> Mapping[str, Any]:
    """Tables of a YAML file beside this module, which says what they are."""
    found: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def table_of(what: str) -> Mapping[str, Any]:
    """A table of `tables.yaml`."""
    found: Mapping[str, Any] = read_tables("tables")[what]
    return found


@cache
def format_of(text: str) -> str | None:
    """Number format of a name as frameworks write it, or the first one among several words; else None.

    >>> format_of("torch.bfloat16"), format_of("Results - FP16 ip, Mixed math"), format_of("CUDA_R_16F")
    ('bf16', 'fp16', 'fp16')
    >>> format_of("Mixed Precision"), format_of("fp8_block")
    (None, None)
    """
    others = {other: name for name, several in table_of("formats").items() for other in several}
    known = {**others, **{name: name for name in FORMATS}}
    words = (word.removeprefix("cuda_") for word in re.split(r"[^a-z0-9_]+", text.lower()))
    return next((known[word] for word in words if word in known), None)


def number_format(text: str) -> str:
    """Number format that a user asks for; raises AccelsimError if it is none."""
    found = format_of(text)
    if found is None:
        raise AccelsimError(f"{quoted(text)} is no number format; {format_hint(text)}")
    return found


def format_hint(text: str) -> str:
    """What to write instead of a name of no number format."""
    return near_miss(text, FORMATS) or f"formats: {listed(FORMATS)}"


def wide_format(gpu: Gpu) -> str:
    """Format of 16 bit that a GPU computes in: BF16, or FP16 before Ampere, or FP32 where it has neither."""
    return next((name for name in ("bf16", "fp16") if name in gpu.operations_per_sm_cycle), "fp32")


def no_format(gpu: Gpu, text: str, otherwise: str = "say --dtype, or ") -> str:
    """Say why rows of a GPU whose number format is written so are not predicted, and what else to do."""
    if text in FORMATS:
        return f"{gpu.name}: it does not compute in {text}; its formats: {listed(gpu.operations_per_sm_cycle)}"
    if not text:
        return f"{gpu.name}: the number format is empty; {otherwise}write it"
    return f"{gpu.name}: {quoted(text)} is no number format; {otherwise}write another: {format_hint(text)}"


T = TypeVar("T")
_MMA = re.compile(r"m([0-9]{1,4})n([0-9]{1,4})k([0-9]{1,4})")
_CAPABILITY = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})")
_MEMORY_TYPE = re.compile(rf"({'|'.join(MEMORY_TYPES)})[A-Za-z0-9]{{0,8}}")
_POWER = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?)\s*W")
_ABOVE_0 = r"^(?!0*(\.0*)?$)[0-9]{1,12}(\.[0-9]{0,9})?$"
GENERATIONS = ("pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")


_number = fields.scalar(
    forms.either({"type": "number", "exclusiveMinimum": 0}, forms.scalar({"type": "string", "pattern": _ABOVE_0})),
    lambda text: float(text) if re.match(_ABOVE_0, text) else None,
    "a number above 0",
)


def _matched(
    pattern: re.Pattern[str], what: str, hint: str, value_of: Callable[[re.Match[str]], T | None]
) -> Formed[T]:
    """Reader of a text of which a pattern matches the whole."""

    def value(text: str) -> T | None:
        match = pattern.fullmatch(text.strip())
        return value_of(match) if match else None

    return fields.scalar(forms.pattern(pattern), value, what, hint)


def _shape(match: re.Match[str]) -> tuple[int, int, int] | None:
    m, n, k = map(int, match.groups())
    return (m, n, k) if min(m, n, k) else None


_power_w = _matched(_POWER, "a power", "write it like '700 W'", lambda match: float(match[1]) or None)
_memory_type = _matched(
    _MEMORY_TYPE, "a type of memory", f"it begins with {listed(MEMORY_TYPES)}", lambda match: match[0]
)
_capability = _matched(
    _CAPABILITY, "a compute capability", "write it like '9.0'", lambda match: (int(match[1]), int(match[2]))
)
_mma = _matched(_MMA, "the shape of an MMA instruction", "write it like 'm16n8k16'", _shape)
_FORMAT_NAMES: Form = {"enum": list(FORMATS)}
_NUMBERS = fields.mapping_of(_number)
_SHAPES = fields.mapping_of(_mma)
_TEXTS = fields.mapping_of(fields.text)


def group(keys: Keys, made: Callable[..., T]) -> Formed[T]:
    """Reader of a mapping with these keys, and what is made of it; a key that may be left out is then 0."""

    def read(node: Node, problems: Problems) -> T | None:
        before, part = len(problems), Fields(node, problems, keys)
        found = {name: part.value(name, 0) for name in keys}
        return made(**found) if len(problems) == before and part.readable else None

    return Formed(read, keys_form(keys))


_CLOCK: Keys = {
    "boost": Key(
        fields.frequency_hz,
        "clock of kernels, and of the peaks of FP64, FP32 and vector formats",
        unit="MHz, GHz",
    ),
    "tensor": Key(fields.frequency_hz, "clock of the peaks of the other formats", unit="MHz, GHz"),
}
_MEMORY: Keys = {
    "size": Key(fields.positive_size_bits, "capacity", unit=SIZES),
    "type": Key(_memory_type, "`HBM…`, `GDDR…` or `LPDDR…`; determines the energy"),
    "bandwidth": Key(fields.rate, "peak bandwidth", unit="GB/s, TB/s"),
}
_L2: Keys = {
    "size": Key(fields.positive_size_bits, "capacity", unit=SIZES),
    "bandwidth": Key(fields.rate, "read bandwidth of all SMs together", unit="GB/s, TB/s"),
}
_SM: Keys = {
    "smem": Key(fields.positive_size_bits, "shared memory of all blocks", unit=SIZES),
    "smem_per_block": Key(fields.positive_size_bits, "most shared memory of one block", unit=SIZES),
    "registers": Key(fields.positive_int, "32-bit registers"),
    "warps": Key(fields.positive_int, "most resident warps"),
    "blocks": Key(fields.positive_int, "most resident blocks"),
}
_PROFILE: Keys = {
    "sms": Key(fields.positive_int, "SMs of the slice"),
    "memory_eighths": Key(fields.positive_int, "eighths of memory, bandwidth and L2"),
}


def _of_formats(values: Form) -> Form:
    return forms.named(values, _FORMAT_NAMES)


_PEAKS = Formed(_NUMBERS.read, _of_formats(_number.form))
_GPU: Keys = {
    "name": Key(fields.name, "its name"),
    "chip": Key(fields.text, "die, such as `GH100`"),
    "generation": Key(fields.one_of(GENERATIONS), "generation"),
    "compute_capability": Key(_capability, "CUDA compute capability, such as `9.0`"),
    "aliases": Key(fields.list_of(fields.name), "other names on the command line", "none"),
    "devices": Key(fields.list_of(fields.text), "device names of drivers and measurements", "none"),
    "sms": Key(fields.positive_int, "enabled SMs"),
    "clock": Key(group(_CLOCK, dict), "clocks"),
    "operations_per_sm_cycle": Key(
        _PEAKS, "dense operations by number format (2 per multiply-add); others are not supported"
    ),
    "peak_tflops": Key(_PEAKS, "dense peaks of the data sheet, by number format", unit="TFLOPS"),
    "peak_tflops_sparse": Key(_PEAKS, "peaks with 2:4 sparse weights, by number format", "none", "TFLOPS"),
    "mma": Key(
        Formed(_SHAPES.read, _of_formats(_mma.form)),
        "tensor-core instruction by number format, such as `m16n8k16`; from m64 on, operands are in shared memory",
        "none",
    ),
    "memory": Key(group(_MEMORY, dict), "device memory"),
    "l2": Key(group(_L2, dict), "level-2 cache"),
    "sm": Key(group(_SM, dict), "resources of one SM"),
    "nvlink": Key(fields.rate, "bandwidth of one GPU, both directions together", "none", "GB/s"),
    "tdp": Key(_power_w, "power limit of the board", unit="W"),
    "mig": Key(fields.mapping_of(group(_PROFILE, dict)), "slices by MIG profile", "none"),
    "sources": Key(_TEXTS, "source of each figure, by key; `all` for the others"),
    "unsure": Key(_TEXTS, "unconfirmed figures, by key, and why", "none"),
}
_AS_WRITTEN = (
    *("name", "chip", "generation", "compute_capability", "sms", "operations_per_sm_cycle"),
    *("peak_tflops", "peak_tflops_sparse", "mma", "sources", "unsure"),
)
GPU_FORM: Form = keys_form(_GPU)
"""What may stand under `gpu`, as JSON Schema."""


def load_gpu_file(path: str | PathLike[str]) -> Gpu:
    """Read a YAML file with a top-level key `gpu`; raises InputError with every mistake in it and its place."""
    problems = Problems()
    document = fields.open_document(path, "gpu", None, problems)
    return problems.result(read_gpu(document.body, problems) if document else None)


def read_gpu(body: Node, problems: Problems) -> Gpu | None:
    """Read what stands under `gpu`, or return None with every mistake reported."""
    before = len(problems)
    top = Fields(body, problems, _GPU)
    values: dict[str, Any] = {key: top.value(key, None if _GPU[key].required else {}) for key in _GPU}
    for node in map(top.get, ("operations_per_sm_cycle", "peak_tflops", "peak_tflops_sparse", "mma")):
        for name, mark in node.key_marks.items() if isinstance(node, MapNode) else ():
            if name not in FORMATS:
                bad = BadNode(mark, node.path if node else "")
                problems.add(bad, f"{quoted(name)} is no number format", format_hint(name))
    if len(problems) > before or not top.readable or None in values.values():
        return None
    _check_whole(top, values)
    if len(problems) > before:
        return None
    clock, memory, l2, sm = (values[key] for key in ("clock", "memory", "l2", "sm"))
    mig = {name: MigProfile(name, **profile) for name, profile in values["mig"].items()}
    return Gpu(
        **{key: values[key] for key in _AS_WRITTEN},
        boost_hz=float(clock["boost"]),
        tensor_hz=float(clock["tensor"]),
        memory_bytes=memory["size"] // 8,
        memory_type=memory["type"],
        dram_bytes_per_s=_bytes_per_s(memory["bandwidth"]),
        l2_bytes=l2["size"] // 8,
        l2_bytes_per_s=_bytes_per_s(l2["bandwidth"]),
        smem_bytes=sm["smem"] // 8,
        smem_per_block_bytes=sm["smem_per_block"] // 8,
        **{key: sm[key] for key in ("registers", "warps", "blocks")},
        nvlink_bytes_per_s=_bytes_per_s(values["nvlink"]) if values["nvlink"] else 0.0,
        tdp_w=values["tdp"],
        mig=mig,
        aliases=tuple(values["aliases"]),
        devices=tuple(values["devices"]),
    )


def _check_whole(top: Fields, values: Mapping[str, Any]) -> None:
    """Report figures that contradict each other."""
    for key in ("memory", "l2"):
        _per_second(top, values[key]["bandwidth"], key, "bandwidth")
    if values["nvlink"]:
        _per_second(top, values["nvlink"], "nvlink", "")
    operations = top.entries["operations_per_sm_cycle"]
    computed = operations.entries if isinstance(operations, MapNode) else ()  # values that have no number too
    for name in values["peak_tflops"]:
        if name not in computed:
            top.problems.add(top.entries["peak_tflops"], f"'{name}' has no operations_per_sm_cycle", "add it there")
    for name in values["peak_tflops_sparse"]:
        if name not in values["peak_tflops"]:
            top.problems.add(top.entries["peak_tflops_sparse"], f"'{name}' has no peak_tflops", "add it there")
    if values["sm"]["smem_per_block"] > values["sm"]["smem"]:
        top.problems.add(top.entries["sm"], "smem_per_block is more than the smem of an SM")
    for name, profile in values["mig"].items():
        sms, eighths = profile["sms"], profile["memory_eighths"]
        if sms > values["sms"] or eighths > 8:
            what = f"profile {name} has more than the GPU: {sms} SMs, {eighths} eighths of memory"
            top.problems.add(top.entries["mig"], what)


def _per_second(top: Fields, rate: Rate, key: str, inner: str) -> None:
    """Report a rate that is not bytes a second."""
    if rate.unit != "bit" or rate.time != "s":
        what = f"{inner or 'a rate'} must be in bytes a second"
        top.problems.add(top.entries[key], what, "write it like '3352 GB/s'")


def _bytes_per_s(rate: Rate) -> float:
    return float(rate.amount / Fraction(8))


@cache
def without_tensor_cores(gpu: Gpu) -> Gpu:
    """Return a GPU whose FP32 units compute FP16 too, as a library does that has no kernel for its tensor cores."""
    computed = {**gpu.operations_per_sm_cycle, "fp16": gpu.operations_per_sm_cycle["fp32"]}
    peak = {**gpu.peak_tflops, "fp16": gpu.peak_tflops["fp32"]}
    return replace(gpu, operations_per_sm_cycle=computed, peak_tflops=peak, mma={})


@cache
def catalogue() -> tuple[Gpu, ...]:
    """All GPUs that ship, by name."""
    return tuple(load_gpu_file(path) for path in library.shipped("gpus"))


def load_gpu(name_or_path: str | PathLike[str], mig: str | None = None) -> Gpu:
    """Find a GPU by file, name, alias or device name, whole or as a MIG slice.

    A name is such as `h100_sxm`, `h100`, `gpu/h100_sxm` or `NVIDIA H100 80GB HBM3`; `mig` is a profile such as
    `1g.10gb`. Raises AccelsimError if there is no such GPU or profile, InputError with every mistake in the file.

    >>> load_gpu("NVIDIA H200").name, load_gpu("a100", "1g.10gb").sms
    ('h200_sxm', 14)
    """
    gpu = load_gpu_file(name_or_path) if os.path.isfile(name_or_path) else find_gpu(str(name_or_path))
    if gpu is None:
        name = str(name_or_path)
        what = f"{name}: no such file, and no GPU of that name; {gpu_hint(name)}"
        raise UnknownNameError(what, name, near_misses(name, gpu_names()))
    return gpu.slice(mig) if mig else gpu


def find_gpu(name: str) -> Gpu | None:
    """GPU of a name, alias or device name, or None."""
    requested = _plain(name)
    return next((gpu for gpu in catalogue() if requested in map(_plain, (gpu.name, *gpu.aliases, *gpu.devices))), None)


def may_be(gpu: Gpu, device: str) -> bool:
    """Whether a device is this GPU or the one that it is a slice of, or none that is known."""
    known = find_gpu(device)
    return known is None or known.name == gpu.name.partition(":")[0]


def gpu_names() -> list[str]:
    """Names of GPUs that ship, as they are written in any tool."""
    return [word for gpu in catalogue() for word in (gpu.name, *gpu.aliases, *gpu.devices)]


def gpu_hint(name: str) -> str:
    """What to write instead of a name of no GPU that ships."""
    if any(library.find(name, kind) for kind in ("decoders", "workloads")):
        return "that is what runs on it: write the GPU first"
    return near_miss(name, gpu_names()) or "`accelsim list gpus` shows those that ship"


def _plain(name: str) -> str:
    """Name without what people write differently: NVIDIA, and spaces, hyphens or underscores between its parts."""
    text = name.casefold().removesuffix(".yaml").removeprefix("arch/").removeprefix("gpu/")
    return re.sub("nvidia|[ _-]", "", text)
