"""NVDLA's performance sheet: equal to its own figures, worked by hand, and held against the best mappings."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import pytest

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import LevelMapping, Mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from validation.nvdla import configured_machine, layer_einsum, mapped_layers, nvdla_study, winograd_einsum
from validation.nvdla_sheet import (
    Configuration,
    SheetNetwork,
    dram_kib,
    mac_cycles,
    network_cycles,
    rtl_run,
    sheet_configurations,
    sheet_cycles,
    sheet_networks,
)
from validation.study import NoReferenceError

LARGE = sheet_configurations()[0]
NETWORKS = sheet_networks()


def layer_of(network: str, name: str):
    return next(layer for layer in NETWORKS[network].layers if layer.name == name)


def only(network: str, *names: str) -> SheetNetwork:
    return replace(NETWORKS[network], layers=tuple(layer_of(network, name) for name in names))


def test_mac_cycles__worked_by_hand():
    """Of res2a_branch2b: 64 x 64 kernels x 56^2 x 9 / 2048 / 2.25 = 25 088, kernels rounded up to 128: twice that.

    AlexNet conv1, stride 4: 3 x 16 = 48 channels, ceil(214 / 4) = 54: 48 x 54^2 x 96 x 121 / 16 / 2048 = 49 617.5625.
    """
    assert mac_cycles(LARGE, layer_of("ResNet50", "res2a_branch2b"), 16) == 25_088
    assert mac_cycles(LARGE, layer_of("ResNet50", "res2a_branch2b"), 128) == 2 * 25_088
    assert mac_cycles(LARGE, layer_of("AlexNet", "conv1"), 16) == Fraction("49617.5625")


def test_dram_kib__reads_again_what_does_not_fit():
    """res3a_branch1: 784 KiB of inputs, 512 of weights (four times too many), 392 of outputs; 28 for the least inputs.

    Weights pass in ceil(512 / (512 - 28)) = 2 tiles, the inputs with each: 2 x 784 + 512 + 392 = 2472 KiB. With 128 KiB
    of buffer, ceil(512 / 100) = 6: 5608. res5a_branch2b keeps 24.5 KiB of inputs: all is read once.
    """
    resnet, layer = NETWORKS["ResNet50"], layer_of("ResNet50", "res3a_branch1")
    small = next(made for made in sheet_configurations() if made.macs == 64)

    assert (layer.input_kib, layer.weight_kib, layer.output_kib, layer.least_input_kib()) == (784, 512, 392, 28)
    assert dram_kib(LARGE, resnet, layer) == 2472
    assert dram_kib(small, resnet, layer) == 5608
    kept = layer_of("ResNet50", "res5a_branch2b")
    assert dram_kib(LARGE, resnet, kept) == kept.input_kib + kept.weight_kib + kept.output_kib


def test_fused_addition__reads_its_other_operand():
    plain, added = layer_of("ResNet50", "res2a_branch1"), layer_of("ResNet50", "res2a_branch2c")
    resnet = NETWORKS["ResNet50"]
    assert dram_kib(LARGE, resnet, added) - dram_kib(LARGE, resnet, plain) == added.output_kib == 784


def test_rates__are_the_published_ones():
    """primer.rst; rounded there to 269, 153, 93, 46, 20, 7.3, 3.6."""
    rates = [float(10**9 / network_cycles(made, NETWORKS["ResNet50"])) for made in sheet_configurations()]

    assert rates == pytest.approx([268.80, 152.62, 92.95, 46.475, 19.981, 7.2966, 3.6483], rel=1e-4)
    published = [made.resnet50_fps for made in sheet_configurations()]
    assert all(abs(ours / theirs - 1) < 0.05 for ours, theirs in zip(rates, published, strict=True))


def test_rtl_run__names_the_sheets_total():
    rtl = rtl_run()
    assert float(network_cycles(rtl.configuration, NETWORKS[rtl.network])) == rtl.sheet_cycles


@pytest.fixture(scope="module")
def sheet(shared):
    """Rows that the sheet counts, by configuration and network."""
    path = shared / "data" / "nvdla" / "nvdla_perf_layers.csv"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    found = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["sram4M_max_cycles"]:
                found[row["config"], row["network"]].append(row)
    return found


def configuration_of(row: dict[str, str]) -> Configuration:
    macs, cbuf, mhz = (int(row[key]) for key in ("macs_hw", "cbuf_KiB", "mhz"))
    return Configuration(macs, (1, macs), cbuf, Fraction(row["dram_GBs"]), mhz)


def test_layers__equal_every_figure_of_the_sheet(sheet):
    compared = 0
    for (_, name), rows in sheet.items():
        network, made = NETWORKS[name], configuration_of(rows[0])
        for row, layer in zip(rows, network.layers, strict=True):
            ours = {
                "C": layer.C, "K": layer.K, "H": layer.size, "R": layer.kernel, "stride_h": layer.stride,
                "P": layer.out, "P_after_pool": layer.stored, "input_KiB": layer.input_kib,
                "output_KiB": layer.output_kib, "weight_KiB": layer.weight_kib,
                "min_input_KiB": layer.least_input_kib(), "min_weight_KiB": layer.least_weight_kib(made.cbuf_kib),
                "sram0_dram_KiB": dram_kib(made, network, layer),
            }  # fmt: skip
            for memory, cvsram in (("sram0", False), ("sram4M", True)):
                cycles = sheet_cycles(made, network, layer, cvsram=cvsram)
                ours |= {f"{memory}_mac_cycles": cycles.mac, f"{memory}_dram_cycles": cycles.dram}
                ours[f"{memory}_max_cycles"] = cycles.total
            ours |= {"sram4M_sram_rd_cycles": cycles.sram_read, "sram4M_sram_wr_cycles": cycles.sram_write}
            assert {key: float(value) for key, value in ours.items()} == {key: float(row[key]) for key in ours}
            compared += 1
    assert compared == 8 * (11 + 39 + 54)


def test_networks__equal_the_sheets_totals(shared, sheet):
    with (shared / "data" / "nvdla" / "nvdla_perf_totals.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48
    for row in rows:
        made = configuration_of(sheet[row["config"], row["network"]][0])
        ours = network_cycles(made, NETWORKS[row["network"]], cvsram=row["mem"] == "sram4M")
        assert float(ours) == float(row["total_cycles"])


def test_layers__are_those_of_the_networks_but_for_two_mistakes():
    """GoogLeNet lacks conv2_reduce; ResNet-50's res2a_branch2a has 256 channels though its input has 64."""

    def macs(name: str) -> int:
        return sum(layer.macs * layer.repeat for layer in load_workload(name).layers)

    ours = {name: sum(layer.macs for layer in network.layers) for name, network in NETWORKS.items()}
    assert ours["AlexNet"] == macs("alexnet")
    assert ours["GoogLeNet"] == macs("googlenet") - 64 * 64 * 56**2
    assert ours["ResNet50"] == macs("resnet50_v1") + (256 - 64) * 64 * 56**2


