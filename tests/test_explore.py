"""Sweeps: what is found equals mapping each design by itself, and is what is drawn."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote

import pytest
from browser import Page, find_browser
from hypothesis import given
from hypothesis import strategies as st

from accelsim import load_architecture, load_workload
from accelsim.designs import machines
from accelsim.designs.machines import (
    Design,
    Machines,
    design_at,
    mapper_hash,
    work_key,
)
from accelsim.designs.run import explore
from accelsim.designs.store import beaten, front
from accelsim.designs.sweep import Mapper, load_sweep
from accelsim.designs.tables import about, where
from accelsim.designs.work import BOUND, EVALUATE, MAP_FREE, Item, Plan, _bounded, work
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.model.evaluate import evaluate
from accelsim.model.limits import layer_limits
from accelsim.results.cache import MapOptions
from accelsim.results.output import read_mapping_json
from accelsim.search.mapper import map_einsum
from accelsim.show.html import said, sweep_report
from accelsim.show.plots import search as plots
from sweeps import GRID, NARROW, layers_of, read_designs, sweep_of, tables


def by_itself(sweep, overrides, network=None):
    """Energy [pJ] and cycles of a network on one machine, layer by layer."""
    machine = load_architecture("little.yaml", overrides)
    found = [(layer, map_einsum(machine, layer, objective=sweep.mapper.options.objective, workers=1, uneven=False).best)
             for layer in (network or load_workload("net.yaml")).layers]  # fmt: skip
    return tuple(sum(layer.repeat * getattr(best, name) for layer, best in found) for name in ("energy_pj", "cycles"))


def test_explore__finds_what_mapping_each_design_by_itself_finds(folder):
    sweep = sweep_of(GRID + "  conditions: ['pe * 16 B <= glb * 2']\n")
    explored = explore(sweep, "out", workers=1)
    rows = read_designs("out")
    assert [row["design"] for row in rows] == [0, 1, 3, 4, 5, 6, 7, 8]
    for row in rows:
        energy, cycles = by_itself(sweep, {"glb": row["glb"], "pe": str(row["pe"])})
        assert (row["energy_pj"], row["cycles"]) == (pytest.approx(energy, rel=1e-12), cycles)
        beaten = any(
            o["energy_pj"] <= row["energy_pj"] and o["cycles"] <= row["cycles"] and o != row
            and (o["energy_pj"], o["cycles"]) != (row["energy_pj"], row["cycles"]) for o in rows
        )  # fmt: skip
        assert row["front"] is not beaten
    assert explored.done_now == 2 * len(rows)  # two of the three layers are equal
    for row in layers_of("out"):
        assert sum(json.loads(row["energy_by_component"]).values()) == pytest.approx(row["energy_pj"])


TOKENS = """
params: {batch: 1, seq: 4, heads: 1}
workload:
  name: tokens
  yields: {tokens: $batch * $seq}
  layers:
    - {name: query, repeat: 2, gemm: {M: $batch * $seq, N: 4, K: 4}}
    - {name: scores, gemm: {B: $batch, H: $heads, M: $seq, N: $seq, K: 4 / $heads}}
"""


def test_workload_parameters__are_swept_beside_those_of_the_machine(folder):
    """Each design equals its networks mapped one by one; layers that do not change are mapped once for a machine."""
    Path("tokens.yaml").write_text(TOKENS)
    Path("s.yaml").write_text("""
sweep:
  architecture: little.yaml
  workloads: [net.yaml, {workload: tokens.yaml, weight: 2}]
  parameters: {seq: [2, 4], glb: [32 B, 128 B], batch: {from: 1, to: 2, step: 1}}
  conditions: [seq * batch <= 4]
