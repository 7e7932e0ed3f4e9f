"""Random machines of three to eight levels, as users bring them: what first answers and bounds are measured on.

`python benchmarks/ladders.py 7` prints machine 7 as YAML.
"""

from __future__ import annotations

import random
import sys

ROLES = ("Weights", "Inputs", "Outputs")


def ladder(seed: int) -> str:
    """Return a machine as YAML: memories that shrink inwards, two or three networks, free choices of what is kept."""
    rng = random.Random(seed)
    count = 3 + seed % 6
    networks = set(rng.sample(range(count), min(count, rng.randint(2, 3))))
    size, energy = 2.0 ** rng.randint(20, 24), 160.0
    lines = ["architecture:", f"  name: ladder{seed}", "  clock: 1 GHz", "  levels:"]
    for index in range(count):
        level = [f"name: L{index}", f"class: {'SRAM' if index else 'DRAM'}", "word: 8 bit"]
        if index:
            size, energy = max(8.0, size / 2.0 ** rng.randint(2, 5)), max(0.2, energy / rng.uniform(1.5, 4.0))
            level.append(f"size: {int(size)} B")
            roles = rng.sample(ROLES, rng.randint(1, 2)) if rng.random() < 0.3 else list(ROLES)
            level.append(f"keep: [{', '.join(role for role in roles if rng.random() < 0.6)}]")
            level.append(f"bypass: [{', '.join(role for role in ROLES if role not in roles)}]")
        if rng.random() < 0.4 or not index:
            level.append(f"bandwidth: {2 ** rng.randint(3, 6)} B/cycle")
        if index in networks:
            level.append(f"fanout: {{x: {2 ** rng.randint(1, 4)}, y: {2 ** rng.randint(0, 3)}}}")
        level.append(f"energy: {{read: {energy:.3f} pJ, write: {energy * 1.1:.3f} pJ, source: random}}")
        lines.append(f"    - {{{', '.join(level)}}}")
    lines.append("  compute: {name: MAC, class: intmac, energy: {compute: 0.2 pJ, source: random}, cycles_per_mac: 1}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(ladder(int(sys.argv[1])))
