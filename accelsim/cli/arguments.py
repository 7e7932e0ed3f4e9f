"""Arguments of the command line: what each command may be asked, and what of it contradicts itself."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from accelsim import __version__, cli
from accelsim.cli import JSON, Made, Parser, add, add_forms, add_overrides, add_sizes, gpu_arguments, make_command

PLOTS = (
    *("architecture", "mapping", "energy", "reuse", "time", "front"),
    *("histogram", "density", "within", "stacks", "compare", "network", "formats"),
)
SWEEP_PLOTS = ("front", "sensitivity")
KERNELS = ("attention", "moe", "nccl")
"""Those of `accelsim.gpu.kernel_tables` of which `validate` takes tables."""
AddCommand = Callable[[str, str, str], argparse.ArgumentParser]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the arguments of the process, or those given.

    Raises SystemExit after `--help` and `--version`, or with `BAD_INPUT` after a line that says what is wrong.
    """
    words = (sys.argv[1:] if arguments is None else list(map(str, arguments))) or ["--help"]
    try:
        parsed, unknown = make_parser().parse_known_args(words)
    except cli.MissingFilesError as error:
        from accelsim.importers.foreign import tool_of

        whole = next((word for word in words[1:] if os.path.isfile(word)), "")
        if not whole or tool_of(whole) is None:
            error.parser.error(str(error))
        parsed, unknown = make_parser().parse_known_args([*words, *(whole for _ in error.names)])
    if isinstance(getattr(parsed, "files", None), list):  # those after an option too
        parsed.files += [name for name in unknown if not name.startswith("-")]
        unknown = [name for name in unknown if name.startswith("-")]
    takes_more = parsed.command in ("map_command", "eval_command", "spread_command", "explain_command")
    parsed.more = tuple(name for name in unknown if takes_more and not name.startswith("-"))  # of another tool
    if unknown := [name for name in unknown if name not in parsed.more]:
        parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    for name in ("output", "html", "picture", "csv"):
        if getattr(parsed, name, None) == "":
            parsed.parser.error(f"argument --{name}: expected a path, got nothing")
    if parsed.command == "map_command":
        _check_map(parsed)
    return parsed


_WORKERS = ("--workers N", "threads (default: all cores)", cli.positive_int)
_QUIET = ("--quiet", "print no progress")
_HTML = ("--html FILE", "write one page to open in a browser and explore (of one layer)")
_NO_CACHE = ("--no-cache", "search anew, and keep nothing (`accelsim cache` says where)")
_LAYER = ("--layer NAME", "the layer that is mapped, where the workload has several")
_CONSTRAINTS = ("--constraints FILE", "what the mappings must look like besides being valid")


