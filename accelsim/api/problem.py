"""What is to be mapped, as users name it: files, names of files that ship, YAML text, dicts or loaded objects."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import yaml

from accelsim.inputs import library
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, InputError, Problem, UnknownNameError, Unreadable
from accelsim.inputs.library import read_utf8, user_cache
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.objective import Limit
from accelsim.inputs.params import check_overrides, own_overrides, parameter_names, unknown_overrides
from accelsim.inputs.source import Dumper
from accelsim.inputs.units import listed, near_miss, near_misses
from accelsim.inputs.workload import Einsum, Workload, sliced, without_other_operations
from accelsim.inputs.workload_reader import load_workload
from accelsim.results import InputFile, Provenance, input_file, write_directory

T = TypeVar("T")
Source: TypeAlias = str | PathLike[str] | Mapping[str, Any]
"""A path, the name of a file that ships, YAML text of several lines, or what such a file holds as a dict."""
LOG = logging.getLogger("accelsim")
NAMED = 3
"""Nodes or layers of a kind that are named where all of them would be too many lines."""
_NAMES = 8
"""Names of layers that a message lists at most."""
_FORMS = "a name (`accelsim list`), a path, YAML text, a dict"
_OBJECTS = {
    "architecture": (Architecture, f"{_FORMS} or an Architecture"),
    "workload": (Workload, f"{_FORMS}, a Workload, a layer, or a torch.nn.Module with inputs="),
    "mapping": (LoopNest, f"{_FORMS} or a Mapping"),
    "constraints": (Constraints, f"{_FORMS}, what accelsim.constraints makes, or Constraints"),
}
_SAYS = {"Architecture": "architecture", "Workload": "workload", "Einsum": "workload", "Mapping": "mapping"}
Sources: TypeAlias = dict[str, Any]
_Set: TypeAlias = tuple[tuple[str, str], ...]
"""What is given of each kind."""


@dataclass(frozen=True)
class MappingProblem:
    """An architecture and a workload as given and as read, and what is asked of the mappings.

    `layer` is the one that is meant; None: all of them. `left_out` are layers of the workload that do not count, as the
    MACs of the architecture do not compute them. `given` has names and `paths` the files of what comes from a file;
    `objects` what is given otherwise.
    """

    architecture: Architecture
    workload: Workload
    layer: Einsum | None
    given: dict[str, str] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    objects: Sources = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    require: tuple[str, ...] = ()
    left_out: tuple[Einsum, ...] = ()

    @property
    def one_layer(self) -> Einsum:
        """The layer that is meant, which must be clear."""
        if self.layer is None:
            names = listed((layer.name for layer in self.workload.layers), _NAMES)
            what = self.given.get("workload") or self.workload.name or "the workload"
            raise AccelsimError(
                f"{what} has {len(self.workload.layers)} layers; say which with layer (--layer): {names}"
            )
        return self.layer

    @property
    def layers(self) -> tuple[Einsum, ...]:
        """The layers that are mapped."""
        return self.workload.layers if self.layer is None else (self.layer,)

    def of(self, architecture: Architecture) -> MappingProblem:
        """The same with another architecture."""
        return replace(self, architecture=architecture)

    def constraints(self, einsum: Einsum) -> Constraints | None:
        """Constraints on the mappings of a layer, limits on its costs included; None: there are none."""
        source = self.paths.get("constraints") or self.objects.get("constraints")
        if source is None and not self.require:
            return None
        found = Constraints()
        if isinstance(source, Constraints):
            found = source
        elif source is not None:
            found = self._read_constraints(source, einsum)
        return replace(found, limits=(*found.limits, *map(Limit.parse, self.require)))

    def _read_constraints(self, source: Source, einsum: Einsum) -> Constraints:
        from accelsim.inputs.constraints_reader import load_constraints

        names = [layer.name for layer in (*self.workload.layers, *self.left_out)]
        own = own_overrides(self.params, source if isinstance(source, Path) else _as_text(source))
        try:
            return load_constraints(source, self.architecture, einsum, own, names)
        except InputError as error:
            foreign = self.given.get("architecture")
            if "constraints" not in self.given or self.given["constraints"] != foreign:
                raise
            hint = f"`--constraints none` leaves out what {foreign} asks of mappings"
            raise InputError([*error.problems[:-1], replace(error.problems[-1], hint=hint)]) from None

    def check_constraints(self) -> None:
        """Report what the constraints get wrong for any layer, before the first one is searched."""
        problems: list[Problem] = []
        for layer in self.layers:
            _tried(problems, self.constraints, layer)
        if problems:
            raise InputError(problems)

    def mapping(self, einsum: Einsum) -> LoopNest:
        """The mapping that is given, of a layer."""
        from accelsim.inputs.mapping import load_mapping

        source: Any = self.paths.get("mapping") or self.objects.get("mapping")
        if isinstance(source, LoopNest):
            return source
        own = own_overrides(self.params, source if isinstance(source, Path) else _as_text(source))
        return load_mapping(source, self.architecture, einsum, own)

    def provenance(self, command: str, sample: int | None = None, time_limit: float | None = None) -> Provenance:
        """Where a result comes from; a text or a dict is a file beside the result."""
        files = tuple(input_file(kind, self.given[kind], path) for kind, path in self.paths.items())
        for name, content in self.files.items():
            files += (InputFile(name.removesuffix(".yaml"), name, hashlib.sha256(content).hexdigest()),)
        if command != "map":
            return Provenance(command, files, self.params)
        return Provenance(command, files, self.params, sample, time_limit, self.require)

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Inputs that were given as text or as a dict, as files."""
        found = {}
        for kind, source in self.objects.items():
            if isinstance(source, str | Mapping) and kind != "mapping":
                found[f"{kind}.yaml"] = _as_text(source).encode()
        return found

    def say_notes(self) -> None:
        """Log what of a model is not counted as it is, nodes of a kind together."""
        groups: dict[tuple[str, str, str], list[str]] = {}
        for note in self.workload.notes:
            groups.setdefault((note.operator, note.done, note.why), []).append(note.node)
        for (operator, done, why), nodes in groups.items():
            LOG.info("%s %s: %s: %s", operator, done, why, listed(nodes, NAMED))
        if any(len(nodes) > NAMED for nodes in groups.values()):
            LOG.info("`accelsim import` names every node")


