"""Examples of whole decisions (scheduler 4, recording 3)."""

from typing import Any

import pytest

from gpuloom.wire.objects import Pod
from oracle.answer import reason_words
from oracle.filtering import filter_pod
from oracle.records import AllocatedDevice, RegisteredCard, RegisteredNode
from oracle.replay import Replay
from oracle.samples import a_cluster, a_node, a_pod
from oracle.settings import Settings

SETTINGS = Settings()
REGISTER = "GPU-a,10,46068,100,NVIDIA-NVIDIA A40,0,true:"


def one_card(name: str, *, memory_mib: int = 1000, count: int = 10, cores: int = 100) -> RegisteredNode:
    return a_node(RegisteredCard(f"GPU-{name}", count=count, devmem=memory_mib, devcore=cores), name=name)


def messages(pod: Pod, *nodes: RegisteredNode, names: list[str], settings: Settings = SETTINGS) -> list[str]:
    return [event.message for event in filter_pod(a_cluster(*nodes), pod, names, settings).events]


def test_the_recorded_example_is_answered_as_in_the_format():
    replay = Replay()
    node = {"name": "test", "annotations": {"hami.io/node-nvidia-register": REGISTER}}
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20000", "nvidia.com/gpucores": "30"}
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u1"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    lines: list[dict[str, Any]] = [
        {"type": "SETTINGS", "flags": {"scheduler-name": "hami-scheduler"}, "time": "2024-11-20T03:28:15Z"},
        {
            "type": "ADDED",
            "object": {"kind": "Node", "metadata": node, "status": {"allocatable": {"nvidia.com/gpu": "10"}}},
        },
        {"type": "RECONCILE"},
        {"type": "FILTER", "id": "1", "args": {"Pod": pod, "Nodes": None, "NodeNames": ["test"]}},
    ]
    answers = [answer for line in lines if (answer := replay.take(line)) is not None]
    stamp = {"metadata": {"annotations": {"hami.io/node-handshake": "Requesting_2024-11-20 03:28:15"}}}
    devices = "GPU-a,NVIDIA,20000,30:;"
    assert answers == [
        {"type": "RECONCILED", "patches": [{"kind": "Node", "namespace": "", "name": "test", "patch": stamp}]},
        {
            "type": "FILTERED",
            "id": "1",
            "result": {
                "Nodes": None,
                "NodeNames": ["test"],
                "FailedNodes": None,
                "FailedAndUnresolvableNodes": None,
                "Error": "",
            },
            "patch": {
                "metadata": {
                    "annotations": {
                        "hami.io/vgpu-node": "test",
                        "hami.io/vgpu-time": "1732073295",
                        "hami.io/vgpu-devices-to-allocate": devices,
                        "hami.io/vgpu-devices-allocated": devices,
                        "hami.io/vgpu-mig-allocations": None,
                    },
                    "labels": {"hami.io/vgpu-node": "test"},
                }
            },
            "events": [
                {
                    "type": "Normal",
                    "reason": "FilteringSucceed",
                    "message": "find fit node(test), 0 nodes not fit, 1 nodes fit(test:0.00)",
                }
            ],
        },
    ]


def test_a_refusal_has_one_event_per_reason_word_and_a_sum():
    """D-30."""
    nodes = [one_card(name) for name in ("node-c", "node-a")]
    nodes += [one_card(name, count=0) for name in ("node-e", "node-d")]
    names = ["node-c", "node-a", "node-e", "node-d", "gone"]
    assert messages(a_pod({"gpu": 1, "gpumem": 2000}), *nodes, names=names) == [
        "2 nodes CardInsufficientMemory(node-a,node-c)",
        "2 nodes CardTimeSlicingExhausted(node-d,node-e)",
        "no available node, 5 nodes do not meet",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1/4 AllocatedCardsInsufficientRequest, 3/4 ResourceQuotaNotFit", 2),
        ("NodeInsufficientDevice", 1),
        ("node unregistered", 0),
    ],
)
def test_reason_words_are_counted_reasons_and_single_words(text: str, words: int):
    """B-40."""
    assert len(reason_words(text)) == words


