"""YAML text to nodes that know their place; scalars stay as written.

A node is a scalar, a list or a map. A problem is reported at its mark, with its path in the file (`levels[2].size`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TypeVar

import yaml

from accelsim.inputs.errors import Mark, Problem, SpecError, Unreadable
from accelsim.inputs.files import read_file
from accelsim.inputs.units import printable, quoted

T = TypeVar("T")
_DEEPEST = 40
_PACKAGE = str(Path(__file__).resolve().parents[1])
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

    def result(self, value: T | None) -> T:
        """Return the value if nothing was wrong, else raise every problem at once."""
        if self.found or value is None:
            raise SpecError(self.found)
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


def compose_text(text: str, file: str, problems: Problems) -> Node | None:
    """Read YAML text into nodes, or None with the reason reported."""
    root, found = _compose(text, file)
    problems.found.extend(found)
    return root


@lru_cache(maxsize=64)
def _compose(text: str, file: str) -> tuple[Node | None, tuple[Problem, ...]]:
    """Nodes of a text, which nobody changes, and its mistakes; a file of many designs is composed once."""
    problems = Problems()
    return _composed(text, file, problems), tuple(problems.found)


def _composed(text: str, file: str, problems: Problems) -> Node | None:
    start = Mark(file, 1, 1)
    try:
        root = _compose_quickly(text, file) or yaml.compose(text, Loader=yaml.BaseLoader)
        if root is None:
            problems.add(start, "the file is empty")
            return None
        return _convert(root, file, "", 0, set(), problems)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        mark = Mark(file, at.line + 1, at.column + 1) if at else start
        context = f" {error.context}" if error.context else ""
        hint = "indent with spaces" if "'\\t'" in str(error.problem) else ""
        problems.add(mark, f"not valid YAML:{context} {error.problem or ''}".rstrip(), hint)
    except yaml.reader.ReaderError as error:
        problems.add(_place(file, text, error.position), "not valid YAML: a control character")
    except RecursionError:
        problems.add(start, "nested too deeply")
    except (yaml.YAMLError, ValueError, OverflowError, IndexError) as error:  # PyYAML lets "\UFFFFFFFF" reach chr()
        problems.add(start, f"not valid YAML: {error}")
    return None


def _compose_quickly(text: str, file: str) -> yaml.Node | None:
    """Nodes of a file of the package by libyaml, in a tenth of the time; None if it cannot.

    It takes some texts that are no YAML, and does not bear any depth: files of users are read without it.
    """
    if file.startswith(_PACKAGE) and yaml.__with_libyaml__:
        with suppress(yaml.YAMLError):
            return yaml.compose(text, Loader=yaml.CBaseLoader)
    return None


def _place(file: str, text: str, position: int) -> Mark:
    """Mark of a position in a text."""
    before = text[:position]
    return Mark(file, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def _convert(node: yaml.Node, file: str, path: str, depth: int, seen: set[int], problems: Problems) -> Node:
    """Turn a PyYAML node into ours."""
    mark = Mark(file, node.start_mark.line + 1, node.start_mark.column + 1)
    bad = BadNode(mark, path)
    if id(node) in seen:
        problems.add(bad, "is a YAML alias of this place; aliases are not read", "use `params` and $name")
        return bad
    seen.add(id(node))
    if depth > _DEEPEST:
        problems.add(bad, "nested too deeply")
        return bad
    if node.tag not in _TAGS:
        problems.add(bad, f"YAML tag {quoted(node.tag)} is not read", "leave it out")
        return bad
    if isinstance(node, yaml.ScalarNode):
        return ScalarNode(mark, path, node.value)
    if isinstance(node, yaml.SequenceNode):
        items = (_convert(item, file, f"{path}[{i}]", depth + 1, seen, problems) for i, item in enumerate(node.value))
        return ListNode(mark, path, tuple(items))
    entries: dict[str, Node] = {}
    key_marks: dict[str, Mark] = {}
    for key_node, value_node in node.value:
        key_mark = Mark(file, key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        at = BadNode(key_mark, path)
        if not isinstance(key_node, yaml.ScalarNode):
            problems.add(at, "a key must be a word, not a list or mapping")
            continue
        key = key_node.value
        if key in entries:
            problems.add(at, f"key {quoted(key)} is given twice, first at line {key_marks[key].line}")
            continue
        # the keys at the top of the file do not lengthen the path: levels[2].size, not architecture.levels[2].size
        below = "" if depth == 0 and key != "params" else f"{path}.{printable(key[:60])}".lstrip(".")
        entries[key] = _convert(value_node, file, below, depth + 1, seen, problems)
        key_marks[key] = key_mark
    return MapNode(mark, path, entries, key_marks)
