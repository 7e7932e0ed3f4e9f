"""Reports for people: what a mapping costs, what a search saw, and the tables of the other commands.

Every function prints to the console that it is given; colour only repeats what the text says.
"""

from accelsim.show.report.front import print_front
from accelsim.show.report.mapping import print_headline, print_result
from accelsim.show.report.network import print_network
from accelsim.show.report.search import print_population, print_ranked, print_search
from accelsim.show.report.tables import print_energies, print_shipped

__all__ = [
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
