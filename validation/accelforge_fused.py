"""Compare fused and unfused networks with AccelForge's; validation/reports/fusion.md says how.

`python -m validation.accelforge_fused [CASE ...] [--time-limit S] [--json] [--csv FILE]`: all cases, or those with such
a part in their name, as `tpu_v4i`. AccelForge's files and figures are in `../shared` or `ACCELSIM_SHARED`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelsim import cli
from accelsim.api.asked import Asked
from accelsim.api.networks import fuse_problem
from accelsim.api.problem import MappingProblem, read_problem
from accelsim.inputs.architecture import Architecture
from accelsim.show.report.gpu import short_percent
from accelsim.show.table import Column, Piece, Table, heading
from validation.command import Answer, run_alone
from validation.study import read_table, reference_paths

USUAL, FILES = "golden/accelforge_fused/references.csv", "foreign/accelforge"
"""Where AccelForge's figures and files are in the folder of reference data."""
COSTS = "golden/accelforge/machines/arch_eyeriss.json"
"""What AccelForge's component models say of Eyeriss."""
KEY = "machine|workload|parameters|fusion"
SAME = 1e-6
"""AccelForge computes in single precision."""
FINER, SHARE = ("tpu_v4i|matmuls", "tpu_v4i|three_matmuls"), 100_000
"""Cases of few cycles, and cycles of ours in one: each layer ends with a whole one, and AccelForge has fractions."""
SECONDS = 120.0
RATES = ("bandwidth", "read_bandwidth", "write_bandwidth", "network_bandwidth")
USUALLY, MORE = ("edp", None, 1.0), 2.5
ASKED = {"snowcat": ("energy", 1, 1.0), "tpu_v4i|gpt3_175B": ("energy", 3, MORE)}
"""Objective, layers of a group at most, and time, relative to that of others, of cases that begin so.

AccelForge's figures of snowcat are of single layers. On the other one, EDP takes too long; the least energy is fast."""
MIXTRAL = {"N_HEADS": 8, "N_Q_HEADS_PER_KV_HEAD": 6, "N_EMB_PER_HEAD": 128, "N_HIDDEN_DIMS": 6144, "N_FF_DIMS": 16384}
MIXTRAL |= {"N_EXPERTS": 8, "N_EXPERTS_PER_TOKEN": 2, "MAX_N_TOKENS": 65536}
"""Sizes of mixtral8x22B (its config.json), which the folder lacks; its layers are those of Qwen3 with experts."""
COPIES = {"mixtral8x22B": ("Z_per_expert", "FFB"), "llama4_scout": ("Z_per_expert", "RFFB")}
"""Layers that copy, by workload. AccelForge lets them move no words."""


def read_references(path: Path) -> list[dict[str, Any]]:
    """Read AccelForge's figures: what of, energy [J] and latency [s]; `case` names all but what is fused."""

    def row(_: str, cells: dict[str, str], __: list[str]) -> dict[str, Any]:
        case, _, fusion = cells[KEY].rpartition("|")
        machine, workload, parameters = case.split("|")
        of = {"case": case, "machine": machine, "workload": workload, "parameters": parameters, "fusion": fusion}
        return {**of, "accelforge_j": float(cells["energy"]), "accelforge_s": float(cells["latency"])}

    return read_table(path, (KEY, "energy", "latency"), row)


def _eyeriss(text: str, levels: Sequence[Mapping[str, Any]]) -> str:
    """The file of Eyeriss with the energies, rates and leakage that AccelForge's component models give."""
    text = re.sub(
        r"(?m)^ +(component_class|extra_attributes_for_c.*_model|actions|- \{name: (read|write)).*\n", "", text
    )
    for level in levels:
        actions = [
            f"    - {{name: {name}, energy: {each['energy_j']!r}, throughput: {each['throughput_actions_per_s']!r}"
            + (f", bits_per_action: {each['bits_per_action']:g}}}\n" if name != "compute" else "}\n")
            for name, each in level.get("actions", {}).items()
        ]
        leak = f"    leak_power: {level.get('leak_power_w_per_instance')!r}\n    actions:\n" if actions else ""
        text = text.replace(f"name: {level['name']}\n", f"name: {level['name']}\n{leak}{''.join(actions)}")
    return text


