"""Energy, leakage and area of components by models: memories, arithmetic, DRAM, registers, wires and networks."""
