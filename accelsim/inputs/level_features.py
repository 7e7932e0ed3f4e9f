"""Sizes and bandwidths of a level; bursts of the first one, and the banks that take them in turn.

Compression of what a storage level holds: the share of the raw bits that is left, by role of the tensor.

Systolic arrays in an architecture: a fanout whose instances pass operands and partial sums to their neighbours.

DMA engines: what moves the tiles of a level one after the other, in time that not all of computing hides.

Vector units of an architecture: what runs operations other than multiply-accumulates, such as a soft-max.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from accelsim.inputs import fields, forms
from accelsim.inputs.energies import AREA, COMPONENT, PartFigures, own_energy_keys, read_component
from accelsim.inputs.errors import HintedError
from accelsim.inputs.fields import Fields, Key, Keys, by_role, keys_form, node_of
from accelsim.inputs.source import ListNode, MapNode, Node, Problems, describe
from accelsim.inputs.units import DELAYS, SIZES, Rate, listed, near_miss, quoted
from accelsim.inputs.workload import OPERATIONS, ROLES

BANDWIDTHS = ("bandwidth", "read_bandwidth", "write_bandwidth")
_PARTITIONS = by_role(fields.positive_size_bits, "capacity of one instance for the partition", "bypassed", SIZES)
SIZE = node_of(forms.either(fields.positive_size_bits.form, keys_form(_PARTITIONS)))
"""Reader of the key `size` of a level."""
_DIGITS = 4
"""After the point, at most: traffic is counted in whole multiples of the smallest unit, and 64 bits are to hold it."""
_SHARE = "a share of the raw bits above 0, at most 1"


def _stored_share(text: str) -> Fraction | None:
    """A share above 0, at most 1, of at most four digits after the point."""
    number = re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,12})?|\.[0-9]{1,12}", text)
    value = Fraction(text) if number else Fraction(0)
    if value > 1:
        hint = f"a ratio of {text} : 1 is written {_rounded(1 / value)}"
        raise HintedError(f"expected {_SHARE}, got {quoted(text)}", hint)
    if (value * 10**_DIGITS).denominator > 1:
        what = f"{quoted(text)} has more than {_DIGITS} digits after the point"
        raise HintedError(what, f"write {_rounded(value)}")
    return value or None


stored_share = fields.scalar(forms.fraction(1), _stored_share, _SHARE, "such as 0.6, or 1 for none")


def _rounded(value: Fraction) -> str:
    """As many digits as can be read, at least the smallest share."""
    return f"{max(float(value), 10.0**-_DIGITS):.{_DIGITS}f}".rstrip("0")


BURSTS: Keys = {
    "burst": Key(fields.positive_size_bits, "smallest transfer of the first level", "none", SIZES),
    "banks": Key(fields.positive_int, "banks of the first level", "1"),
}


def read_bursts(level: Fields, *, first: bool) -> dict[str, Any]:
    """Read bursts and banks of a level, which only the first one has."""
    if not first and "burst" in level:
        level.wrong("burst", "bursts are counted at the first level only", "leave `burst` out")
    if "banks" in level and (not first or "burst" not in level):
        level.wrong("banks", "conflicts of banks are those of the first level's bursts", "leave `banks` out")
    return {"burst_bits": level.value("burst", 0) or None, "banks": level.value("banks", 1)}


_KEYS = by_role(stored_share, "compressed size / raw size", "1: none", "0 to 1")
COMPRESSION = Key(
    node_of(keys_form(_KEYS)), "compressed size / raw size of stored and moved words, by role", "1: none", "0 to 1"
)
"""The key `compression` of a level."""


def read_compression(level: Fields, bypass: Iterable[str]) -> dict[str, Fraction]:
    """Read the compression of a level; roles that are stored as they are, with a share of 1, are left out."""
    return {role: share for role, share in values_by_role(level, "compression", _KEYS, bypass).items() if share != 1}


@dataclass(frozen=True, slots=True)
class Instruction:
    """What one instruction of a systolic array streams: at most so many `rows` along a dimension.

    It takes at least `least` steps. An array has short instructions only where a layer has the dimension.
    """

    along: str
    rows: int
    least: int


@dataclass(frozen=True, slots=True)
class Systolic:
    """A fanout that is a systolic array of PEs, which are the next level; operands pass from neighbour to neighbour.

    The PEs hold the tensor of the role `stationary` in place; `double_buffered`: each has a second register, which the
    next tile enters while one is used.
    """

    stationary: str
    double_buffered: bool = False
    instruction: Instruction | None = None

    def shares(self, axis: str) -> tuple[bool, bool]:
        """Multicast and spatial reduction of an axis: what is forwarded along it.

        Along the rows (x) operands are. Down the columns (y) partial sums are, or operands where outputs stay.
        """
        down = axis == "y" and self.stationary != "Outputs"
        return not down, down


_INSTRUCTION_KEYS: Keys = {
    "along": Key(fields.identifier, "dimension that an instruction streams"),
    "rows": Key(fields.positive_int, "most steps of one instruction", unit="steps"),
    "least": Key(fields.positive_int, "least duration of an instruction", unit="steps"),
}
_ARRAY_KEYS: Keys = {
    "stationary": Key(fields.one_of(ROLES, "a role"), "role that stays in the PEs"),
    "double_buffered": Key(fields.boolean, "the next tile is loaded while this one computes", "false"),
    "instruction": Key(node_of(keys_form(_INSTRUCTION_KEYS)), "steps that one instruction streams", "none"),
}
SYSTOLIC = Key(node_of(keys_form(_ARRAY_KEYS)), "systolic array of rows (y) and columns (x)", "none")
"""The key `systolic` of a fanout."""


def read_systolic(fanout: Fields) -> Systolic | None:
    """Read the systolic array that a fanout may be."""
    array = fanout.inner("systolic", _ARRAY_KEYS)
    role, asked = array.value("stationary", ""), array.inner("instruction", _INSTRUCTION_KEYS)
    instruction = Instruction(asked.value("along", ""), asked.value("rows", 1), asked.value("least", 1))
    streamed = instruction if "instruction" in array else None
    return Systolic(role, array.value("double_buffered", False), streamed) if role else None


@dataclass(frozen=True, slots=True)
class Dma:
    """An engine that moves the tiles of a level whole and row by row, in each step of the loops outside the level.

    `issue` are the cycles until the next tile can be moved, at least: what its instructions take. `row_bits` are
    adjacent bits that one access of the engine moves, `line_bits` those of a line of the memory behind it; a row and a
    line take `row_cycles` and `line_cycles`, by role, or none. Words are adjacent along a dimension by role (`along`),
    else along the last rank. `overlap`: the next tile moves while the compute units use the one before.
    """

    issue: int = 0
    row_bits: int | None = None
    row_cycles: Mapping[str, Fraction] = field(default_factory=dict)
    line_bits: int | None = None
    line_cycles: Mapping[str, Fraction] = field(default_factory=dict)
    along: Mapping[str, str] = field(default_factory=dict)
    overlap: bool = True

    def cycles_each(self, role: str, bits: int) -> Fraction:
        """Cycles of an element of so many bits in full rows and lines; no element of a tile takes fewer."""
        pieces = (self.row_bits, self.row_cycles), (self.line_bits, self.line_cycles)
        return sum((times[role] / (size // bits) for size, times in pieces if size and times.get(role)), Fraction())


_FEW = "at most six digits, and two after the point, such as 1.75"
_cycles = fields.word(re.compile(r"[0-9]{1,6}(\.[0-9]{1,2})?"), "cycles", _FEW, Fraction)
_ROW_CYCLES = by_role(_cycles, "time of a row", "0", "cycles")
_LINE_CYCLES = by_role(_cycles, "additional time of a line", "0", "cycles")
_ALONG = by_role(fields.identifier, "dimension along which data is contiguous", "the last rank")
_DMA_KEYS: Keys = {
    "issue": Key(fields.count, "least time of the inputs of one step", "0", "cycles"),
    "row": Key(fields.positive_size_bits, "contiguous data of one transfer", "no time", SIZES),
    "row_cycles": Key(node_of(keys_form(_ROW_CYCLES)), "time of a row, by role", "0", "cycles"),
    "line": Key(fields.positive_size_bits, "line of the memory behind it", "no time", SIZES),
    "line_cycles": Key(node_of(keys_form(_LINE_CYCLES)), "additional time of a line, by role", "0", "cycles"),
    "along": Key(node_of(keys_form(_ALONG)), "dimension along which data is contiguous, by role", "the last rank"),
    "overlap": Key(fields.boolean, "the next tile moves while this one computes", "true"),
}
DMA = Key(node_of(keys_form(_DMA_KEYS)), "DMA engine that moves the tiles one by one", "none")
"""The key `dma` of a level."""


def read_dma(level: Fields, bypass: Iterable[str], *, first: bool) -> Dma | None:
    """Read the engine that moves the tiles of a level."""
    node, problems = level.get("dma"), level.problems
    if node is None or problems.unreadable(node):
        return None
    engine, before = Fields(node, problems, _DMA_KEYS), len(problems)
    if first:
        problems.add(node, "nothing fills the first level", "write `dma` in the level that it moves tiles into")
    overlap, issue = engine.value("overlap", True), engine.value("issue", 0)
    row, line = (engine.value(key, 0) or None for key in ("row", "line"))
    times: dict[str, Mapping[str, Fraction]] = {}
    for key, of, keys in (("row_cycles", "row", _ROW_CYCLES), ("line_cycles", "line", _LINE_CYCLES)):
        times[key] = values_by_role(engine, key, keys, bypass)
        if key in engine and of not in engine:
            engine.wrong(key, f"'{of}' is missing beside it", f"add `{of}: 16 B`")
        if of in engine and key not in engine:
            engine.wrong(of, f"'{key}' is missing beside it", f"add `{key}: {{Weights: 1}}`")
        if overlap and "Outputs" in times[key]:
            what = "outputs leave when a tile is computed, which a `dma` that overlaps does not wait for"
            engine.wrong(key, what, "write `overlap: false`, or take Outputs out")
    along: Mapping[str, str] = values_by_role(engine, "along", _ALONG, bypass)
    if len(problems) > before:
        return None
    return Dma(issue, row, times["row_cycles"], line, times["line_cycles"], along, overlap)


def values_by_role(owner: Fields, key: str, keys: Keys, bypass: Iterable[str]) -> dict[str, Any]:
    """Values of a key by role; what the level never holds is a mistake."""
    read = owner.inner(key, keys)
    for role in sorted(set(bypass) & set(read.entries)):
        owner.problems.add(read.entries[role], f"{role} is never stored here", "take it out, or out of `bypass`")
    return {role: value for role in ROLES if role in read and (value := read.value(role, None)) is not None}


def read_size(
    level: Fields, word_bits: int, *, first: bool, stores_nothing: bool
) -> tuple[int | None, dict[str, int] | None]:
    """Capacity [words] shared by all tensors, or by role; a level that stores nothing needs none."""
    node = level.get("size")
    if node is None and not first and level.readable and not stores_nothing:
        hint = "only the first level may be unlimited: the list begins with the outermost"
        level.problems.add(level.node, "'size' is missing", hint)
    if node is None or level.problems.unreadable(node):
        return None, None
    if not isinstance(node, MapNode):
        return _words(node, word_bits, level.problems), None
    partitions = Fields(node, level.problems, _PARTITIONS)
    if not node.entries:
        level.problems.add(node, "expected a size, or one for each role, got an empty mapping")
    sizes = {role: _words(partitions.entries[role], word_bits, level.problems) for role in ROLES if role in partitions}
    return None, {role: words for role, words in sizes.items() if words is not None}


def _words(node: Node, word_bits: int, problems: Problems) -> int | None:
    bits = None if problems.unreadable(node) else fields.positive_size_bits(node, problems)
    if bits is not None and bits < word_bits:
        problems.add(node, f"{describe(node)} is less than one word of {word_bits} bit")
    return None if bits is None else bits // word_bits or None


def read_bandwidth(level: Fields, key: str, word_bits: int, clock_hz: Fraction | None) -> Fraction | None:
    """Bandwidth of one instance [words/cycle]."""
    node = level.get(key)
    rate: Rate | None = level.value(key, None)
    if node is None or rate is None:
        return None
    words = rate.words_per_cycle(word_bits, clock_hz)
    if words is None:
        what = f"{describe(node)} is per second, but the architecture has no clock"
        level.problems.add(node, what, "add `clock: 1 GHz`, or write it per cycle")
    return words


LATENCY = Key(fields.delay, "wait for the first word of a fill from here", "0", DELAYS)
"""The key `latency` of a level."""


def read_rates(level: Fields, word_bits: int, clock_hz: Fraction | None) -> dict[str, Fraction | int | None]:
    """Bandwidths that one instance reaches [words/cycle], and its latency [cycles, rounded up], by key."""
    efficiency: Fraction = level.value("efficiency", Fraction(1))
    rates = {key: read_bandwidth(level, key, word_bits, clock_hz) for key in BANDWIDTHS}
    given = [key for key in ("read_bandwidth", "write_bandwidth") if key in level]
    if "efficiency" in level and not given and "bandwidth" not in level:
        level.wrong("efficiency", "stands without a bandwidth", "add `bandwidth: …`")
    if "bandwidth" in level and given:
        what = f"stands beside '{given[0]}'"
        level.wrong("bandwidth", what, "write `bandwidth`, or `read_bandwidth` and `write_bandwidth`")
    elif len(given) == 1:
        other = "write_bandwidth" if given[0] == "read_bandwidth" else "read_bandwidth"
        level.wrong(given[0], f"'{other}' is missing beside it")
    delay: int | Fraction = level.value("latency", 0)
    if isinstance(delay, Fraction) and clock_hz is None:
        level.wrong("latency", "is a time, but the architecture has no clock", "add `clock: 1 GHz`, or write cycles")
    latency = delay if isinstance(delay, int) else math.ceil(delay * (clock_hz or 0))
    return {key: None if rate is None else rate * efficiency for key, rate in rates.items()} | {"latency": latency}


def check_latency(levels: Sequence[Any], nodes: Sequence[MapNode], problems: Problems) -> None:
    """Report latencies that nothing waits for, and those of tiles that a DMA engine moves."""
    for index, level in enumerate(levels):
        key, left = nodes[index].entries.get("latency"), frozenset(ROLES) - level.bypass
        if key is None:
            continue
        if index + 1 == len(levels):
            problems.add(key, "no level is filled from the last one, whose reads are pipelined", "leave `latency` out")
        for inside in levels[index + 1 :]:
            if inside.dma is not None and left - inside.bypass:
                what = f"the `dma` of {inside.name} has a time of its own for each tile"
                problems.add(key, what, "write it in `issue` there, and leave `latency` out")
                break
            left -= inside.keep


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """Lanes below one instance of a level, each of which reads its operands there and writes its results there.

    Attributes
    ----------
    below : str
        The level.
    lanes : int
        Operations a cycle.
    operations : mapping of str to int
        What they can do, and how many operations a point takes.
    """

    name: str
    below: str
    lanes: int
    operations: Mapping[str, int]


_VECTOR_UNIT: Keys = {
    "name": Key(fields.name, "its name, different from all others"),
    "below": Key(fields.name, "level from which it reads and to which it writes"),
    "lanes": Key(fields.positive_int, "operations a cycle, below one instance of the level", "1"),
    "operations": Key(
        fields.mapping_of(fields.positive_int),
        "supported operations, with the operations of a lane per point",
        "1 each; all but multiply_add",
    ),
    **COMPONENT,
    "energy": Key(node_of(keys_form(own_energy_keys(("compute",)))), "energy per operation", "from the energy table"),
    "area": replace(AREA, meaning="area of one unit"),
}
VECTOR_UNITS = Key(
    fields.items_of(keys_form(_VECTOR_UNIT), "vector units"), "units for operations other than multiply_add", "none"
)
"""The key `vector_units` of an architecture."""


def read_vector_units(
    node: ListNode | None, levels: Sequence[str], compute: str, machine: PartFigures, problems: Problems
) -> tuple[VectorUnit, ...]:
    """Read the vector units of a machine with levels and compute units of these names, and what they cost."""
    found: list[VectorUnit] = []
    lines: dict[str, int] = {}
    whose: dict[str, str] = {}
    for item in node.items if node else ():
        unit = Fields(item, problems, _VECTOR_UNIT)
        name, below = unit.once(lines, "vector units"), unit.value("below", "")
        if name in (*levels, compute):
            unit.wrong("name", f"another part is named '{name}'")
        if below and below not in levels:
            unit.wrong("below", f"no level is named '{below}'", near_miss(below, levels, "levels"))
        operations: dict[str, int] = unit.value("operations", dict.fromkeys(OPERATIONS[1:], 1))
        for word in operations:
            if word not in OPERATIONS[1:]:
                what = "the compute units do" if word == OPERATIONS[0] else "no unit knows"
                unit.wrong("operations", f"{what} '{word}'", f"operations: {listed(OPERATIONS[1:])}")
            elif word in whose:
                unit.wrong("operations", f"{whose[word]} does '{word}' already", "leave it out of one of them")
            whose.setdefault(word, name)
        _read_energy(unit, name, machine)
        found.append(VectorUnit(name, below, unit.value("lanes", 1), operations))
    return tuple(found)


def _read_energy(unit: Fields, name: str, machine: PartFigures) -> None:
    before, problems = len(unit.problems), unit.problems
    own = read_component(unit, machine.estimator, machine.part(name, ("compute",), {}), ())
    if len(problems) == before and unit.readable:
        machine.take(name, own)
        machine.check(unit, name, [("*", "compute")])
