"""kube-scheduler asks before it evicts pods for CPU or memory: only where cards fit then, and with whom beside."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import Site, card
from local.scheduler.test_leadership import ELECTED
from local.scheduler.test_preemption import (
    NOMINATED,
    ON,
    change_while_planning,
    is_nominated,
    leaves_nobody,
    make_room,
    run,
    submit,
    wait_leaving,
)
from local.scheduler.test_preemption_budgets import protect, run_labelled
from msgspec.structs import replace as replace_struct

from gpuloom.engine.planning.preemption.planner import PreemptionPlanner
from gpuloom.kube import NODES, PODS
from gpuloom.model.share import Share
from gpuloom.scheduler.preemption.nominating import nominate
from gpuloom.wire.objects import Pod

BOTH = ("n1", "n2")
BYSTANDER = "of-cpu"
"""A victim of kube-scheduler without cards, which the scheduler need not know."""
ANYWHERE = {node: [BYSTANDER] for node in BOTH}


@pytest.fixture
async def site(empty: Site) -> Site:
    """A scheduler that makes room, and two nodes with one card of 10,000 MiB each."""
    return await start(empty)


async def start(site: Site, **settings: Any) -> Site:
    await site.start(replace(ON, **settings))
    await site.process.wait_synced()
    await site.register("n1")
    await site.register("n2", card("n2"))
    return site


async def ask(site: Site, pod: Pod, victims: Any, violations: int = 0) -> dict[str, tuple[list[str], int]]:
    """Ask as kube-scheduler does, with the UIDs of its victims by node; who leaves each node, and broken budgets."""
    meta = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations} for node, uids in victims.items()
    }
    reply = await site.call("preempt", {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta})
    return read(reply)


def read(reply: Any) -> dict[str, tuple[list[str], int]]:
    found = reply["NodeNameToMetaVictims"]
    return {node: ([pod["UID"] for pod in one["Pods"]], one["NumPDBViolations"]) for node, one in found.items()}


async def choose_by_kube(site: Site, pod: Pod, node: str) -> None:
    """Say as kube-scheduler does which node it makes room on."""
    await site.change_pod(pod.name, {"status": {"nominatedNodeName": node}}, subresource="status")


async def test_only_nodes_are_answered_where_cards_fit_then(site: Site) -> None:
    await run(site, "full", 9000, 50)
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, ANYWHERE) == {"n2": ([BYSTANDER], 0)}


async def test_where_cards_fit_nowhere_no_node_is_answered(site: Site) -> None:
    high = await submit(site, "high", 11000, 10)
    assert await ask(site, high, ANYWHERE) == {}


async def test_a_victim_of_kube_scheduler_gives_its_cards_back(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, {"n1": [low.metadata.uid]}) == {"n1": ([low.metadata.uid], 0)}


async def test_who_must_leave_for_the_cards_is_added_most_important_first(site: Site) -> None:
    await run(site, "small", 2000, 6)
    large, low = await run(site, "large", 5000, 5), await run(site, "low", 2000, 1)
    high = await submit(site, "high", 7500, 10)
    assert await ask(site, high, {"n1": [low.metadata.uid]}) == {"n1": ([large.metadata.uid, low.metadata.uid], 0)}


async def test_nobody_of_the_same_priority_is_added(site: Site) -> None:
    await run(site, "same", 8000, 10)
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {}


async def test_a_pod_that_holds_cards_and_is_not_bound_yet_is_not_added(site: Site) -> None:
    assert await site.choose(await submit(site, "waits", 8000, 1)) == "n1"
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {}


async def test_without_preemption_nobody_is_added_and_cards_are_looked_at_all_the_same(empty: Site) -> None:
    site = await start(empty, preemption="off")
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, ANYWHERE) == {"n2": ([BYSTANDER], 0)}
    assert list(await ask(site, high, {"n1": [low.metadata.uid]})) == ["n1"]


async def test_broken_budgets_are_added_up(site: Site) -> None:
    guarded = await run_labelled(site, "guarded", 1, "n1")
    await protect(site, 0)
    high = await submit(site, "high", 8000, 10)
    (answer,) = (await ask(site, high, {"n1": [BYSTANDER]}, violations=2)).values()
    assert (set(answer[0]), answer[1]) == ({guarded.metadata.uid, BYSTANDER}, 3)


async def test_what_kube_schedulers_victims_use_up_of_a_budget_is_used_up(site: Site) -> None:
    await run(site, "rest", 1000, 20)
    first = await run(site, "first", 4000, 1)
    second = await run(site, "second", 4000, 1)
    labels = {"metadata": {"labels": {"app": "web"}}}
    for pod in (first, second):
        await site.change_pod(pod.name, labels)
        await poll(lambda uid=pod.metadata.uid: "app" in site.process.state.shown.victim_labels[uid])  # type: ignore[misc]
    await protect(site, 1)
    high = await submit(site, "high", 8500, 10)
    (answer,) = (await ask(site, high, {"n1": [first.metadata.uid]})).values()
    assert answer[1] == 1


async def test_a_node_is_not_answered_where_strictly_no_budget_may_be_broken(empty: Site) -> None:
    site = await start(empty, preemption_budgets="strict")
    await run_labelled(site, "guarded", 1, "n1")
    await protect(site, 0)
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {}


async def test_whole_pods_are_read_as_well(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    victims = {"n1": {"Pods": [low], "NumPDBViolations": 0}}
    reply = await site.call("preempt", {"Pod": high, "NodeNameToVictims": victims, "NodeNameToMetaVictims": None})
    assert read(reply) == {"n1": ([low.metadata.uid], 0)}


async def test_a_pod_without_cards_may_have_any_node(site: Site) -> None:
    pod = await site.client.create(
        PODS,
        {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        namespace="default",
    )
    assert await ask(site, pod, {"n9": [BYSTANDER]}) == {"n9": ([BYSTANDER], 0)}


async def test_while_room_is_made_for_the_pod_nobody_else_leaves_for_it(site: Site) -> None:
    await run(site, "low", 8000, 1)
    await run(site, "other", 8000, 20, node="n2")
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high, *BOTH)
    assert await ask(site, high, {"n2": [BYSTANDER]}) == {}


async def test_a_node_whose_room_is_kept_for_another_pod_is_not_answered(site: Site) -> None:
    await run(site, "low", 8000, 1)
    await run(site, "full", 9000, 50, node="n2")
    await make_room(site, await submit(site, "first", 8000, 10))
    second = await submit(site, "second", 8000, 10)
    assert await ask(site, second, {"n1": [BYSTANDER]}) == {}


async def test_where_kube_scheduler_makes_room_gpuloom_evicts_nobody_itself(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    assert await site.choose(high, "n1") is None
    assert await ask(site, high, {"n2": [BYSTANDER]}) != {}
    await leaves_nobody(site, low)


async def test_the_pod_is_nominated_for_the_node_that_kube_scheduler_chose(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    await ask(site, high, {"n1": [low.metadata.uid]})
    await choose_by_kube(site, high, "n1")
    await poll(lambda: is_nominated(site, high))
    await site.remove(low)
    assert await site.choose(await submit(site, "other", 8000, 5)) is None
    assert (await site.pod("high")).annotations[NOMINATED].startswith("n1;")
    assert await site.choose(high) == "n1"


async def ask_for_another(site: Site) -> tuple[Pod, Pod, Pod]:
    """Let gpuloom be about to evict a pod, and kube-scheduler too; return the victim and the two that want its card."""
    low = await run(site, "low", 8000, 1)
    await run(site, "full", 9000, 50, node="n2")
    ours, theirs = await submit(site, "ours", 8000, 10), await submit(site, "theirs", 8000, 10)
    # Refused by one node of two, it has to wait for a moment before room is made for it.
    assert await site.choose(ours, "n1") is None
    assert await ask(site, theirs, ANYWHERE) == {"n1": ([low.metadata.uid, BYSTANDER], 0)}
    return low, ours, theirs


async def test_where_kube_scheduler_may_evict_gpuloom_waits_for_its_choice(site: Site) -> None:
    low, ours, theirs = await ask_for_another(site)
    await site.clock.advance(0.5)
    await let_answers_arrive()
    await choose_by_kube(site, theirs, "n1")
    await poll(lambda: is_nominated(site, theirs))
    await leaves_nobody(site, low)
    assert not is_nominated(site, ours)


async def test_where_kube_scheduler_may_evict_gpuloom_makes_room_on_another_node(site: Site) -> None:
    low, other = await run(site, "low", 8000, 1), await run(site, "other", 8000, 2, node="n2")
    ours, theirs = await submit(site, "ours", 8000, 10), await submit(site, "theirs", 8000, 10)
    assert list(await ask(site, theirs, {"n1": [low.metadata.uid]})) == ["n1"]
    assert await site.choose(ours, *BOTH) is None
    await site.clock.run_until(lambda: is_nominated(site, ours), step_s=0.05)
    await wait_leaving(site, other)


async def test_nobody_leaves_for_gpuloom_whom_kube_scheduler_may_evict_by_the_time_of_the_plan(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = await run(site, "low", 8000, 1)
    await run(site, "full", 9000, 50, node="n2")
    ours, theirs = await submit(site, "ours", 8000, 10), await submit(site, "theirs", 8000, 10)
    victims = {"n1": frozenset({low.metadata.uid})}
    promised, monotonic = site.process.state.promised, site.clock.monotonic
    change_while_planning(monkeypatch, lambda: promised.note(theirs.metadata.uid, 10, victims, monotonic()))
    assert await site.choose(ours, *BOTH) is None
    await leaves_nobody(site, low)


async def test_where_kube_scheduler_chooses_nothing_gpuloom_waits_for_a_moment_only(site: Site) -> None:
    low, ours, _ = await ask_for_another(site)
    began_s = site.clock.elapsed_s
    await site.clock.run_until(lambda: is_nominated(site, ours), step_s=0.05)
    assert 1 <= site.clock.elapsed_s - began_s < 3
    await wait_leaving(site, low)


async def test_a_node_that_is_kept_for_another_by_the_time_of_the_answer_is_not_answered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = await run(site, "low", 8000, 1)
    first, second = await submit(site, "first", 8000, 10), await submit(site, "second", 8000, 10)
    plan_beside = PreemptionPlanner.plan_beside

    def plan_while_another_is_nominated(*args: Any) -> Any:
        victims = frozenset({low.metadata.uid})
        nominate(site.process.state, first.metadata.uid, "n1", site.process.parts.clocks.unix, victims)
        return plan_beside(*args)

    monkeypatch.setattr(PreemptionPlanner, "plan_beside", plan_while_another_is_nominated)
    assert "n1" not in await ask(site, second, {"n1": [BYSTANDER]})


async def test_what_was_promised_to_one_pod_is_not_promised_to_another_for_a_moment(site: Site) -> None:
    low, _, theirs = await ask_for_another(site)
    second = await submit(site, "second", 8000, 10)
    assert await ask(site, second, ANYWHERE) == {}
    assert await ask(site, theirs, ANYWHERE) != {}
    await site.clock.advance(1)
    assert await ask(site, second, ANYWHERE) == {"n1": ([low.metadata.uid, BYSTANDER], 0)}


async def test_what_was_promised_is_promised_to_a_more_important_pod_all_the_same(site: Site) -> None:
    low, *_ = await ask_for_another(site)
    urgent = await submit(site, "urgent", 8000, 20)
    assert await ask(site, urgent, ANYWHERE) == {"n1": ([low.metadata.uid, BYSTANDER], 0)}


async def test_what_kube_scheduler_did_not_choose_is_promised_to_another(site: Site) -> None:
    lows = {node: await run(site, f"low-{node}", 8000, 1, node=node) for node in BOTH}
    first, second = await submit(site, "first", 8000, 10), await submit(site, "second", 8000, 10)
    assert (await ask(site, first, ANYWHERE)).keys() == {"n1", "n2"}
    await choose_by_kube(site, first, "n1")
    await poll(lambda: is_nominated(site, first))
    assert await ask(site, second, ANYWHERE) == {"n2": ([lows["n2"].metadata.uid, BYSTANDER], 0)}


async def test_a_node_that_was_not_answered_makes_no_nomination(site: Site) -> None:
    await run(site, "full", 9000, 50)
    high = await submit(site, "high", 8000, 10)
    await ask(site, high, ANYWHERE)
    await choose_by_kube(site, high, "n1")
    await leaves_nobody(site)
    assert not is_nominated(site, high)


async def test_a_pod_that_is_ending_gives_its_cards_back(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await site.client.delete(PODS, low.name, namespace=low.namespace)
    await wait_leaving(site, low)
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {"n1": ([BYSTANDER], 0)}


@pytest.mark.parametrize("settings", [{"preemption": "off"}, {"preemption_spares": "default"}], ids=["off", "spared"])
async def test_nobody_is_added_whom_nothing_may_evict(empty: Site, settings: dict[str, str]) -> None:
    site = await start(empty, **settings)
    await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {}


async def test_nobody_is_added_before_all_budgets_are_listed(empty: Site) -> None:
    empty.fail("GET", "/poddisruptionbudgets", status=403, times=1000)
    site = await start(empty)
    await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {}


async def test_victims_of_kube_scheduler_are_as_important_as_they_are(site: Site) -> None:
    theirs, ours = await run(site, "theirs", 2000, 6), await run(site, "ours", 6000, 5)
    await run(site, "small", 2000, 7)
    high = await submit(site, "high", 8000, 10)
    assert await ask(site, high, {"n1": [theirs.metadata.uid]}) == {"n1": ([theirs.metadata.uid, ours.metadata.uid], 0)}


async def test_a_node_that_is_not_known_or_has_no_cards_is_not_answered(site: Site) -> None:
    await site.client.create(NODES, {"metadata": {"name": "plain"}})
    await poll(lambda: "plain" in site.process.state.shown.nodes)
    high = await submit(site, "high", 8000, 10)
    assert (await ask(site, high, {node: [BYSTANDER] for node in ("n9", "plain", "n1")})).keys() == {"n1"}


def change_while_answering(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Let something change when it has been found out who has to leave which node."""
    plan_beside = PreemptionPlanner.plan_beside

    def plan_and_change(*args: Any) -> Any:
        found = yield from plan_beside(*args)
        change()
        return found

    monkeypatch.setattr(PreemptionPlanner, "plan_beside", plan_and_change)


