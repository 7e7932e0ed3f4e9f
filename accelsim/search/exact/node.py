"""What a node of the search is made of, as arrays for the kernels.

Axis letters: L = levels (outermost first), D = dimensions, T = tensors, N = sizes, F = factors, Q = statuses,
B = spreads, S = shapes, O = options, P = pieces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.model.detail import Detail, make_detail
from accelsim.model.encode import Batch, Constants, empty_batch
from accelsim.model.records import (
    Bools1,
    Bools2,
    Bools3,
    Floats1,
    Floats2,
    Floats3,
    Int16s4,
    Int32s2,
    Ints1,
    Ints2,
    Ints3,
    record,
)
from accelsim.search.exact.shapes import Grid, Shapes

MOST_IN_A_RUN = 256
"""Shapes around a network of which a node lists once which of them its loops may lead to."""
FAILED = 8
"""Ways to spread a tile that led to nothing, which others are compared with."""


@record
class CostTables(NamedTuple):
    """The map space and its cost-to-go tables, as the compiled search reads them.

    Each level has two tables: around the network below it, and at its tiles. `tables.Context` says what a context is,
    and `orders` what a status is. Axis letters: P = limited ports, M = costs besides energy, R = classes of words held.
    """

    next_size: Int16s4
    """int16[L, D, N, N + 1]: within a tile of size n, the first size number from i on that a temporal loop of the level
    may leave around the network, -1 if there is none."""
    values: Floats1
    """float64[*] [pJ]: entries of the tables of energy, context by context."""
    ports: Ints2
    """int64[P, 2]: level of the port; and 0 for all its words, 1 for reads, 2 for fills and updates, 3 for the network
    below."""
    others: Floats2
    """float64[*, *]: tables of other costs, one a row, laid out like `values`."""
    row: Ints1
    """int64[M]: row of each cost in `others`: words at the outermost level if `words`, cycles of each port, and cycles
    that all else waits for if `waits`."""
    shares: Floats1
    """float64[P]: of a port's cycles in all instances together, the least share that one has; its table holds cycles
    times this share."""
    words: Ints1
    """int64[1]: 1 if there is a table of units that are read and written at the outermost level."""
    waits: Ints1
    """int64[1]: 1 if there is a table of cycles that all else waits for."""
    firsts: Bools3
    """bool[L, L, T]: whether all else waits for the first tile of a tensor that comes from the first level and is next
    kept further in than the second."""
    rows: Ints2
    """int64[2, L]: first context of the table around the network of a level, and of that at its tiles, among all
    contexts."""
    place: Int32s2
    """int32[*, S]: where a shape stands among those that a context keeps, -1 if it is not worth it."""
    many: Ints1
    """int64[*]: how many shapes a context keeps."""
    first: Ints1
    """int64[*]: where the entries of a context begin in `values`."""
    edges: Floats2
    """float64[L + 1, B]: most compute units in use inside one instance of the level, for each class of spread; ones
    after the last class."""
    spreads: Ints1
    """int64[L + 1]: how many classes of spread the tables of the level tell apart."""
    context: Ints2
    """int64[L, *]: first context with some parents of the tensors, corners of their shares and `tight`, by a code of
    all three; -1 if there is none."""
    rooms: Ints2
    """int64[L, R + 1] [units]: what storage nodes of the level hold at least in each class of words held."""
    in_room: Ints3
    """int64[L, *, R + 1]: context for each class of words held, where `context` gives the first one; -1 if there is
    none."""
    sums: Ints1
    """int64[L] [units]: how much larger a partial sum is than a finished word; 0 where the tables do not tell them
    apart."""
    least: Floats3
    """float64[L, L, T]: least share of a tensor's reads (or updates) that networks between a level and the parent
    leave, by level, then parent; the lower of the two corners between which the tables' entries are mixed."""
    status: Ints3
    """int64[2, L, *]: number of a set of statuses, by its code, in the table around the network and in that at the
    tiles."""
    statuses: Ints2
    """int64[2, L]: how many sets of statuses the table around the network, and that at the tiles, tells apart."""
    still: Ints1
    """int64[L]: number of the set in which all tensors are STATIONARY, in the table around the network."""
    innermost: Ints3
    """int64[L, D, 4]: numbers of the sets of statuses around the network if the innermost loop is over the dimension:
    other tensors STATIONARY, then NONE; and for each a window that slides, then one that is STATIONARY."""
    option_first: Ints1
    """int64[L + 1]: where the options of a level's network begin."""
    option_x: Ints2
    """int64[O, D]: bound of the spatial loop along x over each dimension."""
    option_y: Ints2
    """int64[O, D]: bound of the spatial loop along y over each dimension."""
    option_place: Ints2
    """int64[O, D]: number of x * y among the spreads of the dimension (`Shapes.spread`)."""
    option_spreads: Ints2
    """int64[O, B]: class of spread at the level that the option makes of each class further in."""
    keep_first: Ints1
    """int64[L + 1]: where the choices of what a level keeps begin in `keeps`."""
    keeps: Bools2
    """bool[*, T]: tensors that a level keeps, for each of its choices."""
    required: Bools2
    """bool[L, T]: at the last storage node of a level, whether one of its nodes must keep the tensor."""
    merges: Bools1
    """bool[4]: what may be assumed of temporal blocks (docs/papers/exact-mapper.md, section 7): two with no storage
    node between them are as good as one, within a level, and across levels; and loops that could stand further out do
    so (Lemma 32), past a level that keeps nothing, and past one that keeps some tensors."""
    fits: Bools2
    """bool[*, S]: whether a tile fits the level with a choice of `keeps`, the output as finished words."""
    wide: Bools2
    """bool[*, S]: whether a tile fits the level with a choice of `keeps`, the output as partial sums."""
    by_tile: Bools1
    """bool[L]: whether the search goes through the tiles below the network; else through its options."""
    group_first: Ints1
    """int64[L + 1]: where the tiles of a level's network, or its options, begin in `tiles`."""
    tiles: Ints1
    """int64[*]: shapes of the tiles below each network; without meaning where the search goes through options."""
    option_of: Ints2
    """int64[L, *]: first option of the network with each spread number, as in `Shapes.spread_stride`."""
    rests: Ints3
    """int64[L, D, 2]: which bit of a set of loops stands for a loop over the dimension that makes one step in its last
    pass, -1 if there is none; and 1 if a network inside the loop may spread the dimension."""
    order_first: Ints2
    """int64[L, *]: where the orders of a set of loops begin in `orders`; a set is the dimensions with a loop, as bits,
    and the bits of `rests`."""
    orders: Ints2
    """int64[*, D + 2]: orders that can be best: dimensions outermost first, those without a loop last; then an inner
    and an outer dimension of a window, whose outer loop must carry on where the inner one ends, -1 if there are
    none."""
    every_first: Ints2
    """int64[L, *]: where the orders of a set of loops begin in `every_orders`; a set is the dimensions with a loop, as
    bits."""
    every_orders: Ints2
    """int64[*, D + 2]: all orders, laid out like `orders`; empty unless all are looked at."""
    partner: Ints1
    """int64[D]: the other dimension in the same rank of the windowed tensor, -1 if there is none."""
    window: Ints1
    """int64[1]: the windowed tensor, -1 if there is none or if windows are bounded roughly."""
    whole: Bools1
    """bool[D]: dimensions of a window whose loops are never split, as `Structure.whole` has them."""
    macs: Floats1
    """float64[1]: multiply-accumulates."""
    most: Floats1
    """float64[3]: largest energy [pJ], cycles and off-chip words that the constraints allow."""
    start: Floats1
    """float64[1] [pJ]: energy that every mapping has: multiply-accumulates, and the least leakage."""
    leaks: Floats2
    """float64[L + 1, B] [pJ]: least energy that leaks in a cycle from all levels inside one instance, for each class of
    spread."""
    elided: Floats2
    """float64[1 + M, L]: cost of reading the whole output at a level once: energy [pJ], then the costs of `row`."""
    narrow: Floats2
    """float64[1 + M, L]: what updates of the whole output at a level cost less if each word comes once, finished; costs
    as in `elided`."""
    copies: Floats2
    """float64[L, 2]: how many numbers of copies of the output the tables of the level tell apart (1 or 2), and the
    larger number."""
    copy_costs: Floats2
    """float64[1 + M, L + 1]: what each further copy of the output saves at most in the tables further in, where they
    tell none apart; costs as in `elided`."""
    widest: Floats1
    """float64[L]: most children in use below one instance of the level."""
    needed: Ints1
    """int64[T]: different words of the tensor that the multiply-accumulates ask for."""
    deepest: Ints1
    """int64[T]: innermost level that may keep the tensor."""
    least_inside: Floats2
    """float64[L + 1, T]: least share of a tensor's words that the networks from the level inwards leave."""
    in_turn: Floats2
    """float64[L + 1, T + 1]: words of each tensor that one compute unit asks for at least, and its steps, if only
    networks from the level inwards spread; 0 unless dimensions leave remainders, or a PE of a systolic array holds one
    word of a window."""


