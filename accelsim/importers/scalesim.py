"""SCALE-Sim's configurations (`.cfg`) and topologies (`.csv`): a systolic array below three SRAMs, and its layers.

Each SRAM holds one tensor and is double-buffered; with `InterfaceBandwidth: USER` each has an interface of that
bandwidth to the DRAM. A dataflow says which tensor stays in the PEs, and what lies along rows and columns: window and
filters (`ws`), pixels and filters (`os`), window and pixels (`is`). These are the dimensions that move all but one of
the tensors, so the constraints name that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accelsim.importers.documents import Document, Map, Note, Seq, refuse
from accelsim.importers.foreign import OWN_MODELS, Foreign
from accelsim.importers.values import file_stem, note_others, only, plain_name, read_all, whole
from accelsim.inputs.units import listed, quoted

STATIONARY = {"ws": "Weights", "os": "Outputs", "is": "Inputs"}
_SHARED = {"ws": ("Outputs", "Inputs"), "os": ("Weights", "Inputs"), "is": ("Outputs", "Weights")}
"""The tensor that the dimensions along the rows (y) and along the columns (x) do not move."""
_BITS = 8
"""Bits of a word: SCALE-Sim counts words of one byte, partial sums too (`single_layer_sim.py`, `word_size`)."""
_ONE_WORD = "32 bit"
"""Room of a PE: one word, also of layers with wider ones, and of 32-bit sums."""
_CLOCK = "1 GHz"
_SECTION = "architecture_presets"
_SRAMS = {"Outputs": "ofmap", "Weights": "filter", "Inputs": "ifmap"}
_KNOWN = {"run_name", "interfacebandwidth", "arrayheight", "arraywidth", "dataflow", "bandwidth", "memorybanks"}
_KNOWN |= {"readrequestbuffer", "writerequestbuffer", "sparserep", "optimizedmapping", "blocksize"}
_KNOWN |= {"randomnumbergeneratorseed", *(f"{name}{of}" for name in _SRAMS.values() for of in ("sramszkb", "sramsz"))}
_KNOWN |= {f"{name}offset" for name in _SRAMS.values()}
_KNOWN |= {f"{name}srambank{of}" for name in _SRAMS.values() for of in ("bandwidth", "num", "port")}
_MEANS = {
    "topologycsvloc": "is not read from here; name that file too",
    "sparsitysupport": "is not carried over: all is dense",
    "ifmapcustomlayout": "conflicts of banks are not modelled",
    "filtercustomlayout": "conflicts of banks are not modelled",
    "useramulatortrace": "delays of the DRAM are not modelled; its bandwidth is",
    "timelinearmodel": "times are cycles over the clock, fitted to no chip",
    "wordbyte": "words have one byte here, as SCALE-Sim counts them",
}
"""What keys of a configuration mean that have no counterpart, unless they are false."""
_CONV = ("H", "W", "R", "S", "C", "K")
_GEMM = ("M", "N", "K")
_ENERGIES = f"{OWN_MODELS}, at 45 nm; SCALE-Sim's files have none."


def convert(documents: Sequence[Document]) -> Foreign:
    """Turn a configuration, a topology, or both into documents of our kinds.

    Raises InputError where one lacks a size, or names a dataflow that SCALE-Sim has not.
    """
    notes: list[Note] = []
    tables = [one.body for one in documents if isinstance(one.body, Seq)]
    layouts = [table for table in tables if any("intraline" in cell.lower() for cell in table[0])]
    notes += [Note(table.mark, "layout", _MEANS["ifmapcustomlayout"]) for table in layouts]
    hardware = only([one.body for one in documents if isinstance(one.body, Map)], "configuration")
    topology = only([table for table in tables if table not in layouts], "topology")
    workload = None if topology is None else _workload(topology, notes)
    if hardware is None:
        return Foreign(workload=workload, notes=tuple(notes))
    architecture, constraints = _machine(hardware, notes)
    return Foreign(architecture, workload, None, constraints, _ENERGIES, tuple(notes))


def _machine(hardware: Map, notes: list[Note]) -> tuple[dict[str, Any], dict[str, Any]]:
    presets = hardware.value(_SECTION, Map)
    dataflow = presets.value("dataflow", str, "").lower()
    if dataflow not in STATIONARY:
        raise presets.refuse("dataflow", f"Dataflow: expected one of {listed(STATIONARY)}, got {quoted(dataflow)}")
    limits = _bandwidths(hardware, presets)
    held = STATIONARY[dataflow]
    dram: dict[str, Any] = {"name": "DRAM", "class": "DRAM", "attributes": {"type": "DDR3"}, "word": f"{_BITS} bit"}
    first = {role: f"{name}sramsz" for role, name in _SRAMS.items()}  # in version 1, in KiB too
    keys = ["arrayheight", "arraywidth", *(key if key in presets else f"{key}kb" for key in first.values())]
    rows, columns, *kib = read_all(lambda key: _whole(presets, key), keys)
    if limits:
        dram["read_bandwidth"] = f"{limits['Inputs'] + limits['Weights']} words/cycle"
        dram["write_bandwidth"] = f"{limits['Outputs']} words/cycle"
    levels = [dram]
    for (role, name), size in zip(_SRAMS.items(), kib, strict=True):
        level: dict[str, Any] = {"name": f"{name.capitalize()}SRAM", "class": "SRAM", "word": f"{_BITS} bit"}
        level |= {"size": f"{size} KiB", "multiple_buffering": 2, **_for(role)}
        if limits and role != "Outputs":
            level["read_bandwidth"] = f"{max(rows, columns)} words/cycle"  # all that a side of the array takes
            level["write_bandwidth"] = f"{limits[role]} words/cycle"
        levels.append(level)
    fanout = {"x": columns, "y": rows, "systolic": {"stationary": held}}
    levels[-1]["fanout"] = fanout | {"energy": {"transfer": "0 pJ", "source": "SCALE-Sim's files do not say"}}
    register = {"name": "PE", "class": "register", "attributes": {"size": f"{_BITS} bit", "width": f"{_BITS} bit"}}
    levels.append(register | {"word": _ONE_WORD, "size": _ONE_WORD, **_for(held)})
    spatial = {axis: {"reuse": [role]} for axis, role in zip("yx", _SHARED[dataflow], strict=True)}
    general = hardware.inner("general")
    architecture = {
        "name": plain_name(general.value("run_name", str, file_stem(hardware.mark)).strip('"')),
        "technology": "45 nm",
        "energy_table": "components",
        "clock": _CLOCK,
        "levels": levels,
        "compute": {"name": "MAC", "class": "intmac", "attributes": {"bits": _BITS, "psums": 32}},
    }
    notes.append(Note(hardware.where(_SECTION), "clock", f"SCALE-Sim counts cycles; a clock of {_CLOCK} is taken"))
    for section in hardware.values():
        said = [key for key in section if str(section[key]).lower() == "false"]
        note_others(section, _KNOWN.union(said), _MEANS, notes)
    return architecture, {"levels": [{"level": levels[-2]["name"], "spatial": spatial}]}


def _for(role: str) -> dict[str, Any]:
    return {"keep": [role], "bypass": [other for other in STATIONARY.values() if other != role]}


def _bandwidths(hardware: Map, presets: Map) -> dict[str, int]:
    """Words a cycle between each SRAM and the DRAM; none where SCALE-Sim would work out what never stalls."""
    run = hardware.inner("run_presets")
    mode = run.value("interfacebandwidth", str, "CALC").upper()
    if mode not in ("USER", "CALC"):
        raise run.refuse("interfacebandwidth", f"InterfaceBandwidth: expected USER or CALC, got {quoted(mode)}")
    if mode == "CALC":
        return {}
    usual = whole(presets.value("bandwidth", str).split(",")[0], presets.where("bandwidth"))
    layout = hardware.value("layout", Map, presets)  # version 3 has it for each SRAM that is read
    banks = {role: f"{name}srambankbandwidth" for role, name in _SRAMS.items()}
    return {role: _whole(layout, key) if key in layout else usual for role, key in banks.items()}


def _whole(table: Map, key: str) -> int:
    return whole(table.value(key, str), table.where(key))


def _workload(rows: Seq, notes: list[Note]) -> dict[str, Any]:
    """Layers of a topology: convolutions of 7 sizes, or matrix products of 3, and perhaps more behind them."""
    taken: dict[str, int] = {}

    def layer(row: Seq) -> dict[str, Any]:
        given, sizes = plain_name(row[0]), row[1:]
        taken[given] = taken.get(given, 0) + 1
        name = given if taken[given] == 1 else f"{given}_{taken[given]}"
        if ":" in sizes[-1]:
            *sizes, ratio = sizes
            if ratio != "1:1":
                notes.append(Note(rows.mark, f"sparsity {ratio}", "is not carried over: all is dense", name))
        for head, cell in zip([*rows[0][1:], *["a size"] * len(sizes)], sizes, strict=False):
            if not cell.isdecimal() or int(cell) < 1:
                raise refuse(row.mark, f"{row[0]}: {head}: expected a whole number from 1 on, got {quoted(cell)}")
        numbers = [int(cell) for cell in sizes]
        many = len(rows[0]) <= len(_CONV)  # products of one size, each of its own operands; no convolution
        if len(numbers) == len(_GEMM) or (len(numbers) == len(_GEMM) + 1 and many):
            return {"name": name, "gemm": dict(zip((*_GEMM, "B"), numbers, strict=False))}
        if len(numbers) in (len(_CONV) + 1, len(_CONV) + 2):
            head = rows[0][-1].lower() if len(numbers) == len(rows[0]) - 1 else ""
            if len(numbers) > len(_CONV) + 1 and head and not any(word in head for word in ("stride", "batch")):
                raise refuse(rows[0].mark, f"{rows[0][-1]}: SCALE-Sim has the stride along columns there, or nothing")
            images = "batch" in head
            return {"name": name, "conv": _conv(row, numbers, images=images)}
        what = f"expected {len(_GEMM)} sizes of a product, or {len(_CONV) + 1} of a convolution, got {len(numbers)}"
        raise refuse(row.mark, what)

    if rows[0][1:] and all(cell.isdecimal() for cell in rows[0][1:]):
        notes.append(Note(rows.mark, rows[0][0], "is the first line, which SCALE-Sim takes for names of columns"))
    layers = read_all(layer, (row for row in rows[1:] if row[1:]))  # others name the layers below them
    if not layers:
        what = "no layers below the first line; each is a name and 3 sizes of a product or 7 of a convolution"
        raise refuse(rows.mark, what, "commas stand between them")
    bits = dict.fromkeys((*STATIONARY.values(), "psums"), _BITS)
    return {"name": file_stem(rows.mark), "bits": bits, "layers": layers}


def _conv(row: Seq, numbers: Sequence[int], *, images: bool) -> dict[str, Any]:
    """A convolution of an input that is padded already; `DP` in its name says that each channel has its own filters.

    What stands behind the stride is the stride along columns, or the number of `images`.
    """
    sizes = dict(zip(_CONV, numbers, strict=False))
    stride = (numbers[len(_CONV)], numbers[len(_CONV) if images else -1])
    conv: dict[str, Any] = {"N": numbers[-1]} if images else {}
    conv |= {"C": sizes["C"], "K": sizes["K"], "R": sizes["R"], "S": sizes["S"]}
    if "DP" in row[0]:
        conv |= {"K": sizes["K"] * sizes["C"], "groups": sizes["C"]}
    for dim, whole_size, window, step in (("P", "H", "R", stride[0]), ("Q", "W", "S", stride[1])):
        if sizes[window] > sizes[whole_size]:
            raise refuse(row.mark, f"a filter of {sizes[window]} does not lie in an input of {sizes[whole_size]}")
        conv[dim] = -(-(sizes[whole_size] - sizes[window] + step) // step)
    return conv | ({"stride": list(stride)} if max(stride) > 1 else {})
