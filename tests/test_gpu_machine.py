"""GPU files: what ships agrees with itself, slices are parts, and mistakes are named with their place."""

from __future__ import annotations

import pytest

from accelsim.api.problem import is_gpu
from accelsim.cli import main as cli
from accelsim.gpu.catalogue import catalogue, load_gpu, load_gpu_file
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.library import root

GPUS = catalogue()
ROUNDING = 0.017
"""Data sheets round: 33.45 TFLOPS FP64 of an H100 are printed as 34."""


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_peaks__are_sms_times_clock_times_operations(gpu):
    for number_format, tflops in gpu.peak_tflops.items():
        assert gpu.flops(number_format) == pytest.approx(tflops * 1e12, rel=ROUNDING), number_format
    for number_format, tflops in gpu.peak_tflops_sparse.items():
        assert tflops == pytest.approx(2 * gpu.peak_tflops[number_format], rel=0.001), number_format


def test_peak__of_an_a100_by_hand():
    """108 SMs x 1410 MHz x 2048 operations = 311.9 TFLOPS, printed as 312."""
    assert load_gpu("a100_sxm_80gb").flops("fp16") == 108 * 1410e6 * 2048


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_catalogue__says_where_figures_come_from(gpu):
    assert gpu.sources.keys() >= {"all", "sm", "l2_bandwidth"}
    assert ("derived" in gpu.sources["l2_bandwidth"]) <= ("l2_bandwidth" in gpu.unsure)
    assert not gpu.mig or "mig" in gpu.sources
    assert set(gpu.mma) <= set(gpu.peak_tflops)


def test_catalogue__names_are_different():
    words = [word.casefold() for gpu in GPUS for word in {gpu.name, *gpu.aliases, *gpu.devices}]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(("name", "sms"), [("a100", 108), ("A100-SXM4-40GB", 108), ("arch/gpu/h100_sxm.yaml", 132)])
def test_load_gpu__finds_by_any_name(name, sms):
    assert load_gpu(name).sms == sms


@pytest.mark.parametrize("gpu", [gpu for gpu in GPUS if gpu.mig], ids=lambda gpu: gpu.name)
def test_slices__are_no_more_than_their_gpu(gpu):
    """Names have the memory in GB of older drivers, in GiB of newer ones; the whole GPU has that of its data sheet."""
    sizes = {name: float(name.partition(".")[2].removesuffix("gb")) for name in gpu.mig}
    whole = max(sizes.values())
    assert whole * 1e9 <= gpu.memory_bytes <= whole * 2**30
    for profile in gpu.mig.values():
        part = gpu.slice(profile.name)
        assert part.sms <= gpu.sms
        assert part.flops("fp16") == pytest.approx(gpu.flops("fp16") * part.sms / gpu.sms)
        assert part.memory_bytes / gpu.memory_bytes == pytest.approx(sizes[profile.name] / whole, rel=0.06)
        assert part.dram_bytes_per_s == gpu.dram_bytes_per_s * profile.memory_eighths / 8


