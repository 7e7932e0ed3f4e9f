"""Timeloop's input files, v0.3 and v0.4, and its parsed-processed-input.yaml, as files of accelsim.

Permutations are written innermost first; the dimensions after `split` lie on the Y axis. What constrains keeping at the
machine becomes its `keep` and `bypass`; everything else that constrains becomes constraints.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from accelsim.importers import values
from accelsim.importers.documents import Document, Map, Note, Seq, refuse
from accelsim.importers.engines import Engine, system_of
from accelsim.importers.foreign import OWN_MODELS, Foreign
from accelsim.importers.timeloop_architecture import all_kept, architecture, read_figures, unknown
from accelsim.importers.timeloop_machine import Part, TimeloopMachine, plain, read_machines
from accelsim.importers.timeloop_problem import ProblemShape, dims_of_rank, read_shape, refuse_misfit, workload
from accelsim.importers.timeloop_sparse import read_sparsity
from accelsim.importers.values import whole
from accelsim.inputs.errors import AccelsimError, Mark
from accelsim.inputs.units import listed, near_miss, quoted, repeated
from accelsim.inputs.workload import ROLES

_FACTOR = re.compile(r"([A-Za-z_][A-Za-z0-9_]*?)\s*(<=|>=|==|=|<|>|)\s*(\d+)(?:,(\d+))?(?![A-Za-z0-9_]|\s*[<>=])")
_KEEPING = ("bypass", "bypassing", "datatype", "dataspace")
_UNREAD_TYPES = ("utilization", "parallelism", "max_overbooked_proportion", "no_link_transfer")
_OF_THE_MACHINE = "architecture_constraints"
_OF_THE_MAPPER = ("constraints", "mapspace_constraints", "mapspace", "extra_mapping_constraints")
_UNREAD = {"globals", "version", "dumped_by_timeloop_front_end"}
_KEYS = {"architecture", "problem", "mapping", "variables", "ERT", "ART", _OF_THE_MACHINE, *_OF_THE_MAPPER, *_UNREAD}
_KEYS |= {"sparse_optimizations", "shape"}
_SPELT = {"arch": "architecture", "ERT_summary": "ERT", "ART_summary": "ART", "arch_constraints": _OF_THE_MACHINE}
_LEFT_OUT = {
    "mapper": "how Timeloop's mapper searches; accelsim's search is exact, and --objective says what it makes small",
    "components": "compound components of Accelergy are not estimated; energies are those named above",
    "compound_components": "compound components of Accelergy are not estimated; energies are those named above",
    "layout": "banks and lines of a layout are not modelled",
}
_ASKED = {"type", "target", "factors", "permutation", "split", "keep", "bypass", "keep_only", "factors_only", "name"}
_ASKED |= {"bypass_only", "no_iteration_over_dataspaces", "must_iterate_over_dataspaces", "no_link_transfer"}
_ASKED |= {"maximize_dims", "maximize_dims_capacity", "datatypes"}
_UNSHARED = ("no_reuse", "no_multicast_no_reduction", "no_multicast", "no_reduction")
_STAYS = "a tile would be brought anew in each step of the loops outside; here it stays as long as it does not move"
_MEANS = {"no_reuse": _STAYS, "no_temporal_reuse": _STAYS}
_MEANS["no_coalesce"] = "each access would be one of the level above; here those of the same word meet"
_MEANS["rmw_first_update"] = "the first update of a word would be read too; here first reads are left out"
"""What keys of a constraint would mean that have no counterpart."""
_TYPES = ("temporal", "spatial", *_KEEPING)
_KEYS_OF_DIRECTIVES = (*sorted(_ASKED), *_UNSHARED, *_MEANS)


@dataclass(frozen=True, slots=True)
class _Directive:
    """A directive of a mapping or a constraint: what it asks of one block or of what a level keeps."""

    table: Map
    kind: str
    part: Part
    factors: dict[str, tuple[str, int]]
    permutation: list[str]
    split: int | None
    last: dict[str, int] = field(default_factory=dict)


def convert(documents: Sequence[Document], *, constrained: bool = True) -> Foreign:
    """Turn Timeloop's files into ours; see `accelsim.importers.foreign.read_foreign`."""
    notes: list[Note] = []
    found = _by_key(documents, notes)
    shapes = _shapes(found, notes)
    body = found["architecture"][0] if "architecture" in found else None
    if isinstance(body, Seq):
        raise refuse(body.mark, "expected a map of keys")
    if body is None:
        asks = next((key for key in ("mapping", _OF_THE_MACHINE, *_OF_THE_MAPPER) if key in found), None)
        if asks is not None:
            path = found[asks][0].mark.file
            raise AccelsimError(f"{path}: {asks} needs the architecture that it is of; name its file too")
        return Foreign(workload=workload(shapes, (), notes) if shapes else None, notes=tuple(notes))
    if "mapping" in found and len(shapes) != 1:
        path = found["mapping"][0].mark.file
        raise AccelsimError(f"{path}: a mapping needs the one problem that it maps; name its file too")
    if body.get("constraints"):
        found.setdefault(_OF_THE_MACHINE, []).append(body["constraints"])
    machines = read_machines(body, _variables(found.get("variables", ())))
    made = values.read_all(lambda machine: _of_machine(machine, found, shapes, constrained=constrained), machines)
    notes += itertools.chain(*(one.notes for one in made))
    layers = workload(shapes, machines, notes) if shapes else None
    notes += itertools.chain(*(machine.notes for machine in machines))
    energies = "; ".join(dict.fromkeys(one.energies for one in made))
    if len(made) == 1:
        return replace(made[0], workload=layers, notes=tuple(notes))
    engines = list[Engine]()
    for of, one in zip(machines, made, strict=True):
        vector = re.search("mac|multiplier", of.parts[-1].kind, re.IGNORECASE) is None
        places = {part.name: (part.table.mark, part.branch) for part in of.parts}
        engines.append(Engine(of.engine, one.architecture or {}, one.constraints, places, vector))
    system = system_of(engines, body, next(iter(found.get("mapping", ())), None), notes)
    return Foreign(workload=layers, system=system, energies=energies, notes=tuple(dict.fromkeys(notes)))


