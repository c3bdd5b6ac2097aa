"""Quantities are read, printed, compared and scaled as API servers do it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.model.errors import BadQuantity
from app.model.quantity import (
    MAX_INT64,
    ZERO,
    Quantity,
    QuantityFormat,
    clear_caches,
    in_order,
    scale,
    scale_in_int64,
)
from tests.cases import cases

WRONG_FORMAT = (
    "quantities must match the regular expression "
    r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
WRONG_SUFFIX = "unable to parse quantity's suffix"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("1000m", "1"),
        ("1000P", "1E"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1.50", "1500m"),
        ("187500u", "187500u"),
        ("1000000u", "1"),
        ("262144000", "262144k"),
        ("104857600", "104857600"),
        ("2000000000", "2G"),
        ("-2000000000", "-2G"),
        ("1000E", "1e21"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("-1.5Gi", "-1536Mi"),
        ("1500Mi", "1500Mi"),
        ("250.00Mi", "250Mi"),
        ("0.001Mi", "1048576m"),
        ("0.9Gi", "966367641600m"),
        ("0.0001Ki", "102400u"),
        ("0.75Ki", "768"),
        ("8Ei", "9223372036854775807"),
        ("-8Ei", "-9223372036854775807"),
        ("12345678901234567890Ei", "9223372036854775807"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("5e8", "500e6"),
        ("10e-1", "1"),
        ("15e-1", "1500e-3"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1e-30", "1e-9"),
        ("1.0000000001", "1000000001n"),
        ("  250m ", "250m"),
    ],
)
def test_canonical_text(text: str, printed: str) -> None:
    """Equal amounts of one format have one text."""
    assert str(Quantity.parse(text)) == printed


@cases(
    "count suffixes printed",
    {
        "mebibytes": (524_288_000, QuantityFormat.BINARY_SI, "500Mi"),
        "odd bytes": (357_913_941, QuantityFormat.BINARY_SI, "357913941"),
        "too few bytes for a binary suffix": (1000, QuantityFormat.BINARY_SI, "1k"),
        "too few bytes on the other side": (-1000, QuantityFormat.BINARY_SI, "-1k"),
        "just enough": (1024, QuantityFormat.BINARY_SI, "1Ki"),
        "beyond the last binary suffix": (2**70, QuantityFormat.BINARY_SI, "1024Ei"),
        "beyond the last decimal suffix": (10**21, QuantityFormat.DECIMAL_SI, "1e21"),
        "exponent": (1000, QuantityFormat.DECIMAL_EXPONENT, "1e3"),
    },
)
def test_canonical_text_of_units(count: int, suffixes: QuantityFormat, printed: str) -> None:
    """A computed amount is printed in the format it was given."""
    assert str(Quantity.of_units(count, suffixes)) == printed


SURVIVORS = """
    +1 +100m 0100m 01 1. 1.500 2.125 1e0 1.234k 1500000001n 01Gi 1025Mi 12345678901Ki
    12Ti 1e999999999
"""


def test_computed_amounts_default_to_decimal() -> None:
    """Millicores and units need no word about their format."""
    assert [str(Quantity.of_milli(1500)), str(Quantity.of_units(2000))] == ["1500m", "2k"]


@pytest.mark.parametrize("text", SURVIVORS.split())
def test_spellings_that_survive(text: str) -> None:
    """Odd but legal spellings come back as API servers give them back."""
    assert str(Quantity.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1234567890123456789", "1234567890123456789"),
        ("+1234567890123456789", "1234567890123456789"),
        ("+8Mi", "8Mi"),
        ("+123456789013Ki", "123456789013Ki"),
        ("+1Pi", "1Pi"),
        ("+0.500", "500m"),
        ("+1.0000000001k", "1000000000100n"),
    ],
)
def test_spellings_that_do_not_survive(text: str, printed: str) -> None:
    """Everything else comes back in canonical form."""
    assert str(Quantity.parse(text)) == printed


def test_arithmetic_forgets_the_spelling() -> None:
    """A scaled amount is printed canonically even where nothing changed."""
    one = Quantity.parse("+1")
    assert str(scale("cpu", one, one, one)) == "1"


@pytest.mark.parametrize("text", ["m", "+", "-", ".", "Ki", "e5"])
def test_texts_without_digits_are_zero(text: str) -> None:
    """A suffix alone is an amount of nothing."""
    assert Quantity.parse(text).is_zero


NO_QUANTITIES = ["", "  ", "abc", "1Zi", "1.2.3", "1 Gi", "1KB", "1\n", "\t1", "1e1.5", "١"]
NO_SUFFIXES = ["1e", "1e+", "--1", "1KiKi", "1m5", f"1e{2**63}", f"1e-{2**63 + 1}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, WRONG_FORMAT) for text in NO_QUANTITIES),
        *((text, WRONG_SUFFIX) for text in NO_SUFFIXES),
    ],
)
def test_unreadable_texts(text: str, message: str) -> None:
    """The two messages are the API server's own."""
    with pytest.raises(BadQuantity) as refused:
        Quantity.parse(text)
    assert (refused.value.path, refused.value.message) == ("", message)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("250m", "250m"),
        (None, "0"),
        (1000, "1k"),
        (-3, "-3"),
        (0.5, "500m"),
        (-0.0, "0"),
        (1e3, "1k"),
        (0.30000000000000004, "300000001n"),
        (1e-7, "100e-9"),
        (1e21, "1e+21"),
        pytest.param(10**5000, "10e999", id="beyond the kept range"),
        pytest.param(-(10**5000), "-10e999", id="below the kept range"),
    ],
)
def test_json_values(value: object, printed: str) -> None:
    """Numbers are read like their text, null as nothing."""
    assert str(Quantity.read(value)) == printed


