"""The population of a map space: how many valid mappings there are, and how what they cost is spread."""
