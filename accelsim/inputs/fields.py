"""Readers of fields: each reports its mistake and goes on, so that one run shows every one.

A reader takes a node and the problems found so far, and returns the value or, with the reason reported, None. It
carries the form of what it reads, of which the JSON Schemas are made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from typing import Any, Generic, TypeVar

import yaml

from accelsim.inputs import forms, library, units
from accelsim.inputs.errors import AccelsimError, HintedError
from accelsim.inputs.forms import Form
from accelsim.inputs.library import TOP_KEYS
from accelsim.inputs.params import substitute
from accelsim.inputs.source import (
    BadNode,
    Dumper,
    ListNode,
    MapNode,
    Node,
    Problems,
    ScalarNode,
    compose_file,
    compose_text,
    describe,
)
from accelsim.inputs.units import LARGEST, listed, near_miss, printable, quoted, repeated
from accelsim.inputs.workload import ROLES

T = TypeVar("T")
Reader = Callable[[Node, Problems], T | None]
Source = str | PathLike[str] | Mapping[str, Any]
"""What is read as a file: its path, the name of one that ships, its text (several lines), or its values as a dict."""
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_TRUTH = ("true", "True", "TRUE", "false", "False", "FALSE")


@dataclass(frozen=True, slots=True)
class Formed(Generic[T]):
    """A reader with the form of what it reads."""

    read: Reader[T]
    form: Form

    def __call__(self, node: Node, problems: Problems) -> T | None:
        """Read a node."""
        return self.read(node, problems)


def formed(form: Form) -> Callable[[Reader[T]], Formed[T]]:
    """Give a reader the form of what it reads."""
    return lambda read: Formed(read, form)


def form_of(read: Reader[Any]) -> Form:
    """Form of what a reader reads; empty, which is anything, where it says none."""
    return read.form if isinstance(read, Formed) else {}


def node_of(form: Form) -> Formed[Node]:
    """Reader of a node as it is, which is looked into later."""
    return Formed(lambda node, _: node, form)


REQUIRED = "required"
"""Default of a key that must be there."""
MEANING = "key"
"""Under it the form of a value has its `Key`, which a JSON Schema shows as a description."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key that may stand in a mapping: how its value is read, what it means, its default in words, and its unit."""

    read: Reader[Any]
    meaning: str
    default: str = REQUIRED
    unit: str = ""

    @property
    def required(self) -> bool:
        """Whether it must be there."""
        return self.default == REQUIRED


Keys = Mapping[str, Key]


def keys_form(keys: Keys) -> Form:
    """Form of a mapping with these keys."""
    required = [name for name, key in keys.items() if key.required]
    return forms.mapping({name: {**form_of(key.read), MEANING: key} for name, key in keys.items()}, required)


def by_role(read: Reader[Any], what: str, default: str, unit: str = "") -> Keys:
    """Keys of a value for each role."""
    return {role: Key(read, f"{what} of {role.lower()}", default, unit) for role in ROLES}


@dataclass(frozen=True, slots=True)
class Opened:
    """One file: its path, its kind (the top-level key) and what stands under that key."""

    path: str
    kind: str
    body: Node


def open_document(
    path: str | PathLike[str],
    kind: str | None,
    overrides: Mapping[str, str] | None,
    problems: Problems,
    text: str | None = None,
    *,
    dumped: bool = False,
    own: bool = False,
) -> Opened | None:
    """Read a file of a kind (None: of any kind), with its parameters replaced; `text` stands in for what it holds.

    `dumped`: accelsim has written that text. `own`: overrides of other files' parameters are mistakes.
    """
    root = compose_file(path, problems) if text is None else compose_text(text, str(path), problems, dumped=dumped)
    if root is None or isinstance(root, BadNode):
        return None
    if not isinstance(root, MapNode):
        problems.add(root, f"expected one of the keys {listed(TOP_KEYS)}, got {describe(root)}")
        return None
    before = len(problems)
    for key, mark in root.key_marks.items():
        if key not in (*TOP_KEYS, "params"):
            hint = near_miss(key, (*TOP_KEYS, "params")) or f"keys: params, {listed(TOP_KEYS)}"
            problems.add(mark, f"unknown key {quoted(key)}", hint)
    kinds = [key for key in TOP_KEYS if key in root.entries]
    if not kinds and len(problems) == before:
        expected = f"one of {listed(TOP_KEYS)}" if kind is None else kind
        problems.add(root, f"no key says what the file is; expected {expected}")
    if not kinds:
        return None
    if len(kinds) > 1:
        what = f"one file holds one of {listed(TOP_KEYS)}; this one has {' and '.join(kinds)}"
        problems.add(root.key_marks[kinds[1]], what)
        return None
    if kind is not None and kinds[0] != kind:
        problems.add(root.key_marks[kinds[0]], f"this file holds: {kinds[0]}; expected: {kind}")
        return None
    return Opened(str(path), kinds[0], substitute(root, overrides or {}, problems, own=own).entries[kinds[0]])