@pytest.mark.parametrize("value", [True, {}, [], {"cpu": "1"}, float("nan"), float("inf")])
def test_json_values_that_are_none(value: object) -> None:
    """What is neither text nor number breaks the grammar."""
    with pytest.raises(BadQuantity) as refused:
        Quantity.read(value)
    assert refused.value.message == WRONG_FORMAT


@pytest.mark.parametrize(
    ("text", "units", "milli"),
    [
        ("0", 0, 0),
        ("1m", 1, 1),
        ("187500u", 1, 188),
        ("1n", 1, 1),
        ("-1500m", -2, -1500),
        ("-1500001u", -2, -1501),
        ("2", 2, 2000),
        ("1Ei", 2**60, 2**60 * 1000),
    ],
)
def test_integer_views(text: str, units: int, milli: int) -> None:
    """Whole numbers are rounded away from zero, so something never becomes nothing."""
    quantity = Quantity.parse(text)
    assert (quantity.units, quantity.milli) == (units, milli)


@cases(
    "text",
    {
        "digits": ("9" * 100_000,),
        "decimals": ("0." + "9" * 100_000,),
        "binary digits": ("9" * 100_000 + "Gi",),
        "binary decimals": ("0." + "9" * 100_000 + "Gi",),
        "exponent": ("1e999999999999",),
        "negative exponent": ("1e-999999999999",),
        "zero of any exponent": ("0" * 100_000 + "e999999999999",),
    },
)
def test_absurd_texts_stay_small(text: str) -> None:
    """However long a text or exponent is, the integer behind it is not."""
    assert Quantity.parse(text).nano.bit_length() < 4000


def test_absurd_texts_are_refused_in_one_pass() -> None:
    """A very long text with a flaw at its end is read once, not once per digit."""
    with pytest.raises(BadQuantity):
        Quantity.parse("0" * 300_000 + "1" * 300_000 + "." + "1" * 300_000 + "x")


def test_more_digits_than_anybody_compares_still_order() -> None:
    """Amounts beyond the kept range are larger than all below it."""
    assert Quantity.parse("1e998") < Quantity.parse("1e5000")


@pytest.mark.parametrize(
    ("resource", "amount", "base", "target", "scaled"),
    [
        ("cpu", "333m", "100m", "77m", "256m"),
        ("cpu", "2", "0", "1", "2"),
        ("cpu", "10", "1", "0", "0"),
        ("cpu", "3e0", "2", "1", "1500e-3"),
        ("memory", "512Mi", "256Mi", "262144k", "500Mi"),
        ("memory", "700Mi", "300Mi", "262144k", "611669333"),
        ("memory", "1", "2", "1", "0"),
        ("memory", "1Gi", "0", "5Gi", "1Gi"),
    ],
)
def test_scale(resource: str, amount: str, base: str, target: str, scaled: str) -> None:
    """An amount keeps its proportion to the millicore or byte, in the format it had."""
    assert str(scale(resource, *map(Quantity.parse, (amount, base, target)))) == scaled


@pytest.mark.parametrize(
    ("resource", "amount", "scaled"),
    [("cpu", "4m", "6m"), ("cpu", "21m", "28m"), ("cpu", "90m", "118m"), ("memory", "7", "9")],
)
def test_scale_up(resource: str, amount: str, scaled: str) -> None:
    """Where a minimum must be reached, CPU is rounded up, and only CPU."""
    total, minimum = (Quantity.parse("115m"), Quantity.parse("150m"))
    if resource == "memory":
        total, minimum = Quantity.parse("115"), Quantity.parse("150")
    assert str(scale(resource, Quantity.parse(amount), total, minimum, round_up=True)) == scaled


def test_scaling_is_cut_off_at_int64() -> None:
    """What no int64 holds is cut off, and said so."""
    exbi, one, ten = (Quantity.parse(text) for text in ("1Ei", "1", "10"))
    cpu, memory = (scale_in_int64(resource, ten, one, exbi) for resource in ("cpu", "memory"))
    assert [(str(q), cut) for q, cut in (cpu, memory)] == [
        ("9223372036854775807m", True),
        ("9223372036854775807", True),
    ]


