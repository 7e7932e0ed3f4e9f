"""Performance models that the makers of a machine published for it, beside accelsim's own cost model."""
