"""Mappings of ZigZag that are given in full: loops in time with their sizes, and over the dimensions of the array.

An entry of a mapping file leaves the memories to ZigZag: from the innermost one on, each takes as many of the loops for
each operand as leave the fewest bits to fetch (LOMA, AICAS 2021). What ZigZag writes of a layer (`*_complete.json`)
says which loops are inside the tile of each memory. ZigZag shares a dimension evenly among the steps of its loops in
time where these leave a remainder: `OX, 4` of 7 is 3.5 places in each of 2 steps, and 4 places here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from accelsim.importers.documents import Map, Note, Seq
from accelsim.importers.values import figure, plain_name
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import Einsum, Tensor, shared_rank

ROLES = {"I1": "Inputs", "I2": "Weights", "O": "Outputs"}
_Loops = list[tuple[str, int]]
Memories = Sequence[tuple[str, Map]]
"""Memories with their names, outermost first."""
_WRITTEN = {"equation": "equation", "dimension_relations": "equation_relations", "loop_dim_size": "loop_dimensions"}
_WRITTEN |= {"operand_precision": "operand_precision", "spatial_mapping": "user_spatial_mapping"}
_WRITTEN |= {"memory_operand_links": "memory_operand_links"}
"""Keys of layers and mappings, and what ZigZag calls them in what it writes."""
_MOST_ORDERS = 50_000


def pairs(written: Any) -> list[tuple[str, str]]:
    """Dimensions with their sizes, if any: `[K, 32]`, `["K, 32", "(C, 2)"]`, `{K: 32}`, `[K: 32]` or `"('K', 32)"`."""
    items = written if isinstance(written, Seq) else [written]
    if len(items) == 2 and isinstance(items[1], int):
        items = [items]
    each = [pair for item in items for pair in (item.items() if isinstance(item, Map) else [item])]
    texts = [",".join(map(str, pair)) if isinstance(pair, list | tuple) else str(pair) for pair in each]
    return [(dim.strip("'\" (").upper(), size.strip(" )")) for dim, _, size in (text.partition(",") for text in texts)]


def as_items(body: Map) -> list[Map]:
    """Layer and mapping of what ZigZag writes of a layer, as one map with the keys of both kinds of files; or none."""
    inputs = body.inner("inputs")
    if "temporal_mapping" not in inputs:
        return []
    layer = inputs.value("layer", Map)
    found = Map(layer.mark, held={"name": layer.get("name", "layer"), "operator_type": layer.get("type", "layer")})
    for key, theirs in _WRITTEN.items():
        if theirs in layer:
            found[key], found.marks[key] = layer[theirs], layer.where(theirs)
    found["temporal_mapping"] = inputs["temporal_mapping"]
    found.marks["temporal_mapping"] = inputs.where("temporal_mapping")
    return [found]


def operands_of(memory: Map) -> list[str]:
    """Operands that a memory holds."""
    row = memory.value("operands", Seq)
    if not row:
        raise memory.refuse("operands", f"expected some of the operands {listed(ROLES)}")
    for operand in row:
        if operand not in ROLES:
            raise memory.refuse("operands", f"{quoted(str(operand))} is none of the operands {listed(ROLES)}")
    return list(row)


def served_by(memory: Map) -> set[str]:
    """Dimensions of the array along which a memory is one for all places."""
    return set(map(str, memory.value("served_dimensions", Seq, Seq(memory.mark))))


@dataclass(frozen=True, slots=True)
class ZigZagNest:
    """A mapping: its loops in time, innermost first, and those along each dimension of the array.

    `inside`: how many of the former are in the tile of an operand (I1, I2, O) at a memory.
    """

    einsum: Einsum
    temporal: _Loops
    spatial: Mapping[str, _Loops]
    inside: Mapping[tuple[str, str], int]

    def tensors(self, operand: str) -> list[Tensor]:
        """Tensors of the layer that are this operand."""
        return [tensor for tensor in self.einsum.tensors if tensor.role == ROLES[operand]]

    def range_of(self, memory: str, operand: str) -> tuple[int, int]:
        """Least and most loops that may be inside the tile: those that do not move it may be on either side."""
        least = most = self.inside[memory, operand]
        moving = frozenset[str]().union(*(tensor.dims for tensor in self.tensors(operand)))
        while most < len(self.temporal) and self.temporal[most][0] not in moving:
            most += 1
        while least and self.temporal[least - 1][0] not in moving:
            least -= 1
        return least, most

    def nodes(self, names: Iterable[str]) -> list[tuple[str, str, int]] | None:
        """Memory, operand, and loops inside its tile, outermost first; None: tiles of this order are not nested."""
        found, at = [], len(self.temporal)
        for name in names:
            held = [operand for operand in ROLES if (name, operand) in self.inside]
            for low, most, operand in sorted(
                ((*self.range_of(name, each), each) for each in held), key=lambda r: -r[1]
            ):
                at = min(at, most)
                if at < low:
                    return None
                found.append((name, operand, at))
        return found

    def _own_words(self, operands: Iterable[str], array_dims: Iterable[str]) -> bool:
        """Whether places along dimensions of the array have words of their own."""
        spread = {dim for array_dim in array_dims for dim, _ in self.spatial.get(array_dim, ())}
        return all(spread <= tensor.dims for operand in operands for tensor in self.tensors(operand))

    def _fits(self, ladder: Memories) -> bool:
        for index, (_, memory) in enumerate(ladder):
            inside = set[str]().union(*(served_by(below) for _, below in ladder[index + 1 :]))
            if not self._own_words(operands_of(memory), inside - served_by(memory)):
                return False
        return self.nodes(plain_name(name) for name, _ in ladder) is not None

    def order(self, ladder: Memories, notes: list[Note]) -> list[tuple[str, Map]]:
        """Memories in an order in which their tiles are nested so, those of several operands apart if they must be."""
        single = list[tuple[str, Map]]()
        for name, memory in ladder[1:]:
            held = [(each, {**memory, "operands": Seq(memory.mark, held=[each])}) for each in operands_of(memory)]
            single += [(f"{name}_{each}", Map(memory.mark, memory.tag, own, memory.marks)) for each, own in held]
        for inner in (ladder[1:], single):
            chains = _chains(inner)
            for rest in itertools.islice(itertools.permutations(inner), _MOST_ORDERS):
                if _chains(rest) == chains and self._fits([ladder[0], *rest]):
                    if inner is single:
                        why = "tiles of one memory stand on both sides of another's: it is a level for each operand"
                        notes.append(Note(ladder[0][1].mark, "memories", f"{why}, each of its size and ports"))
                    return [ladder[0], *rest]
        why = "its tiles have no form here: places of a memory hold the same words"
        notes.append(Note(ladder[0][1].mark, "memories", why, self.einsum.name))
        return list(ladder)

    def document(self, levels: Sequence[Mapping[str, Any]], places: Mapping[str, Any]) -> dict[str, Any] | None:
        """The mapping on the levels of a machine; `places`: level, axis and `apart` of each dimension of the array."""
        found = self.nodes(level["name"] for level in levels)
        operands = {role: operand for operand, role in ROLES.items()}
        apart = {dim: [operands[role] for role in places[dim].apart] for dim in self.spatial}
        if found is None or not all(self._own_words(each, [dim]) for dim, each in apart.items()):
            return None
        written: list[dict[str, Any]] = []
        at = len(self.temporal)
        for index, level in enumerate(levels):
            held = dict[int, list[str]]()
            for name, operand, inside in found:
                if name == level["name"] and index:
                    held.setdefault(inside, []).extend(tensor.name for tensor in self.tensors(operand))
            held = held or {at: [] if index else [tensor.name for tensor in self.einsum.tensors]}
            for inside, keep in held.items():
                _add(written, self.temporal[inside:at])
                at = inside
                written.append({"level": level["name"], "keep": keep, "temporal": [], "x": [], "y": []})
        _add(written, self.temporal[:at])
        if len(written) > len(levels) == 1:
            return None
        for node in [node for node in written if node["level"] == levels[0]["name"]][1:]:  # which has one place
            node["level"] = levels[1]["name"]
        for array_dim, loops in self.spatial.items():
            last = [node for node in written if node["level"] == places[array_dim].level][-1]
            last[places[array_dim].axis] += [list(loop) for loop in loops]
        return self._mapping(written)

    def _mapping(self, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        """What stands under `mapping`: loops as they are, bounds that they pass as remainders or padded."""
        imperfect, padded = list[str](), list[str]()
        for dim, bound in self.einsum.dims.items():
            loops = [loop for node in nodes for key in ("temporal", "x", "y") for loop in node[key] if loop[0] == dim]
            span = 1
            for loop in reversed(loops):
                loop[1] = min(loop[1], -(-bound // span))
                span *= loop[1]
            if span > bound and shared_rank(self.einsum, dim):
                padded.append(f"{dim}={span}")
            elif span > bound:
                imperfect.append(dim)
        levels = []
        for node in nodes:
            level = {"level": node["level"], "keep": node["keep"]}
            texts = {key: [f"{dim}={n}" for dim, n in node[key] if n > 1] for key in ("temporal", "x", "y")}
            level |= {"temporal": texts["temporal"]} if texts["temporal"] else {}
            axes = {key: texts[key] for key in "xy" if texts[key]}
            levels.append(level | ({"spatial": axes} if axes else {}))
        beside = {"imperfect": imperfect} if imperfect else {}
        return {**beside, **({"padded": padded} if padded else {}), "levels": levels}


def _chains(memories: Memories) -> list[list[str]]:
    """Names of the memories of each operand."""
    return [[name for name, memory in memories if operand in operands_of(memory)] for operand in ROLES]


def _add(nodes: list[dict[str, Any]], loops: _Loops) -> None:
    """Add loops, innermost first, to the innermost node; one that keeps nothing takes on where a dimension returns."""
    for dim, bound in reversed(loops):
        block = nodes[-1]["temporal"]
        if block and block[-1][0] == dim:
            block[-1][1] *= bound
        elif any(dim == other for other, _ in block):
            nodes.append({**nodes[-1], "keep": [], "temporal": [[dim, bound]], "x": [], "y": []})
        else:
            block.append([dim, bound])


def read_nest(
    entry: Map, einsum: Einsum, ours: Mapping[str, str], memories: Map, sizes: Mapping[str, int], notes: list[Note]
) -> ZigZagNest | None:
    """The mapping of an entry; None where its loops do not multiply to the layer, which then is left to a search.

    `ours`: our names of ZigZag's dimensions; `sizes`: those of the array. Raises InputError where a tile is larger than
    its memory.
    """
    known = {dim: bound for dim, bound in einsum.dims.items() if bound > 1}
    spatial: dict[str, list[list[Any]]] = {}
    table = entry.inner("spatial_mapping")
    for array_dim in table.keys() & sizes.keys():
        named = ((ours.get(dim, dim), size) for dim, size in pairs(table[array_dim]))
        sized = ((dim, int(size)) for dim, size in named if dim in known and size.isdigit())
        spatial[array_dim] = [[dim, min(size, sizes[array_dim], known[dim])] for dim, size in sized]
    of_memories = entry.inner("temporal_mapping").inner("temporal_mapping") or entry.inner("temporal_mapping")
    blocks = {key: [pairs(block) if block else [] for block in of_memories[key]] for key in of_memories}
    row: Any = entry.get("temporal_ordering") or []
    loops = [*itertools.chain(*next(iter(blocks.values()), map(pairs, row)))]
    temporal = [(ours.get(dim, dim), int(size)) for dim, size in loops if size.isdigit() and size != "1"]
    if not loops or any(not size.isdigit() for _, size in loops):
        return None
    for dim, bound in {**dict.fromkeys((dim for dim, _ in temporal), 1), **known}.items():
        own = [loop for each in spatial.values() for loop in each if loop[0] == dim]
        steps = math.prod(size for name, size in temporal if name == dim)
        most = -(-bound // math.prod(loop[1] for loop in own))
        if steps != most:
            key = "temporal_mapping" if blocks else "temporal_ordering"
            why = f"its loops over {dim} make {steps} steps, where {most} are left beside those on the array"
            notes.append(Note(entry.where(key), key, f"{why}: it is no whole mapping", einsum.name))
            return None
        if own:
            widest = max(own, key=lambda loop: loop[1])
            widest[1] = -(-bound // (steps * math.prod(loop[1] for loop in own) // widest[1]))
    found = ZigZagNest(einsum, temporal, {key: [(d, n) for d, n in each] for key, each in spatial.items()}, {})
    inside = _written(memories, entry, blocks, notes) if blocks else allocated(found, memories)
    both = {(f"{name}_{operand}", operand): count for (name, operand), count in inside.items()} | inside
    return replace(found, inside={(plain_name(name), operand): count for (name, operand), count in both.items()})


def _written(
    memories: Map, entry: Map, blocks: Mapping[str, Sequence[Any]], notes: list[Note]
) -> dict[tuple[str, str], int]:
    """Loops inside the tiles, of what ZigZag writes of them: those of each memory, innermost first, by operand."""
    links = {"I": "I1", "W": "I2", "O": "O"} | entry.inner("memory_operand_links")
    found = dict[tuple[str, str], int]()
    for letter, each in blocks.items():
        operand = str(links.get(letter))
        names = [name for name in memories if operand in operands_of(memories.value(name, Map))]
        if len(names) < len(each):
            what = f"{letter} has loops of {len(each)} memories, and {listed(names)} hold it in the hardware file"
            raise entry.refuse("temporal_mapping", what)
        counts = [*itertools.accumulate(sum(size != "1" for _, size in block) for block in each)]
        if left := names[len(counts) :]:  # between layers
            notes.append(entry.note("temporal_mapping", f"{letter} stays inside {listed(left)}; here it passes them"))
        counts += counts[-1:] * len(left)
        found |= {(name, operand): count for name, count in zip(names, counts, strict=True)}
    return found


def allocated(nest: ZigZagNest, memories: Map) -> dict[tuple[str, str], int]:
    """Loops inside the tiles, as ZigZag fills its memories; of equal choices the one with most loops of the first."""
    many, found, reached = len(nest.temporal), dict[tuple[str, str], int](), dict[str, int]()
    below = dict[str, set[str]]()
    for index, name in enumerate(memories):
        memory = memories.value(name, Map)
        room, twice = figure(memory, "size"), bool(memory.get("force_double_buffering"))
        further = [operands_of(memories.value(other, Map)) for other in list(memories)[index + 1 :]]
        held = [each for each in operands_of(memory) if nest.tensors(each)]
        choices = []
        for operand in held:
            below[operand] = below.get(operand, set()) | served_by(memory)
            start, top = reached.get(operand, 0), not any(operand in each for each in further)
            bits = [tile_bits(nest, operand, below[operand], start, count) for count in range(many + 1)]
            rows = []
            for count in range(many if top else start, many + 1):
                size = bits[count] * (2 if twice and count < many and bits[count] < bits[many] else 1)
                left = math.prod(bound for _, bound in nest.temporal[count:])
                rows.append((count, size, 0 if top else left * size))
            choices.append([row for row in rows if row[1] <= room])
        fitting = [each for each in itertools.product(*choices) if sum(row[1] for row in each) <= room]
        if not fitting:
            what = f"{name}: the tiles of {listed(held)} that the loops ask for are larger than its {room:,.0f} bits"
            raise memory.refuse("size", what)
        best = min(reversed(fitting), key=lambda each: sum(row[2] for row in each))
        for operand, (count, _, _) in zip(held, best, strict=True):
            found[name, operand] = reached[operand] = count
    return found


def tile_bits(nest: ZigZagNest, operand: str, below: set[str], start: int, count: int) -> Fraction:
    """Bits of the tile with so many loops inside, of places along some dimensions of the array; without skipped points.

    ZigZag counts sums as partial where a loop that adds to them is outside the `start` loops of the memory below.
    """
    inner = [loop for dim in below for loop in nest.spatial.get(dim, ())]
    rest = [*nest.temporal[start:], *(loop for dim in nest.spatial if dim not in below for loop in nest.spatial[dim])]
    tile: dict[str, Fraction] = dict.fromkeys(nest.einsum.dims, Fraction(1))
    steps = dict.fromkeys(nest.einsum.dims, 1)
    for dim, bound in nest.temporal:
        steps[dim] *= bound
    for dim, bound in inner:
        tile[dim] *= bound
    for dim in {dim for dim, _ in inner}:  # fractions of places, where all loops over it are in space
        wide = math.prod(n for each in nest.spatial.values() for d, n in each if d == dim)
        tile[dim] *= Fraction(nest.einsum.dims[dim], steps[dim] * wide)
    for dim, bound in nest.temporal[:count]:
        tile[dim] *= bound
    total = Fraction(0)
    for tensor in nest.tensors(operand):
        partial = tensor.output and any(dim not in tensor.dims for dim, _ in rest)
        words = math.prod((_unique(rank, tile) for rank in tensor.ranks), start=Fraction(1))
        total += words * (tensor.psum_bits if partial else tensor.bits)
    return total


def _unique(rank: Sequence[tuple[str, int]], tile: Mapping[str, Fraction]) -> Fraction:
    """Coordinates of a rank that a tile touches: of `2*OX + FX` with FX = 1 every second one."""
    if len(rank) != 2:
        return math.prod((tile[dim] for dim, _ in rank), start=Fraction(1))
    (a, step), (b, other) = ((int(tile[dim]), factor) for dim, factor in rank)
    common = math.gcd(step, other)
    return Fraction(a * b - max(0, a - other // common) * max(0, b - step // common))
