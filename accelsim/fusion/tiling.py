"""Fused tilings: the loops around a chain, what stays in the fusing level, and the parts that each step runs.

Formulas: docs/papers/fusion.md, sections 2 and 3; `tests/fusion_oracle.py` executes the same with sets of points.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from accelsim.fusion.chain import Chain, Demand, demand, word_by_word
from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.divisors import divisors
from accelsim.inputs.mapping import Loop
from accelsim.inputs.workload import Einsum, Tensor


@dataclass(frozen=True, slots=True)
class FusedLoop:
    """A loop around the whole chain; in each of its `steps` the last layer writes `tile` points along the dimension."""

    dim: str
    steps: int
    tile: int

    def __str__(self) -> str:
        return f"for {self.dim} in [0:{self.steps})"


@dataclass(frozen=True, slots=True)
class FusedTiling:
    """How a chain is fused.

    Attributes
    ----------
    level : str
        The fusing level, which keeps the intermediates.
    loops : tuple of FusedLoop
        Outermost first, each of two steps at least.
    retain : tuple of frozenset of str
        For each intermediate the dimensions along which the halo stays; along others it is computed again.
    resident : tuple of frozenset of str
        For each layer the other tensors that stay in the fusing level for as long as their tile is the same.
    shortcut : bool
        The first layer's input stays in the fusing level until the layer that reads it again has run.
    """

    level: str
    loops: tuple[FusedLoop, ...]
    retain: tuple[frozenset[str], ...]
    resident: tuple[frozenset[str], ...]
    shortcut: bool = False

    @property
    def steps(self) -> int:
        """How often the layers run, each its part."""
        return math.prod(loop.steps for loop in self.loops)


@dataclass(frozen=True, slots=True)
class LayerPart:
    """What one layer runs in some steps of a fused tiling."""

    layer: int  # its place in the chain
    bounds: tuple[int, ...]  # bounds of the dimensions of the layer
    # resident tensors that are fetched in this step, and those that are there from an earlier one; the input that a
    # shortcut keeps arrives in the first layer and is present where it is read again
    arriving: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()

    def einsum(self, chain: Chain) -> Einsum:
        """The part as an Einsum of its own."""
        whole = chain.layers[self.layer]
        return Einsum(whole.name, dict(zip(whole.dims, self.bounds, strict=True)), whole.tensors)


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
    """Words of an intermediate, or of what a shortcut keeps, in the fusing level."""

    # while its producer or consumer runs, or from the first reader of a shortcut to the last: the tile, and all halos
    # that stay
    live: int
    between: int  # at other times: the halos that stay


Rules = tuple[Constraints, ...]
"""What constraints ask of the parts of each layer."""


def fusing_levels(architecture: Architecture, chain: Chain) -> dict[str, int] | str:
    """Levels that can keep the intermediates of a chain with their places, outermost first; or why there is none.

    Such a level has one instance, one size for all tensors and no compression, may keep each intermediate both as an
    output and as an input, and no level outside it has to keep one. Constraints may ask so too.
    """

    def asked(what: str, several: Sequence[Level]) -> str:
        """Intermediates that constraints ask one of several levels to keep, or to bypass."""
        return " and ".join(
            f"{name} of {layer.name}"
            for at, (layer, rules) in enumerate(zip(chain.layers, chain.rules, strict=True))
            for name in chain.intermediates(at)
            if any(name in getattr(rules.of(level.name), what) for level in several)
        )

    roles = {"Outputs"} | {
        layer.tensor(link.tensor).role for layer, link in zip(chain.layers[1:], chain.links, strict=True)
    }
    found, why = dict[str, int](), []
    for index, level in enumerate(architecture.levels[1:], 1):
        if architecture.instances(index) > 1:
            why.append(f"{level.name} has {architecture.instances(index)} instances")
        elif level.compression:
            why.append(f"{level.name} compresses what it holds")
        elif level.size_words is None:
            why.append(f"{level.name} has a size for each role")
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


def storage_words(tensor: Tensor, level: Level) -> int:
    """Storage words that an element takes at a level."""
    return int(level.element_words(tensor))


def loop_sets(chain: Chain) -> Iterator[list[FusedLoop]]:
    """Every set of fused loops: any divisor of each dimension as its tile."""
    for chosen in itertools.product(*(divisors(dim.bound) for dim in chain.dims)):
        yield [
            FusedLoop(dim.name, dim.bound // tile, tile)
            for dim, tile in zip(chain.dims, chosen, strict=True)
            if tile < dim.bound
        ]


def most_tilings(chain: Chain) -> int:
    """How many fused tilings a chain has at most, at one level, not counting what a shortcut keeps.

    >>> from accelsim import load_workload
    >>> from accelsim.fusion.chain import make_chain
    >>> block = {layer.name: layer for layer in load_workload("mobilenet_v2").layers}
    >>> most_tilings(make_chain([block["b7_depthwise"], block["b7_project"]], ["Inputs"]))
    200
    """
    others = sum(len(layer.tensors) - 1 for layer in chain.layers) - len(chain.links)  # inputs that may stay
    halos = {dim.name: sum(map(dim.overlaps, range(len(chain.links)))) for dim in chain.dims}
    return sum(
        math.factorial(len(loops)) << (sum(halos[loop.dim] for loop in loops) + others) for loops in loop_sets(chain)
    )


def rules_inside(architecture: Architecture, chain: Chain, loops: Sequence[FusedLoop]) -> Rules | None:
    """What is left to ask of each layer's parts inside fused loops; None if these break it.

    Fused loops stand outermost in the temporal block of the outermost level, whose tile is all of the layer.
    """
    found, name = [], architecture.levels[0].name
    for layer, rules in enumerate(chain.rules):
        asked = rules.of(name)
        temporal = asked.temporal.inside(loops_of(chain, layer, loops), chain.layers[layer].dims)
        if temporal is None:
            return None
        left = replace(asked, temporal=temporal, sizes=(), words=())
        found.append(replace(rules, levels=(left, *(each for each in rules.levels if each.level != name))))
    return tuple(found)


def loops_of(chain: Chain, layer: int, loops: Sequence[FusedLoop]) -> tuple[Loop, ...]:
    """Fused loops as loops over the dimensions of a layer."""
    dims = {dim.name: dim.dims[layer] for dim in chain.dims}
    return tuple(Loop(dims[loop.dim], loop.steps) for loop in loops)


def tilings_of(chain: Chain, level: Level, loops: tuple[FusedLoop, ...]) -> Iterator[FusedTiling]:
    """Every fused tiling with these loops."""
    dims = {dim.name: dim for dim in chain.dims}
    free = [(link, loop.dim) for link in range(len(chain.links)) for loop in loops if dims[loop.dim].overlaps(link)]
    stay = [(i, t.name) for i in range(len(chain.layers)) for t in _may_stay(chain, i, loops, level)]
    for kept in _subsets(free):
        retain = tuple(frozenset(d for link, d in kept if link == i) for i in range(len(chain.links)))
        for held in _subsets(stay):
            resident = tuple(frozenset(t for i, t in held if i == layer) for layer in range(len(chain.layers)))
            tiling = FusedTiling(level.name, loops, retain, resident)
            if keeps_shortcut(chain, tiling, level):
                yield replace(tiling, shortcut=True)
            yield tiling


def keeps_shortcut(chain: Chain, tiling: FusedTiling, level: Level) -> bool:
    """Whether a level can keep the first layer's input until it is read again, at the same words.

    Both layers read it word by word, every fused loop moves it for both along the same rank, and in each step the
    second asks for no word that is not in the tile that the first intermediate has.
    """
    if chain.shortcut is None:
        return False
    at = chain.shortcut.layer
    tensors = chain.layers[0].tensor(chain.shortcut.tensor), chain.layers[at].tensor(chain.shortcut.again)
    first, second = (word_by_word(chain.layers[i], t.name) for i, t in zip((0, at), tensors, strict=True))
    if first is None or second is None or any(tensor.role in level.bypass for tensor in tensors):
        return False
    needs, dims = demands(chain, tiling), {dim.name: dim for dim in chain.dims}
    for loop in tiling.loops:
        dim = dims[loop.dim]
        if (dim.dims[0], dim.dims[at]) not in {(a, b) for (a, _), (b, _) in zip(first, second, strict=True)}:
            return False
        for spans, lengths in zip(needs[loop.dim].requested, needs[loop.dim].runs, strict=True):
            (low, high), end = spans[0], spans[at][1]
            if lengths[at] and not low <= end - lengths[at] < end <= high:
                return False
    return True


def least_room(
    architecture: Architecture, chain: Chain, level: str, loops: Sequence[FusedLoop]
) -> Iterator[tuple[FusedTiling, Rules]]:
    """Fused tilings at a level, with some loops in any order, and what constraints leave to ask of the parts in them.

    Without those that need no less room than another one with the same parts: the order of the loops decides how much
    room halos that stay take, and how often a resident tensor arrives.
    """
    at = next(each for each in architecture.levels if each.name == level)
    found: dict[object, list[tuple[tuple[int, ...], FusedTiling, Rules]]] = {}
    numbers: dict[Rules, int] = {}
    for order in itertools.permutations(loops):
        rules = rules_inside(architecture, chain, order)
        if rules is None:
            continue
        number, taken = numbers.setdefault(rules, len(numbers)), dict[object, tuple[int, ...]]()
        still = [{t.name: _still(chain, i, t, order) for t in each.tensors} for i, each in enumerate(chain.layers)]
        for tiling in tilings_of(chain, at, order):
            kept = tiling.retain, tiling.shortcut
            if kept not in taken:
                several = [*rooms(chain, tiling), shortcut_room(chain, tiling)]
                taken[kept] = tuple(words for each in several for words in (each.live, each.between))
            arrivals = tuple(
                (layer, name, frozenset(order[len(order) - still[layer][name] :]))
                for layer, names in enumerate(tiling.resident)
                for name in sorted(names)
            )
            room, others = taken[kept], found.setdefault((number, *kept, arrivals), [])
            if any(all(a <= b for a, b in zip(other, room, strict=True)) for other, *_ in others):
                continue
            others[:] = [each for each in others if not all(a <= b for a, b in zip(room, each[0], strict=True))]
            others.append((room, tiling, rules))
    yield from ((tiling, rules) for others in found.values() for _, tiling, rules in others)


def _subsets(items: Sequence[tuple[int, str]]) -> Iterator[tuple[tuple[int, str], ...]]:
    """All subsets, the whole first."""
    for many in range(len(items), -1, -1):
        yield from itertools.combinations(items, many)


def _may_stay(chain: Chain, layer: int, loops: Sequence[FusedLoop], level: Level) -> list[Tensor]:
    """Tensors of a layer, other than intermediates and its output, that the innermost fused loop leaves in place."""
    return [
        tensor
        for tensor in chain.layers[layer].tensors
        if not tensor.output
        and tensor.name not in chain.intermediates(layer)
        and tensor.role not in level.bypass
        and _still(chain, layer, tensor, loops)
    ]


def _still(chain: Chain, layer: int, tensor: Tensor, loops: Sequence[FusedLoop]) -> int:
    """How many of the innermost loops leave the tile of a tensor in place."""
    moved = {dim.name for dim in chain.dims if dim.dims[layer] in tensor.dims}
    inner_first = [loop.dim not in moved for loop in reversed(loops)]
    return (*inner_first, False).index(False)


def demands(chain: Chain, tiling: FusedTiling) -> dict[str, Demand]:
    """What each fused dimension asks for, step by step; one of no loop has one step."""
    tile = {loop.dim: loop.tile for loop in tiling.loops}
    return {
        dim.name: demand(dim, tile.get(dim.name, dim.bound), tuple(dim.name in kept for kept in tiling.retain))
        for dim in chain.dims
    }


def rooms(chain: Chain, tiling: FusedTiling) -> list[Room]:
    """Words that each intermediate takes in the fusing level."""
    needs, dims = demands(chain, tiling), {dim.name: dim for dim in chain.dims}
    found = []
    for at, link in enumerate(chain.links):
        moved = [dims[loop.dim].ranks[at] for loop in tiling.loops]
        halos = [needs[d.dim].halos[at] if d.dim in tiling.retain[at] else 0 for d in tiling.loops]
        sides = [
            (needs[loop.dim].tiles[at], halo, rank.box)
            for loop, halo, rank in zip(tiling.loops, halos, moved, strict=True)
        ]
        found.append(_nested(math.prod(rank.box for rank in link.ranks if rank not in moved), sides))
    return found


def shortcut_room(chain: Chain, tiling: FusedTiling) -> Room:
    """Words that the first layer's input takes where it is kept until it is read again."""
    if not tiling.shortcut or chain.shortcut is None:
        return Room(0, 0)
    needs, dims = demands(chain, tiling), {dim.name: dim for dim in chain.dims}
    moving = [dims[loop.dim].dims[0] for loop in tiling.loops]
    sides = []
    for loop, dim in zip(tiling.loops, moving, strict=True):
        tile, halo = _kept_tile(needs[loop.dim], chain.shortcut.layer)
        sides.append((tile, halo if loop.dim in tiling.retain[0] else 0, chain.needed[0][dim]))
    ranks = word_by_word(chain.layers[0], chain.shortcut.tensor) or ()
    return _nested(math.prod(chain.needed[0][dim] for dim, _ in ranks if dim not in moving), sides)


