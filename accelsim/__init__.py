"""accelsim: map deep-learning layers onto accelerators, with proof of optimality.

A name such as `eyeriss` is one of the files that ship (`accelsim list`). A path, YAML text, a dict or a loaded object
works in its place.

>>> import accelsim
>>> result = accelsim.map("eyeriss", "conv", mapspace="even", factors="perfect")
>>> print(f"{result.energy_pj * 1e-9:.2f} mJ, {result.cycles} cycles")
11.98 mJ, 38535168 cycles
>>> result.certificate.gap
0.0
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "1.0.0"
_HOMES = re.findall(r"^from (\S+) import (\w+)", Path(__file__).with_suffix(".pyi").read_text("utf-8"), re.MULTILINE)
_HOME = {name: f"accelsim.{name}" if home == "accelsim" else home for home, name in _HOMES}
"""Module of each public name: `__init__.pyi` declares them, where type checkers see them too."""
__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that importing the package is cheap."""
    if name not in _HOME:
        raise AttributeError(f"module 'accelsim' has no attribute {name!r}{_hint(name)}")
    module = import_module(_HOME[name])
    return module if _HOME[name] == f"accelsim.{name}" else getattr(module, name)


def _hint(name: str) -> str:
    from accelsim.inputs.units import near_miss

    hint = near_miss(_FORMER.get(name, name), _HOME)
    return f"; {hint}" if hint else ""


_FORMER = {"map_einsum": "map_layer", "map_front": "pareto", "spread": "spread", "explore": "sweep"}
"""Names of earlier versions."""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
