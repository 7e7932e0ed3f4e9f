"""NVDLA's own performance model: the spreadsheet that NVIDIA published with the hardware, in its own assumptions.

A layer takes as long as the slowest of four: the MACs, DRAM, and reads and writes of an on-chip SRAM (CVSRAM) where
there is one. Everything overlaps, nothing starts or ends. Sizes are KiB, exact fractions. The rules are the sheet's,
also where they are wrong (listed in validation/reports/nvdla.md). Its layers and the exceptions are in
nvdla_sheet.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import yaml

KIB = 1024
CHANNELS = 16
"""Channels are rounded up to a multiple of this."""
LEAST_KERNELS = 32
"""So many kernels have to fit into the convolution buffer at once; in int8 one for each MAC cell (unit_description)."""
WINOGRAD_MACS = Fraction(36, 16)
"""F(2x2, 3x3): 16 products instead of 36 for four outputs (unit_description, "Winograd Convolution")."""
WINOGRAD_WEIGHTS = Fraction(16, 9)
"""A 3 x 3 kernel becomes 4 x 4."""
CVSRAM_GB_PER_S = 25
"""Each way: 40 cycles for a KiB at 1 GHz, whatever the DRAM."""
_FILE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True, slots=True)
class Configuration:
    """One NVDLA as the sheet sees it.

    Attributes
    ----------
    macs : int
        8-bit multiply-accumulates a cycle.
    atomic : (int, int)
        Channels and kernels of an atomic operation, whose product is `macs`; the sheet does not look at them.
    cbuf_kib : int
        Convolution buffer, shared by inputs and weights.
    dram_gb_per_s : Fraction
        The sheet moves a KiB in the time of 1000 bytes, so it counts these GB as 1.024e9 bytes.
    clock_mhz : int
    resnet50_fps : float, or None
        Published frames a second, without CVSRAM.
    """

    macs: int
    atomic: tuple[int, int]
    cbuf_kib: int
    dram_gb_per_s: Fraction
    clock_mhz: int = 1000
    resnet50_fps: float | None = None

    def __str__(self) -> str:
        return f"{self.macs} MACs, {self.cbuf_kib} KiB, {float(self.dram_gb_per_s):g} GB/s"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Shares of tensors (I, O, W) that a layer moves with a CVSRAM: to and from DRAM, and from and to the SRAM."""

    dram: Mapping[str, Fraction]
    read: Mapping[str, Fraction]
    write: Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class SheetLayer:
    """A convolution or fully connected layer of the sheet, of square images and kernels.

    Attributes
    ----------
    C, K, size, kernel, stride, out : int
        Channels, kernels, edges of the input and of the kernel, stride, edge of the output of the convolution.
    stored : int
        Edge of what is written, after pooling.
    same : bool
        The sheet counts a position for each input; otherwise size - kernel + 1.
    fc : bool
        Fully connected: kernels are not rounded up, and weights are read once for a batch.
    add : bool
        An element-wise addition is fused: the other operand is read as well.
    winograd_weights : bool
        Weights of a 3 x 3 kernel are read as 4 x 4.
    extra_row : bool
        A row of inputs more than the kernel has must fit.
    traffic : Traffic
    """

    name: str
    C: int
    K: int
    size: int
    kernel: int
    stride: int
    out: int
    stored: int
    same: bool
    fc: bool
    add: bool
    winograd_weights: bool
    extra_row: bool
    traffic: Traffic

    @property
    def macs(self) -> int:
        """Multiply-accumulates without any rounding."""
        return self.C * self.K * self.kernel**2 * self.out**2

    @property
    def winograd(self) -> bool:
        """Whether the sheet counts the MACs of Winograd: for each 3 x 3 kernel."""
        return self.kernel == 3

    @property
    def channels(self) -> int:
        """Channels, with the pixels that a stride steps over moved into them, rounded up."""
        return _up(self.C * self.stride**2, CHANNELS)

    @property
    def edge(self) -> int:
        """Edge of the input after that move."""
        return _ceil(self.size, self.stride)

    @property
    def input_kib(self) -> Fraction:
        """Inputs, one byte each."""
        return Fraction(self.channels * self.edge**2, KIB)

    @property
    def output_kib(self) -> Fraction:
        """Outputs that are written; kernels are rounded up as channels of the next layer."""
        return Fraction(_up(self.K, CHANNELS) * self.stored**2, KIB)

    @property
    def weight_kib(self) -> Fraction:
        """All weights; the kernel is padded to a multiple of the stride."""
        grown = WINOGRAD_WEIGHTS if self.winograd and self.winograd_weights else 1
        return Fraction(self.channels * _ceil(self.kernel, self.stride) ** 2 * self.K, KIB) * grown

    def least_input_kib(self) -> Fraction:
        """Rows of the input that one row of outputs needs."""
        rows = min(self.kernel + 1, self.edge) if self.extra_row else self.kernel
        return Fraction(self.channels * self.edge * rows, KIB)

    def least_weight_kib(self, cbuf_kib: int) -> Fraction:
        """Weights of the least number of kernels; half of the buffer if they do not fit into it."""
        least = Fraction(self.channels * _ceil(self.kernel, self.stride) ** 2 * LEAST_KERNELS, KIB)
        return least if least < cbuf_kib else Fraction(cbuf_kib, 2)


