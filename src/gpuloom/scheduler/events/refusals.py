"""The texts of pods that fit nowhere, for replies and events; the last ones are remembered."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.event_messages import describe_failure
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.wire.extender import FailedNodes

UNFIT_NODE = "NodeUnfitPod"
_MOST_REMEMBERED = 8


@dataclass(slots=True)
class _Texts:
    """The texts of refusals, as far as somebody has asked for them."""

    refusals: Mapping[str, Refusal]
    by_node: FailedNodes | None = None
    messages: Sequence[str] | None = None


@dataclass(slots=True)
class RefusalTexts:
    """Makes the texts of refusals; decisions with the same refusals share them.

    short        whether replies say only that a node does not fit, unless it is unknown (D-06)
    event_bytes  longest message of an event
    """

    short: bool
    event_bytes: int
    _remembered: deque[_Texts] = field(default_factory=lambda: deque(maxlen=_MOST_REMEMBERED))

    def node_texts(self, decision: Decision) -> FailedNodes:
        """Say of every node why it does not fit, in the reply's words."""
        texts = self._recall(decision)
        if texts.by_node is None:
            # Few different refusals are shared by many nodes.
            words = {refusal: self._word(refusal) for refusal in set(texts.refusals.values())}
            texts.by_node = FailedNodes(
                zip(texts.refusals, map(words.__getitem__, texts.refusals.values()), strict=True)
            )
        return texts.by_node

    def event_messages(self, decision: Decision) -> Iterator[str]:
        """Give the messages about a pod that fits nowhere, one after the other; of many nodes each takes its time."""
        texts = self._recall(decision)
        if texts.messages is not None:
            yield from texts.messages
            return
        messages = []
        for message in describe_failure(texts.refusals, decision.candidates, self.event_bytes):
            messages.append(message)
            yield message
        texts.messages = messages

    def _word(self, refusal: Refusal) -> str:
        return UNFIT_NODE if self.short and Reason.NODE_UNREGISTERED not in refusal.counts else refusal.text

    def _recall(self, decision: Decision) -> _Texts:
        for texts in self._remembered:
            if texts.refusals is decision.refusals:
                return texts
        texts = _Texts(decision.refusals)
        self._remembered.append(texts)
        return texts
