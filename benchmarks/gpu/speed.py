"""Time the kernel model on one core: matrix products a second, each with the choice of its tiling.

python benchmarks/gpu/speed.py
"""

from __future__ import annotations

import sys
import time

import numpy as np

from accelsim.gpu.advice import sweep
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.constants import SPLITS, tile_set
from accelsim.gpu.gemms import Gemms, time_gemms

COUNT = 20_000
TIMES = 3


def main() -> None:
    """Print products a second of each GPU, by CPU time, and the time of a sweep."""
    generator = np.random.default_rng(0)
    sizes = [generator.integers(1, 8193, COUNT) for _ in range(3)]
    gemms = Gemms.of(*sizes)
    for name in ("a100", "h100", "b200", "v100"):
        gpu = load_gpu(name)
        mode = mode_of(gpu, "fp16")
        tiles = tile_set(gpu, "fp16", mode.constants.in_flight_bytes)
        seconds = []
        for _ in range(TIMES):
            start = time.process_time()
            time_gemms(gpu, gemms, "fp16", mode.constants)
            seconds.append(time.process_time() - start)
        space = f"{len(tiles.rows)} tiles x {len(SPLITS)} splits"
        sys.stdout.write(f"{gpu.name:<14} {COUNT / min(seconds):>9,.0f} products a second, {space}\n")
    gpu = load_gpu("a100")
    start = time.process_time()
    sweep(gpu, "m", range(1, 2001), 1, 4096, 4096, "fp16", mode_of(gpu, "fp16"))
    sys.stdout.write(f"sweep of 2,000 sizes: {time.process_time() - start:.3f} s\n")


if __name__ == "__main__":
    main()
