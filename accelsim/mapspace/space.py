"""The map space: every mapping that the constraints allow, before fanout and capacity are checked.

Two mappings are one if they keep the same tensors and, loops of bound 1 dropped, have the same loops in the same order
in every temporal block and the same set of loops on each spatial axis (docs/papers/mapspace.md). Spatial loops longer
than their axis are left out. Axis letters: D = dimensions of bound > 1, S = slots (temporal blocks, then spatial axes
of a fanout > 1), L = levels, T = tensors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from accelsim.inputs.constraints import Block, Constraints, Product
from accelsim.inputs.divisors import divisors
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.nodes import first_nodes
from accelsim.inputs.objective import QUANTITIES
from accelsim.mapspace.counting import Weights, count_ordered, is_quick, joined, node_weights
from accelsim.mapspace.factors import along, count_patterns, factorizations
from accelsim.model.encode import SAFE, TILE_SIZES, TILE_WORDS, UNLIMITED, Bools, Encoded, Floats, Ints
from accelsim.model.evaluate import refuse_linked_remainders
from accelsim.model.records import Bools2, Floats1, Floats2, Ints1, Ints2, record

MAX_ROWS = 20_000_000


@dataclass(frozen=True, slots=True)
class Slot:
    """One place for a loop of each dimension: the temporal block of a level, or an axis of its fanout."""

    level: int
    axis: str = ""


@record
class SpaceArrays(NamedTuple):
    """The map space for compiled code; made by `MapSpace.arrays`.

    A state counts the temporal loops in free places that the dimensions drawn so far have in each level's temporal
    block.
    """

    dims: Ints1
    """int64[D]: position of each dimension among those of `Encoded.dims`."""
    slot_level: Ints1
    """int64[S]: level of each slot."""
    slot_axis: Ints1
    """int64[S]: 0 for the temporal block of a level, 1 for its axis x, 2 for its axis y."""
    rows: Ints2
    """int64[*, S]: factorisations of all dimensions, one dimension after the other: the bound in each slot."""
    first: Ints1
    """int64[D + 1]: where the factorisations of each dimension begin in `rows`, and where those of the last one end."""
    pattern: Ints2
    """int64[P + 1, 2]: P patterns of all dimensions, one dimension after the other: the levels with a loop in a free
    place, as bits, and where factorisations with this pattern begin in `rows`. The last row says where they end."""
    first_pattern: Ints1
    """int64[D + 1]: where the patterns of each dimension begin in `pattern`, and where those of the last one end."""
    step: Ints1
    """int64[L]: what a loop in a free place of a level adds to the number of a state."""
    weight: Floats2
    """float64[D + 1, *]: mappings, with all orders of their loops, to which dimensions d, d + 1 ... complete each
    state."""
    outer: Ints2
    """int64[L, D]: dimensions whose loops have a fixed place at the outer end of the temporal block, -1 after the
    last."""
    inner: Ints2
    """int64[L, D]: dimensions whose loops have a fixed place at the inner end of the temporal block, -1 after the
    last."""
    free_place: Bools2
    """bool[L, D]: whether the constraints leave the place of the dimension's loop in the temporal block open."""
    keep: Bools2
    """bool[L, T]: tensors that the level keeps in every mapping."""
    free: Ints2
    """int64[*, 2]: level and tensor of each choice between keep and bypass."""
    most: Floats1
    """float64[3]: largest energy [pJ], cycles and off-chip words that the constraints allow, infinite if they set no
    limit."""


