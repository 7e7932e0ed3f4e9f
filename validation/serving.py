"""Measured serving of language models beside ours: `python -m validation.serving [FILE ...] [--json] [--csv FILE]`.

Without files, those of `data/gpu/serving` in ../shared or ACCELSIM_SHARED. What a file is, its columns say: runs with
times per token and to the first one (aiconfigurator's `silicon_sample.csv`), published figures, layers, or requests.
Errors are medians of |predicted / measured - 1|, also of a plain roofline: the same steps, each operator at the peak
of the data sheet, or at its bandwidth.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import Gpu, find_gpu
from accelsim.gpu.decoder import Decoder, load_decoder
from accelsim.gpu.fitted import family
from accelsim.gpu.gemms import Gemms, Setup, time_gemms
from accelsim.gpu.serving import GAPS_US, Request, Serving, serve
from accelsim.gpu.steps import Split, misfit
from accelsim.gpu.work import serving_mode
from accelsim.inputs.errors import AccelsimError
from accelsim.show.table import Column, Piece, Table, dim, heading
from validation.command import Answer, run_alone
from validation.replay import Replayed, replay
from validation.study import reference_paths

MODELS = {
    r"(Meta-)?Llama-3[.\d]*-70B": "llama_70b",
    r"(Meta-)?Llama-3[.\d]*-8B": "llama",
    r"MiniMax-M2(\.5)?$|MiniMax-M2(\.5)?-": "minimax_m2",
    r"DeepSeek-(R1|V3)(-(?!Distill).*)?$": "deepseek_v3",
    r"Qwen3\.5-397B": "qwen3_5_397b",
    r"Qwen3-235B": "qwen3_235b",
    r"Qwen3-30B-A3B": "qwen3_moe",
    r"Qwen3-32B": "qwen3_32b",
    r"gpt-oss-120b": "gpt_oss_120b",
    r"Kimi-K2": "kimi_k2",
    r"Mixtral-8x7B": "mixtral",
}
"""Decoders by what the names of their models on Hugging Face have behind the `/`."""
PRECISIONS = {"fp4": "nvfp4", "int4": "int4_wo", "": "bf16"}
"""Of runs, where their name is not ours."""
_BLOCKS = ("deepseek_v3", "minimax_m2", "qwen3_5_397b", "qwen3_235b")
"""Models whose checkpoints in FP8 have a scale for each 128 x 128 weights."""
DRAWN = 0.9
"""Average length over that of its name where a client draws from 80 to 100 % of it (InferenceX, `random-range-ratio`
0.8): of prompts and outputs of 1024 and 8192 tokens."""
DREW = (1024, 8192)
CLAIMS = (
    "Others claim: aiconfigurator 7.8 % of the time per token, of vLLM 11.9 %, of the first token 17 to 22 %, mean "
    "errors of its own runs (arXiv 2601.06288; memory); LLMServingSim 0.2 to 1.7 % of the mean time per token of vLLM, "
    "with kernels profiled on the same GPU (docs/validation.md of its repository)"
)
_FEW, _LEAST_OUTPUT, _OTHER = 16, 900, "vllm"
"""Most sequences of a copy, and least tokens of output, of runs by which gaps between kernels are judged; a stack with
gaps, which shows how many kernels a token has."""


@dataclass(frozen=True, slots=True)
class Run:
    """Sequences that a server had in flight, and what it took."""

    model: str  # as its table has it
    gpu: Gpu
    decoder: Decoder
    stack: str
    split: Split
    request: Request
    measured: Mapping[str, float]  # by quantity, of `QUANTITIES`


QUANTITIES: Mapping[str, tuple[str, Callable[[Serving], float]]] = {
    "token_s": ("time per token", lambda point: point.token_s),
    "tokens_per_s_gpu": ("tokens/s/GPU", lambda point: point.tokens_per_s_gpu),
    "first_token_s": ("first token", lambda point: point.first_token_s),
}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def split_of(row: Mapping[str, str], experts: bool) -> Split:
    """Split of a run, and its sequences in flight.

    Some rows have the product of tensor and expert parallelism as either of them, and of data parallel attention the
    sequences of a copy. Then the larger of the sides of the experts, or what divides a node of eight, is the GPUs.
    """
    tp, copies, inside, ep = (
        int(row[name] or 0) for name in ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    )
    batch = int(row["batch_size"])
    if copies > 1:
        gpus = tp if tp > 1 else max(inside, ep)
        every = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
        return Split(int(every[1]) if every else batch * copies, tp=1, ep=gpus)
    tp = tp if tp <= 8 else math.isqrt(tp)
    return Split(batch, tp=tp, ep=min(max(ep, 1), tp) if experts else 1)


def precision_of_run(gpu: Gpu, model: str, name: str) -> str:
    """Our name of the precision of a run."""
    if model.startswith("gpt_oss"):
        return "w4a8_mxfp4_mxfp8" if "fp4" in gpu.operations_per_sm_cycle else "w4a16_mxfp4"
    if name == "fp8" and model in _BLOCKS:
        return "fp8_block"
    return PRECISIONS.get(name, name)


def read_runs(rows: Sequence[Mapping[str, str]]) -> tuple[list[Run], list[str]]:
    """Runs of a table, and what is not compared."""
    found, left = [], dict[str, int]()
    for row in rows:
        name, gpu = row["model_path"].rpartition("/")[2], find_gpu(row["system"])
        model = next((each for pattern, each in MODELS.items() if re.match(pattern, name)), None)
        if model is None or gpu is None:
            why = f"no decoder of {name} ships" if gpu else f"no GPU {row['system']} ships"
            left[why] = left.get(why, 0) + 1
            continue
        decoder = load_decoder(model)
        split = split_of(row, decoder.experts is not None)
        if why := misfit(decoder, split):
            left[f"{name}: {why}"] = left.get(f"{name}: {why}", 0) + 1
            continue
        prompt, output = int(row["isl"]), int(row["osl"])
        if prompt in DREW and output in DREW:
            prompt, output = round(DRAWN * prompt), round(DRAWN * output)
        precision = precision_of_run(gpu, model, row["precision"])
        request = Request(prompt, output, precision, cache_bytes=2.0 if precision == "bf16" else 1.0)
        first, token = float(row["silicon_ttft_ms"]) * 1e-3, float(row["silicon_tpot_ms"]) * 1e-3
        rate = split.batch * output / (first + (output - 1) * token) / split.gpus
        measured = {"token_s": token, "tokens_per_s_gpu": rate, "first_token_s": first}
        found.append(Run(name, gpu, decoder, row["backend"], split, request, measured))
    return found, [f"{count} runs: {why}" for why, count in left.items()]


def predicted(runs: Sequence[Run], *, roofline: bool = False) -> list[Serving]:
    """What each run takes; those that differ in their splits alone are timed together."""
    together: dict[tuple[Any, ...], list[int]] = {}
    for at, run in enumerate(runs):
        together.setdefault((run.gpu, run.decoder, run.stack, run.request), []).append(at)
    found: dict[int, Serving] = {}
    for (gpu, decoder, stack, request), places in together.items():
        splits = [runs[at].split for at in places]
        mode = serving_mode(gpu)
        found.update(
            zip(
                places,
                serve(gpu, decoder, request, splits, mode, "" if roofline else stack, roofline=roofline),
                strict=True,
            )
        )
    return [found[at] for at in range(len(runs))]


def errors(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Median errors by quantity and group, ours and a roofline's."""
    ours, least = predicted(runs), predicted(runs, roofline=True)
    groups: dict[tuple[str, str], list[int]] = {}
    for at, run in enumerate(runs):
        deepseek = "DeepSeek" in run.model
        named = [("all", "all"), ("all", "DeepSeek" if deepseek else "all but DeepSeek"), ("model", run.model)]
        named += [("GPU", run.gpu.name), ("stack", run.stack), ("precision", run.request.precision)]
        for kind, name in named:
            groups.setdefault((kind, name), []).append(at)
    rows = []
    for (kind, name), places in sorted(groups.items(), key=lambda item: (item[0][0] != "all", item[0])):
        row: dict[str, Any] = {"by": kind, "name": name, "runs": len(places)}
        for key, (_, of) in QUANTITIES.items():
            for who, points in (("", ours), ("roofline_", least)):
                ratio = np.array([of(points[at]) / runs[at].measured[key] for at in places])
                row[f"{who}{key}"] = float(np.median(np.abs(ratio - 1)))
                row[f"{who}{key}_ratio"] = float(np.median(ratio))
        rows.append(row)
    return rows


