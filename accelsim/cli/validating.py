"""The command `validate`: our numbers beside those of other tools and of published machines."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from accelsim.cli.arguments import STUDIES
from accelsim.cli.gpus import validate_conv_command, validate_gemm_command
from accelsim.cli.printing import DIFFERS, DONE, print_json, print_report, print_written, write_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from accelsim.validation import Study


def validate_command(arguments: argparse.Namespace) -> int:
    """Run one study, or all whose data is there; 1 if a figure is further off than it may be for no known reason."""
    from accelsim.results.folder import refuse_directory, write_directory
    from accelsim.show.report.validation import print_studies, print_study
    from accelsim.show.table import Table
    from accelsim.validation.reference import NoReferenceError

    if arguments.output:
        refuse_directory(arguments.output)
    if arguments.what == "gemm":
        return validate_gemm_command(arguments)
    if arguments.what == "conv":
        return validate_conv_command(arguments)
    if arguments.what == "timeloop" and not (arguments.json or arguments.output or arguments.csv):
        return _validate_timeloop(arguments.paths)
    found: list[Study] = []
    absent: list[str] = []
    for name in [arguments.what] if arguments.what else STUDIES:
        try:
            found.append(_study(name, arguments.paths))
        except NoReferenceError as error:
            if arguments.what:
                raise
            absent.append(f"{name}: not run: {error}")
    document = {"studies": [_json(study) for study in found], "not_run": absent}
    if arguments.output:
        write_directory(arguments.output, _files(found, document))
    figures = [{"study": study.name, **row} for study in found for row in _json(study)["figures"]]
    tables = write_tables(arguments.csv, [Table("figures", (), figures)])
    if arguments.json:
        print_json(document)
    else:

        def show(console: Console) -> None:
            for study in found:
                print_study(console, study, every=arguments.every)
            if len(found) > 1:
                print_studies(console, found)
            print_written(console, arguments.output)
            print_written(console, ", ".join(tables))

        print_report(show)
    for line in absent:
        sys.stderr.write(line + "\n")
    return DIFFERS if any(study.unexplained or not study.figures for study in found) else DONE


def _study(name: str, paths: Sequence[str]) -> Study:
    from accelsim import validation

    return validation.STUDIES[name](paths)


def _validate_timeloop(paths: Sequence[str]) -> int:
    """Compare record by record; 1 if anything differs, cannot be read, or nothing was compared."""
    from accelsim.show.report.validation import print_comparisons
    from accelsim.validation import reference_paths, validate_timeloop
    from accelsim.validation.timeloop import USUAL

    cases = validate_timeloop(reference_paths(paths, USUAL))
    print_report(lambda console: print_comparisons(console, cases))
    compared = any(case.compared for case in cases)
    return DONE if compared and all(case.equal for case in cases) else DIFFERS


def _files(studies: Sequence[Study], document: dict[str, Any]) -> dict[str, bytes]:
    """Contents of the folder of a validation by name: the report as a page, the figures as JSON, and plots."""
    from accelsim.results.output import to_json
    from accelsim.show.plots import figure_bytes, plot_study
    from accelsim.show.report.validation import study_page

    page = ["# accelsim beside published figures", *(study_page(study) for study in studies)]
    files = {"validation.md": "\n\n".join(page).encode(), "validation.json": to_json(document).encode()}
    for study in studies:
        files |= {f"{study.name}.{kind}": content for kind, content in figure_bytes(plot_study(study)).items()}
    return files


def _json(study: Study) -> dict[str, Any]:
    document = asdict(study)
    for entry, figure in zip(document["figures"], study.figures, strict=True):
        entry.update(error=figure.error, agrees=figure.agrees)
    return document
