"""Collectives: bytes and steps counted by moving parts around, laws, measured rows, bad input."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.cli import main as cli
from accelsim.gpu.catalogue import catalogue, load_gpu
from accelsim.gpu.collectives import NCCL, ONE_SHOT, OPERATIONS, collective_shapes, sent_of, time_collective
from accelsim.gpu.fitted import shipped
from accelsim.inputs.errors import AccelsimError
from validation.kernel_fits import predict, sources
from validation.kernels import read_kernels

H100 = load_gpu("h100")


def walked_ring(operation: str, gpus: int) -> tuple[int, int]:
    """Steps, and parts that one GPU sends, of parts of 1 / gpus of the message that go around until all is done."""
    if operation == "all_to_all":
        return 1, gpus - 1
    steps = sent = 0
    if operation in ("all_reduce", "reduce_scatter"):
        sums = [[{rank} for _ in range(gpus)] for rank in range(gpus)]  # who is in the sum of each part, by rank
        while not all(len(sums[rank][(rank + 1) % gpus]) == gpus for rank in range(gpus)):
            moved = [sums[rank][(rank - steps) % gpus] for rank in range(gpus)]
            for rank in range(gpus):
                part = (rank - steps) % gpus
                sums[(rank + 1) % gpus][part] = sums[(rank + 1) % gpus][part] | moved[rank]
            steps, sent = steps + 1, sent + 1
    if operation in ("all_reduce", "all_gather"):
        have = [{rank} for rank in range(gpus)]
        turn = 0
        while any(len(parts) < gpus for parts in have):
            passed = [(rank - turn) % gpus for rank in range(gpus)]
            for rank in range(gpus):
                assert passed[rank] in have[rank]
                have[(rank + 1) % gpus].add(passed[rank])
            turn += 1
        steps, sent = steps + turn, sent + turn
    return steps, sent


@given(st.sampled_from(OPERATIONS), st.integers(2, 12))
def test_sent_of__equal_the_walked_count(operation, gpus):
    steps, sent = sent_of(collective_shapes(operation, gpus, 1000 * gpus))
    walked = walked_ring(operation, gpus)
    assert (steps[0], sent[0]) == (walked[0], 1000 * walked[1])


@pytest.mark.parametrize("gpu", catalogue(), ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("one_shot", [False, True])
def test_time_collective__grows_with_size_and_is_below_the_link(gpu, one_shot):
    sizes = [2**power for power in range(4, 34)]
    for operation in OPERATIONS[:1] if one_shot else OPERATIONS:
        shapes = collective_shapes([operation] * len(sizes), 8, sizes)
        times = time_collective(gpu, shapes, one_shot=one_shot)
        assert all(after >= before * (1 - 1e-9) for before, after in itertools.pairwise(times.time_us.tolist()))
        assert np.sum(list(times.parts_us.values()), axis=0) == pytest.approx(times.time_us)
        least = (ONE_SHOT if one_shot else NCCL).least(gpu, shapes)[1]
        assert times.time_us[-1] > 0.55 * least[-1]  # in the switch an all-reduce sends 8 / 14 of a ring's


def test_time_collective__over_pcie_says_what_it_may_be_off():
    """Where no GPU of the family was measured."""
    shapes = collective_shapes(["all_reduce"], 4, 2.0**20)
    assert time_collective(load_gpu("rtx_pro_6000"), shapes).label.endswith("; may be 2 times off")
    assert "off" not in time_collective(load_gpu("l40s"), shapes).label
    assert "off" not in time_collective(load_gpu("gb200"), shapes).label


def test_time_collective__nvswitch_adds_up_from_hopper_on():
    """Of eight H100 an all-reduce of 1 GiB takes less than an all-gather and a reduce-scatter; of A100 as much as both.

    Switches that add up send each word through a link once instead of twice: they save half at most.
    """
    for gpu, low, high in ((H100, 0.5, 0.8), (load_gpu("a100"), 0.9, 1.1)):
        shapes = collective_shapes(["all_reduce", "all_gather", "reduce_scatter"], 8, 2.0**30)
        both, gather, scatter = time_collective(gpu, shapes).time_us
        assert low <= both / (gather + scatter) < high


REACH = {"nccl": 0.09, "custom_allreduce": 0.23}


@pytest.mark.parametrize("name", REACH)
def test_shipped__errors_of_held_out_rows(shared, name):
    for table in read_kernels(shared / "data" / "gpu" / "kernels" / f"{name}.csv", "nccl"):
        assert sources(table.kind.name)["sha256"] == table.sha256
        rows = table.rows.take(table.rows.held)
        error = np.abs(predict(table.kind, rows, shipped(table.kind.name)) / rows.time_us - 1)
        assert all(np.median(error[rows.which == at]) < REACH[name] for at in range(len(rows.gpus)))


EAGER_NAMES = ("SGLang/SGLang_CustomAllReduce_eager", "vLLM/vLLM_custom_eager")


@pytest.mark.parametrize("stack", ["", "sglang", "vllm", "trtllm"])
def test_one_shot__is_never_launched_apart_unless_asked(stack):
    """8 KiB of eight A100: kernels in CUDA graphs were measured at 6.3 to 8.4 us, others at 41 to 50 us."""
    a100, message = load_gpu("a100_sxm_80gb"), collective_shapes("all_reduce", 8, 8192)
    assert time_collective(a100, message, one_shot=True, stack=stack).time_us[0] < 9
    for gpu in catalogue():
        label = time_collective(gpu, message, one_shot=True, stack=stack).label
        assert "eager" not in label
    for name in EAGER_NAMES:
        found = time_collective(a100, message, one_shot=True, stack=name)
        assert found.time_us[0] > 20
        assert name in found.label


def test_nccl__launches_are_cycles():
    """At 1.7 GHz a launch is what the constant says; at 0.85 GHz it takes twice as long, and hops take the same."""
    constants = {name: one.start for name, one in NCCL.constants.items()}
    made = collective_shapes("all_gather", 8, 1024)
    for clock in (1.7e9, 0.85e9):
        parts = NCCL.parts(replace(load_gpu("h100"), boost_hz=clock), made, constants)
        assert parts["launch"] == pytest.approx(constants["launch_us"] * 1.7e9 / clock)
        assert parts["steps"] == pytest.approx(7 * constants["hop_us"])


def test_gpu_collective__prints_what_it_is_made_of(capsys):
    assert cli.main(["gpu", "collective", "h100", "all_reduce", "--size", "1 GB", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["operator"] == "all_reduce of 8 GPUs"
    assert sum(answer["parts_us"].values()) == pytest.approx(answer["time_us"])
    assert (
        cli.main(["gpu", "collective", "h200", "all_reduce", "--size", "8 KiB", "--one-shot", "--stack", "vllm"]) == 0
    )
    assert "not calibrated on h200_sxm" in capsys.readouterr().out
    assert cli.main(["gpu", "collective", "h100", "all_reduce", "--size", "1 GB", "--gpus", "16"]) == 0
    assert "of at most 8 GPUs" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["h100", "allreduce", "--size", "1 MB"], "did you mean 'all_reduce'?"),
        (["h100", "all_gather", "--size", "1 MB", "--one-shot"], "measured of all_reduce alone"),
        (["h100", "all_gather", "--size", "1 MB", "--gpus", "1"], "gpus must be a whole number from 2"),
        (["a100", "all_gather", "--size", "1 MB", "--mig", "1g.10gb"], "slices of GPUs have no links"),
        (["h100", "all_gather", "--size", "much"], "expected a size such as 500 MiB"),
    ],
)
def test_gpu_collective__bad_input_ends_with_2(words, message, capsys):
    assert cli.main(["gpu", "collective", *words]) == 2
    assert message in capsys.readouterr().err


def test_collective_shapes__refuse_fractions():
    with pytest.raises(AccelsimError, match="gpus must be a whole number"):
        collective_shapes("all_reduce", 2.5, 1000)
