"""Timeloop's problems, v0.3 and v0.4: shapes with their bounds, as Einsums; several problems are layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from accelsim.importers import values
from accelsim.importers.documents import Map, Note, Seq, refuse
from accelsim.importers.timeloop_machine import TimeloopMachine
from accelsim.importers.timeloop_sparse import read_densities
from accelsim.inputs.errors import InputError, Mark, Problem
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import ROLES

_CNN = {
    "Weights": "C, K, R, S",
    "Inputs": "N, C, R * Wdilation + P * Wstride, S * Hdilation + Q * Hstride",
    "Outputs": "N, K, Q, P",
}
"""Timeloop's own shape `cnn-layer`."""

_KEYS = ("shape", "instance", "version", "name", "type")
_KEYS_OF_SHAPE = ("name", "dimensions", "data_spaces", "coefficients")
_KEYS_OF_SPACE = ("name", "projection", "read_write")
_TRUE = ("true", "yes", "on", "1")


@dataclass
class ProblemShape:
    """Dimensions with their bounds, and of each tensor its ranks, its role, its bits and whether it is the output."""

    name: str = ""
    dims: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, list[str]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    output: str = ""
    densities: dict[str, Any] = field(default_factory=dict)
    bits: dict[str, int] = field(default_factory=dict)


def read_shape(
    problem: Map, notes: list[Note], variables: Mapping[str, Any] | None = None, shapes: Iterable[Map | Seq] = ()
) -> ProblemShape:
    """Read what stands under `problem`; sizes may be formulas of the variables, its shape one of `shapes` by name."""
    problem = values.respelt(problem, _KEYS)
    written, instance = problem.get("shape"), problem.value("instance", Map, problem)
    if instance is not problem:
        values.note_others(problem, _KEYS, {}, notes)
    written = next((one for one in shapes if isinstance(one, Map) and one.get("name") == written), written)
    if isinstance(written, Map):
        written = values.respelt(written, _KEYS_OF_SHAPE)
        names = [str(dim) for dim in written.value("dimensions", Seq)]
        coefficients = {str(one.get("name")): one.get("default", 1) for one in written.rows("coefficients")}
        values.note_others(written, _KEYS_OF_SHAPE, {}, notes)
        given = values.read_all(lambda one: _data_space(one, notes), written.rows("data_spaces"))
    elif str(written) in ("cnn-layer", "cnn_layer", "None"):
        names, given = list("RSPQCKN"), [(name, ranks, name == "Outputs") for name, ranks in _CNN.items()]
        coefficients = dict.fromkeys(("Wstride", "Hstride", "Wdilation", "Hdilation"), 1)
    else:
        raise problem.refuse("shape", f"problem.shape: {quoted(str(written))} is not known", "name its file too")
    if not names:
        raise problem.refuse("shape", "problem.shape: no dimensions")
    shape = ProblemShape(str(written.get("name") or "") if isinstance(written, Map) else "cnn-layer")
    shape.name = values.plain_name(shape.name or Path(problem.mark.file).stem.split(".")[0])
    shape.dims |= zip(names, values.read_all(lambda dim: _whole(instance, dim, variables), names), strict=True)
    for key, held in instance.items():
        if key in coefficients:
            coefficients[key] = _whole(instance, key, variables)
        elif key in ("densities", "commonDensities", "commonDensity") and held:
            tensors = [name for name, *_ in given]
            of_all = Map(instance.where(key), held=dict.fromkeys(tensors, held))
            written_here = of_all if key == "commonDensity" else instance.value(key, Map)
            shape.densities = read_densities(written_here, tensors, notes)
        elif key == "bitwidths" and held:  # of Timeloop with quantization
            widths, tensors = instance.value(key, Map), [name for name, *_ in given]
            shape.bits |= values.read_all(lambda name: _width(widths, name, tensors), widths)  # noqa: B023
        elif key not in (*names, "shape", "version", "name", "type") and held and (held != 1 or "pad" in key):
            named = {name.lower(): name for name in coefficients}
            why = "is no dimension and no coefficient of the shape"
            if "pad" in key:
                why = "padded points count as ordinary points"
            elif key.lower() in named:
                why = f"is no coefficient of the shape, which has its default; did you mean '{named[key.lower()]}'?"
            notes.append(Note(instance.where(key), f"problem.{key} = {held}", why))

    read = partial(_rank, dims=shape.dims, coefficients=coefficients, mark=problem.where("shape"))
    ranks = values.read_all(lambda one: values.read_all(read, _ranks(one[1])), given)
    for (name, _, output), of_tensor in zip(given, ranks, strict=True):
        shape.tensors[name] = of_tensor
        if output and shape.output:
            what = f"problem.shape: {shape.output} and {name} have `read_write: true`"
            raise problem.refuse("shape", f"{what}; one output is computed")
        shape.output = name if output else shape.output
    if not shape.output:
        raise problem.refuse("shape", "problem.shape: no data space has `read_write: true`")
    shape.roles = _roles(shape)
    return shape


