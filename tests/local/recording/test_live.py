"""Recording a running scheduler: what comes out is replayed to the same answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from local.scheduler.churn import NODES, Churn
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, LOCK, VGPU_NODE, Site, open_site

from gpuloom.kube import PODS, load_kubeconfig
from gpuloom.local.apiserver import InjectedFault
from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.check import ReplayCheck
from gpuloom.scheduler.recording.lines import AnswerLine, decode_line
from gpuloom.scheduler.recording.live import run_recorded
from gpuloom.scheduler.recording.liveclient import RecordingClient
from gpuloom.scheduler.recording.snapshot import take_snapshot
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.lock import NodeLock, encode_lock
from gpuloom.wire.objects import Pod


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as site:
        credentials = load_kubeconfig(tmp_path / "kubeconfig")
        site.client = await site.stack.enter_async_context(RecordingClient(credentials, sleep=site.clock.sleep))
        yield site


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recording.jsonl"


async def start(site: Site, file: Path, settings: SchedulerSettings = DEFAULTS) -> None:
    recorded = run_recorded(settings, site.client, file, site.clock.clocks)  # type: ignore[arg-type]
    site.process = await site.stack.enter_async_context(recorded)
    await site.process.wait_synced()
    await site.register("n1")


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]


async def check(file: Path) -> tuple[int, list[str]]:
    player, verdict, differences = Player(), ReplayCheck(), list[str]()
    for text in map(json.dumps, read(file)):
        line = decode_line(text.encode())
        if isinstance(line, AnswerLine):
            differences += map(str, verdict.compare(line, text.encode()))
        elif (answer := await player.play(line)) is not None:
            verdict.note(answer)
    return verdict.answers, differences


async def test_what_was_recorded_is_replayed_to_the_same_answers(site: Site, file: Path) -> None:
    await start(site, file)
    first, second = await site.submit("first", memory_mib=6000), await site.submit("second", memory_mib=6000)
    await site.choose(first)
    await site.choose(second)
    await site.clock.advance(3)
    await site.bind(first)
    await poll(lambda: bool(site.process.state.shown.pods[first.metadata.uid].spec.node_name))
    await site.remove(first)
    await site.annotate("n1", {LOCK: None})
    await site.choose(second)
    await site.clock.advance(16)
    await site.bind(second)
    await site.stack.aclose()
    assert await check(file) == (5, [])


async def test_bind_that_the_api_server_refused_is_replayed(site: Site, file: Path) -> None:
    await start(site, file)
    pod = await site.submit(memory_mib=6000)
    await site.choose(pod)
    site.server.faults.add(InjectedFault(path="/binding", status=422))
    assert await site.bind(pod) != ""
    await site.stack.aclose()
    assert (await check(file))[1] == []
    assert "WRITE_FAILED" in {line["type"] for line in read(file)}


async def test_inline_writes_are_on_the_pod_and_replayed(site: Site, file: Path) -> None:
    await start(site, file, replace(DEFAULTS, filter_write="inline", trust_annotations=True))
    pod = await site.submit()
    await site.choose(pod)
    assert (await site.pod()).annotations[VGPU_NODE] == "n1"
    assert await site.bind(pod) == ""
    await site.stack.aclose()
    assert await check(file) == (2, [])


async def test_bind_whose_caller_hung_up_holds_nothing_back(site: Site, file: Path) -> None:
    await start(site, file)
    await site.annotate("n1", {LOCK: encode_lock(NodeLock(site.clock.now(), "default", "other"))})
    pod = await site.submit()
    await site.choose(pod)
    waiting = site.start_bind(pod)
    await poll(lambda: site.process.locks.waiting == 1)
    waiting.cancel()
    await poll(lambda: site.process.locks.waiting == 0)
    await site.submit("later")
    await site.stack.aclose()
    names = [line["object"]["metadata"]["name"] for line in read(file) if line["type"] == "ADDED"]
    assert ("later" in names, "BIND" in {line["type"] for line in read(file)}) == (True, False)


async def test_inline_filter_whose_caller_hung_up_holds_nothing_back(site: Site, file: Path) -> None:
    await start(site, file, replace(DEFAULTS, filter_write="inline", trust_annotations=True))
    pod = await site.submit()
    site.server.faults.add(held := InjectedFault(method="PATCH", path=f"/pods/{pod.name}", delay_s=3600.0))
    asking = asyncio.create_task(site.choose(pod))
    await poll(lambda: held not in site.server.faults.waiting)
    asking.cancel()
    await site.submit("later")
    await poll(lambda: "later" in file.read_text(encoding="utf-8"))


async def test_webhook_is_replayed(site: Site, file: Path) -> None:
    await start(site, file)
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "secret"}]}]},
    }
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}  # type: ignore[index]
    request = {"uid": "u", "namespace": "default", "object": pod}
    await site.call("webhook", {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    await site.stack.aclose()
    assert await check(file) == (1, [])


async def test_environment_values_and_foreign_annotations_stay_out(site: Site, file: Path) -> None:
    """binding 6 recordings."""
    await start(site, file)
    await site.register("n2", annotations={"example.com/token": "secret"})
    container = {"name": "main", "image": "i", "env": [{"name": "KEY", "value": "secret"}]}
    container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}  # type: ignore[assignment]
    pod = {"metadata": {"name": "q"}, "spec": {"containers": [container]}}
    request = {"uid": "u", "namespace": "default", "object": pod}
    await site.call("webhook", {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    await site.submit(spec={"containers": [container]})
    await site.stack.aclose()
    text = json.dumps(read(file))
    assert ("KEY" in text, "secret" in text) == (True, False)


async def test_expired_reservation_is_a_line(site: Site, file: Path) -> None:
    await start(site, file)
    pod = await site.submit()
    await site.choose(pod)
    await site.clock.advance(905)
    await poll(lambda: site.process.state.cluster.ledger.find(pod.metadata.uid) is None)
    await site.stack.aclose()
    assert [line["why"] for line in read(file) if line["type"] == "FORGOTTEN"] == ["expired"]


async def test_settings_are_those_of_the_process(site: Site, file: Path) -> None:
    settings = replace(DEFAULTS, node_scheduler_policy="spread", node_lock_timeout_s=60)
    await start(site, file, settings)
    await site.stack.aclose()
    flags = read(file)[0]["flags"]
    assert (flags["node-scheduler-policy"], flags["node-lock-timeout"], flags["timezone"]) == ("spread", 60, "UTC")


async def test_snapshot_begins_a_recording(site: Site, file: Path) -> None:
    await start(site, file)
    pod = await site.submit()
    await site.choose(pod)
    await site.bind(pod)
    await site.client.create(
        PODS,
        {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        namespace="default",
    )
    lines = list(await take_snapshot(site.client, DEFAULTS))
    facts = [(line["object"]["kind"], line["object"]["metadata"]["name"]) for line in lines if "object" in line]
    assert (lines[0]["type"], facts, lines[-1]) == (
        "SETTINGS",
        [("Node", "n1"), ("Pod", "p")],
        {"type": "RECONCILE"},
    )


async def submit_mistyped(site: Site) -> Pod:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpumemory": "3000"}}}
    body = {"metadata": {"name": "mistyped"}, "spec": {"containers": [container]}}
    return await site.client.create(PODS, body, namespace="default")


async def test_snapshot_has_pods_that_ask_for_a_mistyped_resource_alone(site: Site, file: Path) -> None:
    await start(site, file)
    await submit_mistyped(site)
    assert "mistyped" in json.dumps(list(await take_snapshot(site.client, DEFAULTS)))


async def test_recording_has_pods_that_ask_for_a_mistyped_resource_alone_until_they_are_gone(
    site: Site, file: Path
) -> None:
    await start(site, file)
    pod = await submit_mistyped(site)
    await poll(lambda: pod.metadata.uid in site.process.state.shown.mistyped.uids())
    await site.remove(pod)
    await poll(lambda: not site.process.state.shown.mistyped.uids())
    await site.stack.aclose()
    types = [line["type"] for line in read(file) if line.get("object", {}).get("kind") == "Pod"]
    assert (types[0], types[-1]) == ("ADDED", "DELETED")


async def test_snapshot_counts_what_pods_hold(site: Site, file: Path) -> None:
    await start(site, file)
    pod = await site.submit(memory_mib=6000)
    await site.choose(pod)
    await site.bind(pod)
    player = Player()
    for line in await take_snapshot(site.client, DEFAULTS):
        await player.play(decode_line(json.dumps(line).encode()))
    held = player.process.parts.state.cluster.ledger.find(pod.metadata.uid)
    assert held is not None
    assert held.node == "n1"


async def test_pod_that_has_the_name_of_a_deleted_one_is_another(site: Site, file: Path) -> None:
    await start(site, file)
    for memory_mib in (6000, 7000):
        pod = await site.submit(memory_mib=memory_mib)
        assert await site.choose(pod) == "n1"
        await site.bind(pod)
        await site.annotate("n1", {LOCK: None})
        await site.remove(pod)
    await site.stack.aclose()
    assert await check(file) == (4, [])
    assert [line["type"] for line in read(file) if line.get("object", {}).get("kind") == "Pod"].count("DELETED") == 2


async def test_binds_of_a_node_without_lock_are_replayed_without_one(site: Site, file: Path) -> None:
    """binding 9: the pod of the device plugin and the kubelet's answer are in the recording."""
    await start(site, file)
    spec = {"nodeName": "n1", "containers": [{"name": "plugin", "image": "i"}]}
    labels = {"app.kubernetes.io/component": "hami-device-plugin"}
    body = {"metadata": {"name": "plugin", "labels": labels}, "spec": spec}
    plugin = await site.client.create(PODS, body, namespace="default")
    await poll(lambda: plugin.metadata.uid in site.process.state.shown.plugins.uids())
    await site.annotate("n1", {"gpuloom.io/serves": f"NVIDIA;{plugin.metadata.uid}"})
    first, second = await site.submit("first", memory_mib=100), await site.submit("second", memory_mib=100)
    await site.choose(first)
    await site.choose(second)
    assert await site.bind(first) == ""
    waiting = site.start_bind(second)
    await poll(lambda: site.process.locks.waiting == 1)
    started = {"status": {"startTime": "2026-11-21T12:00:00Z"}}
    await site.change_pod("first", started, subresource="status")
    assert await waiting == ""
    await site.stack.aclose()
    assert [one["patches"] for one in read(file) if one["type"] == "BOUND"] == [[], []]
    assert await check(file) == (4, [])


