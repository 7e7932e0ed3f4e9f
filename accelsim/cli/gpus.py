"""The commands about GPUs."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accelsim.cli.printing import DONE, answer
from accelsim.gpu import ROTATING
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.files import hash_file

if TYPE_CHECKING:
    from accelsim.gpu.validation import GemmValidation


def gpus_command(arguments: argparse.Namespace) -> int:
    """List the GPUs that ship, or show one."""
    from accelsim.gpu.catalogue import catalogue, load_gpu
    from accelsim.show.report.gpu import gpu_report, gpu_row, gpus_report

    if arguments.gpu is None:
        if arguments.mig:
            raise AccelsimError("--mig needs a GPU, such as `accelsim gpus a100 --mig 1g.10gb`")
        answer(arguments, {"gpus": [gpu_row(gpu) for gpu in catalogue()]}, lambda: gpus_report(catalogue()))
        return DONE
    gpu = load_gpu(arguments.gpu, arguments.mig)
    answer(arguments, gpu_row(gpu), lambda: gpu_report(gpu))
    return DONE


def calibrate_command(arguments: argparse.Namespace) -> int:
    """Fit the constants of a GPU to measured kernels."""
    from pathlib import Path

    from accelsim.gpu.calibration import calibrate
    from accelsim.gpu.catalogue import find_gpu, load_gpu
    from accelsim.gpu.measured import read_measured
    from accelsim.results.folder import write_page
    from accelsim.show.report.validation import calibration_report

    if arguments.output and not Path(arguments.output).resolve().parent.is_dir():
        raise AccelsimError(f"-o {arguments.output}: no such folder; make it first")
    gpu = load_gpu(arguments.gpu)
    tables = read_measured(arguments.measured, number_format=arguments.dtype, unknown_too=False, l2=arguments.l2)
    told = [(table, find_gpu(table.device)) for table in tables]
    own = [table for table, found in told if found is None or found.name == gpu.name]
    own = [table for table in own if table.number_format in gpu.operations_per_sm_cycle]
    own = [table for table in own if arguments.dtype in (None, table.number_format)]
    if len(own) != 1:
        kinds = {(table.device or "no device", table.number_format, table.l2) for table in own or tables}
        names = [f"{device} ({number_format}, L2 {l2})" for device, number_format, l2 in sorted(kinds)]
        several = len({table.number_format for table in own}) > 1
        which = "--dtype" if several else "a table of one device and one state of L2"
        hint = f"say which with {which}" if own else f"say another --gpu than {gpu.name}, or another --dtype"
        raise AccelsimError(
            f"{arguments.measured}: expected kernels of {gpu.name} in one number format and one state of L2, "
            f"found {', '.join(names)}; {hint}"
        )
    source = {"file": Path(arguments.measured).name, "sha256": hash_file(arguments.measured), "device": own[0].device}
    found = calibrate(gpu, own[0], {**source, "about": arguments.source or ""})
    if arguments.output:
        write_page(arguments.output, found.to_json())
    notes = [f"\n{own[0].note}"] if own[0].note else []
    answer(arguments, json.loads(found.to_json()), lambda: [*calibration_report(found), *notes], arguments.output)
    return DONE


def validate_gemm_command(arguments: argparse.Namespace) -> int:
    """Hold predicted times of matrix products against measured ones."""
    from accelsim.gpu.validation import validate_gemm
    from accelsim.results.folder import write_directory
    from accelsim.show.report.validation import gemm_report

    if not arguments.paths:
        raise AccelsimError("say what was measured: accelsim validate gemm MEASURED.csv")
    refuse(arguments, "gemm", every=False)
    found, skipped = validate_gemm(
        arguments.paths,
        gpu=arguments.gpu,
        mig=arguments.mig,
        calibration=arguments.calibration,
        number_format=arguments.dtype,
        leave_out=arguments.leave_out,
        l2=arguments.l2,
    )
    rows = [
        {
            "gpu": case.gpu.name,
            "number_format": case.measured.number_format,
            "l2": case.measured.l2,
            "mode": case.mode,
            "about": case.about,
            "note": case.measured.note,
            "doubts": case.doubts,
            "launch_gap_us": case.launch_gap_us,
            "errors": {name: errors.as_row() for name, errors in case.errors.items()},
            "inside_interval": _or_none(case.inside),
            "step_pairs": case.step_rows,
            "step_correlation": _or_none(case.step_correlation),
            "large_step_pairs": case.large_step_rows,
            "large_step_correlation": _or_none(case.large_step_correlation),
        }
        for case in found
    ]
    document = {"gemm": rows, "not_compared": skipped}
    if arguments.output:
        write_directory(arguments.output, _files(found, skipped, document))
    answer(arguments, document, lambda: gemm_report(found, skipped), arguments.output)
    return DONE


def _files(found: Sequence[GemmValidation], skipped: Sequence[str], document: Mapping[str, Any]) -> dict[str, bytes]:
    """Contents of the folder by name: the report as a page, its figures as JSON, and a plot of each GPU."""
    from accelsim.results.output import to_json
    from accelsim.show.plots.style import figure_bytes
    from accelsim.show.plots.throughput import plot_measured
    from accelsim.show.report.validation import gemm_report
    from accelsim.show.table import page_text

    files, plots = {"validation.json": to_json(document).encode()}, []
    for at, case in enumerate(found, 1):
        name = f"{at}_{case.gpu.name}_{case.measured.number_format}".replace(":", "_")
        about = f"{case.gpu.name}, {case.measured.number_format}, {case.mode}"
        plots.append(f"![{about}]({name}.svg)")
        drawn = figure_bytes(
            plot_measured(f"{about} (dotted: a quarter off)", case.measured.time_us, case.predicted_us)
        )
        files |= {f"{name}.{kind}": content for kind, content in drawn.items()}
    text = page_text(gemm_report(found, skipped))
    page = "\n".join(["# Predicted beside measured times of matrix products", "", *plots, "", text])
    return {"validation.md": page.encode(), **files}


def validate_conv_command(arguments: argparse.Namespace) -> int:
    """Hold implicit GEMMs against measured convolutions."""
    from accelsim.gpu.convolutions import validate_convolutions
    from accelsim.show.report.validation import convolution_row, convolutions_report

    if not arguments.paths:
        raise AccelsimError("say what was measured: accelsim validate conv MEASURED.csv")
    refuse(arguments, "conv", mig=None, dtype=None, leave_out=False, l2=ROTATING, output=None, every=False)
    found, skipped = validate_convolutions(arguments.paths, gpu=arguments.gpu, calibration=arguments.calibration)
    document = {"conv": [convolution_row(case) for case in found], "not_compared": skipped}
    answer(arguments, document, lambda: convolutions_report(found, skipped))
    return DONE


def refuse(arguments: argparse.Namespace, what: str, **usual: str | bool | None) -> None:
    """Refuse options that a study has not."""
    for name, value in usual.items():
        if getattr(arguments, name) != value:
            raise AccelsimError(f"--{name.replace('_', '-')}: not for {what}; leave it out")


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
