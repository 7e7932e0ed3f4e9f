"""The text of an MLIR module as functions of operations, in the pretty and in the generic form.

No dialect is known here: an operation is what begins on a line of its block, its operands are the values up to the
colon before its types, and its attributes are what else stands there, as text without needless spaces.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import NoReturn

from accelsim.inputs.errors import HintedError, InputError, Mark, Problem
from accelsim.inputs.library import MOST_MODEL_BYTES, read_file

HOW = "print the module of JAX with `jax.jit(f).lower(...).as_text()`"
_TOKEN = re.compile(
    r"""//[^\n]* | (?:dense|dense_resource|array)<(?:"[^"]*"|[^<>"])*> | tensor<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>
    | "(?:[^"\\]|\\.)*" | %[\w.$-]+(?:[:\#]\d+)? | @(?:"[^"]*"|[\w.$-]+) | [\^\#!][\w.]+ | -> | -?\d[\w.+]*
    | [A-Za-z_][\w.$]* | \S""",
    re.VERBOSE,
)
_PAIRS = {")": "(", "]": "[", "}": "{"}
_TYPE = re.compile(r"tensor<((?:[\d?*]+x)*)(.*)>", re.DOTALL)
_OPEN = -1


@dataclass(frozen=True, slots=True)
class Type:
    """A type of a tensor: its sizes, -1 where one is open, and the bits in which a word is stored."""

    shape: tuple[int, ...]
    bits: int

    @property
    def words(self) -> int:
        """Words of the tensor."""
        return math.prod(self.shape)


@dataclass(slots=True)
class Op:
    """An operation: `name` without the dialect, `names` of all results, `text` without regions, `types` of results."""

    at: int
    name: str
    names: list[str]
    operands: list[str]
    text: str
    types: list[Type]
    blocks: list[Region]

    def ints(self, key: str, count: int = 0, default: int = 1) -> list[int]:
        """`count` whole numbers of an attribute (a pattern of its name), or `default`; 0 stands for all that it has."""
        found = re.search(rf"(?<![\w.])(?:{key})=(?:array<\w+:?|dense<)?([-\d,\[\]]*)", self.text)
        values = [int(value[:19]) for value in re.findall(r"-?\d+", found[1])] if found else [default] * count
        values = values * count if len(values) == 1 and count else values
        if count and len(values) != count:
            raise HintedError(f"{found[0] if found else key} has not {count} numbers", "write one for each axis")
        return values

    def symbol(self) -> str:
        """What it calls or defines: `@f`, or a string under the usual keys; empty if nothing."""
        keys = "callee|sym_name|call_target_name|decomposition"
        found = re.search(rf'(?:(?:{keys})=@?|@)("[^"]*"|[\w.$-]+)', self.text)
        return found[1].strip('"') if found else ""


@dataclass(slots=True)
class Region:
    """Operations of a region, with the names and types of its parameters."""

    params: dict[str, Type | None] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)


class Text:
    """A module: its functions by name; raises InputError with the place where it is none."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = path
        content = read_file(path, MOST_MODEL_BYTES)
        self._lines = [0]
        if content.startswith(b"ML\xefR"):
            self.refuse(0, "this is MLIR in bytecode; only its text is read", HOW)
        text = content.decode(errors="replace")
        self._lines += [match.end() for match in re.finditer("\n", text)]
        if text.lstrip().startswith("HloModule"):
            self.refuse(0, "this is the text of HLO, not of StableHLO", HOW)
        text = re.sub(r"\{-#.*#-\}", lambda blobs: re.sub(r"[^\n]", " ", blobs[0]), text, flags=re.DOTALL)
        found = [match for match in _TOKEN.finditer(text) if not match[0].startswith("//")]
        self._tokens, self._at = [match[0] for match in found], [match.start() for match in found]
        ends = [0, *(match.end() for match in found)]
        self._first = ["\n" in text[end:at] or not at for end, at in zip(ends, self._at, strict=False)]
        block, _ = self._block(0, _OPEN)
        self.functions: dict[str, Op] = {}
        pending = list(block.ops)
        while pending:
            op = pending.pop(0)
            if op.name == "func" and op.symbol():
                self.functions[op.symbol()] = op
            elif op.name == "module":
                pending += [inner for each in op.blocks for inner in each.ops]
        if not self.functions:
            self.refuse(0, "not the text of an MLIR module: no `func.func` stands in it", HOW)

    def problem(self, at: int, what: str, hint: str = "") -> Problem:
        """A problem at an offset of the text."""
        line = bisect.bisect_right(self._lines, at)
        return Problem(Mark(str(self.path), line, at - self._lines[line - 1] + 1), what, hint)

    def refuse(self, at: int, what: str, hint: str) -> NoReturn:
        """Raise InputError with one problem."""
        raise InputError([self.problem(at, what, hint)])

    def _starts(self, at: int) -> bool:
        """Whether an operation starts at a token that is the first of its line or block."""
        token = self._tokens[at]
        named = token in ("return", "call", "module") or ("." in token and token[0].isalpha())
        after = at + 1
        while self._tokens[after : after + 1] == [","] and self._tokens[at][0] == "%":  # %a, %b = ...
            after += 2
        assigned = self._tokens[after : after + 1] == ["="]
        return (assigned and token[0] in "%#") or (named and not assigned) or token[0] in '^"'

    def _region(self, at: int) -> bool:
        """Whether a brace opens a region, not a dictionary of attributes."""
        first, after = (*self._tokens[at + 1 : at + 3], "", "")[:2]
        if first.startswith('"'):
            return after == "("
        return first.startswith(("%", "^")) or (bool(first) and self._starts(at + 1) and after not in ("}", ","))

    def _block(self, at: int, opened: int) -> tuple[Region, int]:
        """Operations up to the brace that closes a region, and the token after it."""
        block = Region()
        while at < len(self._tokens) and self._tokens[at] != "}":
            if self._tokens[at].startswith("^"):
                end = next((i for i in range(at, len(self._tokens)) if self._first[i + 1 : i + 2] != [False]), at)
                block.params |= self._typed(self._tokens[at : end + 1])
                at = end + 1
                continue
            op, at = self._op(at)
            block.ops.append(op)
        if at == len(self._tokens) and opened != _OPEN:
            self.refuse(self._at[opened], "this `{` is not closed", "the file may be cut off; print the module again")
        if at < len(self._tokens) and opened == _OPEN:
            self.refuse(self._at[at], "this `}` closes nothing", "the file may be damaged; print the module again")
        return block, at + 1

    def _op(self, start: int) -> tuple[Op, int]:
        """The operation that starts at a token, and the token after it."""
        opened: list[int] = []
        flat: list[str] = []
        blocks: list[Region] = []
        depths: list[int] = []
        at = start
        while at < len(self._tokens):
            token = self._tokens[at]
            if not opened and (token == "}" or (at > start and self._first[at] and self._starts(at))):
                break
            if token == "{" and self._region(at):
                block, at = self._block(at + 1, at)
                blocks.append(block)
                continue
            if token in _PAIRS and (not opened or self._tokens[opened.pop()] != _PAIRS[token]):
                self.refuse(self._at[at], f"this `{token}` closes nothing", "print the module again")
            depths.append(len(opened))
            flat.append(token)
            if token in _PAIRS.values():
                opened.append(at)
            at += 1
        if opened:
            what = f"this `{self._tokens[opened[-1]]}` is not closed"
            self.refuse(self._at[opened[-1]], what, "the file may be cut off; print the module again")
        return self._read(self._at[start], flat, depths, blocks), at

    def _read(self, at: int, flat: list[str], depths: list[int], blocks: list[Region]) -> Op:
        """An operation from its tokens without regions, each with its depth in brackets."""
        first = flat.index("=") + 1 if flat[0].startswith("%") and "=" in flat else 0
        names = []
        for result in (token for token in flat[:first] if token.startswith("%")):
            name, _, many = result.partition(":")
            names += [f"{name}#{i}" for i in range(int(many[:4]))] if many else [name]
        head, ranks = flat[first:], depths[first:]
        colons = [i for i, token in enumerate(head) if token == ":" and not ranks[i]]
        colon = colons[-1] if colons else len(head)
        title = head[0].strip('"') if head else ""
        operands = [token for token in head[:colon] if token.startswith("%")]
        if title.endswith("while") and "=" in head[:colon]:  # (%inside = %outside, ...)
            inside, operands = operands[::2], operands[1::2]
            for block in blocks:
                block.params |= dict.fromkeys(inside)
        if title == "func.func" and head[0] == title and blocks:
            blocks[0].params |= self._typed(head)
        types = head[colon + 1 :]
        types = types[: next((i for i, token in enumerate(types) if token in ("reducer", "loc", "attributes")), None)]
        if "->" in types:
            types = types[len(types) - types[::-1].index("->") :]
        written = [_type(token) for token in types if token.startswith(("tensor<", "!", "tuple", "vector<"))]
        text = re.sub(r" ?([^\w %@#\"-]|->) ?", r"\1", " ".join(re.sub(r"\s", "", token) for token in head[:colon]))
        name = title.rpartition(".")[2]
        return Op(at, name, names, operands, text, written[len(written) - len(names) :], blocks)

    def _typed(self, tokens: Sequence[str]) -> dict[str, Type | None]:
        """Names that stand before a colon and a type."""
        places = [i for i, token in enumerate(tokens[:-2]) if token.startswith("%") and tokens[i + 1] == ":"]
        return {tokens[i]: _type(tokens[i + 2]) for i in places}


def _type(text: str) -> Type:
    """A type from its text; what is no tensor has no words that count."""
    match = _TYPE.fullmatch(text)
    if match is None:
        return Type((), 0)
    shape = tuple(_OPEN if size in "?*" else int(size[:19]) for size in match[1].split("x")[:-1])
    element = match[2]
    digits = re.search(r"\d+", element)
    bits = int(digits[0][:4]) if digits else 64
    if element == "i1":
        bits = 8  # XLA stores a truth value in a byte
    return Type(shape, {"tf32": 32}.get(element, 2 * bits if element.startswith("complex") else bits))
