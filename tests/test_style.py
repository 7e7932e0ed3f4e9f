"""Prose follows the style guide: the field's words, short help strings, pages within their budget of words.

Counts are those of today, and only fall: a test fails where there are more, and where there are fewer than it says.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator

import pytest

import accelsim
from accelsim.cli.arguments import make_parser
from docs.site.commands import commands_of
from tests.conftest import REPOSITORY

SITE = sorted([*(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "docs" / "reference").glob("*.md")])
BUDGETS = {
    "README.md": 330,
    "docs/index.md": 420,
    "docs/getting-started.md": 1600,
    "docs/tutorial-design.md": 2000,
    "docs/howto.md": 2400,
    "docs/networks.md": 3100,
    "docs/sweeps.md": 2000,
    "docs/gpu.md": 3125,
    "docs/coming-from.md": 3050,
    "docs/concepts.md": 2600,
    "docs/cost-model.md": 4600,
    "docs/energy.md": 1700,
    "docs/exact-mapper.md": 3600,
    "docs/validation.md": 3200,
    "docs/reference/files.md": 5420,
    "docs/reference/cli.md": 3475,
    "docs/reference/python.md": 3200,
    "docs/layout.md": 700,
    "docs/extending.md": 400,
    "CONTRIBUTING.md": 850,
    "CHANGELOG.md": 4500,
}
"""Words of a page at most, as `wc -w` counts them."""
ALL_PAGES = 45_000
MOST_WORDS_OF_A_SENTENCE = 20
"""On average, on each page."""
WORDS = {
    "machine (architecture)": (r"\bmachines?\b", 1),
    "engine (core)": (r"\bengines?\b", 5),
    "outer words (off-chip words)": (r"\bouter words\b", 0),
    "keeps, holds (stores)": (r"\b(keeps?|holds?)\b", 15),
    "held whole (fully resident)": (r"\bheld whole\b", 0),
    "ragged (imperfect factors)": (r"\bragged\b", 0),
    "zeros left out (sparsity)": (r"\bzeros left out\b|does about zeros", 0),
    "beaten (dominated)": (r"\bbeaten\b|no other one beats", 0),
    "looked at (searched)": (r"\blooked at\b", 0),
    "visited (nodes)": (r"nodes visited", 0),
    "matrix product (GEMM)": (r"\bmatrix products?\b", 0),
    "held against (compared with)": (r"\bheld? against\b", 0),
    "carried over (converted)": (r"\bcarried over\b", 0),
    "census (spread)": (r"\bcensus", 0),
    "told, said of (reported)": (r"\b(tells?|told|said of|says of)\b", 0),
    "stand (is)": (r"\bstands?\b", 0),
    "nothing": (r"\bnothing\b", 11),
    "takes (uses)": (r"\btakes\b", 31),
    "history": (r"CPU s\b|\bbefore\)|was open by", 0),
}
"""How often words stand on the pages that have a better one in the word list."""
LONG_HELP = 0
"""Help strings of more than 12 words."""


def words(path: str) -> int:
    return len((REPOSITORY / path).read_text(encoding="utf-8").split())


def prose(text: str) -> str:
    """Text without code, tables and links' targets."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(\||#|<!--|.* \| ).*$", ".", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"`[^`]*`", "code", text)


def sentences(text: str) -> list[list[str]]:
    found = [each.split() for each in re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n\s*[-*\d]+\.?\s", prose(text))]
    return [each for each in found if len(each) > 2]


@pytest.mark.parametrize("path", BUDGETS)
def test_pages__have_no_more_words_than_their_budget(path):
    assert words(path) <= BUDGETS[path]


def test_pages__are_those_of_the_budget():
    named = {path for path in BUDGETS if path.startswith("docs/")}
    assert named == {str(page.relative_to(REPOSITORY)) for page in SITE}
    assert sum(map(words, named)) <= ALL_PAGES


@pytest.mark.parametrize("page", SITE, ids=lambda page: page.name)
def test_sentences__are_short(page):
    found = sentences(page.read_text(encoding="utf-8"))
    assert sum(map(len, found)) / len(found) <= MOST_WORDS_OF_A_SENTENCE


@pytest.mark.parametrize("word", WORDS)
def test_words__of_the_list_become_fewer(word):
    pattern, most = WORDS[word]
    texts = [prose(page.read_text(encoding="utf-8")) for page in (*SITE, REPOSITORY / "README.md")]
    assert sum(len(re.findall(pattern, text)) for text in [*texts, *helps()]) == most


def helps() -> Iterator[str]:
    """Help strings of all commands and options, and the first lines of public functions."""
    for command in commands_of(make_parser()):
        yield command.description or ""
        yield from (action.help for action in command._actions if action.help and action.dest != "help")
    for name in accelsim.__all__:
        found = getattr(accelsim, name)
        if inspect.isfunction(found):
            yield (inspect.getdoc(found) or "").partition("\n")[0]


def test_help__is_at_most_twelve_words():
    long = {
        action.help
        for command in commands_of(make_parser())
        for action in command._actions
        if action.help and not isinstance(action, argparse._HelpAction)
        if len(re.sub(r"\[[^\]]*\]$", "", action.help).split()) > 12
    }
    assert len(long) <= LONG_HELP, long
