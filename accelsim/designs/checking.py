"""What a sweep file names: files, parameters, networks, constraints; and whether its values suit the architecture.

Values of a parameter are a list, or a range with a step or a factor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from pathlib import Path

from accelsim.inputs import expression, fields, forms, library
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import AccelsimError, InputError, Problem
from accelsim.inputs.expression import Value
from accelsim.inputs.fields import Fields, Key, Keys, keys_form
from accelsim.inputs.forms import Form
from accelsim.inputs.library import MODELS
from accelsim.inputs.params import parameter_names, parameter_values, unknown_overrides
from accelsim.inputs.source import ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import listed, near_miss, quoted
from accelsim.inputs.workload import Einsum, Workload, without_other_operations
from accelsim.inputs.workload_reader import load_workload


def _with_unit(text: str) -> tuple[Fraction, str, str] | None:
    """Value of a quantity in its base unit, its kind, and the unit as written."""
    value, kind = expression.quantity(text)
    return (value, kind, expression.unit_of(text)) if isinstance(value, Fraction) else None


_VALUE = fields.scalar(forms.text(), _with_unit, "a number, with its unit", "such as 4, or 32 KiB")
_RANGE: Keys = {
    "from": Key(_VALUE, "first value"),
    "to": Key(_VALUE, "largest value"),
    "step": Key(_VALUE, "difference of consecutive values", "`factor`"),
    "factor": Key(_VALUE, "ratio of consecutive values", "`step`"),
}
VALUES_FORM: Form = forms.either(forms.sequence(forms.text(), least=1), keys_form(_RANGE))
MOST = 100_000
"""Values of one parameter at most."""


def read_values(node: Node, problems: Problems) -> list[str]:
    """Values as they are written; none where there is a mistake, which is reported."""
    if problems.unreadable(node):
        return []
    if isinstance(node, ListNode) and node.items:
        found: list[str] = []
        for item in node.items:
            if isinstance(item, ListNode) and all(isinstance(part, ScalarNode) for part in item.items):
                text = f"[{', '.join(part.text for part in item.items if isinstance(part, ScalarNode))}]"
            elif isinstance(item, ScalarNode) and not item.empty:
                text = " ".join(item.text.split())
            else:
                problems.add(item, f"expected a value, got {describe(item)}")
                continue
            if text in found:
                problems.add(item, f"{quoted(text)} is listed twice")
            found.append(text)
        return found
    if isinstance(node, MapNode):
        return _range(Fields(node, problems, _RANGE))
    problems.add(
        node, f"expected a list of values, or a range, got {describe(node)}", "such as {from: 1, to: 8, step: 1}"
    )
    return []


def _range(given: Fields) -> list[str]:
    problems, before = given.problems, len(given.problems)
    ends = [given.value(key, None) for key in ("from", "to")]
    by = [key for key in ("step", "factor") if key in given]
    if len(by) != 1:
        problems.add(given.node, "a range has a 'step' or a 'factor'", "such as {from: 1, to: 8, factor: 2}")
        return []
    move = given.value(by[0], None)
    if ends[0] is None or ends[1] is None or move is None or len(problems) > before:
        return []
    (low, kind, unit), (high, high_kind, _), (width, width_kind, _) = ends[0], ends[1], move
    if by[0] == "step" and width_kind != kind:
        given.wrong("step", f"is {expression.named(width_kind)}, and 'from' is {expression.named(kind)}")
    if by[0] == "factor" and (width_kind != expression.NUMBER or width <= 1):
        given.wrong("factor", "is no number above 1")
    if by[0] == "step" and width <= 0:
        given.wrong("step", "is not above 0")
    if by[0] == "factor" and low <= 0:
        given.wrong("from", "is not above 0, and a factor leads nowhere")
    if kind != high_kind:
        given.wrong("to", f"is {expression.named(high_kind)}, and 'from' is {expression.named(kind)}")
    elif high < low:
        given.wrong("to", "is less than 'from'")
    if len(problems) > before:
        return []
    scale, _ = expression.quantity(f"1 {unit}")
    assert isinstance(scale, Fraction)  # 1 of a unit is a number
    found: list[str] = []
    value = low
    while value <= high:
        text = _decimal(value / scale)
        if text is None or len(found) >= MOST:
            what = f"has more than {MOST} values" if text else "leads to a value with endlessly many digits"
            given.wrong(by[0], what, "list the values")
            return []
        found.append(f"{text} {unit}".strip())
        value = value + width if by[0] == "step" else value * width
    return found


def _decimal(value: Fraction) -> str | None:
    """Write a number exactly, or return None where its digits do not end.

    >>> _decimal(Fraction(1, 8)), _decimal(Fraction(12)), _decimal(Fraction(1, 3))
    ('0.125', '12', None)
    """
    try:
        with localcontext(Context(prec=60, traps=[Inexact])):
            return f"{Decimal(value.numerator) / value.denominator:f}"
    except Inexact:
        return None


def find_file(given: str, kind: str, node: Node | None, beside: Path, problems: Problems) -> File | None:
    """Find a file by its path relative to the sweep file, by its path, or by its shipped name."""
    path = beside.parent / given
    try:
        found = path if path.is_file() else library.resolve(given, kind)
    except (AccelsimError, OSError, ValueError) as error:
        if node is not None:
            problems.add(node, str(error))
        return None
    return File(given, found)


def find_architecture(given: str, node: Node | None, beside: Path, problems: Problems) -> File | None:
    """Find the architecture file; None if there is none of that name, or it is a file of another kind."""
    file, tried = find_file(given, "arch", node, beside, problems), Problems()
    if file is None or fields.open_document(file.path, "architecture", {}, tried) is not None:
        return file
    problems.found.extend(tried.found)
    return None


def constant_values(architecture: File, fixed: Mapping[str, str], networks: Sequence[Network]) -> dict[str, str]:
    """Parameters with the value that they have where nothing sweeps them.

    Those of the architecture, and those of workloads that have one value in all of them.
    """
    found: dict[str, set[str]] = {}
    for network in networks:
        # a model that is imported gives its own parameters no value
        own = {} if network.file.path.suffix in MODELS else parameter_values(network.file.path)
        values = {**own, **network.overrides}
        for name in network.parameters & values.keys():
            found.setdefault(name, set()).add(values[name])
    alike = {name: values.pop() for name, values in found.items() if len(values) == 1}
    return {**alike, **parameter_values(architecture.path), **fixed}


def read_networks(items: Iterable[Node], beside: Path, problems: Problems, keys: Keys) -> list[Network]:
    """Read the workloads of a sweep, each with every mistake in its own file."""
    found: list[Network] = []
    for item in items:
        network = _network(item, beside, problems, keys)
        if network is not None and network.name in [other.name for other in found]:
            problems.add(item, f"two workloads are named {quoted(network.name)}")
        found += [network] if network else []
    return found


def _network(item: Node, beside: Path, problems: Problems, keys: Keys) -> Network | None:
    if isinstance(item, ScalarNode):
        name, overrides, weight, requested = item.text, dict[str, str](), 1.0, list[str]()
        every = False
        entry: Node = item
        setting: Node | None = None
    else:
        given = Fields(item, problems, keys)
        name = given.value("workload", "")
        entry = given.get("workload") or item
        setting = given.get("set")
        overrides = given.value("set", dict[str, str]())
        weight = given.value("weight", 1.0)
        requested = given.value("layers", list[str]())
        every = given.value("all_layers", False)
        chosen = given.get("layers")
        if every and chosen is not None:
            problems.add(chosen, "`all_layers` counts all, and here some are named", "leave one of the two out")
        if isinstance(chosen, ListNode) and not chosen.items:
            problems.add(chosen, "expected names of layers, got an empty list", "leave `layers` out")
    file = find_file(name, "workloads", entry, beside, problems) if name else None
    if file is None:
        return None
    before = len(problems)
    for parameter, value in setting.entries.items() if isinstance(setting, MapNode) else ():
        for mistake in unknown_overrides({parameter: ""}, [file.path]):
            problems.add(value, f"no parameter of {name} is named so", mistake.hint)
    if len(problems) > before:
        return None
    try:
        workload = load_workload(file.path, overrides)
    except InputError as error:
        problems.found.extend(error.problems)
        return None
    names = [layer.name for layer in workload.layers]
    for layer in requested:
        if layer not in names:
            hint = near_miss(layer, names) or f"layers: {listed(names[:12])}"
            problems.add(item, f"{name} has no layer {quoted(layer)}", hint)
    if every and not requested:
        requested = names
    return Network(
        file, workload.name, chosen_layers(workload, requested), weight, overrides, workload.yields, tuple(requested),
        () if requested else without_other_operations(workload)[1], parameter_names(file.path),
    )  # fmt: skip


def chosen_layers(workload: Workload, requested: Sequence[str]) -> tuple[Einsum, ...]:
    """Layers of a workload that count; where none is named those that multiply and add."""
    if not requested:
        return without_other_operations(workload)[0].layers
    return tuple(layer for layer in workload.layers if layer.name in requested)


def refuse_no_yield(per: str, networks: Sequence[Network], node: Node, problems: Problems) -> None:
    """Report workloads that do not say how many of what totals are divided by a run yields."""
    for network in networks:
        if per not in network.yields:
            found = listed(network.yields) or "nothing, as far as its file says"
            problems.add(node, f"a run of {network.name} yields {found}", f"write `yields: {{{per}: …}}` there")


def check_values(
    architecture: File,
    networks: Sequence[Network],
    node: Node,
    parameters: Iterable[Parameter],
    fixed: dict[str, str],
    problems: Problems,
) -> list[Architecture]:
    """Report each value that a file cannot read in its place, with all others as there.

    Returns the machines that could be read.
    """
    read: list[Architecture] = []

    def read_with(values: Mapping[str, str]) -> object:
        read.append(load_architecture(architecture.path, {**fixed, **values}))
        return read

    before = _mistakes(read_with, {})
    problems.found.extend(before)
    if before or not isinstance(node, MapNode):
        return read
    own = parameter_names(architecture.path)
    for parameter in parameters:
        readers = [read_with] if parameter.name in own else []
        readers += [each.read for each in networks if parameter.name in each.parameters]
        entry = node.entries[parameter.name]
        values = (
            parameter.values if isinstance(entry, ListNode) else parameter.values[:: max(1, len(parameter.values) - 1)]
        )
        for (number, value), reader in itertools.product(enumerate(values), readers):
            mistakes = _mistakes(reader, {parameter.name: value})
            mistakes = [p for p in mistakes if p.what.endswith(f"(${parameter.name} from --set)")]
            if mistakes:
                at = entry.items[number] if isinstance(entry, ListNode) else entry
                what = mistakes[0].what.removesuffix(f" (${parameter.name} from --set)")
                problems.add(at, f"does not suit {mistakes[0].mark}: {what}", mistakes[0].hint)
    return read


def refuse_untold(
    machines: Sequence[Architecture], requested: Mapping[str, Node], has_area: bool, problems: Problems
) -> None:
    """Report objectives and budgets that no machine that was read tells: an area, or a time without a clock."""
    no_area = not has_area and all(machine.area_um2 is None for machine in machines)
    no_clock = all(machine.clock_hz is None for machine in machines)
    for name, node in requested.items():
        if name == "area" and no_area:
            problems.add(node, "the architecture tells no area", "write `area: …`, a formula of the parameters")
        if name in ("time", "power") and no_clock:
            problems.add(node, f"the architecture tells no clock, and {name} needs one", "write its `clock` there")


def _mistakes(read: Callable[[Mapping[str, str]], object], values: Mapping[str, str]) -> Sequence[Problem]:
    """Mistakes in a file with values of parameters."""
    try:
        read(values)
    except InputError as error:
        return error.problems
    return ()


@dataclass(frozen=True, slots=True)
class File:
    """A file as the sweep names it, and where it was found."""

    given: str
    path: Path


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the architecture or of workloads, and the values that it takes, as they are written.

    As `--set` does, it sets its name in each file that defines it.
    """

    name: str
    values: tuple[str, ...]
    kind: str

    @property
    def numbers(self) -> tuple[Value, ...]:
        """The values in the base unit of their kind."""
        return tuple(expression.quantity(text)[0] for text in self.values)


@dataclass(frozen=True, slots=True)
class Network:
    """A workload with its weight: how often it counts in the totals of a design."""

    file: File
    name: str
    layers: tuple[Einsum, ...]  # those that count, with the parameters that are swept as in the file
    weight: float = 1.0
    overrides: Mapping[str, str] = field(default_factory=dict)  # parameters that have one other value in all designs
    yields: Mapping[str, int] = field(default_factory=dict)  # what a run gives, such as `{"frames": 8}`
    requested: tuple[str, ...] = ()  # names of the layers that count; none: those that multiply and add
    left_out: tuple[Einsum, ...] = ()  # layers that then do not
    parameters: frozenset[str] = frozenset()  # names of all parameters of the file

    def read(self, values: Mapping[str, str]) -> Workload:
        """Read the file with values of its parameters."""
        return load_workload(self.file.path, {**self.overrides, **values})
