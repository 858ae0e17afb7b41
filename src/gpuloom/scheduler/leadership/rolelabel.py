"""The role label on the scheduler's own pods, by which HAMi's Service finds the leader (scheduler 8.4)."""

from dataclasses import dataclass

import structlog

from gpuloom.kube import PODS, ApiError, KubeClient
from gpuloom.kube.annotations import patch_pod
from gpuloom.scheduler.leadership.charge import Charge
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.objects import Pod

ROLE_LABEL = "hami.io/scheduler-role"
SIBLINGS = "app.kubernetes.io/component=hami-scheduler"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RoleLabels:
    """Labels this pod as leader and its siblings as followers, where they are not yet."""

    client: KubeClient
    settings: SchedulerSettings
    charge: Charge

    def warn_if_disabled(self) -> None:
        """Say why nothing will be labelled when only half of this process's own pod is known."""
        settings = self.settings
        if bool(settings.pod_name) != bool(settings.pod_namespace):
            unknown = "POD_NAMESPACE" if settings.pod_name else "POD_NAME"
            _log.warning("the role labels of scheduler pods are not written", cause=f"{unknown} is not set")

    async def label(self) -> None:
        """Look once; only a process that is in charge and knows its own pod writes."""
        settings = self.settings
        # Without a namespace the API server would list the scheduler pods of the whole cluster.
        if not (settings.pod_name and settings.pod_namespace and self.charge.is_ours):
            return
        try:
            pods, _ = await self.client.list_all(PODS, namespace=settings.pod_namespace, label_selector=SIBLINGS)
        except ApiError as error:
            _log.warning("scheduler pods not listed, their role labels stay", cause=str(error))
            return
        for pod in pods:
            role = "leader" if pod.name == settings.pod_name else "follower"
            if pod.labels.get(ROLE_LABEL) != role:
                await self._patch(pod, role)

    async def _patch(self, pod: Pod, role: str) -> None:
        if not self.charge.is_ours:
            return
        body = {"metadata": {"labels": {ROLE_LABEL: role}}}
        try:
            await patch_pod(self.client, pod, body)
        except ApiError as error:
            _log.warning("role label not written, tried again on the next pass", pod=pod.full_name, cause=str(error))
