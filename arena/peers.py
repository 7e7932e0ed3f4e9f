"""Let AccelForge play the arena on problems that its form can hold, and write the mappings that it finds as ours.

`python arena/peers.py` runs the release that `benchmarks/peers/setup.sh` installs under `$ACCELSIM_PEERS`, one problem
after the other on one core, and writes `submissions/accelforge.json` and its lines of `curves.json`. Where it is not
installed this says so, and writes nothing. `--list` says which problems it takes, and why not the others.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from make import nest, one_line_each

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks" / "peers"))

from accelforge_golden import ROLES, unit  # noqa: E402
from compare import VENVS, ask  # noqa: E402

from accelsim import map_einsum  # noqa: E402
from accelsim.inputs.architecture import Architecture, Axis, Level  # noqa: E402
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping  # noqa: E402
from accelsim.inputs.objective import Objective  # noqa: E402
from accelsim.inputs.workload import Einsum  # noqa: E402
from accelsim.results.arena import Arena, Submitted, judge  # noqa: E402

TOOL, RELEASE = "accelforge", "AccelForge 1.0.467"
SECONDS = 60
"""Limit of one search [CPU s]."""
BITS = 16
"""Width of every element in the problems that are taken."""
SHORT = {role: short for short, role in ROLES.items()}
TENSORS = {"I": "Inputs", "W": "Weights", "O": "Outputs"}
LOOP = re.compile(r"[TS](?:-(\w+?)__([xy]))?-(\w+) in .* shape=(\d+)")
Json = dict[str, Any]


def refusal(architecture: Architecture, einsum: Einsum) -> str:
    """Why AccelForge's form cannot hold a problem, or nothing."""
    if any(sum(einsum.dims[dim] > 1 for dim, _ in rank) > 1 for tensor in einsum.tensors for rank in tensor.ranks):
        return "it counts windows otherwise: no halo between steps, one row above a loop over rows"
    if {width for tensor in einsum.tensors for width in (tensor.bits, tensor.psum_bits)} != {BITS}:
        return "it has one width of a tensor: none for partial sums"
    if any(level.word_bits < BITS for level in architecture.levels):
        return "elements take several words"
    return ""


def write_machine(architecture: Architecture) -> list[Json]:
    """Components as in AccelForge's records (`benchmarks/peers`): fanouts are containers, partitions memories."""
    parts = [part for level in architecture.levels for part in _write_level(architecture, level)]
    clock_hz, compute = architecture.clock_hz or 1.0, architecture.compute
    pj = architecture.energy.energy_pj(compute.name, "*", "compute")
    rate = clock_hz / compute.cycles_per_mac
    return [*parts, _part("MAC", "Compute", {"compute": (pj, rate)})]


def _write_level(architecture: Architecture, level: Level) -> Iterator[Json]:
    """One level: its memories, its fanout, and what each element that passes there costs."""
    clock_hz = architecture.clock_hz or 1.0
    rates = (level.bandwidth or level.read_bandwidth, level.bandwidth or level.write_bandwidth)
    actions = {
        action: (
            architecture.energy.energy_pj(level.name, "Outputs", action),
            "inf" if rate is None else float(rate * Fraction(clock_hz) / level.block_size),
        )
        for action, rate in zip(("read", "write"), rates, strict=True)
    }
    latency = "sum" if level.bandwidth else "max"
    must = set(SHORT) if level is architecture.levels[0] else level.keep
    rooms: dict[str, Any] = level.rooms or {"": None}
    for role, words in rooms.items():
        yield {
            **_part(f"{level.name}__{role}", "Memory", actions, latency, BITS * level.block_size),
            "size_bits_per_instance": "inf" if words is None else words * BITS,
            "must_keep": [SHORT[each] for each in sorted(must) if role in ("", each)],
            "may_keep": [SHORT[each] for each in sorted(set(SHORT) - level.bypass) if role in ("", each)],
        }
    if level.fanout == 1:
        return
    axes = {"x": level.x, "y": level.y}
    spatial = [
        {"name": f"{level.name}__{name}", "fanout": axis.size, "must_reuse": [], "may_reuse": _reused(axis)}
        for name, axis in axes.items()
    ]
    yield {"name": f"{level.name}__array", "kind": "Container", "spatial": spatial}
    toll = architecture.energy.find(f"{level.name} network", "*", "transfer")
    if toll:
        yield _part(f"{level.name}__network", "Toll", {"read": (toll.energy_pj, "inf")}, "sum", BITS)


