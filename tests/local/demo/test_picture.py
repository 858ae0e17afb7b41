from gpuloom.engine.state.usage import Usage
from gpuloom.local.demo.picture import TimedEvent, draw_picture, explain_waiting
from gpuloom.local.demo.screen import draw_bar
from gpuloom.local.demo.story import Scene
from gpuloom.local.demo.verdict import find_faults
from gpuloom.model.card import Card
from gpuloom.wire.keys import DEVICES_ALLOCATED, NODE_REGISTER
from gpuloom.wire.objects import Container, Node, ObjectMeta, ObjectReference, Pod, PodSpec, PodStatus, Resources
from gpuloom.wire.register import encode_register

CARD = Card(id="GPU-a", index=0, count=10, memory_mib=20000, cores=100, model="NVIDIA L4", healthy=True)


def make_node(**annotations: str) -> Node:
    return Node(metadata=ObjectMeta(name="n1", annotations={NODE_REGISTER: encode_register([CARD]), **annotations}))


def make_pod(name: str, shares: str = "", *, node: str = "n1", phase: str = "Running", init: int = 0) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, annotations={DEVICES_ALLOCATED: shares}),
        spec=PodSpec(node_name=node, containers=[Container()], init_containers=[Container()] * init),
        status=PodStatus(phase=phase),
    )


def make_event(
    pod: str, message: str, second: int, reason: str = "FilteringFailed", namespace: str = "default"
) -> TimedEvent:
    return TimedEvent(
        metadata=ObjectMeta(name=f"{pod}.{message}", uid=f"{pod}.{message}"),
        reason=reason,
        message=message,
        involved_object=ObjectReference(kind="Pod", uid=pod, name=pod, namespace=namespace),
        last_timestamp=f"2026-01-01T00:00:{second:02}Z",
    )


def test_a_card_adds_up_what_its_pods_hold() -> None:
    pods = [make_pod("a", "GPU-a,NVIDIA,3000,10:;"), make_pod("b", "GPU-a,NVIDIA,4000,20:;")]
    card = draw_picture([make_node()], pods, []).nodes[0].cards[0]
    assert (card.used, card.pods) == (Usage(2, 7000, 30), ("a", "b"))


def test_an_ended_pod_holds_nothing() -> None:
    pods = [make_pod("a", "GPU-a,NVIDIA,3000,10:;", phase="Succeeded")]
    assert draw_picture([make_node()], pods, []).nodes[0].cards[0].pods == ()


def test_an_init_container_and_the_main_one_do_not_add_up() -> None:
    pods = [make_pod("a", "GPU-a,NVIDIA,3000,10:;GPU-a,NVIDIA,4000,5:;", init=1)]
    assert draw_picture([make_node()], pods, []).nodes[0].cards[0].used == Usage(1, 4000, 10)


def test_a_node_that_registered_nothing_says_so() -> None:
    picture = draw_picture([Node(metadata=ObjectMeta(name="n1"))], [], [])
    assert picture.nodes[0].problem == "has not registered any card"


def test_an_unreadable_register_annotation_is_the_nodes_problem() -> None:
    node = Node(metadata=ObjectMeta(name="n1", annotations={NODE_REGISTER: "["}))
    assert "cannot be read" in draw_picture([node], [], []).nodes[0].problem


def test_a_pod_with_unreadable_shares_hides_nobody_else() -> None:
    pods = [make_pod("bad", "GPU-a,NVIDIA,x,0:;"), make_pod("good", "GPU-a,NVIDIA,1,0:;")]
    assert draw_picture([make_node()], pods, []).nodes[0].cards[0].pods == ("good",)


def test_a_waiting_pod_is_explained_by_the_reasons_and_not_by_the_summary() -> None:
    events = [
        make_event("a", "1 nodes CardInsufficientMemory(n1)", 5),
        make_event("a", "no available node, 1 nodes do not meet", 5),
        make_event("a", "0/1 nodes are available: 1 1/1 CardInsufficientMemory.", 5, "FailedScheduling"),
    ]
    assert explain_waiting(make_pod("a", node=""), events) == ("1 nodes CardInsufficientMemory(n1)",)