""")
    sweep = load_sweep("s.yaml")
    explored = explore(sweep, "out", workers=1)
    rows = read_designs("out")
    lengths = [(2, 1), (2, 2), (4, 1)]
    assert [(row["seq"], row["batch"]) for row in rows if row["glb"] == "32 B"] == lengths
    for row in rows:
        own = {"seq": str(row["seq"]), "batch": str(row["batch"])}
        net = by_itself(sweep, {"glb": row["glb"]})
        tokens = by_itself(sweep, {"glb": row["glb"]}, load_workload("tokens.yaml", own))
        assert row["energy_pj"] == pytest.approx(net[0] + 2 * tokens[0], rel=1e-12)
        assert row["cycles"] == net[1] + 2 * tokens[1]
    queries, scores = {seq * batch for seq, batch in lengths}, set(lengths)
    assert explored.done_now == 2 * (2 + len(queries) + len(scores))
    layers = layers_of("out")
    assert {(row["seq"], row["batch"], row["macs"]) for row in layers if row["layer"] == "scores"} == {
        (seq, batch, batch * seq * seq * 4) for seq, batch in lengths
    }
    chosen = where(rows, "seq >= 4 and batch == 1", about(sweep)["parameters"])
    assert [row["design"] for row in chosen] == [r["design"] for r in rows if r["seq"] >= 4 and r["batch"] == 1]


def test_constants__are_what_the_sweep_sets_before_what_its_files_say(folder):
    """Conditions take 32 B and 2 sequences, which its files have as others; what nobody sets is that of the file."""
    Path("tokens.yaml").write_text(TOKENS)
    Path("s.yaml").write_text("""
sweep:
  architecture: little.yaml
  set: {glb: 32 B}
  workloads: [{workload: tokens.yaml, set: {batch: 2}}]
  parameters: {pe: [1, 2]}
""")
    constants = load_sweep("s.yaml").constants
    assert {name: constants[name] for name in ("glb", "batch", "seq")} == {"glb": "32 B", "batch": "2", "seq": "4"}


def test_per__divides_totals_by_what_a_run_yields(folder):
    """With prune the front is the same: bounds are divided, too."""
    Path("tokens.yaml").write_text(TOKENS)
    fronts = []
    for more in ("", "  prune: true\n  wave: 1\n"):
        Path("s.yaml").write_text(f"""
sweep:
  architecture: little.yaml
  workloads: [tokens.yaml]
  per: tokens
  parameters: {{seq: [2, 4, 8], glb: [16 B, 64 B]}}
  map: {{{NARROW}}}
{more}""")
        sweep = load_sweep("s.yaml")
        explore(sweep, f"out{len(fronts)}", workers=1)
        rows = read_designs(f"out{len(fronts)}")
        fronts.append([row["design"] for row in rows if row["front"]])
        for row in (row for row in rows if row["status"] == "mapped"):
            tokens = load_workload("tokens.yaml", {"seq": str(row["seq"])})
            energy_pj, cycles = by_itself(sweep, {"glb": row["glb"]}, tokens)
            assert row["energy_pj"] == pytest.approx(energy_pj / row["seq"], rel=1e-12)
            assert row["cycles"] == pytest.approx(cycles / row["seq"], rel=1e-12)
        layers = layers_of(f"out{len(fronts) - 1}")
        assert {(row["seq"], row["weight"]) for row in layers} == {(seq, 1 / seq) for seq in (2, 4, 8)}
    assert fronts[0] == fronts[1]
    assert fronts[0]


def test_workload_parameters__mistakes_are_told_at_their_places(folder):
    """One that is set as well, one that no file has, a yield that is not there, a value that a workload cannot read."""
    Path("tokens.yaml").write_text(TOKENS)
    head = "sweep:\n  architecture: little.yaml\n"
    Path("s.yaml").write_text(f"""{head}  workloads: [net.yaml, {{workload: tokens.yaml, set: {{batch: 4}}}}]
  parameters: {{batch: [1, 2], seq: [4, none], heads: [1], glbb: [1 B]}}
  per: tokens
