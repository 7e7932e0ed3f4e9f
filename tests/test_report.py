"""Reports: golden text, every number whole at 80 columns, and the same text with and without colour."""

from __future__ import annotations

import io
import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reports import a_front, a_search, all_loops_outside, an_exact_search, row_stationary
from rich.console import Console

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.library import shipped
from accelsim.inputs.machine_tables import energy_rows, peak_rows
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.limits import Limits
from accelsim.results.network import LayerOutcome, layer_rows, network_totals, rows_of_layers, run_row
from accelsim.results.verifying import Check
from accelsim.search import stopping
from accelsim.search.result import Certificate, SearchedSpace
from accelsim.search.stopping import Progress
from accelsim.show.report import count, energy, gap_text, percent, share, tensor_colours
from accelsim.show.report.explain import checks_report, verdict_line
from accelsim.show.report.headline import headline
from accelsim.show.report.mapping import layers_report, letters, result_report, split_bar
from accelsim.show.report.network import network_report
from accelsim.show.report.progress import done, search_progress
from accelsim.show.report.search import front_report, ranked_report, search_report
from accelsim.show.report.tables import energies_report
from accelsim.show.report.verdicts import verdict
from accelsim.show.table import Column, print_parts, print_table, rich_table

GOLDEN = Path(__file__).parent / "golden"
ARCHITECTURES = [path.stem for path in shipped("arch")]


@dataclass
class State:
    """Progress of a search."""

    done: int = 500
    valid: int = 20
    best: float | None = 1e9
    best_energy_pj: float | None = 1e9
    total: int | None = 1000
    seconds: float = 1.0
    seconds_limit: float | None = 4.0
    bound: float | None = None
    what: str = ""
    layer: str = "layer"
    objective: str = "energy"

    gap = Progress.gap


def printed(show, width: int = 80, **options) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False, emoji=False, **options)
    if callable(show):
        show(console)
    else:
        print_parts(console, show)
    return "".join(line.rstrip() + "\n" for line in console.file.getvalue().splitlines())