def open_source(source: Source, kind: str, overrides: Mapping[str, str] | None, problems: Problems) -> Opened | None:
    """Read a file of a kind by its path or shipped name, or a text or a dict as what such a file holds."""
    if isinstance(source, Mapping):
        return open_document(f"<{kind}>", kind, overrides, problems, _as_text(source, kind), dumped=True, own=True)
    if isinstance(source, str) and "\n" in source:
        return open_document(f"<{kind}>", kind, overrides, problems, source, own=True)
    shipped = library.find(source, library.FOLDERS[kind]) if kind in library.FOLDERS else None
    return open_document(shipped or source, kind, overrides, problems, own=True)


def _as_text(values: Mapping[str, Any], kind: str) -> str:
    try:
        return yaml.dump(dict(values), Dumper=Dumper, sort_keys=False)
    except (yaml.YAMLError, RecursionError) as error:
        what = f"the dict of the {kind} holds what no file can: {' '.join(map(str, error.args))}"
        raise AccelsimError(f"{what}; it may hold dict, list, str, int, float and bool") from None


class Fields:
    """Keys of one mapping; mistakes go to `problems`, a key that is not known at once.

    `known` are all keys that may stand here; with their readers, `value` reads them.
    """

    def __init__(self, node: Node, problems: Problems, known: Iterable[str] | Keys) -> None:
        self.node = node
        self.problems = problems
        self.keys: Keys = known if isinstance(known, Mapping) else {}
        self.known = tuple(known)
        self.entries: Mapping[str, Node] = {}
        self.readable = isinstance(node, MapNode)
        if isinstance(node, MapNode):
            self.entries = node.entries
            self._report_unknown(node)
        elif not problems.unreadable(node):
            problems.add(node, f"expected a mapping with the keys {listed(self.known)}, got {describe(node)}")

    def _report_unknown(self, node: MapNode) -> None:
        for key, mark in node.key_marks.items():
            if key not in self.known:
                hint = near_miss(key, [name for name in self.known if name not in node.entries] or self.known)
                path = f"{node.path}.{printable(key[:60])}".lstrip(".")
                self.problems.add(BadNode(mark, path), "unknown key", hint or f"keys: {listed(self.known)}")

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def get(self, key: str) -> Node | None:
        """Node of a key, or None where it is left out."""
        return self.entries.get(key)

    def wrong(self, key: str, what: str, hint: str = "") -> None:
        """Report a mistake at the value of a key."""
        self.problems.add(self.entries[key], what, hint)

    def inner(self, key: str, keys: Keys) -> Fields:
        """Keys of the mapping that stands under a key; no entries where it is left out."""
        node = self.entries.get(key)
        found = Fields(node or MapNode(self.node.mark, "", {}, {}), self.problems, keys)
        found.readable = found.readable and node is not None
        return found

    def once(self, lines: dict[str, int], what: str) -> str:
        """Read a `name` that none of the others, which are in `lines`, has."""
        name = self.value("name", "")
        if name in lines:
            self.wrong("name", f"two {what} are named '{name}', first at line {lines[name]}")
        elif name:
            lines[name] = self.entries["name"].mark.line
        return name

    def value(self, key: str, default: T) -> T:
        """Value of a key as it is declared; the default stands in where it is left out, or wrong."""
        declared = self.keys[key]
        if declared.required and key not in self.entries and self.readable:
            self.problems.add(self.node, f"'{key}' is missing: {declared.meaning}")
        return self.optional(key, declared.read, default)

    def optional(self, key: str, read: Reader[T], default: T) -> T:
        """Value of a key, or the default where it is left out."""
        node = self.entries.get(key)
        value = None if node is None or self.problems.unreadable(node) else read(node, self.problems)
        return default if value is None else value


