"""The pages as a reader follows them: from a cluster without gpuloom to shared cards, and back."""

import json
import re

import pytest
from pages.ledger import INSTALLED
from pages.reader import Reader
from pages.reading import ROOT, list_blocks
from real.chart.browser import read_pages
from real.chart.waiting import wait_until_cards_are_offered
from real.sharedcard import card_of, deploy, running

from harness.closedcluster import ClosedCluster
from harness.controlplane import accepts, find_free_ports
from harness.helm import kube_version
from harness.inventory import list_objects
from harness.objects import PODS, make_pod

pytestmark = [
    pytest.mark.chart,
    pytest.mark.images,
    pytest.mark.control_plane,
    pytest.mark.real_node,
    pytest.mark.timeout(1800),
]

SIMULATED = "--set devicePlugin.simulatedCards=four-l4"
DRY_RUN = "--dry-run=server"
SHARED_PODS = f"{PODS}?labelSelector=app=shared"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu-system/leases/hami-scheduler"


def install(reader: Reader, cluster: ClosedCluster) -> None:
    """Follow the installation, as the quick start and the page of its own say it."""
    quick, _ = list_blocks("docs/quickstart.md#On a real cluster")
    assert [quick] == list_blocks("docs/installation.md#Install")
    assert "kind: Deployment" in reader.type(quick[1], added=[DRY_RUN])
    assert running(cluster.control_plane.api.get("/api/v1/namespaces/gpu-system/pods")) == []
    told = reader.follow(quick, added={"helm install": [SIMULATED]})
    assert "Cards are SIMULATED" in told
    assert [command for command in quick if command.startswith("kubectl -n gpu-system rollout") and command in told]
    assert 'deployment "gpuloom-scheduler" successfully rolled out' in told
    wait_until_cards_are_offered(cluster, shares=40)


def find_kube_scheduler(reader: Reader) -> None:
    """Ask where Kubernetes' own kube-scheduler is: where the page says."""
    images = reader.type("kubeadm config images list --kubernetes-version vX.Y.Z").splitlines()
    assert f"registry.k8s.io/kube-scheduler:{kube_version()}" in images


def run_first_pod(reader: Reader, cluster: ClosedCluster) -> str:
    """Follow the quick start to the first pod; return its card."""
    reader.type("kubectl apply -f docs/examples/notebook.yaml")
    api = cluster.control_plane.api
    card = card_of(api.wait_for(f"{PODS}/notebook", lambda pod: pod["status"]["phase"] == "Running"))
    assert f" {card}: 8,000 MiB, 30 % of the cores" in reader.type("gpuloom explain notebook")
    reader.places["UUID"] = card
    (shown,) = (line for line in reader.type("gpuloom cards").splitlines() if card in line)
    reader.places["INDEX"] = shown.split()[1]
    return card


def ask(reader: Reader, cluster: ClosedCluster) -> None:
    """Type every question that the pages name, while one pod runs and one waits."""
    cluster.control_plane.api.create(PODS, make_pod("giant", limits={"nvidia.com/gpumem": "60000"}))
    cluster.control_plane.api.wait_for(
        "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=giant,reason=FilteringFailed",
        lambda events: events["items"],
    )
    expected = {
        "gpuloom top": "4 cards on 1 of 1 node: 3 idle",
        "gpuloom top nodes": "8,000/92,136",
        "gpuloom top cards": "8,000/23,034",
        "gpuloom nodes": "8,000/92,136",
        "gpuloom nodes NODE": "default/notebook (main): 8,000 MiB",
        "gpuloom cards NODE/INDEX": "default/notebook (main): 8,000 MiB",
        "gpuloom cards": "8,000/23,034",
        "gpuloom cards --state unhealthy": "",
        "gpuloom pods": "notebook",
        "gpuloom pending": "CardInsufficientMemory",
        "gpuloom quota": "nvidia.com/gpumem",
        "gpuloom explain POD": "pod default/notebook is bound to node-1",
        "gpuloom explain POD --all-nodes": "pod default/notebook is bound to node-1",
        "kubectl gpuloom explain POD": "pod default/notebook is bound to node-1",
        "gpuloom fits -f pod.yaml": "room for",
        "kubectl get events": "FilteringFailed",
        "kubectl describe pod POD": "BindingSucceed",
        "kubectl describe node": "nvidia.com/gpu",
        "kubectl describe node NODE": "hami.io/node-nvidia-register",
        "kubectl describe quota": "",
        "kubectl get pod POD -o yaml": "hami.io/bind-phase: success",
        "kubectl get node NODE -o yaml": "hami.io/node-nvidia-register",
        "kubectl exec POD -- env": "CUDA_DEVICE_MEMORY_LIMIT_0=8000m\n",
        "kubectl -n NAMESPACE logs daemonset/gpuloom-device-plugin": "device plugin is registered",
    }
    answers = {command: reader.type(command) for command in expected}
    assert {command: answer for command, answer in answers.items() if expected[command] not in answer} == {}


