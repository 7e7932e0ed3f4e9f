"""Fused tilings: the loops around a group, what stays in the fusing level, and the parts that each step runs.

Formulas: docs/papers/fusion.md, sections 2 and 3; `tests/fusion_oracle.py` executes the same with sets of points.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from accelsim.fusion.graph import Link
from accelsim.fusion.group import Demand, FusedDim, Group, demand
from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.constraints import Block, Constraints, Factor
from accelsim.inputs.mapping import Loop
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Einsum, Tensor


@dataclass(frozen=True, slots=True)
class FusedLoop:
    """A loop around a whole group; in each of its `steps` the last layer runs `tile` points along the dimension."""

    dim: str
    steps: int
    tile: int

    def __str__(self) -> str:
        return f"for {self.dim} in [0:{self.steps})"


@dataclass(frozen=True, slots=True)
class Border:
    """Where the tensors are that a group shares with the rest of its graph.

    Attributes
    ----------
    present : frozenset of (int, str)
        Inputs, by layer and name, that lie in the fusing level as a whole; others come from the outermost level.
    staying : frozenset of int
        Layers whose outputs stay in the fusing level as a whole.
    leaving : frozenset of int
        Layers whose outputs go to the outermost level.
    taken : int
        Storage words of the fusing level that whole tensors take, these and those of others.
    """

    present: frozenset[tuple[int, str]] = frozenset()
    staying: frozenset[int] = frozenset()
    leaving: frozenset[int] = frozenset()
    taken: int = 0


def free_border(group: Group) -> Border:
    """The border of a group all of whose inputs and outputs pass through the outermost level."""
    inner = {link.producer for link in group.inside if not link.goes_out}
    return Border(leaving=frozenset(at for at in range(len(group.layers)) if at not in inner))


@dataclass(frozen=True, slots=True)
class FusedTiling:
    """How a group is fused.

    Attributes
    ----------
    level : str
        The fusing level, which keeps the links inside.
    loops : tuple of FusedLoop
        Outermost first, each of two steps at least.
    retain : tuple of frozenset of str
        For each link inside the dimensions along which the halo stays; along others it is computed again.
    resident : tuple of frozenset of str
        For each layer the other tensors that stay in the fusing level for as long as their tile is the same.
    shared : frozenset of int
        Of the shared links those that the first of their readers fetches for all.
    ordered : bool
        Otherwise the order of the loops is open, and each tensor stays as in the order that is best for it.
    """

    level: str
    loops: tuple[FusedLoop, ...]
    retain: tuple[frozenset[str], ...]
    resident: tuple[frozenset[str], ...]
    shared: frozenset[int] = frozenset()
    ordered: bool = True

    @property
    def steps(self) -> int:
        """How often the layers run, each its part."""
        return math.prod(loop.steps for loop in self.loops)


@dataclass(frozen=True, slots=True)
class LayerPart:
    """What one layer runs in some steps of a fused tiling.

    Attributes
    ----------
    layer : int
        Its place in the group.
    bounds : tuple of int
        Bounds of the dimensions of the layer; of those that it sums, over all steps.
    arriving, present : frozenset of str
        Tensors that lie in the fusing level as a whole: those that come there in this step (or leave it, outputs), and
        those that move no word outside it.
    sums : tuple of (str, int)
        Fused loops over dimensions that the layer sums, with their steps.
    streamed : frozenset of str
        Tensors that these loops leave in place, and that pass through the fusing level in each step all the same.
    undecided : frozenset of str
        Tensors that may or may not stay there.
    """

    layer: int
    bounds: tuple[int, ...]
    arriving: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()
    sums: tuple[tuple[str, int], ...] = ()
    streamed: frozenset[str] = frozenset()
    undecided: frozenset[str] = frozenset()

    def einsum(self, group: Group) -> Einsum:
        """The part as an Einsum of its own."""
        whole = group.layers[self.layer]
        return Einsum(whole.name, dict(zip(whole.dims, self.bounds, strict=True)), whole.tensors)

    def tile(self, group: Group) -> dict[str, int]:
        """Bounds of what one step runs."""
        steps = dict(self.sums)
        dims = group.layers[self.layer].dims
        return {dim: bound // steps.get(dim, 1) for dim, bound in zip(dims, self.bounds, strict=True)}


@dataclass(frozen=True, slots=True)
class Run:
    """A part with how often it runs.

    `reserved` are the storage words of the fusing level that it cannot use, `own` those of the tiles that it holds
    there as a whole, and of one word of each other tensor that the level must keep.
    """

    part: LayerPart
    count: int
    reserved: int
    own: int


@dataclass(frozen=True, slots=True)
class Room:
    """Words of a link in the fusing level."""

    live: int  # from its producer, or the first of its readers, to the last of them: the tile, and all halos that stay
    between: int  # at other times: the halos that stay


Rules = tuple[Constraints, ...]
"""What constraints ask of the parts of each layer."""


def fusing_levels(architecture: Architecture, group: Group) -> dict[str, int] | str:
    """Levels that can keep the links inside a group with their places, outermost first; or why there is none.

    Such a level has one instance, one size for all tensors and no compression, may keep each link both as an output and
    as an input, and no level outside it has to keep one. Constraints may ask so too.
    """

    def asked(what: str, several: Sequence[Level]) -> str:
        """Links that constraints ask one of several levels to keep, or to bypass."""
        return " and ".join(
            f"{name} of {layer.name}"
            for at, (layer, rules) in enumerate(zip(group.layers, group.rules, strict=True))
            for name in sorted(group.internal(at))
            if any(name in getattr(rules.of(level.name), what) for level in several)
        )

    roles = {"Outputs"} | {
        group.layers[at].tensor(name).role for at in range(len(group.layers)) for _, name in group.read(at)
    }
    machines = [architecture.for_operation(layer.operation) for layer in group.layers]
    found, why = dict[str, int](), []
    for index, level in enumerate(architecture.levels[1:], 1):
        if others := {each.compute.name: None for each in machines if len(each.levels) <= index}:
            why.append(f"{level.name} lies beside {listed(others)}")
        elif reason := unfit(architecture, index):
            why.append(reason)
        elif roles & level.bypass:
            why.append(f"{level.name} does not store {' and '.join(sorted(roles & level.bypass))}")
        elif names := asked("bypass", [level]):
            why.append(f"constraints require {level.name} to bypass {names}")
        elif names := asked("keep", architecture.levels[:index]):
            why.append(f"constraints ask a level outside {level.name} to keep {names}")
        elif any(roles & outer.keep for outer in architecture.levels[1:index]):
            why.append(f"a level outside {level.name} has to store what would stay in it")
        else:
            found[level.name] = index
    return found or f"no level of {architecture.name} can store an intermediate: {'; '.join(why) or 'it has no buffer'}"


def unfit(architecture: Architecture, index: int) -> str:
    """Why no tensor can stay in a level between layers, whatever the tensor; empty if one can."""
    level = architecture.levels[index]
    if architecture.instances(index) > 1:
        return f"{level.name} has {architecture.instances(index)} instances"
    if level.compression:
        return f"{level.name} compresses what it holds"
    return f"{level.name} has a size for each role" if level.size_words is None else ""


def storage_words(tensor: Tensor, level: Level) -> int:
    """Storage words that an element takes at a level."""
    return int(level.element_words(tensor))


def orders_of(group: Group, loops: Sequence[FusedLoop]) -> Iterator[tuple[FusedLoop, ...]]:
    """Orders of fused loops: for each layer, those over dimensions that it sums are innermost."""
    dims = {dim.name: dim for dim in group.dims}
    for order in itertools.permutations(loops):
        flags = [[at in dims[loop.dim].summed for loop in order] for at in range(len(group.layers))]
        if all(each == sorted(each) for each in flags):
            yield order


def rules_inside(architecture: Architecture, group: Group, loops: Sequence[FusedLoop]) -> Rules | None:
    """What is left to ask of each layer's parts inside fused loops; None if these break it.

    Fused loops stand outermost in the temporal block of the outermost level, whose tile is all of the layer. Those over
    dimensions that a layer sums belong to its parts.
    """
    found, name, dims = [], architecture.levels[0].name, {dim.name: dim for dim in group.dims}
    for layer, rules in enumerate(group.rules):
        asked, einsum = rules.of(name), group.layers[layer]
        outer = [loop for loop in loops if layer not in dims[loop.dim].summed]
        inner = [loop for loop in loops if layer in dims[loop.dim].summed]
        temporal = asked.temporal.inside(loops_of(group, layer, outer), einsum.dims)
        if temporal is None:
            return None
        if inner:
            temporal = _around(temporal, loops_of(group, layer, inner), einsum.dims)
            if temporal is None:
                return None
        left = replace(asked, temporal=temporal, sizes=(), words=())
        found.append(replace(rules, levels=(left, *(each for each in rules.levels if each.level != name))))
    return tuple(found)


def _around(block: Block, loops: Sequence[Loop], dims: Iterable[str]) -> Block | None:
    """What is asked of a block that has some loops outermost; None if they break what is asked already.

    `dims`: dimensions of the Einsum. Those whose loops would have to stand outside get none.

    >>> left = _around(Block(outer=("M", "K"), inner=("N",)), (Loop("K", 2),), ("M", "N", "K"))
    >>> left and (left.outer, left.inner, [str(factor) for factor in left.factors])
    (('K', 'M'), ('N',), ['K=2', 'M=1'])
    """
    names = tuple(loop.dim for loop in loops)
    if not block.orders(tuple(loops)) or any(not block.allows(loop.dim, loop.bound) for loop in loops):
        return None
    last = max(map(block.place, names))
    exact = tuple(Factor(loop.dim, loop.bound, loop.bound) for loop in loops)
    none = tuple(Factor(dim, 1, 1) for dim in dims if dim not in names and block.place(dim) < last)
    outer, inner = (tuple(dim for dim in order if dim not in names) for order in (block.outer, block.inner))
    return replace(block, factors=(*block.factors, *exact, *none), outer=(*names, *outer), inner=inner)


def loops_of(group: Group, layer: int, loops: Sequence[FusedLoop]) -> tuple[Loop, ...]:
    """Fused loops as loops over the dimensions of a layer."""
    dims = {dim.name: dim.dims[layer] for dim in group.dims}
    return tuple(Loop(dims[loop.dim], loop.steps) for loop in loops)


Option = tuple[str, int, str]
"""What may be kept: the `halo` of a link along a dimension, a `resident` tensor of a layer, or a `shared` link."""


def options_of(
    group: Group, border: Border, level: Level, loops: Sequence[FusedLoop], *, ordered: bool = True
) -> list[Option]:
    """All that may be kept inside some loops, or in any order of them, those first that take most words."""
    dims = {dim.name: dim for dim in group.dims}
    steps = {loop.dim: loop.steps for loop in loops}
    found: list[tuple[float, Option]] = []
    for link, its in enumerate(group.inside):
        if its.producer not in border.staying:
            found += [(0.0, ("halo", link, dim)) for dim, many in steps.items() if has_halo(dims[dim], many, link)]
    for layer, einsum in enumerate(group.layers):
        tile = dict(group.needed[layer])
        for dim, many in steps.items():
            tile[dims[dim].dims[layer]] //= many
        for tensor in einsum.tensors:
            free = may_stay(group, border, layer, tensor, level)
            if free and still_in(group, layer, tensor, loops, ordered=ordered):
                found.append((-float(tensor.words(tile)), ("resident", layer, tensor.name)))
    for link, its in enumerate(group.shared):
        roles = {group.layers[r.layer].tensor(r.tensor).role for r in its.readers}
        if not roles & level.bypass and all((r.layer, r.tensor) not in border.present for r in its.readers):
            found.append((0.0, ("shared", link, "")))
    return [option for _, option in sorted(found)]


def has_halo(dim: FusedDim, steps: int, link: int) -> bool:
    """Whether neighbouring tiles of a link have words in common along a fused dimension."""
    return demand(dim, steps, (False,) * len(dim.moves)).halos[link] > 0


def may_stay(group: Group, border: Border, layer: int, tensor: Tensor, level: Level) -> bool:
    """Whether the level may keep a tensor that is no link inside and does not lie there anyway."""
    if (tensor.output and layer in border.staying) or (layer, tensor.name) in border.present:
        return False
    return tensor.name not in group.internal(layer) and tensor.role not in level.bypass


def still_in(
    group: Group, layer: int, tensor: Tensor, loops: Sequence[FusedLoop], *, ordered: bool = True
) -> frozenset[str]:
    """Innermost loops that leave the tile of a tensor in place; where their order is open, all that do."""
    moved = {dim.name for dim in group.dims if dim.dims[layer] in tensor.dims}
    if not ordered:
        return frozenset(loop.dim for loop in loops) - moved
    return frozenset(loop.dim for loop in itertools.takewhile(lambda loop: loop.dim not in moved, reversed(loops)))


def make_tiling(
    group: Group,
    border: Border,
    level: str,
    loops: Sequence[FusedLoop],
    kept: Iterable[Option],
    *,
    ordered: bool = True,
) -> FusedTiling:
    """A fused tiling that keeps some options."""
    several = set(kept)
    every = frozenset(loop.dim for loop in loops)
    retain = tuple(
        every
        if link.producer in border.staying
        else frozenset(d for kind, at, d in several if (kind, at) == ("halo", n))
        for n, link in enumerate(group.inside)
    )
    resident = tuple(
        frozenset(name for kind, at, name in several if (kind, at) == ("resident", n)) for n in range(len(group.layers))
    )
    shared = frozenset(at for kind, at, _ in several if kind == "shared")
    return FusedTiling(level, tuple(loops), retain, resident, shared, ordered)


def demands(group: Group, tiling: FusedTiling) -> dict[str, Demand]:
    """What each fused dimension asks for, step by step; one of no loop has one step."""
    steps = {loop.dim: loop.steps for loop in tiling.loops}
    return {
        dim.name: demand(dim, steps.get(dim.name, 1), tuple(dim.name in kept for kept in tiling.retain))
        for dim in group.dims
    }


def shares(group: Group, tiling: FusedTiling, link: Link) -> bool:
    """Whether the first reader of a shared link fetches all that the others ask for in the same step.

    It reads all that they do; every fused loop moves it for all readers along the same rank, and none of the others
    asks for a word that is not in the tile that the first has then, halos that stay included.
    """
    needs, dims = demands(group, tiling), {dim.name: dim for dim in group.dims}
    first, *others = link.readers
    ranks = [[rank.terms[0][0] for rank in reader.ranks] for reader in link.readers]
    sides = [[group.needed[r.layer][dim] for dim in its] for its, r in zip(ranks, link.readers, strict=True)]
    if any(its > most for each in sides for its, most in zip(each, sides[0], strict=True)):
        return False
    for loop in tiling.loops:
        dim = dims[loop.dim]
        places = {tuple(names).index(dim.dims[r.layer]) if dim.dims[r.layer] in names else -1
                  for names, r in zip(ranks, link.readers, strict=True)}  # fmt: skip
        if len(places) > 1 or -1 in places:
            return False
        if not all(needs[loop.dim].covers(first.layer, other.layer) for other in others):
            return False
    return True


def rooms(group: Group, tiling: FusedTiling, border: Border, undecided: frozenset[Option] = frozenset()) -> list[Room]:
    """Words that each link inside takes in the fusing level beside what the border takes.

    `undecided`: halos that take no room, though nothing is asked of the layers before because of them.
    """
    needs, dims = demands(group, tiling), {dim.name: dim for dim in group.dims}
    found = []
    for at, link in enumerate(group.inside):
        if link.producer in border.staying:
            found.append(Room(0, 0))
            continue
        sides, moved = [], set()
        for loop in tiling.loops:
            dim = dims[loop.dim]
            name = dim.dims[link.producer or 0]
            moved.add(name)
            stays = loop.dim in tiling.retain[at] and ("halo", at, loop.dim) not in undecided
            halo = needs[loop.dim].halos[at] if stays else 0
            sides.append((needs[loop.dim].tiles[at], halo, whole_rank(link, name)))
        names = [rank.producer for rank in link.readers[0].ranks if rank.producer not in moved]
        found.append(_nested(math.prod(whole_rank(link, name) for name in names), sides))
    return found


def whole_rank(link: Link, name: str) -> int:
    """Words along a rank from the first that any reader asks for, or that leaves, to the last, padding included."""
    ranks = [rank for reader in link.readers for rank in reader.ranks if rank.producer == name]
    ends = [rank.extent for rank in ranks if link.goes_out]
    return max([*ends, *(rank.box - rank.before for rank in ranks)]) + max(rank.before for rank in ranks)


def shared_room(group: Group, tiling: FusedTiling, link: int) -> Room:
    """Words that a shared link takes where its first reader fetches it for all."""
    if link not in tiling.shared:
        return Room(0, 0)
    needs, dims = demands(group, tiling), {dim.name: dim for dim in group.dims}
    first, *others = group.shared[link].readers
    written = group.written(first.layer)
    sides, moving = [], set()
    for loop in tiling.loops:
        name = dims[loop.dim].dims[first.layer]
        moving.add(name)
        tile, halo = needs[loop.dim].kept_tile(first.layer, tuple(other.layer for other in others))
        kept = written is not None and loop.dim in tiling.retain[written]
        sides.append((tile, halo if kept else 0, group.needed[first.layer][name]))
    ranks = [rank.terms[0][0] for rank in first.ranks]
    return _nested(math.prod(group.needed[first.layer][dim] for dim in ranks if dim not in moving), sides)


def _nested(fixed: int, sides: Sequence[tuple[int, int, int]]) -> Room:
    """Room of a tensor, from tile, halo that stays and whole extent along each loop, outermost first.

    Inside a halo along a loop lies all that the loops further in go through.
    """
    live, between, inside = 1, 0, 1
    for tile, halo, whole in reversed(sides):
        live = halo * inside + (tile - halo) * live
        between = halo * inside + (tile - halo) * between
        inside *= whole
    return Room(fixed * live, fixed * between)


def runs(
    group: Group, tiling: FusedTiling, border: Border, level: Level, undecided: frozenset[Option] = frozenset()
) -> list[Run]:
    """Parts that the layers run in all steps together, equal ones counted.

    `undecided`: options among those that the tiling keeps that may be given up. They take no room, and what they leave
    out is not counted.
    """
    counts: Counter[LayerPart] = Counter()
    needs, dims = demands(group, tiling), {dim.name: dim for dim in group.dims}
    maybe = [
        frozenset(n for kind, at, n in undecided if (kind, at) == ("resident", i)) for i in range(len(group.layers))
    ]
    for layer, einsum in enumerate(group.layers):
        outer = [loop for loop in tiling.loops if layer not in dims[loop.dim].summed]
        sums = [loop for loop in tiling.loops if layer in dims[loop.dim].summed]
        inner = {t.name: still_in(group, layer, t, tiling.loops, ordered=tiling.ordered) for t in einsum.tensors}
        fixed = _held_always(group, tiling, border, layer)
        matter = frozenset[str]().union(*(inner[n] for n in tiling.resident[layer] if not einsum.tensor(n).output))
        kinds = [needs[loop.dim].lengths(loop.dim in matter)[layer] for loop in outer]
        base = dict(group.needed[layer])
        streamed = frozenset(
            t.name
            for t in einsum.tensors
            if sums and tiling.ordered and inner[t.name] and t.name not in tiling.resident[layer] | fixed[0] | fixed[1]
        )
        for dim in group.dims:
            if dim.name not in {loop.dim for loop in tiling.loops}:
                base[dim.dims[layer]] = needs[dim.name].runs[0][layer]
        for chosen in itertools.product(*(kind.items() for kind in kinds)):
            bounds = base | {dims[loop.dim].dims[layer]: n for loop, ((n, _), _) in zip(outer, chosen, strict=True)}
            if not all(bounds.values()):
                continue
            later = {loop.dim for loop, ((_, first), _) in zip(outer, chosen, strict=True) if not first}
            arriving = {n for n in tiling.resident[layer] if not inner[n] & later or einsum.tensor(n).output}
            part = LayerPart(
                layer,
                tuple(bounds.values()),
                frozenset(arriving) | fixed[0],
                (tiling.resident[layer] - arriving) | fixed[1],
                tuple((dims[loop.dim].dims[layer], loop.steps) for loop in sums),
                streamed,
                maybe[layer],
            )
            counts[part] += math.prod(many for _, many in chosen)
    return _with_room(group, tiling, border, level, counts, undecided)


def _held_always(
    group: Group, tiling: FusedTiling, border: Border, layer: int
) -> tuple[frozenset[str], frozenset[str]]:
    """Tensors of a layer, besides resident ones, that lie in the level as a whole: some come or go, others stay."""
    einsum = group.layers[layer]
    arriving, present = set[str](), {name for _, name in group.read(layer)}
    present |= {name for at, name in border.present if at == layer}
    written = group.written(layer) is not None
    if written or layer in border.staying:
        (arriving if layer in border.leaving else present).add(einsum.output.name)
    for at in tiling.shared:
        for number, reader in enumerate(group.shared[at].readers):
            if reader.layer == layer:
                (present if number else arriving).add(reader.tensor)
    return frozenset(arriving - present), frozenset(present)


def _with_room(
    group: Group,
    tiling: FusedTiling,
    border: Border,
    level: Level,
    counts: Counter[LayerPart],
    undecided: frozenset[Option],
) -> list[Run]:
    """Parts with the storage words that others leave them, and those that they take at least."""
    lean = replace(tiling, shared=frozenset(at for at in tiling.shared if ("shared", at, "") not in undecided))
    loose = {(r.layer, r.tensor) for at in tiling.shared - lean.shared for r in group.shared[at].readers}
    words = [{t.name: storage_words(t, level) for t in layer.tensors} for layer in group.layers]
    resident: dict[tuple[int, str], int] = {}
    held: list[tuple[LayerPart, int, int, int]] = []
    for part, count in counts.items():
        tile, its, own, least = part.tile(group), words[part.layer], 0, 0
        for tensor in group.layers[part.layer].tensors:
            name = tensor.name
            if (name in part.arriving or name in part.present) and name not in part.undecided:
                if (part.layer, name) in loose:
                    least += its[name] if tensor.role in level.keep else 0
                    continue
                taken = tensor.words(tile) * its[name]
                own += taken
                if name in tiling.resident[part.layer]:
                    resident[part.layer, name] = max(resident.get((part.layer, name), 0), taken)
            elif tensor.role in level.keep:
                least += its[name]
        held.append((part, count, own, least))
    always = sum(resident.values()) + border.taken
    reserved = [always] * len(group.layers)
    several = [
        (link, room, storage_words(group.layers[link.producer or 0].output, level))
        for link, room in zip(group.inside, rooms(group, tiling, border, undecided), strict=True)
    ]
    for at, link in enumerate(group.shared):
        reader = link.readers[0]
        several.append((link, shared_room(group, lean, at), words[reader.layer][reader.tensor]))
    for link, room, width in several:
        places = link.places()
        for layer in range(len(group.layers)):
            reserved[layer] += width * (room.live if places[0] <= layer <= places[-1] else room.between)
    return [Run(part, count, reserved[part.layer] - own, own + least) for part, count, own, least in held]
