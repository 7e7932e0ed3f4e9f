"""Constraints on products of loops, on tiles and on costs."""

from __future__ import annotations

import json
import time
from functools import partial

import pytest

from accelsim.cli.main import main
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints import Constraints, Factor, Product
from accelsim.inputs.errors import InputError, NoValidMappingError
from accelsim.inputs.objective import QUANTITIES, Limit
from accelsim.inputs.workload_reader import load_workload
from accelsim.results.cache import MapOptions, content_key
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from tests.test_constraints import read

narrow = partial(MapOptions, uneven=False, imperfect=())
"""Options of a search among even mappings with perfect factors, the quickest."""

PRODUCTS = """
constraints:
  levels:
  - level: GLB
    temporal: {factors: [P*Q<=16, K<=8]}
    spatial: {x: {factors: [P * K>=6]}, y: {factors: [R*C=6]}}
    tile: {sizes: [P<=8, C*R*S<=72], words: [Inputs<=4096]}
"""


def test_products_and_tiles__are_read(tmp_path):
    found = read(tmp_path, PRODUCTS).of("GLB")
    assert found.temporal.products == (Product(("P", "Q"), 1, 16),)
    assert found.temporal.factors == (Factor("K", 1, 8),)
    assert found.x.products == (Product(("P", "K"), 6, None),)
    assert found.y.products == (Product(("R", "C"), 6, 6),)
    assert found.sizes == (Product(("P",), 1, 8), Product(("C", "R", "S"), 1, 72))
    assert found.words == (Product(("Inputs",), 1, 4096),)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("P*Q<=16", "P*Z<=16", "temporal: 'Z' is no dimension"),
        ("P*Q<=16", "P*P<=16", "temporal.factors[0]: expected bounds like P<=8 or P*Q<=8, each name once"),
        ("P*Q<=16", "P*Q<=0", "temporal.factors[0]: expected bounds like P<=8"),
        ("R*C=6", "R*Y=6", "spatial.y: 'Y' is no dimension"),
        ("P<=8", "PP<=8", "tile: 'PP' is no dimension"),
        ("Inputs<", "Inputz<", "tile: 'Inputz' is no tensor of vgg16_conv3_2; did you mean 'Inputs'?"),
        ("Inputs<", "Inputs*Outputs<", "tile.words: Inputs*Outputs<=4096 is of several tensors; bound each of them"),
        ("sizes", "size", "tile.size: unknown key; did you mean 'sizes'?"),
    ],
)
def test_products_and_tiles__of_nothing_are_told(tmp_path, old, new, said):
    with pytest.raises(InputError) as error:
        read(tmp_path, PRODUCTS.replace(old, new))
    assert f"levels[0].{said}" in str(error.value)


@pytest.mark.parametrize(
    "options", [{"uneven": False}, {"method": "random", "budget": Budget(mappings=20_000)}, {"uneven": True}]
)
def test_products_and_tiles__are_kept_by_each_search(tmp_path, options):
    """Of what is broken each is said; the best mapping without them breaks some."""
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    asked = read(tmp_path, PRODUCTS)
    free = map_einsum(machine, layer, uneven=False).best
    assert any("is asked for" in broken for broken in asked.broken_by(free.mapping, layer))
    found = map_einsum(machine, layer, constraints=asked, **options).best
    assert asked.broken_by(found.mapping, layer) == []
    assert found.energy_pj >= free.energy_pj or options.get("uneven")


def test_product__that_no_loops_reach_is_told(tmp_path):
    """Eyeriss has 14 columns, and the layer K = 256; of its 12 rows R and C can use 3 * 4."""
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    with pytest.raises(NoValidMappingError, match=r"GLB y: no loops have a product of R\*C=5; the largest is 12"):
        map_einsum(machine, layer, constraints=read(tmp_path, PRODUCTS.replace("R*C=6", "R*C=5")), uneven=False)


