"""Compression: what a level stores and moves is a share of the raw bits; how many words it moves stays as it is."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.inputs.architecture import Architecture, Compute, Level
from accelsim.inputs.errors import AccelsimError, InputError, NoValidMappingError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.nodes import arrange_for
from accelsim.inputs.workload import ROLES, Einsum, Tensor
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.model.limits import layer_limits, stand
from accelsim.model.oracle import execute
from accelsim.population.spread import spread
from accelsim.results import Provenance
from accelsim.results.output import front_json
from accelsim.results.verifying import Task, verify_layer
from accelsim.search.exact.front import map_front
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from tests.brute import ragged_cost, truth
from tests.effort import many
from tests.problems import MOST, problem
from tests.strategies import cases, energy_table, ragged_cases
from tests.switches import switched
from tests.test_architecture import load  # noqa: F401 (a fixture)
from tests.test_exact import check_best, check_many
from tests.test_ragged import by_sums, check_counts, leaking

PROBLEMS = many("COMPRESSED_PROBLEMS", 45)
SHARES = [Fraction(n, d) for n, d in ((1, 2), (3, 5), (1, 4), (5, 8), (9, 10), (1, 5), (5556, 10000))]


def compressed(machine: Architecture, rng: random.Random, roles: tuple[str, ...] = ROLES) -> Architecture:
    """The machine with compression of some roles at some of its levels."""
    levels = []
    for level in machine.levels:
        shares = {role: rng.choice(SHARES) for role in roles if rng.random() < 0.6}
        levels.append(replace(level, compression=shares if rng.random() < 0.7 else {}))
    return replace(machine, levels=tuple(levels))


@settings(max_examples=many("ORACLE_CASES", 150))
@given(cases(), st.randoms(use_true_random=True))
def test_evaluation__charges_the_compressed_share_of_the_executed_words(case, rng):
    """All from the words that the oracle moves, in fractions: accesses, ports, capacity, energy, cycles."""
    machine, einsum, mapping = case
    machine = compressed(machine, rng)
    walked = execute(machine, einsum, mapping)
    result = evaluate(machine, einsum, mapping)
    energy_pj = result.compute_pj + math.fsum(n.energy_pj for n in result.networks)
    cycles = walked.steps * machine.compute.cycles_per_mac
    for index, (level, counts) in enumerate(zip(machine.levels, walked.levels, strict=True)):
        read, written, held = Fraction(0), Fraction(0), Fraction(0)
        for tensor in einsum.tensors:
            if tensor.name not in counts:
                continue
            count = counts[tensor.name]
            t = next(t for t in result.tensors if (t.level, t.tensor) == (level.name, tensor.name))
            share = Fraction(1) if t.partial else level.compression.get(tensor.role, Fraction(1))
            assert t.compression == share
            width = math.ceil(Fraction(t.word_bits, level.word_bits)) * share
            read, written = read + count.reads * width, written + (count.fills + count.updates) * width
            held += count.tile * width
            for action, words in (("read", count.reads), ("write", count.fills), ("update", count.updates)):
                accesses = math.ceil(words * width / level.block_size) * walked.used[index]
                energy_pj += accesses * machine.energy.energy_pj(level.name, tensor.role, action)
        ports = ((level.bandwidth, read + written), (level.read_bandwidth, read), (level.write_bandwidth, written))
        needed = max([math.ceil(words / rate) for rate, words in ports if rate is not None], default=0)
        assert result.levels[index].cycles == needed
        assert result.levels[index].used_words == math.ceil(held)
        if index == 0:
            assert result.offchip_words == math.ceil(read + written)
        cycles = max(cycles, needed)
    leaks = [machine.energy.energy_pj(level.name, "*", "leak") for level in machine.levels]
    energy_pj += math.fsum(
        leak * cycles * many for leak, many in zip(leaks, leaking(machine, walked.used), strict=True)
    )
    assert result.cycles == cycles
    assert result.energy_pj == pytest.approx(energy_pj, rel=1e-12)
    assert result.valid == (not walked.fails)


@settings(max_examples=many("RAGGED_CASES", 100))
@given(ragged_cases(), st.randoms(use_true_random=True))
def test_remainders__charge_the_compressed_share_of_the_executed_words(case, rng):
    machine, einsum, mapping = case
    machine = compressed(machine, rng)
    encoded = encode(arrange_for(machine, mapping), einsum)
    walked = execute(machine, einsum, mapping)
    result = by_sums(encoded, mapping)

    levels, tensors = {level.name: level for level in machine.levels}, {t.name: t for t in einsum.tensors}
    for t in result.tensors:
        assert t.compression == (1 if t.partial else levels[t.level].compression.get(tensors[t.tensor].role, 1))
    check_counts(result, walked, machine, einsum, mapping)
    assert ragged_cost(encoded, mapping)[0] == (not walked.fails)


def whole(parts, units):
    """Storage words, of which a part counts whole; so they are in results, fronts and spreads."""
    return -(-parts // units)


@pytest.mark.parametrize("group", range(3))
def test_exact__equals_brute_force_on_compressed_machines(group):
    for seed in range(group, PROBLEMS, 3):
        machine, einsum, constraints = problem(seed)
        case = compressed(machine, random.Random(seed)), einsum, constraints
        known = truth(*case, MOST)
        if known is None:
            continue
        if not known.valid:
            with pytest.raises(NoValidMappingError):
                map_einsum(case[0], einsum, constraints=constraints, workers=1, uneven=False)
            continue
        units = np.array(encode(case[0], einsum).units_per_word)
        known = replace(known, used_words=whole(known.used_words, units))
        kind = seed % 7
        with switched(seed):
            if kind < 3:
                check_best(case, known, *(("energy", (1.0, 0.0)), ("cycles", (0.0, 1.0)), ("edp", (1.0, 1.0)))[kind])
            else:
                check_many(case, known, kind - 3)
        limits = layer_limits(case[0], einsum)
        assert limits.energy_pj <= known.energy_pj.min() * (1 + 1e-12)
        assert limits.cycles <= known.cycles.min()


def two_levels(**dram: object) -> Architecture:
    """DRAM and a buffer of 16-bit words; every access costs 1 pJ, DRAM's 10 pJ."""
    table = energy_table(["DRAM", "GLB"], lambda: 0.0)
    entries = {key: replace(entry, energy_pj={"DRAM": 10.0}.get(key[0], 1.0)) for key, entry in table.entries.items()}
    free = {key: replace(entry, energy_pj=0.0) for key, entry in entries.items() if key[2] in ("leak", "transfer")}
    levels = (Level("DRAM", "DRAM", **dram), Level("GLB", "SRAM", size_words=64, keep=frozenset(ROLES)))
    return Architecture("two_levels", levels, Compute(), replace(table, entries=entries | free))


