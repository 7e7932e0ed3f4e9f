"""Mapping results kept on disk, by the content of what they answer.

The key of an entry is the hash of all that the answer depends on: this version and the code of model and search, the
machine, the Einsum, the constraints, the objective and the options. Names of layers, machines and sources do not count,
and those of dimensions and tensors only where machine, constraints or options have them. Only proved results are kept.
An entry that does not hold what it should is named, ignored and replaced.

The hash of an entry protects from damage, from an entry in the place of another one and, as the key counts the code,
from answers of other code. Anybody can compute the hash, so each mapping is evaluated again as well: no entry can lie
about a cost or show a mapping that is not valid. That no mapping is better is what the search proved; `accelsim verify`
and `--no-cache` search again.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from accelsim import __version__
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import user_cache
from accelsim.inputs.mapping import Loop
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.objective import Objective, costs_of
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.results import Provenance
from accelsim.results.output import SEARCH, point_json, read_mapping_json, read_search, search_json
from accelsim.results.output_schema import misfits
from accelsim.search.result import SearchResult
from accelsim.search.stopping import Budget, OnProgress

FOLDER = "ACCELSIM_CACHE"
"""Environment variable that names the folder instead of the user's own."""
_CODE = ("inputs", "model", "mapspace", "search", "results")
"""Parts of the package on which an answer depends; another release may have the same version while it is made."""
_NO_MATTER = ("name", "technology", "clock_hz", "areas", "energy_notes", "sized")
"""What of a machine changes no mapping: rates are in words a cycle, energies in pJ."""
_SAME = 1e-12
"""Relative difference that a value read back may have from one that is evaluated anew."""
WAIT_SECONDS = 60.0
"""How long a call waits for those of other processes, which take milliseconds."""
_TABLE = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, sha256 TEXT, body BLOB)"
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
MAPSPACES = {"auto": None, "even": False, "uneven": True}
"""`MapOptions.uneven` for each word of a user's."""
OnTrouble = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MapOptions:
    """Options of `map_einsum` that change its answer; see there. By default of all mappings: the one default space."""

    objective: str = "energy"
    method: str = "auto"
    top: int = 1
    within: float | None = None
    uneven: bool | None = None
    imperfect: str | Sequence[str] = "auto"
    pad: str | Sequence[str] = ()
    walks: bool = False
    seed: int = 0

    @property
    def narrow(self) -> bool:
        """Whether only even mappings with perfect factors are asked for."""
        return self.uneven is False and not (self.imperfect or self.pad)


