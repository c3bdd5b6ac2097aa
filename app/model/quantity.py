"""Kubernetes quantities: read, printed and scaled to the byte as API servers do.

Strategy: a quantity is an integer count of nano units, so arithmetic never rounds. Its format
and, where API servers keep it, its spelling are stored for printing and ignored by comparisons.
The integers stay small for any input: binary quantities are cut off at int64 as everywhere in
Kubernetes, decimal ones at a thousand digits, far above all that they are compared with. The
same texts occur again and again, so reading and printing are cached.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Final

from app.model.errors import BadQuantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
SIZED: Final = (CPU, MEMORY)  # the resources that are recommended

MAX_INT64: Final = 2**63 - 1


class QuantityFormat(StrEnum):
    """The family of suffixes a quantity was written with and is printed with."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_NANO_PER_UNIT: Final = 10**9
_NANO_PER_MILLI: Final = 10**6
_MOST_DIGITS: Final = 1000
_MOST: Final[int] = 10**_MOST_DIGITS  # decimals above are held as this
_STICKY_DIGITS: Final = 64  # binary fractions: what stands behind them only says "a bit more"
_LONGEST_REMEMBERED: Final = 64  # characters; longer texts could fill the cache
_MOST_REMEMBERED: Final = 10**40  # nano units; longer numbers could fill the cache as well
_REMEMBERED: Final = 65_536

_DECIMAL_SUFFIXES: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_DECIMAL_EXPONENTS: Final = dict(zip(_DECIMAL_SUFFIXES, range(-9, 19, 3), strict=True))
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_WRONG_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"

