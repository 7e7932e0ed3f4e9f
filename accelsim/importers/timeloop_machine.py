"""Machines of Timeloop, v0.3 and v0.4: sizes from depth and width, fanouts from meshes, energies from an ERT.

Timeloop counts an element as one word at each level, whatever the widths: a level's word is its own `datawidth`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from accelsim.importers import values
from accelsim.importers.documents import Map, Note, Seq, refuse
from accelsim.importers.values import folded
from accelsim.inputs.units import near_miss, quoted

_RANGE = re.compile(r"\[\s*(\d{1,12})\s*\.\.\s*(\d{1,12})\s*\]")
_STORAGE = re.compile("dram|sram|regfile|register|buffer|storage", re.IGNORECASE)
SMALL = re.compile("reg|rf|spad|latch", re.IGNORECASE)
_COMPUTE = re.compile("mac|alu|compute|multiplier", re.IGNORECASE)
_VECTOR = re.compile("vec|simd|vpu|sfu|softmax|activation|relu|pool|scalar|dsp", re.IGNORECASE)
"""Classes that Timeloop does not know, of units on branches of their own."""
_NETWORK = re.compile("NoC|Legacy|ReductionTree|SimpleMulticast")
"""Classes that Timeloop (`topology.hpp`) takes as networks."""
_LARGEST = 2**60
_DEFAULTS = {"multiple_buffering": 1, "min_utilization": 0, "reduction_supported": True, "cluster_size": 1}
_READ = {"depth", "width", "datawidth", "block_size", "entries", "sizeKB", "n_banks", "type", "instances", "size"}
_READ |= {"bandwidth", "read_bandwidth", "write_bandwidth", "shared_bandwidth", "meshX", "meshY", "multiple_buffering"}
_READ |= {"technology", "global_cycle_seconds", "multiplier_width", "adder_width", "name", "class"}
_SPELT = {"memory_depth": "depth", "memory_width": "width", "word_bits": "datawidth", "word_width": "datawidth"}
_SPELT |= {"n_words": "block_size", "data_storage_depth": "depth", "data_storage_width": "width"}
_KEYS_OF_NODE = {"name", "class", "subclass", "attributes", "constraints", "spatial", "enabled", "power_gated_at"}
_KEYS_OF_NODE |= {"local", "subtree", "nodes", "version"}
_FIGURES = ("energy", "area"), ("vector_access_energy", "cluster_area")
_MOST_PARTS, _ROUNDS = 64, 8
MEANS = {
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
_FOLDED = {folded(name): name for name in (*_READ, *MEANS, *_DEFAULTS, *_FIGURES[0], *_FIGURES[1])}
_FOLDED |= {folded(old): new for old, new in _SPELT.items()}


@dataclass(eq=False)
class Part:
    """A component or a network of containers: its attributes as numbers, and the mesh of all its instances."""

    name: str
    table: Map
    component: str
    attributes: dict[str, values.Value]
    mesh: tuple[int, int]
    network: bool = False
    aliases: tuple[str, ...] = ()
    constraints: list[tuple[Part, Map]] = field(default_factory=list)
    branch: tuple[tuple[int, int], ...] = ()  # the forks that it lies below, and on which of their branches
    vector: bool = False  # whether it is the unit of a branch, of a class that Timeloop does not know
    siblings: list[Part] = field(default_factory=list)  # memories on other branches of a fork
    unshared: set[str] = field(default_factory=set)  # roles that the network below it neither multicasts nor reduces

    def number(self, key: str, default: float | None = None) -> float | None:
        """Attribute that must be a number."""
        value = self.attributes.get(key, default)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LARGEST:
            return value
        table = self.table.get("attributes", self.table)
        where = table.where(next((name for name in table if _spelt(name, table) == key), key))
        hint = values.FILE_OF_VARIABLES if isinstance(value, str) and value.isidentifier() else ""
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
    def kind(self) -> str:
        """Its class, without the subclass."""
        return self.component.partition(" ")[0]

    @property
    def odd(self) -> bool:
        """Whether its subclass is no memory and no unit of arithmetic, such as a converter."""
        subclass = self.component.partition(" ")[2]
        return bool(subclass) and not _is_known(subclass)

    @property
    def computes(self) -> bool:
        """Whether its class is one of arithmetic."""
        return self.vector or (bool(_COMPUTE.search(self.component)) and not _STORAGE.search(self.component))

    @property
    def unit(self) -> bool:
        """Whether it is a compute unit for sure: of a class of arithmetic, and without any capacity."""
        return self.computes and not self.network and {"depth", "entries", "sizeKB"}.isdisjoint(self.attributes)

    def beside(self, other: Part) -> int | None:
        """The fork of which it lies on another branch than another part; None: of none."""
        return next((fork for fork, way in self.branch if dict(other.branch).get(fork, way) != way), None)

    @property
    def own_figures(self) -> tuple[str, str]:
        """Attributes with energy [pJ] and area [um2], which count where an ERT and an ART have none."""
        return _FIGURES[0] if self.computes else _FIGURES[1]

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
            return values.size_bits(size, self.table.get("attributes", self.table).where("size")) // self.word_bits
        return None if depth is None else int(depth * self.block_size)


@dataclass
class TimeloopMachine:
    """Parts from the outermost inwards, networks among them; the last is the compute unit.

    A tree has as many `engines` as units of which each ends a machine; `engine` is the name of this one.
    """

    name: str
    parts: list[Part]
    notes: list[Note]
    left_out: Mapping[str, str] = field(default_factory=dict)  # components that are no level, by name, and why
    engine: str = ""
    engines: int = 1
    elsewhere: Set[str] = frozenset()  # names of branches and components that other machines of the tree have

    def part(self, name: str, *, spatial: bool = False) -> Part | None:
        """Part that a directive means by a name; the loops in space of a component with a mesh lie above it."""
        wanted = plain(name)
        if spatial:
            wanted = next((part.name for part in self.parts if wanted in part.aliases), wanted)
        return next((part for part in self.parts if wanted == part.name or wanted in part.aliases), None)

    def is_elsewhere(self, name: object) -> bool:
        """Whether a name, such as `system.big.PE[0..3].MAC`, is of a component of another machine of the tree."""
        return not self.elsewhere.isdisjoint(_RANGE.sub("", str(name)).split("."))

    def fanout(self, index: int) -> tuple[int, int]:
        """Instances of the next part below one instance of this one, on both axes."""
        here, below = self.parts[index], self.parts[index + 1]
        if any(b % a for a, b in zip(here.mesh, below.mesh, strict=True)):
            sizes = [f"{x}x{y}" for x, y in (below.mesh, here.mesh)]
            what = f"{below.name} has {sizes[0]} instances, no multiple of the {sizes[1]} of {here.name}"
            hint = f"give meshX, or name it before {here.name}"
            if here in below.siblings or below in here.siblings:
                hint = "memories on branches beside each other are levels in a row here, each with whole numbers below"
            raise refuse(below.table.mark, what, hint)
        return below.mesh[0] // here.mesh[0], below.mesh[1] // here.mesh[1]

    def note(self, part: Part, why: str, key: str = "") -> None:
        """Note what of a part does not carry over, by its name or another key."""
        self.notes.append(Note(part.table.mark, key or part.name, why))

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


def read_machines(body: Map, variables: Mapping[str, values.Value]) -> list[TimeloopMachine]:
    """Machines of what stands under `architecture`: one, or one of each unit where several compute."""
    first = _read_machine(body, variables, 0)
    return [first, *values.read_all(lambda number: _read_machine(body, variables, number), range(1, first.engines))]


def _read_machine(body: Map, variables: Mapping[str, values.Value], number: int) -> TimeloopMachine:
    """Machine of the unit of that number; the tree is read anew, since reading on marks its parts."""
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
    first = reader.parts[:1]
    parts = [part for part in reader.parts if part.network or part.vector or part in first or _is_known(part.kind)]
    if not any(_COMPUTE.search(part.component) or part.vector for part in parts):
        parts = reader.parts
    others = [part for part in reader.parts if part not in parts]
    notes += [Note(part.table.mark, part.name, MEANS["class"]) for part in others]
    units = [part for part in parts if part.unit] or parts[-1:]
    line = _line(parts, units, units[number]) if units else []
    elsewhere = {name for part in parts if part not in line for name in (part.name, *part.aliases)}
    elsewhere |= {reader.named[way] for part in units for way in part.branch}
    elsewhere -= {name for part in line for name in (part.name, *part.aliases, *map(reader.named.get, part.branch))}
    branches = [reader.named[way] for way in units[number].branch] if units else []
    parts = line
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
    values.read_all(lambda part: part.words, (part for part in parts[:-1] if not part.network))
    left_out = {part.name: f"{part.name}, class {part.kind or 'missing'}, {MEANS['class']}" for part in others}
    engine = ".".join(dict.fromkeys([*branches, parts[-1].name]))
    return TimeloopMachine(reader.title or "timeloop", parts, notes, left_out, engine, len(units), elsewhere)


def _line(parts: Sequence[Part], units: Sequence[Part], unit: Part) -> list[Part]:
    """Parts on the way to a unit, and those of branches beside it that only store, before what has more instances."""
    for one, other in itertools.pairwise(parts):
        if one.unit and other.unit and (one.branch, one.mesh) == (other.branch, other.mesh):
            what = f"{one.name} and {other.name} compute at one place, as parts of a unit or as two units"
            hint = "leave one of them out, or give each a branch of its own, which makes them engines of a system"
            raise refuse(other.table.mark, what, hint)
    computing = {way for one in units for way in one.branch} - {*unit.branch}
    line, aside = list[Part](), list[tuple[int, Part]]()
    for at, part in enumerate(parts):
        fork = part.beside(unit)
        behind = (one for one in parts[at:] if one in units and one.beside(part) is None)  # what a branch serves
        if (part in units and part is not unit) or not computing.isdisjoint(part.branch):
            continue
        if fork is None and (len(units) == 1 or unit not in line):  # what lies below a unit is another one's
            line.append(part)
        elif fork is not None and all(fork in dict(one.branch) for one in behind):
            aside.append((fork, part))
    for fork, part in aside:
        first = next(at for at, one in enumerate(line) if fork in dict(one.branch))
        outermost, many = "dram" in part.kind.lower(), math.prod(part.mesh)
        more = (at for at, one in enumerate(line) if outermost or math.prod(one.mesh) > many or one is unit)
        place = next(at for at in more if at >= first)
        while place > first and line[place - 1].network:
            place -= 1
        line.insert(place, part)
    for place, part in enumerate(line):
        stores = [other for other in line if not (other.unit or other.network or part.network)]
        part.siblings = [other for other in stores if part.beside(other) is not None]
        if part.name in {one.name for one in line[:place]}:
            raise refuse(part.table.mark, f"two components are named {part.name}")
    return line


def _is_known(kind: str) -> bool:
    """Whether a class says that a part stores or computes; Timeloop (`topology.cpp`) passes over all others."""
    return any(known.search(kind) for known in (_STORAGE, _COMPUTE, SMALL))


def _is_empty(attributes: Mapping[str, values.Value]) -> bool:
    return 0 in (attributes.get("depth"), attributes.get("entries"))


def _stores(part: Part) -> bool:
    return bool(_STORAGE.search(part.component) and {"depth", "entries", "sizeKB"} & part.attributes.keys())


class _NodeReader:
    """Reads nodes in order; a mesh and attributes hold for all that lies below."""

    def __init__(self, variables: Mapping[str, values.Value], notes: list[Note]) -> None:
        self.variables, self.notes = variables, notes
        self.parts: list[Part] = []
        self.mesh = (1, 1)
        self.title = ""
        self.branch: tuple[tuple[int, int], ...] = ()
        self.named = dict[tuple[int, int], str]()  # branches, by fork and number

    def forked(self, node: Map, branches: Sequence[Map]) -> Iterator[Map]:
        """Go through branches of a node; where one of them computes, none adds to the mesh of what comes after it."""
        number, outer, mesh, alone = len(self.named), self.branch, self.mesh, _has_unit(node)
        for place, branch in enumerate(branches):
            named = [one for one in (branch, *branch.rows("nodes")) if "name" in one]
            self.named[number, place] = _ranged(named[0])[0] if named else str(place)
            self.branch, before = (*outer, (number, place)), len(self.parts)
            yield branch
            inside = [part for part in self.parts[before:] if not part.network]
            if not any(part.unit for part in inside) and any(_is_vector(part.table) for part in inside[-1:]):
                inside[-1].vector = True
            self.mesh = mesh if alone else self.mesh
        self.branch = outer

    def tree(self, node: Map, counts: tuple[int, ...], inherited: dict[str, values.Value]) -> None:
        """Nodes of v0.3 and of parsed-processed-input.yaml: `subtree` and `local`, with a mesh for each component."""
        parts = sorted(node.rows("local"), key=_is_unit)
        for one in (node, *parts):
            values.note_others(one, _KEYS_OF_NODE, {}, self.notes)
        found = [(_ranged(part)[1], self.attributes(part, inherited)) for part in parts]
        meshes = {own: attributes["meshX"] for own, attributes in found if "meshX" in attributes}
        for local, (own, attributes) in zip(parts, found, strict=True):
            name = _ranged(local)[0]
            if self.is_network(local, name):
                continue
            given = local.value("attributes", Map, local).get("instances")
            instances = math.prod(counts) * own if given is None else values.whole(given, local.mark)
            above = (part.mesh for part in reversed(self.parts) if part.branch == self.branch[: len(part.branch)])
            last = next(above, (1, 1))
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
        below = [only] if isinstance(only, Map) else node.rows("subtree")
        for child in self.forked(node, below) if len(below) > 1 else below:
            name, own = _ranged(child)
            self.title = self.title or name
            self.tree(child, (*counts, own), self.attributes(child, inherited))

    def storages(self, body: Map) -> None:
        """Levels of Timeloop's first files: `storage`, innermost first, and `arithmetic`, with their attributes."""
        nodes = [*reversed(body.rows("storage")), body.value("arithmetic", Map)]
        local = Seq(body.mark)
        for node in nodes:
            kind = node.get("class", node.get("technology", "storage"))
            made = {"name": node.get("name", "MAC"), "class": kind, "attributes": node}
            local.append(Map(node.mark, held=made))
        self.tree(Map(body.mark, held={"local": local}), (), {})

    def nodes(self, nodes: Seq, inherited: dict[str, values.Value]) -> None:
        """Nodes of v0.4; a container's mesh and attributes hold for all nodes after it."""
        for node in nodes.maps():
            kind = node.tag.lstrip("!").removeprefix("Array")  # of CiMLoop
            kind = "Component" if kind == "Element" else kind  # its name before v0.4
            if kind == "Nothing" or not self.value(node.get("enabled", True), inherited):
                continue
            values.note_others(node, _KEYS_OF_NODE, {}, self.notes)
            if kind in ("Parallel", "Hierarchical", "Pipelined"):
                given = node.value("nodes", Seq, Seq(node.mark)).maps()
                alone = kind == "Parallel" and _has_unit(node)
                for branch in self.forked(node, given) if kind == "Parallel" else given:
                    self.nodes(Seq(branch.mark, held=[branch]), {**inherited} if alone else inherited)
                continue
            if kind not in ("Container", "Component", ""):
                raise refuse(node.mark, f"!{kind} is no node of an architecture")
            name, instances = _ranged(node)
            attributes = self.attributes(node, inherited)
            fanout = self.spatial(node, attributes)
            fanout = (instances, 1) if fanout == (1, 1) else fanout
            wires = self.is_network(node, name)
            component = (kind == "Component" or "class" in node) and not wires
            outer = self.mesh
            if fanout != (1, 1):
                alias = f"inter_{name}_spatial"
                own = (name, alias) if component else (alias,)
                self.add(node, alias if component else name, {}, self.mesh, network=True, aliases=own)
                self.mesh = (self.mesh[0] * fanout[0], self.mesh[1] * fanout[1])
            network = self.parts[-1] if fanout != (1, 1) else None
            if component:
                self.add(node, name, attributes, self.mesh, network=_is_empty(attributes))
                self.mesh = outer if self.parts[-1].unit else self.mesh  # nothing lies below a unit
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
            self.notes.append(Note(node.mark, name, MEANS["network"]))
        return found is not None

    def constraints(self, node: Map, attributes: Mapping[str, values.Value]) -> Iterator[tuple[str, Map]]:
        """Constraints that stand at a node, with their type; some are formulas, such as `("Y=" + str(bits))`."""
        names = {f"attributes.{key}": value for key, value in attributes.items()}
        for kind, written in node.inner("constraints").items():
            if written and not isinstance(written, Map):
                what = f"constraints: {kind}: expected a map, such as dataspace: {{keep: [Weights]}}"
                raise refuse(node.inner("constraints").where(kind), what)
            if written:
                held = {**written, "type": kind}
                for key, asked in written.items():
                    if isinstance(asked, Seq):
                        formulas = [self.value(one, names) if str(one).startswith("(") else one for one in asked]
                        held[key] = Seq(asked.mark, asked.tag, formulas)
                    elif str(asked).startswith("attributes."):
                        held[key] = self.value(asked, names)
                yield kind, Map(written.mark, held=held, marks=written.marks)

    def spatial(self, node: Map, attributes: Mapping[str, values.Value]) -> tuple[int, int]:
        """Fanout into a node."""
        own, axes = node.inner("attributes"), ("meshX", "meshY")
        given = node.get("spatial", own)
        if isinstance(given, Seq):  # a list of maps
            given = Map(given.mark, held={key: size for one in given.maps() for key, size in one.items()})
        mesh = values.respelt(Map(node.mark, held={"spatial": given}, marks=node.marks).value("spatial", Map), axes)
        if wrong := [key for key in mesh if key not in axes and "spatial" in node]:
            raise mesh.refuse(wrong[0], f"spatial: {wrong[0]}: unknown key", near_miss(wrong[0], axes, "keys"))
        sizes = []
        for key in axes:
            written = mesh.get(key, 1)
            size = self.value(written, attributes)
            if not isinstance(size, int | float) or size < 1 or size != int(size):
                what = f"{key}: expected a whole number, got {quoted(str(written))}"
                raise mesh.refuse(key, what, values.FILE_OF_VARIABLES if isinstance(written, str) else "")
            sizes.append(int(size))
        if "instances" in own:
            raise own.refuse("instances", "instances: none are given in v0.4", "write spatial: {meshX: ...}")
        return sizes[0], sizes[1]

    def attributes(self, node: Map, inherited: Mapping[str, values.Value]) -> dict[str, values.Value]:
        """Attributes of a node as values; one may be computed from others."""
        own = node.inner("attributes")
        texts = {_spelt(key, own): own[key] for key in sorted(own, key=_rank)}
        found: dict[str, values.Value] = {**inherited, **texts}
        for _ in range(_ROUNDS):  # as often as one may wait for another
            before = dict(found)
            for key, text in texts.items():
                spelt = [*_SPELT.items(), *((written, _spelt(written, own)) for written in own)]
                older = {old: found[new] for old, new in spelt if new in found.keys() - {key}}
                others = {name: value for name, value in found.items() if name != key}
                names = {**older, **self.variables, **others}
                found[key] = self.value(text, names | ({key: inherited[key]} if key in inherited else {}))
            if found == before:
                break
        return found

    def value(self, written: Any, names: Mapping[str, values.Value]) -> values.Value:
        """A number, or what a formula of attributes and variables comes to; other words stay."""
        if not isinstance(written, str):
            finite = isinstance(written, int) or (isinstance(written, float) and math.isfinite(written))
            return written if finite else None
        try:
            return values.work_out(written, {**self.variables, **names})
        except values.FormulaError:
            return written

    def add(
        self,
        node: Map,
        name: str,
        attributes: dict[str, values.Value],
        mesh: tuple[int, int],
        *,
        network: bool = False,
        aliases: tuple[str, ...] = (),
    ) -> None:
        component = " ".join(str(node[key]) for key in ("class", "subclass") if key in node)
        if len(self.parts) >= _MOST_PARTS:
            raise refuse(node.mark, f"more than {_MOST_PARTS} components")
        self.parts.append(Part(name, node, component, attributes, mesh, network, aliases, branch=self.branch))
        if not network:
            self.leave_out(node, name, attributes)

    def leave_out(self, node: Map, name: str, attributes: Mapping[str, values.Value]) -> None:
        """Note what of a component has no counterpart."""
        own = node.inner("attributes")
        for key in own:
            spelt = _spelt(key, own)
            held = own[key] if isinstance(own[key], Map | Seq) else attributes.get(spelt)
            default = _DEFAULTS.get(spelt, held if held in (False, None, "", {}, []) else object())
            of_zeros = "metadata" in key or "compression" in key
            if spelt not in (*_READ, *self.parts[-1].own_figures) and not of_zeros and held != default:
                why = MEANS.get(spelt, "has no counterpart; it changes no count")
                self.notes.append(Note(own.where(key), f"{name}.{key} = {held}", why))
        if node.get("power_gated_at"):
            self.notes.append(Note(node.where("power_gated_at"), f"{name}.power_gated_at", MEANS["has_power_gating"]))


