"""Machines that stand on branches of one tree, as the engines of a system: its cores.

What lies above the branches is at the outside of each engine. The memory outside all is the one that they share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from accelsim.importers.documents import Map, Note, Seq, refuse
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import InputError
from accelsim.inputs.units import listed, repeated

_PRODUCTS = {"multiply_add": 1, "multiply": 1, "add": 1}
_CLOCK = "1 GHz"
UNLIMITED = 10**9
"""Words a cycle that stand for no limit where reads or writes alone have one."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One branch: its name and machine, what is asked of mappings on it, and the place of each part in the tree.

    `vector`: its unit is none of multiply-accumulates alone, such as an ALU.
    """

    name: str
    architecture: dict[str, Any]
    constraints: dict[str, Any] | None
    places: Mapping[str, object]
    vector: bool = False


def system_of(engines: Sequence[Engine], tree: Map, mapping: Map | Seq | None, notes: list[Note]) -> dict[str, Any]:
    """Document of the system that engines are; raises InputError where they share no memory."""
    first = engines[0]
    shared = {name for name, place in first.places.items() if all(place == of.places.get(name) for of in engines)}
    names = [level["name"] for level in first.architecture["levels"] if level["name"] in shared]
    if first.architecture["levels"][0]["name"] in first.places.keys() - shared:
        hint = "put a memory above the branches, or `accelsim import` each alone"
        raise refuse(tree.mark, "the branches share no memory, and the engines of a system do", hint)
    cores = list[dict[str, Any]]()
    for engine in engines:
        core: dict[str, Any] = {"name": engine.name, "arch": {**engine.architecture}}
        if "clock" not in core["arch"]:
            core["arch"]["clock"] = _CLOCK
            notes.append(Note(tree.mark, "clock", f"the file has none, and a system needs one: {_CLOCK} is assumed"))
        core |= {"constraints": engine.constraints} if engine.constraints else {}
        core |= {"operations": _PRODUCTS} if not engine.vector and any(one.vector for one in engines) else {}
        cores.append(core)
    for name in repeated([core["name"] for core in cores]):
        for place, core in enumerate(core for core in cores if core["name"] == name):
            core["name"] = f"{name}.{place}"
    why = "compute on branches of the tree: engines of a system, each with the levels above it; a layer runs on one"
    notes.append(Note(tree.mark, listed(core["name"] for core in cores), why))
    why = "shared by engines, of which each is mapped with all of their room and bandwidth, also while others work"
    notes.append(Note(tree.mark, listed(names), why))
    if mapping is not None:
        notes.append(Note(mapping.mark, "mapping", "a mapping is of one machine, and is left out"))
    if not any(engine.vector for engine in engines):
        why = "each engine does any operation, one a point of a layer, until `operations` of its core names others"
        notes.append(Note(tree.mark, "operations", why))
    system = {"name": cores[0]["arch"]["name"], "cores": cores}
    with suppress(InputError):  # of a machine that is none, which `read_foreign` refuses
        machine = load_architecture({"architecture": cores[0]["arch"]})
        memory, clock_hz = machine.levels[0], machine.clock_hz or 0.0
        rates = [memory.bandwidth] if memory.bandwidth else [memory.read_bandwidth, memory.write_bandwidth]
        words = sum(rate or math.inf for rate in rates)
        if words < UNLIMITED:
            system["bandwidth"] = f"{float(words) * memory.word_bits * clock_hz / 8e9:.12g} GB/s"
    return system
