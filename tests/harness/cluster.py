"""A whole real cluster of one node, and gpuloom's place in it."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from harness.controlplane import ControlPlane
from harness.installation import scheduler_configuration, webhook_configuration
from harness.node import RealNode

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Cluster:
    """A control plane with controllers, and a real node, as a context manager.

    Attributes: `control_plane`, `node`. No pod is scheduled before `start_scheduler`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node_name: str = "node-1",
        feature_gates: Mapping[str, bool] | None = None,
        audited: bool = False,
    ):
        """Prepare a cluster that keeps its files below `directory`; `feature_gates` are its kubelet's.

        When `audited`, the control plane's log says what was asked of its API server.
        """
        self.control_plane = ControlPlane(directory / "control-plane", audited=audited)
        self.node = RealNode(self.control_plane, directory / "node", name=node_name, feature_gates=feature_gates)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.control_plane)
            self.control_plane.start_controller_manager()
            stack.enter_context(self.node)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_scheduler(self, extender_url: str) -> None:
        """Start kube-scheduler with gpuloom's scheduler at `extender_url` as extender; return when it is healthy."""
        self.control_plane.start_scheduler(scheduler_configuration(extender_url))

    def install_webhook(self, url: str, *, ca_pem: bytes) -> None:
        """Send every new pod to gpuloom's webhook at the https `url` on loopback, whose certificate `ca_pem` signed."""
        self.control_plane.api.create(WEBHOOKS, webhook_configuration(url, ca_pem=ca_pem))
