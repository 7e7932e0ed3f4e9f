"""Tables of the other commands: energies of a machine, its roofline, shipped files, and the designs of a sweep."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.units import format_bits, format_si, si_scale
from accelsim.model.limits import Stand, peak_macs_per_cycle, ports
from accelsim.show.report import count, energy, gap_text, percent, share
from accelsim.show.report.mapping import energy_scale
from accelsim.show.table import Column, Piece, Row, Table, bold, heading, whole

if TYPE_CHECKING:
    from accelsim.designs.store import Explored

Rows = Sequence[Mapping[str, Any]]


def levels_report(architecture: Architecture, rows: Rows) -> Iterator[Piece]:
    """The levels of an architecture, outermost first, with the instances and the fanout of each."""
    clock = "" if architecture.clock_hz is None else f", {format_si(float(architecture.clock_hz), 'Hz')}"
    technology = f", {architecture.technology}" if architecture.technology else ""
    yield bold(f"{architecture.name}{technology}{clock}")
    columns = (
        Column("level", "component"), Column("size", "size_bits", format_bits),
        Column("instances", "instances", "{:,}".format),
        Column(
            "fanout below",
            lambda row: f"{row['fanout_x']} x {row['fanout_y']}" if row["fanout_x"] * row["fanout_y"] > 1 else "",
        ),
    )  # fmt: skip
    yield Table("levels", columns, rows)


def layer_table(name: str, rows: Rows) -> Iterator[Piece]:
    """The layers of a workload."""
    yield bold(f"{name}: {sum(row['count'] for row in rows):,} layers")
    columns = (
        Column("layer", "layer"), Column("count", "count", "{:,}".format), Column("operation", "operation", left=True),
        Column("MACs", "macs", count),
        Column("dimensions", lambda row: " ".join(f"{dim}={size}" for dim, size in row["dims"].items()), fold=True),
        Column("bits", lambda row: " ".join(f"{tensor}={bits}" for tensor, bits in row["bits"].items()), fold=True),
    )  # fmt: skip
    yield Table("layers", columns, rows)


def energies_report(rows: Rows, areas: Rows = (), peaks: Rows = ()) -> Iterator[Piece]:
    """The energy of each action, how it came about, areas, and power with everything busy.

    `rows`, `areas` and `peaks` are those of `accelsim.inputs.machine_tables`: `energy_rows`, `area_rows`, `peak_rows`.
    """
    yield heading("Energies [pJ]")
    yield "read, write, update: an access; transfer: a word; compute: a MAC; leak: a cycle and instance\n"
    if any(row["action"] == "return" for row in rows):
        yield "return: a partial sum that comes back over a network\n"
    if any(row["action"] == "hop" for row in rows):
        yield "hop: a word over one link of a mesh\n"
    sources = list(dict.fromkeys(row["source"] for row in (*rows, *areas) if row["source"]))
    source = Column("source", "source", lambda text: f"[{sources.index(text) + 1}]")
    columns = (
        Column("component", "component", once=True), Column("tensors", "role", fold=True),
        Column("action", "action", left=True),
        Column("pJ", lambda row: "not modelled" if row["energy_pj"] is None else f"{row['energy_pj']:.5g}"),
        Column("pJ/word", "pj_per_word", "{:.5g}".format), Column("pJ/bit", "pj_per_bit", "{:.5g}".format), source,
    )  # fmt: skip
    yield Table("energy", columns, rows)
    yield from _formulas(rows)
    if any(row["area_um2"] is not None for row in areas):
        yield from _areas(areas, source)
    if any(row["power_w"] is not None for row in peaks):
        yield from _peaks(peaks)
    yield ""
    yield from (f"[{number}] {text}" for number, text in enumerate(sources, 1))


def _formulas(rows: Rows) -> Iterator[Piece]:
    """How each energy came about, actions of one formula together, and what counts as 0."""
    named: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["formula"]:
            roles = "" if row["role"] == "all" else f" of {row['role']}"
            named.setdefault((row["component"], row["formula"]), []).append(f"{row['action']}{roles}")
    if named:
        yield heading("Formulas")
        yield from (f"{component} {', '.join(actions)}: {formula}" for (component, formula), actions in named.items())
    without = [f"{row['component']} {row['action']}" for row in rows if row["energy_pj"] is None]
    if without:
        yield f"Not modelled, and so counted as 0: {', '.join(without)}."


def _areas(areas: Rows, source: Column) -> Iterator[Piece]:
    """The area of each component and of all that have one."""

    def each(row: Row) -> str:
        if "area_um2" not in row:  # the sum
            return ""
        return "no source" if row["area_um2"] is None else f"{row['area_um2']:,.6g}"

    known = [row for row in areas if row["area_um2"] is not None]
    total = sum(row["total_um2"] for row in known)
    columns = (
        Column("component", "component"), Column("instances", "instances", "{:,}".format), Column("each [um2]", each),
        Column("all [mm2]", "total_um2", lambda area: f"{area / 1e6:.4g}"),
        Column("share", lambda row: share(row["total_um2"] / total) if row.get("area_um2") and total else ""), source,
    )  # fmt: skip
    below = [{"component": "sum" if len(known) == len(areas) else "sum of the known", "total_um2": total}]
    note = "of the levels and compute units; networks and control are not in it"
    yield Table("area", columns, areas, "Area", note, below=below)
    yield from (f"{row['component']}: {row['formula']}" for row in known if row["formula"])


def _peaks(peaks: Rows) -> Iterator[Piece]:
    """The power of each component with everything busy, that of all, and of all but the outermost level."""
    known = [row for row in peaks if row["power_w"] is not None]
    outermost = peaks[0]["component"]
    columns = (
        Column("component", "component", once=True), Column("busy", "how", left=True),
        Column("power", "power_w", lambda power: format_si(power, "W", 4)),
    )  # fmt: skip
    sums = {
        "sum" if len(known) == len(peaks) else "sum of the known": known,
        f"without {outermost}": [row for row in known if row["component"] != outermost],
    }
    below: list[Row] = [{"component": what, "power_w": sum(row["power_w"] for row in of)} for what, of in sums.items()]
    note = "all compute units and ports busy; without networks and control"
    yield Table("peak", columns, peaks, "Peak power", note, below=below)
    if len(known) < len(peaks):
        yield "Levels that have no bandwidth limit, and that MACs do not access, have no peak."


def shipped_report(kind: str, rows: Rows) -> Iterator[Piece]:
    """What ships of one kind; rows have `name`, `about` and, for workloads, `layers` and `macs`."""
    sizes = (Column("layers", "layers"), Column("MACs", "macs", count)) if any("macs" in row for row in rows) else ()
    yield Table(kind, (Column("name", "name"), *sizes, Column("what it is", "about", fold=True)), rows, kind)


def doctor_report(document: Mapping[str, Any]) -> Iterator[Piece]:
    """Versions, what the extras need, and where results and compiled kernels are kept."""
    yield bold("accelsim {accelsim}, {python} on {system}, {cores} cores".format(**document))
    yield whole(document["package"])
    packages = (
        Column("package", "package"), Column("extra", "extra", left=True),
        Column("version", lambda row: row["version"] or f"missing: pip install 'accelsim[{row['extra']}]'", left=True),
    )  # fmt: skip
    yield Table("packages", packages, document["packages"], "Packages")
    kept = (
        Column("what", "what"), Column("files", "files", count),
        Column("size", lambda row: format_bits(8 * row["bytes"])),
        Column("folder", lambda row: row["folder"] or "none can be written: each process compiles", left=True),
    )  # fmt: skip
    yield Table("kept", kept, document["kept"], "Kept on disk")


def port_rows(architecture: Architecture) -> list[dict[str, Any]]:
    """Each port of limited bandwidth: all instances together, and from how many MACs a byte it limits no more."""
    peak = peak_macs_per_cycle(architecture)
    return [
        {
            "port": port.name, "bytes_per_cycle": port.bytes_per_cycle,
            "bytes_per_s": port.bytes_per_cycle * architecture.clock_hz if architecture.clock_hz else None,
            "ridge_macs_per_byte": peak / port.bytes_per_cycle,
        }
        for port in ports(architecture)
    ]  # fmt: skip


def stand_row(stand: Stand, peak: float) -> dict[str, Any]:
    """Stand as a plain row, with shares of the peak."""
    return {**asdict(stand), "roof_share": stand.roof / peak, "reached_share": stand.reached / peak}


_PORTS = (
    Column("port, all instances", "port"), Column("bytes/cycle", "bytes_per_cycle", "{:.4g}".format),
    Column("bandwidth", "bytes_per_s", lambda rate: format_si(rate, "B/s", 4)),
    Column("limits no more from", "ridge_macs_per_byte", "{:.4g} MACs/B".format),
)  # fmt: skip
_STANDS = (
    Column("layer", lambda row: row["layer"] + (f" x{row['repeat']}" if row["repeat"] > 1 else "")),
    Column("least MACs/B", "least", "{:.4g}".format), Column("roof", "roof_share", percent),
    Column("mapped MACs/B", "moved", "{:.4g}".format), Column("reached", "reached_share", percent),
    Column("of roof", lambda row: percent(row["reached"] / row["roof"])), Column("limit", "limit", left=True),
)  # fmt: skip


def machine_roofline_report(architecture: Architecture, stands: Sequence[Stand], objective: str) -> Iterator[Piece]:
    """The ports of a machine, and for each layer what the roof allows and what its mapping reaches."""
    peak, outer = peak_macs_per_cycle(architecture), architecture.levels[0].name
    clock = f", {format_si(2 * peak * architecture.clock_hz, 'OP/s')}" if architecture.clock_hz else ""
    yield f"{architecture.name}: peak {peak:,.6g} MACs/cycle{clock} (two operations a MAC)"
    rows = port_rows(architecture)
    yield Table("ports", _PORTS, rows)
    if not rows:
        yield "No level has a bandwidth: only the compute units limit."
    note = f"least: each word of {outer} moved once; mapped for {objective}; shares of the peak"
    yield Table("layers", _STANDS, [stand_row(stand, peak) for stand in stands], "Layers", note)
    yield f"roof: what peak and bandwidth of {outer} allow where each word moves once"


_MOST = 40
"""Designs that a table shows at most."""
_TOLD = 20
"""Of fewer designs what one costs beside the mapper says nothing: the first one loads modules."""
_SAID = {
    "mapped": "mapped", "pruned": "pruned by proved bounds", "over_area": "over the area budget",
    "over_power": "over the power budget", "no_valid_mapping": "without a valid mapping",
    "refused": "refused by the model", "invalid": "invalid",
}  # fmt: skip


class Cost(NamedTuple):
    """A column of costs of designs."""

    name: str
    """What the column is called."""
    said: Callable[[float], str]
    """Gives a value in words."""
    unit: Callable[[float], tuple[float, str]]
    """For the largest value of an axis, how large the axis's unit is, and its name."""


