"""The commands of the fuzzer: each with files of which one is damaged, chosen by a seed."""

from __future__ import annotations

import copy
import gzip
import io
import json
import math
import os
import shutil
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from random import Random

import mutations
import numpy as np
import timeloop_files
import yaml
from onnx_models import MODELS

import accelsim.cli.arguments
import validation.__main__ as validation
from accelsim.cli import main as cli
from accelsim.designs.store import FILE, TABLES, WORK_COLUMNS
from accelsim.inputs import library
from accelsim.results.cache import Entries
from sweeps import MACHINE
from validation.timeloop_files import main as compare_files

GOLDEN = Path(__file__).parent / "golden"
SHARED = Path(os.environ.get("ACCELSIM_SHARED") or Path(__file__).parents[2] / "shared").resolve()
ARCHES = (
    "two_level",
    "eyeriss",
    "systolic",
    "nvdla_small",
    "simba_like",
    "gpu_sm",
    "nvdla_28nm",
    "systolic_tpu_v1",
    "gemmini",
)
SMALL = """
params: {m: 8}
workload:
  name: small
  layers:
    - {name: a, repeat: 2, gemm: {M: $m, N: 6, K: 4}}
    - {name: b, conv: {K: 2, C: 2, H: 3, W: 3, R: 2, S: 2, padding: 1, stride: 1}}
    - {name: c, einsum: {dims: {M: 4, K: 6}, tensors: {A: [M, K], B: [K], C: [M]}, output: C}}
"""
MATCHED = (
    "M,N,K,dtype,time_us_median,device\n512,512,512,fp16,12.5,A100\n256,4096,1024,fp16,30,A100\n64,64,64,fp16,5,A100\n"
)
CONVOLVED = "device,dtype,N,C,H,W,K,R,S,P,Q,pad_h,pad_w,stride_h,stride_w,time_us_fwd\n"
CONVOLVED += "A100,fp16,8,64,56,56,64,3,3,56,56,1,1,1,1,50\n"

NSIGHT = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Bytes (MB),Device,Name\n"
    "5,9000,1,4,24,1,128,1,1,,NVIDIA A100-SXM4-40GB (0),ampere_fp16_s16816gemm_fp16_64x128_tn\n"
    "5,90,2,-,-,-,,,,1,,copy\n",
    "Total Time (ns),Instances,Avg (ns),Med (ns),GridXYZ,BlockXYZ,Name\n"
    "40,2,20,9000, 24   2  1,128 1 1,sgemm_64x64_nn\n",
)
MASKED = {"Weights": (4, 3), "Inputs": (6, 4), "Outputs": (6, 3)}
MASKS = """workload:
  name: masked
  layers:
    - {name: a, gemm: {M: 6, N: 3, K: 4}, densities: {Weights: {distribution: measured, file: mask.npy}}}
    - {name: b, gemm: {M: 6, N: 3, K: 4}, densities: {Weights: 0.5}}
"""
SPARSE = ("sparse_tensor_core", "eyeriss_v2", "scnn", "two_level")
TIMELOOP = {name: getattr(timeloop_files, name) for name in ("V03", "PROBLEM", "MAPPING", "ERT")}
CONFIGURATION = """[general]
run_name = chip
[architecture_presets]
ArrayHeight: 4
ArrayWidth: 8
IfmapSramSzkB: 64
FilterSramSzkB: 32
OfmapSramSzkB: 16
Dataflow : ws
Bandwidth : 10
[run_presets]
InterfaceBandwidth: USER
"""
TOPOLOGY = "Layer,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides,\nc,9,9,3,3,2,4,1,\n"