def _mixtral(folder: Path) -> str:
    sizes = "".join(f"{{% set {name} = {size} %}}\n" for name, size in MIXTRAL.items())
    model = '{% set FEEDFORWARD_TYPE = "moe" %}\n{% set MODEL = include("_qwen3.yaml", "") %}\n'
    path = f'{{{{add_to_path("{folder / "workloads/transformers/qwen"}")}}}}\n'
    return f"{path}{sizes}{model}workload: {{{{MODEL}}}}.workload\nrenames: {{{{MODEL}}}}.renames\n"


def finer(architecture: Architecture) -> Architecture:
    """The same machine with a faster clock, of which each cycle does as much less; leakage must be 0."""
    levels = []
    for level in architecture.levels:
        limits = {name: getattr(level, name) for name in RATES}
        levels.append(replace(level, **{name: rate / SHARE for name, rate in limits.items() if rate is not None}))
    units = [
        replace(unit, operations={name: count * SHARE for name, count in unit.operations.items()})
        for unit in architecture.vector_units
    ]
    compute = replace(architecture.compute, cycles_per_mac=architecture.compute.cycles_per_mac * SHARE)
    clock_hz = (architecture.clock_hz or 1e9) * SHARE
    return replace(architecture, levels=tuple(levels), compute=compute, vector_units=tuple(units), clock_hz=clock_hz)


def _problem(row: Mapping[str, Any], folder: Path, costs: Sequence[Mapping[str, Any]]) -> MappingProblem:
    """AccelForge's files of a case; its templates are read inside its folder."""
    with tempfile.TemporaryDirectory() as made, contextlib.chdir(folder):
        machine, workload = folder / "arches" / f"{row['machine']}.yaml", Path(made, f"{row['workload']}.yaml")
        if row["machine"] == "eyeriss":
            text, machine = machine.read_text(), Path(made, machine.name)
            machine.write_text(_eyeriss(text, costs))
        workload.write_text(_mixtral(folder))
        found = next((folder / "workloads").rglob(workload.name), workload)
        params = dict(each.split("=") for each in row["parameters"].split(",") if each)
        problem = read_problem(str(machine), str(found), params=params)
    return problem.of(finer(problem.architecture)) if row["case"].startswith(FINER) else problem


def compare(references: Sequence[dict[str, Any]], shared: Path, seconds: float = SECONDS) -> Iterator[dict[str, Any]]:
    """Rows of references with the least that `accelsim fuse` finds in so many seconds for each case."""
    costs = json.loads((shared / COSTS).read_text())["levels_outer_to_inner"]
    for case, rows in itertools.groupby(references, lambda row: str(row["case"])):
        objective, longest, more = next((how for begin, how in ASKED.items() if case.startswith(begin)), USUALLY)
        asked = Asked(objective, "even", "perfect", time_limit=seconds * more, jobs=1, cache=False)
        several = list(rows)
        problem, begin = _problem(several[0], shared / FILES, costs), time.process_time()
        network = fuse_problem(problem, asked, longest=longest).found
        cpu_s = time.process_time() - begin
        for row in several:
            totals = network.totals if row["fusion"] == "fused" else network.unfused
            leak_w = costs[-1]["leak_power_w_total"] if row["machine"] == "eyeriss" else 0.0  # of the MACs
            theirs_j, theirs_s = row["accelforge_j"] - leak_w * row["accelforge_s"], row["accelforge_s"]
            energy_j, took = totals.energy_pj * 1e-12, totals.cycles / (problem.architecture.clock_hz or 1e9)
            copies_pj = sum(
                segment.repeat * result.energy_pj
                for segment in network.segments
                for layer, result in zip(segment.layers, segment.alone, strict=True)
                if layer.name in COPIES.get(row["workload"], ())
            )
            ratio = energy_j / theirs_j * (took / theirs_s if theirs_s else 1.0)
            rest = ratio * (1 - copies_pj / totals.energy_pj)
            yield row | {
                "objective": objective, "accelforge_j": theirs_j, "accelsim_j": energy_j, "accelsim_s": took,
                "ratio": ratio, "gap": network.certificate.gap, "cpu_s": cpu_s,
                "why": f"copies; ratio {rest:.6f} without" if rest <= 1 + SAME < ratio else "",
            }  # fmt: skip


