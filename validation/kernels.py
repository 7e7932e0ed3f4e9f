"""Measured kernels of attention, experts, collectives and products of narrow formats; predictions beside them.

`python -m validation.kernels {attention,moe,nccl,gemm} TABLE ... [--gpu NAME] [--json] [--csv FILE]`.
A table is a CSV as aiconfigurator's database has it: `gpu`, `framework`, `kernel_source`, `op_name`, the sizes of the
operator and `time_us`. Each table of errors has ours, a roofline with three constants for each stack, fitted to the
same rows, and the nearest measured row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.attention_times import DECODE, MLA_DECODE, MLA_PREFILL, PREFILL, attention_shapes, latent_shapes
from accelsim.gpu.calibration import LEAST_ROWS
from accelsim.gpu.catalogue import BYTES, Gpu, find_gpu, format_of, gpu_hint, load_gpu, table_of
from accelsim.gpu.collectives import NCCL, ONE_SHOT, OPERATIONS, collective_shapes
from accelsim.gpu.constants import Floats
from accelsim.gpu.fitted import (
    CLOCK,
    LARGEST,
    Constants,
    OperatorKind,
    Parts,
    Shapes,
    gone,
    one_variant,
    shapes_of,
    shipped,
)
from accelsim.gpu.measured import CsvTable, finite, held_out, open_table
from accelsim.gpu.quantised import (
    EXPERTS,
    PRODUCT,
    RESULT_BYTES,
    experts_shapes,
    plain_precision,
    product_shapes,
)
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import hash_file
from accelsim.inputs.source import Problems
from accelsim.inputs.units import listed, quoted
from accelsim.show.report.gpu import plain, short_percent
from accelsim.show.table import Column, Piece, Table, dim, heading, legend
from validation.command import Answer, run_alone
from validation.kernel_fits import ROOFLINES, Rows, baselines, fit_sets, joined, predict, roofline_of, sources

_LONG_US = 100.0
Numbers = Mapping[str, Floats]
Words = Mapping[str, list[str]]
Builder = Callable[[Gpu, Numbers, Words], Shapes]
"""Shapes of a GPU's rows of their columns."""


@dataclass(frozen=True, slots=True)
class TableOperator:
    """What rows of an `op_name` are: columns of whole numbers with the least of each, of words, and the shapes of them.

    `marks`: a column that tells it from another operator of the same name. `precision`: a column of precisions.
    """

    command: str
    kind: OperatorKind
    numbers: Mapping[str, float]
    words: tuple[str, ...]
    shapes: Builder
    marks: str = ""
    precision: str = ""


def _word_bytes(words: Sequence[str]) -> Floats:
    return np.array([BYTES[format_of(word) or "bf16"] for word in words])


_SIZES = {"batch": "batch_size", "tokens": "isl", "heads": "num_heads", "cached": "step"}
"""Columns of the sizes that all attention has."""


def _attention(_: Gpu, numbers: Numbers, words: Words) -> Shapes:
    shared = numbers["num_key_value_heads"]
    return attention_shapes(
        **{size: numbers[column] for size, column in _SIZES.items()},
        kv_heads=np.where(shared > 0, shared, numbers["num_heads"]),
        head_size=numbers["head_dim"],
        window=numbers["window_size"],
        query_bytes=_word_bytes(words["attn_dtype"]),
        cache_bytes=_word_bytes(words["kv_cache_dtype"]),
    )


def _latent(absorbed: bool) -> Builder:
    def shapes(_: Gpu, numbers: Numbers, words: Words) -> Shapes:
        sizes = {size: numbers[column] for size, column in _SIZES.items()}
        return latent_shapes(**sizes, absorbed=absorbed, cache_bytes=_word_bytes(words["kv_cache_dtype"]))

    return shapes


def _product(gpu: Gpu, numbers: Numbers, words: Words) -> Shapes:
    return product_shapes(gpu, words["gemm_dtype"], **numbers)


