"""Files of other tools, with the place of each key: YAML with tags, anchors and merge keys; sections; rows of cells.

Nothing in a file is run. Plain scalars of YAML become numbers, truth values and nothing by YAML 1.2 (`1e-9` is a
number, `NO` a word). `<<` merges a map, `<<<` merges it down to its innermost maps, as the front ends of Timeloop and
AccelForge do. Names in templates of files that were included stand for what these files hold.
"""

from __future__ import annotations

import ast
import configparser
import csv
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import yaml

from accelsim.inputs.errors import AccelsimError, InputError, Mark, Problem
from accelsim.inputs.source import syntax_problem
from accelsim.inputs.units import quoted

T = TypeVar("T")
_MOST_VALUES = 100_000
"""Values of a file, at most, an alias counted as what it stands for."""
_DEEPEST = 40
_MOST_TOLD = 1 << 16
"""Characters of a file with a mistake that is read again to say what it is, at most."""
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,30}|(?=\.?[0-9])[0-9]{0,30}\.?[0-9]{0,30}(?:[eE][-+]?[0-9]{1,3})?)")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("true", "True", "TRUE"), True), **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")), **dict.fromkeys((".inf", ".Inf", ".INF"), float("inf")),
}  # fmt: skip
_DRAWN_LEVEL = re.compile(r"(\w[\w.\[\]]*) \[((?: \w+:\d+(?: \(\d+\))?)*) \]")
_DRAWN_TENSOR = re.compile(r"(\w+):")
_DRAWN_LOOP = re.compile(r"\| +for (\w+) in \[0:(\d+(?:,\d+)?)\)(?: \(Spatial-([XY])\))?")
_STANDARD = "tag:yaml.org,2002:"
_KNOWN_TAGS = {f"{_STANDARD}{tag}" for tag in ("str", "int", "float", "bool", "null", "seq", "map", "merge")}


