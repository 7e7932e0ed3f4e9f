"""The cache: a hit is what a search would find, and nothing that stands in a file can make it something else."""

from __future__ import annotations

import ast
import json
import os
import re
import sqlite3
import subprocess
import sys
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pytest

import accelsim.results.cache
import accelsim.search.mapper
from accelsim.api.networks import map_network
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.library import shipped
from accelsim.inputs.nodes import arrange
from accelsim.inputs.objective import Objective
from accelsim.inputs.sparsity import Format, LevelSparsity, RankFormat
from accelsim.inputs.workload import Workload, sliced
from accelsim.inputs.workload_reader import load_workload
from accelsim.results.cache import (
    MapOptions,
    ResultCache,
    carry_over,
    content_key,
    default_folder,
    map_with_cache,
    rename,
    search_once,
)
from accelsim.results.output import result_json
from accelsim.search.stopping import Budget
from tests.conftest import REPOSITORY

narrow = partial(MapOptions, uneven=False, imperfect=())
"""Options of a search among even mappings with perfect factors, the quickest."""

MACHINE = load_architecture("eyeriss")
NETWORK = """
workload:
  name: net
  yields: {frames: 1}
  layers:
    - {name: a, gemm: {M: 4, N: 6, K: 8}}
    - {name: b, repeat: 2, from: a, gemm: {M: 4, N: 8, K: 6}}
    - {name: c, from: b, gemm: {M: 4, N: 6, K: 8}}
"""


def gemm(**dims: int):
    (layer,) = load_workload("gemm").layers
    return replace(layer, dims={**dict(zip("MNK", (4, 6, 8), strict=True)), **dims})


@pytest.fixture
def searched(monkeypatch):
    """Names of the layers that are searched."""
    names = []
    search = accelsim.search.mapper.map_einsum

    def map_einsum(architecture, einsum, **options):
        names.append(einsum.name)
        return search(architecture, einsum, **options)

    monkeypatch.setattr(accelsim.search.mapper, "map_einsum", map_einsum)
    return names


@pytest.fixture
def trouble():
    return []


@pytest.fixture
def cache(tmp_path, trouble):
    return ResultCache(tmp_path / "cache", trouble.append)


def same(a, b) -> bool:
    return replace(a, seconds=0.0, kept="") == replace(b, seconds=0.0, kept="")


def entries(cache) -> dict:
    """What a cache holds, but for times."""
    return {key: value and {**value, "seconds": 0.0, "kept": ""} for key, value in cache.entries.read()}


def changed(cache, change: str, *values) -> None:
    """Change the file as somebody may who does not know the hash of an entry."""
    file = sqlite3.connect(cache.entries.path)
    file.execute(change, values)
    file.commit()
    file.close()


@pytest.mark.parametrize(
    "options",
    [
        narrow(),
        narrow(objective="edp"),
        narrow(objective="cycles", top=3),
        narrow(within=0.05),
        narrow(uneven=True, pad="all"),
    ],
    ids=str,
)
def test_hit__is_what_the_search_finds(options, cache, searched, trouble):
    layer = gemm(M=7)
    first = map_with_cache(MACHINE, layer, options, cache)
    again = map_with_cache(MACHINE, layer, options, cache)
    assert (searched, trouble) == ([layer.name], [])
    assert same(first, again)
    assert [json.dumps(result_json(r)) for r in first.ranked] == [json.dumps(result_json(r)) for r in again.ranked]


def test_key__counts_what_matters_and_nothing_else(tmp_path):
    layer, options = gemm(), narrow()
    base = content_key(MACHINE, layer, options)
    renamed = replace(layer, name="other", repeat=7)
    text = (REPOSITORY / "arch" / "eyeriss.yaml").read_text().replace("name: eyeriss\n", "name: other\n", 1)
    (tmp_path / "m.yaml").write_text("# comment\n" + text)
    assert content_key(MACHINE, renamed, options) == base
    assert content_key(load_architecture(tmp_path / "m.yaml"), layer, options) == base
    tensors = tuple(replace(tensor, bits=8) for tensor in layer.tensors)
    others = [
        content_key(MACHINE, gemm(M=5), options),
        content_key(MACHINE, replace(layer, tensors=tensors), options),
        content_key(MACHINE, layer, replace(options, objective="edp")),
        content_key(MACHINE, layer, replace(options, within=0.1)),
        content_key(load_architecture("eyeriss", {"pe.x": "13"}), layer, options),
        content_key(load_architecture("eyeriss", {"bandwidth": "1 GB/s"}), layer, options),
        content_key(replace(MACHINE, energy=load_architecture("nvdla").energy), layer, options),
    ]
    assert len({base, *others}) == len(others) + 1