def say_dense(architecture: Architecture) -> None:
    """Log that zeros are not left out of what follows, where an architecture does that."""
    if architecture.saves_zeros:
        why = "zeros are left out by `eval`, `map` and in part by `spread`; here all words are counted"
        LOG.warning("%s: %s", architecture.name, why)


def params_of(params: Mapping[str, Any] | None) -> dict[str, str]:
    """Parameters as the files write them: numbers as text, a list in brackets.

    >>> params_of({"glb": "54 KiB", "batch": 4, "sizes": [1, 2]})
    {'glb': '54 KiB', 'batch': '4', 'sizes': '[1, 2]'}
    """
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise TypeError(f"params: expected a dict such as {{'glb': '54 KiB'}}, got {_kind(params)}")
    found = {}
    for name, value in params.items():
        items = value if isinstance(value, list | tuple) else [value]
        if not isinstance(name, str) or not all(isinstance(item, str | Real) for item in items):
            raise TypeError(f"params: expected text or a number for {name!r}, got {_kind(value)}")
        found[name] = f"[{', '.join(map(str, items))}]" if isinstance(value, list | tuple) else str(value)
    return found


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"[:60]


def read_problem(
    arch: Any,
    workload: Any,
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    require: str | Sequence[str] = (),
    mapping: Any = None,
    all_layers: bool = True,
    inputs: Any = None,
    more: tuple[str, ...] = (),
) -> MappingProblem:
    """Read architecture and workload, with every mistake in both, and find the layer.

    Of a whole network, not `all_layers`: only those that multiply and add. `inputs` are example inputs of a torch
    module. `more` are more files of another tool.

    Raises
    ------
    TypeError
        If an argument is of a kind that is not accepted.
    InputError
        With every mistake in the files, and parameters that no file defines.
    AccelsimError
        If there is no such file or layer.
    """
    if workload is None and isinstance(arch, list | tuple) and arch:
        workload = arch[0]
    elif workload is None and _is_name(arch) and (os.path.isdir(arch) or is_foreign(os.fspath(arch))):
        workload = arch
    arch, files = foreign_files(arch)
    workload, beside = foreign_files(workload)
    more = tuple(dict.fromkeys([*more, *files, *beside]))
    optional = {"mapping": mapping, "constraints": constraints}
    sources = {"architecture": arch, "workload": _of_torch(workload, inputs)}
    sources |= {kind: source for kind, source in optional.items() if source is not None}
    for kind, source in sources.items():
        _refuse_type(kind, source)
    overrides = params_of(params)
    named = {kind: os.fspath(each) for kind, each in sources.items() if _is_name(each)}
    if named.get("constraints") == "none":
        named.pop("constraints")
        sources.pop("constraints")
    overrides, variables = apart(overrides, [*named.values(), *more])
    if "constraints" not in sources and constraints is None:
        converted = convert_foreign(tuple(dict.fromkeys([*named.values(), *more])), variables)
        asking = next((name for name, kept in converted.items() if "constraints" in kept), None)
        named |= {} if asking is None else {"constraints": asking}
    paths = find_files(named, variables, more, layer if "mapping" in named else None)
    objects = {kind: source for kind, source in sources.items() if kind not in paths}
    texts = [_as_text(source) for source in objects.values() if isinstance(source, str | Mapping)]
    check_overrides(overrides, [*paths.values(), *texts])
    machine, network = _read_both(paths, objects, overrides)
    limits = (require,) if isinstance(require, str) else tuple(require)
    for limit in limits:
        Limit.parse(limit)
    found = find_layer(network, layer, named.get("workload") or network.name)
    made = MappingProblem(machine, network, found, named, paths, objects, overrides, limits)
    if found is None and not all_layers:
        counted, others = without_other_operations(network)
        made = replace(made, workload=counted, left_out=others)
    return made


