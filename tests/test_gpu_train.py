"""A training step: operations counted by hand, laws, collectives and schedules worked out, published throughput."""

from __future__ import annotations

import csv
import json
import statistics
from dataclasses import replace

import pytest

import accelsim
from accelsim.cli import main as cli
from accelsim.gpu import PASS_LAYOUTS
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu, read_tables
from accelsim.gpu.decoder import load_decoder
from accelsim.gpu.gemms import Gemms, time_gemms
from accelsim.gpu.training import OPTIMIZERS, between, memory_of, train
from accelsim.gpu.training_layers import TrainingPlan, layers_of
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload_reader import load_workload
from tests.conftest import REPOSITORY
from validation.training import decoder_of, training_study

H100, A100 = load_gpu("h100_sxm"), load_gpu("a100_sxm_80gb")
LLAMA, FACTS = load_decoder("llama"), read_tables("training")
PLAN = TrainingPlan(8, 1, 4096, dp=8)


def step(model=LLAMA, plan=PLAN, gpu=H100, number_format="bf16"):
    return train(gpu, model, plan, mode_of(gpu, number_format, "auto"), number_format)


def flops(kernels) -> float:
    return sum(2 * each.times * p.m * p.n * p.k * p.batch for each in kernels if (p := each.gemm))


def test_layers__of_a_network_have_both_gradients_but_that_of_the_data():
    """ResNet-50 has 4,089,184,256 MACs an image (workloads/resnet50.yaml), 118,013,952 of them in its first layer."""
    layers = layers_of(load_workload("resnet50", {"batch": "4"}), TrainingPlan(4, 4))
    macs, first = 4_089_184_256, 64 * 112 * 112 * 7 * 7 * 3
    assert sum(layer.times * layer.flops for layer in layers) == 2 * 4 * macs
    (forward, backward) = layers[0].passes
    assert flops(forward) == flops(backward) == pytest.approx(2 * 4 * first * FACTS["few_channels"])
    assert [kernel.layout for kernel in backward if kernel.gemm] == [PASS_LAYOUTS["weight_gradient"]]
    behind = sum(layer.times * flops(layer.passes[1]) for layer in layers[1:])
    assert behind == pytest.approx(2 * 2 * 4 * (macs - first), rel=0.01)  # K of strides is rounded up to loads
    words = sum(layer.times * each.words for layer in layers for each in layer.passes[0])
    outputs = sum(layer.repeat * layer.output.words(layer.dims) for layer in load_workload("resnet50").layers[:-1])
    assert 4.5 * 4 * outputs < words < 6.5 * 4 * outputs  # norm 3, activation 2 of all but shortcuts, a sum 3 of a few


def test_layers__of_a_decoder_have_two_operations_for_each_weight_and_pair():
    """Llama 3 8B: 7.5e9 parameters beside its embedding; causal attention of 32 heads of 128 over 4096 tokens."""
    layers = layers_of(LLAMA, PLAN)
    weights = 32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336) + 128256 * 4096
    assert sum(layer.times * layer.flops for layer in layers) == 4096 * (2 * weights + 32 * 2 * 4096 * 4096)
    assert sum(layer.times * flops(layer.passes[1]) for layer in layers) == 2 * 4096 * 2 * weights
    mixtral = load_decoder("mixtral")
    active = 32 * (4096 * (4096 + 2 * 1024 + 4096) + 4096 * 8 + 2 * 3 * 4096 * 14336) + mixtral.vocabulary * 4096
    found = sum(layer.times * layer.flops for layer in layers_of(mixtral, PLAN))
    assert found == 4096 * (2 * active + 32 * 2 * 4096 * 4096)


def test_attention__full_has_all_pairs_and_apart_its_scores():
    """Of 4096 tokens, 4096^2 pairs and 4096 x 4097 / 2 causal ones; apart, both GEMMs have all of them."""
    times = {}
    for attention in ("causal", "full", "apart"):
        forward, backward = layers_of(LLAMA, replace(PLAN, attention=attention))[0].passes
        times[attention] = [each.times for each in forward if each.group == "attention"]
        if attention == "apart":
            scores = 32 * 4096**2
            pairs = [each.gemm for each in forward if each.gemm and each.gemm.batch == 32]
            assert [(p.m, p.n, p.k) for p in pairs] == [(4096, 4096, 128), (4096, 128, 4096)]
            assert {FACTS["scores"][0] * scores} <= {each.words for each in forward}
            assert {FACTS["scores"][1] * scores} <= {each.words for each in backward}
    assert times["full"][0] / times["causal"][0] == pytest.approx(4096**2 / (4096 * 4097 / 2))
    assert times["apart"] == []