def check_golden(name: str, text: str) -> None:
    """Compare with tests/golden; ACCELSIM_UPDATE_GOLDEN=1 writes it anew, to be read before it is kept."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("ACCELSIM_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def outcomes() -> list[LayerOutcome]:
    _, einsum, result = row_stationary()
    return [
        LayerOutcome(replace(einsum, name="first", repeat=3), a_search(result)),
        LayerOutcome(replace(einsum, name="a_layer_with_a_long_name_1x1"), a_search(result)),
        LayerOutcome(replace(einsum, name="too_large"), None, "0 of 100 valid"),
    ]


def test_result__golden():
    architecture, einsum, result = row_stationary()
    check_golden("result", printed(result_report(result, architecture, einsum)))


def test_search__golden():
    check_golden("search", printed(search_report(a_search(row_stationary()[2]))))


def test_search__golden_exact():
    search = an_exact_search(row_stationary()[2], ranked=3, within=(0.01, 432))

    check_golden("search_exact", printed([*search_report(search), *ranked_report(search)]))


def test_search__golden_stopped_early():
    machine, einsum, result = row_stationary()
    search = an_exact_search(result, "edp", gap=0.0312, ranked=2)

    parts = [*headline(search.best, machine, einsum, search), *search_report(search), *ranked_report(search)]
    check_golden("search_stopped", printed(parts))


def test_front__golden():
    front = a_front(row_stationary()[2], ("energy", "cycles", "capacity:GLB"))
    check_golden("front", printed(front_report(front), 100))


@pytest.mark.parametrize("stop", ["timeout", "interrupted"])
def test_front__says_that_it_is_not_complete(stop):
    text = printed(front_report(a_front(row_stationary()[2], stop=stop)))
    assert "incomplete, stopped by" in text
    assert "proved" not in text


def test_checks__golden():
    checks = [
        Check("cycles", 11010048, 11010048, True),
        Check("energy [pJ]", 12278333440.0, 12278333441.5, False),
        Check("loop nest executed", None, None, None, "too large to execute"),
    ]
    parts = [*checks_report("conv on eyeriss", checks), verdict_line(checks), verdict_line(checks[:1])]
    check_golden("checks", printed(parts))


def test_network__golden_proved_and_not():
    _, einsum, result = row_stationary()
    found = [
        LayerOutcome(replace(einsum, name="first", repeat=3), an_exact_search(result)),
        LayerOutcome(replace(einsum, name="second"), an_exact_search(result, gap=0.1)),
    ]
    total = network_totals(found)["certificate"]
    assert (total["proved"], total["value"]) == (False, pytest.approx(4 * result.energy_pj))
    assert total["bound"] == pytest.approx((3 + 1 / 1.1) * result.energy_pj)
    found = [replace(each, limits=Limits(0.75 * result.energy_pj, result.cycles // 2)) for each in found]
    text = printed(network_report("net", load_architecture("eyeriss"), found, {"frames": 2}))
    check_golden("network_exact", text)
    proved = printed(network_report("net", load_architecture("eyeriss"), found[:1]))
    assert "1 of 1 layers optimal (proved) among even mappings with perfect factors bottle-" in " ".join(proved.split())


def test_network__adds_bounds_of_all_mappings_that_were_looked_at():
    """1 % that the second layer may have less with remainders is a quarter of that beside 3 runs of the first.

    The mapping of the third is better than all of those that are proved, so that it is optimal among none.
    """
    _, einsum, result = row_stationary()
    part = an_exact_search(result).proof
    whole = {"uneven": True, "imperfect": ("C", "K"), "parts": (part, replace(part, space=SearchedSpace(True)))}
    proved = replace(an_exact_search(result), **whole)
    bounded = replace(an_exact_search(result, gap=0.01), **{**whole, "parts": (part,)}, stop="effort")
    worse = tuple(replace(part, value=1.001 * part.value, bound=1.001 * part.bound) for part in proved.parts)
    better = replace(an_exact_search(result, gap=0.2), **{**whole, "parts": worse}, stop="effort")
    searches = proved, bounded, better
    layers = [replace(einsum, name=f"l{number}", repeat=repeat) for number, repeat in enumerate((3, 1, 1))]
    found = [LayerOutcome(layer, search) for layer, search in zip(layers, searches, strict=True)]
    rows = rows_of_layers(found)
    assert [row["proved"] for row in rows] == [True, False, False]
    assert [row["gap"] for row in rows] == pytest.approx([0.0, 0.01, 0.2])
    total = network_totals(found)["certificate"]
    assert total["bound"] == pytest.approx((3 + 1 / 1.01 + 1 / 1.2) * result.energy_pj)
    assert (total["gap"], total["proved"]) == (pytest.approx(5 * result.energy_pj / total["bound"] - 1), False)
    assert not run_row(found[:2], "energy")["proved"]
    text = " ".join(printed(network_report("net", load_architecture("eyeriss"), found)).split())
    known = "1 of 3 layers optimal (proved), 2 among even mappings with perfect factors; total at most 3.67 % above the"
    assert known in text
    assert "gap: above the lower bound of even and uneven mappings with remainders in C, K; -: unknown" in text
    assert "gap: above the lower bound of even mappings with perfect factors; -: unknown" in printed(
        network_report("net", load_architecture("eyeriss"), [replace(found[0], search=an_exact_search(result))])
    )


@pytest.mark.parametrize(
    ("spaces", "said"),
    [
        ([{"uneven": True}, {}], "even mappings with perfect factors"),
        ([{"uneven": True}, {"imperfect": ("K",)}], "even mappings with perfect factors"),
        ([{"uneven": True, "imperfect": ("C", "K")}, {"uneven": True, "imperfect": ("K",)}],
         "mappings with remainders, even and uneven"),
        ([{"imperfect": ("K",), "padded": ("P=14",)}, {"imperfect": ("C", "K")}], "even mappings with remainders"),
        ([{"uneven": True}, {"uneven": True}], "mappings with perfect factors, even and uneven"),
    ],
    ids=str,
)  # fmt: skip
def test_network__claims_no_more_than_what_all_layers_were_searched_for(spaces, said):
    """Where one layer is proved among even and uneven mappings and one among even ones, the network is among these.

    The number of mappings is that of one layer, and not said.
    """
    _, einsum, result = row_stationary()
    proved = an_exact_search(result)
    found = [LayerOutcome(replace(einsum, name=f"l{at}"), replace(proved, **more)) for at, more in enumerate(spaces)]
    for layers in (found, found[::-1]):
        text = " ".join(printed(network_report("net", load_architecture("eyeriss"), layers)).split())
        assert f"2 of 2 layers optimal (proved) among {said} bottle-" in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "at most 50 % above the optimum (stopped by --time-limit)"),
        ({"parts": [({}, 1, 0.75)]}, "at most 50 % above the optimum (stopped by --time-limit)"),
        ({"parts": [({}, 1, 0.9)]}, "at most 11.2 % above the optimum of 9 even mappings with perfect factors; "
         "of all at most 50 % above the optimum (stopped by --time-limit)"),
        ({"parts": [({}, 1.001, 1.001)]}, "at most 50 % above the optimum (stopped by --time-limit)"),
        ({"uneven": True, "parts": [({}, 1, 1)]},
         "optimal (proved) among 9 even mappings with perfect factors; "
         "at most 50 % above the optimum of even and uneven ones"),
        ({"imperfect": ("K",), "parts": [({}, 1, 1)]},
         "optimal (proved) among 9 even mappings with perfect factors; at most 50 % above the optimum with remainders"),
        ({"uneven": True, "imperfect": ("K",), "parts": [({}, 1, 1), ({"uneven": True}, 1, 1), ({}, 1, 0.9)]},
         "optimal (proved) among 9 mappings with perfect factors, even and uneven; "
         "at most 50 % above the optimum with remainders"),
        ({"uneven": True, "imperfect": ("K",), "parts": [({}, 1, 1), ({"uneven": True}, 1, 0.9)]},
         "optimal (proved) among 9 even mappings with perfect factors; at most 50 % above the optimum with remainders"),
        ({"uneven": True, "imperfect": ("K",), "parts": [({}, 2, 2), ({"imperfect": ("K",)}, 1, 1)]},
         "optimal (proved) among 9 even mappings with remainders; "
         "at most 50 % above the optimum of even and uneven ones"),
    ],
)  # fmt: skip
def test_verdict__is_of_the_widest_part_that_is_proved(more, said):
    """One whose best mapping is as good as the one that was found: value and bound of each are in units of that."""
    result = row_stationary()[2]
    search, pj = an_exact_search(result, gap=0.5), result.energy_pj
    parts = tuple(
        Certificate(value * pj, bound * pj, 1, 1, 1, SearchedSpace(**space, size=9))
        for space, value, bound in more.get("parts", ())
    )
    assert verdict(replace(search, **{**more, "parts": parts})) == said


def test_search__says_what_is_proved_of_each_part():
    """One that has no valid mapping, proved or not, has no value."""
    result = row_stationary()[2]
    pj, rest = result.energy_pj, (1, 1, 1)
    parts = (
        Certificate(math.inf, math.inf, *rest),
        Certificate(math.inf, 0.5 * pj, *rest, SearchedSpace(uneven=True)),
        Certificate(1.25 * pj, pj, *rest, SearchedSpace(imperfect=("K",))),
    )
    search = replace(an_exact_search(result), uneven=True, imperfect=("K",), parts=parts)
    text = " ".join(printed(search_report(search)).split())
    assert (
        "parts even, perfect factors: none is valid, proved; even and uneven, perfect factors: no valid one found; "
        f"even, remainders: {energy(1.25 * pj, 5)} (+25 %), at most 25 % above the optimum "
    ) in text


@given(st.floats(1e-12, 1e6))
def test_gap__is_never_said_smaller_than_it_is(gap):
    text = gap_text(gap).replace(",", "")
    assert float(text.strip("<% ")) / 100 >= gap * (1 - 1e-6)
    assert text.startswith("<") or float(text.strip("% ")) / 100 <= gap * 1.011


def test_network__golden():
    check_golden("network", printed(network_report("net", load_architecture("eyeriss"), outcomes())))


def test_energies__golden():
    architecture = row_stationary()[0]
    rows, peaks = energy_rows(architecture), peak_rows(architecture)
    text = printed(energies_report(rows, peaks=peaks))
    check_golden("energies", text)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("layer", ["conv", "conv1d", "depthwise", "batched_gemm"])
def test_result__fits_80_columns_with_every_number_whole(name, layer):
    """What a wide console says stands in the narrow text too; only bars and blanks may be shorter."""
    architecture, einsum = load_architecture(name), load_workload(layer).layers[0]
    result = all_loops_outside(architecture, einsum)
    narrow, wide = (printed(result_report(result, architecture, einsum), width) for width in (80, 200))
    assert max(map(len, narrow.splitlines())) <= 80
    assert words(narrow) == words(wide)


def words(text: str) -> list[str]:
    """Words without bars and rules."""
    return [word for word in text.split() if not re.fullmatch(r"-+|([A-Z0-9#])\1*([A-Z])?\2*([A-Z])?\3*#*", word)]


def test_table__has_every_number_whole_where_it_is_wider_than_the_screen():
    made = rich_table(
        [*(Column(head, head) for head in ("layer", "energy", "cycles")), Column("bar", "bar", left=True)]
    )
    made.add_row("a_layer_with_a_long_name", "8.046 mJ", "21,473,280", "")
    text = printed(lambda console: print_table(console, made), 20)
    assert all(word in text for word in ("8.046 mJ", "21,473,280", "energy", "cycles", "a_layer_with"))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_energies__fit_80_columns(name):
    architecture = load_architecture(name)
    rows, peaks = energy_rows(architecture), peak_rows(architecture)
    text = printed(energies_report(rows, peaks=peaks))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_result__colour_adds_nothing_to_the_text():
    architecture, einsum, result = row_stationary()

    coloured = printed(result_report(result, architecture, einsum), force_terminal=True, color_system="truecolor")
    assert "\x1b[" in coloured
    plain = "".join(line.rstrip() + "\n" for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines())
    assert plain == printed(result_report(result, architecture, einsum))


def test_result__says_every_violation_first():
    architecture, einsum, result = row_stationary()
    broken = replace(result, violations=("GLB needs 151 KiB, has 128 KiB", "GLB spreads over 15 instances on x"))
    lines = printed(result_report(broken, architecture, einsum)).splitlines()
    assert lines[1:3] == ["INVALID: GLB needs 151 KiB, has 128 KiB", "INVALID: GLB spreads over 15 instances on x"]


def test_result__padding_is_mentioned_for_windowed_layers_only():
    machine = load_architecture("eyeriss")
    for layer, mentioned in (("conv1d", True), ("gemm", False)):
        einsum = load_workload(layer).layers[0]
        result = all_loops_outside(machine, einsum)
        text = printed(result_report(result, machine, einsum, verbose=True))
        assert ("Padded points" in text) is mentioned


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ("budget", "random mappings, no bound"),
        ("timeout", "random mappings, no bound"),
        ("interrupted", "random mappings, no bound"),
    ],
)
def test_search__says_why_it_ended_and_what_that_means(stop, said):
    assert said in printed(search_report(a_search(row_stationary()[2], stop=stop)))


def test_network_totals__count_each_layer_as_often_as_it_occurs():
    """4 runs of the same mapping: four times its MACs, energy and cycles, the same energy a MAC and utilization."""
    result = row_stationary()[2]
    totals = network_totals(outcomes())
    assert (totals["layers"], totals["distinct_layers"], totals["unmapped"]) == (4, 1, ["too_large"])
    assert (totals["macs"], totals["cycles"]) == (4 * result.macs, 4 * result.cycles)
    assert totals["energy_pj"] == pytest.approx(4 * result.energy_pj, rel=1e-12)
    assert totals["pj_per_mac"] == pytest.approx(result.pj_per_mac, rel=1e-12)
    assert totals["utilization"] == pytest.approx(result.utilization, rel=1e-12)


def test_network_totals__rates_are_those_of_a_run():
    """4 runs of a layer on a machine of 200 MHz, for 8 frames; words of 16 bits are 2 bytes."""
    result = row_stationary()[2]
    totals = network_totals(outcomes()[:2], {"frames": 8})
    assert totals["run_time_s"] == pytest.approx(4 * result.cycles / 200e6)
    assert totals["yields_per_s"] == pytest.approx(8 * 200e6 / (4 * result.cycles))
    assert totals["energy_pj_per_yield"] == pytest.approx(4 * result.energy_pj / 8)
    assert (totals["outermost"], totals["offchip_bytes"]) == ("DRAM", 8 * result.offchip_words)
    assert network_totals(outcomes(), {"frames": 8})["yields_per_s"] is None


def test_layer_rows__shares_add_up_and_limits_count_as_often_as_the_layer():
    result = row_stationary()[2]
    found = [replace(each, limits=Limits(0.25 * result.energy_pj, result.cycles)) for each in outcomes()]
    rows = layer_rows(found)
    assert [row["energy_share"] for row in rows] == [0.75, 0.25]
    assert [row["energy_above_limit"] for row in rows] == pytest.approx([0.75 * 0.75, 0.25 * 0.75])
    assert [row["cycles_above_limit"] for row in rows] == [0.0, 0.0]


def test_network_totals__nothing_mapped():
    totals = network_totals([outcomes()[2]])
    assert (totals["macs"], totals["pj_per_mac"], totals["utilization"]) == (0, None, None)
    assert "none valid" in printed(network_report("net", load_architecture("eyeriss"), [outcomes()[2]]))


def test_progress__is_silent_without_a_terminal_but_keeps_the_best(monkeypatch):
    monkeypatch.setattr(stopping, "_STATE", stopping._State())
    console = Console(file=io.StringIO())
    with search_progress(console) as on_progress:
        on_progress(State(best=None))
        assert stopping._STATE.best == ""
        on_progress(State(best=1e9, bound=8e8))
    assert console.file.getvalue() == ""
    assert stopping._STATE.best == "layer: best 1 mJ, bound 800 uJ, gap 25 %"


def test_progress__shows_rate_and_best_on_a_terminal():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with search_progress(console) as on_progress:
        on_progress(State())
        on_progress(State(done=1000, best_energy_pj=None, seconds=0.0))
    assert "layer" in console.file.getvalue()


@pytest.mark.parametrize(
    ("objective", "state", "expected"),
    [
        ("energy", State(bound=8e8, total=None, seconds_limit=None), "best 1 mJ, bound 800 uJ, gap 25 %"),
        ("cycles", State(best=None, best_energy_pj=None, bound=7e5), "none found yet, bound 700,000 cycles"),
        ("", State(), "500 nodes/s, 20 mappings evaluated"),
        ("energy", State(), "500 mappings/s, 20 valid, best 1 mJ"),
    ],
)
def test_progress__of_an_exact_search_shows_bound_and_gap(objective, state, expected):
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with search_progress(console) as on_progress:
        on_progress(replace(state, objective=objective))
    assert expected in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State(), 0.5),
        (State(total=None), 0.25),
        (State(total=None, seconds_limit=None), 0.0),
        (State(done=2000), 1.0),
    ],
)
def test_progress__is_that_of_the_limit_that_ends_it_first(state, expected):
    assert done(state) == expected


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=6), st.integers(0, 60))
def test_split_bar__fills_the_bar(parts, cells):
    split = split_bar(parts, cells)
    assert sum(split) == (cells if sum(parts) > 0 else 0)
    assert all(width >= 0 for width in split)


@given(st.integers(0, 10**14))
def test_count__is_right_to_four_digits_and_short(number):
    text = count(number)
    factor = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 1)
    assert abs(float(text.rstrip("kMGT").replace(",", "")) * factor - number) <= 0.00051 * number
    assert len(text) <= 6


@given(st.floats(0, 1))
@example(0.9997)
def test_percent_and_share__say_100_only_of_the_whole(part):
    assert (percent(part) == "100 %") == (part == 1)
    assert (share(part) == "100 %") == (part == 1)
    assert (share(part) == "0 %") == (part == 0)
    assert len(share(part)) <= 7


@given(st.lists(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), unique=True, min_size=1, max_size=8))
def test_letters_and_colours__every_tensor_has_one(names):
    assert len(set(letters(names).values())) == len(names)
    assert set(tensor_colours(names, names[0])) == set(names)


def test_layers_of_two_results__have_no_factor_of_what_costs_nothing():
    row = {"layer": "conv", "energy_pj_a": 0.0, "energy_pj_b": 2.0, "cycles_a": 4, "cycles_b": 6}
    *_, table = layers_report(("before", "now"), [row])
    assert [column.cell(row) for column in table.columns if column.head == "b / a"] == ["-", "1.5x"]
