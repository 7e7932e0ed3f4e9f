"""Sweep files: which machine, which networks, which parameters, what is wanted, and how designs are chosen."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from os import PathLike
from pathlib import Path

from accelsim.designs import checking
from accelsim.designs.checking import File, Network, Parameter, find_file
from accelsim.inputs import expression, fields, forms, library
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.constraints_reader import read_constraints
from accelsim.inputs.errors import AccelsimError, Mark
from accelsim.inputs.expression import POWER_UNITS, Expression, ExpressionError, Value
from accelsim.inputs.fields import Fields, Formed, Key, Keys, keys_form, node_of
from accelsim.inputs.forms import Form
from accelsim.inputs.objective import Objective
from accelsim.inputs.params import parameter_names
from accelsim.inputs.source import ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import AREA_UNITS, AREAS, listed, near_miss, quoted
from accelsim.inputs.workload import read_factors
from accelsim.results.cache import MAPSPACES, MapOptions

SETTINGS = fields.mapping_of(fields.scalar(forms.text(), lambda text: text.strip() or None, "one value"))
"""Reader of parameters with one value each."""


def _above_zero(kind: str, text: str) -> float | None:
    """Number or quantity of a kind, above 0, in its base unit."""
    value, found = expression.quantity(text)
    return float(value) if found == kind and isinstance(value, Fraction) and value > 0 else None


def _most(kind: str, example: str, known: Iterable[str]) -> Formed[float]:
    """Reader of a budget, such as an area, in its base unit."""
    expected, hint = f"{expression.named(kind)} above 0", f"write it like '{example}'"
    return fields.scalar(forms.quantity(known), partial(_above_zero, kind), expected, hint)


positive = fields.scalar(forms.fraction(1e9), partial(_above_zero, expression.NUMBER), "a number above 0")
BUDGETS: Keys = {
    "area": Key(_most("area", "5 mm2", AREA_UNITS), "larger design points are not mapped", "none", AREAS),
    "power": Key(
        _most("power", "300 mW", POWER_UNITS), "design points above it are not on the Pareto front", "none", "mW, W"
    ),
}


def read_expression(
    node: Node | None, kinds: Mapping[str, str], problems: Problems, *, area: bool = False
) -> Expression | None:
    """Read a condition, or a formula of an area."""
    if node is None or problems.unreadable(node):
        return None
    if not isinstance(node, ScalarNode) or node.empty:
        problems.add(node, f"expected {'a formula' if area else 'a condition'}, got {describe(node)}")
        return None
    try:
        found = expression.parse(node.text, kinds) if area else expression.condition(node.text, kinds)
        if area and found.kind not in ("area", expression.MIXED):
            what = f"{quoted(node.text)} is {expression.named(found.kind)}, not an area"
            raise ExpressionError(what, 0, "such as pe.x * 0.02 mm2")
    except ExpressionError as error:
        mark = type(node.mark)(node.mark.file, node.mark.line, node.mark.column + error.at)
        problems.add(mark, f"{node.path}: {error.what}", error.hint)
        return None
    return found


def refuse_no_area(area: Expression, node: Node, first: Mapping[str, Value], problems: Problems) -> None:
    """Report a formula of the area that fails for the first values of all parameters."""
    try:
        value = area.value(first)
    except ExpressionError as error:
        problems.add(node, error.what)
        return
    if isinstance(value, Fraction) and value <= 0:
        problems.add(node, "the area of the first design is not above 0")


def entries_of(node: Node | None) -> Mapping[str, Node]:
    """Entries of a mapping; none where it is something else."""
    return node.entries if isinstance(node, MapNode) else {}


STRATEGIES = ("grid", "random", "optuna")
COLUMNS = {
    "energy": "energy_pj", "cycles": "cycles", "time": "time_s", "edp": "edp_pj_cycles", "power": "power_w",
    "area": "area_um2",
}  # fmt: skip
"""Column of the table of designs for each objective."""
OBJECTIVES = tuple(COLUMNS)
"""What a design may be judged by; the smaller the better."""


@dataclass(frozen=True, slots=True)
class Mapper:
    """What is asked of the mapper for each layer."""

    options: MapOptions
    seconds: float | None = None
    constraints: Constraints | None = None
    constraints_file: File | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """What to explore."""

    name: str
    file: File
    architecture: File
    fixed: Mapping[str, str]  # parameters of the architecture that the sweep gives one value
    # these, and the parameters that the architecture file itself, or all workloads, give their value
    constants: Mapping[str, str]
    networks: tuple[Network, ...]
    parameters: tuple[Parameter, ...]
    conditions: tuple[Expression, ...]
    # area [um2] of a design as a formula of its parameters, where the architecture does not tell it
    area: Expression | None
    # budgets; infinite: none
    most_area_um2: float
    most_power_w: float
    objectives: tuple[str, ...]
    per: str  # what totals are divided by, such as `frames`: as many as a run of each network yields; empty: a run
    strategy: str
    designs: int | None  # how many designs random or multi-objective search look at
    seed: int
    prune: bool
    joint: bool  # the front is over designs and mappings together
    within: float  # by which share more energy and cycles than those of a mapping a point of the joint front may have
    wave: int  # designs that are decided together. Results do not depend on the number of workers, but they may on this
    mapper: Mapper
    # where conditions, budgets and objectives stand, as `conditions`, `conditions[0]`, `budgets.area`
    places: Mapping[str, Mark]

    @property
    def grid(self) -> int:
        """Combinations of values, conditions apart."""
        return math.prod(len(parameter.values) for parameter in self.parameters)


_NETWORK: Keys = {
    "workload": Key(fields.text, "name or path"),
    "weight": Key(positive, "weight in totals", "1"),
    "layers": Key(fields.list_of(fields.name), "only these layers", "those with MACs"),
    "all_layers": Key(fields.boolean, "count layers without MACs too: each point as a MAC", "false"),
    "set": Key(SETTINGS, "fixed parameters of the workload", "none"),
}
_MAPPER: Keys = {
    "objective": Key(fields.text, "objective of the mapper, as `map --objective`", "suits `objectives`"),
    "mapspace": Key(fields.one_of(tuple(MAPSPACES), "a map space"), "as `map --mapspace`", "auto"),
    "factors": Key(fields.parsed(forms.text(), read_factors), "as `map --factors`, such as `imperfect:M,K`", "auto"),
    "time_limit": Key(positive, "time limit for each layer", "none", "s"),
    "constraints": Key(fields.text, "constraints for all layers: a file or name", "none"),
}
_WORKLOADS = fields.items_of(forms.either(fields.text.form, keys_form(_NETWORK)), "workloads", least=1)
_TOP: Keys = {
    "name": Key(fields.name, "name of the sweep, its plots and folder", "that of the file"),
    "architecture": Key(fields.text, "name, or path relative to this file"),
    "set": Key(SETTINGS, "fixed parameters of the architecture", "none"),
    "workloads": Key(_WORKLOADS, "workloads: name, path or mapping"),
    "parameters": Key(
        node_of(forms.named(checking.VALUES_FORM)),
        "swept parameters of architecture or workloads: a list of values, or a range",
    ),
    "conditions": Key(
        fields.items_of(forms.text(), "conditions"),
        "conditions on design points, such as `pe.x * pe.y <= 256`",
        "none",
    ),
    "area": Key(node_of(forms.text()), "area as a formula of the parameters", "of the architecture", AREAS),
    "budgets": Key(node_of(keys_form(BUDGETS)), "limits of area and power", "none"),
    "objectives": Key(
        fields.set_of(fields.one_of(OBJECTIVES, "an objective")),
        "objectives of the Pareto front",
        "energy, cycles",
    ),
    "per": Key(fields.name, "unit of the totals: a key of `yields`, such as `frames`", "a run"),
    "strategy": Key(fields.one_of(STRATEGIES, "a strategy"), "which design points to evaluate", "grid"),
    "designs": Key(fields.positive_int, "design points of `random` and `optuna`", "required with them"),
    "seed": Key(fields.count, "seed of `random` and `optuna`", "0"),
    "wave": Key(fields.positive_int, "design points decided together, before their results count", "16"),
    "prune": Key(fields.boolean, "prune design points proved to be dominated", "false"),
    "joint": Key(fields.boolean, "proved Pareto front over designs and mappings together", "false"),
    "within": Key(fields.share, "tolerance of a joint front", "0", "0 to 1"),
    "map": Key(node_of(keys_form(_MAPPER)), "options of the mapper", "suits `objectives`"),
}
SWEEP_FORM: Form = keys_form(_TOP)
"""What may stand under `sweep`, as JSON Schema."""


def load_sweep(path: str | PathLike[str], *, joint: bool = False, within: float | None = None) -> Sweep:
    """Read a sweep file and the files that it names.

    `joint` and `within` are as if the file said so.

    Raises
    ------
    InputError
        With every mistake and its place.
    """
    problems = Problems()
    found = library.find(path, "sweeps")
    document = fields.open_document(found or path, "sweep", None, problems)
    return problems.result(
        read_sweep(document.body, File(str(path), Path(found or path)), problems, joint=joint, within=within)
        if document
        else None
    )


def read_sweep(
    body: Node, file: File, problems: Problems, *, joint: bool = False, within: float | None = None
) -> Sweep | None:
    """Read what stands under `sweep`, or return None with every mistake reported."""
    before = len(problems)
    top = Fields(body, problems, _TOP)
    named = top.value("name", file.path.stem)
    given = top.value("architecture", "")
    architecture = checking.find_architecture(given, top.get("architecture"), file.path, problems) if given else None
    workloads: ListNode | None = top.value("workloads", None)
    networks = checking.read_networks(workloads.items if workloads else (), file.path, problems, _NETWORK)
    parameters = _parameters(top)
    fixed: dict[str, str] = top.value("set", {})
    _refuse_unknown(top, architecture, networks, parameters, fixed)
    constants = {} if architecture is None else checking.constant_values(architecture, fixed, networks)
    kinds = {name: expression.quantity(text)[1] for name, text in constants.items()}
    kinds |= {parameter.name: parameter.kind for parameter in parameters}
    sure = len(problems) == before  # a mistake in a name is reported once
    written: ListNode | None = top.value("conditions", None)
    several = [read_expression(item, kinds, problems) for item in written.items] if written and sure else []
    own = parameter_names(architecture.path) if architecture is not None else frozenset()
    of_machine = {name: kind for name, kind in kinds.items() if name in own}
    area = read_expression(top.get("area"), of_machine, problems, area=True) if sure else None
    budgets = top.inner("budgets", BUDGETS)
    most_area, most_power = (budgets.value(key, math.inf) for key in BUDGETS)
    objectives: frozenset[str] = top.value("objectives", frozenset({"energy", "cycles"}))
    node = top.get("objectives")
    if isinstance(node, ListNode) and not node.items:
        problems.add(node, "a sweep needs an objective", f"write some of {listed(OBJECTIVES)}")
    per = top.value("per", "")
    if per:
        checking.refuse_no_yield(per, networks, top.entries["per"], problems)
    strategy = top.value("strategy", "grid")
    designs: int | None = top.value("designs", 0) or None
    if strategy == "grid" and designs is not None:
        top.wrong("designs", "a grid has as many designs as its values make", "write `strategy: random`")
    if strategy != "grid" and designs is None and "designs" not in top:
        problems.add(top.get("strategy") or body, f"'designs' is missing beside 'strategy: {strategy}'", "say how many")
    prune = top.value("prune", False)
    if prune and "power" in objectives:
        top.wrong("prune", "no bound of the power is known before mapping", "leave `power` or `prune` out")
    joint = top.value("joint", False) or joint
    share = float(top.value("within", 0.0)) if within is None else within
    if share > 1:
        problems.add(body, f"within {share:g} of a point is no share", "give one from 0 to 1, such as 1%")
    _refuse_not_joint(top, body, objectives, strategy, joint=joint, share=share)
    mapper = _mapper(top, objectives, file.path, joint=joint)
    if sure and architecture is not None:
        read = checking.check_values(architecture, networks, top.entries["parameters"], parameters, fixed, problems)
    if len(problems) == before and architecture is not None:
        requested = {**{name: top.get("objectives") or body for name in objectives}, **entries_of(top.get("budgets"))}
        checking.refuse_untold(read, requested, area is not None, problems)
        if area is not None:
            first = {name: expression.quantity(text)[0] for name, text in constants.items()}
            first |= {parameter.name: parameter.numbers[0] for parameter in parameters}
            refuse_no_area(area, top.entries["area"], first, problems)
    if len(problems) > before or architecture is None or not top.readable:
        return None
    return Sweep(
        name=named, file=file, architecture=architecture, fixed=fixed, constants=constants, networks=tuple(networks),
        parameters=tuple(parameters), conditions=tuple(filter(None, several)), area=area, most_area_um2=most_area,
        most_power_w=most_power, objectives=tuple(o for o in OBJECTIVES if o in objectives), per=per, strategy=strategy,
        designs=designs, seed=top.value("seed", 0), prune=prune, joint=joint, within=share,
        wave=top.value("wave", 16), mapper=mapper, places=_places(top),
    )  # fmt: skip


def _refuse_not_joint(
    top: Fields, body: Node, objectives: frozenset[str], strategy: str, *, joint: bool, share: float
) -> None:
    """Report what a joint front cannot be made of, and a share that no joint front asks for."""
    budgets = entries_of(top.get("budgets"))
    if not joint:
        if share:
            top.problems.add(
                top.get("within") or body, "'within' is of a joint front", "write `joint: true`, or --joint"
            )
        return
    if "power" in objectives or "power" in budgets:
        node = top.get("objectives") if "power" in objectives else budgets["power"]
        top.problems.add(node or body, "no bound of the power is known before mapping", "leave `joint` or `power` out")
    if objectives <= {"area"}:
        top.problems.add(top.get("objectives") or body, "a joint front needs more than the area", "add `energy`")
    if strategy == "optuna":
        what = "a joint front is of a grid, or of a random choice of it"
        top.wrong("strategy", what, "write `strategy: random`, or leave `joint` out")


def _places(top: Fields) -> dict[str, Mark]:
    """Where things stand that a message may be about when designs are looked at."""
    conditions = top.get("conditions")
    items = conditions.items if isinstance(conditions, ListNode) else ()
    nodes = ([conditions] if conditions else []) + [*items, *entries_of(top.get("budgets")).values()]
    return {node.path: node.mark for node in nodes}


def _parameters(top: Fields) -> list[Parameter]:
    node = top.get("parameters")
    if node is None:
        if top.readable:
            top.problems.add(top.node, "'parameters' is missing")
        return []
    if top.problems.unreadable(node):
        return []
    if not isinstance(node, MapNode) or not node.entries:
        what = "expected parameters of the architecture or the workloads with their values"
        top.problems.add(node, f"{what}, got {describe(node)}")
        return []
    found = []
    for name, entry in node.entries.items():
        values = checking.read_values(entry, top.problems)
        if values:
            kinds = {expression.quantity(text)[1] for text in values}
            found.append(Parameter(name, tuple(values), kinds.pop() if len(kinds) == 1 else expression.TEXT))
    return found


def _refuse_unknown(
    top: Fields,
    architecture: File | None,
    networks: list[Network],
    parameters: list[Parameter],
    fixed: Mapping[str, str],
) -> None:
    """Report parameters that no file defines, or that are both swept and set."""
    if architecture is None:
        return
    own = parameter_names(architecture.path)
    every = own.union(*(network.parameters for network in networks))
    several = [("parameters", [parameter.name for parameter in parameters], every), ("set", list(fixed), own)]
    for key, names, of_files in several:
        node, known = top.get(key), sorted(of_files)
        for name in names:
            if name not in known and isinstance(node, MapNode):
                inner = [other for other in known if other.startswith(f"{name}.")]
                hint = near_miss(name, known) or (
                    f"parameters: {listed(known[:12])}" if known else "it has no `params`"
                )
                files = architecture.given + (" or of a workload" if key == "parameters" else "")
                what = f"{key}: {quoted(name)} is no parameter of {files}"
                top.problems.add(node.key_marks[name], what, f"one of {listed(inner)}" if inner else hint)
            if key == "set" and name in [p.name for p in parameters] and isinstance(node, MapNode):
                top.problems.add(node.key_marks[name], f"set: {quoted(name)} stands under 'parameters' too")
    for network in networks:
        for name in sorted(network.overrides.keys() & {parameter.name for parameter in parameters}):
            what = f"{quoted(name)} is set for {network.name}, and stands under 'parameters' too"
            top.wrong("workloads", what)


def suited_objective(objectives: Collection[str]) -> str:
    """What the mapper makes small where designs are judged by some objectives."""
    fast = "cycles" in objectives or "time" in objectives
    return "edp" if "edp" in objectives or (fast and "energy" in objectives) else "cycles" if fast else "energy"


def _mapper(top: Fields, objectives: frozenset[str], beside: Path, *, joint: bool) -> Mapper:
    """Read what the mapper is asked; by default it makes small what the designs are judged by.

    A joint front is proved, by default that of even mappings with perfect factors.
    """
    requested = top.inner("map", _MAPPER)
    objective = requested.value("objective", suited_objective(objectives))
    try:
        Objective.parse(objective)
    except AccelsimError as error:
        requested.wrong("objective", str(error))
    seconds: float = requested.value("time_limit", 0.0)
    name: str = requested.value("constraints", "")
    file = find_file(name, "constraints", requested.get("constraints"), beside, top.problems) if name else None
    document = fields.open_document(file.path, "constraints", {}, top.problems) if file else None
    constraints = read_constraints(document.body, top.problems) if document else None
    given: tuple[str | tuple[str, ...], str | tuple[str, ...]] = requested.value("factors", ("auto", ()))
    (remainders, padded), uneven = given, MAPSPACES[requested.value("mapspace", "auto")]
    if joint:
        uneven, remainders = bool(uneven), () if remainders == "auto" else remainders
    options = MapOptions(objective, "exact", uneven=uneven, imperfect=remainders, pad=padded, walks=not seconds)
    return Mapper(options, seconds or None, constraints, file)