def walked_1f1b(stages: int, runs: int, forward: float, backward: float) -> float:
    """End of the last stage that ends, by walking each stage's order: `stages - own` forwards, then one of each."""
    ends: dict[tuple[str, int, int], float] = {}
    orders = []
    for stage in range(stages):
        first = min(stages - stage, runs)
        order = [("f", at) for at in range(first)]
        for at in range(runs):
            order += [("b", at)] + ([("f", first + at)] if first + at < runs else [])
        orders.append(order)
    free, at = [0.0] * stages, [0] * stages
    while any(at[stage] < len(orders[stage]) for stage in range(stages)):
        for stage in range(stages):
            if at[stage] == len(orders[stage]):
                continue
            kind, micro = orders[stage][at[stage]]
            before = ("f", micro, stage - 1) if kind == "f" else ("b", micro, stage + 1)
            if 0 <= before[2] < stages and before not in ends:
                continue
            start = max(free[stage], ends.get(before, 0.0))
            free[stage] = ends[kind, micro, stage] = start + (forward if kind == "f" else backward)
            at[stage] += 1
    return max(free)


@pytest.mark.parametrize(("stages", "batch"), [(1, 4), (2, 4), (4, 4), (4, 16), (8, 8)])
def test_bubble__is_that_of_a_walked_schedule(stages, batch):
    parts = step(plan=TrainingPlan(batch, 1, 2048, pp=stages)).parts_s
    forward, backward = (parts[name] / batch for name in ("forward", "backward"))
    both = parts["forward"] + parts["backward"] + parts.get("bubble", 0.0)
    assert both == pytest.approx(walked_1f1b(stages, batch, forward, backward))


def test_stages__share_layers_and_the_last_one_has_the_output_layer():
    """Words of the vocabulary beyond 50257 take as long in the second of two stages as in one of all layers."""
    small = load_decoder("gpt2")
    grown = {}
    for stages in (1, 2):
        plan = TrainingPlan(2, 1, 1024, pp=stages)
        many, few = (step(each, plan).parts_s for each in (replace(small, vocabulary=200000), small))
        grown[stages] = {name: many[name] - few[name] for name in ("forward", "backward")}
        assert {layer.end for layer in layers_of(small, plan)} == {"", "first", "last", *["send"] * (stages - 1)}
    assert grown[2] == pytest.approx(grown[1], rel=0.02)


def test_memory__of_states_is_shared_by_stages_of_zero():
    """Counted for each parameter: FP32 weight and gradient, BF16 copy, two FP32 moments; 8 copies."""
    weights = 8_030_000_000
    bytes_of = {0: (6, 4, 8), 1: (6, 4, 8 / 8), 2: (6, 4 / 8, 8 / 8), 3: (6 / 8, 4 / 8, 8 / 8)}
    activations = set()
    for stage, each in bytes_of.items():
        found = step(plan=replace(PLAN, zero=stage)).memory
        assert (found.weights, found.gradients, found.optimizer) == pytest.approx(
            tuple(weights * size for size in each), rel=0.001
        )
        activations.add(found.activations)
    assert len(activations) == 1


def test_memory__of_activations_counts_micro_batches_in_flight():
    """Each layer keeps what its products read and write; recomputed, its input, and one layer all of it."""
    layers = layers_of(LLAMA, PLAN)
    kept = sum(layer.kept for layer in layers if layer.times == 32)
    ends = sum(layer.kept for layer in layers if layer.times == 1)
    assert kept == 4096 * (4096 + 6144 + 4096 + 4096 + 4096 + 28672 + 14336 + 4096)
    found = memory_of(H100, layers, 1.0, PLAN, "bf16").activations
    assert found == 2 * (32 * kept + ends)
    stages = memory_of(H100, layers, 1.0, TrainingPlan(8, 1, 4096, pp=4), "bf16").activations
    assert stages == 2 * 4 * (8 * kept + ends)
    anew = memory_of(H100, layers, 1.0, replace(PLAN, recompute=True), "bf16").activations
    assert anew == 2 * (34 * 4096 * 4096 + max(layer.kept for layer in layers))


def test_between__rings_and_trees_of_nodes():
    """A node of 64 GPUs sends 400 GB/s: 63/64 of the message over 7 hops of a ring, or all of it over 3 of a tree."""
    plan, size, hop = TrainingPlan(64, 1, dp=64), 1e9, FACTS["hop_us"]
    ring, tree = 63 / 64 * 1e9 / 400e3 + 7 * hop, 1e9 / 400e3 + 3 * hop
    assert between(H100, "all_reduce", size, plan) == pytest.approx(2 * min(ring, tree))
    assert between(H100, "all_gather", size, plan) == pytest.approx(ring)
    assert between(H100, "all_reduce", 1e3, plan) == pytest.approx(2 * (1e3 / 400e3 + 3 * hop))
    assert between(H100, "all_reduce", size, TrainingPlan(1, 1)) == 0
    slower = replace(plan, network_bytes_per_s=25e9)
    assert between(H100, "all_gather", size, slower) == pytest.approx(2 * (ring - 7 * hop) + 7 * hop)