class MapSpace:
    """All mappings of an Einsum onto a machine.

    `imperfect`: dimensions whose loops may leave remainders; each loop is then the shortest one for its numbers of
    passes. Such a space is counted and searched, its mappings have no numbers. Raises NoValidMappingError if the
    constraints leave a dimension no factorisation, AccelsimError if they do not suit the machine or the Einsum.

    `dims`: dimensions of bound > 1. `many`: how many factorisations each of them has. `keep`: bool[L, T], what every
    mapping keeps. `free_keeps`: levels or storage nodes, and tensors that they may keep or bypass. `keep_groups`: the
    same by level: a tensor, and the nodes of which one at most keeps it. `required`: bool[L, T], where one of them
    must, at the last node of the level. `origin`: what this space was made of, if it is one in which the dimensions
    `merged` are one each, or dimensions that are `outermost` have no temporal loops but at the outermost level
    (`mapspace.merging`).
    """

    def __init__(
        self,
        encoded: Encoded,
        constraints: Constraints | None = None,
        imperfect: frozenset[str] = frozenset(),
        outermost: frozenset[str] = frozenset(),
    ) -> None:
        self.constraints = constraints or Constraints()
        self.constraints.check(encoded.architecture, encoded.einsum)
        self.constraints = self.constraints.settled(encoded.architecture, encoded.einsum)
        self.encoded = encoded
        self.imperfect, self.outermost = imperfect, outermost
        self.origin, self.merged = self, dict[str, tuple[str, ...]]()
        if imperfect:
            refuse_linked_remainders(encoded.architecture)
        levels = encoded.architecture.levels
        if rows := self._asked_rows():
            self.encoded = replace(encoded, constants=encoded.constants._replace(asked=np.array(rows, np.int64)))
        time = [Slot(index) for index in range(len(levels))]
        space = [
            Slot(index, axis)
            for index, level in enumerate(levels)
            for axis, size in (("x", level.x.size), ("y", level.y.size))
            if size > 1
        ]
        self.slots = (*time, *space)
        self.dims = tuple(dim for dim, bound in encoded.einsum.dims.items() if bound > 1)
        self._known: dict[tuple[object, ...], int] = {}
        self._allowed: dict[tuple[int, str, str], frozenset[int]] = {}
        self._refuse_idle()
        self._refuse_unreachable()
        levels_apart = [[index] for index in range(len(levels))]
        self.many = [sum(self._count(dim, levels_apart, [0] * len(levels)).values()) for dim in self.dims]
        self.keep, self.required = np.zeros((2, len(levels), len(encoded.tensors)), np.bool_)
        self.free_keeps: list[tuple[int, int]] = []
        self.keep_groups: list[tuple[int, tuple[int, ...]]] = []
        for first, end in itertools.pairwise(first_nodes(levels)):
            asked = self.constraints.of(levels[first].name)
            for t, tensor in enumerate(encoded.tensors):
                several = ((at, levels[at].tensors) for at in range(first, end))
                nodes = [at for at, tensors in several if tensors is None or tensor.name in tensors]
                must = first == 0 or tensor.role in levels[first].keep or tensor.name in asked.keep
                may = tensor.role not in levels[first].bypass and tensor.name not in asked.bypass
                if not nodes or not (must or may):
                    continue
                if must and len(nodes) == 1:
                    self.keep[nodes[0], t] = True
                else:
                    self.free_keeps += [(at, t) for at in nodes]
                    self.required[end - 1, t] = must
                    self.keep_groups.append((t, tuple(nodes)))
        self.free_keeps.sort()

    @property
    def may_keep(self) -> Bools:
        """Which tensors levels or storage nodes keep or may keep: bool[L, T]."""
        found = self.keep.copy()
        for level, t in self.free_keeps:
            found[level, t] = True
        return found

    def _refuse_idle(self) -> None:
        """Raise if the constraints ask for a loop where there can be none: on an axis of 1, or over a bound of 1."""
        for index, level in enumerate(self.encoded.architecture.levels):
            for axis, size in (("", 0), ("x", level.x.size), ("y", level.y.size)):
                for dim, bound in self.encoded.einsum.dims.items():
                    if (bound == 1 or size == 1) and not self._block(Slot(index, axis)).allows(dim, 1):
                        asked = ", ".join(self._asked(Slot(index, axis), dim))
                        where = f"{dim} is {bound}" if bound == 1 else f"the fanout of {level.name} on {axis} is 1"
                        raise NoValidMappingError(f"{level.name} {axis or 'temporal'}: {asked} cannot be: {where}")

    def _asked_rows(self) -> list[list[int]]:
        """What the constraints ask of products, as `Constants.asked`."""
        names, tensors = self.encoded.dims, [tensor.name for tensor in self.encoded.tensors]
        found: list[tuple[int, int, Product, list[int]]] = []
        for index, level in enumerate(self.encoded.architecture.levels):
            asked, first = self.constraints.of(level.name), index == self.encoded.constants.nodes[index, 0]
            blocks = [self._block(Slot(index, axis)) for axis in ("", "x", "y")]
            asking = [*((kind, each) for kind, block in enumerate(blocks) for each in block.products)]
            asking += [(kind, Product(names, block.least)) for kind, block in enumerate(blocks) if block.least > 1]
            asking += [(TILE_SIZES, each) for each in asked.sizes if first]
            found += [(index, kind, each, [dim in each.names for dim in names]) for kind, each in asking]
            of = ((each, tensors.index(each.names[0])) for each in asked.words)
            found += [(index, TILE_WORDS, each, [t] + [0] * (len(names) - 1)) for each, t in of]
        return [[index, kind, each.low, each.high or SAFE, *which] for index, kind, each, which in found]

    def _refuse_unreachable(self) -> None:
        """Raise if no loops in a block have a product that the constraints ask for, or use as many instances."""
        for index, level in enumerate(self.encoded.architecture.levels):
            for axis, size in (("", SAFE), ("x", level.x.size), ("y", level.y.size)):
                slot = Slot(index, axis)
                block, where = self._block(slot), f"{level.name} {axis or 'temporal'}"
                for product in (*block.products, *([Product(self.dims, block.least)] if block.least > 1 else [])):
                    reached = {1}
                    for dim in (dim for dim in self.dims if dim in product.names):
                        factors = self.allowed(slot, dim)
                        reached = {many * factor for many in reached for factor in factors if many * factor <= size}
                    most = max(reached, default=0)
                    if most < product.low and product not in block.products:
                        what = f"loops can use {most} of {size} instances"
                        raise NoValidMappingError(f"{where}: {what}, at least {product.low} are asked for")
                    if all(product.missed_by(many) > 1 for many in reached):
                        raise NoValidMappingError(
                            f"{where}: no loops have a product of {product}; the largest is {most}"
                        )

    def _count(self, dim: str, groups: Sequence[Sequence[int]], marks: Sequence[int]) -> dict[int, int]:
        """How many factorisations of a dimension have each pattern: the sum of marks of levels with a loop.

        Of a group of levels, which can change places, the innermost ones have the loops. A loop in a fixed place counts
        for nothing.
        """
        bound = self.encoded.einsum.dims[dim]
        group_of = {level: g for g, group in enumerate(groups) for level in group}
        slots, seen = [], set[int]()
        for slot in sorted(self.slots, key=lambda slot: (-slot.level, -ord(slot.axis or "a"))):
            allowed, g = self.allowed(slot, dim), group_of[slot.level]
            if slot.axis or not self.is_free(slot.level, dim):
                slots.append((allowed, 0, 1))
            elif g not in seen:
                slots.append((allowed, marks[g], len(groups[g])))
                seen.add(g)
        found = count_patterns(bound, slots, remainders=dim in self.imperfect)
        if not found:
            asked = [
                f"{self.encoded.architecture.levels[slot.level].name} {slot.axis or 'temporal'}: {text}"
                for slot in self.slots
                for text in self._asked(slot, dim)
            ]
            raise NoValidMappingError(
                f"no factorisation of {dim} = {bound} satisfies the constraints ({'; '.join(asked)})"
            )
        return found

    @cached_property
    def counts(self) -> list[dict[int, int]]:
        """For each dimension how many of its factorisations have each pattern: which temporal blocks hold a loop."""
        levels = range(len(self.encoded.architecture.levels))
        return [self._count(dim, [[level] for level in levels], [1 << level for level in levels]) for dim in self.dims]

    @cached_property
    def rows(self) -> list[Ints]:
        """For each dimension its factorisations, int64[rows, S], those with the same pattern together.

        Raises AccelsimError if a dimension has more than 20 million.
        """
        levels, found = len(self.encoded.architecture.levels), []
        for dim, many in zip(self.dims, self.many, strict=True):
            if many > MAX_ROWS:
                bound = self.encoded.einsum.dims[dim]
                raise AccelsimError(
                    f"dimension {dim} = {bound} has {many:.3g} factorisations, more than {MAX_ROWS:.0g}"
                )
            rows = factorizations(self.encoded.einsum.dims[dim], [self.allowed(slot, dim) for slot in self.slots])
            free = np.array([self.is_free(index, dim) for index in range(levels)])
            patterns = ((rows[:, :levels] > 1) & free) @ (1 << np.arange(levels, dtype=np.int64))
            found.append(rows[np.argsort(patterns, kind="stable")])
        return found

    def _block(self, slot: Slot) -> Block:
        """What the constraints ask of a slot; nothing of an axis of a node that has no fanout."""
        asked = self.constraints.of(self.encoded.architecture.levels[slot.level].name)
        if slot.level < self.encoded.constants.nodes[slot.level, 1] - 1:
            return asked.temporal if not slot.axis else Block()
        return asked.temporal if not slot.axis else asked.x if slot.axis == "x" else asked.y

    def allowed(self, slot: Slot, dim: str) -> frozenset[int]:
        """Factors of a dimension that a slot may take."""
        key = slot.level, slot.axis, dim
        if key not in self._allowed:
            self._allowed[key] = self._allows(slot, dim)
        return self._allowed[key]

    def _allows(self, slot: Slot, dim: str) -> frozenset[int]:
        bound, level = self.encoded.einsum.dims[dim], self.encoded.architecture.levels[slot.level]
        limit = {"": bound, "x": level.x.size, "y": level.y.size}[slot.axis]
        block = self._block(slot)
        if level.name == self.encoded.architecture.compute.operands:
            return frozenset({1})
        if dim in self.outermost and slot.level > 0 and not slot.axis:
            return frozenset({1})
        factors = range(1, bound + 1) if dim in self.imperfect else divisors(bound)
        return frozenset(factor for factor in factors if factor <= limit and block.allows(dim, factor))

    def _asked(self, slot: Slot, dim: str) -> list[str]:
        block = self._block(slot)
        barred = [f"no {dim}"] if block.only is not None and dim not in block.only else []
        return [str(factor) for factor in block.factors if factor.dim == dim] + barred

    def is_free(self, index: int, dim: str) -> bool:
        """Whether the place of a dimension's loop in a temporal block is open."""
        block = self._block(Slot(index))
        return dim not in block.outer and dim not in block.inner

    def is_unbound(self, index: int) -> bool:
        """Whether the constraints ask nothing of the temporal block of a level, and nothing of its tile."""
        asked = self.constraints.of(self.encoded.architecture.levels[index].name)
        return self._block(Slot(index)) == Block() and not asked.sizes and not asked.words

    def fixed_places(self, index: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Numbers of the dimensions with a fixed place at the outer and inner end of a level's temporal block."""
        block, names = self._block(Slot(index)), self.encoded.dims
        outer, inner = ([names.index(dim) for dim in dims if dim in names] for dims in (block.outer, block.inner))
        return tuple(outer), tuple(inner)

    @cached_property
    def keep_choices(self) -> int:
        """How many ways to keep and bypass there are."""
        return math.prod(len(self._places_of(group)) for group in self.keep_groups)

    def _places_of(self, group: tuple[int, tuple[int, ...]]) -> tuple[int | None, ...]:
        """Nodes of a level at which a tensor may be kept; None: it bypasses the level."""
        t, nodes = group
        last = int(self.encoded.constants.nodes[nodes[0], 1]) - 1
        return nodes if self.required[last, t] else (None, *nodes)

    def fitting_keeps(
        self, words: Ints, sizes: Sequence[Ints], level: int, *, sums: bool = False
    ) -> tuple[Bools, Bools]:
        """What a level may keep, bool[K, T], and which tiles of that fit, bool[K, S].

        With the narrowest words, or with partial `sums`. `words`: int64[T, S] of each tensor in every tile, at least
        where loops may leave remainders. `sizes`: int64[N] of each dimension, as many as it has of them in the tiles.
        """
        c = self.encoded.constants
        free = [t for at, t in self.free_keeps if at == level]
        keeps = []
        for chosen in itertools.product((True, False), repeat=len(free)):
            row = self.keep[level].copy()
            row[free] = chosen
            keeps.append(row)
        parts = c.word_parts[level].min(axis=1)
        if sums:
            parts[c.output[0]] = c.word_parts[level, c.output[0], 1]
        fits = np.ones((len(keeps), words.shape[1]), np.bool_)
        for k, row in enumerate(keeps):
            held = (words * (parts * row)[:, None]).sum(axis=0)
            if c.capacity[level] != UNLIMITED:
                fits[k] &= held <= c.capacity[level]
            if c.partitioned[level]:
                for role, room in enumerate(c.partition[level]):
                    mine = row & (c.role == role)
                    fits[k] &= (words * (parts * mine)[:, None]).sum(axis=0) <= room
            for at, kind, low, high, *which in c.asked.tolist():
                if at == level and kind == TILE_WORDS and row[which[0]]:
                    fits[k] &= ((words[which[0]] >= low) | bool(self.imperfect)) & (words[which[0]] <= high)
                elif at == level and kind == TILE_SIZES:
                    product = np.ones([len(each) for each in sizes], np.int64)
                    for d in np.flatnonzero(which).tolist():
                        product *= along(sizes[d], d, len(sizes))
                    size = product.reshape(-1)
                    ragged = any(which[d] and dim in self.imperfect for d, dim in enumerate(self.encoded.dims))
                    fits[k] &= ((size >= low) | ragged) & (size <= high)
        return np.array(keeps), fits

    @property
    def uneven(self) -> bool:
        """Whether levels have several storage nodes."""
        nodes = self.encoded.constants.nodes
        return bool((nodes[:, 1] - nodes[:, 0] > 1).any())

    @cached_property
    def _alike(self) -> list[list[int]]:
        """Levels that can change places in a factorisation of any dimension.

        With remainders the order of loops makes a difference, but for loops with no network in between.
        """
        groups: dict[object, list[int]] = {}
        inside = 0  # networks
        for index in reversed(range(len(self.encoded.architecture.levels))):
            inside += any(slot.level == index and slot.axis for slot in self.slots)
            asked = tuple((self.allowed(Slot(index), dim), self.is_free(index, dim)) for dim in self.dims)
            groups.setdefault((asked, inside if self.imperfect else 0), []).append(index)
        return list(groups.values())

    @cached_property
    def size(self) -> int:
        """How many mappings there are, before fanout and capacity are checked."""
        marks = [(len(self.encoded.architecture.levels) + 1) ** g for g in range(len(self._alike) + 1)]
        found = [
            {
                tuple(pattern % more // mark for mark, more in itertools.pairwise(marks)): many
                for pattern, many in self._count(dim, self._alike, marks).items()
            }
            for dim in self.dims
        ]
        return count_ordered(found, self._weights_of_blocks)

    @cached_property
    def _weights_of_blocks(self) -> list[Weights]:
        """For each group of `_alike` the ways to keep tensors, by the temporal blocks that its levels then have."""
        levels = self.encoded.architecture.levels
        found: dict[int, Weights] = {}
        for first, end in itertools.pairwise(first_nodes(levels)):
            groups = [nodes for _, nodes in self.keep_groups if first <= nodes[0] < end]
            must = int(self.required[end - 1].sum())
            found[first] = node_weights(end - first, int(self.keep[first].sum()) + must, len(groups) - must)
        return [joined(found[level] for level in group if level in found) for group in self._alike]

    @property
    def quick_size(self) -> int | None:
        """`size`, or None where counting would take long."""
        return self.size if is_quick(len(self.dims), self._weights_of_blocks) else None

    def _completions(self, d: int, state: tuple[int, ...]) -> int:
        """Mappings that the dimensions from d on can complete a state (loops in each temporal block so far) to."""
        if d == len(self.dims):
            return math.prod(map(math.factorial, state))
        if (d, *state) not in self._known:
            self._known[d, *state] = sum(
                many * self._completions(d + 1, tuple(k + (pattern >> level & 1) for level, k in enumerate(state)))
                for pattern, many in self.counts[d].items()
            )
        return self._known[d, *state]

    def mapping_at(self, index: int) -> Mapping:
        """Return mapping number `index`, 0 <= index < size, else raise IndexError; every mapping has one number."""
        many = self._completions(0, (0,) * len(self.encoded.architecture.levels))
        if not 0 <= index < self.keep_choices * many:
            raise IndexError(f"mapping {index} of {self.keep_choices * many}")
        kept, index = divmod(index, many)
        levels = len(self.encoded.architecture.levels)
        state = (0,) * levels
        chosen: list[Ints] = []
        for d in range(len(self.dims)):
            start = 0
            for pattern, count in self.counts[d].items():
                after = tuple(k + (pattern >> level & 1) for level, k in enumerate(state))
                each = self._completions(d + 1, after)
                if index < count * each:
                    row, index = divmod(index, each)
                    chosen.append(self.rows[d][start + row])
                    state = after
                    break
                index -= count * each
                start += count
        return self._mapping(chosen, index, kept)

    def _mapping(self, chosen: Sequence[Ints], order: int, kept: int) -> Mapping:
        mapped = []
        keep = self.keep.copy()
        for group in self.keep_groups:
            places = self._places_of(group)
            kept, digit = divmod(kept, len(places))
            if places[digit] is not None:
                keep[places[digit], group[0]] = True
        for index, machine_level in enumerate(self.encoded.architecture.levels):
            loops: dict[str, list[Loop]] = {"": [], "x": [], "y": []}
            for dim, row in zip(self.dims, chosen, strict=True):
                for slot, bound in zip(self.slots, row, strict=True):
                    if slot.level == index and bound > 1:
                        loops[slot.axis].append(Loop(dim, int(bound)))
            free = [loop for loop in loops[""] if self.is_free(index, loop.dim)]
            order, this = divmod(order, math.factorial(len(free)))
            placed = {self.encoded.dims.index(loop.dim): loop for loop in loops[""]}
            first, last = ([placed[d] for d in dims if d in placed] for dims in self.fixed_places(index))
            time = (*first, *_permutation(free, this), *last)
            names = frozenset(
                t.name for t, kept_here in zip(self.encoded.tensors, keep[index], strict=True) if kept_here
            )
            mapped.append(LevelMapping(machine_level.name, time, tuple(loops["x"]), tuple(loops["y"]), names))
        return Mapping(tuple(mapped))

    @cached_property
    def arrays(self) -> SpaceArrays:
        """The space for compiled code."""
        levels, radix = len(self.encoded.architecture.levels), len(self.dims) + 1
        names = self.encoded.dims
        patterns, starts, first_pattern, first = [], [], [0], [0]
        for d, rows in enumerate(self.rows):
            at = first[-1]
            for pattern, count in self.counts[d].items():
                patterns.append(pattern)
                starts.append(at)
                at += count
            first_pattern.append(len(patterns))
            first.append(first[-1] + len(rows))
        # one more start, so that a pattern's rows end where the next one's begin
        spans = np.array([[*patterns, 0], [*starts, first[-1]]], np.int64).T.copy()
        step = radix ** np.arange(levels, dtype=np.int64)
        return SpaceArrays(
            dims=np.array([names.index(dim) for dim in self.dims], np.int64),
            slot_level=np.array([slot.level for slot in self.slots], np.int64),
            slot_axis=np.array([("", "x", "y").index(slot.axis) for slot in self.slots], np.int64),
            rows=np.concatenate([*self.rows, np.ones((0, len(self.slots)), np.int64)]),
            first=np.array(first, np.int64),
            pattern=spans,
            first_pattern=np.array(first_pattern, np.int64),
            step=step,
            weight=self._weights(radix, levels),
            outer=self._places(0),
            inner=self._places(1),
            free_place=np.array([[self.is_free(lv, dim) for dim in names] for lv in range(levels)], np.bool_),
            keep=self.keep,
            most=self.most,
            free=np.array(self.free_keeps, np.int64).reshape(-1, 2),
        )

    def _places(self, end: int) -> Ints:
        """Dimensions with a fixed place at one end of each temporal block, -1 after the last."""
        found = np.full((len(self.encoded.architecture.levels), len(self.encoded.dims)), -1, np.int64)
        for index in range(len(found)):
            dims = self.fixed_places(index)[end]
            found[index, : len(dims)] = dims
        return found

    @property
    def ideal_cycles(self) -> Fraction:
        """Cycles if all compute units did nothing but real MACs."""
        machine = self.encoded.architecture
        return Fraction(self.encoded.einsum.real_macs * machine.compute.cycles_per_mac, machine.macs)

    @property
    def most(self) -> Floats:
        """Energy [pJ], cycles, off-chip words that the constraints allow, infinite where they say nothing: float64[3].

        Of cycles, those at which the smallest utilization is reached.
        """
        found = dict.fromkeys(QUANTITIES, math.inf)
        found["cycles"] = self.constraints.most_cycles(self.ideal_cycles)
        for limit in self.constraints.limits:
            found[limit.quantity] = min(found[limit.quantity], limit.largest)
        return np.array([found[quantity] for quantity in QUANTITIES])

    def _weights(self, radix: int, levels: int) -> Floats:
        """Completions of every state by the dimensions from d on, as floats: weight[d, state]."""
        shape = (radix,) * levels
        weight = np.zeros((len(self.dims) + 1, *shape))
        orders = np.array([math.factorial(k) for k in range(radix)], np.float64)
        weight[-1] = 1.0
        for level in range(levels):
            weight[-1] *= orders.reshape([-1 if axis == levels - 1 - level else 1 for axis in range(levels)])
        for d in range(len(self.dims) - 1, -1, -1):
            # after d dimensions at most d loops stand in a block, so the states beyond need no weight
            for pattern, count in self.counts[d].items():
                bits = [pattern >> (levels - 1 - axis) & 1 for axis in range(levels)]
                here = tuple(slice(0, d + 1) for _ in bits)
                there = tuple(slice(bit, d + 1 + bit) for bit in bits)
                weight[d][here] += count * weight[d + 1][there]
        return weight.reshape(len(self.dims) + 1, -1)


def _permutation(loops: list[Loop], index: int) -> tuple[Loop, ...]:
    """Permutation number `index` of loops, by their factorial digits."""
    left, found = list(loops), []
    for place in range(len(loops), 0, -1):
        index, digit = divmod(index, place)
        found.append(left.pop(digit))
    return tuple(found)
