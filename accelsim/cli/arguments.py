"""Arguments of the command line: a table of all commands, how it is read, and what of it contradicts itself.

A block of the table is a command: its name, the module of `accelsim.cli` that has its function, and what it does. Each
row below is an argument, such as `--seed N whole_number = 0`, and after two blanks what it is for. `[N]` may be left
out, `N...` are several; `{a,b}` are choices, or a table of `accelsim.gpu`; then follow a function of `accelsim.cli`
that reads the value, where it is not that of `READERS`, `repeated` or `required`, `= 0` the default, and `as name` the
attribute, where it has another name. A row without a text names arguments of `SHARED`, or places such as `ARCH`.
`# title: text` begins a group of arguments; `> text` ends the help.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from accelsim import __version__, cli, gpu

PLOTS = (
    *("architecture", "mapping", "energy", "reuse", "time", "front"),
    *("histogram", "density", "within", "stacks", "compare", "network"),
)
READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("N", "M", "K"), cli.positive_int), **dict.fromkeys(("S", "SECONDS"), cli.seconds),
    "LIST": cli.counts, "X": float, "SIZE": cli.memory, "SHARE": cli.share, "INCHES": cli.inches, "LIMIT": cli.limit,
    "DIMS": cli.dimensions, "COLUMNS": cli.columns, "NAME=VALUE": cli.override,
}  # fmt: skip
"""What reads a value, by its name in the usage."""
SHORT = {
    **{"--set": "-s", "--layer": "-l", "--constraints": "-c", "--objective": "-O"},
    **{"--workers": "-j", "--quiet": "-q"},
}
"""Short forms of options, the same for all commands that have the option."""
SHARED = """
    --json  print JSON instead of the report
    --csv FILE  write the tables of the report as CSV: the first to FILE, others to FILE_NAME
    --mig PROFILE  a MIG slice of the GPU, such as 1g.10gb
    --set NAME=VALUE repeated as overrides  override a parameter of the input files; may be repeated
    --workers N  threads (default: all cores)
    --calibration FILE  constants that `accelsim calibrate` fitted, or `shipped` for those that come with accelsim
        (default: uncalibrated)
    --stack NAME = ''  software whose kernels are meant, such as vllm, or as the answer names it (default: all that
        were measured)
    --no-cache  search anew, and keep nothing (`accelsim cache` says where)
    --batch N  set the workload's parameter `batch`
    --sequence N  set the workload's parameter `seq` or, where it decodes with a cache of tokens, `kv`
    --constraints FILE  what the mappings must look like besides being valid
    --quiet  print no progress
    --layer NAME  the layer that is mapped, where the workload has several
    --l2 {L2_STATES} = rotating  what L2 holds when a kernel starts: what fits of the activations and of six layers'
        weights in turn (default), nothing, or what fits of the kernel's own operands and results
    --dtype FORMAT number_format  number format (default: fp16)
    --uneven  let a level keep its tensors at different loops of the nest, where that is better
    -o DIR  write mapping.yaml, result.json and figures there
    --html FILE  write one page to open in a browser and explore (of one layer)
    --library {LIBRARIES} = cublas11  cuBLAS from 11 on (default), or before it: tensor cores in FP16 for multiples
        of 8 alone (Volta, Turing)
    --samples N = 100000  mappings that are drawn at random (default: 100,000)
    --seed N whole_number = 0  seed of the mappings drawn (default: 0)
    --seconds S = 10  time for the searches: the best mappings, the front, and those within 5 % of the best
        (default: 10)
    --gpu GPU required
    --precision NAME = fp8  bf16, fp8, fp8_block, int8, int8_wo, int4_wo, nvfp4 or another (default: fp8)
    --skew X = 0  power by which tokens crowd on few experts (default: 0)
