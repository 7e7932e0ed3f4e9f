"""Where an architecture's energies and areas come from: an energy table, component models, or other tools.

Energies from an Accelergy energy reference table (ERT.yaml) and areas from an area reference table (ART.yaml).

The tables name components by their place, such as `system.chip.PE[1..16].buffer` or `system.GLB[1..1]`. The last part,
without its range, is matched with the names of levels and of the compute units; `rename` says of those that are called
otherwise what they are called in the tables. A network is matched by the `class` of its fanout.

Energies and areas by the models of the package `hwcomponents` (CACTI, converters, a library of published designs).

The class of a part is the name of one of its components. The models get the node as `tech_node` [m], the size [bit] and
the width of an access [bit] of a level, and every attribute; from these they take what they know.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar
from warnings import catch_warnings

from accelsim.inputs import fields, library
from accelsim.inputs.energies import (
    ACCELERGY,
    AreaEntry,
    Component,
    ComponentFigures,
    ComponentTable,
    EnergyEntry,
    Estimator,
    read_energy_table,
)
from accelsim.inputs.errors import AccelsimError, Problem
from accelsim.inputs.fields import Fields
from accelsim.inputs.source import (
    ListNode,
    MapNode,
    Node,
    Problems,
    ScalarNode,
    compose_file,
    describe,
    read_text,
)
from accelsim.inputs.units import QuantityError, listed, near_miss, parse_size_bits

COMPONENTS = "components"
HWCOMPONENTS = "hwcomponents"


def open_estimator(node: Node | None, beside: Path, problems: Problems) -> Estimator | None:
    """Read what an architecture names as its `energy_table`.

    A name: of the component models (`components`), of the package `hwcomponents`, of an estimator that another package
    brings, or of an energy table (a path relative to the architecture's file, or a shipped one). A mapping: an
    Accelergy ERT and ART.
    """
    if node is None or problems.unreadable(node):
        return None
    if isinstance(node, MapNode):
        return _read_tables(Fields(node, problems, ACCELERGY), beside)
    name = fields.text(node, problems)
    if name == COMPONENTS:
        from accelsim.energy.components import ComponentModels

        return ComponentModels()
    if name == HWCOMPONENTS:
        try:
            return open_hwcomponents()
        except AccelsimError as error:
            problems.add(node, str(error), "`pip install 'accelsim[hwcomponents]'`, or use `components`")
            return None
    if name is None:
        return None
    if not (beside.parent / name).is_file() and library.find(name, "energy_tables") is None:
        from accelsim.inputs import plugins

        if name in plugins.installed(plugins.ESTIMATORS):
            return PluginEstimator(name)
    return _energy_table(name, node, beside, problems)


def _energy_table(name: str, node: Node, beside: Path, problems: Problems) -> ComponentTable | None:
    """Read an energy table: a path relative to the architecture's file, or a shipped name."""
    try:
        path = beside.parent / name
        path = path if path.is_file() else library.resolve(name, "energy_tables")
    except AccelsimError as error:
        problems.add(node, str(error))
        return None
    except (OSError, ValueError) as error:
        problems.add(node, f"cannot be read: {error}")
        return None
    text = read_text(path, problems)
    if text is None:
        return None
    table, mistakes = _read_table(text, str(path))
    problems.found.extend(mistakes)
    return table


@lru_cache(maxsize=16)
def _read_table(text: str, path: str) -> tuple[ComponentTable | None, tuple[Problem, ...]]:
    """An energy table, which nobody changes, and its mistakes; the designs of a sweep have one."""
    problems = Problems()
    document = fields.open_document(path, "energy_table", {}, problems, text)
    return read_energy_table(document.body, problems) if document else None, tuple(problems.found)


def _read_tables(written: Fields, beside: Path) -> Estimator | None:
    ert, art = written.value("ert", ""), written.value("art", "")
    rename: dict[str, str] = written.value("rename", {})
    if not ert:
        return None
    absent = [(key, name) for key, name in (("ert", ert), ("art", art)) if name and not (beside.parent / name).exists()]
    for key, name in absent:
        written.problems.add(written.entries[key], f"{name}: no such file")
    if absent:
        return None
    return read_accelergy(beside.parent / ert, beside.parent / art if art else None, rename, written.problems)


_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "read": ("read",),
    "write": ("write",),
    "update": ("update",),
    "leak": ("leak", "idle"),
    "compute": ("compute", "mac", "mac_random", "multiply", "mult_random"),
    "transfer": ("transfer", "transfer_random"),
}
"""Names in the tables of each of our actions, the first one found."""


