"""Mappings that `accelsim export` writes, evaluated by the tools that they are for; each other energy with its cause.

Run `python benchmarks/peers/exported.py`: accelsim maps each problem under the constraints of the machine for `--limit`
CPU seconds, and writes the mapping for AccelForge, which `setup.sh` installs, and for Timeloop, whose `timeloop-model`
must be on the PATH. The exit status is 1 if some energy is another one without a known cause.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compare import GOLDEN, VENVS, ask

from accelsim import load_constraints
from accelsim.importers.accelforge import export_accelforge
from accelsim.importers.documents import Map, parse
from accelsim.importers.foreign import read_foreign
from accelsim.importers.timeloop_export import CLASSIC, export_timeloop
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping, dump_mapping
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from validation.timeloop_replay import UNEXPLAINED, compare, read_statistics

FOREIGN = GOLDEN.parent / "foreign" / "accelforge" / "arches"
OF_TIMELOOP = ("two_level", "eyeriss", "simba_like")
SAME = 1e-6
"""Relative; AccelForge counts in floats of 32 bits."""
PRINTED = 2e-5
"""Relative, of what Timeloop prints."""
NO_CAUSE = "no known cause"
WINDOWS = "windows: AccelForge has no halo between steps"


@dataclass(frozen=True, slots=True)
class Row:
    """One mapping: our energy [pJ], the tool's divided by ours, and the cause where these differ."""

    tool: str
    machine: str
    problem: str
    ours_pj: float
    ratio: float
    cause: str

    def __str__(self) -> str:
        figures = f"{self.ours_pj:.6g} pJ  {self.ratio:.6f}"
        return f"{self.tool}  {self.machine}  {self.problem}  {figures}  {self.cause or 'equal'}"


