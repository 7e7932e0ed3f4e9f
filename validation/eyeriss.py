"""The Eyeriss chip: time, active PEs, buffer and DRAM traffic of AlexNet and VGG-16, by layer, beside JSSC 2017."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.search.mapper import map_einsum
from validation.eyeriss_passes import Passes, Ramp, compression, ramp
from validation.study import Figure, Study

TIME_TOLERANCE = 0.10
TRAFFIC_TOLERANCE = 0.15
PES_TOLERANCE = 0.05
"""How far ours may be from the published figure, relative to it, before a reason is asked for: aims of ours."""
POWER_TOLERANCE = 0.40
"""nn_dataflow, whose energies these are, asks for 0.6 to 1 x the measured power: there is no clock tree in them."""

STATIC_MW = 30.0
"""Buffer and register files; nn_dataflow's (stanford-mast/nn_dataflow@198a527, test_eyeriss_isscc16), not published."""

PUBLISHED = "published mapping"
CONV3_AS_CONV4 = "AlexNet CONV3 as CONV4"
"""CONV3 with the published parameters of CONV4."""
_SLIP = ("AlexNet CONV3", PUBLISHED)
"""Where Tables III and V of the paper do not fit together; validation/reports/eyeriss.md, "Buffer traffic"."""
TO_FIT = "passes to fit"
"""Of VGG-16: channels in a pass such that the published buffer traffic comes out."""
ROWS = "best row-stationary"
FREE = "best of all"
_BYTES = 2
"""Of a word of 16 bit."""
_NAMES = {"alexnet": "AlexNet", "vgg16": "VGG-16"}


@dataclass(frozen=True, slots=True)
class Layer:
    """A row of Table V or VI: mW, ms, PEs, share of zeros in the ifmaps, MB."""

    name: str
    layer: str
    power: float
    total: float
    processing: float
    active_pes: float
    zeros: float
    buffer: float
    dram: float


@dataclass(frozen=True, slots=True)
class Chip:
    """What a mapping of a layer costs on the chip.

    Attributes
    ----------
    result : Result
    ramp : Ramp
    milliseconds : float
        Processing: the slowest of PEs, buffer ports and compressed DRAM traffic, and the ramp.
    waiting_ms : float
        What fills and drains of the buffer take at most if the PEs wait for them; filters are prefetched.
    dram_mb, plain_dram_mb : float
        Words read and written at DRAM, with feature maps compressed and without [10^6 B].
    buffer_mb : float
        Inputs read, and partial sums read and written, at the buffer [10^6 B].
    filled_mb : float
        Inputs written there from DRAM, which are not in `buffer_mb`.
    power_mw : float
        All but DRAM, and `STATIC_MW`.
    """

    result: Result
    ramp: Ramp
    milliseconds: float
    waiting_ms: float
    dram_mb: float
    plain_dram_mb: float
    buffer_mb: float
    filled_mb: float
    power_mw: float


@functools.cache
def published() -> dict[str, Any]:
    """What was published, as `eyeriss.yaml` beside this module has it."""
    document: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return document


def layers(network: str) -> list[Layer]:
    """Rows of Table V (`alexnet`) or VI (`vgg16`)."""
    return [Layer(*row) for row in published()["jssc"][network]["rows"]]


def published_passes() -> dict[str, Passes]:
    """Table III: mapping parameters of AlexNet by layer."""
    return {layer: Passes(*parameters) for layer, *parameters in published()["passes"]["rows"]}


def passes_to_fit() -> dict[str, Passes]:
    """Mapping parameters of VGG-16 by layer with which Table VI's buffer traffic comes out; not published."""
    return {layer: Passes(*parameters) for layer, *parameters in published()["to_fit"]["rows"]}


def machine() -> Architecture:
    """The chip, `arch/eyeriss_jssc.yaml`."""
    return load_architecture("eyeriss_jssc")


def einsums(network: str) -> dict[str, Einsum]:
    """Convolutions of a network by name, with the batch of the measurements."""
    found = load_workload(network, {"batch": str(published()["jssc"][network]["batch"])}).layers
    return {einsum.name: einsum for einsum in found}


def output_zeros(rows: Sequence[Layer], index: int) -> float:
    """Share of zeros in the outputs of a layer: that of the next layer's ifmaps, or of the layer's own for the last.

    Between them may lie a pooling that takes the largest of several values and so leaves fewer zeros.
    """
    return rows[min(index + 1, len(rows) - 1)].zeros


