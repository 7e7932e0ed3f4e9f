"""Mappings: which loops each level runs, in time and in space, and what it keeps."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as StringMap
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from accelsim.inputs import fields, forms
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import HintedError
from accelsim.inputs.fields import Fields, Key, Keys, Source, keys_form, node_of
from accelsim.inputs.forms import Form
from accelsim.inputs.source import BadNode, ListNode, MapNode, Node, Problems
from accelsim.inputs.units import listed, quoted, repeated, unknown
from accelsim.inputs.workload import Einsum, pad, shared_rank


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a mapping; `bound` counts its own iterations, not the tile below it."""

    dim: str
    bound: int

    def __post_init__(self) -> None:
        if self.bound < 1:
            raise ValueError(f"loop {self.dim}: bound must be >= 1, got {self.bound}")

    def __str__(self) -> str:
        return f"{self.dim}={self.bound}"


@dataclass(frozen=True, slots=True)
class LevelMapping:
    """Loops of one level, temporal (outermost first) and spatial over its fanout, and the tensors it keeps."""

    level: str
    temporal: tuple[Loop, ...] = ()
    x: tuple[Loop, ...] = ()
    y: tuple[Loop, ...] = ()
    keep: frozenset[str] = frozenset()

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Those in time, then those over x and y."""
        return (*self.temporal, *self.x, *self.y)


@dataclass(frozen=True, slots=True)
class Mapping:
    """One mapping of an Einsum onto an architecture, outermost level first.

    The loops over a dimension multiply to its bound, or, for those in `imperfect`, to more: then the last pass of some
    loops is shorter (a remainder). Those in `padded` have the bound given there instead of the Einsum's.
    """

    levels: tuple[LevelMapping, ...]
    imperfect: frozenset[str] = frozenset()
    padded: tuple[Loop, ...] = ()

    @property
    def padding(self) -> dict[str, int]:
        """Bounds of the dimensions that are padded."""
        return {loop.dim: loop.bound for loop in self.padded}

    def __str__(self) -> str:
        """Write the loop nest: each level with the tensors that it stores, and below it its loops above 1."""
        lines: list[str] = []
        for node in self.levels:
            lines.append(f"{node.level} [{', '.join(sorted(node.keep))}]")
            for word, axis, loops in (
                ("for", "", node.temporal),
                ("par_for", " on x", node.x),
                ("par_for", " on y", node.y),
            ):
                lines += [f"  {word} {loop.dim} in [0:{loop.bound}){axis}" for loop in loops if loop.bound > 1]
        return "\n".join(lines)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the mapping as a YAML file, which `accelsim eval` and `accelsim.evaluate` read."""
        Path(path).write_text(dump_mapping(self), encoding="utf-8")


_LOOP = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*([0-9]{1,18})\s*")


def _loop(text: str) -> Loop | None:
    match = _LOOP.fullmatch(text)
    if match and int(match[2]) < 1:
        raise HintedError(f"the bound of a loop is at least 1, got {quoted(text)}")
    if match is None and (whole := _LOOP.fullmatch(text.partition(",")[0])):  # as reports and Timeloop write it
        what = f"expected a loop like K=4, got {quoted(text)}"
        raise HintedError(what, f"write {whole[0]}, and {whole[1]} under `imperfect`: the last pass is then shorter")
    return Loop(match[1], int(match[2])) if match else None


_read_loops = fields.list_of(fields.scalar(forms.pattern(_LOOP), _loop, "a loop like K=4"))
_SPATIAL: Keys = {
    "x": Key(_read_loops, "loops over the columns", "none"),
    "y": Key(_read_loops, "loops over the rows", "none"),
}
_LEVEL: Keys = {
    "level": Key(fields.name, "name of the level"),
    "keep": Key(fields.set_of(fields.identifier), "tensors that it stores", "required if there is a choice"),
    "temporal": Key(_read_loops, "temporal loops, outermost first, such as `[K=4, C=2]`", "none"),
    "spatial": Key(node_of(keys_form(_SPATIAL)), "spatial loops over the fanout", "none"),
}
_TOP: Keys = {
    "imperfect": Key(fields.set_of(fields.identifier), "dimensions with imperfect factors", "none"),
    "padded": Key(_read_loops, "padded bounds, such as `[P=56]`", "none"),
    "levels": Key(
        fields.items_of(keys_form(_LEVEL), "levels, outermost first", least=1),
        "levels, outermost first; an uneven mapping lists a level several times",
    ),
}
MAPPING_FORM: Form = keys_form(_TOP)
"""What may stand under `mapping`, as JSON Schema."""


