"""Systems of several cores that share a memory: what each layer of a network costs on each, and who runs it.

A core is a machine or a GPU, and says which operations it can do. Each layer is mapped on each core that can run
it, by the exact mapper or by the model of GPUs, from the shared memory and back. `designs.assign` then chooses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.designs.assign import Assignment, CoreCosts, least_energy, least_latency, most_throughput
from accelsim.designs.checking import find_file
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import BYTES, Gpu, load_gpu
from accelsim.gpu.kernel import best_kernels
from accelsim.gpu.network import gemms_of, product_of
from accelsim.inputs import fields, forms
from accelsim.inputs.architecture import Architecture, load_architecture, read_architecture
from accelsim.inputs.constraints_reader import load_constraints, read_constraints
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError, InputError, NoValidMappingError
from accelsim.inputs.fields import Fields, Key, Keys, keys_form, node_of
from accelsim.inputs.source import ListNode, MapNode, Node, Problems
from accelsim.inputs.units import RATES, QuantityError, Rate, listed, parse_energy, quantity_pattern
from accelsim.inputs.workload import OPERATIONS, Einsum, Workload, sliced
from accelsim.model.limits import LevelPort, least_bytes
from accelsim.results.cache import MapOptions, ResultCache, Searched, content_key, map_with_cache, search_once
from accelsim.search.result import SearchedSpace, SearchResult
from accelsim.search.stopping import Budget

_TOLERANCE = 1e-6
"""Relative, of the solver for throughput (`mip_feasibility_tolerance` of HiGHS)."""
OBJECTIVES = ("energy", "latency", "throughput")


@dataclass(frozen=True, slots=True)
class Core:
    """One core of a system: its machine and, of a GPU, the `number_format` of its products.

    `operations`: what it can do, and how many operations of its units a point takes. `constraints`: what mappings on a
    machine must look like, of a file, or what stands in that of the system.
    """

    name: str
    machine: Architecture | Gpu
    number_format: str = ""
    operations: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(OPERATIONS, 1))
    constraints: Path | Node | None = None


@dataclass(frozen=True, slots=True)
class System:
    """Cores beside a shared memory.

    `bytes_per_s` of the memory, None if unlimited; `transfer_pj_per_bit` and `transfer_bits_per_s` (None: no time) of
    what goes from one core to another, besides what the cores count for their own accesses.
    """

    name: str
    cores: tuple[Core, ...]
    bytes_per_s: float | None = None
    transfer_pj_per_bit: float = 0.0
    transfer_bits_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class LayerCost:
    """What one run of a layer costs on a core, and by how much the least may be lower, relative to it.

    `least_bytes`: what any mapping moves through the shared memory at least, where `memory_bytes` is that of this one.
    `gap` is of the mappings `space` that were searched, `even_gap` of the even ones with perfect factors among them.
    """

    energy_pj: float
    seconds: float
    memory_bytes: float
    least_bytes: float
    gap: float = 0.0
    even_gap: float = 0.0
    space: SearchedSpace | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """A network on a system: the costs of each layer on each core (None: it cannot), and who runs what.

    `why_not` says why a core cannot run a layer. `gap`: by how much the best possible may be lower, relative to it;
    `even_gap`: the best with even mappings with perfect factors.
    """

    system: System
    workload: Workload
    objective: str
    costs: tuple[tuple[LayerCost | None, ...], ...]
    why_not: Mapping[tuple[str, str], str]
    assignment: Assignment
    gap: float
    even_gap: float
    transfer_bits: float

    @property
    def proved(self) -> bool:
        """Whether no assignment, with any mappings, is better."""
        return self.gap == 0.0

    @property
    def spaces(self) -> list[SearchedSpace]:
        """The mappings that were searched for layers on machines."""
        return [cost.space for row in self.costs for cost in row if cost is not None and cost.space is not None]

    def runs(self, layer: int) -> list[tuple[str, int, LayerCost]]:
        """Cores that run a layer, how often, and what a run costs there."""
        cores = zip(self.system.cores, self.assignment.runs[layer].tolist(), self.costs[layer], strict=True)
        return [(core.name, many, cost) for core, many, cost in cores if many and cost is not None]

    @property
    def energy_pj(self) -> float:
        """Energy of one run of the network, and of what crosses between cores."""
        energy = sum(many * cost.energy_pj for at in range(len(self.costs)) for _, many, cost in self.runs(at))
        return energy + self.transfer_bits * self.system.transfer_pj_per_bit

    def busy_s(self) -> dict[str, float]:
        """Time for which each core works on one run of the network [s]."""
        found: dict[str, float] = dict.fromkeys((core.name for core in self.system.cores), 0)
        for at in range(len(self.costs)):
            for name, many, cost in self.runs(at):
                found[name] += many * cost.seconds
        return found


def _of_a_bit(text: str) -> float | None:
    try:
        energy = parse_energy(text)
    except QuantityError:
        return None
    return float(energy.pj) if energy.per_bit else None


_PER_BIT = forms.text(quantity_pattern(["pJ/bit", "fJ/bit", "nJ/bit"]))
_pj_per_bit = fields.scalar(_PER_BIT, _of_a_bit, "an energy of a bit", "such as '0.5 pJ/bit'")
_GIVEN = node_of(forms.either(fields.text.form, {"type": "object"}))
_CORE: Keys = {
    "name": Key(fields.name, "its name, different from all others"),
    "arch": Key(_GIVEN, "architecture: name, path relative to this file, or mapping", "none"),
    "set": Key(fields.mapping_of(fields.text), "parameters of the architecture", "none"),
    "constraints": Key(_GIVEN, "constraints: name, path relative to this file, or mapping", "none"),
    "gpu": Key(fields.text, "GPU: name or path", "none"),
    "dtype": Key(fields.one_of(tuple(BYTES), "a number format"), "number format of the GEMMs of a GPU", "int8"),
    "operations": Key(
        fields.mapping_of(fields.positive_int),
        "supported operations, with the compute-unit operations per point",
        "1 each; GPU: multiply_add",
    ),
}
_TRANSFER: Keys = {
    "energy": Key(_pj_per_bit, "energy per bit of an inter-core transfer", "0 pJ/bit", "pJ/bit"),
    "bandwidth": Key(fields.rate, "bandwidth of inter-core transfers", "unlimited", RATES),
}
_TOP: Keys = {
    "name": Key(fields.name, "its name"),
    "bandwidth": Key(fields.rate, "bandwidth of the shared memory", "unlimited", "GB/s"),
    "transfer": Key(node_of(keys_form(_TRANSFER)), "cost of inter-core transfers", "none"),
    "cores": Key(fields.items_of(keys_form(_CORE), "cores", least=1), "cores"),
}
SYSTEM_FORM = keys_form(_TOP)
"""What may stand under `system`, as JSON Schema."""


def load_system(path: str | PathLike[str], overrides: Mapping[str, str] | None = None) -> System:
    """Read a system of cores.

    Raises
    ------
    InputError
        With every mistake in the file and its place.
    """
    problems = Problems()
    document = fields.open_source(path, "system", overrides, problems)
    return problems.result(read_system(document.body, Path(document.path), problems) if document else None)


def read_system(body: Node, path: Path, problems: Problems) -> System | None:
    """Read what stands under `system`, or return None with every mistake reported."""
    before = len(problems)
    top = Fields(body, problems, _TOP)
    name, shared = top.value("name", ""), _per_second(top, "bandwidth")
    transfer = top.inner("transfer", _TRANSFER)
    pj, across = float(transfer.value("energy", 0.0)), _per_second(transfer, "bandwidth")
    node: ListNode | None = top.value("cores", None)
    lines: dict[str, int] = {}
    cores = [_core(Fields(item, problems, _CORE), lines, path) for item in node.items] if node else []
    if len(problems) > before or not top.readable:
        return None
    return System(name, tuple(filter(None, cores)), None if shared is None else shared / 8, pj, across)


def _per_second(owner: Fields, key: str) -> float | None:
    """A rate in bits a second."""
    rate: Rate | None = owner.value(key, None)
    if rate is None:
        return None
    if rate.unit != "bit" or rate.time != "s":
        owner.wrong(key, "must be in bytes or bits a second", "write it like '204.8 GB/s'")
        return None
    return float(Fraction(rate.amount))


def _core(core: Fields, lines: dict[str, int], path: Path) -> Core | None:
    problems, before = core.problems, len(core.problems)
    name, arch, gpu = core.once(lines, "cores"), core.get("arch"), core.value("gpu", "")
    if bool(arch) == bool(gpu):
        problems.add(core.node, "a core is one of a machine and a GPU", "write `arch: FILE` or `gpu: NAME`")
        return None
    usual = dict.fromkeys(OPERATIONS if arch else OPERATIONS[:1], 1)
    operations: dict[str, int] = core.value("operations", usual)
    for word in sorted(operations.keys() - set(OPERATIONS)):
        core.wrong("operations", f"'{word}' is no operation", f"operations: {listed(OPERATIONS)}")
    for key in ("set", "constraints"):
        if key in core and gpu:
            core.wrong(key, "is for a machine, not for a GPU", f"leave `{key}` out")
    if "dtype" in core and arch:
        core.wrong("dtype", "a machine takes words as wide as the layers have them", "leave it out")
    if len(problems) > before:
        return None
    try:
        if gpu:
            beside = path.parent / gpu
            return Core(name, load_gpu(beside if beside.is_file() else gpu), core.value("dtype", "int8"), operations)
        machine = _machine(core, path, problems)
        if machine is None:
            return None
        asked = _asked(core, path, problems)
    except InputError as error:
        problems.found.extend(error.problems)
        return None
    except AccelsimError as error:
        core.wrong("gpu" if gpu else "arch", str(error))
        return None
    if machine.clock_hz is None:
        core.wrong("arch", f"{machine.name} has no clock, so that its cycles are no seconds")
        return None
    if len(problems) > before:
        return None
    return Core(name, machine, "", operations, asked)


def _asked(core: Fields, path: Path, problems: Problems) -> Path | Node | None:
    """Constraints of a core, of a file or written there."""
    node = core.get("constraints")
    if isinstance(node, MapNode):
        read_constraints(node, problems)
        return node
    given = fields.text(node, problems) if node is not None else None
    found = find_file(given, "constraints", node, path, problems) if given else None
    return found.path if found else None


def _machine(core: Fields, path: Path, problems: Problems) -> Architecture | None:
    """The machine of a core, of a file or written there."""
    node = core.entries["arch"]
    if isinstance(node, MapNode):
        if "set" in core:
            core.wrong("set", "is for a machine of a file", "write the values where they stand")
        return read_architecture(node, path, problems)
    given = fields.text(node, problems)
    found = find_file(given, "arch", node, path, problems) if given else None
    return None if found is None else load_architecture(found.path, core.value("set", {}))


def map_on_system(
    system: System,
    workload: Workload,
    objective: str = "energy",
    *,
    options: MapOptions | None = None,
    budget: Budget | None = None,
    cache: ResultCache | None = None,
    workers: int | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Assigned:
    """Map each layer on each core that can run it, and assign layers to cores; see `accelsim.map_system`.

    Layers are mapped for energy, or for cycles; `options` have the rest. A layer that no edge leads to follows the one
    before. For throughput the cores are at work on different runs. Raises NoValidMappingError if no core can run some
    layer, KeyboardInterrupt if the user ends a search.
    """
    if objective not in OBJECTIVES:
        raise AccelsimError(f"objective '{objective}' is none of a system; write {listed(OBJECTIVES)}")
    walks = budget is None or budget.seconds is None  # else each core would take seconds for each layer
    asked = replace(options or MapOptions(), objective="energy" if objective == "energy" else "cycles", walks=walks)
    search = partial(map_with_cache, cache=cache, budget=budget, workers=workers)
    searched: Searched = {}
    rows: list[tuple[LayerCost | None, ...]] = []
    why: dict[tuple[str, str], str] = {}
    for number, einsum in enumerate(workload.layers, 1):
        row: list[LayerCost | None] = []
        for core in system.cores:
            if on_progress is not None:
                on_progress(f"{einsum.name} on {core.name} ({number}/{len(workload.layers)})")
            found = _cost(core, einsum, asked, searched, search)
            if isinstance(found, str):
                why[einsum.name, core.name] = found
            row.append(None if isinstance(found, str) else found)
        if not any(row):
            reasons = "; ".join(f"{core.name}: {why[einsum.name, core.name]}" for core in system.cores)
            raise NoValidMappingError(f"no core of {system.name} runs {einsum.name} ({einsum.operation}). {reasons}")
        rows.append(tuple(row))
    costs = _costs(system, workload, rows)
    solve = {"energy": least_energy, "latency": least_latency, "throughput": most_throughput}[objective]
    assignment = solve(costs)
    transfer = costs.transfer_bits([int(row.argmax()) for row in assignment.runs])
    gaps = []
    for which in ("gap", "even_gap"):
        lower = [tuple(cost and _at_least(cost, getattr(cost, which)) for cost in row) for row in rows]
        bound = assignment.bound if lower == rows else solve(_costs(system, workload, lower)).bound
        gap = max(0.0, assignment.value / bound - 1.0) if bound > 0 else 0.0
        gaps.append(gap if gap > _TOLERANCE else 0.0)
    return Assigned(system, workload, objective, tuple(rows), why, assignment, gaps[0], gaps[1], transfer)


def _at_least(cost: LayerCost, gap: float) -> LayerCost:
    """What no mapping falls below, of which the best is lower by a gap at most."""
    by = 1 + gap
    return replace(cost, energy_pj=cost.energy_pj / by, seconds=cost.seconds / by, memory_bytes=cost.least_bytes)


def _costs(system: System, workload: Workload, rows: Sequence[Sequence[LayerCost | None]]) -> CoreCosts:
    layers, bandwidth = workload.layers, system.bytes_per_s
    repeats = np.array([layer.repeat for layer in layers], np.int64)

    def table(of: Callable[[LayerCost], float]) -> Any:
        return np.array([[math.inf if cost is None else of(cost) for cost in row] for row in rows]) * repeats[:, None]

    place, edges = {layer.name: number for number, layer in enumerate(layers)}, []
    for edge in workload.edges:
        layer, producer = layers[place[edge.consumer]], layers[place[edge.producer]]
        tensor = layer.tensor(edge.tensor)
        several = [other for other in workload.edges if (other.consumer, other.tensor) == (edge.consumer, edge.tensor)]
        made, most = producer.output.words(producer.dims), tensor.words(layer.dims)
        runs = producer.repeat // layer.repeat or 1  # that a run of the consumer puts together, if it can
        words = most if len(several) < 2 else made * runs if made * runs <= most else made
        edges.append((place[edge.producer], place[edge.consumer], float(words * tensor.bits * layer.repeat)))
    fed = {consumer for _, consumer, _ in edges}
    for at, layer in enumerate(layers[:-1]):  # a layer that does not say what feeds it follows the one before
        if at + 1 not in fed:
            edges.append((at, at + 1, float(layer.output.words(layer.dims) * layer.output.bits * layer.repeat)))
    return CoreCosts(
        table(lambda cost: cost.energy_pj),
        table(lambda cost: cost.seconds),
        table(lambda cost: cost.memory_bytes / bandwidth if bandwidth else 0.0),
        repeats,
        tuple(edges),
        system.transfer_pj_per_bit,
        1 / system.transfer_bits_per_s if system.transfer_bits_per_s else 0.0,
    )


def _cost(
    core: Core, einsum: Einsum, options: MapOptions, searched: Searched, solve: Callable[..., SearchResult]
) -> LayerCost | str:
    """What a run of a layer costs on a core, or why it cannot run it; equal ones are searched once."""
    many = core.operations.get(einsum.operation)
    if many is None:
        return f"it does {listed(core.operations)}"
    if isinstance(core.machine, Gpu):
        return _on_gpu(core, core.machine, einsum)
    machine, constraints = _doing(core.machine, many), None
    einsum = sliced(einsum, machine.slices)
    try:
        if isinstance(core.constraints, Path):
            constraints = load_constraints(core.constraints, machine, einsum)
        elif core.constraints is not None:
            problems = Problems()
            constraints = problems.result(read_constraints(core.constraints, problems, machine, einsum))
    except InputError as error:
        return f"its constraints do not suit the layer: {error.problems[0].what}"
    key = content_key(machine, einsum, options, constraints)
    solve = partial(solve, machine, einsum, options, constraints=constraints)
    try:
        search = search_once(searched, key, machine, einsum, solve)
    except NoValidMappingError as error:
        return str(error)
    if search.stop == "interrupted":
        raise KeyboardInterrupt
    best, proof = search.best, search.proof
    even = next(iter(search.parts), proof)
    assert proof is not None  # the exact search proves something always
    assert even is not None
    assert machine.clock_hz is not None  # as `_core` has seen to
    moved = best.offchip_words * machine.levels[0].word_bits / 8
    seconds = best.cycles / machine.clock_hz
    least = least_bytes(machine, einsum, LevelPort(machine.levels[0].name, "", 0.0))
    even_gap = replace(even, value=proof.value, bound=min(even.bound, proof.value)).gap
    return LayerCost(best.energy_pj, seconds, moved, least, proof.gap, even_gap, proof.space)


def _doing(machine: Architecture, many: int) -> Architecture:
    """A machine of which each point takes so many operations of its units."""
    if many == 1:
        return machine
    compute = machine.compute
    table = dict(machine.energy.entries)
    for key in [key for key in table if key[::2] == (compute.name, "compute")]:
        table[key] = EnergyEntry(table[key].energy_pj * many, f"{many} x: {table[key].source}")
    slower = replace(compute, cycles_per_mac=compute.cycles_per_mac * many)
    return replace(machine, compute=slower, energy=EnergyTable(table))


def _on_gpu(core: Core, gpu: Gpu, einsum: Einsum) -> LayerCost | str:
    try:
        product = product_of(einsum)
        mode = mode_of(gpu, core.number_format)
        (kernel,) = best_kernels(gpu, [einsum.name], gemms_of([product]), core.number_format, mode)
    except AccelsimError as error:
        return str(error)
    return LayerCost(kernel.energy_j * 1e12, kernel.time_us * 1e-6, kernel.dram_bytes, kernel.dram_bytes)


def system_json(found: Assigned) -> dict[str, Any]:
    """A network on a system as JSON: a row for each layer, and the totals."""
    return {
        "system": found.system.name,
        "workload": found.workload.name,
        **{name: getattr(found, name) for name in ("objective", "proved", "gap", "even_gap", "energy_pj")},
        "seconds": found.assignment.value if found.objective != "energy" else None,
        "busy_s": found.busy_s(),
        "transfer_bits": found.transfer_bits,
        "layers": layer_rows(found),
    }


def layer_rows(found: Assigned) -> list[dict[str, Any]]:
    """For each layer its runs on each core, what they cost there, and what they would cost on the others."""
    rows = []
    for at, (layer, costs) in enumerate(zip(found.workload.layers, found.costs, strict=True)):
        runs = found.runs(at)
        by_core = {
            core.name: None if cost is None else {"energy_pj": cost.energy_pj, "seconds": cost.seconds}
            for core, cost in zip(found.system.cores, costs, strict=True)
        }
        rows.append(
            {
                "layer": layer.name,
                "operation": layer.operation,
                "runs": {name: many for name, many, _ in runs},
                "energy_pj": sum(many * cost.energy_pj for _, many, cost in runs),
                "seconds": sum(many * cost.seconds for _, many, cost in runs),
                "start_s": found.assignment.starts[at] if found.assignment.starts else None,
                "of_one_run": by_core,
            }
        )
    return rows
