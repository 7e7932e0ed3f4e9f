"""SCALE-Sim's configurations and topologies: systolic arrays below three SRAMs, and the layers that run on them."""

from __future__ import annotations

import pytest

from accelsim import load_architecture, load_constraints, load_workload
from accelsim.importers.foreign import Foreign, read_foreign
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from tests.conftest import REPOSITORY
from validation.scalesim import DATAFLOWS, read_cases

CONFIGURATION = """[general]
run_name = chip

[architecture_presets]
ArrayHeight:    %d
ArrayWidth:     %d
IfmapSramSzkB:    64
FilterSramSzkB:   32
OfmapSramSzkB:    16
IfmapOffset:    0
Dataflow : %s
Bandwidth : 10, 20
MemoryBanks: 1

[run_presets]
InterfaceBandwidth: %s
"""
HEAD = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"


@pytest.fixture
def read(tmp_path):
    """Read files by their names and texts, together."""

    def of(**texts: str) -> Foreign:
        paths = []
        for name, text in texts.items():
            paths.append(tmp_path / name.replace("_", "."))
            paths[-1].write_text(text)
        return read_foreign(paths)

    return of


def test_folds__take_the_cycles_of_scale_sim_and_satisfy_the_constraints(read):
    seen = set()
    for case in read_cases(REPOSITORY / "tests" / "golden" / "scalesim.csv"):
        sizes = ",".join(str(case.bounds[dim]) for dim in "MNK")
        made = read(
            chip_cfg=CONFIGURATION % (case.rows, case.columns, case.dataflow, "CALC"),
            layers_csv=f"Layer, M, N, K,\nproduct,{sizes},\n",
        )
        machine = load_architecture({"architecture": made.architecture})
        layer = load_workload({"workload": made.workload}).layers[0]
        down, along, stream = DATAFLOWS[case.dataflow]
        rows, columns = min(case.rows, case.bounds[down]), min(case.columns, case.bounds[along])
        folds = (Loop(down, -(-case.bounds[down] // rows)), Loop(along, -(-case.bounds[along] // columns)))
        uneven = {
            loop.dim
            for loop, size in zip(folds, (rows, columns), strict=True)
            if loop.bound * size > case.bounds[loop.dim]
        }
        nest = {"DRAM": (*folds, Loop(stream, case.bounds[stream]))}
        spread = {"IfmapSRAM": ((Loop(along, columns),), (Loop(down, rows),))}
        mapping = Mapping(
            tuple(
                LevelMapping(level.name, nest.get(level.name, ()), *spread.get(level.name, ((), ())), level.keep)
                if index
                else LevelMapping(level.name, nest[level.name], keep=frozenset({"Weights", "Inputs", "Outputs"}))
                for index, level in enumerate(machine.levels)
            ),
            imperfect=frozenset(uneven),
        )
        constraints = load_constraints({"constraints": made.constraints}, machine, layer)
        assert not constraints.broken_by(mapping, layer)
        published = case.counts["total_cycles"] + 1 - case.counts["stall_cycles"]
        assert evaluate(machine, layer, mapping).cycles == published
        if not uneven:
            best = map_einsum(machine, layer, constraints=constraints, objective="cycles", uneven=False).best
            assert best.cycles <= published
            seen.add(case.dataflow)
    assert seen == {"os", "ws", "is"}


def test_srams__hold_one_tensor_each_twice_and_share_no_interface(read):
    machine = load_architecture({"architecture": read(a_cfg=CONFIGURATION % (8, 4, "os", "USER")).architecture})
    dram, ofmap, weights, ifmap, pe = machine.levels
    assert [level.keep for level in (ofmap, weights, ifmap)] == [{"Outputs"}, {"Weights"}, {"Inputs"}]
    assert [level.size_words for level in (ofmap, weights, ifmap)] == [16 << 10, 32 << 10, 64 << 10]
    assert {level.multiple_buffering for level in (ofmap, weights, ifmap)} == {2}
    assert (dram.write_bandwidth, weights.write_bandwidth, ifmap.write_bandwidth) == (10, 10, 10)
    assert (dram.read_bandwidth, ofmap.write_bandwidth, ifmap.read_bandwidth) == (20, None, 8)
    assert (ifmap.x.size, ifmap.y.size, pe.keep) == (4, 8, {"Outputs"})


@pytest.mark.parametrize(("rows", "columns"), [(8, 4), (4, 8)])
def test_srams__give_all_that_the_longer_side_of_the_array_takes(read, rows, columns):
    machine = load_architecture(
        {"architecture": read(a_cfg=CONFIGURATION % (rows, columns, "os", "USER")).architecture}
    )
    assert [level.read_bandwidth for level in machine.levels[1:4]] == [None, 8, 8]


def test_srams__of_version_3_have_interfaces_of_their_own(read):
    text = CONFIGURATION % (8, 4, "ws", "USER")
    machine = load_architecture(
        {"architecture": read(a_cfg=text + "[layout]\nIfmapSRAMBankBandwidth : 7\n").architecture}
    )
    assert [level.write_bandwidth for level in machine.levels] == [10, None, 10, 7, None]


def test_layers__are_convolutions_without_padding_products_or_one_for_each_channel(read):
    rows = "conv,10,9,3,2,4,8,2,\nconv,10,9,3,2,4,8,1, 2:4,\n\n DP_1, 5, 5, 3, 3, 6, 2, 1,\n"
    made = read(net_csv=HEAD + rows)
    conv, again, depthwise = load_workload({"workload": made.workload}).layers
    assert (conv.name, again.name, depthwise.name) == ("conv", "conv_2", "DP_1")
    assert (conv.macs, again.macs) == (5 * 5 * 3 * 2 * 4 * 8, 8 * 8 * 3 * 2 * 4 * 8)  # ceil((10 - 3 + 2) / 2) rows
    assert depthwise.macs == 3 * 3 * 3 * 3 * 6 * 2
    assert [(note.key, note.of) for note in made.notes] == [("sparsity 2:4", "conv_2")]
    two = HEAD.replace("Strides", "Stride height, Stride width") + "conv,9,9,3,3,1,1,2,3,\n"
    (strided,) = load_workload({"workload": read(two_csv=two).workload}).layers
    assert (strided.dims["P"], strided.dims["Q"]) == (4, 3)
    (product,) = load_workload({"workload": read(mnk_csv="Layer,M,N,K,\nG,7,1,5,\n").workload}).layers
    assert (dict(product.dims), product.tensors[0].bits) == ({"M": 7, "N": 1, "K": 5}, 8)


def test_rows__may_have_headings_remarks_tabs_and_sizes_behind_the_usual_ones(read):
    rows = "\n,,,,,,,,\nAlexnet,\nConv2_dw, 112, 112, 3, 3, 1, 1, 1,#dw\nConv11,28,28,1,1,256,256,1\n"
    rows += "FC, 9, 9, 3, 3, 3, 8, 2, 2\n"
    plain = load_workload({"workload": read(a_csv="\ufeff" + HEAD + rows).workload}).layers
    assert [(each.name, each.macs) for each in plain] == [
        ("Conv2_dw", 110 * 110 * 9), ("Conv11", 28 * 28 * 256 * 256), ("FC", 4 * 4 * 9 * 3 * 8),
    ]  # fmt: skip
    tabs = read(b_csv=(HEAD + rows).replace(", ", "\t").replace(",", "\t"))
    assert load_workload({"workload": tabs.workload}).layers == plain
    batch = read(c_csv=HEAD.replace("Strides", "Strides, Batch Size") + "Attention,8,8,1,1,4,2,2,3,\n")
    (images,) = load_workload({"workload": batch.workload}).layers
    assert (images.dims["N"], images.macs) == (3, 3 * 5 * 5 * 4 * 2)
    heads = read(d_csv="Layer Name, M, N, K, Batch,\nscores, 3, 5, 16, 12,\nmixed, 3, 5, 16, 1:4,\n")
    scores, mixed = load_workload({"workload": heads.workload}).layers
    assert [scores.macs, mixed.macs, *({"B"} <= each.dims for each in scores.tensors)] == [12 * 240, 240, *[True] * 3]


def test_indented__configurations_are_read_as_configparser_does(read):
    text = CONFIGURATION % (8, 4, "ws", "USER")
    plain, indented = read(a_cfg=text), read(b_cfg="".join(f"    {line}\n" for line in text.splitlines()))
    assert (indented.architecture, indented.constraints) == (plain.architecture, plain.constraints)


def test_words__of_a_configuration_may_be_in_any_case(read):
    small, large = (read(a_cfg=CONFIGURATION % (8, 4, *words)) for words in (("ws", "USER"), ("WS", "user")))
    assert small == large


def test_first_line__of_numbers_is_said_to_be_no_layer(read):
    made = read(a_csv="conv1,5,5,3,3,4,8,1,\nconv2,5,5,3,3,4,8,1,\n")
    assert [layer["name"] for layer in made.workload["layers"]] == ["conv2"]
    assert str(made.notes[0]).endswith("conv1: is the first line, which SCALE-Sim takes for names of columns")


def test_keys_of_other_versions__are_read_or_said(read):
    text = (CONFIGURATION % (8, 4, "ws", "USER")).replace("SramSzkB", "SramSz").replace("chip", '"chip"')
    made = read(old_cfg=text + '[network_presets]\nTopologyCsvLoc: "./net.csv"\n')
    assert (made.architecture["name"], made.architecture["levels"][2]["size"]) == ("chip", "32 KiB")
    assert [str(note).partition("old.cfg")[2] for note in made.notes[1:]] == [
        ":18:1: topologycsvloc: is not read from here; name that file too"
    ]
    text = CONFIGURATION % (8, 4, "ws", "USER") + "UseRamulatorTrace: True\nTimeLinearModel: False\n[layout]\n"
    text += "FilterCustomLayout: True\nIfmapCustomLayout: False\nIfmapSRAMBankNum: 4\n[gpu]\nTensorCores: 32\n"
    layout = "Layer name, IFMAP Height Intraline Factor, IFMAP Width Intraline Factor, x,\nConv1, 1, 2, 3,\n"
    made = read(
        a_cfg=text + "[sparsity]\nSparsitySupport : true\n", layout_csv=layout, net_csv="Layer,M,N,K\n1,2,3,4\n"
    )
    assert [note.key for note in made.notes if note.key != "clock"] == [
        "layout", "useramulatortrace", "filtercustomlayout", "tensorcores", "sparsitysupport",
    ]  # fmt: skip
    assert len(made.workload["layers"]) == 1


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a_cfg", CONFIGURATION % (8, 4, "rs", "CALC"), ":11:1: Dataflow: expected one of"),
        (
            "a_cfg",
            (CONFIGURATION % (8, 4, "ws", "CALC")).replace("Dataflow : ws", ""),
            ":4:1: Dataflow: expected one of ws",
        ),
        ("a_cfg", CONFIGURATION % (8, 4, "ws", "MAX"), ":16:1: InterfaceBandwidth: expected USER or CALC"),
        ("a_cfg", CONFIGURATION % (0, 4, "ws", "CALC"), ":5:1: expected a whole number from 1 on, got '0'"),
        ("a_cfg", "[architecture_presets]\nArrayHeight: 8\nDataflow: ws\n", ":1:1: 'arraywidth' is missing"),
        ("a_cfg", "[architecture_presets]\nArrayHeight: 8\nDataflow: ws\n", ":1:1: 'filtersramszkb' is missing"),
        ("a_csv", HEAD[:-1] + " Groups,\nconv,5,5,3,3,4,8,1,4,\n", ":1:1: Groups: SCALE-Sim has the stride along"),
        ("a_cfg", "ArrayHeight: 8\n", ":1:1: expected `key: value`, below a `[section]`"),
        ("a_cfg", "[architecture_presets]\nDataflow: ws\nno key\n", ":3:1: expected `key: value`"),
        ("a_csv", HEAD + "conv,2,9,3,2,4,8,2,\n", ":2:1: a filter of 3 does not lie in an input of 2"),
        ("a_csv", HEAD + "conv,5,5,3,3,\n", ":2:1: expected 3 sizes of a product, or 7 of a convolution, got 4"),
        ("a_csv", HEAD + "conv,5,5,3,3,4,8,x,\n", ":2:1: conv: Strides: expected a whole number from 1 on, got 'x'"),
        ("a_csv", HEAD + "conv,5,5,3,3,4,0,1,\n", ":2:1: conv: Num Filter: expected a whole number from 1 on, got '0'"),
        ("a_csv", HEAD + "LSTM_gate,1,B,1,1,H,H,1,\n", ":2:1: LSTM_gate: IFMAP Width: expected a whole number"),
        ("a_csv", HEAD + "FC, 1, 1, 1, ,1 2, 2, 1,\n", ":2:1: FC: Filter Width: expected a whole number"),
        ("a_csv", "Layer,M,N,K\n1,2,3,4,5,6x\n", ":2:1: 1: a size: expected a whole number"),
        ("a_csv", "a,b\n1,2\n", ":2:1: expected 3 sizes of a product, or 7 of a convolution, got 1"),
        ("a_csv", "Layer name;M;N;K\nG;1;2;3\n", ":1:1: no layers below the first line"),
        ("a_csv", HEAD, ":1:1: no layers below the first line"),
        ("a_csv", "", ":1:1: the file is empty"),
        ("a_cfg", "", ":1:1: 'architecture_presets' is missing"),
        ("a_cfg", "arch =\n{\n  storage = ( );\n};\n", "; libconfig, as of Timeloop's first versions"),
        ("a_cfg", "[general]\na: 1\n[general]\na: 2\n", ":3:1: expected `key: value`, below a `[section]`; each once"),
    ],
)
def test_mistakes__have_their_place(read, name, text, says):
    with pytest.raises(AccelsimError) as caught:
        read(**{name: text})
    assert says in str(caught.value)


def test_command__maps_a_topology_on_a_configuration(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chip.cfg").write_text(CONFIGURATION % (4, 4, "ws", "USER"))
    (tmp_path / "net.csv").write_text("Layer,M,N,K,\none,8,4,4,\ntwo,16,4,8,\n")
    code, out, err = run("map", "chip.cfg", "net.csv", "--objective", "cycles", "--quiet")
    assert (code, "2 of 2 layers optimal (proved)" in out, "a clock of 1 GHz is taken" in err) == (
        0,
        True,
        True,
    )
    assert run("map", "chip.cfg", "depthwise", "--quiet")[0] == 0  # of 16 bit, of which a PE holds one word too
    (tmp_path / "semi.csv").write_text("Layer;M;N;K\none;8;4;4\n")
    code, _, err = run("map", "systolic", "semi.csv")
    assert (code, err.startswith("semi.csv:1:1: no layers below the first line; each is a name and 3 sizes")) == (
        2,
        True,
    )
    (tmp_path / "rows.yaml").write_text("[[1, 2, 3, 4], [a, 1, 2, 3]]\n")
    assert run("map", "rows.yaml", "conv")[0] == 2  # YAML, and no topology
    code, _, err = run("map", "chip.cfg", "chip.csv")
    assert (code, "chip.csv" in err) == (2, True)
