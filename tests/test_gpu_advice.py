"""Advice, rooflines, operators and profiles: worked examples, sample exports, and bad input."""

from __future__ import annotations

import csv
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import accelsim
from accelsim.cli import main as cli
from accelsim.gpu.advice import advise, points, ridges, sweep
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu, table_of
from accelsim.gpu.constants import common_constants
from accelsim.gpu.gemms import Gemms, Setup
from accelsim.gpu.kernel import best_kernels, tile_efficiency, time_operators, wave_efficiency
from accelsim.gpu.network import gemms_of, products_of
from accelsim.gpu.profiles import read_profile
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.workload_reader import load_workload
from accelsim.show.plots.diagram import plot_roofline
from accelsim.show.report.gpu import advice_report
from accelsim.show.table import print_parts

SAMPLES = Path(__file__).parent / "golden" / "gpu"
A100 = load_gpu("a100")


def test_efficiencies__by_counting():
    for blocks in range(1, 40):
        waves = [min(8, blocks - at) for at in range(0, blocks, 8)]
        assert wave_efficiency(blocks, 8) == sum(waves) / (8 * len(waves))
    wanted = sum(1 for row in range(4) for column in range(6) if row < 3 and column < 5)
    assert tile_efficiency(3, 5, 2, 2) == wanted / 24


def test_advise__pads_a_vocabulary():
    advice = advise(A100, 2048, 50257, 768, "fp16")
    assert advice.roundings[0].what.startswith("N = 50264")
    assert advice.roundings[0].speedup > 1.1
    assert all(change.time_us < advice.kernel.time_us for change in advice.roundings)
    assert any("no multiple of 8" in note for note in advice.notes)
    by_name = {change.number_format: change for change in advice.formats}
    assert by_name["int8"].time_us < advice.kernel.time_us < by_name["fp32"].time_us


def test_advise__rounds_up_by_a_quarter_at_most():
    """K = 13 becomes 16, in rows of whole 16 B; K = 9 would become nearly twice as large."""
    few, many = (advise(A100, 2048, 2048, k, "fp16").roundings for k in (9, 13))
    assert few == ()
    assert {change.k for change in many} == {16}


def test_points__have_the_shares_of_the_peak_and_of_dram():
    """A product of 4096 x 4096 x 64 has 2 x 4096^2 x 64 operations; its bytes pass DRAM in its time."""
    (kernel,) = best_kernels(A100, ["a"], Gemms.of(4096, 4096, 64), "fp16", mode_of(A100, "fp16"))
    (point,) = points(A100, [kernel])
    assert point.compute_share == pytest.approx(2 * 4096**2 * 64 / (kernel.time_us * 1e-6) / A100.flops("fp16"))
    assert point.memory_share == pytest.approx(kernel.dram_bytes / (kernel.time_us * 1e-6 * A100.dram_bytes_per_s))
    assert kernel.dram_bytes != kernel.l2_bytes
    assert point.intensity == 2 * 4096**2 * 64 / (2 * (4096**2 + 2 * 4096 * 64))


def test_advice__says_how_many_sizes_it_does_not_print():
    advice = advise(A100, 2048, 50257, 768, "fp16")
    page = io.StringIO()
    print_parts(Console(file=page), advice_report(replace(advice, roundings=advice.roundings[:1] * 10)))
    assert "2 more; --json shows all" in page.getvalue()


def test_sweep__shows_the_steps_of_waves():
    tflops = sweep(A100, "m", range(1024, 4097, 16), 1, 4096, 4096, "fp16", mode_of(A100, "fp16"))
    falls = np.diff(tflops) < -0.01 * tflops.max()
    assert 2 <= falls.sum() < len(tflops) / 4


