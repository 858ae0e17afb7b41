"""A whole real cluster in a network of its own: pods reach the API server, and it reaches webhooks in pods.

Nothing of gpuloom runs beside it: whatever is installed runs in pods.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from harness.controlplane import ControlPlane
from harness.namespaces import Namespaces
from harness.node import RealNode
from harness.podnetwork import PodNetwork

DEFAULT_SCHEDULER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class ClosedCluster:
    """A control plane with controllers and the default scheduler, and one node, as a context manager.

    Attributes: `network`, `control_plane`, `node`.
    """

    def __init__(self, directory: Path, *, node_name: str = "node-1"):
        """Prepare a cluster that keeps its files below `directory`."""
        self._directory = directory
        self._node_name = node_name
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        place = self._directory / "node"
        place.mkdir(parents=True)
        with ExitStack() as stack:
            self.network = PodNetwork(stack.enter_context(Namespaces(place)))
            self.control_plane = ControlPlane(self._directory / "control-plane", network=self.network)
            stack.enter_context(self.control_plane)
            self.control_plane.start_controller_manager()
            self.control_plane.start_scheduler(DEFAULT_SCHEDULER)
            self.node = RealNode(self.control_plane, place, name=self._node_name, network=self.network)
            stack.enter_context(self.node)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