def examine(reader: Reader) -> None:
    """Let the doctor look: at the cluster nothing is wrong; the node has a placeholder where HAMi-core's library is."""
    here, cluster, both = list_blocks("docs/doctor.md#gpuloom doctor")[0]
    assert "0 error, 0 warning" in reader.type(here)
    assert "0 error, 0 warning" in reader.type(cluster)
    checked = json.loads(reader.type(both, status=1))["items"]
    assert {"driver", "webhook-answers"} <= {item["check"] for item in checked}
    ((on_node,),) = list_blocks("docs/doctor.md#On a node")
    assert "libvgpu.so.v2.10.0: is no shared library" in reader.type(on_node, status=1)


def look_at_dashboard(reader: Reader, cluster: ClosedCluster) -> None:
    """Forward the port, make the account that the page describes, and sign in with its token."""
    ((forward,),) = list_blocks("docs/dashboard.md#Switching it on")
    assert [forward] == list_blocks("docs/quickstart.md#On a real cluster")[1]
    *account, make_token = list_blocks("docs/dashboard.md#Signing in")[0]
    reader.follow(account)
    token = reader.type(make_token).strip()
    forwarding = reader.start(forward)
    forwarding.wait_until(lambda: "Forwarding from 127.0.0.1:9396" in forwarding.log.read_text())
    (port,) = find_free_ports(1)
    with cluster.network.open_relay(port, 9396, log=forwarding.log) as relay:
        relay.wait_until(lambda: accepts(port))
        nodes, pending = read_pages(port, token, ("/nodes", "/pending"))
    assert cluster.node.name in nodes
    assert "giant" in pending


def take_card_out(reader: Reader, cluster: ClosedCluster, notebook_card: str) -> None:
    """Close a card and move its pods: what makes them makes them anew, elsewhere."""
    api = cluster.control_plane.api
    deploy(api, replicas=2)
    before = api.wait_for(SHARED_PODS, lambda found: len(running(found)) == 2)
    card = next(card_of(pod) for pod in running(before) if card_of(pod) != notebook_card)
    reader.places["UUID"] = card
    assert reader.type("gpuloom cordon UUID") == f"card {card} of node {cluster.node.name} cordoned\n"
    assert "drained" in reader.type("gpuloom drain-card UUID", answer="y")
    after = api.wait_for(SHARED_PODS, lambda found: len(running(found)) == 2)
    assert card not in {card_of(pod) for pod in running(after)}
    (row,) = (line for line in reader.type("gpuloom cards").splitlines() if card in line)
    assert row.endswith("cordoned")


def record(reader: Reader) -> None:
    """Take the cluster along in a file, and ask that."""
    reader.type("gpuloom snapshot > FILE")
    assert '"RECONCILED"' in reader.type("gpuloom replay FILE")
    assert reader.type("gpuloom replay --check FILE").endswith("0 differ\n")
    reader.type("gpuloom replay --explain FILE")
    assert "pod default/notebook is bound to node-1" in reader.type("gpuloom explain POD --from FILE")