@pytest.mark.parametrize("name", ["softmax", "ln", "relu", "add", "mul", "div", "gelu", "tanh"])
def test_time_operators__near_measured_vector_kernels(shared, name):
    """NeuSight's FP32 vectors, columns B x H, on an A100 (MIT); large ones, which DRAM bounds."""
    path = shared / "data" / "gpu" / "vector_fp32_measured.csv"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["op"] == name and "A100" in row["device"]]
    elements = np.array([float(row["B"]) * float(row["H"]) for row in rows])
    measured = np.array([float(row["time_us"]) for row in rows])
    gpu = load_gpu(rows[0]["device"])
    predicted = time_operators(gpu, "layer_norm" if name == "ln" else name, elements, 4.0, common_constants("vector"))
    large = elements * 4 > 2 * gpu.l2_bytes
    assert large.sum() >= 5
    assert np.median(np.abs(predicted[large] / measured[large] - 1)) < 0.25


def test_operators__all_are_below_the_ridge():
    ridge = A100.flops("fp16") / A100.dram_bytes_per_s
    assert all(operations / (2 * words) < ridge / 10 for words, operations in table_of("operators").values())
    with pytest.raises(AccelsimError, match="no operator 'rely'"):
        time_operators(A100, "rely", np.ones(1), 2.0, common_constants("vector"))


def test_read_profile__nsight_systems():
    systems = read_profile(SAMPLES / "nvtx_kern_sum.csv")
    assert [kernel.range for kernel in systems][:2] == ["feed_forward_1", "feed_forward_1"]
    assert (systems[0].time_us, systems[0].runs) == (10.048, 12)
    assert systems[-1].shape == (128, 30528, 768)
    assert read_profile(SAMPLES / "gpukernsum.csv")[1].time_us == 4.288


def test_read_profile__plain_tables_and_raw_pages(tmp_path):
    plain = tmp_path / "plain.csv"
    plain.write_text("M,N,K,dtype,time_us\n8,16,32,fp16,3\n8,16,32,fp16,4\n")
    assert [(k.range, k.time_us) for k in read_profile(plain)] == [("8x16x32", 3.0), ("8x16x32 (2)", 4.0)]
    raw = tmp_path / "raw.csv"
    head = '"ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","dram__bytes_write.sum"\n'
    raw.write_text(head + '"","","us","Mbyte","Kbyte"\n"0","gemm","12.5","3","500"\n')
    (kernel,) = read_profile(raw)
    assert (kernel.time_us, kernel.dram_bytes) == (12.5, 3.5e6)
    raw.write_text(head + '"","","us","Mbyte","Kbyte"\n"0","gemm","12.5","n/a","500"\n"1","gemv","n/a","3","500"\n')
    gemm, gemv = read_profile(raw)
    assert (gemm.time_us, gemm.dram_bytes, gemv.time_us, gemv.dram_bytes) == (12.5, None, None, 3.5e6)


@pytest.mark.parametrize(
    ("head", "row", "grid"),
    [
        ("Total Time (ns),Instances,Avg (ns),Med (ns),GridXYZ,BlockXYZ,Name", "40,2,20,9000, 24   2  1,128 1 1,", 48),
        ("Time (%),Instances,Avg (ns),Med (ns),Category,Operation", "99,2,20,9000,CUDA_KERNEL,", 0),
        ("PID,Count,QCount,TMed (ns),QMed (ns),KAvg (ns),KMed (ns),API Name,Kernel Name", "1,2,2,70,5,20,9000,run,", 0),
    ],
)
def test_read_profile__reports_of_nsight_systems_by_kernel(tmp_path, capsys, head, row, grid):
    """cuda_gpu_kern_gb_sum, cuda_gpu_sum and cuda_kern_exec_sum; 128 x 3072 has 2 x 24 tiles of 64 x 128."""
    path = tmp_path / "sum.csv"
    name = "ampere_fp16_s16816gemm_fp16_64x128_tn"
    path.write_text(f"{head}\n{row}{name}\n")
    (kernel,) = read_profile(path)
    assert (kernel.name, kernel.time_us, kernel.runs, kernel.grid) == (name, 9.0, 2, grid)
    assert cli.main(["gpu", "profile", "a100", str(path), "--workload", "bert_base"]) == 0
    assert ("feed_forward_1" in capsys.readouterr().out) == (grid > 0)


