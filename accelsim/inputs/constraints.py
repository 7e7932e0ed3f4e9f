"""Constraints: what a mapping must look like besides being valid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, products
from accelsim.inputs.objective import Limit
from accelsim.inputs.units import decimal, near_miss, repeated, unknown
from accelsim.inputs.workload import ROLES, Einsum


@dataclass(frozen=True, slots=True)
class Factor:
    """Bounds of the loop over one dimension in one block: `K=4`, `K<=4` or `K>=4`.

    `rest`: a file has `K=rest` here, so that blocks that say nothing of K have no loop over it. `whole`: it has
    `K=all`, of a bound that `Constraints.settled` fills in.
    """

    dim: str
    low: int = 1
    high: int | None = None
    rest: bool = False
    whole: bool = False

    def __str__(self) -> str:
        if self.rest or self.whole:
            return f"{self.dim}={'rest' if self.rest else 'all'}"
        if self.low == self.high:
            return f"{self.dim}={self.low}"
        return f"{self.dim}>={self.low}" if self.high is None else f"{self.dim}<={self.high}"


@dataclass(frozen=True, slots=True)
class Product:
    """Bounds of a product of the loops over some dimensions or of sizes of a tile, `P*Q<=8`, or of a tile's words."""

    names: tuple[str, ...]
    low: int = 1
    high: int | None = None

    def __str__(self) -> str:
        return str(Factor("*".join(self.names), self.low, self.high))

    def missed_by(self, value: int) -> float:
        """How many times a value is too large or too small; 1 if it is neither."""
        return max(1.0, self.low / value, 1.0 if self.high is None else value / self.high)


@dataclass(frozen=True, slots=True)
class Block:
    """What is asked of one block of loops: a temporal block, or one axis of a fanout.

    Attributes
    ----------
    factors : tuple of Factor
    only : frozenset of str, or None
        Dimensions that may have a loop here; None: all.
    outer, inner : tuple of str
        Temporal blocks: dimensions whose loops come first (outermost first), and last.
    products : tuple of Product
    least : int
        Of an axis: instances that its loops use at least.
    share : Fraction
        The same as a share of its instances, which `Constraints.settled` turns into a number.
    reuse : frozenset of str
        Roles or tensors that no loop here may move, which `Constraints.settled` turns into `only`.
    """

    factors: tuple[Factor, ...] = ()
    only: frozenset[str] | None = None
    outer: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    products: tuple[Product, ...] = ()
    least: int = 1
    share: Fraction = Fraction(0)
    reuse: frozenset[str] = frozenset()

    def allows(self, dim: str, bound: int) -> bool:
        """Whether the loop over a dimension may have a bound (1: no loop)."""
        if bound > 1 and self.only is not None and dim not in self.only:
            return False
        return all(f.low <= bound and (f.high is None or bound <= f.high) for f in self.factors if f.dim == dim)

    def bounds(self, dim: str) -> tuple[int, int | None]:
        """The least and the most that the loop over a dimension may count."""
        highs = [f.high for f in self.factors if f.dim == dim and f.high is not None]
        return max((f.low for f in self.factors if f.dim == dim), default=1), min(highs, default=None)

    def place(self, dim: str) -> int:
        """Place of the loops over a dimension; those whose order is open share one."""
        if dim in self.outer:
            return self.outer.index(dim)
        return len(self.outer) + (1 + self.inner.index(dim) if dim in self.inner else 0)

    def orders(self, loops: tuple[Loop, ...]) -> bool:
        """Whether the loops of bound > 1 stand in an allowed order."""
        places = [self.place(loop.dim) for loop in loops if loop.bound > 1]
        return places == sorted(places)

    def inside(self, loops: tuple[Loop, ...], dims: Iterable[str]) -> Block | None:
        """What is left to ask of the block inside loops that come first in it; None if these break it.

        `dims`: dimensions of the Einsum.

        >>> block = Block((Factor("P", 1, 6),), outer=("K", "P"))
        >>> left = block.inside((Loop("P", 4),), ("K", "P", "Q"))
        >>> left and [str(factor) for factor in left.factors]
        ['P=1', 'K=1']
        >>> block.inside((Loop("Q", 2), Loop("P", 2)), ("K", "P", "Q")) is None
        True
        """
        many = products(loops)
        if not self.orders(loops) or not (self.only is None or self.only.issuperset(many)):
            return None
        factors = [_divided(each, many.get(each.dim, 1)) for each in self.factors]
        left = [_divided(each, math.prod(many.get(name, 1) for name in each.names)) for each in self.products]
        if 0 in (each.high for each in factors) or 0 in (each.high for each in left):
            return None
        last = max(map(self.place, many), default=0)
        factors += [Factor(dim, 1, 1) for dim in dims if self.place(dim) < last]
        return replace(self, factors=tuple(factors), products=tuple(left))


