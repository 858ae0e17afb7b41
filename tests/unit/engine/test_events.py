"""What events say when there is more to say than an event takes (binding 7)."""

import re

import pytest
from builders import Engine, card, pod

from gpuloom.engine.events import MESSAGE_LIMIT_BYTES, describe_failure, describe_success

MANY = Engine({f"node-{number:03}": [card(f"GPU-{number}", memory_mib=1000)] for number in range(400)})


def success() -> str:
    return describe_success(MANY.decide(pod(gpu=1, gpumem=1)), MESSAGE_LIMIT_BYTES)


def test_a_long_list_ends_with_a_whole_item_and_the_number_of_the_others() -> None:
    """binding 7 events."""
    message = success()
    told = re.findall(r"node-\d{3}:\d\.\d\d", message)
    ended = re.fullmatch(r"find fit node.*:0\.00, and (\d+) more\)", message)
    assert ended is not None
    assert len(told) + int(ended.group(1)) == 400


def test_no_message_is_longer_than_an_event_takes() -> None:
    """binding 7 events."""
    decision = MANY.decide(pod(gpu=1, gpumem=5000), explain=True)
    messages = [success(), *describe_failure(decision.refusals, decision.candidates, MESSAGE_LIMIT_BYTES)]
    assert len(messages) > 2
    assert max(len(message.encode()) for message in messages) <= 1024


@pytest.mark.parametrize("limit_bytes", [200, 300, 1024])
def test_as_much_is_told_as_there_is_room_for(limit_bytes: int) -> None:
    """binding 7 events."""
    decision = MANY.decide(pod(gpu=1, gpumem=5000), explain=True)
    first = next(iter(describe_failure(decision.refusals, decision.candidates, limit_bytes)))
    assert limit_bytes - len(",node-000") <= len(first.encode()) <= limit_bytes
