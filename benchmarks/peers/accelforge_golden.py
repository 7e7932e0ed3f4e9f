"""AccelForge's recorded machines, problems and runs in our terms.

Its outputs count like ours with `drain_reads`. Energies per bit become energies per word of 8 bits, so that no access
is rounded up; all leakage stands at the outermost level, because instances that are not in use leak too.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml
from nest import Nest, Node, Peer, Step

from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.workload import Einsum, Tensor

ROLES = {"input": "Inputs", "weight": "Weights", "output": "Outputs"}
METRICS = {"energy": "energy", "cycles": "latency", "edp": "edp"}
WORD = 8
Json = dict[str, Any]


def machine_path(folder: Path, machine: str) -> Path:
    """Record of a machine."""
    return folder / "machines" / f"arch_{machine}.json"


def read_parts(folder: Path, machine: str) -> list[Json]:
    """Components of a machine, outermost first."""
    parts: list[Json] = json.loads(machine_path(folder, machine).read_text())["levels_outer_to_inner"]
    return parts


def load_machine(name: str, parts: list[Json]) -> Architecture:
    """Read a machine; the fanouts of a container are those of the level before it, x first."""
    mac = parts[-1]
    clock_hz = _rate(mac, "compute")
    levels: list[Level] = []
    energies = {(mac["name"], "*", "compute"): mac["actions"]["compute"]["energy_pj"]}
    for part in parts[:-1]:
        if part["kind"] == "Container":
            x, y = (Axis(spatial["fanout"]) for spatial in part["spatial"])
            levels[-1] = replace(levels[-1], x=x, y=y)
            continue
        levels.append(_level(part, clock_hz))
        for action, of in part["actions"].items():
            energies[part["name"], "*", action] = of["energy_pj"] * WORD / of["bits_per_action"]
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


def _level(part: Json, clock_hz: Fraction) -> Level:
    """One memory; reads and writes share a port unless its latency is the larger of theirs."""
    keep = frozenset(ROLES[role] for role in part["must_keep"]) if isinstance(part["must_keep"], list) else frozenset()
    may = keep | {ROLES[role] for role in part["may_keep"]}
    size = part["size_bits_per_instance"]
    level = Level(
        part["name"],
        part["kind"],
        WORD,
        size_words=None if size == "inf" else int(size) // WORD,
        keep=keep,
        bypass=frozenset(ROLES.values()) - may,
        drain_reads=size != "inf",
    )
    rates = []
    for action, of in part["actions"].items():
        if of["throughput_actions_per_s"] == "inf":
            return level
        rate = _rate(part, action) * Fraction(of["bits_per_action"]) / WORD / clock_hz
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


def spatial_choices(parts: list[Json], einsum: Einsum) -> tuple[Constraints, ...]:
    """Return what a machine allows of spatial loops.

    `must_reuse` allows only loops that leave a tensor in place. `min_usage` of 1 asks for the most instances that
    divisors of the bounds can use; where several choices of bounds use as many, each is one result.
    """
    relevant = {tensor.role: tensor.dims for tensor in einsum.tensors}
    for above, part in itertools.pairwise(parts):
        blocks: list[list[Block]] = []
        for spatial in part["spatial"]:
            only = set(einsum.dims).difference(*(relevant[ROLES[role]] for role in spatial["must_reuse"]))
            blocks.append([Block(only=frozenset(only))])
            if spatial["min_usage"] == 1:
                divisors = [
                    [Factor(d, n, n) for n in range(1, b + 1) if b % n == 0]
                    for d, b in einsum.dims.items()
                    if d in only
                ]
                used = {choice: math.prod(f.low for f in choice) for choice in itertools.product(*divisors)}
                most = max(n for n in used.values() if n <= spatial["fanout"])
                blocks[-1] = [Block(choice, frozenset(only)) for choice, n in used.items() if n == most]
        if blocks:
            return tuple(
                Constraints((LevelConstraint(above["name"], x=x, y=y),)) for x, y in itertools.product(*blocks)
            )
    return (Constraints(),)


def read_nest(lines: list[str], parts: list[Json], einsum: Einsum) -> Nest | None:
    """Mapping of a run, or None if a loop leaves a remainder; spatial loops name their axis of the machine."""
    axes = {spatial["name"]: "xy"[i] for part in parts for i, spatial in enumerate(part["spatial"])}
    tile = dict(einsum.dims)
    nest: list[Node | Step] = []
    for line in lines:
        if node := re.fullmatch(r"\[(\w+) in (\w+)\]", line):
            nest.append(Node(node[2], node[1]))
        elif loop := re.fullmatch(r"[TS](?:-(\w+))?-(\w+) in .* shape=(\d+)", line):
            axis, dim, below = loop.groups()
            if tile[dim] % int(below):
                return None
            nest.append(Step(dim, tile[dim] // int(below), axes.get(axis, "")))
            tile[dim] = int(below)
    return nest


def write_nest(nest: Nest, parts: list[Json], einsum: Einsum) -> list[list[Any]]:
    """Write a nest as AccelForge has it: loops with the tile below them, spatial ones with their name and container."""
    axes = {"xy"[i]: [spatial["name"], part["name"]] for part in parts for i, spatial in enumerate(part["spatial"])}
    tile = dict(einsum.dims)
    rows: list[list[Any]] = []
    for item in nest:
        if isinstance(item, Step):
            tile[item.dim] //= item.bound
        rows.append(
            [item.level, item.tensor]
            if isinstance(item, Node)
            else [item.dim, tile[item.dim], *axes.get(item.axis, ["", ""])]
        )
    return rows


def unit(objective: str, architecture: Architecture) -> float:
    """Our units in one of theirs: J, s and J*s."""
    hertz = architecture.clock_hz or 1.0
    return {"energy": 1e12, "cycles": hertz, "edp": 1e12 * hertz}[objective]


def load_peers(folder: Path) -> Iterator[Peer]:
    """Return the least value of each machine, problem and objective among all runs in the same map space."""
    runs: dict[tuple[str, str], list[tuple[str, Json]]] = {}
    for path in sorted((folder / "runs").glob("*.json")):
        machine, problem, metric, _, *variant = path.stem.split("__")
        if variant in ([], ["open"], ["fix"]):
            runs.setdefault((machine, problem), []).append((metric, json.loads(path.read_text())))
    for (machine, problem), some in runs.items():
        parts, einsum = read_parts(folder, machine), load_einsum(folder / "workloads" / f"{problem}.yaml")
        architecture, choices = load_machine(machine, parts), spatial_choices(parts, einsum)
        bits = {part["name"]: part["actions"] for part in parts if part["kind"] == "Memory"}
        for objective, metric in METRICS.items():
            seconds = [run["cpu_s"] for of, run in some if of == metric]
            if not seconds:
                continue
            best = min((run for _, run in some), key=lambda run: float(run["best"][metric]))
            counts = {}
            for key, count in best["detail"].items():
                _, kind, *place = key.split(".")
                if kind == "action" and place[0] in bits:
                    counts[place[0], place[1], place[2]] = count * bits[place[0]][place[2]]["bits_per_action"] / WORD
            value = best["best"][metric] * unit(objective, architecture)
            nest = read_nest(next(iter(best["mapping"].values())), parts, einsum)
            yield Peer(
                "AccelForge",
                machine,
                problem,
                objective,
                architecture,
                einsum,
                choices,
                value,
                min(seconds),
                nest,
                counts,
            )
