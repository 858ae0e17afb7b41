from decimal import ROUND_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.wire.errors import WireError
from gpuloom.wire.quantity import count_nanos, decode_strict_integer, floor_quantity, round_quantity

NO_QUANTITIES = [
    "",
    " ",
    "1e",
    "5K",
    "1 Gi",
    " 1",
    "1.1.M",
    "1mi",
    "1i",
    "1kk",
    "1e3k",
    "1exa",
    "--1",
    "1-",
    "0x10",
    "1_0",
]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096", 4096),
        ("4k", 4000),
        ("1Ki", 1024),
        ("16Gi", 17179869184),
        ("1e3", 1000),
        ("1E+3", 1000),
        ("0.1e1", 1),
        ("1.5k", 1500),
        ("1.0k", 1000),
        ("1E", 10**18),
        ("-1", -1),
        ("-1Ki", -1024),
        ("+1", 1),
        ("1.", 1),
        ("1.Ki", 1024),
        (".5k", 500),
        ("0", 0),
        ("-0", 0),
        ("0e9999", 0),
        (4096, 4096),
        (-1, -1),
    ],
)
def test_strictly_known_are_whole_numbers_with_suffixes_of_one_and_more(text, value):
    assert decode_strict_integer(text) == value


@pytest.mark.parametrize(
    "text", ["0.5", "1.0", "0.0", "500m", "1000m", "1.5Ki", "16.0Gi", "1Pi", "0Pi", "1e-1", "10E", "1e9999", 0.5, 1.0]
)
def test_strictly_unknown_are_numbers_that_go_keeps_as_decimals(text):
    assert decode_strict_integer(text) is None


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        ("999999999999999999", "1000000000000000000"),
        ("99999999999Ki", "100000000000Ki"),
        ("99999999Mi", "100000000Mi"),
        ("99999Gi", "100000Gi"),
        ("99Ti", "100Ti"),
        ("9e18", "10e18"),
    ],
)
def test_go_gives_up_the_integer_by_the_number_of_digits(known, unknown):
    assert (decode_strict_integer(known), decode_strict_integer(unknown)) == (int(round_quantity(known)), None)


def test_leading_zeros_do_not_count_as_digits():
    assert decode_strict_integer("0000000000000000000000001Gi") == 1024**3


@pytest.mark.parametrize("text", ["+", "-", ".", "Ki", "k", "e3"])
def test_a_quantity_without_digits_is_zero_as_in_go(text):
    assert (decode_strict_integer(text), round_quantity(text)) == (0, 0)


@pytest.mark.parametrize("text", NO_QUANTITIES)
def test_what_is_no_quantity_has_no_strict_value(text):
    assert decode_strict_integer(text) is None


@pytest.mark.parametrize(
    "text", [*NO_QUANTITIES, "9" * 1000, pytest.param(10**5000, id="huge"), float("inf"), float("nan")]
)
def test_what_is_no_quantity_cannot_be_rounded(text):
    with pytest.raises(WireError, match="not a quantity"):
        round_quantity(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", 1),
        ("-500m", -1),
        ("1.0", 1),
        ("1.1", 2),
        ("-1.1", -2),
        ("1n", 1),
        ("1e-9999", 1),
        ("1.5Ki", 1536),
        ("1Pi", 2**50),
        ("16.0Gi", 2**34),
        ("0", 0),
        (1.5, 2),
        (99, 99),
    ],
)
def test_rounding_goes_away_from_zero(text, value):
    assert round_quantity(text) == value


def test_a_rounded_value_ends_at_64_bits():
    assert round_quantity("1e9999") == 2**63 - 1


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**17), max_value=10**17))
def test_rounding_agrees_with_decimal_arithmetic(number):
    assert round_quantity(f"{number:f}") == int(number.to_integral_value(ROUND_UP))


@given(st.integers(-(10**11), 10**11), st.sampled_from(["", "k", "M", "e3", "E+1"]))
def test_both_readings_agree_where_the_strict_one_knows(number, suffix):
    assert decode_strict_integer(f"{number}{suffix}") == round_quantity(f"{number}{suffix}")


@given(st.integers(0, 10**6), st.sampled_from(["n", "u", "m"]))
def test_a_fraction_is_never_lost(number, suffix):
    scale = {"n": -9, "u": -6, "m": -3}[suffix]
    assert round_quantity(f"{number}{suffix}") == int(Decimal(number).scaleb(scale).to_integral_value(ROUND_UP))


@pytest.mark.parametrize(
    ("text", "value"),
    [("1500m", 1), ("999m", 0), ("-1m", -1), ("1.5Ki", 1536), ("2", 2), ("1.0", 1), ("100Ti", 100 << 40), ("0", 0)],
)
def test_the_whole_number_below_is_never_above_the_value(text, value):
    assert floor_quantity(text) == value


@pytest.mark.parametrize("text", NO_QUANTITIES)
def test_what_is_no_quantity_has_no_whole_number_below(text):
    with pytest.raises(WireError, match="not a quantity"):
        floor_quantity(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1n", 1), ("0.1n", 1), ("-0.1n", -1), ("1.2n", 2), ("1e-99", 1), ("1", 10**9), ("1Ki", 1024 * 10**9), ("0", 0)],
)
def test_what_is_finer_than_a_billionth_is_rounded_away_from_zero(text, value):
    assert count_nanos(text) == value


def test_a_quantity_is_read_up_to_128_characters():
    assert floor_quantity("0" * 127 + "7") == 7
    with pytest.raises(WireError, match="not a quantity"):
        floor_quantity("0" * 128 + "7")
