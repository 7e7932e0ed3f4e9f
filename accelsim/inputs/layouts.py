"""Data layouts: in which lines and in which order the words of a tensor lie in the outermost level."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from accelsim.inputs import fields, forms
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.fields import Fields, Key, Keys, keys_form
from accelsim.inputs.source import Node, Problems
from accelsim.inputs.units import repeated, unknown
from accelsim.inputs.workload import Einsum, Tensor


@dataclass(frozen=True, slots=True)
class DataLayout:
    """Lines of a tensor: blocks of `line` words along each rank, in the `order` of the ranks, outermost first.

    The last line along a rank is padded to a whole one. Without `line`, whole ranks lie one after the other, and a line
    is as full as a burst allows.
    """

    order: tuple[int, ...]
    line: tuple[int, ...] = ()


def rank_names(tensor: Tensor) -> list[str]:
    """Names of the ranks of a tensor, such as `C` or `P+R`."""
    return ["+".join(dim for dim, _ in rank) for rank in tensor.ranks]


def layout_text(tensor: Tensor, layout: DataLayout, full: Sequence[int], *, plain: bool = False) -> str:
    """A layout as text: the ranks of more than one word, and the words of a line where these are not `plain`.

    >>> from accelsim.inputs.workload import Tensor
    >>> weights = Tensor("Weights", ((("C", 1),), (("M", 1),)))
    >>> layout_text(weights, DataLayout((1, 0), (4, 8)), (64, 64))
    'M C, lines of C=4 M=8'
    """
    names = rank_names(tensor)
    order = " ".join(names[rank] for rank in layout.order if full[rank] > 1)
    line = " ".join(f"{name}={n}" for name, n in zip(names, layout.line, strict=False) if n > 1)
    return order if plain or not line else f"{order}, lines of {line}"


_BLOCK = re.compile(r"\s*(\S+?)\s*=\s*([0-9]{1,18})(?:\s+|\s*,\s*|$)")
_FACTORS = re.compile(rf"(?:{_BLOCK.pattern})*")


def _factors(text: str) -> dict[str, int] | None:
    blocks = _BLOCK.findall(text)
    found = {name: int(n) for name, n in blocks}
    return found if _FACTORS.fullmatch(text) and all(found.values()) and len(found) == len(blocks) else None


_read_factors = fields.scalar(forms.pattern(_FACTORS), _factors, "factors such as `C=8 Q=4`, each rank once")
_ENTRY: Keys = {
    "target": Key(fields.name, "the first level; others are ignored"),
    "tensor": Key(fields.identifier, "its tensor", "all"),
    "type": Key(fields.one_of(("interline", "intraline")), "order of the lines, or words in a line"),
    "factors": Key(_read_factors, "words of a line along each rank", "1"),
    "permutation": Key(fields.text, "ranks, outermost first, such as `NCHW`", "the Einsum's"),
}
_read_entries = fields.items_of(keys_form(_ENTRY), "entries with `target` and `type`", least=1)
LAYOUT_FORM = _read_entries.form
"""What may stand under `layout`, as JSON Schema."""
_WINDOWS = {frozenset("PR"): "H", frozenset("QS"): "W"}
"""Timeloop's names of the ranks of a convolution's inputs, by the dimensions that they sum."""


def load_layouts(source: fields.Source, architecture: Architecture, einsum: Einsum) -> dict[str, DataLayout]:
    """Read the layout of tensors at the outermost level, from a file in Timeloop's form.

    Parameters
    ----------
    source : str, path or dict
        YAML file with a top-level key `layout`, or what such a file holds: a list whose entries name a level
        (`target`), `type: interline` with the order of the lines (`permutation`), or `type: intraline` with the words
        of a line (`factors`). Entries of other levels are ignored with a warning; `tensor` says whose layout it is.

    Returns
    -------
    dict of str to DataLayout
        By tensor.

    Raises
    ------
    InputError
        With every mistake in the file and its place.
    """
    problems = Problems()
    document = fields.open_source(source, "layout", None, problems)
    return problems.result(read_layouts(document.body, problems, architecture, einsum) if document else None)


def read_layouts(
    body: Node, problems: Problems, architecture: Architecture | None = None, einsum: Einsum | None = None
) -> dict[str, DataLayout] | None:
    """Read what stands under `layout`; without architecture and Einsum only its form is checked."""
    before = len(problems)
    node = _read_entries(body, problems)
    entries = [Fields(item, problems, _ENTRY) for item in (node.items if node else ())]
    read = [tuple(entry.value(key, "") for key in ("target", "tensor", "type", "permutation")) for entry in entries]
    blocks = [entry.value("factors", dict[str, int]()) for entry in entries]
    if len(problems) > before:
        return None
    if architecture is None or einsum is None:
        return {}
    outermost = architecture.levels[0].name
    tensors = {tensor.name: tensor for tensor in einsum.tensors}
    order, line = dict[str, tuple[int, ...]](), dict[str, tuple[int, ...]]()
    for entry, (target, name, kind, permutation), factors in zip(entries, read, blocks, strict=True):
        if target != outermost:
            if target not in {level.name for level in architecture.levels}:
                entry.wrong("target", *unknown("level", target, [outermost], architecture.name))
            else:
                problems.warn(entry.entries["target"], f"{target}: no layout is counted there", f"{outermost} has one")
            continue
        if name and name not in tensors:
            entry.wrong("tensor", *unknown("tensor", name, tensors, einsum.name))
            continue
        known = {rank for tensor in tensors.values() for rank in _aliases(tensor)} | set(einsum.dims)
        several = re.split(r"[\s,]+", permutation)  # a word that is no rank is letters, one for each rank
        words = [name for word in several for name in ([word] if word in known else word)]
        for key, given in (("permutation", words), ("factors", list(factors))):
            for word in given:
                if word not in known:
                    entry.wrong(key, *unknown("rank", word, sorted(known), einsum.name))
        for tensor in [tensors[name]] if name else tensors.values():
            full, alias = tensor.box(einsum.dims), _aliases(tensor)
            if permutation and kind == "interline":
                order[tensor.name] = _order(entry, tensor, [alias[word] for word in words if word in alias])
            if kind == "intraline":
                block = tensor.box({dim: factors.get(dim, 1) for dim in einsum.dims})
                named = {alias[word]: n for word, n in factors.items() if word in alias}
                each = [named.get(rank, block[rank]) for rank in range(len(full))]
                if max(each, default=1) > 1:
                    line[tensor.name] = tuple(min(n, extent) for n, extent in zip(each, full, strict=True))
    if not order and not line and len(problems) == before:
        problems.add(body, f"no entry has the target {outermost}", f"write `target: {outermost}`")
    if len(problems) > before:
        return None
    usual = {name: tuple(range(len(tensors[name].ranks))) for name in {**order, **line}}
    return {name: DataLayout(order.get(name, each), line.get(name, ())) for name, each in usual.items()}


def _aliases(tensor: Tensor) -> dict[str, int]:
    """Ranks of a tensor by each of their names."""
    windows = (_WINDOWS.get(frozenset(dim for dim, _ in terms)) for terms in tensor.ranks)
    found = {window: rank for rank, window in enumerate(windows) if window}
    return found | {name: rank for rank, name in enumerate(rank_names(tensor))}


def _order(entry: Fields, tensor: Tensor, named: list[int]) -> tuple[int, ...]:
    """Order of all ranks; those that are not named are outermost, as the Einsum has them."""
    for name in repeated([rank_names(tensor)[rank] for rank in named]):
        entry.wrong("permutation", f"{name} of {tensor.name} is there twice", "name each rank once")
    return (*(rank for rank in range(len(tensor.ranks)) if rank not in named), *dict.fromkeys(named))