async def test_a_node_is_not_answered_where_a_victim_holds_something_else_by_the_time_of_the_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    change_while_answering(monkeypatch, lambda: site.process.state.release(low.metadata.uid))
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {}


async def test_a_node_is_not_answered_that_others_have_filled_by_the_time_of_the_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, high = await run(site, "low", 8000, 1), await submit(site, "high", 9000, 10)
    held = site.process.state.cluster.ledger.find(low.metadata.uid)
    assert held is not None
    taken = replace_struct(
        held, uid="urgent", priority=20, shares={"NVIDIA": ((Share(card("n1").id, "NVIDIA", 2000, 0),),)}
    )
    change_while_answering(monkeypatch, lambda: site.process.state.cluster.assume(taken))
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {}


async def test_a_node_is_answered_also_where_a_pod_that_ended_is_gone_by_the_time_of_the_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = await run(site, "low", 8000, 1)
    change_while_answering(monkeypatch, lambda: site.process.state.release(low.metadata.uid))
    high = await submit(site, "high", 8000, 10)
    assert (await ask(site, high, {"n1": [low.metadata.uid]})).keys() == {"n1"}


async def test_a_node_is_not_answered_where_a_victim_might_stay_as_another_is_gone_by_the_time_of_the_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(site, "low", 5000, 1)
    other = await run(site, "other", 5000, 20)
    change_while_answering(monkeypatch, lambda: site.process.state.release(other.metadata.uid))
    high = await submit(site, "high", 5000, 10)
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {}


