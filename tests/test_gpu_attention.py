"""Fused attention: tiles and pairs counted by loops, laws, measured rows, and what tables and commands refuse."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.cli import main as cli
from accelsim.gpu.attention_times import (
    DECODE,
    KEYS,
    MLA_DECODE,
    PREFILL,
    attention_shapes,
    can_fuse,
    latent_shapes,
    pairs_of,
    tiles_of,
    time_attention,
    word_bytes,
)
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import catalogue, load_gpu
from accelsim.gpu.fitted import gone, shapes_of, shipped, time_kernels
from accelsim.gpu.kernel import FUSED
from accelsim.gpu.network import attention_pairs, network_kernels, products_of
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.workload_reader import load_workload
from validation import kernels
from validation.kernel_fits import Rows, fit_sets, joined, nearest, nearest_stack, predict, sources
from validation.kernels import read_kernels, validate_kernels

H100, B200 = load_gpu("h100"), load_gpu("b200")


def shapes(**sizes):
    usual = {"batch": 1, "tokens": 1, "heads": 8, "kv_heads": 8, "head_size": 128}
    return attention_shapes(**{**usual, **sizes})


def seen(query: int, cached: int, window: int, tokens: int = 0) -> range:
    """Keys that a query sees: those up to itself, at most `window` of them; with `tokens`, those after it too."""
    last = cached + (tokens - 1 if tokens else query)
    return range(max(0, last - window + 1) if window else 0, last + 1)


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 50))
def test_pairs_of__equal_the_walked_count(tokens, cached, window):
    walked = sum(len(seen(query, cached, window)) for query in range(tokens))
    assert pairs_of(shapes(tokens=tokens, cached=cached, window=window)).tolist() == [walked]


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 50))
def test_least__moves_each_key_that_some_query_sees_once(tokens, cached, window):
    """Two sequences of 8 query heads and 4 key-value heads of 128 words of 2 bytes: Q, K, V and the result."""
    keys = set().union(*(seen(query, cached, window) for query in range(tokens)))
    moved = 2 * (8 * tokens + 4 * len(keys)) * 2 * 128 * 2
    made = shapes(batch=2, kv_heads=4, tokens=tokens, cached=cached, window=window)
    assert PREFILL.least(H100, made)[1] == pytest.approx(moved / H100.dram_bytes_per_s * 1e6)


@given(st.integers(1, 40), st.integers(0, 40))
def test_pairs_of__without_a_mask_equal_the_walked_count(tokens, cached):
    walked = sum(len(seen(query, cached, 0, tokens)) for query in range(tokens))
    assert pairs_of(shapes(tokens=tokens, cached=cached, causal=0)).tolist() == [walked]


WIDE = {"h100_sxm": 128, "b200": 256, "a100_sxm_80gb": 128, "l40s": 64}
"""Queries of a tile for heads of 128 words."""
GPUS = st.sampled_from([load_gpu(name) for name in WIDE])


@given(st.integers(1, 600), st.integers(0, 300), GPUS)
def test_tiles_of__without_a_mask_go_through_all_keys(tokens, cached, gpu):
    wide = WIDE[gpu.name]
    step = min(wide, int(KEYS))
    steps = len({key // step for key in range(cached + tokens)})
    walked = [steps * step for _ in range(0, tokens, wide)]
    count, keys, last = tiles_of(gpu, shapes(tokens=tokens, cached=cached, causal=0))
    assert (count[0], keys[0], last[0]) == (len(walked), sum(walked), walked[-1])


def walked_tiles(wide: int, tokens: int, cached: int, window: int) -> tuple[int, float, float]:
    """Tiles, keys of all, keys of the last: a step is touched or not; windows begin anywhere in one, on average."""
    step, keys, last = min(wide, int(KEYS)), 0.0, 0.0
    starts = range(0, tokens, wide)
    for first in starts:
        queries = range(first, min(first + wide, tokens))
        whole = {key // step for query in queries for key in seen(query, cached, 0)}
        last = len(whole) * step
        if window:
            length = window + min(wide, tokens) - 1
            offsets = [len({key // step for key in range(at, at + length)}) for at in range(step)]
            last = min(last, sum(offsets) / step * step)
        keys += last
    return len(starts), keys, last


@given(st.integers(1, 600), st.integers(0, 300), st.sampled_from([0, 1, 100, 128, 500]), GPUS)
def test_tiles_of__equal_the_walked_count(tokens, cached, window, gpu):
    wide = WIDE[gpu.name]
    found = [float(values[0]) for values in tiles_of(gpu, shapes(tokens=tokens, cached=cached, window=window))]
    assert found == pytest.approx(walked_tiles(wide, tokens, cached, window))


@pytest.mark.parametrize("size", ["batch", "heads", "cached", "tokens"])
@pytest.mark.parametrize("decode", [True, False])
def test_time_attention__more_work_takes_no_less_time(size, decode):
    usual = {"batch": 4, "heads": 16, "kv_heads": 1, "cached": 4096, "tokens": 1 if decode else 512}
    if decode and size == "tokens":
        return
    grown = [2**power * 2 for power in range(10)]
    times = time_attention(H100, shapes(**{**usual, size: grown}), stack="vllm").time_us
    assert all(after >= before for before, after in itertools.pairwise(times.tolist()))


@pytest.mark.parametrize("gpu", catalogue(), ids=lambda gpu: gpu.name)
def test_time_attention__is_sensible_on_each_gpu_that_ships(gpu):
    """Long prompts stay below the peak, and long caches below the bandwidth of DRAM with a fifth more."""
    if not can_fuse(gpu, "bf16"):
        with pytest.raises(AccelsimError, match="measured on tensor cores"):
            time_attention(gpu, shapes())
        return
    prompt = shapes(batch=8, tokens=16384, heads=32)
    operations = 4 * 128 * float(pairs_of(prompt)[0]) * 8 * 32
    share = (
        operations
        / gpu.flops("bf16" if "bf16" in gpu.mma else "fp16")
        / (time_attention(gpu, prompt).time_us[0] * 1e-6)
    )
    assert 0.1 < share < 1
    cache = shapes(batch=256, heads=32, kv_heads=8, cached=32768)
    moved = 256 * 32769 * 8 * 256 * 2
    assert 0.2 < moved / gpu.dram_bytes_per_s / (time_attention(gpu, cache).time_us[0] * 1e-6) < 1.2


def test_time_attention__parts_add_up_and_labels_say_where_constants_are_from():
    times = time_attention(load_gpu("h200"), shapes(batch=[1, 64], cached=2048), stack="vllm")
    assert np.sum(list(times.parts_us.values()), axis=0) == pytest.approx(times.time_us)
    assert times.label.startswith("not calibrated for one head on h200_sxm: constants of")  # FA3: too few such rows
    assert "h100_sxm" in times.label
    assert time_attention(H100, shapes(heads=32, kv_heads=8), stack="VLLM/vllm_flash_attn_fa3").calibrated
    assert time_attention(load_gpu("h100", "1g.10gb"), shapes()).label.startswith("not calibrated on h100_sxm:1g.10gb")
    narrow = time_attention(load_gpu("a100"), shapes(heads=32, kv_heads=8, cached=2048, cache_bytes=1.0))
    assert narrow.label.startswith("not calibrated for FP8 cache on a100_sxm_80gb: constants of")  # none was measured
    assert "TRTLLM/torch_flow" in time_attention(H100, shapes()).label  # measured most
    assert "all stacks" in time_attention(load_gpu("rtx_pro_6000"), shapes()).label


def test_latent_shapes__absorbed_heads_share_one_latent_vector():
    absorbed = latent_shapes(batch=1, tokens=1, heads=128, cached=99, absorbed=True)
    apart = latent_shapes(batch=1, tokens=1, heads=128, cached=99, absorbed=False)
    assert [absorbed[name].tolist() for name in ("kv_heads", "cache_words", "head_size")] == [[1], [576], [576]]
    assert [apart[name].tolist() for name in ("kv_heads", "cache_words", "value_size")] == [[128], [320], [128]]


def test_shapes__refuse_what_is_none():
    with pytest.raises(AccelsimError, match="kv_heads must divide heads"):
        shapes(heads=6, kv_heads=4)
    with pytest.raises(AccelsimError, match="tokens must be a whole number from 1"):
        shapes(tokens=0.5)
    with pytest.raises(AccelsimError, match="batch must be a whole number from 1"):
        shapes(batch=float("nan"))
    with pytest.raises(AccelsimError, match="time them apart"):
        time_attention(H100, shapes(tokens=[1, 2]))
    with pytest.raises(AccelsimError, match="no stack 'vlm' was measured"):
        time_attention(H100, shapes(), stack="vlm")
    with pytest.raises(AccelsimError, match="bf16, fp16, fp8"):
        word_bytes("int4")
    assert shapes_of({"batch": 1}, batch=3, other=0.5)["other"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("name", "count"),
    [("llama", 1), ("llama_decode", 1), ("bert_base", 1), ("gpt2", 1), ("vit", 1), ("resnet50", 0)],
)
def test_attention_pairs__of_networks(name, count):
    workload = load_workload(name)
    layers, products, _ = products_of(workload)
    found = attention_pairs(layers, products, workload.edges)
    pairs = [(layers[a].name, layers[b].name) for a, b in found.items()]
    assert pairs == [("attention_scores", "attention_context")] * count


def test_network_kernels__attention_is_one_kernel_with_the_operations_of_both():
    """Of 2,048 tokens a causal kernel has the lower half with its diagonal, 2,049 of 4,096 pairs."""
    workload = load_workload("llama")
    layers, products, _ = products_of(workload)
    mode = mode_of(H100, "bf16")

    def kernels(attention):
        found = network_kernels(H100, layers, products, workload.edges, "bf16", mode, attention=attention)
        return {kernel.name: kernel for kernel, _ in found}

    apart, full, causal = kernels("apart"), kernels("full"), kernels("causal")
    both = [apart[name] for name in ("attention_scores", "attention_context")]
    fused, half = (found["attention_scores + attention_context"] for found in (full, causal))
    assert fused.flops == sum(kernel.flops for kernel in both)
    assert half.flops / fused.flops == pytest.approx(2049 / 4096)
    assert half.time_us < fused.time_us
    assert fused.dram_bytes < 0.2 * sum(kernel.dram_bytes for kernel in both)
    assert fused.schedule == FUSED
    assert set(full) - set(apart) == {fused.name}


def test_map__of_attention_alone_is_one_kernel(capsys):
    assert cli.main(["map", "h100_sxm", "attention"]) == 0
    out, err = capsys.readouterr()
    assert "scores + context" in out
    assert err == "left out of the total: softmax: softmax; that is not a GEMM\n"


def test_map__prints_attention_as_one_kernel_unless_asked(capsys):
    assert cli.main(["map", "h100_sxm", "llama_decode"]) == 0
    text = capsys.readouterr().out
    assert "attention_scores + attention_context x32" in text
    assert "attention is one kernel, calibrated" in " ".join(text.split())
    assert cli.main(["gpu", "map", "h100_sxm", "llama_decode", "--attention", "apart"]) == 0
    assert "attention is one kernel" not in capsys.readouterr().out


def rows_of(gpus, kind, made, constants, seed=0):
    """Rows that take exactly what the constants say."""
    which = np.random.default_rng(seed).integers(0, len(gpus), len(made["batch"]))
    times = np.empty(len(which))
    for at, gpu in enumerate(gpus):
        mine = {name: sizes[which == at] for name, sizes in made.items()}
        times[which == at] = sum(kind.parts(gpu, mine, constants).values())
    held = np.arange(len(which)) % 3 == 0
    return Rows(tuple(gpus), which, np.array(["A/a"] * len(which)), made, times, held)


@pytest.mark.parametrize("kind", [PREFILL, DECODE], ids=lambda kind: kind.name)
def test_fit_sets__finds_the_times_of_known_constants(kind):
    pytest.importorskip("scipy")
    random = np.random.default_rng(1)
    draw = {name: 2 ** random.integers(0, most, 400) for name, most in (("batch", 7), ("tokens", 13), ("heads", 4))}
    draw |= {"kv_heads": draw["heads"], "cached": 2 ** random.integers(0, 13, 400)}
    made = shapes(**draw) if kind is PREFILL else shapes(**{**draw, "tokens": 1})
    constants = {name: (one.start * one.low * one.high) ** (1 / 3) for name, one in kind.constants.items()}
    constants |= {"launch_us": 9.0, "math": 0.6, "memory": 0.7}
    rows = rows_of([H100, load_gpu("a100"), B200], kind, made, constants)
    found = predict(kind, rows, fit_sets(kind, rows))
    assert np.median(np.abs(found / rows.time_us - 1)[rows.held]) < 0.05


def test_fit_sets__a_new_stack_has_the_constants_of_its_library():
    """Kernels of one library take 30 us to launch and others 5; a stack that was not measured takes the library's."""
    pytest.importorskip("scipy")
    made = shapes(batch=np.tile([1, 2, 4, 8], 50), tokens=1, cached=64)
    start = {name: one.start for name, one in DECODE.constants.items()}
    slow, fast = (rows_of([H100], DECODE, made, start | {"launch_us": us}) for us in (30.0, 5.0))
    slow, fast = replace(slow, stack=np.full(200, "A/flash_attn")), replace(fast, stack=np.full(200, "A/other"))
    found = fit_sets(DECODE, joined([slow, fast]))
    new = replace(slow, stack=np.full(200, "B/fa3"))
    assert nearest_stack(found, "A/flash_attn") == "A/flash_attn"
    assert (nearest_stack(found, "B/fa3"), nearest_stack(found, "B/unknown")) == ("/FlashAttention", "")
    assert predict(DECODE, new, found) == pytest.approx(new.time_us, rel=0.05)
    assert found.of(H100, None).stack.startswith("A/")
    assert "FlashAttention on" in found.of(B200, "/FlashAttention").text


