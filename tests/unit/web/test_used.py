"""What is in use of all cards together, and what of its cards a pod uses."""

import json
from typing import Any

from builders import card

from gpuloom.engine.explanation.values import Amount
from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line
from gpuloom.web.views.source import Source
from gpuloom.web.views.used import use_of_all, use_of_pod
from gpuloom.wire.monitors import MonitorReport, ReportedCard, ReportedPod
from gpuloom.wire.register import encode_register
from gpuloom.wire.words import encode_unix_time

MIB = 2**20
NVIDIA, DCU = "hami.io/node-nvidia-register", "hami.io/node-dcu-register"
OFFERED = {"nvidia.com/gpu": "10", "hygon.com/dcunum": "10"}


def node(name: str, **uuids: str) -> dict[str, Any]:
    """A node with a card of each vendor that is named."""
    keys = {"nvidia": NVIDIA, "dcu": DCU}
    annotations = {keys[vendor]: encode_register([card(uuid)]) for vendor, uuid in uuids.items()}
    status = {"allocatable": OFFERED, "capacity": OFFERED}
    return {"kind": "Node", "metadata": {"name": name, "annotations": annotations}, "status": status}


async def play(*objects: dict[str, Any]) -> Source:
    """Return a scheduler that has seen these, whose monitors are asked."""
    player = Player()
    facts = ({"type": "ADDED", "object": one} for one in objects)
    for line in ({"type": "SETTINGS", "flags": {}}, *facts, {"type": "RECONCILE"}):
        await player.play(decode_line(json.dumps(line).encode()))
    source = Source(player.process.parts)
    source.book.is_on = True
    return source


def hear(source: Source, node_name: str, uuid: str, *, at: float) -> None:
    """Let a monitor say something of a card at a time."""
    source.book.clock = lambda: at
    report = MonitorReport(cards=(ReportedCard(uuid, 1000 * MIB, 40),))
    source.book.note(node_name, report, source.registered(node_name), set())
    source.book.tidy({"n1", "n2"})


async def test_the_use_of_all_cards_is_of_when_the_oldest_figure_in_it_is() -> None:
    source = await play(node("n1", nvidia="GPU-a"), node("n2", nvidia="GPU-b"))
    told = []
    for name, uuid, at in (("n1", "GPU-a", 100), ("n2", "GPU-b", 160), ("n2", "GPU-b", 220), ("n2", "GPU-b", 290)):
        hear(source, name, uuid, at=at)
        seen = use_of_all(source)
        assert seen is not None
        told.append((seen.cards, seen.at))
    # What n1 said is forgotten in the end.
    assert told == [(cards, encode_unix_time(at)) for cards, at in ((1, 100), (2, 100), (2, 100), (1, 290))]


async def test_what_a_pod_uses_is_told_beside_what_it_has_of_the_cards_that_are_told_of() -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "hygon.com/dcunum": "1", "hygon.com/dcumem": "8000"}
    annotations = {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,3000,0:;",
        "hami.io/dcu-devices-allocated": "DCU-b,DCU,8000,0:;",
    }
    pod = {
        "kind": "Pod",
        "metadata": {"name": "both", "namespace": "default", "uid": "uid-both", "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }
    source = await play(node("n1", nvidia="GPU-a", dcu="DCU-b"), pod)
    held = source.state.cluster.ledger.find("uid-both")
    assert held is not None
    assert source.cards_of(held) == {"GPU-a", "DCU-b"}
    report = MonitorReport(pods=(ReportedPod("default", "both", "GPU-a", 1000 * MIB, 7),))
    source.book.note("n1", report, source.registered("n1"), {("default", "both", "GPU-a")})
    seen = use_of_pod(source, held)
    assert seen is not None
    assert (seen.memory, seen.cards) == (Amount(used=1000, total=3000), 1)