def test_too_few_cards_refuse_the_node_as_a_whole():
    answer = filter_pod(a_cluster(one_card("n0")), a_pod({"gpu": 2}), ["n0"], SETTINGS)
    assert answer.failed == {"n0": "NodeInsufficientDevice"}


def test_refusals_are_short_on_demand():
    """D-06."""
    settings = Settings(failed_node_reason="short")
    answer = filter_pod(a_cluster(one_card("n0")), a_pod({"gpu": 2}), ["n0", "n1"], settings)
    assert answer.failed_nodes(settings) == {"n0": "NodeUnfitPod", "n1": "node unregistered"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [(SETTINGS, ["does not request any resource"]), (Settings(no_request_event=False), [])],
)
def test_a_pod_without_request_passes_with_an_event_that_can_be_switched_off(settings: Settings, expected: list[str]):
    """D-05."""
    assert messages(a_pod({}), one_card("n0"), names=["n0"], settings=settings) == expected


def test_unreadable_weights_fail_the_decision():
    pod = a_pod({"gpu": 1}, annotations={"hami.io/device-scoring-weights": "slot=1"})
    answer = filter_pod(a_cluster(one_card("n0")), pod, ["n0"], SETTINGS)
    assert answer.error == (
        'calcScore failed invalid hami.io/device-scoring-weights annotation "slot=1": '
        "expected slot, core, and memory weights for pod p"
    )


def test_init_containers_do_not_see_each_other_and_leave_nothing_to_regular_ones():
    pod = a_pod({"gpu": 1, "gpumem": 1000}, init=[{"gpu": 1, "gpumem": 1000}] * 2)
    answer = filter_pod(a_cluster(one_card("n0")), pod, ["n0"], SETTINGS)
    assert answer.devices == ((AllocatedDevice("GPU-n0", 1000, 0),),) * 3


def test_regular_containers_see_the_earlier_ones():
    answer = filter_pod(a_cluster(one_card("n0")), a_pod(*[{"gpu": 1, "gpumem": 600}] * 2), ["n0"], SETTINGS)
    assert answer.failed == {"n0": "1/1 CardInsufficientMemory"}


def test_sidecars_stay_beside_the_regular_containers():
    pod = a_pod({"gpu": 1, "gpumem": 600}, sidecars=[{"gpu": 1, "gpumem": 600}])
    assert filter_pod(a_cluster(one_card("n0")), pod, ["n0"], SETTINGS).failed == {"n0": "1/1 CardInsufficientMemory"}


def test_containers_without_cards_have_empty_slots():
    """B-02; D-11."""
    answer = filter_pod(a_cluster(one_card("n0")), a_pod({}, {"gpu": 1}, {}), ["n0"], SETTINGS)
    assert [len(container) for container in answer.devices] == [0, 1, 0]


def simulated(settings: Settings, *nodes: dict[str, Any]) -> dict[str, Any]:
    replay = Replay()
    replay.settings = settings
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    answer = replay.take({"type": "FILTER", "args": {"Pod": pod, "Nodes": {"items": list(nodes)}, "NodeNames": None}})
    assert answer is not None
    result: dict[str, Any] = answer["result"]
    return result


def a_node_object(name: str, register: str = REGISTER) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {"hami.io/node-nvidia-register": register}}}


def test_a_simulation_returns_the_best_node_as_it_came():
    good, other = a_node_object("a"), a_node_object("b")
    result = simulated(SETTINGS, good, other, {"metadata": {"name": "c"}})
    assert (result["Nodes"], result["FailedNodes"]) == ({"items": [good]}, {"c": "node unregistered"})


def test_a_simulation_returns_every_fitting_node_on_demand():
    """D-18."""
    nodes = [a_node_object("a"), a_node_object("b")]
    assert simulated(Settings(simulation_reply="all"), *nodes)["Nodes"] == {"items": nodes}
