"""Machine, Einsum and mappings as int64 arrays; the one place that knows the layout, and proves that all counts fit.

Axis letters: B = mappings of a batch, L = storage levels (outermost first), D = dimensions of bound > 1 (one of bound 1
if there is no other), T = tensors.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.inputs.architecture import OVERLAPS as OVERLAP_KINDS
from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.level_features import Dma, Instruction
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.nodes import first_nodes
from accelsim.inputs.workload import ROLES, Einsum, Tensor
from accelsim.model.records import Bools1, Bools2, Bools3, Floats1, Floats2, Floats3, Ints1, Ints2, Ints3, record

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SAFE = 2**62
UNLIMITED = -1
PE, ROWS, SKEW, BUFFERED, STREAM, STREAMED, SHORTEST, FITTING = range(8)
"""Of a systolic array: the level of its PEs, -1 if there is none; rows that a stationary word passes, 0 if none enters
from above; cycles of skew; whether the next tile comes in while one is used; dimension that an instruction streams, -1
if instructions take no time, its rows at most, what it takes at least [steps], and the rows along the
dimension that waste the smallest share."""
ROW, ROW_UNITS, PSUM_ROW, LINE, LINE_UNITS, PSUM_LINE, ALONG = range(7)
"""Of a tensor at a level with an engine: elements of a row, 0 if it takes no time, what it takes [units], and partial
sums of a row; the same of a line; and the rank along which elements are adjacent."""
KIND, UNITS, ISSUE, LEAST, LEAST_FIRST = range(5)
"""Of the engine itself: one of the next three, units in a cycle, its issue, and what no mapping spares in
all and for the first tile [cycles]."""
NO_ENGINE, OVERLAPS, WAITS = range(3)
TIME, ON_X, ON_Y, TILE_SIZES, TILE_WORDS = range(5)
"""What constraints bound: products of loops in time or on an axis or of sizes of a tile, or words of one tensor."""
NETWORK = 3
"""Port of the last node of a level: the network below."""
ALL_OVERLAP, STEADY_OVERLAPS, NONE_OVERLAPS = range(3)
"""As `Level.overlap`."""


@record
class Constants(NamedTuple):
    """What the kernel needs to know of machine and Einsum, besides the mapping.

    A unit is a storage word of the level; where it compresses, one of `Encoded.units_per_word` equal parts of a word,
    so that compressed elements too take whole units.
    """

    bounds: Ints1
    """int64[D]: bound of each dimension [iterations]."""
    relevant: Bools2
    """bool[T, D]: whether a step along the dimension moves the tensor's tile."""
    factor: Ints2
    """int64[T, D]: coefficient of the dimension in its rank of the tensor, 0 if it does not move the tensor."""
    rank: Ints2
    """int64[T, D]: rank of the tensor that the dimension moves, 0 if it moves none."""
    reduces: Bools1
    """bool[D]: whether places that differ along the dimension add into the same words of the output."""
    terms: Ints1
    """int64[T]: how many dimensions move the tensor."""
    term: Ints2
    """int64[T, D]: dimensions that move the tensor, rank by rank; only the first `terms` of a row count."""
    term_factor: Ints2
    """int64[T, D]: coefficients of the dimensions that `term` lists."""
    term_opens: Bools2
    """bool[T, D]: whether a dimension that `term` lists is the first one of its rank."""
    whole: Ints1
    """int64[T]: words of the whole tensor."""
    windowed: Bools1
    """bool[T]: whether some rank of the tensor has two or more dimensions, so that tiles can have a halo."""
    output: Ints1
    """int64[1]: index of the output among the tensors."""
    role: Ints1
    """int64[T]: role of the tensor, as an index into `ROLES`."""
    fanout: Ints2
    """int64[L, 2]: most children of one instance along x and along y."""
    asked: Ints2
    """int64[R, 4 + D]: R bounds that constraints set: level; kind, one of TIME, ON_X, ON_Y, TILE_SIZES and TILE_WORDS;
    the least and the largest value; and 1 for each dimension of the product. Of TILE_WORDS, the first of the D columns
    is the tensor."""
    multicast: Bools3
    """bool[L, 2, T]: whether one read serves all children along x, or along y, that need the same words of the
    tensor."""
    reduction: Bools2
    """bool[L, 2]: whether partial sums of children along x, or along y, are added to one update."""
    capacity: Ints1
    """int64[L] [units]: room for the tiles of all tensors in one instance; -1 if unlimited, or if partitioned."""
    partition: Ints2
    """int64[L, 3] [units]: room for the tiles of each role in one instance, -1 if unlimited."""
    partitioned: Bools1
    """bool[L]: whether each role has a partition of its own."""
    word_parts: Ints3
    """int64[L, T, 2] [units]: size of an element of the tensor, as a finished word and as a partial sum."""
    two_widths: Bools1
    """bool[1]: whether a partial sum and a finished word differ in size at any level."""
    block: Ints1
    """int64[L] [units]: what one access moves."""
    block_shift: Ints1
    """int64[L]: log2 of `block`, -1 if it is no power of two."""
    bandwidth: Ints3
    """int64[L, 4, 2]: units and cycles of the shared, read and write port and of the network below: n units take
    ceil(n*cycles/units) cycles; 0 units if unlimited."""
    limited: Bools1
    """bool[L]: whether any of the level's ports, or its network, has a limited bandwidth."""
    drain: Bools1
    """bool[L]: whether the level is charged a read for each word that drains to the level above."""
    energy: Floats3
    """float64[L, T, 5] [pJ]: energy of a read, a write and an update (each of one access), of a transfer over the
    network below (one word), and of a return over it (one partial sum that comes back)."""
    hop: Floats2
    """float64[L, T] [pJ]: energy of one word over one link of the mesh below the level."""
    transfers: Bools1
    """bool[L]: whether words that cross the network below cost energy, or its bandwidth is limited."""
    links: Bools1
    """bool[L]: whether children below the level take words of inputs from their neighbours."""
    leak: Floats1
    """float64[L] [pJ]: energy that leaks in one cycle for each instance in use; where idle instances leak too, all of
    it is the outermost level's."""
    mac: Floats1
    """float64[1] [pJ]: energy of one multiply-accumulate."""
    mac_cycles: Ints1
    """int64[1] [cycles]: time of one multiply-accumulate."""
    nodes: Ints2
    """int64[L, 2]: first storage node of the level that a node belongs to, and the node after its last one."""
    array: Ints1
    """int64[8]: the systolic array, by PE, ROWS, SKEW, BUFFERED, STREAM, STREAMED, SHORTEST and FITTING."""
    stationary: Bools1
    """bool[T]: whether the PEs of the systolic array hold the tensor in place."""
    most_held: Ints1
    """int64[T] [words]: words of the tensor that one PE of the systolic array has room for, -1 if unlimited."""
    already: Ints1
    """int64[L] [units]: tiles that are in an instance beforehand, so that they do not pass its write port."""
    outer_units: Ints1
    """int64[1] [units]: size of a storage word of the outermost level."""
    dma: Ints3
    """int64[L, T + 1, 7]: how a DMA engine moves each tensor, by ROW, ROW_UNITS, PSUM_ROW, LINE, LINE_UNITS, PSUM_LINE
    and ALONG; and in the last row the engine itself, by KIND, UNITS, ISSUE, LEAST and LEAST_FIRST. Empty if no level
    has an engine."""
    overlap: Ints1
    """int64[L]: which fills and drains of the level overlap with computing: ALL_OVERLAP, STEADY_OVERLAPS or
    NONE_OVERLAPS."""
    latency: Ints1
    """int64[L] [cycles]: time before the first word of a read of the level arrives; 0 if all fills overlap."""


