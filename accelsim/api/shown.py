"""What every result can do: show itself as a line, a report, tables, a picture, and be written into a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.inputs.errors import AccelsimError, require
from accelsim.inputs.units import near_miss
from accelsim.results import refuse_directory, to_json, write_directory
from accelsim.show.table import Piece, Table, written, written_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_WIDEST = 100
"""Letters of a `repr`, at most."""
Drawings = Mapping[str, Callable[..., "Axes"]]
"""What a result can draw, by its name; the first is drawn where none is named. Each takes `ax`."""


def of(path: str, meaning: str) -> Any:
    """Attribute of a result that is one of a part of it."""

    def value(self: Any) -> Any:
        for name in path.split("."):
            self = getattr(self, name)
        return self

    return property(value, doc=meaning)


class Shown:
    """A result that shows itself; `headline`, `parts` and `to_dict` are its own."""

    verbose = False
    """Whether the report has footnotes, and what is in no total."""

    @property
    def headline(self) -> str:
        """The result in a line."""
        raise NotImplementedError

    def parts(self) -> Iterable[Piece]:
        """What the report is made of: tables, and lines between them."""
        raise NotImplementedError

    def brief(self) -> Iterable[Piece]:
        """What is printed where only the headline, and what was asked for, is wanted."""
        return self.parts()

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints and `result.json` holds."""
        raise NotImplementedError

    def page(self) -> str:
        """One page of HTML to explore the result in a browser."""
        raise AccelsimError(f"there is no page of {self.headline}")

    def drawings(self) -> Drawings:
        """What can be drawn."""
        return {}

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name."""
        return {"result.json": to_json(self.to_dict()).encode()}

    def __repr__(self) -> str:
        text = f"<{type(self).__name__} {self.headline}>"
        return text if len(text) <= _WIDEST else text[: _WIDEST - 4] + "...>"

    def __str__(self) -> str:
        return self.headline

    def report(self, width: int = _WIDEST, *, verbose: bool = False) -> str:
        """Write what the command prints: result first, certificate last.

        Parameters
        ----------
        width : int
            Letters beside each other.
        verbose : bool
            With footnotes, and what is in no total.
        """
        before, self.verbose = self.verbose, verbose
        try:
            return written(self.parts(), width)
        finally:
            self.verbose = before

    def _repr_html_(self) -> str:
        return written_html(self.parts(), _WIDEST)

    @property
    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Tables of the report by name: rows of raw values, with the unit in their names."""
        found: dict[str, list[dict[str, Any]]] = {}
        for part in self.parts():
            if isinstance(part, Table):
                found.setdefault(part.name, []).extend(map(dict, part.rows))
        return {name: rows for name, rows in found.items() if rows}

    def to_pandas(self, table: str = "") -> DataFrame:
        """Give a table of the report as a pandas DataFrame; by default the first.

        Parameters
        ----------
        table : str
            A name of `tables`.

        Raises
        ------
        AccelsimError
            If pandas is not installed (`pip install 'accelsim[pandas]'`).
        ValueError
            If there is no such table.
        """
        require("pandas", "tables need it", "pandas")
        from pandas import DataFrame

        tables = self.tables
        name = table or next(iter(tables), "")
        if name not in tables:
            raise ValueError(_no(table, "table", tables))
        return DataFrame(tables[name])

    def plot(self, kind: str = "", ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the result.

        Parameters
        ----------
        kind : str
            What to draw; by default the picture that says most.
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure in accelsim's style.

        Raises
        ------
        ValueError
            If there is no such picture of it.
        """
        drawings = self.drawings()
        name = kind or next(iter(drawings), "")
        if name not in drawings:
            raise ValueError(_no(kind, "picture", drawings))
        return drawings[name](ax=ax, **options)

    def save(self, directory: str | PathLike[str]) -> list[Path]:
        """Write the result into a folder, which is made where it does not exist: what `-o` writes.

        Returns
        -------
        list of Path
            The files.

        Raises
        ------
        AccelsimError
            If the folder cannot be written.
        """
        refuse_directory(directory)
        return write_directory(directory, self.files())


def _no(name: str, what: str, known: Iterable[str]) -> str:
    hint = near_miss(name, list(known)) if name else ""
    return f"no {what} '{name}'; {hint + ' ' if hint else ''}{what}s: {', '.join(known) or 'none'}"
