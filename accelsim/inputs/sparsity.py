"""What a machine does about zeros: formats that leave them out, and accesses and computes that are gated or skipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from accelsim.inputs import fields, forms
from accelsim.inputs.energies import Component, ComponentFigures, Estimator
from accelsim.inputs.fields import Fields, Key, Keys, by_role, formed, keys_form, node_of
from accelsim.inputs.level_features import values_by_role
from accelsim.inputs.source import MapNode, Node, Problems, ScalarNode
from accelsim.inputs.units import SIZES
from accelsim.inputs.workload import ROLES

FORMATS = {
    "U": "uncompressed, without metadata",
    "UB": "uncompressed, with a bit for each coordinate",
    "B": "bitmask: a bit for each coordinate",
    "CP": "coordinate list: the coordinate of each word that is not zero",
    "RLE": "run lengths: the zeros before each word that is not zero",
    "UOP": "offsets into the rank below, as the rows of CSR",
}
"""Formats of a rank, in Sparseloop's names."""
_COMPRESSED = ("B", "CP", "RLE")
ONE_BIT = ("B", "UB")
"""Formats whose unit of metadata is one bit where nothing else is said."""


@dataclass(frozen=True, slots=True)
class RankFormat:
    """Format of one rank of a tensor.

    Loops over the dimensions in `flattened`, one over each, become one rank; None: each loop is a rank.
    `metadata_bits` are those of a coordinate, a run or a bit, `payload_bits` those of an offset; None: a word of the
    level's metadata storage.
    """

    format: str
    flattened: frozenset[str] | None = None
    metadata_bits: int | None = None
    payload_bits: int | None = None

    @property
    def compressed(self) -> bool:
        """Whether coordinates without a word take no room below."""
        return self.format in _COMPRESSED


@dataclass(frozen=True, slots=True)
class Format:
    """Formats of a tensor's ranks, the outermost first; they are given to its loops from there, or from within.

    The last rank that is given loops takes all that are left.
    """

    ranks: tuple[RankFormat, ...]
    inner_first: bool = False

    @property
    def compressed(self) -> bool:
        """Whether zeros are not stored."""
        return any(rank.compressed for rank in self.ranks)

    @property
    def located(self) -> bool:
        """Whether metadata says where the zeros are, so that they are not read."""
        return any(rank.format != "U" for rank in self.ranks)


SAVINGS = ("gating", "skipping", "spatial_skipping")


@dataclass(frozen=True, slots=True)
class Saving:
    """Accesses to a target (a role) that are left out where all words of some leader that meet it are zero.

    Gated ones take their cycles, skipped ones do not; where instances are skipped, others take their place. Of several
    choices (target, leaders) the one that saves most energy is taken.
    """

    kind: str
    choices: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class LevelSparsity:
    """What a level does about zeros: formats by role, savings, and its storage of metadata.

    One access to the metadata storage moves `width` bits; it has `depth` rows (None: unlimited). Units of metadata that
    say nothing of their size have `word_bits`.
    """

    formats: Mapping[str, Format] = field(default_factory=dict)
    savings: tuple[Saving, ...] = ()
    positions: frozenset[str] = frozenset()
    """Roles whose words other than zero are packed into the instances below."""
    width: int = 0
    depth: int | None = None
    word_bits: int = 0
    fits: float = 1.0
    """Share of the tiles of a compressed tensor that must fit."""
    imbalance: bool = False
    """Whether all instances below wait for the slowest of them in each step of the level's loops."""


@dataclass(frozen=True, slots=True)
class ComputeSparsity:
    """What the compute units do with a zero operand: gate it, or, where metadata says so, skip it.

    `intersection` is how many pairs of which one operand is not zero a unit looks at in a cycle; None: any number.
    """

    gating: bool = False
    skipping: bool = False
    intersection: int | None = None


METADATA_ACTIONS = ("metadata_read", "metadata_write", "metadata_update")
_GATED = ("gated_read", "gated_write", "gated_update", "gated_metadata_read", "gated_metadata_write")
_SKIPPED = ("skipped_read", "skipped_write", "skipped_update", "skipped_metadata_read", "skipped_metadata_write")
STORAGE_ACTIONS = (*METADATA_ACTIONS, *_GATED, *_SKIPPED, "decompression", "compression")
"""Actions of a level that only zeros bring about."""
COMPUTE_ACTIONS = ("gated_compute", "skipped_compute")

