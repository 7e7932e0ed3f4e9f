"""Traces of PyTorch's profiler: kernels, and the products that the operators which launched them compute.

`torch.profiler.profile(activities=[CPU, CUDA], record_shapes=True).export_chrome_trace("trace.json.gz")` writes JSON.
A kernel there names its operator (`External id`), and an operator its inputs: sizes, strides and types. Where the
`External id` is but the kernel's own correlation (pytorch/kineto, pull request 873), the operator is the innermost
product during which the kernel was launched.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from accelsim.gpu.catalogue import format_of
from accelsim.gpu.measured import LEAST_US, MOST_US
from accelsim.gpu.profiled import ProfiledKernel, format_in
from accelsim.inputs.errors import Mark, Unreadable
from accelsim.inputs.library import read_unpacked
from accelsim.inputs.source import Problems

_FACTORS = {
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::_scaled_mm", "aten::_int_mm"), 0),
    **dict.fromkeys(("aten::addmm", "aten::baddbmm", "aten::_addmm_activation"), 1),
}
"""Operators that compute a product, and which of their inputs is its first factor; the second follows."""
_CONVOLUTION = "aten::cudnn_convolution"
_LAUNCHES = ("cuda_runtime", "cuda_driver")
_C_TYPES = {"signed char": "int8", "double": "fp64", "float": "fp32"}
_HOW = "record it with `profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True)`"


@dataclass(frozen=True, slots=True)
class _Product:
    """A product that an operator computes."""

    sizes: tuple[int, int, int, int]  # M, N, K and batch
    layout: str
    number_format: str  # of the operands
    unique: float = 1.0  # share of the inputs that differ

    @property
    def label(self) -> str:
        """What the product is called: M x N x K, the batch, and the layout if it is not that of a linear layer."""
        m, n, k, batch = self.sizes
        return f"{m}x{n}x{k}" + (f"x{batch}" if batch > 1 else "") + ("" if self.layout == "tn" else f" {self.layout}")


def read_torch_trace(path: str, problems: Problems) -> list[ProfiledKernel] | None:
    """Kernels of a trace, those of the same product as one range; None with the reason reported."""
    start = Mark(path, 1, 1)
    try:
        trace = json.loads(read_unpacked(path))
    except Unreadable as error:
        problems.add(start, error.why)
        return None
    except (ValueError, RecursionError) as error:
        where = Mark(path, getattr(error, "lineno", 1), getattr(error, "colno", 1))
        problems.add(where, f"no JSON of PyTorch's profiler: {error}", "write it again with `export_chrome_trace`")
        return None
    whole = trace if isinstance(trace, dict) else {"traceEvents": trace}
    listed = [each if isinstance(each := whole.get(key), list) else [] for key in ("traceEvents", "deviceProperties")]
    events, devices = ([one for one in each if isinstance(one, dict)] for each in listed)
    events = [event for event in events if isinstance(event.get("args"), dict)]
    kernels = [
        event for event in events if event.get("cat") == "kernel" and LEAST_US <= _number(event.get("dur")) <= MOST_US
    ]
    if not kernels:
        problems.add(start, "no kernels of a GPU in the trace", _HOW)
        return None
    names = {str(each.get("id")): str(each.get("name", "")) for each in devices}
    products = _products(events)
    return _kernels(kernels, products, _launchers(events, products), names, start)


def _products(events: Sequence[Mapping[str, Any]]) -> dict[str, _Product]:
    """Products by the `External id` of their operators."""
    found = {}
    for event in events:
        if event.get("cat") == "cpu_op" and "External id" in event["args"]:
            with suppress(AttributeError, LookupError, TypeError, ValueError, ArithmeticError):  # sizes that are none
                product = _product_of(str(event.get("name")), event["args"])
                if product and min(product.sizes) > 0 and max(product.sizes) < 1 << 63:
                    found[str(event["args"]["External id"])] = product
    return found


def _launchers(events: Sequence[Mapping[str, Any]], products: Mapping[str, _Product]) -> dict[str, str]:
    """`External id` of the innermost product that a thread computed when it launched a kernel, by its correlation."""
    threads: dict[str, list[tuple[float, float, str, bool]]] = defaultdict(list)
    for event in events:
        begin, operator = _number(event.get("ts")), str(event["args"].get("External id"))
        thread = f"{event.get('pid')} {event.get('tid')}"
        if event.get("cat") == "cpu_op" and operator in products:
            threads[thread].append((begin, -_number(event.get("dur")), operator, False))
        elif str(event.get("cat")) in _LAUNCHES:
            threads[thread].append((begin, 0.0, str(event["args"].get("correlation")), True))
    found: dict[str, str] = {}
    for timeline in threads.values():
        running: list[tuple[float, str]] = []
        for begin, less, name, launch in sorted(timeline):
            while running and running[-1][0] < begin:
                running.pop()
            if not launch:
                running.append((begin - less, name))
            elif running:
                found[name] = running[-1][1]
    return found


def _kernels(
    kernels: Sequence[Mapping[str, Any]],
    products: Mapping[str, _Product],
    launchers: Mapping[str, str],
    devices: Mapping[str, str],
    where: Mark,
) -> list[ProfiledKernel]:
    """Kernels by name, grid and product, each with its average time."""
    times: dict[tuple[_Product | None, str, int, str], list[float]] = defaultdict(list)
    operators: dict[_Product | None, set[str]] = defaultdict(set)
    for event in kernels:
        arguments = event["args"]
        operator, name = str(arguments.get("External id")), str(event.get("name", ""))
        if operator == str(arguments.get("correlation")):
            operator = launchers.get(operator, operator)
        product = products.get(operator)
        operators[product].add(operator)
        sides = arguments.get("grid")
        grid = math.prod(int(_number(side)) for side in sides[:3]) if isinstance(sides, list) else 0
        times[product, name, grid, devices.get(str(arguments.get("device")), "")].append(_number(event["dur"]))
    formats = {
        product: "tf32" for product, name, *_ in times
        if product is not None and product.number_format == "fp32" and format_in(name) == "tf32"
    }  # fmt: skip
    found = []
    for (product, name, grid, device), values in times.items():
        kernel = ProfiledKernel(name, "", sum(values) / len(values), len(values), grid=grid, device=device, where=where)
        if product is None:
            found.append(replace(kernel, number_format=format_in(name)))
            continue
        kernel = replace(kernel, range=product.label, ranges=len(operators[product]), shape=product.sizes)
        kernel = replace(kernel, layout=product.layout, unique=product.unique)
        found.append(replace(kernel, number_format=formats.get(product, product.number_format)))
    return found


def _product_of(name: str, arguments: Mapping[str, Any]) -> _Product | None:
    """The product of an operator by its inputs, or None if it computes none or the trace does not say them."""
    sizes, strides, types = (arguments.get(key) or () for key in ("Input Dims", "Input Strides", "Input type"))
    if name == _CONVOLUTION and len(sizes) > 1:
        return _convolution(sizes, arguments.get("Concrete Inputs") or (), types)
    first = _FACTORS.get(name)
    if first is None or len(sizes) < first + 2 or len(types) <= first or not all(sizes[first : first + 2]):
        return None
    (*batch, m, k), (*_, n) = sizes[first], sizes[first + 1]
    layout = "tn"
    if len(strides) > first + 1 and all(len(each) > 1 for each in strides[first : first + 2]):
        inputs, weights = strides[first], strides[first + 1]
        layout = ("n" if weights[-1] == 1 and n > 1 else "t") + ("n" if inputs[-1] == 1 or m == 1 else "t")
    whole = int(m), int(n), int(k), math.prod(map(int, batch))
    return _Product(whole, layout, _format(types[first]))


def _convolution(sizes: Sequence[Sequence[int]], values: Sequence[str], types: Sequence[str]) -> _Product | None:
    """A convolution as an implicit product, of what its inputs and their paddings and strides say."""
    inputs, weights = sizes[:2]
    lists = [[int(one) for one in re.findall("[0-9]+", value)] for value in values if value.startswith("[")]
    points = len(inputs) - 2
    if len(lists) < 3 or points < 1 or len(weights) != len(inputs) or any(len(one) != points for one in lists[:3]):
        return None
    padding, stride, dilation = lists[:3]
    axes = zip(inputs[2:], weights[2:], padding, stride, dilation, strict=True)
    outputs = math.prod((size + 2 * pad - wide * (taps - 1) - 1) // step + 1 for size, taps, pad, step, wide in axes)
    groups = max(1, inputs[1] // max(1, weights[1]))
    product = inputs[0] * outputs, weights[0] // groups, weights[1] * math.prod(weights[2:]), groups
    unique = min(1.0, math.prod(inputs) / (product[0] * product[2] * groups))
    return _Product(product, "tn", _format(types[0]), unique)


def _format(text: str) -> str:
    """Number format of a type as PyTorch writes it in C++."""
    plain = text.removeprefix("c10::")
    return _C_TYPES.get(plain) or format_of(plain) or plain


def _number(value: object) -> float:
    with suppress(OverflowError):
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
    return 0.0