def report(rows: Sequence[Mapping[str, Any]], seconds: float) -> Iterator[Piece]:
    """Each figure beside AccelForge's; CSV has the parameters too."""
    yield heading("AccelForge", "least EDP (snowcat: energy) of networks, fused and layer by layer")
    yield "Source: AccelForge, commit 1c1929c2, its regression test; on Eyeriss less the leakage of MACs"
    columns = (
        Column("architecture", "machine", once=True),
        Column("network", _network, left=True, once=True),
        Column("layers", "fusion", left=True),
        Column("AccelForge", lambda row: f"{row['accelforge_j']:.5g} J"),
        Column("", "accelforge_s", lambda value: f"{value:.5g} s" if value else ""),
        Column("accelsim", lambda row: f"{row['accelsim_j']:.5g} J"),
        Column("", lambda row: f"{row['accelsim_s']:.5g} s" if row["accelforge_s"] else None),
        Column("ratio", "ratio", "{:.6f}".format),
        Column("gap", "gap", lambda value: short_percent(value) if value >= 1e-10 else "proved"),
        Column("CPU [s]", "cpu_s", "{:.0f}".format),
    )
    yield Table("accelforge_fused", columns, rows)
    above = [row for row in rows if row["ratio"] > 1 + SAME]
    equal = sum(abs(row["ratio"] - 1) <= SAME for row in rows)
    yield "ratio: of EDP, on snowcat of energy, ours over AccelForge's; gap: of ours, fused, to its lower bound"
    lower, explained = len(rows) - equal - len(above), sum(bool(row["why"]) for row in above)
    yield f"{len(rows)} figures: {equal} equal to {SAME:g}, {lower} lower, {len(above)} higher ({explained} explained)"
    yield from (f"{_network(row)}: {row['why']}" for row in above if row["why"])
    yield f"at most {seconds:g} s a network; tpu_v4i's gpt3_175B: {MORE:g} times that, least energy of groups of 3"


def _network(row: Mapping[str, Any]) -> str:
    return str(row["workload"]).removesuffix("_annotated") + (" decode" if "DECODE=True" in row["parameters"] else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; 1 if a figure is above AccelForge's for no known reason."""
    made = argparse.ArgumentParser(prog="python -m validation.accelforge_fused", description=__doc__)
    made.add_argument("cases", nargs="*", metavar="CASE", help="part of the name of a case, as tpu_v4i")
    what = f"stop each network after S seconds [{SECONDS:g}]"
    made.add_argument("--time-limit", metavar="S", type=cli.seconds, default=SECONDS, help=what)

    def answer(parsed: argparse.Namespace) -> Answer:
        path = reference_paths((), USUAL)[0].resolve()
        asked = [each for each in read_references(path) if any(part in each["case"] for part in parsed.cases or [""])]
        rows = list(compare(asked, path.parents[2], parsed.time_limit))
        return Answer({"references": rows}, lambda: report(rows, parsed.time_limit))

    code, document = run_alone(made, arguments, answer)
    wrong = [row for row in document.get("references", ()) if row["ratio"] > 1 + SAME and not row["why"]]
    return cli.DIFFERS if wrong else code


if __name__ == "__main__":
    sys.exit(main())
