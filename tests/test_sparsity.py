"""What zeros save: shares, metadata and computes beside masks that are drawn and walked; cases by hand; mistakes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.density import Dense, Uniform
from accelsim.inputs.errors import InputError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, load_mapping
from accelsim.inputs.sparsity import ComputeSparsity, RankFormat
from accelsim.inputs.workload import Tensor
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.model.sparsity.evaluate import evaluate_sparse
from accelsim.model.sparsity.savings import Fibers, Odds, SparseNest, compute_shares, metadata, saved_reads, slowest_of
from tests.sparse_oracle import computes, draw, encoded_units, saved_shares

DRAWS = 150
ENERGY = {
    "read": "1 pJ",
    "write": "2 pJ",
    "metadata_read": "0.5 pJ",
    "metadata_write": "0.5 pJ",
    "gated_read": "0.1 pJ",
}
ENERGY |= {"gated_write": "0.1 pJ"}


def machine(buffer=None, compute=None, fanout=None, dram=None):
    """DRAM over a buffer over MACs."""
    free = {"read": "0 pJ", "write": "0 pJ"}
    levels = [
        {
            "name": "DRAM",
            "class": "DRAM",
            "word": "16 bit",
            "energy": free,
            **({"fanout": fanout} if fanout else {}),
            **(dram or {}),
        },
        {"name": "Buffer", "class": "SRAM", "size": "4 KiB", "word": "16 bit", "energy": ENERGY, **(buffer or {})},
    ]
    mac = {
        "name": "MAC",
        "class": "intmac",
        "energy": {"compute": "1 pJ", "gated_compute": "0.1 pJ"},
        **(compute or {}),
    }
    return load_architecture({"architecture": {"name": "small", "levels": levels, "compute": mac}})


def gemm(inputs=0.5, weights=0.5, size=4):
    densities = {"Inputs": inputs, "Weights": weights}
    shape = {"name": "gemm", "gemm": dict.fromkeys("MNK", size)}
    return load_workload({"workload": {**shape, "densities": densities}}).layers[0]


def mapped(architecture, einsum, outer, inner, x=(), keep=("Inputs", "Weights", "Outputs")):
    first = {"level": "DRAM", "temporal": list(outer), **({"spatial": {"x": list(x)}} if x else {})}
    levels = [first, {"level": "Buffer", "temporal": list(inner), "keep": list(keep)}]
    return load_mapping({"mapping": {"levels": levels}}, architecture, einsum)


def at_buffer(found, name):
    return next(one for one in found.tensors if (one.level, one.tensor) == ("Buffer", name))


def close(found, expected):
    """Whether the mean of draws is an expected value, five standard errors away at most."""
    found = np.array(found, float)
    spread = max(found.std(), math.sqrt(expected * (1 - expected)) if 0 < expected < 0.01 else 0.0)
    return abs(found.mean() - expected) <= 5 * spread / math.sqrt(len(found)) + 1e-9


NESTS = [
    (("M=2", "N=2", "K=2"), ("M=2", "N=2", "K=2"), ()),
    (("K=4", "M=2"), ("N=4", "M=2"), ()),
    (("N=4", "M=4"), ("K=4",), ()),
    (("M=4",), ("K=4", "N=4"), ()),
    (("M=2", "N=2"), ("K=4", "N=2"), ("M=2",)),
    (("K=2", "N=2"), ("M=4", "K=2"), ("N=2",)),
    (("N=2", "K=4"), ("M=2", "N=2"), ("M=2",)),
]


@pytest.mark.parametrize(("outer", "inner", "x"), NESTS)
@pytest.mark.parametrize(
    ("target", "leaders"), [("Weights", ["Inputs"]), ("Inputs", ["Weights"]), ("Outputs", ["Inputs", "Weights"])]
)
@pytest.mark.parametrize("level", [0, 1])
def test_saved_reads__are_those_of_masks_that_are_walked(outer, inner, x, target, leaders, level):
    architecture, einsum = machine(fanout={"x": 2}), gemm(0.25, 0.5)
    mapping = mapped(architecture, einsum, outer, inner, x)
    tensors = {tensor.name: tensor for tensor in einsum.tensors}
    named = [tensors[name] for name in leaders]
    found = saved_reads(Odds(einsum), SparseNest(mapping), "skipping", tensors[target], named, level, 1)
    random = np.random.default_rng(29)
    drawn = [draw(einsum, random) for _ in range(DRAWS)]
    for name, empty in found.leaders.items():
        assert close(saved_shares(einsum, mapping, drawn, level, target, [name]), empty)
    if len(leaders) == 1 or max(found.leaders.values()) < 1e-9 or level == 1:
        assert close(saved_shares(einsum, mapping, drawn, level, target, leaders), found.share)


@pytest.mark.parametrize(
    "formats",
    [
        ["CP"],
        ["RLE"],
        ["B"],
        ["UB"],
        ["UOP", "CP"],
        ["UOP", "B"],
        ["CP", "CP"],
        ["B", "RLE"],
        ["CP", "B"],
        ["UOP", "UOP", "CP"],
    ],
)
def test_metadata__is_that_of_tiles_that_are_written_out(formats):
    shape, random = (4, 6, 8)[-len(formats) :], np.random.default_rng(29)
    tensor = Tensor("A", tuple(((dim, 1),) for dim in "XYZ"[: len(shape)]), density=Uniform(Fraction(1, 8)))
    einsum = type("E", (), {"dims": dict(zip("XYZ", shape, strict=False))})()
    ranks = [RankFormat(each) for each in formats]
    below = [tuple([1] * (place + 1) + list(shape[place + 1 :])) for place in range(len(shape))]
    fibers = [Fibers(rank, extent, box) for rank, extent, box in zip(ranks, shape, below, strict=True)]
    found = metadata(fibers, tensor, Odds(einsum), 1.0)
    words = math.prod(shape)
    drawn = []
    for _ in range(DRAWS):
        mask = np.isin(np.arange(words), random.choice(words, math.ceil(words / 8), replace=False)).reshape(shape)
        drawn.append(encoded_units(mask, ranks))
    for place, units in enumerate(found):
        assert close([each[place][0] for each in drawn], units.metadata)
        assert close([each[place][1] for each in drawn], units.payload)


def test_computes__are_those_of_masks_that_are_walked():
    einsum, random = gemm(0.25, 0.5), np.random.default_rng(29)
    drawn = [computes(einsum, draw(einsum, random)) for _ in range(50)]
    free = compute_shares([(0.25, False), (0.5, False)], ComputeSparsity(gating=True))
    assert close([each.get(0, 0) / 64 for each in drawn], free["actual"])
    located = compute_shares([(0.25, True), (0.5, True)], ComputeSparsity(skipping=True))
    assert close([each.get(1, 0) / 64 for each in drawn], located["skipped"])
    assert close([each.get(2, 0) / 64 for each in drawn], located["absent"])
    assert sum(free.values()) == pytest.approx(1)
    told = compute_shares([(0.25, True), (0.5, True)], ComputeSparsity(gating=True))
    assert (told["gated"], told["skipped"], told["absent"]) == pytest.approx((0.5, 0, 0.375))


def test_result__by_hand():
    """Inputs of density 1/4 as a coordinate list in the buffer; weights are skipped where an input is zero.

    4 x 4 x 4 multiply-accumulates. The buffer holds the inputs (16 words, 4 of them not zero), which are read for each
    n: 64, of which 16 exist, with 16 coordinates of 4 bit, 8 bit an access. Of 64 weights 16 are read and 48 skipped.
    The 16 computes that are left take 16 cycles.
    """
    buffer = {
        "formats": {"Inputs": ["UOP", "CP"]},
        "metadata": {"width": "8 bit", "word": "4 bit"},
        "skipping": [{"target": "Weights", "condition_on": ["Inputs"]}],
    }
    architecture, einsum = machine(buffer), gemm(0.25, 1)
    mapping = mapped(architecture, einsum, (), ("M=4", "K=4", "N=4"))
    found = evaluate_sparse(architecture, einsum, evaluate(architecture, einsum, mapping))
    inputs, weights = (
        next(t for t in found.tensors if (t.level, t.tensor) == ("Buffer", name)) for name in ("Inputs", "Weights")
    )
    assert (inputs.words["actual", "read"], inputs.words["actual", "fill"]) == (16, 4)
    assert [(u.metadata, u.payload) for u in inputs.held_units] == [(4, 0), (0, 5)]
    assert inputs.bits["actual", "read"] == 64 / 16 * (4 * 4 + 5 * 4)
    assert (weights.words["actual", "read"], weights.words["skipped", "read"]) == (16, 48)
    assert (found.compute.actual, found.compute.cycles, found.cycles) == (16, 16, 16)
    assert inputs.energy_pj == 16 * 1 + 4 * 2 + (144 / 8 + 36 / 8) * 0.5


def test_savings__at_two_levels_leave_out_once():
    """For each input a row of weights is fetched, unless the input is zero: then none of it is asked for further in."""
    saving = {"skipping": [{"target": "Weights", "condition_on": ["Inputs"]}]}
    architecture, einsum = machine(saving, dram=saving), gemm(0.25, 1)
    mapping = mapped(architecture, einsum, ("M=4", "K=4"), ("N=4",))
    found = evaluate_sparse(architecture, einsum, evaluate(architecture, einsum, mapping))
    outer, inner = (one.words for one in found.tensors if one.tensor == "Weights")
    assert (outer["actual", "read"], outer["skipped", "read"]) == (16, 48)
    assert (inner["actual", "fill"], inner["actual", "read"], inner.get(("skipped", "read"), 0)) == (16, 16, 0)
    assert found.compute.actual == 16


def test_dense_tensors__cost_what_they_do_without():
    """With no zero to leave out, formats add metadata alone."""
    plain, einsum = machine(), gemm(1, 1)
    dense = evaluate(plain, einsum, mapped(plain, einsum, ("M=2",), ("M=2", "K=4", "N=4")))
    found = evaluate_sparse(plain, einsum, dense)
    assert found.energy_pj == pytest.approx(dense.energy_pj)
    assert found.cycles == dense.cycles
    with_format = machine({"formats": {"Weights": ["B"]}, "metadata": {"width": "16 bit"}})
    more = evaluate_sparse(with_format, einsum, dense)
    assert more.energy_pj > found.energy_pj
    assert more.compute == found.compute


def test_gating__takes_the_cycles_that_skipping_does_not():
    einsum = gemm(0.25, 1)
    saving = [{"target": "Weights", "condition_on": ["Inputs"]}]
    cycles, energies = [], []
    for key in ("gating", "skipping"):
        architecture = machine({key: saving})
        dense = evaluate(architecture, einsum, mapped(architecture, einsum, (), ("M=4", "K=4", "N=4")))
        found = evaluate_sparse(architecture, einsum, dense)
        weights = at_buffer(found, "Weights")
        kind = {"gating": "gated", "skipping": "skipped"}[key]
        assert weights.words["actual", "read"] + weights.words[kind, "read"] == 64
        cycles.append(found.cycles)
        energies.append(found.energy_pj)
    assert cycles == [64, 16]
    assert energies[1] < energies[0] < dense.energy_pj


def test_capacity__is_that_of_a_share_of_the_tiles():
    """Half of 64 words, a quarter of them in a tile: 8 on average, more in some tiles, 16 at most."""
    einsum, held = gemm(1, 0.5, 8), []
    for fits in (0.5, 0.99, 1):
        formats = {"formats": {"Weights": ["UOP", "CP"]}, "metadata": {"width": "8 bit"}, "fits": fits}
        architecture = machine(formats)
        dense = evaluate(architecture, einsum, mapped(architecture, einsum, ("N=4",), ("M=8", "N=2", "K=8")))
        found = evaluate_sparse(architecture, einsum, dense)
        held.append(at_buffer(found, "Weights").held_words)
    assert held[0] == 8 < held[1] < held[2] == 16


@pytest.mark.parametrize(
    ("densities", "message"),
    [
        ("{Inputs: 1.5}", "3:25: densities.Inputs: expected a share above 0, at most 1, got '1.5'; such as 0.8"),
        (
            "{Inputs: {distribution: n_of_m, n: 5, m: 4, along: K}}",
            "3:51: densities.Inputs.n: 5 of 4 words cannot be other than zero; write n: 4 or less",
        ),
        (
            "{Inputs: {distribution: n_of_m, n: 2, m: 4, along: N}}",
            "densities.Inputs.along: 'N' is no rank of its own in Inputs; ranks: M, K",
        ),
        ("{Inputs: {distribution: uniform}}", "'density' is missing: uniform takes density"),
        ("{Input: 0.5}", "'Input' is neither a tensor nor a role; did you mean 'Inputs'?"),
        ("{Inputs: {distribution: measured, file: none.npy}}", "none.npy: no such file; a mask is an array of NumPy"),
    ],
)
def test_densities__mistakes_have_their_place(densities, message, tmp_path):
    path = tmp_path / "layer.yaml"
    path.write_text(f"workload:\n  {{name: gemm, gemm: {{M: 4, N: 4, K: 4}},\n    densities: {densities}}}\n")
    with pytest.raises(InputError) as caught:
        load_workload(path)
    assert message in str(caught.value)


def test_mask__gives_the_density(tmp_path):
    np.save(tmp_path / "mask.npy", np.eye(4))
    path = tmp_path / "layer.yaml"
    path.write_text(
        "workload:\n  name: gemm\n  gemm: {M: 4, N: 4, K: 4}\n"
        "  densities: {Weights: {distribution: measured, file: mask.npy}}\n"
    )
    weights = next(t for t in load_workload(path).layers[0].tensors if t.name == "Weights")
    assert (weights.density or Dense()).occupancy((2, 2), (4, 4)).words.tolist() == [0, 2]
    np.save(tmp_path / "mask.npy", np.eye(5))
    with pytest.raises(InputError, match="the mask has 5 x 5 words, and Weights is 4 x 4"):
        load_workload(path)


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (
            {"formats": {"Inputs": ["CP"]}},
            "levels[1].formats: a format needs room for its metadata, and the level has none; add `metadata: {width",
        ),
        ({"formats": {"Inputs": ["CSR"]}, "metadata": {"width": "8 bit"}}, "formats.Inputs[0]: expected a format"),
        (
            {"gating": [{"target": "Inputs", "condition_on": ["Inputs"]}]},
            "gating[0].condition_on: Inputs decides about itself; name other roles",
        ),
        ({"gating": [{"target": "Inputs"}]}, "expected a target and what its accesses depend on"),
    ],
)
def test_levels__mistakes_have_their_place(buffer, message):
    with pytest.raises(InputError) as caught:
        machine(buffer)
    assert message in str(caught.value)


def test_energies__of_metadata_are_never_zero_by_default():
    energy = {"read": "1 pJ", "write": "1 pJ"}
    with pytest.raises(InputError, match="no energy for 'metadata_read'"):
        machine({"formats": {"Inputs": ["CP"]}, "metadata": {"width": "8 bit"}, "energy": energy})


def test_energies__of_metadata_come_from_the_models_of_its_storage():
    levels = [
        {"name": "DRAM", "class": "DRAM", "word": "16 bit", "attributes": {"type": "LPDDR4"}},
        {"name": "Buffer", "class": "SRAM", "size": "64 KiB", "word": "16 bit", "formats": {"Inputs": ["CP"]}},
    ]
    levels[1]["metadata"] = {"width": "16 bit", "depth": 32768}
    compute = {"name": "MAC", "class": "intmac", "attributes": {"format": "int8"}}
    body = {"name": "m", "technology": "45 nm", "clock": "1 GHz", "energy_table": "components"}
    found = load_architecture({"architecture": {**body, "levels": levels, "compute": compute}}).energy
    for action in ("read", "write"):  # a storage of the same size and word
        assert found.energy_pj("Buffer", "*", f"metadata_{action}") == found.energy_pj("Buffer", "*", action)


@pytest.mark.parametrize(("word", "bits"), [({}, 16), ({"word": "4 bit"}, 4)])
def test_metadata__without_a_word_has_that_of_its_width(word, bits):
    storage = machine({"formats": {"Weights": ["CP"]}, "metadata": {"width": "16 bit", **word}})
    assert (storage.levels[1].sparsity.width, storage.levels[1].sparsity.word_bits) == (16, bits)


@pytest.mark.parametrize(("many", "draws", "share"), [(1, 12, 0.3), (2, 1, 0.5), (16, 40, 0.1), (64, 1000, 0.6)])
def test_slowest__is_the_largest_of_draws(many, draws, share):
    """Of 40,000 draws the mean is within five of its standard errors."""
    drawn = np.random.default_rng(7).binomial(draws, share, (40_000, many)).max(axis=1)
    error = drawn.std() / math.sqrt(len(drawn))
    assert slowest_of(many, draws, share) == pytest.approx(drawn.mean(), abs=5 * error)


def skipping_pe(level=None, compute=None):
    """A machine of four units whose operands are stored as coordinates."""
    coded = {"formats": {"Inputs": ["CP"], "Weights": ["CP"]}, "metadata": {"width": "8 bit", "word": "4 bit"}}
    metadata = {"metadata_read": "0 pJ", "metadata_write": "0 pJ"}
    dram = {"name": "DRAM", "class": "DRAM", "word": "16 bit", "energy": {"read": "1 pJ", "write": "1 pJ", **metadata}}
    units = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ"}, "skipping": True, **(compute or {})}
    levels = [{**dram, **coded, "fanout": {"x": 4}, **(level or {})}]
    return load_architecture({"architecture": {"name": "pe", "levels": levels, "compute": units}})


def product():
    body = {"name": "product", "gemm": {"M": 4, "N": 6, "K": 5}, "densities": {"Inputs": 0.3, "Weights": 0.5}}
    return load_workload({"workload": body}).layers[0]


def on_units(architecture, einsum):
    """What the mapping costs that spreads M over the units."""
    levels = (
        LevelMapping(
            "DRAM", (Loop("N", 6), Loop("K", 5)), (Loop("M", 4),), keep=frozenset(["Inputs", "Weights", "Outputs"])
        ),
    )
    return evaluate_sparse(architecture, einsum, evaluate(architecture, einsum, Mapping(levels)))


def test_imbalance__lets_all_wait_for_the_slowest():
    """A step is one product of 0.15 in each of four units: that any has one is 1 - 0.85^4 = 0.478; 30 steps."""
    einsum = product()
    assert on_units(skipping_pe(), einsum).cycles == math.ceil(120 * 0.15 / 4)
    found = on_units(skipping_pe({"imbalance": True}), einsum)
    assert found.compute.slowest == pytest.approx((1 - 0.85**4) / 0.15)
    assert found.cycles == math.ceil(30 * (1 - 0.85**4))


def test_intersection__takes_the_steps_of_a_merge():
    """Walked: each unit steps over the coordinates of both operands, `rate` pairs a cycle."""
    einsum, random, steps = product(), np.random.default_rng(3), []
    for _ in range(400):
        masks = draw(einsum, random)
        a, b = (masks[name] for name in ("Inputs", "Weights"))  # M x K and K x N
        steps.append(sum(a[m, k] or b[k, n] for m in range(4) for n in range(6) for k in range(5)))
    for rate in (1, 2, 100):
        cycles = on_units(skipping_pe(compute={"intersection": rate}), einsum).cycles
        assert cycles == max(math.ceil(120 * 0.15 / 4), math.ceil(round(120 * (1 - 0.7 * 0.5) / rate / 4, 9)))
        if rate == 1:
            assert cycles == pytest.approx(np.mean(steps) / 4, abs=1)


def test_imbalance_and_intersections__mistakes_are_told():
    with pytest.raises(InputError, match="none are skipped; add `skipping: true`"):
        skipping_pe(compute={"skipping": False, "gating": True, "intersection": 2})
