"""What people are told of nodes on which others wait for their room is what Filter does there."""

import json
from typing import Any

import msgspec
import pytest
from builders import card

from gpuloom.engine.steps import run_to_end
from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line
from gpuloom.web.views.explaining import explain_pod, fit_pod
from gpuloom.web.views.source import EVERYTHING, Source
from gpuloom.wire.objects import Pod
from gpuloom.wire.register import encode_register

CARD_MIB = 10_000


def pod(name: str, memory_mib: int, *, priority: int = 0, containers: int = 1) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory_mib)}
    asked = [{"name": f"c{at}", "resources": {"limits": limits}} for at in range(containers)]
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}"}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": asked, "priority": priority}}


async def play(player: Player, *lines: dict[str, Any]) -> Any:
    answers = [await player.play(decode_line(json.dumps(line).encode())) for line in lines]
    return answers[-1]


async def choose(player: Player, asked: dict[str, Any]) -> bool:
    answer = await play(player, {"type": "FILTER", "args": {"Pod": asked, "NodeNames": ["n1"]}})
    return bool(answer["result"]["NodeNames"])


async def wait_on(cards: int, waiting: dict[str, Any], *victims: dict[str, Any]) -> Player:
    """Return a scheduler of one node with such cards, on which a pod waits for others to leave."""
    player = Player()
    register = encode_register([card(f"GPU-{at}", index=at, memory_mib=CARD_MIB) for at in range(cards)])
    metadata = {"name": "n1", "annotations": {"hami.io/node-nvidia-register": register}}
    node = {"kind": "Node", "metadata": metadata, "status": {"allocatable": {"nvidia.com/gpu": "20"}}}
    await play(
        player,
        {"type": "SETTINGS", "flags": {"preemption": "on"}},
        {"type": "ADDED", "object": node},
        {"type": "RECONCILE"},
    )
    for one in victims:
        assert await choose(player, one)
    uid, uids = waiting["metadata"]["uid"], [one["metadata"]["uid"] for one in victims]
    nominated = {"type": "NOMINATED", "uid": uid, "node": "n1", "since": 0, "victims": uids}
    await play(player, {"type": "ADDED", "object": waiting}, nominated)
    return player


@pytest.mark.parametrize("containers", [1, 2])
async def test_so_many_pods_fit_as_leave_the_waiting_their_room(containers: int) -> None:
    player = await wait_on(2, pod("high", 6000, priority=10))
    manifest = msgspec.json.encode(pod("like", 2000, containers=containers))
    told = run_to_end(fit_pod(Source(player.process.parts), EVERYTHING, manifest, "default"))
    placed = 0
    while await choose(player, pod(f"p{placed}", 2000, containers=containers)):
        placed += 1
    assert (told.pods, placed) == (7 // containers, 7 // containers)


@pytest.mark.parametrize(("priority", "changes"), [(0, []), (10, []), (20, ["memory", "pods", "requests"])])
async def test_what_would_help_is_told_where_no_room_is_kept_for_others(priority: int, changes: list[str]) -> None:
    player = await wait_on(1, pod("high", 9000, priority=10), pod("low", 8000))
    asked = msgspec.convert(pod("p", 5000, priority=priority), Pod)
    told = run_to_end(explain_pod(Source(player.process.parts), EVERYTHING, asked))
    assert [one.change for one in told.remedies] == changes