def test_key__counts_each_part_of_what_it_answers(monkeypatch):
    """One that differs in a single part: any option, bits of any tensor, bounds before padding, constraints, code."""
    layer, options, none = gemm(), narrow(), Constraints()
    asked = {"objective": "edp", "method": "x", "top": 2, "within": 0.1, "uneven": True}
    asked |= {"imperfect": "M", "pad": "N", "walks": True, "seed": 1}
    assert asked.keys() == {field.name for field in fields(MapOptions)}
    keys = [content_key(MACHINE, layer, replace(options, **{name: value})) for name, value in asked.items()]
    for at, tensor in enumerate(layer.tensors):
        for change in ({"bits": 9}, {"psum_bits": 33}, {"role": "Outputs" if not tensor.output else "Inputs"}):
            tensors = (*layer.tensors[:at], replace(tensor, **change), *layer.tensors[at + 1 :])
            keys.append(content_key(MACHINE, replace(layer, tensors=tensors), options))
    keys.append(content_key(MACHINE, replace(layer, unpadded={**layer.dims, "M": 3}), options))
    keys += [content_key(MACHINE, layer, options, each) for each in (none, replace(none, min_utilization=0.5))]
    for what, value in (("__version__", "0"), ("hash_of_code", lambda: "0")):
        with monkeypatch.context() as changed:
            changed.setattr(accelsim.results.cache, what, value)
            keys.append(content_key(MACHINE, layer, options))
    keys.append(content_key(MACHINE, layer, options))
    assert len(set(keys)) == len(keys)


