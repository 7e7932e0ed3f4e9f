"""Input files: what is read, what is refused, and how that is said."""

import gzip
import io
import os
import re
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from accelsim.inputs import library
from accelsim.inputs.errors import Unreadable
from accelsim.inputs.library import (
    MOST_BYTES,
    MOST_MODEL_BYTES,
    read_file,
    read_json,
    read_unpacked,
    read_utf8,
    refuse_large_archive,
)  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
@pytest.mark.parametrize("command", ["check {}", "map eyeriss {}", "map {} gemm", "eval eyeriss gemm {}", "verify {}"])
@pytest.mark.parametrize("what", ["pipe", "device", "folder", "large"])
def test_input__no_regular_file_of_a_bounded_size_is_refused(run, tmp_path, command, what):
    path = {"device": Path("/dev/zero")}.get(what, tmp_path / "given.yaml")
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "large":
        with path.open("wb") as file:
            file.truncate(MOST_BYTES + 1)
    code, out, said = run(*command.format(path).split())
    assert (code, out) == (2, "")
    assert str(path) in said
    reason = {"large": "is larger than 64 MiB", "pipe": "is a pipe or a device", "device": "is a pipe or a device"}
    assert reason.get(what, "") in said


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
@pytest.mark.parametrize("command", ["import {}", "map eyeriss {}", "check {}"])
def test_input__a_model_is_a_regular_file_too(run, tmp_path, command):
    pytest.importorskip("onnx")
    path = tmp_path / "model.onnx"
    os.mkfifo(path)
    code, _, said = run(*command.format(path).split())
    assert code == 2
    assert "is a pipe or a device" in said


def test_read__a_file_at_the_limit_is_read_and_one_byte_more_is_not(tmp_path):
    path = tmp_path / "given"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(Unreadable, match="is larger than 0 MiB"):
        read_file(path, 4)


