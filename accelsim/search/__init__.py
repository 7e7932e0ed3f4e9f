"""Searches of the map space."""

from accelsim.search.mapper import map_einsum
from accelsim.search.strategy import Budget, Progress

__all__ = ["Budget", "Progress", "map_einsum"]