def test_reasons_of_an_earlier_try_are_not_shown() -> None:
    events = [
        make_event("a", "1 nodes CardInsufficientCore(n1)", 1),
        make_event("a", "1 nodes CardInsufficientMemory(n1)", 9),
    ]
    assert explain_waiting(make_pod("a", node=""), events) == ("1 nodes CardInsufficientMemory(n1)",)


def test_a_pod_that_only_kube_scheduler_talks_about_is_explained_in_its_words() -> None:
    events = [make_event("a", "0/1 nodes are available: 1 node(s) were unschedulable.", 1, "FailedScheduling")]
    pod = make_pod("a", node="")
    assert explain_waiting(pod, events) == ("0/1 nodes are available: 1 node(s) were unschedulable.",)


def test_what_a_pod_asks_for_is_written_in_plain_numbers() -> None:
    resources = Resources(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "60k"})
    pod = Pod(metadata=ObjectMeta(name="a", uid="a"), spec=PodSpec(containers=[Container(resources=resources)]))
    assert draw_picture([], [pod], []).waiting[0].wishes == "gpu=1 gpumem=60000"


def test_events_of_other_pods_explain_nothing() -> None:
    assert explain_waiting(make_pod("a", node=""), [make_event("b", "x", 1)]) == ()


def test_an_over_allocated_card_is_a_fault() -> None:
    pods = [make_pod("a", "GPU-a,NVIDIA,20001,10:;")]
    faults = find_faults(draw_picture([make_node()], pods, []), Scene("", running=frozenset({"a"})))
    assert faults == [
        "n1 card 0 is over-allocated: 20001 of 20000 MiB, 10 of 100 % cores, 1 of 10 pods",
    ]


def test_a_pod_that_waits_in_silence_is_a_fault() -> None:
    picture = draw_picture([make_node()], [make_pod("a", node="", phase="Pending")], [])
    assert find_faults(picture, Scene("", waiting=frozenset({"a"}))) == ["pod a waits without a reason"]


def test_a_pod_that_runs_on_no_card_is_a_fault() -> None:
    picture = draw_picture([make_node()], [make_pod("a")], [])
    assert find_faults(picture, Scene("", running=frozenset({"a"}))) == ["pod a runs without a card"]


def test_a_cluster_as_promised_has_no_fault() -> None:
    picture = draw_picture([make_node()], [make_pod("a", "GPU-a,NVIDIA,20000,100:;")], [])
    assert find_faults(picture, Scene("", running=frozenset({"a"}))) == []


def test_who_made_room_for_whom_is_told_in_order_of_time() -> None:
    events = [
        make_event("low", "gone", 2, "Preempted", "other"),
        make_event("high", "evicting", 2, "PreemptionStarted"),
        make_event("first", "gone", 1, "Preempted"),
        make_event("high", "1 nodes CardInsufficientMemory(n1)", 2),
    ]
    told = [(one.pod, one.reason) for one in draw_picture([], [], events).happened]
    assert told == [("first", "Preempted"), ("high", "PreemptionStarted"), ("other/low", "Preempted")]


def test_an_event_that_was_promised_and_did_not_come_is_a_fault() -> None:
    picture = draw_picture([], [], [make_event("low", "gone", 1, "Preempted")])
    scene = Scene("", happened=frozenset({("low", "Preempted"), ("high", "PreemptionStarted")}))
    assert find_faults(picture, scene) == ["no event PreemptionStarted tells of pod high"]


def test_a_bar_shows_the_smallest_use_and_only_full_is_full() -> None:
    assert [draw_bar(used, 1000) for used in (0, 1, 999, 1000)] == ["········", "█·······", "███████·", "████████"]
