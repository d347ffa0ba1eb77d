"""Numbers, durations and words that people write."""

import pytest

from extender.api.values import LONGEST, seconds, switch, whole


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ("300", 300),
        ("0", 0),
        ("90s", 90),
        ("0.5s", 0.5),
        ("5m", 300),
        ("1.5h", 5400),
        ("1h30m", 5400),
        ("1h1m1s", 3661),
        ("500ms", 0.5),
        ("5500ms", 5.5),
        ("1m500ms", 60.5),
        ("250us", 250e-6),
        ("87600h", LONGEST),
        ("87600h1s", None),
        ("9" * 17 + "h", None),
        ("9" * 400, None),
        ("0." + "1" * 5000, None),
        ("", None),
        ("s", None),
        ("soon", None),
        ("-5", None),
        ("5d", None),
        ("5m5m", None),
        ("5\n", None),
        ("٣", None),
    ],
)
def test_durations_are_parsed(said: str, want: float | None) -> None:
    assert seconds(said) == want


@pytest.mark.parametrize(
    ("said", "want"),
    [("0", 0), ("12", 12), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5000, None)]
    + [(said, None) for said in ("", "-1", "+1", "1.0", "٣", "²")],
)
def test_whole_numbers_are_parsed(said: str, want: int | None) -> None:
    assert whole(said) == want


def test_words() -> None:
    assert (switch("true"), switch("false"), switch("True"), switch("")) == (
        True,
        False,
        None,
        None,
    )
