"""The first lines of a report: what is proved, what a mapping costs, and what could be better."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.mapping import idle_at_last
from accelsim.inputs.units import format_si, listed, ratio
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result
from accelsim.search.result import SearchResult
from accelsim.show.report import energy, percent, times
from accelsim.show.report.verdicts import question, verdict
from accelsim.show.table import Piece, bold, invalid


def other_operations(layers: Sequence[Einsum]) -> str:
    """Runs of some layers in words, such as `9 layers that do not multiply and add (8 add, 1 max)`."""
    runs: dict[str, int] = {}
    for layer in layers:
        runs[layer.operation] = runs.get(layer.operation, 0) + layer.repeat
    many = sum(runs.values())
    kinds = listed(f"{many} {operation}" for operation, many in runs.items())
    return f"{many:,} layer{'s' if many > 1 else ''} that do{'' if many > 1 else 'es'} not multiply and add ({kinds})"


def left_out_line(layers: Sequence[Einsum], ask: str = "--all-layers") -> str:
    """Which layers are not in a total, and what counts them."""
    names = listed((layer.name for layer in layers), 3)
    return f"not in the total: {other_operations(layers)}: {names}; {ask} counts each of their points as a MAC"


def wider_operands(machine: Architecture, layers: Sequence[Einsum]) -> list[str]:
    """What operands cost that are wider than the multipliers."""
    wide = sorted({tensor.bits for layer in layers for tensor in layer.tensors if not tensor.output})
    unit, widths = machine.compute, machine.energy.formats(machine.compute.name)
    wider = {next((width for width in widths if width >= bits), 0) for bits in wide if bits > unit.bits > 0} - {0}
    if not wider:
        return []
    charged = f"an operation of {listed(map(str, sorted(wider)))} bit"
    return [f"{unit.name} is {unit.bits} bit wide: wider operands are charged as {charged}, at the same rate"]


def widths_line(layers: Sequence[Einsum]) -> str:
    """Widths of the operands and partial sums of some layers."""
    wide = sorted({tensor.bits for layer in layers for tensor in layer.tensors if not tensor.output})
    sums = sorted({layer.output.psum_bits for layer in layers})
    return f"{listed(map(str, wide))}-bit operands, {listed(map(str, sums))}-bit partial sums"


def cost_line(result: Result) -> str:
    """What a mapping costs, in a line."""
    time = f"{result.cycles:,} cycles" if result.seconds is None else format_si(result.seconds, "s", 4)
    invalid = "" if result.valid else "INVALID, "
    return f"{result.workload} on {result.architecture}: {invalid}{energy(result.energy_pj)}, {time}"


def headline(
    result: Result, architecture: Architecture, einsum: Einsum, search: SearchResult | None = None
) -> Iterator[Piece]:
    """What is proved of a mapping, what it costs in a few lines, and every rule that it breaks."""
    asked = "given mapping" if search is None else f"{question(search.objective, search.space)}: {verdict(search)}"
    yield bold(f"{result.workload} on {result.architecture}, {asked}")
    yield from map(invalid, result.violations)
    if result.violations:
        yield "The numbers below are those of an architecture on which it would fit."
    yield ""
    lines = [("energy", energy(result.energy_pj, 5), f"{result.pj_per_mac:.4g} pJ/MAC"), *_time_lines(result)]
    widths = widths_line([einsum])
    if result.padded_macs != result.macs:
        widths += f"; {result.padded_macs:,} MACs with {', '.join(map(str, result.mapping.padded))}"
    lines.append(("work", format_si(result.macs, "MAC", 4), widths))
    lines.append(("utilization", percent(result.utilization), _busy(result, architecture)))
    lines += [_offchip(result, architecture, einsum), ("bottleneck", *_bottleneck(result)), *_area(architecture)]
    wide = max(len(value) for _, value, _ in lines)
    for name, value, note in lines:
        first, *more = textwrap.wrap(note, 65 - wide) or [""]
        yield f"{name:<12} {value:<{wide}}  {first}".rstrip()
        yield from (f"{'':<{15 + wide}}{line}" for line in more)
    for note in wider_operands(architecture, [einsum]):
        yield f"{'':<12} {note}"


def _time_lines(result: Result) -> Iterator[tuple[str, str, str]]:
    """Latency, energy-delay product and power; in seconds where the architecture has a clock."""
    if result.seconds is None or result.clock_hz is None:
        yield "latency", f"{result.cycles:,}", "cycles"
        yield "EDP", f"{result.edp:.4g}", "pJ*cycle"
        return
    yield (
        "latency",
        format_si(result.seconds, "s", 4),
        f"{result.cycles:,} cycles at {format_si(result.clock_hz, 'Hz')}",
    )
    yield "EDP", format_si(result.energy_pj * 1e-12 * result.seconds, "J*s", 4), ""
    if result.power_w is not None:
        yield "power", format_si(result.power_w, "W", 4), "average"


def _busy(result: Result, architecture: Architecture) -> str:
    """Compute units in use, why others are not, and how long all are stalled."""
    used, units = result.compute_used, result.compute_instances
    unused = "; ".join(_unused(result, architecture))
    text = f"all {units:,} MACs busy" if used == units else f"{used:,} of {units:,} MACs busy"
    text = "1 MAC" if units == 1 else text + (f": {unused}" if unused else "")
    stalled = 1 - result.temporal_utilization
    if stalled < _SOME_WAITING:
        return f"{text}; no stalls"
    waiting = f" for {result.bottleneck}" if result.bottleneck != result.compute else ""
    return f"{text}; stalled {percent(stalled)} of cycles{waiting}"


def _unused(result: Result, architecture: Architecture) -> Iterator[str]:
    """Why compute units are not used: no loop, remainders, padding."""
    for level in architecture.levels:
        mapped = [each for each in result.mapping.levels if each.level == level.name]
        axes = []
        for name, axis in (("columns", "x"), ("rows", "y")):
            size, used = getattr(level, axis).size, math.prod(loop.bound for m in mapped for loop in getattr(m, axis))
            axes += [f"{used} of {size} {name}"] if used < size else []
        yield from [f"{', '.join(axes)} of {level.name}"] if axes else []
    if dims := idle_at_last(result.mapping, result.bounds):
        yield f"fewer in the last passes over {listed(dims)}"
    if result.macs < result.padded_macs:
        yield f"padding to {', '.join(map(str, result.mapping.padded))}"


def _offchip(result: Result, architecture: Architecture, einsum: Einsum) -> tuple[str, str, str]:
    """Traffic of the outermost level, beside the compulsory one: the words of each tensor once."""
    words, wide = result.offchip_words, architecture.levels[0].word_bits
    compulsory = sum(tensor.words(einsum.dims) * -(-tensor.bits // wide) for tensor in einsum.tensors)
    over = f"{times(ratio(words, compulsory))} compulsory traffic"
    return "off-chip", format_si(words * wide / 8, "B", 4), f"{format_si(words, 'words', 4)}, {over}"


def _bottleneck(result: Result) -> tuple[str, str]:
    """What sets the latency, and the next one."""
    rows = sorted(result.cycle_rows(), key=lambda row: -row["share"])
    kind = "compute" if result.bottleneck == result.compute else "bandwidth"
    first = next(row for row in rows if row["component"] == result.bottleneck)
    others = [row for row in rows if row["component"] != result.bottleneck and row["cycles"]]
    then = f", then {others[0]['component']} {percent(others[0]['share'])}" if others else ""
    return kind, f"{result.bottleneck} {percent(first['share'])} busy{then}"


def alternative(result: Result, other: SearchResult | None) -> str:
    """What the optimum of another objective costs instead; empty where that is nearly the same."""
    if other is None:
        return ""
    best = other.best
    more, faster = ratio(best.energy_pj, result.energy_pj) - 1, result.cycles / best.cycles
    if (faster - 1 if other.objective == "cycles" else -more) < _SOME_WAITING:
        return ""
    time = f"{best.cycles:,} cycles" if best.seconds is None else format_si(best.seconds, "s", 4)
    speed = f"{times(faster)} faster" if faster >= 1 else f"{times(1 / faster)} slower"
    cost = "the same energy" if abs(more) < _SOME_WAITING else f"{energy(best.energy_pj, 5)} ({100 * more:+.3g} %)"
    return f"{time} ({speed}) for {cost}: --objective {other.objective}"


def hint_of(result: Result, einsum: Einsum, search: SearchResult | None, *, trade: bool) -> str:
    """The one thing to try where a result could be better; empty where there is none."""
    if search is None or search.proof is None:
        return ""
    space, low = search.space, result.utilization < _LOW
    if low and not space.imperfect and not space.padded:
        from accelsim.inputs.divisors import prime_factors  # for a hint alone

        dim, bound = max(einsum.dims.items(), key=lambda each: max(prime_factors(each[1]), default=1))
        prime = max(prime_factors(bound), default=1)
        if prime > _AWKWARD:
            has = "is prime" if prime == bound else f"has the prime factor {prime}"
            return f"{dim} = {bound} {has}: try --factors auto"
    if low and not trade and search.objective == "energy":
        return f"utilization is {percent(result.utilization)}: try --objective edp or cycles"
    return (
        "" if space.uneven or space.imperfect or space.padded else "only even mappings were searched: --mapspace auto"
    )


_LOW, _AWKWARD = 0.5, 7
"""Utilization below which there is a hint, and the prime factor above which a dimension is awkward to tile."""

_SOME_WAITING = 0.0005
"""Share of the cycles or of the energy from which stalls and an alternative are reported."""


def _area(architecture: Architecture) -> Iterator[tuple[str, str, str]]:
    """The area of the architecture, if a source has that of any part."""
    names = [*(level.name for level in architecture.levels), architecture.compute.name]
    without = [name for name in names if name not in architecture.areas]
    if len(without) == len(names):
        return
    every = {name: architecture.instances(index) for index, name in enumerate(names) if name not in without}
    total = sum(architecture.areas[name].area_um2 * instances for name, instances in every.items())
    what = f"without {', '.join(without)}, whose area is unknown" if without else "all levels and compute units"
    yield "area", f"{total / 1e6:.4g} mm2", what
