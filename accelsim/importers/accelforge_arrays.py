"""AccelForge's arrays that compute in memory: parts that words pass (`!Toll`), and what slices of words take.

A part without storage is a level of ours that keeps nothing, and the network above it carries what passes, so that each
word pays there. What goes up are outputs; those that come back have an energy of their own (`return`). An array takes
words apart into slices: `actions_scale` actions for each word, and `bits_per_value` of it in each cell.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from accelsim.importers.accelforge_workload import ROLE_NAMES, members
from accelsim.importers.documents import Map, Seq, refuse
from accelsim.importers.foreign import Note
from accelsim.importers.values import Value, as_number, bare_level, figure, number, tables, value
from accelsim.inputs.errors import SpecError
from accelsim.inputs.units import listed, quoted

SCALES = {"actions_scale", "bits_per_value", "values_per_action", "energy_scale"}
"""What makes the energy of a word another one in one part."""
_ACTIONS = {"!Toll": {"read"}, "!Memory": {"read", "write"}, "!Compute": {"compute"}}
_KNOWN = {"!Toll": "dummy", "!Memory": "dummy|dram|hbm|ddr|sram|buffer", "!Compute": "dummy|mac|multiplier"}
"""Component classes that accelsim has models for, or that cost nothing."""
_MOST_BINS = 2**16
_BOTH = "up_and_down"
_ARRAY = ("_ARRAY_COLUMNS", "_ARRAY_ROWS")
_SOURCE = "AccelForge"


def array_names(nodes: Sequence[Map], names: Mapping[str, Value]) -> dict[str, Value]:
    """Sizes of the array as formulas ask for them: what shares inputs, outputs, all of it, and each node's fanout.

    Those that rest on variables without a value yet are not there.
    """
    shared: dict[str, float | None] = {"input": 1, "output": 1}
    found: dict[str, Value] = {}
    for node in nodes:
        fanout: float | None = 1
        for spatial in tables(value(node, "spatial", Seq, Seq(node.mark))):
            size: float | None = None
            with suppress(SpecError):
                size = as_number(spatial.get("fanout"), spatial.where("fanout"), names)
            fanout = None if fanout is None or size is None else fanout * size
            for role, before in shared.items():
                of_role = role in (str(spatial.get("reuse")), str(spatial.get("may_reuse")))
                if of_role and str(spatial.get("name")).endswith(_ARRAY):
                    shared[role] = None if before is None or size is None else before * size
        if fanout is not None:
            found[f"{node.get('name')}.get_fanout()"] = fanout
    both = {role: size for role, size in shared.items() if size is not None}
    found |= {f"get_array_fanout_reuse_{role}(spec)": size for role, size in both.items()}
    return found | ({"get_array_fanout_total(spec)": math.prod(both.values())} if len(both) == len(shared) else {})


def signed_histograms(variables: Mapping[str, Any]) -> dict[str, Value]:
    """Whether histograms have values below 0, as formulas ask for it: those of the first half."""
    found: dict[str, Value] = {}
    for name, written in variables.items():
        bins = _bins(variables.get(str(written), written))
        if bins:
            found[f"is_hist_signed({name})"] = any(bins[: len(bins) // 2])
    return found


def _bins(written: Any) -> list[Any]:
    """Bins of a histogram: a list, or a sum of lists and their multiples such as `[0] * 7 + [1] * 8`."""
    if isinstance(written, Seq):
        return list(written)
    try:
        return _listed(ast.parse(str(written), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _listed(node: ast.expr) -> list[Any]:
    match node:
        case ast.List(items):
            return [item.value for item in items if isinstance(item, ast.Constant)]
        case ast.BinOp(left, ast.Add(), right):
            return _listed(left) + _listed(right)
        case ast.BinOp(left, ast.Mult(), ast.Constant(int() as times)):
            bins = _listed(left)
            if len(bins) * times <= _MOST_BINS:
                return bins * times
    raise ValueError("no list, or a long one")


def usage_scale(spatial: Map, names: Mapping[str, Value]) -> float:
    """Instances of an axis that one word takes."""
    scale = number(spatial, "usage_scale", 1, names)
    if scale < 1:
        raise refuse(spatial.where("usage_scale"), f"expected a number from 1 on, got {scale:g}")
    return scale


def slices_side_by_side(node: Map, names: Mapping[str, Value]) -> float:
    """Instances below a node that hold the slices of one word together."""
    spatial = tables(value(node, "spatial", Seq, Seq(node.mark)))
    return math.prod(usage_scale(each, names) for each in spatial)


def is_modelled(node: Map) -> bool:
    """Whether the energies of a part stand in the file, or accelsim has a model of it."""
    actions = tables(value(node, "actions", Seq, Seq(node.mark)))
    given = {str(action.get("name")) for action in actions if "energy" in action}
    if node.tag not in _ACTIONS or given >= _ACTIONS[node.tag]:
        return True
    return re.search(_KNOWN[node.tag], str(node.get("component_class", "")), re.IGNORECASE) is not None


def refuse_unknown(nodes: Sequence[Map]) -> SpecError:
    """Error that names all parts without energies."""
    parts = listed(f"{node.get('name')} ({node.get('component_class')})" for node in nodes)
    what = f"no energies of {parts}: AccelForge takes those of component models that accelsim has not"
    return refuse(nodes[0].mark, what, "write them, as in `actions: [{name: read, energy: 2e-12}]`, in J")


def outside(
    nodes: Sequence[Map], kept: Mapping[str, frozenset[str]], word: int, notes: list[Note]
) -> list[dict[str, Any]]:
    """Outermost level for words that no memory of the file keeps for all: they come from there for nothing."""
    first = nodes[0]
    if first.tag == "!Memory":
        tensors = value(first, "tensors", Map, Map(first.mark))
        if members(tensors.get("keep", "Nothing"), kept, first.mark) == frozenset(ROLE_NAMES):
            return []
    why = "what the file keeps nowhere comes from, and goes to, a level Outside that costs nothing"
    notes.append(Note(first.mark, str(first.get("name")), why))
    energy = dict.fromkeys(("read", "write", "leak"), "0 pJ") | {"source": _SOURCE}
    kind = {"class": "DRAM", "attributes": {"type": "LPDDR4"}, "area": "0 um2"}
    return [{"name": "Outside", **kind, "word": f"{word} bit", "energy": energy}]


def stored_bits(node: Map, role: str, names: Mapping[str, Value]) -> float:
    """Bits of a word of a role in one part."""
    table = value(node, "bits_per_value", Map, Map(node.mark))
    bits = number(table, role, as_number(names[f"{role}.bits_per_value"], node.mark), names)
    if bits <= 0:
        raise refuse(table.where(role), f"expected more than 0 bit, got {bits:g}")
    return bits


def per_value_joule(node: Map, action: str, role: str, names: Mapping[str, Value]) -> float:
    """Energy [J] of an action for one whole word of a role."""
    actions = {str(each.get("name")): each for each in tables(value(node, "actions", Seq, Seq(node.mark)))}
    if "energy" not in actions.get(action, {}):
        return 0.0  # a dummy
    table = value(node, "values_per_action", Map, Map(node.mark))
    at_once = number(table, role, number(table, "All", 0, names), names)
    bits = number(actions[action], "bits_per_action", 1, names)
    many = 1 / at_once if at_once else stored_bits(node, role, names) / bits
    scales = math.prod(number(node, key, 1, names) for key in ("actions_scale", "energy_scale"))
    return figure(actions[action], "energy", names) * many * scales


def add_toll(
    node: Map,
    name: str,
    levels: list[dict[str, Any]],
    kept: Mapping[str, frozenset[str]],
    names: Mapping[str, Value],
    word: int,
    clock_hz: float,
) -> None:
    """Add what passes a part to the network above a level that keeps nothing; several parts in a row share one."""
    alone = levels[-1].get("tolls") and "fanout" not in levels[-1]
    above = levels[-2] if alone else levels[-1]
    if not alone:
        levels.append(bare_level(name, f"{word} bit"))
    here = levels[-1]
    here["tolls"] = [*here.get("tolls", []), name]
    here["name"] = "-".join(here["tolls"])
    passing = above.setdefault("fanout", {}).setdefault("passing", {})
    table = value(node, "tensors", Map, Map(node.mark))
    for short in members(table.get("keep", "Nothing"), kept, table.where("keep")):
        way = _direction(node, short, kept)
        joule = per_value_joule(node, "read", short, names)
        down, up = "down" in way, "up" in way
        for key, used in ((short, up if short == "output" else down), ("return", down and short == "output")):
            passing[key] = passing.get(key, 0.0) + (joule if used else 0.0)
    watt = number(node, "leak_power", 0, names) * number(node, "leak_power_scale", 1, names)
    here["leak_pj"] = here.get("leak_pj", 0.0) + watt / clock_hz * 1e12


def _direction(node: Map, role: str, kept: Mapping[str, frozenset[str]]) -> str:
    """`up`, `down` or `up_and_down` of a role."""
    written = node.get("direction", "up_and_down")
    ways = written if isinstance(written, Map) else {"All": written}
    way = next((str(way) for text, way in ways.items() if role in members(text, kept, node.where("direction"))), _BOTH)
    if way not in ("up", "down", _BOTH):
        raise refuse(node.where("direction"), f"{quoted(way)} is none of up, down, {_BOTH}")
    return way


def close_tolls(levels: Sequence[dict[str, Any]]) -> None:
    """Write the energies of what passes, and what leaks."""
    for level in levels:
        passing = level.get("fanout", {}).pop("passing", None)
        if passing is not None:
            joule = {ROLE_NAMES[short]: passing.get(short, 0.0) for short in ROLE_NAMES}
            energy: dict[str, Any] = {"transfer": {role: f"{each * 1e12:.12g} pJ" for role, each in joule.items()}}
            energy |= {"return": f"{passing.get('return', 0.0) * 1e12:.12g} pJ", "source": _SOURCE}
            level["fanout"]["energy"] = energy
        leak = level.pop("leak_pj", 0.0)
        if level.pop("tolls", None):
            level["energy"] = {"leak": f"{leak:.12g} pJ", "source": _SOURCE}


def store_slices(
    node: Map,
    level: dict[str, Any],
    names: Mapping[str, Value],
    kept: Mapping[str, frozenset[str]],
    notes: list[Note],
) -> None:
    """Energies and size of a memory that takes words apart, for words as wide as they are elsewhere."""
    shorts = [short for short, role in ROLE_NAMES.items() if role not in level.get("bypass", ())]
    word = int(level["word"].split()[0])
    bits = {short: as_number(names[f"{short}.bits_per_value"], node.mark) for short in shorts}
    wider = {bits[short] / stored_bits(node, short, names) for short in shorts}
    if "size" in level:
        level["size"] = f"{int(int(level['size'].split()[0]) * min(wider, default=1.0))} bit"
    if "energy" not in level:
        why = "energies are those of component models, for words as wide as elsewhere"
        notes += [Note(node.where(key), key, why) for key in sorted(SCALES & node.keys())]
        return
    for action in ("read", "write"):
        pj = {short: per_value_joule(node, action, short, names) * word / bits[short] * 1e12 for short in shorts}
        level["energy"][action] = {ROLE_NAMES[short]: f"{each:.12g} pJ" for short, each in pj.items()}
    tensors = value(node, "tensors", Map, Map(node.mark))
    once = members(tensors.get("no_refetch_from_above", "Nothing"), kept, tensors.where("no_refetch_from_above"))
    for short in sorted(once - kept["Above"]):
        level["energy"]["write"][ROLE_NAMES[short]] = "0 pJ"
        why = f"{ROLE_NAMES[short]} lie in {level['name']} beforehand: writing them costs nothing"
        notes.append(Note(tensors.where("no_refetch_from_above"), "no_refetch_from_above", why))


def stores(node: Map, level: Mapping[str, Any], kept: Mapping[str, frozenset[str]]) -> bool:
    """Whether a memory sends any word twice; one that does not is a place that words pass together."""
    tensors = value(node, "tensors", Map, Map(node.mark))
    once = members(tensors.get("no_resend_to_below", "Nothing"), kept, tensors.where("no_resend_to_below"))
    return not {ROLE_NAMES[short] for short in once} >= set(level.get("keep", ROLE_NAMES.values()))


def array_clock(nodes: Sequence[Map], names: Mapping[str, Value], notes: list[Note]) -> tuple[float | None, int]:
    """Rate at which an array takes slices of its inputs [Hz], if the file says so, and slices of an input."""
    cells = [node for node in nodes if node.tag == "!Memory" and "actions_scale" in node]
    if all(node.tag != "!Toll" for node in nodes) or not cells or "cycle_period" not in names:
        return None, 1
    cell = cells[-1]
    slices = number(cell, "actions_scale", 1, names) / number(cell, "throughput_scale", 1, names)
    notes.append(Note(cell.mark, str(cell.get("name")), "takes one slice of its inputs in each cycle_period"))
    return 1 / as_number("cycle_period", cell.mark, names), max(1, math.ceil(slices))
