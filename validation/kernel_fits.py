"""Fit the constants of kernels whose code is not known to measured rows; rooflines and nearest rows beside them.

`accelsim.gpu.fitted` has the forms and takes the constants that ship. A row of a stack that was not measured takes
those of its library, or else of all. Arrays: P = kernels. Times are in us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.calibration import LEAST_ROWS, fit_positive
from accelsim.gpu.catalogue import Gpu, table_of
from accelsim.gpu.constants import Floats
from accelsim.gpu.fitted import (
    FILE,
    Constants,
    Fitted,
    FittedSet,
    Names,
    OperatorKind,
    Parts,
    Shapes,
    family,
    shipped_kinds,
)
from accelsim.inputs.errors import AccelsimError

_MOST_PAIRS = 4_000_000


def roofline_of(kind: OperatorKind) -> OperatorKind:
    """Three constants for the same operator: a launch, and shares of the peak and of the bandwidth."""

    def parts(gpu: Gpu, shapes: Shapes, constants: Constants) -> Parts:
        operations, moved = kind.least(gpu, shapes)
        longest = np.maximum(operations / constants["math"], moved / constants["memory"])
        return {"launch": np.full_like(longest, constants["launch_us"]), "roofline": longest}

    return OperatorKind(f"{kind.name}, roofline", parts, kind.least, kind.variant, kind.path)


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


def joined(several: Sequence[Rows]) -> Rows:
    """Rows of several tables of one kind as one."""
    gpus: dict[str, Gpu] = {gpu.name: gpu for rows in several for gpu in rows.gpus}
    order = list(gpus)
    which = [np.array([order.index(gpu.name) for gpu in rows.gpus])[rows.which] for rows in several]
    return Rows(
        tuple(gpus.values()),
        np.concatenate(which),
        np.concatenate([rows.stack for rows in several]),
        {name: np.concatenate([rows.shapes[name] for rows in several]) for name in several[0].shapes},
        np.concatenate([rows.time_us for rows in several]),
        np.concatenate([rows.held for rows in several]),
    )


def nearest_stack(fitted: Fitted, stack: str) -> str:
    """Return the stack itself, or its library, or an empty name for all, of which there are constants."""
    known = {one.stack for one in fitted.sets}
    return next((name for name in (stack, library_of(stack)) if name in known), "")


def predict(kind: OperatorKind, rows: Rows, fitted: Fitted) -> Floats:
    """Time of each row [us], with the constants of its stack, or where it was not measured of its library or all."""
    result, variants = np.full(len(rows), np.nan), kind.variant(rows.shapes)
    groups: dict[tuple[int, str, str], list[int]] = {}
    for at, key in enumerate(zip(rows.which.tolist(), rows.stack.tolist(), variants.tolist(), strict=True)):
        groups.setdefault(key, []).append(at)
    for (which, stack, variant), members in groups.items():
        here = np.array(members)
        values = fitted.of(rows.gpus[which], nearest_stack(fitted, stack), variant).values
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
GAIN = 1e-4
"""What a constant of its own must save: rows that are wrong by a factor of e, as a share of all rows of the kind."""
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
    gain = GAIN * len(rows)
    everything, possible = np.ones(len(rows), dtype=bool), _possible(kind, rows)

    def add(key: tuple[str, str, str], members: NDArray[np.bool_], *near: tuple[str, str, str]) -> None:
        """Fit a set near the first one of several that there is, from which few of its constants differ."""
        members = members if key[2] in families else members & possible
        if members.sum() < LEAST_ROWS:
            return
        wider = next((found[other] for other in near if other in found), None)
        own = rows.take(members)
        gpus = tuple(rows.gpus[which].name for which in np.unique(own.which).tolist())
        weight = _PRIOR_WEIGHT if key[2] in families else _WIDE_PRIOR_WEIGHT
        values = _fit(kind, own, wider.values if wider else start, weight, gain, every=wider is None)
        number = list(found.values()).index(wider) if wider else -1
        if wider and wider is found.get(key):  # of all variants, and now of those without a name
            number = wider.near
        found[key] = FittedSet(*key, gpus, len(own), values, number, ())

    def levels(stack: str, variant: str, members: NDArray[np.bool_], wide: str) -> None:
        """Constants of all GPUs, and but for libraries of each path and of each family on it."""
        add((stack, variant, ""), members, (wide, "", ""))
        for places in (paths, families) if not stack.startswith("/") else ():
            for name in sorted(set(places[members].tolist()) - {""}):
                at = members & (places == name)
                wider = ((stack, variant, str(paths[at][0])), (stack, variant, ""))
                add((stack, variant, name), at, (stack, "", name), *wider)

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
    every = list(found.values())
    return Fitted(tuple(replace(one, own=_own(one, every[one.near] if one.near >= 0 else None)) for one in every))


def _own(one: FittedSet, wider: FittedSet | None) -> tuple[str, ...]:
    """Constants that a wider set, which may have been fitted anew since, has not."""
    return tuple(name for name, value in one.values.items() if wider is None or wider.values[name] != value)


def _possible(kind: OperatorKind, rows: Rows) -> NDArray[np.bool_]:
    """Rows that take as long as their compulsory bytes, less what L2 holds, do at the bandwidth of the data sheet."""
    found = np.ones(len(rows), dtype=bool)
    for which, gpu in enumerate(rows.gpus) if kind.compulsory else ():
        at = np.flatnonzero(rows.which == which)
        _, moving_us = kind.least(gpu, {name: sizes[at] for name, sizes in rows.shapes.items()})
        found[at] = rows.time_us[at] >= moving_us - gpu.l2_bytes / gpu.dram_bytes_per_s * 1e6
    return found


def _fit(
    kind: OperatorKind, rows: Rows, prior: Constants, prior_weight: float, least_gain: float, *, every: bool
) -> dict[str, float]:
    """Constants near others that suit rows; families of GPUs weigh alike.

    Of many rows every n-th counts. All constants move together; then, unless `every`, those go back of which the fit
    needs least, until none does that costs less than the error of `least_gain` rows that are wrong by a factor of e.
    """
    names, counts = np.unique(rows.families, return_counts=True)
    sizes = dict(zip(names.tolist(), counts.tolist(), strict=True))
    order = np.argsort(rows.time_us, kind="stable")
    order = order[np.linspace(0, len(order) - 1, min(len(order), _MOST_ROWS * len(sizes))).astype(np.int64)]
    few = rows.take(order)
    weight = np.array([1 / np.sqrt(sizes[name]) for name in few.families.tolist()])
    weight /= weight.mean()
    times, ranges = _timer(kind, few), {name: (one.low, one.high) for name, one in kind.constants.items()}
    least = {FLOOR: float(np.quantile(few.time_us, _FASTEST))} if FLOOR in prior else {}

    def error(values: Constants) -> float:
        return float(np.mean(weight * np.abs(np.log(times(values) / few.time_us))))

    def moved(values: Constants, some: Sequence[str]) -> dict[str, float]:
        """Move some constants together."""
        near = np.log([prior[name] if name != FLOOR or not every else values[name] for name in some])

        def residuals(those: Constants) -> Floats:
            errors = weight * np.log(times({**values, **those}) / few.time_us)
            return np.concatenate([errors, prior_weight * (np.log([those[name] for name in some]) - near)])

        start, own = {name: values[name] for name in some}, {name: ranges[name] for name in some}
        exact = fit_positive(residuals, start, own, iterations=_ITERATIONS)
        return {**values, **{name: float(f"{value:.4g}") for name, value in exact.items()}}

    values = moved({**prior, **least}, list(prior))
    own, now = list(prior), error(values)
    while own and not every:
        after, name = min((error({**values, name: prior[name]}), name) for name in own)
        if (after - now) * len(rows) <= least_gain:
            own.remove(name)
            values, now = {**values, name: prior[name]}, after
            continue
        found = moved(values, own)
        if error(found) >= now:
            break
        values, now = found, error(found)
    return values


ROOFLINES = Path(__file__).with_name("rooflines.json")
"""Constants of rooflines, fitted as those that ship."""


def sources(kind: str, path: Path = FILE) -> Mapping[str, str]:
    """Table that the constants of a kind were fitted to: its file and SHA-256; nothing if none ship."""
    body = shipped_kinds(path).get(kind, {})
    return {name: body[name] for name in ("table", "sha256") if name in body}


def baselines(kind: OperatorKind, fitted: Rows, tested: Rows) -> dict[str, Floats]:
    """Predictions of rows by a roofline that is fitted to other rows, and by the nearest of these, scaled by it."""
    roofline = roofline_of(kind)
    bars = fit_sets(roofline, fitted)
    bar, near = predict(roofline, tested, bars), nearest(fitted, tested)
    return {"roofline": bar, "nearest": (fitted.time_us / predict(roofline, fitted, bars))[near] * bar}


def nearest(fitted: Rows, tested: Rows) -> NDArray[np.int64]:
    """Row with the nearest sizes, by the sum of their ratios' logarithms; of the same stack where there is one."""
    points = [np.stack([np.log2(sizes + 1) for sizes in rows.shapes.values()], axis=1) for rows in (fitted, tested)]
    result = np.zeros(len(tested), dtype=np.int64)
    for stack in set(tested.stack.tolist()):
        mine = np.flatnonzero(tested.stack == stack)
        theirs = np.flatnonzero(fitted.stack == stack)
        theirs = theirs if len(theirs) else np.arange(len(fitted))
        step = max(1, _MOST_PAIRS // len(theirs))
        for at in range(0, len(mine), step):
            part = mine[at : at + step]
            apart = np.abs(points[1][part][:, None, :] - points[0][theirs][None, :, :]).sum(axis=2)
            result[part] = theirs[apart.argmin(axis=1)]
    return result
