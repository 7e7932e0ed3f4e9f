"""The map space against an enumeration of its own, and draws from it against the uniform distribution."""

from __future__ import annotations

import itertools
import math
import operator
import re
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from accelsim import load_constraints, load_workload
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.divisors import divisors
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.mapping import LevelMapping, Mapping
from accelsim.inputs.nodes import with_nodes
from accelsim.inputs.workload import ROLES, Einsum, Tensor
from accelsim.mapspace.factors import factorizations
from accelsim.mapspace.kernel import draw_many
from accelsim.mapspace.space import MapSpace, SpaceArrays
from accelsim.model.encode import Batch, decode_mapping, encode
from tests.brute import Identity, every_mapping, identity
from tests.conftest import REPOSITORY
from tests.strategies import energy_table

SURE = 1e-6
"""Chance at which a draw that is uniform would be called biased."""


@st.composite
def spaces(draw, most: int = 2500):
    """A machine and an Einsum with at most so many mappings, and all of these."""
    dims = "ABC"[: draw(st.integers(1, 3))]
    bounds = {dim: draw(st.sampled_from([1, 2, 2, 3, 4, 5, 6, 8, 9, 12])) for dim in dims}
    assume(math.prod(bounds.values()) <= 72)
    tensors = []
    for t, role in enumerate(draw(st.sampled_from([ROLES, ("Inputs", "Inputs", "Outputs"), ("Inputs", "Outputs")]))):
        used = [dim for dim in dims if t == 0 or draw(st.booleans())]
        ranks: list[list[tuple[str, int]]] = []
        for dim in used:
            if ranks and draw(st.integers(0, 2)) == 0:
                ranks[-1].append((dim, draw(st.integers(1, 2))))
            else:
                ranks.append([(dim, 1)])
        shape = tuple(tuple(rank) for rank in ranks)
        tensors.append(Tensor(f"T{t}", shape, role, 8, draw(st.sampled_from([8, 24])), output=role == "Outputs"))
    levels = []
    count = draw(st.integers(1, 4))
    for index in range(count):
        role = draw(st.permutations(ROLES))
        chosen = 0 if index == 0 else draw(st.integers(1, 3))
        kept = draw(st.integers(0, chosen))
        rate = st.none() | st.fractions(Fraction(1, 4), 8, max_denominator=7)
        levels.append(
            Level(
                f"L{index}",
                "SRAM",
                word_bits=8,
                size_words=None if index == 0 else draw(st.integers(1, 60)),
                multiple_buffering=draw(st.sampled_from([1, 1, 2])),
                bandwidth=draw(rate),
                keep=frozenset(role[:kept]),
                bypass=frozenset(role[kept:chosen]),
                x=Axis(draw(st.sampled_from([1, 1, 2, 4])), draw(st.booleans()), draw(st.booleans())),
                y=Axis(draw(st.sampled_from([1, 1, 1, 3])), draw(st.booleans()), draw(st.booleans())),
            )
        )
    energies = st.floats(0.01, 100).map(lambda value: round(value, 3))
    table = energy_table([level.name for level in levels], lambda: draw(energies))
    machine, einsum = Architecture("random", tuple(levels), Compute(), table), Einsum("random", bounds, tuple(tensors))
    mappings = list(itertools.islice(every_mapping(machine, einsum), most + 1))
    assume(len(mappings) <= most)
    return machine, einsum, mappings


def gemm(*fanouts: tuple[int, int], keep: tuple[str, ...] = ROLES, free: int = 0, **bounds: int):
    """A matrix product on a machine of given fanouts; all but the outermost level keep all but `free` roles."""
    dims = {"M": 1, "N": 1, "K": 1} | bounds
    tensors = (
        Tensor("A", ((("M", 1),), (("K", 1),)), "Inputs"),
        Tensor("B", ((("K", 1),), (("N", 1),)), "Weights"),
        Tensor("Z", ((("M", 1),), (("N", 1),)), "Outputs", output=True),
    )
    levels = tuple(
        Level(f"L{index}", "SRAM", keep=frozenset(keep[free:]), x=Axis(x), y=Axis(y))
        for index, (x, y) in enumerate(fanouts)
    )
    table = energy_table([level.name for level in levels], lambda: 1.0)
    return Architecture("gemm", levels, Compute(), table), Einsum("gemm", dims, tensors)


