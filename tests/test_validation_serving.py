"""Serving beside measurements: rows that are read by hand, requests that are walked by hand, what all runs come to."""

from __future__ import annotations

import json

import pytest

from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.decoder import load_decoder
from accelsim.gpu.serving import LAUNCH_US, Request, serve
from accelsim.gpu.steps import Split
from accelsim.gpu.work import serving_mode
from validation.replay import Waiting, step_times, walked
from validation.serving import compared, main, precision_of_run, read_runs, split_of
from validation.study import reference_paths

RUN = {
    **{"model_path": "meta-llama/Llama-3.1-70B", "system": "b200_sxm", "backend": "vllm", "precision": "fp8"},
    **{"isl": "1024", "osl": "8192", "batch_size": "16", "silicon_data_source": "x; silicon_concurrency=64; y"},
    **{"tp_size": "4", "attention_dp_size": "1", "moe_tp_size": "4", "moe_ep_size": "1"},
    **{"silicon_ttft_ms": "100", "silicon_tpot_ms": "10"},
}


@pytest.mark.parametrize(
    ("sizes", "split"),
    [
        ((4, 1, 4, 1), Split(16, tp=4)),
        ((8, 1, 1, 8), Split(16, tp=8, ep=8)),
        ((16, 1, 4, 4), Split(16, tp=4, ep=4)),  # the product of both: `tp4_ep4` in its id
        ((64, 1, 8, 8), Split(16, tp=8, ep=8)),
        ((1, 64, 8, 8), Split(64, tp=1, ep=8)),  # data parallel attention on eight GPUs, 64 requests in all
        ((4, 4, 1, 16), Split(64, tp=1, ep=4)),
        ((1, 4, 2, 2), Split(64, tp=1, ep=2)),
    ],
)
def test_split_of__finds_the_gpus_of_a_run(sizes, split):
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    assert split_of(RUN | dict(zip(names, map(str, sizes), strict=True)), experts=True) == split


def test_read_runs__takes_lengths_as_they_are_drawn_and_says_what_it_leaves_out():
    other = {"model_path": "zhipuai/GLM-5"}, {"system": "mi300x"}, {"tp_size": "3"}
    (run,), left = read_runs([RUN, *(RUN | each for each in other)])
    assert (run.request.prompt, run.request.output, run.request.cache_bytes) == (922, 7373, 1.0)
    rate = 16 * 7373 / (0.1 + 7372 * 0.01) / 4
    assert run.measured == pytest.approx({"token_s": 0.01, "first_token_s": 0.1, "tokens_per_s_gpu": rate})
    assert [line.partition(": ")[2] for line in left] == [
        "no decoder of GLM-5 ships",
        "no GPU mi300x ships",
        "Llama-3.1-70B: --tp 3 does not divide 64 heads",
    ]
    (whole,), _ = read_runs([RUN | {"isl": "1000"}])
    assert (whole.request.prompt, whole.request.output) == (1000, 8192)


@pytest.mark.parametrize(
    ("name", "ships"),
    [
        ("Llama-3.3-70B-Instruct-FP8", True),
        ("DeepSeek-R1-NVFP4", True),
        ("DeepSeek-R1-Distill-Llama-70B", False),
        ("DeepSeek-V3.2", False),
        ("Qwen3-30B-A3B-Instruct-2507", True),
    ],
)
def test_read_runs__knows_models_by_their_names(name, ships):
    """A model that is distilled, or has sparse attention, is another one."""
    found, left = read_runs([RUN | {"model_path": f"x/{name}"}])
    assert (len(found), len(left)) == ((1, 0) if ships else (0, 1))


def test_precisions__are_those_of_checkpoints():
    b200, h100 = load_gpu("b200"), load_gpu("h100")
    assert precision_of_run(b200, "llama_70b", "fp4") == "nvfp4"
    assert precision_of_run(b200, "deepseek_v3", "fp8") == "fp8_block"
    assert [precision_of_run(gpu, "gpt_oss_120b", "fp4") for gpu in (b200, h100)] == ["w4a8_mxfp4_mxfp8", "w4a16_mxfp4"]


def steady(tokens_and_more):
    """A step takes 1 s, and 1 s for each ten tokens of prompts."""
    ((tokens, _, _),) = tokens_and_more
    return [1 + tokens / 10]


def test_walked__two_requests_by_hand():
    """Prompts of 20 and 30 tokens, at most 40 a step: 20 and 20 in 5 s, 10 beside a token in 2 s, then one in 1 s."""
    one, two = Waiting(0.0, 20, 3), Waiting(0.0, 30, 2)
    walked([one, two], steady, 40, 1000)
    assert (one.first, one.last) == (5, 8)
    assert (two.first, two.last) == (7, 8)