def scalar(
    form: Form, of: Callable[[str], T | None], expected: str, hint: str | Callable[[str], str] = ""
) -> Formed[T]:
    """Reader of a text of which `of` makes the value, or None where it is not what is expected.

    Where `of` raises a HintedError, that says what is wrong. A hint may depend on the text.
    """

    def read(node: Node, problems: Problems) -> T | None:
        written = node.text if isinstance(node, ScalarNode) else None
        try:
            value = None if written is None else of(written)
        except HintedError as error:
            problems.add(node, error.what, error.hint)
            return None
        if value is None:
            what = f"expected {expected}, got {describe(node)}"
            problems.add(node, what, hint if isinstance(hint, str) else hint(written or ""))
        return value

    return Formed(read, form)


def parsed(form: Form, parse: Callable[[str], T]) -> Formed[T]:
    """Reader of a text of which `parse` makes the value, or says in an AccelsimError what is wrong."""

    def read(node: Node, problems: Problems) -> T | None:
        try:
            return parse(node.text if isinstance(node, ScalarNode) else describe(node))
        except AccelsimError as error:
            problems.add(node, str(error))
        return None

    return Formed(read, form)


text = scalar(forms.text(), lambda text: printable(" ".join(text.split())) or None, "text")
"""Any text, as one line."""


def word(pattern: re.Pattern[str], noun: str, hint: str, of: Callable[[str], T]) -> Formed[T]:
    """Reader of a text of a pattern, of which `of` makes the value."""
    form = forms.text(forms.whole(pattern.pattern))
    return scalar(form, lambda text: of(text) if pattern.fullmatch(text) else None, noun, hint)


name = word(_NAME, "a name", "use letters, digits and _ . / + -", str)
identifier = word(IDENTIFIER, "a name", "use letters, digits and _", str)
"""Name of a dimension or tensor."""


def at_least(least: int) -> Formed[int]:
    """Reader of whole numbers from `least` on."""

    def of(text: str) -> int | None:
        if not _INTEGER.fullmatch(text):
            return None
        value = int(text) if len(text) < 30 else LARGEST
        if value >= LARGEST:
            raise HintedError(f"{quoted(text)} is too large")
        if value < least:
            raise HintedError(f"must be at least {least}, got {value}")
        return value

    return scalar(forms.integer(least), of, "a whole number", _plain_integer)


def _plain_integer(text: str) -> str:
    """Hint for a whole number written in another way (`1e5`, `16.0`, `8 bit`)."""
    match = re.fullmatch(r"([0-9]{1,18}(?:\.0*)?(?:[eE]\+?[0-9])?)(\s+bits?)?", text.strip())
    return f"write {int(float(match[1]))}" if match and float(match[1]).is_integer() and float(match[1]) < 2**53 else ""


positive_int = at_least(1)
count = at_least(0)


boolean = scalar(
    forms.boolean(_TRUTH), lambda text: text.lower() == "true" if text in _TRUTH else None, "true or false"
)
"""`true` or `false`, as in YAML 1.2."""


def _share(text: str) -> Fraction | None:
    value = Fraction(text) if re.fullmatch(r"[0-9]{0,3}\.?[0-9]{1,12}", text) else Fraction(0)
    return value if 0 < value <= 1 else None


share = scalar(forms.fraction(1), _share, "a share above 0, at most 1", "such as 0.8")
"""A share above 0, at most 1, exactly."""


