"""AccelForge's files as documents of our kinds."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim import load_architecture, load_constraints, load_mapping, load_workload
from accelsim.importers.foreign import read_foreign
from accelsim.importers.values import axis_products
from accelsim.inputs.architecture import Axis
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.model.evaluate import evaluate
from accelsim.search.mapper import map_einsum
from tests.conftest import ask_peer, said

MACHINE = """
variables: {wide: 4 * 16}
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0.002
    actions:
    - {name: read, energy: 2e-12, throughput: 8 * 1e9}
    - {name: write, energy: 3e-12, throughput: 8 * 1e9}
    tensors: {keep: ~Intermediates, may_keep: All}
  - !Memory
    name: Buffer
    size: 1024 * 8
    total_latency: max(a.n_calls / a.throughput for a in actions)
    actions:
    - {name: read, energy: 64e-12, throughput: 1e9, bits_per_action: wide}
    - {name: write, energy: 32e-12, throughput: 2e9, bits_per_action: wide}
    tensors: {keep: input | output, may_keep: ~Main}
  - !Container
    name: PE
    spatial:
    - {name: columns, fanout: 4, reuse: input, min_usage: 1}
    - {name: rows, fanout: 2, loop_bounds: [{expression: ~k, operator: ==, value: 1}]}
  - !Memory
    name: Register
    size: weight.bits_per_value if weight else 1
    component_class: Dummy
    tensors: {keep: weight}
  - !Compute
    name: MAC
    actions: [{name: compute, energy: 1e-12, throughput: 5e8}]
"""
BELOW = "- !Toll {name: T, component_class: Dummy, tensors: {keep: weight}, direction: "
"""A part below the register, but for its direction."""
GEMM = """
workload:
  rank_sizes: {K: 16}
  iteration_space_shape: {m: 0 <= m < 4 * 2}
  bits_per_value: {All: 8, output: 16}
  einsums:
  - einsum: "Out[m, n] = A[m, k] * B[k, N: n]"
    iteration_space_shape: [0 <= n < 32]
    renames: {weight: B, input: A, output: Out}
"""


def machine_of(foreign):
    return load_architecture({"architecture": foreign.architecture})


def layers_of(foreign):
    return load_workload({"workload": foreign.workload}).layers


def test_size__of_a_formula_over_widths_says_for_which_values_it_is(imported):
    note = "size: of Register is worked out for values of 8 bit; import it with a workload that has others"
    assert note in said(imported(MACHINE))
    assert note not in said(imported(MACHINE, GEMM))


@pytest.mark.parametrize("widths", [(4, 16), (16, 4)])
def test_formulas__have_the_bits_of_the_widest_layer(imported, widths):
    """A register for a weight has room for one of each of two layers."""
    first, second = widths
    more = GEMM.replace("{All: 8, output: 16}", f"{{All: 8, output: 16, B: {first}, B2: {second}}}")
    more += """  - einsum: "Out2[m, n] = A2[m, k] * B2[k, N: n]"
    iteration_space_shape: [0 <= n < 32]
    renames: {weight: B2, input: A2, output: Out2}