@record
class Batch(NamedTuple):
    """B mappings as arrays."""

    temporal: Ints3
    """int64[B, L, D]: bound of the temporal loop over each dimension, 1 if there is none."""
    order: Ints3
    """int64[B, L, D]: dimensions in the order of the level's temporal loops, outermost first; those of bound 1 come
    last."""
    x: Ints3
    """int64[B, L, D]: bound of the spatial loop along x over each dimension, 1 if there is none."""
    y: Ints3
    """int64[B, L, D]: bound of the spatial loop along y over each dimension, 1 if there is none."""
    keep: Bools3
    """bool[B, L, T]: whether the level keeps the tensor."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Machine and Einsum with their constants; made by `encode`."""

    architecture: Architecture
    einsum: Einsum
    dims: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    constants: Constants
    units_per_word: tuple[int, ...]
    """In which the kernel counts what a level stores and moves: 1 unless it compresses."""
    reach: int
    """Words along a rank of several dimensions at most, where the kernel marks them one by one; 1 if it does not."""


_LAST = deque[Encoded](maxlen=4)
"""What was encoded last: most callers have many mappings of a machine and an Einsum."""


def encode(architecture: Architecture, einsum: Einsum) -> Encoded:
    """Turn a machine and an Einsum into the arrays of the kernel, which nobody changes.

    Raises AccelsimError if an energy is missing, or if a count could pass 2**62.
    """
    for last in tuple(_LAST):
        if last.architecture is architecture and last.einsum is einsum:
            return last
    encoded = _encode(architecture, einsum)
    _LAST.append(encoded)  # another thread may append its own at any time
    return encoded


