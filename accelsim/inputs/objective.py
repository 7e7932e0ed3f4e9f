"""What a mapping costs in one number, and limits on its costs: expressions over energy, cycles and off-chip words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import ENERGY_UNITS, format_si, listed, near_miss, parse_decimal, quoted

QUANTITIES = ("energy", "cycles", "offchip_words")
"""What an objective and limits are made of, in the order of the columns of a search: [pJ], [cycles], [words]."""
MOST_POWER = 8.0
"""Powers of a product add up to this at most, so that 10^25 pJ and 10^18 cycles stay within a double."""
JOULES = {**ENERGY_UNITS, "mJ": Fraction(10**9), "J": Fraction(10**12)}
"""Units [pJ] in which the energy of a mapping may be limited."""
ROUNDING = 1e-11
"""Relative rounding of an energy that a limit allows for."""
_PRODUCTS = {**{name: (name,) for name in QUANTITIES}, "edp": ("energy", "cycles")}
_DIGITS = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?"
_FACTOR = re.compile(rf"({_DIGITS})|([A-Za-z_][A-Za-z0-9_]*)(?:\s*\^\s*({_DIGITS}))?")
LIMIT = re.compile(rf"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(<=|<|>=|>|=)\s*({_DIGITS})\s*([A-Za-z]*)\s*")


_OTHER_NAMES = {
    **dict.fromkeys(("latency", "delay"), "cycles"),
    **dict.fromkeys(("offchip", "last_level_accesses"), "offchip_words"),
}
"""Names that others have for quantities; the last is Timeloop's."""


def canonical(text: str) -> str:
    """Write quantities by their own names.

    >>> canonical("energy*delay"), canonical("last-level-accesses"), canonical("offchip_words <= 100")
    ('energy*cycles', 'offchip_words', 'offchip_words <= 100')
    """
    text = text.replace("last-level-accesses", "last_level_accesses")
    return re.sub(rf"\b({'|'.join(_OTHER_NAMES)})\b", lambda found: _OTHER_NAMES[found[1]], text)


