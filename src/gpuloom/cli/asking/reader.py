"""What can be asked, whoever answers."""

from typing import Protocol

from gpuloom.engine.explanation.depth import Depth
from gpuloom.engine.explanation.values import Explanation
from gpuloom.web.views.values import (
    CardView,
    Fits,
    NodeDetail,
    NodeView,
    Overview,
    PendingView,
    PodView,
    PreemptionView,
    QuotaView,
    WorkloadView,
)


class Reader(Protocol):
    """Answers about one cluster; an empty namespace is all of them.

    Everything raises AskingError in one line.
    """

    @property
    def namespace(self) -> str:
        """The namespace that counts where none is named."""

    async def overview(self) -> Overview:
        """Sum up the cluster."""

    async def nodes(self) -> list[NodeView]:
        """List nodes."""

    async def node(self, name: str) -> NodeDetail:
        """Tell of one node and who is on its cards."""

    async def cards(self) -> list[CardView]:
        """List cards."""

    async def card(self, uuid: str) -> CardView:
        """Tell of one card and who is on it."""

    async def pods(self, namespace: str) -> list[PodView]:
        """List pods that have cards."""

    async def pending(self, namespace: str) -> list[PendingView]:
        """List pods that wait for cards."""

    async def quotas(self, namespace: str) -> list[QuotaView]:
        """List what namespaces hold and may hold."""

    async def workload(self) -> list[WorkloadView]:
        """List the pods that are to be expected."""

    async def explain(self, namespace: str, name: str, depth: Depth) -> Explanation:
        """Explain a pod."""

    async def preempt(self, namespace: str, name: str) -> PreemptionView:
        """Say whom preemption would evict for a pod."""

    async def fits(self, manifest: bytes, namespace: str, depth: Depth) -> Fits:
        """Say whether a pod would fit."""
