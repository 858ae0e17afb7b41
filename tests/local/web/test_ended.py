"""Pods that hold no card any more and will get none: nobody judges where they would fit."""

import msgspec
import pytest
from local.scheduler.clock import poll
from local.web.pages import Pages
from local.web.scenes import run_pod

from gpuloom.engine.explanation.values import Explanation
from gpuloom.kube import PODS
from gpuloom.local.manifests import pod_manifest
from gpuloom.wire.objects import Pod


async def be_dropped(pages: Pages, pod: Pod) -> None:
    await poll(lambda: pod.metadata.uid not in pages.site.process.state.shown.pods)


async def end(pages: Pages, phase: str = "Succeeded") -> None:
    """Let a pod run on a card and end, as those of Jobs do."""
    await run_pod(pages.site, "job", "n1")
    await be_dropped(pages, await pages.site.change_pod("job", {"status": {"phase": phase}}, subresource="status"))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_is_told_so_and_not_where_it_fits(pages: Pages, phase: str) -> None:
    await end(pages, phase)
    seen = msgspec.convert(await pages.see("/explain/default/job"), Explanation)
    assert (seen.outcome, seen.why) == ("ended", "pod default/job has ended and holds no card.")
    assert (seen.nodes, seen.remedies, seen.host) == ((), (), None)
    told = await pages.see("/preempt/default/job")
    assert told["headline"] == "nobody would be evicted: it has ended and holds no card"


async def test_a_pod_that_is_deleted_before_it_had_a_node_is_told_so(pages: Pages) -> None:
    pod = await pages.site.submit("gone")
    await pages.site.change_pod("gone", {"metadata": {"finalizers": ["test/hangs"]}})
    await pages.site.client.delete(PODS, "gone", namespace="default")
    await be_dropped(pages, pod)
    seen = await pages.see("/explain/default/gone")
    assert (seen["outcome"], seen["headline"]) == ("ended", "is being deleted and gets no card")
    told = await pages.see("/preempt/default/gone")
    assert told["headline"] == "nobody would be evicted: it is being deleted and gets no card"


async def test_the_page_of_a_pod_that_has_ended_is_not_below_pending(pages: Pages) -> None:
    await end(pages)
    html = await pages.read("/pods/default/job")
    assert '<span class="badge closed">ended</span> has ended and holds no card' in html
    assert '<a href="/pods" aria-current="page">' in html


async def test_whether_a_pod_like_one_that_has_ended_would_fit_is_still_told(pages: Pages) -> None:
    manifest = pod_manifest("again", memory_mib=3000) | {"status": {"phase": "Succeeded"}}
    _, seen = await pages.post("/fits?namespace=default", manifest)
    assert (seen["pods"], seen["explanation"]["outcome"]) == (3, "fits")