def imported(module: str, seen: set[str]) -> set[str]:
    """Modules of the package that a module imports at any place, and those that these import.

    Not what modules of `inputs` import to read files: what they read is in the key.
    """
    path = REPOSITORY / Path(*module.split("."))
    path = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    if module not in seen and path.is_file():
        seen.add(module)
        for node in ast.walk(ast.parse("" if module.startswith("accelsim.inputs") else path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("accelsim."):
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    imported(name, seen)
    return seen


def test_hash_of_code__is_of_all_that_a_search_imports(tmp_path, monkeypatch):
    parts = {module.split(".")[1] for module in imported("accelsim.search.mapper", set())}
    assert parts <= set(accelsim.results.cache._CODE)
    for part in accelsim.results.cache._CODE:
        (tmp_path / part / "inside").mkdir(parents=True)
    monkeypatch.setattr(accelsim.results.cache, "__file__", str(tmp_path / "results" / "cache.py"))
    hashes = []
    for part in sorted(parts):
        for text in ("a = 1", "a = 2"):
            (tmp_path / part / "inside" / "code.py").write_text(text)
            hashes.append(accelsim.results.cache.hash_of_code.__wrapped__())
        (tmp_path / part / "inside" / "code.py").rename(tmp_path / part / "code.py")
        hashes.append(accelsim.results.cache.hash_of_code.__wrapped__())
    assert len(set(hashes)) == len(hashes)


def test_key__dimensions_count_by_their_place_unless_something_names_them():
    """Z[a, b] = X[a, c] x Y[c, b] is the GEMM, and its mapping is that of the GEMM with other names."""
    layer = gemm()
    names, tensors = dict(zip("MNK", "abc", strict=True)), {"Inputs": "X", "Weights": "Y", "Outputs": "Z"}
    other = replace(
        layer,
        dims={names[dim]: bound for dim, bound in layer.dims.items()},
        tensors=tuple(
            replace(t, name=tensors[t.name], ranks=tuple(((names[dim], 1),) for ((dim, _),) in t.ranks))
            for t in layer.tensors
        ),
    )
    for options in (narrow(), narrow(uneven=None)):
        key = content_key(MACHINE, layer, options)
        assert key == content_key(MACHINE, other, options)
        found, expected = (map_with_cache(MACHINE, each, options, None) for each in (layer, other))
        assert rename(found.best.mapping, layer, other) == expected.best.mapping
        assert same(search_once({key: (layer, found)}, key, MACHINE, other, None), expected)
    padded, nodes = narrow(pad="all"), arrange(MACHINE, ((), (frozenset({"Weights"}), frozenset({"Inputs"})), ()))
    rank = RankFormat("UOP", frozenset("bd"))
    flattened = replace(MACHINE.levels[1], sparsity=LevelSparsity({"Inputs": Format((rank,))}))
    ranked = replace(MACHINE, levels=(MACHINE.levels[0], flattened, *MACHINE.levels[2:]))
    for machine, asked in ((MACHINE, padded), (nodes, options), (ranked, options)):
        assert content_key(machine, layer, asked) != content_key(machine, other, asked)
    unnamed = [renamed(other, dict(zip("abc", names, strict=True))) for names in ("axc", "ayc")]
    assert len({content_key(ranked, each, options) for each in unnamed}) == 1


def renamed(layer, names):
    """A layer with other names of its dimensions."""
    tensors = tuple(replace(t, ranks=tuple(tuple((names[d], f) for d, f in r) for r in t.ranks)) for t in layer.tensors)
    return replace(layer, dims={names[dim]: bound for dim, bound in layer.dims.items()}, tensors=tensors)


GEMM = load_workload({"workload": {"name": "gemm", "gemm": {"M": 4, "N": 8, "K": 6}}}).layers[0]
CONV = load_workload({"workload": {"name": "conv", "conv": {"K": 4, "C": 2, "P": 3, "Q": 1, "R": 3, "S": 1}}}).layers[0]
TWICE = [
    replace(each, name=f"{layer.name}_{number}")
    for layer, one, other in ((GEMM, "MNK", "PKC"), (CONV, "KCPR", "CRKP"))
    for number, each in enumerate(
        [
            layer,
            renamed(layer, dict(zip(layer.dims, layer.dims, strict=True)) | dict(zip(one, other, strict=True))),
        ]
    )
]
"""Two layers, and each once more with its dimensions renamed: those of the second have each other's names."""


@pytest.mark.parametrize("name", [path.stem for path in shipped("arch")])
def test_network__layers_with_other_names_are_proved_as_they_are_alone(name):
    machine = load_architecture(name)
    layers = tuple(sliced(layer, machine.slices) for layer in TWICE)
    for objective in ("energy", "cycles", "edp"):
        options, goal = narrow(objective=objective), Objective.parse(objective)
        asked = {"objective": objective, "mapspace": "even", "factors": "perfect", "cache": False}
        rows = map_network(machine, Workload("twice", layers), **asked).rows
        assert [row["layer"] for row in rows] == [layer.name for layer in layers]
        alone = (map_with_cache(machine, layer, options, None) for layer in layers[1::2])
        for row, found in zip(rows[1::2], alone, strict=True):
            assert row["proved"]
            assert found.certificate.proved
            assert goal.value(row["energy_pj"], row["cycles"]) == pytest.approx(goal.of(found.best), rel=1e-12), row


def test_answer_of_another_layer__is_refused_where_it_costs_something_else(cache, trouble, monkeypatch):
    """With a key that leaves out the names of dimensions; data of `gemmini` is adjacent along C and K."""
    machine, options, one = load_architecture("gemmini"), narrow("cycles"), gemm(M=24, N=64, K=40)
    other = renamed(one, {"M": "P", "N": "K", "K": "C"})
    found, own = (map_with_cache(machine, layer, options, None) for layer in (one, other))
    assert own.best.cycles < found.best.cycles
    assert carry_over([found.best], machine, one, other) is None
    assert search_once({"key": (one, found)}, "key", machine, other, lambda: own) == own
    monkeypatch.setattr("accelsim.results.cache.content_key", lambda *_: "ab" * 32)
    map_with_cache(machine, one, options, cache)
    assert same(map_with_cache(machine, other, options, cache), own)
    assert "its mapping has the value" in trouble[0]


def test_constraints__are_part_of_the_key_and_hold_for_a_hit(tmp_path, cache, searched):
    path = tmp_path / "c.yaml"
    path.write_text("constraints: {levels: [{level: DRAM, temporal: {factors: [M=4, N=6, K=8]}}]}")
    constraints = load_constraints(path, MACHINE, gemm())
    free = map_with_cache(MACHINE, gemm(), narrow(), cache)
    bound = map_with_cache(MACHINE, gemm(), narrow(), cache, constraints=constraints)
    again = map_with_cache(MACHINE, gemm(), narrow(), cache, constraints=constraints)
    assert len(searched) == 2
    assert same(bound, again)
    assert bound.best.energy_pj > free.best.energy_pj


_PART = {
    **{"uneven": False, "imperfect": [], "padded": [], "space_size": 1, "value": 1.0, "bound": 1.0, "gap": 0.0},
    **{"proved": True, "nodes": 0, "evaluated": 1, "table_bytes": 0},
}


def _cheaper(body):
    body["mappings"][0]["energy_pj"] *= 0.5


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("UPDATE entries SET body = x''", "its hash is another one"),
        ("UPDATE entries SET body = substr(body, 1, 100)", "its hash is another one"),
        ("UPDATE entries SET body = 3, sha256 = 4.0", "its hash is another one"),
        (
            "UPDATE entries SET body = replace(CAST(body AS TEXT), '\"cycles\": ', '\"cycles\": 1')",
            "its hash is another one",
        ),
        (_cheaper, "its mapping costs"),
        (lambda body: body["certificate"].update(bound=0.0), "it proves nothing about what is asked"),
        (lambda body: body["mappings"].clear(), "IndexError"),
        (lambda body: body.pop("mappings"), "KeyError"),
        (lambda body: body["mappings"][0].update(mapping=[]), "ValueError"),
        (lambda body: body.update(space_size="many"), "space_size: 'many' is no integer"),
        (lambda body: body.update(parts=[{**_PART, "bound": "low"}]), "parts[0].bound: 'low' is no number"),
        (lambda body: body["certificate"].update(value=1.0, bound=1.0), "its proof is of 1"),
    ],
    ids=[
        "empty",
        "short",
        "number",
        "digit",
        "cheaper",
        "bound",
        "none",
        "left_out",
        "levels",
        "text",
        "part",
        "value",
    ],
)
def test_damage__is_named_ignored_and_replaced(harm, said, cache, searched, trouble):
    """In an entry of another hash, and in one with the hash that it should have."""
    first = map_with_cache(MACHINE, gemm(), narrow(), cache)
    ((key, body),) = cache.entries.read()
    whole = entries(cache)
    if isinstance(harm, str):
        changed(cache, harm)
    else:
        harm(body)
        cache.entries.write({key: body})
    assert same(map_with_cache(MACHINE, gemm(), narrow(), cache), first)
    assert len(searched) == 2
    assert len(trouble) == 1
    assert trouble[0].startswith(f"{cache.entries.path}: damaged entry {key[:8]}, ignored and made anew: ")
    assert said in trouble[0]
    assert entries(cache) == whole