def test_read__says_what_is_no_text_and_no_json(tmp_path):
    path = tmp_path / "given"
    path.write_bytes(b"ab\xff")
    with pytest.raises(Unreadable, match="not UTF-8 text at byte 2; save the file as UTF-8"):
        read_utf8(path)
    path.write_bytes(b"[" * 200_000)
    with pytest.raises(Unreadable, match="nested too deeply"):
        read_json(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all files")
def test_read__a_file_that_may_not_be_read(tmp_path):
    path = tmp_path / "given"
    path.write_bytes(b"")
    path.chmod(0)
    with pytest.raises(Unreadable, match="cannot be read: Permission denied"):
        read_file(path)


def test_read_file__makes_no_more_room_than_a_file_needs(tmp_path):
    (tmp_path / "small").write_bytes(b"content")
    tracemalloc.start()
    try:
        assert read_file(tmp_path / "small", MOST_MODEL_BYTES) == b"content"
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def _head(text):
    """A file of NumPy that has nothing but a head."""
    text = f"{text:117}\n".encode()
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text


def _npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(*arrays, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for number, array in enumerate(arrays):
            archive.writestr(f"arr_{number}.npy", array)
    return file.getvalue()


def _changed(data, at, replaced):
    return data[:at] + replaced + data[at + len(replaced) :]


MASK = _npy(np.eye(4))
PACKED = _npz(MASK)
OF_BYTES = "{{'descr': '|u1', 'fortran_order': False, 'shape': {}}}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (_npy(np.zeros((4, 4), [("a", "?")])), "holds words of the type [('a', '?')], which are no numbers"),
        (_npy(np.full((4, 4), "0")), "holds words of the type <U1, which are no numbers"),
        (_npy(np.full((4, 4), np.nan)), "holds words that are no finite numbers"),
        (_npy(np.full((4, 4), np.inf)), "holds words that are no finite numbers"),
        (_head(OF_BYTES.format((2**60,))), "says that it holds more words than there is memory for"),
        (_head(OF_BYTES.format((2**70,))), "cannot be read: its head is damaged"),
        (_head("{'descr': '|u1',"), "cannot be read: its head is damaged"),
        (MASK[:-1], "cannot be read: "),
        (b"1 0 0 1", "holds no array of NumPy"),
        (_npz(MASK, MASK), "holds 2 arrays, not one"),
        (_npz(PACKED), "holds no array of NumPy"),
        (_npz(MASK, method=zipfile.ZIP_LZMA), "is encrypted, or packed by a method that NumPy does not use"),
        (_changed(PACKED, PACKED.index(b"PK\1\2") + 8, b"\1"), "is encrypted, or packed"),
        (_changed(PACKED, 50, bytes(20)), "cannot be unpacked: "),
        (PACKED[:-30], "cannot be unpacked: "),
        (gzip.compress(MASK)[:-20], "cannot be unpacked: "),
        (_npz(bytes(1001)), "holds more than 0 MiB"),
        (gzip.compress(bytes(1001)), "holds more than 0 MiB"),
        (bytes(1001), "is larger than 0 MiB"),
        (None, "is a pipe or a device; only regular files are read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.skipif(sys.platform == "win32", reason="no pipes with a name there")
def test_mask__what_is_no_array_of_numbers_of_a_bounded_size_is_refused(run, tmp_path, monkeypatch, content, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(library, "MOST_UNPACKED_BYTES", 1000)
    Path("gemm.yaml").write_text(
        "workload:\n  name: gemm\n  gemm: {M: 4, N: 4, K: 4}\n"
        "  densities: {Weights: {distribution: measured, file: mask.npy}}\n"
    )
    os.mkfifo("mask.npy") if content is None else Path("mask.npy").write_bytes(content)
    code, _, complained = run("check", "gemm.yaml")
    assert (code, complained.count("\n")) == (2, 1)
    assert f"gemm.yaml:4:55: densities.Weights.file: mask.npy: {said}" in complained


@pytest.mark.parametrize("ending", [".npy", ".npz"])
@pytest.mark.parametrize("kind", [bool, np.int8, np.float16, np.float64])
def test_mask__arrays_of_numbers_and_truth_values_are_read(run, tmp_path, ending, kind):
    (np.save if ending == ".npy" else np.savez_compressed)(tmp_path / f"mask{ending}", np.eye(4, dtype=kind))
    density = f"{{distribution: measured, file: mask{ending}}}"
    text = f"workload: {{name: w, gemm: {{M: 4, N: 4, K: 4}}, densities: {{Weights: {density}}}}}"
    (tmp_path / "gemm.yaml").write_text(text)
    assert run("check", tmp_path / "gemm.yaml")[0] == 0


def test_mask__that_python_2_wrote_is_read(run, tmp_path, recwarn):
    (tmp_path / "mask.npy").write_bytes(_head(OF_BYTES.format("(4L, 4L)")) + bytes(16))
    density = "{Weights: {distribution: measured, file: mask.npy}}"
    (tmp_path / "gemm.yaml").write_text(f"workload: {{name: w, gemm: {{M: 4, N: 4, K: 4}}, densities: {density}}}")
    assert run("check", tmp_path / "gemm.yaml")[0] == 0
    assert not recwarn.list


def test_traces__that_unpack_to_more_than_is_read_are_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr(library, "MOST_UNPACKED_BYTES", 1000)
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 1000 + b"]"))
    code, _, said = run("gpu", "profile", "a100", path)
    assert (code, said) == (2, f"{path}:1:1: holds more than 0 MiB; at most so much is read\n")


@pytest.mark.parametrize("pack", [gzip.compress, _npz])
def test_read_unpacked__makes_no_room_for_what_it_does_not_read(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(library, "MOST_UNPACKED_BYTES", 1 << 20)
    (tmp_path / "bomb").write_bytes(pack(bytes(64 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match="holds more than 1 MiB; at most so much is read"):
            read_unpacked(tmp_path / "bomb")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_archive__that_another_library_would_unpack_to_more_than_is_read_is_refused(tmp_path):
    path = tmp_path / "model.pt2"
    for data in (PACKED, PACKED[:-30], b"no archive"):  # the other library says what is wrong with it
        path.write_bytes(data)
        refuse_large_archive(path)
    data, size = _npz(MASK, MASK), (MOST_MODEL_BYTES // 2 + 1).to_bytes(4, "little")
    for entry in re.finditer(b"PK\1\2", data):
        data = _changed(data, entry.start() + 24, size)
    path.write_bytes(data)
    with pytest.raises(Unreadable, match="holds more than 4096 MiB; at most so much is read"):
        refuse_large_archive(path)
