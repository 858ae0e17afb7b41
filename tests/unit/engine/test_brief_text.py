"""What the short explanation names where notes and filters keep a pod away, and which cards it has."""

from gpuloom.engine.explanation.text import tell_briefly
from gpuloom.engine.explanation.values import (
    Amount,
    CardVerdict,
    ContainerRequest,
    Explanation,
    Given,
    Held,
    HostReason,
    HostVerdict,
    NodeVerdict,
    PodName,
)

UNKNOWN = "container c: no node has nvidia.com/gpumemory; did you mean nvidia.com/gpumem?"


def tell(note: str, *reasons: str) -> str:
    host = HostVerdict(with_cards=1, reasons=tuple(HostReason(text=text, nodes=1) for text in reasons))
    name = PodName(namespace="default", name="p")
    explanation = Explanation(pod=name, outcome="does not fit", headline="fits nowhere", notes=(note,), host=host)
    _, why = tell_briefly(explanation)
    return why


def test_a_resource_that_a_note_names_is_not_told_twice() -> None:
    assert tell(UNKNOWN, "Insufficient nvidia.com/gpumemory") == f"C{UNKNOWN[1:]}"


def test_another_reason_beside_it_is_told() -> None:
    assert "1 Insufficient cpu" in tell(UNKNOWN, "Insufficient cpu", "Insufficient nvidia.com/gpumemory")


def test_a_word_that_note_and_reason_share_does_not_hide_the_reason() -> None:
    assert "1 Too many pods" in tell("would fit if 2 pods of lower priority left", "Too many pods")


def ask(count: int) -> str:
    asks = tuple(ContainerRequest(container=f"c{place}", phase="regular", cards=1) for place in range(count))
    name = PodName(namespace="default", name="p")
    explanation = Explanation(pod=name, outcome="fits", headline="fits on n1", fitting=1, asks=asks)
    _, why = tell_briefly(explanation)
    return why


def test_all_of_a_few_containers_are_told_with_what_they_ask_for() -> None:
    assert [f"container c{place} asks for" in ask(3) for place in range(3)] == [True, True, True]


def test_of_many_containers_the_others_are_counted() -> None:
    assert ask(5).endswith("; and 2 more containers.")


NONE = Amount(used=0, total=0)


def hold(count: int, *, containers: int = 1, known: bool = True, **how: str) -> str:
    shares = [
        Given(container=f"c{place * containers // count}", uuid=f"GPU-{place}", memory_mib=3000, cores=50)
        for place in range(count)
    ]
    cards = [CardVerdict(uuid=f"GPU-{at}", index=at, shares=NONE, memory=NONE, cores=NONE) for at in range(count)]
    explanation = Explanation(
        pod=PodName(namespace="default", name="p"),
        outcome="bound",
        headline="is bound to n1",
        held=Held(node="n1", shares=tuple(shares)),
        nodes=(NodeVerdict(name="n1", fits=True, cards=tuple(cards)),) if known else (),
    )
    _, why = tell_briefly(explanation, **how)
    return why


def test_the_card_of_a_pod_is_named_as_lists_name_it() -> None:
    assert hold(1) == "It has for c0: n1/0 GPU-0: 3,000 MiB, 50 % of the cores."
    assert hold(1, known=False) == "It has for c0: GPU-0: 3,000 MiB, 50 % of the cores."


def test_few_cards_of_a_pod_are_all_named_each_container_once() -> None:
    each = [f"n1/{at} GPU-{at}: 3,000 MiB, 50 % of the cores" for at in range(4)]
    assert hold(4, containers=2) == f"It has for c0: {each[0]}; {each[1]}; for c1: {each[2]}; {each[3]}."


def test_of_many_cards_of_a_pod_the_others_are_counted_with_how_to_see_them() -> None:
    first = "It has for c0: n1/0 GPU-0: 3,000 MiB, 50 % of the cores; and 4 more"
    assert (hold(5), hold(5, listed="-v lists all")) == (f"{first}.", f"{first} (-v lists all).")
