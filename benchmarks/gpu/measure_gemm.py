"""Measure matrix products with PyTorch; `python -m validation gemm` and `accelsim calibrate` read the table.

Self-contained: needs Python 3.9 and PyTorch only, nothing of accelsim.

    python measure_gemm.py -o measured.csv                        # all formats of the GPU, weights in turn
    python measure_gemm.py -o cold.csv --l2 cold --shapes 200     # L2 flushed before each product
    python measure_gemm.py -o few.csv --dtype bf16 --sizes 4096,4096,4096 1,8192,8192
    sudo nvidia-smi -lgc 1410                                     # before: lock the clock, where that is permitted

On a GPU each time is that of a CUDA graph that holds several products, over their number. Without one the products run
on the CPU, few and small, which tests the script. Inputs are normal random numbers: constants would draw less power.
"""

import argparse
import csv
import itertools
import random
import statistics
import subprocess
import sys
import time

COLUMNS = ["device", "M", "N", "K", "dtype", "time_us_median", "time_us_min", "time_us_max"]
COLUMNS += ["l2", "clock_mhz", "power_w"]
SIZES = [1, 2, 4, 8, 16, 17, 32, 64, 65, 128, 129, 192, 256, 257, 384, 512, 513, 768, 1024, 1025, 2048, 3072, 4096]
WIDE = [32, 64, 128, 256, 512, 1024, 2048, 2560, 4096, 5120, 8192, 11008, 16384, 28672]
CPU_SIZES = [1, 16, 64]
FLUSH_BYTES = 512 << 20
TARGET_US = 2000.0


def formats(torch, device):
    """Number formats by name that this device multiplies, as (dtype, whether TF32)."""
    found = {"fp32": (torch.float32, False)}
    if device == "cpu":
        return {**found, "bf16": (torch.bfloat16, False)}
    found["fp16"] = (torch.float16, False)
    if torch.cuda.get_device_capability()[0] >= 8:
        found.update(bf16=(torch.bfloat16, False), tf32=(torch.float32, True))
    if torch.cuda.get_device_capability() >= (7, 5) and hasattr(torch, "_int_mm"):
        found["int8"] = (torch.int8, False)
    if torch.cuda.get_device_capability() >= (8, 9) and hasattr(torch, "float8_e4m3fn"):
        found["fp8"] = (torch.float8_e4m3fn, False)
    return found


def make(torch, rows, columns, dtype, device):
    """A matrix of random numbers, small whole ones for INT8."""
    if dtype == torch.int8:
        return torch.randint(-9, 9, (rows, columns), dtype=dtype, device=device)
    return torch.randn(rows, columns, device=device).to(dtype)


def product(torch, name, inputs, weights, scale):
    """Multiply inputs [M, K] by weights [N, K], as a linear layer does."""
    if name == "int8":
        return torch._int_mm(inputs, weights.t())
    if name == "fp8":
        return torch._scaled_mm(inputs, weights.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
    return torch.nn.functional.linear(inputs, weights)


def time_on_cpu(run, repeats):
    """Times of single runs [us]."""
    run(0)
    found = []
    for i in range(repeats):
        start = time.perf_counter()
        run(i)
        found.append((time.perf_counter() - start) * 1e6)
    return found


def time_on_gpu(torch, run, copies, flush, repeats):
    """Times of a run [us], each the mean over a CUDA graph; where L2 is flushed, of single runs by events."""
    for i in range(3):
        run(i % copies)
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if flush is not None:
        found = []
        for i in range(repeats):
            flush.zero_()
            begin.record()
            run(i % copies)
            end.record()
            torch.cuda.synchronize()
            found.append(begin.elapsed_time(end) * 1e3)
        return found
    begin.record()
    run(0)
    end.record()
    torch.cuda.synchronize()
    once = max(1, int(TARGET_US / max(begin.elapsed_time(end) * 1e3, 1.0)))
    number = min(200, max(copies, once))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(number):
            run(i % copies)
    graph.replay()
    torch.cuda.synchronize()
    found = []
    for _ in range(repeats):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) * 1e3 / number)
    return found


def sensors():
    """Clock of the SMs [MHz] and board power [W], or empty where nvidia-smi says nothing."""
    query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        clock, power = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")[:2]
    except (OSError, subprocess.CalledProcessError, ValueError):
        return "", ""
    return clock, power


def shapes(arguments, device):
    """The sizes that were asked for, or a random choice of a grid, always the same."""
    if arguments.sizes:
        return [tuple(int(size) for size in text.split(",")) for text in arguments.sizes]
    if device == "cpu":
        return list(itertools.product(CPU_SIZES, CPU_SIZES, CPU_SIZES))
    grid = list(itertools.product(SIZES, WIDE, WIDE))
    return sorted(random.Random(0).sample(grid, min(arguments.shapes, len(grid))))


def measure(torch, device, name, dtype, size, arguments):
    """One row of the table, or None if the library has no kernel for it."""
    m, n, k = size
    copies = 1 if arguments.l2 == "warm" or device == "cpu" else arguments.copies
    flush = None
    if arguments.l2 == "cold" and device != "cpu":
        flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
    try:
        inputs = make(torch, m, k, dtype, device)
        weights = [make(torch, n, k, dtype, device) for _ in range(copies)]
        scale = torch.ones((), device=device)

        def run(i):
            return product(torch, name, inputs, weights[i % copies], scale)

        with torch.no_grad():
            if device == "cpu":
                times = time_on_cpu(run, arguments.repeats)
            else:
                times = time_on_gpu(torch, run, copies, flush, arguments.repeats)
    except RuntimeError as error:
        sys.stderr.write(f"{name} {m}x{n}x{k}: {str(error).splitlines()[0]}\n")
        return None
    label = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    clock, power = sensors() if device == "cuda" else ("", "")
    middle = statistics.median(times)
    figures = [f"{value:.4f}" for value in (middle, min(times), max(times))]
    return [label, m, n, k, name, *figures, arguments.l2, clock, power]


def main(arguments=None):
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, help="CSV to write")
    parser.add_argument("--dtype", nargs="*", help="number formats (default: all that the device multiplies)")
    parser.add_argument("--sizes", nargs="*", metavar="M,N,K", help="these products instead of a grid")
    parser.add_argument("--shapes", type=int, default=600, help="products of the grid for each format (default: 600)")
    states = ("rotating", "cold", "warm")
    parser.add_argument("--l2", choices=states, default=states[0], help="state of L2 (default: rotating)")
    parser.add_argument("--copies", type=int, default=6, help="copies of the weights in turn (default: 6)")
    parser.add_argument("--repeats", type=int, default=7, help="times that each is measured (default: 7)")
    arguments = parser.parse_args(arguments)
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    known = formats(torch, device)
    unknown = [name for name in arguments.dtype or [] if name not in known]
    if unknown:
        parser.error(f"{unknown[0]} is not multiplied here; formats: {', '.join(known)}")
    with open(arguments.output, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for name in arguments.dtype or known:
            dtype, tf32 = known[name]
            torch.backends.cuda.matmul.allow_tf32 = tf32
            for size in shapes(arguments, device):
                row = measure(torch, device, name, dtype, size, arguments)
                if row:
                    table.writerow(row)
                    file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