def load_mapping(
    source: Source, architecture: Architecture, einsum: Einsum, overrides: StringMap[str, str] | None = None
) -> Mapping:
    """Read a mapping and check that it is one of this Einsum onto this architecture.

    A tile that exceeds its level or a spatial bound that exceeds the fanout is no mistake here: the model reports it.

    Parameters
    ----------
    source : str, path or dict
        YAML file with a top-level key `mapping`, or the name of one that ships; or what such a file holds, as YAML
        text of several lines or as a dict.
    architecture : Architecture
        Its levels are those of the mapping.
    einsum : Einsum
        Its dimensions are looped over, its tensors kept.
    overrides : mapping of str to str, optional
        Values of parameters that replace those in the file.

    Returns
    -------
    Mapping
        The first level keeps every tensor.

    Raises
    ------
    InputError
        With every mistake in the file and its place.
    """
    problems = Problems()
    document = fields.open_source(source, "mapping", overrides, problems)
    return problems.result(read_mapping(document.body, problems, architecture, einsum) if document else None)


def read_mapping(
    body: Node, problems: Problems, architecture: Architecture | None = None, einsum: Einsum | None = None
) -> Mapping | None:
    """Read what stands under `mapping`, or return None with every mistake reported.

    Without architecture and Einsum only its form is checked.
    """
    before = len(problems)
    top = Fields(body, problems, _TOP)
    node: ListNode | None = top.value("levels", None)
    if node is None:
        return None
    imperfect: frozenset[str] = top.value("imperfect", frozenset())
    padded = _loops(top, "padded")
    read = [_level(Fields(item, problems, _LEVEL)) for item in node.items]
    unsaid = architecture is not None and architecture.compute.operands not in ("", *(level.level for level in read))
    held = architecture.compute.holds if architecture is not None and unsaid else frozenset()
    if held and architecture is not None:  # a mapping has no choice there
        name = architecture.compute.operands
        architecture = replace(architecture, compute=replace(architecture.compute, holds=frozenset()))
    if len(problems) == before and architecture is not None and einsum is not None:
        einsum = _pad(einsum, padded, top, problems)
        _check_levels(node, read, architecture, problems)
        if imperfect:
            _check_imperfect(top.entries["imperfect"], imperfect, einsum, problems)
        _check_loops(node, read, imperfect, einsum, problems)
        read = _check_keep(node, read, architecture, einsum, problems)
        if held:
            read.append(LevelMapping(name, keep=frozenset(t.name for t in einsum.tensors if t.role in held)))
    return Mapping(tuple(read), imperfect, padded) if len(problems) == before else None


def _pad(einsum: Einsum, padded: Sequence[Loop], top: Fields, problems: Problems) -> Einsum:
    """The Einsum with padded bounds; report those that it has not, or that are smaller than its own."""
    good: dict[str, int] = {}
    for number, loop in enumerate(padded):
        where = top.entries["padded"]
        where = where.items[number] if isinstance(where, ListNode) else where
        if loop.dim not in einsum.dims:
            problems.add(where, *unknown("dimension", loop.dim, einsum.dims, einsum.name))
        elif loop.bound < einsum.dims[loop.dim]:
            what = f"{loop.dim} is {einsum.dims[loop.dim]} in {einsum.name} and cannot be padded to {loop.bound}"
            problems.add(where, what, "write a larger bound, or leave it out")
        else:
            good[loop.dim] = loop.bound
    return pad(einsum, good)


def _level(level: Fields) -> LevelMapping:
    spatial = level.inner("spatial", _SPATIAL)
    x, y = _loops(spatial, "x"), _loops(spatial, "y")
    return LevelMapping(level.value("level", ""), _loops(level, "temporal"), x, y, level.value("keep", frozenset()))


