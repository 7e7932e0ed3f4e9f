"""Mappings of one layer: given, optimal, Pareto-optimal, all of them; and what the optimum depends on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from accelsim.api.asked import Asked
from accelsim.api.problem import MappingProblem
from accelsim.api.shown import Drawings, Shown, of
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result
from accelsim.results import Provenance, to_json
from accelsim.results.cache import map_with_cache
from accelsim.results.output import evaluation_json, front_json, map_json, zeros_json
from accelsim.search.result import Certificate, FrontResult, SearchedSpace, SearchResult
from accelsim.show.report import energy
from accelsim.show.report import search as reports
from accelsim.show.report.headline import cost_line, headline
from accelsim.show.report.mapping import best_report, layout_report, result_report, sparse_report
from accelsim.show.report.verdicts import known, verdict
from accelsim.show.table import Piece, bold

if TYPE_CHECKING:
    from accelsim.model.sparsity.result import SparseResult
    from accelsim.population.result import Spread
    from accelsim.search.zeros import BestWithZeros

_QUICK_SPACE, _QUICK_NODES = 3e14, 50_000
"""Mappings of a map space, and nodes of a search of it, above which the other objective is left out: up to these, its
search took at most 3.5 s on each architecture that ships, and 0.2 s as a median."""


def search_layer(problem: MappingProblem, layer: Einsum, asked: Asked, what: str = "") -> SearchResult:
    """Search the map space of a layer, or take the answer that was kept."""
    return map_with_cache(
        problem.architecture, layer, asked.options, asked.store, constraints=problem.constraints(layer),
        budget=asked.budget, workers=asked.jobs, on_progress=asked.telling(what or layer.name),
    )  # fmt: skip


def search_sparse(problem: MappingProblem, layer: Einsum, search: SearchResult, asked: Asked) -> BestWithZeros | None:
    """Search for the best mapping of a layer with sparsity."""
    from accelsim.search.zeros import best_with_zeros

    return best_with_zeros(
        problem.architecture, layer, search, problem.constraints(layer), workers=asked.jobs,
        on_progress=asked.telling(f"{layer.name} with sparsity"),
    )  # fmt: skip


class Evaluation(Shown):
    """What one mapping of a layer costs.

    Attributes
    ----------
    result : Result
        All counts: by level and tensor, network and component.
    architecture : Architecture
    layer : Einsum
    """

    energy_pj: float = of("result.energy_pj", "Energy [pJ].")
    pj_per_mac: float = of("result.pj_per_mac", "Energy a MAC [pJ].")
    cycles: int = of("result.cycles", "Latency [cycles].")
    seconds: float | None = of("result.seconds", "Latency [s]; None where the architecture has no clock.")
    edp: float = of("result.edp", "Energy x latency [pJ x cycle].")
    power_w: float | None = of("result.power_w", "Average power [W].")
    utilization: float = of("result.utilization", "Share of the MACs' cycles that compute (0..1).")
    offchip_words: int = of("result.offchip_words", "Storage words read, filled and updated at the outermost level.")
    bottleneck: str = of("result.bottleneck", "Component that sets the latency.")
    valid: bool = of("result.valid", "Whether it fits the architecture.")
    mapping: LoopNest = of("result.mapping", "The loop nest.")

    def __init__(self, problem: MappingProblem, layer: Einsum, result: Result) -> None:
        self.problem, self.layer, self.result = problem, layer, result
        self.architecture = problem.architecture

    @property
    def headline(self) -> str:
        """The result in a line."""
        return cost_line(self.result)

    @cached_property
    def sparse(self) -> SparseResult | None:
        """What sparsity saves of the mapping; None where the architecture has no sparse optimizations."""
        from accelsim.model.sparsity import sparse_result

        return sparse_result(self.architecture, self.layer, self.result)

    def brief(self) -> Iterator[Piece]:
        """What is printed where only the headline is wanted."""
        return headline(self.result, self.architecture, self.layer)

    def parts(self) -> Iterator[Piece]:
        """What the report is made of."""
        return itertools.chain(
            result_report(self.result, self.architecture, self.layer, verbose=self.verbose), sparse_report(self.sparse)
        )

    @cached_property
    def provenance(self) -> Provenance:
        """Where it comes from."""
        return self.problem.provenance("eval")

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints and `result.json` holds."""
        from accelsim.inputs.machine_tables import machine_json

        zeros = zeros_json(self.sparse)
        return evaluation_json(self.result, self.provenance, machine_json(self.architecture), zeros)

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name."""
        return self.problem.files | reports.layer_files(self.result, None, self.provenance, self.to_dict())

    def drawings(self) -> Drawings:
        """What can be drawn."""
        from accelsim.model.limits import stand
        from accelsim.show.plots import diagram, result

        def roofline(ax: Any = None) -> Any:
            stands = [stand(self.architecture, self.layer, self.result)]
            return diagram.plot_machine_roofline(self.architecture, stands, ax)

        return {
            "energy": partial(result.plot_energy, self.result),
            "mapping": partial(diagram.plot_mapping, self.result, self.architecture),
            "reuse": partial(result.plot_reuse, self.result, self.layer),
            "cycles": partial(result.plot_time, self.result),
            "architecture": partial(diagram.plot_architecture, self.architecture),
            "roofline": roofline,
        }


class LayerResult(Evaluation):
    """The best mapping of a layer that a search found, and what is proved about it.

    Attributes
    ----------
    search : SearchResult
        How the search went: the space, why it ended, mappings listed.
    certificate : Certificate or None
        What is proved: the optimum's lower bound and the gap, of the space in `search.space`; None after random search.
    """

    stopped_by: str = of("search.stop", "Why the search ended: `exhausted`, `timeout`, `memory`, `interrupted`, ...")
    cached: str = of("search.kept", "When the answer was kept on disk; empty if it was searched now.")
    ties: list[tuple[Result, ...]] = of("search.ties", "Listed mappings by value of the objective, the best first.")

    def __init__(self, problem: MappingProblem, layer: Einsum, search: SearchResult, asked: Asked) -> None:
        super().__init__(problem, layer, search.best)
        self.search, self.asked = search, asked

    @property
    def best(self) -> Evaluation:
        """The best mapping by itself."""
        return Evaluation(self.problem, self.layer, self.result)

    @property
    def certificate(self) -> Certificate | None:
        """What is proved of all mappings that were searched."""
        return self.search.proof

    @property
    def top(self) -> list[Evaluation]:
        """The mappings that were listed, the best first."""
        return [Evaluation(self.problem, self.layer, each) for each in self.search.ranked]

    @property
    def headline(self) -> str:
        """The result in a line."""
        return f"{super().headline}, {verdict(self.search)}"

    @cached_property
    def best_sparse(self) -> BestWithZeros | None:
        """The best mapping with sparsity; None where the architecture has no sparse optimizations."""
        if self.sparse is None or self.search.stop == "interrupted":
            return None
        return search_sparse(self.problem, self.layer, self.search, self.asked)

    @cached_property
    def other(self) -> SearchResult | None:
        """Even optimum of cycles beside one of energy, or the other way round, where the problem is small."""
        from accelsim.mapspace.space import MapSpace
        from accelsim.model.encode import encode

        search = self.search
        proof = search.parts[0] if search.parts else search.certificate
        other = {"energy": "cycles", "cycles": "energy"}.get(search.objective)
        if other is None or search.method != "exact" or proof is None or not proof.proved or proof.nodes > _QUICK_NODES:
            return None
        size = search.parts[0].space.size if search.parts else search.space_size
        if search.uneven and not search.parts:
            size = MapSpace(encode(self.architecture, self.layer), self.problem.constraints(self.layer)).quick_size
        if size is None or size > _QUICK_SPACE:
            return None
        asked = replace(self.asked, objective=other, top=1, mapspace="even", factors="perfect")
        found = search_layer(self.problem, self.layer, asked, f"{self.layer.name}, {other}")
        return found if found.stop == "exhausted" else None

    @cached_property
    def population(self) -> int | None:
        """How many even mappings are valid; None where that takes long."""
        from accelsim.population.counting import count_quickly

        search = self.search
        ended = search.stop in ("timeout", "interrupted")
        narrow = bool(search.parts) or not (search.imperfect or search.padded)
        if search.certificate is None or not narrow or ended:
            return None
        return count_quickly(self.architecture, self.layer, self.problem.constraints(self.layer))

    def parts(self) -> Iterator[Piece]:
        """What the report is made of."""
        yield from result_report(
            self.result, self.architecture, self.layer, self.search, self.other, verbose=self.verbose
        )
        yield from reports.ranked_report(self.search, None if self.asked.within is not None else self.asked.most)
        yield from self.sparse_parts()
        yield from reports.search_report(self.search, self.population, self.provenance)

    def brief(self) -> Iterator[Piece]:
        """What is printed where only the headline, and what was asked for, is wanted."""
        yield from headline(self.result, self.architecture, self.layer, self.search)
        yield from reports.ranked_report(self.search, None if self.asked.within is not None else self.asked.most)

    def sparse_parts(self) -> Iterator[Piece]:
        """What the report says of sparsity."""
        if self.sparse is not None:
            yield from sparse_report(self.sparse)
            yield from best_report(self.best_sparse)

    @cached_property
    def provenance(self) -> Provenance:
        """Where it comes from."""
        return self.problem.provenance("map", self.asked.sample, self.asked.time_limit)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints and `result.json` holds."""
        from accelsim.inputs.machine_tables import machine_json

        zeros = zeros_json(self.sparse, self.best_sparse)
        return map_json(self.search, self.provenance, machine_json(self.architecture), zeros)

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name."""
        return self.problem.files | reports.layer_files(self.result, self.search, self.provenance, self.to_dict())

    def page(self) -> str:
        """One page of HTML to explore the result in a browser."""
        from accelsim.show import html

        return html.search_report(self.search, self.architecture, self.layer, list(self.sparse_parts()))


class LayoutResult(Evaluation):
    """The best mapping of a layer with its data layout.

    Attributes
    ----------
    result : Result
        The mapping without its layout; `result.layouts` has each tensor's bursts.
    kind : {"best", "worst", "given"}
        The layout: of each tensor the one with the fewest bursts, the order of ranks with the most, or those given.
    value, bound : float
        Objective with the layout; no even mapping with perfect factors and its layout has less than `bound`.
    """

    def __init__(
        self, problem: MappingProblem, base: LayerResult, kind: str, laid: Sequence[Result], open_: float
    ) -> None:
        from accelsim.model.layouts import in_bursts

        outermost, goal = problem.architecture.levels[0], Objective.parse(base.asked.objective)
        costs = [in_bursts(each, outermost, kind) for each in laid]
        values = [
            goal.of(replace(each, energy_pj=pj, cycles=cycles)) for each, (pj, cycles) in zip(laid, costs, strict=True)
        ]
        best = min(range(len(laid)), key=values.__getitem__)
        super().__init__(problem, base.layer, laid[best])
        self.base, self.kind, self.costs = base, kind, costs[best]
        self.value, self.bound = values[best], min(values[best], open_)

    @property
    def gap(self) -> float:
        """Share by which `value` may be above the optimum; 0: proved."""
        return self.value / self.bound - 1.0 if self.bound else math.inf

    @property
    def headline(self) -> str:
        """The result in a line."""
        pj, cycles = self.costs
        cost = f"{energy(pj)}, {cycles:,} cycles with the {self.kind} data layout"
        return f"{self.layer.name} on {self.architecture.name}: {cost}, {known(self.gap, SearchedSpace())}"

    def brief(self) -> Iterator[Piece]:
        """What is printed where only the headline, and what was asked for, is wanted."""
        yield bold(self.headline)
        yield from layout_report(self.result, self.architecture, self.layer)

    def parts(self) -> Iterator[Piece]:
        """What the report is made of."""
        yield bold(self.headline)
        yield from itertools.islice(super().parts(), 1, None)  # whose first line says that the mapping was given

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints and `result.json` holds."""
        pj, cycles = self.costs
        laid = {"kind": self.kind, "energy_pj": pj, "cycles": cycles, "value": self.value, "bound": self.bound}
        return {**super().to_dict(), "with_layout": laid}


