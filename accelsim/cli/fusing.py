"""The command `fuse`: which consecutive layers of a network to fuse, and how."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from accelsim.cli.inputs import (
    Inputs,
    find_files,
    make_provenance,
    open_cache,
    print_notes,
    read_machine,
    read_overrides,
    split,
)
from accelsim.cli.printing import DONE, INTERRUPTED, answer, make_console
from accelsim.search.stopping import answering


def fuse_command(arguments: argparse.Namespace) -> int:
    """Find the chains of layers to fuse, and print them with their gain."""
    from accelsim.fusion import fuse
    from accelsim.fusion.output import fusion_json
    from accelsim.inputs.machine_tables import energy_rows
    from accelsim.results.folder import refuse_directory, write_directory
    from accelsim.results.output import to_json

    if arguments.output:
        refuse_directory(arguments.output)
    given = {"architecture": arguments.arch, "workload": arguments.workload}
    paths, overrides = find_files(given), read_overrides(arguments)
    inputs = Inputs(given, paths, overrides, *read_machine(paths, overrides), None)
    if not arguments.quiet:
        print_notes(inputs.workload.notes)
    with fusing_progress(quiet=arguments.quiet) as on_progress:
        found = fuse(
            inputs.architecture,
            inputs.workload,
            objective="energy" if arguments.objective is None else arguments.objective,
            chain=split(arguments.chain) if arguments.chain else (),
            longest=arguments.longest,
            seconds=arguments.seconds,
            cache=open_cache(arguments),
            workers=arguments.workers,
            on_progress=on_progress,
        )
    answering()
    provenance = replace(make_provenance("fuse", inputs, arguments), seconds=arguments.seconds)
    document = fusion_json(found, provenance, energy_rows(inputs.architecture))
    if arguments.output:
        from accelsim.show.plots.network import plot_fusion
        from accelsim.show.plots.style import figure_bytes

        pictures = {f"fusion.{kind}": content for kind, content in figure_bytes(plot_fusion(found)).items()}
        write_directory(arguments.output, {"fusion.json": to_json(document).encode(), **pictures})
    from accelsim.show.report.fusion import brief, fusion_report

    report = brief if arguments.quiet else fusion_report
    answer(arguments, document, lambda: report(found), arguments.output)
    return INTERRUPTED if found.stop == "interrupted" else DONE


@contextmanager
def fusing_progress(*, quiet: bool = False) -> Iterator[Callable[[str], None] | None]:
    """Show what is being done, where the console is a terminal."""
    console = make_console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    with console.status("reading") as status:
        yield status.update
