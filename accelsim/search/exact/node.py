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
    """The map space and its cost-to-go tables.

    next_size : int16[L, D, N, N + 1], inside each size the next one, from some number on, that a temporal loop may
    leave, -1 if there is none; values : float64[*], all tables, one after the other; ports : int64[P, 2], level and
    number of ports; others : float64[*, *], more tables like `values`, and row : int64[M], where each stands in these,
    of the cycles of each port in all its instances together, times shares : float64[P]; words : int64[1], 1 if one of
    units of words at the outermost level stands before these, waits : int64[1], 1 if the last one is of cycles that all
    else waits for, firsts : bool[L, L, T], whether it does for the first tile of a tensor that comes from a level and
    is kept further in than another; rows : int64[2, L], first context of the tables around the networks and at the
    tiles of each level, place : int32[*, S], many, first : int64[*], as `Bounds` has them; edges : float64[L + 1, B],
    spreads of each table, the last repeated; spreads : int64[L + 1], how many of them; context : int64[L, *], first
    context of a code of parents and corners, -1 if there is none, in_room : int64[L, *, R + 1], the context for each
    class of what storage nodes of the level hold, rooms : int64[L, R + 1], from how many words on these begin, sums :
    int64[L], words that a partial sum takes more than a finished one, where tables know; least : float64[L, L, T],
    share of reads assumed at the lower corner, for level, parent and tensor; status : int64[2, L, *], number of a code
    of statuses in the tables around the networks and at the tiles; statuses : int64[2, L], how many there are; still :
    int64[L], number of STATIONARY for all; innermost : int64[L, D, 4], numbers for a block whose innermost loop is over
    a dimension, see `mixed_by_innermost`; option_first : int64[L + 1]; option_x, option_y, option_place : int64[O, D];
    option_spreads : int64[O, B], class of spread of each with each class further in; keep_first : int64[L + 1]; keeps :
    bool[*, T]; required : bool[L, T], as `MapSpace.required`; merges : bool[4], whether two blocks with no storage node
    between them are as good as one, in a level, and across levels, and whether loops of the second that may stand in
    the first do, with a level in between that keeps nothing or some tensors; fits, wide : bool[*, S], without and with
    partial sums; by_tile : bool[L], whether to go through tiles rather than options; group_first : int64[L + 1]; tiles
    : int64[*]; option_of : int64[L, spread numbers + 1], first option of each spread; rests : int64[L, D, 2], the bit
    of a set of loops that says that one of them may make one step in its last pass, -1 if none may, and 1 if a network
    inside the loop may spread its dimension; order_first : int64[L, 2**(D + such bits) + 1]; orders : int64[*, D + 2],
    dimensions outermost first, then a pair of loops that must carry on; every_first : int64[L, 2**D + 1], every_orders
    : as these, all orders where all are wanted, else empty; partner : int64[D]; window : int64[1]; whole : bool[D], as
    `Structure`; macs : float64[1]; most : float64[3], energy, cycles and outer words that are allowed; start :
    float64[1], energy that every mapping has; leaks : float64[L + 1, B], what leaks in a cycle inside an instance at
    least [pJ], for each class of spread there; elided : float64[1 + M, L], what it costs to read the whole output at a
    level once, in energy and as `row`; narrow : as this, what updates that are finished words cost less; copies :
    float64[L, 2], how many numbers of copies of the output the tables of a level tell apart (1 or 2), and the larger
    one; copy_costs : float64[1 + M, L + 1], what the tables further in count off at most for each further copy, if
    there is one number; widest : float64[L], children in use below a level at most; needed : int64[T], different words
    that the multiply-accumulates ask for; deepest : int64[T], innermost level that may keep it; least_inside :
    float64[L + 1, T], least share that networks from a level inwards leave; in_turn : float64[L + 1, T + 1], words of
    each tensor that one compute unit asks for in turn at least, and its steps, if only networks from a level inwards
    spread; 0 but with remainders, or where a PE of an array holds a word of a window.
    """

    next_size: Ints
    values: Floats
    ports: Ints
    others: Floats
    row: Ints
    shares: Floats
    words: Ints
    waits: Ints
    firsts: Bools
    rows: Ints
    place: Ints
    many: Ints
    first: Ints
    edges: Floats
    spreads: Ints
    context: Ints
    rooms: Ints
    in_room: Ints
    sums: Ints
    least: Floats
    status: Ints
    statuses: Ints
    still: Ints
    innermost: Ints
    option_first: Ints
    option_x: Ints
    option_y: Ints
    option_place: Ints
    option_spreads: Ints
    keep_first: Ints
    keeps: Bools
    required: Bools
    merges: Bools
    fits: Bools
    wide: Bools
    by_tile: Bools
    group_first: Ints
    tiles: Ints
    option_of: Ints
    rests: Ints
    order_first: Ints
    orders: Ints
    every_first: Ints
    every_orders: Ints
    partner: Ints
    window: Ints
    whole: Bools
    macs: Floats
    most: Floats
    start: Floats
    leaks: Floats
    elided: Floats
    narrow: Floats
    copies: Floats
    copy_costs: Floats
    widest: Floats
    needed: Ints
    deepest: Ints
    least_inside: Floats
    in_turn: Floats