def _loops(block: Fields, key: str) -> tuple[Loop, ...]:
    """Read the loops of one block; a dimension has one loop in it at most."""
    empty: list[Loop] = []
    loops = block.value(key, empty)
    for dim in repeated([loop.dim for loop in loops]):
        block.wrong(key, f"two loops over {dim} stand in one block", "write one with their product")
    return tuple(loops)


def _check_levels(node: ListNode, read: Sequence[LevelMapping], architecture: Architecture, problems: Problems) -> None:
    """Report levels that the architecture has not, and levels that are missing or out of order.

    A level may stand there several times, one after the other, where it keeps its tensors at different loops.
    """
    before = len(problems)
    names = [level.name for level in architecture.levels]
    given = [level.level for level in read]
    for i, name in enumerate(given):
        if name not in names:
            problems.add(_at(node, i, "level"), *unknown("level", name, names, architecture.name))
        elif name in given[:i] and name != given[i - 1]:
            what = f"level '{name}' is given twice, with other levels in between"
            problems.add(_at(node, i, "level"), what, "the places where it keeps tensors stand next to each other")
        elif name in given[:i] and name == names[0]:
            what = f"level '{name}' is given twice, but the first level keeps everything at one place"
            problems.add(_at(node, i, "level"), what, "write all its loops there")
    for name in names:
        if name not in given:
            problems.add(node, f"level '{name}' is missing", "a level without loops is `- level: NAME` alone")
    if len(problems) == before and list(dict.fromkeys(given)) != names:
        what = f"the levels are out of order: {listed(given)}"
        problems.add(node, what, f"write them outermost first: {listed(names)}")


def _at(node: ListNode, index: int, *keys: str) -> Node:
    """Node below one item of a list, or the closest one that is written."""
    at: Node = node.items[index]
    for key in keys:
        at = at.entries.get(key, at) if isinstance(at, MapNode) else at
    return at


