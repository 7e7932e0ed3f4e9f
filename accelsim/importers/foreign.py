"""Files of other tools as documents of accelsim's own kinds: Timeloop, ZigZag, Stream, AccelForge, SCALE-Sim.

The kind is found from the content. Each kind has one module with a function `convert`; a note names what does not carry
over, with its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, cast

import yaml

from accelsim.importers.documents import Document, Map, Note, Seq, by_ending, plain_scalar
from accelsim.importers.templates import read_document
from accelsim.importers.values import read_all
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import AccelsimError, InputError, Mark
from accelsim.inputs.fields import open_source
from accelsim.inputs.library import MODELS, read_utf8
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.mapping import dump_mapping, load_mapping, read_mapping
from accelsim.inputs.plugins import EXPORTERS, IMPORTERS, guarded, installed, load_plugin
from accelsim.inputs.source import Dumper, Problems
from accelsim.inputs.units import listed, near_miss
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload

KINDS = {
    "timeloop": "accelsim.importers.timeloop_inputs",
    "zigzag": "accelsim.importers.zigzag",
    "stream": "accelsim.importers.stream",
    "accelforge": "accelsim.importers.accelforge",
    "scalesim": "accelsim.importers.scalesim",
}
"""Module of each kind; its `convert(documents)` returns a `Foreign`."""
_OWN_FILE = re.compile(
    r"^(architecture|workload|mapping|constraints|system|sweep|gpu|params|energy_table|decoder)s?:", re.MULTILINE
)
_RETURNS = "architecture, workload, mapping, constraints, system (each as below its key), energies and notes"
GRAPHS = ("graph", "2d_mesh", "bus")
"""What Stream's older hardware files have the links between cores under."""
_TIMELOOP_KEYS = {"problem", "mapper", "mapspace", "architecture_constraints", "mapspace_constraints", "components"}
_TIMELOOP_KEYS |= {"compound_components", "ERT", "ART", "sparse_optimizations", "variables"}
_TIMELOOP_KEYS |= {"ERT_summary", "ART_summary"}
_ZIGZAG_KEYS = {"operational_array", "memories", "operator_type", "operator_types", "loop_dim_size", "spatial_mapping"}


OWN_MODELS = "accelsim's own models, by class and attributes"
"""Where energies come from if no file of the other tool gives them."""


def note_lines(notes: Iterable[Note], most: int | None = None) -> str:
    """Lines of notes, with at most so many names in each."""
    groups: dict[str, list[str]] = {}
    for note in notes:
        groups.setdefault(str(note), []).append(note.of)
    lines = []
    for text, named in groups.items():
        names = list(dict.fromkeys(filter(None, named)))
        lines.append(f"{text}{': ' if names else ''}{listed(names, most)}\n")
    return "".join(lines)


@dataclass(frozen=True, slots=True)
class Foreign:
    """Documents of accelsim's own kinds (each below its key), made of other files; None: these hold none.

    `energies` says in a sentence where the energies come from.
    """

    architecture: dict[str, Any] | None = None
    workload: dict[str, Any] | None = None
    mapping: dict[str, Any] | None = None
    constraints: dict[str, Any] | None = None
    energies: str = ""
    notes: tuple[Note, ...] = ()
    system: dict[str, Any] | None = None

    def documents(self) -> dict[str, dict[str, Any]]:
        """Each kind that there is, and its document."""
        kinds = ("architecture", "workload", "mapping", "constraints", "system")
        return {kind: getattr(self, kind) for kind in kinds if getattr(self, kind) is not None}

    def about(self) -> list[str]:
        """What each document holds, in a few words."""
        found = []
        for kind, document in self.documents().items():
            of = {"workload": "layer", "system": "core"}.get(kind, "level")
            many = len(document.get(f"{of}s", [document]))
            counted = f"{many} {of}{'' if many == 1 else 's'}"
            found.append(" ".join(filter(None, (kind, document.get("name")))) + f": {counted}")
        return found

    def lacks(self) -> str:
        """Which of machine, layer and mapping is not there, such as `workload and no mapping`."""
        kinds = ("architecture", "workload", "mapping")
        return " and no ".join(kind for kind in kinds if getattr(self, kind) is None)

    def loaded(self) -> tuple[Architecture, Einsum, LoopNest]:
        """Machine, the only layer, and its mapping."""
        machine = load_architecture({"architecture": self.architecture})
        layer = load_workload({"workload": self.workload}).layers[0]
        return machine, layer, load_mapping({"mapping": self.mapping}, machine, layer)

    def texts(self, sources: Sequence[str]) -> dict[str, str]:
        """YAML text of each kind, with a comment that names the files it comes from."""
        head = "".join(f"# Imported from {Path(source).name}.\n" for source in sources)
        texts = {kind: yaml_text({kind: document}) for kind, document in self.documents().items()}
        if self.mapping is not None:
            problems = Problems()
            opened = open_source({"mapping": self.mapping}, "mapping", None, problems)
            nest = problems.result(read_mapping(opened.body, problems) if opened else None)
            texts["mapping"] = dump_mapping(nest)
        return {kind: head + text for kind, text in texts.items()}


