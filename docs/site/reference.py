"""The parts of pages that are made from the package: `python -m docs.site.reference` writes them anew."""

from __future__ import annotations

from pathlib import Path

from docs.site.commands import commands_text
from docs.site.python import names_text
from docs.site.yaml_keys import keys_text

DOCS = Path(__file__).resolve().parents[1]
MADE = "<!-- what follows is made by `make reference` -->\n"
PAGES = {"commands.md": commands_text, "python.md": names_text, "reference_yaml.md": keys_text}


def page_text(name: str) -> str:
    """A page as it should be: what is written by hand, and below it what is made."""
    by_hand, mark, _ = (DOCS / name).read_text(encoding="utf-8").partition(MADE)
    return by_hand + mark + PAGES[name]()


if __name__ == "__main__":
    for page in PAGES:
        (DOCS / page).write_text(page_text(page), encoding="utf-8")
