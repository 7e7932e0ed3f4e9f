"""Compare the statistics that Timeloop prints of a mapping: `python -m validation.timeloop_files FILE ...`.

Takes Timeloop's inputs and one file that ends in stats.txt. Each figure that differs has its cause by name; below them
stands the optimum under the same constraints. Ends with 1 if a figure differs for no known cause.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from accelsim import cli
from accelsim.cli.inputs import read_params
from accelsim.importers.foreign import OWN_MODELS, note_lines, read_foreign
from accelsim.importers.timeloop_architecture import ACCESS
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.library import read_utf8
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from accelsim.show.table import Column, Piece, Table, bold
from validation import timeloop_replay as replay
from validation.command import Answer, run_alone


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate a mapping of Timeloop and show where its statistics differ, and why."""
    made = argparse.ArgumentParser(
        prog="python -m validation.timeloop_files",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("files", nargs="+", metavar="FILE", help="Timeloop's inputs, and one *.stats.txt")
    what = "stop the search for the optimum after S seconds [20]"
    made.add_argument("--time-limit", metavar="S", type=cli.seconds, default=20.0, help=what)
    what = "override a parameter"
    made.add_argument(
        "--set", dest="params", metavar="NAME=VALUE", action="append", type=cli.override, default=[], help=what
    )
    code, document = run_alone(made, arguments, compare_files)
    unexplained = any(row["cause"] == replay.UNEXPLAINED for row in document.get("figures", ()))
    return cli.DIFFERS if unexplained and code == cli.DONE else code


def compare_files(arguments: argparse.Namespace) -> Answer:
    """Every figure of both, those that differ with their cause, and the optimum under the same constraints."""
    statistics = [name for name in arguments.files if name.endswith("stats.txt")]
    if len(statistics) != 1:
        raise AccelsimError(f"expected one file that ends in stats.txt, got {len(statistics)}")
    theirs = replay.read_statistics(read_utf8(statistics[0]), statistics[0])
    others = [name for name in arguments.files if name not in statistics]
    if not others:
        raise AccelsimError(f"{statistics[0]}: the inputs are missing; name architecture, problem and mapping too")
    foreign = read_foreign(others, "timeloop", read_params(arguments))
    folder = Path(statistics[0]).parent
    beside = sorted(folder.glob("*ERT.yaml")) or sorted(folder.glob("*ERT_summary.yaml"))
    if foreign.energies == OWN_MODELS and len(beside) == 1:
        foreign = read_foreign([*others, str(beside[0])], "timeloop", read_params(arguments))
    if lacking := foreign.lacks():
        raise AccelsimError(f"{others[0]}: the files hold no {lacking}")
    sys.stderr.write(note_lines(foreign.notes))
    architecture, einsum, mapping = foreign.loaded()
    if others := replay.of_another(architecture, einsum, mapping, theirs):
        hint = "name the files that they were made from"
        raise AccelsimError("\n".join(f"{statistics[0]}: {other}; {hint}" for other in others))
    sparse = architecture.saves_zeros
    result = evaluate(architecture, einsum, mapping)
    unknown = replay.SPARSE if sparse else replay.UNEXPLAINED
    models = replay.MODELS if foreign.energies == OWN_MODELS and not sparse else None
    dearest = replay.evaluate_dearest(architecture, einsum, mapping)
    accessed = {note.key.removesuffix(ACCESS) for note in foreign.notes if note.key.endswith(ACCESS)}
    rows = list(replay.compare(einsum, mapping, result, theirs, unknown, models, dearest, accessed))
    holding, holds = None, replay.reused_roles(einsum, rows)
    if holds:
        result = replay.evaluate_holding(architecture, einsum, mapping, holds)
        equal = sum(not row.cause for row in replay.compare(einsum, mapping, result, theirs, unknown, models))
        holding = {"holds": sorted(holds), "equal": equal, "energy_pj": result.energy_pj}
        architecture = replace(architecture, compute=replace(architecture.compute, holds=holds))
    asked_for = foreign.constraints and load_constraints({"constraints": foreign.constraints}, architecture, einsum)
    budget, optimum = Budget(seconds=arguments.time_limit), None
    with suppress(NoValidMappingError):
        found = map_einsum(architecture, einsum, constraints=asked_for or None, uneven=False, budget=budget)
        cost = {"energy_pj": found.best.energy_pj, "cycles": found.best.cycles}
        optimum = {**cost, "proved": found.stop == "exhausted"}
    document: dict[str, Any] = {"figures": [asdict(row) for row in rows], "energies": foreign.energies}
    document |= {"optimum": optimum, "holding": holding}

    def report() -> Iterator[Piece]:
        """Figures of Timeloop that differ from ours, and our best mapping under the same constraints."""
        equal = sum(not row.cause for row in rows)
        columns = (
            Column("figure", "what"),
            Column("accelsim", "ours", "{:,.10g}".format),
            Column("Timeloop", "theirs", "{:,.10g}".format),
            Column("cause of the difference", "cause", left=True, fold=True),
        )
        shown = [asdict(row) for row in rows if row.cause or " " not in row.what.removesuffix(" [pJ]")]
        yield bold(f"{einsum.name} on {architecture.name}")
        yield f"{equal} of {len(rows)} figures are equal; those that differ, and the totals:\n"
        yield Table("replay", columns, [asdict(row) for row in rows], shown=shown)
        for cause, meaning in replay.CAUSES.items():
            if any(cause in row.cause for row in rows):
                yield f"{cause}: {meaning}."
        if holding is not None:
            said = f"With `holds: [{', '.join(sorted(holds))}]` at the compute unit, {holding['equal']} are equal"
            yield f"{said}, and the energy is {holding['energy_pj']:,.2f} pJ; so it is for the optimum."
        best = "no mapping satisfies the constraints as they are here"
        if optimum is not None:
            why = "proved" if optimum["proved"] else "the best found in the time"
            best = "{energy_pj:,.2f} pJ in {cycles:,} cycles under the same constraints".format(**optimum) + f" ({why})"
        yield f"\nOptimum of energy: {best}."
        yield f"Energies: {foreign.energies}."

    return Answer(document, report)


if __name__ == "__main__":
    sys.exit(main())
