"""The Eyeriss dataflow study: energy of AlexNet by component, layer by layer, beside ISCA 2016, Fig. 10."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.result import Result
from accelsim.search.mapper import map_einsum
from validation.eyeriss import FREE, ROWS, published
from validation.study import Figure, Study

COMPONENTS = ("MAC", "DRAM", "GLB", "GLB network", "SPAD")
"""As the machine names them: MACs, DRAM, buffer, array, register files."""
UNIT_PJ = 1e9
"""10^9 MACs, at 1 pJ each."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Energy of a layer by component [10^9 MACs]: as published (of some components), and of our best mappings."""

    layer: str
    published: dict[str, float]
    ours: dict[str, dict[str, float]]


@functools.cache
def breakdowns() -> tuple[Breakdown, ...]:
    """Energy of each layer of AlexNet by component: published, best row-stationary (convolutions), best of all."""
    machine, source = load_architecture("eyeriss_isca2016"), published()["isca"]
    einsums = {einsum.name: einsum for einsum in load_workload("alexnet", {"batch": str(source["batch"])}).layers}
    found = []
    for layer, *energies in source["rows"]:
        einsum, ours = einsums[layer], {}
        if "R" in einsum.dims:
            asked = load_constraints("eyeriss_passes", machine, einsum)
            ours[ROWS] = _by_component(map_einsum(machine, einsum, constraints=asked, uneven=False).best)
        ours[FREE] = _by_component(map_einsum(machine, einsum, uneven=False).best)
        found.append(Breakdown(layer, dict(zip(source["columns"][1:], energies, strict=True)), ours))
    return tuple(found)


def _by_component(result: Result) -> dict[str, float]:
    energies = dict.fromkeys(COMPONENTS, 0.0)
    for row in result.energy_rows():
        energies[row["component"]] += row["energy_pj"] / UNIT_PJ
    return energies


def eyeriss_isca_study() -> Study:
    """Compare the energy of AlexNet by component with ISCA 2016, Fig. 10."""
    return Study(
        name="eyeriss_isca",
        about="energy of AlexNet by component on the machine of the Eyeriss dataflow study",
        source="Chen et al., ISCA 2016, Fig. 10, as read by stanford-mast/nn_dataflow@198a527 (test_eyeriss_isca16)",
        figures=tuple(_figures()),
        notes=_NOTES,
    )


def _figures() -> Iterator[Figure]:
    tolerance = published()["isca"]["tolerance"]
    for found in breakdowns():
        judged = ROWS if ROWS in found.ours else FREE
        for variant, energies in found.ours.items():
            for component, theirs in found.published.items():
                why = _WHY.get((found.layer, component), _SPAD_WHY if component == "SPAD" else "")
                yield Figure(
                    case=found.layer,
                    quantity=f"{component} energy",
                    unit="10^9 MACs",
                    published=theirs,
                    ours=energies[component],
                    tolerance=tolerance / theirs if variant == judged else None,
                    variant=variant,
                    why=why,
                    explained=bool(why),
                )


_SPAD_WHY = "the published one is 4 accesses a MAC; words filled are counted here, first reads of sums are not"
_WHY = {
    ("conv1", "DRAM"): "each word moves once, 7.15 million; in two halves of 48 filters, as nn_dataflow has the layer, "
    "the inputs move twice: 1.92",
    ("conv2", "DRAM"): "no mapping in passes of whole rows needs less energy: weights move once, inputs four times",
    ("fc6", "DRAM"): "weights move once (37.7 million words, 7.55); the reference has 0.16 more",
}
_NOTES = (
    "256 PEs, 512 B of registers in each, a buffer of 128 KiB, batch 16, least energy, no limit of bandwidth; energies "
    "of ISCA 2016, Table IV: MAC 1, register 1, between PEs 2, buffer 6, DRAM 200.",
    "Row-stationary: constraints/eyeriss_passes.yaml. Fully connected layers are GEMMs, which have no rows to keep.",
    "The tolerance is nn_dataflow's own for its reading of the figure: 0.1 x 10^9 MACs.",
)
