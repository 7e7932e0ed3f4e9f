"""NVDLA: its published performance sheet in its own assumptions, and the best mapping that the hardware can do."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from accelsim.inputs import library
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import read_utf8
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.search.mapper import map_einsum
from validation.nvdla_sheet import (
    Configuration,
    SheetLayer,
    SheetNetwork,
    network_cycles,
    rtl_run,
    sheet_configurations,
    sheet_cycles,
    sheet_networks,
)
from validation.study import Figure, NoReferenceError, Study, reference_paths

USUAL = "data/nvdla/nvdla_perf_layers.csv"
"""Where the sheet's figures are in the folder of reference data."""
RATE_TOLERANCE = 0.05
"""Of the published rates, which are rounded to two or three digits."""
SHORTEST_STRIPE = 16
"""Cycles in which the weights of the next stripe are read (unit_description, "Stripe Operation")."""
IMAGE_CHANNELS = 4
"""Images have at most so many channels (unit_description, "Convolution with Image Input")."""
_SHEET, _MAPPED, _WINOGRAD = "sheet", "mapped", "mapped, Winograd"
_LANES = 64
"""Products that a MAC cell of Winograd sums: 4 x 4 of 4 channels (unit_description, "Winograd Convolution Mode")."""
_COLUMNS = {"sram4M": "with CVSRAM", "sram0": "DRAM only"}
_NUMBERS = ("macs_hw", "cbuf_KiB", "dram_GBs", "mhz", *(f"{prefix}_max_cycles" for prefix in _COLUMNS))


@dataclass(frozen=True, slots=True)
class MappedLayer:
    """The proved mapping of a layer with the fewest cycles, beside the sheet's.

    Attributes
    ----------
    name : str
    cycles : Fraction
        For one image.
    sheet : Fraction
        The sheet's for the same layer, without CVSRAM.
    bottleneck : str
    why : str
        What the two count differently.
    """

    name: str
    cycles: Fraction
    sheet: Fraction
    bottleneck: str
    why: str


def nvdla_study(paths: Sequence[str | Path] = ()) -> Study:
    """Compare NVDLA's sheet, its published rates, and the best mappings.

    The published rates and the mappings need no reference data; the sheet's figures layer by layer are compared where
    they are there.

    Raises
    ------
    AccelsimError
        If a path that is given cannot be read as the sheet's figures.
    """
    networks = sheet_networks()
    figures = list(_rates(networks["ResNet50"]))
    notes = []
    try:
        for path in reference_paths(paths, USUAL):
            figures += _sheet_figures(path, networks)
    except NoReferenceError as error:
        notes.append(f"layer by layer not compared: {error}")
    large = sheet_configurations()[0]
    rtl = rtl_run()
    for network, configuration in ((networks[rtl.network], rtl.configuration), (networks["ResNet50"], large)):
        layers = mapped_layers(configuration, network)
        figures += _mapped_figures(configuration, network, layers)
        ours, sheet = sum(layer.cycles for layer in layers), sum(layer.sheet for layer in layers)
        notes.append(
            f"{network.name}, {configuration}: {float(sheet):,.0f} cycles in the sheet, {float(ours):,.0f} with the "
            f"best mapping of each layer ({float(ours / sheet):.2f}x)"
        )
        fast = mapped_layers(configuration, network, winograd=True)
        figures += _mapped_figures(configuration, network, layers, fast)
        either = sum(min(one.cycles, other.cycles) for one, other in zip(layers, fast, strict=True))
        notes[-1] += f", {float(either):,.0f} with Winograd where that is faster"
        if network.name == rtl.network:
            figures += _rtl_figures(float(sheet), float(ours))
    return Study(
        name="nvdla",
        about="NVDLA's performance sheet, published rates, and best mappings",
        source="nvdla/hw, perf/NVDLA_OpenSource_Performance.xlsx, commit 80ca0a5; nvdla/doc, primer.rst; hw issue 202",
        figures=tuple(figures),
        notes=(*notes, "what the sheet assumes, and why the best mapping differs: validation/reports/nvdla.md"),
    )


