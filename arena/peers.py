"""Let AccelForge and ZigZag play the arena on problems that their forms can hold, and write their mappings as ours.

`python arena/peers.py` runs the releases that `benchmarks/peers/setup.sh` installs under `$ACCELSIM_PEERS`, one problem
after the other on one core, and writes `submissions/TOOL.json` and its lines of `curves.json`. A tool that is not
installed does not play, and its files stay. `--list` says which problems a tool takes, and why not the others.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import zigzag_form
from make import nest, one_line_each
from verify import Arena, Submitted, judge

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks" / "peers"))

from accelforge_golden import ROLES, unit  # noqa: E402
from compare import VENVS, ask  # noqa: E402

from accelsim.inputs.architecture import Architecture, Axis, Level  # noqa: E402
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping  # noqa: E402
from accelsim.inputs.objective import Objective  # noqa: E402
from accelsim.inputs.workload import Einsum  # noqa: E402
from accelsim.search.mapper import map_einsum  # noqa: E402

SECONDS = 20
"""Limit of one search of AccelForge [CPU s]."""
BITS = 16
"""Width of every element in the problems that are taken."""
SHORT = {role: short for short, role in ROLES.items()}
TENSORS = {"I": "Inputs", "W": "Weights", "O": "Outputs"}
LOOP = re.compile(r"[TS](?:-(\w+?)__([xy]))?-(\w+) in .* shape=(\d+)")
Json = dict[str, Any]


def refusal(architecture: Architecture, einsum: Einsum, _objective: str) -> str:
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


def ask_accelforge(arena: Arena, problems: Sequence[str]) -> list[Json]:
    """What AccelForge finds, and the optimum of our search by its rules: outputs that leave a tile are read there."""
    asked = []
    with tempfile.TemporaryDirectory() as folder:
        for i, problem in enumerate(problems):
            files = {kind: Path(folder) / f"{kind}{i}.yaml" for kind in ("machine", "problem")}
            files["machine"].write_text(json.dumps({"levels_outer_to_inner": write_machine(arena.machine(problem))}))
            files["problem"].write_text(json.dumps(write_problem(arena.layer(problem))))
            paths = {kind: str(path) for kind, path in files.items()}
            asked.append({**paths, "objective": arena.problems[problem].objective, "limit": SECONDS})
        _, *answers = ask("accelforge", [asked[0], *asked])  # the first one compiles
    for problem, answer in zip(problems, answers, strict=True):
        if "error" not in answer:
            machine, objective = arena.machine(problem), arena.problems[problem].objective
            ours = map_einsum(with_drains(machine), arena.layer(problem), objective=objective, uneven=True, workers=1)
            if not (ours.certificate and ours.certificate.proved):
                raise RuntimeError(f"{problem}: our optimum with drains is not proved")
            answer |= {"value": answer["value"] * unit(objective, machine), "lines": answer["mapping"]}
            answer["own_optimum"] = Objective.parse(objective).of(ours.best)
    return answers


def ask_zigzag(arena: Arena, problems: Sequence[str]) -> list[Json]:
    """What ZigZag finds; where that is no mapping of ours, why."""
    paths = []
    with tempfile.TemporaryDirectory() as folder:
        for i, problem in enumerate(problems):
            record = zigzag_form.write_record(arena.machine(problem), arena.layer(problem))
            paths.append(str(Path(folder) / f"{i}.json"))
            Path(paths[-1]).write_text(json.dumps(record))
        answers = ask("zigzag", paths)
    for problem, answer in zip(problems, answers, strict=True):
        if "error" not in answer:
            try:
                answer["lines"] = zigzag_form.read_answer(answer, arena.machine(problem), arena.layer(problem))
            except ValueError as error:
                answer["error"] = f"no mapping of the arena: {error}"
    return answers


@dataclass(frozen=True, slots=True)
class Rival:
    """A tool: its release, the space that it searches here, why it does not take a problem, and its answers."""

    release: str
    space: str
    refusal: Callable[[Architecture, Einsum, str], str]
    ask: Callable[[Arena, Sequence[str]], list[Json]]


RIVALS = {
    "accelforge": Rival("AccelForge 1.0.467", "uneven", refusal, ask_accelforge),
    "zigzag": Rival("ZigZag 3.9.1", "even", zigzag_form.refusal, ask_zigzag),
}


def play(arena: Arena, tool: str, problems: Sequence[str]) -> tuple[list[Json], list[Json]]:
    """Lines of `curves.json`, each with one time and value, and the mappings of a submission."""
    space, runs, mappings = RIVALS[tool].space, list[Json](), list[Json]()
    for problem, answer in zip(problems, RIVALS[tool].ask(arena, problems), strict=True):
        run: Json = {"tool": tool, "problem": problem, "space": space}
        if "error" in answer:
            why = answer["error"].partition("\n")[0].partition(". ")[0]
            runs.append({**run, "times": [], "values": [], "error": why})
            sys.stdout.write(f"{tool:10} {problem:36} {why}\n")
            continue
        machine, layer, seconds = arena.machine(problem), arena.layer(problem), round(answer["seconds"], 3)
        mapping = read_lines(answer["lines"], machine, layer)
        verdict = judge(arena, Submitted(problem, space, mapping))
        own = {"own_value": answer["value"]} | {k: answer[k] for k in ("own_optimum",) if k in answer}
        runs.append({**run, "times": [seconds], "values": [verdict.value], **own})
        entry = {"problem": problem, "space": space, "value": answer["value"], "cpu_s": seconds}
        mappings.append({**entry, "mapping": nest(mapping)})
        said = f"{verdict.value / verdict.best:10.6f} {answer['value'] / verdict.value:10.6f} {verdict.verdict}"
        sys.stdout.write(f"{tool:10} {problem:36} {seconds:8.2f} s {said}\n")
    return runs, mappings


def main() -> int:
    """Let the tools play, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the problems that are taken, and why not the others")
    parser.add_argument("--only", default="", help="problems whose name contains this; nothing is written")
    parser.add_argument("--tool", choices=RIVALS, action="append", help="one of the tools (default: all)")
    arguments = parser.parse_args()
    arena, kept = Arena(HERE), HERE / "curves.json"
    for tool in arguments.tool or RIVALS:
        rival, whys = RIVALS[tool], dict[str, str]()
        for name, asked in arena.problems.items():
            if arguments.only in name:
                whys[name] = rival.refusal(arena.machine(name), arena.layer(name), asked.objective)
        if arguments.list:
            sys.stdout.writelines(f"{tool:10} {name:36} {why or 'taken'}\n" for name, why in whys.items())
            continue
        if not (VENVS / tool / "bin" / "python").is_file():
            sys.stdout.write(
                f"{rival.release} is not in {VENVS}: it does not play (benchmarks/peers/setup.sh installs it)\n"
            )
            continue
        runs, mappings = play(arena, tool, [name for name, why in whys.items() if not why])
        if arguments.only:
            continue
        text = one_line_each({"tool": rival.release, "mappings": mappings}, ("mappings",))
        (HERE / "submissions" / f"{tool}.json").write_text(text, encoding="utf-8")
        curves = json.loads(kept.read_text())
        curves["runs"] = [run for run in curves["runs"] if run["tool"] != tool] + runs
        kept.write_text(one_line_each(curves, ("runs",)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
