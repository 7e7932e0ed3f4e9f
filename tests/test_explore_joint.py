"""Joint fronts: equal to mapping every design in every way, whatever is lent from machine to machine."""

from __future__ import annotations

import functools
import itertools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_architecture, load_workload
from accelsim.designs.joint import Found, JointRun, costs_of_mappings, network_front, strength, undominated
from accelsim.designs.machines import Load, design_at
from accelsim.designs.run import explore
from accelsim.designs.store import Store, dominates
from accelsim.designs.tables import read_tables
from accelsim.designs.work import FRONT, Item, work
from accelsim.inputs.errors import InputError
from accelsim.model.evaluate import evaluate
from accelsim.results.output import read_mapping_json
from accelsim.search.exact.front import map_front
from sweeps import layers_of, read_designs, sweep_of, tables

GRID = """
  parameters: {glb: [16 B, 24 B, 128 B], pe: [1, 2, 4], bandwidth: [1 B/cycle, 4 B/cycle]}
  area: pe * 0.01 mm2 + glb / 1 B * 0.0001 mm2
"""


@functools.cache
def fronts_of(glb, pe, bandwidth):
    """Fronts of all layers of the network on one machine."""
    machine = load_architecture("little.yaml", {"glb": glb, "pe": pe, "bandwidth": bandwidth})
    return [map_front(machine, layer, workers=1).values for layer in load_workload("net.yaml").layers]


def by_hand(sweep):
    """All points of all designs in all combinations of mappings: (objectives, design), none left out."""
    found = []
    for number in range(sweep.grid):
        design = design_at(sweep, number)
        own = dict(zip((p.name for p in sweep.parameters), design.values, strict=True))
        layers, each = load_workload("net.yaml").layers, fronts_of(**own)
        area = float(own["pe"]) * 1e4 + float(own["glb"].split()[0]) * 1e2
        for values in itertools.product(*each):
            energy, cycles = (sum(la.repeat * v[k] for la, v in zip(layers, values, strict=True)) for k in (0, 1))
            costs = {"energy": energy, "cycles": cycles, "time": cycles / 1e9, "edp": energy * cycles, "area": area}
            found.append((tuple(costs[name] for name in sweep.objectives), number))
    return found


def best_of(points):
    """Those that none dominates but for rounding, each once."""
    kept = []
    for point in sorted({tuple(float(f"{x:.9e}") for x in costs) for costs, _ in points}):
        if not any(dominates(other, point) for other in kept):
            kept.append(point)
    return kept


@pytest.mark.parametrize("objectives", ["energy, cycles, area", "energy, cycles", "energy, area", "time, area",
                                        "edp, area", "energy, edp", "energy"])  # fmt: skip
def test_joint__equals_mapping_every_design_in_every_way(folder, objectives):
    sweep = sweep_of(f"{GRID}  objectives: [{objectives}]\n  joint: true\n")
    explored = explore(sweep, "out", workers=1)
    joint = explored.joint
    found = Found(sweep.objectives, 0.0)
    got = [found.costs(p, np.array([[p.energy_pj, p.cycles]]))[0] for p in joint.points]
    got = sorted(tuple(float(f"{x:.9e}") for x in costs) for costs in got)
    assert got == best_of(by_hand(sweep))
    assert not joint.unproved
    assert joint.searched < joint.alone == 2 * sweep.grid


@pytest.mark.parametrize("share", [0.05, 0.2, 0.6])
def test_joint__within_a_share_leaves_no_mapping_that_is_better_by_more(folder, share):
    sweep = sweep_of(f"{GRID}  objectives: [energy, cycles, area]\n  joint: true\n  within: {share}\n")
    points = explore(sweep, "out", workers=1).joint.points
    got = np.array([[p.energy_pj, p.cycles, p.machine.area_um2] for p in points])
    every = by_hand(sweep)
    for costs, _ in every:
        assert (got <= np.array(costs) * [1 + share, 1 + share, 1.0] * (1 + 1e-9)).all(axis=1).any()
    real = np.array([costs for costs, _ in every])
    for row in got:  # a mapping that stands for better ones need be on no front; none is better than all that there are
        assert (real <= row * (1 + 1e-9)).all(axis=1).any()
    assert len(points) <= len(best_of(every))


