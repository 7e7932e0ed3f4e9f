"""Jinja2 templates of Timeloop and AccelForge: names, conditions, short loops and files of their own folders.

A template is checked node by node before it runs: no attributes, no calls but those below, no sums, texts or loops that
grow. Each line knows the file and the line that it comes from.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from accelsim.importers.documents import Document, Map, Seq, by_ending, parse, refuse
from accelsim.inputs.errors import AccelsimError, InputError, Mark, Problem
from accelsim.inputs.library import MODELS, read_utf8
from accelsim.inputs.units import quoted

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import SandboxedEnvironment

NO_JINJA = "jinja2 is not installed, and reading templates needs it; `pip install 'accelsim[import]'`"
_MOST_TEXT, _LONGEST, _MOST_FILES, _MOST_STEPS, _DEEPEST = 1 << 20, 1 << 16, 300, 300, 10
_FILTERS = {"default", "d", "int", "float", "string", "lower", "upper", "round", "abs", "min", "max", "length"}
_FILTERS |= {"indent"}
_FUNCTIONS = {"include", "include_all", "include_text", "add_to_path", "cwd", "path_exists", "find_path", "range"}
_FUNCTIONS |= {"min", "max", "dict", "_claim", "_join"}
_NODES = {"Template", "Output", "TemplateData", "Name", "Const", "If", "For", "Assign", "Filter", "Test", "Compare"}
_NODES |= {"Operand", "And", "Or", "Not", "Concat", "Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow", "Neg", "Pos"}
_NODES |= {"Call", "Keyword", "List", "Tuple", "CondExpr", "Getattr"}
_ENDINGS = (".yaml", ".yml", ".jinja", ".jinja2")
"""Of files that a template below the working folder may read there."""
_MOST_MISSING = 100
"""Names without a value that are looked for in one file."""
_ASSERT = re.compile(r"\{%-?\s*assert\s+(.*?)-?%\}", re.DOTALL)
_LINE = re.compile("\1(\\d+),(\\d+)\1")


class _MissingNameError(InputError):
    """A name of a template that has no value, at its place."""

    def __init__(self, name: str, mark: Mark) -> None:
        self.name = name
        super().__init__([Problem(mark, f"{quoted(name)} is undefined", f"give it a value with --set {name}=VALUE")])


@dataclass
class _Files:
    """What the templates of one file share: the folders that they may read, and how much they have read."""

    folders: Mapping[Path, None]
    search: list[Path]
    names: list[str] = field(default_factory=list)
    included: dict[str, Any] = field(default_factory=dict)
    depth: int = 0

    def find(self, name: str, base: Path) -> Path | None:
        """File of that name beside a template or in a folder that it added; one of another machine by its last part."""
        paths = [Path(os.path.realpath(folder / name)) for folder in (base, *self.search)]
        if Path(name).is_absolute() and not paths[0].exists():
            paths = [folder / Path(name).name for folder in self.folders]
        found = next((path for path in paths if path.exists()), None)
        return found and self.allowed(found, name)

    def included_file(self, name: str, base: Path) -> Path:
        """File of that name, which must be there."""
        found = self.find(name, base)
        if found is None:
            raise AccelsimError(f"{quoted(name)} is included and does not exist")
        return found

    @contextmanager
    def inside(self, path: str, what: str) -> Iterator[None]:
        """Be inside one more file."""
        if self.depth >= _DEEPEST or len(self.names) >= _MOST_FILES:
            raise AccelsimError(f"{what} include too many files, or themselves")
        self.names.append(path)
        self.depth += 1
        yield
        self.depth -= 1

    def allowed(self, path: Path, name: str) -> Path:
        here = Path.cwd()
        inside = path.suffix in _ENDINGS and any(folder.is_relative_to(here) for folder in self.folders)
        if not any(path.is_relative_to(folder) for folder in [*self.folders, *([here] if inside else [])]):
            places = ", ".join(map(str, self.folders))
            common = os.path.commonpath([path, *self.folders])
            hint = f"work in {common}, which holds both, or name it too: `accelsim import {name} …`"
            raise AccelsimError(f"{quoted(name)} lies outside {places}; {hint}")
        return path


def read_document(path: str, folders: Mapping[Path, None], variables: Mapping[str, Any]) -> Document:
    """Read a file by its ending; one of YAML as a template where it has `{{` or `{%`.

    A template may read files in and below the `folders`; `variables` are names that it uses. Raises InputError if it is
    no YAML, stands for too much, or does what a file must not do, or with all its names that have no value;
    AccelsimError if it cannot be read, or is a template and jinja2 is missing.
    """
    if path.endswith(MODELS):
        return Document(path, None)
    if found := by_ending(path):
        return found[1](read_utf8(path), path)
    missing = dict[str, Problem]()
    while True:
        try:
            document = _read(path, _Files(folders, []), {**dict.fromkeys(missing, 1), **variables})
            if not missing:
                return document
            break
        except _MissingNameError as error:  # once more with 1 instead, for what else is missing
            if error.name in missing or len(missing) >= _MOST_MISSING:
                break
            missing[error.name] = error.problems[0]
        except AccelsimError:
            if not missing:
                raise
            break
    raise InputError([*missing.values()])


def _read(path: str, files: _Files, variables: Mapping[str, Any]) -> Document:
    text = read_utf8(path)

    def include(name: str) -> Any:
        """What a file holds that a tag names."""
        found = str(files.included_file(name, Path(os.path.realpath(path)).parent))
        with files.inside(found, "files"):
            return _read(found, files, variables).body

    if "{{" not in text and "{%" not in text:
        return parse(text, path, include=include)
    with files.inside(path, f"{path}: templates"):
        marked = _rendered(path, text, files, variables)
    lines, where = [], (path, 1)
    for line in marked.split("\n"):
        numbers = _LINE.findall(line)
        if numbers:
            where = (files.names[int(numbers[0][0])], int(numbers[0][1]))
        lines.append(where)
    return parse(_LINE.sub("", marked), path, lambda line: lines[min(line, len(lines)) - 1], files.included, include)


def _rendered(path: str, text: str, files: _Files, variables: Mapping[str, Any]) -> str:
    try:
        import jinja2
    except ImportError:
        raise AccelsimError(NO_JINJA) from None
    environment = _environment(path, files)
    source = _ASSERT.sub(lambda found: "{{ _claim(" + found[1] + ") }}", text.replace("\1", ""))
    try:
        tree = environment.parse(source, filename=path)
        _check(tree, path)
        _prepare(tree, len(files.names) - 1, environment)
        template = jinja2.Template.from_code(environment, environment.compile(tree, filename=path), environment.globals)
        pieces, size = [], 0
        for piece in template.generate(dict(variables)):
            size += len(piece)
            pieces.append(piece)
            if size > _MOST_TEXT:
                raise AccelsimError(f"{path}: the template makes more than {_MOST_TEXT >> 20} MiB of text")
    except jinja2.TemplateSyntaxError as error:
        raise refuse(Mark(path, error.lineno, 1), f"not a template: {error.message}") from None
    except jinja2.UndefinedError as error:
        raise _undefined(error, path, source) from None
    except AccelsimError as error:
        if isinstance(error, InputError) or str(error).startswith(tuple(files.names)):
            raise
        raise AccelsimError(f"{path}: {error}") from None
    except (jinja2.TemplateError, NameError, TypeError, ValueError, ArithmeticError, RecursionError, OSError) as error:
        raise AccelsimError(f"{path}: the template cannot be carried out: {error}") from None
    return "".join(pieces)


def _undefined(error: Exception, path: str, source: str) -> _MissingNameError:
    """The name that has no value, where the traceback, whose lines are those of the template, leads to it."""
    name = str(error).split("'")[1]
    line = [number for frame, number in walk_tb(error.__traceback__) if frame.f_code.co_filename == path][-1]
    found = re.search(rf"\{{[{{%](?:(?![%}}]\}}).)*?\b({re.escape(name)})\b", source.split("\n")[line - 1])
    return _MissingNameError(name, Mark(path, line, found.start(1) + 1 if found else 1))


def _environment(path: str, files: _Files) -> SandboxedEnvironment:
    """Sandbox of one template, with the functions of the tools' front ends."""
    from jinja2 import StrictUndefined, pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    base = Path(os.path.realpath(path)).parent

    def held(context: Any, file: Path, key: str) -> Any:
        rendered = _read(str(file), _Files(files.folders, files.search, depth=files.depth), _names(context))
        value: Any = rendered.body
        for part in filter(None, str(key).split(".")):
            if not isinstance(value, Map) or part not in value:
                raise AccelsimError(f"{file}: has no {quoted(str(key))}, which is included")
            value = value[part]
        return value

    def remembered(value: Any) -> str:
        if len(files.included) >= _MOST_FILES:
            raise AccelsimError("includes too many files")
        name = f"included_{len(files.included)}_"
        files.included[name] = value
        return name

    @pass_context
    def include(context: Any, name: str, key: str = "") -> str:
        return remembered(held(context, files.included_file(str(name), base), key))

    @pass_context
    def include_all(context: Any, pattern: str, key: str = "") -> str:
        folder, _, last = str(pattern).rpartition("/")
        if "*" in folder:
            raise AccelsimError(f"{quoted(str(pattern))}: only names of files may have *")
        whole = Seq(Mark(path, 1, 1))
        for file in sorted(files.included_file(folder or ".", base).glob(last or "*"))[:_MOST_FILES]:
            value = held(context, files.allowed(Path(os.path.realpath(file)), file.name), key)
            whole.extend(value if isinstance(value, Seq) else [value])
        return remembered(whole)

    @pass_context
    def include_text(context: Any, name: str) -> str:
        file = files.included_file(str(name), base)
        with files.inside(str(file), f"{file}: templates"):
            return _rendered(str(file), read_utf8(file), files, _names(context))

    def add_to_path(name: str) -> str:
        files.search.append(Path(os.path.realpath(base / str(name))))
        return ""

    def bounded_range(*bounds: int) -> range:
        numbers = range(*map(int, bounds))
        if len(numbers) > _MOST_STEPS:
            raise AccelsimError(f"a loop of more than {_MOST_STEPS} steps")
        return numbers

    def claim(true: object, message: object = "an assertion of the template fails") -> str:
        if not true:
            raise AccelsimError(str(message))
        return ""

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    environment.intercepted_binops = frozenset(_SIGNS)
    environment.call_binop = _calculate  # type: ignore[method-assign, assignment]
    environment.globals = {
        "include": include, "include_all": include_all, "include_text": include_text, "add_to_path": add_to_path,
        "cwd": lambda: str(base), "path_exists": lambda name: files.find(str(name), base) is not None,
        "find_path": lambda name: str(files.included_file(str(name), base)), "range": bounded_range, "_claim": claim,
        "_join": _join, "min": min, "max": max, "dict": lambda: {},
    }  # fmt: skip
    return environment


