"""The pods of a node as the monitor knows them."""

import asyncio

from unit.kube.scripted import ScriptedServer, bad_pod, failure, pod, pod_list

from gpuloom.node.monitor.pods import NodePods


async def test_a_pod_that_cannot_be_read_any_more_stays_as_it_was_known() -> None:
    """trust T-11: a list in which it stands unreadable does not say that it is gone."""
    answers = pod_list(pod("a"), pod("b")), failure(410), pod_list(bad_pod("a") | {"spec": 5})
    async with ScriptedServer(*answers) as server, server.client() as client, asyncio.timeout(10):
        pods = NodePods(client, "n1")
        task = asyncio.create_task(pods.run())
        await server.held.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [one.name for one in pods.all] == ["a"]
