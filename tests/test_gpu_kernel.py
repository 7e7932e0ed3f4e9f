"""The best kernel of a layer on a GPU: its account, its energy, layers as products, and the command `map`."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import accelsim
from accelsim.cli import main as cli
from accelsim.gpu import LIBRARIES, PASSES
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu, wide_format
from accelsim.gpu.constants import board_power_w, clock_under_power_limit, common_constants, sustained_hz
from accelsim.gpu.gemms import Gemms, Setup, time_gemms
from accelsim.gpu.kernel import best_kernels, time_operators
from accelsim.gpu.network import format_of_operands, gemms_of, memory_of, product_of, products_of, turned
from accelsim.gpu.work import serving_mode
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Einsum, Tensor, without_other_operations
from accelsim.inputs.workload_reader import load_workload
from accelsim.show.report.gpu import kernel_report
from accelsim.show.table import print_parts

H100 = load_gpu("h100")
MODE = mode_of(H100, "fp16")


def kernel(m: int, n: int, k: int, gpu=H100, number_format: str = "fp16", **options):
    mode = mode_of(gpu, number_format)
    return best_kernels(gpu, ["gemm"], Gemms.of(m, n, k), number_format, mode, **options)[0]


def test_best_kernels__the_account_is_right():
    found = kernel(4000, 3000, 2000)
    rows, columns = map(int, found.tile.split("x"))
    blocks = -(-4000 // rows) * -(-3000 // columns) * found.split
    assert found.blocks == blocks
    assert found.waves == pytest.approx(blocks / (132 * found.occupancy))
    assert 0 < found.tile_efficiency <= 1
    assert found.flops == 2 * 4000 * 3000 * 2000
    assert found.low_us is found.high_us is None
    assert found.energy_j == pytest.approx(found.power_w * found.time_us * 1e-6)
    assert found.power_w == 700
    assert found.sustained_us == pytest.approx(found.time_us * H100.tensor_hz / found.sustained_hz)
    assert found.sustained_us > found.time_us
    assert kernel(1, 64, 64).sustained_us is None
    assert all(time_us >= found.time_us for _, time_us in found.others)


def test_best_kernels__the_account_of_a_batch_by_hand():
    """Three products of 1000 x 520 x 100 in tiles of 256 x 64: 4 x 9 of each, two at a time on each of 108 SMs.

    K has two steps of 64 words, a line of L2.
    """
    gpu = load_gpu("a100")
    (found,) = best_kernels(gpu, ["p"], Gemms.of(1000, 520, 100, 3), "fp16", mode_of(gpu, "fp16"), Setup(tile="256x64"))
    assert (found.blocks, found.occupancy, found.waves) == (3 * 4 * 9, 2, 0.5)
    assert found.tile_efficiency == pytest.approx(1000 * 520 * 100 / (4 * 256 * 9 * 64 * 2 * 64))
    assert found.least_bytes == 3 * 2 * (1000 * 100 + 100 * 520 + 1000 * 520)


def test_memory_of__has_the_weights_of_all_layers_and_the_activations_of_the_largest():
    """Products of 4 x 8 x 2, three times, and of 4 x 3 x 5, in words of 2 bytes."""
    layers = [
        {"name": "a", "gemm": {"M": 4, "N": 8, "K": 2}, "repeat": 3},
        {"name": "b", "gemm": {"M": 4, "N": 3, "K": 5}},
    ]
    found = memory_of(H100, load_workload({"workload": {"name": "net", "layers": layers}}).layers, "fp16")
    assert found.weights == 2 * (3 * 8 * 2 + 3 * 5)
    assert found.activations == 2 * (4 * 2 + 4 * 8)
    assert found.cache == 0


def test_best_kernels__power_stays_between_idle_and_limit():
    small, large = kernel(1, 64, 64), kernel(8192, 8192, 8192)
    assert 0.15 * 700 < small.power_w < large.power_w <= 700


def test_board_power__by_hand():
    """An A100 of 400 W takes 60 W when idle.

    1e9 operations of 0.5 pJ and 1e6 B, 62.8 pJ from HBM and 23.6 pJ from L2 each, are 5.864e8 pJ: in 10 us 58.64 W, in
    1 us 586 W. SMs take 98.8 W while they run, in a launch of 1 us of 10 us nine tenths of it. Operands of a byte take
    2**-0.68 = 0.624 times as much for an operation. With all 108 SMs x 2,048 operations busy at 1.41 GHz, of 2 pJ each,
    the board would take 623.7 W beside idle, and its clock falls to 340 / 623.7 of it.
    """
    gpu = load_gpu("a100")
    constants = mode_of(gpu, "fp16").constants.with_values({"pj_per_flop": 0.5, "launch_us": 1.0})

    def watts(time_us: float, number_format: str = "fp16", l2_bytes: float | None = None) -> float:
        return board_power_w(gpu, number_format, constants, 1e9, 1e6, time_us, l2_bytes)

    assert watts(10.0) == pytest.approx(60 + 0.9 * 98.8 + 58.64)
    assert watts(10.0, l2_bytes=2e6) == pytest.approx(60 + 0.9 * 98.8 + 61.0)
    assert watts(1.0) == 400
    assert watts(10.0, "int8") == pytest.approx(60 + 0.9 * 98.8 + 50 * 2**-0.68 + 8.64)
    free_w = 400 - 60 - 98.8 * 0.9
    assert sustained_hz(gpu, "fp16", constants, (0.0, 0.0, 10.0, free_w * 1e7 / 23.6 * 0.99)) == 1.41e9
    four_times = sustained_hz(gpu, "fp16", constants, (0.0, 0.0, 10.0, 4 * free_w * 1e7 / 23.6))
    assert four_times == pytest.approx(1.41e9 * 0.25 ** (1 / 2.5), rel=1e-3)  # 2.5: energy by 1.5, and longer by 1
    from_dram = sustained_hz(gpu, "fp16", constants, (0.0, 4 * free_w * 1e7 / 62.8, 10.0, 0.0))
    assert from_dram == pytest.approx(1.41e9 / 4, rel=2e-3)
    assert clock_under_power_limit(gpu, "fp16", constants) == 1.0
    busy = clock_under_power_limit(gpu, "fp16", constants.with_values({"pj_per_flop": 2.0}))
    assert busy == pytest.approx(340 / (108 * 2048 * 1.41e9 * 2e-12))


def test_best_kernels__matrix_vector_products_have_no_tiles():
    found = kernel(1, 8192, 8192)
    assert (found.tile, found.bottleneck) == ("gemv", "DRAM bandwidth")
    assert found.dram_bytes <= 2 * (8192 * 8192 + 2 * 8192)


def test_report__says_what_of_the_traffic_l2_holds():
    """At the start L2 holds what fits of the operands, as `--help` says: only the rest passes DRAM.

    Operands have (784 + 192) x 96 = 93,696 bytes, results 784 x 192 x 2 = 301,056.
    """
    mode = mode_of(H100, "int8")
    for state, dram in (("cold", "DRAM 395 kB, "), ("rotating", "DRAM 0 B (L2 holds the rest of 395 kB), ")):
        found = best_kernels(H100, ["mb"], Gemms.of(784, 192, 96), "int8", mode, Setup(state))[0]
        console = Console(width=80, file=io.StringIO())
        print_parts(console, kernel_report(found, quiet=True))
        assert f"traffic     {dram}L2 922 kB" in console.file.getvalue()


@pytest.mark.parametrize("name", ["conv", "gemm", "batched_gemm", "depthwise", "bert_base", "resnet50", "alexnet"])
def test_product_of__keeps_every_multiply_add(name):
    for einsum in without_other_operations(load_workload(name))[0].layers:
        for training_pass in PASSES:
            product = product_of(einsum, training_pass)
            macs = product.m * product.n * product.k * product.batch
            if training_pass == "input_gradient":  # K is rounded up, with strides to whole loads of 8
                exact = -(-einsum.macs // (product.m * product.n * product.batch))
                steps = {c for tensor in einsum.tensors for rank in tensor.ranks if len(rank) > 1 for _, c in rank}
                assert product.k in ({exact, -(-exact // 8) * 8} if max(steps, default=1) > 1 else {exact})
            else:
                assert macs == einsum.macs
            assert 0 < product.unique <= 1


def test_product_of__gradients_of_inputs_are_aligned_and_cost_as_much_as_the_forward_pass():
    """A 3 x 3 layer of 256 channels has K = 9 x 256; one of stride 2 that of the taps that reach a point, 9/4 x 256."""
    tensors = {"Weights": [["K"], ["C"], ["R"], ["S"]], "Outputs": [["N"], ["K"], ["P"], ["Q"]]}
    dims = {"N": 32, "K": 256, "C": 256, "P": 28, "Q": 28, "R": 3, "S": 3}
    a100 = load_gpu("a100")
    for stride, k in ((1, 9 * 256), (2, 9 * 64)):
        ranks = ((("N", 1),), (("C", 1),), (("P", stride), ("R", 1)), (("Q", stride), ("S", 1)))
        made = [Tensor("Inputs", ranks)]
        for name, axes in tensors.items():
            role = tuple(((axis, 1),) for (axis,) in axes)
            made.append(Tensor(name, role, role=name, output=name == "Outputs"))
        conv = Einsum("conv", dims, tuple(made))
        forward, gradient = (product_of(conv, name) for name in PASSES[:2])
        assert (gradient.m, gradient.n, gradient.k) == (32 * (28 * stride) ** 2, 256, k)
        times = time_gemms(a100, gemms_of([forward, gradient]), "fp16", common_constants("mma")).time_us
        assert times[1] < 1.15 * times[0]


def test_products_of__leave_out_the_gradient_of_the_data():
    """No step computes that of images; an embedding is trained with the gradient of what the first layer reads."""
    for name, layers in (("resnet50", 29), ("vgg16", None), ("bert_base", 6), ("llama", 10), ("deepbench_gemm", None)):
        network = without_other_operations(load_workload(name))[0]
        found, products, left_out = products_of(network, training_pass="input_gradient")
        first = network.layers[0]
        data = name in ("resnet50", "vgg16")
        assert (first not in found) == data
        assert left_out[:1] == ([f"{first.name}: reads the data, whose gradient no step computes"] if data else [])
        assert len(found) == len(products) == (layers or len(network.layers) - data)
        assert products_of(network, first, "input_gradient")[0] == [first]
        short = replace(network, layers=tuple(replace(layer, repeat=1) for layer in network.layers))
        assert (short.layers[0] not in products_of(short, training_pass="input_gradient")[0]) == data


def test_format_of_operands__is_that_of_serving_in_16_bit():
    for name, number_format in (("h100", "bf16"), ("a100", "bf16"), ("v100", "fp16"), ("t4", "fp16")):
        gpu, products = load_gpu(name), products_of(load_workload("gemm"))[1]
        assert format_of_operands(gpu, products) == number_format == wide_format(gpu)
        assert accelsim.gpu.map(name, "gemm")["mode"] == serving_mode(gpu).text
    wide = [replace(product, bits=bits) for product in products for bits in (8, 16)]
    with pytest.raises(AccelsimError, match="operands of 8, 16 bit: say which number format: --dtype"):
        format_of_operands(gpu, wide)


def test_intervals__are_of_the_formats_that_were_measured():
    h100 = load_gpu("h100")
    for calibration in (None, "shipped"):
        known = {name: mode_of(h100, name, calibration).interval is not None for name in ("bf16", "fp16", "fp8")}
        assert known == {"bf16": True, "fp16": False, "fp8": False}


def test_map__refuses_what_the_memory_has_no_room_for(capsys):
    """Llama 3 8B has 15 GB of weights without its embedding; a slice of 10 GB has no room for them in 16 bit."""
    for gpu in (["a100", "--mig", "1g.10gb"], ["rtx_3070"]):
        assert cli.main(["gpu", "map", gpu[0], "llama_decode", *gpu[1:]]) == 1
        assert "are needed (weights 15 GB, cache 268 MB" in " ".join(capsys.readouterr().err.split())
    assert cli.main(["gpu", "map", "a100", "llama_decode", "--set", "batch=1024", "--dtype", "bf16"]) == 1
    assert "it fits on 4 of these together" in " ".join(capsys.readouterr().err.split())
    assert cli.main(["map", "a100", "llama_decode", "--quiet"]) == 0


def test_map__quiet_prints_the_total_of_a_network_alone(capsys):
    assert cli.main(["map", "a100", "resnet50", "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 5
    assert cli.main(["map", "a100", "bert_base"]) == 0
    assert "attention_scores + attention_context x12 " in capsys.readouterr().out


def test_product_of__refuses_what_is_no_product():
    copy = (Tensor("A", ((("M", 1),),)), Tensor("Z", ((("M", 1),),), output=True))
    with pytest.raises(AccelsimError, match="copy: one operand; a GEMM has two"):
        product_of(Einsum("copy", {"M": 2}, copy))


def test_map__on_a_gpu_leaves_out_what_is_no_product_and_says_so(capsys, tmp_path):
    """A sum of two tensors is no batch of products of one word each."""
    path = tmp_path / "net.yaml"
    tensors = "tensors: {A: [M, N], B: [M, N], Outputs: [M, N]}, output: Outputs"
    path.write_text(f"""
