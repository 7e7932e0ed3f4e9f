"""Files of Timeloop that `export` writes: what they come to when they are read again, and what is refused."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import cases, ragged_case, random_case
from timeloop_files import needs_files, references

from accelsim.importers.documents import parse
from accelsim.importers.timeloop_export import CLASSIC, MAPPING, export_timeloop
from accelsim.importers.timeloop_inputs import convert
from accelsim.inputs.architecture import Axis, load_architecture
from accelsim.inputs.constraints import Block, Constraints, LevelConstraint
from accelsim.inputs.energies import EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import load_mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.model.sparsity.evaluate import evaluate_sparse
from accelsim.search.mapper import map_einsum


def read_back(files, mapping=MAPPING):
    """What the written files come to, with one of both forms of the mapping."""
    other = {MAPPING: CLASSIC, CLASSIC: MAPPING}[mapping]
    return convert([parse(text, name) for name, text in files.items() if name != other])


def loaded(foreign):
    architecture = load_architecture({"architecture": foreign.architecture})
    einsum = load_workload({"workload": foreign.workload}).layers[0]
    return architecture, einsum, load_mapping({"mapping": foreign.mapping}, architecture, einsum)


def round_trip(architecture, einsum, mapping, *, roles=True):
    """Export, import, export again and import that: files and imports are the same, and so are energy and cycles.

    `roles`: the tensors have the roles of their names, or of their order; else the machine keeps others at first.
    """
    made = export_timeloop(architecture, einsum, mapping)
    first = read_back(made.files)
    case = loaded(first)
    again = export_timeloop(*case)
    second = read_back(again.files)
    assert read_back(made.files, CLASSIC).documents() == first.documents()
    assert again.files[MAPPING] == made.files[MAPPING]
    assert again.files == (made if roles else export_timeloop(*loaded(second))).files
    assert second.mapping == first.mapping
    assert not roles or second.texts([]) == first.texts([])
    ours, theirs = evaluate(architecture, einsum, mapping), evaluate(*case)
    assert (theirs.valid, theirs.cycles) == (True, ours.cycles)
    assert theirs.energy_pj == pytest.approx(ours.energy_pj, rel=1e-9)
    return made, first


@pytest.mark.parametrize("workload", ["vgg_conv3_2", "gemm", "batched_gemm"])
@pytest.mark.parametrize(
    "machine", ["eyeriss", "simba", "simba_like", "nvdla", "nvdla_cvsram", "nvdla_small", "systolic", "two_level"]
)
def test_shipped_machines__come_back_with_their_optimum(machine, workload):
    """Timeloop has no form for a dimension on both axes: sums alone run down the columns of the systolic array."""
    architecture, einsum = load_architecture(machine), load_workload(workload).layers[0]
    columns = next(tensor.dims for tensor in einsum.tensors if tensor.output)
    x, y = Block(only=columns), Block(only=frozenset(einsum.dims) - columns)
    rules = [LevelConstraint(level.name, x=x, y=y) for level in architecture.levels if level.systolic]
    found = map_einsum(architecture, einsum, constraints=Constraints(tuple(rules)), method="exact", uneven=False)
    round_trip(architecture, einsum, found.best.mapping)


@needs_files
def test_foreign_mappings__come_back_byte_for_byte():
    """Mapping, layer and levels of all references; of the machine only the file that its energies name is another."""
    from accelsim.importers.foreign import read_foreign

    for _, files in references():
        foreign = read_foreign(files)
        _, first = round_trip(*loaded(foreign))
        given_texts, texts = foreign.texts([]), first.texts([])
        assert (texts["mapping"], texts["workload"]) == (given_texts["mapping"], given_texts["workload"])
        source = foreign.architecture["compute"]["energy"]["source"]
        lines = " ".join(texts["architecture"].replace("the ERT ERT.yaml", source).split())  # the name may break a line
        assert lines == " ".join(given_texts["architecture"].split())


@given(cases(macs=64, max_levels=4))
def test_random_mappings__come_back_or_are_refused(case):
    architecture, einsum, mapping = case
    entries = {key: entry for key, entry in architecture.energy.entries.items() if key[2] != "return"}
    architecture = replace(architecture, energy=EnergyTable(entries))
    if not evaluate(architecture, einsum, mapping).valid:
        return
    try:
        export_timeloop(architecture, einsum, mapping)
    except AccelsimError:
        return
    round_trip(architecture, einsum, mapping, roles=False)


def plain(architecture):
    """The machine without what Timeloop has no form for."""
    levels = [
        replace(
            level, x=Axis(level.x.size), y=Axis(level.y.size), drain_reads=False, power_gateable=True, bandwidth=None
        )
        for level in architecture.levels
    ]
    energies = {
        (name, "*" if action in ("read", "write", "update", "transfer") else role, action): entry
        for (name, role, action), entry in architecture.energy.entries.items()
        if action != "return"
        and (action != "transfer" or name.split()[0] in {level.name for level in levels if level.fanout > 1})
    }
    compute = replace(architecture.compute, cycles_per_mac=1)
    return replace(architecture, levels=tuple(levels), energy=EnergyTable(energies), compute=compute)


def test_random_mappings__of_plain_machines_come_back():
    """What is refused has elements of several words, or a dimension on both axes of one network."""
    said = Counter()
    for seed in range(80):
        architecture, einsum, mapping = random_case(random.Random(seed), 24, 4)
        tensors = tuple(replace(tensor, bits=8, psum_bits=8) for tensor in einsum.tensors)
        case = plain(architecture), replace(einsum, tensors=tensors), mapping
        if len(tensors) > 1 and evaluate(*case).valid:
            try:
                round_trip(*case, roles=False)
                said["same"] += 1
            except AccelsimError as error:
                said[str(error)[:200]] += 1
    assert said.pop("same") > 20
    assert not [why for why in said if "on both axes" not in why and "bandwidth" not in why]


@given(st.integers(0, 10**6))
def test_remainders__are_the_digits_of_the_last_place(seed):
    """`K=4,3`: the last passes of all loops over K end at its last place (Ruby, ISPASS 2022, Section III)."""
    architecture, einsum, mapping = ragged_case(random.Random(seed), 60)
    if not mapping.imperfect or not evaluate(architecture, einsum, mapping).valid:
        return
    try:
        made, _ = round_trip(architecture, einsum, mapping, roles=False)
    except AccelsimError:
        return
    for dim, bound in einsum.dims.items():
        place = 0
        for directive in parse(made.files[MAPPING], "").body["mapping"]:
            for factor in directive.get("factors", ()):
                name, _, bounds = factor.partition("=")
                if name == dim:
                    whole, _, last = bounds.partition(",")
                    place = place * int(whole) + int(last or whole) - 1
        assert place == bound - 1


def small():
    """A machine of two levels with a fanout of 4 x 2, and a GEMM of 7 x 4 x 2."""
    machine = {
        "name": "small", "technology": "45 nm", "energy_table": "reference_45nm",
        "levels": [
            {"name": "DRAM", "class": "DRAM", "word": "16 bit"},
            {"name": "GLB", "class": "SRAM", "size": "2 KiB", "word": "16 bit", "fanout": {"x": 4, "y": 2},
             "energy": {"read": "1 pJ", "write": "2 pJ", "source": "test"}},
            {"name": "RF", "class": "regfile", "size": "64 B", "word": "16 bit",
             "energy": {"read": "0.1 pJ", "write": "0.2 pJ", "source": "test"}},
        ],
        "compute": {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "test"}},
    }  # fmt: skip
    machine["levels"][0]["energy"] = {"read": "100 pJ", "write": "100 pJ", "source": "test"}
    del machine["energy_table"]
    return load_architecture({"architecture": machine}), load_workload(
        {"workload": {"name": "g", "gemm": {"M": 7, "N": 4, "K": 2}}}
    ).layers[0]


def mapped(architecture, einsum, **levels):
    given = [{"level": level.name, **levels.get(level.name, {})} for level in architecture.levels]
    more = {key: value for key, value in levels.items() if key in ("imperfect", "padded")}
    keep = {"keep": [tensor.name for tensor in einsum.tensors]}
    return load_mapping({"mapping": {**more, "levels": [keep | level for level in given]}}, architecture, einsum)


def test_remainders__by_hand():
    """Place 6 of M = 7 is 3 x 2 + 0: the last of three passes has a single step."""
    architecture, einsum = small()
    mapping = mapped(
        architecture, einsum, imperfect=["M"],
        DRAM={"temporal": ["M=3", "N=4", "K=2"]}, GLB={"spatial": {"x": ["M=3"]}},
    )  # fmt: skip
    made, first = round_trip(architecture, einsum, mapping)
    assert "M=3,1" in made.files[MAPPING]
    assert first.mapping["imperfect"] == ["M"]
    assert any("M: Timeloop's own counts are wrong" in note for note in made.notes)


def test_a_dimension_on_both_axes__goes_to_one_or_needs_two_containers():
    architecture, einsum = small()
    one = mapped(architecture, einsum, DRAM={"temporal": ["M=7"]},
                 GLB={"temporal": ["K=2"], "spatial": {"x": ["N=2"], "y": ["N=2"]}})  # fmt: skip
    made, first = round_trip(architecture, einsum, one)
    assert first.mapping["levels"][1]["spatial"] == {"x": ["N=4"]}
    wide = replace(einsum, dims={**einsum.dims, "N": 8})
    both = mapped(architecture, wide, DRAM={"temporal": ["M=7"]},
                  GLB={"temporal": ["K=2"], "spatial": {"x": ["N=4"], "y": ["N=2"]}})  # fmt: skip
    made, first = round_trip(architecture, wide, both)
    assert [level["name"] for level in first.architecture["levels"]] == ["DRAM", "GLB", "GLB_fanout_y", "RF"]
    assert "Timeloop has no dimension on both axes of a fanout (GLB); it changes nothing here" in made.notes


def test_padding__is_in_the_problem():
    architecture, einsum = small()
    mapping = mapped(architecture, einsum, padded=["M=8"],
                     DRAM={"temporal": ["M=2", "N=4", "K=2"]}, GLB={"spatial": {"x": ["M=4"]}})  # fmt: skip
    made, first = round_trip(architecture, einsum, mapping)
    assert first.workload["einsum"]["dims"]["M"] == 8
    assert "M is padded from 7 to 8" in made.notes


def test_uneven_mappings__are_refused():
    architecture, einsum = small()
    mapping = mapped(architecture, einsum, DRAM={"temporal": ["M=7", "N=4", "K=2"]})
    outer, glb, inner = mapping.levels
    first, second = (replace(glb, keep=frozenset({name})) for name in ("Inputs", "Weights"))
    uneven = replace(mapping, levels=(outer, first, second, inner))
    with pytest.raises(AccelsimError, match="uneven: a level keeps tensors at loops of their own"):
        export_timeloop(architecture, einsum, uneven)


def test_words__an_element_of_several_is_one_word_of_timeloop():
    """16 bit in words of 8 bit: half the words and bandwidth, twice the accesses of 8 bit each."""
    architecture, einsum = small()
    narrow = tuple(
        replace(level, word_bits=8, size_words=level.size_words and level.size_words * 2)
        for level in architecture.levels
    )
    machine = replace(architecture, levels=narrow, sized={})
    mapping = mapped(machine, einsum, DRAM={"temporal": ["M=7", "N=4", "K=2"]})
    made, first = round_trip(machine, einsum, mapping)
    assert "{datawidth: 16, block_size: 1, width: 16, depth: 1024}" in made.files["architecture.yaml"]
    assert first.architecture["levels"][2]["energy"]["read"] == "0.2 pJ"
    mixed = replace(einsum, tensors=tuple(replace(t, bits=8 if t.name == "Inputs" else 16) for t in einsum.tensors))
    with pytest.raises(AccelsimError, match=r"DRAM: elements take 1 \(Inputs\), 2 \(Weights\), 2 \(Outputs\) words"):
        export_timeloop(machine, mixed, mapping)


def test_energies_by_tensor__are_refused():
    architecture, einsum = small()
    entries = dict(architecture.energy.entries)
    entries["GLB", "Inputs", "read"] = replace(entries["GLB", "*", "read"], energy_pj=9.0)
    machine = replace(architecture, energy=EnergyTable(entries))
    mapping = mapped(machine, einsum, DRAM={"temporal": ["M=7", "N=4", "K=2"]})
    with pytest.raises(AccelsimError, match="GLB: 'read' costs 1, 9 pJ by tensor; Timeloop has one energy"):
        export_timeloop(machine, einsum, mapping)


def test_command__writes_beside_the_result_and_reads_back(run, tmp_path):
    """The proved mapping of a run, and the same mapping by its files."""
    assert run("map", "eyeriss", "gemm", "--mapspace", "even", "--factors", "perfect", "-o", tmp_path / "run")[0] == 0
    code, out, _ = run("export", "timeloop", tmp_path / "run")
    assert (code, "a transfer: its total is 335,544,320 pJ less" in out) == (0, True)
    folder = tmp_path / "run/timeloop"
    assert run("export", "timeloop", "eyeriss", "gemm", tmp_path / "run/mapping.yaml", "-o", tmp_path / "other")[0] == 0
    for name in ("architecture.yaml", "problem.yaml", "mapping.yaml", "ERT.yaml", "v0.3/mapping.yaml"):
        assert (folder / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert run("import", *sorted(folder.glob("*.yaml")), "-o", tmp_path / "back")[0] == 0
    _, out, _ = run(
        "eval", *(tmp_path / "back" / f"{kind}.yaml" for kind in ("architecture", "workload", "mapping")), "--json"
    )
    assert '"energy_pj": 4614782976.0' in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["timeloop", "absent"], "absent: no such file or folder"),
        (["timeloop", "eyeriss", "gemm"], "expected the folder of a result, or ARCH WORKLOAD MAPPING, got 2 names"),
        (["timeloop", "eyeriss", "conv", "eyeriss_row_stationary"], "-o names the folder to write"),
        (["maestro", "absent"], "no exporter 'maestro'; exporters: timeloop, zigzag, accelforge"),
        (["timeloop", "."], "holds no result.json"),
    ],
)
def test_command__says_what_is_wrong(run, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("export", *arguments)
    assert (code, out, said in err) == (2, "", True), err


def test_networks_without_reduction__are_refused_where_it_bites():
    architecture, einsum = small()
    apart = replace(architecture.levels[1], x=Axis(4, spatial_reduction=False))
    machine = replace(architecture, levels=(architecture.levels[0], apart, architecture.levels[2]), sized={})
    fine = mapped(machine, einsum, DRAM={"temporal": ["M=7", "K=2"]}, GLB={"spatial": {"x": ["N=4"]}})
    made, _ = round_trip(machine, einsum, fine)
    what = "network without spatial reduction (axis x below GLB)"
    assert made.notes == (f"Timeloop has no {what}; it changes nothing here",)
    summed = mapped(machine, einsum, DRAM={"temporal": ["M=7", "N=4"]}, GLB={"spatial": {"x": ["K=2"]}})
    with pytest.raises(AccelsimError, match=r"it has no network without spatial reduction \(axis x below GLB\)"):
        export_timeloop(machine, einsum, summed)


def test_export__of_a_bitmask_has_the_bits_that_its_file_need_not_name():
    """Timeloop would take a word of metadata for each."""
    pj = {"read": "1 pJ", "write": "1 pJ", "metadata_read": "1 pJ", "metadata_write": "1 pJ"}
    masked = {"formats": {"Weights": ["B"]}, "metadata": {"width": "8 bit", "word": "4 bit"}, "energy": pj}
    main = {"name": "Main", "word": "16 bit", "energy": {"read": "9 pJ", "write": "9 pJ"}}
    buffer = {"name": "Buffer", "word": "16 bit", "size": "2 KiB", **masked}
    compute = {"name": "MAC", "energy": {"compute": "1 pJ"}}
    machine = load_architecture({"architecture": {"name": "m", "levels": [main, buffer], "compute": compute}})
    gemm = {"name": "gemm", "gemm": {"M": 8, "N": 8, "K": 8}, "densities": {"Weights": 0.5}}
    einsum = load_workload({"workload": gemm}).layers[0]
    mapping = map_einsum(machine, einsum, uneven=False).best.mapping
    case = loaded(read_back(export_timeloop(machine, einsum, mapping).files))
    ours, theirs = (
        evaluate_sparse(arch, layer, evaluate(arch, layer, nest))
        for arch, layer, nest in ((machine, einsum, mapping), case)
    )
    assert [one.held_bits for one in ours.tensors] == [one.held_bits for one in theirs.tensors]
    assert sum(one.held_bits for one in ours.tensors) > 0