GEMM = Einsum(
    "gemm",
    {"M": 4, "N": 3, "K": 5},
    (
        Tensor("Inputs", ((("M", 1),), (("K", 1),)), "Inputs"),
        Tensor("Weights", ((("K", 1),), (("N", 1),)), "Weights"),
        Tensor("Outputs", ((("M", 1),), (("N", 1),)), "Outputs", output=True),
    ),
)
EVERY = frozenset(ROLES)
AT_ONCE = Mapping(
    (LevelMapping("DRAM", keep=EVERY), LevelMapping("GLB", (Loop("M", 4), Loop("N", 3), Loop("K", 5)), keep=EVERY))
)
IN_PARTS = Mapping(
    (LevelMapping("DRAM", (Loop("K", 5),), keep=EVERY), LevelMapping("GLB", (Loop("M", 4), Loop("N", 3)), keep=EVERY))
)


def test_compression__of_a_gemm_worked_by_hand():
    """20 inputs at 0.6, 15 weights, 12 outputs at 0.3: 12 + 15 + 3.6 words; 12 + 15 + 4 accesses of 10 pJ.

    At 2 words a cycle 30.6 words take 16 cycles, at a quarter of a word 123. The words stay 20, 15 and 12.
    """
    shares = {"Inputs": Fraction(3, 5), "Outputs": Fraction(3, 10)}
    for rate, cycles in ((Fraction(2), 16), (Fraction(1, 4), 123)):
        result = evaluate(two_levels(bandwidth=rate, compression=shares), GEMM, AT_ONCE)
        moved = {t.tensor: (t.reads + t.updates, t.energy_pj) for t in result.tensors if t.level == "DRAM"}
        assert moved == {"Inputs": (20, 120.0), "Weights": (15, 150.0), "Outputs": (12, 40.0)}
        assert result.levels[0].cycles == cycles
        assert result.offchip_words == 31