@pytest.mark.parametrize(("memory_mib", "answered"), [(5000, set[str]()), (4000, {"n1"}), (8000, {"n1"})])
async def test_a_node_is_not_answered_where_another_pod_leaves_by_the_time_of_the_answer_and_a_victim_might_stay(
    site: Site, monkeypatch: pytest.MonkeyPatch, memory_mib: int, answered: set[str]
) -> None:
    await run(site, "low", 5000, 1)
    other = await run(site, "other", 1000, 2)
    evicted = site.process.parts.preemption.evictor.evicted
    change_while_answering(monkeypatch, lambda: evicted.update({other.metadata.uid: None}))
    high = await submit(site, "high", memory_mib, 10)
    assert (await ask(site, high, {"n1": [BYSTANDER]})).keys() == answered


async def test_who_ceases_to_be_in_charge_meanwhile_answers_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    high = await submit(site, "high", 8000, 10)
    change_while_answering(monkeypatch, site.process.parts.gate.stop)
    assert await site.preempt(high, ANYWHERE) == {}


async def test_a_pod_for_which_room_is_made_by_the_time_of_the_answer_gets_none_elsewhere(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    high = await submit(site, "high", 8000, 10)
    state, unix = site.process.state, site.process.parts.clocks.unix
    change_while_answering(monkeypatch, lambda: nominate(state, high.metadata.uid, "n1", unix))
    assert await ask(site, high, {"n2": [BYSTANDER]}) == {}


async def test_who_is_to_leave_by_kube_scheduler_is_not_evicted_by_gpuloom_when_that_is_late(site: Site) -> None:
    low, high = await run(site, "low", 8000, 1), await submit(site, "high", 8000, 10)
    await run(site, "full", 9000, 50, node="n2")
    # Refused by one node of two, it has to wait for a moment before room is made for it.
    assert await site.choose(high, "n1") is None
    assert await ask(site, high, {"n1": [BYSTANDER]}) == {"n1": ([low.metadata.uid, BYSTANDER], 0)}
    await leaves_nobody(site, low)


async def test_without_preemption_no_pod_is_nominated_for_what_kube_scheduler_chose(empty: Site) -> None:
    site = await start(empty, preemption="off")
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    await ask(site, high, {"n1": [low.metadata.uid]})
    await choose_by_kube(site, high, "n1")
    await leaves_nobody(site)
    assert not is_nominated(site, high)


async def nominate_by_kube(site: Site, *victims: Pod) -> Pod:
    """Let kube-scheduler choose n1 for a pod; return that."""
    high = await submit(site, "high", 8000, 10)
    await ask(site, high, {"n1": [one.metadata.uid for one in victims]})
    await choose_by_kube(site, high, "n1")
    await poll(lambda: is_nominated(site, high))
    return high


async def pass_seconds(site: Site, count: int) -> None:
    for _ in range(count):
        await site.clock.advance(1)
    await let_answers_arrive()


async def test_kube_scheduler_is_given_time_to_ask_those_who_are_to_leave(site: Site) -> None:
    high = await nominate_by_kube(site, await run(site, "low", 8000, 1))
    await pass_seconds(site, 20)
    assert is_nominated(site, high)


async def test_those_whom_kube_scheduler_asked_may_take_minutes_to_leave(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await run(site, "beside", 2000, 1)
    high = await nominate_by_kube(site, low)
    await site.client.delete(PODS, low.name, namespace=low.namespace)
    await wait_leaving(site, low)
    await pass_seconds(site, 120)
    assert is_nominated(site, high)


async def test_a_victim_without_cards_may_take_minutes_to_leave_as_well(site: Site) -> None:
    """The cards are free all the while, and what it holds beside them is not."""
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"}}
    victim = await site.client.create(PODS, plain, namespace="default")
    await poll(lambda: victim.metadata.uid in site.process.state.shown.hosts.on("n1").pods)
    high = await nominate_by_kube(site, victim)
    await pass_seconds(site, 120)
    assert is_nominated(site, high)


@pytest.mark.parametrize(("body", "status"), [("{", 400), ('{"NodeNameToMetaVictims":[]}', 400), ("{}", 503)])
async def test_what_cannot_be_answered_is_refused_by_status(site: Site, body: str, status: int) -> None:
    async with site.session.post(f"{site.process.url}/preempt", data=body) as reply:
        assert reply.status == status


async def test_who_is_not_in_charge_answers_nothing(empty: Site) -> None:
    await empty.start(ELECTED)
    await empty.process.wait_synced()
    async with empty.session.post(f"{empty.process.url}/preempt", data='{"Pod":{}}') as reply:
        assert (reply.status, bool(await reply.text())) == (503, True)
