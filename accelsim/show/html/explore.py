"""Page of a sweep: its designs as a scatter, parallel coordinates and a table, to filter and sort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from accelsim.show.html.page import page, section, table
from accelsim.show.plots.explore import axis_of, cells, same_value, two_costs, varied_values
from accelsim.show.report.explore import NAMES, designs_table
from accelsim.show.report.explore import said as in_words

Rows = Sequence[Mapping[str, Any]]
MOST = 20_000
"""Designs of a page at most; those of the front go first."""
_LISTED = 500
_FRAMES = """<section id="only"><h2>Designs shown</h2><p class="controls">$only</p></section>
<section id="scatter"><h2>One cost against another</h2>
<p class="controls"><label>up <select id="y-axis"></select></label>
<label>across <select id="x-axis"></select></label>
<label>colour <select id="colour"></select></label>
<label><input id="log-axes" type="checkbox"> logarithmic</label></p>
<div id="scatter-plot" class="plot" role="img" aria-label="Scatter plot of the designs"></div>
<p class="note">Each dot is a design; rings are on the front; triangles are bounds of designs that were not mapped,
because a finished one beats whatever they could reach.</p></section>
<section id="parallel"><h2>Parameters and costs of each design</h2>
<p class="note">Each line is a mapped design; costs that differ by more than a factor of 3 have a logarithmic
axis.</p>
<div id="parallel-plot" class="plot" role="img" aria-label="Parallel coordinates of the mapped designs"></div>
</section>"""


def sweep_report(rows: Rows, about: Mapping[str, Any]) -> str:
    """Write a page on the designs of a sweep: one HTML file to open in a browser.

    Parameters
    ----------
    rows : sequence of mapping
        Of the table of designs.
    about : mapping
        What sweep.json holds.

    Returns
    -------
    str
        Equal input gives equal text.

    Raises
    ------
    AccelsimError
        If plotly is not installed.
    """
    kept = sorted(rows, key=lambda row: (not row["front"], row["design"]))[:MOST]
    varied = varied_values(about)
    across, up = two_costs(about)
    costs = list(dict.fromkeys([*about["columns"], "energy_pj", "cycles", "time_s", "power_w", "area_um2"]))
    costs = [name for name in costs if any(row[name] is not None for row in kept)] or ["energy_pj", "cycles"]
    axes = {name: axis_of(name, cells(kept, name)) for name in costs}
    data = {
        "parameters": [{"name": name, "values": values} for name, values in varied.items()],
        "costs": [{"name": name, "label": label, "scale": scale} for name, (label, scale) in axes.items()],
        "objectives": list(about["columns"]),
        "across": across,
        "up": up,
        "designs": [_design(row, varied, costs) for row in kept],
    }
    best = [row for row in rows if row["front"]]
    least = [
        f"least {NAMES[name]} {in_words(name, row[name])} (design {row['design']})"
        for name in about["columns"]
        if (row := min(best, key=lambda r: (r[name], r["design"]), default=None)) is not None
    ]
    listing = designs_table(about, best, costs)
    listing = replace(listing, columns=listing.columns[:-1], most=_LISTED)  # all are on the front
    listed = f"{len(best):,}" if len(best) <= _LISTED else f"The first {_LISTED:,} of {len(best):,}"
    only = [f'<label>{escape(name)} <select id="only-{i}"></select></label>' for i, name in enumerate(varied)]
    sections = [
        _FRAMES.replace("$only", " ".join(only)),
        section("front", "The front", table(f"{listed} designs of the front", listing)),
    ]
    mapped = sum(row["status"] == "mapped" for row in rows)
    pruned = sum(row["status"] == "pruned" for row in rows)
    lead = (
        f"{len(rows):,} designs of {about['inputs']['architecture']['file']} for {', '.join(about['networks'])}: "
        f"{mapped:,} mapped, {pruned:,} pruned, {len(best):,} on the front in {', '.join(about['objectives'])}"
        f"{': ' + '; '.join(least) if least else ''}."
    )
    if len(kept) < len(rows):
        lead += f" The page shows {len(kept):,} of them, those of the front first."
    return page(about["name"], lead, "".join(sections), data, "explore.js")


def _design(row: Mapping[str, Any], varied: Mapping[str, Sequence[str]], costs: Sequence[str]) -> list[Any]:
    """Number, status, place of each parameter among its values, and costs; of a pruned design bounds."""
    places = [
        next(i for i, text in enumerate(values) if same_value(row[name], text)) for name, values in varied.items()
    ]
    status = "front" if row["front"] else row["status"]
    names = [f"bound_{name}" if status == "pruned" and f"bound_{name}" in row else name for name in costs]
    return [row["design"], status, places, [None if row[n] is None else float(f"{row[n]:.7g}") for n in names]]
