"""Records of Timeloop: which are compared, that they agree, and that a wrong one is found."""

from __future__ import annotations

import copy
import itertools
import json
import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.importers.documents import Map
from accelsim.importers.timeloop_machine import Part
from accelsim.inputs.errors import AccelsimError, Mark
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Tensor
from validation.timeloop import CaseComparison, validate_timeloop
from validation.timeloop_replay import TWO_ITERATIONS, _default_words

IMPERFECT = {
    "h29_imperfect_temporal",
    "h29b_imperfect_temporal_run_last",
    "h29c_imperfect_temporal_no_extrapolation",
    "h30_imperfect_spatial",
}
SWITCHED = {"h13_rmw_no_elision", "h13_rmw_updated", "h20c_link_transfers_off"}
LINKED = "h20b_link_transfers_default"
ROUNDED = {"rs0087"}
REFUSED = "h23_ws_gemm"
"""A record of an error: Timeloop refuses the mapping, and there is nothing else to compare."""
SAMPLE = "h01_order_CPQM"
"""A record that is compared; Buffer Inputs are read 18432 times."""


def compared(*paths: Path) -> dict[str, CaseComparison]:
    return {found.name: found for found in validate_timeloop(list(paths))}


def reasons(found: dict[str, CaseComparison]) -> dict[str, set[str]]:
    """Names of records that are not compared, by the first word of the reason."""
    by_word: dict[str, set[str]] = {}
    for name, comparison in found.items():
        if not comparison.compared:
            assert comparison.quantities == 0
            by_word.setdefault(comparison.reason.split()[0], set()).add(name.partition("/")[0])
    return by_word


def test_records__are_equal_but_for_those_that_name_a_reason(shared):
    found = compared(shared / "golden" / "timeloop" / "cases.jsonl")

    assert len(found) == 210
    assert reasons(found) == {"imperfect": IMPERFECT, "a": SWITCHED, "marked": ROUNDED}
    agreed = [comparison for comparison in found.values() if comparison.compared]
    assert len(agreed) == 202
    assert found[LINKED].compared
    assert [comparison for comparison in agreed if not comparison.equal] == []
    assert min(comparison.quantities for comparison in agreed if comparison.name != REFUSED) > 10


def test_large_records__are_equal_and_say_which_counts_they_print(shared):
    """Six were too large to be simulated, and Timeloop printed the counts of the whole execution all the same."""
    found = compared(shared / "golden" / "timeloop_more" / "cases.jsonl")

    assert len(found) == 8
    assert [comparison.worst_what for comparison in found.values() if not comparison.equal] == []
    assert {name for name, comparison in found.items() if comparison.counts == TWO_ITERATIONS} == {"rs0353"}
    assert {comparison.counts for comparison in found.values()} == {TWO_ITERATIONS, "whole execution"}


WINDOWED = Tensor("Inputs", ((("C", 1),), (("P", 1), ("R", 2)), (("Q", 2), ("S", 1))), "Inputs")
"""Rows with a dilation of 2, columns with a stride of 2."""


@st.composite
def nests(draw):
    """Two levels of temporal loops around a tile; a spatial loop may be equal to a temporal one."""

    def block(most):
        dims = draw(st.lists(st.sampled_from("CPRQSM"), max_size=most, unique=True))
        return tuple(Loop(dim, draw(st.sampled_from([2, 3, 4]))) for dim in dims)

    levels = LevelMapping("DRAM", block(5), x=block(2)), LevelMapping("GLB", block(5)), LevelMapping("RF", block(3))
    return Mapping(levels)


def visited_words(mapping, tensor, level):
    """Words into a tile, with iterations 0 and 1 of each outer temporal loop really visited, 1 for all later ones."""
    inside, outside = dict.fromkeys("CPRQSM", 1), []
    for index in range(len(mapping.levels) - 1, -1, -1):
        at = mapping.levels[index]
        for kind, loops in (("space", (*at.x, *at.y)), ("time", at.temporal[::-1])):
            for loop in loops:
                if index < level and kind == "time":
                    outside.insert(0, (loop, inside[loop.dim]))
                inside[loop.dim] *= loop.bound
        if index == level:
            box = tensor.box(dict(inside))
    words, before, remembered = 0, None, None
    for step in itertools.product((0, 1), repeat=len(outside)):
        stands_for = math.prod(loop.bound - 1 if at else 1 for (loop, _), at in zip(outside, step, strict=True))
        place = dict.fromkeys("CPRQSM", 0)
        for (loop, each), at in zip(outside, step, strict=True):
            place[loop.dim] += at * each
        here = tuple(sum(factor * place[dim] for dim, factor in rank) for rank in tensor.ranks)
        moved = None if before is None else tuple(a - b for a, b in zip(here, before, strict=True))
        before = here
        if moved is None:
            words += math.prod(box)
        elif any(moved):
            ranks = [r for r, far in enumerate(moved) if far]
            if remembered not in (None, moved):
                words, remembered = words + stands_for * math.prod(box), None
                continue
            remembered = moved
            new = [min(box[r], abs(moved[r])) if ranks == [r] else size for r, size in enumerate(box)]
            words += stands_for * math.prod(new)
    return words


