"""Decoders that serve sequences on GPUs: shapes of shipped models, one point by hand, laws, memory, the command."""

from __future__ import annotations

import itertools
import json
import re
import time
from dataclasses import replace

import numpy as np
import pytest
from browser import Page, find_browser

from accelsim.cli import main as cli
from accelsim.gpu.attention_times import DECODE, PREFILL, attention_shapes
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.collectives import NCCL, ONE_SHOT, OPERATIONS, collective_shapes, sent_of
from accelsim.gpu.constants import IDLE, board_power_w
from accelsim.gpu.decoder import load_decoder
from accelsim.gpu.fitted import fastest_kernels, shipped
from accelsim.gpu.gemms import Gemms, Setup, time_gemms
from accelsim.gpu.kernel import time_operators
from accelsim.gpu.serving import GAPS_US, LAUNCH_US, Request, front, memory_of, refusal, serve
from accelsim.gpu.steps import Split, StepLoad, misfit, places, stages, steps_of
from accelsim.gpu.work import Pricing, Work, serving_mode
from accelsim.inputs.workload_reader import load_workload
from tests.test_gpu_decoder import FILE

H100 = load_gpu("h100")
LLAMA = load_decoder("llama")
MODE = serving_mode(H100)
PARAMETERS = {
    **{"llama": 8.03e9, "llama_70b": 70.6e9, "gpt2": 123.5e6, "mixtral": 46.7e9},
    **{"qwen3_moe": 30.5e9, "deepseek_v3": 671e9, "qwen3_32b": 32.8e9, "qwen3_235b": 235e9},
    **{"gpt_oss_120b": 116.8e9, "minimax_m2": 228.7e9, "kimi_k2": 1026.4e9, "qwen3_5_397b": 396.3e9},
}
"""Of each model that ships, as its report has it; of GPT-2 without positions, of others without further predictions."""


def fastest(kind, shapes) -> float:
    """Time on an H100, of every kernel that was measured in CUDA graphs."""
    (variant,) = kind.variant(shapes)
    sets = [one for one in shipped(kind.name).sets if (one.variant, one.family) == (variant, "hopper 9")]
    sets = [one for one in sets if one.stack.strip("/") == one.stack != "" and not one.launched_apart]
    return min(float(sum(kind.parts(H100, shapes, one.values).values())[0]) for one in sets)


def serve_one(split: Split, request: Request, decoder=LLAMA, gpu=H100):
    (point,) = serve(gpu, decoder, request, [split], serving_mode(gpu))
    return point


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_weights__are_the_parameters_that_reports_print(name, parameters):
    found = memory_of(H100, load_decoder(name), Request(128, 1), Split(1))
    assert found.weights / 2 == pytest.approx(parameters, rel=1.5e-3)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_products__are_those_of_the_workload_of_the_model(name):
    """The workloads that ship have the same layers, written as products; attention is left out here."""
    decoder, workload = load_decoder(name), load_workload(f"{name}_decode")
    step = steps_of(decoder, "bf16", Split(1), StepLoad(decoding=1, context=128))
    times = {"full": decoder.layers, "dense": decoder.layers, "last": 1}
    products = [(times[place], each.work.sizes) for place in times for each in step[place] if each.group == "GEMM"]
    ours = sum(many * m * n * k for many, (m, n, k, _) in products)
    theirs = sum(
        layer.repeat * layer.macs
        for layer in workload.layers
        if layer.operation == "multiply_add" and not layer.name.startswith(("attention_scores", "attention_context"))
    )
    assert ours == theirs


