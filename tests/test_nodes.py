"""Storage nodes: uneven mappings are counted as executed, and the best of them is the best by brute force.

`ACCELSIM_UNEVEN_PROBLEMS`: how many random problems are looked at (default 400).
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from accelsim import load_architecture, load_constraints, load_mapping, load_workload
from accelsim.inputs import nodes
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, InputError, NoValidMappingError, TablesTooLarge
from accelsim.inputs.level_features import Systolic
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, dump_mapping
from accelsim.inputs.nodes import arrange_for, fold, with_nodes
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import decode_mapping
from accelsim.model.evaluate import evaluate
from accelsim.model.oracle import execute
from accelsim.results.explain import same_as_walked
from accelsim.search.exact import bounds, front, optimum, parts, relaxation
from accelsim.search.exact.front import map_front
from accelsim.search.exact.solve import Solver
from accelsim.search.exact.worth import Known
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from tests.brute import FREE, product, truth
from tests.effort import many
from tests.problems import problem
from tests.strategies import with_engines, with_latencies, with_overlaps
from tests.switches import switched
from tests.test_systolic import some_instruction

PROBLEMS = many("UNEVEN_PROBLEMS", 210)
ROOMS, TO_A_WORD = 100, (115, 153)
"""Problems whose tables tell classes of room apart, and two in which a single word of room matters."""
GROUPS = 12
NO_COST_TO_MOVE = 182
"""A problem with a tensor that the engines of `with_engines` move at no cost."""
FEW, MOST = 300, 900_000
"""Even mappings of a problem at most, and uneven ones."""
UNEVEN = (59, 101, 121, 199, 341, 362, 412, 464, 523, 555, 591, 599, 608, 635, 638, 662, 667, 679, 692, 736, 799, 808)
"""Problems of which brute force says that the best mapping is uneven."""
POWERS = {"energy": (1.0, 0.0), "cycles": (0.0, 1.0), "edp": (1.0, 1.0)}


def every_uneven(seed, few=FEW, slower=None):
    """A problem, and all its mappings with storage nodes of which each after a level's first one keeps something.

    None if there are too many, or none of them is uneven.
    """
    architecture, einsum, constraints = problem(seed, few)
    if slower is not None and len(architecture.levels) > 1:
        architecture = slower(architecture, einsum, random.Random(seed))
    found = uneven_mappings(architecture, einsum, constraints)
    return None if found is None else ((architecture, einsum, constraints), *found)


def uneven_mappings(architecture, einsum, constraints=FREE, most=MOST):
    """All mappings, and which of them have storage nodes after a level's first one that all keep something."""
    machine = with_nodes(architecture, einsum, constraints)
    known = None if machine is architecture else truth(machine, einsum, constraints, most)
    if known is None:
        return None
    names = [level.name for level in machine.levels]
    empty = ~known.batch.keep.any(axis=2) & (known.batch.temporal > 1).any(axis=2)
    further = np.array([at > 0 and name == names[at - 1] for at, name in enumerate(names)])
    return known, ~(empty & further).any(axis=1)


def check_best(seed, objectives, few=FEW, slower=None):
    """The smallest value over every place of storage nodes, also if the even mappings are not looked at first.

    Returns whether any mapping is valid.
    """
    found = every_uneven(seed, few, slower)
    if found is None:
        return False
    (architecture, einsum, constraints), known, chosen = found
    for objective in objectives:
        least = known.values(*POWERS[objective])[chosen].min(initial=math.inf)
        if not math.isfinite(least):
            with pytest.raises(NoValidMappingError):
                map_einsum(architecture, einsum, constraints=constraints, uneven=True, workers=1)
            return False

        with switched(seed):
            result = map_einsum(
                architecture, einsum, constraints=constraints, objective=objective, uneven=True, workers=1
            )

        assert result.certificate is not None
        assert result.certificate.proved, seed
        assert math.isclose(result.certificate.value, least, rel_tol=1e-9, abs_tol=1e-9), seed
        assert result.space_size == MapSpace(known.encoded, constraints).size, seed
        assert not constraints.broken_by(result.best.mapping, einsum), seed
        assert result.best.valid, seed
        if objective == "cycles":  # of the fastest ones the least energy
            fastest = chosen & (known.values(0.0, 1.0) == least)
            assert math.isclose(result.best.energy_pj, float(known.values(1.0, 0.0)[fastest].min()), rel_tol=1e-9), seed
        solver = Solver(MapSpace(known.encoded, constraints), cycles=objective != "energy")
        alone = solver.search(objective=product(*POWERS[objective]))
        assert math.isclose(float(alone.found.value[0]), least, rel_tol=1e-9, abs_tol=1e-9), seed
    return True