"""
COMMANDS = """
map  mapping  find the best mapping of a layer, or of each layer of a network, and prove that it is
    ARCH  a machine, or several such as eyeriss,nvdla: a row for each
    WORKLOAD
    --set NAME=VALUE repeated as overrides  override a parameter of the input files, or try several values, such as
        glb=64KiB,128KiB
    --layer NAME  map this layer only
    --batch N sizes  set the workload's parameter `batch`; several such as 1,8,64: a row for each
    --sequence N sizes  set the workload's parameter `seq` or, where it decodes with a cache of tokens, `kv`;
        several such as 1,8,64: a row for each
    --constraints FILE  what the mapping must look like besides being valid; several between commas: a row for each;
        none: nothing
    --objective WHAT  energy (default), cycles, outer_words, edp, several such as energy,cycles, a product such as
        'energy^2*cycles', or a weighted sum such as 'energy + 0.5*cycles' (energy in pJ)
    --limit LIMIT repeated  the most that a mapping of a layer may cost, such as 'cycles <= 1.2e6', 'energy <= 3 uJ'
        or 'outer_words <= 40000'; may be given several times
    --top N  list the mappings of the N best values
    --within SHARE  count and list all mappings within a share of the best, such as 1% or 0.01
    --uneven  look at uneven mappings to the end: a level keeps its tensors at different loops (default: a few seconds,
        or as long as --seconds, after the proof about even ones)
    --even  look at even mappings alone: a level keeps all its tensors at one loop
    --imperfect [DIMS]  let loops leave remainders: over all dimensions, or over some, such as M,K
    --pad [DIMS]  try larger bounds with better factors: of all dimensions, of some, such as P,Q, or some bounds,
        such as P=56,Q=60
    --why  solve again with half, a tenth more and twice of each buffer, bandwidth, column and row: what the optimum
        depends on (of one layer; of even mappings without --uneven)
    --one-mapping  with several sizes, such as --sequence 128,512 or --batch 1,8: the one mapping of each layer that
        loses least to the own optimum of each size
    --pareto COLUMNS  find all mappings of one layer that no other one beats in two or three of energy, cycles,
        outer_words (at the outermost level) and capacity:LEVEL, such as energy,cycles
    --search {auto,exact,random,exhaustive} = auto  auto (default): exact, or random with --mappings
    --mappings N  draw N mappings at random, or stop after N
    --seconds S  stop after S seconds; an exact search then says how near the optimum is (default: 5 for a random
        search without --mappings, else no limit)
    --memory SIZE  the tables of an exact search take at most SIZE, such as 500 MiB (default: 2 GiB)
    --seed N whole_number  seed of the random search (default: 0)
    --workers -o --json --csv --html
    --plot FILE picture  draw the rows of several values or machines: FILE.png or FILE.svg
    --no-cache
    --quiet  print the headline only, and no progress
    # on a GPU: ARCH is a GPU: the fastest kernel tiling of each layer
    --mig --calibration
    --dtype FORMAT number_format  number format (default: fp16 for operands of 16 bit, and so on)
    --l2
    --pass {PASSES} = forward as training_pass  the pass of training (default: forward)
    --attention {ATTENTION} = full  attention as one kernel in which tokens see all keys (default) or those before
        them, as decoders do, or as two products
    --layout {nhwc,nchw,tn,nn,nt,tt} = nhwc  order in memory: nhwc (default), nchw, whose convolutions are turned,
        or of all products tn, nn, nt, tt, as in names of kernels: weights t (K is contiguous) or n (N is), then
        inputs n (K) or t (M)
    --library

fuse  mapping  find which consecutive layers of a network to fuse, and how
    ARCH WORKLOAD --set --batch --sequence
    --chain LAYERS  look at these layers only, which follow each other, such as b5_expand,b5_depthwise,b5_project
    --longest N  fuse chains of at most N layers
    --objective WHAT  energy (default), cycles, edp or energy^2*cycles
    --seconds S  look for nothing better after S seconds; the report then says how near the optimum is
    --workers
    -o DIR  write fusion.json and a figure there
    --json --csv --no-cache
    --quiet  print the table only, and no progress

spread  plotting  count all mappings of a layer, and show how their energy is spread
    ARCH WORKLOAD --set
    --layer NAME  look at this layer only, or at several, such as conv1,conv2
    --constraints --no-cache --samples --seed --seconds --workers --quiet
    -o DIR  write census.json there
    --json --csv --html

bound  plotting  show the least energy, cycles or outer words of a layer for every size of a buffer, and its knees
    ARCH WORKLOAD --set --layer
    --level NAME  the buffer (default: the outermost that has a size)
    --objective {energy,cycles,outer_words} = energy  what is made small (default: energy)
    --constraints --uneven
    --seconds S  stop after S seconds, with what was found
    --workers
    -o FILE picture  draw it there: FILE.png or FILE.svg
    --json --csv --quiet

