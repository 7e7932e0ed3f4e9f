"""Mappings: reading, writing and the checks against architecture and Einsum."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import InputError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, dump_mapping, idle_at_last, load_mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate

BROKEN = Path(__file__).parent / "broken"
MACHINE = load_architecture(BROKEN / "machine.yaml")
LAYER = load_workload(BROKEN / "layer.yaml").layers[0]  # M: 8, N: 4, K: 6
GOOD = """mapping:
  levels:
    - level: DRAM
      temporal: [M=2, K=3]
    - level: GLB
      keep: [Inputs, Outputs]
      temporal: [N=4]
      spatial: {x: [M=4], y: [K=2]}
    - level: RF
      keep: [Inputs, Outputs, Weights]
"""


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    path = tmp_path_factory.mktemp("mapping") / "m.yaml"

    def load(text: str, overrides: dict[str, str] | None = None) -> Mapping:
        path.write_text(text)
        return load_mapping(path, MACHINE, LAYER, overrides)

    return load


def test_load_mapping__reads_the_documented_form(load):
    everything = frozenset({"Inputs", "Weights", "Outputs"})
    assert load(GOOD) == Mapping(
        (
            LevelMapping("DRAM", (Loop("M", 2), Loop("K", 3)), keep=everything),
            LevelMapping("GLB", (Loop("N", 4),), (Loop("M", 4),), (Loop("K", 2),), frozenset({"Inputs", "Outputs"})),
            LevelMapping("RF", keep=everything),
        )
    )


def test_dump_mapping__writes_the_documented_form(load):
    assert dump_mapping(load(GOOD)) == GOOD


def test_load_mapping__fills_in_what_the_architecture_decides(load):
    assert load(GOOD.replace("      keep: [Inputs, Outputs, Weights]\n", "")) == load(GOOD)
    assert load(
        GOOD.replace("    - level: DRAM\n", "    - level: DRAM\n      keep: [Inputs, Outputs, Weights]\n")
    ) == load(GOOD)


def test_load_mapping__leaves_size_and_fanout_to_the_model(load):
    big = GOOD.replace("[M=2, K=3]", "[]").replace("M=4", "M=8").replace("K=2", "K=6")
    assert load(big).levels[1].x == (Loop("M", 8),)


def test_load_mapping__knows_parameters(load):
    text = "params: {x: 'K=2'}\n" + GOOD.replace("[K=2]", "[$x]")
    assert load(text) == load(GOOD)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("M=2", "M=3", "m.yaml:4:18: levels: the loops over M multiply to 12, but M is 8 in layer"),
        ("[N=4]", "[]", "the loops over N multiply to 1, but N is 4 in layer; a loop N=4 is missing"),
        ("M=2", "P=2", "m.yaml:4:18: levels[0].temporal[0]: 'P' is no dimension of layer; dimensions: M, N, K"),
        ("M=2", "M=0", "the bound of a loop is at least 1, got 'M=0'"),
        ("M=2", "M=-2", "expected a loop like K=4, got 'M=-2'"),
        ("M=2", "M=" + "9" * 18, "multiply to more than 10^18"),
        ("M=2", "M: 2", "expected a loop like K=4, got a mapping"),
        ("M=2", "'M=2,1'", "got 'M=2,1'; write M=2, and M under `imperfect`: the last pass is then shorter"),
        ("M=2,", "M=2, M=2,", "two loops over M stand in one block; write one with their product"),
        ("level: RF", "level: RG", "levels[2].level: 'RG' is no level of machine; levels: DRAM, GLB, RF"),
        ("level: RF", "level: GLB", "level 'RF' is missing"),
        ("level: GLB", "level: DRAM", "level 'DRAM' is given twice, but the first level keeps everything at one place"),
        ("level: RF", "level: GLB", "levels: level 'RF' is missing"),
        ("level: RF", "levels: RF", "levels[2].levels: unknown key; did you mean 'level'?"),
        ("[Inputs, Outputs]", "[Inputs]", "levels[1].keep: 'Outputs' is not listed, but GLB always keeps it"),
        ("[Inputs, Outputs]", "[Weights, Outputs]", "levels[1].keep: 'Weights' is listed, but GLB never keeps it"),
        ("[Inputs, Outputs]", "[Imputs, Outputs]", "'Imputs' is no tensor of layer; did you mean 'Inputs'?"),
        (
            "      keep: [Inputs, Outputs]\n",
            "",
            "levels[1]: 'keep' is missing: the architecture leaves a choice for Inputs",
        ),
        ("x:", "z:", "levels[1].spatial.z: unknown key; keys: x, y"),
    ],
)
def test_load_mapping__refuses(load, old, new, message):
    with pytest.raises(InputError) as error:
        load(GOOD.replace(old, new))
    assert message in str(error.value)


RAGGED = GOOD.replace("  levels:", "  imperfect: [K, M]\n  levels:", 1).replace("[M=2, K=3]", "[M=3, K=2]")
RAGGED = RAGGED.replace("x: [M=4], y: [K=2]", "x: [M=3], y: [K=5]")  # M: 3 x 3 over 8; K: 2 x 5 over 6


def test_load_mapping__reads_imperfect_dimensions_and_dump_writes_them(load):
    assert load(RAGGED).imperfect == frozenset("KM")
    assert dump_mapping(load(RAGGED)) == RAGGED


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[K, M]", "[K]", "m.yaml:5:18: levels: the loops over M multiply to 9, but M is 8 in layer; `imperfect: [M]`"),
        ("[K, M]", "[K, M, L]", "m.yaml:2:14: imperfect: 'L' is no dimension of layer; dimensions: M, N, K"),
        (
            "M=3, K=2",
            "M=2, K=2",
            "levels: the loops over M multiply to 6, but M is 8 in layer; write loops that multiply to 8, or to more, "
            "where `imperfect: [M]` allows a remainder\n",
        ),
        (
            "M=3, K=2",
            "M=4, K=2",
            "m.yaml:5:18: levels[0].temporal[0]: the loop M=4 runs 3 times at most: M is 8 in layer; write M=3",
        ),
        ("y: [K=5]", "y: [K=6]", "the loop K=2 runs 1 time at most: K is 6 in layer; leave it out"),
    ],
)
def test_load_mapping__refuses_imperfect_loops(load, old, new, message):
    with pytest.raises(InputError) as error:
        load(RAGGED.replace(old, new))
    assert message in f"{error.value}\n"


def test_load_mapping__refuses_a_remainder_in_a_window(tmp_path):
    layer = load_workload("conv1d").layers[0]
    machine = load_architecture("two_level")
    path = tmp_path / "m.yaml"
    text = "mapping:\n  imperfect: [P]\n  levels:\n    - level: DRAM\n      temporal: [P=3]\n"
    keep = "      keep: [Weights, Inputs, Outputs]\n"
    path.write_text(text + f"    - level: BUF\n{keep}      temporal: [P=3, R=3]\n")

    with pytest.raises(InputError) as error:
        load_mapping(path, machine, layer)
    assert "m.yaml:2:14: imperfect: P cannot be imperfect: it shares the rank P + R of Inputs; " in str(error.value)
    assert "leave P out here; `padded: [P=…]` rounds its bound up" in str(error.value)
    path.write_text(path.read_text().replace("  imperfect: [P]\n", ""))
    with pytest.raises(InputError, match=r"multiply to 9, but P is 8 in conv1d; `padded: \[P=…"):
        load_mapping(path, machine, layer)


def test_load_mapping__wants_the_levels_in_order(load):
    blocks = GOOD.split("    - ")
    with pytest.raises(
        InputError, match="the levels are out of order: DRAM, RF, GLB; write them outermost first: DRAM, GLB, RF"
    ):
        load("    - ".join([*blocks[:2], blocks[3], blocks[2]]))


@st.composite
def mappings(draw) -> Mapping:
    """A mapping of the layer onto the machine: the factors of each bound spread over all blocks."""
    blocks: dict[tuple[int, str], list[Loop]] = {}
    for dim, bound in LAYER.dims.items():
        left = bound
        for key in [(level, where) for level in range(3) for where in ("temporal", "x", "y")]:
            factor = draw(st.sampled_from([f for f in range(1, left + 1) if left % f == 0]))
            factor = left if key == (2, "y") else factor
            left //= factor
            if factor > 1 or draw(st.integers(0, 9)) == 0:
                blocks.setdefault(key, []).append(Loop(dim, factor))
    keeps = [{"Inputs", "Weights", "Outputs"}, draw(st.sampled_from([{"Outputs"}, {"Inputs", "Outputs"}]))]
    levels = []
    for i, name in enumerate(("DRAM", "GLB", "RF")):
        temporal, x, y = (tuple(draw(st.permutations(blocks.get((i, where), [])))) for where in ("temporal", "x", "y"))
        levels.append(LevelMapping(name, temporal, x, y, frozenset(keeps[i % 2])))
    return Mapping(tuple(levels))


@given(mappings())
def test_dump_mapping__is_read_back_to_the_same_mapping(load, mapping):
    assert load(dump_mapping(mapping)) == mapping


@pytest.mark.parametrize(
    ("outer", "x", "inner", "idle"),
    [
        (4, 1, 2, []),  # the last pass makes one step of two, and no unit rests in it
        (2, 2, 2, ["K"]),  # 4 + 3 steps: the second unit rests in the last one
        (4, 2, 1, ["K"]),
        (7, 1, 1, []),
        (1, 7, 1, []),
    ],
)
def test_idle_at_last__is_a_unit_that_rests_while_another_one_works(outer, x, inner, idle):
    levels = LevelMapping("A", (Loop("K", outer),), (Loop("K", x),)), LevelMapping("B", (Loop("K", inner),))
    assert idle_at_last(Mapping(levels), {"K": 7}) == idle


def test_loop__checks_itself():
    with pytest.raises(ValueError, match="bound must be >= 1"):
        Loop("M", 0)


def test_operands_that_compute_units_hold__need_no_entry_in_a_mapping(tmp_path):
    """They have no loops, and what they keep is no choice; an entry is read as well, and written."""
    text = {
        "compute": {
            "name": "MAC",
            "class": "intmac",
            "holds": ["Inputs"],
            "energy": {"compute": "1 pJ", "source": "example"},
        }
    }
    level = {
        "name": "DRAM",
        "word": "8 bit",
        "class": "DRAM",
        "energy": {"read": "1 pJ", "write": "1 pJ", "source": "x"},
    }
    machine = load_architecture({"architecture": {"name": "m", "levels": [level], **text}})
    layer = load_workload({"workload": {"name": "g", "gemm": {"M": 2, "N": 3, "K": 4}}}).layers[0]
    read = load_mapping({"mapping": {"levels": [{"level": "DRAM", "temporal": ["M=2", "K=4", "N=3"]}]}}, machine, layer)
    assert [(level.level, sorted(level.keep)) for level in read.levels[1:]] == [("MAC_operands", ["Inputs"])]
    assert load_mapping(dump_mapping(read), machine, layer) == read
    found = {(one.level, one.tensor): one.reads for one in evaluate(machine, layer, read).tensors}
    assert found == {
        ("DRAM", "Inputs"): 8,
        ("DRAM", "Weights"): 24,
        ("DRAM", "Outputs"): 18,
        ("MAC_operands", "Inputs"): 24,
    }
