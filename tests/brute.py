"""The truth about small map spaces: every mapping by definition (docs/papers/mapspace.md), and what each costs.

It judges `accelsim.mapspace` and `accelsim.search`, so it uses nothing of them: no equivalences, no bounds, all orders
of loops. Only the cost model is accelsim's. Axis letters: L = levels (outermost first), D = dimensions as `encode` has
them, T = tensors; N = tilings, a factorisation of every dimension; M = tilings with an order of all loops; K = choices
of what is kept; V = valid mappings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, LevelConstraint, Product
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.model.detail import FILLS, PARTIAL, READS, TILE, UPDATES, Detail, make_detail
from accelsim.model.encode import (
    Batch,
    Bools,
    Constants,
    Encoded,
    Floats,
    Ints,
    decode_mapping,
    empty_batch,
    encode,
    encode_mappings,
)
from accelsim.model.evaluate import at_levels, violations
from accelsim.model.jit import jit
from accelsim.model.kernel import VALID, evaluate_one, fit
from accelsim.model.ragged import count_ragged
from accelsim.model.records import Bools3, Floats2, Ints1, Ints2, Ints3, Ints4

Identity = tuple[tuple[frozenset[str], tuple[Loop, ...], frozenset[Loop], frozenset[Loop]], ...]
FREE = Constraints()
SLACK = 1e-12
"""Values this close (relative) count as equal: sums of doubles in another order."""


def identity(mapping: Mapping) -> Identity:
    """What makes a mapping this one and no other (docs/papers/mapspace.md)."""
    loops = [
        [tuple(loop for loop in block if loop.bound > 1) for block in (m.temporal, m.x, m.y)] for m in mapping.levels
    ]
    return tuple(
        (level.keep, temporal, frozenset(x), frozenset(y))
        for level, (temporal, x, y) in zip(mapping.levels, loops, strict=True)
    )


def ragged_cost(encoded: Encoded, mapping: Mapping) -> tuple[bool, float, int]:
    """Whether a mapping that may leave remainders fits, its energy [pJ] and cycles; infinite and 0 if it does not."""
    batch = encode_mappings(encoded, [mapping])
    if fit.lazily(encoded.constants, batch, 0, make_detail(encoded), False) != VALID:
        return False, math.inf, 0  # most mappings end here, uncounted
    counted = count_ragged(encoded, mapping)
    if violations(encoded, mapping, at_levels(encoded, counted)):
        return False, math.inf, 0
    return True, counted.energy_pj, counted.cycles


@lru_cache(maxsize=4096)
def splits(bound: int, places: int) -> tuple[tuple[int, ...], ...]:
    """All ways to write a bound as a product of factors at places: each of its primes goes to any place."""
    primes = []
    for factor in range(2, bound + 1):
        while bound % factor == 0:
            primes.append(factor)
            bound //= factor
    found = set()
    for where in itertools.product(range(places), repeat=len(primes)):
        row = [1] * places
        for prime, place in zip(primes, where, strict=True):
            row[place] *= prime
        found.add(tuple(row))
    return tuple(sorted(found))


def every_mapping(architecture: Architecture, einsum: Einsum, constraints: Constraints = FREE) -> Iterator[Mapping]:
    """Every mapping that breaks no constraint, one by one, by the definition alone; slow on purpose.

    Fanout, capacity and utilization are not looked at.
    """
    levels = architecture.levels
    places = [(index, "time", 0) for index in range(len(levels))]
    places += [(index, "x", level.x.size) for index, level in enumerate(levels) if level.x.size > 1]
    places += [(index, "y", level.y.size) for index, level in enumerate(levels) if level.y.size > 1]
    rows = [
        [
            [(place, Loop(dim, factor)) for place, factor in zip(places, row, strict=True) if factor > 1]
            for row in splits(bound, len(places))
            if all(where == "time" or factor <= size for factor, (_, where, size) in zip(row, places, strict=True))
        ]
        for dim, bound in einsum.dims.items()
    ]
    keeps = []
    for index, level in enumerate(levels):
        must = {t.name for t in einsum.tensors if index == 0 or t.role in level.keep}
        may = sorted({t.name for t in einsum.tensors if t.role not in level.bypass} - must)
        keeps.append(
            [frozenset(must | {*chosen}) for k in range(len(may) + 1) for chosen in itertools.combinations(may, k)]
        )
    for chosen in itertools.product(*rows):
        at: dict[tuple[int, str, int], list[Loop]] = {place: [] for place in places}
        for place, loop in itertools.chain(*chosen):
            at[place].append(loop)
        blocks = [itertools.permutations(at[index, "time", 0]) for index in range(len(levels))]
        spatial = [
            {
                where: tuple(at.get((index, where, size), ()))
                for where, size in (("x", level.x.size), ("y", level.y.size))
            }
            for index, level in enumerate(levels)
        ]
        for times in itertools.product(*blocks):
            for keep in itertools.product(*keeps):
                mapping = Mapping(
                    tuple(
                        LevelMapping(level.name, time, on["x"], on["y"], kept)
                        for level, time, on, kept in zip(levels, times, spatial, keep, strict=True)
                    )
                )
                if constraints is FREE or not constraints.broken_by(mapping, einsum):
                    yield mapping


def product(energy: float, cycles: float, offchip_words: float = 0.0) -> Objective:
    """A product of powers."""
    return Objective("product", ((1.0, energy, cycles, offchip_words),))


@dataclass(frozen=True, eq=False)
class Tilings:
    """The same mappings as those of `every_mapping`, as arrays, with orders apart.

    loops : int64[3, N, L, D], bounds in time, on x and on y; keeps : bool[K, L, T]; orders : for each level the orders
    of its temporal blocks, int64[., D], dimensions without a loop after all others; first, count : int64[N, L], where
    the orders of a tiling's block begin and how many there are.
    """

    loops: Ints
    keeps: Bools
    orders: tuple[Ints, ...]
    first: Ints
    count: Ints

    @property
    def size(self) -> int:
        """Mappings in all."""
        return int(self.count.prod(axis=1).sum()) * len(self.keeps)


def tilings(architecture: Architecture, einsum: Einsum, constraints: Constraints, most: int) -> Tilings | None:
    """Enumerate all tilings that break no constraint; None if there are more than `most` mappings."""
    asked = _asked(architecture, constraints)
    blocks = [block for level in asked for block in (level.temporal, level.x, level.y)]
    kept = _kept(architecture, einsum, constraints)
    dims = tuple(dim for dim, bound in einsum.dims.items() if bound > 1) or tuple(einsum.dims)[:1]
    rows = [_rows(architecture, blocks, dim, einsum.dims[dim]) for dim in dims]
    total = math.prod(map(len, rows))
    if not all(block.allows(dim, 1) for block in blocks for dim in einsum.dims if dim not in dims):
        total = 0
    if total * math.prod(map(len, kept)) > most:
        return None
    keeps = _keeps(kept, len(asked), len(einsum.tensors))
    loops = np.ones((3, total, len(asked), len(dims)), np.int64)
    inner = total
    for d, row in enumerate(rows if total else ()):
        inner //= len(row)
        loops[:, :, :, d] = row[np.arange(total) // inner % len(row)].transpose(1, 0, 2)
    patterns = (loops[0] > 1) @ (1 << np.arange(len(dims)))
    orders, first, count = [], np.empty_like(patterns), np.empty_like(patterns)
    for lv, level in enumerate(asked):
        found, which = np.unique(patterns[:, lv], return_inverse=True)
        allowed = [_orders(dims, level.temporal, int(pattern)) for pattern in found]
        counts = np.array([len(each) for each in allowed], np.int64)
        first[:, lv], count[:, lv] = (np.cumsum(counts) - counts)[which], counts[which]
        orders.append(np.concatenate([np.empty((0, len(dims)), np.int64), *allowed]))
    space = Tilings(loops, keeps, tuple(orders), first, count)
    return space if space.size <= most else None


def has_few(architecture: Architecture, einsum: Einsum, most: int) -> bool:
    """Whether there are at most `most` mappings without constraints, as `tilings` finds it, but quickly."""
    levels, keeps = architecture.levels, 1
    for level, tensor in itertools.product(levels[1:], einsum.tensors):
        held = level.tensors is None or tensor.name in level.tensors
        keeps *= 2 if held and tensor.role not in level.keep | level.bypass else 1
    blocks = [Block()] * (3 * len(levels))
    rows = [_rows(architecture, blocks, dim, bound)[:, 0] > 1 for dim, bound in einsum.dims.items() if bound > 1]
    if math.prod(map(len, rows)) * keeps > most:
        return False
    loops = np.zeros((1, len(levels)), np.int64)
    for row in rows:
        loops = (loops[:, None] + row).reshape(-1, len(levels))
    orders = np.array([math.factorial(k) for k in range(len(rows) + 1)])
    return int(orders[loops].prod(axis=1).sum()) * keeps <= most


def _asked(architecture: Architecture, constraints: Constraints) -> list[LevelConstraint]:
    """What is asked of each level, or of each of its storage nodes: nothing of an axis that lies below another node."""
    names = [level.name for level in architecture.levels]
    asked = [constraints.of(name) for name in names]
    registers, no_loop = architecture.compute.operands, frozenset[str]()
    asked = [
        replace(each, temporal=replace(each.temporal, only=no_loop)) if each.level == registers else each
        for each in asked
    ]
    return [
        replace(each, x=Block(), y=Block()) if name == inner else each
        for each, name, inner in zip(asked, names, [*names[1:], ""], strict=True)
    ]


def _kept(architecture: Architecture, einsum: Einsum, constraints: Constraints) -> list[list[tuple[int, int] | None]]:
    """Where a tensor may be kept, at which storage node of a level (index, tensor) or at none, for each level."""
    levels, choices = architecture.levels, []
    for name in dict.fromkeys(level.name for level in levels):
        asked = constraints.of(name)
        for t, tensor in enumerate(einsum.tensors):
            nodes = [
                at for at, level in enumerate(levels)
                if level.name == name and (level.tensors is None or tensor.name in level.tensors)
            ]  # fmt: skip
            level = next(level for level in levels if level.name == name)
            must = level is levels[0] or tensor.role in level.keep or tensor.name in asked.keep
            may = tensor.role not in level.bypass and tensor.name not in asked.bypass
            keeping: list[tuple[int, int] | None] = [(at, t) for at in nodes] if must or may else []
            choices.append(keeping if must and nodes else [None, *keeping])
    return choices


def _keeps(choices: list[list[tuple[int, int] | None]], levels: int, tensors: int) -> Bools:
    """All combinations of choices of what is kept: bool[K, L, T]."""
    inner = math.prod(map(len, choices))
    keeps = np.zeros((inner, levels, tensors), np.bool_)
    each = np.arange(inner)
    for places in choices:
        inner //= len(places)
        for number, place in enumerate(places):
            if place is not None:
                keeps[each // inner % len(places) == number, *place] = True
    return keeps


def _rows(architecture: Architecture, blocks: Sequence[Block], dim: str, bound: int) -> Ints:
    """Factorisations of a dimension that the blocks allow (time, x, y of each level): int64[rows, 3, L]."""
    sizes = np.array([(bound, level.x.size, level.y.size) for level in architecture.levels]).ravel()
    places = [place for place, size in enumerate(sizes) if place % 3 == 0 or size > 1]
    split = splits(bound, len(places))
    rows = np.ones((len(split), len(sizes)), np.int64)
    rows[:, places] = split
    rows = rows[(rows <= sizes).all(axis=1)]
    for place, block in enumerate(blocks):
        if block.factors or block.only is not None:
            rows = rows[np.array([block.allows(dim, factor) for factor in rows[:, place].tolist()], np.bool_)]
    return np.asarray(rows.reshape(len(rows), len(architecture.levels), 3).transpose(0, 2, 1))


@lru_cache(maxsize=4096)
def _permutations(dims: int, pattern: int) -> Ints:
    """All orders of the dimensions in a bit pattern, each followed by the others: int64[., dims]."""
    loops, others = ([d for d in range(dims) if pattern >> d & 1 == bit] for bit in (1, 0))
    return np.array([(*order, *others) for order in itertools.permutations(loops)], np.int64)


def _orders(dims: tuple[str, ...], block: Block, pattern: int) -> Ints:
    """Allowed orders of the loops of a temporal block over the dimensions in a bit pattern: int64[., D]."""
    orders = _permutations(len(dims), pattern)
    if not block.outer and not block.inner:
        return orders
    loops = [Loop(dim, 2 if pattern >> d & 1 else 1) for d, dim in enumerate(dims)]
    allowed = [block.orders(tuple(loops[d] for d in order)) for order in orders.tolist()]
    return np.asarray(orders[np.array(allowed)])


@dataclass(frozen=True, eq=False)
class Truth:
    """All valid mappings of a map space and what they cost, in no order that means anything.

    Attributes
    ----------
    size : int
        Mappings that break no constraint, valid or not; the smallest utilization counts for validity.
    batch : Batch
        The valid ones.
    energy_pj : float64[V]
    cycles : int64[V]
    offchip_words : int64[V]
        Storage words read from, filled into and updated in the outermost level.
    used_words : int64[V, L]
        Storage words of the tiles that one instance holds.
    """

    encoded: Encoded
    size: int
    batch: Batch
    energy_pj: Floats
    cycles: Ints
    offchip_words: Ints
    used_words: Ints

    @property
    def valid(self) -> int:
        """Valid mappings."""
        return len(self.cycles)

    @cached_property
    def keys(self) -> dict[bytes, int]:
        """Number of each valid mapping by its identity, as bytes."""
        return {key: index for index, key in enumerate(_keys(self.batch))}

    def number(self, mapping: Mapping) -> int | None:
        """Index of a mapping in the arrays; None if it is not valid."""
        return self.keys.get(_keys(encode_mappings(self.encoded, [mapping]))[0])

    def mapping(self, index: int) -> Mapping:
        """The mapping at an index of the arrays."""
        return decode_mapping(self.encoded, self.batch, index)

    def worth(self, objective: Objective) -> Floats:
        """Value of an objective for each mapping: float64[V]."""
        found = np.zeros(self.valid)
        for weight, energy, cycles, words in objective.terms:
            found += weight * self.energy_pj**energy * self.cycles.astype(float) ** cycles * self.offchip_words**words
        return found

    def values(self, energy_power: float = 1.0, cycles_power: float = 0.0) -> Floats:
        """Objective `energy^a * cycles^b` of each mapping: float64[V]."""
        return np.asarray(self.energy_pj**energy_power * self.cycles.astype(np.float64) ** cycles_power)

    def best(self, energy_power: float = 1.0, cycles_power: float = 0.0) -> float:
        """Smallest value of the objective; infinite if no mapping is valid."""
        return float(self.values(energy_power, cycles_power).min(initial=math.inf))

    def smallest(self, k: int, energy_power: float = 1.0, cycles_power: float = 0.0) -> list[float]:
        """The k smallest values of the objective, in order, one for each mapping; fewer if there are fewer."""
        return [float(value) for value in np.sort(self.values(energy_power, cycles_power))[:k]]

    def within(self, fraction: float, energy_power: float = 1.0, cycles_power: float = 0.0) -> int:
        """Mappings whose objective is at most `1 + fraction` times the smallest value."""
        limit = self.best(energy_power, cycles_power) * (1 + fraction) * (1 + SLACK)
        return int((self.values(energy_power, cycles_power) <= limit).sum())

    def front(self, *columns: Floats | Ints) -> set[tuple[float, ...]]:
        """Values of the mappings that none is better than in one column and as good in all others; small is good.

        >>> nothing = np.zeros(0)
        >>> truth = Truth(None, 0, None, nothing, nothing, nothing, nothing)
        >>> sorted(truth.front(np.array([1, 2, 3, 1]), np.array([7, 5, 6, 8])))
        [(1.0, 7.0), (2.0, 5.0)]
        """
        rows = np.unique(np.column_stack(columns).astype(np.float64), axis=0)
        found = set()
        while len(rows):  # no row is better in the first column than those before it
            found.add(tuple(rows[0].tolist()))
            rows = rows[(rows[:, 1:] < rows[0, 1:]).any(axis=1)]
        return found


def check_points(values: Sequence[Sequence[float]], table: Floats, columns: Sequence[str]) -> None:
    """Points are those of a table of all mappings that none beats."""
    found = np.array(values)
    # equal to rounding: every mapping is beaten or met by a point, every point is met by a mapping that none beats
    tolerance = np.array([1e-9 if column == "energy" else 0.0 for column in columns])
    met = (found[None] <= table[:, None] * (1 + tolerance)).all(axis=2).any(axis=1)
    assert met.all()
    for point in found:
        assert (np.abs(table - point) <= tolerance * np.abs(point)).all(axis=1).any()
        better = (table <= point * (1 + tolerance)).all(axis=1) & (table < point * (1 - tolerance)).any(axis=1)
        assert not better.any()


def truth(
    architecture: Architecture, einsum: Einsum, constraints: Constraints, most: int, encoded: Encoded | None = None
) -> Truth | None:
    """Evaluate every mapping; None if there are more than `most`. `encoded`: the machine, where costs are others."""
    space = tilings(architecture, einsum, constraints, most)
    if space is None:
        return None
    encoded = encoded or encode(architecture, einsum)
    tiling, order = _spread(space)
    shape = (len(tiling), len(space.keeps))
    energy = np.zeros(shape)
    status, cycles, outer = np.zeros((3, *shape), np.int64)
    used = np.zeros((*shape, len(architecture.levels)), np.int64)
    _evaluate(
        encoded.constants,
        space.loops,
        tiling,
        order,
        space.keeps,
        empty_batch(encoded, 1),
        make_detail(encoded),
        status,
        energy,
        cycles,
        outer,
        used,
    )
    least = Fraction(constraints.min_utilization)
    ideal = Fraction(einsum.macs * architecture.compute.cycles_per_mac, architecture.macs)
    times, which = np.unique(cycles, return_inverse=True)  # of mappings that are not valid, too
    reached = np.array([time <= 0 or float(ideal / time) >= float(least) for time in times.tolist()], np.bool_)
    slow = ~reached[which].reshape(shape)
    m, k = np.nonzero((status == VALID) & ~slow & _has_products(architecture, einsum, constraints, space)[tiling])
    time, x, y = space.loops[:, tiling[m]]
    batch = Batch(time, order[m], x, y, space.keeps[k])
    return Truth(encoded, space.size, batch, energy[m, k], cycles[m, k], outer[m, k], used[m, k])


def _has_products(architecture: Architecture, einsum: Einsum, constraints: Constraints, space: Tilings) -> Bools:
    """Whether tilings have the products, the sizes and the words that are asked for: bool[N, K]."""
    dims = tuple(dim for dim, bound in einsum.dims.items() if bound > 1) or tuple(einsum.dims)[:1]
    found = np.ones((space.loops.shape[1], len(space.keeps)), np.bool_)
    names = [level.name for level in architecture.levels]

    def holds(bounds: Product, values: Ints) -> Bools:
        return np.asarray((values >= bounds.low) & (values <= (bounds.high or 2**62)))

    for lv, asked in enumerate(_asked(architecture, constraints)):
        sizes = space.loops[:, :, lv:].prod(axis=(0, 2))
        for loops, block in zip(space.loops[:, :, lv], (asked.temporal, asked.x, asked.y), strict=True):
            found &= (loops.prod(axis=1) >= block.least)[:, None]
            for each in block.products:
                found &= holds(each, loops[:, [dim in each.names for dim in dims]].prod(axis=1))[:, None]
        for each in asked.sizes if lv == names.index(asked.level) else ():
            found &= holds(each, sizes[:, [dim in each.names for dim in dims]].prod(axis=1))[:, None]
        for each in asked.words:
            t = [tensor.name for tensor in einsum.tensors].index(each.names[0])
            tiles = (dict.fromkeys(einsum.dims, 1) | dict(zip(dims, row, strict=True)) for row in sizes.tolist())
            words = np.array([einsum.tensors[t].words(tile) for tile in tiles], np.int64)
            found &= holds(each, words)[:, None] | ~space.keeps[:, lv, t]
    return found


def _spread(space: Tilings) -> tuple[Ints, Ints]:
    """Every order of every tiling: int64[M], the tiling, and int64[M, L, D], the order."""
    combinations = space.count.prod(axis=1)
    tiling = np.repeat(np.arange(len(combinations)), combinations)
    rest = np.arange(len(tiling)) - np.repeat(np.cumsum(combinations) - combinations, combinations)
    order = np.empty((len(tiling), *space.loops.shape[2:]), np.int64)
    for lv, orders in enumerate(space.orders):
        rest, digit = np.divmod(rest, space.count[tiling, lv])
        order[:, lv] = orders[space.first[tiling, lv] + digit]
    return tiling, order


def _keys(batch: Batch) -> list[bytes]:
    """The bytes of each mapping of a batch."""
    rows = np.concatenate(
        [array.reshape(len(array), math.prod(array.shape[1:])).astype(np.uint16) for array in batch], axis=1
    )
    return [row.tobytes() for row in rows]


@jit
def _evaluate(
    c: Constants,
    loops: Ints4,
    tiling: Ints1,
    order: Ints3,
    keeps: Bools3,
    one: Batch,
    s: Detail,
    status: Ints2,
    energy: Floats2,
    cycles: Ints2,
    outer: Ints2,
    used: Ints3,
) -> None:
    """Evaluate each order with each choice of what is kept; writes status ... outer : [M, K], used : [M, K, L]."""
    for m in range(len(tiling)):
        n = tiling[m]
        one.temporal[0], one.order[0], one.x[0], one.y[0] = loops[0, n], order[m], loops[1, n], loops[2, n]
        for k in range(len(keeps)):
            one.keep[0] = keeps[k]
            status[m, k], energy[m, k], cycles[m, k] = evaluate_one(c, one, 0, s, False)
            for t in range(keeps.shape[2]):
                moved = s.at[0, t, READS] + s.at[0, t, FILLS] + s.at[0, t, UPDATES]
                outer[m, k] += moved * c.word_parts[0, t, s.at[0, t, PARTIAL]]
            outer[m, k] = -(-outer[m, k] // c.outer_units[0])
            for lv in range(keeps.shape[1]):
                for t in range(keeps.shape[2]):
                    if keeps[k, lv, t]:
                        used[m, k, lv] += s.at[lv, t, TILE] * c.word_parts[lv, t, s.at[lv, t, PARTIAL]]