def mapped_layers(configuration: Configuration, network: SheetNetwork, *, winograd: bool = False) -> list[MappedLayer]:
    """Find and prove the mapping of each layer that takes the fewest cycles on the machine of the configuration.

    Atomic operations are counted whole, and DRAM moves what the convolution buffer forces it to. The proof is about the
    convolution alone; a fused addition's operand is added to the traffic of its best mapping. With `winograd`, layers
    of 3 x 3 kernels with stride 1 are those of `winograd_einsum`, if a MAC cell has 64 lanes.

    Returns
    -------
    list of MappedLayer
        In the order of the network; cycles and weights of a fully connected layer are shared by the sheet's batch.
    """
    machine = configured_machine(configuration)
    found: dict[tuple[int, ...], tuple[int, str]] = {}
    layers = []
    for layer in network.layers:
        batch = network.fc_batch["dram"] if layer.fc else 1
        fast = winograd and layer.winograd and layer.stride == 1 and configuration.atomic[0] == _LANES
        einsum = winograd_einsum(layer) if fast else layer_einsum(layer, batch)
        shape = (*einsum.dims.values(), layer.stride, layer.add)
        if shape not in found:
            found[shape] = _fewest_cycles(machine, configuration, layer, einsum, fast)
        cycles, bottleneck = found[shape]
        sheet = sheet_cycles(configuration, network, layer).total
        why = _why(configuration, network, layer, bottleneck, fast)
        layers.append(MappedLayer(layer.name, Fraction(cycles, batch), sheet, bottleneck, why))
    return layers


def layer_einsum(layer: SheetLayer, batch: int = 1) -> Einsum:
    """Return the layer as an Einsum of 8-bit words; padded points of the input count as ordinary ones."""
    rows, columns = ((("P", layer.stride), ("R", 1)), (("Q", layer.stride), ("S", 1)))
    dims = {
        "N": batch,
        "K": layer.K,
        "C": layer.C,
        "P": layer.out,
        "Q": layer.out,
        "R": layer.kernel,
        "S": layer.kernel,
    }
    tensors = (
        Tensor("Weights", tuple(((dim, 1),) for dim in "KCRS"), "Weights", bits=8),
        Tensor("Inputs", ((("N", 1),), (("C", 1),), rows, columns), "Inputs", bits=8),
        Tensor("Outputs", tuple(((dim, 1),) for dim in "NKPQ"), "Outputs", bits=8, psum_bits=34, output=True),
    )
    return Einsum(layer.name, dims, tensors)


def winograd_einsum(layer: SheetLayer) -> Einsum:
    """Return a layer of 3 x 3 kernels as the pipeline of Winograd does it, as an Einsum of 8-bit words.

    Kernels are 4 x 4, as software has transformed them, and each takes a 4 x 4 tile of inputs to 2 x 2 outputs, which
    are one element here. The edge of the output is a multiple of four. MACs are 16 for 36 of a direct convolution.
    """
    tiles = _up(layer.out, 4) // 2
    direct = layer_einsum(replace(layer, stride=2, out=tiles, kernel=4))
    outputs = replace(direct.tensors[2], bits=4 * 8, psum_bits=4 * 34)
    return replace(direct, tensors=(*direct.tensors[:2], outputs))


def configured_machine(configuration: Configuration) -> Architecture:
    """Load arch/nvdla_large.yaml with the parameters of a configuration."""
    channels, kernels = configuration.atomic
    return load_architecture(
        library.resolve("nvdla_large", "arch"),
        {
            "atomic.c": str(channels),
            "atomic.k": str(kernels),
            "cbuf": f"{configuration.cbuf_kib} KiB",
            "cbuf_read": f"{channels + channels * kernels // SHORTEST_STRIPE} words/cycle",
            "bandwidth": f"{float(configuration.dram_gb_per_s):g} GB/s",
            "clock": f"{configuration.clock_mhz} MHz",
        },
    )


