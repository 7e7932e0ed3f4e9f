"""Oracle of fused tilings: executes one step by step with sets of points, slowly on purpose.

Nothing here is a formula, and nothing of `accelsim.fusion.tiling` but the description of the tiling is used. Words of
an intermediate are points in the coordinates of its consumer, padding included.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from accelsim.fusion.chain import Chain, Link, Shortcut
from accelsim.fusion.tiling import FusedTiling
from accelsim.inputs.workload import Einsum, Tensor

Point = tuple[int, ...]
Step = tuple[int, ...]
"""Indices of the fused loops, outermost first."""


@dataclass(slots=True)
class Kept:
    """The first layer's input while it is kept for a later layer.

    `fetched` words in all, most words there until that layer has run in a step (`live`) and at other times (`between`),
    and words that it asked for and that were not there.
    """

    fetched: int = 0
    live: int = 0
    between: int = 0
    missing: int = 0


@dataclass(slots=True)
class FusedCounts:
    """What happens in all steps of a fused tiling.

    Attributes
    ----------
    macs : list of int
        Multiply-accumulates that each layer executes.
    written : list of int
        Words of each intermediate that are written into the fusing level.
    fetched : list of dict of str to int
        For each layer the words of each resident tensor that are fetched.
    live, between : list of int
        Of each intermediate the most words in the fusing level while its producer or consumer runs, and at other times.
    missing : int
        Words that were demanded and neither there nor computed.
    shortcut : Kept
        Of what a shortcut keeps.
    """

    macs: list[int]
    written: list[int]
    fetched: list[Counter[str]]
    live: list[int]
    between: list[int]
    missing: int = 0
    shortcut: Kept = field(default_factory=Kept)
    runs: Counter[tuple[int, Point]] = field(default_factory=Counter)


def execute_fused(chain: Chain, tiling: FusedTiling) -> FusedCounts:
    """Run each layer in each step on what is demanded of it and not there.

    A word that was in the fusing level for an earlier step is there still if the outermost loop that has stepped since
    is one along which the halo is retained.
    """
    layers, links = chain.layers, chain.links
    steps = list(itertools.product(*(range(loop.steps) for loop in tiling.loops)))
    demanded: list[dict[Step, frozenset[Point]]] = [{} for _ in links]
    places: list[dict[Step, list[dict[str, int]]]] = [{} for _ in layers]
    there: list[dict[Step, frozenset[Point]]] = [{} for _ in links]
    for step in steps:
        todo = _last_places(chain, tiling, step)
        for at in range(len(layers) - 1, -1, -1):
            places[at][step] = todo
            if at == 0:
                break
            link, tensor = links[at - 1], _named(layers[at], links[at - 1].tensor)
            box = _box(layers[at], tensor, todo)
            demanded[at - 1][step] = box
            stayed = _stayed(tiling, at - 1, demanded[at - 1], step, box)
            there[at - 1][step] = stayed
            todo = _producing(layers[at - 1], link, layers[at], box - stayed)
    counts = FusedCounts(
        [0] * len(layers), [0] * len(links), [Counter() for _ in layers], [0] * len(links), [0] * len(links)
    )
    last: list[dict[str, frozenset[Point]]] = [{} for _ in layers]
    for number, step in enumerate(steps):
        for at, einsum in enumerate(layers):
            todo = places[at][step]
            if not todo:
                continue
            counts.macs[at] += len(todo)
            counts.runs[at, tuple(len({place[dim] for place in todo}) for dim in einsum.dims)] += 1
            if at < len(links):
                counts.written[at] += len({tuple(p[rank.producer] for rank in links[at].ranks) for p in todo})
            for name in tiling.resident[at]:
                tile = _box(einsum, _named(einsum, name), todo)
                counts.fetched[at][name] += len(tile) if last[at].get(name) != tile else 0
                last[at][name] = tile
            for between in range(len(links)):
                words = _in_level(demanded[between], there[between], steps, number, at, between)
                most = counts.live if between in (at - 1, at) else counts.between
                most[between] = max(most[between], len(words))
    counts.missing = _missing(chain, demanded, there, places, steps)
    if tiling.shortcut and chain.shortcut is not None:
        counts.shortcut = _keep(chain, chain.shortcut, tiling, places, steps)
        counts.fetched[0][chain.shortcut.tensor] = counts.shortcut.fetched
    return counts


def _keep(
    chain: Chain,
    shortcut: Shortcut,
    tiling: FusedTiling,
    places: Sequence[Mapping[Step, Sequence[Mapping[str, int]]]],
    steps: Sequence[Step],
) -> Kept:
    """Fetch what the first layer reads in each step, and hold what the other reader asks for then and later.

    A word stays from one step to another if the outermost loop that has stepped is one along which the halo of the
    first intermediate is retained. What is fetched anew before it is read again need not stay.
    """
    first, second = chain.layers[0], chain.layers[shortcut.layer]
    new = [_box(first, _named(first, shortcut.tensor), places[0][step]) for step in steps]
    asked = [_box(second, _named(second, shortcut.again), places[shortcut.layer][step]) for step in steps]
    found = Kept(fetched=sum(map(len, new)))
    known: set[Point] = set()
    for now in range(len(steps)):
        stayed = set[Point]().union(*(new[at] for at in range(now) if _stays(tiling, 0, steps[at], steps[now])))
        found.missing += len(asked[now] - new[now] - stayed)
        known |= new[now]
        later, fetched = set[Point](), set[Point]()
        for at in range(now + 1, len(steps)):
            fetched |= new[at]
            later |= asked[at] - fetched
        found.live = max(found.live, len(new[now] | (known & (asked[now] | later))))
        found.between = max(found.between, len(known & later))
    return found


def _named(einsum: Einsum, name: str) -> Tensor:
    return next(tensor for tensor in einsum.tensors if tensor.name == name)


def _last_places(chain: Chain, tiling: FusedTiling, step: Step) -> list[dict[str, int]]:
    """Iterations of the last layer in a step."""
    einsum = chain.layers[-1]
    ranges = {dim: range(bound) for dim, bound in einsum.dims.items()}
    for loop, index in zip(tiling.loops, step, strict=True):
        ranges[loop.dim] = range(index * loop.tile, (index + 1) * loop.tile)
    return [dict(zip(ranges, place, strict=True)) for place in itertools.product(*ranges.values())]


def _box(einsum: Einsum, tensor: Tensor, places: Sequence[Mapping[str, int]]) -> frozenset[Point]:
    """Points of the box around what some iterations touch, ranks of one word left out."""
    sides = []
    for rank, extent in zip(tensor.ranks, tensor.box(einsum.dims), strict=True):
        touched = [sum(factor * place[dim] for dim, factor in rank) for place in places]
        if extent > 1:
            sides.append(range(min(touched), max(touched) + 1) if touched else range(0))
    return frozenset(itertools.product(*sides))


def _stayed(
    tiling: FusedTiling, link: int, before: Mapping[Step, frozenset[Point]], step: Step, box: frozenset[Point]
) -> frozenset[Point]:
    """Words of a box that an earlier step had and that are there still."""
    found: set[Point] = set()
    for other, words in before.items():
        if other == step:
            continue
        if _stays(tiling, link, other, step):
            found |= words & box
    return frozenset(found)


def _stays(tiling: FusedTiling, link: int, one: Step, other: Step) -> bool:
    """Whether words of an intermediate stay from one step to another."""
    outermost = next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return tiling.loops[outermost].dim in tiling.retain[link]


def _producing(producer: Einsum, link: Link, consumer: Einsum, words: Iterable[Point]) -> list[dict[str, int]]:
    """Iterations of a producer that compute some words; words of the padding take none."""
    wanted = set()
    for word in words:
        real = tuple(at - rank.before for at, rank in zip(word, link.ranks, strict=True))
        if all(0 <= at < rank.extent for at, rank in zip(real, link.ranks, strict=True)):
            wanted.add(real)
    places = (
        dict(zip(producer.dims, place, strict=True))
        for place in itertools.product(*(range(bound) for bound in producer.dims.values()))
    )
    return [place for place in places if tuple(place[rank.producer] for rank in link.ranks) in wanted]


def _in_level(
    demanded: Mapping[Step, frozenset[Point]],
    there: Mapping[Step, frozenset[Point]],
    steps: Sequence[Step],
    number: int,
    layer: int,
    link: int,
) -> set[Point]:
    """Words of an intermediate that lie in the fusing level while a layer runs in a step.

    Those that are computed again before they are read need not stay.
    """
    had = number + 1 if layer >= link else number  # its producer has run in this step, or runs
    known = set[Point]().union(*(demanded[step] for step in steps[:had]))
    wanted, computed = set[Point](), set[Point]()
    for step in steps[had:]:
        wanted |= there[step] - computed
        computed |= demanded[step] - there[step]
    words = known & wanted
    return words | demanded[steps[number]] if layer in (link, link + 1) else words


def _missing(
    chain: Chain,
    demanded: Sequence[Mapping[Step, frozenset[Point]]],
    there: Sequence[Mapping[Step, frozenset[Point]]],
    places: Sequence[Mapping[Step, Sequence[Mapping[str, int]]]],
    steps: Sequence[Step],
) -> int:
    """Words of intermediates that a step demands and nobody has computed for it."""
    found = 0
    for at, link in enumerate(chain.links):
        computed: set[Point] = set()
        for step in steps:
            new = {tuple(p[r.producer] + r.before for r in link.ranks) for p in places[at][step]}
            computed |= new
            for word in demanded[at][step]:
                inside = all(r.before <= w < r.before + r.extent for w, r in zip(word, link.ranks, strict=True))
                found += inside and word not in (computed if word in there[at][step] else new)
    return found
