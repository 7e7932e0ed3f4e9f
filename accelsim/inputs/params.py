"""Parameters of a file: `params:` defines them, `$name` uses them, `--set` overrides them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike

from accelsim.inputs.errors import Mark, Problem, UnknownParameterError
from accelsim.inputs.library import importer
from accelsim.inputs.source import BadNode, ListNode, MapNode, Node, Problems, ScalarNode, compose_file, compose_text
from accelsim.inputs.units import LARGEST, listed, near_miss, near_misses, quoted

KEY = r"[A-Za-z_][A-Za-z0-9_]*"
"""Pattern of one part of a parameter's name."""
_NAME = re.compile(rf"{KEY}(?:\.[A-Za-z0-9_]+)*")
_USE = re.compile(r"\$[A-Za-z_]")
_TOKENS = re.compile(rf"(?:\s*(?:[0-9]+(?![0-9.A-Za-z_])|\${_NAME.pattern}|//|[-+*/()]))*")
ARITHMETIC = rf"^(?=.*\$)(?:\s*(?:[0-9]+(?![0-9.A-Za-z_])|\${_NAME.pattern}(?![0-9A-Za-z_])|[-+*/()]))+\s*$"
"""Pattern of a use of parameters as a whole: `$name`, or arithmetic."""
_LONGEST_CHAIN = 100


class _ArithmeticError(Exception):
    """Arithmetic that cannot be done; args are what and hint."""


class _ReportedError(Exception):
    """A value that cannot be worked out for a reason that is reported already."""


