"""What the site makes of index, commands and docstrings; building it is `make docs`."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from types import ModuleType

import pytest

import accelsim
from accelsim.cli.arguments import make_parser
from accelsim.inputs.library import TOP_KEYS
from docs.site.commands import arguments_of, commands_of, commands_text, row_of, shared_rows
from docs.site.contents import parts_of
from docs.site.python import PARTS
from docs.site.reference import DOCS, PAGES, page_text
from docs.site.yaml_keys import FILE, schema_keys, with_keys
from tests.conftest import REPOSITORY


@pytest.mark.parametrize("module", ["contents", "yaml_keys"])
def test_examples__print_what_they_say(module):
    tried = doctest.testmod(import_module(f"docs.site.{module}"))
    assert tried.attempted
    assert not tried.failed


def test_contents__have_every_page_and_notebook_once():
    pages = [page for rows in parts_of((REPOSITORY / "docs" / "index.md").read_text()).values() for _, page in rows]
    written = [
        path
        for folder, kind in (("docs", "*.md"), ("docs/reference", "*.md"), ("notebooks", "*.ipynb"))
        for path in REPOSITORY.glob(f"{folder}/{kind}")
    ]
    expected = {str(path.relative_to(REPOSITORY).with_suffix("")) for path in written} - {"docs/index"}
    assert sorted(pages) == sorted(expected | {"CHANGELOG", "CONTRIBUTING", "README"})


SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n?)*)", re.MULTILINE)


def test_commands__have_a_section_and_every_option_is_in_it():
    """With what it means in its own table, or by its name below it and with what it means in the table of all."""
    shared, *sections = SECTION.findall(commands_text())
    commands = list(commands_of(make_parser()))
    assert [name for name, _ in sections] == [command.prog for command in commands]
    assert {"accelsim map", "accelsim gpu gemm", "accelsim sweep"} <= {name for name, _ in sections}
    for command, (_, text) in zip(commands, sections, strict=True):
        for action in arguments_of(command):
            name, meaning = row_of(command, action)
            assert all(f"`{option}" in name or option == "--output" for option in action.option_strings)
            row = f"| {name} | {meaning} |\n"
            assert (row in text) != (row in shared[1]), (command.prog, name)
            if row in shared[1]:
                last = name.split("`")[-2].split()[0]
                assert last in (text.partition("Shared:")[2] if action.option_strings else text.partition("\n")[0])


def test_commands__what_several_share_is_described_once():
    commands = list(commands_of(make_parser()))
    shared = shared_rows(commands)
    assert {"`--json`", "`-j`, `--jobs N`", "`ARCH`", "`--mig PROFILE`"} <= {name for name, _ in shared}
    rows = [row for command in commands for row in {row_of(command, action) for action in arguments_of(command)}]
    assert {row for row in rows if rows.count(row) > 1} == set(shared)


def test_commands__text_is_no_markup():
    text = re.sub(r"`[^`]*`|```.*?```", "", commands_text(), flags=re.DOTALL)
    assert not re.findall(r"(?<!\\)[<>\[\]]", text)


KEYS = (DOCS / "reference" / "files.md").read_text(encoding="utf-8")


def spelled(names: str) -> list[str]:
    """Places that `{x,y}` and `*` stand for; a role is an asterisk, as any other name."""
    found = re.fullmatch(r"(.*)\{([\w,]+)\}(.*)", names)
    return [f"{found[1]}{name}{found[3]}" for name in found[2].split(",")] if found else [names]


def rows_of(page: str) -> dict[str, list[list[str]]]:
    """Rows of keys by the place that the heading above them names."""
    parts = re.findall(r"^### (.+)\n((?:(?!^##).*\n?)*)", page, re.MULTILINE)
    tables = {
        heading: [line.split(" | ") for line in re.split(r"^---\|.*$", text, flags=re.MULTILINE)[1].split("\n") if line]
        for heading, text in parts
    }
    return {
        place: rows
        for heading, rows in tables.items()
        for named in (re.findall(r"`([^`]+)`", heading) or [heading])
        for place in spelled(named)
    }


@pytest.mark.parametrize("kind", TOP_KEYS)
def test_keys__every_one_has_a_row_that_says_whether_it_is_required_and_what_it_means(kind):
    tables = rows_of(KEYS)
    cells = {}
    for place, rows in tables.items():
        for row in rows:
            found = row if "as in `" not in row[-1] else [row[0], *row[1:2], "as in"]
            for name in re.findall(r"`([^`]+)`", row[0]):
                for key in spelled(name):
                    other = re.search(r"as in `([^`]+)`", row[-1])
                    same = [each for each in tables[other[1]] if f"`{key}`" in each[0]] if other else [found]
                    cells[f"{place}.{key}"] = same[0]
    assert all(len(row) == (2 if place == FILE else 3) for place, rows in tables.items() for row in rows)
    roles = re.compile(r"(?<=\.)(Weights|Inputs|Outputs)(?=[.[]|$)")
    for each in schema_keys(kind):
        key = roles.sub("*", each.key)
        if key.startswith("workload.layers[].") and key.split(".")[-1] not in ("name", "from"):
            key = key.replace(".layers[]", "")  # as in a workload of one Einsum
        key = f"{FILE}.{key}" if "." not in key else key
        if key.endswith(".*"):
            continue  # a value for each role
        name, *_, meaning = cells[key]
        assert name.startswith("**") == (each.required and not key.startswith(FILE)), key
        assert meaning.startswith(each.meaning) or meaning.startswith("energy per action"), key
        assert each.required or each.default == "none" or meaning.endswith(f"[{each.default}]"), key


def test_keys__a_section_is_missing_or_one_too_many():
    for page in (KEYS.replace("### `system`\n", "### `systems`\n"), KEYS.replace("### `system`\n", "")):
        with pytest.raises(ValueError, match="`system`"):
            with_keys(page)


@pytest.mark.parametrize("name", PAGES)
def test_reference__stands_in_the_repository_as_it_is_made(name):
    """`make reference` writes it."""
    assert (DOCS / name).read_text(encoding="utf-8") == page_text(name)


def test_python_reference__shows_all_that_is_public():
    shown = {name for names in PARTS.values() for members in names.values() for name in members}
    objects = {name for name in accelsim.__all__ if not isinstance(getattr(accelsim, name), ModuleType)}
    assert objects - {"__version__"} <= shown


@pytest.mark.parametrize(
    ("module", "name"), [(m, n) for names in PARTS.values() for m, members in names.items() for n in members]
)
def test_python_reference__names_exist_and_say_what_they_are(module, name):
    assert getattr(import_module(module), name).__doc__