@settings(max_examples=150)
@given(nests(), st.sampled_from([1, 2]))
def test_two_iterations__bring_the_words_that_visiting_them_brings(mapping, level):
    assert _default_words(mapping, WINDOWED, level) == visited_words(mapping, WINDOWED, level)


def test_folders__are_equal_but_for_those_that_name_a_reason(shared):
    found = compared(shared / "golden" / "timeloop" / "cases")

    assert len(found) == 66
    assert reasons(found) == {"imperfect": IMPERFECT, "a": SWITCHED}
    assert [comparison for comparison in found.values() if comparison.compared and not comparison.equal] == []


def test_folder__says_the_same_as_its_record(shared):
    golden = shared / "golden" / "timeloop"
    records, folders = compared(golden / "cases.jsonl"), compared(golden / "cases")

    for name, folder in folders.items():
        record = records[name.partition("/")[0]]
        assert (folder.compared, folder.equal) == (record.compared, record.equal), name


MACHINE = {
    "name": "two",
    "levels": [
        {"name": "DRAM", "cls": "DRAM", "mesh": [1, 1], "attrs": {}, "ert": {"read": 100.0, "write": 100.0}},
        {
            "name": "BUF",
            "cls": "SRAM",
            "mesh": [1, 1],
            "attrs": {"entries": 8, "read_bandwidth": 1},
            "ert": {"read": 1.0, "write": 2.0, "update": 4.0},
        },
    ],
    "mac": {"name": "MAC", "cls": "intmac", "mesh": [1, 1], "ert": {"compute": 0.5}},
}
SHAPE = {
    "name": "conv1d",
    "dimensions": ["P", "R"],
    "data_spaces": [
        {"name": "Inputs", "projection": [[["P"], ["R"]]]},
        {"name": "Weights", "projection": [[["R"]]]},
        {"name": "Outputs", "projection": [[["P"]]], "read_write": True},
    ],
}


def held(tile: int, reads: int, fills: int, updates: int, energy_pj: float) -> dict[str, object]:
    return {
        "utilized_capacity": tile,
        "reads": reads,
        "fills": fills,
        "updates": updates,
        "utilized_instances": 1,
        "energy_total_pj": energy_pj,
    }


def small_record() -> dict[str, object]:
    """`for P in 4` at DRAM over `for R in 3` in a buffer, worked by hand.

    12 MACs of 0.5 pJ. Inputs: tile 3, 3 + 3 x 1 = 6 fills, 12 reads. Weights: 3 fills, 12 reads. Outputs: 12 updates, 8
    of words that are there already and read back; each of the 4 leaves once. The buffer's read port carries 12 + 12 + 8
    = 32 words, one a cycle: 32 cycles. Buffer: Inputs 12 x 1 + 6 x 2 = 24 pJ, Weights 12 + 6 = 18, Outputs 8 + 12 x 4 =
    56. DRAM: 6, 3, 4 x 100.
    """
    levels = [
        {"name": "MAC", "tensors": {}, "utilized_instances": 1, "energy_total_pj": 6.0},
        {
            "name": "BUF",
            "tensors": {
                "Inputs": held(3, 12, 6, 0, 24.0),
                "Weights": held(3, 12, 3, 0, 18.0),
                "Outputs": held(1, 8, 0, 12, 56.0),
            },
        },
        {
            "name": "DRAM",
            "tensors": {
                "Inputs": held(6, 6, 0, 0, 600.0),
                "Weights": held(3, 3, 0, 0, 300.0),
                "Outputs": held(4, 0, 0, 4, 400.0),
            },
        },
    ]
    result = {
        "cycles": 32,
        "computes": 12,
        "utilization_exact": 12 / 32,
        "total_energy_pj": 6.0 + 24 + 18 + 56 + 600 + 300 + 400,
        "levels": levels,
        "networks": [],
    }
    mapping = [
        {"target": "DRAM", "type": "temporal", "order": ["P", "R"], "factors": {"P": 4}},
        {"target": "BUF", "type": "temporal", "order": ["P", "R"], "factors": {"R": 3}},
    ]
    instance = {"P": 4, "R": 3}
    return {
        "name": "small",
        "arch": copy.deepcopy(MACHINE),
        "shape": copy.deepcopy(SHAPE),
        "instance": instance,
        "mapping": mapping,
        "result": result,
        "flags": {"default_equals_exact_simulation": True},
    }


