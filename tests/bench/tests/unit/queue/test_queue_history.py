"""A history is read as it was recorded, without a line that was cut off."""

from pathlib import Path

from tests.bench.queue import history
from tests.bench.tests.unit.queue.makers import admitted, finished, seen

EVENTS = [seen(1.0, "a"), admitted(2.0, "a"), finished(3.0, "a")]


def test_what_was_recorded_is_read(tmp_path: Path) -> None:
    with history.Recorder(tmp_path / "history") as recorder:
        for each in EVENTS:
            recorder.add(each)

    assert history.read(tmp_path / "history") == EVENTS


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "history"
    with history.Recorder(file) as recorder:
        for each in EVENTS:
            recorder.add(each)
    file.write_bytes(file.read_bytes()[:-3])

    assert history.read(file) == EVENTS[:2]
