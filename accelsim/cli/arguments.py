"""Arguments of the command line: how the table of all commands is read, and what of a line contradicts itself.

`commands.txt` is the table. Its first block, `shared`, has arguments of several commands. Every other one is a command:
its name, the module of `accelsim.cli` that has its function, its group, and what it does. Each row below is an
argument, such as `--seed N whole_number = 0`, and after two blanks what it is for. `[N]` may be left out, `N...` are
several; `{a,b}` are choices, or a table of `TABLES`; then follow a function of `accelsim.cli` that reads the value,
where it is not that of `READERS`, `repeated` or `required`, `= 0` the default, and `as name` the attribute, where it
has another name. A row without a text names shared arguments, or places such as `ARCH`.
`# title: text` begins a group of arguments; `> text` ends the help.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from accelsim import __version__, cli, gpu
from accelsim.inputs.errors import AccelsimError, require
from accelsim.inputs.library import TOP_KEYS

TABLES: dict[str, tuple[str, ...]] = {
    "PLOTS": (
        *("architecture", "mapping", "energy", "reuse", "cycles", "front"),
        *("hist", "density", "cdf", "layers", "spreads", "network"),
    ),
    "SPREADS": ("hist", "cdf", "density", "layers"),
    "SCHEMAS": (*TOP_KEYS, "result"),
    **{name: getattr(gpu, name) for name in ("L2_STATES", "LIBRARIES", "PASSES", "ATTENTION", "LAYOUTS")},
}
READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("N", "M", "K"), cli.positive_int), **dict.fromkeys(("S", "SECONDS"), cli.seconds),
    "LIST": cli.counts, "X": float, "SIZE": cli.memory, "SHARE": cli.share, "INCHES": cli.inches, "LIMIT": cli.limit,
    "NAME=VALUE": cli.override,
}  # fmt: skip
"""What reads a value, by its name in the usage."""
SHORT = {
    **{"--set": "-s", "--layer": "-l", "--constraints": "-c", "--objective": "-O"},
    **{"--jobs": "-j", "--quiet": "-q", "--verbose": "-v"},
}
"""Short forms of options, the same for all commands that have the option."""
FORMER = {
    **{"explore": "sweep", "bound": "sizing", "compare": "diff", "explain": "eval --trace", "energy": "show"},
    **{"gpus": "list gpus, or show NAME", "schema": "check --schema"},
    **dict.fromkeys(("replay", "validate"), "python -m validation.timeloop_files"),
    **{"calibrate": "gpu calibrate", "completion": "--show-completion", "advise": "gemm", "product": "gemm"},
    **{"--even": "--mapspace even", "--uneven": "--mapspace uneven", "--imperfect": "--factors imperfect"},
    **{"--pad": "--factors padded", "--mappings": "--sample", "--search": "--sample", "--seconds": "--time-limit"},
    **{"--memory": "--memory-limit", "--limit": "--require", "--why": "--sensitivity", "--workers": "--jobs"},
    **{"--sequence": "--seq-len", "--within": "--top", "--precision": "--dtype"},
    **{"KIND histogram": "hist", "KIND within": "cdf", "KIND stacks": "layers", "KIND time": "cycles"},
    **{"KIND compare": "spreads"},
}
"""Names of earlier versions, and what to write instead."""
cli.Parser.former = FORMER
_GPU_ALONE = {"--mig", "--calibration", "--dtype", "--l2", "--pass", "--attention", "--layout", "--library"}
_ROW = re.compile(
    r"""(?P<option>--?[\w-]+)?\ ?
    (?P<optional>\[)?(?P<value>\w[\w=,]*)?(?P<several>\.\.\.)?\]?\ ?(?:\{(?P<choices>[\w,]+)\})?\]?
    (?:\ (?P<reader>(?!repeated|required|as)\w+))?(?P<repeated>\ repeated)?(?P<required>\ required)?
    (?:\ =\ (?P<default>\S+))?(?:\ as\ (?P<dest>\w+))?""",
    re.VERBOSE,
)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help with the short and the long name of an option in one column, and their value once."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=110)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        names = [name for name in action.option_strings if name != "--output"]
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(names)} {value}"


def make_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Make the parser of all commands; with the arguments of `only` one, as making those of all takes 20 ms."""
    parser = cli.Parser(prog="accelsim", allow_abbrev=False, formatter_class=_Formatter)
    parser.add_argument("--version", action="version", version=f"accelsim {__version__}")
    parser.add_argument("--show-completion", metavar="SHELL", choices=("bash", "zsh"))
    parser.set_defaults(parser=parser)
    made: dict[str, argparse.ArgumentParser] = {"": parser}
    below: dict[str, Any] = {}
    groups: dict[str, list[str]] = {}
    for block in _COMMANDS:
        head, *rows = _rows(block)
        words, module, group_name, about = head.split("  ")
        parent, _, name = words.rpartition(" ")
        asked = only is None or words.split()[0] == only
        if not parent:
            groups.setdefault(group_name, []).append(f"  {name:<10} {about[0].upper()}{about[1:]}")
        if parent and not asked:
            continue
        if parent not in below:
            metavar = "TASK" if parent else "COMMAND"
            prog = made[parent].prog
            made[parent].usage = f"{prog} {metavar} [OPTIONS]"
            below[parent] = made[parent].add_subparsers(
                metavar=metavar, required=True, prog=prog, parser_class=cli.Parser
            )
        described = about[0].upper() + about[1:] + "."
        made[words] = command = below[parent].add_parser(
            name, help=about, description=described, allow_abbrev=False, add_help=False, formatter_class=_Formatter
        )
        if asked:
            command.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
        command.set_defaults(command=f"{words.replace(' ', '_')}_command", module=module, parser=command)
        group: argparse._ActionsContainer = command
        for row in rows if asked else ():
            if row.startswith("> "):
                command.epilog = row.removeprefix("> ").replace(" accelsim ", "\n  accelsim ")
            elif row.startswith("# "):
                group = command.add_argument_group(*row.removeprefix("# ").split(": ", 1))
            else:
                names = row.split()
                for each in names if all(name in _SHARED or name.isupper() for name in names) else [row]:
                    _add(group, _SHARED.get(each, each))
        places = [action for action in command._actions if not action.option_strings]
        if asked:
            named = "".join(f" {_place(place)}" for place in places) if rows else " TASK"
            command.usage = f"accelsim {words}{named} [OPTIONS]"
    listed = "\n\n".join("\n".join([title, *rows]) for title, rows in groups.items())
    parser.page = _PAGE.format(commands=listed)
    return parser