def overlong_loops(loops: Sequence[Loop], bound: int) -> list[tuple[int, int]]:
    """Loops over one dimension that are longer than they can ever get, and how far they get.

    Of all loops over a dimension of this bound, outermost first: index and the most iterations that begin inside it.

    >>> overlong_loops([Loop("K", 3), Loop("K", 4)], 7)  # the third pass over 4 would begin at 8
    [(0, 2)]
    """
    found, span = [], 1
    for index in range(len(loops) - 1, -1, -1):
        most = -(-bound // span)
        if loops[index].bound > most:
            found.append((index, most))
        span *= loops[index].bound
    return found[::-1]


def products(loops: Iterable[Loop]) -> dict[str, int]:
    """Product of the bounds of all loops over each dimension that has one."""
    found: dict[str, int] = {}
    for loop in loops:
        found[loop.dim] = found.get(loop.dim, 1) * loop.bound
    return found


def leaves_remainder(mapping: Mapping, bounds: StringMap[str, int]) -> bool:
    """Whether the loops over some dimension cover more than its bound."""
    covered = products(loop for level in mapping.levels for loop in level.loops)
    return any(covered.get(dim, 1) > bound for dim, bound in bounds.items())


def last_passes(mapping: Mapping, bounds: StringMap[str, int]) -> list[tuple[tuple[int, ...], ...]]:
    """Iterations of each loop in its last pass: fewer than its bound where it leaves a remainder.

    For each level those of its temporal loops, and of its loops over x and over y.

    >>> last_passes(Mapping((LevelMapping("DRAM", (Loop("K", 2),)), LevelMapping("RF", (Loop("K", 4),)))), {"K": 7})
    [((2,), (), ()), ((3,), (), ())]
    """
    spans = dict.fromkeys(bounds, 1)
    found = []
    for level in reversed(mapping.levels):
        passes = []
        for loops in (level.y, level.x, level.temporal):
            last = []
            for loop in reversed(loops):
                last.append((bounds[loop.dim] - 1) // spans[loop.dim] % loop.bound + 1)
                spans[loop.dim] *= loop.bound
            passes.append(tuple(reversed(last)))
        found.append(tuple(reversed(passes)))
    return found[::-1]


def idle_at_last(mapping: Mapping, bounds: StringMap[str, int]) -> list[str]:
    """Dimensions whose remainders leave compute units idle that have a place in the loops.

    >>> idle_at_last(Mapping((LevelMapping("DRAM", (Loop("K", 2),), (Loop("K", 4),)),)), {"K": 7})
    ['K']
    """
    steps = dict.fromkeys(bounds, (1, 1))  # of one unit, in a whole pass of the loops so far and in the last
    spread = dict.fromkeys(bounds, 1)
    for level, ends in reversed(list(zip(mapping.levels, last_passes(mapping, bounds), strict=True))):
        for spatial, loops, last in (
            (True, level.y, ends[2]),
            (True, level.x, ends[1]),
            (False, level.temporal, ends[0]),
        ):
            for loop, end in reversed(list(zip(loops, last, strict=True))):
                whole, at_last = steps[loop.dim]
                if spatial:
                    steps[loop.dim] = whole, whole if end > 1 else at_last
                    spread[loop.dim] *= loop.bound
                else:
                    steps[loop.dim] = loop.bound * whole, (end - 1) * whole + at_last
    return [dim for dim, bound in bounds.items() if steps[dim][1] * spread[dim] > bound]


def _check_imperfect(node: Node, imperfect: frozenset[str], einsum: Einsum, problems: Problems) -> None:
    """Report imperfect dimensions that the Einsum has not, or that can leave no remainder in it."""
    for dim in sorted(imperfect):
        if dim not in einsum.dims:
            problems.add(node, *unknown("dimension", dim, einsum.dims, einsum.name))
            continue
        rank = shared_rank(einsum, dim)
        if rank is not None:
            what = f"{dim} cannot be imperfect: it shares the rank {rank}"
            problems.add(node, what, f"leave {dim} out here; `padded: [{dim}=…]` rounds its bound up")


def _check_loops(
    node: ListNode, read: Sequence[LevelMapping], imperfect: frozenset[str], einsum: Einsum, problems: Problems
) -> None:
    for place, of_loop, what, hint in loop_mistakes(read, imperfect, einsum):
        where: Node = node
        if place is not None:
            block = _at(node, place[0], *(("temporal",) if place[1] == "temporal" else ("spatial", place[1])))
            where = block.items[place[2]] if isinstance(block, ListNode) else block
        problems.add(where if of_loop else BadNode(where.mark, node.path), what, hint)


def loop_mistakes(
    levels: Sequence[LevelMapping], imperfect: frozenset[str], einsum: Einsum
) -> Iterator[tuple[tuple[int, str, int] | None, bool, str, str]]:
    """Find loops over unknown dimensions, and dimensions whose loops do not multiply to their bound or cover it.

    Of each mistake: the level, the block (`temporal`, `x` or `y`) and the number there of the loop, or of the first one
    over the dimension, if there is any; whether it is this loop that is wrong; what is, and a hint.
    """
    found: dict[str, list[tuple[Loop, tuple[int, str, int]]]] = {dim: [] for dim in einsum.dims}
    for index, level in enumerate(levels):
        for block in ("temporal", "x", "y"):
            for at, loop in enumerate(getattr(level, block)):
                if loop.dim in found:
                    found[loop.dim].append((loop, (index, block, at)))
                else:
                    yield (index, block, at), True, *unknown("dimension", loop.dim, found, einsum.name)
    for dim, bound in einsum.dims.items():
        product = math.prod(loop.bound for loop, _ in found[dim])
        if dim in imperfect and product >= bound:
            for number, most in overlong_loops([loop for loop, _ in found[dim]], bound):
                loop, place = found[dim][number]
                times = "time" if most == 1 else "times"
                what = f"the loop {loop} runs {most} {times} at most: {dim} is {bound} in {einsum.name}"
                yield place, True, what, f"write {dim}={most}" if most > 1 else "leave it out"
        elif product != bound:
            shown = product if product < 10**18 else "more than 10^18"
            what = f"the loops over {dim} multiply to {shown}, but {dim} is {bound} in {einsum.name}"
            rank = shared_rank(einsum, dim)
            hint = f"`padded: [{dim}=…]` rounds the bound up; it shares the rank {rank}, which allows no remainder"
            hint = hint if rank is not None else f"`imperfect: [{dim}]` allows a remainder"
            if product < bound:
                more = f"write loops that multiply to {bound}, or to more, where {hint}"
                hint = more if bound % product else f"a loop {dim}={bound // product} is missing"
            yield found[dim][0][1] if found[dim] else None, False, what, hint


def _places(read: Sequence[LevelMapping], index: int) -> tuple[list[LevelMapping], frozenset[str]]:
    """The places of one level, which are neighbours of one name, and what those further out than this one keep."""
    first = last = index
    while first > 0 and read[first - 1].level == read[index].level:
        first -= 1
    while last + 1 < len(read) and read[last + 1].level == read[index].level:
        last += 1
    return list(read[first : last + 1]), frozenset().union(*(level.keep for level in read[first:index]))


def _check_keep(
    node: ListNode, read: Sequence[LevelMapping], architecture: Architecture, einsum: Einsum, problems: Problems
) -> list[LevelMapping]:
    """Report kept tensors that the architecture does not allow, and fill in `keep` where it leaves no choice."""
    by_name = {level.name: level for level in architecture.levels}
    names = [tensor.name for tensor in einsum.tensors]
    checked = []
    for i, level in enumerate(read):
        if level.level not in by_name:
            continue
        where = _at(node, i, "keep")
        given = isinstance(node.items[i], MapNode) and where is not node.items[i]
        nodes, before = _places(read, i)
        for name in sorted(level.keep.difference(names)):
            problems.add(where, *unknown("tensor", name, names, einsum.name))
        first = by_name[level.level] is architecture.levels[0]
        must = {t.name for t in einsum.tensors if first or t.role in by_name[level.level].keep}
        may = {t.name for t in einsum.tensors if first or t.role not in by_name[level.level].bypass}
        free = [name for name in names if name in may and (name not in must or len(nodes) > 1)]
        if not given and free:
            why = f"{level.level} stands here more than once" if len(nodes) > 1 else "the architecture leaves a choice"
            problems.add(where, f"'keep' is missing: {why} for {listed(free)}", "list what is kept")
        if given:
            why = "the first level keeps everything" if first else f"{level.level} always keeps it"
            kept = level.keep if first or level is not nodes[-1] else frozenset().union(*(n.keep for n in nodes))
            for name in sorted(must - kept) if first or level is nodes[-1] else ():
                problems.add(where, f"'{name}' is not listed, but {why}")
            for name in sorted(level.keep.intersection(names) - may):
                problems.add(where, f"'{name}' is listed, but {level.level} never keeps it")
            for name in sorted(level.keep & before):
                problems.add(where, f"'{name}' is listed, but {level.level} keeps it further out already")
        if level is not nodes[-1] and (level.x or level.y):
            what = f"the fanout of {level.level} lies below all that it keeps"
            problems.add(_at(node, i, "spatial"), what, f"move these loops to the last place of {level.level}")
        checked.append(level if given else replace(level, keep=frozenset(must)))
    return checked


def dump_mapping(mapping: Mapping) -> str:
    """Write a mapping as a YAML file that `load_mapping` reads back to the same mapping.

    >>> print(dump_mapping(Mapping((LevelMapping("DRAM", (Loop("K", 4),), x=(Loop("C", 2),)),))), end="")
    mapping:
      levels:
        - level: DRAM
          temporal: [K=4]
          spatial: {x: [C=2]}
    """
    lines = ["mapping:"]
    if mapping.imperfect:
        lines.append(f"  imperfect: [{', '.join(sorted(mapping.imperfect))}]")
    if mapping.padded:
        lines.append(f"  padded: [{', '.join(map(str, mapping.padded))}]")
    lines.append("  levels:")
    for i, level in enumerate(mapping.levels):
        lines.append(f"    - level: {level.level}")
        if i > 0:
            lines.append(f"      keep: [{', '.join(sorted(level.keep))}]")
        if level.temporal:
            lines.append(f"      temporal: [{', '.join(map(str, level.temporal))}]")
        axes = [f"{axis}: [{', '.join(map(str, loops))}]" for axis, loops in (("x", level.x), ("y", level.y)) if loops]
        if axes:
            lines.append(f"      spatial: {{{', '.join(axes)}}}")
    return "\n".join(lines) + "\n"
