"""AccelForge's recorded machines, problems and runs in our terms.

Its outputs count like ours with `drain_reads`. A word of a level is a value as wide as that memory holds it, so that no
access is rounded up; all leakage stands at the outermost level, because instances that are not in use leak too. Any
part may have fanouts: they are those of the level above it, and a third one takes a level that keeps nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml
from nest import Nest, Node, Peer, Step

from accelsim.importers.values import axis_products
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.constraints import Block, Constraints, LevelConstraint
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.workload import Einsum, Tensor

ROLES = {"input": "Inputs", "weight": "Weights", "output": "Outputs"}
METRICS = {"energy": "energy", "cycles": "latency", "edp": "edp"}
SPACE = "uneven mappings without remainders, nodes in the order of the memories and inside the fanouts above them"
WORD = 8
Json = dict[str, Any]


def machine_path(folder: Path, machine: str) -> Path:
    """Record of a machine."""
    return folder / "machines" / f"arch_{machine}.json"


def read_parts(record: Path) -> list[Json]:
    """Components of a machine, outermost first."""
    parts: list[Json] = json.loads(record.read_text())["levels_outer_to_inner"]
    return parts


@dataclass(frozen=True, slots=True)
class Fanout:
    """One fanout of a part: our level and axis that stand for it."""

    part: str
    spatial: Json
    level: str
    axis: str


def read_fanouts(parts: list[Json]) -> list[Fanout]:
    """Return the fanouts of a machine, outermost first: two below each level."""
    found: list[Fanout] = []
    level, free = "", ""
    for part in parts:
        for spatial in part["spatial"]:
            if not level:
                raise ValueError(f"{part['name']} has several instances, and no memory stands above it")
            if spatial.get("loop_bounds"):
                raise ValueError(f"{part['name']} bounds the loops of {spatial['name']}, which is not read")
            if not free:
                level, free = f"{part['name']} {spatial['name']}", "xy"
            found.append(Fanout(part["name"], spatial, level, free[0]))
            free = free[1:]
        if part["kind"] == "Memory":
            level, free = part["name"], "xy"
    return found


def load_machine(name: str, parts: list[Json]) -> Architecture:
    """Read a machine."""
    mac, every = parts[-1], frozenset(ROLES.values())
    clock_hz = _rate(mac, "compute")
    levels: list[Level] = []
    energies = {(mac["name"], "*", "compute"): mac["actions"]["compute"]["energy_pj"]}
    fanouts = read_fanouts(parts)
    for part in parts:
        for fanout in (each for each in fanouts if each.part == part["name"]):
            if levels[-1].name != fanout.level:
                levels.append(Level(fanout.level, "", WORD, bypass=every))
            reused = frozenset(ROLES[role] for role in fanout.spatial["may_reuse"])
            axis = Axis(fanout.spatial["fanout"], reused == every or reused, "Outputs" in reused)
            levels[-1] = replace(levels[-1], x=axis) if fanout.axis == "x" else replace(levels[-1], y=axis)
        if part["kind"] not in ("Memory", "Container") and part is not mac:
            raise ValueError(f"{part['name']} is a {part['kind']}, which is not read")
        if part["kind"] == "Memory":
            levels.append(_level(part, clock_hz))
            for action, of in part["actions"].items():
                energies[part["name"], "*", action] = of["energy_pj"] * _width(part) / of["bits_per_action"]
    watts = sum(part.get("leak_power_w_total", 0.0) for part in parts)
    energies[levels[0].name, "*", "leak"] = watts / float(clock_hz) * 1e12
    table = EnergyTable({key: EnergyEntry(pj, "AccelForge") for key, pj in energies.items()})
    return Architecture(name, tuple(levels), Compute(mac["name"]), table, float(clock_hz))


def _rate(part: Json, action: str) -> Fraction:
    """Actions a second of one instance: by the formula of the component's latency if that has numbers, or its own."""
    formula = re.fullmatch(r"sum\(a\.n_calls for a in actions\) / ([\d.e/ ]+)", part["total_latency_expr_s"])
    if formula:
        return math.prod(map(Fraction, formula[1].split(" / ")), start=Fraction(1))
    return Fraction(part["actions"][action]["throughput_actions_per_s"])


