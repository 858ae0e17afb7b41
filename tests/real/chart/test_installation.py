"""The chart in a real cluster: gpuloom's own images as pods do what a user was promised, with the rights they have."""

import json
import subprocess
import tarfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from real.chart.bait import VIEWER, check_bait, check_port_forward
from real.chart.objects import with_values
from real.chart.waiting import WEBHOOK, wait_until_cards_are_offered
from real.sharedcard import TWO_SMALL_CARDS, check_shared_cards

from harness.api import Api, ApiCallError
from harness.audit import Request, Right, count_writes, list_granted, read_requests
from harness.closedcluster import ClosedCluster
from harness.gpuloom import GPULOOM
from harness.helm import NAMESPACE, Helm, copies_labels
from harness.objects import PODS, make_pod

pytestmark = [
    pytest.mark.chart,
    pytest.mark.images,
    pytest.mark.control_plane,
    pytest.mark.real_node,
    pytest.mark.timeout(1800),
]

NEVER = {"image": {"pullPolicy": "Never"}}
VALUES: dict[str, Any] = {
    "global": {"imageRegistry": "localhost"},
    "scheduler": {"kubeScheduler": NEVER, "extender": NEVER, "dashboard": {"viewers": [VIEWER]}},
    "devicePlugin": {**NEVER, "simulatedCards": TWO_SMALL_CARDS, "library": NEVER, "monitor": NEVER},
}
"""As the quick start says it: nobody says where kube-scheduler comes from."""

CHANGED = with_values({"devicePlugin": {"deviceSplitCount": 4}, "scheduler": {"podAnnotations": {"a": "b"}}}, VALUES)
OVERVIEW = f"/api/v1/namespaces/{NAMESPACE}/services/https:gpuloom-scheduler-web:web/proxy/api/v1/overview"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = {
    "gpuloom-scheduler": [
        f"{RBAC}/clusterroles/gpuloom-scheduler",
        f"{RBAC}/clusterroles/gpuloom-scheduler-rivals",
        f"{RBAC}/namespaces/{NAMESPACE}/roles/gpuloom-scheduler",
    ],
    "gpuloom-kube-scheduler": [f"{RBAC}/namespaces/{NAMESPACE}/roles/gpuloom-kube-scheduler"],
    "gpuloom-device-plugin": [f"{RBAC}/clusterroles/gpuloom-device-plugin"],
    "gpuloom-monitor": [f"{RBAC}/clusterroles/gpuloom-monitor"],
}
LABEL = "hami.io/vgpu-node"
COUNTED = 6
RARE: dict[str, dict[Right, str]] = {
    "gpuloom-kube-scheduler": {},
    "gpuloom-scheduler": {
        ("", "pods", "get"): "the outcome of a write is unknown, or a lock's owner is suspected",
        ("", "nodes", "get"): "a lock changed while it was written",
        ("", "pods/status", "patch"): "a node that was not offered takes a refused pod",
        ("", "events", "patch"): "a pod is still refused for the same reason ten seconds later",
        ("policy", "poddisruptionbudgets", "list"): "somebody asks whom preemption would evict",
    },
    "gpuloom-device-plugin": {
        ("", "pods", "get"): "a lock names a pod, a write met another one, or a card is divided (MIG)",
        ("", "events", "create"): "a pod got another one's share",
        ("", "events", "patch"): "that happened again",
    },
    "gpuloom-monitor": {
        ("authentication.k8s.io", "tokenreviews", "create"): "somebody reads its metrics",
        ("authorization.k8s.io", "subjectaccessreviews", "create"): "somebody reads its metrics",
        ("", "events", "create"): "the audit found something",
        ("", "events", "patch"): "it found that again",
    },
}
"""Rights that a short and lucky run does not use, and when they are used."""