def _add_machine(made: Made, *more: str) -> None:
    for name in ("ARCH", *more):
        add(made, name)
    add_overrides(made)


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = Parser(
        prog="accelsim",
        allow_abbrev=False,
        description="Find and evaluate mappings of deep-learning layers onto accelerators.",
        epilog="ARCH, WORKLOAD, MAPPING and constraints are files, or names that `accelsim list` shows. "
        "Exit codes: 0 done, 1 no valid mapping, 2 bad input.",
    )
    parser.add_argument("--version", action="version", version=f"accelsim {__version__}")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, module: str, about: str) -> argparse.ArgumentParser:
        """Add a command, which is a function of a module of `accelsim.cli`."""
        return make_command(commands, name, name, module, about)

    about = "find the best mapping of a layer, or of each layer of a network, and prove that it is"
    _add_map(command("map", "mapping", about))
    _add_fuse(command("fuse", "mapping", "find which consecutive layers of a network to fuse, and how"))
    _add_spread(command("spread", "plotting", "count all mappings of a layer, and show how their energy is spread"))

    about = "show the least energy, cycles or outer words of a layer for every size of a buffer, and its knees"
    made = command("bound", "plotting", about)
    _add_machine(made, "WORKLOAD")
    add(made, *_LAYER)
    add(made, "--level NAME", "the buffer (default: the outermost that has a size)")
    about = "what is made small (default: energy)"
    add(made, "--objective", about, choices=("energy", "cycles", "outer_words"), default="energy")
    add(made, *_CONSTRAINTS)
    add(made, "--uneven", "let a level keep its tensors at different loops of the nest, where that is better")
    add(made, "--seconds S", "stop after S seconds, with what was found", cli.seconds)
    add(made, *_WORKERS)
    add(made, "-o FILE", "draw it there: FILE.png or FILE.svg", cli.picture)
    add_forms(made)
    add(made, *_QUIET)

    made = command("eval", "evaluating", "evaluate one mapping, such as one that `map -o` wrote")
    _add_machine(made, "WORKLOAD", "MAPPING")
    add(made, *_LAYER)
    add(made, "-o DIR", "write mapping.yaml, result.json and figures there")
    add_forms(made)

    made = command("compare", "evaluating", "show two results, or two mappings, beside each other; differences first")
    about = "two folders or files that `map -o` or `eval -o` wrote, or ARCH WORKLOAD and two mappings"
    add(made, "files", about, nargs="+", metavar="NAME")
    add_overrides(made)
    add(made, *_LAYER)
    add_forms(made)

    made = command("explain", "evaluating", "walk a small loop nest step by step and show which words move, and why")
    _add_machine(made, "WORKLOAD")
    add(made, "MAPPING", "default: the best one that a short search finds", nargs="?")
    add(made, *_LAYER)
    add(made, "--tensor NAME", "show the tiles of this tensor only")
    add(made, "--level NAME", "show the tiles at this level only")
    add(made, "--steps N", "steps shown of each tile (default: 40)", cli.whole_number, default=40)
    add(made, *JSON)

    about = "draw a mapping, a machine, a search or all valid mappings as a picture for a paper"
    _add_plot(command("plot", "plotting", about))
    about = "show which layers compute limits and which memory, at best and as mapped"
    _add_roofline(command("roofline", "evaluating", about))
    about = "map networks onto many designs of a machine, and find the best of them"
    _add_explore(command("explore", "plotting", about))
    _add_files(command)
    gpu_arguments.add_commands(command)

    made = command("schema", "inspecting", "write JSON Schemas of the input files, for editors, and of result.json")
    files = ("architecture", "gpu", "system", "workload", "decoder", "mapping", "constraints", "energy_table", "sweep")
    add(made, "kind", "print the schema of this kind of file", nargs="?", choices=(*files, "result"))
    add(made, "-o DIR", "write KIND.schema.json there, of all kinds if none is given")
    made = command("arena", "evaluating", "compare mappings of other mappers with proved optima")
    tasks = made.add_subparsers(metavar="TASK", required=True, parser_class=type(made))
    about = "evaluate a submission to the arena, and say how far from the optimum its mappings are"
    made = make_command(tasks, "verify", "arena_verify", "evaluating", about)
    add(made, "SUBMISSION", "JSON or YAML with a tool and mappings, such as arena/optima.json")
    add_forms(made)
    about = "hold our numbers against other tools' and against measured GPU kernels"
    _add_validate(command("validate", "evaluating", about))
    return parser