def test_compression__is_not_that_of_partial_sums():
    """With K outside, all 12 outputs arrive 5 times and are read back 4 times; these are no finished words."""
    result = evaluate(two_levels(compression={"Outputs": Fraction(1, 2)}), GEMM, IN_PARTS)
    (outputs,) = (t for t in result.tensors if (t.level, t.tensor) == ("DRAM", "Outputs"))
    assert (outputs.partial, outputs.reads, outputs.updates, outputs.compression) == (False, 0, 12, Fraction(1, 2))
    machine = two_levels(compression={"Outputs": Fraction(1, 2)})
    machine = replace(machine, levels=(machine.levels[0], replace(machine.levels[1], keep=frozenset(), bypass=EVERY)))
    bypassing = Mapping(
        (LevelMapping("DRAM", (Loop("K", 5), Loop("M", 4), Loop("N", 3)), keep=EVERY), LevelMapping("GLB"))
    )
    result = evaluate(machine, GEMM, bypassing)
    (outputs,) = (t for t in result.tensors if (t.level, t.tensor) == ("DRAM", "Outputs"))
    assert (outputs.partial, outputs.reads, outputs.updates, outputs.compression) == (True, 48, 60, 1)
    assert outputs.energy_pj == 10.0 * (48 + 60)


def test_compression__by_half_is_as_words_of_half_the_bits():
    """Elements of 16 bits at a half, and elements of 8 bits, on a machine of 8-bit words."""
    plain, half = two_levels(bandwidth=Fraction(3, 7)), dict.fromkeys(ROLES, Fraction(1, 2))
    halves = replace(plain, levels=tuple(replace(level, word_bits=8, compression=half) for level in plain.levels))
    narrow = replace(halves, levels=tuple(replace(level, compression={}) for level in halves.levels))
    eight = replace(GEMM, tensors=tuple(replace(tensor, bits=8) for tensor in GEMM.tensors))
    wide = replace(GEMM, tensors=tuple(replace(tensor, bits=16) for tensor in GEMM.tensors))
    for objective in ("energy", "cycles", "edp"):
        found, expected = (
            map_einsum(*of, objective=objective, uneven=False).best for of in ((halves, wide), (narrow, eight))
        )
        assert (found.energy_pj, found.cycles, found.mapping) == (expected.energy_pj, expected.cycles, expected.mapping)
        assert found.offchip_words == expected.offchip_words


def test_compression__lets_larger_tiles_in_and_never_costs_more():
    """20 inputs and 15 weights at 0.6, and 12 partial sums as they are, take 33 words; all as they are, 47."""
    machine = two_levels(bandwidth=Fraction(1, 3))
    small = replace(machine.levels[1], size_words=33)
    tight = replace(machine, levels=(machine.levels[0], small))
    roomy = replace(tight, levels=(machine.levels[0], replace(small, compression=dict.fromkeys(ROLES, Fraction(3, 5)))))
    assert not evaluate(tight, GEMM, AT_ONCE).valid
    assert evaluate(roomy, GEMM, AT_ONCE).valid
    assert evaluate(roomy, GEMM, AT_ONCE).levels[1].used_words == 33
    for objective in ("energy", "cycles", "edp"):
        worse, better = (map_einsum(of, GEMM, objective=objective, uneven=False).certificate for of in (tight, roomy))
        assert better.value <= worse.value


def test_front__has_the_whole_words_of_its_mappings():
    """A tile of 16 of the 20 inputs or so holds a part of a word: points that differ by less than a word are one."""
    machine = two_levels(compression={"Inputs": Fraction(3, 5), "Weights": Fraction(3, 4)})
    small = replace(machine.levels[1], compression=dict.fromkeys(ROLES, Fraction(3, 5)))
    machine = replace(machine, levels=(machine.levels[0], small))
    columns = ("offchip_words", f"capacity:{small.name}")
    found = map_front(machine, GEMM, columns, workers=1)
    assert found.values == tuple((point.offchip_words, point.levels[1].used_words) for point in found.points)
    assert [[row["offchip_words"], row[f"{small.name}_words"]] for row in found.rows()] == list(map(list, found.values))
    outer = machine.levels[0]
    for point in found.points:
        moved = [t.storage_words(t.total_words, outer.word_bits) for t in point.tensors if t.level == outer.name]
        assert sum(moved) <= point.offchip_words < sum(moved) + 1
    words, held = zip(*found.values, strict=True)
    assert list(words) == sorted(set(words))
    assert list(held) == sorted(set(held), reverse=True)
    document = json.loads(json.dumps(front_json(found, Provenance("map", (), {}), {})))
    task = Task(machine, GEMM, None, Budget(), 1, None, same_version=True)
    checks, _ = verify_layer(document, task)
    assert not any(check.agrees is False for check in checks)
    document["front"]["points"][0]["values"][0] -= 0.4
    checks, _ = verify_layer(document, task)
    assert any(check.agrees is False for check in checks)


