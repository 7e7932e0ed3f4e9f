"""Sparseloop's designs: its specifications and mapping evaluated here, beside the statistics that lie with them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from accelsim.importers.documents import Map, Seq
from accelsim.importers.foreign import Foreign, read_foreign
from accelsim.importers.templates import read_document
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.energies import EnergyTable
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import read_utf8
from accelsim.inputs.sparsity import LevelSparsity, RankFormat
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result, TensorAtLevel
from accelsim.model.sparsity.evaluate import evaluate_sparse
from accelsim.model.sparsity.result import ACTIONS, KINDS, SparseResult
from accelsim.model.sparsity.savings import unit_bits
from validation.study import Figure, Study
from validation.timeloop_replay import CAUSES as REPLAYED
from validation.timeloop_replay import (
    HALO,
    REUSE,
    TWO_ITERATIONS,
    Statistics,
    default_counts,
    evaluate_holding,
    read_statistics,
    whole_tiles,
)

_WORDS = re.compile(r"\d+\.\d+|[A-Za-z]+\d*|\d+")
_UP = 7
"""Folders above the statistics in which the inputs may lie."""


@dataclass(frozen=True, slots=True)
class SparseDesign:
    """A design with its mapping in our terms, and where its statistics lie."""

    name: str
    statistics: Path
    files: tuple[Path, ...]


def find_designs(paths: Sequence[str | Path]) -> list[SparseDesign]:
    """Designs of which statistics lie at some paths, each with the inputs that lie nearest and are named most alike.

    Raises AccelsimError if there is no path, or no statistics at it.
    """
    found = []
    known: dict[Path, dict[str, str]] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise AccelsimError(f"{path}: no such file or folder")
        every = [path] if path.is_file() else sorted(path.rglob("*.stats.txt"))
        if not every:
            raise AccelsimError(f"{path}: holds no *.stats.txt of Timeloop")
        root = path if path.is_dir() else path.parent
        for statistics in every:
            name = str(statistics.relative_to(root)) if path.is_dir() else statistics.name
            found.append(SparseDesign(name, statistics, tuple(_inputs(statistics, root.resolve(), known))))
    return found


def _inputs(statistics: Path, root: Path, known: dict[Path, dict[str, str]]) -> Iterator[Path]:
    """Files of a design: of each kind that of the nearest folder whose path has most words of the statistics'."""
    words = {word: depth for depth, part in enumerate(statistics.resolve().parts) for word in _WORDS.findall(part)}
    left = {"architecture", "problem", "mapping", "ERT", "sparse_optimizations"}
    above = statistics.resolve().parent
    for _ in range(_UP):
        candidates: dict[str, list[Path]] = {}
        for file in sorted(above.rglob("*.yaml")):
            if any(part in ("dense_outputs", "ref_outputs", "outputs") for part in file.relative_to(above).parts[:-1]):
                continue
            for kind in _kinds(file, known):
                candidates.setdefault(kind, []).append(file)
        for kind in sorted(left & candidates.keys()):
            if kind not in left:
                continue
            best = max(candidates[kind], key=lambda file: _likeness(file, above, words))
            left -= {kind, *_kinds(best, known)}
            yield best
        if not left - {"sparse_optimizations"} or above == root.parent:
            return
        above = above.parent


def _likeness(file: Path, above: Path, words: dict[str, int]) -> tuple[int, int, int]:
    """Words of a file's path that the statistics' has, those of its name that it has not, and how deep they stand."""
    inside = set(_WORDS.findall(str(file.relative_to(above).with_suffix("")))) & words.keys()
    strange = set(_WORDS.findall(file.stem)) - words.keys()
    return len(inside), -len(strange), sum(words[word] for word in inside)


def _kinds(file: Path, known: dict[Path, dict[str, str]]) -> tuple[str, ...]:
    """What a YAML file holds for Timeloop."""
    if file not in known:
        known[file] = {}
        try:
            body = read_document(str(file), {file.parent: None}, {}).body
        except AccelsimError:
            body = None
        if isinstance(body, Map):
            for key, held in body.items():
                if isinstance(held, Map | Seq) and held and _is(key, held):
                    known[file]["architecture" if key == "arch" else key.replace("-", "_")] = ""
    return tuple(known[file])


