"""Reports on a decoder that serves sequences on GPUs, one split or a sweep with its front; and on a training step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from accelsim.gpu.catalogue import Gpu
from accelsim.gpu.collectives import MEASURED_GPUS
from accelsim.gpu.serving import OperatorTime, Request, Serving, front
from accelsim.gpu.steps import GROUPS
from accelsim.gpu.training import TrainingStep
from accelsim.inputs.units import format_si
from accelsim.show.report import percent, share
from accelsim.show.table import Column, Piece, Table, bold, dim

_MOST = 40
"""Points of a sweep from which only the front is shown."""

_seconds, _bytes = partial(format_si, unit="s"), partial(format_si, unit="B")


def _us(value: float) -> str:
    return format_si(value * 1e-6, "s") if value else ""


def serving_row(point: Serving) -> dict[str, Any]:
    """Point as a plain row."""
    more = {"gpus": point.split.gpus, "tokens_per_s_gpu": point.tokens_per_s_gpu, "fits": point.memory.fits}
    return asdict(point) | {"memory": {**point.memory.parts, "room": point.memory.room}} | more


def _operator(name: str, parts: Sequence[OperatorTime], point: Serving) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    for key in ("prompt_us", "token_us"):
        of, every = (sum(getattr(part, key) for part in some) for some in (parts, point.operators))
        found |= {key: of, f"{key}_share": of / every or None}
    return found


_OPERATORS = (
    Column("operator", "name"), Column("prefill", "prompt_us", _us), Column("%", "prompt_us_share", share),
    Column("decode", "token_us", _us), Column("%", "token_us_share", share),
)  # fmt: skip


def serving_report(model: str, gpu: str, request: Request, point: Serving, mode: str) -> Iterator[Piece]:
    """One split: times, rates, memory, energy, and the operators by their groups."""
    split, memory = point.split, point.memory
    known = f" ({request.prefix} cached)" if request.prefix else ""
    sequences = f"{split.batch} sequence{'s' if split.batch > 1 else ''}"
    tokens = f"{request.prompt} prompt{known} + {request.output} output tokens"
    yield bold(f"{model} on {split.gpus} x {gpu}, {request.precision}, {split.text}; {sequences}, {tokens}")
    first, note = _seconds(point.first_token_s), f"{point.running} sequences run at once; another arrives as one ends"
    if not request.in_flight and point.first_token_s > point.prompt_s:
        first = f"{_seconds(point.prompt_s)} to {first}"
        note = f"{split.batch} prompts arrive together, prefilled {point.step_sequences} at a time"
    lines = [
        ("TTFT", first, note),
        ("TPOT", _seconds(point.token_s), f"{1 / point.token_s:,.4g} tokens/s per sequence"),
        ("throughput", f"{point.tokens_per_s:,.0f} tokens/s", f"{point.tokens_per_s_gpu:,.0f} per GPU"),
        ("memory", f"{_bytes(memory.total)} of {_bytes(memory.room)}", f"per GPU: {memory.text}"),
        ("energy", f"{format_si(point.energy_j, 'J')}/token", f"prefill included; {point.power_w:.0f} W per GPU"),
        ("model", "GEMM", mode),
    ]
    wide = max(len(value) for _, value, _ in lines)
    yield from (f"{name:<12} {value:<{wide}}  {note}".rstrip() for name, value, note in lines)
    rows = [_operator(part.name, [part], point) for part in point.operators]
    groups = {group: [part for part in point.operators if part.group == group] for group in GROUPS}
    sums = [_operator(group, parts, point) for group, parts in groups.items() if parts]
    yield Table("operators", _OPERATORS, rows, "Time by operator", "a step with prompts | one without", below=sums)
    yield from _doubts([point])
    yield from _kernels(point)


_MEMORY = ("weights", "cache", "activations")


def _three(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


_POINTS = (
    *(Column(name, ("split", name)) for name in ("tp", "pp", "ep", "batch")),
    Column("TTFT\n[ms]", lambda row: 1e3 * row["first_token_s"], _three),
    Column("TPOT\n[ms]", lambda row: 1e3 * row["token_s"], _three),
    Column("tokens/s", "tokens_per_s", "{:,.0f}".format),
    Column("tokens/s\n/GPU", "tokens_per_s_gpu", "{:,.0f}".format),
    Column("mem\n[GB]", lambda row: 1e-9 * sum(row["memory"][name] for name in _MEMORY), _three),
    Column("mJ/\ntoken", lambda row: 1e3 * row["energy_j"], "{:,.0f}".format),
    Column("", "front", lambda on_it: "Pareto" if on_it else "", left=True),
)  # fmt: skip


def sweep_report(model: str, gpu: str, request: Request, points: Sequence[Serving], mode: str) -> Iterator[Piece]:
    """Points of a sweep that fit, or of many the front; then how many do not."""
    fitting = [point for point in points if point.memory.fits]
    best = front(fitting)
    rows = [{**serving_row(point), "front": point in best} for point in fitting]
    tokens = f"{request.prompt} prompt + {request.output} output tokens"
    yield bold(f"{model} on {gpu}, {request.precision}; {tokens}")
    yield f"GEMM: {mode}"
    yield ""
    many = len(rows) > _MOST
    yield Table("points", _POINTS, rows, shown=[row for row in rows if row["front"]] if many else None)
    more = len(points) - len(fitting)
    shown = f"{len(best)} of {len(fitting)} points Pareto-optimal in tokens/s/GPU and TPOT{', only these shown' * many}"
    yield f"\n{shown}" + (f"; {more} more do not fit in memory" if more else "")
    yield from _doubts(fitting)
    yield from _kernels(points[0])


_COSTS = {
    "token_s": ("TPOT [ms]", 1e-3),
    "tokens_per_s_gpu": ("output tokens/s/GPU", 1.0),
    "first_token_s": ("TTFT [s]", 1.0),
    "tokens_per_s": ("output tokens/s", 1.0),
    "energy_j": ("energy per output token [J]", 1.0),
    "memory_bytes": ("memory per GPU [GB]", 1e9),
}
"""What a page draws against each other: label and unit."""


def serving_page(model: str, gpu: str, request: Request, points: Sequence[Serving], mode: str) -> str:
    """Write a page of a sweep to explore: two costs of the points that fit, and their splits and costs as lines."""
    from accelsim.show import html

    fitting = [point for point in points if point.memory.fits]
    best = front(fitting)
    values = {name: sorted({getattr(point.split, name) for point in fitting}) for name in ("tp", "pp", "ep", "batch")}
    varied = {name: found for name, found in values.items() if len(found) > 1}
    designs, rows = [], []
    for number, point in enumerate(fitting, 1):
        row = serving_row(point) | {"memory_bytes": point.memory.total, "design": number, "front": point in best}
        rows.append(row)
        places = [found.index(getattr(point.split, name)) for name, found in varied.items()]
        status = "front" if row["front"] else "mapped"
        designs.append([number, status, places, [float(f"{row[name]:.7g}") for name in _COSTS]])
    data = {
        "parameters": [{"name": name, "values": [str(value) for value in found]} for name, found in varied.items()],
        "costs": [{"name": name, "label": label, "scale": scale} for name, (label, scale) in _COSTS.items()],
        "objectives": list(_COSTS)[:3],
        **{"across": "token_s", "up": "tokens_per_s_gpu", "designs": designs, "flags": True},
    }
    shown = html.table("points that fit in memory", Table("points", (Column("design", "design"), *_POINTS), rows))
    sections = html.sweep_frames(varied, "one way to serve") + html.section("designs", "Points", shown)
    lead = str(next(sweep_report(model, gpu, request, points, mode)))
    return html.page(f"{model} on {gpu}", lead, sections, data, "explore.js")


def _doubts(points: Sequence[Serving]) -> Iterator[Piece]:
    if any(max(point.split.tp, point.split.ep, 2 * (point.split.pp > 1)) > MEASURED_GPUS for point in points):
        known = f"collectives were measured up to {MEASURED_GPUS} GPUs, of one node"
        yield dim(f"{known}; more, and other nodes, take longer")


def _kernels(found: Serving) -> Iterator[Piece]:
    """Whose kernels were timed."""
    yield from (dim(f"{kind}: {label}") for kind, label in sorted(found.kernels.items()))


_PARTS = (Column("part", "name"), Column("time", "time_s", _seconds), Column("%", "share", share))


def training_row(step: TrainingStep) -> dict[str, Any]:
    """Step as a plain row."""
    more = {"step_s": step.step_s, "samples_per_s": step.samples_per_s, "gpus": step.plan.gpus}
    more["tokens_per_s"] = step.samples_per_s * step.plan.tokens
    return asdict(step) | {"memory": {**step.memory.parts, "room": step.memory.room}} | more


def training_report(
    model: str, gpu: str, number_format: str, step: TrainingStep, mode: str, *, decoder: bool
) -> Iterator[Piece]:
    """A step: throughput, memory and energy, what its time is made of, and the operators of a micro-batch."""
    plan, memory, each = step.plan, step.memory, "sequences" if decoder else "samples"
    split = f"dp {plan.dp} tp {plan.tp} pp {plan.pp}{f' ZeRO {plan.zero}' if plan.zero else ''}"
    yield bold(f"{model} on {plan.gpus} x {gpu}, {number_format}, {split}; {plan.batch} {each}, {plan.micro} at once")
    rate = f"{step.samples_per_s:,.4g} {each}/s"
    tokens = f"{step.samples_per_s * plan.tokens / plan.gpus:,.0f} tokens/s/GPU, " if decoder else ""
    lines = [
        ("step", _seconds(step.step_s), f"{tokens}{percent(step.utilization)} of the peak"),
        ("throughput", rate, f"{step.samples_per_s / plan.gpus:,.4g} per GPU"),
        ("memory", f"{_bytes(memory.total)} of {_bytes(memory.room)}", f"per GPU: {memory.text}"),
        ("energy", format_si(step.energy_j, "J"), f"{step.energy_j / step.step_s / plan.gpus:.0f} W per GPU"),
        ("clock", percent(step.clock), "of that of the peak, by the power limit"),
        ("model", "GEMM", mode),
    ]
    wide = max(len(value) for _, value, _ in lines)
    yield from (f"{name:<12} {value:<{wide}}  {note}".rstrip() for name, value, note in lines)
    for title, times in (("Step", step.parts_s), ("One micro-batch, both passes", step.groups_s)):
        rows = [{"name": name, "time_s": value, "share": value / sum(times.values())} for name, value in times.items()]
        yield Table(title.partition(",")[0].lower().replace(" ", "_"), _PARTS, rows, title)
    yield from (dim(f"{kind}: {text}") for kind, text in step.kernels.items())


def refusal(model: str, gpu: Gpu, step: TrainingStep) -> str:
    """Say that memory has no room for a step, and what needs less."""
    plan, need = step.plan, step.memory
    hints = [f"--zero {stage}" for stage in range(plan.zero + 1, 4) if plan.dp > 1][-1:]
    hints += [] if plan.recompute else ["--recompute"]
    hints += ["a smaller --micro"] if plan.micro > 1 else []
    return (
        f"{model} on {plan.gpus} x {gpu.name}: {_bytes(need.total)} are needed on a GPU ({need.text}), and "
        f"{_bytes(need.room)} are there; {', '.join([*hints, 'more --tp or --pp'])} need less"
    )
