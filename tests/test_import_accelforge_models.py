"""Component models of AccelForge's arrays: bits of values, attributes, the table of published macros, refusals."""

from __future__ import annotations

import re
import shutil
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.energy import array_parts
from accelsim.energy.array_parts import part_costs
from accelsim.energy.estimators import Hwcomponents
from accelsim.importers.accelforge_models import FUNCTIONS, plain_value
from accelsim.importers.foreign import read_foreign
from accelsim.importers.values import FormulaError, work_out
from accelsim.inputs.errors import AccelsimError, InputError
from tests.test_import_accelforge import machine_of

MACROS = "foreign/accelforge/arches/compute_in_memory"
NAMES = ("basic_analog", "isaac_isca_2016", "jia_jssc_2020", "neurram_nature_2022", "colonnade_jssc_2021",
         "sinangil_jssc_2021", "albireo_isca_2021")  # fmt: skip


@st.composite
def histograms(draw):
    width = draw(st.integers(1, 5))
    bins = draw(st.lists(st.integers(0, 9), min_size=2**width - 1, max_size=2**width - 1))
    return width, bins if any(bins) else [1] * len(bins)


def slices_of(number: int, width: int, own: int) -> list[float]:
    """Slices of a number, the highest first, of the largest that a slice can have; written with text of bits."""
    text = f"{number:0{width}b}"
    return [int(text[at : at + own], 2) / (2 ** min(own, width) - 1) for at in range(0, width, own)]


