"""Machine code on disk is that of the kernel as it stands, wherever and whenever its source was written."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import accelsim
from accelsim.model import compiling, machine_code
from accelsim.model.jit import CompiledKernel
from accelsim.model.machine_code import code_folder

LOW = "from accelsim.model.jit import jit\nSTEP = {step}\n\n@jit\ndef low(n):\n    return n + STEP\n"
TOP = (
    "from typing import NamedTuple\nfrom accelsim.model.jit import jit\nfrom {low} import low\n"
    "class Pair(NamedTuple):\n    {first}: int\n    {second}: int\n\n"
    "@jit\ndef top(pair):\n    return low(pair.a) - pair.b\n"
    "@jit\ndef top_sum(pair):\n    return pair.a[0] + pair.a[1] + pair.a[2]\n"
)


@pytest.fixture(autouse=True)
def codes(tmp_path, monkeypatch):
    """The folder for machine code of a test, which `ACCELSIM_KERNELS` would name."""
    monkeypatch.setenv("ACCELSIM_KERNELS", str(tmp_path / "codes"))
    monkeypatch.setattr(machine_code, "_READ", {})
    monkeypatch.setattr(machine_code, "_ADDRESSES", {})
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


@pytest.fixture
def compiled(monkeypatch):
    """Names of the kernels that are compiled."""
    names = []
    keep_code = compiling.keep_code
    monkeypatch.setattr(
        compiling, "keep_code", lambda kernel, *rest: names.append(kernel.name) or keep_code(kernel, *rest)
    )
    return names


def forget(monkeypatch) -> None:
    """Begin as another process would."""
    monkeypatch.setattr(machine_code, "_READ", {})
    monkeypatch.setattr(machine_code, "_ADDRESSES", {})


def test_machine_code__of_a_kernel_below_that_moved_is_not_used(tmp_path, compiled):
    """It names the module of each kernel in it, which need not be there any more."""
    for low in ("low_kernel", "moved_kernel"):
        module, _ = written(tmp_path / "m", low=low)
        assert module.top(module.Pair(a=10, b=3)) == 8
        assert sorted(compiled) == [f"{low}.low", "top_kernel.top"]
        compiled.clear()


def test_machine_code__of_a_kernel_below_that_changed_is_not_used(tmp_path, compiled):
    """Size and time of both files stay the same."""
    for step in (1, 2):
        module, _ = written(tmp_path / "m", step=step)
        assert module.top(module.Pair(a=10, b=3)) == 7 + step
        assert sorted(compiled) == ["low_kernel.low", "top_kernel.top"]
        compiled.clear()


def test_machine_code__for_arguments_with_other_fields_is_not_used(tmp_path, compiled):
    for fields, expected in (("ab", 8), ("ba", 8)):
        module, _ = written(tmp_path / "m", fields=fields)
        assert module.top(module.Pair(a=10, b=3)) == expected
        assert "top_kernel.top" in compiled
        compiled.clear()


def test_machine_code__of_an_equal_kernel_is_used_wherever_it_stands(tmp_path, compiled, monkeypatch):
    for folder, expected in (("here", ["low_kernel.low", "top_kernel.top"]), ("there", [])):
        forget(monkeypatch)
        module, _ = written(tmp_path / folder)
        assert module.top(module.Pair(a=10, b=3)) == 8
        assert sorted(compiled) == expected
        compiled.clear()


def test_machine_code__is_loaded_without_the_compiler(tmp_path):
    """By another process: importing the compiler takes longer than loading and calling."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport numpy as np\nfrom accelsim.mapspace.kernel import next_number\n"
        "print(next_number(np.uint64(1))[1] >= 0, 'accelsim.model.compiling' in sys.modules)\n"
    )
    said = [subprocess.run([sys.executable, script], capture_output=True, text=True, check=True) for _ in range(2)]
    assert [each.stdout.split() for each in said] == [["True", "True"], ["True", "False"]]


@pytest.mark.parametrize("harmed", ["top_kernel.top", "low_kernel.low"])
def test_machine_code__that_is_damaged_is_made_anew(tmp_path, codes, compiled, monkeypatch, harmed):
    for times in (1, 2, 2):
        forget(monkeypatch)
        module, _ = written(tmp_path / "m")
        assert module.top(module.Pair(a=10, b=3)) == 8
        assert compiled.count(harmed) == times
        if times == 1:
            (path,) = codes.glob(f"{harmed}-*.code")
            path.write_bytes(path.read_bytes()[:-100])


def test_machine_code__of_what_a_kernel_was_before_is_removed_when_it_is_not_used(codes):
    codes.mkdir(parents=True)
    names = ("k-aaaaaaaaaaaaaaaa-1.code", "k-bbbbbbbbbbbbbbbb-1.code", "k-cccccccccccccccc-1.code", "j-aaaa-1.code")
    for name in names:
        (codes / name).touch()
    for name in (*names[:2], names[3]):
        os.utime(codes / name, (time.time() - 2 * 24 * 3600,) * 2)
    machine_code._remove_unused(codes, "k", "b" * 16)
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
    monkeypatch.setenv("ACCELSIM_KERNELS", str(tmp_path / "file"))
    assert code_folder() == Path(accelsim.__file__).parent / "__pycache__"


def test_named_tuples__that_are_passed_again_hold_what_is_in_their_arrays_by_then(tmp_path):
    module, _ = written(tmp_path / "m")
    for number in range(50):
        pair = module.Pair(np.full(3 if number % 5 else 3000, float(number)), -1.0)
        for times in (1.0, 2.0):
            pair.a[:] = times * number
            assert module.top_sum(pair) == 3 * times * number


def test_content__of_every_kernel_is_known_and_no_other_has_it():
    for module in pkgutil.walk_packages(accelsim.__path__, "accelsim."):
        if module.name.endswith("kernel"):
            importlib.import_module(module.name)
    modules = [module for name, module in sys.modules.items() if name.startswith("accelsim.")]
    kernels = {
        id(value): value for module in modules for value in vars(module).values() if isinstance(value, CompiledKernel)
    }
    assert len({kernel.content() for kernel in kernels.values()}) == len(kernels) > 100


def test_content__of_a_list_is_refused():
    """A list may change after the hash was made."""
    names = {"some": [1]}
    exec("def function():\n    return some[0]", names)
    with pytest.raises(TypeError, match="some: a kernel names list"):
        CompiledKernel(names["function"], True).content()


def test_is_kept__is_of_this_kernel_and_this_compiler(tmp_path, monkeypatch):
    module, _ = written(tmp_path / "m")
    assert not machine_code.is_kept(module.top)
    module.top(module.Pair(a=10, b=3))
    module.top.compiled.clear()  # as another process
    assert machine_code.is_kept(module.top)
    monkeypatch.setattr(machine_code, "_made_by", lambda: "another")
    assert not machine_code.is_kept(module.top)
