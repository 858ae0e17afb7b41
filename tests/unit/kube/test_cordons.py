"""Cards that are closed for moves, beside what anybody may have written on the node."""

import time

from unit.kube.scripted import ScriptedServer, reply

from gpuloom.kube.cordons import MoveClosing
from gpuloom.wire.keys import NODE_DEFRAG, NODE_DEFRAG_RENEWED, NODE_MOVING

MANY = [f"{number}" for number in range(30_000)]


async def test_a_note_of_very_many_cards_keeps_nobody_waiting() -> None:
    """Who may write a node's annotations could stop the scheduler by it."""
    noted = {"metadata": {"name": "n1", "annotations": {NODE_MOVING: ",".join(MANY)}}}
    async with ScriptedServer(reply(noted), reply({"metadata": {"name": "n1"}})) as server, server.client() as client:
        began = time.process_time()
        opened = await MoveClosing(client, "n1", NODE_MOVING, [*MANY]).open()
    assert (len(opened), time.process_time() - began < 2.0) == (len(MANY), True)


async def test_nobody_renews_what_another_closed() -> None:
    """It would take the other's note for its own, and open those cards at its end."""
    others = {NODE_DEFRAG: "GPU-b", NODE_DEFRAG_RENEWED: "by another"}
    node = reply({"metadata": {"name": "n1", "annotations": others}})
    async with ScriptedServer(node, node) as server, server.client() as client:
        await MoveClosing(client, "n1", NODE_DEFRAG, ["GPU-a"]).renew()
    assert [seen.method for seen in server.seen] == ["GET"]
