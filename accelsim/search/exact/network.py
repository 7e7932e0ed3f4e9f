"""What the sweep over a network reads and writes.

Axis letters: D = dimensions, S = shapes, T = tensors, C = contexts of a table, A = copies, B = spreads, K = choices of
what the next level keeps, Q = statuses around the network, Q' = those at the next tiles, W = tensors that pass the
next level, I = kinds of loops outside.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.model.detail import Detail
from accelsim.model.encode import Constants, Ints
from accelsim.model.records import (
    Bools1,
    Bools2,
    Floats1,
    Floats2,
    Floats3,
    Floats5,
    Int16s2,
    Int32s2,
    Ints1,
    Ints2,
    Ints4,
    record,
)
from accelsim.search.exact.shapes import Options, Shapes


@record
class Verdicts(NamedTuple):
    """Which ways to spread and keep are worth it at a network; docs/papers/exact-mapper.md, Lemma 18.

    Here I counts what the innermost loop outside the network may be, no loop among it.
    """

    state: Ints1
    """int64[C]: number of the context's state; contexts of one state follow each other and share the verdict."""
    fewest: Floats2
    """float64[C, T]: least share of the tensor's reads (or updates) that networks further out leave."""
    shares: Floats2
    """float64[C, T]: cost of a word that leaves the network for the parent, as `Spreading.shares`, at the share
    `fewest`."""
    room: Floats2
    """float64[C, B]: most that a mapping may cost from the network inwards, for each class of spread."""
    off: Floats2
    """float64[C, 3]: what is taken off at most for one copy of the output and for the most copies, and where the latter
    lies between the copies of the table, 0..1."""
    moved: Floats2
    """float64[T, 2 * I]: 1 if the innermost loop outside moves the tensor and the tensor has no window; the I columns
    twice, for one copy of the output and for the most."""
    split: Bools2
    """bool[I, S]: whether the innermost loop outside a shape may be of this kind."""
    after: Bools2
    """bool[I, Q']: which sets of statuses the next tiles can have inside an innermost loop of this kind."""


