"""What a node of the search is made of, as arrays for the kernels.

Axis letters: L = levels (outermost first), D = dimensions, T = tensors, N = sizes, F = factors, Q = statuses,
B = spreads, S = shapes, O = options, P = pieces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.model.encode import Batch, Bools, Floats, Ints, empty_batch
from accelsim.search.exact.shapes import Grid

MOST_IN_A_RUN = 256
"""Shapes around a network of which a node lists once which of them its loops may lead to."""
FAILED = 8
"""Ways to spread a tile that led to nothing, which others are compared with."""


class CostTables(NamedTuple):
    """The map space and its cost-to-go tables."""

    next_size: Ints
    """int16[L, D, N, N + 1]: inside each size the next one, from some number on, that a temporal loop may leave, -1 if
    there is none."""
    values: Floats
    """float64[*]: all tables, one after the other."""
    ports: Ints
    """int64[P, 2]: level and number of ports."""
    others: Floats
    """float64[*, *]: more tables like `values`."""
    row: Ints
    """int64[M]: where each stands in these, of the cycles of each port in all its instances together, times shares :
    float64[P]."""
    shares: Floats
    words: Ints
    """int64[1]: 1 if one of units of words at the outermost level stands before these."""
    waits: Ints
    """int64[1]: 1 if the last one is of cycles that all else waits for."""
    firsts: Bools
    """bool[L, L, T]: whether it does for the first tile of a tensor that comes from a level and is kept further in than
    another."""
    rows: Ints
    """int64[2, L]: first context of the tables around the networks and at the tiles of each level."""
    place: Ints
    """int32[*, S]."""
    many: Ints
    first: Ints
    """Each int64[*]: as `Bounds` has them."""
    edges: Floats
    """float64[L + 1, B]: spreads of each table, the last repeated."""
    spreads: Ints
    """int64[L + 1]: how many of them."""
    context: Ints
    """int64[L, *]: first context of a code of parents and corners, -1 if there is none."""
    rooms: Ints
    """int64[L, R + 1]: from how many words on these begin."""
    in_room: Ints
    """int64[L, *, R + 1]: the context for each class of what storage nodes of the level hold."""
    sums: Ints
    """int64[L]: words that a partial sum takes more than a finished one, where tables know."""
    least: Floats
    """float64[L, L, T]: share of reads assumed at the lower corner, for level, parent and tensor."""
    status: Ints
    """int64[2, L, *]: number of a code of statuses in the tables around the networks and at the tiles."""
    statuses: Ints
    """int64[2, L]: how many there are."""
    still: Ints
    """int64[L]: number of STATIONARY for all."""
    innermost: Ints
    """int64[L, D, 4]: numbers for a block whose innermost loop is over a dimension, see `mixed_by_innermost`."""
    option_first: Ints
    """int64[L + 1]."""
    option_x: Ints
    option_y: Ints
    option_place: Ints
    """Each int64[O, D]."""
    option_spreads: Ints
    """int64[O, B]: class of spread of each with each class further in."""
    keep_first: Ints
    """int64[L + 1]."""
    keeps: Bools
    """bool[*, T]."""
    required: Bools
    """bool[L, T]: as `MapSpace.required`."""
    merges: Bools
    """bool[4]: whether two blocks with no storage node between them are as good as one, in a level, and across levels,
    and whether loops of the second that may stand in the first do, with a level in between that keeps nothing or some
    tensors."""
    fits: Bools
    wide: Bools
    """Each bool[*, S]: without and with partial sums."""
    by_tile: Bools
    """bool[L]: whether to go through tiles rather than options."""
    group_first: Ints
    """int64[L + 1]."""
    tiles: Ints
    """int64[*]."""
    option_of: Ints
    """int64[L, spread numbers + 1]: first option of each spread."""
    rests: Ints
    """int64[L, D, 2]: the bit of a set of loops that says that one of them may make one step in its last pass, -1 if
    none may, and 1 if a network inside the loop may spread its dimension."""
    order_first: Ints
    """int64[L, 2**(D + such bits) + 1]."""
    orders: Ints
    """int64[*, D + 2]: dimensions outermost first, then a pair of loops that must carry on."""
    every_first: Ints
    """int64[L, 2**D + 1]."""
    every_orders: Ints
    """as these, all orders where all are wanted, else empty."""
    partner: Ints
    """int64[D]."""
    window: Ints
    """int64[1]."""
    whole: Bools
    """bool[D]: as `Structure`."""
    macs: Floats
    """float64[1]."""
    most: Floats
    """float64[3]: energy, cycles and outer words that are allowed."""
    start: Floats
    """float64[1]: energy that every mapping has."""
    leaks: Floats
    """float64[L + 1, B]: what leaks in a cycle inside an instance at least [pJ], for each class of spread there."""
    elided: Floats
    """float64[1 + M, L]: what it costs to read the whole output at a level once, in energy and as `row`."""
    narrow: Floats
    """as this, what updates that are finished words cost less."""
    copies: Floats
    """float64[L, 2]: how many numbers of copies of the output the tables of a level tell apart (1 or 2), and the larger
    one."""
    copy_costs: Floats
    """float64[1 + M, L + 1]: what the tables further in count off at most for each further copy, if there is one
    number."""
    widest: Floats
    """float64[L]: children in use below a level at most."""
    needed: Ints
    """int64[T]: different words that the multiply-accumulates ask for."""
    deepest: Ints
    """int64[T]: innermost level that may keep it."""
    least_inside: Floats
    """float64[L + 1, T]: least share that networks from a level inwards leave."""
    in_turn: Floats
    """float64[L + 1, T + 1]: words of each tensor that one compute unit asks for in turn at least, and its steps, if
    only networks from a level inwards spread; 0 but with remainders, or where a PE of an array holds a word of a
    window."""


class SearchNode(NamedTuple):
    """The node that is looked at, level by level."""

    mapping: Batch
    """Batch of one."""
    tile: Ints
    """int64[L + 1, D]: divisor indices."""
    mid: Ints
    """int64[L, D]: the same around the network."""
    parent: Ints
    """int64[L + 1, T]."""
    share: Floats
    """float64[L + 1, T]."""
    energy: Floats
    """float64[L + 1]."""
    read: Ints
    written: Ints
    passing: Ints
    """Each int64[L + 1, L]: words at each level so far, and of the network below it."""
    linked: Ints
    givers: Ints
    """Each int64[L, T]: as in `Detail`."""
    waits: Ints
    """int64[L + 1]: cycles so far that do not overlap."""
    waited: Ints
    """int64[L + 1, L, 2]: words read and written in these at each level, at most."""
    fills: Ints
    moved: Ints
    """Each int64[L + 1, T]."""
    charged: Floats
    """float64[L + 1, T]: energy charged beforehand."""
    held: Ints
    """int64[L + 1]: words held."""
    tight: Bools
    """bool[L + 1]: whether the output's parent has no room for partial sums."""
    cursor: Ints
    """int64[L, 11]: what is next at each level."""
    run: Ints
    """int64[L, *, 2]: as `list_run`: what sizes of the last dimensions add to the number of the shape around the
    network of a level, and which have a loop, as bits."""
    context: Ints
    """int64[L + 1, 2**T]."""
    weight: Floats
    """float64[L + 1, 2**T]."""
    lower: Floats
    """float64[T]."""
    entry: Ints
    entry_row: Ints
    """Each int64[*]."""
    entry_weight: Floats
    """float64[*]: as `list_entries`."""
    mix: Ints
    """int64[*]."""
    mix_weight: Floats
    """float64[*]."""
    within: Ints
    """int64[L, *]."""
    within_weight: Floats
    """float64[L, *]: the same at tiles of the next level after the block of a level, and how many these are."""
    within_sets: Ints
    """int64[L]: 0 if it depends on the tile."""
    by_innermost: Floats
    """float64[L, D]: see `mixed_by_innermost`."""
    by_spread: Floats
    """float64[B]: bound of each class of spread."""
    spreads: Ints
    """int64[L, 2]: which of them are looked at, as bits, around the network of a level and at its tile."""
    piece: Ints
    """int64[T, P]."""
    piece_end: Floats
    """float64[T, P]."""
    pieces: Ints
    """int64[T]."""
    status: Ints
    cycles: Ints
    """Each int64[1]."""
    pj: Floats
    """float64[1]: of a whole mapping."""
    column: Floats
    """float64[4]: what counts of it or at least of all its completions."""
    failed: Ints
    """int64[L, *, 2T + 1]: groups down and up of each tensor, and what is kept, of tiles that led to nothing."""
    many_failed: Ints
    """int64[L] of them."""
    free: Bools
    """bool[L, D]: temporal loops that are stepped through, where words are counted with remainders."""
    span: Ints
    """int64[L + 1, D]: what the loops from a level inwards cover."""
    first: Floats
    """float64[D]: how many indices of each dimension these are."""
    steps: Floats
    """float64[L + 1]."""
    held_in_turn: Floats
    """float64[L + 1, T]: where dimensions leave remainders: steps of the first compute unit and words that its PE
    holds, if it did all inside a tile in turn."""


