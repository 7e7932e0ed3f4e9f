"""ZigZag's own mappings of a network on each machine that it ships, by accelsim; and these mappings back in ZigZag.

Run `python benchmarks/peers/zigzag_networks.py`: ZigZag, which `setup.sh` installs, searches each layer of ResNet-18
for the least energy and writes its mapping (`*_complete.json`), which accelsim evaluates as it is. Then `accelsim
export` writes it for ZigZag again, without padding of inputs and points that strides skip, with the bounds that
accelsim counts, and accesses of a word; and ZigZag evaluates that. Where the first ratio is off, and the second one is
not, these causes explain it. `--folder` keeps what ZigZag writes, and does not search again where it is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from compare import VENVS, ask

from accelsim.importers.foreign import read_foreign
from accelsim.importers.zigzag_export import export_zigzag
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.energies import EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.evaluate import evaluate

NEAR = 0.02
MAPPINGS = {"meta_prototype": "meta_prototype_like", "aimc": "default_imc", "dimc": "default_imc"}
MAPPINGS |= dict.fromkeys(("eyeriss_like", "generic_array_cacti"), "default")
"""Mapping file of a machine, where it has another name."""
Json = dict[str, Any]


def search(machine: Path, folder: Path) -> list[Path]:
    """What ZigZag writes of each layer, searched where it is not there."""
    inputs = machine.parents[1]
    if not [*folder.glob("*_complete.json")]:
        mapping = inputs / "mapping" / f"{MAPPINGS.get(machine.stem, machine.stem)}.yaml"
        files = {"accelerator": machine, "mapping": mapping, "workload": inputs / "workload" / "resnet18.onnx"}
        request: Json = {name: str(path) for name, path in files.items()} | {"dump_folder": str(folder)}
        (answer,) = ask("zigzag", [request | {"in_memory_compute": machine.stem in ("aimc", "dimc")}])
        if "error" in answer:
            raise AccelsimError(f"ZigZag: {answer['error']}")
    return sorted(folder.glob("*_complete.json"))


def compact(einsum: Einsum) -> Einsum:
    """The layer without the points of its inputs that a stride skips, and without windows of one point."""

    def dense(tensor: Tensor) -> Tensor:
        ranks = []
        for rank in tensor.ranks:
            wide = tuple((dim, step) for dim, step in rank if einsum.dims[dim] > 1)
            ranks.append(wide if len(wide) > 1 else tuple((dim, 1) for dim, _ in wide or rank[:1]))
        return replace(tensor, ranks=tuple(ranks))

    return replace(einsum, tensors=tuple(map(dense, einsum.tensors)))


def causes(einsum: Einsum, mapping: Mapping) -> Iterator[str]:
    """What accelsim counts otherwise than ZigZag in a layer and its mapping."""
    if mapping.padded:
        yield f"padded points ({', '.join(map(str, mapping.padded))})"
    wide = [[(dim, step) for dim, step in rank if einsum.dims[dim] > 1] for t in einsum.tensors for rank in t.ranks]
    if any(len(rank) == 1 and rank[0][1] > 1 for rank in wide):
        yield "points that a stride skips"
    if any(len(rank) > 1 for rank in wide):
        yield "windows (padding of inputs, halos)"


def back(architecture: Architecture, einsum: Einsum, mapping: Mapping, folder: Path) -> tuple[Json, float]:
    """Files of ZigZag for a mapping, as it is asked to evaluate them, and our energy [pJ] of it."""
    blocks = {level.name: level.block_size for level in architecture.levels}
    levels = tuple(replace(level, size_words=None, block_size=1) for level in architecture.levels)
    entries = {
        key: replace(entry, energy_pj=entry.energy_pj / blocks.get(key[0], 1))
        for key, entry in architecture.energy.entries.items()
    }
    roomy, layer = replace(architecture, levels=levels, energy=EnergyTable(entries), sized={}), compact(einsum)
    made = export_zigzag(roomy, layer, mapping)
    folder.mkdir(parents=True)
    for name, text in made.files.items():
        (folder / name).write_text(text)
    names = {"accelerator": "hardware", "mapping": "mapping", "workload": "workload"}
    request: Json = {key: str(folder / f"{name}.yaml") for key, name in names.items()}
    return request | {"dump_folder": str(folder / "out")}, evaluate(roomy, layer, mapping).energy_pj


def rows(machine: Path, folder: Path, scratch: Path) -> Iterator[list[str]]:
    """A line for each different layer of a machine."""
    found: list[tuple[str, Json, Any, Mapping, Einsum]] = []
    requests, ours, seen, modelled, stays = [], [], set[str](), False, list[list[str]]()
    for path in search(machine, folder):
        written = json.loads(path.read_text())
        if (same := json.dumps(written["outputs"])) in seen:
            continue
        seen.add(same)
        foreign = read_foreign([machine, path])
        name = path.stem.removesuffix("_complete")
        if foreign.mapping is None:
            yield [machine.stem, name, *"-----", "; ".join(note.why for note in foreign.notes[-1:])]
            continue
        architecture, einsum, mapping = foreign.loaded()
        result = evaluate(architecture, einsum, mapping)
        found.append((name, written["outputs"], result, mapping, einsum))
        modelled = any(note.key == "auto_cost_extraction" for note in foreign.notes)
        stays.append([f"between layers {note.why}" for note in foreign.notes if note.key == "temporal_mapping"])
        try:
            request, energy = back(architecture, einsum, mapping, scratch / machine.stem / name)
        except AccelsimError as error:
            request, energy = {"refused": str(error)}, 0.0
        requests.append(request)
        ours.append(energy)
    answers = iter(ask("zigzag", [request for request in requests if "refused" not in request]))
    for (name, outputs, result, mapping, einsum), request, energy, between in zip(
        found, requests, ours, stays, strict=True
    ):
        theirs, latency = outputs["energy"]["energy_total"], outputs["latency"]
        again = {"error": request["refused"]} if "refused" in request else next(answers)
        first, last = (
            latency["computation"],
            sum(latency[part] for part in ("computation", "data_onloading", "data_offloading")),
        )
        said = [*causes(einsum, mapping)] if abs(result.energy_pj / theirs - 1) > NEAR else []
        said += between
        said += ["costs that CACTI finds"] if modelled and abs(result.energy_pj / theirs - 1) > NEAR else []
        said += ["accesses that are not full"] if result.energy_pj < (1 - NEAR) * theirs else []
        if result.cycles < (1 - NEAR) * first:
            said.append("cycles: waits where a memory has no room for two tiles")
        elif result.cycles > (1 + NEAR) * last:
            said.append(
                f"cycles: {'the words above' if said else 'first loads, which ZigZag lets overlap'} share a port"
            )
        said += [again["error"]] if "error" in again else []
        said += [] if result.valid else [f"{result.violations[0].text} with these points"]
        exported = f"{energy / again['value']:.4f}" if "value" in again else "-"
        figures = [f"{theirs / 1e6:.3f}", f"{result.energy_pj / theirs:.4f}", exported]
        spans = [f"{first:.0f}..{last:.0f}", f"{result.cycles}"]
        yield [machine.stem, name, *figures, *spans, "; ".join(said)]


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description="ZigZag's mappings by accelsim, and back.")
    parser.add_argument("--only", default="", metavar="MACHINE", help="only the machine of this name")
    parser.add_argument("--folder", type=Path, help="keep what ZigZag writes here")
    options = parser.parse_args()
    machines = sorted((VENVS / "zigzag").glob("lib/python*/site-packages/zigzag/inputs/hardware/*.yaml"))
    heads = "machine,layer,ZigZag uJ,ours / it,exported,its cycles,ours,causes"
    sys.stdout.write("  ".join(heads.split(",")) + "\n")
    with tempfile.TemporaryDirectory() as scratch:
        for machine in machines:
            if options.only in ("", machine.stem):
                kept = (options.folder or Path(scratch) / "written") / machine.stem
                try:
                    for row in rows(machine, kept, Path(scratch) / "exported"):
                        sys.stdout.write("  ".join(row) + "\n")
                except AccelsimError as error:
                    sys.stdout.write(f"{machine.stem}  {error}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