@pytest.mark.parametrize("kind", [PREFILL, DECODE], ids=lambda kind: kind.name)
def test_launches__are_cycles(kind):
    """At 1.7 GHz constants are what they say; at 0.85 GHz a launch takes twice as long."""
    constants = {name: one.start for name, one in kind.constants.items()}
    for clock in (1.7e9, 0.85e9):
        parts = kind.parts(replace(H100, boost_hz=clock), shapes(tokens=1, cached=1), constants)
        assert parts["launch"] == pytest.approx(constants["launch_us"] * 1.7e9 / clock)


def test_fit_sets__an_unseen_family_has_the_constants_of_the_stack_on_its_path():
    """Launches take 30 us where operands come from shared memory and 5 us where from registers."""
    pytest.importorskip("scipy")
    made = shapes(batch=np.tile([1, 2, 4, 8], 50), tokens=1, cached=64)
    start = {name: one.start for name, one in DECODE.constants.items()}
    of_path = {"async": 30.0, "mma": 5.0}
    known = [
        rows_of([load_gpu(name)], DECODE, made, start | {"launch_us": of_path[path]})
        for name, path in (("h100", "async"), ("a100", "mma"))
    ]
    found = fit_sets(DECODE, joined(known))
    assert {one.family for one in found.sets} == {"", "async", "mma", "hopper 9", "ampere 8"}
    for name, path in (("b200", "async"), ("l40s", "mma"), ("rtx_pro_6000", "mma")):
        new = rows_of([load_gpu(name)], DECODE, made, start | {"launch_us": of_path[path]})
        assert found.of(new.gpus[0], "A/a").family == path
        assert predict(DECODE, new, found) == pytest.approx(new.time_us, rel=0.1)


