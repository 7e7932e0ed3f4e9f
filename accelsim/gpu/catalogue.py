"""The GPUs that come with accelsim, found by file, name, alias or the name that the driver prints."""

from __future__ import annotations

import re
from functools import cache
from os import PathLike
from pathlib import Path

from accelsim.gpu.machine import Gpu
from accelsim.gpu.spec import load_gpu_file
from accelsim.inputs import library
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import near_miss

KIND = "gpus"


@cache
def catalogue() -> tuple[Gpu, ...]:
    """All GPUs that ship, by name."""
    return tuple(load_gpu_file(path) for path in library.shipped(KIND))


def load_gpu(name_or_path: str | PathLike[str], mig: str | None = None) -> Gpu:
    """Find a GPU by file, name, alias or device name, whole or as a MIG slice.

    Parameters
    ----------
    name_or_path : str or path
        A YAML file, or a name such as `h100_sxm`, `h100`, `gpu/h100_sxm` or `NVIDIA H100 80GB HBM3`.
    mig : str, optional
        A MIG profile such as `1g.10gb`.

    Raises
    ------
    AccelsimError
        If there is no such GPU or profile.
    SpecError
        With every mistake in the file.

    Examples
    --------
    >>> load_gpu("NVIDIA H200").name, load_gpu("a100", "1g.10gb").sms
    ('h200_sxm', 14)
    """
    path = Path(name_or_path)
    gpu = load_gpu_file(path) if _is_file(path) else _by_name(str(name_or_path))
    return gpu.slice(mig) if mig else gpu


def find_gpu(name: str) -> Gpu | None:
    """GPU of a name, alias or device name, or None."""
    wanted = _plain(name)
    for gpu in catalogue():
        if wanted in map(_plain, (gpu.name, *gpu.aliases, *gpu.devices)):
            return gpu
    return None


def _by_name(name: str) -> Gpu:
    found = find_gpu(name)
    if found is None:
        raise AccelsimError(f"{name}: no such file, and no GPU of that name; {gpu_hint(name)}")
    return found


def gpu_hint(name: str) -> str:
    """What to write instead of a name of no GPU that ships."""
    known = [word for gpu in catalogue() for word in (gpu.name, *gpu.aliases, *gpu.devices)]
    return near_miss(name, known) or "`accelsim gpus` shows those that ship"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _plain(name: str) -> str:
    """Name without what people write differently: NVIDIA, and spaces, hyphens or underscores between its parts."""
    text = name.casefold().removesuffix(".yaml").removeprefix("arch/").removeprefix("gpu/")
    return re.sub("nvidia|[ _-]", "", text)