def on_chip(result: Result) -> Chip:
    """Time, traffic and power of a mapping on the chip.

    Parameters
    ----------
    result : Result
        Of a machine with a clock and three levels: DRAM, which may compress, buffer, scratchpads.
    """
    dram, buffer, _ = (level.level for level in result.levels)
    at = {(tensor.level, tensor.tensor): tensor for tensor in result.tensors}
    if result.clock_hz is None:
        raise AccelsimError(f"{result.architecture}: the study needs a clock")
    inputs, outputs = at[buffer, "Inputs"], at[buffer, "Outputs"]
    waits = ramp(result)
    seconds = (result.cycles + float(waits.cycles)) / result.clock_hz
    at_dram = [tensor for tensor in result.tensors if tensor.level == dram]
    return Chip(
        result=result,
        ramp=waits,
        milliseconds=1e3 * seconds,
        waiting_ms=1e3
        * sum(each.fills + each.drains for each in result.fills if each.level == buffer)
        / result.clock_hz,
        dram_mb=1e-6 * _BYTES * float(sum(t.storage_words(t.total_words, 8 * _BYTES) for t in at_dram)),
        plain_dram_mb=1e-6 * _BYTES * sum(t.total_words for t in at_dram),
        buffer_mb=1e-6 * _BYTES * (inputs.total_reads + outputs.total_reads + outputs.total_updates),
        filled_mb=1e-6 * _BYTES * inputs.total_fills,
        power_mw=STATIC_MW + 1e-9 * (result.energy_pj - sum(t.energy_pj for t in at_dram)) / seconds,
    )


def compressed(architecture: Architecture, rows: Sequence[Layer], index: int) -> Architecture:
    """The chip with the feature maps of a layer run-length coded in DRAM, for the zeros that were measured.

    The input of the network is stored plain, and so is a map that the code would make larger.
    """
    ratios = {
        "Inputs": compression(rows[index].zeros) if index else 1.0,
        "Outputs": compression(output_zeros(rows, index)),
    }
    shares = {role: Fraction(f"{ratio:.4f}") for role, ratio in ratios.items() if ratio < 1.0}
    return replace(architecture, levels=(replace(architecture.levels[0], compression=shares), *architecture.levels[1:]))


def best(architecture: Architecture, einsum: Einsum, *, row_stationary: bool) -> Result:
    """The mapping of smallest energy x delay, in passes of whole rows or any; P may be padded to whole strips of 14."""
    asked = load_constraints("eyeriss_passes", architecture, einsum) if row_stationary else None
    columns = architecture.levels[1].x.size
    pad = [f"P={-(-einsum.dims['P'] // columns) * columns}"] if einsum.dims["P"] % columns else []
    return map_einsum(architecture, einsum, constraints=asked, objective="edp", uneven=False, pad=pad).best


def eyeriss_study() -> Study:
    """Compare AlexNet and VGG-16 on the Eyeriss chip: published mapping, best row-stationary, best of all."""
    return Study(
        name="eyeriss",
        about="the Eyeriss chip on AlexNet and VGG-16: time, active PEs, buffer and DRAM traffic, power",
        source="Chen et al., JSSC 52(1), 2017, Tables III, V and VI (transcription: cucapra/fodlam@cde53fd)",
        figures=(*_figures("alexnet"), *_figures("vgg16")),
        notes=_NOTES,
    )


def _figures(network: str) -> Iterator[Figure]:
    """Figures of a network, layer by layer; layers of one shape share their mappings."""
    architecture, shapes, rows = machine(), einsums(network), layers(network)
    judged, known = (PUBLISHED, published_passes()) if network == "alexnet" else (TO_FIT, passes_to_fit())
    found: dict[str, tuple[Mapping, Mapping]] = {}
    chips: dict[str, list[Chip]] = {}
    for index, row in enumerate(rows):
        einsum, coded = shapes[row.layer], compressed(architecture, rows, index)
        mappings = []
        if row.layer in known:
            mappings.append((judged, known[row.layer].mapping(architecture, einsum)))
        if row.layer not in found:
            found[row.layer] = (
                best(architecture, einsum, row_stationary=True).mapping,
                best(architecture, einsum, row_stationary=False).mapping,
            )
        mappings += zip((ROWS, FREE), found[row.layer], strict=True)
        for variant, mapping in mappings:
            chip = on_chip(evaluate(coded, einsum, mapping))
            chips.setdefault(variant, []).append(chip)
            yield from _compare(f"{_NAMES[network]} {row.name}", row, variant, chip)
        if (network, row.name) == ("alexnet", "CONV3"):
            chip = on_chip(evaluate(coded, einsum, known["conv4"].mapping(architecture, einsum)))
            yield from _compare(CONV3_AS_CONV4, row, PUBLISHED, chip)
    for variant, of_layers in chips.items():
        yield _a_mac(network, variant, of_layers)


def _a_mac(network: str, variant: str, chips: Sequence[Chip]) -> Figure:
    """Words that DRAM moves for each multiply-accumulate of a network."""
    macs = sum(chip.result.macs for chip in chips)
    ours, plain = (
        1e6 * sum(megabytes) / _BYTES / macs
        for megabytes in ([chip.dram_mb for chip in chips], [chip.plain_dram_mb for chip in chips])
    )
    return Figure(
        case=_NAMES[network],
        quantity="DRAM words a MAC",
        unit="",
        published=published()["jssc"][network]["dram_words_a_mac"],
        ours=ours,
        tolerance=TRAFFIC_TOLERANCE if variant == PUBLISHED else None,
        variant=variant,
        why=f"{plain:.4f} uncompressed",
    )