@record
class SearchProblem(NamedTuple):
    """What a search looks at."""

    c: Constants
    """The machine and the Einsum."""
    shapes: Shapes
    """Tile shapes."""
    g: CostTables
    """The map space and its cost-to-go tables."""


@record
class SearchNode(NamedTuple):
    """The partial mapping that the search looks at, level by level from the outside in.

    Where arrays have L + 1 rows, the last is about the compute units. Costs in row l are those of all traffic into the
    tiles of level l and of the levels outside it.
    """

    mapping: Batch
    """Batch of one: loops, spatial bounds and kept tensors of the levels so far."""
    s: Detail
    """Counts of the levels so far."""
    full: Detail
    """Counts of a complete mapping."""
    tile: Ints2
    """int64[L + 1, D]: size of the tile along each dimension, as a size number."""
    mid: Ints2
    """int64[L, D]: size along each dimension of the tile around the network below the level, as a size number."""
    parent: Ints2
    """int64[L + 1, T]: innermost level so far that keeps the tensor."""
    share: Floats2
    """float64[L + 1, T]: share of the words into all tiles of the level that the tensor's parent reads, or takes in as
    updates."""
    energy: Floats1
    """float64[L + 1] [pJ]: energy of the traffic so far, with that which every mapping has."""
    read: Ints2
    """int64[L + 1, L] [units]: what the traffic so far reads at one instance of each level."""
    written: Ints2
    """int64[L + 1, L] [units]: what fills and updates so far write at one instance of each level."""
    passing: Ints2
    """int64[L + 1, L] [units]: what passes so far between one instance of each level and the network below it."""
    linked: Ints2
    """int64[L, T] [words]: what an instance passes on to its neighbour."""
    givers: Ints2
    """int64[L, T]: instances that pass words on to their neighbours."""
    waits: Ints1
    """int64[L + 1] [cycles]: time of the fills and drains so far that all else waits for."""
    waited: Ints3
    """int64[L + 1, L, 2] [units]: of `read` and of `written`, what all else waits for at most."""
    fills: Ints2
    """int64[L + 1, T] [words]: of the output, partial sums that come back to one instance of the level (to all of them
    where dimensions leave remainders)."""
    moved: Ints2
    """int64[L + 1, T] [words]: of the output, what leaves one instance of the level upwards (all of them where
    dimensions leave remainders)."""
    charged: Floats2
    """float64[L + 1, T] [pJ]: what is charged at the level for the output's fills and drains until their width is
    known."""
    held: Ints1
    """int64[L + 1] [units]: what the storage nodes of the level hold so far."""
    tight: Bools1
    """bool[L + 1]: whether the output's parent has no room for partial sums."""
    cursor: Ints2
    """int64[L, 11]: where the search stands at the level: ORDER and the constants of `node_kernel` after it."""
    run: Ints3
    """int64[L, *, 2]: for sizes of the last dimensions that temporal loops may leave, what they add to the number of
    the shape around the network, and which dimensions have a loop, as bits."""
    context: Ints2
    """int64[L + 1, 2**T]: contexts of the node, one for each set of tensors whose share is taken at the lower
    corner."""
    weight: Floats2
    """float64[L + 1, 2**T]: weight of each context in the bound."""
    lower: Floats1
    """float64[T]: scratch: weight of the lower corner of the tensor's share, or least share of the steps that move its
    tile."""
    entry: Ints1
    """int64[*]: where the entries that `list_entries` lists begin in `CostTables.values`."""
    entry_row: Ints1
    """int64[*]: contexts of the listed entries."""
    entry_weight: Floats1
    """float64[*]: weights of the listed entries in the bound."""
    mix: Ints1
    """int64[*]: sets of statuses that the loops outside give the tensors, as numbers of the table."""
    mix_weight: Floats1
    """float64[*]: share of the steps in which the tensors have each set of `mix`."""
    within: Ints2
    """int64[L, *]: sets of statuses at the tiles of the next level, after the temporal block of this one."""
    within_weight: Floats2
    """float64[L, *]: share of the steps in which the tensors have each set of `within`."""
    within_sets: Ints1
    """int64[L]: how many sets `within` has; 0 if they depend on the tile."""
    by_innermost: Floats2
    """float64[L, D]: least value that a block can lead to whose innermost loop is over the dimension, infinite if it
    has no loop there."""
    by_spread: Floats1
    """float64[B]: least value that a completion in each class of spread can have."""
    spreads: Ints2
    """int64[L, 2]: classes of spread that are looked at, as bits: around the network, and at the tile."""
    piece: Ints2
    """int64[T, P]: statuses of the tensor in P successive shares of the steps."""
    piece_end: Floats2
    """float64[T, P]: where each share of the steps ends, 0..1."""
    pieces: Ints1
    """int64[T]: scratch: the piece of each tensor at which the next set of statuses begins."""
    status: Ints1
    """int64[1]: status of a whole mapping: VALID, or the rule that it breaks."""
    cycles: Ints1
    """int64[1]: cycles of a whole mapping."""
    pj: Floats1
    """float64[1] [pJ]: energy of a whole mapping."""
    column: Floats1
    """float64[4]: energy [pJ], cycles, off-chip words and words held, of a whole mapping or, at least, of every
    completion."""
    failed: Ints3
    """int64[L, *, 2T + 1]: tiles that led to nothing: for each tensor the children that need words of their own
    downwards and upwards, and what the next level keeps."""
    many_failed: Ints1
    """int64[L]: how many tiles that led to nothing are noted."""
    free: Bools2
    """bool[L, D]: which temporal loops are stepped through, where words are counted with remainders."""
    span: Ints2
    """int64[L + 1, D]: positions along the dimension that all loops from the level inwards cover."""
    first: Floats1
    """float64[D]: indices along the dimension that the first compute unit goes through, if one does all inside a tile
    in turn."""
    steps: Floats1
    """float64[L + 1]: steps of the first compute unit, if one does all inside a tile in turn; 0 without remainders."""
    held_in_turn: Floats2
    """float64[L + 1, T] [words]: what enters the first PE of a systolic array, if one does all inside a tile in turn; 0
    without remainders."""


def search_problem(grid: Grid, tables: CostTables) -> SearchProblem:
    """What a search of a map space looks at."""
    return SearchProblem(grid.space.encoded.constants, grid.shapes, tables)


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
        s=make_detail(encoded),
        full=make_detail(encoded),
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