def _names(context: Any) -> dict[str, Any]:
    """Variables that a template hands on to the files that it includes."""
    functions = context.environment.globals
    return {name: value for name, value in context.get_all().items() if name not in functions}


def _calculate(_: Any, sign: str, left: Any, right: Any) -> Any:
    """What a sign of a template makes of two values."""
    if not all(isinstance(value, int | float) for value in (left, right)):
        if sign == "+" and isinstance(left, str) and isinstance(right, str):
            return _join(left, right)
        _join(left, right)  # raises where one is undefined, with its name
        raise AccelsimError(f"{sign} calculates with numbers")
    if (sign == "**" and abs(right) > 64) or max(abs(left), abs(right)) > 1e40:
        raise AccelsimError("the numbers of the template grow too large")
    return _SIGNS[sign](left, right)


_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip


def _join(*parts: Any) -> str:
    text = "".join(map(str, parts))
    if len(text) > _LONGEST:
        raise AccelsimError(f"the template joins more than {_LONGEST >> 10} KiB of text")
    return text


def _walk(node: nodes.Node, loops: int = 0) -> Iterator[tuple[nodes.Node, int]]:
    yield node, loops
    for child in node.iter_child_nodes():
        yield from _walk(child, loops + (type(node).__name__ == "For"))


