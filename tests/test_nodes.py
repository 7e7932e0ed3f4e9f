"""Storage nodes: uneven mappings are counted as executed, and the best of them is the best by brute force.

`ACCELSIM_UNEVEN_PROBLEMS`: how many random problems are looked at (default 150).
"""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
import pytest

from accelsim import evaluate, load_architecture, load_mapping, load_workload
from accelsim.inputs.errors import AccelsimError, NoValidMapping, SpecError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, dump_mapping
from accelsim.inputs.nodes import arrange, arrange_for, arrangements, fold
from accelsim.model.encode import decode_mapping, encode
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.oracle import execute
from accelsim.results.explain import same_as_walked
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from accelsim.search.strategy import Budget
from tests.brute import truth
from tests.problems import problem

PROBLEMS = int(os.environ.get("ACCELSIM_UNEVEN_PROBLEMS", "150"))
GROUPS = 12
MOST = 20_000
ORDERS = 14
"""Orders of storage nodes at most."""
POWERS = {"energy": (1.0, 0.0), "cycles": (0.0, 1.0), "edp": (1.0, 1.0)}


def spaces(seed):
    """All arrangements of a problem's storage nodes with all their mappings; None if these are too many."""
    architecture, einsum, constraints = problem(seed)
    nodes = arrangements(architecture, einsum, constraints)
    if not 1 < len(nodes) <= ORDERS:
        return None
    found = []
    for each in nodes:
        found.append(truth(arrange(architecture, each), einsum, constraints, MOST))
        if found[-1] is None:
            return None
    return found


