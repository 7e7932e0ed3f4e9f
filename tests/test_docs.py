"""The pages run: Python blocks execute and print what stands below them, YAML blocks are read, links lead somewhere.

So do the reports of `validation/reports` and the README of the arena, which are not in the site.

On the pages of `COMMANDS` blocks of `sh` run too, and a block of YAML is written to the file that its first line names.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from accelsim.cli import main as cli
from accelsim.cli.arguments import make_parser
from accelsim.cli.inspecting import check_files
from accelsim.inputs import library
from accelsim.show.schema import json_schema
from tests.conftest import REPOSITORY
from tests.test_schema import values

FOLDER = REPOSITORY / "docs"
DOCS = [REPOSITORY / "README.md", *sorted(FOLDER.glob("*.md")), *sorted(FOLDER.glob("reference/*.md"))]
FILES = FOLDER / "reference" / "files.md"
PAPERS = sorted((REPOSITORY / "docs" / "papers").glob("*.md"))
PAGES = [*DOCS, REPOSITORY / "arena" / "README.md", *sorted((REPOSITORY / "validation" / "reports").glob("*.md"))]
COMMANDS = ("getting-started.md", "howto.md", "coming-from.md", "sweeps.md", "gpu_guide.md")
REPORTS = {
    "README.md": "accelsim map eyeriss conv",
    "docs/getting-started.md": "accelsim map eyeriss conv",
    "docs/gpu.md": "accelsim gpu gemm h100_sxm 4096 4096 4096 --dtype bf16; "
    "accelsim gpu serve h100_sxm llama_70b --tp 8 --batch 64 --prompt 2048 --output 512; "
    "accelsim gpu train a100 resnet50 --micro 256 --dtype fp16; "
    "accelsim gpu profile h100 tests/golden/gpu/bert_base_layer.json.gz",
}
NO_RUN = "<!-- no-run -->"
KINDS = (*library.TOP_KEYS, "params")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w.]+\.\w+)\n")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def named(page: Path) -> str:
    """The name of a page as the id of a test."""
    return str(page.relative_to(REPOSITORY))


@dataclass(frozen=True)
class Block:
    """One fenced block; `printed` is the block of text right below it, if there is one."""

    page: Path
    line: int
    language: str
    text: str
    run: bool
    printed: str | None


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    found = []
    for fence, below in itertools.zip_longest(fences, fences[1:]):
        before = text[: fence.start()].rstrip("\n").rpartition("\n")[2]
        close = below is not None and below[1] == "text" and not text[fence.end() : below.start()].strip()
        line = text.count("\n", 0, fence.start()) + 1
        printed = below[2] if below is not None and close else None
        found.append(Block(page, line, fence[1], fence[2], before.strip() != NO_RUN, printed))
    return [block for block in found if block.language in languages]


def execute(block: Block, namespace: dict[str, object], source: str | None = None) -> str:
    """Run a block at its place in the page, so that a traceback points there, and return what it prints."""
    source = "\n" * block.line + (block.text if source is None else source)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(block.page), "exec"), namespace)
    return printed.getvalue()


def command(line: str) -> str:
    """Run a command and return what it prints."""
    name, *arguments = shlex.split(line, comments=True)
    assert name == "accelsim", line
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert cli.main(arguments) == 0, line
    return printed.getvalue()


@pytest.fixture(autouse=True)
def _few_draws():
    """Pages show what users see: as many mappings are looked at as there."""


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_blocks__run_and_print_what_the_page_says(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page, "python", *(("sh", "yaml") if page.name in COMMANDS else ())):
        if not block.run:
            continue
        if block.language == "python":
            printed = execute(block, namespace)
        elif block.language == "sh":
            printed = "".join(map(command, block.text.splitlines()))
        else:
            (tmp_path / FILE.match(block.text)[1]).write_text(block.text, encoding="utf-8")
            continue
        assert block.printed is None or printed == block.printed, f"{page.name}:{block.line}"


@pytest.mark.parametrize(("page", "line"), REPORTS.items())
def test_reports__are_lines_that_their_command_prints(page, line, monkeypatch):
    """Blocks of text below no block of code are parts of a report; what changes from run to run is left out of them."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(REPOSITORY)
    path = REPOSITORY / page
    languages = ("python", "sh") if path.name in COMMANDS else ("python",)
    printed_by_code = [block.printed for block in blocks(path, *languages)]
    shown = [block.text for block in blocks(path, "text") if block.text not in printed_by_code]
    printed = [each for one in line.split("; ") for each in command(one).splitlines()]
    lines = [each for text in shown for each in text.splitlines()]
    assert len(lines) >= 8
    assert [each for each in lines if each not in printed] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands__are_ones_that_there_are(page):
    for block in blocks(page, "sh"):
        for line in block.text.splitlines():
            name, *arguments = shlex.split(line, comments=True) or [""]
            if name == "accelsim" and "…" not in line:
                assert make_parser().parse_known_args(arguments)[1] == [], f"{page.name}:{block.line}: {line}"


