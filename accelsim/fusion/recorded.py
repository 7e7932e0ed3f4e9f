"""Fused chains as plain values, and read back: what they say is made anew from the tiling and the mappings alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from accelsim.fusion.chain import Chain
from accelsim.fusion.part import evaluate_part, held_by, without_held
from accelsim.fusion.price import Price
from accelsim.fusion.search import ChainResult, FusedPart
from accelsim.fusion.tiling import (
    FusedLoop,
    FusedTiling,
    Run,
    fusing_levels,
    keeps_shortcut,
    rooms,
    runs,
    shortcut_room,
)
from accelsim.inputs.architecture import Architecture
from accelsim.results.output import read_certificate, read_mapping_json

SAME = 1e-12
"""Relative difference that a value read back may have from one that is evaluated anew."""


def read_tiling(chain: Chain, recorded: Mapping[str, Any]) -> FusedTiling:
    """Fused tiling that `accelsim.fusion.output.chain_json` wrote.

    Raises
    ------
    ValueError
        If it is none of the chain.
    """
    dims = {dim.name: dim for dim in chain.dims}
    loops = tuple(FusedLoop(str(each["dim"]), int(each["steps"]), int(each["tile"])) for each in recorded["loops"])
    for loop in loops:
        if loop.dim not in dims or loop.steps < 2 or loop.steps * loop.tile != dims[loop.dim].bound:
            raise ValueError(f"{loop} with {loop.tile} a step is no fused loop of {chain.name}")
    if len({loop.dim for loop in loops}) < len(loops):
        raise ValueError(f"two fused loops of {chain.name} run over one dimension")
    retain = tuple(frozenset(each["retained"]) for each in recorded["intermediates"])
    held = {str(each["layer"]): frozenset(each["tensors"]) for each in recorded["resident"]}
    names = {layer.name: {tensor.name for tensor in layer.tensors} for layer in chain.layers}
    if any(not tensors <= names.get(layer, set()) for layer, tensors in held.items()):
        raise ValueError(f"what stays resident is no tensor of {chain.name}")
    resident = tuple(held.get(layer.name, frozenset[str]()) for layer in chain.layers)
    if len(retain) != len(chain.links) or not frozenset[str]().union(*retain) <= {loop.dim for loop in loops}:
        raise ValueError(f"halos of {chain.name} are retained along what is no fused loop")
    return FusedTiling(str(recorded["level"]), loops, retain, resident, recorded["shortcut"] is not None)


def read_chain(architecture: Architecture, chain: Chain, recorded: Mapping[str, Any]) -> ChainResult:
    """Fused chain that `chain_json` wrote: parts from the tiling, costs from the mappings, sums from the parts.

    Raises
    ------
    ValueError, LookupError, AccelsimError
        If the tiling or a mapping is none of the chain, or the parts are not those of the tiling.
    """
    tiling = read_tiling(chain, recorded)
    levels = fusing_levels(architecture, chain)
    if isinstance(levels, str) or tiling.level not in levels:
        raise ValueError(f"{tiling.level} cannot keep the intermediates of {chain.name}")
    names = [level.name for level in architecture.levels]
    at = names.index(tiling.level)
    level = architecture.levels[at]
    if tiling.shortcut and not keeps_shortcut(chain, tiling, level):
        raise ValueError(
            f"{tiling.level} cannot keep what the first layer of {chain.name} reads until it is read again"
        )
    capacity = (level.size_words or 0) // level.multiple_buffering
    wanted = {_run_key(chain, run): run for run in runs(chain, tiling, level)}
    if len(recorded["parts"]) != len(wanted):
        raise ValueError(f"{chain.name} has {len(wanted)} parts, not {len(recorded['parts'])}")
    parts = []
    for each in recorded["parts"]:
        body = each["result"]
        key = each["layer"], tuple(body["bounds"].values()), tuple(each["fetches"]), tuple(each["finds"])
        run = wanted.pop(key, None)
        if run is None:
            raise ValueError(f"{each['layer']} with the bounds {dict(body['bounds'])} is no part of the tiling")
        held, einsum, room = held_by(chain, run.part, at), run.part.einsum(chain), capacity - run.reserved
        mapping = read_mapping_json(body)
        result = without_held(evaluate_part(architecture, einsum, held, room, mapping), held, names, room)
        parts.append(FusedPart(run.part, run.count, run.reserved, result))
    return ChainResult(
        chain=chain,
        tiling=tiling,
        parts=tuple(parts),
        rooms=tuple(rooms(chain, tiling)),
        shortcut=shortcut_room(chain, tiling),
        price=Price(float(recorded["price"]["energy"]), float(recorded["price"]["cycles"])),
        energy_pj=math.fsum(part.count * part.result.energy_pj for part in parts),
        cycles=sum(part.count * part.result.cycles for part in parts),
        outer_words=sum(part.count * part.result.outer_words for part in parts),
        macs=sum(part.count * part.result.macs for part in parts),
        certificate=read_certificate(recorded["certificate"]),
        stop=str(recorded["stop"]),
        tilings=int(recorded["tilings"]),
        solved=int(recorded["certificate"]["evaluated"]),
    )


def _run_key(chain: Chain, run: Run) -> tuple[str, tuple[int, ...], tuple[str, ...], tuple[str, ...]]:
    part = run.part
    return chain.layers[part.layer].name, part.bounds, tuple(sorted(part.arriving)), tuple(sorted(part.present))


def differs(found: ChainResult, recorded: Mapping[str, Any]) -> str:
    """What a fused chain costs otherwise than recorded; empty if nothing."""
    if found.cycles != recorded["cycles"] or not math.isclose(found.energy_pj, recorded["energy_pj"], rel_tol=SAME):
        was = f"{recorded['energy_pj']:.6g} pJ and {recorded['cycles']} cycles"
        return f"{found.chain.name} costs {found.energy_pj:.6g} pJ and {found.cycles} cycles, not {was}"
    return ""
