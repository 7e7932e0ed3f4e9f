"""Energy, leakage and area of components: an energy table (ERT) with sources, and what other estimators give."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol

from accelsim.inputs import fields, forms
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.fields import Fields, Key, Keys, by_role, formed, keys_form, node_of
from accelsim.inputs.forms import Form
from accelsim.inputs.source import MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import (
    AREAS,
    ENERGIES,
    ENERGY_RATE_UNITS,
    ENERGY_UNITS,
    SIZE_UNITS,
    Energy,
    QuantityError,
    listed,
    parse_positive_size_bits,
    parse_size_bits,
)
from accelsim.inputs.workload import ROLES

_ACTIONS = ("read", "write", "update", "leak", "compute")
_PER_BIT = ("read", "write", "update", "transfer", "return", "hop")
_BY_ROLE = ("read", "write", "update", "transfer", "hop")
Written = dict[tuple[str, str], Energy]


@dataclass(frozen=True, slots=True)
class EnergyEntry:
    """Energy of an access (`read`, `write`, `update`), a MAC (`compute`), a cycle (`leak`) or a word on a network.

    `formula` says how it came about, with the inputs; entries are equal if energy and source are.
    """

    energy_pj: float
    source: str
    formula: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class AreaEntry:
    """Area [um2] of one instance of a component."""

    area_um2: float
    source: str
    formula: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class EnergyTable:
    """Energies [pJ] by (component, role, action); role `*` stands for every tensor."""

    entries: Mapping[tuple[str, str, str], EnergyEntry]

    def find(self, component: str, role: str, action: str) -> EnergyEntry | None:
        """Entry of an action for a tensor's role, or None; an `update` without an entry of its own is a `write`."""
        names = (action, "write") if action == "update" else (action,)
        keys = ((component, whose, name) for name in names for whose in (role, "*"))
        return next((self.entries[key] for key in keys if key in self.entries), None)

    def found_pj(self, component: str, role: str, *actions: str) -> float:
        """Energy [pJ] of the first of some actions that has an entry; 0 if none has."""
        found = (self.find(component, role, action) for action in actions)
        return next((entry.energy_pj for entry in found if entry is not None), 0.0)

    def formats(self, component: str) -> list[int]:
        """Widths of operands [bit] of which a multiply-accumulate has an energy of its own, narrowest first."""
        own = (role for name, role, action in self.entries if (name, action) == (component, "compute") and role != "*")
        return sorted(int(role.removesuffix(" bit")) for role in own)

    def energy_pj(self, component: str, role: str, action: str) -> float:
        """Energy [pJ] of an action; a missing entry is an error, never zero."""
        entry = self.find(component, role, action)
        if entry is None:
            raise AccelsimError(
                f"no energy for action '{action}' of component {component} ({role}); "
                f"add `energy: {{{action}: … pJ}}` to it in the architecture file"
            )
        return entry.energy_pj


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a machine, as an estimator of its energy sees it."""

    name: str  # of the level (`GLB`), its network (`GLB network`) or the compute units
    component: str  # its class
    technology: str  # node, such as `65 nm`; empty where none is named
    attributes: Mapping[str, str]  # size, word, block size, and what stands under `attributes`, spelt as by `spelt`
    actions: tuple[str, ...]
    bits: Mapping[str, int]  # that one action moves [bit]; actions that move none are absent
    partitions: Mapping[str, int] = field(default_factory=dict)  # size [bit] by role, where each has its own
    clock_hz: float | None = None


@dataclass(frozen=True, slots=True)
class ComponentFigures:
    """What an estimator knows of a part: energies [pJ] by (role, action), area, and what is wrong with the part."""

    energies: Mapping[tuple[str, str], EnergyEntry] = field(default_factory=dict)
    area: AreaEntry | None = None
    problems: tuple[tuple[str, str], ...] = ()  # what is wrong, and what to write instead


class Estimator(Protocol):
    """Where energies and areas come from: a table, models, or another tool."""

    @property
    def name(self) -> str:
        """As messages call it."""

    @property
    def complete(self) -> bool:
        """Whether leakage and networks that it knows nothing of are an error, and not left out."""

    def find(self, part: Component) -> ComponentFigures:
        """Energies and area of one part."""

    def notes(self) -> tuple[str, ...]:
        """What a reader must know of it, once all parts were asked for."""


ACCELERGY: Keys = {
    "ert": Key(fields.text, "path of Accelergy's energy reference table"),
    "art": Key(fields.text, "path of Accelergy's area reference table", "none"),
    "rename": Key(fields.mapping_of(fields.text), "Accelergy component of each level", "the same names"),
}
ESTIMATOR_FORM: Form = forms.either(fields.text.form, keys_form(ACCELERGY))
"""What may stand under `energy_table` of an architecture, as JSON Schema."""


def read_estimator(node: Node | None, beside: Path, problems: Problems) -> Estimator | None:
    """Read what an architecture names as its `energy_table`; how each is opened stands in the room `energy/`."""
    opened: Estimator | None = import_module("accelsim.energy.estimators").open_estimator(node, beside, problems)
    return opened


@dataclass(frozen=True, slots=True)
class ComponentEntry:
    """Energies of a class of components, by (role, action), as a table file gives them: not yet those of a level."""

    component: str
    technology: str | None
    attributes: Mapping[str, str]
    energies: Mapping[tuple[str, str], Energy]
    source: str
    area_um2: float | None = None

    def matches(self, component: str, technology: str | None, attributes: Mapping[str, str]) -> bool:
        """Whether the entry speaks of such a component: its class, its node if one is named, and all attributes."""
        if self.component != component or (self.technology is not None and self.technology != technology):
            return False
        return all(attributes.get(key) == value for key, value in self.attributes.items())

    @property
    def specificity(self) -> int:
        """Number of attributes that have to match; a technology counts as one."""
        return len(self.attributes) + (self.technology is not None)


@dataclass(frozen=True, slots=True)
class ComponentTable:
    """An energy table as a file holds it, by class of component."""

    name: str
    entries: tuple[ComponentEntry, ...]
    complete: ClassVar[bool] = False

    def best(self, component: str, technology: str | None, attributes: Mapping[str, str]) -> tuple[ComponentEntry, ...]:
        """Return the entries with the most attributes that all match: one, none, or several equally good ones."""
        matching = [entry for entry in self.entries if entry.matches(component, technology, attributes)]
        most = max((entry.specificity for entry in matching), default=0)
        return tuple(entry for entry in matching if entry.specificity == most)

    def find(self, part: Component) -> ComponentFigures:
        """Energies and area of the best entry for a part; a problem if several match equally well."""
        best = self.best(part.component, part.technology or None, part.attributes)
        if len(best) > 1:
            what = f"{len(best)} entries of the energy table '{self.name}' match equally well"
            return ComponentFigures(problems=((what, "give `attributes` that only one of them has"),))
        if not best:
            return ComponentFigures()
        entry = best[0]
        area = None if entry.area_um2 is None else AreaEntry(entry.area_um2, entry.source)
        known = {key: value for key, value in entry.energies.items() if key[1] in part.actions}
        return ComponentFigures(_in_pj(known, part.bits, entry.source), area)

    def notes(self) -> tuple[str, ...]:
        """Nothing: entries speak for themselves."""
        return ()


def read_energy_table(body: Node, problems: Problems) -> ComponentTable | None:
    """Read what stands under `energy_table`, or return None with every mistake reported."""
    before = len(problems)
    table = Fields(body, problems, _TABLE)
    title = table.value("name", "")
    entries: list[ComponentEntry] = table.value("entries", [])
    return ComponentTable(title, tuple(entries)) if len(problems) == before and table.readable else None


@formed(forms.named(fields.text.form))
def read_attributes(node: Node, problems: Problems) -> dict[str, str] | None:
    """Read free attributes, each spelt in one way, so that `1 KiB` equals `1024 B`."""
    words = fields.mapping_of(fields.text)(node, problems)
    return None if words is None else {key: spelt(word) for key, word in words.items()}


_OF_ACCESSES = {
    "read": "read access",
    "write": "access that fills",
    "update": "access that stores a result from below",
    "transfer": "element to or from one child",
    "hop": "element over one link of a mesh",
}


def energy_key(action: str, default: str = "from the energy table") -> Key:
    """Key of the energy of one action: one value, or of what moves words one for each role."""
    units = forms.quantity(ENERGY_RATE_UNITS if action in _PER_BIT else ENERGY_UNITS)
    if action == "leak":
        return Key(node_of(units), "leakage of one instance per cycle", "none", "pJ")
    if action == "return":
        return Key(node_of(units), "energy per partial sum returned to a child", "as `transfer`", ENERGIES)
    if action == "compute":
        what = "energy per MAC, or one for each operand width"
        widths = forms.named(units, forms.quantity(SIZE_UNITS))
        return Key(node_of(forms.either(units, widths)), what, default, ENERGIES)
    if action not in _OF_ACCESSES:
        return Key(node_of(units), f"energy per {action.replace('_', ' ')}", "none", ENERGIES)
    what = f"energy per {_OF_ACCESSES[action]}"
    default = "as `write`" if action == "update" else default
    roles = by_role(node_of(units), f"{what},", default, ENERGIES)
    return Key(node_of(forms.either(units, keys_form(roles))), what, default, ENERGIES)


def own_energy_keys(actions: Iterable[str], default: str = "from the energy table") -> Keys:
    """Keys of the energies that stand at a component itself."""
    of = "energy comes" if len(tuple(actions)) == 1 else "energies come"
    source = Key(fields.text, f"where the {of} from", "file and line")
    return {**{action: energy_key(action, default) for action in actions}, "source": source}


COMPONENT: Keys = {
    "class": Key(
        fields.name,
        "component class in the energy table, such as SRAM",
        "none",
    ),
    "attributes": Key(read_attributes, "attributes that select the entry, such as `{type: LPDDR4}`", "none"),
    "technology": Key(fields.technology, "technology node", "of the architecture", "nm"),
}
AREA = Key(fields.area_um2, "area of one instance", "from the energy table", AREAS)
_ENERGIES: Keys = {**{action: energy_key(action) for action in _ACTIONS}, "compute": energy_key("compute", "none")}
_ATTRIBUTES = "values that the component must have: size, word, block_size, its attributes"
_ENTRY: Keys = {
    "class": Key(fields.name, "component class"),
    "technology": Key(fields.technology, "technology node that the component must have", "any", "nm"),
    "attributes": Key(read_attributes, _ATTRIBUTES, "none"),
    "energy": Key(node_of(keys_form(_ENERGIES)), "energies per access"),
    "area": Key(fields.area_um2, "area of one instance", "unknown", AREAS),
    "source": Key(fields.text, "where the entry comes from"),
}


@formed(keys_form(_ENTRY))
def _entry(node: Node, problems: Problems) -> ComponentEntry | None:
    before = len(problems)
    entry = Fields(node, problems, _ENTRY)
    component = entry.value("class", "")
    technology = entry.value("technology", "") or None
    attributes: dict[str, str] = entry.value("attributes", {})
    source = entry.value("source", "")
    area_um2 = entry.value("area", -1.0)
    entry.value("energy", None)
    energies = read_energies(entry.inner("energy", _ENERGIES), _ACTIONS)
    if len(problems) > before or not entry.readable:
        return None
    return ComponentEntry(component, technology, attributes, energies, source, None if area_um2 < 0 else area_um2)


_TABLE: Keys = {
    "name": Key(fields.name, "its name"),
    "entries": Key(fields.list_of(_entry), "entries; the matching one with most attributes is used"),
}
ENERGY_TABLE_FORM: Form = keys_form(_TABLE)
"""What may stand under `energy_table`, as JSON Schema."""


def spelt(word: str) -> str:
    """Return an attribute in the one spelling in which it is compared: a size in bits, anything else as it is.

    >>> spelt("1 KiB"), spelt("LPDDR4")
    ('8192 bit', 'LPDDR4')
    """
    if not re.match(r"[0-9]", word):
        return word
    try:
        return f"{parse_size_bits(word)} bit"
    except QuantityError:
        return word


def read_energies(energy: Fields, actions: Iterable[str]) -> Written:
    """Read energies by (role, action); what moves words has one value, or one for each role."""
    found: Written = {}
    for action in actions:
        node = energy.get(action)
        if node is None or energy.problems.unreadable(node):
            continue
        if isinstance(node, MapNode) and action in _BY_ROLE:
            by_role = Fields(node, energy.problems, ROLES)
            values = {(role, action): _energy(by_role.get(role), action, energy.problems) for role in ROLES}
        elif isinstance(node, MapNode) and action == "compute":
            values = _by_width(node, energy.problems)
        else:
            values = {("*", action): _energy(node, action, energy.problems)}
        found |= {key: value for key, value in values.items() if value is not None}
    return found


def _by_width(node: MapNode, problems: Problems) -> dict[tuple[str, str], Energy | None]:
    """Read energies of multiply-accumulates by the width of their operands; that of the widest stands for all."""
    found: dict[int, Energy | None] = {}
    for key, each in node.entries.items():
        try:
            bits = parse_positive_size_bits(key)
        except QuantityError as error:
            problems.add(node.key_marks[key], f"{node.path}: {error.what}", error.hint)
            continue
        if bits in found:
            problems.add(node.key_marks[key], f"{node.path}: a second energy for {bits} bit")
        found[bits] = _energy(each, "compute", problems)
    if not node.entries:
        problems.add(node, "expected an energy, or one for each width such as `8 bit`, got an empty mapping")
    widest = {("*", "compute"): found[max(found)]} if found else {}
    return {**{(f"{bits} bit", "compute"): value for bits, value in found.items()}, **widest}


def _energy(node: Node | None, action: str, problems: Problems) -> Energy | None:
    """Read one energy; only actions that move words have one for each bit."""
    if node is None or problems.unreadable(node):
        return None
    if not isinstance(node, ScalarNode) or node.empty:
        problems.add(node, f"expected an energy like '0.8 pJ', got {describe(node)}")
        return None
    value = fields.energy(node, problems)
    if value is not None and value.per_bit and action not in _PER_BIT:
        problems.add(node, f"'{action}' has no energy per bit", "write it in pJ")
        return None
    return value


def read_component(
    part: Fields, estimator: Estimator | None, as_part: Component, own_only: tuple[str, ...] = ()
) -> ComponentFigures:
    """Energies [pJ] of a level, a network or the compute units by (role, action), and area: own, else found.

    `part` is written with class, technology, attributes, energy and area; `as_part` is the rest of it as the estimator,
    that of the architecture, sees it. No estimator gives energies of the actions in `own_only`. The source of what
    stands in the file itself is by default its file and line.
    """
    own: dict[tuple[str, str], EnergyEntry] = {}
    node, actions = part.get("energy"), (*as_part.actions, *own_only)
    if node is not None and not part.problems.unreadable(node):
        energy = Fields(node, part.problems, own_energy_keys(actions))
        own = _in_pj(read_energies(energy, actions), as_part.bits, energy.value("source", _place(node)))
    node, area_um2 = part.get("area"), part.optional("area", fields.area_um2, -1.0)
    area = None if node is None or area_um2 < 0 else AreaEntry(area_um2, _place(node))
    component = part.get("class")
    if estimator is None or not isinstance(component, ScalarNode):
        return ComponentFigures(own, area)
    requested = _requested(part, as_part)
    if requested is None:
        return ComponentFigures(own, area)
    given = {action for _, action in own}
    if "write" in given:  # an update is as the write that stands beside it, not as the table's update
        given.add("update")
    found = estimator.find(replace(requested, actions=tuple(a for a in requested.actions if a not in given)))
    for what, hint in found.problems:
        part.problems.add(component, what, hint)
    inherited = {key: entry for key, entry in found.energies.items() if key[1] not in given}
    return ComponentFigures(own | inherited, area or found.area)


def _requested(part: Fields, as_part: Component) -> Component | None:
    """Component as an estimator sees it; None if it is not written as it must be."""
    before, component = len(part.problems), part.get("class")
    attributes: dict[str, str] = part.value("attributes", {})
    technology = part.value("technology", as_part.technology)
    if len(part.problems) > before or not isinstance(component, ScalarNode):
        return None
    attributes = {**_own_attributes(part), **attributes}
    return replace(as_part, component=component.text, technology=technology, attributes=attributes)


_OPERAND = re.compile(r"(int|fp|bf|tf|)([1-9][0-9]?)( bit|)")
_WIDTHS = (8, 16, 32)
"""Of wider operands [bit], which the estimator is asked about."""


def read_mac(
    part: Fields, estimator: Estimator | None, as_part: Component, own_only: tuple[str, ...]
) -> tuple[ComponentFigures, int]:
    """As `read_component`, of units that multiply and add; and the bits of the operands that they are made for.

    These are what `format` or `bits` of the attributes says, 0 if neither is there or the energy is given. Operands
    that are wider take what units of their width take, where the estimator knows that.
    """
    before, found = len(part.problems), read_component(part, estimator, as_part, own_only)
    requested = _requested(part, as_part) if len(part.problems) == before else None
    if requested is None or "energy" in part:  # which holds for all words, or says for which
        return found, 0
    attributes, entry = requested.attributes, found.energies.get(("*", "compute"))
    key = "format" if "format" in attributes else "bits"
    named = _OPERAND.fullmatch(attributes.get(key, ""))
    if named is None or entry is None:
        return found, 0
    kind, bits, unit = named[1].replace("bf", "fp").replace("tf", "fp"), int(named[2]), named[3]
    energies = {**found.energies, (f"{bits} bit", "compute"): entry}
    for width in _WIDTHS:
        if width > bits and estimator is not None:
            wider = replace(requested, attributes={**attributes, key: f"{kind}{width}{unit}"})
            other = estimator.find(wider).energies.get(("*", "compute"))
            if other is not None and other.energy_pj != entry.energy_pj:
                energies[f"{width} bit", "compute"] = other
    return replace(found, energies=energies), bits


def _place(node: Node) -> str:
    """File and line of a value that is its own source."""
    return f"{Path(node.mark.file).name}:{node.mark.line}"


def _in_pj(
    energies: Mapping[tuple[str, str], Energy], bits: Mapping[str, int], source: str
) -> dict[tuple[str, str], EnergyEntry]:
    found = {}
    for key, energy in energies.items():
        moved = bits.get(key[1], 0)
        formula = f"{float(energy.pj):g} pJ/bit x {moved} bit" if energy.per_bit else ""
        found[key] = EnergyEntry(energy.of_action_pj(moved), source, formula)
    return found


def _own_attributes(part: Fields) -> dict[str, str]:
    """Size, word and block size as attributes; a partitioned size is the sum of its partitions."""
    given = {key: part.get(key) for key in ("size", "word", "block_size")}
    found = {key: spelt(node.text) for key, node in given.items() if isinstance(node, ScalarNode)}
    size = given["size"]
    if isinstance(size, MapNode):
        quiet = Problems()  # a wrong size is reported where the level is read
        partitions = [fields.size_bits(node, quiet) for node in size.entries.values()]
        found["size"] = f"{sum(bits or 0 for bits in partitions)} bit"
    return found


@dataclass(frozen=True, slots=True)
class PartFigures:
    """What the parts of a machine must know to find their energies, and what they cost as far as they are read.

    `given`: the machine names an estimator, perhaps one that could not be read. `sized` are sizes that energies are of.
    """

    clock_hz: Fraction | None
    technology: str
    estimator: Estimator | None
    given: bool
    energies: dict[tuple[str, str, str], EnergyEntry] = field(default_factory=dict)
    areas: dict[str, AreaEntry] = field(default_factory=dict)
    sized: dict[str, Any] = field(default_factory=dict)

    def part(self, name: str, actions: tuple[str, ...], bits: Mapping[str, int]) -> Component:
        """Component of this machine; the class and the rest of it stand in the file."""
        clock_hz = None if self.clock_hz is None else float(self.clock_hz)
        return Component(name, "", self.technology, {}, actions, bits, {}, clock_hz)

    def take(self, name: str, figures: ComponentFigures) -> None:
        """Take up what a part of that name costs."""
        self.energies.update({(name, *key): entry for key, entry in figures.energies.items()})
        self.areas.update({name: figures.area} if figures.area else {})

    def check(self, part: Fields, name: str, needed: list[tuple[str, str]]) -> None:
        """Report each action that needs an energy and has none."""
        if self.given and self.estimator is None:  # it could not be read, which is reported already
            return
        table, estimator = EnergyTable(self.energies), self.estimator
        missing = [(role, action) for role, action in needed if table.find(name, role, action) is None]
        for action in dict.fromkeys(action for _, action in missing):
            roles = [role for role, its_action in missing if its_action == action]
            whose = "" if roles in (["*"], list(ROLES)) else f" of {listed(roles)}"
            why = f"the energy table '{estimator.name}' has none either" if estimator else "there is no energy table"
            hint = f"add `energy: {{{action}: … pJ}}`"
            if estimator and "class" not in part:
                why = f"no `class` to find it by in the energy table '{estimator.name}'"
                hint = f"add `class: …`, or `energy: {{{action}: … pJ}}`"
            what = f"no energy for '{action}'{whose} here, and {why}"
            if not estimator:
                hint += ", or `energy_table: components` to the architecture for estimates of all parts"
            if action == "transfer":
                hint = "give the `fanout` a `class` (wire, network), or `energy: {transfer: 0 pJ, source: …}`"
            part.problems.add(part.node, what, hint)
