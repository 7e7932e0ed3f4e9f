"""Lists of the best mappings."""

from __future__ import annotations

import pytest

from accelsim import load_architecture, load_workload
from accelsim.inputs.errors import AccelsimError
from accelsim.search.mapper import map_einsum


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
@pytest.mark.parametrize("asked", [{"top": 3}, {"within": 0.0}])
def test_lists__begin_with_the_mapping_found_without_a_list(objective, asked):
    """Of 16 mappings of equal energy, and of more that are equally fast."""
    machine, layer = load_architecture("two_level"), load_workload("gemm").layers[0]
    alone = map_einsum(machine, layer, objective=objective, workers=1, uneven=False)
    found = map_einsum(machine, layer, objective=objective, workers=1, **asked, uneven=False)
    mappings = [result.mapping for result in found.ranked]

    assert found.best is found.ranked[0]
    assert mappings[0] == alone.best.mapping
    assert len(set(mappings)) == len(mappings) == min(found.within[1] if found.within else 3, 1000)


def test_lists__of_more_mappings_than_fit_memory_are_refused():
    with pytest.raises(AccelsimError, match="too many to list; ask for at most 100,000"):
        map_einsum(load_architecture("two_level"), load_workload("gemm").layers[0], top=10**7)