def _compare(case: str, row: Layer, variant: str, chip: Chip) -> Iterator[Figure]:
    """Figures of one mapping of one layer; only the published ones are judged."""
    judged = variant == PUBLISHED
    quantities: list[tuple[str, str, float, float, float | None, str]] = [
        ("processing time", "ms", row.processing, chip.milliseconds, TIME_TOLERANCE, _time_why(chip)),
        ("active PEs", "", row.active_pes, float(chip.result.compute_used), PES_TOLERANCE, _pes_why(chip)),
        ("buffer traffic", "MB", row.buffer, chip.buffer_mb, TRAFFIC_TOLERANCE, _buffer_why(case, variant, chip)),
        ("DRAM traffic", "MB", row.dram, chip.dram_mb, TRAFFIC_TOLERANCE, f"{chip.plain_dram_mb:.2f} MB uncompressed"),
    ]
    if variant in (PUBLISHED, TO_FIT):
        whole = chip.milliseconds + chip.waiting_ms
        why = f"{chip.waiting_ms:.2f} ms if nothing that fills or drains the buffer overlaps"
        quantities.append(("total latency", "ms", row.total, whole, None, why))
    if judged:
        quantities.append(("power", "mW", row.power, chip.power_mw, POWER_TOLERANCE, _POWER_WHY))
    for quantity, unit, theirs, ours, tolerance, why in quantities:
        explained = quantity == "buffer traffic" and (case, variant) == _SLIP
        yield Figure(case, quantity, unit, theirs, ours, tolerance if judged else None, variant, why, explained)


def _time_why(chip: Chip) -> str:
    """How the processing time adds up."""
    each = chip.milliseconds * 1e-3 * (chip.result.clock_hz or 0.0)
    share = 1e3 / (chip.result.clock_hz or 1.0)
    loading = float(chip.ramp.cycles)
    filters, windows = float(chip.ramp.filters) * share, float(chip.ramp.inputs) * share
    return (
        f"{(each - loading) * share:.2f} ms and, in {chip.ramp.passes:,} passes, {filters:.2f} ms for filters, "
        f"{windows:.2f} ms for first windows"
    )


def _pes_why(chip: Chip) -> str:
    padding = chip.result.mapping.padding
    more = chip.result.padded_macs / chip.result.macs - 1
    return f"P padded to {padding['P']}, {100 * more:.1f} % more" if padding else ""


def _buffer_why(case: str, variant: str, chip: Chip) -> str:
    if (case, variant) == _SLIP:
        return (
            "Table III's q = 4, r = 1 sends sums to the buffer 64 times; Table V's 50.2 MB are 43 times: "
            "q = 3, r = 2, t = 2 of CONV4"
        )
    return f"{chip.filled_mb:.2f} MB of inputs written from DRAM not counted"


_POWER_WHY = "energies of nn_dataflow: no clock tree, no gating of zeros"

_NOTES = (
    "Processing time is that of Tables V and VI: DRAM traffic overlaps with it. Between passes the array waits for the "
    "filters of the pass (64 bit a cycle) and its first input windows (16 bit a cycle): JSSC, sections V-B and VI-A.",
    "Buffer traffic: inputs read, partial sums read and written, finished sums read; Table V's figures are these. "
    "Inputs written from DRAM are not in it. What pads P is (CONV1: 56 rows for 55, 1.8 %; CONV2: 28 for 27, 3.7 %).",
    "DRAM traffic: filters plain; feature maps by the run-length code of section IV-B for the shares of zeros in "
    "Tables V and VI. Zeros of outputs are those of the next layer's inputs, fewer where a pooling lies between; so "
    "CONV1 of AlexNet comes out high: 60 % of zeros there would give the 5.0 MB.",
    "CONV3: Table III (q = 4, r = 1, t = 4) does not give Table V's buffer traffic; q = 3, r = 2, t = 2, as in CONV4, "
    "gives all of Table V's row.",
    "VGG-16: no mapping was published. Table VI's buffer traffic is that of partial sums for k = 1 channel added up in "
    "a pass in CONV1 and CONV2, 2 in CONV3, 4 in CONV4 and 8 in CONV5; scratchpads and array have room for 16 (q = 4, "
    "r = 4). Passes with these k (`passes to fit`) come within 12 % of Table VI's buffer traffic, time and active PEs "
    "(20 and 17 % in CONV3, where P = 56 is padded to 5 strips of 13, 16 % more). Sums on their way, not the PEs, take "
    "the time in CONV1 to CONV4; the best mappings send them less often and are up to 4.6 times as fast.",
    "Total latency: DRAM traffic that the chip did not overlap is in it. Ours is processing time and all fills and "
    "drains of the buffer, as if none overlapped (docs/cost-model.md).",
    "The best mappings are those of least energy x delay on arch/eyeriss_jssc.yaml, without the time for loading and "
    "without compression, which is counted for the mappings that were found (`compression` of DRAM); "
    "row-stationary ones are those of constraints/eyeriss_passes.yaml. P may be padded to a multiple of 14.",
)