@dataclass(frozen=True, slots=True)
class _ReferenceTable:
    """Rows of a component by action, each an energy [pJ] and its arguments, or its area [um2]."""

    place: str
    line: int
    actions: Mapping[str, list[tuple[float, str]]] = field(default_factory=dict)
    area_um2: float | None = None

    @property
    def name(self) -> str:
        """Last part of its place, without a range."""
        return _bare(self.place).split(".")[-1]


@dataclass(frozen=True, slots=True)
class Accelergy:
    """An ERT, whose file's name is its own, and an ART where there is one."""

    name: str
    tables: tuple[_ReferenceTable, ...]
    art: str
    areas: tuple[_ReferenceTable, ...]
    rename: Mapping[str, str]
    matched: set[str] = field(default_factory=set)
    requested: set[str] = field(default_factory=set)
    complete: ClassVar[bool] = False

    def find(self, part: Component) -> ComponentFigures:
        """Energies and area of the component of that name."""
        self.requested.add(part.name)
        network = "transfer" in part.actions
        called = self.rename.get(part.name, part.component if network else part.name)
        try:
            table, area = _one(self.tables, called, self.name), _one(self.areas, called, self.art)
        except AccelsimError as error:
            hint = f"write `rename: {{{part.name}: …}}` with the whole place"
            return ComponentFigures(problems=((str(error), hint),))
        if table is None and part.actions:
            names = [table.name for table in self.tables]
            hint = near_miss(called, names) or f"components there: {listed(dict.fromkeys(names))}."
            what = f"{self.name} has no component '{called}'"
            return ComponentFigures(problems=((what, f"{hint} Or write `rename`"),))
        if table is None:
            return ComponentFigures()
        self.matched.add(table.place)
        found = {("*", action): _entry(table, action, self.name) for action in part.actions}
        energies = {key: entry for key, entry in found.items() if entry is not None}
        known = None if area is None else area.area_um2
        return ComponentFigures(energies, None if known is None else AreaEntry(known, f"{self.art}: {called}"))

    def notes(self) -> tuple[str, ...]:
        """Components of the ERT that no part of the machine is called like, and what `rename` says of no part."""
        rest = [table.place for table in self.tables if table.place not in self.matched]
        idle = [name for name in self.rename if name not in self.requested]
        return (
            *([f"{self.name}: not matched with any part of the machine: {listed(rest)}"] if rest else ()),
            *([f"`rename`: no part of the machine is called {listed(idle)}"] if idle else ()),
        )


def _bare(place: str) -> str:
    return re.sub(r"\[[^\]]*\]", "", place)


def _one(tables: tuple[_ReferenceTable, ...], called: str, file: str) -> _ReferenceTable | None:
    """Table of a component by its whole place, or by the last part of it."""
    whole = [table for table in tables if called in (table.place, _bare(table.place))]
    found = whole or [table for table in tables if table.name == called]
    if len(found) > 1:
        raise AccelsimError(f"{file} has several components '{called}': {listed(table.place for table in found)}")
    return found[0] if found else None


def _entry(table: _ReferenceTable, action: str, file: str) -> EnergyEntry | None:
    """Energy of an action: of several rows with arguments, the largest, which is that of random data."""
    called = next((name for name in _ACTIONS[action] if name in table.actions), None)
    if called is None:
        return None
    rows = table.actions[called]
    energy_pj, arguments = max(rows, key=lambda row: row[0])
    formula = f"{called}{arguments}, the largest of {len(rows)}" if len(rows) > 1 else called
    return EnergyEntry(energy_pj, f"{file}:{table.line}", formula)


def read_accelergy(ert: Path, art: Path | None, rename: Mapping[str, str], problems: Problems) -> Accelergy | None:
    """Read an ERT and, if there is one, an ART; None with every mistake reported."""
    before = len(problems)
    tables = _tables(ert, "ERT", problems)
    areas = _tables(art, "ART", problems) if art else []
    if len(problems) > before:
        return None
    return Accelergy(ert.name, tuple(tables), art.name if art else "", tuple(areas), rename)


