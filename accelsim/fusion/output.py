"""What was found about fusion as JSON: written, read back, and checked.

A chain is read back from its tiling and its mappings alone. Checked are parts by their tilings, every mapping by
evaluating it again, sums, and the optimum by another search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from accelsim.fusion.chain import Chain, find_shortcut, make_chain
from accelsim.fusion.network import fuse
from accelsim.fusion.result import ChainResult, FusedPart, FusionResult, Price, Segment, Totals, sum_totals
from accelsim.fusion.search import evaluate_part, held_by, without_held
from accelsim.fusion.tiling import FusedLoop, FusedTiling, Run, fusing_levels, keeps_shortcut, runs
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.machine_tables import energy_rows
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Workload
from accelsim.model.evaluate import evaluate
from accelsim.results import Provenance, provenance_json
from accelsim.results.output import certificate_json, read_certificate, read_mapping_json, result_json
from accelsim.results.verifying import (
    Check,
    check_certificate,
    check_value,
    close,
    compare,
    many,
    not_checked,
    same_version,
)
from accelsim.search.stopping import OnProgress


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


def read_tiling(chain: Chain, recorded: Mapping[str, Any]) -> FusedTiling:
    """Fused tiling that `chain_json` wrote; raises ValueError if it is none of the chain."""
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

    Raises ValueError, LookupError, AccelsimError if the tiling or a mapping is none of the chain, or the parts are not
    those of the tiling.
    """
    tiling = read_tiling(chain, recorded)
    levels = fusing_levels(architecture, chain)
    if isinstance(levels, str) or tiling.level not in levels:
        raise ValueError(f"{tiling.level} cannot keep the intermediates of {chain.name}")
    names = [level.name for level in architecture.levels]
    at = levels[tiling.level]
    level = architecture.levels[at]
    if tiling.shortcut and not keeps_shortcut(chain, tiling, level):
        raise ValueError(
            f"{tiling.level} cannot keep what the first layer of {chain.name} reads until it is read again"
        )
    capacity = level.rooms.get("", 0)
    expected = {_run_key(chain, run): run for run in runs(chain, tiling, level)}
    if len(recorded["parts"]) != len(expected):
        raise ValueError(f"{chain.name} has {len(expected)} parts, not {len(recorded['parts'])}")
    parts = []
    for each in recorded["parts"]:
        body = each["result"]
        key = each["layer"], tuple(body["bounds"].values()), tuple(each["fetches"]), tuple(each["finds"])
        run = expected.pop(key, None)
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
        price=Price(float(recorded["price"]["energy"]), float(recorded["price"]["cycles"])),
        certificate=read_certificate(recorded["certificate"]),
        stop=str(recorded["stop"]),
        tilings=int(recorded["tilings"]),
    )


def _run_key(chain: Chain, run: Run) -> tuple[str, tuple[int, ...], tuple[str, ...], tuple[str, ...]]:
    part = run.part
    return chain.layers[part.layer].name, part.bounds, tuple(sorted(part.arriving)), tuple(sorted(part.present))


_SUMS = ("energy_pj", "cycles", "outer_words", "macs")
COPIED = ("accelsim", "fusion.objective", "fusion.chain", "fusion.longest", "fusion.budget", "fusion.stop")
"""Fields that say what was asked and how the search ended: taken from the file."""
OF_THE_SEARCH = (
    "fusion.chains", "fusion.parts_mapped", "fusion.certificate", "fusion.segments.alike", "fusion.segments.unfused",
    "fusion.segments.fused.price", "fusion.segments.fused.certificate", "fusion.segments.fused.stop",
    "fusion.segments.fused.tilings",
)  # fmt: skip
"""What the same search tells again; one of another version, or that was stopped, may take another way."""
Named = tuple[str, list[Check]]