@pytest.mark.parametrize("group", range(GROUPS))
def test_best_uneven_mapping__is_that_of_brute_force(group, monkeypatch):
    """In every third group with the tables that only large spaces begin with."""
    if group % 3 == 0:
        monkeypatch.setattr(bounds, "MOST_COARSE", 0)
    seeds = range(group, PROBLEMS, GROUPS)
    assert sum(check_best(seed, [list(POWERS)[seed // GROUPS % 3]]) for seed in seeds) > 0


def little_room(rng):
    """A machine whose tensors share little room in one or two levels, and a small layer."""
    dram = {"name": "DRAM", "word": "8 bit", "energy": _energy(rng, 20, 100, 200)}
    levels = [dram] + [
        {"name": f"L{at}", "word": "8 bit", "size": f"{rng.randint(3, 18)} B", "energy": _energy(rng, 1, 5)}
        for at in range(rng.choice([1, 1, 2]))
    ]
    for level in levels:
        level |= {"bandwidth": f"{rng.choice([1, 2, 4])} B/cycle"} if rng.random() < 0.3 else {}
        if level is not dram and rng.random() < 0.5:
            level[rng.choice(["keep", "bypass"])] = [rng.choice(["Inputs", "Weights", "Outputs"])]
    if rng.random() < 0.5:
        rng.choice(levels)["fanout"] = {"x": rng.choice([2, 3, 4])}
    body = {"name": "small", "levels": levels, "compute": {"energy": {"compute": "1 pJ", "source": "chosen"}}}
    layers = [({"M": (2, 3, 4), "N": (2, 3, 4), "K": (2, 3)}, (["K", "N"], ["M", "K"], ["M", "N"]))] * 4
    layers += [({"K": (2, 3, 4), "C": (1, 2, 3), "P": (2, 4, 6), "R": (2, 3)}, ("KCR", ["C", "P+R"], "KP"))]
    layers += [({"K": (2, 3, 4), "P": (2, 4, 6), "R": (2, 3)}, ("KR", ["2*P+R"], "KP"))]
    layers += [({"K": (1, 2), "P": (2, 4), "Q": (2, 3), "R": (2, 3), "S": (1, 2)}, ("KRS", ["P+R", "Q+S"], "KPQ"))]
    bounds, tensors = rng.choice(layers)
    einsum = {"dims": {dim: rng.choice(some) for dim, some in bounds.items()}, "output": "Outputs"}
    einsum["tensors"] = dict(zip(("Weights", "Inputs", "Outputs"), map(list, tensors), strict=True))
    workload = {"name": "small", "einsum": einsum, "bits": {"Inputs": 8, "Weights": 8, "Outputs": 8}}
    workload["bits"]["psums"] = rng.choice([8, 8, 16, 32])
    return load_architecture({"architecture": body}), load_workload({"workload": workload}).layers[0]


def _energy(rng, *pj):
    return {"read": f"{rng.choice(pj)} pJ", "write": f"{rng.choice(pj)} pJ", "source": "chosen"}


@pytest.mark.parametrize("group", range(2))
def test_classes_of_room__bound_all_mappings_from_below(group, monkeypatch):
    """They are told apart in the first tables here, and nothing else is known but what a mapping may cost."""
    monkeypatch.setattr(relaxation, "NODES_AN_ENTRY", -1.0)
    closer = 0
    for seed in (*range(group, ROOMS, 2), TO_A_WORD[group]):
        rng = random.Random(seed)
        found = uneven_mappings(*little_room(rng), most=100_000)
        if found is None or not found[0].valid:
            continue
        known, chosen = found
        objective = rng.choice(list(POWERS))
        asked, least = product(*POWERS[objective]), known.values(*POWERS[objective])[chosen].min(initial=math.inf)
        if not math.isfinite(least):
            continue
        limit, roots = least * rng.choice([1 + 1e-9, 1.3]), []
        best = Known(asked, limit, np.full(3, math.inf)) if rng.random() < 0.5 else None
        for told in (True, False):
            solver = Solver(MapSpace(known.encoded, FREE), cycles=objective != "energy", known=best)
            solver.relaxation.may_tell_rooms &= told

            outcome = solver.search(objective=asked, limit=limit)

            assert math.isclose(float(outcome.found.value[0]), least, rel_tol=1e-9), seed
            assert outcome.root_bound <= least * (1 + 1e-9), seed
            roots.append(outcome.root_bound)
        closer += roots[0] > roots[1] * (1 + 1e-9)
    assert closer > 1


def test_tables_of_room__that_are_too_large_give_way_to_others_as_fine(monkeypatch):
    monkeypatch.setattr(relaxation, "NODES_AN_ENTRY", -1.0)
    fill, refused, asked = relaxation.TableProblem.fill, 0, product(1.0, 0.0)

    def fill_without(tables, stage, *arguments):
        nonlocal refused
        if stage.grid.rooms:
            refused += 1
            raise TablesTooLarge("too many")
        return fill(tables, stage, *arguments)

    monkeypatch.setattr(relaxation.TableProblem, "fill", fill_without)
    for seed in range(20):
        found = uneven_mappings(*little_room(random.Random(seed)), most=100_000)
        if found is None or not found[0].valid:
            continue
        solver = Solver(MapSpace(found[0].encoded, FREE))
        coarse, before = solver.relaxation.may_be_finer, refused
        solver.search(objective=asked)
        assert solver.relaxation.filled.stage.copies or not (coarse and refused > before), seed
    assert refused > 2


def with_streams(machine, einsum, rng):
    """A systolic array around a level that must keep a tensor, if there is one, whose instructions stream few rows."""
    roles = {tensor.role for tensor in einsum.tensors}
    for pe, level in enumerate(machine.levels):
        if pe and level.keep & roles:
            array = Systolic(min(level.keep & roles), rng.random() < 0.5, some_instruction(einsum, rng))
            around = replace(machine.levels[pe - 1], systolic=array)
            return replace(machine, levels=(*machine.levels[: pe - 1], around, *machine.levels[pe:]))
    return machine


def with_late_words(machine, einsum, rng):
    """Fills that do not all overlap, whose first words come late."""
    return with_latencies(with_overlaps(machine, einsum, rng), rng)


@pytest.mark.parametrize("slower", [with_engines, with_overlaps, with_late_words, with_streams])
def test_best_uneven_mapping__is_that_of_brute_force_where_tiles_take_time(slower):
    seeds = [*range(PROBLEMS // 5), NO_COST_TO_MOVE]
    assert sum(check_best(seed, [list(POWERS)[seed % 3]], slower=slower) for seed in seeds) > 0


@pytest.mark.parametrize("seed", UNEVEN)
def test_best_mapping__that_is_uneven_is_found(seed):
    assert check_best(seed, POWERS)
    architecture, einsum, constraints = problem(seed, FEW)
    best = map_einsum(architecture, einsum, constraints=constraints, uneven=True, workers=1).best
    assert len(best.mapping.levels) > len(architecture.levels)


def test_default__proves_the_even_optimum_and_then_the_uneven_one():
    for seed in UNEVEN[::2]:
        architecture, einsum, constraints = problem(seed, FEW)
        asked = {"constraints": constraints, "workers": 1}
        known = map_einsum(architecture, einsum, uneven=True, **asked)
        found = map_einsum(architecture, einsum, **asked)
        assert (found.stop, found.uneven, len(found.parts)) == ("exhausted", True, 1), seed
        assert found.certificate.proved
        assert found.best.energy_pj == pytest.approx(known.best.energy_pj, rel=1e-12), seed
        (part,) = found.parts
        assert (part.space.uneven, part.space.imperfect, part.proved) == (False, (), True)
        try:
            even = map_einsum(architecture, einsum, uneven=False, **asked)
        except NoValidMappingError:
            assert part.value == math.inf
        else:
            assert part.value == even.certificate.value > found.certificate.value


def test_default__that_looks_at_few_uneven_mappings_says_of_which_its_proof_is(monkeypatch):
    met = set()
    for limits in ({"FURTHER_NODES": 3}, {"FURTHER_BYTES": 100}, {"FURTHER_NODES": 3, "FIRST_WALKS": 0}):
        for name, limit in limits.items():
            monkeypatch.setattr(optimum if name == "FIRST_WALKS" else parts, name, limit)
        for seed in (*UNEVEN[:8], *range(8)):
            architecture, einsum, constraints = problem(seed, FEW)
            asked = {"constraints": constraints, "workers": 1}
            try:
                least = map_einsum(architecture, einsum, uneven=True, **asked).certificate.value
                even = map_einsum(architecture, einsum, uneven=False, **asked).certificate.value
                found = map_einsum(architecture, einsum, **asked)
            except NoValidMappingError:
                continue
            (part,), proof = found.parts, found.certificate
            assert found.uneven
            assert (part.proved, part.value) == (True, even)
            met.add((found.stop, proof.value < even))
            if found.stop == "exhausted":
                assert proof.value == pytest.approx(least, rel=1e-12), seed
            else:
                assert proof.bound <= least * (1 + 1e-9) <= proof.value * (1 + 2e-9)
                assert proof.value <= even
        monkeypatch.undo()
    assert {("effort", True), ("effort", False)} <= met


@pytest.mark.parametrize(("seed", "valid"), [(692, True), (808, True), (16, False), (46, False)])
def test_no_even_mapping__is_valid_but_uneven_ones_may_be(monkeypatch, seed, valid):
    architecture, einsum, constraints = problem(seed, FEW)
    with pytest.raises(NoValidMappingError, match=r"none of the .* is valid \(proved"):
        map_einsum(architecture, einsum, constraints=constraints, workers=1, uneven=False)
    if valid:
        found = map_einsum(architecture, einsum, constraints=constraints, workers=1)
        assert (found.stop, found.uneven, found.parts[0].value) == ("exhausted", True, math.inf)
    else:
        with pytest.raises(NoValidMappingError, match=r"none of the .* is valid \(proved") as caught:
            map_einsum(architecture, einsum, constraints=constraints, workers=1)
        assert caught.value.proved
    if valid:
        monkeypatch.setattr(parts, "FURTHER_BYTES", 1)
        monkeypatch.setattr(optimum, "FIRST_WALKS", 0)
        with pytest.raises(
            NoValidMappingError, match=r"no even mapping with perfect factors is valid \(proved\)"
        ) as caught:
            map_einsum(architecture, einsum, constraints=constraints, workers=1)
        assert not caught.value.proved


def test_front__where_neither_even_nor_uneven_mappings_are_valid():
    """Mappings drawn for the reason are even: one drawn among uneven ones may keep a tensor twice, which is none."""
    architecture, einsum = load_architecture("two_level"), load_workload("conv1d").layers[0]
    constraints = load_constraints({"constraints": {"limits": ["cycles <= 3"]}}, architecture, einsum)
    with pytest.raises(NoValidMappingError, match=r"closest of 2,000 sampled mappings: cycles 24, the limit") as caught:
        map_front(architecture, einsum, constraints=constraints, uneven=True, workers=1)
    assert caught.value.proved


def test_front__is_no_proof_that_none_is_valid_if_uneven_ones_are_open(monkeypatch):
    def none(space, *_, **__):
        raise NoValidMappingError("none", proved=not space.uneven)

    monkeypatch.setattr(front, "front_of", none)
    with pytest.raises(NoValidMappingError) as caught:
        map_front(load_architecture("two_level"), load_workload("conv1d").layers[0], uneven=True, workers=1)
    assert not caught.value.proved


def test_last_node__keeps_what_must_be_kept_whatever_the_tables_say(monkeypatch):
    """Tables that let a level bypass it are looser bounds; the search itself leaves such mappings out."""
    strict = bounds.BoundsMaker._held

    def held(maker, level, contexts, keeps):
        space = maker.grid.space
        with monkeypatch.context() as loose:
            loose.setattr(space, "required", np.zeros_like(space.required))
            return strict(maker, level, contexts, keeps)

    monkeypatch.setattr(bounds.BoundsMaker, "_held", held)
    assert sum(check_best(seed, ["energy"]) for seed in range(0, PROBLEMS, 5)) > 0


def test_nodes__of_several_tensors_need_not_split_where_loops_stand_outside_all_nodes():
    assert check_best(60131, ["energy"], 1500)


def test_loops_outside_the_only_tile__may_stand_inside_a_network_where_windows_slide():
    """R outside the tile and inside the network: neighbours along P and R share inputs, and a register holds one word.

    The space that `with_nodes` makes is that of the brute force above, too; so here the mapping is written down.
    """
    read = {"Inputs": "100 pJ", "Weights": "1 pJ", "Outputs": "1 pJ"}
    dram = {"name": "DRAM", "word": "16 bit", "fanout": {"x": 4, "y": 4}}
    dram["energy"] = {"read": read, "write": "1 pJ", "source": "chosen"}
    register = {"name": "REG", "word": "16 bit", "size": "2 B", "keep": ["Inputs"], "bypass": ["Weights", "Outputs"]}
    register["energy"] = {"read": "0.1 pJ", "write": "0.1 pJ", "source": "chosen"}
    body = {"name": "small", "levels": [dram, register]}
    body["compute"] = {"energy": {"compute": "1 pJ", "source": "chosen"}}
    tensors = {"Weights": ["K", "R"], "Inputs": ["2*P + R"], "Outputs": ["K", "P"]}
    einsum = {"dims": {"P": 4, "R": 8, "K": 4}, "tensors": tensors, "output": "Outputs"}
    machine = load_architecture({"architecture": body})
    layer = load_workload({"workload": {"name": "window", "einsum": einsum}}).layers[0]
    levels = [{"level": "DRAM", "spatial": {"x": ["P=4"], "y": ["R=4"]}}]
    levels += [{"level": "REG", "keep": [], "temporal": ["R=2"]}]
    levels += [{"level": "REG", "keep": ["Inputs"], "temporal": ["K=4"]}]
    written = evaluate(machine, layer, load_mapping({"mapping": {"levels": levels}}, machine, layer))

    found = map_einsum(machine, layer, uneven=True, workers=1)

    assert written.valid
    assert found.certificate.proved
    assert found.best.energy_pj <= written.energy_pj * (1 + 1e-9)


def test_uneven_mappings__count_as_executed():
    """Random valid and invalid uneven mappings: words, validity and cycles of ports are those of the walked nest."""
    rng, looked = np.random.default_rng(0), 0
    for seed in range(60):
        architecture, einsum, constraints = problem(seed, FEW)
        machine = with_nodes(architecture, einsum, constraints)
        known = None if einsum.macs > 300 else truth(machine, einsum, constraints, MOST)
        if known is None or not known.valid or machine is architecture:
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

    with pytest.raises(InputError) as caught:
        load_mapping(tmp_path / "m.yaml", architecture, einsum)

    assert message in str(caught.value)


def test_level_given_twice_apart__is_told(tmp_path):
    apart = NESTED.replace("    - level: SPAD\n      keep: [Inputs", "    - level: GLB\n      keep: [Inputs")
    (tmp_path / "m.yaml").write_text(apart)
    architecture, einsum = gemm()

    with pytest.raises(InputError, match="with other levels in between"):
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
    best = map_einsum(architecture, einsum, uneven=False).best

    assert arrange_for(architecture, best.mapping) is architecture
    machine = with_nodes(architecture, einsum, Constraints())
    assert [level.name for level in machine.levels] == ["DRAM"] + 2 * ["GLB"] + 3 * ["SPAD"]
    assert machine.macs == architecture.macs
    assert evaluate(architecture, einsum, best.mapping) == best


def test_uneven_search__is_refused_where_it_is_none():
    architecture, einsum = gemm()

    with pytest.raises(AccelsimError, match="only an exact search"):
        map_einsum(architecture, einsum, uneven=True, method="random", budget=Budget(mappings=10))
    with pytest.raises(AccelsimError, match="only even mappings without remainders"):
        map_einsum(architecture, einsum, uneven=True, top=5)


@pytest.mark.parametrize(("why", "stop"), [(KeyboardInterrupt, "interrupted"), (TimeoutError, "timeout")])
def test_a_stop_while_a_later_space_gets_ready__keeps_the_best_so_far(monkeypatch, why, stop):
    architecture, einsum = load_architecture("two_level"), load_workload("gemm").layers[0]
    even = map_einsum(architecture, einsum, uneven=False)

    class Late(Solver):
        def __init__(self, space, **options):
            if any(level.tensors is not None for level in space.encoded.architecture.levels):
                raise why
            super().__init__(space, **options)

    monkeypatch.setattr("accelsim.search.exact.aim.Solver", Late)
    found = map_einsum(architecture, einsum, uneven=True)

    assert found.stop == stop
    assert found.best.energy_pj <= even.best.energy_pj
    assert 0 < found.certificate.bound < found.certificate.value


def test_loops_inside_a_network__do_no_better_where_windows_step_by_a_prime(monkeypatch):
    """`with_nodes` leaves out a node there: with it, no mapping costs less."""
    left_out, needed = 0, 0
    for seed in range(400):
        rng = random.Random(seed)
        machine, layer = _below_a_network(rng)
        fewer, rule = with_nodes(machine, layer, FREE), nodes._share_most(machine, layer, FREE, 1)
        with monkeypatch.context() as patch:
            patch.setattr(nodes, "_share_most", lambda *_, held=rule: not held)
            others = with_nodes(machine, layer, FREE)
        known = [truth(each, layer, FREE, 500_000) for each in (fewer, others)]
        if len(fewer.levels) == len(others.levels) or None in known or not known[0].valid:
            continue
        same = [math.isclose(known[0].best(*each), known[1].best(*each), rel_tol=1e-9) for each in POWERS.values()]
        if len(fewer.levels) < len(others.levels):
            assert all(same), seed
            left_out += 1
        else:
            needed += not all(same)
    assert left_out > 100
    assert needed > 5


def _below_a_network(rng):
    """A machine whose PEs share inputs, which are dear, and keep weights at most; and a layer with a window."""
    axes = {axis: {"size": rng.choice([1, 2, 3, 4]), "multicast": rng.random() < 0.9} for axis in ("x", "y")}
    dear = {"read": {"Inputs": "100 pJ", "Weights": "1 pJ", "Outputs": "1 pJ"}, "write": "1 pJ", "source": "chosen"}
    cheap = {"read": "1 pJ", "write": "1 pJ", "source": "chosen"}
    dram = {"name": "DRAM", "word": "16 bit", "fanout": axes, "energy": dear}
    if rng.random() < 0.5:
        dram["bandwidth"] = "8 B/cycle"
    register = {"name": "REG", "word": "16 bit", "size": f"{2 * rng.choice([1, 2])} B", "energy": cheap}
    register |= {"keep": ["Weights"] if rng.random() < 0.5 else [], "bypass": ["Inputs", "Outputs"]}
    body = {"name": "small", "levels": [dram, register], "compute": {"energy": {"compute": "1 pJ", "source": "chosen"}}}
    far, small = rng.choice([(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2)])
    tensors = {"Weights": ["K", "R"], "Inputs": [f"{far}*P + {small}*R"], "Outputs": ["K", "P"]}
    dims = {"P": rng.choice([2, 4, 6]), "R": rng.choice([2, 3, 4, 6, 8]), "K": rng.choice([1, 2])}
    einsum = {"dims": dims, "tensors": tensors, "output": "Outputs"}
    layer = load_workload({"workload": {"name": "window", "einsum": einsum}}).layers[0]
    return load_architecture({"architecture": body}), layer
