"""Arguments of the command line: what each command may be asked, and what of it contradicts itself."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from accelsim import __version__
from accelsim.cli import argument_types, gpu_arguments

BAD_INPUT = 2
PLOTS = (
    *("architecture", "mapping", "energy", "reuse", "front", "spread", "curve"),
    *("histogram", "density", "within", "stacks", "compare", "network"),
)
SWEEP_PLOTS = ("front", "parallel", "sensitivity")


class _Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and names the closest command or option beside a misspelt one."""

    def error(self, message: str) -> NoReturn:
        words = message.replace(",", " ").split()
        known = [option for action in self._actions for option in action.option_strings]
        known += [name for action in self._actions for name in action.choices or ()]
        from accelsim.inputs.units import near_miss

        choice = "invalid choice" in message
        unknown = [
            word.strip("'\"()")
            for word in words
            if "unrecognized" in message or (choice and word.startswith(("'", '"')))
        ]
        found = (near_miss(word.partition("=")[0], known) for word in unknown if word not in known)
        hint = next(filter(None, found), "")
        if not hint and ("unrecognized" in message or "required" in message):
            hint = f"`{self.prog} --help` lists them"
        self.exit(BAD_INPUT, f"{self.prog}: {message}{'; ' if hint else ''}{hint}\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the arguments of the process, or those given.

    Raises
    ------
    SystemExit
        After `--help` and `--version`, or with `BAD_INPUT` after a line that says what is wrong.
    """
    parsed, unknown = make_parser().parse_known_args(arguments)
    if unknown:
        parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    for name in ("output", "html", "picture", "csv"):
        if getattr(parsed, name, None) == "":
            parsed.parser.error(f"argument --{name}: expected a path, got nothing")
    if parsed.command == "map_command":
        _check_map(parsed)
    return parsed


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = _Parser(
        prog="accelsim",
        allow_abbrev=False,
        description="Find and evaluate mappings of deep-learning layers onto accelerators.",
        epilog="ARCH, WORKLOAD, MAPPING and constraints are files, or names that `accelsim list` shows. "
        "Exit codes: 0 done, 1 no valid mapping, 2 bad input.",
    )
    parser.add_argument("--version", action="version", version=f"accelsim {__version__}")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    def command(name: str, about: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".", allow_abbrev=False)
        made.set_defaults(command=f"{name}_command", parser=made)
        return made

    _add_map(command("map", "find the best mapping of a layer, or of each layer of a network, and prove that it is"))

    _add_fuse(command("fuse", "find which consecutive layers of a network to fuse, and how"))

    _add_spread(command("spread", "count all mappings of a layer, and show how their energy is spread"))

    made = command("eval", "evaluate one mapping, such as one that `map -o` wrote")
    _add_machine(made, "WORKLOAD", "MAPPING")
    made.add_argument("--layer", metavar="NAME", help="the layer that is mapped, where the workload has several")
    _add_output(made)

    made = command("explain", "walk a small loop nest step by step and show which words move, and why")
    _add_machine(made, "WORKLOAD")
    made.add_argument("mapping", metavar="MAPPING", nargs="?", help="default: the best one that a short search finds")
    made.add_argument("--layer", metavar="NAME", help="the layer that is mapped, where the workload has several")
    made.add_argument("--tensor", metavar="NAME", help="show the tiles of this tensor only")
    made.add_argument("--level", metavar="NAME", help="show the tiles at this level only")
    made.add_argument(
        "--steps", type=argument_types.whole, default=40, metavar="N", help="steps shown of each tile (default: 40)"
    )
    made.add_argument("--json", action="store_true", help="print JSON instead of the report")

    _add_plot(command("plot", "draw a mapping, a machine, a search or all valid mappings as a picture for a paper"))

    _add_roofline(command("roofline", "show which layers compute limits and which memory, at best and as mapped"))

    _add_explore(command("explore", "map networks onto many designs of a machine, and find the best of them"))

    made = command("verify", "check a result.json that `map` wrote: its mapping, its numbers and its certificate")
    made.add_argument("result", metavar="RESULT", help="result.json, or the folder that holds it")
    made.add_argument("--force", action="store_true", help="go on although an input file has changed")
    made.add_argument(
        "--seconds",
        type=argument_types.seconds,
        metavar="S",
        help="stop each search that derives a bound after S seconds",
    )
    made.add_argument("--workers", type=argument_types.positive_int, metavar="N", help="threads (default: all cores)")

    made = command("check", "read input files and report every mistake in them")
    made.add_argument("files", nargs="+", metavar="FILE")
    _add_overrides(made)

    made = command(
        "import", "turn files of other tools into files of accelsim, and name what is not carried over as it is"
    )
    made.epilog = (
        "Timeloop's files (v0.3, v0.4, parsed-processed-input.yaml, mappings, constraints, ERT and ART) are given "
        "together, as Timeloop takes them, and so are those of ZigZag and AccelForge. A template reads files of the "
        "folders of these files only; --set gives its variables values."
    )
    made.add_argument(
        "files", nargs="+", metavar="FILE", help="one model (.onnx, .pt2 of torch.export.save), or files of one tool"
    )
    made.add_argument("--from", dest="tool", choices=("timeloop", "zigzag", "accelforge"), help="the files' tool")
    _add_overrides(made)
    _add_sizes(made)
    made.add_argument(
        "-o", "--output", metavar="PATH", help="file for the workload of a model, or folder (default: print)"
    )

    made = command("export", "write a mapping, its machine and its layer as files of Timeloop")
    made.add_argument("tool", metavar="TOOL", choices=("timeloop",), help="timeloop: v0.4, and the mapping as in v0.3")
    made.add_argument(
        "files", nargs="+", metavar="FILE", help="the folder that `map -o` or `eval -o` wrote, or ARCH WORKLOAD MAPPING"
    )
    made.add_argument("--layer", metavar="NAME", help="the layer that is meant, where there are several")
    made.add_argument("-o", "--output", metavar="DIR", help="write there (default: the folder `timeloop` in the first)")
    _add_overrides(made)

    made = command("replay", "hold Timeloop's statistics of a mapping against ours, and against our optimum")
    made.add_argument(
        "files", nargs="+", metavar="FILE", help="Timeloop's inputs, as `import` takes them, and one *.stats.txt"
    )
    made.add_argument(
        "--seconds", type=argument_types.seconds, default=20.0, metavar="S",
        help="stop looking for the optimum after S seconds (default: 20)",
    )  # fmt: skip
    _add_overrides(made)
    argument_types.add_forms(made)

    made = command("cache", "show where results are kept and how many there are, or remove them")
    made.add_argument("--clear", action="store_true", help="remove all of them")
    made.add_argument("--json", action="store_true", help="print JSON")

    made = command("energy", "show the energy of each action of each component, with its source")
    _add_machine(made)
    argument_types.add_forms(made)

    made = command("list", "name the files that come with accelsim")
    made.add_argument(
        "kind", nargs="?", choices=("arch", "gpus", "workloads", "mappings", "constraints", "energy_tables", "sweeps")
    )
    argument_types.add_forms(made)

    gpu_arguments.add_commands(command)

    made = command("schema", "write JSON Schemas of the input files, for editors, and of result.json")
    made.add_argument(
        "kind", nargs="?",
        choices=("architecture", "gpu", "workload", "mapping", "constraints", "energy_table", "sweep", "result"),
        help="print the schema of this kind of file",
    )  # fmt: skip
    made.add_argument(
        "-o", "--output", metavar="DIR", help="write KIND.schema.json there, of all kinds if none is given"
    )

    made = command("validate", "hold our numbers against other tools' and against measured GPU kernels")
    made.add_argument(
        "what", choices=("timeloop", "scalesim", "gemmini", "gemm"), metavar="WHAT",
        help="timeloop, scalesim: records of these tools; gemmini: cycles of its RTL; gemm: times of GPU kernels",
    )  # fmt: skip
    made.add_argument("paths", nargs="*", metavar="PATH", help="records, or folders of them, instead of the usual ones")
    made.add_argument("--every", action="store_true", help="print every figure, however many there are")
    made.add_argument("-o", "--output", metavar="DIR", help="gemm: write the report, its JSON and a plot of each GPU")
    argument_types.add_forms(made)
    gpu_arguments.add_validation(made)
    return parser


def _add_map(made: argparse.ArgumentParser) -> None:
    _add_machine(made, "WORKLOAD")
    made.add_argument("--layer", metavar="NAME", help="map this layer only")
    _add_sizes(made)
    made.add_argument("--constraints", metavar="FILE", help="what the mapping must look like besides being valid")
    made.add_argument(
        "--objective", metavar="WHAT",
        help="energy (default), cycles, outer_words, edp, a product such as 'energy^2*cycles', or a weighted sum such "
        "as 'energy + 0.5*cycles' (energy in pJ)",
    )  # fmt: skip
    made.add_argument(
        "--limit", action="append", type=argument_types.limit, metavar="LIMIT",
        help="the most that a mapping of a layer may cost, such as 'cycles <= 1.2e6', 'energy <= 3 uJ' or 'outer_words "
        "<= 40000'; may be given several times",
    )  # fmt: skip
    made.add_argument("--top", type=argument_types.positive_int, metavar="N", help="list the N best mappings")
    made.add_argument(
        "--within", type=argument_types.share, metavar="SHARE",
        help="count and list all mappings within a share of the best, such as 1%% or 0.01",
    )  # fmt: skip
    made.add_argument(
        "--uneven", action="store_true",
        help="let a level keep its tensors at different loops of the nest, where that is better",
    )  # fmt: skip
    made.add_argument(
        "--imperfect", nargs="?", const="all", type=argument_types.dimensions, metavar="DIMS",
        help="let loops leave remainders: over all dimensions, or over some, such as M,K",
    )  # fmt: skip
    made.add_argument(
        "--pad", nargs="?", const="all", type=argument_types.dimensions, metavar="DIMS",
        help="try larger bounds with better factors: of all dimensions, of some, such as P,Q, or some bounds, such as "
        "P=56,Q=60",
    )  # fmt: skip
    made.add_argument(
        "--pareto", type=argument_types.columns, metavar="COLUMNS",
        help="find all mappings of one layer that no other one beats in two or three of energy, cycles, outer_words "
        "(at the outermost level) and capacity:LEVEL, such as energy,cycles",
    )  # fmt: skip
    made.add_argument(
        "--search", choices=("auto", "exact", "random", "exhaustive"), default="auto",
        help="auto (default): exact, or random with --mappings",
    )  # fmt: skip
    made.add_argument(
        "--mappings", type=argument_types.positive_int, metavar="N", help="draw N mappings at random, or stop after N"
    )
    made.add_argument(
        "--seconds", type=argument_types.seconds, metavar="S",
        help="stop after S seconds; an exact search then says how near the optimum is (default: 5 for a random search "
        "without --mappings, else no limit)",
    )  # fmt: skip
    made.add_argument("--seed", type=argument_types.whole, metavar="N", help="seed of the random search (default: 0)")
    made.add_argument("--workers", type=argument_types.positive_int, metavar="N", help="threads (default: all cores)")
    gpu_arguments.add_map(made)
    _add_output(made)
    _add_html(made)
    _add_no_cache(made)
    made.add_argument("--quiet", action="store_true", help="print the headline only, and no progress")


def _add_roofline(made: argparse.ArgumentParser) -> None:
    made.add_argument("arch", metavar="ARCH")
    made.add_argument("workloads", metavar="WORKLOAD", nargs="+", help="files, or names that `accelsim list` shows")
    _add_overrides(made)
    _add_sizes(made)
    made.add_argument("--constraints", metavar="FILE", help="what the mappings must look like besides being valid")
    made.add_argument("--objective", metavar="WHAT", help="what mappings make small, as for `map` (default: energy)")
    made.add_argument("--workers", type=argument_types.positive_int, metavar="N", help="threads (default: all cores)")
    gpu_arguments.add_roofline(made)
    made.add_argument("-o", "--output", metavar="FILE", help="draw it there: FILE.png or FILE.svg")
    argument_types.add_forms(made)
    _add_no_cache(made)
    made.add_argument("--quiet", action="store_true", help="print no progress")


def _add_fuse(made: argparse.ArgumentParser) -> None:
    _add_machine(made, "WORKLOAD")
    _add_sizes(made)
    made.add_argument(
        "--chain", metavar="LAYERS",
        help="look at these layers only, which follow each other, such as b5_expand,b5_depthwise,b5_project",
    )  # fmt: skip
    made.add_argument(
        "--longest", type=argument_types.positive_int, metavar="N", help="fuse chains of at most N layers"
    )
    made.add_argument("--objective", metavar="WHAT", help="energy (default), cycles, edp or energy^2*cycles")
    made.add_argument(
        "--seconds", type=argument_types.seconds, metavar="S",
        help="look for nothing better after S seconds; the report then says how near the optimum is",
    )  # fmt: skip
    made.add_argument("--workers", type=argument_types.positive_int, metavar="N", help="threads (default: all cores)")
    made.add_argument("-o", "--output", metavar="DIR", help="write fusion.json and a figure there")
    argument_types.add_forms(made)
    _add_no_cache(made)
    made.add_argument("--quiet", action="store_true", help="print the table only, and no progress")


def _add_explore(made: argparse.ArgumentParser) -> None:
    made.add_argument("sweep", metavar="SWEEP", help="a sweep file, or the folder of one, to look at what is there")
    made.add_argument(
        "-o", "--output", metavar="DIR",
        help="where results are kept, and taken up again (default: NAME_results)",
    )  # fmt: skip
    made.add_argument("--workers", type=argument_types.positive_int, metavar="N", help="processes (default: all cores)")
    made.add_argument("--scheduler", metavar="ADDRESS", help="let a Dask cluster do the work, such as tcp://host:8786")
    made.add_argument(
        "--where", metavar="EXPR", help='only designs that meet a condition, such as "pe.x >= 8 and cycles < 1e6"'
    )
    made.add_argument("--front", action="store_true", help="only designs that no other one beats")
    made.add_argument("--plot", choices=SWEEP_PLOTS, metavar="KIND", help=f"draw {', '.join(SWEEP_PLOTS)}")
    made.add_argument("--picture", metavar="FILE", help="FILE.png or FILE.svg of --plot (default: KIND_NAME.png)")
    made.add_argument("--html", metavar="FILE", help="write one page to open in a browser and explore")
    argument_types.add_forms(made)
    made.add_argument("--quiet", action="store_true", help="print the summary only, and no progress")


def _add_plot(made: argparse.ArgumentParser) -> None:
    made.add_argument("kind", metavar="KIND", choices=PLOTS, help=f"what to draw: {', '.join(PLOTS)}")
    made.add_argument("arch", metavar="ARCH", help="compare: or several, such as eyeriss,nvdla")
    made.add_argument("workload", metavar="WORKLOAD", nargs="?", help="all kinds but `architecture` need one")
    _add_overrides(made)
    made.add_argument(
        "--layer", metavar="NAME",
        help="the layer that is drawn, where the workload has several; compare: or several, such as conv1,conv2 "
        "(default: all)",
    )  # fmt: skip
    made.add_argument("--constraints", metavar="FILE", help="what the mappings must look like besides being valid")
    made.add_argument("--mapping", metavar="FILE", help="energy, reuse, mapping: this mapping instead of the best one")
    made.add_argument(
        "--over", choices=("cycles", "outer_words", "utilization"), help="density: what the energy is drawn over"
    )
    _add_sizes(made)
    _add_no_cache(made)
    _add_census(made)
    made.add_argument(
        "--width", type=argument_types.inches, default=6.4, metavar="INCHES",
        help="width of the picture (default: 6.4; one column of a two-column page: 3.4)",
    )  # fmt: skip
    made.add_argument(
        "-o", "--output", metavar="PATH", help="FILE.png, FILE.svg, or a folder for both (default: KIND_ARCH_LAYER.png)"
    )
    made.add_argument(
        "--json", action="store_true", help="print what is drawn as JSON, and write no picture without -o"
    )


def _add_spread(made: argparse.ArgumentParser) -> None:
    _add_machine(made, "WORKLOAD")
    made.add_argument("--layer", metavar="NAME", help="look at this layer only, or at several, such as conv1,conv2")
    made.add_argument("--constraints", metavar="FILE", help="what the mappings must look like besides being valid")
    _add_no_cache(made)
    _add_census(made)
    made.add_argument("-o", "--output", metavar="DIR", help="write census.json there")
    argument_types.add_forms(made)
    _add_html(made)


def _add_census(made: argparse.ArgumentParser) -> None:
    made.add_argument("--fully-used", action="store_true", help="all mappings: only those that use all compute units")
    made.add_argument(
        "--samples", type=argument_types.positive_int, default=100_000, metavar="N",
        help="mappings that are drawn at random (default: 100,000)",
    )  # fmt: skip
    made.add_argument(
        "--seed", type=argument_types.whole, default=0, metavar="N", help="seed of the mappings drawn (default: 0)"
    )
    made.add_argument(
        "--seconds", type=argument_types.seconds, default=10.0, metavar="S",
        help="time for the searches: the best mappings, the front, and those within 5 %% of the best (default: 10)",
    )  # fmt: skip
    made.add_argument("--workers", type=argument_types.positive_int, metavar="N", help="threads (default: all cores)")
    made.add_argument("--quiet", action="store_true", help="print no progress")


def _add_machine(parser: argparse.ArgumentParser, *more: str) -> None:
    for name in ("ARCH", *more):
        parser.add_argument(name.lower(), metavar=name)
    _add_overrides(parser)


def _add_overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], type=argument_types.override, metavar="NAME=VALUE", dest="overrides",
        help="override a parameter of the input files; may be repeated",
    )  # fmt: skip


def _add_html(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", help="write one page to open in a browser and explore (of one layer)")


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batch", type=argument_types.positive_int, metavar="N", help="set the workload's parameter `batch`"
    )
    parser.add_argument(
        "--sequence", type=argument_types.positive_int, metavar="N",
        help="set the workload's parameter `seq` or, where it decodes with a cache of tokens, `kv`",
    )  # fmt: skip


def _add_no_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-cache", action="store_true", help="search anew, and keep nothing (`accelsim cache` says where)"
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="DIR", help="write mapping.yaml, result.json and figures there")
    argument_types.add_forms(parser)


def _check_map(parsed: argparse.Namespace) -> None:
    """Refuse options of `map` that contradict each other."""
    if parsed.pareto and parsed.html:
        parsed.parser.error("argument --html: not allowed with --pareto; `accelsim spread --html` shows the front")
    if parsed.pareto:
        others = ("top", "within", "objective", "mappings", "seed")
        wrong = [f"--{name}" for name in others if getattr(parsed, name) is not None]
        wrong += [f"--search {parsed.search}"] if parsed.search in ("random", "exhaustive") else []
        if wrong:
            parsed.parser.error(f"argument --pareto: not allowed with {wrong[0]}; a front has no single objective")
    sampled = f"--search {parsed.search}" if parsed.search in ("random", "exhaustive") else ""
    if not sampled and parsed.search == "auto" and parsed.mappings is not None:
        sampled = "--mappings (a random search)"
    for option in ("uneven", "imperfect", "pad"):
        if not getattr(parsed, option):
            continue
        for name in ("top", "within", "pareto"):
            if getattr(parsed, name) is not None:
                what = "even mappings without remainders and padding"
                parsed.parser.error(f"argument --{option}: not allowed with --{name}, which lists {what} only")
        if sampled:
            what = "only the exact search knows such mappings"
            parsed.parser.error(f"argument --{option}: not allowed with {sampled}; {what}")
    for name in ("top", "within"):
        if sampled and getattr(parsed, name) is not None:
            parsed.parser.error(f"argument --{name}: not allowed with {sampled}; only the exact search ranks mappings")
    if parsed.search == "exact" and parsed.mappings is not None:
        parsed.parser.error("argument --mappings: not allowed with --search exact; limit it by --seconds")