class Case:
    """Files and a command by a seed, in the working directory."""

    def __init__(self, seed: int, only: Collection[str] = ()) -> None:
        self.random = Random(seed)
        among = {make: weight for make, weight in COMMANDS.items() if not only or make.__name__[1:] in only}
        self.made = self.random.choices(list(among), list(among.values()))[0]
        self.arguments = [str(each) for each in self.made(self)]
        files = sorted(path for path in Path().rglob("*") if path.is_file())
        if files and self.random.random() < 0.03:
            self._replace(self.random.choice(files))

    def _replace(self, path: Path) -> None:
        """Put in the place of a file what is none, is empty, or is large and holds nothing."""
        kept = path.rename(f"{path}.kept")
        links = ["nowhere", path.name, kept.name, "/dev/null", "/dev/zero", "/proc/self/status"]
        match self.random.randrange(5):
            case 0:
                path.mkdir()
            case 1:
                os.mkfifo(path)
            case 2:
                path.touch()
                os.truncate(path, self.random.choice([0, 0, 1 << 20, 40 << 20, 1 << 40]))
            case _:
                path.symlink_to(self.random.choice(links))

    def pick(self, *several: list[str]) -> list[str]:
        return self.random.choice(several)

    def yaml(self, path: Path | str, name: str = "damaged.yaml") -> str:
        """Damage a YAML file."""
        source, donor = (
            each if isinstance(each, Path) else CORPUS / each for each in (path, self.random.choice(DONORS))
        )
        return self._tree(source, donor, mutations.read_yaml, name)

    def json(self, path: Path | str, name: str = "damaged.json") -> str:
        """Damage a JSON file."""
        source = path if isinstance(path, Path) else CORPUS / path
        return self._tree(source, source, mutations.read_json, name)

    def _tree(self, source: Path, donor: Path, read: Callable, name: str) -> str:
        text = source.read_text(encoding="utf-8")
        damaged = self.random.random() < 0.85
        if damaged:
            tree, spare = copy.deepcopy(_read(source, read)), _read(donor, read)
            for _ in range(self.random.choice([1, 1, 1, 2, 3])):
                tree = mutations.damaged_tree(self.random, tree, spare)
            text = mutations.write(mutations.as_json(tree) if read is mutations.read_json else tree)
        share = 0.05 if damaged else 1.0
        return self._bytes(text.encode("utf-8", "surrogatepass"), name, share)

    def table(self, text: str, name: str = "damaged.csv") -> str:
        """Damage a CSV table."""
        for _ in range(self.random.choice([1, 1, 2, 3])):
            text = mutations.damaged_table(self.random, text)
        return self._bytes(text.encode("utf-8", "surrogatepass"), name, 0.2)

    def lines(self, text: str, name: str) -> str:
        """Damage a text of lines."""
        for _ in range(self.random.choice([1, 1, 2, 3])):
            text = mutations.damaged_lines(self.random, text)
        return self._bytes(text.encode("utf-8", "surrogatepass"), name, 0.1)

    def array(self, shape: tuple[int, ...], name: str) -> str:
        """Damage a mask."""
        array = np.array([self.random.random() < 0.5 for _ in range(math.prod(shape))]).reshape(shape)
        data = mutations.damaged_array(self.random, array)
        data = mutations.packed(self.random, data) if name.endswith(".npz") or self.random.random() < 0.2 else data
        return self._bytes(data, name, 0.15)

    def message(self, make: Callable, name: str = "damaged.onnx") -> str:
        """Damage an ONNX model."""
        model = make()
        for _ in range(self.random.choice([1, 1, 2, 3])):
            mutations.damaged_message(self.random, model)
        return self._bytes(model.SerializeToString(), name, 0.25)

    def _bytes(self, data: bytes, name: str, share: float) -> str:
        if self.random.random() < share:
            for _ in range(self.random.choice([1, 1, 2, 4])):
                data = mutations.damaged_bytes(self.random, data)
        Path(name).write_bytes(data)
        return name


@cache
def _read(path: Path, read: Callable) -> object:
    return read(path.read_text(encoding="utf-8"))


