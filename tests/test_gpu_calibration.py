"""Measured tables, calibrations and their errors."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import validation.__main__ as validation
from accelsim.cli import main as cli
from accelsim.gpu.calibration import FOLDER, Calibration, calibrate, load_calibration, mode_of
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.constants import CHOICES, FASTEST, bounds, calibrated, common_constants
from accelsim.gpu.gemms import Gemms, time_gemms
from accelsim.gpu.measured import MeasuredGemms, read_measured, split_rows
from accelsim.inputs.errors import AccelsimError, InputError
from benchmarks.gpu.common_constants import constants_of, family, fit_common
from validation.gemm import validate_gemm

TARGET_UNCALIBRATED = {"H100": 0.15, "B200": 0.15, "A100": 0.25, "L40S": 0.25}


def made_table(values: dict[str, float], rows: int = 300, choice: str = FASTEST) -> MeasuredGemms:
    """Times that the model itself makes with other constants."""
    rng = np.random.default_rng(3)
    gemms = Gemms.of(*(32 * rng.integers(1, 200, rows) for _ in range(3)))
    gpu = load_gpu("a100")
    constants = common_constants("mma").with_values(values, choice)
    return MeasuredGemms("", "bf16", gemms, time_gemms(gpu, gemms, "bf16", constants).time_us)


@pytest.mark.parametrize("choice", CHOICES)
def test_calibrate__finds_which_tilings_the_library_chooses_from(choice):
    table = made_table({"reduction_traffic": 2.0}, rows=150, choice=choice)
    assert calibrate(load_gpu("a100"), table, {}).choice == choice


def test_calibrate__finds_constants_that_were_put_in():
    values = {"launch_us": 3.0, "dram_efficiency": 0.7, "smem_cost": 1.6}
    found = calibrate(load_gpu("a100"), made_table(values), {})
    assert found.errors["interpolation"].median < 0.003
    assert found.values["smem_cost"] == pytest.approx(1.6, rel=0.05)


def test_calibrate__does_not_look_at_held_out_rows():
    table = made_table({"launch_us": 3.0}, rows=200)
    held = ~split_rows(table.gemms).fit
    spoilt = MeasuredGemms("", "bf16", table.gemms, np.where(held, 1e6, table.time_us))
    assert calibrate(load_gpu("a100"), table, {}).values == calibrate(load_gpu("a100"), spoilt, {}).values


def test_split_rows__puts_a_shape_on_one_side_always():
    gemms = made_table({}).gemms
    whole, half = split_rows(gemms), split_rows(gemms.rows(slice(0, 150)))
    assert (whole.fit.astype(int) + whole.interpolation + whole.extrapolation == 1).all()
    near = ~whole.extrapolation[:150] & ~half.extrapolation
    assert (whole.fit[:150][near] == half.fit[near]).all()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_shipped_calibrations__say_where_they_come_from(path):
    found = load_calibration(path)
    assert path.stem == f"{found.gpu}_{found.kind}"
    assert list(found.values) == list(calibrated(found.kind))
    assert len(found.values) <= 8
    assert all(bounds()[name][0] <= value <= bounds()[name][1] for name, value in found.values.items())
    assert found.source.keys() >= {"file", "sha256", "device", "about"}
    assert found.errors["interpolation"].rows > 50
    assert found.interval[0] < 1 < found.interval[1]
    assert mode_of(load_gpu(found.gpu), found.number_format, "shipped").calibration == found


def test_mode_of__says_what_ships_and_refuses_another_gpus():
    with pytest.raises(AccelsimError, match="no calibration of l4 for bf16 ships"):
        mode_of(load_gpu("l4"), "bf16", "shipped")
    with pytest.raises(AccelsimError, match="is of b200 for async kernels"):
        mode_of(load_gpu("a100"), "bf16", FOLDER / "b200_async.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("M,N,K,dtype\n", "no column of times"),
        ("M,N,time_us\n1,2,3\n", "no column K"),
        ("M,N,K,time_us\n1,2,3,4\n", "no column dtype; add it, or say --dtype"),
        ("M,N,K,dtype,time_us\n1,2,x,bf16,4\n", ":2:5: K: expected a whole number from 1 to 67108864, got 'x'"),
        ("M,N,K,dtype,time_us\n1,2,3,bf16,0\n", ":2:12: time_us: expected a time from 1e-06 to 1e+12 us, got '0'"),
        ("M,N,K,dtype,time_us\n1,2,3,bf16,1e-308\n", "time_us: expected a time from 1e-06 to 1e+12 us, got '1e-308'"),
        ("M,N,K,dtype,time_us\n1,2,3\n", ":2:1: expected 5 cells, got 3"),
    ],
)
def test_read_measured__names_mistakes_with_their_place(tmp_path, text, message):
    path = tmp_path / "measured.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_measured(path)
    assert message in str(error.value)


def test_read_measured__takes_columns_in_any_order(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("# a note\nlatency_ms,x,k,N,m,DTYPE,Device\n0.5,9,3,2,1,torch.bfloat16,NVIDIA H200\n")
    (found,) = read_measured(path)
    assert (found.device, found.number_format, found.time_us.tolist()) == ("NVIDIA H200", "bf16", [500.0])
    assert (found.gemms.m[0], found.gemms.n[0], found.gemms.k[0]) == (1, 2, 3)


def test_validate_gemm__keeps_to_its_accuracy_on_public_measurements(shared, capsys):
    path = shared / "data" / "gpu" / "gemm_bf16_measured.csv"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    for mode, limit in (
        ("uncalibrated", TARGET_UNCALIBRATED),
        ("calibrated", dict.fromkeys(TARGET_UNCALIBRATED, 0.10)),
    ):
        found, skipped = validate_gemm([path], calibration="shipped" if mode == "calibrated" else None)
        assert not skipped
        assert len(found) == 4
        for case in found:
            (target,) = (value for name, value in limit.items() if name in case.measured.device)
            assert case.mode == mode
            assert case.errors["all"].median < target, case.gpu.name
            assert case.errors["all"].spearman > 0.98
    assert validation.main(["gemm", str(path), "--gpu", "h20"]) == 2
    assert "did you mean" in capsys.readouterr().err


def test_calibrate_command__writes_what_validate_reads(tmp_path, capsys):
    table = made_table({"launch_us": 3.0}, rows=120)
    path, written = tmp_path / "measured.csv", tmp_path / "a100.json"
    g = table.gemms
    lines = [f"{m:.0f},{n:.0f},{k:.0f},bf16,{t}" for m, n, k, t in zip(g.m, g.n, g.k, table.time_us, strict=True)]
    path.write_text("\n".join(["M,N,K,dtype,time_us_median", *lines]) + "\n")
    assert cli.main(["gpu", "calibrate", "a100", str(path), "-o", str(written)]) == 0
    assert "8 constants" in capsys.readouterr().out
    assert validation.main(["gemm", str(path), "--gpu", "a100", "--calibration", str(written), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["gemm"][0]["mode"] == "calibrated"
    assert document["gemm"][0]["errors"]["interpolation"]["median"] < 0.01
    written.write_text("{}")
    assert validation.main(["gemm", str(path), "--gpu", "a100", "--calibration", str(written)]) == 2
    assert "not a calibration" in capsys.readouterr().err


def test_calibration__reads_back_what_it_wrote(tmp_path):
    path = tmp_path / "c.json"
    found = load_calibration(FOLDER / "h100_sxm_async.json")
    path.write_text(found.to_json())
    assert load_calibration(path) == found
    assert isinstance(found, Calibration)


def test_fit_common__predicts_a_family_that_was_left_out():
    """Times that the model makes for the L40S; constants fitted to them predict those of the A100."""
    gemms, tables = made_table({}, rows=90).gemms, []
    for gpu in map(load_gpu, ("a100", "l40s")):
        times = time_gemms(gpu, gemms, "bf16", common_constants("mma").with_values({"launch_us": 3.0})).time_us
        tables.append((gpu, MeasuredGemms("", "bf16", gemms, times)))
    (a100, measured), *others = tables
    assert [family(gpu) for gpu, _ in others] != [family(a100)]
    found = time_gemms(a100, gemms, "bf16", constants_of(fit_common(others), "mma")).time_us
    assert np.median(np.abs(found / measured.time_us - 1)) < 0.08


def test_calibrate_command__says_what_to_install_without_scipy(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    table = made_table({}, rows=120)
    path = tmp_path / "measured.csv"
    g = table.gemms
    lines = [f"{m:.0f},{n:.0f},{k:.0f},bf16,{t}" for m, n, k, t in zip(g.m, g.n, g.k, table.time_us, strict=True)]
    path.write_text("\n".join(["M,N,K,dtype,time_us_median", *lines]) + "\n")
    assert cli.main(["gpu", "calibrate", "a100", str(path)]) == 2
    assert "pip install 'accelsim[calibrate]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpu", "calibrate", "a100", "one.csv", "--dtype", "zz"], "'zz' is no number format; formats: fp64"),
        (["gpu", "calibrate", "h100", "one.csv"], "1 rows of h100_sxm in bf16 may be fitted; 40 are needed"),
        (["gpu", "calibrate", "a100", "other.csv"], "say another GPU than a100_sxm_80gb, or another --dtype"),
        (["gpu", "calibrate", "a100", "head.csv"], "head.csv:1:1: no row below the head line; write a row"),
        (["gemm", "other.csv", "--calibration", "list.json"], "its parts are of other kinds; write it anew"),
        (["gemm", "other.csv", "--calibration", "part.json"], "'errors' is missing; write it anew"),
        (
            ["gpu", "profile", "a100", "late.csv"],
            "late.csv:2:10: time_us: expected a time from 1e-06 to 1e+12 us, got '-3'",
        ),
        (
            ["gpu", "profile", "a100", "none.csv"],
            "none.csv:2:1: M: expected a whole number from 1 to 67108864",
        ),
        (["gpu", "map", "eyeriss", "gemm"], "eyeriss: no such file, and no GPU of that name"),
        (["map", "eyeriss", "gemm", "--pass", "forward"], "--pass: `accelsim gpu map` has the options for GPUs"),
        (["gemm", "odd.csv", "--gpu", "a100"], "odd.csv:2:10: 1 row of a100_sxm_80gb: 'bf17' is no number"),
        (["gemm", "odd.csv"], "odd.csv:2:10: 1 row of no device; say --gpu NAME, or add a column device"),
        (["gpu", "map", "a100", "gemm", "--dtype", "bf17"], "'bf17' is no number format; did you mean 'bf16'?"),
    ],
)
def test_gpu_commands__say_what_is_wrong_with_careless_input(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    head = "M,N,K,dtype,time_us\n"
    files = {
        "one.csv": head + "64,64,64,bf16,5\n",
        "other.csv": "device,M,N,K,dtype,time_us\nNVIDIA H100 80GB HBM3,64,64,64,bf16,5\n",
        "head.csv": head,
        "odd.csv": head + "64,64,64,bf17,5\n",
        "list.json": "[]",
        "part.json": '{"gpu_calibration": {}}',
        "late.csv": "M,N,K,time_us\n64,64,64,-3\n",
        "none.csv": "M,N,K,time_us\n0,64,64,3\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert (validation if arguments[0] == "gemm" else cli).main(arguments) == 2
    assert message in capsys.readouterr().err


def test_calibrate__below_a_link_to_itself_has_no_folder(run, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    code, _, said = run("gpu", "calibrate", "a100", "m.csv", "-o", tmp_path / "loop" / "c.json")
    assert (code, said) == (2, f"-o {tmp_path / 'loop' / 'c.json'}: no such folder; make it first\n")


@pytest.mark.parametrize(
    ("rows", "column", "odd", "swapped"),
    [(24, "K", 0, True), (24, "N", 0, False), (19, "K", 0, False), (24, "K", 1, False)],
)
def test_read_measured__turns_n_and_k_where_every_grid_says_so(tmp_path, rows, column, odd, swapped):
    """64 x 300 outputs in tiles of 64 x 64 are 5 blocks, 64 x 900 are 15; a grid may have them either way round."""
    blocks = {"K": "5x1x1", "N": "1x15x1"}
    grids = [blocks[column]] * rows + [blocks["N"]] * odd
    lines = [f"V100,64,900,300,fp32,10,64,64,{grid}" for grid in (*grids, "", "what")]
    path = tmp_path / "m.csv"
    path.write_text("\n".join(["device,M,N,K,dtype,time_us,tile0,tile1,grid", *lines]))
    (found,) = read_measured(path)
    assert (found.gemms.n[0], found.gemms.k[0]) == ((300, 900) if swapped else (900, 300))
    assert found.rows(found.time_us > 0).note == found.note
    assert found.note == (
        f"{path}: N and K are taken the other way round: all 24 grids that tell them apart cover M x K"
        if swapped
        else ""
    )