def _part(name: str, kind: str, actions: dict[str, tuple[float, Any]], latency: str = "sum", bits: int = 1) -> Json:
    """One component: each action with its energy [pJ] and rate [1/s]."""
    written = {
        action: {"energy_j": pj * 1e-12, "throughput_actions_per_s": rate, "bits_per_action": bits}
        for action, (pj, rate) in actions.items()
    }
    formula = f"{latency}(a.n_calls / a.throughput for a in actions)"
    return {
        "name": name,
        "kind": kind,
        "leak_power_w_per_instance": 0,
        "total_latency_expr_s": formula,
        "actions": written,
    }


def _reused(axis: Axis) -> list[str]:
    """Tensors that one access of the parent serves for many children of an axis."""
    operands = [SHORT[role] for role in ("Inputs", "Weights") if axis.serves(role)]
    return operands + ["output"] * axis.spatial_reduction


def write_problem(einsum: Einsum) -> Json:
    """A layer in AccelForge's form; dimensions of bound 1 are left out."""
    bounds = {dim: bound for dim, bound in einsum.dims.items() if bound > 1}
    accesses = []
    for short, role in TENSORS.items():
        tensor = next(each for each in einsum.tensors if each.role == role)
        ranks = [dim.lower() for rank in tensor.ranks for dim, _ in rank if dim in bounds]
        accesses.append({"name": short, "projection": ranks} | ({"output": True} if tensor.output else {}))
    layer = {"name": "Layer", "tensor_accesses": accesses, "renames": {SHORT[r]: s for s, r in TENSORS.items()}}
    shape = {dim.lower(): f"0 <= {dim.lower()} < {bound}" for dim, bound in bounds.items()}
    return {"workload": {"iteration_space_shape": shape, "bits_per_value": {"All": BITS}, "einsums": [layer]}}