class _Dumper(Dumper):
    """Writes what stands in several places as often as it stands there."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


class Tagged(dict[str, Any]):
    """A map with a tag, such as `!Component`."""

    def __init__(self, tag: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.tag = tag


_Dumper.add_representer(Tagged, lambda dumper, value: dumper.represent_mapping(value.tag, value))


def yaml_text(document: Mapping[str, Any] | Sequence[Any]) -> str:
    """YAML of maps and lists, the innermost ones on a line."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)


def kind_of(document: Document) -> str | None:
    """Tool whose file this is; None where it is one of ours, or nobody's."""
    body = document.body
    if found := by_ending(document.path):
        return found[0]
    if isinstance(body, Seq):
        items = [set(item) for item in body if isinstance(item, Map)]
        return "zigzag" if items and all(item & _ZIGZAG_KEYS | item & {"name"} for item in items) else None
    if body is None:
        return None
    if "memories" in body or _holds(body, "inputs", "temporal_mapping"):
        return "zigzag"
    outside = {"offchip_core_id", "offchip_core"} & set(body)
    if "cores" in body and (outside or any(_holds(body, key, "offchip_core_id") for key in GRAPHS)):
        return "stream"
    if _holds(body, "arch", "storage", "subtree"):
        return "timeloop"
    if {"arch", "renames"} & set(body) or _holds(body, "workload", "einsums", "rank_sizes", "shape"):
        return "accelforge"
    nodes = body.get("nodes")
    if isinstance(nodes, Seq) and any("rank_variable" in one for one in nodes if isinstance(one, Map)):
        return "accelforge"  # a mapping as its `to_yaml` writes it
    if _holds(body, "mapping", "nodes") and not _holds(body, "mapping", "type"):
        return "accelforge"
    timeloop = bool(_TIMELOOP_KEYS & set(body)) or isinstance(body.get("mapping"), Seq)
    timeloop |= _holds(body, "architecture", "nodes", "subtree", "local", "storage")
    timeloop |= _holds(body, "constraints", "targets") or _holds(body, "shape", "dimensions")
    timeloop |= _holds(body, "mapping", "type")  # of LoopTree
    return "timeloop" if timeloop else None


def _holds(body: Map, key: str, *inside: str) -> bool:
    """Whether a map stands under a key that has one of some keys."""
    value = body.get(key)
    return isinstance(value, Map) and not value.keys().isdisjoint(inside)


def tool_of(path: str) -> str | None:
    """Tool whose file this is, `template` of one to be worked out first; None of ours and of what is unreadable."""
    if found := by_ending(path):
        return found[0]
    text = ""
    with suppress(AccelsimError):
        text = read_utf8(path)
        if "{{" in text or "{%" in text:
            return "template"
        if kind := kind_of(*read_documents([path], {})):
            return kind
    others = () if not text or _OWN_FILE.search(text) else installed(IMPORTERS)
    return next((name for name in others if _call(name, "recognizes", path, text)), None)


def _call(name: str, function: str, *arguments: Any) -> Any:
    """Result of a function of an installed importer."""
    return guarded(IMPORTERS, name, lambda: getattr(load_plugin(IMPORTERS, name), function)(*arguments))


def files_below(folder: str) -> list[str]:
    """Files of other tools in a folder and the two below, such as a design of Timeloop, but for what Timeloop wrote."""
    found = (path for inside in ("", "*/", "*/*/") for path in sorted(Path(folder).glob(f"{inside}*.y*ml")))
    given = (path for path in found if not path.name.startswith(("timeloop-", "parsed-")))
    return [str(path) for path in given if "output" not in str(path.parent.relative_to(folder)) and tool_of(str(path))]


def refuse_broken(path: str) -> None:
    """Raise if a file is no YAML at all."""
    try:
        read_documents([path], {})
    except AccelsimError as error:
        if isinstance(error, InputError) and any("not valid YAML" in problem.what for problem in error.problems):
            raise


