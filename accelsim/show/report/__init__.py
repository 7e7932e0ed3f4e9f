"""Reports for people: what a mapping costs, what a search saw, and the tables of the other commands.

Every function prints to the console that it is given; colour only repeats what the text says.
"""

from accelsim.show.report.front import print_front
from accelsim.show.report.mapping import print_headline, print_result
from accelsim.show.report.network import LayerOutcome, network_totals, print_network
from accelsim.show.report.search import print_population, print_ranked, print_search
from accelsim.show.report.tables import energies_report, shipped_report

__all__ = [
    "LayerOutcome",
    "energies_report",
    "network_totals",
    "print_front",
    "print_headline",
    "print_network",
    "print_population",
    "print_ranked",
    "print_result",
    "print_search",
    "shipped_report",
]
