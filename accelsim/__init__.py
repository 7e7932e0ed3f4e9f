"""accelsim: a mapping-space simulator for deep-learning accelerators.

A name such as `eyeriss` is one of the files that ship (`accelsim list`); a path to your own file works in its place.

>>> import accelsim
>>> machine = accelsim.load_architecture("eyeriss")
>>> layer = accelsim.load_workload("conv").layers[0]
>>> mapping = accelsim.load_mapping("eyeriss_row_stationary", machine, layer)
>>> result = accelsim.evaluate(machine, layer, mapping)
>>> f"{result.pj_per_mac:.2f} pJ/MAC, {result.cycles} cycles, bound by {result.bottleneck}"
'6.64 pJ/MAC, 11010048 cycles, bound by MAC'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelsim.fusion import FusionResult, fuse
    from accelsim.inputs.architecture import load_architecture
    from accelsim.inputs.constraints import Constraints, load_constraints
    from accelsim.inputs.mapping import load_mapping
    from accelsim.inputs.workload_reader import load_workload
    from accelsim.model.evaluate import evaluate
    from accelsim.model.result import Result, to_pandas
    from accelsim.population.census import census
    from accelsim.population.result import Census
    from accelsim.population.sampling import UniformSample
    from accelsim.results.verifying import verify
    from accelsim.search.exact.front import map_front
    from accelsim.search.mapper import map_einsum
    from accelsim.search.result import Certificate, FrontResult, Sample, SearchResult
    from accelsim.search.strategy import Budget
    from accelsim.show.plots import (
        plot_architecture,
        plot_compare,
        plot_curve,
        plot_density,
        plot_energy,
        plot_front,
        plot_fusion,
        plot_histogram,
        plot_mapping,
        plot_reuse,
        plot_spread,
        plot_stacks,
        plot_within,
    )

__version__ = "0.1.0"
__all__ = [
    "Budget",
    "Census",
    "Certificate",
    "Constraints",
    "FrontResult",
    "FusionResult",
    "Result",
    "Sample",
    "SearchResult",
    "UniformSample",
    "__version__",
    "census",
    "evaluate",
    "fuse",
    "load_architecture",
    "load_constraints",
    "load_mapping",
    "load_workload",
    "map_einsum",
    "map_front",
    "plot_architecture",
    "plot_compare",
    "plot_curve",
    "plot_density",
    "plot_energy",
    "plot_front",
    "plot_fusion",
    "plot_histogram",
    "plot_mapping",
    "plot_reuse",
    "plot_spread",
    "plot_stacks",
    "plot_within",
    "to_pandas",
    "verify",
]
_HOME = {
    "Budget": "accelsim.search.strategy",
    "Census": "accelsim.population.result",
    "Certificate": "accelsim.search.result",
    "Constraints": "accelsim.inputs.constraints",
    "FrontResult": "accelsim.search.result",
    "FusionResult": "accelsim.fusion",
    "Result": "accelsim.model.result",
    "Sample": "accelsim.search.result",
    "SearchResult": "accelsim.search.result",
    "UniformSample": "accelsim.population.sampling",
    "census": "accelsim.population.census",
    "evaluate": "accelsim.model.evaluate",
    "fuse": "accelsim.fusion",
    "load_architecture": "accelsim.inputs.architecture",
    "load_constraints": "accelsim.inputs.constraints",
    "load_mapping": "accelsim.inputs.mapping",
    "load_workload": "accelsim.inputs.workload_reader",
    "map_einsum": "accelsim.search.mapper",
    "map_front": "accelsim.search.exact.front",
    "plot_architecture": "accelsim.show.plots",
    "plot_compare": "accelsim.show.plots",
    "plot_curve": "accelsim.show.plots",
    "plot_density": "accelsim.show.plots",
    "plot_energy": "accelsim.show.plots",
    "plot_front": "accelsim.show.plots",
    "plot_fusion": "accelsim.show.plots",
    "plot_histogram": "accelsim.show.plots",
    "plot_mapping": "accelsim.show.plots",
    "plot_reuse": "accelsim.show.plots",
    "plot_spread": "accelsim.show.plots",
    "plot_stacks": "accelsim.show.plots",
    "plot_within": "accelsim.show.plots",
    "to_pandas": "accelsim.model.result",
    "verify": "accelsim.results.verifying",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that importing the package is cheap."""
    if name not in _HOME:
        raise AttributeError(f"module 'accelsim' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
