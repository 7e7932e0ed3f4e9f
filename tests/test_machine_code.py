"""Machine code on disk is that of the kernel as it stands, wherever and whenever its source was written."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
import time
from pathlib import Path

import numba
import pytest

import accelsim
from accelsim.model.jit import Kernel
from accelsim.model.machine_code import MachineCode, code_folder

LOW = "from accelsim.model.jit import internal\nSTEP = {step}\n\n@internal\ndef low(n):\n    return n + STEP\n"
TOP = (
    "from typing import NamedTuple\nfrom accelsim.model.jit import jit\nfrom {low} import low\n"
    "class Pair(NamedTuple):\n    {first}: int\n    {second}: int\n\n"
    "@jit\ndef top(pair):\n    return low(pair.a) - pair.b\n"
)


@pytest.fixture(autouse=True)
def codes(tmp_path, monkeypatch):
    """The folder for machine code of a test, which `NUMBA_CACHE_DIR` would name."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "codes"))
    return tmp_path / "codes" / "accelsim"


def written(folder: Path, step: int = 1, fields: str = "ab", low: str = "low_kernel"):
    """Two kernels, one calling the other, as if they were just installed in a folder: the module of the upper one."""
    folder.mkdir(exist_ok=True)
    for name, text in {
        low: LOW.format(step=step),
        "top_kernel": TOP.format(low=low, first=fields[0], second=fields[1]),
    }.items():
        path = folder / f"{name}.py"
        path.write_text(text)
        os.utime(path, (1e9, 1e9))  # as an archive that keeps times
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        exec(compile(text, path, "exec"), vars(sys.modules[name]))
    return sys.modules.pop("top_kernel"), sys.modules.pop(low)


def found(module) -> bool:
    """Whether the machine code of the upper kernel came from the disk."""
    return sum(module.top.compiled().stats.cache_hits.values()) > 0


def test_machine_code__of_a_kernel_below_that_moved_is_not_used(tmp_path):
    """It names the module of each kernel in it, which need not be there any more."""
    for low in ("low_kernel", "moved_kernel"):
        module, _ = written(tmp_path / "m", low=low)
        assert module.top(module.Pair(a=10, b=3)) == 8
        assert not found(module)


def test_machine_code__of_a_kernel_below_that_changed_is_not_used(tmp_path):
    """Size and time of both files stay the same."""
    for step in (1, 2):
        module, _ = written(tmp_path / "m", step=step)
        assert module.top(module.Pair(a=10, b=3)) == 7 + step
        assert not found(module)


def test_machine_code__for_arguments_with_other_fields_is_not_used(tmp_path):
    for fields, expected in (("ab", 8), ("ba", 8)):
        module, _ = written(tmp_path / "m", fields=fields)
        assert module.top(module.Pair(a=10, b=3)) == expected
        assert not found(module)


def test_machine_code__of_an_equal_kernel_is_used_wherever_it_stands(tmp_path):
    hits = []
    for folder in ("here", "there"):
        module, _ = written(tmp_path / folder)
        assert module.top(module.Pair(a=10, b=3)) == 8
        hits.append(found(module))
    assert hits == [False, True]


def test_machine_code__that_is_damaged_is_made_anew(tmp_path, codes):
    for expected in (False, False, True):
        module, _ = written(tmp_path / "m")
        assert module.top(module.Pair(a=10, b=3)) == 8
        assert found(module) is expected
        if not (tmp_path / "harmed").exists():
            (path,) = codes.glob("top_kernel.top-*.code")
            path.rename(tmp_path / "harmed")
            path.write_bytes((tmp_path / "harmed").read_bytes()[:-100])


def test_machine_code__of_what_a_kernel_was_before_is_removed_when_it_is_not_used(codes):
    codes.mkdir(parents=True)
    names = ("k-aaaaaaaaaaaaaaaa-1.code", "k-bbbbbbbbbbbbbbbb-1.code", "k-cccccccccccccccc-1.code", "j-aaaa-1.code")
    for name in names:
        (codes / name).touch()
    for name in (*names[:2], names[3]):
        os.utime(codes / name, (time.time() - 2 * 24 * 3600,) * 2)
    MachineCode(codes, "k", "b" * 64)._remove_unused()
    assert sorted(path.name for path in codes.iterdir()) == sorted(names[1:])


def test_machine_code__that_cannot_be_kept_does_no_harm(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    module, _ = written(tmp_path / "m")
    assert module.top(module.Pair(a=10, b=3)) == 8


def test_code_folder__is_the_first_that_is_writable(tmp_path, monkeypatch, codes):
    assert code_folder() == codes
    (tmp_path / "file").touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file"))
    assert code_folder() == Path(accelsim.__file__).parent / "__pycache__"


def test_content__of_every_kernel_is_known_and_no_other_has_it():
    for module in pkgutil.walk_packages(accelsim.__path__, "accelsim."):
        if module.name.endswith("kernel"):
            importlib.import_module(module.name)
    modules = [module for name, module in sys.modules.items() if name.startswith("accelsim.")]
    kernels = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Kernel)}
    assert len({kernel.content() for kernel in kernels.values()}) == len(kernels) > 100


def test_content__of_a_list_is_refused():
    """A list may change after the hash was made."""
    names = {"some": [1]}
    exec("def function():\n    return some[0]", names)
    with pytest.raises(TypeError, match="some: a kernel names list"):
        Kernel(names["function"], {}).content()
