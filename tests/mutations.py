"""Random damage to files: trees of YAML and JSON, cells of CSV, lines, arrays of NumPy, messages of ONNX, and bytes.

A tree is a list, a `Pairs`, or the text of a scalar as it stands in the file.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import yaml

NASTY = (
    *("0", "-1", "1", "1.5", "1e400", "-0.0", "1e-320", "NaN", ".nan", "Infinity", "-.inf", "0x10", "1_000"),
    *(
        "9" * 25,
        "9" * 400,
        "9" * 5000,
        str(2**31),
        str(2**53 + 1),
        str(2**62),
        str(2**63),
        str(-(2**63)),
        "0.1",
        "100%",
    ),
    *("null", "true", "~", "no", '""', "''", "' '", "[]", "{}", "[[1]]", "{a: 1}", '{"a": 1}', "2026-01-01"),
    *('"é漢\U0001f600"', '"\\u202e"', '"\\ud800"', '"\\u0000"', '"a\\nb"', '"a/../../../evil"', f'"{"x" * 1000}"'),
    *("0 bit", "1 KiB", "3 pJ/bit", "8 GB/s", "-5 pJ", "1e30 GiB", "1e-30 pJ", "nan pJ", "1 furlong", "8 words/cycle"),
    *("$a", "$pe.x", "$pe.x + 1", "$", "1/0", "$pe.x // 0", "((((", "2 ** 99999", "K=4", "M=0", "K=-1", "K=", "=4"),
    *("[K, K]", "[K=4, C=64]", '["..."]', "{x: [K=2], y: [C=2]}", "{from: 1, to: 9, step: 0}", "{from: 1, to: 1e9}"),
    *("!!python/none x", "!!int 3", "*a", "&a x", "? x", "| x", "@x", "%x", "# x"),
)
"""Scalars, and a few short lists and maps, that stand in place of a value."""
UNITS = (
    "bit",
    "B",
    "KiB",
    "GiB",
    "pJ",
    "uJ",
    "pJ/bit",
    "GB/s",
    "B/cycle",
    "MHz",
    "GHz",
    "nm",
    "mm2",
    "",
    "words/cycle",
)
BYTES = (b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\t", b"\n---\n", "\u2028é".encode(), b"\xed\xa0\x80", b'"', b"'")
BYTES += (b"{", b"}", b"[" * 300, b"{a: " * 300, b": ", b", ", b"&a ", b"*a", b"!!binary ", b"<<: ", b"1e9", b"-", b"0")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_PLAIN = re.compile(r"[^\s,\[\]{}#&*!|>'\"%@`:?][^,\[\]{}#:\n\"]*")


class Pairs(list[list[Any]]):
    """Entries of a map as `[key, value]`, of which several may have the same key."""


def read_yaml(text: str) -> Any:
    """Tree of a YAML file."""
    return _tree(yaml.compose(text, Loader=yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader))


def _tree(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return Pairs([_tree(key), _tree(value)] for key, value in node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_tree(item) for item in node.value]
    return node.value if not node.style and _PLAIN.fullmatch(node.value) else json.dumps(node.value)


def read_json(text: str) -> Any:
    """Tree of a JSON file."""

    def tree(value: Any) -> Any:
        if isinstance(value, dict):
            return Pairs([json.dumps(key), tree(below)] for key, below in value.items())
        return [tree(item) for item in value] if isinstance(value, list) else json.dumps(value)

    return tree(json.loads(text))


def write(tree: Any) -> str:
    """Text of a tree, in braces and brackets, as YAML and JSON have them."""
    if isinstance(tree, Pairs):
        return "{" + ", ".join(f"{write(key)}: {write(value)}" for key, value in tree) + "}"
    return "[" + ", ".join(map(write, tree)) + "]" if isinstance(tree, list) else tree


def places_in(tree: Any) -> Iterator[tuple[Any, int]]:
    """Every value below a tree, as what holds it and where."""
    for at, item in enumerate(tree if isinstance(tree, list) else ()):
        holder, index = (item, 1) if isinstance(tree, Pairs) else (tree, at)
        yield holder, index
        yield from places_in(holder[index])


def as_json(tree: Any) -> Any:
    """Tree whose scalars, and keys, are JSON: those that are not become texts."""
    if isinstance(tree, Pairs):
        return Pairs([json.dumps(key) if not _is_text(key) else key, as_json(value)] for key, value in tree)
    if isinstance(tree, list):
        return [as_json(item) for item in tree]
    try:
        json.loads(tree)
    except (ValueError, RecursionError):
        return json.dumps(tree)
    return tree


def _is_text(key: Any) -> bool:
    return isinstance(key, str) and key.startswith('"') and key.endswith('"')


def damaged_tree(random: Random, tree: Any, donor: Any) -> Any:
    """Tree after one random change; `donor` is another one, of which a part may be taken. The tree is used up."""
    places = list(places_in(tree))
    if not places or random.random() < 0.02:
        return random.choice(["", "[]", [tree], [tree, tree], Pairs([["a", tree]]), "null", "--- x\n--- y", "# x"])
    random.choice(_CHANGES if random.random() < 0.6 else _GENTLE)(random, tree, places, list(places_in(donor)))
    return tree


Places = list[tuple[Any, int]]


def _holders(tree: Any) -> list[Any]:
    below = [holder[at] for holder, at in places_in(tree)]
    return [each for each in (tree, *below) if isinstance(each, list) and each]


def _drop(random: Random, tree: Any, places: Places, donors: Places) -> None:
    holder = random.choice(_holders(tree))
    del holder[random.randrange(len(holder))]


def _duplicate(random: Random, tree: Any, places: Places, donors: Places) -> None:
    holder = random.choice(_holders(tree))
    holder.insert(random.randrange(len(holder) + 1), random.choice(holder))


def _shuffle(random: Random, tree: Any, places: Places, donors: Places) -> None:
    random.shuffle(random.choice(_holders(tree)))


def _rename(random: Random, tree: Any, places: Places, donors: Places) -> None:
    maps = [each for each in _holders(tree) if isinstance(each, Pairs)]
    keys = [key for each in maps for key, _ in each]
    entry = random.choice(random.choice(maps or [[["", ""]]]))
    entry[0] = random.choice([*keys, str(entry[0]) + "x", str(entry[0])[1:], *NASTY])


def _nasty(random: Random, tree: Any, places: Places, donors: Places) -> None:
    holder, at = random.choice(places)
    holder[at] = random.choice(NASTY)


def _nasty_scalar(random: Random, tree: Any, places: Places, donors: Places) -> None:
    _nasty(random, tree, [place for place in places if isinstance(place[0][place[1]], str)] or places, donors)


def _scale(random: Random, tree: Any, places: Places, donors: Places) -> None:
    """Change a number and keep its unit: the file often stays valid."""
    numbers = [place for place in places if isinstance(place[0][place[1]], str) and _NUMBER.search(place[0][place[1]])]
    holder, at = random.choice(numbers or places)
    by = random.choice([0, 2, 3, 7, 0.5, 1.001, -1, 10, 1e3, 1e6, 1e12, 1e-6])
    if isinstance(holder[at], str):
        holder[at] = _NUMBER.sub(lambda found: f"{float(found[0]) * by:.12g}", holder[at], count=1)


def _renumber(random: Random, tree: Any, places: Places, donors: Places) -> None:
    """Change one of several numbers in a text."""
    holder, at = random.choice([place for place in places if isinstance(place[0][place[1]], str)] or places)
    if isinstance(holder[at], str):
        quote = '"' if _is_text(holder[at]) else ""
        holder[at] = quote + _renumbered(random, holder[at].strip('"')).replace(quote or "\0", "") + quote


def _small(random: Random, tree: Any, places: Places, donors: Places) -> None:
    """Put a small whole number in the place of another number."""
    numbers = [place for place in places if isinstance(place[0][place[1]], str) and _NUMBER.search(place[0][place[1]])]
    holder, at = random.choice(numbers or places)
    if isinstance(holder[at], str):
        holder[at] = _NUMBER.sub(str(random.choice([0, 1, 1, 2, 3, 4, 5, 7, 8, 16])), holder[at], count=1)


def _unit(random: Random, tree: Any, places: Places, donors: Places) -> None:
    measured = [place for place in places if isinstance(place[0][place[1]], str) and " " in place[0][place[1]]]
    holder, at = random.choice(measured or places)
    if isinstance(holder[at], str):
        holder[at] = f"{holder[at].split(' ')[0]} {random.choice(UNITS)}"


def _swap(random: Random, tree: Any, places: Places, donors: Places) -> None:
    alike = [place for place in places if isinstance(place[0][place[1]], str)] if random.random() < 0.7 else []
    (one, at), (other, there) = random.choice(alike or places), random.choice(alike or places)
    one[at], other[there] = write(other[there]), write(one[at])


def _retype(random: Random, tree: Any, places: Places, donors: Places) -> None:
    holder, at = random.choice(places)
    value = holder[at]
    if isinstance(value, Pairs):
        holder[at] = random.choice([[each for _, each in value], [value], "x"])
    elif isinstance(value, list):
        holder[at] = random.choice([Pairs([f"k{i}", each] for i, each in enumerate(value)), value[0] if value else "x"])
    else:
        holder[at] = random.choice([[value], [value, value], Pairs([[value, value]]), json.dumps(value), f"'{value}'"])


def _nest(random: Random, tree: Any, places: Places, donors: Places) -> None:
    holder, at = random.choice(places)
    deep = random.choice([1, 5, 45, 400])
    holder[at] = "[" * deep + write(holder[at]) + "]" * deep


def _graft(random: Random, tree: Any, places: Places, donors: Places) -> None:
    (holder, at), (other, there) = random.choice(places), random.choice(donors or places)
    holder[at] = write(other[there])


def _alias(random: Random, tree: Any, places: Places, donors: Places) -> None:
    (holder, at), (other, there) = random.choice(places), random.choice(places)
    holder[at] = "&a " + write(holder[at])
    other[there] = "*a"


def _laughs(random: Random, tree: Any, places: Places, donors: Places) -> None:
    """Aliases of aliases: 9^9 scalars where they are followed."""
    holder, at = random.choice(places)
    lines = [f"&a{i} [{', '.join([f'*a{i - 1}' if i else 'x'] * 9)}]" for i in range(9)]
    holder[at] = "[" + ", ".join(lines) + "]"


Change = Callable[[Random, Any, Places, Places], None]
_GENTLE: tuple[Change, ...] = (_small, _small, _scale, _swap, _drop, _shuffle)
"""After these a file is often still valid."""
_CHANGES: tuple[Change, ...] = (
    *(_drop, _duplicate, _rename, _retype, _swap, _nasty, _nasty_scalar, _scale, _unit, _nest, _graft, _shuffle),
    *(_alias, _laughs, _drop, _nasty_scalar, _renumber),
)


def damaged_bytes(random: Random, data: bytes) -> bytes:
    """Bytes after one random change."""
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.choice([1, 1, 2, 5, 20, 200]))
    match random.randrange(7):
        case 0:
            return (
                data[:start]
                + bytes(byte ^ 1 << random.randrange(8) for byte in data[start : start + 1])
                + data[start + 1 :]
            )
        case 1:
            return data[:start] + data[end:]
        case 2:
            return data[: random.choice([0, start])]
        case 3:
            return data[:start] + random.choice(BYTES) + data[end:]
        case 4:
            return data[:end] + data[start:]
        case 5:
            return data[:start] + random.choice(NASTY).encode("utf-8", "surrogatepass") + data[end:]
    return data[:start] + random.choice(BYTES) + data[start:]


def damaged_table(random: Random, text: str) -> str:
    """A CSV table after one random change of its cells, columns or rows."""
    separator = random.choice([","] * 6 + [";", "\t", "|"])
    rows = list(csv.reader(text.splitlines())) or [[""]]
    row, column = random.randrange(len(rows)), random.randrange(max(map(len, rows)) or 1)
    cells = rows[row] or [""]
    at = column % len(cells)
    match random.randrange(8):
        case 0 | 1:
            cells[at] = random.choice(NASTY)
        case 2:
            cells[at] = _renumbered(random, cells[at])
        case 3:
            rows = [each[:column] + each[column + 1 :] for each in rows]
        case 4:
            rows = [[*each, *each[column : column + 1]] for each in rows]
        case 5:
            rows.insert(random.randrange(len(rows) + 1), random.choice([[], cells, ["x"] * len(cells), cells[1:]]))
        case 6:
            del rows[row]
        case _:
            random.shuffle(rows if random.random() < 0.5 else cells)
    made = io.StringIO()
    csv.writer(made, delimiter=separator, lineterminator=random.choice(["\n", "\r\n"])).writerows(rows)
    return made.getvalue()


def _renumbered(random: Random, text: str) -> str:
    """Text with another number, or something else, in the place of one of its numbers."""
    found = random.choice(list(_NUMBER.finditer(text)) or [re.search("$", text)])
    number = f"{float(found[0] or 1) * random.choice([0, 2, 3, 1e3, 1e6, 1e9, 0.1]):.12g}"
    return text[: found.start()] + random.choice([number, number, random.choice(NASTY)]) + text[found.end() :]


def damaged_lines(random: Random, text: str) -> str:
    """Text after one random change of a number, a word or a line."""
    lines = text.splitlines() or [""]
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(7):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            words = re.split(r"(\s+)", lines[at])
            words[random.randrange(len(words))] = random.choice(NASTY)
            lines[at] = "".join(words)
        case _:
            at = random.choice([i for i, line in enumerate(lines) if _NUMBER.search(line)] or [at])
            lines[at] = _renumbered(random, lines[at])
    return "\n".join(lines) + "\n"


_DTYPES = ("?", "i1", ">u8", "f2", "f8", "f16", "c8", "U3", "S2", "O", "M8[s]", "V4", "i4,i2")
_DTYPES_WRITTEN = (
    "'|u1'",
    "'<f8'",
    "'|V0'",
    "'|O'",
    "'<U99999999'",
    "[('a', '<i4', (9, 9))]",
    "'i4,' * 3",
    "None",
    "3",
    "'q'",
)
_SHAPES = (
    "()",
    "(0,)",
    "(4, 3)",
    "(4L, 3L)",
    "(-4, -3)",
    "(4.0, 3)",
    "(True, 3)",
    "(2**40,)",
    "(1 << 70, 0)",
    "[4, 3]",
    "None",
    "'43'",
)
_SHAPES += (
    f"({2**31}, 1)",
    f"({2**62}, 4)",
    f"({10**30},)",
    f"({2**32}, {2**32})",
    "(" * 90,
    f"({'1, ' * 70})",
    f"({'1, ' * 4000})",
)


def damaged_array(random: Random, array: np.ndarray) -> bytes:
    """An `.npy` of other words, shape or type, or with another head."""
    made = io.BytesIO()
    match random.randrange(6):
        case 0:
            with suppress(TypeError, ValueError):
                array = array.astype(random.choice(_DTYPES))
        case 1:
            array = array.astype(random.choice(["f2", "f8"]))
            array[tuple(random.randrange(size) for size in array.shape)] = random.choice(
                [np.nan, np.inf, -np.inf, -0.0]
            )
        case 2:
            array = random.choice([array.T, array[:-1], array.ravel(), array[None], array[:0], array[0], array.sum()])
        case 3:
            array = random.choice(
                [np.asfortranarray(array), array[::-1, ...], np.zeros_like(array), np.ones_like(array)]
            )
        case _:
            order = random.choice(["False", "True", "0"])
            parts = [random.choice(_DTYPES_WRITTEN), order, random.choice(_SHAPES)]
            names = random.choice([["descr", "fortran_order", "shape"]] * 4 + [["descr", "shape", "x"]])
            head = "{" + ", ".join(f"'{name}': {part}" for name, part in zip(names, parts, strict=True)) + "}\n"
            long = len(head) if random.random() < 0.8 else random.choice([0, 1, 2**16 - 1, 2**31])
            version = random.choice([1, 1, 1, 2, 3, 0, 9])
            size = (long % 2**16).to_bytes(2, "little") if version < 2 else long.to_bytes(4, "little")
            return b"\x93NUMPY" + bytes([version, 0]) + size + head.encode() + array.tobytes()
    np.save(made, array)
    return made.getvalue()


def packed(random: Random, data: bytes) -> bytes:
    """A file packed by gzip, or in an archive of it and perhaps of others."""
    if random.random() < 0.2:
        return gzip.compress(random.choice([data, data + bytes(1 << 24), gzip.compress(data)]))
    made, method = io.BytesIO(), random.choice([*[zipfile.ZIP_DEFLATED] * 4, *range(0, 15, 2)])
    method = method if method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA) else 0
    members = random.choice([[data]] * 5 + [[], [data, data], [b""], [data + bytes(1 << 24)]])
    with zipfile.ZipFile(made, "w", method) as archive:
        for number, member in enumerate(members):
            archive.writestr(
                random.choice([f"arr_{number}.npy", f"../../{number}", f"{number}/", "é" * 100 + str(number)]), member
            )
    found = bytearray(made.getvalue())
    if random.random() < 0.3 and (at := found.find(b"PK\1\2")) > 0:  # flags, method, sum, sizes, place
        found[at + random.choice([8, 10, 16, 20, 24, 42, 45])] ^= random.choice([1, 8, 99])
    return bytes(found)


_INTEGERS = (0, 1, -1, 2, 3, 7, 1000, 2**31 - 1, 2**31, 2**40, 2**60, 2**63 - 1, -(2**63))
_TEXTS = (
    "",
    "x",
    "é漢",
    "a/../b",
    "batch",
    "Conv",
    "Gemm",
    "MatMul",
    "Attention",
    "Loop",
    "x" * 5000,
    "\x00",
    "{",
    "$a",
)


def damaged_message(random: Random, message: Any) -> None:
    """Change one field of a protobuf message, or of one below it."""
    places = list(_fields(message))
    if not places:
        return
    holder, field = random.choice(places)
    value = getattr(holder, field.name)
    if field.is_repeated:
        at = random.randrange(len(value))
        match random.randrange(4):
            case 0:
                del value[at]
            case 1 if field.message_type:
                value.add().CopyFrom(value[at])
            case 2:
                holder.ClearField(field.name)
            case _ if not field.message_type:
                with suppress(ValueError):
                    value[at] = _like(random, value[at])
    elif random.random() < 0.3 or field.message_type:
        holder.ClearField(field.name)
    elif isinstance(value, int | float | str | bytes):
        with suppress(ValueError):  # too large for the field
            setattr(holder, field.name, _like(random, value))


def _fields(message: Any) -> Iterator[tuple[Any, Any]]:
    """Fields that are set in a message and below."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type:
            for below in value if field.is_repeated else [value]:
                yield from _fields(below)


def _like(random: Random, value: Any) -> Any:
    if isinstance(value, bytes):
        return damaged_bytes(random, value)
    if isinstance(value, str):
        return random.choice([*_TEXTS, value + "x"])
    return random.choice([*_INTEGERS, value + 1]) if isinstance(value, int) else random.choice([0.0, -1.5, 1e38])
