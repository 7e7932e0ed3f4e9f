"""Fusion of consecutive layers: the tensor between two of them stays on chip (docs/papers/fusion.md).

A layer here is an Einsum; a chain is a row of layers of which each reads what the one before writes.
"""

from __future__ import annotations

from accelsim.fusion.chain import Chain, Link, make_chain
from accelsim.fusion.network import fuse
from accelsim.fusion.result import ChainResult, FusedNetwork, Segment
from accelsim.fusion.search import fuse_chain
from accelsim.fusion.tiling import FusedLoop, FusedTiling, LayerPart

__all__ = [
    "Chain",
    "ChainResult",
    "FusedLoop",
    "FusedNetwork",
    "FusedTiling",
    "LayerPart",
    "Link",
    "Segment",
    "fuse",
    "fuse_chain",
    "make_chain",
]