def test_slices__of_blackwell_are_seven():
    """Smallest profiles as NVIDIA's MIG user guide lists them: seven fit, of an RTX PRO 6000 four."""
    for name, instances in (("b200", 7), ("gb200", 7), ("b300", 7), ("gb300", 7), ("rtx_pro_6000", 4)):
        gpu = load_gpu(name)
        least = min(gpu.mig.values(), key=lambda profile: (profile.sms, profile.memory_eighths))
        assert min(gpu.sms // least.sms, 8 // least.memory_eighths) >= instances


def test_load_gpu__asks_for_the_gpu_first():
    with pytest.raises(AccelsimError, match="no GPU of that name; that is what runs on it: write the GPU first"):
        load_gpu("llama_70b")


def test_slice__names_the_closest_profile():
    with pytest.raises(AccelsimError, match=r"no MIG profile '1g\.11gb'; did you mean '1g\.10gb'\?"):
        load_gpu("a100", "1g.11gb")
    with pytest.raises(AccelsimError, match="it has no MIG"):
        load_gpu("l4", "1g.10gb")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sms: 132\n", "sms: many\n", ":11:8: sms: expected a whole number, got 'many'"),
        ("  tdp: 700 W", "  tdp: 700", "expected a power, got '700'; write it like '700 W'"),
        ("  sms: 132\n", "", "'sms' is missing"),
        ("generation: hopper", "generation: hoper", "did you mean 'hopper'?"),
        ("m64n256k16", "64x256x16", "write it like 'm16n8k16'"),
        ("{fp64: 34,", "{fp63: 34,", "'fp63' is no number format; did you mean 'fp64'?"),
        ("3352 GB/s", "3352 GB/cycle", "must be in bytes a second; write it like '3352 GB/s'"),
        ("smem_per_block: 227 KiB", "smem_per_block: 229 KiB", "smem_per_block is more than the smem of an SM"),
        ("{sms: 132, memory_eighths: 8}", "{sms: 133, memory_eighths: 8}", "profile 7g.80gb has more than the GPU"),
        ("  nvlink", "  nvlnk", "unknown key; did you mean 'nvlink'?"),
        ('"9.0"', "nine", "write it like '9.0'"),
        ("peak_tflops: {", "peak_tflops: {fp4: 3, ", "'fp4' has no operations_per_sm_cycle"),
        ("fp64: 34", "fp64: -34", "expected a number above 0, got '-34'"),
        ("type: HBM3", "type: SRAM", "expected a type of memory, got 'SRAM'; it begins with HBM, GDDR, LPDDR"),
    ],
)
def test_load_gpu_file__names_mistakes_with_their_place(tmp_path, old, new, message):
    text = gpu_file("h100_sxm").read_text()
    assert old in text
    path = tmp_path / "gpu.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        load_gpu_file(path)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{path}:")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            ("boost: ", "1980 MHz"),
            ("clock: ", "{boost: 1980 MHz, tensor: 1830 MHz}"),
            ("sms: ", "132"),
            ("fp64: ", "128"),
        ),
        *(("l2: {size: ", "50 MiB"), ("bandwidth: ", "3352 GB/s"), ("nvlink: ", "900 GB/s"), ("type: ", "HBM3")),
        *(
            ("tdp: ", "700 W"),
            ("fp16: ", "m64n256k16"),
            ("smem_per_block: ", "227 KiB"),
            ("sms: 16, memory_eighths: ", "1"),
        ),
    ],
)
def test_load_gpu_file__says_which_parameter_is_missing_and_no_more(tmp_path, key, value):
    text = gpu_file("h100_sxm").read_text()
    assert key + value in text
    path = tmp_path / "gpu.yaml"
    path.write_text(text.replace(key + value, f"{key}$wanted", 1))
    with pytest.raises(InputError) as error:
        load_gpu_file(path)
    (line,) = str(error.value).splitlines()
    assert "parameter $wanted is not defined" in line


def test_is_gpu__knows_gpus_from_other_machines():
    assert is_gpu("h100")
    assert is_gpu(str(gpu_file("l4")))
    assert not is_gpu("eyeriss")
    assert not is_gpu("gpu_sm")
    assert not is_gpu("nothing")


def test_gpus_command__lists_and_shows(capsys):
    assert cli.main(["list", "gpus"]) == 0
    out = capsys.readouterr().out
    assert all(gpu.name in out for gpu in GPUS)
    assert cli.main(["show", "a100", "--mig", "1g.10gb"]) == 0
    assert "a100_sxm_80gb:1g.10gb" in capsys.readouterr().out
    assert cli.main(["show", "h100_sx"]) == 2
    assert "did you mean 'h100_sxm'?" in capsys.readouterr().err
    assert cli.main(["list", "gpus", "--mig", "1g.10gb"]) == 2


def gpu_file(name: str):
    return root("gpus") / f"{name}.yaml"
