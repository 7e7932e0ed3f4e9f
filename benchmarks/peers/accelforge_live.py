"""Run AccelForge, in its own Python: requests as JSON on stdin, answers on stdout.

A request to describe takes a file of AccelForge, and is answered with its components as the records have them. One with
`files` is a machine, a problem and a mapping of its own, and is evaluated, as one with a nest is. One with a limit
[CPU s] is searched for as long, and answered with its mapping. Any other is searched, and once more with the tiles of a
memory in two places at most, which is nearer to even mappings.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import accelforge  # type: ignore[import-not-found]
from accelforge.frontend.arch import Compute as ComputeUnit  # type: ignore[import-not-found]
from accelforge.frontend.mapping import Compute, Mapping, Spatial, Storage, Temporal  # type: ignore[import-not-found]
from accelforge.mapper.FFM.main import map_workload_to_arch  # type: ignore[import-not-found]

ROLES = ("input", "output", "weight")
SCALES = ("actions_scale", "latency_scale", "n_parallel_instances")
TOTALS = {"energy": "energy", "cycles": "latency", "edp": "energy_delay_product"}


def cpu_seconds() -> float:
    """Processor time of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def load(machine: str, problem: str) -> Any:
    """Specification of a recorded machine and problem; energies are the recorded ones, not estimated anew."""
    nodes = [write_part(part) for part in json.loads(Path(machine).read_text())["levels_outer_to_inner"]]
    path = Path("machine.yaml")
    path.write_text("\n".join(["arch:", "  nodes:", *nodes]))
    return accelforge.Spec.from_yaml(str(path), problem)


def write_part(part: dict[str, Any]) -> str:
    """One component in AccelForge's own YAML."""
    fields: dict[str, Any] = {"name": part["name"]}
    if part.get("spatial"):
        fields["spatial"] = [write_fanout(spatial) for spatial in part["spatial"]]
    if part["kind"] != "Container":
        fields |= {"leak_power": part["leak_power_w_per_instance"], "area": 0}
        fields["total_latency"] = part["total_latency_expr_s"]
        names = {"energy": "energy_j", "throughput": "throughput_actions_per_s"}
        names |= {"bits_per_action": "bits_per_action"} if part["kind"] != "Compute" else {}
        actions = part["actions"].items()
        fields["actions"] = [{"name": name, **{k: of[v] for k, v in names.items()}} for name, of in actions]
    if part["kind"] == "Memory":
        must, may = part["must_keep"], part["may_keep"]
        keep = " | ".join(must) or "Nothing" if isinstance(must, list) else must["expression"]
        fields |= {
            "size": part["size_bits_per_instance"],
            "tensors": {"keep": keep} | ({"may_keep": " | ".join(may)} if may else {}),
        }
        fields |= {"bits_per_value": {"All": part["bits_per_value"]}} if "bits_per_value" in part else {}
    if part["kind"] == "Toll":
        fields |= {"direction": "up_and_down", "tensors": {"keep": "All"}}
    return f"  - !{part['kind']} {json.dumps(fields)}"


def write_fanout(spatial: dict[str, Any]) -> dict[str, Any]:
    """One fanout of a component in AccelForge's own YAML."""
    sets = {key: " | ".join(spatial[f"{prefix}_reuse"]) for key, prefix in (("reuse", "must"), ("may_reuse", "may"))}
    fields = {"name": spatial["name"], "fanout": spatial["fanout"], "may_reuse": sets["may_reuse"] or "Nothing"}
    fields |= {"reuse": sets["reuse"]} if sets["reuse"] else {}
    return fields | {"min_usage": spatial.get("min_usage", 0)}


def describe(machine: str, problem: str) -> list[dict[str, Any]]:
    """Components of a machine on the way to the compute units of a problem's first Einsum, outermost first."""
    spec = accelforge.Spec.from_yaml(machine, problem)
    einsum = spec.workload.einsums[0].name
    spec = spec.calculate_component_costs(einsum_name=einsum)
    sets = {rename.name: set(rename.source) for rename in spec.workload.einsums[einsum].renames}
    roles = {tensor: role for role in ROLES for tensor in sets[role]}
    bits = {access.name: access.bits_per_value for access in spec.workload.einsums[einsum].tensor_accesses}
    units = [unit.name for unit in spec.arch.get_nodes_of_type(ComputeUnit) if unit.enabled]
    if len(units) != 1:
        raise ValueError(f"{len(units)} kinds of compute units take this Einsum; one is described")
    return [describe_part(node, roles, bits) for node in spec._get_flattened_architecture(units[0])]