def _add_map(made: argparse.ArgumentParser) -> None:
    add(made, "ARCH", "a machine, or several such as eyeriss,nvdla: a row for each")
    add(made, "WORKLOAD")
    add_overrides(made, "override a parameter of the input files, or try several values, such as glb=64KiB,128KiB")
    add(made, "--layer NAME", "map this layer only")
    add_sizes(made, cli.sizes, "; several such as 1,8,64: a row for each")
    about = "what the mapping must look like besides being valid; several between commas: a row for each; none: nothing"
    add(made, "--constraints FILE", about)
    about = "energy (default), cycles, outer_words, edp, several such as energy,cycles, a product such as "
    about += "'energy^2*cycles', or a weighted sum such "
    add(made, "--objective WHAT", about + "as 'energy + 0.5*cycles' (energy in pJ)")
    about = "the most that a mapping of a layer may cost, such as 'cycles <= 1.2e6', 'energy <= 3 uJ' or 'outer_words "
    add(made, "--limit LIMIT", about + "<= 40000'; may be given several times", cli.limit, action="append")
    add(made, "--top N", "list the mappings of the N best values", cli.positive_int)
    add(
        made,
        "--within SHARE",
        "count and list all mappings within a share of the best, such as 1%% or 0.01",
        cli.share,
    )
    add(made, "--uneven", "let a level keep its tensors at different loops of the nest, where that is better")
    about = "let loops leave remainders: over all dimensions, or over some, such as M,K"
    add(made, "--imperfect DIMS", about, cli.dimensions, nargs="?", const="all")
    about = "try larger bounds with better factors: of all dimensions, of some, such as P,Q, or some bounds, such as "
    add(made, "--pad DIMS", about + "P=56,Q=60", cli.dimensions, nargs="?", const="all")
    about = "solve again with half, a tenth more and twice of each buffer, bandwidth, column and row: what the optimum "
    add(made, "--why", about + "depends on (of one layer)")
    about = "with several sizes, such as --sequence 128,512 or --batch 1,8: the one mapping of each layer that loses "
    add(made, "--one-mapping", about + "least to the own optimum of each size")
    about = "find all mappings of one layer that no other one beats in two or three of energy, cycles, outer_words "
    add(
        made,
        "--pareto COLUMNS",
        about + "(at the outermost level) and capacity:LEVEL, such as energy,cycles",
        cli.columns,
    )
    methods = ("auto", "exact", "random", "exhaustive")
    add(made, "--search", "auto (default): exact, or random with --mappings", choices=methods, default="auto")
    add(made, "--mappings N", "draw N mappings at random, or stop after N", cli.positive_int)
    about = "stop after S seconds; an exact search then says how near the optimum is (default: 5 for a random search "
    add(made, "--seconds S", about + "without --mappings, else no limit)", cli.seconds)
    about = "the tables of an exact search take at most SIZE, such as 500 MiB (default: 2 GiB)"
    add(made, "--memory SIZE", about, cli.memory)
    add(made, "--seed N", "seed of the random search (default: 0)", cli.whole_number)
    add(made, *_WORKERS)
    gpu_arguments.add_map_options(made)
    add(made, "-o DIR", "write mapping.yaml, result.json and figures there")
    add_forms(made)
    add(made, *_HTML)
    add(made, "--plot FILE", "draw the rows of several values or machines: FILE.png or FILE.svg", cli.picture)
    add(made, *_NO_CACHE)
    add(made, "--quiet", "print the headline only, and no progress")


def _add_roofline(made: argparse.ArgumentParser) -> None:
    add(made, "ARCH")
    add(made, "workloads", "files, or names that `accelsim list` shows", metavar="WORKLOAD", nargs="+")
    add_overrides(made)
    add_sizes(made)
    add(made, *_CONSTRAINTS)
    add(made, "--objective WHAT", "what mappings make small, as for `map` (default: energy)")
    add(made, *_WORKERS)
    group = made.add_argument_group("on a GPU", "ARCH is a GPU: its memories, and the fastest kernel of each layer")
    gpu_arguments.add_prediction(group)
    add(made, "-o FILE", "draw it there: FILE.png or FILE.svg", cli.picture)
    add_forms(made)
    add(made, *_NO_CACHE)
    add(made, *_QUIET)


def _add_fuse(made: argparse.ArgumentParser) -> None:
    _add_machine(made, "WORKLOAD")
    add_sizes(made)
    about = "look at these layers only, which follow each other, such as b5_expand,b5_depthwise,b5_project"
    add(made, "--chain LAYERS", about)
    add(made, "--longest N", "fuse chains of at most N layers", cli.positive_int)
    add(made, "--objective WHAT", "energy (default), cycles, edp or energy^2*cycles")
    about = "look for nothing better after S seconds; the report then says how near the optimum is"
    add(made, "--seconds S", about, cli.seconds)
    add(made, *_WORKERS)
    add(made, "-o DIR", "write fusion.json and a figure there")
    add_forms(made)
    add(made, *_NO_CACHE)
    add(made, "--quiet", "print the table only, and no progress")


