"""Kernels whose code is not known: a physical form with few constants for each kind, fitted to measured rows.

Constants are fitted for all stacks together, for each library whose kernels several stacks take, for each software
stack, for each stack on GPUs of one path (`operand_path`, `link_of`), and on each family of GPUs, each near the ones
before it, so that few rows move little. A GPU that was not measured has the constants of its family, or else of the
stack on GPUs of its path, on all GPUs, or else of the library, or of all. `kernels.json` holds them with the tables
that they were fitted to; `benchmarks/gpu/fit_kernels.py` writes it. `kernel_constants.yaml` says what each is and where
its fit begins. Arrays: P = kernels. Times are in us.
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

from accelsim.gpu.calibration import LEAST_ROWS, fit_positive
from accelsim.gpu.catalogue import Gpu, read_tables, table_of, wide_format
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


def one_path(gpu: Gpu) -> str:
    """No kernels of its own for any GPU."""
    return ""


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
    # what decides which kernels libraries have for a GPU; families of one path are nearer to each other
    path: Callable[[Gpu], str] = one_path
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


def roofline_of(kind: OperatorKind) -> OperatorKind:
    """Three constants for the same operator: a launch, and shares of the peak and of the bandwidth."""

    def parts(gpu: Gpu, shapes: Shapes, constants: Constants) -> Parts:
        operations, moved = kind.least(gpu, shapes)
        longest = np.maximum(operations / constants["math"], moved / constants["memory"])
        return {"launch": np.full_like(longest, constants["launch_us"]), "roofline": longest}

    return OperatorKind(f"{kind.name}, roofline", parts, kind.least, kind.variant, kind.path)


def family(gpu: Gpu) -> str:
    """Family of a GPU: its generation, and within it those whose tensor cores work alike."""
    return f"{gpu.generation} {gpu.compute_capability[0]}"


def shapes_of(least: Mapping[str, float], **sizes: Any) -> dict[str, Floats]:
    """Sizes as arrays of one length.

    `least`: smallest value of each that is a whole number. Raises AccelsimError if one is none, or smaller.

    Examples
    --------
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


def library_of(stack: str) -> str:
    """Library of a stack's kernels, with a stroke before it as no stack has; empty if its name says none.

    Examples
    --------
    >>> library_of("VLLM/vllm_flash_attn_fa3"), library_of("VLLM/vllm_flashinfer_trtllmdecode"), library_of("NCCL")
    ('/FlashAttention', '/TensorRT-LLM', '')
    """
    kernel = stack.partition("/")[2].casefold()
    known = table_of("libraries").items()
    return next((f"/{library}" for library, parts in known if any(part in kernel for part in parts)), "")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Measured kernels of one kind, on one or more GPUs."""

    gpus: tuple[Gpu, ...]
    which: NDArray[np.int64]  # int[P]: index of the GPU
    stack: Names  # str[P]: software and kernel, such as `TRTLLM/torch_flow`
    shapes: Shapes
    time_us: Floats
    held: NDArray[np.bool_]  # bool[P]: by a hash of the shape, never fitted

    def __len__(self) -> int:
        return len(self.time_us)

    def take(self, rows: NDArray[Any]) -> Rows:
        """Some of the rows."""
        shapes = {name: values[rows] for name, values in self.shapes.items()}
        return Rows(self.gpus, self.which[rows], self.stack[rows], shapes, self.time_us[rows], self.held[rows])

    @property
    def families(self) -> Names:
        """Family of each row's GPU."""
        return np.array([family(gpu) for gpu in self.gpus])[self.which]


@dataclass(frozen=True, slots=True)
class FittedSet:
    """Constants of a kind, and what they were fitted to; empty names mean all of them."""

    stack: str
    variant: str
    family: str  # or a path (see `Kind`)
    gpus: tuple[str, ...]
    rows: int
    values: Mapping[str, float] = field(hash=False)

    @property
    def text(self) -> str:
        """What they were fitted to, in words."""
        stack = self.stack.removeprefix("/")
        kernels = f"{stack}{', ' if self.variant else ''}{self.variant}" if stack else "all stacks"
        return f"{self.rows} kernels of {kernels} on {', '.join(self.gpus)}"


