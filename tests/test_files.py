"""Input files: what is read, what is refused, and how that is said."""

import os
import sys
import tracemalloc
from pathlib import Path

import pytest

from accelsim.inputs.errors import Unreadable
from accelsim.inputs.library import MOST_BYTES, MOST_MODEL_BYTES, read_file, read_json, read_utf8


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
