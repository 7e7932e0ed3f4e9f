"""Products in narrow formats, passes that quantise, mixtures of experts: counts by drawing, laws, measured rows."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from accelsim.cli import main as cli
from accelsim.gpu.catalogue import catalogue, load_gpu
from accelsim.gpu.fitted import Fitted, FittedSet, shipped, time_kernels
from accelsim.gpu.quantised import (
    EXPERTS,
    PRODUCT,
    experts_shapes,
    loads_of,
    precisions,
    product_shapes,
)
from accelsim.inputs.errors import AccelsimError
from validation.kernel_fits import predict, sources
from validation.kernels import OPERATORS, SCALING, pass_shapes, read_kernels

H100 = load_gpu("h100")
MIXTURE = {"tokens": 4096, "hidden": 4096, "inter": 1536, "experts": 128, "top": 8}


def drawn_loads(tokens: int, experts: int, top: int, skew: float, times: int) -> tuple[np.ndarray, float]:
    """Tokens of the experts from least to most, mean of many draws from the power law; and of the fullest one."""
    random, most, power = np.random.default_rng(5), 0.8 * tokens, 1 - skew
    drawn = ((most**power - 1) * random.random((times, experts)) + 1) ** (1 / power)
    loads = np.sort(drawn / drawn.mean() * tokens * top / experts, axis=1)
    return loads.mean(axis=0), float(loads.mean(axis=0)[-1])


@pytest.mark.parametrize("skew", [0.5, 1.01, 1.2])
@pytest.mark.parametrize(("tokens", "experts", "top"), [(4096, 128, 8), (1024, 256, 8), (16384, 512, 2)])
def test_loads_of__are_those_of_drawn_experts(tokens, experts, top, skew):
    shapes = experts_shapes("bf16", tokens=tokens, hidden=64, inter=64, experts=experts, top=top, skew=skew)
    loads, fullest, mean = loads_of(shapes)
    walked, walked_fullest = drawn_loads(tokens, experts, top, skew, 4000)
    assert mean[0] == pytest.approx(walked.mean(), rel=1e-6)
    quantiles = np.quantile(walked, (np.arange(32) + 0.5) / 32)
    assert loads[0][4:28] == pytest.approx(quantiles[4:28], rel=0.12)
    assert fullest[0] == pytest.approx(min(walked_fullest, tokens), rel=0.1)


def test_loads_of__without_skew_are_equal():
    loads, fullest, mean = loads_of(experts_shapes("bf16", **MIXTURE))
    assert loads.tolist() == [[256.0] * 32]
    assert fullest.tolist() == mean.tolist() == [256.0]


def walked_tiles(loads: list[int], rows: int) -> int:
    """Tiles of rows of experts, counted one by one."""
    return sum(len(range(0, load, rows)) for load in loads)


@pytest.mark.parametrize("tokens", [16, 100, 160, 4096, 5000])
def test_experts__tiles_and_weights_are_the_walked_ones(tokens):
    """Constants that leave one term alone: a tile takes 1 us, weights pass DRAM at its bandwidth, all else is 0."""
    shapes = experts_shapes("bf16", **{**MIXTURE, "tokens": tokens})
    load = tokens * 8 / 128
    free = dict.fromkeys(EXPERTS.constants, 0.0) | {"math": 1e9, "crowding": 0.0, "residency": 1e-9}
    tiles = EXPERTS.parts(H100, shapes, {**free, "memory": 1e9, "tile_us": 1.0})["products"][0]
    rows = min(max(2 ** int(np.ceil(np.log2(max(load, 1)))), 16), 128)
    counted = walked_tiles([int(np.ceil(load))] * 128, rows)
    blocks = [counted * (2 * 1536 // 128), counted * (4096 // 128)]
    assert tiles == pytest.approx(sum(max(1, n / 132) + (0.5 if n > 132 else 0) for n in blocks))
    memory = EXPERTS.parts(H100, shapes, {**free, "memory": 1.0})["products"][0]
    read = sum(3 * 4096 * 1536 * 2.0 for _ in range(128) if load >= 1)
    assert memory == pytest.approx(read / H100.dram_bytes_per_s * 1e6, rel=1e-6)


def test_products__quantise_inputs_that_are_read_in_16_bit_and_written_in_fewer():
    """64 x 32 words, read in 2 bytes and written in 1; in 16 bit nothing is quantised."""
    free = dict.fromkeys(PRODUCT.constants, 0.0) | {"quantise": 1.0}
    times = [
        PRODUCT.parts(H100, product_shapes(H100, name, 64, 16, 32), free)["quantise"][0] for name in ("fp8", "bf16")
    ]
    assert times == [pytest.approx(64 * 32 * (2 + 1) / H100.dram_bytes_per_s * 1e6), 0.0]


@pytest.mark.parametrize("gpu", catalogue(), ids=lambda gpu: gpu.name)
def test_times__grow_with_work_on_each_gpu(gpu):
    if "bf16" not in gpu.operations_per_sm_cycle:
        return
    sizes = [2**power for power in range(5, 15)]
    formats = {"fp4": "nvfp4", "fp8": "fp8", "int8": "int8"}
    narrow = next(name for of, name in formats.items() if of in gpu.operations_per_sm_cycle)
    for times in (
        time_kernels(EXPERTS, gpu, experts_shapes([narrow] * 10, **{**MIXTURE, "tokens": sizes})),
        time_kernels(PRODUCT, gpu, product_shapes(gpu, [narrow] * 10, [1024] * 10, 4096, sizes)),
        time_kernels(SCALING, gpu, pass_shapes(sizes, 8192, scaling=True)),
    ):
        assert all(after >= before for before, after in itertools.pairwise(times.time_us.tolist()))
        assert np.sum(list(times.parts_us.values()), axis=0) == pytest.approx(times.time_us)


def test_experts__crowded_tokens_read_fewer_weights_and_shared_experts_take_less():
    few = {**MIXTURE, "tokens": 32}
    skewed = [experts_shapes("bf16", **few, skew=skew) for skew in (0.0, 1.2)]
    even, crowded = (time_kernels(EXPERTS, H100, made, "trtllm") for made in skewed)
    assert crowded.parts_us["products"][0] < even.parts_us["products"][0]
    alone, shared = (time_kernels(EXPERTS, H100, experts_shapes("bf16", **MIXTURE, ranks=n), "trtllm") for n in (1, 8))
    assert shared.time_us[0] < alone.time_us[0] / 3


def test_fitted__prefers_the_kernel_of_the_variant():
    sets = [
        FittedSet("S/block", "fp8_block", "hopper 9", ("h100_sxm",), 900, {"x": 1.0}, -1, ("x",)),
        FittedSet("S/plain", "fp8", "hopper 9", ("h100_sxm",), 100, {"x": 2.0}, -1, ("x",)),
        FittedSet("", "", "", ("h100_sxm", "l40s"), 1000, {"x": 3.0}, -1, ("x",)),
        FittedSet("", "", "ada 8", ("l40s",), 50, {"x": 4.0}, -1, ("x",)),
    ]
    found = Fitted(tuple(sets))
    assert found.of(H100, None, "fp8").values["x"] == found.of(H100, "s", "fp8").values["x"] == 2
    assert found.of(H100, "S/block", "fp8").values["x"] == 1
    assert found.of(load_gpu("a100"), "s", "fp8").values["x"] == 2
    assert found.of(load_gpu("a100")).values["x"] == 3
    assert found.of(load_gpu("l40s"), None, "fp8").values["x"] == 4


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (EXPERTS, experts_shapes("bf16", **MIXTURE)),
        (PRODUCT, product_shapes(H100, "fp8", 4096, 4096, 4096)),
        (SCALING, pass_shapes(4096, 4096, scaling=True)),
    ],
    ids=lambda part: getattr(part, "name", ""),
)
def test_launches__are_cycles(kind, made):
    """At 1.7 GHz constants are what they say; at 0.85 GHz a launch takes twice as long."""
    constants = {name: one.start for name, one in kind.constants.items()}
    slow, usual = (kind.parts(replace(H100, boost_hz=clock), made, constants)["launch"] for clock in (0.85e9, 1.7e9))
    assert slow == pytest.approx(2 * usual)
    assert usual == pytest.approx(constants["launch_us"] + constants.get("expert_us", 0) * 128)


REACH = {"moe": 0.2, "gemm_low_precision": 0.14, "quantize": 0.11, "scale_matrix": 0.08}


@pytest.mark.parametrize("name", REACH)
def test_shipped__errors_of_held_out_rows(shared, name):
    path = shared / "data" / "gpu" / "kernels" / f"{name}.csv"
    for table in read_kernels(path):
        assert sources(table.kind.name)["sha256"] == table.sha256
        rows = table.rows.take(table.rows.held)
        error = np.abs(predict(table.kind, rows, shipped(table.kind.name)) / rows.time_us - 1)
        assert all(np.median(error[rows.which == at]) < REACH[name] for at in range(len(rows.gpus)))


def test_shipped__constants_of_every_operator_lie_in_their_ranges():
    for operator in OPERATORS.values():
        kind = operator.kind
        for one in shipped(kind.name).sets:
            assert set(one.values) == set(kind.constants)
            for name, value in one.values.items():
                assert kind.constants[name].low * 0.999 <= value <= kind.constants[name].high * 1.001


def test_commands__print_what_they_are_made_of(capsys):
    words = "--tokens 4096 --hidden 4096 --inter 1536 --experts 128 --top 8 --ep 4 --skew 1.2 --dtype fp8_block"
    assert cli.main(["gpu", "moe", "h100", *words.split(), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert sum(answer["parts_us"].values()) == pytest.approx(answer["time_us"])
    assert cli.main(["gpu", "gemm", "l40s", "2048", "4096", "4096", "--dtype", "fp8", "--stack", "vllm"]) == 0
    text = capsys.readouterr().out
    assert "quantise" in text
    assert "CutlassFP8ScaledMMLinearKernel" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("gemm h100 64 64 64 --stack vllm --dtype fp9", "'fp9' is no number format; did you mean"),
        ("gemm h100 64 64 64 --dtype fp9", "h100_sxm does not compute in 'fp9'; did you mean 'fp8'?"),
        ("moe h100 --tokens 8 --hidden 64 --inter 64 --experts 4 --top 5", "top must be at most the number of experts"),
        ("moe h100 --tokens 8 --hidden 64 --inter 64 --experts 4 --top 2 --ep 8", "ranks must be at most"),
        ("gemm a100 64 64 64 --dtype fp8", "a100_sxm_80gb: it does not compute in fp8; its formats: fp64"),
        ("gemm v100 64 64 64 --dtype fp8_block", "v100_pcie: it does not compute in fp8"),
        ("gemm h200 64 64 64 --dtype nvfp4", "int8_wo, int4_wo, w4a16_mxfp4 only store weights in fewer bits"),
        ("moe a100 --tokens 8 --hidden 64 --inter 64 --experts 4 --top 2 --dtype fp8", "it does not compute in fp8"),
        ("serve a100 llama --dtype fp8", "it does not compute in fp8"),
        ("moe h100 --tokens 8 --hidden 64 --inter 64 --experts 4 --top 2 --skew nan", "skew must be a number, got nan"),
    ],
)
def test_commands__bad_input_ends_with_2(words, message, capsys):
    assert cli.main(["gpu", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_commands__say_what_runs_in_place_of_bf16(capsys):
    for words in (
        "gemm v100 64 64 64 --dtype int8_wo",
        "attention v100 --heads 8",
        "moe v100 --tokens 8 --hidden 64 --inter 64 --experts 4 --top 2 --dtype bf16",
    ):
        assert cli.main(["gpu", *words.split()]) == 0
        assert "v100_pcie does not compute in bf16: fp16 instead" in capsys.readouterr().err
    assert cli.main(["gpu", "attention", "v100", "--heads", "8", "--dtype", "fp16"]) == 0
    assert capsys.readouterr().err == ""


def test_products__are_no_faster_than_the_peak_in_any_format():
    for gpu, one in itertools.product(catalogue(), precisions()):
        if one.multiplied in gpu.operations_per_sm_cycle:
            times = time_kernels(PRODUCT, gpu, product_shapes(gpu, one.name, 16384, 16384, 16384))
            assert 2 * 16384**3 / times.time_us[0] * 1e6 <= gpu.flops(one.multiplied)


def test_precisions__are_found_by_the_names_of_tables():
    assert len({one.name for one in precisions()}) == len(precisions())
    assert experts_shapes("bfloat16", **MIXTURE)["precision"].tolist() == [0]
    with pytest.raises(AccelsimError, match="'nvfp8' is no number format"):
        experts_shapes("nvfp8", **MIXTURE)


def test_read_kernels__leaves_out_precisions_that_are_unknown(tmp_path):
    path = tmp_path / "x.csv"
    head = "gpu,framework,kernel_source,op_name,gemm_dtype,m,n,k,time_us\n"
    rows = [f"h100,VLLM,x,gemm,{dtype},64,64,{64 * at},{5 + at}" for at in range(1, 9) for dtype in ("fp8", "fp3")]
    path.write_text(head + "\n".join(rows))
    (table,) = read_kernels(path, "gemm")
    assert len(table.rows) == 8
    assert "8 rows in 'fp3', which is no precision" in table.notes[0]