FIGURE = re.compile(r"!\[[^\]]+\]\((img/gallery/\w+\.png)\) \| `(accelsim [^`]+)`")


def test_figures__are_what_the_command_beside_them_draws():
    figures = FIGURE.findall((REPOSITORY / "docs" / "howto.md").read_text(encoding="utf-8"))
    drawn = {f"img/gallery/{path.name}" for path in (REPOSITORY / "docs" / "img" / "gallery").glob("*.png")}
    assert {figure for figure, _ in figures} == drawn
    for figure, line in figures:
        assert line.endswith(f" {figure}")
        assert make_parser().parse_known_args(shlex.split(line)[1:])[1] == []


GUIDE = REPOSITORY / "validation" / "reports" / "gpu_guide.md"
CLAIMS = [
    cells
    for page in (GUIDE, REPOSITORY / "docs" / "gpu.md")
    for line in page.read_text(encoding="utf-8").splitlines()
    if len(cells := line.strip("| ").split(" | ")) == 4 and "`accelsim" in cells[1]
]
NUMBER = re.compile(r"([\d.]+) (\S+)")


@pytest.mark.parametrize(("claim", "commands", "said", "printed"), CLAIMS, ids=[cells[0][:40] for cells in CLAIMS])
def test_guide__each_command_prints_what_its_row_says(claim, commands, said, printed, monkeypatch, tmp_path):
    """What accelsim prints is in the last column; where the guide has a number of that unit, they agree to 2 %."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for block in blocks(GUIDE, "yaml"):
        (tmp_path / FILE.match(block.text)[1]).write_text(block.text, encoding="utf-8")
    output = "".join(command(line) for line in re.findall("`([^`]+)`", commands))
    shown = re.findall("`([^`]+)`", printed)
    assert shown
    assert [each for each in shown if each not in output] == []
    theirs, ours = NUMBER.match(said), NUMBER.match(shown[0])
    if theirs and ours and theirs[2] == ours[2]:
        assert float(ours[1]) == pytest.approx(float(theirs[1]), rel=0.02), claim


def test_guide__has_a_row_for_each_of_its_parts():
    assert len(CLAIMS) >= 30
    numbers = [[NUMBER.match(cell) for cell in (said, printed.split("`")[1])] for _, _, said, printed in CLAIMS]
    units = [[found[2] for found in pair if found] for pair in numbers]
    assert sum(len(pair) == 2 and len(set(pair)) == 1 for pair in units) >= 8


def test_report_of_timeloop__prints_the_numbers_of_the_records(shared):
    (block,) = blocks(REPOSITORY / "validation" / "reports" / "timeloop.md", "python")
    records = shared / "golden" / "timeloop"
    if not records.is_dir():
        pytest.skip(f"{records} is absent")
    namespace: dict[str, object] = {"__name__": "validation"}
    printed = execute(block, namespace, block.text.replace("../shared/golden/timeloop", str(records)))
    of = re.compile(r"of (\d+) records")
    if of.findall(printed) != of.findall(block.printed or ""):
        pytest.skip("the records are not those that the page was written for")
    assert printed == block.printed


def complete(block: Block) -> bool:
    """Whether a block of YAML is a whole file of a known kind."""
    return block.run and block.text.partition(":")[0] in KINDS


FILE_BLOCKS = [block for block in blocks(FILES, "yaml") if not block.text.startswith("# ")]


@pytest.mark.parametrize("block", [*filter(complete, FILE_BLOCKS)], ids=lambda block: f"line_{block.line}")
def test_yaml_blocks__are_valid_input(block, tmp_path):
    file = tmp_path / "block.yaml"
    file.write_text(block.text, encoding="utf-8")
    assert check_files([file]) == []


PLACE = re.compile(r"^### `([^`]+)`", re.MULTILINE)


def place_of(block: Block) -> list[str]:
    """Names in the heading above a block, and `[]` and `*` between them."""
    above = "".join(FILES.read_text(encoding="utf-8").splitlines(keepends=True)[: block.line])
    return re.findall(r"\w+|\{[\w,]+\}|\[\]|\*", PLACE.findall(above)[-1])


def below(form: dict, name: str) -> dict:
    """The form of what stands under a name; of an item where it is `[]`, of any value where it is `*`."""
    for part in [form, *form.get("anyOf", ())]:
        if name == "[]" and "items" in part:
            return part["items"]
        if name in part.get("properties", {}):
            return part["properties"][name]
    raise AssertionError(name)


@pytest.mark.parametrize(
    "block", [*itertools.filterfalse(complete, FILE_BLOCKS)], ids=lambda block: f"line_{block.line}"
)
def test_yaml_fragments__fit_the_place_that_their_heading_names(block):
    """A fragment has the key of the mapping that the heading is about, and stands in the mapping around it."""
    kind, *names = place_of(block)
    while names[-1] in ("[]", "*", "ranks"):
        names.pop()
    key = names.pop()
    schema = json_schema(kind)
    form = schema["properties"][kind]
    for name in names:
        form = below(form, name)
    around = next(part for part in [form, *form.get("anyOf", ())] if "properties" in part)
    document = values(block.text)
    (written,) = document
    assert written in key.strip("{}").split(",")
    fragment = {"properties": around["properties"], "additionalProperties": False, "$defs": schema["$defs"]}
    assert [error.message for error in Draft202012Validator(fragment).iter_errors(document)] == []
    fragment["properties"] = {}
    assert list(Draft202012Validator(fragment).iter_errors(document)) != []


def test_yaml_blocks__show_every_kind_of_file():
    shown = [block.text for block in FILE_BLOCKS if complete(block)]
    for kind in library.TOP_KEYS:
        assert any(re.search(rf"^{kind}:", text, re.MULTILINE) for text in shown), kind


@pytest.mark.parametrize("page", [*PAGES, *PAPERS, REPOSITORY / "CHANGELOG.md"], ids=named)
def test_links__point_to_existing_files(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [target.partition("#")[0] for target in LINK.findall(text) if "://" not in target]
    missing = [target for target in targets if target and not (page.parent / target).exists()]
    assert missing == []


def test_index__lists_every_page():
    index = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page.relative_to(FOLDER).as_posix() for page in DOCS[1:]]
    unlisted = [page for page in pages if page != "index.md" and f"({page})" not in index]
    assert unlisted == []


def test_contributing__its_example_changes_lines_that_there_are():
    diff = (REPOSITORY / "CONTRIBUTING.md").read_text().partition("```diff\n")[2].partition("```")[0]
    source, checked = "", 0
    for line in diff.splitlines():
        if line.startswith("--- "):
            source = (REPOSITORY / line.removeprefix("--- ")).read_text()
        elif line[0] in " -" and line.strip() != "...":
            assert line[1:] in source, line
            checked += 1
    assert checked >= 3
