"""Time the parts of a spread of VGG-16 conv3_2 on each machine, on one core with warm kernels.

Run `make bench-spread`, or `python benchmarks/spread.py [MACHINE ...]`.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # before numpy loads
sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from rich.box import SIMPLE_HEAD  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from accelsim import load_architecture, load_workload  # noqa: E402
from accelsim.mapspace.space import MapSpace  # noqa: E402
from accelsim.model.encode import encode  # noqa: E402
from accelsim.population.counting import Nest, count_mappings  # noqa: E402
from accelsim.population.sampling import Sampler  # noqa: E402
from accelsim.population.spread import SeenMappings, _walk  # noqa: E402
from accelsim.search.mapper import map_einsum  # noqa: E402

MACHINES = ("two_level", "eyeriss", "systolic", "nvdla", "nvdla_1024", "simba", "gpu_sm")
DRAWN = 1_000_000
HEAD = (
    "machine", "mappings", "count", "lowest energy", "fewest cycles", "walks", "together", "1M draws",
)  # fmt: skip


def row(machine: str) -> list[str]:
    """CPU seconds of each part, and of all but the draws together (target: 5 s)."""
    architecture, layer = load_architecture(machine), load_workload("conv").layers[0]
    space = MapSpace(encode(architecture, layer))
    marks = [time.process_time()]

    def mark() -> None:
        marks.append(time.process_time())

    nest = Nest(space)
    mappings = count_mappings(nest)
    mark()
    map_einsum(architecture, layer, workers=1, uneven=False)
    mark()
    map_einsum(architecture, layer, objective="cycles", workers=1, uneven=False)
    mark()
    sampler = Sampler(nest)
    _walk(space, SeenMappings(space.size), 1)
    mark()
    sampler.sample(DRAWN, workers=1)
    mark()
    spent = [b - a for a, b in itertools.pairwise(marks)]
    parts = [f"{seconds:.2f}" for seconds in (*spent[:-1], sum(spent[:-1]), spent[-1])]
    return [machine, f"{mappings:.1e}", *parts]


def main() -> None:
    """Print the table."""
    machines = sys.argv[1:] or MACHINES
    row("two_level")  # loads or compiles the kernels
    table = Table(
        *HEAD, box=SIMPLE_HEAD, caption="CPU seconds, one thread, warm kernels; VGG-16 conv3_2.", collapse_padding=True
    )
    for machine in machines:
        table.add_row(*row(machine))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
