"""The GPUs that come with accelsim, found by file, name, alias or the name that the driver prints.

Read a GPU file: what stands under `gpu`, with every mistake and its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from accelsim.gpu.machine import FORMATS, MEMORY_TYPES, Gpu, MigProfile
from accelsim.inputs import fields, forms, library
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.fields import Fields, Formed, Key, Keys, formed, keys_form
from accelsim.inputs.forms import Form
from accelsim.inputs.source import BadNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import SIZES, Rate, listed, near_miss, quoted

T = TypeVar("T")
_MMA = re.compile(r"m([0-9]{1,4})n([0-9]{1,4})k([0-9]{1,4})")
_CAPABILITY = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})")
_MEMORY_TYPE = re.compile(rf"({'|'.join(MEMORY_TYPES)})[A-Za-z0-9]{{0,8}}")
_POWER = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?)\s*W")
_ABOVE_0 = r"^(?!0*(\.0*)?$)[0-9]{1,12}(\.[0-9]{0,9})?$"
GENERATIONS = ("pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")


@formed(forms.either({"type": "number", "exclusiveMinimum": 0}, forms.scalar({"type": "string", "pattern": _ABOVE_0})))
def _number(node: Node, problems: Problems) -> float | None:
    """Read a number above 0, in quotes too."""
    if isinstance(node, ScalarNode) and re.match(_ABOVE_0, node.text):
        return float(node.text)
    problems.add(node, f"expected a number above 0, got {describe(node)}")
    return None


def _matched(
    pattern: re.Pattern[str], what: str, hint: str, value_of: Callable[[re.Match[str]], T | None]
) -> Formed[T]:
    """Reader of a text of which a pattern matches the whole."""

    def read(node: Node, problems: Problems) -> T | None:
        match = pattern.fullmatch(node.text.strip()) if isinstance(node, ScalarNode) else None
        value = value_of(match) if match else None
        if value is None:
            problems.add(node, f"expected {what}, got {describe(node)}", hint)
        return value

    return Formed(read, forms.pattern(pattern))


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


def _group(keys: Keys) -> Formed[dict[str, Any]]:
    """Reader of a mapping with these keys, all of which it has."""

    @formed(keys_form(keys))
    def read(node: Node, problems: Problems) -> dict[str, Any] | None:
        part = Fields(node, problems, keys)
        found: dict[str, Any] = {name: part.value(name, None) for name in keys}
        return None if None in found.values() else found

    return read


_CLOCK: Keys = {
    "boost": Key(
        fields.frequency_hz,
        "at which kernels run until power limits them, and the peaks of FP64, FP32 and vector formats hold",
        unit="MHz, GHz",
    ),
    "tensor": Key(fields.frequency_hz, "at which the peaks of the other formats hold", unit="MHz, GHz"),
}
_MEMORY: Keys = {
    "size": Key(fields.positive_size_bits, "capacity", unit=SIZES),
    "type": Key(_memory_type, "`HBM…`, `GDDR…` or `LPDDR…`, which says its energy"),
    "bandwidth": Key(fields.rate, "peak", unit="GB/s, TB/s"),
}
_L2: Keys = {
    "size": Key(fields.positive_size_bits, "capacity", unit=SIZES),
    "bandwidth": Key(fields.rate, "of reads, all SMs together", unit="GB/s, TB/s"),
}
_SM: Keys = {
    "smem": Key(fields.positive_size_bits, "shared memory that its blocks may take", unit=SIZES),
    "smem_per_block": Key(fields.positive_size_bits, "shared memory that one block may take", unit=SIZES),
    "registers": Key(fields.positive_int, "32-bit registers"),
    "warps": Key(fields.positive_int, "most warps at once"),
    "blocks": Key(fields.positive_int, "most blocks at once"),
}
_PROFILE: Keys = {
    "sms": Key(fields.positive_int, "SMs of the slice"),
    "memory_eighths": Key(fields.positive_int, "eighths of memory, memory bandwidth and L2"),
}


def _of_formats(values: Form) -> Form:
    return forms.named(values, _FORMAT_NAMES)


_PEAKS = Formed(_NUMBERS.read, _of_formats(_number.form))
_GPU: Keys = {
    "name": Key(fields.name, "its name"),
    "chip": Key(fields.text, "its die, such as `GH100`"),
    "generation": Key(fields.one_of(GENERATIONS), "its architecture"),
    "compute_capability": Key(_capability, "of CUDA, such as `9.0`"),
    "aliases": Key(fields.list_of(fields.name), "shorter names that commands find it by", "none"),
    "devices": Key(fields.list_of(fields.text), "names that drivers and tables of measurements call it", "none"),
    "sms": Key(fields.positive_int, "streaming multiprocessors that are enabled"),
    "clock": Key(_group(_CLOCK), "its clocks"),
    "operations_per_sm_cycle": Key(
        _PEAKS, "dense, of an SM, by number format; a multiply-add is two. A format that is not here is not computed"
    ),
    "peak_tflops": Key(_PEAKS, "dense peaks that the data sheet prints, by number format", unit="TFLOPS"),
    "peak_tflops_sparse": Key(_PEAKS, "peaks with 2:4 sparse weights, by number format", "none", "TFLOPS"),
    "mma": Key(
        Formed(_SHAPES.read, _of_formats(_mma.form)),
        "shape of a tensor-core instruction by number format, such as `m16n8k16`; from m64 on its operands come from "
        "shared memory. A format that is not here is computed without tensor cores",
        "no tensor cores",
    ),
    "memory": Key(_group(_MEMORY), "device memory"),
    "l2": Key(_group(_L2), "level-2 cache"),
    "sm": Key(_group(_SM), "what one SM has"),
    "nvlink": Key(fields.rate, "of one GPU, both directions together", "none", "GB/s"),
    "tdp": Key(_power_w, "power limit of the board", unit="W"),
    "mig": Key(fields.mapping_of(_group(_PROFILE)), "slices by the names of their MIG profiles", "none"),
    "sources": Key(_TEXTS, "where figures come from, by key, `all` for the others"),
    "unsure": Key(_TEXTS, "figures that no data sheet confirms, by key, and why", "none"),
}
GPU_FORM: Form = keys_form(_GPU)
"""What may stand under `gpu`, as JSON Schema."""


def load_gpu_file(path: str | PathLike[str], overrides: Mapping[str, str] | None = None) -> Gpu:
    """Read a GPU file.

    Parameters
    ----------
    path : str or path
        YAML file with a top-level key `gpu`.
    overrides : mapping of str to str, optional
        Values of parameters that replace those in the file.

    Raises
    ------
    SpecError
        With every mistake in the file and its place.
    """
    problems = Problems()
    document = fields.open_document(path, "gpu", overrides, problems)
    return problems.result(read_gpu(document.body, problems) if document else None)


def read_gpu(body: Node, problems: Problems) -> Gpu | None:
    """Read what stands under `gpu`, or return None with every mistake reported."""
    before = len(problems)
    top = Fields(body, problems, _GPU)
    values: dict[str, Any] = {key: top.value(key, None) for key in _GPU}
    for key in ("operations_per_sm_cycle", "peak_tflops", "peak_tflops_sparse", "mma"):
        _check_formats(top, key)
    if len(problems) > before or not top.readable or any(values[key] is None for key in _GPU if _GPU[key].required):
        return None
    _check_whole(top, values)
    if len(problems) > before:
        return None
    clock, memory, l2, sm = (values[key] for key in ("clock", "memory", "l2", "sm"))
    mig = {name: MigProfile(name, **profile) for name, profile in (values["mig"] or {}).items()}
    return Gpu(
        **{key: values[key] for key in ("name", "chip", "generation", "compute_capability", "sms")},
        boost_hz=float(clock["boost"]),
        tensor_hz=float(clock["tensor"]),
        operations_per_sm_cycle=values["operations_per_sm_cycle"],
        peak_tflops=values["peak_tflops"],
        peak_tflops_sparse=values["peak_tflops_sparse"] or {},
        mma=values["mma"] or {},
        memory_bytes=memory["size"] // 8,
        memory_type=memory["type"],
        dram_bytes_per_s=_bytes_per_s(memory["bandwidth"]),
        l2_bytes=l2["size"] // 8,
        l2_bytes_per_s=_bytes_per_s(l2["bandwidth"]),
        smem_bytes=sm["smem"] // 8,
        smem_per_block_bytes=sm["smem_per_block"] // 8,
        registers=sm["registers"],
        warps=sm["warps"],
        blocks=sm["blocks"],
        nvlink_bytes_per_s=_bytes_per_s(values["nvlink"]) if values["nvlink"] else 0.0,
        tdp_w=values["tdp"],
        mig=mig,
        aliases=tuple(values["aliases"] or ()),
        devices=tuple(values["devices"] or ()),
        sources=values["sources"],
        unsure=values["unsure"] or {},
    )


def _check_formats(top: Fields, key: str) -> None:
    """Report names that are no number format."""
    node = top.get(key)
    for name, mark in node.key_marks.items() if isinstance(node, MapNode) else ():
        if name not in FORMATS:
            hint = near_miss(name, FORMATS) or f"formats: {listed(FORMATS)}"
            top.problems.add(BadNode(mark, node.path if node else ""), f"{quoted(name)} is no number format", hint)


def _check_whole(top: Fields, values: Mapping[str, Any]) -> None:
    """Report figures that contradict each other."""
    for key in ("memory", "l2"):
        _per_second(top, values[key]["bandwidth"], f"{key}", "bandwidth")
    if values["nvlink"]:
        _per_second(top, values["nvlink"], "nvlink", "")
    for name in values["peak_tflops"]:
        if name not in _names(top.entries["operations_per_sm_cycle"]):
            top.problems.add(top.entries["peak_tflops"], f"'{name}' has no operations_per_sm_cycle", "add it there")
    for name in values["peak_tflops_sparse"] or ():
        if name not in values["peak_tflops"]:
            top.problems.add(top.entries["peak_tflops_sparse"], f"'{name}' has no peak_tflops", "add it there")
    if values["sm"]["smem_per_block"] > values["sm"]["smem"]:
        top.problems.add(top.entries["sm"], "smem_per_block is more than the smem of an SM")
    for name, profile in (values["mig"] or {}).items():
        sms, eighths = profile["sms"], profile["memory_eighths"]
        if sms > values["sms"] or eighths > 8:
            what = f"profile {name} has more than the GPU: {sms} SMs, {eighths} eighths of memory"
            top.problems.add(top.entries["mig"], what)


def _names(node: Node) -> tuple[str, ...]:
    """Names in a mapping, of values that could not be worked out too."""
    return tuple(node.entries) if isinstance(node, MapNode) else ()


def _per_second(top: Fields, rate: Rate, key: str, inner: str) -> None:
    """Report a rate that is not bytes a second."""
    if rate.unit != "bit" or rate.time != "s":
        what = f"{inner or 'a rate'} must be in bytes a second"
        top.problems.add(top.entries[key], what, "write it like '3352 GB/s'")


def _bytes_per_s(rate: Rate) -> float:
    return float(rate.amount / Fraction(8))


KIND = "gpus"


@cache
def catalogue() -> tuple[Gpu, ...]:
    """All GPUs that ship, by name."""
    return tuple(load_gpu_file(path) for path in library.shipped(KIND))


def load_gpu(name_or_path: str | PathLike[str], mig: str | None = None) -> Gpu:
    """Find a GPU by file, name, alias or device name, whole or as a MIG slice.

    Parameters
    ----------
    name_or_path : str or path
        A YAML file, or a name such as `h100_sxm`, `h100`, `gpu/h100_sxm` or `NVIDIA H100 80GB HBM3`.
    mig : str, optional
        A MIG profile such as `1g.10gb`.

    Raises
    ------
    AccelsimError
        If there is no such GPU or profile.
    SpecError
        With every mistake in the file.

    Examples
    --------
    >>> load_gpu("NVIDIA H200").name, load_gpu("a100", "1g.10gb").sms
    ('h200_sxm', 14)
    """
    path = Path(name_or_path)
    gpu = load_gpu_file(path) if _is_file(path) else _by_name(str(name_or_path))
    return gpu.slice(mig) if mig else gpu


def find_gpu(name: str) -> Gpu | None:
    """GPU of a name, alias or device name, or None."""
    wanted = _plain(name)
    for gpu in catalogue():
        if wanted in map(_plain, (gpu.name, *gpu.aliases, *gpu.devices)):
            return gpu
    return None


def may_be(gpu: Gpu, device: str) -> bool:
    """Whether a device is this GPU or the one that it is a slice of, or none that is known."""
    known = find_gpu(device)
    return known is None or known.name == gpu.name.partition(":")[0]


def _by_name(name: str) -> Gpu:
    found = find_gpu(name)
    if found is None:
        raise AccelsimError(f"{name}: no such file, and no GPU of that name; {gpu_hint(name)}")
    return found


def gpu_hint(name: str) -> str:
    """What to write instead of a name of no GPU that ships."""
    known = [word for gpu in catalogue() for word in (gpu.name, *gpu.aliases, *gpu.devices)]
    return near_miss(name, known) or "`accelsim gpus` shows those that ship"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _plain(name: str) -> str:
    """Name without what people write differently: NVIDIA, and spaces, hyphens or underscores between its parts."""
    text = name.casefold().removesuffix(".yaml").removeprefix("arch/").removeprefix("gpu/")
    return re.sub("nvidia|[ _-]", "", text)
