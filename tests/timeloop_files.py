"""Files of Timeloop for tests: a machine in both versions, a problem, a mapping and energies; its own, if there."""

import os
from pathlib import Path

import pytest

from accelsim.importers.foreign import Foreign
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.mapping import load_mapping
from accelsim.inputs.workload_reader import load_workload

SHARED = Path(os.environ.get("ACCELSIM_SHARED") or Path(__file__).parents[2] / "shared") / "foreign"


needs_files = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED}, with Timeloop's own files, is absent")


PROBLEM = """
problem:
  shape:
    name: conv1d
    dimensions: [K, R, P]
    coefficients: [{name: Stride, default: 2}]
    data_spaces:
    - {name: Weights, projection: [[[K]], [[R]]]}
    - {name: Inputs, projection: [[[R], [P, Stride]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read_write: true}
  instance: {K: 4, R: 3, P: 8, densities: {Inputs: 0.5}}
"""


V04 = """
variables: {version: 0.4, BITS: 8, technology: 45nm, global_cycle_seconds: 1e-9}
architecture:
  nodes:
  - !Container
    name: system
  - !Component
    name: Main
    class: DRAM
    attributes: &main {width: 64, datawidth: BITS}
  - !Component
    name: Buffer
    class: SRAM
    attributes: {<<: *main, depth: 2 ** 9, read_bandwidth: 16, update_fifo_depth: 2}
    constraints:
      dataspace: {keep: [Inputs, Outputs], bypass: [Weights]}
      temporal: {factors: [R=1, K<=2], permutation: [P, K]}
  - !Container
    name: Column
    spatial: {meshX: "max(2, BITS // 4)"}
    constraints:
      spatial: {factors: [R=1, P=1], permutation: [K, R, P], split: 3}
  - !Container
    name: Row
    spatial: {meshY: 3}
  - !Parallel
    nodes:
    - !Component
      name: Spad
      class: regfile
      attributes: {depth: 16, width: 8, datawidth: 8}
      constraints: {dataspace: {keep: [Weights]}}
    - !Component
      name: Sums
      class: regfile
      attributes: {depth: 16, width: datawidth * 2, datawidth: 16}
      constraints: {dataspace: {keep: [Outputs]}}
    - !Nothing
  - !Component
    name: MAC
    class: intmac
    attributes: {multiplier_width: BITS}
"""


V03 = """
architecture:
  version: 0.3
  subtree:
  - name: system
    attributes: {technology: 45nm}
    local:
    - {name: Main, class: DRAM, attributes: {width: 64, block-size: 8, word-bits: 8}}
    subtree:
    - name: chip
      local:
      - {name: Buffer, class: SRAM, attributes: {memory_depth: 512, memory_width: 64, word_bits: 8}}
      subtree:
      - name: PE[0..5]
        local:
        - {name: Spad, class: regfile, attributes: {depth: 16, width: 8, word_bits: 8, meshX: 2}}
        - {name: MAC, class: intmac, attributes: {datawidth: 8, meshX: 2}}
"""


MAPPING = """
mapping:
- {target: Main, type: temporal, factors: K=2 P=0, permutation: PKR}
- {target: Buffer, type: spatial, factors: K=2 R=3, permutation: "K PR", split: 2}
- {target: Buffer, type: bypass, keep: [Inputs, Outputs], bypass: [Weights]}
- {target: Spad, type: temporal, factors: "P2 R1", permutation: RPK}
"""


ERT = """
ERT:
  tables:
  - {name: "system.Main[1..1]", actions: [{name: read, energy: 512.0}, {name: write, energy: 500.5}]}
  - {name: "system.chip.Buffer[1..1]", actions: [{name: read, energy: 4.0}, {name: write, energy: 5.0},
      {name: update, energy: 6.0}, {name: leak, energy: 7.972e-06}]}
  - {name: "system.chip.PE[0..5].Spad", actions: [{name: read, arguments: {data_delta: 0}, energy: 0.1},
      {name: read, arguments: {data_delta: 1}, energy: 0.25}, {name: write, energy: 0.5}]}
  - {name: "system.chip.PE[0..5].MAC", actions: [{name: mac_gated, energy: 0.1}, {name: mac_random, energy: 0.75}]}
"""


STATISTICS = """Cycles: 48
=== MAC ===
    Instances             : 6 (2*3)
    Computes (total)      : 96
    Energy (total)        : 1.5e+01 pJ
=== Spad ===
    Vector read energy    : 0.25 pJ
    Instances             : 6 (2*3)
    Cluster size          : 1
    Weights:
        Utilized clusters (max)                  : 3
        Scalar reads (per-instance)              : 8
        Actual scalar format reads (per-instance):
          Rank 0 (metadata, payload): (2, 3)
        Energy (total)                           : 8.00 pJ
"""


def loaded(foreign: Foreign):
    architecture = load_architecture({"architecture": foreign.architecture})
    einsum = load_workload({"workload": foreign.workload}).layers[0]
    mapping = foreign.mapping and load_mapping({"mapping": foreign.mapping}, architecture, einsum)
    asked = foreign.constraints and load_constraints({"constraints": foreign.constraints}, architecture, einsum)
    return architecture, einsum, mapping, asked


def references() -> list:
    """Timeloop's statistics, with the files that it was given."""
    found = []
    for path in sorted((SHARED / "timeloop").rglob("*.stats.txt")):
        found.append(
            (
                path,
                [
                    path.parent / "parsed-processed-input.yaml",
                    *path.parent.glob("*.ERT.yaml"),
                    *path.parent.glob("*.map.yaml"),
                ],
            )
        )
    for path in sorted((SHARED / "sparseloop/table7_eyeriss_setup/dense_outputs").rglob("*.stats.txt")):
        found.append((path, [path.parents[1] / "aggregated_input.yaml", path.parents[1] / "ERT.yaml"]))
    return found
