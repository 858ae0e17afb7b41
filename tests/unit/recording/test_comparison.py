from typing import Any

import pytest

from gpuloom.scheduler.recording.comparison import compare


@pytest.mark.parametrize(
    ("recorded", "replayed"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"annotations": {"k": '{"x": 1, "y": 2}'}}, {"annotations": {"k": '{"y":2,"x":1}'}}),
        ({"annotations": {"k": "[ ]"}}, {"annotations": {"k": "[]"}}),
        (1, 1.0),
    ],
)
def test_same_values_do_not_differ(recorded: Any, replayed: Any) -> None:
    assert compare(recorded, replayed) == []


@pytest.mark.parametrize(
    ("recorded", "replayed", "text"),
    [
        ({"a": 1}, {"a": 2}, "/a: recorded 1, replayed 2"),
        ({"a": None}, {}, "/a: recorded null, replayed nothing"),
        ({}, {"a": None}, "/a: recorded nothing, replayed null"),
        ({"a": [1]}, {"a": [1, 2]}, "/a/1: recorded nothing, replayed 2"),
        (True, 1, "/: recorded true, replayed 1"),
        ({"labels": {"k": "[ ]"}}, {"labels": {"k": "[]"}}, '/labels/k: recorded "[ ]", replayed "[]"'),
        ({"annotations": {"k": "[1]"}}, {"annotations": {"k": "[true]"}}, '/annotations/k: recorded "[1]"'),
    ],
)
def test_difference_is_told_with_its_place(recorded: Any, replayed: Any, text: str) -> None:
    (difference,) = compare(recorded, replayed)
    assert str(difference).startswith(text)
