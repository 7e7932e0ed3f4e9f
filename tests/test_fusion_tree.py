"""The loop tree of a fused group: as rows, text, picture and page, beside what the fused tiling says."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import yaml
from test_fusion_command import BLOCK, NETWORK

from accelsim import load_architecture, load_workload
from accelsim.cli.main import main
from accelsim.fusion import fuse
from accelsim.fusion.result import FusedNetwork, GroupResult, group_json
from accelsim.results.cache import MapOptions
from accelsim.show.html import fusion_page
from accelsim.show.plots import figure_bytes
from accelsim.show.plots.loop_tree import plot_loop_tree
from accelsim.show.report import count, energy
from accelsim.show.report.loop_tree import kept_tensors, layer_line, loop_tree_table, tree_lines
from accelsim.show.report.network import fusion_report
from accelsim.show.table import written

CONVS = """
workload:
  name: convs
  layers:
    - {name: first, conv: {N: 1, K: 4, C: 4, P: 12, Q: 6, R: 1, S: 1}}
    - {name: window, from: first, conv: {N: 1, K: 4, C: 4, P: 12, Q: 6, R: 3, S: 3, padding: 1}}
"""
WHOLE = BLOCK.replace("M: 24", "M: 6")
CASES = {
    "attention": (NETWORK, 128),
    "block": (BLOCK, 192, ("up", "down", "sum")),
    "sums": (WHOLE, 64, ("up", "down")),
    "halo": (CONVS, 512),
    "whole": (WHOLE, 256),
}


@functools.cache
def fused(text: str, size: int, chain: tuple[str, ...] = ()) -> FusedNetwork:
    """What to fuse of a network in a buffer of some bytes."""
    machine, options = load_architecture("two_level", {"buffer": f"{size} B"}), MapOptions(uneven=False, imperfect=())
    return fuse(machine, load_workload(yaml.safe_load(text)), chain=chain, options=options, workers=1)


def trees(name: str) -> list[GroupResult]:
    return [segment.fused for segment in fused(*CASES[name]).segments if segment.fused is not None]


def names_that_stay(document: dict[str, Any]) -> list[str]:
    """Names of what stays, one for each tensor, from the document of a group."""
    border, found = document["border"], []
    staying = [link["producer"] for link in document["links"]] + border["staying"]
    found += [f"Outputs of {layer}" for layer in dict.fromkeys(staying)]
    shared = [[f"{reader['tensor']} of {reader['layer']}" for reader in each["readers"]] for each in document["shared"]]
    found += [" = ".join(names) for names in shared]
    known = {name for names in shared for name in names}
    resident = [f"{tensor} of {each['layer']}" for each in document["resident"] for tensor in each["tensors"]]
    present = [f"{each['tensor']} of {each['layer']}" for each in border["present"]]
    return sorted([*found, *(name for name in (*resident, *present) if name not in known)])


@pytest.mark.parametrize("name", CASES)
def test_tree__has_each_tensor_that_stays_once(name):
    for tree in trees(name):
        document, lines = group_json(tree), list(tree_lines(tree))
        rows = loop_tree_table(tree)
        assert sorted(row["tensor"] for row in rows) == names_that_stay(document)
        words = {f"Outputs of {link['producer']}": link["words"] for link in document["links"]}
        for row in rows:
            assert row["words"] == words.get(row["tensor"], row["words"]) or row["words"] is None
            (line,) = (line for line in lines if f"stores {row['tensor']}" in line or f"of {row['tensor']} " in line)
            assert len(line) - len(line.lstrip()) == 2 * row["depth"]


@pytest.mark.parametrize("name", CASES)
def test_tree__has_loops_around_layers_in_the_order_in_which_they_run(name):
    for tree in trees(name):
        lines = list(tree_lines(tree))
        loops = [line for line in lines if line.lstrip().startswith("for ")]
        assert [line.partition(":")[0].strip() for line in loops] == [
            str(loop).partition(":")[0] for loop in tree.tiling.loops
        ]
        assert [len(line) - len(line.lstrip()) for line in loops] == [2 * depth for depth in range(len(loops))]
        layers = ["  " * len(loops) + layer_line(tree, at) for at in range(len(tree.group.layers))]
        places = [lines.index(line) for line in layers]
        assert places == sorted(places)
        for kept in kept_tensors(tree):
            place = next(at for at, line in enumerate(lines) if f" {kept.tensor}" in line)
            assert place < places[max(0, kept.layers[0])]


@pytest.mark.parametrize("name", CASES)
def test_tree__keeps_a_resident_tensor_outside_the_loops_that_leave_it_in_place(name):
    for tree in trees(name):
        dims = {dim.name: dim.dims for dim in tree.group.dims}
        for kept in kept_tensors(tree):
            (at,) = kept.layers if len(kept.layers) == 1 else (None,)
            if at is None or kept.words is None:
                continue
            layer = tree.group.layers[at]
            tensor = layer.tensor(kept.tensor.partition(" ")[0])
            moved = [dims[loop.dim][at] in tensor.dims for loop in tree.tiling.loops]
            assert not any(moved[kept.depth :])
            assert kept.depth == 0 or moved[kept.depth - 1]
            assert tensor.words(layer.dims) >= kept.words


def test_tree__of_a_residual_block():
    """Rows of 4 words: what the first layer reads waits for the sum. Weights stay for all 24 steps."""
    (tree,) = trees("block")
    assert list(tree_lines(tree)) == [
        "BUF stores Weights of up: 32 words, 64 B",
        "BUF stores Weights of down: 32 words, 64 B",
        "for M in [0:24): 1 of 24 M of Outputs",
        "  BUF stores Outputs of up for down: 8 words, 16 B",
        "  BUF stores Inputs of up = Residual of sum, fetched once: 4 words, 8 B",
        "  up",
        "     1  23 x M 1; fetches Inputs",
        "     2  1 x M 1; fetches Inputs, Weights",
        "  BUF stores Outputs of down for sum: 4 words, 8 B",
        "  down",
        "     3  23 x M 1",
        "     4  1 x M 1; fetches Weights",
        "  sum",
        "     5  24 x M 1; writes Outputs to DRAM",
    ]


def test_tree__says_how_a_halo_is_had_again():
    """Lines that stay are outside the loop that goes along them; with less room they are computed again."""
    (tree,) = trees("halo")
    (link,) = (kept for kept in kept_tensors(tree) if kept.tensor == "Outputs of first")
    retained = next(iter(group_json(tree)["links"]))["retained"]
    assert retained
    assert link.halo.startswith(f"halo retained along {', '.join(retained)} (")
    assert tree.tiling.loops[link.depth].dim in retained
    assert link.words == tree.rooms[0].live


@pytest.mark.parametrize("name", CASES)
def test_plot__has_each_layer_loop_and_tensor_that_stays(name):
    found = fused(*CASES[name])
    ax = plot_loop_tree(found)
    texts = [text.get_text().replace("\n", " ") for text in ax.texts]
    for tree in trees(name):
        for layer in tree.group.layers:
            assert any(text.startswith(layer.name) for text in texts)
        for loop in tree.tiling.loops:
            assert any(text.startswith(str(loop)) for text in texts)
        for kept in kept_tensors(tree):
            assert any(kept.tensor in text for text in texts)
    assert figure_bytes(ax)["svg"] == figure_bytes(plot_loop_tree(found))["svg"]
    assert not any(patch.get_width() < 0 or patch.get_height() < 0 for patch in ax.patches)


def test_plot__of_one_layer_has_its_group_alone():
    texts = [text.get_text() for text in plot_loop_tree(fused(*CASES["whole"]), "up").texts]
    assert any(text.startswith("up: whole tensors in BUF") for text in texts)
    assert not any(text.startswith("before") for text in texts)


@pytest.mark.parametrize("name", CASES)
def test_page__has_report_and_picture(name):
    found = fused(*CASES[name])
    page = fusion_page(found)
    assert page.count("<svg") == 1
    for tree in trees(name):
        assert "\n".join(tree_lines(tree)) in page.replace("\u00a0", " ").replace("<wbr>", "")
    assert ">total</td>" in page
    assert "plotly" not in page.partition("<main>")[2].partition("<footer>")[0]


@pytest.mark.parametrize("name", CASES)
def test_report__has_what_groups_cost_fused_and_alone(name):
    found = fused(*CASES[name])
    text = written(fusion_report(found), 120)
    for totals in (part for segment in found.fused for part in (segment.totals, segment.unfused)):
        for value in (energy(totals.energy_pj), count(totals.cycles), count(totals.offchip_words)):
            assert value in text


def test_report__of_layers_by_themselves_names_no_fused_group():
    found = fused(*CASES["whole"])
    text = written(fusion_report(found), 120) + fusion_page(found).partition("<main>")[2]
    text += " ".join(
        [plot_loop_tree(found).get_title(loc="left"), *(t.get_text() for t in plot_loop_tree(found).texts)]
    )
    assert "fused group" not in text
    assert "fusing" not in text
    assert " steps at" not in text


def test_fuse__writes_a_picture_and_a_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ACCELSIM_CACHE", str(tmp_path / "cache"))
    network = tmp_path / "attention.yaml"
    network.write_text(NETWORK)
    asked = ["fuse", "two_level", str(network), "--set", "buffer=128 B", "-q"]
    for more in (["--plot", "tree.svg"], ["--plot", "tree.png"], ["--html", "tree.html"]):
        more[-1] = str(tmp_path / more[-1])
        assert main([*asked, *more]) == 0
        assert f"Written to {more[-1]}" in capsys.readouterr().out
    assert (tmp_path / "tree.svg").read_text().startswith("<?xml")
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    assert main([*asked, "--plot", str(tmp_path / "energies.svg"), "--kind", "fusion"]) == 0
    assert (tmp_path / "energies.svg").read_bytes() != (tmp_path / "tree.svg").read_bytes()
    assert main([*asked, "--html", str(tmp_path)]) == 2
    assert "this is a folder" in capsys.readouterr().err