_bits = fields.at_least(0)
_RANK: Keys = {
    "format": Key(fields.one_of(tuple(FORMATS), "a format"), "format of the rank"),
    "flattened": Key(fields.set_of(fields.identifier), "dimensions whose loops form one rank", "one loop"),
    "metadata_bits": Key(_bits, "bits of a coordinate or run", "a word of metadata; 1 of B and UB", "bit"),
    "payload_bits": Key(_bits, "bits of an offset", "a word of metadata", "bit"),
}


@formed(forms.either(fields.one_of(tuple(FORMATS), "a format").form, keys_form(_RANK)))
def _rank(node: Node, problems: Problems) -> RankFormat | None:
    if isinstance(node, MapNode):
        rank = Fields(node, problems, _RANK)
        flattened: frozenset[str] | None = rank.value("flattened", None)
        widths = (rank.value("metadata_bits", None), rank.value("payload_bits", None))
        return RankFormat(rank.value("format", "U"), flattened, *widths)
    name = fields.one_of(tuple(FORMATS), "a format")(node, problems)
    return None if name is None else RankFormat(name)


_ranks = fields.list_of(_rank)
_ORDERS = ("outer_to_inner", "inner_to_outer")
_FORMAT: Keys = {
    "ranks": Key(_ranks, "formats of the ranks, outermost first"),
    "order": Key(fields.one_of(_ORDERS, "an order"), "order in which ranks are assigned to loops", _ORDERS[0]),
}


@formed(forms.either(_ranks.form, keys_form(_FORMAT)))
def _format(node: Node, problems: Problems) -> Format | None:
    if isinstance(node, MapNode):
        written = Fields(node, problems, _FORMAT)
        ranks, order = written.value("ranks", []), written.value("order", _ORDERS[0])
    else:
        ranks, order = _ranks(node, problems) or [], _ORDERS[0]
    if not ranks and not problems.unreadable(node):
        problems.add(node, "expected the formats of its ranks, outermost first", "such as [UOP, CP]")
    return Format(tuple(ranks), order != _ORDERS[0]) if ranks else None


_Choices = tuple[tuple[str, tuple[str, ...]], ...]
_TARGET: Keys = {
    "target": Key(fields.one_of(ROLES, "a role"), "role whose accesses are suppressed"),
    "condition_on": Key(
        fields.set_of(fields.one_of(ROLES, "a role")), "suppress while a tile of one of these roles is all zeros"
    ),
}
_SAVING: Keys = {
    **{key: Key(each.read, each.meaning, "in `options`") for key, each in _TARGET.items()},
    "options": Key(
        fields.list_of(node_of(keys_form(_TARGET))), "alternatives; the one that saves most is used", "none"
    ),
}


@formed(keys_form(_SAVING))
def _choices(node: Node, problems: Problems) -> _Choices | None:
    """Read a target and its leaders, or several of which one is chosen."""
    saving = Fields(node, problems, _SAVING)
    options: list[Node] = saving.value("options", [])
    if "options" in saving and "target" in saving:
        problems.add(saving.entries["target"], "stands beside 'options'", "write it into one of them")
    found = []
    for each in options or [node]:
        option = Fields(each, problems if each is not node else Problems(), _TARGET)
        target, leaders = option.value("target", ""), option.value("condition_on", frozenset[str]())
        if each is node and saving.readable and not (target and leaders):
            problems.add(node, "expected a target and what its accesses depend on", _HINT)
        elif target in leaders:
            problems.add(option.entries["condition_on"], f"{target} decides about itself", "name other roles")
        found.append((target, tuple(sorted(leaders))))
    return tuple(found)


