"""YAML text to nodes that know their place; scalars stay as written.

A node is a scalar, a list or a map. A problem is reported at its mark, with its path in the file (`levels[2].size`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import yaml

from accelsim.inputs.errors import InputError, Mark, Problem, Unreadable
from accelsim.inputs.library import read_file
from accelsim.inputs.units import printable, quoted

T = TypeVar("T")
_DEEPEST = 40
_MERGE = "<<"
_MOST_REPEATED = 20_000
"""Values that the aliases of a file may stand for."""
_SYNTAX = {
    r"mapping values are not allowed": (
        "a ':' stands where no key can",
        "begin each key on its own line in the column of its neighbours; quote a text with ': ' in it",
    ),
    r"sequence entries are not allowed": ("a '-' stands where no list can begin", "begin each item on its own line"),
    r"but found '([\]}])'": ("'{0}' closes no bracket", ""),
    r"expected <block end>": (
        "this line is not indented like the {block} that begins at line {line}",
        "begin all {parts} of it in one column",
    ),
    r"could not find expected ':'": ("this key has no ':'", "write `key: value`"),
    r"found character '\\t'": ("a tab stands where a line is indented", "indent with spaces"),
    r"found character '(.*)' that": ("no value begins with '{0}'", "put it in quotes"),
    r"expected ',' or '(.)'": ("'{0}' or ',' is missing: a bracket of line {line} is open", ""),
    r"found undefined alias '(.*)'": ("the alias *{0} has no anchor &{0} before it", ""),
    r"found duplicate anchor '(.*)'": ("the anchor &{0} is given twice", "give each its own name"),
    r"expected a single document": ("a second document begins here", "a file holds one"),
    r"found unexpected end of stream": ("this quote is not closed", ""),
}
"""What PyYAML says, and what is wrong and what to write instead in our words."""
_FOUND_LATE = "could not find expected|unexpected end of stream"
"""Said at a place after the mistake."""
_PACKAGE = str(Path(__file__).resolve().parents[1])
_SAFE: Any = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


class Dumper(_SAFE):  # type: ignore[misc]
    """Writes YAML, by libyaml in a quarter of the time; numbers and arrays of NumPy as what they hold."""


def _represent(dumper: Any, value: Any) -> Any:
    return dumper.represent_data(value.tolist()) if hasattr(value, "tolist") else dumper.represent_undefined(value)


Dumper.add_multi_representer(object, _represent)
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A value as written; `note` says where it came from if not from this place."""

    mark: Mark
    path: str
    text: str
    note: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing is written here."""
        return not self.text


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list of nodes."""

    mark: Mark
    path: str
    items: tuple[Node, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class MapNode:
    """Keys with their values, and the place of each key."""

    mark: Mark
    path: str
    entries: Mapping[str, Node]
    key_marks: Mapping[str, Mark]
    note: str = ""


@dataclass(frozen=True, slots=True)
class BadNode:
    """A value that could not be worked out; its problem is already reported."""

    mark: Mark
    path: str
    note: str = ""


Node = ScalarNode | ListNode | MapNode | BadNode


class Problems:
    """The mistakes found so far."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self._met = 0

    def __len__(self) -> int:
        return len(self.found) + self._met

    def unreadable(self, node: Node | None) -> bool:
        """Whether a value is one whose mistake was reported before; it counts again where it is needed."""
        bad = isinstance(node, BadNode)
        self._met += bad
        return bad

    def add(self, where: Node | Mark, what: str, hint: str = "") -> None:
        """Report a mistake at a node or a mark."""
        if isinstance(where, Mark):
            self.found.append(Problem(where, what, hint))
            return
        path = f"{where.path}: " if where.path else ""
        note = f" ({where.note})" if where.note else ""
        self.found.append(Problem(where.mark, f"{path}{what}{note}", hint))

    def warn(self, where: Node, what: str, hint: str) -> None:
        """Log what is taken as it is written, and is hardly meant."""
        warning = Problem(where.mark, f"warning: {where.path}: {what}", hint)
        logging.getLogger("accelsim").warning("%s", warning)

    def result(self, value: T | None) -> T:
        """Return the value if nothing was wrong, else raise every problem at once."""
        if self.found or value is None:
            raise InputError(self.found)
        return value


def describe(node: Node) -> str:
    """Say what is written at a node, for a message."""
    if isinstance(node, ScalarNode):
        return "nothing" if node.empty else quoted(node.text)
    if isinstance(node, ListNode):
        return "a list" if node.items else "an empty list"
    return "an empty mapping" if isinstance(node, MapNode) and not node.entries else "a mapping"


def read_text(path: str | PathLike[str], problems: Problems) -> str | None:
    """Text of a UTF-8 file, or None with the reason reported."""
    start = Mark(str(path), 1, 1)
    try:
        data = read_file(path)
    except Unreadable as error:
        problems.add(start, error.why)
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        problems.add(_place(str(path), before, len(before)), "not UTF-8 text", "save the file as UTF-8")
        return None


def compose_file(path: str | PathLike[str], problems: Problems) -> Node | None:
    """Read a YAML file into nodes, or None with every reason reported."""
    text = read_text(path, problems)
    return None if text is None else compose_text(text, str(path), problems)


def compose_text(text: str, file: str, problems: Problems, *, dumped: bool = False) -> Node | None:
    """Read YAML text, of a user or dumped by us, into nodes, or None with the reason reported."""
    root, found = _compose(text, file, dumped or file.startswith(_PACKAGE))
    problems.found.extend(found)
    return root


@lru_cache(maxsize=64)
def _compose(text: str, file: str, ours: bool) -> tuple[Node | None, tuple[Problem, ...]]:
    """Nodes of a text, which nobody changes, and its mistakes; a file of many designs is composed once."""
    problems, start = Problems(), Mark(file, 1, 1)
    found: Node | None = None
    try:
        root = (_compose_quickly(text) if ours else None) or yaml.compose(text, Loader=yaml.BaseLoader)
        if root is None:
            problems.add(start, "the file is empty")
        else:
            found = _Conversion(file, problems).node(root, "", 0)
    except yaml.MarkedYAMLError as error:
        problems.found.append(syntax_problem(error, file))
    except yaml.reader.ReaderError as error:
        problems.add(_place(file, text, error.position), "not valid YAML: a control character")
    except RecursionError:
        problems.add(start, "nested too deeply")
    except (yaml.YAMLError, ValueError, OverflowError, IndexError) as error:  # PyYAML lets "\UFFFFFFFF" reach chr()
        problems.add(start, f"not valid YAML: {error}")
    return found, tuple(problems.found)


def _compose_quickly(text: str) -> yaml.Node | None:
    """Nodes of a file of the package, or of what was dumped, by libyaml, in a tenth of the time; None if it cannot.

    It takes some texts that are no YAML, and does not bear any depth: files of users are read without it.
    """
    if yaml.__with_libyaml__:
        with suppress(yaml.YAMLError):
            return yaml.compose(text, Loader=yaml.CBaseLoader)
    return None


def _place(file: str, text: str, position: int) -> Mark:
    before = text[:position]
    return Mark(file, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def syntax_problem(error: yaml.MarkedYAMLError, file: str) -> Problem:
    """Say in a user's words what PyYAML found, at the place where it is mended."""
    begin, at = error.context_mark, error.problem_mark
    said = f"{error.context or ''} {error.problem or ''}".strip()
    what, hint = said, ""
    for pattern, (words, instead) in _SYNTAX.items():
        match = re.search(pattern, said)
        if match:
            block, parts = ("list", "items") if "collection" in str(error.context) else ("mapping", "keys")
            names = {"block": block, "parts": parts, "line": begin.line + 1 if begin else 1}
            what, hint = words.format(*match.groups(), **names), instead.format(*match.groups(), **names)
            break
    at = begin if begin and re.search(_FOUND_LATE, said) else at or begin
    mark = Mark(file, at.line + 1, at.column + 1) if at else Mark(file, 1, 1)
    return Problem(mark, f"not valid YAML: {what}", hint)


class _Conversion:
    """Turns the nodes of PyYAML into ours; an alias becomes a copy of what it stands for, with its own path."""

    def __init__(self, file: str, problems: Problems) -> None:
        self.file = file
        self.problems = problems
        self._inside: set[int] = set()
        self._done: set[int] = set()
        self._repeated = 0

    def node(self, node: yaml.Node, path: str, depth: int) -> Node:
        """Turn a node at a path into ours."""
        mark = self._mark(node)
        self._repeated += id(node) in self._done
        if self._repeated > _MOST_REPEATED:
            what = f"its aliases stand for more than {_MOST_REPEATED:,} values"
            raise yaml.composer.ComposerError(None, None, what, node.start_mark)
        self._done.add(id(node))
        if id(node) in self._inside:
            return self._bad(mark, path, "is a YAML alias of what it stands in", "leave it out")
        if depth > _DEEPEST:
            return self._bad(mark, path, "nested too deeply")
        if node.tag not in _TAGS:
            return self._bad(mark, path, f"YAML tag {quoted(node.tag)} is not read", "leave it out")
        if isinstance(node, yaml.ScalarNode):
            return ScalarNode(mark, path, node.value)
        self._inside.add(id(node))
        if isinstance(node, yaml.MappingNode):
            found: Node = self._map(node, path, depth)
        else:
            items = (self.node(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(node.value))
            found = ListNode(mark, path, tuple(items))
        self._inside.remove(id(node))
        return found

    def _map(self, node: yaml.MappingNode, path: str, depth: int) -> MapNode:
        """Turn a mapping into ours; its own keys go before those that `<<` merges, and earlier ones before later."""
        entries: dict[str, Node] = {}
        key_marks: dict[str, Mark] = {}
        merged: list[MapNode] = []
        for key_node, value_node in node.value:
            key_mark = self._mark(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self._bad(key_mark, path, "a key must be a word, not a list or mapping")
                continue
            key = key_node.value
            if key in key_marks:
                self._bad(key_mark, path, f"key {quoted(key)} is given twice, first at line {key_marks[key].line}")
                continue
            key_marks[key] = key_mark
            if key == _MERGE:
                merged = self._merged(value_node, path, depth)
                continue
            # the keys at the top of the file do not lengthen the path: levels[2].size, not architecture.levels[2].size
            below = "" if depth == 0 and key != "params" else f"{path}.{printable(key[:60])}".lstrip(".")
            entries[key] = self.node(value_node, below, depth + 1)
        key_marks.pop(_MERGE, None)
        for other in merged:
            entries = {**other.entries, **entries}
            key_marks = {**other.key_marks, **key_marks}
        return MapNode(self._mark(node), path, entries, key_marks)

    def _merged(self, node: yaml.Node, path: str, depth: int) -> list[MapNode]:
        """Mappings that stand under `<<`: one, or a list of them."""
        several = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found = [self.node(each, path, depth + 1) for each in several]
        for each in found:
            if not isinstance(each, MapNode | BadNode):
                self._bad(each.mark, path, f"expected a mapping under `{_MERGE}`, got {describe(each)}")
        return [each for each in found if isinstance(each, MapNode)]

    def _bad(self, mark: Mark, path: str, what: str, hint: str = "") -> BadNode:
        """Report what is wrong with a node, which stands for nothing then."""
        bad = BadNode(mark, path)
        self.problems.add(bad, what, hint)
        return bad

    def _mark(self, node: yaml.Node) -> Mark:
        return Mark(self.file, node.start_mark.line + 1, node.start_mark.column + 1)
