"""What was decided for one pod."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpuloom.engine.ranking import Ranking
from gpuloom.model.mig import MigAllocation
from gpuloom.model.refusal import Refusal
from gpuloom.model.share import ContainerShares


@dataclass(slots=True)
class Decision:
    """What was decided for one pod.

    node        the chosen node, None when none fits
    shares      one entry per container, init containers first; empty without a node
    instances   parts of divided cards that are written separately
    candidates  how many nodes there were to choose from
    fitting     the nodes that fit, with their scores
    refusals    the nodes that do not, and why; complete only if asked for or if none fits
    rest        what is still open, None when all is known; see :meth:`complete`
    """

    node: str | None
    shares: tuple[ContainerShares, ...]
    instances: tuple[MigAllocation, ...]
    candidates: int
    fitting: Ranking
    refusals: dict[str, Refusal]
    rest: Iterator[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether ``fitting`` tells of all candidates."""
        return self.rest is None

    def complete(self) -> Iterator[None]:
        """Find out what is still open, a node between two steps; changes of the table meanwhile do not matter."""
        if self.rest is not None:
            yield from self.rest
            self.rest = None

    def abandon(self) -> None:
        """Let go of what is open: it stays unknown, and the table as it was is not held for it any more."""
        if self.rest is not None:
            self.rest = iter(())


class UnsettledError(Exception):
    """No node has taken the pod yet, and many are left to be tried, each of which takes a while.

    trying  tries them, a node between two steps; then the same question is answered at once
    """

    def __init__(self, trying: Iterator[None]) -> None:
        super().__init__("many nodes are left to be tried")
        self.trying = trying
