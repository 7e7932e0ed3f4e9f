"""Reports about zeros: what they save of a mapping, and the best mapping with them left out."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from accelsim.inputs.units import ratio
from accelsim.model.sparsity.result import SparseResult
from accelsim.search.zeros import BestWithZeros
from accelsim.show.report import energy, gap_text, percent
from accelsim.show.report.mapping import nest_line
from accelsim.show.table import Column, Piece, Table, heading


def sparse_report(found: SparseResult | None) -> Iterator[Piece]:
    """Dense, effective and ineffectual work of a mapping side by side; nothing without a result."""
    if found is None:
        return
    dense, compute = found.dense, found.compute
    yield heading("Zeros", "expected values; words of all instances")
    for violation in found.violations:
        yield Text(f"INVALID: {violation}", style="bold red")
    rows = [
        ("energy", energy(dense.energy_pj, 6), energy(found.energy_pj, 6), ratio(found.energy_pj, dense.energy_pj)),
        ("cycles", f"{dense.cycles:,}", f"{found.cycles:,}", found.cycles / dense.cycles),
        ("MACs", f"{compute.dense:,}", f"{compute.actual:,.0f}", compute.actual / compute.dense),
    ]
    totals = [{"what": what, "dense": was, "now": now, "share": of} for what, was, now, of in rows]
    named = (Column("", "what"), Column("dense", "dense"), Column("with zeros left out", "now"))
    yield Table("sparse_totals", (*named, Column("share", "share", percent)), totals)
    yield f"Gated MACs: {compute.gated:,.0f}; skipped: {compute.skipped:,.0f}. Bottleneck: {found.bottleneck}.\n"
    if compute.slowest > 1:
        yield f"Imbalance: the slowest instances take {compute.slowest:.3g}x the mean time, and all others wait.\n"
    number = "{:,.0f}".format
    columns = (
        Column("level", "level", once=True),
        Column("tensor", "tensor"),
        Column("format", "format"),
        Column("tile", "held_words", number),
        Column("dense", "dense_words", number),
        Column("actual", "actual_words", number),
        Column("gated", "gated_words", number),
        Column("skipped", "skipped_words", number),
        Column("metadata [bit]", "metadata_bits", number),
        Column("energy", lambda row: row["energy_pj"] / row["dense_pj"] if row["dense_pj"] else None, percent),
    )
    yield Table("sparse", columns, found.rows())
    yield "Energy is relative to that of the dense words; what is in no column is not stored, or left out further out."


def best_report(best: BestWithZeros | None) -> Iterator[Piece]:
    """The best mapping with zeros left out, and whether that is proved; nothing without one."""
    if best is None:
        return
    yield heading("Best mapping with zeros")
    cost = f"{energy(best.found.energy_pj, 6)}, {best.found.cycles:,} cycles"
    if best.proved:
        yield f"{cost}: optimal (proved) among the mappings whose tiles fit before they are compressed\n"
        yield nest_line(best.found.dense)
    else:
        known = f"at most {gap_text(best.gap)} above the best" if best.bound else "not proved"
        yield f"{cost}: {known}, because {best.why}\n"
        yield nest_line(best.found.dense)