_PAGE = """\
accelsim - map deep-learning layers onto accelerators, with proof of optimality

Usage: accelsim COMMAND [OPTIONS]

{commands}

Start here:  accelsim map eyeriss conv      Help: accelsim map --help
ARCH and WORKLOAD are files or names from `accelsim list`.
Exit codes: 0 ok, 1 no valid mapping or values differ, 2 bad input.
`accelsim --version`; completion of commands: `accelsim --show-completion bash` or zsh.
"""


def _place(place: argparse.Action) -> str:
    """A positional argument as a usage line has it."""
    name = str(place.metavar or "|".join(place.choices or ()))
    name = name.upper() if place.metavar or len(name) < 40 else place.dest.upper()
    more = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}
    return more.get(str(place.nargs), name)


def _rows(block: str) -> list[str]:
    """Rows of a block of a table; one that is too long goes on in the next line, which begins further in."""
    return [row.strip() for row in block.strip().replace("\n        ", " ").split("\n")]


_SHARES, *_COMMANDS = Path(__file__).with_name("commands.txt").read_text(encoding="utf-8").split("\n\n")
_NAMES = {block.split()[0] for block in _COMMANDS}
_SHARED = {row.split()[0]: row for row in _rows(_SHARES)[1:]}


def _add(made: argparse._ActionsContainer, row: str) -> None:
    """Add an argument as its row says; `-o` is `--output` too."""
    said, _, about = row.partition("  ")
    found = _ROW.fullmatch(said)
    assert found is not None, row
    option, value, choices, dest = found["option"], found["value"], found["choices"], found["dest"]
    more: dict[str, Any] = {"help": about.replace("%", "%%") or None}
    names = [option or dest or value.lower()]
    if option in SHORT:
        names.insert(0, SHORT[option])
    if option == "-o":
        names.append("--output")
        made.set_defaults(**({"writes_folder": True} if value == "DIR" else {}))
    if option and not (value or choices):
        made.add_argument(*names, action="store_true", **more)
        return
    read = getattr(cli, found["reader"]) if found["reader"] else READERS.get(value, str)
    more |= {"metavar": value, "type": read, "nargs": "?" if found["optional"] else None}
    if found["several"]:
        more["nargs"] = "*" if found["optional"] else "+"
    if choices:
        more["choices"] = TABLES.get(choices) or tuple(choices.split(","))
    if found["default"]:
        more["default"] = read(found["default"].strip("'"))
    if found["repeated"]:
        more |= {"action": "append", "default": []}
    if option:
        more |= {"dest": dest, "required": bool(found["required"]), "const": cli.METRICS if found["optional"] else None}
    made.add_argument(*names, **more)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the arguments of the process, or those given.

    Raises SystemExit after `--help` and `--version`, or with `BAD_INPUT` after a line that says what is wrong.
    """
    words = _unfolded(sys.argv[1:] if arguments is None else list(map(str, arguments))) or ["--help"]
    only = next((word for word in words if word in _NAMES), "")
    if "--show-completion" in words:
        _complete(words)
    try:
        parsed, unknown = make_parser(only).parse_known_args(words)
    except cli.MissingFilesError as error:
        from accelsim.importers.foreign import tool_of

        whole = next((word for word in words[1:] if os.path.isfile(word)), "")
        try:
            if not whole or tool_of(whole) is None:
                error.parser.error(str(error))
            parsed, unknown = make_parser(only).parse_known_args([*words, *[whole] * (2 if only == "eval" else 1)])
        finally:
            error.parser.told = False
    if isinstance(getattr(parsed, "files", None), list):  # those after an option too
        parsed.files += [name for name in unknown if not name.startswith("-")]
        unknown = [name for name in unknown if name.startswith("-")]
    takes_more = parsed.command in ("map_command", "eval_command", "spread_command")
    parsed.more = tuple(name for name in unknown if takes_more and not name.startswith("-"))  # of another tool
    if unknown := [name for name in unknown if name not in parsed.more]:
        if parsed.command == "map_command" and _GPU_ALONE & {name.partition("=")[0] for name in unknown}:
            parsed.parser.error(f"{', '.join(unknown)}: `accelsim gpu map` has the options for GPUs")
        parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    for name in ("output", "html", "plot", "csv"):
        if getattr(parsed, name, None) == "":
            parsed.parser.error(f"argument --{name}: expected a path, got nothing")
    if parsed.command == "map_command":
        _check_map(parsed)
    return parsed


def _complete(words: list[str]) -> NoReturn:
    """Print the completion script of a shell, and end."""
    shell = make_parser("").parse_known_args([*words, "list"])[0].show_completion
    try:
        require("shtab", "completion needs it", "completion")
    except AccelsimError as error:
        make_parser("").error(str(error))
    import shtab

    sys.stdout.write(shtab.complete(make_parser(), shell) + "\n")
    sys.exit(cli.DONE)


def _unfolded(words: list[str]) -> list[str]:
    """Words of a command, with the files of another tool in the place of a folder that holds them."""
    takes_files = words[:1] and words[0] in ("map", "eval", "spread", "import", "check")
    folders = [at for at, word in enumerate(words) if takes_files and at and os.path.isdir(word)]
    for at in reversed(folders):
        if not words[at - 1].startswith("-"):  # of an option, such as `-o`
            from accelsim.importers.foreign import files_below

            words = [*words[:at], *(files_below(words[at]) or [words[at]]), *words[at + 1 :]]
    return words


def _check_map(parsed: argparse.Namespace) -> None:
    """Refuse options of `map` that contradict each other."""
    refused = [  # options, others that they are not allowed with, and why
        (["pareto"], ["top", "objective", "sample", "sensitivity", "layout"], "; a front has no single objective"),
        (["layout"], ["top", "sample", "sensitivity", "html"], "; it has a search of its own"),
        (["seed"], [] if parsed.sample else ["seed"], "; it is that of --sample N"),
    ]
    for options, others, why in refused:
        for option, other in product(options, others):
            given = [getattr(parsed, name) != parsed.parser.get_default(name) for name in (option, other)]
            if all(given):
                what = f"not allowed with --{other.replace('_', '-')}" if other != option else "means nothing here"
                parsed.parser.error(f"argument --{option.replace('_', '-')}: {what}{why}")
