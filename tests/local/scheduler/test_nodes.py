"""The node loop: which cards are in use, and what is written on nodes about it (scheduler 8.1 and 8.2)."""

import dataclasses

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import DEFAULTS, HANDSHAKE, REGISTER, Site, card

from gpuloom.kube import NODES
from gpuloom.scheduler import SchedulerSettings
from gpuloom.wire.register import encode_register


async def handshake_of(site: Site, name: str = "n1") -> str | None:
    return (await site.client.get(NODES, name)).annotations.get(HANDSHAKE)


async def is_shaken(site: Site, expected: str | None, name: str = "n1") -> None:
    await site.clock.run_until(lambda: site.process.state.shown.nodes[name].annotations.get(HANDSHAKE) == expected)


async def serves(site: Site, *nodes: str) -> bool:
    return await site.free_mib(*nodes) > 0


async def test_a_node_that_registered_is_asked_once(site: Site) -> None:
    """scheduler 8.1 healthy, not changed."""
    await is_shaken(site, "Requesting_2026-11-21 12:00:00")
    version = site.process.state.shown.nodes["n1"].metadata.resource_version
    await site.clock.advance(200)
    await let_answers_arrive()
    assert (await site.client.get(NODES, "n1")).metadata.resource_version == version


async def test_a_node_without_cards_is_never_asked(site: Site) -> None:
    """B-56; D-40."""
    await site.client.create(NODES, {"metadata": {"name": "plain"}})
    await site.clock.advance(100)
    await let_answers_arrive()
    assert await handshake_of(site, "plain") is None


async def test_nodes_that_were_there_before_the_start_are_asked_right_after_it(site: Site) -> None:
    """B-34; scheduler 8.1 right after the start."""
    await is_shaken(site, "Requesting_2026-11-21 12:00:00")
    await site.stack.aclose()
    await site.client.patch(NODES, "n1", {"metadata": {"annotations": {HANDSHAKE: None}}})
    await site.clock.advance(5)
    await site.start()
    await site.process.wait_synced()
    await poll(
        lambda: site.process.state.shown.nodes["n1"].annotations.get(HANDSHAKE) == "Requesting_2026-11-21 12:00:05"
    )


async def test_a_node_whose_kubelet_takes_its_offer_back_is_out_at_once(site: Site) -> None:
    """scheduler 8.1 not healthy."""
    await is_shaken(site, "Requesting_2026-11-21 12:00:00")
    await site.offer("n1", 0)
    assert not await serves(site, "n1")
    await is_shaken(site, None)


async def test_a_node_that_is_down_does_not_flap(site: Site) -> None:
    """B-26."""
    await site.offer("n1", 0)
    await is_shaken(site, None)
    for _ in range(20):
        await site.clock.advance(15)
        assert not await serves(site, "n1")
    assert await handshake_of(site) is None


async def test_a_node_that_comes_back_serves_again(site: Site) -> None:
    """scheduler 8.1 healthy, changed."""
    await site.offer("n1", 0)
    await site.offer("n1", 10)
    assert await serves(site, "n1")


async def test_a_plugin_that_never_reaches_its_kubelet_is_given_up_after_a_minute(site: Site) -> None:
    await site.register("n2", count=0)
    assert await serves(site, "n2")
    await site.clock.advance(80)
    assert not await serves(site, "n2")


async def test_clean_up_can_be_written_as_older_schedulers_did(empty: Site) -> None:
    """scheduler 8.1 not healthy; D-12."""
    await empty.start(dataclasses.replace(DEFAULTS, handshake_cleanup="deleted"))
    await empty.process.wait_synced()
    await empty.register("n1")
    await is_shaken(empty, "Requesting_2026-11-21 12:00:00")
    await empty.offer("n1", 0)
    await empty.clock.run_until(
        lambda: (
            empty.process.state.shown.nodes["n1"].annotations.get(HANDSHAKE, "").startswith("Deleted_2026-11-21 12:00:")
        )
    )


async def test_every_node_is_asked_when_all_are_to_be_probed(empty: Site) -> None:
    """D-40."""
    await empty.start(dataclasses.replace(DEFAULTS, handshake_probe="all"))
    await empty.process.wait_synced()
    await empty.client.create(NODES, {"metadata": {"name": "plain"}})
    await poll(lambda: HANDSHAKE in getattr(empty.process.state.shown.nodes.get("plain"), "annotations", {}))


async def test_a_handshake_that_cannot_be_written_is_tried_again(empty: Site) -> None:
    """scheduler 8.2 failing patch."""
    await empty.start()
    await empty.process.wait_synced()
    empty.fail("PATCH", "/nodes/n1", status=500)
    await empty.register("n1")
    assert await serves(empty, "n1")
    await empty.clock.run_until(lambda: HANDSHAKE in empty.process.state.shown.nodes["n1"].annotations, step_s=5)


