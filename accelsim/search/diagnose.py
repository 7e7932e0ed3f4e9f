"""Why a map space holds no valid mapping: limits that every mapping breaks, and the nearest miss."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from accelsim.inputs.mapping import Mapping
from accelsim.inputs.objective import costs_of
from accelsim.inputs.units import format_bits
from accelsim.inputs.workload import ROLES
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import decode_mapping, empty_batch
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.result import Result

DRAWS = 2000
"""Mappings that are looked at in search of the nearest miss; about a third of a second."""


def diagnose(space: MapSpace, key: np.uint64, *, proved: bool) -> list[str]:
    """Tell why no mapping is valid, one line each: limits that no mapping of the space can meet, then the nearest miss.

    A tile only grows with the sizes of the dimensions in it, and these are chosen independently of one another; so the
    smallest tiles of a level are those of the smallest size of each dimension, and a limit below them is never met.

    Parameters
    ----------
    space : MapSpace
    key : uint64
        Of the draws in which the nearest miss is looked for.
    proved : bool
        Whether the search looked at all mappings; else one that is drawn here may be valid.

    Raises
    ------
    RuntimeError
        If a mapping that is drawn is valid though the search proved that none is.
    """
    certain = [*_fanouts(space), *_capacities(space), *_cycles(space)]
    return [f"no mapping can be valid: {text}" for text in certain] + _nearest_miss(space, key, proved)


def _least(space: MapSpace, dim: str, slots: list[int]) -> int:
    """Smallest product of a dimension's factors in some slots."""
    if dim not in space.dims:
        return 1
    rows = space.rows[space.dims.index(dim)]
    return int(rows[:, slots].prod(axis=1).min(initial=np.iinfo(np.int64).max))


def _fanouts(space: MapSpace) -> list[str]:
    found = []
    for at, slot in enumerate(space.slots):
        if slot.axis:
            level = space.encoded.architecture.levels[slot.level]
            size = level.x.size if slot.axis == "x" else level.y.size
            least = math.prod(_least(space, dim, [at]) for dim in space.dims)
            if least > size:
                found.append(
                    f"{level.name} spreads over at least {least} instances on {slot.axis}, its fanout is {size}"
                )
    return found


def _capacities(space: MapSpace) -> list[str]:
    found = []
    for index, level in enumerate(space.encoded.architecture.levels):
        inside = [at for at, slot in enumerate(space.slots) if slot.level >= index]
        tile = {dim: _least(space, dim, inside) for dim in space.encoded.einsum.dims}
        shown = ", ".join(f"{dim}={size}" for dim, size in tile.items() if size > 1) or "one iteration"
        held: dict[str, int | Fraction] = dict.fromkeys(ROLES, 0)
        for t, tensor in enumerate(space.encoded.tensors):
            if space.keep[index, t]:
                held[tensor.role] += tensor.words(tile) * level.element_words(tensor)
        for role, room in level.rooms.items():
            needs = held[role] if role else sum(held.values())
            if needs > room:
                name, has = f"{level.name} ({role})" if role else level.name, format_bits(room * level.word_bits)
                least = format_bits(math.ceil(needs * level.word_bits))
                found.append(f"{name} needs at least {least} (for {shown}), has {has}")
    return found


def _cycles(space: MapSpace) -> list[str]:
    """Cycles that are too few for the work, or a utilization that whole cycles do not reach."""
    fewest = math.ceil(space.ideal_cycles)
    if fewest <= space.most[1]:
        return []
    units = space.encoded.architecture.macs
    missed = space.constraints.broken_by_costs((0.0, float(fewest), 0.0), space.ideal_cycles)
    work = f"{space.encoded.einsum.real_macs:,} MACs on {units:,} compute units take at least {fewest:,}"
    return [f"{work} cycle{'s' if fewest > 1 else ''}, in which {'; '.join(missed)}"]


def _missed(space: MapSpace, mapping: Mapping) -> float:
    """By which factor a mapping misses the products that constraints ask for, and the instances of axes: of all."""
    products = space.constraints.products(mapping, space.encoded.einsum)
    found = math.prod(product.missed_by(value) for _, product, value in products)
    for level in mapping.levels:
        asked = space.constraints.of(level.level)
        for block, loops in ((asked.x, level.x), (asked.y, level.y)):
            found *= max(1.0, block.least / math.prod(loop.bound for loop in loops))
    return found


def _nearest_miss(space: MapSpace, key: np.uint64, proved: bool) -> list[str]:
    """Describe the drawn mapping that breaks its limits by the smallest factor (the product of all)."""
    from accelsim.mapspace.kernel import draw_many

    batch = empty_batch(space.encoded, DRAWS)
    draw_many(space.arrays, key, 0, batch)
    least = Fraction(space.constraints.min_utilization)
    best: tuple[float, Result] | None = None
    for b in range(DRAWS):
        result = evaluate_encoded(space.encoded, decode_mapping(space.encoded, batch, b))
        factor = math.prod(violation.factor for violation in result.violations)
        factor *= max(1.0, float(result.cycles * least / space.ideal_cycles)) * _missed(space, result.mapping)
        factor *= math.prod(max(1.0, limit.exceeded_by(costs_of(result))) for limit in space.constraints.limits)
        if best is None or factor < best[0]:
            best = factor, result
    if best is None or not math.isfinite(best[0]):
        return []
    missing = [str(violation) for violation in best[1].violations]
    missing += space.constraints.broken_by_costs(costs_of(best[1]), space.ideal_cycles)
    missing += space.constraints.broken_by(best[1].mapping, space.encoded.einsum)
    if not missing and proved:
        raise RuntimeError(f"the search found no valid mapping, but this one is valid: {best[1].mapping}")
    if not missing:
        return [f"of {DRAWS:,} mappings drawn after the search at least one is valid; let the search look at more"]
    return [f"nearest miss of {DRAWS:,} looked at: {'; '.join(missing)}"]