def describe_part(node: Any, roles: dict[str, str], bits: dict[str, int]) -> dict[str, Any]:
    """One component, by role and bits of each tensor's values; names of fanouts are made unique."""

    def reused(tensors: Any) -> list[str]:
        return sorted(roles[tensor] for tensor in tensors)

    def finite(number: float) -> Any:
        return "inf" if number == float("inf") else number

    part: dict[str, Any] = {"name": node.name, "kind": type(node).__name__, "spatial": []}
    for spatial in node.spatial:
        if spatial.usage_scale != 1:
            raise ValueError(f"{node.name}: usage_scale is not described")
        sets = {"must_reuse": reused(spatial.reuse), "may_reuse": reused(spatial.may_reuse)}
        bounds = [str(bound) for bound in spatial.loop_bounds]
        own = {"name": f"{node.name}_{spatial.name}", "fanout": spatial.fanout, "min_usage": spatial.min_usage}
        part["spatial"].append({**own, **sets, "loop_bounds": bounds})
    if part["kind"] == "Container":
        return part
    if scaled := [key for key in SCALES if getattr(node, key) != 1]:
        raise ValueError(f"{node.name}: {', '.join(scaled)}: not described")
    part |= {"leak_power_w_per_instance": node.leak_power, "leak_power_w_total": node.total_leak_power}
    part |= {"total_latency_expr_s": node.total_latency, "actions": {}}
    for action in node.actions:
        costs = {"energy_j": action.energy, "energy_pj": action.energy * 1e12}
        costs["throughput_actions_per_s"] = finite(action.throughput)
        part["actions"][action.name] = costs | {"bits_per_action": getattr(action, "bits_per_action", 1)}
    if part["kind"] == "Memory":
        keep, may = node.tensors.keep, node.tensors.may_keep
        part["size_bits_per_instance"] = finite(node.size)
        part["must_keep"] = {"expression": keep} if isinstance(keep, str) else reused(keep)
        part["may_keep"] = reused(may)
        held = roles if isinstance(keep, str) else {*keep, *may}
        part["bits_per_value"], *more = {node.bits_per_value.get(tensor, bits[tensor]) for tensor in held}
        if more:
            raise ValueError(f"{node.name} holds values of several widths, which is not described")
    return part


def search(machine: str, problem: str, objective: str, even: bool) -> tuple[float, float, list[str]]:
    """Optimum [J, s or J*s], processor time, and the mapping: a storage node or a loop in each line."""
    spec = load(machine, problem)
    spec.mapper.metrics = accelforge.Metrics[TOTALS[objective].upper()]
    spec.mapper._timeloop_style_even = even
    started = cpu_seconds()
    found = map_workload_to_arch(spec, print_progress=False, eval_in_detail=False)
    seconds = cpu_seconds() - started
    lines = [node.compact_str() for node in found.mapping(0).nodes]
    return float(found.data.iloc[0][f"Total<SEP>{TOTALS[objective]}"]), seconds, lines


def evaluate(machine: str, problem: str, objective: str, nest: list[list[Any]]) -> float:
    """Value of a nest: rows of level and tensor, or of dimension, tile below the loop, spatial name and container."""
    spec = load(machine, problem)
    nodes: list[Any] = []
    for first, second, *spatial in nest:
        if not spatial:
            nodes.append(Storage(tensors=[second], component=first))
        elif spatial[0]:
            at = {"name": spatial[0], "component": spatial[1]}
            nodes.append(Spatial(rank_variable=first, tile_shape=second, **at))
        else:
            nodes.append(Temporal(rank_variable=first, tile_shape=second))
    nodes.append(Compute(einsum=spec.workload.einsums[0].name, component="MAC"))
    spec.mapping = Mapping(nodes=nodes)
    return total(spec)[objective]


def total(spec: Any) -> dict[str, float]:
    """Energy [J], latency [s] and their product, of the mapping of a specification."""
    spec.model.metrics = accelforge.Metrics.ENERGY | accelforge.Metrics.LATENCY
    energy, latency = (float(spec.evaluate_mapping().data.iloc[0][f"Total<SEP>{x}"]) for x in ("energy", "latency"))
    return {"energy": energy, "cycles": latency, "edp": energy * latency}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; the first search of a process compiles and is done twice."""
    if request.get("describe"):
        return {"parts": describe(request["machine"], request["problem"])}
    if request.get("files"):
        return total(accelforge.Spec.from_yaml(*request["files"]))
    asked = request["machine"], request["problem"], request["objective"]
    if request.get("nest"):
        return {"value": evaluate(*asked, request["nest"])}
    if request.get("limit"):
        signal.setitimer(signal.ITIMER_PROF, request["limit"])
        try:
            value, seconds, mapping = search(*asked, even=False)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return {"value": value, "seconds": seconds, "mapping": mapping}
    even, _, _ = search(*asked, even=True)
    value, seconds, _ = search(*asked, even=False)
    return {"value": value, "seconds": seconds, "even": even}


def late(*_: object) -> None:
    """Stop a search whose time is up."""
    raise TimeoutError("its time is up")


def reason(error: BaseException) -> str:
    """Why there is no answer; AccelForge wraps what ends one of its jobs."""
    inner: BaseException | None = error
    while inner and not isinstance(inner, TimeoutError):
        inner = inner.__cause__ or inner.__context__
    return str(inner) if inner else f"{type(error).__name__}: {error}"[:200]


def main() -> None:
    """Answer every request."""
    accelforge.set_n_parallel_jobs(1)
    signal.signal(signal.SIGPROF, late)
    answers = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(sys.stderr):
        for request in json.load(sys.stdin):
            try:
                answers.append(answer(request))
            except Exception as error:
                answers.append({"error": reason(error)})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
