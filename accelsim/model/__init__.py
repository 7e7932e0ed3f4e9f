"""The cost model: counts, energy and cycles of mappings."""
