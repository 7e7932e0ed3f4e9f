"""Values of files of other tools: of the kind that is expected, or refused at their place."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from accelsim.importers.documents import Row, Table, refuse
from accelsim.importers.foreign import Note
from accelsim.importers.formula import FormulaError, Value, work_out
from accelsim.inputs.errors import Mark, SpecError
from accelsim.inputs.units import quoted
from accelsim.inputs.workload_reader import load_workload

T = TypeVar("T")
_KINDS: dict[type, str] = {Table: "a map", Row: "a list", str: "a word"}


def value(table: Table, key: str, kind: type[T], default: T | None = None) -> T:
    """Map, list or word under a key; refused where it is of another kind, or missing without a default."""
    found = table.get(key)
    if found is None and default is not None:
        return default
    if found is None:
        raise refuse(table.where(key), f"'{key}' is missing")
    if not isinstance(found, kind):
        raise refuse(table.where(key), f"{key}: expected {_KINDS[kind]}, got {quoted(str(found))}")
    return found


def number(
    table: Table, key: str, default: float | None = None, names: Mapping[str, Value] | None = None
) -> float | int:
    """Number under a key, or of the formula that stands there."""
    found = table.get(key)
    if found is None and default is not None:
        return default
    if found is None:
        raise refuse(table.where(key), f"'{key}' is missing")
    return as_number(found, table.where(key), names)


def as_number(found: Any, mark: Mark, names: Mapping[str, Value] | None = None) -> float | int:
    """Number as it is written, or of a formula."""
    if found is None:
        raise refuse(mark, "a number is missing")
    try:
        worked_out = work_out(found, names or {}) if isinstance(found, str) else found
    except FormulaError as error:
        raise refuse(mark, str(error)) from None
    if isinstance(worked_out, bool) or not isinstance(worked_out, int | float) or worked_out != worked_out:
        raise refuse(mark, f"expected a number, got {quoted(str(found))}")
    return worked_out


def whole(found: Any, mark: Mark, least: int = 1) -> int:
    """Whole number from `least` on."""
    given = as_number(found, mark)
    if not math.isfinite(given) or given != int(given) or given < least:
        raise refuse(mark, f"expected a whole number from {least} on, got {quoted(str(found))}")
    return int(given)


def tables(row: Row) -> list[Table]:
    """Maps of a list; refused where it holds something else."""
    for each in row:
        if not isinstance(each, Table):
            raise refuse(row.mark, f"expected a list of maps, got {quoted(str(each))} in it")
    return list(row)


def plain_name(text: str) -> str:
    """Name as our files have it: letters, digits and `_ . / + -`."""
    return re.sub(r"[^A-Za-z0-9_./+-]", "_", text) or "_"


def note_others(table: Table, known: Iterable[str], why: Mapping[str, str], notes: list[Note]) -> None:
    """Note the keys of a map that nobody reads; `why` says for some of them what that means."""
    notes += [Note(table.where(key), key, why.get(key, "is not read")) for key in sorted(table.keys() - set(known))]


def checked_workload(body: dict[str, Any], mark: Mark, notes: list[Note]) -> dict[str, Any]:
    """Workload as our reader takes it: without its edges, which are noted, where shapes do not agree."""
    try:
        load_workload({"workload": body})
    except SpecError as error:
        edges = [problem for problem in error.problems if ".from" in problem.what]
        others = [problem for problem in error.problems if problem not in edges]
        if others:
            raise refuse(mark, others[0].what, others[0].hint) from None
        notes.append(Note(mark, "edges", f"what feeds a layer is left out: {edges[0].what}"))
        for layer in body["layers"]:
            layer.pop("from", None)
        return checked_workload(body, mark, notes)
    return body


def file_stem(mark: Mark) -> str:
    """Name of a file without its folder and ending, as our files have names."""
    return plain_name(mark.file.rpartition("/")[2].rpartition(".")[0])


def only(documents: list[Table], what: str) -> Table | None:
    """The one map of a kind that the files hold, or None; several are refused."""
    if len(documents) > 1:
        raise refuse(documents[1].mark, f"a second {what}; the first stands in {documents[0].mark.file}")
    return documents[0] if documents else None