def test_walked__one_that_finds_no_room_waits():
    """The cache has room for three blocks of 16, each prompt needs two; a request at 0.5 s comes in the next step."""
    one, two = Waiting(0.0, 30, 2), Waiting(0.5, 30, 1)
    walked([one, two], steady, 100, 48)
    assert (one.first, one.last) == (4, 5)
    assert (two.first, two.last) == (9, 9)


def test_walked__the_last_gives_its_room_back_and_what_others_took_goes_through_again():
    """Two blocks for each of two prompts of 32 tokens; with the first word each needs a third.

    With five blocks the second one stops, but keeps its two. When the first is done after two more steps, the second
    says its two other words. With four blocks it keeps one, so that 17 tokens go through before its second word.
    """
    for blocks, again_s in ((5, 1.0), (4, 1 + 1.7)):
        one, two = Waiting(0.0, 32, 3), Waiting(0.0, 32, 3)
        walked([one, two], steady, 100, 16 * blocks)
        assert (one.first, one.last) == (7.4, 9.4)
        assert two.first == 7.4
        assert two.last == pytest.approx(9.4 + again_s + 1)


def test_step_times__are_those_of_serve():
    """A step of 32 sequences of Llama 3 8B at 1100 tokens, between points of the table, and a prompt of 2048 tokens."""
    gpu, llama = load_gpu("h100"), load_decoder("llama")
    times = step_times(gpu, llama, Split(1), "vllm")
    (point,) = serve(gpu, llama, Request(1084, 32, in_flight=False), [Split(32)], serving_mode(gpu), "vllm")
    assert times([(0, 32, 1100)])[0] == pytest.approx(point.token_s, rel=0.01)
    (point,) = serve(gpu, llama, Request(2048, 2), [Split(1)], serving_mode(gpu), "vllm")
    assert times([(2048, 0, 128)])[0] == pytest.approx(point.prompt_s, rel=1e-9)
    assert LAUNCH_US > 0


@pytest.fixture(scope="module")
def document(shared):
    (folder,) = reference_paths([], "data/gpu/serving")
    return compared(folder / f"{name}.csv" for name in ("runs", "published", "layers", "requests"))


REACH = {
    **{("all", "all but DeepSeek"): (0.115, 0.125), ("all", "DeepSeek"): (0.17, 0.17)},
    **{("model", "Llama-3.1-70B"): (0.07, 0.07), ("GPU", "h200_sxm"): (0.195, 0.19)},
}
"""Median errors of the time per token and of tokens/s/GPU that runs stay below."""


@pytest.mark.parametrize("group", REACH)
def test_runs__errors_of_all(document, group):
    row = next(row for row in document["errors"] if (row["by"], row["name"]) == group)
    assert (row["token_s"] < REACH[group][0], row["tokens_per_s_gpu"] < REACH[group][1]) == (True, True)
    assert row["roofline_token_s"] > 3 * row["token_s"]


def test_gaps__that_ship_are_near_those_that_fit_blackwell(document):
    for row in document["gaps"]:
        assert row["ships_us"] == pytest.approx(max(0, row["blackwell_us"]), abs=0.3)


def test_published__errors_by_quantity(document):
    found = {}
    for row in document["published"]:
        found.setdefault(row["quantity"], []).append(abs(row["error"]))
    medians = {name: sorted(errors)[len(errors) // 2] for name, errors in found.items()}
    assert medians["first token [ms]"] < 0.12
    assert medians["tokens/s, most load"] < 0.08


def test_layers__errors_of_each_gpu(document):
    worst = {
        gpu: max(row["error"] for row in document["layers"] if row["gpu"] == gpu)
        for gpu in ("a100_sxm_80gb", "h100_sxm")
    }
    assert worst["a100_sxm_80gb"] < 0.07
    assert worst["h100_sxm"] < 0.17


def test_requests__means_of_each_run(document):
    errors = {row["run"]: row["error_token"] for row in document["requests"]}
    assert abs(errors["RTX4090/Llama-3.1-8B"]) < 0.12
    assert abs(errors["RTXPRO6000/Qwen3-32B"]) < 0.28


def test_command__prints_tables_and_refuses_others(tmp_path, capsys, document, monkeypatch):
    monkeypatch.setattr("validation.serving.compared", lambda _: document)
    assert main(["any.csv"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for text in ("all but DeepSeek", "aiconfigurator 7.8 %", "Gaps between kernels", "most load", "RTX4090"):
        assert text in printed
    assert main(["any.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_compared"]
    monkeypatch.undo()
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    assert main([str(path)]) == 2
    assert ":1:1: expected the columns of runs, published figures, layers or requests" in capsys.readouterr().err
