"""The package has rooms in one order: each imports only from those before it, also for types and inside functions."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

from tests.conftest import REPOSITORY

ORDER = (
    *("inputs", "energy", "model", "mapspace", "search", "results", "population"),
    *("fusion", "gpu", "importers", "designs", "show", "api", "cli"),
)
"""As docs/layout.md has it."""
FACADE = ("accelsim", "accelsim.__main__", "accelsim.plots", "accelsim.model_types")
"""What `import accelsim` offers: names of other modules."""
SLACK = 50
"""Lines by which a room may stay below its limit."""
MOST_MODULES = 65
"""Modules of accelsim that `map` loads for an answer that was kept."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in (REPOSITORY / "accelsim").rglob("*.py")}


def imported(tree: ast.Module, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Modules of accelsim that a module names in any import, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names if name.name.startswith("accelsim"))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: name the module in full"
            home = node.module or ""
            for name in node.names if home.startswith("accelsim") else ():
                yield node.lineno, f"{home}.{name.name}" if f"{home}.{name.name}" in modules else home


def room(module: str) -> str:
    return module.split(".")[1]


def upward(name: str, source: str, modules: set[str]) -> list[str]:
    """Imports of a module that lead to a later room; the facade `accelsim` gives its version to all."""
    return [
        f"{name}:{line}: {found}"
        for line, found in imported(ast.parse(source), modules)
        if found != "accelsim" and ORDER.index(room(found)) > ORDER.index(room(name))
    ]


def in_rooms() -> dict[str, Path]:
    return {name: path for name, path in MODULES.items() if name not in FACADE}


def test_rooms__are_those_of_the_order():
    assert {room(name) for name in in_rooms()} == set(ORDER)
    assert len(ORDER) <= 14


def test_order__is_that_of_the_page():
    page = (REPOSITORY / "docs" / "layout.md").read_text(encoding="utf-8")
    places = [page.index(f"| `{name}/` |") for name in ORDER]
    assert places == sorted(places)


def test_rooms__have_no_more_lines_than_their_limit():
    """And hardly fewer: a limit falls with its room."""
    page = (REPOSITORY / "docs" / "layout.md").read_text(encoding="utf-8")
    limits = {name: int(lines) for name, lines in re.findall(r"^\| `(\w+)/` \|.*\| (\d+) \|$", page, re.MULTILINE)}
    lines = Counter[str]()
    for name, path in in_rooms().items():
        lines[room(name)] += len(path.read_text(encoding="utf-8").splitlines())
    assert set(limits) == set(ORDER)
    assert {name: many for name, many in lines.items() if not limits[name] - SLACK <= many <= limits[name]} == {}


def test_imports__lead_to_earlier_rooms_only():
    found = [each for name, path in in_rooms().items() for each in upward(name, path.read_text("utf-8"), set(MODULES))]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "from accelsim.show import plots",
        "import accelsim.cli.main",
        "def f():\n    from accelsim.search.mapper import map_einsum",
        "if TYPE_CHECKING:\n    from accelsim.population.result import Spread",
    ],
)
def test_upward__sees_every_kind_of_import(source):
    assert len(upward("accelsim.model.kernel", source, set(MODULES))) == 1
    assert upward("accelsim.cli.main", source, set(MODULES)) == []


def test_imports__have_no_circles_within_a_room():
    graph = networkx.DiGraph()
    for name, path in in_rooms().items():
        found = imported(ast.parse(path.read_text("utf-8")), set(MODULES))
        graph.add_edges_from((name, other) for _, other in found if other in MODULES and other != name)
    graph.remove_nodes_from(FACADE)
    assert [sorted(found) for found in networkx.strongly_connected_components(graph) if len(found) > 1] == []


def test_imports__lead_to_nothing_beside_the_package():
    beside = {path.parent.name for path in REPOSITORY.glob("*/*.py")} - {"accelsim"}
    found = []
    for name, path in in_rooms().items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            homes = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            homes += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{name}: {home}" for home in homes if home.partition(".")[0] in beside]
    assert "validation" in beside
    assert found == []


def test_classes__have_names_of_their_own():
    trees = (ast.parse(path.read_text("utf-8")) for path in in_rooms().values())
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, many in names.items() if many > 1] == []


def test_map__loads_few_modules_for_an_answer_that_was_kept():
    code = (
        "import sys; from accelsim.cli.main import main; sys.argv[1:] = ['map', 'systolic', 'conv', '--quiet'];"
        "assert main() == 0; print(*[name for name in sys.modules if name.startswith('accelsim')])"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    loaded = runs[1].stdout.splitlines()[-1].split()
    needless = ("accelsim.search.exact", "accelsim.gpu.", "accelsim.show.plots")
    assert [name for name in loaded if name.startswith(needless)] == []
    assert len(loaded) <= MOST_MODULES, loaded
