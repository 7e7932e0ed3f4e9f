"""Architectures: storage levels from the outermost inwards, their fanouts, and the compute units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from accelsim.inputs import fields, forms
from accelsim.inputs.energies import (
    AREA,
    COMPONENT,
    ESTIMATOR_FORM,
    AreaEntry,
    EnergyEntry,
    EnergyTable,
    Estimator,
    PartFigures,
    own_energy_keys,
    read_component,
    read_estimator,
    read_mac,
)
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.fields import Fields, Key, Keys, Source, formed, keys_form, node_of
from accelsim.inputs.forms import Form
from accelsim.inputs.level_features import (
    BANDWIDTHS,
    BURSTS,
    COMPRESSION,
    DMA,
    LATENCY,
    SIZE,
    SYSTOLIC,
    VECTOR_UNITS,
    Dma,
    Systolic,
    VectorUnit,
    check_latency,
    read_bandwidth,
    read_bursts,
    read_compression,
    read_dma,
    read_rates,
    read_size,
    read_systolic,
    read_vector_units,
)
from accelsim.inputs.source import ListNode, MapNode, Node, Problems
from accelsim.inputs.sparsity import (
    COMPUTE_ACTIONS,
    COMPUTE_SPARSITY,
    SPARSITY,
    STORAGE_ACTIONS,
    ComputeSparsity,
    LevelSparsity,
    needed_energies,
    read_compute_sparsity,
    read_sparsity,
    with_metadata,
)
from accelsim.inputs.units import RATES, SIZES, decimal, listed
from accelsim.inputs.workload import ROLES, Einsum, Tensor

T = TypeVar("T", float, int | Fraction)
OVERLAPS = ("all", "steady", "none")
"""What of the fills and drains of a level overlaps with computing; in a steady state all but the first and last."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a fanout and its network; `multicast` of all tensors, none, or those of some roles."""

    size: int = 1
    multicast: bool | frozenset[str] = True
    spatial_reduction: bool = True

    def serves(self, role: str) -> bool:
        """Whether one read of a tensor of a role serves many children."""
        return self.multicast if isinstance(self.multicast, bool) else role in self.multicast