class Costs(Protocol):
    """Costs of a mapping, such as `accelsim.Result`."""

    @property
    def energy_pj(self) -> float: ...  # noqa: D102
    @property
    def cycles(self) -> int: ...  # noqa: D102
    @property
    def offchip_words(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Objective:
    """A weighted sum of products of powers of energy, cycles and off-chip words, to be made small.

    `terms` have the weight of each product, and the powers of energy [pJ], cycles and off-chip words in it.

    >>> Objective.parse("edp").terms
    ((1.0, 1.0, 1.0, 0.0),)
    >>> Objective.parse("energy + 2.5*cycles").value(100.0, 10)
    125.0
    """

    name: str
    terms: tuple[tuple[float, float, float, float], ...]

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read `energy`, `cycles`, `offchip_words`, `edp`, a product of powers of them, or a weighted sum of products.

        Raises AccelsimError if the text is none of these, a weight or power is 0, or powers add up to more than 8.
        """
        text = canonical(text)
        return cls(text, tuple(_term(text, part) for part in re.split(r"(?<![0-9.][eE])\+", text)))

    def value(self, energy_pj: float, cycles: float, offchip_words: float = 0.0) -> float:
        """Value of the objective."""
        found, quantities = 0.0, (energy_pj, float(cycles), float(offchip_words))
        for weight, *powers in self.terms:
            product = weight
            for quantity, power in zip(quantities, powers, strict=True):
                product *= 1.0 if power == 0.0 else quantity if power == 1.0 else quantity**power
            found += product
        return float(found)

    def of(self, costs: Costs) -> float:
        """Value of the objective for a mapping."""
        return self.value(*costs_of(costs))

    def counts(self, quantity: str) -> bool:
        """Whether a quantity is part of the objective."""
        return any(term[1 + QUANTITIES.index(quantity)] for term in self.terms)

    @property
    def alone(self) -> str:
        """The one quantity that decides which mapping is better, or nothing."""
        counted = [name for name in QUANTITIES if self.counts(name)]
        return counted[0] if len(counted) == 1 else ""

    @property
    def powers(self) -> tuple[float, float]:
        """Powers of energy and cycles, where the objective is a product of these alone.

        Raises AccelsimError if it is not.
        """
        weight, energy, cycles, words = self.terms[0]
        if len(self.terms) > 1 or weight != 1.0 or words:
            what = "here it is energy, cycles, edp, or a product such as energy^2*cycles"
            raise AccelsimError(f"objective '{self.name}': {what}")
        return energy, cycles


LEAST_ENERGY = Objective("energy", ((1.0, 1.0, 0.0, 0.0),))
FASTEST = Objective("cycles", ((1.0, 0.0, 1.0, 0.0),))
LEAST_EDP = Objective("edp", ((1.0, 1.0, 1.0, 0.0),))


def _term(text: str, part: str) -> tuple[float, float, float, float]:
    """Read a product of a number and powers of quantities."""
    weight, powers, counted = 1.0, dict.fromkeys(QUANTITIES, 0.0), False
    for factor in part.split("*"):
        match = _FACTOR.fullmatch(factor.strip())
        number = float(match[1] or match[3] or 1) if match else 0.0
        if match is None or not 0 < number < math.inf or (match[2] and match[2] not in _PRODUCTS):
            hint = near_miss(match[2], _PRODUCTS) if match and match[2] else ""
            raise AccelsimError(
                f"objective '{text}' is unknown; {hint + ' ' if hint else ''}write {listed(_PRODUCTS)}, a "
                "product such as energy^2*cycles, or a weighted sum such as energy + 0.5*cycles"
            )
        if match[1]:
            weight *= number
        for name in _PRODUCTS[match[2]] if match[2] else ():
            powers[name] += number
            counted = True
    if not counted:
        what = f"{quoted(part.strip())} is a number alone; multiply it with a quantity"
        raise AccelsimError(f"objective '{text}': {what}")
    if sum(powers.values()) > MOST_POWER or not 0 < weight < math.inf:
        raise AccelsimError(f"objective '{text}': the powers may add up to {MOST_POWER:g}, these are larger")
    return (weight, powers["energy"], powers["cycles"], powers["offchip_words"])


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that a mapping may cost: energy [pJ], cycles, or off-chip words.

    >>> str(Limit.parse("energy <= 3 uJ")), Limit.parse("cycles <= 1.2e6").most
    ('energy <= 3 uJ', Fraction(1200000, 1))
    """

    quantity: str
    most: Fraction

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Read `cycles <= 1.2e6`, `energy <= 3 uJ` or `offchip_words <= 40000`.

        Raises AccelsimError if the text is none of these.
        """
        text = canonical(text)
        match = LIMIT.fullmatch(text)
        expected = "write cycles <= 1.2e6, energy <= 3 uJ or offchip_words <= 40000"
        if match is None:
            raise AccelsimError(f"limit {quoted(text)} cannot be read; {expected}")
        name, sign, number, unit = match.groups()
        if name not in QUANTITIES:
            hint = near_miss(name, QUANTITIES) or expected
            raise AccelsimError(f"limit {quoted(text)}: '{name}' is no quantity; {hint}")
        if sign != "<=":
            raise AccelsimError(f"limit {quoted(text)}: a limit is the most that is allowed; {expected}")
        if unit and (name != "energy" or unit not in JOULES):
            units = f"units: {listed(JOULES)}" if name == "energy" else f"{name} have no unit"
            raise AccelsimError(f"limit {quoted(text)}: '{unit}' is no unit of {name}; {units}")
        if name == "energy" and not unit:
            raise AccelsimError(f"limit {quoted(text)}: an energy has a unit; units: {listed(JOULES)}")
        most = (parse_decimal(number) or Fraction(0)) * (JOULES[unit] if unit else 1)
        if most <= 0:
            raise AccelsimError(f"limit {quoted(text)}: nothing costs so little; {expected}")
        return cls(name, most)

    def __str__(self) -> str:
        most = float(self.most) if self.quantity == "energy" else self.largest
        return f"{self.quantity} <= {self.written(most)}"

    def written(self, value: float) -> str:
        """A value of the quantity with its unit; what exceeds the limit differs from it in print too."""
        return format_si(value * 1e-12, "J", 12) if self.quantity == "energy" else f"{round(value)}"

    @property
    def largest(self) -> float:
        """The largest value that is allowed; of an energy with the rounding of its sum."""
        return float(self.most) * (1 + ROUNDING) if self.quantity == "energy" else float(math.floor(self.most))

    def exceeded_by(self, costs: tuple[float, float, float]) -> float:
        """How many times what is allowed a mapping takes, 1 at most if it keeps the limit."""
        return costs[QUANTITIES.index(self.quantity)] / self.largest

    def broken_by(self, costs: tuple[float, float, float]) -> str:
        """In words, what costs break of this, or nothing."""
        value = costs[QUANTITIES.index(self.quantity)]
        return "" if value <= self.largest else f"{self.quantity} {self.written(value)}, the limit is {self}"


def costs_of(costs: Costs) -> tuple[float, float, float]:
    """Energy [pJ], cycles and off-chip words of a mapping."""
    return costs.energy_pj, float(costs.cycles), float(costs.offchip_words)