class DamagedError(OSError):
    """A file that does not hold entries, or not all that it should."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of a file of SQLite, which need not exist yet: plain values by their keys, each sealed by a hash.

    The file is opened for each call alone, and what a call writes is there as a whole or not at all. SQLite's journal
    for rolling back does that on any file system that has locks; a write-ahead log would need all processes on one
    computer, and a folder that can be written. All raise OSError if the file cannot be read or written, and
    DamagedError if it is not what it should be.
    """

    path: Path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, WAIT_SECONDS, isolation_level="IMMEDIATE")) as file, file:
                file.execute(_TABLE)
                yield file
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path)) from None
            raise (DamagedError if code in _DAMAGE else OSError)(errno.EIO, str(error), str(self.path)) from None

    def read(self, *keys: str) -> Iterator[tuple[str, Any]]:
        """Entries of some keys, or all, with their keys; None for a value that is not the one that was written."""
        if self.path.exists():
            with self._open() as file:
                where = f" WHERE key IN ({', '.join('?' * len(keys))})" if keys else ""
                for key, sealed, body in file.execute(f"SELECT key, sha256, body FROM entries{where}", keys):
                    yield key, json.loads(body) if isinstance(body, bytes) and sealed == seal(key, body) else None
                if not keys and file.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                    raise sqlite3.DatabaseError("its index is damaged")

    def write(self, entries: Mapping[str, Any]) -> None:
        """Keep values, all or none of them, in place of those that had the same keys."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        bodies = {key: json.dumps(value).encode() for key, value in entries.items()}
        with self._open() as file:
            rows = [(key, seal(key, body), body) for key, body in bodies.items()]
            file.executemany("REPLACE INTO entries VALUES (?, ?, ?)", rows)

    def size(self) -> tuple[int, int]:
        """Number of entries, and bytes of their values."""
        if not self.path.exists():
            return 0, 0
        with self._open() as file:
            count, size = file.execute("SELECT COUNT(*), TOTAL(LENGTH(body)) FROM entries").fetchone()
            return count, int(size)

    def clear(self) -> None:
        """Remove all entries."""
        if self.path.exists():
            with self._open() as file:
                file.execute("DELETE FROM entries")
                file.commit()
                file.execute("VACUUM")

    def put_aside(self) -> str:
        """Move a damaged file out of the way; returns its new name."""
        aside = self.path.with_suffix(".damaged")
        for ending in ("-journal", ""):  # a journal would be rolled back into the next file
            with suppress(OSError):  # another process was faster, or nothing can be moved
                os.replace(f"{self.path}{ending}", f"{aside}{ending}")
        return aside.name


def seal(key: str, body: bytes) -> str:
    """Hash of an entry, which shows damage, and that it stands under the key of another one."""
    return hashlib.sha256(key.encode() + b"\0" + body).hexdigest()


@dataclass(frozen=True, slots=True)
class ResultCache:
    """Entries of a file in a folder, neither of which need exist yet.

    `on_trouble` takes one line about what cannot be read or written; the search goes on without it.
    """

    folder: Path
    on_trouble: OnTrouble = lambda _: None

    @property
    def entries(self) -> Entries:
        """The file."""
        return Entries(self.folder / "results.sqlite")

    def read(self, key: str) -> Mapping[str, Any] | None:
        """Body of an entry, with the time of its making as `kept`, or None where there is none that can be read."""
        found = self._try("cannot be read", lambda: dict(self.entries.read(key))) or {}
        if key in found and found[key] is None:
            self.damaged(key, "its hash is another one")
        return found.get(key)

    def damaged(self, key: str, why: str) -> None:
        """Say that an entry is not what it should be."""
        self.on_trouble(f"{self.entries.path}: damaged entry {key[:8]}, ignored and made anew: {why}")

    def write(self, key: str, body: Mapping[str, Any]) -> None:
        """Keep an entry, as a whole or not at all."""
        entry = {**body, "kept": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")}
        self._try("the result is not kept", lambda: self.entries.write({key: entry}))

    def size(self) -> tuple[int, int]:
        """Number of entries, and bytes of what they hold."""
        return self._try("cannot be read", self.entries.size) or (0, 0)

    def clear(self) -> None:
        """Remove all entries, and the files that accelsim 1.0 had for them."""
        self._try("cannot be cleared", self.entries.clear)
        for old in self.folder.glob(f"[0-9a-f][0-9a-f]/{'[0-9a-f]' * 64}.json"):
            old.unlink(missing_ok=True)

    def _try(self, what: str, do: Callable[[], Any]) -> Any:
        """Read or write the file, or say what keeps from it; one that is damaged is put aside, and begun anew."""
        try:
            return do()
        except DamagedError as error:
            aside = self.entries.put_aside()
            self.on_trouble(f"{self.entries.path}: damaged, and is {aside} now; it begins anew: {error.strerror}")
        except OSError as error:
            self.on_trouble(f"{self.entries.path}: {what}: {error.strerror or error}")
        return None


def default_folder() -> Path:
    """Folder of the cache: `ACCELSIM_CACHE`, or a folder in the user's cache folder."""
    given = os.environ.get(FOLDER)
    return Path(given) if given else user_cache()


