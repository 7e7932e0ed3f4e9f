"""Systolic arrays: ramps against the executed array, folds worked by hand, and the exact mapper against brute force.

`ACCELSIM_SYSTOLIC_CASES`, `ACCELSIM_SYSTOLIC_PROBLEMS`: how many random nests and problems are looked at.
"""

from __future__ import annotations

import itertools
import random
from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_architecture, load_workload
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.constraints import Block, Constraints, LevelConstraint
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.level_features import Instruction, Systolic
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import ROLES, Einsum, Tensor
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Ramp
from accelsim.model.time_oracle import walk_array
from accelsim.results.explain import same_as_walked
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from tests.brute import ragged_cost, truth
from tests.brute_ragged import awkward, mappings
from tests.effort import many
from tests.problems import MOST, problem
from tests.strategies import cases, energy_table, ragged_case
from tests.switches import switched
from tests.test_exact import check_best, check_front, check_within
from validation.scalesim import DATAFLOWS, HELD, ScaleSimCase, evaluate_fold, gemm, systolic_array

CASES = many("SYSTOLIC_CASES", 150)
PROBLEMS = many("SYSTOLIC_PROBLEMS", 70)
FEW = 800
"""Mappings of a problem with remainders, at most; each is counted by itself."""

Case = tuple[Architecture, Einsum, Mapping]


def some_instruction(einsum: Einsum, rng: random.Random) -> Instruction:
    rows = rng.choice([1, 2, 3, 4, 8])
    return Instruction(rng.choice([*einsum.dims]), rows, rng.randint(1, rows))


def with_array(case: Case, rng: random.Random, streams: bool = False) -> Case | None:
    """The machine with a systolic array around a level other than the first, whose PEs hold a tensor in place."""
    machine, einsum, mapping = case
    if len(machine.levels) == 1:
        return None
    pe, held = rng.randrange(1, len(machine.levels)), rng.choice(einsum.tensors)
    levels = list(machine.levels)
    array = Systolic(held.role, rng.random() < 0.5, some_instruction(einsum, rng) if streams else None)
    levels[pe - 1] = replace(levels[pe - 1], systolic=array)
    levels[pe] = replace(levels[pe], keep=levels[pe].keep | {held.role})
    nodes = list(mapping.levels)
    where = [at for at, node in enumerate(nodes) if node.level == levels[pe].name]
    for tensor in einsum.tensors:
        if tensor.role == held.role and not any(tensor.name in nodes[at].keep for at in where):
            at = rng.choice(where)
            nodes[at] = replace(nodes[at], keep=nodes[at].keep | {tensor.name})
    return replace(machine, levels=tuple(levels)), einsum, replace(mapping, levels=tuple(nodes))


def check_array(case: Case) -> int:
    """Ramps are those of the executed array; how often what it holds changes."""
    machine, einsum, mapping = case
    result, walked = evaluate(machine, einsum, mapping), walk_array(machine, einsum, mapping)
    assert walked is not None
    assert result.busy_cycles == walked.cycles
    assert result.cycles == max(result.busy_cycles, *(level.cycles for level in result.levels))
    assert all(ramp.cycles > 0 for ramp in result.pipeline_fill)
    return walked.tiles


@settings(max_examples=CASES)
@given(cases(), st.randoms(use_true_random=True))
def test_ramps__equal_the_executed_array(case, rng):
    found = with_array(case, rng, streams=rng.random() < 0.7)
    if found is not None:
        check_array(found)


def test_ramps__equal_the_executed_array_where_loops_leave_remainders():
    rng, looked, changed = random.Random(7), 0, 0
    while looked < CASES:
        found = with_array(ragged_case(rng), rng, streams=rng.random() < 0.7)
        if found is not None:
            looked += 1
            changed += check_array(found) > 1
    assert changed > CASES / 8


