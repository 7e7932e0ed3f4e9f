"""Fusion of the layers of a network: tensors between them stay on the chip (docs/papers/fusion.md).

A layer here is an Einsum; a graph joins layers of which some read what others write; a group is fused.
"""

from __future__ import annotations

from accelsim.fusion.graph import Graph, Link, make_graph
from accelsim.fusion.group import Group, make_group
from accelsim.fusion.network import fuse
from accelsim.fusion.result import FusedNetwork, GroupResult, Segment
from accelsim.fusion.search import fuse_group
from accelsim.fusion.tiling import Border, FusedLoop, FusedTiling, LayerPart

__all__ = [
    "Border",
    "FusedLoop",
    "FusedNetwork",
    "FusedTiling",
    "Graph",
    "Group",
    "GroupResult",
    "LayerPart",
    "Link",
    "Segment",
    "fuse",
    "fuse_group",
    "make_graph",
    "make_group",
]
