"""The reference of the command line, from the parsers of the commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

_USUAL = ("positional arguments", "options")


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
    words = [_value(action) for action in command._actions if not action.option_strings]
    lines = [f"## {command.prog}", command.description or "", "", f"`{' '.join([command.prog, *words])} [options]`"]
    for group in command._action_groups:
        shown = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        shown = [action for action in shown if not isinstance(action, argparse._HelpAction)]
        if not shown:
            continue
        if group.title not in _USUAL:
            title = (group.title or "")[:1].upper() + (group.title or "")[1:]
            lines += ["", f"**{title}**: {_plain(group.description or '')}"]
        if group.title != _USUAL[1] or not words:
            lines += ["", "| option | |", "|---|---|"]
        lines += [f"| {_name(action)} | {_help(command, action)} |".replace("\n", " ") for action in shown]
    return "\n".join(lines) + "\n"


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
    return "`".join(part if number % 2 else re.sub(r"([*_<>\[\]])", r"\\\1", part) for number, part in enumerate(parts))
