"""HTML reports: what is in the file, and what it does in a browser."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import Page, find_browser
from reports import a_search, a_stopped_spread, an_exact_search, row_stationary

from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import load_mapping
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.model.limits import bytes_moved, macs_per_byte, peak_macs_per_cycle, ports
from accelsim.model.result import Result
from accelsim.population.result import Near, Spread
from accelsim.population.spread import spread
from accelsim.search.exact.front import map_front
from accelsim.search.mapper import map_einsum
from accelsim.show.html import BINS, bin_of, embedded, energy_edges, front_report, search_report, spread_report
from accelsim.show.report import energy

pytest.importorskip("plotly", reason="plotly, the extra `html`, is not installed")
SAMPLES = 20_000
EVIL = "</script><img src=x onerror=alert(1)>&\"'"
needs_browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium: `apt-get install chromium`")


@cache
def a_spread() -> tuple[Spread, Architecture, Einsum]:
    architecture, einsum = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    found = spread(architecture, einsum, samples=SAMPLES, seconds=60)
    near = (Near(0.01, 7, True), Near(0.05, 98765, False))
    everything = frozenset(tensor.name for tensor in einsum.tensors)
    bypassed = (everything, frozenset[str](), everything)
    keeps = (everything, frozenset({"Inputs"}), everything)
    return replace(found, near=near, by_keep=((keeps, 1234567), (bypassed, 89))), architecture, einsum


@cache
def the_report() -> str:
    return spread_report(*a_spread())


def data_of(report: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', report, re.DOTALL)[1])


def text_of(report: str) -> str:
    """Text that stands in the page before the script runs."""
    found = []

    class Reader(HTMLParser):
        inside = ""

        def handle_starttag(self, tag, attrs):
            self.inside = tag

        def handle_data(self, data):
            if self.inside not in ("script", "style"):
                found.append(data)

    Reader().feed(report.replace("<wbr>", ""))
    return re.sub(r"\s+", " ", " ".join(found))


def test_spread_report__is_one_small_file_that_fetches_nothing():
    report = the_report()
    assert len(report.encode()) < 6_000_000
    assert report.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in report
    frame = re.sub(r"<script.*?</script>", "", report, flags=re.DOTALL)
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:,|#)", frame)


def test_spread_report__has_equal_bytes_for_an_equal_spread():
    found, architecture, einsum = a_spread()
    again = spread(architecture, einsum, samples=SAMPLES, seconds=60, workers=1)
    again = replace(again, near=found.near, by_keep=found.by_keep, seconds=found.seconds + 1)
    assert spread_report(again, architecture, einsum) == the_report()


def test_spread_report__says_the_numbers_of_the_spread():
    found, *_ = a_spread()
    text = text_of(the_report())
    median = found.sample.quantile("energy", 0.5)
    for number in (
        f"{found.mappings:,}",
        f"{found.space_size:,}",
        energy(found.best.energy_pj),
        energy(found.range_of("energy").highest),
        "7 within 1 %, at least 98,765 within 5 %",
        "No mapping uses all 168 compute units.",
        energy(median.value),
        f"quantiles estimated from {SAMPLES:,} mappings drawn uniformly",
        "Inputs Inputs, Outputs, Weights 1.2e6",
        "- Inputs, Outputs, Weights 89",
    ):
        assert number in text


def test_spread_report__needs_neither_near_nor_what_is_kept():
    found, architecture, einsum = a_spread()
    text = text_of(spread_report(replace(found, near=(), by_keep=()), architecture, einsum))
    assert "within 1 %" not in text
    assert "inf" not in re.findall(r"\w+", text)


def test_spread_report__calls_nothing_optimal_that_is_not_proved():
    found, space = a_stopped_spread(), a_stopped_spread().sample.sampler.nest.space
    report = spread_report(found, space.encoded.architecture, space.encoded.einsum)
    text, data = text_of(report), data_of(report)

    assert "Smallest values are proved" not in text or "except energy" in text
    assert "near the best not counted: the lowest energy is not proved" in text
    assert (data["complete_front"], data["histogram"]["marks"][0][0]) == (False, "lowest known")
    assert data["mappings"][0]["label"].startswith("lowest energy known")


def test_histogram__counts_each_drawn_mapping_once():
    found, *_ = a_spread()
    histogram = data_of(the_report())["histogram"]
    assert len(histogram["counts"]) == BINS
    assert sum(histogram["counts"]) == histogram["of"] == len(found.sample)
    edges = np.array(histogram["edges"])
    for at in (0, 20, BINS - 1):
        inside = (found.sample.energy_pj >= edges[at]) & (found.sample.energy_pj < edges[at + 1])
        assert histogram["counts"][at] == inside.sum()


def test_mappings__stand_for_every_bin_that_holds_any():
    found, *_ = a_spread()
    data = data_of(the_report())
    shown = {mapping["bin"] for mapping in data["mappings"]}
    assert {at for at, count in enumerate(data["histogram"]["counts"]) if count} <= shown
    assert bin_of(np.array([found.best.energy_pj]), energy_edges(found))[0] == data["mappings"][0]["bin"] == 0


def test_mappings__have_the_best_the_front_and_the_quantiles_with_their_numbers():
    found, *_ = a_spread()
    mappings = data_of(the_report())["mappings"]
    labels = ", ".join(mapping["label"] for mapping in mappings).split(", ")
    assert labels[0] == "lowest energy"
    assert {f"front {number}" for number in range(1, len(found.front.points) + 1)} <= set(labels)
    assert {"median energy", "1 % quantile of energy", "highest energy known", "fewest cycles"} <= set(labels)
    drawn = next(mapping for mapping in mappings if mapping["label"] == "drawn no. 3")
    result = found.sample.result(2)
    assert drawn["energy_pj"] == pytest.approx(result.energy_pj, rel=1e-5)
    assert (drawn["cycles"], drawn["offchip_words"]) == (result.cycles, found.sample.offchip_words[2])
    assert drawn["needed"] == [level.cycles for level in result.levels] + [result.compute_cycles]
    assert drawn["nest"][1][1].startswith("stores ")
    for mapping in mappings:
        assert sum(pj for _, _, pj in mapping["energy"]) == pytest.approx(mapping["energy_pj"], rel=1e-4)


def port_times(architecture: Architecture, result: Result) -> list[tuple[int, float]]:
    """Cycles of each level with limited bandwidth, and its bytes moved over its bandwidth."""
    found = []
    for port in ports(architecture):
        level = next(level for level in result.levels if level.level == port.level)
        found.append((level.cycles, bytes_moved(result, port) / port.bytes_per_cycle))
    return found


def test_roofline__allows_no_more_than_the_bandwidth_of_the_levels():
    """Where all instances of a level are in use, its cycles are its bytes over its bandwidth."""
    architecture, _, result = row_stationary()
    assert port_times(architecture, result)
    for cycles, needed in port_times(architecture, result):
        assert needed == pytest.approx(cycles, rel=1e-4)
    for port in ports(architecture):
        attained = result.macs / result.cycles
        roof = min(peak_macs_per_cycle(architecture), macs_per_byte(result, port) * port.bytes_per_cycle)
        assert attained <= roof * (1 + 1e-9)


def test_offchip_words__are_those_of_the_sample():
    found, *_ = a_spread()
    for index in range(20):
        assert found.sample.result(index).offchip_words == found.sample.offchip_words[index]


def named(name: str) -> tuple[Architecture, Einsum, Result]:
    """A machine and a layer in which every name is the same text."""
    architecture, einsum, result = row_stationary()
    rename = {level.name: f"{name}{index}" for index, level in enumerate(architecture.levels)}
    tensors = {tensor.name: f"{name}{tensor.name}" for tensor in einsum.tensors}
    parts = {**rename, **{f"{old} network": f"{new} network" for old, new in rename.items()}}
    energies = {
        (parts.get(component, name), *key): entry for (component, *key), entry in architecture.energy.entries.items()
    }
    machine = replace(
        architecture,
        name=name,
        levels=tuple(replace(level, name=rename[level.name]) for level in architecture.levels),
        compute=replace(architecture.compute, name=name),
        energy=replace(architecture.energy, entries=energies),
    )
    layer = replace(
        einsum, name=name, tensors=tuple(replace(tensor, name=tensors[tensor.name]) for tensor in einsum.tensors)
    )
    levels = tuple(
        replace(level, level=rename[level.level], keep=frozenset(tensors[kept] for kept in level.keep))
        for level in result.mapping.levels
    )
    return machine, layer, evaluate(machine, layer, replace(result.mapping, levels=levels))


def test_search_report__escapes_every_name():
    machine, layer, result = named(EVIL)
    report = search_report(an_exact_search(result), machine, layer)
    assert "<img" not in report.replace(data_of_text(), "")
    assert "alert(1)" not in re.sub(r"&lt;.*?&gt;", "", re.sub(r"<script.*?</script>", "", report, flags=re.DOTALL))
    assert data_of(report)["architecture"] == EVIL


def data_of_text() -> str:
    """The script of plotly, which is not made here."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def test_embedded__cannot_end_its_script_and_is_read_back():
    text = embedded({EVIL: [EVIL, "\u2028"]})
    assert not set(text) & set("<>&")
    assert text.isascii()
    assert json.loads(text) == {EVIL: [EVIL, "\u2028"]}


