"""Reports for people: what a mapping costs, what a search saw, and the tables of the other commands.

Every function prints to the console that it is given; colour only repeats what the text says.
"""

from accelsim.report.front import print_front
from accelsim.report.mapping import print_headline, print_result
from accelsim.report.network import LayerOutcome, network_totals, print_network
from accelsim.report.search import print_population, print_ranked, print_search
from accelsim.report.tables import print_energies, print_shipped

__all__ = [
    "LayerOutcome",
    "network_totals",
    "print_energies",
    "print_front",
    "print_headline",
    "print_network",
    "print_population",
    "print_ranked",
    "print_result",
    "print_search",
    "print_shipped",
]