async def test_binds_to_nodes_that_kube_scheduler_chose_are_replayed(site: Site, file: Path) -> None:
    """binding 10: the reservation moves before the lock is waited for, and others are filtered meanwhile."""
    await start(site, file, replace(DEFAULTS, node_choice="scheduler"))
    await site.register("n2")
    first, second = await site.submit("first", memory_mib=6000), await site.submit("second", memory_mib=6000)
    await site.filter(first, "n1", "n2")
    await site.call("prioritize", {"Pod": first, "Nodes": None, "NodeNames": ["n1", "n2"]})
    await site.annotate("n2", {LOCK: encode_lock(NodeLock(site.clock.now(), "default", "second"))})
    waiting = site.start_bind(first, "n2")
    await poll(lambda: site.process.locks.waiting == 1)
    assert (await site.filter(second, "n1", "n2"))["NodeNames"] == ["n1"]
    assert "does not take" in await site.bind(second, "n2")
    await site.annotate("n2", {LOCK: None})
    assert await site.clock.run_until_done(waiting) == ""
    await site.stack.aclose()
    kinds = [line["type"] for line in read(file)]
    assert kinds.index("MOVED") < kinds.index("BIND")
    assert await check(file) == (5, [])


async def test_making_room_is_replayed_to_the_same_answers(site: Site, file: Path) -> None:
    await start(site, file, replace(DEFAULTS, preemption="on"))
    state = site.process.state

    async def submit(name: str, memory_mib: int, priority: int) -> Pod:
        return await site.submit(name, memory_mib=memory_mib, spec={"priority": priority})

    low = await submit("low", 8000, 1)
    await site.choose(low)
    await site.bind(low)
    await site.wait_bound(low)
    high = await submit("high", 8000, 10)
    assert await site.choose(high) is None
    await site.clock.run_until(lambda: state.shown.is_terminating(low.metadata.uid), step_s=0.05)
    for number, (memory_mib, priority) in enumerate([(3000, 10), (1000, 1), (3000, 1)]):
        await site.choose(await submit(f"between-{number}", memory_mib, priority))
    assert await site.choose(high) is None
    await site.remove(low)
    await site.choose(await submit("after", 3000, 10))
    assert await site.choose(await submit("highest", 8000, 100)) == "n1"
    await site.clock.run_until(lambda: not len(state.nominations))
    await site.choose(high)
    await site.choose(await submit("last", 1000, 1))
    await site.stack.aclose()
    answers, differences = await check(file)
    assert (answers >= 10, differences) == (True, [])
    assert {"NOMINATED", "NOMINATION_ENDED"} <= {line["type"] for line in read(file)}