"""
    foreign = imported(MACHINE, more)
    bits = [layer.tensor(name).bits for layer, name in zip(layers_of(foreign), ("B", "B2"), strict=True)]
    assert (bits, foreign.architecture["levels"][2]["size"]) == ([first, second], "16 bit")


def test_memory__is_a_level_in_words_and_cycles_of_the_compute_units(imported):
    """At 500 MHz, 8 Gbit/s are 2 words of 8 bit a cycle; 2 mW are 4 pJ a cycle; 64 pJ for 64 bit are 8 pJ a word."""
    foreign = imported(MACHINE, GEMM)
    machine = machine_of(foreign)
    main, buffer, register = machine.levels
    assert machine.clock_hz == 5e8
    assert [level.word_bits for level in machine.levels] == [8, 8, 8]
    assert (main.bandwidth, buffer.read_bandwidth, buffer.write_bandwidth) == (2, 16, 32)
    assert (main.size_words, buffer.size_words, register.size_words) == (None, 1024, 1)
    find = machine.energy.find
    assert [find("Main", "*", action).energy_pj for action in ("read", "write", "leak")] == [16, 24, 4]
    assert [find("Buffer", "*", action).energy_pj for action in ("read", "write", "leak")] == [8, 4, 0]
    assert [find("Register", "Weights", "read").energy_pj, find("MAC", "*", "compute").energy_pj] == [0, 1]
    assert (buffer.keep, buffer.bypass) == ({"Inputs", "Outputs"}, {"Weights"})
    assert (register.keep, register.bypass) == ({"Weights"}, {"Inputs", "Outputs"})
    assert (buffer.x, buffer.y, main.x) == (Axis(4), Axis(2), Axis())


def test_spatial__allows_loops_that_reuse_the_tensor(imported):
    foreign = imported(MACHINE, GEMM)
    asked = load_constraints({"constraints": foreign.constraints}, machine_of(foreign), layers_of(foreign)[0]).of(
        "Buffer"
    )
    assert (asked.x.only, asked.y.only) == ({"n"}, {"k"})
    assert [str(factor) for factor in asked.x.factors] == ["n>=4"]  # all of min_usage: 1


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ("min_usage: 1", "min_usage: 0.6", "x n>=3"),
        (
            "reuse: input, min_usage: 1",
            "loop_bounds: [{expression: 'm | n', operator: product<=, value: 3}]",
            "x m*n<=3",
        ),
        ("operator: ==, value: 1", "operator: <, value: 3", "y m<=2 n<=2"),
        ("fanout: 4, reuse: input", "fanout: 12, reuse: weight", "x m>=8"),  # as many as 8 rows can use
    ],
)
def test_spatial__bounds_products_of_loops(imported, old, new, asked):
    foreign = imported(MACHINE.replace(old, new), GEMM)
    constraints = load_constraints({"constraints": foreign.constraints}, machine_of(foreign), layers_of(foreign)[0])
    block = getattr(constraints.of("Buffer"), asked[0])
    assert [str(each) for each in (*block.factors, *block.products)] == asked.split()[1:]


def test_spatial__multicasts_what_may_be_reused(imported):
    text = MACHINE.replace("fanout: 4, reuse: input", "fanout: 4, may_reuse: input | weight")
    level = machine_of(imported(text.replace("fanout: 2,", "fanout: 2, may_reuse: Nothing,"), GEMM)).levels[1]
    assert (level.x.multicast, level.x.spatial_reduction) == ({"Inputs", "Weights"}, False)
    assert (level.y.multicast, level.y.spatial_reduction) == (frozenset(), False)


def test_einsum__has_sizes_of_ranks_and_of_its_own_variables(imported):
    (layer,) = layers_of(imported(GEMM))
    assert layer.dims == {"m": 8, "n": 32, "k": 16}
    assert {tensor.name: (tensor.role, tensor.bits) for tensor in layer.tensors} == {
        "Out": ("Outputs", 16),
        "A": ("Inputs", 8),
        "B": ("Weights", 8),
    }


def test_einsums__are_linked_by_their_tensors_and_roles_come_from_sets(imported):
    text = """
workload:
  rank_sizes: {C: 3, K: 4}
  bits_per_value: {All: 8, weight - Intermediates: 4}
  n_instances: 2
  einsums:
  - name: conv
    tensor_accesses:
    - {name: I, projection: {C: c, H: p * 2 + r}}
    - {name: W, projection: [c, k, r]}
    - {name: T, projection: [k, p], output: True}
    renames: {input: I}
    iteration_space_shape: [0 <= p < 5, 0 <= r < 3]
  - {einsum: "U[k, p] = T[k, p]", is_copy_operation: True, shape: 0 <= p < 5}
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: input, source: Inputs & Intermediates if len(All) == 3 else Inputs}
    - {name: output, source: Outputs()}
    - {name: weight, source: ~(input | output)}
