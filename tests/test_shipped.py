"""The files that come with accelsim: they load, and they are the networks and machines that they say they are."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from accelsim.fusion.graph import find_graphs
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, load_mapping
from accelsim.inputs.workload import sliced, without_other_operations
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from accelsim.search.zeros import best_with_zeros
from tests.conftest import load_energy_table

REPOSITORY = Path(__file__).resolve().parents[1]
ARCHITECTURES = sorted((REPOSITORY / "arch").glob("*.yaml"))
WORKLOADS = sorted((REPOSITORY / "workloads").glob("*.yaml"))
ENERGY_TABLES = sorted((REPOSITORY / "accelsim" / "energy" / "tables").glob("*.yaml"))
EIGHT_BIT = {"bits": "8", "word": "8 bit"}
ATTENTION = "attention_scores attention_softmax attention_context"
FEED_FORWARD = "attention_output attention_sum feed_forward_norm gate up gated down feed_forward_sum"


def stem(path: Path) -> str:
    return path.stem


def layers(name: str, **overrides: int):
    return load_workload(
        REPOSITORY / "workloads" / f"{name}.yaml", {key: str(value) for key, value in overrides.items()}
    ).layers


def macs(name: str, **overrides: int) -> int:
    """Multiply-accumulates of products; points of other operations are none."""
    products = [layer for layer in layers(name, **overrides) if layer.operation == "multiply_add"]
    return sum(layer.macs * layer.repeat for layer in products)


@pytest.mark.parametrize("path", WORKLOADS, ids=stem)
def test_workloads__load_and_say_what_they_are(path):
    workload = load_workload(path)

    assert workload.layers
    bits = 8 if path.stem in ("mobilenet_sparse", "gemm_2of4") else 16  # of the chips that they are for
    assert all(tensor.bits == bits for layer in workload.layers for tensor in layer.tensors)
    assert len({layer.name for layer in workload.layers}) == len(workload.layers)
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize("path", WORKLOADS, ids=stem)
def test_workloads__no_layer_stands_twice(path):
    """Equal layers that nothing joins to others are one entry with `repeat`; the places of others are their own."""
    workload = load_workload(path)
    joined = {name for edge in workload.edges for name in (edge.producer, edge.consumer)}
    shapes = [
        (tuple(layer.dims.items()), tuple((tensor.name, tensor.ranks) for tensor in layer.tensors))
        for layer in workload.layers
        if layer.name not in joined
    ]
    transformers = ("bert_base", "gpt2", "gpt2_decode", "vit", "llama", "llama_decode")
    attention = path.stem in transformers  # there, equal shapes have different names on purpose

    assert attention or len(set(shapes)) == len(shapes)


@pytest.mark.parametrize(
    ("name", "graphs"),
    [
        (
            "resnet50",
            {"conv2_1_reduce conv2_1_3x3 conv2_1_expand": 1, "conv4_reduce conv4_3x3 conv4_expand": 5, "fc": 1},
        ),
        ("resnet50_v1", {"conv3_1_reduce conv3_1_3x3 conv3_1_expand": 1, "conv5_reduce conv5_3x3 conv5_expand": 2}),
        ("vgg16", {"conv1_1 conv1_2": 1, "conv5_1 conv5_2 conv5_3": 1, "fc6 fc7 fc8": 1}),
        ("alexnet", {"conv3": 1, "conv4 conv5": 1, "fc6 fc7 fc8": 1}),
        ("googlenet", {"i3b_1x1": 1, "i3b_1x1 i3b_3x3": 1, "i4b_5x5_reduce i4b_5x5": 2}),
        ("bert_base", {ATTENTION: 12, "query_key_value": 36}),
        ("gpt2_decode", {ATTENTION: 12, "attention_norm query_key_value": 12}),
        ("llama", {ATTENTION: 32, "attention_norm query key value": 32, FEED_FORWARD: 31}),
    ],
)
def test_networks__name_the_layers_that_can_be_fused(name, graphs):
    """Blocks of ResNet run 3, 4, 6 and 3 times, the first of each by itself; its sums and pooling are left out."""
    network = load_workload(name)
    found = {" ".join(layer.name for layer in graph.layers): graph.repeat for graph in find_graphs(network).graphs}

    assert {names: found.get(names) for names in graphs} == graphs
    assert sum(len(names.split()) * repeat for names, repeat in found.items()) == sum(e.repeat for e in network.layers)


@pytest.mark.parametrize("path", ARCHITECTURES, ids=stem)
def test_architectures__every_energy_has_a_source(path):
    machine = load_architecture(path)

    assert machine.clock_hz
    for (component, _, action), entry in machine.energy.entries.items():
        assert entry.source
        free = action in ("leak", "transfer") or (machine.name, component) == ("isaac", "Cell")  # reading is computing
        assert entry.energy_pj > 0 or free


@pytest.mark.parametrize("path", ENERGY_TABLES, ids=stem)
def test_energy_tables__every_entry_has_energies_and_a_source(path):
    table = load_energy_table(path)

    assert table.name == path.stem
    assert all(entry.source and entry.energies for entry in table.entries)
    for entry in table.entries:  # no other entry matches the same component equally well
        technology = entry.technology or "any"
        assert table.best(entry.component, technology, entry.attributes) == (entry,)


@pytest.mark.parametrize("machine", ARCHITECTURES, ids=stem)
@pytest.mark.parametrize("workload", WORKLOADS, ids=stem)
def test_pairs__one_word_of_each_tensor_fits(machine, workload):
    """With all loops at the first level every tile is one element; and no count can pass 2**62, or `encode` refuses."""
    architecture = load_architecture(machine)
    products, _ = without_other_operations(load_workload(workload))
    for layer in (sliced(layer, architecture.slices) for layer in products.layers):
        levels = [LevelMapping(architecture.levels[0].name, tuple(Loop(dim, n) for dim, n in layer.dims.items()))]
        levels += [LevelMapping(level.name) for level in architecture.levels[1:]]
        kept = [
            frozenset(t.name for t in layer.tensors if i == 0 or t.role in level.keep)
            for i, level in enumerate(architecture.levels)
        ]
        mapping = Mapping(tuple(replace(level, keep=keep) for level, keep in zip(levels, kept, strict=True)))
        assert evaluate(architecture, layer, mapping).valid


def test_sparse_networks__are_the_published_ones():
    """AlexNet's convolutions, and MobileNet of width 0.5 at 128 x 128: Howard et al., Table 7, 49 million MACs."""
    assert macs("alexnet_sparse") == macs("alexnet") - sum(x.macs for x in layers("alexnet") if x.name.startswith("fc"))
    assert macs("mobilenet_sparse") == 49_160_192
    assert sum(layer.repeat for layer in layers("mobilenet_sparse")) == 28


