"""ONNX models for the tests, made with `onnx.helper`: networks by their papers, without weights.

`python tests/onnx_models.py FOLDER` writes them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


class Graph:
    """A model that grows node by node; weights are named, and have shapes but no values."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []

    def input(self, name: str, *shape: int | str, kind: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, *shape: int) -> str:
        tensor = TensorProto(name=f"w{len(self.weights)}", data_type=FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
        self.weights.append(tensor)
        return tensor.name

    def numbers(self, *values: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, INT, [len(values)], values))
        return name

    def add(self, kind: str, *inputs: str, name: str = "", outputs: int = 1, **attributes) -> str:
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        made = [name + "_out"] + [f"{name}_out{i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name, **attributes))
        return made[0]

    def conv(self, x: str, c: int, k: int, r: int, stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        keys = {"kernel_shape": [r, r], "strides": [stride] * 2, "pads": [r // 2] * 4, "group": groups}
        y = self.add("Conv", x, self.weight(k, c // groups, r, r), name=f"conv_{len(self.nodes)}", **keys)
        y = self.add("BatchNormalization", y, *(self.weight(k) for _ in range(4)))
        return self.add("Relu", y) if relu else y

    def linear(self, x: str, k: int, n: int) -> str:
        return self.add("Add", self.add("MatMul", x, self.weight(k, n)), self.weight(n))

    def heads(self, x: str, heads: int, width: int, batch: str | int = 0, last: bool = False) -> str:
        y = self.add("Reshape", x, self.numbers(0, 0, heads, width))
        return self.add("Transpose", y, perm=[0, 2, 3, 1] if last else [0, 2, 1, 3])

    def model(self, output: str, opset: int = 17) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes, "g", self.inputs, [helper.make_tensor_value_info(output, FLOAT, None)], self.weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def resnet50(batch: int | str = "batch") -> onnx.ModelProto:
    """ResNet-50 v1.5 (He et al., CVPR 2016, Table 1)."""
    g = Graph()
    x = g.conv(g.input("image", batch, 3, 224, 224), 3, 64, 7, 2)
    x = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = g.conv(g.conv(g.conv(x, c, width, 1), width, width, 3, stride), width, 4 * width, 1, relu=False)
            shortcut = x if block else g.conv(x, c, 4 * width, 1, stride, relu=False)
            x, c = g.add("Relu", g.add("Add", y, shortcut)), 4 * width
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(g.add("Gemm", x, g.weight(1000, 2048), g.weight(1000), transB=1))


def mobilenet_v2(batch: int | str = 1) -> onnx.ModelProto:
    """MobileNet-V2 (Sandler et al., CVPR 2018, Table 2)."""
    g = Graph()
    x, c = g.conv(g.input("image", batch, 3, 224, 224), 3, 32, 3, 2), 32
    rows = (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    for t, width, repeats, first in rows:
        for block in range(repeats):
            stride = 1 if block else first
            y = g.conv(x, c, t * c, 1) if t > 1 else x
            y = g.conv(g.conv(y, t * c, t * c, 3, stride, t * c), t * c, width, 1, relu=False)
            x, c = g.add("Add", x, y) if stride == 1 and c == width else y, width
    x = g.add("Flatten", g.add("GlobalAveragePool", g.conv(x, 320, 1280, 1)))
    return g.model(g.add("Gemm", x, g.weight(1000, 1280), g.weight(1000), transB=1))


def bert_block() -> onnx.ModelProto:
    """One layer of BERT-base (Devlin et al., NAACL 2019), with batch and sequence open."""
    g = Graph()
    x = g.input("hidden", "batch", "seq", 768)
    q, k, v = (g.linear(x, 768, 768) for _ in range(3))
    scores = g.add("MatMul", g.heads(q, 12, 64), g.heads(k, 12, 64, last=True), name="scores")
    shares = g.add("Softmax", g.add("Div", scores, g.weight(1)))
    context = g.add("Transpose", g.add("MatMul", shares, g.heads(v, 12, 64), name="context"), perm=[0, 2, 1, 3])
    y = g.linear(g.add("Reshape", context, g.numbers(0, 0, 768)), 768, 768)
    y = g.add("LayerNormalization", g.add("Add", x, y), g.weight(768), g.weight(768))
    z = g.linear(g.add("Erf", g.linear(y, 768, 3072)), 3072, 768)
    return g.model(g.add("LayerNormalization", g.add("Add", y, z), g.weight(768), g.weight(768)))


def gpt2_decode_block() -> onnx.ModelProto:
    """One layer of GPT-2 small for one new token, with `past` tokens in the cache."""
    g = Graph()
    x = g.input("hidden", "batch", 1, 768)
    past = [g.input(name, "batch", 12, "past", 64) for name in ("past_key", "past_value")]
    qkv = g.linear(g.add("LayerNormalization", x, g.weight(768), g.weight(768)), 768, 2304)
    split = g.add("Split", qkv, g.numbers(768, 768, 768), name="split", outputs=3, axis=2)
    q, k, v = (g.heads(name, 12, 64) for name in (split, "split_out1", "split_out2"))
    keys, values = (g.add("Concat", cache, new, axis=2) for cache, new in zip(past, (k, v), strict=True))
    scores = g.add("MatMul", q, g.add("Transpose", keys, perm=[0, 1, 3, 2]), name="scores")
    context = g.add("MatMul", g.add("Softmax", scores), values, name="context")
    y = g.add("Reshape", g.add("Transpose", context, perm=[0, 2, 1, 3]), g.numbers(0, 0, 768))
    x = g.add("Add", x, g.linear(y, 768, 768))
    y = g.add("LayerNormalization", x, g.weight(768), g.weight(768))
    return g.model(g.add("Add", x, g.linear(g.add("Tanh", g.linear(y, 768, 3072)), 3072, 768)))


def grouped_query_attention(operator: bool = False) -> onnx.ModelProto:
    """Attention of Llama 3 8B: 32 query heads share 8 heads of keys and values, by Expand or as one operator."""
    g = Graph()
    x = g.input("hidden", "batch", "seq", 4096)
    q, k, v = (g.add("MatMul", x, g.weight(4096, n), name=m) for m, n in (("q", 4096), ("k", 1024), ("v", 1024)))
    if operator:
        y = g.add("Attention", q, k, v, name="attention", q_num_heads=32, kv_num_heads=8)
        return g.model(g.add("MatMul", y, g.weight(4096, 4096), name="o"), 23)

    def repeat(kv: str) -> str:
        five = g.add("Unsqueeze", g.heads(kv, 8, 128), g.numbers(2))
        return g.add("Reshape", g.add("Expand", five, g.numbers(1, 1, 4, 1, 1)), g.numbers(0, 32, -1, 128))

    keys = g.add("Transpose", repeat(k), perm=[0, 1, 3, 2])
    scores = g.add("Softmax", g.add("MatMul", g.heads(q, 32, 128), keys, name="scores"))
    context = g.add("Transpose", g.add("MatMul", scores, repeat(v), name="context"), perm=[0, 2, 1, 3])
    return g.model(g.add("MatMul", g.add("Reshape", context, g.numbers(0, 0, 4096)), g.weight(4096, 4096), name="o"))


MODELS = {
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "bert_block": bert_block,
    "gpt2_decode_block": gpt2_decode_block,
    "grouped_query_attention": grouped_query_attention,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        onnx.save(make(), folder / f"{name}.onnx")