@dataclass(frozen=True, slots=True)
class Fitted:
    """All constants of a kind."""

    sets: tuple[FittedSet, ...]

    def of(self, gpu: Gpu, stack: str | None = None, variant: str = "") -> FittedSet:
        """Constants for a stack and variant on a GPU: fitted to its family, or else to others.

        `stack`: a name as tables have it, or the software alone, such as `vllm`, of which the kernel counts that was
        measured most; by default, that of the stack that was measured most on the family. An empty name stands for all
        stacks together. Raises AccelsimError if there is no such stack.
        """
        own = [one for one in self.sets if one.stack.strip("/") == one.stack != ""]
        own = own if stack is None else self._of_stack(stack)
        near = {"": 1, operand_path(gpu): 2, link_of(gpu): 2, family(gpu): 3}
        if not own or (stack is None and all(one.family != family(gpu) for one in own)):
            own = [one for one in self.sets if not one.stack]
        return max(own, key=lambda one: (near.get(one.family, 0), one.variant == variant, not one.variant, one.rows))

    def _of_stack(self, stack: str) -> list[FittedSet]:
        if not stack:
            return []
        wanted = stack.casefold()
        found = [one for one in self.sets if wanted in (one.stack.casefold(), one.stack.casefold().partition("/")[0])]
        if not found:
            known = sorted({one.stack.partition("/")[0].lower() for one in self.sets} - {""})
            raise AccelsimError(f"no stack '{stack}' was measured; there are: {', '.join(known)}")
        return found

    def nearest(self, stack: str) -> str:
        """Return the stack itself, or its library, or an empty name for all, of which there are constants."""
        known = {one.stack for one in self.sets}
        return next((name for name in (stack, library_of(stack)) if name in known), "")


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
    label = how + "; ".join(dict.fromkeys(found.text for found in sets.values()))
    return KernelTimes(np.sum(list(times.values()), axis=0), times, label, known)


@cache
def _set_of(kind: str, gpu: Gpu, stack: str, variant: str) -> FittedSet:
    """Constants that ship, of the stack that was measured most if none is named."""
    return shipped(kind).of(gpu, stack or None, variant)


def predict(kind: OperatorKind, rows: Rows, fitted: Fitted) -> Floats:
    """Time of each row [us], with the constants of its stack, or where it was not measured of its library or all."""
    result, variants = np.full(len(rows), np.nan), kind.variant(rows.shapes)
    groups: dict[tuple[int, str, str], list[int]] = {}
    for at, key in enumerate(zip(rows.which.tolist(), rows.stack.tolist(), variants.tolist(), strict=True)):
        groups.setdefault(key, []).append(at)
    for (which, stack, variant), members in groups.items():
        here = np.array(members)
        values = fitted.of(rows.gpus[which], fitted.nearest(stack), variant).values
        result[here] = _timer(kind, rows.take(here))(values)
    return result


def _timer(kind: OperatorKind, rows: Rows) -> Callable[[Constants], Floats]:
    """Time of each row by the constants."""
    parts = []
    for which in np.unique(rows.which).tolist():
        at = np.flatnonzero(rows.which == which)
        parts.append((at, rows.gpus[which], {name: sizes[at] for name, sizes in rows.shapes.items()}))

    def times(values: Constants) -> Floats:
        result = np.empty(len(rows))
        for at, gpu, shapes in parts:
            result[at] = sum(kind.parts(gpu, shapes, values).values())
        return result

    return times


_MOST_ROWS = 600
_PRIOR_WEIGHT, _WIDE_PRIOR_WEIGHT = 1.0, 2.0
"""Weight of a constant's distance from the one that it is near, as that of one row: on logarithms. Constants that serve
GPUs of other families than those that they were fitted to stay nearer."""
_ITERATIONS = 12
FLOOR = "floor_us"
"""Constant of a least time; rows far from it say nothing of it, so that its fit begins where the fastest rows are."""
_FASTEST = 0.05
"""Share of the rows that are faster than that."""


