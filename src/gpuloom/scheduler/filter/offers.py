"""What Filter offered last, for the question of kube-scheduler that follows it (binding 10)."""

from dataclasses import dataclass, field

from gpuloom.engine.bounded import FifoDict
from gpuloom.engine.decision.offer import NodeOffer
from gpuloom.wire.extender import FilterArgs, HostPriority

MOST_OFFERS = 8
"""kube-scheduler asks for the scores of one pod before it filters the next."""


@dataclass(frozen=True, slots=True)
class RecentOffers:
    """The last offers by the pod's UID."""

    _offers: FifoDict[str, NodeOffer] = field(default_factory=lambda: FifoDict(MOST_OFFERS))

    def note(self, uid: str, offer: NodeOffer) -> None:
        """Remember what a pod was offered; the oldest of too many goes."""
        self._offers[uid] = offer

    def forget(self, uid: str) -> None:
        """Forget what a pod was offered: it is decided about again."""
        self._offers.pop(uid, None)

    def prioritize(self, args: FilterArgs) -> list[HostPriority]:
        """Score the nodes of a call; all alike, 0, for a pod that was offered none."""
        names = [] if args.nodenames is None else args.nodenames.all()
        offer: NodeOffer = {} if args.pod is None else self._offers.get(args.pod.metadata.uid, {})
        return [HostPriority(name, offer.get(name, 0)) for name in names]