@pytest.mark.parametrize("content", [b"garbage" * 99, b"SQLite format 3\0" + b"x" * 9000, None], ids=str)
def test_damaged_file__is_put_aside_with_one_line_and_begun_anew(content, cache, searched, trouble):
    """Other bytes, a file that looks like one of SQLite, and one that holds something else."""
    first, path = map_with_cache(MACHINE, gemm(), narrow(), cache), cache.entries.path
    whole = entries(cache)
    if content is None:
        changed(cache, "ALTER TABLE entries RENAME COLUMN body TO other")
    else:
        path.write_bytes(content)
    bad = path.read_bytes()
    assert same(map_with_cache(MACHINE, gemm(), narrow(), cache), first)
    assert len(searched) == 2
    assert [line.startswith(f"{path}: damaged, and is results.damaged now; it begins anew: ") for line in trouble] == [
        True
    ]
    assert path.with_suffix(".damaged").read_bytes() == bad
    assert entries(cache) == whole
    assert same(map_with_cache(MACHINE, gemm(), narrow(), cache), first)
    assert len(searched) == 2


def test_empty_file__is_a_cache_without_entries(cache, trouble):
    cache.folder.mkdir()
    cache.entries.path.touch()
    assert cache.read("ab") is None
    cache.write("ab", {"n": 1})
    assert (cache.read("ab")["n"], trouble) == (1, [])


