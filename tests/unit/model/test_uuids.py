"""Cards are named by as much of their UUID as no other card has."""

import pytest

from gpuloom.model.uuids import AmbiguousUuidError, choose_uuid

UUIDS = ["GPU-1", "GPU-12", "GPU-2", "GPU-3"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("GPU-1", "GPU-1"), ("GPU-12", "GPU-12"), ("GPU-3", "GPU-3"), ("GPU-4", None), ("PU-3", None)],
)
def test_a_whole_uuid_or_a_beginning_of_one_alone_is_enough(text: str, expected: str | None) -> None:
    assert choose_uuid(text, UUIDS) == expected


@pytest.mark.parametrize("text", ["", "GPU-"])
def test_a_beginning_of_several_is_refused_and_names_some(text: str) -> None:
    with pytest.raises(AmbiguousUuidError, match=r"is the beginning of 4 cards \(GPU-1, GPU-12, GPU-2 \.\.\.\)"):
        choose_uuid(text, UUIDS)
