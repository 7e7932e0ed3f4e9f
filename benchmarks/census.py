"""Time the census of VGG-16 conv3_2 on each machine, on one core with warm kernels: counts, range, moments, samples.

Run `make bench-census`, or `python benchmarks/census.py [MACHINE ...]`.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from rich.box import SIMPLE_HEAD  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from accelsim import load_architecture, load_workload, map_einsum  # noqa: E402
from accelsim.mapspace.space import MapSpace  # noqa: E402
from accelsim.model.encode import encode  # noqa: E402
from accelsim.population.counting import count_mappings  # noqa: E402
from accelsim.population.draw_kernel import ENERGY  # noqa: E402
from accelsim.population.extremes import largest, upper_limits  # noqa: E402
from accelsim.population.moments.deviations import energy_deviation  # noqa: E402
from accelsim.population.moments.means import means  # noqa: E402
from accelsim.population.sampling import Sampler  # noqa: E402
from accelsim.population.steps import Nest  # noqa: E402

MACHINES = ("two_level", "eyeriss", "systolic", "nvdla", "nvdla_1024", "simba", "gpu_sm")
DRAWN = 1_000_000
COLUMNS = ("machine", "mappings", "count", "lowest", "highest", "mean", "deviation", "together", "1M draws", "draws/s")


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
    map_einsum(architecture, layer, workers=1)
    mark()
    sampler = Sampler(nest)
    few = sampler.sample(2000)
    upper_limits(nest)
    worst = [few.mapping(int(at)) for at in (-few.energy_pj).argsort(kind="stable")[:8]]
    largest(space, worst, ENERGY)
    mark()
    found = means(space)
    mark()
    energy_deviation(space, found)
    mark()
    sampler.sample(DRAWN, workers=1)
    mark()
    spent = [b - a for a, b in itertools.pairwise(marks)]
    shown = [f"{seconds:.2f}" for seconds in spent]
    return [machine, f"{mappings:.2e}", *shown[:5], f"{sum(spent[:5]):.2f}", shown[5], f"{DRAWN / spent[5] / 1e6:.2f}M"]


def main() -> None:
    """Print the table."""
    machines = sys.argv[1:] or MACHINES
    row("two_level")  # loads or compiles the kernels
    table = Table(*COLUMNS, box=SIMPLE_HEAD, caption="CPU seconds, one thread, warm kernels; VGG-16 conv3_2.")
    for machine in machines:
        table.add_row(*row(machine))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
