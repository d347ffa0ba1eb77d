"""The shapes of a load: how many gangs of which size, and whether others are among them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SHAPE = re.compile(r"(?P<churn>churn:)?(?P<gangs>[1-9]\d*)x(?P<size>[1-9]\d*)", re.ASCII)
_NAMED = {
    "churn": ("churn:50x50",),
    "all": ("100x50", "5000x1", "250x20", "20x250", "1x5000", "churn:50x50"),
}


class ShapeError(ValueError):
    """The text is not a shape."""


@dataclass(frozen=True, slots=True)
class Shape:
    """So many gangs of so many; with `churn` as many again that cannot ever fit."""

    gangs: int
    size: int
    churn: bool = False


def parse(texts: Iterable[str]) -> list[Shape]:
    """Return the shapes of texts, each a shape or a list with commas. Raises ShapeError."""
    words = (word.strip() for text in texts for word in text.split(","))
    return [_shape(each) for word in words for each in _NAMED.get(word, (word,))]


def _shape(text: str) -> Shape:
    found = _SHAPE.fullmatch(text)
    if not found:
        raise ShapeError(f"{text!r} is neither GANGSxSIZE, churn:GANGSxSIZE nor {names()}")
    shape = Shape(int(found["gangs"]), int(found["size"]), churn=bool(found["churn"]))
    if shape.churn and shape.size == 1:
        raise ShapeError(f"{text!r}: a gang of one fits wherever its pod does")
    return shape


def names() -> str:
    """Return the words that stand for shapes."""
    return " nor ".join(_NAMED)
