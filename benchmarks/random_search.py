"""Hold the random search against the exhaustive truth on a space small enough to enumerate: best-so-far curves.

Run `python benchmarks/random_search.py [-o DIR]`; it writes curves.png, and prints when each seed came near the truth.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from matplotlib.figure import Figure  # noqa: E402

from accelsim.inputs.architecture import load_architecture  # noqa: E402
from accelsim.inputs.workload import Einsum  # noqa: E402
from accelsim.inputs.workload_reader import load_workload  # noqa: E402
from accelsim.search.mapper import map_einsum  # noqa: E402
from accelsim.search.result import Sample, SearchResult  # noqa: E402
from accelsim.search.strategy import Budget  # noqa: E402
from accelsim.show.plots.search import plot_curve  # noqa: E402

BOUNDS = {"N": 1, "K": 8, "C": 4, "P": 4, "Q": 4, "R": 3, "S": 1}
SEEDS = range(5)
DRAWS = 1_000_000


def sampled(search: SearchResult) -> Sample:
    """What a search saw on its way."""
    assert search.sample is not None
    return search.sample


def within(search: SearchResult, best: float, factor: float) -> str:
    """After how many mappings a search was within a factor of the best."""
    return next((f"{seen:,}" for seen, value in sampled(search).curve if value <= best * factor), "never")


def main() -> None:
    """Search both ways and compare."""
    parser = argparse.ArgumentParser(description="Random search against exhaustive truth.")
    parser.add_argument("-o", "--output", default="out", metavar="DIR", help="where curves.png goes (default: out)")
    folder = Path(parser.parse_args().output)
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    small = Einsum("small_conv", BOUNDS, layer.tensors)
    truth = map_einsum(machine, small, method="exhaustive")
    best = truth.best.energy_pj
    out = sys.stdout
    out.write(
        f"{small.name} on {machine.name}: {sampled(truth).seen:,} mappings, {sampled(truth).valid:,} valid, all seen\n"
    )
    out.write(f"least energy {best:.6g} pJ; {sampled(truth).spread.within(1.01):,} within 1 %\n")
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for seed in SEEDS:
        search = map_einsum(machine, small, method="random", budget=Budget(mappings=DRAWS), seed=seed)
        plot_curve(search, axes)
        near = ", ".join(f"within {100 * (f - 1):.0f} % after {within(search, best, f)}" for f in (1.1, 1.01))
        gap = search.best.energy_pj / best - 1
        out.write(f"seed {seed}: {near}; after {DRAWS:,} mappings {100 * gap:.2f} % above the least\n")
    axes.axhline(best / small.macs, color="black", linestyle="--", label="least of all (exhaustive)")
    axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "curves.png", dpi=120)
    out.write(f"wrote {folder / 'curves.png'}\n")


if __name__ == "__main__":
    main()
