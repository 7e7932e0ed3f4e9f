"""The least cost for each size of a buffer is the optimum of the machine with that size."""

from __future__ import annotations

import csv
import json

import pytest

from accelsim import load_architecture, load_workload
from accelsim.results.worth import with_room
from accelsim.search.mapper import map_einsum


@pytest.mark.parametrize("objective", ["energy", "cycles", "offchip_words"])
@pytest.mark.parametrize(("machine", "layer"), [("two_level", "conv1d"), ("two_level", "depthwise")])
def test_bound__is_the_optimum_of_each_size(machine, layer, objective, run):
    """Also one word below each size, where the size before is the best."""
    code, out, _ = run("sizing", machine, layer, "--objective", objective, "--json")
    found = json.loads(out)
    einsum = load_workload(layer).layers[0]

    def optimum(words: int) -> float:
        sized = load_architecture(machine, {"buffer": f"{2 * words} B"})
        return map_einsum(sized, einsum, objective=objective, uneven=False).certificate.value

    assert code == 0
    assert found["proved"]
    rows = found["sizes"]
    assert [row["size_bytes"] for row in rows] == [2 * row["words"] for row in rows]
    for before, row in zip([None, *rows], rows, strict=False):
        if row["words"]:
            assert optimum(row["words"]) == pytest.approx(row[objective], rel=1e-12)
        if before is not None and row["words"] > 1:
            assert optimum(row["words"] - 1) == pytest.approx(before[objective], rel=1e-12)
    assert optimum(10 * rows[-1]["words"] + 10) == pytest.approx(rows[-1][objective], rel=1e-12)


def test_bound__says_what_half_and_twice_the_size_cost(run):
    rows = json.loads(run("sizing", "two_level", "depthwise", "--json")[1])["sizes"]
    least = {row["words"]: row["energy"] for row in rows}
    for row in rows:
        twice = min(pj for words, pj in least.items() if words <= 2 * row["words"])
        half = min(pj for words, pj in least.items() if words <= row["words"] / 2)
        assert row["doubling"] == pytest.approx(twice / row["energy"] - 1)
        assert row["halving"] == pytest.approx(half / row["energy"] - 1)
    assert 1 <= sum(row["knee"] for row in rows) <= 3


def test_bound__is_written_as_a_table_and_a_picture(run, tmp_path):
    folder, picture = tmp_path / "tables", tmp_path / "sizing.png"
    code, out, _ = run("sizing", "two_level", "depthwise", "--csv", folder, "--plot", picture)
    rows = list(csv.DictReader((folder / "bound.csv").read_text().splitlines()))

    assert code == 0
    assert (
        f"energy changes at {len(rows)} sizes, each optimal (proved) among even mappings with perfect factors"
        in " ".join(out.split())
    )
    assert "knee" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_bound__with_double_buffers_counts_both():
    """Gemmini's scratchpad stores elements of 16 bits as two words, and holds two tiles."""
    machine, einsum = load_architecture("gemmini"), load_workload("conv").layers[0]
    level = next(level for level in with_room(machine, "Scratchpad", einsum).levels if level.name == "Scratchpad")
    assert level.rooms[""] == 2 * sum(tensor.words(einsum.dims) for tensor in einsum.tensors)
    assert level.size_words == 2 * level.rooms[""]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("eyeriss", "conv", "--level", "SPAD"),
            "SPAD has not one size for all tensors in eyeriss; levels with one: GLB",
        ),
        (("eyeriss", "conv", "--level", "L2"), "L2 is no level in eyeriss; levels with one: GLB"),
        (("eyeriss", "alexnet"), "alexnet has 8 layers; say which"),
        (("eyeriss", "conv", "--objective", "edp"), "invalid choice"),
        (("eyeriss", "conv", "--plot", "sizing"), "sizing: name a file that ends in .png or .svg"),
        (("eyeriss", "conv", "-o", "bound"), "unrecognized arguments: -o bound"),
    ],
)
def test_bound__of_what_has_none_is_refused(arguments, said, run):
    code, out, err = run("sizing", *arguments)
    assert (code, out) == (2, "")
    assert said in err