def test_hit__says_that_it_is_cached_and_when_it_was_found(run):
    """In the text; the document has the same bytes with and without a cache."""
    found = [run("map", "two_level", "conv1d")[1] for _ in range(2)]
    assert re.search(r"\n  search +exact, [\d.e-]+ s, [\d,]+ nodes", found[0])
    assert re.search(
        r"\n  search +cached on 20\d\d-\d\d-\d\d \d\d:\d\d UTC; exact, [\d.e-]+ s,\s+[\d,]+\s+nodes", found[1]
    )
    assert "cached" not in found[0]
    documents = {run("map", "two_level", "conv1d", "--json", *more)[1] for more in ([], ["--no-cache"])}
    assert len(documents) == 1


def test_entry__in_the_place_of_another_one_is_refused(cache, searched, trouble):
    """One for the least EDP, whose costs are those of its mapping, and whose layer is the same."""
    map_with_cache(MACHINE, gemm(), narrow(objective="cycles"), cache)
    ((other, body),) = cache.entries.read()
    cache.entries.write({other: {**body, "objective": "energy"}})
    right = map_with_cache(MACHINE, gemm(), narrow(), None)
    changed(cache, "UPDATE entries SET key = ?", content_key(MACHINE, gemm(), narrow(method="exact")))
    assert same(map_with_cache(MACHINE, gemm(), narrow(), cache), right)
    assert "its hash is another one" in trouble[0]


def test_only_proved_results__are_kept(cache):
    map_with_cache(MACHINE, gemm(), narrow(method="random"), cache, budget=Budget(50))
    map_with_cache(MACHINE, gemm(M=2, N=2, K=2), narrow(method="exhaustive"), cache)
    assert entries(cache) == {}


def test_folder__that_cannot_be_written_is_said_and_does_no_harm(tmp_path, trouble):
    (tmp_path / "file").write_text("")
    cache = ResultCache(tmp_path / "file" / "cache", trouble.append)
    assert map_with_cache(MACHINE, gemm(), narrow(), cache).stop == "exhausted"
    assert any("the result is not kept" in line for line in trouble)


def test_stopped_search__is_not_kept(cache, monkeypatch):
    """Neither one that says why it ended early, nor one whose bound lies below its value."""
    layer = gemm(M=2, N=2, K=2)
    proved = accelsim.search.mapper.map_einsum(MACHINE, layer, uneven=False)
    gap = replace(proved.certificate, bound=proved.certificate.bound * 0.99)
    for found in (replace(proved, stop="timeout"), replace(proved, certificate=gap), replace(proved, certificate=None)):
        monkeypatch.setattr(accelsim.search.mapper, "map_einsum", lambda *_, found=found, **__: found)
        assert map_with_cache(MACHINE, layer, narrow(), cache) == found
        assert entries(cache) == {}
    monkeypatch.setattr(accelsim.search.mapper, "map_einsum", lambda *_, **__: proved)
    map_with_cache(MACHINE, layer, narrow(), cache)
    assert len(entries(cache)) == 1


def test_uneven_mappings_looked_at_for_a_while__are_an_answer_where_time_is_not_limited(cache, searched, monkeypatch):
    monkeypatch.setattr("accelsim.search.exact.parts.FURTHER_NODES", 1)
    layer, options = gemm(M=16, N=24, K=32), narrow(uneven=None)
    found = map_with_cache(MACHINE, layer, options, cache)
    assert found.stop == "effort"
    assert same(map_with_cache(MACHINE, layer, options, cache), found)
    assert len(searched) == 1
    monkeypatch.undo()
    proved = map_with_cache(MACHINE, layer, options, cache, budget=Budget(seconds=1000))
    assert (proved.stop, proved.uneven, proved.certificate.proved) == ("exhausted", True, True)
    assert same(map_with_cache(MACHINE, layer, options, cache), proved)


