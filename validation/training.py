"""Training steps beside published throughput: ResNet-50, BERT-large, MPT."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.decoder import Decoder
from accelsim.gpu.training import train
from accelsim.gpu.training_layers import TrainingPlan
from accelsim.inputs.workload import Workload
from accelsim.inputs.workload_reader import load_workload
from validation.study import Figure, Study

TOLERANCE = 0.15
_NETWORK = {"a100_sxm_40gb": 25e9, "a100_sxm_80gb": 25e9}
"""Bytes a second of a GPU to other nodes: 1600 Gb/s of eight A100 (MosaicML)."""


@cache
def published() -> dict[str, Any]:
    """Published figures."""
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("training.yaml").read_text(encoding="utf-8"))
    return found


def decoder_of(name: str) -> Decoder:
    """A model of `training.yaml`, whose attention has as many key-value heads as query heads."""
    layers, hidden, heads, ffn, vocabulary = published()["models"][name]
    sizes = (layers, hidden, heads, heads, hidden // heads, ffn, False, vocabulary, True, None, False, 0)
    return Decoder(name, *sizes)


def samples_per_s(gpu: str, model: Decoder | Workload, number_format: str, plan: TrainingPlan) -> float:
    """Sequences or images of all GPUs, as ours has them."""
    device = load_gpu(gpu)
    return train(device, model, plan, mode_of(device, number_format, "auto"), number_format).samples_per_s


def _figure(case: str, unit: str, measured: float, ours: float, why: list[str]) -> Figure:
    text = published()["why"][why[0]] if why else ""
    explained = bool(why) and abs(ours / measured - 1) > TOLERANCE
    return Figure(
        case, "throughput", unit, measured, ours, TOLERANCE, why=text if explained else "", explained=explained
    )


def training_study() -> Study:
    """Throughput of training steps beside published ones."""
    table, figures = published(), []
    for gpu, number_format, micro, runs, gpus, measured, *why in table["resnet50"]:
        plan = TrainingPlan(
            micro * runs * gpus, micro, dp=gpus, optimizer="sgd", layout="nhwc" if number_format == "fp16" else "nchw"
        )
        network = load_workload("resnet50", {"batch": str(micro)})
        ours = samples_per_s(gpu, network, number_format, plan)
        figures.append(_figure(f"ResNet-50, {gpus} x {gpu}, {number_format}", "images/s", measured, ours, why))
    for gpu, number_format, micro, runs, gpus, measured, *why in table["bert_large"]:
        plan = TrainingPlan(micro * runs * gpus, micro, 128, dp=gpus, optimizer="lamb", attention="apart")
        ours = samples_per_s(gpu, decoder_of("bert_large"), number_format, plan)
        figures.append(_figure(f"BERT-large, {gpus} x {gpu}, {number_format}", "sequences/s", measured, ours, why))
    for name, tokens, anew, gpu, micro, runs, gpus, measured, *why in table["mpt"]:
        rate = _NETWORK.get(gpu, 50e9)
        plan = TrainingPlan(
            micro * runs * gpus, micro, tokens, dp=gpus, zero=3, recompute=anew, network_bytes_per_s=rate
        )
        ours = samples_per_s(gpu, decoder_of(name), "bf16", plan) * tokens
        figures.append(_figure(f"{name}, {tokens} tokens, {gpus} x {gpu}", "tokens/s", measured, ours, why))
    return Study(
        name="training",
        about="Throughput of training steps, by kernels, passes over memory, collectives and the power limit",
        source="; ".join(table["sources"].values()),
        figures=tuple(figures),
        notes=(
            "no constant is fitted to a training step; two choices were made beside these figures: TF32 turns tensors "
            "of all convolutions, and ZeRO 3 hides no gathers of its backward pass",
            "TF32 and FP32 runs of ResNet-50 are NCHW, as configs.yml has them",
            "BERT's attention is not fused; MPT recomputes layers where its table says so (activation checkpointing)",
        ),
    )
