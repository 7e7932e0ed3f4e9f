"""Problems of Timeloop as workloads: projections as sums of dimensions, and a role for each tensor."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelsim.importers.documents import Row, Table, refuse
from accelsim.importers.foreign import Note
from accelsim.importers.timeloop_machine import Machine, tables_under
from accelsim.importers.values import plain_name, value, whole
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


def read_shape(path: str, problem: Table, notes: list[Note]) -> Shape:
    """Read what stands under `problem`."""
    written, instance = problem.get("shape"), value(problem, "instance", Table, problem)
    if isinstance(written, Table):
        names = [str(dim) for dim in value(written, "dimensions", Row)]
        coefficients = {str(one.get("name")): one.get("default", 1) for one in tables_under(written, "coefficients")}
        spelt = next((key for key in ("data-spaces", "dataSpaces") if key in written), "data_spaces")
        spaces = tables_under(written, spelt)
        given = [
            (str(one.get("name")), one.get("projection"), one.get("read_write", one.get("read-write")))
            for one in spaces
        ]
    elif str(written) in ("cnn-layer", "cnn_layer", "None"):
        names, given = list("RSPQCKN"), [(name, ranks, name == "Outputs") for name, ranks in _CNN]
        coefficients = dict.fromkeys(("Wstride", "Hstride", "Wdilation", "Hdilation"), 1)
    else:
        raise refuse(problem.where("shape"), f"problem.shape: {quoted(str(written))} is not known; write it out")
    shape = Shape(str(written.get("name") or "") if isinstance(written, Table) else "cnn-layer")
    shape.name = plain_name(shape.name or Path(path).stem.split(".")[0])
    for dim in names:
        shape.dims[dim] = _whole(instance, dim)
    for key, held in instance.items():
        if key in coefficients:
            coefficients[key] = _whole(instance, key)
        elif key == "densities" and held:
            notes.append(Note(instance.where(key), f"problem.{key}", "sparse: the design is counted dense"))
        elif key not in (*names, "shape", "version", "name", "type") and held and (held != 1 or "pad" in key):
            why = "padded points count as ordinary points" if "pad" in key else "follows from the other dimensions"
            notes.append(Note(instance.where(key), f"problem.{key} = {held}", why))
    for name, projection, output in given:
        where = problem.where("shape")
        shape.tensors[name] = [_rank(rank, shape.dims, coefficients, where) for rank in _ranks(projection)]
        if output:
            shape.output = name
    if not shape.output:
        raise refuse(problem.where("shape"), "problem.shape: no data space has `read_write: true`")
    shape.roles = _roles(shape)
    return shape


def _whole(instance: Table, key: str) -> int:
    if key not in instance:
        raise refuse(instance.mark, f"problem.instance: {key} is missing")
    return whole(instance[key], instance.where(key))


def _ranks(projection: Any) -> Iterable[Any]:
    """Ranks of a projection; a text such as `[C, P + R]` is taken apart."""
    if isinstance(projection, str):
        return projection.strip("[] ").split(",")
    return projection if isinstance(projection, list | tuple) else ()


def _rank(rank: Any, dims: dict[str, int], coefficients: dict[str, Any], mark: Mark) -> str:
    """A rank as a sum of dimensions with factors."""
    found = []
    for term in [rank] if isinstance(rank, str) else rank if isinstance(rank, list | tuple) else [None]:
        name, *factors = term if isinstance(term, list | tuple) and term else [term]
        for word in re.split(r"\s*\+\s*", str(name).strip()):
            if word not in dims:
                raise refuse(mark, f"problem.shape: {quoted(word)} is no dimension; there are {listed(dims)}")
            scale = math.prod(whole(coefficients.get(str(factor), factor), mark) for factor in factors)
            found.append(f"{scale}*{word}" if scale != 1 else word)
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