def test_full_disk__is_said_and_entries_stay(cache, trouble, monkeypatch):
    cache.write("ab", {"n": 1})
    connect = sqlite3.connect

    def small(*arguments, **options):
        file = connect(*arguments, **options)
        file.execute("PRAGMA max_page_count = 4")
        return file

    monkeypatch.setattr(sqlite3, "connect", small)
    cache.write("ab", {"n": "x" * 100_000})
    assert cache.read("ab")["n"] == 1
    assert trouble == [f"{cache.entries.path}: the result is not kept: No space left on device"]
    assert [path.name for path in cache.folder.iterdir()] == ["results.sqlite"]


def test_default_folder__is_the_users_or_the_one_that_is_named(monkeypatch):
    monkeypatch.setenv("ACCELSIM_CACHE", "/tmp/x")
    assert default_folder() == Path("/tmp/x")
    monkeypatch.setenv("ACCELSIM_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/tmp/y")
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_folder() == Path("/tmp/y/accelsim")


def test_network__maps_equal_layers_once_and_a_hit_gives_the_same_bytes(run, tmp_path, searched):
    path = tmp_path / "net.yaml"
    path.write_text(NETWORK)
    first, second = (run("map", "eyeriss", path, "--json") for _ in range(2))
    assert searched == ["a", "b"]
    assert (first[0], first[1]) == (0, second[1])
    assert run("map", "eyeriss", path)[1] == run("map", "eyeriss", path, "--no-cache")[1]
    assert searched == ["a", "b", "a", "b"]
    document = json.loads(first[1])
    total = sum(layer["repeat"] * layer["result"]["energy_pj"] for layer in document["layers"])
    assert document["total"]["energy_pj"] == pytest.approx(total, rel=1e-12)
    one = json.loads(run("map", "eyeriss", path, "--layer", "c", "--json", "--no-cache")[1])
    assert one["result"] == document["layers"][2]["result"]
    assert "a +1" in run("map", "eyeriss", path)[1]
    assert run("plot", "network", "eyeriss", path, "-o", tmp_path / "n.png")[0] == 0
    assert searched == ["a", "b", "a", "b", "c"]


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_network__found_in_the_cache_needs_no_compiler_and_prints_the_same_bytes(run, tmp_path, more):
    path = tmp_path / "net.yaml"
    path.write_text(NETWORK)
    _, cold, _ = run("map", "eyeriss", path, *more)
    code = (
        "import sys; from accelsim.cli.main import main; main(sys.argv[1:]);"
        "sys.exit('accelsim.model.compiling' in sys.modules)"
    )
    warm = subprocess.run([sys.executable, "-c", code, "map", "eyeriss", path, *more], capture_output=True, check=True)
    assert warm.stdout.decode() == cold


def test_cache_command__shows_and_clears(run, tmp_path):
    run("map", "eyeriss", "conv1d", "--quiet")
    folder = os.environ["ACCELSIM_CACHE"]
    old, other = (Path(folder) / "00" / f"{name}.json" for name in ("0a" * 32, "other"))
    old.parent.mkdir()
    for path in (old, other):
        path.write_text("{}")
    assert run("cache", "dir") == (0, f"{folder}\n", "")
    code, out, _ = run("cache", "info")
    assert out == run("cache")[1]
    assert (code, out.startswith(f"{folder}: 1 result, ")) == (0, True)
    assert json.loads(run("cache", "--json")[1])["entries"] == 1
    assert run("cache", "clear") == (0, f"{folder}: 1 result removed\n", "")
    assert json.loads(run("cache", "--json")[1]) == {"folder": folder, "entries": 0, "bytes": 0}
    assert (old.exists(), other.exists()) == (False, True)


def test_processes__share_a_folder(cache):
    """Writers of the same entry at the same time: readers see a whole one, and nothing else is left behind."""
    code = (
        "import sys; from pathlib import Path; from accelsim.results.cache import ResultCache\n"
        "cache = ResultCache(Path(sys.argv[1]), lambda line: sys.exit(line))\n"
        "for i in range(30):\n"
        "    cache.write('ab' * 32, {'n': [i] * 3000})\n"
        "    body = cache.read('ab' * 32)\n"
        "    assert body and len(set(body['n'])) == 1\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, cache.folder]) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert [path.name for path in cache.folder.iterdir()] == ["results.sqlite"]
    assert cache.size()[0] == 1
