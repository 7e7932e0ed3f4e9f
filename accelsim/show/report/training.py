"""Reports on a training step: its parts, throughput, memory, and the operators by their groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from accelsim.gpu.catalogue import Gpu
from accelsim.gpu.training import TrainingStep
from accelsim.inputs.units import format_si
from accelsim.show.report import percent, share
from accelsim.show.table import Column, Piece, Table, bold, dim

_seconds, _bytes = partial(format_si, unit="s"), partial(format_si, unit="B")
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