eval  evaluating  evaluate one mapping, such as one that `map -o` wrote
    ARCH WORKLOAD MAPPING --set --layer -o --json --csv

compare  evaluating  show two results, or two mappings, beside each other; differences first
    NAME... as files  two folders or files that `map -o` or `eval -o` wrote, or ARCH WORKLOAD and two mappings
    --set --layer --json --csv

explain  evaluating  walk a small loop nest step by step and show which words move, and why
    ARCH WORKLOAD
    [MAPPING]  default: the best one that a short search finds
    --set --layer
    --tensor NAME  show the tiles of this tensor only
    --level NAME  show the tiles at this level only
    --steps N whole_number = 40  steps shown of each tile (default: 40)
    --json

plot  plotting  draw a mapping, a machine, a search or all valid mappings as a picture for a paper
    KIND {PLOTS}  what to draw: architecture, mapping, energy, reuse, time, front, histogram, density, within,
        stacks, compare, network
    ARCH  compare: or several, such as eyeriss,nvdla
    [WORKLOAD]  all kinds but `architecture` need one
    --set
    --layer NAME  the layer that is drawn, where the workload has several; compare: or several, such as conv1,conv2
        (default: all)
    --constraints
    --mapping FILE  energy, reuse, mapping, time: this mapping instead of the best one
    --over {cycles,outer_words,utilization}  density: what the energy is drawn over
    --batch --sequence --no-cache --samples --seed --seconds --workers --quiet
    --width INCHES = 6.4  width of the picture (default: 6.4; one column of a two-column page: 3.4)
    -o PATH  FILE.png, FILE.svg, or a folder for both (default: KIND_ARCH_LAYER.png)
    --json  print what is drawn as JSON, and write no picture without -o

roofline  evaluating  show which layers compute limits and which memory, at best and as mapped
    ARCH
    WORKLOAD... as workloads  files, or names that `accelsim list` shows
    --set --batch --sequence --constraints
    --objective WHAT  what mappings make small, as for `map` (default: energy)
    --workers
    -o FILE picture  draw it there: FILE.png or FILE.svg
    --json --csv --no-cache --quiet
    # on a GPU: ARCH is a GPU: its memories, and the fastest kernel of each layer
    --mig --calibration --dtype --l2

explore  plotting  map networks onto many designs of a machine, and find the best of them
    SWEEP  a sweep file, or the folder of one, to look at what is there
    -o DIR  where results are kept, and taken up again (default: NAME_results)
    --workers N  processes (default: all cores)
    --scheduler ADDRESS  let a Dask cluster do the work, such as tcp://host:8786
    --joint  prove the front over designs and mappings together
    --within SHARE  with --joint: points may miss this share of energy and time (default: 0)
    --where EXPR  only designs that meet a condition, such as "pe.x >= 8 and cycles < 1e6"
    --front  only designs that no other one beats
    --plot KIND {front,sensitivity}  draw front, sensitivity
    --picture FILE picture  FILE.png or FILE.svg of --plot (default: KIND_NAME.png)
    --html FILE  write one page to open in a browser and explore
    --json --csv
    --quiet  print the summary only, and no progress

verify  evaluating  check a result.json that `map` wrote: its mapping, its numbers and its certificate
    RESULT  result.json, or the folder that holds it
    --force  go on although an input file has changed
    --seconds S  stop each search that derives a bound after S seconds
    --workers

check  inspecting  read input files and report every mistake in them
    FILE... as files
    --set

import  inspecting  turn files of other tools into files of accelsim, and name what is not carried over as it is
    FILE... as files  one model (.onnx, .pt2 of torch.export.save), or files of one tool
    --from {timeloop,zigzag,stream,accelforge,scalesim} as tool  the files' tool
    --set --batch --sequence
    -o PATH  file for the workload of a model, or folder (default: print)
    > Timeloop's files (v0.3, v0.4, parsed-processed-input.yaml, mappings, constraints, ERT and ART) are given
        together, as Timeloop takes them, and so are those of ZigZag, AccelForge, SCALE-Sim. A template reads files
        of the folders of these files only; --set gives its variables values.

