"""Reports for people: what a mapping costs, what a search saw, and the tables of the other commands.

Every function gives the parts of a report, which `accelsim.show.table` prints; colour only repeats what the text says.
"""