def test_serve__is_the_sum_of_its_operators_by_hand():
    """Llama 3 8B on two GPUs, 8 prompts of 512 tokens in one step, 64 tokens each: every operator written out.

    A layer has 4 products, attention, two sums of two kernels, a rotation, an activation and two all-reduces; beside
    them are the embedding, the output layer, its sampling and an all-gather: 356 kernels. Before those of prompts the
    host takes its time.
    """
    split, request = Split(8, tp=2), Request(512, 64, in_flight=False)
    point = serve_one(split, request)

    def step_us(tokens: int, new: int, cached: int) -> float:
        widths = [(3072, 4096), (4096, 2048), (14336, 4096), (4096, 7168)]
        rows, n, k = zip(*[(tokens, n, k) for n, k in widths], strict=True)
        layer = time_gemms(H100, Gemms.of(rows, n, k), "bf16", MODE.constants, Setup("cold")).time_us.sum()
        shapes = attention_shapes(batch=8, tokens=new, heads=16, kv_heads=4, head_size=128, cached=cached)
        layer += fastest(DECODE if new == 1 else PREFILL, shapes)
        reduced = collective_shapes("all_reduce", 2, tokens * 4096 * 2)
        layer += 2 * min(fastest(kind, reduced) for kind in (NCCL, ONE_SHOT))
        words = np.array([4.0 * 4096, 4 * 4096, 2 * 16 * 128 + 2 * 4 * 128 + 2 * 4 * 128, 3 * 7168]) * tokens
        layer += time_operators(H100, "relu", words / 2, 2.0, MODE.constants).sum()
        ends = time_gemms(H100, Gemms.of(8, 64128, 4096), "bf16", MODE.constants, Setup("cold")).time_us[0]
        words = np.array([2.0 * 4096 * tokens, 2 * 2 * 8 * 128256])
        ends += time_operators(H100, "relu", words / 2, 2.0, MODE.constants).sum()
        gathered = collective_shapes("all_gather", 2, 8 * 128256 * 2)
        return float(32 * layer + ends + fastest(NCCL, gathered))

    prompt_s = (step_us(8 * 512, 512, 0) + (32 * 11 + 4) * LAUNCH_US) * 1e-6
    token_s = step_us(8, 1, 512 + 32) * 1e-6
    assert point.prompt_s == pytest.approx(prompt_s, rel=1e-9)
    assert point.first_token_s == pytest.approx(prompt_s, rel=1e-9)
    assert point.token_s == pytest.approx(token_s, rel=1e-9)
    assert point.tokens_per_s == pytest.approx(8 * 64 / (prompt_s + 63 * token_s), rel=1e-9)
    assert sum(part.token_us for part in point.operators) == pytest.approx(token_s * 1e6, rel=1e-9)


def test_memory__adds_up_by_hand():
    """Llama 3 8B on two GPUs: half of each layer and of both tables; 4 of 8 key-value heads of 128 words."""
    found = memory_of(H100, LLAMA, Request(1000, 24, in_flight=False), Split(10, tp=2))
    layer = 3072 * 4096 + 4096 * 2048 + 14336 * 4096 + 4096 * 7168
    assert found.weights == 2 * (32 * layer + 2 * 64128 * 4096)
    assert found.cache == 10 * 1024 * 32 * 2 * 4 * 128 * 2
    rows = 8 * 1000  # prompts of at most 8192 tokens go through at once
    assert found.activations == 2 * (2 * rows * 4096 + rows * 3 * 7168) + 8 * 128256 * 4
    assert found.room == 0.9 * 80e9
    halved = memory_of(H100, LLAMA, Request(1000, 24, cache_bytes=1.0, in_flight=False), Split(10, tp=2))
    assert halved.cache == found.cache / 2


def test_key_value_heads__are_copied_where_there_are_fewer_than_gpus():
    """Llama 3 8B has 8: each of 16 GPUs holds one of 128 words, as each of 8 does, and two of the 32 query heads."""
    request = Request(1000, 24, in_flight=False)
    caches = [memory_of(H100, LLAMA, request, Split(10, tp=tp)).cache for tp in (8, 16)]
    assert caches == [10 * 1024 * 32 * 2 * 128 * 2] * 2
    step = steps_of(LLAMA, "bf16", Split(10, tp=16), StepLoad(decoding=10, context=1012))["full"]
    sizes = {each.name: each.work.sizes for each in step}
    assert sizes["query, key, value"] == (10, (2 + 2 * 1) * 128, 4096, 1)
    assert sizes["attention"][3:] == (2, 1, 0)


def test_collectives__take_the_energy_of_bytes_that_are_read_and_written():
    """A GiB of each of eight GPUs."""
    work = Work("collective", (0, 8, 2**30))
    time_us, energy_j = Pricing(H100, LLAMA, MODE, "bf16", 2.0, 0.0).costs([work])[work]
    power_w = board_power_w(H100, "bf16", MODE.constants, 0.0, 2 * 2**30, time_us)
    assert energy_j == pytest.approx(power_w * time_us * 1e-6)
    assert power_w < H100.tdp_w