def _architecture(case: Case) -> Iterable[object]:
    name = case.random.choice(ARCHES)
    if name == "two_level" or case.random.random() < 0.2:
        file = case.yaml("little.yaml" if case.random.random() < 0.5 else library.resolve("two_level", "arch"))
        return case.pick(
            ["eval", file, "conv1d", CORPUS / "mapping.yaml", "--json"],
            ["map", file, "conv1d", "--sample", "30", *ONE, "--json"],
            ["eval", file, "conv1d", "--trace", "--json"],
            ["plot", "architecture", file, "--json"],
            ["roofline", file, "conv1d", *ONE, "--json"],
        )
    file = case.yaml(library.resolve(name, "arch"))
    evaluated = ["eval", file, "conv", "eyeriss_row_stationary", "--json"] if name == "eyeriss" else ["check", file]
    return case.pick(["check", file], ["show", file, "--json"], evaluated, ["map", file, "gemm", "--sample", "9", *ONE])


def _workload(case: Case) -> Iterable[object]:
    small = [path for path in library.shipped("workloads") if path.stat().st_size < 2000]
    kinds = [library.shipped("workloads"), small, small, small, *[[CORPUS / "small.yaml"]] * 6]
    file = case.yaml(case.random.choice(case.random.choice(kinds)))
    return case.pick(
        ["check", file],
        ["check", file, "two_level", CORPUS / "mapping.yaml"],
        ["eval", "two_level", file, CORPUS / "mapping.yaml", "--json"],
        ["eval", "eyeriss", file, "eyeriss_row_stationary", "--layer", "a"],
        ["map", "two_level", file, "--sample", "20", *ONE, "--json"],
        ["map", "a100", file, "--json", "--layer", "a"],
        ["roofline", "a100", file, "--json"],
        [
            "spread",
            "two_level",
            file,
            "--samples",
            "50",
            "--time-limit",
            "0.2",
            "--jobs",
            "1",
            "--layer",
            "a",
            "--json",
        ],
        ["fuse", "systolic", file, "--time-limit", "0.2", "--longest", "2", *ONE, "--json"],
    )


def _mapping(case: Case) -> Iterable[object]:
    if case.random.random() < 0.5:
        file, inputs = case.yaml(CORPUS / "mapping.yaml"), ["two_level", "conv1d"]
    else:
        file, inputs = case.yaml(library.resolve("eyeriss_row_stationary", "mappings")), ["eyeriss", "conv"]
    explained = ["eval", *inputs, file, "--trace"] if inputs[0] == "two_level" else ["eval", *inputs, file]
    return case.pick(["check", *inputs, file], ["eval", *inputs, file, "--json"], explained, ["check", file])


def _constraints(case: Case) -> Iterable[object]:
    source = case.random.choice([*library.shipped("constraints"), CORPUS / "constraints.yaml"])
    file = case.yaml(source)
    arch = source.stem.split("_")[0] if source.parent != CORPUS else "two_level"
    arch, workload = {"nvdla": ("nvdla_small", "conv"), "simba": ("simba_like", "conv")}.get(arch, (arch, "conv"))
    workload = "conv1d" if arch == "two_level" else workload
    searched = ["--time-limit", "0.2"] if arch == "two_level" else ["--sample", "20"]
    return case.pick(
        ["check", file, arch, workload],
        ["check", file],
        ["map", arch, workload, "--constraints", file, *searched, *ONE],
    )


def _sweep(case: Case) -> Iterable[object]:
    file = case.yaml(case.random.choice([*library.shipped("sweeps"), CORPUS / "sweep.yaml"]))
    if case.random.random() < 0.15:
        file = case.yaml(CORPUS / "sweep.yaml")
        return ["sweep", file, "--jobs", "1", "-o", "swept", "--json"]
    return ["check", file]


def _swept(case: Case) -> Iterable[object]:
    shutil.copytree(CORPUS / "swept", "swept")
    again = ["sweep", CORPUS / "sweep.yaml", "--jobs", "1", "-o", "swept", "--json"]
    if case.random.random() < 0.5:
        _damage_work(case)
        return again
    case._bytes(Path("swept", FILE).read_bytes(), f"swept/{FILE}", 1.0)
    return case.pick(["sweep", "swept", "--json"], ["sweep", "swept", "--front", "--where", "glb > 16 B"], again)