export  evaluating  write a mapping as a file of AccelForge, or with its machine and its layer as files of Timeloop
    TOOL {timeloop,accelforge}  timeloop: v0.4, and the mapping as in v0.3; accelforge: the mapping alone, for its
        own ARCH and WORKLOAD
    FILE... as files  the folder that `map -o` or `eval -o` wrote, or ARCH WORKLOAD MAPPING
    --layer NAME  the layer that is meant, where there are several
    -o DIR  write there (default: the folder `timeloop` in the first)
    --set

replay  evaluating  hold Timeloop's statistics of a mapping against ours, and against our optimum
    FILE... as files  Timeloop's inputs, as `import` takes them, and one *.stats.txt
    --seconds S = 20  stop looking for the optimum after S seconds (default: 20)
    --set --json --csv

cache  inspecting  show where results are kept and how many there are, or remove them
    --clear  remove all of them
    --json  print JSON

doctor  inspecting  show versions, extras that are installed, and where results and compiled kernels are kept
    --json --csv

completion  inspecting  print what lets a shell complete commands and options
    SHELL {bash,zsh}  such as: accelsim completion bash > ~/.local/share/bash-completion/completions/accelsim

energy  inspecting  show the energy of each action of each component, with its source
    ARCH --set --json --csv

list  inspecting  name the files that come with accelsim
    [{arch,gpus,systems,workloads,decoders,mappings,constraints,energy_tables,sweeps}] as kind
    --json --csv

gpus  gpus  list the GPUs that come with accelsim, or show one with the source of each figure
    [GPU]  show this one: a name, a device name, or a file
    --mig --json --csv

calibrate  gpus  fit the eight constants of a GPU's kernel model to measured matrix products
    MEASURED  CSV with the columns M, N, K, dtype, time_us_median
    --gpu GPU required  the GPU that was measured
    --dtype FORMAT number_format  fit the rows of this number format, such as bf16
    --l2 {L2_STATES} = rotating  what L2 held where the column l2 does not say it (default: rotating)
    --source TEXT  where the measurements come from, to be kept in the file
    -o FILE  write the calibration there
    --json --csv

gpu  gpus  advise on the sizes of a matrix product, or compare a profile with predictions

gpu advise  gpus  show what tiles and waves cost a matrix product, and what rounding its sizes up would bring
    M N K --gpu --mig --calibration --dtype --l2
    --layout {LAYOUTS} = tn  order in memory: tn, nn, nt, tt, as in names of kernels: weights t (K is contiguous) or
        n (N is), then inputs n (K) or t (M)
    --library
    --tile ROWSxCOLUMNS = ''  try this tile alone, such as 256x128, with K in one part
    --sweep {m,n,k}  the dimension that the chart varies (default: n)
    -o FILE picture  draw throughput over one dimension: FILE.png or FILE.svg
    --json --csv

gpu operator  gpus  time an operator that memory limits, such as relu or layer_norm, from cold memory
    OPERATOR GPU
    --elements N = 1048576  of the input (default: 1048576)
    --dtype --calibration --mig --json --csv

gpu attention  gpus  time fused attention: of one new token (decode) or of more (prefill), after cached ones
    GPU
    --batch N = 1  sequences (default: 1)
    --tokens N = 1  new tokens of each (default: 1)
    --cached N whole_number = 0  tokens before them (default: 0)
    --heads N required  query heads
    --kv-heads N  key-value heads (default: as many)
    --head-size N = 128  words of a head (default: 128)
    --window N  keys that a token sees (default: all)
    --latent  latent attention, as in DeepSeek: a head of 128 words, a latent vector of 512
    --dtype FORMAT = bf16  of queries: bf16 (default), fp16 or fp8
    --cache-dtype FORMAT  of keys and values (default: as the queries)
    --stack --mig --json --csv

gpu moe  gpus  time both products of a mixture of experts on one GPU, with what lies between
    GPU
    --tokens N required  of all GPUs together
    --hidden N required  width of a token
    --inter N required  width between the products, on this GPU
    --experts N required  of all GPUs together
    --top N required  experts of a token
    --ep N = 1  GPUs that share the experts (default: 1)
    --skew X = 0  power by which tokens crowd on few experts, such as 1.2 (default: 0, equal shares)
    --plain  one product before the activation instead of two (gated)
    --precision --stack --mig --json --csv

gpu product  gpus  time a product in a narrow format, with the pass that quantises its inputs
    GPU M N K --precision --stack --mig --json --csv