def draws(encoded, arrays: SpaceArrays, key: int, first: int, count: int) -> Batch:
    shape = (count, len(encoded.architecture.levels))
    dims, tensors = len(encoded.dims), len(encoded.tensors)
    loops = [np.zeros((*shape, dims), np.int64) for _ in range(4)]
    batch = Batch(*loops, np.zeros((*shape, tensors), np.bool_))
    draw_many(arrays, np.uint64(key), first, batch)
    return batch


def drawn(encoded, batch: Batch) -> tuple[list[Identity], list[int]]:
    """Mappings of a batch without repetition, and how often each was drawn."""
    rows = np.concatenate([array.reshape(len(array), -1).astype(np.int64) for array in batch], 1)
    _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
    return [identity(decode_mapping(encoded, batch, b)) for b in first.tolist()], counts.tolist()


def chance(counts: list[int], cells: int) -> float:
    """Chance that uniform draws over the cells are as uneven as the counts, or more.

    Pearson's chi-square in the approximation of Wilson and Hilferty (PNAS 1931); cells that were never hit are not in
    `counts`.
    """
    expected, degrees = sum(counts) / cells, cells - 1
    square = sum((count - expected) ** 2 for count in counts) / expected + expected * (cells - len(counts))
    spread = 2 / (9 * degrees)
    return math.erfc((math.cbrt(square / degrees) - (1 - spread)) / math.sqrt(2 * spread)) / 2


@settings(max_examples=100)
@given(spaces())
@example((*gemm((1, 1)), [Mapping((LevelMapping("L0", keep=frozenset("ABZ")),))]))  # nothing to choose
def test_size__counts_every_mapping_once(case):
    machine, einsum, mappings = case
    identities = {identity(mapping) for mapping in mappings}

    assert len(identities) == len(mappings)  # else the enumeration itself repeats
    assert MapSpace(encode(machine, einsum)).size == len(identities)


def test_size__of_the_example_in_the_paper():
    """M = 4 and K = 6 on two levels, two instances below the inner one, two free choices: 4 * 56 mappings."""
    page = (REPOSITORY / "docs" / "papers" / "mapspace.md").read_text(encoding="utf-8")
    cells = re.findall(r"(?<=\| )([\d*! ]+) = (\d+)(?= \|)", page)
    products = [math.prod(2 if factor == "2!" else int(factor) for factor in terms.split(" * ")) for terms, _ in cells]
    machine, einsum = gemm((1, 1), (2, 1), free=2, M=4, K=6)

    assert products == [int(value) for _, value in cells]
    assert len(products) == 9
    assert MapSpace(encode(machine, einsum)).size == 4 * sum(products) == 224
    assert f"4 * {sum(products)} = 224 mappings" in page


def layouts(kept: frozenset[str], nodes: int):
    """Storage nodes of a level that keep some tensors, and whether loops stand outside them all."""
    if not kept:
        yield (), False
    for many in range(1, min(nodes, len(kept)) + 1):
        for places in itertools.product(range(many), repeat=len(kept)):
            if len(set(places)) == many:
                groups = tuple(frozenset(t for t, at in zip(sorted(kept), places, strict=True) if at == node)
                               for node in range(many))  # fmt: skip
                yield from ((groups, outside) for outside in (False, True) if many + outside <= nodes)


