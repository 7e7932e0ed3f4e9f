"""The roofline of machines with storage levels: hand-worked layers, laws, and bad input."""

from __future__ import annotations

import json

import pytest

from accelsim import load_architecture, load_workload
from accelsim.model.limits import LevelPort, least_bytes, peak_macs_per_cycle, ports, stand
from accelsim.search.mapper import map_einsum


def test_stand__of_a_gemm_is_what_a_person_works_out():
    machine, layer = load_architecture("systolic"), load_workload("gemm").layers[0]
    found = stand(machine, layer, map_einsum(machine, layer, uneven=False).best)
    words = 512 * 1024 + 1024 * 1024 + 512 * 1024
    assert found.least == pytest.approx(512 * 1024 * 1024 / (2 * words))  # two bytes each
    outer = next(port for port in ports(machine) if port.level == "DRAM")
    assert found.roof == pytest.approx(min(65536, found.least * outer.bytes_per_cycle))
    assert found.moved <= found.least
    assert found.reached <= found.roof


def test_stand__splits_bytes_between_ports():
    machine, layer = load_architecture("eyeriss"), load_workload("strided").layers[0]
    both, read, write = (least_bytes(machine, layer, LevelPort("DRAM", way, 1.0)) for way in ("", "read", "write"))
    assert both == read + write
    assert write == 2 * 64 * 112 * 112
    assert read == 2 * (157_323 + 64 * 3 * 7 * 7)  # a stride of 2 leaves inputs out


@pytest.mark.parametrize("machine", ["two_level", "eyeriss", "nvdla", "simba"])
def test_stand__no_mapping_is_above_the_roof(machine):
    architecture, layer = load_architecture(machine), load_workload("depthwise").layers[0]
    found = stand(architecture, layer, map_einsum(architecture, layer, uneven=False).best)
    assert found.moved <= found.least * (1 + 1e-12)
    assert found.reached <= found.roof * (1 + 1e-12) <= peak_macs_per_cycle(architecture) * (1 + 1e-12)


def test_command__prints_draws_and_takes_several_workloads(run, tmp_path):
    picture = tmp_path / "roof.svg"
    code, out, _ = run("roofline", "two_level", "conv1d", "conv1d", "--plot", picture)
    assert code == 0
    assert out.count("conv1d") == 2
    assert "no level has a bandwidth" in out.lower()
    assert picture.read_bytes().startswith(b"<?xml")
    document = json.loads(run("roofline", "eyeriss", "conv", "--json")[1])
    assert document["ports"][0]["port"] == "DRAM"
    assert document["layers"][0]["reached"] <= document["layers"][0]["roof"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nosuch", "conv"), "no such file"),
        (("eyeriss", "nosuch"), "no such file"),
        (("eyeriss", "conv", "--mig", "1g.10gb"), "eyeriss is no GPU"),
        (("a100", "conv", "--objective", "edp"), "--objective: a100 is a GPU"),
        (("a100", "conv", "--batch", "2", "--set", "batch=3"), "both set batch"),
        (("a100", "gemm", "--set", "nosuch=3"), "nosuch"),
        (("eyeriss", "conv", "--plot", "roof.gif"), ".png or .svg"),
    ],
)
def test_command__says_what_is_wrong(run, arguments, said):
    code, _, err = run("roofline", *arguments)
    assert code == 2
    assert said in err
