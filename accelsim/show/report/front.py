"""The report on a Pareto front: what is proved about it, and its points."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from accelsim.search.result import FrontResult
from accelsim.show.report.certificate import STOPS
from accelsim.show.report.nest import nest_line
from accelsim.show.report.search import cost_cells, print_nest_key, work_line
from accelsim.show.report.text import count, large, print_table, table

_SHOWN = 40
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


def print_front(console: Console, front: FrontResult) -> None:
    """Print what is proved, and one row for each point."""
    first, columns = front.points[0], [column_name(column) for column in front.columns]
    head = f", Pareto front of {', '.join(columns[:-1])} and {columns[-1]}"
    console.print(Text(f"{first.workload} on {first.architecture}", style="bold").append(head, style="not bold"))
    console.print(Text(f"{len(front.points):,} point{'s' if len(front.points) > 1 else ''}, {front_verdict(front)}"))
    early = "" if front.stop == "exhausted" else f": {STOPS.get(front.stop, front.stop)}"
    console.print(Text(f"{'stopped' if early else 'ended'} after {front.seconds:.3g} s{early}"))
    console.print(Text(work_line(front.nodes, front.evaluated, front.table_bytes)))
    console.print()
    more = [at for at, column in enumerate(front.columns) if column not in ("energy", "cycles")]
    heads = ["point", "energy", "cycles", "util.", *(columns[at] for at in more), "loop nest"]
    made = table(*heads, left=(len(heads) - 1,), fold=(len(heads) - 1,))
    made.columns[0].justify = "right"
    for number, (values, result) in enumerate(zip(front.values, front.points, strict=True), 1):
        if number > _SHOWN:
            break
        cells = [count(round(values[at])) for at in more]
        made.add_row(str(number), *cost_cells(result), *cells, nest_line(result))
    print_table(console, made)
    print_nest_key(console)
    if len(front.points) > _SHOWN:
        console.print(Text(f"{len(front.points) - _SHOWN:,} more points are in front.csv and result.json (-o DIR)."))
