"""Configurations of Hugging Face's Transformers as decoders and workloads: released ones are those that ship."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from accelsim.gpu.decoder import Decoder, load_decoder
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import without_other_operations
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


PUBLISHED = [
    (3.884, "gemma3_text", 34, 2560, {"intermediate_size": 10240}),
    (1.316, "gpt_neo", 24, 2048, {"num_heads": 16, "num_layers": 24, "intermediate_size": None, "vocab_size": 50257}),
    (0.559, "bloom", 24, None, {"n_embed": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880}),
    (7.721, "qwen", 32, 4096, {"num_attention_heads": 32, "intermediate_size": 22016, "vocab_size": 151936}),
    (1.316, "opt", 24, 2048, {"num_attention_heads": 32, "ffn_dim": 8192, "vocab_size": 50272}),
    (6.649, "mpt", None, None, {
        "d_model": 4096, "n_heads": 32, "n_layers": 32, "expansion_ratio": 4, "vocab_size": 50432,
        "attn_config": {"attn_impl": "torch", "alibi": True},
    }),
    (41.3, "falcon", 60, 8192, {
        "num_attention_heads": 128, "num_kv_heads": 8, "multi_query": True, "new_decoder_architecture": True,
        "vocab_size": 65024,
    }),
    (6.24, "chatglm", None, 4096, {
        "num_layers": 28, "num_attention_heads": 32, "kv_channels": 128, "multi_query_attention": True,
        "multi_query_group_num": 2, "ffn_hidden_size": 13696, "padded_vocab_size": 65024, "tie_word_embeddings": False,
    }),
    (3.03, "starcoder2", 30, 3072, {
        "num_attention_heads": 24, "num_key_value_heads": 2, "intermediate_size": 12288, "vocab_size": 49152,
    }),
    (35.0, "cohere", 40, 8192, {
        "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 22528, "vocab_size": 256000,
    }),
    (4.19, "nemotron", 32, 3072, {
        "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9216,
        "vocab_size": 256000, "tie_word_embeddings": False,
    }),
    (14.7, "phi3", 40, 5120, {
        "num_attention_heads": 40, "num_key_value_heads": 10, "intermediate_size": 17920, "vocab_size": 100352,
        "tie_word_embeddings": False,
    }),
    (6.92, "olmoe", 16, 2048, {
        "num_attention_heads": 16, "intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8,
        "vocab_size": 50304,
    }),
    (14.3, "qwen2_moe", 24, 2048, {
        "num_attention_heads": 16, "intermediate_size": 5632, "moe_intermediate_size": 1408, "num_experts": 60,
        "num_experts_per_tok": 4, "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "vocab_size": 151936, "tie_word_embeddings": False,
    }),
    (131.6, "dbrx", None, None, {
        "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352, "attn_config": {"kv_n_heads": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}, "tie_word_embeddings": False,
    }),
    (20.9, "gpt_oss", 24, 2880, {
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
        "num_local_experts": 32, "num_experts_per_tok": 4, "vocab_size": 201088,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    }),
    (106.8, "glm4_moe", 46, 4096, {
        "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "vocab_size": 151552,
    }),
    (21.8, "ernie4_5_moe", 28, 2560, {
        "num_attention_heads": 20, "num_key_value_heads": 4, "intermediate_size": 12288, "moe_intermediate_size": 1536,
        "moe_num_experts": 64, "moe_k": 6, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
        "moe_layer_interval": 1, "vocab_size": 103424,
    }),
    (15.7, "deepseek_v2", 27, 2048, {
        "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408,
        "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "first_k_dense_replace": 1,
        "moe_layer_freq": 1, "q_lora_rank": None, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 102400,
    }),
    (107.8, "llama4_text", 48, 5120, {
        "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "num_local_experts": 16, "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1, "moe_layers": list(range(48)), "attention_chunk_size": 8192,
        "vocab_size": 202048,
    }),
]  # fmt: skip


def parameters(decoder: Decoder) -> int:
    """Weights of all products, and the embedding; no norms, biases or learned positions."""
    hidden, each = decoder.hidden, 3 if decoder.gated else 2
    own = 2 * hidden * decoder.head_size * (decoder.heads + decoder.kv_heads)
    if decoder.latent:
        narrow = decoder.latent_queries
        queries = narrow * (hidden + decoder.heads * 192) if narrow else hidden * decoder.heads * 192
        own = queries + hidden * 576 + 512 * decoder.heads * 256 + decoder.heads * 128 * hidden
    wide = decoder.ffn * decoder.dense_layers
    if experts := decoder.experts:
        wide += (experts.count + experts.shared) * experts.inter * (decoder.layers - experts.dense_layers)
    return decoder.layers * own + each * hidden * wide + decoder.vocabulary * hidden * (1 if decoder.tied else 2)


@pytest.mark.parametrize(
    ("billions", "family", "layers", "hidden", "others"), PUBLISHED, ids=lambda each: str(each)[:12]
)
def test_released_models__have_the_parameters_that_are_published(billions, family, layers, hidden, others, model):
    """Gemma 3 4B without its encoder of pictures; GLM-4.5 Air without its layer that predicts further tokens."""
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, **others}
    inner = {"model_type": family} | {key: size for key, size in sizes.items() if size is not None or key in others}
    alone = load_decoder(model(inner))
    assert parameters(alone) == pytest.approx(billions * 1e9, rel=0.005)
    for key in ("text_config", "language_config"):
        nested = load_decoder(model({"model_type": "sees", key: inner, "quantization_config": None}, key))
        assert asdict(nested) | {"name": "", "left": ()} == asdict(alone) | {"name": "", "left": ()}


def test_sizes_of_the_family__are_said(model):
    inner = {"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560, "intermediate_size": 10240}
    left = load_decoder(model({"model_type": "gemma3", "text_config": inner})).left
    assert [line.partition("config.json:1:1: ")[2] for line in left] == [
        "num_attention_heads: is not there; 8, as gemma3_text has it",
        "num_key_value_heads: is not there; 4, as gemma3_text has it",
        "head_dim: is not there; 256, as gemma3_text has it",
        "vocab_size: is not there; 262208, as gemma3_text has it",
    ]


def test_dense_layers__may_be_named_and_experts_absent(model):
    first = RELEASED["qwen3_moe"] | {"mlp_only_layers": [0, 1]}
    assert load_decoder(model(first, "first")).experts.dense_layers == 2
    dense = PUBLISHED[-1][4] | {"model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120}
    read = load_decoder(model(dense | {"moe_layers": []}, "dense"))
    assert (read.experts, read.ffn) == (None, 16384)
    assert load_decoder(model(LLAMA | {"num_local_experts": 0}, "none")).experts is None


def test_what_is_left_out__is_said_with_its_place(model, run):
    folder = model(
        {
            "model_type": "gemma3",
            "text_config": LLAMA | {"model_type": "gemma3_text", "sliding_window": 512, "head_dim": 128},
        }
    )
    code, out, err = run("gpu", "serve", "h100_sxm", folder)
    assert (code, out.startswith("some-model on 1 x h100_sxm")) == (0, True)
    assert err == f"{folder}/config.json:17:23: sliding_window: each token attends to all before it\n"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"model_type": "mamba", "hidden_size": 768, "vocab_size": 50280}, ":1:1: no num_hidden_layers, n_layer"),
        (LLAMA | {"is_encoder_decoder": True}, "a model with an encoder; only decoders are read"),
        (LLAMA | {"model_type": "roberta"}, "a model with an encoder; only decoders are read"),
        (
            LLAMA | {"layer_types": ["full_attention", "linear_attention"]},
            "layer_types: layers of kind 'linear_attention'",
        ),
        (LLAMA | {"word_embed_proj_dim": 512}, "word_embed_proj_dim: words of another width than the layers"),
        (LLAMA | {"attn_type_list": [1, 0]}, "attn_type_list: layers of kind '0'"),
        (LLAMA | {"full_attention_interval": 4}, ":15:30: full_attention_interval: layers of several kinds"),
        (LLAMA | {"mlp_only_layers": [3]}, "layers without experts between others"),
        (LLAMA | {"num_hidden_layers": 0}, "config.json:3:24: num_hidden_layers: must be at least 1"),
        (LLAMA | {"decoder_sparse_step": 2}, "experts in some layers only"),
        (
            LLAMA | {"kv_lora_rank": 512, "v_head_dim": 256},
            ":16:17: v_head_dim: only latent attention with kv_lora_rank 512",
        ),
        ({"layers": 3}, "unknown key 'layers'"),
        (RELEASED["mixtral"] | {"moe_intermediate_size": 0}, "moe_intermediate_size: must be at least 1, got 0"),
        (RELEASED["mixtral"] | {"num_local_experts": [8]}, "num_local_experts: expected a whole number, got a list"),
        (RELEASED["mixtral"] | {"shared_intermediate_size": 9, "intermediate_size": 0}, "must be at least 1, got 0"),
        (RELEASED["gpt2"] | {"n_embd": "²"}, "n_embd: expected a whole number, got '²'"),
        (RELEASED["gpt2"] | {"n_embd": int("9" * 4000)}, "is too large"),
    ],
)
def test_mistakes__have_their_place(values, says, model):
    with pytest.raises(AccelsimError) as caught:
        load_decoder(model(values))
    assert says in str(caught.value)


@pytest.mark.parametrize(("ships", "sizes"), [("llama", {"seq": "64"}), ("llama_decode", {"seq": "1", "kv": "64"})])
def test_workload__is_the_one_that_ships(ships, sizes, model):
    """Without other operations: what a product reads of these comes from a product before."""
    whole = load_workload(ships, {name: size for name, size in sizes.items() if size != "1"})
    shipped, _ = without_other_operations(whole)
    read = load_workload(model(LLAMA) / "config.json", sizes)
    assert (read.layers, read.yields) == (shipped.layers, shipped.yields)
    assert {*shipped.edges} <= {*read.edges}
    assert {(e.consumer, e.tensor) for e in read.edges} <= {(e.consumer, e.tensor) for e in whole.edges}


@pytest.mark.parametrize("name", [*RELEASED, "deepseek_v2"])
def test_workload__has_the_multiply_accumulates_of_its_decoder(name, model):
    """All but attention and the router: a weight is used once by each token that meets it."""
    folder = model(RELEASED.get(name) or PUBLISHED[-2][4] | {"model_type": name, "n_layer": 27, "n_embd": 2048})
    read, decoder = load_workload(folder / "config.json", {"seq": "512", "batch": "2"}), load_decoder(folder)
    products = [layer for layer in read.layers if layer.name not in ("attention_scores", "attention_context", "router")]
    met = replace(decoder, tied=True)  # the output layer alone
    if experts := decoder.experts:
        met = replace(met, experts=replace(experts, count=experts.top))
    assert sum(layer.macs * layer.repeat for layer in products) == 1024 * parameters(met)


@pytest.mark.parametrize(("tokens", "experts", "rows"), [(1, 2, 1), (4, 8, 1), (5, 8, 2), (8, 8, 2)])
def test_workload__has_a_whole_number_of_tokens_for_each_expert(tokens, experts, rows, model):
    """Two of eight experts for a token: 10 shares of five tokens are more than one each."""
    layers = load_workload(model(RELEASED["mixtral"]) / "config.json", {"seq": str(tokens)}).layers
    (down,) = (layer for layer in layers if layer.name == "expert_down")
    assert (down.repeat, down.dims["M"]) == (32 * experts, rows)


def test_serve__has_the_weights_of_latent_attention_without_latent_queries(model, run):
    """DeepSeek-V2-Lite: 15.7e9 weights of 2 bytes."""
    folder = model(PUBLISHED[-2][4] | {"model_type": "deepseek_v2", "n_layer": 27, "n_embd": 2048})
    code, out, _ = run("gpu", "serve", "h100_sxm", folder)
    assert (code, "weights 31.4 GB" in out, "query from latent" in out) == (0, True, False)


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
    one = ("--layer", "attention_scores", "--seq-len", 32, "--batch", 2)
    code, out, _ = run("map", "two_level", path, *one, "--factors", "perfect", "--json")
    assert (code, json.loads(out)["result"]["macs"]) == (0, 2 * 8 * 128 * 32 * 128)
    code, out, err = run("import", path, "--set", "seq=1", "--set", "kv=16")
    assert (code, "1 x 1 tokens, which see 16 each" in out, "sliding_window" in err) == (0, True, True)
    for wrong in ("0", "²", "1e3", "9" * 5000):
        code, _, err = run("import", path, "--set", f"seq={wrong}")
        assert (code, f"--set seq={wrong}: expected a whole number from 1 on" in err) == (2, True)
    code, _, err = run("import", path, "--set", "seq=100", "--set", "kv=10")
    assert (code, "--set kv=10: the 100 tokens of a step see themselves too; write at least 100" in err) == (2, True)