def _kept_tile(needs: Demand, again: int) -> tuple[int, int]:
    """Words along a fused loop that lie there at most until a layer has read them again, and after that."""
    end = max(spans[0][1] for spans in needs.requested)
    lowest, lows = end, []  # the first word that a step or a later one reads again
    for spans, lengths in zip(reversed(needs.requested), reversed(needs.runs), strict=True):
        lowest = min(lowest, spans[again][1] - lengths[again] if lengths[again] else end)
        lows.append(lowest)
    tile = halo = fetched = 0
    for low, spans, lengths in zip(reversed(lows), needs.requested, needs.runs, strict=True):
        halo = max(halo, fetched - low)
        if lengths[0]:
            low, fetched = min(low, spans[0][1] - lengths[0]), max(fetched, spans[0][1])
        tile = max(tile, fetched - low)
    return tile, halo


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


def runs(chain: Chain, tiling: FusedTiling, level: Level) -> list[Run]:
    """Parts that the layers run in all steps together, equal ones counted."""
    counts: Counter[LayerPart] = Counter()
    needs = demands(chain, tiling)
    kinds = [
        Counter((lengths, step == 0) for step, lengths in enumerate(needs[loop.dim].runs)) for loop in tiling.loops
    ]
    whole = {dim.name: needs[dim.name].runs[0] for dim in chain.dims}
    still = [
        {name: _still(chain, layer, einsum.tensor(name), tiling.loops) for name in tiling.resident[layer]}
        for layer, einsum in enumerate(chain.layers)
    ]
    for chosen in itertools.product(*(kind.items() for kind in kinds)):
        count = math.prod(many for _, many in chosen)
        lengths = whole | {loop.dim: kind[0] for loop, (kind, _) in zip(tiling.loops, chosen, strict=True)}
        firsts = [kind[1] for kind, _ in chosen]
        for layer in range(len(chain.layers)):
            bounds = dict(chain.needed[layer]) | {dim.dims[layer]: lengths[dim.name][layer] for dim in chain.dims}
            if not all(bounds.values()):
                continue
            arriving = frozenset(name for name, inner in still[layer].items() if all(firsts[len(firsts) - inner :]))
            read, again = _kept_names(chain, tiling, layer)
            present = (tiling.resident[layer] - arriving) | again
            counts[LayerPart(layer, tuple(bounds.values()), arriving | read, present)] += count
    held_words = _held_words(chain, tiling, counts, level)
    found = []
    for part, count in counts.items():
        names = [name for name in chain.intermediates(part.layer) if name is not None]
        held = sum(_own_words(chain, part, name, level) for name in (*names, *part.arriving, *part.present))
        others = [t for t in chain.layers[part.layer].tensors if t.role in level.keep and t.name not in names]
        least = sum(storage_words(t, level) for t in others if t.name not in part.arriving | part.present)
        found.append(Run(part, count, held_words[part.layer] - held, held + least))
    return found


