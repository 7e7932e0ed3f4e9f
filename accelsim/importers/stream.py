"""Stream's hardware files: cores in ZigZag's form and the links between them, as a system of cores.

A core that computes becomes a core of the system. Outside its memories is that of the off-chip core, whose words come
over the links on the way there: with the least of their bandwidths, and the energy of each. The cores of a bus are
linked pairwise. Layers leave their outputs in the off-chip memory, so links between other cores carry nothing. In older
files, with a `graph` or an `offchip_core`, each core has a link to the off-chip core, as wide as the memory there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx

from accelsim.importers.documents import Document, Map, Note, Seq, refuse
from accelsim.importers.foreign import GRAPHS, Foreign, read_documents
from accelsim.importers.onnx import operation_of
from accelsim.importers.values import figure, note_others, number, only, plain_name, whole
from accelsim.importers.zigzag import architecture_of, array_of, constraints_of, entries_of, ports_of, read_layers
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import OPERATIONS

_KEYS = {"name", "cores", "offchip_core_id", "unit_energy_cost", "core_connectivity", "core_memory_sharing"}
_KEYS |= {"offchip_core", *GRAPHS}
_GRAPH_KEYS = {"type", "nb_rows", "nb_cols", "bandwidth", "unit_energy_cost", "offchip_core_id"}
_SPECIAL = {"pooling_core_id": ("max", "add"), "simd_core_id": OPERATIONS[1:]}
"""Cores of older files that do what the others do not."""
_CLOCK_HZ = 1e9
_SHARED = "cores that share their outermost memory have one each here"
_LEFT = {"core_coordinates": "links say what lies beside what", "bandwidth": "ports reach what the core's file says"}
_LEFT["technology_node"] = "energies are those of the cores' files"


def convert(documents: Sequence[Document]) -> Foreign:
    """Turn a hardware file of Stream, which names the files of its cores, into a system.

    Raises InputError where a core is missing, is not of ZigZag's form, or no links lead from it to the off-chip core.
    """
    hardware = only([one.body for one in documents if isinstance(one.body, Map)], "hardware file")
    if hardware is None:
        raise AccelsimError(f"{documents[0].path}: no hardware file of Stream, with `cores` and `offchip_core_id`")
    notes: list[Note] = []
    workload, layers, entries = read_layers(documents, notes)
    notes += [Note(entry.mark, "mapping", "a mapping is of one core, and is left out") for entry in entries[:1]]
    graph = next((hardware.value(key, Map) for key in GRAPHS if key in hardware), hardware)
    note_others(hardware, _KEYS, _LEFT, notes)
    if graph is not hardware:  # an older file lists the cores
        note_others(graph, _GRAPH_KEYS | _SPECIAL.keys(), {}, notes)
        given = hardware.value("cores", Seq)
        hardware["cores"] = Map(given.mark, held={str(core_id): name for core_id, name in enumerate(given)})
    names = hardware.value("cores", Map)
    cores = {whole(key, names.where(key), 0): _core(names, key) for key in names}
    older = graph is not hardware or "offchip_core" in hardware
    if "offchip_core" in hardware:
        outside = max(cores, default=0) + 1
        cores[outside] = _core(hardware, "offchip_core")
    else:
        outside = whole(graph["offchip_core_id"], graph.where("offchip_core_id"), 0)
    if outside not in cores:
        raise graph.refuse("offchip_core_id", f"there is no core {outside}; cores: {listed(map(str, cores))}")
    outer = cores[outside].value("memories", Map)
    name = next(iter(outer), "")
    memory = outer.value(name, Map)
    rates = [number(port, "bandwidth_max") for port in ports_of(memory)]
    if older:
        links, usual_pj = nx.Graph(), figure(graph, "unit_energy_cost") / max(rates)
        pairs = ((core_id, outside) for core_id in cores if core_id != outside)
        links.add_edges_from(pairs, bandwidth=max(rates), pj_per_bit=usual_pj)
    else:
        links = _links(hardware, cores, notes)
    ours = []
    for core_id, core in cores.items():
        array = array_of(core)
        if core_id == outside or 0 in _numbers(array.value("sizes", Seq)):
            continue
        if not nx.has_path(links, core_id, outside):
            raise refuse(names.where(str(core_id)), f"no link leads from core {core_id} to the off-chip core {outside}")
        way = [links.edges[pair] for pair in itertools.pairwise(nx.shortest_path(links, core_id, outside))]
        memories = core.value("memories", Map)
        pj = sum(link["pj_per_bit"] for link in way) * max(rates)  # accesses have the energy of links too
        held = {**memory, **{cost: figure(memory, cost) + pj for cost in ("r_cost", "w_cost")}}
        held["served_dimensions"] = Seq(memory.mark, held=array.value("dimensions", Seq))
        memories[f"offchip_{name}" if name in memories else name] = Map(memory.mark, held=held)
        architecture, places = architecture_of(core, layers, notes)
        outermost, most = architecture["levels"][0], min(link["bandwidth"] for link in way)
        for key in outermost.keys() & {"bandwidth", "read_bandwidth", "write_bandwidth"}:
            outermost[key] = f"{min(int(outermost[key].split()[0]), most)} bit/cycle"
        if any(place.apart for place in places.values()) and not layers:
            what = f"constraints of core {core_id} depend on the layers; name an ONNX model or ZigZag's workload too"
            raise refuse(names.where(str(core_id)), what)
        own: dict[str, Any] = {"name": f"core{core_id}_{architecture['name']}"}
        own["arch"] = {**architecture, "clock": f"{_CLOCK_HZ / 1e6:.0f} MHz"}
        if asked := constraints_of(architecture, places, entries_of(core, ()) if layers else (), layers, notes):
            own["constraints"] = asked
        if "operator_types" in core:
            kinds = map(operation_of, map(str, core.value("operator_types", Seq)))
            own["operations"] = dict.fromkeys(kinds, 1)
        elif named := _SPECIAL.keys() & graph.keys():
            does = next((_SPECIAL[key] for key in named if graph[key] == core_id), ("multiply_add",))
            own["operations"] = dict.fromkeys(does, 1)
        ours.append(own)
    if "core_memory_sharing" in hardware:
        notes.append(hardware.note("core_memory_sharing", _SHARED))
    notes.append(Note(hardware.mark, "clock", "Stream counts cycles; a clock of 1 GHz is taken"))
    system = {"name": plain_name(hardware.value("name", str, "stream")), "cores": ours}
    system["bandwidth"] = f"{sum(rates) * _CLOCK_HZ / 8e9:.12g} GB/s"
    energies = "r_cost and w_cost of the memories, unit_energy of the arrays, and unit_energy_cost of the links."
    return Foreign(workload=workload, system=system, energies=energies, notes=tuple(dict.fromkeys(notes)))


def _core(names: Map, key: str) -> Map:
    """The file of a core, in the folder `cores` or beside the hardware file; of a longer path, by its last part."""
    mark, given = names.where(key), names.value(key, str)
    beside = Path(mark.file).parent
    places = [folder / name for name in (given, Path(given).name) for folder in (beside / "cores", beside)]
    found = [path for path in places if path.is_file()]
    if not found:
        raise refuse(mark, f"there is no file {quoted(given)} beside this one, nor in its folder cores")
    body = read_documents([str(found[0])], {})[0].body
    if not isinstance(body, Map) or not body.keys() & {"operational_array", "multipliers"}:
        raise refuse(mark, f"{given} is no core in ZigZag's form, with memories and an operational_array")
    return body


def _links(hardware: Map, cores: Iterable[int], notes: list[Note]) -> nx.Graph:
    """Cores with the widest link between each two; those that share their outermost memory are linked without limit."""
    graph = nx.Graph()
    graph.add_nodes_from(cores)
    usual = figure(hardware, "unit_energy_cost") if "unit_energy_cost" in hardware else 0.0
    for link in hardware.value("core_connectivity", Seq).maps():
        note_others(link, {"type", "cores", "bandwidth", "unit_energy_cost"}, {}, notes)
        bandwidth = number(link, "bandwidth")
        each = figure(link, "unit_energy_cost") if "unit_energy_cost" in link else usual
        for pair in itertools.combinations(_numbers(link.value("cores", Seq)), 2):
            if graph.get_edge_data(*pair, {"bandwidth": 0})["bandwidth"] < bandwidth:
                graph.add_edge(*pair, bandwidth=bandwidth, pj_per_bit=each / bandwidth)
    for group in hardware.value("core_memory_sharing", Seq, Seq(hardware.mark)):
        members = map(int, re.findall(r"\d+", str(group)))
        graph.add_edges_from(itertools.combinations(members, 2), bandwidth=float("inf"), pj_per_bit=0.0)
    return graph


def _numbers(row: Seq) -> list[int]:
    return [whole(each, row.mark, 0) for each in row]