"""
    foreign = imported(text)
    workload = load_workload({"workload": foreign.workload})
    conv, copy = workload.layers
    assert {tensor.name: (tensor.role, tensor.bits) for tensor in conv.tensors} == {
        "I": ("Inputs", 8),
        "W": ("Weights", 4),
        "T": ("Outputs", 8),
    }
    assert conv.tensors[0].ranks == ((("c", 1),), (("p", 2), ("r", 1)))
    assert (conv.repeat, copy.name, copy.dims) == (2, "U", {"k": 4, "p": 5})
    assert [(edge.producer, edge.consumer, edge.tensor) for edge in workload.edges] == [("conv", "U", "T")]
    assert "U: a copy: accelsim counts a MAC for each of its words" in said(foreign)
    head, _, _ = text.partition("    - {name: input, source: Inputs &")
    rest = "output: Outputs, weight: ~(input | output)}"
    mapped = f"      {{input: Inputs & Intermediates if len(All) == 3 else Inputs, {rest}\n"
    assert imported(head + mapped).workload == foreign.workload
    for old, new in (
        ("source: Outputs", "sorce: Outputs"),
        ("tensor_accesses:\n    - {name: i", "tensor_acceses:\n    - {name: i"),
    ):
        with pytest.raises(InputError, match="unknown key; did you mean"):
            imported(text.replace(old, new))


def test_export__writes_a_proved_mapping_that_reads_back_to_the_same_bytes(run, tmp_path, monkeypatch):
    """Uneven or not; the mapping that `import` makes of it has the energy and cycles of the optimum."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, text in {"arch": MACHINE, "gemm": GEMM}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    own = [tmp_path / "arch.yaml", tmp_path / "gemm.yaml"]
    for more in ([], ["--mapspace", "uneven"]):
        assert run("map", *own, *more, "--quiet", "--no-cache", "-o", tmp_path / "run")[0] == 0
        best = json.loads((tmp_path / "run/result.json").read_text())["result"]
        code, out, err = run("export", "accelforge", *own, tmp_path / "run/mapping.yaml", "-o", tmp_path / "out")
        assert (code, out) == (0, f"{tmp_path}/out/mapping.yaml\n"), err
        written = (tmp_path / "out/mapping.yaml").read_bytes()
        assert run("import", *own, tmp_path / "out/mapping.yaml", "-o", tmp_path / "back")[0] == 0
        found = json.loads(run("eval", *own, tmp_path / "out/mapping.yaml", "--json")[1])["result"]
        assert (found["energy_pj"], found["cycles"]) == (best["energy_pj"], best["cycles"])
        assert run("export", "accelforge", *own, tmp_path / "back/mapping.yaml", "-o", tmp_path / "again")[0] == 0
        assert (tmp_path / "again/mapping.yaml").read_bytes() == written


def test_export__refuses_what_accelforge_has_no_form_for(run, tmp_path):
    for name, text in {"arch": MACHINE, "gemm": GEMM}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    keep = "keep: [A, Out]"
    ragged = (
        f"mapping: {{imperfect: [n], levels: [{{level: Main, temporal: [m=8, k=16, n=5]}}, {{level: Buffer, {keep}}}, "
    )
    (tmp_path / "map.yaml").write_text(ragged + "{level: Register, keep: [B], temporal: [n=7]}]}")
    own = [tmp_path / "arch.yaml", tmp_path / "gemm.yaml"]
    code, _, err = run("export", "accelforge", *own, tmp_path / "map.yaml", "-o", tmp_path / "out")
    assert (code, "AccelForge has no form for loops with remainders" in err) == (2, True), err
    assert "expected AccelForge's architecture and workload" in run("export", "accelforge", *own)[2]


def test_mapping__of_one_einsum_keeps_tensors_where_it_stores_them(imported):
    mapping = """
mapping:
  nodes:
  - !Storage {tensors: [A, B, Out], component: Main}
  - !Temporal {rank_variable: k, tile_shape: 4}
  - !Storage {tensors: [A], component: Buffer}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [Out], component: Buffer}
  - !Spatial {rank_variable: n, tile_shape: 8, name: columns, component: PE}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Storage {tensors: [B], component: Register}
  - !Compute {einsum: Out, component: MAC}
"""
    foreign = imported(MACHINE, GEMM, mapping)
    machine, (layer,) = machine_of(foreign), layers_of(foreign)
    read = load_mapping({"mapping": foreign.mapping}, machine, layer)
    assert [(level.level, level.keep) for level in read.levels] == [
        ("Main", {"A", "B", "Out"}),
        ("Buffer", {"A"}),
        ("Buffer", {"Out"}),
        ("Register", set()),
        ("Register", {"B"}),
    ]
    assert [list(map(str, (*level.temporal, *level.x))) for level in read.levels] == [
        ["k=4"],
        ["m=8"],
        ["n=4"],
        ["n=8", "k=4"],
        [],
    ]
    assert evaluate(machine, layer, read).valid
    dumped = re.sub(r"!\w+ ", "", mapping.replace("mapping:", "").replace("}", ", persistent: false}"))
    assert imported(MACHINE, GEMM, f"{dumped}  - {{purposes: [B], resource: Register}}\n").mapping == foreign.mapping
    fused = imported(MACHINE, GEMM, mapping.replace("- !Compute", "- !Sequential {nodes: []}\n  - !Compute"))
    assert fused.mapping is None
    assert "mapping: holds several Einsums; a mapping here is of one" in said(fused)
    spread = imported(MACHINE, GEMM, mapping.replace("name: columns", "name: diagonals"))
    assert spread.mapping is None
    assert "n: is spread where the machine has no fanout; the mapping is left out" in said(spread)


