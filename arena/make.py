"""Write the problems of the arena and our answers to them: `problems.json` and `optima.json`.

`python arena/make.py` (the first part of `make arena`) writes both anew, which takes some minutes. Equal code gives
equal bytes: a problem that was solved before keeps its CPU time if the answer, the nodes and the proof are the same,
and an open one keeps the best mapping and the highest bound known. `--only eyeriss` looks at some problems.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from verify import OPTIMA, PROBLEMS, SPACES, Arena

from accelsim import __version__, load_architecture, load_workload
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import TooManyChoices
from accelsim.inputs.library import resolve
from accelsim.inputs.mapping import Mapping, dump_mapping
from accelsim.inputs.params import substitute
from accelsim.inputs.source import ListNode, MapNode, Node, Problems, ScalarNode, compose_file
from accelsim.inputs.workload import Einsum
from accelsim.search.mapper import imperfect_dims, map_einsum
from accelsim.search.stopping import Budget

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent / "benchmarks" / "corpus"
SECONDS = 20.0
"""Of one search unless more are asked for; what is not proved by then is open."""
AGAIN = 10.0
"""A problem that was proved before has so many times the CPU time of that proof, if that is more."""
CHOSEN = {
    "two_level": "gemm_small/energy pooling/edp conv_1x1/cycles depthwise/energy",
    "eyeriss": "conv_1x1/energy gemm_batched/edp attention/cycles gemm_large/energy",
    "nvdla": "conv_3x3/edp conv_1x1/energy gemm_large/cycles conv_3d/energy",
    "simba": "conv_1x1/edp gemm_large/energy elementwise/cycles conv_strided/edp",
    "gpu_sm": "gemm_batched/energy gemm_small/edp gemm_prime/cycles conv_1x1/energy",
    "nvdla_small": "conv_3x3/cycles pooling/energy gemm_small/edp conv_strided/energy",
    "simba_like": "conv_3x3/energy depthwise/edp gemm_batched/cycles gemm_prime/edp",
    "diannao": "conv_1x1/energy elementwise/edp gemm_small/cycles attention/edp",
    "maeri": "gemm_large/edp gemm_prime/cycles depthwise/energy gemm_small/edp",
    "mcu": "conv_1x1/cycles depthwise/edp gemm_small/energy pooling/cycles",
    "ethos_u55": "conv_3x3/energy conv_strided/cycles gemm_large/edp depthwise/cycles",
    "cpu_simd": "gemm_prime/energy gemm_small/edp gemm_batched/energy conv_1x1/cycles",
    "gemmini_ports": "gemm_batched/edp conv_3x3/cycles gemm_small/energy elementwise/cycles",
    "tpu_accumulators": "gemm_large/energy pooling/edp attention/energy conv_3x3/cycles",
    "tensor_core": "gemm_batched/energy gemm_small/cycles gemm_prime/edp pooling/edp",
}
"""Layers of `benchmarks/corpus/layers.yaml` and what is made small, by machine."""
BYTES = ("nvdla_small", "maeri", "mcu", "ethos_u55", "gemmini_ports", "tpu_accumulators")
"""Machines of 8-bit words: operands have 8 bits there, and partial sums 32."""


def body(path: Path) -> dict[str, Any]:
    """What stands under `architecture` in a file, with its parameters replaced, as plain values."""
    problems = Problems()
    root = compose_file(path, problems)
    assert isinstance(root, MapNode)
    found: dict[str, Any] = plain(substitute(root, {}, problems).entries["architecture"])
    return problems.result(found)


def plain(node: Node) -> Any:
    """A node as JSON: whole numbers and truths as such, all else as text."""
    if isinstance(node, MapNode):
        return {key: plain(value) for key, value in node.entries.items()}
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    assert isinstance(node, ScalarNode)
    return yaml.safe_load(node.text) if node.text.isdigit() or node.text in ("true", "false") else node.text


def machine_body(name: str) -> dict[str, Any]:
    """A machine that names no table: each energy stands at its component [pJ], and nothing says what it is made of."""
    inside = CORPUS / "machines" / f"{name}.yaml"
    path = inside if inside.is_file() else resolve(name, "arch")
    machine, found, source = load_architecture(path), body(path), str(path.relative_to(HERE.parent))
    for key in ("technology", "energy_table"):
        found.pop(key, None)
    for level in found["levels"]:
        written(level, machine, level["name"], source, ("read", "write", "update", "leak"))
        if isinstance(level.get("fanout"), dict):
            level["fanout"].pop("class", None)
            written(level["fanout"], machine, f"{level['name']} network", source, ("transfer",))
    found["compute"].setdefault("name", machine.compute.name)
    written(found["compute"], machine, machine.compute.name, source, ("compute",))
    again = load_architecture({"architecture": found})
    of_words = {key: entry.energy_pj for key, entry in machine.energy.entries.items() if not key[1].endswith(" bit")}
    assert {key: entry.energy_pj for key, entry in again.energy.entries.items()} == of_words, name
    assert again.levels == machine.levels, name
    return found


def written(part: dict[str, Any], machine: Architecture, component: str, source: str, actions: tuple[str, ...]) -> None:
    """Write the energies of a component into it, and take out what they were found by.

    Of multiply-accumulates it is that of the operands that the units are made for, and holds for those of all layers.
    """
    for key in ("attributes", "technology", "area", "energy"):
        part.pop(key, None)
    found: dict[str, Any] = {}
    for (name, role, action), entry in machine.energy.entries.items():
        if name == component and action in actions and not role.endswith(" bit"):
            text = f"{entry.energy_pj!r} pJ"
            found[action] = text if role == "*" else {**found.get(action, {}), role: text}
    if found:
        part["energy"] = {**found, "source": source}


def layer_body(einsum: Einsum) -> dict[str, Any]:
    """A layer as bounds, projections of its tensors and widths [bit]."""
    ranks = {t.name: [" + ".join(f"{c}*{d}" if c > 1 else d for d, c in r) for r in t.ranks] for t in einsum.tensors}
    bits: dict[str, int] = {tensor.role: tensor.bits for tensor in einsum.tensors}
    shape = {"dims": dict(einsum.dims), "tensors": ranks, "output": einsum.output.name}
    return {"einsum": shape, "bits": {**bits, "psums": einsum.output.psum_bits}}


def layers(int8: bool) -> dict[str, Einsum]:
    """The twelve layers of the corpus, by name."""
    read = yaml.safe_load((CORPUS / "layers.yaml").read_text())
    for layer in read["workload"]["layers"] if int8 else ():
        roles = layer["einsum"]["tensors"] if "einsum" in layer else ("Weights", "Inputs", "Outputs")
        layer["bits"] = {**dict.fromkeys(roles, 8), "psums": 32}
    return {layer.name: layer for layer in load_workload(read).layers}


def problems_json() -> dict[str, Any]:
    """All problems: machines, layers, and which of them belong together."""
    chosen, used = {}, {}
    for machine, several in CHOSEN.items():
        suffix = "_int8" if machine in BYTES else ""
        for each in several.split():
            layer, objective = each.split("/")
            chosen[f"{machine}/{each}"] = {"machine": machine, "layer": layer + suffix, "objective": objective}
            used[layer + suffix] = layer_body(layers(bool(suffix))[layer])
    rules = [line.strip() for line in (HERE / "rules.txt").read_text().splitlines() if line.strip()]
    machines = {name: machine_body(name) for name in CHOSEN}
    return {
        "rules": rules,
        "spaces": SPACES,
        "machines": machines,
        "layers": dict(sorted(used.items())),
        "problems": chosen,
    }


def nest(mapping: Mapping) -> dict[str, Any]:
    """A mapping as it stands in a submission."""
    found: dict[str, Any] = yaml.safe_load(dump_mapping(mapping))["mapping"]
    return found


def solve(
    arena: Arena, problem: str, space: str, even: dict[str, Any] | None, seconds: float = SECONDS
) -> dict[str, Any]:
    """Our answer to a problem in one of the spaces; an even mapping, where it is the best known, is imperfect too."""
    machine, layer, objective = arena.machine(problem), arena.layer(problem), arena.problems[problem].objective
    search = partial(map_einsum, machine, layer, objective=objective, budget=Budget(seconds=seconds), workers=1)
    before, whole = time.process_time(), True
    try:
        found = search(uneven=space == "uneven", imperfect="all" if space == "imperfect" else ())
        whole = space != "imperfect" or frozenset(found.imperfect) == imperfect_dims(layer, "all")
    except TooManyChoices:
        found, whole = search(), False
    cpu_s = time.process_time() - before
    proof = found.certificate
    assert proof is not None
    row = {
        "problem": problem,
        "space": space,
        "proved": proof.proved and whole,
        "value": proof.value,
        **({"bound": proof.bound} if whole else {}),
        "nodes": proof.nodes,
        "cpu_s": round(cpu_s, 3),
        "mapping": nest(found.best.mapping),
    }
    if space == "imperfect" and even is not None and even["value"] < proof.value:
        row |= {"value": even["value"], "mapping": even["mapping"]}
    return row


def better(found: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """The new answer and the one kept as one: same answers keep their time, open ones their best."""
    if before is None:
        return found
    if found["proved"]:
        same = all(found[key] == before[key] for key in found if key != "cpu_s")
        return before if same else found
    if before["proved"]:
        return before
    best = min(before, found, key=lambda row: float(row["value"]))
    bounds = [row["bound"] for row in (before, found) if "bound" in row]
    return {**best, **({"bound": max(bounds)} if bounds else {})}


def one_line_each(document: dict[str, Any], lists: tuple[str, ...]) -> str:
    """JSON whose entries of some keys are one line each."""
    lines = []
    for key, value in document.items():
        if key not in lists:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
            continue
        pairs = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()] if isinstance(value, dict) else []
        entries = pairs or [json.dumps(each) for each in value]
        left, right = ("{", "}") if isinstance(value, dict) else ("[", "]")
        lines.append(f"{json.dumps(key)}: {left}\n  " + ",\n  ".join(entries) + f"\n {right}")
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def main() -> int:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name and space contain this")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="limit of one search (default: %(default)g)")
    arguments = parser.parse_args()
    document = problems_json()
    text = one_line_each(document, ("rules", "spaces", "machines", "layers", "problems"))
    (HERE / PROBLEMS).write_text(text, encoding="utf-8")
    arena, kept = Arena(HERE), dict[tuple[str, str], Any]()
    path = HERE / OPTIMA
    if path.is_file():
        kept = {(row["problem"], row["space"]): row for row in json.loads(path.read_text())["mappings"]}
    first, show = next(iter(arena.problems)), partial(print, flush=True)
    for space in SPACES:  # compile before the clock runs
        solve(arena, first, space, None)
    lost = []
    for problem in arena.problems:
        for space in SPACES:
            if arguments.only not in f"{problem} {space}":
                continue
            before = kept.get((problem, space))
            seconds = max(arguments.seconds, AGAIN * before["cpu_s"] if before and before["proved"] else 0.0)
            found = solve(arena, problem, space, kept.get((problem, "even")), seconds)
            kept[problem, space] = row = better(found, before)
            if row["proved"] and not found["proved"]:
                lost.append(f"{problem} {space}: proved in {row['cpu_s']} CPU s before, not in {seconds:g} s now")
            gap = f", {row['value'] / row['bound'] - 1:.1%}" if "bound" in row else ""
            said = "proved" if row["proved"] else f"open{gap}"
            show(f"{problem:36}{space:10}{row['cpu_s']:8.2f} s {row['nodes']:12,} nodes  {said}")
            keys = [(name, each) for name in arena.problems for each in SPACES if (name, each) in kept]
            optima = {"tool": f"accelsim {__version__}", "mappings": [kept[key] for key in keys]}
            path.write_text(one_line_each(optima, ("mappings",)), encoding="utf-8")
    if lost:
        raise SystemExit("\n".join([*lost, "Is the computer busy? `--only PROBLEM --seconds 600` tries one again."]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