def fit_sets(kind: OperatorKind, rows: Rows) -> Fitted:
    """Fit the constants of a kind to the rows that are not held out; sets of fewer than 40 rows are left out.

    Raises AccelsimError if SciPy is not installed, or there are too few rows.
    """
    rows = rows.take(~rows.held)
    if len(rows) < LEAST_ROWS:
        raise AccelsimError(f"{len(rows)} rows of {kind.name} may be fitted; {LEAST_ROWS} are needed")
    start = {name: one.start for name, one in kind.constants.items()}
    found: dict[tuple[str, str, str], FittedSet] = {}
    variants, families = kind.variant(rows.shapes), rows.families
    paths = np.array([kind.path(gpu) for gpu in rows.gpus])[rows.which]
    everything, possible = np.ones(len(rows), dtype=bool), _possible(kind, rows)

    def add(key: tuple[str, str, str], members: NDArray[np.bool_], *near: tuple[str, str, str]) -> None:
        """Fit a set near the first one of several that there is."""
        members = members if key[2] in families else members & possible
        if members.sum() < LEAST_ROWS:
            return
        prior = next((found[other].values for other in near if other in found), start)
        own = rows.take(members)
        gpus = tuple(rows.gpus[which].name for which in np.unique(own.which).tolist())
        weight = _PRIOR_WEIGHT if key[2] in families else _WIDE_PRIOR_WEIGHT
        found[key] = FittedSet(*key, gpus, len(own), _fit(kind, own, prior, weight))

    def levels(stack: str, variant: str, members: NDArray[np.bool_], wide: str) -> None:
        """Constants of all GPUs, and but for libraries of each path and of each family on it."""
        add((stack, variant, ""), members, (wide, "", ""))
        for places in (paths, families) if not stack.startswith("/") else ():
            for name in sorted(set(places[members].tolist()) - {""}):
                at = members & (places == name)
                wider = ((stack, variant, str(paths[at][0])), (stack, variant, ""))
                add((stack, variant, name), at, (stack, "", name), *(wider if stack or places is families else ()))

    levels("", "", everything, "")
    libraries = np.array([library_of(stack) for stack in rows.stack.tolist()])
    for library in sorted(set(libraries.tolist()) - {""}):
        levels(library, "", libraries == library, "")
        for variant in sorted(set(variants[libraries == library].tolist())):
            levels(library, variant, (libraries == library) & (variants == variant), library)
    for stack in sorted(set(rows.stack.tolist())):
        of_stack = rows.stack == stack
        kernels = sorted(set(variants[of_stack].tolist()))
        wide = library_of(stack)
        levels(stack, kernels[0] if len(kernels) == 1 else "", of_stack, wide if (wide, "", "") in found else "")
        for variant in kernels if len(kernels) > 1 else []:
            levels(stack, variant, of_stack & (variants == variant), stack)
    return Fitted(tuple(found.values()))


def _possible(kind: OperatorKind, rows: Rows) -> NDArray[np.bool_]:
    """Rows that take as long as their compulsory bytes, less what L2 holds, do at the bandwidth of the data sheet."""
    found = np.ones(len(rows), dtype=bool)
    for which, gpu in enumerate(rows.gpus) if kind.compulsory else ():
        at = np.flatnonzero(rows.which == which)
        _, moving_us = kind.least(gpu, {name: sizes[at] for name, sizes in rows.shapes.items()})
        found[at] = rows.time_us[at] >= moving_us - gpu.l2_bytes / gpu.dram_bytes_per_s * 1e6
    return found


def _fit(kind: OperatorKind, rows: Rows, prior: Constants, prior_weight: float) -> dict[str, float]:
    """Constants near others that suit rows; families of GPUs weigh alike, and of many rows every n-th counts."""
    names, counts = np.unique(rows.families, return_counts=True)
    sizes = dict(zip(names.tolist(), counts.tolist(), strict=True))
    order = np.argsort(rows.time_us, kind="stable")
    order = order[np.linspace(0, len(order) - 1, min(len(order), _MOST_ROWS * len(sizes))).astype(np.int64)]
    few = rows.take(order)
    weight = np.array([1 / np.sqrt(sizes[name]) for name in few.families.tolist()])
    weight /= weight.mean()
    if FLOOR in prior:
        prior = {**prior, FLOOR: float(np.quantile(few.time_us, _FASTEST))}
    near, times = np.log(list(prior.values())), _timer(kind, few)

    def residuals(values: Constants) -> Floats:
        errors = weight * np.log(times(values) / few.time_us)
        moved = prior_weight * (np.log([values[name] for name in prior]) - near)
        return np.concatenate([errors, moved])

    ranges = {name: (one.low, one.high) for name, one in kind.constants.items()}
    exact = fit_positive(residuals, dict(prior), ranges, iterations=_ITERATIONS)
    return {name: float(f"{value:.4g}") for name, value in exact.items()}


FILE = Path(__file__).with_name("kernels.json")


@cache
def _shipped() -> Mapping[str, Any]:
    kinds: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))["kinds"]
    return kinds


def sources(kind: str) -> Mapping[str, str]:
    """Table that the constants of a kind were fitted to: its file and SHA-256; nothing if none ship."""
    body = _shipped().get(kind, {})
    return {name: body[name] for name in ("table", "sha256") if name in body}


@cache
def shipped(kind: str) -> Fitted:
    """Constants of a kind that come with accelsim."""
    body = _shipped()[kind]
    sets: Iterable[Sequence[Any]] = body["sets"]
    return Fitted(
        tuple(
            FittedSet(stack, variant, of, tuple(gpus), rows, dict(zip(body["constants"], values, strict=True)))
            for stack, variant, of, gpus, rows, values in sets
        )
    )