def plain_scalar(text: str) -> Any:
    """A number, a truth value, nothing, or a word, as YAML 1.2 has them."""
    if _NUMBER.fullmatch(text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return _WORDS.get(text, text)


@dataclass(frozen=True, slots=True)
class Note:
    """Something that does not carry over: its place, the key, and what it would mean or why it is left out.

    `of`: the layer or node that it is about; those of one reason are one line.
    """

    mark: Mark
    key: str
    why: str
    of: str = ""

    def __str__(self) -> str:
        return f"{self.mark}: {self.key}: {self.why}"


class Map(dict[str, Any]):
    """A map of a file: where it begins, where each key stands, and its tag, such as `!Component`.

    `size` and `depth` count what YAML has in it, an alias as what it stands for. `anchored`: whether it has an anchor,
    by which other places may have it.
    """

    anchored = False

    def __init__(
        self, mark: Mark, tag: str = "", held: Mapping[str, Any] | None = None, marks: Mapping[str, Mark] | None = None
    ) -> None:
        super().__init__(held or {})
        self.mark, self.tag, self.marks = mark, tag, dict(marks or {})
        self.size, self.depth = 1, 0

    def where(self, key: str) -> Mark:
        """Place of a key, or of the map where it has none of that name."""
        return self.marks.get(key, self.mark)

    def refuse(self, key: str, what: str, hint: str = "") -> InputError:
        """One mistake at a key."""
        return refuse(self.where(key), what, hint)

    def note(self, key: str, why: str, of: str = "") -> Note:
        """What a key that does not carry over would mean, or why it is left out."""
        return Note(self.where(key), key, why, of)

    def value(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Map, list or word under a key; refused where it is of another kind, or missing without a default."""
        found = default if self.get(key) is None else self[key]
        if found is None:
            raise self.refuse(key, f"'{key}' is missing")
        if not isinstance(found, kind):
            raise self.refuse(key, f"{key}: expected {_KINDS[kind]}, got {quoted(str(found))}")
        return found

    def inner(self, key: str) -> Map:
        """Map under a key; an empty one where it is missing."""
        return self.value(key, Map, Map(self.mark))

    def rows(self, key: str) -> list[Map]:
        """Maps of the list under a key; none where it is missing."""
        return self.value(key, Seq, Seq(self.mark)).maps()


class Seq(list[Any]):
    """A list of a file: where it begins, its tag, and `size`, `depth` and `anchored` as those of a map."""

    anchored = False

    def __init__(self, mark: Mark, tag: str = "", held: Iterable[Any] = ()) -> None:
        super().__init__(held)
        self.mark, self.tag = mark, tag
        self.size, self.depth = 1, 0

    def maps(self) -> list[Map]:
        """Its maps; refused where it holds something else."""
        for each in self:
            if not isinstance(each, Map):
                raise refuse(self.mark, f"expected a list of maps, got {quoted(str(each))} in it")
        return list(self)


_KINDS: dict[type, str] = {Map: "a map", Seq: "a list", str: "a word"}


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read: its path, and what it holds; nothing (None) of an ONNX or PyTorch model.

    `repeated` are the keys that a map has twice; the last one counts, as PyYAML has it.
    """

    path: str
    body: Map | Seq | None
    repeated: tuple[tuple[Mark, str], ...] = ()


def refuse(mark: Mark, what: str, hint: str = "") -> InputError:
    """One mistake at a place."""
    return InputError([Problem(mark, what, hint)])


def parse_sections(text: str, path: str) -> Document:
    """Read `key: value` below `[section]`s: a map of maps of words, whose keys are in small letters."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text, path)
    except configparser.Error as error:
        wrong = next(iter(getattr(error, "errors", ())), (getattr(error, "lineno", 1),))
        hint = "libconfig, as of Timeloop's first versions, is not read; its YAML is" if "{" in text else ""
        raise refuse(Mark(path, wrong[0], 1), "expected `key: value`, below a `[section]`; each once", hint) from None
    body, section = Map(Mark(path, 1, 1)), Map(Mark(path, 1, 1))
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        name, key = line[1:-1], re.split("[:=]", line)[0].strip().lower()
        if line.startswith("[") and name in parser:
            section = Map(Mark(path, number, 1), held=parser[name])
            body[name], body.marks[name] = section, section.mark
        elif key in section:
            section.marks[key] = Mark(path, number, 1)
    return Document(path, body)


def parse_rows(text: str, path: str) -> Document:
    """Read lines of cells: a list of lists of words; empty ones at the end, and those behind `#`, are left out."""
    rows = Seq(Mark(path, 1, 1))
    lines = csv.reader(text.splitlines(), delimiter="," if "," in text else "\t", skipinitialspace=True)
    try:
        for cells in lines:
            shown = itertools.takewhile(lambda cell: not cell.startswith("#"), map(str.strip, cells))
            row = Seq(Mark(path, lines.line_num, 1), held=shown)
            while row and not row[-1]:
                row.pop()
            if row:
                rows.append(row)
    except csv.Error as error:
        raise refuse(Mark(path, lines.line_num, 1), f"not valid CSV: {error}") from None
    if not rows:
        raise refuse(rows.mark, "the file is empty")
    return Document(path, rows)


def parse_nest(text: str, path: str) -> Document:
    """Read a mapping as Timeloop draws it: levels with what they keep, and below each its loops, outermost first.

    It becomes directives as Timeloop's YAML has them, with one for each axis.
    """
    found, blocks = Seq(Mark(path, 1, 1)), dict[str, Map]()
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if level := _DRAWN_LEVEL.fullmatch(line):
            held = {"temporal": {}, "X": {"split": _DEEPEST}, "Y": {"split": 0}}
            blocks = {
                kind: Map(Mark(path, number, 1), held={"target": level[1], "type": "spatial", "factors": [], **own})
                for kind, own in held.items()
            }
            blocks["temporal"] |= {"type": "temporal", "permutation": []}
            keeping = {"target": level[1], "type": "dataspace", "keep_only": _DRAWN_TENSOR.findall(level[2])}
            found += [Map(Mark(path, number, 1), held=keeping), *blocks.values()]
        elif (loop := _DRAWN_LOOP.fullmatch(line)) and blocks:
            block = blocks[loop[3] or "temporal"]
            block["factors"].append(f"{loop[1]}={loop[2]}")
            block.get("permutation", []).insert(0, loop[1])
            block.marks["factors"] = Mark(path, number, 1)
        elif line.strip("-| ") not in ("", "<< Compute >>"):
            raise refuse(Mark(path, number, 1), f"expected a level or a loop of a mapping, got {quoted(line)}")
    if not found:
        raise refuse(found.mark, "no levels of a mapping in it")
    return Document(path, Map(found.mark, held={"mapping": found}))


def _refused(what: str, hint: str) -> Callable[[str, str], Document]:
    def reader(_: str, path: str) -> Document:
        raise refuse(Mark(path, 1, 1), what, hint)

    return reader


_STATISTICS = _refused(
    "statistics of Timeloop are no input", "`python -m validation.timeloop_files` takes its stats.txt"
)
_OF_MAESTRO = "write the layers as a workload or name a model (ONNX), and the dataflow as constraints"
_OF_PYTHON = "name a model (ONNX, or .pt2 of PyTorch), or the YAML in which newer versions of ZigZag have their inputs"


def parse_python(text: str, path: str) -> Document:
    """Read the one dict of a Python file, `mapping = {...}` or `workload = {...}` of ZigZag; nothing is run."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise refuse(Mark(path, line, 1), f"not valid Python: {error}") from None
    dicts = [node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)]
    if len(dicts) != 1 or not dicts[0].keys:
        raise refuse(Mark(path, 1, 1), "Python is not run", _OF_PYTHON)
    table = _literal(dicts[0], path, 0)
    for key, one in table.items():
        if not isinstance(one, Map):
            raise table.refuse(key, f"expected a dict, got {quoted(str(one))}")
        one.setdefault("id" if "equation" in one else "name", key)
    return Document(path, Seq(table.mark, held=table.values()))


def _literal(node: ast.expr, path: str, depth: int) -> Any:
    """What a literal holds; anything else is refused."""
    mark = Mark(path, node.lineno, node.col_offset + 1)
    if depth > _DEEPEST:
        raise refuse(mark, "nested too deeply")
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return -value
        case ast.List(items) | ast.Tuple(items):
            return Seq(mark, held=[_literal(item, path, depth + 1) for item in items])
        case ast.Dict(keys, values) if None not in keys:
            found = Map(mark)
            for key, held in zip(cast(list[ast.expr], keys), values, strict=True):
                name = str(_literal(key, path, depth + 1))
                found[name] = _literal(held, path, depth + 1)
                found.marks[name] = Mark(path, key.lineno, key.col_offset + 1)
            return found
    raise refuse(mark, f"{quoted(ast.unparse(node)[:40])} is not run", "write what it stands for")


_BY_ENDING = {
    ".cfg": ("scalesim", parse_sections),
    ".csv": ("scalesim", parse_rows),
    "map.txt": ("timeloop", parse_nest),
    "stats.txt": ("timeloop", _STATISTICS),
    "stats.xml": ("timeloop", _STATISTICS),
    ".m": ("maestro", _refused("files of MAESTRO are not read", _OF_MAESTRO)),
    ".py": ("zigzag", parse_python),
}


def by_ending(path: str) -> tuple[str, Callable[[str, str], Document]] | None:
    """Tool of a file with such an ending, and its reader; None of others, which are YAML."""
    return next((found for ending, found in _BY_ENDING.items() if path.endswith(ending)), None)


def parse(
    text: str,
    path: str,
    place: Callable[[int], tuple[str, int]] | None = None,
    included: Mapping[str, Any] | None = None,
    include: Callable[[str], Any] | None = None,
) -> Document:
    """Read YAML text; raises InputError if it is no YAML, stands for too much, or would run something.

    `place` gives file and line that a line (from 1) of the text comes from; by default they are those of the text.
    `included` is what names in the text stand for, as they are or with keys behind points. `include` reads the file
    that a tag `!include` names; without it no file is read.
    """
    builder = _DocumentBuilder(place or (lambda line: (path, line)), included or {}, include)
    return Document(path, builder.build(text), tuple(builder.repeated))


class _DocumentBuilder:
    """Makes maps and lists of YAML's events, not more than is read later."""

    def __init__(
        self, place: Callable[[int], tuple[str, int]], included: Mapping[str, Any], include: Callable[[str], Any] | None
    ) -> None:
        self.place, self.included, self.include = place, included, include
        self.open: list[Map | Seq] = []
        self.events: Iterator[Any] = iter(())
        self.anchors: dict[str, Any] = {}
        self.repeated: list[tuple[Mark, str]] = []

    def mark(self, event: Any) -> Mark:
        file, line = self.place(event.start_mark.line + 1)
        return Mark(file, line, event.start_mark.column + 1)

    def build(self, text: str) -> Map | Seq:
        root = Seq(Mark(self.place(1)[0], 1, 1))
        try:
            self.events = yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
            root += [self._value(event) for event in self.events if isinstance(event, yaml.NodeEvent)]
        except yaml.MarkedYAMLError as error:
            if "maximum nesting depth" in str(error.problem):
                raise refuse(root.mark, "nested too deeply") from None
            problem = syntax_problem(_said_by_pyyaml(text) or error, "")
            file, line = self.place(problem.mark.line)
            raise InputError([replace(problem, mark=Mark(file, line, problem.mark.column))]) from None
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            raise refuse(root.mark, f"not valid YAML: {str(error).splitlines()[0]}") from None
        if len(root) != 1 or not isinstance(root[0], Map | Seq):
            what = "holds no maps or lists" if len(root) < 2 else "holds several YAML documents; one is read"
            raise refuse(root.mark, what)
        return root[0]

    def _value(self, event: Any) -> Any:
        """What an event begins, with all that is inside."""
        if isinstance(event, yaml.AliasEvent):
            value, alias = self.anchors.get(str(event.anchor), self), quoted(f"*{event.anchor}")
            if value is self:
                raise refuse(self.mark(event), f"alias {alias} stands for nothing above it")
            if any(value is one for one in self.open):
                raise refuse(self.mark(event), f"alias {alias} stands for itself")
            return value
        scalar, made = isinstance(event, yaml.ScalarEvent), Seq if isinstance(event, yaml.SequenceStartEvent) else Map
        value = self._scalar(event) if scalar else made(self.mark(event), self._tag(event))
        if event.anchor:
            self.anchors[event.anchor] = value
        if scalar:
            return value
        value.anchored, value.depth = bool(event.anchor), 1
        self.open.append(value)
        if len(self.open) >= _DEEPEST:
            raise refuse(value.mark, "nested too deeply")
        while not isinstance(inside := next(self.events), yaml.CollectionEndEvent):
            if isinstance(value, Map):
                key = self._key(value, inside)
                value[key] = self._counted(value, next(self.events))
            elif isinstance(item := self._counted(value, inside), Seq) and item.tag == INCLUDED:
                value.extend(item)
            else:
                value.append(item)
        self.open.pop()
        if isinstance(value, Map):
            _merge(value)
        return value

    def _key(self, table: Map, event: Any) -> str:
        key = self._value(event)
        if isinstance(key, Map | Seq):
            raise refuse(self.mark(event), "a key must be a word, not a list or map")
        key = key if isinstance(key, str) else event.value
        if key in table.marks:
            self.repeated.append((self.mark(event), key))
        table.marks[key] = self.mark(event)
        return str(key)

    def _counted(self, parent: Map | Seq, event: Any) -> Any:
        """What an event begins, counted in what it is put into."""
        value = self._value(event)
        parent.size += getattr(value, "size", 1)
        parent.depth = max(parent.depth, 1 + getattr(value, "depth", 0))
        if parent.size > _MOST_VALUES:
            raise refuse(self.mark(event), f"the file stands for more than {_MOST_VALUES:,} values, aliases resolved")
        if parent.depth > _DEEPEST:
            raise refuse(self.mark(event), "nested too deeply")
        return value

    def _tag(self, event: Any) -> str:
        tag = event.tag or ""
        if tag.startswith("tag:") and tag not in _KNOWN_TAGS:
            raise refuse(self.mark(event), f"YAML tag {quoted(tag)} would run code or make an object; it is not read")
        return "" if tag in _KNOWN_TAGS else tag

    def _scalar(self, event: Any) -> Any:
        text, tag = event.value, self._tag(event)
        if tag == "!include" and self.include is not None:
            try:
                return self._included(event, self.include(text), [])
            except InputError:
                raise
            except AccelsimError as error:
                raise refuse(self.mark(event), str(error)) from None
        if event.style or event.tag == f"{_STANDARD}str":
            return text
        if tag and not text:  # `- !Nothing`
            return Map(self.mark(event), tag)
        name, *path = text.split(".")
        if name in self.included:
            return self._included(event, self.included[name], path)
        return text if tag and _NUMBER.fullmatch(text) else plain_scalar(text)

    def _included(self, event: Any, value: Any, path: list[str]) -> Any:
        """What a file that was included holds below some keys."""
        for key in path:
            if not isinstance(value, Map) or key not in value:
                raise refuse(self.mark(event), f"what is included has no key {quoted(key)}")
            value = value[key]
        if not isinstance(value, Map | Seq):
            return value
        found = Seq(value.mark, INCLUDED, value) if isinstance(value, Seq) else value
        found.size, found.depth = _measure(value)
        return found


def _said_by_pyyaml(text: str) -> yaml.MarkedYAMLError | None:
    """Mistake that PyYAML finds, in whose words ours are; libyaml has others."""
    try:
        for _ in yaml.parse(text if len(text) <= _MOST_TOLD else "", Loader=yaml.BaseLoader):
            pass
    except yaml.MarkedYAMLError as error:
        return error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        pass
    return None


INCLUDED = "!included"
"""Tag of a list that a template included; inside a list its items stand in its place."""


def _measure(value: Any) -> tuple[int, int]:
    """How many maps, lists and scalars there are in a value, at most `_MOST_VALUES` and one, and how deep they lie."""
    size = deepest = 0
    waiting = [(value, 1)]
    while waiting and size <= _MOST_VALUES:
        one, depth = waiting.pop()
        size, deepest = size + 1, max(deepest, depth)
        children = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        waiting += [(child, depth + 1) for child in children]
    return size, deepest


def _merge(table: Map) -> None:
    """Carry out the merge keys of a map; what it says itself comes first, then the first of several maps."""
    for key, deep in (("<<", False), ("<<<", True)):
        if key not in table:
            continue
        mark = table.marks.pop(key)
        bases = table.pop(key)
        for base in [bases] if isinstance(bases, Map) else bases if isinstance(bases, Seq) else [None]:
            if not isinstance(base, Map):
                raise refuse(mark, f"{key} merges a map or a list of maps")
            _add(table, base, deep)


def _add(table: Map, base: Map, deep: bool) -> None:
    for key, value in base.items():
        own = table.get(key)
        if key not in table:
            table[key], table.marks[key] = value, base.where(key)
        elif deep and isinstance(own, Map) and isinstance(value, Map):
            table[key] = Map(own.mark, own.tag, own, own.marks)
            _add(table[key], value, deep)
