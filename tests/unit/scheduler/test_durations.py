import pytest

from gpuloom.scheduler.durations import format_seconds, parse_seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (28, "28s"), (60, "1m0s"), (300, "5m0s"), (3600, "1h0m0s"), (3661, "1h1m1s")]
)
def test_durations_are_written_as_go_does(seconds: int, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("28s", 28), ("5m", 300), ("1h5m0s", 3900), ("300ms", 0.3), ("1.5h", 5400), ("0", 0), ("30", 30), ("0s", 0)],
)
def test_durations_are_read_as_go_writes_them_or_as_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-5m", "5m-1s", "m", "1d", "1e3"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_seconds(text)
