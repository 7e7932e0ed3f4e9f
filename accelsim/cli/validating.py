"""The command `validate`: our numbers beside those of other tools and of measured GPUs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from accelsim.cli.gpus import refuse, validate_conv_command, validate_gemm_command
from accelsim.cli.printing import DIFFERS, DONE, print_json, print_report


def validate_command(arguments: argparse.Namespace) -> int:
    """Compare records; 1 if a figure is further off than it may be for no known reason."""
    from accelsim.results.folder import refuse_directory

    if arguments.output:
        refuse_directory(arguments.output)
    if arguments.what == "gemm":
        return validate_gemm_command(arguments)
    if arguments.what == "conv":
        return validate_conv_command(arguments)
    refuse(arguments, arguments.what, output=None)
    if arguments.what == "timeloop" and not arguments.json:
        return _validate_timeloop(arguments.paths)
    return _validate_study(arguments)


def _validate_study(arguments: argparse.Namespace) -> int:
    """Run a study; 1 if a figure is too far off for no known reason, or there is none."""
    from accelsim.importers.scalesim import scalesim_study
    from accelsim.importers.timeloop_comparison import timeloop_study
    from accelsim.results.study import study_json
    from accelsim.show.report.validation import print_study

    study = (timeloop_study if arguments.what == "timeloop" else scalesim_study)(arguments.paths)
    if arguments.json:
        print_json({"studies": [study_json(study)]})
    else:
        print_report(lambda console: print_study(console, study, every=arguments.every))
    return DIFFERS if study.unexplained or not study.figures else DONE


def _validate_timeloop(paths: Sequence[str]) -> int:
    """Compare record by record; 1 if anything differs, cannot be read, or nothing was compared."""
    from accelsim.importers.timeloop_comparison import USUAL, validate_timeloop
    from accelsim.results.study import reference_paths
    from accelsim.show.report.validation import print_comparisons

    cases = validate_timeloop(reference_paths(paths, USUAL))
    print_report(lambda console: print_comparisons(console, cases))
    compared = any(case.compared for case in cases)
    return DONE if compared and all(case.equal for case in cases) else DIFFERS
