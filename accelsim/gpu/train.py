"""A training step of a decoder on many GPUs: both gradients, optimizer, gradients summed over copies, memory of states.

Layers lie on GPUs as in `serve` (`tp`, `pp`, `ep`); `dp` copies of all that have each its part of the batch, which goes
through in micro-batches, one forward and one backward in turn (1F1B, Narayanan et al., SC 2021). Sizes are in words,
times in us, memory in bytes, energy in J.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from accelsim.gpu.attention import HEAD, ROTARY
from accelsim.gpu.calibration import Mode
from accelsim.gpu.catalogue import Gpu
from accelsim.gpu.collectives import OPERATIONS
from accelsim.gpu.constants import IDLE
from accelsim.gpu.decoder import Decoder
from accelsim.gpu.memory import Memory
from accelsim.gpu.quantised import multiplied_in, precision_of, precisions
from accelsim.gpu.serve import (
    GROUPS,
    LOGIT,
    ROOM,
    Operator,
    Request,
    Split,
    Step,
    layer_words,
    memory_of,
    misfit,
    stages,
    steps_of,
    timed,
)
from accelsim.gpu.work import WIDE, Prices, Pricing, Work
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import format_si

SHARDED = ("none", "optimizer", "gradients", "weights")
"""What copies share out among them: stages 0 to 3 of ZeRO (Rajbhandari et al., SC 2020)."""
_WEIGHTS, _GRADIENTS, _OPTIMIZER = 2.0, 2.0, 12.0
"""Bytes for each parameter: BF16 weights and gradients; FP32 weights and two moments of Adam (ZeRO, section 3.1)."""
_UPDATE = 28.0
"""Bytes that Adam moves for each: reads gradient and states, writes states and weights."""
_ATTENTION_BACKWARD = 2.5
"""Products of attention in its backward pass over those forward: five and two (FlashAttention-2, section 2)."""
_ELEMENTWISE_BACKWARD = 1.5
"""Words that move backward over those forward: the gradient is read beside what the forward pass read."""
NODE = 8
"""GPUs of a node, which NVLink joins."""


@dataclass(frozen=True, slots=True)
class Training:
    """A step: sequences in all and of each micro-batch, their tokens, copies, what is sharded, recomputed, overlapped.

    `network_bytes_per_s` is what a GPU sends to other nodes: by default a port of 400 Gb/s, as a DGX H100 has eight for
    its eight GPUs (NVIDIA DGX H100 data sheet, from memory).
    """

    batch: int
    sequence: int
    micro: int
    dp: int
    sharded: str = SHARDED[0]
    recompute: bool = False
    overlap: bool = True
    network_bytes_per_s: float = 50e9
    precision: str = "bf16"
    skew: float = 0.0


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """What a step takes."""

    split: Split
    training: Training
    memory: Memory
    step_s: float  # all of it
    # `forward` and `backward` of the longest stage, all micro-batches; `bubble`, where stages wait at begin and end;
    # `gradients`, what of their sum backward does not hide; `optimizer`
    parts_s: Mapping[str, float]
    summed_s: float  # the sum of gradients over copies, hidden or not
    groups_s: Mapping[str, float]  # forward and backward of a micro-batch through all stages, by `GROUPS` of operators
    tokens_per_s: float
    utilization: float  # operations of the model, none twice, of the peak of all GPUs in the format of the products
    energy_j: float
    kernels: Mapping[str, str]  # by kind, the stack whose it is and the GPUs that its constants were fitted to

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.split.gpus * self.training.dp


def misfit_of(decoder: Decoder, split: Split, training: Training) -> str:
    """Why a decoder cannot be trained so; nothing if it can."""
    each = training.micro * training.dp * split.copies
    if training.batch % each:
        return f"--batch {training.batch} is no multiple of {each}, the sequences of a micro-batch of all copies"
    return misfit(decoder, split)


def train(
    gpu: Gpu, decoder: Decoder, plans: Sequence[tuple[Split, Training]], mode: Mode, stack: str = ""
) -> tuple[TrainingStep, ...]:
    """What a step of each plan takes, whether its memory suffices or not.

    Raises AccelsimError if a decoder cannot be split so; all plans have one sequence length, precision and skew.
    """
    steps = []
    for split, training in plans:
        if why := misfit_of(decoder, split, training):
            raise AccelsimError(f"{decoder.name}: {why}")
        forward = forward_step(decoder, split, training)
        backward = {place: list(_backward(operators)) for place, operators in forward.items()}
        if training.recompute:
            backward = {at: [*forward[at], *each] if at in _LAYERS else each for at, each in backward.items()}
        steps.append((forward, backward, _ends(gpu, decoder, split, training)))
    of_steps = (place for both in steps for step in both for place in step.values())
    every = dict.fromkeys(each.work for place in of_steps for each in place)
    one = plans[0][1]
    pricing = Pricing(gpu, decoder, mode, stack, one.precision, WIDE, one.skew)
    costs, pairs = pricing.costs(every), zip(plans, steps, strict=True)
    return tuple(_step(gpu, decoder, *plan, *step, costs, pricing.kernels) for plan, step in pairs)


_LAYERS = ("dense", "sparse")


def forward_step(decoder: Decoder, split: Split, training: Training) -> Step:
    """Operators of the forward pass of a micro-batch: those of a prompt, with the logits and loss of every token."""
    request = Request(training.sequence, 1, training.precision, skew=training.skew)
    step = dict(steps_of(decoder, request, split, training.micro, prompts=True))
    tokens, own = training.micro * training.sequence, math.ceil(decoder.vocabulary / split.tp)
    last = [
        Operator("output layer", "products", Work("product", (tokens, own, decoder.hidden, 1))),
        Operator("loss", "element-wise", Work("move", (2 * LOGIT / WIDE * tokens * own,))),
    ]
    if split.tp > 1:
        largest = Work("collective", (OPERATIONS.index("all_reduce"), split.tp, math.ceil(LOGIT * tokens)))
        last.append(Operator("all_reduce", "collectives", largest, 2))
    return {**step, "last": last}


def _backward(operators: Sequence[Operator]) -> Iterator[Operator]:
    """Operators of the backward pass: of each product the gradients of inputs and weights."""
    for each in operators:
        kind, sizes = each.work.kind, each.work.sizes
        if kind in ("product", "narrow product"):
            m, n, k, many = sizes
            yield replace(each, work=Work(kind, (m, k, n, many)))
            yield replace(each, work=Work(kind, (n, k, m, many)))
        elif kind == "move":
            yield replace(each, work=Work(kind, (_ELEMENTWISE_BACKWARD * sizes[0],)))
        else:
            times = {"attention": _ATTENTION_BACKWARD, "experts": 2.0}.get(kind, 1.0)
            yield replace(each, count=times * each.count)


def _parameters(gpu: Gpu, decoder: Decoder, split: Split) -> float:
    """Parameters of the fullest GPU."""
    return memory_of(gpu, decoder, Request(1, 1), replace(split, batch=1)).weights / WIDE


def _shares(training: Training) -> tuple[float, float, float]:
    """Shares of weights, gradients and optimizer states that a copy holds."""
    stage, own = SHARDED.index(training.sharded), 1 / training.dp
    return own if stage > 2 else 1.0, own if stage > 1 else 1.0, own if stage > 0 else 1.0


def states_of(gpu: Gpu, decoder: Decoder, split: Split, training: Training) -> Memory:
    """Memory of the fullest GPU: states of its parameters; what backward reads of the micro-batches in flight.

    The first stage has as many of these in flight as there are stages. With recomputation each layer keeps its input
    alone, and one layer all.
    """
    weights, gradients, optimizer = _shares(training)
    parameters, tokens = _parameters(gpu, decoder, split), training.micro * training.sequence
    layers = stages(decoder, split)[0]
    kept = layer_words(decoder, split)
    own = (layers * decoder.hidden + kept) if training.recompute else layers * kept
    flying = min(split.pp, training.batch // (training.micro * training.dp * split.copies))
    activations = WIDE * tokens * own * flying
    if split.pp == 1:
        activations += 2 * LOGIT * tokens * math.ceil(decoder.vocabulary / split.tp)
    return Memory(
        weights=parameters * _WEIGHTS * weights,
        gradients=parameters * _GRADIENTS * gradients,
        optimizer=parameters * _OPTIMIZER * optimizer,
        activations=activations,
        room=ROOM * gpu.memory_bytes,
    )


def _ends(gpu: Gpu, decoder: Decoder, split: Split, training: Training) -> Step:
    """What a GPU does once in a step: the update, and within a node the sum of gradients."""
    parameters = _parameters(gpu, decoder, split)
    updated = parameters * _shares(training)[2] * _UPDATE / WIDE
    ends = {"optimizer": [Operator("optimizer", "element-wise", Work("move", (updated,)))]}
    if training.dp > 1 and split.gpus * training.dp <= NODE:
        summed = Work("collective", (OPERATIONS.index("all_reduce"), training.dp, math.ceil(_GRADIENTS * parameters)))
        ends["gradients"] = [Operator("gradients", "collectives", summed)]
    return ends


def _summed_us(gpu: Gpu, decoder: Decoder, split: Split, training: Training, ends: Step, costs: Prices) -> float:
    """Sum of gradients over copies: in a node as NCCL does it, else a ring at the network's rate.

    Sharded weights are gathered once more.
    """
    if training.dp == 1:
        return 0.0
    more = 1.5 if training.sharded == SHARDED[3] else 1.0
    if "gradients" in ends:
        return more * costs[ends["gradients"][0].work][0]
    sent = 2 * (training.dp - 1) / training.dp * _GRADIENTS * _parameters(gpu, decoder, split)
    return more * sent / training.network_bytes_per_s * 1e6


def _step(
    gpu: Gpu,
    decoder: Decoder,
    split: Split,
    training: Training,
    forward: Step,
    backward: Step,
    ends: Step,
    costs: Prices,
    kernels: Mapping[str, str],
) -> TrainingStep:
    runs = training.batch // (training.micro * training.dp * split.copies)
    there, back = (timed(decoder, split, runs, step, costs) for step in (forward, backward))
    both = [one + other for one, other in zip(there.stages, back.stages, strict=True)]
    longest = max(range(split.pp), key=lambda stage: both[stage])
    summed = _summed_us(gpu, decoder, split, training, ends, costs)
    hidden = back.stages[longest] * (1 - 1 / decoder.layers) if training.overlap else 0.0
    update, update_j = costs[ends["optimizer"][0].work]
    parts = {
        "forward": runs * there.stages[longest],
        "backward": runs * back.stages[longest],
        "bubble": (split.pp - 1) * both[longest],
        "gradients": max(0.0, summed - hidden),
        "optimizer": update,
    }
    step_us = sum(parts.values())
    groups = {
        group: sum(us for one in (there, back) for (_, own), us in one.operators.items() if own == group)
        for group in GROUPS
    }
    tokens = training.batch * training.sequence
    busy_us = runs * sum(both) + split.pp * update
    energy = runs * (there.energy_j + back.energy_j) + split.pp * update_j
    energy += max(0.0, split.pp * step_us - busy_us) * 1e-6 * IDLE * gpu.tdp_w
    gpus = split.gpus * training.dp
    flops = 3 * tokens * flops_of(decoder, training.sequence)
    number_format = multiplied_in(gpu, precisions()[precision_of(training.precision)])
    return TrainingStep(
        split=split,
        training=training,
        memory=states_of(gpu, decoder, split, training),
        step_s=step_us * 1e-6,
        parts_s={name: us * 1e-6 for name, us in parts.items()},
        summed_s=summed * 1e-6,
        groups_s={name: us * 1e-6 for name, us in groups.items() if us},
        tokens_per_s=tokens / step_us * 1e6,
        utilization=flops / (step_us * 1e-6 * gpus * gpu.flops(number_format)),
        energy_j=energy * gpus / split.pp,
        kernels=kernels,
    )


def flops_of(decoder: Decoder, sequence: int) -> float:
    """Operations of the forward pass for a token of a sequence: two of each weight that it meets, and causal attention.

    Examples
    --------
    Llama 3 8B has 7.5e9 parameters beside its embedding; attention adds 2 x 32 layers x 4096 x 4097.

    >>> from accelsim.gpu.decoder import load_decoder
    >>> f"{flops_of(load_decoder('llama'), 4096):.3e}"
    '1.608e+10'
    """
    step = forward_step(decoder, Split(1), Training(1, sequence, 1, 1))
    total, experts = 0.0, decoder.experts
    for place, many in (
        ("dense", decoder.dense_layers),
        ("sparse", decoder.layers - decoder.dense_layers),
        ("last", 1),
    ):
        for each in step[place] if many else []:
            if each.work.kind == "product":
                total += many * each.count * 2 * math.prod(each.work.sizes)
            elif each.work.kind == "attention":
                width = 2 * HEAD + ROTARY if decoder.latent else 2 * decoder.head_size
                total += many * decoder.heads * width * sequence * (sequence + 1)
            elif each.work.kind == "experts" and experts:
                total += many * 2 * sequence * experts.top * (2 + decoder.gated) * decoder.hidden * experts.inter
    return total / sequence


def lacking(gpu: Gpu, decoder: Decoder, step: TrainingStep) -> str:
    """Say that memory has no room for a step, and what fits."""
    need, training = step.memory, step.training
    hints = []
    for name, changed in (
        *((f"--shard {what}", replace(training, sharded=what)) for what in SHARDED[1:] if training.dp > 1),
        ("--recompute", replace(training, recompute=True)),
        ("--shard weights --recompute", replace(training, sharded=SHARDED[3], recompute=True)),
    ):
        if states_of(gpu, decoder, step.split, changed).fits:
            hints.append(name)
    wider = (replace(step.split, tp=tp) for tp in range(step.split.tp + 1, NODE + 1))
    fits = (at for at in wider if not misfit(decoder, at) and states_of(gpu, decoder, at, training).fits)
    hints += [f"--tp {at.tp}" for at in itertools.islice(fits, 1)]
    return (
        f"{decoder.name} on {step.gpus} x {gpu.name} ({step.split.text} dp {training.dp}): "
        f"{format_si(need.total, 'B')} are needed on a GPU ({need.text}), and {format_si(need.room, 'B')} are there; "
        f"{'it fits with ' + ' or '.join(hints[:3]) if hints else 'more --tp and --pp are needed'}"
    )
