"""Shares of parts of a card that are named after it: links and lists are about the card."""

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import ALLOCATED, PHASE, TO_ALLOCATE, VGPU_NODE
from local.web.pages import Pages

from gpuloom.kube import PODS
from gpuloom.local.manifests import pod_manifest

PARTS = ("GPU-n1-0[1-1]", "GPU-n1-0[1-2]")


@pytest.fixture
async def parts(pages: Pages) -> Pages:
    """A pod has two parts of the only card."""
    given = "".join(f"{part},NVIDIA,3000,0:" for part in PARTS) + ";"
    manifest = pod_manifest("parts", cards=2, memory_mib=3000)
    manifest["metadata"]["annotations"] = {VGPU_NODE: "n1", ALLOCATED: given, TO_ALLOCATE: ";", PHASE: "success"}
    manifest["spec"] |= {"nodeName": "n1", "schedulerName": "hami-scheduler"}
    pod = await pages.site.client.create(PODS, manifest, namespace="default")
    await poll(lambda: pages.site.process.state.cluster.ledger.find(pod.metadata.uid) is not None)
    return pages


async def test_a_part_leads_to_its_card(parts: Pages) -> None:
    html = await parts.read("/pods/default/parts")
    for part in PARTS:
        assert f'href="/cards/GPU-n1-0" title="{part}">{part}</a>' in html
    assert "/cards/GPU-n1-0%5B" not in html


async def test_the_page_of_a_pod_names_its_cards_by_node_and_index_as_lists_do(parts: Pages) -> None:
    await parts.site.register("n2")
    for query in ("", "?node=n2"):
        html = await parts.read(f"/pods/default/parts{query}")
        told = [
            f'data-label="Card">n1/0<br><span class="copied"><a class="uuid" href="/cards/GPU-n1-0" title="{part}">'
            for part in PARTS
        ]
        assert [one in html for one in told] == [True, True]
    shown = await parts.read("/pods/default/parts")
    assert '<th scope="row">n2/0<br><span class="copied"><a class="uuid" href="/cards/GPU-n2-0"' in shown


async def test_a_card_is_found_by_the_id_of_a_part(parts: Pages) -> None:
    for share in (await parts.see("/pods"))["items"][0]["shares"]:
        seen = await parts.see(f"/cards/{share['uuid']}")
        assert (seen["uuid"], len(seen["holders"])) == ("GPU-n1-0", 1)


async def test_parts_of_one_card_count_as_one_card(parts: Pages) -> None:
    assert 'data-label="Cards">1</td>' in await parts.read("/pods")