def test_fit_sets__rows_faster_than_their_bytes_serve_their_own_family_alone():
    """An eighth of the A100's rows take half as long as DRAM needs for them: the cache that they read was another."""
    pytest.importorskip("scipy")
    made = shapes(batch=np.tile([1, 2, 4, 8, 16, 32, 64, 128], 50), heads=32, tokens=1, cached=8192)
    start = {name: one.start for name, one in DECODE.constants.items()}
    known = [rows_of([load_gpu(name)], DECODE, made, start) for name in ("h100", "a100")]
    least_us = made["batch"] * 8193 * 8 * 256 * 2 / 2039e9 * 1e6
    much = made["batch"] == 128
    known[1] = replace(known[1], time_us=np.where(much, least_us / 2, known[1].time_us))
    found = {one.family: one for one in fit_sets(DECODE, joined(known)).sets}
    fitted, wrong = (~known[1].held).sum(), (much & ~known[1].held).sum()
    assert (found["ampere 8"].rows, found["mma"].rows) == (fitted, fitted - wrong)
    assert found[""].rows == fitted - wrong + (~known[0].held).sum()
    assert found["mma"].values["memory"] == pytest.approx(start["memory"], rel=0.05)


def test_decode__latent_heads_share_a_tile_of_64_where_operands_come_from_registers():
    """A sequence on each SM, one block for 64 heads and two for more; a key takes an A100 and an L40S as many cycles
    where shared memory is what all wait for."""
    constants = {name: one.start for name, one in MLA_DECODE.constants.items()}
    constants |= {"smem": 9.0, "part_keys": 1e6, "memory": 1e9, "l2": 1e9}
    cycles = {}
    for name in ("a100", "l40s", "h100"):
        gpu = load_gpu(name)
        made = latent_shapes(batch=gpu.sms, tokens=1, heads=[1, 64, 96, 128], cached=8192, absorbed=True)
        times = MLA_DECODE.parts(gpu, made, constants)["keys and values"]
        cycles[name] = times[0] * gpu.boost_hz * 1e-6 / 8193
        assert (times / times[0] == pytest.approx([1, 1, 2, 2])) == (name != "h100")
    assert cycles["a100"] == pytest.approx(9 * 64 / 16 * (576 + 512) * 2 / 128, rel=0.01)
    assert cycles["l40s"] == pytest.approx(cycles["a100"], rel=0.01)


