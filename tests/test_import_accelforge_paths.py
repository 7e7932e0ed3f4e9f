"""Paths of AccelForge's architectures: units inside the ladder, branches, and what serves which layers."""

import pytest

from accelsim.inputs.errors import InputError
from tests.conftest import said
from tests.test_import_accelforge import GEMM, MACHINE


def test_compute_units__of_layers_with_other_tensors_are_left_out(imported):
    """A unit for two tensors serves no GEMM; latencies are those of a bit, and `Main.tensors` is what Main keeps."""
    scalar = "  - !Compute\n    name: Scalar\n    enabled: len(All) == 2\n    actions: []\n"
    text = MACHINE.replace("  - !Container", scalar + "  - !Container").replace(
        "may_keep: ~Main}", "may_keep: ~Main.tensors}"
    )
    text = text.replace("throughput: 8 * 1e9", "latency: 1 / (8 * 1e9)").replace("throughput: 5e8", "latency: 2e-9")
    foreign = imported(text, GEMM)
    assert foreign.architecture == imported(MACHINE, GEMM).architecture
    assert "Scalar: serves no layer here: len(All) == 2" in said(foreign)
    with pytest.raises(InputError, match="one !Compute as the last node"):
        imported(MACHINE.replace("name: MAC", "name: MAC\n    enabled: len(All) == 2"), GEMM)


def test_a_unit_inside_the_ladder__is_the_last_node_of_its_layers(imported):
    """What lies beyond it, such as the array and its registers, serves other layers."""
    unit = "  - !Compute\n    name: Scalar\n    enabled: len(All) == 2\n    actions: [{name: compute, energy: 2e-12}]\n"
    machine = MACHINE.replace("  - !Container", unit + "    leak_power: 0\n  - !Container")
    machine = machine.replace("name: MAC", "name: MAC\n    enabled: len(All) == 3")
    relu = """
workload:
  rank_sizes: {M: 4, N: 6}
  einsums:
  - name: Relu
    tensor_accesses:
    - {name: A, projection: [m, n], bits_per_value: 8}
    - {name: Z, projection: [m, n], output: True, bits_per_value: 8}
"""
    foreign = imported(machine, relu)
    assert foreign.architecture["compute"]["name"] == "Scalar"
    whole = [level["name"] for level in imported(machine, GEMM).architecture["levels"]]
    names = [level["name"] for level in foreign.architecture["levels"]]
    assert names == whole[: len(names)]
    assert len(names) < len(whole)
    assert any(note.endswith("lies beyond Scalar, which computes") for note in said(foreign))
    both = GEMM + '  - {einsum: "Z[m, n] = Out[m, n]", iteration_space_shape: [0 <= n < 32]}\n'
    product = imported(machine, both)
    layers = {layer["name"]: layer.get("operation") for layer in product.workload["layers"]}
    assert layers == {"Out": None, "Z": "activate"}
    (unit,) = product.architecture.pop("vector_units")
    assert product.architecture == imported(machine, GEMM).architecture
    assert (unit["name"], unit["below"], unit["operations"]) == ("Scalar", names[-1], {"activate": 1})
    assert unit["energy"]["compute"] == "2 pJ"
    small = "  - !Memory {name: Small, enabled: len(All) == 2, size: 64, tensors: {keep: All}}\n"
    left = imported(machine.replace("  - !Compute\n    name: Scalar", small + "  - !Compute\n    name: Scalar"), both)
    assert [layer["name"] for layer in left.workload["layers"]] == ["Out"]
    what = "enabled: layers of 2 tensors are left out: other nodes serve them than those of 3"
    assert what in said(left)


BUFFER = MACHINE.index("  - !Memory\n    name: Buffer")
"""Where the nodes from the buffer on begin."""


def forked(tag: str, enabled: str) -> str:
    """The machine with its nodes from the buffer on below a branch, and another unit behind it."""
    below = "".join(f"    {line}\n" for line in MACHINE[BUFFER:].splitlines())
    below = below.replace("name: MAC", "name: MAC\n" + enabled)
    free = "component_class: Dummy, leak_power: 0, actions: []"
    small = f"  - !Memory {{name: Small, size: 64, tensors: {{keep: All}}, {free}}}\n"
    works = "actions: [{name: compute, energy: 1e-12, latency: 1e-9}]"
    other = f"  - !Compute {{name: Other, enabled: len(Extra) > 0, {works}}}\n"
    hierarchy = below if tag == "Fork" else "    - !Hierarchical\n      nodes:\n" + below
    return MACHINE[:BUFFER] + f"  - !{tag}\n    nodes:\n" + hierarchy + small + other


@pytest.mark.parametrize("tag", ["Fork", "Parallel"])
def test_branch__is_the_machine_if_its_unit_serves_the_layers(imported, tag):
    foreign, whole = imported(forked(tag, ""), GEMM), imported(MACHINE, GEMM)
    assert (foreign.architecture, foreign.constraints) == (whole.architecture, whole.constraints)
    assert {"Small: lies on another branch than MAC", "Other: lies on another branch than MAC"} <= set(said(foreign))


