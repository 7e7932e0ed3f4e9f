"""First fills and last drains, which the cycles of a layer leave out; docs/model.md, section 8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from accelsim.architecture import Architecture, Level
from accelsim.result import Ramp, Result, TensorAtLevel


def start_and_end(architecture: Architecture, result: Result) -> tuple[Ramp, ...]:
    """First fill and last drain of each level, outermost first; no level that takes no time is among them.

    They take place one after the other at most, so their sum bounds what `Result.cycles` leaves out. Some of it may be
    hidden: by computing on what is there already, or by another layer.

    Parameters
    ----------
    architecture : Architecture
    result : Result
        Of a mapping on that machine.
    """
    levels = {level.name: level for level in architecture.levels}
    kept = {name: [t for t in result.tensors if t.level == name] for name in levels}
    written = {n.tensor for n in result.networks if n.distinct_up}
    fills, drains = [], []
    for index, (name, level) in enumerate(levels.items()):
        if not index:
            continue
        inputs = [t for t in kept[name] if t.tensor not in written]
        outputs = [t for t in kept[name] if t.tensor in written]
        fill = [_cycles(_stored(inputs, level), _write(level))]
        drain = [_cycles(_stored(outputs, level), _read(level))]
        for parent, outer in list(levels.items())[:index]:
            down = [_scaled(t, result, architecture, parent, up=False) for t in inputs if _above(t, result) == parent]
            up = [_scaled(t, result, architecture, parent, up=True) for t in outputs if _above(t, result) == parent]
            fill.append(_cycles(sum(down, Fraction()), _read(outer)))
            drain.append(_cycles(sum(up, Fraction()), _write(outer)))
        fills.append(Ramp(f"first fill of {name}", 1, max(fill)))
        drains.append(Ramp(f"last drain of {name}", 1, max(drain)))
    return tuple(ramp for ramp in (*fills, *reversed(drains)) if ramp.cycles)


def _above(tensor: TensorAtLevel, result: Result) -> str:
    """Level that a tile comes from: the next one further out that keeps the tensor."""
    keeping = [t.level for t in result.tensors if t.tensor == tensor.tensor]
    return keeping[keeping.index(tensor.level) - 1]


def _scaled(tensor: TensorAtLevel, result: Result, architecture: Architecture, parent: str, *, up: bool) -> Fraction:
    """Storage words of the parent in the tiles of all its children, those that share words counted once."""
    names = [level.name for level in architecture.levels]
    between = names[names.index(parent) : names.index(tensor.level)]
    crossed = [n for n in result.networks if n.tensor == tensor.tensor and n.level in between]
    groups = math.prod(n.distinct_up if up else n.distinct for n in crossed)
    (outer,) = (t for t in result.tensors if (t.level, t.tensor) == (parent, tensor.tensor))
    return Fraction(outer.storage_words(tensor.tile_words * groups, architecture.levels[names.index(parent)].word_bits))


def _stored(tensors: Sequence[TensorAtLevel], level: Level) -> Fraction:
    """Storage words of the tiles that one instance holds."""
    return sum((Fraction(t.storage_words(t.tile_words, level.word_bits)) for t in tensors), Fraction())


def _cycles(words: Fraction, rate: Fraction | None) -> int:
    return 0 if rate is None else math.ceil(words / rate)


def _read(level: Level) -> Fraction | None:
    return level.read_bandwidth if level.bandwidth is None else level.bandwidth


def _write(level: Level) -> Fraction | None:
    return level.write_bandwidth if level.bandwidth is None else level.bandwidth