@record
class Spreading(NamedTuple):
    """What the sweep over a network reads besides machine and options.

    R = classes of words held at the next level.
    """

    level: Ints1
    """int64[1]: level that the network lies below."""
    keeps: Bools2
    """bool[K, T]: tensors that the next level keeps, for each choice."""
    reduced: Floats1
    """float64[S]: iterations of the reduction that a shape covers."""
    complete: Floats1
    """float64[C]: iterations of the reduction that the shape around the innermost network must cover, so that its sums
    are finished; 0 if the output's parent has room for partial sums."""
    like: Ints2
    """int64[C, K]: column of `kinds` for the choice in this context, -1 if the next level may not keep that."""
    kinds: Int16s2
    """int16[S, *]: kind of context inside that a tile leads to: twice the class of words that storage nodes hold with
    it, plus 1 if there is no room for partial sums; -1 if the tile does not fit."""
    moves_out: Bools2
    """bool[C, K]: whether the next level's node would stand further out if its tensors rested; each step then costs the
    whole tile."""
    rests: Ints1
    """int64[T]: whether the tensor's tile may rest nevertheless: 0 if so, 2 if not, 1 if `passes_window` tells."""
    partner: Ints1
    """int64[D]: the other dimension in the same rank of the windowed tensor, -1 if there is none."""
    tiles: Ints1
    """int64[*]: shapes that the next level may hold."""
    parent: Ints2
    """int64[C, T]: level that the tensor comes from."""
    shared: Floats2
    """float64[C, T]: share of the tensor's reads (or updates) that networks further out are assumed to leave."""
    fixed: Floats1
    """float64[T]: cost of a word that crosses the network and enters the next level."""
    shares: Floats2
    """float64[C, T]: cost of a word that leaves the network for the parent: on networks further out, and at the
    parent."""
    unshared: Floats2
    """float64[C, T]: cost of a word that leaves the network for the parent, if networks further out share none."""
    waited_once: Floats3
    """float64[C, T, 4] [cycles]: first fill (or last drain) at the next level: time of an element of the tile; its time
    at the parent's port, for each group of children that shares it; what the preload of a systolic array covers; and 1
    if it counts. float64[C, 0, 4] if nothing waits."""
    target: Ints4
    """int64[C, K, 2 * R + 2, 2**W]: context inside, by its kind and by the tensors that pass and take the lower corner
    of their shares, as bits; -1 if there is none."""
    passing: Ints2
    """int64[K, W]: tensors that pass the next level, -1 after the last."""
    near: Floats3
    """float64[C, K, W]: 1 / (1 - least share that networks further out leave of a passing tensor); 0 if they share
    none."""
    status: Ints2
    """int64[Q, T]: status of each tensor, in each set of statuses."""
    inner: Ints1
    """int64[Q]: number of the set of statuses in the table at the next tiles."""
    loose: Bools1
    """bool[1]: whether windows are bounded roughly, as `Structure.loose` has it."""
    elided: Floats1
    """float64[C]: cost of the output's words that need not be fetched because no older value is there, for each copy of
    the output at the next level."""
    finished: Floats1
    """float64[1]: what the updates of one copy of the output cost less at the next level if its words are finished."""
    copy_costs: Floats1
    """float64[1]: what each further copy of the output at the next level saves at most, where the tables inside tell
    none apart."""
    copies: Floats1
    """float64[A]: numbers of copies of the output that the tables of this level tell apart."""
    inner_copies: Floats1
    """float64[A']: numbers of copies of the output that the tables of the next level tell apart."""
    edges: Floats1
    """float64[B]: most compute units in use inside one instance of this level, for each class of spread."""
    inner_edges: Floats1
    """float64[B']: most compute units in use inside one instance of the next level, for each class of spread."""
    counts: Bools1
    """bool[T]: whether the tensor's words cost anything from any of its parents inwards."""
    moves: Bools2
    """bool[I, T]: tensors that loops of each kind move."""
    loops: Bools2
    """bool[I, D]: dimensions whose loops are of each kind."""
    orders: Ints2
    """int64[*, I]: all orders of the kinds; none where no dimension leaves remainders."""
    worth: Verdicts
    """Verdicts: which ways to spread and keep are worth it."""
    image: Ints1
    """int64[S]: shape that costs the same if dimensions change places, as `Mirror.image`."""
    becomes: Ints1
    """int64[Q]: set of statuses that costs the same if dimensions change places, by number."""