@pytest.mark.parametrize(
    ("machine", "workload", "share"),
    [("eyeriss_v2", "mobilenet_sparse", 0.58 * 0.30), ("sparse_tensor_core", "gemm_2of4", 0.5)],
)
@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
def test_sparse_machines__have_proved_mappings(machine, workload, share, objective):
    """2:4 weights need half the cycles; Eyeriss v2 skips a product where an operand is zero."""
    architecture, layer = load_architecture(machine), layers(workload)[-2 if workload == "mobilenet_sparse" else 0]
    search = map_einsum(architecture, layer, objective=objective, uneven=False)
    best = best_with_zeros(architecture, layer, search)
    assert best.proved
    assert best.found.valid
    assert best.found.cycles / layer.macs * architecture.macs == pytest.approx(share, rel=1e-3)


def test_scnn__is_proved_under_its_dataflow():
    """Without it sums over several channels leave a partial sum alone only if all of them are zero."""
    architecture, layer = load_architecture("scnn"), layers("alexnet_sparse")[1]
    constraints = load_constraints(REPOSITORY / "constraints" / "scnn.yaml", architecture, layer)
    best = best_with_zeros(
        architecture, layer, map_einsum(architecture, layer, constraints=constraints, uneven=False), constraints
    )
    assert best.proved
    assert best.found.compute.actual / layer.macs == pytest.approx(0.385306 * 0.6, rel=1e-3)


