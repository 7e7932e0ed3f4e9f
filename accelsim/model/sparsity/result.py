"""What a mapping costs when zeros are left out, beside its dense counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accelsim.model.result import Result

ACTIONS = ("read", "fill", "update")
KINDS = ("actual", "gated", "skipped")
Counts = dict[tuple[str, str], float]
"""By kind and action."""
SAVED_ENERGY = {
    ("gated", "read"): ("gated_read",),
    ("gated", "fill"): ("gated_fill", "gated_write"),
    ("gated", "update"): ("gated_update", "gated_write"),
    ("skipped", "read"): ("skipped_read", "gated_read"),
    ("skipped", "fill"): ("skipped_fill", "skipped_write", "gated_fill", "gated_write"),
    ("skipped", "update"): ("skipped_update", "skipped_write", "gated_update", "gated_write"),
}
"""Actions of which the first that has an energy is charged; none: nothing is."""
METADATA_ENERGY = {
    ("actual", "read"): ("metadata_read",),
    ("actual", "fill"): ("metadata_fill", "metadata_write"),
    ("actual", "update"): ("metadata_update", "metadata_write"),
    ("gated", "read"): ("gated_metadata_read",),
    ("gated", "fill"): ("gated_metadata_fill", "gated_metadata_write"),
    ("gated", "update"): ("gated_metadata_update", "gated_metadata_write"),
    ("skipped", "read"): ("skipped_metadata_read", "gated_metadata_read"),
    ("skipped", "fill"): ("skipped_metadata_write", "gated_metadata_fill", "gated_metadata_write"),
    ("skipped", "update"): ("skipped_metadata_write", "gated_metadata_update", "gated_metadata_write"),
}
COMPUTE_ENERGY = {"gated": ("gated_compute",), "skipped": ("skipped_compute", "gated_compute")}


@dataclass(frozen=True, slots=True)
class RankUnits:
    """Metadata of one rank: units and offsets (payloads), of a tile or of all accesses of an instance."""

    metadata: float
    payload: float

    def scaled(self, factor: float) -> RankUnits:
        """So many times as much."""
        return RankUnits(self.metadata * factor, self.payload * factor)


@dataclass(frozen=True, slots=True)
class SparseTensor:
    """One tensor at one level that keeps it; counts are of one instance that is in use."""

    level: str
    tensor: str
    density: str
    format: str  # formats of its ranks, outermost first; empty without one
    instances: float  # in use on average: where the level above knows an empty tile, none holds it
    dense: Mapping[str, float]  # words of each action if no word were zero
    words: Counts  # what is of no kind does not exist: it is not stored, or was left out above
    metadata: Mapping[tuple[str, str], tuple[RankUnits, ...]]  # by kind and action, the lowest rank first
    bits: Counts  # of this metadata
    tile_words: float  # expected words of a tile that are stored
    held_words: int  # those of the share of tiles that must fit
    held_units: tuple[RankUnits, ...]  # metadata of such a tile, the lowest rank first
    held_bits: float
    energy_pj: float  # of all instances, metadata included
    metadata_pj: float  # of this alone
    partly_filled: float  # accesses over those that its words would fill: a compressed tile's last block is not full

    def total(self, kind: str) -> float:
        """Words of a kind in all instances."""
        return self.instances * sum(self.words.get((kind, action), 0.0) for action in ACTIONS)


@dataclass(frozen=True, slots=True)
class SparseCompute:
    """Multiply-accumulates by kind; those in none of them have no operand and are never seen."""

    dense: int
    actual: float
    gated: float
    skipped: float
    instances: float
    cycles: int
    energy_pj: float
    slowest: float  # time of the slowest instance that others wait for, over the mean one


@dataclass(frozen=True, slots=True)
class SparseResult:
    """What one mapping costs when zeros are left out: expected values, and the dense counts that they come from."""

    dense: Result
    tensors: tuple[SparseTensor, ...]
    compute: SparseCompute
    cycles: int
    level_cycles: Mapping[str, int]
    energy_pj: float
    components: Mapping[str, float]
    violations: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether fanouts and capacities hold, metadata included."""
        return not self.violations

    @property
    def bottleneck(self) -> str:
        """The compute units, or the outermost level that needs as long."""
        if self.compute.cycles == self.cycles:
            return self.dense.compute
        return next(name for name, cycles in self.level_cycles.items() if cycles == self.cycles)

    def rows(self) -> list[dict[str, Any]]:
        """Words of all instances by level and tensor: dense, actual, gated, skipped; bits of metadata; energy [pJ]."""
        dense = {(one.level, one.tensor): one for one in self.dense.tensors}
        return [
            {
                "level": one.level,
                "tensor": one.tensor,
                "density": one.density,
                "format": one.format,
                "instances": one.instances,
                "tile_words": one.tile_words,
                "held_words": one.held_words,
                "held_metadata_bits": one.held_bits,
                "dense_words": dense[one.level, one.tensor].total_words,
                **{f"{kind}_words": one.total(kind) for kind in KINDS},
                "metadata_bits": one.instances * sum(one.bits.get(("actual", action), 0.0) for action in ACTIONS),
                "dense_pj": dense[one.level, one.tensor].energy_pj,
                "energy_pj": one.energy_pj,
            }
            for one in self.tensors
        ]