@dataclass(slots=True)
class _Parameters:
    """Definitions by dotted name, and the values worked out so far."""

    definitions: Mapping[str, Node]
    groups: Mapping[str, Node]
    overridden: frozenset[str]
    problems: Problems
    values: dict[str, Node] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)

    def value(self, name: str, use: ScalarNode) -> Node:
        """Value of a parameter; a problem is reported where it is used."""
        if name in self.values:
            return self.values[name]
        if name in self.groups:
            inner = ", ".join(f"${key}" for key in self.definitions if key.startswith(f"{name}."))
            return self._bad(use, f"${name} is a group of parameters", f"use one of them: {inner}" if inner else "")
        if name not in self.definitions:
            hint = near_miss(name, self.definitions)
            return self._bad(use, f"parameter ${name} is not defined", hint or "define it under `params`")
        if name in self.active:
            circle = " -> ".join(f"${key}" for key in [*self.active[self.active.index(name) :], name])
            return self._bad(use, f"parameters need each other: {circle}")
        if len(self.active) > _LONGEST_CHAIN:
            return self._bad(use, f"more than {_LONGEST_CHAIN} parameters refer to each other")
        self.active.append(name)
        value = self.resolve(self.definitions[name])
        self.active.pop()
        if isinstance(value, ListNode) and not all(isinstance(item, ScalarNode) for item in value.items):
            if not any(isinstance(item, BadNode) for item in value.items):
                self.problems.add(value, "a parameter is one value or a list of single values")
            value = BadNode(value.mark, value.path)
        self.values[name] = value
        return value

    def _bad(self, use: ScalarNode, what: str, hint: str = "") -> BadNode:
        self.problems.add(use, what, hint)
        return BadNode(use.mark, use.path)

    def resolve(self, node: Node) -> Node:
        """Node with every `$name` in it replaced."""
        if isinstance(node, ScalarNode):
            return self._scalar(node) if _USE.search(node.text) else node
        if isinstance(node, ListNode):
            return replace(node, items=tuple(map(self.resolve, node.items)))
        if isinstance(node, MapNode):
            return replace(node, entries={key: self.resolve(value) for key, value in node.entries.items()})
        return node

    def _scalar(self, use: ScalarNode) -> Node:
        text = use.text.strip()
        if text.startswith("$") and _NAME.fullmatch(text, 1):
            return self._placed(self.value(text[1:], use), use, text)
        try:
            return ScalarNode(use.mark, use.path, str(self._integer(use)), use.text)
        except _ArithmeticError as error:
            return self._bad(use, *error.args)
        except _ReportedError:
            return BadNode(use.mark, use.path)

    def _placed(self, value: Node, use: ScalarNode, text: str) -> Node:
        origin = " from --set" if text[1:] in self.overridden else ""
        if isinstance(value, ScalarNode):
            return ScalarNode(use.mark, use.path, value.text, f"{text}{origin}")
        if isinstance(value, ListNode):
            items = [replace(item, mark=use.mark, path=f"{use.path}[{i}]") for i, item in enumerate(value.items)]
            return ListNode(use.mark, use.path, tuple(items), f"{text}{origin}")
        return BadNode(use.mark, use.path)

    def _integer(self, use: ScalarNode) -> int:
        """Value of integer arithmetic with parameters."""
        from accelsim.inputs.expression import NUMBER, ExpressionError, parse

        text = use.text.rstrip()
        read = _TOKENS.match(text)
        end = read.end() if read else 0
        if end < len(text):
            hint = "arithmetic has whole numbers, $names, + - * / // and ( )"
            raise _ArithmeticError(f"cannot read {quoted(text[end:].strip())} in {quoted(text)}", hint)
        names = dict.fromkeys(re.findall(rf"\$({_NAME.pattern})", text))
        try:
            formula = parse(re.sub(r"[0-9]{31,}", str(LARGEST), text), dict.fromkeys(names, NUMBER))
            value = formula.value({name: self._number(name, use) for name in names})
        except ExpressionError as error:
            raise _ArithmeticError(f"{error.what} in {quoted(text)}") from None
        if not isinstance(value, Fraction) or abs(value.numerator) >= LARGEST:
            raise _ArithmeticError("the result is too large")
        if value.denominator != 1:
            raise _ArithmeticError(f"{quoted(text)} is {value}, not a whole number", "// divides and rounds down")
        return int(value)

    def _number(self, name: str, use: ScalarNode) -> Fraction:
        value = self.value(name, use)
        if isinstance(value, BadNode):
            raise _ReportedError
        if not isinstance(value, ScalarNode):
            raise _ArithmeticError(f"${name} is a list; arithmetic needs whole numbers")
        if not re.fullmatch(r"-?[0-9]{1,30}", value.text):
            raise _ArithmeticError(f"${name} is {quoted(value.text)}; arithmetic needs whole numbers")
        return Fraction(value.text)


def substitute(root: MapNode, overrides: Mapping[str, str], problems: Problems, *, own: bool = False) -> MapNode:
    """Replace every `$name` of a file by its value, after `--set` had its say; the result has no `params`.

    `own`: all overrides are of parameters of this file; one that it does not define is a mistake.
    """
    definitions, groups = _definitions(root, problems)
    for name in overrides if own else ():
        if name not in definitions and name not in groups:
            what = f"{name}: this file defines no such parameter"
            problems.add(root.entries.get("params", root).mark, what, _known(name, definitions))
    for name in overrides:
        if name in groups:
            inner = ", ".join(key for key in definitions if key.startswith(f"{name}."))
            what = f"--set {name} names a group of parameters"
            problems.add(groups[name], what, f"set one of {inner}" if inner else "")
    used = {name: _override(definitions[name], str(text)) for name, text in overrides.items() if name in definitions}
    parameters = _Parameters({**definitions, **used}, groups, frozenset(used), problems)
    for name, node in definitions.items():  # also those that nothing uses
        parameters.value(name, ScalarNode(node.mark, node.path, f"${name}"))
    entries = {key: parameters.resolve(value) for key, value in root.entries.items() if key != "params"}
    return replace(root, entries=entries)