@pytest.mark.parametrize("made", sheet_configurations(), ids=str)
def test_machine__is_that_of_the_configuration(made):
    machine = configured_machine(made)
    dram, cbuf = machine.levels[:2]

    assert machine.macs == made.macs == math.prod(made.atomic)
    assert cbuf.size_words == made.cbuf_kib * 1024
    assert dram.bandwidth == made.dram_gb_per_s


def test_einsum__has_the_layers_multiply_accumulates():
    for network in NETWORKS.values():
        for layer in network.layers:
            assert layer_einsum(layer).macs == layer.macs


def test_mapped__worked_by_hand():
    """On 64 channels x 32 kernels, 20 bytes a cycle.

    conv1: 2 lines of 21 on 64 lanes, 4 pairs of lines, 2 x 32 kernels: 112^2 x 4 x 2 = 100 352. branch2b without
    Winograd: 56^2 x 9 x 2 = 56 448. branch1: (64 x 56^2 + 64 x 256 + 256 x 56^2) / 20 bytes = 50 995.2; branch2c reads
    256 x 56^2 more: 91 136. fc1000, one image: (2048 x 1000 + 2048 + 1000) / 20 = 102 552.4.
    """
    names = ("conv1", "res2a_branch1", "res2a_branch2b", "res2a_branch2c", "fc1000")
    found = mapped_layers(LARGE, only("ResNet50", *names))

    assert [layer.name for layer in found] == list(names)
    assert [layer.cycles for layer in found] == [100_352, 50_996, 56_448, 91_136, 102_553]
    assert [layer.bottleneck for layer in found] == ["MAC", "DRAM", "MAC", "DRAM", "DRAM"]
    assert "no Winograd" in found[2].why


def test_mapped__winograd_worked_by_hand():
    """MACs: 28^2 / 4 tiles x 128 / 4 channels x 128 / 32 kernels = 25 088, as the sheet has it.

    res5a: an edge of 8 for 7, 4^2 tiles x 128 x 16 = 32 768, but DRAM moves 16/9 times the weights: 512 x 512 x 16 +
    512 x 10^2 + 512 x 8^2 = 4 278 272 words at 20 a cycle.
    """
    network = only("ResNet50", "res2a_branch2a", "res3a_branch2b", "res5a_branch2b")
    one, fast, wide = mapped_layers(LARGE, network, winograd=True)
    assert [one] == mapped_layers(LARGE, only("ResNet50", "res2a_branch2a"))
    assert (fast.cycles, fast.bottleneck, fast.why) == (25_088, "MAC", "")
    assert (wide.cycles, wide.bottleneck) == (math.ceil(4_278_272 / 20), "DRAM")
    assert wide.why == "an edge of 8 for 7; a KiB is 1024 bytes, not 1000"