def gaps(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Gap between kernels by stack that fits runs of few sequences, by where it is fitted; and errors it is worth.

    Each model, GPU and precision counts once. The gaps that ship are those of `blackwell`; Hopper judges them.
    """
    ours = predicted(runs)
    without, other = (predicted([replace(run, stack=stack) for run in runs]) for stack in ("", _OTHER))
    rows = []
    for name in sorted({run.stack for run in runs}):
        row: dict[str, Any] = {"stack": name, "ships_us": GAPS_US[name]}
        for generation in ("blackwell", "hopper"):
            groups: dict[tuple[str, str, str], list[float]] = {}
            errors_of: dict[str, list[float]] = {"without": [], "with": []}
            for run, none, some, own in zip(runs, without, other, ours, strict=True):
                if run.stack != name or not family(run.gpu).startswith(generation):
                    continue
                measured = run.measured["token_s"]
                errors_of["without"].append(abs(none.token_s / measured - 1))
                errors_of["with"].append(abs(own.token_s / measured - 1))
                if run.split.batch <= _FEW * run.split.copies and run.request.output >= _LEAST_OUTPUT:
                    kernels = (some.token_s - none.token_s) / GAPS_US[_OTHER]  # [s/us]
                    key = (run.model, run.gpu.name, run.request.precision)
                    groups.setdefault(key, []).append((measured - none.token_s) / kernels)
            if groups:
                row[f"{generation}_us"] = float(np.median([np.median(each) for each in groups.values()]))
                row |= {f"{generation}_{about}": float(np.median(each)) for about, each in errors_of.items()}
        rows.append(row)
    return rows


_LLAMA_2: Mapping[str, tuple[str, dict[str, Any]]] = {
    "llama2_7b": ("llama", {"kv_heads": 32, "ffn": 11008, "vocabulary": 32000}),
    "llama2_70b": ("llama_70b", {"vocabulary": 32000}),
}
"""Models of published figures as others that ship, and what differs."""
_MOST = 4096
"""Sequences in flight at the most load, of which as many run as fit."""
FIGURES: Mapping[str, tuple[str, bool, Callable[[Serving, Request], float]]] = {
    "tput": ("tokens/s, prompts together", False, lambda point, _: point.tokens_per_s),
    "ttft": ("first token [ms]", False, lambda point, _: 1e3 * point.first_token_s),
    "tpot": ("time per token [ms]", True, lambda point, _: 1e3 * point.token_s),
    "e2e": (
        "whole request [ms]",
        False,
        lambda point, of: 1e3 * (point.first_token_s + (of.output - 1) * point.token_s),
    ),
    "tokps": ("tokens/s of a sequence", False, lambda point, _: 1 / point.token_s),
    "tokens per second of all GPUs": ("tokens/s, most load", True, lambda point, _: point.tokens_per_s),
}
"""Published quantities: in words, whether requests arrive in flight, and what ours is."""


def published(rows: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Published figures, each beside ours."""
    found = []
    for row in rows:
        name, changes = _LLAMA_2.get(row["model"], (row["model"], {}))
        decoder, gpu = replace(load_decoder(name), **changes), find_gpu(row["gpu"])
        if gpu is None or row["quantity"] not in FIGURES:
            raise AccelsimError(f"{row['source']}: no GPU {row['gpu']} or quantity {row['quantity']} is known")
        words, in_flight, of = FIGURES[row["quantity"]]
        request = Request(
            int(row["prompt"]),
            int(row["output"]),
            row["precision"],
            cache_bytes=2.0 if row["precision"] == "bf16" else 1.0,
            in_flight=in_flight,
        )
        split = Split(_MOST if row["batch"] == "maximum" else int(row["batch"]), tp=int(row["tp"]))
        stack = next((each for each, mark in _STACKS.items() if mark in row["source"]), "")
        (point,) = serve(gpu, decoder, request, [split], serving_mode(gpu), stack)
        ours = of(point, request)
        measured = float(row["measured"])
        about = {"quantity": words, "source": row["source"], "model": row["model"], "gpu": gpu.name}
        sizes = {"batch": row["batch"], "prompt": request.prompt, "output": request.output, "tp": split.tp}
        found.append({**about, **sizes, "measured": measured, "predicted": ours, "error": ours / measured - 1})
    return found


_STACKS = {"trtllm": "TensorRT-LLM", "vllm": "vLLM"}
"""By stack, what the source of a figure says. TRT-LLM of 2023 and NIM replay no graphs that are known."""


def layers(rows: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Errors of the products of layers, which Vidur measured one by one in FP16, by GPU and product."""
    found = []
    for name in dict.fromkeys(row["gpu"] for row in rows):
        gpu, own = find_gpu(name), [row for row in rows if row["gpu"] == name]
        if gpu is None:
            raise AccelsimError(f"no GPU {name} ships")
        keys = ("tokens", "tp", "hidden", "ffn", "heads", "kv_heads")
        m, tp, hidden, ffn, heads, kv_heads = np.array([[float(row[key]) for key in keys] for row in own]).T
        sizes = {
            "qkv": ((heads + 2 * kv_heads) * hidden / heads / tp, hidden),
            "attention_output": (hidden, hidden / tp),
            "gate_up": (2 * ffn / tp, hidden),
            "down": (hidden, ffn / tp),
        }
        for product, (n, k) in sizes.items():
            constants = mode_of(gpu, "fp16").constants
            ours_us = time_gemms(gpu, Gemms.of(m, n, k), "fp16", constants, Setup("cold")).time_us
            ratio = ours_us * 1e-3 / np.array([float(row[f"{product}_ms"]) for row in own])
            error, median = float(np.median(np.abs(ratio - 1))), float(np.median(ratio))
            found.append({"gpu": gpu.name, "product": product, "rows": len(own), "error": error, "ratio": median})
    return found


_percent = "{:.1%}".format
_ERRORS = (
    Column("by", "by", once=True),
    Column("", "name", left=True),
    Column("runs", "runs", "{:,}".format),
    *(
        Column(head, key, _percent)
        for name, (words, _) in QUANTITIES.items()
        for head, key in ((words, name), ("ratio", f"{name}_ratio"), ("roofline", f"roofline_{name}"))
        if head != "ratio"
    ),
    Column("ratio", "token_s_ratio", "{:.2f}".format, meaning="median of ours over measured time per token"),
)
_GAPS = (
    Column("stack", "stack"),
    Column("ships [us]", "ships_us", "{:.1f}".format),
    Column("Blackwell [us]", "blackwell_us", "{:.2f}".format, meaning="gap that fits its runs of few sequences"),
    Column("without", "blackwell_without", _percent, meaning="error of the time per token without gaps"),
    Column("with", "blackwell_with", _percent, meaning="with those that ship"),
    Column("Hopper [us]", "hopper_us", "{:.2f}".format),
    Column("without", "hopper_without", _percent),
    Column("with", "hopper_with", _percent),
)
_FIGURES = (
    Column("quantity", "quantity", once=True),
    Column("source", "source", left=True, once=True, fold=True),
    Column("model", "model", left=True),
    Column("GPU", "gpu", left=True),
    *(Column(name, name) for name in ("tp", "batch", "prompt", "output")),
    Column("measured", "measured", "{:,.4g}".format),
    Column("ours", "predicted", "{:,.4g}".format),
    Column("error", "error", "{:+.1%}".format),
)
_MEDIANS = (
    Column("quantity", "quantity"),
    Column("figures", "figures"),
    Column("median error", "error", _percent),
    Column("worst", "worst", _percent),
)
_LAYERS = (
    Column("GPU", "gpu", once=True),
    Column("product", "product", left=True),
    Column("rows", "rows", "{:,}".format),
    Column("median error", "error", _percent),
    Column("ratio", "ratio", "{:.2f}".format),
)
_REPLAYED = (
    Column("run", "run"),
    Column("requests", "requests"),
    *(Column(f"{name} [s]", f"measured_{name}", "{:,.4g}".format) for name in Replayed.means()),
    *(Column("error", f"error_{name}", "{:+.1%}".format) for name in Replayed.means()),
)


def compared(paths: Iterable[Path]) -> dict[str, Any]:
    """What files hold, beside ours; raises AccelsimError if one is of no known kind."""
    document: dict[str, Any] = {}
    for path in paths:
        rows = _rows(path)
        columns = set(rows[0]) if rows else set()
        if "silicon_tpot_ms" in columns:
            runs, left = read_runs(rows)
            document |= {"errors": errors(runs), "gaps": gaps(runs), "not_compared": left}
        elif "quantity" in columns:
            document["published"] = published(rows)
        elif "gate_up_ms" in columns:
            document["layers"] = layers(rows)
        elif "tpot_ms" in columns:
            document["requests"] = [asdict(each) | each.errors() for each in replay(rows)]
        else:
            raise AccelsimError(f"{path}:1:1: expected the columns of runs, published figures, layers or requests")
    return document


def report(document: Mapping[str, Any]) -> Iterator[Piece]:
    """Tables of what was compared."""
    if "errors" in document:
        yield heading("Runs", "median errors, ours and a roofline's")
        yield Table("errors", _ERRORS, document["errors"])
        yield dim(CLAIMS)
        yield from (dim(f"not compared: {line}") for line in document["not_compared"])
        yield heading("Gaps between kernels", "those that ship are of Blackwell")
        yield Table("gaps", _GAPS, document["gaps"])
    if "published" in document:
        yield heading("Published figures")
        yield Table("published", _FIGURES, document["published"])
        quantities: dict[str, list[float]] = {}
        for row in document["published"]:
            quantities.setdefault(row["quantity"], []).append(abs(row["error"]))
        medians = [
            {"quantity": name, "figures": len(found), "error": float(np.median(found)), "worst": max(found)}
            for name, found in quantities.items()
        ]
        yield Table("medians", _MEDIANS, medians, "By quantity")
    if "layers" in document:
        yield heading("Layers", "products that Vidur measured one by one, in FP16 (commit 7d47513)")
        yield Table("layers", _LAYERS, document["layers"])
    if "requests" in document:
        yield heading("Requests of vLLM", "means of measured requests, and errors of ours")
        yield Table("requests", _REPLAYED, document["requests"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the files named, or those of the reference data."""
    parser = argparse.ArgumentParser(prog="python -m validation.serving", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="FILE", help="CSV of runs, published figures, layers or requests")

    def compare(parsed: argparse.Namespace) -> Answer:
        (usual,) = reference_paths([], "data/gpu/serving") if not parsed.paths else [Path()]
        names = ("runs.csv", "published.csv", "layers.csv", "requests.csv")
        document = compared([Path(path) for path in parsed.paths] or [usual / name for name in names])
        return Answer(document, lambda: report(document))

    return run_alone(parser, arguments, compare)[0]


if __name__ == "__main__":
    sys.exit(main())
