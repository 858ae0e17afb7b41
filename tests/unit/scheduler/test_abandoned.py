"""When cards that a command closed are nobody's any more (decision 034)."""

from gpuloom.scheduler.defragmentation.abandoned import ABANDONED_S, AbandonedClosings
from gpuloom.wire.keys import NODE_DEFRAG, NODE_DEFRAG_RENEWED
from gpuloom.wire.objects import Node, ObjectMeta


class Watcher:
    """Looks at nodes, by a clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.abandoned = AbandonedClosings(lambda: self.now_s)

    def see(self, renewed: str, *, after_s: float = 0.0, name: str = "n1", cards: str = "GPU-a,GPU-b") -> list[str]:
        self.now_s += after_s
        said = {NODE_DEFRAG: cards, NODE_DEFRAG_RENEWED: renewed}
        annotations = {key: text for key, text in said.items() if text}
        return [*self.abandoned.find(Node(metadata=ObjectMeta(name=name, annotations=annotations)))]


def test_cards_are_abandoned_when_nothing_new_is_seen_for_long() -> None:
    watcher = Watcher()
    assert watcher.see("first") == []
    assert watcher.see("first", after_s=ABANDONED_S - 1) == []
    assert watcher.see("first", after_s=1) == ["GPU-a", "GPU-b"]


def test_what_is_seen_first_counts_from_then_however_old_it_is() -> None:
    watcher = Watcher()
    assert watcher.see("1970-01-01T00:00:00+00:00") == []


def test_each_renewal_begins_the_time_anew() -> None:
    watcher = Watcher()
    watcher.see("first")
    assert watcher.see("second", after_s=ABANDONED_S) == []
    assert watcher.see("second", after_s=ABANDONED_S - 1) == []


def test_each_node_has_its_own_time() -> None:
    watcher = Watcher()
    watcher.see("first")
    assert watcher.see("first", after_s=ABANDONED_S, name="n2") == []


def test_without_a_note_or_a_renewal_nothing_is_abandoned() -> None:
    watcher = Watcher()
    for cards, renewed in (("", "first"), ("GPU-a", "")):
        watcher.see(renewed, cards=cards)
        assert watcher.see(renewed, cards=cards, after_s=2 * ABANDONED_S) == []


def test_a_node_that_was_gone_begins_anew() -> None:
    watcher = Watcher()
    watcher.see("first")
    watcher.abandoned.keep_only(["n2"])
    assert watcher.see("first", after_s=ABANDONED_S) == []