def _kept_names(chain: Chain, tiling: FusedTiling, layer: int) -> tuple[frozenset[str], frozenset[str]]:
    """What a layer fetches for a shortcut, and what it finds there because of it."""
    none = frozenset[str]()
    if not tiling.shortcut or chain.shortcut is None:
        return none, none
    return (
        frozenset({chain.shortcut.tensor}) if layer == 0 else none,
        frozenset({chain.shortcut.again}) if layer == chain.shortcut.layer else none,
    )


def _held_words(chain: Chain, tiling: FusedTiling, parts: Iterable[LayerPart], level: Level) -> list[int]:
    """Storage words held while each layer runs: its intermediates, halos of the others, all resident tensors."""
    widths = [storage_words(layer.output, level) for layer in chain.layers]
    resident: dict[tuple[int, str], int] = {}
    for part in parts:
        for name in tiling.resident[part.layer]:
            words = _own_words(chain, part, name, level)
            resident[part.layer, name] = max(resident.get((part.layer, name), 0), words)
    several, kept, shortcut = rooms(chain, tiling), shortcut_room(chain, tiling), chain.shortcut
    wide = storage_words(chain.layers[0].tensor(shortcut.tensor), level) if shortcut else 1
    found = []
    for layer in range(len(chain.layers)):
        last = shortcut.layer if shortcut else 0
        words = sum(resident.values()) + wide * (kept.live if layer <= last else kept.between)
        for at, (room, width) in enumerate(zip(several, widths, strict=False)):
            words += width * (room.live if at in (layer - 1, layer) else room.between)
        found.append(words)
    return found


def _own_words(chain: Chain, part: LayerPart, name: str, level: Level) -> int:
    """Storage words of the tile that a part has of a tensor."""
    einsum = chain.layers[part.layer]
    tensor = einsum.tensor(name)
    return tensor.words(dict(zip(einsum.dims, part.bounds, strict=True))) * storage_words(tensor, level)
