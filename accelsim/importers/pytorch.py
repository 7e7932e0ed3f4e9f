"""PyTorch models as workloads: exported by `torch.export`, and read as the ONNX model that torch makes of that."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import file_name, refuse_large_archive

if TYPE_CHECKING:
    from accelsim.inputs.workload import Workload

ENDING = ".pt2"
NO_TORCH = "torch is not installed, and reading PyTorch models needs it; `pip install 'accelsim[torch]'`"


def workload_from_torch(module: Any, inputs: tuple[Any, ...], *, name: str | None = None) -> Workload:
    """Read a PyTorch module as a workload.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode, as it is to run.
    inputs : tuple of torch.Tensor
        Of the sizes that the workload is to have: batch, height and width, tokens. Their values do not matter.
    name : str, optional
        Of the workload; default: the module's class.

    Returns
    -------
    Workload
        Its `notes` name every node that is not counted as it is.

    Raises
    ------
    AccelsimError
        If torch or onnxscript is missing, torch cannot export the module, or nothing in it can be counted.
    """
    from accelsim.inputs.workload_reader import load_workload

    torch = _torch()
    try:
        program = torch.export.export(module, inputs)
    except Exception as error:  # torch raises errors of many kinds for what it cannot trace
        raise AccelsimError(f"torch.export cannot export the module: {_first(error)}") from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{file_name(name or type(module).__name__)}.onnx"
        return load_workload(_as_onnx(torch, program, path))


def read_program(path: str | PathLike[str]) -> Any:
    """Read what `torch.export.save` wrote, as an ONNX model without weights.

    Raises AccelsimError if torch or onnxscript is missing, or the file is no exported program.
    """
    try:
        changed = os.stat(path).st_mtime_ns
    except FileNotFoundError:
        raise AccelsimError(f"{path}: no such file") from None
    return _read(str(path), changed)


@lru_cache(maxsize=4)
def _read(path: str, _changed: int) -> Any:
    torch = _torch()
    import onnx

    refuse_large_archive(path)
    try:
        with _quiet():
            program = torch.export.load(path)
    except Exception as error:  # a damaged file fails in as many ways as there are parts in it
        raise AccelsimError(f"{path}: not a program that torch.export.save wrote: {_first(error)}") from None
    with tempfile.TemporaryDirectory() as folder:
        model = _as_onnx(torch, program, Path(folder) / f"{Path(path).stem}.onnx")
        return onnx.load(model, load_external_data=False)


def _as_onnx(torch: Any, program: Any, path: Path) -> Path:
    """Let torch turn a program into an ONNX model, with the weights in a file beside it."""
    try:
        with _quiet():
            torch.onnx.export(program, dynamo=True, verbose=False).save(path, external_data=True)
    except Exception as error:
        raise AccelsimError(f"{path.stem}: torch cannot turn it into ONNX: {_first(error)}") from None
    return path


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep from stderr what torch logs: tracebacks of what is said here anyway, and packages that it could use."""
    logs = [logging.getLogger(name) for name in ("torch.export", "torch.onnx")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _torch() -> Any:
    try:
        import_module("onnxscript")
        return import_module("torch")
    except ImportError:
        raise AccelsimError(NO_TORCH) from None


def _first(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
