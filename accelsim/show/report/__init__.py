"""Reports for people: what a mapping costs, what a search saw, and the tables of the other commands.

Every function prints to the console that it is given; colour only repeats what the text says.
"""
