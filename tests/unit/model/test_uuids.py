"""Cards are named by as much of their UUID as no other card has."""

import pytest

from gpuloom.model.uuids import AmbiguousUuidError, choose_uuid, may_mean

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


@pytest.mark.parametrize(
    ("text", "expected"),
    [("gpu-3", "GPU-3"), ("Gpu-1", "GPU-1"), ("gpu-a", "GPU-abcd"), ("GPU-ABCD", "GPU-abcd"), ("gpu-4", None)],
)
def test_the_case_of_letters_counts_for_nothing_where_nothing_matches_exactly(text: str, expected: str | None) -> None:
    assert choose_uuid(text, [*UUIDS, "GPU-abcd"]) == expected


def test_a_card_that_matches_exactly_comes_before_those_in_another_case() -> None:
    assert choose_uuid("GPU-a", ["GPU-aa", "GPU-AA"]) == "GPU-aa"


def test_a_beginning_of_several_in_another_case_is_refused() -> None:
    with pytest.raises(AmbiguousUuidError, match="gpu- is the beginning of 4 cards"):
        choose_uuid("gpu-", UUIDS)


@pytest.mark.parametrize(("text", "is_candidate"), [("GPU-1", True), ("gpu-1", True), ("GPU-2", False), ("PU", False)])
def test_whoever_looks_through_many_cards_keeps_those_that_may_be_meant(text: str, is_candidate: bool) -> None:  # noqa: FBT001
    assert may_mean(text, "GPU-12") is is_candidate