def test_vgg16__has_the_published_macs():
    """15.47 GMAC (torchvision: 15.47; Sze et al., Proc. IEEE 2017, Table II: 15.5 G, of them 15.3 G convolutions).

    conv1_1: 64 x 3 x 224^2 x 9 = 86 704 128. The FC layers: 25088 x 4096 + 4096^2 + 4096 x 1000 = 123 633 664.
    """
    assert macs("vgg16") == 15_470_264_320
    assert sum(layer.macs for layer in layers("vgg16") if layer.name.startswith("fc")) == 123_633_664
    assert sum(layer.repeat for layer in layers("vgg16")) == 16
    assert macs("vgg16", batch=3) == 3 * 15_470_264_320


def test_alexnet__has_the_published_macs_with_groups():
    """724 MMAC, of them 666 M convolutions (Sze et al., Proc. IEEE 2017, Table II).

    conv1 to conv5 for a batch of 4 (Eyeriss, JSSC 2017, Table V): 0.42, 0.90, 0.60, 0.45, 0.30 GMAC; for one image
    conv2: 256 x 48 x 27^2 x 25 = 223 948 800 (each output channel sees 96 / 2 input channels).
    """
    by_name = {layer.name: layer.macs for layer in layers("alexnet", batch=4)}

    assert macs("alexnet") == 724_406_816
    assert [round(by_name[f"conv{i}"] / 1e9, 2) for i in range(1, 6)] == [0.42, 0.90, 0.60, 0.45, 0.30]
    assert sum(by_name[f"conv{i}"] for i in range(1, 6)) == 4 * 665_784_864
    assert layers("alexnet")[1].macs == 223_948_800


def test_resnet50__has_the_published_macs_of_v1_5():
    """4.089 GMAC (torchvision: 4.089), 53 convolutions and the classifier, 25.5 M weights.

    v1, with the stride in the 1x1 before, has 3.86 G: three layers are then four times smaller, 3 x 77 070 336 fewer.
    """
    network = layers("resnet50")
    weights = sum(t.words(layer.dims) * layer.repeat for layer in network for t in layer.tensors if t.role == "Weights")

    assert macs("resnet50") == 4_089_184_256
    assert sum(layer.repeat for layer in network) == 54
    assert weights == 25_557_032 - 2 * 26_560 - 1000  # torchvision's parameters less batch norm and biases


def test_resnet50_v1__has_the_published_macs():
    """3.86 GMAC (He et al., CVPR 2016, Table 1: 3.8 G), with the same weights as v1.5."""
    by_name = {layer.name: layer for layer in layers("resnet50_v1")}

    assert macs("resnet50_v1") == 3_857_973_248 == macs("resnet50") - 3 * 77_070_336
    assert sum(layer.repeat for layer in by_name.values()) == 54
    assert by_name["conv3_1_reduce"].dims["P"] == 28


def test_googlenet__has_the_published_macs():
    """1.58 GMAC, 57 convolutions and the classifier (Szegedy et al., CVPR 2015, Table 1: 1.5 G)."""
    network = layers("googlenet")
    weights = sum(t.words(layer.dims) * layer.repeat for layer in network for t in layer.tensors if t.role == "Weights")

    assert macs("googlenet") == 1_582_671_872
    assert sum(layer.repeat for layer in network) == 58
    assert weights == 6_990_272


def test_mobilenet_v2__has_the_published_macs():
    """0.30 GMAC (Sandler et al., CVPR 2018, Table 4: 300 M; torchvision: 0.301), 52 convolutions and the classifier."""
    assert macs("mobilenet_v2") == 300_774_272
    assert sum(layer.repeat for layer in layers("mobilenet_v2")) == 53