def test_collectives__are_hidden_but_for_those_of_a_layer():
    """The sum of gradients takes less than the backward pass: a 34th of it is of the last of 32 layers and two ends."""
    parameters = 8.03e9
    plan = replace(PLAN, batch=64)
    parts = step(plan=plan).parts_s
    summed = between(H100, "all_reduce", 4 * parameters, plan) * 1e-6
    assert summed < parts["backward"]
    assert parts["collectives"] == pytest.approx(summed / 34, rel=0.001)
    gathered = between(H100, "all_gather", 2 * parameters, plan) * 1e-6
    scattered = between(H100, "reduce_scatter", 4 * parameters, plan) * 1e-6
    shown = step(plan=replace(plan, zero=3)).parts_s["collectives"]
    assert shown == pytest.approx(8 * (gathered + (gathered + scattered) / 34), rel=0.001)


def test_step__laws():
    base = step()
    assert step(plan=replace(PLAN, recompute=True)).step_s > base.step_s
    assert step(plan=replace(PLAN, recompute=True)).memory.total < base.memory.total
    assert step(plan=replace(PLAN, batch=16)).step_s > 1.9 * base.step_s
    assert (
        step(plan=TrainingPlan(1, 1, 4096)).samples_per_s
        < base.samples_per_s
        < 8 * step(plan=TrainingPlan(1, 1, 4096)).samples_per_s
    )
    assert 0.3 < base.utilization < 0.7
    assert base.energy_j <= 8 * H100.tdp_w * base.step_s
    for optimizer, (states, moved) in OPTIMIZERS.items():
        found = step(plan=replace(PLAN, optimizer=optimizer))
        assert found.memory.optimizer == pytest.approx(8.03e9 * states, rel=0.001)
        rate = H100.dram_bytes_per_s * FACTS["dram_share"]
        assert found.parts_s["optimizer"] == pytest.approx(8.03e9 * moved / rate, rel=0.001)


def test_layout__nchw_turns_tensors_of_tensor_cores_alone():
    network = load_workload("resnet50", {"batch": "32"})
    for gpu, number_format, turned in ((A100, "tf32", True), (A100, "fp32", False), (load_gpu("v100"), "fp32", False)):
        nhwc, nchw = (
            step(network, TrainingPlan(32, 32, layout=layout), gpu, number_format).step_s for layout in ("nhwc", "nchw")
        )
        assert (nchw > 1.1 * nhwc) == turned
        assert turned or nchw == nhwc


def test_facts__are_those_of_measurements(shared):
    """Large passes reach 0.87 to 0.91 of the DRAM bandwidth; 7 x 7 over three channels takes 3.3 times its GEMM."""
    reached = {}
    words = {"relu": 2, "add": 3, "gelu": 2, "mul": 3, "div": 3}
    for path, columns, sizes in (
        (REPOSITORY / "benchmarks/gpu/measured/h100_sxm_operators.csv", ("operator", "elements"), ()),
        (shared / "data/gpu/vector_fp32_measured.csv", ("op", ""), ("B", "H")),
    ):
        for row in csv.DictReader(path.read_text().splitlines()):
            count = float(row["B"]) * float(row["H"]) if sizes and row["B"] else float(row.get("elements") or 0)
            if row[columns[0]] in words and count > 3e7:
                width = 2 if row["dtype"] == "bf16" else 4
                moved = (
                    words[row[columns[0]]] * width * count / float(row.get("time_us") or row["time_us_median"]) * 1e6
                )
                reached.setdefault(row["device"], []).append(moved / load_gpu(row["device"]).dram_bytes_per_s)
    assert len(reached) == 3
    assert statistics.mean(map(statistics.median, reached.values())) == pytest.approx(FACTS["dram_share"], abs=0.01)
    ratios, conv = [], REPOSITORY / "benchmarks/gpu/measured/h100_sxm_conv.csv"
    for row in csv.DictReader(conv.read_text().splitlines()):
        if row["C"] == "3" and float(row["N"]) > 1:
            m = int(row["N"]) * 112 * 112
            gemm = Gemms.of(m, 64, 147, 1, 224 * 224 * 3 / (112 * 112 * 147))
            time_us = time_gemms(H100, gemm, "bf16", mode_of(H100, "bf16", "auto").constants).time_us[0]
            ratios.append(float(row["time_us_fwd"]) / time_us)
    assert ratios == pytest.approx([FACTS["few_channels"]] * 2, rel=0.05)