def _definitions(root: MapNode, problems: Problems) -> tuple[dict[str, Node], dict[str, Node]]:
    definitions: dict[str, Node] = {}
    groups: dict[str, Node] = {}
    node = root.entries.get("params")
    if node is None or isinstance(node, BadNode) or (isinstance(node, ScalarNode) and node.empty):
        return definitions, groups
    if not isinstance(node, MapNode):
        problems.add(node, "must be a mapping of names to values")
        return definitions, groups
    waiting: list[tuple[str, MapNode]] = [("", node)]
    while waiting:
        prefix, group = waiting.pop(0)
        for key, value in group.entries.items():
            if not re.fullmatch(KEY, key):
                what = f"{quoted(key)} cannot name a parameter"
                problems.add(group.key_marks[key], f"{group.path}: {what}", "use letters, digits and _")
            elif isinstance(value, MapNode):
                groups[f"{prefix}{key}"] = value
                waiting.append((f"{prefix}{key}.", value))
            else:
                definitions[f"{prefix}{key}"] = value
    return definitions, groups


def _override(node: Node, text: str) -> Node:
    """Node of a value given on the command line; `[a, b]` is a list."""
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        words = (word.strip() for word in stripped[1:-1].split(","))
        items = tuple(ScalarNode(node.mark, f"{node.path}[{i}]", word, "from --set") for i, word in enumerate(words))
        return ListNode(node.mark, node.path, items, "from --set")
    return ScalarNode(node.mark, node.path, stripped, "from --set")


def parameter_names(path: str | PathLike[str]) -> frozenset[str]:
    """Names that `--set` can override in a file, or in text of several lines; none if it cannot be read."""
    model = importer(path)
    if model is not None:
        return model.parameters(path)
    return frozenset(_defined(path))


def parameter_values(path: str | PathLike[str]) -> dict[str, str]:
    """Parameters of a file that have one value each, as it is written; none if the file cannot be read."""
    written = {name: node.text for name, node in _defined(path).items() if isinstance(node, ScalarNode)}
    return {name: text for name, text in written.items() if not _USE.search(text)}


def _defined(path: str | PathLike[str]) -> dict[str, Node]:
    unreported = Problems()
    is_text = isinstance(path, str) and "\n" in path
    root = compose_text(str(path), "", unreported) if is_text else compose_file(path, unreported)
    return _definitions(root, unreported)[0] if isinstance(root, MapNode) else {}


def unknown_overrides(overrides: Mapping[str, str], paths: Iterable[str | PathLike[str]]) -> list[Problem]:
    """Problems with overrides that no file of a command defines; line n is the n-th `--set`."""
    if not overrides:
        return []
    known = sorted(frozenset[str]().union(*map(parameter_names, paths)))
    groups = {name[:i] for name in known for i, c in enumerate(name) if c == "."}
    return [
        Problem(Mark("--set", line, 1), f"{name}: no file defines this parameter", _known(name, known))
        for line, name in enumerate(overrides, 1)
        if name not in known and name not in groups
    ]


def _known(name: str, defined: Iterable[str]) -> str:
    """What to write instead of a parameter that nothing defines."""
    names = sorted(defined)
    return near_miss(name, names) or (f"parameters: {listed(names[:12])}" if names else "the files have no `params`")


def own_overrides(overrides: Mapping[str, str], path: str | PathLike[str]) -> dict[str, str]:
    """Those of several files' overrides that are of parameters of one of them."""
    others = {problem.mark.line for problem in unknown_overrides(overrides, [path])}
    return {name: text for line, (name, text) in enumerate(overrides.items(), 1) if line not in others}


def check_overrides(overrides: Mapping[str, str], paths: Iterable[str | PathLike[str]]) -> None:
    """Raise UnknownParameterError if an override names a parameter that none of the files defines."""
    files = list(paths)
    problems = unknown_overrides(overrides, files)
    if problems:
        known = sorted(frozenset[str]().union(*map(parameter_names, files)))
        first = problems[0].what.partition(":")[0]
        raise UnknownParameterError(problems, first, near_misses(first, known))
