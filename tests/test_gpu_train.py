"""Training steps: operations, both gradients, states, what overlaps, and the command."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import pytest

from accelsim.cli import main as cli
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.collectives import collective_shapes, time_collective
from accelsim.gpu.constants import IDLE
from accelsim.gpu.decoder import load_decoder
from accelsim.gpu.serve import GROUPS, Split
from accelsim.gpu.train import SHARDED, Training, _backward, flops_of, forward_step, misfit_of, states_of, train
from accelsim.gpu.work import Pricing, serving_mode
from accelsim.inputs.errors import AccelsimError

H100 = load_gpu("h100")
MODE = serving_mode(H100)
GPT2, LLAMA = load_decoder("gpt2"), load_decoder("llama")
SMALL = Training(batch=8, sequence=1024, micro=2, dp=1)
PLACES = {"dense": GPT2.layers, "first": 1, "last": 1}


def step(split=None, training=SMALL, decoder=GPT2, gpu=H100, **changed):
    return train(gpu, decoder, [(split or Split(1), replace(training, **changed))], MODE)[0]


def test_flops__are_two_of_each_weight_and_attention():
    """Llama 3 8B: 8.03e9 parameters, of which 128256 x 4096 are the embedding, which is looked up."""
    attention = 2 * 32 * 4096 * (1024 + 1)
    assert flops_of(LLAMA, 1024) == pytest.approx(2 * (8.03e9 - 128256 * 4096) + attention, rel=0.001)


def test_flops__of_experts_are_those_that_a_token_meets():
    """Mixtral 8x7B has 12.9e9 active parameters (Mistral), 32000 x 4096 of them the embedding."""
    attention = 2 * 32 * 4096 * (512 + 1)
    found = flops_of(load_decoder("mixtral"), 512)
    assert found == pytest.approx(2 * (12.9e9 - 32000 * 4096) + attention, rel=0.01)


def test_backward__has_twice_the_products_of_forward():
    forward = forward_step(LLAMA, Split(1, tp=2), SMALL)
    for operators in forward.values():
        back = list(_backward(operators))
        flops = [
            sum(math.prod(each.work.sizes) * each.count for each in side if each.work.kind == "product")
            for side in (operators, back)
        ]
        assert flops[1] == 2 * flops[0]
        shapes = {tuple(sorted(each.work.sizes)) for each in operators if each.work.kind == "product"}
        assert {tuple(sorted(each.work.sizes)) for each in back if each.work.kind == "product"} == shapes
        for kind, more in (("attention", 2.5), ("collective", 1.0)):
            counts = [sum(each.count for each in side if each.work.kind == kind) for side in (operators, back)]
            assert counts[1] == more * counts[0]


def test_step__is_the_sum_of_its_operators():
    """One GPU: each of four micro-batches goes forward and back, then Adam moves 28 B a parameter."""
    forward = forward_step(GPT2, Split(1), SMALL)
    backward = {place: list(_backward(each)) for place, each in forward.items()}
    works = {each.work for side in (forward, backward) for place in side.values() for each in place}
    costs = Pricing(H100, GPT2, MODE, "", "bf16", 2.0, 0.0).costs(works)
    us = sum(
        PLACES[place] * each.count * costs[each.work][0]
        for side in (forward, backward)
        for place in PLACES
        for each in side[place]
    )
    found = step()
    assert found.parts_s["forward"] + found.parts_s["backward"] == pytest.approx(4 * us * 1e-6)
    assert sum(found.groups_s.values()) == pytest.approx(us * 1e-6)
    assert set(found.groups_s) <= set(GROUPS)
    moved = 28 * found.memory.weights / 2
    assert found.parts_s["optimizer"] >= moved / H100.dram_bytes_per_s
    assert found.step_s == pytest.approx(sum(found.parts_s.values()))
    assert found.tokens_per_s == pytest.approx(8 * 1024 / found.step_s)
    assert 0.1 < found.utilization < 1
    assert IDLE * H100.tdp_w * found.step_s < found.energy_j < H100.tdp_w * found.step_s


def test_states__are_those_of_the_zero_paper():
    """7.5e9 parameters, 64 copies: 120, 31.4, 16.6 and 1.88 GB (Rajbhandari et al., figure 1)."""
    shares = []
    for sharded in SHARDED:
        found = states_of(H100, LLAMA, Split(1), Training(64, 512, 1, 64, sharded))
        shares.append((found.weights + found.gradients + found.optimizer) / 8.03e9 * 7.5)
    assert shares == pytest.approx([120, 31.4, 16.6, 1.88], rel=0.005)


def test_states__recomputing_keeps_less_and_stages_keep_more():
    whole, again = (states_of(H100, LLAMA, Split(1), replace(SMALL, recompute=on)).activations for on in (False, True))
    assert again < 0.3 * whole
    staged = states_of(H100, LLAMA, Split(1, pp=4), SMALL)
    assert staged.activations == pytest.approx(
        2 * 2048 * 4 * 8 * (4 * 4096 + 4096 + 2 * 1024 + 4096 + 3 * 14336)
    )  # bytes, tokens, micro-batches in flight, layers; norms, Q, K and V, result of attention, the network


def test_gradients__hide_behind_backward_unless_told():
    node, network = step(dp=4, batch=32), step(dp=64, batch=512)
    shapes = collective_shapes("all_reduce", 4, math.ceil(node.memory.gradients))
    assert node.summed_s * 1e6 <= time_collective(H100, shapes).time_us[0]
    assert network.summed_s == pytest.approx(2 * 63 / 64 * network.memory.gradients / 50e9)
    bare = step(dp=64, batch=512, overlap=False)
    window = network.parts_s["backward"] / 4 * 11 / 12  # of the last of four micro-batches, but for the first layer
    assert bare.parts_s["gradients"] == bare.summed_s
    assert network.parts_s["gradients"] == pytest.approx(network.summed_s - window)
    assert node.parts_s["gradients"] == 0
    slow = step(dp=64, batch=512, network_bytes_per_s=0.5e9)
    assert slow.summed_s == pytest.approx(100 * network.summed_s)
    assert slow.parts_s["gradients"] > 0.5 * slow.summed_s
    assert step(dp=64, batch=512, sharded="weights").summed_s == pytest.approx(1.5 * network.summed_s)


def test_stages__wait_at_begin_and_end():
    """Of m micro-batches in p stages, p - 1 rounds of the longest are waiting (1F1B)."""
    found = step(Split(1, pp=4), batch=32)
    rounds = found.parts_s["forward"] + found.parts_s["backward"]
    assert found.parts_s["bubble"] == pytest.approx(rounds * 3 / 16)
    assert step(Split(1, pp=4), batch=256).utilization > found.utilization


def test_recompute__adds_the_layers_once_more():
    plain, again = step(), step(recompute=True)
    assert again.parts_s["forward"] == plain.parts_s["forward"]
    more = again.parts_s["backward"] - plain.parts_s["backward"]
    assert 0.7 * plain.parts_s["forward"] < more < plain.parts_s["forward"]
    assert again.utilization < plain.utilization


def test_precision__has_the_peak_of_its_format():
    wide, narrow = (step(decoder=LLAMA, precision=name) for name in ("bf16", "fp8"))
    assert narrow.step_s < wide.step_s
    assert narrow.utilization / wide.utilization == pytest.approx(wide.step_s / narrow.step_s / 2, rel=0.01)


def test_batch__twice_takes_less_than_twice_the_time():
    """NVIDIA's guide to linear layers; micro-batches of 1 to 16 sequences of GPT-2."""
    times = [step(batch=size, micro=size).step_s for size in (1, 2, 4, 8, 16)]
    assert all(one < two < 2 * one for one, two in itertools.pairwise(times))