async def test_only_nodes_with_the_selected_labels_serve(empty: Site) -> None:
    """scheduler 8.1 label selector."""
    await empty.start(dataclasses.replace(DEFAULTS, node_label_selector="gpu=on, pool=a"))
    await empty.process.wait_synced()
    await empty.register("in", labels={"gpu": "on", "pool": "a", "more": "x"})
    await empty.register("out", labels={"gpu": "on"})
    assert (await serves(empty, "in"), await serves(empty, "out")) == (True, False)


async def test_a_node_that_loses_its_label_is_out(empty: Site) -> None:
    """scheduler 8.1 label selector."""
    await empty.start(dataclasses.replace(DEFAULTS, node_label_selector="gpu=on"))
    await empty.process.wait_synced()
    await empty.register("n1", labels={"gpu": "on"})
    await empty.wait_for_node(await empty.client.patch(NODES, "n1", {"metadata": {"labels": {"gpu": None}}}))
    assert not await serves(empty, "n1")


async def test_a_deleted_node_is_out(site: Site) -> None:
    """scheduler 8.1 node deleted."""
    await site.client.delete(NODES, "n1")
    await poll(lambda: "n1" not in site.process.state.shown.nodes)
    assert not await serves(site, "n1")


async def test_a_cordoned_card_is_out_at_once(site: Site) -> None:
    """B-28."""
    await site.annotate("n1", {"hami.io/device-cordon": card("n1").id})
    assert not await serves(site, "n1")


async def test_a_card_is_cordoned_at_once_while_the_registration_cannot_be_read(site: Site) -> None:
    """B-28."""
    await site.annotate("n1", {REGISTER: "broken"})
    await site.annotate("n1", {"hami.io/device-cordon": card("n1").id})
    assert not await serves(site, "n1")


async def test_a_card_is_opened_again_at_once_while_the_registration_cannot_be_read(site: Site) -> None:
    """B-28."""
    await site.annotate("n1", {"hami.io/device-cordon": card("n1").id})
    await site.annotate("n1", {REGISTER: "broken"})
    await site.annotate("n1", {"hami.io/device-cordon": None})
    assert await serves(site, "n1")


@pytest.mark.parametrize(
    "text",
    [
        encode_register([card("n1", memory_mib=5000), card("n1", memory_mib=5000)]),
        encode_register([card("n1", memory_mib=-5000)]),
    ],
    ids=["one card twice", "a negative amount"],
)
async def test_a_registration_that_cannot_be_leaves_the_cards_as_they_were(site: Site, text: str) -> None:
    """B-27."""
    await site.annotate("n1", {REGISTER: text})
    assert await site.free_mib("n1") == card("n1").memory_mib


async def test_a_node_whose_registration_vanishes_is_out_and_no_longer_asked(site: Site) -> None:
    """B-27."""
    await is_shaken(site, "Requesting_2026-11-21 12:00:00")
    await site.annotate("n1", {REGISTER: None})
    assert not await serves(site, "n1")
    await is_shaken(site, None)


@pytest.mark.parametrize("selector", ["gpu", "=on", "gpu=on,pool"])
def test_a_selector_that_cannot_be_used_is_one_clear_error(selector: str) -> None:
    with pytest.raises(ValueError, match="--node-label-selector"):
        SchedulerSettings(node_label_selector=selector)


async def test_a_node_that_was_just_asked_by_another_is_used_after_a_start(empty: Site) -> None:
    """B-57: healthy with a young question and no offer yet."""
    await empty.client.create(
        NODES,
        {
            "metadata": {
                "name": "n1",
                "annotations": {
                    REGISTER: encode_register([card("n1")]),
                    HANDSHAKE: "Requesting_2026-11-21 11:59:50",
                },
            }
        },
    )
    await empty.start()
    await empty.process.wait_synced()
    assert await serves(empty, "n1")


async def test_a_missed_change_of_time_is_found_by_the_regular_pass(site: Site) -> None:
    """scheduler 8.1 every 15 s; scheduler 8.3 handshake limit of 60 s."""
    await site.register("n2", count=0)
    await is_shaken(site, "Requesting_2026-11-21 12:00:00", "n2")
    began_s = site.clock.elapsed_s
    await site.clock.run_until(lambda: site.process.state.cluster.registered("n2", "NVIDIA") is None)
    # Seen a step or so after it was written.
    assert 59 <= site.clock.elapsed_s - began_s <= 76
