"""Kernels whose code is not known: a physical form with few constants for each kind, fitted to measured rows.

Constants are fitted for all stacks together, for each library whose kernels several stacks take, for each software
stack, for each stack on GPUs of one path (`operand_path`, `link_of`), and on each family of GPUs, each near the ones
before it, so that few rows move little. A GPU that was not measured has the constants of its family, or else of the
stack on GPUs of its path, on all GPUs, or else of the library, or of all. `kernels.json` holds them with the tables
that they were fitted to; `validation/kernel_fits.py` fits, and `benchmarks/gpu/fit_kernels.py` writes it.
`kernel_constants.yaml` says what each is and where its fit begins. Arrays: P = kernels. Times are in us.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.catalogue import Gpu, read_tables, wide_format
from accelsim.gpu.constants import Floats, compute_class, evicted
from accelsim.inputs.errors import AccelsimError

Shapes = Mapping[str, Floats]
"""Sizes by name, float[P] each; which there are says the kind."""
Constants = Mapping[str, float]
Parts = dict[str, Floats]
"""What a kernel's time is made of, float[P] [us]; it is their sum."""
Names = NDArray[np.str_]
LARGEST = 2.0**40
"""Largest size of a kernel, such as the bytes of a message."""


class Constant(NamedTuple):
    """Where the fit of a constant begins, and its range."""

    start: float
    low: float
    high: float


def operand_path(gpu: Gpu) -> str:
    """How multiply-adds in 16 bit get their operands (see `compute_class`), for which libraries write their kernels.

    FlashAttention-2 and CUTLASS's kernels for compute capability 8 run on `mma`, FlashAttention-3 and warp-specialised
    ones, which load by TMA, on `async`.
    """
    return compute_class(gpu, wide_format(gpu))


def link_of(gpu: Gpu) -> str:
    """What joins GPUs of a node, for which libraries have algorithms and kernels of their own."""
    return "NVLink" if gpu.nvlink_bytes_per_s else "PCIe"


@dataclass(frozen=True, slots=True, eq=False)
class OperatorKind:
    """An operator as software stacks compute it."""

    name: str
    # time of kernels on a GPU by its sizes and the constants
    parts: Callable[[Gpu, Shapes, Constants], Parts]
    # time of the operations at the peak of the data sheet, and of the compulsory bytes at its bandwidth [us]
    least: Callable[[Gpu, Shapes], tuple[Floats, Floats]]
    # name of the kernel that a stack takes for a shape, str[P]; constants are fitted for each
    variant: Callable[[Shapes], Names]
    # what decides which kernels libraries have for a GPU, by default nothing; families of one path are nearer
    path: Callable[[Gpu], str] = lambda _: ""
    # whether no kernel can do without the bytes of `least`: rows that take less than those beyond L2 do at the
    # bandwidth of the data sheet moved others than they say; constants for GPUs of other families leave them out
    compulsory: bool = False

    @property
    def constants(self) -> dict[str, Constant]:
        """What its time is fitted by; all rooflines have the same."""
        declared = read_tables("kernel_constants")[self.name.rpartition(", ")[2]]
        return {name: Constant(*each) for name, each in declared.items()}


CLOCK = 1.7e9
"""Clock [Hz] at which fixed times are: a chain of dependent instructions and loads takes cycles."""
_SHARPNESS = 3.0
"""How suddenly data no longer stays in L2, as in the model of products."""


def gone(gpu: Gpu, moved: Floats, residency: float) -> Floats:
    """Share of the bytes that are moved which L2 does not hold from the run before."""
    return evicted(moved, gpu.l2_bytes / partitions_of(gpu) * residency, _SHARPNESS)


def partitions_of(gpu: Gpu) -> int:
    """Count the partitions of L2, each of which caches what the SMs beside it read, so that it may hold data twice.

    Two from GA100 on, of chips with HBM (NVIDIA A100 white paper, L2 cache; of GH100 the near and the far half in
    Chips and Cheese, "Nvidia's H100: Funny L2", 2023; of GB100 it is assumed); one of GV100 and of chips with GDDR.
    """
    return 2 if gpu.memory_type.startswith("HBM") and gpu.compute_capability >= (8, 0) else 1


def one_variant(shapes: Shapes) -> Names:
    """No kernel of its own for any shape."""
    return np.full(len(next(iter(shapes.values()))), "", dtype="U1")


def family(gpu: Gpu) -> str:
    """Family of a GPU: its generation, and within it those whose tensor cores work alike."""
    return f"{gpu.generation} {gpu.compute_capability[0]}"


