"""What cannot be read closes cards, never opens them (trust T-11)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from builders import card, pod
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.state.card_table import NodeCards
from gpuloom.kube import Unreadable
from gpuloom.scheduler.pods.handler import PodHandler
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import ObjectMeta, Pod

NODE, ALLOCATED = "hami.io/vgpu-node", "hami.io/vgpu-devices-allocated"
GOOD = "GPU-a,NVIDIA,3000,0:;"
GPU = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}


class Scene:
    """Three cards on node n1, and what the pod watch tells."""

    def __init__(self, **flags: Any) -> None:
        self.state = SchedulerState(SchedulerSettings(**flags))
        self.state.cluster.register("n1", "NVIDIA", NodeCards(tuple(card(f"GPU-{one}") for one in "abc")))
        self.book = PodHandler(self.state, lambda: 0.0)

    def room(self, memory_mib: int = 16384) -> int:
        """On how many cards such a pod fits."""
        cards = {
            f"GPU-{one}": pod(gpu=1, gpumem=memory_mib, annotations={"nvidia.com/use-gpuuuid": f"GPU-{one}"})
            for one in "abc"
        }
        demands = [self.state.settings.read_demands(one) for one in cards.values()]
        return sum(self.state.pod_scheduler.decide(one, ("n1",)).node is not None for one in demands)

    def why(self) -> str:
        return (
            self.state.pod_scheduler.decide(self.state.settings.read_demands(pod(gpu=1, gpumem=1)), ("n1",))
            .refusals["n1"]
            .text
        )


def bound(shares: str | None, *, node: str | None = "n1", limits: Mapping[str, Any] = GPU, **spec: Any) -> Pod:
    annotations = {key: value for key, value in {NODE: node, ALLOCATED: shares}.items() if value is not None}
    container = {"name": "main", "resources": {"limits": limits}}
    body = {
        "metadata": {"name": "a", "namespace": "ml", "uid": "uid-a", "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [container]} | spec,
    }
    return msgspec.convert(body, Pod)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("shares", ["GPU-a,NVIDIA,many,0:;", "GPU-a,NVIDIA:;", "GPU-a,NVIDIA,-3000,0:;"])
def test_a_list_that_cannot_be_read_closes_the_card_that_it_names(scene: Scene, shares: str) -> None:
    scene.book.apply(bound(shares))
    assert scene.room() == 2


@pytest.mark.parametrize("shares", ["junk", "", ";", None, "GPU-?,NVIDIA,x,0:;", ",NVIDIA,x,0:;"])
def test_a_list_that_names_no_card_of_the_node_closes_all_of_its_vendor(scene: Scene, shares: str | None) -> None:
    scene.book.apply(bound(shares))
    assert scene.why() == "3/3 CardUnaccounted"


def test_what_can_be_read_beside_it_counts(scene: Scene) -> None:
    scene.book.apply(bound("GPU-a,NVIDIA,3000,0:GPU-b:;"))
    held = scene.state.cluster.ledger.usage(("n1", "NVIDIA", "GPU-a"))
    assert (held.memory_mib, scene.room()) == (3000, 1)


def test_a_broken_list_of_another_vendor_hides_nothing(scene: Scene) -> None:
    whole = bound(GOOD)
    annotations = {**whole.annotations, "hami.io/dcu-devices-allocated": "x,y:"}
    scene.book.apply(msgspec.structs.replace(whole, metadata=ObjectMeta(uid="uid-a", annotations=annotations)))
    assert scene.room() == 2


def test_it_opens_when_the_pod_is_gone(scene: Scene) -> None:
    scene.book.apply(bound("junk"))
    scene.state.waiting.capacity_freed.clear()
    scene.book.delete(bound("junk"))
    assert (scene.room(), scene.state.waiting.capacity_freed.is_set()) == (3, True)


def test_it_opens_when_the_pod_is_over(scene: Scene) -> None:
    scene.book.apply(bound("junk"))
    scene.book.apply(
        msgspec.structs.replace(bound("junk"), status=msgspec.convert({"phase": "Failed"}, type(Pod().status)))
    )
    assert scene.room() == 3


def test_it_opens_when_the_pod_can_be_read(scene: Scene) -> None:
    scene.book.apply(bound("GPU-a,NVIDIA,many,0:;"))
    scene.book.apply(bound(GOOD))
    assert scene.room(13000) == 3


def test_it_opens_when_a_new_list_does_not_name_the_pod(scene: Scene) -> None:
    scene.book.apply(bound("junk"))
    scene.book.begin_list()
    scene.book.end_list()
    assert scene.room() == 3


def test_it_stays_closed_while_the_pod_is_being_deleted(scene: Scene) -> None:
    gone = ObjectMeta(name="a", uid="uid-a", annotations={NODE: "n1", ALLOCATED: "junk"}, deletion_timestamp="now")
    scene.book.apply(msgspec.structs.replace(bound("junk"), metadata=gone))
    assert scene.room() == 0


@pytest.mark.parametrize(
    "harmless",
    [
        bound("junk", limits={}),
        bound("junk", limits={"cpu": "1"}),
        bound("junk", limits={"nvidia.com/gpu": "0"}),
        bound("junk", nodeName=""),
        bound("junk", node="n2"),
    ],
    ids=["asks for nothing", "asks for no card", "asks for 0 cards", "is not bound", "is bound elsewhere"],
)
def test_junk_on_other_pods_closes_nothing(scene: Scene, harmless: Pod) -> None:
    scene.book.apply(harmless)
    assert scene.room() == 3


def test_what_was_decided_here_is_known_whatever_the_annotation_says(scene: Scene) -> None:
    scene.book.apply(bound(GOOD))
    scene.book.apply(bound("junk"))
    assert scene.room(13000) == 3


def test_as_hami_does_it_closes_nothing_if_so_set() -> None:
    scene = Scene(unreadable="ignore")
    scene.book.apply(bound("GPU-a,NVIDIA,many,0:;"))
    assert scene.room() == 3


# Pods that cannot be read as a whole.


def unreadable(**parts: Any) -> Unreadable:
    body = {
        "metadata": {"name": "a", "namespace": "ml", "uid": "uid-a", "annotations": 7},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": GPU}}]},
    }
    return Unreadable(ObjectMeta("a", "ml", "uid-a"), msgspec.Raw(msgspec.json.encode(body | parts)), "wrong type")


@pytest.mark.parametrize("spec", [{}, {"spec": {"nodeName": "n1", "containers": 3}}], ids=["asks", "nobody knows"])
def test_a_bound_pod_that_cannot_be_read_closes_its_node(scene: Scene, spec: Any) -> None:
    scene.book.take_unreadable(unreadable(**spec))
    assert scene.why() == "3/3 CardUnaccounted"


@pytest.mark.parametrize(
    "parts",
    [
        {"spec": {"nodeName": "n1", "containers": [{"resources": {"limits": {"cpu": 1}}}]}},
        {"spec": {"containers": 3}},
        {"status": {"phase": "Succeeded"}},
    ],
    ids=["asks for no card", "is not bound", "is over"],
)
def test_another_pod_that_cannot_be_read_closes_nothing(scene: Scene, parts: Any) -> None:
    scene.book.take_unreadable(unreadable(**parts))
    assert scene.room() == 3


def test_a_counted_pod_that_cannot_be_read_any_more_keeps_what_it_has(scene: Scene) -> None:
    scene.book.apply(bound(GOOD))
    scene.book.take_unreadable(unreadable())
    assert (scene.room(13000), scene.room()) == (3, 2)


def test_a_counted_pod_that_stands_unreadable_in_a_new_list_is_not_gone(scene: Scene) -> None:
    scene.book.apply(bound(GOOD))
    scene.book.begin_list()
    scene.book.take_unreadable(unreadable())
    scene.book.end_list()
    assert scene.room() == 2


def test_a_node_opens_when_its_unreadable_pod_is_deleted(scene: Scene) -> None:
    scene.book.take_unreadable(unreadable())
    scene.state.waiting.capacity_freed.clear()
    scene.book.delete(Pod(metadata=ObjectMeta("a", "ml", "uid-a")))
    assert (scene.room(), scene.state.waiting.capacity_freed.is_set()) == (3, True)


def test_a_node_opens_when_a_new_list_lacks_the_unreadable_pod(scene: Scene) -> None:
    scene.book.take_unreadable(unreadable())
    scene.book.begin_list()
    scene.book.end_list()
    assert scene.room() == 3


def test_a_pod_that_can_be_read_again_counts_as_it_is(scene: Scene) -> None:
    scene.book.take_unreadable(unreadable())
    scene.book.apply(bound(GOOD))
    assert (scene.room(13000), scene.room()) == (3, 2)


def test_a_pod_that_can_be_read_again_and_is_none_of_ours_opens_its_node(scene: Scene) -> None:
    scene.book.take_unreadable(unreadable(spec={"nodeName": "n1", "containers": 3}))
    scene.book.apply(bound(None, node=None, limits={}))
    assert scene.room() == 3


# Whatever stands there.

PIECES = ["GPU-a", "GPU-b", "GPU-x", "NVIDIA", "3000", "-1", "0", "", " ", ",", ":", ";", "[1-0]", "é", "99999999999"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=16).map("".join) | st.text(max_size=20)


@given(TEXTS)
def test_no_text_makes_more_room_than_the_list_that_was_written(text: str) -> None:
    """A pod of one card of 3000 MiB never leaves three cards whole: it is counted, or its cards are closed."""
    scene = Scene()
    scene.book.apply(bound(text))
    held = scene.state.cluster.ledger.find("uid-a")
    names_a_card = held is not None and any(share.uuid for share, _ in held.each_share())
    assert scene.room() < 3 or (names_a_card and scene.room(1) == 3)


@given(TEXTS, TEXTS)
def test_no_text_makes_more_room_beside_other_pods(text: str, node: str) -> None:
    scene = Scene()
    other = bound("GPU-b,NVIDIA,9000,0:;")
    scene.book.apply(msgspec.structs.replace(other, metadata=msgspec.structs.replace(other.metadata, uid="uid-b")))
    before = scene.room(8000)
    scene.book.apply(bound(text, node=node))
    assert scene.room(8000) <= before