def test_joint__whose_layers_wait_is_the_same_with_all_workers_and_after_a_stop(folder):
    """The tables are the same bytes, and what was stopped says which designs may still beat its front."""
    sweep = sweep_of(GRID + "  objectives: [energy, cycles, area]\n  joint: true\n")
    whole = explore(sweep, "whole", workers=1)
    explore(sweep, "two", workers=2)

    def stop_after(state):
        if state.fresh >= 3:
            raise KeyboardInterrupt

    stopped = explore(sweep, "stopped", workers=1, on_progress=stop_after)
    assert stopped.stop == "interrupted"
    assert stopped.joint.unproved
    assert not read_tables("stopped")[0]["joint"]["proved"]
    assert {each.design.number for each in stopped.records}.isdisjoint(
        set(stopped.joint.unproved) - {r.design.number for r in stopped.records if r.status == "unproved"}
    )
    again = explore(sweep, "stopped", workers=1)
    assert again.known_before == 3
    assert again.done_now == whole.done_now - 3
    assert tables(Path("whole")) == tables(Path("two")) == tables(Path("stopped"))


@pytest.mark.parametrize("within", ["", "  within: 0.6\n"])
def test_joint__mappings_of_its_tables_add_up_to_its_points(folder, within):
    sweep = sweep_of(GRID + f"  objectives: [energy, cycles, area]\n  joint: true\n{within}")
    explore(sweep, "out", workers=1)
    results = layers_of("out")
    points = [row for row in read_designs("out") if row["front"]]
    assert points
    layers = load_workload("net.yaml").layers
    for row in points:
        machine = load_architecture("little.yaml", {k: str(row[k]) for k in ("glb", "pe", "bandwidth")})
        energy = cycles = 0.0
        for layer, choice in zip(layers, json.loads(row["choices"]), strict=True):
            (one,) = [
                r for r in results if (r["design"], r["layer"], r["choice"]) == (row["design"], layer.name, choice)
            ]
            result = evaluate(machine, layer, read_mapping_json(json.loads(one["mapping"])))
            assert result.valid
            assert (one["repeat"], one["weight"]) == (layer.repeat, 1)
            assert (result.energy_pj, result.cycles) == (pytest.approx(one["energy_pj"], rel=1e-12), one["cycles"])
            energy, cycles = energy + layer.repeat * result.energy_pj, cycles + layer.repeat * result.cycles
        assert (energy, cycles) == (pytest.approx(row["energy_pj"], rel=1e-12), row["cycles"])


def test_joint__leaves_out_designs_without_a_mapping_and_over_budget(folder):
    Path("little.yaml").write_text(
        Path("little.yaml").read_text().replace("fanout", "keep: [Inputs, Weights, Outputs], fanout")
    )
    sweep = sweep_of(
        "  parameters: {glb: [4 B, 32 B, 128 B], pe: [2, 4]}\n  area: pe * 0.01 mm2 + glb / 1 B * 0.0001 mm2\n"
        "  budgets: {area: 0.045 mm2}\n  objectives: [energy, cycles, area]\n  joint: true\n"
    )
    explored = explore(sweep, "out", workers=1)
    statuses = {r.design.values: r.status for r in explored.records}
    assert statuses["4 B", "2"] == statuses["4 B", "4"] == "no_valid_mapping"
    assert statuses["128 B", "4"] == "over_area"
    assert statuses["32 B", "4"] == "mapped"


def test_joint__that_may_not_search_long_says_what_is_not_proved(folder, monkeypatch):
    """Layers without a proof prove nothing of other machines either."""
    sweep = sweep_of(GRID + "  objectives: [energy, cycles, area]\n  joint: true\n")
    real = JointRun._search

    def unsure(self, pool, candidate, layers):
        real(self, pool, candidate, layers)
        for number in layers:
            candidate.troubles.append("a: timeout")
            solved = self.solved[candidate.kind, candidate.load.different[number]]
            solved[-1] = replace(solved[-1], proved=False)

    monkeypatch.setattr(JointRun, "_search", unsure)
    explored = explore(sweep, "out", workers=1)
    assert explored.joint.unproved
    record = next(r for r in explored.records if r.design.number == explored.joint.unproved[0])
    assert record.status == "unproved"
    assert "a: timeout" in record.reason


def test_front__whose_search_was_stopped_proves_nothing_and_has_its_mappings(folder, monkeypatch):
    run = JointRun(sweep_of(GRID + "  objectives: [energy, cycles]\n  joint: true\n"), Store("out"), None, print)
    candidate = run._candidates()[0]
    (layer, *_), before = candidate.load.different, candidate.lower[0].copy()
    item = Item("key", FRONT, candidate.machine.architecture, layer)
    whole = map_front(item.architecture, run.plan.einsums[layer], workers=1)
    monkeypatch.setattr("accelsim.search.exact.front.map_front", lambda *_, **__: replace(whole, stop="timeout"))
    (row,) = work(run.plan, [item])
    assert (row["stop"], row["proved"]) == ("timeout", False)
    run._lend(candidate, layer, row)
    run._borrow(candidate, 0, layer)
    assert np.array_equal(candidate.lower[0], before)
    assert np.allclose(candidate.upper[0], whole.values)