def test_memory__of_shared_experts_is_split_as_networks_are():
    """DeepSeek-V3 on 8 GPUs: to the latent vectors, and their queries, keys, values and outputs of 16 heads; an eighth
    of the networks, of each expert and of both tables, and all of the routing.
    """
    found = memory_of(H100, load_decoder("deepseek_v3"), Request(128, 1), Split(1, tp=8))
    attention = (1536 + 576) * 7168 + 16 * 192 * 1536 + 16 * 256 * 512 + 7168 * 16 * 128
    expert = 3 * 7168 * 2048 // 8
    layers = 3 * (attention + 3 * 7168 * 18432 // 8) + 58 * (attention + 257 * expert + 256 * 7168)
    assert found.weights == 2 * (layers + 2 * 129280 // 8 * 7168)


def test_memory__of_tied_tables_is_that_of_one_where_both_are_on_one_gpu():
    """GPT-2: 12 layers of 12 x 768^2 weights. On two GPUs each has 6 of them, and a table of its own."""
    found = [memory_of(H100, load_decoder("gpt2"), Request(128, 1), Split(1, pp=pp)).weights for pp in (1, 2)]
    assert found == [2 * (layers * 12 * 768**2 + 50257 * 768) for layers in (12, 6)]


@pytest.mark.parametrize("gpu", ["a100", "h100", "b200", "l40s"])
def test_all_reduce__is_by_the_faster_of_nccl_and_the_own_kernels_of_a_stack(gpu):
    gpu = load_gpu(gpu)
    sizes = [2.0**power for power in range(10, 32)]
    pricing = Pricing(gpu, LLAMA, serving_mode(gpu), "bf16", 2.0, 0.0)
    costs = pricing.costs([Work("collective", (0, 8, size)) for size in sizes])
    message = collective_shapes("all_reduce", 8, sizes)
    both = [fastest_kernels(kind, gpu, message).time_us for kind in (NCCL, ONE_SHOT)]
    assert [time_us for time_us, _ in costs.values()] == np.minimum(*both).tolist()


def test_stages__that_come_first_have_the_layers_that_are_left():
    assert stages(LLAMA, Split(1, pp=5)) == [7, 7, 6, 6, 6]


def test_stages__send_on_each_word_once_however_many_gpus_they_have():
    """Four tokens of 4096 words of 2 bytes: two GPUs send half of them each."""
    (send,) = steps_of(LLAMA, "bf16", Split(4, tp=2, pp=2), StepLoad(decoding=4, context=288))["send"]
    operation, gpus, size = send.work.sizes
    _, sent = sent_of(collective_shapes(OPERATIONS[operation], gpus, size))
    assert sent.tolist() == [4 * 4096 * 2 / 2]


def test_serve__runs_each_step_as_often_as_counted_by_hand(monkeypatch, tmp_path):
    """Two stages, of 2 layers and one; each operator takes 10 us and 1 mJ.

    A layer has 4 products, attention, norms twice, a rotation and an activation. Beside them a stage sends, the first
    one has the embedding, the last one the output layer and its sampling: 20 operators and 12. Prompts go two at a
    time, in 3 steps that follow each other through the stages; then each token passes both for two halves of the
    sequences. What a GPU does not work, it idles, as before each of the 32 kernels of a step of prompts.
    """
    monkeypatch.setattr("accelsim.gpu.serving.LAUNCH_US", 1.0)
    monkeypatch.setattr(Pricing, "costs", lambda _, every: dict.fromkeys(every, (10.0, 1e-3)))
    path = tmp_path / "mine.yaml"
    path.write_text(FILE.replace("layers: 2", "layers: 3"))
    point = serve_one(Split(6, pp=2), Request(4096, 4, in_flight=False), load_decoder(path))
    assert point.prompt_s == pytest.approx(352e-6)
    assert point.first_token_s == pytest.approx((3 * 220 + 132) * 1e-6)
    assert point.token_s == pytest.approx(2 * 200e-6)
    total_s, steps = (792 + 3 * 400) * 1e-6, 3 + 3 * 2
    assert point.tokens_per_s == pytest.approx(6 * 4 / total_s)
    energy_j = steps * 32e-3 + (2 * total_s - steps * 320e-6) * IDLE * H100.tdp_w
    assert point.energy_j == pytest.approx(energy_j / (6 * 4))
    assert point.power_w == pytest.approx(energy_j / total_s / 2)


def flown(request: Request, batch: int, path, monkeypatch):
    """Two layers on one GPU, each operator of which takes 10 us, and no gap lies between them."""
    monkeypatch.setattr(Pricing, "costs", lambda _, every: dict.fromkeys(every, (10.0, 1e-3)))
    monkeypatch.setattr("accelsim.gpu.serving.LAUNCH_US", 0.0)
    path.write_text(FILE)
    return serve_one(Split(batch), request, load_decoder(path))


def test_in_flight__each_place_takes_the_next_prompt_while_others_decode(monkeypatch, tmp_path):
    """Four sequences of 100 tokens, which say 11; a step has 60 tokens, 4 of which decode, so a prompt takes two.

    A step of tokens alone has 21 operators. One with a part of a prompt has 23, as attention of both is apart. In the
    12 steps in which a sequence comes, says its tokens and goes, four do: 8 steps have prompts, 4 have none. While one
    sequence says ten more tokens, the prompts of three others take 6 steps.
    """
    point = flown(Request(100, 11, step_tokens=60), 4, tmp_path / "mine.yaml", monkeypatch)
    assert (point.running, point.prompt_s) == (4, pytest.approx(230e-6))
    assert point.tokens_per_s == pytest.approx(4 * 11 / ((8 * 230 + 4 * 210) * 1e-6))
    assert point.token_s == pytest.approx((0.4 * 210 + 0.6 * 230) * 1e-6)
    busy = 3 * 460 / 2680
    first_us = 2 * 230 + 222 / 2 + 460 * busy / (2 - 2 * busy)
    assert point.first_token_s == pytest.approx(first_us * 1e-6)


def test_in_flight__a_sequence_alone_waits_for_none(monkeypatch, tmp_path):
    point = flown(Request(100, 11), 1, tmp_path / "mine.yaml", monkeypatch)
    assert (point.first_token_s, point.token_s) == (pytest.approx(210e-6), pytest.approx(210e-6))
    assert point.tokens_per_s == pytest.approx(11 / (11 * 210e-6))


def test_in_flight__prompts_that_fill_every_step_hold_up_all_tokens(monkeypatch, tmp_path):
    """Each of 8 sequences says 2 tokens, and its prompt takes 3 of the 24 steps in which all come once."""
    point = flown(Request(100, 2, step_tokens=48), 8, tmp_path / "mine.yaml", monkeypatch)
    assert point.token_s == pytest.approx(230e-6)
    assert point.tokens_per_s == pytest.approx(8 * 2 / (24 * 230e-6))


@pytest.mark.parametrize("pp", [1, 2])
def test_in_flight__runs_as_many_sequences_as_fit_on_average(pp):
    """What a sequence holds on average is its prompt and half of its output; the others wait for those that run."""
    request = Request(1000, 500, precision="fp8")
    many, point = 4000, serve_one(Split(4000, pp=pp), request)
    each = 2 * 8 * 128 * 1250 * 2 * 32 / pp
    assert point.memory.fits
    assert point.memory.cache == pytest.approx(point.running * each)
    assert point.memory.total + each > point.memory.room
    alone = serve_one(Split(point.running, pp=pp), request)
    assert point.tokens_per_s == pytest.approx(alone.tokens_per_s)
    turns = many / point.running - 1
    whole_s = point.running * request.output / point.tokens_per_s
    assert point.first_token_s == pytest.approx(alone.first_token_s + turns * whole_s)


def test_in_flight__one_sequence_is_in_one_stage_at_a_time(monkeypatch, tmp_path):
    """Of two stages of one layer each, one has 11 operators and one 12, and 10 us each; the other one idles meanwhile.

    A prompt and three more tokens pass both: 4 x 240 us, as the longer stage counts.
    """
    monkeypatch.setattr(Pricing, "costs", lambda _, every: dict.fromkeys(every, (10.0, 1e-3)))
    monkeypatch.setattr("accelsim.gpu.serving.LAUNCH_US", 0.0)
    path = tmp_path / "mine.yaml"
    path.write_text(FILE)
    point = serve_one(Split(1, pp=2), Request(100, 4), load_decoder(path))
    assert point.token_s == pytest.approx(240e-6)
    assert point.tokens_per_s == pytest.approx(4 / 960e-6, rel=0.02)
    energy_j = 4 * 23e-3 + (2 * 4 / point.tokens_per_s - 4 * 230e-6) * IDLE * H100.tdp_w
    assert point.energy_j == pytest.approx(energy_j / 4)


def test_in_flight__a_stack_adds_its_gaps_to_each_kernel():
    """A step of one token of Llama 3 8B on one GPU has 32 x 9 + 3 kernels."""
    alone, vllm = (serve(H100, LLAMA, Request(128, 64), [Split(1)], MODE, stack)[0].token_s for stack in ("", "vllm"))
    assert vllm - alone == pytest.approx((32 * 9 + 3) * GAPS_US["vllm"] * 1e-6)


def test_roofline__is_below_every_kernel():
    splits = [Split(batch, tp=tp) for batch in (1, 16, 128) for tp in (1, 4)]
    pairs = zip(
        *(serve(H100, LLAMA, Request(512, 128), splits, MODE, roofline=only) for only in (True, False)), strict=True
    )
    assert all(least.token_s < ours.token_s and least.tokens_per_s > ours.tokens_per_s for least, ours in pairs)


def test_layers__attend_to_windows_or_keep_a_state_as_the_model_has_them():
    """gpt-oss: every second layer sees 128 tokens. Qwen3.5: three of four keep 64 states of 128 x 128 words of 4 B."""
    oss, qwen = load_decoder("gpt_oss_120b"), load_decoder("qwen3_5_397b")
    (place,) = places(oss, Split(1))
    assert (place["full"], place["sliding"]) == (18, 18)
    step = steps_of(oss, "bf16", Split(1), StepLoad(decoding=3, context=1000))
    windows = {
        name: [each.work.sizes[5] for each in step[name] if each.group == "attention"]
        for name in place
        if name in ("full", "sliding")
    }
    assert windows == {"full": [0], "sliding": [128]}
    cached = memory_of(H100, oss, Request(1000, 24, in_flight=False), Split(2, tp=2)).cache
    assert cached == 2 * 18 * (1024 + 128) * 2 * 4 * 64 * 2
    kept = memory_of(H100, qwen, Request(1000, 24, in_flight=False), Split(2, tp=2)).cache
    assert kept == 2 * (15 * 1024 * 2 * 1 * 256 * 2 + 45 * 32 * 128 * 128 * 4)


@pytest.mark.parametrize(
    ("model", "precision", "narrow"),
    [("llama", "nvfp4", True), ("qwen3_moe", "nvfp4", False), ("qwen3_moe", "fp8", True)],
)
def test_formats__of_less_than_8_bits_are_of_experts_alone(model, precision, narrow):
    decoder = load_decoder(model)
    step = steps_of(decoder, precision, Split(1), StepLoad(decoding=4, context=100))
    kinds = {each.work.kind for each in step["full"] if each.group == "GEMM"}
    assert kinds == {"narrow product" if narrow else "product"}
    halved = [memory_of(H100, decoder, Request(128, 8, each), Split(1)).weights for each in ("bf16", precision)]
    assert halved[1] < halved[0]


def test_latent__prompts_and_tokens_of_a_step_have_their_own_products():
    """DeepSeek-V3: prompts make keys and values of the latent vector; tokens turn their queries into its space."""
    decoder = load_decoder("deepseek_v3")
    step = steps_of(decoder, "bf16", Split(1, tp=8), StepLoad(1, 512, 0, 16, 1000))["full"]
    rows = {each.name: each.work.sizes[0] for each in step if each.group == "GEMM"}
    assert rows["key, value from latent"] == 512
    assert rows["query to latent"] == rows["value from latent"] == 16
    assert rows["to latent"] == rows["attention output"] == 528


def test_memory__of_experts_is_shared_by_ranks():
    mixtral = load_decoder("mixtral")
    request = Request(128, 128)
    one, two, four = (memory_of(H100, mixtral, request, Split(1, tp=2, ep=ep)).weights for ep in (1, 2, 4))
    assert one == two  # half of each expert, or half of the experts
    experts = 2 * 32 * 8 * 3 * 4096 * 14336
    assert two - four == experts / 2 - experts / 4


def test_one_gpu__has_no_collectives():
    for pp, tp in itertools.product((1, 2), (1, 2)):
        point = serve_one(Split(4, tp=tp, pp=pp), Request(256, 32))
        names = {part.name for part in point.operators if part.group == "collectives"}
        assert names == ({"all_reduce", "all_gather"} if tp > 1 else set()) | (
            {"send to next stage"} if pp > 1 else set()
        )


@pytest.mark.parametrize("gpu", ["h100", "a100", "l40s", "b200"])
@pytest.mark.parametrize("model", ["llama", "llama_70b"])
def test_more_sequences__never_lower_throughput(gpu, model):
    """Of models whose caches do not fit in L2: fitted kernels are slower once they leave it (docs/gpu.md)."""
    gpu = load_gpu(gpu)
    splits = [Split(2**power, tp=tp) for tp in (1, 4) for power in range(9)]
    points = serve(gpu, load_decoder(model), Request(1024, 256), splits, serving_mode(gpu))
    for before, after in itertools.pairwise(points):
        if before.split.tp == after.split.tp:
            assert after.tokens_per_s >= before.tokens_per_s
            assert after.token_s >= 0.999 * before.token_s
            assert after.energy_j <= before.energy_j


@pytest.mark.parametrize("gpu", ["h100", "a100", "l40s", "b200"])
@pytest.mark.parametrize("model", ["llama", "llama_70b"])
def test_a_token__takes_as_long_as_weights_from_dram(gpu, model):
    gpu, decoder = load_gpu(gpu), load_decoder(model)
    for tp in (1, 2, 8):
        point = serve_one(Split(1, tp=tp), Request(128, 8), decoder, gpu)
        table = 2 * decoder.vocabulary / tp * decoder.hidden  # of the embedding one row is read
        assert point.token_s >= (point.memory.weights - table) / gpu.dram_bytes_per_s
        assert gpu.tdp_w * 0.15 <= point.power_w <= gpu.tdp_w


def test_a_token__is_that_of_the_middle_of_the_output():
    """The mean over the output: the cache grows by a token at a time."""
    middle = serve_one(Split(32), Request(1024, 2048, in_flight=False)).token_s
    each = [serve_one(Split(32), Request(1024 + done, 1, in_flight=False)).token_s for done in range(0, 2048, 64)]
    assert middle == pytest.approx(np.mean(each), rel=0.02)


def test_stages__send_on_and_wait_for_the_longest():
    """Two stages of 16 layers; a token passes both, each of which has half of the sequences at a time."""
    request = Request(256, 64, in_flight=False)
    whole, two = serve_one(Split(16), request), serve_one(Split(32, pp=2), request)
    assert two.token_s > whole.token_s
    assert two.tokens_per_s < 2 * whole.tokens_per_s
    assert two.memory.weights < 0.6 * whole.memory.weights
    alone = serve_one(Split(1, pp=2), request)
    assert alone.token_s > serve_one(Split(1), request).token_s
    waited = next(part for part in two.operators if part.group == "pipeline")
    assert 0 < waited.token_us < 0.2 * two.token_s * 1e6
    assert sum(part.token_us for part in two.operators) == pytest.approx(two.token_s * 1e6)


def test_ranks_of_experts__have_copies_of_the_attention():
    mixtral, request = load_decoder("mixtral"), Request(256, 64, in_flight=False)
    alone, copied = (serve_one(Split(batch, ep=ep), request, mixtral) for batch, ep in ((4, 1), (32, 8)))
    times = [{part.name: part.token_us for part in point.operators} for point in (alone, copied)]
    assert times[0]["attention"] == times[1]["attention"]
    assert "all_to_all" in times[1]
    assert copied.split.gpus == 8
    assert times[1]["experts"] < times[0]["experts"]


def test_front__is_what_no_other_point_beats():
    splits = [Split(batch, tp=tp) for batch in (1, 3, 8, 32, 100) for tp in (1, 2, 4, 8)]
    points = serve(H100, LLAMA, Request(512, 128), splits, MODE)

    def beaten(point) -> bool:
        return any(
            other.token_s <= point.token_s
            and other.tokens_per_s_gpu >= point.tokens_per_s_gpu
            and (other.token_s, other.tokens_per_s_gpu) != (point.token_s, point.tokens_per_s_gpu)
            for other in points
        )

    assert {point.split for point in front(points)} == {point.split for point in points if not beaten(point)}


def test_sweep__of_500_points_takes_less_than_5_s():
    splits = [Split(batch, tp, pp) for batch in range(1, 64) for tp in (1, 2, 4, 8) for pp in (1, 2)]
    begin = time.perf_counter()
    points = serve(H100, load_decoder("llama_70b"), Request(2048, 512), splits, MODE)
    assert len(points) == 504
    assert time.perf_counter() - begin < 5
    alone = serve_one(splits[77], Request(2048, 512), load_decoder("llama_70b"))
    assert points[77] == replace(alone, kernels=points[77].kernels)
    assert set(alone.kernels) <= set(points[77].kernels)  # of the whole sweep


def test_refusal__names_what_fits():
    seventy, split = load_decoder("llama_70b"), Split(400, tp=4)
    request = Request(2048, 512, in_flight=False)
    text = refusal(H100, seventy, request, split)
    batch, tp = (int(text.partition(f"--{name} ")[2].split()[0]) for name in ("batch", "tp"))
    fits = [memory_of(H100, seventy, request, Split(some, tp=4)).fits for some in (batch, batch + 1)]
    assert fits == [True, False]
    assert memory_of(H100, seventy, request, Split(400, tp=tp)).fits
    assert tp == 8


@pytest.mark.parametrize(
    ("model", "split", "why"),
    [
        ("llama", Split(1, tp=3), "--tp 3 does not divide 32 heads"),
        ("llama", Split(1, pp=33), "--pp 33: there are 32 layers"),
        ("llama", Split(1, ep=2), "--ep 2: llama3_8b has no experts"),
        ("mixtral", Split(1, ep=16), "--ep 16 does not divide 8 experts"),
        ("gpt2", Split(1, tp=4), ""),
        ("qwen3_5_397b", Split(1, tp=32), "--tp 32 does not divide 16 key heads of linear attention"),
        ("qwen3_moe", Split(1, tp=8, ep=2), ""),
    ],
)
def test_misfit__says_why_a_model_cannot_be_split(model, split, why):
    assert misfit(load_decoder(model), split) == why


def test_command__prints_one_split_and_its_operators(capsys):
    words = ["gpu", "serve", "h100", "llama", "--tp", "8", "--batch", "64", "--prompt", "2048", "--output", "512"]
    assert cli.main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = document["points"]
    assert document["model"] == "llama3_8b"
    assert row["gpus"] == 8
    assert row["fits"]
    assert row["tokens_per_s_gpu"] == row["tokens_per_s"] / 8
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    own = "attention prefill: calibrated: "
    for text in ("TTFT", "TPOT", "energy", "query, key, value", "all_reduce", "collectives", "NCCL:", own):
        assert text in out


def test_command__sweeps_and_draws_the_front(capsys, tmp_path):
    words = ["gpu", "serve", "h100", "llama", "--tp", "1,2", "--batch", "1,8,1000", "--together"]
    assert cli.main([*words, "--plot", str(tmp_path / "front.png")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Pareto-optimal in tokens/s/GPU and TPOT; 2 more do not fit in memory" in out
    assert (tmp_path / "front.png").stat().st_size > 10_000


def test_command__before_ampere_computes_in_fp16_and_names_what_is_left_out(capsys):
    assert cli.main(["gpu", "serve", "v100", "llama", "--tp", "1,3,4"]) == 0
    said = capsys.readouterr().err
    assert "does not compute in bf16: fp16 instead" in said
    assert said.count("left out: --") == 1


def test_command__refuses_what_does_not_fit(capsys):
    assert cli.main(["gpu", "serve", "h100", "llama_70b", "--batch", "4"]) == 1
    assert "it fits with --tp 2" in capsys.readouterr().err
    assert cli.main(["gpu", "serve", "a100", "llama_70b", "--mig", "3g.40gb"]) == 1
    assert "a larger slice is needed" in capsys.readouterr().err
    assert cli.main(["gpu", "serve", "a100", "llama", "--mig", "3g.40gb", "--together", "--batch", "4096"]) == 1
    said = capsys.readouterr().err
    assert "it fits with --batch" in said
    assert "--tp" not in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("h100 llama --tp 3", "does not divide 32 heads"),
        ("h100 llama --tp 0", "at least 1"),
        ("h100 llamas", "did you mean 'llama'"),
        ("p100 llama", "measured on tensor cores"),
        ("h100 llama --dtype fp7", "'fp7' is no number format"),
        ("h100 llama --stack nothing", "no stack 'nothing'"),
        ("h100 llama --plot front.png", "a picture is of a sweep"),
        ("h100 llama --tp 2 --mig 1g.10gb", "slices of GPUs have no links"),
        ("h100 llama --prompt 99999999999 --together", "whole number"),
    ],
)
def test_command__bad_input(words, why, capsys):
    assert cli.main(["gpu", "serve", *words.split()]) == 2
    assert why in capsys.readouterr().err


def test_prefix__goes_through_no_more_and_is_cached_once():
    """Of 2048 tokens 1024 are there: products have half the rows, attention still sees all keys."""
    whole, known = (Request(2048, 64, prefix=prefix, in_flight=False) for prefix in (0, 1024))
    split = Split(8)
    batches = StepLoad(4, 2048), StepLoad(4, 1024, 1024)
    one, two = (
        [each for place in ("full", "dense") for each in steps_of(LLAMA, "bf16", split, batch)[place]]
        for batch in batches
    )
    for before, after in zip(one, two, strict=True):
        if before.work.kind == "product":
            assert (before.work.sizes[0], before.work.sizes[1:]) == (2 * after.work.sizes[0], after.work.sizes[1:])
        if before.work.kind == "attention":
            assert (before.work.sizes[:3], after.work.sizes[:3]) == ((4, 2048, 0), (4, 1024, 1024))
    caches = [memory_of(H100, LLAMA, each, split).cache for each in (whole, known)]
    assert caches[1] / caches[0] == (1024 + 8 * (1024 + 64)) / (8 * (2048 + 64))
    first = [point.first_token_s for each in (whole, known) for point in serve(H100, LLAMA, each, [split], MODE)]
    assert 0.4 * first[0] < first[1] < 0.7 * first[0]


def test_command__refuses_a_prefix_as_long_as_the_prompt(capsys):
    assert cli.main(["gpu", "serve", "h100", "llama", "--prompt", "100", "--prefix", "100"]) == 2
    assert "prefix 100: a prompt of 100 tokens must have more" in capsys.readouterr().err


def test_page__of_a_sweep_has_each_point_that_fits(tmp_path, capsys):
    pytest.importorskip("plotly")
    file = tmp_path / "sweep.html"
    words = ["gpu", "serve", "h100", "llama", "--batch", "1,64,2048", "--tp", "1,2"]
    assert cli.main([*words, "--html", str(file), "--json"]) == 0
    assert "Each dot is one way to serve. Rings" in file.read_text(encoding="utf-8")
    points = [point for point in json.loads(capsys.readouterr().out)["points"] if point["fits"]]
    data = json.loads(re.search(r'id="data">(.*?)</script>', file.read_text(encoding="utf-8"))[1])
    names = [parameter["name"] for parameter in data["parameters"]]
    assert names == ["tp", "batch"]
    for point, (_, status, values, costs) in zip(points, data["designs"], strict=True):
        split = {name: int(data["parameters"][at]["values"][values[at]]) for at, name in enumerate(names)}
        assert split == {name: point["split"][name] for name in names}
        assert (status == "front") == point["front"]
        assert costs[0] == pytest.approx(point["token_s"], rel=1e-6)
    if find_browser():
        with Page(file) as page:
            assert page.errors == []
            page.run("document.querySelector('#designs tbody tr').click()")
            assert page.run("document.querySelector('#options').textContent") == "--tp 1 --batch 1"
    assert cli.main([*words[:4], "--html", str(file)]) == 2
    assert "a page is of a sweep" in capsys.readouterr().err
