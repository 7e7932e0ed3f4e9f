"""GPUs: their catalogue, the time of a kernel by its tiling, and what measurements say about it."""
