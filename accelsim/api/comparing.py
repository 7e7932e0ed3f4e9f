"""Compare results, read them back, and check them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from accelsim import __version__
from accelsim.api.asked import Asked
from accelsim.api.layers import Evaluation, LayerResult
from accelsim.api.problem import MappingProblem, find_files, find_layer, read_problem
from accelsim.api.shown import Shown
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.library import hash_file, read_json
from accelsim.inputs.units import listed
from accelsim.inputs.workload import without_other_operations
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.results import InputFile, Provenance
from accelsim.results.output import read_mapping_json
from accelsim.results.verifying import Check, Task, refuse_other_forms, verify_layer, verify_rest
from accelsim.results.worth import difference_rows
from accelsim.search.stopping import Budget, OnProgress
from accelsim.show.report.explain import checks_report, verdict_line
from accelsim.show.report.mapping import differences_report, layers_report
from accelsim.show.table import Piece


class Comparison(Shown):
    """Two mappings, or the layers of two results, side by side.

    Attributes
    ----------
    names : tuple of str
        What they are called.
    rows : list of dict
        A row for each figure, those that differ first; or for each layer, those whose energies differ most first.
    layers : bool
        Whether the rows are layers.
    """

    def __init__(self, names: tuple[str, str], rows: Sequence[Mapping[str, Any]], *, layers: bool) -> None:
        self.names, self.rows, self.layers = names, list(rows), layers

    @property
    def headline(self) -> str:
        """The result in a line."""
        if self.layers:
            return f"{len(self.rows)} layers: {'; '.join(self.names)}"
        differ = sum(row["differs"] for row in self.rows)
        return f"{differ} of {len(self.rows)} figures differ: {'; '.join(self.names)}"

    def parts(self) -> Iterable[Piece]:
        """What the report is made of."""
        return (layers_report if self.layers else differences_report)(self.names, self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints."""
        names = dict(zip("ab", self.names, strict=True))
        return {**names, "layers" if self.layers else "figures": self.rows}


class KeptResult(Shown):
    """A result.json with the inputs that it names, read back.

    Attributes
    ----------
    document : dict
        What the file holds.
    problem : MappingProblem
        Its inputs, as they are now.
    mappings : dict of Evaluation
        Each mapping in it, evaluated anew, by layer.
    """

    def __init__(self, path: Path, document: dict[str, Any], problem: MappingProblem) -> None:
        self.path, self.document, self.problem = path, document, problem

    def mappings_of(self, layer: str | None = None) -> dict[str, Evaluation]:
        """Mappings of the result, evaluated anew, by layer; of one layer only where it is named."""
        found = {}
        for entry in self.document.get("layers", [self.document]):
            if "result" in entry and layer in (None, entry["result"]["layer"]):
                einsum = find_layer(self.problem.workload, entry["result"]["layer"], self.problem.given["workload"])
                assert einsum is not None
                result = evaluate(self.problem.architecture, einsum, read_mapping_json(entry["result"]))
                found[einsum.name] = Evaluation(self.problem, einsum, result)
        if not found:
            raise AccelsimError(f"{self.path}: holds no mapping" + (f" of the layer '{layer}'" if layer else ""))
        return found

    @property
    def mappings(self) -> dict[str, Evaluation]:
        """Each mapping of the result, evaluated anew, by layer."""
        return self.mappings_of()

    @property
    def headline(self) -> str:
        """The result in a line."""
        return f"{self.path} of accelsim {self.document['accelsim']}: {self.problem.architecture.name}"

    def parts(self) -> Iterable[Piece]:
        """What the report is made of: that of each mapping."""
        return (part for each in self.mappings.values() for part in each.parts())

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values."""
        return self.document

    @property
    def changed(self) -> list[str]:
        """Which input files are not those that the result was made from."""
        what = "has changed since the result was written"
        return [
            f"{path}: {what} (sha256 {now[:12]}, was {was[:12]})"
            for kind, path in self.problem.paths.items()
            if (now := hash_file(path)) != (was := str(self.document["inputs"][kind].get("sha256")))
        ]

    def verify(
        self, *, time_limit: float | None = None, jobs: int | None = None, on_progress: OnProgress | None = None
    ) -> Checks:
        """Check the mappings, their figures and their certificates; bounds are searched anew.

        Parameters
        ----------
        time_limit : float, optional
            Of each search [s].
        """
        asked = Asked(time_limit=time_limit, jobs=jobs, on_progress=on_progress)
        try:
            return Checks(self, _verify_layers(self, asked))
        except InputError:
            raise  # it names its file
        except AccelsimError as error:
            raise AccelsimError(f"{self.path}: {error}") from None


class Checks(Shown):
    """What a check of a result found.

    Attributes
    ----------
    checks : list of (str, list of Check)
        By layer and architecture.
    """

    def __init__(self, kept: KeptResult, checks: Sequence[tuple[str, list[Check]]]) -> None:
        self.kept, self.checks = kept, list(checks)

    @property
    def every(self) -> list[Check]:
        """All checks."""
        return [check for _, several in self.checks for check in several]

    @property
    def agrees(self) -> bool:
        """Whether all that could be checked is right."""
        return all(check.agrees is not False for check in self.every)

    @property
    def headline(self) -> str:
        """The result in a line."""
        return str(verdict_line(self.every))

    def parts(self) -> Iterable[Piece]:
        """What the report is made of."""
        return [
            *(part for name, several in self.checks for part in checks_report(name, several)),
            verdict_line(self.every),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values."""
        rows = [{"what": name, **vars(check)} for name, several in self.checks for check in several]
        return {"agrees": self.agrees, "checks": rows}


