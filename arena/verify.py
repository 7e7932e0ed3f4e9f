"""Evaluate a submission to the arena, and say how far its mappings are from optima that are proved.

`python arena/verify.py SUBMISSION [--json] [--csv FILE]`. `problems.json` holds machines, layers and the rules of
counting in words; `optima.json`, our answers. A submission looks like that file: a tool, and mappings, each of a
problem in one of the spaces. Exit codes: 0 done, 1 a mapping is none, or beats a proof, 2 bad input.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from rich.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from accelsim.cli import DIFFERS
from accelsim.inputs import fields
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import Mark
from accelsim.inputs.fields import Fields, Key, Keys, keys_form, node_of
from accelsim.inputs.library import read_json
from accelsim.inputs.mapping import MAPPING_FORM, leaves_remainder, read_mapping
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.objective import Objective
from accelsim.inputs.source import ListNode, Problems, compose_file
from accelsim.inputs.units import near_miss, parse_decimal
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.show.report import objective_value
from accelsim.show.table import Column, Piece, Row, Table, bold
from validation.command import Answer, run_alone

HERE = Path(__file__).resolve().parent
PROBLEMS, OPTIMA = "problems.json", "optima.json"
SPACES = {
    "even": "each level stands once; the loops over a dimension multiply to its bound",
    "uneven": "a level may stand several times, one after the other, each time with other tensors, but for the first",
    "imperfect": "each level stands once; the loops over the dimensions in `imperfect` may leave a remainder",
}
EQUAL = 1e-9
"""Relative difference of values that are equal but for rounding."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """Our answer to a problem: its value, what no mapping falls below, and whether the two are one."""

    value: float
    bound: float | None
    proved: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A problem: the names of machine and layer, and what is to be small."""

    machine: str
    layer: str
    objective: str


class Arena:
    """The problems, and our answers; machines and layers are read when they are needed."""

    def __init__(self, folder: str | PathLike[str] = HERE) -> None:
        self.folder = Path(folder)
        self.document = read_json(self.folder / PROBLEMS)
        self.problems = {name: Asked(**asked) for name, asked in self.document["problems"].items()}
        self._machines: dict[str, Architecture] = {}
        self._layers: dict[str, Einsum] = {}

    @cached_property
    def known(self) -> dict[tuple[str, str], KnownAnswer]:
        """Our answers by problem and space."""
        rows = read_json(self.folder / OPTIMA)["mappings"]
        return {
            (row["problem"], row["space"]): KnownAnswer(row["value"], row.get("bound"), row["proved"]) for row in rows
        }

    def machine(self, problem: str) -> Architecture:
        """Machine of a problem."""
        name = self.problems[problem].machine
        if name not in self._machines:
            self._machines[name] = load_architecture({"architecture": self.document["machines"][name]})
        return self._machines[name]

    def layer(self, problem: str) -> Einsum:
        """Layer of a problem."""
        name = self.problems[problem].layer
        if name not in self._layers:
            body = {"name": name, "layers": [{"name": name, **self.document["layers"][name]}]}
            self._layers[name] = load_workload({"workload": body}).layers[0]
        return self._layers[name]