def test_spread__counts_offchip_words_as_compressed():
    machine = two_levels(compression={"Inputs": Fraction(3, 5), "Weights": Fraction(3, 4)})
    found = spread(machine, GEMM, samples=200, workers=1)
    plain = spread(two_levels(), GEMM, samples=200, workers=1)
    words, raw = found.range_of("offchip_words"), plain.range_of("offchip_words")
    assert (found.mappings, raw.lowest) == (plain.mappings, 20 + 15 + 12)
    assert words.lowest == math.ceil(12 + 11.25 + 12)
    assert words.lowest_proved
    drawn = [found.sample.result(index).offchip_words for index in range(len(found.sample))]
    assert drawn == found.sample.offchip_words[: len(drawn)].tolist()
    assert words.lowest <= found.sample.mean("offchip_words").value <= words.highest < raw.highest


@pytest.mark.parametrize(
    ("share", "what"),
    [
        ("1.8", "got '1.8'; a ratio of 1.8 : 1 is written 0.5556"),
        ("99999", "got '99999'; a ratio of 99999 : 1 is written 0.0001"),
        ("0", "got '0'; such as 0.6, or 1 for none"),
        ("60%", "got '60%'; such as 0.6, or 1 for none"),
        ("-0.5", "got '-0.5'; such as 0.6, or 1 for none"),
    ],
)
def test_check__finds_a_share_that_is_none(load, share, what):  # noqa: F811
    with pytest.raises(InputError) as raised:
        load("size: 1 KiB", f"compression: {{Weights: {share}}}")
    where = "a.yaml:6:105: levels[0].compression.Weights: "
    assert str(raised.value).endswith(f"{where}expected a share of the raw bits above 0, at most 1, {what}")


def test_check__finds_a_share_of_too_many_digits(load):  # noqa: F811
    with pytest.raises(InputError, match=r"Weights: '0.33333' has more than 4 digits after the point; write 0.3333"):
        load("size: 1 KiB", "compression: {Weights: 0.33333}")


def test_check__finds_a_role_that_is_never_stored(load):  # noqa: F811
    with pytest.raises(InputError, match=r"compression.Inputs: Inputs is never stored here; take it out, or out of"):
        load("size: 1 KiB, bypass: [Inputs], compression: {Inputs: 0.5}")
    with pytest.raises(InputError, match=r"compression.psums: unknown key; keys: Weights, Inputs, Outputs"):
        load("size: 1 KiB, compression: {psums: 0.5}")
    with pytest.raises(InputError, match=r"compression: expected a mapping with the keys"):
        load("size: 1 KiB, compression: 0.5")


def test_check__reads_shares_exactly_and_drops_those_of_one(load):  # noqa: F811
    levels = load("size: 1 KiB, compression: {Inputs: 0.5556, Weights: 1, Outputs: 1.0}").levels
    assert levels[1].compression == {"Inputs": Fraction(5556, 10000)}
    assert levels[0].compression == {}


def test_counts__that_64_bits_cannot_hold_are_refused():
    machine = two_levels(bandwidth=Fraction(10**14 + 1, 10**15), compression={"Inputs": Fraction(1, 10_000)})
    large = replace(GEMM, dims=dict.fromkeys(GEMM.dims, 10**3))
    with pytest.raises(AccelsimError, match="round bandwidths and compression to fewer digits"):
        encode(machine, large)


def test_roofline__has_the_bytes_that_are_left():
    """Inputs at 0.6, outputs at 0.3: 12 + 15 + 3.6 words of 2 bytes, at least and moved by the mapping at hand."""
    machine = two_levels(bandwidth=Fraction(2), compression={"Inputs": Fraction(3, 5), "Outputs": Fraction(3, 10)})
    found = stand(machine, GEMM, evaluate(machine, GEMM, AT_ONCE))
    assert found.least == found.moved == pytest.approx(60 / 61.2)
