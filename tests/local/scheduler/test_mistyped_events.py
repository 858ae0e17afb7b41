"""New pods that ask for resources which nobody has get an event: a Deployment's author sees no warning."""

from typing import Any

import pytest
from builders import pod
from local.scheduler.clock import let_answers_arrive
from local.scheduler.site import Site

from gpuloom.kube import NODES, PODS
from gpuloom.scheduler.events.mistyped import REASON
from gpuloom.scheduler.pods.mistyped import MOST_NEW, MistypedPods
from gpuloom.scheduler.settings import SchedulerSettings


async def create(site: Site, name: str, *resources: str, **spec: Any) -> None:
    container = {"name": "main", "image": "i", "resources": {"limits": dict.fromkeys(resources, "1")}}
    manifest = {
        "metadata": {"name": name},
        "spec": {"schedulerName": "hami-scheduler", "containers": [container], **spec},
    }
    await site.client.create(PODS, manifest, namespace="default")


async def read_events(site: Site, name: str) -> list[str]:
    """Return what was said of a pod's resources once everything has happened."""
    for _ in range(3):
        await site.clock.advance(1)
        await let_answers_arrive()
    return [event.message for event in await site.events(name) if event.reason == REASON]


@pytest.mark.parametrize("beside", [(), ("nvidia.com/gpu",)], ids=["alone", "beside a card"])
async def test_the_nearest_right_name_is_told(site: Site, beside: tuple[str, ...]) -> None:
    await create(site, "p", "nvidia.com/gpumemory", *beside)
    (told,) = await read_events(site, "p")
    assert told.startswith("container main: no node has nvidia.com/gpumemory")
    assert told.endswith("did you mean nvidia.com/gpumem?")


@pytest.mark.parametrize(
    ("resource", "spec"),
    [("example.com/fpga", {}), ("nvidia.com/gpumem", {}), ("nvidia.com/gpumemory", {"schedulerName": "other"})],
    ids=["another's", "right", "another scheduler's"],
)
async def test_what_is_no_doubt_of_ours_is_not_told(site: Site, resource: str, spec: dict[str, str]) -> None:
    await create(site, "p", "nvidia.com/gpu", resource, **spec)
    assert await read_events(site, "p") == []


async def test_what_some_node_offers_is_not_told(site: Site) -> None:
    status = {"allocatable": {"nvidia.com/gpumemory": "1"}}
    await site.wait_for_node(await site.client.patch(NODES, "n1", {"status": status}, subresource="status"))
    await create(site, "p", "nvidia.com/gpumemory")
    assert await read_events(site, "p") == []


def test_of_very_many_at_once_some_are_told() -> None:
    mistyped = MistypedPods(SchedulerSettings().catalog, lambda pod: pod)
    for number in range(MOST_NEW + 1):
        mistyped.note_new(pod(name=f"p-{number}", gpumemory=1))
    assert (len(mistyped.take_new()), mistyped.take_new()) == (MOST_NEW, [])