@dataclass(frozen=True, slots=True)
class SheetNetwork:
    """A network of the sheet, with the rules that its rows share.

    Attributes
    ----------
    kernels : mapping of str to int
        With `cvsram` and with `dram` only: the MACs' kernels are rounded up to a multiple.
    refetch : str
        `none`: everything is read once. Otherwise what the inputs have to be smaller than to stay in the buffer while
        weights are read again: all `weights`, or the `least weights`.
    fc_batch : mapping of str to int
        Images that share the weights of a fully connected layer, with `dram` only.
    """

    name: str
    kernels: Mapping[str, int]
    refetch: str
    fc_batch: Mapping[str, int]
    layers: tuple[SheetLayer, ...]


@dataclass(frozen=True, slots=True)
class SheetCycles:
    """Cycles of a layer by what takes them; SRAM 0 without one."""

    mac: Fraction
    dram: int
    sram_read: int = 0
    sram_write: int = 0

    @property
    def total(self) -> Fraction:
        """The slowest: all overlap."""
        return max(self.mac, Fraction(max(self.dram, self.sram_read, self.sram_write)))


@dataclass(frozen=True, slots=True)
class RtlRun:
    """Cycles of a network in a simulation of the hardware that a user reported."""

    network: str
    cycles: float
    sheet_cycles: float
    configuration: Configuration


def sheet_cycles(
    configuration: Configuration, network: SheetNetwork, layer: SheetLayer, *, cvsram: bool = False
) -> SheetCycles:
    """Cycles of a layer as the sheet counts them.

    Examples
    --------
    >>> resnet = sheet_networks()["ResNet50"]
    >>> cycles = sheet_cycles(sheet_configurations()[0], resnet, resnet.layers[1])
    >>> int(cycles.mac), cycles.dram
    (25088, 49800)
    """
    memory = "cvsram" if cvsram else "dram"
    mac = mac_cycles(configuration, layer, network.kernels[memory])
    if not cvsram:
        return SheetCycles(mac, _dram_cycles(configuration, dram_kib(configuration, network, layer)))
    sizes = {"I": layer.input_kib, "O": layer.output_kib, "W": layer.weight_kib}
    dram, read, write = (
        sum((share * sizes[tensor] for tensor, share in moved.items()), Fraction())
        for moved in (layer.traffic.dram, layer.traffic.read, layer.traffic.write)
    )
    per_kib = Fraction(configuration.clock_mhz, CVSRAM_GB_PER_S)
    return SheetCycles(mac, _dram_cycles(configuration, dram), math.ceil(read * per_kib), math.ceil(write * per_kib))


def mac_cycles(configuration: Configuration, layer: SheetLayer, kernels: int) -> Fraction:
    """Cycles of the MACs, all of them busy: channels and kernels are rounded up, the array's shape is not looked at."""
    positions = layer.size if layer.same else layer.size - layer.kernel + 1
    counted = layer.channels * _ceil(positions, layer.stride) ** 2 * (layer.K if layer.fc else _up(layer.K, kernels))
    cycles = Fraction(counted * layer.kernel**2, layer.stride**2 * configuration.macs)
    return cycles / WINOGRAD_MACS if layer.winograd else cycles