def written(folder: Path, *records: dict[str, object]) -> Path:
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def test_record__worked_by_hand_is_equal(tmp_path):
    (found,) = compared(written(tmp_path, small_record())).values()

    assert (found.compared, found.equal, found.reason, found.worst_what) == (True, True, "", "")
    assert found.quantities > 40


WRONG = [
    (("cycles",), 33, "cycles: ours 32, Timeloop's 33"),
    (("cycles",), 31, "cycles: ours 32, Timeloop's 31"),
    (("computes",), 13, "computes: ours 12, Timeloop's 13"),
    (("total_energy_pj",), 1404.001, "total energy: ours 1404"),
    (("levels", 0, "energy_total_pj"), 6.5, "MAC energy"),
    (("levels", 0, "utilized_instances"), 2, "MAC instances used"),
    (("levels", 1, "tensors", "Inputs", "reads"), 13, "BUF Inputs reads: ours 12, Timeloop's 13"),
    (("levels", 1, "tensors", "Inputs", "fills"), 5, "BUF Inputs fills: ours 6, Timeloop's 5"),
    (("levels", 1, "tensors", "Outputs", "updates"), 11, "BUF Outputs updates: ours 12, Timeloop's 11"),
    (("levels", 2, "tensors", "Weights", "utilized_capacity"), 4, "DRAM Weights utilized_capacity: ours 3"),
    (("levels", 2, "tensors", "Weights", "energy_total_pj"), 300.001, "DRAM Weights energy: ours 300"),
    (("levels", 2, "tensors", "Weights", "utilized_instances"), 3, "DRAM Weights utilized_instances: ours 1"),
    (("levels", 2, "leakage_energy_total_pj_2dp"), 0.01, "DRAM leakage, as printed: ours 0"),
]


@pytest.mark.parametrize(("path", "value", "says"), WRONG, ids=[says.partition(":")[0] for _, _, says in WRONG])
def test_record__with_one_wrong_number_is_found_and_named(tmp_path, path, value, says):
    record = small_record()
    place = record["result"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value

    (found,) = compared(written(tmp_path, record)).values()

    assert (found.compared, found.equal) == (True, False)
    assert found.worst_what.startswith(says)


def test_links__are_read_as_often_as_timeloop_rounds(shared):
    """13,312 words pass between 56 instances: 237.7 reads each beside 1,008, which Timeloop prints as 1,246."""
    (found,) = compared(shared / "cases" / "turn3" / "links" / "rs0304.jsonl").values()
    assert found.equal, found.worst_what
    assert found.quantities == 154


@pytest.mark.parametrize("flag", ["imperfect_factors", "link_transfers_matter", "env_switch"])
def test_record__with_a_flag_of_other_rules_is_not_compared(tmp_path, flag):
    record = small_record()
    record["flags"][flag] = True
    record["result"]["cycles"] = 33

    (found,) = compared(written(tmp_path, record)).values()

    assert (found.compared, found.equal, found.quantities) == (False, True, 0)
    assert found.reason


def test_record__of_rounding_is_not_compared_only_where_it_differs(tmp_path):
    same, other = small_record(), small_record()
    same["flags"]["refmodel_agrees"] = other["flags"]["refmodel_agrees"] = False
    other["result"]["levels"][1]["tensors"]["Inputs"]["fills"] = 5

    (found,) = compared(written(tmp_path, same)).values()
    assert (found.compared, found.equal) == (True, True)
    (found,) = compared(written(tmp_path, other)).values()
    assert (found.compared, found.equal) == (False, True)
    assert "BUF Inputs fills is 6, truncated to 5" in found.reason


def test_record__with_a_tensor_more_or_less_is_found(tmp_path):
    more, less = small_record(), small_record()
    del less["result"]["levels"][1]["tensors"]["Weights"]
    more["mapping"].append({"target": "BUF", "type": "bypass", "bypass": ["Weights"], "keep": []})

    for record in (more, less):
        (found,) = compared(written(tmp_path, record)).values()
        assert not found.equal


def test_error_record__is_equal_where_we_refuse_the_mapping_too(tmp_path):
    """Tiles of 3 + 3 + 1 words: too many for 6 entries, not for 8."""
    refused, fits = small_record(), small_record()
    for record, entries in ((refused, 6), (fits, 8)):
        record["arch"]["levels"][1]["attrs"]["entries"] = entries
        record["error"] = "couldn't map level BUF"
        del record["result"]

    (found,) = compared(written(tmp_path, refused)).values()
    assert (found.compared, found.equal, found.quantities) == (True, True, 1)
    (found,) = compared(written(tmp_path, fits)).values()
    assert (found.compared, found.equal) == (True, False)


def test_golden_record__with_one_count_off_by_one_is_found_and_named(shared, tmp_path):
    golden = shared / "golden" / "timeloop"
    lines = (golden / "cases.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    (wrong,) = [record for record in records if record["name"] == SAMPLE]
    wrong["result"]["levels"][1]["tensors"]["Inputs"]["reads"] += 1
    for catalogue in ("architectures.json", "shapes.json"):
        shutil.copy(golden / catalogue, tmp_path)

    found = compared(written(tmp_path, *records))

    assert [comparison.name for comparison in found.values() if not comparison.equal] == [SAMPLE]
    assert found[SAMPLE].worst_what == "Buffer Inputs reads: ours 18432, Timeloop's 18433"


def test_golden_folder__with_a_cycle_too_many_or_few_is_found(shared, tmp_path):
    source = shared / "golden" / "timeloop" / "cases" / SAMPLE
    theirs = json.loads((source / "result.json").read_text())
    for off in (-1, 1):
        shutil.copytree(source, tmp_path / str(off))
        changed = copy.deepcopy(theirs)
        changed["result"]["cycles"] += off
        (tmp_path / str(off) / "result.json").write_text(json.dumps(changed))

    found = compared(tmp_path)

    assert [comparison.equal for comparison in found.values()] == [False, False]
    assert all(comparison.worst_what.startswith("cycles: ours 18432") for comparison in found.values())


def test_folder__without_a_result_says_so(shared, tmp_path):
    shutil.copy(shared / "golden" / "timeloop" / "cases" / SAMPLE / "input.yaml", tmp_path)

    (found,) = compared(tmp_path).values()

    assert not found.compared
    assert "result.json is missing" in found.reason


def test_paths__without_records_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "cases.txt"):
        with pytest.raises(AccelsimError, match=str(path.name)):
            validate_timeloop([path])
    (tmp_path / "x.stats.txt").write_text("Cycles: 8\n")
    with pytest.raises(
        AccelsimError, match=r"beside it; `python -m validation.timeloop_files` takes Timeloop's stats.txt and inputs"
    ):
        validate_timeloop([tmp_path / "x.stats.txt"])


@pytest.mark.parametrize("text", ["{", "[]", "3", '"name"', "null", "{}", '{"name": "x"', "\x00"])
def test_line__that_is_no_record_is_named_by_its_place(tmp_path, text):
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(small_record()) + "\n\n" + text + "\n")

    with pytest.raises(AccelsimError, match=r"cases\.jsonl:3:1: "):
        validate_timeloop([file])


