"""Configurations of Hugging Face's Transformers (`config.json`) as decoders; `huggingface.yaml` has their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from accelsim.gpu.catalogue import read_tables
from accelsim.inputs.source import ListNode, MapNode, Node, Problems, ScalarNode
from accelsim.inputs.units import listed, quoted

_SHARED = ("shared_expert_intermediate_size", "shared_intermediate_size")
"""Width of all shared experts together."""
_INSIDE = ("text_config", "llm_config", "language_config")
"""What a model that sees pictures has its decoder under."""
_PARTS = ("attn_config", "ffn_config")
"""What DBRX and MPT have parts of a layer under."""
_QUARTERS = 4
"""Width of the feed-forward network over that of a token, where GPT-2, BLOOM, Falcon or MPT do not say it."""
_ENCODER = re.compile("bert|electra|mpnet|xlnet")


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
    tables = read_tables("huggingface")
    names, usual = tables["decoder"], tables["families"].get(family, {})
    body = _under(given, names)
    assumed = {key: size for key, size in usual.get("sizes", {}).items() if key not in body}
    body |= {key: _said(root, size) for key, size in assumed.items()}
    for key in ("layers", "hidden", "heads", "vocabulary"):
        if key not in body:
            what = f"no {listed(names[key])}; {quoted(family)} is no decoder of equal layers of attention"
            problems.add(root, what)
    _report_mixed(given, problems)
    if len(problems) > before:
        return None
    name = re.sub(r"[^\w.-]", "_", Path(_text(given.get("_name_or_path")) or path.resolve().parent.name).name)
    body |= {"name": _said(root, name or family), "gated": _said(root, usual.get("gated", True))}
    body.setdefault("tied", _said(root, usual.get("tied", False)))
    one = _text(given.get("multi_query")) or str(usual.get("multi_query", False)).lower()
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
        latent = {key: str(size) for key, size in tables["latent"].items()}
        other = next((key for key, size in latent.items() if _text(given.get(key, _said(root, size))) != size), None)
        if other is not None:
            sizes = listed(f"{key} {size}" for key, size in latent.items())
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
    left = [
        f"{given[key].mark}: {key}: {what}"
        for key, what in tables["otherwise"].items()
        if key in given and _text(given[key]) != "0"
    ]
    left += [f"{root.mark}: {names[key][0]}: is not there; {size}, as {family} has it" for key, size in assumed.items()]
    return MapNode(root.mark, "", body, {key: node.mark for key, node in body.items()}), tuple(left)


def _report_mixed(given: Mapping[str, Node], problems: Problems) -> None:
    """Report layers that differ: some with experts between others, or with another operator than attention."""
    tables = read_tables("huggingface")
    for key in tables["sparse"]:
        if key in given and _text(given[key]) not in ("0", "1"):
            problems.add(given[key], "experts in some layers only, between others", "write a decoder file")
    dense = _items(given.get("mlp_only_layers"))
    if dense != [str(layer) for layer in range(len(dense))]:
        problems.add(given["mlp_only_layers"], "layers without experts between others", "write a decoder file")
    kinds = {kind: key for key in tables["kinds"] for kind in _items(given.get(key))}
    for kind, key in kinds.items():
        if kind not in tables["attention"]:
            problems.add(given[key], f"{key}: layers of kind {quoted(kind)}; only those of attention are read")
    for key in sorted(given.keys() & tables["mixed"] if "layer_types" not in given else ()):
        problems.add(given[key], f"{key}: layers of several kinds; only equal ones are read")


def _experts(given: Mapping[str, Node], family: str) -> dict[str, Node]:
    """What a configuration says of experts; nothing where it has none."""
    found = _under(given, read_tables("huggingface")["experts"])
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
