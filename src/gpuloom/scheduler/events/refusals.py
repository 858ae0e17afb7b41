"""The words about pods that fit nowhere, for replies and events; what was said last is not put into words again."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuloom.engine.events import describe_failure
from gpuloom.engine.ruling import Ruling
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.wire.extender import FailedNodes

UNFIT_NODE = "NodeUnfitPod"
_MOST_SAID = 8


@dataclass(slots=True)
class _Said:
    """The words about refusals, as far as somebody has asked for them."""

    refusals: Mapping[str, Refusal]
    by_node: FailedNodes | None = None
    messages: Sequence[str] | None = None


@dataclass(slots=True)
class Wording:
    """Puts refusals into words; decisions that tell the same refusals share them.

    short        whether replies say only that a node does not fit, unless it is unknown (D-06)
    event_bytes  longest message of an event
    """

    short: bool
    event_bytes: int
    _said: deque[_Said] = field(default_factory=lambda: deque(maxlen=_MOST_SAID))

    def tell_nodes(self, decision: Ruling) -> FailedNodes:
        """Say of every node why it does not fit, in the reply's words."""
        said = self._recall(decision)
        if said.by_node is None:
            # Few different refusals are shared by many nodes.
            words = {refusal: self._word(refusal) for refusal in set(said.refusals.values())}
            said.by_node = FailedNodes(zip(said.refusals, map(words.__getitem__, said.refusals.values()), strict=True))
        return said.by_node

    def tell_events(self, decision: Ruling) -> Iterator[str]:
        """Give the messages about a pod that fits nowhere, one after the other; of many nodes each takes its time."""
        said = self._recall(decision)
        if said.messages is not None:
            yield from said.messages
            return
        messages = []
        for message in describe_failure(said.refusals, decision.candidates, self.event_bytes):
            messages.append(message)
            yield message
        said.messages = messages

    def _word(self, refusal: Refusal) -> str:
        return UNFIT_NODE if self.short and Reason.NODE_UNREGISTERED not in refusal.counts else refusal.text

    def _recall(self, decision: Ruling) -> _Said:
        for said in self._said:
            if said.refusals is decision.refusals:
                return said
        said = _Said(decision.refusals)
        self._said.append(said)
        return said