def _edp_unit(largest: float) -> tuple[float, str]:
    scale = 10.0 ** (3 * math.floor(math.log10(largest) / 3)) if largest >= 1e6 else 1.0
    return scale, "pJ*cycle" if scale == 1.0 else f"1e{math.log10(scale):.0f} pJ*cycle"


COSTS = {
    "energy_pj": Cost("energy", energy, energy_scale),
    "cycles": Cost("cycles", "{:,.10g}".format, lambda _: (1.0, "")),
    "time_s": Cost("time", partial(format_si, unit="s"), partial(si_scale, unit="s")),
    "edp_pj_cycles": Cost("EDP", "{:.4g}".format, _edp_unit),
    "power_w": Cost("power", partial(format_si, unit="W"), partial(si_scale, unit="W")),
    "area_um2": Cost("area", lambda area: f"{area / 1e6:.4g} mm2", lambda _: (1e6, "mm2")),
}


def said(name: str, value: float | None) -> str:
    """Value of a column of costs in words.

    >>> said("energy_pj", 1.5e9), said("cycles", 12000.0), said("area_um2", 2.5e6), said("power_w", None)
    ('1.5 mJ', '12,000', '2.5 mm2', '')
    """
    return "" if value is None or not math.isfinite(value) else COSTS[name].said(value)


