"""Sweeps over designs of an architecture: from a file, or from Python; run, resumed and read back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from accelsim.api.shown import Drawings, Shown
from accelsim.designs.store import Explored, OnSweepProgress
from accelsim.designs.sweep import COLUMNS, OBJECTIVES, Sweep, load_sweep
from accelsim.designs.tables import read_tables, where
from accelsim.inputs.library import find
from accelsim.inputs.source import Dumper
from accelsim.results import refuse_directory, write_directory
from accelsim.results.cache import default_folder
from accelsim.show.report.tables import designs_report, sweep_end, sweep_head, sweep_lines
from accelsim.show.table import Piece

_ALIASES = {"seconds": "time", "latency": "time"}
"""Names of objectives that a sweep file calls otherwise."""
_OBJECTIVES = ("energy", "cycles")
_OF_FILE = ("joint", "within")
"""Keys that may be given beside a sweep file."""


class SweepResult(Shown):
    """Designs of an architecture, what each costs, and which are Pareto-optimal.

    Attributes
    ----------
    folder : Path
        Where finished work is kept; the same sweep goes on from there.
    about : dict
        Name, parameters, objectives and inputs.
    designs : list of dict
        A row for each design: its parameters, status, costs; `front` where no other design dominates it.
    """

    def __init__(
        self,
        folder: Path,
        about: Mapping[str, Any],
        every: Sequence[Mapping[str, Any]],
        explored: Explored | None = None,
        chosen: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.folder, self.about, self.every, self.explored = folder, about, list(every), explored
        self.chosen = chosen is not None
        self.designs = [dict(row) for row in (every if chosen is None else chosen)]

    def where(self, condition: str | None = None, *, front: bool = False) -> SweepResult:
        """Keep designs that meet a condition such as `pe.x >= 8 and cycles < 1e6`, or those of the front."""
        rows = where(self.designs, condition, self.about["parameters"]) if condition else self.designs
        rows = [row for row in rows if row["front"]] if front else rows
        chosen = rows if condition or front or self.chosen else None
        return SweepResult(self.folder, self.about, self.every, self.explored, chosen)

    def pareto(self) -> SweepResult:
        """Keep the Pareto-optimal designs."""
        return self.where(front=True)

    @property
    def headline(self) -> str:
        """The result in a line."""
        best = sum(bool(row["front"]) for row in self.every)
        return f"{self.about['name']}: {len(self.every)} designs, {best} Pareto-optimal"

    def brief(self) -> Iterator[Piece]:
        """What is printed where only the summary is wanted."""
        yield from sweep_lines(self.about, self.every, self.explored)

    def parts(self) -> Iterator[Piece]:
        """What the report is made of."""
        yield from sweep_head(self.about, self.every)
        yield from designs_report(self.about, self.designs, chosen=self.chosen, every=self.verbose)
        yield from sweep_end(self.every, self.explored, self.folder)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints."""
        return {**self.about, "designs": self.designs}

    def to_pandas(self, table: str = "") -> Any:
        """Give the designs as a pandas DataFrame."""
        from pandas import DataFrame

        return super().to_pandas(table) if table else DataFrame(self.designs)

    def page(self) -> str:
        """One page of HTML to explore the designs in a browser."""
        from accelsim.show.html import sweep_report

        return sweep_report(self.designs, self.about)

    def drawings(self) -> Drawings:
        """What can be drawn."""
        from accelsim.show.plots.search import PLOTTED

        def drawn(plot: Any) -> Any:
            return lambda ax=None, **names: plot(self.designs, _with_axes(self.about, **names), ax)

        return {kind: drawn(plot) for kind, plot in PLOTTED.items()}


def _with_axes(about: Mapping[str, Any], x: str = "", y: str = "") -> Mapping[str, Any]:
    """The same with the columns that are drawn across and up.

    Examples
    --------
    >>> _with_axes({"columns": ["energy_pj", "time_s"]}, x="energy", y="seconds")["axes"]
    ('energy_pj', 'time_s')
    >>> _with_axes({"columns": ["energy_pj", "time_s"]}, y="seconds")["axes"]
    ('energy_pj', 'time_s')
    """
    from accelsim.show.plots.search import two_costs

    given_x, given_y = (COLUMNS.get(_ALIASES.get(name, name), name) for name in (x, y))
    across, up = two_costs(about)
    chosen = given_x or (up if across == given_y else across), given_y or (across if up == given_x else up)
    return {**about, "axes": chosen} if x or y else about