def _is(key: str, held: Map | Seq) -> bool:
    if key == "problem":
        return isinstance(held, Map) and "instance" in held
    if key in ("architecture", "arch"):
        return isinstance(held, Map) and bool({"nodes", "subtree"} & set(held))
    return True


FIRST_FILLS, SKIPPED, POWERS = "first fills", "skipped metadata", "bits to a power of two"
PARTLY, SPARE, ROUNDED = "last blocks", "a rank without a loop", "rounding"
OFFSETS, MASK, UNEXPLAINED = "offsets of a bitmask", "no mask", "no known cause"
STREAMED, ACCESS = "streams", "energy of an access"
CAUSES = {
    FIRST_FILLS: "Timeloop before v0.4 counts partial sums that come in for the first time as fills",
    SKIPPED: "Sparseloop of 2022 charges the metadata of skipped accesses as if it were read",
    POWERS: "Sparseloop of 2022 rounds the bits of a unit of metadata up to a power of two",
    PARTLY: "Sparseloop of 2022 takes the last block of a compressed tile as full",
    SPARE: "Sparseloop of 2022 counts no metadata of a tile whose lowest rank has no loop",
    OFFSETS: "Sparseloop rounds the offsets below a bitmask up in each fiber",
    ROUNDED: "each rounds shares of counts to whole words, and its density is a binary fraction",
    MASK: "the densities are those of a file that is not there; no word counts as zero here",
    STREAMED: "Timeloop charges a level for words of a tensor that only pass through it (`stream`)",
    ACCESS: "the ERT names an action that Timeloop does not look for, and its own table says what a read takes",
    **{cause: REPLAYED[cause] for cause in (TWO_ITERATIONS, HALO, REUSE)},
    UNEXPLAINED: "please report it",
}
"""What each cause means."""
MEASURED = "cycles of the RTL"
_WORDS_OFF = 3
"""Words by which counts differ that are rounded in several steps."""


@dataclass
class Replayed:
    """A design evaluated: our result, Timeloop's statistics, and results with habits of older versions."""

    design: SparseDesign
    architecture: Architecture
    einsum: Einsum
    dense: Result
    theirs: Statistics
    notes: tuple[str, ...]
    known: dict[tuple[str, ...], SparseResult] = field(default_factory=dict)

    def result(self, habits: tuple[str, ...] = ()) -> SparseResult:
        """Our result, with some habits of Timeloop or of Sparseloop of 2022."""
        if habits not in self.known:
            machine, dense = _older_machine(self.architecture, habits), self.dense
            for habit in habits:
                dense = self.counted(habit, dense)
            self.known[habits] = evaluate_sparse(machine, self.einsum, dense, whole=True)
        return self.known[habits]

    def counted(self, habit: str, dense: Result) -> Result:
        """Dense counts with a habit; the same if it changes none."""
        if habit == FIRST_FILLS:
            return _with_first_fills(dense)
        if habit == REUSE:
            roles = frozenset(tensor.role for tensor in self.einsum.tensors if not tensor.output)
            held = evaluate_holding(self.architecture, self.einsum, self.dense.mapping, roles)
            other = {(one.level, one.tensor): [one.reads, one.fills] for one in held.tensors}
        elif habit in (HALO, TWO_ITERATIONS):
            words = whole_tiles if habit == HALO else None
            found = default_counts(self.einsum, self.dense.mapping, self.dense, words)
            other = {key: counts[1:3] for key, counts in found.items()}
        else:
            return dense
        used = {level.level: level.used_instances for level in dense.levels}
        tensors = []
        for one in dense.tensors:
            if (one.level, one.tensor) in other and one.updates == 0:
                reads, fills = self._said(one, other[one.level, one.tensor])
                many = used[one.level]
                one = replace(one, reads=reads, fills=fills, total_reads=reads * many, total_fills=fills * many)
            tensors.append(one)
        return replace(dense, tensors=tuple(tensors))

    def _said(self, one: TensorAtLevel, other: Sequence[int]) -> tuple[int, int]:
        """Reads and fills: each the other count where Timeloop prints it, and else ours."""
        printed = self.theirs.accesses.get((one.level, one.tensor), {})
        reads, fills = (
            printed.get(("algorithmic", action), printed.get(("actual", action))) for action in ("read", "fill")
        )
        return other[0] if reads == other[0] else one.reads, other[1] if fills == other[1] else one.fills

    @cached_property
    def habits(self) -> list[tuple[str, ...]]:
        """Sets of the habits that change something, the smallest first."""
        counts = (FIRST_FILLS, REUSE, HALO, TWO_ITERATIONS)
        known = [habit for habit in counts if self.counted(habit, self.dense) != self.dense]
        known += [habit for habit in (SKIPPED, POWERS) if self.result((habit,)) != self.result()]
        sets = [each for many in range(1, len(known) + 1) for each in itertools.combinations(known, many)]
        return [each for each in sets if not {HALO, TWO_ITERATIONS} <= set(each)]