def _width(part: Json) -> int:
    """Bits of a value as a memory holds it."""
    return int(part.get("bits_per_value", WORD))


def _level(part: Json, clock_hz: Fraction) -> Level:
    """One memory; reads and writes share a port unless its latency is the larger of theirs."""
    keep = frozenset(ROLES[role] for role in part["must_keep"]) if isinstance(part["must_keep"], list) else frozenset()
    may = keep | {ROLES[role] for role in part["may_keep"]}
    size = part["size_bits_per_instance"]
    level = Level(
        part["name"],
        part["kind"],
        WORD,
        size_words=None if size == "inf" else int(size) // _width(part),
        keep=keep,
        bypass=frozenset(ROLES.values()) - may,
        drain_reads=size != "inf",
    )
    rates = []
    for action, of in part["actions"].items():
        if of["throughput_actions_per_s"] == "inf":
            return level
        rate = _rate(part, action) * Fraction(of["bits_per_action"]) / _width(part) / clock_hz
        rates.append(rate.limit_denominator(10**6))
    if part["total_latency_expr_s"].startswith("max"):
        return replace(level, read_bandwidth=rates[0], write_bandwidth=rates[1])
    return replace(level, bandwidth=rates[0])


def load_einsum(path: Path) -> Einsum:
    """Read a problem: its bounds, and each tensor's ranks, written `[m, k]` or `I[c, H: p * 2 + r, ...]`."""
    text = path.read_text()
    spec = yaml.safe_load(text)["workload"]["einsums"][0]
    dims = {dim: int(bound) for dim, bound in re.findall(r"0 <= (\w+) < (\d+)", text)}
    written = dict(re.findall(r"(\w+)\[(.*?)\]", spec.get("einsum", "")))
    written |= {access["name"]: ", ".join(access["projection"]) for access in spec.get("tensor_accesses", [])}
    tensors = []
    for role, name in spec["renames"].items():
        ranks = [re.findall(r"(\w+)(?: \* (\d+))?(?: \+|$)", rank) for rank in written[name].split(", ")]
        projection = tuple(tuple((dim, int(factor or 1)) for dim, factor in rank) for rank in ranks)
        tensors.append(Tensor(name, projection, ROLES[role], WORD, WORD, output=role == "output"))
    return Einsum(path.stem, dims, tuple(tensors))


def read_constraints(parts: list[Json], einsum: Einsum) -> Constraints:
    """Return what a machine allows of spatial loops.

    `must_reuse` allows only loops that leave a tensor in place. `min_usage` asks for a share of the instances, or as
    many as divisors of the bounds can use; outer fanouts come first where several take their loops from one dimension.
    """
    relevant = {tensor.role: tensor.dims for tensor in einsum.tensors}
    fanouts, every = read_fanouts(parts), set(einsum.dims)
    allowed = [every.difference(*(relevant[ROLES[role]] for role in f.spatial["must_reuse"])) for f in fanouts]
    bounds = [(bound, tuple(i for i, dims in enumerate(allowed) if dim in dims)) for dim, bound in einsum.dims.items()]
    reached = axis_products(tuple(bounds), tuple(fanout.spatial["fanout"] for fanout in fanouts))
    asked: dict[str, dict[str, Block]] = {}
    for i, fanout in enumerate(fanouts):
        least = math.ceil(fanout.spatial["min_usage"] * fanout.spatial["fanout"])
        least = max(1, min(least, max(used[i] for used in reached)))
        reached = {used for used in reached if used[i] >= least}
        asked.setdefault(fanout.level, {})[fanout.axis] = Block(only=frozenset(allowed[i]), least=least)
    nothing = Block()
    return Constraints(tuple(LevelConstraint(level, x=of["x"], y=of.get("y", nothing)) for level, of in asked.items()))


