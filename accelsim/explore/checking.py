"""What a sweep file names: files, parameters, networks, constraints; and whether its values suit the architecture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from accelsim import library
from accelsim.architecture import read_architecture
from accelsim.constraints import Constraints, read_constraints
from accelsim.errors import AccelsimError, SpecError
from accelsim.explore.sweep import File, Network, Parameter, read_number
from accelsim.spec import fields
from accelsim.spec.fields import Fields, Keys
from accelsim.spec.params import check_overrides, parameter_names, parameter_values
from accelsim.spec.source import BadNode, ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.units import listed, near_miss, quoted
from accelsim.workload import load_workload


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


def parameters_of(architecture: File) -> frozenset[str]:
    """Names of the parameters of an architecture file."""
    return parameter_names(architecture.path)


def constant_values(architecture: File, fixed: Mapping[str, str]) -> dict[str, str]:
    """Parameters of an architecture with the value that they have where nothing sweeps them."""
    return {**parameter_values(architecture.path), **fixed}


def read_networks(node: Node | None, beside: Path, problems: Problems, keys: Keys) -> list[Network]:
    """Read the workloads of a sweep, each with every mistake in its own file."""
    if node is None or isinstance(node, BadNode):
        return []
    if not isinstance(node, ListNode) or not node.items:
        problems.add(node, f"expected a list of workloads, got {describe(node)}", "such as [resnet50]")
        return []
    found: list[Network] = []
    for item in node.items:
        network = _network(item, beside, problems, keys)
        if network is not None and network.name in [other.name for other in found]:
            problems.add(item, f"two workloads are named {quoted(network.name)}")
        found += [network] if network else []
    return found


def _network(item: Node, beside: Path, problems: Problems, keys: Keys) -> Network | None:
    if isinstance(item, ScalarNode):
        name, overrides, weight, wanted = item.text, dict[str, str](), 1.0, list[str]()
        entry: Node = item
    else:
        given = Fields(item, problems, keys)
        name = given.value("workload", "")
        entry = given.get("workload") or item
        overrides = _overrides(given.get("set"), problems)
        weight = read_number(given.get("weight"), problems) or 1.0
        wanted = given.value("layers", list[str]())
    file = find_file(name, "workloads", entry, beside, problems) if name else None
    if file is None:
        return None
    try:
        check_overrides(overrides, [file.path])
        workload = load_workload(file.path, overrides)
    except SpecError as error:
        problems.found.extend(error.problems)
        return None
    names = [layer.name for layer in workload.layers]
    for layer in wanted:
        if layer not in names:
            hint = near_miss(layer, names) or f"layers: {listed(names[:12])}"
            problems.add(item, f"{name} has no layer {quoted(layer)}", hint)
    layers = tuple(layer for layer in workload.layers if not wanted or layer.name in wanted)
    return Network(file, workload.name, layers, weight, overrides)


def _overrides(node: Node | None, problems: Problems) -> dict[str, str]:
    if node is None or isinstance(node, BadNode):
        return {}
    if not isinstance(node, MapNode):
        problems.add(node, f"expected parameters with a value each, got {describe(node)}")
        return {}
    return {name: entry.text for name, entry in node.entries.items() if isinstance(entry, ScalarNode)}


def read_sweep_constraints(file: File, problems: Problems) -> Constraints | None:
    """Read constraints; whether they suit each machine is seen when it is mapped."""
    document = fields.open_document(file.path, "constraints", {}, problems)
    return read_constraints(document.body, problems) if document else None


def check_values(
    architecture: File, node: Node, parameters: Iterable[Parameter], fixed: dict[str, str], problems: Problems
) -> None:
    """Report each value that the architecture cannot read in its place, with all others as in its file."""
    problems.found.extend(_reading(architecture, fixed).found)
    if problems.found or not isinstance(node, MapNode):
        return
    for parameter in parameters:
        entry = node.entries[parameter.name]
        values = (
            parameter.values if isinstance(entry, ListNode) else parameter.values[:: max(1, len(parameter.values) - 1)]
        )
        for number, value in enumerate(values):
            tried = _reading(architecture, {**fixed, parameter.name: value})
            told = [p for p in tried.found if p.what.endswith(f"(${parameter.name} from --set)")]
            if told:
                at = entry.items[number] if isinstance(entry, ListNode) else entry
                what = told[0].what.removesuffix(f" (${parameter.name} from --set)")
                problems.add(at, f"does not suit {told[0].mark}: {what}", told[0].hint)


def _reading(architecture: File, overrides: dict[str, str]) -> Problems:
    """Mistakes in an architecture with some parameters."""
    tried = Problems()
    document = fields.open_document(architecture.path, "architecture", overrides, tried)
    if document:
        read_architecture(document.body, architecture.path, tried)
    return tried