def test_bert_base__has_the_published_macs():
    """Twelve times (4 x 768^2 + 2 x 768 x 3072) S + 2 x 768 S^2; 85 M weights, the encoder's share of 110 M.

    S = 128: 11.17 GMAC = 22.3 GFLOP; TinyBERT and MobileBERT print 22.5 GFLOP (not verified) with pooler and the rest.
    """
    for seq in (128, 384):
        assert macs("bert_base", seq=seq) == 12 * ((4 * 768**2 + 2 * 768 * 3072) * seq + 2 * 768 * seq**2)
    assert macs("bert_base", seq=128) == 11_173_625_856
    assert 2 * macs("bert_base", seq=128) == pytest.approx(22.5e9, rel=0.01)
    assert macs("bert_base", batch=8) == 8 * macs("bert_base")


def test_gpt2__a_token_needs_one_mac_a_weight_and_attention():
    """A token: 12 x 12 x 768^2 = 84.9 M (Kaplan et al., 2020, eq. 2.1: N = 12 n_layer d_model^2) + 50257 x 768.

    Attention adds 12 x 2 x 768 for each token that it looks at.
    """
    weights = 12 * 12 * 768**2 + 50257 * 768

    assert weights == 123_532_032
    assert macs("gpt2", seq=256) == 256 * weights + 12 * 2 * 768 * 256**2
    assert macs("gpt2_decode", kv=256) == weights + 12 * 2 * 768 * 256
    assert macs("gpt2", seq=1) == macs("gpt2_decode", kv=1)


def test_vit__has_the_published_macs():
    """17.56 GMAC (torchvision vit_b_16: 17.56); 86.6 M parameters less class token, positions, norms and biases.

    A token: 4 x 768^2 + 2 x 768 x 3072 = 7 077 888 in each of 12 layers, and 2 x 768 for each token that it looks at.
    """
    learnt = [layer for layer in layers("vit") if layer.name not in ("attention_scores", "attention_context")]
    weights = sum(t.words(each.dims) * each.repeat for each in learnt for t in each.tensors if t.role == "Weights")
    biases = 768 + 12 * (4 * 768 + 3072 + 768) + 1000

    assert macs("vit") == 768 * 3 * 196 * 256 + 12 * (197 * 7_077_888 + 2 * 768 * 197**2) + 768_000 == 17_563_828_224
    assert weights + biases + 768 + 197 * 768 + 25 * 2 * 768 == 86_567_656  # torchvision's vit_b_16


def test_llama__has_the_published_weights():
    """8 030 261 248 parameters (Llama 3 8B) less the input embedding and 65 norms of 4096: one MAC a token each.

    A layer: 2 x 4096^2 + 2 x 4096 x 1024 + 3 x 4096 x 14336 = 218 103 808.
    """
    weights = 8_030_261_248 - 128_256 * 4096 - 65 * 4096

    assert weights == 32 * 218_103_808 + 4096 * 128_256
    assert macs("llama", seq=64) == 64 * weights + 32 * 2 * 4096 * 64**2
    assert macs("llama_decode", kv=64) == weights + 32 * 2 * 4096 * 64
    assert macs("llama", seq=1) == macs("llama_decode", kv=1)


def test_deepbench_gemm__holds_the_measured_shapes(shared):
    """The distinct M x N x K of DeepBench's result sheets; DeepBench's N (columns of activations) is M here."""
    with (shared / "data" / "gpu" / "gemm_deepbench.csv").open(newline="") as file:
        measured = {tuple(int(row[key]) for key in "NMK") for row in csv.DictReader(file)}
    shipped = [tuple(layer.dims[key] for key in "MNK") for layer in layers("deepbench_gemm")]

    assert set(shipped) == measured
    assert len(shipped) == len(measured) == 79


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("conv", 256 * 256 * 56 * 56 * 9),
        ("gemm", 512 * 1024 * 1024),
        ("depthwise", 384 * 14 * 14 * 9),
        ("strided", 64 * 3 * 112 * 112 * 49),
        ("batched_gemm", 12 * 512 * 512 * 64),
        ("conv1d", 8 * 3),
    ],
)
def test_single_layers__have_the_macs_that_they_say(name, expected):
    path = REPOSITORY / "workloads" / f"{name}.yaml"

    assert macs(name) == expected
    assert f"{expected:,}".replace(",", " ") in path.read_text()