def _of_machine(
    machine: TimeloopMachine, found: dict[str, list[Map | Seq]], shapes: Sequence[ProblemShape], *, constrained: bool
) -> Foreign:
    """What files say of one machine: its document, a mapping on it, and what is asked of mappings."""
    figures = read_figures([(key, table) for key in ("ERT", "ART") for table in found.get(key, ())], machine)
    said, notes, each = list[Note](), list[Note](), list[tuple[str, list[dict[str, Any]]]]()
    kept, mapping = dict[str, tuple[list[str], list[str]]](), None
    asks = found.get("mapping", ()) if machine.engines == 1 else ()
    for shape in shapes or [ProblemShape()]:
        upon = _Upon(machine, shape, said, constrained=constrained)
        asked = upon.directives(given for key in _OF_THE_MAPPER if constrained for given in found.get(key, ()))
        own = upon.own(found.get(_OF_THE_MACHINE, ()), asked)
        nest = _Upon(machine, shape, said).directives(asks)
        for one in (*own, *asked, *nest):
            upon.share(one)
        kept, unsaid = upon.kept(own)
        mapping = upon.mapping(nest, own, asks[0].mark) if asks else None
        each.append((shape.name, upon.constraints(own, asked + unsaid) if constrained else []))
    notes += dict.fromkeys(said)
    constraints = values.for_layers(each)
    roles = shapes[0].roles if shapes else {}
    zeros = read_sparsity(machine, found.get("sparse_optimizations", ()), roles, figures, notes)
    widths = [one.bits.values() for one in shapes]
    document = architecture(machine, figures, kept, zeros, [*itertools.chain(*widths)])
    restricted = {"levels": constraints} if constraints else None
    missing = unknown(machine, figures)
    energies = figures.source + (f"; of {listed(missing)} accelsim's own models" if missing else "")
    return Foreign(document, None, mapping, restricted, energies if figures.energies else OWN_MODELS, tuple(notes))


