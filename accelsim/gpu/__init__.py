"""GPUs: their catalogue, the time of a kernel by its tiling, and what measurements say about it.

A machine
    `catalogue` reads `arch/gpu/*.yaml` into a `machine.Gpu` and finds those that ship.
A matrix product
    `layers` makes products of layers, and has Winograd for convolutions. `tiling` has the tiles of a GPU and how SMs
    share their work, `gemm` times all of them and takes the fastest, with the `constants` of a mode; `kernel` describes
    what was taken.
Beside products
    `operators` (memory-bound operators, all-reduce).
Commands
    `advice` (rooflines too) and `compare` (with profiles).
Measurements
    `measured` reads products, `calibration` fits the constants of a GPU, `validation` predicts what was measured.
"""

ROTATING = "rotating"
L2_STATES = (ROTATING, "cold", "warm")
"""What L2 holds when a kernel starts: `rotating`, what fits of the activations and of several copies of the weights,
used in turn as in the layers of a network; `cold`, nothing; `warm`, what fits of the same product."""
