"""What the map shows of nodes' cards."""

import json
from typing import Any

from builders import card

from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line
from gpuloom.web.pacing import Pace
from gpuloom.web.views.heat import Tile, list_tiles
from gpuloom.web.views.source import Source
from gpuloom.wire.register import encode_register

REGISTER, CORDON = "hami.io/node-nvidia-register", "hami.io/device-cordon"
OFFERED = {"nvidia.com/gpu": "20"}


async def draw_tile(*pods: dict[str, Any], cordon: str = "", **spec: Any) -> Tile:
    """Return the tile of node n1, which has two cards, with these pods."""
    annotations = {REGISTER: encode_register([card("GPU-a"), card("GPU-b")]), CORDON: cordon}
    node = {
        "kind": "Node",
        "metadata": {"name": "n1", "annotations": annotations},
        "spec": spec,
        "status": {"allocatable": OFFERED, "capacity": OFFERED},
    }
    player = Player()
    facts = ({"type": "ADDED", "object": one} for one in (node, *pods))
    for line in ({"type": "SETTINGS", "flags": {}}, *facts, {"type": "RECONCILE"}):
        await player.play(decode_line(json.dumps(line).encode()))
    (tile,) = await Pace().finish(list_tiles(Source(player.process.parts)))
    return tile


def foreign_pod() -> dict[str, Any]:
    """A pod that came past the scheduler and holds nobody knows which card."""
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": "foreign", "namespace": "default", "uid": "uid-foreign"},
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }


async def test_cards_that_a_pod_closes_are_closed_not_cordoned() -> None:
    tile = await draw_tile(foreign_pod())
    assert (tile.closed, tile.cordoned, tile.free, tile.needs_attention) == (2, 0, 0, True)


async def test_a_card_that_is_cordoned_is_so_even_where_a_pod_closes_it() -> None:
    tile = await draw_tile(foreign_pod(), cordon="GPU-a")
    assert (tile.closed, tile.cordoned) == (1, 1)


async def test_empty_cards_of_a_node_are_free() -> None:
    assert (await draw_tile()).free == 2


async def test_cards_of_a_node_that_takes_no_pods_are_not_free() -> None:
    assert (await draw_tile(unschedulable=True)).free == 0
