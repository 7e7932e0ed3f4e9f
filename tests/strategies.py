"""Hypothesis strategies: small random Einsums, machines and mappings that the oracle can walk."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st

from accelsim.inputs.architecture import OVERLAPS, Architecture, Axis, Compute, Level
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.level_features import Dma
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import ROLES, Einsum, Tensor, shared_rank

DIMS = "ABCDEF"


def energy_table(levels: list[str], draw_energy) -> EnergyTable:
    """A complete energy table with its own energy for every action and role."""
    entries = {("MAC", "*", "compute"): EnergyEntry(draw_energy(), "test")}
    for name in levels:
        entries[name, "*", "leak"] = EnergyEntry(draw_energy(), "test")
        across = draw_energy()
        for times, role in enumerate(ROLES, 1):
            entries[f"{name} network", role, "transfer"] = EnergyEntry(times * across, "test")
        entries[f"{name} network", "*", "return"] = EnergyEntry(draw_energy(), "test")
        for action in ("read", "write", "update"):
            for role in ROLES:
                entries[name, role, action] = EnergyEntry(draw_energy(), "test")
    return EnergyTable(entries)


_BLOCKS = ("time", "x", "y")


def _nest(rng: random.Random, macs: int, max_levels: int) -> tuple[str, int, list[tuple[str, int, str, int]]]:
    """Dimensions, number of levels, and loops (dim, level, where, bound) whose product is at most `macs`."""
    levels, dims = rng.randint(1, max_levels), DIMS[: rng.randint(1, 6)]
    loops: dict[tuple[str, int, str], int] = {}
    for _ in range(rng.randint(0, 9)):
        key = (rng.choice(dims), rng.randrange(levels), rng.choice(["time", "time", "time", "x", "y"]))
        bound = rng.choice([2, 2, 3, 3, 4, 5])
        if key not in loops and bound <= macs:
            loops[key] = bound
            macs //= bound
    return dims, levels, [(*key, bound) for key, bound in loops.items()]


def _einsum(rng: random.Random, dims: str, bounds: dict[str, int]) -> Einsum:
    """An Einsum with 1 to 4 tensors, windows, strides and dilations; every dimension is used."""
    count = rng.randint(1, 4)
    output = rng.randrange(count)
    tensors: list[Tensor] = []
    for t in range(count):
        unused = set(dims).difference(*(tensor.dims for tensor in tensors)) if t == count - 1 else ()
        ranks: list[list[tuple[str, int]]] = []
        for dim in [dim for dim in dims if rng.random() < 0.5 or dim in unused]:
            term = (dim, rng.choice([1, 1, 1, 2, 3, 4]))
            if ranks and rng.random() < 1 / 3:
                rng.choice(ranks).append(term)
            else:
                ranks.append([term])
        tensors.append(
            Tensor(
                f"T{t}",
                tuple(tuple(rank) for rank in ranks),
                role="Outputs" if t == output else rng.choice(["Weights", "Inputs"]),
                bits=rng.choice([8, 16]),
                psum_bits=rng.choice([16, 32]),
                output=t == output,
            )
        )
    return Einsum("random", {dim: bounds[dim] for dim in dims}, tuple(tensors))


def some_multicast(rng: random.Random) -> bool | frozenset[str]:
    """Of all tensors, of none, or of some roles."""
    share = rng.random()
    some = frozenset(role for k, role in enumerate(ROLES) if int(share * 1000) >> k & 1)
    return share < 0.4 or (some if share < 0.6 else False)


def _machine(rng: random.Random, levels: int, spread: dict[tuple[int, str], int]) -> Architecture:
    """A machine whose fanouts mostly fit the given spatial bounds (level, axis), with tight or loose capacities."""

    def rate() -> Fraction | None:
        parts = rng.randint(1, 7)
        return rng.choice([None, Fraction(rng.randint(-(-parts // 4), 8 * parts), parts)])

    found = []
    for index in range(levels):
        x, y = (
            Axis(
                max(1, spread.get((index, axis), 1) + rng.choice([0, 0, 0, 0, 1, -1])),
                multicast=some_multicast(rng),
                spatial_reduction=rng.random() < 0.5,
            )
            for axis in "xy"
        )
        sizes = (1, 40) if rng.random() < 0.25 else (200, 4000)
        apart = rng.random() < 0.5
        found.append(
            Level(
                f"L{index}",
                "SRAM",
                word_bits=rng.choice([8, 16]),
                block_size=rng.choice([1, 1, 2, 4]),
                size_words=None if index == 0 or apart else rng.randint(*sizes),
                partition_words={role: rng.randint(*sizes) for role in ROLES} if index and apart else None,
                multiple_buffering=rng.choice([1, 1, 2]),
                bandwidth=rate(),
                read_bandwidth=rate(),
                write_bandwidth=rate(),
                x=x,
                y=y,
                drain_reads=rng.random() < 0.5,
                power_gateable=rng.random() < 0.7,
            )
        )
    table = energy_table([level.name for level in found], lambda: round(rng.uniform(0.01, 100), 3))
    return Architecture("random", tuple(found), Compute("MAC", "mac", rng.choice([1, 1, 2])), table)


def random_case(rng: random.Random, macs: int, max_levels: int) -> tuple[Architecture, Einsum, Mapping]:
    """A machine, an Einsum and a mapping, the latter not always valid in capacity and fanout."""
    dims, levels, loops = _nest(rng, macs, max_levels)
    bounds = dict.fromkeys(dims, 1)
    spread: dict[tuple[int, str], int] = {}
    for dim, level, where, bound in loops:
        bounds[dim] *= bound
        if where != "time":
            spread[level, where] = spread.get((level, where), 1) * bound
    einsum = _einsum(rng, dims, bounds)
    machine = _machine(rng, levels, spread)
    rng.shuffle(loops)
    mapped = []
    for index in range(levels):
        blocks = [
            tuple(Loop(dim, bound) for dim, level, at, bound in loops if (level, at) == (index, where))
            for where in _BLOCKS
        ]
        kept = frozenset(tensor.name for tensor in einsum.tensors if index == 0 or rng.random() < 0.75)
        mapped.append(LevelMapping(f"L{index}", *blocks, kept))
    return machine, einsum, Mapping(tuple(mapped))


def ragged_case(rng: random.Random, iterations: int = 200) -> tuple[Architecture, Einsum, Mapping]:
    """A machine, an Einsum and a mapping whose loops cover more than the bounds in most cases; many are uneven."""
    names, dims = _node_names(rng, rng.choice([1, 2, 2, 3, 3, 4, 5])), DIMS[: rng.choice([1, 2, 2, 3, 3, 4])]
    last = [index for index, name in enumerate(names) if name not in names[index + 1 :]]
    while True:
        bounds = {dim: rng.choice([2, 3, 3, 4, 5, 5, 6, 7, 7]) for dim in dims}
        einsum = _ragged_einsum(rng, bounds)
        blocks = {
            (index, where): [] for index in range(len(names)) for where in _BLOCKS if where == "time" or index in last
        }
        spans = [_spread_loops(rng, dim, bounds[dim], shared_rank(einsum, dim) is None, blocks) for dim in dims]
        if math.prod(spans) <= iterations:
            break
    mapped = []
    kept: set[tuple[str, str]] = set()
    for index, name in enumerate(names):
        chance = 0.75 if index in last else 0.4
        keep = {tensor.name for tensor in einsum.tensors if index == 0 or rng.random() < chance}
        keep = {tensor for tensor in keep if (name, tensor) not in kept}
        kept |= {(name, tensor) for tensor in keep}
        loops = [blocks.get((index, where), []) for where in _BLOCKS]
        for block in loops:
            rng.shuffle(block)
        mapped.append(LevelMapping(name, *map(tuple, loops), frozenset(keep)))
    imperfect = {dim for dim, span in zip(dims, spans, strict=True) if span > bounds[dim]}
    machine = _ragged_machine(rng, [mapped[index] for index in last])
    return machine, einsum, Mapping(tuple(mapped), frozenset(imperfect))


def _node_names(rng: random.Random, nodes: int) -> list[str]:
    """Names of the levels that storage nodes belong to; the outermost level has a single node."""
    level, names = 0, ["L0"]
    for _ in range(1, nodes):
        level += level == 0 or rng.random() < 0.7
        names.append(f"L{level}")
    return names


def _spread_loops(rng: random.Random, dim: str, bound: int, ragged: bool, blocks) -> int:
    """Draw the loops over a dimension, none longer than it gets; returns what they multiply to.

    Small factors between a loop outside and one inside are likely: the last pass then often has a single iteration.
    """
    places = [place for place in blocks if place[1] == "time" or rng.random() < 0.5]
    order = [places[i] for i in sorted(rng.sample(range(len(places)), min(len(places), rng.choice([1, 2, 3, 4, 5]))))]
    span = 1
    for place in reversed(order):
        most = -(-bound // span)
        sizes = [size for size in (1, 2, 2, 2, 3, 4, most) if size <= most and (ragged or bound % (span * size) == 0)]
        size = most if place == order[0] else rng.choice(sizes)
        span *= size
        if size > 1:
            blocks[place].append(Loop(dim, size))
    return span


def _ragged_einsum(rng: random.Random, bounds: dict[str, int]) -> Einsum:
    """An Einsum with 1 to 3 tensors; sometimes two dimensions share a rank."""
    count = rng.choice([1, 2, 2, 3])
    window = rng.sample(list(bounds), 2) if len(bounds) > 2 and rng.random() < 0.4 else []
    tensors, unused = [], set(bounds)
    for t in range(count):
        used = [dim for dim in bounds if rng.random() < 0.6 or (t == count - 1 and dim in unused)]
        unused.difference_update(used)
        terms = {dim: (dim, rng.choice([1, 1, 1, 2, 3])) for dim in used}
        together = bool(window) and set(window) <= set(used) and rng.random() < 0.8
        ranks = [(terms[dim],) for dim in used if not (together and dim in window)]
        if together:
            ranks.append((terms[window[0]], terms[window[1]]))
        rng.shuffle(ranks)
        bits, psum_bits = rng.choice([(8, 16), (16, 16), (16, 32), (8, 32)])
        role = "Outputs" if t == 0 else rng.choice(["Weights", "Inputs"])
        tensors.append(Tensor(f"T{t}", tuple(ranks), role, bits, psum_bits if t == 0 else bits, output=t == 0))
    return Einsum("ragged", bounds, tuple(tensors))


def _ragged_machine(rng: random.Random, mapped: list[LevelMapping]) -> Architecture:
    """A machine for a mapping, with fanouts and capacities that hold it in most cases."""
    levels = []
    for index, level in enumerate(mapped):
        x, y = (
            Axis(
                max(1, math.prod(loop.bound for loop in loops) + rng.choice([0] * 15 + [-1])),
                multicast=some_multicast(rng),
                spatial_reduction=rng.random() < 0.6,
            )
            for loops in (level.x, level.y)
        )
        apart, sizes = rng.random() < 0.3, (1, 60) if rng.random() < 0.2 else (200, 4000)
        rates = [rng.choice([None, Fraction(1, 3), Fraction(2), Fraction(7, 2), Fraction(8)]) for _ in range(3)]
        levels.append(
            Level(
                f"L{index}",
                "SRAM",
                word_bits=rng.choice([8, 16]),
                block_size=rng.choice([1, 2, 3, 4]),
                size_words=None if index == 0 or apart else rng.randint(*sizes),
                partition_words={role: rng.randint(*sizes) for role in ROLES} if index and apart else None,
                multiple_buffering=rng.choice([1, 1, 2]),
                bandwidth=rates[0],
                read_bandwidth=rates[1],
                write_bandwidth=rates[2],
                x=x,
                y=y,
                drain_reads=rng.random() < 0.4,
                power_gateable=rng.random() < 0.7,
            )
        )
    table = energy_table([level.name for level in levels], lambda: round(rng.uniform(0.01, 100), 3))
    return Architecture("random", tuple(levels), Compute("MAC", "mac", rng.choice([1, 1, 2])), table)


def cases(macs: int = 96, max_levels: int = 5) -> st.SearchStrategy[tuple[Architecture, Einsum, Mapping]]:
    """Cases of `random_case`; a hundred decisions each take too long one by one."""
    return st.randoms(use_true_random=True).map(lambda rng: random_case(rng, macs, max_levels))


def ragged_cases() -> st.SearchStrategy[tuple[Architecture, Einsum, Mapping]]:
    """Cases of `ragged_case`."""
    return st.randoms(use_true_random=True).map(ragged_case)


_ROW_TIMES = [Fraction(0), Fraction(1, 4), Fraction(1), Fraction(7, 4), Fraction(3), Fraction("5.69")]


def some_dma(rng: random.Random, einsum: Einsum, level_bypass: frozenset[str]) -> Dma:
    """An engine of any kind; of a level that overlaps none that moves outputs."""
    overlap, most = rng.random() < 0.6, max(max(tensor.bits, tensor.psum_bits) for tensor in einsum.tensors)
    roles = [role for role in ROLES if role not in level_bypass and not (overlap and role == "Outputs")]
    rows, lines = ({role: rng.choice(_ROW_TIMES) for role in roles if rng.random() < 0.8} for _ in range(2))
    dims = list(einsum.dims)
    along = {role: rng.choice(dims) for role in roles if rng.random() < 0.3}
    row, line = most * rng.choice([1, 1, 2, 3, 4]), most * rng.choice([2, 4, 5, 8])
    issue = rng.choice([0, 0, 1, 3, 10, 40])
    return Dma(issue, row if rows else None, rows, line if lines else None, lines, along, overlap)


def with_engines(machine: Architecture, einsum: Einsum, rng: random.Random) -> Architecture:
    """The machine with engines at some of its levels, at least one if there is more than one level."""
    levels, sure = list(machine.levels), rng.randrange(1, max(2, len(machine.levels)))
    for index in range(1, len(levels)):
        if index == sure or rng.random() < 0.3:
            levels[index] = replace(levels[index], dma=some_dma(rng, einsum, levels[index].bypass))
    return replace(machine, levels=tuple(levels))


def with_latencies(machine: Architecture, rng: random.Random) -> Architecture:
    """The machine with any `latency` at each level, or none."""
    levels = [replace(level, latency=rng.choice([0, 1, 7, 40])) for level in machine.levels]
    return replace(machine, levels=tuple(levels))


def with_overlaps(machine: Architecture, einsum: Einsum, rng: random.Random | None) -> Architecture:
    """The machine with any `overlap` at each level, whatever the Einsum; all overlaps without an `rng`."""
    return replace(
        machine,
        levels=tuple(
            replace(level, overlap=rng.choice(OVERLAPS) if rng and index else "all")
            for index, level in enumerate(machine.levels)
        ),
    )
