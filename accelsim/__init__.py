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

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelsim.designs.run import explore as explore
    from accelsim.designs.soc import load_system as load_system
    from accelsim.designs.soc import map_on_system as map_on_system
    from accelsim.designs.sweep import load_sweep as load_sweep
    from accelsim.fusion import FusionResult as FusionResult
    from accelsim.fusion import fuse as fuse
    from accelsim.inputs.architecture import Architecture as Architecture
    from accelsim.inputs.architecture import Axis as Axis
    from accelsim.inputs.architecture import Compute as Compute
    from accelsim.inputs.architecture import Level as Level
    from accelsim.inputs.architecture import load_architecture as load_architecture
    from accelsim.inputs.constraints import Block as Block
    from accelsim.inputs.constraints import Constraints as Constraints
    from accelsim.inputs.constraints import Factor as Factor
    from accelsim.inputs.constraints import LevelConstraint as LevelConstraint
    from accelsim.inputs.constraints import Product as Product
    from accelsim.inputs.constraints_reader import load_constraints as load_constraints
    from accelsim.inputs.energies import ComponentFigures as ComponentFigures
    from accelsim.inputs.energies import EnergyEntry as EnergyEntry
    from accelsim.inputs.energies import EnergyTable as EnergyTable
    from accelsim.inputs.energies import Estimator as Estimator
    from accelsim.inputs.errors import AccelsimError as AccelsimError
    from accelsim.inputs.errors import NoValidMapping as NoValidMapping
    from accelsim.inputs.errors import SpecError as SpecError
    from accelsim.inputs.mapping import LevelMapping as LevelMapping
    from accelsim.inputs.mapping import Loop as Loop
    from accelsim.inputs.mapping import Mapping as Mapping
    from accelsim.inputs.mapping import load_mapping as load_mapping
    from accelsim.inputs.workload import Einsum as Einsum
    from accelsim.inputs.workload import Tensor as Tensor
    from accelsim.inputs.workload import Workload as Workload
    from accelsim.inputs.workload_reader import load_workload as load_workload
    from accelsim.model.evaluate import evaluate as evaluate
    from accelsim.model.result import Result as Result
    from accelsim.model.result import to_pandas as to_pandas
    from accelsim.model.sparsity import sparse_result as sparse_result
    from accelsim.population.census import census as census
    from accelsim.population.result import Census as Census
    from accelsim.population.sampling import UniformSample as UniformSample
    from accelsim.results.network import map_network as map_network
    from accelsim.results.verifying import verify as verify
    from accelsim.search.exact.front import map_front as map_front
    from accelsim.search.mapper import map_einsum as map_einsum
    from accelsim.search.result import Certificate as Certificate
    from accelsim.search.result import FrontResult as FrontResult
    from accelsim.search.result import Sample as Sample
    from accelsim.search.result import SearchResult as SearchResult
    from accelsim.search.stopping import Budget as Budget
    from accelsim.search.zeros import best_with_zeros as best_with_zeros
    from accelsim.show.plots.census import plot_compare as plot_compare
    from accelsim.show.plots.census import plot_density as plot_density
    from accelsim.show.plots.census import plot_histogram as plot_histogram
    from accelsim.show.plots.census import plot_within as plot_within
    from accelsim.show.plots.diagram import plot_architecture as plot_architecture
    from accelsim.show.plots.diagram import plot_mapping as plot_mapping
    from accelsim.show.plots.result import plot_energy as plot_energy
    from accelsim.show.plots.result import plot_fusion as plot_fusion
    from accelsim.show.plots.result import plot_reuse as plot_reuse
    from accelsim.show.plots.result import plot_stacks as plot_stacks
    from accelsim.show.plots.result import plot_time as plot_time
    from accelsim.show.plots.search import plot_front as plot_front

__version__ = "1.0.0"
_HOME = {name: home for home, name in re.findall(r"from (\S+) import \w+ as (\w+)", Path(__file__).read_text("utf-8"))}
"""Module of each public name: these are declared once, above, where type checkers see them too."""
__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that importing the package is cheap."""
    if name not in _HOME:
        raise AttributeError(f"module 'accelsim' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