def is_there(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiCallError as error:
        if error.status != 404:
            raise
        return False
    return True


def list_release_paths(helm: Helm, api: Api) -> list[str]:
    """Return the paths of all objects that the chart makes."""
    paths = []
    for one in helm.template(with_values(VALUES)):
        group = one["apiVersion"]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        resources = {found["kind"]: found["name"] for found in api.get(root)["resources"] if "/" not in found["name"]}
        place = f"/namespaces/{one['metadata']['namespace']}" if "namespace" in one["metadata"] else ""
        paths.append(f"{root}{place}/{resources[one['kind']]}/{one['metadata']['name']}")
    return paths


def check_doctor(cluster: ClosedCluster) -> None:
    """Let the doctor look: nothing is wrong, and it could look at everything that an installation needs."""
    command: list[str | Path] = [
        GPULOOM,
        "doctor",
        "--cluster",
        "--json",
        f"--kubeconfig={cluster.control_plane.kubeconfig}",
    ]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    items = json.loads(told.stdout)["items"]
    assert [item for item in items if item["severity"] != "ok"] == []
    assert told.returncode == 0


def check_use(cluster: ClosedCluster) -> None:
    """What the monitors say of the use of cards is shown beside what is given away."""
    told = subprocess.run(
        [GPULOOM, "top", "cards", "-o", "json", f"--kubeconfig={cluster.control_plane.kubeconfig}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.stderr == ""
    assert [card["use"]["memoryMib"] for card in json.loads(told.stdout)["items"]] == [0, 0]


def check_policies(cluster: ClosedCluster) -> None:
    """Nobody but gpuloom writes on a pod which cards it has, or sends pods past it, not even an administrator."""
    api = cluster.control_plane.api
    forged = {"metadata": {"annotations": {"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1,1:;"}}}
    with pytest.raises(ApiCallError, match="only the scheduler and device plugins may set"):
        api.merge(f"{PODS}/big", forged)
    foreign = make_pod("foreign", node=cluster.node.name, limits={"nvidia.com/gpu": "1"})
    foreign["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    with pytest.raises(ApiCallError, match=r"asks for nvidia.com/gpu, but spec.nodeName is"):
        api.create(PODS, foreign)


STUBBORN = "trap '' TERM; while true; do echo stubborn; sleep 0.2; done"
"""What no request to end ends."""
GRACE_S = 4


def check_deletions(cluster: ClosedCluster) -> None:
    """By force a pod is gone while its program runs on, so who may not delete nodes may not; else it ends first."""
    api = cluster.control_plane.api
    api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "tenant"}})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "tenant"}
    bound = {"metadata": {"name": "tenant"}, "roleRef": reference, "subjects": [subject]}
    api.create(f"{RBAC}/namespaces/default/rolebindings", bound)
    tenant = cluster.control_plane.connect(cluster.control_plane.issue_token("default", "tenant"))
    start_stubborn(cluster)
    with pytest.raises(ApiCallError, match="may still run on node"):
        tenant.delete(f"{PODS}/stubborn", grace_s=0)
    tenant.delete(f"{PODS}/stubborn", grace_s=None)
    api.wait_for(PODS, lambda found: "stubborn" not in {pod["metadata"]["name"] for pod in found["items"]})
    assert not runs_stubborn(cluster)
    start_stubborn(cluster)
    api.delete(f"{PODS}/stubborn", grace_s=0)
    assert not is_there(api, f"{PODS}/stubborn")
    assert runs_stubborn(cluster)
    deadline_s = time.monotonic() + 60
    while runs_stubborn(cluster):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def start_stubborn(cluster: ClosedCluster) -> None:
    pod = make_pod("stubborn", ["sh", "-c", STUBBORN], limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"})
    pod["spec"]["terminationGracePeriodSeconds"] = GRACE_S
    cluster.control_plane.api.create(PODS, pod)
    cluster.control_plane.api.wait_for(f"{PODS}/stubborn", lambda pod: pod["status"]["phase"] == "Running")


def runs_stubborn(cluster: ClosedCluster) -> bool:
    return bool(cluster.node.run(["sh", "-c", "pgrep -f '[e]cho stubborn' || true"]))


def check_upgrade(cluster: ClosedCluster, helm: Helm) -> None:
    """Change the values: a running pod is left alone, and a new one is served."""
    api = cluster.control_plane.api
    before = api.get(f"{PODS}/big")
    bundle = api.get(WEBHOOK)["webhooks"][0]["clientConfig"]["caBundle"]
    helm.upgrade(CHANGED)
    wait_until_cards_are_offered(cluster, shares=8)
    after = api.get(f"{PODS}/big")
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert api.get(WEBHOOK)["webhooks"][0]["clientConfig"]["caBundle"] == bundle
    api.create(PODS, make_pod("after", limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}))
    api.wait_for(f"{PODS}/after", lambda pod: pod["status"]["phase"] == "Running")


def list_requests(cluster: ClosedCluster, account: str) -> list[Request]:
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    return [one for one in read_requests(cluster.control_plane.audit_log) if one.user == user]


