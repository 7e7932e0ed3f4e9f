"""A dense machine on which no mapping costs more than with zeros left out: its optimum is a lower bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.density import Banded, Dense, Measured
from accelsim.inputs.energy import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.sparsity import SAVINGS, ComputeSparsity
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.sparsity.result import ACTIONS, COMPUTE_ENERGY, METADATA_ENERGY, SAVED_ENERGY
from accelsim.model.sparsity.savings import Odds, compute_shares, form_of, own

_SOURCE = "at least, with zeros left out"
_WRITES = {"fill": "write"}


@dataclass(frozen=True, slots=True)
class Relaxed:
    """A machine that does nothing about zeros, and how many cycles of the real one a cycle of it is.

    For each mapping that is valid on both, its energy and cycles are no more than those of the real machine with zeros
    left out, but for one cycle, and what leaks in it, that rounding may take. Where zeros save the same share of all
    tiles, they are equal.
    """

    machine: Architecture
    cycle: float


def relax(architecture: Architecture, einsum: Einsum) -> list[Relaxed]:
    """Let zeros save of each action the largest share that any tile lets them save.

    That is the share of tiles of one word: a larger tile of a leader is empty less often. Offsets and bitmasks of
    outer ranks cost nothing. Instances that are skipped make an axis wider, each in a machine of its own. Raises
    AccelsimError if no bound is known: a mask or band of a tensor whose tiles overlap, or more than two operands.
    """
    return _Relax(architecture, einsum).relaxed()


class _Relax:
    def __init__(self, architecture: Architecture, einsum: Einsum) -> None:
        self.old, self.einsum, self.odds = architecture, einsum, Odds(einsum)
        self.entries = dict(architecture.energy.entries)
        self.operands = [tensor for tensor in einsum.tensors if not tensor.output]
        if len(self.operands) > 2:
            raise AccelsimError("three operands are not bounded")
        self.density = {tensor.name: self._density(tensor) for tensor in einsum.tensors}
        self.spatial = any(each.kind == "spatial_skipping" for level in self.old.levels for each in own(level).savings)

    def relaxed(self) -> list[Relaxed]:
        """Energies and ports of all levels; a machine for each axis that may be wider."""
        cycle = self._compute()
        levels = tuple(self._level(index, level, cycle) for index, level in enumerate(self.old.levels))
        compute = replace(self.old.compute, sparsity=None)
        machine = replace(self.old, levels=levels, compute=compute, energy=EnergyTable(self.entries), sized={})
        depth = len(levels)
        wider = math.floor(1.0 / max(self._busy(depth, tensor) for tensor in self.einsum.tensors) + 1e-9)
        found = []
        for index, level in enumerate(levels if wider > 1 else ()):
            if any(each.kind == "spatial_skipping" for each in own(self.old.levels[index]).savings):
                x, y = (replace(axis, size=axis.size * wider) for axis in (level.x, level.y))
                each = [replace(level, x=x)] * (level.x.size > 1) + [replace(level, y=y)] * (level.y.size > 1)
                found += [(*levels[:index], one, *levels[index + 1 :]) for one in each]
        return [Relaxed(replace(machine, levels=each), cycle) for each in found or [levels]]

    def _density(self, tensor: Tensor) -> float:
        """Share of the words that are not zero."""
        density = tensor.density or Dense()
        if isinstance(density, Banded | Measured) and any(len(rank) > 1 for rank in tensor.ranks):
            raise AccelsimError(f"tiles of {tensor.name} overlap, and it is {density}")
        return self.odds.scalar(tensor)

    # ---- shares ----

    def _saved(self, index: int, tensor: Tensor) -> Iterator[tuple[str, float, dict[str, float]]]:
        """Savings that may act on a tensor at a level: kind, the share left out at most, and that of each leader.

        A saving of a level that does not keep the tensor acts at the next one outwards that does.
        """
        for inner, level in enumerate(self.old.levels[index:]):
            if inner and tensor.role in level.keep:
                return
            for saving in own(level).savings:
                for target, by in saving.choices:
                    if target == tensor.role and not (inner and saving.kind == "spatial_skipping"):
                        leaders = [t for t in self.einsum.tensors if t.role in by and t is not tensor]
                        kept = {leader.name: 1.0 - self.density[leader.name] for leader in leaders}
                        yield saving.kind, 1.0 - math.prod(1.0 - each for each in kept.values()), kept

    def _left_out(self, levels: Iterable[int], tensor: Tensor, kinds: Sequence[str] = SAVINGS) -> float:
        """The largest share that a saving at one of the levels leaves out."""
        found = (share for index in levels for kind, share, _ in self._saved(index, tensor) if kind in kinds)
        return max(found, default=0.0)

    def _busy(self, index: int, tensor: Tensor) -> float:
        """Share of the instances of a level that work for a tensor, at least, where instances are skipped."""
        share = 1.0
        for outer in range(index) if self.spatial else ():
            by = [share for kind, share, _ in self._saved(outer, tensor) if kind == "spatial_skipping"]
            if any(form_of(each, tensor.role).located for each in self.old.levels[:index]):
                by.append(1.0 - self.density[tensor.name])
            share = min([share, *(1.0 - each for each in by)])
        return share

    def _stored(self, index: int, tensor: Tensor) -> float:
        """Share of the words of a tile that are stored and asked for."""
        level, share = self.old.levels[index], 1.0
        if form_of(level, tensor.role).located:
            share = self.density[tensor.name]
        packed = (t for t in self.einsum.tensors if t.role in own(level).positions and t is not tensor)
        return share * math.prod(self.density[other.name] for other in packed)

    def _bits(self, level: Level, tensor: Tensor) -> float:
        """Bits of metadata for each word of a tile, at least: those of the lowest rank."""
        form = form_of(level, tensor.role)
        if not form.located or not form.ranks[-1].compressed:
            return 0.0
        rank, density = form.ranks[-1], self.density[tensor.name]
        if rank.format == "B":
            every = len(form.ranks) == 1 and level is self.old.levels[0]
            return (1.0 if every else density) * (1 if rank.metadata_bits is None else rank.metadata_bits)
        return density * (own(level).word_bits if rank.metadata_bits is None else rank.metadata_bits)

    # ---- energy ----

    def _energies(self, index: int, level: Level, tensor: Tensor) -> dict[str, float]:
        """Energy [pJ] of a word read, written and updated."""
        stored, busy = self._stored(index, tensor), self._busy(index, tensor)
        outside = self._left_out(range(index), tensor)
        here = [(kind, share) for kind, share, _ in self._saved(index, tensor) if kind != "spatial_skipping"]
        if form_of(level, tensor.role).located and all(
            form_of(one, tensor.role).located for one in self._parents(index, tensor)
        ):
            busy = 1.0  # instances without a tile are those without a word
        bits, width, found = self._bits(level, tensor), own(level).width or 1, {}
        for action in ACTIONS:
            name = _WRITES.get(action, action)
            pj = self.old.energy.energy_pj(level.name, tensor.role, name)
            per_bit = self.old.energy.found_pj(level.name, "*", *METADATA_ENERGY["actual", action]) / width
            whole = stored * pj + bits * per_bit
            least = whole * (1.0 - outside)
            for kind, share in here if action != "fill" else ():
                word = {"gating": "gated", "skipping": "skipped"}[kind]
                rest = stored * self.old.energy.found_pj(level.name, "*", *SAVED_ENERGY[word, action])
                rest += bits * self.old.energy.found_pj(level.name, "*", *METADATA_ENERGY[word, action]) / width
                rest = 0.0 if outside else min(rest, whole)
                least = min(least, whole * (1.0 - max(share, outside)) + rest * share)
            if action == "fill" and self._unpacks(index, level, tensor):
                least += stored * (1.0 - outside) * self.old.energy.found_pj(level.name, "*", "decompression")
            found[name] = least * busy / level.block_size
        return found

    def _unpacks(self, index: int, level: Level, tensor: Tensor) -> bool:
        """Whether what comes in is always compressed outside and never here."""
        packed = [form_of(outer, tensor.role).compressed for outer in self._parents(index, tensor)]
        return bool(packed) and all(packed) and not form_of(level, tensor.role).compressed

    def _parents(self, index: int, tensor: Tensor) -> Iterator[Level]:
        """Levels that a tile may come from, the next one first."""
        for outer in reversed([one for one in self.old.levels[:index] if tensor.role not in one.bypass]):
            yield outer
            if tensor.role in outer.keep:
                return

    def _level(self, index: int, level: Level, cycle: float) -> Level:
        kept = [tensor for tensor in self.einsum.tensors if tensor.role not in level.bypass]
        for role in dict.fromkeys(tensor.role for tensor in kept):
            each = [self._energies(index, level, tensor) for tensor in kept if tensor.role == role]
            for name in each[0]:
                self.entries[level.name, role, name] = EnergyEntry(min(one[name] for one in each), _SOURCE)
        self._scale(level.name, "*", "leak", cycle)
        for tensor in self.einsum.tensors:
            outer = [each for each in range(index + 1) if tensor.role not in self.old.levels[each].bypass]
            share = min(self._stored(each, tensor) for each in outer)
            share *= 1.0 - self._left_out(range(index + 1), tensor)
            for action in ("transfer", "return"):
                self._scale(f"{level.name} network", tensor.role, action, share)
        shares = {
            action: min((self._moved(index, tensor, action) for tensor in kept), default=0.0) for action in ACTIONS
        }
        return replace(
            level,
            sparsity=None,
            block_size=1,
            bandwidth=_rate(level.bandwidth, cycle, min(shares.values())),
            read_bandwidth=_rate(level.read_bandwidth, cycle, shares["read"]),
            write_bandwidth=_rate(level.write_bandwidth, cycle, min(shares["fill"], shares["update"])),
        )

    def _scale(self, component: str, role: str, action: str, share: float) -> None:
        entry = self.old.energy.find(component, role, action)
        if entry is not None:
            self.entries[component, role, action] = EnergyEntry(entry.energy_pj * share, _SOURCE)

    def _moved(self, index: int, tensor: Tensor, action: str) -> float:
        """Share of the words of an action that take time at the ports of a level, metadata included."""
        level = self.old.levels[index]
        share = self._stored(index, tensor)
        share += self._bits(level, tensor) / (level.word_bits * float(level.element_words(tensor)))
        out = self._left_out(range(index), tensor)
        if action != "fill":
            out = max(out, self._left_out([index], tensor, ("skipping",)))
        return share * (1.0 - out)

    def _compute(self) -> float:
        """Write the energy of a multiply-accumulate, and return the share of them that takes a cycle.

        Gated reads stop the unit for a cycle. Without them it may see that both operands are zero, which takes none:
        so both are looked at.
        """
        work = [self._work(kinds) for kinds in (SAVINGS, SAVINGS[1:])]
        cycle, energy_pj = min(each for each, _ in work), min(each for _, each in work)
        if not cycle:
            raise AccelsimError("a tensor has no word that is not zero")
        for key in [key for key in self.entries if key[::2] == (self.old.compute.name, "compute")]:
            self.entries[key] = EnergyEntry(energy_pj, _SOURCE)
        return cycle

    def _work(self, kinds: Sequence[str]) -> tuple[float, float]:
        """Cycles and energy [pJ] of a multiply-accumulate on average, with savings of some kinds."""
        sparse, filled = self.old.compute.sparsity or ComputeSparsity(), self._filled()
        count, stopped, places = 1.0, 0.0, 1.0
        empty = dict.fromkeys((tensor.name for tensor in self.operands), 0.0)
        for tensor in self.operands:
            if any(tensor.role in own(level).positions for level in self.old.levels):
                count *= self.density[tensor.name]
                empty[tensor.name] = 1.0 - self.density[tensor.name]
        for tensor in self.operands:
            every = [saved for index in range(len(self.old.levels)) for saved in self._saved(index, tensor)]
            found = [saved for saved in every if saved[0] in kinds]
            share = max((share for _, share, _ in found), default=0.0)
            stopped += count * share if {kind for kind, _, _ in found} == {"gating"} else 0.0
            count *= 1.0 - share
            places *= 1.0 - share if filled else 1.0
            for _, _, by in found:
                for leader, odds in by.items():
                    empty[leader] = max(empty.get(leader, 0.0), odds)
        given = []
        for tensor in self.operands:
            there = self.density[tensor.name] / (1.0 - empty[tensor.name]) if empty[tensor.name] < 1 else 1.0
            given.append((min(1.0, there), self._may_be_located(tensor)))
        shares, name = compute_shares(given, sparse), self.old.compute.name
        full = self.old.mac_pj(self.einsum)
        gated = min(full, self.old.energy.found_pj(name, "*", *COMPUTE_ENERGY["gated"]))
        skipped = min(gated, self.old.energy.found_pj(name, "*", *COMPUTE_ENERGY["skipped"]))
        energy = (
            count * (shares["actual"] * full + shares["gated"] * gated + shares["skipped"] * skipped) + stopped * gated
        )
        busy = count * (shares["actual"] + shares["gated"]) + stopped
        return busy / places if places else 0.0, energy

    def _filled(self) -> bool:
        """Whether the places of all instances that are skipped are taken, so that those that work are always busy.

        That is so if one tensor decides about all others at one level, none of these is kept further in, and nothing
        else is saved.
        """
        levels = [index for index, level in enumerate(self.old.levels) if own(level).savings]
        savings = [saving for index in levels for saving in own(self.old.levels[index]).savings]
        choices = [choice for saving in savings for choice in saving.choices]
        leaders, others = {by for _, by in choices}, {tensor.role for tensor in self.einsum.tensors}
        others -= {role for by in leaders for role in by}
        return (
            self.spatial
            and all(saving.kind == "spatial_skipping" for saving in savings)
            and self.old.compute.sparsity is None
            and len(levels) == len(leaders) == 1
            and len(next(iter(leaders))) == 1
            and {target for target, _ in choices} >= others
            and all(others <= level.bypass for level in self.old.levels[levels[0] + 1 :])
        )

    def _may_be_located(self, tensor: Tensor) -> bool:
        """Whether metadata of a level that an operand may come from says where its zeros are."""
        last = max(index for index, level in enumerate(self.old.levels) if index == 0 or tensor.role in level.keep)
        levels = [level for level in self.old.levels[last:] if tensor.role not in level.bypass]
        return any(form_of(level, tensor.role).located for level in levels)


def _rate(rate: Fraction | None, cycle: float, share: float) -> Fraction | None:
    """Words in a longer cycle, of which a share is moved; rounded up to few digits."""
    if rate is None or not share:
        return None
    found = Fraction(rate) * Fraction(cycle / share)
    short = found.limit_denominator(10_000)
    return short if abs(short - found) <= found * Fraction(1, 10**12) else Fraction(math.ceil(found * 2**16), 2**16)