def uneven_identities(machine: Architecture, einsum: Einsum, nodes: list[int]):
    """Every uneven mapping by docs/papers/mapspace.md, section 1: the blocks, nodes and spatial loops of its levels."""
    ways = []
    for index, (level, many) in enumerate(zip(machine.levels, nodes, strict=True)):
        must = frozenset(t.name for t in einsum.tensors if index == 0 or t.role in level.keep)
        free = [t.name for t in einsum.tensors if t.name not in must and t.role not in level.bypass]
        subsets = itertools.chain.from_iterable(itertools.combinations(free, n) for n in range(len(free) + 1))
        ways.append([layout for more in subsets for layout in layouts(must | frozenset(more), many)])
    axes = [
        (index, axis) for index, level in enumerate(machine.levels) for axis in "xy" if getattr(level, axis).size > 1
    ]
    for chosen in itertools.product(*ways):
        blocks = [(index, block) for index, (groups, outside) in enumerate(chosen)
                  for block in range(max(1, len(groups) + outside))]  # fmt: skip
        last = dict(blocks)
        slots = [*blocks, *axes]
        limits = [math.inf] * len(blocks) + [getattr(machine.levels[index], axis).size for index, axis in axes]
        found = [
            [row for row in factorizations(bound, [frozenset(divisors(bound))] * len(slots)).tolist()
             if all(map(operator.le, row, limits))]
            for bound in einsum.dims.values()
        ]  # fmt: skip
        for rows in itertools.product(*found):
            loops = [[(dim, row[at]) for dim, row in zip(einsum.dims, rows, strict=True) if row[at] > 1]
                     for at in range(len(slots))]  # fmt: skip
            if any(not loops[at] and block < last[index] for at, (index, block) in enumerate(blocks)):
                continue
            for orders in itertools.product(*map(itertools.permutations, loops[: len(blocks)])):
                of = dict(zip(slots, [*orders, *map(frozenset, loops[len(blocks) :])], strict=True))
                yield tuple(
                    (
                        groups,
                        outside,
                        tuple(of[index, block] for block in range(last[index] + 1)),
                        *(of.get((index, axis), frozenset()) for axis in "xy"),
                    )
                    for index, (groups, outside) in enumerate(chosen)
                )


def uneven_identity(mapping: Mapping) -> tuple:
    """What tells an uneven mapping from others; None if a node after the first has loops and keeps nothing."""
    levels = []
    for _, nodes in itertools.groupby(mapping.levels, key=lambda node: node.level):
        groups: list[frozenset[str]] = []
        blocks: list[tuple] = [()]
        outside = False
        for node in nodes:
            if not node.keep and node.temporal and (groups or outside):
                return None
            if groups and not blocks[-1]:
                groups[-1] |= node.keep
            elif node.keep:
                groups.append(node.keep)
                blocks += [()] if blocks[-1] else []
            outside |= not groups and bool(node.temporal)
            blocks[-1] += tuple((loop.dim, loop.bound) for loop in node.temporal)
            spread = [frozenset((loop.dim, loop.bound) for loop in axis) for axis in (node.x, node.y)]
        outside &= bool(groups)
        levels.append((tuple(groups), outside, tuple(blocks), *spread))
    return tuple(levels)


@pytest.mark.parametrize(
    ("fanouts", "bounds", "free", "window"),
    [
        ((1,), (4, 2, 1), 0, False),
        ((1,), (2, 2, 1), 3, False),
        ((2,), (2, 3, 1), 1, False),
        ((2,), (2, 1, 2), 2, True),
        ((1, 1), (3, 1, 1), 1, False),
        ((2, 1), (2, 1, 1), 2, False),
    ],
)
def test_size__counts_every_uneven_mapping_once(fanouts, bounds, free, window):
    """The mappings that are described, and those that a search writes, joined where they are the same."""
    machine, einsum = gemm(*((x, 1) for x in (*fanouts, 1)), free=free, **dict(zip("MNK", bounds, strict=True)))
    if window:  # A[M + K]: a node more below a network
        first, *others = einsum.tensors
        einsum = replace(einsum, tensors=(replace(first, ranks=((("M", 1), ("K", 1)),)), *others))
    space = MapSpace(encode(with_nodes(machine, einsum, Constraints()), einsum))
    nodes = [
        len(list(own)) for _, own in itertools.groupby(space.encoded.architecture.levels, lambda level: level.name)
    ]
    found = list(uneven_identities(machine, einsum, nodes))
    written = set()
    for index in itertools.count():
        try:
            written.add(uneven_identity(space.mapping_at(index)))
        except IndexError:
            break

    assert len(set(found)) == len(found)
    assert set(found) == written - {None}
    assert space.size == space.quick_size == len(found)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from([1, 1, 2, 4]), st.sampled_from([1, 1, 3])), min_size=1, max_size=5),
    st.lists(st.sampled_from([2, 3, 4, 7, 12, 30, 32]), min_size=3, max_size=3),
    st.frozensets(st.sampled_from("MNK")),
    st.sampled_from([[], ["K", "..."], ["...", "M", "N"]]),
    st.sampled_from([[], ["N<=2"], ["K=1"]]),
)
def test_size__is_that_of_the_recursion(fanouts, bounds, imperfect, order, factors):
    """Of spaces too large to list: `mapping_at` counts by states, one level and one factor after the other."""
    machine, einsum = gemm(*fanouts, free=1, **dict(zip("MNK", bounds, strict=True)))
    temporal = {**({"order": order} if order else {}), **({"factors": factors} if factors else {})}
    levels = [{"level": f"L{len(fanouts) // 2}", "temporal": temporal}] if temporal else []
    rules = load_constraints({"constraints": {"levels": levels}}, machine, einsum)
    try:
        space = MapSpace(encode(machine, einsum), rules, imperfect)
    except NoValidMappingError:
        return

    with pytest.raises(IndexError, match=f"^mapping {space.size} of {space.size}$"):
        space.mapping_at(space.size)
    assert space.quick_size == space.size


