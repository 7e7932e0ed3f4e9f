"""Fit the constants of attention, experts, collectives and products of narrow formats, as accelsim ships them.

    python benchmarks/gpu/fit_kernels.py ../shared/data/gpu/kernels [--only NAME]

Reads each table of the folder, and writes accelsim/gpu/kernels.json: the constants and the SHA-256 of the tables; and
validation/rooflines.json with those of the rooflines that `python -m validation.kernels attention TABLE` compares with,
which has the errors. With `--only`, kinds whose table has another name keep what the files have.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from accelsim.gpu.fitted import FILE, Fitted, shipped, shipped_kinds
from validation.kernel_fits import ROOFLINES, fit_sets, roofline_of, sources
from validation.kernels import read_kernels

ABOUT = {
    "about": "constants of kernels: [stack, variant, family, GPUs, rows, number of the wider set, its own constants]",
    "script": "benchmarks/gpu/fit_kernels.py",
    "data": "aiconfigurator-core 0.12.0 (PyPI, Apache-2.0), samples of four GPUs",
}


def to_json(kinds: Mapping[str, tuple[Fitted, Mapping[str, str]]], about: Mapping[str, str]) -> str:
    """Text of a file of constants, a set a line; with each kind the table that it was fitted to."""
    lines = ["{", *(f" {json.dumps(name)}: {json.dumps(text)}," for name, text in about.items()), ' "kinds": {']
    for name, (fitted, source) in kinds.items():
        head = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in source.items())
        lines.append(f'  {json.dumps(name)}: {{{head}, "sets": [')
        for one in fitted.sets:
            own = {each: one.values[each] for each in one.own}
            lines.append(f"    {json.dumps([one.stack, one.variant, one.family, one.gpus, one.rows, one.near, own])},")
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
    kinds: dict[Path, dict[str, tuple[Fitted, Mapping[str, str]]]] = {
        path: {name: (shipped(name, path), sources(name, path)) for name in shipped_kinds(path)}
        if arguments.only
        else {}
        for path in (FILE, ROOFLINES)
    }
    for path in sorted(arguments.folder.glob("*.csv")):
        for table in read_kernels(path) if arguments.only in path.name else []:
            for file, kind in ((FILE, table.kind), (ROOFLINES, roofline_of(table.kind))):
                found = fit_sets(kind, table.rows)
                kinds[file][kind.name] = (found, {"table": path.name, "sha256": table.sha256})
                own = sum(len(one.own) for one in found.sets)
                sys.stdout.write(f"{kind.name}: {len(found.sets)} sets, {own} constants\n")
                sys.stdout.flush()
    for file, found_kinds in kinds.items():
        file.write_text(to_json(dict(sorted(found_kinds.items())), ABOUT), encoding="utf-8")


if __name__ == "__main__":
    main()
