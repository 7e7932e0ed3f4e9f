"""Map one layer: its optimum, Pareto front, the size of a buffer, what it depends on, and all valid mappings."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from accelsim.api.asked import Asked, whole, words
from accelsim.api.layers import (
    Evaluation,
    LayerResult,
    LayoutResult,
    ParetoResult,
    SensitivityResult,
    SizingResult,
    SpreadResult,
    search_layer,
)
from accelsim.api.problem import MappingProblem, read_problem, say_dense
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.objective import Objective, canonical
from accelsim.inputs.workload import Einsum
from accelsim.search.result import MOST_TIES, SearchResult
from accelsim.search.stopping import OnProgress
from accelsim.show.report.verdicts import verdict


def map_problem(problem: MappingProblem, asked: Asked) -> LayerResult:
    """Find the best mapping of the layer that a problem means."""
    layer = problem.one_layer
    search = search_layer(problem, layer, asked)
    listed = None if asked.within is not None else asked.most
    ranked = tuple(each for equal in search.ties[:listed] for each in equal)
    return LayerResult(problem, layer, replace(search, ranked=ranked), asked)


def map_layer(
    arch: Any,
    workload: Any,
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    objective: str = "energy",
    require: str | Sequence[str] = (),
    mapspace: str = "auto",
    factors: str | Sequence[str] = "auto",
    top: int | float | str = 1,
    sample: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    jobs: int | None = None,
    cache: bool = True,
    inputs: Any = None,
    on_progress: OnProgress | None = None,
) -> LayerResult:
    """Find the optimal mapping of one layer, with a proof of optimality.

    The parameters are those of `accelsim.map`; the workload has one layer, or `layer` names one.

    Examples
    --------
    >>> import accelsim
    >>> accelsim.map_layer("two_level", "conv1d").energy_pj
    4322.46288
    """
    given = {"layer": layer, "params": params, "constraints": constraints, "require": require, "inputs": inputs}
    asked = Asked(objective, mapspace, factors, top, sample, seed, time_limit, memory_limit, jobs, cache, on_progress)
    problem = read_problem(arch, workload, **given)
    problem.say_notes()
    return map_problem(problem, asked)


def evaluate(
    arch: Any,
    workload: Any,
    mapping: Any,
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    layouts: Any = None,
) -> Evaluation:
    """Evaluate one mapping of a layer: data movement, energy, latency.

    Parameters
    ----------
    arch, workload, layer, params
        As for `accelsim.map`.
    mapping : str, path, dict or Mapping
        A mapping file, the name of one that ships, what such a file holds, or a loop nest.
    layouts : path or dict, optional
        Data layouts at the outermost level, in Timeloop's form.

    Returns
    -------
    Evaluation
        Also of a mapping that does not fit: `valid` is False, and `result.violations` has each rule that it breaks.

    Raises
    ------
    TypeError, InputError, AccelsimError
        As for `accelsim.map`.

    Examples
    --------
    >>> import accelsim
    >>> found = accelsim.evaluate("eyeriss", "conv", "eyeriss_row_stationary")
    >>> f"{found.pj_per_mac:.2f} pJ/MAC, {found.cycles} cycles, bound by {found.bottleneck}"
    '6.64 pJ/MAC, 11010048 cycles, bound by MAC'
    """
    problem = read_problem(arch, workload, layer=layer, params=params, mapping=mapping)
    return evaluate_problem(problem, layouts)


def evaluate_problem(problem: MappingProblem, layouts: Any = None) -> Evaluation:
    """Evaluate the mapping that a problem gives, with data layouts if any are given."""
    from accelsim.inputs.layouts import load_layouts
    from accelsim.model.evaluate import evaluate

    einsum, machine = problem.one_layer, problem.architecture
    given = None if layouts is None else load_layouts(layouts, _in_bursts(machine), einsum)
    return Evaluation(problem, einsum, evaluate(machine, einsum, problem.mapping(einsum), given))


def _in_bursts(machine: Architecture) -> Architecture:
    """The machine, whose outermost level has bursts; without any there are no data layouts."""
    outermost = machine.levels[0]
    if outermost.burst_bits is None:
        raise AccelsimError(f"layout: {outermost.name} of {machine.name} has no bursts; add `burst: 64 B` to it")
    return machine


def pareto(
    arch: Any,
    workload: Any,
    metrics: Sequence[str] = ("energy", "cycles"),
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    require: str | Sequence[str] = (),
    mapspace: str = "auto",
    factors: str | Sequence[str] = "auto",
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> ParetoResult:
    """Find the Pareto front of one layer: every mapping that no other one dominates.

    Parameters
    ----------
    metrics : sequence of str
        Two or three of `energy`, `cycles`, `offchip_words` (words at the outermost level) and `capacity:LEVEL`.
    mapspace, factors
        As for `accelsim.map`. By default the front is complete among even mappings with perfect factors, and has the
        best mappings of the whole space for each metric besides; `front.space` and `front.ends` say which.
    arch, workload, layer, params, constraints, require, time_limit, memory_limit, jobs, on_progress
        As for `accelsim.map`.

    Raises
    ------
    NoValidMappingError
        If no mapping is valid.

    Examples
    --------
    >>> import accelsim
    >>> narrow = {"mapspace": "even", "factors": "perfect"}
    >>> len(accelsim.pareto("two_level", "gemm", ("energy", "capacity:BUF"), **narrow))
    5
    """
    asked = Asked("energy", mapspace, factors, 1, None, 0, time_limit, memory_limit, jobs, True, on_progress)
    problem = read_problem(arch, workload, layer=layer, params=params, constraints=constraints, require=require)
    return pareto_of(problem, words("metrics", metrics), asked)


def pareto_of(problem: MappingProblem, metrics: tuple[str, ...], asked: Asked) -> ParetoResult:
    """Find the Pareto front of the layer that a problem means."""
    from accelsim.search.exact.front import map_front

    say_dense(problem.architecture)
    layer = problem.one_layer
    front = map_front(
        problem.architecture, layer, tuple(map(canonical, metrics)), constraints=problem.constraints(layer),
        uneven=asked.options.uneven, imperfect=asked.imperfect, pad=asked.padded, budget=asked.budget,
        workers=asked.jobs,
        on_progress=replace(asked, objective="").telling(layer.name),
    )  # fmt: skip
    return ParetoResult(problem, layer, front, asked)


def sizing(
    arch: Any,
    workload: Any,
    level: str | None = None,
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    objective: str = "energy",
    mapspace: str = "auto",
    time_limit: float | None = None,
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> SizingResult:
    """Find the least cost of a layer for every size of a buffer; the energy of an access stays as it is.

    Parameters
    ----------
    level : str, optional
        The buffer; default: the outermost level that has a size.
    objective : {"energy", "cycles", "offchip_words"}
    arch, workload, layer, params, constraints, mapspace, time_limit, jobs, on_progress
        As for `accelsim.pareto`: sizes are those of even mappings with perfect factors, and of the best mapping of all.

    Examples
    --------
    >>> import accelsim
    >>> found = accelsim.sizing("two_level", "gemm")
    >>> [row["size_bytes"] for row in found.knees]
    [2176, 33280, 526336]
    """
    asked = Asked(objective, mapspace, "auto", 1, None, 0, time_limit, None, jobs, True, on_progress)
    problem = read_problem(arch, workload, layer=layer, params=params, constraints=constraints)
    return sizing_of(problem, level, asked)


def sizing_of(problem: MappingProblem, level: str | None, asked: Asked) -> SizingResult:
    """Find the least cost of the layer that a problem means for every size of a buffer."""
    from accelsim.results.worth import bound_rows, with_room

    einsum, machine = problem.one_layer, problem.architecture
    sized = [each.name for each in machine.levels[1:] if each.size_words is not None]
    buffer = level or next(iter(sized), "")
    roomy = with_room(machine, buffer, einsum)
    part = replace(asked, mapspace="uneven" if asked.mapspace == "uneven" else "even", factors="perfect")
    front = pareto_of(problem.of(roomy), (asked.objective, f"capacity:{buffer}"), part).front
    whole = None
    with suppress(NoValidMappingError, KeyboardInterrupt):  # none is valid at the present size; the sizes are there
        whole = search_layer(problem, einsum, asked, f"{einsum.name}, all mappings")
    present = next(each for each in machine.levels if each.name == buffer)
    about = {
        "layer": einsum.name, "architecture": machine.name, "level": buffer, "objective": asked.objective,
        "proved": front.stop == "exhausted", "mappings": str(front.space),
        "best": None if whole is None else Objective.parse(asked.objective).of(whole.best),
        "best_is": None if whole is None else verdict(whole),
        "present_bytes": (present.size_words or 0) * present.word_bits // 8,
    }  # fmt: skip
    return SizingResult(about, bound_rows(front, roomy, einsum), front.stop)


def sensitivity(
    arch: Any,
    workload: Any,
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    objective: str = "energy",
    require: str | Sequence[str] = (),
    mapspace: str = "auto",
    time_limit: float | None = None,
    jobs: int | None = None,
    cache: bool = True,
    on_progress: OnProgress | None = None,
) -> SensitivityResult:
    """Find what the optimum depends on: solve again with half, 1.1 and two times each resource.

    Parameters
    ----------
    arch, workload, layer, params, constraints, objective, require, mapspace, time_limit, jobs, cache, on_progress
        As for `accelsim.map`; `time_limit` is for each search.

    Examples
    --------
    >>> import accelsim
    >>> accelsim.sensitivity("two_level", "gemm").to_pandas()["part"].tolist()[:1]
    ['BUF size']
    """
    asked = Asked(objective, mapspace, "auto", 1, None, 0, time_limit, None, jobs, cache, on_progress)
    problem = read_problem(arch, workload, layer=layer, params=params, constraints=constraints, require=require)
    return sensitivity_of(problem, asked)


def sensitivity_of(problem: MappingProblem, asked: Asked) -> SensitivityResult:
    """Find what the optimum of the layer that a problem means depends on."""
    from accelsim.results.worth import worth_rows

    base = map_problem(problem, asked)
    alone = replace(asked, top=1)

    def solve(machine: Architecture, what: str) -> SearchResult:
        return search_layer(problem.of(machine), base.layer, alone, what)

    rows = [] if base.search.stop == "interrupted" else worth_rows(base.architecture, asked.objective, solve)
    return SensitivityResult(base, rows)


def layout(
    arch: Any,
    workload: Any,
    layouts: Any = "best",
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    objective: str = "energy",
    require: str | Sequence[str] = (),
    time_limit: float | None = None,
    jobs: int | None = None,
    cache: bool = True,
    on_progress: OnProgress | None = None,
) -> LayoutResult:
    """Find the best mapping of a layer with its data layout.

    Mappings are even ones with perfect factors; the bursts and bank conflicts of the outermost level count.

    Parameters
    ----------
    layouts : {"best", "worst"}, path or dict
        What the words of each tensor lie in: `best`, blocks and orders with the fewest bursts; `worst`, the order of
        ranks with the most; or layouts in Timeloop's form.
    arch, workload, layer, params, constraints, objective, require, time_limit, jobs, cache, on_progress
        As for `accelsim.map`. The first level of the architecture has a `burst`.

    Raises
    ------
    AccelsimError
        If the architecture has no bursts, or no listed mapping has counts of them.

    Examples
    --------
    >>> import accelsim
    >>> found = accelsim.layout("gemmini", "gemm")
    """
    asked = Asked(objective, "even", "perfect", 1, None, 0, time_limit, None, jobs, cache, on_progress)
    problem = read_problem(arch, workload, layer=layer, params=params, constraints=constraints, require=require)
    return layout_of(problem, layouts, asked)


def layout_of(problem: MappingProblem, layouts: Any, asked: Asked) -> LayoutResult:
    """Find the best mapping of the layer that a problem means, with its data layout.

    A mapping costs at least as much with a layout as without. So the best of the cheapest mappings, each with its
    layout, is the optimum if it costs no more than the next mapping without one.
    """
    from accelsim.inputs.layouts import load_layouts
    from accelsim.model.evaluate import evaluate

    einsum, machine = problem.one_layer, _in_bursts(problem.architecture)
    kind = layouts if layouts in ("best", "worst") else "given"
    if isinstance(layouts, str) and kind == "given" and not os.path.exists(layouts) and "\n" not in layouts:
        raise AccelsimError(f"layout: '{layouts}' is no file; write best, worst, or a file")
    given = load_layouts(layouts, machine, einsum) if kind == "given" else None
    base = map_problem(problem, replace(asked, top=MOST_TIES, mapspace="even", factors="perfect"))
    listed = base.search.ranked
    laid = [each if given is None else evaluate(machine, einsum, each.mapping, given) for each in listed]
    laid = [each for each in laid if each.layouts]
    if not laid:
        raise AccelsimError(f"layout: bursts of {einsum.name} are not counted on {machine.name}")
    limit = Objective.parse(asked.objective).of(listed[-1]) if len(listed) >= MOST_TIES else math.inf
    if not (base.certificate and base.certificate.proved and base.search.stop == "exhausted"):
        limit = base.certificate.bound if base.certificate else 0.0
    return LayoutResult(problem, base, kind, laid, limit)


def spread(
    arch: Any,
    workload: Any,
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    samples: int = 100_000,
    seed: int = 0,
    time_limit: float | None = 10.0,
    jobs: int | None = None,
    cache: bool = True,
    on_progress: OnProgress | None = None,
) -> SpreadResult:
    """Count all valid even mappings of a layer with perfect factors, and show how their cost is distributed.

    Parameters
    ----------
    samples, seed : int
        Mappings drawn uniformly for the quantiles, and the seed of the draws.
    time_limit : float, optional
        Time for the searches: best mappings, front, near-optimal ones [s]; None: until they are proved.
    arch, workload, layer, params, constraints, jobs, cache, on_progress
        As for `accelsim.map`.

    Examples
    --------
    >>> import accelsim
    >>> accelsim.spread("two_level", "gemm", samples=1000).mappings
    35632
    """
    whole("samples", samples)
    asked = Asked("energy", "even", "perfect", 1, None, seed, time_limit, None, jobs, cache, on_progress)
    problem = read_problem(arch, workload, layer=layer, params=params, constraints=constraints)
    return spread_of(problem, problem.one_layer, samples, asked)


def spread_of(
    problem: MappingProblem, layer: Einsum, samples: int, asked: Asked, *, whole: bool = True
) -> SpreadResult:
    """Count all valid mappings of a layer; `whole`: look for the best of the wider space, too."""
    from accelsim.population.spread import spread

    found = spread(
        problem.architecture, layer, constraints=problem.constraints(layer), samples=samples, seed=asked.seed,
        seconds=asked.time_limit, workers=asked.jobs, cache=asked.store,
        on_progress=asked.telling(f"{layer.name} on {problem.architecture.name}"),
    )  # fmt: skip
    if whole and found.stop != "interrupted":
        limit = None if found.range_of("energy").lowest_proved else asked.time_limit
        wider = replace(asked, mapspace="auto", factors="auto", time_limit=limit)
        with suppress(KeyboardInterrupt):  # what was counted is there
            found = replace(found, whole=search_layer(problem, layer, wider, f"{layer.name}, all mappings"))
    return SpreadResult(problem, layer, found)
