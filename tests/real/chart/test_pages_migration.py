"""The page about HAMi as a reader follows it: to gpuloom and back, while pods run on.

What is shown is that the steps of the page hand a cluster over, not how HAMi behaves.
"""

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages.ledger import MIGRATED
from pages.reader import Reader
from pages.reading import list_blocks
from real.chart.standin import write_stand_in
from real.chart.waiting import wait_until_cards_are_offered
from real.sharedcard import TWO_SMALL_CARDS

from harness.api import Api
from harness.closedcluster import ClosedCluster
from harness.objects import PODS, make_pod

pytestmark = [
    pytest.mark.chart,
    pytest.mark.images,
    pytest.mark.control_plane,
    pytest.mark.real_node,
    pytest.mark.timeout(1800),
]

VALUES_OF_HAMI = {
    "global": {"imageRegistry": "localhost"},
    "devicePlugin": {"deviceSplitCount": 4, "simulatedCards": TWO_SMALL_CARDS},
    "metricsAuth": False,  # no value of HAMi's: so that the metrics can be read through the API server
}
SHARES = 8
SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods"
LIMITS = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}


class Cluster:
    """What the page promises of a cluster: who decides, who serves, and that pods which ran once run on untouched."""

    def __init__(self, running: ClosedCluster):
        self.running = running
        self.api: Api = running.control_plane.api
        self.plugin_socket = running.node.reach("/var/lib/kubelet/device-plugins/nvidia-gpu.sock")
        self._pods: dict[str, Any] = {}

    def serve(self, name: str, release: str) -> None:
        """Run a new pod on a share of a card, when the webhook of a release answers."""
        self.wait_until_ready(release)
        wait_until_cards_are_offered(self.running, shares=SHARES, webhook=f"{release}-webhook")
        self.api.create(PODS, make_pod(name, limits=LIMITS))
        self._pods[name] = self.api.wait_for(f"{PODS}/{name}", lambda pod: pod["status"]["phase"] == "Running")

    def check_untouched(self) -> None:
        for name, before in self._pods.items():
            pod = self.api.get(f"{PODS}/{name}")
            assert pod["metadata"]["annotations"] == before["metadata"]["annotations"], name
            assert pod["status"]["containerStatuses"] == before["status"]["containerStatuses"], name

    def in_charge(self, release: str) -> list[int]:
        """Return what the schedulers of a release say of themselves."""
        pods = self.api.get(f"{SYSTEM_PODS}?labelSelector=app.kubernetes.io/component=hami-scheduler")["items"]
        ours = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith(f"{release}-")]
        told = (self.api.get(f"{SYSTEM_PODS}/http:{name}:9395/proxy/metrics") for name in ours)
        return sorted(int(float(re.findall(r"^gpuloom_in_charge (\S+)$", text, re.MULTILINE)[0])) for text in told)

    def wait_until_ready(self, release: str) -> None:
        self.api.wait_for(
            f"/apis/apps/v1/namespaces/kube-system/deployments/{release}-scheduler",
            lambda found: found["status"].get("readyReplicas") == found["spec"]["replicas"],
        )

    def wait_until_in_charge(self, release: str) -> None:
        self.wait_until_ready(release)
        self.api.wait_for(SYSTEM_PODS, lambda _: 1 in self.in_charge(release))

    def wait_for_plugin(self, release: str) -> None:
        """Wait until the node has this release's device plugin and no other."""
        path = f"{SYSTEM_PODS}?labelSelector=app.kubernetes.io/component=hami-device-plugin"

        def runs_alone(pods: Any) -> bool:
            found = [(pod["metadata"]["name"].rpartition("-")[0], pod["status"]["phase"]) for pod in pods["items"]]
            return found == [(f"{release}-device-plugin", "Running")]

        self.api.wait_for(path, runs_alone)


def hand_node_over(reader: Reader, cluster: Cluster, release: str, begin: list[str], end: list[str]) -> None:
    """Close the node, change its label, and open it when the plugin's log says what the page waits for."""
    reader.follow(begin)
    cluster.wait_for_plugin(release)
    read_log, uncordon = end
    deadline_s = time.monotonic() + 120
    while not (cluster.plugin_socket.exists() and is_registered(reader.type(read_log))):
        assert time.monotonic() < deadline_s, "the new device plugin is not registered"
        time.sleep(0.1)
    reader.type(uncordon)


def is_registered(log: str) -> bool:
    """Say whether a plugin is, after its socket went away with the plugin before it: then it starts again."""
    return log.rfind("device plugin is registered") > log.rfind("starting again")


def test_the_page_hands_a_cluster_over_and_back(reader: Reader, new_cluster: ClosedCluster, tmp_path: Path) -> None:
    get_values, install, hand_over, plugin, close, reopen, finish = list_blocks("docs/migration.md#To gpuloom")
    go_back, close_again, reopen_again, leave = list_blocks("docs/migration.md#Back to HAMi")
    write_stand_in(tmp_path / "checkout" / "hami")
    for name in ("hami.yaml", "values.yaml"):
        (tmp_path / "checkout" / name).write_text(yaml.safe_dump(VALUES_OF_HAMI))
    cluster = Cluster(new_cluster)
    cluster.api.merge(f"/api/v1/nodes/{new_cluster.node.name}", {"metadata": {"labels": {"gpu": "on"}}})
    reader.type(go_back[1])
    cluster.serve("of-hami", "hami")

    reader.follow([*get_values, *install])
    assert cluster.in_charge("gpuloom") == [0, 0]
    cluster.serve("still-of-hami", "hami")
    reader.follow(hand_over)
    cluster.wait_until_in_charge("gpuloom")
    cluster.serve("of-gpuloom", "gpuloom")
    reader.follow(plugin)
    hand_node_over(reader, cluster, "gpuloom", close, reopen)
    cluster.serve("with-plugin", "gpuloom")
    reader.follow(finish)
    cluster.serve("alone", "gpuloom")
    cluster.check_untouched()

    reader.follow(go_back)
    hand_node_over(reader, cluster, "hami", close_again, reopen_again)
    assert 1 in cluster.in_charge("gpuloom")
    cluster.serve("last-of-gpuloom", "gpuloom")
    reader.follow(leave)
    cluster.wait_until_in_charge("hami")
    cluster.serve("back", "hami")
    cluster.check_untouched()
    assert reader.typed == MIGRATED.promised()