workload:
  name: net
  layers:
    - {{name: one, gemm: {{M: 64, N: 64, K: 64}}}}
    - {{name: sum, einsum: {{dims: {{M: 64, N: 64}}, {tensors}}}}}
""")
    assert cli.main(["map", "a100", str(path), "--json"]) == 0
    out, err = capsys.readouterr()
    said = "sum: goes through both operands word by word; that is not a GEMM"
    assert err == f"left out of the total: {said}\n"
    found = json.loads(out)
    assert ([row["name"] for row in found["kernels"]], found["left_out"]) == (["one"], [said])
    assert cli.main(["map", "a100", str(path), "--layer", "sum"]) == 2
    assert capsys.readouterr().err == f"{said}\n"


def test_map__on_a_gpu_shows_one_layer_or_all(capsys, tmp_path):
    assert cli.main(["gpu", "map", "arch/gpu/h100_sxm.yaml", "gemm", "--calibration", "none"]) == 0
    out = capsys.readouterr().out
    assert "uncalibrated" in out
    assert "bottleneck" in out
    assert cli.main(["map", "arch/gpu/h100_sxm.yaml", "gemm"]) == 0
    assert "mode        calibrated: " in capsys.readouterr().out
    assert (
        cli.main(["gpu", "map", "a100", "bert_base", "--calibration", "shipped", "--json", "-o", str(tmp_path / "o")])
        == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["mode"].startswith("calibrated")
    assert json.loads((tmp_path / "o" / "kernels.json").read_text()) == document
    total = sum(row["time_us"] * row["repeat"] for row in document["kernels"])
    assert document["total"]["time_us"] == pytest.approx(total)


def test_map__on_a_gpu_is_short_where_asked(capsys):
    assert cli.main(["map", "h100_sxm", "gemm", "--quiet"]) == 0
    text = capsys.readouterr().out
    assert "bottleneck" in text
    assert "Tilings" not in text
    assert "Time  an SM" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["map", "h100", "gemm", "--top", "3"], "--top: not for a GPU: `accelsim gpu map` has the options for GPUs"),
        (["map", "h100", "gemm", "--mig", "1g.10gb"], "--mig: `accelsim gpu map` has the options for GPUs"),
        (["gpu", "map", "h100", "gemm", "--dtype", "fp9"], "did you mean 'fp8'?"),
        (["gpu", "map", "h100", "gemm", "--mig", "9g"], "no MIG profile '9g'"),
        (["gpu", "map", "l4", "gemm", "--calibration", "shipped"], "no calibration of l4"),
        (
            ["gpu", "map", "h100", "gemm", "--calibration", "nowhere.json"],
            "nowhere.json: no such file; write one with `accelsim gpu calibrate`",
        ),
        (["gpu", "map", "h100", "bert_base", "--layer", "x"], "no layer 'x'"),
        (["gpu", "map", "h100", "gemm", "--set", "bits=12"], "say which number format: --dtype"),
    ],
)
def test_map__on_a_gpu_names_mistakes(arguments, said, capsys):
    assert cli.main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 63), (60, 64, 64), (64, 68, 64), (64, 64, 64)])
def test_library__before_cublas_11_has_tensor_cores_for_multiples_of_8_alone(m, n, k):
    """Without them FP16 runs at the rate of FP32, an eighth of a V100's tensor cores."""
    gpu, aligned = load_gpu("v100_sxm_16gb"), (m, n, k) == (64, 64, 64)
    new, old = (kernel(m, n, k, gpu, setup=Setup(library=library)) for library in LIBRARIES)
    assert (old.tensor_cores, new.tensor_cores) == (aligned, True)
    assert (old.time_us == new.time_us) == aligned
    large = kernel(4096, 4096, 4095, gpu, setup=Setup(library="cublas10"))
    assert 0.9 * gpu.flops("fp32") < large.tflops * 1e12 < gpu.flops("fp32")


