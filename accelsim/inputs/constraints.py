"""Constraints: what a mapping must look like besides being valid."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as StringMap
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from accelsim.inputs import fields, forms
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.fields import Fields, Key, Keys, Source, formed, keys_form, node_of
from accelsim.inputs.forms import Form
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, products
from accelsim.inputs.objective import LIMIT, Limit
from accelsim.inputs.source import BadNode, ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import decimal, near_miss, parse_decimal, repeated, unknown
from accelsim.inputs.workload import ROLES, Einsum

REST = "..."
"""Stands in an order for all dimensions that are not named."""
_NAME, _BOUND = r"[A-Za-z_][A-Za-z0-9_]*", r"(<=|>=|=)\s*([0-9]{1,18})"
_FACTOR = re.compile(rf"\s*({_NAME})\s*(?:{_BOUND}|=\s*(all|rest))\s*")
_PRODUCT = re.compile(rf"\s*({_NAME}(?:\s*\*\s*{_NAME})*)\s*{_BOUND}\s*")
_EITHER = re.compile(rf"{_FACTOR.pattern}|{_PRODUCT.pattern}")


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

    def orders(self, loops: tuple[Loop, ...]) -> bool:
        """Whether the loops of bound > 1 stand in an allowed order."""
        dims = [loop.dim for loop in loops if loop.bound > 1]
        first = [dim for dim in self.outer if dim in dims]
        last = [dim for dim in self.inner if dim in dims]
        return dims[: len(first)] == first and dims[len(dims) - len(last) :] == last


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

        Raises
        ------
        AccelsimError
            With every mistake.
        """
        of_layer = _of_layer(self.levels, einsum)
        twice = repeated([asked.level for asked in of_layer])
        wrong = [f"constraints of {level}: the level is given twice" for level in twice]
        for asked in of_layer:
            for _, what, hint in _mistakes(asked, architecture, einsum):
                wrong.append(f"constraints of {asked.level}: {what}; {hint}".removesuffix("; "))
        if wrong:
            raise AccelsimError("\n".join(wrong))

    def settled(self, architecture: Architecture, einsum: Einsum) -> Constraints:
        """The same of one machine and one Einsum: `R=all`, `P=rest` and shares of an axis become numbers."""
        levels = [_settle(level, architecture, einsum) for level in _of_layer(self.levels, einsum)]
        return replace(self, levels=tuple(_without_rest(levels, architecture)))

    def of(self, level: str) -> LevelConstraint:
        """What is asked of a level."""
        for found in self.levels:
            if found.level == level:
                return found
        return _free(level)

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
        """What energy [pJ], cycles and outer words of a mapping break of this, in words.

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


def load_constraints(
    source: Source,
    architecture: Architecture,
    einsum: Einsum,
    overrides: StringMap[str, str] | None = None,
    layers: Collection[str] = (),
) -> Constraints:
    """Read constraints and check that they speak of this architecture and this Einsum.

    Parameters
    ----------
    source : str, path or dict
        YAML file with a top-level key `constraints`, or the name of one that ships; or what such a file holds, as YAML
        text of several lines or as a dict.
    overrides : mapping of str to str, optional
        Values of parameters that replace those in the file.
    layers : collection of str, optional
        Names of all layers, if what is asked of single ones is to be checked.

    Raises
    ------
    SpecError
        With every mistake in the file and its place; what contradicts the architecture or itself is one.
    """
    problems = Problems()
    opened = fields.open_source(source, "constraints", overrides, problems)
    return problems.result(read_constraints(opened.body, problems, architecture, einsum, layers) if opened else None)


@lru_cache(maxsize=256)
def _free(level: str) -> LevelConstraint:
    """What is asked of a level of which constraints say nothing."""
    return LevelConstraint(level)


def _of_layer(levels: Sequence[LevelConstraint], einsum: Einsum) -> list[LevelConstraint]:
    """What is asked of levels for one layer."""
    return [level for level in levels if not level.layers or einsum.name in level.layers]


def read_constraints(
    body: Node,
    problems: Problems,
    architecture: Architecture | None = None,
    einsum: Einsum | None = None,
    layers: Collection[str] = (),
) -> Constraints | None:
    """Read what stands under `constraints`, or return None with every mistake reported.

    Without architecture and Einsum only its form is checked; `layers` are those that it may name.
    """
    before = len(problems)
    top = Fields(body, problems, _TOP)
    least = top.value("min_utilization", Fraction(0))
    limits: list[Limit] = top.value("limits", [])
    node: ListNode | None = top.value("levels", None)
    read: list[LevelConstraint] = []
    for item in node.items if node else ():
        level = Fields(item, problems, _LEVEL)
        found = _level(level)
        for name in sorted(found.layers - set(layers or found.layers)):
            level.wrong("layers", f"there is no layer '{name}'", near_miss(name, layers, "layers"))
        same = [other.layers for other in read if other.level == found.level and found.level]
        if any(not found.layers or not other or found.layers & other for other in same):
            level.wrong("level", f"level '{found.level}' is given twice")
        if einsum is not None and not _of_layer([found], einsum):
            continue
        if architecture is not None and einsum is not None:
            found = _settle(found, architecture, einsum)
            _check_level(level, found, architecture, einsum)
        read.append(found)
    if architecture is not None:
        read = _without_rest(read, architecture)
    return Constraints(tuple(read), least, tuple(limits)) if len(problems) == before else None


def _without_rest(read: list[LevelConstraint], architecture: Architecture) -> list[LevelConstraint]:
    """Forbid loops over dimensions whose rest stands in one block in all blocks that do not name them."""
    dims = {f.dim: None for level in read for block in level.blocks.values() for f in block.factors if f.rest}
    by_name = {level.level: level for level in read}
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


def _fraction(text: str) -> Fraction | None:
    value = parse_decimal(text)
    return value if value is not None and 0 <= value <= 1 else None


_share = fields.scalar(forms.fraction(1), _fraction, "a fraction from 0 to 1")


@formed(forms.pattern(LIMIT))
def _limit(node: Node, problems: Problems) -> Limit | None:
    try:
        return Limit.parse(node.text if isinstance(node, ScalarNode) else describe(node))
    except AccelsimError as error:
        problems.add(node, str(error))
    return None


def _level(level: Fields) -> LevelConstraint:
    spatial, tile = level.inner("spatial", _SPATIAL), level.inner("tile", _TILE)
    keep, bypass, layers = (level.value(key, frozenset[str]()) for key in ("keep", "bypass", "layers"))
    blocks = _block(level, "temporal", _TEMPORAL), _block(spatial, "x", _AXIS), _block(spatial, "y", _AXIS)
    sizes, words = (tuple(tile.value(key, list[Product]())) for key in ("sizes", "words"))
    for name in sorted(keep & bypass):
        level.wrong("bypass", f"'{name}' is both kept and bypassed", "take it out of one list")
    for product in (each for each in words if len(each.names) > 1):
        tile.wrong("words", f"{product} is of several tensors", "bound each of them")
    return LevelConstraint(level.value("level", ""), keep, bypass, *blocks, sizes, words, layers)


def _settle(asked: LevelConstraint, architecture: Architecture, einsum: Einsum) -> LevelConstraint:
    """Turn all of a dimension and shares of an axis into numbers, and what is reused into dimensions."""
    dims = einsum.dims
    machine = next((each for each in architecture.levels if each.name == asked.level), None)
    settled: dict[str, Any] = {}
    for key, block in asked.blocks.items():
        factors = [Factor(f.dim, dims[f.dim], dims[f.dim]) if f.whole and f.dim in dims else f for f in block.factors]
        size = 1 if machine is None or key == "temporal" else getattr(machine, key).size
        least = max(block.least, math.ceil(block.share * size))
        only = block.only
        if block.reuse:
            moving = [t.dims for t in einsum.tensors if t.role in block.reuse or t.name in block.reuse]
            only = frozenset(dims if only is None else only).difference(*moving)
        settled[key] = replace(block, factors=tuple(factors), only=only, least=least, share=Fraction(0))
    return replace(asked, **settled)


def _block(owner: Fields, key: str, keys: Keys) -> Block:
    node = owner.get(key)
    if node is None or isinstance(node, BadNode):
        return Block()
    block = Fields(node, owner.problems, keys)
    asked = block.optional("factors", fields.list_of(_factor), list[object]())
    factors = [each for each in asked if isinstance(each, Factor)]
    only: frozenset[str] | None = block.value("only", frozenset()) if "only" in block else None
    outer, inner = block.value("order", ((), ())) if "order" in keys else ((), ())
    share = block.value("min_utilization", Fraction(0)) if "min_utilization" in keys else Fraction(0)
    for dim in dict.fromkeys(f.dim for f in factors):
        low, high = _bounds(dim, factors)
        if high is not None and low > high:
            block.wrong("factors", f"{dim} would have to be at least {low} and at most {high}")
        if low > 1 and only is not None and dim not in only:
            block.wrong("factors", f"{dim} needs a loop here, but 'only' does not list it")
    products = tuple(each for each in asked if isinstance(each, Product))
    return Block(tuple(factors), only, outer, inner, products, 1, share, block.value("reuse", frozenset()))


def _bounds(dim: str, factors: list[Factor] | tuple[Factor, ...]) -> tuple[int, int | None]:
    """Tightest bounds of a dimension's loop."""
    highs = [f.high for f in factors if f.dim == dim and f.high is not None]
    return max((f.low for f in factors if f.dim == dim), default=1), min(highs, default=None)