def test_prefill__in_fp8_gains_where_operands_come_from_shared_memory():
    """Constants of FP8 are those of the path: what is said of one changes nothing on the other."""
    made = shapes(batch=8, tokens=4096, query_bytes=1.0, cache_bytes=1.0)
    constants = {name: one.start for name, one in PREFILL.constants.items()}
    for gpu, own, other in ((H100, "fp8_math", "fp8_mma"), (load_gpu("l40s"), "fp8_mma", "fp8_math")):
        usual, slower, same = (
            PREFILL.parts(gpu, made, constants | changed)["tiles"][0]
            for changed in ({}, {own: 2 * constants[own]}, {other: 2 * constants[other]})
        )
        assert slower > 1.5 * usual == 1.5 * same


def test_prefill__blackwell_ultra_has_twice_the_exponentials():
    """Where exponentials are what all wait for, a tile takes half as long; where products are, as long."""
    made, ultra = shapes(tokens=128, cached=2**17), replace(B200, compute_capability=(10, 3))
    constants = {name: one.start for name, one in PREFILL.constants.items()}
    constants |= {"shown": 1e-9, "step_us": 1e-9, "tile_us": 1e-9}
    for exponential, ratio in ((8.0, 2.0), (0.01, 1.0)):
        usual, new = (
            PREFILL.parts(gpu, made, constants | {"exponential": exponential})["tiles"][0] for gpu in (B200, ultra)
        )
        assert usual == pytest.approx(ratio * new, rel=1e-3)