def _encode(architecture: Architecture, einsum: Einsum) -> Encoded:
    dims = tuple(dim for dim, bound in einsum.dims.items() if bound > 1) or tuple(einsum.dims)[:1]
    tensors, levels, firsts = einsum.tensors, architecture.levels, first_nodes(architecture.levels)
    shape = (len(tensors), len(dims))
    factor, rank_of, term = np.zeros((3, *shape), np.int64)
    relevant, opens = np.zeros((2, *shape), np.bool_)
    terms, windowed = np.zeros(len(tensors), np.int64), np.zeros(len(tensors), np.bool_)
    for t, tensor in enumerate(tensors):
        at = 0
        for r, rank in enumerate(tensor.ranks):
            moving = [(dims.index(dim), coefficient) for dim, coefficient in rank if dim in dims]
            windowed[t] |= len(moving) > 1
            opens[t, at : at + 1] = bool(moving)
            for d, coefficient in moving:
                relevant[t, d], factor[t, d], rank_of[t, d], term[t, at] = True, coefficient, r, d
                at += 1
        terms[t] = at
    output = next(t for t, tensor in enumerate(tensors) if tensor.output)
    shared = [r for r in range(len(tensors[output].ranks)) if (relevant[output] & (rank_of[output] == r)).sum() > 1]
    parts = np.ones((len(levels), len(tensors), 2), np.int64)
    # the least number of parts of a storage word of which every compressed element takes whole ones
    units = tuple(math.lcm(*(share.denominator for share in level.compression.values())) for level in levels)
    for index, level in enumerate(levels):
        for t, tensor in enumerate(tensors):
            for partial in (False, True):
                words = level.element_words(tensor, partial=partial and tensor.output)
                parts[index, t, int(partial)] = int(words * units[index])
    block = [level.block_size * unit for level, unit in zip(levels, units, strict=True)]
    bandwidth = _bandwidth(architecture, units)
    array, stationary, most_held = _array(architecture, einsum, dims, parts, units)
    ramp = int(array[ROWS] + array[SKEW] + array[SHORTEST] * architecture.compute.cycles_per_mac)
    dma = _engines(architecture, einsum)
    for engine in dma:  # a row or a line holds a word at least, and each tile is issued and rounded up once
        times = engine[:-1, [ROW_UNITS, LINE_UNITS]].sum(axis=1)  # partial sums come back and leave again, too
        ramp += int(times.sum() + 2 * times[output] + engine[-1, ISSUE]) + len(tensors) + 2
    overlap = np.array([OVERLAP_KINDS.index(level.overlap) for level in levels], np.int64)
    waited = [level.latency * bool(overlap.any()) for level in levels]
    ramp += sum(waited) * len(levels)  # each fill of a tile comes with a step
    moved = int(parts.max()) * (4 + 3 * int(np.count_nonzero(overlap)))
    _refuse_overflow(architecture, einsum, moved, int(bandwidth[:, :, 1].max(initial=1)), ramp)
    energy, leak, hop = _energies(architecture, tensors)
    constants = Constants(
        bounds=np.array([einsum.dims[dim] for dim in dims], np.int64),
        relevant=relevant,
        factor=factor,
        rank=rank_of,
        reduces=np.array([not relevant[output, d] or rank_of[output, d] in shared for d in range(len(dims))], np.bool_),
        terms=terms,
        term=term,
        term_factor=factor[np.arange(len(tensors))[:, None], term],
        term_opens=opens,
        whole=np.array([tensor.words(einsum.dims) for tensor in tensors], np.int64),
        windowed=windowed,
        output=np.array([output], np.int64),
        role=np.array([ROLES.index(tensor.role) for tensor in tensors], np.int64),
        fanout=np.array([[level.x.size, level.y.size] for level in levels], np.int64),
        asked=np.zeros((0, 4 + len(dims)), np.int64),
        multicast=np.array([[[a.serves(t.role) for t in tensors] for a in (lv.x, lv.y)] for lv in levels], np.bool_),
        reduction=np.array([[level.x.spatial_reduction, level.y.spatial_reduction] for level in levels], np.bool_),
        capacity=np.array([_room(level, "", unit) for level, unit in zip(levels, units, strict=True)], np.int64),
        partition=np.array(
            [[_room(level, role, unit) for role in ROLES] for level, unit in zip(levels, units, strict=True)], np.int64
        ),
        partitioned=np.array([level.partition_words is not None for level in levels], np.bool_),
        word_parts=parts,
        two_widths=np.array([bool((parts[:, :, 0] != parts[:, :, 1]).any())], np.bool_),
        block=np.array(block, np.int64),
        block_shift=np.array([size.bit_length() - 1 if size & (size - 1) == 0 else -1 for size in block], np.int64),
        bandwidth=bandwidth,
        limited=(bandwidth[:, :, 0] > 0).sum(axis=1) > 0,
        drain=np.array([level.drain_reads for level in levels], np.bool_),
        energy=energy,
        hop=hop,
        transfers=(energy[:, :, 3:] > 0).any(axis=(1, 2)) | (hop > 0).any(axis=1) | (bandwidth[:, NETWORK, 0] > 0),
        links=np.array([level.link_transfers and end in firsts for end, level in enumerate(levels, 1)], np.bool_),
        leak=leak,
        mac=np.array([architecture.mac_pj(einsum)], np.float64),
        mac_cycles=np.array([architecture.compute.cycles_per_mac], np.int64),
        nodes=np.array([(a, b) for a, b in itertools.pairwise(firsts) for _ in range(a, b)], np.int64),
        array=array,
        stationary=stationary,
        most_held=most_held,
        already=np.zeros(len(levels), np.int64),
        outer_units=np.array(units[:1], np.int64),
        dma=dma,
        overlap=overlap,
        latency=np.array(waited, np.int64),
    )
    return Encoded(architecture, einsum, dims, tensors, constants, units, _reach(constants))


