"""The map space: which mappings there are, how many, and how to draw one."""