def sweep_head(about: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Piece]:
    """What was swept, and what became of the designs."""
    networks = ", ".join(
        name if weight == 1.0 else f"{weight:g} x {name}" for name, weight in about["networks"].items()
    )
    per = f", totals per {about['per'].removesuffix('s')}" if about["per"] else ""
    of_designs = {row["design"]: row for row in rows}
    file = about["inputs"]["architecture"]["file"]
    yield bold(f"{about['name']}: {_designs(len(of_designs))} of {file} on {networks}{per}")
    counts = Counter(row["status"] for row in of_designs.values())
    others = "".join(f"; {counts[status]:,} {text}" for status, text in _SAID.items() if counts[status])
    best = [row for row in rows if row["front"]]
    joint = about.get("joint")
    points = f" point{'s' if len(best) != 1 else ''} of {_designs(len({row['design'] for row in best}))}"
    of = points if joint else f" of {len(of_designs):,}"
    yield f"Pareto-optimal ({', '.join(about['objectives'])}): {len(best):,}{of}{others}"
    if joint:
        yield from _joint_lines(joint, rows)
    yield from map(whole, _proved_lines(about.get("proved", ())))
    yield from _why_not(rows, counts)


def _proved_lines(proved: Sequence[Row]) -> Iterator[str]:
    """Among which mappings the best one of each layer was looked for, and among which it is proved.

    >>> searched = {"space": "even and uneven mappings with remainders in K", "searches": 3}
    >>> print(*_proved_lines([{**searched, "proved_among": ""}]))
    3 layer searches: best found of even and uneven mappings with remainders
    """
    counts = Counter[tuple[str, ...]]()
    for each in proved:
        words = (each[at].partition(" in ")[0].partition(" and bounds ")[0] for at in ("space", "proved_among"))
        counts[tuple(words)] += each["searches"]
    for (space, among), many in counts.items():
        said = [f"optimal (proved) among {among}"] if among else []
        said += [f"best found of {space}"] if space != among else []
        yield f"{many:,} layer search{'es' if many > 1 else ''}: {'; '.join(said)}"


