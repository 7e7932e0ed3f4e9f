"""Results to print and draw: hand-written numbers around an evaluated mapping."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.library import resolve
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, load_mapping
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.population.result import Spread
from accelsim.population.spread import spread
from accelsim.search.result import Certificate, FrontResult, Rejection, Sample, SearchResult


def row_stationary() -> tuple[Architecture, Einsum, Result]:
    """The mapping that ships for Eyeriss."""
    architecture = load_architecture(resolve("eyeriss", "arch"))
    einsum = load_workload(resolve("conv", "workloads")).layers[0]
    mapping = load_mapping(resolve("eyeriss_row_stationary", "mappings"), architecture, einsum)
    return architecture, einsum, evaluate(architecture, einsum, mapping)


def all_loops_outside(architecture: Architecture, einsum: Einsum) -> Result:
    """Every loop at the outermost level: tiles of one word, so it is valid on any machine, and bad."""
    names = {tensor.name: tensor.role for tensor in einsum.tensors}
    levels = [
        LevelMapping(level.name, keep=frozenset(name for name, role in names.items() if role not in level.bypass))
        for level in architecture.levels
    ]
    loops = tuple(Loop(dim, bound) for dim, bound in einsum.dims.items())
    levels[0] = LevelMapping(levels[0].level, loops, keep=frozenset(names))
    return evaluate(architecture, einsum, Mapping(tuple(levels)))


def a_search(best: Result, objective: str = "energy", stop: str = "budget") -> SearchResult:
    """A random search of 5,000 mappings, 900 of them valid."""
    return SearchResult(
        best=best,
        objective=objective,
        method="random",
        stop=stop,
        seed=7,
        space_size=123456789012345678,
        seconds=1.5,
        ranked=(best,),
        sample=Sample(
            seen=5000,
            valid=900,
            rejections=(
                Rejection("fanout", "GLB", 4000),
                Rejection("capacity", "SPAD", 100),
                Rejection("capacity", "GLB", 0),
            ),
        ),
    )


def an_exact_search(
    best: Result,
    objective: str = "energy",
    *,
    gap: float = 0.0,
    ranked: int = 1,
    within: tuple[float, int] | None = None,
) -> SearchResult:
    """An exact search, stopped early where it leaves a gap; each listed mapping costs 0.2 % more than the last."""
    value = Objective.parse(objective).of(best)
    listed = tuple(replace(best, energy_pj=best.energy_pj * (1 + 0.002 * rank)) for rank in range(ranked))
    return SearchResult(
        best=best,
        objective=objective,
        method="exact",
        stop="timeout" if gap else "exhausted",
        seed=0,
        space_size=123456789012345678,
        seconds=0.25,
        certificate=Certificate(value, value / (1 + gap), 539514, 472, 18_247_680),
        ranked=listed,
        within=within,
    )


def a_front(best: Result, columns: tuple[str, ...] = ("energy", "cycles"), stop: str = "exhausted") -> FrontResult:
    """Three points: less energy for more cycles and other columns."""
    found = [(1.0, 4, 100), (1.25, 2, 300), (2.0, 1, 900)]
    points = tuple(replace(best, energy_pj=best.energy_pj * e, cycles=best.cycles * c) for e, c, _ in found)
    values = tuple(
        tuple({"energy": p.energy_pj, "cycles": float(p.cycles)}.get(column, float(more)) for column in columns)
        for p, (_, _, more) in zip(points, found, strict=True)
    )
    return FrontResult(columns, points, values, stop, 123456789012345678, 539514, 472, 18_247_680, 0.75)


@cache
def a_stopped_spread() -> Spread:
    """A spread whose searches were stopped at a mapping that is worse than most of those drawn."""
    machine, gemm = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    layer = replace(gemm, name="gemm_32_48_64", dims={"M": 32, "N": 48, "K": 64})
    worthless = all_loops_outside(machine, layer)
    search = replace(an_exact_search(worthless, gap=1), certificate=None)
    values = ((worthless.energy_pj, float(worthless.cycles)),)
    front = replace(a_front(worthless), points=(worthless,), values=values, stop="timeout")
    with pytest.MonkeyPatch.context() as patch:
        for name, found in (("map_with_cache", search), ("map_front", front)):
            patch.setattr(f"accelsim.population.spread.{name}", lambda *_, found=found, **__: found)
        return spread(machine, layer, samples=2000)
