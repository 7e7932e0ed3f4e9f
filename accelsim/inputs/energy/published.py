"""Published energies and areas that come with accelsim, each with its source and how sure it is."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Published:
    """One published value; `node_nm` is None where it belongs to no node of the chip, as for DRAM."""

    what: str
    node_nm: float | None
    value: float
    unit: str
    mark: str
    source: str

    @property
    def cited(self) -> str:
        """The source, and its mark unless it was read in the file itself."""
        return self.source if self.mark == "file" else f"{self.source} [{self.mark}]"


def data_rows(name: str) -> list[dict[str, str]]:
    """Rows of a data file of this package; lines that begin with # are comments."""
    text = files("accelsim.inputs.energy").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def all_published() -> tuple[Published, ...]:
    """Every published value, in the order of the file."""
    return tuple(
        Published(
            row["what"],
            float(row["node_nm"]) if row["node_nm"] else None,
            float(row["value"]),
            row["unit"],
            row["mark"],
            row["source"],
        )
        for row in data_rows("published.csv")
    )


def published(what: str, unit: str) -> tuple[Published, ...]:
    """Values of one thing in one unit, by falling node."""
    return tuple(entry for entry in all_published() if entry.what == what and entry.unit == unit)