def read_foreign(
    paths: Sequence[str | PathLike[str]],
    kind: str | None = None,
    variables: Mapping[str, str] | None = None,
    *,
    constrained: bool = True,
    layer: str | None = None,
) -> Foreign:
    """Read files of another tool, given together as that tool takes them.

    These are YAML or templates, `.cfg` and `.csv` of SCALE-Sim, models (ONNX). `kind` is one of `KINDS`, by default
    found from the content; `variables` are names that templates leave open; `layer` is the one whose mapping is asked
    for, by default the only one. Not `constrained`: what the files ask of the loops of mappings is left out unread, so
    that it need not fit the workload. Raises AccelsimError if a file cannot be read, the files are of no known kind or
    of several, or the machine has no form of ours; an InputError where it has a place.
    """
    names = [str(path) for path in paths]
    plugins = {name for name in installed(IMPORTERS) if name not in KINDS}
    if kind not in (None, *KINDS, *plugins):
        raise AccelsimError(f"no importer '{kind}'; {near_miss(str(kind), [*KINDS, *plugins], 'importers')}")
    of_plugin = ({kind or tool_of(name) for name in names} if plugins else set()) & plugins
    if len(of_plugin) == 1:
        name = of_plugin.pop() or ""
        given = guarded(IMPORTERS, name, dict[str, Any], _call(name, "convert", names))
        notes = tuple(Note(Mark(names[0], 1, 1), name, str(note)) for note in given.pop("notes", ()))
        if unknown := given.keys() - Foreign.__dataclass_fields__.keys():
            raise AccelsimError(f"{name}: its importer returned {listed(sorted(unknown))}; it may return {_RETURNS}")
        made = Foreign(**given, notes=notes)
        _check(made, [Document(name, None) for name in names])
        return made
    documents = read_documents(names, variables or {})
    if kind is None:
        found = [(one, kind_of(one)) for one in documents if not one.path.endswith(MODELS)]
        of_own = {kind for one, kind in found if kind and list(one.body or ()) != ["variables"]}
        kinds = sorted(of_own or {kind for _, kind in found if kind})
        if not kinds:
            raise AccelsimError(f"{names[0]}: not a file of {listed(KINDS)}; --from says which it is")
        if len(kinds) > 1 and kinds != ["stream", "zigzag"]:  # the cores of Stream are ZigZag's
            hint = "`accelsim import` each, and name what it writes, or say with --from which they are"
            raise AccelsimError(f"files of {listed(kinds)} do not go together; {hint}")
        kind = kinds[0]
    convert = cast(Callable[..., Foreign], import_module(KINDS[kind]).convert)
    if not constrained and kind == "timeloop":  # no other tool's constraints are refused
        convert = partial(convert, constrained=False)
    convert = partial(convert, layer=layer) if kind == "zigzag" else convert
    try:
        made = convert(documents)
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise AccelsimError(f"{listed(names)}: not of a form that {kind} has: {error}") from error
    _check(made, documents)
    twice = [Note(mark, key, "given twice; the last one counts") for one in documents for mark, key in one.repeated]
    return replace(made, notes=(*twice, *made.notes))


@dataclass(frozen=True, slots=True)
class Export:
    """Text of each file by its name, and what the other tool will count otherwise, or not at all."""

    files: dict[str, str]
    notes: tuple[str, ...]


def export_with(name: str, architecture: Architecture, einsum: Einsum, mapping: LoopNest) -> Export:
    """What an installed exporter makes of a mapping."""
    export = load_plugin(EXPORTERS, name)
    files = guarded(EXPORTERS, name, lambda: {str(k): str(v) for k, v in export(architecture, einsum, mapping).items()})
    return Export(files, ())


def _check(made: Foreign, documents: Sequence[Document]) -> None:
    """Refuse files that come to a machine, a workload or a mapping that is not valid here."""
    found: dict[str, Any] = {}
    for kind, document in made.documents().items():
        try:
            if kind == "architecture":
                found[kind] = load_architecture({kind: document})
            elif kind == "system":
                for core in document["cores"]:
                    load_architecture({"architecture": core["arch"]})
            elif kind == "workload":
                found[kind] = load_workload({kind: document})
            elif kind == "mapping" and len(found) == 2 and len(found["workload"].layers) == 1:
                load_mapping({kind: document}, found["architecture"], found["workload"].layers[0])
        except InputError as error:
            wrong = "; ".join(f"{problem.what}" for problem in error.problems[:3])
            keys = (kind, *{"architecture": ("arch",), "workload": ("problem",)}.get(kind, ()))
            bodies = [one.body for one in documents if isinstance(one.body, Map)]
            asking = (str(body.where(key)) for body in bodies for key in keys if key in body)
            where = next(asking, ", ".join(one.path for one in documents))
            raise AccelsimError(f"{where}: no valid {kind} comes of it: {wrong}") from None


def read_documents(paths: Sequence[str], variables: Mapping[str, str]) -> list[Document]:
    """Read files that may include what stands in and below each other's folders; refused with the mistakes of all."""
    folders = dict.fromkeys(Path(os.path.realpath(path)).parent for path in paths)
    values = {name: text if (read := plain_scalar(str(text))) is None else read for name, text in variables.items()}
    return read_all(lambda path: read_document(path, folders, values), paths)
