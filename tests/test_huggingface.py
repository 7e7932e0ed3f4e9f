"""Configurations of Hugging Face's Transformers as decoders and workloads: released ones are those that ship."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from accelsim.gpu.decoder import load_decoder
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload_reader import load_workload

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
    "rope_scaling": None, "torch_dtype": "bfloat16", "architectures": ["LlamaForCausalLM"],
}  # fmt: skip
RELEASED = {
    "llama": LLAMA,
    "gpt2": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": None, "vocab_size": 50257},
    "mixtral": LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000},
    "qwen3_moe": {
        "model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
        "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
        "vocab_size": 151936, "tie_word_embeddings": False, "use_sliding_window": False, "sliding_window": 4096,
    },
    "deepseek_v3": {
        "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
        "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "vocab_size": 129280,
        "tie_word_embeddings": False,
    },
}  # fmt: skip


@pytest.fixture
def model(tmp_path):
    """Write a configuration into the folder of a model."""

    def of(values: dict[str, object], name: str = "some-model") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(values, indent=2))
        return folder

    return of


@pytest.mark.parametrize("name", RELEASED)
def test_released_configuration__is_the_decoder_that_ships(name, model):
    read = load_decoder(model(RELEASED[name]))
    assert (read.name, read.left) == ("some-model", ())
    assert asdict(read) | {"name": ""} == asdict(load_decoder(name)) | {"name": ""}


def test_families__have_what_their_configurations_do_not_say(model):
    falcon = {"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71}
    read = load_decoder(model(falcon | {"multi_query": True, "vocab_size": 65024}) / "config.json")
    assert (read.kv_heads, read.head_size, read.ffn, read.gated, read.tied) == (1, 64, 4 * 4544, False, True)
    shared = RELEASED["qwen3_moe"] | {"shared_expert_intermediate_size": 1536, "_name_or_path": "Qwen/Qwen2-57B-A14B"}
    read = load_decoder(model(shared, "moe"))
    assert (read.name, read.experts.shared, read.ffn) == ("Qwen2-57B-A14B", 2, 0)


def test_what_is_left_out__is_said_with_its_place(model, run):
    folder = model(
        {"model_type": "gemma3", "text_config": LLAMA | {"model_type": "gemma3_text", "sliding_window": 512}}
    )
    code, out, err = run("gpu", "serve", folder, "h100_sxm")
    assert (code, out.startswith("some-model on 1 x h100_sxm")) == (0, True)
    assert err == f"{folder}/config.json:17:23: sliding_window: each token attends to all before it\n"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"model_type": "mamba", "hidden_size": 768, "vocab_size": 50280}, ":1:1: no num_hidden_layers, n_layer"),
        (LLAMA | {"is_encoder_decoder": True}, "a model with an encoder; only decoders are read"),
        (LLAMA | {"num_hidden_layers": 0}, "config.json:3:24: num_hidden_layers: must be at least 1"),
        (LLAMA | {"decoder_sparse_step": 2}, "experts in some layers only"),
        (LLAMA | {"kv_lora_rank": 512, "qk_rope_head_dim": 64}, "only latent attention with kv_lora_rank 512"),
        ({"layers": 3}, "unknown key 'layers'"),
    ],
)
def test_mistakes__have_their_place(values, says, model):
    with pytest.raises(AccelsimError) as caught:
        load_decoder(model(values))
    assert says in str(caught.value)


@pytest.mark.parametrize(("ships", "sizes"), [("llama", {"seq": "64"}), ("llama_decode", {"seq": "1", "kv": "64"})])
def test_workload__is_the_one_that_ships(ships, sizes, model):
    shipped = load_workload(ships, {name: size for name, size in sizes.items() if size != "1"})
    read = load_workload(model(LLAMA) / "config.json", sizes)
    assert (read.layers, read.edges, read.yields) == (shipped.layers, shipped.edges, shipped.yields)


@pytest.mark.parametrize("name", RELEASED)
def test_workload__has_the_multiply_accumulates_of_its_decoder(name, model):
    """All but attention and the router: a weight is used once by each token that meets it."""
    read = load_workload(model(RELEASED[name]) / "config.json", {"seq": "512", "batch": "2"})
    decoder = load_decoder(name)
    products = [layer for layer in read.layers if layer.name not in ("attention_scores", "attention_context", "router")]
    experts = decoder.experts
    per_token = 3 if decoder.gated else 2
    wide = decoder.ffn * decoder.dense_layers
    if experts:
        wide += experts.inter * (experts.top + experts.shared) * (decoder.layers - experts.dense_layers)
    if decoder.latent_queries:
        own = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    else:
        own = 2 * decoder.hidden * decoder.head_size * (decoder.heads + decoder.kv_heads)
    expected = decoder.hidden * (per_token * wide + decoder.vocabulary) + own * decoder.layers
    assert sum(layer.macs * layer.repeat for layer in products) == 1024 * expected


def test_workload__of_latent_attention_has_as_many_scores_in_either_form(model):
    """With a cache, queries go to the latent space: 576 words of a score, 512 of a value, of 192 and 128 before."""
    path = model(RELEASED["deepseek_v3"]) / "config.json"
    prompt, step = (load_workload(path, {"batch": "2", "seq": seq, "kv": "64"}) for seq in ("64", "1"))
    macs = [{layer.name: layer.macs for layer in each.layers} for each in (prompt, step)]
    for name, before, then in (("attention_scores", 192, 576), ("attention_context", 128, 512)):
        assert macs[0][name] == 2 * 128 * 64 * 64 * before
        assert macs[1][name] == 2 * 128 * 64 * then
    assert macs[1]["query_to_latent"] == macs[1]["latent_to_value"] == 2 * 128 * 512 * 128
    assert "key_value" not in macs[1]


def test_workload__stands_wherever_one_may(model, run):
    path = model(LLAMA | {"sliding_window": 512, "num_hidden_layers": 2}) / "config.json"
    one = ("--layer", "attention_scores", "--sequence", 32, "--batch", 2)
    code, out, _ = run("map", "two_level", path, *one, "--json")
    assert (code, json.loads(out)["result"]["macs"]) == (0, 2 * 8 * 128 * 32 * 128)
    code, out, err = run("import", path, "--set", "seq=1", "--set", "kv=16")
    assert (code, "1 x 1 tokens, which see 16 each" in out, "sliding_window" in err) == (0, True, True)
    code, _, err = run("import", path, "--set", "seq=0")
    assert (code, "--set seq=0: expected a whole number from 1 on" in err) == (2, True)