def foreign_files(source: Any) -> tuple[Any, tuple[str, ...]]:
    """A file of another tool and those that are given with it: of several, or of a folder."""
    if _is_name(source) and os.path.isdir(source):
        from accelsim.importers.foreign import files_below

        source = files_below(os.fspath(source)) or source
    if not isinstance(source, list | tuple) or not source:
        return source, ()
    first, *rest = (os.fspath(each) if _is_name(each) else each for each in source)
    return first, tuple(rest)


def _of_torch(workload: Any, inputs: Any) -> Any:
    """A torch module as a workload; anything else as it is."""
    if inputs is None and not any(base.__module__.startswith("torch.") for base in type(workload).__mro__):
        return workload
    if inputs is None:
        raise TypeError("workload: a torch module needs example inputs: inputs=(tensor, ...)")
    from accelsim.importers.pytorch import workload_from_torch

    return workload_from_torch(workload, inputs)


def _is_name(source: Any) -> bool:
    """Whether a source is the name or path of a file, and no text."""
    return isinstance(source, PathLike) or (isinstance(source, str) and "\n" not in source)


def _refuse_type(kind: str, source: Any) -> None:
    """Raise TypeError where a source is of no kind that is accepted."""
    of, accepted = _OBJECTS[kind]
    good = isinstance(source, str | PathLike | Mapping | of) or (kind == "workload" and isinstance(source, Einsum))
    if not good:
        other = _SAYS.get(type(source).__name__)
        hint = f"; this is the {other}: the order is arch, workload" if other and other != kind else ""
        raise TypeError(f"{kind}: expected {accepted}, got {_kind(source)}{hint}")


