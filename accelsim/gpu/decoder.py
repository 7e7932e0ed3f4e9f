"""Decoders: language models of equal transformer layers, as widths and counts, read from `decoders/*.yaml`.

A file of layers (`workload`) says which products there are, not which of them are split over GPUs and how, nor what
makes up the key-value cache; these widths say it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from accelsim.gpu.catalogue import group
from accelsim.gpu.huggingface import read_configuration
from accelsim.inputs import fields, library
from accelsim.inputs.fields import Fields, Key, Keys, formed, keys_form
from accelsim.inputs.forms import Form
from accelsim.inputs.source import MapNode, Node, Problems, compose_file


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of one feed-forward network, in all but the first `dense_layers`."""

    count: int
    top: int
    inter: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True, slots=True)
class Sliding:
    """Layers in which a token attends to the last `window` ones alone."""

    window: int
    layers: int


@dataclass(frozen=True, slots=True)
class Linear:
    """Layers of linear attention, whose state takes the place of the cache (gated delta rule)."""

    layers: int
    key_heads: int
    value_heads: int
    head_size: int


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder whose layers differ at most in their attention, and the first ones in having no experts.

    `ffn` is 0 where all have experts, `latent_queries` where queries have no latent vector.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    gated: bool
    vocabulary: int
    tied: bool
    experts: Experts | None
    latent: bool
    latent_queries: int
    sliding: Sliding | None = None
    linear: Linear | None = None
    left: tuple[str, ...] = ()  # what another tool's configuration says and no field here does, each with its place

    @property
    def dense_layers(self) -> int:
        """Layers with one feed-forward network, which come first."""
        return self.experts.dense_layers if self.experts else self.layers


_EXPERTS: Keys = {
    "count": Key(fields.positive_int, "experts per layer"),
    "top": Key(fields.positive_int, "experts per token"),
    "inter": Key(fields.positive_int, "width of an expert", unit="words"),
    "shared": Key(fields.count, "experts of all", "0"),
    "dense_layers": Key(fields.count, "first layers without experts", "0"),
}


@formed(keys_form(_EXPERTS))
def _experts(node: Node, problems: Problems) -> Experts | None:
    found = group(_EXPERTS, Experts)(node, problems)
    if found and found.top > found.count and isinstance(node, MapNode):
        problems.add(node.entries["top"], f"a token goes to {found.top} of {found.count} experts", "at most all")
        return None
    return found


_SLIDING: Keys = {
    "window": Key(fields.positive_int, "tokens seen", unit="tokens"),
    "layers": Key(fields.positive_int, "such layers"),
}
_LINEAR: Keys = {
    "layers": Key(fields.positive_int, "such layers"),
    "key_heads": Key(fields.positive_int, "key heads"),
    "value_heads": Key(fields.positive_int, "heads of values"),
    "head_size": Key(fields.positive_int, "width of a head", unit="words"),
}


_DECODER: Keys = {
    "name": Key(fields.name, "its name"),
    "layers": Key(fields.positive_int, "how many"),
    "hidden": Key(fields.positive_int, "width of a token", unit="words"),
    "heads": Key(fields.positive_int, "query heads"),
    "kv_heads": Key(fields.positive_int, "key-value heads", "as `heads`"),
    "head_size": Key(fields.positive_int, "width of a head", "`hidden` / `heads`", "words"),
    "ffn": Key(fields.positive_int, "width of the network", "none, if all have experts", "words"),
    "gated": Key(fields.boolean, "two GEMMs before the activation", "true"),
    "vocabulary": Key(fields.positive_int, "size of the vocabulary"),
    "tied": Key(fields.boolean, "output layer is the embedding", "false"),
    "experts": Key(_experts, "mixture of experts", "none"),
    "latent": Key(
        fields.boolean,
        "latent attention (MLA) of DeepSeek: 512 + 64 words a token",
        "true with `latent_queries`",
    ),
    "latent_queries": Key(fields.positive_int, "latent width of queries", "none", "words"),
    "sliding": Key(group(_SLIDING, Sliding), "sliding windows", "none"),
    "linear": Key(group(_LINEAR, Linear), "linear attention (gated delta rule)", "none"),
}
_DEFAULTS = {"gated": True, "tied": False, "latent": False, "latent_queries": 0}
DECODER_FORM: Form = keys_form(_DECODER)
"""What may stand under `decoder`, as JSON Schema."""


def load_decoder(name_or_path: str | PathLike[str]) -> Decoder:
    """Read a decoder by its file, by the name of one that ships, or from a model of Hugging Face's Transformers.

    Of the latter it takes `config.json` or the folder that holds it. Raises AccelsimError if there is no such file,
    InputError with every mistake in it.

    >>> llama = load_decoder("llama")
    >>> llama.name, llama.layers, llama.head_size
    ('llama3_8b', 32, 128)
    """
    problems = Problems()
    folder = Path(name_or_path)
    path = library.resolve(folder / "config.json" if (folder / "config.json").is_file() else folder, "decoders")
    root = compose_file(path, Problems()) if path.suffix == ".json" else None
    if isinstance(root, MapNode) and "model_type" in root.entries:
        found = read_configuration(root, path, problems)
        body, left = problems.result(found)
        return replace(problems.result(read_decoder(body, problems)), left=left)
    document = fields.open_document(path, "decoder", None, problems)
    return problems.result(read_decoder(document.body, problems) if document else None)


def read_decoder(body: Node, problems: Problems) -> Decoder | None:
    """Read what stands under `decoder`, or return None with every mistake reported."""
    before, top = len(problems), Fields(body, problems, _DECODER)
    values: dict[str, Any] = {key: top.value(key, _DEFAULTS.get(key)) for key in _DECODER}
    if len(problems) > before or not top.readable:
        return None
    heads, hidden, experts = values["heads"], values["hidden"], values["experts"]
    values["kv_heads"] = values["kv_heads"] or heads
    if values["head_size"] is None and hidden % heads:
        problems.add(top.entries["heads"], f"{heads} heads do not divide hidden, {hidden}", "write head_size")
    values["head_size"] = values["head_size"] or hidden // heads
    if heads % values["kv_heads"]:
        what = f"{values['kv_heads']} key-value heads do not divide {heads} query heads"
        problems.add(top.entries["kv_heads"], what, "each serves equally many")
    if experts and experts.dense_layers > values["layers"]:
        what = f"{experts.dense_layers} dense_layers, of {values['layers']} layers"
        problems.add(top.entries["experts"], what, "write at most as many")
    others = [key for key in ("sliding", "linear") if values[key]]
    if sum(values[key].layers for key in others) > values["layers"]:
        what = f"more layers than the {values['layers']} that there are"
        problems.add(top.entries[others[-1]], what, "write at most as many")
    if values["sliding"] and (values["latent"] or values["latent_queries"]):
        problems.add(top.entries["sliding"], "latent attention is modelled without windows", "leave it out")
    dense = experts is None or experts.dense_layers > 0
    if dense != (values["ffn"] is not None):
        what = "'ffn' is missing" if dense else "no layer has an 'ffn': all have experts"
        hint = "write the width of the feed-forward network" if dense else "leave it out, or write dense_layers"
        problems.add(body if dense else top.entries["ffn"], what, hint)
    values["ffn"] = values["ffn"] or 0
    values["latent"] |= values["latent_queries"] > 0
    return Decoder(**values) if len(problems) == before else None
