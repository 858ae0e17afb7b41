"""What events say when there is more to say than an event takes (binding 7)."""

import random
import re

import pytest
from builders import Engine, card, pod

from gpuloom.engine.decision.event_messages import MESSAGE_LIMIT_BYTES, describe_failure, describe_success
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node

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
    first = next(describe_failure(decision.refusals, decision.candidates, limit_bytes))
    assert limit_bytes - len(",node-000") <= len(first.encode()) <= limit_bytes


class Name(str):
    """A node's name that counts how often it is compared with others."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: str) -> bool:
        Name.compared += 1
        return super().__lt__(other)


def test_very_many_nodes_are_not_sorted_for_the_few_that_are_named() -> None:
    names = [Name(f"node-{number:04}") for number in range(4000)]
    random.Random(1).shuffle(names)
    before = Name.compared
    list(describe_failure(dict.fromkeys(names, refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)), len(names)))
    assert Name.compared - before <= 2 * len(names)


def test_messages_are_made_one_at_a_time() -> None:
    names = [Name(f"node-{number:04}") for number in range(400)]
    both = Refusal({Reason.CARD_NOT_HEALTH: 1, Reason.CARD_INSUFFICIENT_MEMORY: 1}, 2)
    messages = describe_failure(dict.fromkeys(names, both), len(names))
    next(messages)
    compared = Name.compared
    assert len(list(messages)) == 2
    assert Name.compared > compared


def test_short_names_are_told_in_order_as_far_as_there_is_room() -> None:
    names = [chr(ord("a") + number % 26) + chr(ord("a") + number // 26) for number in range(26 * 26)]
    told = next(describe_failure(dict.fromkeys(names, refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)), len(names)))
    listed = ",".join(sorted(names))
    assert told[:1000] == f"{len(names)} nodes NodeInsufficientDevice({listed}"[:1000]


def test_a_reason_names_the_nodes_that_it_is_about() -> None:
    few, both = refuse_node(Reason.NODE_INSUFFICIENT_DEVICE), Refusal({Reason.CARD_NOT_HEALTH: 1}, 1)
    assert list(describe_failure({"n3": both, "n1": few, "n2": both}, 3)) == [
        "2 nodes CardNotHealth(n2,n3)",
        "1 nodes NodeInsufficientDevice(n1)",
        "no available node, 3 nodes do not meet",
    ]