def _as_text(source: Source) -> str:
    """What a file would hold; a line more, so that it is taken for no name."""
    text = source if isinstance(source, str) else yaml.dump(dict(cast(Any, source)), Dumper=Dumper, sort_keys=False)
    return text if "\n" in text else f"{text}\n"


def _read_both(paths: Mapping[str, Path], objects: Sources, overrides: dict[str, str]) -> tuple[Architecture, Workload]:
    """Architecture and workload, with every mistake in both."""
    problems: list[Problem] = []
    loaders: dict[str, Callable[..., Any]] = {"architecture": load_architecture, "workload": load_workload}
    found: dict[str, Any] = {}
    for kind, load in loaders.items():
        if kind in paths:
            found[kind] = _tried(problems, load, paths[kind], own_overrides(overrides, paths[kind]))
        elif isinstance(objects[kind], str | Mapping):
            own = own_overrides(overrides, _as_text(objects[kind]))
            found[kind] = _tried(problems, load, objects[kind], own)
        else:
            found[kind] = objects[kind]
    architecture, workload = found["architecture"], found["workload"]
    if architecture is None or workload is None:
        raise InputError(problems)
    if isinstance(workload, Einsum):
        workload = Workload(workload.name, (workload,))
    if architecture.slices:
        layers = tuple(sliced(layer, architecture.slices) for layer in workload.layers)
        workload = replace(workload, layers=layers)
    return architecture, workload


def _tried(problems: list[Problem], read: Callable[..., T], *of: Any) -> T | None:
    """What is read, or None with its mistakes among the problems."""
    try:
        return read(*of)
    except InputError as error:
        problems += error.problems
        return None


def find_layer(workload: Workload, name: str | None, file: str) -> Einsum | None:
    """Return the layer of that name, or the only one."""
    if name is None:
        return workload.layers[0] if len(workload.layers) == 1 else None
    by_name = {layer.name: layer for layer in workload.layers}
    if name in by_name:
        return by_name[name]
    hint = near_miss(name, by_name)
    what = f"{file} has no layer '{name}'; {hint + ' ' if hint else ''}layers: {listed(by_name, _NAMES)}"
    raise UnknownNameError(what, name, near_misses(name, by_name))


def find_files(
    given: Mapping[str, str], variables: _Set = (), more: tuple[str, ...] = (), layer: str | None = None
) -> dict[str, Path]:
    """Find the file of each kind by its path or its shipped name.

    `variables` are those of another tool's templates, `more` are more of its files.
    """
    machine = given.get("architecture", "")
    if machine and library.find(machine, "arch") is None and _catalogued(machine):
        what = f"levels are needed here; {machine}:arch has them, and `map`, `roofline` and `gpu` know GPUs"
        raise AccelsimError(f"{machine} is a GPU of the catalogue: {what}")
    names = tuple(dict.fromkeys([*given.values(), *more]))
    converted = convert_foreign(names, variables, constrained=is_foreign(given.get("constraints", "")), layer=layer)
    if others := [name for name in more if name not in converted]:
        raise AccelsimError(f"unrecognized arguments: {' '.join(others)}; only another tool has more files")
    found = {}
    for kind, name in given.items():
        if name not in converted:
            found[kind] = library.resolve(name, library.FOLDERS[kind])
        elif kind in converted[name]:
            found[kind] = converted[name][kind]
        else:
            hint = "; `accelsim map` and `import` take systems" if "system" in converted[name] else ""
            what = f"what is imported holds no {kind}, only {listed(converted[name]) or 'notes'}"
            raise AccelsimError(f"{name}: {what}{hint}")
    return found


def apart(overrides: dict[str, str], names: Iterable[str]) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """Parameters of our files, and variables of another tool's templates: what is no such parameter."""
    if not overrides:
        return {}, ()
    from accelsim.importers.foreign import tool_of

    files = [name for name in names if os.path.isfile(name) and not name.endswith(library.MODELS)]
    templates = {name for name in files if tool_of(name) == "template"}
    ours = [name for name in files if name not in templates and tool_of(name) is None]
    variables = {key: text for key, text in overrides.items() if templates and unknown_overrides({key: text}, ours)}
    return {key: text for key, text in overrides.items() if key not in variables}, tuple(variables.items())