def test_gone__an_l2_of_two_partitions_holds_half():
    """An H100 has 50 MiB in two partitions, an L40S 96 MiB in one: half of what is moved stays at 25 and 96 MiB."""
    for gpu, size in ((H100, 25.0), (load_gpu("l40s"), 96.0), (load_gpu("v100_pcie"), 6.0)):
        assert gone(gpu, np.array([size * 2**20]), 1.0) == pytest.approx(0.5)


def test_nearest__is_the_row_of_least_distance():
    made = shapes(batch=[1, 8, 64], tokens=[16, 16, 16])
    rows = rows_of([H100], PREFILL, made, {name: one.start for name, one in PREFILL.constants.items()})
    asked = rows_of(
        [H100], PREFILL, shapes(batch=[5, 50, 2], tokens=[16, 20, 15]), dict(shipped(PREFILL.name).sets[0].values)
    )
    assert nearest(rows, asked).tolist() == [1, 2, 0]


def test_shipped__constants_lie_in_their_ranges_and_name_their_table(shared):
    for kind in (PREFILL, DECODE):
        assert sources(kind.name)["table"].endswith(".csv")
        for one in shipped(kind.name).sets:
            assert all(
                kind.constants[name].low * 0.999 <= value <= kind.constants[name].high * 1.001
                for name, value in one.values.items()
            )


