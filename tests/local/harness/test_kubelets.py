"""The kubelets that the soak plays do not do what no kubelet does."""

from pathlib import Path
from typing import Any

from gpuloom.kube import PODS, KubeClient, load_kubeconfig
from gpuloom.kube.resources import Resource, T
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.wire.objects import Pod
from harness.fleet import make_share_pod
from harness.kubelets import Kubelets


class ClientOfAPodThatEnds(KubeClient):
    """After the first look at a pod, the pod ends."""

    is_ended = False

    async def get(self, resource: Resource[T], name: str, **options: Any) -> T:
        found = await super().get(resource, name, **options)
        if not self.is_ended:
            self.is_ended = True
            status = {"status": {"phase": "Succeeded"}}
            await self.patch(PODS, name, status, namespace="default", subresource="status")
        return found


async def report(client: KubeClient, pod: Pod, tmp_path: Path) -> bool:
    kubelets = Kubelets(client, tmp_path, 1, allocate_s=0.0, tell=lambda **_answer: None)
    return await kubelets._report(pod, {"phase": "Running"})


async def test_a_pod_that_ends_while_its_kubelet_reports_stays_over(tmp_path: Path) -> None:
    async with LocalApiServer() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        async with ClientOfAPodThatEnds(load_kubeconfig(str(tmp_path / "kubeconfig"))) as client:
            pod = await client.create(PODS, make_share_pod("p", 1000), namespace="default")
            assert not await report(client, pod, tmp_path)
            assert (await client.get(PODS, "p", namespace="default")).status.phase == "Succeeded"