@dataclass(frozen=True, slots=True)
class Submitted:
    """A mapping of a problem in one of the spaces, and the value that its tool gives it, if it says."""

    problem: str
    space: str
    mapping: LoopNest
    claimed: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a submitted mapping comes to.

    `verdict` is `optimum`, `above`, `new best` (of an open problem), `INVALID` or `BEATS THE PROOF`; `above` is how far
    the value is above our best one, relative to it; `why` says what is wrong.
    """

    problem: str
    space: str
    objective: str
    value: float
    claimed: float | None
    best: float
    bound: float | None
    proved: bool
    above: float
    verdict: str
    why: str = ""

    @property
    def wrong(self) -> bool:
        """Whether the mapping is none, or better than can be."""
        return self.verdict in ("INVALID", "BEATS THE PROOF")


_number = fields.scalar({"type": "number"}, parse_decimal, "a number")
_ENTRY: Keys = {
    "problem": Key(fields.name, "a problem of the arena, such as `eyeriss/conv_3x3/energy`"),
    "space": Key(fields.one_of(SPACES), "the space that the mapping is of"),
    "mapping": Key(node_of(MAPPING_FORM), "the mapping, as under `mapping` in a mapping file"),
    "value": Key(_number, "what the tool says that it costs: pJ, cycles, or pJ * cycle", "unknown"),
    "bound": Key(_number, "what the tool says that no mapping falls below", "unknown"),
    "proved": Key(fields.boolean, "whether the tool says that it is the optimum", "false"),
    "nodes": Key(fields.count, "partial mappings that the tool looked at", "unknown"),
    "cpu_s": Key(_number, "CPU time that the tool took", "unknown", "s"),
}
_SUBMISSION: Keys = {
    "tool": Key(fields.text, "the tool and its version"),
    "mappings": Key(fields.items_of(keys_form(_ENTRY), "mappings", 1), "mappings, one of a problem in a space at most"),
}


def read_submission(path: str | PathLike[str], arena: Arena) -> tuple[str, list[Submitted]]:
    """Read a submission: its tool, and its mappings.

    Raises InputError with every mistake and its place: a problem that there is not, a mapping that is none of its layer
    or machine.
    """
    problems, found = Problems(), list[Submitted]()
    node = compose_file(path, problems)
    if node is None:
        return problems.result(None)
    top = Fields(node, problems, _SUBMISSION)
    tool = top.value("tool", "")
    listed: ListNode | None = top.value("mappings", None)
    seen: dict[tuple[str, str], Mark] = {}
    for entry in listed.items if listed is not None else ():
        each = _entry(Fields(entry, problems, _ENTRY), arena)
        if each is None:
            continue
        key = each.problem, each.space
        if key in seen:
            problems.add(entry, f"{each.problem} {each.space} has a mapping at line {seen[key].line}", "leave one out")
        seen[key] = entry.mark
        found.append(each)
    return problems.result((tool, found))


def _entry(entry: Fields, arena: Arena) -> Submitted | None:
    """One mapping, or None with every mistake reported."""
    problem, space = entry.value("problem", ""), entry.value("space", "")
    claimed = entry.value("value", None)
    for key in ("bound", "proved", "nodes", "cpu_s"):
        entry.value(key, None)
    if problem and problem not in arena.problems:
        hint = near_miss(problem, arena.problems) or f"{arena.folder / PROBLEMS} has them"
        entry.problems.add(entry.entries["problem"], f"'{problem}' is no problem of the arena", hint)
        return None
    node = entry.value("mapping", None)
    if node is None or not problem or not space:
        return None
    mapping = read_mapping(node, entry.problems, arena.machine(problem), arena.layer(problem))
    return mapping and Submitted(problem, space, mapping, None if claimed is None else float(claimed))


def judge(arena: Arena, submitted: Submitted) -> Verdict:
    """Evaluate a mapping, and compare it with ours."""
    problem, space = submitted.problem, submitted.space
    result = evaluate(arena.machine(problem), arena.layer(problem), submitted.mapping)
    objective = arena.problems[problem].objective
    value, ours = Objective.parse(objective).of(result), arena.known[problem, space]
    above = value / ours.value - 1
    outside = "; ".join([*_outside(submitted.mapping, space, arena.layer(problem)), *map(str, result.violations)])
    verdict, why = "optimum" if ours.proved else "best known", ""
    if outside:
        verdict, why = "INVALID", outside
    elif value < ours.value * (1 - EQUAL) and (ours.proved or value < (ours.bound or 0) * (1 - EQUAL)):
        verdict, why = "BEATS THE PROOF", f"no mapping falls below {ours.bound!r}, it was said"
    elif value < ours.value * (1 - EQUAL):
        verdict = "new best"
    elif above > EQUAL:
        verdict = "above"
    if submitted.claimed is not None and not math.isclose(submitted.claimed, value, rel_tol=1e-6):
        why = "; ".join(filter(None, (why, f"its tool counts {submitted.claimed:.6g}")))
    return Verdict(
        problem, space, objective, value, submitted.claimed, ours.value, ours.bound, ours.proved, above, verdict, why
    )


def _outside(mapping: LoopNest, space: str, einsum: Einsum) -> Iterator[str]:
    """What keeps a mapping from being one of a space."""
    names = [level.level for level in mapping.levels]
    if space != "uneven" and len(set(names)) < len(names):
        yield f"a level stands twice, which is not {space}"
    if space != "imperfect" and leaves_remainder(mapping, einsum.dims):
        yield f"a loop leaves a remainder, which is not {space}"
    if mapping.padded:
        yield "the arena has no padding"


def summary_rows(arena: Arena, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Of each space: problems, those with a valid mapping, those at our best, and how far above it they are."""
    rows: list[dict[str, Any]] = []
    for space in SPACES:
        mine = [each for each in verdicts if each.space == space]
        valid = [1 + max(0.0, each.above) for each in mine if not each.wrong]
        if mine:
            rows.append(
                {
                    "space": space,
                    "problems": sum(key[1] == space for key in arena.known),
                    "submitted": len(mine),
                    "valid": len(valid),
                    "at_best": sum(ratio <= 1 + EQUAL for ratio in valid),
                    "geometric_mean_above": math.exp(sum(map(math.log, valid)) / len(valid)) - 1 if valid else None,
                    "worst_above": max(valid) - 1 if valid else None,
                    "wrong": sum(each.wrong for each in mine),
                }
            )
    return rows