AMOUNTS = st.integers(-(10**30), 10**30)
QUANTITIES = st.builds(Quantity, AMOUNTS, st.sampled_from(QuantityFormat))


@given(QUANTITIES)
def test_printed_quantities_read_back(quantity: Quantity) -> None:
    """Printing loses nothing, but binary suffixes beyond int64, which no API server keeps."""
    text = str(quantity)
    assume(not (text.endswith("i") and abs(quantity.units) > MAX_INT64))
    assert Quantity.parse(text) == quantity


@given(QUANTITIES)
def test_printed_quantities_are_final(quantity: Quantity) -> None:
    """Reading and printing a printed text changes nothing any more."""
    text = str(quantity)
    assume(not (text.endswith("i") and abs(quantity.units) > MAX_INT64))
    assert str(Quantity.parse(text)) == text


NUMBERS = st.from_regex(r"\A[+-]?[0-9]{1,25}(\.[0-9]{0,25})?\Z")


@given(NUMBERS, st.integers(-40, 40))
def test_decimals_are_read_exactly(number: str, exponent: int) -> None:
    """A decimal is its value, rounded to the next nano away from zero."""
    exact = Fraction(number.rstrip(".")) * Fraction(10) ** exponent * 10**9
    nano = Quantity.parse(f"{number}e{exponent}").nano
    assert abs(nano) == -(-abs(exact) // 1)
    assert nano * exact >= 0


@given(NUMBERS, st.sampled_from(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]))
def test_binaries_are_read_exactly(number: str, suffix: str) -> None:
    """A binary is its value up to int64, rounded to the next nano away from zero."""
    power = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].index(suffix) + 1
    exact = abs(Fraction(number.rstrip("."))) * 1024**power * 10**9
    expected = min(-(-exact // 1), MAX_INT64 * 10**9)
    assert abs(Quantity.parse(f"{number}{suffix}").nano) == expected


@given(QUANTITIES, QUANTITIES)
def test_order_is_by_value_alone(one: Quantity, other: Quantity) -> None:
    """Format and spelling take no part in comparing."""
    assert (one < other, one == other) == (one.nano < other.nano, one.nano == other.nano)


def test_equal_quantities_are_one_key() -> None:
    """Differently spelled equal amounts meet in a set."""
    assert len({Quantity.parse(text) for text in ("1", "1000m", "1e0", "+1")}) == 1


def print_or_refuse(text: str) -> str:
    """Return what a text prints as, or why it is no quantity."""
    try:
        return str(Quantity.parse(text))
    except BadQuantity as refused:
        return refused.message


@given(st.text(max_size=30) | st.from_regex(r"\A[-+.0-9eEinumkKMGTP ]{0,30}\Z"))
def test_reading_never_crashes(text: str) -> None:
    """A text is a quantity, and so is what it prints as, or it is refused in known words."""
    printed = print_or_refuse(text)
    assert printed in {print_or_refuse(printed), WRONG_FORMAT, WRONG_SUFFIX}


POSITIVE = st.builds(Quantity, st.integers(1, 10**24))


@given(POSITIVE, POSITIVE, POSITIVE, st.booleans())
def test_scale_cpu_is_the_exact_proportion(
    amount: Quantity, base: Quantity, target: Quantity, round_up: bool
) -> None:
    """Scaled CPU is the exact proportion of millicores, rounded once."""
    exact = Fraction(amount.milli * target.milli, base.milli)
    rounded = -(-exact // 1) if round_up else exact // 1
    scaled, cut = scale_in_int64("cpu", amount, base, target, round_up=round_up)
    assert (scaled.milli, cut) == (min(rounded, MAX_INT64), rounded > MAX_INT64)


@given(POSITIVE, POSITIVE, POSITIVE)
def test_scale_memory_is_the_exact_proportion(
    amount: Quantity, base: Quantity, target: Quantity
) -> None:
    """Scaled memory is the exact proportion of bytes, rounded down."""
    rounded = Fraction(amount.units * target.units, base.units) // 1
    scaled, cut = scale_in_int64("memory", amount, base, target)
    assert (scaled.units, cut) == (min(rounded, MAX_INT64), rounded > MAX_INT64)


def test_zero_is_zero() -> None:
    """The constant is what null and 0 are."""
    assert ZERO == Quantity.read(None) == Quantity.parse("0")


def test_what_was_read_can_be_forgotten() -> None:
    """Equal texts are one object, until all are forgotten."""
    first = Quantity.parse("123m")
    assert Quantity.parse("123m") is first
    clear_caches()
    assert Quantity.parse("123m") is not first


@cases(
    "names expected",
    {
        "none": ("", ""),
        "the other way round": ("memory cpu", "cpu memory"),
        "two others": ("b a", "a b"),
        "others come last": ("z memory a cpu", "cpu memory a z"),
    },
)
def test_in_order(names: str, expected: str) -> None:
    """Equal resources come in equal order, however they were written."""
    assert in_order(names.split()) == expected.split()