def map_with_cache(
    architecture: Architecture,
    einsum: Einsum,
    options: MapOptions,
    cache: ResultCache | None,
    *,
    constraints: Constraints | None = None,
    budget: Budget | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> SearchResult:
    """Find the best mapping as `map_einsum` does, or take it from a cache and evaluate it anew.

    A budget of seconds does not matter where the proved answer is known; where uneven mappings were looked at for a
    while only, it is kept for searches without. The result is the same either way but for `seconds`, which are those of
    the search that found it, and `kept`. Raises NoValidMappingError, AccelsimError as `map_einsum`.
    """
    counted = budget is not None and budget.mappings is not None
    exact = options.method == "exact" or (options.method == "auto" and not counted)
    cache = cache if exact else None
    key = content_key(architecture, einsum, replace(options, method="exact", seed=0), constraints) if cache else ""
    if cache is not None:
        found = _look_up(cache, key, architecture, einsum, options, constraints)
        if found is not None and (found.stop == "exhausted" or budget is None):
            return found
    from accelsim.search.mapper import map_einsum

    search = map_einsum(
        architecture,
        einsum,
        constraints=constraints,
        budget=budget,
        workers=workers,
        on_progress=on_progress,
        **asdict(options),
    )
    proved = search.stop == "exhausted" and search.certificate is not None and search.certificate.proved
    if cache is not None and (proved or (search.stop == "effort" and budget is None)):
        cache.write(key, _entry(search, einsum, architecture.name))
    return search


def content_key(
    architecture: Architecture, einsum: Einsum, options: MapOptions, constraints: Constraints | None = None
) -> str:
    """Hash of all that an answer depends on.

    Dimensions and tensors count by their place and not by their names, unless machine, constraints or options name
    them. Any word of the machine may be the name of a dimension, such as `along` of a `dma`.
    """
    named, machine = bool(constraints or options.imperfect or options.pad), machine_content(architecture)
    dims = set(_words(machine))
    tensors = frozenset[str]().union(*(level.tensors or () for level in architecture.levels))
    content = {
        "accelsim": __version__,
        "code": hash_of_code(),
        "machine": machine,
        "einsum": einsum_content(einsum),
        "names": [
            [dim if named or dim in dims else "" for dim in einsum.dims],
            [each.name if named or each.name in tensors else "" for each in einsum.tensors],
        ],
        "constraints": plain(constraints),
        "options": plain(options),
    }
    return content_hash(content)


def machine_content(architecture: Architecture) -> dict[str, Any]:
    """What of a machine an answer depends on."""
    machine = {each.name: plain(getattr(architecture, each.name)) for each in fields(architecture)}
    return {key: value for key, value in machine.items() if key not in _NO_MATTER}


def einsum_content(einsum: Einsum) -> list[Any]:
    """An Einsum without names: bounds, those before padding, and its tensors."""
    real = None if einsum.unpadded is None else [einsum.unpadded[dim] for dim in einsum.dims]
    tensors = [plain(replace(tensor, name="", density=None)) for tensor in _nameless(einsum).tensors]
    return [list(einsum.dims.values()), real, tensors]


def plain(value: Any) -> Any:
    """A value as JSON can hold it, equal for equal values; where an energy comes from is no part of an answer."""
    if is_dataclass(value):
        names = [each.name for each in fields(value) if each.name not in ("source", "formula")]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return sorted([[plain(key), plain(entry)] for key, entry in value.items()], key=repr)
    if isinstance(value, frozenset):
        return sorted(map(plain, value), key=repr)
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    return str(value) if isinstance(value, Fraction) else value


def _words(content: Any) -> Iterator[str]:
    """All text in plain values."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | dict):
        for each in content.values() if isinstance(content, dict) else content:
            yield from _words(each)


def content_hash(content: Any) -> str:
    """Hash of plain values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@functools.cache
def hash_of_code() -> str:
    """Hash of the code that an answer depends on."""
    package, found = Path(__file__).resolve().parents[1], hashlib.sha256()
    for part in _CODE:
        for path in sorted((package / part).rglob("*.py")):
            found.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def rename(mapping: LoopNest, einsum: Einsum, other: Einsum) -> LoopNest:
    """Mapping of an Einsum as one of another that differs in the names of dimensions and tensors alone."""
    dims = dict(zip(einsum.dims, other.dims, strict=True))
    tensors = dict(zip((t.name for t in einsum.tensors), (t.name for t in other.tensors), strict=True))

    def loops(some: Sequence[Loop]) -> tuple[Loop, ...]:
        return tuple(Loop(dims[loop.dim], loop.bound) for loop in some)

    levels = []
    for level in mapping.levels:
        kept = frozenset(tensors[name] for name in level.keep)
        levels.append(replace(level, temporal=loops(level.temporal), x=loops(level.x), y=loops(level.y), keep=kept))
    return LoopNest(tuple(levels), frozenset(dims[dim] for dim in mapping.imperfect), loops(mapping.padded))


def carry_over(
    results: Sequence[Result], architecture: Architecture, einsum: Einsum, other: Einsum
) -> tuple[Result, ...] | None:
    """Mappings of an Einsum evaluated for another one with the same `content_key`; None if one costs something else."""
    found = tuple(evaluate(architecture, other, rename(result.mapping, einsum, other)) for result in results)
    return found if all(map(_same_costs, results, found)) else None


def _same_costs(one: Result, other: Result) -> bool:
    """Whether two results agree in what they cost and break."""
    near = math.isclose(one.energy_pj, other.energy_pj, rel_tol=_SAME)
    names = ("cycles", "offchip_words", "violations")
    return near and all(getattr(one, name) == getattr(other, name) for name in names)


Searched = dict[str, tuple[Einsum, SearchResult]]
"""What a run has searched so far, by `content_key`."""


def search_once(
    searched: Searched, key: str, architecture: Architecture, einsum: Einsum, search: Callable[[], SearchResult]
) -> SearchResult:
    """What was found for an Einsum of the same key, if it costs the same here; else what a search finds."""
    if key in searched:
        first, found = searched[key]
        ranked = carry_over(found.ranked or (found.best,), architecture, first, einsum)
        if ranked is not None:
            return replace(found, best=ranked[0], ranked=ranked if found.ranked else ())
    found = search()
    searched[key] = einsum, found
    return found


def _nameless(einsum: Einsum) -> Einsum:
    """The Einsum with places for names."""
    dims = {dim: str(place) for place, dim in enumerate(einsum.dims)}
    tensors = tuple(
        replace(tensor, name=str(place), ranks=tuple(tuple((dims[d], f) for d, f in rank) for rank in tensor.ranks))
        for place, tensor in enumerate(einsum.tensors)
    )
    return replace(einsum, dims={dims[d]: n for d, n in einsum.dims.items()}, tensors=tensors, unpadded=None)


def _entry(search: SearchResult, einsum: Einsum, machine: str) -> dict[str, Any]:
    """What is kept of a search; `about` is for people."""
    nameless = _nameless(einsum)
    return {
        "about": f"{einsum.name} on {machine}",
        "seconds": search.seconds,
        **search_json(replace(search, ranked=()), Provenance("map", (), {})),
        "mappings": [
            point_json(replace(result, mapping=rename(result.mapping, einsum, nameless)))
            for result in search.ranked or (search.best,)
        ],
    }


def _look_up(
    cache: ResultCache,
    key: str,
    architecture: Architecture,
    einsum: Einsum,
    options: MapOptions,
    constraints: Constraints | None,
) -> SearchResult | None:
    """Result of an entry with its mappings evaluated anew, or None."""
    body = cache.read(key)
    if body is None:
        return None
    try:
        nameless = _nameless(einsum)
        nests = [rename(read_mapping_json(each), nameless, einsum) for each in body["mappings"]]
        found = read_search(body, [evaluate(architecture, einsum, nest) for nest in nests])
        found = replace(found, seconds=float(body["seconds"]), kept=body["kept"])
        wrong = _wrong(found, body, options, constraints, einsum)
    except (LookupError, TypeError, ValueError, AttributeError, AccelsimError) as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        cache.damaged(key, wrong)
        return None
    return found


def _wrong(
    found: SearchResult, body: Mapping[str, Any], options: MapOptions, constraints: Constraints | None, einsum: Einsum
) -> str:
    """What keeps a result that was read back from being the answer; empty if nothing does."""
    if misfit := misfits({**SEARCH.form, "additionalProperties": True}, body):
        return misfit[0]
    proof, exact = found.certificate, found.method == "exact" and found.objective == options.objective
    if proof is None or not exact or not (proof.proved or found.stop == "effort"):
        return "it proves nothing about what is asked"
    values = [Objective.parse(options.objective).of(each) for each in found.ranked]
    value = values[0]
    if any(later < value * (1 - 1e-9) for later in values):
        return "its first mapping is not the best one"
    if not math.isclose(proof.value, value, rel_tol=1e-9):
        return f"its mapping has the value {value:.6g}, and its proof is of {proof.value:.6g}"
    for result, kept in zip(found.ranked, body["mappings"], strict=True):
        if result.cycles != kept["cycles"] or not math.isclose(result.energy_pj, kept["energy_pj"], rel_tol=_SAME):
            was = f"{kept['energy_pj']:.6g} pJ and {kept['cycles']} cycles"
            return f"its mapping costs {result.energy_pj:.6g} pJ and {result.cycles} cycles, not {was}"
        if broken := rules_broken(result, constraints, einsum):
            return "; ".join(broken)
    return ""


def rules_broken(result: Result, constraints: Constraints | None, einsum: Einsum) -> list[str]:
    """Rules that a mapping breaks, those of the constraints included."""
    broken = [str(violation) for violation in result.violations]
    if constraints is None:
        return broken
    slow = constraints.broken_by_costs(costs_of(result), result.ideal_cycles)
    return broken + constraints.broken_by(result.mapping, einsum) + slow
