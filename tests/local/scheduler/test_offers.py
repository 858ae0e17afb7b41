"""One attempt of kube-scheduler can be several Filter calls: a nominated or hinted node alone, then all nodes.

The pods of a group are all filtered before the first of them is bound.
"""

from local.scheduler.site import Site

BIG = 9000


def reserved_on(site, pod):
    held = site.process.state.cluster.ledger.find(pod.metadata.uid)
    return held.node if held is not None else None


async def test_a_node_offered_alone_and_refused_holds_nothing_and_the_rest_is_offered_after_it(site: Site) -> None:
    await site.register("n2")
    assert await site.choose(await site.submit("occupant", memory_mib=BIG), "n1") == "n1"
    pod = await site.submit(memory_mib=BIG)
    assert await site.choose(pod, "n1") is None
    assert reserved_on(site, pod) is None
    assert await site.choose(pod, "n1", "n2") == "n2"
    assert await site.bind(pod, "n2") == ""


async def test_a_refused_offer_gives_back_what_an_earlier_attempt_reserved(site: Site) -> None:
    """Its bind failed; the node that was nominated then is offered alone."""
    await site.register("n2")
    pod = await site.submit(memory_mib=BIG)
    assert await site.choose(pod, "n1", "n2") == "n1"
    assert await site.choose(await site.submit("occupant", memory_mib=BIG), "n2") == "n2"
    assert await site.choose(pod, "n2") is None
    assert reserved_on(site, pod) is None
    assert await site.choose(await site.submit("other", memory_mib=BIG), "n1") == "n1"


async def test_a_node_offered_alone_that_fits_is_reserved_and_bound(site: Site) -> None:
    await site.register("n2")
    pod = await site.submit(memory_mib=BIG)
    assert await site.choose(pod, "n2") == "n2"
    assert reserved_on(site, pod) == "n2"
    assert await site.bind(pod, "n2") == ""


async def test_a_pod_with_cards_gets_one_node_so_that_no_ranking_is_left_for_hints(site: Site) -> None:
    for name in ("n2", "n3"):
        await site.register(name)
    reply = await site.filter(await site.submit(), "n1", "n2", "n3")
    assert len(reply["NodeNames"]) == 1


async def test_a_group_that_is_tried_again_before_any_bind_holds_its_room_once(site: Site) -> None:
    await site.register("n2")
    group = [await site.submit(name, memory_mib=BIG) for name in ("a", "b")]
    for _ in range(3):
        assert {await site.choose(pod, "n1", "n2") for pod in group} == {"n1", "n2"}
    for pod in group:
        assert await site.bind(pod, str(reserved_on(site, pod))) == ""


async def test_a_group_that_is_given_up_holds_its_room_until_its_pods_are_filtered_or_gone(site: Site) -> None:
    """kube-scheduler tells nobody that it takes a decision back."""
    await site.register("n2")
    group = [await site.submit(name, memory_mib=BIG) for name in ("a", "b", "c")]
    assert [await site.choose(pod, "n1", "n2") is None for pod in group] == [False, False, True]
    stranger = await site.submit("stranger", memory_mib=BIG)
    assert await site.choose(stranger, "n1", "n2") is None
    for pod in group:
        await site.remove(pod)
    assert await site.choose(stranger, "n1", "n2") is not None
