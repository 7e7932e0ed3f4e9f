"""Tables of measured products as strangers write them: separators, names, units, number formats, other GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import validation.__main__ as validation
from accelsim.cli import main as cli
from accelsim.gpu.catalogue import FORMATS, find_gpu, format_of, load_gpu
from accelsim.gpu.measured import find_table, plain_name, read_measured, split_rows, time_column
from accelsim.gpu.profiles import read_profile
from accelsim.inputs.errors import InputError
from accelsim.inputs.source import Problems
from validation import products
from validation.gemm import validate_gemm
from validation.products import errors_beside

HEAD = "device,M,N,K,dtype,time_us_median\n"
A100, V100 = "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff", "# measured on Monday\n\n"])
def test_read_measured__takes_what_other_programs_write(tmp_path, separator, ending, start):
    path = tmp_path / "m.csv"
    lines = [HEAD.strip(), f"{A100},512,1024,2048,half,20.5", ""]
    path.write_bytes((start + ending.join(lines).replace(",", separator)).encode())
    (found,) = read_measured(path)
    assert (found.device, found.number_format, found.time_us.tolist()) == (A100, "fp16", [20.5])


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["time_us_max", "time_us_min", "time_us_median", "time_us_mean"], (2, 1.0)),
        (["Time (ms)"], (0, 1e3)),
        (["latency[ns]"], (0, 1e-3)),
        (["avg_us", "min_us"], (0, 1.0)),
        (["GPU time µs"], (0, 1.0)),
        (["time"], None),
        (["cpu_time_us"], None),
        (["time_us_std"], None),
        (["s"], None),
    ],
)
def test_time_column__has_a_unit_and_takes_the_median(names, taken):
    assert time_column([plain_name(name) for name in names]) == taken


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *((name, name) for name in FORMATS),
        *(("torch.float16", "fp16"), ("half", "fp16"), ("__half", "fp16"), ("CUDA_R_16F", "fp16"), ("HGEMM", "fp16")),
        *(("bfloat16", "bf16"), ("CUDA_R_16BF", "bf16"), ("torch.float8_e4m3fn", "fp8"), ("nvfp4", "fp4")),
        *(("GEMM, Conv: Int8 multiplication, 32 bit accumulation", "int8"), ("Float", "fp32"), ("double", "fp64")),
        *(("fp8_block", None), ("int8_wo", None), ("Mixed Precision", None), ("", None)),
    ],
)
def test_format_of__knows_the_names_of_frameworks(text, name):
    assert format_of(text) == name


def test_find_gpu__reads_names_as_drivers_and_people_write_them():
    for text, name in {
        "RTX4090": "rtx_4090",
        "NVIDIA GeForce RTX 3090": "rtx_3090",
        "A100-SXM4-80GB": "a100_sxm_80gb",
        "H100 SXM5": "h100_sxm",
        "NVIDIA GH200 120GB": "gh200",
        "b200_sxm": "b200",
    }.items():
        found = find_gpu(text)
        assert found is not None
        assert found.name == name
    assert find_gpu("NVIDIA H100 NVL") is find_gpu("NVIDIA A10G") is None


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("device;M;N;K;dtype;time_us\nA100;1;2;3;fp16;20,5\n", "2:17", "got '20,5'; write a point for decimals"),
        ("device,M,N,K,dtype,time\n", "1:1", "no column of times; say the unit in the name, such as time_us"),
        ("device,M,N,K,dtype,time_us,M\n", "1:28", "a second column M; leave one of them out"),
        (HEAD + '"A, B",0,2,3,fp16,4\n', "2:8", "M: expected a whole number from 1 to 67108864, got '0'"),
        (HEAD + '"A,1,2,3,fp16,4\nA,1,2,3,fp16,4\n', "2:1", "expected 6 cells, got 1; is a quote not closed?"),
        (HEAD + '"' + "A,1,2,3,fp16,4\n" * 10_000, "2:1", "a quote begins here that does not end; close it"),
        (HEAD + "A,1,2,3,fp16,0\n" * 50, "21:1", "the rows below were not read; mend those above first"),
        ("size,gpu\n", "1:1", "no column dtype; add it, or say --dtype"),
    ],
)
def test_read_measured__says_where_a_table_is_wrong(tmp_path, text, place, what):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_measured(path)
    (line,) = (line for line in str(error.value).splitlines() if what in line)
    assert line.startswith(f"{path}:{place}: ")
    assert len(str(error.value).splitlines()) <= 21


def test_validate_gemm__reads_the_state_of_l2(tmp_path, capsys):
    """Rows that say it are predicted so, others as `--l2` says; `measure_gemm.py` writes the column."""
    path = tmp_path / "m.csv"
    rows = [f"{A100},512,1024,4096,fp16,20,{state}" for state in ("warm", "cold", "", "Cold")]
    path.write_text(HEAD.strip() + ",L2\n" + "\n".join(rows) + "\n")
    assert [(table.l2, len(table)) for table in read_measured(path)] == [("warm", 1), ("cold", 2), ("rotating", 1)]
    assert validation.main(["gemm", str(path), "--l2", "warm", "--json"]) == 0
    warm, cold = json.loads(capsys.readouterr().out)["gemm"]
    assert (warm["l2"], warm["errors"]["all"]["rows"], cold["l2"]) == ("warm", 2, "cold")
    assert warm["errors"]["all"]["ratio"] < cold["errors"]["all"]["ratio"]
    path.write_text(HEAD.strip() + f",L2\n{A100},512,1024,4096,fp16,20,tepid\n")
    assert validation.main(["gemm", str(path)]) == 2
    assert f"{path}:2:45: l2: expected one of rotating, cold, warm, got 'tepid'" in capsys.readouterr().err


def test_validate_gemm__writes_a_page_its_figures_and_a_plot_of_each_gpu(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{device},{m},1024,4096,fp16,20" for m in (256, 512) for device in (A100, "NVIDIA L40S")]
    Path("m.csv").write_text(HEAD + "\n".join(rows) + "\n")
    assert validation.main(["gemm", "m.csv", "-o", "out"]) == 0
    assert "Written to out" in capsys.readouterr().out
    plots = {f"{name}.{kind}" for name in ("1_a100_sxm_80gb_fp16", "2_l40s_fp16") for kind in ("png", "svg")}
    assert {path.name for path in Path("out").iterdir()} == {"validation.md", "validation.json", *plots}
    assert [case["gpu"] for case in json.loads(Path("out/validation.json").read_text())["gemm"]] == [
        "a100_sxm_80gb",
        "l40s",
    ]
    assert "(2_l40s_fp16.svg)" in Path("out/validation.md").read_text()


def test_table__marks_cells_behind_quoted_ones():
    """In `"a, b"; c` below, the second cell begins at column 8."""
    table = find_table('x;y\n\n"a; b";c\n', "f")
    assert table is not None
    (row,) = table.rows(Problems())
    assert row.cells == ("a; b", "c")
    assert str(table.mark(row, 1)) == "f:3:8"


def test_validate_gemm__leaves_out_what_it_cannot_predict_and_says_why(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{A100},512,512,512,fp16,9", f"{A100},512,512,512,Mixed,9", f"{V100},512,512,512,fp8,9"]
    rows += [f"{V100},512,512,512,fp16,9", "NVIDIA A10G,512,512,512,fp16,9"]
    (tmp_path / "m.csv").write_text(HEAD + "\n".join(rows))
    assert validation.main(["gemm", "m.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [case["gpu"] for case in found["gemm"]] == ["a100_sxm_80gb", "v100_sxm_16gb"]
    assert [line.partition("; ")[0] for line in found["not_compared"]] == [
        "m.csv:3:35: 1 row of a100_sxm_80gb: 'Mixed' is no number format",
        "m.csv:4:34: 1 row of v100_sxm_16gb: it does not compute in fp8",
        "m.csv:6:25: 1 row: no GPU 'NVIDIA A10G' ships",
    ]
    assert validation.main(["gemm", "m.csv", "--dtype", "half", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [case["errors"]["all"]["rows"] for case in found["gemm"]] == [2, 1]
    assert validation.main(["gemm", "m.csv", "--calibration", "shipped"]) == 0
    assert "no calibration of v100_sxm_16gb for fp16 ships" in " ".join(capsys.readouterr().out.split())


def test_validate_gemm__does_not_take_another_gpus_rows_for_those_of_the_named_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.csv").write_text(f"{HEAD}{A100},512,512,512,fp16,9\n{V100},512,512,512,fp16,9\n")
    assert validation.main(["gemm", "m.csv", "--gpu", "a100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gemm"][0]["errors"]["all"]["rows"] == 1
    assert found["not_compared"] == [
        f"m.csv:3:34: 1 row of '{V100}', not of a100_sxm_80gb; leave --gpu out to compare each GPU with itself"
    ]
    assert validation.main(["gemm", "m.csv", "--gpu", "l40s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gemm"][0]["note"] == f"m.csv:2:35: {A100} is predicted as l40s, as --gpu says"


@pytest.mark.parametrize(
    ("column", "doubt"),
    [("time_ms", "half of the kernels take over"), ("time_ns", "2 rows are above 1.3 times the peak"), ("time_us", "")],
)
def test_validate_gemm__doubts_a_wrong_unit(tmp_path, capsys, column, doubt):
    path = tmp_path / "m.csv"
    path.write_text(
        f"{HEAD.replace('time_us_median', column)}{A100},4096,4096,4096,fp16,600\n{A100},2048,2048,2048,fp16,80\n"
    )
    assert validation.main(["gemm", str(path), "--json"]) == 0
    doubts = json.loads(capsys.readouterr().out)["gemm"][0]["doubts"]
    assert doubts[0].startswith(doubt) if doubt else not doubts


def test_compare__reads_format_batch_and_device_of_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    head = "gpu;layer;m;n;k;batch;precision;latency (ms)\n"
    rows = f"{A100};ffn;512;512;512;1;float32;0.09\n{A100};attn;512;512;64;16;half;0.02\n{V100};x;8;8;8;1;half;1\n"
    (tmp_path / "m.csv").write_text(head + rows)
    kernels = read_profile("m.csv")
    assert [(k.range, k.shape, k.number_format, k.time_us) for k in kernels[:2]] == [
        ("ffn", (512, 512, 512, 1), "fp32", 90.0),
        ("attn", (512, 512, 64, 16), "fp16", 20.0),
    ]
    assert cli.main(["gpu", "profile", "a100", "m.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    predicted = [row["predicted"] for row in document["layers"]]
    assert [(row["number_format"], row["batch"]) for row in predicted] == [("fp32", 1), ("fp16", 16)]
    assert document["not_compared"] == [f"m.csv:4:1: 1 kernel of '{V100}', not of a100_sxm_80gb"]
    assert cli.main(["gpu", "profile", "h100", "m.csv"]) == 2
    assert "m.csv:2:1: 2 kernels of" in capsys.readouterr().err


def test_validate_gemm__says_how_long_launches_took(tmp_path):
    """Products on an A100 as predicted, each 30 us later, as frameworks launch them, and one of them 300 us more."""
    sizes = [(64, 512, 512), (128, 1024, 1024), (256, 512, 2048), (512, 512, 512)]
    path = tmp_path / "m.csv"
    path.write_text(HEAD + "".join(f"{A100},{m},{n},{k},fp16,1\n" for m, n, k in sizes))
    ((plain,), _) = validate_gemm([path])
    gaps = []
    for launch_us in (0.0, 30.0, np.array([30.0, 30.0, 330.0, 30.0])):
        rows = zip(sizes, plain.predicted_us + launch_us, strict=True)
        path.write_text(HEAD + "".join(f"{A100},{m},{n},{k},fp16,{time_us}\n" for (m, n, k), time_us in rows))
        ((found,), _) = validate_gemm([path])
        gaps.append(found.launch_gap_us)
    assert gaps == [None, pytest.approx(30), pytest.approx(30)]


def test_products__stand_beside_a_roofline_and_the_nearest_row(tmp_path, capsys):
    """Times are rooflines with three constants, another set on each GPU: one that knows the GPU is right."""
    pytest.importorskip("scipy")
    lines = []
    for gpu, launch_us, math, memory in (("a100", 9.0, 0.8, 0.7), ("h100", 4.0, 0.6, 0.9)):
        machine = load_gpu(gpu)
        for m in range(64, 4096, 128):
            for k in (256, 512, 1024, 2048, 4096, 8192):
                operations = 2 * m * 1024 * k / machine.flops("bf16") / math
                moved = 2 * (m * k + 1024 * k + m * 1024) / machine.dram_bytes_per_s / memory
                lines.append(f"{gpu},{m},1024,{k},bf16,{launch_us + 1e6 * max(operations, moved)}")
    path = tmp_path / "m.csv"
    path.write_text(HEAD + "\n".join(lines) + "\n")
    found, _ = validate_gemm([path])
    for case in found:
        beside = errors_beside(case, found)
        assert list(beside) == ["ours", *(f"{name}{of}" for of in (", left out", "") for name in NAMES)]
        assert beside["roofline"].median < 0.01
        assert beside["roofline, left out"].median > 0.05
        assert beside["ours"].rows == len(case.measured) - int(split_rows(case.measured.gemms).fit.sum())
    assert products.main([str(path)]) == 0
    assert "Held-out rows beside a roofline" in capsys.readouterr().out


NAMES = ("roofline", "nearest row")
