"""Fit the constants of attention, experts, collectives and products of narrow formats, as accelsim ships them.

    python benchmarks/gpu/fit_kernels.py ../shared/data/gpu/kernels [--only NAME]

Reads each table of the folder, and writes accelsim/gpu/kernels.json: the constants, the SHA-256 of the
tables, and those of the rooflines that `python -m validation.kernels attention TABLE` compares with, which has the
errors. With `--only`, kinds whose table has another name keep what the file has.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from accelsim.gpu.fitted import FILE, Fitted, shipped
from validation.kernel_fits import fit_sets, roofline_of, sources
from validation.kernels import read_kernels

ABOUT = {
    "about": "constants of kernels by stack, variant and family of GPUs; [stack, variant, family, GPUs, rows, values]",
    "script": "benchmarks/gpu/fit_kernels.py",
    "data": "aiconfigurator-core 0.12.0 (PyPI, Apache-2.0), samples of four GPUs",
}


def to_json(kinds: Mapping[str, tuple[Fitted, Mapping[str, str]]], about: Mapping[str, str]) -> str:
    """Text of the file of constants, a set a line; with each kind the table that it was fitted to."""
    lines = ["{", *(f" {json.dumps(name)}: {json.dumps(text)}," for name, text in about.items()), ' "kinds": {']
    for name, (fitted, source) in kinds.items():
        constants = list(fitted.sets[0].values)
        head = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in source.items())
        lines += [
            f"  {json.dumps(name)}: {{{head}, {json.dumps('constants')}: {json.dumps(constants)}, ",
            '   "sets": [',
        ]
        lines += [
            "    "
            + json.dumps([one.stack, one.variant, one.family, one.gpus, one.rows, list(one.values.values())])
            + ","
            for one in fitted.sets
        ]
        lines[-1] = lines[-1].removesuffix(",")
        lines.append("   ]},")
    lines[-1] = lines[-1].removesuffix(",")
    return "\n".join([*lines, " }", "}"]) + "\n"


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    kinds = (
        {name: (shipped(name), sources(name)) for name in json.loads(FILE.read_text())["kinds"]}
        if arguments.only
        else {}
    )
    for path in sorted(arguments.folder.glob("*.csv")):
        for table in read_kernels(path) if arguments.only in path.name else []:
            for kind in (table.kind, roofline_of(table.kind)):
                found = fit_sets(kind, table.rows)
                kinds[kind.name] = (found, {"table": path.name, "sha256": table.sha256})
                sys.stdout.write(f"{kind.name}: {len(found.sets)} sets of {len(kind.constants)} constants\n")
    FILE.write_text(to_json(dict(sorted(kinds.items())), ABOUT), encoding="utf-8")


if __name__ == "__main__":
    main()
