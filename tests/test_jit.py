"""How functions are compiled: what they take and return."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import pytest

from accelsim.model import machine_code
from accelsim.model.jit import inline, jit

pytestmark = pytest.mark.skipif(bool(os.environ.get("ACCELSIM_PLAIN")), reason="nothing is compiled then")


class Inner(NamedTuple):
    """Arrays of one and two axes."""

    line: np.ndarray
    plane: np.ndarray


class Outer(NamedTuple):
    """A table in a table, scalars, and nothing."""

    inner: Inner
    flags: np.ndarray
    cube: np.ndarray
    share: float
    many: int
    none: None


@inline
def twice(number):
    return number + number


@jit
def add_up(values):
    """For arrays in any order."""
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k]
    return total


@jit
def row_of(table, row):
    """Hands a row and a column of a table on."""
    return add_up(table.inner.plane[row]), add_up(table.inner.plane[:, row])


@jit
def read_all(table, other, number, real, sure):
    along, across = row_of(table, 1)
    total = along + 10.0 * across + twice(real) + table.share * table.many
    if table.none is None and sure and table.flags[2]:
        table.inner.line[0] = number + table.cube[1, 0, 2] + table.cube.shape[2] + table.inner.line.size
        other[1] = table.cube[1].size
    return total, table.inner.line[0], sure


def table(columns: int = 3) -> Outer:
    inner = Inner(np.arange(4), np.arange(3.0 * columns).reshape(3, columns))
    return Outer(inner, np.array([False, False, True]), np.arange(24).reshape(2, 3, 4), 0.5, 7, None)


def test_kernel__reads_tables_of_any_shape_as_python_does():
    for columns in (2, 3):
        said = []
        for kernel in (read_all, read_all.plain()):
            given, other = table(columns), np.zeros(4, np.int64)[::2]
            result = kernel(given, other, 5, 0.25, True)
            said.append(([*map(float, result)], given.inner.line.tolist(), other.tolist()))
        assert said[0] == said[1]


@jit
def from_both_ends(table, at):
    """Indices of one sign and the other, constant and not, of elements and of rows, also where arrays are written."""
    cube, plane = table.cube, table.inner.plane
    for d in range(-2, 2):
        row = cube[d, at]
        row[d] += 100 * (d + 3)
        plane[-1 - at][d] += cube[at, -1, d]
        cube[d][-1, 0] = plane[at, d] + row.size + row[-1]
        table.flags[d] = row[d] > at
    return cube[-1, -1, -1] + cube[at, at, at] + row[at]


@pytest.mark.parametrize("at", [-2, -1, 0, 1])
def test_kernel__counts_indices_from_either_end_as_python_does(at):
    said = []
    for kernel in (from_both_ends, from_both_ends.plain()):
        given = table()
        result = kernel(given, at)
        said.append((int(result), [each.tolist() for each in (given.cube, given.flags, given.inner.plane)]))
    assert said[0] == said[1]


def test_kernel__takes_and_returns_64_bits_without_a_sign():
    @jit
    def halve(number):
        return number // np.uint64(2), number

    most = np.uint64(2**64 - 1)
    assert halve(most) == (2**63 - 1, 2**64 - 1)


def test_kernel__refuses_what_it_cannot_take():
    with pytest.raises(TypeError, match="takes no str"):
        add_up("text")
    inner = Inner(np.arange(8)[::2], np.zeros((1, 1)))
    with pytest.raises(TypeError, match="in C order"):
        row_of(table()._replace(inner=inner), 0)


def test_kernel__is_compiled_where_no_folder_can_keep_it(monkeypatch):
    """As on a read-only file system."""
    monkeypatch.setattr(machine_code, "code_folder", lambda: None)

    @jit
    def double(values):
        values[0] *= 2

    values = np.array([21])
    double(values)
    assert values.tolist() == [42]
