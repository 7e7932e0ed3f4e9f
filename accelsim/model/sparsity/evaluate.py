"""Split the dense counts of a mapping into what happens, what is gated and what is skipped, and add metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.density import Dense
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.nodes import arrange_for
from accelsim.inputs.sparsity import ComputeSparsity, Format
from accelsim.inputs.workload import Einsum, Tensor, pad
from accelsim.model.result import Result, TensorAtLevel
from accelsim.model.sparsity.result import (
    ACTIONS,
    COMPUTE_ENERGY,
    KINDS,
    METADATA_ENERGY,
    SAVED_ENERGY,
    Counts,
    RankUnits,
    SparseCompute,
    SparseResult,
    SparseTensor,
)
from accelsim.model.sparsity.savings import (
    PLAIN,
    Odds,
    Packed,
    Saved,
    SparseNest,
    compute_shares,
    metadata,
    own,
    pack,
    saved_reads,
    slowest_of,
    spatial_share,
    unit_bits,
)


def evaluate_sparse(architecture: Architecture, einsum: Einsum, dense: Result, *, whole: bool = False) -> SparseResult:
    """Find what zeros save of a mapping, of which `dense` is what `evaluate` says.

    `whole`: round each share of a count to whole words, as Sparseloop does; else the counts are expected values. Raises
    AccelsimError if the machine has parts whose time depends on each word, such as a systolic array, or a format has
    fewer ranks than a tile has loops.
    """
    return _Sparse(architecture, einsum, dense, whole).result()


class _Sparse:
    """One evaluation; `p[level, tensor]` are savings, `dense` counts of one instance."""

    def __init__(self, architecture: Architecture, einsum: Einsum, dense: Result, whole: bool) -> None:
        self.machine = arrange_for(architecture, dense.mapping)
        self.einsum = pad(einsum, dense.mapping.padding)
        self.dense, self.whole = dense, whole
        self.nest, self.odds = SparseNest(dense.mapping), Odds(self.einsum)
        self.tensors = {tensor.name: tensor for tensor in self.einsum.tensors}
        self.roles: dict[str, list[Tensor]] = {}
        for tensor in self.einsum.tensors:
            self.roles.setdefault(tensor.role, []).append(tensor)
        self.at = {(self._node(one), one.tensor): one for one in dense.tensors}
        self._refuse()

    def _node(self, one: TensorAtLevel) -> int:
        nodes = enumerate(self.dense.mapping.levels)
        return next(i for i, node in nodes if node.level == one.level and one.tensor in node.keep)

    def _refuse(self) -> None:
        for level in self.machine.levels:
            if level.systolic is not None or level.dma is not None or level.overlap != "all":
                part = "systolic array" if level.systolic else "dma" if level.dma else f"overlap: {level.overlap}"
                why = f"{level.name} has a {part}, whose cycles depend on each word"
                raise AccelsimError(f"{why}; zeros save nothing there that is known")
            keys = {
                "bandwidth": level.network_bandwidth is not None,
                "link_transfers": level.link_transfers,
                "hop": self.machine.has_hops(level),
            }
            for key in (key for key, used in keys.items() if used):
                why = f"the `{key}` of the fanout of {level.name} does not know which words zeros spare"
                raise AccelsimError(f"{why}; leave it out")

        waiting = [level.name for level in self.machine.levels if own(level).imbalance]
        if len(set(waiting)) > 1:
            raise AccelsimError(f"{' and '.join(dict.fromkeys(waiting))} have `imbalance`; keep it at one level")

    def result(self) -> SparseResult:
        """Everything."""
        levels = self.machine.levels
        self.forms: dict[tuple[int, str], Format] = {}
        for node, level in enumerate(levels):
            for role, form in own(level).formats.items():
                self.forms |= {(node, t.name): form for t in self.roles.get(role, []) if self.nest.keeps(node, t)}
        self.stored = {key: self._stored(*key) for key in self.at}
        self.saved = self._savings()
        self.ratio = self._spatial()
        self.packed: dict[tuple[int, str], Packed] = {
            (node, name): pack(self.odds, self.nest, self.tensors[name], node)
            for node, name in self.at
            if self.tensors[name].role in own(self.machine.levels[node]).positions
        }
        tensors = tuple(self._tensor(node, name) for node, name in self.at)
        compute = self._compute()
        cycles = {level.name: 0 for level in levels}
        for node, level in enumerate(levels):
            cycles[level.name] = max(cycles[level.name], self._level_cycles(level, node, tensors, compute.cycles))
        total = max([compute.cycles, *cycles.values()])
        components = self._components(tensors, compute, total)
        return SparseResult(
            dense=self.dense,
            tensors=tensors,
            compute=compute,
            cycles=total,
            level_cycles=cycles,
            energy_pj=sum(components.values()),
            components=components,
            violations=tuple(self._violations(tensors)),
        )

    def _form(self, node: int | None, name: str) -> Format:
        return PLAIN if node is None else self.forms.get((node, name), PLAIN)

    def _parent(self, node: int, tensor: Tensor) -> int | None:
        return self.nest.keeper(node - 1, tensor) if node else None

    # ---- what is stored ----

    def _stored(self, node: int, name: str) -> tuple[float, float, tuple[RankUnits, ...]]:
        """Probability that an instance holds a tile, expected words of one that are not zero, and its metadata."""
        tensor = self.tensors[name]
        occupancy = self.odds.of(tensor, self.nest.box(node, tensor))
        skipped = self._form(self._parent(node, tensor), name).located
        skipped = skipped and (
            self.whole or self._form(node, name).located
        )  # Sparseloop: a dense level holds no empty tile
        held = 1.0 - occupancy.empty if skipped else 1.0
        held = held or 1.0
        return held, occupancy.mean / held, self._metadata(node, name, held)

    def _metadata(self, node: int, name: str, held: float) -> tuple[RankUnits, ...]:
        if (node, name) not in self.forms:
            return ()
        tensor = self.tensors[name]
        forms = {level: form for (level, other), form in self.forms.items() if other == name}
        try:
            fibers = self.nest.fibers(tensor, node, forms)
        except ValueError as error:
            raise AccelsimError(f"{self.machine.levels[node].name}: format of {name}: {error}") from None
        return metadata(fibers, tensor, self.odds, held)

    # ---- what is saved ----

    def _savings(self) -> dict[tuple[int, str], Saved]:
        """The saving of each tensor's reads at each level; of several the one that leaves out most."""
        found: dict[tuple[int, str], Saved] = {}
        for kind in ("gating", "skipping"):
            for node in range(self.nest.depth - 1, -1, -1):
                if node and self.machine.levels[node - 1].name == self.machine.levels[node].name:
                    continue  # the level has a node further out, at which its savings are found
                for saving in own(self.machine.levels[node]).savings:
                    if saving.kind != kind:
                        continue
                    best, most = None, -1.0
                    for target, leaders in self._choices(saving.choices):
                        at = self.nest.keeper(node, target)
                        block = self.machine.levels[at].block_size
                        saved = saved_reads(self.odds, self.nest, kind, target, leaders, at, block)
                        worth = saved.share * self._worth(at, target)
                        if worth >= most:
                            best, most = ((at, target.name), saved), worth
                    if best is not None and (best[0] not in found or found[best[0]].share < best[1].share):
                        found[best[0]] = best[1]
        return found

    def _choices(self, choices: Iterable[tuple[str, tuple[str, ...]]]) -> Iterable[tuple[Tensor, list[Tensor]]]:
        for role, by in choices:
            for target in self.roles.get(role, []):
                yield target, [t for each in by for t in self.roles.get(each, []) if t is not target]

    def _worth(self, node: int, tensor: Tensor) -> float:
        """Energy of reading a tile, which decides between choices."""
        level = self.machine.levels[node]
        child = self.nest.child(node, tensor)
        at = child if child < self.nest.depth else node
        units = self.stored[at, tensor.name][2]
        share = own(level).word_bits / level.word_bits
        words = self.stored[node, tensor.name][1] + share * sum(unit.metadata + unit.payload for unit in units)
        return self.machine.energy.found_pj(level.name, tensor.role, "read") / level.block_size * words

    def _spatial(self) -> dict[tuple[int, str], float]:
        """Share of the instances of each level (`depth`: compute units) that work for a tensor on average."""
        self.skips: dict[tuple[int, str], float] = {}
        if not any(each.kind == "spatial_skipping" for level in self.machine.levels for each in own(level).savings):
            return {}
        found: dict[tuple[int, str], float] = {}
        for tensor in self.einsum.tensors:
            share = 1.0
            for node, level in enumerate(self.machine.levels):
                here: float | None = None
                if self._form(self.nest.keeper(node, tensor), tensor.name).located:
                    here = spatial_share(self.odds, self.nest, tensor, node)
                for saving in own(level).savings:
                    for target, leaders in self._choices(saving.choices):
                        if saving.kind == "spatial_skipping" and target is tensor:
                            here = self._skipped(node, target, leaders)
                            self.skips[node, tensor.name] = here
                share = share if here is None else here
                found[node + 1, tensor.name] = share
        return found

    def _skipped(self, node: int, target: Tensor, leaders: Iterable[Tensor]) -> float:
        share = 1.0
        for leader in leaders:
            if self._form(self.nest.keeper(node, leader), leader.name).located:
                here = spatial_share(self.odds, self.nest, leader, node, target)
                share *= 1.0 if here is None else here
        return share

    # ---- accesses ----

    def _part(self, count: float, share: float, *, up: bool = False) -> float:
        """So much of a count."""
        if not self.whole:
            return count * share
        return float(math.ceil(count * share) if up else math.floor(count * share))

    def _outer(self, node: int, name: str) -> float:
        """Share of what comes to a level that is left out further out already: that of the next saving there."""
        tensor = self.tensors[name]
        for outer in range(node - 1, -1, -1):
            if (outer, name) in self.saved:
                return self.saved[outer, name].share
            if (outer, name) in self.skips and self.nest.keeper(outer, tensor) != node:
                return 1.0 - self.skips[outer, name]
        return 0.0

    def _tensor(self, node: int, name: str) -> SparseTensor:
        level, tensor, one = self.machine.levels[node], self.tensors[name], self.at[node, name]
        form, zeros = self._form(node, name), own(level)
        held, mean, units = self.stored[node, name]
        used = self._used(node, one)
        dense = {"read": one.total_reads / used, "fill": one.total_fills / used, "update": one.total_updates / used}
        left = dict(dense)
        if form.located:
            for action in ACTIONS:
                left[action] -= self._part(left[action], 1.0 - mean / one.tile_words)
        outside = self._outer(node, name)
        for action in ACTIONS:
            left[action] -= self._part(left[action], outside)
        for (at, other), each in self.packed.items():
            if at == node and other != name:  # asked for once in each pass of the other
                left["read"] -= self._part(left["read"], 1.0 - each.passes)
        rounds = {action: dense[action] / one.tile_words for action in ACTIONS}
        moved = {action: [self._units(unit.scaled(rounds[action]), outside) for unit in units] for action in ACTIONS}
        words: Counts = {("actual", action): left[action] for action in ACTIONS}
        meta = {("actual", action): tuple(moved[action]) for action in ACTIONS}
        saved = self.saved.get((node, name))
        if saved is not None and saved.share > outside:
            share, kind = 1.0 - (1.0 - saved.share) / (1.0 - outside), _KIND[saved.kind]
            for action in ("read", "update"):
                out = self._part(left[action], share, up=tensor.output and action == "read")
                words[kind, action], words["actual", action] = out, left[action] - out
            child = self.nest.child(node, tensor)
            below = self._form(child, name) if child < self.nest.depth else form
            for action in ("read", "update"):
                out_units = [
                    RankUnits(self._part(u.metadata, share), self._part(u.payload, share))
                    if r < len(below.ranks)
                    else _NOTHING
                    for r, u in enumerate(moved[action])
                ]
                meta[kind, action] = tuple(out_units)
                meta["actual", action] = tuple(
                    RankUnits(u.metadata - o.metadata, u.payload - o.payload)
                    for u, o in zip(moved[action], out_units, strict=True)
                )
        widths = unit_bits(form, zeros.word_bits)
        bits = {key: _bits(each, widths) for key, each in meta.items()}
        occupancy = self.odds.of(tensor, self.nest.box(node, tensor))
        held_words = occupancy.quantile(zeros.fits) if form.compressed else one.tile_words
        instances = used * (self.ratio.get((node, name), 1.0) if self.ratio else held)
        metadata_pj = instances * self._metadata_energy(level, bits)
        partly = self._partly_filled(node, tensor)
        data_pj = partly * self._energy(level, one, tensor.role, words) + self._converted(node, tensor, words)
        return SparseTensor(
            level=level.name,
            tensor=name,
            density=str(tensor.density or Dense()),
            format=" ".join(rank.format for rank in form.ranks),
            instances=instances,
            dense=dense,
            words=words,
            metadata=meta,
            bits=bits,
            tile_words=mean if form.compressed else float(one.tile_words),
            held_words=held_words,
            held_units=units,
            held_bits=_bits(units, widths),
            energy_pj=instances * data_pj + metadata_pj,
            metadata_pj=metadata_pj,
            partly_filled=partly,
        )

    def _units(self, unit: RankUnits, outside: float) -> RankUnits:
        both = [math.ceil(x - 1e-9) if self.whole else x for x in (unit.metadata, unit.payload)]
        metadata_units, payload = (each - self._part(each, outside) for each in both)
        return RankUnits(metadata_units, payload)

    def _used(self, node: int, one: TensorAtLevel) -> int:
        return next(each.used_instances for each in self.dense.levels if each.level == one.level)

    def _energy(self, level: Level, one: TensorAtLevel, role: str, words: Counts) -> float:
        """Energy [pJ] of the accesses to the words of an instance, as if they filled all blocks."""
        found, per_word = 0.0, one.storage_words(1, level.word_bits)
        for kind, action in ((kind, action) for kind in KINDS for action in ACTIONS):
            count = words.get((kind, action), 0.0) * per_word
            if count:
                blocks = math.ceil(count / level.block_size - 1e-9) if self.whole or level.block_size > 1 else count
                found += blocks * self._access_pj(level, role, kind, action)
        return found

    def _metadata_energy(self, level: Level, bits: Counts) -> float:
        """Energy [pJ] of the accesses to the metadata of an instance."""
        width = own(level).width
        moved = {key: count for key, count in bits.items() if count and width}
        return sum(
            (math.ceil(count / width) if self.whole else count / width)
            * self.machine.energy.found_pj(level.name, "*", *METADATA_ENERGY[key])
            for key, count in moved.items()
        )

    def _partly_filled(self, node: int, tensor: Tensor) -> float:
        """Accesses to a compressed tile, whose last block is not full, over those that its words would fill."""
        form, level = self._form(node, tensor.name), self.machine.levels[node]
        if not form.compressed or level.block_size == 1:
            return 1.0
        occupancy = self.odds.of(tensor, self.nest.box(node, tensor))
        more = occupancy.blocks(level.block_size) * level.block_size / occupancy.mean if occupancy.mean else 1.0
        return 1.0 if self.whole and more < _NEARLY_FULL else more

    def _converted(self, node: int, tensor: Tensor, words: Counts) -> float:
        """Energy [pJ] of putting zeros in where tiles come in, and of leaving them out where they leave."""
        form, parent = self._form(node, tensor.name), self._parent(node, tensor)
        if not self._form(parent, tensor.name).compressed or form.compressed:
            return 0.0
        name = self.machine.levels[node].name
        found = words["actual", "fill"] * self.machine.energy.found_pj(name, "*", "decompression")
        if tensor.output and parent is not None:
            one, used = self.at[parent, tensor.name], self._used(node, self.at[node, tensor.name])
            updates = one.total_updates * self.stored[parent, tensor.name][1] / one.tile_words
            found += updates / used * self.machine.energy.found_pj(name, "*", "compression")
        return found

    def _access_pj(self, level: Level, role: str, kind: str, action: str) -> float:
        if kind == "actual":
            return self.machine.energy.energy_pj(level.name, role, {"fill": "write"}.get(action, action))
        return self.machine.energy.found_pj(level.name, "*", *SAVED_ENERGY[kind, action])

    # ---- computes ----

    def _compute(self) -> SparseCompute:
        operands = [tensor for tensor in self.einsum.tensors if not tensor.output]
        empty = dict.fromkeys(self.tensors, 0.0)
        count, innermost = float(self.dense.padded_macs), {}
        for tensor in operands:
            for node in range(self.nest.depth - 1, -1, -1):
                if (node, tensor.name) in self.saved:
                    innermost[tensor.name] = self.saved[node, tensor.name]
                    break
                if (node, tensor.name) in self.skips:
                    share = 1.0 - self.skips[node, tensor.name]
                    innermost[tensor.name] = Saved("spatial_skipping", share, {})
                    break
        shares = []
        packed = [self.tensors[name] for _, name in self.packed]
        for tensor in packed:
            empty[tensor.name] = 1.0 - self.odds.scalar(tensor)
        for tensor in packed:
            count -= self._part(count, empty[tensor.name])
        stopped = 0.0  # Sparseloop lets the computes of gated reads take no cycle
        for saved in innermost.values():
            out = self._part(count, saved.share)
            stopped += out if saved.kind == "gating" and not self.whole else 0.0
            count -= out
        for name, saved in innermost.items():
            others = saved.leaders or {other.name: saved.share for other in operands if other.name != name}
            for leader, odds in others.items():
                empty[leader] = max(empty[leader], odds)
        for tensor in operands:
            there = self.odds.scalar(tensor) / (1.0 - empty[tensor.name]) if empty[tensor.name] < 1 else 1.0
            home = self.nest.keeper(self.nest.depth - 1, tensor)
            shares.append((min(1.0, there), self._form(home, tensor.name).located))
        kinds = compute_shares(shares, self.machine.compute.sparsity or ComputeSparsity())
        skipped, gated = self._part(count, kinds["skipped"]), self._part(count, kinds["gated"])
        actual = count - skipped - gated - self._part(count, kinds["absent"])
        gated += stopped
        ratio = self._busy()
        for packing in self.packed.values():
            ratio *= packing.mean_filled if self.whole else packing.filled
        instances = self.dense.compute_used * ratio
        slowest = self._slowest(min(1.0, (actual + gated) / (self.dense.padded_macs * ratio))) if ratio else 1.0
        busy = (actual + gated) * self.dense.cycles_per_mac * slowest
        rate = self.machine.compute.sparsity.intersection if self.machine.compute.sparsity else None
        looked_at = (actual + gated + skipped) / rate if rate else 0.0
        cycles = math.ceil(max(busy, looked_at) / instances - 1e-9) if instances else 0  # all words are zero
        each = self.dense.compute_pj / self.dense.padded_macs
        name = self.dense.compute
        energy = actual * each
        for kind, many in (("gated", gated), ("skipped", skipped)):
            energy += many * self.machine.energy.found_pj(name, "*", *COMPUTE_ENERGY[kind])
        return SparseCompute(self.dense.padded_macs, actual, gated, skipped, instances, cycles, energy, slowest)

    def _slowest(self, share: float) -> float:
        """Time of the slowest instance over the mean one, in levels below which instances wait for each other."""
        found = 1.0
        for node, level in enumerate(self.machine.levels):
            if own(level).imbalance and share:
                macs = math.prod(step.bound for step in self.nest.between(node + 1, self.nest.depth))
                many = math.prod(step.bound for step in self.nest.between(node, node + 1) if step.spatial)
                found *= slowest_of(many, macs, share) / (macs * share)
        return found

    # ---- time and energy ----

    def _level_cycles(self, level: Level, node: int, tensors: Iterable[SparseTensor], steps: int) -> int:
        """Cycles that the ports of a level need, and the computes at least."""
        reads = writes = 0.0
        for one in tensors:
            if one.level != level.name:
                continue
            per_word = self._storage_words(level, one.tensor)
            for kind in ("actual", "gated"):
                for action in ACTIONS:
                    words = one.words.get((kind, action), 0.0) * per_word
                    words += one.bits.get((kind, action), 0.0) / level.word_bits
                    reads, writes = (reads + words, writes) if action == "read" else (reads, writes + words)
        ports = [(float(rate), words) for rate, words in level.ports(reads, writes) if words]
        if self.whole:  # in Timeloop's order, whose last digit may round a cycle up
            return max((math.ceil(steps / min(1.0, rate / (words / steps))) for rate, words in ports), default=0)
        return max((math.ceil(words / rate - 1e-9) for rate, words in ports), default=0)

    def _storage_words(self, level: Level, name: str) -> float:
        """Words of a level that a word of a tensor takes there."""
        one = next(one for one in self.at.values() if (one.level, one.tensor) == (level.name, name))
        return float(one.storage_words(1, level.word_bits))

    def _components(self, tensors: Iterable[SparseTensor], compute: SparseCompute, cycles: int) -> dict[str, float]:
        """Energy [pJ] of each component."""
        found: dict[str, float] = {}
        for level in self.dense.levels:
            leak = level.leak_pj * cycles / self.dense.cycles
            found[level.level] = leak + sum(one.energy_pj for one in tensors if one.level == level.level)
            wires = sum(
                n.energy_pj * self._crossing(n.level, n.tensor, tensors)
                for n in self.dense.networks
                if n.level == level.level
            )
            if wires:
                found[f"{level.level} network"] = wires
        found[self.dense.compute] = compute.energy_pj
        return found

    def _crossing(self, level: str, name: str, tensors: Iterable[SparseTensor]) -> float:
        """Share of the dense words of a tensor that cross the network below a level."""
        tensor = self.tensors[name]
        node = next(i for i, each in enumerate(self.machine.levels) if each.name == level)
        keeper = self.machine.levels[self.nest.keeper(node, tensor)].name
        one = next(each for each in tensors if each.level == keeper and each.tensor == name)
        dense = one.dense["read"] + one.dense["update"]
        return (one.words["actual", "read"] + one.words["actual", "update"]) / dense if dense else 1.0

    def _violations(self, tensors: tuple[SparseTensor, ...]) -> Iterable[str]:
        """What does not fit; other rules are as in the dense counts, but for fanouts whose instances are skipped."""
        levels = {level.name: level for level in self.machine.levels}
        for violation in self.dense.violations:
            if " needs " in violation.text or any(
                violation.text.startswith(f"{name} spreads") and self._skips_instances(level)
                for name, level in levels.items()
            ):
                continue
            yield violation.text
        for level in levels.values():
            held = {t.tensor: t for t in tensors if t.level == level.name}
            for role, room in level.rooms.items():
                needs = sum(
                    one.held_words * self._storage_words(level, name)
                    for name, one in held.items()
                    if not role or self.tensors[name].role == role
                )
                if needs > room:
                    yield f"{level.name} needs {math.ceil(needs)} words{f' of {role}' if role else ''}, has {room}"
            zeros, bits = own(level), sum(one.held_bits for one in held.values())
            if zeros.depth is not None and bits > zeros.depth * zeros.width:
                yield f"{level.name} needs {math.ceil(bits)} bit for metadata, has {zeros.depth * zeros.width}"
        if self.ratio and round(self.dense.compute_used * self._busy(), 6) > self.dense.compute_instances:
            used = self.dense.compute_used * self._busy()
            yield f"{used:,.1f} compute units are busy on average, there are {self.dense.compute_instances:,}"

    def _skips_instances(self, level: Level) -> bool:
        zeros = own(level)
        return bool(zeros.positions) or any(each.kind == "spatial_skipping" for each in zeros.savings)

    def _busy(self) -> float:
        """Share of the compute units of the dense mapping that are needed, where instances are skipped."""
        return max((self.ratio.get((self.nest.depth, name), 1.0) for name in self.tensors), default=1.0)


_NEARLY_FULL = 1.01
"""Sparseloop takes the blocks of a tile as full where that is so to a hundredth."""
_KIND = {"gating": "gated", "skipping": "skipped"}
_NOTHING = RankUnits(0.0, 0.0)


def _bits(units: Iterable[RankUnits], widths: list[tuple[int, int]]) -> float:
    return sum(u.metadata * md + u.payload * pl for u, (md, pl) in zip(units, widths, strict=True))