def one_of(choices: Iterable[str], noun: str = "") -> Formed[str]:
    """Reader of one of a few words; `noun` says in the message what they are."""
    words = tuple(choices)
    expected = f"{noun} ({listed(words)})" if noun else f"one of {listed(words)}"
    form = forms.choice(words)
    return scalar(form, lambda text: text if text in words else None, expected, lambda text: near_miss(text, words))


_LARGEST_NODE_NM = 1000


def quantity(parse: Callable[[str], T], known: Iterable[str]) -> Formed[T]:
    """Reader of a number with a unit; `parse` is one of the parsers of `units`, and `known` are the units it reads."""
    return scalar(forms.quantity(known), lambda text: parse(text) if text else None, "a number with a unit")


size_bits = quantity(units.parse_size_bits, units.SIZE_UNITS)
positive_size_bits = quantity(units.parse_positive_size_bits, units.SIZE_UNITS)
rate = quantity(units.parse_rate, units.RATE_UNITS)
frequency_hz = quantity(units.parse_frequency_hz, units.FREQUENCY_UNITS)
_time_s = quantity(units.parse_time_s, units.TIME_UNITS)
_node_of_chips = quantity(units.parse_technology, units.TECHNOLOGY_UNITS)


@formed(forms.either(count.form, _time_s.form))
def delay(node: Node, problems: Problems) -> int | Fraction | None:
    """Read cycles, or a time [s]."""
    plain = isinstance(node, ScalarNode) and _INTEGER.fullmatch(node.text)
    return count(node, problems) if plain else _time_s(node, problems)


@formed(_node_of_chips.form)
def technology(node: Node, problems: Problems) -> str | None:
    """Read a technology node."""
    found = _node_of_chips(node, problems)
    if found and not 1 <= float(found.split()[0]) <= _LARGEST_NODE_NM:
        what = f"{describe(node)} is no technology node"
        problems.warn(node, what, f"nodes are from 1 to {_LARGEST_NODE_NM} nm, such as 28 nm")
    return found


area_um2 = quantity(units.parse_area_um2, units.AREA_UNITS)
energy = quantity(units.parse_energy, units.ENERGY_RATE_UNITS)


def items_of(item: Form, what: str, least: int = 0) -> Formed[ListNode]:
    """Reader of a list as it is, whose items are looked into later; `what` says what they are."""

    @formed(forms.sequence(item, least=least))
    def read(node: Node, problems: Problems) -> ListNode | None:
        if isinstance(node, ListNode) and len(node.items) >= least:
            return node
        problems.add(node, f"expected a list{f' of {what}' if what else ''}, got {describe(node)}")
        return None

    return read


def list_of(read: Reader[T], what: str = "") -> Formed[list[T]]:
    """Reader of a list, perhaps of `what`; items that cannot be read are reported and left out."""
    items = items_of(form_of(read), what)

    def read_list(node: Node, problems: Problems) -> list[T] | None:
        found = items(node, problems)
        values = (read(item, problems) for item in (found.items if found else ()) if not problems.unreadable(item))
        return [value for value in values if value is not None] if found else None

    return Formed(read_list, items.form)


def set_of(read: Reader[str]) -> Formed[frozenset[str]]:
    """Reader of a list of different words, whose order does not matter."""

    @formed(forms.sequence(form_of(read), different=True))
    def read_set(node: Node, problems: Problems) -> frozenset[str] | None:
        words = list_of(read)(node, problems) or []
        for word in repeated(words):
            problems.add(node, f"{quoted(word)} is listed twice")
        return frozenset(words)

    return read_set


def mapping_of(read: Reader[T]) -> Formed[dict[str, T]]:
    """Reader of a mapping from free names to values; values that cannot be read are reported and left out."""

    @formed(forms.named(form_of(read)))
    def read_mapping(node: Node, problems: Problems) -> dict[str, T] | None:
        if not isinstance(node, MapNode):
            problems.add(node, f"expected a mapping, got {describe(node)}")
            return None
        values = {k: read(v, problems) for k, v in node.entries.items() if not problems.unreadable(v)}
        return {key: value for key, value in values.items() if value is not None}

    return read_mapping