def _damage_work(case: Case) -> None:
    """Damage some results of a sweep, and give them the hash of their content."""
    file = Entries(Path("swept", FILE))
    rows = {key: row for key, row in file.read() if key != TABLES}
    floats, ints = WORK_COLUMNS[8:14], WORK_COLUMNS[14:18]
    for _ in range(case.random.choice([1, 1, 2, 8])):
        row, name = case.random.choice(list(rows.values())), case.random.choice(WORK_COLUMNS)
        text = str(row[name] or "")
        values = [None, case.random.choice(mutations.NASTY), text[: case.random.randint(0, len(text))], text * 2]
        values = [None, 0.0, -1.0, float("nan"), float("inf"), 1e300] if name in floats else values
        values = [None, 0, -1, 2**62] if name in ints else values
        row[name] = case.random.choice([None, True, False] if name == "proved" else values)
    file.write(rows)


def _energy_table(case: Case) -> Iterable[object]:
    file = case.yaml(case.random.choice(library.shipped("energy_tables")), "table.yaml")
    text = (
        library.resolve("two_level", "arch").read_text().replace("energy_table: timeloop_pat", f"energy_table: {file}")
    )
    Path("own.yaml").write_text(text)
    return case.pick(["check", file], ["show", "own.yaml", "--json"], ["check", "own.yaml"])


def _gpu(case: Case) -> Iterable[object]:
    file = case.yaml(case.random.choice(library.shipped("gpus")))
    return case.pick(
        ["check", file],
        ["show", file, "--json"],
        ["show", file, "--mig", "1g.10gb"],
        ["gpu", "gemm", file, "512", "1000", "64", "--json"],
        ["map", file, "gemm", "--json", "--no-cache"],
        ["roofline", file, "gemm", "--json"],
    )


def _result(case: Case) -> Iterable[object]:
    file = case.json(case.random.choice(["result.json", "within.json", "front.json", "network.json"]))
    return ["verify", file, "--force", "--time-limit", "0.2", "--jobs", "1"]


def _model(case: Case) -> Iterable[object]:
    name = case.random.choice(sorted(MODELS))
    file = case.message(MODELS[name])
    sizes = [
        "--batch",
        "1",
        *([] if name in ("resnet50", "mobilenet_v2", "gpt2_decode_block") else ["--seq-len", "8"]),
    ]
    sizes = sizes if case.random.random() < 0.8 else []
    sizes += ["--set", "past=8"] if name == "gpt2_decode_block" else []
    sizes = [] if name == "mobilenet_v2" else sizes
    return case.pick(
        ["import", file, *sizes], ["import", file, *sizes], ["map", "a100", file, *sizes, "--json", "--no-cache"]
    )


def _masks(case: Case) -> Iterable[object]:
    """Masks of one tensor or several; the machines have zeros left out."""
    name = case.random.choice(["mask.npy", "mask.npy", "mask.npz", "mask.txt", "mask.json.gz"])
    tensor, shape = case.random.choice(list(MASKED.items()))
    case.array(shape, name)
    text = MASKS.replace("Weights", tensor).replace("mask.npy", name)
    Path("masked.yaml").write_text(text)
    if case.random.random() < 0.2:
        case.lines(text, "masked.yaml")
    machine = case.random.choice(SPARSE)
    layer = ["--layer", case.random.choice(["a", "b"]), *ONE]
    return case.pick(
        ["check", "masked.yaml"],
        ["check", "masked.yaml"],
        ["map", machine, "masked.yaml", "--time-limit", "0.2", *layer, "--json"],
        ["map", machine, "masked.yaml", "--sample", "9", *layer],
        ["spread", machine, "masked.yaml", "--samples", "20", "--time-limit", "0.2", "--json", *layer[:4]],
        ["roofline", machine, "masked.yaml", *ONE, "--json"],
    )


