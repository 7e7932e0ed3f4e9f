"""What Timeloop printed of a mapping (`*.stats.txt`) beside our figures, each difference with its cause by name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.energies import EnergyTable
from accelsim.inputs.errors import AccelsimError, Mark
from accelsim.inputs.mapping import LevelMapping, Mapping, products
from accelsim.inputs.source import Problems
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result

TWO_ITERATIONS = "two iterations of each loop"
"""Counts as Timeloop's default finds them, which does not execute a whole loop."""
HALO, REUSE, FIRST_READS = "halo fetched again", "operand reuse at the compute", "first reads"
ACCESS = "an action that Timeloop does not know"
SPARSE, CLUSTERS, DEAREST, MODELS = "sparse", "cluster_size", "the dearest action", "energy models"
UNEXPLAINED = "no known cause"
CAUSES = {
    TWO_ITERATIONS: "Timeloop visits two iterations of each loop and extrapolates",
    HALO: "Timeloop before 2025 keeps no halo if a loop inside does not move the tile",
    REUSE: "Timeloop asks once for an operand that the innermost loops do not move, below a container with a mesh; "
    "`holds` of the compute unit says so here",
    FIRST_READS: "Timeloop before v0.4 counts partial sums that come in for the first time as fills",
    CLUSTERS: "Timeloop charges an access of a cluster whole, also where some of its instances are idle",
    DEAREST: "older versions of Timeloop charge each access of a storage what its dearest action takes",
    ACCESS: "Timeloop looks for `read` and `write` in the ERT; a part with `access` alone costs what Timeloop likes",
    SPARSE: "Timeloop leaves out what zeros save; the design is counted dense here",
    MODELS: "accelsim's own models say what an action takes; name Timeloop's ERT (*.ERT.yaml) among the files",
    UNEXPLAINED: "please report it",
}
"""What each cause means."""
_TENSOR = re.compile(r" {4}([A-Za-z_]\w*(?: \(Streamed\))?):")
_ACCESS = re.compile(
    r"^ +(?:(Algorithmic|Actual|Gated|Skipped) scalar|Scalar) (?:format (read|fill|update)s \(per-instance\)|"
    r"(read|fill|update)s \(per-instance\)\s*:\s*(\S*))"
)
_RANK = re.compile(r"^ +Rank \d+ \(metadata, payload\): \(([^,]*), *([^)]*)\)")
_COMPUTES = re.compile(r"^ +(?:(Algorithmic|Actual|Gated|Skipped) )?Computes \(total\) +: *(\S*)")
_INSTANCES = re.compile(r"^ +Instances +: *(\S*)")
_READ = re.compile(r"^ +Vector read energy +: *(\S*)")
_ENERGY = re.compile(r"^ +(Energy|Leakage energy) \(total\) +: *(\S*)")
_CLUSTERS = re.compile(r"^ +(Cluster size|Utilized clusters \(max\)) +: *(\S*)")
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?(e[+-]?[0-9]{1,2})?")
_KINDS = {None: "dense actual", "Algorithmic": "dense"}
_COUNTS = ("read", "fill", "update")
_DIGITS = 1e-6
"""Relative; Timeloop prints energies to 0.01 pJ, and energies of actions to six digits after the point."""