def replay(design: SparseDesign) -> Replayed:
    """Evaluate the mapping of a design.

    Raises AccelsimError if an input is missing or cannot be read, or the design has parts that are not modelled.
    """
    theirs = read_statistics(read_utf8(str(design.statistics)), str(design.statistics))
    foreign = read_foreign([str(file) for file in design.files], "timeloop") if design.files else Foreign()
    if lacking := foreign.lacks():
        raise AccelsimError(f"{design.statistics}: no {lacking} lies beside or above it")
    architecture, einsum, mapping = foreign.loaded()
    dense = evaluate(architecture, einsum, mapping)
    notes = tuple(str(note) for note in foreign.notes if "density" in note.key)
    return Replayed(design, architecture, einsum, dense, theirs, notes)


def _older_machine(machine: Architecture, habits: tuple[str, ...]) -> Architecture:
    """A machine that charges what Sparseloop of 2022 does."""
    entries, levels = dict(machine.energy.entries), []
    for level in machine.levels:
        for action in ("read", "write") if SKIPPED in habits else ():
            entry = machine.energy.find(level.name, "*", f"metadata_{action}")
            entries |= {(level.name, "*", f"skipped_metadata_{action}"): entry} if entry is not None else {}
        own = level.sparsity
        if own is not None and POWERS in habits:
            formats = {
                role: replace(form, ranks=tuple(_rounded(rank, own.word_bits) for rank in form.ranks))
                for role, form in own.formats.items()
            }
            level = replace(level, sparsity=replace(own, formats=formats))
        levels.append(level)
    return replace(machine, levels=tuple(levels), energy=EnergyTable(entries))


def _rounded(rank: RankFormat, word: int) -> RankFormat:
    bits = (rank.metadata_bits, rank.payload_bits)
    up = [1 << (each - 1).bit_length() if each else each for each in (word if one is None else one for one in bits)]
    return replace(rank, payload_bits=up[1], metadata_bits=None if rank.metadata_bits is None else up[0])


def _with_first_fills(dense: Result) -> Result:
    """Counts in which partial sums that come in for the first time are filled."""
    outermost = dense.levels[0].level
    tensors = []
    for one in dense.tensors:
        more, total = one.updates - one.reads, one.total_updates - one.total_reads
        if one.level != outermost and one.updates:
            one = replace(one, fills=one.fills + more, total_fills=one.total_fills + total)
        tensors.append(one)
    return replace(dense, tensors=tuple(tensors))