CONV = {"N": 4, "K": 96, "C": 256, "P": 27, "Q": 27, "R": 3, "S": 3}


@pytest.mark.parametrize(("levels", "imperfect"), [(7, "NKC"), (24, "")])
def test_size__of_deep_machines_is_counted_at_once(levels, imperfect):
    """145 and 33 s state by state; with remainders levels are alike only where no network lies between them."""
    conv = load_workload({"workload": {"name": "c", "conv": CONV | {"padding": 1}}}).layers[0]
    machine, _ = gemm(*((2 if index % 3 == 1 else 1, 1) for index in range(levels)))
    begun = time.process_time()
    space = MapSpace(encode(machine, conv), imperfect=frozenset(imperfect))

    assert space.quick_size > 10**20
    assert time.process_time() - begun < 10


def test_size__of_too_many_groups_of_levels_is_left_out():
    """With remainders, nine levels with networks between them are nine groups: 4^9 points."""
    conv = load_workload({"workload": {"name": "c", "conv": CONV | {"padding": 1}}}).layers[0]
    machine, _ = gemm(*[(2, 1)] * 9)

    assert MapSpace(encode(machine, conv), imperfect=frozenset("K")).quick_size is None


@settings(max_examples=100)
@given(spaces(most=1200))
def test_mapping_at__numbers_every_mapping_once(case):
    machine, einsum, mappings = case
    space = MapSpace(encode(machine, einsum))
    numbered = [space.mapping_at(index) for index in range(len(mappings))]

    assert {identity(mapping) for mapping in numbered} == {identity(mapping) for mapping in mappings}
    assert all(
        [level.level for level in mapping.levels] == [level.name for level in machine.levels] for mapping in numbered
    )
    for beyond in (-1, len(mappings), len(mappings) + 7, 10**30):
        with pytest.raises(IndexError, match=str(len(mappings))):
            space.mapping_at(beyond)