# Possessive throughout, so that no text makes the scanner backtrack.
_PARTS: Final = re.compile(
    r"([+-]?+)0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)", re.ASCII
)
_EXPONENT: Final = re.compile(r"[eE]([-+]?+)0*+([0-9]*+)(?<=[0-9])", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount of a resource; equal and ordered by value alone."""

    nano: int  # 1e-9 units
    format: QuantityFormat = field(default=QuantityFormat.DECIMAL_SI, compare=False)
    spelling: str = field(default="", compare=False)  # as written, only if it prints as written

    @staticmethod
    def parse(text: str) -> Quantity:
        """Read a quantity as an API server reads it.

        Raises:
            BadQuantity: the text is no quantity; the message is the API server's.
        """
        if len(text) > _LONGEST_REMEMBERED:
            return _parse(text)
        return _parse_remembered(text)

    @staticmethod
    def read(value: object) -> Quantity:
        """Read a JSON value: text, number, or null for zero.

        Raises:
            BadQuantity: the value is no quantity; the message is the API server's.
        """
        match value:
            case str():
                return Quantity.parse(value)
            case None:
                return ZERO
            case bool():
                raise BadQuantity("", _WRONG_FORMAT)
            case int():
                return Quantity.parse(str(max(-_MOST, min(value, _MOST))))
            case float() if math.isfinite(value):
                return Quantity.parse(_float_text(value))
            case _:
                raise BadQuantity("", _WRONG_FORMAT)

    @staticmethod
    def of_milli(count: int, in_format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Quantity:
        """Make a quantity of thousandths, such as millicores."""
        return Quantity(count * _NANO_PER_MILLI, in_format)

    @staticmethod
    def of_units(count: int, in_format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Quantity:
        """Make a quantity of whole units, such as cores or bytes."""
        return Quantity(count * _NANO_PER_UNIT, in_format)

    @property
    def units(self) -> int:
        """Whole units, rounded away from zero."""
        return _divide_away_from_zero(self.nano, _NANO_PER_UNIT)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return _divide_away_from_zero(self.nano, _NANO_PER_MILLI)

    @property
    def is_zero(self) -> bool:
        """Whether it is exactly zero."""
        return self.nano == 0

    def __str__(self) -> str:
        if self.spelling:
            return self.spelling
        if abs(self.nano) >= _MOST_REMEMBERED:
            return _written(self.nano, self.format)
        return _canonical(self.nano, self.format)


Quantities = Mapping[str, Quantity]  # by resource


ZERO: Final = Quantity(0)


def scale(
    resource: str, amount: Quantity, base: Quantity, target: Quantity, *, round_up: bool = False
) -> Quantity:
    """Scale an amount as base grows to target: cpu in millicores, memory down to whole bytes."""
    return scale_in_int64(resource, amount, base, target, round_up=round_up)[0]


def scale_in_int64(
    resource: str, amount: Quantity, base: Quantity, target: Quantity, *, round_up: bool = False
) -> tuple[Quantity, bool]:
    """Do the same, and tell whether int64 cut the amount off.

    Without a base there is no proportion and the amount stays what it is.
    """
    if base.is_zero:
        return amount, False
    if resource != CPU:
        units = amount.units * target.units // base.units
        return Quantity.of_units(min(units, MAX_INT64), amount.format), units > MAX_INT64
    product = amount.milli * target.milli
    milli = -(-product // base.milli) if round_up else product // base.milli
    return Quantity.of_milli(min(milli, MAX_INT64), amount.format), milli > MAX_INT64


_RANKS: Final = {CPU: 0, MEMORY: 1}
_SHORT: Final[tuple[list[str], ...]] = ([], [CPU], [MEMORY], [CPU, MEMORY])  # in order as they come


def in_order(resources: Iterable[str]) -> list[str]:
    """Return cpu, memory, then others by name."""
    names = list(resources)
    return names if names in _SHORT else sorted(names, key=lambda one: (_RANKS.get(one, 2), one))


def _parse(text: str) -> Quantity:
    text = text.strip(" ")
    parts = _PARTS.fullmatch(text)
    if parts is None or not text:
        raise BadQuantity("", _WRONG_FORMAT)
    sign, whole, fraction, suffix = parts.groups(default="")
    if suffix in _BINARY_SUFFIXES[1:]:
        power = _BINARY_SUFFIXES.index(suffix)
        nano = _binary_nano(whole, fraction, power)
        survives = _binary_survives(whole, fraction, power)
        # Too small to be printed in binary without rounding.
        family = (
            QuantityFormat.DECIMAL_SI if 0 < nano < _NANO_PER_UNIT else QuantityFormat.BINARY_SI
        )
    else:
        family, exponent = _decimal_suffix(suffix)
        nano = _decimal_nano(whole, fraction, exponent)
        survives = _decimal_survives((whole or "0") + fraction, exponent - len(fraction))
    return Quantity(-nano if sign == "-" else nano, family, text if survives else "")


_parse_remembered = lru_cache(_REMEMBERED)(_parse)


def _decimal_suffix(suffix: str) -> tuple[QuantityFormat, int]:
    """Return format and power of ten; exponents beyond int64 are no exponents."""
    if suffix in _DECIMAL_EXPONENTS:
        return QuantityFormat.DECIMAL_SI, _DECIMAL_EXPONENTS[suffix]
    parts = _EXPONENT.fullmatch(suffix)
    if parts is None:
        raise BadQuantity("", _WRONG_SUFFIX)
    sign, digits = parts.groups()
    magnitude = int(digits[:20] or "0")
    if magnitude > MAX_INT64 + (sign == "-"):
        raise BadQuantity("", _WRONG_SUFFIX)
    return QuantityFormat.DECIMAL_EXPONENT, -magnitude if sign == "-" else magnitude


def _decimal_nano(whole: str, fraction: str, exponent: int) -> int:
    """Return whole.fraction * 10**exponent, rounded up to the next nano."""
    written = whole + fraction
    digits = written.lstrip("0")
    point = len(whole) + exponent - (len(written) - len(digits))  # counted from the first digit
    if not digits:
        return 0
    if point > _MOST_DIGITS:
        return _MOST * _NANO_PER_UNIT
    kept = max(point + 9, 0)
    return int(digits[:kept].ljust(kept, "0") or "0") + bool(digits[kept:].strip("0"))


def _binary_nano(whole: str, fraction: str, power: int) -> int:
    """Return whole.fraction * 1024**power, rounded up to the next nano, cut off at int64."""
    if len(whole) > 19:
        return MAX_INT64 * _NANO_PER_UNIT
    rest = "1" if fraction[_STICKY_DIGITS:].strip("0") else ""
    fraction = fraction[:_STICKY_DIGITS] + rest
    nano = int(whole + fraction or "0") * _NANO_PER_UNIT << 10 * power
    parts: int = 10 ** len(fraction)
    return min(-(-nano // parts), MAX_INT64 * _NANO_PER_UNIT)


def _decimal_survives(digits: str, exponent: int) -> bool:
    """Whether API servers give this spelling back instead of the canonical one."""
    return (
        exponent % 3 == 0
        and exponent >= -9
        and len(digits) <= 18
        and not digits.startswith("0")
        and not digits.endswith("000")
    )


def _binary_survives(whole: str, fraction: str, power: int) -> bool:
    """Whether API servers give this spelling back instead of the canonical one."""
    return not fraction and len(whole) <= 14 - 3 * power and int(whole or "0") % 8 != 0


def _written(nano: int, family: QuantityFormat) -> str:
    """Print with the largest suffix that leaves an integer."""
    if nano == 0:
        return "0"
    units, rest = divmod(nano, _NANO_PER_UNIT)
    if family is QuantityFormat.BINARY_SI and rest == 0 and abs(units) >= 1024:
        power = min(((units & -units).bit_length() - 1) // 10, len(_BINARY_SUFFIXES) - 1)
        return f"{units >> 10 * power}{_BINARY_SUFFIXES[power]}"
    written = str(nano)
    digits = written.rstrip("0")
    exponent = len(written) - len(digits) - 9
    mantissa = digits + "0" * (exponent % 3)
    exponent -= exponent % 3
    if family is not QuantityFormat.DECIMAL_EXPONENT and exponent <= 18:
        return mantissa + _DECIMAL_SUFFIXES[exponent // 3 + 3]
    return f"{mantissa}e{exponent}" if exponent else mantissa


_canonical = lru_cache(_REMEMBERED)(_written)


def clear_caches() -> None:
    """Empty the caches: for measurements of memory, and for runs that last for days."""
    _parse_remembered.cache_clear()
    _canonical.cache_clear()


def _float_text(value: float) -> str:
    """Write a JSON number as Go writes it, with an exponent only where zeros would pile up."""
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return format(Decimal(repr(value)).normalize(), "f")
    return repr(value)


def _divide_away_from_zero(count: int, divisor: int) -> int:
    return -(-count // divisor) if count > 0 else count // divisor