@given(histograms(), st.integers(1, 5))
def test_slices__have_the_average_of_all_values(drawn, own):
    """Each value is taken apart by itself: offsets from the least value, and magnitudes, in one part or two."""
    width, bins = drawn
    least = -(len(bins) // 2)
    values = [least + place for place, many in enumerate(bins) for _ in range(many)]
    coded = {"offset_encode_hist": (width, [[value - least] for value in values])}
    if width > 1:
        coded["magnitude_encode_hist"] = (width - 1, [[abs(value)] for value in values])
        parts = [[max(value, 0), max(-value, 0)] for value in values]
        coded["two_part_magnitude_encode_hist"] = (width - 1, parts)
    for name, (bits, numbers) in coded.items():
        each = [slices_of(number, bits, own) for parts in numbers for number in parts]
        expected = [sum(column) / len(each) for column in zip(*each, strict=True)]
        names = {**FUNCTIONS, "hist": tuple(bins), "bits": bits, "own": own}
        call = f"encoded_hist_to_avg_slice({name}(hist), bits, own"
        assert work_out(f"{call}, return_per_slice=True)", names) == pytest.approx(expected)
        assert work_out(f"{call})", names) == pytest.approx(sum(expected) / len(expected))


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_xnor__bits_add_or_subtract_what_they_stand_for(width):
    bins = (1,) * (2**width - 1)
    weights = [2.0**place for place in reversed(range(width))] + [0.5, 0.5]
    values = range(-(len(bins) // 2), len(bins) // 2 + 1)
    for name in ("xnor_encode_hist", "zero_gated_xnor_encode_hist"):
        encoded = work_out(f"{name}(bins)", {**FUNCTIONS, "bins": bins})
        for value, (bits, share) in zip(values, encoded, strict=True):
            assert share == pytest.approx(1 / len(bins))
            gated = value == 0 and "gated" in name
            total = sum(weight if bit else -weight for bit, weight in zip(bits, weights, strict=True))
            assert bits == (0,) * (width + 2) if gated else total == value


@pytest.mark.parametrize(("bits", "phases", "steps", "converted"), [(3, (3, 0), 7, 8), (7, (4, 3), 22, 8 + 4)])
def test_phases__integrate_more_for_each_bit_and_convert_once_each(bits, phases, steps, converted):
    """NeuRRAM integrates an input of 4 bits 1 + 2 + 4 + 8 times; its second phase needs 4 bits less of 8."""
    names = {**FUNCTIONS, "bits": bits}
    names["phases"] = work_out("(bits2phase_1phase if False else bits2phase_2phase)(bits, 3)", names)
    assert names["phases"] == phases
    assert work_out("sum_map(bits2integration_steps, phases)", names) == steps
    assert work_out("sum_phase_out_bits(8, phases)", names) == converted
    assert work_out("sum([p > 0 for p in phases])", names) == (1 if bits == 3 else 2)


@pytest.mark.parametrize(
    "formula",
    ["offset_encode_hist([1, 2])", "offset_encode_hist([0])", "offset_encode_hist(3)", "[1] * 10 ** 9", "[1] + 2",
     "encoded_hist_to_avg_slice(offset_encode_hist([1, 1, 1]), 10 ** 9, 1)", "bits2integration_steps(10 ** 9)",
     "encoded_hist_to_avg_slice(offset_encode_hist([1, 1, 1]), 2, 0)", "[[b for b in a] for a in [1]]", "a(1)",
     "sum(*[[1]])", "sum_map([1], [1])", "offset_encode_hist(**{})", "[a for a in 3]", "is_hist_signed.x(1)"],
)  # fmt: skip
def test_formulas__that_are_none_or_grow_are_refused(formula):
    with pytest.raises(FormulaError):
        work_out(formula, FUNCTIONS)


def test_words__stand_for_themselves():
    names = {"low": 1}
    values = [plain_value(text, names) for text in ("conservative", "/cells/a b.yaml", "low + 1", "low")]
    assert values == ["conservative", "/cells/a b.yaml", 2, 1]
    with pytest.raises(FormulaError):
        plain_value("high + 1", names)


def absent():
    raise AccelsimError("hwcomponents is not installed")


@pytest.fixture
def without(monkeypatch):
    """Without the package, whether it is installed or not."""
    monkeypatch.setattr(array_parts, "open_hwcomponents", absent)


@pytest.fixture
def macros(shared, tmp_path):
    shutil.copytree(shared / MACROS, tmp_path / "arches")
    return tmp_path / "arches"


@pytest.mark.parametrize("name", NAMES)
def test_published_macros__have_the_energies_of_a_table(shared, without, name):
    """Each source names the model and its version."""
    foreign = read_foreign([shared / MACROS / f"{name}.yaml"])
    sources = {part["energy"]["source"] for part in foreign.architecture["levels"]}
    assert any("hwcomponents 1.0.114, model " in source for source in sources)
    assert all("energy" in part for part in foreign.architecture["levels"])
    assert machine_of(foreign).area_um2 > 0


@pytest.mark.parametrize("name", NAMES)
def test_table__has_what_hwcomponents_gives_live(shared, monkeypatch, name):
    pytest.importorskip("hwcomponents", reason="hwcomponents is not installed (Python 3.12 or newer)")
    path = shared / MACROS / f"{name}.yaml"
    with monkeypatch.context() as alone:
        alone.setattr(array_parts, "tabulated", lambda *asked: None)
        try:
            live = read_foreign([path]).architecture
        except InputError as error:
            pytest.skip(f"the models do not run here: {error.problems[0].what}")
    monkeypatch.setattr(array_parts, "open_hwcomponents", absent)
    assert live == read_foreign([path]).architecture


def test_parts__are_told_apart_by_what_models_take(without):
    attributes = {"n_adcs": 4, "n_bits": 8, "tech_node": 6.5e-8, "throughput": 3.2e8}
    found = part_costs("ADC", {**attributes, "rows": 32}, {"read": 1})  # no model of an ADC takes rows
    assert found.joule == {"read": 5.195583527782271e-12}
    for other in ({"n_bits": 7}, {"throughput": 3.3e8}, {"n_adcs": None}):
        with pytest.raises(AccelsimError, match=r"not installed; no part of a published macro has these attributes"):
            part_costs("ADC", {**attributes, **other}, {"read": 1})
    with pytest.raises(AccelsimError, match=r"no part of a published macro has this class"):
        part_costs("Laser9", attributes, {"read": 1})


def test_models__are_asked_for_bits_and_their_reason_is_passed_on():
    asked = []

    class Model:
        leak_power, area = 2.0, 3.0

        def try_call_arbitrary_action(self, action, **given):
            asked.append((action, given))
            return SimpleNamespace(energy=4.0, throughput=6.0)

    models = Hwcomponents(lambda name, attributes, required_actions: Model(), "1.0")
    found = models.costs("ADC", {"n_bits": 3}, {"read": 5})
    assert asked == [("read", {"n_bits": 3, "bits_per_action": 5})]
    assert (found.joule, found.rate_hz) == ({"read": 4.0}, {"read": 6.0})
    assert (found.leak_watt, found.area_m2) == (2.0, 3.0)
    assert found.source == "hwcomponents 1.0, model Model"
    with pytest.raises(AccelsimError, match=r"no figure for the class 'ADC': .*required_actions"):
        Hwcomponents(lambda name, attributes: Model(), "1.0").costs("ADC", {}, {"read": 5})


def test_parts__that_neither_models_nor_table_have_are_refused_by_name(macros, without):
    """All at once, each where it stands, with what to do; parts that rest on nothing that changed are found."""
    path = macros / "basic_analog.yaml"
    text = path.read_text()
    path.write_text(text.replace("voltage: 1\n", "voltage: 1.05\n"))
    with pytest.raises(InputError) as refused:
        read_foreign([path])
    places = [text.split("\n")[problem.mark.line].strip() for problem in refused.value.problems]
    assert places == ["name: ADC", "name: ColumnDrivers", "name: RowDrivers", "name: CimUnit"]
    assert all("pip install 'accelsim[hwcomponents]'" in problem.hint for problem in refused.value.problems)
    path.write_text(text)
    cell = macros / "memory_cells" / "rram_example.yaml"
    cell.write_text(cell.read_text() + "# mine\n")
    assert read_foreign([path]).architecture
    cell.write_text(re.sub(r"(-ResistanceOn .*: *)\d+", r"\g<1>7777", cell.read_text()))
    with pytest.raises(InputError) as refused:
        read_foreign([path])
    assert [problem.what.split()[3] for problem in refused.value.problems] == ["ColumnDrivers", "RowDrivers", "CimUnit"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("n_bits: adc_resolution\n", "n_bits: adc_resolution * 2 * unheard\n", "'unheard' in .* has no value"),
        (
            "n_bits: adc_resolution\n",
            "n_bits: one\n      one: n_bits\n",
            "'one' has no value; give it one under",
        ),
        ("n_bits: adc_resolution\n", "n_bits: adc_resolution +\n", "'adc_resolution .' is no formula"),
        ("component_class: ADC\n", "component_class: Adding9\n", "no energies of ADC .Adding9.: "),
        (
            "1e-7 * voltage_latency_scale",
            "0 * voltage_latency_scale",
            "1 / cycle_period .* cannot be worked out: float division by zero",
        ),
        ("usage_scale: n_weight_slices", "usage_scale: 0", "a number from 1 on, got 0"),
        ("reuse: output\n      min_usage: 1", "reuse: output\n      min_usage: 2", "a number from 0 to 1, got 2"),
    ],
)
def test_attributes__without_a_value_are_refused_where_they_stand(macros, old, new, message):
    path = macros / "basic_analog.yaml"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message) as refused:
        read_foreign([path])
    assert str(refused.value).startswith(f"{path}:")


def test_variables__of_a_later_file_take_the_place_of_those_before(macros, tmp_path):
    """A chip at another voltage: what rests on it changes too, wherever it stands."""
    own = ", ".join(f"average_{kind}_value: 0.25 * 15 ** 0.5" for kind in ("input", "weight"))
    (tmp_path / "low.yaml").write_text(f"variables: {{voltage: 0.65, {own}}}\n")
    path = macros / "sinangil_jssc_2021.yaml"
    text = path.read_text()
    found = read_foreign([path, tmp_path / "low.yaml"]).architecture
    text = text.replace("  voltage: 0.8\n", "  voltage: 0.65\n")
    path.write_text(text.replace("    <<: [*variables_global]\n", f"    <<: [{{{own}}}, *variables_global]\n"))
    assert found == {**read_foreign([path]).architecture, "name": found["name"]}