def _shapes(found: dict[str, list[Map | Seq]], notes: list[Note]) -> list[ProblemShape]:
    """Shapes of all problems; of several, with the names of their files where their own are the same."""
    shapes = list[ProblemShape]()
    asked = {str(body.get("shape")) for body in found.get("problem", ()) if isinstance(body, Map)}
    for body in found.get("shape", ()):
        if not isinstance(body, Map) or str(body.get("name")) not in asked:
            notes.append(Note(body.mark, "shape", "no problem asks for it; name the file that gives its sizes too"))
    for body in found.get("problem", ()):
        if not isinstance(body, Map):
            what = "expected a map of keys, of one Einsum"
            raise refuse(body.mark, what, "name several in files of their own; `accelsim fuse` finds its own mapping")
        shape = read_shape(body, notes, _variables(found.get("variables", ())), found.get("shape", ()))
        first = shapes[0] if shapes else shape
        if shape.roles != first.roles:
            what = f"a problem with the tensors {listed(shape.tensors)}, after one with {listed(first.tensors)}"
            raise refuse(body.mark, f"{what}; name those together that have the same")
        shapes.append(shape)
    if len({shape.name for shape in shapes}) < len(shapes):
        for shape, body in zip(shapes, found["problem"], strict=True):
            shape.name = values.file_stem(body.mark)
    return shapes


def _by_key(documents: Sequence[Document], notes: list[Note]) -> dict[str, list[Map | Seq]]:
    """What the files hold under each key; keys without a counterpart become notes."""
    found: dict[str, list[Map | Seq]] = {}
    for document in documents:
        body = document.body
        if not isinstance(body, Map):
            raise AccelsimError(f"{document.path}: not a file of Timeloop: expected a map of keys")
        for key, held in body.items():
            name = key.replace("-", "_")
            name = _SPELT.get(name, name)
            if name in _LEFT_OUT and held:
                notes.append(body.note(key, _LEFT_OUT[name]))
            elif name not in _KEYS:
                hint = near_miss(name, (*_KEYS, *_SPELT))
                why = f"no key that says something of a machine, problem or mapping; {hint}"
                notes.append(body.note(key, why.rstrip("; ")))
            elif held:
                if name not in _UNREAD and not isinstance(held, Map | Seq):
                    raise body.refuse(key, f"{key}: expected a map or a list")
                found.setdefault(name, []).append(held)
                if name == "mapping" and isinstance(held, Map) and held.get("type") == "fused":
                    raise body.refuse(key, "mapping: one of several fused Einsums; `accelsim fuse` finds its own")
                if isinstance(held, Map) and name in (_OF_THE_MACHINE, *_OF_THE_MAPPER):
                    known = {one for one in held if one.startswith("constraints")}
                    values.note_others(held, known | {"targets", "constraints", "version"}, {}, notes)
                if name in ("architecture", "mapping") and len(found[name]) > 1:
                    raise body.refuse(key, f"a second {key}, after that in {found[name][0].mark.file}")
    return found


def _variables(bodies: Iterable[Map | Seq]) -> dict[str, Any]:
    """Names that formulas use: variables in their order, each perhaps a formula of those before."""
    found: dict[str, Any] = {}
    for table in (table for body in bodies for table in (body.maps() if isinstance(body, Seq) else [body])):
        for key, written in table.items():
            try:
                found[key] = values.work_out(written, found) if isinstance(written, str) else written
            except values.FormulaError:
                found[key] = written
    return found


def _listed(given: Map | Seq) -> Iterator[Map]:
    """Directives as they stand in a list, under a name that is chosen, or under the targets that they are of."""
    asked: Any = given
    if isinstance(given, Map):
        asked = given.get("targets", given.get("constraints"))
        asked = given.get(f"constraints_{asked}", asked) if isinstance(asked, str) else asked
    for table in asked if isinstance(asked, Seq) else [asked] if asked else []:
        if not isinstance(table, Map):
            raise refuse(given.mark, "expected a list of directives, each a map with a target")
        for own in table.rows("constraints") if "constraints" in table else [table]:
            attributes = own.value("attributes", Map, own)
            made = {"target": table.get("target", table.get("name")), "type": own.get("type")} | attributes
            kind = made["type"]
            made |= {kind: made.get("datatypes"), "type": "spatial"} if kind in _UNSHARED else {}
            yield Map(own.mark, held=made, marks=own.marks | attributes.marks)


def _maximized(table: Map) -> list[list[str]]:
    """Groups of dimensions whose loops are to be the largest, one after the other."""
    written = table.get("maximize_dims")
    if not isinstance(written, list) or not written:
        return []
    return [list(map(str, group)) for group in (written if isinstance(written[0], list) else [written])]