REACH = {
    **{"attention_prefill": (0.12, 0.11), "attention_decode": (0.13, 0.14)},
    **{"mla_prefill": (0.15, 0.14), "mla_decode": (0.12, 0.11)},
}
"""Median error of held-out rows with the constants that ship: of any GPU, and of rows above 100 us."""


@pytest.mark.parametrize("name", REACH)
def test_shipped__errors_of_held_out_rows(shared, name):
    path = shared / "data" / "gpu" / "kernels" / f"{name}.csv"
    (table,) = read_kernels(path, "attention")
    assert sources(table.kind.name)["sha256"] == table.sha256
    rows = table.rows.take(table.rows.held)
    error = np.abs(predict(table.kind, rows, shipped(table.kind.name)) / rows.time_us - 1)
    for which in range(len(rows.gpus)):
        mine = rows.which == which
        assert np.median(error[mine]) < REACH[name][0]
        assert np.median(error[mine & (rows.time_us > 100)]) < REACH[name][1]


HEAD = "gpu,framework,kernel_source,op_name,batch_size,isl,num_heads,num_key_value_heads,head_dim,step,window_size,"
HEAD += "attn_dtype,kv_cache_dtype,time_us\n"


def table_of(path, gpus=("NVIDIA H200", "a100"), kind="context_attention", tokens=64):
    lines = []
    for gpu, batch, heads in itertools.product(gpus, range(1, 26), (4, 8, 16, 32)):
        made = shapes(batch=batch, heads=heads, kv_heads=4, tokens=tokens)
        time_us = time_kernels(PREFILL, load_gpu(gpu), made, "trtllm").time_us[0]
        lines.append(f"{gpu},TRTLLM,torch_flow,{kind},{batch},{tokens},{heads},4,128,0,,bfloat16,bfloat16,{time_us}")
    path.write_text(HEAD + "\n".join(lines) + "\n")
    return path