def is_foreign(name: str) -> bool:
    """Whether a name is of a file of another tool."""
    if not os.path.isfile(name):
        return False
    from accelsim.importers.foreign import tool_of

    return tool_of(name) is not None


@lru_cache(maxsize=8)
def convert_foreign(
    names: tuple[str, ...], variables: _Set = (), *, constrained: bool = True, layer: str | None = None
) -> dict[str, dict[str, Path]]:
    """Convert those of some files that are another tool's, all together; models too beside files of ZigZag.

    Not `constrained`: without what they ask of the loops of mappings. A GPU as an architecture is converted, too.
    Of each such file these are the converted files by their kind, kept in the user's cache; notes are logged.
    """
    made_of_gpus = _made_of_gpus([name for name in names if ":" in name])
    models = [name for name in names if name.endswith(library.MODELS)]
    names = tuple(name for name in names if os.path.isfile(name) and name not in models)
    if not names:
        return made_of_gpus
    from accelsim.importers.foreign import note_lines, read_foreign, refuse_broken, tool_of

    tools = {name: tool for name in names if (tool := tool_of(name))}
    foreign = [*tools, *(models if {"zigzag", "stream"} & set(tools.values()) else [])]
    if not foreign:
        return made_of_gpus
    for name in (each for each in names if each not in tools):
        refuse_broken(name)
    made = read_foreign(foreign, variables=dict(variables), constrained=constrained, layer=layer)
    kept = _kept(made.texts(foreign))
    energies = f"Energies: {made.energies}\n" if made.energies else ""
    if said := (energies + note_lines(made.notes, NAMED)).rstrip("\n"):
        LOG.warning("%s", said)
    return made_of_gpus | dict.fromkeys(foreign, kept)


def _made_of_gpus(names: Sequence[str]) -> dict[str, dict[str, Path]]:
    """Files of those names that are of a GPU as an architecture, such as `h100_sxm:arch`."""
    if not names:
        return {}
    from accelsim.gpu.machine import machine_texts  # takes time at the start

    return {name: _kept(texts) for name in names if (texts := machine_texts(name))}


def _kept(texts: Mapping[str, str]) -> dict[str, Path]:
    """Files in the user's cache that hold the texts, by kind."""
    files = {f"{kind}.yaml": text.encode() for kind, text in texts.items()}
    folder = user_cache() / "imported" / hashlib.sha256(b"".join(files.values())).hexdigest()[:16]
    return {path.stem: path for path in write_directory(folder, files)}


def is_gpu(source: Any) -> bool:
    """Whether a name is of a GPU: a file with the key `gpu`, or one of the catalogue."""
    if not _is_name(source):
        return isinstance(source, Mapping) and "gpu" in source
    path = library.find(source, "arch")
    if path is None:
        return _catalogued(os.fspath(source))
    try:
        return any(line.startswith("gpu:") for line in read_utf8(path).splitlines())
    except Unreadable:
        return False


def is_system(source: Any, others: Iterable[Any] = (), params: Mapping[str, Any] | None = None) -> bool:
    """Whether a name is of a system of cores: a file with the key `system` or of Stream, or one that ships.

    A tree of another tool is one if several of its branches compute; `others` are the files that are read with it.
    """
    source, beside = foreign_files(source)
    if not _is_name(source):
        return isinstance(source, Mapping) and "system" in source
    path = library.find(source, "systems") or library.find(source, "arch")
    with suppress(Unreadable):
        if path and re.search(r"^(system|[^#\n]*\boffchip_core(_id)?):", read_utf8(path), re.MULTILINE):
            return True
    names = tuple(dict.fromkeys(os.fspath(one) for one in (source, *others, *beside) if _is_name(one)))
    with suppress(AccelsimError):  # mistakes are said where the files are read as a machine
        converted = convert_foreign(names, apart(params_of(params), names)[1]) if is_foreign(names[0]) else {}
        return any("system" in kept for kept in converted.values())
    return False


