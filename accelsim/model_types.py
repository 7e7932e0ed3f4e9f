"""What input files become, and what an evaluated mapping consists of; dicts do for most uses."""

from accelsim.inputs.architecture import Architecture as Architecture
from accelsim.inputs.architecture import Axis as Axis
from accelsim.inputs.architecture import Compute as Compute
from accelsim.inputs.architecture import Level as Level
from accelsim.inputs.constraints import Block as Block
from accelsim.inputs.constraints import Constraints as Constraints
from accelsim.inputs.constraints import Factor as Factor
from accelsim.inputs.constraints import LevelConstraint as LevelConstraint
from accelsim.inputs.constraints import Product as Product
from accelsim.inputs.energies import ComponentFigures as ComponentFigures
from accelsim.inputs.energies import EnergyEntry as EnergyEntry
from accelsim.inputs.energies import EnergyTable as EnergyTable
from accelsim.inputs.energies import Estimator as Estimator
from accelsim.inputs.mapping import LevelMapping as LevelMapping
from accelsim.inputs.mapping import Loop as Loop
from accelsim.inputs.mapping import Mapping as Mapping
from accelsim.inputs.workload import Einsum as Einsum
from accelsim.inputs.workload import Tensor as Tensor
from accelsim.inputs.workload import Workload as Workload
from accelsim.model.result import Result as Result
