"""The command `replay`: what Timeloop said of a mapping beside our figures, and beside our optimum."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from accelsim.cli.inputs import read_overrides
from accelsim.cli.printing import DIFFERS, DONE, answer
from accelsim.importers.foreign import Foreign, read_foreign
from accelsim.importers.timeloop_replay import CAUSES, SPARSE, UNEXPLAINED, Difference, compare, read_statistics
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.constraints import load_constraints
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.inputs.files import read_utf8
from accelsim.inputs.mapping import load_mapping
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from accelsim.search.strategy import Budget
from accelsim.show.table import Column, Part, Table, bold


def replay_command(arguments: argparse.Namespace) -> int:
    """Evaluate a mapping of Timeloop and show where its statistics differ, and why."""
    statistics = [name for name in arguments.files if name.endswith(".stats.txt")]
    if len(statistics) != 1:
        raise AccelsimError(f"expected one file that ends in .stats.txt, got {len(statistics)}")
    theirs = read_statistics(read_utf8(statistics[0]), statistics[0])
    others = [name for name in arguments.files if name not in statistics]
    if not others:
        raise AccelsimError(f"{statistics[0]}: the inputs are missing; name architecture, problem and mapping too")
    foreign = read_foreign(others, "timeloop", read_overrides(arguments))
    if foreign.architecture is None or foreign.workload is None or foreign.mapping is None:
        missing = [kind for kind in ("architecture", "workload", "mapping") if getattr(foreign, kind) is None]
        raise AccelsimError(f"{others[0]}: the files hold no {' and no '.join(missing)}")
    sys.stderr.write("".join(f"{note}\n" for note in foreign.notes))
    architecture = load_architecture({"architecture": foreign.architecture})
    einsum = load_workload({"workload": foreign.workload}).layers[0]
    mapping = load_mapping({"mapping": foreign.mapping}, architecture, einsum)
    sparse = any("sparse" in note.why for note in foreign.notes)
    result = evaluate(architecture, einsum, mapping)
    rows = list(compare(einsum, mapping, result, theirs, SPARSE if sparse else UNEXPLAINED))
    best = _optimum(arguments, foreign, architecture, einsum)
    document = {
        "figures": [asdict(row) for row in rows], "energies": foreign.energies,
        "optimum": {"energy_pj": best[0], "cycles": best[1], "proved": best[2]} if best else None,
    }  # fmt: skip
    answer(arguments, document, lambda: _report(rows, f"{einsum.name} on {architecture.name}", foreign, best))
    return DIFFERS if any(row.cause == UNEXPLAINED for row in rows) else DONE


def _optimum(
    arguments: argparse.Namespace, foreign: Foreign, architecture: Architecture, einsum: Einsum
) -> tuple[float, int, bool] | None:
    """Energy [pJ] and cycles of our best mapping under the same constraints, and whether it is proved; None: none."""
    asked = foreign.constraints and load_constraints({"constraints": foreign.constraints}, architecture, einsum)
    try:
        found = map_einsum(
            architecture, einsum, constraints=asked or None, method="exact", budget=Budget(seconds=arguments.seconds)
        )
    except NoValidMapping:
        return None
    return found.best.energy_pj, found.best.cycles, found.stop == "exhausted"


def _report(rows: list[Difference], title: str, foreign: Foreign, best: tuple[float, int, bool] | None) -> list[Part]:
    equal = sum(not row.cause for row in rows)
    columns = (
        Column("figure", "what"),
        Column("accelsim", "ours", lambda value: f"{value:,.10g}"),
        Column("Timeloop", "theirs", lambda value: f"{value:,.10g}"),
        Column("cause of the difference", "cause", left=True, fold=True),
    )
    shown = [asdict(row) for row in rows if row.cause or " " not in row.what.removesuffix(" [pJ]")]
    best_line = "no mapping satisfies the constraints as they are here"
    if best is not None:
        why = "proved" if best[2] else "the best found in the time"
        best_line = f"{best[0]:,.2f} pJ in {best[1]:,} cycles under the same constraints ({why})"
    return [
        bold(title),
        f"{equal} of {len(rows)} figures are equal; those that differ, and the totals:\n",
        Table("replay", columns, [asdict(row) for row in rows], shown=shown),
        *(f"{cause}: {meaning}." for cause, meaning in CAUSES.items() if any(cause in row.cause for row in rows)),
        f"\nOptimum of energy: {best_line}.",
        f"Energies: {foreign.energies}.",
    ]
