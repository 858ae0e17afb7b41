import json
from collections.abc import Mapping
from typing import Any

import pytest

from gpuloom.scheduler.recording import LineError, Player
from gpuloom.scheduler.recording.lines import decode_line

REGISTER = "GPU-1,10,10000,100,NVIDIA-NVIDIA A40,0,true:"
ALLOCATED = "hami.io/vgpu-devices-allocated"


async def play(player: Player, **line: Any) -> Any:
    return await player.play(decode_line(json.dumps(line).encode()))


async def play_answer(player: Player, **line: Any) -> dict[str, Any]:
    answer = await play(player, **line)
    assert isinstance(answer, dict)
    return answer


def node(name: str = "a", **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {"hami.io/node-nvidia-register": REGISTER, **annotations}}
    return {"kind": "Node", "metadata": metadata, "status": {"allocatable": {"nvidia.com/gpu": "10"}}}


def pod(name: str = "p", memory_mib: int = 1000, limits: Mapping[str, str] | None = None) -> dict[str, Any]:
    limits = limits or {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory_mib)}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}


def filter_args(asked: dict[str, Any], *names: str, **more: Any) -> dict[str, Any]:
    return {"Pod": asked, "Nodes": None, "NodeNames": list(names), **more}


async def player_with_node(**flags: Any) -> Player:
    player = Player()
    await play(player, type="SETTINGS", flags={"scheduler-name": "s", **flags}, time="2026-05-04T08:00:00Z")
    await play(player, type="ADDED", object=node())
    await play(player, type="RECONCILE")
    return player


async def ask(player: Player, asked: dict[str, Any], *names: str) -> dict[str, Any]:
    return await play_answer(player, type="FILTER", args=filter_args(asked, *(names or ("a",))))


async def review(player: Player, asked: dict[str, Any]) -> dict[str, Any]:
    request = {"uid": "r", "namespace": "ns", "object": asked}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = await play_answer(player, type="REVIEW", review=body)
    response = answer["response"]["response"]
    assert isinstance(response, dict)
    return response


async def test_write_fails_for_the_call_of_any_kind_of_id() -> None:
    player = await player_with_node(**{"filter-write": "inline"})
    target = {"kind": "Pod", "namespace": "ns", "name": "p"}
    await play(player, type="WRITE_FAILED", of={"a": 1}, object=target, status=0)
    answer = await play_answer(player, type="FILTER", id={"a": 1}, args=filter_args(pod(), "a"))
    assert answer["result"]["Error"] == "patch Pod ns/p: no answer"


@pytest.mark.parametrize("id_", ["x", 7, {"a": 1}])
async def test_id_comes_back_as_it_was_sent(id_: object) -> None:
    assert (await play_answer(Player(), type="RECONCILE", id=id_))["id"] == id_


async def test_line_without_id_has_an_answer_without_one() -> None:
    assert "id" not in await play_answer(Player(), type="RECONCILE")


async def test_node_has_no_cards_before_the_next_pass() -> None:
    player = Player()
    await play(player, type="ADDED", object=node())
    assert (await ask(player, pod()))["result"]["FailedNodes"] == {"a": "node unregistered"}


async def test_pass_can_be_limited_to_some_nodes() -> None:
    player = Player()
    await play(player, type="ADDED", object=node("a"))
    await play(player, type="ADDED", object=node("b"))
    await play(player, type="RECONCILE", nodes=["b"])
    assert (await ask(player, pod(), "a", "b"))["result"]["NodeNames"] == ["b"]


async def test_handshakes_are_answered_in_the_order_of_names() -> None:
    player = Player()
    for name in ("c", "a", "b"):
        await play(player, type="ADDED", object=node(name))
    patches = (await play_answer(player, type="RECONCILE"))["patches"]
    assert [patch["name"] for patch in patches] == ["a", "b", "c"]


async def test_clock_begins_in_1970_and_stands_still() -> None:
    player = Player()
    await play(player, type="ADDED", object=node())
    first = await play_answer(player, type="RECONCILE")
    assert first["patches"][0]["patch"]["metadata"]["annotations"] == {
        "hami.io/node-handshake": "Requesting_1970-01-01 00:00:00"
    }


async def test_local_time_is_that_of_the_recorded_zone() -> None:
    player = Player()
    await play(player, type="SETTINGS", flags={"timezone": "Asia/Shanghai"}, time="2026-05-04T08:00:00Z")
    await play(player, type="ADDED", object=node())
    patches = (await play_answer(player, type="RECONCILE"))["patches"]
    assert patches[0]["patch"]["metadata"]["annotations"] == {
        "hami.io/node-handshake": "Requesting_2026-05-04 16:00:00"
    }


