"""Machines, layers and mappings of ours as Timeloop's files: v0.4, the mapping also as v0.3 has it, ERT and ART.

Each fanout becomes a container below its storage, and each partition of a level a storage of its own. The files are
read back and the mapping is evaluated again: what Timeloop's form cannot say is refused where it changes the figures.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from typing import Any

from accelsim.importers.documents import parse
from accelsim.importers.foreign import Export, Tagged, yaml_text
from accelsim.importers.timeloop_inputs import convert
from accelsim.importers.timeloop_sparse import written_compute, written_densities, written_energies, written_sparsity
from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import LevelMapping, Mapping, products
from accelsim.inputs.sparsity import COMPUTE_ACTIONS, STORAGE_ACTIONS
from accelsim.inputs.units import listed
from accelsim.inputs.workload import ROLES, Einsum, pad
from accelsim.model.evaluate import evaluate

ARCHITECTURE, PROBLEM, MAPPING = "architecture.yaml", "problem.yaml", "mapping.yaml"
ERT, ART, CLASSIC = "ERT.yaml", "ART.yaml", "v0.3/mapping.yaml"
_DIGITS = 8
"""Of a bandwidth that is no short decimal: with more of them counts could pass 64 bit."""
_SAME = 1e-9
"""Relative; what the files come to and what we count add the same products up in another order."""


_RATES = {"shared_bandwidth": "bandwidth", "read_bandwidth": "read_bandwidth", "write_bandwidth": "write_bandwidth"}


@dataclass(frozen=True, slots=True)
class _Store:
    """A storage as Timeloop has it: a level, or a partition of one."""

    name: str
    level: Level
    words: int | None
    tensors: frozenset[str]  # those that may be kept here
    last: bool  # whether the level's loops, fanout, leakage and area are those of this storage

    element: int  # words of an element, which are one word of Timeloop
    two: bool  # whether its axes are two containers: a dimension lies on both, and a directive has one factor for it

    @property
    def containers(self) -> dict[str, str]:
        """Nodes whose meshes are the fanout of the level, and the axes of each."""
        if not self.last or self.level.fanout == 1:
            return {}
        name = self.name if self.network else f"{self.name}_fanout"
        return {name: "x", f"{name}_y": "y"} if self.two else {name: "xy"}

    @property
    def network(self) -> bool:
        """Whether it stores nothing, and is the container of its fanout alone."""
        return self.level.bypass >= set(ROLES) and self.level.fanout > 1


def export_timeloop(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> Export:
    """Write a machine, a layer and its mapping as files of Timeloop.

    These are `architecture.yaml`, `problem.yaml`, `mapping.yaml`, `ERT.yaml`, `ART.yaml` where all areas are known, and
    `v0.3/mapping.yaml`. `accelsim import` reads them to a machine and a mapping of equal energy and cycles. Dimensions
    that the mapping pads have their padded bounds in the problem. Raises AccelsimError if Timeloop has no form for it,
    or would count other energy or cycles.
    """
    padded = pad(einsum, mapping.padding)
    _refuse_forms(architecture, padded, mapping)
    stores = _stores(architecture, padded, mapping)
    directives = list(_directives(stores, padded, mapping))
    shape = yaml_text({"problem": _problem(padded)})
    files = {
        ARCHITECTURE: yaml_text({"architecture": _machine(architecture, stores, padded)}),
        PROBLEM: shape,
        MAPPING: yaml_text({"mapping": directives}),
        ERT: yaml_text({"ERT": {"version": "0.4", "tables": _energies(architecture, stores, padded)}}),
        CLASSIC: yaml_text({"mapping": [_classic(each, stores) for each in directives]}),
    }
    if architecture.area_um2 is not None:
        files[ART] = yaml_text({"ART": {"version": "0.4", "tables": _areas(architecture, stores)}})
    notes = [f"{loop.dim} is padded from {einsum.dims[loop.dim]} to {loop.bound}" for loop in mapping.padded]
    notes += _same_figures(architecture, padded, replace(mapping, padded=()), files)
    if mapping.imperfect:
        why = "Timeloop's own counts are wrong where loops leave remainders"
        notes.append(f"{listed(sorted(mapping.imperfect))}: {why}")
    return Export(files, tuple(notes))


def _refuse_forms(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> None:
    """Refuse what no file of Timeloop says."""
    names = [level.name for level in architecture.levels]
    uneven = any(each.tensors is not None for each in architecture.levels)
    if uneven or [level.level for level in mapping.levels] != names:
        what = "the mapping is uneven: a level keeps tensors at loops of their own, and Timeloop's keep all at one"
        raise AccelsimError(f"{what}; map again with --mapspace even")
    for name in (*names, architecture.compute.name, *einsum.dims):
        if "." in name:
            raise AccelsimError(f"{name}: names in Timeloop's files have no point")


def _stores(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> list[_Store]:
    found = []
    for level, node in zip(architecture.levels, mapping.levels, strict=True):
        element, two = _element_words(level, node, einsum), _on_axes(level, node) is None
        parts: dict[str, int | None] = {"": level.size_words, **(level.partition_words or {})}
        roles = [role for role in parts if role] or [""]
        for role in roles:
            held = frozenset(tensor.name for tensor in einsum.tensors if role in ("", tensor.role))
            name = f"{level.name}_{role}" if role else level.name
            found.append(_Store(name, level, parts[role], held, role == roles[-1], element, two))
    taken = [architecture.compute.name, *(store.name for store in found)]
    taken += [name for store in found for name in store.containers if name != store.name]
    for name in taken:
        if taken.count(name) > 1:
            raise AccelsimError(f"{name}: two nodes of Timeloop's machine would have this name; rename the level")
    return found


def _element_words(level: Level, node: LevelMapping, einsum: Einsum) -> int:
    """Words that an element of each tensor takes at a level."""
    found = {tensor.name: level.element_words(tensor) for tensor in einsum.tensors if tensor.name in node.keep}
    words = set(found.values()) or {1}
    if len(words) > 1 or words != {int(one) for one in words}:
        each = ", ".join(f"{float(one):g} ({name})" for name, one in found.items())
        raise AccelsimError(f"{level.name}: elements take {each} words; Timeloop counts each as one word")
    element = int(words.pop())
    if element % level.block_size and level.block_size % element:
        what = f"an element takes {element} words, and an access moves {level.block_size}"
        raise AccelsimError(f"{level.name}: {what}; Timeloop has no form for it")
    return element


def _machine(architecture: Architecture, stores: Sequence[_Store], einsum: Einsum) -> dict[str, Any]:
    """What stands under `architecture`."""
    common: dict[str, Any] = {"technology": architecture.technology.replace(" ", "")} if architecture.technology else {}
    common |= {"global_cycle_seconds": 1 / architecture.clock_hz} if architecture.clock_hz else {}
    nodes = [Tagged("!Container", {"name": architecture.name, **({"attributes": common} if common else {})})]
    for index, store in enumerate(stores):
        if not store.network:
            nodes.append(Tagged("!Component", _component(store, einsum, first=index == 0)))
        for name, axes in store.containers.items():
            sizes = {axis: getattr(store.level, axis).size for axis in axes}
            mesh = {f"mesh{axis.upper()}": size for axis, size in sizes.items() if size > 1}
            nodes.append(Tagged("!Container", {"name": name, "spatial": mesh}))
    compute = architecture.compute
    kind = "fpmac" if "fp" in compute.component.lower() else "intmac"
    widths = {"multiplier_width": min(store.level.word_bits * store.element for store in stores)}
    zeros = written_compute(compute.sparsity)
    nodes.append(Tagged("!Component", {"name": compute.name, "class": kind, "attributes": widths, **zeros}))
    return {"version": "0.4", "nodes": nodes}


def _component(store: _Store, einsum: Einsum, *, first: bool) -> dict[str, Any]:
    level, bits = store.level, store.level.word_bits * store.element
    block = max(1, level.block_size // store.element)
    attributes: dict[str, Any] = {"datawidth": bits, "block_size": block, "width": bits * block}
    if store.words is not None:
        words = store.words // store.element
        attributes |= {"depth": words // block} if words % block == 0 else {"entries": words}
    if level.multiple_buffering > 1:
        attributes["multiple_buffering"] = level.multiple_buffering
    rates = {key: getattr(level, ours) for key, ours in _RATES.items()}
    attributes |= {key: _not_below(rate / store.element) for key, rate in rates.items() if rate is not None}
    keep = [each.name for each in einsum.tensors if each.role in level.keep and each.name in store.tensors]
    bypass = [each.name for each in einsum.tensors if each.role in level.bypass or each.name not in store.tensors]
    kept = {key: names for key, names in (("keep", keep), ("bypass", bypass)) if names and not first}
    constraints = {"constraints": {"dataspace": kept}} if kept else {}
    zeros, metadata = written_sparsity(level, einsum)
    found = {"name": store.name, "class": level.component, "attributes": attributes | metadata, **constraints}
    return found | ({"sparse_optimizations": zeros} if zeros else {})


def _not_below(rate: Fraction) -> int | float:
    """The smallest number of so many digits that is not below."""
    with localcontext(prec=_DIGITS, rounding=ROUND_CEILING):
        value = Decimal(rate.numerator) / Decimal(rate.denominator)
    return int(value) if value == int(value) else float(value)


def _problem(einsum: Einsum) -> dict[str, Any]:
    """What stands under `problem`; a factor in a projection has a name, as Timeloop asks."""
    factors = {
        (dim, factor): f"{dim}x{factor}"
        for tensor in einsum.tensors for rank in tensor.ranks for dim, factor in rank if factor != 1
    }  # fmt: skip
    spaces = []
    for tensor in einsum.tensors:
        ranks = [[[dim, *([factors[dim, f]] if f != 1 else [])] for dim, f in rank] for rank in tensor.ranks]
        space: dict[str, Any] = {"name": tensor.name, "projection": ranks}
        spaces.append(space | ({"read_write": True} if tensor.output else {}))
    shape: dict[str, Any] = {"name": einsum.name, "dimensions": list(einsum.dims)}
    if factors:
        shape["coefficients"] = [{"name": name, "default": factor} for (_, factor), name in factors.items()]
    instance: dict[str, Any] = {**einsum.dims, **{name: factor for (_, factor), name in factors.items()}}
    densities = written_densities(einsum)
    instance |= {"densities": densities} if densities else {}
    return {"version": "0.4", "shape": {**shape, "data_spaces": spaces}, "instance": instance}


def _directives(stores: Sequence[_Store], einsum: Einsum, mapping: Mapping) -> Iterator[dict[str, Any]]:
    """Directives of a mapping; permutations are innermost first, and the dimensions after `split` lie on the Y axis."""
    nodes = {node.level: node for node in mapping.levels}
    left = products(loop for each in mapping.levels for loop in each.loops)
    for store in stores:
        node = nodes[store.level.name]
        if not store.network:
            keep = [each.name for each in einsum.tensors if each.name in node.keep & store.tensors]
            bypass = [each.name for each in einsum.tensors if each.name not in keep]
            yield {"target": store.name, "type": "dataspace", "keep": keep, "bypass": bypass}
        if not store.last or not store.network or node.temporal:
            loops = node.temporal if store.last else ()
            order = [loop.dim for loop in reversed(loops)]
            order += [dim for dim in einsum.dims if dim not in order]
            bounds = {loop.dim: loop.bound for loop in loops}
            factors = [_factor(dim, bounds.get(dim, 1), left, einsum) for dim in einsum.dims]
            yield {"target": store.name, "type": "temporal", "factors": factors, "permutation": order}
        for name, axes in store.containers.items():
            own = [{loop.dim: loop.bound for loop in getattr(node, axis)} if axis in axes else {} for axis in "xy"]
            x, y = _on_axes(store.level, node) or own
            order = [*x, *(dim for dim in einsum.dims if dim not in x and dim not in y), *y]
            bounds = {**dict.fromkeys(order, 1), **x, **y}
            factors = [_factor(dim, bounds[dim], left, einsum) for dim in order]
            where = {"target": name, "type": "spatial"}
            yield {**where, "factors": factors, "permutation": order, "split": len(order) - len(y)}


def _factor(dim: str, bound: int, left: dict[str, int], einsum: Einsum) -> str:
    """A factor, with the bound of its last pass where that is shorter (Ruby, ISPASS 2022); `left` counts down."""
    if bound == 1:
        return f"{dim}=1"
    left[dim] //= bound
    last = (einsum.dims[dim] - 1) // left[dim] % bound + 1
    return f"{dim}={bound}" + (f",{last}" if last != bound else "")


def _on_axes(level: Level, node: LevelMapping) -> tuple[dict[str, int], dict[str, int]] | None:
    """Bounds on each axis, where a dimension that lies on both goes to one of them; None: there is no room on one."""
    bounds = products((*node.x, *node.y))
    on_y = {loop.dim for loop in node.y}
    both = [loop.dim for loop in node.x if loop.dim in on_y]
    free = [*both, *(dim for dim in bounds if dim not in both)] if both else []
    for count in sorted({len(both), len(free)}):  # what lies on one axis moves only if it must
        for moved in itertools.product((False, True), repeat=count):
            there = (on_y - set(free[:count])) | set(itertools.compress(free, moved))
            x, y = ({d: bound for d, bound in bounds.items() if (d in there) == side} for side in (False, True))
            if math.prod(x.values()) <= level.x.size and math.prod(y.values()) <= level.y.size:
                return x, y
    return None


def _classic(directive: dict[str, Any], stores: Sequence[_Store]) -> dict[str, Any]:
    """A directive as v0.3 has it: texts, and the loops of a container at the node that Timeloop makes of it."""
    containers = {name for store in stores for name in store.containers}
    target, kind = directive["target"], directive["type"]
    where = f"inter_{target}_spatial" if kind == "spatial" or target in containers else target
    found = {"target": where, "type": "bypass" if kind == "dataspace" else kind}
    for key, held in directive.items():
        if key == "factors":
            found[key] = " ".join(held)
        elif key == "permutation":
            found[key] = ("" if all(len(dim) == 1 for dim in held) else ",").join(held)
        elif key not in found:
            found[key] = held
    return found


def _energies(architecture: Architecture, stores: Sequence[_Store], einsum: Einsum) -> list[dict[str, Any]]:
    """Tables of the ERT [pJ]; that of a container is a word over its network, which Timeloop does not read."""
    tables, entries = [], architecture.energy
    for store in stores:
        name = store.level.name
        roles = {each.role for each in einsum.tensors if each.name in store.tensors} - store.level.bypass
        actions: dict[str, float] = {}
        for action in ("read", "write", "update"):
            common = entries.entries.get((name, "*", action))
            found = [entries.entries.get((name, role, action), common) for role in (sorted(roles) or ROLES)]
            every = {entry.energy_pj for entry in found if entry is not None}
            if len(every) > 1:
                energies = listed(f"{each:g}" for each in sorted(every))
                raise AccelsimError(f"{name}: '{action}' costs {energies} pJ by tensor; Timeloop has one energy")
            accesses = max(1, store.element // store.level.block_size)
            actions |= {action: every.pop() * accesses} if every else {}
        actions |= written_energies(entries, name, STORAGE_ACTIONS)
        leak = entries.find(name, "*", "leak")
        if leak is not None:
            actions["leak"] = leak.energy_pj if store.last else 0.0
        if not store.network:
            tables.append(_row(architecture, store.name, actions))
        across = {entries.find(f"{name} network", role, "transfer") for role in ROLES}
        if len(across) > 1 or entries.find(f"{name} network", "Outputs", "return") is not None:
            what = "'transfer' costs other energies by tensor, or for sums that come back"
            raise AccelsimError(f"{name}: {what}; Timeloop has one energy")
        transfer = across.pop()
        if store.containers and transfer is not None:
            tables.append(_row(architecture, list(store.containers)[-1], {"transfer": transfer.energy_pj}))
    compute = architecture.compute.name
    actions = {"compute": architecture.mac_pj(einsum)}
    actions |= written_energies(entries, compute, COMPUTE_ACTIONS)
    return [*tables, _row(architecture, compute, actions)]


def _row(architecture: Architecture, name: str, actions: dict[str, float]) -> dict[str, Any]:
    rows = [{"name": action, "arguments": {}, "energy": energy} for action, energy in actions.items()]
    return {"name": f"{architecture.name}_top_level.{name}[1..1]", "actions": rows}


def _areas(architecture: Architecture, stores: Sequence[_Store]) -> list[dict[str, Any]]:
    stored, known = [store for store in stores if not store.network], architecture.areas
    areas = {store.name: known[store.level.name].area_um2 if store.last else 0.0 for store in stored}
    areas[architecture.compute.name] = architecture.areas[architecture.compute.name].area_um2
    return [{"name": f"{architecture.name}_top_level.{name}[1..1]", "area": area} for name, area in areas.items()]


def _same_figures(architecture: Architecture, einsum: Einsum, mapping: Mapping, files: dict[str, str]) -> list[str]:
    """Notes of what Timeloop counts otherwise without effect here; refused if the files come to other figures."""
    read = convert([parse(text, name) for name, text in files.items() if name != CLASSIC])
    theirs = evaluate(*read.loaded())
    ours = evaluate(architecture, einsum, mapping)
    if not ours.valid:
        raise AccelsimError(f"the mapping is not valid: {ours.violations[0]}")
    unsaid = list(_unsaid(architecture, einsum))
    nodes = zip(architecture.levels, mapping.levels, strict=True)
    both = [level.name for level, node in nodes if not _on_axes(level, node)]
    unsaid += [f"dimension on both axes of a fanout ({name})" for name in both]
    if theirs.cycles != ours.cycles or not math.isclose(theirs.energy_pj, ours.energy_pj, rel_tol=_SAME):
        figures = f"{theirs.energy_pj:,.10g} pJ in {theirs.cycles:,} cycles"
        figures += f" instead of {ours.energy_pj:,.10g} pJ in {ours.cycles:,}"
        why = f"it has no {' and no '.join(unsaid) or 'form for it'}"
        raise AccelsimError(f"Timeloop would count {figures}, because {why}")
    notes = [f"Timeloop has no {what}; it changes nothing here" for what in unsaid]
    wires = sum(network.energy_pj for network in ours.networks)
    if wires:
        notes.append(f"Timeloop does not read the energy of a transfer: its total is {wires:,.10g} pJ less")
    return notes


def _unsaid(architecture: Architecture, einsum: Einsum) -> Iterator[str]:
    """What Timeloop has no form for, and may change counts."""
    output = einsum.output
    for level in architecture.levels:
        if level.element_words(output, partial=True) != level.element_words(output) and output.role not in level.bypass:
            yield f"partial sum of other words than the output ({level.name})"
        if level.systolic is not None:
            yield f"systolic array (below {level.name})"
            continue
        for axis, held in (("x", level.x), ("y", level.y)):
            if held.size > 1 and held.multicast is not True:
                yield f"network without multicast (axis {axis} below {level.name})"
            if held.size > 1 and not held.spatial_reduction:
                yield f"network without spatial reduction (axis {axis} below {level.name})"
        rates = [getattr(level, key) for key in _RATES.values()]
        if any(rate is not None and Fraction(Decimal(repr(_not_below(rate)))) != rate for rate in rates):
            yield f"bandwidth of more than {_DIGITS} digits ({level.name})"
        network = f"{level.name} network"
        if level.fanout == 1 and any(architecture.energy.find(network, role, "transfer") for role in ROLES):
            yield f"transfer to a single child (below {level.name})"
        if level.link_transfers:
            yield f"link transfers that may be left out (below {level.name})"
        if architecture.has_hops(level):
            yield f"energy of a hop (below {level.name})"
        if level.network_bandwidth is not None:
            yield f"bandwidth of a network (below {level.name})"
        if level.drain_reads:
            yield f"read that drains a tile (drain_reads of {level.name})"
        if level.partition_words and any(rate is not None for rate in rates):
            yield f"bandwidth that storages share (the partitions of {level.name})"
    if architecture.compute.cycles_per_mac != 1:
        yield f"MAC of {architecture.compute.cycles_per_mac} cycles"
