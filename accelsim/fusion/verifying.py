"""Check a fusion.json: parts from tilings, every mapping evaluated again, sums, and the optimum searched anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from accelsim.fusion.chain import find_shortcut, make_chain
from accelsim.fusion.network import fuse
from accelsim.fusion.output import chain_json, fusion_json, read_chain, totals_json
from accelsim.fusion.result import ChainResult, FusionResult, Totals, sum_totals
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.machine_tables import energy_rows
from accelsim.inputs.workload import Workload
from accelsim.model.evaluate import evaluate
from accelsim.results import Provenance
from accelsim.results.output import read_mapping_json, result_json
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
from accelsim.search.strategy import OnProgress

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
    asked = recorded["chain"]
    wanted = dict.fromkeys(asked, 1) if asked else {layer.name: layer.repeat for layer in workload.layers}
    wrong = sorted(name for name in {*runs, *wanted} if runs[name] != wanted.get(name, 0))
    text = f"{sum(wanted.values()):,} runs"
    yield Check("runs of layers", text, f"different: {', '.join(wrong)}" if wrong else text, not wrong)
    for which in ("totals", "unfused"):
        several = [(each["repeat"], Totals(*(each[which][key] for key in _SUMS))) for each in recorded["segments"]]
        yield compare(f"sum of the segments, {which}", recorded[which], totals_json(sum_totals(several)))


def _check_optimum(recorded: Mapping[str, Any], again: FusionResult) -> Iterator[Check]:
    """Hold the certificate against one that was derived anew."""
    from accelsim.inputs.objective import Objective

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
    asked = Provenance("fuse", (), {}, budget["mappings"], budget["seconds"])
    found = fusion_json(again, asked, [])["fusion"]
    if same_version(document) and again.stop == recorded["stop"] == "exhausted" and budget["seconds"] is None:
        yield compare("all fields", recorded, found)
        left: tuple[str, ...] = ()
    else:
        told = ("architecture", "network", "objective", "edges_inferred", "why_not", "apart")
        yield compare("names and edges", {key: recorded[key] for key in told}, {key: found[key] for key in told})
        left = OF_THE_SEARCH
    yield not_checked([*COPIED, *left])
