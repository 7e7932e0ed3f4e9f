"""AccelForge's arrays that compute in memory: parts that words pass (`!Toll`), and what slices of words take.

A part without storage is a level of ours that keeps nothing, and the network above it carries what passes, so that each
word pays there. What goes up are outputs; those that come back have an energy of their own (`return`). An array takes
words apart into slices: `actions_scale` actions for each word, and `bits_per_value` of it in each cell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from accelsim.importers.accelforge_workload import ROLE_NAMES, SpatialAxis, members
from accelsim.importers.documents import Map, Note
from accelsim.importers.values import Value, as_number, bare_level, figure, note_others, number, pj_text
from accelsim.inputs.errors import InputError, Mark
from accelsim.inputs.units import listed, quoted

SCALES = {"actions_scale", "bits_per_value", "values_per_action", "energy_scale"}
"""What makes the energy of a word another one in one part."""
ACTIONS = {"!Toll": {"read"}, "!Memory": {"read", "write"}, "!Compute": {"compute"}}
KNOWN = {"!Toll": "dummy", "!Memory": "dummy|dram|hbm|ddr|sram|buffer", "!Compute": "dummy|mac|multiplier"}
"""Component classes that accelsim has models for, or that cost nothing."""
_ACTION_KEYS = {"name", "energy", "throughput", "latency", "bits_per_action", "values_per_action"}
_BOTH = "up_and_down"
_ARRAY = ("_ARRAY_COLUMNS", "_ARRAY_ROWS")
_SOURCE = "AccelForge"


def _named_sets() -> dict[str, frozenset[str]]:
    every, none = frozenset(ROLE_NAMES), frozenset[str]()
    sets = {"All": every, "Tensors": every, "Nothing": none, "Intermediates": none}
    sets |= {role: frozenset({role}) for role in ROLE_NAMES}
    sets |= {"Inputs": frozenset({"input", "weight"}), "Outputs": sets["output"], "Persistent": sets["weight"]}
    return sets | {"Above": none}


@dataclass
class AccelForgeMachine:
    """A machine that is read: values of names in formulas, its nodes, its levels and the axes of their fanouts so far.

    `word` are the bits of a word; `side_by_side` instances stand for each one that words are counted for; `kept` are
    sets of roles by name: those of AccelForge, and what each memory keeps; `sources` say of parts what model they have.
    """

    names: Mapping[str, Value]
    notes: list[Note]
    nodes: Sequence[Map]
    engines: int = 1  # machines that the tree has
    word: int = 8
    clock_hz: float = 1.0
    side_by_side: float = 1.0
    sources: dict[str, str] = field(default_factory=dict)
    kept: dict[str, frozenset[str]] = field(default_factory=_named_sets)
    levels: list[dict[str, Any]] = field(default_factory=list)
    axes: list[SpatialAxis] = field(default_factory=list)

    def number(self, table: Map, key: str, default: float | None = None) -> float | int:
        """Number under a key, or of the formula that stands there."""
        return number(table, key, default, {**self.kept, **self.names})

    def leak_pj(self, node: Map) -> float:
        """Leakage of the instances of a part that stand for one, in a cycle [pJ]."""
        watt = figure(node, "leak_power", self.names) if "leak_power" in node else 0.0
        return watt * self._instances(node, "leak_power_scale") / self.clock_hz * 1e12

    def area(self, node: Map) -> dict[str, str]:
        """Area of these instances, if the part has one, which AccelForge has in square metres."""
        if "area" not in node:
            return {}
        return {"area": f"{figure(node, 'area', self.names) * self._instances(node, 'area_scale') * 1e12:.12g} um2"}

    def _instances(self, node: Map, scale: str) -> float:
        return self.number(node, scale, 1) * self.number(node, "n_parallel_instances", 1) * self.side_by_side

    def source(self, *parts: str) -> str:
        """Where the energies of parts come from."""
        found = {part: self.sources[part] for part in parts if part in self.sources}
        each = [*found.values()] if len(parts) == 1 else [f"{part}: {source}" for part, source in found.items()]
        return "; ".join(each) or _SOURCE

    def members(self, tensors: Map, key: str, default: str = "Nothing") -> frozenset[str]:
        """Roles of the set under a key."""
        return members(tensors.get(key, default), self.kept, tensors.where(key))

    def bits(self, role: str, mark: Mark) -> float:
        """Bits of a word of a role."""
        return as_number(self.names[f"{role}.bits_per_value"], mark)


def actions_of(node: Map) -> dict[str, Map]:
    """Actions of a node by name."""
    return {str(action.get("name")): action for action in node.rows("actions")}


def array_names(nodes: Sequence[Map], names: Mapping[str, Value]) -> dict[str, Value]:
    """Sizes of the array as formulas ask for them: what shares inputs, outputs, all of it, and each node's fanout.

    Those that rest on variables without a value yet are not there.
    """
    shared: dict[str, float] = {"input": 1, "output": 1}
    found: dict[str, float] = {}
    for node in nodes:
        fanout: float = 1
        for spatial in node.rows("spatial"):
            size = math.nan
            with suppress(InputError):
                size = as_number(spatial.get("fanout"), spatial.where("fanout"), names)
            fanout *= size
            for role in {str(spatial.get("reuse")), str(spatial.get("may_reuse"))} & shared.keys():
                if str(spatial.get("name")).endswith(_ARRAY):
                    shared[role] *= size
        found[f"{node.get('name')}.get_fanout()"] = fanout
    found |= {f"get_array_fanout_reuse_{role}(spec)": size for role, size in shared.items()}
    found["get_array_fanout_total(spec)"] = math.prod(shared.values())
    return {name: size for name, size in found.items() if not math.isnan(size)}


def outside(first: Map, machine: AccelForgeMachine) -> list[dict[str, Any]]:
    """Outermost level for words that the first node does not keep for all: they come from there for nothing."""
    keep = first.inner("tensors").get("keep", "Nothing") if first.tag == "!Memory" else "Nothing"
    if members(keep, machine.kept, first.mark) == machine.kept["All"]:
        return []
    why = "what the file keeps nowhere comes from, and goes to, a level Outside that costs nothing"
    machine.notes.append(Note(first.mark, str(first.get("name")), why))
    energy = dict.fromkeys(("read", "write", "leak"), "0 pJ") | {"source": _SOURCE}
    kind = {"class": "DRAM", "attributes": {"type": "LPDDR4"}, "area": "0 um2"}
    return [{"name": "Outside", **kind, "word": f"{machine.word} bit", "energy": energy}]


def start_full(levels: Sequence[dict[str, Any]]) -> None:
    """Let words lie in the outermost part that keeps them, and results stay there: bringing them costs nothing."""
    before: set[str] = set()
    for level in levels:
        energy, stored = level.get("energy", {}), set(ROLE_NAMES.values()) - set(level.get("bypass", ()))
        fresh = set(level.get("keep", ())) - before
        before |= stored
        if fresh and "write" in energy:
            every = [role for role in ROLE_NAMES.values() if role in stored]
            write = energy["write"] if isinstance(energy["write"], dict) else dict.fromkeys(every, energy["write"])
            if "Outputs" in fresh:
                energy["update"] = {"Outputs": write["Outputs"]}
                level["drain_reads"] = False
            energy["write"] = {role: "0 pJ" if role in fresh else each for role, each in write.items()}


def settle_actions(node: Map, machine: AccelForgeMachine, *, arrays: bool) -> None:
    """Give each action of a node what the node says of all of them, and the scales to its energy and rate.

    What `arrays` and memories say of energies and rates as a whole belongs to their words instead.
    """
    of_node = {"energy": node.tag in ("!Compute", "!Network"), "throughput": not arrays}
    for action in node.rows("actions"):
        if "bits_per_action" in node:
            action.setdefault("bits_per_action", node["bits_per_action"])
        for key, whole in of_node.items():
            scales = [part[f"{key}_scale"] for part in (action, node)[: 1 + whole] if f"{key}_scale" in part]
            if key in action and scales:
                action[key] = " * ".join(f"({factor})" for factor in (action[key], *scales))
                action.pop(f"{key}_scale", None)
        note_others(action, _ACTION_KEYS, {}, machine.notes)
        if str(action.get("name")) not in ACTIONS.get(node.tag, {"hop", "hops"}):
            why = f"is not read: actions of a {node.tag} are {listed(sorted(ACTIONS.get(node.tag, {'hop'})))}"
            machine.notes.append(Note(action.mark, str(action.get("name")), why))


def _of_role(table: Map, role: str, machine: AccelForgeMachine, default: float) -> float:
    """Number for a role in a table by sets of tensors: under its own name, or the first set that has it."""
    for text in sorted(table, key=lambda text: (text != role, text == "All")):
        if role in members(text, machine.kept, table.where(text)):
            return machine.number(table, text)
    return default


def stored_bits(node: Map, role: str, machine: AccelForgeMachine) -> float:
    """Bits of a word of a role in one part."""
    table = node.inner("bits_per_value")
    bits = _of_role(table, role, machine, machine.bits(role, node.mark))
    if bits <= 0:
        raise table.refuse(role, f"expected more than 0 bit, got {bits:g}")
    return bits


def per_value_joule(node: Map, action: str, role: str, machine: AccelForgeMachine) -> float:
    """Energy [J] of an action for one whole word of a role."""
    given = actions_of(node).get(action, Map(node.mark))
    if "energy" not in given:
        return 0.0  # a dummy
    many = actions_per_value(node, given, role, machine) * machine.number(node, "energy_scale", 1)
    return figure(given, "energy", machine.names) * many


def actions_per_value(node: Map, action: Map, role: str, machine: AccelForgeMachine) -> float:
    """Actions of a part for one whole word of a role."""
    tables = (part.inner("values_per_action") for part in (action, node))
    at_once = next((many for table in tables if (many := _of_role(table, role, machine, 0))), 0)
    bits = machine.number(action, "bits_per_action", 1)
    many = 1 / at_once if at_once else stored_bits(node, role, machine) / bits
    return many * machine.number(node, "actions_scale", 1)


def add_toll(node: Map, name: str, machine: AccelForgeMachine) -> None:
    """Add what passes a part to the network above a level that keeps nothing; several parts in a row share one."""
    levels = machine.levels
    alone = levels[-1].get("tolls") and "fanout" not in levels[-1]
    above = levels[-2] if alone else levels[-1]
    if not alone:
        levels.append(bare_level(name, f"{machine.word} bit"))
    here = levels[-1]
    here["tolls"] = [*here.get("tolls", []), name]
    here["name"] = "-".join(here["tolls"])
    charge_passing(node, above, ("read",), machine)
    here["leak_pj"] = here.get("leak_pj", 0.0) + machine.leak_pj(node)
    if area := machine.area(node).get("area"):
        here["area"] = f"{float(here.get('area', '0 um2').split()[0]) + float(area.split()[0]):.12g} um2"


def charge_passing(node: Map, above: dict[str, Any], actions: Sequence[str], machine: AccelForgeMachine) -> None:
    """Add the energies of some actions, of each word that passes a part, to the network above it."""
    passing = above.setdefault("fanout", {}).setdefault("passing", {})
    above["fanout"].setdefault("parts", []).append(str(node.get("name")))
    written, where = node.get("direction", _BOTH), node.where("direction")
    ways = written if isinstance(written, Map) else {"All": written}
    for short in machine.members(node.inner("tensors"), "keep"):
        way = next((str(way) for text, way in ways.items() if short in members(text, machine.kept, where)), _BOTH)
        if way not in ("up", "down", _BOTH):
            raise node.refuse("direction", f"{quoted(way)} is none of up, down, {_BOTH}")
        joule = sum(per_value_joule(node, action, short, machine) for action in actions)
        down, up = "down" in way, "up" in way
        for key, used in ((short, up if short == "output" else down), ("return", down and short == "output")):
            passing[key] = passing.get(key, 0.0) + (joule if used else 0.0)


def close_tolls(machine: AccelForgeMachine) -> None:
    """Write the energies of what passes, and what leaks."""
    for level in machine.levels:
        passing = level.get("fanout", {}).pop("passing", None)
        if passing is not None:
            joule = {ROLE_NAMES[short]: passing.get(short, 0.0) for short in ROLE_NAMES}
            energy: dict[str, Any] = {"transfer": {role: pj_text(each * 1e12) for role, each in joule.items()}}
            returned = pj_text(passing.get("return", 0.0) * 1e12)
            source = machine.source(*level["fanout"].pop("parts"))
            level["fanout"]["energy"] = energy | {"return": returned, "source": source}
        if level.get("class") == "fanout":
            level.setdefault("area", "0 um2")
        leak = level.pop("leak_pj", 0.0)
        if tolls := level.pop("tolls", None):
            level["energy"] = {"leak": pj_text(leak), "source": machine.source(*tolls)}


def store_slices(node: Map, level: dict[str, Any], machine: AccelForgeMachine) -> None:
    """Energies and size of a memory that takes words apart, for words as wide as they are elsewhere."""
    shorts = [short for short, role in ROLE_NAMES.items() if role not in level.get("bypass", ())]
    bits = {short: machine.bits(short, node.mark) for short in shorts}
    wider = {bits[short] / stored_bits(node, short, machine) for short in shorts}
    if "size" in level:
        level["size"] = f"{int(int(level['size'].split()[0]) * min(wider, default=1.0))} bit"
    if "energy" not in level:
        why = "energies are those of component models, for words as wide as elsewhere"
        machine.notes += [node.note(key, why) for key in sorted(SCALES & node.keys())]
        return
    for action in ("read", "write"):
        each = {short: per_value_joule(node, action, short, machine) * machine.word / bits[short] for short in shorts}
        level["energy"][action] = {ROLE_NAMES[short]: pj_text(joule * 1e12) for short, joule in each.items()}
    tensors = node.inner("tensors")
    for short in sorted(machine.members(tensors, "no_refetch_from_above") - machine.kept["Above"]):
        level["energy"]["write"][ROLE_NAMES[short]] = "0 pJ"
        why = f"{ROLE_NAMES[short]} lie in {level['name']} beforehand: writing them costs nothing"
        machine.notes.append(tensors.note("no_refetch_from_above", why))


def stores(node: Map, level: Mapping[str, Any], machine: AccelForgeMachine) -> bool:
    """Whether a memory sends any word twice; one that does not is a place that words pass together."""
    once = machine.members(node.inner("tensors"), "no_resend_to_below")
    return not {ROLE_NAMES[short] for short in once} >= set(ROLE_NAMES.values()) - set(level.get("bypass", ()))


def array_clock(nodes: Sequence[Map], machine: AccelForgeMachine) -> tuple[float | None, int]:
    """Rate at which an array takes slices of its inputs [Hz], if the file says so, and slices of an input.

    It is that of the slowest part that words pass while all of the array is used.
    """
    if all(node.tag != "!Toll" for node in nodes) or "cycle_period" not in machine.names:
        return None, 1
    cells = [node for node in nodes if node.tag == "!Memory" and "actions_scale" in node]
    cell = cells[-1] if cells else nodes[-1]
    slices, period_s = 1.0, as_number("cycle_period", cell.mark, machine.names)
    if cells:
        slices = machine.number(cell, "actions_scale", 1) / (machine.number(cell, "throughput_scale", 1) or math.nan)
    if not (0 < slices < math.inf and 0 < period_s < math.inf):
        what = f"expected slices and a cycle_period above 0, got {slices:g} and {period_s:g}"
        raise cell.refuse("actions_scale", what)
    whole = math.ceil(slices)
    why = "takes one slice of its inputs in each cycle_period"
    for name, seconds in _passing_s(nodes, machine):
        if seconds / whole > period_s * (1 + 1e-9):
            period_s = seconds / whole
            why = f"takes a slice of its inputs in {period_s:.4g} s, as fast as {name}"
    machine.notes.append(Note(cell.mark, str(cell.get("name")), why))
    return 1 / period_s, whole


def _passing_s(nodes: Sequence[Map], machine: AccelForgeMachine) -> Iterator[tuple[str, float]]:
    """Seconds in which the words that all of an array takes, or gives, at once pass each part."""
    below = {"input": 1, "output": 1}  # words that differ, below an instance
    for node in reversed(nodes):
        read = actions_of(node).get("read", Map(node.mark)) if node.tag == "!Toll" else Map(node.mark)
        alone_s = machine.number(read, "latency", 0)
        rate_hz = machine.number(read, "throughput", 1 / alone_s if alone_s else math.inf)
        rate_hz *= machine.number(node, "throughput_scale", 1) * machine.number(node, "n_parallel_instances", 1)
        for role in machine.members(node.inner("tensors"), "keep") & below.keys() if rate_hz < math.inf else ():
            yield str(node.get("name")), actions_per_value(node, read, role, machine) * below[role] / rate_hz
        for spatial in node.rows("spatial"):
            size = machine.number(spatial, "fanout") // max(1, machine.number(spatial, "usage_scale", 1))
            reused = re.split(r"[\s|]+", f"{spatial.get('reuse')} {spatial.get('may_reuse')}")
            below = {role: words if role in reused else words * max(1, int(size)) for role, words in below.items()}