_Bounds = TypeVar("_Bounds", Factor, Product)


def _divided(bounds: _Bounds, by: int) -> _Bounds:
    """What bounds of a number ask of it before it is multiplied."""
    high = None if bounds.high is None else bounds.high // by
    return replace(bounds, low=-(-bounds.low // by), high=high)


_NOTHING = Block()


@dataclass(frozen=True, slots=True)
class LevelConstraint:
    """What is asked of one level; `keep` and `bypass` name tensors.

    Attributes
    ----------
    sizes : tuple of Product
        Bounds of the tile: of its sizes, or of products of them.
    words : tuple of Product
        Bounds of the words of single tensors' tiles, where the level keeps them.
    layers : frozenset of str
        Layers that it holds for; empty: all.
    """

    level: str
    keep: frozenset[str] = frozenset()
    bypass: frozenset[str] = frozenset()
    temporal: Block = _NOTHING
    x: Block = _NOTHING
    y: Block = _NOTHING
    sizes: tuple[Product, ...] = ()
    words: tuple[Product, ...] = ()
    layers: frozenset[str] = frozenset()

    @property
    def blocks(self) -> dict[str, Block]:
        """What is asked of the loops of each block, by its key."""
        return {"temporal": self.temporal, "x": self.x, "y": self.y}

    @property
    def has_products(self) -> bool:
        """Whether anything is asked of products of loops, of the tile's sizes or of its words."""
        blocks = self.temporal, self.x, self.y
        return bool(self.sizes or self.words) or any(block.products for block in blocks)

    def beside(self, node: LevelMapping) -> Iterator[tuple[str, Block, tuple[Loop, ...]]]:
        """Each block in words, what is asked of it, and the loops that a mapping has there."""
        for key, block in self.blocks.items():
            yield key if key == "temporal" else f"spatial {key}", block, getattr(node, key)

    def is_for(self, einsum: Einsum) -> bool:
        """Whether it holds for a layer."""
        return not self.layers or einsum.name in self.layers

    def settled(self, architecture: Architecture, einsum: Einsum) -> LevelConstraint:
        """Turn all of a dimension and shares of an axis into numbers, and what is reused into dimensions."""
        dims = einsum.dims
        machine = next((each for each in architecture.levels if each.name == self.level), None)
        settled: dict[str, Any] = {}
        for key, block in self.blocks.items():
            factors = [
                Factor(f.dim, dims[f.dim], dims[f.dim]) if f.whole and f.dim in dims else f for f in block.factors
            ]
            size = 1 if machine is None or key == "temporal" else getattr(machine, key).size
            least = max(block.least, math.ceil(block.share * size))
            only = block.only
            if block.reuse:
                moving = [t.dims for t in einsum.tensors if t.role in block.reuse or t.name in block.reuse]
                only = frozenset(dims if only is None else only).difference(*moving)
            settled[key] = replace(block, factors=tuple(factors), only=only, least=least, share=Fraction(0))
        return replace(self, **settled)

    def mistakes(self, architecture: Architecture, einsum: Einsum) -> Iterator[tuple[str, str, str]]:
        """Find levels, tensors and dimensions that do not exist, and tensors that a level may not keep or bypass.

        Of each mistake under which key it stands (`temporal`, `x`, `y` or one of the level), what it is, and a hint.
        """
        machine = next((level for level in architecture.levels if level.name == self.level), None)
        if machine is None:
            names = list(dict.fromkeys(level.name for level in architecture.levels))
            yield "level", *unknown("level", self.level, names, architecture.name)
            return
        roles = {tensor.name: tensor.role for tensor in einsum.tensors}
        always = ROLES if machine is architecture.levels[0] else machine.keep
        for key, names in (("keep", sorted(self.keep)), ("bypass", sorted(self.bypass))):
            for name in names:
                if name not in roles:
                    yield key, *unknown("tensor", name, roles, einsum.name)
                elif key == "keep" and roles[name] in machine.bypass:
                    yield key, f"'{name}' cannot be kept: {machine.name} never keeps it", ""
                elif key == "bypass" and roles[name] in always:
                    yield key, f"'{name}' cannot be bypassed: {machine.name} always keeps it", ""
        for product in self.words:
            if product.names[0] not in roles:
                yield "tile", *unknown("tensor", product.names[0], roles, einsum.name)
        for key, block in {**self.blocks, "tile": Block(products=self.sizes)}.items():
            known = dict.fromkeys([*ROLES, *roles])
            for name in sorted(block.reuse - known.keys()):
                yield key, f"'{name}' is no tensor of {einsum.name}", near_miss(name, known, "roles and tensors")
            named = [*(f.dim for f in block.factors), *sorted(block.only or ()), *block.outer, *block.inner]
            for dim in dict.fromkeys([*named, *(name for product in block.products for name in product.names)]):
                if dim not in einsum.dims:
                    yield key, *unknown("dimension", dim, einsum.dims, einsum.name)


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a mapping must look like besides being valid.

    Attributes
    ----------
    levels : tuple of LevelConstraint
    min_utilization : float or Fraction
        The smallest overall utilization, 0..1; a float is taken as the decimal that it prints as.
    limits : tuple of Limit
        The most that a mapping may cost; a text such as `cycles <= 1.2e6` is read.
    """

    levels: tuple[LevelConstraint, ...] = ()
    min_utilization: float | Fraction = Fraction(0)
    limits: tuple[Limit, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.min_utilization <= 1:
            raise ValueError(f"min_utilization must be from 0 to 1, got {self.min_utilization}")
        object.__setattr__(self, "min_utilization", decimal(self.min_utilization))
        limits = tuple(Limit.parse(limit) if isinstance(limit, str) else limit for limit in self.limits)
        object.__setattr__(self, "limits", limits)

    def check(self, architecture: Architecture, einsum: Einsum) -> None:
        """Raise unless all levels, dimensions and tensors that are named exist, and a level may keep or bypass them.

        Raises AccelsimError with every mistake.
        """
        of_layer = [level for level in self.levels if level.is_for(einsum)]
        twice = repeated([asked.level for asked in of_layer])
        wrong = [f"constraints of {level}: the level is given twice" for level in twice]
        for asked in of_layer:
            for _, what, hint in asked.mistakes(architecture, einsum):
                wrong.append(f"constraints of {asked.level}: {what}; {hint}".removesuffix("; "))
        if wrong:
            raise AccelsimError("\n".join(wrong))

    def settled(self, architecture: Architecture, einsum: Einsum) -> Constraints:
        """The same of one machine and one Einsum: `R=all`, `P=rest` and shares of an axis become numbers."""
        of_layer = (level for level in self.levels if level.is_for(einsum))
        levels = [replace(level.settled(architecture, einsum), layers=frozenset()) for level in of_layer]
        return replace(self, levels=tuple(without_rest(levels, architecture)))

    def of(self, level: str) -> LevelConstraint:
        """What is asked of a level."""
        return next((found for found in self.levels if found.level == level), None) or _free(level)

    @property
    def on_costs(self) -> tuple[str, ...]:
        """What they ask of the cost of a mapping, such as `cycles <= 2000000`."""
        least = [f"utilization >= {float(self.min_utilization):.12g}"] if self.min_utilization > 0 else []
        return (*least, *map(str, self.limits))

    def most_cycles(self, ideal_cycles: Fraction) -> float:
        """Cycles at which the smallest utilization is reached as results report it, to a double; infinite without one.

        >>> Constraints(min_utilization=0.3).most_cycles(Fraction(10))
        33.0
        >>> Fraction(1 / 11) > Fraction(1, 11), Constraints(min_utilization=1 / 11).most_cycles(Fraction(13))
        (True, 143.0)
        """
        least = Fraction(self.min_utilization)
        if least == 0:
            return math.inf
        most = math.floor(ideal_cycles / least)
        return float(most + (float(Fraction(ideal_cycles, most + 1)) >= float(least)))

    def broken_by_costs(self, costs: tuple[float, float, float], ideal_cycles: Fraction) -> list[str]:
        """What energy [pJ], cycles and off-chip words of a mapping break of this, in words.

        `ideal_cycles`: those of units that are all busy.
        """
        found, cycles = [], int(costs[1])
        if cycles > self.most_cycles(ideal_cycles):
            down, real = Context(prec=3, rounding=ROUND_DOWN), ideal_cycles / cycles
            has = float(down.divide(Decimal(real.numerator), Decimal(real.denominator)))  # below in print too
            found = [f"the utilization is {has:g}, at least {float(self.min_utilization):.12g} is asked for"]
        return found + [broken for limit in self.limits if (broken := limit.broken_by(costs))]

    def products(self, mapping: Mapping, einsum: Einsum) -> Iterator[tuple[str, Product, int]]:
        """Where products, sizes and words are asked for, which, and what they are in a mapping."""
        if not any(asked.has_products for asked in self.levels):
            return
        tile = dict.fromkeys(einsum.dims, 1)
        for at in range(len(mapping.levels) - 1, -1, -1):
            level = mapping.levels[at]
            asked, first = self.of(level.level), at == 0 or mapping.levels[at - 1].level != level.level
            for loop in level.loops:
                tile[loop.dim] *= loop.bound
            sizes = {dim: min(size, einsum.dims[dim]) for dim, size in tile.items()}
            for tensor in einsum.tensors:
                for product in asked.words:
                    if product.names == (tensor.name,) and tensor.name in level.keep:
                        yield f"{level.level}: words of the tile", product, tensor.words(sizes)
            if first:
                node = _as_one([each for each in mapping.levels if each.level == level.level])
                for axis, block, loops in asked.beside(node):
                    for product in block.products:
                        bounds = (loop.bound for loop in loops if loop.dim in product.names)
                        yield f"{level.level} {axis}", product, math.prod(bounds)
                for product in asked.sizes:
                    yield f"{level.level}: sizes of the tile", product, math.prod(sizes[dim] for dim in product.names)

    def broken_by(self, mapping: Mapping, einsum: Einsum) -> list[str]:
        """What a mapping of an Einsum breaks of this, in words; its costs are not looked at."""
        found = [
            f"{where}: {'*'.join(product.names)} is {value}, {product} is asked for"
            for where, product, value in self.products(mapping, einsum)
            if product.missed_by(value) > 1
        ]
        of_levels = {asked.level: asked for asked in reversed(self.levels)}
        for name, nodes in itertools.groupby(mapping.levels, key=lambda node: node.level):
            asked = of_levels.get(name)
            if asked is None:
                continue
            level = _as_one(list(nodes))
            for axis, block, loops in asked.beside(level):
                bounds = products(loops)
                dims = [*bounds, *(f.dim for f in block.factors if f.dim not in bounds)]
                where = f"{name} {axis}"
                found += [
                    f"{where}: {Loop(dim, bounds.get(dim, 1))} is not allowed"
                    for dim in dims
                    if not block.allows(dim, bounds.get(dim, 1))
                ]
                if math.prod(bounds.values()) < block.least:
                    used = math.prod(bounds.values())
                    found.append(f"{where}: the loops use {used} instances, at least {block.least} are asked for")
                if not block.orders(loops):
                    found.append(f"{where}: the loops {', '.join(map(str, loops))} are not in the order asked for")
            found += [f"{name} must keep {tensor}" for tensor in sorted(asked.keep - level.keep)]
            found += [f"{name} must bypass {tensor}" for tensor in sorted(asked.bypass & level.keep)]
        return found


def _as_one(nodes: list[LevelMapping]) -> LevelMapping:
    """All loops of a level, whose storage nodes may stand at different places, and all that it keeps."""
    if len(nodes) == 1:
        return nodes[0]
    temporal = tuple(loop for node in nodes for loop in node.temporal)
    return replace(nodes[-1], temporal=temporal, keep=frozenset().union(*(node.keep for node in nodes)))


@lru_cache(maxsize=256)
def _free(level: str) -> LevelConstraint:
    """What is asked of a level of which constraints say nothing."""
    return LevelConstraint(level)


def without_rest(levels: list[LevelConstraint], architecture: Architecture) -> list[LevelConstraint]:
    """Forbid loops over dimensions whose rest stands in one block in all blocks that do not name them."""
    dims = {f.dim: None for level in levels for block in level.blocks.values() for f in block.factors if f.rest}
    by_name = {level.level: level for level in levels}
    names = dict.fromkeys([*by_name, *(level.name for level in architecture.levels)] if dims else by_name)
    settled = []
    for name in names:
        level = by_name.get(name, LevelConstraint(name))
        blocks: dict[str, Any] = {}
        for key, block in level.blocks.items():
            named = {factor.dim for factor in block.factors}
            none = tuple(Factor(dim, 1, 1) for dim in dims if dim not in named)
            blocks[key] = replace(block, factors=(*block.factors, *none))
        settled.append(replace(level, **blocks))
    return settled
