"""What was found about fusion as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from accelsim.fusion.result import ChainResult, FusionResult, Segment, Totals
from accelsim.results import Provenance, provenance_json
from accelsim.results.output import certificate_json, result_json


def fusion_json(found: FusionResult, provenance: Provenance, energies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Document of what to fuse: totals, each segment, and each part of a fused one with all its counts."""
    return {
        **provenance_json(provenance),
        "fusion": {
            "architecture": found.architecture,
            "network": found.workload,
            "objective": found.objective,
            "chain": list(found.chain) or None,
            "longest": found.longest,
            "budget": {"mappings": provenance.mappings, "seconds": provenance.seconds},
            "stop": found.stop,
            "certificate": certificate_json(found.certificate),
            "chains": found.chains,
            "parts_mapped": found.solved,
            "edges_inferred": found.inferred,
            "why_not": found.why_not or None,
            "apart": [asdict(each) for each in found.apart],
            "totals": totals_json(found.totals),
            "unfused": totals_json(found.unfused),
            "segments": [_segment(segment) for segment in found.segments],
        },
        "energy_table": [dict(row) for row in energies],
    }


def totals_json(totals: Totals) -> dict[str, Any]:
    """Totals as plain values."""
    return {**asdict(totals), "edp_pj_cycles": totals.energy_pj * totals.cycles}


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "layers": [layer.name for layer in segment.layers],
        "repeat": segment.repeat,
        "alike": [{"layers": list(names), "repeat": repeat} for names, repeat in segment.alike],
        "totals": totals_json(segment.totals),
        "unfused": totals_json(segment.unfused),
        "fused": None if segment.fused is None else chain_json(segment.fused),
        "mapping": None if segment.mapping is None else result_json(segment.mapping),
    }


def chain_json(found: ChainResult) -> dict[str, Any]:
    """A fused chain as plain values."""
    tiling = found.tiling
    return {
        "level": tiling.level,
        "loops": [{"dim": loop.dim, "steps": loop.steps, "tile": loop.tile} for loop in tiling.loops],
        "intermediates": [
            {
                "producer": producer.name,
                "consumer": consumer.name,
                "tensor": link.tensor,
                "retained": sorted(kept),
                "words": room.live,
                "halo_words": room.between,
            }
            for producer, consumer, link, kept, room in zip(
                found.chain.layers, found.chain.layers[1:], found.chain.links, tiling.retain, found.rooms, strict=False
            )
        ],
        "resident": [
            {"layer": layer.name, "tensors": sorted(names)}
            for layer, names in zip(found.chain.layers, tiling.resident, strict=True)
            if names
        ],
        "shortcut": _shortcut(found),
        **asdict(found.totals),
        "price": asdict(found.price),
        "certificate": certificate_json(found.certificate),
        "stop": found.stop,
        "tilings": found.tilings,
        "parts": [
            {
                "layer": found.chain.layers[part.part.layer].name,
                "count": part.count,
                "fetches": sorted(part.part.arriving),
                "finds": sorted(part.part.present),
                "reserved_words": part.reserved,
                "result": result_json(part.result),
            }
            for part in found.parts
        ],
    }


def _shortcut(found: ChainResult) -> dict[str, Any] | None:
    """What the first layer reads and keeps for a later one."""
    shortcut = found.chain.shortcut
    if shortcut is None or not found.tiling.shortcut:
        return None
    return {
        "tensor": shortcut.tensor,
        "layer": found.chain.layers[shortcut.layer].name,
        "again": shortcut.again,
        "words": found.shortcut.live,
        "halo_words": found.shortcut.between,
    }