def _designs(many: int) -> str:
    return f"{many:,} design{'s' if many != 1 else ''}"


def sweep_lines(about: Mapping[str, Any], rows: Sequence[Row], run: Explored | None) -> Iterator[Piece]:
    """What was swept, and how long that took."""
    yield from sweep_head(about, rows)
    yield from sweep_end(rows, run)


def sweep_end(rows: Sequence[Row], run: Explored | None, folder: Path | None = None) -> Iterator[Piece]:
    """How long a sweep took, and how its results are shown again."""
    if run is None:
        return
    designs = len({row["design"] for row in rows})
    known = f" ({run.known_before:,} known from before)" if run.known_before else ""
    each = 1000 * run.overhead_seconds / max(1, designs)
    beside = f"; {each:.2g} ms CPU a design beside the mapper" if designs >= _TOLD and each else ""
    again = f"; accelsim sweep {folder} shows the results again" if folder is not None else ""
    yield whole(f"\n{run.seconds:.3g} s; {run.done_now:,} layer searches{known}{beside}{again}")
    if run.stop == "interrupted":
        yield "Interrupted; start the same command again to go on."


def _why_not(rows: Sequence[Row], counts: Mapping[str, int]) -> Iterator[Piece]:
    """Why designs are not mapped."""
    for status in ("invalid", "refused", "no_valid_mapping"):
        first = next((row for row in rows if row["status"] == status), None)
        if first is not None:
            why, more = str(first["reason"]).splitlines()[0], counts[status] - 1
            others = f" and {more} other{'s' if more > 1 else ''}" if more else ""
            yield whole(f"{_SAID[status]}: design {first['design']}{others}: {why}")
    for status, column, what in (("over_area", "area_um2", "smallest"), ("over_power", "power_w", "least")):
        if counts[status] and counts[status] == len(rows):
            least = said(column, min(row[column] for row in rows))
            yield f"no design is within the budget: the {what} {column.partition('_')[0]} is {least}"


