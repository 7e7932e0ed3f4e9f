"""The command `explore`: run a sweep, or look at what is in the folder of one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.cli import DONE, INTERRUPTED, NO_VALID_MAPPING, answer, complain, figure_kind, make_console, write_figure
from accelsim.inputs import library
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.files import file_name
from accelsim.results import NO_PLOTLY, refuse_directory, refuse_file, write_page

if TYPE_CHECKING:
    from accelsim.explore.store import Explored
    from accelsim.show.table import Part


def explore_command(arguments: argparse.Namespace) -> int:
    """Run or resume a sweep, and show its designs; of a folder show what is there."""
    from accelsim.explore.store import refuse_without_pyarrow
    from accelsim.explore.tables import ABOUT, DESIGNS, read_about, read_designs, stale, where
    from accelsim.show.report.tables import designs_report, sweep_lines

    refuse_without_pyarrow()
    if arguments.picture and not arguments.plot:
        arguments.parser.error("argument --picture: say what to draw, such as --plot front")
    if arguments.html:
        refuse_file(arguments.html, "sweep.html")
        if find_spec("plotly") is None:
            raise AccelsimError(NO_PLOTLY)
    if arguments.plot:
        path = _picture(arguments, "")
        figure_kind(path)
        refuse_file(path, "front.png")
    given = Path(arguments.sweep)
    explored = None
    if given.is_dir():
        for name in ("output", "workers", "scheduler"):
            if getattr(arguments, name) is not None:
                what = f"{arguments.sweep} is a folder of results, and nothing is run"
                arguments.parser.error(f"argument --{name}: {what}")
        folder = given
        sys.stderr.write(stale(folder))
    else:
        explored = _run(arguments)
        folder = explored.store.folder
    rows = read_designs(folder)
    about = read_about(folder)
    if rows and not about["parameters"].keys() <= rows[0].keys():
        raise AccelsimError(f"{folder}: {ABOUT} and {DESIGNS} are of different sweeps; start the sweep again")
    shown = where(rows, arguments.where, about["parameters"]) if arguments.where else rows
    shown = [row for row in shown if row["front"]] if arguments.front else shown

    def report() -> Iterator[Part]:
        yield from sweep_lines(about, rows, explored)
        yield from designs_report(about, shown, chosen=bool(arguments.where or arguments.front))

    written = [str(folder)] if explored is not None else []
    if arguments.html:
        from accelsim.show.html.reports import sweep_report

        written.append(str(write_page(arguments.html, sweep_report(shown, about))))
    if arguments.plot:
        from accelsim.show.plots.explore import PLOTTED

        written.append(str(_picture(arguments, about["name"])))
        write_figure(written[-1], PLOTTED[arguments.plot](shown, about))
    brief = sweep_lines(about, rows, explored) if arguments.quiet else None
    answer(arguments, {**about, "designs": shown}, report, *written, brief=brief)
    if explored is not None and explored.stop == "interrupted":
        return INTERRUPTED
    return DONE if any(row["status"] == "mapped" for row in rows) else NO_VALID_MAPPING


def _run(arguments: argparse.Namespace) -> Explored:
    from accelsim.explore import load_sweep
    from accelsim.explore.run import explore
    from accelsim.explore.tables import where
    from accelsim.show.report.tables import sweep_progress

    if library.find(arguments.sweep, "sweeps") is None:
        library.resolve(arguments.sweep, "sweeps")
    sweep = load_sweep(arguments.sweep)
    if arguments.where:
        where([], arguments.where, {each.name: each.values for each in sweep.parameters})
    folder = Path(arguments.output or f"{file_name(sweep.name)}_results")
    refuse_directory(folder)
    console = make_console(stderr=True, quiet=arguments.quiet)
    with sweep_progress(console, sweep) as on_state:
        return explore(
            sweep,
            folder,
            workers=arguments.workers,
            scheduler=arguments.scheduler,
            on_state=on_state,
            on_cluster=lambda link: console.print(f"Dask dashboard: {link}", soft_wrap=True),
            on_trouble=complain,
        )


def _picture(arguments: argparse.Namespace, name: str) -> Path:
    return Path(arguments.picture or f"{file_name(arguments.plot, name)}.png")
