"""The measuring script on its CPU path, with a stand-in for PyTorch, writes what `python -m validation gemm` reads."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from accelsim.gpu.measured import read_measured
from tests.conftest import REPOSITORY


class Matrix:
    """As much of a tensor as the script uses."""

    def __init__(self, values):
        self.values = values

    def to(self, dtype):
        return Matrix(self.values.astype(np.float32))

    def t(self):
        return Matrix(self.values.T)


@pytest.fixture
def script(monkeypatch):
    torch = ModuleType("torch")
    linear = lambda inputs, weights: Matrix(inputs.values @ weights.values.T)  # noqa: E731
    members = {
        "float32": "float32",
        "bfloat16": "bfloat16",
        "int8": "int8",
        "cuda": SimpleNamespace(is_available=lambda: False),
        "backends": SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False))),
        "nn": SimpleNamespace(functional=SimpleNamespace(linear=linear)),
        "randn": lambda rows, columns, device: Matrix(np.zeros((rows, columns))),
        "ones": lambda shape, device: 1.0,
        "no_grad": contextlib.nullcontext,
    }
    for name, member in members.items():
        setattr(torch, name, member)
    monkeypatch.setitem(sys.modules, "torch", torch)
    spec = importlib.util.spec_from_file_location("measure_gemm", REPOSITORY / "benchmarks" / "gpu" / "measure_gemm.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_measure_gemm__writes_a_table_that_can_be_read(script, tmp_path):
    path = tmp_path / "measured.csv"
    assert script.main(["-o", str(path), "--repeats", "2"]) == 0
    tables = read_measured(path)
    assert [(table.device, table.number_format, len(table)) for table in tables] == [
        ("cpu", "fp32", 27),
        ("cpu", "bf16", 27),
    ]


def test_measure_gemm__takes_sizes_and_refuses_formats(script, tmp_path, capsys):
    path = tmp_path / "measured.csv"
    assert script.main(["-o", str(path), "--dtype", "fp32", "--sizes", "8,16,32"]) == 0
    (table,) = read_measured(path)
    assert (table.gemms.m[0], table.gemms.n[0], table.gemms.k[0]) == (8, 16, 32)
    with pytest.raises(SystemExit):
        script.main(["-o", str(path), "--dtype", "fp8"])
    assert "fp8 is not multiplied here; formats: fp32, bf16" in capsys.readouterr().err