def _add_explore(made: argparse.ArgumentParser) -> None:
    add(made, "SWEEP", "a sweep file, or the folder of one, to look at what is there")
    add(made, "-o DIR", "where results are kept, and taken up again (default: NAME_results)")
    add(made, "--workers N", "processes (default: all cores)", cli.positive_int)
    add(made, "--scheduler ADDRESS", "let a Dask cluster do the work, such as tcp://host:8786")
    add(made, "--joint", "prove the front over designs and mappings together")
    add(made, "--within SHARE", "with --joint: points may miss this share of energy and time (default: 0)", cli.share)
    add(made, "--where EXPR", 'only designs that meet a condition, such as "pe.x >= 8 and cycles < 1e6"')
    add(made, "--front", "only designs that no other one beats")
    add(made, "--plot KIND", f"draw {', '.join(SWEEP_PLOTS)}", choices=SWEEP_PLOTS)
    add(made, "--picture FILE", "FILE.png or FILE.svg of --plot (default: KIND_NAME.png)", cli.picture)
    add(made, "--html FILE", "write one page to open in a browser and explore")
    add_forms(made)
    add(made, "--quiet", "print the summary only, and no progress")


def _add_plot(made: argparse.ArgumentParser) -> None:
    add(made, "KIND", f"what to draw: {', '.join(PLOTS)}", choices=PLOTS)
    add(made, "ARCH", "compare: or several, such as eyeriss,nvdla")
    add(made, "WORKLOAD", "all kinds but `architecture` need one", nargs="?")
    add_overrides(made)
    about = "the layer that is drawn, where the workload has several; compare: or several, such as conv1,conv2 "
    add(made, "--layer NAME", about + "(default: all)")
    add(made, *_CONSTRAINTS)
    add(made, "--mapping FILE", "energy, reuse, mapping, time, formats: this mapping instead of the best one")
    over = ("cycles", "outer_words", "utilization")
    add(made, "--over", "density: what the energy is drawn over", choices=over)
    add_sizes(made)
    add(made, *_NO_CACHE)
    _add_census(made)
    about = "width of the picture (default: 6.4; one column of a two-column page: 3.4)"
    add(made, "--width INCHES", about, cli.inches, default=6.4)
    add(made, "-o PATH", "FILE.png, FILE.svg, or a folder for both (default: KIND_ARCH_LAYER.png)")
    add(made, "--json", "print what is drawn as JSON, and write no picture without -o")


def _add_spread(made: argparse.ArgumentParser) -> None:
    _add_machine(made, "WORKLOAD")
    add(made, "--layer NAME", "look at this layer only, or at several, such as conv1,conv2")
    add(made, *_CONSTRAINTS)
    add(made, *_NO_CACHE)
    _add_census(made)
    add(made, "-o DIR", "write census.json there")
    add_forms(made)
    add(made, *_HTML)


def _add_census(made: argparse.ArgumentParser) -> None:
    add(made, "--samples N", "mappings that are drawn at random (default: 100,000)", cli.positive_int, default=100_000)
    add(made, "--seed N", "seed of the mappings drawn (default: 0)", cli.whole_number, default=0)
    about = "time for the searches: the best mappings, the front, and those within 5 %% of the best (default: 10)"
    add(made, "--seconds S", about, cli.seconds, default=10.0)
    add(made, *_WORKERS)
    add(made, *_QUIET)


