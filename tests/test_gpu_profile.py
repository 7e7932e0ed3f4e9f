"""Profiles as Nsight Compute 2025.3 and PyTorch 2.11 wrote them on an H100 (`tests/golden/gpu`), and what they say."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accelsim.cli import main as cli
from accelsim.gpu.calibration import SHIPPED, mode_of
from accelsim.gpu.catalogue import format_of, load_gpu
from accelsim.gpu.constants import board_power_w
from accelsim.gpu.gemms import Gemms
from accelsim.gpu.kernel import best_kernels
from accelsim.gpu.profiled import format_in, is_product, layout_in, tile_in
from accelsim.gpu.profiles import compare_profile, read_profile
from accelsim.inputs.errors import InputError
from accelsim.inputs.workload_reader import load_workload
from validation.gemm import validate_gemm

REPOSITORY = Path(__file__).parent.parent
SAMPLES = REPOSITORY / "tests" / "golden" / "gpu"
MEASURED = REPOSITORY / "benchmarks" / "gpu" / "measured"
H100 = load_gpu("h100")
LAYERS = (
    *("query_key_value", "attention_scores", "attention_context", "attention_output"),
    *("feed_forward_1", "feed_forward_2"),
)


@pytest.mark.parametrize(
    ("name", "tile", "number_format", "layout"),
    [
        ("nvjet_sm90_tst_96x64_64x10_1x2_h_bz_TNN", (96, 64), "bf16", "tn"),
        ("nvjet_sm90_hsh_64x8_64x16_2x1_v_bz_splitK_TNT", (64, 8), "fp16", "tn"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT", (256, 128), "bf16", "nt"),
        ("nvjet_sm90_qqtst_64x8_128x16_4x1_v_bz_algo2_TNT", (64, 8), "fp8", "tn"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_i16832gemm_s8_64x64_128x6_tn_align16>", (64, 64), "int8", "tn"),
        ("void cutlass::Kernel2<cutlass_75_tensorop_s1688gemm_bf16_128x128_nt_align1>", (128, 128), "bf16", "nt"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x64_32x3_nn_align4>", (256, 64), "tf32", "nn"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x128x32_warpgroupsize1x1x1", (64, 128), "tf32", "tn"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x64x8_stage3_warpsize1x2x1_ffma", (32, 64), "fp32", "nn"),
        ("sm90_xmma_gemm_f64f64_f64f64_f64_nt_n_tilesize32x64x32_stage3_tensor16x8x16", (32, 64), "fp64", "nt"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>", None, "bf16", ""),
        ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>", None, "", ""),
    ],
)
def test_names__of_products_of_cublas_13(name, tile, number_format, layout):
    assert (tile_in(name), format_in(name), layout_in(name)) == (tile, number_format, layout)


def test_names__of_pytorch_are_no_products(tmp_path):
    path = tmp_path / "sum.csv"
    names = ["at::native::reduce_kernel<512, 1>", "at::native::GammaBetaBackward", "at::native::conv_depthwise2d"]
    rows = "".join(f'1,9000,"void {name}"\n' for name in [*names, "ampere_sgemm_128x64_nn"])
    path.write_text(f"Instances,Avg (ns),Name\n{rows}")
    assert [is_product(kernel) for kernel in read_profile(path)] == [False, False, True, True]


def test_read_profile__ranges_of_nsight_compute():
    """Ranges from outside in, in one domain or another; of ranges that start and stop, where none is pushed."""
    kernels = [kernel for kernel in read_profile(SAMPLES / "ncu_nested.csv") if is_product(kernel)]
    assert [kernel.range for kernel in kernels] == [
        "inner M=512 N=2048 K=1024",
        "outer:step 1",
        "started",
        "pushed",
        "",
    ]
    assert (kernels[0].shape, kernels[0].time_us, kernels[0].dram_bytes) == ((512, 2048, 1024), 8.896, 5_262_336)
    assert {kernel.l2 for kernel in kernels} == {"cold"}
    ranges = {kernel.range for kernel in read_profile(SAMPLES / "ncu_per_nvtx.csv")}
    assert ranges == {"inner M=512 N=2048 K=1024", "outer:step 1", "started"}


def test_read_profile__sections_of_nsight_compute_have_rules_in_longer_rows():
    kernels = read_profile(SAMPLES / "ncu_sections.csv")
    assert {kernel.range: kernel.time_us for kernel in kernels} == {"feed_forward_1": 11.36, "feed_forward_2": 12.832}


@pytest.mark.parametrize("sample", ["ncu_raw.csv", "bert_base_layer.json.gz"])
def test_compare__a_layer_of_bert_as_measured(sample):
    """Six layers in BF16, L2 emptied in Nsight Compute; half of them within 8 %, all within 18 %."""
    layers = load_workload(REPOSITORY / "workloads" / "bert_base.yaml", {"batch": "8"}).layers
    found, _ = compare_profile(H100, read_profile(SAMPLES / sample), layers, SHIPPED)
    names = [case.name for case in found]
    merged = sample.endswith(".gz")  # the output's projection has the sizes of the others
    assert names == [name for name in LAYERS if not (merged and name == "attention_output")]
    assert [case.products for case in found] == ([8, 2, 2, 2, 2] if merged else [3, 1, 1, 1, 1, 1])
    errors = [abs(case.predicted.time_us / case.measured_us - 1) for case in found]
    assert np.median(errors) < 0.08
    assert max(errors) < 0.18


@pytest.mark.parametrize("requested", [["--set", "batch=8"], ["--batch", "8"]])
def test_compare__sizes_of_the_command_line(requested, capsys):
    arguments = ["gpu", "profile", "h100", str(SAMPLES / "bert_base_layer.json.gz"), *requested]
    assert cli.main([*arguments, "--workload", "bert_base"]) == 0
    assert "feed_forward_1 " in capsys.readouterr().out
    assert cli.main(arguments) == 2
    assert "set parameters of a workload, and none is given" in capsys.readouterr().err


def test_compare__a_training_step_has_three_layouts():
    found, unmatched = compare_profile(H100, read_profile(SAMPLES / "mlp_train.json.gz"), (), SHIPPED)
    assert {case.name for case in found} == {
        *("4096x4096x1024", "4096x1024x4096"),  # forward
        "4096x4096x1024 nn",  # the gradient of the hidden layer
        *("4096x1024x4096 nt", "1024x4096x4096 nt"),  # gradients of weights
    }
    assert all(case.products == 2 for case in found)
    assert all(abs(case.predicted.time_us / case.measured_us - 1) < 0.1 for case in found)
    assert not any(is_product(kernel) for kernel in unmatched)


def test_read_profile__traces_whose_external_id_is_the_correlation(tmp_path):
    """As Kineto wrote them from 2021 to 2024 (HolisticTraceAnalysis has some): the launches say the operators."""
    for name in ("mlp_train.json.gz", "bert_base_layer.json.gz"):
        trace = json.loads(gzip.decompress((SAMPLES / name).read_bytes()))
        for event in trace["traceEvents"]:
            if event.get("cat") in ("kernel", "cuda_runtime", "cuda_driver"):
                event["args"]["External id"] = event["args"]["correlation"]
        (tmp_path / name).write_bytes(gzip.compress(json.dumps(trace).encode()))
        kernels, plain = read_profile(tmp_path / name), read_profile(SAMPLES / name)
        assert sum(kernel.shape is not None for kernel in kernels) > 0
        assert [replace(kernel, where=None) for kernel in kernels] == [replace(kernel, where=None) for kernel in plain]


def test_read_profile__a_kernel_is_of_the_innermost_product_of_its_thread(tmp_path):
    """A product of 4 x 8 x 2 within one of 4 x 8 x 3, one of another thread, and a launch behind all of them."""

    def operator(number, begin, dur, thread, columns):
        sizes = {"Input Dims": [[4, 2], [2, columns]], "Input type": ["float"] * 2, "External id": number}
        return {"cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": thread, "ts": begin, "dur": dur, "args": sizes}

    events = [operator(1, 100, 50, 7, 3), operator(2, 110, 20, 7, 8), operator(3, 100, 90, 8, 5)]
    for correlation, at in ((71, 115), (72, 140), (73, 170)):
        same = {"External id": correlation, "correlation": correlation}
        events.append({"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 7, "ts": at, "args": same})
        events.append({**KERNEL, "name": f"gemm{correlation}", "args": {**KERNEL["args"], **same}})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    found = {kernel.name: kernel.range for kernel in read_profile(path)}
    assert found == {"gemm71": "4x8x2", "gemm72": "4x3x2", "gemm73": ""}


def test_compare__convolutions_of_a_trace():
    """MobileNetV2, a batch of 32, FP16: 52 convolutions and the classifier; windows of 3 x 3 overlap."""
    kernels = read_profile(SAMPLES / "mobilenet_v2.json.gz")
    found, _ = compare_profile(H100, kernels, (), SHIPPED)
    assert sum(case.products for case in found) == 53
    first, depthwise = (next(k for k in kernels if k.range == name) for name in ("401408x32x27", "401408x1x9x32"))
    assert first.unique == pytest.approx(224 * 224 * 3 / (112 * 112 * 27))
    assert depthwise.unique == pytest.approx(1 / 9)
    errors = [case.predicted.time_us / case.measured_us - 1 for case in found]
    assert np.median(np.abs(errors)) < 0.1


def test_compare__formats_without_a_calibration_are_not_calibrated(tmp_path, capsys):
    path = tmp_path / "two.csv"
    path.write_text("M,N,K,dtype,time_us\n4096,4096,4096,bf16,190\n1024,1024,1024,fp32,60\n")
    arguments = ["gpu", "profile", "h100", str(path), "--calibration", "shipped"]
    assert cli.main(arguments) == 0
    assert "bf16 calibrated: 8 constants" in (out := capsys.readouterr().out.replace("\n", " "))
    assert "fp32 uncalibrated" in out
    path.write_text("M,N,K,dtype,time_us\n1024,1024,1024,fp32,60\n")
    assert cli.main(arguments) == 2
    assert "no calibration of h100_sxm for fp32" in capsys.readouterr().err


def test_compare__l2_of_the_command_line_counts_before_the_profile(capsys):
    shown = []
    for more in ([], ["--l2", "cold"], ["--l2", "warm"]):
        assert cli.main(["gpu", "profile", "h100", str(SAMPLES / "ncu_nested.csv"), "--json", *more]) == 0
        shown.append(json.loads(capsys.readouterr().out)["layers"][0]["predicted"]["time_us"])
    assert shown[0] == shown[1] > shown[2]


KERNEL = {"cat": "kernel", "name": "gemm", "dur": 3, "args": {"External id": 1, "grid": [4, 2, 1], "device": 0}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1,", ":1:4: no JSON of PyTorch's profiler"),
        ('"s"', ":1:1: no kernels of a GPU in the trace; record it with `profile("),
        ('{"traceEvents": 3}', "no kernels of a GPU"),
        ('{"traceEvents": [{"cat": "kernel", "dur": "x", "args": {}}]}', "no kernels of a GPU"),
        ('{"traceEvents": [{"cat": "kernel", "dur": 1e999, "args": {}}]}', "no kernels of a GPU"),
        ('{"traceEvents": [{"cat": "kernel", "dur": %s, "args": {}}]}' % ("9" * 400), "no kernels of a GPU"),
        ("[" * 100_000, "no JSON of PyTorch's profiler"),
    ],
)
def test_read_profile__traces_that_are_none(tmp_path, text, message):
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_profile(path)
    assert message in str(caught.value)


def test_read_profile__a_cut_trace_and_operators_without_sizes(tmp_path):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(InputError, match="cannot be unpacked: "):
        read_profile(path)
    path = tmp_path / "trace.json"
    for sizes in ([], [3, [4]], [["a", 1], [1, 2]], [[4, 8]], None):
        operator = {
            "cat": "cpu_op",
            "name": "aten::mm",
            "args": {"External id": 1, "Input Dims": sizes, "Input type": ["float"]},
        }
        path.write_text(json.dumps([KERNEL, operator, 7, {"cat": "kernel"}]))
        (kernel,) = read_profile(path)
        assert (kernel.shape, kernel.grid, kernel.time_us) == (None, 8, 3.0), sizes
    still = {"Input Dims": [[1, 1, 4, 4], [1, 1, 3, 3]], "Input type": ["float"]}
    still["Concrete Inputs"] = ["", "", "[1, 1]", "[0, 0]", "[1, 1]"]
    product = {"Input Dims": [[4, 8], [8, 2]], "Input type": ["float"]}
    for name, arguments in (
        ("aten::cudnn_convolution", {"External id": 1, **still}),  # a stride of 0
        ("aten::mm", product),  # launched nothing that is known
        ("aten::mm", {"External id": [], **product}),
        ("aten::mm", {"External id": 1, **product, "Input Dims": [[10**400, 8], [8, 2]]}),
        ("aten::mm", {"External id": 1, **product, "Input type": {"0": "float"}}),
        ("aten::mm", {"External id": 1, **product, "Input type": [3]}),
        ("aten::cudnn_convolution", {"External id": 1, **still, "Concrete Inputs": [3]}),
    ):
        path.write_text(json.dumps([KERNEL, {"cat": "cpu_op", "name": name, "args": arguments}]))
        (kernel,) = read_profile(path)
        assert kernel.shape is None, name


@pytest.mark.parametrize("side", [1e999, 10**400])
def test_read_profile__grids_of_sides_that_are_none(tmp_path, side):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([{**KERNEL, "args": {"grid": [4, side, 1]}}]))
    (kernel,) = read_profile(path)
    assert kernel.grid == 0


def test_read_profile__operators_of_a_trace(tmp_path):
    """Batches, a bias first, TF32 by the kernel's name, FP8, groups, and one operator that launched two kernels."""

    def operator(number, name, sizes, kind, **more):
        arguments = {"External id": number, "Input Dims": sizes, "Input type": [kind] * 3, **more}
        return {"cat": "cpu_op", "name": name, "args": arguments}

    def kernel(number, name):
        return {**KERNEL, "name": name, "args": {**KERNEL["args"], "External id": number}}

    events = [
        operator(1, "aten::bmm", [[96, 128, 64], [96, 64, 128]], "c10::Half"),
        operator(2, "aten::addmm", [[512], [64, 256], [256, 512]], "float"),
        operator(3, "aten::_scaled_mm", [[16, 32], [32, 48]], "c10::Float8_e4m3fn"),
        operator(
            4, "aten::cudnn_convolution", [[2, 8, 6, 6], [12, 4, 3, 3]], "signed char",
            **{"Concrete Inputs": ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "2", "False"]},
        ),
        *(kernel(1, "a"), kernel(2, "sm80_xmma_gemm_tf32f32"), kernel(2, "splitKreduce_kernel"), kernel(3, "c")),
        kernel(4, "d"),
    ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = Counter((kernel.range, kernel.number_format, kernel.ranges) for kernel in read_profile(path))
    assert found == {
        ("128x128x64x96", "fp16", 1): 1,
        ("64x512x256", "tf32", 1): 2,
        ("16x48x32", "fp8", 1): 1,
        ("18x6x36x2", "int8", 1): 1,
    }


