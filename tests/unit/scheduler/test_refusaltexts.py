"""What is said about refusals is put into words once for all decisions that tell the same."""

from builders import Engine, card, pod

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.event_messages import MESSAGE_LIMIT_BYTES
from gpuloom.scheduler.events.refusals import RefusalTexts

ENGINE = Engine({node: [card(f"GPU-{node}")] for node in ("n1", "n2")})


def refuse(*nodes: str) -> Decision:
    return ENGINE.decide(pod(gpu=1, gpumem=20_000), *nodes)


def test_decisions_that_share_refusals_share_the_words() -> None:
    texts = RefusalTexts(False, MESSAGE_LIMIT_BYTES)
    first, second = refuse("n1", "n2"), refuse("n1", "n2")
    assert texts.node_texts(first) is texts.node_texts(second)
    told, again = list(texts.event_messages(first)), list(texts.event_messages(second))
    assert [id(message) for message in told] == [id(message) for message in again]


def test_other_refusals_have_words_of_their_own() -> None:
    texts = RefusalTexts(False, MESSAGE_LIMIT_BYTES)
    texts.node_texts(refuse("n1", "n2"))
    assert texts.node_texts(refuse("n2")) == {"n2": "1/1 CardInsufficientMemory"}


def test_short_replies_still_tell_which_nodes_are_unknown() -> None:
    """scheduler D-06."""
    texts = RefusalTexts(True, MESSAGE_LIMIT_BYTES)
    assert texts.node_texts(refuse("n1", "stranger")) == {"n1": "NodeUnfitPod", "stranger": "node unregistered"}