def test_library__several_products_keep_their_order():
    gpu, sizes = load_gpu("v100_sxm_16gb"), [(64, 64, 64), (64, 64, 63), (128, 8, 8), (7, 7, 7)]
    mode = mode_of(gpu, "fp16")
    found = best_kernels(gpu, "abcd", Gemms.of(*zip(*sizes, strict=True)), "fp16", mode, Setup(library="cublas10"))
    assert [each.name for each in found] == list("abcd")
    assert [(each.m, each.n, each.k) for each in found] == sizes
    assert found == [
        replace(kernel(*size, gpu, setup=Setup(library="cublas10")), name=n)
        for size, n in zip(sizes, "abcd", strict=True)
    ]


def test_library__that_a_gpu_never_had_is_refused(capsys):
    assert cli.main(["gpu", "gemm", "a100", "8", "8", "8", "--library", "cublas10"]) == 2
    assert "known of fp16 on Volta and Turing" in capsys.readouterr().err
    assert cli.main(["gpu", "map", "v100_sxm_16gb", "gemm", "--library", "cublas10", "--dtype", "fp32"]) == 2
    assert "not of fp32 on v100_sxm_16gb" in capsys.readouterr().err


def test_layout_nchw__turns_inputs_and_outputs_of_windows(capsys):
    """A 3 x 3 convolution, 1 x 256 x 58 x 58 to 256 x 56 x 56 words; a product has nothing to turn."""
    gpu, mode = load_gpu("a100"), mode_of(load_gpu("a100"), "fp16")
    conv, gemm = load_workload("conv").layers[0], load_workload("gemm").layers[0]
    words = np.array([256.0 * 58 * 58, 256.0 * 56 * 56])
    (nhwc,) = best_kernels(gpu, [conv.name], gemms_of([product_of(conv)]), "fp16", mode)
    nchw = turned(gpu, nhwc, conv, mode)
    extra = time_operators(gpu, "relu", words, 2.0, mode.constants).sum()
    assert nchw.time_us - nhwc.time_us == pytest.approx(extra) == nchw.parts_us["turn"]
    assert nchw.dram_bytes - nhwc.dram_bytes == 4 * words.sum()
    assert nchw.energy_j > nhwc.energy_j
    (product,) = best_kernels(gpu, [gemm.name], gemms_of([product_of(gemm)]), "fp16", mode)
    assert turned(gpu, product, gemm, mode) is product
    assert cli.main(["gpu", "map", "a100", "resnet50", "--layout", "nchw", "--json"]) == 0
    turning = json.loads(capsys.readouterr().out)
    assert cli.main(["map", "a100", "resnet50", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert turning["total"]["time_us"] > 1.2 * plain["total"]["time_us"]


def test_passes__have_the_layouts_that_turn_no_tensor(capsys):
    """Of 512 x 1024 x 1023, the weight gradient reads along M and N: an odd K of the forward pass is its odd N."""
    found = {}
    for name in ("tn", "nhwc"):
        assert (
            cli.main(["gpu", "map", "a100", "batched_gemm", "--pass", "weight_gradient", "--layout", name, "--json"])
            == 0
        )
        found[name] = json.loads(capsys.readouterr().out)["kernels"][0]["time_us"]
    assert (
        cli.main(["gpu", "map", "a100", "batched_gemm", "--pass", "weight_gradient", "--layout", "nt", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["kernels"][0]["time_us"] == found["nhwc"]
