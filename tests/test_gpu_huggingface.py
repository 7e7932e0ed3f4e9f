"""Configurations of Hugging Face's Transformers as decoders: the released ones are those that ship by other names."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from accelsim.gpu.decoder import load_decoder
from accelsim.inputs.errors import AccelsimError

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
