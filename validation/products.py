"""Measured matrix products beside ours, a roofline of three constants fitted to other rows, and the nearest row.

`python -m validation.products TABLE ... [--gpu NAME] [--calibration FILE] [--json] [--csv FILE]`, of the rows that are
held out, by GPU and number format. The tables are those of `python -m validation gemm`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from accelsim.gpu.calibration import LEAST_ROWS, Errors, errors_of
from accelsim.gpu.catalogue import BYTES, Gpu
from accelsim.gpu.constants import Floats
from accelsim.gpu.fitted import OperatorKind, Shapes, family, one_variant
from accelsim.gpu.gemms import result_bytes
from accelsim.gpu.measured import split_rows
from accelsim.show.report.gpu import errors_table
from accelsim.show.table import Piece, heading
from validation.command import Answer, run_alone
from validation.gemm import GemmValidation, validate_gemm
from validation.kernel_fits import Rows, baselines, joined

LEFT_OUT = ", left out"


def errors_beside(case: GemmValidation, cases: Sequence[GemmValidation]) -> dict[str, Errors]:
    """Errors of the rows that are held out: ours, and those of rooflines and nearest rows.

    These know the other rows of the table, or those of other families of GPUs in the same format, where there are any.
    With few rows there is nothing beside ours.
    """
    name = case.measured.number_format
    kind = OperatorKind("products", lambda *_: {}, partial(_least, name), one_variant)
    own = _rows_of(case)
    others = [
        _rows_of(each) for each in cases if each.measured.number_format == name and family(each.gpu) != family(case.gpu)
    ]
    tested, times = own.take(own.held), {"ours": case.predicted_us[own.held]}
    for about, known in ((LEFT_OUT, others), ("", [own])):
        rows = joined(known) if known else own
        rows = rows.take(~rows.held)
        if known and len(rows) >= LEAST_ROWS and len(tested):
            bars = baselines(kind, rows, tested)
            times |= {f"roofline{about}": bars["roofline"], f"nearest row{about}": bars["nearest"]}
    flops = case.measured.gemms.flops[own.held]
    return {method: errors_of(found, tested.time_us, flops) for method, found in times.items()}


def _least(number_format: str, gpu: Gpu, shapes: Shapes) -> tuple[Floats, Floats]:
    """Time of operations at the peak, and of bytes at the bandwidth [us]."""
    m, n, k, batch = (shapes[name] for name in ("m", "n", "k", "batch"))
    moved = batch * ((m * k + n * k) * BYTES[number_format] + m * n * result_bytes(number_format))
    return 2 * m * n * k * batch / (gpu.flops(number_format) * 1e-6), moved / (gpu.dram_bytes_per_s * 1e-6)


def _rows_of(case: GemmValidation) -> Rows:
    g = case.measured.gemms
    shapes = {"m": g.m, "n": g.n, "k": g.k, "batch": g.batch}
    at = np.zeros(len(case.measured), dtype=np.int64)
    return Rows((case.gpu,), at, np.full(len(at), ""), shapes, case.measured.time_us, ~split_rows(g).fit)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the tables named."""
    parser = argparse.ArgumentParser(prog="python -m validation.products", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="TABLE", help="CSV as of `python -m validation gemm`")
    parser.add_argument("--gpu", help="the GPU that was measured (default: what the table says)")
    parser.add_argument("--calibration", metavar="FILE", help="as for `python -m validation gemm`")

    def compare(parsed: argparse.Namespace) -> Answer:
        cases, skipped = validate_gemm(parsed.paths, gpu=parsed.gpu, calibration=parsed.calibration)
        found = [(case, errors_beside(case, cases)) for case in cases]
        rows = [
            {"gpu": case.gpu.name, "number_format": case.measured.number_format}
            | {"errors": {method: errors.as_row() for method, errors in each.items()}}
            for case, each in found
        ]
        return Answer({"products": rows, "not_compared": skipped}, lambda: _report(found))

    return run_alone(parser, arguments, compare)[0]


def _report(found: Sequence[tuple[GemmValidation, Mapping[str, Errors]]]) -> Iterator[Piece]:
    for case, errors in found:
        named = {"gpu": case.gpu.name, "number_format": case.measured.number_format}
        yield heading(", ".join(named.values()), case.about)
        title = "Held-out rows beside a roofline of three constants and the nearest row"
        yield errors_table(errors, title, "left out: fitted to other families", **named)


if __name__ == "__main__":
    sys.exit(main())