def read_nest(lines: list[str], parts: list[Json], einsum: Einsum) -> Nest | None:
    """Mapping of a run, or None if a loop leaves a remainder; spatial loops name their axis of the machine."""
    places = {fanout.spatial["name"]: (fanout.axis, fanout.level) for fanout in read_fanouts(parts)}
    tile = dict(einsum.dims)
    nest: list[Node | Step] = []
    for line in lines:
        if node := re.fullmatch(r"\[([\w,]+) in (\w+)\]", line):
            nest += [Node(node[2], tensor) for tensor in node[1].split(",")]
        elif loop := re.fullmatch(r"[TS](?:-(\w+))?-(\w+) in .* shape=(\d+)", line):
            axis, dim, below = loop.groups()
            if tile[dim] % int(below):
                return None
            nest.append(Step(dim, tile[dim] // int(below), *places.get(axis, ("", ""))))
            tile[dim] = int(below)
    return nest


def write_nest(nest: Nest, parts: list[Json], einsum: Einsum) -> list[list[Any]]:
    """Write a nest as AccelForge has it: loops with the tile below them, spatial ones with their name and container."""
    names = {(fanout.axis, fanout.level): [fanout.spatial["name"], fanout.part] for fanout in read_fanouts(parts)}
    tile = dict(einsum.dims)
    rows: list[list[Any]] = []
    for item in nest:
        if isinstance(item, Step):
            tile[item.dim] //= item.bound
        rows.append(
            [item.level, item.tensor]
            if isinstance(item, Node)
            else [item.dim, tile[item.dim], *names.get((item.axis, item.level), ["", ""])]
        )
    return rows


def unit(objective: str, architecture: Architecture) -> float:
    """Our units in one of theirs: J, s and J*s."""
    hertz = architecture.clock_hz or 1.0
    return {"energy": 1e12, "cycles": hertz, "edp": 1e12 * hertz}[objective]


def given_peer(files: tuple[Path, Path], objective: str, answer: Json) -> Peer:
    """Return what a search found just now for a described machine and a problem."""
    parts, einsum = read_parts(files[0]), load_einsum(files[1])
    machine = load_machine(files[0].stem, parts)
    return Peer(
        "AccelForge",
        machine.name,
        einsum.name,
        objective,
        machine,
        einsum,
        read_constraints(parts, einsum),
        SPACE,
        answer["value"] * unit(objective, machine),
        answer["seconds"],
        read_nest(answer["mapping"], parts, einsum),
        files=files,
    )


def load_peers(folder: Path) -> Iterator[Peer]:
    """Return the least value of each machine, problem and objective among all runs in the same map space."""
    runs: dict[tuple[str, str], list[tuple[str, Json]]] = {}
    for path in sorted((folder / "runs").glob("*.json")):
        machine, problem, metric, _, *variant = path.stem.split("__")
        if variant in ([], ["open"], ["fix"]):
            runs.setdefault((machine, problem), []).append((metric, json.loads(path.read_text())))
    for (machine, problem), some in runs.items():
        files = machine_path(folder, machine), folder / "workloads" / f"{problem}.yaml"
        parts, einsum = read_parts(files[0]), load_einsum(files[1])
        architecture, constraints = load_machine(machine, parts), read_constraints(parts, einsum)
        memories = {part["name"]: part for part in parts if part["kind"] == "Memory"}
        for objective, metric in METRICS.items():
            seconds = [run["cpu_s"] for of, run in some if of == metric]
            if not seconds:
                continue
            best = min((run for _, run in some), key=lambda run: float(run["best"][metric]))
            counts = {}
            for key, count in best["detail"].items():
                _, kind, *place = key.split(".")
                if kind == "action" and place[0] in memories:
                    memory = memories[place[0]]
                    words = count * memory["actions"][place[2]]["bits_per_action"] / _width(memory)
                    counts[place[0], place[1], place[2]] = words
            value = best["best"][metric] * unit(objective, architecture)
            nest = read_nest(next(iter(best["mapping"].values())), parts, einsum)
            yield Peer(
                "AccelForge",
                machine,
                problem,
                objective,
                architecture,
                einsum,
                constraints,
                SPACE,
                value,
                min(seconds),
                nest,
                counts,
                files=files,
            )
