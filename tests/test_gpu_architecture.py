"""GPUs as machines: their peaks are the data sheets', and a kernel costs as a mapping what the kernel model counts."""

from __future__ import annotations

import math

import pytest

import accelsim
from accelsim.cli import main as cli
from accelsim.gpu.calibration import AUTO, mode_of
from accelsim.gpu.catalogue import catalogue, load_gpu, wide_format
from accelsim.gpu.constants import tile_set
from accelsim.gpu.gemms import Gemms, Setup
from accelsim.gpu.kernel import best_kernels
from accelsim.gpu.machine import instruction, machine_texts
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.model.evaluate import evaluate
from validation.gpu_machine import GEMMS, Worlds, agreement, convolutions, kernel_mappings, proved

GPUS = catalogue()
A100, FP16 = load_gpu("a100_sxm_40gb"), "fp16"


def machine(gpu, number_format: str) -> Architecture:
    return load_architecture(machine_texts(f"{gpu.name}:arch:{number_format}")["architecture"])


def gemm(sizes: tuple[int, int, int]):
    return accelsim.gemm(*sizes).layers[0]


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_peak__is_that_of_the_data_sheet(gpu):
    """In every number format: units x clock / cycles of an instruction; GB300's FP4 is no whole number of cycles."""
    for number_format in gpu.operations_per_sm_cycle:
        architecture = machine(gpu, number_format)
        units = math.prod(level.x.size * level.y.size for level in architecture.levels)
        *_, cycles = instruction(gpu, number_format)
        macs_per_s = units / cycles * gpu.clock_hz(number_format)
        assert macs_per_s == pytest.approx(gpu.flops(number_format) / 2, rel=0.02), number_format


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_tiles__of_the_kernel_model_are_mappings_that_the_machine_allows(gpu):
    number_format, sizes = wide_format(gpu), (1024, 1024, 1024)
    layer, texts = gemm(sizes), machine_texts(f"{gpu.name}:arch:{number_format}")
    architecture = load_architecture(texts["architecture"])
    constraints = load_constraints(texts["constraints"], architecture, layer)
    tiles = tile_set(gpu, number_format, mode_of(gpu, number_format, AUTO).constants.in_flight_bytes)
    for index in range(len(tiles.rows)):
        tile = int(tiles.rows[index]), int(tiles.columns[index])
        mapping = next(kernel_mappings(gpu, number_format, architecture, sizes, tile))
        assert not evaluate(architecture, layer, mapping).violations, tile
        assert not constraints.broken_by(mapping, layer), tile


@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (2304, 1536, 4096), (1024, 8192, 512)], ids=str)
def test_l2__serves_the_words_that_the_kernel_model_counts(sizes):
    """An SM loads its tiles' rows and columns of K; both count the same to the word."""
    (kernel,) = best_kernels(
        A100, ["gemm"], Gemms.of(*sizes), FP16, mode_of(A100, FP16, AUTO), Setup("cold", tile="128x256")
    )
    for mapping in kernel_mappings(A100, FP16, machine(A100, FP16), sizes, (128, 256)):
        result = evaluate(machine(A100, FP16), gemm(sizes), mapping)
        reads = [t.reads for t in result.tensors if t.level == "L2" and t.tensor != "Outputs"]
        assert 2 * sum(reads) == kernel.l2_bytes


def test_worlds__agree_on_40_gemms_and_20_convolutions_of_an_a100():
    """Those that differ: ties within 5 %, waves that are rectangles, and an L2 that holds whole panels or none."""
    worlds = Worlds.of(A100, FP16)
    rows = [worlds.compare(sizes) for sizes in (*GEMMS, *convolutions())]
    assert len(rows) == 60
    least = (44, 51, 56, 50, 60, 60)
    assert all(many >= each for many, each in zip(agreement(rows).values(), least, strict=True)), agreement(rows)
    assert max(row.slower for row in rows) < 1.11
    assert all(abs(row.hbm - 1) <= 0.15 or 2 * row.sizes[2] * sum(row.sizes[:2]) > A100.l2_bytes for row in rows)


def test_worlds__agree_on_an_h100_but_for_its_power_limit():
    """Kernels of a few microseconds are mostly launch and first loads, which no mapping has."""
    worlds = Worlds.of(load_gpu("h100_sxm"), "bf16")
    rows = [worlds.compare(sizes) for sizes in GEMMS[::2]]
    assert sum(row.same for row in rows) >= 14
    assert sum(row.slower <= 1.05 for row in rows) >= 18
    assert all(abs(row.energy - 1) <= 0.3 or row.limited or math.prod(row.sizes) < 2**28 for row in rows)


@pytest.mark.parametrize("sizes", [(512, 8192, 8192), (1024, 6144, 4096), (4096, 3072, 768)], ids=str)
def test_mapper__proves_the_tile_of_the_kernel_model(sizes):
    """Of all kernels that divide the sizes evenly, not of those in a table."""
    line = proved(Worlds.of(A100, FP16), sizes).split()
    assert line[3] == "same"
    assert line[5] == "proved"
    assert abs(float(line[4]) - 1) <= 0.15


def test_sums__take_32_bits_each_whatever_the_workload_says():
    """A tile of 128 x 256 sums is a half of an A100's 64 Ki registers, 32 KiB of each sub-partition's 64 KiB."""
    sizes = (4096, 4096, 4096)
    result = evaluate(
        machine(A100, FP16), gemm(sizes), next(kernel_mappings(A100, FP16, machine(A100, FP16), sizes, (128, 256)))
    )
    (level,) = (level for level in result.levels if level.level == "Sums")
    assert level.word_bits == 32
    (sums,) = (t for t in result.tensors if t.level == "Sums" and t.tensor == "Outputs")
    assert sums.tile_words * level.word_bits == 32 * 1024 * 8


def test_import__writes_files_that_map_alike(tmp_path, capsys):
    assert cli.main(["import", "a100:1g.10gb:arch:fp16", "-o", str(tmp_path)]) == 0
    written = [tmp_path / f"{kind}.yaml" for kind in ("architecture", "constraints")]
    assert cli.main(["check", *map(str, written)]) == 0
    by_file = accelsim.map(str(written[0]), "gemm", constraints=str(written[1]), mapspace="even", factors="perfect")
    by_name = accelsim.map("a100:1g.10gb:arch:fp16", "gemm", mapspace="even", factors="perfect")
    assert by_file.result == by_name.result
    assert by_name.mapping.levels[1].level == "L2"
    assert math.prod(loop.bound for loop in by_name.mapping.levels[1].x) <= 14  # SMs of the slice


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h100_sx:arch", "did you mean 'h100_sxm'"),
        ("l4:1g.5gb:arch", "it has no MIG"),
        ("a100:arch:fp8", "does not compute in 'fp8'"),
        ("a100:arch:fp17", "did you mean 'fp16'"),
    ],
)
def test_machine_texts__names_mistakes(name, message):
    with pytest.raises(AccelsimError, match=message):
        machine_texts(name)


def test_operands__wider_than_the_units_are_refused(capsys):
    assert cli.main(["map", "h100_sxm:arch:fp8", "gemm"]) == 2
    assert "operands of 16 bit, only of 8 bit" in capsys.readouterr().err
