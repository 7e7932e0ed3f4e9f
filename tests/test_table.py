"""Tables: text, page, CSV and JSON hold the same rows; CSV has raw numbers, and files whose names say what."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import row_stationary
from rich.console import Console

from accelsim.cli.main import main
from accelsim.show.html import table as page_table
from accelsim.show.html import written as page_written
from accelsim.show.report.mapping import result_report
from accelsim.show.table import Column, Table, Tree, csv_files, print_parts, to_csv

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=("Cc", "Cs", "Zl", "Zp")))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "name": TEXT,
            "cycles": st.integers(-(10**18), 10**18),
            "energy_pj": st.floats(allow_nan=False, allow_infinity=False),
            "share": st.none() | st.floats(0, 1),
            "proved": st.booleans(),
        }
    ),
    min_size=1,
    max_size=6,
)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def same(cell: str, value: object) -> bool:
    """Whether a cell holds a plain value of a JSON document."""
    if isinstance(value, float):
        return float(cell) == value
    if isinstance(value, list):
        return cell == " ".join(map(str, value))
    return cell == ("" if value is None else value if isinstance(value, str) else json.dumps(value))


def printed(made: Table) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_parts(console, [made])
    return console.file.getvalue()


@given(ROWS)
def test_csv__reads_back_to_the_rows(rows):
    found = read(to_csv(rows))
    assert len(found) == len(rows)
    for cells, row in zip(found, rows, strict=True):
        assert cells.keys() == row.keys()
        assert all(same(cells[key], row[key]) for key in row)


def test_csv__a_record_in_a_row_has_a_column_for_each_value():
    rows = [
        {"layer": "a", "kernel": {"tile": "64x64", "parts": {"l2": 0.1}}, "names": ["x", "y"], "others": [{"b": 1}]}
    ]
    assert to_csv(rows) == "layer,kernel_tile,kernel_parts_l2,names\na,64x64,0.1,x y\n"


def test_csv__tables_of_one_name_are_one_file():
    made = [Table("errors", (), [{"gpu": gpu}]) for gpu in ("a100", "h100")] + [Table("cycles", (), [{"cycles": 3}])]
    assert csv_files(["a line", *made]) == {"errors.csv": b"gpu\na100\nh100\n", "cycles.csv": b"cycles\n3\n"}


@given(st.lists(st.integers(0, 99), min_size=1, max_size=30), st.integers(1, 30))
def test_text_and_page__have_a_line_for_each_row_shown(values, most):
    rows = [{"a": value, "b": None} for value in values]
    made = Table("t", (Column("a", "a", "n{}".format), Column("b", "b")), rows, most=most)
    shown = [f"n{value}" for value in values[:most]]
    assert printed(made).split()[3:] == shown
    assert page_table("t", made).count("<tr>") == len(shown) + 1
    assert len(read(to_csv(made.rows))) == len(values)


def test_page__numbers_stand_to_the_right_also_those_that_are_made_of_the_whole_row():
    columns = (Column("name", "name"), Column("twice", lambda row: f"{2 * row['n']}x"), Column("why", "why", left=True))
    page = page_table("t", Table("t", columns, [{"name": "a", "n": 3, "why": "so"}]))
    assert '<td class="name">a</td><td class="number">6x</td><td class="text">so</td>' in page


def test_tree__long_lines_go_on_below_their_text():
    lines = (
        "for M in [0:2)",
        "  GLB stores Outputs of scores for soft_max",
        "   1  4 x H 1, M 4; fetches Inputs, Weights",
    )
    tree = Tree("\n".join(lines))
    console = Console(file=io.StringIO(), width=30)
    print_parts(console, [tree])
    assert console.file.getvalue() == (
        "for M in [0:2)\n"
        "  GLB stores Outputs of scores\n"
        "      for soft_max\n"
        "   1  4 x H 1, M 4; fetches\n"
        "      Inputs, Weights\n"
    )
    assert page_written([tree]) == f"<pre>{tree}</pre>"


def test_text__says_once_what_rows_have_in_common():
    columns = (Column("level", "level", once=True), Column("n", "n"))
    made = Table("t", columns, [{"level": "GLB", "n": n} for n in range(3)])
    assert printed(made).count("GLB") == 1
    assert to_csv(made.rows).count("GLB") == 3


COMMANDS = [
    ("show systolic_tpu_v1", {"energy": "energy_table", "area": "area", "peak": "peak", "levels": "levels"}),
    ("show alexnet", {"layers": "layers"}),
    ("list workloads", {"workloads": "workloads"}),
    ("list gpus", {"gpus": "gpus"}),
    ("gpu gemm a100 512 513 768", {"roundings": "roundings", "formats": "formats"}),
    ("roofline a100 gemm", {"layers": "layers"}),
    ("roofline eyeriss gemm", {"ports": "ports", "layers": "layers"}),
    ("map a100 bert_base", {"kernels": "kernels"}),
    ("eval eyeriss vgg_conv3_2 eyeriss_row_stationary", {"cycles": "cycles_by_component", "fills": "fills"}),
]


@pytest.mark.parametrize(("command", "tables"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_commands__csv_has_the_rows_of_the_json(command, tables, tmp_path, capsys):
    assert main([*command.split(), "--json", "--csv", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    document = document.get("result", document)
    for name, key in tables.items():
        found, rows = read((tmp_path / f"{name}.csv").read_text(encoding="utf-8")), document[key]
        assert len(found) == len(rows) > 0
        for cells, row in zip(found, rows, strict=True):
            plain = {k: value for k, value in row.items() if not holds_records(value)}
            assert plain.keys() <= cells.keys()
            assert all(same(cells[k], value) for k, value in plain.items())


def holds_records(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict | list) for each in value))


def test_roofline__names_its_tables_alike_where_one_is_empty(tmp_path):
    assert main(["roofline", "two_level", "conv1d", "--csv", str(tmp_path)]) == 0
    assert (tmp_path / "ports.csv").read_text().strip() == ""
    assert len(read((tmp_path / "layers.csv").read_text())) == 1


def test_commands__say_where_the_tables_are(tmp_path, capsys):
    target = tmp_path / "new"
    assert main(["show", "eyeriss", "--csv", str(target)]) == 0
    names = ("levels", "energy", "peak")
    assert capsys.readouterr().out.endswith(
        f"\nWritten to {', '.join(str(target / f'{name}.csv') for name in names)}\n"
    )


def test_result__tables_come_to_its_totals():
    """Energies of all components and tensors are that of the mapping, and the most cycles of a component its cycles."""
    architecture, einsum, result = row_stationary()
    tables = {part.name: part for part in result_report(result, architecture, einsum) if isinstance(part, Table)}
    energy, cycles, moved = (read(to_csv(tables[name].rows)) for name in ("energy", "cycles", "movement"))
    assert math.fsum(float(row["energy_pj"]) for row in energy) == pytest.approx(result.energy_pj, rel=1e-12)
    assert max(int(row["cycles"]) for row in cycles) == result.cycles
    reads = {(row["level"], row["tensor"]): row["reads"] for row in moved if row["tile_words"]}
    assert reads == {(t.level, t.tensor): str(t.reads) for t in result.tensors}


@pytest.mark.parametrize("target", ["file", "file/out", ""])
def test_bad_path__is_one_line_and_exit_code_2(target, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main(["list", "arch", "--csv", target]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("attention_scores", ["attention_", "scores"]),
        ("layer10/block2/conv1", ["layer10/", "block2/conv1"]),
        ("convolutionofalllayers_x", ["convolutiono", "falllayers_x"]),
        ("0.5 mm wire", ["0.5 mm wire"]),
    ],
)
def test_first_column__breaks_between_the_parts_of_a_name(name, lines):
    wide = Column("what comes beside it", lambda row: "x" * 60, unbroken=True)
    console = Console(width=40, file=io.StringIO(), color_system=None)
    print_parts(console, [Table("names", (Column("name", "name"), wide), [{"name": name}])])
    told = console.file.getvalue().splitlines()[2:]
    assert [line[:12].strip() for line in told] == lines
