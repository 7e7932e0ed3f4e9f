"""What a kernel's launch grid says about a measured product: which of its sizes is the width of the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

LAUNCH = ("tile0", "tile1", "grid")
"""Columns of the sides of a block's output tile, and of the grid as `blocks x blocks x batch`."""
_LEAST_GRIDS = 20


def covers(row: Mapping[str, str], width: str) -> bool:
    """Whether the grid has a block for each tile of a result of M x that many columns, the tile either way round.

    Raises
    ------
    ValueError
        If a size, a side or the grid is not written as whole numbers.

    Examples
    --------
    >>> covers({"M": "64", "N": "196", "K": "300", "tile0": "128", "tile1": "64", "grid": "5x1x256"}, "K")
    True
    """
    x, y, _ = map(int, row["grid"].split("x"))
    high, wide = int(row["M"]), int(row[width])
    sides = int(row["tile0"]), int(row["tile1"])
    return x * y in {-(-high // a) * -(-wide // b) for a, b in (sides, sides[::-1])}


def swapped_grids(rows: Iterable[Mapping[str, str]]) -> int:
    """Grids of a table that tell N from K, if all of these cover M x K; 0 if one does not, or they are too few.

    Then the table calls the summed dimension N and the width of the result K, as NeuSight's does. Rows without a
    readable grid tell nothing.
    """
    told = 0
    for row in rows:
        try:
            by_n, by_k = covers(row, "N"), covers(row, "K")
        except ValueError:
            continue
        if by_n and not by_k:
            return 0
        told += by_k and not by_n
    return told if told >= _LEAST_GRIDS else 0
