"""Collectives of GPUs of one node: all-reduce, all-gather, reduce-scatter and all-to-all, over NVLink or PCIe.

Sizes (float[P] each): `gpus`; `bytes`, of the whole message: what each GPU has of an all-reduce, what each ends up with
of an all-gather, what each begins with of the others; of a word (`word_bytes`); `operation`, an index into
`OPERATIONS`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.catalogue import Gpu
from accelsim.gpu.constants import Floats
from accelsim.gpu.fitted import (
    CLOCK,
    Constants,
    KernelTimes,
    Names,
    OperatorKind,
    Parts,
    Shapes,
    link_of,
    one_variant,
    shapes_of,
    time_kernels,
)
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import near_miss

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_PCIE_GB_PER_S = {"pascal": 15.75, "volta": 15.75, "turing": 15.75, "ampere": 31.5, "ada": 31.5}
_PCIE_5_GB_PER_S = 63.0
"""Rate of 16 lanes in one direction (PCI-SIG): generation 3, 4, and 5 from Hopper on."""
MEASURED_GPUS = 8
"""Most GPUs in the tables of measured collectives."""
_IN_SWITCH = 9
"""Compute capability from which NVSwitch adds up (NVLink SHARP, NVIDIA Hopper white paper)."""
_LEAST_IN_SWITCH, _LEAST_WORD = 8, 2.0
"""GPUs and bytes of a word from which NCCL lets it: of four H100, or in INT8, an all-reduce takes as long as a ring
(measured rows)."""


def _link(gpu: Gpu, gpus: Floats, constants: Constants) -> Floats:
    """Bytes that a GPU sends in a us, and takes as well."""
    if gpu.nvlink_bytes_per_s:
        return np.full_like(gpus, gpu.nvlink_bytes_per_s / 2e6)
    rate = _PCIE_GB_PER_S.get(gpu.generation, _PCIE_5_GB_PER_S) * 1e3
    return rate * constants["pcie"] * (2 / gpus) ** constants["pcie_shared"]


def sent_of(shapes: Shapes) -> tuple[Floats, Floats]:
    """Steps of a ring, and bytes that each GPU sends.

    A ring turns once for an all-gather or a reduce-scatter, and for both, an all-reduce, twice. In an all-to-all each
    GPU sends each other one its part at once.

    >>> steps, sent = sent_of(collective_shapes(["all_reduce", "all_gather", "all_to_all"], 4, 1000))
    >>> steps.tolist(), sent.tolist()
    ([6.0, 3.0, 1.0], [1500.0, 750.0, 750.0])
    """
    gpus, operation = shapes["gpus"], shapes["operation"]
    turns = np.where(operation == 0, 2.0, 1.0)
    steps = np.where(operation == OPERATIONS.index("all_to_all"), 1.0, turns * (gpus - 1))
    return steps, turns * (gpus - 1) / gpus * shapes["bytes"]


def _ring(gpu: Gpu, shapes: Shapes, constants: Constants) -> tuple[Floats, Floats, Floats]:
    """Steps and data of the fastest of flagged, simple, and, from Hopper on, in the switch; and the link's rate."""
    gpus, size = shapes["gpus"], shapes["bytes"]
    link = _link(gpu, gpus, constants)
    steps, sent = sent_of(shapes)
    best_steps, best_data = constants["hop_us"] * steps, sent / (link * constants["flagged"])
    share = constants["simple"] if gpu.nvlink_bytes_per_s else 1.0
    copies = size / (gpu.dram_bytes_per_s * 1e-6 * constants["copies"])
    simple_steps = constants["simple_us"] + (constants["hop_us"] + constants["simple_hop_us"]) * steps
    others: list[tuple[Floats, Floats, NDArray[np.bool_]]] = [
        (simple_steps, sent / (link * share) + copies, np.ones(len(gpus), dtype=bool))
    ]
    if gpu.nvlink_bytes_per_s and gpu.compute_capability[0] >= _IN_SWITCH:
        switched = (shapes["operation"] == 0) & (gpus >= _LEAST_IN_SWITCH) & (shapes["word_bytes"] >= _LEAST_WORD)
        begun = np.full_like(steps, constants["in_switch_us"] + constants["hop_us"] * 2)
        others.append((begun, size / (link * constants["in_switch"]) + copies, switched))
    for other_steps, other_data, possible in others:
        faster = possible & (other_steps + other_data < best_steps + best_data)
        best_steps, best_data = np.where(faster, other_steps, best_steps), np.where(faster, other_data, best_data)
    return best_steps, best_data, link