gpu collective  gpus  time an all-reduce, all-gather, reduce-scatter or all-to-all of the GPUs of a node
    GPU
    OPERATION  all_reduce, all_gather, reduce_scatter or all_to_all
    --gpus N = 8  how many (default: 8)
    --size SIZE required  the whole message, such as 16 MiB
    --one-shot  an all-reduce of the stack's own kernels, such as those of vLLM, instead of NCCL
    --stack --mig --json --csv

gpu serve  gpus  time to first token, time per output token, throughput, memory and energy of a decoder on several GPUs
    MODEL  a decoder: a file, a name that `accelsim list decoders` shows, or Hugging Face's config.json
    GPU
    --batch LIST = 1  sequences at once; several, such as 1,2,4, make a sweep (default: 1)
    --tp LIST = 1  GPUs that share each layer (tensor parallel); several, such as 1,2,4, make a sweep (default: 1)
    --pp LIST = 1  stages that share the layers (pipeline parallel); several, such as 1,2,4, make a sweep (default:
        1)
    --ep LIST = 1  GPUs that share the experts; where they are more than --tp, each --tp of them have sequences of
        their own; several, such as 1,2,4, make a sweep (default: 1)
    --prompt N = 2048  tokens of a prompt (default: 2048)
    --prefix N whole_number = 0  tokens with which all prompts begin, and which the cache holds already (default: 0)
    --output N = 512 as output_tokens  tokens of an answer (default: 512)
    --step-tokens N = 8192  prompt tokens that go through at once, at most; a prompt is never split (default: 8192)
    --precision NAME = bf16  of weights and products: bf16 (default), fp8, nvfp4 or another of `gpu product`
    --cache-dtype FORMAT = bf16  of the key-value cache: bf16 (default) or fp8
    --skew
    --calibration FILE  constants of products that `accelsim calibrate` fitted (default: those that ship, if they
        do)
    -o FILE picture as output  draw the throughput of a sweep over the time per token: FILE.png or FILE.svg
    --html FILE  write one page to open in a browser and explore, of a sweep
    --stack --mig --json --csv

gpu compare  gpus  hold a profile of kernels against what is predicted for them
    PROFILE  CSV of Nsight Systems or Compute, or with M, N, K, time; or trace.json of PyTorch's profiler
    --gpu
    --workload WORKLOAD  layers that NVTX ranges name, or that have the sizes of PyTorch's products
    --set NAME=VALUE repeated as overrides  override a parameter of the workload; may be repeated
    --batch --sequence --mig --calibration
    --dtype FORMAT number_format  number format (default: what the profile says, else fp16)
    --l2 {L2_STATES}  what L2 holds when a kernel starts (default: what the profile says; nothing in Nsight Compute,
        else rotating)
    --json --csv

schema  inspecting  write JSON Schemas of the input files, for editors, and of result.json
    [{architecture,gpu,system,workload,decoder,mapping,constraints,energy_table,sweep,result}] as kind  print the
        schema of this kind of file
    -o DIR  write KIND.schema.json there, of all kinds if none is given

validate  evaluating  hold our numbers against other tools' and against measured matrix products
    WHAT {timeloop,scalesim,gemm}  timeloop, scalesim: their records; gemm: times of matrix products on a GPU
    [PATH...] as paths  files of records instead of the usual ones; timeloop: or folders
    --every  print every figure, however many there are
    -o DIR  gemm: write the report, JSON and plots
    --json --csv
    # gemm: measured against predicted times of matrix products on a GPU
    --gpu GPU  the GPU that was measured (default: what the table says)
    --mig --calibration
    --dtype FORMAT number_format  number format of the rows of which the table does not say it by a name that is known
    --l2 {L2_STATES} = rotating  what L2 held where the column l2 does not say it (default: rotating)
