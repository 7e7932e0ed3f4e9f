"""Words that machine code writes for arguments, beside those that Python writes by their definition."""

from __future__ import annotations

import ctypes
import struct
from typing import NamedTuple

import numpy as np
import pytest

from accelsim.model import passing
from accelsim.model.passing import Frame, kind_of, passed, release


class Pair(NamedTuple):
    """Two of anything."""

    a: object
    b: object


class Other(NamedTuple):
    """Another class of the same fields."""

    a: object
    b: object


def words_of(value, *, inside: bool) -> list[object]:
    """Words of a value as docs of `passing` define them; those of a table in a list, where its address stands."""
    if isinstance(value, np.ndarray):
        steps = () if value.flags.c_contiguous else [step // value.itemsize for step in value.strides]
        return [value.__array_interface__["data"][0], *value.shape, *steps]
    if isinstance(value, tuple):
        return [[word for each in value for word in words_of(each, inside=True)]]
    if value is None:
        return [0] if inside else []
    if isinstance(value, float | np.floating):
        return [struct.unpack("<q", struct.pack("<d", value))[0]]
    return [(int(value) + 2**63) % 2**64 - 2**63]


def is_at(address: int, words: list[object]) -> bool:
    """Whether such words stand at an address, and those of tables where their addresses say."""
    there = (ctypes.c_int64 * len(words)).from_address(address)
    pairs = zip(there, words, strict=True)
    return all(is_at(at, word) if isinstance(word, list) else at == word for at, word in pairs)


def some_array(rng: np.random.Generator, *, ordered: bool) -> np.ndarray:
    """With no axis to three, of any class of elements that kernels know; empty and read-only ones, too."""
    array = np.zeros(rng.integers(0, 4, rng.integers(0, 4)), rng.choice(list("lqLQbhid?")))
    if not ordered and array.ndim and rng.random() < 0.5:
        array = array.T if rng.random() < 0.3 else array[..., :: int(rng.choice([2, 3, -1]))]
    if rng.random() < 0.2:
        array.flags.writeable = False
    return array


def some_value(rng: np.random.Generator, depth: int = 0):
    """A value, as kernels get them; deeper ones are in tables."""
    scalars = [
        0, -1, 7, 2**62, -(2**63), 1.5, -0.0, float("inf"), True, False, None, np.int64(-9), np.uint64(2**64 - 1),
        np.float64(0.25), np.True_, np.False_, np.int32(-4), np.uint8(200), np.float32(0.5), np.longlong(3),
    ]  # fmt: skip
    kind = rng.choice(["array", "scalar", "table"], p=[0.5, 0.3, 0.2] if depth < 3 else [0.6, 0.4, 0.0])
    if kind == "array":
        return some_array(rng, ordered=depth > 0)
    if kind == "scalar":
        return scalars[rng.integers(len(scalars))]
    return (Pair if rng.random() < 0.5 else Other)(some_value(rng, depth + 1), some_value(rng, depth + 1))


def test_words__are_those_of_the_definition_and_signatures_tell_kinds_apart():
    rng, of_kind, of_signature = np.random.default_rng(1), {}, {}
    for _ in range(3000):
        arguments = tuple(some_value(rng) for _ in range(rng.integers(0, 6)))
        frame, signature, _alive = passed(arguments)
        assert is_at(frame.words, [word for each in arguments for word in words_of(each, inside=False)])
        release(frame)
        kinds = tuple(map(kind_of, arguments))
        assert of_kind.setdefault(kinds, signature) == signature
        assert of_signature.setdefault(signature, kinds) == kinds
    assert len(of_kind) > 1000


def test_words__of_very_many_arrays_have_room(monkeypatch):
    monkeypatch.setattr(passing, "_FREE", [])
    arrays = tuple(np.zeros(2) for _ in range(1000))
    arguments = tuple(Pair(arrays, (arrays, number)) for number in range(9))
    frame, _, _ = passed(arguments)
    assert is_at(frame.words, [word for each in arguments for word in words_of(each, inside=False)])


def test_frames__are_used_again_and_one_at_a_time(monkeypatch):
    monkeypatch.setattr(passing, "_FREE", [])
    first, second = passed((1,))[0], passed((2,))[0]
    assert (is_at(first.words, [1]), is_at(second.words, [2])) == (True, True)
    release(first)
    assert passed((3,))[0] is first


def test_results__are_read_as_the_scalars_that_they_are():
    frame = Frame(8)
    ctypes.memmove(frame.results, struct.pack("<qd?7xQ", -3, 0.5, True, 2**64 - 1), 32)
    assert frame.result(("int", "float", "bool", "uint")) == (-3, 0.5, True, 2**64 - 1)
    assert (frame.result(("int",)), frame.result(())) == (-3, None)


@pytest.mark.parametrize("value", ["text", [1], Pair(1, {}), 1j])
def test_other_values__are_refused(value):
    with pytest.raises(TypeError, match=r"a kernel takes no (str|list|dict|complex)"):
        passed((value,))


def test_arrays__of_derived_classes_are_passed_as_arrays(tmp_path):
    mapped = np.memmap(tmp_path / "words", np.int64, "w+", shape=(3, 2))
    frame, signature, _alive = passed((mapped, Pair(mapped, 1)))
    assert is_at(frame.words, [word for each in (mapped, Pair(mapped, 1)) for word in words_of(each, inside=False)])
    assert signature == passed((np.zeros((3, 2), np.int64), Pair(np.zeros((3, 2), np.int64), 1)))[1]