def test_tile__that_no_mapping_keeps_is_told_with_the_nearest_miss(tmp_path):
    text = "constraints: {levels: [{level: GLB, keep: [Inputs], tile: {words: [Inputs<=2], sizes: [P>=4]}}]}"
    with pytest.raises(NoValidMappingError, match=r"GLB: words of the tile: Inputs is \d+, Inputs<=2 is asked for"):
        map_einsum(
            load_architecture("eyeriss"),
            load_workload("conv").layers[0],
            constraints=read(tmp_path, text),
            uneven=False,
        )


def test_products_and_tiles__make_another_entry_of_the_cache(tmp_path):
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    keys = {
        content_key(machine, layer, narrow(), read(tmp_path, text))
        for text in (
            PRODUCTS,
            *(PRODUCTS.replace(*pair) for pair in (("*Q<=16", "*Q<=8"), ("P<=8", "P<=4"), ("6]", "7]"))),
        )
    }
    assert len(keys) == 4


def test_limits__of_a_file_and_of_the_command_line_hold_together(tmp_path, capsys):
    """GEMM 4 x 6 x 8 on the two-level machine: less energy takes more words, so both limits bind or rule all out."""
    (tmp_path / "w.yaml").write_text("workload: {name: w, gemm: {M: 4, N: 6, K: 8}}")
    (tmp_path / "c.yaml").write_text("constraints: {limits: [cycles <= 1e6]}")
    asked = ["map", "two_level", str(tmp_path / "w.yaml"), "--no-cache", "--constraints", str(tmp_path / "c.yaml")]
    assert main([*asked, "--require", "offchip_words <= 400", "-o", str(tmp_path / "out")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "lowest energy with cycles <= 1000000 and offchip_words <= 400: optimal (proved)" in said
    assert main(["verify", str(tmp_path / "out")]) == 0
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    assert document["limits"] == ["offchip_words <= 400"]
    assert document["search"]["limits"] == ["cycles <= 1000000", "offchip_words <= 400"]
    capsys.readouterr()
    assert main([*asked, "--require", "offchip_words <= 100"]) == 1
    said = capsys.readouterr().err
    assert "offchip_words is at least " in said
    assert "closest of 2,000 sampled mappings" in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cycles < 3", "a limit is the most that is allowed"),
        ("energy <= 3", "an energy has a unit"),
        ("enery <= 3 uJ", "did you mean 'energy'?"),
        ("cycles <= 4 uJ", "cycles have no unit"),
        ("cycles <= 0", "nothing costs so little"),
        ("[1]", "cannot be read"),
    ],
)
def test_limits__that_cannot_be_read_are_mistakes_with_a_place(tmp_path, capsys, text, told):
    path = tmp_path / "c.yaml"
    path.write_text(f"constraints:\n  limits: [{text!r}]\n")
    assert main(["check", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{path}:2:12: limits[0]: ")
    assert told in said
    assert main(["map", "two_level", "conv1d", "--require", text]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "limit", ["energy <= 3.00000000001 uJ", "energy <= 0.7 fJ", "cycles <= 3.7", "offchip_words <= 9e6"]
)
def test_limits__and_what_exceeds_them_differ_in_print(limit):
    read = Limit.parse(limit)
    assert Limit.parse(str(read)).largest == pytest.approx(read.largest, rel=1e-11)
    more = read.largest * (1 + 1e-10) if read.quantity == "energy" else read.largest + 1
    costs = tuple(more if name == read.quantity else 0.0 for name in QUANTITIES)
    value, most = read.broken_by(costs).removeprefix(f"{read.quantity} ").split(", the limit is ")
    assert value != most.partition(" <= ")[2]


def test_limits__that_nothing_keeps_are_explained_within_the_seconds_asked_for():
    machine, layer = load_architecture("nvdla"), load_workload("conv").layers[0]
    asked, started = Constraints(limits=("offchip_words <= 10", "energy <= 1 pJ")), time.monotonic()
    with pytest.raises(NoValidMappingError):
        map_einsum(machine, layer, constraints=asked, budget=Budget(seconds=4.0), uneven=False)
    assert time.monotonic() - started < 30.0  # the search alone takes seconds on a busy machine, the rest ten for each