def _nccl_parts(gpu: Gpu, shapes: Shapes, constants: Constants) -> Parts:
    steps, data, _ = _ring(gpu, shapes, constants)
    launch = constants["launch_us"] * CLOCK / gpu.boost_hz
    return {"launch": np.full_like(steps, launch), "steps": steps, "data": data}


def _one_shot_parts(gpu: Gpu, shapes: Shapes, constants: Constants) -> Parts:
    """One kernel that reads the others' memory, in one phase or two; long messages leave it to NCCL's rings."""
    gpus, size = shapes["gpus"], shapes["bytes"]
    steps, data, link = _ring(gpu, shapes, constants)
    one, two = size * (gpus - 1) / (link * constants["one_shot"]), sent_of(shapes)[1] / (link * constants["two_shot"])
    for other_steps, other_data in ((0.0, one), (constants["two_shot_us"], two)):
        faster = other_steps + other_data < steps + data
        steps, data = np.where(faster, other_steps, steps), np.where(faster, other_data, data)
    waited = np.maximum(constants["floor_us"] - constants["launch_us"] - steps - data, 0)
    return {"launch": constants["launch_us"] + waited, "steps": steps, "data": data}


def _least(gpu: Gpu, shapes: Shapes) -> tuple[Floats, Floats]:
    _, sent = sent_of(shapes)
    rate = _link(gpu, shapes["gpus"], {"pcie": 1.0, "pcie_shared": 0.0})
    return np.zeros_like(sent), sent / rate


def _variant(shapes: Shapes) -> Names:
    return np.array(OPERATIONS)[shapes["operation"].astype(np.int64)]


NCCL = OperatorKind("NCCL", _nccl_parts, _least, _variant, link_of)
ONE_SHOT = OperatorKind("one-shot all-reduce", _one_shot_parts, _least, one_variant, link_of)


def collective_shapes(operation: Any, gpus: Any, size_bytes: Any, word_bytes: Any = 2.0) -> dict[str, Floats]:
    """Sizes of collectives; `operation`: one or more of `OPERATIONS`.

    Raises AccelsimError if one is none of these, or there are fewer than two GPUs.
    """
    names = [operation] if isinstance(operation, str) else list(operation)
    for name in names:
        if name not in OPERATIONS:
            hint = near_miss(name, OPERATIONS) or f"there are: {', '.join(OPERATIONS)}"
            raise AccelsimError(f"no collective '{name}'; {hint}")
    index = [OPERATIONS.index(name) for name in names]
    sizes = {"gpus": gpus, "bytes": size_bytes, "operation": index, "word_bytes": word_bytes}
    return shapes_of({"gpus": 2, "bytes": 1}, **sizes)


def refuse_slice(gpu: Gpu) -> None:
    """Raise AccelsimError if a GPU is a MIG slice."""
    if ":" in gpu.name:
        raise AccelsimError(f"{gpu.name}: slices of GPUs have no links to others; leave --mig out")


def time_collective(gpu: Gpu, shapes: Shapes, *, one_shot: bool = False, stack: str = "") -> KernelTimes:
    """Time of collectives [us]: of NCCL, or all-reduce of a stack's own kernels where these are faster.

    Raises AccelsimError if one-shot kernels are asked for another operation, or the GPU is a MIG slice.

    >>> from accelsim.gpu.catalogue import load_gpu
    >>> times = time_collective(load_gpu("h100"), collective_shapes("all_reduce", 8, [1024, 2**30]))
    >>> [round(time_us, -1) for time_us in times.time_us.tolist()]
    [20.0, 4230.0]
    """
    refuse_slice(gpu)
    if one_shot and shapes["operation"].any():
        raise AccelsimError("one-shot kernels are measured of all_reduce alone")
    times = time_kernels(ONE_SHOT if one_shot else NCCL, gpu, shapes, stack)
    many = (shapes["gpus"] > MEASURED_GPUS).any()
    return replace(times, label=f"{times.label}, of at most {MEASURED_GPUS} GPUs") if many else times
