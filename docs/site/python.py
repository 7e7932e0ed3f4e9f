"""The reference of the Python API, from the docstrings of what is public."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

PAGE = "docs/python"

Names = dict[str, tuple[str, ...]]
PARTS: dict[str, Names] = {
    "Read input files": {
        "accelsim": ("load_architecture", "load_workload", "load_mapping", "load_constraints"),
        "accelsim.importers.pytorch": ("workload_from_torch",),
    },
    "Cost one mapping, find the best": {
        "accelsim": (
            "evaluate",
            "map_einsum",
            "map_front",
            "map_network",
            "Budget",
            "Constraints",
            "verify",
            "best_with_zeros",
            "sparse_result",
        ),
    },
    "Count all mappings": {
        "accelsim": ("census", "Census", "UniformSample"),
        "accelsim.population.result": ("Range", "Near"),
        "accelsim.population.sampling": ("Interval",),
    },
    "Fused layers": {
        "accelsim": ("fuse", "FusedNetwork"),
        "accelsim.fusion": ("Segment", "ChainResult", "FusedTiling", "FusedLoop"),
    },
    "Results": {
        "accelsim": ("Result", "SearchResult", "Certificate", "Sample", "FrontResult", "to_pandas"),
        "accelsim.model.result": ("TensorAtLevel", "TensorOnNetwork", "LevelResult", "Ramp", "Violation"),
    },
    "Figures": {
        "accelsim": (
            *("plot_architecture", "plot_mapping", "plot_reuse", "plot_energy", "plot_stacks", "plot_front"),
            *("plot_histogram", "plot_density", "plot_within", "plot_compare"),
            *("plot_time", "plot_fusion"),
        ),
        "accelsim.show.plots.result": ("plot_network",),
        "accelsim.show.plots": ("new_axes", "at_width", "figure_bytes"),
    },
    "Systems of engines": {
        "accelsim": ("load_system", "map_on_system"),
        "accelsim.designs.soc": ("System", "Engine", "Assigned", "LayerCost"),
        "accelsim.designs.assign": ("Assignment",),
    },
    "Sweeps of designs": {
        "accelsim": ("load_sweep", "explore"),
        "accelsim.designs.run": ("Explored",),
        "accelsim.designs.tables": ("read_designs", "about"),
        "accelsim.show.plots.search": ("plot_designs_front", "plot_sensitivity"),
    },
    "GPUs": {
        "accelsim.gpu.catalogue": ("load_gpu",),
        "accelsim.gpu.calibration": ("mode_of",),
        "accelsim.gpu.gemms": ("Gemms", "Setup", "time_gemms", "Times"),
        "accelsim.gpu.kernel": (*("best_kernels", "Kernel", "wave_efficiency", "tile_efficiency", "time_operators"),),
        "accelsim.gpu.fitted": ("KernelTimes",),
        "accelsim.gpu.attention_times": ("attention_shapes", "latent_shapes", "time_attention"),
        "accelsim.gpu.collectives": ("collective_shapes", "time_collective"),
        "accelsim.gpu.advice": ("advise", "sweep"),
        "accelsim.gpu.measured": ("read_measured", "split_rows"),
    },
    "What input files become": {
        "accelsim": (
            *("Architecture", "Level", "Axis", "Compute", "EnergyTable", "EnergyEntry", "Estimator"),
            *("ComponentFigures", "Workload", "Einsum", "Tensor", "Mapping", "LevelMapping", "Loop"),
            *("LevelConstraint", "Block", "Factor", "Product"),
        ),
        "accelsim.inputs.energies": ("Component",),
        "accelsim.inputs.workload": ("to_networkx",),
        "accelsim.inputs.mapping": ("dump_mapping",),
    },
    "Limits and oracle": {
        "accelsim.model.limits": ("layer_limits", "Limits"),
        "accelsim.results.explain": ("explain", "Explanation"),
    },
    "Errors": {
        "accelsim": ("AccelsimError", "InputError", "NoValidMappingError"),
    },
}
"""What the reference shows, in the order of the page."""


def python_text() -> str:
    """Reference of the Python API as Sphinx makes it of the docstrings."""
    return "\n".join(_part(title, names) for title, names in PARTS.items())


def names_text() -> str:
    """Public names with their parameters and the first line of what they are, as Markdown."""
    return "\n".join(_names(title, names) for title, names in PARTS.items())


def _names(title: str, names: Names) -> str:
    lines = [f"## {title}", "| name | |", "|---|---|"]
    for module, members in names.items():
        for member in members:
            found = getattr(import_module(module), member)
            about = (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            call = "" if member[0].isupper() else f"({', '.join(_parameters(found))})"
            lines.append(f"| `{module}.{member}{call}` | {about} |")
    return "\n".join(lines) + "\n"


def _parameters(function: Any) -> Iterator[str]:
    """Parameters with their defaults; a star before those that are given by name."""
    starred = False
    for name, each in inspect.signature(function).parameters.items():
        if each.kind == each.KEYWORD_ONLY and not starred:
            yield "*"
        starred |= each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        shown = "..." if callable(each.default) else repr(each.default)
        yield name if each.default is each.empty else f"{name}={shown}"


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