def test_search_report__shows_the_best_mapping():
    architecture, einsum, result = row_stationary()
    alone = search_report(an_exact_search(result), architecture, einsum)
    assert data_of(alone)["histogram"] is None
    assert "One cost against another" not in alone
    assert " Lowest energy: optimal (proved) among 1.2e17 even mappings with perfect factors. " in text_of(alone)
    assert " Fewest cycles: optimal (proved) among 1.2e17 even mappings with perfect factors. " in text_of(
        search_report(an_exact_search(result, "cycles"), architecture, einsum)
    )
    assert "bottleneck compute MAC 100 % busy, then DRAM 35.1 %" in text_of(alone)
    seen = search_report(a_search(result), architecture, einsum)
    assert energy(result.energy_pj) in text_of(seen)
    assert seen == search_report(replace(a_search(result), seconds=99.0), architecture, einsum)


def test_search_report__has_each_fact_in_one_line_however_long_it_is():
    architecture, einsum = load_architecture("eyeriss"), load_workload("conv").layers[0]
    search = map_einsum(architecture, einsum, workers=1, uneven=False)
    facts = dict(
        re.findall(r'<p class="fact"><b>([\w-]+)</b> <span>(.*?)</span>', search_report(search, architecture, einsum))
    )
    assert list(facts) == ["energy", "latency", "EDP", "power", "work", "utilization", "off-chip", "bottleneck"]
    assert facts["utilization"].endswith("; no stalls")