def _data_space(given: Map, notes: list[Note]) -> tuple[str, Any, bool]:
    """Name, projection and whether it is the output."""
    space = values.respelt(given, _KEYS_OF_SPACE)
    values.note_others(space, _KEYS_OF_SPACE, {}, notes)
    if missing := {"name", "projection"} - {key for key, held in space.items() if held is not None}:
        raise refuse(space.mark, f"problem.shape: a data space without {listed(sorted(missing))}")
    return str(space["name"]), space["projection"], str(space.get("read_write")).lower() in _TRUE


def _width(widths: Map, name: str, tensors: Sequence[str]) -> tuple[str, int]:
    """Name of a data space with the bits of its elements."""
    values.refuse_other(name, tensors, "data space", "problem.bitwidths", widths.where(name))
    return name, values.whole(widths[name], widths.where(name))


def _whole(instance: Map, key: str, variables: Mapping[str, Any] | None) -> int:
    if key not in instance:
        raise refuse(instance.mark, f"problem.instance: {key} is missing")
    where = instance.where(key)
    try:
        return values.whole(values.as_number(instance[key], where, variables), where)
    except InputError as error:
        hint = values.FILE_OF_VARIABLES if isinstance(instance[key], str) else ""
        raise refuse(where, f"problem.instance: {key}: {error.problems[0].what}", hint) from None


def _ranks(projection: Any) -> Iterable[Any]:
    """Ranks of a projection; a text such as `[C, P + R]` is taken apart."""
    if isinstance(projection, str):
        return projection.strip("[] ").split(",")
    return projection if isinstance(projection, list) else ()


def _rank(rank: Any, dims: dict[str, int], coefficients: dict[str, Any], mark: Mark) -> str:
    """A rank as a sum of dimensions with factors."""
    found, mark = [], getattr(rank, "mark", mark)
    for term in [rank] if isinstance(rank, str) else rank if isinstance(rank, list) else [None]:
        name, *factors = term if isinstance(term, list) and term else [term]
        for sum_ in str(name).split("+"):
            parts = [part.strip() for part in sum_.split("*")]
            word = next((part for part in parts if part in dims), sum_.strip())
            values.refuse_other(word, dims, "dimension", "problem.shape", mark)
            parts.remove(word)
            scales = (coefficients.get(str(factor), factor) for factor in (*factors, *parts))
            scale = math.prod(values.whole(each, mark) for each in scales)
            found.append(f"{scale}*{word}" if scale != 1 else word)
    return " + ".join(found)


def dims_of_rank(rank: str) -> list[str]:
    """Dimensions of a rank such as `R + 2*P`."""
    return [term.rpartition("*")[2].strip() for term in rank.split("+")]


def _roles(shape: ProblemShape) -> dict[str, str]:
    """Role of each tensor: by its name, the output, or of the others the first roles that are free."""
    roles = {name: name for name in shape.tensors if name in ROLES and (name == "Outputs") == (name == shape.output)}
    roles[shape.output] = "Outputs"
    for name in shape.tensors:
        free = [role for role in ("Inputs", "Weights") if role not in roles.values()]
        roles.setdefault(name, free[0] if free else "Inputs")
    return roles


