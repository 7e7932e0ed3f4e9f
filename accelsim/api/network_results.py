"""What mapped networks are: each layer mapped, layers fused, layers on the cores of a system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.api.asked import Asked
from accelsim.api.layers import LayerResult
from accelsim.api.problem import MappingProblem
from accelsim.api.shown import Drawings, Shown, of
from accelsim.inputs.library import file_name
from accelsim.inputs.machine_tables import energy_rows, machine_json
from accelsim.inputs.workload import Einsum
from accelsim.results import to_json, write_directory
from accelsim.results.network import LayerOutcome, left_out_json, network_json, network_totals, rows_of_layers
from accelsim.results.output import map_json
from accelsim.search.result import SearchedSpace
from accelsim.show.report.search import layer_files
from accelsim.show.report.verdicts import common_space
from accelsim.show.table import Piece

if TYPE_CHECKING:
    from accelsim.designs.soc import Assigned
    from accelsim.fusion.result import FusedNetwork


@dataclass(frozen=True, slots=True)
class NetworkCertificate:
    """What is proved of all mapped layers together.

    Attributes
    ----------
    value, bound : float or None
        Sum of the objective over the layers, and its lower bound; None where a layer has none.
    gap : float or None
        How far the sum is at most above the optimum, relative to it.
    proved : bool
        Whether each layer is optimal among the mappings of `space`.
    space : SearchedSpace
        The mappings that were searched for each layer.
    """

    value: float | None
    bound: float | None
    gap: float | None
    proved: bool
    space: SearchedSpace


class NetworkResult(Shown):
    """The optimal mapping of each layer of a network.

    A layer is found by its name (`net["conv2"]`); iteration gives the names.

    Attributes
    ----------
    outcomes : list of LayerOutcome
        Each layer with its search, or why it has no valid mapping.
    """

    energy_pj: float = of("totals.energy_pj", "Energy of a run, each layer as often as it occurs [pJ].")
    cycles: int = of("totals.cycles", "Latency of a run, one layer after the other [cycles].")
    seconds: float | None = of("totals.run_time_s", "Latency of a run [s]; None where the architecture has no clock.")
    utilization: float | None = of("totals.utilization", "Share of the MACs' cycles that compute (0..1).")
    offchip_words: int = of("totals.offchip_words", "Storage words read, filled and updated at the outermost level.")

    def __init__(self, problem: MappingProblem, outcomes: Sequence[LayerOutcome], asked: Asked, stop: str) -> None:
        self.problem, self.outcomes, self.asked, self.stopped_by = problem, list(outcomes), asked, stop
        self.failed: OSError | None = None

    def __getitem__(self, name: str) -> LayerResult:
        for outcome in self.outcomes:
            if outcome.einsum.name == name and outcome.search is not None:
                return LayerResult(self.problem, outcome.einsum, outcome.search, self.asked)
        known = [outcome.einsum.name for outcome in self.outcomes]
        raise KeyError(f"no mapped layer '{name}'; layers: {', '.join(known)}")

    def __iter__(self) -> Iterator[str]:
        return iter([outcome.einsum.name for outcome in self.outcomes if outcome.search is not None])

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def unmapped(self) -> dict[str, str]:
        """Layers without a valid mapping, and why."""
        return {outcome.einsum.name: outcome.why_not for outcome in self.outcomes if outcome.search is None}

    @cached_property
    def totals(self) -> Any:
        """Totals over the mapped layers, as attributes and as a dict."""
        return _Totals(network_totals(self.outcomes, self.problem.workload.yields))

    @property
    def certificate(self) -> NetworkCertificate:
        """What is proved of all layers together."""
        total = self.totals["certificate"] or {"value": None, "bound": None, "gap": None, "proved": False}
        searches = [outcome.search for outcome in self.outcomes if outcome.search is not None]
        spaces = [search.space for search in searches] or [SearchedSpace()]
        return NetworkCertificate(**total, space=common_space(spaces))

    @property
    def headline(self) -> str:
        """The result in a line."""
        from accelsim.show.report.network import network_line

        return network_line(self.problem.workload.name, self.problem.architecture, self.outcomes)

    def parts(self) -> Iterator[Piece]:
        """What the report is made of."""
        from accelsim.show.report.network import network_report

        problem = self.problem
        names = problem.workload.name, problem.architecture
        yield from network_report(*names, self.outcomes, problem.workload.yields, problem.left_out)
        if self.stopped_by == "interrupted":
            many = f"{len(self.outcomes)} of {len(problem.workload.layers)} layers"
            yield f"Interrupted after {many}; the others are not in the total."

    def brief(self) -> Iterator[Piece]:
        """What is printed where only the headline is wanted."""
        from accelsim.show.report.network import network_headline

        yield from network_headline(self.problem.workload.name, self.problem.architecture, self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints and `result.json` holds."""
        problem = self.problem
        names, machine = (problem.workload.name, problem.architecture.name), machine_json(problem.architecture)
        provenance = problem.provenance("map", self.asked.sample, self.asked.time_limit)
        document = network_json(names, self.outcomes, problem.workload.yields, provenance, machine)
        return document | left_out_json(problem.left_out)

    def to_pandas(self, table: str = "") -> Any:
        """Give a table of the report as a pandas DataFrame; by default a row for each different layer."""
        return super().to_pandas(table or "layers")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each different layer: what a run of it costs, its share of the network, and what is proved."""
        return rows_of_layers(self.outcomes)

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name; each layer has a folder, which may be there already."""
        if self.failed is not None:
            raise self.failed
        return {**self.problem.files, "result.json": to_json(self.to_dict()).encode()}

    def save(self, directory: str | PathLike[str]) -> list[Path]:
        """Write the result into a folder, and each layer into a folder below."""
        found = super().save(directory)
        folders = layer_folders(self.problem.workload.layers)
        for outcome in self.outcomes:
            if outcome.search is not None:
                files = layer_files_of(self.problem, outcome, self.asked)
                found += write_directory(Path(directory) / folders[outcome.einsum.name], files)
        return found

    def drawings(self) -> Drawings:
        """What can be drawn."""
        from accelsim.show.plots.result import plot_network

        results = [(o.einsum.repeat, o.search.best) for o in self.outcomes if o.search is not None]
        names = self.problem.workload.name, self.problem.architecture.name
        return {"network": partial(plot_network, *names, results)}