def test_report__without_plotly_says_what_to_install(monkeypatch):
    architecture, einsum, result = row_stationary()
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(AccelsimError, match=r"pip install 'accelsim\[html\]'"):
        search_report(an_exact_search(result), architecture, einsum)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("html") / "report.html"
    path.write_text(the_report(), encoding="utf-8")
    return path


def contrast(page: Page, selector: str) -> float:
    """WCAG 2 contrast of the text of an element with the page behind it."""
    script = """[getComputedStyle(document.querySelector(%s)).color, getComputedStyle(document.body).backgroundColor]
        .map((colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number))"""
    levels = []
    for colour in page.run(script % json.dumps(selector)):
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        levels.append(0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05)
    return max(levels) / min(levels)


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (320, True)])
def test_page__fits_any_width_and_can_be_read_in_the_dark(file, width, dark):
    with Page(file, width=width, height=844, dark=dark, touch=width < 500) as page:
        assert page.run("document.documentElement.scrollWidth") <= width
        assert page.run("document.querySelectorAll('.js-plotly-plot .main-svg').length") >= 3
        background = page.run("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(20, 22, 26)" if dark else "rgb(255, 255, 255)")
        assert min(contrast(page, selector) for selector in (".lead", ".note", "#nest .keeps", "#figures p")) > 4.5
        assert page.errors == []


@needs_browser
def test_page__a_brush_chooses_rows_and_a_click_shows_a_loop_nest(file):
    data = data_of(the_report())
    rows = "document.querySelectorAll('#mappings tbody tr')"
    with Page(file) as page:
        assert page.run("document.querySelector('#shown-title').textContent") == "Best mapping"
        page.drag("#spread-plot .nsewdrag", 0.3, 0.4)
        page.wait("!document.querySelector('#everything').disabled")
        chosen = page.run(f"[...{rows}].map((row) => Number(row.dataset.index))")
        bins = {data["mappings"][index]["bin"] for index in chosen}
        assert bins <= set(range(17, 25))
        assert len(bins) > 3
        inside = [m for m in data["mappings"] if min(bins) <= m["bin"] <= max(bins)]
        assert len(chosen) == min(300, len(inside))
        drawn = sum(data["histogram"]["counts"][min(bins) : max(bins) + 1])
        assert f"{drawn:,} of the {SAMPLES:,} mappings drawn" in page.run(
            "document.querySelector('#range-text').textContent"
        )
        page.click("#mappings tbody tr:nth-child(3) button")
        mapping = data["mappings"][chosen[2]]
        assert page.run("document.querySelector('#shown-title').textContent") == f"Mapping: {mapping['label']}"
        loops = [line for level in mapping["nest"] for line in level[2:]]
        assert page.run("[...document.querySelectorAll('#nest .loop')].map((line) => line.textContent)") == loops
        assert page.run("document.querySelectorAll('#energy .bars tr').length") >= len(
            {c for c, *_ in mapping["energy"]}
        )
        page.click("#show-best")
        assert page.run("document.querySelector('#shown-title').textContent") == "Best mapping"
        page.click("#everything")
        assert page.run(f"{rows}.length") == 300
        assert page.errors == []