def shapes_of(least: Mapping[str, float], **sizes: Any) -> dict[str, Floats]:
    """Sizes as arrays of one length.

    `least`: smallest value of each that is a whole number. Raises AccelsimError if one is none, or smaller.

    >>> shapes_of({"heads": 1, "cached": 0}, heads=[8, 16], cached=0)["cached"].tolist()
    [0.0, 0.0]
    """
    arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in sizes.values()))
    for name, values in zip(sizes, arrays, strict=True):
        bad = ~((values >= least.get(name, -np.inf)) & (values <= LARGEST))
        if name in least:
            bad |= values != np.floor(values)
        if bad.any():
            what = f"a whole number from {least[name]:g} to {LARGEST:g}" if name in least else "a number"
            raise AccelsimError(f"{name} must be {what}, got {values[bad][0]:g}")
    return dict(zip(sizes, arrays, strict=True))


LONGEST_FLOOR_US = 15.0
"""Time of the smallest kernel above which launches set it: in CUDA graphs 3 to 9 us were measured, else 18 to 210."""


@dataclass(frozen=True, slots=True)
class FittedSet:
    """Constants of a kind, and what they were fitted to; empty names mean all of them."""

    stack: str
    variant: str
    family: str  # or a path (see `Kind`)
    gpus: tuple[str, ...]
    rows: int
    values: Mapping[str, float] = field(hash=False)
    near: int  # number of the wider set, which has all constants but its own; -1: none
    own: tuple[str, ...]

    @property
    def launched_apart(self) -> bool:
        """Whether these kernels were measured outside CUDA graphs, so that their launches set the time."""
        times = (self.values[name] for name in ("floor_us", "launch_us") if "floor_us" in self.values)
        return max(times, default=0.0) > LONGEST_FLOOR_US

    @property
    def software(self) -> str:
        """Whose kernels they are."""
        return self.stack.partition("/")[0].casefold()

    @property
    def text(self) -> str:
        """What they were fitted to, in words."""
        stack = self.stack.removeprefix("/")
        kernels = f"{stack}{', ' if self.variant else ''}{self.variant}" if stack else "all stacks"
        return f"{self.rows} kernels of {kernels} on {', '.join(self.gpus)}"


def _replayed(sets: list[FittedSet], variant: str) -> list[FittedSet]:
    """Those measured in CUDA graphs, if one of them has the variant."""
    found = [one for one in sets if not one.launched_apart]
    return found if any(one.variant == variant for one in found) else sets