def test_mapping__spreads_loops_below_a_memory_that_keeps_nothing(imported):
    mapping = """
mapping:
  nodes:
  - !Storage {tensors: [A, B, Out], component: Main}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Spatial {rank_variable: n, tile_shape: 8, name: columns, component: PE}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Storage {tensors: [B], component: Register}
  - !Temporal {rank_variable: m, tile_shape: 1}
"""
    free = MACHINE.replace("{keep: input | output, may_keep: ~Main}", "{may_keep: All}")
    foreign = imported(free, GEMM, mapping)
    assert foreign.mapping["levels"] == [
        {"level": "Main", "keep": ["A", "B", "Out"], "temporal": ["k=16"]},
        {"level": "Buffer", "keep": [], "spatial": {"x": ["n=4"]}},
        {"level": "Register", "keep": [], "temporal": ["n=8"]},
        {"level": "Register", "keep": ["B"], "temporal": ["m=8"]},
    ]
    assert evaluate(*foreign.loaded()).valid


def test_export__places_nodes_outside_loops_that_leave_their_tile(run, tmp_path):
    """AccelForge brings a tile anew in each step of the loops outside its node; if it is installed, energies agree."""
    nest = "mapping: {levels: [{level: Main}, {level: Buffer, keep: [A, Out], temporal: [k=8, n=8, m=8], "
    nest += "spatial: {x: [n=4], y: [k=2]}}, {level: Register, keep: [B]}]}"
    files = [tmp_path / name for name in ("arch.yaml", "gemm.yaml", "ours.yaml", "out/mapping.yaml")]
    machine = re.sub("(name: (?:Buffer|MAC))", r"\1\n    leak_power: 0\n    area: 0", MACHINE)
    machine = machine.replace("name: Main", "name: Main\n    area: 0")
    for path, text in zip(files, (machine, GEMM.replace(", output: 16", ""), nest), strict=False):
        path.write_text(text)
    assert run("export", "accelforge", *files[:3], "-o", tmp_path / "out")[0] == 0
    assert re.findall(r"tensors: (\[.*\])|rank_variable: (\w)|einsum: (\w+)", files[3].read_text()) == [
        ("[Out, A, B]", "", ""), ("[Out, A]", "", ""), ("", "n", ""), ("", "k", ""), ("", "k", ""), ("", "n", ""),
        ("[B]", "", ""), ("", "m", ""), ("", "", "Out"),
    ]  # fmt: skip
    if answer := ask_peer("accelforge", {"files": [str(path) for path in (*files[:2], files[3])]}):
        ours = json.loads(run("eval", *files[:3], "--json")[1])["result"]
        assert answer["energy"] * 1e12 == pytest.approx(ours["energy_pj"], rel=1e-6)


def test_min_usage__of_axes_that_share_a_dimension_asks_for_what_they_reach_together(imported):
    rows = "{name: rows, fanout: 2, loop_bounds: [{expression: ~k, operator: ==, value: 1}]}"
    machine = MACHINE.replace(rows, "{name: rows, fanout: 16, reuse: input, min_usage: 1}")
    asked = imported(machine, GEMM.replace("n < 32", "n < 24")).constraints["levels"][0]["spatial"]
    assert [asked[axis]["factors"] for axis in "xy"] == [["n>=4"], ["n>=6"]]
    assert machine_best(imported(machine, GEMM.replace("n < 32", "n < 24"))) == {"n": 24}


def machine_best(foreign) -> dict[str, int]:
    """Loops in space of the best mapping."""
    machine, (layer,) = machine_of(foreign), layers_of(foreign)
    constraints = load_constraints({"constraints": foreign.constraints}, machine, layer)
    best = map_einsum(machine, layer, constraints=constraints, uneven=False).best.mapping
    spread: dict[str, int] = {}
    for loop in (loop for level in best.levels for loop in (*level.x, *level.y)):
        spread[loop.dim] = loop.bound * spread.get(loop.dim, 1)
    return spread


