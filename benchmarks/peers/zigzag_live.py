"""Run ZigZag, in its own Python: paths of records, or keywords of its API, as JSON on stdin, answers on stdout.

An answer has the mapping as it was before loops that leave a tile in place were moved into it: loops of each memory,
innermost first, by operand, and those over the array.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from zigzag.api import get_hardware_performance_zigzag  # type: ignore[import-not-found]


def search(path: str) -> dict[str, Any]:
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
        kind = record.get("temporal_mapping_type", "uneven")
        energy, _, found = get_hardware_performance_zigzag(
            **files,
            opt="energy",
            lpf_limit=limit,
            temporal_mapping_type=kind,
            dump_folder="out",
            loma_show_progress_bar=False,
        )
        seconds = time.process_time() - started
    best = found[0][1][0][0]
    loops = best.temporal_mapping.mapping_dic_origin.items()
    temporal = {
        str(operand): [[[str(dim), float(bound)] for dim, bound in memory] for memory in memories]
        for operand, memories in loops
    }
    return {"value": energy, "seconds": seconds, "temporal": temporal, "spatial": str(best.layer.spatial_mapping)}


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Energy [pJ] and cycles of files; what ZigZag writes of each layer is left in `dump_folder`."""
    energy, cycles, *_ = get_hardware_performance_zigzag(**request, opt="energy", loma_show_progress_bar=False)
    return {"value": energy, "cycles": cycles}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(sys.stderr):
        answers = []
        for asked in json.load(sys.stdin):
            try:
                answers.append(run(asked) if isinstance(asked, dict) else search(asked))
            except Exception as error:
                answers.append({"error": f"{type(error).__name__}: {error}"[:200]})
    json.dump(answers, sys.stdout)
