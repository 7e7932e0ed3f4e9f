"""Configurations of Hugging Face's Transformers (`config.json`) as decoders: their names of the same widths and counts.

What a family does without saying so is as its documentation has it (huggingface.co/docs/transformers, model_doc).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from accelsim.inputs.source import ListNode, MapNode, Node, Problems, ScalarNode
from accelsim.inputs.units import listed, quoted

_KEYS = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num"),
    "head_size": ("head_dim", "kv_channels"),
    "ffn": ("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "tied": ("tie_word_embeddings",),
    "latent_queries": ("q_lora_rank",),
}
_EXPERTS = {
    "count": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "top": ("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k"),
    "inter": ("moe_intermediate_size", "intermediate_size", "ffn_hidden_size"),
    "shared": ("n_shared_experts", "moe_num_shared_experts"),
    "dense_layers": ("first_k_dense_replace", "moe_layer_start_index"),
}
_SHARED = ("shared_expert_intermediate_size", "shared_intermediate_size")
"""Width of all shared experts together."""
_INSIDE = ("text_config", "llm_config", "language_config")
"""What a model that sees pictures has its decoder under."""
_PARTS = ("attn_config", "ffn_config")
"""What DBRX and MPT have parts of a layer under."""
_UNGATED = {"apertus", "arcee", "biogpt", "bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox"}
_UNGATED |= {"gptj", "mpt", "nemotron", "openai-gpt", "opt", "persimmon", "phi", "starcoder2", "xglm"}
"""Families whose feed-forward network has one product before the activation."""
_TIED = {"biogpt", "bloom", "cohere", "cohere2", "ernie4_5_moe", "falcon", "gemma", "gemma2", "gemma3_text", "gpt2"}
_TIED |= {"gpt_bigcode", "gpt_neo", "mpt", "openai-gpt", "opt", "starcoder2", "xglm"}
"""Families whose output layer has the weights of the embedding unless they say otherwise."""
_ONE_KEY = {"falcon", "gpt_bigcode"}
"""Families whose query heads share one key-value head unless they say otherwise."""
_USUAL = {
    "gemma": {"head_size": 256},
    "gemma2": {"head_size": 256},
    "gemma3_text": {"heads": 8, "kv_heads": 4, "head_size": 256, "vocabulary": 262208},
    "llama": {"layers": 32, "hidden": 4096, "heads": 32, "ffn": 11008, "vocabulary": 32000},
}
"""What a model that sees pictures may leave out of its decoder, as the family's configuration has it."""
_QUARTERS = 4
"""Width of the feed-forward network over that of a token, where GPT-2, BLOOM, Falcon or MPT do not say it."""
_LATENT = {"kv_lora_rank": "512", "qk_rope_head_dim": "64", "qk_nope_head_dim": "128", "v_head_dim": "128"}
"""Sizes of latent attention that the kernels have."""
_SPARSE = {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", "moe_layer_interval"}
"""Every so many layers have experts; the decoder's have them in all but the first."""
_MIXED = {"attn_layer_indices", "attn_layer_period", "block_configs", "block_types", "cross_attention_layers"}
_MIXED |= {"full_attention_interval", "full_attn_idxs", "hybrid_override_pattern", "layers_block_type"}
_MIXED |= {"linear_attn_config"}
"""What only models with layers of several kinds have."""
_KINDS = ("layer_types", "attn_type_list")
_ATTENTION = {"attention", "full_attention", "sliding_attention", "chunked_attention", "1"}
"""Keys that say the kind of each layer, and kinds that are attention."""
_ENCODER = re.compile("bert|electra|mpnet|xlnet")
_OTHERWISE = {
    "sliding_window": "each token attends to all before it",
    "attention_chunk_size": "each token attends to all before it",
    "index_topk": "each token attends to all before it",
    "num_nextn_predict_layers": "layers that predict further tokens are left out",
    "quantization_config": "--precision says of what format the weights are",
}


def is_configuration(root: MapNode) -> bool:
    """Whether a file is a configuration of a model."""
    return "model_type" in root.entries


def read_configuration(root: MapNode, path: Path, problems: Problems) -> tuple[Node, tuple[str, ...]] | None:
    """Turn a configuration into what stands under `decoder`, and say what is left out; mistakes are reported."""
    entries = dict(root.entries)
    for name in (*_INSIDE, *_PARTS):
        inside = entries.get(name)
        entries |= inside.entries if isinstance(inside, MapNode) else {}
    given = {key: node for key, node in entries.items() if _text(node) != "null"}
    family, before = _text(given.get("model_type")), len(problems)
    if _text(given.get("is_encoder_decoder")) == "true" or _ENCODER.search(family):
        problems.add(given.get("is_encoder_decoder", root), "a model with an encoder; only decoders are read")
    body, usual = _under(given, _KEYS), _USUAL.get(family, {})
    assumed = {key: size for key, size in usual.items() if key not in body}
    body |= {key: _said(root, size) for key, size in assumed.items()}
    for key in ("layers", "hidden", "heads", "vocabulary"):
        if key not in body:
            what = f"no {listed(_KEYS[key])}; {quoted(family)} is no decoder of equal layers of attention"
            problems.add(root, what)
    _report_mixed(given, problems)
    if len(problems) > before:
        return None
    name = re.sub(r"[^\w.-]", "_", Path(_text(given.get("_name_or_path")) or path.resolve().parent.name).name)
    body |= {"name": _said(root, name or family), "gated": _said(root, family not in _UNGATED)}
    body.setdefault("tied", _said(root, family in _TIED))
    one = _text(given.get("multi_query")) or str(family in _ONE_KEY).lower()
    if one == "true" and _text(given.get("new_decoder_architecture")) != "true":  # Falcon 40B has several all the same
        body["kv_heads"] = _said(given.get("multi_query", root), 1)
    experts = _experts(given, family)
    if experts:
        body["experts"] = MapNode(experts["count"].mark, "", experts, {key: each.mark for key, each in experts.items()})
    if experts and _text(experts.get("dense_layers")) in ("", "0"):
        body.pop("ffn", None)
    elif "ffn" not in body and _size(body["hidden"]):
        times = _size(given.get("expansion_ratio")) or _QUARTERS
        body["ffn"] = _said(body["hidden"], times * _size(body["hidden"]))
    if "kv_lora_rank" in given:
        other = next((key for key, size in _LATENT.items() if _text(given.get(key, _said(root, size))) != size), None)
        if other is not None:
            sizes = listed(f"{key} {size}" for key, size in _LATENT.items())
            problems.add(given[other], f"{other}: only latent attention with {sizes} is modelled")
            return None
        body = {key: node for key, node in body.items() if key not in ("kv_heads", "head_size")}
        body["latent"] = _said(given["kv_lora_rank"], True)
    if family == "qwen" and "ffn" in body:  # both of its first products together
        body["ffn"] = _said(body["ffn"], _size(body["ffn"]) // 2)
    if _text(given.get("word_embed_proj_dim", body["hidden"])) != _text(body["hidden"]):  # OPT 350M
        problems.add(given["word_embed_proj_dim"], "word_embed_proj_dim: words of another width than the layers")
        return None
    if _text(given.get("use_sliding_window")) == "false":
        given.pop("sliding_window", None)
    other_than = {key: given[key] for key in _OTHERWISE if key in given and _text(given[key]) != "0"}
    left = [f"{node.mark}: {key}: {_OTHERWISE[key]}" for key, node in other_than.items()]
    left += [f"{root.mark}: {_KEYS[key][0]}: is not there; {size}, as {family} has it" for key, size in assumed.items()]
    return MapNode(root.mark, "", body, {key: node.mark for key, node in body.items()}), tuple(left)


def _report_mixed(given: Mapping[str, Node], problems: Problems) -> None:
    """Report layers that differ: some with experts between others, or with another operator than attention."""
    for key in _SPARSE & given.keys():
        if _text(given[key]) not in ("0", "1"):
            problems.add(given[key], "experts in some layers only, between others", "write a decoder file")
    dense = _items(given.get("mlp_only_layers"))
    if dense != [str(layer) for layer in range(len(dense))]:
        problems.add(given["mlp_only_layers"], "layers without experts between others", "write a decoder file")
    kinds = {kind: key for key in _KINDS for kind in _items(given.get(key)) if kind not in _ATTENTION}
    for kind, key in kinds.items():
        problems.add(given[key], f"{key}: layers of kind {quoted(kind)}; only those of attention are read")
    for key in sorted(_MIXED & given.keys() if "layer_types" not in given else ()):
        problems.add(given[key], f"{key}: layers of several kinds; only equal ones are read")


def _experts(given: Mapping[str, Node], family: str) -> dict[str, Node]:
    """What a configuration says of experts; nothing where it has none."""
    found = _under(given, _EXPERTS)
    none = "moe_layers" in given and not _items(given["moe_layers"])  # Llama 4 names those that have experts
    if none or "count" not in found or _text(found["count"]) == "0":
        return {}
    wide = next((given[key] for key in _SHARED if key in given), None)
    if wide is not None:
        found["shared"] = _said(wide, max(1, _size(wide) // (_size(found.get("inter")) or 1)))
    if family == "llama4_text":
        found["shared"] = _said(found["count"], 1)
    if dense := _items(given.get("mlp_only_layers")):
        found["dense_layers"] = _said(given["mlp_only_layers"], len(dense))
    return found


def _items(node: Node | None) -> list[str]:
    """Words of a list."""
    return [_text(item) for item in node.items] if isinstance(node, ListNode) else []


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, ScalarNode) else ""


def _said(near: Node, value: object) -> Node:
    """A value that a configuration says in another way, or not at all."""
    return ScalarNode(near.mark, "", str(value).lower() if isinstance(value, bool) else str(value))


def _under(given: Mapping[str, Node], names: Mapping[str, tuple[str, ...]]) -> dict[str, Node]:
    """Values by our keys, each under the first of its names that there is."""
    found = {key: next((name for name in each if name in given), None) for key, each in names.items()}
    return {key: replace(given[name], path=name) for key, name in found.items() if name is not None}


def _size(node: Node | None) -> int:
    """A whole number, or 0 where there is none or one that is too large; `read_decoder` reports that."""
    text = _text(node)
    return int(text) if text.isdecimal() and len(text) < 19 else 0
