"""Data layouts: against transfers that are walked word by word, and worked by hand.

`ACCELSIM_LAYOUT_CASES`: how many random nests are walked.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import InputError
from accelsim.inputs.layouts import DataLayout, layout_text, load_layouts
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.model.evaluate import evaluate
from accelsim.model.layouts import in_bursts
from tests.brute import every_mapping
from tests.effort import many
from tests.layout_oracle import walk_layouts
from tests.strategies import cases, ragged_case
from tests.test_architecture import load  # noqa: F401 (a fixture)
from tests.test_compression import EVERY, GEMM, two_levels
from tests.test_kernel_windows import carried_on

CASES = many("LAYOUT_CASES", 80)
BURSTS, BANKS = [8, 16, 24, 64, 256], [1, 2, 3, 8]


def with_bursts(machine: Architecture, bits: int, banks: int = 1) -> Architecture:
    return replace(machine, levels=(replace(machine.levels[0], burst_bits=bits, banks=banks), *machine.levels[1:]))


def drawn_layouts(einsum, rng) -> dict[str, DataLayout]:
    """Layouts with any order and lines of any words."""
    found = {}
    for tensor in einsum.tensors:
        full = tensor.box(einsum.dims)
        order = tuple(rng.sample(range(len(full)), len(full)))
        found[tensor.name] = DataLayout(order, tuple(rng.randint(1, min(4, extent)) for extent in full))
    return found


def check(machine, einsum, mapping, seed) -> int:
    """Bursts and banks are those of the walk; returns how many tensors have them."""
    layouts = drawn_layouts(einsum, random.Random(seed))
    found = [each for each in evaluate(machine, einsum, mapping, layouts).layouts if each.kind == "given"]
    if found:
        walked = walk_layouts(machine, einsum, mapping, layouts)
        assert {each.tensor: (each.burst_bits, each.port_bits) for each in found} == {
            each.tensor: walked[each.tensor] for each in found
        }
        assert all(each.port_bits >= each.burst_bits >= each.bits for each in found)
    return len(found)


@settings(max_examples=CASES)
@given(cases(), st.sampled_from(BURSTS), st.sampled_from(BANKS), st.integers(0, 999))
def test_layouts__equal_those_of_the_walked_transfers(case, bits, banks, seed):
    machine, einsum, mapping = case
    check(with_bursts(machine, bits, banks), einsum, mapping, seed)


@settings(max_examples=40)
@given(carried_on(), st.sampled_from([16, 32, 64]), st.sampled_from(BANKS), st.integers(0, 999))
def test_layouts__of_windows_that_carry_on_equal_those_of_the_walked_transfers(case, bits, banks, seed):
    machine, einsum, mapping = case
    check(with_bursts(machine, bits, banks), einsum, mapping, seed)


def test_layouts__equal_those_of_uneven_mappings_and_are_untold_where_loops_leave_remainders():
    rng, told = random.Random(11), 0
    for seed in range(CASES):
        machine, einsum, mapping = ragged_case(rng)
        told += check(with_bursts(machine, rng.choice(BURSTS), rng.choice(BANKS)), einsum, mapping, seed)
    assert told > 0


@settings(max_examples=CASES // 4)
@given(cases(48, 3), st.sampled_from([16, 48, 64]), st.sampled_from(BANKS))
def test_best_and_worst__are_those_of_all_layouts(case, bits, banks):
    """Best: of blocks that fit a burst, in any order; worst: of whole ranks one after the other."""
    machine, einsum, mapping = case
    machine = with_bursts(machine, bits, banks)
    for tensor in einsum.tensors:
        told = {x.kind: x for x in evaluate(machine, einsum, mapping).layouts if x.tensor == tensor.name}
        if not told:
            continue
        full, element = tensor.box(einsum.dims), told["given"].bits // words_of(machine, einsum, mapping, tensor)
        room = max(1, bits // element)
        each = [[n for n in range(1, extent + 1) if extent % n == 0 or n & (n - 1) == 0] for extent in full]
        orders = list(itertools.permutations(range(len(full))))
        found = {}
        for line in itertools.product(*each):
            if math.prod(line) <= room:
                for order in orders:
                    found[line, order] = cost(machine, einsum, mapping, tensor.name, DataLayout(order, line))
        whole = [
            cost(machine, einsum, mapping, tensor.name, DataLayout(order, filled(order, full, room)))
            for order in orders
        ]
        assert (told["best"].burst_bits, told["best"].port_bits) == min([*found.values(), *whole])
        assert (told["worst"].burst_bits, told["worst"].port_bits) == max(whole)


def words_of(machine, einsum, mapping, tensor) -> int:
    """Words that the outermost level reads and updates."""
    counts = evaluate(machine, einsum, mapping).tensors
    return sum(x.reads + x.updates for x in counts if (x.level, x.tensor) == (machine.levels[0].name, tensor.name))


def cost(machine, einsum, mapping, name, layout) -> tuple[int, int]:
    """Bits in bursts and at the ports of one tensor."""
    found = evaluate(machine, einsum, mapping, {name: layout}).layouts
    return next((x.burst_bits, x.port_bits) for x in found if (x.tensor, x.kind) == (name, "given"))


def filled(order, full, room) -> tuple[int, ...]:
    """Lines of whole ranks from the innermost outwards, the last one in part."""
    line = [1] * len(full)
    for rank in reversed(order):
        line[rank] = min(full[rank], room)
        if line[rank] < full[rank]:
            break
        room //= full[rank]
    return tuple(line)


def by_rows() -> Mapping:
    """A row of M at a time."""
    outer = LevelMapping("DRAM", (Loop("M", 4),), keep=EVERY)
    return Mapping((outer, LevelMapping("GLB", (Loop("N", 3), Loop("K", 5)), keep=EVERY)))


def test_layouts__worked_by_hand():
    """Outputs M x N = 4 x 3, inputs M x K = 4 x 5, weights K x N = 5 x 3, all of 16 bit; bursts of 64 bit, 4 words.

    A row of M at a time. The fifth of 5 inputs side by side is in a second line, and in the other of two banks. The
    weights enter once: 5 lines of 3, three of them in one bank. With M innermost each input is in a line of its own.
    """
    machine = with_bursts(two_levels(), 64, 2)
    found = {(x.tensor, x.kind): x for x in evaluate(machine, GEMM, by_rows()).layouts}
    given = {name: found[name, "given"] for name in ("Inputs", "Weights", "Outputs")}
    assert [given["Inputs"].layout, given["Inputs"].bits] == ["M K", 4 * 5 * 16]
    assert [x.burst_bits for x in given.values()] == [4 * 2 * 64, 5 * 64, 4 * 64]
    assert [x.port_bits for x in given.values()] == [4 * 2 * 64, 3 * 2 * 64, 4 * 2 * 64]
    assert (found["Inputs", "worst"].layout, found["Inputs", "worst"].burst_bits) == ("K M", 4 * 5 * 64)
    assert found["Inputs", "best"].burst_bits == 4 * 2 * 64


def test_layouts__of_compressed_tensors_are_untold():
    machine = with_bursts(two_levels(compression={"Inputs": Fraction(3, 5)}), 64)
    assert {each.tensor for each in evaluate(machine, GEMM, by_rows()).layouts} == {"Weights", "Outputs"}


def test_energy_and_cycles__with_layouts_are_those_of_the_bursts():
    """A port of a word a cycle moves 4 words for each burst; DRAM charges each word alike."""
    machine = with_bursts(two_levels(), 64)
    machine = replace(machine, levels=(replace(machine.levels[0], bandwidth=Fraction(1)), *machine.levels[1:]))
    result = evaluate(machine, GEMM, by_rows())
    energy, cycles = in_bursts(result, machine.levels[0], "given")
    assert cycles == max(result.cycles, 4 * (8 + 5 + 4))
    at = {x.tensor: x.energy_pj for x in result.tensors if x.level == "DRAM"}
    more = at["Inputs"] * (32 / 20 - 1) + at["Weights"] * (20 / 15 - 1) + at["Outputs"] * (16 / 12 - 1)
    assert energy == pytest.approx(result.energy_pj + more, rel=1e-12)


def test_burst_and_banks__stand_at_the_first_level_only(load):  # noqa: F811
    assert load(dram="burst: 64 B").levels[0].burst_bits == 512
    with pytest.raises(InputError, match="bursts are counted at the first level only; leave `burst` out"):
        load(glb="size: 1 KiB, burst: 64 B")
    with pytest.raises(InputError, match="conflicts of banks are those of the first level's bursts"):
        load(dram="banks: 4")


CONV = accelsim.conv(C=8, K=16, P=7, Q=7, R=3, S=3).layers[0]
SMALL = accelsim.gemm(4, 6, 4).layers[0]
TIMELOOP = """
layout:
  - {target: DRAM, type: interline, factors: R=3 S=3 P=7 Q=7 C=1 K=16 N=1 H=9 W=9, permutation: SR CQP KN HW}
  - {target: DRAM, type: intraline, factors: R=1 S=1 P=1 Q=1 C=8 K=1 N=1 H=1 W=1, permutation: SRCQPKNHW}
