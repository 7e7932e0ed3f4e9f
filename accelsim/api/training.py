"""`accelsim.gpu.train`: a training step of a decoder, or of a network of convolutions."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from accelsim.api.asked import whole
from accelsim.api.gpus import GpuResult, read_network
from accelsim.api.problem import LOG
from accelsim.gpu import ATTENTION
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu, wide_format
from accelsim.gpu.decoder import Decoder, load_decoder
from accelsim.gpu.training import OPTIMIZERS
from accelsim.gpu.training import train as train_step
from accelsim.gpu.training_layers import TrainingPlan
from accelsim.inputs import library
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Workload
from accelsim.show.report.serving import refusal, training_report, training_row


def train(
    gpu: str,
    model: str | PathLike[str],
    *,
    batch: int | None = None,
    micro: int = 1,
    seq_len: int = 2048,
    dp: int = 1,
    tp: int = 1,
    pp: int = 1,
    zero: int = 0,
    recompute: bool = False,
    optimizer: str | None = None,
    attention: str = "causal",
    layout: str = "nhwc",
    network: float = 50.0,
    dtype: str | None = None,
    calibration: str | PathLike[str] | None = "auto",
    mig: str | None = None,
) -> GpuResult:
    """Time a training step: both passes, collectives, optimizer, memory.

    The parameters are those of `accelsim gpu train`; `network`, GB/s of each GPU to other nodes.

    Examples
    --------
    >>> import accelsim
    >>> round(accelsim.gpu.train("a100", "resnet50", micro=256, dtype="fp16")["samples_per_s"], -2)
    2700.0
    """
    for name, value in {"batch": batch, "micro": micro, "seq_len": seq_len, "dp": dp, "tp": tp, "pp": pp}.items():
        whole(name, value)
    device, found = load_gpu(gpu, mig), _model(model, micro)
    decoder, number_format = isinstance(found, Decoder), dtype or wide_format(device)
    optimizer = optimizer or ("adam" if decoder else "sgd")
    known: dict[str, Collection[Any]] = {
        "optimizer": OPTIMIZERS,
        "zero": range(4),
        "attention": ATTENTION,
        "layout": ("nhwc", "nchw"),
    }
    given: dict[str, Any] = {"optimizer": optimizer, "zero": zero, "attention": attention, "layout": layout}
    for name, choices in known.items():
        if given[name] not in choices:
            raise AccelsimError(f"{name}: expected one of {listed(map(str, choices))}, got {given[name]!r}")
    if not network > 0:
        raise AccelsimError(f"network: expected GB/s above 0, got {network}")
    if number_format.startswith("int"):
        raise AccelsimError(f"{number_format}: gradients are not integers; write a format such as bf16 or fp8")
    tokens = seq_len if decoder else 1
    plan = TrainingPlan(
        batch or micro * dp * pp, micro, tokens, dp, tp, pp, zero, recompute, optimizer, attention, layout,
        network * 1e9,
    )  # fmt: skip
    mode = mode_of(device, number_format, calibration)
    step = train_step(device, found, plan, mode, number_format)
    if not step.memory.fits:
        raise NoValidMappingError(refusal(found.name, device, step))
    report = partial(training_report, found.name, device.name, number_format, step, mode.text, decoder=decoder)
    document = training_row(step) | {"model": found.name, "gpu": device.name, "mode": mode.text}
    return GpuResult(f"{found.name} on {plan.gpus} x {device.name}", document, report, time_us=step.step_s * 1e6)


def _model(model: str | PathLike[str], micro: int) -> Decoder | Workload:
    """Read a decoder, or else a network with a micro-batch."""
    path = Path(model)
    is_file = path.is_file() and path.suffix in (".yaml", ".yml") and "\ndecoder:" in "\n" + path.read_text("utf-8")
    if is_file or path.suffix == ".json" or path.is_dir() or (not path.exists() and library.find(path, "decoders")):
        found = load_decoder(model)
        for line in found.left:
            LOG.warning("%s", line)
        return found
    network = read_network(str(model), {"batch": micro} if micro > 1 else None)
    if not any("R" in layer.dims for layer in network.layers):
        LOG.warning(
            "%s: norms and activations are counted of convolutions alone; a transformer is a decoder", network.name
        )
    return network