RAW, UNITS = "ID,Kernel Name,gpu__time_duration.sum,dram__bytes.sum\n", ",,us,Mbyte\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "no head line of a profile"),
        ("M,N,K,time_us\n", "no kernels below the head line"),
        ("M,N,K,time_us\n1,2,x,4\n", ":2:5: K: expected a whole number from 1 to 67108864, got 'x'"),
        (f"{RAW}{UNITS}0,gemm,12.5.1,3\n", ":3:8: gpu__time_duration.sum: expected a number of at least 0, got"),
        (f'{RAW}{UNITS}0,gemm,"12,5",3.5\n', "write a point for decimals, and commas between thousands alone"),
        (f"{RAW}{UNITS}0,gemm,-12.5,3\n", "expected a number of at least 0, got '-12.5'"),
        (f"{RAW},,second,Tbyte\n0,gemm,1e9,1e300\n", ":3:8: a run takes 1e+09; expected a time from 1e-06 to 1e+12 us"),
        (f"{RAW},,usecond,Tbyte\n0,gemm,1e-320,1e300\n", ":3:8: a run takes 9.99989e-321; expected a time from"),
        (f"{RAW},,second,Tbyte\n0,gemm,0,1e300\n", ":3:10: dram__bytes.sum: expected a number of at most 1e+18, got"),
        (f"{RAW},,hour,Mbyte\n0,gemm,1,3\n", ":2:3: 'hour' is no unit of gpu_time_duration_sum; write one of ns, us"),
        (f"{RAW}{UNITS}0,gemm,,\n", ":3:1: no kernel has a time or DRAM bytes; collect it with"),
        (
            "ID,Kernel Name,Metric Name,Metric Unit,Metric Value\n0,gemm,sm__cycles.sum,cycle,9\n",
            "no kernel has a time or DRAM bytes",
        ),
    ],
)
def test_read_profile__names_mistakes(tmp_path, text, message):
    path = tmp_path / "profile.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_profile(path)
    assert message in str(error.value)


LONG = "ID,Kernel Name,CC,Metric Name,Metric Unit,Metric Value\n"
SUMS = "Time (%);Instances;Avg (ns);Med (ns);Name\n"


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        (f"{LONG}0,gemm,8.0,gpu__time_duration.sum,nsecond,119.168\n", 119.168),
        (f'{LONG}0,gemm,8.0,gpu__time_duration.sum,nsecond,"119,168"\n', 119.168),
        (f'{LONG}0,gemm,8.0,gpu__time_duration.sum,usecond,"119,17"\n', 119.17),
        (f"{LONG}0,gemm,8.0,gpu__time_duration.sum,usecond,119.168\n", 119.168),
        (f'{LONG}0,gemm,8.0,gpu__time_duration.sum,msecond,"1.234,5"\n', 1234500.0),
        (f"{LONG}0,gemm,8.0,gpu__time_duration.sum,usecond,1.5\n0,a,8.0,dram__bytes.sum,byte,1.500\n", 1.5),
        (f"{SUMS}99,5;3;10.080,0;10.080;gemm\n", 10.08),
        (f"{SUMS}99.5;3;10,080.0;10,080;gemm\n", 10.08),
        (f"{SUMS}99.5;3;117.119;117.119;gemm\n", 0.117119),
    ],
)
def test_read_profile__numbers_of_a_european_locale(tmp_path, text, time_us):
    """One number that only one locale writes so tells it; without any, ns have no three decimals."""
    path = tmp_path / "profile.csv"
    path.write_text(text)
    assert read_profile(path)[0].time_us == pytest.approx(time_us)


@pytest.mark.parametrize(
    ("row", "shape", "grid"),
    [
        (f"{'9' * 5000},1,sgemm_64x64_nn", None, 0),
        (f"{'9' * 10} 1 1,a M={'9' * 19} N=1 K=1,sgemm", None, 9999999999),
        (f"1,a {'9' * 5000}x1x1,sgemm", None, 1),
        ("4 2 1,a 4x2x1,sgemm_64x00_nn", (4, 2, 1), 8),
    ],
)
def test_read_profile__sizes_that_no_kernel_has_are_left_out(tmp_path, capsys, row, shape, grid):
    path = tmp_path / "sum.csv"
    path.write_text(f"Avg (ns),GridXYZ,NVTX Range,Kernel Name\n9000,{row}\n")
    (kernel,) = read_profile(path)
    assert (kernel.shape, kernel.grid) == (shape, grid)
    assert cli.main(["gpu", "profile", "a100", str(path), "--workload", "bert_base"]) == 0


