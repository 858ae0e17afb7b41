"""Which obstacles the short explanation names, where a note and kube-scheduler's filters both keep a pod away."""

from gpuloom.engine.explanation.text import tell_briefly
from gpuloom.engine.explanation.values import Explanation, HostReason, HostVerdict, PodName

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
