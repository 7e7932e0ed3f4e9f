"""Plots about zeros: energy over density for each format."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.density import Uniform
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.sparsity import Format, RankFormat
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result
from accelsim.model.sparsity.evaluate import evaluate_sparse
from accelsim.show import plots as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = {"uncompressed": None, "bitmask": "B", "coordinates": "CP", "run lengths": "RLE"}
"""Formats that are compared, each as the only rank."""
_COLOURS = dict(zip(FORMATS, ("#0072B2", "#E69F00", "#009E73", "#CC79A7"), strict=True))
_DENSITIES = [*(share / 100 for share in range(1, 10)), *(share / 20 for share in range(2, 21))]
_EXACT = 1e-4
"""Densities are told apart by so much where two formats take the same energy."""


def _in_format(architecture: Architecture, role: str, name: str) -> Architecture:
    """The machine with a format of a role at each level that has one for it."""
    levels = []
    for level in architecture.levels:
        own, kind = level.sparsity, FORMATS[name]
        if own is not None and role in own.formats:
            bits = own.formats[role].ranks[-1].metadata_bits if kind in ("CP", "RLE") else None
            others = {other: form for other, form in own.formats.items() if other != role}
            mine = {} if kind is None else {role: Format((RankFormat(kind, None, bits),))}
            level = replace(level, sparsity=replace(own, formats=others | mine))
        levels.append(level)
    return replace(architecture, levels=tuple(levels))


def _energy_pj(architecture: Architecture, einsum: Einsum, dense: Result, role: str, share: float) -> float:
    density = Uniform(Fraction(share).limit_denominator(1_000_000))
    tensors = tuple(replace(one, density=density) if one.role == role else one for one in einsum.tensors)
    return evaluate_sparse(architecture, replace(einsum, tensors=tensors), dense).energy_pj


def formats_table(architecture: Architecture, einsum: Einsum, dense: Result) -> list[dict[str, Any]]:
    """Rows of `plot_formats`: energy [pJ] of a mapping at each density of the first role that has a format.

    `cheapest` is true where no other format takes less. Raises AccelsimError if no level has a format.
    """
    roles = [role for level in architecture.levels if level.sparsity for role in level.sparsity.formats]
    if not roles:
        raise AccelsimError(f"{architecture.name}: no level has `formats`; `accelsim plot formats` compares them")
    machines = {name: _in_format(architecture, roles[0], name) for name in FORMATS}
    rows = []
    for share in _DENSITIES:
        energies = {name: _energy_pj(one, einsum, dense, roles[0], share) for name, one in machines.items()}
        least = min(energies.values())
        for name, energy in energies.items():
            row = {"role": roles[0], "format": name, "density": share, "energy_pj": energy, "cheapest": energy == least}
            rows.append(row)
    return rows


def break_evens(architecture: Architecture, einsum: Einsum, dense: Result) -> list[dict[str, Any]]:
    """Densities at which another format takes the least energy: `below` it is one, `above` it another."""
    rows = formats_table(architecture, einsum, dense)
    best = {row["density"]: row["format"] for row in reversed(rows) if row["cheapest"]}
    found, role = [], rows[0]["role"]
    for low, high in itertools.pairwise(_DENSITIES):
        below, above = best[low], best[high]
        if below == above:
            continue
        machines = [_in_format(architecture, role, name) for name in (below, above)]
        while high - low > _EXACT:
            middle = (low + high) / 2
            first, second = (_energy_pj(one, einsum, dense, role, middle) for one in machines)
            low, high = (middle, high) if first <= second else (low, middle)
        found.append({"role": role, "below": below, "above": above, "density": (low + high) / 2})
    return found


def plot_formats(architecture: Architecture, einsum: Einsum, dense: Result, ax: Axes | None = None) -> Axes:
    """Draw the energy [pJ/MAC] of a mapping over a tensor's density, for each format, and where the best changes."""
    with style.drawing(ax) as ax:
        rows = formats_table(architecture, einsum, dense)
        for name in FORMATS:
            own = [row for row in rows if row["format"] == name]
            energies = [row["energy_pj"] / dense.macs for row in own]
            dashes = "--" if name == "run lengths" else "-"  # it may lie on that of coordinates
            ax.plot([row["density"] for row in own], energies, dashes, color=_COLOURS[name], label=name)
        for change in break_evens(architecture, einsum, dense):
            share = change["density"]
            ax.axvline(share, color="#888888", linewidth=0.8, linestyle=":")
            text = f"{100 * share:.3g} %"
            ax.annotate(
                text, (share, 0.02), (2, 0), ("data", "axes fraction"), textcoords="offset points", fontsize="small"
            )
        ax.set_xlim(0, 1)
        style.share_ticks(ax.xaxis)
        ax.set_xlabel(f"words of {rows[0]['role']} that are not zero")
        ax.set_ylabel("energy [pJ/MAC]")
        style.put_title(ax, f"{einsum.name} on {architecture.name}", "the best dense mapping", legend=True)
    return ax