def figures(found: Replayed) -> Iterator[Figure]:
    """Every figure that both have: accesses by kind, metadata, computes, cycles, energy; a difference has a cause."""
    ours, theirs, name = found.result(), found.theirs, found.design.name
    explained, causes = 0.0, dict[str, None]()
    for place, one in enumerate(ours.tensors):
        key = one.level, one.tensor
        if key not in theirs.accesses:
            yield Figure(f"{name}: {' '.join(key)}", "kept", "", 0.0, 1.0, 0.0, why=UNEXPLAINED)
            continue
        several = one.tile_words > 1 and bool(one.format and one.held_units)  # the lowest rank may have no loop
        spare = several and theirs.units.get(key) is None and one.held_units[0].metadata < one.tile_words + 1e-9
        for kind, action in itertools.product(KINDS, ACTIONS):
            printed, mine = theirs.accesses[key].get((kind, action), 0.0), one.words.get((kind, action), 0.0)
            cause = _of_count(printed, mine) if printed != mine else ""
            for habits in found.habits if printed != mine and not cause else ():
                if abs(found.result(habits).tensors[place].words.get((kind, action), 0.0) - printed) <= 1:
                    cause = ", ".join(habits)
                    break
            yield _figure(name, key, f"{kind} {action}s", printed, mine, cause)
            units = one.metadata.get((kind, action), ())
            md, pl = theirs.units.get(key, {}).get((kind, action), (0, 0))
            if md or pl or units:
                mine = sum(u.metadata + u.payload for u in units)
                cause = _of_count(md + pl, mine) or (SPARE if spare else "")
                most = mine + sum(max(0.0, u.metadata - u.payload) for u in units[1:]) + _WORDS_OFF
                cause = cause or (OFFSETS if mine <= md + pl <= most else "")
                yield _figure(name, key, f"{kind} metadata {action}s", md + pl, mine, cause)
        energy = theirs.energies.get(key, 0.0)
        why = _of_energy(found, place, energy, spare=spare)
        explained += one.energy_pj - energy if why else 0.0
        causes |= dict.fromkeys(why)
        yield _figure(name, key, "energy", energy, one.energy_pj, ", ".join(why), 0.01)
    for kind in KINDS:
        printed, mine = theirs.computes.get(kind, 0), getattr(ours.compute, kind)
        yield _figure(name, ("", "computes"), f"{kind} computes", printed, mine, _of_count(printed, mine))
    cause = _of_count(theirs.cycles, ours.cycles)
    for habits in found.habits if not cause and theirs.cycles != ours.cycles else ():
        if abs(found.result(habits).cycles - theirs.cycles) <= _WORDS_OFF:
            cause = ", ".join(habits)
            break
    yield _figure(name, ("", "all"), "cycles", theirs.cycles, ours.cycles, cause)
    causes |= {STREAMED: None} if theirs.streamed_pj else {}
    said = theirs.energy_pj - theirs.streamed_pj
    left = math.isclose(ours.energy_pj - explained, said, rel_tol=1e-4, abs_tol=0.1)
    yield _figure(name, ("", "all"), "energy", theirs.energy_pj, ours.energy_pj, ", ".join(causes) if left else "", 0.1)


def _compression(found: Replayed) -> Iterator[Figure]:
    """How many times fewer bits cross the outermost level than dense, metadata included, if it has a format.

    Statistics tell apart ranks, but here not: so only for formats with offsets of one width above the lowest rank.
    """
    level, theirs = found.architecture.levels[0], found.theirs
    ours, dense = [0.0, 0.0], 0.0
    rows = [one for one in found.result().tensors if one.level == level.name]
    for one in rows if any(one.format for one in rows) else ():
        role = next(tensor.role for tensor in found.einsum.tensors if tensor.name == one.tensor)
        form = (level.sparsity or LevelSparsity()).formats.get(role)
        widths = unit_bits(form, level.sparsity.word_bits) if form is not None and level.sparsity else [(0, 0)]
        offsets = {width for _, width in widths[1:]} or {0}
        if form is not None and (len(offsets) > 1 or any(rank.format not in ("U", "UOP") for rank in form.ranks[:-1])):
            return
        word, key = level.word_bits, (one.level, one.tensor)
        for action in ACTIONS:
            dense += one.dense[action] * word
            ours[0] += one.words.get(("actual", action), 0.0) * word + one.bits.get(("actual", action), 0.0)
            md, pl = theirs.units.get(key, {}).get(("actual", action), (0, 0))
            ours[1] += theirs.accesses.get(key, {}).get(("actual", action), 0.0) * word
            ours[1] += md * widths[0][0] + pl * min(offsets)
    if dense and ours[1]:
        case = f"{found.design.name}: {level.name}"
        yield Figure(case, "compression rate", "", dense / ours[1], dense / ours[0], 0.05)