def _pass_parts(gpu: Gpu, shapes: Shapes, constants: Constants) -> Parts:
    """Inputs read, and written where the pass scales them too."""
    moved = shapes["m"] * shapes["k"] * shapes["bytes"]
    cold = gone(gpu, moved, constants["residency"]) / (gpu.dram_bytes_per_s * 1e-6 * constants["memory"])
    memory = moved * (cold + 1 / (gpu.sms * gpu.boost_hz * 1e-6 * constants["sm_bytes"]))
    return {"launch": np.full_like(memory, constants["launch_us"] * CLOCK / gpu.boost_hz), "memory": memory}


def _pass_least(gpu: Gpu, shapes: Shapes) -> tuple[Floats, Floats]:
    moved = shapes["m"] * shapes["k"] * shapes["bytes"]
    return np.zeros_like(moved), moved / (gpu.dram_bytes_per_s * 1e-6)


SCALES = OperatorKind("finding scales", _pass_parts, _pass_least, one_variant)
SCALING = OperatorKind("scaling", _pass_parts, _pass_least, one_variant)


def pass_shapes(m: Any, k: Any, *, scaling: bool) -> dict[str, Floats]:
    """Sizes of a pass over inputs in 16 bit that finds scales, or that applies them and writes 8 bit."""
    return shapes_of({"m": 1, "k": 1}, m=m, k=k, bytes=RESULT_BYTES + scaling)


def _pass(scaling: bool) -> Builder:
    return lambda _, numbers, __: pass_shapes(**numbers, scaling=scaling)


def _collective(operation: str) -> Builder:
    def shapes(_: Gpu, numbers: Numbers, words: Words) -> Shapes:
        (formats,) = words.values()
        word = _word_bytes(formats)
        size = numbers["message_size"] * word
        return collective_shapes([operation] * len(size), numbers["num_gpus"], size, word)

    return shapes


def _experts(_: Gpu, numbers: Numbers, words: Words) -> Shapes:
    """Tokens are those of all ranks; each rank has its part of the experts and of the width between the products."""
    skew = [0.0 if name == "balanced" else finite(name.rpartition("_")[2]) or 0.0 for name in words["distribution"]]
    plain = ["nongated" in name for name in words["kernel_source"]]
    return experts_shapes(
        words["moe_dtype"],
        tokens=numbers["num_tokens"],
        hidden=numbers["hidden_size"],
        inter=np.maximum(np.floor(numbers["inter_size"] / numbers["moe_tp_size"]), 1),
        experts=numbers["num_experts"],
        top=numbers["topk"],
        ranks=np.minimum(numbers["moe_ep_size"], numbers["num_experts"]),
        skew=skew,
        gated=np.where(plain, 1, 2),
        crowded=1,
    )


_ATTENTION = {
    **{"batch_size": 1, "isl": 1, "num_heads": 1, "num_key_value_heads": 0, "head_dim": 1, "step": 0, "window_size": 0}
}
_MLA = {"batch_size": 1, "isl": 1, "num_heads": 1, "step": 0}
_MOE = {
    **{"num_tokens": 1, "hidden_size": 1, "inter_size": 1, "topk": 1},
    **{"num_experts": 1, "moe_tp_size": 1, "moe_ep_size": 1},
}
_GEMM, _PASS = {"m": 1, "n": 1, "k": 1}, {"m": 1, "k": 1}
_MESSAGE = {"num_gpus": 2, "message_size": 1}
OPERATORS = {
    "context_attention": TableOperator("attention", PREFILL, _ATTENTION, ("attn_dtype", "kv_cache_dtype"), _attention),
    "generation_attention": TableOperator(
        "attention", DECODE, _ATTENTION, ("attn_dtype", "kv_cache_dtype"), _attention
    ),
    "mla_context": TableOperator("attention", MLA_PREFILL, _MLA, ("kv_cache_dtype",), _latent(absorbed=False)),
    "mla_generation": TableOperator("attention", MLA_DECODE, _MLA, ("kv_cache_dtype",), _latent(absorbed=True)),
    **{
        name: TableOperator("nccl", NCCL, _MESSAGE, ("nccl_dtype",), _collective(operation), "nccl_dtype")
        for name, operation in zip(("all_reduce", "all_gather", "reduce_scatter", "alltoall"), OPERATIONS, strict=True)
    },
    "moe": TableOperator(
        "moe", EXPERTS, _MOE, ("moe_dtype", "distribution", "kernel_source"), _experts, "", "moe_dtype"
    ),
    "gemm": TableOperator("gemm", PRODUCT, _GEMM, ("gemm_dtype",), _product, "kernel_source", "gemm_dtype"),
    "compute_scale": TableOperator("gemm", SCALES, _PASS, (), _pass(scaling=False)),
    "scale_matrix": TableOperator("gemm", SCALING, _PASS, (), _pass(scaling=True)),
    "all_reduce of a stack": TableOperator(
        "nccl", ONE_SHOT, _MESSAGE, ("allreduce_dtype",), _collective("all_reduce"), "allreduce_dtype"
    ),
}
"""By `op_name`, a word behind which tells those of one name apart."""
_NEEDED = ("gpu", "op_name", "time_us")


