"""Read what Timeloop reads and writes: `input.yaml` beside `result.json`, or records of both in `cases.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelsim.importers.documents import parse
from accelsim.importers.foreign import Foreign
from accelsim.importers.timeloop_inputs import convert
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import read_json, read_utf8
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.workload import Einsum

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
    """Read all records at a path, in the order of the files; raises AccelsimError if there are none.

    The path is a `cases.jsonl`, an `input.yaml` with its `result.json` beside it, or a folder that holds any of these
    at any depth.
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
            yield _case(name, machine, shape, record)
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
        record = read_json(beside)
        return _loaded(name, convert([parse(read_utf8(file), str(file))]), record)
    except MALFORMED as error:
        return UnreadCase(name, f"cannot be read: {reason_of(error)}")


def _loaded(name: str, foreign: Foreign, record: Json) -> TimeloopCase | UnreadCase:
    if foreign.mapping and "imperfect" in foreign.mapping:
        return UnreadCase(name, _IMPERFECT, broken=False)
    return TimeloopCase(name, *foreign.loaded(), record)


def reason_of(error: Exception) -> str:
    """What is wrong with a record, in words."""
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _case(name: str, machine: Json, shape: Json, record: Json) -> TimeloopCase | UnreadCase:
    """A record, read as the v0.3 files that it stands for."""
    directives = record["mapping"]
    if any(isinstance(bound, list) for directive in directives for bound in directive.get("factors", {}).values()):
        return UnreadCase(name, _IMPERFECT, broken=False)
    parts = [*machine["levels"], {"name": "MAC", "cls": "intmac", **machine["mac"]}]
    tables = [{"name": part["name"], "actions": _actions(part["ert"])} for part in parts]
    files = {
        "architecture": {"subtree": [], "local": [_component(part) for part in parts]},
        "problem": {"shape": shape, "instance": record["instance"]},
        "mapping": [_directive(directive) for directive in directives],
        "ERT": {"tables": tables},
    }
    return _loaded(name, convert([parse(json.dumps(files), "record")]), record)


def _component(part: Json) -> Json:
    across, down = part["mesh"]
    attributes = {"meshX": across, **part.get("attrs", {})}
    return {"name": f"{part['name']}[0..{across * down - 1}]", "class": part["cls"], "attributes": attributes}


def _actions(energies: Json) -> list[Json]:
    return [{"name": action, "energy": float(energy)} for action, energy in energies.items()]


def _directive(directive: Json) -> Json:
    """A directive of a mapping: permutations innermost first, the dimensions on Y last."""
    found: Json = {key: directive[key] for key in ("target", "type", "keep", "bypass") if key in directive}
    factors = directive.get("factors", {})
    found["factors"] = [f"{dim}={bound}" for dim, bound in factors.items()]
    if directive["type"] == "spatial":
        on_y = set(directive.get("y", []))
        found["permutation"] = sorted(factors, key=lambda dim: dim in on_y)
        found["split"] = len(factors.keys() - on_y)
    elif directive["type"] == "temporal":
        order = directive["order"]
        found["permutation"] = [*order, *(dim for dim in factors if dim not in order)][::-1]
    return found
