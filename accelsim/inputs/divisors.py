"""Divisors of loop bounds, also of those near 2^62, where trial division takes minutes."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

_TRIED = 1000
"""Factors up to here are found by trial division; what is left is prime if it is smaller than the square."""


@lru_cache(maxsize=256)
def divisors(bound: int) -> tuple[int, ...]:
    """All divisors, ascending.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    found = {1}
    for prime in prime_factors(bound):
        found |= {each * prime for each in found}
    return tuple(sorted(found))


def prime_factors(number: int) -> list[int]:
    """Prime factors, each as often as it occurs.

    >>> prime_factors(360), prime_factors((2**31 - 1) * (2**30 - 35))
    ([2, 2, 2, 3, 3, 5], [1073741789, 2147483647])
    """
    found = []
    for small in range(2, min(_TRIED, math.isqrt(number) + 1)):
        while number % small == 0:
            found.append(small)
            number //= small
    return found + sorted(_large_factors(number))


def _large_factors(number: int) -> list[int]:
    """Prime factors of a number that has none below `_TRIED`, unless it is one."""
    if number == 1:
        return []
    if number < _TRIED**2 or _is_prime(number):
        return [number]
    factor = _rho(number)
    return _large_factors(factor) + _large_factors(number // factor)


def _is_prime(number: int) -> bool:
    """Miller-Rabin test; with these bases it is exact below 3.3e24 (Sorenson and Webster, Math. Comp. 86, 2017)."""
    twos = (number - 1 & 1 - number).bit_length() - 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        power = pow(base, number >> twos, number)
        if power != 1 and all(pow(power, 1 << k, number) != number - 1 for k in range(twos)):
            return False
    return True


def _rho(number: int) -> int:
    """A proper factor of a product: Pollard's rho with the cycle search of Floyd (BIT 15, 1975)."""
    factor = number
    steps = itertools.count(1)
    while factor == number:
        step, slow, fast, factor = next(steps), 2, 2, 1
        while factor == 1:
            slow = (slow * slow + step) % number
            fast = (fast * fast + step) % number
            fast = (fast * fast + step) % number
            factor = math.gcd(slow - fast, number)
    return factor
