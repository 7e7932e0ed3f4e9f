"""Measure what a board takes while matrix products repeat, and write the table that `power.py` reads.

Needs PyTorch, nvidia-ml-py and a GPU that counts its energy (NVML, Volta or later); nothing of accelsim.

    python measure_power.py -o power.csv                      # 55 products and copies, about four minutes
    python measure_power.py -o power.csv --rows 20 --seconds 1

Each row repeats CUDA graphs for `--seconds` after a warm-up, and reads NVML's count of energy when it changes. Inputs
are normal random numbers, or zeros where the column `data` says so. Operands stand in `copies` places in turn.
"""

import argparse
import csv
import itertools
import random
import statistics
import sys
import threading
import time

COLUMNS = ["device", "what", "M", "N", "K", "dtype", "data", "copies"]
COLUMNS += ["time_us", "energy_mj", "power_w", "clock_mhz", "temperature"]
ROWS = [1, 4, 16, 32, 64, 128, 192, 256, 384, 512, 1024, 2048, 4096]
WIDE = [1024, 2048, 4096, 5120, 8192, 11008, 16384]
COUNTS = {"bf16": 20, "fp8": 9, "fp16": 3, "int8": 4, "tf32": 4, "fp32": 4}
WARM_UP_S = 0.7
GRAPH_US = 20_000.0
LONG, SHORT = 1 << 29, 1 << 22


class Board:
    """Energy, clock and temperature of the first GPU."""

    def __init__(self):
        import pynvml

        pynvml.nvmlInit()
        self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)

    def energy_mj(self):
        """Count since the driver was loaded."""
        return self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)

    def clock_mhz(self):
        """Of the SMs."""
        return self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM)

    def temperature(self):
        """Of the chip, in degrees Celsius."""
        return self.nvml.nvmlDeviceGetTemperature(self.handle, self.nvml.NVML_TEMPERATURE_GPU)


def graph_of(torch, runs):
    """A CUDA graph of runs in turn, about `GRAPH_US` long; how many; how long [s]."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for run in runs:
        run()
    begin.record()
    for run in runs:
        run()
    end.record()
    torch.cuda.synchronize()
    each = max(1.0, begin.elapsed_time(end) * 1e3 / len(runs))
    number = max(1, min(1500, int(GRAPH_US / each)) // len(runs)) * len(runs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(number):
            runs[i % len(runs)]()
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return graph, number, begin.elapsed_time(end) * 1e-3


def sustained(torch, board, runs, seconds):
    """Time [us], energy [mJ], power [W] and clock [MHz] of a run while it repeats."""
    graph, number, graph_s = graph_of(torch, runs)
    for _ in range(max(1, int(WARM_UP_S / graph_s))):
        graph.replay()
    torch.cuda.synchronize()
    clocks, ended = [], threading.Event()

    def watch():
        while not ended.wait(0.1):
            clocks.append(board.clock_mhz())

    def until_it_changes():
        before, replays = board.energy_mj(), 0
        while board.energy_mj() == before:
            graph.replay()
            torch.cuda.synchronize()
            replays += 1
        return board.energy_mj(), time.perf_counter(), replays

    watcher = threading.Thread(target=watch)
    watcher.start()
    first_mj, start, _ = until_it_changes()
    replays = 0
    while time.perf_counter() - start < seconds:
        for _ in range(max(1, int(0.05 / graph_s))):
            graph.replay()
            replays += 1
        torch.cuda.synchronize()
    last_mj, stop, more = until_it_changes()
    ended.set()
    watcher.join()
    total = (replays + more) * number
    spent_mj = last_mj - first_mj
    clock = statistics.mean(clocks or [board.clock_mhz()])
    return (stop - start) * 1e6 / total, spent_mj / total, spent_mj / 1e3 / (stop - start), clock


def runs_of(torch, job):
    """What repeats."""
    what, m, n, k, name, data, copies = job
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.int8}
    kind = torch.float8_e4m3fn if name == "fp8" else kinds.get(name, torch.float32)

    def make(*sizes):
        if kind == torch.int8:
            return torch.randint(-127, 127, sizes, dtype=kind, device="cuda")
        filled = torch.randn if data == "randn" else torch.zeros
        return filled(*sizes, device="cuda").to(kind)

    if what != "gemm":
        inputs, result = [make(m) for _ in range(copies)], make(m)
        return [(lambda x=x: result.copy_(x)) if what == "copy" else (lambda x=x: torch.sum(x)) for x in inputs]
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    inputs, weights, one = make(m, k), [make(n, k) for _ in range(copies)], torch.ones((), device="cuda")

    def product(y):
        if name == "fp8":
            return torch._scaled_mm(inputs, y.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        return torch._int_mm(inputs, y.t()) if name == "int8" else torch.nn.functional.linear(inputs, y)

    return [lambda y=y: product(y) for y in weights]


def jobs():
    """Products of all formats, and what memory alone and L2 alone take; in a random order, always the same."""
    chosen, found = random.Random(3), []
    grid = list(itertools.product(ROWS, WIDE, WIDE))
    for name, count in COUNTS.items():
        for m, n, k in chosen.sample(grid, count):
            found.append(("gemm", max(m, 32) if name == "int8" else m, n, k, name, "randn", 6))
    found += [("gemm", 8192, 8192, 8192, "bf16", data, 6) for data in ("randn", "zeros")]
    found += [("gemm", 8, 28672, 8192, "bf16", data, 6) for data in ("randn", "zeros")]
    found += [("gemm", m, 4096, k, "bf16", "randn", 1) for m, k in ((8, 2048), (64, 4096))]
    found += [
        (what, size, 1, 1, "bf16", "randn", 6 if size == LONG else 1)
        for what in ("copy", "sum")
        for size in (LONG, SHORT)
    ]
    chosen.shuffle(found)
    return found


def main(arguments=None):
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, help="CSV to write")
    parser.add_argument("--rows", type=int, help="measure the first ones only")
    parser.add_argument("--seconds", type=float, default=2.6, help="length of each (default: 2.6)")
    arguments = parser.parse_args(arguments)
    import torch

    board, device = Board(), torch.cuda.get_device_name()
    torch.zeros(1, device="cuda")
    with open(arguments.output, "w", newline="", encoding="utf-8") as file, torch.no_grad():
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for job in jobs()[: arguments.rows]:
            try:
                time_us, energy_mj, power_w, clock = sustained(torch, board, runs_of(torch, job), arguments.seconds)
            except RuntimeError as error:
                sys.stderr.write(f"{job}: {str(error).splitlines()[0]}\n")
                continue
            figures = [f"{time_us:.3f}", f"{energy_mj:.5f}", f"{power_w:.1f}", f"{clock:.0f}", board.temperature()]
            table.writerow([device, *job, *figures])
            file.flush()
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
