"""Densities, formats, gating and skipping: Sparseloop's specifications as keys of accelsim, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from accelsim.importers.documents import Map, Note, Seq
from accelsim.importers.timeloop_architecture import Figures
from accelsim.importers.timeloop_machine import Part, TimeloopMachine, plain
from accelsim.importers.values import as_number, note_others, plain_decimal, refuse_other, respelt
from accelsim.inputs.architecture import Level
from accelsim.inputs.energies import EnergyTable
from accelsim.inputs.errors import Mark
from accelsim.inputs.sparsity import (
    FORMATS,
    METADATA_ACTIONS,
    ONE_BIT,
    STORAGE_ACTIONS,
    ComputeSparsity,
    RankFormat,
)
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import ROLES, Einsum

_KINDS = {
    "hypergeometric": "uniform",
    "fixed_structured": "fixed_structured",
    "fixed": "fixed_structured",
    "banded": "banded",
}
"""Distributions, by Sparseloop's names."""
_GATED = ("mac_gated", "mult_gated", "compute_gated")
_COMPUTE = {
    "gated_compute": (*_GATED, "mac", "mult", "compute"),
    "skipped_compute": ("mac_skipped", "mult_skipped", "compute_skipped", *_GATED, "mac", "mult", "compute"),
}
"""Actions of an ERT of which the first is charged."""
_SAVINGS = {"gating": "gating", "skipping": "skipping"}
_OF_COMPUTE = {**_SAVINGS, "gate_on_zero_operand": "gating", "skip_on_not_aligned_operands": "skipping"}
_OPTIMIZATIONS = ("name", "representation_format", "compression", "action_optimization", "compute_optimization")
_OF_RANK = ("format", "flattened_rankIDs", "metadata_word_bits", "payload_word_bits")
_SPATIAL = ("skipping_spatial", "spatial_skipping")


def read_densities(written: Map, tensors: Sequence[str], notes: list[Note]) -> dict[str, Any]:
    """Densities of a problem by tensor; one that has no counterpart becomes a note."""
    found: dict[str, Any] = {}
    for name, held in written.items():
        refuse_other(name, tensors, "tensor", "densities", written.where(name))
        held = held if isinstance(held, Map) else Map(written.where(name), held={"density": held})
        kind = str(held.get("distribution", "fixed_structured")).replace("-", "_").lower()
        known = _KINDS.get(kind)
        if known == "banded":
            found[name] = {"distribution": known, "band_width": int(held.get("band_width", 0) or 0)}
        elif known is None or held.get("density") is None:
            why = "is not known" if known is None else "has no density"
            why = "a file of measured densities is not among the files" if "file" in " ".join(held) else why
            notes.append(Note(written.where(name), f"density of {name}, {kind}", f"{why}; no word of it is zero here"))
        elif not 0 < (share := as_number(held["density"], held.where("density"))) <= 1:
            what = f"density: expected a share above 0, at most 1, got {quoted(str(held['density']))}"
            raise held.refuse("density", what)
        elif share != 1:
            found[name] = {"distribution": known, "density": plain_decimal(share)}
    return found


def read_sparsity(
    machine: TimeloopMachine, given: Sequence[Map | Seq], roles: Mapping[str, str], figures: Figures, notes: list[Note]
) -> dict[str, dict[str, Any]]:
    """Keys of each part that say what it does about zeros, with the energies of this.

    `given` is what stands under `sparse_optimizations`, beside what parts have of their own; `roles` those of tensors.
    """
    own = {part.name: part.table.get("sparse_optimizations") for part in machine.parts}
    asked = {name: [written] if isinstance(written, Map) else [] for name, written in own.items()}
    for body in given:
        for target in body.rows("targets") if isinstance(body, Map) else body.maps():
            part = machine.part(str(target.get("name")))
            if machine.is_elsewhere(target.get("name")):
                continue
            if part is None:
                names = listed(one.name for one in machine.parts)
                what = f"sparse_optimizations: no part is named {quoted(plain(target.get('name')))}; there are {names}"
                raise target.refuse("name", what)
            asked[part.name].append(target)
    known = roles or {role: role for role in ROLES}
    found = {}
    for part in machine.parts:
        keys: dict[str, Any] = {}
        for table in asked[part.name]:
            for key, held in _keys(table, part, known, notes).items():
                keys[key] = [*keys[key], *held] if isinstance(held, list) and key in keys else held
        if keys or "decompression_count" in figures.energies.get(part.name, {}):
            found[part.name] = keys | _storage(part, keys, figures, compute=part is machine.parts[-1])
    return found


