"""Arguments of the command line: what each command may be asked, and what of it contradicts itself."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from accelsim import __version__, cli
from accelsim.cli import Parser, add
from accelsim.inputs.errors import AccelsimError

PLOTS = (
    *("architecture", "mapping", "energy", "reuse", "time", "front"),
    *("histogram", "density", "within", "stacks", "compare", "network", "formats"),
)
SWEEP_PLOTS = ("front", "sensitivity")
KERNELS = ("attention", "moe", "nccl")
"""Those of `accelsim.gpu.kernel_tables` of which `validate` takes tables."""
L2_STATES = ("rotating", "cold", "warm")
"""Those of `accelsim.gpu`, which is loaded for a GPU only; as are these two."""
LAYOUTS = ("tn", "nn", "nt", "tt")
LIBRARIES = ("cublas11", "cublas10")
Made = argparse._ActionsContainer
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
_JSON = ("--json", "print JSON instead of the report")
_QUIET = ("--quiet", "print no progress")
_HTML = ("--html FILE", "write one page to open in a browser and explore (of one layer)")
_NO_CACHE = ("--no-cache", "search anew, and keep nothing (`accelsim cache` says where)")
_LAYER = ("--layer NAME", "the layer that is mapped, where the workload has several")
_CONSTRAINTS = ("--constraints FILE", "what the mappings must look like besides being valid")
_MIG = ("--mig PROFILE", "a MIG slice of the GPU, such as 1g.10gb")


def add_forms(made: Made) -> None:
    """Add the other forms of a report: JSON, and its tables as CSV."""
    add(made, *_JSON)
    add(made, "--csv FILE", "write the tables of the report as CSV: the first to FILE, others to FILE_NAME")


def _add_machine(made: Made, *more: str) -> None:
    for name in ("ARCH", *more):
        add(made, name)
    _add_overrides(made)


def _add_overrides(made: Made, about: str = "override a parameter of the input files; may be repeated") -> None:
    add(made, "--set NAME=VALUE", about, cli.override, action="append", default=[], dest="overrides")


def _add_sizes(made: Made, kind: Callable[[str], Any] = cli.positive_int, several: str = "") -> None:
    add(made, "--batch N", f"set the workload's parameter `batch`{several}", kind)
    about = "set the workload's parameter `seq` or, where it decodes with a cache of tokens, `kv`"
    add(made, "--sequence N", f"{about}{several}", kind)


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
        return _command(commands, name, name, module, about)

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
    add(made, "-o FILE", "draw it there: FILE.png or FILE.svg")
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
    _add_overrides(made)
    add(made, *_LAYER)
    add_forms(made)

    made = command("explain", "evaluating", "walk a small loop nest step by step and show which words move, and why")
    _add_machine(made, "WORKLOAD")
    add(made, "MAPPING", "default: the best one that a short search finds", nargs="?")
    add(made, *_LAYER)
    add(made, "--tensor NAME", "show the tiles of this tensor only")
    add(made, "--level NAME", "show the tiles at this level only")
    add(made, "--steps N", "steps shown of each tile (default: 40)", cli.whole_number, default=40)
    add(made, *_JSON)

    about = "draw a mapping, a machine, a search or all valid mappings as a picture for a paper"
    _add_plot(command("plot", "plotting", about))
    about = "show which layers compute limits and which memory, at best and as mapped"
    _add_roofline(command("roofline", "evaluating", about))
    about = "map networks onto many designs of a machine, and find the best of them"
    _add_explore(command("explore", "plotting", about))
    _add_files(command)
    _add_gpus(command)

    made = command("schema", "inspecting", "write JSON Schemas of the input files, for editors, and of result.json")
    files = ("architecture", "gpu", "system", "workload", "decoder", "mapping", "constraints", "energy_table", "sweep")
    add(made, "kind", "print the schema of this kind of file", nargs="?", choices=(*files, "result"))
    add(made, "-o DIR", "write KIND.schema.json there, of all kinds if none is given")
    made = command("arena", "evaluating", "compare mappings of other mappers with proved optima")
    tasks = made.add_subparsers(metavar="TASK", required=True, parser_class=type(made))
    about = "evaluate a submission to the arena, and say how far from the optimum its mappings are"
    made = _command(tasks, "verify", "arena_verify", "evaluating", about)
    add(made, "SUBMISSION", "JSON or YAML with a tool and mappings, such as arena/optima.json")
    add_forms(made)
    about = "hold our numbers against other tools' and against measured GPU kernels"
    _add_validate(command("validate", "evaluating", about))
    return parser


def _command(commands: Any, name: str, function: str, module: str, about: str) -> argparse.ArgumentParser:
    described = about[0].upper() + about[1:] + "."
    made: argparse.ArgumentParser = commands.add_parser(name, help=about, description=described, allow_abbrev=False)
    made.set_defaults(command=f"{function}_command", module=module, parser=made)
    return made


def _add_map(made: argparse.ArgumentParser) -> None:
    add(made, "ARCH", "a machine, or several such as eyeriss,nvdla: a row for each")
    add(made, "WORKLOAD")
    _add_overrides(made, "override a parameter of the input files, or try several values, such as glb=64KiB,128KiB")
    add(made, "--layer NAME", "map this layer only")
    _add_sizes(made, cli.sizes, "; several such as 1,8,64: a row for each")
    about = (
        "what the mapping must look like besides being valid; several between commas (`none`: no such): a row for each"
    )
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
    group = made.add_argument_group("on a GPU", "ARCH is a GPU: the fastest kernel tiling of each layer")
    add(group, *_MIG)
    _add_calibration(group)
    _add_dtype(group, "number format (default: fp16 for operands of 16 bit, and so on)")
    about, passes = "the pass of training (default: forward)", ("forward", "input_gradient", "weight_gradient")
    add(group, "--pass", about, dest="training_pass", choices=passes, default="forward")
    about = (
        "attention as one kernel in which tokens see all keys (default) or those before them, as decoders do, or as "
        "two products"
    )
    add(group, "--attention", about, choices=("full", "causal", "apart"), default="full")
    about = "order in memory: nhwc (default), nchw, whose convolutions are turned, or of all products "
    _add_layout(group, about + _LETTERS, ("nhwc", "nchw", *LAYOUTS))
    add(made, "-o DIR", "write mapping.yaml, result.json and figures there")
    add_forms(made)
    add(made, *_HTML)
    add(made, "--plot FILE", "draw the rows of several values or machines: FILE.png or FILE.svg")
    add(made, *_NO_CACHE)
    add(made, "--quiet", "print the headline only, and no progress")


def _add_roofline(made: argparse.ArgumentParser) -> None:
    add(made, "ARCH")
    add(made, "workloads", "files, or names that `accelsim list` shows", metavar="WORKLOAD", nargs="+")
    _add_overrides(made)
    _add_sizes(made)
    add(made, *_CONSTRAINTS)
    add(made, "--objective WHAT", "what mappings make small, as for `map` (default: energy)")
    add(made, *_WORKERS)
    group = made.add_argument_group("on a GPU", "ARCH is a GPU: its memories, and the fastest kernel of each layer")
    _add_prediction(group)
    add(made, "-o FILE", "draw it there: FILE.png or FILE.svg")
    add_forms(made)
    add(made, *_NO_CACHE)
    add(made, *_QUIET)


def _add_fuse(made: argparse.ArgumentParser) -> None:
    _add_machine(made, "WORKLOAD")
    _add_sizes(made)
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
    add(made, "--picture FILE", "FILE.png or FILE.svg of --plot (default: KIND_NAME.png)")
    add(made, "--html FILE", "write one page to open in a browser and explore")
    add_forms(made)
    add(made, "--quiet", "print the summary only, and no progress")


def _add_plot(made: argparse.ArgumentParser) -> None:
    add(made, "KIND", f"what to draw: {', '.join(PLOTS)}", choices=PLOTS)
    add(made, "ARCH", "compare: or several, such as eyeriss,nvdla")
    add(made, "WORKLOAD", "all kinds but `architecture` need one", nargs="?")
    _add_overrides(made)
    about = "the layer that is drawn, where the workload has several; compare: or several, such as conv1,conv2 "
    add(made, "--layer NAME", about + "(default: all)")
    add(made, *_CONSTRAINTS)
    add(made, "--mapping FILE", "energy, reuse, mapping, time, formats: this mapping instead of the best one")
    over = ("cycles", "outer_words", "utilization")
    add(made, "--over", "density: what the energy is drawn over", choices=over)
    _add_sizes(made)
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
    _add_overrides(made)

    about = "turn files of other tools into files of accelsim, and name what is not carried over as it is"
    made = command("import", "inspecting", about)
    made.epilog = (
        "Timeloop's files (v0.3, v0.4, parsed-processed-input.yaml, mappings, constraints, ERT and ART) are given "
        "together, as Timeloop takes them, and so are those of ZigZag and AccelForge. A template reads files of the "
        "folders of these files only; --set gives its variables values."
    )
    about = "one model (.onnx, .pt2 of torch.export.save), or files of one tool"
    add(made, "files", about, nargs="+", metavar="FILE")
    add(made, "--from", "the files' tool", dest="tool", choices=("timeloop", "zigzag", "accelforge"))
    _add_overrides(made)
    _add_sizes(made)
    add(made, "-o PATH", "file for the workload of a model, or folder (default: print)")

    about = "write a mapping as a file of AccelForge, or with its machine and its layer as files of Timeloop"
    made = command("export", "evaluating", about)
    about = "timeloop: v0.4, and the mapping as in v0.3; accelforge: the mapping alone, for its own ARCH and WORKLOAD"
    add(made, "TOOL", about, choices=("timeloop", "accelforge"))
    about = "the folder that `map -o` or `eval -o` wrote, or ARCH WORKLOAD MAPPING"
    add(made, "files", about, nargs="+", metavar="FILE")
    add(made, "--layer NAME", "the layer that is meant, where there are several")
    add(made, "-o DIR", "write there (default: the folder `timeloop` in the first)")
    _add_overrides(made)

    about = "hold Timeloop's statistics of a mapping against ours, and against our optimum"
    made = command("replay", "evaluating", about)
    add(made, "files", "Timeloop's inputs, as `import` takes them, and one *.stats.txt", nargs="+", metavar="FILE")
    add(made, "--seconds S", "stop looking for the optimum after S seconds (default: 20)", cli.seconds, default=20.0)
    _add_overrides(made)
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


_L2_OF_TABLE = "what L2 held where the column l2 does not say it (default: rotating)"
_GPU_OPTIONS = {
    **{"mig": None, "calibration": None, "dtype": None},
    **{"l2": L2_STATES[0], "training_pass": "forward", "attention": "full", "layout": "nhwc", "library": LIBRARIES[0]},
}
"""Options of `map` on a GPU, and what they are where nobody gives them."""


def _add_gpus(command: AddCommand) -> None:
    """Add the commands about GPUs."""
    made = command("gpus", "gpus", "list the GPUs that come with accelsim, or show one with the source of each figure")
    add(made, "GPU", "show this one: a name, a device name, or a file", nargs="?")
    add(made, *_MIG)
    add_forms(made)

    about = "fit the eight constants of a GPU's kernel model to measured matrix products"
    made = command("calibrate", "gpus", about)
    add(made, "MEASURED", "CSV with the columns M, N, K, dtype, time_us_median")
    add(made, "--gpu GPU", "the GPU that was measured", required=True)
    _add_dtype(made, "fit the rows of this number format, such as bf16", _L2_OF_TABLE)
    add(made, "--source TEXT", "where the measurements come from, to be kept in the file")
    add(made, "-o FILE", "write the calibration there")
    add_forms(made)

    about = "advise on the sizes of a matrix product, or compare a profile with predictions"
    made = command("gpu", "gpus", about)
    tasks = made.add_subparsers(metavar="TASK", required=True, parser_class=type(made))
    about = "show what tiles and waves cost a matrix product, and what rounding its sizes up would bring"
    made = _command(tasks, "advise", "gpu_advise", "gpus", about)
    for name in ("M", "N", "K"):
        add(made, name, None, cli.positive_int)
    add(made, "--gpu GPU", required=True)
    _add_prediction(made)
    _add_layout(made, "order in memory: " + _LETTERS, LAYOUTS)
    add(made, "--tile ROWSxCOLUMNS", "try this tile alone, such as 256x128, with K in one part", default="")
    add(made, "--sweep", "the dimension that the chart varies (default: n)", choices=("m", "n", "k"))
    add(made, "-o FILE", "draw throughput over one dimension: FILE.png or FILE.svg")
    add_forms(made)

    _add_operators(tasks)
    _add_serve(tasks)
    _add_train(tasks)
    about = "hold a profile of kernels against what is predicted for them"
    made = _command(tasks, "compare", "gpu_compare", "gpus", about)
    add(made, "PROFILE", "CSV of Nsight Systems or Compute, or with M, N, K, time")
    add(made, "--gpu GPU", required=True)
    add(made, "--workload WORKLOAD", "layers that NVTX ranges name")
    _add_prediction(made, "number format (default: what a table with M, N, K and time says, else fp16)")
    add_forms(made)


def _add_operators(tasks: Any) -> None:
    """Add the operators that `gpu` times."""
    about = "time an operator that memory limits, such as relu or layer_norm, from cold memory"
    made = _command(tasks, "operator", "gpu_operator", "gpus", about)
    add(made, "OPERATOR", None)
    add(made, "GPU", None)
    add(made, "--elements N", "of the input (default: 1048576)", cli.positive_int, default=2**20)
    add(made, "--dtype FORMAT", "number format (default: fp16)", cli.number_format)
    _add_calibration(made)
    add(made, *_MIG)
    add_forms(made)

    about = "time fused attention: of one new token (decode) or of more (prefill), after cached ones"
    made = _command(tasks, "attention", "gpu_attention", "gpus", about)
    add(made, "GPU", None)
    add(made, "--batch N", "sequences (default: 1)", cli.positive_int, default=1)
    add(made, "--tokens N", "new tokens of each (default: 1)", cli.positive_int, default=1)
    add(made, "--cached N", "tokens before them (default: 0)", cli.whole_number, default=0)
    add(made, "--heads N", "query heads", cli.positive_int, required=True)
    add(made, "--kv-heads N", "key-value heads (default: as many)", cli.positive_int)
    add(made, "--head-size N", "words of a head (default: 128)", cli.positive_int, default=128)
    add(made, "--window N", "keys that a token sees (default: all)", cli.positive_int, default=0)
    add(made, "--latent", "latent attention, as in DeepSeek: a head of 128 words, a latent vector of 512")
    add(made, "--dtype FORMAT", "of queries: bf16 (default), fp16 or fp8", default="bf16")
    add(made, "--cache-dtype FORMAT", "of keys and values (default: as the queries)")
    _add_stack(made)

    about = "time both products of a mixture of experts on one GPU, with what lies between"
    made = _command(tasks, "moe", "gpu_moe", "gpus", about)
    add(made, "GPU", None)
    add(made, "--tokens N", "of all GPUs together", cli.positive_int, required=True)
    add(made, "--hidden N", "width of a token", cli.positive_int, required=True)
    add(made, "--inter N", "width between the products, on this GPU", cli.positive_int, required=True)
    add(made, "--experts N", "of all GPUs together", cli.positive_int, required=True)
    add(made, "--top N", "experts of a token", cli.positive_int, required=True)
    add(made, "--ep N", "GPUs that share the experts (default: 1)", cli.positive_int, default=1)
    about = "power by which tokens crowd on few experts, such as 1.2 (default: 0, equal shares)"
    add(made, "--skew X", about, float, default=0.0)
    add(made, "--plain", "one product before the activation instead of two (gated)")
    _add_precision(made)
    _add_stack(made)

    about = "time a product in a narrow format, with the pass that quantises its inputs"
    made = _command(tasks, "product", "gpu_product", "gpus", about)
    add(made, "GPU", None)
    for name in ("M", "N", "K"):
        add(made, name, None, cli.positive_int)
    _add_precision(made)
    _add_stack(made)

    about = "time an all-reduce, all-gather, reduce-scatter or all-to-all of the GPUs of a node"
    made = _command(tasks, "collective", "gpu_collective", "gpus", about)
    add(made, "GPU", None)
    add(made, "OPERATION", "all_reduce, all_gather, reduce_scatter or all_to_all")
    add(made, "--gpus N", "how many (default: 8)", cli.positive_int, default=8)
    add(made, "--size SIZE", "the whole message, such as 16 MiB", cli.memory, required=True)
    add(made, "--one-shot", "an all-reduce of the stack's own kernels, such as those of vLLM, instead of NCCL")
    _add_stack(made)


def _add_train(tasks: Any) -> None:
    about = "time, throughput, memory of states and energy of a training step of a decoder on many GPUs"
    made = _command(tasks, "train", "gpu_train", "gpus", about)
    add(made, "MODEL", "a decoder: a file, or a name that `accelsim list decoders` shows")
    add(made, "GPU", None)
    several = "; several, such as 1,2,4, make a row for each (default: 1)"
    add(made, "--batch LIST", "sequences of a step, of all copies" + several, cli.counts, default=(1,))
    add(made, "--micro LIST", "sequences that go through at once" + several, cli.counts, default=(1,))
    add(made, "--dp LIST", "copies of the model (data parallel)" + several, cli.counts, default=(1,))
    add(made, "--tp LIST", "GPUs that share each layer (tensor parallel)" + several, cli.counts, default=(1,))
    add(made, "--pp LIST", "stages that share the layers (pipeline parallel)" + several, cli.counts, default=(1,))
    add(made, "--ep LIST", "GPUs that share the experts" + several, cli.counts, default=(1,))
    add(made, "--sequence N", "tokens of a sequence (default: 4096)", cli.positive_int, default=4096)
    about = "what copies share out: none (default), optimizer states, gradients too, weights too (ZeRO 1 to 3)"
    add(made, "--shard WHAT", about, choices=("none", "optimizer", "gradients", "weights"), default="none")
    add(made, "--recompute", "keep the inputs of layers alone, and compute the rest again in the backward pass")
    add(made, "--no-overlap", "sum up gradients after the backward pass instead of meanwhile")
    about = "GB/s that each GPU sends to other nodes (default: 50, an InfiniBand NDR link for each)"
    add(made, "--network GB", about, cli.positive_int, default=50)
    add(made, "--precision NAME", "of products: bf16 (default), fp8 or another of `gpu product`", default="bf16")
    add(made, "--skew X", "power by which tokens crowd on few experts (default: 0)", float, default=0.0)
    _add_calibration(made)
    _add_stack(made)


def _add_serve(tasks: Any) -> None:
    about = "time to first token, time per output token, throughput, memory and energy of a decoder on several GPUs"
    made = _command(tasks, "serve", "gpu_serve", "gpus", about)
    add(made, "MODEL", "a decoder: a file, or a name that `accelsim list decoders` shows")
    add(made, "GPU", None)
    several = "; several, such as 1,2,4, make a sweep (default: 1)"
    add(made, "--batch LIST", "sequences at once" + several, cli.counts, default=(1,))
    add(made, "--tp LIST", "GPUs that share each layer (tensor parallel)" + several, cli.counts, default=(1,))
    add(made, "--pp LIST", "stages that share the layers (pipeline parallel)" + several, cli.counts, default=(1,))
    about = "GPUs that share the experts; where they are more than --tp, each --tp of them have sequences of their own"
    add(made, "--ep LIST", about + several, cli.counts, default=(1,))
    add(made, "--prompt N", "tokens of a prompt (default: 2048)", cli.positive_int, default=2048)
    about = "tokens with which all prompts begin, and which the cache holds already (default: 0)"
    add(made, "--prefix N", about, cli.whole_number, default=0)
    about = "tokens of an answer (default: 512)"
    add(made, "--output N", about, cli.positive_int, default=512, dest="output_tokens")
    about = "prompt tokens that go through at once, at most; a prompt is never split (default: 8192)"
    add(made, "--step-tokens N", about, cli.positive_int, default=8192)
    about = "of weights and products: bf16 (default), fp8, nvfp4 or another of `gpu product`"
    add(made, "--precision NAME", about, default="bf16")
    add(made, "--cache-dtype FORMAT", "of the key-value cache: bf16 (default) or fp8", default="bf16")
    add(made, "--skew X", "power by which tokens crowd on few experts (default: 0)", float, default=0.0)
    about = "constants of products that `accelsim calibrate` fitted (default: those that ship, if they do)"
    add(made, "--calibration FILE", about)
    about = "draw the throughput of a sweep over the time per token: FILE.png or FILE.svg"
    made.add_argument("-o", "--plot", metavar="FILE", dest="output", help=about)
    add(made, "--html FILE", "write one page to open in a browser and explore, of a sweep")
    _add_stack(made)


def _add_precision(made: argparse.ArgumentParser) -> None:
    about = "bf16, fp8, fp8_block, int8, int8_wo, int4_wo, nvfp4 or another (default: fp8)"
    add(made, "--precision NAME", about, default="fp8")


def _add_stack(made: argparse.ArgumentParser) -> None:
    about = (
        "software whose kernels are meant, such as vllm, or as the answer names it (default: all that were measured)"
    )
    add(made, "--stack NAME", about, default="")
    add(made, *_MIG)
    add_forms(made)


def _add_validate(made: argparse.ArgumentParser) -> None:
    about = "timeloop, sparseloop, scalesim: their records; gemmini, tileflow: cycles of RTL; else: times of kernels"
    choices = ("timeloop", "sparseloop", "scalesim", "gemmini", "tileflow", "gemm", *KERNELS)
    add(made, "WHAT", about, choices=choices)
    add(made, "paths", "records, or folders of them, instead of the usual ones", nargs="*", metavar="PATH")
    add(made, "--every", "print every figure, however many there are")
    about = "gemmini: our best mapping of each tuned layer too, searched for SECONDS each"
    add(made, "--best SECONDS", about, cli.seconds)
    add(made, "-o DIR", "gemmini, tileflow, gemm, sparseloop: write JSON, plots and, but for sparseloop, the report")
    add_forms(made)
    group = made.add_argument_group("gemm", "measured against predicted times of matrix products on a GPU")
    add(group, "--gpu GPU", "the GPU that was measured (default: what the table says)")
    about = "number format of the rows of which the table does not say it by a name that is known"
    _add_prediction(group, about, _L2_OF_TABLE)


def _add_prediction(made: Made, dtype: str = "number format (default: fp16)", l2: str = "") -> None:
    """Add what a prediction of kernels is of."""
    add(made, *_MIG)
    _add_calibration(made)
    _add_dtype(made, dtype, l2)


def _add_calibration(made: Made) -> None:
    about = "constants that `accelsim calibrate` fitted, or `shipped` for those that come with accelsim "
    add(made, "--calibration FILE", about + "(default: uncalibrated)")


_LETTERS = "tn, nn, nt, tt, as in names of kernels: weights t (K is contiguous) or n (N is), then inputs n (K) or t (M)"


def _add_layout(made: Made, about: str, choices: Sequence[str]) -> None:
    add(made, "--layout", about, choices=choices, default=choices[0])
    about = "cuBLAS from 11 on (default), or before it: tensor cores in FP16 for multiples of 8 alone (Volta, Turing)"
    add(made, "--library", about, choices=LIBRARIES, default=LIBRARIES[0])


def _add_dtype(made: Made, dtype: str, l2: str = "") -> None:
    usual = (
        "what L2 holds when a kernel starts: what fits of the activations and of six layers' weights in turn "
        "(default), nothing, or what fits of the kernel's own operands and results"
    )
    add(made, "--dtype FORMAT", dtype, cli.number_format)
    add(made, "--l2", l2 or usual, choices=L2_STATES, default=L2_STATES[0])


def refuse_gpu_options(arguments: argparse.Namespace) -> None:
    """Refuse options that mean nothing on a machine that is no GPU; raises AccelsimError if there is one."""
    for name, usual in _GPU_OPTIONS.items():
        if getattr(arguments, name) != usual:
            option = "pass" if name == "training_pass" else name
            raise AccelsimError(f"--{option}: {arguments.arch} is no GPU; `accelsim gpus` shows those that ship")


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
