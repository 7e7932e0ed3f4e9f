"""What the site makes of index, commands and docstrings; building it is `make docs`."""

from __future__ import annotations

import argparse
import doctest
import re
from importlib import import_module

import pytest

import accelsim
from accelsim.cli.arguments import make_parser
from docs.site.commands import commands_of, commands_text
from docs.site.contents import parts_of
from docs.site.python import PARTS
from docs.site.reference import DOCS, PAGES, page_text
from docs.site.yaml_keys import keys_text
from tests.conftest import REPOSITORY


@pytest.mark.parametrize("module", ["contents"])
def test_examples__print_what_they_say(module):
    tried = doctest.testmod(import_module(f"docs.site.{module}"))
    assert tried.attempted
    assert not tried.failed


def test_contents__have_every_page_and_notebook_once():
    pages = [page for rows in parts_of((REPOSITORY / "docs" / "index.md").read_text()).values() for _, page in rows]
    written = [
        path
        for folder, kind in (("docs", "*.md"), ("notebooks", "*.ipynb"))
        for path in REPOSITORY.glob(f"{folder}/{kind}")
    ]
    expected = {str(path.relative_to(REPOSITORY).with_suffix("")) for path in written} - {"docs/index"}
    assert sorted(pages) == sorted(expected | {"CHANGELOG", "CONTRIBUTING", "README"})


def test_commands__have_a_section_and_every_option_is_in_it():
    sections = dict(re.findall(r"^## (accelsim .+)\n((?:(?!^## ).*\n?)*)", commands_text(), re.MULTILINE))
    commands = list(commands_of(make_parser()))
    assert list(sections) == [command.prog for command in commands]
    assert {"accelsim map", "accelsim gpu gemm", "accelsim sweep"} <= set(sections)
    for command in commands:
        for action in command._actions:
            if not isinstance(action, argparse._HelpAction):
                for option in action.option_strings:
                    assert f"`{option}" in sections[command.prog], (command.prog, option)


def test_commands__text_is_no_markup():
    text = re.sub(r"`[^`]*`|```.*?```", "", commands_text(), flags=re.DOTALL)
    assert not re.findall(r"(?<!\\)[<>\[\]]", text)


def test_keys__every_one_has_a_row_of_five_cells():
    parts = dict(re.findall(r"^### `?([^`\n]+)`?\n((?:(?!^#).*\n?)*)", keys_text(), re.MULTILINE))
    rows = {
        (place, row.split("`")[1]): row for place, text in parts.items() for row in re.findall(r"^\| `.*$", text, re.M)
    }
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows.values())
    for place, key in (("architecture.levels[]", "word"), ("workload.layers[]", "from"), ("workload.conv", "stride")):
        assert (place, key) in rows
    assert "workload.layers[].conv" not in parts  # as workload.conv
    assert "**required**" in rows["architecture.levels[]", "word"]


@pytest.mark.parametrize("name", PAGES)
def test_reference__stands_in_the_repository_as_it_is_made(name):
    """`make reference` writes it."""
    assert (DOCS / name).read_text(encoding="utf-8") == page_text(name)


def test_python_reference__shows_all_that_is_public():
    shown = {name for names in PARTS.values() for name in names.get("accelsim", ())}
    assert shown == set(accelsim.__all__) - {"__version__"}


@pytest.mark.parametrize(
    ("module", "name"), [(m, n) for names in PARTS.values() for m, members in names.items() for n in members]
)
def test_python_reference__names_exist_and_say_what_they_are(module, name):
    assert getattr(import_module(module), name).__doc__