def refetched(
    architecture: Architecture, einsum: Einsum, nodes: Sequence[Map], result: Result
) -> tuple[float, list[str]]:
    """Energy [pJ] of tiles that AccelForge brings anew, where here they stay, and whose they are.

    Its tile lives inside its node, which stands inside the fanouts above; so each step of a loop outside these brings
    the tile again, also of a loop that does not move it, and sums leave and come back.
    """
    rows = {(row.level, row.tensor): row for row in result.tensors}
    tensors = {tensor.name: tensor for tensor in einsum.tensors}
    left, above, homes = dict(einsum.dims), list[tuple[str, int]](), dict[str, str]()
    extra_pj, names = 0.0, list[str]()
    for node in nodes:
        if node.tag in ("!Temporal", "!Spatial"):
            dim, tile = node.value("rank_variable", str), int(node["tile_shape"])
            above += [(dim, left[dim] // tile)] if node.tag == "!Temporal" else []
            left[dim] = tile
        for name in map(str, node["tensors"] if node.tag == "!Storage" else ()):
            tensor, here, outside = tensors[name], node.value("component", str), homes.get(name)
            homes[name] = here
            moving = [index for index, (dim, _) in enumerate(above) if dim in tensor.dims]
            times = math.prod(bound for _, bound in above[moving[-1] + 1 if moving else 0 :])
            if times == 1 or outside is None:
                continue
            inner, outer = rows[here, name], rows[outside, name]
            names.append(f"{name} in {here}")
            if not tensor.output:
                extra_pj += (times - 1) * (inner.write_pj + outer.read_pj)
                continue
            instances = inner.total_updates // inner.updates
            for level, words in ((here, inner.drains * instances), (outside, outer.total_updates)):
                each = [architecture.energy.energy_pj(level, tensor.role, action) for action in ("read", "update")]
                extra_pj += (times - 1) * words * sum(each)
    return extra_pj, names


def best(architecture: Architecture, einsum: Einsum, asked: object, seconds: float) -> Mapping:
    """The even mapping of the least energy that a search finds."""
    constraints = load_constraints({"constraints": asked}, architecture, einsum) if asked else None
    budget = Budget(seconds=seconds)
    return map_einsum(architecture, einsum, constraints=constraints, uneven=False, budget=budget).best.mapping


def of_accelforge(only: str, seconds: float, folder: Path) -> Iterator[Row]:
    """Its own machines that give their energies, and the problems of its records."""
    machines = [path for path in sorted(FOREIGN.rglob("*.yaml")) if "compute_in_memory" not in path.parts]
    machines = [path for path in machines if only in ("", path.stem)]
    problems = sorted((GOLDEN / "accelforge" / "workloads").glob("*.yaml"))
    for machine, problem in ((machine, problem) for machine in machines for problem in problems):
        written = [folder / name for name in ("ours.yaml", "mapping.yaml")]
        try:
            foreign = read_foreign([machine, problem])
            architecture = load_architecture({"architecture": foreign.architecture})
            einsum = load_workload({"workload": foreign.workload}).layers[0]
            mapping = best(architecture, einsum, foreign.constraints, seconds)
            written[0].write_text(dump_mapping(mapping))
            written[1].write_text(export_accelforge([str(machine), str(problem)], str(written[0]), {}))
        except AccelsimError as error:
            yield Row("AccelForge", machine.stem, problem.stem, math.nan, math.nan, f"not exported: {error}")
            continue
        result = evaluate(architecture, einsum, mapping)
        body = parse(written[1].read_text(), str(written[1])).body
        nodes = body.inner("mapping").rows("nodes") if isinstance(body, Map) else []
        (answer,) = ask("accelforge", [{"files": [str(machine), str(problem), str(written[1])]}])
        if "error" in answer:
            cause = f"not evaluated: {' '.join(str(answer['error']).split())[:80]}"
            yield Row("AccelForge", machine.stem, problem.stem, result.energy_pj, math.nan, cause)
            continue
        theirs_pj, (extra_pj, names) = answer["energy"] * 1e12, refetched(architecture, einsum, nodes, result)
        wide = any(sum(einsum.dims[dim] > 1 for dim, _ in rank) > 1 for t in einsum.tensors for rank in t.ranks)
        cause = "" if math.isclose(theirs_pj, result.energy_pj, rel_tol=SAME) else WINDOWS if wide else NO_CAUSE
        if cause == NO_CAUSE and math.isclose(theirs_pj, result.energy_pj + extra_pj, rel_tol=SAME):
            cause = f"brought anew across a fanout: {', '.join(names)}"
        yield Row("AccelForge", machine.stem, problem.stem, result.energy_pj, theirs_pj / result.energy_pj, cause)


def of_timeloop(program: str, only: str, seconds: float, folder: Path) -> Iterator[Row]:
    """Machines that ship and a product, each figure compared as `python -m validation.timeloop_files` does."""
    einsum = load_workload({"workload": {"name": "product", "gemm": {"M": 64, "N": 64, "K": 64}}}).layers[0]
    for name in (name for name in OF_TIMELOOP if only in ("", name)):
        architecture = load_architecture(name)
        mapping = best(architecture, einsum, None, seconds)
        try:
            files = export_timeloop(architecture, einsum, mapping).files
        except AccelsimError as error:
            yield Row("Timeloop", name, einsum.name, math.nan, math.nan, f"not exported: {error}")
            continue
        own = [file for file in files if file != CLASSIC]
        for file in own:
            (folder / file).write_text(files[file])
        subprocess.run([program, *own], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        (statistics,) = folder.glob("*.stats.txt")
        theirs, result = (
            read_statistics(statistics.read_text(), str(statistics)),
            evaluate(architecture, einsum, mapping),
        )
        found = [row for row in compare(einsum, mapping, result, theirs) if row.cause]
        wires_pj = sum(network.energy_pj for network in result.networks)  # which Timeloop does not read
        left = [row for row in found if not math.isclose(row.theirs + wires_pj, row.ours, rel_tol=PRINTED)]
        causes = dict.fromkeys([*(row.cause for row in left), *["energy of wires"][: len(found) - len(left)]])
        cause = "; ".join(causes).replace(UNEXPLAINED, NO_CAUSE)
        yield Row("Timeloop", name, einsum.name, result.energy_pj, theirs.energy_pj / result.energy_pj, cause)


def main() -> int:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description="Exported mappings, evaluated by the tools that they are for.")
    parser.add_argument("--limit", type=float, default=10.0, metavar="S", help="CPU seconds of each search")
    parser.add_argument("--only", default="", metavar="MACHINE", help="only the machine of this name")
    options = parser.parse_args()
    found = list[Row]()
    with tempfile.TemporaryDirectory() as scratch:
        runs = list[Iterator[Row]]()
        if (VENVS / "accelforge").is_dir():
            runs.append(of_accelforge(options.only, options.limit, Path(scratch)))
        else:
            sys.stdout.write(f"AccelForge is not in {VENVS}: setup.sh installs it\n")
        if program := shutil.which("timeloop-model"):
            runs.append(of_timeloop(program, options.only, options.limit, Path(scratch)))
        else:
            what = "Timeloop: no `timeloop-model` on the PATH; neither PyPI nor Debian has it. Build it from"
            sys.stdout.write(f"{what} github.com/NVlabs/timeloop, and run this again\n")
        for row in (row for run in runs for row in run):
            found.append(row)
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
    equal, ratios = sum(not row.cause for row in found), sum(not math.isnan(row.ratio) for row in found)
    unknown = sum(row.cause == NO_CAUSE for row in found)
    sys.stdout.write(f"{equal} of {ratios} energies are equal, {unknown} differ without a known cause\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