def _reach(c: Constants) -> int:
    reach = 1
    for t in np.flatnonzero(c.windowed).tolist():
        for r in set(c.rank[t][c.relevant[t]].tolist()):
            along = c.relevant[t] & (c.rank[t] == r)
            if along.sum() > 2 or (along.sum() > 1 and t == c.output[0]):
                reach = max(reach, 1 + int((c.factor[t] * (c.bounds - 1))[along].sum()))
    return reach


def _room(level: Level, role: str, units_per_word: int) -> int:
    """Room for the tiles of a role, or of all together, in units, which 64 bits hold."""
    if role not in level.rooms:
        return 0 if role and level.partition_words is not None else UNLIMITED
    units = level.rooms[role] * units_per_word
    if units >= SAFE:
        raise AccelsimError(f"level {level.name}: size and compression have too many digits; round them")
    return units


def _bandwidth(architecture: Architecture, units: Sequence[int]) -> Ints:
    """Units and cycles of each port, so that n units take `ceil(n * cycles / units)` cycles; 0 units: unlimited."""
    bandwidth = np.zeros((len(architecture.levels), 4, 2), np.int64)
    for index, last in itertools.pairwise(first_nodes(architecture.levels)):
        level = architecture.levels[index]
        rates = level.bandwidth, level.read_bandwidth, level.write_bandwidth, level.network_bandwidth
        for port, rate in enumerate(rates):
            node = last - 1 if port == NETWORK else index
            if rate is not None:
                scaled = Fraction(rate) * units[index]
                if max(scaled.numerator, scaled.denominator) >= SAFE:
                    raise AccelsimError(
                        f"level {level.name}: bandwidth {rate} words a cycle has too many digits; round it"
                    )
                bandwidth[node, port] = scaled.numerator, scaled.denominator
    return bandwidth