def _tables(path: Path, kind: str, problems: Problems) -> list[_ReferenceTable]:
    """Read `KIND: {version, tables: [...]}`."""
    root = compose_file(path, problems)
    if root is None:
        return []
    body = root.entries.get(kind) if isinstance(root, MapNode) else None
    if not isinstance(body, MapNode):
        summary = isinstance(root, MapNode) and f"{kind}_summary" in root.entries
        hint = f"this is a summary; give {kind}.yaml" if summary else f"expected `{kind}: {{version: …, tables: […]}}`"
        problems.add(root, f"not an Accelergy {kind}", hint)
        return []
    tables = body.entries.get("tables")
    if not isinstance(tables, ListNode):
        problems.add(body, f"expected a list of tables, got {describe(tables) if tables else 'nothing'}")
        return []
    found = [_table(node, kind, problems) for node in tables.items]
    return [table for table in found if table is not None]


def _table(node: Node, kind: str, problems: Problems) -> _ReferenceTable | None:
    """Read one table: a name, and actions or an area."""
    name = node.entries.get("name") if isinstance(node, MapNode) else None
    if not isinstance(node, MapNode) or not isinstance(name, ScalarNode):
        problems.add(node, "expected a table with a `name`")
        return None
    if kind == "ART":
        return _ReferenceTable(name.text, node.mark.line, {}, _number(node.entries.get("area"), node, "area", problems))
    actions = node.entries.get("actions")
    if not isinstance(actions, ListNode):
        problems.add(node, "expected a list of `actions`")
        return None
    rows: dict[str, list[tuple[float, str]]] = {}
    for action in actions.items:
        called = action.entries.get("name") if isinstance(action, MapNode) else None
        if not isinstance(action, MapNode) or not isinstance(called, ScalarNode):
            problems.add(action, "expected an action with a `name` and an `energy`")
            continue
        energy_pj = _number(action.entries.get("energy"), action, "energy", problems)
        if energy_pj is not None:
            given = action.entries.get("arguments")
            each = given.entries if isinstance(given, MapNode) else {}
            words = listed(f"{key}={value.text}" for key, value in each.items() if isinstance(value, ScalarNode))
            rows.setdefault(called.text, []).append((energy_pj, f" ({words})" if each else ""))
    return _ReferenceTable(name.text, node.mark.line, rows)


def _number(node: Node | None, around: Node, key: str, problems: Problems) -> float | None:
    try:
        value = float(node.text) if isinstance(node, ScalarNode) else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        got = describe(node) if node is not None else "nothing"
        problems.add(node or around, f"'{key}': expected a number from 0 on, got {got}")
        return None
    return value


COMPUTES = ("compute", "mac", "multiply", "add", "read", "convert")
"""Actions of a compute unit in the order in which they are looked for; `attributes: {action: …}` names another."""
_LONGEST = 400
"""Letters of what the package says that are passed on, at most; paths in it are long."""


@dataclass(frozen=True, slots=True)
class PartCosts:
    """Energy [J] and rate [1/s] of each action of a part, leakage [W], area [m2] of an instance, and their model."""

    joule: Mapping[str, float]
    rate_hz: Mapping[str, float]
    leak_watt: float
    area_m2: float
    source: str


@dataclass(frozen=True, slots=True)
class Hwcomponents:
    """The installed models; `get_model` is that of the package."""

    get_model: Callable[..., Any]
    release: str
    name: str = "hwcomponents"
    complete: ClassVar[bool] = False

    def find(self, part: Component) -> ComponentFigures:
        """Energies and area of a part by the model that the package chooses for it."""
        attributes = _attributes(part)
        compute_action = attributes.pop("action", None)
        try:
            model = self.get_model(part.component, attributes)
            return self._ask(part, model, compute_action)
        except Exception as error:  # the models raise errors of many kinds
            hint = "`hwc --list` shows what the components take"
            return ComponentFigures(problems=((_no_figure(part.component, error), hint),))

    def costs(self, component: str, attributes: Mapping[str, Any], bits: Mapping[str, float]) -> PartCosts:
        """Costs of a part whose actions move some bits each; raises AccelsimError if no model has them."""
        try:
            with catch_warnings(action="ignore"):
                model = self.get_model(component, dict(attributes), required_actions=[*bits])
                each = {
                    action: model.try_call_arbitrary_action(action, **attributes, bits_per_action=many)
                    for action, many in bits.items()
                }
            joule = {action: float(cost.energy) for action, cost in each.items()}
            rate_hz = {action: float(cost.throughput) for action, cost in each.items()}
            return PartCosts(joule, rate_hz, float(model.leak_power), float(model.area), self._source(model))
        except Exception as error:  # the models raise errors of many kinds
            raise AccelsimError(_no_figure(component, error)) from None

    def _source(self, model: Any) -> str:
        return f"hwcomponents {self.release}, model {type(model).__name__}"

    def _ask(self, part: Component, model: Any, compute_action: Any) -> ComponentFigures:
        source = self._source(model)
        known = model.get_action_names()
        energies = {}
        for action in part.actions:
            if action == "leak":
                if part.clock_hz is not None:
                    watt = float(model.leak_power)
                    formula = f"{watt * 1e3:.4g} mW / {part.clock_hz / 1e6:g} MHz"
                    energies["*", action] = EnergyEntry(watt * 1e12 / part.clock_hz, source, formula)
                continue
            called = {"update": "write"}.get(action, action)
            if action == "compute":
                called = str(compute_action or next((name for name in COMPUTES if name in known), called))
            if called not in known:
                raise AccelsimError(f"its model has no action '{called}', only {listed(known)}")
            pj = float(getattr(model, called)().energy) * 1e12
            energies["*", action] = EnergyEntry(pj, source, f"action {called}")
        return ComponentFigures(energies, AreaEntry(float(model.area) * 1e12, source))

    def notes(self) -> tuple[str, ...]:
        """Nothing: the models name themselves."""
        return ()


