"""Hypothesis strategies: small random Einsums, machines and mappings that the oracle can walk."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import assume
from hypothesis import strategies as st

from accelsim.architecture import Architecture, Axis, Compute, Level
from accelsim.energy import EnergyEntry, EnergyTable
from accelsim.mapping import LevelMapping, Loop, Mapping, shared_rank
from accelsim.workload import ROLES, Einsum, Tensor

DIMS = "ABCDEF"


def energy_table(levels: list[str], draw_energy) -> EnergyTable:
    """A complete energy table with its own energy for every action and role."""
    entries = {("MAC", "*", "compute"): EnergyEntry(draw_energy(), "test")}
    for name in levels:
        entries[name, "*", "leak"] = EnergyEntry(draw_energy(), "test")
        entries[f"{name} network", "*", "transfer"] = EnergyEntry(draw_energy(), "test")
        for action in ("read", "write", "update"):
            for role in ROLES:
                entries[name, role, action] = EnergyEntry(draw_energy(), "test")
    return EnergyTable(entries)


@st.composite
def nests(draw, macs: int = 96, max_levels: int = 5):
    """Loops (dim, level, where, bound) whose product is at most `macs`, and the number of levels."""
    levels = draw(st.integers(1, max_levels))
    dims = DIMS[: draw(st.integers(1, 6))]
    loops: dict[tuple[str, int, str], int] = {}
    budget = macs
    for _ in range(draw(st.integers(0, 9))):
        where = draw(st.sampled_from(["time", "time", "time", "x", "y"]))
        key = (draw(st.sampled_from(dims)), draw(st.integers(0, levels - 1)), where)
        bound = draw(st.sampled_from([2, 2, 3, 3, 4, 5]))
        if key not in loops and bound <= budget:
            loops[key] = bound
            budget //= bound
    return dims, levels, [(*key, bound) for key, bound in loops.items()]


@st.composite
def einsums(draw, dims: str, bounds: dict[str, int]):
    """An Einsum with 1 to 4 tensors, windows, strides and dilations; every dimension is used."""
    count = draw(st.integers(1, 4))
    output = draw(st.integers(0, count - 1))
    tensors = []
    for t in range(count):
        used = [dim for dim in dims if draw(st.booleans()) or (t == count - 1 and dim not in _used(tensors))]
        ranks: list[list[tuple[str, int]]] = []
        for dim in used:
            term = (dim, draw(st.sampled_from([1, 1, 1, 2, 3, 4])))
            if ranks and draw(st.integers(0, 2)) == 0:
                draw(st.sampled_from(ranks)).append(term)
            else:
                ranks.append([term])
        tensors.append(
            Tensor(
                f"T{t}",
                tuple(tuple(rank) for rank in ranks),
                role="Outputs" if t == output else draw(st.sampled_from(["Weights", "Inputs"])),
                bits=draw(st.sampled_from([8, 16])),
                psum_bits=draw(st.sampled_from([16, 32])),
                output=t == output,
            )
        )
    return Einsum("random", {dim: bounds[dim] for dim in dims}, tuple(tensors))


def _used(tensors: list[Tensor]) -> set[str]:
    return {dim for tensor in tensors for dim in tensor.dims}


@st.composite
def machines(draw, levels: int, spread: dict[tuple[int, str], int]):
    """A machine whose fanouts mostly fit the given spatial bounds (level, axis), with tight or loose capacities."""
    found = []
    for index in range(levels):
        axes = []
        for axis in "xy":
            slack = draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
            axes.append(Axis(max(1, spread.get((index, axis), 1) + slack), draw(st.booleans()), draw(st.booleans())))
        rate = st.one_of(st.none(), st.fractions(Fraction(1, 4), 8, max_denominator=7))
        roomy = draw(st.integers(0, 3)) > 0
        sizes = st.integers(1, 40) if not roomy else st.integers(200, 4000)
        apart = draw(st.booleans())
        found.append(
            Level(
                f"L{index}",
                "SRAM",
                word_bits=draw(st.sampled_from([8, 16])),
                block_size=draw(st.sampled_from([1, 1, 2, 4])),
                size_words=None if index == 0 or apart else draw(sizes),
                partition_words={role: draw(sizes) for role in ROLES} if index and apart else None,
                multiple_buffering=draw(st.sampled_from([1, 1, 2])),
                bandwidth=draw(rate),
                read_bandwidth=draw(rate),
                write_bandwidth=draw(rate),
                x=axes[0],
                y=axes[1],
                drain_reads=draw(st.booleans()),
            )
        )
    energies = st.floats(0.01, 100).map(lambda value: round(value, 3))
    table = energy_table([level.name for level in found], lambda: draw(energies))
    return Architecture("random", tuple(found), Compute("MAC", "mac", draw(st.sampled_from([1, 1, 2]))), table)


@st.composite
def cases(draw, macs: int = 96, max_levels: int = 5):
    """A machine, an Einsum and a mapping, the latter not always valid in capacity and fanout."""
    dims, levels, loops = draw(nests(macs, max_levels))
    bounds = dict.fromkeys(dims, 1)
    spread: dict[tuple[int, str], int] = {}
    for dim, level, where, bound in loops:
        bounds[dim] *= bound
        if where != "time":
            spread[level, where] = spread.get((level, where), 1) * bound
    einsum = draw(einsums(dims, bounds))
    machine = draw(machines(levels, spread))
    mapped = []
    for index in range(levels):
        blocks = {
            where: [Loop(dim, bound) for dim, level, at, bound in loops if level == index and at == where]
            for where in ("time", "x", "y")
        }
        time = draw(st.permutations(blocks["time"]))
        kept = [tensor.name for tensor in einsum.tensors if index == 0 or draw(st.integers(0, 3)) > 0]
        mapped.append(LevelMapping(f"L{index}", tuple(time), tuple(blocks["x"]), tuple(blocks["y"]), frozenset(kept)))
    return machine, einsum, Mapping(tuple(mapped))


@st.composite
def ragged_cases(draw, iterations: int = 160, max_levels: int = 4):
    """A machine, an Einsum and a mapping whose loops may cover more than the bounds wherever that is possible."""
    levels = draw(st.integers(1, max_levels))
    dims = DIMS[: draw(st.integers(1, 4))]
    bounds = {dim: draw(st.sampled_from([1, 2, 3, 4, 5, 5, 6, 7, 7])) for dim in dims}
    einsum = draw(einsums(dims, bounds))
    blocks: dict[tuple[int, str], list[Loop]] = {}
    spread: dict[tuple[int, str], int] = {}
    budget, imperfect = iterations, set()
    for dim in dims:
        whole = shared_rank(einsum, dim) is not None
        places = st.tuples(st.integers(0, levels - 1), st.sampled_from(["time", "time", "x", "y"]))
        order = draw(st.lists(places, min_size=1, max_size=4, unique=True))
        order.sort(key=lambda place: (place[0], ["time", "x", "y"].index(place[1])))
        span = 1
        for place in reversed(order):
            most = -(-bounds[dim] // span)
            sizes = [most] if place == order[0] else list(range(1, most + 1))
            if whole:
                sizes = [size for size in sizes if bounds[dim] % (span * size) == 0]
            size = draw(st.sampled_from(sizes))
            span *= size
            if size > 1:
                blocks.setdefault(place, []).append(Loop(dim, size))
                if place[1] != "time":
                    spread[place] = spread.get(place, 1) * size
        if span > bounds[dim] or (not whole and draw(st.booleans())):
            imperfect.add(dim)
        budget //= span
    assume(budget > 0)
    machine = draw(machines(levels, spread))
    mapped = []
    for index in range(levels):
        time = draw(st.permutations(blocks.get((index, "time"), [])))
        kept = [tensor.name for tensor in einsum.tensors if index == 0 or draw(st.integers(0, 3)) > 0]
        x, y = tuple(blocks.get((index, "x"), [])), tuple(blocks.get((index, "y"), []))
        mapped.append(LevelMapping(f"L{index}", tuple(time), x, y, frozenset(kept)))
    return machine, einsum, Mapping(tuple(mapped), frozenset(imperfect))