@pytest.mark.parametrize("group", range(GROUPS))
def test_best_uneven_mapping__is_that_of_brute_force(group):
    """The smallest value over every order of storage nodes; never above the best even one."""
    looked = 0
    for seed in range(group, PROBLEMS, GROUPS):
        known = spaces(seed)
        if known is None:
            continue
        architecture, einsum, constraints = problem(seed)
        objective = list(POWERS)[seed // GROUPS % 3]
        least = min(space.best(*POWERS[objective]) for space in known)
        if not math.isfinite(least):
            with pytest.raises(NoValidMapping):
                map_einsum(architecture, einsum, constraints=constraints, uneven=True, workers=1)
            continue

        result = map_einsum(architecture, einsum, constraints=constraints, objective=objective, uneven=True, workers=1)

        assert result.certificate is not None
        assert result.certificate.proved, seed
        assert math.isclose(result.certificate.value, least, rel_tol=1e-9, abs_tol=1e-9), seed
        assert result.space_size == sum(space.size for space in known), seed
        assert not constraints.broken_by(result.best.mapping), seed
        assert result.best.valid, seed
        looked += 1
    assert looked > 0


@pytest.mark.parametrize("seed", [90, 104, 121, 150])
def test_uneven_mapping__may_be_better(seed):
    """Problems of which brute force says that the best mapping is uneven."""
    architecture, einsum, constraints = problem(seed)

    even = map_einsum(architecture, einsum, constraints=constraints, workers=1)
    free = map_einsum(architecture, einsum, constraints=constraints, uneven=True, workers=1)

    assert free.best.energy_pj < 0.99 * even.best.energy_pj
    assert len(free.best.mapping.levels) > len(even.best.mapping.levels)


def test_uneven_mappings__count_as_executed():
    """Random valid and invalid uneven mappings: words, validity and cycles of ports are those of the walked nest."""
    rng, looked = np.random.default_rng(0), 0
    for seed in range(60):
        architecture, einsum, constraints = problem(seed)
        nodes = arrangements(architecture, einsum, constraints)
        if len(nodes) == 1 or einsum.macs > 300:
            continue
        machine = arrange(architecture, nodes[int(rng.integers(1, len(nodes)))])
        known = truth(machine, einsum, constraints, MOST)
        if known is None or not known.valid:
            continue
        for number in rng.integers(known.valid, size=3):
            mapping = decode_mapping(known.encoded, known.batch, int(number))
            result = evaluate(architecture, einsum, mapping)
            simple = evaluate(architecture, einsum, fold(mapping))

            assert result.valid
            assert execute(architecture, einsum, mapping).fails == []
            assert same_as_walked(architecture, einsum, result)
            assert same_as_walked(architecture, einsum, simple)
            assert math.isclose(result.energy_pj, float(known.energy_pj[number]), rel_tol=1e-12)
            assert math.isclose(result.energy_pj, simple.energy_pj, rel_tol=1e-12)
            assert result.cycles == simple.cycles == known.cycles[number] == cycles_by_hand(architecture, result)
            looked += 1
    assert looked > 30


def cycles_by_hand(architecture, result):
    """The slowest of the compute units and all ports, each of which carries the words of all tensors of its level."""
    cycles = [result.compute_cycles]
    for level in architecture.levels:
        here = [t for t in result.tensors if t.level == level.name]
        parts = [-(-t.word_bits // level.word_bits) for t in here]
        read = sum(t.reads * part for t, part in zip(here, parts, strict=True))
        written = sum((t.fills + t.updates) * part for t, part in zip(here, parts, strict=True))
        rates = (level.bandwidth, level.read_bandwidth, level.write_bandwidth)
        for rate, words in zip(rates, (read + written, read, written), strict=True):
            cycles += [math.ceil(words / rate)] if rate is not None else []
    return max(cycles)


def test_uneven_mapping__that_does_not_fit_is_told():
    """Inputs alone and outputs alone fit the buffer of 2 KiB, together they do not."""
    architecture = load_architecture("two_level", {"buffer": "64 B"})
    einsum = load_workload("conv1d").layers[0]
    names = [level.name for level in architecture.levels]
    loops = tuple(Loop(dim, bound) for dim, bound in einsum.dims.items())
    kept = [tensor.name for tensor in einsum.tensors]
    nodes = [LevelMapping(names[1], keep=frozenset({name})) for name in kept[:-1]]
    mapping = Mapping((LevelMapping(names[0], keep=frozenset(kept)), *nodes,
                       LevelMapping(names[1], loops, keep=frozenset({kept[-1]}))))  # fmt: skip

    result = evaluate(architecture, einsum, mapping)

    assert [str(v) for v in result.violations] == [
        str(v) for v in evaluate(architecture, einsum, fold(mapping)).violations
    ]
    assert execute(architecture, einsum, mapping).fails == execute(architecture, einsum, fold(mapping)).fails


def gemm():
    return load_architecture("eyeriss"), load_workload("gemm").layers[0]


NESTED = """\
mapping:
  levels:
    - level: DRAM
      temporal: [N=4, M=4, K=8]
    - level: GLB
      keep: [Inputs, Outputs]
      temporal: [N=4, M=128]
      spatial: {x: [N=8], y: [K=8]}
    - level: SPAD
      keep: [Weights]
      temporal: [K=16]
    - level: SPAD
      keep: [Inputs, Outputs]
      temporal: [N=8]
"""


def test_mapping_file__may_name_a_level_at_several_places(tmp_path):
    (tmp_path / "m.yaml").write_text(NESTED)
    architecture, einsum = gemm()

    mapping = load_mapping(tmp_path / "m.yaml", architecture, einsum)
    (tmp_path / "again.yaml").write_text(dump_mapping(mapping))

    assert load_mapping(tmp_path / "again.yaml", architecture, einsum) == mapping
    assert evaluate(architecture, einsum, mapping).valid
    tiles = {(t.level, t.tensor): t.tile_words for t in evaluate(architecture, einsum, mapping).tensors}
    assert tiles["SPAD", "Weights"] == 16 * 8
    assert tiles["SPAD", "Inputs"] == 1
    assert tiles["SPAD", "Outputs"] == 8


BROKEN = [
    (
        "keep: [Weights]\n      temporal: [K=16]",
        "temporal: [K=16]",
        "'keep' is missing: SPAD stands here more than once",
    ),
    ("keep: [Weights]", "keep: [Weights, Inputs]", "'Inputs' is listed, but SPAD keeps it further out already"),
    (
        "keep: [Inputs, Outputs]\n      temporal: [N=8]",
        "keep: [Inputs]\n      temporal: [N=8]",
        "'Outputs' is not listed",
    ),
    (
        "      temporal: [K=16]",
        "      temporal: [K=8]\n      spatial: {x: [K=2]}",
        "move these loops to the last place",
    ),
    ("    - level: SPAD\n      keep: [Weights]", "    - level: GLB\n      keep: [Weights]", "GLB never keeps it"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_mistakes__in_places_of_a_level_are_told(tmp_path, old, new, message):
    (tmp_path / "m.yaml").write_text(NESTED.replace(old, new))
    architecture, einsum = gemm()

    with pytest.raises(SpecError) as caught:
        load_mapping(tmp_path / "m.yaml", architecture, einsum)

    assert message in str(caught.value)


def test_level_given_twice_apart__is_told(tmp_path):
    apart = NESTED.replace("    - level: SPAD\n      keep: [Inputs", "    - level: GLB\n      keep: [Inputs")
    (tmp_path / "m.yaml").write_text(apart)
    architecture, einsum = gemm()

    with pytest.raises(SpecError, match="with other levels in between"):
        load_mapping(tmp_path / "m.yaml", architecture, einsum)


def test_wrong_levels__are_a_value_error():
    architecture, einsum = gemm()
    mapping = Mapping((LevelMapping("DRAM"), LevelMapping("SPAD")))

    with pytest.raises(ValueError, match="mapping has levels"):
        arrange_for(architecture, mapping)
    with pytest.raises(ValueError, match="mapping has levels"):
        evaluate(architecture, einsum, mapping)


def test_even_mapping__needs_no_other_machine():
    architecture, einsum = gemm()
    best = map_einsum(architecture, einsum).best

    assert arrange_for(architecture, best.mapping) is architecture
    nodes = arrangements(architecture, einsum, constraints_of_nothing())
    assert nodes[0] == ((),) * 3
    assert len(nodes) == 1 + 2 * 6
    for each in itertools.islice(nodes, 1, 4):
        machine = arrange(architecture, each)
        assert machine.macs == architecture.macs
        assert evaluate_encoded(encode(architecture, einsum), best.mapping) == best


def constraints_of_nothing():
    from accelsim.inputs.constraints import Constraints

    return Constraints()


def test_uneven_search__is_refused_where_it_is_none():
    architecture, einsum = gemm()

    with pytest.raises(AccelsimError, match="only an exact search"):
        map_einsum(architecture, einsum, uneven=True, method="random", budget=Budget(mappings=10))
    with pytest.raises(AccelsimError, match="only even mappings without remainders"):
        map_einsum(architecture, einsum, uneven=True, top=5)


@pytest.mark.parametrize(("why", "stop"), [(KeyboardInterrupt, "interrupted"), (TimeoutError, "timeout")])
def test_a_stop_while_a_later_space_gets_ready__keeps_the_best_so_far(monkeypatch, why, stop):
    architecture, einsum = load_architecture("two_level"), load_workload("gemm").layers[0]
    even = map_einsum(architecture, einsum)

    class Late(Solver):
        def __init__(self, space, **options):
            if any(level.tensors is not None for level in space.encoded.architecture.levels):
                raise why
            super().__init__(space, **options)

    monkeypatch.setattr("accelsim.search.exact.mapper.Solver", Late)
    found = map_einsum(architecture, einsum, uneven=True)

    assert found.stop == stop
    assert found.best == even.best or (stop == "timeout" and found.best.energy_pj < even.best.energy_pj)
    assert 0 < found.certificate.bound < found.certificate.value