class RecordedChurn(Churn):
    """A churn whose process is recorded instead of judged."""

    def __init__(self, site: Site, chance: Random, file: Path) -> None:
        super().__init__(site, chance)
        self._file = file

    async def start(self) -> None:
        site, settings = self._site, replace(DEFAULTS, preemption="on")
        recorded = run_recorded(settings, site.client, self._file, site.clock.clocks)  # type: ignore[arg-type]
        site.process = await site.stack.enter_async_context(recorded)
        await site.process.wait_synced()


@pytest.mark.parametrize("seed", range(3))
async def test_a_churn_of_all_priorities_is_replayed_to_the_same_answers(site: Site, file: Path, seed: int) -> None:
    chance = Random(seed)
    churn = RecordedChurn(site, chance, file)
    await churn.start()
    for name in NODES:
        await site.register(name)
    for _ in range(15):
        for _ in range(chance.randint(0, 3)):
            await churn.create()
        await churn.schedule()
        await churn.pause()
        await churn.let_leavers_go()
        if chance.random() < 0.2:
            await churn.delete_somebody()
    await site.stack.aclose()
    answers, differences = await check(file)
    assert (answers >= 30, differences) == (True, [])
    assert any(line["type"] == "NOMINATED" for line in read(file))


def is_bound(site: Site, uid: str) -> bool:
    return bool(site.process.state.shown.pods[uid].spec.node_name)


async def test_the_cpu_that_a_decision_looked_at_is_recorded_and_replayed(site: Site, file: Path) -> None:
    await start(site, file, replace(DEFAULTS, node_scheduler_policy="fragmentation"))
    await site.register("n2")
    for number in range(3):
        pod = await site.submit(f"p{number}", memory_mib=3000)
        chosen = await site.choose(pod, "n1", "n2")
        await site.clock.advance(3)
        assert await site.bind(pod, str(chosen)) == ""
        await poll(partial(is_bound, site, pod.metadata.uid))
        for node in ("n1", "n2"):
            await site.annotate(node, {LOCK: None})
    await site.stack.aclose()
    told = [line["cpu"] for line in read(file) if line["type"] == "OUTLOOK"]
    assert told
    assert {name for line in told for name in line} == {"n1", "n2"}
    assert await check(file) == (6, [])