class ParetoResult(Shown):
    """The mappings of a layer that no other mapping of the space dominates, in two or three metrics.

    Attributes
    ----------
    front : FrontResult
        Metrics, points and their values.
    """

    def __init__(self, problem: MappingProblem, layer: Einsum, front: FrontResult, asked: Asked) -> None:
        self.problem, self.layer, self.front, self.asked = problem, layer, front, asked

    def __len__(self) -> int:
        return len(self.front.points)

    def __getitem__(self, number: int) -> Evaluation:
        return Evaluation(self.problem, self.layer, self.front.points[number])

    @property
    def headline(self) -> str:
        """The result in a line."""
        return reports.front_line(self.front)

    def parts(self) -> Iterable[Piece]:
        """What the report is made of."""
        return reports.front_report(self.front)

    @cached_property
    def provenance(self) -> Provenance:
        """Where it comes from."""
        return self.problem.provenance("map", None, self.asked.time_limit)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints and `result.json` holds."""
        from accelsim.inputs.machine_tables import machine_json

        return front_json(self.front, self.provenance, machine_json(self.problem.architecture))

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name."""
        return self.problem.files | reports.front_files(self.front, self.provenance, self.to_dict())

    def page(self) -> str:
        """One page of HTML to explore the result in a browser."""
        from accelsim.show import html

        return html.front_report(self.front, self.problem.architecture, self.layer)

    def drawings(self) -> Drawings:
        """What can be drawn."""
        from accelsim.show.plots.search import plot_front

        return {"front": partial(plot_front, self.front)}