def _traces(case: Case) -> Iterable[object]:
    """Kernels as PyTorch's profiler, Nsight Systems and Nsight Compute write them, and tables of products."""
    if case.random.random() < 0.5:
        file = case.json(f"trace{case.random.randrange(3)}.json", "trace.json")
        if case.random.random() < 0.4:
            packed = gzip.compress if case.random.random() < 0.7 else lambda data: mutations.packed(case.random, data)
            file = case._bytes(packed(Path(file).read_bytes()), "trace.json.gz", 0.3)
    else:
        exports = [path.read_text() for path in sorted((GOLDEN / "gpu").glob("*.csv"))]
        file = case.table(case.random.choice([*exports, *NSIGHT, MATCHED, MATCHED]))
    options = case.pick([], [], ["--workload", "bert_base", "--batch", "8"], ["--calibration", "shipped"])
    return ["gpu", "profile", case.random.choice(["a100", "h100"]), file, *options, *case.pick([], ["--json"])]


def _statistics(case: Case) -> Iterable[object]:
    """Timeloop's statistics and drawings with its inputs, records of its runs, and SCALE-Sim's files."""
    kind = case.random.choice(["small", "small", "run", "drawing", "records", "topology"])
    runs, records = _runs(), SHARED / "golden/timeloop_more"
    if kind == "run" and runs:
        statistics, *files = case.random.choice(runs)
    elif kind == "drawing" and runs:
        drawn = case.random.choice([path for path, *_ in runs if path.with_name("timeloop-mapper.map.txt").is_file()])
        file = case.lines(drawn.with_name("timeloop-mapper.map.txt").read_text(), "map.txt")
        return ["import", drawn.with_name("parsed-processed-input.yaml"), file]
    elif kind == "records" and records.is_dir():
        for path in records.glob("*.json"):
            shutil.copy(path, path.name)
        (CORPUS / "line.json").write_text(case.random.choice((records / "cases.jsonl").read_text().splitlines()))
        case.json("line.json", "cases.jsonl")
        if case.random.random() < 0.3:
            case.json(records / (name := case.random.choice(["architectures.json", "shapes.json"])), name)
        return ["validation", "timeloop", "cases.jsonl", *case.pick([], ["--json"])]
    elif kind == "topology":
        configuration, topology = case.lines(CONFIGURATION, "chip.cfg"), case.table(TOPOLOGY, "net.csv")
        return case.pick(
            ["import", configuration, topology], ["map", configuration, topology, "--time-limit", "0.2", *ONE]
        )
    else:
        files = [CORPUS / f"{name}.yaml" for name in TIMELOOP]
        statistics = CORPUS / "small.stats.txt"
    if case.random.random() < 0.3:
        at = case.random.randrange(len(files))
        files[at] = case.yaml(files[at], files[at].name)
        case.random.choice([shutil.copy, shutil.copy, os.symlink])(statistics, "x.stats.txt")
    else:
        case.lines(statistics.read_text(), "x.stats.txt")
    return ["validation.timeloop_files", *files, "x.stats.txt", "--time-limit", "0.2", *case.pick([], ["--json"])]


@cache
def _runs() -> list[list[Path]]:
    """Timeloop's statistics, each with its inputs, that are small."""
    found = [[path, *files] for path, files in timeloop_files.references()] if timeloop_files.SHARED.is_dir() else []
    return [files for files in found if all(path.is_file() and path.stat().st_size < 30_000 for path in files)]


def _measured(case: Case) -> Iterable[object]:
    file = case.table(case.random.choice([MATCHED, CONVOLVED]))
    return case.pick(
        ["validation", "gemm", file, "--json"],
        ["validation", "gemm", file, "--gpu", "a100"],
        ["gpu", "calibrate", "a100", file, "--json"],
    )


def _calibration(case: Case) -> Iterable[object]:
    file = case.json(Path(library.root("arch")).parent / "accelsim/gpu/calibrations/a100_sxm_80gb_mma.json")
    return ["gpu", "gemm", "a100", "512", "1000", "64", "--calibration", file, "--json"]


def _scalesim(case: Case) -> Iterable[object]:
    return ["validation", "scalesim", case.table((GOLDEN / "scalesim.csv").read_text()), *case.pick([], ["--json"])]