def test_folder__of_broken_files_is_not_compared(shared, tmp_path):
    source = shared / "golden" / "timeloop" / "cases" / SAMPLE
    broken = {
        "yaml": ("input.yaml", "a: [b"),
        "json": ("result.json", "{"),
        "empty": ("input.yaml", ""),
        "number": ("input.yaml", "3"),
        "bytes": ("input.yaml", "\x00"),
    }
    for name, (file, text) in broken.items():
        shutil.copytree(source, tmp_path / name)
        (tmp_path / name / file).write_text(text)

    found = compared(tmp_path)

    assert len(found) == len(broken)
    for comparison in found.values():
        assert not comparison.compared
        assert comparison.reason.startswith("cannot be read: ")


def places(node: object, here: tuple = ()) -> list[tuple]:
    """Keys to every value in nested JSON."""
    found = [here] if here else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found += places(value, (*here, key))
    return found


@settings(max_examples=400)
@given(
    st.sampled_from(places(small_record())),
    st.sampled_from([None, -1, 0, 1.5, "x", "", [], {}, [[]], [{}], 2**70, True, "DELETE"]),
)
def test_record__with_anything_broken_is_compared_or_says_why_not(tmp_path_factory, path, value):
    record = small_record()
    place = record
    for key in path[:-1]:
        place = place[key]
    if value == "DELETE":
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(value)
    file = written(tmp_path_factory.mktemp("broken"), record)
    try:
        (found,) = validate_timeloop([file])
    except AccelsimError:
        return
    assert found.compared or found.reason


def test_depth__is_in_blocks():
    """Timeloop's `depth` counts rows of `block_size` words; `entries` counts words."""
    sizes = ({"depth": 4, "block_size": 8}, {"depth": 4}, {"entries": 9, "depth": 4, "block_size": 8}, {})
    parts = [Part("BUF", Map(Mark("", 1, 1)), "SRAM", attributes, (1, 1)) for attributes in sizes]
    assert [part.words for part in parts] == [32, 4, 9, None]