def _fewest_cycles(
    machine: Architecture, configuration: Configuration, layer: SheetLayer, einsum: Einsum, winograd: bool
) -> tuple[int, str]:
    """Cycles and bottleneck of the best mapping.

    Channels and kernels may be rounded up to whole atomic operations, and rows of outputs or of an image's kernel to
    better factors. The second operand of a fused addition is read from DRAM besides.
    """
    image = layer.C <= IMAGE_CHANNELS
    mode = "nvdla_winograd" if winograd else "nvdla_image" if image else "nvdla_direct"
    lanes, kernels = configuration.atomic
    pad = [dim for dim in ("PR" if image else "P") if einsum.dims[dim] > 1]
    if winograd:  # four times the sums of a stripe; outputs come in whole tiles already
        accumulator = replace(machine.levels[2], size_words=4 * (machine.levels[2].size_words or 0))
        machine = replace(machine, levels=(*machine.levels[:2], accumulator, *machine.levels[3:]), sized={})
        lanes, pad = _LANES // 16, []
    constraints = load_constraints(library.resolve(mode, "constraints"), machine, einsum)
    whole = {"C": _up(einsum.dims["C"], lanes), "K": _up(einsum.dims["K"], kernels)}
    pad += [f"{dim}={bound}" for dim, bound in whole.items() if bound > einsum.dims[dim] and not image]
    result = map_einsum(machine, einsum, constraints=constraints, objective="cycles", uneven=False, pad=pad)
    if result.certificate is None or not result.certificate.proved:
        raise RuntimeError(f"{einsum.name}: the search was stopped")
    best, dram = result.best, machine.levels[0]
    at_dram = (count for count in best.tensors if count.level == dram.name)
    words = sum(count.storage_words(count.total_words, dram.word_bits) for count in at_dram)
    words += layer.K * layer.out**2 if layer.add else 0
    moved = math.ceil(words / dram.bandwidth) if dram.bandwidth else 0
    return (moved, dram.name) if moved > best.cycles else (best.cycles, best.bottleneck)


def _rates(network: SheetNetwork) -> Iterator[Figure]:
    for configuration in sheet_configurations():
        fps = configuration.clock_mhz * 10**6 / network_cycles(configuration, network)
        yield Figure(
            case=str(configuration),
            quantity="ResNet-50 rate",
            unit="frames/s",
            published=configuration.resnet50_fps or 0.0,
            ours=float(fps),
            tolerance=RATE_TOLERANCE,
            variant=_SHEET,
            why="published rounded",
        )


def _sheet_figures(path: Path, networks: dict[str, SheetNetwork]) -> Iterator[Figure]:
    """Cycles of each layer that the sheet counts, and of each network, as the sheet has them."""
    for name, configuration, rows in _read(path, networks):
        network = networks[name]
        for prefix, memory in _COLUMNS.items():
            total = Fraction()
            for row, layer in zip(rows, network.layers, strict=True):
                published = row[prefix]
                total += published
                ours = sheet_cycles(configuration, network, layer, cvsram=prefix == "sram4M").total
                yield Figure(
                    case=f"{name} {layer.name}, {configuration}",
                    quantity=f"{name} layer, {memory}",
                    unit="cycles",
                    published=float(published),
                    ours=float(ours),
                    tolerance=0.0,
                    variant=_SHEET,
                )
            yield Figure(
                case=f"{name}, {configuration}",
                quantity=f"{name}, {memory}",
                unit="cycles",
                published=float(total),
                ours=float(network_cycles(configuration, network, cvsram=prefix == "sram4M")),
                tolerance=0.0,
                variant=_SHEET,
            )


def _read(
    path: Path, networks: dict[str, SheetNetwork]
) -> Iterator[tuple[str, Configuration, list[dict[str, Fraction]]]]:
    """Cycles of the layers that the sheet counts, by network and configuration.

    Raises
    ------
    AccelsimError
        If the file is no table of the sheet's figures.
    """
    groups: dict[tuple[str, str], list[dict[str, Fraction]]] = {}
    reader = csv.DictReader(io.StringIO(read_utf8(path), newline=""))
    try:
        missing = sorted({"config", "network", *_NUMBERS} - set(reader.fieldnames or ()))
        if missing:
            raise AccelsimError(f"{path}:1:1: is no table of NVDLA's layers; columns missing: {', '.join(missing)}")
        for row in reader:
            if row["sram0_max_cycles"]:
                group = groups.setdefault((row["config"], row["network"]), [])
                group.append(_numbers(row, f"{path}:{reader.line_num}"))
    except csv.Error as error:
        raise AccelsimError(f"{path}:{reader.line_num}:1: cannot be read: {error}") from None
    known = {made.macs: made.atomic for made in sheet_configurations()}
    for (config, name), rows in groups.items():
        if name not in networks or len(rows) != len(networks[name].layers):
            counts = ", ".join(f"{network.name} of {len(network.layers)}" for network in networks.values())
            raise AccelsimError(f"{path}: {config}: {name} of {len(rows)} layers is unknown; known: {counts}")
        macs = int(rows[0]["macs_hw"])
        if macs not in known:
            raise AccelsimError(f"{path}: {config}: {macs} MACs are no configuration; known: {listed(map(str, known))}")
        made = (macs, known[macs], int(rows[0]["cbuf_KiB"]), rows[0]["dram_GBs"], int(rows[0]["mhz"]))
        yield name, Configuration(*made), rows


