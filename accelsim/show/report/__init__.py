"""Reports for people: what a mapping costs, what a search saw, and the tables of the other commands.

Every function gives the parts of a report, which `accelsim.show.table` prints; colour only repeats what the text says.
"""

from accelsim.show.report.front import front_report
from accelsim.show.report.mapping import headline, result_report
from accelsim.show.report.network import LayerOutcome, network_report, network_totals
from accelsim.show.report.search import population_line, ranked_report, search_report
from accelsim.show.report.tables import energies_report, shipped_report

__all__ = [
    "LayerOutcome",
    "energies_report",
    "front_report",
    "headline",
    "network_report",
    "network_totals",
    "population_line",
    "ranked_report",
    "result_report",
    "search_report",
    "shipped_report",
]