def test_found__covers_what_is_larger_by_a_share_of_energy_and_cycles_but_not_of_area():
    """At 2 GHz; a tenth more of both is 1.21 times the product, and the area is that of the design."""
    found = Found(("time", "edp", "area"), 0.1)
    candidate = SimpleNamespace(machine=SimpleNamespace(architecture=SimpleNamespace(clock_hz=2e9), area_um2=7.0))
    point = np.array([[3.0, 4.0]])
    assert found.costs(candidate, point).tolist() == [[4 / 2e9, 3 * 4, 7]]
    for best, covered in (
        ([2.19e-9, 14.5, 7.0], True),
        ([2.21e-9, 12.0, 7.0], False),
        ([2e-9, 14.6, 7.0], False),
        ([2e-9, 12.0, 7.01], False),
    ):
        found.values = np.array([best])
        assert found.covers(candidate, point) == covered


def test_knowledge__of_a_small_machine_bounds_no_larger_one(folder):
    """A smaller machine costs more at best; of a larger one its front says only what can be reached."""
    sweep = sweep_of("  parameters: {glb: [16 B, 128 B]}\n  objectives: [energy, cycles]\n  joint: true\n")
    run = JointRun(sweep, Store("out"), None, print)
    (large,) = run._candidates()  # the small one is never better
    small = replace(large, machine=run.machines.make(design_at(sweep, 0)), mappings=[], costs=[], seen=[])
    small.amounts = np.array([*strength(small.machine.architecture)[1], 1e9])
    layer = large.load.different[0]
    item = Item("key", FRONT, small.machine.architecture, layer)
    (row,) = work(run.plan, [item])
    run._lend(small, layer, row)
    run._borrow(large, 0, layer)
    own = map_front(large.machine.architecture, run.plan.einsums[layer], workers=1).values
    for point in own:
        assert (large.lower[0] <= np.array(point) * (1 + 1e-9)).all(axis=1).any()
    assert row["energy_pj"] > own[0][0]  # else nothing were shown
    assert np.allclose(large.upper[0][0], [row["energy_pj"], row["cycles"]])


MACHINES = list(itertools.product(["16 B", "24 B", "64 B"], ["1", "2", "3"], ["1 B/cycle", "3 B/cycle"]))


def test_strength__no_front_of_a_machine_is_beaten_by_one_that_it_has_all_of(folder):
    """Every pair of machines: the larger one's front covers the smaller one's, and lends it what fits."""
    layers = load_workload("net.yaml").layers[:2]
    made = [load_architecture("little.yaml", {"glb": g, "pe": p, "bandwidth": b}) for g, p, b in MACHINES]
    fronts = [[map_front(machine, layer, workers=1) for layer in layers] for machine in made]
    pairs = 0
    for (large, his), (small, mine) in itertools.permutations(zip(made, fronts, strict=True), 2):
        (kind, has), (other, needs) = strength(large), strength(small)
        assert kind == other
        if all(a >= b for a, b in zip(has, needs, strict=True)):
            pairs += 1
            for a, b in zip(his, mine, strict=True):
                assert all(any(p[0] <= q[0] * (1 + 1e-9) and p[1] <= q[1] for p in a.values) for q in b.values)
    assert pairs > 50


@pytest.mark.parametrize("change", [{"mac": "2 pJ"}, {"word": "8 bit"}])
def test_strength__of_machines_that_cost_otherwise_is_of_another_kind(folder, change):
    text = Path("little.yaml").read_text()
    if "word" in change:
        Path("little.yaml").write_text(text.replace("word: 16 bit", "word: 8 bit"))
        other = load_architecture("little.yaml")
        Path("little.yaml").write_text(text)
    else:
        other = load_architecture("little.yaml", change)
    assert strength(other)[0] != strength(load_architecture("little.yaml"))[0]


def test_strength__of_a_systolic_array_is_of_its_own_size():
    """Words take longer to pass through a larger array."""
    small, large = (load_architecture("systolic", {"pe.y": n}) for n in ("8", "16"))
    assert strength(small)[0] != strength(large)[0]