def sweep(
    arch: Any,
    workloads: Any = None,
    *,
    params: Mapping[str, Any] | None = None,
    objectives: Sequence[str] = _OBJECTIVES,
    conditions: Sequence[str] = (),
    folder: str | PathLike[str] | None = None,
    jobs: int | None = None,
    on_progress: OnSweepProgress | None = None,
    **more: Any,
) -> SweepResult:
    """Map networks onto many designs of an architecture, and find the Pareto-optimal ones.

    Parameters
    ----------
    arch : str, path or dict
        An architecture with parameters; or, without `workloads`, a sweep file.
    workloads : str, path, dict, or a list of them
        Also as a sweep file has them, such as `{"workload": "resnet50", "layers": ["conv1", "fc"]}`.
    params : dict
        Values of parameters: a list or `range` of each is varied, a single value is set.
    objectives : list of str
        Some of `energy`, `cycles`, `seconds`, `edp`, `power`, `area`.
    conditions : list of str
        Conditions on designs, such as `pe.x * pe.y <= 336`.
    folder : str or path, optional
        Where finished work is kept; default: a folder for this sweep in the user's cache. The same sweep goes on there.
    jobs : int, optional
        Processes; default: one for each core. The result does not depend on it.
    on_progress : callable, optional
        Called with a `SweepProgress`.
    **more
        Keys of a sweep file, such as `prune`, `budgets`, `strategy`, `joint`; beside a sweep file `joint` and `within`.

    Raises
    ------
    InputError
        If a parameter, a condition or an objective is unknown.

    Examples
    --------
    >>> import accelsim
    >>> found = accelsim.sweep("two_level", "gemm", params={"buffer": ["16 B", "32 B", "64 B"]}, jobs=1)
    >>> found
    <SweepResult two_level: 3 designs, 1 Pareto-optimal>
    >>> found.pareto().to_pandas()["buffer"].tolist()
    ['64 B']
    """
    if workloads is None:
        if params or conditions or tuple(objectives) != _OBJECTIVES or set(more) - set(_OF_FILE):
            raise TypeError(f"a sweep file has its own keys; given beside it: {', '.join(_OF_FILE)}")
        read = load_sweep(arch, **more)
        target = Path(folder) if folder is not None else _folder_of(str(arch) + (repr(more) if more else ""))
        return run_sweep(read, target, jobs=jobs, on_progress=on_progress)
    files: dict[str, bytes] = {}
    several = list(workloads) if isinstance(workloads, list | tuple) else [workloads]
    body = {
        "name": _title(arch),
        "architecture": _file_of(arch, "architecture", "arch", files),
        "workloads": [_workload_of(each, f"workload_{at}", files) for at, each in enumerate(several, 1)],
        "parameters": {name: list(value) for name, value in (params or {}).items() if _varied(value)},
        "objectives": [_ALIASES.get(name, name) for name in objectives],
        **more,
    }
    fixed = {name: value for name, value in (params or {}).items() if not _varied(value)}
    body |= {"set": fixed} if fixed else {}
    body |= {"conditions": list(conditions)} if conditions else {}
    if not body["parameters"]:
        raise TypeError("params: give values of a parameter as a list, such as {'glb': ['54 KiB', '108 KiB']}")
    unknown = [name for name in body["objectives"] if name not in OBJECTIVES]
    if unknown:
        raise TypeError(f"objectives: '{unknown[0]}' is none of {', '.join(OBJECTIVES)}, seconds")
    text = yaml.dump({"sweep": body}, Dumper=Dumper, sort_keys=False).encode()
    target = Path(folder) if folder is not None else _folder_of(text.decode() + repr(files))
    refuse_directory(target)
    write_directory(target, {**files, "sweep.yaml": text})
    return run_sweep(load_sweep(target / "sweep.yaml"), target, jobs=jobs, on_progress=on_progress)


def _varied(value: Any) -> bool:
    return isinstance(value, list | tuple | range)


def _title(arch: Any) -> str:
    if isinstance(arch, Mapping):
        return str(arch.get("architecture", {}).get("name", "sweep"))
    return Path(arch).stem if isinstance(arch, str | PathLike) and "\n" not in str(arch) else "sweep"


def _workload_of(source: Any, name: str, files: dict[str, bytes]) -> str | dict[str, Any]:
    """A workload as a sweep file names it: a file, or some layers of one with their weight."""
    if isinstance(source, Mapping) and isinstance(source.get("workload"), str | PathLike):
        return {**source, "workload": _file_of(source["workload"], name, "workloads", files)}
    return _file_of(source, name, "workloads", files)


def _file_of(source: Any, name: str, kind: str, files: dict[str, bytes]) -> str:
    """Name of the file of a source; a dict or a text becomes a file of the sweep."""
    if isinstance(source, Mapping) or (isinstance(source, str) and "\n" in source):
        text = source if isinstance(source, str) else yaml.dump(dict(source), Dumper=Dumper, sort_keys=False)
        files[f"{name}.yaml"] = text.encode()
        return f"{name}.yaml"
    if not isinstance(source, str | PathLike):
        what = "expected a name (`accelsim list`), a path, YAML text or a dict"
        raise TypeError(f"{kind}: {what}, as each process reads it anew; got {type(source).__name__}")
    path = Path(source)
    return str(path.resolve() if path.exists() else source) if find(source, kind) != path else str(path.resolve())


def _folder_of(content: str) -> Path:
    return default_folder() / "sweeps" / hashlib.sha256(content.encode()).hexdigest()[:16]


def run_sweep(
    read: Sweep,
    folder: Path,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    on_progress: OnSweepProgress | None = None,
    on_cluster: Callable[[str], None] = lambda _: None,
    on_trouble: Callable[[str], None] = lambda _: None,
) -> SweepResult:
    """Run a sweep, or go on with it, and keep the results in a folder."""
    from accelsim.designs.run import explore

    refuse_directory(folder)
    explored = explore(
        read, folder, workers=jobs, scheduler=scheduler, on_progress=on_progress, on_cluster=on_cluster,
        on_trouble=on_trouble,
    )  # fmt: skip
    about, rows, later = read_tables(explored.store.folder)
    if later:
        on_trouble(later)
    return SweepResult(Path(explored.store.folder), about, rows, explored)


def load_sweep_result(folder: str | PathLike[str]) -> SweepResult:
    """Read the results of a sweep from their folder.

    Raises
    ------
    AccelsimError
        If they cannot be read, or the sweep was stopped before they were written.
    """
    from accelsim.api.problem import LOG

    about, rows, later = read_tables(folder)
    if later:
        LOG.warning("%s", later)
    return SweepResult(Path(folder), about, rows)