@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_read_profile__outputs_of_a_dilated_convolution_are_the_places_of_its_window(tmp_path, dilation):
    """3 x 3 taps in steps of the dilation, moved two points at a time over 9 x 9 with a border of one."""
    places = len([at for at in range(-1, 10, 2) if at + 2 * dilation <= 9])
    sizes = {"Input Dims": [[1, 4, 9, 9], [8, 4, 3, 3]], "Input type": ["c10::Half"] * 2}
    values = {"Concrete Inputs": ["", "", "[1, 1]", "[2, 2]", f"[{dilation}, {dilation}]", "1"]}
    operator = {"cat": "cpu_op", "name": "aten::cudnn_convolution", "args": {"External id": 1, **sizes, **values}}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([KERNEL, operator]))
    (kernel,) = read_profile(path)
    assert kernel.range == f"{places**2}x8x36"


@pytest.mark.parametrize(
    ("board", "number_format", "calibration", "most"),
    [
        ("h100_sxm", "bf16", None, 0.08),
        ("h100_sxm", "bf16", SHIPPED, 0.075),
        ("h100_sxm", "fp8", SHIPPED, 0.06),
        ("h100_sxm", "fp16", SHIPPED, 0.065),
        ("h200_sxm", "bf16", None, 0.06),
        ("h200_sxm", "bf16", SHIPPED, 0.075),
        ("h200_sxm", "fp8", SHIPPED, 0.06),
        ("h200_sxm", "fp16", None, 0.055),
    ],
)
def test_validate_gemm__a_board_that_no_fit_has_seen(tmp_path, board, number_format, calibration, most):
    """Median error of products on boards that are in no fit of times."""
    path = tmp_path / "part.csv"
    with (MEASURED / f"{board}_gemm.csv").open(newline="") as file:
        table = [row for row in csv.DictReader(file) if row["dtype"] == number_format]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(row for row in table if row["l2"] == "rotating")
    (found,), left_out = validate_gemm([path], calibration=calibration)
    assert (len(found.measured.time_us), left_out) == ({"h100_sxm": 90, "h200_sxm": 60}[board], [])
    assert found.errors["all"].median < most


