"""Our numbers beside those of others: counts of other tools, published machines, measured hardware."""

from collections.abc import Callable, Sequence
from pathlib import Path

from accelsim.validation.area import area_study
from accelsim.validation.eyeriss import eyeriss_study
from accelsim.validation.eyeriss_isca import eyeriss_isca_study
from accelsim.validation.nvdla import MappedLayer, mapped_layers, nvdla_study
from accelsim.validation.reference import NoReferenceError, reference_paths
from accelsim.validation.scalesim import scalesim_study
from accelsim.validation.sram import leave_one_out, sram_study
from accelsim.validation.study import Figure, FigureErrors, Study, errors_by_quantity
from accelsim.validation.timeloop import CaseComparison, timeloop_study, validate_timeloop
from accelsim.validation.tpu import tpu_study

STUDIES: dict[str, Callable[[Sequence[str | Path]], Study]] = {
    "timeloop": timeloop_study,
    "scalesim": scalesim_study,
    "tpu": tpu_study,
    "sram": sram_study,
    "area": area_study,
    "nvdla": nvdla_study,
    "eyeriss": eyeriss_study,
    "eyeriss_isca": eyeriss_isca_study,
}
"""Studies by name; each takes paths of records, or none for the usual ones."""

__all__ = [
    "STUDIES",
    "CaseComparison",
    "Figure",
    "FigureErrors",
    "MappedLayer",
    "NoReferenceError",
    "Study",
    "errors_by_quantity",
    "leave_one_out",
    "mapped_layers",
    "reference_paths",
    "validate_timeloop",
]
