"""Workloads: Einsums over named dimensions, and networks of layers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import NodeNote
from accelsim.inputs.units import near_miss, unknown

if TYPE_CHECKING:
    from accelsim.inputs.density import Density

ROLES = ("Weights", "Inputs", "Outputs")
OPERATIONS = ("multiply_add", "multiply", "add", "max", "divide", "softmax", "normalize", "activate")
"""What an Einsum does at each point; cores of a system say which they can do."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One operand or the result of an Einsum.

    Each rank is a sum of `(dimension, coefficient)` terms with positive coefficients: `h = 2*P + R` is
    `(("P", 2), ("R", 1))`. A dimension appears in at most one rank.
    """

    name: str
    ranks: tuple[tuple[tuple[str, int], ...], ...]
    role: str = "Inputs"
    bits: int = 16
    psum_bits: int = 16
    output: bool = False
    density: Density | None = None  # what is known of its zeros; None: nothing, and so no word counts as one

    def __post_init__(self) -> None:
        dims = [dim for rank in self.ranks for dim, _ in rank]
        if len(dims) != len(set(dims)):
            raise ValueError(f"tensor {self.name}: a dimension may appear in one rank only, got {dims}")
        if any(coefficient < 1 for rank in self.ranks for _, coefficient in rank):
            raise ValueError(f"tensor {self.name}: coefficients must be >= 1")
        if self.role not in ROLES:
            raise ValueError(f"tensor {self.name}: role must be one of {', '.join(ROLES)}, got {self.role}")

    @property
    def dims(self) -> frozenset[str]:
        """Dimensions that move the tensor: its relevant ones."""
        return frozenset(dim for rank in self.ranks for dim, _ in rank)

    def box(self, tile: Mapping[str, int]) -> tuple[int, ...]:
        """Extents [words] along each rank of the box that a tile of the given dimension sizes touches."""
        return tuple(1 + sum(coefficient * (tile[dim] - 1) for dim, coefficient in rank) for rank in self.ranks)

    def words(self, tile: Mapping[str, int]) -> int:
        """Words in the box that a tile of the given dimension sizes touches."""
        return math.prod(self.box(tile))


@dataclass(frozen=True, slots=True)
class Einsum:
    """One tensor operation: a product of the input tensors, summed into the output.

    `repeat` says how often a network holds this layer; `unpadded` holds the bounds before `pad` rounded some up;
    `whole` are dimensions along which all words must be there at once, as in a soft-max: fused loops leave them alone;
    `operation`, one of `OPERATIONS`, is what happens at each point; `slices` are dimensions that `sliced` added.
    """

    name: str
    dims: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    repeat: int = 1
    unpadded: Mapping[str, int] | None = None
    whole: frozenset[str] = frozenset()
    operation: str = "multiply_add"
    slices: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if sum(tensor.output for tensor in self.tensors) != 1:
            raise ValueError(f"einsum {self.name}: exactly one tensor must be the output")
        used = frozenset[str]().union(*(tensor.dims for tensor in self.tensors))
        if used != frozenset(self.dims):
            odd = sorted(used ^ frozenset(self.dims))
            raise ValueError(f"einsum {self.name}: dimensions {odd} are not used or not defined")
        if any(bound < 1 for bound in self.dims.values()):
            raise ValueError(f"einsum {self.name}: bounds must be >= 1")

    @property
    def macs(self) -> int:
        """Multiply-accumulates: the product of all bounds, padding included."""
        return math.prod(self.dims.values())

    @property
    def real_macs(self) -> int:
        """Multiply-accumulates without padding."""
        return math.prod((self.unpadded or self.dims).values())

    @property
    def output(self) -> Tensor:
        """The tensor that is written."""
        return next(tensor for tensor in self.tensors if tensor.output)

    @property
    def operand_bits(self) -> int:
        """Width [bit] of the widest operand."""
        return max((tensor.bits for tensor in self.tensors if not tensor.output), default=0)

    def tensor(self, name: str) -> Tensor:
        """The tensor of a name that it has."""
        return next(tensor for tensor in self.tensors if tensor.name == name)


def pad(einsum: Einsum, bounds: Mapping[str, int]) -> Einsum:
    """Round bounds up; if any is given, the others are the Einsum's own, without padding.

    Raises ValueError if a dimension is unknown, or its bound would shrink.

    >>> gemm = Einsum("gemm", {"M": 7, "K": 5}, (Tensor("A", ((("M", 1),), (("K", 1),))),
    ...                                          Tensor("Z", ((("M", 1),),), output=True)))
    >>> padded = pad(gemm, {"M": 8})
    >>> padded.macs, padded.real_macs
    (40, 35)
    """
    real = einsum.unpadded or einsum.dims
    for dim, bound in bounds.items():
        if bound < real.get(dim, bound + 1):
            raise ValueError(f"{einsum.name}: {dim} cannot be padded to {bound}")
    if not bounds:
        return einsum
    return replace(einsum, dims={**real, **bounds}, unpadded=real)


def sliced(einsum: Einsum, slices: Mapping[str, int]) -> Einsum:
    """Take the words of operands apart into slices of so many bits, by role; each gives a dimension of its own.

    A product of two words is then one of each pair of their slices, all added to the same output.

    >>> gemm = Einsum("gemm", {"M": 7, "K": 5}, (Tensor("A", ((("M", 1),), (("K", 1),)), bits=8),
    ...                                          Tensor("Z", ((("M", 1),),), output=True)))
    >>> bitwise = sliced(gemm, {"Inputs": 1})
    >>> dict(bitwise.dims), bitwise.tensors[0].bits
    ({'M': 7, 'K': 5, 'A_slices': 8}, 1)
    """
    dims, tensors = dict(einsum.dims), list[Tensor]()
    for tensor in einsum.tensors:
        bits = tensor.bits if tensor.output else slices.get(tensor.role, tensor.bits)
        many, dim = -(-tensor.bits // bits), f"{tensor.name}_slices"
        if many > 1:
            dims[dim] = many
            tensor = replace(tensor, ranks=(*tensor.ranks, ((dim, 1),)), bits=bits, psum_bits=bits)
        tensors.append(tensor)
    added = frozenset(dims.keys() - einsum.dims.keys())
    return replace(einsum, dims=dims, tensors=tuple(tensors), slices=einsum.slices | added) if added else einsum


def shared_rank(einsum: Einsum, dim: str) -> str | None:
    """Tensor and rank in which a dimension is added to another one of bound > 1, so that it can leave no remainder.

    >>> pool = (Tensor("Inputs", ((("C", 1),), (("P", 2), ("R", 1)))), Tensor("Outputs", ((("C", 1),),), output=True))
    >>> einsum = Einsum("pool", {"C": 7, "P": 5, "R": 3}, pool)
    >>> shared_rank(einsum, "P"), shared_rank(einsum, "C")
    ('2*P + R of Inputs', None)
    """
    for tensor in einsum.tensors:
        for rank in tensor.ranks:
            terms = [(d, factor) for d, factor in rank if einsum.dims[d] > 1]
            if len(terms) > 1 and dim in dict(terms):
                text = " + ".join(d if factor == 1 else f"{factor}*{d}" for d, factor in terms)
                return f"{text} of {tensor.name}"
    return None


@dataclass(frozen=True, slots=True)
class Workload:
    """Named layers, each an Einsum.

    Attributes
    ----------
    edges : tuple of Edge
        Which layer's output feeds which input, where the file says so; producers stand before their consumers.
    inputs : tuple of Edge
        Which inputs of the network, by name in place of a producer, are read by which layers.
    yields : mapping of str to int
        What one run of all layers gives, such as `{"frames": 8}`.
    notes : tuple of Note
        Nodes of an imported model that are not counted as they are, and why.
    """

    name: str
    layers: tuple[Einsum, ...] = field(default_factory=tuple)
    edges: tuple[Edge, ...] = ()
    inputs: tuple[Edge, ...] = ()
    yields: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[NodeNote, ...] = ()


def without_other_operations(workload: Workload) -> tuple[Workload, tuple[Einsum, ...]]:
    """Take a network apart: what multiplies and adds, as the MACs of a machine do, and layers of other operations.

    The latter are such as pooling, sums and norms, which accelerators leave to other units. A workload that has nothing
    else stays whole.

    >>> from accelsim import load_workload
    >>> passed = {"dims": {"C": 8}, "tensors": {"Inputs": ["C"], "Outputs": ["C"]}, "output": "Outputs"}
    >>> norm = {"name": "norm", "operation": "normalize", "einsum": passed}
    >>> layers = [{"name": "fc", "gemm": {"M": 4, "N": 8, "K": 2}}, norm]
    >>> counted, others = without_other_operations(load_workload({"workload": {"name": "net", "layers": layers}}))
    >>> [layer.name for layer in counted.layers], [layer.name for layer in others]
    (['fc'], ['norm'])
    """
    layers = tuple(layer for layer in workload.layers if layer.operation == OPERATIONS[0])
    if len(layers) in (0, len(workload.layers)):
        return workload, ()
    names = {layer.name for layer in layers}
    edges = tuple(edge for edge in workload.edges if {edge.producer, edge.consumer} <= names)
    inputs = tuple(edge for edge in workload.inputs if edge.consumer in names)
    others = tuple(layer for layer in workload.layers if layer.name not in names)
    return replace(workload, layers=layers, edges=edges, inputs=inputs), others


@dataclass(frozen=True, slots=True)
class Edge:
    """An input tensor of a layer that is the output of another layer, or a part of it where several are concatenated.

    Edges join single runs of layers: where `repeat` counts several runs, each run of the consumer reads a run of the
    producer. Where one runs more often, as a step of a recurrent layer, the words of all its runs may be those of one.
    """

    producer: str
    consumer: str
    tensor: str


FURTHEST = 1.25
"""A bound is rounded up to at most so many times itself, unless another bound is asked for."""


def rounded_bounds(bound: int) -> list[int]:
    """Return the bound and its roundings to multiples of 2, 4, 8 ... that are at most a quarter larger.

    >>> rounded_bounds(55), rounded_bounds(7), rounded_bounds(64)
    ([55, 56, 64], [7, 8], [64])
    """
    powers = (2**k for k in range(bound.bit_length()))
    rounded = {-(-bound // power) * power for power in powers} | {bound}
    return sorted(each for each in rounded if each <= FURTHEST * bound)


FACTORS = ("auto", "perfect", "imperfect", "padded")
"""Kinds of factors that loops may have."""


def read_factors(text: str) -> tuple[str | tuple[str, ...], str | tuple[str, ...]]:
    """Dimensions whose loops may leave remainders, and those whose bounds may be padded, of a text such as a user's.

    `auto` is as `accelsim.map` has it.

    Raises AccelsimError if it names no kind of factors.

    >>> read_factors("auto"), read_factors("perfect"), read_factors("imperfect:M,K+padded")
    (('auto', ()), ((), ()), (('M', 'K'), 'all'))
    """
    found: dict[str, str | tuple[str, ...]] = {}
    for each in text.split("+"):
        kind, _, dims = (part.strip() for part in each.partition(":"))
        if kind not in FACTORS:
            raise AccelsimError(
                "; ".join([f"'{kind}' is none of {', '.join(FACTORS)}", near_miss(kind, FACTORS)]).strip("; ")
            )
        found[kind] = tuple(filter(None, (dim.strip() for dim in dims.split(",")))) or "all"
    return "auto" if [*found] == ["auto"] else found.get("imperfect", ()), found.get("padded", ())


def read_padding(einsum: Einsum, requested: str | Sequence[str]) -> dict[str, list[int]]:
    """Bounds to try for each dimension that may be padded: `all`, some that are rounded up, or `P=56` for one bound.

    Raises AccelsimError if a dimension is unknown, or a bound smaller than its own.
    """
    found: dict[str, set[int]] = {}
    for text in einsum.dims if requested == "all" else [requested] if isinstance(requested, str) else requested:
        dim, equals, value = (part.strip() for part in text.partition("="))
        if dim not in einsum.dims:
            raise AccelsimError("; ".join(unknown("dimension", dim, einsum.dims, einsum.name)))
        bound = einsum.dims[dim]
        if not equals:
            found.setdefault(dim, {bound}).update(rounded_bounds(bound))
        elif not value.isdecimal() or not bound <= int(value) < 10**9:
            what = f"{dim} is {bound} in {einsum.name} and cannot be padded to '{value}'"
            raise AccelsimError(f"{what}; write a larger bound")
        else:
            found.setdefault(dim, {bound}).add(int(value))
    return {dim: sorted(bounds) for dim, bounds in found.items() if len(bounds) > 1}


def padded_einsums(einsum: Einsum, bounds: dict[str, list[int]]) -> Iterator[Einsum]:
    """Yield the Einsum with every choice of bounds, that without padding first, then by multiply-accumulates."""
    choices = itertools.product(*bounds.values())
    for chosen in sorted(choices, key=lambda each: (math.prod(each), each)):
        more = {dim: bound for dim, bound in zip(bounds, chosen, strict=True) if bound > einsum.dims[dim]}
        yield pad(einsum, more)