def arena_json(path: str | PathLike[str], arena: Arena) -> dict[str, Any]:
    """A submission as JSON: each of its mappings with its verdict, and each space."""
    tool, submitted = read_submission(path, arena)
    verdicts = [judge(arena, each) for each in submitted]
    rows = [{**asdict(each), "wrong": each.wrong} for each in verdicts]
    return {"tool": tool, "mappings": rows, "spaces": summary_rows(arena, verdicts)}


def arena_report(document: Mapping[str, Any]) -> Iterator[Piece]:
    """Mappings of a submission to the arena, those that are wrong first, and how far each space is from our best."""

    def cost(key: str) -> Callable[[Row], str]:
        return lambda row: objective_value(row["objective"], row[key], 5)

    columns = (
        Column("problem", "problem", unbroken=True),
        Column("space", "space", left=True),
        Column("value", cost("value")),
        Column("our best", cost("best")),
        Column("above", "above", lambda above: f"{100 * above:.2f} %"),
        Column("", lambda row: row, _arena_verdict, fold=True),
    )
    rows = sorted(document["mappings"], key=lambda row: not row["wrong"])
    yield bold(document["tool"])
    yield Table("mappings", columns, rows)
    yield Table("spaces", _SPACES, document["spaces"], title="By space")
    wrong = sum(row["wrong"] for row in rows)
    if wrong:
        yield Text(f"\nNOT ACCEPTED: {wrong} of {len(rows)} mappings are invalid or beat a proof", style="bold red")


_SPACES = (
    Column("space", "space"),
    Column("problems", "problems"),
    Column("submitted", "submitted"),
    Column("valid", "valid"),
    Column("at our best", "at_best"),
    Column("above it, geometric mean", "geometric_mean_above", lambda above: f"{100 * above:.2f} %"),
    Column("worst", "worst_above", lambda above: f"{100 * above:.2f} %"),
)


def _arena_verdict(row: Row) -> Text:
    said = f"{row['verdict']}: {row['why']}" if row["why"] else row["verdict"]
    return Text(said, style="bold red" if row["wrong"] else "bold" if row["verdict"] == "new best" else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge a submission; 1 if one of its mappings is invalid or better than can be."""
    parser = argparse.ArgumentParser(prog="python arena/verify.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("submission", metavar="SUBMISSION", help="JSON or YAML with a tool and mappings")

    def judge(parsed: argparse.Namespace) -> Answer:
        document = arena_json(parsed.submission, Arena())
        return Answer(document, lambda: arena_report(document))

    code, document = run_alone(parser, arguments, judge)
    return DIFFERS if any(row["wrong"] for row in document.get("mappings", ())) else code


if __name__ == "__main__":
    sys.exit(main())
