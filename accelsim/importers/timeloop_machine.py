"""Machines of Timeloop, v0.3 and v0.4: sizes from depth and width, fanouts from meshes, energies from an ERT.

Timeloop counts an element as one word at each level, whatever the widths: a level's word is its own `datawidth`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelsim.importers.documents import Map, Seq, refuse
from accelsim.importers.foreign import Note
from accelsim.importers.values import (
    FILE_OF_VARIABLES,
    FormulaError,
    Value,
    exact_pj,
    figure,
    inner,
    plain_decimal,
    plain_name,
    read_all,
    rows,
    size_bits,
    storage_class,
    tables,
    value,
    whole,
    work_out,
)
from accelsim.inputs.energy.estimators import COMPUTES
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import ROLES

_RANGE = re.compile(r"\[\s*(\d{1,12})\s*\.\.\s*(\d{1,12})\s*\]")
_STORAGE = re.compile("dram|sram|regfile|register|buffer|storage", re.IGNORECASE)
_SMALL = re.compile("reg|rf|spad|latch", re.IGNORECASE)
_COMPUTE = re.compile("mac|alu|compute|multiplier", re.IGNORECASE)
_NETWORK = re.compile("NoC|Legacy|ReductionTree|SimpleMulticast")
"""Classes that Timeloop (`topology.hpp`) takes as networks."""
_LARGEST = 2**60
_DEFAULTS = {"multiple_buffering": 1, "min_utilization": 0, "reduction_supported": True, "cluster_size": 1}
_READ = {"depth", "width", "datawidth", "block_size", "entries", "sizeKB", "n_banks", "type", "instances", "size"}
_READ |= {"bandwidth", "read_bandwidth", "write_bandwidth", "shared_bandwidth", "meshX", "meshY", "multiple_buffering"}
_READ |= {"technology", "global_cycle_seconds", "multiplier_width", "adder_width", "name", "class"}
_SPELT = {"memory_depth": "depth", "memory_width": "width", "word_bits": "datawidth", "word_width": "datawidth"}
_SPELT |= {"n_words": "block_size", "data_storage_depth": "depth", "data_storage_width": "width"}
_MOST_PARTS, _ROUNDS = 64, 8
_MEANS = {
    "cluster_size": "an access serves a cluster of instances: each has its share of the energy, as if all were used",
    "min_utilization": "a least utilization of one level is not asked for",
    "allow_overbooking": "tiles that exceed a capacity are not valid here",
    "reduction_supported": "partial sums are added wherever they meet",
    "has_power_gating": "leakage is that of all instances",
    "per_dataspace_bandwidth_consumption_scale": "a word of each tensor takes the same bandwidth",
    "network_fill_latency": "delays of networks are not added to the cycles",
    "network_drain_latency": "delays of networks are not added to the cycles",
    "network": "stores nothing; the energy of its wires is left out",
    "class": "is of no class that stores or computes; Timeloop makes no level of it either",
}
"""What attributes would mean that have no counterpart; of others it is only said that they have none."""


@dataclass
class Part:
    """A component or a network of containers: its attributes as numbers, and the mesh of all its instances."""

    name: str
    table: Map
    component: str
    attributes: dict[str, Value]
    mesh: tuple[int, int]
    network: bool = False
    aliases: tuple[str, ...] = ()
    constraints: list[tuple[Part, Map]] = field(default_factory=list)
    siblings: list[Part] = field(default_factory=list)
    """Components in other branches below `!Parallel`."""
    unshared: set[str] = field(default_factory=set)
    """Roles that the network below it neither multicasts nor reduces."""

    def number(self, key: str, default: float | None = None) -> float | None:
        """Attribute that must be a number."""
        value = self.attributes.get(key, default)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LARGEST:
            return value
        table = self.table.get("attributes", self.table)
        where = table.where(next((name for name in table if _spelt(name) == key), key))
        hint = FILE_OF_VARIABLES if isinstance(value, str) and value.isidentifier() else ""
        raise refuse(where, f"{self.name}: {key}: expected a number from 0 on, got {quoted(str(value))}", hint)

    @property
    def word_bits(self) -> int:
        """Width of a word."""
        return int(self.number("datawidth") or 16)

    @property
    def block_size(self) -> int:
        """Words of one access of an instance: as given, or those of a row, which a cluster of instances may share."""
        given, width = self.number("block_size"), self.number("width", self.word_bits)
        return max(1, int(given or (width or 0) // (self.word_bits * self.cluster_size)))

    @property
    def cluster_size(self) -> int:
        """Instances that share an access: as given, or one for each block of a row; a DRAM has no clusters."""
        block = None if "dram" in self.component.lower() else self.number("block_size")
        blocks = (self.number("width") or 0) // (self.word_bits * block) if block else 1
        return max(1, int(self.number("cluster_size", blocks) or 1))

    @property
    def own_figures(self) -> tuple[str, str]:
        """Attributes with energy [pJ] and area [um2], which count where an ERT and an ART have none."""
        computes = _COMPUTE.search(self.component) and not _STORAGE.search(self.component)
        return ("energy", "area") if computes else ("vector_access_energy", "cluster_area")

    @property
    def words(self) -> int | None:
        """Capacity of an instance; None: unlimited."""
        entries, kib, depth = self.number("entries"), self.number("sizeKB"), self.number("depth")
        if entries is not None:
            return int(entries)
        if kib is not None:
            return int(kib * 8192) // self.word_bits
        size = self.attributes.get("size")
        if depth is None and isinstance(size, str):
            return size_bits(size, self.table.get("attributes", self.table).where("size")) // self.word_bits
        return None if depth is None else int(depth * self.block_size)


@dataclass
class TimeloopMachine:
    """Parts from the outermost inwards, networks among them; the last is the compute unit."""

    name: str
    parts: list[Part]
    notes: list[Note]

    def part(self, name: str, *, spatial: bool = False) -> Part | None:
        """Part that a directive means by a name; the loops in space of a component with a mesh lie above it."""
        wanted = plain(name)
        if spatial:
            wanted = next((part.name for part in self.parts if wanted in part.aliases), wanted)
        return next((part for part in self.parts if wanted == part.name or wanted in part.aliases), None)

    def fanout(self, index: int) -> tuple[int, int]:
        """Instances of the next part below one instance of this one, on both axes."""
        here, below = self.parts[index], self.parts[index + 1]
        if any(b % a for a, b in zip(here.mesh, below.mesh, strict=True)):
            sizes = [f"{x}x{y}" for x, y in (below.mesh, here.mesh)]
            what = f"{below.name} has {sizes[0]} instances, no multiple of the {sizes[1]} of {here.name}"
            raise refuse(below.table.mark, what, f"give meshX, or name it before {here.name}")
        return below.mesh[0] // here.mesh[0], below.mesh[1] // here.mesh[1]

    def homes(self) -> dict[str, str]:
        """Level that holds the loops of each part: itself, or the one whose fanout a network is."""
        homes: dict[str, str] = {}
        for index, part in enumerate(self.parts[:-1]):
            folded = part.network and index > 0 and self.fanout(index - 1) == (1, 1)
            homes[part.name] = homes[self.parts[index - 1].name] if folded else part.name
        return homes


def plain(name: object) -> str:
    """`system.GLB[1..1]` -> `GLB`."""
    return re.sub(r"\[[^\]]*\]$", "", str(name)).rsplit(".", 1)[-1]


def read_machine(body: Map, variables: Mapping[str, Value]) -> TimeloopMachine:
    """Parts of what stands under `architecture`."""
    notes: list[Note] = []
    reader = _NodeReader(dict(variables), notes)
    if isinstance(body.get("subtree"), Seq | Map):
        reader.tree(body, (), dict(variables))
    elif isinstance(body.get("nodes"), Seq):
        reader.nodes(body["nodes"], dict(variables))
    elif isinstance(body.get("storage"), Seq):
        reader.storages(body)
    else:
        hint = "Accelergy's flat list has no order of levels; name what it was made of" if "local" in body else ""
        raise refuse(body.mark, "architecture: expected `nodes` (v0.4) or `subtree` (v0.3)", hint)
    parts = [part for part in reader.parts if part.network or part is reader.parts[0] or _is_known(part)]
    if any(_COMPUTE.search(part.component) for part in parts):
        notes += [Note(part.table.mark, part.name, _MEANS["class"]) for part in reader.parts if part not in parts]
    else:
        parts = reader.parts
    while parts and parts[-1].network:
        parts.pop()
    if len(parts) < 2:
        raise refuse(body.mark, "architecture: expected a storage and a compute unit at least")
    if _stores(parts[-1]):  # v0.3 knows the compute unit by its class, wherever it stands in its list
        parts.sort(key=lambda part: _COMPUTE.search(part.component) is not None)
    last = parts[-1]
    if _stores(last):
        what = f"{last.name}, the innermost component, is a storage"
        raise refuse(last.table.mark, what, "a compute unit stands last, such as one of class intmac")
    read_all(lambda part: part.words, (part for part in parts[:-1] if not part.network))
    return TimeloopMachine(reader.title or "timeloop", parts, notes)


def _is_known(part: Part) -> bool:
    """Whether a part's class says that it stores or computes; Timeloop (`topology.cpp`) passes over all others."""
    kind = part.component.partition(" ")[0]
    return any(known.search(kind) for known in (_STORAGE, _COMPUTE, _SMALL))