class SizingResult(Shown):
    """The least cost of a layer for each size of a buffer.

    Attributes
    ----------
    about : dict
        Layer, architecture, level, objective, space, whether all is proved, and the present size [B].
    sizes : list of dict
        A row for each size at which the least cost changes, the smallest first.
    """

    def __init__(self, about: Mapping[str, Any], sizes: Sequence[Mapping[str, Any]], stop: str) -> None:
        self.about, self.sizes, self.stopped_by = about, sizes, stop

    @property
    def knees(self) -> list[Mapping[str, Any]]:
        """Sizes after which more buys much less."""
        return [row for row in self.sizes if row["knee"]]

    @property
    def headline(self) -> str:
        """The result in a line."""
        return reports.sizing_line(self.about, self.sizes)

    def parts(self) -> Iterable[Piece]:
        """What the report is made of."""
        return reports.bound_report(self.about, self.sizes)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints."""
        return {**self.about, "sizes": list(self.sizes)}

    def drawings(self) -> Drawings:
        """What can be drawn."""
        from accelsim.show.plots.search import plot_bound

        return {"sizes": partial(plot_bound, self.about, self.sizes)}


class SensitivityResult(Shown):
    """How the optimum changes with half, 1.1 and two times each buffer, bandwidth, column and row.

    Attributes
    ----------
    base : LayerResult
        The optimum of the architecture as it is.
    rows : list of dict
        A row for each part.
    """

    def __init__(self, base: LayerResult, rows: Sequence[Mapping[str, Any]]) -> None:
        self.base, self.rows = base, rows

    @property
    def headline(self) -> str:
        """The result in a line."""
        return f"{self.base.headline}; {len(self.rows)} parts scaled"

    def brief(self) -> Iterator[Piece]:
        """What is printed where only the headline, and what was asked for, is wanted."""
        yield from self.base.brief()
        yield from reports.worth_report(self.base.search, self.rows)

    def parts(self) -> Iterator[Piece]:
        """What the report is made of."""
        yield from reports.worth_report(self.base.search, self.rows)
        yield from self.base.parts()

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints."""
        return {**self.base.to_dict(), "worth": list(self.rows)}

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name."""
        return self.base.files()

    def page(self) -> str:
        """One page of HTML to explore the optimum in a browser."""
        return self.base.page()

    def drawings(self) -> Drawings:
        """What can be drawn."""
        return self.base.drawings()


class SpreadResult(Shown):
    """How many valid mappings a layer has, and how their cost is distributed.

    Attributes
    ----------
    spread : Spread
        The exact count, proved extremes, near-optimal mappings, and a uniform sample.
    """

    mappings: int = of("spread.mappings", "Valid mappings.")
    best: Result = of("spread.best", "The mapping of the lowest energy.")
    near: tuple[Any, ...] = of("spread.near", "How many mappings come close to the lowest energy.")
    stopped_by: str = of("spread.stop", "Why the searches ended: `exhausted`, `timeout` or `interrupted`.")

    def __init__(self, problem: MappingProblem, layer: Einsum, spread: Spread) -> None:
        self.problem, self.layer, self.spread = problem, layer, spread

    def range(self, metric: str) -> Any:
        """Smallest and largest value of `energy` [pJ], `cycles` or `offchip_words` over all valid mappings."""
        return self.spread.range_of(metric)

    @property
    def headline(self) -> str:
        """The result in a line."""
        return f"{self.spread.workload} on {self.spread.architecture}: {reports.spread_sentence(self.spread)}"

    def parts(self) -> Iterable[Piece]:
        """What the report is made of."""
        return reports.spread_report(self.spread, verbose=self.verbose)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values: what `--json` prints."""
        from accelsim.population.result import spread_json

        return spread_json(self.spread, self.problem.provenance("spread"))

    def files(self) -> dict[str, bytes]:
        """Files that `save` writes, by name."""
        return {"spread.json": to_json(self.to_dict()).encode()}

    def page(self) -> str:
        """One page of HTML to explore the distribution in a browser."""
        from accelsim.show import html

        return html.spread_report(self.spread, self.problem.architecture, self.layer)

    def drawings(self) -> Drawings:
        """What can be drawn."""
        from accelsim.show.plots import result, spread

        return {
            "hist": partial(spread.plot_histogram, self.spread),
            "cdf": partial(spread.plot_within, self.spread),
            "density": partial(spread.plot_density, self.spread),
            "layers": lambda ax=None: result.plot_stacks(spread.best_median_worst(self.spread), ax),
        }
