"""Configurations of Hugging Face's Transformers (`config.json`) as decoders: their names of the same widths and counts.

What a family does without saying so is as its documentation has it (huggingface.co/docs/transformers, model_doc).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from accelsim.inputs.source import MapNode, Node, Problems, ScalarNode
from accelsim.inputs.units import listed, quoted

_KEYS = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_size": ("head_dim",),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocabulary": ("vocab_size",),
    "tied": ("tie_word_embeddings",),
    "latent_queries": ("q_lora_rank",),
}
_EXPERTS = {
    "count": ("num_local_experts", "num_experts", "n_routed_experts"),
    "top": ("num_experts_per_tok", "num_experts_per_token"),
    "inter": ("moe_intermediate_size", "intermediate_size"),
    "shared": ("n_shared_experts",),
    "dense_layers": ("first_k_dense_replace",),
}
_UNGATED = {"bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mpt", "opt", "phi"}
_UNGATED |= {"starcoder2"}
"""Families whose feed-forward network has one product before the activation."""
_TIED = {"bloom", "codegen", "falcon", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_bigcode", "gpt_neo", "mpt", "opt"}
"""Families whose output layer has the weights of the embedding unless they say otherwise."""
_QUARTERS = 4
"""Width of the feed-forward network over that of a token, where GPT-2, BLOOM, Falcon or MPT do not say it."""
_LATENT = ("512", "64")
"""`kv_lora_rank` and `qk_rope_head_dim` of latent attention that the kernels have."""
_SPARSE = {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq"}
"""Every so many layers have experts; the decoder's have them in all but the first."""
_OTHERWISE = {
    "sliding_window": "each token attends to all before it",
    "quantization_config": "--precision says of what format the weights are",
}


def is_configuration(root: MapNode) -> bool:
    """Whether a file is a configuration of a model."""
    return "model_type" in root.entries


def read_configuration(root: MapNode, path: Path, problems: Problems) -> tuple[Node, tuple[str, ...]] | None:
    """Turn a configuration into what stands under `decoder`, and say what is left out; mistakes are reported."""
    inner = root.entries.get("text_config", root)  # of a model that sees pictures, too
    entries = inner.entries if isinstance(inner, MapNode) else {}
    given = {key: node for key, node in entries.items() if _text(node) != "null"}
    family, before = _text(given.get("model_type")), len(problems)
    if _text(given.get("is_encoder_decoder")) == "true":
        problems.add(given["is_encoder_decoder"], "a model with an encoder; only decoders are read")
    body = _under(given, _KEYS)
    for key in ("layers", "hidden", "heads", "vocabulary"):
        if key not in body:
            what = f"no {listed(_KEYS[key])}; {quoted(family)} is no decoder of equal layers of attention"
            problems.add(root, what)
    for key in _SPARSE & given.keys():
        if _text(given[key]) not in ("0", "1"):
            problems.add(given[key], "experts in some layers only, between others", "write a decoder file")
    if len(problems) > before:
        return None
    name = re.sub(r"[^\w.-]", "_", Path(_text(given.get("_name_or_path")) or path.resolve().parent.name).name)
    body |= {"name": _said(root, name or family), "gated": _said(root, family not in _UNGATED)}
    body.setdefault("tied", _said(root, family in _TIED))
    if _text(given.get("multi_query")) == "true":
        body["kv_heads"] = _said(given["multi_query"], 1)
    experts = _under(given, _EXPERTS)
    if "count" in experts:
        if width := _text(given.get("shared_expert_intermediate_size")):
            experts["shared"] = _said(given["shared_expert_intermediate_size"], _ratio(width, experts.get("inter")))
        body["experts"] = MapNode(experts["count"].mark, "", experts, {key: each.mark for key, each in experts.items()})
    if "count" in experts and _text(experts.get("dense_layers")) in ("", "0"):
        body.pop("ffn", None)
    elif "ffn" not in body and _text(body["hidden"]).isdigit():
        body["ffn"] = _said(body["hidden"], _QUARTERS * int(_text(body["hidden"])))
    if "kv_lora_rank" in given:
        ranks = _text(given["kv_lora_rank"]), _text(given.get("qk_rope_head_dim"))
        if ranks != _LATENT or "latent_queries" not in body:
            what = "only latent attention with kv_lora_rank 512, qk_rope_head_dim 64 and a q_lora_rank is modelled"
            problems.add(given["kv_lora_rank"], what)
            return None
        body = {key: node for key, node in body.items() if key not in ("kv_heads", "head_size")}
    if _text(given.get("use_sliding_window")) == "false":
        given.pop("sliding_window", None)
    left = [f"{given[key].mark}: {key}: {why}" for key, why in _OTHERWISE.items() if key in given]
    return MapNode(root.mark, "", body, {key: node.mark for key, node in body.items()}), tuple(left)


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, ScalarNode) else ""


def _said(near: Node, value: object) -> Node:
    """A value that a configuration says in another way, or not at all."""
    return ScalarNode(near.mark, "", str(value).lower() if isinstance(value, bool) else str(value))


def _under(given: Mapping[str, Node], names: Mapping[str, tuple[str, ...]]) -> dict[str, Node]:
    """Values by our keys, each under the first of its names that there is."""
    found = {key: next((name for name in each if name in given), None) for key, each in names.items()}
    return {key: replace(given[name], path=name) for key, name in found.items() if name is not None}


def _ratio(width: str, of: Node | None) -> int:
    """How many experts are as wide as all the shared ones together."""
    return max(1, int(width) // int(_text(of))) if width.isdigit() and _text(of).isdigit() else 1
