"""The map spaces that one search goes through: paddings of a layer, and orders of storage nodes of a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import NoValidMapping
from accelsim.inputs.nodes import Arrangement, arrange
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode


class Spaces:
    """Map spaces of some paddings of an Einsum, each even first and then with its nodes in other orders.

    There may be hundreds of thousands of orders, so a space is made when it is asked for.

    Parameters
    ----------
    architecture : Architecture
    einsums : sequence of Einsum
        The one that was given, then padded ones; of these such that the constraints leave no factors are left out.
    arrangements : sequence of Arrangement
        The even one first.
    constraints : Constraints or None
    imperfect : frozenset of str

    Raises
    ------
    NoValidMapping
        If the constraints leave the Einsum as given no factors.
    """

    def __init__(
        self,
        architecture: Architecture,
        einsums: Sequence[Einsum],
        arrangements: Sequence[Arrangement],
        constraints: Constraints | None,
        imperfect: frozenset[str],
    ) -> None:
        self.architecture, self.arrangements = architecture, arrangements
        self.constraints, self.imperfect = constraints, imperfect
        self._even = [MapSpace(encode(architecture, einsums[0]), constraints, imperfect)]
        for einsum in einsums[1:]:
            with suppress(NoValidMapping):
                self._even.append(MapSpace(encode(architecture, einsum), constraints, imperfect))

    @classmethod
    def of(cls, space: MapSpace) -> Spaces:
        """One map space alone."""
        found = cls.__new__(cls)
        found.architecture, found.arrangements = space.encoded.architecture, ((),)
        found.constraints, found.imperfect, found._even = space.constraints, space.imperfect, [space]
        return found

    @property
    def first(self) -> MapSpace:
        """The even space of the Einsum as it was given."""
        return self._even[0]

    def __len__(self) -> int:
        return len(self._even) * len(self.arrangements)

    def __iter__(self) -> Iterator[MapSpace]:
        return (self._space(number) for number in range(len(self)))

    def _space(self, number: int) -> MapSpace:
        padded, order = divmod(number, len(self.arrangements))
        if order == 0:
            return self._even[padded]
        machine = arrange(self.architecture, self.arrangements[order])
        return MapSpace(encode(machine, self._even[padded].encoded.einsum), self.constraints, self.imperfect)

    def kinds(self, first: int) -> Iterator[MapSpace]:
        """Of the spaces from one on, one of each kind: all orders of nodes of a padding are of one size and floor."""
        for number in range(first, len(self)):
            if number == first or number % len(self.arrangements) < 2:
                yield self._space(number)

    @property
    def size(self) -> int:
        """Mappings in all of them together."""
        orders = len(self.arrangements)
        uneven = (self._space(k * orders + 1).size * (orders - 1) if orders > 1 else 0 for k in range(len(self._even)))
        return sum(space.size for space in self._even) + sum(uneven)
