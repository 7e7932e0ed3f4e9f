"""The command `cache`, and the cache that other commands use."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from accelsim.cli.printing import DONE, print_json

if TYPE_CHECKING:
    from accelsim.results.cache import ResultCache


def open_cache(arguments: argparse.Namespace) -> ResultCache | None:
    """Cache that the arguments ask for; each trouble with it is one line on stderr, said once."""
    from accelsim.results.cache import ResultCache, default_folder

    if arguments.no_cache:
        return None
    said: set[str] = set()

    def complain(line: str) -> None:
        if line not in said:
            sys.stderr.write(f"accelsim: {line}\n")
        said.add(line)

    return ResultCache(default_folder(), complain)


def cache_command(arguments: argparse.Namespace) -> int:
    """Say where results are kept and how many, or remove them."""
    from accelsim.results.cache import ResultCache, default_folder

    cache = ResultCache(default_folder())
    sizes = [path.stat().st_size for path in cache.files()]
    if arguments.clear:
        removed = cache.clear()
        sys.stdout.write(f"{cache.folder}: {_many(removed)} removed\n")
    elif arguments.json:
        print_json({"folder": str(cache.folder), "entries": len(sizes), "bytes": sum(sizes)})
    else:
        sys.stdout.write(f"{cache.folder}: {_many(len(sizes))}, {sum(sizes) / 1024:,.1f} KiB\n")
    return DONE


def _many(entries: int) -> str:
    return f"{entries:,} result" + ("" if entries == 1 else "s")