def _is_odd(part: Part) -> bool:
    """Whether a part is no memory and no unit of arithmetic, such as a converter."""
    kind = part.component.partition(" ")[2]  # the subclass
    return bool(kind) and not any(known.search(kind) for known in (_STORAGE, _COMPUTE, _SMALL))


def _is_empty(attributes: Mapping[str, Value]) -> bool:
    return 0 in (attributes.get("depth"), attributes.get("entries"))


def _stores(part: Part) -> bool:
    return bool(_STORAGE.search(part.component) and {"depth", "entries", "sizeKB"} & part.attributes.keys())


class _NodeReader:
    """Reads nodes in order; a mesh and attributes hold for all that lies below."""

    def __init__(self, variables: Mapping[str, Value], notes: list[Note]) -> None:
        self.variables, self.notes = variables, notes
        self.parts: list[Part] = []
        self.mesh = (1, 1)
        self.title = ""

    def tree(self, node: Map, counts: tuple[int, ...], inherited: dict[str, Value]) -> None:
        """Nodes of v0.3 and of parsed-processed-input.yaml: `subtree` and `local`, with a mesh for each component."""
        parts = rows(node, "local")
        found = [(_ranged(part)[1], self.attributes(part, inherited)) for part in parts]
        meshes = {own: attributes["meshX"] for own, attributes in found if "meshX" in attributes}
        for local, (own, attributes) in zip(parts, found, strict=True):
            name = _ranged(local)[0]
            if self.is_network(local, name):
                continue
            given = value(local, "attributes", Map, local).get("instances")
            instances = math.prod(counts) * own if given is None else whole(given, local.mark)
            last = self.parts[-1].mesh if self.parts else (1, 1)
            down = attributes.get("meshY", 1)
            usual = last[0] if math.prod(last) == instances else meshes.get(own, instances)
            if isinstance(down, int) and down > 1:  # what it leaves lies on the other axis
                usual = instances // down
            across = attributes.get("meshX", usual)
            if not isinstance(across, int | float) or across < 1 or instances % int(across):
                what = f"{name}: meshX {quoted(str(across))} does not divide its {instances} instances"
                raise refuse(local.mark, what)
            if "meshY" in attributes and across * (down if isinstance(down, int) else 0) != instances:
                what = f"{name}: {across} x {down} of meshX and meshY are not its {instances} instances"
                raise refuse(local.mark, what)
            network = local.get("class") == "dummy_storage" or _is_empty(attributes)
            self.add(local, name, attributes, (int(across), instances // int(across)), network=network)
            for _, constraint in self.constraints(local, attributes):
                self.parts[-1].constraints.append((self.parts[-1], constraint))
        only = node.get("subtree")
        below = [only] if isinstance(only, Map) else rows(node, "subtree")
        if len(below) > 1:
            names = " and ".join(str(one.get("name", "?")) for one in below)
            raise refuse(below[1].mark, f"the tree forks into {names}; a machine here is one line of levels")
        for child in below:
            name, own = _ranged(child)
            self.title = self.title or name
            self.tree(child, (*counts, own), self.attributes(child, inherited))

    def storages(self, body: Map) -> None:
        """Levels of Timeloop's first files: `storage`, innermost first, and `arithmetic`, with their attributes."""
        nodes = [*reversed(rows(body, "storage")), value(body, "arithmetic", Map)]
        local = Seq(body.mark)
        for node in nodes:
            kind = node.get("class", node.get("technology", "storage"))
            made = {"name": node.get("name", "MAC"), "class": kind, "attributes": node}
            local.append(Map(node.mark, held=made))
        self.tree(Map(body.mark, held={"local": local}), (), {})

    def nodes(self, nodes: Seq, inherited: dict[str, Value]) -> None:
        """Nodes of v0.4; a container's mesh and attributes hold for all nodes after it."""
        for node in tables(nodes):
            kind = node.tag.lstrip("!").removeprefix("Array")  # of CiMLoop
            kind = "Component" if kind == "Element" else kind  # its name before v0.4
            if kind == "Nothing" or not self.value(node.get("enabled", True), inherited):
                continue
            if kind in ("Parallel", "Hierarchical", "Pipelined"):
                first = len(self.parts)
                for branch in tables(value(node, "nodes", Seq, Seq(node.mark))):
                    before = len(self.parts)
                    self.nodes(Seq(branch.mark, held=[branch]), inherited)
                    for one in self.parts[before:] if kind == "Parallel" else ():
                        one.siblings += self.parts[first:before]
                        for other in self.parts[first:before]:
                            other.siblings.append(one)
                continue
            if kind not in ("Container", "Component", ""):
                raise refuse(node.mark, f"!{kind} is no node of an architecture")
            name, instances = _ranged(node)
            attributes = self.attributes(node, inherited)
            fanout = self.spatial(node, attributes)
            fanout = (instances, 1) if fanout == (1, 1) else fanout
            wires = self.is_network(node, name)
            component = (kind == "Component" or "class" in node) and not wires
            if fanout != (1, 1):
                alias = f"inter_{name}_spatial"
                own = (name, alias) if component else (alias,)
                self.add(node, alias if component else name, {}, self.mesh, network=True, aliases=own)
                self.mesh = (self.mesh[0] * fanout[0], self.mesh[1] * fanout[1])
            network = self.parts[-1] if fanout != (1, 1) else None
            if component:
                self.add(node, name, attributes, self.mesh, network=_is_empty(attributes))
            elif not wires:
                self.title = self.title or name
                inherited |= {key: value for key, value in attributes.items() if key not in ("meshX", "meshY")}
            for target, constraint in self.constraints(node, attributes):
                part = network if target == "spatial" else self.parts[-1] if component or network else None
                if part is not None:
                    self.parts[-1].constraints.append((part, constraint))

    def is_network(self, node: Map, name: str) -> bool:
        """Whether a component is a network, which gets no level."""
        if found := _NETWORK.search(str(node.get("class"))):
            self.notes.append(Note(node.mark, name, _MEANS["network"]))
        return found is not None

    def constraints(self, node: Map, attributes: Mapping[str, Value]) -> Iterator[tuple[str, Map]]:
        """Constraints that stand at a node, with their type; some are formulas, such as `("Y=" + str(bits))`."""
        names = {f"attributes.{key}": value for key, value in attributes.items()}
        for kind, written in inner(node, "constraints").items():
            if isinstance(written, Map) and written:
                held = {**written, "type": kind}
                for key, asked in written.items():
                    if isinstance(asked, Seq):
                        formulas = [self.value(one, names) if str(one).startswith("(") else one for one in asked]
                        held[key] = Seq(asked.mark, asked.tag, formulas)
                    elif str(asked).startswith("attributes."):
                        held[key] = self.value(asked, names)
                yield kind, Map(written.mark, held=held, marks=written.marks)

    def spatial(self, node: Map, attributes: Mapping[str, Value]) -> tuple[int, int]:
        """Fanout into a node."""
        mesh = value(node, "spatial", Map, inner(node, "attributes"))
        sizes = []
        for key in ("meshX", "meshY"):
            written = mesh.get(key, 1)
            size = self.value(written, attributes)
            if not isinstance(size, int | float) or size < 1 or size != int(size):
                what = f"{key}: expected a whole number, got {quoted(str(written))}"
                raise refuse(mesh.where(key), what, FILE_OF_VARIABLES if isinstance(written, str) else "")
            sizes.append(int(size))
        return sizes[0], sizes[1]

    def attributes(self, node: Map, inherited: Mapping[str, Value]) -> dict[str, Value]:
        """Attributes of a node as values; one may be computed from others."""
        own = inner(node, "attributes")
        values: dict[str, Value] = dict(inherited)
        texts = {_spelt(key): value for key, value in own.items()}
        values.update(texts)
        for _ in range(_ROUNDS):  # as often as one may wait for another
            before = dict(values)
            for key, text in texts.items():
                older = {old: values[new] for old, new in _SPELT.items() if new in values.keys() - {key}}
                others = {name: value for name, value in values.items() if name != key}
                names = {**older, **self.variables, **others}
                values[key] = self.value(text, names | ({key: inherited[key]} if key in inherited else {}))
            if values == before:
                break
        return values

    def value(self, written: Any, names: Mapping[str, Value]) -> Value:
        """A number, or what a formula of attributes and variables comes to; other words stay."""
        if not isinstance(written, str):
            finite = isinstance(written, int) or (isinstance(written, float) and math.isfinite(written))
            return written if finite else None
        try:
            return work_out(written, {**self.variables, **names})
        except FormulaError:
            return written

    def add(
        self,
        node: Map,
        name: str,
        attributes: dict[str, Value],
        mesh: tuple[int, int],
        *,
        network: bool = False,
        aliases: tuple[str, ...] = (),
    ) -> None:
        component = " ".join(str(node[key]) for key in ("class", "subclass") if key in node)
        if len(self.parts) >= _MOST_PARTS:
            raise refuse(node.mark, f"more than {_MOST_PARTS} components")
        if any(part.name == name for part in self.parts):
            raise refuse(node.mark, f"two components are named {name}")
        self.parts.append(Part(name, node, component, attributes, mesh, network, aliases))
        if not network:
            self.leave_out(node, name, attributes)

    def leave_out(self, node: Map, name: str, attributes: Mapping[str, Value]) -> None:
        """Note what of a component has no counterpart."""
        own = inner(node, "attributes")
        for key in own:
            spelt = _spelt(key)
            held = own[key] if isinstance(own[key], Map | Seq) else attributes.get(spelt)
            default = _DEFAULTS.get(spelt, held if held in (False, None, "", {}, []) else object())
            of_zeros = "metadata" in key or "compression" in key
            if spelt not in (*_READ, *self.parts[-1].own_figures) and not of_zeros and held != default:
                why = _MEANS.get(spelt, "has no counterpart; it changes no count")
                self.notes.append(Note(own.where(key), f"{name}.{key} = {held}", why))
        if node.get("power_gated_at"):
            self.notes.append(Note(node.where("power_gated_at"), f"{name}.power_gated_at", _MEANS["has_power_gating"]))


def _ranged(node: Map) -> tuple[str, int]:
    """`PE[0..167]` -> PE and 168; `system.PE[0..3].buffer` -> buffer and 4."""
    name = str(node.get("name", ""))
    ranges = [(int(first), int(last)) for first, last in _RANGE.findall(name)]
    bare = _RANGE.sub("", name)
    if not bare or "[" in bare or any(last < first for first, last in ranges):
        raise refuse(node.where("name"), f"name: expected a name such as PE or PE[0..15], got {quoted(name)}")
    return plain(bare), math.prod(last - first + 1 for first, last in ranges)


def _spelt(key: str) -> str:
    """Name of an attribute in one of its spellings."""
    key = key.replace("-", "_")
    return _SPELT.get(key, key)


_TECHNOLOGY, _UNLIMITED = "45 nm", "1000000000 words/cycle"


@dataclass(frozen=True, slots=True)
class Figures:
    """Energies [pJ] of each part's actions and areas [um2], and the file that they stand in."""

    energies: Mapping[str, Mapping[str, float]]
    areas: Mapping[str, float]
    source: str


def unknown(machine: TimeloopMachine, figures: Figures) -> list[str]:
    """Parts whose energies an ERT has not."""
    *stores, compute = [part.name for part in machine.parts if not part.network]
    without = [name for name in stores if "read" not in figures.energies.get(name, {})]
    return without + ([] if figures.energies.get(compute) else [compute])


def read_figures(references: Sequence[tuple[str, Map | Seq]], machine: TimeloopMachine) -> Figures:
    """Energies and areas of `ERT` and `ART`, and of attributes; of several rows of an action the largest counts."""
    energies: dict[str, dict[str, float]] = {}
    areas: dict[str, float] = {}
    files = dict.fromkeys(f"the {kind} {Path(body.mark.file).name}" for kind, body in references)
    for kind, body in references:
        for table in _tables(body) if isinstance(body, Map) else ():
            name = plain(value(table, "name", str))
            if kind == "ART":
                areas[name] = figure(table, "area")
            for action in rows(table, "actions"):
                known = energies.setdefault(name, {})
                key = str(action.get("name"))
                for name_here in ("read", "write") if key == "access" else (key,):
                    energy = figure(action, "max_energy" if "max_energy" in action else "energy")
                    known[name_here] = max(known.get(name_here, 0.0), energy)
    for part in machine.parts:
        own, area = map(part.number, part.own_figures)
        if area is not None:
            areas.setdefault(part.name, area)
        if own is not None and part.name not in energies:  # of one instance, while tables have that of a cluster
            of_cluster = {"read": own * part.cluster_size, "write": own * part.cluster_size}
            energies[part.name] = {COMPUTES[0]: own} if part is machine.parts[-1] else of_cluster
            files[f"attributes in {Path(part.table.mark.file).name}"] = None
    return Figures(energies, areas, " and ".join(files))


def _tables(body: Map) -> list[Map]:
    """Tables of components; those of version 0.2 stand under the components' names, and actions under theirs."""
    held = body.get("tables")
    if not isinstance(held, Map):
        return [*rows(body, "tables"), *rows(body, "table_summary")]
    found = []
    for name in held:
        actions, made = inner(held, name), list[Map]()
        for key in actions:
            given = rows(actions, key) if isinstance(actions[key], Seq) else [inner(actions, key)]
            made += [Map(row.mark, held={**row, "name": key}, marks=row.marks) for row in given]
        found.append(Map(actions.mark, held={"name": name, "actions": Seq(actions.mark, held=made)}))
    return found


def architecture(
    machine: TimeloopMachine,
    figures: Figures,
    kept: Mapping[str, tuple[list[str], list[str]]],
    zeros: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    """Document of a machine; `kept` are the roles that each part keeps and bypasses whatever the mapping.

    `zeros` are keys of each part that say what it does about zeros, and energies of this.

    Where the ERT has not every part, the component models of accelsim give the others their energies.
    """
    homes = machine.homes()
    missing = unknown(machine, figures)
    modelled, odd = bool(missing), [part for part in machine.parts if part.name in missing and _is_odd(part)]
    if odd:
        what = f"no energies of {listed(f'{part.name} ({part.component.split()[-1]})' for part in odd)}"
        hint = "accelsim has no models of such parts; name the ERT of a run of Timeloop too"
        raise refuse(odd[0].table.mark, what, hint)
    levels: list[dict[str, Any]] = []
    for index, part in enumerate(machine.parts[:-1]):
        if homes[part.name] == part.name:
            levels.append(_network(part) if part.network else _level(machine, part, figures, modelled=modelled))
            for key, roles in zip(("keep", "bypass"), kept.get(part.name, ([], [])), strict=True):
                if roles and len(levels) > 1 and not part.network:
                    levels[-1][key] = roles
                elif roles and key == "bypass" and len(levels) == 1:
                    why = f"is the first level, which keeps everything here; it charges {listed(roles)} too"
                    machine.notes.append(Note(part.table.mark, part.name, why))
            _add_zeros(levels[-1], _of_stored(levels[-1], zeros.get(part.name, {}), part, machine.notes))
        across, down = machine.fanout(index)
        if (across, down) != (1, 1):
            wires = {"transfer": "0 pJ", "source": "Timeloop charges no wires unless asked to"}
            transfer = figures.energies.get(part.name, {}).get("transfer")
            if transfer is not None:
                wires = {"transfer": exact_pj(transfer), "source": figures.source}
            charged = modelled or transfer is not None
            fanout: dict[str, Any] = {"x": across, "y": down} | ({"energy": wires} if charged else {})
            if part.unshared:
                fanout |= {"multicast": [role for role in ROLES if role not in part.unshared]}
                fanout |= {"spatial_reduction": "Outputs" not in part.unshared}
            levels[-1]["fanout"] = fanout
    why = "a network of its own, as each of two containers in a row is; one fanout with x and y may share more reads"
    alone = [part for part in machine.parts if part.network and homes[part.name] == part.name]
    machine.notes += [Note(part.table.mark, part.name, why) for part in alone]
    document = {"name": plain_name(machine.name), **_technology(machine, modelled=modelled)}
    if modelled:
        document["energy_table"] = "components"
    compute = _compute(machine, figures)
    _add_zeros(compute, zeros.get(machine.parts[-1].name, {}))
    return {**document, "levels": levels, "compute": compute}


def _of_stored(level: Mapping[str, Any], zeros: Mapping[str, Any], part: Part, notes: list[Note]) -> Mapping[str, Any]:
    """What a level does about zeros, but for formats of tensors that pass it by."""
    forms, packed = zeros.get("formats", {}), zeros.get("position_skipping", ())
    absent = [role for role in level.get("bypass", ()) if role in forms or role in packed]
    if not absent:
        return zeros
    notes.append(Note(part.table.mark, part.name, f"formats of {listed(absent)}, which pass by, are left out"))
    kept = {**zeros, "formats": {role: form for role, form in forms.items() if role not in absent}}
    kept["position_skipping"] = [role for role in packed if role not in absent]
    return {key: held for key, held in kept.items() if held}


def _add_zeros(part: dict[str, Any], zeros: Mapping[str, Any]) -> None:
    """Add what a part does about zeros; energies go beside those that it has."""
    energies = {**part.get("energy", {}), **zeros.get("energy", {})}
    part |= {key: held for key, held in zeros.items() if key != "energy"}
    if "energy" in part or "source" in zeros.get("energy", ()):
        part["energy"] = energies


def _compute(machine: TimeloopMachine, figures: Figures) -> dict[str, Any]:
    part = machine.parts[-1]
    energies = figures.energies.get(part.name)
    floats = re.search(r"fp|float", part.component.lower()) is not None
    compute: dict[str, Any] = {"name": part.name, "class": "fpmac" if floats else "intmac"}
    if energies:
        action = next((name for name in COMPUTES if name in energies), None)
        action = action or max((key for key in energies if key != "leak"), key=lambda key: energies[key])
        compute["energy"] = {"compute": exact_pj(energies[action]), "source": figures.source}
        if energies.get("leak"):
            machine.notes.append(Note(part.table.mark, f"{part.name}.leak", "compute units have no leakage here"))
    else:
        bits = int(part.number("multiplier_width") or part.number("datawidth") or part.number("width") or 16)
        nearest = min((16, 32) if floats else (4, 8, 16, 32), key=lambda width: abs(width - bits))
        compute["attributes"] = {"format": f"{'fp' if floats else 'int'}{nearest}"}
        if nearest != bits:
            why = f"{bits} bit have no model; that of {nearest} bit is taken"
            machine.notes.append(Note(part.table.mark, part.name, why))
    if part.name in figures.areas:
        compute["area"] = f"{plain_decimal(figures.areas[part.name])} um2"
    return compute


def _network(part: Part) -> dict[str, Any]:
    """Level that stores nothing, whose fanout is a network."""
    free = {"read": "0 pJ", "write": "0 pJ", "leak": "0 pJ", "source": "a network stores nothing"}
    size = {"size": "16 bit", "word": "16 bit", "bypass": list(ROLES), "energy": free, "area": "0 um2"}
    return {"name": part.name, "class": "register", **size}


def _level(machine: TimeloopMachine, part: Part, figures: Figures, *, modelled: bool) -> dict[str, Any]:
    words, energies = part.words, figures.energies.get(part.name, {})
    level: dict[str, Any] = {"name": part.name, "class": (part.component.split() or ["storage"])[-1]}
    if modelled:
        level["class"] = _storage(part)
    if words is not None:
        level["size"] = f"{words * part.word_bits} bit"
    elif part is not machine.parts[0]:
        raise refuse(part.table.mark, f"{part.name} has no depth, and only the outermost level may be unlimited")
    level |= {"word": f"{part.word_bits} bit", "block_size": part.block_size}
    if part.cluster_size > 1 and "cluster_size" not in part.attributes:
        key = f"{part.name}: {part.cluster_size} blocks in a row"
        machine.notes.append(Note(part.table.mark, key, _MEANS["cluster_size"]))
    buffering = part.number("multiple_buffering", 1) or 1
    if buffering > 1:
        level["multiple_buffering"] = math.ceil(buffering)
        if buffering != math.ceil(buffering):
            machine.notes.append(Note(part.table.mark, f"{part.name}.multiple_buffering", f"{buffering} is rounded up"))
    both = part.number("bandwidth", 0) or 0
    for key in ("shared_bandwidth", "read_bandwidth", "write_bandwidth"):
        rate = part.number(key) or (0 if key == "shared_bandwidth" else both / 2)  # Timeloop's buffer.cpp halves it
        if rate:
            level[key.removeprefix("shared_")] = f"{plain_decimal(rate)} words/cycle"
    for key, other in itertools.permutations(("read_bandwidth", "write_bandwidth")):
        if key in level:
            level.setdefault(other, _UNLIMITED)
    if "read" in energies:
        charged = [key for key in ("read", "write", "update", "leak") if key in energies]
        actions = {key: exact_pj(energies[key] / part.cluster_size) for key in charged}
        others = {"write": actions["read"], **({"leak": "0 pJ"} if modelled else {})}
        level["energy"] = {**others, **actions, "source": figures.source}
    if modelled and level["class"] == "DRAM":
        level["attributes"] = {"type": str(part.attributes.get("type") or "LPDDR4")}
    if part.name in figures.areas:
        level["area"] = f"{plain_decimal(figures.areas[part.name] / part.cluster_size)} um2"
    return level


def _storage(part: Part) -> str:
    """Component model of a storage, by its class and size."""
    bits = (part.words or 0) * part.word_bits
    if "dram" in part.component.lower() or part.words is None:
        return "DRAM"
    small = bits <= 4096 and _SMALL.search(part.component)
    return storage_class(min(bits, 4095) if small else bits)


def _technology(machine: TimeloopMachine, *, modelled: bool) -> dict[str, str]:
    """Node and clock of the innermost part that has them; models need some."""
    found: dict[str, str] = {}
    for part in reversed(machine.parts):
        node = part.attributes.get("technology", part.attributes.get("TECHNOLOGY"))  # the latter of CiMLoop
        period = part.attributes.get("global_cycle_seconds", part.attributes.get("GLOBAL_CYCLE_SECONDS"))
        size = re.fullmatch(r"([0-9.]+)\s*(nm)?", str(node))
        if size and "technology" not in found:
            found["technology"] = f"{size[1]} nm"
        if isinstance(period, int | float) and 1e-12 <= period <= 1 and "clock" not in found:
            found["clock"] = f"{plain_decimal(round(1e-6 / period, 6))} MHz"
    if not modelled:
        return found
    if "technology" not in found:
        why = f"no node is given; {_TECHNOLOGY} is assumed"
        machine.notes.append(Note(machine.parts[0].table.mark, "technology", why))
    return {"technology": found.get("technology", _TECHNOLOGY), "clock": found.get("clock", "1 GHz")}