def hand(held: str, double: bool = False, size: int = 1, **axes: Axis) -> Architecture:
    """A buffer without limits around an array of 4 rows x 3 columns."""
    array = Systolic(held, double)
    buffer = Level("Buffer", "SRAM", x=Axis(3, *array.shares("x")), y=Axis(4, *array.shares("y")), systolic=array)
    pe = Level("PE", "register", size_words=size, keep=frozenset({held}), bypass=frozenset(ROLES) - {held})
    return Architecture("hand", (replace(buffer, **axes), pe), Compute(), energy_table(["Buffer", "PE"], lambda: 1.0))


def matmul(m: int, n: int, k: int, held: str, nest: str, tile: str = "") -> tuple[Einsum, Mapping]:
    """A GEMM on the 4 x 3 array; `nest` and `tile` are temporal loops of buffer and PE, such as `K=2 M=5`."""
    einsum = gemm({"M": m, "N": n, "K": k}, 16, 16)
    time, inside = (
        tuple(Loop(dim, int(bound)) for dim, _, bound in (word.partition("=") for word in text.split()))
        for text in (nest, tile)
    )
    down, along, _ = DATAFLOWS[{"Weights": "ws", "Outputs": "os", "Inputs": "is"}[held]]
    outer = LevelMapping("Buffer", time, (Loop(along, 3),), (Loop(down, 4),), frozenset(ROLES))
    return einsum, Mapping((outer, LevelMapping("PE", inside, keep=frozenset({held}))))


def test_weights_stay__each_fold_pays_skew_and_rows():
    """K = 8 in two folds of 4 rows, N = 3 columns, M = 5 pixels stream: 2 x (5 + (4 + 3 - 2) + 4) = 28 cycles."""
    einsum, mapping = matmul(5, 3, 8, "Weights", "K=2 M=5")
    result = evaluate(hand("Weights"), einsum, mapping)

    assert (result.compute_cycles, result.cycles) == (10, 28)
    assert result.pipeline_fill == (Ramp("skew of the array", 2, 10), Ramp("preload of Weights", 2, 8))
    assert result.bottleneck == "MAC"
    assert result.temporal_utilization == 10 / 28


def test_weights_move_with_each_step__if_the_stream_is_outside():
    """The same with M outside: 10 changes, 10 steps, 10 x (1 + 5 + 4) = 100 cycles."""
    einsum, mapping = matmul(5, 3, 8, "Weights", "M=5 K=2")

    assert evaluate(hand("Weights"), einsum, mapping).cycles == 100


def test_outputs_stay__nothing_enters_from_above():
    """M = 4 rows, N = 6 in two folds of 3 columns, K = 7 streams: 2 x (7 + 5) = 24 cycles."""
    einsum, mapping = matmul(4, 6, 7, "Outputs", "N=2 K=7")
    result = evaluate(hand("Outputs"), einsum, mapping)

    assert result.cycles == 24
    assert result.pipeline_fill == (Ramp("skew of the array", 2, 10),)


def test_double_buffered__the_next_tile_enters_while_one_is_used():
    """Two folds of 5 steps and 4 rows: first 4 cycles to load, 10 steps, 5 of skew: 19.

    With 2 pixels a fold the loads take longer: 2 x 4 = 8 cycles against 4 + 4 steps, then 5: 13. With one, 8 against 4
    + 2: two cycles of waiting, then 5: 13.
    """
    machine, cycles = hand("Weights", double=True), {5: 19, 2: 13, 1: 13}
    for pixels, expected in cycles.items():
        einsum, mapping = matmul(pixels, 3, 8, "Weights", f"K=2 M={pixels}")
        assert evaluate(machine, einsum, mapping).cycles == expected
    assert evaluate(machine, einsum, mapping).pipeline_fill == (
        Ramp("skew of the array", 1, 5),
        Ramp("first preload of Weights", 1, 4),
        Ramp("waiting for preloads of Weights", 1, 2),
    )


def test_preload__is_for_each_word_that_a_pe_holds():
    """K = 8: both words of a PE's tile pass the rows, 2 x 4 cycles, once; 5 x 2 steps and 5 of skew: 23 cycles."""
    einsum, mapping = matmul(5, 3, 8, "Weights", "M=5", "K=2")

    assert evaluate(hand("Weights", size=2), einsum, mapping).cycles == 23


