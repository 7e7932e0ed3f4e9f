"""AccelForge's architectures, workloads and mappings.

Its nodes stand outermost first; what is `spatial` at a node counts its instances below the node before it, so it is the
fanout of the memory above. Which tensors a memory keeps is written as sets (`~Intermediates`, `input | weight`), whose
names a workload's `renames` give to the tensors of each Einsum. It counts in seconds, joules and bits; the clock here
is the rate of the compute units. A layer stands alone: no tensor of it is an intermediate.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

from accelsim.importers import values
from accelsim.importers.accelforge_arrays import (
    SCALES,
    AccelForgeMachine,
    actions_of,
    add_toll,
    array_clock,
    array_names,
    charge_passing,
    close_tolls,
    outside,
    settle_actions,
    start_full,
    store_slices,
    stored_bits,
    stores,
)
from accelsim.importers.accelforge_models import FUNCTIONS, charge_models, plain_value
from accelsim.importers.accelforge_paths import OtherUnit, nodes_of, of_one_unit, paths_of
from accelsim.importers.accelforge_workload import (
    BITS,
    ROLE_NAMES,
    Layer,
    SpatialAxis,
    constraints_of,
    mapping_of,
    read_workload,
)
from accelsim.importers.documents import Document, Map, Note, parse, refuse
from accelsim.importers.engines import Engine, system_of
from accelsim.importers.foreign import Foreign, Tagged, read_documents, read_foreign, yaml_text
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import AccelsimError, InputError, Problem
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.mapping import load_mapping
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate

_UNLIMITED_BITS = 2**50
_UNLIMITED = 1000
"""Times the other rate of a memory that stand for one without limit."""
_SUM, _MAX = "sum(a.n_calls / a.throughput for a in actions)", "max(a.n_calls / a.throughput for a in actions)"
_CALLS = re.compile(r"(sum|max)\(a\.n_calls for a in actions\)(.*)")
_NODE_KEYS = {"name", "size", "actions", "tensors", "spatial", "component_class", "leak_power", "total_latency", "area"}
_NODE_KEYS |= {"extra_attributes_for_component_model", "enabled"}
_SPEC_KEYS = {"arch", "mapping", "workload", "variables", "config", "renames", "mapper", "model"}
_SPATIAL_KEYS = {"name", "fanout", "reuse", "may_reuse", "loop_bounds", "min_usage", "usage_scale", "power_gateable"}
_INSTANCES = {"leak_power_scale", "area_scale", "n_parallel_instances"}
_FORMULAS = {"size", "area", "leak_power", "energy", "throughput", "latency", "bits_per_action", "fanout"}
_LEFT = {"force_memory_hierarchy_order": "the order of the levels is that of the file"}
_LEFT |= {"sparse_optimizations": "is not read: all data are dense here"}
_LEFT |= {"bits_per_value_scale": "values take the same room and energy here as elsewhere"}
"""Why keys that nothing here reads are left out, where that is known."""


def convert(documents: Sequence[Document]) -> Foreign:
    """Turn files of AccelForge into documents of our kinds.

    Units on several paths that serve the same layers become a system. Raises InputError where a file is none of
    AccelForge's, or a machine has no form of ours, such as parts with energies of models that accelsim has not.
    """
    notes: list[Note] = []
    bodies = [document.body for document in documents if isinstance(document.body, Map)]
    workload, layers, machine, architecture, others = _read(copy.deepcopy(bodies), notes)
    made = [(machine, architecture)]
    for number in range(1, machine.engines if machine else 1):  # reading rewrites the nodes
        made.append(_read(copy.deepcopy(bodies), notes, number)[2:4])
    above = [(unit.layers, values.plain_name(unit.above.value("name", str))) for unit in others]
    asking = [constraints_of(of.axes if of else [], layers, document, notes, above) for of, document in made]
    for body in bodies:
        values.note_others(body, body.keys() if "nodes" in body else _SPEC_KEYS, _LEFT, notes)
    asked = _one([Map(body.mark, held={"mapping": body}) if "nodes" in body else body for body in bodies], "mapping")
    parts = [part for _, one in made if one for part in (*one["levels"], one["compute"])]
    modelled = {"accelsim's component models": dict.fromkeys(part["name"] for part in parts if "energy" not in part)}
    for part, source in itertools.chain(*(of.sources.items() for of, _ in made if of)):
        modelled.setdefault(source.partition(",")[0], {})[part] = None
    each = [f"{models} for {listed(of)}; " for models, of in modelled.items() if of]
    energies = f"{''.join(each)}the actions of {'all other' if each else 'the'} components." if parts else ""
    if machine is None or len(made) == 1:
        axes = machine.axes if machine else []
        mapping = None if asked is None else mapping_of(asked, architecture, axes, layers, notes)
        return Foreign(architecture, workload, mapping, asking[0], energies, tuple(notes))
    engines = list[Engine]()
    for (of, document), constraints in zip(made, asking, strict=True):
        places = {values.plain_name(str(node.get("name"))): node.mark for node in (of.nodes if of else ())}
        engines.append(Engine([*places][-1], document or {}, constraints, places))
    tree = next(body for body in bodies if "arch" in body)
    system = system_of(engines, tree, asked, notes)
    return Foreign(workload=workload, energies=energies, notes=tuple(dict.fromkeys(notes)), system=system)


def _read(
    bodies: Sequence[Map], notes: list[Note], number: int = 0
) -> tuple[dict[str, Any] | None, list[Layer], AccelForgeMachine | None, dict[str, Any] | None, list[OtherUnit]]:
    """Workload and layers of the array, machine of that number, its architecture, and other units, as far as given."""
    workload, layers = None, list[Layer]()
    of_layers = _without_own_workload(bodies, notes)
    found, arch = _one(of_layers, "workload"), _one(bodies, "arch")
    if found is not None:
        workload, layers = read_workload(found, _one(of_layers, "renames"), notes)
    if arch is None:
        return workload, layers, None, None, []
    paths = paths_of(arch, notes)  # refused before anything of it is worked out
    workload, layers, others = of_one_unit(paths, workload, layers, notes)
    every = nodes_of(paths, layers, notes, [unit.node for unit in others])
    nodes = every[number]
    machine = AccelForgeMachine(_variables([arch, *bodies], _widths(layers), nodes), notes, nodes, engines=len(every))
    machine.kept |= _tensor_sets(layers, machine.kept.keys())
    given = [body.inner("variables") for body in (arch, *bodies)]
    try:
        architecture = _architecture(arch, machine)
        units = [_vector_unit(unit, machine) for unit in others]
        architecture |= {"vector_units": units} if units else {}
    except InputError as error:
        found_at = {(problem.mark, problem.what): problem for problem in (*error.problems, *_unnamed(machine, given))}
        raise InputError([*found_at.values()]) from None
    sized = [node for node in nodes if not layers and "bits_per_value" in str(node.get("size"))]
    what = f"of {{}} is worked out for values of {BITS} bit; import it with a workload that has others"
    notes += [node.note("size", what.format(node.get("name"))) for node in sized]
    return workload, layers, machine, architecture, others


def _one(bodies: Sequence[Map], key: str) -> Map | None:
    """What stands under a key of one of the files; a second one is refused."""
    found = [body for body in bodies if key in body]
    if len(found) > 1:
        raise found[1].refuse(key, f"a second '{key}'; the first stands in {found[0].mark.file}")
    return found[0].value(key, Map) if found else None


def _variables(
    bodies: Iterable[Map], names: Mapping[str, values.Value], nodes: Sequence[Map]
) -> dict[str, values.Value]:
    """Values of `variables` beside other names, those of the last file that has one; unknown ones have no value."""
    found: dict[str, values.Value] = {"inf": math.inf, **FUNCTIONS, **names}
    written = dict(pair for body in bodies for pair in body.inner("variables").items())
    known = -1
    while known < len(found):  # a variable may rest on those that stand further down
        known = len(found)
        found |= array_names(nodes, found)
        for key, text in written.items():
            with suppress(values.FormulaError):
                worked_out = plain_value(text, found, written.keys() - found.keys())
                found |= {} if worked_out is None or isinstance(worked_out, frozenset) else {key: worked_out}
    return found


def _unnamed(machine: AccelForgeMachine, variables: Sequence[Map]) -> list[Problem]:
    """Names without a value in formulas of nodes, their actions and axes, and of the variables that these name."""
    tables = (part for node in machine.nodes for part in (node, *node.rows("actions"), *node.rows("spatial")))
    asked = [(table, key) for table in tables for key in sorted(_FORMULAS & table.keys())]
    found = list[Problem]()
    for table, key in asked:
        names: dict[str, values.Value] = {**machine.kept, **machine.names}
        with suppress(values.FormulaError):
            while True:
                try:
                    values.work_out(str(table[key]), names)
                    break
                except values.UndefinedNameError as error:
                    names[error.name] = 1
                    written = [(of, error.name) for of in variables if error.name in of]
                    asked += [one for one in written if one not in asked]
                    if not written:
                        found.append(Problem(table.where(key), str(error), "give it one under `variables`"))
    return found


def _without_own_workload(bodies: Sequence[Map], notes: list[Note]) -> list[Map]:
    """Files without the workload that stands beside an architecture, if there is another one."""
    own = [body for body in bodies if {"arch", "workload"} <= body.keys()]
    if not own or sum("workload" in body for body in bodies) < 2:
        return list(bodies)
    notes += [body.note("workload", "that of the other file is taken") for body in own]
    return [body for body in bodies if body not in own]


def _widths(layers: Sequence[Layer]) -> dict[str, values.Value]:
    """Bits of a value of each role, as formulas name them."""
    names: dict[str, values.Value] = {}
    for role in ROLE_NAMES:
        widths = [layer.bits[name] for layer in layers for name in layer.sets.get(role, ())]
        names |= {role: True, f"{role}.bits_per_value": max(widths, default=BITS)}
    return names


def _tensor_sets(layers: Sequence[Layer], taken: Set[str]) -> dict[str, frozenset[str]]:
    """The role of each tensor that has the same one in all layers, but for names that are taken."""
    found: dict[str, set[str]] = {}
    for layer, short in itertools.product(layers, ROLE_NAMES):
        for name in layer.sets.get(short, ()):
            found.setdefault(name, set()).add(short)
    return {name: frozenset(roles) for name, roles in found.items() if len(roles) == 1 and name not in taken}


# architecture


def _architecture(arch: Map, machine: AccelForgeMachine) -> dict[str, Any]:
    """Architecture of a machine, which takes up its levels and the axes of its fanouts."""
    values.note_others(arch, {"nodes", "variables", "extra_attributes_for_all_component_models"}, _LEFT, machine.notes)
    nodes, levels, kept = machine.nodes, machine.levels, machine.kept
    tags = [node.tag for node in nodes]
    arrays = "!Toll" in tags
    if (tags[:1] != ["!Memory"] and not arrays) or tags[-1:] != ["!Compute"] or tags.count("!Compute") > 1:
        raise arch.refuse("nodes", "expected a !Memory first, and one !Compute as the last node")
    if arrays:
        charge_models(arch, machine)
    for node in nodes:
        settle_actions(node, machine, arrays=arrays)
    clock_hz, slices = array_clock(nodes, machine)
    clock_hz = clock_hz or _rates(nodes[-1], ("compute",), machine)[0]["compute"]  # a cycle is an action of a unit
    if not 0 < clock_hz < math.inf:
        why = "the compute units have no rate; a clock of 1 GHz is taken"
        machine.notes.append(Note(nodes[-1].mark, "throughput", why))
        clock_hz = 1e9
    machine.word = math.gcd(8, *{values.whole(machine.bits(role, arch.mark), arch.mark) for role in ROLE_NAMES})
    if arrays:
        levels += outside(nodes[0], machine)
    machine.clock_hz = clock_hz
    network: dict[str, Any] = {}  # what the next fanout has
    for node in nodes:
        read = {"bits_per_action", "energy_scale", "throughput_scale"}
        read |= SCALES | _INSTANCES if node.tag in ("!Memory", "!Toll") else set()
        read |= {"direction"} if arrays else set()
        read |= {"topology", "bits_per_value"} if node.tag == "!Network" else set()
        values.note_others(node, _NODE_KEYS | read, _LEFT, machine.notes)
        name = values.plain_name(node.value("name", str))
        if node.tag == "!Network":
            network = _network(node, machine)
            levels += [values.bare_level(name, levels[-1]["word"])] if levels and "fanout" in levels[-1] else []
            if "spatial" not in node:
                continue
        above = max(0, len(levels) - 1)
        machine.side_by_side *= _fanout(node, name, machine)
        for fanout in (level["fanout"] for level in levels[above:] if "fanout" in level):
            fanout |= network
        network = network if node.tag == "!Container" else {}
        if node.tag == "!Toll":
            add_toll(node, name, machine)
        if node.tag == "!Memory":
            level = _level(node, name, machine)
            kept["Above"] |= kept[name]
            if levels and not stores(node, level, machine):  # it passes words on, each once
                charge_passing(node, levels[-1], ("read", "write"), machine)
                why = "passes words on; those of windows that slide over instances are sent to each, not once"
                machine.notes.append(Note(node.mark, name, why))
                level = values.bare_level(name, level["word"])
            levels.append(level)
    close_tolls(machine)
    _let_idle_leak(levels, arch, machine.notes)
    if levels[0]["name"] == "Outside":
        start_full(levels[1:])
    compute = _compute(nodes[-1], machine)
    compute |= {"cycles_per_mac": slices} if slices > 1 else {}
    document: dict[str, Any] = {"name": values.file_stem(arch.mark), "clock": f"{clock_hz:.12g} Hz"}
    if any("energy" not in part for part in (*levels, compute)):
        shared = arch.inner("extra_attributes_for_all_component_models")
        of_all = machine.names.get("tech_node")
        node_nm = machine.number(shared, "tech_node", of_all if isinstance(of_all, float) else 45e-9) * 1e9
        document |= {"technology": f"{node_nm:g} nm", "energy_table": "components"}
        if "tech_node" not in shared and of_all is None:
            machine.notes.append(Note(arch.mark, "tech_node", "no technology node is given; 45 nm is taken"))
        values.note_others(shared, shared.keys() if arrays else {"tech_node"}, {}, machine.notes)
        for level in levels:
            if "fanout" in level and "energy" not in level["fanout"]:
                level["fanout"]["energy"] = {"transfer": "0 pJ", "source": "AccelForge charges no wires here"}
    return {**document, "levels": levels, "compute": compute}


def _compute(node: Map, machine: AccelForgeMachine) -> dict[str, Any]:
    attributes = node.inner("extra_attributes_for_component_model")
    bits = min(max(values.whole(attributes.get("multiplier_width", 8), node.mark), 4), 32)
    kind: dict[str, Any] = {"class": "intmac", "attributes": {"bits": bits}}
    if "fp" in str(node.get("component_class")).lower():
        kind = {"class": "fpmac", "attributes": {"format": "fp32"}}
    energies = _energies(node, ("compute",), 1, machine)
    if energies.get("leak", "0 pJ") != "0 pJ":
        machine.notes.append(node.note("leak_power", "compute units have no leakage in accelsim"))
    energies.pop("leak", None)
    name = values.plain_name(node.value("name", str))
    return {"name": name, **kind, **({"energy": energies} if energies else {}), **machine.area(node)}


def _vector_unit(unit: OtherUnit, machine: AccelForgeMachine) -> dict[str, Any]:
    """A unit beside the array; its rate in operations a cycle."""
    node = unit.node
    rates, _ = _rates(node, ("compute",), machine)
    fanout = math.prod(values.whole(axis.get("fanout", 1), axis.mark) for axis in node.rows("spatial"))
    each = min(rates["compute"] / machine.clock_hz, _UNLIMITED)
    lanes = max(1, round(each)) * fanout
    if each != round(each):
        machine.notes.append(node.note("throughput", f"{each:g} operations a cycle are taken for {lanes // fanout}"))
    energy = _energies(node, ("compute",), 1, machine).get("compute", "0 pJ")
    name, above = (values.plain_name(of.value("name", str)) for of in (node, unit.above))
    return {"name": name, "below": above, "lanes": lanes, "operations": {unit.operation: 1}, "energy": energy}


def _rates(node: Map, actions: Sequence[str], machine: AccelForgeMachine) -> tuple[dict[str, float], bool]:
    """Bits that actions of each kind move in a second (actions of a compute unit), and whether they share the time."""
    given, names = actions_of(node), machine.names
    each_s = dict.fromkeys(actions, 0.0)
    for name, action in given.items():
        alone_s = machine.number(action, "latency", 0)
        each_s[name] = 1 / machine.number(action, "throughput", 1 / alone_s if alone_s else math.inf)
    latency = str(node.get("total_latency", _SUM))
    calls = _CALLS.fullmatch(latency)
    alone = {name: each_s.get(name, 0.0) for name in actions}
    shared = latency != _MAX
    if calls:
        alone = dict.fromkeys(actions, values.as_number(f"1{calls[2]}", node.where("total_latency"), names))
        shared = calls[1] == "sum"
    elif latency not in (_SUM, _MAX):
        try:
            alone = {name: _total_s(latency, each_s, {name}, names) for name in actions}
            shared = _total_s(latency, each_s, set(actions), names) > max(alone.values())
        except values.FormulaError as error:
            machine.notes.append(node.note("total_latency", f"{error}; the sum of its actions' times is taken"))
    unsaid = any({"throughput", "latency"}.isdisjoint(given.get(name, {})) for name in actions)
    if unsaid and not (calls or all(alone.values())) and node.get("component_class", "Dummy") != "Dummy":
        why = f"the rate of {node.get('name')} is that of a component model; it is unlimited here"
        machine.notes.append(Note(node.mark, "throughput", why))
    bits = {name: _bits(given.get(name, Map(node.mark)), machine) for name in actions}
    return {name: bits[name] / alone[name] if alone[name] else math.inf for name in actions}, shared


def _total_s(formula: str, each_s: Mapping[str, float], called: Set[str], names: Mapping[str, values.Value]) -> float:
    """Seconds of a component whose actions of some kinds are called once each."""
    counts = {f"{name}_actions": int(name in called) for name in each_s}
    times = {f"{name}_latency": each * (name in called) for name, each in each_s.items()}
    found = values.work_out(formula, {**names, **counts, **times})
    if not isinstance(found, int | float) or not 0 <= found < math.inf:
        raise values.FormulaError(f"{quoted(formula)} is no time")
    return float(found)


def _bits(action: Map, machine: AccelForgeMachine) -> int:
    return values.whole(machine.number(action, "bits_per_action", 1), action.mark)


def _energies(node: Map, actions: Sequence[str], bits: int, machine: AccelForgeMachine) -> dict[str, str]:
    """Energies of actions that move `bits`; none where a component model has to give them."""
    found: dict[str, str] = {}
    given = actions_of(node)
    for name in actions:
        action = given.get(name, Map(node.mark))
        if "energy" in action:
            joule = values.figure(action, "energy", machine.names) / _bits(action, machine)
            found[name] = values.pj_text(joule * bits * 1e12)
        elif node.get("component_class") == "Dummy":
            found[name] = "0 pJ"
        else:
            return {}
    leak = values.pj_text(machine.leak_pj(node))
    return {**found, "leak": leak, "source": machine.source(str(node.get("name")))}


def _level(node: Map, name: str, machine: AccelForgeMachine) -> dict[str, Any]:
    """Level of a memory, without its fanout; the machine takes up what it keeps, under its name."""
    word, notes, first = machine.word, machine.notes, not machine.levels
    level: dict[str, Any] = {"name": name, "word": f"{word} bit"}
    written, where = node.get("size", math.inf), node.where("size")
    with_unit = re.fullmatch(r"[0-9.]+\s*[A-Za-z]+", str(written)) is not None
    size = values.size_bits(written, where) if with_unit else values.as_number(written, where, machine.names)
    if size > _UNLIMITED_BITS and not first:
        notes.append(node.note("size", f"{name} is unlimited; {_UNLIMITED_BITS} bit stand for it"))
    if size <= _UNLIMITED_BITS or not first:
        level["size"] = f"{max(word, int(min(size, _UNLIMITED_BITS)))} bit"
    tensors = node.inner("tensors")
    values.note_others(tensors, ("keep", "may_keep", "no_refetch_from_above", "no_resend_to_below"), _LEFT, notes)
    keep = machine.members(tensors, "keep")
    may = machine.members(tensors, "may_keep", "Nothing" if "keep" in tensors else "All")
    machine.kept[name] = keep
    if not first:
        level["keep"] = [role for short, role in ROLE_NAMES.items() if short in keep]
        level["bypass"] = [role for short, role in ROLE_NAMES.items() if short not in keep | may]
        level["drain_reads"] = True
    elif (keep | may) != frozenset(ROLE_NAMES):
        raise refuse(tensors.mark, f"{name} does not keep all tensors; accelsim's outermost level does")
    rates, shared = _rates(node, ("read", "write"), machine)
    slower = min(rates.values())
    finite = [rate for rate in rates.values() if math.isfinite(rate)]
    if shared and len(finite) == len(rates):
        level["bandwidth"] = f"{slower:.12g} bit/s"
        if len(set(rates.values())) > 1:
            why = f"reads and writes of {name} share a port, at the rate of the slower"
            notes.append(Note(node.mark, "throughput", why))
    elif finite:
        unlimited = max(finite) * _UNLIMITED
        level |= {f"{key}_bandwidth": f"{min(rate, unlimited):.12g} bit/s" for key, rate in rates.items()}
    energies = _energies(node, ("read", "write"), word, machine)
    if energies:
        level["energy"] = energies
    else:  # its accesses are as wide as they are here
        widths = [_bits(action, machine) for action in node.rows("actions")]
        level["block_size"] = max([1, *(width // word for width in widths)])
        extra = node.inner("extra_attributes_for_component_model")
        values.note_others(extra, (), {"n_banks": "energies are those of one bank"}, notes)
    level |= machine.area(node)
    if any(not SCALES.isdisjoint(part) for part in (node, *node.rows("actions"))):
        store_slices(node, level, machine)
    component = str(node.get("component_class", "")).upper()
    kind = re.search(r"LPDDR4?|GDDR\d|DDR\d|HBM\d|HMC", component)
    if first or kind or "DRAM" in component:
        return {**level, "class": "DRAM", "attributes": {"type": kind[0] if kind else "LPDDR4"}}
    return {**level, "class": values.storage_class(size)}


# fanouts


def _fanout(node: Map, name: str, machine: AccelForgeMachine) -> float:
    """Add what is spatial at a node to the fanout of the level above it; a third axis takes a level of its own.

    Returns how many instances below the node hold the slices of one word together.
    """
    levels, scales = machine.levels, list[float]()
    for spatial in node.rows("spatial"):
        if not levels:
            raise refuse(spatial.mark, f"{name} has several instances, and no memory stands above it")
        place = len([axis for axis in machine.axes if axis.level == levels[-1]["name"]])
        if place == 2:
            of_axis = values.plain_name(spatial.value("name", str))
            levels.append(values.bare_level(f"{name}-{of_axis}", levels[-1]["word"]))
        above, axis = levels[-1], "xy"[place % 2]
        fanout = above.setdefault("fanout", {})
        where = spatial.where("fanout")
        size = values.whole(values.as_number(spatial.get("fanout"), where, machine.names), where)
        scale = machine.number(spatial, "usage_scale", 1)  # instances of the axis that one word takes
        if scale < 1:
            raise spatial.refuse("usage_scale", f"expected a number from 1 on, got {scale:g}")
        scales.append(scale)
        whole, size = size, max(1, int(size // scale))
        scales[-1] = whole / size
        gateable = str(spatial.get("power_gateable", False)).lower()
        if gateable not in ("true", "false"):
            raise spatial.refuse("power_gateable", f"expected True or False, got {quoted(gateable)}")
        made: dict[str, Any] = {"size": size, "power_gateable": gateable == "true"}
        values.note_others(spatial, _SPATIAL_KEYS, _LEFT, machine.notes)
        reused = re.split(r"[\s|]+", str(spatial.get("may_reuse", "All")))
        if reused == ["Nothing"] or set(reused) <= set(ROLE_NAMES):
            made["multicast"] = [role for name, role in ROLE_NAMES.items() if name in reused]
            made["spatial_reduction"] = "output" in reused
        elif reused != ["All"]:
            machine.notes.append(spatial.note("may_reuse", "all tensors are multicast and reduced"))
        fanout[axis] = made
        usage = machine.number(spatial, "min_usage", 0)
        if not 0 <= usage <= 1:
            raise spatial.refuse("min_usage", f"expected a number from 0 to 1, got {usage:g}")
        least = math.ceil(usage * size)
        machine.axes.append(SpatialAxis(spatial, name, above["name"], axis, size, least))
    return math.prod(scales)


def _let_idle_leak(levels: Sequence[dict[str, Any]], arch: Map, notes: list[Note]) -> None:
    """Say of each level whether its idle instances leak: unless each axis outside it is `power_gateable`."""
    gates = set[bool]()
    for level in levels:
        leaks = level.get("energy", {}).get("leak") != "0 pJ"
        if leaks and False in gates:
            level["power_gateable"] = False
            if True in gates:
                why = f"idle instances of {level['name']} leak along all axes"
                notes.append(Note(arch.mark, "power_gateable", why))
        for axis in level.get("fanout", {}).values():
            if isinstance(axis, dict) and "power_gateable" in axis:
                gate = axis.pop("power_gateable")
                gates |= {gate} if axis["size"] > 1 else set()


def _network(node: Map, machine: AccelForgeMachine) -> dict[str, Any]:
    """Energy and rate of the network that a fanout is: those of its links, or of a switch between all children."""
    actions = actions_of(node)
    hop = actions.get("hop", actions.get("hops", Map(node.mark)))
    if "energy" not in hop:
        why = "its hops cost nothing here: write their energy, `actions: [{name: hop, energy: 1e-12}]`, in J"
        machine.notes.append(Note(node.mark, str(node.get("name")), why))
    bits = machine.number(hop, "bits_per_action", 1)
    joule = values.figure(hop, "energy", machine.names) if "energy" in hop else 0.0
    stored = {role: stored_bits(node, short, machine) for short, role in ROLE_NAMES.items()}
    each = {role: values.pj_text(joule / bits * of_role * 1e12) for role, of_role in stored.items()}
    energy: dict[str, Any] = {"transfer": "0 pJ", "hop": each, "source": "AccelForge"}
    if node.get("topology") == "all_to_all":
        energy = {"transfer": each, "source": "AccelForge"}
        why = "each child is one hop away; to AccelForge, one of them is where the words come from"
        machine.notes.append(node.note("topology", why))
    rate = machine.number(hop, "throughput", math.inf)
    if machine.number(hop, "latency", 0) or "total_latency" in node:
        why = "is left out: words of a route follow one another at the rate of the network"
        machine.notes.append(Note(node.mark, f"latency of {node.get('name')}", why))
    if not 0 < rate < math.inf:
        return {"energy": energy}
    why = "is that of all words below an instance together; AccelForge's is that of the busiest link"
    machine.notes.append(Note(node.mark, f"throughput of {node.get('name')}", why))
    return {"energy": energy, "bandwidth": f"{rate * bits:.12g} bit/s"}


def export_accelforge(paths: Sequence[str], mapping: str, variables: Mapping[str, str]) -> str:
    """Mapping of accelsim as one of AccelForge, for its own files of a machine and of one Einsum.

    Raises AccelsimError if there is no such architecture or workload, or AccelForge has no form for the mapping.
    """
    made = read_foreign(paths, "accelforge", variables)
    if made.architecture is None or made.workload is None:
        raise AccelsimError("expected AccelForge's own files of an architecture and a workload, and then the mapping")
    ours = load_architecture({"architecture": made.architecture})
    nest = load_mapping(mapping, ours, load_workload({"workload": made.workload}).layers[0])
    bodies = [document.body for document in read_documents(paths, variables) if isinstance(document.body, Map)]
    _, layers, machine, *_ = _read(bodies, [])
    if machine is None or len(layers) != 1:
        raise AccelsimError("a mapping of AccelForge needs its own architecture and its workload of one Einsum")
    if nest.imperfect or nest.padded:
        raise AccelsimError("AccelForge has no form for loops with remainders or padded bounds here")

    for early in (True, False):
        text = yaml_text({"mapping": {"nodes": _nodes(nest, layers[0], machine, early=early)}})
        again = convert([*read_documents(paths, variables), parse(text, "mapping.yaml")])
        if not again.lacks():
            ours, layer, theirs = again.loaded()
            each = [evaluate(ours, layer, one) for one in (nest, theirs)]
            if len({(one.energy_pj, one.cycles) for one in each}) == 1:
                return text
    raise AccelsimError("AccelForge has no form for this mapping: what it reads is another one")


def _nodes(nest: LoopNest, layer: Layer, machine: AccelForgeMachine, *, early: bool) -> list[Tagged]:
    """Nodes of a mapping, outermost first.

    AccelForge brings a tile anew in each step of all loops outside its node. So it stands `early`: outside the loops in
    time next to it that leave the tile in place, before which those in space come.
    """
    written = {values.plain_name(node.value("name", str)): node.value("name", str) for node in machine.nodes}
    left, found, before = dict(layer.dims), list[Tagged](), False
    for node, inside in itertools.zip_longest(nest.levels, nest.levels[1:]):
        if not node.keep and node.temporal and not before:
            raise AccelsimError(f"AccelForge has no place for loops of {node.level}, which keeps nothing")
        component = written[node.level]
        for name in (each for each in layer.tensors if each in node.keep):
            place = at = len(found)
            while early and at and _stays(found[at - 1], component, name, layer):
                at -= 1
                place = at if found[at].tag == "!Temporal" else place
            if place and found[place - 1].tag == "!Storage" and found[place - 1]["component"] == component:
                found[place - 1]["tensors"].append(name)
            else:
                found.insert(place, Tagged("!Storage", {"tensors": [name], "component": component}))
        temporal, spread = [("", loop) for loop in node.temporal], [("x", loop) for loop in node.x]
        spread += [("y", loop) for loop in node.y]
        last = {loop.dim for loop in node.temporal[-1:]}
        stay = early and any(last - layer.tensors[name] for name in (inside.keep if inside else ()))
        for side, loop in [*spread, *temporal] if stay else [*temporal, *spread]:
            left[loop.dim] //= loop.bound
            of = [axis for axis in machine.axes if (axis.level, axis.axis) == (node.level, side)]
            if side and len(of) != 1:
                raise AccelsimError(f"{loop} of {node.level} on {side} stands for several of AccelForge's fanouts")
            loops: dict[str, Any] = {"rank_variable": loop.dim, "tile_shape": left[loop.dim]}
            more = {"name": str(of[0].table.get("name")), "component": of[0].node} if side else {}
            if not side and found[-1].tag == "!Temporal" and found[-1]["rank_variable"] == loop.dim:
                found.pop()  # which ends at a node that now stands further out
            found.append(Tagged("!Spatial" if side else "!Temporal", {**loops, **more}))
        before = bool(spread)
    unit = str(machine.nodes[-1].get("name"))
    return [*found, Tagged("!Compute", {"einsum": layer.called, "component": unit})]


def _stays(node: Tagged, component: str, tensor: str, layer: Layer) -> bool:
    """Whether a tile of a tensor in a component is the same outside a node."""
    if node.tag == "!Temporal":
        return node["rank_variable"] not in layer.tensors[tensor]
    return node.tag == "!Storage" and node["component"] == component and tensor not in node["tensors"]
