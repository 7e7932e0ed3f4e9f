"""Machines whose zeros save a constant share of each action: a dense machine of equal energy, which can be proved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.density import Dense, FixedStructured, NOfM, Uniform
from accelsim.inputs.energy import EnergyEntry, EnergyTable
from accelsim.inputs.sparsity import ComputeSparsity, Format, LevelSparsity, Saving
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.sparsity.result import ACTIONS, COMPUTE_ENERGY, METADATA_ENERGY, SAVED_ENERGY
from accelsim.model.sparsity.savings import compute_shares

_SOURCE = "with the share of zeros that is left out"


class NotConstantError(Exception):
    """What zeros save depends on the mapping; the message says why."""


def fold_zeros(architecture: Architecture, einsum: Einsum) -> Architecture:
    """Return a machine that does nothing about zeros and takes the energy that this one takes without them.

    That is so for each mapping: each word of a tensor at a level, and each multiply-accumulate, has the mean energy of
    all. Cycles are those of the dense machine.

    Raises
    ------
    NotConstantError
        If what zeros save depends on tiles, or on cycles.
    """
    return _Fold(architecture, einsum).machine()


class _Fold:
    def __init__(self, architecture: Architecture, einsum: Einsum) -> None:
        self.old, self.einsum = architecture, einsum
        self.entries = dict(architecture.energy.entries)
        self.roles = {tensor.role: tensor for tensor in einsum.tensors}
        self.saved: dict[str, tuple[float, dict[str, float], Saving]] = {}

    def machine(self) -> Architecture:
        """Check that all shares are constant, and write them into the energies."""
        if len(self.roles) < len(self.einsum.tensors):
            raise NotConstantError("two tensors have one role, and so one energy")
        for index, level in enumerate(self.old.levels):
            if self._pj(level.name, "leak"):
                raise NotConstantError(f"{level.name} leaks, and cycles depend on zeros")
            for role, tensor in self.roles.items():
                if role not in level.bypass:
                    self._level(index, level, tensor)
        self._compute()
        levels = tuple(replace(level, sparsity=None) for level in self.old.levels)
        compute = replace(self.old.compute, sparsity=None)
        return replace(self.old, levels=levels, compute=compute, energy=EnergyTable(self.entries))

    def _pj(self, component: str, action: str, role: str = "*") -> float:
        entry = self.old.energy.find(component, role, action)
        return 0.0 if entry is None else entry.energy_pj

    def _extra(self, component: str, actions: tuple[str, ...]) -> float:
        found = (self.old.energy.find(component, "*", action) for action in actions)
        return next((entry.energy_pj for entry in found if entry is not None), 0.0)

    def _density(self, tensor: Tensor) -> float:
        """Share of the words of any tile that are not zero."""
        density = tensor.density or Dense()
        if not isinstance(density, Dense | Uniform | FixedStructured | NOfM):
            raise NotConstantError(f"the density of {tensor.name} depends on the tile: it is {density}")
        full = tensor.box(self.einsum.dims)
        return density.occupancy(full, full).mean / math.prod(full)

    def _form(self, level: Level, role: str) -> Format | None:
        return (level.sparsity or LevelSparsity()).formats.get(role)

    def _located(self, level: Level, role: str) -> bool:
        form = self._form(level, role)
        return form is not None and form.located

    def _inner(self, index: int, role: str) -> Iterator[Level]:
        """Levels further in that may keep a role."""
        return (level for level in self.old.levels[index + 1 :] if role not in level.bypass)

    def _level(self, index: int, level: Level, tensor: Tensor) -> None:
        """Energies of a tensor's accesses at a level."""
        own, form = level.sparsity or LevelSparsity(), self._form(level, tensor.role)
        if own.positions or any(each.kind == "spatial_skipping" for each in own.savings):
            raise NotConstantError(f"{level.name} skips instances")
        stored, bits = 1.0, 0.0
        if form is not None and form.located:
            stored = self._density(tensor)
            bits = self._bits(index, level, tensor, form, stored)
        share, kind = self._share(index, level, tensor)
        unpacked = self._unpacked(index, level, tensor)
        if (bits or unpacked or (stored, share) != (1.0, 0.0)) and level.block_size > 1:
            raise NotConstantError(f"{level.name} moves {level.block_size} words at a time, some of which are zero")
        if (stored, share) != (1.0, 0.0) and self._charged_wires(tensor.role):
            raise NotConstantError(
                f"transfers of {tensor.role} cost energy, and what crosses depends on the levels kept"
            )
        for action in ACTIONS:
            name = {"fill": "write"}.get(action, action)
            left = share if action != "fill" else 0.0
            pj = stored * (1.0 - left) * self._pj(level.name, name, tensor.role)
            pj += stored * left * self._extra(level.name, SAVED_ENERGY.get((kind, action), ()))
            if bits:
                per_unit = (1.0 - left) * self._extra(level.name, METADATA_ENERGY["actual", action])
                per_unit += left * self._extra(level.name, METADATA_ENERGY.get((kind, action), ()))
                pj += bits / own.width * per_unit
            if action == "fill":
                pj += unpacked
            self.entries[level.name, tensor.role, name] = EnergyEntry(pj, _SOURCE)
        if tensor.output and self._packed_below(index, level, tensor):
            raise NotConstantError(f"{level.name} takes {tensor.name} that is compressed on its way")

    def _bits(self, index: int, level: Level, tensor: Tensor, form: Format, density: float) -> float:
        """Bits of metadata for each word of a tile."""
        where = f"{level.name}: {tensor.name}"
        if len(form.ranks) > 1 or form.ranks[0].flattened is not None:
            raise NotConstantError(f"{where} has several ranks, whose metadata depends on the tile")
        (rank,) = form.ranks
        word = (level.sparsity or LevelSparsity()).word_bits
        if rank.format in ("B", "UB"):
            if index:
                raise NotConstantError(f"{where} has a bitmask, whose tiles may be empty")
            return 1.0 if rank.metadata_bits is None else rank.metadata_bits
        if rank.format == "UOP":
            raise NotConstantError(f"{where} has offsets, whose number depends on the tile")
        return density * (word if rank.metadata_bits is None else rank.metadata_bits)

    def _share(self, index: int, level: Level, tensor: Tensor) -> tuple[float, str]:
        """Share of the reads and updates that is left out, and how."""
        savings = [
            saving
            for saving in (level.sparsity or LevelSparsity()).savings
            if any(target == tensor.role for target, _ in saving.choices)
        ]
        if not savings:
            return 0.0, ""
        where = f"{level.name}: {tensor.role}"
        if len(savings) > 1 or len(savings[0].choices) > 1:
            raise NotConstantError(f"{where} has several savings, of which one is chosen by the tile")
        if tensor.role not in level.keep or next(self._inner(index, tensor.role), None) is not None:
            raise NotConstantError(f"{where} may be kept elsewhere, and then larger tiles of its leaders decide")
        if any(inner.fanout > 1 for inner in self.old.levels[index:]):
            raise NotConstantError(f"{where} is read for several instances at a time")
        (saving,) = savings
        leaders = [self.roles[role] for role in saving.choices[0][1] if role in self.roles]
        empty = {leader.name: 1.0 - self._density(leader) for leader in leaders}
        share = 1.0 - math.prod(1.0 - each for each in empty.values())
        self.saved[tensor.name] = share, empty, saving
        return share, {"gating": "gated", "skipping": "skipped"}[saving.kind]

    def _unpacked(self, index: int, level: Level, tensor: Tensor) -> float:
        """Energy [pJ] of putting zeros into a word that comes in from a compressed level."""
        pj = self._extra(level.name, ("decompression",))
        packed = set()
        for outer in reversed([one for one in self.old.levels[:index] if tensor.role not in one.bypass]):
            form = self._form(outer, tensor.role)
            packed.add(form is not None and form.compressed)
            if tensor.role in outer.keep:
                break
        own = self._form(level, tensor.role)
        if not pj or packed == {False} or (own is not None and own.compressed):
            return 0.0
        if len(packed) > 1:
            raise NotConstantError(f"{level.name} unpacks {tensor.name} of some of the levels outside alone")
        return pj

    def _packed_below(self, index: int, level: Level, tensor: Tensor) -> bool:
        """Whether a level further in packs what it sends here, at a cost."""
        form = self._form(level, tensor.role)
        if form is None or not form.compressed:
            return False
        return any(self._extra(inner.name, ("compression",)) for inner in self._inner(index, tensor.role))

    def _charged_wires(self, role: str) -> bool:
        return any(self._pj(f"{level.name} network", "transfer", role) for level in self.old.levels)

    def _compute(self) -> None:
        """Energy of a multiply-accumulate."""
        operands = [tensor for tensor in self.einsum.tensors if not tensor.output]
        count, stopped, empty = 1.0, 0.0, dict.fromkeys((tensor.name for tensor in operands), 0.0)
        for tensor in operands:
            if tensor.name in self.saved:
                share, leaders, saving = self.saved[tensor.name]
                stopped += count * share if saving.kind == "gating" else 0.0
                count -= count * share
                for leader, odds in leaders.items():
                    empty[leader] = max(empty.get(leader, 0.0), odds)
        sparse = self.old.compute.sparsity or ComputeSparsity()
        located = {tensor.name: self._innermost_located(tensor) for tensor in operands}
        if not sparse.skipping and {False} in located.values():  # all must be located to tell that nothing is there
            located = {name: {False} for name in located}
        given = []
        for tensor in operands:
            if len(located[tensor.name]) > 1:
                raise NotConstantError(f"{tensor.name} may come from levels with and without metadata")
            there = self._density(tensor) / (1.0 - empty[tensor.name]) if empty[tensor.name] < 1 else 1.0
            given.append((min(1.0, there), True in located[tensor.name]))
        shares = compute_shares(given, sparse)
        name = self.old.compute.name
        pj = count * shares.actual * self._pj(name, "compute")
        pj += (count * shares.gated + stopped) * self._extra(name, COMPUTE_ENERGY["gated"])
        pj += count * shares.skipped * self._extra(name, COMPUTE_ENERGY["skipped"])
        self.entries[name, "*", "compute"] = EnergyEntry(pj, _SOURCE)

    def _innermost_located(self, tensor: Tensor) -> set[bool]:
        """Whether metadata of a level that an operand may come from says where its zeros are."""
        last = max(index for index, level in enumerate(self.old.levels) if tensor.role in level.keep)
        levels = [self.old.levels[last], *self._inner(last, tensor.role)]
        return {self._located(level, tensor.role) for level in levels}