async def test_settings_start_over() -> None:
    player = await player_with_node()
    await play(player, type="SETTINGS")
    assert (await ask(player, pod()))["result"]["FailedNodes"] == {"a": "node unregistered"}


async def test_flags_of_other_things_are_skipped() -> None:
    player = await player_with_node(**{"enable-ascend": True, "kube-qps": "5"})
    assert (await ask(player, pod()))["result"]["NodeNames"] == ["a"]


@pytest.mark.parametrize("value", ["false", False])
async def test_flag_is_a_value_or_its_text(value: object) -> None:
    player = await player_with_node(**{"no-request-event": value})
    assert (await ask(player, pod(limits={"cpu": "1"})))["events"] == []


async def test_resource_names_are_those_of_the_device_configuration() -> None:
    player = Player()
    await play(
        player,
        type="SETTINGS",
        deviceConfig={"nvidia": {"resourceCountName": "gpu", "resourceMemoryName": "mem", "defaultGPUNum": 1}},
    )
    await play(player, type="ADDED", object=node())
    await play(player, type="RECONCILE")
    answer = await ask(player, pod(limits={"gpu": "1", "mem": "5"}))
    assert answer["patch"]["metadata"]["annotations"][ALLOCATED] == "GPU-1,NVIDIA,5,0:;"


async def test_unreadable_filter_call_is_an_error_in_its_answer() -> None:
    answer = await play_answer(Player(), type="FILTER", args={"Pod": 5})
    assert "got `int`" in answer["result"]["Error"]


async def test_filter_without_pod_is_an_error_in_its_answer() -> None:
    answer = await play_answer(Player(), type="FILTER", args={"NodeNames": ["a"]})
    assert answer["result"]["Error"] == "extender args missing pod"


async def test_unreadable_review_is_denied() -> None:
    answer = await play_answer(Player(), type="REVIEW", review={"kind": "Nonsense"})
    assert answer["response"]["response"]["status"]["code"] == 400