@dataclass(frozen=True, slots=True)
class Fitted:
    """All constants of a kind."""

    sets: tuple[FittedSet, ...]

    def of(self, gpu: Gpu, stack: str | None = None, variant: str = "") -> FittedSet:
        """Constants for a stack and variant on a GPU: fitted to its family, or else to others.

        `stack`: a name as tables have it, or the software alone, such as `vllm`, of which the kernel counts that was
        measured most; by default, that of the stack that was measured most on the family. Kernels that were launched
        apart stand only where their full name asks for them, as servers replay graphs. An empty name stands for all
        stacks together. Raises AccelsimError if there is no such stack.
        """
        own = [one for one in self.sets if one.stack.strip("/") == one.stack != ""]
        own = _replayed(own, variant) if stack is None else self._of_stack(stack, variant)
        near = {"": 1, operand_path(gpu): 2, link_of(gpu): 2, family(gpu): 3}
        if not own or (stack is None and all(one.family != family(gpu) for one in own)):
            own = [one for one in self.sets if not one.stack]
        return max(own, key=lambda one: (near.get(one.family, 0), one.variant == variant, not one.variant, one.rows))

    def kernels(self, gpu: Gpu, variant: str) -> list[FittedSet]:
        """Constants of each kernel that servers may call for a variant on a GPU, fitted to its family, or else others.

        Those that were launched apart are left out; if no other has the variant, the one of `of`.
        """
        near = {"": 1, operand_path(gpu): 2, link_of(gpu): 2, family(gpu): 3}
        best: dict[str, FittedSet] = {}
        for one in self.sets:
            if one.stack and one.variant == variant and one.family in near and not one.launched_apart:
                known = best.get(one.stack)
                if known is None or near[one.family] > near[known.family]:
                    best[one.stack] = one
        own = [one for one in best.values() if one.family == family(gpu)]
        return own or list(best.values()) or [self.of(gpu, variant=variant)]

    def _of_stack(self, stack: str, variant: str) -> list[FittedSet]:
        if not stack:
            return []
        wanted = stack.casefold()
        found = [one for one in self.sets if one.stack.casefold() == wanted]
        found = found or _replayed([one for one in self.sets if one.software == wanted], variant)
        if not found:
            known = sorted({one.software for one in self.sets} - {""})
            raise AccelsimError(f"no stack '{stack}' was measured; there are: {', '.join(known)}")
        return found


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Times of kernels and what they are made of, float[P] [us]; `label` says what the constants were fitted to."""

    time_us: Floats
    parts_us: Parts
    label: str
    calibrated: bool  # on this very GPU, not a slice of it, by such kernels


def time_kernels(kind: OperatorKind, gpu: Gpu, shapes: Shapes, stack: str = "") -> KernelTimes:
    """Time kernels of a kind on a GPU, with the constants that ship."""
    variants = kind.variant(shapes)
    sets = {variant: _set_of(kind.name, gpu, stack, variant) for variant in dict.fromkeys(variants.tolist())}
    times: Parts = {}
    for variant, found in sets.items():
        at = variants == variant
        for name, us in kind.parts(gpu, {key: size[at] for key, size in shapes.items()}, found.values).items():
            times.setdefault(name, np.zeros(len(variants)))[at] = us
    known = all(found.gpus == (gpu.name,) and found.variant == variant for variant, found in sets.items())
    other = [variant for variant, found in sets.items() if found.variant != variant]
    kernels = f" for {' and '.join(other)}" if any(other) else ""
    how = "calibrated: " if known else f"not calibrated{kernels} on {gpu.name}: constants of "
    label = how + "; ".join(dict.fromkeys(found.text for found in sets.values())) + doubt(kind, gpu, variants)
    return KernelTimes(np.sum(list(times.values()), axis=0), times, label, known)


def doubt(kind: OperatorKind, gpu: Gpu, variants: Names) -> str:
    """What is said of times on GPUs of a family that was not measured, where they may be far off.

    Collectives over PCIe: with the L40S, the only such GPU, left out of the fit, its medians are 30 % (NCCL) and 45 %
    (one-shot kernels) off. Products of 4-bit floats whose operands come from registers (`mma`): no GPU was measured.
    """
    if any(one.family == family(gpu) for one in shipped(kind.name).sets):
        return ""
    over_pcie = kind.path is link_of and link_of(gpu) == "PCIe"
    narrow = operand_path(gpu) == "mma" and any("fp4" in name for name in variants.tolist())
    return "; may be 2 times off" if over_pcie or narrow else ""


def fastest_kernels(kind: OperatorKind, gpu: Gpu, shapes: Shapes) -> KernelTimes:
    """Time kernels of a kind on a GPU, each the fastest that any stack has: they call each other's libraries."""
    variants, used = kind.variant(shapes), list[FittedSet]()
    time_us = np.zeros(len(variants))
    for variant in dict.fromkeys(variants.tolist()):
        at = variants == variant
        own, sets = {key: size[at] for key, size in shapes.items()}, _kernels_of(kind.name, gpu, variant)
        every = np.array([np.sum(list(kind.parts(gpu, own, one.values).values()), axis=0) for one in sets])
        time_us[at] = every.min(axis=0)
        used += [sets[index] for index in np.unique(every.argmin(axis=0))]
    known = all(one.gpus == (gpu.name,) for one in used)
    label = f"{'calibrated' if known else f'not calibrated on {gpu.name}'}: fastest of "
    label += "; ".join(dict.fromkeys(one.text for one in used)) + doubt(kind, gpu, variants)
    return KernelTimes(time_us, {}, label, known)


@cache
def _set_of(kind: str, gpu: Gpu, stack: str, variant: str) -> FittedSet:
    """Constants that ship, of the stack that was measured most if none is named."""
    return shipped(kind).of(gpu, stack or None, variant)


@cache
def _kernels_of(kind: str, gpu: Gpu, variant: str) -> list[FittedSet]:
    return shipped(kind).kernels(gpu, variant)


FILE = Path(__file__).with_name("kernels.json")


@cache
def shipped_kinds(path: Path = FILE) -> Mapping[str, Any]:
    """All that a file of constants has, by kind: the constants, and the table that they were fitted to."""
    kinds: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))["kinds"]
    return kinds


@cache
def shipped(kind: str, path: Path = FILE) -> Fitted:
    """Constants of a kind that come with accelsim, or that another file has."""
    found: list[FittedSet] = []
    sets: Iterable[Sequence[Any]] = shipped_kinds(path)[kind]["sets"]
    for stack, variant, of, gpus, rows, near, own in sets:
        values = {**(found[near].values if near >= 0 else {}), **own}
        found.append(FittedSet(stack, variant, of, tuple(gpus), rows, values, near, tuple(own)))
    return Fitted(tuple(found))
