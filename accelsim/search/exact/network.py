"""What the sweep over a network reads and writes.

Axis letters: D = dimensions, S = shapes, T = tensors, C = contexts of a table, A = copies, B = spreads, K = choices of
what the next level keeps, Q = statuses around the network, Q' = those at the next tiles, W = tensors that pass the
next level, I = kinds of loops outside.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.model.encode import Bools, Floats, Ints


class Verdicts(NamedTuple):
    """Which ways to spread and keep are worth it at a network; docs/exact.md, section 3."""

    state: Ints
    """int64[C]: contexts in which they are alike follow each other, with one number."""
    fewest: Floats
    """float64[C, T]: the least that networks further out leave of a tensor's reads or updates in one of these."""
    shares: Floats
    """float64[C, T]: as `Spreading` has them for that."""
    room: Floats
    """float64[C, B]: what a mapping may cost from the network inwards."""
    off: Floats
    """float64[C, 3]: what is counted off at most for one copy of the output, for the most, and where these lie between
    those of the table."""
    moved: Floats
    """float64[T, 2 * I]: 1 for tensors without a window that the innermost loop outside moves, for each such loop,
    twice."""
    split: Bools
    """bool[I, S]: around which shapes there is one."""
    after: Bools
    """bool[I, Q']: statuses inside then."""


class Spreading(NamedTuple):
    """What the sweep over a network needs to know besides machine and options."""

    level: Ints
    """int64[1]."""
    keeps: Bools
    """bool[K, T]: what the next level may keep."""
    reduced: Floats
    """float64[S]: how much of the reduction a shape covers."""
    complete: Floats
    """float64[C]: how much it must, so that what enters a parent without room for partial sums is finished."""
    like: Ints
    """int64[C, K]: -1 if it may not keep that."""
    kinds: Ints
    """int16[S, *]: for each of these the kind of contexts inside that a tile leads to, twice the class of words that
    storage nodes of the level hold with it, plus 1 without room for partial sums; -1 if the tile does not fit."""
    moves_out: Bools
    """bool[C, K]: whether they would stand further out if their tensors rested."""
    rests: Ints
    """int64[T]: as `Layout.rests`."""
    partner: Ints
    """int64[D]."""
    tiles: Ints
    """int64[*]: shapes that it may hold."""
    parent: Ints
    """int64[C, T]: the level that each tensor comes from."""
    shared: Floats
    """float64[C, T]: what is assumed of the share that networks further out leave of its reads or updates."""
    fixed: Floats
    """float64[T]."""
    shares: Floats
    """float64[C, T]: cost of a word that crosses the network, and of one that its parent reads or takes in."""
    unshared: Floats
    """float64[C, T]: of the latter where networks further out share none."""
    once: Floats
    """float64[C, T, 4]: or without tensors, what all else waits for once, as `ports.Waits.once`."""
    target: Ints
    """int64[C, K, 2 * R + 2, 2**W]: contexts inside, tight or not, for each class of room and none, the W tensors that
    pass the next level sharing the least or the most."""
    passing: Ints
    """int64[K, W]: these tensors, -1 after the last."""
    near: Floats
    """float64[C, K, W]: one over how far the least share assumed inside is from all."""
    status: Ints
    """int64[Q, T]."""
    inner: Ints
    """int64[Q]: their numbers at the next tiles."""
    loose: Bools
    """bool[1]."""
    elided: Floats
    """float64[C]: what the output's words cost that are not fetched because no older value is there, for each copy of
    the output at the next level."""
    finished: Floats
    """float64[1]: what its updates cost less there if they are finished words, of one copy."""
    copy_costs: Floats
    """float64[1]: what further in each further copy saves at most, if they are not told apart there."""
    copies: Floats
    inner_copies: Floats
    """Each float64[A]: float64[A'], copies of the output at this level and at the next that tables tell apart."""
    edges: Floats
    """float64[B]: spreads inside up to this, for the tables of this level."""
    inner_edges: Floats
    """float64[B']."""
    counts: Bools
    """bool[T]: tensors whose words cost anything from the parent inwards."""
    moves: Bools
    """bool[I, T]: tensors that a loop moves, for each kind of loop."""
    loops: Bools
    """bool[I, D]: its dimensions."""
    orders: Ints
    """int64[*, I]: of the kinds, none where no dimension leaves remainders."""
    worth: Verdicts
    """Verdicts."""
    image: Ints
    """int64[S]."""
    becomes: Ints
    """int64[Q]: shapes and statuses that cost the same, as `Mirror` has them."""


class NetworkScratch(NamedTuple):
    """Scratch space of `sweep_network`."""

    tile: Ints
    mid: Ints
    """Each int64[D]."""
    x: Ints
    y: Ints
    """Each int64[L, D]."""
    words: Floats
    """float64[T]."""
    largest: Floats
    """float64[T]."""
    stays: Floats
    """float64[T]."""
    once: Floats
    """float64[T]."""
    staying: Floats
    """float64[*, T]."""
    most: Floats
    steps: Floats
    """Each float64[I]."""
    each: Floats
    """float64[T]."""
    anyway: Floats
    """float64[T]."""
    share: Floats
    passing: Floats
    """Each float64[T]."""
    factor: Floats
    """float64[T, Q]."""
    rests: Bools
    """bool[T]."""
    weight: Floats
    """float64[2**T]."""
    slide: Floats
    copies: Floats
    chord: Floats
    saved: Floats
    """Each float64[A]."""
    pair: Ints
    """int64[*, 4]."""
    slot: Ints
    """int64[B]."""
    cost: Floats
    """float64[Q]."""
    further: Floats
    """float64[A' * B' * Q']; of the options that a tile has, N of them: option."""
    option: Ints
    around: Ints
    edge: Ints
    """Each int64[N]: their numbers, the shapes around, and the slots of the largest spread."""
    moved: Floats
    shares: Floats
    """Each float64[T, N]: words into the tile at least, and share."""
    ways: Floats
    """float64[2**T, N]."""
    least: Floats
    """float64[2 * I, N]."""
    worthless: Bools
    """bool[*, N]: with which pairs they are not worth it."""


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
