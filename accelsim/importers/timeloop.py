"""Read what Timeloop reads and writes: `input.yaml` beside `result.json`, or records of both in `cases.jsonl`.

Timeloop writes permutations innermost first and puts the dimensions after `split` on the Y axis (mapping/parser.cpp); a
mesh is given for each level in total, so a fanout is the quotient of neighbouring meshes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from accelsim.importers.foreign import read_foreign
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level, load_architecture
from accelsim.inputs.energy.table import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.files import read_json, read_utf8
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, load_mapping
from accelsim.inputs.workload import ROLES, Einsum, Tensor
from accelsim.inputs.workload_reader import load_workload

Json = dict[str, Any]
_IMPERFECT = "imperfect factors: Timeloop's own counts are wrong there"
MALFORMED = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError),
    *(ArithmeticError, RecursionError, OSError, AccelsimError),
)
"""What a record of the wrong shape makes its readers raise."""


@dataclass(frozen=True, slots=True)
class TimeloopCase:
    """One record: Timeloop's inputs in our terms, and what Timeloop said of them."""

    name: str
    architecture: Architecture
    einsum: Einsum
    mapping: Mapping
    record: Json


@dataclass(frozen=True, slots=True)
class UnreadCase:
    """A record that cannot be turned into our terms, and why; `broken`: it should have been."""

    name: str
    reason: str
    broken: bool = True


def read_cases(path: Path) -> Iterator[TimeloopCase | UnreadCase]:
    """Read all records at a path.

    Parameters
    ----------
    path : Path
        A `cases.jsonl`, an `input.yaml` with its `result.json` beside it, or a folder that holds any of these at any
        depth.

    Yields
    ------
    TimeloopCase or UnreadCase
        In the order of the files.

    Raises
    ------
    AccelsimError
        If there is no such file, or no record in it.
    """
    if not path.exists():
        raise AccelsimError(f"{path}: no such file or folder")
    lines = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path] if path.suffix == ".jsonl" else []
    inputs = sorted(path.rglob("input.yaml")) if path.is_dir() else [path] if path.suffix in (".yaml", ".yml") else []
    if not lines and not inputs:
        raise AccelsimError(f"{path}: holds no cases.jsonl and no input.yaml with a result.json beside it")
    for file in lines:
        yield from _read_lines(file)
    for file in inputs:
        yield _read_folder(file)