@dataclass(frozen=True, slots=True, eq=False)
class KernelTable:
    """Rows of one kind in a file; `notes` say what was left out."""

    kind: OperatorKind
    rows: Rows
    sha256: str
    file: str
    notes: tuple[str, ...]


def _table(path: str | PathLike[str], problems: Problems) -> CsvTable | None:
    what = f"no head line with the columns {listed(_NEEDED)}"
    hint = "write a table as aiconfigurator's database has it"
    return open_table(path, problems, lambda names: set(_NEEDED) <= set(names), what, hint)


def read_kernels(path: str | PathLike[str], command: str | None = None) -> list[KernelTable]:
    """Read measured kernels of the operators of a command, by kind.

    `command`: by default all operators. Raises InputError with every mistake in the file and its place.
    """
    problems = Problems()
    table = _table(path, problems)
    found = problems.result(_read(table, command, problems) if table else None)
    sha256 = hash_file(path)
    return [KernelTable(kind, rows, sha256, str(path), notes) for kind, rows, notes in found]


def _read(
    table: CsvTable, command: str | None, problems: Problems
) -> list[tuple[OperatorKind, Rows, tuple[str, ...]]] | None:
    at = {name: column for column, name in reversed(list(enumerate(table.names)))}
    lines: dict[tuple[str, str], list[tuple[tuple[str, ...], list[float], float]]] = {}
    counts: dict[str, int] = {}
    operators, missing = {name: one for name, one in OPERATORS.items() if command in (None, one.command)}, set()
    first = len(problems)
    for row in table.rows(problems):
        cells = row.cells
        name = _operator(cells[at["op_name"]], table, operators)
        if name is None:
            note = f"op_name {quoted(cells[at['op_name']])} is none of {listed(operators)}"
            counts[note] = counts.get(note, 0) + 1
            continue
        operator = operators[name]
        lacking = [column for column in (*operator.numbers, *operator.words) if column not in at]
        if lacking:
            if name not in missing:
                problems.add(table.mark(table.head), f"no column {lacking[0]}, which {name} needs", "add it")
            missing.add(name)
            continue
        device = find_gpu(cells[at["gpu"]])
        if device is None:
            note = f"no GPU {quoted(cells[at['gpu']])} ships; {gpu_hint(cells[at['gpu']])}"
        elif operator.precision and plain_precision(cells[at[operator.precision]]) not in table_of("precisions"):
            note = f"in {quoted(cells[at[operator.precision]])}, which is no precision that kernels are known in"
        elif finite(cells[at["time_us"]]) == 0:
            note = "take 0 us, as where a difference of two times was below 0"
        else:
            note = ""
        if note or device is None:
            counts[note] = counts.get(note, 0) + 1
            continue
        time_us = table.time_us(row, at["time_us"], "time_us", problems)
        numbers = [
            table.size(row, at[column], column, problems, default="0", least=least, most=LARGEST)
            for column, least in operator.numbers.items()
        ]
        if table.ends(row, len(problems) - first, problems):
            return None
        lines.setdefault((name, device.name), []).append((cells, numbers, time_us))
    if len(problems):
        return None
    notes = tuple(f"{table.file}: {count} rows {note}" for note, count in counts.items())
    if not lines:
        hint = f"operators of this command: {listed(operators)}"
        problems.add(table.mark(table.head), f"no row to compare; {'; '.join(notes) or 'there is none'}", hint)
        return None
    return list(_kinds(operators, lines, at, notes))


