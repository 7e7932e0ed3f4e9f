"""Padding: bounds rounded up so that they have better factors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed, near_miss
from accelsim.inputs.workload import Einsum, pad

FURTHEST = 1.25
"""A bound is rounded up to at most so many times itself, unless another bound is asked for."""


def rounded_bounds(bound: int) -> list[int]:
    """Return the bound and its roundings to multiples of 2, 4, 8 ... that are at most a quarter larger.

    Examples
    --------
    >>> rounded_bounds(55), rounded_bounds(7), rounded_bounds(64)
    ([55, 56, 64], [7, 8], [64])
    """
    powers = (2**k for k in range(bound.bit_length()))
    rounded = {-(-bound // power) * power for power in powers} | {bound}
    return sorted(each for each in rounded if each <= FURTHEST * bound)


def read_padding(einsum: Einsum, asked: str | Sequence[str]) -> dict[str, list[int]]:
    """Bounds to try for each dimension that may be padded.

    Parameters
    ----------
    asked : sequence of str, or "all"
        Dimensions, to be rounded up, or `P=56` for one bound to try besides the dimension's own.

    Raises
    ------
    AccelsimError
        If a dimension is unknown, or a bound smaller than its own.
    """
    found: dict[str, set[int]] = {}
    for text in einsum.dims if asked == "all" else [asked] if isinstance(asked, str) else asked:
        dim, equals, value = (part.strip() for part in text.partition("="))
        if dim not in einsum.dims:
            hint = near_miss(dim, einsum.dims) or f"dimensions: {listed(einsum.dims)}"
            raise AccelsimError(f"'{dim}' is no dimension of {einsum.name}; {hint}")
        bound = einsum.dims[dim]
        if not equals:
            found.setdefault(dim, {bound}).update(rounded_bounds(bound))
        elif not value.isdecimal() or not bound <= int(value) < 10**9:
            what = f"{dim} is {bound} in {einsum.name} and cannot be padded to '{value}'"
            raise AccelsimError(f"{what}; write a larger bound")
        else:
            found.setdefault(dim, {bound}).add(int(value))
    return {dim: sorted(bounds) for dim, bounds in found.items() if len(bounds) > 1}


def padded_einsums(einsum: Einsum, bounds: dict[str, list[int]]) -> Iterator[Einsum]:
    """Yield the Einsum with every choice of bounds, that without padding first, then by multiply-accumulates."""
    choices = itertools.product(*bounds.values())
    for chosen in sorted(choices, key=lambda each: (math.prod(each), each)):
        more = {dim: bound for dim, bound in zip(bounds, chosen, strict=True) if bound > einsum.dims[dim]}
        yield pad(einsum, more)
