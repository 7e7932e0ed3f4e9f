"""The operators of one step of a decoder on one GPU of a stage: prompts, or parts of them, and sequences that decode.

GPUs of a stage split heads and widths (`tp`); stages split layers (`pp`); `ep` GPUs share the experts. Where `ep` is
more than `tp`, attention is copied, and each copy has its part of the sequences. Sizes are in words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelsim.gpu.attention_times import HEAD, LATENT, ROTARY
from accelsim.gpu.collectives import OPERATIONS
from accelsim.gpu.decoder import Decoder
from accelsim.gpu.quantised import precision_of, precisions
from accelsim.gpu.work import WIDE, Work

LOGIT = 4.0
"""Bytes of a word of the logits."""
STATE = 4.0
"""Bytes of a word of the state of linear attention (`mamba_ssm_dtype` of Qwen3-Next's configuration)."""
GROUPS = ("GEMM", "attention", "MoE", "element-wise", "collectives", "pipeline", "gaps")


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
class StepLoad:
    """What a copy of the attention does in a step: prompts go through, and other sequences get a token each."""

    prompts: int = 0
    tokens: int = 0  # of each prompt
    cached: int = 0  # before these
    decoding: int = 0
    context: int = 0  # tokens before theirs

    @property
    def new(self) -> int:
        """Tokens that go through."""
        return self.prompts * self.tokens + self.decoding

    @property
    def sequences(self) -> int:
        """Of which each has one last token."""
        return self.prompts + self.decoding


@dataclass(frozen=True, slots=True)
class Operator:
    """Some work that is done `count` times in a row, with its name and its group, one of `GROUPS`."""

    name: str
    group: str
    work: Work
    count: float = 1


Step = Mapping[str, Sequence[Operator]]
"""Operators by their place: the attention of a layer, `full`, `sliding` or `linear`; its network, `dense` or `sparse`
with experts; `first`, `last`, `send` to a stage."""


def misfit(decoder: Decoder, split: Split) -> str:
    """Why a decoder cannot be split so; nothing if it can."""
    tp, ep, experts = split.tp, split.ep, decoder.experts
    kv_heads = decoder.kv_heads
    if decoder.heads % tp:
        return f"--tp {tp} does not divide {decoder.heads} heads"
    if not decoder.latent and kv_heads % tp and tp % kv_heads:
        return f"--tp {tp} and {kv_heads} key-value heads: one must divide the other"
    if decoder.linear and decoder.linear.key_heads % tp:
        return f"--tp {tp} does not divide {decoder.linear.key_heads} key heads of linear attention"
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


Product = tuple[str, int, int, int]
"""Name, N, K, and how many at once."""


def attention_products(decoder: Decoder, tp: int, *, absorbed: bool) -> list[Product]:
    """Products of the attention of a layer on one GPU; `absorbed`: as latent attention decodes."""
    heads, hidden = decoder.heads // tp, decoder.hidden
    if not decoder.latent:
        wide = (heads + 2 * kv_heads_of(decoder, tp)) * decoder.head_size
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


def linear_products(decoder: Decoder, tp: int) -> list[Product]:
    """Products of linear attention: to queries, keys, values, their gate, and two numbers a head; and out of it."""
    linear, hidden = decoder.linear, decoder.hidden
    if linear is None:
        return []
    keys, values = linear.key_heads * linear.head_size // tp, linear.value_heads * linear.head_size // tp
    wide = 2 * keys + 2 * values + 2 * linear.value_heads // tp
    return [("linear query, key, value", wide, hidden, 1), ("linear attention output", hidden, values, 1)]


def kv_heads_of(decoder: Decoder, tp: int) -> int:
    """Key-value heads of a GPU; copied where there are fewer than GPUs."""
    return max(1, decoder.kv_heads // tp)


def network(decoder: Decoder, width: int) -> list[Product]:
    """Products of a feed-forward network, `width` of which is on one GPU."""
    first = "gate, up" if decoder.gated else "up"
    return [(first, (1 + decoder.gated) * width, decoder.hidden, 1), ("down", decoder.hidden, width, 1)]


def shared_width(decoder: Decoder, tp: int) -> int:
    """Width on one GPU of the experts that every token uses."""
    return decoder.experts.shared * decoder.experts.inter // tp if decoder.experts else 0


def cache_words(decoder: Decoder, tp: int) -> int:
    """Words of the cache for a token, in each layer of a GPU."""
    return LATENT + ROTARY if decoder.latent else 2 * kv_heads_of(decoder, tp) * decoder.head_size


def state_words(decoder: Decoder, tp: int) -> float:
    """Words of the state of a sequence in a layer of linear attention of a GPU, of the width of the others."""
    linear = decoder.linear
    return linear.value_heads * linear.head_size**2 / tp * STATE / WIDE if linear else 0.0


def stages(decoder: Decoder, split: Split) -> list[int]:
    """Layers of each stage; the last ones have fewer, as the last one has the output layer too."""
    few, more = divmod(decoder.layers, split.pp)
    return [few + (stage < more) for stage in range(split.pp)]


def places(decoder: Decoder, split: Split) -> list[dict[str, float]]:
    """How often a stage has what stands at each place; layers of linear attention and windows lie evenly in all."""
    found, begin = [], 0
    for stage, layers in enumerate(stages(decoder, split)):
        few = max(0, min(layers, decoder.dense_layers - begin))
        linear = layers * (decoder.linear.layers if decoder.linear else 0) / decoder.layers
        sliding = layers * (decoder.sliding.layers if decoder.sliding else 0) / decoder.layers
        of_stage = {"full": layers - linear - sliding, "sliding": sliding, "linear": linear}
        of_stage |= {"dense": few, "sparse": layers - few}
        of_stage |= {"send": 1, "first": stage == 0, "last": stage == split.pp - 1}
        found.append({place: float(count) for place, count in of_stage.items() if count})
        begin += layers
    return found


def product_precision(decoder: Decoder, precision: str) -> str:
    """Precision of products beside the experts'.

    Checkpoints in less than 8 bits hold the experts in them, and everything else in BF16 (gpt-oss, arXiv 2508.10925,
    2.1; Kimi K2 Thinking and NVIDIA's of DeepSeek and Kimi: `ignore` of their quantization_config).
    """
    return "bf16" if decoder.experts and precisions()[precision_of(precision)].weights < 1 else precision


def steps_of(decoder: Decoder, precision: str, split: Split, load: StepLoad) -> Step:
    """Operators of a step of each copy of the attention."""
    tp, hidden, experts, tokens = split.tp, decoder.hidden, decoder.experts, load.new
    prompt_tokens, narrow = tokens - load.decoding, product_precision(decoder, precision) != "bf16"

    def product(name: str, n: int, k: int, many: int = 1, *, wide: bool = False, rows: int = tokens) -> Operator:
        kind = "narrow product" if narrow and not wide and many == 1 else "product"
        return Operator(name, "GEMM", Work(kind, (rows, n, k, many)))

    def moved(name: str, words: float, count: int = 1) -> Operator:
        return Operator(name, "element-wise", Work("move", (words,)), count)

    def collective(name: str, gpus: int, size: float, count: int = 1, what: str = "") -> list[Operator]:
        sizes = (OPERATIONS.index(name), gpus, math.ceil(size))
        return [Operator(what or name, "collectives", Work("collective", sizes), count)] if gpus > 1 else []

    heads, kv_heads = decoder.heads // tp, kv_heads_of(decoder, tp)

    def attention(window: int) -> list[Operator]:
        of_prompts = (load.prompts, load.tokens, load.cached, heads, kv_heads, window)
        of_tokens = (load.decoding, 1, load.context, heads, kv_heads, window)
        kind = "decode" if load.tokens == 1 else "attention"
        both = ((load.prompts, kind, of_prompts), (load.decoding, "decode", of_tokens))
        return [Operator("attention", "attention", Work(kind, sizes)) for many, kind, sizes in both if many]

    turned = (heads + kv_heads) * decoder.head_size
    products = {each: product(*each) for each in attention_products(decoder, tp, absorbed=not prompt_tokens)}
    if decoder.latent:
        turned = (heads + 1) * ROTARY
        if prompt_tokens and load.decoding:
            of_tokens = attention_products(decoder, tp, absorbed=True)
            for rows, every, other in (
                (prompt_tokens, list(products), of_tokens),
                (load.decoding, of_tokens, list(products)),
            ):
                products |= {each: product(*each, rows=rows) for each in every if each not in other}
    before = [
        *products.values(),
        moved("norms and sums", 4 * tokens * hidden, 2),
        moved("rotation, cache", tokens * (2 * turned + cache_words(decoder, tp))),
    ]
    summed = collective("all_reduce", tp, WIDE * tokens * hidden, 2)
    step = {"full": [*before, *attention(0)]}
    if decoder.sliding:
        step["sliding"] = [*before, *attention(decoder.sliding.window)]
    if decoder.linear:
        wide = linear_products(decoder, tp)[0][1]
        step["linear"] = [
            *(product(*each) for each in linear_products(decoder, tp)),
            moved("norms and sums", 4 * tokens * hidden, 2),
            moved("convolution, gate", 2 * tokens * wide, 2),
            moved("state", 2 * load.sequences * state_words(decoder, tp) + tokens * wide),
        ]
    if width := decoder.ffn // tp:
        step["dense"] = [product(*each) for each in network(decoder, width)]
        step["dense"] += [moved("activation", (2 + decoder.gated) * tokens * width), *summed]
    if experts:
        own = (tokens * split.copies, experts.inter // split.inside, split.ep)
        sparse = [product("routing", experts.count, hidden, wide=True)]
        sparse.append(moved("routing", 2 * tokens * experts.count))
        sparse.append(Operator("experts", "MoE", Work("experts", own)))
        if shared := shared_width(decoder, tp):
            sparse += [product(f"shared {name}", *each) for name, *each in network(decoder, shared)]
            sparse.append(moved("activation", (2 + decoder.gated) * tokens * shared))
        if split.copies > 1:
            exchanged = WIDE * math.ceil(tokens / tp) * min(experts.top, split.ep) * hidden
            sparse += collective("all_to_all", split.ep, exchanged, 2)
        step["sparse"] = [*sparse, *summed]
    step["last"] = [
        product("output layer", math.ceil(decoder.vocabulary / tp), hidden, wide=True, rows=load.sequences),
        moved("sampling", 2 * LOGIT / WIDE * load.sequences * decoder.vocabulary),
        *collective("all_gather", tp, WIDE * load.sequences * decoder.vocabulary),
    ]
    sent = 2 * WIDE * tokens * hidden / tp
    step["send"] = collective("all_to_all", 2, sent, what="send to next stage") if split.pp > 1 else []
    step["first"] = [moved("embedding", 2 * tokens * hidden)]
    return step