def test_costs_of_mappings__are_infinite_where_there_is_no_room(folder):
    layer = load_workload("net.yaml").layers[0]
    large, small = (load_architecture("little.yaml", {"glb": g, "pe": "2"}) for g in ("128 B", "16 B"))
    from accelsim.designs.work import mapping_text

    found = map_front(large, layer, workers=1)
    texts = [mapping_text(each.mapping) for each in found.points]
    assert costs_of_mappings(large, layer, texts).tolist() == [
        [pytest.approx(e, rel=1e-12), c] for e, c in found.values
    ]
    for cost, each in zip(costs_of_mappings(small, layer, texts), found.points, strict=True):
        result = evaluate(small, layer, each.mapping)
        assert np.isfinite(cost[0]) == result.valid


POINTS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=12)


@settings(deadline=None)
@given(POINTS, st.sampled_from([0.0, 0.05, 0.5]))
def test_undominated__leaves_no_point_that_is_better_by_more_than_the_share(points, share):
    array = np.array(points, float)
    rows = undominated(array, share)
    kept = array[rows]
    for point in array:
        assert (kept <= point * (1 + share) * (1 + 1e-12)).all(axis=1).any()
    if not share:
        assert sorted(map(tuple, kept.tolist())) == best_of([(tuple(map(float, p)), 0) for p in points])


@settings(deadline=None)
@given(st.lists(POINTS, min_size=1, max_size=3), st.sampled_from([0.0, 0.1]), st.integers(1, 3))
def test_network_front__covers_all_sums_of_points_of_layers(layers, share, weight):
    load = Load(
        (), tuple(range(len(layers))), tuple(range(len(layers))), tuple([float(weight)] + [1.0] * (len(layers) - 1))
    )
    parts = [np.array(points, float) for points in layers]
    points, choice = network_front(parts, load, share)
    sums = [
        np.sum([w * np.array(p) for w, p in zip(load.weights, each, strict=True)], axis=0)
        for each in itertools.product(*layers)
    ]
    for one in sums:
        assert (points <= one * (1 + share) * (1 + 1e-9)).all(axis=1).any()
    for point, chosen in zip(points, choice, strict=True):
        total = sum(w * part[at] for w, part, at in zip(load.weights, parts, chosen, strict=True))
        assert np.allclose(total, point)


@pytest.mark.parametrize(("text", "said"), [
    ("  objectives: [power]\n  joint: true\n", "no bound of the power is known"),
    ("  objectives: [area]\n  joint: true\n  area: pe * 1 mm2\n", "needs more than the area"),
    ("  strategy: optuna\n  designs: 3\n  joint: true\n", "a joint front is of a grid"),
    ("  within: 0.1\n", "'within' is of a joint front"),
])  # fmt: skip
def test_joint__that_cannot_be_is_refused_in_its_place(folder, text, said):
    with pytest.raises(InputError, match=said):
        sweep_of("  parameters: {pe: [1, 2]}\n" + text)


def test_explore_command__proves_a_joint_front_and_draws_it(folder, run):
    sweep_of(GRID + "  objectives: [energy, cycles, area]\n")
    done, out, _ = run("sweep", "s.yaml", "-o", "out", "--jobs", "1", "--joint", "--plot", "front_s.png")
    assert done == 0
    said = "front proved: no design of the 18 with any even mapping with perfect factors dominates it "
    assert said in " ".join(out.split())
    assert Path("front_s.png").exists()
    again, shown, _ = run("sweep", "out", "--json", "--html", "page.html")
    points = json.loads(shown)
    best = [row["design"] for row in points["designs"] if row["front"]]
    assert again == 0
    assert points["joint"]["points"] == len(best)
    page = Path("page.html").read_text()
    assert "s: 18 designs of little.yaml on net" in page
    assert f"Pareto-optimal (energy, cycles, area): {len(best)} points of {len(set(best))} designs; " in page
    assert said.strip() in page
    done, out, _ = run("sweep", "s.yaml", "-o", "near", "--jobs", "1", "--joint", "--within", "0.1")
    said = "with any even mapping with perfect factors dominates it by more than 10 % in energy and time "
    assert said in " ".join(out.split())
    done, _, err = run("sweep", "s.yaml", "-o", "near", "--joint", "--within", "500%")
    assert (done, "no share; give one from 0 to 1, such as 1%" in err) == (2, True)
    done, _, err = run("sweep", "s.yaml", "-o", "near", "--within", "0.1")
    assert done == 2
    assert "--joint" in err
