"""Read densities of tensors: a share, or a distribution with its parameters, or a mask in a file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.inputs import fields, forms
from accelsim.inputs.errors import Unreadable
from accelsim.inputs.fields import Fields, Key, Keys, formed, keys_form
from accelsim.inputs.library import read_unpacked
from accelsim.inputs.source import MapNode, Node, Problems
from accelsim.inputs.units import listed, near_miss, quoted
from accelsim.inputs.workload import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accelsim.inputs.density import Density, Measured

_TAKES = {
    "uniform": ("density",),
    "fixed_structured": ("density",),
    "n_of_m": ("n", "m", "along"),
    "banded": ("band_width",),
    "measured": ("file",),
}
_DENSITY: Keys = {
    "distribution": Key(fields.one_of(_TAKES, "a distribution"), "distribution of the nonzero words"),
    "density": Key(fields.share, "fraction of nonzero words", "of uniform, fixed_structured", "0 to 1"),
    "n": Key(fields.count, "nonzero words of a block", "of n_of_m"),
    "m": Key(fields.positive_int, "words of a block", "of n_of_m"),
    "along": Key(fields.identifier, "dimension of the blocks", "of n_of_m"),
    "band_width": Key(fields.count, "diagonals on each side of the main diagonal", "of banded"),
    "file": Key(fields.text, "mask: `.npy`, or `.npz` of one array, next to this file", "of measured"),
}
Read = tuple[Node, Fields | None, "Density | None"]
"""What is written, its keys if it has some, and the density of those that need not know the tensor."""


@formed(forms.either(fields.share.form, keys_form(_DENSITY)))
def read_density(node: Node, problems: Problems) -> Read | None:
    """Read one density as far as that goes without its tensor."""
    from accelsim.inputs.density import Banded, FixedStructured, Uniform

    if not isinstance(node, MapNode):
        share = fields.share(node, problems)
        return None if share is None else (node, None, Uniform(share))
    written, before = Fields(node, problems, _DENSITY), len(problems)
    kind = written.value("distribution", "")
    takes = _TAKES.get(kind, ())
    for key in takes:
        if key not in written:
            problems.add(node, f"'{key}' is missing: {kind} takes {listed(takes)}")
    for key in written.entries if takes else ():
        if key not in (*takes, "distribution") and key in _DENSITY:
            problems.add(written.entries[key], f"{kind} takes {listed(takes)} only", f"leave `{key}` out")
    if len(problems) > before or not written.readable:
        return None
    if kind in ("uniform", "fixed_structured"):
        share = written.value("density", None)
        found: Density | None = (Uniform if kind == "uniform" else FixedStructured)(share) if share else None
    else:
        found = Banded(written.value("band_width", 0)) if kind == "banded" else None
    return (node, written, found) if len(problems) == before else None


_read = fields.mapping_of(read_density)
DENSITIES = Key(_read, "nonzero words, by role or tensor: a fraction or a distribution", "dense")
"""The key `densities` of a workload or a layer."""


def density_of(tensor: Tensor, dims: Mapping[str, int], read: Read, problems: Problems) -> Density | None:
    """Density of a tensor; what does not fit it is reported."""
    from accelsim.inputs.density import Banded, NOfM

    node, written, found = read
    if isinstance(found, Banded) and len(tensor.ranks) != 2:
        problems.add(node, f"a band is of a matrix, and {tensor.name} has {len(tensor.ranks)} ranks", "use another")
    if found is not None or written is None:
        return found
    if written.entries["distribution"].text == "measured":  # type: ignore[union-attr]
        return _mask(tensor, dims, written, problems)
    n, m, along = written.value("n", 0), written.value("m", 1), written.value("along", "")
    ranks = [place for place, rank in enumerate(tensor.ranks) if [dim for dim, _ in rank] == [along]]
    if n > m:
        problems.add(written.entries["n"], f"{n} of {m} words cannot be other than zero", f"write n: {m} or less")
    elif n == 0:
        problems.add(written.entries["n"], "all words are zero", "write n: 1 or more")
    elif not ranks:
        plain = [rank[0][0] for rank in tensor.ranks if len(rank) == 1]
        what = f"{quoted(along)} is no rank of its own in {tensor.name}"
        problems.add(written.entries["along"], what, near_miss(along, plain, "ranks"))
    else:
        return NOfM(n, m, ranks[0])
    return None


def _mask(tensor: Tensor, dims: Mapping[str, int], written: Fields, problems: Problems) -> Measured | None:
    from accelsim.inputs.density import measured

    node, shape = written.entries["file"], tensor.box(dims)
    name = written.value("file", "")
    try:
        array = _read_array(Path(node.mark.file).parent / name)
    except Unreadable as error:
        problems.add(node, f"{name}: {error.why}", "a mask is an array of NumPy, such as mask.npy")
        return None
    if array.shape != shape:
        ranks = " x ".join(map(str, array.shape))
        what = f"the mask has {ranks or 'one'} words, and {tensor.name} is {' x '.join(map(str, shape))}"
        problems.add(node, what, "its ranks are in the order of the tensor's")
        return None
    return measured(array, name)


def _read_array(path: Path) -> NDArray[np.generic]:
    """Array of numbers or truth values in an `.npy`, or alone in an `.npz`; raises Unreadable if there is none."""
    import numpy as np

    data = read_unpacked(path)
    if not data.startswith(b"\x93NUMPY"):
        raise Unreadable(path, "holds no array of NumPy")
    try:
        with warnings.catch_warnings(action="ignore"):  # of a head that Python 2 wrote
            array: NDArray[np.generic] = np.load(io.BytesIO(data), allow_pickle=False)
    except MemoryError:
        raise Unreadable(path, "says that it holds more words than there is memory for") from None
    except Exception as error:  # a damaged head fails in as many ways as Python's literals
        why = " ".join(str(error).split())[:200] if isinstance(error, ValueError) else "its head is damaged"
        raise Unreadable(path, f"cannot be read: {why}") from None
    if array.dtype.kind not in "biuf":
        raise Unreadable(path, f"holds words of the type {array.dtype}, which are no numbers")
    if not np.isfinite(array).all():
        raise Unreadable(path, "holds words that are no finite numbers (NaN or infinity)")
    return array
