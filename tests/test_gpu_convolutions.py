"""Measured convolutions beside implicit GEMMs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from accelsim.gpu import PASSES
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.gemms import time_gemms
from accelsim.gpu.network import gemms_of, product_of
from accelsim.inputs.errors import InputError
from accelsim.inputs.workload_reader import load_workload
from validation.convolutions import SIZES, convolution_gemms, main, validate_convolutions

HEAD = "device,dtype,algo,N,C,H,W,K,R,S,P,Q,time_us_fwd,time_us_bwd_in"
CONV = (1, 256, 58, 58, 256, 3, 3, 56, 56)
"""The layer of workloads/conv.yaml, its input padded."""


@pytest.mark.parametrize("training_pass", PASSES)
def test_convolution_gemms__are_those_of_the_layer(training_pass):
    sizes = {name: np.array([float(value)]) for name, value in zip(SIZES, CONV, strict=True)}
    ours = convolution_gemms(sizes, training_pass)
    layer = gemms_of([product_of(load_workload("conv").layers[0], training_pass)])
    assert (ours.m, ours.n, ours.k) == (layer.m, layer.n, layer.k)
    assert ours.unique == pytest.approx(layer.unique)


def table(tmp_path, *rows: str):
    path = tmp_path / "conv.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return path


def test_validate_convolutions__has_no_error_against_its_own_times(tmp_path):
    gpu = load_gpu("t4")
    sizes = {name: np.array([float(value)]) for name, value in zip(SIZES, CONV, strict=True)}
    constants = mode_of(gpu, "fp16").constants
    times = [time_gemms(gpu, convolution_gemms(sizes, name), "fp16", constants).time_us[0] for name in PASSES[:2]]
    layer = ",".join(map(str, CONV))
    path = table(
        tmp_path,
        f"NV_T4,Results - FP16 ip,IMPLICIT_GEMM,{layer},{times[0]},{times[1]}",
        f"NV_T4,FP16,WINOGRAD_NONFUSED,{layer},{2 * times[0]},",
        "NV_T4,FP16,WINOGRAD,1,256,58,58,256,,,56,56,3,",
    )
    found, skipped = validate_convolutions([path])
    named = [(case.training_pass, case.algorithm, case.nhwc.rows) for case in found]
    assert named == [("forward", "Winograd", 1), ("forward", "implicit GEMM", 1), ("input_gradient", "any", 1)]
    assert [case.nhwc.median for case in found] == pytest.approx([0.5, 0, 0], abs=1e-12)
    assert [case.winograd.rows for case in found] == [1, 0, 0]
    assert all(case.nchw.ratio > case.nhwc.ratio for case in found)
    assert skipped == ["conv.csv: 1 rows lack one of the columns N, C, H, W, K, R, S, P, Q"]


def test_validate_convolutions__names_mistakes_with_their_place(tmp_path):
    path = table(tmp_path, "NV_T4,fp99,,1,2,3,x,5,6,7,8,1.5,-1,")
    with pytest.raises(InputError) as error:
        validate_convolutions([path])
    for message in (
        "conv.csv:2:19: W: expected a whole number from 1 to 67108864, got 'x'",
        "Q: expected a whole number from 1 to 67108864, got '1.5'",
        "time_us_fwd: expected a time from 1e-06 to 1e+12 us, got '-1'",
    ):
        assert message in str(error.value)


def test_validate_convolutions__leave_out_what_has_no_number_format(tmp_path):
    layer = ",".join(map(str, CONV))
    rows = [f"NV_T4,{name},,{layer},90," for name in ("FP16", "Mixed", "fp8")]
    found, skipped = validate_convolutions([table(tmp_path, *rows, f"V9,fp16,,{layer},90,")])
    assert [case.nhwc.rows for case in found] == [1]
    assert [line.partition("; ")[0] for line in skipped] == [
        "1 rows of t4: 'Mixed' is no number format",
        "1 rows of t4: it does not compute in fp8",
        "1 rows of 'V9': no such GPU ships",
    ]


def test_validate_conv_command__shows_each_gpu(shared, capsys):
    path = shared / "data" / "gpu" / "conv_deepbench.csv"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    assert main([str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["conv"]
    assert {(row["gpu"], row["number_format"]) for row in rows} == {
        (gpu, number_format) for gpu in ("t4", "v100_pcie") for number_format in ("fp16", "fp32")
    }
    named = {row["algorithm"]: row for row in rows if row["gpu"] == "v100_pcie" and row["number_format"] == "fp32"}
    assert named["implicit GEMM"]["nhwc"]["median"] < 0.2
    assert named["implicit GEMM"]["winograd"]["median"] is None
    assert named["Winograd"]["winograd"]["median"] < 0.3 < named["Winograd"]["nhwc"]["median"]
    gradients = [row for row in rows if row["algorithm"] == "any" and row["gpu"] == "v100_pcie"]
    assert all(row["winograd"]["median"] < row["nhwc"]["median"] for row in gradients if row["number_format"] == "fp32")
    assert main([str(path)]) == 0
    assert "v100_pcie, fp32" in capsys.readouterr().out