def test_mapping_at__reaches_the_end_of_a_space_that_no_one_can_walk():
    """Three dimensions of 2^18 over ten slots, nine free choices of what is kept: more mappings than 64 bits count."""
    machine, einsum = gemm((4, 4), (8, 2), (2, 2), (1, 1), free=3, M=2**18, N=2**18, K=2**18)
    space = MapSpace(encode(machine, einsum))
    ends = [space.mapping_at(index) for index in (0, space.size // 2, space.size - 1)]

    assert space.size > 2**63
    assert len({identity(mapping) for mapping in ends}) == 3
    with pytest.raises(IndexError):
        space.mapping_at(space.size)


def test_map_space__refuses_what_memory_could_not_hold():
    """2^30 over twelve slots: C(41, 30) = 3.2e9 rows for one dimension."""
    machine, einsum = gemm((2**31, 2**31), (2**31, 2**31), (2**31, 2**31), (2**31, 2**31), M=2**30)

    with pytest.raises(AccelsimError, match=r"dimension M = 1073741824 has 3\.16e\+09 factorisations"):
        _ = MapSpace(encode(machine, einsum)).rows


@settings(max_examples=100)
@given(spaces(), st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_draw__is_one_of_the_space(case, key, first):
    machine, einsum, mappings = case
    encoded = encode(machine, einsum)
    identities, _ = drawn(encoded, draws(encoded, MapSpace(encoded).arrays, key, first, 400))

    assert set(identities) <= {identity(mapping) for mapping in mappings}


@settings(max_examples=30)
@given(spaces(), st.integers(0, 2**64 - 1), st.integers(0, 2**40), st.lists(st.integers(1, 20), max_size=6))
def test_draw__depends_on_key_and_number_alone(case, key, first, pieces):
    machine, einsum, _ = case
    encoded = encode(machine, einsum)
    arrays = MapSpace(encoded).arrays
    whole = draws(encoded, arrays, key, first, sum(pieces))
    at = first
    parts = [draws(encoded, arrays, key, first, 0)]
    for count in pieces:
        parts.append(draws(encoded, arrays, key, at, count))
        at += count

    for one, many in zip(whole, zip(*parts, strict=True), strict=True):
        assert np.array_equal(one, np.concatenate(many))


SPACES = {
    "orders": gemm((1, 1), (1, 1), M=8, N=3, K=5),  # few tilings, many orders
    "free keeps": gemm((1, 1), (1, 1), free=2, M=8, N=3),
    "fanouts": gemm((2, 3), (4, 1), M=12, K=2),
    "three levels": gemm((1, 1), (2, 1), (1, 1), M=4, N=2, K=3),
    "many": gemm((1, 1), (3, 2), (1, 1), M=6, N=3),
}


@pytest.mark.parametrize("name", SPACES)
def test_draw__is_uniform(name):
    machine, einsum = SPACES[name]
    encoded = encode(machine, einsum)
    space = MapSpace(encoded)
    cells = {identity(mapping) for mapping in every_mapping(machine, einsum)}
    assert 50 <= len(cells) <= 2000

    identities, counts = drawn(encoded, draws(encoded, space.arrays, 7, 0, 200 * len(cells)))

    assert set(identities) == cells
    assert chance(counts, len(cells)) > SURE


@pytest.mark.parametrize("name", ["orders", "three levels"])
def test_draw__of_one_number_is_uniform_over_the_keys(name):
    machine, einsum = SPACES[name]
    encoded = encode(machine, einsum)
    arrays = MapSpace(encoded).arrays
    cells = sum(1 for _ in every_mapping(machine, einsum))
    batches = [draws(encoded, arrays, key, 3, 1) for key in range(30 * cells)]

    _, counts = drawn(encoded, Batch(*(np.concatenate(arrays) for arrays in zip(*batches, strict=True))))

    assert chance(counts, cells) > SURE


def test_draw__does_not_follow_the_one_before():
    """Pairs of neighbouring draws hit all pairs of mappings alike."""
    machine, einsum = SPACES["orders"]
    encoded = encode(machine, einsum)
    batch = draws(encoded, MapSpace(encoded).arrays, 11, 0, 2 * 40 * 2500)
    pairs = Batch(*(array.reshape(len(array) // 2, -1) for array in batch))
    rows = np.concatenate([array.astype(np.int64) for array in pairs], 1)
    _, counts = np.unique(rows, axis=0, return_counts=True)

    assert chance(counts.tolist(), sum(1 for _ in every_mapping(machine, einsum)) ** 2) > SURE


@pytest.mark.parametrize("name", ["orders", "three levels", "many"])
def test_chance__sees_draws_that_do_not_weigh_the_orders(name):
    """Weights that count tilings only give a tiling of many orders no more than one of a single order."""
    machine, einsum = SPACES[name]
    encoded = encode(machine, einsum)
    space = MapSpace(encoded)
    weight = np.ones_like(space.arrays.weight)
    for d in range(len(space.rows)):
        weight[d] = math.prod(len(rows) for rows in space.rows[d:])
    cells = sum(1 for _ in every_mapping(machine, einsum))

    _, counts = drawn(encoded, draws(encoded, space.arrays._replace(weight=weight), 7, 0, 200 * cells))

    assert chance(counts, cells) < SURE