def _timeloop(case: Case) -> Iterable[object]:
    folder = SHARED / "golden/timeloop/cases/h02_halo_innermost"
    if not folder.is_dir():
        return ["--version"]
    damage = case.random.choice(["input.yaml", "result.json"])
    for name in ("input.yaml", "result.json"):
        if name == damage:
            (case.yaml if name == "input.yaml" else case.json)(folder / name, name)
        else:
            shutil.copy(folder / name, name)
    return ["validation", "timeloop", ".", *case.pick([], ["--json"])]


def _foreign(case: Case) -> Iterable[object]:
    """A file of another tool, alone or with others of its folder; one that is no YAML as it stands in its bytes."""
    files = _foreign_files()
    if not files:
        return ["--version"]
    source = case.random.choice(files)
    try:
        file = case.yaml(source, source.name)
    except (yaml.YAMLError, AttributeError):  # a template, or an empty document
        file = case._bytes(source.read_bytes(), source.name, 1.0)
    near = [path for path in files if path.parent == source.parent and path != source]
    others = case.random.sample(near, min(len(near), case.random.randint(0, 4)))
    mapped = ["map", file, "conv", "--time-limit", "0.2", *ONE]
    return case.pick(["import", file], ["import", file, *others], ["check", file, *others], mapped)


@cache
def _foreign_files() -> list[Path]:
    return [path for path in sorted((SHARED / "foreign").rglob("*.yaml")) if path.stat().st_size < 20_000]


def _kept(case: Case) -> Iterable[object]:
    shutil.copytree(CORPUS / "cache", "cache")
    file, entries = case.random.choice(sorted((CORPUS / "kept").iterdir())), Entries(Path("cache", "results.sqlite"))
    damaged = Path(case.json(file)).read_bytes()
    try:
        entries.write({file.stem: json.loads(damaged)})
    except (ValueError, RecursionError):
        entries.path.write_bytes(damaged)
    return ["map", "two_level", "conv1d", "--jobs", "1", "--json"]


def _arguments(case: Case) -> Iterable[object]:
    value = case.random.choice(
        [*mutations.NASTY, "energy^2*cycles", "imperfect:M", "padded:P=9", "energy,cycles", "capacity:BUF,energy"]
    )
    value = value.replace("\x00", "")
    known = ["--objective", "--set", "--pareto", "--top", "--factors", "--require", "--seed", "--batch", "--seq-len"]
    option = case.random.choice([*known, "--layer", "--mapspace", "--sample", "--jobs", "--constraints"])
    prefix = case.random.choice(["buffer=", ""]) if option == "--set" else ""
    return ["map", "two_level", "conv1d", f"{option}={prefix}{value}", "--time-limit", "0.2", "--no-cache"]


ONE = ("--jobs", "1", "--no-cache")
COMMANDS: dict[Callable[[Case], Iterable[object]], int] = {
    **{
        _architecture: 20,
        _workload: 16,
        _mapping: 10,
        _constraints: 8,
        _sweep: 8,
        _swept: 2,
        _energy_table: 4,
        _gpu: 8,
    },
    **{_result: 10, _model: 6, _traces: 8, _measured: 6, _calibration: 2, _scalesim: 3, _timeloop: 3, _kept: 2},
    **{_arguments: 4, _foreign: 8, _masks: 8, _statistics: 8},
}
CORPUS = Path()
DONORS: list[Path] = []