def _check(tree: nodes.Node, path: str) -> None:
    """Refuse what a template of an input file has no need of."""
    from jinja2 import nodes

    calls = list(tree.find_all(nodes.Call))
    reached = [node.node for node in calls if isinstance(node.node, nodes.Getattr)]
    items = [each for each in reached if each.attr == "items" and isinstance(each.node, nodes.Name)]  # pairs of a map
    known = [node for node in calls if isinstance(node.node, nodes.Name) and node.node.name in _FUNCTIONS]
    bounded: list[nodes.Node | None] = [node.target for node in tree.find_all(nodes.For)]
    filters = [node for node in tree.find_all(nodes.Filter) if node.name in _FILTERS]
    bounded += [node.node for node in filters if node.name in ("min", "max")]
    lists: list[nodes.List | nodes.Tuple] = [*tree.find_all(nodes.List), *tree.find_all(nodes.Tuple)]
    bounded += [node for node in lists if all(isinstance(item, nodes.Const) for item in node.items)]
    for node, loops in _walk(tree):
        kind = type(node).__name__
        does = {
            "reaches for an attribute or an item": kind in ("Getattr", "Getitem") and node not in items,
            "calls something": isinstance(node, nodes.Call) and node.node not in items and node not in known,
            f"uses the filter {getattr(node, 'name', '')}": kind == "Filter" and node not in filters,
            f"uses {kind.lower()}": kind not in _NODES,
            "has loops inside loops inside loops": isinstance(node, nodes.For) and (loops > 1 or node.recursive),
            "makes lists of what is no constant": kind in ("List", "Tuple") and node not in bounded,
        }
        if what := next((what for what, true in does.items() if true), ""):
            raise refuse(Mark(path, node.lineno, 1), f"the template {what}; it is not carried out")


def _prepare(tree: nodes.Node, file: int, environment: SandboxedEnvironment) -> None:
    """Write at each new line of the text where it comes from, and bound what texts are joined to."""
    from jinja2 import nodes
    from jinja2.visitor import NodeTransformer

    for data in tree.find_all(nodes.TemplateData):
        first, *rest = data.data.split("\n")
        data.data = first + "".join(f"\n\1{file},{data.lineno + k}\1{line}" for k, line in enumerate(rest, 1))

    class Joined(NodeTransformer):
        def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
            self.generic_visit(node)
            return nodes.Call(nodes.Name("_join", "load"), node.nodes, [], None, None).set_lineno(node.lineno)

    Joined().visit(tree)
    tree.set_environment(environment)