def _energies(architecture: Architecture, tensors: Sequence[Tensor]) -> tuple[Floats, Floats, Floats]:
    energy = np.zeros((len(architecture.levels), len(tensors), 5), np.float64)
    hop = np.zeros(energy.shape[:2], np.float64)
    leak = np.zeros(len(architecture.levels), np.float64)
    table, first = architecture.energy, first_nodes(architecture.levels)
    for index, level in enumerate(architecture.levels):
        if index in first:  # where idle instances leak, too, the one outermost instance leaks for all of them
            at, many = (index, 1) if level.power_gateable else (0, architecture.instances(index))
            leak[at] += table.found_pj(level.name, "*", "leak") * many
        network = f"{level.name} network"
        for t, tensor in enumerate(tensors):
            if index + 1 in first:
                energy[index, t, 3] = table.found_pj(network, tensor.role, "transfer")
                back = ("return", "transfer") if tensor.output else ("transfer",)
                energy[index, t, 4] = table.found_pj(network, tensor.role, *back)
                hop[index, t] = table.found_pj(network, tensor.role, "hop")
            if tensor.role in level.bypass:
                continue
            for action, name in enumerate(("read", "write", "update")):
                energy[index, t, action] = table.energy_pj(level.name, tensor.role, name)
    return energy, leak, hop


