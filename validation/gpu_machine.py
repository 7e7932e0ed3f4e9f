"""GPUs as machines beside the kernel model: `python -m validation.gpu_machine [GPU] [FORMAT]`.

Each tile of the kernel model is a mapping on `GPU:arch`, which the cost model evaluates. The tile with the lowest
EDP is compared with the one that the kernel model finds fastest; of that one, bytes of DRAM and energy are compared.
K is in one part in both: what the sum of parts takes beside their traffic is no count of a mapping.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

import accelsim
from accelsim.cli import write_figure
from accelsim.gpu.calibration import AUTO, Mode, mode_of
from accelsim.gpu.catalogue import BYTES, Gpu, load_gpu
from accelsim.gpu.constants import compute_class, tile_set
from accelsim.gpu.gemms import Gemms, Setup, time_gemms
from accelsim.gpu.kernel import best_kernels
from accelsim.gpu.machine import PARTITIONS, instruction, machine_texts
from accelsim.gpu.network import product_of
from accelsim.inputs import library
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.show.plots import drawing, put_title, rows_down
from validation.plot_measured import COLOURS

Sizes = tuple[int, int, int]
OPERANDS, OUTPUTS = frozenset({"Weights", "Inputs"}), frozenset({"Outputs"})
TOKENS = (128, 512, 1024, 2048, 4096)
WEIGHTS = (
    (4096, 4096),
    (6144, 4096),
    (4096, 14336),
    (28672, 4096),
    (8192, 8192),
    (1024, 1024),
    (3072, 768),
    (768, 3072),
)
"""N and K: projections of Llama 3 8B and 70B, and of BERT base; a small square."""
GEMMS: tuple[Sizes, ...] = tuple((tokens, *each) for tokens in TOKENS for each in WEIGHTS)


def convolutions(batch: int = 16) -> tuple[Sizes, ...]:
    """The different convolutions of ResNet-50 as implicit GEMMs."""
    layers = load_workload(library.resolve("resnet50", "workloads"), {"batch": str(batch)}).layers
    products = [product_of(layer) for layer in layers]
    return tuple(dict.fromkeys((p.m, p.n, p.k) for p in products if p.m >= batch * 49))


def kernel_mappings(
    gpu: Gpu, number_format: str, architecture: Architecture, sizes: Sizes, tile: tuple[int, int]
) -> Iterator[Mapping]:
    """Mappings of a kernel with an output tile of so many rows and columns on the GPU as a machine.

    A wave of blocks is a rectangle of tiles. Those are tried that need the fewest waves, with either order of waves,
    with results that stay in L2 until the wave ends or pass through it. K stays whole in L2 as far as it fits. A step
    of K is 128 B, or what shared memory holds twice.
    """
    rows, columns = tile
    l2_bytes = (architecture.levels[1].size_words or 0) * architecture.levels[1].word_bits / 8
    m, n, k, _ = instruction(gpu, number_format)
    feeds_from_smem, vector = (compute_class(gpu, number_format) == kind for kind in ("async", "vector"))
    step = max(k, int((32 if vector else 128) / BYTES[number_format]))
    while step > k and 2 * (rows + columns) * step * BYTES[number_format] > gpu.smem_per_block_bytes:
        step //= 2
    across, down, steps = -(-sizes[0] // rows), -(-sizes[1] // columns), -(-sizes[2] // step)
    high = PARTITIONS if feeds_from_smem and rows >= PARTITIONS * m else min(2, max(1, rows // m))
    wide = PARTITIONS // high
    fragments = [("M", -(-rows // high // m))]
    inside = [
        ("MMA", "x", [("K", k)]),
        ("Operands", "y", [("N", n)]),
        ("Operands", "x", [("M", m)]),
        ("Operands", "temporal", [*([] if feeds_from_smem else fragments), ("N", -(-columns // wide // n))]),
        ("Sums", "temporal", fragments if feeds_from_smem else []),
        ("SMEM", "x", [("M", high), ("N", wide)]),
        ("SMEM", "temporal", [("K", step // k)]),
    ]
    kept = {"HBM": OPERANDS | OUTPUTS, "SMEM": OPERANDS, "Sums": OUTPUTS, "MMA": frozenset[str]()}
    kept["Operands"] = frozenset({"Inputs"}) if feeds_from_smem else OPERANDS
    for outer, (a, b), stored in itertools.product(
        ("MN", "NM"), _waves(across, down, gpu.sms), (OPERANDS, OPERANDS | OUTPUTS)
    ):
        results = 2 * a * rows * b * columns if stored >= OUTPUTS else 0
        at_once = int((l2_bytes - results) / ((a * rows + b * columns) * step * BYTES[number_format]))
        parts = -(-steps // max(1, at_once))
        waves = {"M": -(-across // a), "N": -(-down // b)}
        blocks = [
            *inside,
            ("L2", "x", [("M", a), ("N", b)]),
            ("L2", "temporal", [("K", -(-steps // parts))]),
            ("HBM", "temporal", [*((dim, waves[dim]) for dim in outer), ("K", parts)]),
        ]
        loops = _no_longer_than(dict(zip("MNK", sizes, strict=True)), blocks)
        levels = {**dict.fromkeys(("HBM", "L2", "SMEM", "Sums", "Operands", "MMA")), **kept, "L2": stored}
        nest = (
            LevelMapping(level, **loops.get(level, {}), keep=keep) for level, keep in levels.items() if keep is not None
        )
        yield Mapping(tuple(nest), imperfect=frozenset("MNK"))


def _waves(across: int, down: int, sms: int) -> set[tuple[int, int]]:
    """Rows and columns of tiles in a wave, where there are as few waves as can be."""
    shapes = [(a, min(down, sms // a)) for a in range(1, min(across, sms) + 1)]
    counts = [(-(-across // a), -(-down // b)) for a, b in shapes]
    fewest = min(high * wide for high, wide in counts)
    return {(-(-across // high), -(-down // wide)) for high, wide in counts if high * wide == fewest}


def _no_longer_than(
    sizes: dict[str, int], blocks: Iterable[tuple[str, str, list[tuple[str, int]]]]
) -> dict[str, dict[str, tuple[Loop, ...]]]:
    """Loops by level and block, no longer than the sizes need; the blocks come innermost first."""
    inside, found = dict.fromkeys(sizes, 1), dict[str, dict[str, tuple[Loop, ...]]]()
    for level, block, loops in blocks:
        kept: list[Loop] = []
        for dim, bound in reversed(loops):
            needed = min(bound, -(-sizes[dim] // inside[dim]))
            inside[dim] *= needed
            kept += [Loop(dim, needed)] if needed > 1 else []
        found.setdefault(level, {})[block] = tuple(reversed(kept))
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """A GEMM in both worlds; `hbm`, `energy` and `time` are machine over kernel model, of the kernel model's tile.

    `slower`: time of the machine's tile over that of the fastest one, by the kernel model. `limited`: whether the board
    is at its power limit.
    """

    sizes: Sizes
    kernel: str
    machine: str
    slower: float
    hbm: float
    energy: float
    time: float
    limited: bool

    @property
    def same(self) -> bool:
        """Whether the tiles are the same, either way round."""
        return sorted(self.kernel.split("x")) == sorted(self.machine.split("x"))


@dataclass(frozen=True, slots=True)
class Worlds:
    """A GPU in a number format: its kernel model, and the architecture on which kernels are mappings."""

    gpu: Gpu
    number_format: str
    mode: Mode
    architecture: Architecture

    @classmethod
    def of(cls, gpu: Gpu, number_format: str, calibration: str = AUTO) -> Worlds:
        """Both, the kernel model with a calibration."""
        text = machine_texts(f"{gpu.name}:arch:{number_format}")["architecture"]
        return cls(gpu, number_format, mode_of(gpu, number_format, calibration), load_architecture(text))

    def times_us(self, sizes: Sizes) -> dict[str, float]:
        """Time [us] of each tile by the kernel model, from an L2 that holds none of the data."""
        constants = self.mode.constants
        tiles = tile_set(self.gpu, self.number_format, constants.in_flight_bytes)
        times = time_gemms(self.gpu, Gemms.of(*sizes), self.number_format, constants, Setup("cold"), splits=(1,))
        found = times.by_tiling_us[0, :, 0] + times.parts["launch"][0] + times.parts["latency"][0]
        return {tiles.name(index): float(time_us) for index, time_us in enumerate(found)}

    def results(self, sizes: Sizes, tiles: Iterable[str]) -> dict[str, Result]:
        """The mapping of each tile with the lowest EDP that fits, evaluated."""
        operand_bits = int(8 * BYTES[self.number_format])
        bits = {"Weights": operand_bits, "Inputs": operand_bits, "Outputs": 16}
        gemm = {"name": "gemm", "gemm": dict(zip("MNK", sizes, strict=True)), "bits": bits}
        layer = load_workload({"workload": gemm}).layers[0]
        found = {}
        for tile in tiles:
            rows, columns = map(int, tile.split("x"))
            mappings = kernel_mappings(self.gpu, self.number_format, self.architecture, sizes, (rows, columns))
            evaluated = [evaluate(self.architecture, layer, one) for one in mappings]
            found[tile] = min((one for one in evaluated if not one.violations), key=_edp)
        return found

    def compare(self, sizes: Sizes) -> Compared:
        """Compare a GEMM."""
        times_us = self.times_us(sizes)
        results = self.results(sizes, times_us)
        fastest, best = min(times_us, key=times_us.__getitem__), min(results, key=lambda name: _edp(results[name]))
        setup, own = Setup("cold", tile=fastest), results[fastest]
        (kernel,) = best_kernels(self.gpu, ["gemm"], Gemms.of(*sizes), self.number_format, self.mode, setup)
        return Compared(
            sizes,
            fastest,
            best,
            times_us[best] / times_us[fastest],
            own.offchip_words * self.architecture.levels[0].word_bits / 8 / kernel.dram_bytes,
            own.energy_pj * 1e-12 / kernel.energy_j,
            self.time_us(own) / kernel.time_us,
            kernel.power_w >= self.gpu.tdp_w,
        )

    def time_us(self, result: Result) -> float:
        """Time [us] of a mapping."""
        return result.cycles / self.gpu.boost_hz * 1e6


def plot_tiles(worlds: Worlds, sizes: Sizes, ax: Axes | None = None) -> Axes:
    """Draw the time of each tile by both, the fastest at the top."""
    by_kernel = worlds.times_us(sizes)
    by_mapping = {name: worlds.time_us(result) for name, result in worlds.results(sizes, by_kernel).items()}
    names = sorted(by_kernel, key=by_kernel.__getitem__)
    with drawing(ax, 1.6 + 0.2 * len(names)) as ax:
        for label, times, colour, marker in (
            ("kernel model", by_kernel, COLOURS[0], "o"),
            ("mapping", by_mapping, COLOURS[1], "D"),
        ):
            ax.plot([times[name] for name in names], range(len(names)), marker, color=colour, markersize=4, label=label)
        every = [*by_kernel.values(), *by_mapping.values()]
        ax.set(xlim=(0, 1.05 * max(every)), xlabel="time [us]", ylabel="tile")
        rows_down(ax, names)
        put_title(ax, f"{' x '.join(map(str, sizes))} on {worlds.architecture.name}", legend=True)
    return ax


def _edp(result: Result) -> float:
    return result.energy_pj * result.cycles


def report(rows: Sequence[Compared]) -> str:
    """A line for each GEMM, and how many agree."""
    head = f"{'M x N x K':>20} {'kernel':>8} {'machine':>8} {'slower':>7} {'HBM':>5} {'energy':>7} {'time':>5}\n"
    lines = [
        f"{'x'.join(map(str, row.sizes)):>20} {row.kernel:>8} {row.machine:>8} {row.slower - 1:>7.1%} {row.hbm:>5.2f} "
        f"{row.energy:>6.2f}{'*' if row.limited else ' '} {row.time:>5.2f}\n"
        for row in rows
    ]
    return (
        head + "".join(lines) + "".join(f"{text}: {count} of {len(rows)}\n" for text, count in agreement(rows).items())
    )


def agreement(rows: Sequence[Compared]) -> dict[str, int]:
    """How many agree, by what."""
    return {
        "same tile": sum(row.same for row in rows),
        "tile at most 2 % slower": sum(row.slower <= 1.02 for row in rows),
        "tile at most 5 % slower": sum(row.slower <= 1.05 for row in rows),
        "HBM within 15 %": sum(abs(row.hbm - 1) <= 0.15 for row in rows),
        "energy within 30 %": sum(abs(row.energy - 1) <= 0.3 for row in rows),
        "energy within 30 %, or the board at its power limit (*)": sum(
            abs(r.energy - 1) <= 0.3 or r.limited for r in rows
        ),
    }


def proved(worlds: Worlds, sizes: Sizes) -> str:
    """A line of what the mapper proves to be best, K in parts too, beside the fastest kernel of all."""
    gpu, number_format = worlds.gpu, worlds.number_format
    (kernel,) = best_kernels(gpu, ["gemm"], Gemms.of(*sizes), number_format, worlds.mode, Setup("cold"))
    layer = accelsim.gemm(*sizes, bits=int(8 * BYTES[number_format]))
    started = time.monotonic()
    found = accelsim.map_layer(
        f"{gpu.name}:arch:{number_format}", layer, objective="edp", mapspace="even", factors="perfect", cache=False
    )
    seconds = time.monotonic() - started
    tile = dict.fromkeys("MNK", 1)
    for level in found.mapping.levels[2:]:
        for loop in (*level.temporal, *level.x, *level.y):
            tile[loop.dim] *= loop.bound
    same = sorted((tile["M"], tile["N"])) == sorted(map(int, kernel.tile.split("x")))
    hbm = found.offchip_words * BYTES[number_format] / kernel.dram_bytes
    verdict = "proved" if found.certificate is not None and found.certificate.proved else "open"
    name = f"{tile['M']}x{tile['N']}"
    ours = f"{'x'.join(map(str, sizes)):>20} {kernel.tile:>8} {name:>8} {'same' if same else '-':>5}"
    return f"{ours} {hbm:>5.2f} {verdict} in {seconds:.1f} s\n"


def main(words: Sequence[str] | None = None) -> int:
    """Print the comparison of 40 GEMMs and 20 convolutions."""
    parser = argparse.ArgumentParser(prog="python -m validation.gpu_machine", description=__doc__)
    parser.add_argument("gpu", nargs="?", default="a100_sxm_40gb", help="GPU of the catalogue [a100_sxm_40gb]")
    parser.add_argument("dtype", nargs="?", default="bf16", help="number format [bf16]")
    parser.add_argument("--calibration", default=AUTO, help="auto or none [auto]")
    parser.add_argument(
        "--gemm", help="M,N,K of a GEMM whose tiles --plot draws [4096,4096,4096]", default="4096,4096,4096"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the time of each tile instead")
    parser.add_argument("--proved", action="store_true", help="prove the best mapping of each of the 40 GEMMs instead")
    asked = parser.parse_args(words)
    worlds = Worlds.of(load_gpu(asked.gpu), asked.dtype, asked.calibration)
    if asked.plot:
        write_figure(asked.plot, plot_tiles(worlds, (4096, 4096, 4096)))
    elif asked.proved:
        for sizes in GEMMS:
            sys.stdout.write(proved(worlds, sizes))
    else:
        sys.stdout.write(report([worlds.compare(sizes) for sizes in (*GEMMS, *convolutions())]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