def test_winograd__needs_64_lanes():
    small, network = sheet_configurations()[2], only("ResNet50", "res5a_branch2b")
    assert small.atomic[0] == 32
    assert mapped_layers(small, network, winograd=True) == mapped_layers(small, network)


def test_winograd__einsum_has_16_multiplications_for_36():
    (layer,) = only("ResNet50", "res3a_branch2b").layers
    einsum = winograd_einsum(layer)
    assert Fraction(layer_einsum(layer).macs, einsum.macs) == Fraction(36, 16)
    weights, inputs, outputs = einsum.tensors
    direct = layer_einsum(layer).tensors[1]
    assert weights.words(einsum.dims) == 128 * 128 * 16
    assert inputs.words(einsum.dims) == direct.words(layer_einsum(layer).dims) == 128 * 30**2
    assert outputs.words(einsum.dims) * outputs.bits == 128 * 28**2 * 8


def test_mapped__a_batch_shares_the_weights():
    """Of fc8: (4096 x 1000 + 16 x (4096 + 1000)) / 20 / 16."""
    (layer,) = mapped_layers(LARGE, only("AlexNet", "fc8"))
    assert layer.cycles == Fraction(math.ceil((4096 * 1000 + 16 * 5096) / 20), 16)


def test_cvsram__passed_by_it_changes_nothing_and_used_it_saves_dram():
    """With a small convolution buffer a layer reads much again, of which CVSRAM takes what fits."""
    small, einsum = {"cbuf": "64 KiB"}, load_workload("conv", {"bits": "8"}).layers[0]
    plain, beside = (load_architecture(name, small) for name in ("nvdla_28nm", "nvdla_cvsram"))
    asked = [load_constraints(f"{name}_direct", machine, einsum)
             for name, machine in (("nvdla", plain), ("nvdla_cvsram", beside))]  # fmt: skip
    without, used = (
        map_einsum(m, einsum, constraints=c, uneven=False).best for m, c in zip((plain, beside), asked, strict=True)
    )
    outermost, *others = without.mapping.levels
    passed = evaluate(beside, einsum, Mapping((outermost, LevelMapping("CVSRAM"), *others)))
    leaks = next(level.leak_pj for level in passed.levels if level.level == "CVSRAM")
    assert passed.cycles == without.cycles
    assert passed.energy_pj - leaks == pytest.approx(without.energy_pj, rel=1e-12)
    assert used.energy_pj < 0.6 * without.energy_pj
    assert used.offchip_words < without.offchip_words / 2
    assert beside.area_um2 > plain.area_um2


def test_study__runs_without_reference_data(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELSIM_SHARED", str(tmp_path))
    monkeypatch.setattr("validation.nvdla.mapped_layers", lambda made, network, winograd=False: short[network.name])
    short = {name: mapped_layers(LARGE, only(name, network.layers[-1].name)) for name, network in NETWORKS.items()}
    study = nvdla_study([])

    assert study.wrong == ()
    assert sum(figure.agrees is True for figure in study.figures) == 7
    assert any("is absent" in note for note in study.notes)
    assert {figure.variant for figure in study.figures} == {"sheet", "mapped"}


HEAD = "config,network,macs_hw,cbuf_KiB,dram_GBs,mhz,sram0_max_cycles,sram4M_max_cycles\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "columns missing: cbuf_KiB, config"),
        ("config,network\n1,2\n", "columns missing: cbuf_KiB, dram_GBs"),
        (None, "no such file"),
        (HEAD + "a,AlexNet,2048,512,ten,1000,1,1\n", "csv:2: dram_GBs: 'ten' is no number"),
        (HEAD + "a,AlexNet,2048,512,0,1000,1,1\n", "csv:2: dram_GBs: '0' is not above 0"),
        (HEAD + "a,LeNet,2048,512,10,1000,1,1\n", "LeNet of 1 layers is unknown; known: AlexNet of 11"),
        (HEAD + "a,AlexNet,7,512,10,1000,1,1\n" * 11, "7 MACs are no configuration"),
    ],
)
def test_study__says_what_is_wrong_with_a_file(tmp_path, text, says):
    path = tmp_path / "layers.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(AccelsimError, match=says) as error:
        nvdla_study([path])
    assert not isinstance(error.value, NoReferenceError)
    assert str(path) in str(error.value)