@pytest.mark.parametrize(
    ("name", "rows", "least_us", "most"),
    [
        ("h100_sxm_power.csv", 42, 0.0, 0.16),
        ("h100_sxm_power_more.csv", 9, 0.0, 0.16),
        ("h200_sxm_power.csv", 32, 10.0, 0.17),
    ],
)
def test_board_power__of_a_measured_board(name, rows, least_us, most):
    """Products of random numbers while they repeat: power within 3 % (median) and `most` (nine tenths)."""
    errors, gpu = [], load_gpu(name[:4])
    with (MEASURED / name).open(newline="") as file:
        for row in csv.DictReader(file):
            number_format = format_of(row["dtype"])
            if row["what"] != "gemm" or row["data"] != "randn" or row["copies"] == "1" or number_format == "int8":
                continue
            measured_us = float(row["time_us"])
            if measured_us < least_us:
                continue
            mode = mode_of(gpu, number_format, None if number_format == "fp32" else SHIPPED)
            sizes = (int(row[size]) for size in "MNK")
            (kernel,) = best_kernels(gpu, [""], Gemms.of(*sizes), number_format, mode)
            padded = kernel.flops / kernel.tile_efficiency
            power_w = board_power_w(
                gpu, number_format, mode.constants, padded, kernel.dram_bytes, measured_us, kernel.l2_bytes
            )
            errors.append(abs(power_w / float(row["power_w"]) - 1))
    assert len(errors) == rows
    assert np.median(errors) < 0.03
    assert np.quantile(errors, 0.9) < most


@pytest.mark.parametrize(("board", "rows", "most", "burst"), [("h100", 30, 0.08, 0.12), ("h200", 28, 0.095, 0.18)])
def test_sustained__products_of_a_measured_board_at_its_limit(board, rows, most, burst):
    """Time of products that repeat for seconds at the power limit: half as far off (median) as that of bursts."""
    sustained, short, gpu = [], [], load_gpu(board)
    with (MEASURED / f"{board}_sxm_power.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            number_format = format_of(row["dtype"])
            if row["what"] != "gemm" or row["data"] != "randn" or number_format == "int8":
                continue
            if float(row["power_w"]) < 0.95 * gpu.tdp_w:
                continue
            mode = mode_of(gpu, number_format, None if number_format == "fp32" else SHIPPED)
            sizes = (int(row[size]) for size in "MNK")
            (kernel,) = best_kernels(gpu, [""], Gemms.of(*sizes), number_format, mode)
            measured_us = float(row["time_us"])
            short.append(abs(kernel.time_us / measured_us - 1))
            sustained.append(abs((kernel.sustained_us or kernel.time_us) / measured_us - 1))
    assert len(short) == rows
    assert np.median(sustained) < most
    assert np.median(short) > burst