def _keys(table: Map, part: Part, roles: Mapping[str, str], notes: list[Note]) -> dict[str, Any]:
    """Keys that one table of optimizations comes to."""
    found: dict[str, Any] = {}
    table = respelt(table, _OPTIMIZATIONS)
    note_others(table, _OPTIMIZATIONS, {}, notes)
    for key, held in table.items():
        if key in ("representation_format", "compression") and isinstance(held, Map):
            found["formats"] = _formats(held, part, roles, notes)
        elif key == "action_optimization":
            for one in table.rows(key):
                kind = str(one.get("type", "")).replace("-", "_").lower()
                kind = "spatial_skipping" if kind in _SPATIAL else kind
                if kind == "position_skipping":
                    found.setdefault(kind, []).append(_role(str(one.get("target")), roles, part, one.where("target")))
                    continue
                if kind not in (*_SAVINGS, "spatial_skipping"):
                    raise one.refuse("type", f"{part.name}: {quoted(kind)} is no optimization of accesses")
                options = one.rows("options") or [one]
                choices = [_choice(option, part, roles) for option in options]
                found.setdefault(kind, []).append(choices[0] if len(choices) == 1 else {"options": choices})
        elif key == "compute_optimization":
            for one in table.rows(key):
                kind = str(one.get("type", "")).replace("-", "_").lower()
                if kind not in _OF_COMPUTE:
                    raise one.refuse("type", f"{part.name}: {quoted(kind)} is no optimization of computing")
                found[_OF_COMPUTE[kind]] = True
    return found


def _choice(option: Map, part: Part, roles: Mapping[str, str]) -> dict[str, Any]:
    """A target and its leaders."""
    option = respelt(option, ("target", "condition_on"))
    names, target = option.get("condition_on"), _role(option.get("target"), roles, part, option.mark)
    leaders = {_role(name, roles, part, option.mark) for name in (names if isinstance(names, list) else [names])}
    return {"target": target, "condition_on": sorted(leaders)}


def _role(name: Any, roles: Mapping[str, str], part: Part, mark: Mark) -> str:
    """Role of a tensor that a part names."""
    refuse_other(name, roles, "tensor", part.name, mark)
    return roles[name]


def _formats(written: Map, part: Part, roles: Mapping[str, str], notes: list[Note]) -> dict[str, Any]:
    found = {}
    for space in respelt(written, ("data_spaces",)).rows("data_spaces"):
        role = _role(space.get("name"), roles, part, space.where("name"))
        order = next((str(held) for key, held in space.items() if "application" in key), "outer-to-inner")
        ranks = [_rank(rank, part, notes) for rank in space.rows("ranks")]
        found[role] = {"ranks": ranks, "order": order.replace("-", "_")}
    return {role: found[role] for role in ROLES if role in found}


def _rank(written: Map, part: Part, notes: list[Note]) -> dict[str, Any]:
    keys = respelt(written, _OF_RANK)
    note_others(keys, _OF_RANK, {}, notes)
    kind = str(keys.get("format", "")).upper()
    refuse_other(kind, FORMATS, "format of a rank", part.name, written.where("format"))
    found: dict[str, Any] = {"format": kind}
    lists = keys.get("flattened_rankIDs")
    if lists is not None:
        flat = [dim for each in lists for dim in (each if isinstance(each, list) else [each])]
        found["flattened"] = sorted(set(map(str, flat)))
    for theirs, ours in (("metadata_word_bits", "metadata_bits"), ("payload_word_bits", "payload_bits")):
        if keys.get(theirs) is not None:
            found[ours] = int(keys[theirs])
    return {"metadata_bits": _word_bits(part), **found} if kind in ONE_BIT else found


def _word_bits(part: Part) -> int:
    """Bits of a word of metadata that says nothing of its own: none without a width (Timeloop, buffer.cpp)."""
    return int(part.number("metadata_datawidth", 0) or part.number("metadata_word_bits", 0) or 0)


def _storage(part: Part, keys: Mapping[str, Any], figures: Figures, *, compute: bool) -> dict[str, Any]:
    """Storage of metadata, and energies of what only zeros bring about; an ERT without one takes nothing for it."""
    energies = figures.energies.get(part.name, {})
    if compute:
        charged = {key: next((energies[one] for one in of if one in energies), 0.0) for key, of in _COMPUTE.items()}
        return {"energy": {key: f"{Decimal(repr(pj)):f} pJ" for key, pj in charged.items()}}
    found: dict[str, Any] = {}
    needed = list[str]()
    if "formats" in keys:
        width, depth = part.number("metadata_storage_width", 0), part.number("metadata_storage_depth", 0)
        word = _word_bits(part)
        found["metadata"] = {"width": f"{int(width or word or part.word_bits)} bit", "word": f"{word} bit"}
        found["metadata"] |= {"depth": int(depth)} if depth else {}
        needed += METADATA_ACTIONS[:2]
        energies = energies if width else {key: pj for key, pj in energies.items() if "metadata" not in key}
        if not (width or figures.energies):
            free = dict.fromkeys(METADATA_ACTIONS[:2], "0 pJ")
            found["energy"] = {**free, "source": "the file gives no storage of metadata"}
    if not figures.energies:
        return found
    if "idle" in energies:
        energies = {"gated_read": energies["idle"], "gated_write": energies["idle"], **energies}
    charged = dict.fromkeys(needed, 0.0) | {key: energies[key] for key in STORAGE_ACTIONS if key in energies}
    for action in ("compression", "decompression"):
        charged |= {action: energies[f"{action}_count"]} if f"{action}_count" in energies else {}
    return found | {"energy": {key: f"{Decimal(repr(pj)):f} pJ" for key, pj in charged.items()}}