@given(st.lists(st.tuples(st.integers(1, 24), st.sampled_from([(), (0,), (1,), (0, 1)])), max_size=3))
def test_products__are_those_of_all_ways_to_lay_loops_on_axes(bounds):
    rooms = (6, 4)
    expected = set()
    for chosen in itertools.product(*(list(itertools.product(range(1, 7), range(1, 5))) for _ in bounds)):
        lies = all(
            bound % (x * y) == 0 and (x == 1 or 0 in axes) and (y == 1 or 1 in axes)
            for (bound, axes), (x, y) in zip(bounds, chosen, strict=True)
        )
        products = tuple(math.prod(each[axis] for each in chosen) for axis in (0, 1))
        if lies and products[0] <= rooms[0] and products[1] <= rooms[1]:
            expected.add(products)
    assert axis_products(tuple(bounds), rooms) == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("!Container", "!Toll", "no energies of PE (without a component_class): hwcomponents "),
        ("name: columns, fanout: 4", "name: columns, fanout: 4, usage_scale: 0", "expected a number from 1 on, got 0"),
        (
            "{keep: weight}\n",
            f"{{keep: weight}}\n  {BELOW}sideways}}\n",
            "'sideways' is none of up, down, up",
        ),
        ("!Container", "!Array", "!Array: accelsim's levels are a ladder"),
        ("!Compute", "!Memory", "expected a !Memory first, and one !Compute as the last node"),
        ("fanout: 4", "fanout: 4.5", "expected a whole number from 1 on, got '4.5'"),
        ("keep: weight", "keep: wait", "'wait': wait is no set of tensors; sets: All, "),
        ("keep: weight", "keep: [weight, wait]", "'weight | wait': wait is no set of tensors; sets: All, "),
        ("keep: weight", "keep: weight.x()", "'weight.x()' is no expression of sets of tensors"),
        ("size: 1024 * 8", "size: open('f')", "open('f')"),
        ("keep: ~Intermediates, may_keep: All", "keep: input", "Main does not keep all tensors"),
        ("[m, k]", "[m, j]", "the rank variable j has no size"),
        ("[m, k]", "[m, k * m]", "'k * m' is no rank variable with a factor"),
        ("0 <= n < 32", "1 < n < 32", "'1 < n < 32' is no range such as 0 <= m < 128"),
        ("0 <= n < 32", "32 <= n < 32", "expected a whole number from 33 on, got '32'"),
        ('"Out[m, n] =', '"Out =', "has no output, or several"),
        ("= A[m, k]", "= Out[m, n] * A[m, k]", "reads its own output"),
        ("= A[m, k]", "= A[n, k] * A[m, k]", "reads a tensor at two places"),
    ],
)
def test_files__that_have_no_form_of_ours_are_refused_with_one_reason(imported, old, new, message):
    with pytest.raises(InputError) as error:
        imported(MACHINE.replace(old, new), GEMM.replace(old, new))
    (problem,) = error.value.problems
    assert message in str(problem)


def test_sets__may_be_lists_of_sets(imported):
    listed = imported(MACHINE.replace("keep: input | output", "keep: [input, output]"), GEMM)
    assert listed.documents() == imported(MACHINE, GEMM).documents()


def test_machine__that_no_model_fits_is_refused_where_it_stands(imported):
    text = MACHINE.replace("component_class: Dummy", "component_class: SmartBufferSRAM")
    text = text.replace("{wide: 4 * 16}", "{wide: 4 * 16, tech_node: 1e-9}").replace("leak_power: 0.002", "")
    with pytest.raises(AccelsimError, match=r"0.yaml:3:1: no valid architecture comes of it: .*no rule for 1 nm"):
        imported(text, GEMM)


@pytest.mark.parametrize(
    "machine",
    [
        "nvdla",
        "eyeriss",
        "simple",
        "snowcat",
        "fanout_variations/at_glb",
        "fanout_variations/at_glb_with_fanout_node",
        "fanout_variations/at_mac",
        "fanout_variations/at_mac_with_constraints",
        "fanout_variations/at_mac_with_fanout_node",
    ],
)
def test_machines__are_imported(shared, machine):
    read = machine_of(read_foreign([shared / f"foreign/accelforge/arches/{machine}.yaml"]))
    assert read.macs == {"nvdla": 6144, "eyeriss": 168, "simple": 1, "snowcat": 1}.get(machine, 4)


