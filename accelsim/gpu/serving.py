"""A decoder that serves sequences on several GPUs: time to first token, time per output token, memory, energy.

GPUs of a stage split heads and widths (`tp`); stages split layers (`pp`); `ep` GPUs share the experts. Where `ep` is
more than `tp`, attention is copied, and each copy has its part of the sequences. All prompts arrive at once and go
through in steps of whole prompts; then each step gives every sequence a token.

Work is counted for one GPU of a stage. Sizes are in words, times in us, memory in bytes, energy in J.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from accelsim.gpu.attention_times import HEAD, LATENT, ROTARY
from accelsim.gpu.calibration import Mode
from accelsim.gpu.catalogue import Gpu
from accelsim.gpu.collectives import OPERATIONS
from accelsim.gpu.constants import IDLE
from accelsim.gpu.decoder import Decoder
from accelsim.gpu.network import Memory
from accelsim.gpu.quantised import precision_of, precisions
from accelsim.gpu.work import WIDE, Prices, Pricing, Work
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import format_si

LOGIT = 4.0
"""Bytes of a word of the logits."""
ROOM = 0.9
"""Share of the memory that a stack fills (`gpu_memory_utilization` of vLLM); the rest is for the driver and graphs."""
STEP_TOKENS = 8192
"""Prompt tokens of a step, at most (`max_num_batched_tokens` of vLLM's server on large GPUs)."""
_MOST_SEQUENCES = 2**24
GROUPS = ("GEMM", "attention", "MoE", "element-wise", "collectives", "pipeline")


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

    @property
    def fresh(self) -> int:
        """Tokens of a prompt that go through."""
        return self.prompt - self.prefix


@dataclass(frozen=True, slots=True)
class Split:
    """How a decoder lies on GPUs, and the sequences at once."""

    batch: int
    tp: int = 1
    pp: int = 1
    ep: int = 1

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.pp * max(self.tp, self.ep)

    @property
    def copies(self) -> int:
        """Copies of the attention, each with its own sequences."""
        return max(1, self.ep // self.tp)

    @property
    def inside(self) -> int:
        """GPUs that share one expert."""
        return max(1, self.tp // self.ep)

    @property
    def text(self) -> str:
        """As on the command line."""
        more = "".join(f" {name} {value}" for name, value in (("pp", self.pp), ("ep", self.ep)) if value > 1)
        return f"tp {self.tp}{more}"


@dataclass(frozen=True, slots=True)
class Operator:
    """Some work that is done `count` times in a row, with its name and its group, one of `GROUPS`."""

    name: str
    group: str
    work: Work
    count: float = 1


Step = Mapping[str, Sequence[Operator]]
"""Operators by their place: in a `dense` layer, or a `sparse` one with experts; `first`, `last`, `send` to a stage."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator of a step of prompts and of a step of one token each, all layers [us]."""

    name: str
    group: str
    prompt_us: float
    token_us: float


@dataclass(frozen=True, slots=True)
class Serving:
    """What a split serves; all prompts arrive at once."""

    split: Split
    memory: Memory
    step_sequences: int
    prompt_s: float  # until the first step of prompts is through
    first_token_s: float  # until the last one is
    token_s: float  # between two output tokens of a sequence, in the middle of the output
    tokens_per_s: float  # output tokens of all GPUs, over the time of prompts and output
    energy_j: float  # of all GPUs for an output token, prompts too
    power_w: float
    operators: tuple[OperatorTime, ...]  # of a step of prompts, `prompt_s`, and of one of tokens, `token_s`
    kernels: Mapping[str, str]  # by kind, the stack whose it is and the GPUs that its constants were fitted to

    @property
    def tokens_per_s_gpu(self) -> float:
        """Output tokens of one GPU."""
        return self.tokens_per_s / self.split.gpus


def misfit(decoder: Decoder, split: Split) -> str:
    """Why a decoder cannot be split so; nothing if it can."""
    tp, ep, experts = split.tp, split.ep, decoder.experts
    kv_heads = decoder.kv_heads
    if decoder.heads % tp:
        return f"--tp {tp} does not divide {decoder.heads} heads"
    if not decoder.latent and kv_heads % tp and tp % kv_heads:
        return f"--tp {tp} and {kv_heads} key-value heads: one must divide the other"
    if decoder.ffn % tp:
        return f"--tp {tp} does not divide ffn, {decoder.ffn}"
    if split.pp > decoder.layers:
        return f"--pp {split.pp}: there are {decoder.layers} layers"
    if experts is None:
        return f"--ep {ep}: {decoder.name} has no experts" if ep > 1 else ""
    if experts.count % ep:
        return f"--ep {ep} does not divide {experts.count} experts"
    if tp % ep and ep % tp:
        return f"--ep {ep} and --tp {tp}: one must divide the other"
    if experts.inter % split.inside or experts.shared * experts.inter % tp:
        return f"--tp {tp} does not divide inter, {experts.inter}"
    return ""


def _products(decoder: Decoder, tp: int, *, absorbed: bool) -> list[tuple[str, int, int, int]]:
    """Products of the attention of a layer on one GPU: name, N, K and how many at once."""
    heads, hidden = decoder.heads // tp, decoder.hidden
    if not decoder.latent:
        wide = (heads + 2 * _kv_heads(decoder, tp)) * decoder.head_size
        return [("query, key, value", wide, hidden, 1), ("attention output", hidden, heads * decoder.head_size, 1)]
    own = [("key, value from latent", heads * 2 * HEAD, LATENT, 1)]
    if absorbed:
        own = [("query to latent", LATENT, HEAD, heads), ("value from latent", HEAD, LATENT, heads)]
    queries = [("query", heads * (HEAD + ROTARY), hidden, 1)]
    if decoder.latent_queries:
        queries = [("query from latent", heads * (HEAD + ROTARY), decoder.latent_queries, 1)]
    return [
        ("to latent", decoder.latent_queries + LATENT + ROTARY, hidden, 1),
        *queries,
        *own,
        ("attention output", hidden, heads * HEAD, 1),
    ]


def _kv_heads(decoder: Decoder, tp: int) -> int:
    """Key-value heads of a GPU; copied where there are fewer than GPUs."""
    return max(1, decoder.kv_heads // tp)


def _network(decoder: Decoder, width: int) -> list[tuple[str, int, int, int]]:
    """Products of a feed-forward network, `width` of which is on one GPU."""
    first = "gate, up" if decoder.gated else "up"
    return [(first, (1 + decoder.gated) * width, decoder.hidden, 1), ("down", decoder.hidden, width, 1)]


def _shared_width(decoder: Decoder, tp: int) -> int:
    return decoder.experts.shared * decoder.experts.inter // tp if decoder.experts else 0


def _cache_words(decoder: Decoder, tp: int) -> int:
    """Words of the cache for a token, in each layer of a GPU."""
    return LATENT + ROTARY if decoder.latent else 2 * _kv_heads(decoder, tp) * decoder.head_size


def steps_of(decoder: Decoder, request: Request, split: Split, sequences: int, *, prompts: bool) -> Step:
    """Operators of a step in which each copy of the attention has so many sequences."""
    tp, hidden, experts = split.tp, decoder.hidden, decoder.experts
    tokens = sequences * (request.fresh if prompts else 1)
    narrow = request.precision != "bf16"

    def product(name: str, n: int, k: int, many: int = 1, *, wide: bool = False, rows: int = tokens) -> Operator:
        kind = "narrow product" if narrow and not wide and many == 1 else "product"
        return Operator(name, "GEMM", Work(kind, (rows, n, k, many)))

    def moved(name: str, words: float, count: int = 1) -> Operator:
        return Operator(name, "element-wise", Work("move", (words,)), count)

    def collective(name: str, gpus: int, size: float, count: int = 1, what: str = "") -> list[Operator]:
        sizes = (OPERATIONS.index(name), gpus, math.ceil(size))
        return [Operator(what or name, "collectives", Work("collective", sizes), count)] if gpus > 1 else []

    heads, kv_heads = decoder.heads // tp, _kv_heads(decoder, tp)
    cached = request.prefix if prompts else request.prompt + request.output // 2
    kind = "decode" if tokens == sequences else "attention"
    attention = Work(kind, (sequences, tokens // sequences, cached, heads, kv_heads))
    turned = (heads + kv_heads) * decoder.head_size
    if decoder.latent:
        turned = (heads + 1) * ROTARY
    before = [
        *(product(*each) for each in _products(decoder, tp, absorbed=tokens == sequences)),
        Operator("attention", "attention", attention),
        moved("norms and sums", 4 * tokens * hidden, 2),
        moved("rotation, cache", tokens * (2 * turned + _cache_words(decoder, tp))),
    ]
    summed = collective("all_reduce", tp, WIDE * tokens * hidden, 2)
    dense, sparse = list(before), list(before)
    if width := decoder.ffn // tp:
        dense += (product(*each) for each in _network(decoder, width))
        dense += [moved("activation", (2 + decoder.gated) * tokens * width), *summed]
    if experts:
        own = (tokens * split.copies, experts.inter // split.inside, split.ep)
        sparse.append(product("routing", experts.count, hidden, wide=True))
        sparse.append(moved("routing", 2 * tokens * experts.count))
        sparse.append(Operator("experts", "MoE", Work("experts", own)))
        if shared := _shared_width(decoder, tp):
            sparse += [product(f"shared {name}", *each) for name, *each in _network(decoder, shared)]
            sparse.append(moved("activation", (2 + decoder.gated) * tokens * shared))
        if split.copies > 1:
            exchanged = WIDE * math.ceil(tokens / tp) * min(experts.top, split.ep) * hidden
            sparse += collective("all_to_all", split.ep, exchanged, 2)
        sparse += summed
    last = [
        product("output layer", math.ceil(decoder.vocabulary / tp), hidden, wide=True, rows=sequences),
        moved("sampling", 2 * LOGIT / WIDE * sequences * decoder.vocabulary),
        *collective("all_gather", tp, WIDE * sequences * decoder.vocabulary),
    ]
    sent = 2 * WIDE * tokens * hidden / tp
    send = collective("all_to_all", 2, sent, what="send to next stage") if split.pp > 1 else []
    first = [moved("embedding", 2 * tokens * hidden)]
    return {"dense": dense, "sparse": sparse, "first": first, "last": last, "send": send}


def memory_of(gpu: Gpu, decoder: Decoder, request: Request, split: Split) -> Memory:
    """Memory of the fullest GPU: weights and cache of its stage, and the widest activations of a step of prompts."""
    tp, experts, hidden = split.tp, decoder.experts, decoder.hidden
    word = precisions()[precision_of(request.precision)].weights

    def words(products: Iterable[tuple[str, int, int, int]]) -> float:
        return float(sum(n * k * many for _, n, k, many in products))

    attention = words(_products(decoder, tp, absorbed=False))
    dense = word * (attention + words(_network(decoder, decoder.ffn // tp)))
    rows = _step_sequences(request, split) * request.fresh
    inner = float((2 + decoder.gated) * max(decoder.ffn // tp, _shared_width(decoder, tp)) * rows)
    sparse = 0.0
    if experts:
        each = (1 + decoder.gated) * hidden + hidden
        own = experts.count // split.ep * (experts.inter // split.inside) * each
        sparse = word * (attention + own + words(_network(decoder, _shared_width(decoder, tp))))
        sparse += WIDE * experts.count * hidden
        routed = rows * split.copies * experts.top / split.ep
        inner = max(inner, routed * (2 * hidden + (2 + decoder.gated) * experts.inter // split.inside))
    table = WIDE * math.ceil(decoder.vocabulary / tp) * hidden
    sequences = math.ceil(split.batch / split.copies)
    tokens = request.prefix + sequences * (request.fresh + request.output)
    cache = tokens * _cache_words(decoder, tp) * request.cache_bytes
    first, found = 0, []
    for stage, layers in enumerate(stages(decoder, split)):
        few = max(0, min(layers, decoder.dense_layers - first))
        ends = (stage == 0) + (stage == split.pp - 1) - (decoder.tied and split.pp == 1)
        found.append((few * dense + (layers - few) * sparse + ends * table, layers * cache))
        first += layers
    weights, cached = max(found, key=sum)
    attended = sum(n for _, n, _, many in _products(decoder, tp, absorbed=False) if many == 1)
    activations = WIDE * (2 * rows * hidden + max(rows * attended, inner))
    activations += LOGIT * _step_sequences(request, split) * decoder.vocabulary
    return Memory(weights=weights, cache=cached, activations=activations, room=ROOM * gpu.memory_bytes)


def stages(decoder: Decoder, split: Split) -> list[int]:
    """Layers of each stage; the last ones have fewer, as the last one has the output layer too."""
    few, more = divmod(decoder.layers, split.pp)
    return [few + (stage < more) for stage in range(split.pp)]


def _step_sequences(request: Request, split: Split) -> int:
    """Prompts of a step, of each copy of the attention."""
    return max(1, min(math.ceil(split.batch / split.copies), request.step_tokens // request.fresh))


def _plan(decoder: Decoder, request: Request, split: Split) -> list[tuple[int, Step]]:
    """Steps and how often each runs: prompts, the last ones with the rest, and a token of each sequence.

    Sequences are parted over stages, so that each stage works on a part of them.
    """
    sequences, each = math.ceil(split.batch / split.copies), _step_sequences(request, split)
    prompts = [(sequences // each, each), (1, sequences % each)]
    plan = [(many, steps_of(decoder, request, split, few, prompts=True)) for many, few in prompts if few]
    part = math.ceil(sequences / split.pp)
    runs = (request.output - 1) * math.ceil(sequences / part)
    return [*plan, (runs, steps_of(decoder, request, split, part, prompts=False))]


def serve(
    gpu: Gpu, decoder: Decoder, request: Request, splits: Sequence[Split], mode: Mode, stack: str = ""
) -> tuple[Serving, ...]:
    """What each split serves, whether its memory suffices or not.

    `stack`: software whose kernels are meant, of the kinds that are measured of it. Raises AccelsimError if a decoder
    cannot be split so, or a size is too large.
    """
    for split in splits:
        if why := misfit(decoder, split):
            raise AccelsimError(f"{decoder.name}: {why}")
    plans = [_plan(decoder, request, split) for split in splits]
    every = dict.fromkeys(each.work for plan in plans for _, step in plan for place in step.values() for each in place)
    pricing = Pricing(gpu, decoder, mode, stack, request.precision, request.cache_bytes, request.skew)
    costs = pricing.costs(every)
    pairs = zip(splits, plans, strict=True)
    return tuple(_serving(gpu, decoder, request, *pair, costs, pricing.kernels) for pair in pairs)


@dataclass(frozen=True, slots=True)
class Timed:
    """How often a step runs; its time in each stage, energy [J] of one GPU of each, and time of each operator."""

    runs: int
    stages: Sequence[float]
    energy_j: float
    operators: Mapping[tuple[str, str], float]

    @property
    def through(self) -> float:
        """Time through all stages."""
        return sum(self.stages)


def timed(decoder: Decoder, split: Split, runs: int, step: Step, costs: Prices) -> Timed:
    """Sum up a step in each stage."""
    of_stage, energy, found, begin = [], 0.0, dict[tuple[str, str], float](), 0
    for stage, layers in enumerate(stages(decoder, split)):
        few = max(0, min(layers, decoder.dense_layers - begin))
        times = {"dense": few, "sparse": layers - few, "send": 1, "first": stage == 0, "last": stage == split.pp - 1}
        of_stage.append(0.0)
        for many, each in ((many, each) for place, many in times.items() if many for each in step[place]):
            time_us, energy_j = (many * each.count * cost for cost in costs[each.work])
            of_stage[-1] += time_us
            energy += energy_j
            found[each.name, each.group] = found.get((each.name, each.group), 0.0) + time_us
        begin += layers
    return Timed(runs, of_stage, energy, found)


def _serving(
    gpu: Gpu,
    decoder: Decoder,
    request: Request,
    split: Split,
    plan: Sequence[tuple[int, Step]],
    costs: Prices,
    kernels: Mapping[str, str],
) -> Serving:
    steps = [timed(decoder, split, *pair, costs) for pair in plan]
    *prompts, token = steps
    whole = prompts[0]
    first_us = sum(step.runs * max(step.stages) for step in prompts) + whole.through - max(whole.stages)
    token_us = split.pp * max(token.stages)
    total_us = first_us + (request.output - 1) * token_us
    busy_us = sum(step.runs * step.through for step in steps)
    idle_j = (split.pp * total_us - busy_us) * 1e-6 * IDLE * gpu.tdp_w
    energy_j = (sum(step.runs * step.energy_j for step in steps) + idle_j) * (split.gpus // split.pp)
    names = dict.fromkeys([*whole.operators, *token.operators])
    parts = [OperatorTime(*key, whole.operators.get(key, 0.0), token.operators.get(key, 0.0)) for key in names]
    if split.pp > 1:
        parts.append(OperatorTime("wait for the longest stage", "pipeline", 0.0, token_us - token.through))
    made = split.batch * request.output
    return Serving(
        split=split,
        memory=memory_of(gpu, decoder, request, split),
        step_sequences=_step_sequences(request, split) * split.copies,
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