@pytest.mark.parametrize(
    ("name", "units", "macs_a_second"),
    [
        ("eyeriss", 168, 33.6e9),  # JSSC 2017, Table IV: 16.8 to 42 GMAC/s at 100 to 250 MHz
        ("systolic", 65536, 45.9e12),  # ISCA 2017: 92 TOPS
        ("nvdla", 1024, 1.02e12),  # hwarch.rst: 64 x 16 for 16 bits
        ("nvdla_large", 2048, 2.05e12),
        ("nvdla_small", 64, 6.4e10),
        ("nvdla_1024", 1024, 1.02e12),
        ("simba_like", 256, 2.56e11),
        ("simba", 1024, 2.005e12),  # VLSI 2019: 4.01 TOPS
        ("gpu_sm", 1024, 312e12 / 108 / 2),  # data sheet: 312 TFLOP/s on 108 SMs
    ],
)
def test_architectures__have_the_published_peak(name, units, macs_a_second):
    machine = load_architecture(REPOSITORY / "arch" / f"{name}.yaml")

    assert machine.macs == units
    assert machine.macs * machine.clock_hz == pytest.approx(macs_a_second, rel=0.01)


@pytest.mark.parametrize(
    ("name", "overrides", "mac_pj"),
    [
        ("systolic", {}, 0.3),
        ("nvdla", {"atomic.k": "32"}, 0.084),
        ("nvdla_1024", {"buffer": "256 KiB"}, 0.25),
        ("simba", {}, 0.084),
    ],
)
def test_architectures__eight_bit_machines_are_two_parameters_away(name, overrides, mac_pj):
    sixteen = load_architecture(REPOSITORY / "arch" / f"{name}.yaml")
    eight = load_architecture(REPOSITORY / "arch" / f"{name}.yaml", EIGHT_BIT | overrides)

    assert eight.levels[-1].size_words == sixteen.levels[-1].size_words == 1
    assert eight.energy.energy_pj("MAC", "*", "compute") == pytest.approx(mac_pj)


def test_nvdla_1024__has_the_entries_of_timeloops_sample():
    """sample.cfg: 256 KB of 8-bit words, 16 buffers of 128 entries, one register entry for each of 1024 MACs."""
    machine = load_architecture(REPOSITORY / "arch" / "nvdla_1024.yaml")

    assert [level.size_words for level in machine.levels] == [None, 256 * 1024, 128, 1]
    assert [machine.instances(i) for i in range(5)] == [1, 1, 16, 1024, 1024]


def test_row_stationary__fits_eyeriss_and_fills_it():
    """Tiles as in the file's comment; 1 849 688 064 MACs / 168 PEs = 11 010 048 cycles, more than any memory needs."""
    machine = load_architecture(REPOSITORY / "arch" / "eyeriss.yaml")
    (layer,) = layers("conv")
    mapping = load_mapping(REPOSITORY / "mappings" / "eyeriss_row_stationary.yaml", machine, layer)
    result = evaluate(machine, layer, mapping)
    tiles = {(count.level, count.tensor): count.tile_words for count in result.tensors if count.level != "DRAM"}

    assert result.valid
    assert result.cycles == 11_010_048
    assert tiles == {
        ("GLB", "Inputs"): 4 * 16 * 58,
        ("GLB", "Outputs"): 64 * 14 * 56,
        ("SPAD", "Weights"): 192,
        ("SPAD", "Inputs"): 12,
        ("SPAD", "Outputs"): 16,
    }