def test_validate_kernels__of_a_foreign_table_says_what_was_known(tmp_path):
    pytest.importorskip("scipy")
    found, notes = validate_kernels([table_of(tmp_path / "x.csv")], "attention")
    assert notes == []
    assert {case.mode for case in found} == {"family left out", "shipped", "calibrated"}
    shipped_h200 = next(c for c in found if (c.gpu, c.mode, c.method) == ("h200_sxm", "shipped", "ours"))
    assert shipped_h200.rows == 100
    assert shipped_h200.median < 0.25
    shipped_a100 = next(c for c in found if (c.gpu, c.mode, c.method) == ("a100_sxm_80gb", "shipped", "ours"))
    assert shipped_a100.rows < 100  # held-out rows alone: constants were fitted to an A100
    assert {case.method for case in found if case.mode == "calibrated"} == {"ours", "roofline", "nearest"}


def test_validate__command_prints_a_line_of_each_mode(tmp_path, capsys):
    pytest.importorskip("scipy")
    path = table_of(tmp_path / "x.csv", ["NVIDIA H200"])
    assert kernels.main(["attention", str(path)]) == 0
    text = capsys.readouterr().out
    assert "h200_sxm" in text
    assert "shipped" in text
    assert "calibrated" in text
    assert "left out" not in text
    assert kernels.main(["attention", str(path), "--json"]) == 0
    assert {row["method"] for row in json.loads(capsys.readouterr().out)["attention"]} == {
        "ours",
        "roofline",
        "nearest",
    }
    assert kernels.main(["attention", str(path), "--gpu", "l40s"]) == 2
    assert "no row to compare of l40s" in capsys.readouterr().err


def test_gpu_attention__prints_what_it_is_made_of(capsys):
    words = ["gpu", "attention", "h100", "--batch", "4", "--tokens", "2048", "--heads", "32", "--kv-heads", "8"]
    assert cli.main([*words, "--stack", "vllm"]) == 0
    text = capsys.readouterr().out
    assert "attention, prefill" in text
    assert "tiles" in text
    assert "VLLM/" in text
    assert cli.main(["gpu", "attention", "h100", "--heads", "16", "--latent", "--cached", "4096", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["operator"] == "latent attention, decode"
    assert sum(answer["parts_us"].values()) == pytest.approx(answer["time_us"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["attention", "h100", "--heads", "6", "--kv-heads", "4"], "kv_heads must divide heads"),
        (["attention", "h100", "--heads", "6", "--latent", "--kv-heads", "2"], "latent attention has no kv_heads"),
        (["attention", "h100", "--heads", "6", "--dtype", "int4"], "bf16, fp16, fp8"),
        (["attention", "p100", "--heads", "6"], "measured on tensor cores, which it has none of"),
        (["attention", "a100", "--heads", "6", "--dtype", "fp8"], "it does not compute in fp8"),
        (["attention", "h1000", "--heads", "6"], "no GPU of that name"),
    ],
)
def test_gpu_attention__bad_input_ends_with_2(words, message, capsys):
    assert cli.main(["gpu", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("64,4,4", "sixty,4,4", "x.csv:2:51: isl: expected a whole number from 1 to 1099511627776, got 'sixty'"),
        ("64,4,4", "-64,4,4", "isl: expected a whole number from 1 to 1099511627776, got '-64'"),
        ("isl", "tokens", "x.csv:1:1: no column isl, which context_attention needs"),
        ("time_us", "time_ms", "no head line with the columns"),
        ("context_attention", "contextual", "no row to compare"),
    ],
)
def test_read_kernels__mistakes_have_a_place(tmp_path, old, new, message):
    path = table_of(tmp_path / "x.csv")
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError) as caught:
        read_kernels(path, "attention")
    assert message in str(caught.value)


def test_read_kernels__notes_what_is_left_out(tmp_path):
    path = table_of(tmp_path / "x.csv")
    text = path.read_text().splitlines()
    text += ["RTX 9999" + text[1][11:], text[1].rpartition(",")[0] + ",0"]
    path.write_text("\n".join(text))
    (table,) = read_kernels(path, "attention")
    assert len(table.rows) == 200
    assert any("RTX 9999" in note for note in table.notes)
    assert any("0 us" in note for note in table.notes)
