"""The report on a Pareto front: what is proved about it, and its points."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.search.result import FrontResult
from accelsim.show.report.certificate import STOPS
from accelsim.show.report.nest import nest_line
from accelsim.show.report.search import COSTS, NEST, NEST_KEY, work_line
from accelsim.show.report.text import count, large
from accelsim.show.table import Column, Part, Table, bold

_SHOWN = 40
_ALWAYS = ("point", "energy_pj", "cycles", "edp_pj_cycles", "pj_per_mac", "utilization", "loop_nest")
NAMES = {"energy": "energy", "cycles": "cycles", "outer_words": "outer words"}


def column_name(column: str) -> str:
    """Name of a column of a front, for people.

    Examples
    --------
    >>> column_name("outer_words"), column_name("capacity:GLB")
    ('outer words', 'words in GLB')
    """
    return NAMES.get(column) or f"words in {column.partition(':')[2]}"


def front_verdict(front: FrontResult) -> str:
    """Say whether the front is complete."""
    if front.stop != "exhausted":
        return "not complete: points may be missing, and some of these may be beaten by mappings that were not seen"
    return f"complete (proved): no mapping of the {large(front.space_size)} in the map space beats one of these"


def front_report(front: FrontResult) -> Iterator[Part]:
    """What is proved, and one row for each point."""
    first, columns = front.points[0], [column_name(column) for column in front.columns]
    head = f", Pareto front of {', '.join(columns[:-1])} and {columns[-1]}"
    yield bold(f"{first.workload} on {first.architecture}").append(head, style="not bold")
    yield f"{len(front.points):,} point{'s' if len(front.points) > 1 else ''}, {front_verdict(front)}"
    early = "" if front.stop == "exhausted" else f": {STOPS.get(front.stop, front.stop)}"
    yield f"{'stopped' if early else 'ended'} after {front.seconds:.3g} s{early}"
    yield work_line(front.nodes, front.evaluated, front.table_bytes) + "\n"
    rows = [{**row, "loop_nest": nest_line(point)} for row, point in zip(front.rows(), front.points, strict=True)]
    more = [key for key in rows[0] if key not in _ALWAYS]
    heads = [column_name(column) for column in front.columns if column not in NAMES or column == "outer_words"]
    others = [Column(head, key, count) for head, key in zip(heads, more, strict=True)]
    yield Table("front", (Column("point", "point", left=False), *COSTS, *others, NEST), rows, most=_SHOWN)
    yield NEST_KEY
    if len(front.points) > _SHOWN:
        yield f"{len(front.points) - _SHOWN:,} more points are in front.csv and result.json (-o DIR)."