def _numbers(row: dict[str, str], place: str) -> dict[str, Fraction]:
    """Numbers of a row by column, that of cycles by memory."""
    found = {}
    for column in _NUMBERS:
        try:
            found[column.removesuffix("_max_cycles")] = Fraction(row[column])
        except (TypeError, ValueError, ZeroDivisionError):
            raise AccelsimError(f"{place}: {column}: {row[column]!r} is no number") from None
        if found[column.removesuffix("_max_cycles")] <= 0:
            raise AccelsimError(f"{place}: {column}: {row[column]!r} is not above 0")
    return found


def _mapped_figures(
    configuration: Configuration,
    network: SheetNetwork,
    layers: Sequence[MappedLayer],
    fast: Sequence[MappedLayer] = (),
) -> Iterator[Figure]:
    """Figures of the best mappings; where there are those with Winograd, of the layers that it changes."""
    changed = [new for old, new in zip(layers, fast, strict=True) if new != old] if fast else []
    for layer in changed if fast else layers:
        yield Figure(
            case=f"{network.name} {layer.name}, {configuration}",
            quantity=f"{network.name} layer, DRAM only",
            unit="cycles",
            published=float(layer.sheet),
            ours=float(layer.cycles),
            variant=_WINOGRAD if fast else _MAPPED,
            why=layer.why,
        )


def _rtl_figures(sheet: float, mapped: float) -> Iterator[Figure]:
    rtl = rtl_run()
    for variant, ours in ((_SHEET, sheet), (_MAPPED, mapped)):
        yield Figure(
            case=f"{rtl.network}, {rtl.configuration}",
            quantity="cycles of a simulation of the hardware",
            unit="cycles",
            published=rtl.cycles,
            ours=ours,
            variant=variant,
            why="a user's report, which does not say the number format, the batch and the memory",
        )


def _why(
    configuration: Configuration, network: SheetNetwork, layer: SheetLayer, bottleneck: str, winograd: bool
) -> str:
    """Name what the sheet and the mapping count differently, as far as it can show."""
    sheet = sheet_cycles(configuration, network, layer)
    bounds = {"DRAM" if sheet.dram > sheet.mac else "MAC", "DRAM" if bottleneck == "DRAM" else "MAC"}
    reasons = []
    if "MAC" in bounds:
        channels, kernels = configuration.atomic
        image, lanes, multiple = layer.C <= IMAGE_CHANNELS, _up(layer.C, channels), network.kernels["dram"]
        if layer.winograd and not winograd:
            reasons.append("no Winograd: 2.25x the MACs")
        if image:
            reasons.append(f"lines of {layer.C * layer.kernel} on {channels} lanes")
        elif lanes > layer.channels and not winograd:
            reasons.append(f"{layer.C} channels on {lanes} lanes")
        if _up(layer.K, multiple) != _up(layer.K, kernels) and not layer.fc:
            reasons.append(f"{layer.K} kernels count as {_up(layer.K, kernels)}, not {_up(layer.K, multiple)}")
    if winograd and layer.out % 4:
        reasons.append(f"an edge of {_up(layer.out, 4)} for {layer.out}")
    if "DRAM" in bounds:
        if winograd and not layer.winograd_weights:
            reasons.append("4 x 4 weights, not 3 x 3")
        if layer.winograd and layer.winograd_weights and not winograd:
            reasons.append("3 x 3 weights, not 4 x 4")
        if layer.stride > 1 and layer.kernel == 1:
            reasons.append(f"each weight once, not {layer.stride**2} times")
        if layer.stored < layer.out:
            reasons.append("outputs before pooling")
        if bounds == {"DRAM"}:
            reasons.append("a KiB is 1024 bytes, not 1000")
    return "; ".join(reasons)


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
