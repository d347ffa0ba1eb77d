"""Quantities as people write them."""

from decimal import Decimal

import pytest

from extender.resources.quantity import (
    Quantity,
    QuantityError,
    add,
    amount,
    parse,
    parse_resources,
    raise_to,
    show,
    subtract,
)

WANT_VALUE: dict[str, tuple[Quantity, Decimal]] = {
    "a whole number": ("2", Decimal(2)),
    "a number that is no text": (2, Decimal(2)),
    "a fraction": ("0.5", Decimal("0.5")),
    "a fraction that is no text": (0.5, Decimal("0.5")),
    "a fraction without a leading digit": (".5", Decimal("0.5")),
    "a number with a trailing dot": ("5.", Decimal(5)),
    "zero": ("0", Decimal(0)),
    "a negative number": ("-3", Decimal(-3)),
    "an explicit plus": ("+3", Decimal(3)),
    "nano": ("1n", Decimal("1e-9")),
    "micro": ("1u", Decimal("1e-6")),
    "milli": ("100m", Decimal("0.1")),
    "kilo": ("1k", Decimal(1000)),
    "mega": ("1M", Decimal(10**6)),
    "giga": ("1G", Decimal(10**9)),
    "tera": ("1T", Decimal(10**12)),
    "peta": ("1P", Decimal(10**15)),
    "exa is not an exponent": ("1E", Decimal(10**18)),
    "an upper-case exponent": ("1E3", Decimal(1000)),
    "a lower-case exponent": ("1e3", Decimal(1000)),
    "a negative exponent": ("1e-3", Decimal("0.001")),
    "kibi": ("1Ki", Decimal(2**10)),
    "mebi": ("1Mi", Decimal(2**20)),
    "gibi": ("1Gi", Decimal(2**30)),
    "tebi": ("1Ti", Decimal(2**40)),
    "pebi": ("1Pi", Decimal(2**50)),
    "exbi": ("1Ei", Decimal(2**60)),
    "a fraction of gibi": ("1.5Gi", Decimal(3 * 2**29)),
    "the largest int64": ("9223372036854775807", Decimal(2**63 - 1)),
}


@pytest.mark.parametrize(("text", "want"), WANT_VALUE.values(), ids=WANT_VALUE)
def test_a_quantity_has_an_exact_value(text: Quantity, want: Decimal) -> None:
    assert parse(text) == want


WANT_BAD: dict[str, tuple[Quantity, str]] = {
    "nothing": ("", "'' is not a quantity such as 500m, 2 or 1Gi"),
    "only a suffix": ("Gi", "'Gi' is not a quantity such as 500m, 2 or 1Gi"),
    "a word": ("much", "'much' is not a quantity such as 500m, 2 or 1Gi"),
    "an unknown suffix": ("1mi", "'1mi' is not a quantity: unknown suffix 'mi'"),
    "two suffixes": ("1GiGi", "'1GiGi' is not a quantity: unknown suffix 'GiGi'"),
    "an upper-case K": ("1K", "'1K' is not a quantity: unknown suffix 'K'"),
    "a space inside": ("1 Gi", "'1 Gi' is not a quantity such as 500m, 2 or 1Gi"),
    "a comma": ("1,5", "'1,5' is not a quantity such as 500m, 2 or 1Gi"),
    "not a number": ("NaN", "'NaN' is not a finite quantity"),
    "no end": ("Infinity", "'Infinity' is not a finite quantity"),
    "no end that is no text": (float("inf"), "inf is not a finite quantity"),
    "digit groups of Python": ("1_000", "'1_000' is not a quantity such as 500m, 2 or 1Gi"),
}


@pytest.mark.parametrize(("text", "want"), WANT_BAD.values(), ids=WANT_BAD)
def test_what_is_no_quantity_is_an_error(text: Quantity, want: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert str(caught.value) == want


WANT_AMOUNT: dict[str, tuple[str, Quantity, int]] = {
    "cpu counts in thousandths": ("cpu", "1.5", 1500),
    "cpu in thousandths": ("cpu", "100m", 100),
    "a whole cpu": ("cpu", 2, 2000),
    "less than a thousandth of a cpu is one": ("cpu", "1u", 1),
    "cpu rounds up": ("cpu", "1500.1m", 1501),
    "memory counts in bytes": ("memory", "1Ki", 1024),
    "half a byte is one": ("memory", "0.5", 1),
    "milli-bytes round up": ("memory", "1500m", 2),
    "an extended resource counts in pieces": ("example.com/gpu", "4", 4),
    "an exa of bytes": ("memory", "1E", 10**18),
    "an exbi of bytes": ("memory", "1Ei", 2**60),
    "an exponent": ("memory", "1e3", 1000),
    "zero is zero": ("cpu", "0", 0),
    "the least cpu below zero is below zero": ("cpu", "-1n", -1),
    "the least memory below zero is below zero": ("memory", "-1m", -1),
    "what is below zero keeps its value": ("cpu", "-1500m", -1500),
}


@pytest.mark.parametrize(("name", "text", "want"), WANT_AMOUNT.values(), ids=WANT_AMOUNT)
def test_an_amount_is_rounded_away_from_zero(name: str, text: Quantity, want: int) -> None:
    assert amount(name, text) == want


WANT_SHOWN: dict[str, tuple[str, int, str]] = {
    "whole cpus": ("cpu", 2000, "2"),
    "a fraction of a cpu": ("cpu", 1500, "1500m"),
    "no cpu": ("cpu", 0, "0"),
    "a round number of gibi": ("memory", 2**31, "2Gi"),
    "a round number of tebi": ("memory", 3 * 2**40, "3Ti"),
    "a round number of mebi": ("memory", 1536 * 2**20, "1536Mi"),
    "a round number of kibi": ("memory", 1024, "1Ki"),
    "few bytes": ("memory", 100, "100"),
    "many bytes are rounded up": ("memory", 10 * 2**30 + 1, "11Gi"),
    "no bytes": ("memory", 0, "0"),
    "local disk is in bytes too": ("ephemeral-storage", 2**30, "1Gi"),
    "huge pages are in bytes too": ("hugepages-2Mi", 2**21, "2Mi"),
    "pieces": ("example.com/gpu", 2048, "2048"),
}


@pytest.mark.parametrize(("name", "value", "want"), WANT_SHOWN.values(), ids=WANT_SHOWN)
def test_an_amount_is_shown_as_people_write_it(name: str, value: int, want: str) -> None:
    assert show(name, value) == want


def test_a_resource_list_is_read() -> None:
    assert parse_resources({"cpu": "1", "memory": "1Ki"}) == {"cpu": 1000, "memory": 1024}


@pytest.mark.parametrize("raw", [None, {}])
def test_no_resource_list_is_an_empty_one(raw: dict[str, Quantity] | None) -> None:
    assert parse_resources(raw) == {}


def test_adding_leaves_zero_out() -> None:
    into = {"cpu": 1}
    add(into, {"cpu": 2, "memory": 3, "gpu": 0})
    assert into == {"cpu": 3, "memory": 3}


def test_subtracting_drops_what_reaches_zero_and_may_go_below() -> None:
    into = {"cpu": 1, "memory": 3}
    subtract(into, {"cpu": 1, "memory": 1, "gpu": 2})
    assert into == {"memory": 2, "gpu": -2}


def test_raising_never_lowers() -> None:
    into = {"cpu": 1, "memory": 3}
    raise_to(into, {"cpu": 2, "memory": 1, "gpu": 1})
    assert into == {"cpu": 2, "memory": 3, "gpu": 1}