def test_compare_command__matches_layers_and_shapes(capsys):
    arguments = ["--workload", "bert_base", "--calibration", "shipped"]
    assert cli.main(["gpu", "profile", "a100", str(SAMPLES / "nvtx_kern_sum.csv"), *arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    layers = {row["name"]: row for row in document["layers"]}
    assert set(layers) == {"feed_forward_1", "feed_forward_2", "head M=128 N=30528 K=768"}
    assert layers["feed_forward_2"]["measured_us"] == pytest.approx(8.608 + 3.488)
    assert len(document["unmatched"]) == 1
    assert cli.main(["gpu", "profile", "rtx_3070", str(SAMPLES / "ncu_per_nvtx.csv")]) == 0
    assert "take less than" in capsys.readouterr().out.replace("\n", " ")


SUMMARY = (
    "Domain,Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg,Kernel Name,Block Size,Grid Size,Device Id,Invocations,"
    "Section Name,Metric Name,Metric Unit,Minimum,Maximum,Average\n"
)


def test_read_profile__a_summary_by_range_has_metrics_and_no_time_of_bytes(tmp_path, capsys):
    """The seed tutorial's `ncu --print-summary per-nvtx`: the metrics of a kernel are one kernel."""
    path = tmp_path / "summary.csv"
    start = '<default domain>,"""head M=512 N=4096 K=1024""",ampere_fp16_s16816gemm_fp16_256x128,256,32,0,4,metrics,'
    rows = [("dram__bytes_read.sum", "byte", 12_894_208), ("sm__cycles_elapsed.sum", "cycle", 2_894_208)]
    path.write_text(SUMMARY + "".join(f"{start}{name},{unit},1,9,{value}\n" for name, unit, value in rows))
    (kernel,) = read_profile(path)
    assert (kernel.time_us, kernel.runs, kernel.shape, kernel.dram_bytes) == (None, 4, (512, 4096, 1024), None)
    assert dict(kernel.moved) == {"dram_bytes_read_sum": 12_894_208}
    assert kernel.number_format == "fp16"
    assert cli.main(["gpu", "profile", "a100", str(path)]) == 0
    out = capsys.readouterr().out
    assert "12.9 MB r" in out
    assert "the profile has no times" in out
    rows += [("dram__bytes_write.sum", "Mbyte", 4.2), ("gpu__time_duration.sum", "msecond", 0.04)]
    path.write_text(SUMMARY + "".join(f"{start}{name},{unit},1,9,{value}\n" for name, unit, value in rows))
    (kernel,) = read_profile(path)
    assert (kernel.time_us, kernel.dram_bytes) == (pytest.approx(40), 12_894_208 + 4.2e6)


def test_compare__ranges_and_kernels_count(tmp_path, capsys):
    """Three kernels in one range are three products; a helper in two of ten ranges counts a fifth."""
    path = tmp_path / "multi.csv"
    head = "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Kernel Name\n"
    main = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn"
    path.write_text(
        f"{head}a M=512 N=768 K=768,PushPop,1,1,1,3,30240,10080.0,10080.0,{main}\n"
        f"b M=512 N=768 K=768,PushPop,1,1,10,10,100800,10080.0,10080.0,{main}\n"
        f"b M=512 N=768 K=768,PushPop,1,1,10,2,2000,1000.0,1000.0,splitKreduce_kernel\n"
    )
    assert cli.main(["gpu", "profile", "a100", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["layers"]
    assert [row["products"] for row in rows] == [3, 10]
    assert [row["measured_us"] for row in rows] == pytest.approx([10.08, 10.28])


def test_read_profile__a_kernel_ran_at_least_once(tmp_path):
    path = tmp_path / "never.csv"
    head = "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Kernel Name\n"
    path.write_text(f"{head}a M=512 N=768 K=768,PushPop,1,1,0,0,0,10,10080.0,gemm_128x64\n")
    with pytest.raises(InputError) as caught:
        read_profile(path)
    said = str(caught.value)
    assert ":2:35: Kern Inst: expected a number of at least 1, got '0'; leave out kernels that did not run" in said
    assert "NVTX Inst: expected a number of at least 1, got '0'" in said
    path.write_text(SUMMARY + "d,r,gemm,256,32,0,0,metrics,gpu__time_duration.sum,ns,1,9,5000\n")
    with pytest.raises(InputError, match="Invocations: expected a number of at least 1, got '0'"):
        read_profile(path)


def test_compare__traces_match_by_their_grid(tmp_path, capsys):
    """128 x 3072 has 2 x 24 tiles of 64 x 128 and 128 x 768 has 1 x 12 of 128 x 64, which two layers have."""
    head = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Bytes (MB),Device,Name\n"
    rows = ["1,9000,1,24,2,1,128,1,1,,a,ampere_bf16_s16816gemm_bf16_64x128_tn", "2,500,2,,,,,,,4,a,[CUDA memcpy]"]
    rows += ["3,11000,3,24,2,1,128,1,1,,a,ampere_bf16_s16816gemm_bf16_64x128_tn"]
    rows += ["4,8000,4,12,1,1,128,1,1,,a,ampere_bf16_s16816gemm_bf16_128x64_tn"]
    path = tmp_path / "trace.csv"
    path.write_text(head + "\n".join(rows) + "\n")
    assert cli.main(["gpu", "profile", "a100", str(path), "--workload", "bert_base", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = document["layers"]
    assert (row["name"], row["measured_us"], row["products"]) == ("feed_forward_1", 10.0, 2)
    assert row["predicted"]["number_format"] == "bf16"
    assert len(document["unmatched"]) == 1
    assert cli.main(["gpu", "profile", "a100", str(path)]) == 0
    assert "(64x128, 48 blocks, bf16)" in " ".join(capsys.readouterr().out.split())
    named = "\n".join(rows).replace(",a,", ",NVIDIA H100 80GB HBM3 (0),")
    path.write_text(f"{head}{named}\n")
    assert cli.main(["gpu", "profile", "a100", str(path), "--workload", "bert_base"]) == 2
    assert "2 kernels of 'NVIDIA H100 80GB HBM3', not of a100_sxm_80gb" in capsys.readouterr().err
    path.write_text(f"{head}{named}\n5,8000,4,12\n")
    assert cli.main(["gpu", "profile", "h100", str(path), "--workload", "bert_base"]) == 2
    assert "trace.csv:6:1: expected 12 cells, got 4" in capsys.readouterr().err


def test_advise__rounds_all_sizes_together():
    """1023 is misaligned in K and N: rounding both, or all three, beats rounding either."""
    advice = advise(load_gpu("h100"), 1023, 1023, 1023, "fp16")
    assert advice.roundings[0].n == advice.roundings[0].k == 1024
    assert any((change.m, change.n, change.k) == (1024,) * 3 for change in advice.roundings)


def test_roofline_command__draws_and_prints(capsys, tmp_path):
    picture = tmp_path / "roofline.png"
    arguments = ["roofline", "a100", "bert_base", "--mig", "1g.10gb", "--plot", str(picture)]
    assert cli.main(arguments) == 0
    first = picture.read_bytes()
    assert cli.main(arguments) == 0
    assert picture.read_bytes() == first
    assert "DRAM" in capsys.readouterr().out
    assert cli.main(["roofline", "a100", "bert_base", "gemm", "--json"]) == 0
    found = [layer["kernel"] for layer in json.loads(capsys.readouterr().out)["layers"]]
    mapped = [accelsim.gpu.map("a100", name)["kernels"] for name in ("bert_base", "gemm")]
    for name in ("name", "time_us", "bottleneck", "number_format", "mode"):
        assert [kernel[name] for kernel in found] == [kernel[name] for kernels in mapped for kernel in kernels]
    assert cli.main(["roofline", "a100", "gemm", "--plot", "x.pdf"]) == 2
    assert "x.pdf: name a file that ends in .png or .svg" in capsys.readouterr().err


def test_advise_command__draws_and_prints(capsys, tmp_path):
    picture = tmp_path / "sweep.svg"
    arguments = ["a100", "2048", "50257", "768", "--plot", str(picture)]
    assert cli.main(["gpu", "gemm", *arguments]) == 0
    assert "N = 50264" in capsys.readouterr().out
    assert picture.read_text().startswith("<?xml")
    assert cli.main(["gpu", "gemm", "a100", "0", "1", "1"]) == 2
    capsys.readouterr()
    for gpu, wrong, message in (
        ("a100", ["--plot", "m.pdf"], "m.pdf: name a file that ends in .png or .svg"),
        ("a100", ["--over", "p"], "invalid choice: 'p'"),
        ("a100", ["--calibration", "shiped"], "did you mean 'shipped'?"),
        ("v100", ["--dtype", "bf16"], "does not compute in 'bf16'; formats: fp64, fp32, fp16"),
    ):
        assert cli.main(["gpu", "gemm", gpu, "8", "8", "8", *wrong]) == 2
        assert message in capsys.readouterr().err


def test_advise__compares_other_sizes_and_formats_with_the_same_schedules():
    """FP16 and BF16 run at one rate on an A100, so neither is faster."""
    advice = advise(load_gpu("a100"), 513, 6144, 5120, "bf16")
    (other,) = (change for change in advice.formats if change.what == "fp16")
    assert other.time_us == advice.kernel.time_us


@pytest.mark.parametrize("network", ["resnet50", "bert_base"])
def test_plot_roofline__names_points_without_overprinting(network):
    gpu = load_gpu("h100_sxm")
    layers, products, _ = products_of(load_workload(network))
    gemms = gemms_of(products)
    kernels = best_kernels(gpu, [einsum.name for einsum in layers], gemms, "fp16", mode_of(gpu, "fp16"))
    found = points(gpu, kernels)
    ax = plot_roofline(gpu, "fp16", ridges(gpu, "fp16"), found)
    ax.figure.canvas.draw()
    assert sum(len(marks.get_offsets()) for marks in ax.collections) == len(found)
    boxes = [text.get_window_extent() for text in ax.texts]
    ends = [choose(found, key=lambda point: point.intensity).kernel.name for choose in (min, max)]
    assert {*ends} <= {text.get_text() for text in ax.texts}
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_operator_command__says_time_and_intensity(capsys):
    """ReLU over 2^25 FP16 words of an A100 moves 128 MiB; 0.25 FLOP/B as in NVIDIA's guide."""
    assert cli.main(["gpu", "op", "a100", "relu", "--elements", str(2**25), "--calibration", "none", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["intensity"], found["dram_bytes"]) == (0.25, 2**27)
    assert found["time_us"] == time_operators(A100, "relu", np.array([2.0**25]), 2.0, common_constants("mma"))[0]
    assert cli.main(["gpu", "op", "a100", "rleu"]) == 2
    assert "no operator 'rleu'; did you mean 'relu'?" in capsys.readouterr().err


def test_compare__takes_the_layout_that_the_kernel_name_says(tmp_path, capsys):
    """K = 4095 is no multiple of 8: narrow loads where K is contiguous, in both operands (tn) or in none (nt)."""
    found = {}
    for layout in ("tn", "nt"):
        path = tmp_path / f"{layout}.csv"
        head = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),NVTX Range,Kernel Name"
        name = f"ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_64x3_{layout}"
        path.write_text(f"{head}\n100,700000,1,700000,700000,:mm M=4096 N=4096 K=4095,{name}\n")
        assert cli.main(["gpu", "profile", "a100", str(path), "--calibration", "none", "--json"]) == 0
        found[layout] = json.loads(capsys.readouterr().out)["layers"][0]["predicted"]["time_us"]
        advised = advise(A100, 4096, 4096, 4095, "fp16", setup=Setup(layout=layout)).kernel.time_us
        assert found[layout] == advised
    assert found["tn"] > 2 * found["nt"]
