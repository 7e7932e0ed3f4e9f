"""Explore designs: sweep parameters of a machine over networks, on the cores of this computer or on a cluster.

`sweep` reads the file, `machines` chooses designs, makes them and tells what no mapping of theirs can beat, `work` is
what a worker does, `pool` has the workers, `store` keeps and judges what is finished, `run` ties these together, and
`tables` makes one row for each design, and one for each of its layers.
"""