def _joint_lines(joint: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Piece]:
    """What is proved of a joint front, and how much was searched for it."""
    yield f"layers       {joint['layers_searched']:,} searched, {joint['layers_of_all_designs']:,} in all designs"
    left, every = joint["unproved"], joint["designs"]
    if not left:
        more = f" by more than {100 * joint['within']:g} % in energy and time" if joint["within"] else ""
        small = " within the area budget" if any(row["status"] == "over_area" for row in rows) else ""
        said = f"no design of the {every:,}{small} with any even mapping with perfect factors dominates it{more}"
        yield whole(f"front proved: {said}")
        return
    said = f"front not proved: {len(left):,} of the {every:,} designs may dominate it"
    why = next((row["reason"] for row in rows if row["design"] in left and row["reason"]), "")
    yield whole(f"{said}; design {left[0]}: {why}" if why else f"{said}: they were not searched until proved")


def designs_table(about: Mapping[str, Any], rows: Sequence[Row], costs: Sequence[str]) -> Table:
    """Designs with what varies and some costs, best in the first objective first."""
    first = about["columns"][0]
    least = min((row[first] for row in rows if row[first] is not None), default=None)

    def state(row: Row) -> str:
        return "Pareto" if row["front"] else "" if row["status"] == "mapped" else str(row["status"])

    def over(row: Row) -> str:
        return "" if row[first] is None or not least or row["front"] else f"+{gap_text(row[first] / least - 1)}"

    heads = {"edp_pj_cycles": "EDP [pJ*cycle]"}
    columns = (
        Column("design", "design", left=False),
        *(Column(name, name, left=False) for name, values in about["parameters"].items() if len(values) > 1),
        *(Column(heads.get(name, COSTS[name].name), name, partial(said, name)) for name in costs),
        Column(f"vs best {COSTS[first].name}", over), Column("", state, left=True),
    )  # fmt: skip
    ordered = sorted(rows, key=lambda row: (not row["front"], row[first] is None, row[first] or 0.0, row["design"]))
    return Table("designs", columns, ordered, most=_MOST)


def designs_report(
    about: Mapping[str, Any], rows: Sequence[Row], *, chosen: bool, every: bool = False
) -> Iterator[Piece]:
    """Designs that were chosen, or else the mapped ones where they are few, or the front; or `every` one."""
    known = [row for row in rows if every or chosen or row["status"] == "mapped"]
    shown = known if every or chosen or len(known) <= _MOST else [row for row in rows if row["front"]]
    if not shown or not (chosen or any(row["status"] == "mapped" for row in shown)):
        yield "\nNo design is left." if chosen else "\nNo design is mapped."
        return
    yield ""
    also = ["energy_pj"] if "time_s" in about["columns"] else ["energy_pj", "cycles"]
    yield designs_table(about, shown, list(dict.fromkeys([*about["columns"], *also])))
    if len(shown) > _MOST:
        yield f"{len(shown) - _MOST:,} more; --json and --csv show all"