@dataclass
class Statistics:
    """What Timeloop printed of a mapping: counts of one instance by (level, tensor), and energies [pJ] of all.

    Accesses and units of metadata are by kind and action; what is printed without a kind is `dense`, and `actual`, and
    what is called algorithmic is `dense`.
    `clustered` are the instances of all clusters that each tensor uses, at levels where several share an access.
    `instances` are those of each level and of the compute unit.
    """

    cycles: int
    energy_pj: float = 0.0
    accesses: dict[tuple[str, str], dict[tuple[str, str], float]] = field(default_factory=dict)
    units: dict[tuple[str, str], dict[tuple[str, str], tuple[float, float]]] = field(default_factory=dict)
    energies: dict[tuple[str, str], float] = field(default_factory=dict)
    clustered: dict[tuple[str, str], float] = field(default_factory=dict)
    instances: dict[str, float] = field(default_factory=dict)
    computes: dict[str, float] = field(default_factory=dict)
    read_pj: dict[str, float] = field(default_factory=dict)
    streamed_pj: float = 0.0


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of both: `cause` is empty where they are equal."""

    what: str
    ours: float
    theirs: float
    cause: str = ""


def read_statistics(text: str, file: str) -> Statistics:
    """Read a `*.stats.txt` of the classic analysis; raises AccelsimError if it is none, or numbers in it are not."""
    cycles = re.search(r"^Cycles: (\d{1,18})$", text, re.MULTILINE)
    if cycles is None:
        raise AccelsimError(f"{file}: not the statistics of a mapping: no line `Cycles: …` in it")
    found, problems = Statistics(int(cycles[1])), Problems()
    level = tensor = ""
    size = 1.0
    held: tuple[str, str] | None = None

    def number(line: re.Match[str], group: int = 2) -> float:
        """Return the number in a group; what is none there is reported."""
        if not _NUMBER.fullmatch(line[group]):
            what = f"expected a number, got {quoted(line[group])}"
            problems.add(replace(place, column=line.start(group) + 1), what)
            return 0.0
        return int(line[group]) if line[group].isdigit() else float(line[group])

    for row, line in enumerate(text.partition("\nNetworks\n")[0].splitlines(), 1):
        place = Mark(file, row, 1)
        if line.startswith("=== "):
            level, tensor, held, size = line.strip("= "), "", None, 1.0
        elif header := _TENSOR.fullmatch(line):
            tensor, held = header[1], None
        key = level, tensor
        if access := _ACCESS.match(line):
            kinds, action = _KINDS.get(access[1], str(access[1]).lower()).split(), access[3]
            held = (kinds[-1], access[2]) if access[2] else None
            if action:
                counts = dict.fromkeys(((kind, action) for kind in kinds), number(access, 4))
                found.accesses.setdefault(key, {}).update(counts)
        elif (rank := _RANK.match(line)) and held:
            at = found.units.setdefault(key, {}).get(held, (0, 0))
            found.units[key][held] = at[0] + number(rank, 1), at[1] + number(rank)
        elif computes := _COMPUTES.match(line):
            found.computes[(computes[1] or "Actual").lower()] = number(computes)
        elif instances := _INSTANCES.match(line):
            found.instances[level] = number(instances, 1)
        elif read := _READ.match(line):
            found.read_pj[level] = number(read, 1)
        elif energy := _ENERGY.match(line):
            found.energy_pj += (pj := number(energy))
            if "(" in tensor:
                found.streamed_pj += pj
            elif tensor and energy[1] == "Energy":
                found.energies[key] = pj
        elif cluster := _CLUSTERS.match(line):
            if not tensor:
                size = number(cluster)
            elif size > 1:
                found.clustered[key] = number(cluster) * size
    return problems.result(found)


def of_another(architecture: Architecture, einsum: Einsum, mapping: Mapping, theirs: Statistics) -> list[str]:
    """Say each thing that statistics are of, and that the machine or the layer has otherwise."""
    names = [*(level.name for level in architecture.levels), architecture.compute.name]
    has = {name: f"{architecture.instances(index):,}" for index, name in enumerate(names)}
    has |= {name: f"none, but {listed(names)}" for name in theirs.instances.keys() - has}
    printed = ((name, f"{many:,}") for name, many in theirs.instances.items())
    found = [f"{many} {name}, and the machine has {has[name]}" for name, many in printed if many != has[name]]
    macs = theirs.computes.get("algorithmic", theirs.computes.get("actual", einsum.macs))
    if macs != einsum.macs and not mapping.imperfect:  # with remainders Timeloop counts otherwise
        found.append(f"{macs:,} MACs, and {einsum.name} has {einsum.macs:,}")
    return [f"the statistics are of {each}" for each in found]


def compare(
    einsum: Einsum,
    mapping: Mapping,
    ours: Result,
    theirs: Statistics,
    unexplained: str = UNEXPLAINED,
    energies: str | None = None,
    dearest: Result | None = None,
    accessed: Set[str] = frozenset(),
) -> Iterator[Difference]:
    """Every figure that both have: counts of one instance, energies [pJ] and cycles.

    `dearest` is our result of the mapping where all accesses of a level cost what the dearest of them does; `accessed`
    are levels whose energies stand under an action that Timeloop does not know.
    An energy that differs as its counts do has their cause; a total that differs by what these explain has all of
    theirs. What nothing explains has the cause `unexplained`, or `energies` if it is one.
    """
    other = energies or unexplained
    halos = [(TWO_ITERATIONS, default_counts(einsum, mapping, ours))]
    halos.append((HALO, default_counts(einsum, mapping, ours, whole_tiles)))
    named = {tensor.name: tensor for tensor in einsum.tensors}
    explained, causes = 0.0, dict[str, None]()
    mine = {(one.level, one.tensor): one for one in ours.tensors}
    alike = {(one.level, one.tensor): one.energy_pj for one in (dearest or ours).tensors}
    used = {level.level: level.used_instances for level in ours.levels}
    printed = dict.fromkeys((*theirs.accesses, *theirs.energies))
    for key in dict.fromkeys((*mine, *printed)):
        name = " ".join(key)
        if key not in mine or key not in printed:
            yield Difference(f"{name} kept", float(key in mine), float(key in printed), unexplained)
            continue
        counts, found = theirs.accesses.get(key, {}), set[str]()
        for index, what in enumerate(_COUNTS, 1):
            our, their = getattr(mine[key], f"{what}s"), counts.get(("dense", what), 0.0)
            known = [why for why, visited in halos if key in visited and visited[key][index] == their]
            if what == "read" and our == their * _held(mapping, named[key[1]], key[0]):
                known.append(REUSE)
            if what == "fill" and their == our + mine[key].updates - mine[key].reads:
                known.append(FIRST_READS)
            cause = "" if our == their else (known or [unexplained])[0]
            found |= {cause} - {""}
            yield Difference(f"{name} {what}s", our, their, cause)
        energy = theirs.energies.get(key, 0.0)
        same = math.isclose(mine[key].energy_pj, energy, rel_tol=_DIGITS, abs_tol=0.01)
        others = {CLUSTERS: mine[key].energy_pj * theirs.clustered.get(key, 0) / used[key[0]], DEAREST: alike[key]}
        near = (why for why, pj in others.items() if math.isclose(pj, energy, rel_tol=_DIGITS, abs_tol=0.01))
        found |= set() if same else {*near, *([ACCESS] if key[0] in accessed else [])}
        cause = "" if same else ", ".join(sorted(found)) or other
        explained += 0.0 if same else mine[key].energy_pj - energy
        causes |= dict.fromkeys([] if same else sorted(found) or [other])
        yield Difference(f"{name} energy [pJ]", mine[key].energy_pj, energy, cause)
    left = math.isclose(ours.energy_pj - explained, theirs.energy_pj, rel_tol=2e-5, abs_tol=0.01)
    equal = math.isclose(ours.energy_pj, theirs.energy_pj, rel_tol=2e-5, abs_tol=0.01)
    why = "" if equal else ", ".join(causes) if left and causes else other
    yield Difference("energy [pJ]", ours.energy_pj, theirs.energy_pj, why)
    yield Difference("cycles", ours.cycles, theirs.cycles, "" if ours.cycles == theirs.cycles else unexplained)


def reused_roles(einsum: Einsum, differences: Sequence[Difference]) -> frozenset[str]:
    """Roles of which Timeloop's compute units hold the last word."""
    names = {row.what.split()[1] for row in differences if row.cause == REUSE}
    return frozenset(tensor.role for tensor in einsum.tensors if tensor.name in names)


