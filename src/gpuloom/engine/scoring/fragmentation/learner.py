"""Learns from the pods of a cluster which pods are to be expected: each counts once, and less as time goes by."""

from collections import OrderedDict

from gpuloom.engine.scoring.fragmentation.pod_mix import ExpectedShape, PodMix

LEAST_PODS = 200
"""Fewer say too little about the pods to come."""
MOST_REMEMBERED = 100_000
"""So many pods are known not to be counted again; the oldest are forgotten first."""
MOST_LEARNED = 4096
"""So many shapes are counted; beyond them the rarest are forgotten."""
_UNITS = 64
"""A pod that is new counts for so many in a mix of whole numbers."""
_RESCALE = 2.0**40


class PodLearner:
    """Counts shapes of pods. A pod counts half once the window has passed, a quarter after two of them.

    window_s  seconds
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._since = 0.0
        self._weights: dict[ExpectedShape, float] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()

    def has_seen(self, uid: str) -> bool:
        """Whether a pod was counted."""
        return uid in self._seen

    def see(self, uid: str, shape: ExpectedShape, now: float) -> None:
        """Count a pod unless it was counted before; ``now`` is in seconds and never goes back."""
        if uid in self._seen:
            return
        self._seen[uid] = None
        if len(self._seen) > MOST_REMEMBERED:
            self._seen.popitem(last=False)
        self._weights[shape] = self._weights.get(shape, 0.0) + self._weigh(now)
        if len(self._weights) > 2 * MOST_LEARNED:
            kept = sorted(self._weights, key=self._weights.__getitem__)[-MOST_LEARNED:]
            self._weights = {one: self._weights[one] for one in kept}

    def mix(self, now: float) -> PodMix | None:
        """Return the pods that are to be expected, None while too few were seen."""
        scale = self._weigh(now)
        if sum(self._weights.values()) < LEAST_PODS * scale:
            return None
        return PodMix({shape: round(_UNITS * weight / scale) for shape, weight in self._weights.items()})

    def _weigh(self, now: float) -> float:
        """Return what a pod of now counts: more than all before it, which saves to count those down."""
        weight = 2.0 ** min((now - self._since) / self._window_s, 1000.0)
        if weight < _RESCALE:
            return float(weight)
        self._weights = {shape: known / weight for shape, known in self._weights.items() if known / weight > 1e-6}
        self._since = now
        return 1.0
