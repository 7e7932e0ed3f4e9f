"""Hold the shipped TPU-v1-like machine against what was published of the chip."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from accelsim.inputs.architecture import Architecture, Level, load_architecture
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import ROLES
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from validation.scalesim import gemm
from validation.study import Figure, Study

EIGHT_BIT = {"bits": "8", "word": "8 bit"}
WEIGHTS = 2048
"""Rows and columns of the weights that stand for an application's: whole tiles, as many as MLP0 has in a layer."""
_TOLERANCE = 0.1
"""How far ours may be from the published figure, relative to it, before a reason is asked for: an aim of ours."""
MATRIX, ALL, USED, COUNTERS = "matrix", "all", "all, used", "its counters"
"""Ours as it is; with the cycles besides matrix operations that the paper counted; with all cycles in which the array
is not active for a reason that the layer here has not, and the MACs without work in those in which it is; and no number
of ours, but the peak times the share of useful MACs that the paper counted."""
HALF_SPEED = "half speed"
_TWO_CYCLES = ("LSTM0", "LSTM1")
"""Applications whose counters fit their rates if a MAC takes two cycles, as with 8 by 16 bit (Section 2): assumed."""


@dataclass(frozen=True, slots=True)
class Application:
    """Published figures of one application; see tpu_v1.yaml."""

    name: str
    intensity: int
    tops: float
    active: float
    used: float
    weight_stall: float
    weight_shift: float
    non_matrix: float
    raw_stall: float
    input_stall: float

    @property
    def matrix(self) -> float:
        """Share of the cycles that belong to matrix operations: at work, waiting for weights, or shifting them."""
        return (self.active + self.weight_stall + self.weight_shift) / 100


def read_published() -> Dict[str, Any]:
    """Published figures."""
    text = Path(__file__).with_name("tpu_v1.yaml").read_text(encoding="utf-8")
    published: dict[str, Any] = yaml.safe_load(text)
    return published


def tpu(size: int = 256, faster_memory: int = 1) -> Architecture:
    """The shipped machine with 8-bit operands, an array of another size, and so many times the memory bandwidth.

    A host without limits stands outside: it holds inputs and outputs, which do not pass the weight memory.
    """
    machine = load_architecture("systolic", {**EIGHT_BIT, "pe.x": str(size), "pe.y": str(size)})
    memory = machine.levels[0]
    rate = Fraction(memory.bandwidth or 0) * faster_memory
    others = frozenset(ROLES) - {"Weights"}
    weights = replace(memory, bandwidth=None, read_bandwidth=rate, keep=frozenset({"Weights"}), bypass=others)
    free = {("Host", role, action): EnergyEntry(0.0, "not compared") for role in ROLES for action in ("read", "write")}
    host = Level("Host", "host", memory.word_bits, keep=frozenset(ROLES))
    entries = {**machine.energy.entries, **free}
    return replace(machine, levels=(host, weights, *machine.levels[1:]), energy=EnergyTable(entries))