def written_densities(einsum: Einsum) -> dict[str, Any]:
    """Densities of a layer as Sparseloop's; n of m are taken as an even share, and a mask as a uniform density."""
    from accelsim.inputs.density import Banded, FixedStructured, NOfM, Uniform

    found: dict[str, Any] = {}
    for tensor in einsum.tensors:
        density = tensor.density
        if density is None:
            continue
        if isinstance(density, Banded):
            found[tensor.name] = {"distribution": "banded", "band_width": density.band_width}
            continue
        full = tensor.box(einsum.dims)
        share = Decimal(repr(density.occupancy(full, full).mean / math.prod(full)))
        if isinstance(density, Uniform | FixedStructured):
            share = Decimal(density.density.numerator) / Decimal(density.density.denominator)
        even = isinstance(density, FixedStructured | NOfM)
        kind = "fixed_structured" if even else "hypergeometric"
        found[tensor.name] = {"distribution": kind, "density": float(share.normalize())}
    return found


def written_sparsity(level: Level, einsum: Einsum) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a level does about zeros as `sparse_optimizations`, and the attributes of its metadata storage."""
    own = level.sparsity
    if own is None:
        return {}, {}
    names: dict[str, list[str]] = {}
    for tensor in einsum.tensors:
        names.setdefault(tensor.role, []).append(tensor.name)
    spaces = []
    for form, name in ((form, name) for role, form in own.formats.items() for name in names.get(role, [])):
        order = "inner_to_outer" if form.inner_first else "outer_to_inner"
        ranks = [_written_rank(rank) for rank in form.ranks]
        spaces.append({"name": name, "ranks": ranks, "rank_application_order": order})
    actions: list[dict[str, Any]] = []
    for saving in own.savings:
        of = ((name, leaders) for target, leaders in saving.choices for name in names.get(target, []))
        others = ((name, [one for leader in leaders for one in names.get(leader, [])]) for name, leaders in of)
        options = [{"target": name, "condition_on": leaders} for name, leaders in others]
        actions.append({"type": saving.kind, "options": options})
    skipped = (name for role in sorted(own.positions) for name in names.get(role, []))
    actions += [{"type": "position_skipping", "target": name, "condition_on": []} for name in skipped]
    found: dict[str, Any] = {"representation_format": {"data_spaces": spaces}} if spaces else {}
    found |= {"action_optimization": actions} if actions else {}
    attributes = {"metadata_storage_width": own.width, "metadata_datawidth": own.word_bits} if own.width else {}
    return found, attributes | ({"metadata_storage_depth": own.depth} if own.depth else {})


def _written_rank(rank: RankFormat) -> dict[str, Any]:
    found: dict[str, Any] = {"format": rank.format}
    found |= {"flattened_rankIDs": [sorted(rank.flattened)]} if rank.flattened is not None else {}
    bits = 1 if rank.metadata_bits is None and rank.format in ONE_BIT else rank.metadata_bits
    found |= {"metadata_word_bits": bits} if bits is not None else {}
    return found | ({"payload_word_bits": rank.payload_bits} if rank.payload_bits is not None else {})


def written_compute(sparsity: ComputeSparsity | None) -> dict[str, Any]:
    """What the compute units do with zeros, as `sparse_optimizations`."""
    if sparsity is None:
        return {}
    kinds = [kind for kind in ("gating", "skipping") if getattr(sparsity, kind)]
    return {"sparse_optimizations": {"compute_optimization": [{"type": kind} for kind in kinds]}}


_ERT_NAMES = {"decompression": "decompression_count", "compression": "compression_count"}
_ERT_NAMES |= {"gated_compute": "compute_gated", "skipped_compute": "compute_skipped"}


def written_energies(entries: EnergyTable, name: str, actions: Sequence[str]) -> dict[str, float]:
    """Energies [pJ] of what only zeros bring about, under the names that an ERT has for them."""
    found = {action: entries.entries.get((name, "*", action)) for action in actions}
    return {_ERT_NAMES.get(action, action): entry.energy_pj for action, entry in found.items() if entry is not None}
