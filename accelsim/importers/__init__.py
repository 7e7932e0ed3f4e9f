"""Files of other tools."""

MODELS = (".onnx", ".pt2")
"""Endings of models that stand wherever a workload may: of ONNX, and of programs that `torch.export.save` wrote."""
