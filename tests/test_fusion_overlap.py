"""Layers of a fused group that run at the same time, as a pipeline of its steps."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from accelsim.cli.main import main
from accelsim.fusion import fuse
from accelsim.fusion.certificate import fusion_certificate
from accelsim.fusion.graph import Graph
from accelsim.fusion.group import make_group
from accelsim.fusion.limits import loop_limits
from accelsim.fusion.parts import Solutions
from accelsim.fusion.result import CYCLES, ENERGY, FusedPart, GroupResult, pipeline
from accelsim.fusion.search import GroupSearch, fuse_group
from accelsim.fusion.tiling import free_border, fusing_levels
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.level_features import VectorUnit
from accelsim.results.cache import MapOptions
from tests.effort import many
from tests.test_fusion import whole
from tests.test_fusion_brute import random_machine
from tests.test_fusion_tiling import add, chain_of, gemm, soft_max

EVEN = MapOptions(uneven=False, imperfect=())


def fast_machine(rng: random.Random) -> Architecture:
    """One whose units are often busier than its memory, with room for tiles of several layers."""
    tiny = random_machine(rng)
    memory, buffer, *registers = tiny.levels
    memory = replace(memory, bandwidth=rng.choice([Fraction(1, 2), Fraction(2), Fraction(4), None]))
    overlap = rng.choice(["all", "all", "steady", "none"])
    buffer = replace(buffer, bypass=frozenset(), size_words=rng.choice([24, 40, 80]), overlap=overlap)
    if rng.random() < 0.7:
        buffer = replace(buffer, read_bandwidth=None, write_bandwidth=None)
    cost = EnergyTable({**tiny.energy.entries, ("lanes", "*", "compute"): EnergyEntry(0.75, "a test")})
    unit = VectorUnit("lanes", "BUF", 2, {"add": 1, "softmax": 3})
    return replace(tiny, levels=(memory, buffer, *registers), vector_units=(unit,), energy=cost)


def some_layers(rng: random.Random) -> Graph:
    """Products and what follows on the lanes, of enough rows for a pipeline; the last may read the first one, too."""
    rows, columns, sums = rng.choice([6, 8, 12]), rng.choice([2, 3, 4]), rng.choice([2, 3, 4])
    layers = [gemm("scores", rows, columns, sums), replace(soft_max("soft_max", rows, columns), operation="softmax")]
    if rng.random() < 0.3:
        return chain_of(
            [*layers, replace(add("sum", {"M": rows, "N": columns}), operation="add")], ((0, 2, "Residual"),)
        )
    if rng.random() < 0.5:
        layers.append(gemm("context", rows, 2, columns))
    return chain_of(layers if rng.random() < 0.8 else [*layers[1:], soft_max("again", rows, layers[-1].dims["N"])])


def simulated(found: GroupResult) -> tuple[float, int] | None:
    """Cycles of a pipeline, period by period, and the most words in the buffer, where a word takes one.

    A layer runs a step, if there is one, a period after the layer before; a link has a tile from when its producer
    writes it to when its last reader runs. None unless all steps of each layer are equal.
    """
    group, steps, several = found.group, found.tiling.steps, list[tuple[Counter[str], int, dict[str, int]]]()
    stays = Counter[str]()
    for part in found.parts:
        its, sums, layer = part.result, math.prod(n for _, n in part.part.sums), group.layers[part.part.layer]
        if part.count * sums != steps:
            return None
        busy = Counter({f"layer {part.part.layer}": its.cycles, its.compute: its.busy_cycles})
        waits = its.cycles - its.overlapped_cycles
        busy.update({each.level: each.cycles + waits for each in its.levels})
        busy.update({f"{each.level} network": each.network_cycles for each in its.levels})
        used = next(each.used_words for each in its.levels if each.level == found.tiling.level)
        held = {n: layer.tensor(n).words(part.part.tile(group)) for n in part.part.arriving | part.part.present}
        stays.update({f"{layer.name} {n}": held[n] for n in found.tiling.resident[part.part.layer]})
        several.append((Counter({n: cycles / sums for n, cycles in busy.items()}), used - sum(held.values()), held))
    cycles, most = 0.0, 0
    for period in range(steps + len(several) - 1):
        running = [each for behind, each in enumerate(several) if 0 <= period - behind < steps]
        cycles += max(sum((busy for busy, *_ in running), Counter[str]()).values())
        words = found.border.taken + stays.total() + sum(own for _, own, _ in running)
        for link in group.inside:
            at = link.producer or 0
            there = sum(at <= period - step <= link.places()[-1] for step in range(steps))
            words += there * several[at][2][group.layers[at].output.name]
        most = max(most, words)
    return cycles, most


def some_tiling(rng: random.Random, search: GroupSearch) -> int | None:
    """Cycles of a random fused tiling with mappings of its parts that are good for one thing or the other."""
    limits = loop_limits(search.solutions, search.group, search.border, search.level)
    several = list(search.with_loops(limits.loops(rng.randrange(len(limits.steps)))))
    while several and (several[0].options or not several[0].tiling.ordered):
        several = list(search.decided(rng.choice(several)))
    if not several:
        return None
    each, parts = rng.choice(several), []
    if each.options or not each.tiling.ordered:
        return None
    for run, part, room in each.parts:
        known = Solutions(search.architecture, rng.choice([ENERGY, CYCLES]))
        known.solve(part, room)
        result = known.known(part, room)
        if result is None:
            return None
        parts.append(FusedPart(run.part, run.count, run.reserved, result))
    found = search.pipeline(parts, each.tiling)
    assert found is not None
    return found.cycles


def check(rng: random.Random, graph: Graph, tiny: Architecture) -> bool:
    """Compare what is found with a pipeline that is run, and its limit with random fused tilings; whether it gains."""
    try:
        group = make_group(graph, range(len(graph.layers)))
    except AccelsimError:
        return False
    levels = fusing_levels(tiny, group)
    if isinstance(levels, str) or 1 not in levels.values():
        return False
    border, solutions = free_border(group), Solutions(tiny, CYCLES, overlap=True)
    found, bound = fuse_group(tiny, group, border, solutions, level=1)
    one_by_one, _ = fuse_group(tiny, group, border, Solutions(tiny, CYCLES), level=1)
    assert (found is None) == (one_by_one is None)
    if found is None or one_by_one is None:
        return False
    assert found.pipeline is not None
    cycles = found.totals.cycles
    assert bound <= cycles <= one_by_one.totals.cycles
    search = GroupSearch(tiny, group, border, 1, solutions)
    for more in (0, 50):  # cycles that each part waits for something
        parts = tuple(replace(p, result=replace(p.result, cycles=p.result.cycles + more)) for p in found.parts)
        alone, run = sum(part.count * part.result.cycles for part in parts), simulated(replace(found, parts=parts))
        pipe = search.pipeline(parts, found.tiling)
        assert pipe is not None
        if run is not None and found.tiling.steps >= len(group.layers):
            assert pipe.words == run[1]
        if pipe.cycles < alone:
            assert pipe.words <= tiny.levels[1].rooms[""]
            assert run is None or run[0] <= pipe.cycles * (1 + 1e-9)
    for _ in range(6):
        other = some_tiling(rng, search)
        assert other is None or other >= bound * (1 - 1e-9)
    return cycles < one_by_one.totals.cycles


CASES, TOGETHER = many("FUSION_OVERLAPS", 40, least=16), 4


@pytest.mark.parametrize("first", range(0, CASES, TOGETHER))
def test_overlap__of_a_random_group_has_a_limit_that_no_tiling_falls_below(first: int) -> None:
    """`ACCELSIM_FUSION_OVERLAPS` says how many groups there are."""
    for seed in range(first, min(first + TOGETHER, CASES)):
        rng = random.Random(seed)
        tiny = fast_machine(rng)
        check(rng, some_layers(rng), tiny)


def three_layers() -> tuple[Graph, Architecture]:
    """Products of 48 and 24 cycles on two multipliers, a soft-max of 36 on two lanes; nothing else takes time."""
    tiny = fast_machine(random.Random(2))
    memory, buffer, *others = tiny.levels
    free = replace(buffer, read_bandwidth=None, write_bandwidth=None, size_words=80, overlap="all")
    tiny = replace(tiny, levels=(replace(memory, bandwidth=None), free, *others))
    layers = [gemm("scores", 12, 2, 4), replace(soft_max("soft_max", 12, 2), operation="softmax")]
    return chain_of([*layers, gemm("context", 12, 2, 2)]), tiny


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
def test_overlap__of_a_network_is_a_pipeline_of_its_groups(objective: str) -> None:
    """Soft-max a step behind the scores: 12 steps of 4 cycles and one more; then the context. Apart: 48 + 36 + 24."""
    graph, tiny = three_layers()
    given = {"objective": objective, "options": EVEN, "workers": 1}
    found = fuse(tiny, whole(graph.layers), overlap=True, **given)
    apart = fuse(tiny, whole(graph.layers), **given)
    value = found.certificate.value
    assert found.certificate.bound <= value <= apart.certificate.value
    assert (fusion_certificate(found) is None) == (objective != "energy")
    if objective == "energy":
        assert value == apart.certificate.value
        assert found.certificate.proved
        assert found.totals.cycles <= apart.totals.cycles
        return
    if objective == "cycles":
        (first, last), (fused, none) = found.segments, [segment.fused for segment in found.segments]
        assert none is None
        assert fused is not None
        assert fused.pipeline is not None
        assert (fused.pipeline.cycles, fused.pipeline.busiest, fused.tiling.steps) == (52, "MAC", 12)
        assert (first.totals.cycles, last.totals.cycles) == (52, 24)
        level = replace(tiny.levels[1], size_words=fused.pipeline.words - 1)
        tight = pipeline(fused.group, fused.parts, fused.tiling, level, 0)
        assert tight.cycles == sum(part.count * part.result.cycles for part in fused.parts) > 52
        assert found.certificate.proved
        assert apart.totals.cycles == 108


def test_fuse__says_how_layers_overlap(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ACCELSIM_CACHE", str(tmp_path))
    asked = ["fuse", "systolic", "attention", "--set", "heads=2", "--objective", "cycles"]
    asked += ["--mapspace", "even", "--factors", "perfect", "-q"]
    assert main([*asked, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["fusion"]
    assert main([*asked, "--overlap", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["fusion"]
    assert (before["overlap"], after["overlap"]) == (False, True)
    assert after["certificate"]["bound"] <= after["totals"]["cycles"] <= before["totals"]["cycles"]
    assert main([*asked[:-1], "--overlap"]) == 0
    text = capsys.readouterr().out
    assert "as a pipeline: Lanes is busiest" in text
