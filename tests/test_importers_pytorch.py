"""PyTorch models become workloads, by way of ONNX; where torch is missing, the message says what to install."""

from __future__ import annotations

import sys

import pytest

from accelsim.importers.pytorch import workload_from_torch
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload_reader import load_workload


@pytest.fixture
def torch():
    pytest.importorskip("onnxscript", reason="onnxscript, of the extra `torch`, is not installed")
    return pytest.importorskip("torch", reason="torch, of the extra `torch`, is not installed")


@pytest.fixture
def block(torch):
    """A strided convolution with batch norm, a depthwise one, a linear layer behind a mean."""
    nn = torch.nn
    layers = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=16)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).eval()


def weighted(workload) -> list[dict[str, int]]:
    """Bounds above 1 of the layers with weights."""
    layers = (layer for layer in workload.layers if any(tensor.role == "Weights" for tensor in layer.tensors))
    return [{dim: bound for dim, bound in layer.dims.items() if bound > 1} for layer in layers]


def test_module__becomes_the_layers_that_it_has(torch, block):
    found = workload_from_torch(block, (torch.zeros(2, 3, 32, 32),))
    assert found.name == "Sequential"
    assert sum(layer.macs for layer in found.layers if len(layer.tensors) == 3) == 2 * (
        16 * 3 * 16 * 16 * 9 + 16 * 14 * 14 * 9 + 16 * 10
    )
    assert len(found.edges) == 3  # the activation, batch norm and flattening are no layers


def test_program__is_read_from_its_file_like_the_module(torch, block, tmp_path, run):
    inputs = (torch.zeros(2, 3, 32, 32),)
    path = tmp_path / "block.pt2"
    torch.export.save(torch.export.export(block, inputs), path)
    assert weighted(load_workload(path)) == weighted(workload_from_torch(block, inputs))
    code, out, _ = run("import", path, "--set", "bits=8")
    assert (code, "params: {bits: 8}" in out) == (0, True)


def test_program__that_is_none_is_told(torch, tmp_path, run):
    path = tmp_path / "broken.pt2"
    path.write_bytes(b"no program")
    code, _, err = run("map", "eyeriss", path)
    assert (code, "not a program that torch.export.save wrote" in err) == (2, True)


def test_without_torch__says_what_to_install(monkeypatch, tmp_path, run):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    path = tmp_path / "model.pt2"
    path.write_bytes(b"")
    code, _, err = run("map", "eyeriss", path)
    assert (code, "pip install 'accelsim[torch]'" in err) == (2, True)
    with pytest.raises(AccelsimError, match="torch is not installed"):
        workload_from_torch(None, ())


def test_program__without_onnx_says_to_install_what_reads_programs(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    (tmp_path / "model.pt2").write_bytes(b"")
    with pytest.raises(AccelsimError, match=r"torch is not installed.*accelsim\[torch\]"):
        load_workload(tmp_path / "model.pt2")
