"""Language models of Hugging Face's Transformers (`config.json`) as workloads: the matrix products of a step.

`seq` tokens of each of `batch` sequences go through at once, and see `kv` tokens, themselves included: a prompt if both
are equal, as they are unless `kv` is set, and decoding with seq=1. Soft-max, norms, rotation, gates and sums are left
out, as in the workloads that ship. The query heads of a group are rows of one product. Tokens spread evenly over
experts; each expert that gets one is a layer, and all are alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from typing import Any

import yaml

from accelsim.gpu.attention_times import HEAD, LATENT, ROTARY
from accelsim.gpu.decoder import Decoder, load_decoder
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import Imported, NodeNote

_SIZE = re.compile("[1-9][0-9]{0,17}")
_USUAL = {"batch": "1", "seq": "2048", "kv": "", "bits": "16"}


def parameters(path: str | PathLike[str]) -> frozenset[str]:
    """Names of the sizes that a configuration leaves open."""
    return frozenset(_USUAL)


def import_model(path: str | PathLike[str], sizes: Mapping[str, str]) -> Imported:
    """Read a configuration as a workload; raises AccelsimError where it is no decoder's, or a size is no number."""
    decoder = load_decoder(path)
    given = {name: sizes.get(name, usual) for name, usual in _USUAL.items()}
    given["kv"] = given["kv"] or given["seq"]
    for name in ("batch", "seq", "kv"):
        if not _SIZE.fullmatch(given[name]):
            raise AccelsimError(f"--set {name}={given[name]}: expected a whole number from 1 on")
    batch, seq, kv = (int(given[name]) for name in ("batch", "seq", "kv"))
    if kv < seq:
        raise AccelsimError(f"--set kv={kv}: the {seq} tokens of a step see themselves too; write at least {seq}")
    body = {
        "name": decoder.name,
        "bits": dict.fromkeys(("Weights", "Inputs", "Outputs"), "$bits"),
        "yields": {"tokens": batch * seq},
        "layers": [*_attention(decoder, batch, seq, kv), *_feed_forward(decoder, batch * seq)],
    }
    text = yaml.dump({"workload": body}, sort_keys=False, default_flow_style=None, width=120)
    head = f"# Imported from a configuration of {decoder.name}: {batch} x {seq} tokens, which see {kv} each.\n"
    notes = tuple(NodeNote(line, "configuration", "left out", "no layer shows it") for line in decoder.left)
    return Imported(f"{head}params: {{bits: 16}}\n{text}", notes)


def _layer(name: str, repeat: int, sizes: dict[str, int], of: Any = None) -> dict[str, Any]:
    fed = {} if of is None else {"from": of}
    return {"name": name, "repeat": repeat, **fed, "gemm": sizes}


def _product(rows: int, columns: int, depth: int) -> dict[str, int]:
    return {"M": rows, "N": columns, "K": depth}


def _attention(decoder: Decoder, batch: int, seq: int, kv: int) -> list[dict[str, Any]]:
    """Products of attention whose keys and values are as wide as a head."""
    if decoder.latent:
        return _latent_attention(decoder, batch, seq, kv)
    tokens, many, groups, wide = batch * seq, decoder.layers, decoder.kv_heads, decoder.head_size
    widths = {"query": decoder.heads * wide, "key": groups * wide, "value": groups * wide}
    fresh = kv == seq
    return [
        *(_layer(name, many, _product(tokens, width, decoder.hidden)) for name, width in widths.items()),
        *_both(many, batch, groups, decoder.heads // groups * seq, kv, wide, wide, fresh=fresh),
        _layer("attention_output", many, _product(tokens, decoder.hidden, decoder.heads * wide), "attention_context"),
    ]


def _both(
    many: int, batch: int, groups: int, rows: int, kv: int, key: int, value: int, *, fresh: bool
) -> list[dict[str, Any]]:
    """Products of queries and keys, and of these and values; `fresh`: all keys and values are of this step."""
    sizes = {"B": batch, "H": groups, "M": rows}
    scores: Any = {"Inputs": "query", "Weights": "key"} if fresh else "query"
    context: Any = {"Inputs": "attention_scores", "Weights": "value"} if fresh else "attention_scores"
    return [
        _layer("attention_scores", many, {**sizes, "N": kv, "K": key}, scores),
        _layer("attention_context", many, {**sizes, "N": value, "K": kv}, context),
    ]


def _latent_attention(decoder: Decoder, batch: int, seq: int, kv: int) -> list[dict[str, Any]]:
    """Products of attention over a latent vector (DeepSeek-V2, sections 2.1.2 and 2.1.3).

    A prompt has the keys and values of each head made of the latent vectors; with a cache queries are turned into the
    latent space instead, in which all heads share one key, and what comes back is turned into values.
    """
    tokens, heads, many, hidden = batch * seq, decoder.heads, decoder.layers, decoder.hidden
    narrow, wide = decoder.latent_queries, heads * (HEAD + ROTARY)
    found = [_layer("query", many, _product(tokens, wide, hidden))]
    if narrow:
        found = [_layer("query_latent", many, _product(tokens, narrow, hidden))]
        found.append(_layer("query", many, _product(tokens, wide, narrow), "query_latent"))
    found.append(_layer("latent", many, _product(tokens, LATENT + ROTARY, hidden)))
    last = "attention_context"
    if kv == seq:
        found.append(_layer("key_value", many, _product(tokens, heads * 2 * HEAD, LATENT)))
        found += _both(many, batch, heads, seq, kv, HEAD + ROTARY, HEAD, fresh=False)
    else:
        turned = {"H": heads, "M": tokens}
        scores, context = _both(many, batch, 1, heads * seq, kv, LATENT + ROTARY, LATENT, fresh=False)
        del scores["from"]
        found += [_layer("query_to_latent", many, {**turned, "N": LATENT, "K": HEAD}), scores, context]
        found.append(_layer("latent_to_value", many, {**turned, "N": HEAD, "K": LATENT}))
        last = "latent_to_value"
    return [*found, _layer("attention_output", many, _product(tokens, hidden, heads * HEAD), last)]


def _feed_forward(decoder: Decoder, tokens: int) -> list[dict[str, Any]]:
    """Products of the feed-forward networks, of the experts, and of the output layer for every token."""
    found = []
    first = "attention_output"
    if decoder.ffn:
        found += _network(decoder, decoder.dense_layers, tokens, decoder.ffn, "", first)
    if experts := decoder.experts:
        many = decoder.layers - experts.dense_layers
        busy = min(experts.count, tokens * experts.top)
        found += [_layer("router", many, _product(tokens, experts.count, decoder.hidden), first)]
        rows = -(-tokens * experts.top // busy)
        found += _network(decoder, many * busy, rows, experts.inter, "expert_", None)
        if experts.shared:
            found += _network(decoder, many, tokens, experts.inter * experts.shared, "shared_", first)
    last = None if decoder.experts else "down"
    return [*found, _layer("vocabulary", 1, _product(tokens, decoder.vocabulary, decoder.hidden), last)]


def _network(decoder: Decoder, many: int, rows: int, width: int, of: str, fed: str | None) -> list[dict[str, Any]]:
    names = (f"{of}gate", f"{of}up") if decoder.gated else (f"{of}up",)
    found = [_layer(name, many, _product(rows, width, decoder.hidden), fed) for name in names]
    return [*found, _layer(f"{of}down", many, _product(rows, decoder.hidden, width), f"{of}up")]