def _product_of(text: str) -> Product | None:
    """Bounds of a product such as `P*Q<=8`, or of one number."""
    match = _PRODUCT.fullmatch(text)
    names = tuple(name.strip() for name in match[1].split("*")) if match else ()
    return Product(names, *_ends(match)) if match and int(match[3]) > 0 and len(set(names)) == len(names) else None


_product = fields.scalar(forms.pattern(_PRODUCT), _product_of, "bounds like P<=8 or P*Q<=8, each name once")


def _ends(match: re.Match[str]) -> tuple[int, int | None]:
    """The least and the most that `<=`, `>=` or `=` and a number allow."""
    value = int(match[3])
    return 1 if match[2] == "<=" else value, None if match[2] == ">=" else value


def _factor(node: Node, problems: Problems) -> Factor | Product | None:
    """Read a factor such as `K=4`, `K<=4`, `K>=4`, `K=all` or `K=rest`.

    `P*Q<=8` bounds a product of factors.
    """
    if isinstance(node, ScalarNode) and "*" in node.text:
        return _product(node, problems)
    match = _FACTOR.fullmatch(node.text) if isinstance(node, ScalarNode) else None
    if match is None or (match[3] and int(match[3]) < 1):
        problems.add(node, f"expected a factor like K=4, K<=4, K>=4, K=all, K=rest or P*Q<=8, got {describe(node)}")
        return None
    if match[4]:
        return Factor(match[1], rest=match[4] == "rest", whole=match[4] == "all")
    return Factor(match[1], *_ends(match))