def _add_files(command: AddCommand) -> None:
    """Add the commands about results and files."""
    about = "check a result.json that `map` wrote: its mapping, its numbers and its certificate"
    made = command("verify", "evaluating", about)
    add(made, "RESULT", "result.json, or the folder that holds it")
    add(made, "--force", "go on although an input file has changed")
    add(made, "--seconds S", "stop each search that derives a bound after S seconds", cli.seconds)
    add(made, *_WORKERS)

    made = command("check", "inspecting", "read input files and report every mistake in them")
    add(made, "files", nargs="+", metavar="FILE")
    add_overrides(made)

    about = "turn files of other tools into files of accelsim, and name what is not carried over as it is"
    made = command("import", "inspecting", about)
    made.epilog = (
        "Timeloop's files (v0.3, v0.4, parsed-processed-input.yaml, mappings, constraints, ERT and ART) are given "
        "together, as Timeloop takes them, and so are those of ZigZag, AccelForge, SCALE-Sim. A template reads files "
        "of the folders of these files only; --set gives its variables values."
    )
    about = "one model (.onnx, .pt2 of torch.export.save), or files of one tool"
    add(made, "files", about, nargs="+", metavar="FILE")
    tools = ("timeloop", "zigzag", "stream", "accelforge", "scalesim")
    add(made, "--from", "the files' tool", dest="tool", choices=tools)
    add_overrides(made)
    add_sizes(made)
    add(made, "-o PATH", "file for the workload of a model, or folder (default: print)")

    about = "write a mapping as a file of AccelForge, or with its machine and its layer as files of Timeloop"
    made = command("export", "evaluating", about)
    about = "timeloop: v0.4, and the mapping as in v0.3; accelforge: the mapping alone, for its own ARCH and WORKLOAD"
    add(made, "TOOL", about, choices=("timeloop", "accelforge"))
    about = "the folder that `map -o` or `eval -o` wrote, or ARCH WORKLOAD MAPPING"
    add(made, "files", about, nargs="+", metavar="FILE")
    add(made, "--layer NAME", "the layer that is meant, where there are several")
    add(made, "-o DIR", "write there (default: the folder `timeloop` in the first)")
    add_overrides(made)

    about = "hold Timeloop's statistics of a mapping against ours, and against our optimum"
    made = command("replay", "evaluating", about)
    add(made, "files", "Timeloop's inputs, as `import` takes them, and one *.stats.txt", nargs="+", metavar="FILE")
    add(made, "--seconds S", "stop looking for the optimum after S seconds (default: 20)", cli.seconds, default=20.0)
    add_overrides(made)
    add_forms(made)

    made = command("cache", "inspecting", "show where results are kept and how many there are, or remove them")
    add(made, "--clear", "remove all of them")
    add(made, "--json", "print JSON")

    about = "show versions, extras that are installed, and where results and compiled kernels are kept"
    add_forms(command("doctor", "inspecting", about))

    made = command("completion", "inspecting", "print what lets a shell complete commands and options")
    about = "such as: accelsim completion bash > ~/.local/share/bash-completion/completions/accelsim"
    add(made, "SHELL", about, choices=("bash", "zsh"))

    made = command("energy", "inspecting", "show the energy of each action of each component, with its source")
    _add_machine(made)
    add_forms(made)

    made = command("list", "inspecting", "name the files that come with accelsim")
    kinds = ("arch", "gpus", "systems", "workloads", "decoders", "mappings", "constraints", "energy_tables", "sweeps")
    add(made, "kind", nargs="?", choices=kinds)
    add_forms(made)


def _add_validate(made: argparse.ArgumentParser) -> None:
    about = "timeloop, scalesim: their records; gemmini, tileflow: cycles of RTL; else: times of kernels"
    choices = ("timeloop", "scalesim", "gemmini", "tileflow", "gemm", *KERNELS)
    add(made, "WHAT", about, choices=choices)
    add(made, "paths", "files of records instead of the usual ones; timeloop: or folders", nargs="*", metavar="PATH")
    add(made, "--every", "print every figure, however many there are")
    about = "gemmini: our best mapping of each tuned layer too, searched for SECONDS each"
    add(made, "--best SECONDS", about, cli.seconds)
    add(made, "-o DIR", "gemmini, tileflow, gemm: write the report, JSON and plots")
    add_forms(made)
    group = made.add_argument_group("gemm", "measured against predicted times of matrix products on a GPU")
    add(group, "--gpu GPU", "the GPU that was measured (default: what the table says)")
    about = "number format of the rows of which the table does not say it by a name that is known"
    gpu_arguments.add_prediction(group, about, gpu_arguments.L2_OF_TABLE)


def _check_map(parsed: argparse.Namespace) -> None:
    """Refuse options of `map` that contradict each other."""
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
        for name in ("top", "within"):
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
