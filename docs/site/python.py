"""The reference of the Python API, from the docstrings of what is public."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

PAGE = "docs/reference/python"

Names = dict[str, tuple[str, ...]]
PARTS: dict[str, Names] = {
    "Map": {
        "accelsim": ("map", "map_layer", "map_network", "map_system", "evaluate", "fuse"),
    },
    "Explore": {
        "accelsim": ("pareto", "spread", "sizing", "sensitivity", "layout", "sweep", "load_sweep_result"),
    },
    "Compare and check": {
        "accelsim": ("diff", "load_result"),
    },
    "Describe architectures, workloads, mappings": {
        "accelsim": ("load_architecture", "load_workload", "load_mapping", "load_constraints"),
        "accelsim.api.problem": ("constraints", "gemm", "conv"),
        "accelsim.importers.pytorch": ("workload_from_torch",),
    },
    "GPUs": {
        "accelsim.gpu": ("map", "gemm", "op", "attention", "moe", "collective", "serve", "train"),
    },
    "Pictures": {
        "accelsim.plots": (
            *("plot_architecture", "plot_mapping", "plot_reuse", "plot_energy", "plot_stacks", "plot_front"),
            *("plot_histogram", "plot_density", "plot_within", "plot_compare", "plot_time", "plot_fusion"),
            *("plot_loop_tree", "plot_network", "new_axes", "at_width", "figure_bytes"),
        ),
    },
    "Results": {
        "accelsim": (
            *("LayerResult", "Evaluation", "LayoutResult", "NetworkResult", "SystemResult", "FusionResult"),
            *("ParetoResult", "SpreadResult", "SizingResult", "SensitivityResult", "SweepResult", "Comparison"),
            *("KeptResult", "Checks", "Certificate", "SearchedSpace", "Progress", "Stop"),
        ),
        "accelsim.api.gpus": ("GpuResult", "KernelsResult"),
    },
    "Errors": {
        "accelsim": (
            *("AccelsimError", "InputError", "UnknownNameError", "UnknownParameterError", "NoValidMappingError"),
            "MissingExtraError",
        ),
    },
}
"""What the reference shows, in the order of the page."""


def python_text() -> str:
    """Reference of the Python API as Sphinx makes it of the docstrings."""
    return "\n".join(_part(title, names) for title, names in PARTS.items())


def names_text() -> str:
    """Public names as Markdown: functions with their parameters, classes by name, and what they are."""
    return "\n".join(_names(title, names) for title, names in PARTS.items())


def _names(title: str, names: Names) -> str:
    lines = [f"## {title}", "| name | |", "|---|---|"]
    for module, members in names.items():
        shown = {"accelsim.api.problem": "accelsim", "accelsim.api.gpus": "accelsim.gpu"}.get(module, module)
        for member in members:
            found = getattr(import_module(module), member)
            about = (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            call = "" if member[0].isupper() else f"({', '.join(_parameters(found))})"
            lines.append(f"| `{shown}.{member}{call}` | {about} |")
    return "\n".join(lines) + "\n"


def _parameters(function: Any) -> Iterator[str]:
    """Parameters with their defaults; a star before those that are given by name."""
    starred = False
    for name, each in inspect.signature(function).parameters.items():
        if each.kind == each.KEYWORD_ONLY and not starred:
            yield "*"
        starred |= each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        yield name if each.default is each.empty else f"{name}={each.default!r}"


def _part(title: str, names: Names) -> str:
    lines = [f"## {title}"]
    for module, members in names.items():
        for member in members:
            kind = "autoclass" if member[0].isupper() else "autofunction"
            options = "   :members:\n" if kind == "autoclass" and module != "accelsim.inputs.errors" else ""
            lines.append(f"### {member}\n```{{eval-rst}}\n.. {kind}:: {module}.{member}\n{options}```")
    return "\n".join(lines) + "\n"


def _add_python(app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] = source[0].replace(names_text(), python_text())


def setup(app: Any) -> dict[str, bool]:
    """Put whole docstrings in place of their first lines when Sphinx reads the page."""
    app.connect("source-read", _add_python)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
