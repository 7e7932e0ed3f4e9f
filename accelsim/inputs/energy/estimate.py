"""What a component model answers: values with the formula that gave them and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from accelsim.inputs.errors import AccelsimError


class NoEstimateError(AccelsimError):
    """A model does not cover a component: what is outside, and what to write instead."""

    def __init__(self, what: str, hint: str = "") -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"{what}; {hint}" if hint else what)


@dataclass(frozen=True, slots=True)
class Value:
    """One value, how it came about (with the inputs), and from which publication or tool."""

    value: float
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """One component.

    Attributes
    ----------
    pj : mapping of str to Value
        Energy [pJ] of one action.
    leak_mw : Value, or None
        Leakage power [mW] of one instance; None where the source says none.
    area_um2 : Value, or None
        Area [um2] of one instance; None where the source says none.
    """

    pj: Mapping[str, Value] = field(default_factory=dict)
    leak_mw: Value | None = None
    area_um2: Value | None = None