@dataclass(frozen=True, slots=True)
class Level:
    """One storage level; sizes and bandwidths are those of one instance.

    An element of b bits takes `ceil(b / word_bits)` words, or the share of these in `compression` (by role; 1 where it
    is left out), unless it is a partial sum. `size_words` is shared by all tensors; `partition_words` (by role)
    replaces it where each has its own; both None means unlimited. In the outermost level all tensors of a layer must
    fit at once. Bandwidths are in words a cycle; None means unlimited; `network_bandwidth` is that of the network below
    one instance, for all words that enter and leave it there. With `link_transfers` its children pass words of inputs
    on to their neighbours. `tensors` is not None only for a storage node of an uneven mapping (`inputs.nodes`), which
    may keep no others; the nodes of a level are neighbours of one name and share its size and bandwidth. `systolic` is
    not None if the fanout is a systolic array, whose PEs are the next level. `burst_bits`, of the outermost level, is
    what it moves at least, and `banks` take it in turn, in data layouts alone. `dma` is not None if an engine moves the
    tiles. `overlap` is one of `OVERLAPS`. `latency` [cycles] is what passes before the first word of a read arrives.
    """

    name: str
    component: str
    word_bits: int = 16
    block_size: int = 1
    size_words: int | None = None
    partition_words: Mapping[str, int] | None = None
    multiple_buffering: int = 1
    bandwidth: Fraction | None = None
    read_bandwidth: Fraction | None = None
    write_bandwidth: Fraction | None = None
    network_bandwidth: Fraction | None = None
    link_transfers: bool = False
    keep: frozenset[str] = frozenset()
    bypass: frozenset[str] = frozenset()
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    drain_reads: bool = False
    power_gateable: bool = True
    overlap: str = "all"
    latency: int = 0
    tensors: frozenset[str] | None = None
    systolic: Systolic | None = None
    compression: Mapping[str, Fraction] = field(default_factory=dict)
    burst_bits: int | None = None
    banks: int = 1
    dma: Dma | None = None
    sparsity: LevelSparsity | None = None

    def __post_init__(self) -> None:
        for name in (*BANDWIDTHS, "network_bandwidth"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, decimal(getattr(self, name)))
        object.__setattr__(self, "compression", {role: decimal(share) for role, share in self.compression.items()})

    def element_words(self, tensor: Tensor, *, partial: bool = False) -> int | Fraction:
        """Words that an element of a tensor takes, or a partial sum of it; a fraction where it is compressed."""
        words = -(-(tensor.psum_bits if partial else tensor.bits) // self.word_bits)
        return words if partial else words * self.compression.get(tensor.role, 1)

    def ports(self, read: T, written: T) -> list[tuple[Fraction, T]]:
        """Rates [words/cycle] of the ports that are limited, and what of so many words read and written passes each."""
        every = ((self.bandwidth, read + written), (self.read_bandwidth, read), (self.write_bandwidth, written))
        return [(rate, words) for rate, words in every if rate is not None]

    @property
    def rooms(self) -> dict[str, int]:
        """Words for working tiles: of all roles together under an empty name, or of each role; none if unlimited."""
        sizes = {"": self.size_words} if self.partition_words is None else self.partition_words
        return {role: words // self.multiple_buffering for role, words in sizes.items() if words is not None}

    @property
    def fanout(self) -> int:
        """Instances of the next level (or compute units) below one instance."""
        return self.x.size * self.y.size


Granules = tuple[int | None, Mapping[str, int] | None, int, int]
"""Size and sizes of partitions [words], word [bit] and block_size [words] of a level."""


def _granules(level: Level) -> Granules:
    return level.size_words, level.partition_words, level.word_bits, level.block_size


_OPERANDS = "operand registers"


@dataclass(frozen=True, slots=True)
class Compute:
    """The compute units below the innermost level.

    They hold the last word of the roles in `holds`, and ask for one only when it changes: `Architecture` adds a level
    for them, `operands`, without loops and energy. `bits`: of the operands that they are for, 0 if that is not said.
    """

    name: str = "MAC"
    component: str = "intmac"
    cycles_per_mac: int = 1
    holds: frozenset[str] = frozenset()
    sparsity: ComputeSparsity | None = None
    bits: int = field(default=0, compare=False)

    @property
    def operands(self) -> str:
        """Name of the level that is the registers of the units; empty if they hold nothing."""
        return f"{self.name}_operands" if self.holds else ""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A machine: levels from the outermost inwards, compute units, clock [Hz] and energy table."""

    name: str
    levels: tuple[Level, ...]
    compute: Compute
    energy: EnergyTable
    clock_hz: float | None = None
    technology: str = ""
    areas: Mapping[str, AreaEntry] = field(default_factory=dict)
    """Area of one instance of a level or compute unit, by name; absent where no source says it."""
    energy_notes: tuple[str, ...] = ()
    """What a reader must know of where the energies come from."""
    slices: Mapping[str, int] = field(default_factory=dict)
    """Bits of the slices that operands are taken apart into, by role, where they are (`inputs.workload.sliced`)."""
    vector_units: tuple[VectorUnit, ...] = ()
    sized: Mapping[str, Granules] = field(default_factory=dict, compare=False)
    """Sizes of which the energies of a level are, by name; a level that is not here may have any."""

    def __post_init__(self) -> None:
        self._hold_operands()
        for level in self.levels:
            if self.sized.get(level.name, _granules(level)) != _granules(level):
                what = f"the energies of level {level.name} are those of another size, word or block_size"
                hint = "read the architecture again with the new one, or keep them with `sized={}`"
                raise AccelsimError(f"{what}; {hint}")

    def _hold_operands(self) -> None:
        """Let the last level be the registers of the compute units, or take it away if they hold nothing."""
        name, holds = self.compute.operands, self.compute.holds
        levels = tuple(level for level in self.levels if level.component != _OPERANDS or level.name == name)
        if name and levels[-1].name != name:
            none, bypass = EnergyEntry(0.0, "part of a multiply-accumulate"), frozenset(ROLES) - holds
            added = Level(name, _OPERANDS, 64, size_words=64, keep=holds, bypass=bypass)  # a word of each tensor fits
            entries = {(name, "*", action): none for action in ("read", "write")}
            object.__setattr__(self, "energy", EnergyTable({**self.energy.entries, **entries}))
            if self.compute.name in self.areas:
                object.__setattr__(self, "areas", {**self.areas, name: AreaEntry(0.0, none.source)})
            levels = (*levels, added)
        object.__setattr__(self, "levels", levels)

    @property
    def saves_zeros(self) -> bool:
        """Whether a level or the compute unit does something about zeros."""
        return self.compute.sparsity is not None or any(level.sparsity is not None for level in self.levels)

    @property
    def area_um2(self) -> float | None:
        """Area [um2] of all instances of all levels and compute units; None unless each has one."""
        names = [*(level.name for level in self.levels), self.compute.name]
        if any(name not in self.areas for name in names):
            return None
        each = (decimal(self.areas[name].area_um2) * self.instances(index) for index, name in enumerate(names))
        return float(sum(each))

    def mac_pj(self, einsum: Einsum) -> float:
        """Energy [pJ] of a multiply-accumulate of a layer: that of the narrowest operands that hold its widest one."""
        name, bits, widths = self.compute.name, einsum.operand_bits, self.energy.formats(self.compute.name)
        width = next((width for width in widths if width >= bits), None)
        if widths and width is None:
            what = f"{einsum.name}: {name} has no energy of a multiply-accumulate of operands of {bits} bit, only of"
            hint = f"add `{bits} bit: … pJ`, or write fewer `bits` in the workload"
            raise AccelsimError(f"{what} {listed(map(str, widths))} bit; {hint}")
        return self.energy.energy_pj(name, f"{width} bit", "compute")

    def unit_of(self, operation: str) -> VectorUnit | None:
        """The vector unit that does an operation; None: the compute units do."""
        return next((unit for unit in self.vector_units if operation in unit.operations), None)

    def for_operation(self, operation: str) -> Architecture:
        """The levels and units that run an operation: those of the vector unit that does it, else the compute units."""
        unit = self.unit_of(operation)
        if unit is None:
            return replace(self, vector_units=()) if self.vector_units else self
        at = next(index for index, level in enumerate(self.levels) if level.name == unit.below)
        lanes, alone = Axis(unit.lanes, multicast=False, spatial_reduction=False), f"{unit.below} network"
        level = replace(self.levels[at], x=lanes, y=Axis(), network_bandwidth=None, link_transfers=False, systolic=None)
        many = unit.operations[operation]
        entries = {key: entry for key, entry in self.energy.entries.items() if key[0] != alone}
        for key, entry in self.energy.entries.items():
            if key[0] == unit.name:
                entries[key] = replace(entry, energy_pj=entry.energy_pj * many)
        compute = Compute(unit.name, "vector", many)
        energy = EnergyTable(entries)
        return replace(self, levels=(*self.levels[:at], level), compute=compute, energy=energy, vector_units=())

    def has_hops(self, level: Level) -> bool:
        """Whether words on the network below a level cost energy by the links that they pass."""
        return any(self.energy.found_pj(f"{level.name} network", role, "hop") > 0.0 for role in ROLES)

    def instances(self, index: int) -> int:
        """Instances of level `index` (len(levels): of the compute units) in the whole machine."""
        return math.prod(level.fanout for level in self.levels[:index])

    @property
    def macs(self) -> int:
        """Compute units in the whole machine."""
        return self.instances(len(self.levels))


_STORAGE_ACTIONS = ("read", "write", "update", "leak")
_COMPUTE_ACTIONS = ("compute",)
_NETWORK_ACTIONS = ("transfer",)
_OWN_NETWORK_ACTIONS = ("return", "hop")
"""Energies that no estimator gives."""
_ROLES = fields.set_of(fields.one_of(ROLES, "a role"))


@formed(forms.either(fields.boolean.form, _ROLES.form))
def _multicast(node: Node, problems: Problems) -> bool | frozenset[str] | None:
    return _ROLES(node, problems) if isinstance(node, ListNode) else fields.boolean(node, problems)


_NETWORK: Keys = {
    "multicast": Key(_multicast, "one read serves several children: of all roles, or of those listed", "true"),
    "spatial_reduction": Key(fields.boolean, "partial sums of several children are added before one update", "true"),
}
_AXIS: Keys = {
    "size": Key(fields.positive_int, "instances along the axis"),
    **{
        key: replace(of, meaning=f"`{key}` along this axis", default="that of the fanout")
        for key, of in _NETWORK.items()
    },
}
_EITHER_AXIS = node_of(forms.either(fields.positive_int.form, keys_form(_AXIS)))
LEVEL_ATTRIBUTES: Keys = {
    "block_size": Key(fields.positive_int, "words moved by one access", "1", "words"),
    "multiple_buffering": Key(fields.positive_int, "2: half of the capacity stores the working tile", "1"),
    "power_gateable": Key(fields.boolean, "unused instances do not leak", "true"),
    "drain_reads": Key(fields.boolean, "count the read that drains a tile to the level above", "false"),
    "overlap": Key(
        fields.one_of(OVERLAPS, "an overlap"),
        "fills and drains that overlap with computing; `steady`: all but the first fill and last drain",
        "all",
    ),
}
"""Keys of a level that are read as they stand into the field of `Level` of their name, whose default is theirs."""
_FANOUT: Keys = {
    "x": Key(_EITHER_AXIS, "columns", "1"),
    "y": Key(_EITHER_AXIS, "rows", "1"),
    **_NETWORK,
    "bandwidth": Key(fields.rate, "words of all roles in and out of one instance", "unlimited", RATES),
    "link_transfers": Key(
        fields.boolean, "a child may read inputs from the neighbour that received them before", "false"
    ),
    "systolic": SYSTOLIC,
    **COMPONENT,
    "class": Key(fields.name, "component class of the network, such as wire", "none"),
    "energy": Key(
        node_of(keys_form(own_energy_keys((*_NETWORK_ACTIONS, *_OWN_NETWORK_ACTIONS), "free"))),
        "energies of the network",
        "free",
    ),
}
_STORAGE_ENERGIES = own_energy_keys((*_STORAGE_ACTIONS, *STORAGE_ACTIONS))
_COMPUTE_ENERGIES = own_energy_keys((*_COMPUTE_ACTIONS, *COMPUTE_ACTIONS))
_LEVEL: Keys = {
    "name": Key(fields.name, "its name, different from all others"),
    **COMPONENT,
    "size": Key(SIZE, "capacity of one instance: shared, or by role", "first level: unlimited", SIZES),
    "word": Key(
        fields.positive_size_bits, "storage granule: an element of b bits uses ceil(b / word) words", unit=SIZES
    ),
    **LEVEL_ATTRIBUTES,
    "bandwidth": Key(fields.rate, "bandwidth of one instance, shared by reads and writes", "unlimited", RATES),
    "read_bandwidth": Key(fields.rate, "bandwidth of reads", "unlimited", RATES),
    "write_bandwidth": Key(fields.rate, "bandwidth of fills and updates", "unlimited", RATES),
    "latency": LATENCY,
    "efficiency": Key(fields.share, "fraction of the bandwidth that is reached", "1", "0 to 1"),
    **BURSTS,
    "keep": Key(_ROLES, "roles always stored here", "free"),
    "bypass": Key(_ROLES, "roles never stored here", "free"),
    "fanout": Key(node_of(keys_form(_FANOUT)), "instances of the next level below one of this level", "1 x 1"),
    "compression": COMPRESSION,
    **SPARSITY,
    "dma": DMA,
    "energy": Key(node_of(keys_form(_STORAGE_ENERGIES)), "energies per access", "from the energy table"),
    "area": AREA,
}
_COMPUTE: Keys = {
    "name": Key(fields.name, "its name", "MAC"),
    **COMPONENT,
    "energy": Key(node_of(keys_form(_COMPUTE_ENERGIES)), "energies per multiply-accumulate", "from the energy table"),
    "area": replace(AREA, meaning="area of one unit"),
    "cycles_per_mac": Key(fields.positive_int, "cycles of a multiply-accumulate", "1", "cycles"),
    "holds": Key(_ROLES, "roles whose last word a unit stores and reuses", "none"),
    **COMPUTE_SPARSITY,
}
_SLICES: Keys = {
    role: Key(fields.positive_size_bits, f"bits of a slice of {role.lower()}", "whole words", SIZES)
    for role in ("Inputs", "Weights")
}
_TOP: Keys = {
    "name": Key(fields.name, "its name"),
    "technology": Key(fields.technology, "default technology node", "none", "nm"),
    "clock": Key(fields.frequency_hz, "required for seconds and watts", "none", "MHz, GHz"),
    "energy_table": Key(
        node_of(ESTIMATOR_FORM),
        "energy table (name or path), `components`, `hwcomponents`, or an Accelergy ERT and ART",
        "energies of the components",
    ),
    "slices": Key(
        node_of(keys_form(_SLICES)),
        "bits of a slice of the operands, by role; adds dimensions such as `Inputs_slices`",
        "none",
        SIZES,
    ),
    "levels": Key(
        fields.items_of(keys_form(_LEVEL), "levels, outermost first", least=1), "storage levels, outermost first"
    ),
    "compute": Key(node_of(keys_form(_COMPUTE)), "compute units, below the last level"),
    "vector_units": VECTOR_UNITS,
}
ARCHITECTURE_FORM: Form = keys_form(_TOP)
"""What may stand under `architecture`, as JSON Schema."""
_STANDARD = Level("", "")


def load_architecture(
    source: Source, overrides: Mapping[str, str] | None = None, estimator: Estimator | None = None
) -> Architecture:
    """Read an architecture and the energy table that it names.

    Parameters
    ----------
    source : str, path or dict
        YAML file with a top-level key `architecture`, or the name of one that ships; or what such a file holds, as
        YAML text of several lines or as a dict, where a table's path is relative to the working directory.
    overrides : mapping of str to str, optional
        Values of parameters that replace those in the file.
    estimator : Estimator, optional
        Takes the place of the energy table that the file names; energies in the file still come first.

    Returns
    -------
    Architecture
        With the energy of every action of every component.

    Raises
    ------
    InputError
        With every mistake in the file and its place.
    """
    problems = Problems()
    document = fields.open_source(source, "architecture", overrides, problems)
    read = read_architecture(document.body, document.path, problems, estimator) if document else None
    return problems.result(read)


def read_architecture(
    body: Node, path: str | PathLike[str], problems: Problems, estimator: Estimator | None = None
) -> Architecture | None:
    """Read what stands under `architecture` in the file at `path`, or return None with every mistake reported."""
    before = len(problems)
    top = Fields(body, problems, _TOP)
    title = top.value("name", "")
    technology = top.value("technology", "")
    clock_hz: Fraction | None = top.value("clock", None)
    estimator = estimator or read_estimator(top.get("energy_table"), Path(path), problems)
    if ("technology" in top and not technology) or ("clock" in top and not clock_hz):
        estimator = None  # what cannot be read is reported already, and is not missing
    some_clock = clock_hz or (Fraction(1) if "clock" in top else None)
    machine = PartFigures(some_clock, technology, estimator, "energy_table" in top)
    levels = _levels(top, machine)
    sliced = top.inner("slices", _SLICES)
    compute = Compute()
    if "compute" in top:
        compute = _compute(top.entries["compute"], machine, {level.name for level in levels}, problems)
    elif top.readable:
        problems.add(body, "'compute' is missing")
    names = [level.name for level in levels]
    units = read_vector_units(top.value("vector_units", None), names, compute.name, machine, problems)
    if len(problems) > before or not top.readable:
        return None
    return Architecture(
        title,
        tuple(levels),
        compute,
        EnergyTable(machine.energies),
        float(clock_hz) if clock_hz else None,
        technology,
        machine.areas,
        estimator.notes() if estimator else (),
        {role: sliced.value(role, 1) for role in _SLICES if role in sliced},
        units,
        machine.sized,
    )


def _levels(top: Fields, machine: PartFigures) -> list[Level]:
    node: ListNode | None = top.value("levels", None)
    if node is None:
        return []
    levels: list[Level] = []
    lines: dict[str, int] = {}
    for index, item in enumerate(node.items):
        level = Fields(item, top.problems, _LEVEL)
        levels.append(_level(level, level.once(lines, "levels"), machine, first=index == 0))
    nodes = [item for item in node.items if isinstance(item, MapNode)]
    if len(nodes) == len(levels):
        _check_links(levels, nodes, top.problems)
        _check_systolic(levels, nodes, top.problems)
        check_latency(levels, nodes, top.problems)
    return levels


def _level(level: Fields, name: str, machine: PartFigures, *, first: bool) -> Level:
    """Read a level of that name; after a report the value that stands in is of no importance."""
    before = len(level.problems)
    component = level.value("class", "storage")
    word_bits = level.value("word", 1)
    plain: dict[str, Any] = {key: level.value(key, getattr(_STANDARD, key)) for key in LEVEL_ATTRIBUTES}
    keep, bypass = (level.value(key, frozenset[str]()) for key in ("keep", "bypass"))
    if keep & bypass:
        both = ", ".join(sorted(keep & bypass))
        level.wrong("bypass", f"{both}: both kept and bypassed", "take it out of one of the lists")
    if first and bypass:
        level.wrong("bypass", "the first level keeps everything", "leave `bypass` out")
    if first:
        keep, bypass = frozenset(ROLES), frozenset()
    size_words, partition_words = read_size(level, word_bits, first=first, stores_nothing=bypass == frozenset(ROLES))
    if partition_words is not None:
        for role in sorted(keep - partition_words.keys()):
            level.wrong("size", f"{role} is kept but has no partition", f"add `{role}: …` to the size")
        bypass |= frozenset(ROLES) - partition_words.keys()
    fanout = level.inner("fanout", _FANOUT)
    array = read_systolic(fanout)
    plain |= read_rates(level, word_bits, machine.clock_hz) | read_bursts(level, first=first)
    read = Level(
        name=name,
        component=component,
        word_bits=word_bits,
        size_words=size_words,
        partition_words=partition_words,
        network_bandwidth=read_bandwidth(fanout, "bandwidth", word_bits, machine.clock_hz),
        link_transfers=fanout.value("link_transfers", False),
        keep=keep,
        bypass=bypass,
        x=_axis(fanout, "x", array),
        y=_axis(fanout, "y", array),
        systolic=array,
        compression=read_compression(level, bypass),
        dma=read_dma(level, bypass, first=first),
        sparsity=read_sparsity(level, bypass),
        **plain,
    )
    if "overlap" in level and (first or "dma" in level):
        why = "nothing fills the first level" if first else "its `dma` says what overlaps"
        level.wrong("overlap", why, "leave `overlap` out")
    bits = dict.fromkeys(("read", "write", "update"), word_bits * read.block_size)
    needed = [(role, action) for role in ROLES if role not in read.bypass for action in ("read", "write")]
    partitions = {role: words * word_bits for role, words in (partition_words or {}).items()}
    part = replace(machine.part(name, _STORAGE_ACTIONS, bits), partitions=partitions)
    own = read_component(level, machine.estimator if needed else None, part, STORAGE_ACTIONS)
    if read.sparsity is not None and read.sparsity.width:
        own = with_metadata(level, own, machine.estimator, part, read.sparsity)
    network = f"{name} network"
    part = machine.part(network, _NETWORK_ACTIONS, dict.fromkeys((*_NETWORK_ACTIONS, *_OWN_NETWORK_ACTIONS), word_bits))
    across = read_component(fanout, machine.estimator, part, _OWN_NETWORK_ACTIONS)
    if len(level.problems) == before:
        machine.take(name, own)
        machine.take(network, replace(across, area=None))
        written = energy.entries if isinstance(energy := level.get("energy"), MapNode) else {}
        if any(action not in written or entry.formula for (_, action), entry in own.energies.items()):
            machine.sized[name] = _granules(read)
        machine.check(level, name, [*needed, *needed_energies(read.sparsity)])
        if machine.estimator is not None and machine.estimator.complete:
            machine.check(level, name, [("*", "leak")] if needed else [])
            links = {role for role, action in across.energies if action == "hop"}
            moved = [(role, "transfer") for role in ROLES if links.isdisjoint({role, "*"})]
            machine.check(level, network, moved * (read.fanout > 1))
    return read


def _axis(fanout: Fields, key: str, array: Systolic | None) -> Axis:
    """Read one axis of the fanout; what it does not say of its network, the fanout says for both."""
    usual: tuple[Any, ...] = (True, True) if array is None else array.shares(key)
    shared = [fanout.value(name, default) for name, default in zip(_NETWORK, usual, strict=True)]
    node = fanout.get(key)
    if not isinstance(node, MapNode):
        return Axis(fanout.optional(key, fields.positive_int, 1), *shared)
    axis = Fields(node, fanout.problems, _AXIS)
    own = [axis.value(name, default) for name, default in zip(_NETWORK, shared, strict=True)]
    return Axis(axis.value("size", 1), *own)


def _compute(node: Node, machine: PartFigures, level_names: set[str], problems: Problems) -> Compute:
    before, compute = len(problems), Fields(node, problems, _COMPUTE)
    name, component = compute.value("name", "MAC"), compute.value("class", "mac")
    cycles_per_mac = compute.value("cycles_per_mac", 1)
    if name in level_names:
        problems.add(compute.get("name") or node, f"a level is named '{name}' too")
    own, bits = read_mac(compute, machine.estimator, machine.part(name, _COMPUTE_ACTIONS, {}), COMPUTE_ACTIONS)
    sparsity = read_compute_sparsity(compute)
    if len(problems) == before and compute.readable:
        machine.take(name, own)
        machine.check(compute, name, [("*", "compute")])
    return Compute(name, component, cycles_per_mac, compute.value("holds", frozenset()), sparsity, bits)


def _check_links(levels: Sequence[Level], nodes: Sequence[MapNode], problems: Problems) -> None:
    """Report links in a systolic array, which passes all on, and transfers over them into tiles that wait alone."""
    for index, level in enumerate(levels):
        inside = levels[index + 1] if index + 1 < len(levels) else None
        fanout = nodes[index].entries.get("fanout")
        hop = getattr(getattr(fanout, "entries", {}).get("energy"), "entries", {}).get("hop")
        if level.systolic is not None and hop is not None:
            what = "in a systolic array each PE takes words from its neighbour"
            problems.add(hop, what, "write `transfer`, the energy of a word that a PE takes in")
        if not level.link_transfers or fanout is None:
            continue
        if level.systolic is not None:
            problems.add(fanout, "a systolic array passes all operands on already", "leave `link_transfers` out")
        elif hop is not None:
            problems.add(fanout, "`link_transfers` beside the energy of a `hop`", "leave one of them out")
        elif inside is not None and (inside.overlap != "all" or inside.dma is not None):
            key = "dma" if inside.dma is not None else "overlap"
            problems.add(fanout, f"`link_transfers` beside the `{key}` of {inside.name}", "leave one of them out")


def _check_systolic(levels: Sequence[Level], nodes: Sequence[MapNode], problems: Problems) -> None:
    """Report a systolic array whose PEs hold nothing, or a second one."""
    arrays = [(index, level.systolic) for index, level in enumerate(levels) if level.systolic is not None]
    for index, array in arrays:
        fanout, role = nodes[index].entries["fanout"], array.stationary
        inside = levels[index + 1] if index + 1 < len(levels) else None
        if index != arrays[0][0]:
            problems.add(fanout, f"level {levels[arrays[0][0]].name} has a systolic array already; one is possible")
        elif inside is None:
            hint = f"add a level with the register of a PE after {levels[index].name}, `keep: [{role}]`"
            problems.add(fanout, f"the PEs of the systolic array have nothing to hold {role} in", hint)
        elif inside.name and role not in inside.keep:
            what = f"the PEs of the systolic array, {inside.name}, need not keep {role}"
            problems.add(fanout, what, f"write `keep: [{role}]` in {inside.name}")