def verify_fusion(
    document: Mapping[str, Any],
    architecture: Architecture,
    workload: Workload,
    *,
    seconds: float | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> list[Named]:
    """Check what a fusion.json says.

    `document`: as `accelsim fuse` writes it. `architecture`, `workload`: what it is of. `seconds`: stop the search that
    derives the optimum after so long; it is then not derived, which is no agreement. `workers`, `on_progress`: as for
    `fuse`. Returns checks of each segment, and of the network; all holds if none disagrees.
    """
    recorded = document["fusion"]
    found: list[Named] = []
    for segment in recorded["segments"]:
        name = f"{' + '.join(segment['layers'])} on {architecture.name}"
        try:
            checks = [*_check_segment(architecture, workload, segment)]
        except (ValueError, AccelsimError) as error:
            checks = [Check("mappings", "valid", str(error), False)]
        found.append((name, checks))
    again = fuse(
        architecture,
        workload,
        objective=recorded["objective"],
        chain=tuple(recorded["chain"] or ()),
        longest=recorded["longest"],
        seconds=seconds,
        workers=workers,
        on_progress=on_progress,
    )
    derived = {tuple(layer.name for layer in each.layers): each.fused for each in again.fused}
    for segment, (_, checks) in zip(recorded["segments"], found, strict=True):
        if segment["fused"] is not None and again.stop == recorded["stop"] == "exhausted":
            checks.append(_check_chain(segment["fused"], derived.get(tuple(segment["layers"]))))
    whole = [
        *_check_network(recorded, workload),
        *_check_optimum(recorded, again),
        *_check_fields(document, again),
        compare("energy table", document["energy_table"], energy_rows(architecture)),
    ]
    return [*found, (f"{workload.name} on {architecture.name}", whole)]


def _check_segment(architecture: Architecture, workload: Workload, recorded: Mapping[str, Any]) -> Iterator[Check]:
    """Evaluate what a segment consists of, and add it up."""
    layers = {layer.name: layer for layer in workload.layers}
    unknown = [name for name in recorded["layers"] if name not in layers]
    if unknown:
        raise ValueError(f"{workload.name} has no layer '{unknown[0]}'")
    own = [layers[name] for name in recorded["layers"]]
    if recorded["fused"] is None:
        body = recorded["mapping"]
        result = evaluate(architecture, own[0], read_mapping_json(body))
        broken = "; ".join(map(str, result.violations))
        yield Check("mapping", "valid", broken or "valid", not broken, "evaluated by the cost model")
        yield compare("all counts and energies", body, result_json(result))
        totals = sum_totals([(1, result)])
    else:
        fused = recorded["fused"]
        tensors = [each["tensor"] for each in fused["intermediates"]]
        for layer, name in zip(own[1:], tensors, strict=True):
            if name not in {tensor.name for tensor in layer.tensors}:
                raise ValueError(f"{layer.name} has no tensor '{name}'")
        chain = make_chain(own, tensors, find_shortcut(workload, recorded["layers"]))
        found = read_chain(architecture, chain, fused)
        parts = many(len(found.parts), "part")
        yield Check("parts that the tiling asks for", parts, parts, True, "each mapping valid in the room that it has")
        yield compare("all counts and energies", fused, chain_json(found))
        totals = found.totals
    yield compare("totals", recorded["totals"], totals_json(totals))


def _check_chain(recorded: Mapping[str, Any], again: ChainResult | None) -> Check:
    """Hold the certificate of a chain against that of the same chain, looked at anew."""
    proof = recorded["certificate"]
    if again is None or asdict(again.price) != recorded["price"]:
        note = "found anew, other segments are best, or as good"
        return Check("optimum of the chain", proof["value"], None, None, note)
    found = again.certificate
    same = proof["proved"] == found.proved and close(proof["value"], found.value) and close(proof["bound"], found.bound)
    return Check("optimum of the chain, searched anew", proof["value"], found.value, same)


def _check_network(recorded: Mapping[str, Any], workload: Workload) -> Iterator[Check]:
    """Count the runs of all layers, and add up the segments."""
    runs = Counter[str]()
    for segment in recorded["segments"]:
        own = segment["repeat"] - sum(each["repeat"] for each in segment["alike"])
        for row in ({"layers": segment["layers"], "repeat": own}, *segment["alike"]):
            runs.update(dict.fromkeys(row["layers"], row["repeat"]))
    requested = recorded["chain"]
    expected = dict.fromkeys(requested, 1) if requested else {layer.name: layer.repeat for layer in workload.layers}
    wrong = sorted(name for name in {*runs, *expected} if runs[name] != expected.get(name, 0))
    text = f"{sum(expected.values()):,} runs"
    yield Check("runs of layers", text, f"different: {', '.join(wrong)}" if wrong else text, not wrong)
    for which in ("totals", "unfused"):
        several = [(each["repeat"], Totals(*(each[which][key] for key in _SUMS))) for each in recorded["segments"]]
        yield compare(f"sum of the segments, {which}", recorded[which], totals_json(sum_totals(several)))


def _check_optimum(recorded: Mapping[str, Any], again: FusionResult) -> Iterator[Check]:
    """Hold the certificate against one that was derived anew."""
    goal, proof = Objective.parse(recorded["objective"]), recorded["certificate"]
    value = goal.value(recorded["totals"]["energy_pj"], recorded["totals"]["cycles"])
    yield check_value("value of the network", proof["value"], value)
    yield from check_certificate(proof, again.certificate)
    if again.stop == "exhausted" and recorded["stop"] == "exhausted":
        yield compare("unfused, mapped anew", recorded["unfused"], totals_json(again.unfused))


def _check_fields(document: Mapping[str, Any], again: FusionResult) -> Iterator[Check]:
    """Compare every field with what the same search writes, or those that tell nothing of its way."""
    recorded = document["fusion"]
    budget = recorded["budget"]
    requested = Provenance("fuse", (), {}, budget["mappings"], budget["seconds"])
    found = fusion_json(again, requested, [])["fusion"]
    if same_version(document) and again.stop == recorded["stop"] == "exhausted" and budget["seconds"] is None:
        yield compare("all fields", recorded, found)
        left: tuple[str, ...] = ()
    else:
        reported = ("architecture", "network", "objective", "edges_inferred", "why_not", "apart")
        yield compare(
            "names and edges", {key: recorded[key] for key in reported}, {key: found[key] for key in reported}
        )
        left = OF_THE_SEARCH
    yield not_checked([*COPIED, *left])
