"""Run ZigZag, in its own Python: paths of records as JSON on stdin, answers on stdout."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
import time
from pathlib import Path

import yaml
from zigzag.api import get_hardware_performance_zigzag  # type: ignore[import-not-found]


def search(path: str) -> dict[str, float]:
    """Least energy [pJ] for the machine and layer of a record, and processor time."""
    record = json.loads(Path(path).read_text())
    inputs = {"accelerator": record["accelerator_spec"], "mapping": record["mapping_spec"]}
    inputs["workload"] = [record["workload"]]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in inputs.items():
            Path(f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        files = {name: f"{name}.yaml" for name in inputs}
        limit = record["lpf_limit"]
        started = time.process_time()
        energy, _, _ = get_hardware_performance_zigzag(
            **files, opt="energy", lpf_limit=limit, dump_folder="out", loma_show_progress_bar=False
        )
        return {"value": energy, "seconds": time.process_time() - started}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(sys.stderr):
        answers = [search(path) for path in json.load(sys.stdin)]
    json.dump(answers, sys.stdout)