def layer_files_of(problem: MappingProblem, outcome: LayerOutcome, asked: Asked) -> dict[str, bytes]:
    """Files of a layer of a network."""
    search = outcome.search
    assert search is not None
    provenance = problem.provenance("map", asked.sample, asked.time_limit)
    document = {**map_json(search, provenance, machine_json(problem.architecture)), **outcome.zeros}
    return layer_files(search.best, search, provenance, document)


def layer_folders(layers: Sequence[Einsum]) -> dict[str, str]:
    """Folder of each layer: its name as that of a file, and no two alike."""
    found: dict[str, str] = {}
    for layer in layers:
        folder = file_name(layer.name)
        while folder.casefold() in {other.casefold() for other in found.values()} | {"result.json"}:
            folder += "_"
        found[layer.name] = folder
    return found


class _Totals(dict[str, Any]):
    """Totals by key, which are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class FusionResult(Shown):
    """Which layers of a network to fuse, at which level and with which tiles, and what it gains.

    Attributes
    ----------
    found : accelsim.fusion.result.FusedNetwork
        Segments, totals and certificate.
    """

    def __init__(self, problem: MappingProblem, found: FusedNetwork, seconds: float | None) -> None:
        self.problem, self.found, self.time_limit = problem, found, seconds

    energy_pj: float = of("found.totals.energy_pj", "Energy of a run, fused [pJ].")
    cycles: int = of("found.totals.cycles", "Latency of a run, fused [cycles].")
    segments: Any = of("found.segments", "Layers in groups: fused, or one layer that is not.")
    certificate: Any = of("found.certificate", "What is proved.")
    stopped_by: str = of("found.stop", "Why the search ended.")

    @property
    def headline(self) -> str:
        """The result in a line."""
        from accelsim.show.report.network import fusion_line

        return fusion_line(self.found)

    def parts(self) -> Iterable[Piece]:
        """What the report is made of."""
        from accelsim.show.report.network import fusion_report

        return fusion_report(self.found)

    def brief(self) -> Iterable[Piece]:
        """What is printed where only the headline is wanted."""
        from accelsim.show.report.network import brief

        return brief(self.found)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints."""
        from accelsim.fusion.result import fusion_json

        provenance = replace(self.problem.provenance("fuse"), seconds=self.time_limit)
        return fusion_json(self.found, provenance, energy_rows(self.problem.architecture))

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name."""
        from accelsim.fusion.certificate import fusion_certificate
        from accelsim.show.plots import figure_files

        written = {"fusion.json": self.to_dict(), "fusion_certificate.json": fusion_certificate(self.found)}
        texts = {name: to_json(each).encode() for name, each in written.items() if each is not None}
        return {**texts, **figure_files("fusion", self.plot()), **figure_files("loop_tree", self.plot("tree"))}

    def page(self) -> str:
        """One page of HTML: the report with the loop trees."""
        from accelsim.show.html import fusion_page

        return fusion_page(self.found)

    def drawings(self) -> Drawings:
        """What can be drawn."""
        from accelsim.show.plots.loop_tree import plot_loop_tree
        from accelsim.show.plots.result import plot_fusion

        return {"fusion": partial(plot_fusion, self.found), "tree": partial(plot_loop_tree, self.found)}


class SystemResult(Shown):
    """A network on the cores of a system: who runs which layer, and what that costs.

    Attributes
    ----------
    found : accelsim.designs.soc.Assigned
        Costs of each layer on each core, and the assignment.
    """

    def __init__(self, found: Assigned) -> None:
        self.found = found

    energy_pj: float = of("found.energy_pj", "Energy of a run [pJ].")
    gap: float = of("found.gap", "How far the objective is at most above the optimum, relative to it.")
    proved: bool = of("found.proved", "Whether no other assignment is better.")

    @property
    def schedule(self) -> list[dict[str, Any]]:
        """A row for each layer: its cores, when it starts [s], how long it takes [s], its energy [pJ]."""
        from accelsim.designs.soc import layer_rows

        return layer_rows(self.found)

    @property
    def headline(self) -> str:
        """The result in a line."""
        from accelsim.show.report.network import system_line

        return system_line(self.found)

    def parts(self) -> Iterable[Piece]:
        """What the report is made of."""
        from accelsim.show.report.network import system_report

        return system_report(self.found)

    def brief(self) -> Iterable[Piece]:
        """What is printed where only the headline is wanted."""
        from accelsim.show.report.network import system_verdict

        return system_verdict(self.found)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints."""
        from accelsim.designs.soc import system_json

        return system_json(self.found)

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name."""
        return {"system.json": to_json(self.to_dict()).encode()}