def test_nvdla__has_the_optimum_that_accelforge_proves(shared):
    """A GEMM of 512 x 1024 x 1024, with AccelForge's own constraints of the axes; its values are 32 bit floats."""
    golden = shared / "golden/accelforge"
    foreign = read_foreign(
        [shared / "foreign/accelforge/arches/nvdla.yaml", golden / "workloads/gemm_512x1024x1024.yaml"]
    )
    machine, (layer,) = machine_of(foreign), layers_of(foreign)
    constraints = load_constraints({"constraints": foreign.constraints}, machine, layer)
    found = map_einsum(machine, layer, constraints=constraints, uneven=True)
    theirs = json.loads((golden / "runs/nvdla__gemm_512x1024x1024__energy__np1__fix.json").read_text())["best"]
    assert found.certificate.proved
    assert found.best.energy_pj == pytest.approx(theirs["energy"] * 1e12, rel=1e-6)
    assert found.best.cycles == pytest.approx(theirs["latency"] * 1e9, abs=1)


@pytest.mark.parametrize(
    ("workload", "case"),
    [
        ("basic/matvecs", "snowcat|matvecs||unfused"),
        ("basic/three_matmuls_annotated", "snowcat|three_matmuls_annotated||unfused"),
        ("cnns/mobilenet/mobilenet_28", "snowcat|mobilenet_28||unfused"),
    ],
)
def test_snowcat__moves_the_words_that_accelforge_finds(shared, workload, case):
    """A bit of main memory costs 1 J, a buffer holds all: the energy is the compulsory traffic of each layer."""
    folder = shared / "foreign/accelforge"
    foreign = read_foreign([folder / "arches/snowcat.yaml", folder / f"workloads/{workload}.yaml"])
    machine = machine_of(foreign)
    energy_pj = sum(map_einsum(machine, layer, uneven=False).best.energy_pj for layer in layers_of(foreign))
    assert energy_pj == json.loads((folder / "regression_reference.json").read_text())[case]["energy"] * 1e12


def test_ranges__may_include_their_end_and_sizes_may_have_units(imported):
    text = """
workload:
  shape: {m: 0 <= m < 8, k: 0 <= k <= 5, r: 1 <= r < 3}
  einsums: ["Z[m] = A[m, k, r]"]
"""
    assert imported(text).workload["layers"][0]["einsum"]["dims"] == {"m": 8, "k": 6, "r": 2}
    machine = imported(re.sub(r"size: [0-9][^,}\n]*", "size: 2 KiB", MACHINE)).architecture
    assert "16384 bit" in [level.get("size") for level in machine["levels"]]


MAPPED = """
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, B, Out]}
  - !Storage {component: Buffer, tensors: [A, Out]}
  - !Spatial {rank_variable: n, tile_shape: 8, component: PE, name: columns}
  - !Spatial {rank_variable: m, tile_shape: 4, component: PE, name: rows}
  - !Storage {component: Register, tensors: [B]}
  - !Temporal {rank_variable: m, tile_shape: 2}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: Out, component: MAC}
"""


def test_mapping__finds_the_axis_of_the_component_that_it_names(imported):
    """Both the PEs and what lies below the register call an axis `rows`."""
    text = MACHINE.replace("name: MAC\n", "name: MAC\n    spatial: [{name: rows, fanout: 2}]\n")
    spread = "\n  - !Spatial {rank_variable: m, tile_shape: 1, component: MAC, name: rows}\n  - !Compute"
    foreign = imported(text, GEMM, MAPPED.replace("\n  - !Compute", spread))
    assert [level.get("spatial") for level in foreign.mapping["levels"]] == [
        None,
        {"x": ["n=4"], "y": ["m=2"]},
        {"x": ["m=2"]},
    ]


def test_memory__that_may_keep_what_no_other_must_is_a_level(imported):
    foreign = imported(MACHINE.replace("keep: input | output, may_keep: ~Main", "keep: ~Main, may_keep: All"), GEMM)
    buffer = machine_of(foreign).levels[1]
    assert (buffer.keep, buffer.bypass, buffer.size_words) == (frozenset(), frozenset(), 1024)


