"""Importers, estimators and exporters that other packages bring by entry points."""

import re
import subprocess
import sys
import textwrap

import pytest

from accelsim.cli import main as cli
from accelsim.inputs import plugins
from tests.conftest import REPOSITORY

DESIGN = "grid 8 x 8, 512 B each\nproduct 8 x 8 x 8\ntile 3\n"
MACHINE = """architecture:
  name: m
  technology: 7 nm
  energy_table: mine
  levels: [{name: DRAM, class: dram, word: 8 bit}]
  compute: {class: mac}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package of one module, as its metadata say."""

    def package(points, source):
        folder = tmp_path / "site"
        (folder / "mine-0.1.dist-info").mkdir(parents=True)
        (folder / "mine-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
        groups = "".join(f"[accelsim.{group}]\nmine = mine:{name}\n" for group, name in points.items())
        (folder / "mine-0.1.dist-info" / "entry_points.txt").write_text(groups)
        (folder / "mine.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, "mine", raising=False)
        plugins.installed.cache_clear()

    yield package
    plugins.installed.cache_clear()


def test_example__is_installed_and_imports_estimates_and_exports(tmp_path):
    """All three, by the command line."""
    site, design = tmp_path / "site", tmp_path / "design.txt"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site]
    subprocess.run([*pip, REPOSITORY / "examples" / "plugin"], check=True)
    design.write_text(DESIGN)

    def run(*words):
        code = f"import sys; sys.path.insert(0, {str(site)!r}); from accelsim.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", code, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)

    made = run("import", design, "-o", tmp_path / "imported")
    assert "design.txt:1:1: grid: 'tile 3' is left out" in made.stdout
    assert (tmp_path / "imported" / "architecture.yaml").is_file()
    shown = run("show", tmp_path / "imported" / "architecture.yaml").stdout
    assert "[1] accelsim-grid 0.1" in shown
    assert "0.2" in next(line for line in shown.splitlines() if "compute  " in line)
    narrow = ("--mapspace", "even", "--factors", "perfect")
    run("map", design, "-o", tmp_path / "out", *narrow)
    run("export", "grid", tmp_path / "out")
    text = (tmp_path / "out" / "grid" / "loops.txt").read_text()
    assert text.startswith("grid\nproduct\n")
    assert "DRAM" in text


FAILED = "mine (of mine 0.1) failed: "
CONVERT = "class Mine:\n  recognizes = lambda p, t: True\n  "
ESTIMATE = "def Mine(component): return "


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (f"{CONVERT}def convert(paths): raise ValueError('no')", f"{FAILED}ValueError: no"),
        (f"{CONVERT}def convert(paths): return 3", f"{FAILED}TypeError: 'int' object is not iterable"),
        (f"{CONVERT}def convert(paths): return {{'machine': {{}}}}", "its importer returned machine; it may return "),
        (f"{CONVERT}def convert(paths): return {{'architecture': {{'name': 'a'}}}}", "no valid architecture comes of"),
        (f"{CONVERT}import nothing_of_this_name", f"{FAILED}ModuleNotFoundError: "),
        (f"{ESTIMATE}{{'read': 1, 'write': 1}}", "no energy for 'compute' here, and the energy table 'mine' has none"),
        (f"{ESTIMATE}{{'read': -1}}", "gives no energy or area for 'dram': read: -1.0; numbers from 0 on"),
        (f"{ESTIMATE}{{'read': 1 / 0}}", f"{FAILED}ZeroDivisionError: division by zero"),
        (f"{ESTIMATE}None", f"{FAILED}AttributeError"),
    ],
)
def test_plugin__that_fails_is_named_an_estimator_at_the_component(package, tmp_path, capsys, source, said):
    estimates = source.startswith(ESTIMATE)
    package({"estimators" if estimates else "importers": "Mine"}, f"{source}\n")
    (tmp_path / "design.txt").write_text("something\n")
    (tmp_path / "m.yaml").write_text(MACHINE)
    assert cli.main(["check", str(tmp_path / "m.yaml")] if estimates else ["import", str(tmp_path / "design.txt")]) == 2
    told = capsys.readouterr().err
    assert said in " ".join(told.split())
    assert re.search("m.yaml:[56]:", told) or not estimates


def test_importer__is_not_asked_about_what_others_read(package, capsys):
    package({"importers": "Importer"}, "class Importer:\n  def recognizes(path, text): raise ValueError('asked')\n")
    assert cli.main(["check", str(REPOSITORY / "arch" / "eyeriss.yaml")]) == 0
    assert "asked" not in capsys.readouterr().err


def test_estimator__gives_energies_with_its_package_as_source(package, tmp_path, capsys):
    source = "def estimate(c): return {'area': 5, **dict.fromkeys(c.actions, 2 * c.bits.get('read', 1))}\n"
    package({"estimators": "estimate"}, source)
    (tmp_path / "m.yaml").write_text(MACHINE)
    assert cli.main(["show", str(tmp_path / "m.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "[1] mine 0.1" in shown
    assert " 16 " in next(line for line in shown.splitlines() if " read " in line)


@pytest.mark.parametrize("command", ["export mine RESULT", "import --from mine RESULT"])
def test_names__that_nobody_brings_are_refused(capsys, command):
    assert cli.main(command.split()) == 2
    assert "porters: timeloop, zigzag, " in capsys.readouterr().err
