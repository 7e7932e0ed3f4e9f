"""The map spaces that one search goes through: paddings of a layer, and a machine with several storage nodes a level.

Good mappings with remainders from mappings of a padded layer, whose loops are cut down to the bounds. And why a map
space holds no valid mapping: limits that every mapping breaks, and the nearest miss.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.divisors import divisors
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.nodes import with_nodes
from accelsim.inputs.objective import costs_of
from accelsim.inputs.units import format_bits
from accelsim.inputs.workload import ROLES, Einsum, pad, padded_einsums, rounded_bounds
from accelsim.mapspace.factors import least_factor
from accelsim.mapspace.merging import merged
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import decode_mapping, encode
from accelsim.model.evaluate import at_levels, count, evaluate_encoded, result_of, violations
from accelsim.search.descent import make_walk, misses_of


class Spaces:
    """Map spaces of some paddings of an Einsum, each of even mappings first, and then of uneven ones if asked for.

    Parameters
    ----------
    architecture : Architecture
    einsums : sequence of Einsum
        The one that was given, then padded ones; of these such that the constraints leave no factors are left out.
    constraints : Constraints or None
    imperfect : frozenset of str
    uneven : bool
        Levels may keep each tensor at a storage node of its own (`inputs.nodes.with_nodes`).
    first : MapSpace, optional
        The even space of the first Einsum, if it is there already.

    Raises
    ------
    NoValidMappingError
        If the constraints leave the Einsum as given no factors.
    """

    def __init__(
        self,
        architecture: Architecture,
        einsums: Sequence[Einsum],
        constraints: Constraints | None = None,
        imperfect: frozenset[str] = frozenset(),
        *,
        uneven: bool = False,
        first: MapSpace | None = None,
    ) -> None:
        rules = constraints or Constraints()
        self.uneven = uneven
        self._spaces: list[MapSpace] = []
        for einsum in einsums:
            with suppress(NoValidMappingError) if self._spaces else nullcontext():
                known = first if not self._spaces and first and first.imperfect == imperfect else None
                even = known or MapSpace(encode(architecture, einsum), rules, imperfect)
                self._spaces.append(even)
                machine = with_nodes(architecture, einsum, even.constraints) if uneven else architecture
                if machine is not architecture:
                    self._spaces.append(MapSpace(encode(machine, einsum), rules, imperfect))

    @classmethod
    def of(cls, *spaces: MapSpace) -> Spaces:
        """Some map spaces as they are."""
        found = cls.__new__(cls)
        found.uneven, found._spaces = False, [*spaces]
        return found

    def merged(self) -> Spaces:
        """The same with dimensions that move the same tensors as one."""
        found = self.of(self.first)
        found.uneven, found._spaces = self.uneven, [*map(merged, self._spaces)]
        return found

    @property
    def first(self) -> MapSpace:
        """The even space of the Einsum as it was given."""
        return self._spaces[0]

    def __len__(self) -> int:
        return len(self._spaces)

    def __iter__(self) -> Iterator[MapSpace]:
        return iter(self._spaces)

    def __getitem__(self, rows: slice) -> list[MapSpace]:
        return self._spaces[rows]

    @property
    def size(self) -> int | None:
        """Mappings in all of them together, of which even ones are among the uneven ones; None if that takes long."""
        found = {id(space.encoded.einsum): space.quick_size for space in self._spaces}
        sizes = [size for size in found.values() if size is not None]
        return sum(sizes) if len(sizes) == len(found) else None


MOST_ROUNDINGS = 24
"""Ways to round bounds up that are looked at before loops may leave remainders."""


def rounded_spaces(space: MapSpace) -> Iterator[MapSpace]:
    """Map spaces without remainders in which some dimensions that may leave some are rounded up."""
    einsum = space.encoded.einsum
    if einsum.unpadded is not None:
        return
    bounds = {dim: rounded_bounds(einsum.dims[dim]) for dim in sorted(space.imperfect)}
    tried = [einsum.dims]
    for padded in itertools.chain(_on_axes(space), padded_einsums(einsum, bounds)):
        if padded.dims in tried:
            continue
        if len(tried) > MOST_ROUNDINGS:
            return
        tried.append(padded.dims)
        with suppress(AccelsimError):  # the constraints leave no factors, or counts would be too large
            yield MapSpace(encode(space.encoded.architecture, padded), space.constraints)


def _on_axes(space: MapSpace) -> Iterator[Einsum]:
    """The Einsum with a dimension that fills the columns of a network, and one that fills the rows, or one for both.

    Other bounds that may leave remainders are multiples of 4, or as they are.
    """
    einsum = space.encoded.einsum
    dims = sorted(space.imperfect)
    for level in space.encoded.architecture.levels:
        x, y = level.x.size, level.y.size
        for on_x, on_y, others in itertools.product(dims, dims, (4, 1)) if x * y > 1 else ():
            sizes = {on_x: x, on_y: y} if on_x != on_y else {on_x: x * y}
            bounds = {dim: _rounded_up(einsum.dims[dim], sizes.get(dim, others)) for dim in dims}
            yield pad(einsum, {dim: bound for dim, bound in bounds.items() if bound > einsum.dims[dim]})


def _rounded_up(bound: int, size: int) -> int:
    """The next multiple of a size; of a smaller bound the bound itself."""
    return -(-bound // size) * size if bound > size else bound


def trim(mapping: Mapping, bounds: dict[str, int]) -> Mapping:
    """Cut the loops of a mapping of larger bounds down to the shortest ones for their numbers of passes.

    Examples
    --------
    >>> inner = LevelMapping("Buffer", (Loop("M", 4),), (Loop("M", 4),))
    >>> trimmed = trim(Mapping((LevelMapping("DRAM", (Loop("M", 4),)), inner)), {"M": 33})
    >>> [str(loop) for level in trimmed.levels for loop in (*level.temporal, *level.x)], sorted(trimmed.imperfect)
    (['M=3', 'M=3', 'M=4'], ['M'])
    """
    left, covered = dict(bounds), dict.fromkeys(bounds, 1)

    def cut(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        found = []
        for loop in reversed(loops):
            passes = -(-left[loop.dim] // loop.bound)
            factor = least_factor(left[loop.dim], passes)
            left[loop.dim], covered[loop.dim] = passes, covered[loop.dim] * factor
            found.append(Loop(loop.dim, factor))
        return tuple(loop for loop in reversed(found) if loop.bound > 1)

    levels: list[LevelMapping] = []
    for level in reversed(mapping.levels):
        y, x, temporal = cut(level.y), cut(level.x), cut(level.temporal)
        levels.insert(0, replace(level, temporal=temporal, x=x, y=y))
    more = frozenset(dim for dim, bound in bounds.items() if covered[dim] > bound)
    return Mapping(tuple(levels), imperfect=more)


DRAWS, NEAREST, MOST_ROWS = 2000, 8, 300_000
"""Mappings that are looked at in search of the nearest miss, those of them that are evaluated in full, and
factorisations of all dimensions that there may be to draw from, half a second."""


def diagnose(space: MapSpace, key: np.uint64, *, proved: bool) -> list[str]:
    """Tell why no mapping is valid, one line each: limits that no mapping of the space can meet, then the nearest miss.

    A tile only grows with the sizes of the dimensions in it, and these are chosen independently of one another; so the
    smallest tiles of a level are those of the smallest size of each dimension, and a limit below them is never met.

    Parameters
    ----------
    space : MapSpace
    key : uint64
        Of the draws in which the nearest miss is looked for.
    proved : bool
        Whether the search looked at all mappings; else one that is drawn here may be valid.

    Raises
    ------
    RuntimeError
        If a mapping that is drawn is valid though the search proved that none is.
    """
    return [*out_of_reach(space), *_nearest_miss(space, key, proved)]


@lru_cache(maxsize=4)
def out_of_reach(space: MapSpace) -> tuple[str, ...]:
    """Limits that no mapping of the space can meet, one line each."""
    certain = [*_fanouts(space), *_homeless(space), *_capacities(space), *_cycles(space)]
    return tuple(f"no mapping can be valid: {text}" for text in certain)


def none_is_valid(space: MapSpace) -> bool:
    """Whether no mapping can meet a limit, also no uneven one, whose loops may stand outside what a level holds."""
    return any((_homeless(space), _capacities(space, uneven=True), _cycles(space)))


def _least(space: MapSpace, dim: str, slots: list[int]) -> int:
    """Smallest product of a dimension's factors in some slots; where it may leave remainders, of all slots or 1."""
    bound, others = space.encoded.einsum.dims[dim], [at for at in range(len(space.slots)) if at not in slots]
    if not others or dim not in space.dims or dim in space.imperfect:
        return 1 if others else bound
    around = _products(space, dim, others)
    return min((product for product in _products(space, dim, slots) if bound // product in around), default=bound)


def _products(space: MapSpace, dim: str, slots: list[int]) -> set[int]:
    """Products of a dimension's factors in some slots that divide its bound."""
    bound = space.encoded.einsum.dims[dim]
    every, reached = len(divisors(bound)), {1}
    for at in slots:
        factors = space.allowed(space.slots[at], dim)
        if len(reached) < every or 1 not in factors:
            reached = {product * factor for product in reached for factor in factors if bound % (product * factor) == 0}
    return reached


def _fanouts(space: MapSpace) -> list[str]:
    found = []
    for at, slot in enumerate(space.slots):
        if slot.axis:
            level = space.encoded.architecture.levels[slot.level]
            size = level.x.size if slot.axis == "x" else level.y.size
            least = math.prod(_least(space, dim, [at]) for dim in space.dims)
            if least > size:
                found.append(
                    f"{level.name} spreads over at least {least} instances on {slot.axis}, its fanout is {size}"
                )
    return found


def _homeless(space: MapSpace) -> list[str]:
    """Tensors that a level must keep, and has no partition for."""
    return [
        f"{level.name} has no partition for {tensor.name}"
        for level, kept in zip(space.encoded.architecture.levels, space.keep, strict=True)
        for tensor in itertools.compress(space.encoded.tensors, kept)
        if level.partition_words is not None and tensor.role not in level.partition_words
    ]


def _capacities(space: MapSpace, *, uneven: bool = False) -> list[str]:
    """Levels that have no room for what they must keep: for the least tiles of even mappings, or of any."""
    found = []
    for index, level in enumerate(space.encoded.architecture.levels):
        inside = [at for at, slot in enumerate(space.slots) if slot.level >= index]
        tile = {dim: 1 if uneven and index else _least(space, dim, inside) for dim in space.encoded.einsum.dims}
        shown = ", ".join(f"{dim}={size}" for dim, size in tile.items() if size > 1) or "one iteration"
        held: dict[str, int | Fraction] = dict.fromkeys(ROLES, 0)
        for t, tensor in enumerate(space.encoded.tensors):
            if space.keep[index, t]:
                held[tensor.role] += tensor.words(tile) * level.element_words(tensor)
        for role, room in level.rooms.items():
            needs = held[role] if role else sum(held.values())
            if needs > room:
                name, has = f"{level.name} ({role})" if role else level.name, format_bits(room * level.word_bits)
                least = format_bits(math.ceil(needs * level.word_bits))
                found.append(f"{name} needs at least {least} (for {shown}), has {has}")
    return found


def _cycles(space: MapSpace) -> list[str]:
    """Cycles that are too few for the work, or a utilization that whole cycles do not reach."""
    fewest = math.ceil(space.ideal_cycles)
    if fewest <= space.most[1]:
        return []
    units = space.encoded.architecture.macs
    missed = space.constraints.broken_by_costs((0.0, float(fewest), 0.0), space.ideal_cycles)
    work = f"{space.encoded.einsum.real_macs:,} MACs on {units:,} compute units take at least {fewest:,}"
    return [f"{work} cycle{'s' if fewest > 1 else ''}, in which {'; '.join(missed)}"]


def _missed(space: MapSpace, mapping: Mapping) -> float:
    """By which factor a mapping misses the products that constraints ask for, and the instances of axes: of all."""
    products = space.constraints.products(mapping, space.encoded.einsum)
    found = math.prod(product.missed_by(value) for _, product, value in products)
    for level in mapping.levels:
        asked = space.constraints.of(level.level)
        for block, loops in ((asked.x, level.x), (asked.y, level.y)):
            found *= max(1.0, block.least / math.prod(loop.bound for loop in loops))
    return found


def _nearest_miss(space: MapSpace, key: np.uint64, proved: bool) -> list[str]:
    """Describe the drawn mapping that breaks its limits by the smallest factor (the product of all)."""
    from accelsim.mapspace.kernel import draw_many

    if _homeless(space):  # all miss by an infinite factor
        return []
    if sum(space.many) > MOST_ROWS:
        return ["too many factorisations to draw from: the nearest miss is not looked for"]
    drawn = make_walk(space, DRAWS)
    draw_many(space.arrays, key, 0, drawn.mapping)
    least = Fraction(space.constraints.min_utilization)
    smallest, nearest, looked = math.inf, None, 0
    for b in np.argsort(misses_of(space, drawn), kind="stable").tolist():
        mapping = decode_mapping(space.encoded, drawn.mapping, b)
        counted = count(space.encoded, mapping)
        broken = violations(space.encoded, mapping, at_levels(space.encoded, counted))
        factor = math.prod(violation.factor for violation in broken) * _missed(space, mapping)
        factor *= max(1.0, float(counted.cycles * least / space.ideal_cycles))
        if factor < smallest and space.constraints.limits:
            costs = costs_of(result_of(space.encoded, mapping, counted))
            factor *= math.prod(max(1.0, limit.exceeded_by(costs)) for limit in space.constraints.limits)
        if factor < smallest:
            smallest, nearest = factor, mapping
        looked += factor < math.inf
        if looked == NEAREST:
            break
    if nearest is None:
        return []
    best = evaluate_encoded(space.encoded, nearest)
    missing = [str(violation) for violation in best.violations]
    missing += space.constraints.broken_by_costs(costs_of(best), space.ideal_cycles)
    missing += space.constraints.broken_by(best.mapping, space.encoded.einsum)
    if not missing and proved:
        raise RuntimeError(f"the search found no valid mapping, but this one is valid: {best.mapping}")
    if not missing:
        return [f"of {DRAWS:,} mappings drawn after the search at least one is valid; let the search look at more"]
    return [f"closest of {DRAWS:,} sampled mappings: {'; '.join(missing)}"]