def read_lines(lines: Sequence[str], architecture: Architecture, einsum: Einsum) -> Mapping:
    """Write a mapping of AccelForge as an uneven one of ours: each storage node is a level that keeps one tensor.

    Loops over one dimension between two nodes become one; AccelForge counts the same for any order of them.
    """
    names = [level.name for level in architecture.levels]
    nodes: list[tuple[str, set[str], dict[str, dict[str, int]]]] = []
    tile = {dim.lower(): (dim, bound) for dim, bound in einsum.dims.items()}

    def reach(name: str) -> None:
        """Enter a level, and those outside it that keep nothing."""
        for level in names[len(dict.fromkeys(node[0] for node in nodes)) : names.index(name) + 1]:
            nodes.append((level, set(), {"": {}, "x": {}, "y": {}}))

    reach(names[0])
    for line in lines:
        if node := re.fullmatch(r"\[([\w,]+) in (\w+)__\w*\]", line):
            shorts, name = node.groups()
            if line.endswith("__network]"):
                continue
            reach(name)
            if any(nodes[-1][2].values()):
                nodes.append((name, set(), {"": {}, "x": {}, "y": {}}))
            nodes[-1][1].update(TENSORS[short] for short in shorts.split(","))
        elif loop := LOOP.fullmatch(line):
            owner, axis, short, below = loop.groups()
            dim, bound = tile[short]
            if bound % int(below):
                raise ValueError(f"{line}: leaves a remainder")
            if owner:
                reach(owner)
            here = nodes[-1][2][axis or ""]
            here[dim] = here.get(dim, 1) * (bound // int(below))
            tile[short] = dim, int(below)
    reach(names[-1])
    rest = [dim for dim, bound in tile.values() if bound > 1]
    if rest:
        raise ValueError(f"no loop ends {', '.join(rest)}")
    levels = []
    for name, kept, loops in nodes:
        temporal, x, y = (tuple(Loop(dim, n) for dim, n in loops[axis].items() if n > 1) for axis in ("", "x", "y"))
        levels.append(LevelMapping(name, temporal, x, y, frozenset(kept)))
    return Mapping(tuple(levels))


def with_drains(architecture: Architecture) -> Architecture:
    """Return the machine as AccelForge counts it: outputs that leave a tile are read there."""
    outer, *inner = architecture.levels
    return replace(architecture, levels=(outer, *(replace(level, drain_reads=True) for level in inner)))


def requests(arena: Arena, problems: Sequence[str], folder: Path) -> list[Json]:
    """What AccelForge is asked, its files in a folder."""
    asked = []
    for i, problem in enumerate(problems):
        machine, layer = folder / f"machine{i}.json", folder / f"layer{i}.yaml"
        machine.write_text(json.dumps({"levels_outer_to_inner": write_machine(arena.machine(problem))}))
        layer.write_text(json.dumps(write_problem(arena.layer(problem))))
        objective = arena.problems[problem].objective
        asked.append({"machine": str(machine), "problem": str(layer), "objective": objective, "limit": SECONDS})
    return asked


def played(arena: Arena, problem: str, answer: Json) -> tuple[Json, Json | None]:
    """One line of `curves.json`, and of the submission if there is a mapping.

    `own_value` is what AccelForge counts; `own_optimum`, the optimum of our search by the same rule, with drains.
    """
    run: Json = {"tool": TOOL, "problem": problem, "space": "uneven"}
    if "error" in answer:
        return run | {"times": [SECONDS], "values": [None], "error": answer["error"]}, None
    machine, layer, objective = arena.machine(problem), arena.layer(problem), arena.problems[problem].objective
    mapping = read_lines(answer["mapping"], machine, layer)
    ours = map_einsum(with_drains(machine), layer, objective=objective, uneven=True, workers=1)
    if not (ours.certificate and ours.certificate.proved):
        raise RuntimeError(f"{problem}: our optimum with drains is not proved")
    value, seconds = answer["value"] * unit(objective, machine), round(answer["seconds"], 3)
    run |= {"times": [seconds], "values": [judge(arena, Submitted(problem, "uneven", mapping)).value]}
    run |= {"own_value": value, "own_optimum": Objective.parse(objective).of(ours.best)}
    return run, {"problem": problem, "space": "uneven", "value": value, "cpu_s": seconds, "mapping": nest(mapping)}


def main() -> int:
    """Play all problems that are taken, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the problems that are taken, and why not the others")
    parser.add_argument("--only", default="", help="problems whose name contains this; nothing is written")
    arguments = parser.parse_args()
    show = partial(print, flush=True)
    arena = Arena(HERE)
    whys = {name: refusal(arena.machine(name), arena.layer(name)) for name in arena.problems if arguments.only in name}
    taken = [name for name, why in whys.items() if not why]
    if arguments.list:
        for name, why in whys.items():
            show(f"{name:36} {why or 'taken'}")
        return 0
    if not (VENVS / TOOL / "bin" / "python").is_file():
        show(f"{RELEASE} is not in {VENVS}: it does not play (benchmarks/peers/setup.sh installs it)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        asked = requests(arena, taken, Path(folder))
        _, *answers = ask(TOOL, [asked[0], *asked])  # the first one compiles
    runs: list[Json] = []
    mappings: list[Json] = []
    for problem, answer in zip(taken, answers, strict=True):
        run, entry = played(arena, problem, answer)
        runs.append(run)
        mappings += [entry] if entry else []
        best, (value,) = arena.known[problem, "uneven"].value, run["values"]
        said = f"{value / best:10.6f} {run['own_value'] / run['own_optimum']:10.6f}" if value else run["error"]
        show(f"{problem:36} {run['times'][0]:8.2f} s {said}")
    if arguments.only:
        return 0
    text = one_line_each({"tool": RELEASE, "mappings": mappings}, ("mappings",))
    (HERE / "submissions" / f"{TOOL}.json").write_text(text, encoding="utf-8")
    kept = json.loads((HERE / "curves.json").read_text())
    kept["runs"] = [run for run in kept["runs"] if run["tool"] != TOOL] + runs
    (HERE / "curves.json").write_text(one_line_each(kept, ("runs",)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
