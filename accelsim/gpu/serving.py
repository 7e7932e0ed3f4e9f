"""A decoder that serves sequences on several GPUs: time to first token, time per output token, memory, energy.

Requests arrive in flight: as many are there at any time, and another prompt comes as soon as one has its last token.
So prompts go through while other sequences decode, in parts of at most `step_tokens`, and hold these up. Or all prompts
arrive together, go through in steps of whole prompts, and then decode.

Work is counted for one GPU of a stage. Sizes are in words, times in us, memory in bytes, energy in J.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from accelsim.gpu.calibration import Mode
from accelsim.gpu.catalogue import Gpu
from accelsim.gpu.constants import IDLE
from accelsim.gpu.decoder import Decoder
from accelsim.gpu.network import Memory
from accelsim.gpu.quantised import precision_of, precisions
from accelsim.gpu.steps import (
    GROUPS,
    LOGIT,
    Product,
    Split,
    Step,
    StepLoad,
    attention_products,
    cache_words,
    linear_products,
    misfit,
    network,
    places,
    product_precision,
    shared_width,
    state_words,
    steps_of,
)
from accelsim.gpu.work import WIDE, Prices, Pricing
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import format_si, listed, near_miss

ROOM = 0.9
"""Share of the memory that a stack fills (`gpu_memory_utilization` of vLLM); the rest is for the driver and graphs."""
STEP_TOKENS = 8192
"""Prompt tokens of a step, at most (`max_num_batched_tokens` of vLLM's server on large GPUs)."""
GAPS_US = {"trtllm": 0.0, "vllm": 1.6, "sglang": 1.7}
"""Time between two kernels of a step of a stack beyond that in the loops of one kernel that were measured [us].

Medians over runs of B200 and B300 with at most 16 sequences, 0 where these are below it; `python -m validation.serving`
prints them, and what they are worth on Hopper."""
LAUNCH_US = 8.0
"""The same of any stack in a step with prompts, which no CUDA graph replays, so that the host launches each kernel.

With 0, 8 and 16 us, first tokens of eight published figures were 20, 7 and 15 % off, and times per token of runs 11.2,
10.9 and 10.7 % (`validation.serving`)."""
_MOST_SEQUENCES = 2**24


@dataclass(frozen=True, slots=True)
class Request:
    """What every point of a sweep has: prompt and output [tokens], formats, the most prompt tokens of a step.

    `prefix`: tokens with which all prompts begin, and which the cache holds already, once for all sequences.
    """

    prompt: int
    output: int
    precision: str = "bf16"
    cache_bytes: float = WIDE
    skew: float = 0.0
    step_tokens: int = STEP_TOKENS
    prefix: int = 0
    in_flight: bool = True  # another prompt comes when a sequence has its last token, or all arrive together

    @property
    def fresh(self) -> int:
        """Tokens of a prompt that go through."""
        return self.prompt - self.prefix


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator of a step of prompts and of a step of one token each, all layers [us]."""

    name: str
    group: str
    prompt_us: float
    token_us: float


@dataclass(frozen=True, slots=True)
class Serving:
    """What a split serves."""

    split: Split
    memory: Memory
    running: int  # sequences that decode at once; the others wait for their memory
    step_sequences: int  # prompts that go through at once
    prompt_s: float  # a step of prompts
    first_token_s: float  # from the arrival of a prompt, on average; of those that arrive together, of the last one
    token_s: float  # between two output tokens of a sequence, on average
    tokens_per_s: float  # output tokens of all GPUs, over the time of prompts and output
    energy_j: float  # of all GPUs for an output token, prompts too
    power_w: float
    operators: tuple[OperatorTime, ...]  # of a step of prompts, `prompt_s`, and of one of tokens alone
    kernels: Mapping[str, str]  # by kind, the stack whose it is and the GPUs that its constants were fitted to

    @property
    def tokens_per_s_gpu(self) -> float:
        """Output tokens of one GPU."""
        return self.tokens_per_s / self.split.gpus


@dataclass(frozen=True, slots=True)
class _Plan:
    """Steps of a split: how often each runs while every sequence that runs gets its output, the last ones decoding."""

    split: Split
    memory: Memory
    running: int  # of each copy of the attention
    at_once: int  # prompts of a step
    slots: int  # stages that have some at any time, each of which works on a part of them
    loads: Sequence[tuple[float, StepLoad]]  # the last one of sequences alone


def _memories(gpu: Gpu, decoder: Decoder, request: Request, split: Split) -> Iterable[tuple[Memory, float, float]]:
    """Memory of a GPU of each stage without sequences, and the cache of a sequence on average, and when it is longest.

    Weights of its stage, what all prompts begin with, and the widest activations of a step of prompts. Those that
    arrive together are longest together.
    """
    tp, experts, hidden = split.tp, decoder.experts, decoder.hidden
    word, of_experts = (
        precisions()[precision_of(name)].weights
        for name in (product_precision(decoder, request.precision), request.precision)
    )

    def words(products: Iterable[Product]) -> float:
        return float(sum(n * k * many for _, n, k, many in products))

    latent = attention_products(decoder, tp, absorbed=False)
    inner = float((2 + decoder.gated) * max(decoder.ffn // tp, shared_width(decoder, tp)))
    sequences = math.ceil(split.batch / split.copies)
    rows = min(sequences * request.fresh, request.step_tokens)
    if not request.in_flight:
        rows = _step_sequences(request, sequences) * request.fresh
    weights = {
        "full": word * words(latent),
        "sliding": word * words(latent),
        "linear": word * words(linear_products(decoder, tp)),
        "dense": word * words(network(decoder, decoder.ffn // tp)),
        "first": WIDE * math.ceil(decoder.vocabulary / tp) * hidden,
        "last": WIDE * math.ceil(decoder.vocabulary / tp) * hidden * (not decoder.tied or split.pp > 1),
    }
    if experts:
        each = (1 + decoder.gated) * hidden + hidden
        own = experts.count // split.ep * (experts.inter // split.inside) * each
        weights["sparse"] = of_experts * own + word * words(network(decoder, shared_width(decoder, tp)))
        weights["sparse"] += WIDE * experts.count * hidden
        routed = split.copies * experts.top / split.ep
        inner = max(inner, routed * (2 * hidden + (2 + decoder.gated) * experts.inter // split.inside))
    attended = sum(n for _, n, _, many in latent if many == 1)
    activations = WIDE * rows * (2 * hidden + max(attended, inner))
    activations += LOGIT * _step_sequences(request, sequences) * decoder.vocabulary
    token, longest = cache_words(decoder, tp) * request.cache_bytes, request.fresh + request.output
    mean = request.fresh + request.output / 2 if request.in_flight else longest
    window = min(decoder.sliding.window, longest) if decoder.sliding else 0
    for place in places(decoder, split):
        of_stage = sum(count * weights.get(name, 0.0) for name, count in place.items())
        shared = place.get("full", 0.0) * token * request.prefix
        memory = Memory(weights=of_stage, cache=shared, activations=activations, room=ROOM * gpu.memory_bytes)
        fixed = token * window * place.get("sliding", 0.0) + WIDE * state_words(decoder, tp) * place.get("linear", 0.0)
        full = token * place.get("full", 0.0)
        yield memory, fixed + full * mean, fixed + full * longest


def memory_of(gpu: Gpu, decoder: Decoder, request: Request, split: Split) -> Memory:
    """Memory of the fullest GPU, with the sequences that run."""
    return _running(gpu, decoder, request, split)[1]


def _running(gpu: Gpu, decoder: Decoder, request: Request, split: Split) -> tuple[int, Memory]:
    """Sequences that a copy of the attention has at once, and the memory of the fullest GPU with them.

    In flight, as many as fit when each holds what it does on average, at least one, which then is longest.
    """
    found, wanted = list(_memories(gpu, decoder, request, split)), math.ceil(split.batch / split.copies)
    if request.in_flight:
        most = min((memory.room - memory.total) / mean for memory, mean, _ in found)
        wanted = max(1, min(wanted, math.floor(most)))
    every = [
        replace(memory, cache=memory.cache + (wanted * mean if wanted > 1 else longest))
        for memory, mean, longest in found
    ]
    return wanted, max(every, key=lambda memory: memory.total)


def _step_sequences(request: Request, sequences: int) -> int:
    """Prompts of a step, of each copy of the attention, which has so many sequences.

    In flight, as many as come while a token is made, at least one.
    """
    room = request.step_tokens // request.fresh
    return max(1, min(sequences // request.output if request.in_flight else sequences, room))


def _plan(gpu: Gpu, decoder: Decoder, request: Request, split: Split) -> _Plan:
    """Steps in the time in which each sequence that runs gets its output, and its place the next prompt.

    Sequences are parted over stages, so that each stage works on a part of them. In flight, a step has one part of a
    prompt, or whole prompts if several come while a token is made; what is left of the steps has sequences alone.
    """
    running, memory = _running(gpu, decoder, request, split)
    part, each = math.ceil(running / split.pp), _step_sequences(request, running)
    plan = partial(_Plan, split, memory, running, each, slots := math.ceil(running / part))
    middle = request.prompt + request.output // 2
    if not request.in_flight:
        prompts = [(running // each, each), (1, running % each)]
        before = [(float(many), StepLoad(few, request.fresh, request.prefix)) for many, few in prompts if few]
        return plan([*before, ((request.output - 1) * slots, StepLoad(decoding=part, context=middle))])
    parts = math.ceil(request.fresh / max(1, request.step_tokens - part)) if each == 1 else 1
    tokens = math.ceil(request.fresh / parts)
    with_prompts = running * parts / each
    rounds = max(request.output - 1 + parts, with_prompts / slots)
    beside = min(max(0, running - each), running * (request.output - 1) / rounds)
    mixed = StepLoad(
        prompts=each,
        tokens=tokens,
        cached=request.prefix + (request.fresh - tokens) // 2,
        decoding=math.ceil(beside / slots),
        context=middle,
    )
    alone = StepLoad(decoding=part, context=middle)
    return plan([(with_prompts, mixed), (slots * rounds - with_prompts, alone)])


def serve(
    gpu: Gpu,
    decoder: Decoder,
    request: Request,
    splits: Sequence[Split],
    mode: Mode,
    stack: str = "",
    *,
    roofline: bool = False,
) -> tuple[Serving, ...]:
    """What each split serves, whether its memory suffices or not.

    `stack`: whose gaps between kernels are meant, one of `GAPS_US`; kernels are the fastest that any stack has, as
    stacks call each other's libraries. `roofline`: kernels take no longer than that, without gaps. Raises AccelsimError
    if a decoder cannot be split so, a size is too large, or there is no such stack.
    """
    if stack and stack.casefold() not in GAPS_US:
        hint = near_miss(stack, GAPS_US) or f"there are: {listed(GAPS_US)}"
        raise AccelsimError(f"no stack '{stack}'; {hint}")
    for split in splits:
        if why := misfit(decoder, split):
            raise AccelsimError(f"{decoder.name}: {why}")
    plans = [_plan(gpu, decoder, request, split) for split in splits]
    steps = {
        (split, load): steps_of(decoder, request.precision, split, load)
        for split, plan in zip(splits, plans, strict=True)
        for _, load in plan.loads
    }
    every = dict.fromkeys(each.work for step in steps.values() for place in step.values() for each in place)
    pricing = Pricing(gpu, decoder, mode, request.precision, request.cache_bytes, request.skew, roofline)
    costs, usual_us = pricing.costs(every), GAPS_US[stack.casefold()] if stack else 0.0
    found = []
    for plan in plans:
        timed = [
            timed_step(decoder, plan.split, runs, steps[plan.split, load], costs, 0.0 if roofline else gap)
            for runs, load in plan.loads
            for gap in [usual_us + LAUNCH_US * (load.prompts > 0)]
        ]
        found.append(_serving(gpu, request, plan, timed, pricing.kernels))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class TimedStep:
    """How often a step runs; its time in each stage, energy [J] of one GPU of each, and time of each operator."""

    runs: float
    stages: Sequence[float]
    busy: float  # of these, kernels
    energy_j: float
    operators: Mapping[tuple[str, str], float]

    @property
    def through(self) -> float:
        """Time through all stages."""
        return sum(self.stages)

    @property
    def longest(self) -> float:
        """Time after which the next step follows."""
        return max(self.stages)


def timed_step(decoder: Decoder, split: Split, runs: float, step: Step, costs: Prices, gap_us: float) -> TimedStep:
    """Sum up a step in each stage; `gap_us` lies between its kernels."""
    of_stage, busy, energy, found = list[float](), 0.0, 0.0, dict[tuple[str, str], float]()
    for place in places(decoder, split):
        of_stage.append(0.0)
        for many, each in ((many * each.count, each) for name, many in place.items() for each in step.get(name, ())):
            time_us, energy_j = (many * cost for cost in costs[each.work])
            of_stage[-1] += time_us + many * gap_us
            busy += time_us
            energy += energy_j
            found[each.name, each.group] = found.get((each.name, each.group), 0.0) + time_us
    if gap_us:
        found["between kernels", "gaps"] = sum(of_stage) - busy
    return TimedStep(runs, of_stage, busy, energy, found)


def _serving(
    gpu: Gpu, request: Request, plan: _Plan, steps: Sequence[TimedStep], kernels: Mapping[str, str]
) -> Serving:
    """Sum up the steps of a plan.

    In flight, the prompts of all others go through while a sequence decodes. A prompt waits for half a step, for those
    that came just before it (the mean queue before a server whose times do not vary, but no more than half of the
    others), and, where not all sequences have memory, for these.
    """
    split, output, running = plan.split, request.output, plan.running
    *prompts, token = steps
    whole = prompts[0]
    total_us = sum(step.runs * step.longest for step in steps)
    token_us = split.pp * token.longest
    if request.in_flight:
        total_us *= split.pp / plan.slots
        others = whole.runs * max(0, running - plan.at_once) / running
        share = min(1.0, others / (plan.slots * (output - 1))) if output > 1 else 0.0
        token_us += share * split.pp * (whole.longest - token.longest)
        first_us = total_us - (output - 1) * token_us + (token_us / split.pp / 2 if running > 1 else 0.0)
        alone_us = whole.runs * whole.longest / running
        busy = min(0.99, (running - 1) * alone_us / total_us)
        first_us += alone_us * min(busy / (2 - 2 * busy), (running - 1) / 2) * (share < 1)
        first_us += (math.ceil(split.batch / split.copies) / running - 1) * total_us
    else:
        first_us = total_us - token.runs * token.longest + whole.through - whole.longest
        total_us = first_us + (output - 1) * token_us
    busy_us = sum(step.runs * step.busy for step in steps)
    idle_j = max(0.0, split.pp * total_us - busy_us) * 1e-6 * IDLE * gpu.tdp_w
    energy_j = (sum(step.runs * step.energy_j for step in steps) + idle_j) * (split.gpus // split.pp)
    names = dict.fromkeys([*whole.operators, *token.operators])
    parts = [OperatorTime(*key, whole.operators.get(key, 0.0), token.operators.get(key, 0.0)) for key in names]
    if split.pp > 1:
        parts.append(
            OperatorTime("wait for the longest stage", "pipeline", 0.0, split.pp * token.longest - token.through)
        )
    at_once = min(running * split.copies, split.batch)
    made = at_once * output
    return Serving(
        split=split,
        memory=plan.memory,
        running=at_once,
        step_sequences=plan.at_once * split.copies,
        prompt_s=whole.through * 1e-6,
        first_token_s=first_us * 1e-6,
        token_s=token_us * 1e-6,
        tokens_per_s=made / total_us * 1e6,
        energy_j=energy_j / made,
        power_w=energy_j / total_us * 1e6 / split.gpus,
        operators=tuple(sorted(parts, key=lambda part: GROUPS.index(part.group))),
        kernels=kernels,
    )


def front(points: Sequence[Serving]) -> list[Serving]:
    """Points that no other beats in tokens a second of each GPU and time per output token, the fastest answer first."""
    best, found = 0.0, []
    for point in sorted(points, key=lambda point: (point.token_s, -point.tokens_per_s_gpu)):
        if point.tokens_per_s_gpu > best:
            best = point.tokens_per_s_gpu
            found.append(point)
    return found


def refusal(gpu: Gpu, decoder: Decoder, request: Request, split: Split) -> str:
    """Say that memory has no room for a split, and what fits."""
    need = memory_of(gpu, decoder, request, split)

    def fits(request: Request, split: Split) -> bool:
        return memory_of(gpu, decoder, request, split).fits

    low, high = 0, min(split.batch, _MOST_SEQUENCES)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(request, replace(split, batch=middle)) else (low, middle - 1)
    linked = ":" not in gpu.name  # a MIG slice has no links to others
    wider = (replace(split, tp=tp) for tp in range(split.tp + 1, 73) if not misfit(decoder, replace(split, tp=tp)))
    more = next((other for other in wider if linked and fits(request, other)), None)
    hints = [f"--batch {low}"] if low else []
    hints += [f"--tp {more.tp}"] if more else []
    narrower = replace(request, precision="fp8" if "fp8" in gpu.operations_per_sm_cycle else "int8_wo")
    hints += [f"--dtype {narrower.precision}"] if request.precision == "bf16" and fits(narrower, split) else []
    needed = "a GPU with more memory, or --pp," if linked else "a larger slice"
    return (
        f"{decoder.name} on {split.gpus} x {gpu.name} ({split.text}), batch {split.batch}: "
        f"{format_si(need.total, 'B')} are needed on a GPU ({need.text}), and stacks fill {format_si(need.room, 'B')}; "
        f"{'it fits with ' + ' or '.join(hints) if hints else f'{needed} is needed'}"
    )