def roll_out(reader: Reader, cluster: ClosedCluster) -> None:
    """Wait for the new scheduler, and for the end of the one before: until then that may be asked about pods, too."""
    reader.type("kubectl -n gpu-system rollout status deployment/gpuloom-scheduler")
    cluster.control_plane.api.wait_for(
        "/api/v1/namespaces/gpu-system/pods",
        lambda found: not any("deletionTimestamp" in pod["metadata"] for pod in found["items"]),
    )


def serve_own_vendor(reader: Reader, cluster: ClosedCluster) -> None:
    """Give the scheduler the example of an own vendor: a pod that asks for it is bound."""
    ((upgrade,),) = list_blocks("docs/installation.md#Other vendors")
    reader.type(upgrade)
    roll_out(reader, cluster)
    api = cluster.control_plane.api
    (cards,) = re.findall(r"^\[\{.*\}\]$", (ROOT / "docs/own-vendor.md").read_text(), re.MULTILINE)
    api.merge(f"/api/v1/nodes/{cluster.node.name}", {"metadata": {"annotations": {"acme.example/register": cards}}})
    api.create(PODS, make_pod("acme", limits={"acme.example/card": "1", "acme.example/memory": "4"}))
    bound = api.wait_for(f"{PODS}/acme", lambda pod: pod["spec"].get("nodeName"))
    assert bound["metadata"]["annotations"]["acme.example/allocated"] == "ACME-1,Acme,4096,25:;"
    # Nobody on the node takes this vendor's share.
    reader.type("kubectl annotate node NODE hami.io/mutex.lock-")


def upgrade(reader: Reader, cluster: ClosedCluster) -> None:
    (command,), (rollback,) = list_blocks("docs/installation.md#Upgrade")
    before = cluster.control_plane.api.get(f"{PODS}/notebook")
    for one in (command, rollback):
        reader.type(one)
        roll_out(reader, cluster)
    after = cluster.control_plane.api.get(f"{PODS}/notebook")
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]


def uninstall(reader: Reader, cluster: ClosedCluster) -> None:
    """Take gpuloom away: pods run on, what was written stays, until all is cleaned."""
    (remove,), clean = list_blocks("docs/installation.md#Uninstall")
    api = cluster.control_plane.api
    before = api.get(f"{PODS}/notebook")
    reader.type(remove)
    api.wait_for("/api/v1/namespaces/gpu-system/pods", lambda found: found["items"] == [])
    after = api.get(f"{PODS}/notebook")
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert api.get(LEASE)["spec"]
    node = f"/api/v1/nodes/{cluster.node.name}"
    assert "hami.io/node-nvidia-register" in api.get(node)["metadata"]["annotations"]
    reader.follow(clean)
    assert [key for key in api.get(node)["metadata"]["annotations"] if key.startswith("hami.io/")] == []


def find_left(cluster: ClosedCluster, before: set[str]) -> list[str]:
    """Return the objects that are new since then, but for the reader's own pods and account."""
    new = sorted(list_objects(cluster.control_plane.api) - before)
    return [one for one in new if not re.search(r": (default/(acme|giant|notebook|shared)\b|card-viewer)", one)]


def test_what_the_pages_say_leads_to_shared_cards_and_back(reader: Reader, new_cluster: ClosedCluster) -> None:
    before = list_objects(new_cluster.control_plane.api)
    find_kube_scheduler(reader)
    install(reader, new_cluster)
    card = run_first_pod(reader, new_cluster)
    ask(reader, new_cluster)
    examine(reader)
    look_at_dashboard(reader, new_cluster)
    take_card_out(reader, new_cluster, card)
    record(reader)
    serve_own_vendor(reader, new_cluster)
    upgrade(reader, new_cluster)
    uninstall(reader, new_cluster)
    assert find_left(new_cluster, before) == []
    assert reader.typed == INSTALLED.promised()
