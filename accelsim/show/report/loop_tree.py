"""The loop tree of a fused group: fused loops, what the fusing level keeps inside how many of them, and the layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accelsim.fusion.result import FusedPart, GroupResult
from accelsim.fusion.tiling import FusedLoop, demands, has_halo, still_in
from accelsim.inputs.units import format_bits, listed
from accelsim.inputs.workload import OPERATIONS
from accelsim.show.report import count, percent


@dataclass(frozen=True, slots=True)
class Kept:
    """A tensor that the fusing level keeps."""

    tensor: str  # its name and layer; of an input that several layers read, each of its names
    role: str
    depth: int  # fused loops around it: it stays while those further in go on
    layers: tuple[int, ...]  # places of those that write and read it; -1: before the group, one behind the last: after
    words: int | None  # its tile with the halos that stay; None: all of it
    size_bits: int | None
    use: str  # what it stays for
    halo: str  # how a halo is had again

    def __str__(self) -> str:
        if self.words is None or self.size_bits is None:
            return f"all of {self.tensor}{self.use}"
        return f"{self.tensor}{self.use}: {count(self.words)} words, {format_bits(self.size_bits)}"


Names = Sequence[tuple[int, str]]
"""What layers, by their place, call a tensor."""


def kept_tensors(found: GroupResult) -> list[Kept]:
    """Each tensor that the fusing level keeps, outermost first, and then in the order in which layers touch them."""
    group, tiling, dims = found.group, found.tiling, {dim.name: dim for dim in found.group.dims}
    fetched = {(r.layer, r.tensor) for number in tiling.shared for r in group.shared[number].readers}
    several = [_shared(found, number) for number in tiling.shared]
    several += [_kept(found, names, 0, [-1], None, " from an earlier layer") for names in _present(found)]
    for at, layer in enumerate(group.layers):
        written, output = group.written(at), [(at, layer.output.name)]
        readers = [] if written is None else [reader.layer for reader in group.inside[written].readers]
        if at in found.border.staying:
            several.append(_kept(found, output, 0, [*readers, len(group.layers)], None, " for later layers"))
        elif written is not None:
            again = [loop.dim for loop in tiling.loops if has_halo(dims[loop.dim], loop.steps, written)]
            stays = [dim for dim in again if dim in tiling.retain[written]]
            depth, room = _outside(tiling.loops, stays), found.rooms[written]
            size = _size(found, room.between, layer.output.bits)
            halo = [f"retained along {listed(sorted(stays))} ({size})"] * bool(stays)
            halo += [f"recomputed along {listed(sorted(set(again) - set(stays)))}"] * (len(stays) < len(again))
            use = f" for {listed(group.layers[reader].name for reader in readers)}"
            several.append(_kept(found, output, depth, readers, room.live, use, ", ".join(halo)))
        for tensor in layer.tensors:
            if tensor.name in tiling.resident[at] and (at, tensor.name) not in fetched:
                words = max(tensor.words(part.part.tile(group)) for part in found.parts if part.part.layer == at)
                depth = len(tiling.loops) - len(still_in(group, at, tensor, tiling.loops))
                several.append(_kept(found, [(at, tensor.name)], depth, [], words))
    return sorted(several, key=lambda kept: (kept.depth, kept.layers))


def _kept(
    found: GroupResult, names: Names, depth: int, more: Iterable[int], words: int | None, use: str = "", halo: str = ""
) -> Kept:
    """A tensor by its names; `more`: layers that touch it, beside those."""
    layers, (at, name) = found.group.layers, names[0]
    tensor = layers[at].tensor(name)
    if tensor.output and any(part.part.sums for part in found.parts if part.part.layer == at):
        use = f" and its partial sums{use}"
    bits = None if words is None else _bits(found, words, tensor.bits)
    said = " = ".join(f"{name} of {layers[at].name}" for at, name in names)
    places = tuple(sorted({*more, *(place for place, _ in names)}))
    return Kept(said, tensor.role, depth, places, words, bits, use, halo and f"halo {halo}")


def _bits(found: GroupResult, words: int, bits: int = 1) -> int:
    """What words of so many bits take in the fusing level [bit]."""
    wide = next(level.word_bits for level in found.parts[0].result.levels if level.level == found.tiling.level)
    return words * -(-bits // wide) * wide


def _size(found: GroupResult, words: int, bits: int = 1) -> str:
    return format_bits(_bits(found, words, bits))


def _present(found: GroupResult) -> Iterable[Names]:
    """Names of each input that lies in the fusing level before the group."""
    first = {(r.layer, r.tensor): link.readers[0] for link in found.group.shared for r in link.readers}
    same: dict[object, list[tuple[int, str]]] = {}
    for name in sorted(found.border.present):
        same.setdefault(first.get(name, name), []).append(name)
    return same.values()


def _shared(found: GroupResult, number: int) -> Kept:
    """An input that the first of several readers fetches for all."""
    group, tiling, room = found.group, found.tiling, found.shared(number)
    readers = group.shared[number].readers
    names = [(reader.layer, reader.tensor) for reader in readers]
    places, written, needs = tuple(at for at, _ in names[1:]), group.written(names[0][0]), demands(group, tiling)
    retained = tiling.retain[written] if room.between and written is not None else ()
    stays = [dim for dim in retained if needs[dim].kept_tile(names[0][0], places)[1]]
    halo = f"retained along {listed(sorted(stays))}" if stays else ""
    return _kept(found, names, _outside(tiling.loops, stays), [], room.live, ", fetched once", halo)


def _outside(loops: Sequence[FusedLoop], dims: Sequence[str]) -> int:
    """Fused loops outside all of those over some dimensions."""
    return next((depth for depth, loop in enumerate(loops) if loop.dim in dims), len(loops))


def loop_tree_table(found: GroupResult) -> list[dict[str, Any]]:
    """Rows of `plot_loop_tree`: each tensor that is kept, inside how many fused loops (`depth`), and for which layers.

    `words` and `size_bits` are empty where all of it stays.
    """
    about, names = {"group": found.group.name, "level": found.tiling.level}, [each.name for each in found.group.layers]
    return [
        {**about, **asdict(kept), "layers": [names[at] for at in kept.layers if 0 <= at < len(names)]}
        for kept in kept_tensors(found)
    ]


def loop_line(found: GroupResult, loop: FusedLoop) -> str:
    """A fused loop, and what a step of it has of the last layer."""
    last = found.group.layers[-1]
    of = f"of {last.output.name}" if loop.dim in last.output.dims else f"that {last.name} sums"
    return f"{loop}: {loop.tile} of {last.dims[loop.dim]} {loop.dim} {of}"


def layer_line(found: GroupResult, at: int) -> str:
    """A layer with the unit that runs it, where it does not multiply and add, and what it computes again."""
    einsum, mine = found.group.layers[at], [part for part in found.parts if part.part.layer == at]
    done = sum(part.count * part.result.macs for part in mine)
    notes = [f"{einsum.operation} on {mine[0].result.compute}"] * (einsum.operation != OPERATIONS[0])
    notes += [f"{percent(done / einsum.macs)} of its MACs"] * (done != einsum.macs)
    return einsum.name + (f" ({', '.join(notes)})" if notes else "")


def tile_of(found: GroupResult, part: FusedPart) -> str:
    """A part: its length along the dimensions that fused loops move."""
    at, inside = part.part.layer, {loop.dim for loop in found.tiling.loops}
    steps = {dim: f" in {many} steps" for dim, many in part.part.sums if many > 1}
    moved = [dim.dims[at] for dim in found.group.dims if dim.name in inside]
    return ", ".join(f"{dim} {part.result.bounds[dim]}{steps.get(dim, '')}" for dim in moved) or "whole layer"


def tree_lines(found: GroupResult) -> Iterator[str]:
    """The loop tree as text: fused loops outermost first, what is kept above what uses it, and layers as they run.

    Below each layer stand its parts: how many, their tile, and what of them passes the outermost level.
    """
    kept, level, number, indent = kept_tensors(found), found.tiling.level, 0, ""
    if found.border.taken:
        yield f"{_size(found, found.border.taken)} of {level} store whole tensors, those of other layers included"
    for depth, loop in enumerate(found.tiling.loops):
        yield from _keeps(level, indent, (each for each in kept if each.depth == depth))
        yield indent + loop_line(found, loop)
        indent += "  "
    inner = [each for each in kept if each.depth == len(found.tiling.loops)]
    for at in range(len(found.group.layers)):
        yield from _keeps(level, indent, (each for each in inner if max(0, each.layers[0]) == at))
        yield indent + layer_line(found, at)
        for part in (part for part in found.parts if part.part.layer == at):
            number += 1
            what = "; ".join([tile_of(found, part), *filter(None, [", ".join(_moves(found, part))])])
            yield f"{indent}  {number:2}  {part.count} x {what}"


def _keeps(level: str, indent: str, kept: Iterable[Kept]) -> Iterator[str]:
    for each in kept:
        yield f"{indent}{level} stores {each}"
        yield from [f"{indent}  {each.halo}"] if each.halo else []


def _moves(found: GroupResult, part: FusedPart) -> Iterator[str]:
    """What of a part passes the outermost level."""
    einsum, its = found.group.layers[part.part.layer], part.part
    if names := listed(each.name for each in einsum.tensors if not each.output and each.name not in its.present):
        yield f"fetches {names}"
    if its.layer in found.border.leaving:
        sums = ", whose partial sums come back" if einsum.output.name in its.streamed else ""
        yield f"writes {einsum.output.name} to {found.parts[0].result.levels[0].level}{sums}"