@needs_browser
def test_page__a_link_shows_what_was_chosen_and_its_mapping_is_copied(file):
    data = data_of(the_report())
    title, kind = "document.querySelector('#shown-title').textContent", "document.querySelector('#kinds')"
    with Page(file) as page:
        page.run(f"{kind}.value = 'drawn'")
        page.run(f"{kind}.dispatchEvent(new Event('change', {{bubbles: true}}))")
        page.click("#mappings [data-key=cycles]")
        page.drag("#spread-plot .nsewdrag", 0.3, 0.4)
        page.wait("location.hash.includes('from=')")
        page.click("#mappings tbody tr:nth-child(3) button")
        page.click("#copy")
        page.wait("getSelection().toString() !== ''")
        link, shown, copied = page.run(f"[location.hash, {title}, getSelection().toString()]")
        index = int(re.search(r"mapping=(\d+)", link)[1])
        assert copied.strip() == data["mappings"][index]["yaml"].strip()
        assert page.run("decodeURIComponent(document.querySelector('#download').href)").endswith(
            data["mappings"][index]["yaml"]
        )
        rows = page.run("document.querySelector('#mappings tbody').textContent")
        assert page.errors == []
    with Page(file, link=link) as page:
        assert page.run(f"[{title}, {kind}.value]") == [shown, "drawn"]
        assert page.run("document.querySelector('#mappings tbody').textContent") == rows
        assert page.errors == []
    with Page(file, link="#mapping=99999999&sort=toString&kinds=none&from=x&to=-3") as page:
        assert page.run(title) == "Best mapping"
        assert page.errors == []


def test_yaml_of_a_page__is_the_mapping():
    architecture, einsum, result = row_stationary()
    (mapping,) = data_of(search_report(an_exact_search(result), architecture, einsum))["mappings"]
    assert load_mapping(mapping["yaml"], architecture, einsum) == result.mapping


@needs_browser
def test_front_report__has_all_points_and_their_line(tmp_path):
    architecture, einsum = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    front = map_front(architecture, einsum)
    file = tmp_path / "front.html"
    file.write_text(front_report(front, architecture, einsum), encoding="utf-8")
    shown = sorted((m["energy_pj"], m["cycles"]) for m in data_of(file.read_text())["mappings"])
    assert shown == sorted((pytest.approx(p.energy_pj, rel=1e-5), p.cycles) for p in front.points)
    with Page(file) as page:
        assert page.run("document.querySelectorAll('#mappings tbody tr').length") == len(front.points)
        assert page.run("document.querySelector('#scatter-plot').data.filter((trace) => trace.line).length") == 1
        assert page.errors == []
    partial = data_of(front_report(replace(front, stop="timeout"), architecture, einsum))
    assert partial["complete_front"] is False


@needs_browser
def test_page__a_click_on_a_head_sorts(file):
    shown = "[...document.querySelectorAll('#mappings tbody tr')].map((row) => Number(row.dataset.index))"
    data = data_of(the_report())
    with Page(file) as page:
        for key in ("cycles", "utilization", "energy_pj"):
            page.click(f"#mappings [data-key={key}]")
            values = [data["mappings"][index][key] for index in page.run(shown)]
            assert values == sorted(values)
            page.click(f"#mappings [data-key={key}]")
            values = [data["mappings"][index][key] for index in page.run(shown)]
            assert values == sorted(values, reverse=True)
            assert page.run("document.querySelector('#mappings th[aria-sort]').textContent")
        keeps = "#figures div:last-of-type table"
        for _ in range(2):
            page.click(f"{keeps} th:last-child button")
        shares = page.run(
            f"[...document.querySelectorAll('{keeps} tbody tr')].map((row) => Number(row.lastChild.dataset.value))"
        )
        assert shares == sorted(shares, reverse=True)
        assert len(shares) == 2
        assert page.errors == []