def make_node(grid: Grid, tables: CostTables) -> SearchNode:
    """Make room for the nodes that a search of a map space is at."""
    encoded = grid.space.encoded
    c = encoded.constants
    levels, (tensors, dims) = len(c.fanout), c.relevant.shape
    pieces = dims * levels + 2
    tile = np.zeros((levels + 1, dims), np.int64)
    tile[0] = grid.shapes.sizes - 1
    return SearchNode(
        mapping=empty_batch(encoded, 1),
        tile=tile,
        mid=np.zeros((levels, dims), np.int64),
        parent=np.zeros((levels + 1, tensors), np.int64),
        share=np.ones((levels + 1, tensors)),
        energy=np.zeros(levels + 1),
        read=np.zeros((levels + 1, levels), np.int64),
        written=np.zeros((levels + 1, levels), np.int64),
        passing=np.zeros((levels + 1, levels), np.int64),
        linked=np.zeros((levels, tensors), np.int64),
        givers=np.zeros((levels, tensors), np.int64),
        waits=np.zeros(levels + 1, np.int64),
        waited=np.zeros((levels + 1, levels, 2), np.int64),
        fills=np.zeros((levels + 1, tensors), np.int64),
        moved=np.zeros((levels + 1, tensors), np.int64),
        charged=np.zeros((levels + 1, tensors)),
        held=np.zeros(levels + 1, np.int64),
        tight=np.zeros(levels + 1, np.bool_),
        cursor=np.full((levels, 11), -1),
        run=np.zeros((levels, MOST_IN_A_RUN, 2), np.int64),
        context=np.zeros((levels + 1, 2**tensors), np.int64),
        weight=np.zeros((levels + 1, 2**tensors)),
        lower=np.zeros(tensors),
        entry=np.zeros(2 * 2**tensors, np.int64),
        entry_row=np.zeros(2 * 2**tensors, np.int64),
        entry_weight=np.zeros(2 * 2**tensors),
        mix=np.zeros(pieces * tensors, np.int64),
        mix_weight=np.zeros(pieces * tensors),
        within=np.zeros((levels, pieces * tensors), np.int64),
        within_weight=np.zeros((levels, pieces * tensors)),
        within_sets=np.zeros(levels, np.int64),
        by_innermost=np.zeros((levels, dims)),
        by_spread=np.zeros(tables.edges.shape[1]),
        spreads=np.zeros((levels, 2), np.int64),
        piece=np.zeros((tensors, pieces), np.int64),
        piece_end=np.zeros((tensors, pieces)),
        pieces=np.zeros(tensors, np.int64),
        status=np.zeros(1, np.int64),
        cycles=np.zeros(1, np.int64),
        pj=np.zeros(1),
        column=np.zeros(4),
        failed=np.zeros((levels, FAILED, 2 * tensors + 1), np.int64),
        many_failed=np.zeros(levels, np.int64),
        free=np.zeros((levels, dims), np.bool_),
        span=np.ones((levels + 1, dims), np.int64),
        first=np.zeros(dims),
        steps=np.zeros(levels + 1),
        held_in_turn=np.zeros((levels + 1, tensors)),
    )
