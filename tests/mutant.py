"""A mistake that `tests/mutants.py` plants."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake and the tests that notice it.

    Attributes
    ----------
    name : str
        What goes wrong.
    file : str
        Below `accelsim`.
    old, new : str
        Text that occurs exactly once in the file, and what stands there instead.
    tests : str
        Node ids below `tests`, separated by blanks.
    plain : bool
        Run without the compiler: the kernels that change take long to compile.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
    plain: bool = False

    def planted(self, text: str) -> str:
        """The text of the file with the mistake in it.

        Raises
        ------
        ValueError
            If the old text does not occur exactly once.
        """
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: the old text occurs {found} times in accelsim/{self.file}, not once")
        return text.replace(self.old, self.new)