async def test_bind_does_not_wait_for_a_lock_in_use() -> None:
    player = await player_with_node()
    owner = pod("owner") | {"kind": "Pod"}
    owner["spec"]["nodeName"] = "a"
    await play(player, type="ADDED", object=owner)
    await play(player, type="MODIFIED", object=node(**{"hami.io/mutex.lock": "2026-05-04T07:59:59Z,ns,owner"}))
    await play(player, type="ADDED", object=pod() | {"kind": "Pod"})
    await ask(player, pod())
    args = {"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "a"}
    answer = await play_answer(player, type="BIND", args=args)
    assert answer["result"]["Error"] == "timed out after 28s waiting for node a to be unlocked: node lock contention"


async def test_write_that_failed_after_the_answer_gives_the_room_back() -> None:
    player = await player_with_node()
    await play(player, type="ADDED", object=pod(memory_mib=9000) | {"kind": "Pod"})
    await ask(player, pod(memory_mib=9000))
    args = {"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "a"}
    await play(player, type="BIND", id="b", args=args)
    await play(player, type="WRITE_FAILED", of="b", object={"kind": "Pod", "namespace": "ns", "name": "p"}, status=404)
    assert (await ask(player, pod("q", memory_mib=9000)))["result"]["NodeNames"] == ["a"]


async def test_inline_write_that_fails_is_the_error_of_the_filter() -> None:
    """scheduler 7.1 Filter's patch."""
    player = await player_with_node(**{"filter-write": "inline"})
    status = {"code": 404, "message": "gone"}
    await play(player, type="WRITE_FAILED", of=1, object={"kind": "Pod", "namespace": "ns", "name": "p"}, status=status)
    answer = await play_answer(player, type="FILTER", id=1, args=filter_args(pod(memory_mib=9000), "a"))
    assert (answer["result"]["Error"], answer["patch"]) == ("patch Pod ns/p: gone (HTTP 404)", None)
    assert (await ask(player, pod("q", memory_mib=9000)))["result"]["NodeNames"] == ["a"]


async def test_refusal_with_inline_writes_takes_back_what_an_earlier_filter_wrote() -> None:
    """B-20."""
    player = await player_with_node(**{"filter-write": "inline"})
    asked = pod(memory_mib=99999)
    asked["metadata"]["annotations"] = {"hami.io/vgpu-node": "a"}
    patch = (await ask(player, asked))["patch"]
    assert patch["metadata"]["labels"] == {"hami.io/vgpu-node": None}
    assert set(patch["metadata"]["annotations"].values()) == {None}


async def test_pod_that_is_gone_is_refused() -> None:
    player = await player_with_node()
    await play(player, type="FORGOTTEN", uid="uid-p", why="gone")
    assert (await ask(player, pod()))["result"]["Error"] == "pod ns/p is deleted"


async def test_a_group_that_failed_is_refused_until_one_of_it_is_woken() -> None:
    player = await player_with_node()
    first, second = (pod(name, memory_mib=8000) for name in ("first", "second"))
    for one in (first, second):
        one["spec"]["schedulingGroup"] = {"podGroupName": "train"}
        await play(player, type="ADDED", object={"kind": "Pod", **one})
    answers = [(await ask(player, one))["result"]["NodeNames"] for one in (first, second)]
    await play(player, type="FORGOTTEN", uid="uid-first", why="group")
    answers.append((await ask(player, first))["result"]["NodeNames"])
    second["metadata"]["annotations"] = {"gpuloom.io/woken": "2026-05-04T08:00:00Z"}
    await play(player, type="MODIFIED", object={"kind": "Pod", **second})
    answers.append((await ask(player, first))["result"]["NodeNames"])
    assert answers == [["a"], None, None, ["a"]]


async def test_decision_has_no_label_without_the_switch() -> None:
    player = await player_with_node(**{"pod-label": False})
    assert "labels" not in (await ask(player, pod()))["patch"]["metadata"]


async def test_node_name_that_is_too_long_for_a_label_gives_none() -> None:
    """B-21."""
    player, name = Player(), "n" * 64
    await play(player, type="ADDED", object=node(name))
    await play(player, type="RECONCILE")
    assert "labels" not in (await ask(player, pod(), name))["patch"]["metadata"]


async def test_simulation_tells_of_every_node_that_fits_with_the_switch() -> None:
    player = await player_with_node(**{"simulation-reply": "all"})
    items = [{key: value for key, value in node(name).items() if key != "kind"} for name in ("x", "y")]
    args = filter_args(pod()) | {"Nodes": {"items": items}}
    answer = await play_answer(player, type="FILTER", args=args)
    assert [item["metadata"]["name"] for item in answer["result"]["Nodes"]["items"]] == ["x", "y"]


async def test_cores_are_left_alone_without_the_switch() -> None:
    player = await player_with_node(**{"exclusive-cores": False})
    response = await review(player, pod(limits={"nvidia.com/gpu": "1"}))
    assert [operation["path"] for operation in response["patch"]] == ["/spec/schedulerName"]


async def test_quota_is_not_asked_at_admission_without_the_switch() -> None:
    player = await player_with_node(**{"admission-quota": False})
    hard = {"limits.nvidia.com/gpumem": "1"}
    await play(
        player,
        type="ADDED",
        object={"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": hard}},
    )
    assert (await review(player, pod()))["allowed"]


async def test_unusable_amount_passes_without_the_switch() -> None:
    player = await player_with_node(**{"strict-quantities": False})
    assert (await review(player, pod(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "0.5"})))["allowed"]


async def test_owned_keys_stay_without_the_switch() -> None:
    player = await player_with_node(**{"strip-owned-keys": False})
    asked = pod()
    asked["metadata"]["annotations"] = {"hami.io/vgpu-node": "a"}
    assert [operation["op"] for operation in (await review(player, asked))["patch"]] == ["add"]


async def test_quota_of_the_review_s_namespace_counts_for_a_pod_without_one() -> None:
    """B-52."""
    player = await player_with_node()
    hard = {"limits.nvidia.com/gpumem": "999"}
    await play(
        player,
        type="ADDED",
        object={"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": hard}},
    )
    asked = pod()
    del asked["metadata"]["namespace"]
    assert (await review(player, asked))["status"]["message"] == "exceeding resource quota"


async def test_lost_lines_change_nothing() -> None:
    assert await play(Player(), type="LOST", count=3) is None


async def test_status_of_a_failed_write_must_be_readable() -> None:
    player = await player_with_node()
    await play(player, type="WRITE_FAILED", of=1, object={"kind": "Pod", "name": "p"}, status={"code": "x"})
    with pytest.raises(LineError, match="status"):
        await play(player, type="FILTER", id=1, args=filter_args(pod(), "a"))


async def test_events_are_told_in_full() -> None:
    player = Player()
    names = [f"a-node-with-a-name-that-is-not-short-{number:03}" for number in range(200)]
    for name in names:
        await play(player, type="ADDED", object=node(name))
    await play(player, type="RECONCILE")
    message = (await ask(player, pod(), *names))["events"][0]["message"]
    assert all(f"{name}:0.00" in message for name in names)