"""


def test_layouts__of_timeloop_are_read():
    """Ranks of a tensor in the order of the permutation, H and W those of the window; a line has 8 channels."""
    machine = with_bursts(two_levels(), 128)
    found = load_layouts(TIMELOOP, machine, CONV)
    text = {x.name: layout_text(x, found[x.name], x.box(CONV.dims)) for x in CONV.tensors}
    assert text["Inputs"] == "C P+R Q+S, lines of C=8"
    assert text["Weights"] == "S R C K, lines of C=8"
    assert text["Outputs"] == "Q P K"
    one = load_layouts(
        {"layout": [{"target": "DRAM", "tensor": "Inputs", "type": "interline", "permutation": "P+R Q+S C"}]},
        machine,
        CONV,
    )
    assert one == {"Inputs": DataLayout((0, 2, 3, 1))}


def test_layouts__of_other_levels_are_said_and_left_out(caplog):
    text, machine = TIMELOOP + "  - {target: GLB, type: interline, permutation: C}\n", with_bursts(two_levels(), 128)
    assert load_layouts(text, machine, CONV) == load_layouts(TIMELOOP, machine, CONV)
    assert "GLB: no layout is counted there; DRAM has one" in caplog.text


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{target: DRAM, type: interline, permutation: C X}", "3:50: [0].permutation: 'X' is no rank of conv"),
        ("{target: DRM, type: interline, permutation: C}", "'DRM' is no level of"),
        ("{target: GLB, type: interline, permutation: C}", "no entry has the target DRAM; write `target: DRAM`"),
        ("{target: DRAM, tensor: Input, type: intraline, factors: C=8}", "'Input' is no tensor of conv"),
        ("{target: DRAM, type: intraline, factors: C8}", "expected factors such as"),
        ("{target: DRAM, type: intraline, factors: C=8 C=2}", "each rank once, got 'C=8 C=2'"),
        ("{target: DRAM, type: inline, factors: C=8}", "expected one of interline, intraline"),
        ("{target: DRAM, type: interline, permutation: C C}", "is there twice; name each rank once"),
        ("{type: interline, permutation: C}", "'target' is missing"),
    ],
)
def test_mistakes_in_layouts__are_said(entry, said):
    with pytest.raises(InputError) as caught:
        load_layouts(f"\nlayout:\n  - {entry}\n", with_bursts(two_levels(), 64), CONV)
    assert said in str(caught.value)


def machine_file(tmp_path) -> Path:
    """The two-level machine with bursts."""
    path = tmp_path / "bursts.yaml"
    plain = Path("arch/two_level.yaml").read_text()
    path.write_text(plain.replace("- name: DRAM", "- burst: 8 B\n      banks: 2\n      name: DRAM"))
    return path


def test_map__tells_and_chooses_layouts(run, tmp_path):
    machine = machine_file(tmp_path)
    code, out, _ = run("map", machine, "conv1d", "-o", tmp_path / "out")
    assert code == 0
    assert "Data layout: bursts of 8 B in 2 banks at DRAM" in out
    document = json.loads((tmp_path / "out" / "result.json").read_text())["result"]
    assert {each["tensor"] for each in document["layouts"]} == {"Weights", "Inputs", "Outputs"}
    code, out, _ = run("map", machine, "conv1d", "--layout", "best", "--json")
    assert code == 0
    found = json.loads(out)
    laid = [each for each in found["result"]["layouts"] if each["kind"] == "best"]
    assert found["with_layout"]["bound"] <= found["with_layout"]["value"]
    assert len(laid) == 3
    assert run("map", "two_level", "conv1d", "--layout", "best")[0] == 2


def test_best_layout__is_that_of_all_mappings():
    """Every even mapping with perfect factors of a small layer, each with its best layout."""
    machine = with_bursts(load_architecture("two_level"), 64)
    found = accelsim.layout(machine, SMALL)
    costs = []
    for mapping in every_mapping(machine, SMALL):
        result = evaluate(machine, SMALL, mapping)
        if result.valid:
            costs.append(in_bursts(result, machine.levels[0], "best")[0])
    assert found.value == pytest.approx(min(costs), rel=1e-12)
    assert found.bound <= min(costs) * (1 + 1e-12)
