"""Layers as matrix products: GEMM as it is, a convolution as implicit GEMM, the passes of training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from accelsim.gpu.gemm import Gemms
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Einsum

PASSES = ("forward", "input_gradient", "weight_gradient")


@dataclass(frozen=True, slots=True)
class Product:
    """An Einsum as a batch of matrix products; `unique` as in `Gemms`."""

    m: int
    n: int
    k: int
    batch: int
    unique: float
    bits: int


def product_of(einsum: Einsum, training_pass: str = "forward") -> Product:
    """See an Einsum of two operands as matrix products.

    Dimensions of both operands and the result count the batch (such as groups), those of the inputs and the result are
    M, those of the weights and the result N, those of both operands K. A convolution becomes an implicit GEMM:
    M = N P Q, N = K, K = C R S. The gradient of its inputs has a row for each input point (padding too) and as many
    multiply-adds as the forward pass, that of its weights the three sizes in another order.

    Parameters
    ----------
    einsum : Einsum
    training_pass : str
        One of `PASSES`.

    Raises
    ------
    AccelsimError
        If it is no product of two tensors.

    Examples
    --------
    >>> from accelsim.inputs.workload_reader import load_workload
    >>> conv = load_workload("conv").layers[0]
    >>> dict(conv.dims)
    {'N': 1, 'K': 256, 'C': 256, 'P': 56, 'Q': 56, 'R': 3, 'S': 3}
    >>> product = product_of(conv)
    >>> product.m, product.n, product.k, round(product.unique, 3)
    (3136, 256, 2304, 0.119)
    >>> [(p.m, p.n, p.k) for p in (product_of(conv, name) for name in PASSES[1:])]
    [(3364, 256, 2148), (256, 2304, 3136)]
    """
    operands = [tensor for tensor in einsum.tensors if not tensor.output]
    if len(operands) != 2:
        many = "one operand" if len(operands) == 1 else f"{len(operands)} operands"
        raise AccelsimError(f"{einsum.name}: {many}; a kernel of matrix products has two")
    weights = next((tensor for tensor in operands if tensor.role == "Weights"), operands[1])
    inputs = operands[0] if weights is operands[1] else operands[1]
    output = einsum.output
    size = einsum.dims

    def count(*where: bool) -> int:
        a, b, c = where
        names = (d for d in size if (d in inputs.dims, d in weights.dims, d in output.dims) == (a, b, c))
        return math.prod(size[d] for d in names)

    if count(True, False, False) * count(False, True, False) > 1:
        raise AccelsimError(f"{einsum.name}: a dimension of one operand alone is summed up; that is no matrix product")
    batch, m, n, k = (
        count(True, True, True),
        count(True, False, True),
        count(False, True, True),
        count(True, True, False),
    )
    if batch > m * n * k == 1:
        raise AccelsimError(f"{einsum.name}: goes through both operands word by word; that is no matrix product")
    unique = min(1.0, inputs.words(size) / (m * k * batch))
    bits = max(tensor.bits for tensor in operands)
    if training_pass == "forward":
        return Product(m, n, k, batch, unique, bits)
    if training_pass == "weight_gradient":
        return Product(n, k, m, batch, 1.0, bits)
    window = math.prod(size[d] for rank in inputs.ranks if len(rank) > 1 for d, _ in rank if d in weights.dims)
    points = inputs.words(size) // (batch * k // window)
    reduced = max(1, -(-einsum.macs // (batch * points * (k // window))))
    return Product(points, k // window, reduced, batch, min(1.0, 1 / window), bits)


def gemms_of(products: list[Product]) -> Gemms:
    """Products as arrays."""
    return Gemms.of(
        [p.m for p in products],
        [p.n for p in products],
        [p.k for p in products],
        [p.batch for p in products],
        [p.unique for p in products],
    )
