"""What kernels of coarse tables take: buckets of sizes, networks, and room for one pair of shapes.

Axis letters: D = dimensions, T = tensors, N = buckets of tile sizes, F = families, R = reaches, Q = reaches of all
families with none first, S = shapes, A = copies of the output, C = prices of a word of every tensor, K = choices of
what a level keeps.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.model.records import (
    Bools1,
    Bools2,
    Floats1,
    Floats2,
    Floats3,
    Floats4,
    Int32s2,
    Ints1,
    Ints2,
    record,
)

SAME = 1e-9
"""Relative: numbers that differ by rounding alone."""
REL, IRR_AROUND, IRR_INSIDE, SHARE, WINDOW_SHARE, RESTS, FACTS = range(7)
"""Of a tensor at a network: words that the compute units ask for in one pass of the loops that do not move it; passes
of these around the network and at the tiles; least share of words that is left above; the part of it that windows
have; share of words that rests."""
AROUND, MOST_AROUND, INSIDE, MOST_INSIDE, EVEN, RAGGED, OTHERS, OTHERS_REST, SPREAD, AT_NETWORK = range(10)
"""Of a family at a network: fewest and most passes around it, and at the tiles; spread of dimensions without and of one
with remainders; most passes of all dimensions but this one; share of words that rests of tensors of other families; and
the most children."""
STAYS, LOOPS = 1, 2
"""Whether tiles of two buckets can be equal, and whether a loop can lead from one to the other."""


@record
class Buckets(NamedTuple):
    """Buckets of tile sizes, and what the loops outside a tile may leave in place."""

    least: Floats2
    """float64[D, N]: smallest size in a bucket."""
    most: Floats2
    """float64[D, N]: largest size in a bucket."""
    passes: Floats2
    """float64[D, N]: fewest passes, those of the largest size."""
    most_passes: Floats2
    """float64[D, N]: most passes."""
    ragged: Bools1
    """bool[D]: whether the dimension may leave remainders."""
    prime: Ints1
    """int64[D]: least loop over the dimension."""
    family: Ints1
    """int64[D]: family of tensors of which a loop over the dimension leaves some in place, -1 if it moves all."""
    family_of: Ints1
    """int64[T]: family of each tensor, -1 if all dimensions move it."""
    alone: Bools1
    """bool[T]: whether no dimension of the tensor's family moves it."""
    reach: Floats2
    """float64[F, R]: passes of the family's dimensions beyond the loops that leave its tensors in place, ascending."""
    first: Ints1
    """int64[F + 1]: number of the first reach of each family among all, where 0 is none."""
    reaches: Ints1
    """int64[F]: how many reaches there are. If a family has one dimension, and it may leave remainders, as many more
    follow, which are exact: no network has spread the dimension since."""
    told: Ints1
    """int64[F]: this dimension, if all sizes and exact reaches are told apart, else -1."""
    needed: Floats1
    """float64[T]: different words that the multiply-accumulates ask for."""


@record
class Crossing(NamedTuple):
    """The network below a level, and the level inside it."""

    spread: Floats4
    """float64[2, D, N, N]: least and most children that loops over a dimension use between a bucket around the network
    and one of the tile; 0 if none lead there."""
    rests: Floats3
    """float64[D, N, N]: share of a tensor's words that a last pass over the dimension leaves in place, at most."""
    sharing: Floats1
    """float64[T]: children that can share a word of the tensor, at most."""
    linked: Bools1
    """bool[T]: whether children may take the tensor's words from their neighbours."""
    into: Floats1
    """float64[T] [pJ]: energy of each word into the tiles inside, where the level there keeps the tensor."""
    passing: Floats1
    """float64[T] [pJ]: energy of a transfer of a word that the level inside passes by."""
    credit: Floats1
    """float64[2] [pJ]: energy that is not spent, where the level inside keeps the output, for each copy of it; and
    where there is one copy."""
    children: Floats1
    """float64[1]: children of the network."""
    price: Floats2
    """float64[T, *] [pJ]: prices of a word above the network, ascending, then infinite."""
    prices: Ints1
    """int64[T]: how many there are."""
    price_inside: Floats2
    """float64[T, *] [pJ]: the same below it."""
    prices_inside: Ints1
    """int64[T]"""
    plain: Ints1
    """int64[T]: how many of them come before the narrow ones of the output, at which each word comes once."""
    plain_inside: Ints1
    """int64[T]"""
    own: Ints1
    """int64[T]: number of the price that the level inside sets, if it keeps the tensor."""
    tight: Ints1
    """int64[1]: whether the level inside sets the first narrow price there."""
    copies: Floats1
    """float64[A]: copies of the output above the network that tables tell apart."""
    copies_inside: Floats1
    """float64[A]: the same below it."""
    masks: Ints1
    """int64[K]: what the level inside may keep, tensors as bits; all at the compute units."""
    fits: Bools2
    """bool[S, K]: whether that fits, with sums as narrow as they can be."""
    narrow: Bools2
    """bool[S, K]: whether it fits with narrow sums alone."""
    last: Ints1
    """int64[1]: whether the compute units lie inside."""
    around: Ints2
    """int64[S, D]: buckets of each shape around the network."""
    inside: Ints2
    """int64[S, D]: buckets of each tile."""
    row_around: Int32s2
    """int32[S, Q]: row of each state in the table around the network, -1 if it is not live."""
    row_inside: Int32s2
    """int32[S, Q]: the same of the table of tiles."""


@record
class Scratch(NamedTuple):
    """Room for one pair of shapes."""

    facts: Floats2
    """float64[T, FACTS]"""
    words: Floats2
    """float64[F + 1, T]: words into the tiles in one pass of the loops that do not move a tensor; if the innermost loop
    is over a dimension of a family, from 1 on."""
    families: Floats2
    """float64[F, AT_NETWORK]"""
    reads: Floats1
    """float64[T]: words that leave the parent."""
    own: Ints1
    """int64[T]: price that the level inside sets."""
    down: Ints2
    """int64[T, *]: price below the network for each above it: the one that is no higher."""
    beyond: Floats2
    """float64[T, *]: how far the real one lies towards the next price."""
    lanes: Floats2
    """float64[2, *]: entries of a state while prices are interpolated."""
    target: Ints1
    """int64[C]: price numbers below the network."""
    cost: Floats1
    """float64[C]: what the words cost at each price."""
