"""What the sweep over a network reads and writes.

Axis letters: D = dimensions, S = shapes, T = tensors, C = contexts of a table, A = copies, B = spreads, K = choices of
what the next level keeps, Q = statuses around the network, Q' = those at the next tiles, W = tensors that pass the
next level, I = kinds of loops outside.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.model.encode import Bools, Floats, Ints


class Verdicts(NamedTuple):
    """Which ways to spread and keep are worth it at a network; docs/exact.md, section 3.

    state : int64[C], contexts in which they are alike follow each other, with one number; fewest : float64[C, T],
    the least that networks further out leave of a tensor's reads or updates in one of these; shares : float64[C,
    T], as `Spreading` has them for that; room : float64[C, B], what a mapping may cost from the network inwards;
    off : float64[C, 3], what is counted off at most for one copy of the output, for the most, and where these lie
    between those of the table; moved : float64[T, 2 * I], 1 for tensors without a window that the innermost loop
    outside moves, for each such loop, twice; split : bool[I, S], around which shapes there is one; after : bool[I,
    Q'], statuses inside then.
    """

    state: Ints
    fewest: Floats
    shares: Floats
    room: Floats
    off: Floats
    moved: Floats
    split: Bools
    after: Bools


class Spreading(NamedTuple):
    """What the sweep over a network needs to know besides machine and options.

    level : int64[1]; keeps : bool[K, T], what the next level may keep; reduced : float64[S], how much of the reduction
    a shape covers, complete : float64[C], how much it must, so that what enters a parent without room for partial sums
    is finished; like : int64[C, K], -1 if it may not keep that, and kinds : int16[S, *], for each of these the kind of
    contexts inside that a tile leads to, twice the class of words that storage nodes of the level hold with it, plus 1
    without room for partial sums; -1 if the tile does not fit; moves_out : bool[C, K], whether they would stand further
    out if their tensors rested; rests : int64[T], as `Layout.rests`; partner : int64[D]; tiles : int64[*], shapes that
    it may hold; parent : int64[C, T], the level that each tensor comes from; shared : float64[C, T], what is assumed of
    the share that networks further out leave of its reads or updates; fixed : float64[T], shares : float64[C, T], cost
    of a word that crosses the network, and of one that its parent reads or takes in; unshared : float64[C, T], of the
    latter where networks further out share none; once : float64[C, T, 4], or without tensors, what all else waits for
    once, as `ports.Waits.once`; target : int64[C, K, 2 * R + 2, 2**W], contexts inside, tight or not, for each class of
    room and none, the W tensors that pass the next level sharing the least or the most; passing : int64[K, W], these
    tensors, -1 after the last; near : float64[C, K, W], one over how far the least share assumed inside is from all;
    status : int64[Q, T]; inner : int64[Q], their numbers at the next tiles; loose : bool[1]; elided : float64[C], what
    the output's words cost that are not fetched because no older value is there, for each copy of the output at the
    next level; finished : float64[1], what its updates cost less there if they are finished words, of one copy; copies,
    inner_copies : float64[A], float64[A'], copies of the output at this level and at the next that tables tell apart;
    copy_costs : float64[1], what further in each further copy saves at most, if they are not told apart there; edges :
    float64[B], spreads inside up to this, for the tables of this level; inner_edges : float64[B']; counts : bool[T],
    tensors whose words cost anything from the parent inwards; moves : bool[I, T], tensors that a loop moves, for each
    kind of loop, loops : bool[I, D], its dimensions; orders : int64[*, I], of the kinds, none where no dimension leaves
    remainders; worth : Verdicts; image : int64[S], becomes : int64[Q], shapes and statuses that cost the same, as
    `Mirror` has them.
    """

    level: Ints
    keeps: Bools
    reduced: Floats
    complete: Floats
    like: Ints
    kinds: Ints
    moves_out: Bools
    rests: Ints
    partner: Ints
    tiles: Ints
    parent: Ints
    shared: Floats
    fixed: Floats
    shares: Floats
    unshared: Floats
    once: Floats
    target: Ints
    passing: Ints
    near: Floats
    status: Ints
    inner: Ints
    loose: Bools
    elided: Floats
    finished: Floats
    copy_costs: Floats
    copies: Floats
    inner_copies: Floats
    edges: Floats
    inner_edges: Floats
    counts: Bools
    moves: Bools
    loops: Bools
    orders: Ints
    worth: Verdicts
    image: Ints
    becomes: Ints


class NetworkScratch(NamedTuple):
    """Scratch space of `sweep_network`.

    tile, mid : int64[D]; x, y : int64[L, D]; words, largest, stays, once, each, anyway : float64[T]; staying :
    float64[*, T]; most, steps : float64[I]; share, passing : float64[T]; factor : float64[T, Q]; rests : bool[T];
    weight : float64[2**T]; copies, chord, saved : float64[A]; pair : int64[*, 4]; slot : int64[B]; cost : float64[Q];
    further : float64[A' * B' * Q']; of the options that a tile has, N of them: option, around, edge : int64[N], their
    numbers, the shapes around, and the slots of the largest spread; moved, shares : float64[T, N], words into the tile
    at least, and share; ways : float64[2**T, N]; least : float64[2 * I, N]; worthless : bool[*, N], with which pairs
    they are not worth it.
    """

    tile: Ints
    mid: Ints
    x: Ints
    y: Ints
    words: Floats
    largest: Floats
    stays: Floats
    once: Floats
    staying: Floats
    most: Floats
    steps: Floats
    each: Floats
    anyway: Floats
    share: Floats
    passing: Floats
    factor: Floats
    rests: Bools
    weight: Floats
    slide: Floats
    copies: Floats
    chord: Floats
    saved: Floats
    pair: Ints
    slot: Ints
    cost: Floats
    further: Floats
    option: Ints
    around: Ints
    edge: Ints
    moved: Floats
    shares: Floats
    ways: Floats
    least: Floats
    worthless: Bools


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
        once=p.once[contexts],
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