def run_layer(machine: Architecture, rows: int, inputs: int, outputs: int) -> Result:
    """Multiply `rows` input vectors with a matrix of weights, tile by tile, partial sums in the accumulators.

    Incomplete tiles are padded with zeros: the chip loads whole tiles.
    """
    array = machine.levels[-2]
    down, along = (-(-inputs // array.y.size), -(-outputs // array.x.size))
    bounds = {"M": rows, "K": down * array.y.size, "N": along * array.x.size}
    padded = tuple(Loop(dim, bounds[dim]) for dim, real in (("K", inputs), ("N", outputs)) if real < bounds[dim])
    mapping = Mapping(
        (
            LevelMapping("Host", keep=frozenset(ROLES)),
            LevelMapping("DRAM", keep=frozenset({"Weights"})),
            LevelMapping("UnifiedBuffer", (Loop("N", along),), keep=frozenset({"Inputs", "Outputs"})),
            LevelMapping(
                "Accumulators",
                (Loop("K", down), Loop("M", rows)),
                (Loop("N", array.x.size),),
                (Loop("K", array.y.size),),
                frozenset({"Outputs"}),
            ),
            LevelMapping("WeightRegister", keep=frozenset({"Weights"})),
        ),
        padded=padded,
    )
    return evaluate(machine, gemm({"M": rows, "K": inputs, "N": outputs}), mapping)


def tops(result: Result) -> float:
    """Rate in 10^12 operations a second; a multiply-accumulate is two."""
    return 2 * result.macs * (result.clock_hz or 0.0) / result.cycles / 1e12


def tpu_study() -> Study:
    """Compare the first TPU's published figures."""
    published = read_published()
    applications = [Application(name, **row) for name, row in published["applications"].items()]
    machine = tpu()
    results = {each.name: run_layer(machine, each.intensity, WEIGHTS, WEIGHTS) for each in applications}
    figures = [*_hardware(machine, published)]
    for each in applications:
        figures += _application(each, results[each.name], machine, published)
    figures += _sensitivity(applications, results, published)
    measured = [figure for figure in figures if figure.quantity == "measured"]
    within = {
        kind: [f.case for f in measured if f.variant == kind and abs(f.error) <= _TOLERANCE] for kind in (MATRIX, ALL)
    }
    return Study(
        name="tpu",
        about="peak, ridge, roofline and utilization of the first TPU",
        source="Jouppi et al., ISCA 2017: Tables 1 to 3, Figure 5, Section 7",
        figures=tuple(figures),
        notes=(
            "The layers of the applications are not published, only the MACs for each byte of weights. So each is one "
            f"layer with that intensity and {WEIGHTS} x {WEIGHTS} weights: full tiles, and matrix operations alone.",
            "Roofline: the rate that Tables 1 and 2 allow. Measured: the last row of Table 3, from production, which "
            "by the paper does not fit its counters perfectly. `matrix`: matrix operations alone; `all`: with the "
            "share of cycles in no matrix operation (Table 3). Within 10 %: "
            f"{', '.join(within[MATRIX])} by the first, {', '.join(within[ALL])} by the second.",
            "`all, used`: also with the MACs of an active array that have no work (LSTM1 40 %, CNN1 51 %: layers that "
            "do not fill its tiles; 600 x 600 in whole tiles leaves 39 %), and for the CNNs with the cycles that they "
            "wait for weights (CNN1 35 %). That leaves +25 % of LSTM1's +133 % and +45 % of CNN1's +546 %. `its "
            "counters` is no number of ours, but the peak x useful MACs of Table 3: it is as far from CNN1's measured "
            "rate.",
            "LSTMs: their counters make twice what was measured, and more than Tables 1 and 2 allow. Both fit if a MAC "
            "takes two cycles, as with operands of 8 and 16 bit (Section 2): `half speed`, an assumption of ours.",
            "Shares are of the cycles that belong to matrix operations, by the counters of Table 3: shifting weights "
            "in, and the array active. Counters of MLP1 and the LSTMs see more rows for a tile than Table 1.",
            "Waits for weights: 1 if that takes more than half of these cycles. 4x bandwidth: the speed-up, published "
            "for MLPs and LSTMs together.",
        ),
    )


def _figure(
    case: str, quantity: str, unit: str, published: float, ours: float, tolerance: float | None = _TOLERANCE
) -> Figure:
    return Figure(case, quantity, unit, published, ours, tolerance)


def _hardware(machine: Architecture, published: Dict[str, Any]) -> list[Figure]:
    """Peak, ridge, and the time to shift in a tile."""
    clock, rate = machine.clock_hz or 0.0, machine.levels[1].read_bandwidth or Fraction(1)
    tile = run_layer(machine, 1, 256, 256)
    shift = sum(ramp.cycles for ramp in tile.pipeline_fill if "preload" in ramp.what)
    return [
        _figure("chip", "peak", "TOPS", published["peak_tops"], 2 * machine.macs * clock / 1e12, 0.01),
        _figure("chip", "ridge", "MAC/B", published["ridge_macs_per_byte"], machine.macs / float(rate), 0.01),
        _figure("chip", "tile shift", "cycles", published["shift_cycles"], shift, 0.0),
    ]


def _application(each: Application, result: Result, machine: Architecture, published: Dict[str, Any]) -> list[Figure]:
    """Roofline, measured rate, what bounds it, and shares of cycles of one application."""
    array = machine.levels[-2]
    roof = min(published["peak_tops"], 2e-3 * each.intensity * published["weight_bandwidth_gbps"])
    ours, waits = tops(result), result.bottleneck == "DRAM"
    halved, other = each.name in _TWO_CYCLES, each.non_matrix / 100
    in_time, counted = 1 - other if waits else each.active / 100, published["peak_tops"] * each.used / 100
    rates = {MATRIX: ours, ALL: ours * (1 - other), USED: ours * in_time * each.used / each.active, COUNTERS: counted}
    rates |= {f"{COUNTERS}, {HALF_SPEED}": counted / 2} if halved else {}
    stalls = (
        f"stalls for RAW dependences in {each.raw_stall:g} % of the cycles and for input in {each.input_stall:g} %, "
        "which overlap with the shares counted here"
    )
    found = [
        _figure(each.name, "roofline", "TOPS", roof, ours),
        *(
            Figure(each.name, "measured", "TOPS", each.tops, rate, None, variant, stalls if variant == USED else "")
            for variant, rate in rates.items()
        ),
        _figure(each.name, "waits for weights", "", int(each.weight_stall > 50 * each.matrix), int(waits), 0.0),
    ]
    if waits:
        of_tile = result.cycles / (WEIGHTS // array.x.size) / (WEIGHTS // array.y.size)
        shift, active = (share / 100 / each.matrix for share in (each.weight_shift, each.active))
        found.append(_figure(each.name, "shift share", "", shift, array.y.size / of_tile))
        why = f"{active * of_tile:.0f} cycles a tile by the counters, {each.intensity} rows by Table 1"
        for factor, variant in ((1, ""), (2, HALF_SPEED)) if halved else ((1, ""),):
            ours = factor * each.intensity / of_tile
            found.append(Figure(each.name, "active share", "", active, ours, None, variant, why))
    return found


def _sensitivity(
    applications: Sequence[Application], results: Dict[str, Result], published: Dict[str, Any]
) -> list[Figure]:
    """The 600 x 600 example, and four times the memory bandwidth."""
    example, found = published["matrix_600"], []
    for array in example["arrays"]:
        size = array["size"]
        result = run_layer(tpu(size), example["batch"], 600, 600)
        tiles = next(t.fills for t in result.tensors if t.level == "WeightRegister")
        found.append(_figure(f"600^2 on {size}^2", "tiles", "", array["tiles"], tiles, 0.0))
        found.append(_figure(f"600^2 on {size}^2", "time", "us", array["microseconds"], 1e6 * (result.seconds or 0.0)))
    fast, times = tpu(faster_memory=4), published["bandwidth_times_4"]
    for each in applications:
        if results[each.name].bottleneck == "DRAM":
            gain = results[each.name].cycles / run_layer(fast, each.intensity, WEIGHTS, WEIGHTS).cycles
            other = each.non_matrix / 100
            for variant, ours in ((MATRIX, gain), (ALL, 1 / (other + (1 - other) / gain))):
                found.append(Figure(each.name, "4x bandwidth", "x", times, ours, None, variant))
    return found
