"""The reference of the command line, from the parsers of the commands."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections import Counter
from collections.abc import Iterator

_USUAL = ("positional arguments", "options")
Row = tuple[str, str]
"""What a row of a table shows: an option or operand with its value, and its meaning."""


def commands_of(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield each command below a parser, and the tasks of commands that have some."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                tasks = list(commands_of(command))
                yield from tasks or [command]


def arguments_of(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """Operands and options of a command, without `--help`."""
    return [action for action in command._actions if _shown(action)]


def row_of(command: argparse.ArgumentParser, action: argparse.Action) -> Row:
    """Row of an operand or option."""
    return _name(action), _help(command, action)


def shared_rows(commands: list[argparse.ArgumentParser]) -> list[Row]:
    """Rows that several commands have in common, operands first."""
    rows = [(row_of(command, action), action) for command in commands for action in arguments_of(command)]
    often = Counter(row for row, _ in rows)
    places = {row: not action.option_strings for row, action in rows if often[row] > 1}
    return [*sorted(row for row in places if places[row]), *(row for row in places if not places[row])]


def commands_text() -> str:
    """Reference of all commands as Markdown: what they share, and a section for each."""
    from accelsim.cli.arguments import make_parser

    commands = list(commands_of(make_parser()))
    shared = shared_rows(commands)
    sections = [_command_text(command, shared) for command in commands]
    return "\n".join(["## Shared operands and options", *_table(shared)[1:], "", *sections])


def _command_text(command: argparse.ArgumentParser, shared: list[Row]) -> str:
    """A section: the usage, what the command does, its own options by group, and the names of those it shares."""
    words = [_place(action) for action in arguments_of(command) if not action.option_strings]
    lines = [f"## {command.prog}", f"`{' '.join([command.prog, *words])}`: {_plain(_begun(command.description))}"]
    own: dict[str, list[Row]] = {}
    common: list[str] = []
    for group in command._action_groups:
        about = f": {_plain(group.description)}" if group.description else ""
        title = "" if group.title in _USUAL else f"**{group.title}**{about}"
        for action in filter(_shown, group._group_actions):
            row = row_of(command, action)
            if row not in shared:
                own.setdefault(title, []).append(row)
            elif action.option_strings:
                common.append(f"`{_names(action)[-1]}`")
    for title, rows in own.items():
        lines += ["", title] if title else []
        lines += _table(rows)
    if common:
        lines += ["", textwrap.fill(f"Shared: {', '.join(common)}.", 120, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def _table(rows: list[Row]) -> list[str]:
    return ["", "| option | meaning |", "|---|---|", *(f"| {name} | {meaning} |" for name, meaning in rows)]


def _shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)


def _begun(sentence: str | None) -> str:
    return (sentence or "")[:1].lower() + (sentence or "")[1:]


def _name(action: argparse.Action) -> str:
    """Write an option with its value: `-j`, `--jobs N`."""
    if not action.option_strings:
        return f"`{_place(action)}`"
    *short, last = _names(action)
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join([*(f"`{option}`" for option in short), f"`{last}{value}`"])


def _names(action: argparse.Action) -> list[str]:
    """Names of an option, the short one first; `-o` has a long one that is not shown."""
    return [name for name in action.option_strings if name != "--output" or len(action.option_strings) == 1]


def _place(action: argparse.Action) -> str:
    """Write an operand, by its name where its choices are many."""
    return _value(action, action.dest.upper() if action.choices and not action.metavar else None)


def _value(action: argparse.Action, name: str | None = None) -> str:
    shown = name or action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest)
    many = {"+": "{0} …", "*": "[{0} …]", "?": "[{0}]"}
    return many.get(str(action.nargs), "{0}").format(shown)


def _help(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    if action.help:
        said = _plain(action.help % {**vars(action), "prog": command.prog})
        return f"{said} (required)" if action.option_strings and action.required else said
    if action.choices:
        return f"one of {', '.join(f'`{choice}`' for choice in action.choices)}"
    return _plain(_place(action))


def _plain(text: str) -> str:
    """Escape what Markdown would take for markup, outside of `code`."""
    parts = text.split("`")
    return "`".join(part if number % 2 else re.sub(r"([*_<>\[\]])", r"\\\1", part) for number, part in enumerate(parts))