def _operator(name: str, table: CsvTable, operators: Mapping[str, TableOperator]) -> str | None:
    """Key of the operator of a row: of several of one name that whose own column the table has."""
    return next(
        (
            key
            for key, operator in operators.items()
            if key.partition(" ")[0] == name and (not operator.marks or operator.marks in table.names)
        ),
        None,
    )


def _kinds(
    operators: Mapping[str, TableOperator],
    lines: Mapping[tuple[str, str], list[tuple[tuple[str, ...], list[float], float]]],
    at: Mapping[str, int],
    notes: tuple[str, ...],
) -> Iterator[tuple[OperatorKind, Rows, tuple[str, ...]]]:
    parts: dict[str, list[Rows]] = {}
    kinds = {operator.kind.name: operator.kind for operator in operators.values()}
    software = [at[key] for key in ("framework", "kernel_source") if key in at]
    for (name, device), found in lines.items():
        operator, gpu = operators[name], load_gpu(device)
        columns = dict(zip(operator.numbers, np.array([row for _, row, _ in found]).T, strict=True))
        words = {word: [cells[at[word]] for cells, _, _ in found] for word in operator.words}
        of_shape = [words[word] for word in operator.words if word != "kernel_source"]
        keys = [f"{name} {row} {[word[i] for word in of_shape]}" for i, (_, row, _) in enumerate(found)]
        rows = Rows(
            (gpu,),
            np.zeros(len(found), dtype=np.int64),
            np.array(["/".join(filter(None, (cells[column] for column in software))) for cells, _, _ in found]),
            operator.shapes(gpu, columns, words),
            np.array([time_us for _, _, time_us in found]),
            held_out(keys),
        )
        parts.setdefault(operator.kind.name, []).append(rows)
    for kind, several in parts.items():
        yield kinds[kind], joined(several), notes


LEFT_OUT, SHIPPED, CALIBRATED = "family left out", "shipped", "calibrated"
MODES = {
    LEFT_OUT: "constants fitted to the GPUs of other families in the table",
    SHIPPED: "constants that come with accelsim; of GPUs that they were fitted to, only rows that were held out",
    CALIBRATED: "constants fitted to the rows of the table that are not held out, of this GPU too",
}


@dataclass(frozen=True, slots=True)
class KernelErrors:
    """Errors of some rows: of the absolute relative error, and the median of predicted / measured."""

    kind: str
    gpu: str
    mode: str
    method: str  # `ours`, `roofline` or `nearest`
    rows: int
    median: float
    p90: float
    long_median: float | None  # of rows above 100 us
    ratio: float


def validate_kernels(
    paths: Sequence[str | PathLike[str]], command: str, gpu: str | None = None
) -> tuple[list[KernelErrors], list[str]]:
    """Errors of predicted times of kernels, by kind, GPU and what was known of it; and what was not compared.

    Raises InputError with every mistake in the tables, and AccelsimError if no row can be compared, or SciPy is not
    installed.
    """
    only = gpu and load_gpu(gpu).name
    tables = [table for path in paths for table in read_kernels(path, command)]
    found: list[KernelErrors] = []
    for kind in {table.kind.name: table.kind for table in tables}.values():
        own = [table for table in tables if table.kind is kind]
        known = {table.sha256 for table in own} == {sources(kind.name).get("sha256")}
        found += _validated(kind, joined([table.rows for table in own]), known, only)
    if not found:
        there = listed(sorted({device.name for table in tables for device in table.rows.gpus}))
        hint = "of GPUs that accelsim's constants were fitted to, rows that a hash holds out are compared"
        raise AccelsimError(f"no row to compare{f' of {only}' if only else ''}; {hint}; the tables have {there}")
    return found, list(dict.fromkeys(note for table in tables for note in table.notes))


