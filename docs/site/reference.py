"""The parts of pages that are made from the package: `python -m docs.site.reference` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docs.site.commands import commands_text
from docs.site.python import names_text
from docs.site.yaml_keys import with_keys

DOCS = Path(__file__).resolve().parents[1]
MADE = "<!-- what follows is made by `make reference` -->\n"


def _below(text: Callable[[], str]) -> Callable[[str], str]:
    """Write a text below what is written by hand."""

    def write(page: str) -> str:
        by_hand, mark, _ = page.partition(MADE)
        return by_hand + mark + text()

    return write


PAGES = {
    "reference/python.md": _below(names_text),
    "reference/cli.md": _below(commands_text),
    "reference/files.md": with_keys,
}


def page_text(name: str) -> str:
    """A page as it should be: what is written by hand, with what is made."""
    return PAGES[name]((DOCS / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    for page in PAGES:
        (DOCS / page).write_text(page_text(page), encoding="utf-8")