"""
_ROW = re.compile(
    r"""(?P<option>--?[\w-]+)?\ ?
    (?P<optional>\[)?(?P<value>\w[\w=]*)?(?P<several>\.\.\.)?\]?\ ?(?:\{(?P<choices>[\w,]+)\})?\]?
    (?:\ (?P<reader>(?!repeated|required|as)\w+))?(?P<repeated>\ repeated)?(?P<required>\ required)?
    (?:\ =\ (?P<default>\S+))?(?:\ as\ (?P<dest>\w+))?""",
    re.VERBOSE,
)


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = cli.Parser(
        prog="accelsim",
        allow_abbrev=False,
        description="Find and evaluate mappings of deep-learning layers onto accelerators.",
        epilog="ARCH, WORKLOAD, MAPPING and constraints are files, or names that `accelsim list` shows. "
        "Exit codes: 0 done, 1 no valid mapping, 2 bad input.",
    )
    parser.add_argument("--version", action="version", version=f"accelsim {__version__}")
    parser.set_defaults(parser=parser)
    made: dict[str, argparse.ArgumentParser] = {"": parser}
    below: dict[str, Any] = {}
    for block in COMMANDS.split("\n\n"):
        head, *rows = _rows(block)
        words, module, about = head.split("  ")
        parent, _, name = words.rpartition(" ")
        if parent not in below:
            metavar = "TASK" if parent else "COMMAND"
            below[parent] = made[parent].add_subparsers(metavar=metavar, required=True, parser_class=cli.Parser)
        described = about[0].upper() + about[1:] + "."
        made[words] = command = below[parent].add_parser(name, help=about, description=described, allow_abbrev=False)
        command.set_defaults(command=f"{words.replace(' ', '_')}_command", module=module, parser=command)
        group: argparse._ActionsContainer = command
        for row in rows:
            if row.startswith("> "):
                command.epilog = row.removeprefix("> ")
            elif row.startswith("# "):
                group = command.add_argument_group(*row.removeprefix("# ").split(": ", 1))
            else:
                names = row.split()
                for each in names if all(name in _SHARED or name.isupper() for name in names) else [row]:
                    _add(group, _SHARED.get(each, each))
    return parser


def _rows(block: str) -> list[str]:
    """Rows of a block of a table; one that is too long goes on in the next line, which begins further in."""
    return [row.strip() for row in block.strip().replace("\n        ", " ").split("\n")]


_SHARED = {row.split()[0]: row for row in _rows(SHARED)}


def add_forms(made: argparse.ArgumentParser) -> None:
    """Add the other forms of a report: JSON, and its tables as CSV."""
    for name in ("--json", "--csv"):
        _add(made, _SHARED[name])


def _add(made: argparse._ActionsContainer, row: str) -> None:
    """Add an argument as its row says; `-o` is `--output` too, and a picture `--plot`."""
    said, _, about = row.partition("  ")
    found = _ROW.fullmatch(said)
    assert found is not None, row
    option, value, choices, dest = found["option"], found["value"], found["choices"], found["dest"]
    more: dict[str, Any] = {"help": about.replace("%", "%%") or None}
    names = [option or dest or value.lower()]
    if option in SHORT:
        names.insert(0, SHORT[option])
    if option == "-o":
        names += ([] if dest else ["--output"]) + (["--plot"] if found["reader"] == "picture" else [])
        made.set_defaults(**({"writes_folder": True} if value == "DIR" else {}))
    if option and not (value or choices):
        made.add_argument(*names, action="store_true", **more)
        return
    read = getattr(cli, found["reader"]) if found["reader"] else READERS.get(value, str)
    more |= {"metavar": value, "type": read, "nargs": "?" if found["optional"] else None}
    if found["several"]:
        more["nargs"] = "*" if found["optional"] else "+"
    if choices:
        more["choices"] = PLOTS if choices == "PLOTS" else getattr(gpu, choices, None) or tuple(choices.split(","))
    if found["default"]:
        more["default"] = read(found["default"].strip("'"))
    if found["repeated"]:
        more |= {"action": "append", "default": []}
    if option:
        more |= {"dest": dest, "required": bool(found["required"]), "const": "all" if found["optional"] else None}
    made.add_argument(*names, **more)


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
        try:
            if not whole or tool_of(whole) is None:
                error.parser.error(str(error))
            parsed, unknown = make_parser().parse_known_args([*words, *(whole for _ in error.names)])
        finally:
            error.parser.told = False
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


def refuse_gpu_options(arguments: argparse.Namespace) -> None:
    """Raise AccelsimError where an option is given that means nothing on a machine that is no GPU."""
    why = f"{arguments.arch} is no GPU; `accelsim gpus` shows those that ship"
    names = ("mig", "calibration", "dtype", "l2", "training_pass", "attention", "layout", "library")
    cli.refuse(arguments, why, *names)


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
    if parsed.even and parsed.uneven:
        parsed.parser.error("argument --even: not allowed with --uneven")
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
