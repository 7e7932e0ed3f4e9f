"""Which core of a system runs each layer: for least energy, least latency along the graph, or most runs a second.

Axis letters: L = layers in the order in which they run, E = cores. docs/networks.md says what is counted.

Energy is a sum over layers and over the tensors that cross between cores. It is minimized layer by layer over the
cores of those layers whose outputs are still to be read, which is exact. Latency is a branch and bound over
schedules: no layer starts before its inputs are there, and a core runs one layer at a time. For throughput the
cores work on different runs at once, and what counts is the core, or the shared memory, that is busy for longest:
a mixed-integer programme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.inputs.errors import AccelsimError, require
from accelsim.model.encode import Floats, Ints

_NODES = 300_000
"""Nodes that the search for the least latency visits at most."""
_SAME = 1e-12


@dataclass(frozen=True, slots=True)
class CoreCosts:
    """What all runs of each layer in a network cost on each core: float64[L, E], and int64[L] of the runs."""

    energy: Floats  # [pJ]; infinite where a core cannot run the layer
    seconds: Floats
    memory: Floats  # time in which they use the shared memory alone [s]; 0 where it has no bandwidth
    runs: Ints  # a core takes whole runs
    edges: tuple[tuple[int, int, float], ...]  # producer, consumer, bits between them in all runs of the consumer
    transfer_pj: float = 0.0  # of a bit that goes from one core to another
    transfer_s: float = 0.0

    def transfer_bits(self, cores: Sequence[int]) -> float:
        """Bits that go from one core to another where each layer is on one."""
        return sum(bits for a, b, bits in self.edges if cores[a] != cores[b])


@dataclass(frozen=True, slots=True)
class Assignment:
    """Runs of each layer on each core, what that comes to, and what nothing falls below."""

    runs: Ints  # int64[L, E]
    value: float  # energy [pJ], or time [s] of a run or between two runs
    bound: float
    starts: tuple[float, ...] = ()  # when each layer starts [s], for latency


def _on(cores: Sequence[int], costs: CoreCosts) -> Ints:
    """Runs on each core where all runs of a layer are on one."""
    found = np.zeros(costs.energy.shape, np.int64)
    found[np.arange(len(cores)), list(cores)] = costs.runs
    return found


def least_energy(costs: CoreCosts) -> Assignment:
    """The assignment of least energy, what crosses between cores included."""
    layers, cores = costs.energy.shape
    last = {layer: layer for layer in range(layers)}
    for producer, consumer, _ in costs.edges:
        last[producer] = max(last[producer], consumer)
    known: dict[tuple[int, ...], tuple[float, tuple[int, ...]]] = {(): (0.0, ())}
    alive: list[int] = []  # layers whose cores the keys hold
    for layer in range(layers):
        inputs = [(alive.index(a), bits * costs.transfer_pj) for a, b, bits in costs.edges if b == layer]
        kept = [place for place, other in enumerate(alive) if last[other] > layer]
        goes_on = last[layer] > layer
        found: dict[tuple[int, ...], tuple[float, tuple[int, ...]]] = {}
        for key, (energy, chosen) in known.items():
            for core in range(cores):
                total = energy + costs.energy[layer, core]
                total += sum(pj for place, pj in inputs if key[place] != core)
                rest = (*(key[place] for place in kept), *((core,) if goes_on else ()))
                if total < found.get(rest, (math.inf, ()))[0]:
                    found[rest] = float(total), (*chosen, core)
        alive = [alive[place] for place in kept] + ([layer] if goes_on else [])
        known = found
    energy, chosen = min(known.values())
    return Assignment(_on(chosen, costs), energy, energy)


def least_latency(costs: CoreCosts, nodes: int = _NODES) -> Assignment:
    """The schedule of one run that ends first; its bound is looser where more nodes would have to be visited."""
    layers, cores = costs.seconds.shape
    least = costs.seconds.min(axis=1)
    before: list[list[tuple[int, float]]] = [[] for _ in range(layers)]
    tail = [float(each) for each in least]
    for a, b, bits in costs.edges:
        before[b].append((a, bits * costs.transfer_s))
    for layer in range(layers - 1, -1, -1):
        for a, _ in before[layer]:
            tail[a] = max(tail[a], float(least[a]) + tail[layer])
    floor = max(tail)
    ends, on, starts = [0.0] * layers, [-1] * layers, [0.0] * layers
    best, chosen, at = math.inf, [0] * layers, tuple(starts)
    visited, complete = 0, True

    def choices(free: Sequence[float], latest: float) -> list[tuple[float, float, int, int]]:
        """Layers that can come next, with when they start, most urgent first."""
        found = []
        for layer in range(layers):
            if on[layer] >= 0 or any(on[a] < 0 for a, _ in before[layer]):
                continue
            for core in range(cores):
                if costs.seconds[layer, core] == math.inf:
                    continue
                ready = max((ends[a] + (cross if on[a] != core else 0.0) for a, cross in before[layer]), default=0.0)
                start = max(ready, free[core], latest)
                rest = tail[layer] - float(least[layer])
                found.append((start + float(costs.seconds[layer, core]) + rest, start, layer, core))
        return sorted(found)

    def open_bound(latest: float) -> float:
        """What no schedule that goes on from here falls below."""
        bound = latest
        for layer in range(layers):
            if on[layer] < 0:
                ready = max((ends[a] for a, _ in before[layer] if on[a] >= 0), default=0.0)
                bound = max(bound, max(ready, latest) + tail[layer])
        return bound

    path: list[int] = []
    stack = [(choices([0.0] * cores, 0.0), (0.0,) * cores)]
    while stack:
        options, free = stack[-1]
        if len(path) == len(stack):  # back from the option before
            on[path.pop()] = -1
        if not options or visited > nodes or best <= floor * (1 + _SAME):
            complete = complete and (not options or best <= floor * (1 + _SAME))
            stack.pop()
            continue
        bound, start, layer, core = options.pop(0)
        if bound >= best * (1 - _SAME):
            continue
        visited += 1
        end = start + float(costs.seconds[layer, core])
        on[layer], starts[layer], ends[layer] = core, start, end
        path.append(layer)
        now = (*free[:core], end, *free[core + 1 :])
        done = -1 not in on
        if done:
            best, chosen, at = min(best, max(now)), list(on), tuple(starts)
        stack.append(([] if done or open_bound(start) >= best * (1 - _SAME) else choices(now, start), now))
    return Assignment(_on(chosen, costs), best, best if complete else floor, at)


def most_throughput(costs: CoreCosts, seconds: float = 60.0) -> Assignment:
    """Runs of layers on cores so that the busiest, or the shared memory, is busy for as short as possible.

    What crosses between cores takes no time of theirs here. HiGHS solves it as a mixed-integer programme, to its
    tolerance of 1e-6, or for so many seconds. Raises AccelsimError if scipy is missing, or nothing was found in time.
    """
    require("scipy.optimize", "throughput needs it", "systems")
    from scipy.optimize import Bounds, LinearConstraint, milp

    layers, cores = costs.seconds.shape
    can = np.isfinite(costs.seconds)
    runs = costs.runs.astype(np.float64)[:, None]
    busy = np.zeros((cores + 1, layers, cores))  # time that one run adds to each core, and to the memory
    for core in range(cores):
        busy[core, :, core] = np.where(can, costs.seconds, 0.0)[:, core] / runs[:, 0]
    busy[cores] = np.where(can, costs.memory, 0.0) / runs
    unit = float(np.where(can, costs.seconds, np.inf).min(axis=1).sum())
    least = np.zeros(layers * cores + 1)
    least[-1] = 1.0  # the last variable is the time between two runs, in `unit`
    limits = np.hstack([busy.reshape(cores + 1, -1) / unit, -np.ones((cores + 1, 1))])
    each = np.hstack([np.kron(np.eye(layers), np.ones(cores)), np.zeros((layers, 1))])
    solved = milp(
        least,
        constraints=[LinearConstraint(limits, -np.inf, 0.0), LinearConstraint(each, costs.runs, costs.runs)],
        integrality=1.0 - least,
        bounds=Bounds(0.0, np.append((can * runs).reshape(-1), np.inf)),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if solved.x is None:
        raise AccelsimError(f"no assignment was found in {seconds:g} s: {solved.message}")
    found = np.rint(solved.x[:-1]).astype(np.int64).reshape(layers, cores)
    value = float((busy * found).sum(axis=(1, 2)).max())
    return Assignment(found, value, min(value, float(solved.mip_dual_bound) * unit))
