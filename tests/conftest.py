"""Hypothesis profiles, and the reference data that stands beside the repository."""

from __future__ import annotations

import gc
import itertools
import json
import logging
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from accelsim.cli import arguments
from accelsim.cli import main as cli
from accelsim.inputs.energies import ComponentTable, read_energy_table
from accelsim.inputs.fields import open_document
from accelsim.inputs.source import Problems
from accelsim.inputs.workload_reader import load_workload
from accelsim.results.cache import FOLDER
from tests.effort import many

REPOSITORY = Path(__file__).resolve().parents[1]
_CACHES = itertools.count()
EXAMPLES = {"quick": 10, "mutants": 100, "ci": many("HYPOTHESIS", 100, least=50), "deep": 2000}


def load_profile() -> None:
    """Choose how hard hypothesis tries: `quick`, `ci` (the default; same examples in each run) or `deep` (new ones).

    `mutants`: the examples of `ci`, and none is made smaller.
    """
    name = os.environ.get("ACCELSIM_HYPOTHESIS_PROFILE") or "ci"
    if name not in EXAMPLES:
        known = ", ".join(EXAMPLES)
        raise pytest.UsageError(f"ACCELSIM_HYPOTHESIS_PROFILE={name}: unknown profile; use one of {known}")
    settings.register_profile(
        name,
        max_examples=int(os.environ.get("ACCELSIM_HYPOTHESIS_EXAMPLES") or EXAMPLES[name]),
        derandomize=name != "deep",
        deadline=None,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate] if name == "mutants" else list(Phase),
        suppress_health_check=[HealthCheck.too_slow],  # says something about the machine, not about the code
    )
    settings.load_profile(name)


def said(foreign) -> list[str]:
    """Notes of imported files, without their places."""
    return [f"{note.key}: {note.why}" for note in foreign.notes]


def ask_peer(tool: str, request: object) -> dict[str, float] | None:
    """What another tool answers, in its own environment; None where `benchmarks/peers/setup.sh` did not install it."""
    python = Path(os.environ.get("ACCELSIM_PEERS", Path.home() / ".cache" / "accelsim-peers")) / tool / "bin/python"
    command = [python, REPOSITORY / "benchmarks" / "peers" / f"{tool}_live.py"]
    if not python.is_file():
        return None
    done = subprocess.run(command, input=json.dumps([request]), stdout=subprocess.PIPE, text=True, check=True)
    (answer,) = json.loads(done.stdout)
    return answer


load_profile()
arguments.make_parser = cache(arguments.make_parser)  # thousands of commands, one parser


def pytest_collection_finish() -> None:
    """Thousands of tests and modules stay to the end: the collector need not look through them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the reference data: `ACCELSIM_SHARED`, or `shared` next to the repository."""
    folder = Path(os.environ.get("ACCELSIM_SHARED") or REPOSITORY.parent / "shared")
    if not folder.is_dir():
        pytest.skip("reference data ../shared is absent")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _compiling_is_said():
    """What commands print does not depend on which test compiles first."""
    logging.getLogger("accelsim").addFilter(lambda record: "compiling kernels" not in record.msg)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    """Keep results of one test from the next, and from the user's cache."""
    monkeypatch.setenv(FOLDER, str(tmp_path_factory.getbasetemp() / f"cache{next(_CACHES)}"))


@pytest.fixture
def imported(tmp_path):
    """Import the texts of some files of another tool."""
    from accelsim.importers.foreign import read_foreign

    def imported(*texts: str, **variables: str):
        paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return read_foreign(paths, variables=variables)

    return imported


@pytest.fixture
def load_onnx(tmp_path):
    """Save a model and load it as a workload."""

    def load_onnx(model, **sizes: object):
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return load_workload(path, {name: str(size) for name, size in sizes.items()})

    return load_onnx


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, with the machine and the network of `tests/sweeps.py`."""
    from sweeps import write_inputs

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("accelsim.designs.store.FLUSH_SECONDS", 600.0)  # a sweep writes once, however slow it is
    write_inputs()
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run a command in this process: its exit code and what it printed."""

    def call(*arguments: str):
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return code, captured.out, captured.err

    return call


@pytest.fixture
def validate(capsys):
    """Run `python -m validation` in this process: its exit code and what it printed."""
    from validation.__main__ import main

    def call(*arguments: str):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


def load_energy_table(path: str | Path, overrides: Mapping[str, str] | None = None) -> ComponentTable:
    """Read an energy table file by itself, with every mistake raised."""
    problems = Problems()
    document = open_document(path, "energy_table", overrides, problems)
    return problems.result(read_energy_table(document.body, problems) if document else None)