def test_array_that_holds_nothing__fills_once():
    """A sum of products without weights, 3 of 6 pixels at a time, 4 channels: 2 steps and a skew of 5."""
    ranks = ((("M", 1),), (("K", 1),))
    einsum = Einsum(
        "pool",
        {"M": 6, "K": 4},
        (Tensor("I", ranks, "Inputs"), Tensor("O", ranks[:1], "Outputs", output=True)),
    )
    levels = (
        LevelMapping("Buffer", (Loop("M", 2),), (Loop("M", 3),), (Loop("K", 4),), frozenset({"I", "O"})),
        LevelMapping("PE"),
    )

    assert evaluate(hand("Weights"), einsum, Mapping(levels)).pipeline_fill == (Ramp("skew of the array", 1, 5),)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_folds__are_scale_sims(dataflow):
    """SCALE-Sim's closed forms: a fold takes rows + columns - 2 + T cycles, and rows more where operands stay."""
    rng = random.Random(3)
    for _ in range(60):
        bounds = {dim: rng.randint(1, 30) for dim in "MNK"}
        case = ScaleSimCase("", "", rng.randint(1, 9), rng.randint(1, 9), dataflow, bounds, {})
        down, along, stream = (bounds[dim] for dim in DATAFLOWS[dataflow])
        folds = -(-down // case.rows) * -(-along // case.columns)
        preload = 0 if dataflow == "os" else case.rows
        assert evaluate_fold(case).cycles == folds * (preload + case.rows + case.columns - 2 + stream)


FASTEST = Objective.parse("cycles")


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_bound__has_all_folds_where_loops_leave_remainders(dataflow):
    """Each fold takes skew and rows again; there are as many as pieces of rows times pieces of columns."""
    rng, more = random.Random(11), 0
    for _ in range(20):
        bounds = {dim: rng.randint(1, 17) for dim in "MNK"}
        case = ScaleSimCase("", "", rng.randint(1, 5), rng.randint(1, 5), dataflow, bounds, {})
        along = zip("yx", DATAFLOWS[dataflow], strict=False)
        axes = {axis: Block(only=frozenset({dim})) for axis, dim in along}
        machine = systolic_array(case.rows, case.columns, HELD[dataflow])
        constraints = Constraints((LevelConstraint(machine.levels[0].name, **axes),))
        space = MapSpace(encode(machine, gemm(bounds)), constraints, frozenset("MNK"))

        bound = Solver(space, cycles=True).search(objective=FASTEST).root_bound

        assert bound == evaluate_fold(case).cycles
        down, across = (bounds[dim] for dim in DATAFLOWS[dataflow][:2])
        more += -(-down // case.rows) * -(-across // case.columns) > -(-down * across // (case.rows * case.columns))
    assert more > 5


def test_bound__lets_words_of_a_window_stay_where_loops_go_back_as_far_as_one_steps():
    """A convolution whose inputs stay, on all small arrays: the bound at the root is that of brute force, mostly."""
    equal = looked = 0
    for p, r, stride, x, y in itertools.product((4, 6), (2, 3), (1, 2), (1, 2, 4), (1, 2, 3)):
        ranks = ((("P", stride), ("R", 1)),), ((("R", 1),),), ((("P", 1),),)
        tensors = tuple(
            Tensor(role, rank, role, output=role == "Outputs")
            for role, rank in zip(("Inputs", "Weights", "Outputs"), ranks, strict=True)
        )
        machine, einsum = hand("Inputs", x=Axis(x), y=Axis(y)), Einsum("conv", {"P": p, "R": r}, tensors)
        known = truth(machine, einsum, Constraints(), MOST)
        assert known is not None
        bound = Solver(MapSpace(encode(machine, einsum)), cycles=True).search(objective=FASTEST).root_bound
        assert bound <= known.best(0.0, 1.0)
        equal += bound == known.best(0.0, 1.0)
        looked += 1
    assert equal > looked / 2


def test_machine__that_cannot_hold_it_is_refused():
    """The PEs must keep what stays in place, and there is one array."""
    einsum, mapping = matmul(5, 3, 8, "Weights", "K=2 M=5")
    outer, pe = hand("Weights").levels
    with pytest.raises(AccelsimError, match="PE: the PEs of a systolic array keep Weights"):
        evaluate(replace(hand("Weights"), levels=(outer, replace(pe, keep=frozenset()))), einsum, mapping)
    with pytest.raises(AccelsimError, match="level PE: a machine has one systolic array"):
        evaluate(replace(hand("Weights"), levels=(outer, replace(pe, systolic=outer.systolic))), einsum, mapping)


@pytest.mark.parametrize(("macs", "refused"), [(2**56, False), (3 * 2**55, True)])
def test_ramps__that_could_overflow_are_refused(macs, refused):
    """A step, and twice the skew of 5, 4 rows and an instruction of 1, for 3 tensors: 63 x 2^56 is less than 2^62."""
    einsum = gemm({"M": macs, "N": 1, "K": 1}, 16, 16)
    with pytest.raises(AccelsimError, match=r"2\*\*62") if refused else nullcontext():
        encode(hand("Weights"), einsum)


BAD = """architecture:
  name: bad
  levels:
    - {name: A, class: DRAM, word: 8 bit, energy: {read: 1 pJ, write: 1 pJ}, fanout: {systolic: {stationary: Weigths}}}
    - {name: B, class: SRAM, size: 1 KiB, word: 8 bit, energy: {read: 1 pJ, write: 1 pJ},
       fanout: {x: 4, systolic: {stationary: Inputs}}}
    - {name: C, class: SRAM, size: 1 KiB, word: 8 bit, energy: {read: 1 pJ, write: 1 pJ}, fanout: {systolic: {}}}
    - {name: D, class: SRAM, size: 1 KiB, word: 8 bit, energy: {read: 1 pJ, write: 1 pJ},
       fanout: {x: 4, systolic: {stationary: Outputs}}}
  compute: {class: mac, energy: {compute: 1 pJ}}
"""


def test_systolic__mistakes_are_told_with_their_places(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    with pytest.raises(InputError) as error:
        load_architecture(path)

    told = str(error.value)
    for each in (
        "4:110: levels[0].fanout.systolic.stationary: expected a role (Weights, Inputs, Outputs), got 'Weigths'",
        "6:16: levels[1].fanout: the PEs of the systolic array, C, need not keep Inputs; write `keep: [Inputs]` in C",
        "levels[2].fanout.systolic: 'stationary' is missing",
        "9:16: levels[3].fanout: level B has a systolic array already; one is possible",
    ):
        assert each in told


def test_networks__forward_operands_along_rows_and_sums_down_columns():
    ws = load_architecture("systolic_32", {"stationary": "Weights"}).levels[1]
    os = load_architecture("systolic_32", {"stationary": "Outputs"}).levels[1]

    assert [(axis.multicast, axis.spatial_reduction) for axis in (ws.x, ws.y)] == [(True, False), (False, True)]
    assert [(axis.multicast, axis.spatial_reduction) for axis in (os.x, os.y)] == [(True, False), (True, False)]


def test_instructions__of_few_rows_take_as_long_as_others():
    """K = 8 in two folds; 5 pixels are 4 and 1, which takes as long as 3: 2 x (7 + 5 + 4) cycles."""
    einsum, mapping = matmul(5, 3, 8, "Weights", "K=2 M=5")
    machine = hand("Weights")
    array = replace(machine.levels[0].systolic, instruction=Instruction("M", 4, 3))
    machine = replace(machine, levels=(replace(machine.levels[0], systolic=array), machine.levels[1]))
    result = evaluate(machine, einsum, mapping)
    assert result.cycles == 2 * (7 + 5 + 4)
    assert result.pipeline_fill[0] == Ramp("short instructions", 1, 4)
    other = replace(array, instruction=Instruction("no_dimension", 4, 3))
    plain = replace(machine, levels=(replace(machine.levels[0], systolic=other), machine.levels[1]))
    assert evaluate(plain, einsum, mapping).cycles == 28
    ragged = replace(mapping.levels[0], temporal=(Loop("K", 2), Loop("M", 3)))
    loops = replace(mapping.levels[1], temporal=(Loop("M", 2),))
    assert evaluate(machine, einsum, replace(mapping, levels=(ragged, loops), imperfect=frozenset({"M"}))).cycles == 32


def arrayed(machine: Architecture, einsum: Einsum, rng: random.Random, streams: bool = False) -> Architecture | None:
    """The machine with an array around one of the levels that must keep a tensor; None if none does."""
    roles = {tensor.role for tensor in einsum.tensors}
    where = [(pe, role) for pe, level in enumerate(machine.levels) if pe for role in sorted(level.keep & roles)]
    if not where:
        return None
    pe, role = rng.choice(where)
    levels = list(machine.levels)
    array = Systolic(role, rng.random() < 0.4, some_instruction(einsum, rng) if streams else None)
    levels[pe - 1] = replace(levels[pe - 1], systolic=array)
    return replace(machine, levels=tuple(levels))


def systolic_problem(seed: int, streams: bool = False) -> tuple[Architecture, Einsum, Constraints] | None:
    """A random problem with an array."""
    machine, einsum, constraints = problem(seed)
    array = arrayed(machine, einsum, random.Random(seed), streams)
    return None if array is None else (array, einsum, constraints)


def check_problems(make, seeds):
    """The exact mapper against brute force on random problems: the best, fronts, and all within a share."""
    looked = 0
    for number, seed in enumerate(seeds):
        case = make(seed)
        known = truth(*case, MOST) if case else None
        if case is None or known is None or not known.valid:
            continue
        kind = number % 6
        try:
            with switched(seed):
                if kind < 4:
                    objectives = [("cycles", (0.0, 1.0)), ("edp", (1.0, 1.0)), ("energy", (1.0, 0.0))]
                    check_best(case, known, *objectives[kind % 3])
                elif kind == 4:
                    check_front(case, known, ("energy", "cycles"))
                else:
                    check_within(case, known)
        except AssertionError as error:
            raise AssertionError(f"problem {seed}: {error}") from error
        looked += 1
    assert looked > len(seeds) * 0.4


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("group", range(4))
def test_exact__equals_brute_force_with_ramps(group, streams):
    check_problems(lambda seed: systolic_problem(seed, streams), range(group, PROBLEMS, 4))


def check_remainders(make, seeds=range(PROBLEMS * 3 // 4)):
    """The fastest mapping with remainders against brute force, on many problems of few mappings."""
    looked = 0
    for seed in seeds:
        case = make(seed)
        awkward_einsum, imperfect = awkward(seed)[1:]
        known = mappings(case[0], awkward_einsum, imperfect, most=FEW) if case and imperfect else None
        if case is None or known is None:
            continue
        encoded = encode(case[0], awkward_einsum)
        cycles = [found for each in known for fits, _, found in [ragged_cost(encoded, each)] if fits]
        if cycles:
            with switched(seed):
                found = map_einsum(case[0], awkward_einsum, imperfect=imperfect, objective="cycles", workers=1)
            assert found.best.cycles == min(cycles), seed
            assert found.certificate is not None
            assert found.certificate.proved, seed
            space = MapSpace(encoded, None, frozenset(imperfect))
            no_slower = Solver(space, cycles=True).search(objective=FASTEST, limit=min(cycles))
            assert no_slower.found.many[0], seed  # no bound on the way is above it
            looked += 1
    assert looked > len(seeds) / 8


@pytest.mark.parametrize("streams", [False, True])
def test_exact__equals_brute_force_with_ramps_and_remainders(streams):
    check_remainders(lambda seed: systolic_problem(seed, streams))


def test_convolution__is_explained_step_by_step():
    """The walked nest of a small convolution has the cycles of the result."""
    machine, einsum = load_architecture("systolic_32", {"pe.x": "2", "pe.y": "3"}), load_workload("conv1d").layers[0]
    best = map_einsum(machine, einsum, objective="cycles", uneven=False).best

    assert best.pipeline_fill
    assert same_as_walked(machine, einsum, best)