""")
    with pytest.raises(InputError) as error:
        load_sweep("s.yaml")
    assert [str(problem) for problem in error.value.problems] == [
        "s.yaml:3:14: workloads: 'batch' is set for tokens, and stands under 'parameters' too",
        "s.yaml:4:59: parameters: 'glbb' is no parameter of little.yaml or of a workload; did you mean 'glb'?",
        "s.yaml:5:8: per: a run of net yields nothing, as far as its file says; write `yields: {tokens: …}` there",
    ]
    Path("s.yaml").write_text(f"{head}  workloads: [tokens.yaml]\n  parameters: {{seq: [4, none]}}\n")
    with pytest.raises(InputError, match=r"s.yaml:4:25: .*does not suit tokens.yaml:8:54: .*got 'none'"):
        load_sweep("s.yaml")
    Path("s.yaml").write_text(f"{head}  workloads: [tokens.yaml]\n  parameters: {{seq: [2, 3], heads: [1, 2]}}\n")
    Path("tokens.yaml").write_text(TOKENS.replace("M: $seq,", "M: $seq / $heads,"))
    explore(load_sweep("s.yaml"), "out", workers=1)
    rows = read_designs("out")
    assert [row["status"] for row in rows] == ["mapped", "mapped", "mapped", "invalid"]
    assert "'$seq / $heads' is 3/2, not a whole number" in rows[-1]["reason"]


def test_explore__maps_once_where_bandwidth_or_clock_change_no_mapping(folder):
    """Least energy does not depend on bandwidth without leakage: 2 searches, and an evaluation for each bandwidth."""
    sweep = sweep_of(
        "  parameters: {bandwidth: [1 B/cycle, 2 B/cycle, 64 B/cycle], clock: [1 GHz, 2 GHz]}\n"
        "  objectives: [energy, time]\n  map: {objective: energy, mapspace: even, factors: perfect}\n"
    )
    explored = explore(sweep, "out", workers=1)
    done = [row["what"] for row in explored.store.rows.values()]
    assert (done.count(MAP_FREE), done.count(EVALUATE), len(done)) == (2, 6, 8)
    for row in read_designs("out"):
        energy, cycles = by_itself(sweep, {"bandwidth": row["bandwidth"], "clock": row["clock"]})
        assert (row["energy_pj"], row["cycles"]) == (pytest.approx(energy, rel=1e-12), cycles)
        assert row["time_s"] == cycles / {"1 GHz": 1e9, "2 GHz": 2e9}[row["clock"]]


PRIMES = "workload: {name: net, layers: [{name: p, gemm: {M: 7, N: 13, K: 5}}]}\n"


def test_explore__searches_all_mappings_and_names_what_is_proved(folder, run):
    """Of prime bounds the best mapping leaves remainders: walks find it, whatever the number of workers."""
    Path("net.yaml").write_text(PRIMES)
    values = "  parameters: {glb: [32 B, 128 B], pe: [4]}\n"
    wide, narrow = sweep_of(values + "  map: {}\n", "wide.yaml"), sweep_of(values)
    for sweep, name, workers in ((wide, "alone", 1), (wide, "two", 2), (narrow, "narrow", 1)):
        explore(sweep, name, workers=workers)
    assert tables(Path("alone")) == tables(Path("two"))
    for best, even in zip(layers_of("alone"), layers_of("narrow"), strict=True):
        assert best["value"] < 0.9 * even["value"]
        assert even["proved"]
        assert not best["proved"]
        assert best["space"].startswith("even and uneven mappings with remainders in ")
        assert best["proved_among"] == "even and uneven mappings with perfect factors"
        assert even["proved_among"] == even["space"] == "even mappings with perfect factors"
        machine = load_architecture("little.yaml", {"glb": best["glb"], "pe": str(best["pe"])})
        mapping = read_mapping_json(json.loads(best["mapping"]))
        found = evaluate(machine, load_workload("net.yaml").layers[0], mapping)
        assert (found.valid, found.energy_pj) == (True, best["energy_pj"])
    assert {row["key"] for row in layers_of("alone")}.isdisjoint(row["key"] for row in layers_of("narrow"))
    _, out, _ = run("sweep", "alone")
    space = "even and uneven mappings with"
    said = f"2 layer searches: optimal (proved) among {space} perfect factors; best found of {space} remainders"
    assert said in " ".join(out.split())


def test_bounds__no_mapping_falls_below(folder):
    sweep = sweep_of("  parameters: {glb: [16 B, 128 B], pe: [1, 4], bandwidth: [1 B/cycle, 64 B/cycle]}\n")
    machines = Machines(sweep)
    for objective in ("energy", "cycles"):
        for number in range(sweep.grid):
            machine = machines.make(design_at(sweep, number)).architecture
            for layer in load_workload("net.yaml").layers[:2]:
                best = map_einsum(machine, layer, objective=objective, workers=1, uneven=False).best
                quick = layer_limits(machine, layer)
                (tables_,) = work(Plan((layer,), sweep.mapper), [Item("k", BOUND, machine, 0)])
                for bound in (quick.energy_pj, tables_["energy_pj"]):
                    assert bound <= best.energy_pj
                for bound in (quick.cycles, tables_["cycles"]):
                    assert bound <= best.cycles


def test_bounds__of_a_design_are_those_of_its_layers_as_often_as_they_run(folder):
    explore(sweep_of("  parameters: {glb: [16 B, 128 B]}\n  prune: true\n"), "out", workers=1)
    layers = layers_of("out")
    assert any(each["repeat"] > 1 for each in layers)
    for row in read_designs("out"):
        own = [each for each in layers if each["design"] == row["design"]]
        for name in ("bound_energy_pj", "bound_cycles"):
            assert row[name] == pytest.approx(sum(each["repeat"] * each["weight"] * each[name] for each in own))
            assert row[name] > 0


def test_work_key__counts_each_part_of_what_is_asked(monkeypatch):
    options = [{}, {"objective": "cycles"}, {"uneven": True}, {"imperfect": "all"}, {"pad": ("M",)}, {"walks": True}]
    options += [{"uneven": False}, {"imperfect": ()}]
    asked = [Mapper(MapOptions(**each)) for each in options]
    asked += [Mapper(MapOptions(), 1.0), *(Mapper(MapOptions(), None, Constraints((), Fraction(n, 2))) for n in (0, 1))]
    hashes = [mapper_hash(mapper) for mapper in asked]
    for what, value in (("__version__", "0"), ("hash_of_code", lambda: "0")):
        with monkeypatch.context() as changed:
            changed.setattr(machines, what, value)
            hashes.append(mapper_hash(asked[0]))
    assert len(set(hashes)) == len(hashes)
    parts = ("map", "machine", "layer", hashes[0])
    keys = [work_key(*parts), *(work_key(*parts[:at], "other", *parts[at + 1 :]) for at in range(4))]
    assert len(set(keys)) == 5


POINTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8)


@given(POINTS, st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_judging__keeps_what_no_point_is_better_than_everywhere_it_differs(points, bound):
    def better(one, other):
        return one[0] <= other[0] and one[1] <= other[1] and (one[0] < other[0] or one[1] < other[1])

    kept = {number for number, point in enumerate(points) if not any(better(other, point) for other in points)}
    assert front(dict(enumerate(points))) == kept
    assert (beaten(bound, points) is not None) == any(better(point, bound) for point in points)


def test_prune__leaves_out_only_what_the_full_grid_beats(folder):
    text = "  parameters: {glb: {from: 8 B, to: 256 B, factor: 2}, pe: [1, 2, 4], mac: [1 pJ, 40 pJ]}\n  wave: 4\n"
    explore(sweep_of(text), "full", workers=1)
    explored = explore(sweep_of(text + "  prune: true\n"), "pruned", workers=1)
    full = {row["design"]: row for row in read_designs("full")}
    pruned = [row for row in read_designs("pruned") if row["status"] == "pruned"]
    assert len(pruned) >= 12
    for row in pruned:
        real = full[row["design"]]
        assert row["bound_energy_pj"] <= real["energy_pj"]
        assert row["bound_cycles"] <= real["cycles"]
        assert not real["front"]
    fronts = [{row["design"] for row in rows if row["front"]} for rows in (full.values(), read_designs("pruned"))]
    assert fronts[0] == fronts[1]
    kept = [row for row in explored.store.rows.values() if row["what"] != BOUND]
    assert len(kept) < 2 * len(full)


def test_random__draws_different_designs_that_meet_the_conditions(folder):
    text = GRID + "  conditions: [pe <= 2]\n  strategy: random\n  designs: 4\n  seed: 7\n"
    explore(sweep_of(text), "out", workers=1)
    rows = read_designs("out")
    assert len({row["design"] for row in rows}) == len(rows) == 4
    assert all(row["pe"] <= 2 for row in rows)


def test_optuna__looks_at_different_designs_and_repeats_itself(folder):
    pytest.importorskip("optuna")
    text = "  parameters: {glb: {from: 8 B, to: 256 B, step: 8 B}, pe: [1, 2, 4]}\n"
    sweep = sweep_of(text + "  strategy: optuna\n  designs: 12\n  wave: 4\n  conditions: [pe <= 2]\n")
    explore(sweep, "one", workers=1)
    again = explore(sweep, "one", workers=1)
    explore(sweep, "two", workers=1)
    assert again.done_now == 0
    assert tables(folder / "one") == tables(folder / "two")
    assert len(read_designs("one")) == 12
    assert [row | again_row for row, again_row in zip(read_designs("one"), again.rows, strict=True)] == read_designs(
        "one"
    )


def test_budgets__keep_designs_out_of_the_front(folder):
    text = GRID + "  area: pe * 10 um2 + glb / 8 bit * 0.5 um2\n  budgets: {area: 60 um2"
    free = read_designs(explore(sweep_of(text + "}\n"), "free", workers=1).store.folder)
    power = sorted(row["power_w"] for row in free if row["status"] == "mapped")
    middle = (power[0] + power[-1]) / 2
    rows = read_designs(explore(sweep_of(text + f", power: {middle:.6f} W}}\n"), "out", workers=1).store.folder)
    for row in rows:
        area = row["pe"] * 10 + int(row["glb"].split()[0]) * 0.5
        assert row["area_um2"] == area
        if area > 60:
            assert (row["status"], row["energy_pj"]) == ("over_area", None)
        else:
            assert row["status"] == ("over_power" if row["power_w"] > round(middle, 6) else "mapped")
            assert row["power_w"] == pytest.approx(row["energy_pj"] * 1e-12 / row["time_s"])
    assert {row["status"] for row in rows} == {"over_area", "over_power", "mapped"}


def test_where__chooses_rows_by_their_columns(folder):
    sweep = sweep_of(GRID)
    explore(sweep, "out", workers=1)
    rows, values = read_designs("out"), {p.name: p.values for p in sweep.parameters}
    chosen = where(rows, "glb >= 32 B and (pe == 2 or front) and status == 'mapped'", values)
    assert {row["design"] for row in chosen} == {
        row["design"] for row in rows if row["glb"] != "16 B" and (row["pe"] == 2 or row["front"])
    }
    with pytest.raises(AccelsimError, match=r"--where: 'gbl' is unknown; did you mean 'glb'\? \(at character 1\)"):
        where(rows, "gbl > 3 B", values)


def test_no_design__is_an_error_with_its_reason(folder, run):
    sweep_of(GRID + "  conditions: [pe > 9]\n")
    none = "s.yaml:5:15: conditions: no design that was looked at meets all of them\n"
    assert run("sweep", "s.yaml", "--jobs", "1") == (2, "", none)
    sweep_of(GRID + "  conditions: [pe > 0, 1 / (pe - 1) > 2]\n")
    zero = "s.yaml:5:24: conditions[1]: divides by zero for glb = 16 B, pe = 1\n"
    assert run("sweep", "s.yaml", "--jobs", "1") == (2, "", zero)
    sweep_of("  parameters: {pe: [4, 1]}\n  conditions: [pe < 2]\n  area: (pe - 2) * 1 mm2\n")
    told = "there is no machine for any design; pe = 1:\narea: it is not above 0\n"
    assert run("sweep", "s.yaml", "--jobs", "1") == (2, "", told)


def test_budget__that_no_design_meets_is_told_with_the_least(folder, run):
    sweep_of("  parameters: {pe: [2, 4]}\n  area: pe * 1 mm2\n  budgets: {area: 1 mm2}\n")
    code, out, told = run("sweep", "s.yaml", "--jobs", "1")
    assert (code, told) == (1, "")
    assert "no design is within the budget: the smallest area is 2 mm2" in out


def test_design_at__counts_the_last_parameter_fastest(folder):
    sweep = sweep_of(GRID)
    assert design_at(sweep, 5) == Design(5, ("32 B", "4"))


def test_plots_and_page__are_drawn_from_the_table_of_designs(folder, run, monkeypatch):
    """Equal input gives equal bytes; what is drawn are the rows of the tables."""
    sweep_of(GRID + "  prune: true\n  wave: 2\n")
    done, out, _ = run("sweep", "s.yaml", "-o", "out", "--jobs", "1", "--html", "page.html")
    assert done == 0
    rows, about = read_designs("out"), json.loads(Path("out/sweep.json").read_text())
    kinds = [row["kind"] for row in plots.designs_front_table(rows, about)]
    assert kinds.count("front") == sum(row["front"] for row in rows)
    assert kinds.count("pruned") == sum(row["status"] == "pruned" for row in rows)
    mapped = [row for row in rows if row["status"] == "mapped"]
    told = plots.sensitivity_table(rows, about)
    assert min(row["least"] for row in told) == min(row["energy_pj"] for row in mapped)
    assert sum(row["designs"] for row in told if row["parameter"] == "pe") == len(mapped)
    for kind in plots.PLOTTED:
        pictures = []
        for _ in range(2):
            assert run("sweep", "out", "--plot", "p.svg", "--kind", kind, "--quiet")[0] == 0
            pictures.append(Path("p.svg").read_bytes())
        assert pictures[0] == pictures[1]
    page = Path("page.html").read_text()
    (line,) = (line for line in out.splitlines() if line.startswith("Pareto-optimal (energy, cycles): "))
    assert f"<p>{said(line)}</p>" in page, line
    assert "The page shows" not in page
    monkeypatch.setattr("accelsim.show.html.MOST", 2)
    monkeypatch.setattr("accelsim.show.html._LISTED", 0)
    short = sweep_report(rows, about)
    assert "The page shows 2 of them, those of the front first." in short
    assert "The first 0 of 9 designs, those of the front first" in short
    assert run("sweep", "out", "--plot", "p.gif")[0] == 2


@pytest.mark.skipif(find_browser() is None, reason="no Chromium")
def test_page__draws_without_errors(folder):
    sweep = sweep_of(GRID)
    explore(sweep, "out", workers=1)
    Path("page.html").write_text(sweep_report(read_designs("out"), json.loads(Path("out/sweep.json").read_text())))
    with Page(folder / "page.html") as page:
        assert page.errors == []
        assert page.run("document.querySelectorAll('#scatter-plot .plot-container').length") == 1
        assert page.run("document.querySelectorAll('#designs tbody tr').length") == 9
        page.click("#designs tbody tr:nth-child(2)")
        number = page.run("document.querySelector('#designs tr[aria-current] td').textContent")
        design = next(row for row in read_designs("out") if row["design"] == int(number))
        options = page.run("document.querySelector('#options').textContent")
        assert options == f"--set 'glb={design['glb']}' --set pe={design['pe']}"
        page.run("document.querySelector('#x-axis').value = 'pe'")
        page.run("document.querySelector('#x-axis').dispatchEvent(new Event('change', {bubbles: true}))")
        assert page.run("document.querySelector('#scatter-plot .xtitle').textContent") == "pe"
        link = page.run("location.hash")
    with Page(folder / "page.html", link=link) as page:
        assert page.run(
            "[document.querySelector('#options').textContent, document.querySelector('#x-axis').value]"
        ) == [
            options,
            "pe",
        ]
        assert page.errors == []


@pytest.mark.skipif(find_browser() is None, reason="no Chromium")
def test_page__is_harmless_with_evil_names(folder):
    explore(sweep_of(GRID), "out", workers=1)
    evil = "</script><img src=x onerror=alert(1)>&\"'"
    about = json.loads(Path("out/sweep.json").read_text())
    about |= {"name": evil, "parameters": {evil: about["parameters"]["pe"]}, "networks": {evil: 1.0}}
    rows = [{**row, evil: row["pe"]} for row in read_designs("out")]
    Path("page.html").write_text(sweep_report(rows, about))
    with Page(folder / "page.html", link="#x-axis=" + quote(evil)) as page:
        page.click("#designs tbody tr:nth-child(2)")
        assert page.run("document.querySelectorAll('img').length") == 0
        assert page.run("document.querySelector('#scatter-plot .xtitle').textContent") == evil
        assert page.errors == []


def test_sweep__its_name_leads_to_no_other_folder(folder, run):
    sweep_of("  name: a/../../../evil\n  parameters: {pe: [2]}\n", "s.yaml")
    code, out, _ = run("sweep", "s.yaml", "--jobs", "1", "--plot", "front.png")
    assert code == 0
    assert "accelsim sweep a_.._.._.._evil_results shows the results again\n\nWritten to front.png\n" in out
    assert (folder / "a_.._.._.._evil_results" / "results.csv").exists()
    assert (folder / "front.png").exists()


def test_bounds__that_would_take_too_much_memory_prune_nothing(monkeypatch):
    monkeypatch.setattr("accelsim.search.exact.bounds.MOST_BYTES", 1000)
    row = _bounded(Mapper(MapOptions()), load_architecture("eyeriss"), load_workload("gemm").layers[0])
    assert (row["status"], row["energy_pj"], row["cycles"]) == ("bounded", 0.0, 0.0)
