from collections.abc import Sequence

from gpuloom.engine.hostfit.demand import read_host_demand
from gpuloom.engine.hostfit.usage import NOBODY
from gpuloom.local.queue.pods import QueuedPod, QueuedSpec, asks_extender, explain_refusal, refuse_node
from gpuloom.wire.hostpods import HostContainer
from gpuloom.wire.objects import Node, NodeCondition, NodeSpec, NodeStatus, ObjectMeta, Resources

READY = NodeStatus(conditions=[NodeCondition(type="Ready", status="True")])


def refuse(node: Node, pod: QueuedPod) -> Sequence[str]:
    return refuse_node(node, NOBODY, read_host_demand(pod))


def test_equal_reasons_are_counted_in_kube_schedulers_sentence() -> None:
    reasons = [["node unregistered"], ["1/4 CardNotHealth"], ["node unregistered"]]
    assert explain_refusal(reasons) == "0/3 nodes are available: 1 1/4 CardNotHealth, 2 node unregistered."


def test_a_node_that_lacks_two_things_counts_for_both_and_is_one_node() -> None:
    reasons = [["Insufficient cpu", "Insufficient memory"], ["Insufficient cpu"]]
    assert explain_refusal(reasons) == "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."


def test_a_cluster_without_nodes_has_a_sentence_too() -> None:
    assert explain_refusal([]) == "0/0 nodes are available."


def test_a_ready_node_is_offered() -> None:
    assert not refuse(Node(status=READY), QueuedPod())


def test_a_cordoned_node_is_not_offered() -> None:
    assert refuse(Node(spec=NodeSpec(unschedulable=True), status=READY), QueuedPod())


def test_a_node_that_is_not_ready_is_not_offered() -> None:
    assert refuse(Node(), QueuedPod())


def test_a_node_without_the_selected_label_is_not_offered() -> None:
    pod = QueuedPod(spec=QueuedSpec(node_selector={"disk": "ssd"}))
    assert refuse(Node(metadata=ObjectMeta(labels={"disk": "hdd"}), status=READY), pod)


def test_an_init_container_with_cards_is_the_extenders_business() -> None:
    init = HostContainer(resources=Resources(limits={"nvidia.com/gpu": "1"}))
    assert asks_extender(QueuedPod(spec=QueuedSpec(init_containers=[init], containers=[HostContainer()])))


def test_a_pod_with_memory_only_is_not_the_extenders_business() -> None:
    plain = HostContainer(resources=Resources(limits={"memory": "1Gi"}))
    assert not asks_extender(QueuedPod(spec=QueuedSpec(containers=[plain])))


def test_a_resource_that_no_node_has_is_named_as_kube_scheduler_does() -> None:
    asking = HostContainer(resources=Resources(limits={"nvidia.com/gpumemory": "4000"}))
    status = NodeStatus(conditions=READY.conditions, allocatable={"pods": "110"})
    refused = refuse(Node(status=status), QueuedPod(spec=QueuedSpec(containers=[asking])))
    assert refused == ("Insufficient nvidia.com/gpumemory",)
