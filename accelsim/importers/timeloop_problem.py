"""Problems of Timeloop as workloads: projections as sums of dimensions, and a role for each tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelsim.importers.documents import Row, Table, refuse
from accelsim.importers.foreign import Note
from accelsim.importers.timeloop_machine import Machine
from accelsim.importers.values import plain_name
from accelsim.inputs.errors import Mark
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import ROLES

_CNN: tuple[tuple[str, tuple[tuple[tuple[str, ...], ...], ...]], ...] = (
    ("Weights", ((("C",),), (("K",),), (("R",),), (("S",),))),
    (
        "Inputs",
        ((("N",),), (("C",),), (("R", "Wdilation"), ("P", "Wstride")), (("S", "Hdilation"), ("Q", "Hstride"))),
    ),
    ("Outputs", ((("N",),), (("K",),), (("Q",),), (("P",),))),
)
"""Timeloop's own shape `cnn-layer`."""


@dataclass
class Shape:
    """Dimensions with their bounds, and of each tensor its ranks, its role and whether it is the output."""

    name: str = ""
    dims: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, list[str]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    output: str = ""


def _get(table: Table, *names: str) -> Any:
    """Value of the first of several spellings of a key."""
    return next((table[name] for name in names if name in table), None)


def read_shape(path: str, problem: Table, notes: list[Note]) -> Shape:
    """Read what stands under `problem`."""
    written, instance = problem.get("shape"), problem.get("instance", problem)
    if not isinstance(instance, Table):
        raise refuse(problem.where("instance"), "problem.instance: expected the bounds of the dimensions")
    if isinstance(written, Table):
        names = [str(dim) for dim in written.get("dimensions") or ()]
        spaces = _get(written, "data_spaces", "data-spaces", "dataSpaces") or Row(written.mark)
        coefficients = {str(one["name"]): one.get("default", 1) for one in written.get("coefficients") or ()}
        given = [(str(one.get("name")), one.get("projection"), _get(one, "read_write", "read-write")) for one in spaces]
    elif str(written) in ("cnn-layer", "cnn_layer", "None"):
        names, given = list("RSPQCKN"), [(name, ranks, name == "Outputs") for name, ranks in _CNN]
        coefficients = dict.fromkeys(("Wstride", "Hstride", "Wdilation", "Hdilation"), 1)
    else:
        raise refuse(problem.where("shape"), f"problem.shape: {quoted(str(written))} is not known; write it out")
    shape = Shape(str(written.get("name") or "") if isinstance(written, Table) else "cnn-layer")
    shape.name = plain_name(shape.name or Path(path).stem.split(".")[0])
    for dim in names:
        shape.dims[dim] = _whole(instance, dim)
    for key, value in instance.items():
        if key in coefficients:
            coefficients[key] = _whole(instance, key)
        elif key == "densities" and value:
            notes.append(Note(instance.where(key), f"problem.{key}", "sparse: the design is counted dense"))
        elif key not in (*names, "shape", "version", "name", "type") and value and (value != 1 or "pad" in key):
            why = "padded points count as ordinary points" if "pad" in key else "follows from the other dimensions"
            notes.append(Note(instance.where(key), f"problem.{key} = {value}", why))
    for name, projection, output in given:
        shape.tensors[name] = [_rank(rank, coefficients, problem.mark) for rank in _ranks(projection)]
        if output:
            shape.output = name
    if not shape.output:
        raise refuse(problem.where("shape"), "problem.shape: no data space has `read_write: true`")
    shape.roles = _roles(shape)
    return shape


def _whole(instance: Table, key: str) -> int:
    value = instance.get(key)
    if key not in instance:
        raise refuse(instance.mark, f"problem.instance: {key} is missing")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise refuse(instance.where(key), f"problem.{key}: expected a whole number above 0, got {quoted(str(value))}")
    return value


def _ranks(projection: Any) -> Iterable[Any]:
    """Ranks of a projection; a text such as `[C, P + R]` is taken apart."""
    if isinstance(projection, str):
        return projection.strip("[] ").split(",")
    return projection if isinstance(projection, list | tuple) else ()


def _rank(rank: Any, coefficients: dict[str, Any], mark: Mark) -> str:
    """A rank as a sum of dimensions with factors."""
    terms = [rank] if isinstance(rank, str) else rank
    if isinstance(terms, str) or not isinstance(terms, list | tuple):
        raise refuse(mark, f"problem.shape: {quoted(str(rank))} is no rank of a tensor")
    found = []
    for term in terms:
        words = term if isinstance(term, list | tuple) else [term]
        scale = math.prod(int(coefficients.get(str(word), word if isinstance(word, int) else 1)) for word in words[1:])
        found.append(f"{scale}*{words[0]}" if scale != 1 else str(words[0]))
    return " + ".join(found)


def _roles(shape: Shape) -> dict[str, str]:
    """Role of each tensor: by its name, the output, or of the others the first roles that are free."""
    roles = {name: name for name in shape.tensors if name in ROLES and (name == "Outputs") == (name == shape.output)}
    roles[shape.output] = "Outputs"
    for name in shape.tensors:
        free = [role for role in ("Inputs", "Weights") if role not in roles.values()]
        roles.setdefault(name, free[0] if free else "Inputs")
    return roles


def workload(shape: Shape, machine: Machine | None, notes: list[Note]) -> dict[str, Any]:
    """Document of a problem; an element has the bits of the machine's smallest word."""
    stores = [part for part in machine.parts[:-1] if not part.network] if machine else []
    widths = sorted({part.word_bits for part in stores}) or [16]
    if machine and len(widths) > 1:
        why = f"an element is one word at each level, of {listed(map(str, widths))} bits; its bits here are the fewest"
        notes.append(Note(stores[0].table.mark, "datawidth", why))
    einsum: dict[str, Any] = {"dims": shape.dims, "tensors": shape.tensors, "output": shape.output}
    named = {name: role for name, role in shape.roles.items() if name != role and name != shape.output}
    return {
        "name": shape.name, "bits": dict.fromkeys((*ROLES, "psums"), widths[0]),
        "einsum": einsum | ({"roles": named} if named else {}),
    }  # fmt: skip
