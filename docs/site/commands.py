"""The reference of the command line, from the parsers of the commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

PAGE = "docs/commands"


def commands_of(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield each command below a parser, and the tasks of commands that have some."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                tasks = list(commands_of(command))
                yield from tasks or [command]


def commands_text() -> str:
    """Reference of all commands as Markdown, a section for each."""
    from accelsim.cli.arguments import make_parser

    return "\n".join(_command_text(command) for command in commands_of(make_parser()))


def _command_text(command: argparse.ArgumentParser) -> str:
    command.formatter_class = _Usage
    lines = [f"## {command.prog}", command.description or "", "", "```text", command.format_usage()[7:].strip(), "```"]
    for group in command._action_groups:
        shown = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        shown = [action for action in shown if not isinstance(action, argparse._HelpAction)]
        if not shown:
            continue
        if group.title not in ("positional arguments", "options"):
            lines += ["", f"**{(group.title or '').capitalize()}**: {_plain(group.description or '')}"]
        for action in shown:
            lines += ["", _name(action), f": {_help(command, action)}"]
    return "\n".join(lines) + "\n"


class _Usage(argparse.HelpFormatter):
    """Usage in lines that fit a page."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=88)


def _name(action: argparse.Action) -> str:
    """Write an option with its value: `-o DIR`, `--output DIR`."""
    value = _value(action)
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(f"`{option} {value}`" if action.nargs != 0 else f"`{option}`" for option in action.option_strings)


def _value(action: argparse.Action) -> str:
    shown = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest)
    many = {"+": "{0} …", "*": "[{0} …]", "?": "[{0}]"}
    return many.get(str(action.nargs), "{0}").format(shown)


def _help(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    if action.help:
        return _plain(action.help % {**vars(action), "prog": command.prog})
    if action.choices:
        return f"one of {', '.join(f'`{choice}`' for choice in action.choices)}"
    return _MEANINGS.get(_value(action).strip("[] …"), "required" if action.required else "optional")


_MEANINGS = {
    "ARCH": "an architecture: a file, or a name that `accelsim list` shows",
    "WORKLOAD": "a workload or an ONNX model: a file, or a name that `accelsim list` shows",
    "MAPPING": "a mapping: a file, or a name that `accelsim list` shows",
    "GPU": "a GPU: a name of `accelsim gpus`, a device name, or a file",
    "FILE": "input files of any kind",
    "M": "rows of the outputs",
    "N": "columns of the outputs",
    "K": "the reduction",
}


def _plain(text: str) -> str:
    """Escape what Markdown would take for markup, outside of `code`."""
    parts = text.split("`")
    return "`".join(
        part if number % 2 else re.sub(r"([*_<>\[\]^'])", r"\\\1", part) for number, part in enumerate(parts)
    )


def _add_commands(app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] += "\n" + commands_text()


def setup(app: Any) -> dict[str, bool]:
    """Add the commands when Sphinx reads their page."""
    app.connect("source-read", _add_commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