def _validated(kind: OperatorKind, rows: Rows, shipped_of: bool, only: str | None) -> Iterator[KernelErrors]:
    families, names = rows.families, np.array([gpu.name for gpu in rows.gpus])[rows.which]
    modes: dict[str, list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]] = {LEFT_OUT: [], CALIBRATED: []}
    everything = np.ones(len(rows), dtype=bool)
    for name in sorted(set(families.tolist())) if len(set(families.tolist())) > 1 else []:
        if only is None or (names[families == name] == only).any():
            modes[LEFT_OUT].append((families != name, (families == name) & rows.held))
    modes[CALIBRATED].append((everything, rows.held))
    cases = []
    for mode, splits in modes.items():
        for fitted, tested in splits:
            if tested.any() and (fitted & ~rows.held).sum() >= LEAST_ROWS:
                known, of = rows.take(fitted & ~rows.held), rows.take(tested)
                ours = predict(kind, of, fit_sets(kind, known))
                cases.append((mode, tested, {"ours": ours, **baselines(kind, known, of)}))
    if not shipped_of and sources(kind.name):
        fitted_gpus = {name for one in shipped(kind.name).sets for name in one.gpus}
        tested = rows.held | ~np.isin(names, list(fitted_gpus))
        of = rows.take(tested)
        roofline = roofline_of(kind)
        times = {
            "ours": predict(kind, of, shipped(kind.name)),
            "roofline": predict(roofline, of, shipped(roofline.name, ROOFLINES)),
        }
        cases.insert(len(cases) - 1, (SHIPPED, tested, times))
    for gpu in dict.fromkeys(names.tolist()):
        for mode, tested, times in cases if only in (None, gpu) else []:
            here = names[tested] == gpu
            if here.any():
                measured = rows.time_us[tested][here]
                yield from (_errors(kind.name, gpu, mode, name, of[here], measured) for name, of in times.items())


def _errors(kind: str, gpu: str, mode: str, method: str, predicted: Floats, measured: Floats) -> KernelErrors:
    error, long = np.abs(predicted / measured - 1), measured > _LONG_US
    return KernelErrors(
        kind,
        gpu,
        mode,
        method,
        len(measured),
        float(np.median(error)),
        float(np.quantile(error, 0.9)),
        float(np.median(error[long])) if long.any() else None,
        float(np.median(predicted / measured)),
    )


_KERNELS = (
    Column("kind", "kind", once=True),
    Column("GPU", "gpu", left=True, once=True),
    Column("mode", "mode", left=True),
    Column("rows", "rows", "{:,}".format),
    Column("median", "median", short_percent, meaning="of the error"),
    Column("p90", "p90", short_percent, meaning="what nine tenths are below"),
    Column("over 100 us", "long_median", short_percent, meaning="median of those rows"),
    Column("ratio", "ratio", plain, meaning="median of ours over measured"),
    Column("roofline", "roofline", short_percent, meaning="median of three constants for each stack"),
    Column("nearest", "nearest", short_percent, meaning="of the nearest row, scaled by its roofline"),
)


def kernels_errors_report(what: str, document: Mapping[str, Any]) -> Iterator[Piece]:
    """Errors of each kind, GPU and mode, ours beside the baselines'."""
    yield heading(what, "predicted beside measured times, of rows that were not fitted")
    cases: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in document[what]:
        case = cases.setdefault((row["kind"], row["gpu"], row["mode"]), {"roofline": None, "nearest": None})
        case.update(row if row["method"] == "ours" else {row["method"]: row["median"]})
    yield Table("errors", _KERNELS, list(cases.values()))
    yield legend(_KERNELS)
    for mode in dict.fromkeys(row["mode"] for row in document[what]):
        yield dim(f"{mode}: {MODES[mode]}")
    yield from (f"not compared: {note}" for note in document["not_compared"])


COMMANDS = tuple(dict.fromkeys(operator.command for operator in OPERATORS.values()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the tables named."""
    parser = argparse.ArgumentParser(prog="python -m validation.kernels", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=COMMANDS, help="operators of the tables that are compared")
    parser.add_argument("paths", nargs="+", metavar="TABLE", help="CSV of measured kernels")
    parser.add_argument("--gpu", help="compare rows of this GPU alone")

    def compare(parsed: argparse.Namespace) -> Answer:
        found, notes = validate_kernels(parsed.paths, parsed.what, parsed.gpu)
        document = {parsed.what: [asdict(case) for case in found], "not_compared": notes}
        return Answer(document, lambda: kernels_errors_report(parsed.what, document))

    return run_alone(parser, arguments, compare)[0]


if __name__ == "__main__":
    sys.exit(main())