def _is_vector(node: Map) -> bool:
    """Whether a component is a unit if it stands on a branch without one that Timeloop knows."""
    kind = str(node.get("class"))
    return _VECTOR.search(kind) is not None and not _is_known(kind)


def _is_unit(node: Map) -> bool:
    """Whether the class of a component is one of arithmetic."""
    kind = str(node.get("class"))
    return _is_vector(node) or (_COMPUTE.search(kind) is not None and not _STORAGE.search(kind))


def _has_unit(node: Map) -> bool:
    """Whether a unit computes at a node or inside it."""
    held = [node.get(key) for key in ("local", "subtree", "nodes")]
    inside = (one for given in held for one in (given if isinstance(given, Seq) else [given]) if isinstance(one, Map))
    return _is_unit(node) or any(map(_has_unit, inside))


def _ranged(node: Map) -> tuple[str, int]:
    """`PE[0..167]` -> PE and 168; `system.PE[0..3].buffer` -> buffer and 4."""
    name = str(node.get("name", ""))
    ranges = [(int(first), int(last)) for first, last in _RANGE.findall(name)]
    bare = _RANGE.sub("", name)
    if not bare or "[" in bare or any(last < first for first, last in ranges):
        raise node.refuse("name", f"name: expected a name such as PE or PE[0..15], got {quoted(name)}")
    return plain(bare), math.prod(last - first + 1 for first, last in ranges)


def _spelt(key: str, table: Mapping[str, Any]) -> str:
    """Name of an attribute in one of its spellings, but of one beside which that name stands, differing in case."""
    known = _FOLDED.get(folded(key), key.replace("-", "_"))
    return key if known in table and folded(key) == folded(known) else known


def _rank(key: str) -> int:
    """Of two names of one attribute Timeloop takes `word-bits` before its own, but other old names after theirs."""
    old = {folded(name): new for name, new in _SPELT.items()}.get(folded(key))
    return 1 if old is None else 2 * (old == "datawidth")
