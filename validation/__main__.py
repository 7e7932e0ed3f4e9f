"""Run studies: `python -m validation [STUDY [FILE ...] ...] [--every] [--json] [--csv FILE] [-o DIR]`, by default all.

`python -m validation --reports [NAME ...]` writes the reports in validation/reports anew.

`timeloop` and `scalesim` take records of your own behind their names, as files or (Timeloop's) folders.
`python -m validation gemm MEASURED ...` compares measured times of matrix products on GPUs; `validation.gemm` has its
options.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from accelsim.cli import BAD_INPUT, DIFFERS, DONE, answer
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import near_miss
from accelsim.results import refuse_directory, refuse_file, to_json, write_directory
from accelsim.show.plots import figure_bytes
from accelsim.show.table import Column, Piece, Table
from validation import gemm
from validation.area import area_study
from validation.cim import cim_study
from validation.command import add_forms, page_text
from validation.eyeriss import eyeriss_study
from validation.eyeriss_isca import eyeriss_isca_study
from validation.nvdla import nvdla_study
from validation.plot_study import plot_study
from validation.report import study_report
from validation.scalesim import scalesim_study
from validation.sparseloop import published_study
from validation.sram import sram_study
from validation.study import NoReferenceError, Study, study_json
from validation.timeloop import timeloop_study
from validation.tpu import tpu_study
from validation.training import training_study
from validation.write_reports import write_reports

STUDIES: dict[str, Callable[..., Study]] = {
    "timeloop": timeloop_study,
    "sram": sram_study,
    "area": area_study,
    "nvdla": nvdla_study,
    "eyeriss": eyeriss_study,
    "eyeriss_isca": eyeriss_isca_study,
    "scalesim": scalesim_study,
    "sparseloop": published_study,
    "tpu": tpu_study,
    "cim": cim_study,
    "training": training_study,
}
"""Studies by name."""
OF_RECORDS = ("timeloop", "scalesim")
"""Those that take the paths of records."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the studies named, or all whose data is there; 1 if a figure is too far off for no known reason."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["gemm"]:
        return gemm.main(words[1:])
    if words[:1] == ["--reports"]:
        return write_reports(words[1:])
    parser = argparse.ArgumentParser(
        prog="python -m validation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    about = f"{', '.join(STUDIES)} (default: all); behind {' and '.join(OF_RECORDS)}: files of records"
    parser.add_argument("words", nargs="*", metavar="STUDY", help=about)
    parser.add_argument("--every", action="store_true", help="print every figure, however many there are")
    parser.add_argument("-o", "--output", metavar="DIR", help="write validation.md, validation.json and a plot of each")
    add_forms(parser)
    parsed = parser.parse_intermixed_args(words)
    asked, unknown = dict[str, list[str]](), []
    for word in parsed.words:
        last = next(reversed(asked), "")
        if word in STUDIES:
            asked.setdefault(word, asked.pop(word, []))
        elif last in OF_RECORDS:
            asked[last].append(word)
        else:
            unknown.append(word)
    if "gemm" in unknown:
        parser.error("gemm stands first, and alone: python -m validation gemm MEASURED ...")
    if unknown:
        hint = near_miss(unknown[0], STUDIES)
        parser.error(f"no study {', '.join(unknown)}; {hint}{' ' * bool(hint)}studies: {', '.join(STUDIES)}")
    try:
        return _run(parsed, asked)
    except (AccelsimError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT


def _run(parsed: argparse.Namespace, asked: Mapping[str, Sequence[str]]) -> int:
    """Run the studies asked for, each with the paths of its records, or all."""
    if parsed.output:
        refuse_directory(parsed.output)
    if parsed.csv:
        refuse_file(parsed.csv, "table.csv")
    found: list[Study] = []
    absent: list[str] = []
    for name in asked or STUDIES:
        try:
            found.append(STUDIES[name](*filter(None, [asked.get(name)])))
        except NoReferenceError as error:
            if asked:
                raise
            absent.append(f"{name}: not run: {error}")
    document = {"studies": [study_json(study) for study in found], "not_run": absent}
    if parsed.output:
        write_directory(parsed.output, _files(found, document))

    def report() -> Iterator[Piece]:
        for study in found:
            yield from study_report(study, every=parsed.every)
        if len(found) > 1:
            yield _studies(found)

    answer(parsed, document, report, parsed.output)
    for line in absent:
        sys.stderr.write(line + "\n")
    return DIFFERS if any(study.unexplained or not study.figures for study in found) else DONE


def _files(studies: Sequence[Study], document: dict[str, Any]) -> dict[str, bytes]:
    """Contents of the folder by name: the report as a page, the figures as JSON, and plots."""
    page = ["# accelsim beside published figures", *(_page(study) for study in studies)]
    files = {"validation.md": "\n\n".join(page).encode(), "validation.json": to_json(document).encode()}
    for study in studies:
        files |= {f"{study.name}.{kind}": content for kind, content in figure_bytes(plot_study(study)).items()}
    return files


def _page(study: Study) -> str:
    """A study as a section of a Markdown page, with every figure, beside its plot `NAME.svg`."""
    text = page_text(study_report(study, every=True))
    return f"## {study.name}\n![{study.about}]({study.name}.svg)\n\n{text}"


def _studies(studies: Sequence[Study]) -> Table:
    """One line for each study."""
    rows = []
    for study in studies:
        judged = sum(figure.agrees is not None for figure in study.figures)
        within, explained = judged - len(study.wrong), len(study.wrong) - len(study.unexplained)
        rows.append(
            {
                "study": study.name,
                "figures": len(study.figures),
                "with a tolerance": judged,
                "within it": within,
                "beyond, explained": explained,
            }
        )
    return Table("studies", [Column(name, name) for name in rows[0]], rows, "all studies")


if __name__ == "__main__":
    sys.exit(main())