def load_result(path: str | PathLike[str]) -> KeptResult:
    """Read a result.json, or the one of a folder that `save` or `-o` wrote, and the input files that it names.

    Raises
    ------
    AccelsimError
        If there is no such file, or it is not a result.
    InputError
        If the input files have mistakes.
    """
    file = Path(path)
    if not file.exists():
        raise AccelsimError(f"{file}: no such file or folder; name what `map -o` or `eval -o` wrote")
    if file.is_dir():
        file = file / "result.json"
        if not file.is_file():
            raise AccelsimError(f"{path}: holds no result.json")
    document = read_json(file)
    if not isinstance(document, dict) or not {"result", "layers", "front"} & set(document):
        raise AccelsimError(f"{file}: not a result.json of `accelsim map`")
    try:
        refuse_other_forms(document)
    except AccelsimError as error:
        raise AccelsimError(f"{file}: {error}") from None
    try:
        names = {kind: str(entry["file"]) for kind, entry in document["inputs"].items()}
        beside = {kind: file.parent / name for kind, name in names.items() if name == f"{kind}.yaml"}
        names |= {kind: str(path) for kind, path in beside.items() if path.is_file()}
        if lacking := {"architecture", "workload"} - set(names):
            what = f"its {listed(sorted(lacking))} came from an object, which is no file"
            raise AccelsimError(
                f"{file}: {what}; give accelsim.map a name, a path, text or a dict to read results back"
            )
        params = {str(name): str(value) for name, value in document["overrides"].items()}
        limits = tuple(map(str, document["limits"]))
        find_files(names)
        given: dict[str, Any] = {"mapping": names.get("mapping"), "constraints": names.get("constraints", "none")}
        problem = read_problem(names["architecture"], names["workload"], params=params, require=limits, **given)
    except (KeyError, TypeError, AttributeError) as error:
        lacks = "it lacks " if isinstance(error, KeyError) else ""
        raise AccelsimError(f"{file}: not what `accelsim map` writes: {lacks}{error}") from None
    recorded = {kind: str(entry["file"]) for kind, entry in document["inputs"].items()}
    return KeptResult(file, document, replace(problem, given=recorded))


