"""GPUs: their catalogue, the time of a kernel by its tiling, and what measurements say about it.

A machine
    `spec` reads `arch/gpu/*.yaml` into a `machine.Gpu`; `catalogue` finds those that ship.
A matrix product
    `layers` makes products of layers. `tiling` has the tiles of a GPU and `schedule` how SMs share their work, `gemm`
    times all of them and takes the fastest, with the `constants` of a mode and the power of `energy`; `kernel`
    describes what was taken.
Beside products
    `operators` (memory-bound operators, recurrent cells), `winograd`, `links` (several GPUs).
Commands
    `roofline`; `advice` and `compare` (which reads a `profile`) of `accelsim gpu`.
Measurements
    `table` and `grids` help `measured` to read products, `formats` knows the names of number formats; `convolutions`
    reads layers. `validation` predicts them and `errors` sums up; `fit` fits: one GPU in `calibration`, all of them in
    `common_fit`.
"""

ROTATING = "rotating"
L2_STATES = (ROTATING, "cold", "warm")
"""What L2 holds when a kernel starts: `rotating`, what fits of the activations and of several copies of the weights,
used in turn as in the layers of a network; `cold`, nothing; `warm`, what fits of the same product."""
