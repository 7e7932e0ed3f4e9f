"""How many random cases tests try: few by default, so that all tests take some minutes, and many for `make test-deep`.

`ACCELSIM_EFFORT=deep`: all tests try many. `ACCELSIM_EFFORT=today`, as in CI: a seventh of them does, each day of the
week another one. `ACCELSIM_<NAME>` sets the number of one, such as `ACCELSIM_EXACT_PROBLEMS`.
"""

from __future__ import annotations

import datetime
import os
import zlib

FEWER = 5
"""Of the cases of `make test-deep` one in so many is tried by default."""


def many(name: str, deep: int, least: int = 75) -> int:
    """Cases of a test: `deep` if it is to try many; else a part of them, but no fewer than `least`."""
    given, effort = os.environ.get(f"ACCELSIM_{name}"), os.environ.get("ACCELSIM_EFFORT", "")
    if given:
        return int(given)
    today = zlib.crc32(name.encode()) % 7 == datetime.datetime.now(datetime.UTC).weekday()
    return deep if effort == "deep" or (effort == "today" and today) else min(deep, max(least, deep // FEWER))