_HINT = "such as {target: Weights, condition_on: [Inputs]}"
_savings = fields.list_of(_choices)
_METADATA: Keys = {
    "width": Key(fields.positive_size_bits, "bits moved by one access", unit=SIZES),
    "depth": Key(fields.positive_int, "capacity in accesses of this width", "unlimited"),
    "word": Key(fields.size_bits, "size of an entry without its own bits", "the width", SIZES),
}
_FORMATS = by_role(_format, "format", "dense")
SPARSITY: Keys = {
    "formats": Key(node_of(keys_form(_FORMATS)), "compressed format of each role", "dense"),
    "metadata": Key(node_of(keys_form(_METADATA)), "storage of the metadata", "none"),
    "fits": Key(fields.share, "fraction of the compressed tiles that must fit", "1: all", "0 to 1"),
    "gating": Key(_savings, "suppress accesses, which keep their cycles", "none"),
    "skipping": Key(_savings, "suppress accesses and their cycles", "none"),
    "spatial_skipping": Key(_savings, "instances without work get other work", "none"),
    "imbalance": Key(
        fields.boolean, "instances below wait for the slowest, in each step of the level's loops", "false"
    ),
    "position_skipping": Key(
        fields.set_of(fields.one_of(ROLES, "a role")),
        "roles whose nonzeros are packed into the instances below",
        "none",
    ),
}
"""Keys of a level."""
COMPUTE_SPARSITY: Keys = {
    "gating": Key(fields.boolean, "a zero operand stops the unit for the cycle", "false"),
    "skipping": Key(fields.boolean, "operands that are zero by their metadata take no cycle", "false"),
    "intersection": Key(
        fields.positive_int, "pairs with at least one nonzero that a unit examines per cycle", "any number"
    ),
}
"""Keys of the compute units."""


def read_sparsity(level: Fields, bypass: Iterable[str]) -> LevelSparsity | None:
    """Read what a level does about zeros; None: nothing."""
    if not any(key in level for key in SPARSITY):
        return None
    formats: dict[str, Format] = values_by_role(level, "formats", _FORMATS, bypass)
    node, share = level.get("formats"), level.get("compression")
    for role in formats:
        if isinstance(node, MapNode) and isinstance(share, MapNode) and role in share.entries:
            level.problems.add(node.entries[role], f"{role} has a `compression` too", "keep one of the two")
    if node is not None and any(form.located for form in formats.values()) and "metadata" not in level:
        what = "a format needs room for its metadata, and the level has none"
        level.problems.add(node, what, "add `metadata: {width: 4 bit, depth: 32}`")
    storage = level.inner("metadata", _METADATA)
    width, depth = storage.value("width", 0), storage.value("depth", None)
    word_bits = storage.value("word", width)
    savings = [Saving(kind, each) for kind in SAVINGS for each in level.value(kind, list[_Choices]())]
    positions: frozenset[str] = level.value("position_skipping", frozenset())
    fits = float(level.value("fits", 1))
    imbalance: bool = level.value("imbalance", False)
    return LevelSparsity(formats, tuple(savings), positions, width, depth, word_bits, fits, imbalance)


def needed_energies(sparsity: LevelSparsity | None) -> list[tuple[str, str]]:
    """Actions of a level, for all roles, that must have an energy because of zeros; what is left out needs none."""
    located = sparsity is not None and any(form.located for form in sparsity.formats.values())
    return [("*", action) for action in METADATA_ACTIONS[:2]] if located else []


def with_metadata(
    level: Fields, own: ComponentFigures, estimator: Estimator | None, part: Component, sparsity: LevelSparsity
) -> ComponentFigures:
    """Add energies of the metadata storage that do not stand there: those of the level's class in its size."""
    missing = [name for name in METADATA_ACTIONS[:2] if ("*", name) not in own.energies]
    component = level.get("class")
    if not missing or estimator is None or not isinstance(component, ScalarNode):
        return own
    attributes: dict[str, str] = {**level.value("attributes", {}), "word": f"{sparsity.width} bit"}
    if sparsity.depth is not None:
        attributes["size"] = f"{sparsity.width * sparsity.depth} bit"
    bits = dict.fromkeys(("read", "write"), sparsity.width)
    storage = replace(part, component=component.text, attributes=attributes, partitions={})
    found = estimator.find(replace(storage, actions=("read", "write"), bits=bits)).energies
    of = {name: found.get(("*", name.removeprefix("metadata_"))) for name in missing}
    return replace(own, energies={**own.energies, **{("*", name): entry for name, entry in of.items() if entry}})


def read_compute_sparsity(compute: Fields) -> ComputeSparsity | None:
    """Read what the compute units do with zeros; None: nothing."""
    gating, skipping = compute.value("gating", False), compute.value("skipping", False)
    found = ComputeSparsity(gating, skipping, compute.value("intersection", None))
    if found.intersection is not None and not found.skipping:
        what = "an intersection finds operands to skip, and none are skipped"
        compute.wrong("intersection", what, "add `skipping: true`, or leave it out")
    return found if found.gating or found.skipping else None
