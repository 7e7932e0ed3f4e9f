"""A training step: forward, gradients of inputs and weights, optimizer, and the sum of gradients over copies.

A decoder lies on `tp` x `pp` GPUs as in `serving`, a network of convolutions on one; `dp` copies have each its part of
the batch, which goes through in micro-batches, one forward and one backward in turn (1F1B, Narayanan et al., SC 2021).
Weights, gradients and optimizer are in FP32, products in `number_format`, as in PyTorch's mixed precision. Launches by
the host are not counted.

`training.yaml` has the constants. Sizes are in words, times in us, memory in bytes, energy in J.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.gpu.calibration import Mode
from accelsim.gpu.catalogue import BYTES, Gpu, read_tables
from accelsim.gpu.collectives import collective_shapes, time_collective
from accelsim.gpu.constants import IDLE, Floats, board_power_w, sustained_hz
from accelsim.gpu.decoder import Decoder
from accelsim.gpu.gemms import Setup, time_gemms
from accelsim.gpu.network import Memory, gemms_of, products_of
from accelsim.gpu.network import memory_of as network_memory
from accelsim.gpu.serving import ROOM, Request
from accelsim.gpu.serving import memory_of as serving_memory
from accelsim.gpu.steps import GROUPS, Split, stages
from accelsim.gpu.training_layers import TrainingKernel, TrainingLayer, TrainingPlan, layers_of, misfit_of
from accelsim.gpu.work import WIDE, Pricing
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Workload

_FACTS = read_tables("training")
OPTIMIZERS: Mapping[str, Sequence[float]] = _FACTS["optimizers"]
_MASTER = 4.0
"""Bytes of a weight, and of a gradient."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """What a step takes.

    `parts_s`: passes of all micro-batches in the longest stage, `bubble`, where stages wait, `collectives`, what of
    those between copies the passes do not hide, and `optimizer`. `groups_s`: both passes of a micro-batch through all
    stages. `clock`: share of that of the peak which the power limit leaves. `utilization`: operations of the model,
    none twice, of the peak of all GPUs. `kernels`: by kind, whose measured kernels its constants were fitted to.
    """

    plan: TrainingPlan
    memory: Memory
    parts_s: Mapping[str, float]
    groups_s: Mapping[str, float]
    clock: float
    utilization: float
    energy_j: float
    kernels: Mapping[str, str]

    @property
    def step_s(self) -> float:
        """All of it."""
        return sum(self.parts_s.values())

    @property
    def samples_per_s(self) -> float:
        """Sequences or images of all GPUs."""
        return self.plan.batch / self.step_s


def _costs(
    gpu: Gpu, kernels: Sequence[TrainingKernel], pricing: Pricing | None, number_format: str, mode: Mode
) -> dict[TrainingKernel, Floats]:
    """Of each kernel: time [us], that part of it which the clock sets, operations, bytes of DRAM and of L2."""
    found: dict[TrainingKernel, Floats] = {}
    for layout in dict.fromkeys(each.layout for each in kernels if each.gemm):
        own = {each: each.gemm for each in kernels if each.gemm and each.layout == layout}
        gemms = gemms_of(list(own.values()))
        times = time_gemms(gpu, gemms, number_format, mode.constants, Setup(layout=layout))
        clocked = np.maximum(times.parts["tensor"], times.parts["stream"])
        rows = np.stack([times.time_us, clocked, gemms.flops, times.dram_bytes, times.l2_bytes], axis=1)
        found |= dict(zip(own, rows, strict=True))
    prices = pricing.costs(dict.fromkeys(each.work for each in kernels if each.work)) if pricing else {}
    for each in kernels:
        if each.work:
            us = prices[each.work][0]
            found[each] = np.array([us, us if each.group in ("attention", "MoE") else 0.0, 0.0, 0.0, 0.0])
        elif not each.gemm:
            moved = max(BYTES[number_format], WIDE) * each.words
            us = mode.constants.launch_us + mode.constants.latency_us + moved / _moved_per_us(gpu)
            found[each] = np.array([us, 0.0, 0.0, moved, moved])
    return found


def _moved_per_us(gpu: Gpu) -> float:
    return gpu.dram_bytes_per_s * 1e-6 * float(_FACTS["dram_share"])


def between(gpu: Gpu, operation: str, size: float, plan: TrainingPlan) -> float:
    """Time [us] of a collective of all copies: in a node as NCCL is measured, beyond by a ring or a tree.

    All GPUs of a node send to others at once. A ring has as many steps as nodes, a tree as levels of them.
    """
    if plan.dp < 2:
        return 0.0
    if plan.gpus <= _FACTS["node"]:
        return float(time_collective(gpu, collective_shapes(operation, plan.dp, math.ceil(size))).time_us[0])
    network, nodes = _FACTS["node"] * plan.network_bytes_per_s, math.ceil(plan.gpus / _FACTS["node"])
    rate = min(network, gpu.nvlink_bytes_per_s / 2 or network) * 1e-6
    ring = (plan.dp - 1) / plan.dp * size / rate + (nodes - 1) * _FACTS["hop_us"]
    tree = size / rate + math.ceil(math.log2(nodes)) * _FACTS["hop_us"]
    return float(2 * min(ring, tree) if operation == "all_reduce" else ring)


def memory_of(
    gpu: Gpu, layers: Sequence[TrainingLayer], parameters: float, plan: TrainingPlan, number_format: str
) -> Memory:
    """Memory of the fullest GPU: states of its parameters, and what the backward pass reads of micro-batches in flight.

    The first stage has as many of these in flight as there are stages. With recomputation each layer keeps its input
    alone, and one layer all.
    """
    weights, gradients, optimizer = (parameters / (plan.dp if plan.zero >= stage else 1) for stage in (3, 2, 1))
    width = max(BYTES[number_format], WIDE)
    each = [(layer.inputs if plan.recompute else layer.kept) * math.ceil(layer.times / plan.pp) for layer in layers]
    kept = sum(each) * min(plan.pp, plan.runs) + plan.recompute * max(layer.kept for layer in layers)
    return Memory(
        weights=weights * (_MASTER + width * (width < _MASTER)),
        gradients=gradients * _MASTER,
        optimizer=optimizer * OPTIMIZERS[plan.optimizer][0],
        activations=width * kept,
        room=ROOM * gpu.memory_bytes,
    )


def train(gpu: Gpu, model: Decoder | Workload, plan: TrainingPlan, mode: Mode, number_format: str) -> TrainingStep:
    """What a step takes, whether its memory suffices or not; the batch of a network is that of a micro-batch.

    Raises AccelsimError if the model cannot be split so.
    """
    if why := misfit_of(model, plan):
        raise AccelsimError(f"{model.name}: {why}")
    layers = layers_of(model, plan, turned=plan.layout == "nchw" and number_format in gpu.mma)
    pricing, many = None, [1]
    if isinstance(model, Decoder):
        pricing, split = Pricing(gpu, model, mode, "bf16", WIDE, 0.0), Split(1, plan.tp, plan.pp)
        parameters = serving_memory(gpu, model, Request(1, 1), split).weights / WIDE
        many = stages(model, split)
    else:
        parameters = network_memory(gpu, products_of(model)[0], "fp32").weights / BYTES["fp32"]
    every = dict.fromkeys(kernel for layer in layers for side in layer.passes for kernel in side)
    costs = _costs(gpu, list(every), pricing, number_format, mode)

    def passed(stage: int) -> tuple[Floats, Floats]:
        """Sum up both passes of a micro-batch in a stage."""
        shares = {"": many[stage] / sum(many), "first": stage == 0, "last": stage == plan.pp - 1, "send": 1.0}
        rows = ([(shares[layer.end] * layer.times, layer.passes[side]) for layer in layers] for side in (0, 1))
        forward, backward = (
            np.sum([share * each.times * costs[each] for share, kernels in row for each in kernels], axis=0)
            for row in rows
        )
        return forward, backward

    forward, backward = max(map(passed, range(plan.pp)), key=lambda both: float(both[0][0] + both[1][0]))
    again = forward * plan.recompute
    us, _, flops, dram, l2 = forward + backward + again
    hz = sustained_hz(gpu, number_format, mode.constants, (flops, dram, us, l2))
    clock = min(1.0, hz / gpu.clock_hz(number_format))
    passes = {"forward": forward, "backward": backward, "recomputation": again}
    parts = {name: plan.runs * float(us + slow * (1 / clock - 1)) for name, (us, slow, *_) in passes.items()}
    width, rate = max(BYTES[number_format], WIDE), _moved_per_us(gpu)
    weights, gradients, updated = (parameters / (plan.dp if plan.zero >= stage else 1) for stage in (3, 2, 1))
    parts["forward"] += plan.runs * (_MASTER + width) * weights / rate * (width < _MASTER)  # copies of weights
    parts["backward"] += plan.runs * 2 * _MASTER * gradients / rate * (plan.runs > 1)  # gradients are added up
    busy_us = sum(parts.values())
    parts["bubble"] = (plan.pp - 1) * busy_us / plan.runs
    parts["collectives"] = _waited(
        gpu, parameters, parts, plan, width, sum(layer.times for layer in layers if layer.inputs)
    )
    parts["optimizer"] = updated * OPTIMIZERS[plan.optimizer][1] / rate
    groups = dict.fromkeys(GROUPS, 0.0)
    for layer in layers:
        for kernel in (*layer.passes[0], *layer.passes[1]):
            groups[kernel.group] += layer.times * kernel.times * float(costs[kernel][0]) * 1e-6
    step_s, power_w = sum(parts.values()) * 1e-6, board_power_w(gpu, number_format, mode.constants, flops, dram, us, l2)
    wanted = 3 * plan.runs * plan.dp * plan.tp * sum(layer.times * layer.flops for layer in layers)
    return TrainingStep(
        plan=plan,
        memory=memory_of(gpu, layers, parameters, plan, number_format),
        parts_s={name: value * 1e-6 for name, value in parts.items() if value},
        groups_s={name: value for name, value in groups.items() if value},
        clock=clock,
        utilization=wanted / (step_s * plan.gpus * gpu.flops(number_format)),
        energy_j=plan.gpus * (busy_us * 1e-6 * power_w + (step_s - busy_us * 1e-6) * IDLE * gpu.tdp_w),
        kernels=pricing.kernels if pricing else {},
    )


def _waited(
    gpu: Gpu, parameters: float, parts: Mapping[str, float], plan: TrainingPlan, width: float, layers: float
) -> float:
    """Time [us] of collectives of copies that the passes do not hide: at least those of one layer.

    Gradients are summed while the backward pass runs, once a step, or of ZeRO 3 for each micro-batch. This gathers
    weights of the next layer while the forward pass runs, and again, hidden by nothing, before the backward pass of a
    layer (BACKWARD_POST of PyTorch's FSDP).
    """
    gathered = between(gpu, "all_gather", width * parameters, plan) * (plan.zero > 0)
    summed = between(gpu, "reduce_scatter" if plan.zero else "all_reduce", _MASTER * parameters, plan)

    def shown(collective: float, *over: str) -> float:
        run = sum(parts[name] for name in over) / plan.runs
        return max(collective / layers, collective - run * (1 - 1 / layers))

    waited = gathered + shown(summed, "backward", "recomputation")
    return plan.runs * (waited + shown(gathered, "forward")) if plan.zero == 3 else waited