@needs_browser
def test_page__keys_choose_a_range_and_a_mapping(file):
    with Page(file) as page:
        page.run("document.querySelector('#from').focus()")
        for _ in range(15):
            page.press("ArrowRight")
        assert "mappings drawn" in page.run("document.querySelector('#range-text').textContent")
        assert page.run("document.querySelector('#from').getAttribute('aria-valuetext')").endswith("J")
        page.run("document.querySelector('#mappings tbody tr:nth-child(2) button').focus()")
        page.press("Enter")
        page.wait("document.querySelector('#shown-title').textContent.startsWith('Mapping: ')")
        assert page.errors == []


@needs_browser
@pytest.mark.parametrize("touch", [False, True])
def test_page__a_click_on_a_mark_of_the_scatter_shows_its_mapping(file, touch):
    with Page(file, width=390 if touch else 1280, touch=touch) as page:
        place = """(() => {
            const plot = document.querySelector('#scatter-plot'), { x, y } = plot.data[4];
            const { xaxis, yaxis } = plot._fullLayout, at = y.indexOf(Math.max(...y));
            const box = plot.getBoundingClientRect();
            return [box.left + xaxis._offset + xaxis.d2p(x[at]), box.top + yaxis._offset + yaxis.d2p(y[at])];
        })()"""
        page.box("#scatter-plot")
        x, y = page.run(place)
        if touch:
            page.tap_at(x, y)
        else:
            page.click_at(x, y)
        highest = energy(a_spread()[0].range_of("energy").highest, 5)
        page.wait(
            f"document.querySelector('#shown-costs dd').textContent.replace('\\u00a0', ' ').startsWith('{highest}')"
        )
        page.run("document.querySelector('#x-axis').value = 'offchip_words'")
        page.run("document.querySelector('#x-axis').dispatchEvent(new Event('change'))")
        assert page.run("document.querySelector('#scatter-plot .xtitle').textContent") == "words moved at DRAM"
        assert page.errors == []


@needs_browser
def test_page__a_tap_on_a_bar_chooses_it_on_a_phone(file):
    with Page(file, width=390, height=844, touch=True) as page:
        box = page.box("#spread-plot .nsewdrag")
        page.tap_at(box["left"] + 0.5 * box["width"], box["top"] + 0.9 * box["height"])
        page.wait("!document.querySelector('#everything').disabled")
        assert page.run("document.querySelector('#to').value - document.querySelector('#from').value") == 1
        assert page.errors == []


@needs_browser
def test_page__is_harmless_with_evil_names(tmp_path):
    machine, layer, result = named(EVIL)
    file = tmp_path / "evil.html"
    file.write_text(search_report(a_search(result), machine, layer), encoding="utf-8")
    with Page(file) as page:
        assert page.run("document.querySelectorAll('img').length") == 0
        assert page.run("document.querySelector('h1').textContent") == f"{EVIL} on {EVIL}"
        assert EVIL in page.run("document.querySelector('#nest').textContent")
        assert page.errors == []


@needs_browser
def test_page__breaks_names_between_their_words_on_a_phone(tmp_path):
    machine, einsum = load_architecture("nvdla_1024"), load_workload("gemm").layers[0]
    file = tmp_path / "report.html"
    file.write_text(search_report(map_einsum(machine, einsum, uneven=False), machine, einsum), encoding="utf-8")
    with Page(file, width=390, height=844) as page:
        words = "[...document.querySelectorAll('.bars th')].flatMap((h) => [...h.childNodes].filter((c) => c.data))"
        place = "const place = document.createRange(); place.selectNode(word)"
        found = page.run(f"{words}.map((word) => {{ {place}; return [word.data, place.getClientRects().length]; }})")
        assert ["Weight", 1] in found
        assert {many for _, many in found} == {1}


@needs_browser
def test_page__shows_a_map_space_of_one_mapping_on_a_machine_without_limited_bandwidth(tmp_path):
    machine, gemm = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    machine = replace(machine, levels=tuple(replace(level, bandwidth=None) for level in machine.levels[:1]))
    layer = replace(gemm, dims=dict.fromkeys(gemm.dims, 1))
    found = spread(machine, layer, samples=100)
    assert found.mappings == 1
    file = tmp_path / "one.html"
    file.write_text(spread_report(found, machine, layer), encoding="utf-8")
    with Page(file) as page:
        assert page.run("document.querySelectorAll('#mappings tbody tr').length") > 0
        assert "No level" in page.run("document.querySelector('#roofline-note').textContent")
        assert page.errors == []