def _read_lines(file: Path) -> Iterator[TimeloopCase | UnreadCase]:
    known: dict[str, dict[str, Json]] = {}
    for number, line in enumerate(read_utf8(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            name = str(record["name"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise AccelsimError(f"{file}:{number}:1: not a record: {error}; expected one JSON object a line") from None
        try:
            machine = _named(record, "arch", "architectures.json", file.parent, known)
            shape = _named(record, "shape", "shapes.json", file.parent, known)
            yield _case(name, machine, shape, record["instance"], record["mapping"], record)
        except MALFORMED as error:
            yield UnreadCase(name, f"cannot be read: {reason_of(error)}")


def _named(record: Json, key: str, catalogue: str, folder: Path, known: dict[str, dict[str, Json]]) -> Json:
    """What a record holds under a key, or names there as an entry of a catalogue beside it (or in a folder above)."""
    value = record[key]
    if isinstance(value, dict):
        return value
    if catalogue not in known:
        found = next((up / catalogue for up in (folder, *folder.parents) if (up / catalogue).is_file()), None)
        if found is None:
            raise AccelsimError(f"{catalogue} is missing beside the records")
        known[catalogue] = read_json(found)
    return known[catalogue][value]


def _read_folder(file: Path) -> TimeloopCase | UnreadCase:
    name = f"{file.parent.name}/{file.name}"
    beside = file.with_name("result.json")
    if not beside.exists():
        return UnreadCase(name, f"{beside.name} is missing beside it")
    try:
        record, foreign = read_json(beside), read_foreign([file], "timeloop")
        if foreign.mapping and "imperfect" in foreign.mapping:
            return UnreadCase(name, _IMPERFECT, broken=False)
        architecture = load_architecture({"architecture": foreign.architecture})
        einsum = load_workload({"workload": foreign.workload}).layers[0]
        return TimeloopCase(
            name, architecture, einsum, load_mapping({"mapping": foreign.mapping}, architecture, einsum), record
        )
    except MALFORMED as error:
        return UnreadCase(name, f"cannot be read: {reason_of(error)}")


def reason_of(error: Exception) -> str:
    """What is wrong with a record, in words."""
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _case(
    name: str, machine: Json, shape: Json, instance: dict[str, int], directives: list[Json], record: Json
) -> TimeloopCase | UnreadCase:
    if any(isinstance(bound, list) for directive in directives for bound in directive.get("factors", {}).values()):
        return UnreadCase(name, _IMPERFECT, broken=False)
    einsum = _einsum(shape, instance)
    return TimeloopCase(name, _architecture(machine), einsum, _mapping(machine, einsum, directives), record)


def _einsum(shape: Json, instance: dict[str, int]) -> Einsum:
    factor = {entry["name"]: entry.get("default", 1) for entry in shape.get("coefficients", [])}
    factor.update({key: value for key, value in instance.items() if key in factor})
    tensors = []
    for space in shape["data_spaces"]:
        ranks = tuple(
            tuple((term[0], factor[term[1]] if len(term) > 1 else 1) for term in rank) for rank in space["projection"]
        )
        output = bool(space.get("read_write", False))
        role = "Outputs" if output else space["name"] if space["name"] in ROLES else "Inputs"
        tensors.append(Tensor(space["name"], ranks, role, output=output))
    dims = {str(dim): int(instance[dim]) for dim in shape["dimensions"]}
    return Einsum(shape["name"], dims, tuple(tensors))


def _architecture(machine: Json) -> Architecture:
    energies: dict[tuple[str, str, str], EnergyEntry] = {}
    levels = []
    parts = [*machine["levels"], machine["mac"]]
    for part, below in itertools.pairwise(parts):
        attributes = part.get("attrs", {})
        for action, energy in part["ert"].items():
            energies[part["name"], "*", action] = EnergyEntry(float(energy), "the record's ERT")
        fanout = [_quotient(below["mesh"][axis], part["mesh"][axis], part["name"]) for axis in (0, 1)]
        levels.append(
            Level(
                name=part["name"],
                component=part["cls"],
                word_bits=16,  # counts are in words of one width for all tensors, so any width serves
                block_size=attributes.get("block_size", 1),
                size_words=_entries(attributes),
                multiple_buffering=attributes.get("multiple_buffering", 1),
                bandwidth=_rate(attributes, "shared_bandwidth"),
                read_bandwidth=_rate(attributes, "read_bandwidth"),
                write_bandwidth=_rate(attributes, "write_bandwidth"),
                x=Axis(fanout[0]),
                y=Axis(fanout[1]),
            )
        )
    name = machine["mac"].get("name", "MAC")
    energies[name, "*", "compute"] = EnergyEntry(float(machine["mac"]["ert"]["compute"]), "the record's ERT")
    compute = Compute(name, machine["mac"].get("cls", "intmac"))
    return Architecture(machine.get("name", "timeloop"), tuple(levels), compute, EnergyTable(energies))


def _entries(attributes: Json) -> int | None:
    if "entries" in attributes:
        return int(attributes["entries"])
    if "depth" in attributes:
        return int(attributes["depth"]) * int(attributes.get("block_size", 1))
    return None


def _rate(attributes: Json, key: str) -> Fraction | None:
    return Fraction(str(attributes[key])) if key in attributes else None


def _quotient(below: int, here: int, name: str) -> int:
    if below % here:
        raise AccelsimError(f"mesh {below} below {name} is no multiple of its own mesh {here}")
    return below // here


def _mapping(machine: Json, einsum: Einsum, directives: list[Json]) -> Mapping:
    names = [part["name"] for part in machine["levels"]]
    time: dict[str, tuple[Loop, ...]] = {}
    space: dict[str, dict[str, tuple[Loop, ...]]] = {}
    keep = {name: frozenset(tensor.name for tensor in einsum.tensors) for name in names}
    for directive in directives:
        target, factors = directive["target"], directive.get("factors", {})
        if target not in names:
            raise AccelsimError(f"the mapping names a level {target}, the architecture has {', '.join(names)}")
        if directive["type"] == "temporal":
            order = [*directive["order"], *(dim for dim in factors if dim not in directive["order"])]
            time[target] = tuple(Loop(dim, factors[dim]) for dim in order if factors.get(dim, 1) > 1)
        elif directive["type"] == "spatial":
            loops = [Loop(dim, bound) for dim, bound in factors.items() if bound > 1]
            on_y = set(directive.get("y", []))
            space[target] = {
                "x": tuple(loop for loop in loops if loop.dim not in on_y),
                "y": tuple(loop for loop in loops if loop.dim in on_y),
            }
        else:
            keep[target] = keep[target] - frozenset(directive.get("bypass", []))
    return Mapping(
        tuple(LevelMapping(name, time.get(name, ()), **space.get(name, {}), keep=keep[name]) for name in names)
    )
