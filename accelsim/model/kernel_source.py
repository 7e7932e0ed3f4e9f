"""Source of a kernel: the text that was run when its module was imported."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any


def source_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """The definition of a function.

    Raises
    ------
    RuntimeError
        If its file says something else now: machine code is named by what was imported.
    """
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    tree, compiled = _definitions(code.co_filename, text).get((code.co_name, code.co_firstlineno), (None, None))
    if tree is None or compiled is None or _instructions(compiled) != _instructions(code):
        raise RuntimeError(f"{code.co_filename}: {code.co_name} has changed since it was imported; start again")
    return tree


def _instructions(code: CodeType) -> tuple[object, ...]:
    """What code does, and the code in it, without where it stands."""
    constants = [_instructions(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, constants


@cache
def _definitions(file: str, text: str) -> dict[tuple[str, int], tuple[ast.FunctionDef, CodeType]]:
    """Functions of a file by name and first line: as they are written, and compiled."""
    tree = ast.parse(text, file)
    codes: dict[tuple[str, int], CodeType] = {}
    waiting = [compile(tree, file, "exec", dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        codes[code.co_name, code.co_firstlineno] = code
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if (node.name, first) in codes:
                found[node.name, first] = node, codes[node.name, first]
    return found