def test_misfit__says_what_does_not_divide():
    assert "--batch 12 is no multiple of 8" in misfit_of(GPT2, Split(1), Training(12, 64, 2, 4))
    assert "--tp 5 does not divide 12 heads" in misfit_of(GPT2, Split(1, tp=5), Training(12, 64, 1, 1))
    with pytest.raises(AccelsimError, match="gpt2: --batch 3 is no multiple"):
        step(batch=3)


def test_command__one_step_and_many(capsys):
    words = [
        "gpu",
        "train",
        "llama_70b",
        "h100_sxm",
        "--tp",
        "8",
        "--pp",
        "4",
        "--shard",
        "optimizer",
        "--batch",
        "1024",
    ]
    assert cli.main([*words, "--dp", "16", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["steps"]
    assert (row["gpus"], row["fits"]) == (512, True)
    assert 0.3 < row["utilization"] < 0.6
    assert cli.main([*words, "--dp", "16"]) == 0
    assert "of a GPU's 72 GB: weights" in capsys.readouterr().out
    assert cli.main([*words, "--dp", "16,32", "--micro", "1,64"]) == 0
    assert "1 more do not fit in" in capsys.readouterr().out


def test_command__says_what_fits(capsys):
    assert cli.main(["gpu", "train", "llama", "a100", "--dp", "8", "--batch", "64"]) == 1
    said = capsys.readouterr().err
    assert "151 GB are needed on a GPU (weights 16.1 GB, gradients 16.1 GB, optimizer 96.4 GB" in said
    assert "it fits with --shard optimizer" in said
    assert cli.main(["gpu", "train", "llama", "a100", "--dp", "8", "--batch", "63"]) == 2
    assert "--batch 63 is no multiple of 8" in capsys.readouterr().err