class SearchNode(NamedTuple):
    """The node that is looked at, level by level.

    mapping : Batch of one; tile : int64[L + 1, D], divisor indices; mid : int64[L, D], the same around the network;
    parent : int64[L + 1, T]; share : float64[L + 1, T]; energy : float64[L + 1]; read, written, passing : int64[L + 1,
    L], words at each level so far, and of the network below it; linked, givers : int64[L, T], as in `Detail`; waits :
    int64[L + 1], cycles so far that do not overlap, waited : int64[L + 1, L, 2], words read and written in these at
    each level, at most; fills, moved : int64[L + 1, T]; charged : float64[L + 1, T], energy charged beforehand; held :
    int64[L + 1], words held; tight : bool[L + 1], whether the output's parent has no room for partial sums; cursor :
    int64[L, 11], what is next at each level; run : int64[L, *, 2], as `list_run`: what sizes of the last dimensions add
    to the number of the shape around the network of a level, and which have a loop, as bits; context : int64[L + 1,
    2**T]; weight : float64[L + 1, 2**T]; lower : float64[T]; entry, entry_row : int64[*], entry_weight : float64[*], as
    `list_entries`; mix : int64[*]; mix_weight : float64[*]; within : int64[L, *], within_weight : float64[L, *], the
    same at tiles of the next level after the block of a level, and how many these are, within_sets : int64[L], 0 if
    it depends on the tile; by_innermost : float64[L, D], see `mixed_by_innermost`; by_spread : float64[B], bound of
    each class of spread; spreads : int64[L, 2], which of them are looked at, as bits, around the network of a level and
    at its tile; piece : int64[T, P]; piece_end : float64[T, P]; pieces : int64[T]; status, cycles : int64[1]; pj :
    float64[1], of a whole mapping; column : float64[4], what counts of it or at least of all its completions; failed :
    int64[L, *, 2T + 1], groups down and up of each tensor, and what is kept, of tiles that led to nothing, many_failed
    : int64[L] of them; free : bool[L, D], temporal loops that are stepped through, where words are counted with
    remainders; span : int64[L + 1, D], what the loops from a level inwards cover; steps : float64[L + 1], held_in_turn
    : float64[L + 1, T], where dimensions leave remainders: steps of the first compute unit and words that its PE holds,
    if it did all inside a tile in turn; first : float64[D], how many indices of each dimension these are.
    """

    mapping: Batch
    tile: Ints
    mid: Ints
    parent: Ints
    share: Floats
    energy: Floats
    read: Ints
    written: Ints
    passing: Ints
    linked: Ints
    givers: Ints
    waits: Ints
    waited: Ints
    fills: Ints
    moved: Ints
    charged: Floats
    held: Ints
    tight: Bools
    cursor: Ints
    run: Ints
    context: Ints
    weight: Floats
    lower: Floats
    entry: Ints
    entry_row: Ints
    entry_weight: Floats
    mix: Ints
    mix_weight: Floats
    within: Ints
    within_weight: Floats
    within_sets: Ints
    by_innermost: Floats
    by_spread: Floats
    spreads: Ints
    piece: Ints
    piece_end: Floats
    pieces: Ints
    status: Ints
    cycles: Ints
    pj: Floats
    column: Floats
    failed: Ints
    many_failed: Ints
    free: Bools
    span: Ints
    first: Floats
    steps: Floats
    held_in_turn: Floats


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
