"""The form "Would it fit?" for cards of other vendors, whose pods ask in units of their own."""

import pytest
from local.scheduler.clock import poll
from local.web.pages import Pages

from gpuloom.local.vendornode import VendorNode, describe_machine


async def ask(pages: Pages, **fields: str) -> str:
    """Send the form; return the page that follows."""
    headers = {"Authorization": f"Bearer {pages.site.server.token}"}
    async with pages.session.post(f"{pages.part.url}/fits", data=fields, headers=headers) as reply:
        assert reply.status == 200
        return await reply.text()


async def add_node(pages: Pages, word: str) -> None:
    """Add a node with one card of 32,768 MiB of a vendor."""
    catalog, cluster = pages.site.process.state.settings.catalog, pages.site.process.state.cluster
    machine = describe_machine(catalog[word], cards=1, memory_mib=32768)
    await VendorNode("other", machine, pages.site.client, catalog).create({})
    await poll(lambda: cluster.registered("other", word) is not None)


@pytest.mark.parametrize("memory", ["8192", "8000"])
async def test_memory_is_asked_for_in_mib_whatever_the_vendors_unit(pages: Pages, memory: str) -> None:
    await add_node(pages, "MLU")
    assert "There is room for 4 such pods now." in await ask(pages, vendor="MLU", cards="1", memory=memory, cores="10")


async def test_cores_are_asked_for_in_per_cent_whatever_the_vendors_unit(pages: Pages) -> None:
    """A card of Moore Threads is sixteen units."""
    await add_node(pages, "Mthreads")
    said = await ask(pages, vendor="Mthreads", cards="1", memory="8192", cores="50")
    assert "There is room for 2 such pods now." in said


@pytest.mark.parametrize(
    ("vendor", "field", "whose"),
    [
        ("Biren", "memory", "Biren (birentech.com/gpu)"),
        ("Biren", "cores", "Biren (birentech.com/gpu)"),
        ("AWSNeuron", "memory", "AWSNeuron (aws.amazon.com/neuron)"),
        ("AWSNeuron", "cores", "AWSNeuron (aws.amazon.com/neuron)"),
    ],
)
async def test_what_pods_cannot_ask_of_a_vendor_is_refused_not_left_out(
    pages: Pages, vendor: str, field: str, whose: str
) -> None:
    said = await ask(pages, vendor=vendor, cards="1", **{field: "50"})
    assert f"{field}: pods that ask for cards of {whose} cannot say it; leave the field empty" in said
    assert "There is room" not in said
