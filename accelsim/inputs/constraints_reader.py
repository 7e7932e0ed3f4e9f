"""Read constraints from YAML."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from collections.abc import Mapping as StringMap
from fractions import Fraction

from accelsim.inputs import fields, forms
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint, Product, without_rest
from accelsim.inputs.fields import Fields, Key, Keys, Source, formed, keys_form, node_of
from accelsim.inputs.forms import Form
from accelsim.inputs.objective import LIMIT, Limit
from accelsim.inputs.source import BadNode, ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import near_miss, parse_decimal, repeated
from accelsim.inputs.workload import Einsum

REST = "..."
"""Stands in an order for all dimensions that are not named."""
_NAME, _BOUND = r"[A-Za-z_][A-Za-z0-9_]*", r"(<=|>=|=)\s*([0-9]{1,18})"
_FACTOR = re.compile(rf"\s*({_NAME})\s*(?:{_BOUND}|=\s*(all|rest))\s*")
_PRODUCT = re.compile(rf"\s*({_NAME}(?:\s*\*\s*{_NAME})*)\s*{_BOUND}\s*")
_EITHER = re.compile(rf"{_FACTOR.pattern}|{_PRODUCT.pattern}")


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
    InputError
        With every mistake in the file and its place; what contradicts the architecture or itself is one.
    """
    problems = Problems()
    opened = fields.open_source(source, "constraints", overrides, problems)
    return problems.result(read_constraints(opened.body, problems, architecture, einsum, layers) if opened else None)


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
        if einsum is not None and not found.is_for(einsum):
            continue
        if architecture is not None and einsum is not None:
            found = found.settled(architecture, einsum)
            _check_level(level, found, architecture, einsum)
        read.append(found)
    if architecture is not None:
        read = without_rest(read, architecture)
    return Constraints(tuple(read), least, tuple(limits)) if len(problems) == before else None


def _fraction(text: str) -> Fraction | None:
    value = parse_decimal(text)
    return value if value is not None and 0 <= value <= 1 else None


_share = fields.scalar(forms.fraction(1), _fraction, "a fraction from 0 to 1")


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


def _block(owner: Fields, key: str, keys: Keys) -> Block:
    node = owner.get(key)
    if node is None or isinstance(node, BadNode):
        return Block()
    block = Fields(node, owner.problems, keys)
    asked = block.optional("factors", fields.list_of(_factor), list[object]())
    factors = tuple(each for each in asked if isinstance(each, Factor))
    products = tuple(each for each in asked if isinstance(each, Product))
    only: frozenset[str] | None = block.value("only", frozenset()) if "only" in block else None
    outer, inner = block.value("order", ((), ())) if "order" in keys else ((), ())
    share = block.value("min_utilization", Fraction(0)) if "min_utilization" in keys else Fraction(0)
    found = Block(factors, only, outer, inner, products, 1, share, block.value("reuse", frozenset()))
    for dim in dict.fromkeys(f.dim for f in factors):
        low, high = found.bounds(dim)
        if high is not None and low > high:
            block.wrong("factors", f"{dim} would have to be at least {low} and at most {high}")
        if low > 1 and only is not None and dim not in only:
            block.wrong("factors", f"{dim} needs a loop here, but 'only' does not list it")
    return found


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


_FACTORS = "loop bounds: `R=1`, `K<=8`, `P*Q<=8`, `R=all` (whole dimension), `P=rest` (what the others leave)"
_NAMES = fields.set_of(fields.identifier)
_BLOCK: Keys = {
    "factors": Key(node_of(forms.sequence(forms.pattern(_EITHER))), _FACTORS, "none"),
    "only": Key(_NAMES, "dimensions that may have a loop here", "all"),
    "reuse": Key(_NAMES, "roles or tensors that the loops here must reuse", "none"),
}
_TEMPORAL: Keys = {**_BLOCK, "order": Key(_order, "dimensions, outermost first; `...` is all others", "none")}
_AXIS: Keys = {**_BLOCK, "min_utilization": Key(_share, "least fraction of the axis in use", "0", "0 to 1")}
_SPATIAL: Keys = {
    "x": Key(node_of(keys_form(_AXIS)), "loops over the columns", "none"),
    "y": Key(node_of(keys_form(_AXIS)), "loops over the rows", "none"),
}
_TILE: Keys = {
    "sizes": Key(fields.list_of(_product), "bounds of the loops here and inside: `P<=8`, `P*Q<=64`", "none"),
    "words": Key(fields.list_of(_product), "bounds of the words of stored tensors: `Inputs<=4096`", "none"),
}
_LEVEL: Keys = {
    "level": Key(fields.name, "name of the level"),
    "layers": Key(fields.set_of(fields.name), "layers of a network that this applies to", "all"),
    "keep": Key(_NAMES, "tensors that it must store", "none"),
    "bypass": Key(_NAMES, "tensors that it must bypass", "none"),
    "temporal": Key(node_of(keys_form(_TEMPORAL)), "temporal loops", "none"),
    "spatial": Key(node_of(keys_form(_SPATIAL)), "spatial loops", "none"),
    "tile": Key(node_of(keys_form(_TILE)), "tile of one instance", "none"),
}
_LIMITS = "limits of the cost, such as `cycles <= 1.2e6` or `energy <= 3 uJ`"
_TOP: Keys = {
    "levels": Key(fields.items_of(keys_form(_LEVEL), "levels"), "constraints of single levels", "none"),
    "min_utilization": Key(_share, "least overall utilization", "0", "0 to 1"),
    "limits": Key(fields.list_of(fields.parsed(forms.pattern(LIMIT), Limit.parse)), _LIMITS, "none"),
}
CONSTRAINTS_FORM: Form = keys_form(_TOP)
"""What may stand under `constraints`, as JSON Schema."""


def _check_level(level: Fields, found: LevelConstraint, architecture: Architecture, einsum: Einsum) -> None:
    """Report what speaks of unknown levels, dimensions and tensors, and what the architecture or a bound rules out."""
    spatial = level.get("spatial")
    entries = {**level.entries, **(spatial.entries if isinstance(spatial, MapNode) else {})}
    for key, what, hint in found.mistakes(architecture, einsum) if found.level else ():  # no level: reported already
        level.problems.add(entries[key], what, hint)
    machine = next((each for each in architecture.levels if each.name == found.level), None)
    for key, block in found.blocks.items() if machine is not None else ():
        size = math.inf if key == "temporal" else getattr(machine, key).size
        for dim in dict.fromkeys(f.dim for f in block.factors if f.dim in einsum.dims):
            (low, high), bound, hint = block.bounds(dim), einsum.dims[dim], ""
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
    from accelsim.inputs.divisors import divisors  # for a message alone

    found = divisors(bound)
    below, above = max(d for d in found if d <= wanted), next((d for d in found if d > wanted), bound)
    return ", ".join(map(str, sorted({below, above})))
