"""Shapes as they are written on the command line, and what is wrong use of it."""

import pytest
from typer.testing import CliRunner

from tests.bench.__main__ import app
from tests.bench.shapes import Shape, ShapeError, parse


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        pytest.param(["100x50"], [Shape(100, 50)], id="one"),
        pytest.param(["5000x1, 1x5000"], [Shape(5000, 1), Shape(1, 5000)], id="with commas"),
        pytest.param(["250x20", "20x250"], [Shape(250, 20), Shape(20, 250)], id="again"),
        pytest.param(["churn:3x4"], [Shape(3, 4, churn=True)], id="with others that cannot fit"),
        pytest.param(["churn"], [Shape(50, 50, churn=True)], id="by name"),
    ],
)
def test_shapes_are_parsed(texts: list[str], want: list[Shape]) -> None:
    assert parse(texts) == want


def test_all_are_as_many_pods() -> None:
    shapes = parse(["all"])

    assert len(shapes) == len(set(shapes)) == 6
    assert {shape.gangs * shape.size * (1 + shape.churn) for shape in shapes} == {5000}


@pytest.mark.parametrize(
    "text", ["", "100", "0x5", "5x0", "-1x5", "5 x 5", "3x4,", "chrun:3x4", "churn:3x1"]
)
def test_what_is_no_shape_is_an_error(text: str) -> None:
    with pytest.raises(ShapeError):
        parse([text])


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param("--shape 1x81", "take 80 pods, not 81", id="too many pods"),
        pytest.param("--shape churn:1x1", "a gang of one", id="no shape"),
        pytest.param("--shape 1x1 --arrive soon", "'soon' is neither", id="no pace"),
        pytest.param(
            "--shape churn:1x2 --arrive 1", "--arrive goes neither", id="no churn of Jobs"
        ),
        pytest.param("--shape 1x1 --preempt --bare", "--bare does not go", id="no victims alone"),
        pytest.param("--shape 1x1 --only ours,mine", "mine is not among plain, ours", id="no side"),
    ],
)
def test_wrong_use_is_an_error_before_anything_runs(options: str, want: str) -> None:
    ran = CliRunner().invoke(app, ["--nodes", "1", *options.split()], env={"COLUMNS": "200"})

    assert ran.exit_code == 2
    assert want in ran.output