_dim_or_rest = fields.word(re.compile(rf"\.\.\.|{_NAME}"), "a name", "use letters, digits and _", str)
_ordered = fields.list_of(_dim_or_rest, "dimensions, outermost first")


@formed(forms.sequence(forms.either({"const": REST}, fields.identifier.form), different=True))
def _order(node: Node, problems: Problems) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Read an order: dimensions that come first, `...`, and dimensions that come last."""
    words = _ordered(node, problems)
    for word in repeated(words or []):
        problems.add(node, f"'{word}' is listed twice")
    if words is None:
        return None
    at = [*words, REST].index(REST)
    return tuple(words[:at]), tuple(words[at + 1 :])


_FACTORS = "bounds of loops (`R=1`, `K<=8`), all of it (`R=all`), what is left (`P=rest`), of products (`P*Q<=8`)"
_NAMES = fields.set_of(fields.identifier)
_BLOCK: Keys = {
    "factors": Key(node_of(forms.sequence(forms.pattern(_EITHER))), _FACTORS, "any"),
    "only": Key(_NAMES, "the dimensions that may have a loop here", "all"),
    "reuse": Key(_NAMES, "roles or tensors that no loop here moves, so that all share their words", "none"),
}
_TEMPORAL: Keys = {**_BLOCK, "order": Key(_order, "dimensions outermost first, `...` for all others", "any")}
_AXIS: Keys = {**_BLOCK, "min_utilization": Key(_share, "least share of the axis that is in use", "0", "0 to 1")}
_SPATIAL: Keys = {
    "x": Key(node_of(keys_form(_AXIS)), "loops over the columns", "any"),
    "y": Key(node_of(keys_form(_AXIS)), "loops over the rows", "any"),
}
_TILE: Keys = {
    "sizes": Key(
        fields.list_of(_product), "bounds of its sizes: of the loops here and inside (`P<=8`, `P*Q<=64`)", "any"
    ),
    "words": Key(fields.list_of(_product), "bounds of the words of tensors that are kept (`Inputs<=4096`)", "any"),
}
_LEVEL: Keys = {
    "level": Key(fields.name, "name of the level"),
    "layers": Key(fields.set_of(fields.name), "layers that this holds for", "all"),
    "keep": Key(_NAMES, "tensors that it must keep", "free"),
    "bypass": Key(_NAMES, "tensors that it must not keep", "free"),
    "temporal": Key(node_of(keys_form(_TEMPORAL)), "its loops in time", "any"),
    "spatial": Key(node_of(keys_form(_SPATIAL)), "its loops over the fanout", "any"),
    "tile": Key(node_of(keys_form(_TILE)), "what one instance holds between refills", "any"),
}
_LIMITS = "the most that a mapping may cost, such as `cycles <= 1.2e6`, `energy <= 3 uJ`"
_TOP: Keys = {
    "levels": Key(fields.items_of(keys_form(_LEVEL), "levels"), "what is asked of single levels", "nothing"),
    "min_utilization": Key(_share, "least overall utilization", "0", "0 to 1"),
    "limits": Key(fields.list_of(_limit), _LIMITS, "none"),
}
CONSTRAINTS_FORM: Form = keys_form(_TOP)
"""What may stand under `constraints`, as JSON Schema."""


def _mistakes(asked: LevelConstraint, architecture: Architecture, einsum: Einsum) -> Iterator[tuple[str, str, str]]:
    """Find levels, tensors and dimensions that do not exist, and tensors that a level may not keep or bypass.

    Of each mistake under which key it stands (`temporal`, `x`, `y` or one of the level), what it is, and a hint.
    """
    machine = next((level for level in architecture.levels if level.name == asked.level), None)
    if machine is None:
        names = list(dict.fromkeys(level.name for level in architecture.levels))
        yield "level", *unknown("level", asked.level, names, architecture.name)
        return
    roles = {tensor.name: tensor.role for tensor in einsum.tensors}
    always = ROLES if machine is architecture.levels[0] else machine.keep
    for key, names in (("keep", sorted(asked.keep)), ("bypass", sorted(asked.bypass))):
        for name in names:
            if name not in roles:
                yield key, *unknown("tensor", name, roles, einsum.name)
            elif key == "keep" and roles[name] in machine.bypass:
                yield key, f"'{name}' cannot be kept: {machine.name} never keeps it", ""
            elif key == "bypass" and roles[name] in always:
                yield key, f"'{name}' cannot be bypassed: {machine.name} always keeps it", ""
    for product in asked.words:
        if product.names[0] not in roles:
            yield "tile", *unknown("tensor", product.names[0], roles, einsum.name)
    for key, block in {**asked.blocks, "tile": Block(products=asked.sizes)}.items():
        known = dict.fromkeys([*ROLES, *roles])
        for name in sorted(block.reuse - known.keys()):
            yield key, f"'{name}' is no tensor of {einsum.name}", near_miss(name, known, "roles and tensors")
        named = [*(f.dim for f in block.factors), *sorted(block.only or ()), *block.outer, *block.inner]
        for dim in dict.fromkeys([*named, *(name for product in block.products for name in product.names)]):
            if dim not in einsum.dims:
                yield key, *unknown("dimension", dim, einsum.dims, einsum.name)


def _check_level(level: Fields, found: LevelConstraint, architecture: Architecture, einsum: Einsum) -> None:
    """Report what speaks of unknown levels, dimensions and tensors, and what the architecture or a bound rules out."""
    spatial = level.get("spatial")
    entries = {**level.entries, **(spatial.entries if isinstance(spatial, MapNode) else {})}
    for key, what, hint in _mistakes(found, architecture, einsum) if found.level else ():  # no level: reported already
        level.problems.add(entries[key], what, hint)
    machine = next((each for each in architecture.levels if each.name == found.level), None)
    for key, block in found.blocks.items() if machine is not None else ():
        size = math.inf if key == "temporal" else getattr(machine, key).size
        for dim in dict.fromkeys(f.dim for f in block.factors if f.dim in einsum.dims):
            (low, high), bound, hint = _bounds(dim, block.factors), einsum.dims[dim], ""
            if low > size:
                what = f"{dim} would have to be at least {low} on {key}, whose fanout is {size}"
            elif low == high and bound % low:
                what, hint = f"{dim}={low} does not divide {dim} = {bound}", f"divisors near it: {_near(bound, low)}"
            elif low > bound:
                what = f"{dim} would have to be at least {low}, but is {bound} in {einsum.name}"
            else:
                continue
            level.problems.add(entries[key], what, hint)


def _near(bound: int, wanted: int) -> str:
    """The divisors of a bound on both sides of a number."""
    below = max(d for d in range(1, min(wanted, bound) + 1) if bound % d == 0)
    above = next((d for d in range(wanted + 1, bound + 1) if bound % d == 0), bound)
    return f"{below}, {above}"
