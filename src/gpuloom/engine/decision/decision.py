"""What was decided for one pod."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from gpuloom.engine.scoring.ranking import Ranking
from gpuloom.engine.state.ledger import NOTHING_ELSE
from gpuloom.model.mig import MigAllocation
from gpuloom.model.refusal import Refusal
from gpuloom.model.share import PodShares


class Decision(msgspec.Struct):
    """What was decided for one pod, over the cards of one vendor or of several.

    ranked      the candidates by score, or what ranks them when somebody wants to know: an answer names one node only
    node        the chosen node, None when none fits
    shares      by vendor, one entry per container, init containers first; empty without a node
    instances   parts of divided cards that are written separately
    refusals    the nodes that do not fit, and why; complete only if asked for or if none fits
    extras      what else is written on the pod
    rest        finds out what is still open, None when all is known; see :meth:`complete`. It gets the decision only
                then, so a decision that is dropped goes at once, and with it the table as it was
    """

    ranked: Ranking | Callable[[], Ranking]
    node: str | None = None
    shares: PodShares = msgspec.field(default_factory=dict)
    instances: tuple[MigAllocation, ...] = ()
    refusals: dict[str, Refusal] = msgspec.field(default_factory=dict)
    extras: Mapping[str, str] = NOTHING_ELSE
    rest: Callable[["Decision"], Iterator[None]] | None = None

    @property
    def fitting(self) -> Ranking:
        """The nodes that fit, with their scores, as they were when the decision was made."""
        if not isinstance(self.ranked, Ranking):
            self.ranked = self.ranked()
        return self.ranked

    @property
    def candidates(self) -> int:
        """How many nodes there were to choose from."""
        return self.fitting.candidates

    @property
    def is_complete(self) -> bool:
        """Whether ``fitting`` and ``refusals`` will not change any more."""
        return self.rest is None

    def complete(self) -> Iterator[None]:
        """Find out what is still open, a node between two steps; changes of the table meanwhile do not matter."""
        if self.rest is not None:
            yield from self.rest(self)
            self.rest = None

    def abandon(self) -> None:
        """Let go of what is open: it stays unknown, and the table as it was is not held for it any more."""
        if self.rest is not None:
            self.rest = _find_nothing


def _find_nothing(_decision: Decision) -> Iterator[None]:
    return iter(())


class UnsettledError(Exception):
    """No node has taken the pod yet, and many have not answered, each of which takes a while.

    steps  places the pod on them, a batch between two steps; after that the same attempt is answered at once
    """

    def __init__(self, steps: Iterator[None]) -> None:
        super().__init__("many nodes have not answered")
        self.steps = steps