def test_training_study__five_of_six_figures_are_within_15_percent():
    study = training_study()
    errors = {figure.case: figure.error for figure in study.figures}
    for case in (
        "ResNet-50, 1 x a100_sxm_80gb, fp16",
        "ResNet-50, 1 x a100_sxm_80gb, tf32",
        "ResNet-50, 1 x v100_sxm_16gb, fp16",
        "BERT-large, 1 x a100_sxm_80gb, fp16",
        "mpt_7b, 2048 tokens, 8 x a100_sxm_80gb",
    ):
        assert abs(errors[case]) < 0.11
    assert 0.15 < errors["mpt_7b, 2048 tokens, 8 x h100_sxm"] < 0.25
    assert study.unexplained == ()
    assert statistics.median(map(abs, errors.values())) < 0.09
    assert all(figure.explained == (abs(figure.error) > 0.15) for figure in study.figures)


@pytest.mark.parametrize(("name", "parameters"), [("mpt_1b", 1315950592), ("mpt_7b", 6658859008)])
def test_decoder_of__has_the_parameters_that_are_published(name, parameters):
    """They count positions and biases of norms too."""
    model = decoder_of(name)
    layers = layers_of(model, TrainingPlan(1, 1, 2048))
    weights = sum(
        layer.times * p.n * p.k for layer in layers for each in layer.passes[0] if (p := each.gemm) and p.batch == 1
    )
    assert weights == pytest.approx(parameters, rel=0.005)


def test_train_command__reports_and_refuses(capsys, tmp_path):
    words = ["gpu", "train", "h100_sxm", "llama", "--dp", "8", "--zero", "3", "--recompute"]
    assert cli.main(words) == 0
    out = " ".join(capsys.readouterr().out.split())
    for text in (
        "llama3_8b on 8 x h100_sxm, bf16, dp 8 tp 1 pp 1 ZeRO 3",
        "tokens/s/GPU",
        "recomputation",
        "optimizer",
    ):
        assert text in out
    assert cli.main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tokens_per_s"] == pytest.approx(2048 * 8 / document["step_s"])
    assert sum(document["parts_s"].values()) == pytest.approx(document["step_s"])
    assert accelsim.gpu.train("a100", "resnet50", micro=64, dtype="fp16").headline.startswith("resnet50 on 1 x a100")
    small = tmp_path / "small.yaml"
    small.write_text("decoder: {name: small, layers: 2, hidden: 256, heads: 4, ffn: 512, vocabulary: 1000}\n")
    assert cli.main(["gpu", "train", "v100", str(small), "--batch", "4", "--micro", "4"]) == 0
    assert "small on 1 x v100_pcie, fp16" in capsys.readouterr().out
    assert cli.main(["gpu", "train", "a100", "bert_base", "--micro", "8"]) == 0
    assert "a transformer is a decoder" in capsys.readouterr().err
    assert cli.main(["gpu", "train", "h100", "llama", "--dp", "2"]) == 1
    assert "--zero 3, --recompute, more --tp or --pp need less" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("h100 llama --dp 8 --batch 12", "--batch 12 is not a multiple of 8, the micro-batches of 8 copies"),
        ("h100 llama --tp 3", "--tp 3 does not divide 32 heads"),
        ("h100 resnet50 --tp 2", "a network of convolutions is trained on one GPU or on copies: --dp alone"),
        ("h100 llama --zero 4", "zero: expected one of 0, 1, 2, 3, got 4"),
        ("h100 llamas", "did you mean 'llama'"),
        ("a100 llama --dtype fp8 --tp 8", "a100_sxm_80gb does not compute in 'fp8'"),
        ("llama h100", "write the GPU first"),
        ("h100 llama --dtype int8", "int8: gradients are not integers"),
        ("h100 gemm --micro 2", "batch: no file defines this parameter"),
    ],
)
def test_train_command__bad_input_ends_with_2(words, why, capsys):
    assert cli.main(["gpu", "train", *words.split()]) == 2
    assert why in capsys.readouterr().err


def test_train__refuses_what_is_none_of_the_choices():
    for wrong, why in (
        ({"attention": "fused"}, "attention: expected one of full, causal, apart, got 'fused'"),
        ({"layout": "tn"}, "layout: expected one of nhwc, nchw, got 'tn'"),
        ({"network": 0}, "network: expected GB/s above 0, got 0"),
        ({"dp": 0}, "dp"),
    ):
        with pytest.raises(AccelsimError, match=why):
            accelsim.gpu.train("h100_sxm", "gpt2", **wrong)


def test_train__refuses_what_cannot_be_split():
    with pytest.raises(AccelsimError, match="not a multiple"):
        step(plan=TrainingPlan(3, 2, 128))
