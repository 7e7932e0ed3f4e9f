"""Machines of Timeloop, v0.3 and v0.4: sizes from depth and width, fanouts from meshes, energies from an ERT.

Timeloop counts an element as one word at each level, whatever the widths: a level's word is its own `datawidth`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from accelsim.importers.documents import Row, Table, refuse
from accelsim.importers.foreign import Note
from accelsim.importers.values import FormulaError, Value, tables, value, work_out
from accelsim.inputs.units import quoted

_RANGE = re.compile(r"(.*?)\[\s*(\d+)\s*\.\.\s*(\d+)\s*\]")
_DEFAULTS = {"multiple_buffering": 1, "min_utilization": 0, "reduction_supported": True, "cluster_size": 1}
_READ = {"depth", "width", "datawidth", "block_size", "entries", "sizeKB", "read_bandwidth", "write_bandwidth"}
_READ |= {"shared_bandwidth", "meshX", "meshY", "multiple_buffering", "technology", "global_cycle_seconds", "n_banks"}
_READ |= {"type", "multiplier_width", "adder_width"}
_SPELT = {"memory_depth": "depth", "memory_width": "width", "word_bits": "datawidth"}
_SPELT |= {"data_storage_depth": "depth", "data_storage_width": "width"}
_MOST_PARTS, _ROUNDS = 64, 8
_MEANS = {
    "metadata": "sparse: formats and their metadata are not modelled, the design is counted dense",
    "cluster_size": "an access serves a cluster of instances: each has its share of the energy, as if all were used",
    "min_utilization": "a least utilization of one level is not asked for",
    "allow_overbooking": "tiles that exceed a capacity are not valid here",
    "reduction_supported": "partial sums are added wherever they meet",
    "has_power_gating": "leakage is that of all instances",
}
"""What attributes would mean that have no counterpart; of others it is only said that they have none."""


@dataclass
class Part:
    """A component or a network of containers: its attributes as numbers, and the mesh of all its instances."""

    name: str
    table: Table
    component: str
    attributes: dict[str, Value]
    mesh: tuple[int, int]
    network: bool = False
    aliases: tuple[str, ...] = ()
    constraints: list[tuple[Part, Table]] = field(default_factory=list)
    siblings: list[Part] = field(default_factory=list)
    """Components beside this one below `!Parallel`."""

    def number(self, key: str, default: float | None = None) -> float | None:
        """Attribute that must be a number."""
        value = self.attributes.get(key, default)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return value
        table = self.table.get("attributes", self.table)
        raise refuse(table.where(key), f"{self.name}: {key}: expected a number, got {quoted(str(value))}")

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
        """Instances that share an access."""
        return max(1, int(self.number("cluster_size", 1) or 1))

    @property
    def words(self) -> int | None:
        """Capacity of an instance; None: unlimited."""
        entries, kib, depth = self.number("entries"), self.number("sizeKB"), self.number("depth")
        if entries is not None:
            return int(entries)
        if kib is not None:
            return int(kib * 8192) // self.word_bits
        return None if depth is None else int(depth * self.block_size)


@dataclass
class Machine:
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
            raise refuse(below.table.mark, what, "give meshX")
        return below.mesh[0] // here.mesh[0], below.mesh[1] // here.mesh[1]

    def homes(self) -> dict[str, str]:
        """Level that holds the loops of each part: itself, or the one whose fanout a network is."""
        homes: dict[str, str] = {}
        for index, part in enumerate(self.parts[:-1]):
            above = self.parts[index - 1] if index else None
            folded = part.network and above is not None and self.fanout(index - 1) == (1, 1)
            homes[part.name] = homes[above.name] if folded and above is not None else part.name
        return homes


def plain(name: object) -> str:
    """`system.GLB[1..1]` -> `GLB`."""
    return re.sub(r"\[[^\]]*\]$", "", str(name)).rsplit(".", 1)[-1]


def read_machine(body: Table, variables: Mapping[str, Value]) -> Machine:
    """Parts of what stands under `architecture`."""
    notes: list[Note] = []
    reader = _Reader(dict(variables), notes)
    if isinstance(body.get("subtree"), Row):
        reader.tree(body, (), dict(variables))
    elif isinstance(body.get("nodes"), Row):
        reader.nodes(body["nodes"], dict(variables))
    else:
        raise refuse(body.mark, "architecture: expected `nodes` (v0.4) or `subtree` (v0.3)")
    parts = reader.parts
    while parts and parts[-1].network:
        parts.pop()
    if len(parts) < 2:
        raise refuse(body.mark, "architecture: expected a storage and a compute unit at least")
    return Machine(reader.title or "timeloop", parts, notes)


class _Reader:
    """Reads nodes in order; a mesh and attributes hold for all that lies below."""

    def __init__(self, variables: Mapping[str, Value], notes: list[Note]) -> None:
        self.variables, self.notes = variables, notes
        self.parts: list[Part] = []
        self.mesh = (1, 1)
        self.title = ""

    def tree(self, node: Table, counts: tuple[int, ...], inherited: dict[str, Value]) -> None:
        """Nodes of v0.3 and of parsed-processed-input.yaml: `subtree` and `local`, with a mesh for each component."""
        for local in tables_under(node, "local"):
            name, own = _ranged(local)
            attributes = self.attributes(local, inherited)
            instances = math.prod(counts) * own
            last = self.parts[-1].mesh if self.parts else (1, 1)
            across = attributes.get("meshX", last[0] if math.prod(last) == instances else instances)
            wide = int(across) if isinstance(across, int | float) and across >= 1 else instances
            if instances % wide:
                raise refuse(local.mark, f"{name}: meshX {wide} does not divide its {instances} instances")
            empty = [attributes.get(key) for key in ("depth", "entries")]
            network = local.get("class") == "dummy_storage" or 0 in empty
            self.add(local, name, attributes, (wide, instances // wide), network=network)
        below = tables_under(node, "subtree")
        if len(below) > 1:
            names = " and ".join(str(one.get("name", "?")) for one in below)
            raise refuse(below[1].mark, f"the tree forks into {names}; a machine here is one line of levels")
        for child in below:
            name, own = _ranged(child)
            self.title = self.title or name
            self.tree(child, (*counts, own), self.attributes(child, inherited))

    def nodes(self, nodes: Row, inherited: dict[str, Value], parallel: list[Part] | None = None) -> None:
        """Nodes of v0.4; a container's mesh and attributes hold for all nodes after it."""
        for node in tables(nodes):
            kind = node.tag.lstrip("!")
            if kind == "Nothing" or node.get("enabled") is False:
                continue
            if kind in ("Parallel", "Hierarchical", "Pipelined"):
                below: list[Part] | None = [] if kind == "Parallel" else parallel
                self.nodes(value(node, "nodes", Row, Row(node.mark)), inherited, below)
                continue
            if kind not in ("Container", "Component", ""):
                raise refuse(node.mark, f"!{kind} is no node of an architecture")
            name = plain(node.get("name", "node"))
            attributes = self.attributes(node, inherited)
            fanout = self.spatial(node, attributes)
            component = kind == "Component" or "class" in node
            if fanout != (1, 1):
                alias = f"inter_{name}_spatial"
                own = (name, alias) if component else (alias,)
                self.add(node, alias if component else name, {}, self.mesh, network=True, aliases=own)
                self.mesh = (self.mesh[0] * fanout[0], self.mesh[1] * fanout[1])
            network = self.parts[-1] if fanout != (1, 1) else None
            if component:
                self.add(node, name, attributes, self.mesh)
                if parallel is not None:
                    self.parts[-1].siblings = parallel
                    parallel.append(self.parts[-1])
            else:
                self.title = self.title or name
                inherited |= {key: value for key, value in attributes.items() if key not in ("meshX", "meshY")}
            for target, constraint in self.constraints(node):
                part = network if target == "spatial" else self.parts[-1] if component or network else None
                if part is not None:
                    self.parts[-1].constraints.append((part, constraint))

    def constraints(self, node: Table) -> Iterator[tuple[str, Table]]:
        """Constraints that stand at a node, with their type."""
        asked = node.get("constraints")
        for kind, written in asked.items() if isinstance(asked, Table) else ():
            if isinstance(written, Table) and written:
                constraint = Table(written.mark)
                constraint.update(written)
                constraint.marks = written.marks
                constraint["type"] = kind
                yield kind, constraint

    def spatial(self, node: Table, attributes: Mapping[str, Value]) -> tuple[int, int]:
        """Fanout into a node."""
        mesh = value(node, "spatial", Table, Table(node.mark))
        sizes = []
        for key in ("meshX", "meshY"):
            written = mesh.get(key, 1)
            size = self.value(written, attributes)
            if not isinstance(size, int | float) or size < 1 or size != int(size):
                raise refuse(node.where("spatial"), f"{key}: expected a whole number, got {quoted(str(written))}")
            sizes.append(int(size))
        return sizes[0], sizes[1]

    def attributes(self, node: Table, inherited: Mapping[str, Value]) -> dict[str, Value]:
        """Attributes of a node as values; one may be computed from others."""
        own = value(node, "attributes", Table, Table(node.mark))
        values: dict[str, Value] = dict(inherited)
        texts = {_SPELT.get(key.replace("-", "_"), key.replace("-", "_")): value for key, value in own.items()}
        values.update(texts)
        for _ in range(_ROUNDS):  # as often as one may wait for another
            before = dict(values)
            for key, text in texts.items():
                names = {name: value for name, value in values.items() if name != key}
                values[key] = self.value(text, names | ({key: inherited[key]} if key in inherited else {}))
            if values == before:
                break
        return values

    def value(self, written: Any, names: Mapping[str, Value]) -> Value:
        """A number, or what a formula of attributes and variables comes to; other words stay."""
        if not isinstance(written, str):
            return (
                written if isinstance(written, int) or (isinstance(written, float) and math.isfinite(written)) else None
            )
        try:
            return work_out(written, {**self.variables, **names})
        except FormulaError:
            return written

    def add(
        self,
        node: Table,
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

    def leave_out(self, node: Table, name: str, attributes: Mapping[str, Value]) -> None:
        """Note what of a component has no counterpart."""
        own = value(node, "attributes", Table, Table(node.mark))
        for key in own:
            spelt = _SPELT.get(key, key)
            means = "metadata" if "metadata" in key or "compression" in key else key
            held = attributes.get(spelt)
            default = _DEFAULTS.get(key, held if held in (False, None, "") else object())
            if spelt not in _READ and held != default:
                why = _MEANS.get(means, "has no counterpart; it changes no count")
                self.notes.append(Note(own.where(key), f"{name}.{key} = {held}", why))
        for key in ("sparse_optimizations", "power_gated_at"):
            if node.get(key):
                self.notes.append(Note(node.where(key), f"{name}.{key}", "sparse: the design is counted dense"))


def tables_under(node: Table, key: str) -> list[Table]:
    """Maps in the list under a key; none where it is missing."""
    found = node.get(key)
    if found is not None and not isinstance(found, Row):
        raise refuse(node.where(key), f"{key}: expected a list")
    return tables(found or Row(node.mark))


def _ranged(node: Table) -> tuple[str, int]:
    """`PE[0..167]` -> PE and 168."""
    name = str(node.get("name", ""))
    found = _RANGE.fullmatch(name)
    if not name or (found is not None and int(found[3]) < int(found[2])):
        raise refuse(node.where("name"), f"name: expected a name such as PE or PE[0..15], got {quoted(name)}")
    return (plain(name), 1) if found is None else (plain(found[1]), int(found[3]) - int(found[2]) + 1)