def test_branch__whose_unit_serves_no_layer_is_left_out(imported):
    machine = forked("Fork", "        enabled: len(All) == 2\n").replace("len(Extra) > 0", "len(A) > 0")
    foreign = imported(machine, GEMM)
    assert [level["name"] for level in foreign.architecture["levels"]] == ["Main", "Small"]
    assert foreign.architecture["compute"]["name"] == "Other"
    assert "Buffer: lies on another branch than Other" in said(foreign)


def test_formulas__of_what_units_serve_are_not_run(imported):
    with pytest.raises(InputError, match="more than arithmetic"):
        imported(forked("Fork", "").replace("len(Extra) > 0", "open(All)"), GEMM)


OF_2025 = """
variables: {wide: 4 * 16}
arch:
  nodes:
  - !Memory
    name: Main
    attributes: {_size: inf, _leak_power: 0.002, _latency: (read_actions + write_actions) / 8e9}
    actions:
    - {name: read, arguments: {energy: 2e-12}}
    - {name: write, arguments: {energy: 3e-12}}
    constraints: {tensors: {keep: ~Intermediates, may_keep: All}}
  - !Memory
    name: Buffer
    attributes:
      {_size: width * depth, depth: 2 * rows, rows: 64, width: wide, _total_latency: "max(read_latency, write_latency)"}
    actions:
    - {name: read, arguments: {_energy: 64e-12, _latency: 1e-9, _bits_per_action: width}}
    - {name: write, arguments: {_energy: 32e-12, _latency: 0.5e-9, _bits_per_action: width}}
    constraints: {tensors: {keep: input | output, may_keep: ~Main}, dataflow: {tensor_order_options: [[All]]}}
  - !Memory
    name: PE
    attributes: {_size: 0, _area: 0, _leak_power: 0, _energy: 0}
    spatial: [{name: columns, fanout: 4, reuse: All}, {name: rows, fanout: 2}]
    constraints:
      tensors: {keep: Nothing}
      spatial:
      - {name: columns, must_reuse: input, min_utilization: 1 if len(All) > 2 else 0}
      - {name: rows, loop_bounds: [{expression: ~k, operator: ==, value: 1}]}
      - {name: planes, must_reuse: input}
  - !Memory
    name: Register
    attributes: {_size: 8, _energy: 0}
    constraints: {tensors: {keep: weight}}
  - !Compute
    name: MAC
    attributes: {_latency: max(compute_actions / 5e8)}
    actions: [{name: compute, arguments: {energy: 1e-12}}]
    constraints: {misc: {enabled: len(All) == 3}}
"""


def test_nodes__of_2025_are_read_as_those_since(imported):
    older, newer = imported(OF_2025, GEMM), imported(MACHINE, GEMM)
    assert (older.architecture, older.constraints) == (newer.architecture, newer.constraints)
    left = {"dataflow: is not asked for here", "must_reuse: is left out: PE has no such axis"}
    assert left <= set(said(older))


def test_width_of_words__that_a_node_of_2025_has_scales_its_energies(imported):
    """Accesses are values times the node's datawidth over the bits of an action: 4 of the 8 bit of inputs."""
    older = imported(OF_2025.replace("_size: width * depth", "_size: width * depth, _datawidth: 4"), GEMM)
    whole = imported(OF_2025, GEMM).architecture["levels"][1]["energy"]["read"]
    read = older.architecture["levels"][1]["energy"]["read"]
    assert (whole, read["Inputs"], read["Outputs"]) == ("8 pJ", "4 pJ", "2 pJ")


def test_keys__that_are_nearly_known_ones_are_refused(imported):
    """Each was noted and left out, so that a memory was unlimited, leaked nothing or kept all."""
    wrong = {"tensors: {keep: weight}": "tensors: {Keep: weight}", "leak_power: 0.002": "leakpower: 0.002"}
    for right, misspelt in wrong.items():
        key = misspelt.rpartition(": ")[0].rpartition("{")[2]
        with pytest.raises(InputError, match=f"{key}: unknown key; did you mean '{right.split(': ')[-2].strip('{')}'"):
            imported(MACHINE.replace(right, misspelt), GEMM)
    assert "cooling: is not read" in said(
        imported(MACHINE.replace("    name: Buffer", "    name: Buffer\n    cooling: 1"), GEMM)
    )


def test_projections__may_have_numbers(imported):
    """A tensor is read at one place of such a rank, and no loop moves it there."""
    table = """
workload:
  rank_sizes: {M: 8, N: 32, K: 16}
  einsums:
  - name: Out
    tensor_accesses:
    - {name: A, projection: {M: m, K: k, B: "0"}}
    - {name: B, projection: [k, n + 1, 0]}
    - {name: Out, projection: [m, n], output: true}
    renames: {weight: B, input: A, output: Out}
"""
    plain = table.replace(', B: "0"', "").replace("n + 1, 0", "n")
    assert imported(MACHINE, table).workload == imported(MACHINE, plain).workload