def test_container__was_a_fanout_once(imported):
    assert machine_of(imported(MACHINE.replace("!Container", "!Fanout"))) == machine_of(imported(MACHINE))


def test_workload__of_another_file_takes_the_place_of_that_beside_the_machine(imported):
    own = MACHINE + GEMM.replace("Out", "Own") + "renames: {}\n"
    foreign = imported(own, GEMM + "renames: {}\n")
    assert [layer["name"] for layer in foreign.workload["layers"]] == ["Out"]
    assert foreign.architecture == imported(MACHINE, GEMM).architecture
    assert "workload: that of the other file is taken" in said(foreign)


def test_histograms__that_would_fill_the_memory_have_no_value(imported):
    text = MACHINE.replace("wide: 4 * 16", "wide: 4 * 16, bins: '[0] * 65535 * 65535 * 65535'")
    assert imported(text, GEMM).architecture == imported(MACHINE, GEMM).architecture


def test_variables__may_rest_on_later_ones_and_be_true(imported):
    text = MACHINE.replace(
        "variables: {wide: 4 * 16}", "variables: {wide: 16 * four if yes else 1, four: 4, yes: true}"
    )
    assert imported(text, GEMM).architecture == imported(MACHINE, GEMM).architecture


def test_widths__of_one_tensor_of_an_einsum_count(imported):
    accesses = "[{name: A, projection: [m], bits_per_value: 4}, {name: Z, projection: [m], output: True}]"
    text = f"workload:\n  rank_sizes: {{M: 8}}\n  einsums: [{{name: Z, tensor_accesses: {accesses}}}]\n"
    assert imported(text).workload["layers"][0]["bits"] == {"A": 4, "Z": 8}


def test_widths__of_tensors_of_other_einsums_and_of_all_others(imported):
    """A name of a tensor is known in each Einsum, and empty where it is none of its own; `Other` is the rest."""
    text = """
workload:
  rank_sizes: {M: 8, K: M // 2, N: 4}
  bits_per_value: {Other: 16, W1: 4, Shared: 8}
  einsums: ["Y[m] = X[m, k] * W1[k]", {einsum: "Z[n] = Y[m] * W2[n]", rank_sizes: {N: 2}}]
"""
    first, second = imported(text).workload["layers"]
    assert (first["bits"], second["bits"]) == ({"W1": 4, "X": 16, "Y": 8}, {"W2": 16, "Y": 8, "Z": 16})
    assert (first["einsum"]["dims"], second["einsum"]["dims"]) == ({"m": 8, "k": 4}, {"n": 2, "m": 8})


def test_mistakes__of_what_all_einsums_use_are_said_once(imported):
    text = "workload:\n  rank_sizes: {M: 4}\n  bits_per_value: {W: 4}\n  einsums: ['Y[m] = A[m]', 'Z[m] = Y[m]']\n"
    with pytest.raises(InputError, match=r":3:20: 'W': W is no set of tensors; sets: [^\n]*$"):
        imported(text)


def test_zeros__that_are_skipped_are_noted(imported):
    text = f"{MACHINE}sparse_optimizations: {{targets: []}}\n"
    assert said(imported(text, GEMM))[-1] == "sparse_optimizations: is not read: all data are dense here"
    assert "rules: is not read" in said(imported(MACHINE, f"{GEMM}rules: {{}}\n"))


def test_operators__that_are_no_products_are_noted(imported):
    einsums = "['Y[m] = A[m] + B[m]', 'Z[m] = exp(Y[m])', 'U[m] = Z[m] * A[m]']"
    text = f"workload:\n  rank_sizes: {{M: 4}}\n  einsums: {einsums}\n"
    why = "what it calculates; counted, and charged, as a multiply-accumulate"
    assert said(imported(text)) == [f"Y: '+': {why}", f"Z: 'exp( )': {why}"]


def test_workload__is_the_same_in_every_run(tmp_path):
    """Sets of tensors have another order in each process."""
    (tmp_path / "w.yaml").write_text(
        "workload:\n  rank_sizes: {M: 4}\n  einsums: ['Z[m] = A[m] * B[m] * C[m] * D[m]']\n"
    )
    code = "import sys; from accelsim.importers.foreign import read_foreign; print(read_foreign(sys.argv[1:]).workload)"
    command = [sys.executable, "-c", code, str(tmp_path / "w.yaml")]
    said = {
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True).stdout
        for seed in "123"
    }
    assert len(said) == 1