def diff(a: Any, b: Any, *, layer: str | None = None) -> Comparison:
    """Compare two results: a folder or file that was saved, or what `evaluate`, `map_layer` or `map_network` returned.

    Parameters
    ----------
    a, b : str, path, Evaluation, LayerResult or NetworkResult
    layer : str, optional
        Compare this layer only.

    Raises
    ------
    AccelsimError
        If they have no layer in common.
    TypeError
        If one is none of these.

    Examples
    --------
    >>> import accelsim
    >>> given = accelsim.evaluate("eyeriss", "conv", "eyeriss_row_stationary")
    >>> print(accelsim.diff(given, given))
    0 of 56 figures differ: vgg16_conv3_2 on eyeriss: 12.28 mJ, 55.05 ms; vgg16_conv3_2 on eyeriss: 12.28 mJ, 55.05 ms
    """
    names = [
        str(given) if isinstance(given, str | PathLike) else getattr(given, "headline", side)
        for given, side in ((a, "a"), (b, "b"))
    ]
    return comparison((names[0], names[1]), [_mappings_of(a, layer), _mappings_of(b, layer)])


def comparison(names: tuple[str, str], sides: Sequence[Mapping[str, Result]]) -> Comparison:
    """Compare mappings by layer."""
    one, other = sides
    if len(one) == len(other) == 1:
        return Comparison(names, difference_rows(*(next(iter(side.values())) for side in sides)), layers=False)
    both = [name for name in one if name in other]
    if not both:
        raise AccelsimError(f"{names[0]} and {names[1]} have no layer in common; --layer chooses one of each")
    rows = [{"layer": name, **_costs(one[name], "a"), **_costs(other[name], "b")} for name in both]
    return Comparison(names, sorted(rows, key=lambda row: -abs(row["energy_pj_b"] - row["energy_pj_a"])), layers=True)


def _mappings_of(given: Any, layer: str | None) -> dict[str, Result]:
    from accelsim.api.network_results import NetworkResult

    if isinstance(given, str | PathLike):
        return {name: found.result for name, found in load_result(given).mappings_of(layer).items()}
    if isinstance(given, NetworkResult):
        return {name: given[name].result for name in given if layer in (None, name)}
    if isinstance(given, Evaluation | LayerResult):
        return {given.layer.name: given.result}
    raise TypeError(f"diff: expected a saved result or one of accelsim.map or evaluate, got {type(given).__name__}")


def _costs(result: Result, side: str) -> dict[str, Any]:
    return {f"energy_pj_{side}": result.energy_pj, f"cycles_{side}": result.cycles}


def _verify_layers(kept: KeptResult, asked: Asked) -> list[tuple[str, list[Check]]]:
    """Check each layer of a result, and then what is around them."""
    problem, document = kept.problem, kept.document
    machine, layers = problem.architecture, problem.workload.layers
    if "left_out" in document:
        layers = without_other_operations(problem.workload)[0].layers
    entries = document.get("layers", [document])
    if "layers" not in document:
        name = (document["result"] if "result" in document else document["front"])["layer"]
        layers = tuple(filter(None, [find_layer(problem.workload, name, str(problem.paths["workload"]))]))
    if len(entries) > len(layers):
        raise AccelsimError(f"it has {len(entries)} layers, and {problem.paths['workload']} has {len(layers)}")
    found, searches = [], []
    budget, same = Budget(seconds=asked.time_limit), document["accelsim"] == __version__
    for entry, layer in zip(entries, layers, strict=False):
        task = Task(machine, layer, problem.constraints(layer), budget, asked.jobs, asked.telling(layer.name), same)
        checks, search = verify_layer(entry, task)
        found.append((f"{layer.name} on {machine.name}", checks))
        searches.append(search)
    if any(search is None and "search" in entry for entry, search in zip(entries, searches, strict=True)):
        return found  # sums need all mappings
    command, hashes = "map" if {"search", "front", "layers"} & set(document) else "eval", document["inputs"]
    files = (InputFile(kind, problem.given[kind], hashes[kind]["sha256"]) for kind in problem.paths)
    provenance = Provenance(command, tuple(files), problem.params, limits=problem.require)
    rest = verify_rest(document, provenance, machine, problem.workload, searches)
    return [*found, (f"{problem.workload.name} on {machine.name}", [rest])]