def prepare(folder: Path) -> None:
    """Write the files from which cases start, and load with that what the commands need, once for all processes."""
    global CORPUS
    CORPUS = folder
    accelsim.cli.arguments.make_parser = cache(accelsim.cli.arguments.make_parser)
    DONORS.extend(path for kind in library.KINDS for path in library.shipped(kind)[:8])
    (folder / "little.yaml").write_text(MACHINE.replace("GLB", "BUF"))
    (folder / "small.yaml").write_text(SMALL)
    (folder / "constraints.yaml").write_text(
        "constraints: {min_utilization: 0.5, levels: [{level: BUF, temporal: {factors: [R=3], order: [P, R]}}]}"
    )
    (folder / "sweep.yaml").write_text(
        f"sweep: {{name: s, architecture: {folder}/little.yaml, workloads: [conv1d], objectives: [energy, cycles], "
        "parameters: {glb: [16 B, 64 B], pe: [1, 2]}}"
    )
    for name, text in TIMELOOP.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "small.stats.txt").write_text(timeloop_files.STATISTICS)
    for number, path in enumerate(sorted((GOLDEN / "gpu").glob("*.json.gz"))):
        (folder / f"trace{number}.json").write_text(_cut(json.loads(gzip.decompress(path.read_bytes()))))
    os.environ["ACCELSIM_CACHE"] = str(folder / "cache")
    one = ("--jobs", "1")
    _must("map", "two_level", "conv1d", *one, "-o", folder / "out")
    shutil.copy(folder / "out/mapping.yaml", folder)
    shutil.copy(folder / "out/result.json", folder)
    for name, options in {
        "within": ["map", "two_level", "conv1d", "--top", "1%"],
        "front": ["map", "two_level", "conv1d", "--pareto", "energy,cycles"],
        "network": ["map", "two_level", folder / "small.yaml"],
    }.items():
        (folder / f"{name}.json").write_text(_must(*options, *ONE, "--json"))
    _must("fuse", folder / "little.yaml", folder / "small.yaml", *ONE)
    _must("sweep", folder / "sweep.yaml", *one, "-o", folder / "swept", "--quiet")
    Path("m.onnx").write_bytes(MODELS["bert_block"]().SerializeToString())
    _must("map", "a100", "m.onnx", "--batch", "1", "--seq-len", "64")
    _must("eval", "eyeriss", "conv", "eyeriss_row_stationary")
    _must("map", "two_level", "conv1d", "--sample", "5", *ONE)
    _must("spread", "two_level", "conv1d", "--samples", "50", *one)
    np.save(folder / "mask.npy", np.eye(4, 3))
    (folder / "masked.yaml").write_text(MASKS)
    (folder / "kept").mkdir()
    for key, body in Entries(folder / "cache" / "results.sqlite").read():
        (folder / "kept" / f"{key}.json").write_text(json.dumps(body))
    for machine in SPARSE:
        _must("map", machine, folder / "masked.yaml", "--time-limit", "0.2", *ONE)
        _must("spread", machine, folder / "masked.yaml", "--samples", "20", *one, "--layer", "a")
    files = [folder / f"{name}.yaml" for name in TIMELOOP]
    call(
        ["validation.timeloop_files", *map(str, files), str(folder / "small.stats.txt"), "--time-limit", "0.2"]
    )  # differs
    _must("gpu", "profile", "a100", GOLDEN / "gpu/ncu_sections.csv")
    os.environ["ACCELSIM_CACHE"] = "cache"


def _cut(trace: dict) -> str:
    """Trace of its first five kernels, and what launched them."""
    kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"][:5]
    numbers = {event["args"]["External id"] for event in kernels}
    kept = [event for event in trace["traceEvents"] if event.get("args", {}).get("External id") in numbers]
    return json.dumps({"deviceProperties": trace["deviceProperties"], "traceEvents": kept})


def _must(*arguments: object) -> str:
    """What a command prints."""
    code, printed, said, _ = call([str(each) for each in arguments])
    if code:
        raise SystemExit(f"{' '.join(map(str, arguments))}: ends with {code}\n{said}")
    return printed


def call(arguments: list[str]) -> tuple[int, str, str, str]:
    """Run a command here: exit code, what it printed to stdout and stderr, and the traceback that a user never sees."""
    found = []

    def note(error: Exception) -> int:
        found.append(error)
        return cli.INTERNAL

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    kept, cli._internal_error = cli._internal_error, note
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            beside = {"validation": validation.main, "validation.timeloop_files": compare_files}
            work = beside.get(arguments[0])
            code = work(arguments[1:]) if work else cli.main(arguments)
    except SystemExit as stop:
        code = stop.code
    except Exception as error:
        code = note(error)
    finally:
        cli._internal_error = kept
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, err) if stream.flush() is None)
    return code, said, complained, "".join(traceback.format_exception(found[0])) if found else ""