def _of_count(theirs: float, ours: float) -> str:
    return ROUNDED if ours != theirs and abs(ours - theirs) <= max(_WORDS_OFF, 5e-5 * theirs) else ""


def _of_energy(found: Replayed, place: int, theirs: float, *, spare: bool) -> list[str]:
    """Causes of an energy: the fewest habits with which ours is theirs."""
    for habits in ((), *found.habits):
        one = found.result(habits).tensors[place]
        data = one.energy_pj - one.metadata_pj
        full = data / one.partly_filled + one.metadata_pj
        answers = [(one.energy_pj, ""), (full, PARTLY if full != one.energy_pj else "")]
        answers += [(data, SPARE)] if spare else []
        for energy, more in answers:
            if math.isclose(energy, theirs, rel_tol=5e-5, abs_tol=0.01):
                exact = math.isclose(energy, theirs, rel_tol=2e-6, abs_tol=0.01)
                return [*habits, *filter(None, [more]), *([] if exact else [ROUNDED])]
    level = found.result().tensors[place].level
    entry = found.architecture.energy.find(level, "*", "read")
    printed = found.theirs.read_pj.get(level)
    return [ACCESS] if entry and printed is not None and abs(printed - entry.energy_pj) > 0.01 else []


def _figure(
    name: str, key: tuple[str, str], quantity: str, theirs: float, ours: float, cause: str, digit: float = 0.0
) -> Figure:
    same = math.isclose(ours, theirs, rel_tol=2e-6 if digit else 1e-12, abs_tol=digit)
    case = f"{name}: {' '.join(filter(None, key))}"
    if same:
        return Figure(case, quantity, "", theirs, theirs, 0.0)
    return Figure(case, quantity, "", theirs, ours, 0.0, why=cause or UNEXPLAINED, explained=bool(cause))


def _beside_measured(found: Replayed) -> Iterator[Figure]:
    """Cycles beside those that were measured of the layer, if a file above the design has them."""
    words = set(_WORDS.findall(str(found.design.statistics.resolve())))
    for above in [*found.design.statistics.resolve().parents][: 0 if found.notes else _UP]:
        for file in sorted(above.glob("*/ground_truth*.yaml")):
            body = read_document(str(file), {file.parent: None}, {}).body
            for layer, cycles in body.items() if isinstance(body, Map) else ():
                if layer in words and isinstance(cycles, int):
                    case = f"{found.design.name}: all"
                    for variant, ours in (("accelsim", found.result().cycles), ("Sparseloop", found.theirs.cycles)):
                        yield Figure(case, MEASURED, "", cycles, ours, None, variant)
            return


def sparseloop_study(paths: Sequence[str | Path]) -> Study:
    """Compare every design whose statistics lie at some paths; one that cannot be read is a note.

    Raises AccelsimError if there are none.
    """
    rows: list[Figure] = []
    notes: list[str] = []
    for design in find_designs(paths):
        try:
            found = replay(design)
            judged = [*figures(found), *_compression(found)]
            if found.notes:  # its masks are absent
                judged = [replace(row, why=MASK, explained=True) if row.agrees is False else row for row in judged]
            rows += [*judged, *_beside_measured(found)]
        except AccelsimError as error:
            notes.append(f"{design.name}: not compared: {error}")
    return Study(
        name="sparseloop",
        about="accesses by kind, metadata, computes, cycles and energy of Sparseloop's designs beside its own",
        source="Sparseloop (MICRO 2022), statistics beside the designs",
        figures=tuple(rows),
        notes=tuple(notes),
    )