def _add(block: dict[str, Any], made: dict[str, Any], one: _Directive) -> None:
    """Add what a directive asks of a block to what those before it ask."""
    for key, asked in made.items():
        before = block.setdefault(key, asked)
        if key == "only":
            block[key] = [dim for dim in before if dim in asked]
        elif key == "factors":
            block[key] = list(dict.fromkeys([*before, *asked]))
        twice = key == "factors" and repeated([factor.rpartition("=")[0] for factor in block[key]])
        if twice or (key == "order" and before != asked):
            where = one.table.where("factors" if twice else "permutation")
            raise refuse(where, f"{one.part.name}: {listed(asked)} after {listed(before)}", "a level is asked for one")


class _Upon:
    """Reads directives against a machine and a shape; not `constrained`: of loops no more than what a network does."""

    def __init__(
        self, machine: TimeloopMachine, shape: ProblemShape, notes: list[Note], *, constrained: bool = True
    ) -> None:
        self.machine, self.shape, self.notes, self.constrained = machine, shape, notes, constrained
        self.homes = machine.homes()
        self.networks = {part.name for part in machine.parts if part.network}

    def own(self, given: Iterable[Map | Seq], asked: Iterable[_Directive]) -> list[_Directive]:
        """Directives of the machine: beside its parts, in files of their own, and what forks make of all."""
        own = self._read((table, part) for owner in self.machine.parts for part, table in owner.constraints)
        own += self.directives(given)
        return [*own, *self.of_siblings([*own, *asked])]

    def directives(self, given: Iterable[Map | Seq]) -> list[_Directive]:
        """Directives of mappings or of constraints."""
        return self._read((table, None) for one in given for table in _listed(one))

    def _read(self, tables: Iterable[tuple[Map, Part | None]]) -> list[_Directive]:
        return [one for one in values.read_all(lambda pair: self.directive(*pair), tables) if one is not None]

    def target(self, table: Map, *, spatial: bool) -> Part:
        """Storage that a directive is of, by its name or its number, the innermost first."""
        name = str(table.get("target") or table.get("name") or table.get("target", ""))
        part = self.machine.part(name, spatial=spatial)
        stores = [part for part in reversed(self.machine.parts[:-1]) if not part.network]
        if part is None and name.isdigit() and int(name) < len(stores):
            part = stores[int(name)]
        if part is None or part is self.machine.parts[-1]:
            names = listed(one.name for one in self.machine.parts[:-1])
            what = f"target: no storage is named {quoted(plain(name))}; there are {names}"
            raise table.refuse("target", what, self.machine.left_out.get(plain(name), ""))
        return part

    def directive(self, table: Map, part: Part | None) -> _Directive | None:
        """What a directive asks; None, and a note, of a type that has no counterpart."""
        table = values.respelt(table, _KEYS_OF_DIRECTIVES)
        kind = str(table.get("type") or "").lower()
        if kind in _UNREAD_TYPES:
            self.notes.append(Note(table.mark, f"a constraint of type {kind}", "has no counterpart"))
            return None
        if kind not in _TYPES:
            what = f"type: {quoted(kind)} is none" if kind else "'type' is missing"
            raise table.refuse("type", what, near_miss(kind, _TYPES, "types"))
        if not self.constrained and kind not in _KEEPING:
            held = {key: table[key] for key in ("target", "name", *_UNSHARED) if key in table}
            if kind == "temporal" or held.keys().isdisjoint(_UNSHARED):
                return None
            table = Map(table.mark, table.tag, held, table.marks)
        if part is None and self.machine.is_elsewhere(table.get("target") or table.get("name")):
            return None
        part = part or self.target(table, spatial=kind == "spatial")
        for key in table:
            if key not in _ASKED and not (kind == "spatial" and key in _UNSHARED):
                if key not in _KEYS_OF_DIRECTIVES and (hint := near_miss(key, _KEYS_OF_DIRECTIVES)):
                    raise table.refuse(key, f"{part.name}: {key}: unknown key", hint)
                why = _MEANS.get(key, "has no counterpart")
                self.notes.append(Note(table.where(key), f"{part.name}: {key} = {table[key]}", why))
        factors, last = self._factors(table)
        if "factors_only" in table:
            factors = dict.fromkeys(self.shape.dims, ("=", 1)) | self._factors(table, "factors_only")[0]
        for key in ("no_iteration_over_dataspaces", "must_iterate_over_dataspaces"):
            ranks = (rank for name in self._tensors(table, key, part) for rank in self.shape.tensors.get(name, ()))
            of = {dim for rank in ranks for dim in dims_of_rank(rank)}
            for dim in self.shape.dims if of else ():
                if (dim in of) == key.startswith("no"):
                    if factors.setdefault(dim, ("=", 1)) not in (("=", 1), ("<=", factors[dim][1])):
                        raise table.refuse(key, f"{part.name}: {key} leaves {dim} no loop, and factors ask for one")
                    factors[dim] = ("=", 1)
        return _Directive(table, kind, part, factors, self._permutation(table), self._split(table), last)

    def _split(self, table: Map) -> int | None:
        """Dimensions that lie on the X axis; perhaps `len(spec.problem.instance)`, which needs the problem."""
        written, where = table.get("split"), table.where("split")
        if written is None or (isinstance(written, str) and not self.shape.dims):
            return None
        return whole(values.as_number(written, where, {"spec.problem.instance": frozenset(self.shape.dims)}), where, 0)

    def _factors(self, table: Map, key: str = "factors") -> tuple[dict[str, tuple[str, int]], dict[str, int]]:
        """Sign and bound of each dimension, and iterations of the last pass where they are written."""
        written = table.get(key) or ""
        if isinstance(written, Map):
            written = [written]
        if isinstance(written, list):
            pairs = (each.items() if isinstance(each, Map) else [(str(each), "")] for each in written)
            written = " ".join(f"{dim}={bound}" if bound != "" else dim for pair in pairs for dim, bound in pair)
        text = str(written)
        found: dict[str, tuple[str, int]] = {}
        rest: dict[str, int] = {}
        for name, sign, bound, last in _FACTOR.findall(text):
            if self.shape.dims:
                values.refuse_other(name, self.shape.dims, "dimension", key, table.where(key))
            one = {"<": -1, ">": 1}.get(sign, 0)
            before = found.get(name)
            found[name] = (sign.replace("==", "=") + "=" * bool(one) or "=", int(bound) + one)
            if found[name][1] < (sign.strip("=") != ""):
                raise table.refuse(key, f"{key}: {name}{sign}{bound} leaves no loop; a factor is 1 or more")
            if before not in (None, found[name]):
                raise table.refuse(key, f"{key}: {name} stands there twice")
            if last:
                rest[name] = int(last)
                why = "the last pass is shorter; Timeloop's own counts are wrong where loops leave remainders"
                self.notes.append(Note(table.where(key), f"{name}={bound},{last}", why))
        if left := _FACTOR.sub("", text).strip(" ,"):
            raise table.refuse(key, f"{key}: {quoted(left)} cannot be read; write factors such as C=4")
        return found, rest

    def _permutation(self, table: Map) -> list[str]:
        written = table.get("permutation")
        words = [str(dim) for dim in written] if isinstance(written, list) else []
        if not isinstance(written, list):
            words = re.split(r"[\s,]+", str(written or "").strip())
            words = words if all(word in self.shape.dims for word in words) else list("".join(words))
        for dim in words if self.shape.dims else ():
            values.refuse_other(dim, self.shape.dims, "dimension", "permutation", table.where("permutation"))
        if twice := repeated(words):
            raise table.refuse("permutation", f"permutation: {listed(twice)} stands there twice")
        return words

    def of_siblings(self, given: list[_Directive]) -> list[_Directive]:
        """What a branch of a fork keeps is bypassed by the components of the others."""
        keeping, found = self.keeping(given), []
        for part in self.machine.parts[:-1]:
            own = keeping.get(part.name, ([], []))[0]
            others = [keeping[other.name][0] for other in part.siblings if other.name in keeping]
            if part.siblings and not own and not others:
                beside = listed(other.name for other in part.siblings)
                why = f"nothing says what it or {beside} beside it keeps; any may"
                self.notes.append(Note(part.table.mark, part.name, why))
            made = {"bypass": [name for kept in others for name in kept if name not in own]}
            found.append(_Directive(Map(part.table.mark, held=made), "bypass", part, {}, [], None))
        return found

    def keeping(self, given: list[_Directive]) -> dict[str, tuple[list[str], list[str]]]:
        """Tensors that directives keep and bypass at each part."""
        found: dict[str, tuple[list[str], list[str]]] = {}
        for one in given:
            if one.kind not in _KEEPING:
                continue
            keep, bypass = found.setdefault(one.part.name, ([], []))
            only, but = (self._tensors(one.table, key, one.part) for key in ("keep_only", "bypass_only"))
            keep += [name for name in (*self._tensors(one.table, "keep", one.part), *only) if name not in keep]
            keep += [name for name in self.shape.tensors if but and name not in (*but, *keep)]
            bypass += [name for name in (*self._tensors(one.table, "bypass", one.part), *but) if name not in bypass]
            bypass += [name for name in self.shape.tensors if "keep_only" in one.table and name not in (*only, *bypass)]
            if both := [name for name in keep if name in bypass]:
                where = one.table.where("keep" if "keep" in one.table else "bypass")
                raise refuse(where, f"{one.part.name}: {listed(both)} is kept, and bypassed too")
        return found

    def _tensors(self, table: Map, key: str, part: Part) -> list[str]:
        written = table.get(key) or []
        names = list(map(str, written)) if isinstance(written, list) else re.split(r"[\s,]+", str(written).strip())
        for name in names if self.shape.tensors else ():
            if name != "*":
                values.refuse_other(name, self.shape.tensors, "tensor", part.name, table.where(key))
        return list(self.shape.tensors) if "*" in names else names

    def share(self, one: _Directive) -> None:
        """Take from the network of a part the tensors that a directive lets it neither multicast nor reduce."""
        for key in _UNSHARED if one.kind == "spatial" else ():
            roles = {self.shape.roles[name] for name in self._tensors(one.table, key, one.part)}
            home = next(part for part in self.machine.parts if part.name == self.homes[one.part.name])
            for part in (home, one.part):
                part.unshared |= roles

    def kept(self, given: list[_Directive]) -> tuple[dict[str, tuple[list[str], list[str]]], list[_Directive]]:
        """Roles that each part keeps and bypasses, and the directives that roles cannot say."""
        roles = self.shape.roles or {role: role for role in ROLES}
        found, rest = {}, []
        for name, (keep, bypass) in self.keeping(given).items():
            sides = [sorted({roles[t] for t in side if t in roles}, key=ROLES.index) for side in (keep, bypass)]
            whole = [[t for t in roles if roles[t] in side] for side in sides]
            if set(keep) == set(whole[0]) and set(bypass) == set(whole[1]):
                found[name] = (sides[0], sides[1])
            else:
                rest += [one for one in given if one.part.name == name and one.kind in _KEEPING]
        return found, rest

    def mapping(self, given: list[_Directive], own: list[_Directive], where: Mark) -> dict[str, Any]:
        """Document of a mapping; a factor 0 is what the other loops over its dimension leave."""
        dims = self.shape.dims
        factors = [one.factors for one in given if one.kind in ("temporal", "spatial")]
        taken = {dim: math.prod(of[dim][1] or 1 for of in factors if dim in of) for dim in dims}
        left = {dim: max(1, bound // taken[dim]) for dim, bound in dims.items()}
        levels: dict[str, dict[str, Any]] = {name: {"level": name} for name in dict.fromkeys(self.homes.values())}
        keeping = self.keeping(own) | self.keeping(given)
        for name, level in levels.items():
            keep, bypass = keeping.get(name, ([], []))
            kept = [t for t in self.shape.tensors if t in keep or t not in bypass]
            level["keep"] = [] if name in self.networks else kept
        first = self.machine.parts[0]
        levels[first.name]["keep"] = list(self.shape.tensors)
        if bypassed := self.keeping(given).get(first.name, ([], []))[1]:
            self.notes.append(Note(first.table.mark, first.name, all_kept(bypassed)))
        nest = [one for one in given if one.kind in ("temporal", "spatial")]
        nest.sort(key=lambda one: (self.machine.parts.index(one.part), one.kind == "spatial"))
        refuse_misfit(self.shape, [(one.table, one.factors, one.last) for one in nest], left, where)
        imperfect = set().union(*(one.last for one in given))
        for one in sorted(given, key=lambda one: self.machine.parts.index(one.part)):
            level = levels[self.homes[one.part.name]]
            bounds = {dim: bound or left[dim] for dim, (_, bound) in one.factors.items()}
            if one.kind == "temporal":
                order = [dim for dim in reversed(one.permutation) if dim in bounds]
                order = [*(dim for dim in bounds if dim not in order), *order]
                level.setdefault("temporal", []).extend(f"{dim}={bounds[dim]}" for dim in order if bounds[dim] > 1)
            elif one.kind == "spatial":
                at = {dim: place for place, dim in enumerate(one.permutation)}
                on_y = {dim for dim in bounds if one.split is not None and at.get(dim, 0) >= one.split}
                for axis, dims_here in (("x", bounds.keys() - on_y), ("y", on_y)):
                    loops = [f"{dim}={bound}" for dim, bound in bounds.items() if dim in dims_here and bound > 1]
                    if loops:
                        level.setdefault("spatial", {}).setdefault(axis, []).extend(loops)
        document: dict[str, Any] = {"imperfect": sorted(imperfect)} if imperfect else {}
        keys = ("level", "keep", "temporal", "spatial")
        found = [{key: one[key] for key in keys if one.get(key) or key == "keep"} for one in levels.values()]
        return document | {"levels": found}

    def constraints(self, own: list[_Directive], asked: list[_Directive]) -> list[dict[str, Any]]:
        """Constraints of the levels: loops that the machine and the mapper's files ask for, and what these keep."""
        levels: dict[str, dict[str, Any]] = {}
        for name, (keep, bypass) in self.keeping(asked).items():
            if name == self.machine.parts[0].name:
                self.notes += [Note(self.machine.parts[0].table.mark, name, all_kept(bypass))] if bypass else []
            elif name not in self.networks:
                level = levels.setdefault(name, {"level": name})
                level |= ({"keep": keep} if keep else {}) | ({"bypass": bypass} if bypass else {})
        every = [*own, *(one for one in asked if one not in own)]
        for one in every:
            level = levels.setdefault(self.homes[one.part.name], {"level": self.homes[one.part.name]})
            if one.kind == "temporal" and not one.part.network:
                block = self._block(one, list(one.factors))
                order = [dim for dim in reversed(one.permutation) if self._free(one, dim)]
                block |= {"order": ["...", *order]} if len(order) > 0 else {}
                self._maximize(one, block, None, every)
                _add(level.setdefault("temporal", {}), block, one)
            elif one.kind == "spatial":
                for axis, block in self._axes(one, every).items():
                    _add(level.setdefault("spatial", {}).setdefault(axis, {}), block, one)
        return [level for level in levels.values() if any(value for key, value in level.items() if key != "level")]

    def _free(self, one: _Directive, dim: str) -> bool:
        return one.factors.get(dim) != ("=", 1) and self.shape.dims.get(dim, 2) > 1

    def _block(self, one: _Directive, dims: list[str]) -> dict[str, list[str]]:
        """Bounds of loops; a dimension whose bound is 1 has none anyway."""
        written = []
        for dim in dims:
            sign, bound = one.factors[dim]
            size, where = self.shape.dims.get(dim), one.table.where("factors")
            if sign == "=" and size is not None and bound > size:
                why = f"is {size} here, the whole dimension, as Timeloop takes it"
                self.notes.append(Note(where, f"{one.part.name}: {dim}={bound}", why))
            bound = size if size is not None and sign == "=" and not 0 < bound <= size else bound
            if bound == 0:
                why = "is the size of a problem, which is not there"
                self.notes.append(Note(where, f"{one.part.name}: {dim}=0", why))
            elif self.shape.dims.get(dim, 2) > 1:
                if sign == "=" and self.shape.dims.get(dim, bound) % bound:
                    what = f"{one.part.name}: {dim}={bound} does not divide {dim} = {self.shape.dims[dim]}"
                    raise refuse(where, what)
                written.append(f"{dim}{sign}{bound}")
        return {"factors": written} if written else {}

    def _maximize(self, one: _Directive, block: dict[str, Any], room: int | None, given: Sequence[_Directive]) -> None:
        """Ask of groups of dimensions, one after the other, for the largest product of loops that there is room for."""
        groups = _maximized(one.table)
        if not groups:
            return
        capacity = one.table.get("maximize_dims_capacity")
        room = whole(capacity, one.table.where("maximize_dims_capacity")) if capacity is not None else room
        several = [dim for other in given for group in _maximized(other.table) for dim in group]
        where = one.table.where("maximize_dims")
        wrong = [dim for group in groups for dim in group if dim not in self.shape.dims]
        why = "the axis is free here, and products hold for one axis" if room is None else ""
        why = f"{listed(wrong)} is no dimension" if wrong else why
        if any(several.count(dim) > 1 for group in groups for dim in group):
            why = why or "dimensions that are to be largest at several levels are not asked for"
        if why or room is None:
            self.notes.append(Note(where, f"{one.part.name}: maximize_dims", why))
            return
        room //= math.prod(bound for sign, bound in one.factors.values() if sign in ("=", ">=") and bound)
        for group in groups:
            left = []
            for dim in group:
                fixed = (each.factors.get(dim, ("=", 1)) for each in given if each.kind in ("temporal", "spatial"))
                fixes = math.prod(bound for sign, bound in fixed if sign == "=" and bound)
                left.append(self.shape.dims[dim] // fixes)
            most = max(values.axis_products(tuple((bound, (0,)) for bound in left), (max(1, room),)))[0]
            block.setdefault("factors", []).append(f"{'*'.join(group)}={most}")
            room //= most

    def _axes(self, one: _Directive, given: Sequence[_Directive]) -> dict[str, Any]:
        """Constraints of the two axes of a fanout; a dimension lies on that of its side of the split."""
        part = self.machine.parts.index(one.part)
        wide = dict(zip("xy", self.machine.fanout(part), strict=True))
        axes = [axis for axis in "xy" if wide[axis] > 1]
        fixed = (dim for dim, (sign, bound) in one.factors.items() if sign != "<=" and bound != 1)
        loops = [dim for dim in fixed if self._free(one, dim)]
        if loops and not axes:
            what = f"{one.part.name}: loops over {listed(loops)} in space, and there is one instance below it"
            raise one.table.refuse("factors", what, "name the part whose instances they are spread over")
        found: dict[str, Any] = {}
        sides = self._sides(one, wide) if len(axes) == 2 and one.split is None else {}
        for axis in axes:
            if len(axes) == 1:
                dims, only = list(one.factors), None
            elif one.split is not None:
                side = one.permutation[: one.split] if axis == "x" else one.permutation[one.split :]
                dims, only = [dim for dim in one.factors if dim in side], [dim for dim in side if self._free(one, dim)]
            else:
                both = [dim for dim, (sign, bound) in one.factors.items() if sign == "<=" or bound == 1]
                dims, only = [dim for dim in one.factors if dim in sides[axis] or dim in both], None
            block: dict[str, Any] = self._block(one, dims)
            if others := [f"{dim}=1" for other in axes if other != axis for dim in sides.get(other, ())]:
                block["factors"] = [*block.get("factors", ()), *others]
            if axis == axes[-1]:
                self._maximize(one, block, wide[axis] if len(axes) == 1 else None, given)
            found[axis] = block | ({"only": only} if only is not None else {})
        return {axis: block for axis, block in found.items() if block}

    def _sides(self, one: _Directive, wide: dict[str, int]) -> dict[str, list[str]]:
        """Dimensions on each axis that have a factor, where no split says it: the first of Timeloop's that has room."""
        sizes = {dim: self.shape.dims.get(dim, bound) for dim, (_, bound) in one.factors.items()}
        fixed = {dim: bound if 0 < bound < sizes[dim] else sizes[dim] for dim, (_, bound) in one.factors.items()}
        fixed = {dim: bound for dim, bound in fixed.items() if one.factors[dim][0] == "=" and self._free(one, dim)}
        order = [*filter(fixed.get, one.permutation), *(dim for dim in fixed if dim not in one.permutation)]
        subsets = (choice for many in range(len(order), -1, -1) for choice in itertools.combinations(order, many))
        splits = (tuple(order[:split]) for split in range(len(order), -1, -1) if one.permutation)
        for choice in itertools.chain(splits, subsets):
            sides = {"x": [*choice], "y": [dim for dim in order if dim not in choice]}
            if all(math.prod(map(fixed.__getitem__, sides[axis])) <= wide[axis] for axis in "xy"):
                break
        else:
            asked = listed(f"{dim}={bound}" for dim, bound in fixed.items())
            what = f"{one.part.name}: {asked} do not fit {wide['x']} x {wide['y']} instances"
            raise one.table.refuse("factors", what)
        for dim, (sign, _) in one.factors.items():
            why = f"is asked of axis {'x' if dim in sides['x'] else 'y'}; without `split` Timeloop tries both"
            if dim not in fixed:
                why = "holds for each axis here, and for both together in Timeloop"
                why = why if sign == "<=" else "the axis is free here, and factors hold for one axis"
            if self._free(one, dim):
                self.notes.append(Note(one.table.where("factors"), f"{one.part.name}: {dim}", why))
        return sides
