"""The command `map` on a GPU: the best kernel tiling of each layer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from accelsim.cli.printing import DONE, answer
from accelsim.inputs.errors import AccelsimError

if TYPE_CHECKING:
    from accelsim.show.table import Part

_MOST_LINES = 5
"""Layers that are named as left out."""
_FOREIGN = (
    "constraints",
    "limit",
    "objective",
    "top",
    "within",
    "uneven",
    "imperfect",
    "pad",
    "pareto",
    "mappings",
    "seed",
    "html",
)


def map_on_gpu(arguments: argparse.Namespace) -> int:
    """Choose the fastest kernel tiling of each layer on a GPU."""
    from accelsim.cli.inputs import find_layer, read_workload
    from accelsim.gpu.calibration import mode_of
    from accelsim.gpu.catalogue import load_gpu
    from accelsim.gpu.kernel import best_kernels
    from accelsim.gpu.layers import gemms_of, product_of
    from accelsim.gpu.winograd import with_winograd
    from accelsim.results.folder import refuse_directory, write_directory
    from accelsim.results.output import to_json
    from accelsim.show.report.gpu import kernel_report, kernel_row, kernels_report, totals

    for name in _FOREIGN:
        if getattr(arguments, name, None):
            raise AccelsimError(f"--{name}: not for a GPU, whose kernel tilings are few; all are compared, by time")
    if arguments.output:
        refuse_directory(arguments.output)
    gpu = load_gpu(arguments.arch, arguments.mig)
    workload = read_workload(arguments, arguments.workload)
    layer = find_layer(workload, arguments.layer, arguments.workload)
    layers = [layer] if layer else list(workload.layers)
    products, left_out = [], []
    for einsum in list(layers):
        try:
            products.append(product_of(einsum, arguments.training_pass))
        except AccelsimError as error:
            left_out.append(str(error))
            layers.remove(einsum)
    if not products:
        raise AccelsimError(left_out[0])
    if left_out and not arguments.quiet:
        sys.stderr.write("".join(f"left out of the total: {line}\n" for line in left_out[:_MOST_LINES]))
        more = len(left_out) - _MOST_LINES
        sys.stderr.write(f"and {more} more layers\n" if more > 0 else "")
    number_format = arguments.dtype or _format_of_bits({product.bits for product in products})
    mode = mode_of(gpu, number_format, arguments.calibration)
    names = [einsum.name for einsum in layers]
    gemms = gemms_of(products)
    kernels = best_kernels(gpu, names, gemms, number_format, mode, l2=arguments.l2, stream_k=arguments.stream_k)
    if arguments.winograd:
        options = {"training_pass": arguments.training_pass, "l2": arguments.l2}
        pairs = zip(layers, kernels, strict=True)
        kernels = [with_winograd(gpu, einsum, kernel, mode, **options) for einsum, kernel in pairs]
    repeats = [einsum.repeat for einsum in layers]
    rows = [kernel_row(kernel, repeat) for kernel, repeat in zip(kernels, repeats, strict=True)]
    document: dict[str, Any] = {"gpu": gpu.name, "workload": workload.name, "mode": mode.text, "kernels": rows}
    if left_out:
        document["left_out"] = left_out
    if len(kernels) > 1:
        document["total"] = dict(totals(kernels, repeats))
    if arguments.output:
        write_directory(arguments.output, {"kernels.json": to_json(document).encode()})

    def report() -> Iterator[Part]:
        if len(kernels) == 1:
            return kernel_report(kernels[0], quiet=arguments.quiet)
        return kernels_report(workload.name, kernels, repeats)

    answer(arguments, document, report, arguments.output)
    return DONE


def _format_of_bits(bits: set[int]) -> str:
    """Number format of a width, where it is clear."""
    by_bits = {64: "fp64", 32: "fp32", 16: "fp16", 8: "int8", 4: "int4"}
    found = by_bits.get(max(bits))
    if len(bits) > 1 or found is None:
        raise AccelsimError(f"operands of {', '.join(map(str, sorted(bits)))} bit: say which number format: --dtype")
    return found