def evaluate_dearest(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> Result:
    """Evaluate a mapping on a machine whose levels charge each access what the dearest of a role's actions takes."""
    entries = dict(architecture.energy.entries)
    accesses = [key for key in entries if key[2] in ("read", "write", "update")]
    for key in accesses:
        actions = (architecture.energy.entries[other] for other in accesses if other[:2] == key[:2])
        entries[key] = max(actions, key=lambda entry: entry.energy_pj)
    return evaluate(replace(architecture, energy=EnergyTable(entries)), einsum, mapping)


def evaluate_holding(architecture: Architecture, einsum: Einsum, mapping: Mapping, holds: frozenset[str]) -> Result:
    """Evaluate a mapping on a machine whose compute units hold the last words of some roles (`holds`)."""
    machine = replace(architecture, compute=replace(architecture.compute, holds=holds))
    operands = LevelMapping(machine.levels[-1].name, keep=frozenset(t.name for t in einsum.tensors if t.role in holds))
    found = evaluate(machine, einsum, replace(mapping, levels=(*mapping.levels, operands)))
    return replace(found, tensors=tuple(one for one in found.tensors if one.level != operands.level))


def _held(mapping: Mapping, tensor: Tensor, level: str) -> int:
    """Iterations of the innermost loops in time that ask for the same word, if no level inside one keeps it."""
    held = 1
    for inner in reversed(mapping.levels):
        for loop in reversed(inner.temporal):
            if loop.dim in tensor.dims and loop.bound > 1:
                return held
            held *= loop.bound
        if inner.level == level or tensor.name in inner.keep:
            return held
    return held


_Vector = tuple[int, ...]
"""How far a step moves a tile along each rank."""


def default_counts(
    einsum: Einsum, mapping: Mapping, result: Result, words: Callable[[Mapping, Tensor, int], int] | None = None
) -> dict[tuple[str, str], list[int]]:
    """Counts of windowed inputs as Timeloop's default finds them, which visits only iterations 0 and 1 of each loop.

    Where an outer loop steps on, the loops inside it are then seen to wrap from iteration 1, not from their last one;
    so the step vector there differs from the real one where two loops move the same rank (its README, rule 6).
    Another count of the words into a tile, such as `whole_tiles`, may stand in for that.
    """
    words = words or _default_words
    found = {}
    exact = {(t.level, t.tensor): t for t in result.tensors}
    distinct = {(n.level, n.tensor): n.distinct for n in result.networks}
    names = [level.level for level in result.levels]
    for tensor in einsum.tensors:
        if tensor.output or all(len(rank) == 1 for rank in tensor.ranks):
            continue
        kept = [index for index, name in enumerate(names) if (name, tensor.name) in exact]
        into = {index: words(mapping, tensor, index) for index in kept[1:]}
        for index, child in zip(kept, [*kept[1:], None], strict=True):
            counts = exact[names[index], tensor.name]
            reads = counts.reads
            if child is not None:
                reads = into[child] * math.prod(distinct[names[k], tensor.name] for k in range(index, child))
            fills, instances = into.get(index, 0), result.levels[index].used_instances
            found[names[index], tensor.name] = [counts.tile_words, reads, fills, 0, instances]
    return found


def whole_tiles(mapping: Mapping, tensor: Tensor, level: int) -> int:
    """Words into a tile if each tile is fetched as a whole, though the loop that moves it leaves a halo in place."""
    inside = products(loop for mapped in mapping.levels[level:] for loop in mapped.loops)
    loops = [loop for mapped in mapping.levels[:level] for loop in mapped.temporal if loop.bound > 1]
    while loops and loops[-1].dim not in tensor.dims:
        loops.pop()
    box = tensor.box({dim: inside.get(dim, 1) for dim in tensor.dims})
    return math.prod(box) * math.prod(loop.bound for loop in loops)


def _default_words(mapping: Mapping, tensor: Tensor, level: int) -> int:
    """Words into a tile if of each loop only the iterations 0 and 1 are visited, and 1 stands for all later ones."""
    inside: dict[str, int] = {}
    outside: list[tuple[str, int, int]] = []  # innermost first: dimension, bound, step
    for index in range(len(mapping.levels) - 1, -1, -1):
        mapped = mapping.levels[index]
        for loop in (*mapped.y, *mapped.x):
            inside[loop.dim] = inside.get(loop.dim, 1) * loop.bound
        for loop in reversed(mapped.temporal):
            if index < level and loop.bound > 1:
                outside.append((loop.dim, loop.bound, inside.get(loop.dim, 1)))
            inside[loop.dim] = inside.get(loop.dim, 1) * loop.bound
        if index == level:
            box = tensor.box({dim: inside.get(dim, 1) for dim in tensor.dims})
    rank_of = {dim: (r, factor) for r, rank in enumerate(tensor.ranks) for dim, factor in rank}
    vectors, wrap = [], (0,) * len(box)
    for dim, _, step in outside:
        forward = [0] * len(box)
        if dim in rank_of:
            forward[rank_of[dim][0]] = rank_of[dim][1] * step
        vectors.append(tuple(f - w for f, w in zip(forward, wrap, strict=True)))
        wrap = tuple(f + w for f, w in zip(forward, wrap, strict=True))

    @cache
    def visit(loops: int, remembered: _Vector | None) -> tuple[int, _Vector | None]:
        """Words that the steps of the innermost loops bring, and the vector that is remembered after them."""
        if not loops:
            return 0, remembered
        first, remembered = visit(loops - 1, remembered)
        step, remembered = _words_of_step(box, vectors[loops - 1], remembered)
        second, remembered = visit(loops - 1, remembered)
        return first + (outside[loops - 1][1] - 1) * (step + second), remembered

    return math.prod(box) + visit(len(outside), None)[0]


def _words_of_step(box: Sequence[int], vector: _Vector, remembered: _Vector | None) -> tuple[int, _Vector | None]:
    """Words that a step of a tile brings, and the vector that is remembered after it (its README, rule 5)."""
    moved = [r for r, far in enumerate(vector) if far]
    if not moved:
        return 0, remembered
    whole = math.prod(box)
    if remembered not in (None, vector):
        return whole, None
    r = moved[0]
    return (whole // box[r] * min(box[r], abs(vector[r])) if len(moved) == 1 else whole), vector