@dataclass(frozen=True, slots=True)
class PluginEstimator:
    """A function of another package: of a component, energies [pJ] by action, and `area` [um2]."""

    name: str
    complete: ClassVar[bool] = False

    def find(self, part: Component) -> ComponentFigures:
        """Energies and area of a part, as far as the function knows them."""
        from accelsim.inputs import plugins

        source = plugins.source_of(plugins.ESTIMATORS, self.name)
        try:
            estimate = plugins.load_plugin(plugins.ESTIMATORS, self.name)
            found = plugins.guarded(
                plugins.ESTIMATORS, self.name, lambda: {k: float(v) for k, v in estimate(part).items()}
            )
        except AccelsimError as error:
            return ComponentFigures(problems=((str(error), "give `energy` at the component"),))
        wrong = [f"{key}: {value}" for key, value in found.items() if not 0.0 <= value < math.inf]
        if wrong:
            what = f"{self.name} (of {source}) gives no energy or area for '{part.component}': {listed(wrong)}"
            return ComponentFigures(problems=((what, "numbers from 0 on are expected"),))
        energies = {("*", action): EnergyEntry(found[action], source, "") for action in part.actions if action in found}
        return ComponentFigures(energies, AreaEntry(found["area"], source) if "area" in found else None)

    def notes(self) -> tuple[str, ...]:
        """Nothing: each source names the package."""
        return ()


def open_hwcomponents() -> Hwcomponents:
    """Find the package; raises AccelsimError if it is not installed, with what to do."""
    try:
        from importlib.metadata import version

        from hwcomponents import get_model
    except (ImportError, SyntaxError):
        needs = "" if sys.version_info >= (3, 12) else "; it needs Python 3.12 or newer"
        raise AccelsimError(f"hwcomponents is not installed{needs}") from None
    return Hwcomponents(get_model, version("hwcomponents"))


def _no_figure(component: str, error: Exception) -> str:
    """What went wrong in a model: the package tells it inside the log of all that it tried, or first of all."""
    lines = [line.strip("| \t") for line in str(error).splitlines()]
    reason = next((line for line in lines if re.match(r"\w*(Error|Exception): |Argument for ", line)), "")
    reason = reason or next(filter(None, lines), type(error).__name__)
    reason = reason.partition(" Supported components:")[0][:_LONGEST].rstrip(".:")
    return f"hwcomponents has no figure for the class '{component}': {reason}"


def _attributes(part: Component) -> dict[str, Any]:
    """Attributes as the models take them: sizes in bits, numbers as numbers, the node in metres."""
    given = {key: text for key, text in part.attributes.items() if key not in ("word", "block_size")}
    found: dict[str, Any] = {key: _plain(text) for key, text in given.items()}
    if part.technology and "tech_node" not in found:
        found["tech_node"] = float(part.technology.removesuffix(" nm")) / 1e9
    access = next((bits for bits in part.bits.values() if bits), None)
    if access is not None:
        found.setdefault("width", access)
    return found


def _plain(text: str) -> Any:
    for read in (parse_size_bits, int, float):
        with suppress(ValueError, QuantityError):
            return read(text)
    return text