def check_rights(cluster: ClosedCluster) -> None:
    """Compare what the accounts were given with what they ask for; the monitor's audit comes every 30 seconds."""
    deadline_s = time.monotonic() + 60
    for account, paths in ROLES.items():
        granted = list_granted(cluster.control_plane.api, paths)
        expected = granted - set(RARE[account])
        while unused := expected - {one.right for one in list_requests(cluster, account)}:
            assert time.monotonic() < deadline_s, f"{account} may do what it never does: {unused}"
            time.sleep(1)
        requests = list_requests(cluster, account)
        assert [one for one in requests if one.status == 403] == [], account
        programs = {"kube-scheduler" if "kube-scheduler" in one.program else "gpuloom" for one in requests}
        assert programs == {"kube-scheduler" if account == "gpuloom-kube-scheduler" else "gpuloom"}, account
        asked = {one.right for one in requests if one.program.startswith("gpuloom/")}
        assert asked <= granted, f"{account} lives on rights that are not gpuloom's"


def check_writes(cluster: ClosedCluster) -> None:
    """Count what a pod costs: the Binding and the plugin's patch; before 1.35 its label too (binding 9).

    Nobody writes its node for it: what is written there comes from time to time, however many pods there are.
    """
    api = cluster.control_plane.api
    names = [f"counted-{number}" for number in range(COUNTED)]
    before = list_writes(cluster)
    for name in names:
        api.create(PODS, make_pod(name, limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10"}))
        api.wait_for(f"{PODS}/{name}", lambda pod: pod["status"]["phase"] == "Running")
        api.wait_for(f"{PODS}/{name}", lambda pod: LABEL in pod["metadata"].get("labels", {}))
    written = list_writes(cluster) - before
    label = 0 if copies_labels() else 1
    assert {name: {right: n for (right, on), n in written.items() if on == name} for name in names} == {
        name: {("", "pods/binding", "create"): 1, ("", "pods", "patch"): 1 + label} for name in names
    }
    assert sum(count for ((_, kind, _), _), count in written.items() if kind == "nodes") < COUNTED


def list_writes(cluster: ClosedCluster) -> Counter[tuple[Right, str]]:
    """Count the writes of gpuloom's accounts on pods and nodes by what they wrote on."""
    accounts = ("gpuloom-scheduler", "gpuloom-device-plugin")
    return count_writes(one for account in accounts for one in list_requests(cluster, account))


def check_uninstall(cluster: ClosedCluster, helm: Helm) -> None:
    """Take the release away: its objects go, pods with cards stay, and new pods are nobody's business."""
    api = cluster.control_plane.api
    paths = list_release_paths(helm, api)
    assert [path for path in paths if not is_there(api, path)] == []
    helm.uninstall()
    assert [path for path in paths if is_there(api, path)] == []
    assert api.get(f"{PODS}/after")["status"]["phase"] == "Running"
    api.create(PODS, make_pod("plain", ["true"], node=cluster.node.name))
    api.wait_for(f"{PODS}/plain", lambda pod: pod["status"]["phase"] in {"Succeeded", "Failed"})


def test_chart_is_installed_serves_is_upgraded_and_goes(
    helm: Helm, closed_cluster: ClosedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    control_plane = closed_cluster.control_plane
    installer = Helm(tmp_path, kubeconfig=control_plane.kubeconfig)
    notes = installer.install(VALUES)
    assert "Cards are SIMULATED" in notes
    wait_until_cards_are_offered(closed_cluster, shares=20)
    check_doctor(closed_cluster)
    waited_s = check_shared_cards(closed_cluster)
    overview = control_plane.api.get(OVERVIEW, headers={"X-Gpuloom-Token": control_plane.admin_token})
    assert overview["cards"] == 2, overview
    check_use(closed_cluster)
    check_bait(closed_cluster, tmp_path)
    check_port_forward(closed_cluster, tmp_path)
    check_policies(closed_cluster)
    check_deletions(closed_cluster)
    check_upgrade(closed_cluster, installer)
    check_writes(closed_cluster)
    check_rights(closed_cluster)
    check_uninstall(closed_cluster, installer)
    with capsys.disabled():
        print(f"\nfrom room on a card to Running, gpuloom in pods: {waited_s:.2f} s")


def read_config(archive: Path) -> Any:
    """Return the configuration of an image in an archive."""
    with tarfile.open(archive) as image:
        manifest = json.loads(read_member(image, "manifest.json"))
        return json.loads(read_member(image, manifest[0]["Config"]))["config"]


def read_member(image: tarfile.TarFile, name: str) -> bytes:
    member = image.extractfile(name)
    assert member is not None
    return member.read()


def test_images_start_gpuloom_and_the_schedulers_is_nobodys_root(
    image_archives: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for target, archive in image_archives.items():
        assert read_config(archive)["Entrypoint"] == ["gpuloom"]
        with capsys.disabled(), suppress(OSError):
            print(f"\nimage {target}: {archive.stat().st_size / 2**20:.0f} MiB on a base of Debian's packages")
    assert read_config(image_archives["scheduler"])["User"] == "65532:65532"