def dram_kib(configuration: Configuration, network: SheetNetwork, layer: SheetLayer) -> Fraction:
    """DRAM traffic without a CVSRAM.

    One operand stays in the convolution buffer, tile by tile, and the other passes it once for each tile. A tile is
    what the buffer holds beside the least of the other operand.
    """
    inputs, outputs, weights = layer.input_kib, layer.output_kib, layer.weight_kib
    if layer.fc:
        weights /= network.fc_batch["dram"]
    if network.refetch != "none":
        cbuf = configuration.cbuf_kib
        least_weights = layer.least_weight_kib(cbuf)
        if inputs < (weights if network.refetch == "weights" else least_weights):
            weights *= max(1, math.ceil(inputs / (cbuf - least_weights)))
        else:
            inputs *= max(1, math.ceil(weights / (cbuf - layer.least_input_kib())))
    return inputs + weights + outputs * (2 if layer.add else 1)


def network_cycles(configuration: Configuration, network: SheetNetwork, *, cvsram: bool = False) -> Fraction:
    """Cycles of all layers, one after the other."""
    return sum(
        (sheet_cycles(configuration, network, layer, cvsram=cvsram).total for layer in network.layers), Fraction()
    )


def sheet_configurations() -> tuple[Configuration, ...]:
    """Return the seven configurations with published ResNet-50 rates (primer.rst), the largest first."""
    return tuple(map(_configuration, _sheet()["configurations"]))


def rtl_run() -> RtlRun:
    """Return the reported simulation of AlexNet (hw issue 202)."""
    entry = _sheet()["rtl"]
    return RtlRun(entry["network"], entry["cycles"], entry["sheet_cycles"], _configuration(entry))


def sheet_networks() -> dict[str, SheetNetwork]:
    """AlexNet, GoogLeNet and ResNet50 as the sheet has them."""
    return {entry["name"]: _network(entry) for entry in _sheet()["networks"]}


@cache
def _sheet() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return loaded


def _configuration(entry: Mapping[str, Any]) -> Configuration:
    channels, kernels = entry["atomic"]
    return Configuration(
        entry["macs"],
        (channels, kernels),
        entry["cbuf_kib"],
        Fraction(str(entry["dram"])),
        resnet50_fps=entry.get("resnet50_fps"),
    )


def _network(entry: Mapping[str, Any]) -> SheetNetwork:
    shared = {key: entry[key] for key in ("winograd_weights", "support", "cvsram")}
    layers = tuple(_layer({**shared, **layer}) for layer in entry["layers"])
    return SheetNetwork(entry["name"], entry["kernels"], entry["refetch"], entry["fc_batch"], layers)


def _layer(entry: Mapping[str, Any]) -> SheetLayer:
    moved = entry["cvsram"]
    return SheetLayer(
        name=entry["name"],
        C=entry["C"],
        K=entry["K"],
        size=entry["size"],
        kernel=entry["kernel"],
        stride=entry.get("stride", 1),
        out=entry["out"],
        stored=entry.get("stored", entry["out"]),
        same=entry.get("same", False),
        fc=entry.get("fc", False),
        add=entry.get("add", False),
        winograd_weights=entry["winograd_weights"],
        extra_row=entry["support"] == "R+1",
        traffic=Traffic(*(_shares(moved[way]) for way in ("dram", "read", "write"))),
    )


def _shares(tensors: Sequence[str]) -> dict[str, Fraction]:
    """`[I, W/18]` as shares of the tensors."""
    parts = [text.partition("/") for text in tensors]
    return {tensor: Fraction(1, int(images or 1)) for tensor, _, images in parts}


def _dram_cycles(configuration: Configuration, kib: Fraction) -> int:
    return math.ceil(kib * configuration.clock_mhz / configuration.dram_gb_per_s)


def _ceil(count: int, by: int) -> int:
    return -(-count // by)


def _up(count: int, multiple: int) -> int:
    return _ceil(count, multiple) * multiple