def workload(shapes: Sequence[ProblemShape], machines: Sequence[TimeloopMachine], notes: list[Note]) -> dict[str, Any]:
    """Document of one problem, or of several as layers; an element has the bits of the machines' smallest word."""
    stores = [part for machine in machines for part in machine.parts[:-1] if not part.network]
    widths = sorted({part.word_bits for part in stores}) or [16]
    if machines and len(widths) > 1:
        why = f"an element is one word at each level, of {listed(map(str, widths))} bits; its bits here are the fewest"
        notes.append(Note(stores[0].table.mark, "datawidth", why))
    layers = []
    for shape in shapes:
        einsum: dict[str, Any] = {"dims": shape.dims, "tensors": shape.tensors, "output": shape.output}
        densities = {name: shape.densities[name] for name in shape.tensors if name in shape.densities}
        named = {name: role for name, role in shape.roles.items() if name != role and name != shape.output}
        layer: dict[str, Any] = {"einsum": einsum | ({"roles": named} if named else {})}
        layers.append({"name": shape.name, **layer, **({"densities": densities} if densities else {})})
        if shape.bits:
            layers[-1]["bits"] = shape.bits | {"psums": shape.bits.get(shape.output, widths[0])}
    bits = dict.fromkeys((*ROLES, "psums"), widths[0])
    if len(layers) == 1:
        return {"name": layers[0].pop("name"), "bits": bits | layers[0].pop("bits", {}), **layers[0]}
    return {"name": "problems", "bits": bits, "layers": layers}


Loops = tuple[Map, Mapping[str, tuple[str, int]], Mapping[str, int]]
"""Of a block of loops: the directive, sign and bound by dimension, and iterations of the last pass where written."""


def refuse_misfit(shape: ProblemShape, nest: Sequence[Loops], left: Mapping[str, int], where: Mark) -> None:
    """Raise InputError where loops do not come to their dimension, also with the last passes that are written.

    `nest`: outermost block first. `left`: bounds that are written as 0. `where`: the mapping.
    """
    problems = []
    for dim, size in shape.dims.items():
        bounds = [(table, factors.get(dim, ("=", 1))[1], last) for table, factors, last in nest]
        loops = [(table, bound or left[dim], last) for table, bound, last in bounds if bound != 1]
        written = [(bound, last.get(dim, bound)) for _, bound, last in loops] or [(1, 1)]
        wanted = _covering([bound for bound, _ in written], size)
        if written == wanted:
            continue
        product = math.prod(bound for bound, _ in written)
        what = f"the loops over {dim} multiply to {product}, but {dim} is {size} in {shape.name}"
        if any(dim in last for _, _, last in loops):
            what = f"the last passes over {dim} do not come to {size}, its bound in {shape.name}"
        changed = [index for index, pair in enumerate(written) if pair != wanted[index]]
        hint = f"write {listed(_change(dim, written[index], wanted[index]) for index in changed)}"
        rank = next((rank for ranks in shape.tensors.values() for rank in ranks if _shares(shape, rank, dim)), None)
        if rank is not None and any(last < bound for bound, last in wanted):
            hint = f"it shares the rank {rank}, which allows no remainder; write loops that multiply to {size}"
        problems.append(Problem(loops[changed[0]][0].where("factors") if loops else where, what, hint))
    if problems:
        raise InputError(problems)


def _shares(shape: ProblemShape, rank: str, dim: str) -> bool:
    """Whether a rank adds up this dimension and another one with more than one iteration."""
    names = [name for name in dims_of_rank(rank) if shape.dims.get(name, 2) > 1]
    return dim in names and len(names) > 1


def _covering(bounds: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Loops over a dimension, changed so that they cover it: bound and iterations of the last pass, outermost first.

    >>> _covering([2, 6], 8), _covering([2, 3], 8), _covering([2, 12], 8)
    ([(2, 2), (6, 2)], [(3, 3), (3, 2)], [(1, 1), (8, 8)])
    """
    found: list[tuple[int, int]] = []
    span = 1
    for index, bound in reversed(list(enumerate(bounds))):
        most = -(-size // span)
        bound = min(bound, most) if index else most
        found.append((bound, (size - 1) // span % bound + 1))
        span *= bound
    return found[::-1]


def _change(dim: str, old: tuple[int, int], new: tuple[int, int]) -> str:
    """What to write instead of a factor.

    >>> _change("N", (6, 6), (6, 2)), _change("N", (1, 1), (8, 8)), _change("N", (2, 2), (1, 1))
    ('N=6,2 for N=6', 'N=8', 'N=1 for N=2')
    """
    before, after = (f"{dim}={bound}{f',{last}' if last != bound else ''}" for bound, last in (old, new))
    return after if old == (1, 1) else f"{after} for {before}"