def _catalogued(name: str) -> bool:
    from accelsim.gpu.catalogue import find_gpu

    return find_gpu(name) is not None


def constraints(levels: Mapping[str, Mapping[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """Write constraints on mappings as a dict, by level, as `accelsim.map` and others take it.

    Parameters
    ----------
    levels : dict of dict
        What is asked at each level, by its name, with the keys of a constraints file: `keep`, `bypass`, `temporal`,
        `tile`. `x` and `y` stand for `spatial: {x: ..., y: ...}`. A list of dimensions stands for `{only: [...]}`.
    **more
        Keys beside `levels`: `min_utilization`, `limits`.

    Returns
    -------
    dict
        What a constraints file holds.

    Examples
    --------
    >>> constraints({"GLB": {"x": ["K"], "bypass": ["Weights"]}}, min_utilization=0.5)
    {'constraints': {'levels': [{'level': 'GLB', 'spatial': {'x': {'only': ['K']}}, 'bypass': ['Weights']}], \
'min_utilization': 0.5}}
    """
    if not isinstance(levels or {}, Mapping):
        raise TypeError(f"levels: expected a dict such as {{'GLB': {{'x': ['K']}}}}, got {_kind(levels)}")
    found = []
    for name, asked in (levels or {}).items():
        if not isinstance(asked, Mapping):
            raise TypeError(f"levels: expected a dict for {name!r}, such as {{'x': ['K']}}, got {_kind(asked)}")
        loops = {
            key: {"only": list(v)} if isinstance(v, list | tuple) else v for key, v in asked.items() if key in _LOOPS
        }
        axes = {key: loops.pop(key) for key in ("x", "y") if key in loops}
        rest = {
            key: list(v) if isinstance(v, tuple | set | frozenset) else v
            for key, v in asked.items()
            if key not in _LOOPS
        }
        found.append({"level": name, **({"spatial": axes} if axes else {}), **loops, **rest})
    return {"constraints": {**({"levels": found} if found else {}), **more}}


_LOOPS = ("temporal", "x", "y")


def gemm(M: int, N: int, K: int, *, bits: int | Mapping[str, int] = 16, name: str = "gemm") -> Workload:  # noqa: N803
    """Describe a GEMM, Outputs[M, N] = Inputs[M, K] x Weights[K, N], without a file.

    Parameters
    ----------
    M, N, K : int
        Sizes.
    bits : int or dict, optional
        Width of all words [bit], or by tensor: `Weights`, `Inputs`, `Outputs`, `psums`.
    name : str
        Name of the layer.

    Examples
    --------
    >>> gemm(128, 256, 64, bits=8).layers[0].macs
    2097152
    """
    return load_workload({"workload": {"name": name, "gemm": {"M": M, "N": N, "K": K}, "bits": _plain(bits)}})


def conv(*, bits: int | Mapping[str, int] = 16, name: str = "conv", **sizes: Any) -> Workload:
    """Describe a convolution without a file.

    Parameters
    ----------
    **sizes
        Keys of `conv` in a workload file: `N`, `K`, `C`, `P`, `Q`, `R`, `S`, `stride`, `dilation`, `padding`, `groups`.
    bits : int or dict, optional
        Width of all words [bit], or by tensor: `Weights`, `Inputs`, `Outputs`, `psums`.
    name : str
        Name of the layer.

    Examples
    --------
    >>> conv(K=64, C=64, P=56, Q=56, R=3, S=3, padding=1, bits=8).layers[0].macs
    115605504
    """
    return load_workload({"workload": {"name": name, "conv": sizes, "bits": _plain(bits)}})


def _plain(bits: int | Mapping[str, int]) -> int | dict[str, int]:
    return dict(bits) if isinstance(bits, Mapping) else bits


__all__ = ["MappingProblem", "constraints", "conv", "gemm", "parameter_names", "read_problem"]
