"""Laws of one evaluation, also just below the largest counts."""

from __future__ import annotations

import itertools
import math
import random
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.detail import make_detail
from accelsim.model.encode import encode, encode_mappings
from accelsim.model.evaluate import evaluate
from accelsim.model.kernel import VALID, evaluate_one
from accelsim.model.oracle import execute
from accelsim.model.result import Result
from tests.strategies import cases, energy_table


def ceil(number: Fraction | int) -> int:
    return -(-Fraction(number).numerator // Fraction(number).denominator)


def by_level(machine: Architecture, result: Result):
    """Each level of a machine with its part of the result and its tensors."""
    for level, found in zip(machine.levels, result.levels, strict=True):
        yield level, found, [t for t in result.tensors if t.level == level.name]


def loops(mapping: Mapping) -> tuple[list[Loop], list[Loop]]:
    """All temporal and all spatial loops."""
    levels = mapping.levels
    return [loop for m in levels for loop in m.temporal], [loop for m in levels for loop in (*m.x, *m.y)]


def touched(einsum: Einsum, tensor: Tensor) -> int:
    """Different words of a tensor that the loop nest touches, counted one by one."""
    dims = [dim for dim in einsum.dims if dim in tensor.dims]
    points = set()
    for place in itertools.product(*(range(einsum.dims[dim]) for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        points.add(tuple(sum(factor * at[dim] for dim, factor in rank) for rank in tensor.ranks))
    return len(points)


def counts(result: Result):
    """All counts of a result, by level and tensor."""
    tensors = {
        (t.level, t.tensor): (t.tile_words, t.word_bits, t.reads, t.fills, t.updates, t.partial) for t in result.tensors
    }
    networks = {(n.level, n.tensor): (n.children, n.distinct, n.distinct_up, n.transfers) for n in result.networks}
    levels = [(v.level, v.instances, v.used_instances, v.used_words, v.capacity_words, v.cycles) for v in result.levels]
    return tensors, networks, levels, result.cycles, result.compute_cycles, result.compute_used, result.valid


def same(one: Result, other: Result) -> bool:
    """Equal counts, and equal energies up to the order in which they are added."""
    return counts(one) == counts(other) and math.isclose(one.energy_pj, other.energy_pj, rel_tol=1e-12)


@given(cases())
def test_energy__is_the_sum_of_its_rows(case):
    result = evaluate(*case)

    assert math.fsum(row["energy_pj"] for row in result.energy_rows()) == pytest.approx(result.energy_pj, rel=1e-12)
    assert math.fsum(row["energy_pj"] for row in result.energy_by_tensor_rows()) == pytest.approx(
        result.energy_pj, rel=1e-12
    )


@given(cases())
def test_energy__of_each_row_is_accesses_times_the_table(case):
    """Accesses: `ceil(words x words an element takes / block size)` of an instance, times the instances in use."""
    machine, einsum, _ = case
    result, walked = evaluate(*case), execute(*case)
    tensors = {tensor.name: tensor for tensor in einsum.tensors}
    rows = {(row["component"], row["tensor"], row["action"]): row["energy_pj"] for row in result.energy_rows()}
    expected = {}
    for level, found, held in by_level(machine, result):
        for t in held:
            tensor = tensors[t.tensor]
            assert t.word_bits == (tensor.psum_bits if t.partial else tensor.bits)
            parts = ceil(Fraction(t.word_bits, level.word_bits))
            for action, words in (("read", t.reads), ("write", t.fills), ("update", t.updates)):
                accesses = ceil(Fraction(words * parts, level.block_size)) * found.used_instances
                entry = machine.energy.energy_pj(level.name, tensor.role, action)
                expected[level.name, t.tensor, action] = accesses * entry
        leak = machine.energy.energy_pj(level.name, "*", "leak")
        leaking = found.used_instances if level.power_gateable else found.instances
        expected[level.name, "", "leak"] = leak * result.cycles * leaking
        for network in result.networks:
            if network.level == level.name:
                hops = network.transfers * network.children * found.used_instances
                role = next(tensor.role for tensor in einsum.tensors if tensor.name == network.tensor)
                back = walked.returns[machine.levels.index(level)][network.tensor]
                transfer, of_back = (
                    machine.energy.energy_pj(f"{level.name} network", role, action) for action in ("transfer", "return")
                )
                spent = (hops - back) * transfer + back * of_back
                expected[f"{level.name} network", network.tensor, "transfer"] = spent
    macs = math.prod(einsum.dims.values())
    expected["MAC", "", "compute"] = macs * machine.energy.energy_pj("MAC", "*", "compute")

    assert rows == pytest.approx({key: energy for key, energy in expected.items() if energy}, rel=1e-12)


def expected_cycles(machine: Architecture, mapping: Mapping, result: Result) -> dict[str, int]:
    """Cycles of each component, from its counts and bandwidths."""
    temporal, _ = loops(mapping)
    needed = {machine.compute.name: math.prod(loop.bound for loop in temporal) * machine.compute.cycles_per_mac}
    for level, _, held in by_level(machine, result):
        parts = [ceil(Fraction(t.word_bits, level.word_bits)) for t in held]
        read = sum(t.reads * part for t, part in zip(held, parts, strict=True))
        written = sum((t.fills + t.updates) * part for t, part in zip(held, parts, strict=True))
        ports = ((level.bandwidth, read + written), (level.read_bandwidth, read), (level.write_bandwidth, written))
        needed[level.name] = max([ceil(Fraction(words) / rate) for rate, words in ports if rate is not None], default=0)
    return needed


@given(cases())
def test_cycles__are_those_of_the_busiest_port(case):
    machine, _, mapping = case
    result = evaluate(*case)
    needed = expected_cycles(machine, mapping, result)

    assert {row["component"]: row["cycles"] for row in result.cycle_rows()} == needed
    assert result.cycles == max(needed.values())
    assert result.compute_cycles == needed["MAC"]
    assert needed[result.bottleneck] == result.cycles


@given(cases())
def test_utilization__is_as_defined(case):
    machine, einsum, mapping = case
    result = evaluate(*case)
    temporal, spatial = loops(mapping)
    units = math.prod(level.x.size * level.y.size for level in machine.levels)
    used, steps = math.prod(loop.bound for loop in spatial), math.prod(loop.bound for loop in temporal)
    busy = math.prod(einsum.dims.values()) * machine.compute.cycles_per_mac

    assert (result.compute_instances, result.compute_used) == (units, used)
    assert result.spatial_utilization == pytest.approx(used / units, rel=1e-15)
    assert result.temporal_utilization == pytest.approx(
        steps * machine.compute.cycles_per_mac / result.cycles, rel=1e-15
    )
    assert result.utilization == pytest.approx(busy / (units * result.cycles), rel=1e-15)
    assert result.utilization == pytest.approx(result.spatial_utilization * result.temporal_utilization, rel=1e-12)
    assert 0 < result.temporal_utilization <= 1
    assert result.spatial_utilization <= 1 or not result.valid


@given(cases())
def test_traffic__is_never_less_than_compulsory(case):
    """Each word of an input is read from the outermost level at least once, each word of the output written there."""
    machine, einsum, _ = case
    result = evaluate(*case)
    used = {level.level: level.used_instances for level in result.levels}
    for t in result.tensors:
        tensor = next(tensor for tensor in einsum.tensors if tensor.name == t.tensor)
        words = touched(einsum, tensor)
        outermost = t.level == machine.levels[0].name
        if tensor.output:
            assert t.updates * used[t.level] >= words
        else:
            assert t.reads * used[t.level] >= words
            assert t.updates == 0
            assert t.fills == 0 if outermost else t.fills * used[t.level] >= words
        if outermost:
            assert t.tile_words >= words


def sums_meet(einsum: Einsum, mapping: Mapping, level: int) -> bool:
    """Whether two instances of a level ever add to the same output word; every MAC is visited."""
    nest = [
        (loop, where != "time" and index < level)
        for index, m in enumerate(mapping.levels)
        for where, block in (("time", m.temporal), ("x", m.x), ("y", m.y))
        for loop in block
    ]
    holder: dict[tuple[int, ...], tuple[int, ...]] = {}
    for step in itertools.product(*(range(loop.bound) for loop, _ in nest)):
        place = dict.fromkeys(einsum.dims, 0)
        for (loop, _), index in zip(nest, step, strict=True):
            place[loop.dim] = place[loop.dim] * loop.bound + index
        word = tuple(sum(factor * place[dim] for dim, factor in rank) for rank in einsum.output.ranks)
        instance = tuple(index for (_, apart), index in zip(nest, step, strict=True) if apart)
        if holder.setdefault(word, instance) != instance:
            return True
    return False


@given(cases())
def test_partial_sums__are_where_words_are_read_back_or_instances_hold_parts(case):
    """Drains are no sign of them. Instances of a windowed output may count as meeting though strides part them."""
    machine, einsum, mapping = case
    quiet = replace(machine, levels=tuple(replace(level, drain_reads=False) for level in machine.levels))
    partial = {(t.level, t.tensor): t.partial for t in evaluate(*case).tensors}
    names = [level.name for level in machine.levels]
    windowed = any(sum(einsum.dims[dim] > 1 for dim, _ in rank) > 1 for rank in einsum.output.ranks)

    for t in evaluate(quiet, einsum, mapping).tensors:
        output = t.tensor == einsum.output.name
        parts = output and (t.reads > 0 or sums_meet(einsum, mapping, names.index(t.level)))
        assert t.partial == parts or (output and windowed and t.partial)
        assert partial[t.level, t.tensor] == t.partial


def renamed(case, dims: dict[str, str], tensors: dict[str, str], order: list[str]):
    """The case with other names, and its dimensions listed in another order."""
    machine, einsum, mapping = case
    changed = Einsum(
        einsum.name,
        {dims[dim]: einsum.dims[dim] for dim in order},
        tuple(
            replace(
                tensor,
                name=tensors[tensor.name],
                ranks=tuple(tuple((dims[dim], factor) for dim, factor in rank) for rank in tensor.ranks),
            )
            for tensor in einsum.tensors
        ),
    )

    def block(these: tuple[Loop, ...]) -> tuple[Loop, ...]:
        return tuple(Loop(dims[loop.dim], loop.bound) for loop in these)

    levels = [
        LevelMapping(m.level, block(m.temporal), block(m.x), block(m.y), frozenset(tensors[name] for name in m.keep))
        for m in mapping.levels
    ]
    return machine, changed, Mapping(tuple(levels))


@given(cases(), st.randoms(use_true_random=False))
def test_names__change_nothing(case, random):
    dims, tensors = list(case[1].dims), [tensor.name for tensor in case[1].tensors]
    new_dims = dict(zip(dims, random.sample(["Z", "m", "K9", "A", "B", "dim_of_a_long_name"], len(dims)), strict=True))
    new_tensors = dict(zip(tensors, random.sample(["T3", "T0", "X", "out"], len(tensors)), strict=True))
    was, now = evaluate(*case), evaluate(*renamed(case, new_dims, new_tensors, dims))
    there = {new: old for old, new in new_tensors.items()}
    now = replace(
        now,
        tensors=tuple(replace(t, tensor=there[t.tensor]) for t in now.tensors),
        networks=tuple(replace(n, tensor=there[n.tensor]) for n in now.networks),
    )

    assert same(was, now)


@given(cases(), st.randoms(use_true_random=False))
def test_order_of_the_dimensions_and_tensors__changes_nothing(case, random):
    machine, einsum, mapping = case
    dims = list(einsum.dims)
    tensors = list(einsum.tensors)
    random.shuffle(dims)
    random.shuffle(tensors)
    other = replace(einsum, dims={dim: einsum.dims[dim] for dim in dims}, tensors=tuple(tensors))

    assert same(evaluate(*case), evaluate(machine, other, mapping))


@given(cases(), st.randoms(use_true_random=False))
def test_loops_of_bound_1__change_nothing(case, random):
    machine, einsum, mapping = case
    levels = []
    for m in mapping.levels:
        blocks = []
        for block in (m.temporal, m.x, m.y):
            longer = list(block)
            for dim in einsum.dims:
                if random.random() < 0.5 and dim not in {loop.dim for loop in block}:
                    longer.insert(random.randint(0, len(longer)), Loop(dim, 1))
            blocks.append(tuple(longer))
        levels.append(LevelMapping(m.level, *blocks, keep=m.keep))
    dims = {**einsum.dims, "one": 1}
    wider = replace(einsum, dims=dims, tensors=(*einsum.tensors[:-1], with_rank(einsum.tensors[-1], "one")))

    assert same(evaluate(*case), evaluate(machine, einsum, Mapping(tuple(levels))))
    assert same(evaluate(*case), evaluate(machine, wider, Mapping(tuple(levels))))


def with_rank(tensor: Tensor, dim: str) -> Tensor:
    return replace(tensor, ranks=(*tensor.ranks, ((dim, 3),)))


@settings(max_examples=300)
@given(cases())
def test_violations__are_empty_exactly_where_the_kernel_says_valid(case):
    encoded = encode(case[0], case[1])
    batch = encode_mappings(encoded, [case[2]])
    for anyway in (False, True):
        status, energy, _ = evaluate_one(encoded.constants, batch, 0, make_detail(encoded), anyway)
        result = evaluate(*case)

        assert (status == VALID) == (not result.violations) == result.valid
        assert energy == result.energy_pj or not (anyway or result.valid)


def matrices(bounds: dict[str, int]) -> Einsum:
    pairs = {"A": ("M", "K"), "B": ("K", "N"), "Z": ("M", "N")}
    roles = {"A": "Inputs", "B": "Weights", "Z": "Outputs"}
    tensors = [
        Tensor(name, tuple(((dim, 1),) for dim in pairs[name]), roles[name], 8, 32 if name == "Z" else 8, name == "Z")
        for name in pairs
    ]
    return Einsum("gemm", bounds, tuple(tensors))


@pytest.mark.parametrize(("exponents", "refused"), [((40, 40, 40), True), ((18, 20, 20), True), ((17, 20, 20), False)])
def test_overflow__is_refused_before_anything_is_counted(exponents, refused):
    """Three tensors, of which the sums take two words, and four movements: 24 words a MAC, 1.5 x 2^62 or 1.5 x 2^61."""
    bounds = {dim: 2**exponent for dim, exponent in zip("MNK", exponents, strict=True)}
    machine = Architecture("m", (Level("L0", "SRAM"),), Compute(), energy_table(["L0"], lambda: 1.0))
    nest = tuple(Loop(dim, bound) for dim, bound in bounds.items())
    mapping = Mapping((LevelMapping("L0", nest, keep=frozenset("ABZ")),))

    with pytest.raises(AccelsimError, match=r"2\*\*62") if refused else nullcontext():
        assert evaluate(machine, matrices(bounds), mapping).cycles == 2 ** sum(exponents)


def huge(rng: random.Random) -> tuple[Architecture, Einsum, Mapping]:
    """Three dimensions of powers of two, over two to four levels, as large as counts may become or a little larger."""
    count = rng.randint(2, 4)
    exponents = {dim: rng.randint(0, 30) for dim in "MNK"}
    exponents["M"] = max(0, exponents["M"] + rng.randint(50, 59) - sum(exponents.values()))
    places = [(index, where) for index in range(count) for where in ("time", "x", "y")]
    at: dict[tuple[int, str], list[Loop]] = {place: [] for place in places}
    for dim, exponent in exponents.items():
        for place in places[:-1]:
            part = rng.choice([0, exponent, rng.randint(0, exponent)])
            at[place].append(Loop(dim, 2**part))
            exponent -= part
        at[places[-1]].append(Loop(dim, 2**exponent))
    rates = [None, Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(4, 3), Fraction(5, 2), Fraction(3)]

    def axis() -> Axis:
        return Axis(2**60, rng.random() < 0.5, rng.random() < 0.5)

    levels = [
        Level(
            f"L{index}",
            "SRAM",
            word_bits=rng.choice([8, 32]),
            block_size=rng.choice([1, 4, 3]),
            bandwidth=rng.choice(rates),
            write_bandwidth=rng.choice(rates),
            x=axis(),
            y=axis(),
            drain_reads=rng.random() < 0.5,
        )
        for index in range(count)
    ]
    machine = Architecture("huge", tuple(levels), Compute(), energy_table([v.name for v in levels], lambda: 1.0))
    mapped = [
        LevelMapping(
            level.name,
            tuple(rng.sample(at[index, "time"], len(at[index, "time"]))),
            tuple(at[index, "x"]),
            tuple(at[index, "y"]),
            frozenset(name for name in "ABZ" if index == 0 or rng.random() < 0.5),
        )
        for index, level in enumerate(levels)
    ]
    return machine, matrices({dim: 2**exponent for dim, exponent in exponents.items()}), Mapping(tuple(mapped))


@settings(max_examples=200)
@given(st.randoms(use_true_random=True).map(huge))
def test_counts__just_below_the_limit_do_not_wrap(case):
    machine, einsum, mapping = case
    try:
        result = evaluate(*case)
    except AccelsimError as error:
        assert "2**62" in str(error)  # noqa: PT017 -- most cases are below the limit
        assume(False)
    everything = [number for t in result.tensors for number in (t.tile_words, t.reads, t.fills, t.updates)]
    everything += [number for n in result.networks for number in (n.children, n.distinct, n.transfers)]
    everything += [level.cycles for level in result.levels]

    assert min(everything) >= 0
    assert {row["component"]: row["cycles"] for row in result.cycle_rows()} == expected_cycles(machine, mapping, result)
    outermost = machine.levels[0].name
    for t in result.tensors:
        tensor = next(tensor for tensor in einsum.tensors if tensor.name == t.tensor)
        moved = t.updates if tensor.output else t.reads
        if t.level == outermost:
            assert math.prod(einsum.dims[dim] for dim in tensor.dims) <= moved <= einsum.macs
    assert result.energy_pj == pytest.approx(math.fsum(row["energy_pj"] for row in result.energy_rows()), rel=1e-12)
    assert all(row["energy_pj"] > 0 for row in result.energy_rows())
