"""Random small mapping problems by seed, made quickly: what searches are judged on, by `tests.brute`.

`python -m tests.problems 200` tells what problems 0 to 199 are like.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint, Product
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.workload import ROLES, Einsum, Tensor
from tests.brute import FREE, Tilings, has_few, tilings, truth
from tests.strategies import some_multicast

MOST = 20_000
"""Mappings in a problem at most."""
SHAPES = {
    "gemm": (8, "I: M K; W: K N; O: M N"),
    "batched gemm": (6, "I: B H M K; W: B H K N; O: B H M N"),
    "matrix-vector": (2, "W: M K; I: K; O: M"),
    "conv 1D": (8, "I: C P+R; W: K C R; O: K P"),
    "conv 2D": (12, "I: N C P+R Q+S; W: K C R S; O: N K P Q"),
    "grouped conv": (6, "I: G C P+R Q+S; W: G K C R S; O: G K P Q"),
    "depthwise conv": (6, "I: N G P+R Q+S; W: G R S; O: N G P Q"),
    "weight gradient": (4, "I: N C P+R; I: N K P; O: K C R"),
    "element-wise": (3, "I: A B; I: A B; O: A B"),
    "broadcast": (3, "I: A B C; W: B; O: A B C"),
    "reduction": (2, "I: A B C; O: B"),
    "scalar": (1, "I: A B; W: B A; O:"),
    "pooling": (6, "I: C P+R Q+S; O: C P Q"),
    "transposed conv": (6, "I: C P; W: C K R; O: K P+R"),
    "transposed conv 2D": (4, "I: P Q; W: R S; O: P+R Q+S"),
    "two windows": (5, "I: C P+R; W: C P+T; O: P"),
    "two windows apart": (4, "I: P+R C; W: Q+R C; O: P Q"),
    "all windows": (4, "I: P+R; W: R+Q; O: P+Q"),
    "three in a rank": (8, "I: C P+R+T; W: C R T; O: P"),
    "three in the output": (6, "I: C P; W: C R T; O: P+R+T"),
    "chain of three": (6, "I: A K L; W: K B; W: L B; O: A B"),
    "residual": (4, "I: M K; W: K N; I: M N; O: M N"),
    "window and bias": (5, "I: C P+R; W: K C R; W: K; O: K P"),
    "random": (16, ""),
}
"""How often each comes, and its tensors; the coefficients in sums are drawn."""
_ROLE = dict(zip("WIO", ROLES, strict=True))
_BOUNDS = [1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 11, 12, 12, 13, 16, 24]
_TAPS = [1, 2, 3, 3, 3, 5]
_FEW = [1, 2, 2, 2, 2, 2, 3, 3, 4]
_Table = dict[tuple[str, str, str], EnergyEntry]
_RATES = [Fraction(n, d) for n, d in ((1, 4), (1, 3), (2, 3), (1, 1), (3, 2), (2, 1), (3, 1), (7, 2), (8, 1), (16, 1))]


@lru_cache(maxsize=4096)  # many tests begin with the first seeds, and with those of the day
def problem(seed: int, most: int = MOST) -> tuple[Architecture, Einsum, Constraints]:
    """The problem of a seed: at most `most` mappings, rarely fewer than 50, mostly with a valid one among them."""
    rng = random.Random(seed)
    while True:
        many, constrained = rng.random() < 0.2, rng.random() < 0.44
        kinds = [kind for kind, (_, shape) in SHAPES.items() if not many or len(_dims(shape)) > 4]
        kind = rng.choices(kinds, [SHAPES[kind][0] for kind in kinds])[0]
        machine = _skeleton(rng, many)
        target = round(math.exp(rng.uniform(math.log(most / (10 if many else 80)), math.log(most))))
        einsum = _einsum(rng, kind, machine, min(target * 6, most * 3) if constrained else target, many)
        constraints = FREE
        if constrained:
            space = tilings(machine, einsum, FREE, 3 * most)
            constraints = _constraints(rng, machine, einsum, space) if space else FREE
        space = tilings(machine, einsum, constraints, most)
        few = 0.6 if len(machine.levels) == 1 else 0.15
        if space is not None and (space.size >= 50 or rng.random() < few):
            return _gated(_equip(rng, machine, einsum), seed), einsum, constraints


def _gated(machine: Architecture, seed: int) -> Architecture:
    """The machine with levels whose idle instances leak, too."""
    rng = random.Random(seed + 0.5)
    return replace(machine, levels=tuple(replace(each, power_gateable=rng.random() < 0.8) for each in machine.levels))


def plain(seed: int, most: int = MOST) -> tuple[Architecture, Einsum, Constraints]:
    """A problem without wider partial sums and without a smallest utilization."""
    machine, einsum, constraints = problem(seed, most)
    tensors = tuple(replace(tensor, psum_bits=tensor.bits) for tensor in einsum.tensors)
    return machine, replace(einsum, tensors=tensors), replace(constraints, min_utilization=0.0)


def _dims(shape: str) -> list[str]:
    """The dimensions of tensors as `SHAPES` writes them."""
    return list(dict.fromkeys(re.findall("[A-Z](?!:)", shape)))


def _einsum(rng: random.Random, kind: str, machine: Architecture, most: int, many: bool) -> Einsum:
    """An Einsum with bounds as large as they are wanted, as far as the size of the map space allows it."""
    shape = SHAPES[kind][1] or _random_shape(rng)
    dims = _dims(shape)
    small = many or "three" in kind
    wish = {dim: rng.choice(_FEW if small else _TAPS if dim in "RST" else _BOUNDS) for dim in dims}
    einsum = Einsum(kind, dict.fromkeys(dims, 1), _tensors(rng, shape, wish))
    for dim in rng.sample(dims, len(dims)):
        for bound in (wish[dim], rng.randint(2, max(2, wish[dim])), 2):
            larger = replace(einsum, dims={**einsum.dims, dim: bound})
            if 1 < bound <= wish[dim] and has_few(machine, larger, most):
                einsum = larger
                break
    return einsum


def _random_shape(rng: random.Random) -> str:
    """Any tensors over one to seven dimensions."""
    dims = "ABCDEFG"[: rng.randint(1, 7)]
    tensors = []
    for name in ["O", *rng.choices("IW", k=rng.randint(1, 3))]:
        used = [dim for dim in dims if rng.random() < 0.5]
        rng.shuffle(used)
        joined = [(" ", "+")[i > 0 and rng.random() < 0.35] + dim for i, dim in enumerate(used)]
        tensors.append(f"{name}:{''.join(joined)}")
    missing = [dim for dim in dims if not any(dim in tensor[2:] for tensor in tensors)]
    tensors[-1] += "".join(" " + dim for dim in missing)
    return "; ".join(tensors)


def _tensors(rng: random.Random, shape: str, bounds: dict[str, int]) -> tuple[Tensor, ...]:
    """Tensors with coefficients and widths; in a sum `P+R` one step of P often goes as far as all of R, or nearly."""
    plain = rng.random() < 0.3
    tensors: list[Tensor] = []
    for text in shape.split("; "):
        letter, _, ranks = text.partition(":")
        name = letter + str(sum(tensor.name[0] == letter for tensor in tensors))
        bits = 16 if plain else rng.choice([8, 8, 16, 16, 24, 32])
        psum_bits = bits if plain or rng.random() < 0.3 else max(bits, rng.choice([16, 24, 32, 32]))
        sums = tuple(_rank(rng, rank.split("+"), bounds) for rank in ranks.split())
        tensors.append(Tensor(name, sums, _ROLE[letter], bits, psum_bits if letter == "O" else bits, letter == "O"))
    if rng.random() < 0.3:
        rng.shuffle(tensors)
    return tuple(tensors)


def _rank(rng: random.Random, dims: list[str], bounds: dict[str, int]) -> tuple[tuple[str, int], ...]:
    terms: list[tuple[str, int]] = []
    for dim in reversed(dims):
        far = sum(step * (bounds[other] - 1) for other, step in terms)
        step = rng.choice([1, 1, 1, 1, 2, 2, 3]) if len(dims) > 1 else rng.choice([1] * 9 + [2])
        if terms and rng.random() < 0.35:
            step = max(1, far + rng.choice([0, terms[-1][1]]))
        terms.append((dim, step))
    return tuple(reversed(terms)) if rng.random() < 0.8 else tuple(terms)


def _skeleton(rng: random.Random, many: bool) -> Architecture:
    """Levels with their fanouts and what they keep: all that the size of a map space depends on."""
    count = rng.choices([1, 2, 3, 4], [30, 60, 10, 0] if many else [12, 36, 35, 17])[0]
    spare = rng.choices([0, 1, 2, 3, 4], [25, 25, 20, 18, 12])[0]
    spread = rng.choices([0.0, 0.4, 0.7], [25, 50, 25])[0]
    levels = []
    for index in range(count):
        keep, bypass = set(), set()
        for role in rng.sample(ROLES, 3):
            if rng.random() < 0.3 and spare and index:
                spare -= 1
            elif rng.random() < 0.7 or not index:
                keep.add(role)
            else:
                bypass.add(role)
        x = _axis(rng) if rng.random() < spread else Axis()
        y = _axis(rng) if rng.random() < spread * 0.5 else Axis()
        levels.append(Level(f"L{index}", "SRAM", keep=frozenset(keep), bypass=frozenset(bypass), x=x, y=y))
    return Architecture("random", tuple(levels), Compute(), EnergyTable({}))


def _axis(rng: random.Random) -> Axis:
    shares = (True, True) if rng.random() < 0.4 else (some_multicast(rng), rng.random() < 0.5)
    return Axis(rng.choice([2, 2, 3, 4, 4, 5, 6, 7, 8, 12]), *shares)


def _equip(rng: random.Random, machine: Architecture, einsum: Einsum) -> Architecture:
    """Give a machine its widths, capacities, ports and energies."""
    plain = all(tensor.bits == tensor.psum_bits == 16 for tensor in einsum.tensors)
    limited = rng.random() < 0.6
    levels = []
    for index, level in enumerate(machine.levels):
        level = replace(
            level,
            word_bits=16 if plain else rng.choice([8, 16, 16, 24, 32]),
            block_size=rng.choice([1, 1, 1, 2, 4, 8, 3]),
            multiple_buffering=rng.choice([1, 1, 1, 2, 2, 3]),
            drain_reads=rng.random() < 0.3,
        )
        size, parts = _sizes(rng, level, einsum, index == 0)
        shared, read, write = _ports(rng) if limited else (None, None, None)
        level = replace(level, bandwidth=shared, read_bandwidth=read, write_bandwidth=write)
        levels.append(replace(level, size_words=size, partition_words=parts))
    compute = Compute(cycles_per_mac=rng.choice([1, 1, 1, 1, 2, 4]))
    return replace(machine, levels=tuple(levels), compute=compute, energy=_energies(rng, len(levels)))


def _ports(rng: random.Random) -> tuple[Fraction | None, Fraction | None, Fraction | None]:
    """Bandwidths of the shared, the read and the write port."""
    kinds = rng.choice(["", "", "s", "s", "rw", "rw", "r", "w", "srw"])
    shared, read, write = (rng.choice(_RATES) if kind in kinds else None for kind in "srw")
    return shared, read, write


def _sizes(
    rng: random.Random, level: Level, einsum: Einsum, outermost: bool
) -> tuple[int | None, dict[str, int] | None]:
    """Size, or sizes of the partitions, somewhere between one element of what must be kept and all that may be kept."""
    least, whole = dict.fromkeys(ROLES, 0), dict.fromkeys(ROLES, 0)
    for tensor in einsum.tensors:
        parts = -(-max(tensor.bits, tensor.psum_bits) // level.word_bits)
        if outermost or tensor.role not in level.bypass:
            whole[tensor.role] += parts * tensor.words(einsum.dims)
        if outermost or tensor.role in level.keep:
            least[tensor.role] += parts * (tensor.words(einsum.dims) if outermost else 1)
    if rng.random() < (0.85 if outermost else 0.1):
        return None, None
    tight = rng.random() < 0.06
    buffers = level.multiple_buffering

    def between(low: int, high: int) -> int:
        words = round(math.exp(rng.uniform(math.log(max(low, 1)), math.log(max(high, 1) * 1.1))))
        return max(1, low - 1 if tight else words) * buffers + rng.randrange(buffers)

    if rng.random() < 0.25:
        return None, {role: between(least[role], whole[role]) for role in ROLES if least[role] or rng.random() < 0.8}
    return between(sum(least.values()), sum(whole.values())), None


def _energies(rng: random.Random, levels: int) -> EnergyTable:
    kind = rng.choices(["typical", "random", "flat", "gaps"], [45, 30, 10, 15])[0]
    leak, transfer = (rng.choice([0.0, 0.0, 0.05, 1.0, 40.0]) for _ in range(2))
    by_role, update = rng.random() < 0.4, rng.random() < 0.6
    table: _Table = {}

    def put(component: str, role: str, action: str, typical: float) -> None:
        energy = {
            "typical": typical * rng.uniform(0.8, 1.2),
            "random": 10 ** rng.uniform(-2, 2),
            "flat": 1.0,
            "gaps": rng.choice([0.0, 0.5, 1.0, 2.0, 25.0]),
        }[kind]
        table[component, role, action] = EnergyEntry(round(energy, 3), "test")

    put("MAC", "*", "compute", 0.5)
    for index in range(levels):
        for role in ROLES if by_role else ("*",):
            for action in ("read", "write", "update") if update else ("read", "write"):
                put(f"L{index}", role, action, 150.0 if index == 0 else 6.0 / 3 ** (index - 1))
        for component, action, scale in ((f"L{index}", "leak", leak), (f"L{index} network", "transfer", transfer)):
            if scale and rng.random() < 0.8:
                one = round(scale * rng.random(), 3)
                table[component, "*", action] = EnergyEntry(one, "test")
                if action == "transfer" and by_role:  # of one role for nothing, of another dearer
                    for role, times in zip(ROLES, ((0, 1, 3), (1, 4, 0), (2, 0, 1))[index % 3], strict=True):
                        table[component, role, action] = EnergyEntry(one * times, "test")
                if action == "transfer" and index % 2:  # of partial sums that come back another one, or none
                    table[component, "*", "return"] = EnergyEntry(round(rng.choice([0.0, 0.4, 3.0]) * one, 3), "test")
    return EnergyTable(table)


def _constraints(rng: random.Random, machine: Architecture, einsum: Einsum, space: Tilings) -> Constraints:
    """Constraints of some kinds that a random mapping of the space satisfies, or now and then does not."""
    dims = [dim for dim, bound in einsum.dims.items() if bound > 1] or list(einsum.dims)[:1]
    n = rng.randrange(space.loops.shape[1])
    keep = space.keeps[rng.randrange(len(space.keeps))]
    kinds = rng.sample(["factors", "only", "order", "keep", "bypass"], rng.randint(2, 4))
    share = rng.choice([0.3, 0.5, 0.8])
    levels = []
    for lv, level in enumerate(machine.levels):
        blocks = []
        for axis, size in enumerate((2, level.x.size, level.y.size)):
            bounds = dict(zip(dims, space.loops[axis, n, lv].tolist(), strict=True))
            blocks.append(_block(rng, kinds, bounds, axis == 0) if size > 1 and rng.random() < share else Block())
        free = [
            (t, tensor.name)
            for t, tensor in enumerate(einsum.tensors)
            if lv and tensor.role not in level.keep | level.bypass and rng.random() < 0.8
        ]
        kept = frozenset(name for t, name in free if "keep" in kinds and keep[lv, t])
        passed = frozenset(name for t, name in free if "bypass" in kinds and not keep[lv, t])
        levels.append(LevelConstraint(level.name, kept, passed, *blocks))
    least = 0.0
    if rng.random() < 0.3:
        used = math.prod(space.loops[1:, n].ravel().tolist()) / machine.macs
        least = min(1.0, used * rng.choice([0.2, 0.5, 0.9, 1.0, 1.0]))
    asked = [level for level in levels if level != LevelConstraint(level.level)]
    return Constraints(tuple(asked), least)


def with_products(
    seed: int, machine: Architecture, einsum: Einsum, constraints: Constraints, kinds: str = "xts"
) -> Constraints:
    """The constraints of a problem, and bounds of products of loops on axes, in time, and of tiles.

    `kinds`: of axes (x), in time (t), of tiles (s).
    """
    rng, levels = random.Random(seed), []

    def product(most: int) -> Product:
        names = rng.sample(sorted(einsum.dims), rng.randint(1, len(einsum.dims)))
        value = rng.randint(1, max(1, min(most, math.prod(einsum.dims[dim] for dim in names))))
        return Product(tuple(names), *rng.choice([(1, value), (1, value), (1, 2 * value), (max(1, value // 2), None)]))

    for index, level in enumerate(machine.levels):
        asked = constraints.of(level.name)
        for axis, size in (("x", level.x.size), ("y", level.y.size)):
            if "x" in kinds and size > 1 and rng.random() < 0.4:
                block = getattr(asked, axis)
                asked = replace(asked, **{axis: replace(block, products=(product(size),))})
        if "t" in kinds and rng.random() < 0.4:
            asked = replace(asked, temporal=replace(asked.temporal, products=(product(8),)))
        if "s" in kinds and index and rng.random() < 0.4:
            asked = replace(asked, sizes=(product(16),))
        if "s" in kinds and index and rng.random() < 0.4:
            tensor = rng.choice(einsum.tensors)
            asked = replace(asked, words=(Product((tensor.name,), 1, rng.randint(1, 30)),))
        levels.append(asked)
    return replace(constraints, levels=tuple(levels))


def with_least_use(seed: int, machine: Architecture, constraints: Constraints) -> Constraints:
    """The constraints of a problem, and of some axes some instances that their loops use at least."""
    rng, levels = random.Random(seed), []
    for level in machine.levels:
        asked = constraints.of(level.name)
        for axis, size in (("x", level.x.size), ("y", level.y.size)):
            if size > 1 and rng.random() < 0.6:
                block = replace(getattr(asked, axis), least=rng.randint(2, max(2, size // 2 + 1)))
                asked = replace(asked, **{axis: block})
        levels.append(asked)
    return replace(constraints, levels=tuple(levels))


def _block(rng: random.Random, kinds: list[str], bounds: dict[str, int], temporal: bool) -> Block:
    """What is asked of one block; the loops of these bounds satisfy it, but for one in thirty factors."""
    factors, only = [], None
    dims = list(bounds)
    if "factors" in kinds:
        for dim in rng.sample(dims, min(rng.randint(1, 2), len(dims))):
            bound = bounds[dim] if rng.random() < 0.97 else 2
            half = max(1, bound // 2)
            low, high = rng.choice([(bound, bound), (1, bound), (1, bound * 2), (bound, None), (half, None)])
            factors.append(Factor(dim, low, high))
    if "only" in kinds and rng.random() < 0.6:
        only = frozenset(dim for dim in dims if bounds[dim] > 1 or rng.random() < 0.4)
    outer, inner = dims[:0], dims[:0]
    if "order" in kinds and temporal:
        order = rng.sample(dims, len(dims))
        outer = order[: rng.randint(0, 2)]
        inner = order[len(outer) :][: rng.choice([0, 0, 1, 1, 2, 7])]
    return Block(tuple(factors), only, tuple(outer), tuple(inner))


def _stays(rank: tuple[tuple[str, int], ...], einsum: Einsum) -> bool:
    """Whether a step of a loop can undo all steps of another one in a rank (docs/papers/cost-model.md, section 3)."""
    return any(
        a * g == b * h * (f - 1)
        for (p, a), (r, b) in itertools.permutations(rank, 2)
        for g, f, h in itertools.product(range(1, einsum.dims[p]), range(2, 1 + einsum.dims[r]), range(1, 25))
        if einsum.dims[p] % g == 0 and einsum.dims[r] % (f * h) == 0
    )


@dataclass(frozen=True)
class _Row:
    """What the summary tells of one problem."""

    size: int
    valid: int
    marks: tuple[str, ...]
    problem_ms: float
    truth_ms: float


def _row(seed: int) -> _Row:
    started = time.perf_counter()
    machine, einsum, constraints = problem(seed)
    made = time.perf_counter()
    found = truth(machine, einsum, constraints, MOST)
    assert found is not None
    ended = time.perf_counter()
    ranks = [sum(einsum.dims[dim] > 1 for dim, _ in rank) for tensor in einsum.tensors for rank in tensor.ranks]
    levels = machine.levels
    axes = [axis for level in levels for axis in (level.x, level.y) if axis.size > 1]
    blocks = [block for level in constraints.levels for block in (level.temporal, level.x, level.y)]
    factors = [factor for block in blocks for factor in block.factors]
    entries = machine.energy.entries
    steps = found.batch.temporal.prod(axis=(1, 2))
    marks = {
        f"shape: {einsum.name}": True,
        f"dimensions > 1: {sum(bound > 1 for bound in einsum.dims.values())}": True,
        f"levels: {len(levels)}": True,
        f"tensors: {len(einsum.tensors)}": True,
        "valid mapping": found.valid > 0,
        "window": max(ranks, default=0) > 1,
        "window of three": max(ranks, default=0) > 2,
        "windowed output": any(sum(einsum.dims[dim] > 1 for dim, _ in rank) > 1 for rank in einsum.output.ranks),
        "tile may stay in place": any(_stays(rank, einsum) for tensor in einsum.tensors for rank in tensor.ranks),
        "fanout": bool(axes),
        "fanout on y": any(level.y.size > 1 for level in levels),
        "no multicast": not all(axis.multicast is True for axis in axes),
        "no spatial reduction": not all(axis.spatial_reduction for axis in axes),
        "bypass forced": any(level.bypass for level in levels[1:]),
        "bypass below a fanout": any(inner.bypass and level.fanout > 1 for level, inner in itertools.pairwise(levels)),
        "keep free": any(len(level.keep | level.bypass) < 3 for level in levels[1:]),
        "capacity": any(level.size_words for level in levels),
        "partitions": any(level.partition_words for level in levels),
        "multiple buffering": any(level.multiple_buffering > 1 for level in levels),
        "block size": any(level.block_size > 1 for level in levels),
        "psums wider": bool(found.encoded.constants.two_widths[0]),
        "drain reads": any(level.drain_reads for level in levels),
        "shared port": any(level.bandwidth for level in levels),
        "read port": any(level.read_bandwidth for level in levels),
        "write port": any(level.write_bandwidth for level in levels),
        "ports bind": bool((found.cycles > steps * machine.compute.cycles_per_mac).any()),
        "leak": any(action == "leak" for _, _, action in entries),
        "transfer": any(action == "transfer" for _, _, action in entries),
        "return": any(action == "return" for _, _, action in entries),
        "transfer by role": any(action == "transfer" and role != "*" for _, role, action in entries),
        "constraints": constraints != FREE,
        "factor =": any(factor.low == factor.high for factor in factors),
        "factor <=": any(factor.low == 1 and factor.high for factor in factors),
        "factor >=": any(factor.high is None for factor in factors),
        "only": any(block.only is not None for block in blocks),
        "order outer": any(block.outer for block in blocks),
        "order inner": any(block.inner for block in blocks),
        "asked keep": any(level.keep for level in constraints.levels),
        "asked bypass": any(level.bypass for level in constraints.levels),
        "min utilization": constraints.min_utilization > 0,
    }
    return _Row(found.size, found.valid, tuple(filter(marks.get, marks)), (made - started) * 1e3, (ended - made) * 1e3)


def summary(count: int) -> str:
    """What the first problems are like, in words."""
    truth(*problem(0), MOST)  # compiles
    rows = [_row(seed) for seed in range(count)]
    lines = []
    for name, values in (
        ("mappings", [row.size for row in rows]),
        ("valid mappings, where any", [row.valid for row in rows if row.valid]),
        ("problem [ms]", [row.problem_ms for row in rows]),
        ("truth [ms]", [row.truth_ms for row in rows]),
    ):
        quantiles = np.quantile(values, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
        shown = " ".join(f"{value:8.4g}" for value in quantiles)
        lines.append(f"{name:28} 0 5 25 50 75 95 100 %: {shown}; mean {np.mean(values):.4g}")
    tally = Counter(mark for row in rows for mark in row.marks)
    marks = sorted(tally, key=lambda mark: (":" in mark, mark))
    lines += [f"{mark:28} {tally[mark] / count:6.1%}" for mark in marks]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(summary(int(sys.argv[1])) + "\n")
