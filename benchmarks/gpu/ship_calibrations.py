"""Fit the calibrations that come with accelsim to public measurements, and write them into the package.

Needs the tables that aiconfigurator_gemm.py and neusight_gemm.py write:

    python benchmarks/gpu/ship_calibrations.py gemm_bf16.csv gemm_fp32.csv [--gpus a100_sxm_80gb]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from accelsim.gpu.calibration import FOLDER, calibrate
from accelsim.gpu.catalogue import find_gpu
from accelsim.gpu.measured import read_measured
from accelsim.inputs.library import hash_file

ABOUT = {
    "bf16": "aiconfigurator-core 0.12.0 (ai-dynamo, Apache-2.0): median over TensorRT-LLM, vLLM and SGLang, CUDA "
    "graphs, several copies of the weights in turn",
    "fp32": "NeuSight (MIT): FP32 products and batched products of PyTorch, TF32 off, launches outside CUDA graphs",
}


def main() -> None:
    """Fit and write each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--gpus", nargs="*", help="these alone")
    arguments = parser.parse_args()
    for path in arguments.tables:
        for table in read_measured(path):
            gpu = find_gpu(table.device)
            if gpu is None or (arguments.gpus and gpu.name not in arguments.gpus):
                continue
            source = {"file": path.name, "sha256": hash_file(path), "device": table.device}
            found = calibrate(gpu, table, {**source, "about": ABOUT[table.number_format]})
            (FOLDER / f"{found.gpu}_{found.kind}.json").write_text(found.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main()