def _array(
    architecture: Architecture, einsum: Einsum, dims: Sequence[str], parts: Ints, units: Sequence[int]
) -> tuple[Ints, Bools, Ints]:
    """Systolic array of the machine, the tensors held in its PEs, and words of each that a PE has room for."""
    tensors = einsum.tensors
    array, held = np.array([-1, 0, 0, 0, -1, 1, 1, 1], np.int64), np.zeros(len(tensors), np.bool_)
    most = np.full(len(tensors), UNLIMITED, np.int64)
    for index, level in enumerate(architecture.levels):
        if level.systolic is None:
            continue
        role = level.systolic.stationary
        if array[PE] >= 0 or index + 1 == len(architecture.levels):
            raise AccelsimError(f"level {level.name}: a machine has one systolic array, and a level inside it: its PEs")
        inside = architecture.levels[index + 1]
        if role not in inside.keep:
            raise AccelsimError(f"level {inside.name}: the PEs of a systolic array keep {role}")
        rows = 0 if role == "Outputs" else level.y.size
        skew = (level.x.size + level.y.size - 2) * architecture.compute.cycles_per_mac
        array[:STREAM] = index + 1, rows, skew, level.systolic.double_buffered
        asked = level.systolic.instruction
        if asked is not None and asked.along in einsum.dims:
            bound = einsum.dims[asked.along]
            small = [rows for rows in range(1, math.isqrt(bound) + 1) if bound % rows == 0]
            fitting = min((*small, *(bound // rows for rows in small)), key=lambda rows: _wasted(asked, rows))
            stream = dims.index(asked.along) if asked.along in dims else len(dims)
            array[STREAM:] = stream, asked.rows, asked.least, fitting
        for t, tensor in enumerate(tensors):
            held[t] = tensor.role == role
            room = _room(inside, "" if inside.partition_words is None else tensor.role, units[index + 1])
            if room != UNLIMITED:
                most[t] = room // int(parts[index + 1, t].min())
    return array, held, most


def _wasted(asked: Instruction, rows: int) -> float:
    """Share of the steps of a tile in which the instructions that stream so many rows waste time."""
    last = rows % asked.rows
    return (rows // asked.rows * max(0, asked.least - asked.rows) + max(0, asked.least - last) * (last > 0)) / rows


def _engines(architecture: Architecture, einsum: Einsum) -> Ints:
    """Engines of a machine: int64[L, T + 1, 7], the last row of each level the engine's own; empty without engines.

    Raises AccelsimError if a row or a line is less than an element.
    """
    levels, tensors = architecture.levels, einsum.tensors
    if all(level.dma is None for level in levels):
        return np.zeros((0, 0, 7), np.int64)
    found = np.zeros((len(levels), len(tensors) + 1, 7), np.int64)
    least = [Fraction()] * len(levels)  # what it must keep, in full rows and lines, but for words that strides skip
    for index, level in enumerate(levels):
        if level.dma is None:
            continue
        times = [*level.dma.row_cycles.values(), *level.dma.line_cycles.values()]
        units = math.lcm(*(time.denominator for time in times))
        found[index, -1, :3] = OVERLAPS if level.dma.overlap else WAITS, units, level.dma.issue
        for t, tensor in enumerate(tensors):
            found[index, t, ALONG] = _rank_along(level.dma, tensor)
            for at, bits, cycles in (
                (ROW, level.dma.row_bits, level.dma.row_cycles),
                (LINE, level.dma.line_bits, level.dma.line_cycles),
            ):
                if bits is None or not cycles.get(tensor.role):
                    continue
                widest = max(tensor.bits, tensor.psum_bits) if tensor.output else tensor.bits
                if bits < widest:
                    what = f"the dma of level {level.name} moves {bits} bit at a time"
                    raise AccelsimError(f"{what}, less than an element of {tensor.name} ({widest} bit)")
                psums = bits // tensor.psum_bits if tensor.output else 0
                found[index, t, at : at + 3] = bits // tensor.bits, int(cycles[tensor.role] * units), psums
            if tensor.role in level.keep:
                words = math.prod(max([1, *(einsum.dims[dim] for dim, _ in rank)]) for rank in tensor.ranks)
                narrow = min(tensor.bits, tensor.psum_bits) if tensor.output else tensor.bits
                least[index] += words * level.dma.cycles_each(tensor.role, narrow)
        found[index, -1, LEAST] = math.ceil(least[index] / architecture.instances(index))
        if any(tensor.role in level.keep for tensor in tensors):
            found[index, -1, LEAST_FIRST] = level.dma.issue
    return found


def _rank_along(dma: Dma, tensor: Tensor) -> int:
    """Rank along which words of a tensor are adjacent: that of the dimension which the engine names, or the last."""
    named = [r for r, rank in enumerate(tensor.ranks) if dma.along.get(tensor.role) in [dim for dim, _ in rank]]
    return named[0] if named else len(tensor.ranks) - 1


def _refuse_overflow(architecture: Architecture, einsum: Einsum, moved: int, rate: int, ramp: int) -> None:
    """Prove that no integer in the kernel passes 2**62, or refuse.

    A rank's extent is at most the sum of its coefficients times the product of its dimensions' tile sizes; so words
    moved to all instances of a level are at most MACs x (that factor over all ranks), and summed over tensors, times
    words an element takes, times the bandwidth's denominator, bounds every intermediate. A ramp comes with a word that
    enters a PE, or with a step, and there is one step at least. `moved` is how many storage words an element takes at
    most, four times: a port carries reads, drain reads, fills and updates, added up before they are divided by its
    bandwidth. For each level that all else waits for it is three times more: fills, drains, and older values.
    """
    words = sum(
        math.prod(sum(factor for _, factor in rank) or 1 for rank in tensor.ranks) * einsum.macs
        for tensor in einsum.tensors
    )
    each = architecture.compute.cycles_per_mac
    bound = words * max(moved * rate * each, each + 2 * ramp)
    if bound >= SAFE:
        raise AccelsimError(
            f"{einsum.name} on {architecture.name}: counts could pass 2**{bound.bit_length() - 1}, and 64-bit "
            "integers are safe to 2**62; split the workload, or round bandwidths and compression to fewer digits"
        )


def empty_batch(encoded: Encoded, mappings: int) -> Batch:
    """Arrays for a batch of so many mappings, all loops of bound 1 and nothing kept."""
    levels, (tensors, dims) = len(encoded.architecture.levels), encoded.constants.relevant.shape
    shape = (mappings, levels, dims)
    order = np.empty(shape, np.int64)
    order[:] = np.arange(dims)
    return Batch(
        temporal=np.ones(shape, np.int64),
        order=order,
        x=np.ones(shape, np.int64),
        y=np.ones(shape, np.int64),
        keep=np.zeros((mappings, levels, tensors), np.bool_),
    )


def encode_mappings(encoded: Encoded, mappings: Sequence[Mapping]) -> Batch:
    """Write mappings into the arrays of a batch."""
    dims = {dim: d for d, dim in enumerate(encoded.dims)}
    names = [tensor.name for tensor in encoded.tensors]
    orders, keeps, in_time, on_x, on_y = (list[list[int]]() for _ in range(5))
    for level in itertools.chain.from_iterable(mapping.levels for mapping in mappings):
        order = [dims[loop.dim] for loop in level.temporal if loop.bound > 1]
        orders.append(order + [d for d in range(len(dims)) if d not in order])
        for loops, rows in ((level.temporal, in_time), (level.x, on_x), (level.y, on_y)):
            bounds = [1] * len(dims)
            for loop in loops:
                if loop.bound > 1:
                    bounds[dims[loop.dim]] *= loop.bound
            rows.append(bounds)
        keeps.append([name in level.keep for name in names])
    shape = len(mappings), len(encoded.architecture.levels)
    temporal, order_of, x, y = (
        np.array(rows, np.int64).reshape(*shape, len(dims)) for rows in (in_time, orders, on_x, on_y)
    )
    return Batch(temporal, order_of, x, y, np.array(keeps, np.bool_).reshape(*shape, len(names)))


def decode_mapping(encoded: Encoded, batch: Batch, b: int) -> Mapping:
    """Read one mapping of a batch; loops of bound 1 are dropped."""
    levels, dims = [], encoded.dims
    blocks = batch.temporal[b].tolist(), batch.x[b].tolist(), batch.y[b].tolist()
    for level, order, keep, in_time, *spread in zip(
        encoded.architecture.levels, batch.order[b].tolist(), batch.keep[b].tolist(), *blocks, strict=True
    ):
        time = tuple([Loop(dims[d], in_time[d]) for d in order if in_time[d] > 1])
        x, y = (
            tuple([Loop(dim, bound) for dim, bound in zip(dims, bounds, strict=True) if bound > 1]) for bounds in spread
        )
        kept = frozenset([tensor.name for tensor, kept in zip(encoded.tensors, keep, strict=True) if kept])
        levels.append(LevelMapping(level.name, time, x, y, kept))
    return Mapping(tuple(levels))


BY_READ, BY_WRITE, BY_UPDATE, BY_TRANSFER, BY_RETURN = range(5)