@record
class NetworkScratch(NamedTuple):
    """Scratch space of `sweep_network`.

    L = levels, N = options of one tile. Unless said otherwise, a row is about the tile and the option that the sweep is
    at.
    """

    tile: Ints1
    """int64[D]: size number of the next level's tile."""
    mid: Ints1
    """int64[D]: size number of the tile around the network."""
    x: Ints2
    """int64[L, D]: bound of the spatial loop along x over each dimension."""
    y: Ints2
    """int64[L, D]: bound of the spatial loop along y over each dimension."""
    words: Floats1
    """float64[T]: words that enter all tiles at least, if the next loop outside moves the tensor."""
    largest: Floats1
    """float64[T]: largest share of the tensor's words that rest, over all rows of `staying`."""
    stays: Floats1
    """float64[T]: the largest share of the words that rest, without words that come only once."""
    comes_once: Floats1
    """float64[T]: share of the words that come if loops which do not move the tensor bring none."""
    staying: Floats2
    """float64[*, T]: shares of each tensor's words that rest together, for some orders of the innermost loops
    outside."""
    most: Floats1
    """float64[I]: largest share of the words that rest along a dimension of each kind of loops."""
    steps: Floats1
    """float64[I]: steps of all loops of each kind around the network."""
    each: Floats1
    """float64[T]: cost of the words, if each step costs the whole tile."""
    anyway: Floats1
    """float64[T]: cost of the words that come in any order of the loops outside."""
    share: Floats1
    """float64[T]: share of the children that take words of their own."""
    passing: Floats1
    """float64[T]: share of the children that take words of their own, if the tensor passes the next level."""
    factor: Floats2
    """float64[T, Q]: share of the tile that a step costs with a status of the set."""
    rests: Bools1
    """bool[T]: whether the tensor's tile may rest although its node would stand further out then."""
    weight: Floats1
    """float64[2**T]: weights of the contexts inside, by passing tensors that take the lower corner, as bits."""
    slide: Floats1
    """float64[D]: share of the windowed tile that is new after a step of the loop over the dimension."""
    copies: Floats1
    """float64[A]: copies of the output at the next level."""
    chord: Floats1
    """float64[A]: where `copies` lie between the numbers of copies that the table inside tells apart, 0..1."""
    saved: Floats1
    """float64[A]: what `copies` save at most, where the table inside tells none apart."""
    pair: Ints2
    """int64[*, 4]: context; choice of what the next level keeps; kind of context inside; and the pair whose verdict
    holds."""
    slot: Ints1
    """int64[B']: class of spread at this level, for each class of the next one."""
    cost: Floats1
    """float64[Q]: cost of the traffic over the network, for each set of statuses."""
    further: Floats1
    """float64[A' * B' * Q']: cost to go at the next tiles, mixed from the contexts inside."""
    option: Ints1
    """int64[N]: options that lead to the tile."""
    around: Ints1
    """int64[N]: shape around the network to which each option leads."""
    edge: Ints1
    """int64[N]: class of spread at this level, with the largest class of the next one."""
    moved: Floats2
    """float64[T, N]: words that enter all tiles at least, without the largest share that rests."""
    shares: Floats2
    """float64[T, N]: share of the children that take words of their own, if the tensor passes the next level."""
    ways: Floats2
    """float64[2**T, N]: weights of the contexts inside, as `weight` has them for one option."""
    least: Floats2
    """float64[2 * I, N]: least cost from the network inwards, for each innermost loop outside as in `Verdicts`: first
    with one copy of the output, then with the most."""
    worthless: Bools2
    """bool[*, N]: whether the option is not worth it for a pair."""


@record
class NetworkSweep(NamedTuple):
    """What a sweep over a network reads and writes."""

    c: Constants
    """The machine and the Einsum."""
    shapes: Shapes
    """Tile shapes."""
    options: Options
    """Ways to spread over the network."""
    p: Spreading
    """The contexts."""
    most: Ints1
    """int64[D]: how many sizes of each dimension can fit the level."""
    next_of: Ints2
    """int64[O, D]: after each option the first one that spreads some dimension up to d otherwise."""
    tiles: Ints1
    """int64[*]: shapes that the next level may hold."""
    live: Bools2
    """bool[S, C']: where `inside` may be finite; of the innermost network not read."""
    wanted: Bools2
    """bool[S, C]: which shapes are to be looked at."""
    entries: Floats1
    """float64[*]: entries at the tiles, by the statuses there, as `CostTable` has them."""
    first_of: Ints1
    """int64[C']: as `CostTable.first`."""
    place: Int32s2
    """int32[C', S]: as `CostTable.place`."""
    least: Floats3
    """float64[*, C', 2 * I]: the least entry at each tile, for one copy of the output and the most, for each innermost
    loop outside."""
    out: Floats5
    """float64[S, C, A, B, Q]: lowered."""
    s: Detail
    """Counts of a tile."""
    scratch: NetworkScratch
    """What one tile needs meanwhile."""


def only(spreading: Spreading, contexts: Ints) -> Spreading:
    """The same network for some contexts only."""
    p = spreading
    if len(contexts) == len(p.parent):
        return p
    return p._replace(
        parent=p.parent[contexts],
        shared=p.shared[contexts],
        shares=p.shares[contexts],
        unshared=p.unshared[contexts],
        waited_once=p.waited_once[contexts],
        elided=p.elided[contexts],
        like=p.like[contexts],
        moves_out=p.moves_out[contexts],
        complete=p.complete[contexts],
        target=p.target[contexts],
        near=p.near[contexts],
        worth=p.worth._replace(
            state=p.worth.state[contexts],
            fewest=p.worth.fewest[contexts],
            shares=p.worth.shares[contexts],
            room=p.worth.room[contexts],
            off=p.worth.off[contexts],
        ),
    )
